//! Connections move between the cores of a host while they are served, in simulated time: a port that
//! leads packets by its table, a client that checks each byte, and cores that take turns as the test
//! says, among them ones that are flooded, slow, or have no room.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "cores/rig.rs"]
mod rig;

use std::task::Poll;

use rig::{CLIENT, LIMIT, ROUNDS, Rig, SERVER, Stream};
use runtime::Poller;
use tcp::{NotSpread, Options};
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::{MacAddress, icmpv4, ipv4};

/// A frame for nobody.
fn nobodys() -> Vec<u8> {
    let header = ethernet::Header::between(MacAddress([2, 0, 0, 0, 0, 1]), CLIENT.0, EtherType::IPV4);
    [&header.into_inner()[..], &[0; 46]].concat()
}

/// What a router with so many bytes before it says of a server's segment (RFC 1191, section 4).
fn too_big(segment: &[u8], mtu: u16) -> Vec<u8> {
    let (mac, router) = (MacAddress([2, 0, 0, 0, 0, 1]), [10, 0, 0, 1].into());
    let mut message = [&[0; icmpv4::HEADER_LEN][..], &segment[ethernet::HEADER_LEN..][..28]].concat();
    let mut icmp = icmpv4::Header::of_mut(&mut message).unwrap();
    icmp.set_message_type(icmpv4::UNREACHABLE);
    icmp.set_code(icmpv4::NEEDS_FRAGMENTS);
    icmp.set_mtu(mtu);
    icmpv4::Packet::new_unchecked(&mut message[..]).fill_checksum();
    let mut ip = [0; ipv4::HEADER_LEN];
    let header = ipv4::Repr::between(router, SERVER.1, Protocol::ICMP, message.len());
    header.emit(&mut ipv4::Packet::new_unchecked(&mut ip[..]));
    let ethernet = ethernet::Header::between(SERVER.0, mac, EtherType::IPV4);
    [&ethernet.into_inner()[..], &ip, &message].concat()
}

/// A port leads what a router says by the router's address: each core has it reach the connection.
#[test]
fn a_segment_that_was_too_long_is_told_to_the_core_that_sent_it() {
    for mut rig in [Rig::new(3, 12), Rig::fixed(3, 12)] {
        for (owner, other) in [(0, 1), (1, 2), (2, 0)] {
            let before = rig.count("tcp_path_mtu_reduced");
            let frame = too_big(&rig.answers[owner], 600);
            rig.rings[other].put(frame);
            rig.is_client_stuck = true;
            (0..3).for_each(|_| rig.round());
            rig.is_client_stuck = false;
            rig.goes_on();
            assert_eq!(rig.count("tcp_path_mtu_reduced"), before + 1, "from core {other} to {owner}");
        }
        // Nobody has the connection: it is passed on once, and counted.
        let mut frame = too_big(&rig.answers[0], 600);
        let port = frame.len() - 5;
        frame[port] ^= 0x40;
        let at = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
        icmpv4::Packet::new_unchecked(&mut frame[at..]).fill_checksum();
        let before = rig.count("rx_icmp_error");
        (0..3).for_each(|core| rig.rings[core].put(frame.clone()));
        rig.goes_on();
        assert_eq!(rig.count("rx_icmp_error"), before + 3);
        rig.is_untouched();
    }
}

/// A port leads fragments by their addresses alone: the segments that they make come to the
/// connections of other cores too, whether those move or stay.
#[test]
fn segments_in_fragments_reach_the_core_of_their_connection() {
    for mut rig in [Rig::new(3, 12), Rig::fixed(3, 12)] {
        let are_woken = rig.cores.iter().all(|(host, _)| host.wakeup().is_some());
        assert!(are_woken, "a core that sleeps takes what others pass on");
        for core in 0..3 {
            let before = ["ip_reassembled", "tcp_passed_on"].map(|name| rig.count(name));
            rig.cut = Some(core);
            rig.goes_on();
            rig.cut = None;
            rig.goes_on();
            let after = ["ip_reassembled", "tcp_passed_on"].map(|name| rig.count(name));
            assert!(after[0] > before[0] + 100 && after[1] > before[1] + 50, "{before:?} {after:?}");
        }
        assert_eq!(rig.count("rx_tcp_no_connection") + rig.count("rx_tcp_checksum"), 0);
        assert!(rig.seen.0.lock().unwrap().values().all(|stream| stream.closed.is_none()));
    }
}

