//! `TimeFilter`, `TimeRange`, `TimestampAccum`: what looks at packets' timestamps.

use graph::class::{Handlers, action, both, keyword, positional, read, write};
use graph::clock::SECOND_NS;
use graph::value::Span;
use graph::{Action, Class, Cx, Each, Named, PerPacket};
use memory::Packet;
use port::Reason;

use super::call::Call;
use super::text;
use super::timestamp::span;

const HANDLERS: Handlers<Filter> = Handlers(&[
    both(
        "start",
        "where it begins",
        |filter| text::time(filter.start.0),
        |filter, _, value| {
            let at = span(value)?;
            if !filter.ready {
                filter.first_packet(at);
            }
            filter.start = (at, From::Epoch);
            Ok(())
        },
    ),
    both(
        "end",
        "where it ends",
        |filter| text::time(filter.end_ns()),
        |filter, _, value| {
            filter.set_end((span(value)?, From::Epoch));
            Ok(())
        },
    ),
    both(
        "interval",
        "how long it is; writing it moves the end",
        |filter| apart(filter.end_ns(), filter.start.0),
        |filter, _, value| {
            filter.set_end((filter.start.0.saturating_add(span(value)?), From::Epoch));
            Ok(())
        },
    ),
    write("extend_interval", "moves the end by so much", |filter, _, value| {
        filter.set_end((filter.end.0.saturating_add(span(value)?), filter.end.1));
        Ok(())
    }),
]);

/// Some of them.
pub static FILTER: Class = Class {
    name: "TimeFilter",
    brief: "lets packets of a range of time through",
    doc: "Packets whose timestamps lie before the start, at the end or behind it go to output 1, or are dropped. \
          Start and end are times since 1970, or relative to the first packet (AFTER) or to when the router \
          began (DELAY); INTERVAL is relative to the start. Give at most one of each. END_CALL is written \
          when the first packet behind the end comes; `$t` in it is that packet's time. If it writes this \
          element's own `extend_interval`, the packet may still go through.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        positional("START", "packets from this time on; all"),
        positional("END", "packets before this time; all"),
        keyword("START_DELAY", "start, from when the router began"),
        keyword("END_DELAY", "end, from when the router began"),
        keyword("START_AFTER", "start, from the first packet on"),
        keyword("END_AFTER", "end, from the first packet on"),
        keyword("INTERVAL", "end, from the start on"),
        keyword("STOP", "stops the router at the end; false"),
        keyword("END_CALL", "handler written at the end"),
    ],
    handlers: &HANDLERS,
    drops: &[Reason::NotInRange],
    example: "FromDump(in.pcap) -> TimeFilter(START_AFTER 10s, INTERVAL 1m, STOP true) -> ToDump(out.pcap)",
    see: &["TimeRange", "SetTimestamp"],
    make: |setup, conf| {
        let mut time = |key, positional| -> Result<Option<i64>, graph::ConfFault> {
            let span: Option<Span> = if positional { conf.positional(key)? } else { conf.keyword(key)? };
            Ok(span.map(|span| span.0).filter(|ns| *ns != 0))
        };
        let (start, end) = (time("START", true)?, time("END", true)?);
        let (start_delay, end_delay) = (time("START_DELAY", false)?, time("END_DELAY", false)?);
        let (start_after, end_after) = (time("START_AFTER", false)?, time("END_AFTER", false)?);
        let interval = time("INTERVAL", false)?;
        let stop = conf.keyword("STOP")?.unwrap_or(false);
        let call: Option<Call> = conf.keyword("END_CALL")?;
        conf.complete()?;
        let start = match (start, start_after, start_delay) {
            (None, after, None) => (after.unwrap_or(0), From::Packet),
            (Some(at), None, None) => (at, From::Epoch),
            (None, None, Some(delay)) => (delay, From::Now),
            _ => return Err("START, START_AFTER, and START_AFTER_INIT are mutually exclusive".into()),
        };
        let end = match (end, end_after, end_delay, interval) {
            (None, None, None, None) => (i64::MAX, From::Epoch),
            (Some(at), None, None, None) => (at, From::Epoch),
            (None, Some(after), None, None) => (after, From::Packet),
            (None, None, Some(delay), None) => (delay, From::Now),
            (None, None, None, Some(interval)) => (interval, From::Start),
            _ => return Err("END, END_AFTER, END_AFTER_INIT, and INTERVAL are mutually exclusive".into()),
        };
        if call.is_some() && stop {
            return Err("END_CALL and STOP are mutually exclusive".into());
        }
        let call = call.or_else(|| stop.then(Call::stop));
        let armed = call.is_some();
        let filter = Filter { start, end, ready: false, call, armed, called_at: None };
        if filter.calls() {
            setup.take_one_by_one();
        }
        Ok(Each::boxed(filter))
    },
    ..Class::BASE
};

/// All of them, looked at.
pub static RANGE: Class = Class {
    name: "TimeRange",
    brief: "finds the first and the last of packets' timestamps",
    doc: "Passes packets on unchanged.",
    arguments: &[keyword("SIMPLE", "timestamps only ever grow; false")],
    handlers: &Handlers::<Range>(&[
        read("first", "the earliest timestamp", |range| text::time(range.first)),
        read("last", "the latest timestamp", |range| text::time(range.last)),
        read("range", "both", |range| format!("{} {}", text::time(range.first), text::time(range.last))),
        read("interval", "the time between them", |range| apart(range.last, range.first)),
        action("reset", "forgets them", |range: &mut Range, _| (range.first, range.last) = (0, 0))
            .marked("b"),
    ]),
    example: "FromDump(in.pcap, STOP true) -> r :: TimeRange -> Discard",
    see: &["TimeFilter"],
    make: |_, conf| {
        let simple = conf.keyword("SIMPLE")?.unwrap_or(false);
        conf.complete()?;
        Ok(Each::boxed(Range { simple, first: 0, last: 0 }))
    },
    ..Class::BASE
};

