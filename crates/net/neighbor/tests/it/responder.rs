//! What a host answers: requests for its addresses and pings, and nothing else.

use memory::{Backing, Dma, Pool};
use neighbor::{Address, Responder, arp, nd};
use proptest::prelude::*;
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::arp::{Operation, Repr};
use wire::ip::{Addresses, Protocol};
use wire::{MacAddress, icmpv6, ipv4, ipv6, ndp};

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
const ASKER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OWN: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 2);
const OWN_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0xA, 2);
const ASKER_V6: Ipv6Addr = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 1);

thread_local! {
    static POOL: RefCell<Pool> = {
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        RefCell::new(Pool::new(&dma, 4).unwrap())
    };
}

/// The answer to a frame; `None`, and the frame is as it was, when there is none.
fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let host = Responder { mac: MAC, addresses: vec![IpAddr::V4(OWN), IpAddr::V6(OWN_V6)] };
    POOL.with_borrow_mut(|pool| {
        let mut packet = pool.alloc().unwrap();
        packet.copy_from(frame).unwrap();
        let is_answered = host.answer(&mut packet);
        let after = packet.to_vec();
        pool.free(packet);
        if !is_answered {
            assert_eq!(after, frame, "no answer, but the frame was changed");
        }
        is_answered.then_some(after)
    })
}

