//! `AggregateCounter`: packets or bytes of each aggregate.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use graph::class::{Handlers, action, both, keyword, read, write};
use graph::value::{Raw, parse_alone, unsigned};
use graph::{Action, Class, Conf, ConfFault, Cx, Each, Named, PerPacket, Refused, Setup};
use memory::Packet;
use memory::annotation::Header;

use super::tree::Tree;
use crate::call::Call;
use crate::text;
use graph::annotation::{AGGREGATE, EXTRA_LENGTH, EXTRA_PACKETS, PacketAnnotations};
use port::Reason;

/// In the order in which Click has them.
const HANDLERS: Handlers<Counter> = Handlers(&[
    read("overflow", "packets not counted, because there were CAPACITY aggregates", |counter| {
        counter.overflow.to_string()
    }),
    write("write_text_file", "writes the counts, a line each", |counter: &mut Counter, cx, path| {
        counter.write_file(cx, Format::Text, path)
    })
    .marked("/"),
    write("write_ascii_file", "as write_text_file", |counter: &mut Counter, cx, path| {
        counter.write_file(cx, Format::Text, path)
    })
    .marked("/"),
    write("write_file", "writes the counts, as pairs of 32-bit words", |counter: &mut Counter, cx, path| {
        counter.write_file(cx, Format::Packed, path)
    })
    .marked("/"),
    write(
        "write_ip_file",
        "writes the counts, aggregates as addresses",
        |counter: &mut Counter, cx, path| counter.write_file(cx, Format::Addresses, path),
    )
    .marked("/"),
    write(
        "write_pdf_file",
        "writes each aggregate's part of the whole",
        |counter: &mut Counter, cx, path| counter.write_file(cx, Format::Shares, path),
    )
    .marked("/"),
    both(
        "freeze",
        "whether it is frozen",
        |counter: &Counter| counter.frozen.to_string(),
        |counter: &mut Counter, _, value| {
            counter.frozen = truth(value)?;
            Ok(())
        },
    )
    .marked("c"),
    both(
        "active",
        "whether it counts",
        |counter: &Counter| counter.active.to_string(),
        |counter: &mut Counter, _, value| {
            counter.active = truth(value)?;
            Ok(())
        },
    )
    .marked("c"),
    action("stop", "stops counting, and the router", |counter: &mut Counter, cx| {
        counter.active = false;
        cx.stop();
    })
    .marked("b"),
    action("reaggregate_counts", "as counts_pdf", |counter, _| counter.reaggregate()),
    action(
        "counts_pdf",
        "makes the counts aggregates: how often there was each; of 0, as many as there are places without one in Click's tree",
        |counter, _| counter.reaggregate(),
    ),
    both(
        "banner",
        "text at the top of files",
        |counter: &Counter| counter.banner.clone(),
        |counter: &mut Counter, _, value| {
            counter.banner = match value {
                "" | "\n" => String::new(),
                text if text.ends_with('\n') => text.to_string(),
                text => format!("{text}\n"),
            };
            Ok(())
        },
    )
    .marked("%"),
    action("clear", "forgets all", |counter, _| (counter.counts, counter.count) = (Tree::default(), 0)),
    both(
        "aggregate_call",
        "what is written after how many aggregates",
        |counter| At::shown(&counter.at_aggregates),
        |counter, cx, value| {
            counter.at_aggregates = At::checked(cx, "aggregate_call", value)?;
            Ok(())
        },
    ),
    both(
        "count_call",
        "what is written after how many packets or bytes",
        |counter| At::shown(&counter.at_count),
        |counter, cx, value| {
            counter.at_count = At::checked(cx, "count_call", value)?;
            Ok(())
        },
    ),
    read("count", "packets or bytes", |counter| counter.count.to_string()),
    read("nagg", "aggregates", |counter| counter.counts.len().to_string()),
]);

