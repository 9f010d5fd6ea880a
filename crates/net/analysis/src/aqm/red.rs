//! `RED`, `AdaptiveRED`: packets dropped at random before a queue is full.

use graph::class::{Handlers, both, call, keyword, mandatory, read};
use graph::value::{Scope, Value, fixed_point, parse_alone};
use graph::{Class, ConfFault, Cx, Element, Named, Next, Refused, TimerId};
use memory::{Batch, Packet};
use port::Reason;

use super::ewma::Ewma;
use super::queues::Queues;

/// A probability of one.
const ONE: u64 = 1 << 16;
const ONE_HUNDREDTH: u64 = 655;
const NINE_TENTHS: u64 = 58_982;
/// How often AdaptiveRED looks whether it drops the right share.
const ADAPT_NS: i64 = 500_000_000;
/// An empty queue counts as so long: fifty times a second.
const EMPTY_TICK_NS: i64 = 20_000_000;

/// With fixed parameters.
pub static RED: Class = Class {
    name: "RED",
    brief: "drops packets at random, the more the longer the queue",
    doc: "Random Early Detection (Floyd and Jacobson, 1993). Up to MIN_THRESH packets in the queue, on average, \
          none are dropped; from there to MAX_THRESH more and more, up to MAX_P; from there to twice that up to \
          all of them, or all at once unless GENTLE. Dropped packets go to output 1, if there is one. The \
          queues are the nearest ones behind it, or before it where packets are pulled; the average is over the \
          last 2^STABILITY packets or so.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        mandatory("MIN_THRESH", "packets in the queue with which none are dropped"),
        mandatory("MAX_THRESH", "packets with which MAX_P are dropped"),
        mandatory("MAX_P", "that share, 0 to 1"),
        keyword("QUEUES", "names of queues; the nearest"),
        keyword("STABILITY", "how slowly the average follows, 0 to 16; 4"),
        keyword("GENTLE", "no sudden change at MAX_THRESH; true"),
    ],
    handlers: &HANDLERS,
    drops: &[Reason::DroppedEarly],
    example: "FromDevice(p) -> RED(5, 50, 0.02) -> Queue(200) -> ToDevice(q)",
    see: &["AdaptiveRED", "CoDel", "Queue"],
    make: |_, conf| {
        let (least, most) = (conf.mandatory("MIN_THRESH")?, conf.mandatory("MAX_THRESH")?);
        let Share(share) = conf.mandatory("MAX_P")?;
        let queues = Queues::named(conf.keyword("QUEUES")?);
        let stability = conf.keyword("STABILITY")?.unwrap_or(4);
        let gentle = conf.keyword("GENTLE")?.unwrap_or(true);
        conf.complete()?;
        Ok(Box::new(Red::new(Limits { least, most, share, gentle }, stability, queues, false)?))
    },
    ..Class::BASE
};

/// With parameters that follow.
pub static ADAPTIVE: Class = Class {
    name: "AdaptiveRED",
    brief: "drops packets at random so that the queue has a length",
    doc: "As RED, with MIN_THRESH at half of TARGET and MAX_THRESH at one and a half; MAX_P is the share to begin \
          with, and follows (Floyd, Gummadi and Shenker, 2001).",
    arguments: &[
        mandatory("TARGET", "packets in the queue"),
        mandatory("MAX_P", "the share that is dropped at first, 0 to 1"),
        keyword("QUEUES", "names of queues; the nearest"),
        keyword("STABILITY", "how slowly the average follows, 0 to 16; 4"),
    ],
    example: "FromDevice(p) -> AdaptiveRED(50, 0.02) -> Queue(200) -> ToDevice(q)",
    see: &["RED", "Queue"],
    make: |_, conf| {
        let target = conf.mandatory::<u64>("TARGET")?.max(10);
        let Share(share) = conf.mandatory("MAX_P")?;
        let queues = Queues::named(conf.keyword("QUEUES")?);
        let stability = conf.keyword("STABILITY")?.unwrap_or(4);
        conf.complete()?;
        let limits = Limits { least: target / 2, most: target + target / 2, share, gentle: true };
        Ok(Box::new(Red::new(limits, stability, queues, true)?))
    },
    ..RED
};

const HANDLERS: Handlers<Red> = Handlers(&[
    read("drops", "packets dropped", |red| red.drops.to_string()),
    read("queues", "the queues, a line each", |red| red.queues.lines()),
    read("avg_queue_size", "packets in them, on average", |red| red.average_length().to_string()),
    call("stats", "all that, for people", |red, cx, _| {
        let (length, average) = (red.queues.length(cx), red.average_length());
        Ok(format!("{length} current queue\n{average} avg queue\n{} drops\n", red.drops))
    }),
    both(
        "min_thresh",
        "MIN_THRESH",
        |red| red.limits.least.to_string(),
        |red, _, value| red.set(Limits { least: parse_alone(value)?, ..red.limits }),
    ),
    both(
        "max_thresh",
        "MAX_THRESH",
        |red| red.limits.most.to_string(),
        |red, _, value| red.set(Limits { most: parse_alone(value)?, ..red.limits }),
    ),
    both(
        "max_p",
        "MAX_P",
        |red| (red.limits.share as f64 / ONE as f64).to_string(),
        |red, _, value| red.set(Limits { share: parse_alone::<Share>(value)?.0, ..red.limits }),
    ),
]);

/// A share of one, in parts of 65536.
#[derive(Debug, Clone, Copy)]
struct Share(u64);

