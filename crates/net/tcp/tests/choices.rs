//! What an application chooses for one connection, and how congestion that was met slows one down.
#![allow(clippy::unwrap_used)]

mod common;

use common::rig::Rig;
use tcp::{Algorithm, Choices, KeepAlive, Options, Reason};
use wire::tcp::Flags;

const SECOND: i64 = 1_000_000_000;
const MILLISECOND: i64 = 1_000_000;
const SIZE: usize = 1460;

/// A stack that asks nobody asks on one connection, until it is told not to.
#[test]
fn one_connection_is_asked_when_it_is_silent() {
    let (mut rig, id) = Rig::open(Options::default());
    let keep_alive = KeepAlive { idle_ns: 5 * SECOND, interval_ns: SECOND, probes: 2 };
    let choices = Choices { keep_alive: Some(keep_alive), ..Choices::default() };
    rig.pass(2 * SECOND);
    assert!(rig.with(|stack, io| stack.choose(id, choices, io).unwrap()).is_empty());
    assert!(rig.pass(2 * SECOND).is_empty(), "silence counts from what was heard");
    assert_eq!(rig.pass(SECOND).len(), 1);
    rig.send(Flags::ACK, &[]);
    rig.with(|stack, io| stack.choose(id, Choices::default(), io).unwrap());
    assert!(rig.pass(60 * SECOND).is_empty());
    rig.with(|stack, io| stack.choose(id, choices, io).unwrap());
    let asked: Vec<Flags> = (0..5).flat_map(|_| rig.pass(SECOND)).map(|sent| sent.header.flags).collect();
    let whole = [Flags::ACK, Flags::ACK, Flags::RST | Flags::ACK];
    assert_eq!(asked, whole, "so often it is asked, however long it was silent before");
    assert_eq!(rig.ended(), Some(Reason::TimedOut));
}

#[test]
fn one_thing_is_changed_and_the_rest_stays() {
    let keep_alive = Some(KeepAlive { idle_ns: 5 * SECOND, interval_ns: SECOND, probes: 2 });
    let (mut rig, id) = Rig::open(Options { keep_alive, algorithm: Algorithm::Reno, ..Options::default() });
    let before = rig.stack.choices(id).unwrap();
    assert_eq!((before.keep_alive, before.algorithm, before.has_nagle), (keep_alive, Algorithm::Reno, true));
    let choices = Choices { has_nagle: false, ..before };
    rig.with(|stack, io| stack.choose(id, choices, io).unwrap());
    assert_eq!(rig.stack.choices(id), Some(choices));
    assert_eq!(rig.pass(5 * SECOND).len(), 1, "it is asked as before");
}

/// As in Linux, an application's user timeout counts in place of the number of probes.
#[test]
fn a_silent_connection_ends_with_its_applications_user_timeout() {
    let (mut rig, id) = Rig::open(Options::default());
    let keep_alive = KeepAlive { idle_ns: SECOND, interval_ns: SECOND, probes: 100 };
    let choices = Choices { keep_alive: Some(keep_alive), user_timeout_ns: 3 * SECOND, ..Choices::default() };
    rig.with(|stack, io| stack.choose(id, choices, io).unwrap());
    (0..2).for_each(|_| drop(rig.pass(SECOND)));
    assert_eq!(rig.ended(), None);
    (0..2).for_each(|_| drop(rig.pass(SECOND)));
    assert_eq!(rig.ended(), Some(Reason::TimedOut));
}

#[test]
fn acknowledgements_go_at_once_or_wait_as_the_application_wants() {
    let (mut rig, id) = Rig::open(Options::default());
    rig.with(|stack, io| stack.set_quick(id, false, io).unwrap());
    assert!(rig.send(Flags::ACK, b"waits").is_empty());
    let sent = rig.with(|stack, io| stack.set_quick(id, true, io).unwrap());
    assert_eq!(sent.len(), 1, "what waited goes");
    rig.sequence = rig.sequence.wrapping_add(5);
    assert_eq!(rig.send(Flags::ACK, b"at once").len(), 1);
}

