//! `ToIPFlowDumps`: a file for each flow.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use graph::class::{Handlers, SystemUse, action, keyword, positional, read};
use graph::element::Account;
use graph::{Class, Cx, Element, Named, Next, Ran, Signals, TaskId};
use memory::annotation::Header;
use memory::{Batch, Packet};
use wire::ip::Protocol;
use wire::{ipv4, udp};

use super::flow_record::{Flow, Style};
use super::notice::{Ended, SWEEP, notifier, subscribe};
use crate::summary::options;
use graph::annotation::{AGGREGATE, PacketAnnotations};
use graph::ip_header::{LEN, u16_at, u32_at};
use port::Reason;

pub static CLASS: Class = Class {
    name: "ToIPFlowDumps",
    brief: "writes a file for each TCP or UDP flow",
    doc: "Flows are told apart by their aggregates, as AggregateIPFlows sets them. Each file is one for \
          FromIPSummaryDump. The `payload_len` of UDP counts the IP header as well, as Click's does; unlike \
          Click's, lines with TCP windows say so in `!data`, and IP identifications are the numbers they are. In FILEPATTERN `%n` is the aggregate, `%x`, `%X` the same in hexadecimal, `%s`, `%d` \
          the first packet's addresses, `%S`, `%D` its ports, `%p` its protocol, `%%` a percent sign; `%.0n` to \
          `%.3n` (and x, X, s, d) are single bytes, `%.4n`, `%.5n` halves; `%06n` has six digits at the least. \
          Folders are made as needed. When there are CAPACITY flows, packets of others are not written.",
    ports: "1/0-1",
    arguments: &[
        positional("FILEPATTERN", "the files' names; `-`, standard output"),
        keyword("OUTPUT_PATTERN", "another name of FILEPATTERN"),
        keyword("NOTIFIER", "the element that says when a flow has ended; none"),
        keyword("ABSOLUTE_TIME", "times as they are, not since the first packet; false"),
        keyword("ABSOLUTE_SEQ", "sequence numbers as they are, not from zero on; false"),
        keyword("BINARY", "records instead of lines; false"),
        keyword("ALL_TCP_OPT", "writes all TCP options; false"),
        keyword("TCP_OPT", "writes the TCP options for MSS, window scale and SACK; false"),
        keyword("TCP_WINDOW", "writes TCP windows; false"),
        keyword("GZIP", "packs files when their flows have ended; false"),
        keyword("IP_ID", "writes IP identifications; false"),
        keyword("MINCOUNT", "only flows of so many packets; 0"),
        keyword("CAPACITY", "flows at a time at the most; 65536"),
    ],
    handlers: &Handlers::<FlowDumps>(&[
        read("nflows", "flows that are written", |dumps| dumps.flows.len().to_string()),
        action("clear", "ends all flows", FlowDumps::clear),
        action(SWEEP.as_str(), "ends flows that have ended", FlowDumps::sweep),
    ]),
    drops: &[Reason::NotConnected, Reason::NoFlow, Reason::TooManyFlows],
    account: Account::Unknown, // what no dump has is dropped, and goes on
    system: &[SystemUse::WritesFiles, SystemUse::Programs],
    example: "af :: AggregateIPFlows -> ToIPFlowDumps(/tmp/flow%03n, NOTIFIER af)",
    see: &["AggregateIPFlows", "FromIPSummaryDump", "ToIPSummaryDump"],
    make: |setup, conf| {
        let pattern: Option<String> = conf.positional("FILEPATTERN")?;
        let pattern = conf.keyword("OUTPUT_PATTERN")?.or(pattern).unwrap_or_else(|| "-".into());
        let notifier: Option<String> = conf.keyword("NOTIFIER")?;
        let mut truth = |key| -> Result<bool, graph::ConfFault> { Ok(conf.keyword(key)?.unwrap_or(false)) };
        let (all, some) = (truth("ALL_TCP_OPT")?, truth("TCP_OPT")?);
        let style = Style {
            absolute_time: truth("ABSOLUTE_TIME")?,
            absolute_seq: truth("ABSOLUTE_SEQ")?,
            binary: truth("BINARY")?,
            tcp_options: match (all, some) {
                (true, _) => options::ALL_BUT_PADDING,
                (_, true) => options::MSS | options::WSCALE | options::SACK,
                _ => 0,
            },
            tcp_window: truth("TCP_WINDOW")?,
            ip_id: truth("IP_ID")?,
        };
        let gzip = truth("GZIP")?;
        let least = conf.keyword("MINCOUNT")?.unwrap_or(0);
        let capacity = conf.keyword("CAPACITY")?.unwrap_or(1 << 16);
        conf.complete()?;
        if !pattern.contains('%') {
            setup.warn("OUTPUT_PATTERN has no % escapes, so output files will get overwritten");
        }
        check(&pattern)?;
        if pattern != "-" {
            setup.will_open(SystemUse::WritesFiles, folder(&pattern));
        }
        if gzip {
            setup.will_need(SystemUse::Programs);
        }
        Ok(Box::new(FlowDumps {
            pattern,
            notifier,
            style,
            gzip,
            least,
            capacity,
            flows: HashMap::new(),
            any: false,
            failed: false,
            ended: None,
            task: None,
            packets: Signals::default(),
        }))
    },
    ..Class::BASE
};

