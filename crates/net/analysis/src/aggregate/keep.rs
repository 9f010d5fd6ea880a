//! `AggregateFirst`, `AggregateLast`: one packet of each aggregate.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use graph::class::{Handlers, NOT_TAKEN_OVER, action, keyword, read};
use graph::{Class, Cx, Element, Named, Next};
use memory::{Batch, Packet};

use super::notice::{Ended, SWEEP, notifier, subscribe};
use graph::annotation::{AGGREGATE, EXTRA_LENGTH, EXTRA_PACKETS, PacketAnnotations};
use port::Reason;

/// The first one.
pub static FIRST: Class = Class {
    name: "AggregateFirst",
    brief: "lets the first packet of each aggregate through",
    doc: "Others go to output 1, or are dropped. It remembers aggregates until NOTIFIER, such as \
          AggregateIPFlows, says that they have ended; packets of those for which there is no room are taken \
          for others.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        keyword("NOTIFIER", "the element that says when an aggregate has ended; none"),
        keyword("CAPACITY", "aggregates it remembers; 4194304"),
    ],
    handlers: &Handlers::<First>(&[
        read("nagg", "aggregates it remembers", |first| first.seen.len().to_string()),
        action("clear", "forgets all aggregates", |first, _| first.seen.clear()),
        action(SWEEP.as_str(), "forgets aggregates that have ended", |first, _| first.sweep()),
    ]),
    drops: &[Reason::NotFirst, Reason::NoRoom],
    example: "af :: AggregateIPFlows -> AggregateFirst(NOTIFIER af) -> IPPrint -> Discard",
    see: &["AggregateLast", "AggregateIPFlows", "AggregateIP"],
    make: |_, conf| {
        let notifier: Option<String> = conf.keyword("NOTIFIER")?;
        let capacity = conf.keyword("CAPACITY")?.unwrap_or(1 << 22);
        conf.complete()?;
        Ok(Box::new(First { notifier, capacity, seen: HashSet::new(), ended: None }))
    },
    ..Class::BASE
};

/// The last one.
pub static LAST: Class = Class {
    name: "AggregateLast",
    brief: "lets the last packet of each aggregate through",
    doc: "Keeps the last packet of each aggregate, until NOTIFIER says that the aggregate has ended, or `clear` \
          is written: then it goes to output 0, with packets, bytes and the first timestamp of the whole \
          aggregate. Earlier ones go to output 1, or are dropped, as do packets for which there is no room.",
    ports: "1/1-2",
    processing: "h/h",
    arguments: &[
        keyword("NOTIFIER", "the element that says when an aggregate has ended; none"),
        keyword("STOP_AFTER_CLEAR", "stops the router after `clear`; false"),
        keyword("CAPACITY", "packets it keeps; 65536"),
    ],
    handlers: &Handlers::<Last>(&[
        read("nagg", "packets it keeps", |last| last.kept.len().to_string()),
        action("clear", "lets all go", |last, cx| {
            last.sweep(cx);
            for (_, packet) in std::mem::take(&mut last.kept) {
                cx.emit(0, packet);
            }
            if last.stop {
                cx.stop();
            }
        }),
        action(SWEEP.as_str(), "lets those go whose aggregates have ended", |last, cx| last.sweep(cx)),
    ]),
    drops: &[Reason::NotLast, Reason::NoRoom, NOT_TAKEN_OVER],
    example: "AggregateIP(ip dst) -> al :: AggregateLast -> IPPrint -> Discard; DriverManager(pause, write al.clear)",
    see: &["AggregateFirst", "AggregateIPFlows", "AggregateIP"],
    make: |_, conf| {
        let notifier: Option<String> = conf.keyword("NOTIFIER")?;
        let stop = conf.keyword("STOP_AFTER_CLEAR")?.unwrap_or(false);
        let capacity = conf.keyword("CAPACITY")?.unwrap_or(1 << 16);
        conf.complete()?;
        Ok(Box::new(Last { notifier, stop, capacity, kept: BTreeMap::new(), ended: None }))
    },
    ..Class::BASE
};

/// Sends a packet to output 1, or drops it.
fn aside(cx: &mut Cx<'_>, reason: usize, packet: Packet) {
    if cx.outputs() > 1 { cx.emit(1, packet) } else { cx.drop(reason, packet) }
}

/// An `AggregateFirst` element; [`FIRST`] says what it does.
pub struct First {
    notifier: Option<String>,
    capacity: usize,
    seen: HashSet<u32>,
    ended: Option<Arc<Ended>>,
}

impl First {
    fn sweep(&mut self) {
        for aggregate in self.ended.iter().flat_map(|ended| ended.take()) {
            self.seen.remove(&aggregate);
        }
    }
}

impl Element for First {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        notifier(named, self.notifier.as_deref()).map(drop)
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.ended = subscribe(cx, self.notifier.as_deref())?;
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        while let Some(packet) = batch.pop_front() {
            let aggregate = packet.u32_at(AGGREGATE);
            if self.seen.contains(&aggregate) {
                aside(cx, 0, packet);
            } else if self.seen.len() >= self.capacity {
                aside(cx, 1, packet);
            } else {
                self.seen.insert(aggregate);
                cx.emit(0, packet);
            }
        }
        self.sweep();
        Next::Done
    }
}

/// An `AggregateLast` element; [`LAST`] says what it does.
pub struct Last {
    notifier: Option<String>,
    stop: bool,
    capacity: usize,
    kept: BTreeMap<u32, Packet>,
    ended: Option<Arc<Ended>>,
}

impl Last {
    fn keep(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        let aggregate = packet.u32_at(AGGREGATE);
        match self.kept.remove(&aggregate) {
            Some(before) => {
                let packets = packet.u32_at(EXTRA_PACKETS).saturating_add(before.u32_at(EXTRA_PACKETS));
                let bytes = packet.u32_at(EXTRA_LENGTH).saturating_add(before.u32_at(EXTRA_LENGTH));
                packet.set_u32_at(EXTRA_PACKETS, packets.saturating_add(1));
                packet.set_u32_at(EXTRA_LENGTH, bytes.saturating_add(before.total_len() as u32));
                packet.set_first_ns(before.first_ns());
                aside(cx, 0, before);
            }
            None if self.kept.len() >= self.capacity => return aside(cx, 1, packet),
            None => {
                let at = packet.annotations().timestamp_ns;
                packet.set_first_ns(at);
            }
        }
        self.kept.insert(aggregate, packet);
    }

    fn sweep(&mut self, cx: &mut Cx<'_>) {
        for aggregate in self.ended.iter().flat_map(|ended| ended.take()) {
            if let Some(packet) = self.kept.remove(&aggregate) {
                cx.emit(0, packet);
            }
        }
    }
}

impl Element for Last {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        notifier(named, self.notifier.as_deref()).map(drop)
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.ended = subscribe(cx, self.notifier.as_deref())?;
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        while let Some(packet) = batch.pop_front() {
            self.keep(cx, packet);
        }
        self.sweep(cx);
        Next::Done
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        cx.end_waiting(std::mem::take(&mut self.kept).into_values());
    }
}
