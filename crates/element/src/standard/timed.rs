//! `TimedSink`, `TimedUnqueue`: packets pulled every so often.

use graph::class::{both, positional, read, write};
use graph::clock::SECOND_NS;
use graph::timer::TimerId;
use graph::value::Span;
use graph::{Class, Cx, Element, Refused};
use memory::Batch;

use super::{parsed, seconds};

/// Pulled and dropped.
pub static SINK: Class = Class {
    name: "TimedSink",
    brief: "pulls and drops a packet every so often",
    doc: "Pulls one packet every INTERVAL and drops it.",
    ports: "1/0",
    processing: "l/",
    arguments: &[positional("INTERVAL", "time between packets; 0.5 s")],
    handlers: &[both("interval", "time between packets")],
    example: "Queue -> TimedSink(0.1s)",
    see: &["TimedSource", "Discard"],
    make: |_, conf| {
        let interval = conf.positional("INTERVAL")?.unwrap_or(Span(SECOND_NS / 2));
        conf.complete()?;
        Ok(Box::new(Timed::new(interval.0, 1, true)))
    },
    ..Class::BASE
};

/// Pulled and pushed.
pub static UNQUEUE: Class = Class {
    name: "TimedUnqueue",
    brief: "pulls packets every so often, and pushes them",
    doc: "Pulls up to BURST packets every INTERVAL, and pushes them.",
    ports: "1/1",
    processing: "l/h",
    arguments: &[positional("INTERVAL", "time between bursts"), positional("BURST", "packets at a time; 1")],
    handlers: &[
        both("interval", "time between bursts"),
        both("active", "whether it pulls"),
        read("count", "packets moved"),
        write("reset_counts", "sets the count to zero"),
    ],
    example: "Queue -> TimedUnqueue(0.1s, 8) -> Discard",
    see: &["Unqueue", "RatedUnqueue", "Burster"],
    make: |_, conf| {
        let interval = conf.positional("INTERVAL")?.unwrap_or(Span(SECOND_NS / 2));
        let burst: usize = conf.positional("BURST")?.unwrap_or(1);
        conf.complete()?;
        if burst == 0 {
            return Err("bad BURST".into());
        }
        Ok(Box::new(Timed::new(interval.0, burst, false)))
    },
    ..Class::BASE
};

/// See [`SINK`], [`UNQUEUE`].
#[derive(Debug)]
pub struct Timed {
    interval_ns: i64,
    burst: usize,
    /// Packets end here.
    sink: bool,
    active: bool,
    count: u64,
    timer: Option<TimerId>,
}

impl Timed {
    fn new(interval_ns: i64, burst: usize, sink: bool) -> Timed {
        Timed { interval_ns: interval_ns.max(1), burst, sink, active: true, count: 0, timer: None }
    }
}

impl Element for Timed {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let timer = cx.new_timer();
        self.timer = Some(timer);
        cx.set_timer_after(timer, self.interval_ns);
        Ok(())
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let mut left = if self.active { self.burst } else { 0 };
        while left > 0 {
            let mut batch = Batch::with_limit(left.min(Batch::MAX));
            let pulled = cx.pull(0, &mut batch);
            self.count += pulled as u64;
            left -= pulled.min(left);
            while let Some(packet) = batch.pop_front() {
                if self.sink { cx.free(packet) } else { cx.emit(0, packet) }
            }
            if pulled == 0 {
                break;
            }
        }
        cx.set_timer_after(timer, self.interval_ns);
    }

    fn read(&mut self, _: &mut Cx<'_>, handler: &str, _: &str) -> Result<String, Refused> {
        Ok(match handler {
            "interval" => seconds(self.interval_ns),
            "active" => self.active.to_string(),
            _ => self.count.to_string(),
        })
    }

    fn write(&mut self, _: &mut Cx<'_>, handler: &str, value: &str) -> Result<(), Refused> {
        match handler {
            "interval" => {
                let Span(interval) = parsed(value).map_err(|_| Refused::from("bad interval"))?;
                if interval <= 0 {
                    return Err("bad interval".into());
                }
                self.interval_ns = interval;
            }
            "active" => self.active = parsed(value)?,
            _ => self.count = 0,
        }
        Ok(())
    }
}
