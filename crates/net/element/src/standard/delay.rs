//! `DelayShaper`, `DelayUnqueue`, `LinkUnqueue`: packets held back for a time, or as a
//! link would.

use std::collections::VecDeque;

use graph::class::{Handlers, NOT_TAKEN_OVER, Row, action, both, mandatory, read};
use graph::clock::SECOND_NS;
use graph::signal::SignalKind;
use graph::value::{Bandwidth, Span};
use graph::{Class, Cx, Element, Notice, Ran, Refused, Signal, Signals, TaskId, TimerId};
use memory::{Batch, Packet};

use super::{interval, parsed};
use graph::annotation::{EXTRA_LENGTH, PacketAnnotations};
use port::Reason;

const DELAY: Row<Delay> = both(
    "delay",
    "how long",
    |delay: &Delay| interval(delay.delay_ns),
    |delay: &mut Delay, _, value| {
        let Span(ns) = parsed(value).map_err(|_| Refused::from("delay must be a timestamp"))?;
        delay.delay_ns = ns;
        Ok(())
    },
)
.marked(".");

/// Held for a time, pulled.
pub static DELAY_SHAPER: Class = Class {
    name: "DelayShaper",
    brief: "holds packets back for a time",
    doc: "A packet can be pulled DELAY after its timestamp; one without a timestamp DELAY after it was looked \
          at first. Its timestamp is then the time it left.",
    processing: "l/l",
    arguments: &[mandatory("DELAY", "how long")],
    handlers: &Handlers::<Delay>(&[DELAY]),
    drops: &[NOT_TAKEN_OVER],
    example: "SetTimestamp -> Queue -> DelayShaper(10ms) -> Unqueue",
    see: &["DelayUnqueue", "LinkUnqueue", "SetTimestamp"],
    make: |_, conf| {
        let delay: Span = conf.mandatory("DELAY")?;
        conf.complete()?;
        Ok(Box::new(Delay::new(delay.0, true)))
    },
    ..Class::BASE
};

/// Held for a time, pushed.
pub static DELAY_UNQUEUE: Class = Class {
    name: "DelayUnqueue",
    brief: "pulls packets, and pushes them after a time",
    doc: "A packet is pushed DELAY after its timestamp; one without a timestamp DELAY after it was pulled. Its \
          timestamp is then the time it was meant to leave.",
    processing: "l/h",
    handlers: &Handlers::<Delay>(&[DELAY.marked("")]),
    example: "SetTimestamp -> Queue -> DelayUnqueue(10ms) -> Discard",
    see: &["DelayShaper", "LinkUnqueue", "SetTimestamp"],
    make: |_, conf| {
        let delay: Span = conf.mandatory("DELAY")?;
        conf.complete()?;
        Ok(Box::new(Delay::new(delay.0, false)))
    },
    ..DELAY_SHAPER
};

/// As a link would.
pub static LINK_UNQUEUE: Class = Class {
    name: "LinkUnqueue",
    brief: "delays packets as a link does",
    doc: "A packet leaves after LATENCY and the time its bytes take at BANDWIDTH; packets that come while \
          others are sent wait for them. Its timestamp is the time it was meant to leave. Extra lengths \
          count.",
    processing: "l/h",
    arguments: &[
        mandatory("LATENCY", "how long a bit takes"),
        mandatory("BANDWIDTH", "bytes a second, 100 at least"),
    ],
    handlers: &Handlers::<Link>(&[
        both(
            "latency",
            "how long a bit takes",
            |link: &Link| interval(link.latency_ns),
            |link: &mut Link, cx, value| {
                let Span(ns) = parsed(value).map_err(|_| Refused::from("latency must be a timestamp"))?;
                link.latency_ns = ns;
                link.begin_anew(cx);
                Ok(())
            },
        )
        .marked("."),
        both(
            "bandwidth",
            "bytes a second",
            |link: &Link| (link.bandwidth * 100).to_string(),
            |link: &mut Link, cx, value| {
                let bandwidth = parsed(value).map_err(|_| Refused::from("invalid bandwidth"))?;
                link.bandwidth = hundreds(bandwidth)?;
                link.begin_anew(cx);
                Ok(())
            },
        )
        .marked("."),
        read("size", "packets on the link", |link| link.link.len().to_string()),
        action("reset", "drops all packets on the link", Link::begin_anew).marked("b"),
    ]),
    drops: &[Reason::Dropped, Reason::Reset, NOT_TAKEN_OVER],
    example: "Queue -> LinkUnqueue(10ms, 1Mbps) -> Discard",
    see: &["DelayUnqueue", "BandwidthShaper"],
    make: |_, conf| {
        let latency: Span = conf.mandatory("LATENCY")?;
        let bandwidth: Bandwidth = conf.mandatory("BANDWIDTH")?;
        conf.complete()?;
        Ok(Box::new(Link {
            latency_ns: latency.0,
            bandwidth: hundreds(bandwidth)?,
            link: VecDeque::new(),
            back_to_back: false,
            task: None,
            timer: None,
            upstream: Signals::default(),
        }))
    },
    ..Class::BASE
};

