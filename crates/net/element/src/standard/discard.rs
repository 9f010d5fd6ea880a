//! `Discard`: the end of packets.

use graph::class::{Handlers, action, both, keyword, read};
use graph::{Class, Cx, Element, Next, PerThreadCounter, Ran, Signal, Signals, TaskId};
use memory::Batch;

pub static CLASS: Class = Class {
    name: "Discard",
    brief: "drops all packets",
    doc: "Pushed packets are dropped; packets are pulled, BURST at a time, and dropped.",
    ports: "1/0",
    processing: "a",
    arguments: &[
        keyword("ACTIVE", "whether it pulls; true"),
        keyword("BURST", "packets pulled at a time; 1"),
    ],
    handlers: &Handlers::<Discard>(&[
        read("count", "packets dropped", |discard| discard.count.sum().to_string()),
        action("reset_counts", "sets the count to zero", |discard: &mut Discard, _| discard.count.reset())
            .marked("b"),
        both(
            "active",
            "whether it pulls",
            |discard: &Discard| discard.active.is_raised().to_string(),
            |discard: &mut Discard, cx, value| {
                match super::parsed(value)? {
                    true => discard.active.raise(cx),
                    false => discard.active.lower(),
                }
                Ok(())
            },
        )
        .marked("c"),
    ]),
    example: "FromDevice(p) -> Discard",
    see: &["Idle", "Queue"],
    make: |_, conf| {
        let active = conf.keyword("ACTIVE")?.unwrap_or(true);
        let burst = conf.keyword::<usize>("BURST")?.unwrap_or(1).max(1);
        conf.complete()?;
        let (count, signals, active) = (PerThreadCounter::default(), Signals::default(), Signal::new(active));
        Ok(Box::new(Discard { active, burst, count, task: None, signals }))
    },
    ..Class::BASE
};

/// A `Discard` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct Discard {
    /// Raised while it pulls; one for all threads.
    active: Signal,
    burst: usize,
    count: PerThreadCounter,
    /// When packets are pulled.
    task: Option<TaskId>,
    signals: Signals,
}

impl Element for Discard {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.is_pull_input(0) {
            let task = cx.new_task();
            self.signals = cx.upstream(0, Some(task));
            self.task = Some(task);
            cx.wake_on(&self.active, task);
            if self.active.is_raised() {
                cx.schedule(task);
            }
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        self.count.add(batch.len() as u64);
        cx.free_batch(batch);
        Next::Done
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, _: &mut Batch) -> Ran {
        let mut batch = Batch::with_limit(self.burst);
        let active = self.active.is_raised();
        let pulled = if active { cx.pull_burst(0, &mut batch) } else { 0 };
        self.count.add(pulled as u64);
        cx.free_batch(&mut batch);
        if active && (pulled > 0 || self.signals.any()) {
            cx.schedule(task);
        }
        Ran::done(pulled > 0)
    }

    fn take_over(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) {
        if let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<Discard>() {
            self.count.add(old.count.own());
        }
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        let (count, signals) = (self.count.for_another(), Signals::default());
        let active = self.active.clone();
        Some(Box::new(Discard { active, burst: self.burst, count, task: None, signals }))
    }
}
