//! Faults that google/packetdrill's scripts found, each with the RFC that it was against, and
//! what applications choose for a connection.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::IpAddr;

use common::rig::{OURS, Rig, SYN_ACK, Sent, THEIRS, ends};
use common::{MS, SECOND};
use tcp::{Choices, Mark, Options, Reason};
use wire::tcp::{Flags, Repr};

fn lengths(sent: &[Sent]) -> Vec<usize> {
    sent.iter().map(|sent| sent.payload.len()).collect()
}

/// The answer to an ECN SYN agrees by the bit that later tells of congestion (RFC 3168, section
/// 6.1.1): the first window is as large as ever.
#[test]
fn an_answer_that_agrees_to_notification_tells_of_no_congestion() {
    let mut rig = Rig::new(Options::default());
    let mut id = None;
    let syn = rig.with(|stack, io| {
        id = stack.connect(IpAddr::V4(OURS), (IpAddr::V4(THEIRS), 9), io).ok();
    });
    rig.port = 9;
    rig.acknowledgement = syn[0].header.sequence.wrapping_add(1);
    let theirs = Repr {
        dst_port: syn[0].header.src_port,
        max_segment: Some(1460),
        ..rig.segment(Flags(SYN_ACK.0 | Flags::ECE.0))
    };
    rig.exchange(theirs, &[], &[]);
    let id = id.unwrap();
    assert!(rig.stack.detail(id).unwrap().has_ecn);
    assert_eq!(rig.stack.info(id).unwrap().congestion_window, 14_600);
    let sent = rig.write(id, 100);
    assert!(!sent[0].header.flags.contains(Flags::CWR));
}

/// RFC 8985, section 7.3: one probe until it is answered; section 7.2: a probe in place of a
/// timeout that would come before it.
#[test]
fn a_probe_is_sent_once_and_never_later_than_the_timeout() {
    let (mut rig, id) = Rig::open(Options::default());
    rig.write(id, 1460);
    // Two round trips and the other side's delay are more than the timeout.
    assert_eq!(lengths(&rig.pass(230 * MS)), [1460]);
    assert_eq!((rig.stack.counters().probes, rig.stack.counters().timeouts), (1, 0));
    let (mut rig, id) = Rig::open(Options::default());
    rig.write(id, 14 * 1460);
    assert_eq!(lengths(&rig.pass(45 * MS)), [1460], "new data");
    assert!(rig.pass(60 * MS).is_empty(), "which are not answered yet");
    assert_eq!(rig.stack.counters().probes, 1);
}

/// RFC 3042: each of the first two duplicates lets a new segment go.
#[test]
fn duplicates_let_new_segments_go_without_selective_acknowledgements() {
    let (mut rig, id) = Rig::open_as(Options::default(), |syn| syn.sack_permitted = false);
    let sent = rig.write(id, 14 * 1460);
    assert_eq!(sent.len(), 10);
    rig.now += 20 * MS;
    let next = ends(&sent[9]);
    let first = rig.send(Flags::ACK, &[]).pop().unwrap();
    assert_eq!(first.header.sequence, next);
    let second = rig.send(Flags::ACK, &[]).pop().unwrap();
    assert_eq!(second.header.sequence, next.wrapping_add(1460));
    let third = rig.send(Flags::ACK, &[]);
    assert_eq!(third[0].header.sequence, sent[0].header.sequence, "now it is lost");
}

/// What blocks told of has let segments go already, and does not make the window grow when it is
/// acknowledged.
#[test]
fn what_was_told_before_does_not_count_again() {
    let (mut rig, id) = Rig::open(Options::default());
    let sent = rig.write(id, 15 * 1460);
    rig.now += 20 * MS;
    let header = rig.segment(Flags::ACK);
    rig.exchange(header, &[(sent[1].header.sequence, ends(&sent[2]))], &[]);
    rig.acknowledgement = ends(&sent[2]);
    rig.send(Flags::ACK, &[]);
    assert_eq!(rig.stack.info(id).unwrap().congestion_window, 11 * 1460, "one is news");
}

/// A loss that only time told of is repaired as one of which an acknowledgement told: a segment
/// at a time.
#[test]
fn a_loss_found_by_time_sends_one_segment_first() {
    let (mut rig, id) = Rig::open(Options::default());
    let sent = rig.write(id, 10 * 1460);
    rig.now += 20 * MS;
    let header = rig.segment(Flags::ACK);
    let block = (sent[7].header.sequence, ends(&sent[7]));
    assert!(rig.exchange(header, &[block], &[]).is_empty(), "it may only be late");
    let again = rig.pass(8 * MS);
    assert_eq!((again.len(), again[0].header.sequence), (1, sent[0].header.sequence));
}