/// Cores that know nothing of each other drop segments in fragments that are not theirs: they end no
/// connection of another core, and what is sent again in one piece comes to its own.
#[test]
fn segments_in_fragments_end_no_connection_of_a_core_that_is_not_known() {
    let mut rig = Rig::strangers(3, 12);
    for core in 0..3 {
        let before = rig.count("rx_ip_fragment_core");
        rig.cut = Some(core);
        (0..200).for_each(|_| rig.round());
        rig.cut = None;
        rig.goes_on();
        assert!(rig.count("rx_ip_fragment_core") >= before + 8, "two of three connections or more");
    }
    assert_eq!(rig.count("rx_tcp_no_connection"), 0);
    assert!(rig.seen.0.lock().unwrap().values().all(|stream| stream.closed.is_none()));
    assert_eq!(rig.connections().iter().sum::<usize>(), 12, "none was opened twice");
}

/// First fragments of packets that never end, each of its own, leave connections all that they have.
#[test]
fn a_flood_of_fragments_does_not_disturb_connections() {
    let mut rig = Rig::new(2, 6);
    let segment = [&rig.last[1][..], &[0; 1200]].concat();
    let ip = ethernet::HEADER_LEN;
    for _ in 0..500 {
        for _ in 0..20 {
            let mut frame = segment.clone();
            ipv4::Header::of_mut(&mut frame[ip..]).unwrap().set_total_len(1000);
            ipv4::fill_checksum(&mut frame[ip..ip + ipv4::HEADER_LEN]);
            let [first, last] = rig::fragments_of(&frame, 960);
            // One of two begins, and the others do not.
            rig.rings[1].put(first);
            rig.rings[1].put(rig::fragments_of(&frame, 960)[1].clone());
            drop(last);
        }
        (0..2).for_each(|_| rig.round());
    }
    let lost = rig.count("rx_ip_fragment_room");
    assert!(lost > 15_000, "{lost} were given up");
    rig.goes_on();
    rig.is_untouched();
}

#[test]
fn connections_move_while_they_are_served() {
    let mut rig = Rig::new(4, 40);
    for cores in [1, 3, 2, 4, 1, 4] {
        assert!(rig.spread(cores).unwrap() > 0);
        rig.goes_on();
        assert_eq!(rig.connections().iter().filter(|count| **count > 0).count(), cores);
    }
    rig.is_untouched();
    assert!(rig.count("tcp_passed_on") > 0, "segments were on their way");
}

/// Cores that give to the same ones: none waits for the ring of one giver only.
#[test]
fn two_cores_give_at_once() {
    let mut rig = Rig::new(4, 40);
    // One of them empties its ring long after the other.
    rig.rings[3].held().pace = 1;
    rig.groups.spread(2, LIMIT, rig.now).unwrap();
    let mut moved = rig.go_on();
    rig.until("a backlog", |rig| rig.rings[3].held().frames.len() > 20);
    for _ in 0..ROUNDS {
        if moved.is_ready() {
            break;
        }
        rig.round();
        moved = rig.go_on();
    }
    assert!(matches!(moved, Poll::Ready(Ok(64))), "{moved:?}");
    rig.goes_on();
    assert_eq!(rig.connections()[2..], [0, 0]);
    rig.is_untouched();
}

/// A ring that is never empty is empty of what was in it when it gave as many frames as it holds.
#[test]
fn a_flooded_core_gives_its_connections() {
    let mut rig = Rig::new(2, 6);
    rig.rings[1].held().flood = Some(nobodys());
    rig.goes_on();
    let begin = rig.now;
    assert_eq!(rig.spread(1).unwrap(), 64);
    assert!(rig.now.since(begin) < LIMIT / 10, "{:?}", rig.now.since(begin));
    rig.goes_on();
    assert_eq!(rig.connections()[1], 0);
    rig.is_untouched();
    // And back, while it is flooded still.
    assert_eq!(rig.spread(2).unwrap(), 64);
    rig.goes_on();
    rig.is_untouched();
}

