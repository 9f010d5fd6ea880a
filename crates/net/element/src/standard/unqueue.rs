//! `Unqueue`: from pull to push.

use graph::class::{Handlers, action, both, keyword, positional, read};
use graph::value::Value;
use graph::{Class, Cx, Element, Ran, Refused, Signals, TaskId};
use memory::Batch;

pub static CLASS: Class = Class {
    name: "Unqueue",
    brief: "pulls packets and pushes them on",
    doc: "Pulls as fast as it may, BURST packets at a time; not while there is no room behind it, \
          and no more than LIMIT in all.",
    processing: "l/h",
    arguments: &[
        positional("BURST", "packets at a time; 1, and no limit below zero"),
        keyword("ACTIVE", "whether it pulls; true"),
        keyword("LIMIT", "packets in all; -1 for no limit"),
        keyword("QUIET", "say nothing of odd configurations"),
    ],
    handlers: &Handlers::<Unqueue>(&[
        both(
            "active",
            "whether it pulls",
            |unqueue: &Unqueue| unqueue.active.to_string(),
            |unqueue: &mut Unqueue, cx, value| {
                unqueue.active = parsed(value)?;
                unqueue.wake(cx);
                Ok(())
            },
        )
        .marked("c"),
        read("count", "packets moved", |unqueue| unqueue.count.to_string()),
        both(
            "burst",
            "packets at a time",
            |unqueue| unqueue.burst.to_string(),
            |unqueue, cx, value| {
                let burst = parsed(value)?;
                unqueue.burst = if burst < 0 { i64::from(i32::MAX) } else { burst };
                unqueue.wake(cx);
                Ok(())
            },
        ),
        both(
            "limit",
            "packets in all",
            |unqueue| unqueue.limit.to_string(),
            |unqueue, cx, value| {
                unqueue.limit = parsed(value)?;
                unqueue.wake(cx);
                Ok(())
            },
        ),
        action("reset", "sets the count to zero", Unqueue::reset).marked("b"),
        action("reset_counts", "sets the count to zero", Unqueue::reset).marked("Ub"),
    ]),
    example: "Queue -> Unqueue(32) -> Discard",
    see: &["RatedUnqueue", "TimedUnqueue", "Queue"],
    make: |setup, conf| {
        let burst: i64 = conf.positional("BURST")?.unwrap_or(1);
        let active = conf.keyword("ACTIVE")?.unwrap_or(true);
        let limit = conf.keyword("LIMIT")?.unwrap_or(-1);
        let _quiet: Option<bool> = conf.keyword("QUIET")?;
        conf.complete()?;
        if burst == 0 {
            setup.warn("BURST size 0, no packets will be pulled");
        }
        let burst = if burst < 0 { i64::from(i32::MAX) } else { burst };
        let (upstream, downstream) = (Signals::default(), Signals::default());
        Ok(Box::new(Unqueue { active, burst, limit, count: 0, left: 0, task: None, upstream, downstream }))
    },
    ..Class::BASE
};

/// An `Unqueue` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct Unqueue {
    active: bool,
    burst: i64,
    limit: i64,
    count: i64,
    /// Packets of this turn's burst that are left, where they go one by one.
    left: usize,
    task: Option<TaskId>,
    upstream: Signals,
    downstream: Signals,
}

impl Unqueue {
    fn wanted(&self) -> usize {
        let burst = usize::try_from(self.burst).unwrap_or(Batch::MAX);
        let left = if self.limit < 0 { usize::MAX } else { (self.limit - self.count).max(0) as usize };
        burst.min(left).min(Batch::MAX)
    }

    fn wake(&self, cx: &mut Cx<'_>) {
        if let Some(task) = self.task.filter(|_| self.active && self.wanted() > 0) {
            cx.schedule(task);
        }
    }

    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.count = 0;
        self.wake(cx);
    }
}

/// What is written to a handler.
fn parsed<T: Value>(value: &str) -> Result<T, Refused> {
    super::parsed(value).map_err(|_| "syntax error".into())
}

impl Element for Unqueue {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        self.upstream = cx.upstream(0, Some(task));
        self.downstream = cx.downstream(0, Some(task));
        self.task = Some(task);
        self.wake(cx);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        let left = std::mem::take(&mut self.left);
        let wanted = if left > 0 { left.min(self.wanted()) } else { self.wanted() };
        if !self.active || wanted == 0 || !self.downstream.any() {
            return Ran::IDLE; // woken when that changes
        }
        let mut pulled = Batch::with_limit(wanted);
        let count = cx.pull(0, &mut pulled);
        batch.take_from(&mut pulled, Batch::MAX);
        self.count += count as i64;
        if count > 0 || self.upstream.any() {
            cx.schedule(task);
        }
        if count == 0 {
            return Ran::IDLE;
        }
        if cx.goes_singly() {
            self.left = wanted - count;
        }
        Ran::push(0).then(self.left > 0)
    }
}
