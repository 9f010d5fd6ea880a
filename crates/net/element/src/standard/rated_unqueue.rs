//! `RatedUnqueue`, `BandwidthRatedUnqueue`, `RatedSplitter`,
//! `BandwidthRatedSplitter`: no more than so many packets, or bytes, a second.

use graph::class::{Handlers, Row, both, datum, keyword, mandatory, read};
use graph::value::{Bandwidth, Span};
use graph::{
    Action, Class, Conf, ConfFault, Cx, Each, Element, PerPacket, Ran, Refused, Signals, TaskId, TimerId,
};
use memory::{Batch, Packet};
use port::Reason;

use super::bucket::{self, BYTES_THRESHOLD, Bucket};
use super::{bandwidth, parsed};

/// The handler `active` of both classes that pull.
const ACTIVE: Row<RatedUnqueue> = both(
    "active",
    "whether it pulls",
    |unqueue: &RatedUnqueue| unqueue.active.to_string(),
    RatedUnqueue::set_active,
)
.marked("c");

pub static CLASS: Class = Class {
    name: "RatedUnqueue",
    brief: "pulls packets at a rate, and pushes them",
    doc: "Pulls at most RATE packets a second. What was not used is saved up, to BURST_SIZE packets or to \
          what RATE gives in BURST_DURATION; so a burst may come after a pause.",
    processing: "l/h",
    arguments: &[
        mandatory("RATE", "packets a second"),
        keyword("BURST_DURATION", "how long a burst lasts at RATE; 20 ms"),
        keyword("BURST_SIZE", "packets in a burst, instead of BURST_DURATION"),
    ],
    handlers: &Handlers::<RatedUnqueue>(&[
        read("calls", "how often it tried, and what came of it", RatedUnqueue::calls),
        datum("rate", "packets a second", |unqueue| unqueue.rate.read(), (0, "RATE")),
        ACTIVE,
    ]),
    live: true,
    config_changes: true,
    example: "RatedUnqueue(1000)",
    see: &["BandwidthRatedUnqueue", "Unqueue", "Shaper", "RatedSplitter"],
    make: |_, conf| Ok(Box::new(RatedUnqueue::new(Rate::parse(conf, false)?))),
    ..Class::BASE
};

pub static BANDWIDTH: Class = Class {
    name: "BandwidthRatedUnqueue",
    brief: "pulls packets at a rate of bytes, and pushes them",
    doc: "Pulls packets of at most RATE bytes a second in all. What was not used is saved up, to BURST_BYTES \
          or to what RATE gives in BURST_DURATION.",
    arguments: BANDWIDTH_ARGUMENTS,
    handlers: &Handlers::<RatedUnqueue>(&[
        read("calls", "how often it tried, and what came of it", RatedUnqueue::calls),
        datum("rate", "bytes a second", |unqueue| unqueue.rate.read(), (0, "RATE")),
        ACTIVE,
    ]),
    example: "BandwidthRatedUnqueue(10Mbps)",
    see: &["RatedUnqueue", "BandwidthShaper", "BandwidthRatedSplitter"],
    make: |_, conf| Ok(Box::new(RatedUnqueue::new(Rate::parse(conf, true)?))),
    ..CLASS
};

pub static SPLITTER: Class = Class {
    name: "RatedSplitter",
    brief: "splits off what exceeds a rate",
    doc: "At most RATE packets a second go to output 0, the others to output 1, or are dropped.",
    ports: "1/1-2",
    processing: "h/h",
    handlers: &Handlers::<RatedSplitter>(&[datum(
        "rate",
        "packets a second",
        |splitter| splitter.0.read(),
        (0, "RATE"),
    )]),
    drops: &[Reason::RateExceeded],
    live: true,
    config_changes: true,
    example: "RatedSplitter(1000)",
    see: &["BandwidthRatedSplitter", "RandomSample", "Meter", "RatedUnqueue"],
    make: |_, conf| Ok(Each::boxed(RatedSplitter(Rate::parse(conf, false)?))),
    ..CLASS
};

pub static BANDWIDTH_SPLITTER: Class = Class {
    name: "BandwidthRatedSplitter",
    brief: "splits off what exceeds a rate of bytes",
    doc: "Packets of at most RATE bytes a second in all go to output 0, the others to output 1, or are \
          dropped.",
    arguments: BANDWIDTH_ARGUMENTS,
    handlers: &Handlers::<RatedSplitter>(&[datum(
        "rate",
        "bytes a second",
        |splitter| splitter.0.read(),
        (0, "RATE"),
    )]),
    example: "BandwidthRatedSplitter(10Mbps)",
    see: &["RatedSplitter", "BandwidthMeter", "BandwidthRatedUnqueue"],
    make: |_, conf| Ok(Each::boxed(RatedSplitter(Rate::parse(conf, true)?))),
    ..SPLITTER
};

const BANDWIDTH_ARGUMENTS: &[graph::class::Argument] = &[
    mandatory("RATE", "bytes a second; 10Mbps and the like are understood"),
    keyword("BURST_DURATION", "how long a burst lasts at RATE; 20 ms"),
    keyword("BURST_BYTES", "bytes in a burst, instead of BURST_DURATION"),
];

