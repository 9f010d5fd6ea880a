//! `ToIPSummaryDump`: a line for each packet.

use std::io::Write;

use graph::class::{keyword, mandatory, write};
use graph::lang::args;
use graph::task::TaskId;
use graph::value::Raw;
use graph::{Class, Cx, Element, Next, Ran, Refused, Signals};
use memory::Batch;

use super::{Field, show};

/// The class.
pub static CLASS: Class = Class {
    name: "ToIPSummaryDump",
    brief: "writes a line about each packet to a file",
    doc: "Writes the FIELDS of each packet to a file, `-` where it has none. Fields: timestamp, ts_sec, ts_usec, \
          first_timestamp, count, link, direction, aggregate, wire_len, ip_src, ip_dst, ip_tos, ip_dscp, ip_ecn, \
          ip_ttl, ip_frag, ip_fragoff, ip_id, ip_sum, ip_proto, ip_hl, ip_len, ip_capture_len, sport, dport, \
          tcp_seq, tcp_ack, tcp_off, tcp_flags, tcp_window, tcp_urp, udp_len, icmp_type, icmp_code, payload_len, \
          payload.",
    ports: "1/0-1",
    processing: "a/h",
    arguments: &[
        mandatory("FILENAME", "the file; `-` for standard output"),
        keyword("FIELDS", "what is written; timestamp ip_src"),
        keyword("CONTENTS", "another name of FIELDS"),
        keyword("DATA", "the old name of FIELDS"),
        keyword("HEADER", "writes what the lines mean first; true"),
        keyword("BANNER", "who made it; nobody"),
        keyword("EXTRA_LENGTH", "counts bytes that were cut off; true"),
        keyword("VERBOSE", "taken for compatibility"),
        keyword("BAD_PACKETS", "taken for compatibility"),
        keyword("CAREFUL_TRUNC", "taken for compatibility"),
    ],
    handlers: &[write("flush", "writes out what is buffered")],
    drops: &["not connected"],
    example: "ToIPSummaryDump(-, FIELDS timestamp ip_src ip_dst)",
    see: &["FromIPSummaryDump", "ToDump"],
    make: |_, conf| {
        let path: String = conf.mandatory("FILENAME")?;
        let mut fields = "timestamp ip_src".to_string();
        for key in ["DATA", "CONTENTS", "FIELDS"] {
            fields = conf.keyword::<Raw>(key)?.map_or(fields, |raw| raw.0);
        }
        let header = conf.keyword("HEADER")?.unwrap_or(true);
        let banner: Option<String> = conf.keyword("BANNER")?;
        let extra = conf.keyword("EXTRA_LENGTH")?.unwrap_or(true);
        for key in ["VERBOSE", "BAD_PACKETS", "CAREFUL_TRUNC"] {
            let _: Option<bool> = conf.keyword(key)?;
        }
        conf.complete()?;
        let mut found = vec![];
        for word in args::words(&fields) {
            let word = String::from_utf8_lossy(&args::unquote(word)).into_owned();
            found.push(Field::find(&word).ok_or_else(|| format!("unknown content type '{word}'"))?);
        }
        if found.is_empty() {
            return Err("no contents specified".into());
        }
        Ok(Box::new(ToSummary {
            path,
            fields: found,
            header,
            banner,
            extra,
            file: None,
            task: None,
            packets: Signals::default(),
        }))
    },
    ..Class::BASE
};

/// See [`CLASS`].
pub struct ToSummary {
    path: String,
    fields: Vec<Field>,
    header: bool,
    banner: Option<String>,
    extra: bool,
    /// `None`: standard output.
    file: Option<std::io::BufWriter<std::fs::File>>,
    task: Option<TaskId>,
    packets: Signals,
}

impl ToSummary {
    fn write_text(&mut self, cx: &mut Cx<'_>, text: &str) {
        let Some(file) = &mut self.file else { return cx.print(text) };
        if let Err(error) = file.write_all(text.as_bytes()) {
            cx.say(&format!("{}: {error}\n", cx.name()));
            cx.stop();
        }
    }

    fn write_batch(&mut self, cx: &mut Cx<'_>, batch: &Batch) {
        let mut text = String::new();
        for packet in batch.iter() {
            for (n, field) in self.fields.iter().enumerate() {
                if n > 0 {
                    text.push(' ');
                }
                show::show(*field, packet, self.extra, &mut text);
            }
            text.push('\n');
        }
        self.write_text(cx, &text);
    }

    fn flush(&mut self) {
        if let Some(file) = &mut self.file {
            let _ = file.flush(); // it is told when the next line cannot be written
        }
    }
}

impl Element for ToSummary {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.path != "-" {
            let file = std::fs::File::create(&self.path).map_err(|e| format!("{}: {e}", self.path))?;
            self.file = Some(std::io::BufWriter::new(file));
        }
        if cx.is_pull_input(0) {
            let task = cx.new_task();
            self.packets = cx.upstream(0, Some(task));
            self.task = Some(task);
            cx.schedule(task);
        }
        let names: Vec<&str> = self.fields.iter().map(|field| field.name()).collect();
        let banner = self.banner.as_ref().map(|b| format!("!creator {}\n", args::quote(b.as_bytes())));
        if self.header {
            let banner = banner.unwrap_or_default();
            self.write_text(cx, &format!("!IPSummaryDump 1.3\n{banner}!data {}\n", names.join(" ")));
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

    fn write(&mut self, _: &mut Cx<'_>, _: &str, _: &str) -> Result<(), Refused> {
        self.flush();
        Ok(())
    }

    fn cleanup(&mut self, _: &mut Cx<'_>) {
        self.flush();
    }
}
