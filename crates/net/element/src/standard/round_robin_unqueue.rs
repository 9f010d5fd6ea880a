//! `RoundRobinUnqueue`: from pull to push, one input after the other.

use graph::class::{Handlers, positional, read};
use graph::{Class, Cx, Element, Ran, Signals, TaskId};
use memory::Batch;

pub static CLASS: Class = Class {
    name: "RoundRobinUnqueue",
    brief: "pulls packets from its inputs in turn, and pushes them on",
    doc: "In each turn of its task it pulls up to BURST packets from one input, and pushes them out at the \
          output of the same number; the next turn is the next input's.",
    ports: "-/=",
    processing: "l/h",
    flow: "#/#",
    arguments: &[positional("BURST", "packets at a time, 0 for all that are there; 1")],
    handlers: &Handlers::<RoundRobinUnqueue>(&[read("packets", "packets moved, in words", |unqueue| {
        format!("{} packets\n", unqueue.count)
    })]),
    example: "q0 :: Queue -> [0] u :: RoundRobinUnqueue -> a; q1 :: Queue -> [1] u [1] -> b;",
    see: &["Unqueue", "RoundRobinSched"],
    make: |_, conf| {
        let burst: usize = conf.positional("BURST")?.unwrap_or(1);
        conf.complete()?;
        let burst = if burst == 0 { Batch::MAX } else { burst };
        Ok(Box::new(RoundRobinUnqueue { burst, next: 0, count: 0, left: 0, upstream: vec![] }))
    },
    ..Class::BASE
};

/// A `RoundRobinUnqueue` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct RoundRobinUnqueue {
    burst: usize,
    /// Whose turn it is.
    next: usize,
    count: u64,
    /// Packets of this turn's burst that are left, where they go one by one.
    left: usize,
    upstream: Vec<Signals>,
}

impl Element for RoundRobinUnqueue {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.outputs() != cx.inputs() {
            return Err("number of outputs must equal to number of inputs".into());
        }
        let task = cx.new_task();
        self.upstream = (0..cx.inputs()).map(|input| cx.upstream(input, Some(task))).collect();
        cx.schedule(task);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        let input = self.next;
        let left = std::mem::take(&mut self.left);
        let wanted = if left > 0 { left } else { self.burst.min(Batch::MAX) };
        let mut pulled = Batch::with_limit(wanted);
        let count = cx.pull(input, &mut pulled);
        batch.take_from(&mut pulled, Batch::MAX);
        self.count += count as u64;
        if count > 0 || self.upstream.iter().any(Signals::any) {
            cx.schedule(task);
        }
        if count > 0 && cx.goes_singly() {
            self.left = wanted - count;
        }
        if self.left == 0 {
            self.next = (input + 1) % self.upstream.len().max(1);
        }
        if count > 0 { Ran::push(input).then(self.left > 0) } else { Ran::done(true) }
    }
}
