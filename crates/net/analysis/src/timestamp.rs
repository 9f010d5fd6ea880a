//! `SetTimestamp`, `AdjustTimestamp`, `SetTimestampDelta`, `StoreTimestamp`: when
//! packets came.

use graph::class::{Handlers, action, both, keyword, positional, read};
use graph::element::kernel::Kernel;
use graph::value::{SignedSpan, Span, parse_alone};
use graph::{Action, Class, Cx, Each, PerPacket, Refused, chain};
use memory::Packet;

use super::text;
use graph::annotation::PacketAnnotations;
use port::Reason;

/// To now, or what was said.
pub static SET: Class = Class {
    name: "SetTimestamp",
    brief: "says when packets came",
    doc: "Sets each packet's timestamp to TIMESTAMP, or to the time at which it gets here.",
    arguments: &[
        positional("TIMESTAMP", "seconds since 1970; now"),
        keyword("FIRST", "sets the first timestamp of several packets instead; false"),
        keyword("DELTA", "gone: SetTimestampDelta(TYPE FIRST) does that"),
    ],
    example: "InfiniteSource -> SetTimestamp -> ToDump(out.pcap)",
    see: &["AdjustTimestamp", "SetTimestampDelta", "StoreTimestamp"],
    kernel: Kernel::Excluded(crate::CLOCK),
    make: |_, conf| {
        let at = conf.positional::<Span>("TIMESTAMP")?.map(|span| span.0);
        let first = conf.keyword("FIRST")?.unwrap_or(false);
        if conf.keyword("DELTA")?.unwrap_or(false) {
            return Err("SetTimestamp(DELTA) is deprecated, use SetTimestampDelta(TYPE FIRST)".into());
        }
        conf.complete()?;
        Ok(Each::boxed(Set { at, first }))
    },
    ..Class::BASE
};

pub static ADJUST: Class = Class {
    name: "AdjustTimestamp",
    brief: "moves packets' timestamps",
    doc: "Adds TIME, which may be negative, to each packet's timestamp. Packets that have none keep none.",
    arguments: &[
        positional("TIME", "what is added; 0"),
        keyword("FIRST", "moves the first timestamp of several packets instead; false"),
        keyword("ALL", "moves timestamps of zero, too; false"),
    ],
    handlers: &Handlers::<Adjust>(&[both(
        "time",
        "what is added",
        |adjust| text::span(adjust.by),
        |adjust, _, value| {
            adjust.by = parse_alone::<SignedSpan>(value).map_err(|_| "expected time in seconds")?.0;
            Ok(())
        },
    )]),
    example: "FromDump(in.pcap) -> AdjustTimestamp(-1h) -> ToDump(out.pcap)",
    see: &["SetTimestamp", "SetTimestampDelta"],
    make: |_, conf| {
        let by = conf.positional::<SignedSpan>("TIME")?.map_or(0, |span| span.0);
        let first = conf.keyword("FIRST")?.unwrap_or(false);
        let all = conf.keyword("ALL")?.unwrap_or(false);
        conf.complete()?;
        Ok(Each::boxed(Adjust { by, first, all }))
    },
    ..Class::BASE
};

/// To a difference.
pub static DELTA: Class = Class {
    name: "SetTimestampDelta",
    brief: "makes differences of packets' timestamps",
    doc: "Replaces each timestamp by the time since the first one seen (`RANGE`), until now (`NOW`), or since \
          the first timestamp of the packets that this one stands for (`FIRST`). Packets that have none keep \
          none.",
    arguments: &[keyword("TYPE", "`RANGE`, `NOW` or `FIRST`; RANGE")],
    handlers: &Handlers::<Delta>(&[
        read("first", "the first timestamp seen", |delta| format!("{}\n", text::time(delta.first))),
        action("reset", "forgets it", |delta: &mut Delta, _| delta.first = 0).marked("b"),
    ]),
    example: "FromDump(in.pcap) -> SetTimestampDelta -> IPPrint",
    see: &["SetTimestamp", "AdjustTimestamp", "TimeFilter"],
    make: |_, conf| {
        let since = match conf.keyword::<String>("TYPE")?.as_deref() {
            None | Some("RANGE") => Since::Seen,
            Some("NOW") => Since::Now,
            Some("FIRST") => Since::First,
            Some(_) => return Err("bad TYPE".into()),
        };
        conf.complete()?;
        Ok(Each::boxed(Delta { since, first: 0 }))
    },
    ..Class::BASE
};

