//! `AggregatePacketCounter`: which packets of each aggregate came, by their numbers.

use std::collections::{BTreeMap, BTreeSet};

use graph::class::{Handlers, action, ask, keyword, read};
use graph::value::unsigned;
use graph::{Class, Cx, Element, Next, Refused};
use memory::{Batch, Packet};

use graph::annotation::{AGGREGATE, AnnotationOffset, PACKET_NUMBER, PacketAnnotations};
use port::Reason;

pub static CLASS: Class = Class {
    name: "AggregatePacketCounter",
    brief: "counts packets by aggregate and packet number",
    doc: "Packets go on at the output of their input's number, and are counted for each input. With the \
          aggregate as its parameter `received` lists the numbers of packets that came anywhere, \
          `undelivered` those of which more came to input 0 than to input 1: traces of a sender and a \
          receiver tell what was lost between them. Packets without an aggregate are not counted, nor are \
          new numbers beyond CAPACITY, which `overflow` counts.",
    ports: "1-/1-",
    flow: "#/#",
    arguments: &[
        keyword("ANNO", "where a packet's number is, `NONE` for no numbers; PACKET_NUMBER"),
        keyword("NOTIFIER", "taken for compatibility"),
        keyword("CAPACITY", "numbers at the most; 4194304"),
    ],
    handlers: &Handlers::<PacketCounter>(&[
        read("count", "packets", |counter| {
            let counts = counter.counts.values().flatten().flat_map(BTreeMap::values);
            counts.map(|count| u64::from(*count)).sum::<u64>().to_string()
        }),
        read("overflow", "packets not counted, because there were CAPACITY numbers", |counter| {
            counter.overflow.to_string()
        }),
        ask("received", "numbers of an aggregate that came, a line each", |counter, _, parameter| {
            let Some(columns) = counter.columns(parameter)? else { return Ok(String::new()) };
            let all: BTreeSet<u32> = columns.iter().flat_map(|column| column.keys().copied()).collect();
            Ok(PacketCounter::lines(all.into_iter()))
        }),
        ask("undelivered", "numbers that came to input 0, but not to input 1", |counter, _, parameter| {
            let Some(columns) = counter.columns(parameter)? else { return Ok(String::new()) };
            let [sent, received, ..] = &columns[..] else { return Err("there is but one input".into()) };
            let lost = sent.iter().filter(|(number, count)| *count > received.get(number).unwrap_or(&0));
            Ok(PacketCounter::lines(lost.map(|(number, _)| *number)))
        }),
        action("clear", "forgets all", |counter, _| {
            counter.counts.clear();
            counter.places = 0;
        }),
    ]),
    drops: &[Reason::NotConnected],
    example: "a :: FromDump(sent.pcap) -> AggregateIP(ip id) -> [0] c :: AggregatePacketCounter(ANNO NONE) -> Discard; \
              b :: FromDump(received.pcap) -> AggregateIP(ip id) -> [1] c; c [1] -> Discard",
    see: &["AggregateCounter", "AggregateIP", "AggregateIPFlows", "NumberPacket"],
    make: |setup, conf| {
        let _: Option<String> = conf.keyword("NOTIFIER")?;
        let none = conf.arguments().iter().any(|text| text.trim() == "ANNO NONE");
        let at = match none {
            true => conf.keyword::<String>("ANNO")?.and(None),
            false => Some(conf.keyword("ANNO")?.unwrap_or(AnnotationOffset(PACKET_NUMBER))),
        };
        let capacity = conf.keyword("CAPACITY")?.unwrap_or(1 << 22);
        conf.complete()?;
        let inputs = setup.inputs;
        let counts = BTreeMap::new();
        Ok(Box::new(PacketCounter {
            at,
            inputs,
            capacity,
            places: 0,
            overflow: 0,
            counts,
            any: (false, false),
        }))
    },
    ..Class::BASE
};

/// How often each number of an aggregate came to each input.
type Columns = Vec<BTreeMap<u32, u32>>;

/// An `AggregatePacketCounter` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct PacketCounter {
    at: Option<AnnotationOffset<4>>,
    inputs: usize,
    capacity: usize,
    /// Numbers that are kept.
    places: usize,
    /// Packets that were not counted, because there was no room.
    overflow: u64,
    counts: BTreeMap<u32, Columns>,
    /// Whether packets came, and whether any had an aggregate.
    any: (bool, bool),
}

impl PacketCounter {
    fn lines(numbers: impl Iterator<Item = u32>) -> String {
        numbers.map(|number| format!("{number}\n")).collect()
    }

    fn count(&mut self, input: usize, packet: &Packet) {
        self.any.0 = true;
        let aggregate = packet.u32_at(AGGREGATE);
        if aggregate != 0 {
            self.any.1 = true;
            let number = self.at.as_ref().map_or(0, |at| packet.u32_at(at.0));
            let columns = self.counts.get(&aggregate).and_then(|columns| columns.get(input));
            if columns.is_some_and(|column| column.contains_key(&number)) || self.places < self.capacity {
                let inputs = self.inputs.max(1);
                let columns = self.counts.entry(aggregate).or_insert_with(|| vec![BTreeMap::new(); inputs]);
                if let Some(column) = columns.get_mut(input) {
                    let count = column.entry(number).or_insert(0);
                    self.places += usize::from(*count == 0);
                    *count = count.saturating_add(1);
                }
            } else {
                self.overflow += 1;
            }
        }
    }

    /// What was counted of the aggregate that a handler is asked for.
    fn columns(&self, parameter: &str) -> Result<Option<&Columns>, Refused> {
        let parameter = graph::lang::args::uncomment(parameter);
        let aggregate = match parameter.as_str() {
            "" => Some(0),
            text => unsigned(text).and_then(|aggregate| u32::try_from(aggregate).ok()),
        };
        Ok(self.counts.get(&aggregate.ok_or("argument should be aggregate number")?))
    }
}

impl Element for PacketCounter {
    fn push(&mut self, _: &mut Cx<'_>, input: usize, batch: &mut Batch) -> Next {
        batch.iter().for_each(|packet| self.count(input, packet));
        Next::Push(input)
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if let (true, false) = self.any {
            let what = "warning: saw no packets with aggregate annotations";
            cx.say(&format!("{} :: {}: {what}\n", cx.name(), cx.class()));
        }
    }
}
