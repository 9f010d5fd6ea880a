//! The table by its registers: what it does, what it refuses, and whatever a driver may write.

use proptest::prelude::*;
use wire::MacAddress;

use super::*;
use crate::lint::Rule as _;

const TUNNEL: [u8; 16] = [0xAA; 16];

/// Writes arguments and does a command: how it ended.
fn command(encap: &mut Encap, arguments: &[(u32, u32)], command: u32) -> u32 {
    arguments.iter().for_each(|(offset, value)| encap.write(*offset, *value));
    encap.write(reg::COMMAND, command);
    encap.read(reg::STATUS)
}

fn patch(kind: u8, at: u32, value: u32) -> u32 {
    u32::from(kind) | at << reg::patch::AT_SHIFT | value << reg::patch::VALUE_SHIFT
}

/// A network of frames in place 3, whose identifiers are the destination, with headers of [`TUNNEL`]
/// whose last two bytes are the length, and an entry for the station 02:00:00:00:00:`last`.
fn filled(entries: u32, last: u32) -> Encap {
    let mut encap = Encap::new(entries);
    let network = [(reg::NETWORK, 3), (reg::EXTRACTOR, 48 << 16), (reg::MODE, reg::mode::FRAMES)];
    assert_eq!(command(&mut encap, &network, command::SET_NETWORK), status::OK);
    let mut headers = vec![(reg::PLACE, 0), (reg::WHICH, 0), (reg::MAX_LEN, 100), (reg::HEADERS_LEN, 16)];
    headers.extend((0..4).map(|n| (reg::BYTES + 4 * n, 0xAAAA_AAAA)));
    headers.push((reg::PATCHES, patch(reg::patch::LENGTH, 14, 5)));
    assert_eq!(command(&mut encap, &headers, command::SET_HEADERS), status::OK);
    assert_eq!(insert(&mut encap, last), status::OK);
    encap
}

fn insert(encap: &mut Encap, last: u32) -> u32 {
    let key = [(reg::NETWORK, 3), (reg::KEY, last), (reg::KEY + 4, 0x0200), (reg::PLACE, 0)];
    command(encap, &key, command::INSERT)
}

fn tagged(network: u16, packet: &[u8]) -> Vec<u8> {
    let mut header = encap_tag::header(MacAddress([2; 6]), network);
    encap_tag::set_packet_len(&mut header, packet.len() as u16);
    [&header[..], packet].concat()
}

/// A frame to a station, of so many bytes.
fn frame(last: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, last]);
    frame
}

fn counts(encap: &Encap) -> Vec<u64> {
    encap.counters().map(|(_, count)| count).collect()
}

fn rules(encap: &Encap) -> Vec<&'static str> {
    encap.findings().into_iter().map(|broken| broken.rule).collect()
}

#[test]
fn a_packet_gets_the_headers_of_its_entry_and_all_else_passes_or_comes_back() {
    let mut encap = filled(8, 7);
    let packet = frame(7, 60);
    let mut expected = [&TUNNEL[..], &packet].concat();
    expected[14..16].copy_from_slice(&[0, 65]);
    let mut padded = tagged(3, &packet);
    padded.extend([9; 20]);
    assert_eq!(encap.transmit(&padded), Some(&expected[..]), "padding is not the packet's");
    assert_eq!(encap.transmit(&packet), Some(&packet[..]), "what has no tag is as it was");
    let back = [
        (tagged(3, &frame(8, 60)), reason::KEY),
        (tagged(3, &frame(7, 101)), reason::LONG),
        (tagged(3, &[2; 5]), reason::SHORT),
        (tagged(4, &packet), reason::NETWORK),
    ];
    for (mut frame, reason) in back {
        assert_eq!(encap.transmit(&frame), None);
        encap_tag::set_reason(&mut frame, reason);
        assert_eq!(encap.given_back(), Some(frame));
    }
    let short = tagged(3, &packet);
    assert_eq!(encap.transmit(&short[..81]), None);
    assert!(encap.given_back().is_none());
    assert_eq!(counts(&encap), [1, 4, 0, 0, 1, 0]);
    assert_eq!(rules(&encap), [Rule::TagMalformed.name()]);
    assert!(!encap.admits(&tagged(3, &packet)) && encap.admits(&packet));
    assert_eq!(counts(&encap)[counter::FOREIGN], 1, "the cable sends no tags");
}

