//! Openings, ends and closed windows as few peers have them.
#![allow(clippy::unwrap_used)]

mod common;

use common::rig::{FIRST, OURS, Rig, SYN_ACK, THEIRS, ends};
use common::{MS, SECOND};
use tcp::{Event, Options, State};
use wire::tcp::{Flags, Repr};

/// RFC 9293, section 3.5, figure 7, with a stack of ours at both ends.
#[test]
fn two_stacks_that_open_at_the_same_time_are_connected() {
    let mut rigs = [Rig::new(Options::default()), Rig::new(Options::default())];
    let addresses = [OURS, THEIRS];
    let mut wire = [vec![], vec![]];
    for (n, rig) in rigs.iter_mut().enumerate() {
        let (own, other) = (addresses[n].into(), addresses[1 - n].into());
        wire[n] = rig.with_bytes(|stack, io| _ = stack.connect_from((own, 99), (other, 99), io).unwrap());
        assert_eq!(wire[n].len(), 1);
    }
    let mut turns = 0;
    while wire.iter().any(|packets| !packets.is_empty()) {
        let [from_0, from_1] = std::mem::take(&mut wire);
        for (n, packets) in [from_1, from_0].into_iter().enumerate() {
            wire[n] = packets.iter().flat_map(|bytes| rigs[n].receive(bytes)).collect();
        }
        turns += 1;
        assert!(turns < 10, "they go on for ever");
    }
    for rig in &mut rigs {
        assert!(matches!(rig.events[..], [Event::Connected { is_passive: false, .. }]), "{:?}", rig.events);
        let Some(Event::Connected { connection, .. }) = rig.events.pop() else { return };
        assert_eq!(rig.state(connection), Some(State::Established));
        let answer = rig.with_bytes(|stack, io| assert_eq!(stack.write(connection, b"hello", io), Ok(5)));
        assert_eq!(answer.len(), 1);
    }
}

/// The answer to a SYN was lost, and the SYN comes again: it is answered at once.
#[test]
fn a_syn_that_comes_again_is_answered_again() {
    let mut rig = Rig::new(Options::default());
    let first = rig.send(Flags::SYN, &[]);
    for _ in 0..3 {
        rig.now += SECOND / 10;
        let again = rig.send(Flags::SYN, &[]);
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].header.flags.without(Flags::ECE), SYN_ACK);
        assert_eq!(again[0].header.sequence, first[0].header.sequence);
    }
    assert_eq!((rig.stack.len(), rig.stack.counters().timeouts), (1, 0));
    (rig.sequence, rig.acknowledgement) = (FIRST.wrapping_add(1), first[0].header.sequence.wrapping_add(1));
    rig.send(Flags::ACK, &[]);
    assert!(matches!(rig.events[..], [Event::Connected { is_passive: true, .. }]));
}

/// RFC 9293, section 3.10.7.3: data that come with the answer to a SYN.
#[test]
fn data_in_the_answer_to_a_syn_are_taken_from_their_first_byte() {
    let mut rig = Rig::new(Options::default());
    let syn = rig.with(|stack, io| _ = stack.connect(OURS.into(), (THEIRS.into(), 9), io).unwrap());
    (rig.port, rig.acknowledgement) = (9, syn[0].header.sequence.wrapping_add(1));
    let answer = Repr { dst_port: syn[0].header.src_port, ..rig.segment(Flags::SYN | Flags::ACK) };
    let sent = rig.exchange(answer, &[], b"hello");
    assert_eq!(sent[0].header.acknowledgement, FIRST.wrapping_add(6));
    let Some(Event::Received { packet, .. }) = rig.events.pop() else { panic!("{:?}", rig.events) };
    assert_eq!(packet[..], b"hello"[..]);
    rig.pool.free(packet);
}

/// A connection of the test's in TIME-WAIT, after it has sent so many bytes.
fn in_time_wait(rig: &mut Rig, id: tcp::Id, bytes: usize) {
    if bytes > 0 {
        let sent = rig.write(id, bytes);
        rig.acknowledgement = ends(sent.last().unwrap());
    }
    rig.with(|stack, io| stack.finish(id, io).unwrap());
    rig.acknowledgement = rig.acknowledgement.wrapping_add(1);
    rig.send(Flags::FIN | Flags::ACK, &[]);
    assert_eq!(rig.state(id), Some(State::TimeWait));
    rig.sequence = rig.sequence.wrapping_add(5000);
}

/// A SYN to a port on which nobody listens any more leaves TIME-WAIT as it is.
#[test]
fn a_syn_that_is_refused_does_not_end_time_wait() {
    let (mut rig, id) = Rig::open(Options::default());
    in_time_wait(&mut rig, id, 0);
    rig.send(Flags::SYN | Flags::FIN, &[]);
    assert_eq!(rig.state(id), Some(State::TimeWait), "that is no SYN of anybody's");
    rig.stack.unlisten(80);
    rig.send(Flags::SYN, &[]);
    assert_eq!(rig.state(id), Some(State::TimeWait));
}

