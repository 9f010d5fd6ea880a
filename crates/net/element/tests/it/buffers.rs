//! Packets in several buffers, beside the same ones in one: what comes out of every element is the
//! same, byte by byte, and so is what it counts and prints.

use std::cell::RefCell;
use std::fmt::Write;

use element::trial::{Raw, Trial};
use graph::{Class, Cx, Element, Next, Ran, Signals, TaskId};
use memory::Batch;
use memory::annotation::Header;
use wire::checksum;
use wire::ip::Addresses;

use crate::registry;

/// Keeps what comes, in the place of the class that ends packets.
static KEEP: Class = Class {
    name: "Discard",
    brief: "keeps packets",
    ports: "1/0",
    make: |_, _| Ok(Box::new(Keep { task: None, upstream: Signals::default() })),
    ..Class::BASE
};

struct Keep {
    task: Option<TaskId>,
    upstream: Signals,
}

thread_local! {
    static KEPT: RefCell<Vec<String>> = const { RefCell::new(vec![]) };
}

impl Element for Keep {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.is_pull_input(0) {
            let task = cx.new_task();
            self.upstream = cx.upstream(0, Some(task));
            self.task = Some(task);
            cx.schedule(task);
        }
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, _: &mut Batch) -> Ran {
        let mut batch = Batch::with_limit(32);
        if cx.pull(0, &mut batch) > 0 || self.upstream.any() {
            cx.schedule(task);
        }
        let worked = !batch.is_empty();
        self.push(cx, 0, &mut batch);
        Ran::done(worked)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        for packet in batch.iter() {
            let bytes: Vec<u8> = packet.segments().flat_map(|segment| segment.to_vec()).collect();
            let notes = packet.annotations();
            let headers = [Header::Link, Header::Network, Header::Transport].map(|h| packet.header_offset(h));
            let mut line = format!("{}: {} bytes, ", cx.name(), bytes.len());
            let _ = write!(line, "{headers:?} {} {:?} {:?} ", notes.timestamp_ns, notes.reach, notes.area);
            bytes.iter().for_each(|byte| line += &format!("{byte:02x}"));
            KEPT.with_borrow_mut(|kept| kept.push(line));
        }
        cx.free_batch(batch);
        Next::Done
    }
}

/// An IPv4 packet with right checksums, of a protocol's header and as many bytes as make it `length`
/// long, the last of which are not told by the length in its header.
fn packet(protocol: u8, header: &[u8], length: usize, padding: usize) -> Vec<u8> {
    let total = length - padding;
    let mut packet = vec![0x45, 0];
    packet.extend((total as u16).to_be_bytes());
    packet.extend([0x12, 0x34, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 18, 26, 4, 9]);
    let sum = checksum::of(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(header);
    packet.extend((packet.len()..length).map(|n| (n * 7 + n / 256) as u8));
    let (src, dst) = ([10, 0, 0, 1].into(), [18, 26, 4, 9].into());
    let segment_len = total - 20;
    let pseudo = match protocol {
        1 => 0,
        _ => Addresses::V4 { src, dst }.pseudo_header(wire::ip::Protocol(protocol), segment_len),
    };
    let Some(at) = wire::ip::checksum_offset(wire::ip::Protocol(protocol)).map(|at| at + 20) else {
        return packet;
    };
    if protocol == 17 {
        packet[24..26].copy_from_slice(&(segment_len as u16).to_be_bytes());
    }
    packet[at..at + 2].fill(0);
    let sum = !checksum::combine(pseudo, checksum::sum(&packet[20..total]));
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// An IPv6 packet between addresses that are IPv4's.
fn packet6(next: u8, header: &[u8], length: usize) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(((length - 40) as u16).to_be_bytes());
    packet.extend([next, 9]);
    for last in [1, 2] {
        packet.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 0, 0, last]);
    }
    packet.extend(header);
    packet.extend((packet.len()..length).map(|n| (n * 5) as u8));
    packet
}

const UDP: [u8; 8] = [4, 0, 0, 53, 0, 0, 0, 0];
const TCP: [u8; 20] = [4, 0, 0, 21, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x19, 1, 0, 0, 0, 0, 0];
const ECHO: [u8; 8] = [8, 0, 0, 0, 0, 1, 0, 1];
const TOO_LONG: [u8; 8] = [3, 4, 0, 0, 0, 0, 5, 0];