/// A bandwidth in hundreds of bytes a second.
fn hundreds(bandwidth: Bandwidth) -> Result<i64, String> {
    match i64::try_from(bandwidth.0 / 100) {
        Ok(hundreds) if hundreds > 0 => Ok(hundreds),
        _ => Err("bandwidth too small, minimum 100Bps".into()),
    }
}

/// See [`DELAY_SHAPER`], [`DELAY_UNQUEUE`].
#[derive(Debug)]
pub struct Delay {
    delay_ns: i64,
    /// The one that waits, and when it is due.
    held: Option<(Packet, i64)>,
    /// Raised while there may be something to pull; of a DelayShaper.
    ready: Option<Signal>,
    task: Option<TaskId>,
    timer: Option<TimerId>,
    upstream: Signals,
}

impl Delay {
    fn new(delay_ns: i64, shaper: bool) -> Delay {
        let ready = shaper.then(|| Signal::new(true));
        Delay { delay_ns, held: None, ready, task: None, timer: None, upstream: Signals::default() }
    }

    /// The next packet that is due. One that is not is held, and the timer set.
    fn next(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let now = cx.now_ns();
        if self.held.is_none() {
            let packet = cx.pull_one(0)?;
            let stamp = packet.annotations().timestamp_ns;
            let from = if stamp / SECOND_NS == 0 { now } else { stamp };
            self.held = Some((packet, from.saturating_add(self.delay_ns)));
        }
        let (mut packet, due) = self.held.take()?;
        if due <= now {
            packet.annotations_mut().timestamp_ns = if self.ready.is_some() { now } else { due };
            return Some(packet);
        }
        self.held = Some((packet, due));
        if let Some(timer) = self.timer {
            cx.set_timer(timer, due);
        }
        None
    }
}

impl Element for Delay {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        (self.task, self.timer) = (Some(task), Some(cx.new_timer()));
        self.upstream = cx.upstream(0, Some(task));
        if self.ready.is_none() {
            cx.schedule(task);
        }
        Ok(())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        while batch.room() > 0 {
            let Some(packet) = self.next(cx) else {
                let Some(ready) = &self.ready else { return };
                if self.held.is_some() || !self.upstream.any() {
                    ready.lower();
                    if self.held.is_none() && self.upstream.any() {
                        ready.raise(cx); // it just changed
                    }
                }
                return;
            };
            batch.push(packet);
        }
    }

    /// There are packets again further up; or it is a DelayUnqueue's turn.
    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        if let Some(ready) = &self.ready {
            if self.held.is_none() {
                ready.raise(cx);
            }
            return Ran::IDLE;
        }
        while batch.room() > 0 {
            let Some(packet) = self.next(cx) else { break };
            batch.push(packet);
        }
        if batch.room() == 0 || self.held.is_none() && self.upstream.any() {
            cx.schedule(task);
        }
        if batch.is_empty() { Ran::IDLE } else { Ran::push(0) }
    }

    fn fire(&mut self, cx: &mut Cx<'_>, _: TimerId) {
        match (&self.ready, self.task) {
            (Some(ready), _) => ready.raise(cx),
            (None, Some(task)) => cx.schedule(task),
            _ => {}
        }
    }

    fn notice(&self, kind: SignalKind, _: usize) -> Notice {
        match (&self.ready, kind) {
            (Some(ready), SignalKind::Packets) => Notice::Signal(ready.clone()),
            _ => Notice::Continue,
        }
    }

    fn take_over(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) {
        if let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<Delay>() {
            self.held = self.held.take().or(old.held.take());
        }
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        cx.end_waiting(self.held.take().map(|(packet, _)| packet));
    }
}

