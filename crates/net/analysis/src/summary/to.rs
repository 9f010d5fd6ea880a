//! `ToIPSummaryDump`: a line for each packet.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use graph::class::{Handlers, action, keyword, mandatory, read};
use graph::lang::args;
use graph::value::Raw;
use graph::{Class, Cx, Element, Next, Ran, Signals, TaskId};
use interface::pcap::{Blocks, put};
use memory::{Batch, Packet};

use super::view::View;
use super::{Binary, Known, VERSION, show};
use crate::text;
use graph::annotation::{EXTRA_LENGTH, EXTRA_PACKETS, PacketAnnotations};
use port::Reason;

/// The place of [`Reason::NotWritten`] in the class's list.
const NOT_WRITTEN: usize = 1;
/// Lines that one packet may make.
const MOST_LINES: u32 = 1 << 16;

pub static CLASS: Class = Class {
    name: "ToIPSummaryDump",
    brief: "writes a line about each packet to a file",
    doc: "Writes the FIELDS of each packet to a file, `-` where it has none. Fields of what elements know: \
          timestamp, ntimestamp, ts_sec, ts_usec, ts_usec1, first_timestamp, count, link, paint, direction, \
          aggregate, wire_len. Of Ethernet: eth_src, eth_dst, eth_type. Of IP: ip_src, ip_dst, ip_tos, \
          ip_dscp, ip_ecn, ip_ttl, ip_frag, ip_fragoff, ip_id, ip_sum, ip_proto, ip_hl, ip_len, \
          ip_capture_len, ip_opt. Of TCP, UDP and ICMP: sport, dport, tcp_seq, tcp_ack, tcp_off, tcp_flags, \
          tcp_window, tcp_urp, tcp_opt, tcp_ntopt (all but timestamps), tcp_sack, udp_len, icmp_type, \
          icmp_code, icmp_type_name, icmp_code_name, icmp_flowid, icmp_seq, icmp_nextmtu. Of the rest: \
          payload_len, payload, payload_md5, payload_md5_hex. `ip_` may be left out, and spaces stand for \
          underscores in quotes. The packets go on, if there is an output. Where a disk is full, the file ends \
          with a whole line, what comes later is dropped, if there is no output, and `ixora click` ends with \
          status 1.",
    ports: "1/0-1",
    processing: "a/h",
    arguments: &[
        mandatory("FILENAME", "the file; `-` for standard output"),
        keyword("FIELDS", "what is written; timestamp ip_src"),
        keyword("CONTENTS", "another name of FIELDS"),
        keyword("DATA", "the old name of FIELDS"),
        keyword("VERBOSE", "writes which host made it, and when; false"),
        keyword("HEADER", "writes what the lines mean first; true"),
        keyword("BANNER", "who made it; nobody"),
        keyword("MULTIPACKET", "a line for each packet that one stands for; false"),
        keyword("BAD_PACKETS", "writes `!bad` lines on packets with bad headers; false"),
        keyword("CAREFUL_TRUNC", "packets of which bytes are missing are bad; true"),
        keyword("EXTRA_LENGTH", "counts bytes that were cut off; true"),
        keyword("BINARY", "writes records instead of lines; false"),
    ],
    handlers: &Handlers::<ToSummary>(&[
        action("flush", "of no effect: each batch goes to the file at once", |_: &mut ToSummary, _| {}),
        read(
            "filename",
            "the file",
            |dump| {
                if dump.path == "-" { "<stdout>".into() } else { dump.path.clone() }
            },
        ),
    ]),
    drops: &[Reason::NotConnected, Reason::NotWritten],
    example: "ToIPSummaryDump(-, FIELDS timestamp ip_src ip_dst)",
    see: &["FromIPSummaryDump", "ToDump", "ToIPFlowDumps"],
    make: |_, conf| {
        let path: String = conf.mandatory("FILENAME")?;
        let mut fields = "timestamp ip_src".to_string();
        for key in ["DATA", "CONTENTS", "FIELDS"] {
            fields = conf.keyword::<Raw>(key)?.map_or(fields, |raw| raw.0);
        }
        let mut dump = ToSummary {
            path,
            fields: vec![],
            verbose: conf.keyword("VERBOSE")?.unwrap_or(false),
            header: conf.keyword("HEADER")?.unwrap_or(true),
            banner: conf.keyword("BANNER")?,
            several: conf.keyword("MULTIPACKET")?.unwrap_or(false),
            bad_packets: conf.keyword("BAD_PACKETS")?.unwrap_or(false),
            careful: conf.keyword("CAREFUL_TRUNC")?.unwrap_or(true),
            extra: conf.keyword("EXTRA_LENGTH")?.unwrap_or(true),
            binary: conf.keyword("BINARY")?.unwrap_or(false),
            active: true,
            file: None,
            task: None,
            packets: Signals::default(),
        };
        conf.complete()?;
        let mut wrong = vec![];
        for word in args::words(&fields) {
            let word = String::from_utf8_lossy(&args::unquote(word)).into_owned();
            match Known::find(&word) {
                None => wrong.push(format!("unknown content type '{word}'")),
                Some(known) => {
                    if dump.binary && known.binary == Binary::Never {
                        wrong.push(format!("cannot use field {word} with BINARY"));
                    }
                    dump.fields.push(known);
                }
            }
        }
        if dump.fields.is_empty() {
            wrong.push("no contents specified".into());
        }
        if wrong.is_empty() { Ok(Box::new(dump)) } else { Err(wrong.join("\n").into()) }
    },
    ..Class::BASE
};