pub static CLASS: Class = Class {
    name: "AggregateCounter",
    brief: "counts packets or bytes of each aggregate",
    doc: "Writing a file's name, or `-`, to `write_text_file` and the like writes the counts there. While it is \
          frozen only aggregates that it knows are counted; the second input is always so. With two outputs, \
          packets that are counted go to the first, others to the second. When there are CAPACITY aggregates \
          no more are counted, which `overflow` counts. A call is a number and a handler, written when so many aggregates, or so many \
          packets or bytes, have been counted.",
    ports: "1-2/1-2",
    flow: "#/#",
    arguments: &[
        keyword("BYTES", "counts bytes, not packets; false"),
        keyword("IP_BYTES", "bytes from the IP header on; false"),
        keyword("MULTIPACKET", "a packet that stands for several counts as so many; true"),
        keyword("EXTRA_LENGTH", "bytes that were cut off count; true"),
        keyword("AGGREGATE_FREEZE", "freezes after so many aggregates"),
        keyword("COUNT_FREEZE", "freezes after so many packets or bytes"),
        keyword("AGGREGATE_STOP", "stops the router after so many aggregates"),
        keyword("COUNT_STOP", "stops the router after so many packets or bytes"),
        keyword("AGGREGATE_CALL", "`N HANDLER VALUE`: written after so many aggregates"),
        keyword("COUNT_CALL", "`N HANDLER VALUE`: written after so many packets or bytes"),
        keyword("BANNER", "text at the top of files; none"),
        keyword("CAPACITY", "aggregates at the most; 4194304"),
    ],
    handlers: &HANDLERS,
    drops: &[Reason::NotCounted],
    example: "FromIPSummaryDump(-, STOP true) -> AggregateIP(ip dst) -> ac :: AggregateCounter -> Discard; \
              DriverManager(pause, write ac.write_text_file -)",
    see: &["AggregateIP", "AggregateIPFlows", "AggregateLength", "FromIPSummaryDump"],
    make: |setup, conf| make(setup, conf).map(Each::boxed),
    ..Class::BASE
};

/// What is done at a number.
#[derive(Debug, Clone, PartialEq, Eq)]
struct At {
    number: u64,
    call: Call,
}

impl At {
    fn parse(text: &str) -> Result<At, ()> {
        let (number, call) = graph::lang::args::shift_word(text);
        let call = parse_alone::<Call>(call).map_err(|_| ())?;
        Ok(At { number: unsigned(number).ok_or(())?, call })
    }

    /// Says when there is no such handler.
    fn check(&self, named: &Named<'_>) -> Result<(), String> {
        if self.call.handler.starts_with('.') { Ok(()) } else { self.call.check(named) }
    }

    /// What is written to a handler of this name; nothing, if that is nothing.
    fn checked(cx: &Cx<'_>, handler: &str, value: &str) -> Result<Option<At>, Refused> {
        let text = graph::lang::args::uncomment(value);
        let wrong = format!("argument to '{handler}' should be 'N HANDLER [VALUE]'");
        let at = (!text.is_empty()).then(|| At::parse(&text)).transpose();
        let at = at.map_err(|()| Refused::Failed(wrong))?;
        at.iter().try_for_each(|at| at.check(&cx.named())).map_err(Refused::Failed)?;
        Ok(at)
    }

    fn shown(at: &Option<At>) -> String {
        at.as_ref().map_or(String::new(), |at| format!("{} {}", at.number, at.call))
    }
}

fn call(handler: &str, value: &str) -> Call {
    Call { handler: handler.into(), value: value.into() }
}

/// At most one of a number to freeze at, one to stop at, and a call.
fn one_of(conf: &mut Conf<'_>, keys: [&'static str; 3]) -> Result<Option<At>, ConfFault> {
    let [freeze, stop, call_key] = keys;
    let freezing: Option<u64> = conf.keyword(freeze)?;
    let stopping: Option<u64> = conf.keyword(stop)?;
    let calling: Option<Raw> = conf.keyword(call_key)?;
    let what = if call_key.starts_with('C') { "count" } else { "number of aggregates" };
    Ok(match (freezing, stopping, calling) {
        (None, None, None) => None,
        (Some(number), None, None) => Some(At { number, call: call(".freeze", "true") }),
        (None, Some(number), None) => Some(At { number, call: call(".stop", "") }),
        (None, None, Some(text)) => {
            let bad = format!("{call_key} first word should be unsigned ({what})");
            Some(At::parse(&text.0).map_err(|()| bad)?)
        }
        _ => return Err(format!("'{freeze}', '{stop}', and '{call_key}' are mutually exclusive").into()),
    })
}