/// Who has 10.9.9.2? Tell 10.9.9.1. Padded to the least frame.
fn request() -> Vec<u8> {
    let mut bytes = [&[0xFF; 6][..], &ASKER, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    bytes.extend([&ASKER[..], &[10, 9, 9, 1], &[0; 6], &[10, 9, 9, 2]].concat());
    bytes.resize(60, 0);
    bytes
}

/// A ping with four bytes of data.
fn ping() -> Vec<u8> {
    let ip = [0x45, 0, 0, 32, 0, 1, 0x40, 0, 9, 1, 0x4B, 0xC8, 10, 9, 9, 1, 10, 9, 9, 2];
    let icmp = [8, 0, 0x5C, 0x6A, 0x12, 0x34, 0, 7, 0x61, 0x62, 0x27, 0xF8];
    let mut bytes = [&MAC.0[..], &ASKER, &[8, 0], &ip, &icmp].concat();
    bytes.resize(60, 0);
    bytes
}

/// A frame with an ICMPv6 message.
fn frame_v6(dst_mac: [u8; 6], hop_limit: u8, src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> Vec<u8> {
    let mut bytes = [&dst_mac[..], &ASKER, &[0x86, 0xDD], &[0; 40], message].concat();
    let (header, message) = bytes[14..].split_first_chunk_mut().unwrap();
    let len = message.len() as u16;
    let addresses = ipv6::Header::new(header).fill(src, dst, Protocol::ICMPV6, len, hop_limit);
    if message.len() >= icmpv6::HEADER_LEN {
        icmpv6::Packet::new_unchecked(message).fill_checksum(addresses);
    }
    bytes
}

fn ping_v6() -> Vec<u8> {
    frame_v6(MAC.0, 5, ASKER_V6, OWN_V6, &[128, 0, 0, 0, 0x12, 0x34, 0, 7, 1, 2, 3])
}

/// A solicitation for our address, with options.
fn solicitation(src: Ipv6Addr, dst: Ipv6Addr, options: &[u8]) -> Vec<u8> {
    let message = [&[135, 0, 0, 0, 0, 0, 0, 0], &OWN_V6.octets()[..], options].concat();
    frame_v6([0x33, 0x33, 0xFF, 0x0A, 0, 2], 255, src, dst, &message)
}

fn group() -> Ipv6Addr {
    ndp::solicited_group(OWN_V6)
}

#[test]
fn who_asks_for_the_address_is_told() {
    let bytes = answer(&request()).unwrap();
    assert_eq!(bytes[..6], ASKER);
    assert_eq!(bytes[6..22], [&MAC.0[..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]].concat());
    assert_eq!(bytes[22..32], [&MAC.0[..], &[10, 9, 9, 2]].concat());
    assert_eq!(bytes[32..42], [&ASKER[..], &[10, 9, 9, 1]].concat());
    assert_eq!(bytes.len(), 60);
}

#[test]
fn who_checks_whether_the_address_is_taken_is_told() {
    let mut probe = request();
    probe[28..32].fill(0); // RFC 5227, section 2.1.1: from 0.0.0.0
    assert_eq!(answer(&probe).unwrap()[38..42], [0; 4]);
}

#[test]
fn a_ping_gets_its_answer() {
    let bytes = answer(&ping()).unwrap();
    assert_eq!(bytes[..12], [ASKER, MAC.0].concat());
    assert_eq!(bytes[22], 64, "as many hops as any");
    assert_eq!(bytes[26..34], [10, 9, 9, 2, 10, 9, 9, 1]);
    assert_eq!(bytes[34..38], [0, 0, 0x64, 0x6A], "a reply, and its checksum");
    assert_eq!(bytes[38..46], ping()[38..46], "identifier, sequence and data come back");
    assert!(ipv4::Packet::new_checked(&bytes[14..]).unwrap().verify_checksum());
}

#[test]
fn a_ping_over_ipv6_gets_its_answer() {
    let bytes = answer(&ping_v6()).unwrap();
    assert_eq!(bytes[..12], [ASKER, MAC.0].concat());
    let packet = ipv6::Packet::new_checked(&bytes[14..]).unwrap();
    assert_eq!((packet.src(), packet.dst(), packet.hop_limit()), (OWN_V6, ASKER_V6, 64));
    let message = icmpv6::Packet::new_checked(packet.payload()).unwrap();
    assert!(message.verify_checksum(Addresses::V6 { src: OWN_V6, dst: ASKER_V6 }));
    assert_eq!((message.message_type(), message.data()), (129, &[1, 2, 3][..]));
}

#[test]
fn who_solicits_the_address_is_told() {
    let source = [1, 1, 2, 0, 0, 0, 0, 1];
    for (dst, options) in [(group(), &source[..]), (OWN_V6, &[])] {
        let bytes = answer(&solicitation(ASKER_V6, dst, options)).unwrap();
        assert_eq!((&bytes[..6], &bytes[6..12]), (&ASKER[..], &MAC.0[..]));
        let told = nd::advertisement(&bytes).unwrap();
        assert_eq!((told.target, told.mac), (OWN_V6, MAC));
        assert_eq!(bytes[58], ndp::SOLICITED | ndp::OVERRIDE, "no router");
    }
    // Whoever has no address yet: all are told.
    let bytes = answer(&solicitation(Ipv6Addr::UNSPECIFIED, group(), &[])).unwrap();
    assert_eq!(bytes[..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!((bytes[58], nd::advertisement(&bytes).unwrap().mac), (ndp::OVERRIDE, MAC));
}

#[test]
fn solicitations_that_are_not_valid_get_no_answer() {
    let source = [1, 1, 2, 0, 0, 0, 0, 1];
    let nobody = Ipv6Addr::UNSPECIFIED;
    let elsewhere = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 9);
    let message = |kind: u8, code: u8, target: Ipv6Addr| {
        [&[kind, code, 0, 0, 0, 0, 0, 0], &target.octets()[..]].concat()
    };
    let with_hops = |hops| frame_v6(MAC.0, hops, ASKER_V6, OWN_V6, &message(135, 0, OWN_V6));
    assert!(answer(&with_hops(255)).is_some());
    let mut sum = solicitation(ASKER_V6, group(), &source);
    sum[57] ^= 1;
    let mut from_all = solicitation(ASKER_V6, group(), &source);
    from_all[6..12].fill(0xFF);
    let wrong = [
        ("forwarded", with_hops(254)),
        ("checksum", sum),
        ("code", frame_v6(MAC.0, 255, ASKER_V6, OWN_V6, &message(135, 1, OWN_V6))),
        ("another's", frame_v6(MAC.0, 255, ASKER_V6, OWN_V6, &message(135, 0, elsewhere))),
        ("advertisement", frame_v6(MAC.0, 255, ASKER_V6, OWN_V6, &message(136, 0, OWN_V6))),
        ("short", frame_v6(MAC.0, 255, ASKER_V6, OWN_V6, &message(135, 0, OWN_V6)[..23])),
        ("to nobody's group", solicitation(ASKER_V6, ndp::ALL_NODES, &source)),
        ("from a group", solicitation(ndp::ALL_NODES, group(), &source)),
        ("from the Ethernet address of all", from_all),
        ("option without length", solicitation(ASKER_V6, group(), &[1, 0, 2, 0, 0, 0, 0, 1])),
        ("option cut short", solicitation(ASKER_V6, group(), &source[..7])),
        ("no source, with its address", solicitation(nobody, group(), &source)),
        ("no source, not to the group", solicitation(nobody, OWN_V6, &[])),
    ];
    for (what, frame) in wrong {
        assert_eq!(answer(&frame), None, "{what}");
    }
}

#[test]
fn advertisements_that_are_not_valid_tell_nothing() {
    let asked = nd::solicitation(&solicitation(ASKER_V6, group(), &[])).unwrap();
    let told = asked.advertise(MAC, false);
    let asked_of_nobody = nd::Solicitation { target: Ipv6Addr::UNSPECIFIED, ..asked };
    assert_eq!(Ipv6Addr::answer(&told), Some((OWN_V6, MAC)));
    let message = |flags: u8, option: [u8; 8]| {
        [&[136, 0, 0, 0, flags, 0, 0, 0], &OWN_V6.octets()[..], &option].concat()
    };
    let (named, group) = ([2, 1, 2, 0, 0, 0, 0, 9], [2, 1, 3, 0, 0, 0, 0, 9]);
    let frame = |dst, message: &[u8]| frame_v6(MAC.0, 255, OWN_V6, dst, message);
    assert!(Ipv6Addr::answer(&frame(ndp::ALL_NODES, &message(ndp::OVERRIDE, named))).is_some());
    let wrong = [
        frame(ndp::ALL_NODES, &message(ndp::SOLICITED, named)),
        frame(ASKER_V6, &message(ndp::SOLICITED, group)),
        frame(ASKER_V6, &message(ndp::SOLICITED, [2, 0, 2, 0, 0, 0, 0, 9])),
        frame(ASKER_V6, &message(ndp::SOLICITED, [1, 1, 2, 0, 0, 0, 0, 9])),
        frame_v6(MAC.0, 64, OWN_V6, ASKER_V6, &message(ndp::SOLICITED, named)),
        asked_of_nobody.advertise(MAC, false).to_vec(),
    ];
    assert!(wrong.iter().all(|frame| Ipv6Addr::answer(frame).is_none()));
}

/// Where the sender of a request is: what nobody could send from there, or what is not for this host
/// itself or all, says nothing.
#[test]
fn a_request_says_where_its_sender_is() {
    let (host, asker) = (Ipv4Addr::new(10, 9, 9, 1), MacAddress(ASKER));
    let says = |sender_mac, sender_ip, dst, src: MacAddress| {
        let (operation, target_mac, target_ip) = (Operation::REQUEST, MacAddress::default(), OWN);
        let mut frame = arp::frame(&Repr { operation, sender_mac, sender_ip, target_mac, target_ip }, dst);
        frame[6..12].copy_from_slice(&src.0);
        Ipv4Addr::asker(&frame, MAC)
    };
    let all = MacAddress::BROADCAST;
    assert_eq!(says(asker, host, all, asker), Some((host, asker)));
    assert_eq!(says(asker, host, MAC, asker), Some((host, asker)));
    let (other, group) = (MacAddress([2, 0, 0, 0, 0, 7]), MacAddress([3, 0, 0, 0, 0, 7]));
    let wrong = [
        ("a probe", says(asker, Ipv4Addr::UNSPECIFIED, all, asker)),
        ("no address", says(MacAddress::default(), host, all, MacAddress::default())),
        ("a group's address", says(group, host, all, group)),
        ("our own address", says(MAC, host, all, MAC)),
        ("from elsewhere", says(asker, host, all, other)),
        ("to another host", says(asker, host, other, asker)),
        ("to a group", says(asker, host, group, asker)),
    ];
    wrong.iter().for_each(|(what, told)| assert_eq!(*told, None, "{what}"));
}

/// The same of a neighbour solicitation, in which an option says it.
#[test]
fn a_solicitation_says_where_its_sender_is() {
    let asker = MacAddress(ASKER);
    let option = |mac: [u8; 6]| [&[1, 1], &mac[..]].concat();
    let from = |src, options: &[u8]| Ipv6Addr::asker(&solicitation(src, group(), options), MAC);
    assert_eq!(from(ASKER_V6, &option(ASKER)), Some((ASKER_V6, asker)));
    let nonce = [14, 1, 1, 2, 3, 4, 5, 6];
    assert_eq!(from(ASKER_V6, &[option(ASKER), nonce.into()].concat()), Some((ASKER_V6, asker)));
    let message = [&[135, 0, 0, 0, 0, 0, 0, 0], &OWN_V6.octets()[..], &option(ASKER)].concat();
    let to = |mac| Ipv6Addr::asker(&frame_v6(mac, 255, ASKER_V6, OWN_V6, &message), MAC);
    assert_eq!(to(MAC.0), Some((ASKER_V6, asker)));
    let wrong = [
        ("no address yet", from(Ipv6Addr::UNSPECIFIED, &[])),
        ("no option", from(ASKER_V6, &nonce)),
        ("no Ethernet address", from(ASKER_V6, &option([0; 6]))),
        ("a group's address", from(ASKER_V6, &option([3, 0, 0, 0, 0, 7]))),
        ("our own address", from(ASKER_V6, &option(MAC.0))),
        ("to another host", to([2, 0, 0, 0, 0, 7])),
    ];
    wrong.iter().for_each(|(what, told)| assert_eq!(*told, None, "{what}"));
}

/// Who says to have a group's address would get what is for the group.
#[test]
fn an_arp_reply_is_about_one_host() {
    let says = |sender_ip: Ipv4Addr| {
        let (operation, sender_mac) = (Operation::REPLY, MAC);
        let reply = Repr { operation, sender_mac, sender_ip, target_mac: MAC, target_ip: sender_ip };
        Ipv4Addr::answer(&arp::frame(&reply, MAC))
    };
    let host = Ipv4Addr::new(10, 0, 0, 9);
    assert_eq!(says(host), Some((host, MAC)));
    for ip in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 1)] {
        assert_eq!(says(ip), None, "{ip}");
    }
}

#[test]
fn what_is_no_question_to_us_stays_as_it_is() {
    // What to change in the request and in the ping, byte by byte.
    let requests = [(6, 3), (12, 0), (14, 9), (21, 2), (41, 3)];
    let pings = [
        (5, 1),
        (6, 3),
        (14, 0x46),
        (20, 0x20),
        (23, 17),
        (24, 0),
        (26, 224),
        (33, 3),
        (34, 0),
        (35, 1),
        (36, 0),
    ];
    let changed = |from: Vec<u8>, (at, value): (usize, u8)| {
        let mut bytes = from;
        assert_ne!(bytes[at], value, "no change at {at}");
        bytes[at] = value;
        let ethertype = [bytes[12], bytes[13]];
        // A wrong checksum must not be what hides a missing check.
        let mut mend = |at: usize, range: std::ops::Range<usize>| {
            bytes[at..at + 2].fill(0);
            let sum = wire::checksum::of(&bytes[range]);
            bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        };
        match at {
            14..34 if at != 24 && ethertype == [8, 0] => mend(24, 14..34),
            34..36 if ethertype == [8, 0] => mend(36, 34..46),
            _ => {}
        }
        bytes
    };
    let requests = requests.map(|change| changed(request(), change));
    let pings = pings.map(|change| changed(ping(), change));
    for frame in requests.into_iter().chain(pings) {
        assert_eq!(answer(&frame), None, "{frame:02x?}");
    }
    let echo = [128, 0, 0, 0, 0x12, 0x34, 0, 7];
    let wrong = [
        frame_v6(ASKER, 64, ASKER_V6, OWN_V6, &echo),
        frame_v6(MAC.0, 64, ndp::ALL_NODES, OWN_V6, &echo),
        frame_v6(MAC.0, 64, Ipv6Addr::UNSPECIFIED, OWN_V6, &echo),
        frame_v6(MAC.0, 64, ASKER_V6, ndp::ALL_NODES, &echo),
        frame_v6(MAC.0, 64, ASKER_V6, ASKER_V6, &echo),
        frame_v6(MAC.0, 64, ASKER_V6, OWN_V6, &[129, 0, 0, 0, 0x12, 0x34, 0, 7]),
        frame_v6(MAC.0, 64, ASKER_V6, OWN_V6, &[128, 1, 0, 0, 0x12, 0x34, 0, 7]),
    ];
    wrong.iter().for_each(|frame| assert_eq!(answer(frame), None, "{frame:02x?}"));
}

#[test]
fn options_are_not_answered() {
    let mut bytes = ping();
    let header = [0x46, 0, 0, 36, 0, 1, 0x40, 0, 9, 1, 0x48, 0xC2];
    bytes[14..26].copy_from_slice(&header);
    bytes.splice(34..34, [1; 4]); // four times: no operation
    assert!(ipv4::Packet::new_checked(&bytes[14..]).unwrap().verify_checksum());
    assert_eq!(answer(&bytes), None);
}

#[test]
fn frames_cut_short_are_no_questions() {
    let solicitation = solicitation(ASKER_V6, group(), &[]);
    for (whole, needed) in [(request(), 42), (ping(), 46), (ping_v6(), 65), (solicitation, 78)] {
        for len in 0..needed {
            assert_eq!(answer(&whole[..len]), None, "{len}");
        }
    }
}

proptest! {
    #[test]
    fn whatever_comes_an_answer_is_from_us_to_who_asked(
        which in 0..4usize,
        changes in prop::collection::vec((0..100usize, any::<u8>()), 0..4),
        cut in 0..120usize,
        noise: Vec<u8>,
    ) {
        let mut frame = match which {
            0 => request(),
            1 => ping(),
            2 => ping_v6(),
            _ => solicitation(ASKER_V6, group(), &[1, 1, 2, 0, 0, 0, 0, 1]),
        };
        for (at, byte) in changes {
            let at = at % frame.len();
            frame[at] = byte;
        }
        frame.truncate(cut);
        for frame in [frame, noise] {
            let learned = (Ipv4Addr::answer(&frame), Ipv6Addr::answer(&frame));
            prop_assert!(learned.0.is_none_or(|(_, mac)| !mac.is_multicast()));
            prop_assert!(learned.1.is_none_or(|(_, mac)| !mac.is_multicast()));
            if let Some(bytes) = answer(&frame) {
                prop_assert_eq!(&bytes[6..12], &MAC.0[..]);
                prop_assert!(bytes[..6] == frame[6..12] || bytes[..6] == [0x33, 0x33, 0, 0, 0, 1]);
                prop_assert_eq!(&bytes[12..14], &frame[12..14]);
                prop_assert!(bytes.len() <= frame.len().max(nd::FRAME_LEN));
                prop_assert_eq!(answer(&bytes), None, "an answer is no request");
            }
        }
    }
}