/// A `ToIPSummaryDump` element; [`CLASS`] says what it does.
pub struct ToSummary {
    path: String,
    fields: Vec<&'static Known>,
    verbose: bool,
    header: bool,
    banner: Option<String>,
    several: bool,
    bad_packets: bool,
    careful: bool,
    extra: bool,
    binary: bool,
    /// Nothing went wrong so far.
    active: bool,
    /// `None`: lines go to the router's standard output.
    file: Option<Blocks>,
    task: Option<TaskId>,
    packets: Signals,
}

impl ToSummary {
    /// Nothing is written any more, and that is told once.
    fn fail(&mut self, cx: &Cx<'_>, error: &io::Error) {
        if std::mem::replace(&mut self.active, false) {
            cx.fail(&format!("ToIPSummaryDump({}): {error}\n", self.path));
        }
    }

    /// The lines at the top.
    fn preamble(&self, cx: &Cx<'_>) -> String {
        let mut out = format!("!IPSummaryDump {}.{}\n", VERSION.0, VERSION.1);
        if let Some(banner) = &self.banner {
            out += &format!("!creator {}\n", args::quote(banner.as_bytes()));
        }
        if self.verbose {
            let host = rustix::system::uname();
            out += &format!("!host {}\n", host.nodename().to_string_lossy());
            out += &format!("!runtime {}\n", text::time(cx.now_ns()));
        }
        out += "!data";
        for known in &self.fields {
            let name = if known.name == "ntimestamp" && !self.binary { "timestamp" } else { known.name };
            out.push(' ');
            out += name;
        }
        out += if self.binary { "\n!binary\n" } else { "\n" };
        out
    }

    /// Appends what is written of one packet.
    fn summarize(&self, packet: &Packet, out: &mut Vec<u8>) {
        let mut view = View::new(packet, self.careful, self.extra);
        if !self.fields.iter().any(|known| known.is_behind_link()) {
            view.bad = None; // nobody asked
        }
        let mut line = vec![];
        if self.binary {
            line.extend([0; 4]);
            for known in &self.fields {
                show::binary(known, &mut view, &mut line);
            }
            let length = (line.len() as u32).to_be_bytes();
            line[..4].copy_from_slice(&length);
        } else {
            let mut text = String::new();
            for (n, known) in self.fields.iter().enumerate() {
                if n > 0 {
                    text.push(' ');
                }
                show::ascii(known.field, &mut view, &mut text);
            }
            text.push('\n');
            line = text.into_bytes();
        }
        if let Some(bad) = view.bad.filter(|_| self.bad_packets) {
            if self.binary {
                // The highest bit tells that it is a line.
                out.extend(((bad.len() as u32 + 4) | 0x8000_0000).to_be_bytes());
            }
            out.extend(bad.as_bytes());
        }
        out.extend(line);
    }