#[test]
fn unknown_packets_are_dropped_where_the_driver_wants_it_and_few_wait() {
    let mut encap = filled(8, 7);
    let unknown = tagged(3, &frame(8, 60));
    (0..MOST_WAITING + 3).for_each(|_| assert_eq!(encap.transmit(&unknown), None));
    assert_eq!(counts(&encap)[..4], [0, MOST_WAITING as u64, 0, 3]);
    let mode = [(reg::NETWORK, 3), (reg::EXTRACTOR, 48 << 16), (reg::MODE, reg::mode::DROP)];
    assert_eq!(command(&mut encap, &mode, command::SET_NETWORK), status::OK);
    assert_eq!(encap.transmit(&unknown), None);
    assert_eq!(counts(&encap)[counter::UNKNOWN], 1);
    assert_eq!(encap.read(reg::USED), 1, "its identifiers are the same");
    let other = [(reg::EXTRACTOR, 47 << 16)];
    assert_eq!(command(&mut encap, &other, command::SET_NETWORK), status::OK);
    assert_eq!(encap.read(reg::USED), 0, "entries are for the identifiers before");
}

#[test]
fn a_full_table_says_so_replaces_and_has_room_again() {
    let mut encap = filled(2, 7);
    assert_eq!((insert(&mut encap, 8), insert(&mut encap, 9)), (status::OK, status::FULL));
    assert_eq!(insert(&mut encap, 7), status::OK, "it is there already");
    assert_eq!((encap.read(reg::USED), encap.read(reg::ENTRIES)), (2, 2));
    let key = [(reg::KEY, 7)];
    assert_eq!(command(&mut encap, &key, command::REMOVE), status::OK);
    assert_eq!(command(&mut encap, &key, command::REMOVE), status::MISSING);
    assert_eq!(insert(&mut encap, 9), status::OK);
    let generation = encap.read(reg::GENERATION);
    encap.reset();
    assert_eq!((encap.read(reg::USED), encap.read(reg::GENERATION)), (0, generation + 1));
    assert_eq!(insert(&mut encap, 9), status::MISSING, "its network is gone");
    assert!(rules(&encap).is_empty());
}

#[test]
fn what_makes_no_sense_is_refused_and_told() {
    type Written<'a> = &'a [(u32, u32)];
    let wrong: [(Written<'_>, u32, Rule); 10] = [
        (&[], 77, Rule::UnknownCommand),
        (&[(reg::NETWORK, 256)], command::INSERT, Rule::NetworkOutside),
        (&[(reg::EXTRACTOR, 129 << 16)], command::SET_NETWORK, Rule::IdentifierTooLong),
        (&[(reg::EXTRACTOR, 0), (reg::MODE, 3)], command::SET_NETWORK, Rule::UnknownMode),
        (&[(reg::PLACE, 8)], command::SET_HEADERS, Rule::PlaceOutside),
        (&[(reg::WHICH, 2)], command::SET_HEADERS, Rule::PlaceOutside),
        (&[(reg::HEADERS_LEN, 129)], command::SET_HEADERS, Rule::HeadersLength),
        (&[(reg::PATCHES, patch(reg::patch::LABEL, 13, 0))], command::SET_HEADERS, Rule::PatchOutside),
        (&[(reg::KEY + 4, 1 << 16)], command::INSERT, Rule::KeyTooLong),
        (&[(reg::PLACE, 1)], command::INSERT, Rule::EntryWithoutHeaders),
    ];
    for (arguments, number, rule) in wrong {
        let mut encap = filled(8, 7);
        assert_eq!(command(&mut encap, arguments, number), status::INVALID, "{rule:?}");
        assert_eq!(rules(&encap), [rule.name()]);
        assert!(encap.transmit(&tagged(3, &frame(7, 60))).is_some(), "{rule:?}: nothing is different");
    }
    let mut encap = filled(8, 7);
    encap.write(reg::USED, 5);
    encap.write(0x800, 5);
    encap.odd(reg::USED, 2);
    let found = [Rule::ReadOnlyWritten, Rule::NoRegister, Rule::OddAccess].map(|rule| rule.name());
    assert_eq!((rules(&encap), encap.read(0x800)), (found.to_vec(), 0));
}

proptest! {
    /// Whatever is written and sent: no panic, and every frame is counted once.
    #[test]
    fn a_hostile_driver_gets_nowhere(
        acts in prop::collection::vec((0u32..0x210, prop_oneof![any::<u32>(), 0u32..0x200], 0u32..8), 0..60),
        frames in prop::collection::vec((0u16..5, prop::collection::vec(any::<u8>(), 0..80), 0usize..110), 1..20),
    ) {
        let mut encap = filled(4, 7);
        for (offset, value, number) in acts {
            encap.write(offset & !3, value);
            encap.write(reg::COMMAND, number);
        }
        let before: u64 = counts(&encap).iter().sum();
        let (mut tags, all) = (0, frames.len() as u64);
        for (network, packet, cut) in frames {
            let whole = tagged(network, &packet);
            let frame = &whole[..cut.min(whole.len())];
            tags += u64::from(encap_tag::is_tagged(frame));
            let _ = encap.transmit(frame);
        }
        prop_assert!(tags <= all);
        prop_assert_eq!(counts(&encap).iter().sum::<u64>() - before, tags);
    }
}