/// A `LinkUnqueue` element; [`LINK_UNQUEUE`] says what it does.
#[derive(Debug)]
pub struct Link {
    latency_ns: i64,
    /// In hundreds of bytes a second.
    bandwidth: i64,
    /// Each with the time at which it leaves in its timestamp.
    link: VecDeque<Packet>,
    back_to_back: bool,
    task: Option<TaskId>,
    timer: Option<TimerId>,
    upstream: Signals,
}

impl Link {
    fn last_ns(&self) -> Option<i64> {
        self.link.back().map(|packet| packet.annotations().timestamp_ns)
    }

    /// Takes packets in as far as the link has room: what it holds is what fits into
    /// its latency.
    fn take_in(&mut self, cx: &mut Cx<'_>, later_ns: i64) -> bool {
        let mut worked = false;
        while self.last_ns().is_none_or(|last| last <= later_ns) && self.link.len() < LINK_LIMIT {
            let Some(mut packet) = cx.pull_one(0) else {
                self.back_to_back = false;
                break;
            };
            let start = self.last_ns().filter(|_| self.back_to_back).unwrap_or(later_ns);
            let bytes = packet.total_len() as i64 + i64::from(packet.u32_at(EXTRA_LENGTH));
            let micros = bytes * 10_000 / self.bandwidth;
            packet.annotations_mut().timestamp_ns = start.saturating_add(micros * 1000);
            self.link.push_back(packet);
            (worked, self.back_to_back) = (true, true);
        }
        worked
    }

    /// Drops all packets on the link.
    fn begin_anew(&mut self, cx: &mut Cx<'_>) {
        std::mem::take(&mut self.link).into_iter().for_each(|packet| cx.drop(1, packet));
        if let Some(task) = self.task {
            cx.schedule(task);
        }
    }
}

/// Packets a link holds at most, however long it is: each needs a buffer.
const LINK_LIMIT: usize = 1 << 16;

impl Element for Link {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        (self.task, self.timer) = (Some(task), Some(cx.new_timer()));
        self.upstream = cx.upstream(0, Some(task));
        cx.schedule(task);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        let now = cx.now_ns();
        let worked = self.take_in(cx, now.saturating_add(self.latency_ns));
        let due = |packet: &Packet| packet.annotations().timestamp_ns;
        while batch.room() > 0 && self.link.front().is_some_and(|packet| due(packet) <= now) {
            if let Some(packet) = self.link.pop_front() {
                batch.push(packet);
            }
        }
        match self.link.front().map(due) {
            Some(first) => {
                let room_at =
                    self.last_ns().filter(|_| self.upstream.any()).map(|last| last - self.latency_ns);
                let next = first.min(room_at.unwrap_or(i64::MAX));
                match self.timer.filter(|_| next > now) {
                    Some(timer) => cx.set_timer(timer, next),
                    None => cx.schedule(task),
                }
            }
            None if self.upstream.any() => cx.schedule(task),
            None => {}
        }
        if batch.is_empty() { Ran::done(worked) } else { Ran::push(0) }
    }

    fn fire(&mut self, cx: &mut Cx<'_>, _: TimerId) {
        if let Some(task) = self.task {
            cx.schedule(task);
        }
    }

    fn take_over(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) {
        if let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<Link>() {
            (self.link, self.back_to_back) = (std::mem::take(&mut old.link), old.back_to_back);
        }
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        cx.end_waiting(std::mem::take(&mut self.link));
    }
}