/// A rate as it is configured.
#[derive(Debug)]
struct Rate {
    bucket: Bucket,
    /// Rate and capacity, as they were asked for.
    wanted: (u32, u32),
    /// Of bytes, not of packets.
    bytes: bool,
}

impl Rate {
    fn parse(conf: &mut Conf<'_>, bytes: bool) -> Result<Rate, ConfFault> {
        let rate = match bytes {
            true => u32::try_from(conf.mandatory::<Bandwidth>("RATE")?.0)
                .map_err(|_| ConfFault::new("RATE: out of range, bound 4294967295"))?,
            false => conf.mandatory("RATE")?,
        };
        let duration_ns = conf.keyword::<Span>("BURST_DURATION")?.map(|span| span.0);
        let burst = conf.keyword(if bytes { "BURST_BYTES" } else { "BURST_SIZE" })?;
        conf.complete()?;
        let wanted = (rate, bucket::capacity(rate, burst, duration_ns, bytes)?);
        Ok(Rate { bucket: Bucket::new(wanted.0, wanted.1), wanted, bytes })
    }

    /// Tokens there must be for a packet.
    #[inline]
    fn threshold(&self) -> u32 {
        if self.bytes { BYTES_THRESHOLD } else { 1 }
    }

    #[inline]
    fn take(&mut self, packet: &Packet) {
        let cost = if self.bytes { packet.total_len() as u32 } else { 1 };
        self.bucket.remove(cost);
    }

    fn read(&self) -> String {
        if self.bytes { bandwidth(self.bucket.rate()) } else { self.bucket.rate().to_string() }
    }
}

/// A `RatedUnqueue` or `BandwidthRatedUnqueue` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct RatedUnqueue {
    rate: Rate,
    active: bool,
    task: Option<TaskId>,
    timer: Option<TimerId>,
    upstream: Signals,
    runs: u64,
    pushes: u64,
    failed: u64,
    empty: u64,
}

impl RatedUnqueue {
    fn new(rate: Rate) -> RatedUnqueue {
        let (task, timer, upstream) = (None, None, Signals::default());
        RatedUnqueue { rate, active: true, task, timer, upstream, runs: 0, pushes: 0, failed: 0, empty: 0 }
    }

    fn wake(&self, cx: &mut Cx<'_>) {
        if let Some(task) = self.task.filter(|_| self.active) {
            cx.schedule(task);
        }
    }

    fn set_active(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        self.active = parsed(value)?;
        self.wake(cx);
        Ok(())
    }

    fn calls(&self) -> String {
        format!(
            "{} calls to run_task()\n{} empty runs\n{} pushes\n{} failed pulls\n",
            self.runs, self.empty, self.pushes, self.failed
        )
    }
}

impl Element for RatedUnqueue {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        self.upstream = cx.upstream(0, Some(task));
        (self.task, self.timer) = (Some(task), Some(cx.new_timer()));
        cx.set_config(self.rate.read());
        self.wake(cx);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        self.runs += 1;
        if !self.active {
            return Ran::IDLE;
        }
        self.rate.bucket.refill(cx);
        let threshold = self.rate.threshold();
        if !self.rate.bucket.contains(threshold) {
            if let (Some(timer), Some(wait)) = (self.timer, self.rate.bucket.wait_ns(threshold)) {
                cx.set_timer_after(timer, wait);
            }
            self.empty += 1;
            return Ran::IDLE;
        }
        let Some(packet) = cx.pull_one(0) else {
            self.failed += 1;
            if self.upstream.any() {
                self.empty += 1;
                cx.schedule(task);
            }
            return Ran::IDLE;
        };
        self.rate.take(&packet);
        self.pushes += 1;
        batch.push(packet);
        cx.schedule(task);
        Ran::push(0)
    }

    fn fire(&mut self, cx: &mut Cx<'_>, _: TimerId) {
        self.wake(cx);
    }

    fn reconfigure(&mut self, cx: &mut Cx<'_>, new: Box<dyn Element>) -> Result<(), Refused> {
        if let Ok(new) = (new as Box<dyn std::any::Any>).downcast::<RatedUnqueue>() {
            self.rate.wanted = new.rate.wanted;
            self.rate.bucket.assign(new.rate.wanted.0, new.rate.wanted.1);
            cx.set_config(self.rate.read());
        }
        self.wake(cx);
        Ok(())
    }
}

/// A `RatedSplitter` or `BandwidthRatedSplitter` element; [`SPLITTER`] says what it does.
#[derive(Debug)]
pub struct RatedSplitter(Rate);

impl PerPacket for RatedSplitter {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.set_config(self.0.read());
        Ok(())
    }

    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        self.0.bucket.refill(cx);
        if !self.0.bucket.contains(self.0.threshold()) {
            return Action::out_or_drop(1, 0);
        }
        self.0.take(packet);
        Action::ON
    }
}
