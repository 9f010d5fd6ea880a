//! `Discard`: the end of packets.

use graph::class::{both, keyword, positional, read, write};
use graph::task::TaskId;
use graph::{Class, Cx, Element, Next, Ran, Refused, Signals, Tally};
use memory::Batch;

/// The class.
pub static CLASS: Class = Class {
    name: "Discard",
    brief: "drops all packets",
    doc: "Pushed packets are dropped; packets are pulled, BURST at a time, and dropped.",
    ports: "1/0",
    processing: "a",
    arguments: &[
        positional("ACTIVE", "whether it pulls; true"),
        keyword("BURST", "packets pulled at a time; 1"),
    ],
    handlers: &[
        read("count", "packets dropped"),
        write("reset_counts", "sets the count to zero"),
        both("active", "whether it pulls"),
    ],
    example: "FromDevice(p) -> Discard",
    see: &["Idle", "Queue"],
    make: |_, conf| {
        let active = conf.positional("ACTIVE")?.unwrap_or(true);
        let burst = conf.keyword::<usize>("BURST")?.unwrap_or(1).max(1);
        conf.complete()?;
        let (count, signals) = (Tally::default(), Signals::default());
        Ok(Box::new(Discard { active, burst, count, task: None, signals }))
    },
    ..Class::BASE
};

/// See [`CLASS`].
#[derive(Debug)]
pub struct Discard {
    active: bool,
    burst: usize,
    count: Tally,
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
            if self.active {
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
        let pulled = if self.active { cx.pull(0, &mut batch) } else { 0 };
        self.count.add(pulled as u64);
        cx.free_batch(&mut batch);
        if self.active && (pulled > 0 || self.signals.any()) {
            cx.schedule(task);
        }
        Ran::done(pulled > 0)
    }

    fn read(&mut self, _: &mut Cx<'_>, handler: &str, _: &str) -> Result<String, Refused> {
        Ok(match handler {
            "count" => self.count.sum().to_string(),
            _ => self.active.to_string(),
        })
    }

    fn write(&mut self, cx: &mut Cx<'_>, handler: &str, value: &str) -> Result<(), Refused> {
        if handler == "reset_counts" {
            self.count.reset();
            return Ok(());
        }
        self.active = super::parsed(value)?;
        if let Some(task) = self.task.filter(|_| self.active) {
            cx.schedule(task);
        }
        Ok(())
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        let (count, signals) = (self.count.for_another(), Signals::default());
        Some(Box::new(Discard { active: self.active, burst: self.burst, count, task: None, signals }))
    }
}
