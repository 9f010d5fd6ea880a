//! Paths that take shorter packets than the two ends do (RFC 1191, 8201 and 4821).
#![allow(clippy::unwrap_used)]

mod common;

use common::rig::{OURS, Rig, Sent, THEIRS, ends};
use common::{MS, SECOND};
use tcp::{Id, Key, Options};
use wire::tcp::Flags;

fn key() -> Key {
    Key { local: OURS.into(), remote: THEIRS.into(), local_port: 80, remote_port: 5000 }
}

/// Has a router tell that a segment was too long.
fn tell(rig: &mut Rig, sequence: u32, mtu: u32) -> Vec<Sent> {
    rig.with(|stack, io| _ = stack.too_big(&key(), sequence, mtu, io))
}

fn lengths(sent: &[Sent]) -> Vec<usize> {
    sent.iter().map(|segment| segment.payload.len()).collect()
}

fn size(rig: &Rig, id: Id) -> u32 {
    rig.stack.info(id).unwrap().payload_size
}

#[test]
fn what_was_too_long_is_sent_again_at_once_in_shorter_segments() {
    let (mut rig, id) = Rig::open(Options::default());
    let sent = rig.write(id, 3 * 1460);
    let window = rig.stack.info(id).unwrap().congestion_window;
    let again = tell(&mut rig, sent[1].header.sequence, 1300);
    assert_eq!(lengths(&again), [1260, 200, 1260, 200, 1260, 200]);
    assert_eq!(size(&rig, id), 1260);
    assert_eq!(rig.stack.info(id).unwrap().congestion_window, window, "nothing was congested");
    assert!(tell(&mut rig, sent[1].header.sequence, 1300).is_empty(), "once");
    assert!(tell(&mut rig, sent[1].header.sequence, 1400).is_empty(), "it never becomes longer");
    assert_eq!((size(&rig, id), rig.stack.counters().path_mtu_reduced), (1260, 1));
    rig.acknowledgement = ends(&again[5]);
    rig.send(Flags::ACK, &[]);
    assert_eq!(lengths(&rig.write(id, 3000)), [1260, 1260, 480]);
    assert_eq!(rig.stack.counters().timeouts, 0);
    // What was told is old after ten minutes.
    rig.acknowledgement = rig.acknowledgement.wrapping_add(3000);
    rig.send(Flags::ACK, &[]);
    rig.pass(601 * SECOND);
    assert_eq!(lengths(&rig.write(id, 1460)), [1460]);
}

/// Segments that are cut for a shorter path take no more packets than may be kept.
#[test]
fn what_was_too_long_is_cut_as_far_as_there_is_room() {
    let (mut rig, id) = Rig::open(Options { packets: 128, ..Options::default() });
    let mut sent = rig.write(id, 28 * 1460);
    assert_eq!((rig.stack.kept_packets(), sent.len()), (28, 10), "more would be more than its share");
    sent = tell(&mut rig, sent[0].header.sequence, 576);
    let (mut came, mut most) = (0, 0);
    for _ in 0..600 {
        most = most.max(rig.stack.kept_packets());
        for segment in std::mem::take(&mut sent) {
            if segment.header.sequence == rig.acknowledgement && segment.payload.len() <= 536 {
                came += segment.payload.len();
                rig.acknowledgement = ends(&segment);
                sent.extend(rig.send(Flags::ACK, &[]));
            }
        }
        sent.extend(rig.pass(100 * MS));
    }
    assert_eq!(came, 28 * 1460);
    assert!(most <= 29, "{most} packets");
}

/// RFC 5927: only what is on its way can have been too long, and nobody makes segments tiny.
#[test]
fn strangers_do_not_make_segments_short() {
    let (mut rig, id) = Rig::open(Options::default());
    let sent = rig.write(id, 2 * 1460);
    for wrong in [rig.acknowledgement.wrapping_sub(1), ends(&sent[1]), 7] {
        assert!(tell(&mut rig, wrong, 600).is_empty());
        assert_eq!(size(&rig, id), 1460, "{wrong} is not on its way");
    }
    for (tiny, expected) in [(0, 536), (68, 536)] {
        tell(&mut rig, sent[0].header.sequence, tiny);
        assert_eq!(size(&rig, id), expected);
    }
    rig.acknowledgement = ends(&sent[1]);
    rig.send(Flags::ACK, &[]);
    assert_eq!(rig.stack.info(id).unwrap().queued, 0);
}

/// RFC 4821, section 7.7: a path that drops long packets without an error.
#[test]
fn a_black_hole_for_long_packets_is_found() {
    let (mut rig, id) = Rig::open(Options::default());
    let mut came = 0;
    let mut sent = rig.write(id, 10_000);
    let begin = rig.now;
    while came < 10_000 {
        let arrived: Vec<Sent> = sent.drain(..).filter(|segment| segment.payload.len() <= 1250).collect();
        for segment in &arrived {
            if segment.header.sequence == rig.acknowledgement {
                came += segment.payload.len();
                rig.acknowledgement = ends(segment);
            }
            sent.extend(rig.send(Flags::ACK, &[]));
        }
        if arrived.is_empty() {
            sent.extend(rig.pass(100 * MS));
        }
        assert!(rig.now - begin < 60 * SECOND, "{came} bytes in a minute: {:?}", rig.stack.info(id));
    }
    assert_eq!(size(&rig, id), 1240);
    assert!(rig.stack.counters().timeouts <= 4, "{} timeouts", rig.stack.counters().timeouts);
    // The path may be another one after ten minutes.
    rig.pass(601 * SECOND);
    assert_eq!(lengths(&rig.write(id, 1460)), [1460]);
}

/// A timeout or two of short segments say nothing of the path.
#[test]
fn short_segments_are_no_sign_of_a_black_hole() {
    let (mut rig, id) = Rig::open(Options::default());
    rig.write(id, 100);
    rig.pass(SECOND);
    rig.pass(5 * SECOND);
    rig.pass(20 * SECOND);
    rig.pass(20 * SECOND);
    assert!(rig.stack.counters().timeouts >= 3);
    assert_eq!((size(&rig, id), rig.stack.counters().path_mtu_reduced), (1460, 0));
}
