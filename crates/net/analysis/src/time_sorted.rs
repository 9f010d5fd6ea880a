//! `TimeSortedSched`: several streams, each in the order of time, as one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use graph::class::{Handlers, NOT_TAKEN_OVER, keyword, read};
use graph::signal::SignalKind;
use graph::{Class, Cx, Element, Notice, Signal, Signals};
use memory::{Batch, Packet};

/// The most packets kept for one input.
const MAX_BUFFER: usize = 65_536;

pub static CLASS: Class = Class {
    name: "TimeSortedSched",
    brief: "pulls the packet with the earliest timestamp",
    doc: "Each input is expected to be in the order of time already. It keeps BUFFER packets of each input, so \
          that inputs may be a little out of order.",
    ports: "0-/1",
    processing: "l/l",
    arguments: &[
        keyword("STOP", "stops the router when no more packets will come; false"),
        keyword("BUFFER", "packets kept of each input; 1"),
    ],
    handlers: &Handlers::<TimeSorted>(&[read(
        "well_ordered",
        "whether all packets left in the order of time",
        |sorted: &TimeSorted| sorted.well_ordered.to_string(),
    )
    .marked("c")]),
    drops: &[NOT_TAKEN_OVER],
    example: "s :: TimeSortedSched(STOP true) -> ToDump(both.pcap); FromDump(a.pcap) -> s; FromDump(b.pcap) -> [1]s",
    see: &["FromDump", "RoundRobinSched"],
    make: |_, conf| {
        let stop = conf.keyword("STOP")?.unwrap_or(false);
        let buffer: i32 = conf.keyword("BUFFER")?.unwrap_or(1);
        conf.complete()?;
        let Some(buffer) = usize::try_from(buffer).ok().filter(|buffer| *buffer > 0) else {
            return Err("BUFFER must be at least 1".into());
        };
        if buffer > MAX_BUFFER {
            return Err(format!("BUFFER must be at most {MAX_BUFFER}").into());
        }
        Ok(Box::new(TimeSorted {
            stop,
            buffer,
            inputs: vec![],
            order: BinaryHeap::new(),
            packets: vec![],
            free: vec![],
            counter: 0,
            last_ns: 0,
            well_ordered: true,
            kept: Signal::new(true),
        }))
    },
    ..Class::BASE
};

#[derive(Debug, Default)]
struct Input {
    signals: Signals,
    kept: usize,
}

/// A `TimeSortedSched` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct TimeSorted {
    stop: bool,
    buffer: usize,
    inputs: Vec<Input>,
    /// By time, then as they came: the time, a counter, the input, the place.
    order: BinaryHeap<Reverse<(i64, u64, usize, usize)>>,
    packets: Vec<Option<Packet>>,
    free: Vec<usize>,
    counter: u64,
    last_ns: i64,
    well_ordered: bool,
    /// Raised while packets are kept, or may come.
    kept: Signal,
}

impl TimeSorted {
    fn keep(&mut self, input: usize, packet: Packet) {
        let at = packet.annotations().timestamp_ns;
        let place = self.free.pop().unwrap_or_else(|| {
            self.packets.push(None);
            self.packets.len() - 1
        });
        self.packets[place] = Some(packet);
        self.order.push(Reverse((at, self.counter, input, place)));
        self.counter += 1;
        self.inputs[input].kept += 1;
    }

    /// Fills the buffers of inputs that have packets; whether any may have some.
    fn fill(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut any = false;
        for input in 0..self.inputs.len() {
            if self.inputs[input].kept >= self.buffer || !self.inputs[input].signals.any() {
                continue;
            }
            any = true;
            while self.inputs[input].kept < self.buffer {
                let Some(packet) = cx.pull_one(input) else { break };
                self.keep(input, packet);
            }
        }
        any
    }

    fn first(&mut self) -> Option<Packet> {
        let Reverse((at, _, input, place)) = self.order.pop()?;
        self.free.push(place);
        self.inputs[input].kept -= 1;
        if at != 0 {
            self.well_ordered &= at >= self.last_ns;
            self.last_ns = at;
        }
        self.packets[place].take()
    }
}

impl Element for TimeSorted {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        for input in 0..cx.inputs() {
            self.inputs.push(Input { signals: cx.upstream(input, None), kept: 0 });
        }
        Ok(())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        let mut any = true;
        while batch.room() > 0 {
            any = self.fill(cx);
            match self.first() {
                Some(packet) => drop(batch.push(packet)), // there was room
                None => break,
            }
        }
        // Who found nothing although inputs had raised their signals asks once more.
        match any || !self.order.is_empty() {
            true => self.kept.raise(cx),
            false => self.kept.lower(),
        }
        if self.stop && batch.is_empty() && !any {
            cx.stop();
        }
    }

    fn notice(&self, kind: SignalKind, _: usize) -> Notice {
        match kind {
            SignalKind::Packets => Notice::Both(self.kept.clone()),
            SignalKind::Room => Notice::Continue,
        }
    }

    /// Packets of inputs that there are no more stand with those of the last one.
    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<TimeSorted>() else { return };
        let Some(last) = self.inputs.len().checked_sub(1) else { return };
        while let Some(Reverse((_, _, input, place))) = old.order.pop() {
            if let Some(packet) = old.packets[place].take() {
                self.keep(input.min(last), packet);
            }
        }
        (self.last_ns, self.well_ordered) = (old.last_ns, old.well_ordered);
        self.kept.raise(cx);
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        cx.end_waiting(self.packets.drain(..).flatten());
        self.order.clear();
    }
}
