//! Packets that nobody checked through an element of every class there is.

use std::cell::RefCell;

use element::trial::{Raw, Trial};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Classes that nothing comes into, or that open something outside: each says why.
const EXEMPT: &[(&str, &str)] = &[
    ("Error", "stands for a mistake"),
    ("SpinlockAcquire", "names a lock of another element"),
    ("SpinlockPush", "names a lock of another element"),
    ("SpinlockRelease", "names a lock of another element"),
    ("ToDevice", "opens a port"),
];

fn frame(rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend_from_slice(rest);
    frame
}

fn packet(protocol: u8, rest: &[u8]) -> Vec<u8> {
    let length = (20 + rest.len()) as u8;
    let mut packet = vec![0x45, 0, 0, length, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.extend_from_slice(rest);
    packet
}

/// A neighbour solicitation.
fn solicitation() -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 32, 58, 255];
    packet.extend((1..=32).map(|n| if n % 16 == 1 { 0xFE } else { n }));
    packet.extend([135, 0, 0, 0, 0, 0, 0, 0]);
    packet.extend([9; 16]);
    packet.extend([1, 1, 2, 0, 0, 0, 0, 1]);
    packet
}

/// Packets that are nearly right, of every protocol that elements look into.
fn sound() -> Vec<Vec<u8>> {
    let udp = [4, 0, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4];
    let tcp = [4, 0, 0, 21, 0, 0, 0, 1, 0, 0, 0, 2, 0x60, 0x12, 1, 0, 0, 0, 0, 0, 2, 4, 5, 0xB4];
    let port: Vec<u8> = [&tcp[..12], &[0x50, 0x18], &tcp[14..20], b"PORT 10,0,0,1,4,1\r\n"].concat();
    let ping = [8, 0, 0, 0, 0, 1, 0, 1, 9, 9, 9, 9];
    let error = [&[3, 4, 0, 0, 0, 0, 5, 0][..], &packet(17, &udp)].concat();
    let mut options = packet(1, &ping);
    options[0] = 0x48;
    options.splice(20..20, [7, 7, 4, 0, 0, 0, 0, 68, 4, 5, 0, 0]);
    let mut fragment = packet(17, &udp);
    (fragment[6], fragment[7]) = (0x20, 1);
    let mut arp = vec![8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
    arp.extend([2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 18, 26, 4, 9]);
    let mut all = vec![packet(17, &udp), packet(6, &tcp), packet(6, &port), packet(1, &ping)];
    all.extend([packet(1, &error), options, fragment, solicitation()]);
    let frames: Vec<_> = all.iter().map(|packet| frame(&[&[8, 0][..], packet].concat())).collect();
    all.extend(frames);
    all.push(frame(&[&[0x86, 0xDD][..], &solicitation()].concat()));
    all.push(frame(&[&[0x81, 0, 0, 5, 8, 0][..], &packet(17, &udp)].concat()));
    all.push(frame(&arp));
    all
}

/// Each packet cut off at every byte, as it is and with its headers said to be found.
fn cut_off() -> Vec<Raw> {
    let mut all = vec![];
    for packet in sound() {
        for length in 0..=packet.len() {
            let bytes = packet[..length].to_vec();
            let at = if packet[0] == 2 { 14 } else { 0 };
            all.push(Raw { bytes: bytes.clone(), ..Raw::default() });
            all.push(Raw {
                bytes,
                network: Some(at),
                transport: Some(at + 20),
                notes: vec![10, 0, 0, 2],
                ..Raw::default()
            });
        }
    }
    all
}

fn classes() -> impl Iterator<Item = (&'static str, &'static graph::Class)> {
    let all: Vec<_> = crate::registry().iter().collect();
    all.into_iter().filter(|(name, class)| *name == class.name && !class.ports.starts_with("0/"))
}

#[test]
fn every_class_with_an_input_is_on_trial() {
    let mut missing = vec![];
    for (name, _) in classes().filter(|(name, _)| EXEMPT.iter().all(|(exempt, _)| exempt != name)) {
        if let Err(error) = Trial::of(name, &crate::registry()) {
            missing.push(format!("{name}: {error}"));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn packets_cut_off_at_every_byte_harm_no_element() {
    let packets = cut_off();
    for (name, class) in classes() {
        let Ok((mut trial, _)) = Trial::of(name, &crate::registry()) else { continue };
        for some in packets.chunks(64) {
            trial.send(some.iter().cloned());
        }
        trial.read_all(class);
    }
}

/// Packets that are made, and those that are known to have ended or to wait.
fn totals(router: &mut graph::Router) -> (u64, u64) {
    let waiting: u64 = router.waiting().into_iter().map(|(_, packets)| packets).sum();
    let count = router.shared().plan.elements.len();
    let all = router.lanes().iter().flat_map(|lane| (0..count).map(|index| lane.counters(index)));
    let each = all.map(|counters| (counters.made, counters.ended + counters.drops.iter().sum::<u64>()));
    each.fold((0, waiting), |(made, ended), (more, gone)| (made + more, ended + gone))
}

/// Each class says how its packets are accounted for, and what it says is so: all that the feed and
/// the element made is dropped, ended or waits.
#[test]
fn packets_of_every_class_are_accounted_for() {
    let (packets, mut wrong) = (cut_off(), vec![]);
    for (name, _) in classes().filter(|(_, class)| class.account.is_complete()) {
        let Ok((mut trial, _)) = Trial::of(name, &crate::registry()) else { continue };
        for some in packets.chunks(64) {
            trial.send(some.iter().cloned());
        }
        trial.router.cleanup();
        let (made, known) = totals(&mut trial.router);
        if made != known && !trial.router.lanes().iter().any(graph::run::lane::Lane::has_lacked_buffers) {
            wrong.push(format!("{name}: {made} made, {known} known"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn raw() -> impl Strategy<Value = Raw> {
    let sound = sound();
    let change = (any::<prop::sample::Index>(), any::<u8>());
    let nearly =
        (0..sound.len(), proptest::collection::vec(change, 0..6)).prop_map(move |(which, changes)| {
            let mut bytes = sound[which].clone();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        });
    let bytes = prop_oneof![proptest::collection::vec(any::<u8>(), 0..160), nearly];
    let at = || proptest::option::of(prop_oneof![Just(0u8), Just(14), Just(20), Just(34), any::<u8>()]);
    let notes = proptest::collection::vec(any::<u8>(), 0..48);
    let buffers = prop_oneof![Just(vec![]), proptest::collection::vec(0u16..40, 0..6)];
    (bytes, at(), at(), notes, buffers).prop_map(|(bytes, network, transport, notes, buffers)| Raw {
        bytes,
        network,
        transport,
        notes,
        buffers,
    })
}

#[test]
fn random_packets_harm_no_element() {
    for (name, _) in classes() {
        let Ok((trial, _)) = Trial::of(name, &crate::registry()) else { continue };
        let trial = RefCell::new(trial);
        let mut runner = TestRunner::new(Config { cases: 32, ..Config::default() });
        let run = runner.run(&proptest::collection::vec(raw(), 1..64), |packets| {
            trial.borrow_mut().send(packets);
            Ok(())
        });
        assert!(run.is_ok(), "{name}: {run:?}");
    }
}
