//! `CoDel`: packets dropped when those of a queue wait too long.

use graph::annotation::PacketAnnotations;
use graph::class::{Handlers, both, call, keyword, positional, read};
use graph::value::{Span, parse_alone};
use graph::{Class, Cx, Element, Named, Refused};
use memory::{Batch, Packet};
use port::Reason;

use super::queues::Queues;
use crate::text;

const TARGET_NS: i64 = 5_000_000;
const INTERVAL_NS: i64 = 100_000_000;
/// Square roots are taken in sixteenths.
const ROOT: u64 = 16;

pub static CLASS: Class = Class {
    name: "CoDel",
    brief: "drops packets when a queue keeps them for too long",
    doc: "Controlled Delay (RFC 8289). Packets that are pulled have waited since the time of their first \
          timestamp, which SetTimestamp(FIRST true) sets before the queue. When all of them have waited for \
          TARGET or longer for an INTERVAL, one is dropped, and others the sooner after each other the more \
          were dropped, until one has waited for less. Packets without a first timestamp are let through.",
    ports: "1/1",
    processing: "l/l",
    arguments: &[
        positional("TARGET", "how long a packet may wait; 5ms"),
        positional("INTERVAL", "for how long all may have waited for longer; 100ms"),
        keyword("QUEUES", "names of queues; the nearest before it"),
    ],
    handlers: &HANDLERS,
    drops: &[Reason::DroppedEarly],
    example: "FromDevice(p) -> SetTimestamp(FIRST true) -> Queue(200) -> CoDel -> ToDevice(q)",
    see: &["RED", "SetTimestamp", "Queue"],
    make: |_, conf| {
        let target = conf.positional::<Span>("TARGET")?.map_or(TARGET_NS, |span| span.0);
        let interval = conf.positional::<Span>("INTERVAL")?.map_or(INTERVAL_NS, |span| span.0);
        let queues = Queues::named(conf.keyword("QUEUES")?);
        conf.complete()?;
        Ok(Box::new(CoDel {
            target: not_negative(target)?,
            interval: not_negative(interval)?,
            queues,
            drops: 0,
            law: Law::default(),
        }))
    },
    ..Class::BASE
};

const HANDLERS: Handlers<CoDel> = Handlers(&[
    read("drops", "packets dropped", |codel| codel.drops.to_string()),
    read("queues", "the queues, a line each", |codel| codel.queues.lines()),
    call("stats", "length and drops, for people", |codel, cx, _| {
        Ok(format!("{} current queue\n{} drops\n", codel.queues.length(cx), codel.drops))
    }),
    both(
        "codel_target",
        "TARGET",
        |codel| text::span(codel.target),
        |codel, _, value| {
            codel.target = span(value)?;
            Ok(())
        },
    ),
    both(
        "codel_interval",
        "INTERVAL",
        |codel| text::span(codel.interval),
        |codel, _, value| {
            codel.interval = span(value)?;
            Ok(())
        },
    ),
]);

fn span(value: &str) -> Result<i64, Refused> {
    let span = parse_alone::<Span>(value);
    Ok(not_negative(span.map_err(|_| "expected time in seconds")?.0)?)
}

fn not_negative(ns: i64) -> Result<i64, String> {
    if ns < 0 { Err("expected a time that is not negative".into()) } else { Ok(ns) }
}

/// A `CoDel` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct CoDel {
    target: i64,
    interval: i64,
    queues: Queues,
    drops: u64,
    law: Law,
}

/// When packets are dropped (RFC 8289, section 5.3).
#[derive(Debug, Clone, Default)]
struct Law {
    /// When all will have waited too long for an interval.
    above_at: Option<i64>,
    is_dropping: bool,
    drop_next: Option<i64>,
    /// Packets dropped since it began to drop.
    count: u64,
}

/// A packet that was pulled.
struct Pulled {
    packet: Packet,
    /// It has a time, so that the law applies to it.
    is_timed: bool,
    may_drop: bool,
}

impl CoDel {
    fn pull_one(&mut self, cx: &mut Cx<'_>, now: i64) -> Option<Pulled> {
        let Some(packet) = cx.pull_one(0) else {
            self.law.above_at = None;
            return None;
        };
        let since = packet.first_ns();
        if since <= 0 {
            return Some(Pulled { packet, is_timed: false, may_drop: false });
        }
        let mut may_drop = false;
        if now.saturating_sub(since) < self.target {
            self.law.above_at = None;
        } else {
            let at = *self.law.above_at.get_or_insert(now.saturating_add(self.interval).max(now + 1));
            may_drop = now >= at;
        }
        Some(Pulled { packet, is_timed: true, may_drop })
    }

    fn drop(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        self.drops += 1;
        cx.drop(0, packet);
    }

    /// The time of the next drop: the interval, divided by the square root of the drops so far.
    fn next_after(&self, at: i64) -> i64 {
        let root = (self.law.count.saturating_mul(ROOT * ROOT)).isqrt().max(1);
        let pause = i128::from(self.interval) * i128::from(ROOT) / i128::from(root);
        at.saturating_add(pause as i64)
    }

    /// The next packet that is not dropped.
    fn next(&mut self, cx: &mut Cx<'_>, now: i64) -> Option<Packet> {
        let mut pulled = self.pull_one(cx, now);
        let Some(Pulled { may_drop, .. }) = pulled.as_ref().filter(|pulled| pulled.is_timed) else {
            self.law.is_dropping = false;
            return pulled.map(|pulled| pulled.packet);
        };
        if self.law.is_dropping {
            self.law.is_dropping = *may_drop;
            while self.law.is_dropping && self.law.drop_next.is_none_or(|next| now >= next) {
                let Some(Pulled { packet, .. }) = pulled.take() else { break };
                self.drop(cx, packet);
                self.law.count += 1;
                pulled = self.pull_one(cx, now);
                self.law.is_dropping = pulled.as_ref().is_some_and(|pulled| pulled.may_drop);
                if self.law.is_dropping {
                    self.law.drop_next = Some(self.next_after(self.law.drop_next.unwrap_or(now)));
                }
            }
        } else if *may_drop {
            if let Some(Pulled { packet, .. }) = pulled.take() {
                self.drop(cx, packet);
            }
            pulled = self.pull_one(cx, now);
            // A little less than where it was, when it dropped a short time ago.
            let lately = self.law.drop_next.is_some_and(|next| now.saturating_sub(next) < self.interval);
            self.law.count = if lately && self.law.count > 2 { self.law.count - 2 } else { 1 };
            self.law.is_dropping = true;
            self.law.drop_next = Some(self.next_after(now));
        }
        pulled.map(|pulled| pulled.packet)
    }
}

impl Element for CoDel {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        self.queues.found(named, false).map(drop)
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.queues.find(&cx.named(), false)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        let now = cx.now_ns();
        while batch.room() > 0 {
            let Some(packet) = self.next(cx, now) else { return };
            batch.push(packet);
        }
    }

    fn take_over(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) {
        if let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<CoDel>() {
            self.law = old.law.clone();
        }
    }
}