/// One thing in a pattern: text, or what stands for it.
enum Piece<'a> {
    Text(&'a str),
    Escape { zeros: bool, width: usize, part: Option<u32>, letter: char },
}

/// The pieces of a pattern; `None` for an escape that is none.
fn pieces(pattern: &str) -> impl Iterator<Item = Option<Piece<'_>>> {
    let mut rest = pattern;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(escape) = rest.strip_prefix('%') else {
            let (text, more) = rest.split_at(rest.find('%').unwrap_or(rest.len()));
            rest = more;
            return Some(Some(Piece::Text(text)));
        };
        let zeros = escape.starts_with('0');
        let number = |text: &mut &str| {
            let (digits, more) =
                text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
            *text = more;
            digits.parse::<u32>().ok()
        };
        let mut escape = escape;
        let width = number(&mut escape).unwrap_or(0).min(64) as usize;
        let part = match escape.strip_prefix('.') {
            Some(more) => {
                escape = more;
                Some(number(&mut escape).unwrap_or(0))
            }
            None => None,
        };
        let letter = escape.chars().next().filter(|c| "nxXsdSDp%".contains(*c));
        rest = letter.map_or("", |_| &escape[1..]);
        Some(letter.map(|letter| Piece::Escape { zeros, width, part, letter }))
    })
}

fn check(pattern: &str) -> Result<(), graph::ConfFault> {
    if pieces(pattern).any(|piece| piece.is_none()) {
        return Err(format!("bad filename pattern '{pattern}'").into());
    }
    Ok(())
}

/// The folder that all files of a pattern are in.
fn folder(pattern: &str) -> &Path {
    let fixed = pattern.split('%').next().unwrap_or("");
    Path::new(&fixed[..fixed.rfind('/').map_or(0, |slash| slash + 1)])
}

/// A file's name, from a flow's first packet.
fn expand(pattern: &str, packet: &Packet) -> Option<String> {
    let ip = packet.header(Header::Network).filter(|ip| ip.len() >= LEN)?;
    let ports = packet.header(Header::Transport).unwrap_or(&[]);
    let mut out = String::new();
    for piece in pieces(pattern).flatten() {
        let (zeros, width, part, letter) = match piece {
            Piece::Text(text) => {
                out += text;
                continue;
            }
            Piece::Escape { zeros, width, part, letter } => (zeros, width, part, letter),
        };
        let byte_of = |value: u32| match part {
            Some(n @ 0..=3) => value >> (8 * (3 - n)) & 0xFF,
            Some(n @ 4..=5) => value >> (16 * (5 - n)) & 0xFFFF,
            _ => value,
        };
        let aggregate = byte_of(packet.u32_at(AGGREGATE));
        let address = |at: usize| match part {
            Some(0..=3) => byte_of(u32_at(ip, at)).to_string(),
            _ => Ipv4Addr::from(u32_at(ip, at)).to_string(),
        };
        let text = match letter {
            'n' => aggregate.to_string(),
            'x' => format!("{aggregate:x}"),
            'X' => format!("{aggregate:X}"),
            's' => address(ipv4::offset::SRC),
            'd' => address(ipv4::offset::DST),
            'S' => u16_at(ports, udp::offset::SRC_PORT).to_string(),
            'D' => u16_at(ports, udp::offset::DST_PORT).to_string(),
            'p' => if ip[ipv4::offset::PROTOCOL] == Protocol::TCP.0 { "T" } else { "U" }.to_string(),
            _ => "%".to_string(),
        };
        let filler = if zeros { "0" } else { "_" };
        out += &filler.repeat(width.saturating_sub(text.len()));
        out += &text;
    }
    Some(out)
}

/// A `ToIPFlowDumps` element; [`CLASS`] says what it does.
pub struct FlowDumps {
    pattern: String,
    notifier: Option<String>,
    style: Style,
    gzip: bool,
    least: u64,
    capacity: usize,
    flows: HashMap<u32, Flow>,
    /// Some packet had an aggregate.
    any: bool,
    /// That a file cannot be written was told.
    failed: bool,
    ended: Option<Arc<Ended>>,
    task: Option<TaskId>,
    packets: Signals,
}

