//! A batch of segments of many connections, which the stack reads ahead, has the same effect as
//! its segments one by one.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::rig::{FIRST, Rig, packet, parse};
use common::{Random, frame};
use tcp::{Arrival, Event, Options};
use wire::Flow;
use wire::tcp::{Flags, Repr};

/// More connections than are taken for near.
const CONNECTIONS: u16 = 700;
const FIRST_PORT: u16 = 5000;

/// A stack with many open connections, and the number that each acknowledges.
fn with_many() -> (Rig, BTreeMap<u16, u32>) {
    let mut rig = Rig::new(Options::default());
    let mut acknowledgements = BTreeMap::new();
    for port in FIRST_PORT..FIRST_PORT + CONNECTIONS {
        (rig.port, rig.sequence, rig.acknowledgement) = (port, FIRST, 0);
        let answer = rig.send(Flags::SYN, &[]).pop().unwrap();
        rig.sequence = FIRST.wrapping_add(1);
        rig.acknowledgement = answer.header.sequence.wrapping_add(1);
        rig.send(Flags::ACK, &[]);
        acknowledgements.insert(port, rig.acknowledgement);
    }
    rig.events.clear();
    assert_eq!(rig.stack.len(), usize::from(CONNECTIONS));
    (rig, acknowledgements)
}

/// Data for connections that there are, several for some of them; resets, with data for the
/// connection that is no more behind them; SYNs, and segments of no connection.
fn segments(random: &mut Random, acknowledgements: &BTreeMap<u16, u32>) -> Vec<Vec<u8>> {
    let mut next = BTreeMap::new();
    let mut segments = vec![];
    for n in 0..100 {
        let port = FIRST_PORT + random.below(if n % 3 == 0 { 8 } else { u64::from(CONNECTIONS) + 40 }) as u16;
        let sequence = next.entry(port).or_insert(FIRST.wrapping_add(1));
        let flags = match random.below(12) {
            0 => Flags::RST | Flags::ACK,
            1 => Flags::SYN,
            _ => Flags::ACK,
        };
        let payload = if flags == Flags::ACK { vec![n; 1 + random.below(90) as usize] } else { vec![] };
        let header = Repr {
            src_port: port,
            dst_port: 80,
            sequence: *sequence,
            acknowledgement: acknowledgements.get(&port).copied().unwrap_or(1),
            flags,
            window: 50_000,
            ..Repr::default()
        };
        *sequence = sequence.wrapping_add(payload.len() as u32);
        segments.push(packet(&header, &[], &payload));
    }
    segments
}

/// What became of the segments: what was sent, what the application is told, what was counted.
fn outcome(rig: &mut Rig, sent: &[Vec<u8>]) -> Vec<String> {
    let sent = sent.iter().map(|packet| format!("{:?}", parse(packet)));
    let mut told: Vec<String> = sent.collect();
    told.extend(rig.events.iter().map(|event| format!("{event:?}")));
    told.extend(rig.stack.counters().all().map(|counter| format!("{counter:?}")));
    for event in rig.events.drain(..) {
        if let Event::Received { packet, .. } = event {
            rig.pool.free(packet);
        }
    }
    rig.check();
    told
}

#[test]
fn a_batch_is_its_segments_one_by_one() {
    for seed in 1..20 {
        let ((mut one_by_one, acknowledgements), (mut batched, _)) = (with_many(), with_many());
        let segments = segments(&mut Random(seed), &acknowledgements);
        let sent = one_by_one.with_bytes(|stack, io| {
            for bytes in &segments {
                let packet = frame(io.pool, bytes).unwrap();
                let flow = Flow::of(&packet).unwrap();
                stack.receive(packet, &flow, 0, io);
            }
        });
        let wanted = outcome(&mut one_by_one, &sent);
        assert!(wanted.iter().any(|told| told.starts_with("Received")), "data came: {wanted:?}");
        assert!(wanted.iter().any(|told| told.starts_with("Closed")), "a reset came: {wanted:?}");
        let sent = batched.with_bytes(|stack, io| {
            let arrivals = segments.iter().map(|bytes| {
                let packet = frame(io.pool, bytes).unwrap();
                let flow = Flow::of(&packet).unwrap();
                Arrival::new(packet, flow, 0)
            });
            let mut arrivals = arrivals.collect();
            stack.receive_batch(&mut arrivals, io);
            assert!(arrivals.is_empty());
        });
        assert_eq!(outcome(&mut batched, &sent), wanted, "seed {seed}");
    }
}
