//! `ComparePackets`: whether two streams of packets are the same.

use graph::class::{Handlers, NOT_TAKEN_OVER, keyword, read};
use graph::element::account::{Account, WaitingIn};
use graph::{Class, Cx, Element, Signals};
use memory::annotation::Header;
use memory::{Batch, Packet};

pub static CLASS: Class = Class {
    name: "ComparePackets",
    brief: "compares packets of two streams, pair by pair",
    doc: "The n-th packet of input 0 is compared with the n-th of input 1: length, bytes, timestamp, and where \
          the network header is and how long. Each leaves at the output of its input when it was compared, or \
          when the other stream has no more.",
    ports: "2/2",
    processing: "l/l",
    flow: "#/#",
    arguments: &[keyword("TIMESTAMP", "whether timestamps are compared; true")],
    handlers: &Handlers::<ComparePackets>(&[
        read("diffs", "pairs that differ", |compare| compare.different.to_string()),
        read("diff_details", "in what, a line for each difference that there can be", |compare| {
            let lines = DIFFERENCES.iter().zip(compare.details);
            lines.map(|(what, count)| format!("{count}\t{what}\n")).collect()
        }),
        read("all_same", "whether no pair differed", |compare| (compare.different == 0).to_string()),
    ]),
    drops: &[NOT_TAKEN_OVER],
    account: Account::Keeps(&WaitingIn(|compare: &ComparePackets| compare.held.iter().flatten().count())),
    example: "a -> Queue -> [0] c :: ComparePackets [0] -> Discard; b -> Queue -> [1] c [1] -> Discard",
    see: &["CheckPacket"],
    make: |_, conf| {
        let timestamp = conf.keyword("TIMESTAMP")?.unwrap_or(true);
        conf.complete()?;
        Ok(Box::new(ComparePackets {
            timestamp,
            held: [None, None],
            is_new: [true; 2],
            upstream: Default::default(),
            details: [0; DIFFERENCES.len()],
            different: 0,
        }))
    },
    ..Class::BASE
};

/// What two packets can differ in, and whether one is missing.
const DIFFERENCES: [&str; 8] = [
    "different length",
    "different data",
    "different timestamp",
    "different network header offset",
    "different network header length",
    "different network header presence",
    "more packets in [0]",
    "more packets in [1]",
];
/// The first of those that are about missing packets.
const MORE_PACKETS: usize = 6;

/// A `ComparePackets` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct ComparePackets {
    timestamp: bool,
    /// A packet of each input that waits: for its counterpart, or to be pulled.
    held: [Option<Packet>; 2],
    /// Whether what waits, or comes next, was not compared yet.
    is_new: [bool; 2],
    upstream: [Signals; 2],
    details: [u64; DIFFERENCES.len()],
    different: u64,
}

impl ComparePackets {
    fn compare(&mut self) {
        let [Some(one), Some(other)] = &self.held else { return };
        let bytes =
            |packet: &Packet| packet.segments().flat_map(|segment| segment.to_vec()).collect::<Vec<u8>>();
        let (length, [a, b]) = (one.total_len(), [one, other].map(bytes));
        let networks = [one, other].map(|packet| packet.header_offset(Header::Network));
        let ends = [one, other].map(|packet| packet.header_offset(Header::Transport));
        let both = networks.iter().all(Option::is_some);
        let lengths = [0, 1].map(|n| ends[n].zip(networks[n]).map(|(end, start)| end - start));
        let stamps = [one, other].map(|packet| packet.annotations().timestamp_ns);
        let differs = [
            a.len() != b.len(),
            !a.iter().take(length).eq(b.iter().take(length)),
            self.timestamp && stamps[0] != stamps[1],
            both && networks[0] != networks[1],
            both && lengths[0] != lengths[1],
            networks[0].is_some() != networks[1].is_some(),
        ];
        for (count, differs) in self.details.iter_mut().zip(differs) {
            *count += u64::from(differs);
        }
        self.different += u64::from(differs.contains(&true));
    }

    fn next(&mut self, cx: &mut Cx<'_>, port: usize) -> Option<Packet> {
        let (other, mut ready) = (1 - port, None);
        if self.held[port].is_some() {
            if self.is_new[port] {
                return None;
            }
            ready = self.held[port].take();
            self.is_new[port] = true;
        }
        self.held[port] = cx.pull_one(port);
        if self.held[other].is_some() && self.is_new[other] {
            if self.held[port].is_some() {
                self.compare();
                match ready {
                    Some(_) => self.is_new[port] = false,
                    None => ready = self.held[port].take(),
                }
                self.is_new[other] = false;
            } else if !self.upstream[port].any() {
                self.details[MORE_PACKETS + other] += 1;
                self.different += 1;
                self.is_new[other] = false;
            }
        }
        ready
    }
}

impl Element for ComparePackets {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.upstream = [cx.upstream(0, None), cx.upstream(1, None)];
        Ok(())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, output: usize, batch: &mut Batch) {
        while batch.room() > 0 {
            let Some(packet) = self.next(cx, output) else { return };
            batch.push(packet);
        }
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        let held = std::mem::take(&mut self.held);
        cx.end_waiting(held.into_iter().flatten());
    }
}