impl FlowDumps {
    fn add(&mut self, cx: &mut Cx<'_>, packet: &Packet) {
        let aggregate = packet.u32_at(AGGREGATE);
        if aggregate == 0 {
            return cx.count_drops(1, 1);
        }
        self.any = true;
        if !self.flows.contains_key(&aggregate) {
            if self.flows.len() >= self.capacity {
                return cx.count_drops(2, 1);
            }
            let path = expand(&self.pattern, packet);
            let Some(flow) = path.and_then(|path| Flow::new(packet, path, self.style)) else {
                return cx.count_drops(1, 1);
            };
            self.flows.insert(aggregate, flow);
        }
        let Some(flow) = self.flows.get_mut(&aggregate) else { return };
        flow.add(packet, self.style);
        if flow.is_full() {
            let done = put(cx, flow, self.style).map_err(|error| format!("{}: {error}", flow.path));
            self.tell(cx, done);
        }
    }

    /// The first file that could not be written is told: where a disk is full others follow.
    fn tell(&mut self, cx: &Cx<'_>, done: Result<(), String>) {
        if let Err(error) = done
            && !std::mem::replace(&mut self.failed, true)
        {
            cx.fail(&format!("{}: {error}\n", cx.name()));
        }
    }

    /// A flow has ended: the rest is written, or the file removed if it was too short.
    fn end(&mut self, cx: &mut Cx<'_>, mut flow: Flow) {
        if flow.packets < self.least {
            if flow.begun && flow.path != "-" {
                let _ = std::fs::remove_file(&flow.path); // it may be gone already
            }
            return;
        }
        let done = put(cx, &mut flow, self.style).map_err(|error| format!("{}: {error}", flow.path));
        self.tell(cx, done);
        if self.gzip && flow.path != "-" {
            let path = Path::new(".").join(&flow.path);
            match Command::new("gzip").arg("-f").arg(path).status() {
                Ok(status) if status.success() => {}
                Ok(status) => cx.say(&format!("{}: {}: gzip: {status}\n", cx.name(), flow.path)),
                Err(error) => cx.say(&format!("{}: gzip: {error}\n", cx.name())),
            }
        }
    }

    fn sweep(&mut self, cx: &mut Cx<'_>) {
        let ended: Vec<u32> = self.ended.iter().flat_map(|ended| ended.take()).collect();
        for aggregate in ended {
            if let Some(flow) = self.flows.remove(&aggregate) {
                self.end(cx, flow);
            }
        }
    }

    fn clear(&mut self, cx: &mut Cx<'_>) {
        self.sweep(cx);
        let mut flows: Vec<(u32, Flow)> = self.flows.drain().collect();
        flows.sort_unstable_by_key(|(aggregate, _)| *aggregate);
        flows.into_iter().for_each(|(_, flow)| self.end(cx, flow));
    }
}

/// Writes what is kept of a flow.
fn put(cx: &Cx<'_>, flow: &mut Flow, style: Style) -> std::io::Result<()> {
    let begun = flow.begun;
    let bytes = flow.take(style);
    if flow.path == "-" {
        match std::str::from_utf8(&bytes) {
            Ok(text) if !style.binary => cx.print(text),
            _ => std::io::stdout().write_all(&bytes)?,
        }
        return Ok(());
    }
    let path = Path::new(&flow.path);
    let folder = path.parent().filter(|folder| !begun && !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), std::fs::create_dir_all);
    made?;
    let mut file = match begun {
        true => OpenOptions::new().append(true).open(path)?,
        false => std::fs::File::create(path)?,
    };
    file.write_all(&bytes)
}

impl Element for FlowDumps {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        notifier(named, self.notifier.as_deref()).map(drop)
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.ended = subscribe(cx, self.notifier.as_deref())?;
        if cx.is_pull_input(0) && cx.outputs() == 0 {
            let task = cx.new_task();
            self.packets = cx.upstream(0, Some(task));
            self.task = Some(task);
            cx.schedule(task);
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        batch.iter().for_each(|packet| self.add(cx, packet));
        self.sweep(cx);
        if cx.outputs() > 0 { Next::Push(0) } else { Next::Done }
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        let worked = cx.pull(0, batch) > 0;
        if worked || self.packets.any() {
            cx.schedule(task);
        }
        batch.iter().for_each(|packet| self.add(cx, packet));
        self.sweep(cx);
        Ran::done(worked)
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.clear(cx);
        if !self.any && cx.drops().get(1).is_some_and(|without| *without > 0) {
            let what = "warning: saw no packets with aggregate annotations";
            cx.say(&format!("{} :: {}: {what}\n", cx.name(), cx.class()));
        }
    }
}