    /// Writes a packet that stands for several as so many: the length is shared out
    /// among them, and so is the time.
    fn summarize_each(&self, packet: &mut Packet, out: &mut Vec<u8>) {
        let extra_packets = packet.u32_at(EXTRA_PACKETS);
        if !self.several || extra_packets == 0 {
            return self.summarize(packet, out);
        }
        let count = u64::from(extra_packets.min(MOST_LINES - 1)) + 1;
        let (kept, last_ns, first_ns) =
            (*packet.annotations(), packet.annotations().timestamp_ns, packet.first_ns());
        let here = packet.total_len() as u64;
        let extra = if self.extra { u64::from(packet.u32_at(EXTRA_LENGTH)) } else { 0 };
        let mut left = (here + extra).max(count * here);
        let step = if first_ns == 0 { 0 } else { last_ns.saturating_sub(first_ns) / (count as i64 - 1) };
        let mut at = if first_ns == 0 { last_ns } else { first_ns };
        packet.set_u32_at(EXTRA_PACKETS, 0);
        for n in (1..=count).rev() {
            let length = left / n;
            left -= length;
            packet.annotations_mut().timestamp_ns = at;
            packet.set_u32_at(EXTRA_LENGTH, length.saturating_sub(here) as u32);
            self.summarize(packet, out);
            at = at.saturating_add(step);
        }
        *packet.annotations_mut() = kept;
    }

    /// Writes a batch, each packet's lines as one block. What the file does not take is dropped, if
    /// it does not go on.
    fn write_batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        let (written, done) = if self.active { self.try_write(cx, batch) } else { (0, Ok(())) };
        if let Err(error) = done {
            self.fail(cx, &error);
            // Who read it is gone, and nothing makes room again.
            if error.kind() == io::ErrorKind::BrokenPipe {
                cx.stop();
            }
        }
        crate::file::account_for(cx, batch, written, NOT_WRITTEN);
    }

    /// How many packets the file took, and why it took no more.
    fn try_write(&mut self, cx: &Cx<'_>, batch: &mut Batch) -> (u64, io::Result<()>) {
        let mut out = vec![];
        let Some(mut file) = self.file.take() else {
            batch.iter_mut().for_each(|packet| self.summarize_each(packet, &mut out));
            cx.print(&String::from_utf8_lossy(&out));
            return (batch.len() as u64, Ok(()));
        };
        let result = put(&mut file, batch.iter_mut(), |file, packet| {
            out.clear();
            self.summarize_each(packet, &mut out);
            file.write_all(&out)
        });
        self.file = Some(file);
        result
    }

    fn begin_file(&mut self, preamble: &str) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(preamble.as_bytes())?;
        file.flush()
    }

    fn open(&self) -> io::Result<Option<Blocks>> {
        match (self.path.as_str(), self.binary) {
            ("-", false) => Ok(None),
            ("-", true) => Ok(Some(Blocks::new(io::stdout().as_fd().try_clone_to_owned()?.into()))),
            (path, _) => Ok(Some(Blocks::new(File::create(path)?))),
        }
    }
}

impl Element for ToSummary {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.file = self.open().map_err(|e| format!("{}: {e}", self.path))?;
        if cx.is_pull_input(0) {
            let task = cx.new_task();
            self.packets = cx.upstream(0, Some(task));
            self.task = Some(task);
            cx.schedule(task);
        }
        if self.header {
            let preamble = self.preamble(cx);
            if self.file.is_none() {
                cx.print(&preamble);
            } else if let Err(error) = self.begin_file(&preamble) {
                self.fail(cx, &error);
            }
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        self.write_batch(cx, batch);
        if cx.outputs() > 0 { Next::Push(0) } else { Next::Done }
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        let worked = cx.pull(0, batch) > 0;
        if worked || self.packets.any() {
            cx.schedule(task);
        }
        self.write_batch(cx, batch);
        match worked && cx.outputs() > 0 {
            true => Ran::push(0),
            false => Ran::done(worked),
        }
    }
}