/// Packets of a length, of protocols that elements look into; where their IP header is.
fn packets(length: usize) -> Vec<(Vec<u8>, usize)> {
    let error = [&TOO_LONG[..], &packet(17, &UDP, 400, 0)].concat();
    let mut all: Vec<Vec<u8>> = [(17, &UDP[..]), (6, &TCP), (1, &ECHO), (1, &error)]
        .map(|(p, header)| packet(p, header, length, 0))
        .into();
    all.extend([(17, &UDP[..]), (6, &TCP), (1, &ECHO)].map(|(p, header)| packet(p, header, length, 77)));
    // A later fragment and a wrong checksum.
    let mut fragment = packet(17, &UDP, length, 0);
    fragment[6..8].copy_from_slice(&[0x20, 1]);
    fragment[10..12].fill(0);
    let sum = checksum::of(&fragment[..20]);
    fragment[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut wrong = packet(6, &TCP, length, 0);
    wrong[length - 1] ^= 1;
    all.extend([
        fragment,
        wrong,
        packet6(17, &[4, 0, 0, 53, ((length - 40) >> 8) as u8, (length - 40) as u8, 1, 1], length),
    ]);
    all.push(packet6(58, &[128, 0, 1, 2, 0, 1, 0, 1], length));
    let frames = all.iter().map(|packet| {
        let kind = if packet[0] == 0x60 { [0x86, 0xDD] } else { [8, 0] };
        ([&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &kind, &packet[..packet.len() - 14]].concat(), 14)
    });
    let frames: Vec<_> = frames.collect();
    all.into_iter().map(|packet| (packet, 0)).chain(frames).collect()
}

/// What becomes of packets.
fn outcome(name: &str, class: &Class, lengths: &[usize], buffers: &[u16]) -> Option<(Vec<String>, String)> {
    let mut registry = registry();
    registry.add(&KEEP);
    graph::random::seed(1);
    KEPT.with_borrow_mut(Vec::clear);
    let (mut trial, configuration) = Trial::of(name, &registry).ok()?;
    // Packets go to the element's inputs and to an end in turn.
    let turns = configuration.ports.0 + 1;
    let mut said = String::new();
    for &length in lengths {
        for (bytes, at) in packets(length) {
            let raw = Raw {
                network: Some(at as u8),
                transport: Some(at as u8 + if bytes[at] == 0x60 { 40 } else { 20 }),
                notes: vec![10, 0, 0, 2],
                buffers: buffers.to_vec(),
                bytes,
            };
            for raw in [Raw { network: None, transport: None, ..raw.clone() }, raw] {
                said += &trial.send(std::iter::repeat_n(raw, turns));
            }
        }
    }
    let lasts = |name: &str| !name.contains("rate") && name != "random";
    for handler in class.handlers().filter(|h| h.read && lasts(h.name)) {
        let value = trial.router.read(&format!("e.{}", handler.name), "");
        let _ = writeln!(said, "{}: {value:?}", handler.name);
    }
    let element = trial.router.shared().plan.find("e", None)?;
    let drops = trial.router.lanes()[0].counters(element).drops.iter();
    drops.zip(class.drops).for_each(|(count, reason)| said += &format!("dropped {reason}: {count}\n"));
    trial.router.cleanup();
    Some((KEPT.with_borrow_mut(std::mem::take), said))
}

/// Its key is another one in each router.
const RANDOM: &str = "AnonymizeIPAddr";

/// Where a packet's buffers end: behind all headers, at odd places, in the middle of words.
const BUFFERS: [&[u16]; 4] = [&[1024], &[1024, 1, 333], &[1025, 0, 2], &[1400, 51]];

#[test]
fn packets_come_out_of_several_buffers_as_out_of_one() {
    let registry = registry();
    let (mut wrong, mut seen) = (vec![], 0);
    for (name, class) in
        registry.iter().filter(|(name, class)| !class.ports.starts_with("0/") && *name != RANDOM)
    {
        let lengths = [1500, 1777];
        let Some(one) = outcome(name, class, &lengths, &[]) else { continue };
        seen += 1;
        for buffers in BUFFERS {
            let several = outcome(name, class, &lengths, buffers).expect("as before");
            let line = |at: usize, all: &[String]| {
                all.get(at).map_or(String::new(), |l| l.chars().take(700).collect())
            };
            if let Some(at) =
                (0..one.0.len().max(several.0.len())).find(|&at| one.0.get(at) != several.0.get(at))
            {
                wrong.push(format!(
                    "{name} {buffers:?}: {at}\n{}\n{}",
                    line(at, &one.0),
                    line(at, &several.0)
                ));
            } else if one.1 != several.1 {
                let lines = one.1.lines().zip(several.1.lines()).find(|(a, b)| a != b);
                wrong.push(format!("{name} {buffers:?}: {lines:.900?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{} of {seen}", wrong.join("\n"), wrong.len());
    assert!(seen > 200, "{seen}");
}