/// RFC 6937 for congestion that was not a loss: seven segments go out for each ten that arrive,
/// and nothing stands still until what is on its way fits into the new window.
#[test]
fn sending_goes_on_while_the_window_shrinks() {
    let options = Options { tail_probes: false, timestamps: false, ..Options::default() };
    let (mut rig, id) = Rig::open_as(options, |syn| syn.flags = syn.flags | Flags::ECE | Flags::CWR);
    assert_eq!(rig.write(id, 40 * SIZE).len(), 10);
    let mut went = Vec::new();
    for n in 0..10 {
        rig.acknowledgement = rig.acknowledgement.wrapping_add(SIZE as u32);
        let flags = if n == 0 { Flags::ACK | Flags::ECE } else { Flags::ACK };
        went.push(rig.send(flags, &[]).len());
        assert!(rig.stack.detail(id).unwrap().is_reduced);
    }
    assert_eq!(went.iter().sum::<usize>(), 7, "{went:?}");
    assert!(went.windows(3).all(|three| three.contains(&1)), "without a pause: {went:?}");
    rig.acknowledgement = rig.acknowledgement.wrapping_add(SIZE as u32);
    rig.send(Flags::ACK, &[]);
    let detail = rig.stack.detail(id).unwrap();
    assert_eq!((detail.is_reduced, detail.info.congestion_window), (false, 7 * SIZE as u32));
    rig.check();
}

/// Round trips that become longer end slow start before anything is lost: a segment is acknowledged
/// each millisecond, so that each waits longer than the one before.
#[test]
fn slow_start_ends_when_round_trips_become_longer() {
    let reno = Options { algorithm: tcp::Algorithm::Reno, ..Options::default() };
    for (options, ends) in [(Options::default(), true), (reno, false)] {
        let (mut rig, id) = Rig::open(options);
        rig.write(id, 100 * SIZE);
        rig.pass(5 * MILLISECOND);
        for _ in 0..60 {
            rig.pass(MILLISECOND);
            let segment = rig.stack.info(id).unwrap().payload_size;
            rig.acknowledgement = rig.acknowledgement.wrapping_add(segment);
            rig.send(Flags::ACK, &[]);
        }
        let info = rig.stack.info(id).unwrap();
        assert_eq!((info.slow_start_threshold.is_some(), info.resent), (ends, 0), "{info:?}");
        rig.check();
    }
}

/// What the path holds was found once: a pause begins slow start anew, which goes as far as before.
#[test]
fn slow_start_after_a_pause_goes_as_far_as_before() {
    let (mut rig, id) = Rig::open(Options::default());
    let mut ends = Vec::new();
    for round_trips in [&[10, 10, 10, 10, 18, 18][..], &[18, 18, 18]] {
        rig.write(id, 100 * SIZE);
        for round_trip in round_trips {
            rig.pass(round_trip * MILLISECOND);
            let info = rig.stack.info(id).unwrap();
            let segments = info.in_flight / info.payload_size;
            for _ in 0..segments {
                rig.acknowledgement = rig.acknowledgement.wrapping_add(info.payload_size);
                rig.send(Flags::ACK, &[]);
            }
            rig.write(id, segments as usize * SIZE);
        }
        let info = rig.stack.info(id).unwrap();
        assert_eq!(info.resent, 0, "{info:?}");
        ends.push(info.slow_start_threshold.expect("slow start has ended") / info.payload_size);
        while let Some(info) = rig.stack.info(id).filter(|info| info.in_flight + info.queued > 0) {
            rig.acknowledgement = rig.acknowledgement.wrapping_add(info.in_flight);
            rig.send(Flags::ACK, &[]);
        }
        rig.pass(60 * SECOND);
    }
    assert!(ends[0] > 30 && ends[1] >= ends[0], "{ends:?}");
    rig.check();
}