/// The connections have moved, and the port leads their packets as before, until it is asked again: then
/// what is still in the old core's ring comes before what comes by the new one.
#[test]
fn a_port_that_refused_is_asked_again() {
    let mut rig = Rig::new(2, 20);
    rig.refuses = true;
    assert!(matches!(rig.spread(1), Err(NotSpread::Port(_))));
    assert_eq!((rig.connections()[1], rig.asked), (0, 1));
    let before = rig.count("tcp_passed_on");
    rig.goes_on();
    assert!(rig.count("tcp_passed_on") > before + 100, "they are passed on");
    rig.refuses = false;
    rig.rings[1].held().pace = 1;
    rig.until("a backlog", |rig| rig.rings[1].held().frames.len() > 20);
    assert_eq!((rig.spread(1).unwrap(), rig.asked), (0, 2));
    rig.goes_on();
    let passed_on = rig.count("tcp_passed_on");
    rig.goes_on();
    assert_eq!(rig.count("tcp_passed_on"), passed_on, "none comes to the old core any more");
    assert_eq!((rig.spread(1).unwrap(), rig.asked), (0, 2), "there is nothing to change");
    rig.is_untouched();
}

/// Groups that a port did not lead to their core move on to a third one, or back.
#[test]
fn groups_move_on_after_a_port_refused() {
    for (first, second) in [(2, 1), (2, 3)] {
        let mut rig = Rig::new(3, 30);
        rig.refuses = true;
        assert!(matches!(rig.spread(first), Err(NotSpread::Port(_))));
        rig.goes_on();
        rig.refuses = false;
        rig.rings[2].held().pace = 1;
        rig.until("a backlog", |rig| rig.rings[2].held().frames.len() > 20);
        assert!(rig.spread(second).unwrap() > 0);
        rig.rings[2].held().pace = 0;
        rig.goes_on();
        let passed_on = rig.count("tcp_passed_on");
        rig.goes_on();
        assert_eq!(rig.count("tcp_passed_on"), passed_on, "all come to their own core");
        assert_eq!(rig.connections().iter().filter(|count| **count > 0).count(), second);
        rig.is_untouched();
    }
}

#[test]
fn only_one_move_is_under_way_and_not_over_more_cores_than_there_are() {
    let mut rig = Rig::new(2, 4);
    for cores in [0, 3] {
        assert!(matches!(rig.spread(cores), Err(NotSpread::Cores(2))));
    }
    assert!(matches!(rig.go_on(), Poll::Pending), "nothing is under way");
    rig.groups.spread(1, LIMIT, rig.now).unwrap();
    assert!(matches!(rig.groups.spread(2, LIMIT, rig.now), Err(NotSpread::Busy)));
    assert!(rig.groups.is_moving() && rig.go_on().is_pending());
    rig.round();
    rig.until("the move", |rig| !rig.cores[1].0.counters().is_empty());
    while rig.go_on().is_pending() {
        rig.round();
    }
    assert_eq!(rig.spread(2).unwrap(), 64);
    rig.is_untouched();
}