/// Into the packet.
pub static STORE: Class = Class {
    name: "StoreTimestamp",
    brief: "writes packets' timestamps into them",
    doc: "Writes nanoseconds since 1970, eight bytes in the machine's order, OFFSET bytes into each packet, or \
          behind its end. Packets that are too short are made longer. Give one of OFFSET and TAIL.",
    arguments: &[positional("OFFSET", "where, in bytes"), keyword("TAIL", "at the end; false")],
    drops: &[Reason::NoRoom],
    example: "StoreTimestamp(TAIL true)",
    see: &["SetTimestamp", "StoreData"],
    make: |_, conf| {
        let offset = conf.positional::<i32>("OFFSET")?.and_then(|offset| usize::try_from(offset).ok());
        let tail = conf.keyword("TAIL")?.unwrap_or(false);
        conf.complete()?;
        if offset.is_some() == tail {
            return Err("supply exactly one of 'OFFSET' and 'TAIL'".into());
        }
        Ok(Each::boxed(Store(offset)))
    },
    ..Class::BASE
};

/// A `SetTimestamp` element; [`SET`] says what it does.
#[derive(Debug, Clone)]
pub struct Set {
    at: Option<i64>,
    first: bool,
}

impl PerPacket for Set {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let at = self.at.unwrap_or_else(|| cx.now_ns());
        match self.first {
            true => packet.set_first_ns(at),
            false => packet.annotations_mut().timestamp_ns = at,
        }
        Action::ON
    }

    fn replicate(&self) -> Option<Set> {
        Some(self.clone())
    }
}

/// An `AdjustTimestamp` element; [`ADJUST`] says what it does.
#[derive(Debug)]
pub struct Adjust {
    by: i64,
    first: bool,
    all: bool,
}

impl PerPacket for Adjust {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let at = if self.first { packet.first_ns() } else { packet.annotations().timestamp_ns };
        if at != 0 || self.all {
            let moved = at.saturating_add(self.by);
            match self.first {
                true => packet.set_first_ns(moved),
                false => packet.annotations_mut().timestamp_ns = moved,
            }
        }
        Action::ON
    }
}

/// A time span that is written to a handler.
pub(super) fn span(value: &str) -> Result<i64, Refused> {
    let span = parse_alone::<Span>(value);
    span.map(|span| span.0).map_err(|_| Refused::from("expected time"))
}

#[derive(Debug, Clone, Copy)]
enum Since {
    Seen,
    Now,
    First,
}

/// A `SetTimestampDelta` element; [`DELTA`] says what it does.
#[derive(Debug)]
pub struct Delta {
    since: Since,
    first: i64,
}

impl PerPacket for Delta {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let at = packet.annotations().timestamp_ns;
        if at != 0 {
            let delta = match self.since {
                Since::Seen => {
                    if self.first == 0 {
                        self.first = at;
                    }
                    at.saturating_sub(self.first)
                }
                Since::Now => cx.now_ns().saturating_sub(at),
                Since::First => at.saturating_sub(packet.first_ns()),
            };
            packet.annotations_mut().timestamp_ns = delta;
        }
        Action::ON
    }
}

/// See [`STORE`]: at an offset, or at the end.
#[derive(Debug, Clone)]
pub struct Store(Option<usize>);

impl PerPacket for Store {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let stamp = packet.annotations().timestamp_ns.to_ne_bytes();
        let before = packet.total_len();
        let at = self.0.unwrap_or(before);
        let missing = at.saturating_add(stamp.len()).saturating_sub(before);
        if missing > 0 && !cx.grow_back(packet, missing) {
            return Action::drop(0);
        }
        chain::write_at(packet, at, &stamp);
        Action::ON
    }

    fn replicate(&self) -> Option<Store> {
        Some(self.clone())
    }
}