fn make(setup: &mut Setup<'_>, conf: &mut Conf<'_>) -> Result<Counter, ConfFault> {
    let counter = Counter {
        bytes: conf.keyword("BYTES")?.unwrap_or(false),
        ip_bytes: conf.keyword("IP_BYTES")?.unwrap_or(false),
        several: conf.keyword("MULTIPACKET")?.unwrap_or(true),
        extra: conf.keyword("EXTRA_LENGTH")?.unwrap_or(true),
        at_aggregates: one_of(conf, ["AGGREGATE_FREEZE", "AGGREGATE_STOP", "AGGREGATE_CALL"])?,
        at_count: one_of(conf, ["COUNT_FREEZE", "COUNT_STOP", "COUNT_CALL"])?,
        banner: conf.keyword("BANNER")?.unwrap_or_default(),
        capacity: conf.keyword("CAPACITY")?.unwrap_or(1 << 22),
        frozen: false,
        active: true,
        counts: Tree::default(),
        count: 0,
        overflow: 0,
        waits: false,
    };
    conf.complete()?;
    if counter.at_aggregates.iter().chain(&counter.at_count).any(|at| !at.call.is_stop()) {
        setup.take_one_by_one();
    }
    Ok(counter)
}

/// An `AggregateCounter` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct Counter {
    bytes: bool,
    ip_bytes: bool,
    several: bool,
    extra: bool,
    at_aggregates: Option<At>,
    at_count: Option<At>,
    banner: String,
    capacity: usize,
    frozen: bool,
    active: bool,
    counts: Tree,
    count: u64,
    overflow: u64,
    /// A call was asked for, behind which the next packet comes.
    waits: bool,
}

/// How counts are written to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Pairs of 32-bit words.
    Packed,
    Text,
    /// Aggregates as addresses.
    Addresses,
    /// Each aggregate's part of the whole.
    Shares,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    Yes,
    No,
    /// That is decided by a call that comes first.
    Again,
}

/// A truth value that is written to a handler.
fn truth(value: &str) -> Result<bool, Refused> {
    parse_alone::<bool>(&graph::lang::args::uncomment(value)).map_err(|_| "type mismatch".into())
}

impl Counter {
    fn amount(&self, packet: &Packet) -> u32 {
        if !self.bytes {
            return if self.several { packet.u32_at(EXTRA_PACKETS).wrapping_add(1) } else { 1 };
        }
        let extra = if self.extra { i64::from(packet.u32_at(EXTRA_LENGTH)) } else { 0 };
        let link = packet.header_offset(Header::Network).filter(|_| self.ip_bytes).unwrap_or(0);
        (packet.total_len() as i64 + extra - link as i64) as u32
    }

    /// Counts a packet, or not.
    fn update(&mut self, cx: &mut Cx<'_>, packet: &Packet, frozen: bool) -> Counted {
        if !self.active {
            return Counted::No;
        }
        let aggregate = packet.u32_at(AGGREGATE);
        let known = self.counts.count(aggregate) > 0;
        let full = self.counts.places() / 4 >= self.capacity || self.counts.len() >= self.capacity;
        if !known && (frozen || self.frozen || full) {
            self.overflow += u64::from(full && !(frozen || self.frozen));
            return Counted::No;
        }
        let amount = self.amount(packet);
        if amount > 0 && !known {
            let reached = self.at_aggregates.as_ref().is_some_and(|at| self.counts.len() as u64 >= at.number);
            if let Some(at) = self.at_aggregates.take_if(|_| reached) {
                if self.make(cx, &at.call) {
                    return Counted::Again;
                }
                return self.update(cx, packet, frozen); // it may be frozen now
            }
        }
        self.counts.add(aggregate, amount);
        self.count = self.count.wrapping_add(amount.into());
        let reached = self.at_count.as_ref().is_some_and(|at| self.count >= at.number);
        if let Some(at) = self.at_count.take_if(|_| reached) {
            self.waits = self.make(cx, &at.call);
        }
        Counted::Yes
    }