/// A core that has no turn is waited for no longer than was said; then nobody knows how far it is, and
/// no groups move any more. What it has is served when it has turns again.
#[test]
fn after_a_core_was_late_no_groups_move() {
    for (led, what) in [(0, "hand its connections over"), (1, "empty its ring")] {
        let mut rig = Rig::new(2, 10);
        let begin = rig.now;
        rig.rings[1].held().pace = 1;
        rig.until("a backlog", |rig| rig.rings[1].held().frames.len() > 20);
        rig.groups.spread(1, LIMIT, rig.now).unwrap();
        let mut moved = rig.go_on();
        while rig.asked < led {
            rig.round();
            moved = rig.go_on();
        }
        rig.stuck = vec![1];
        while moved.is_pending() {
            rig.round();
            moved = rig.go_on();
        }
        let Poll::Ready(Err(NotSpread::Late(late))) = moved else { panic!("{moved:?}") };
        assert_eq!(late, what);
        assert!((LIMIT..2 * LIMIT).contains(&rig.now.since(begin)), "{:?}", rig.now.since(begin));
        assert!(rig.go_on().is_pending() && !rig.groups.is_moving());
        (rig.stuck, rig.rings[1].held().pace) = (vec![], 0);
        let Err(NotSpread::Unknown(late)) = rig.spread(2) else { panic!("it is not known how far it is") };
        assert_eq!(late, what);
        rig.goes_on();
        assert!(rig.seen.0.lock().unwrap().values().all(|stream| stream.closed.is_none()));
        assert_eq!(rig.connections(), [10, 0]);
    }
}

/// Segments for a core that takes none are lost by name beyond a mailbox's limit, and sent again.
#[test]
fn a_full_mailbox_loses_segments_by_name() {
    let mut rig = Rig::new(2, 10);
    rig.refuses = true;
    assert!(matches!(rig.spread(1), Err(NotSpread::Port(_))));
    rig.goes_on();
    rig.stuck = vec![0];
    let before = rig.count("tcp_passed_on");
    for _ in 0..40 {
        let again = rig.last[1].clone();
        (0..32).for_each(|_| rig.rings[1].put(again.clone()));
        rig.round();
    }
    // Some may have been there before.
    let passed_on = rig.count("tcp_passed_on") - before;
    assert!((1024 - 64..=1024).contains(&passed_on), "{passed_on}");
    let lost = rig.count("rx_tcp_mailbox");
    assert!(lost >= 40 * 32 - 1024, "{lost}");
    rig.stuck.clear();
    rig.goes_on();
    assert_eq!(rig.count("rx_tcp_mailbox"), lost);
    assert!(rig.seen.0.lock().unwrap().values().all(|stream| stream.closed.is_none()));
}

/// Connections for which the new core has no room are reset, and the others served on.
#[test]
fn a_core_without_room_refuses_connections() {
    let connections = |core| if core == 0 { 25 } else { 100 };
    let mut rig = Rig::with(2, 40, |core| Options { connections: connections(core), ..Options::default() });
    assert!(rig.connections()[0] < 25, "{:?}", rig.connections());
    rig.spread(1).unwrap();
    rig.until("resets", |rig| rig.seen.0.lock().unwrap().values().any(|stream| stream.closed.is_some()));
    rig.goes_on_but_for(&|stream| stream.closed.is_some());
    let refused = rig.count("tcp_move_refused");
    let reset = |stream: &&Stream| stream.closed == Some(tcp::Reason::Reset);
    let closed = rig.seen.0.lock().unwrap().values().filter(reset).count();
    assert_eq!((closed as u64, closed), (refused, 40 - 25));
    assert_eq!(rig.connections(), [25, 0]);
    // Neither core keeps a buffer of what it refused.
    assert_eq!((rig.count("rx_tcp_mailbox"), rig.overtaken), (0, 0));
}

/// A core that has given all away rests, until it is woken because it gets groups again.
#[test]
fn a_core_rests_and_comes_back() {
    let mut rig = Rig::new(2, 10);
    assert!(!rig.cores[1].0.rests());
    rig.spread(1).unwrap();
    rig.goes_on();
    assert!(rig.cores[1].0.rests() && rig.cores[1].0.deadline().is_none_or(|due| due > rig.now));
    rig.stuck = vec![1];
    rig.goes_on();
    rig.groups.spread(2, LIMIT, rig.now).unwrap();
    rig.until("something for it to do", |rig| rig.cores[1].0.deadline().is_some_and(|due| due <= rig.now));
    rig.stuck.clear();
    while rig.go_on().is_pending() {
        rig.round();
    }
    rig.goes_on();
    assert!(!rig.cores[1].0.rests() && rig.connections()[1] > 0);
    rig.is_untouched();
}
