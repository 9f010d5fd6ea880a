//! What a listing of connections says.
#![allow(clippy::unwrap_used)]

mod common;

use common::rig::{Rig, ends};
use common::{MS, SECOND};
use tcp::{Options, State, Timer};
use wire::tcp::Flags;

#[test]
fn a_listing_has_each_connection_with_what_it_did() {
    let (mut rig, id) = Rig::open(Options::default());
    let info = rig.stack.info(id).unwrap();
    assert_eq!((info.state, info.timer, info.slow_start_threshold), (State::Established, None, None));
    assert_eq!((info.rtt_ns, info.rtt_least_ns, info.rtt_variation_ns), (20 * MS, 20 * MS, 10 * MS));
    assert_eq!(info.rto_ns, 220 * MS);
    let sent = rig.write(id, 2000);
    let now = rig.now;
    let info = rig.stack.info(id).unwrap();
    assert_eq!((info.queued, info.in_flight, info.send_window), (2000, 2000, 50_000));
    assert_eq!(info.timer, Some((Timer::Probe, now + 40 * MS)));
    rig.pass(SECOND);
    rig.acknowledgement = ends(&sent[0]);
    rig.send(Flags::ACK, b"hello");
    rig.sequence = rig.sequence.wrapping_add(1000);
    rig.send(Flags::ACK, b"early");
    let info = rig.stack.info(id).unwrap();
    assert_eq!((info.bytes_acknowledged, info.bytes_received), (1460, 5));
    assert_eq!((info.unconsumed, info.out_of_order, info.queued), (5, 1, 540));
    assert!(info.resent > 0, "the probe: {info:?}");
    assert_eq!(u64::from(info.resent), rig.stack.counters().segments_resent);
    // A half-open one beside it.
    (rig.port, rig.sequence) = (6000, 7);
    rig.send(Flags::SYN, &[]);
    let all: Vec<_> = rig.stack.connections().collect();
    assert_eq!(all.len(), 2);
    assert_eq!((all[0].0, all[0].1.key.remote_port), (id, 5000));
    assert_eq!((all[1].1.key.remote_port, all[1].1.state), (6000, State::SynReceived));
    assert!(matches!(all[1].1.timer, Some((Timer::Retransmit, _))));
}