/// As in Linux a FIN alone does not wait for the congestion window.
#[test]
fn a_fin_goes_though_the_window_is_full() {
    let (mut rig, id) = Rig::open(Options::default());
    assert_eq!(rig.write(id, 10 * 1460).len(), 10);
    let sent = rig.with(|stack, io| stack.finish(id, io).unwrap());
    assert!(sent.len() == 1 && sent[0].header.flags.contains(Flags::FIN));
}

/// The clock that the answer to a SYN echoes is one that a SYN showed, or it is no answer.
#[test]
fn an_answer_to_another_syn_is_refused() {
    let mut rig = Rig::new(Options::default());
    let syn = rig.with(|stack, io| {
        stack.connect(IpAddr::V4(OURS), (IpAddr::V4(THEIRS), 9), io).unwrap();
    });
    let clock = syn[0].header.timestamps.unwrap().0;
    rig.port = 9;
    rig.acknowledgement = syn[0].header.sequence.wrapping_add(1);
    let answer = |rig: &Rig, echo| Repr {
        dst_port: syn[0].header.src_port,
        timestamps: Some((1, echo)),
        ..rig.segment(SYN_ACK)
    };
    let wrong = answer(&rig, clock.wrapping_add(9999));
    assert!(rig.exchange(wrong, &[], &[])[0].header.flags.contains(Flags::RST));
    let right = answer(&rig, clock);
    assert_eq!(rig.exchange(right, &[], &[])[0].header.flags, Flags::ACK);
}

/// RFC 5482: an application may ask for a shorter user timeout than the stack has.
#[test]
fn an_application_may_give_up_earlier() {
    let (mut rig, id) = Rig::open(Options::default());
    let choices = Choices { has_nagle: true, user_timeout_ns: 3 * SECOND, ..Choices::default() };
    rig.with(|stack, io| stack.choose(id, choices, io).unwrap());
    rig.write(id, 100);
    for _ in 0..28 {
        rig.pass(100 * MS);
    }
    assert_eq!(rig.ended(), None);
    for _ in 0..4 {
        rig.pass(100 * MS);
    }
    assert_eq!(rig.ended(), Some(Reason::TimedOut));
}

/// A corked connection sends full segments, and the rest when it is asked to, or after a
/// timeout; so do bytes behind which more are announced.
#[test]
fn corked_segments_wait_until_they_are_full() {
    let (mut rig, id) = Rig::open(Options::default());
    let choices = |is_corked| Choices { is_corked, ..Choices::default() };
    rig.with(|stack, io| stack.choose(id, choices(true), io).unwrap());
    assert!(rig.write(id, 1000).is_empty());
    assert_eq!(lengths(&rig.write(id, 1000)), [1460]);
    rig.acknowledgement = rig.acknowledgement.wrapping_add(1460);
    assert!(rig.send(Flags::ACK, &[]).is_empty());
    let rest = rig.with(|stack, io| stack.choose(id, choices(false), io).unwrap());
    assert_eq!(lengths(&rest), [540]);
    rig.acknowledgement = rig.acknowledgement.wrapping_add(540);
    rig.send(Flags::ACK, &[]);
    let more = Mark { is_more_to_come: true, ..Mark::default() };
    assert!(rig.with(|stack, io| assert_eq!(stack.write_marked(id, &[7; 10], more, io), Ok(10))).is_empty());
    let late = rig.pass(SECOND);
    assert_eq!(lengths(&late), [10], "nobody waits for ever");
}

/// What ends a record shares no segment with what follows, not when it goes out again either.
#[test]
fn records_share_no_segments() {
    let (mut rig, id) = Rig::open(Options { nagle: false, ..Options::default() });
    let end = Mark { is_record_end: true, ..Mark::default() };
    let record =
        |rig: &mut Rig| rig.with(|stack, io| assert_eq!(stack.write_marked(id, &[7; 400], end, io), Ok(400)));
    assert_eq!(rig.write(id, 10 * 1460).len(), 10);
    assert!(record(&mut rig).is_empty() && record(&mut rig).is_empty() && rig.write(id, 100).is_empty());
    rig.acknowledgement = rig.acknowledgement.wrapping_add(10 * 1460);
    let sent = rig.send(Flags::ACK, &[]);
    assert_eq!(lengths(&sent), [400, 400, 100]);
    assert!(sent.iter().all(|sent| sent.header.flags.contains(Flags::PSH)));
}