/// RFC 6191, section 2: the first number of a connection is behind all of the one before,
/// though that sent faster than the clock of numbers runs.
#[test]
fn a_connection_that_opens_anew_begins_behind_the_numbers_of_the_one_before() {
    let (mut rig, id) = Rig::open(Options::default());
    in_time_wait(&mut rig, id, 14_000);
    let before = rig.acknowledgement;
    rig.now += MS;
    let answer = rig.send(Flags::SYN, &[]);
    assert!(answer[0].header.flags.contains(Flags::SYN | Flags::ACK));
    let ahead = answer[0].header.sequence.wrapping_sub(before) as i32;
    assert!(ahead > 65_535, "{ahead} numbers behind the last window");
}

/// RFC 9293, section 3.8.6: a window that shrinks over data on their way is asked about for as
/// long as somebody answers.
#[test]
fn a_window_that_shrinks_to_nothing_does_not_end_the_connection() {
    let (mut rig, id) = Rig::open(Options { retries: 3, ..Options::default() });
    let sent = rig.write(id, 1000);
    assert_eq!(sent.len(), 1);
    rig.window = 0;
    let mut again = 0;
    for _ in 0..1200 {
        for segment in rig.pass(SECOND) {
            assert_eq!((segment.header.sequence, segment.payload.len()), (rig.acknowledgement, 1000));
            again += 1;
            rig.send(Flags::ACK, &[]);
        }
    }
    assert!(again > 15, "{again} times in twenty minutes");
    assert_eq!(rig.ended(), None);
    rig.window = 50_000;
    rig.send(Flags::ACK, &[]);
    let sent = rig.pass(2 * SECOND);
    assert_eq!(sent.len(), 1, "it does not wait for the doubled timeout");
    rig.acknowledgement = ends(&sent[0]);
    rig.send(Flags::ACK, &[]);
    assert_eq!(rig.stack.info(id).unwrap().queued, 0);
    // Who does not answer at all is given up as before.
    rig.window = 0;
    rig.write(id, 1000);
    rig.send(Flags::ACK, &[]);
    (0..1200).for_each(|_| _ = rig.pass(SECOND));
    assert_eq!(rig.ended(), Some(tcp::Reason::TimedOut));
}

/// What an application has closed ends, though the other side keeps its window closed and
/// answers what it is asked; what it has only finished does not.
#[test]
fn a_closed_window_does_not_keep_a_closed_connection() {
    for (is_closed, is_both) in [(true, false), (true, true), (false, false)] {
        let (mut rig, id) = Rig::open(Options::default());
        rig.window = 0;
        rig.send(Flags::ACK, &[]);
        assert!(rig.write(id, 1000).is_empty());
        rig.pass(300 * SECOND); // as long as it is wanted it waits
        rig.send(Flags::ACK, &[]);
        rig.with(|stack, io| match is_closed {
            true => stack.close(id, io).unwrap(),
            false => stack.finish(id, io).unwrap(),
        });
        if is_both {
            rig.send(Flags::FIN | Flags::ACK, &[]);
            rig.sequence = rig.sequence.wrapping_add(1);
        }
        let mut reset_ns = None;
        let begin_ns = rig.now;
        while rig.now < begin_ns + 200 * SECOND {
            for sent in rig.pass(SECOND) {
                match sent.header.flags.contains(Flags::RST) {
                    true => reset_ns = Some(rig.now - begin_ns),
                    false => _ = rig.send(Flags::ACK, &[]),
                }
            }
        }
        if is_closed {
            assert!((60 * SECOND..75 * SECOND).contains(&reset_ns.unwrap()), "{reset_ns:?}");
            assert_eq!((rig.ended(), rig.stack.len()), (Some(tcp::Reason::TimedOut), 0));
            assert_eq!(rig.stack.counters().stalled, 1);
        } else {
            assert_eq!((reset_ns, rig.state(id)), (None, Some(State::FinWait1)));
        }
    }
}

/// RFC 2018, section 8: a receiver may let go of what it told of; all of that is sent again
/// at the first timeout which shows it.
#[test]
fn what_a_receiver_lets_go_of_is_sent_again() {
    let (mut rig, id) = Rig::open(Options::default());
    let sent = rig.write(id, 6 * 1460);
    rig.now += 20 * MS;
    // The first was lost, and is lost again.
    let header = rig.segment(Flags::ACK);
    rig.exchange(header, &[(ends(&sent[0]), ends(&sent[5]))], &[]);
    rig.pass(2 * SECOND);
    rig.acknowledgement = ends(&sent[0]);
    rig.send(Flags::ACK, &[]);
    // It says no more of the other five.
    let mut timeouts = vec![];
    for _ in 0..40 {
        for again in rig.pass(SECOND / 2) {
            assert_eq!(again.header.sequence, rig.acknowledgement);
            rig.acknowledgement = ends(&again);
            for more in rig.send(Flags::ACK, &[]) {
                rig.acknowledgement = ends(&more);
            }
            rig.send(Flags::ACK, &[]);
            timeouts.push(rig.now);
        }
    }
    assert_eq!(rig.acknowledgement, ends(&sent[5]));
    assert!(timeouts.len() <= 2, "one timeout shows that all were let go of: {timeouts:?}");
}