impl Value for Share {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Share, String> {
        let value =
            fixed_point(text.trim(), 1_000_000_000).filter(|value| *value >= 0).ok_or("expected real")?;
        u64::try_from(value * i128::from(ONE) / 1_000_000_000).map(Share).map_err(|_| "expected real".into())
    }
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    least: u64,
    most: u64,
    share: u64,
    gentle: bool,
}

impl Limits {
    fn check(&self, stability: u32) -> Result<(), ConfFault> {
        if self.most > 0xFFFF {
            return Err("MAX_THRESH must be <= 65535".into());
        }
        if self.least > self.most {
            return Err("MIN_THRESH must be <= MAX_THRESH".into());
        }
        if self.share > ONE {
            return Err("MAX_P must be between 0 and 1".into());
        }
        if stability > 16 {
            return Err("STABILITY must be between 0 and 16".into());
        }
        Ok(())
    }

    /// How many packets in 65536 are dropped with such an average, times
    /// [`Ewma::ONE`]; `None` for all of them.
    fn share(&self, scaled: u64) -> Option<u64> {
        let (least, most) = (self.least << Ewma::SCALE, self.most << Ewma::SCALE);
        let all = if self.gentle && self.share != ONE { 2 * most } else { most };
        match scaled {
            _ if scaled >> Ewma::SCALE <= self.least => Some(0),
            _ if scaled >> Ewma::SCALE > all >> Ewma::SCALE => None,
            _ if scaled <= most => Some(self.share * (scaled - least) / (most - least).max(1)),
            _ => Some(self.share + (ONE - self.share) * (scaled - most) / most.max(1)),
        }
    }
}

/// See [`RED`], [`ADAPTIVE`].
#[derive(Debug)]
pub struct Red {
    limits: Limits,
    queues: Queues,
    average: Ewma,
    adaptive: bool,
    drops: u64,
    /// Packets since the last one that was dropped; `None` below the limit.
    since: Option<u64>,
    random: u64,
    /// When the queue was found empty last.
    empty_tick: i64,
    timer: Option<TimerId>,
}

impl Red {
    fn new(limits: Limits, stability: u32, queues: Queues, adaptive: bool) -> Result<Red, ConfFault> {
        limits.check(stability)?;
        let average = Ewma::new(stability);
        let (since, timer) = (None, None);
        Ok(Red { limits, queues, average, adaptive, drops: 0, since, random: 0, empty_tick: 0, timer })
    }

    /// Whether the next packet is dropped, with so many in the queue.
    fn drops_next(&mut self, length: u64, now_ns: i64) -> bool {
        let tick = now_ns / EMPTY_TICK_NS;
        if length > 0 || self.average.stability() == 0 {
            self.average.update(length);
            self.empty_tick = 0;
        } else {
            let passed = if self.empty_tick == 0 { 1 } else { tick.saturating_sub(self.empty_tick).max(0) };
            self.average.update_n(0, passed as u64);
            self.empty_tick = tick;
        }
        match self.limits.share(self.average.scaled()) {
            Some(0) => {
                self.since = None;
                false
            }
            None => {
                self.since = None;
                true
            }
            Some(share) => {
                let since = self.since.map_or(0, |since| since + 1);
                let dropped = since > 0 && since > self.random / share;
                self.since = Some(if dropped { 0 } else { since });
                if since == 0 || dropped {
                    self.random = graph::random::below(ONE);
                }
                dropped
            }
        }
    }

    /// AdaptiveRED: a larger share when the queue is too long, a smaller when too short.
    fn adapt(&mut self) {
        let Limits { least, most, share, .. } = self.limits;
        let part = (most - least) / 2;
        let average = self.average.whole();
        if average < least + part && share > ONE_HUNDREDTH {
            self.limits.share = (share * NINE_TENTHS) >> 16;
        } else if average > most - part && share < ONE / 2 {
            self.limits.share = share + ONE_HUNDREDTH.min(share / 4);
        }
    }

    fn average_length(&self) -> f64 {
        self.average.scaled() as f64 / Ewma::ONE as f64
    }

    fn set(&mut self, limits: Limits) -> Result<(), Refused> {
        limits.check(self.average.stability())?;
        self.limits = limits;
        Ok(())
    }
}

impl Element for Red {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        self.queues.found(named, named.is_push_output(0)).map(drop)
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.queues.find(&cx.named(), cx.is_push_output(0))?;
        if self.adaptive {
            let timer = cx.new_timer();
            cx.set_timer_after(timer, ADAPT_NS);
            self.timer = Some(timer);
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        // They come to the queue when all are through.
        let (length, now) = (self.queues.length(cx), cx.now_ns());
        let before = self.drops;
        let outputs = cx.outputs();
        let mut gone: Vec<Packet> = vec![];
        for n in 0..batch.len() {
            let Some(packet) = batch.pop_front() else { break };
            if self.drops_next(length + n as u64 - (self.drops - before), now) {
                self.drops += 1;
                gone.push(packet);
            } else {
                cx.emit(0, packet);
            }
        }
        for packet in gone {
            if outputs > 1 { cx.emit(1, packet) } else { cx.drop(0, packet) }
        }
        Next::Done
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        self.adapt();
        cx.set_timer_after(timer, ADAPT_NS);
    }

    fn take_over(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) {
        if let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<Red>() {
            let stability = self.average.stability();
            self.average = old.average.clone();
            self.average.set_stability(stability);
        }
    }
}
