//! `TimedSink`, `TimedUnqueue`: packets pulled every so often.

use graph::class::{Handlers, action, both, mandatory, positional, read};
use graph::clock::SECOND_NS;
use graph::value::Span;
use graph::{Class, Conf, ConfFault, Cx, Element, Ran, Refused, Signals, TaskId, TimerId};
use memory::Batch;

use super::{interval, parsed};

/// Pulled and dropped.
pub static SINK: Class = Class {
    name: "TimedSink",
    brief: "pulls and drops a packet every so often",
    doc: "Pulls one packet every INTERVAL and drops it.",
    ports: "1/0",
    processing: "l/",
    arguments: &[positional("INTERVAL", "time between packets; 0.5 s")],
    handlers: &Handlers::<Timed>(&[both(
        "interval",
        "time between packets",
        |timed: &Timed| interval(timed.interval_ns),
        Timed::set_interval,
    )
    .marked(".")]),
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
    doc: "Pulls up to BURST packets every INTERVAL, and pushes them. When there was nothing, the next packet \
          goes on at once.",
    ports: "1/1",
    processing: "l/h",
    arguments: &[mandatory("INTERVAL", "time between bursts"), positional("BURST", "packets at a time; 1")],
    handlers: &Handlers::<Timed>(&[
        both("interval", "time between bursts", |timed| interval(timed.interval_ns), Timed::set_interval),
        both(
            "active",
            "whether it pulls",
            |timed| timed.active.to_string(),
            |timed, cx, value| {
                timed.active = parsed(value)?;
                timed.due_ns = None;
                timed.task.inspect(|task| cx.schedule(*task));
                Ok(())
            },
        ),
        read("count", "packets moved", |timed| timed.count.to_string()),
        action("reset_counts", "sets the count to zero", |timed, _| timed.count = 0),
    ]),
    example: "Queue -> TimedUnqueue(0.1s, 8) -> Discard",
    see: &["Unqueue", "RatedUnqueue", "Burster"],
    make: |_, conf| unqueue(conf, 1),
    ..Class::BASE
};

/// The same, with more at a time.
pub static BURSTER: Class = Class {
    name: "Burster",
    brief: "pulls bursts of packets every so often, and pushes them",
    doc: "As TimedUnqueue, but BURST is 8 unless said otherwise.",
    arguments: &[mandatory("INTERVAL", "time between bursts"), positional("BURST", "packets at a time; 8")],
    example: "Queue -> Burster(0.1s) -> Discard",
    see: &["TimedUnqueue"],
    make: |_, conf| unqueue(conf, 8),
    ..UNQUEUE
};

fn unqueue(conf: &mut Conf<'_>, usual: i64) -> Result<Box<dyn Element>, ConfFault> {
    let interval: Span = conf.mandatory("INTERVAL")?;
    let burst: i64 = conf.positional("BURST")?.unwrap_or(usual);
    conf.complete()?;
    let burst = usize::try_from(burst).ok().filter(|burst| *burst > 0).ok_or("bad BURST")?;
    Ok(Box::new(Timed::new(interval.0, burst, false)))
}

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
    /// Of one that pushes: what it does when its time has come, or packets.
    task: Option<TaskId>,
    upstream: Signals,
    /// When it was due last, unless it slept since.
    due_ns: Option<i64>,
}

impl Timed {
    fn new(interval_ns: i64, burst: usize, sink: bool) -> Timed {
        let (interval_ns, timer, task) = (interval_ns.max(1), None, None);
        let upstream = Signals::default();
        Timed { interval_ns, burst, sink, active: true, count: 0, timer, task, upstream, due_ns: None }
    }

    fn set_interval(&mut self, _: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        let Span(interval) = parsed(value).map_err(|_| Refused::from("bad interval"))?;
        if interval <= 0 {
            return Err("bad interval".into());
        }
        self.interval_ns = interval;
        Ok(())
    }
}

impl Element for Timed {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let timer = cx.new_timer();
        self.timer = Some(timer);
        if self.sink {
            cx.set_timer_after(timer, self.interval_ns);
            return Ok(());
        }
        let task = cx.new_task();
        self.upstream = cx.upstream(0, Some(task));
        self.task = Some(task);
        cx.schedule(task);
        Ok(())
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        match self.task {
            Some(task) => cx.schedule(task),
            None => {
                if let Some(packet) = cx.pull_one(0) {
                    self.count += 1;
                    cx.free(packet);
                }
                cx.set_timer_after(timer, self.interval_ns);
            }
        }
    }

    fn run(&mut self, cx: &mut Cx<'_>, _: TaskId, _: &mut Batch) -> Ran {
        let Some(timer) = self.timer.filter(|timer| self.active && cx.timer_due(*timer).is_none()) else {
            return Ran::IDLE; // packets that come before their time wait
        };
        for n in 0..self.burst {
            let Some(packet) = cx.pull_one(0) else {
                if n == 0 && !self.upstream.any() {
                    self.due_ns = None;
                    return Ran::IDLE; // woken by the next packet
                }
                break;
            };
            self.count += 1;
            cx.emit(0, packet);
        }
        let next = self.due_ns.unwrap_or_else(|| cx.now_ns()).saturating_add(self.interval_ns);
        self.due_ns = Some(next);
        cx.set_timer(timer, next);
        Ran::done(true)
    }
}