    /// Writes a handler; one of its own at once. Whether the next packet waits for what
    /// comes of it.
    fn make(&mut self, cx: &mut Cx<'_>, call: &Call) -> bool {
        let own = call.handler.strip_prefix('.').or_else(|| call.own(cx)).map(str::to_string);
        match own {
            Some(handler) => {
                if let Err(error) = HANDLERS.write_own(self, cx, &handler, &call.value) {
                    cx.say(&format!("{}: {error}\n", cx.name()));
                }
                false
            }
            None => {
                call.make(cx);
                true
            }
        }
    }

    /// How often there was each count.
    fn reaggregate(&mut self) {
        self.count = self.counts.places() as u64;
        self.counts = self.counts.of_counts();
    }

    fn file(&self, format: Format) -> Vec<u8> {
        let mut text = "!IPAggregate 1.0\n".to_string();
        text += &self.banner;
        if !self.banner.is_empty() && !self.banner.ends_with('\n') {
            text.push('\n');
        }
        let _ = writeln!(text, "!num_nonzero {}", self.counts.len());
        match format {
            Format::Packed => {
                text += if cfg!(target_endian = "big") { "!packed_be\n" } else { "!packed_le\n" };
                let mut bytes = text.into_bytes();
                for (aggregate, count) in self.counts.counts() {
                    bytes.extend(aggregate.to_ne_bytes());
                    bytes.extend(count.to_ne_bytes());
                }
                return bytes;
            }
            Format::Addresses => text += "!ip\n",
            Format::Text | Format::Shares => {}
        }
        for (aggregate, count) in self.counts.counts() {
            let _ = match format {
                Format::Addresses => writeln!(text, "{} {count}", Ipv4Addr::from(aggregate)),
                Format::Shares => {
                    writeln!(
                        text,
                        "{aggregate} {}",
                        text::general(f64::from(count) / self.count.max(1) as f64)
                    )
                }
                _ => writeln!(text, "{aggregate} {count}"),
            };
        }
        text.into_bytes()
    }

    fn write_file(&self, cx: &Cx<'_>, format: Format, path: &str) -> Result<(), Refused> {
        let path = String::from_utf8_lossy(&graph::lang::args::unquote(path.trim())).into_owned();
        let bytes = self.file(format);
        let written = match path.as_str() {
            "" => return Err("argument should be filename".into()),
            "-" => match std::str::from_utf8(&bytes) {
                Ok(text) if format != Format::Packed => {
                    cx.print(text);
                    Ok(())
                }
                _ => std::io::Write::write_all(&mut std::io::stdout(), &bytes),
            },
            path => std::fs::write(path, &bytes),
        };
        written.map_err(|error| Refused::Failed(format!("{path}: {error}")))
    }
}

impl PerPacket for Counter {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        self.at_aggregates.iter().chain(&self.at_count).try_for_each(|at| at.check(named))
    }

    fn calls(&self) -> bool {
        self.waits || self.at_aggregates.is_some() || self.at_count.is_some()
    }

    fn packet(&mut self, cx: &mut Cx<'_>, input: usize, packet: &mut Packet) -> Action {
        if std::mem::take(&mut self.waits) {
            return Action::AGAIN;
        }
        match self.update(cx, packet, input == 1) {
            Counted::Again => Action::AGAIN,
            Counted::No if cx.outputs() > 1 => Action::out(1),
            Counted::Yes | Counted::No => Action::ON,
        }
    }
}