/// How old they are.
pub static ACCUM: Class = Class {
    name: "TimestampAccum",
    brief: "adds up how old packets are",
    doc: "Adds up the time since each packet's timestamp.",
    handlers: &Handlers::<Accum>(&[
        read("count", "packets", |accum| accum.count.to_string()),
        read("time", "their age together, in seconds", |accum| text::general(accum.seconds())),
        read("average_time", "their age on average, in seconds", |accum| {
            text::general(accum.seconds() / accum.count.max(1) as f64)
        }),
        action("reset_counts", "begins at zero again", |accum: &mut Accum, _| *accum = Accum::default())
            .marked("b"),
    ]),
    example: "FromDevice(p) -> Queue -> Unqueue -> TimestampAccum -> Discard",
    see: &["SetTimestamp", "TimeRange"],
    make: |_, conf| {
        conf.complete()?;
        Ok(Each::boxed(Accum::default()))
    },
    ..Class::BASE
};

/// What a time is counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Epoch,
    Now,
    Packet,
    Start,
}

/// A `TimeFilter` element; [`FILTER`] says what it does.
#[derive(Debug)]
pub struct Filter {
    start: (i64, From),
    end: (i64, From),
    /// The first packet came: both are counted from the epoch.
    ready: bool,
    call: Option<Call>,
    /// The call is still to be made.
    armed: bool,
    /// The end at which the call was made that decides what becomes of the next packet.
    called_at: Option<i64>,
}

/// The time between two, though one of them may be no end at all.
fn apart(last: i64, first: i64) -> String {
    text::time(last.saturating_sub(first))
}

impl Filter {
    #[cold]
    fn first_packet(&mut self, at: i64) {
        if self.start.1 == From::Packet {
            self.start = (self.start.0.saturating_add(at), From::Epoch);
        }
        match self.end.1 {
            From::Packet => self.end = (self.end.0.saturating_add(at), From::Epoch),
            From::Start => self.end = (self.end.0.saturating_add(self.start.0), From::Epoch),
            From::Epoch | From::Now => {}
        }
        self.ready = true;
    }

    /// The end is reached: tells so, for as long as that moves the end. Whether the packet
    /// waits for what comes of it.
    #[cold]
    fn reach_end(&mut self, cx: &mut Cx<'_>, at: i64) -> bool {
        let Some(call) = self.call.clone() else { return false };
        while at >= self.end.0 && self.armed {
            let before = self.end.0;
            if self.called_at.take().is_some_and(|end| before <= end) {
                return false;
            }
            self.armed = false;
            let now = Call { value: call.value.replace("$t", &text::time(at)), ..call.clone() };
            match now.own(cx) {
                Some(handler) => {
                    let _ = HANDLERS.write_own(self, cx, handler, &now.value);
                }
                None => {
                    now.make(cx);
                    if now.is_stop() {
                        return false;
                    }
                    self.called_at = Some(before);
                    return true;
                }
            }
            if self.end.0 <= before {
                return false;
            }
        }
        false
    }

    fn set_end(&mut self, end: (i64, From)) {
        self.end = end;
        self.armed = self.call.is_some();
    }

    fn end_ns(&self) -> i64 {
        // No end is the last second that Click knows.
        if self.end.0 == i64::MAX { i64::from(i32::MAX) * SECOND_NS } else { self.end.0 }
    }
}

impl PerPacket for Filter {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        self.call.iter().try_for_each(|call| call.check(named))
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        for time in [&mut self.start, &mut self.end] {
            if time.1 == From::Now {
                *time = (time.0.saturating_add(cx.now_ns()), From::Epoch);
            }
        }
        Ok(())
    }

    fn calls(&self) -> bool {
        self.call.as_ref().is_some_and(|call| !call.is_stop())
    }

    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let at = packet.annotations().timestamp_ns;
        if !self.ready {
            self.first_packet(at);
        }
        if at >= self.end.0 && self.armed && at >= self.start.0 && self.reach_end(cx, at) {
            return Action::AGAIN;
        }
        self.called_at = None;
        if at >= self.start.0 && at < self.end.0 { Action::ON } else { Action::out_or_drop(1, 0) }
    }
}

/// A `TimeRange` element; [`RANGE`] says what it does.
#[derive(Debug)]
pub struct Range {
    simple: bool,
    first: i64,
    last: i64,
}

impl PerPacket for Range {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let at = packet.annotations().timestamp_ns;
        if self.first == 0 {
            (self.first, self.last) = (at, at);
        } else if self.simple || at > self.last {
            self.last = at;
        } else if at < self.first {
            self.first = at;
        }
        Action::ON
    }
}

/// A `TimestampAccum` element; [`ACCUM`] says what it does.
#[derive(Debug, Default)]
pub struct Accum {
    count: u64,
    age_ns: i128,
}

impl Accum {
    fn seconds(&self) -> f64 {
        self.age_ns as f64 / SECOND_NS as f64
    }
}

impl PerPacket for Accum {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        self.age_ns += i128::from(cx.now_ns()) - i128::from(packet.annotations().timestamp_ns);
        self.count += 1;
        Action::ON
    }
}
