//! What senders of packets that are too long for their tunnel are told.

use std::time::Duration;

use overlay::{Encapsulator, Layer, Network, Sent, Unknown};
use port::Reason;
use wire::ip::Protocol as IpProtocol;
use wire::{ethernet, icmpv4, icmpv6, ipv4, ipv6};

use crate::rig::{Buffers, NETWORK, encapsulate, frame, port, table, tunnel};

fn sender(protocol: &str, layer: Layer) -> Encapsulator {
    let mut here = table();
    here.add_network(NETWORK, Network::point_to_point(layer)).unwrap();
    here.insert(NETWORK, 0, tunnel(protocol, false)).unwrap();
    let sender = here.encapsulator();
    here.publish();
    sender
}

/// A packet of this many bytes that must not be fragmented.
fn long_v4(len: usize) -> Vec<u8> {
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let repr = ipv4::Repr::between(src, dst, IpProtocol::UDP, len - 20);
    let mut packet = ipv4::Packet::new_unchecked(vec![7; len]);
    ipv4::Repr { dont_fragment: true, ..repr }.emit(&mut packet);
    packet.into_inner()
}

fn long_v6(len: usize) -> Vec<u8> {
    let mut bytes = vec![7; len];
    let (src, dst) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
    let (next_header, payload_len) = (IpProtocol::UDP, len - 40);
    let repr =
        ipv6::Repr { src, dst, next_header, hop_limit: 9, traffic_class: 0, flow_label: 5, payload_len };
    repr.emit(&mut ipv6::Packet::new_unchecked(&mut bytes[..]));
    bytes
}

/// The answer to a packet, if there is one.
fn answer(sender: &mut Encapsulator, bytes: &[u8], now: Duration) -> Option<Vec<u8>> {
    let mut packet = Buffers::new().packet(bytes);
    assert_eq!(encapsulate(sender, &mut packet), Sent::Drop(Reason::OverlayTooLong));
    let is_answered = sender.answer(NETWORK, &mut packet, now);
    assert!(is_answered || packet[..] == *bytes, "as it was");
    is_answered.then(|| packet.to_vec())
}

/// RFC 1191, section 4; RFC 792.
#[test]
fn fragmentation_needed() {
    let mut sender = sender("ipip", Layer::Ip);
    let longest = usize::from(port().mtu) - 20;
    let bytes = long_v4(longest + 1);
    let answer = answer(&mut sender, &bytes, Duration::ZERO).unwrap();
    let ip = ipv4::Packet::new_checked(&answer[..]).unwrap();
    assert!(ip.verify_checksum());
    assert_eq!((ip.src(), ip.dst()), ([10, 0, 0, 2].into(), [10, 0, 0, 1].into()));
    assert_eq!((ip.protocol(), ip.total_len(), answer.len()), (IpProtocol::ICMP, 576, 576));
    assert_eq!(&answer[20..22], &[icmpv4::UNREACHABLE, icmpv4::NEEDS_FRAGMENTS]);
    assert_eq!(answer[24..28], [&[0, 0][..], &(longest as u16).to_be_bytes()].concat());
    assert_eq!(wire::checksum::of(&answer[20..]), 0);
    assert_eq!(answer[28..], bytes[..576 - 28]);
}

/// RFC 4443, section 3.2; RFC 8201.
#[test]
fn packet_too_big() {
    let mut sender = sender("ipip", Layer::Ip);
    let bytes = long_v6(1581);
    let answer = answer(&mut sender, &bytes, Duration::ZERO).unwrap();
    let ip = ipv6::Packet::new_checked(&answer[..]).unwrap();
    assert_eq!((ip.src(), ip.dst()), ("fd00::2".parse().unwrap(), "fd00::1".parse().unwrap()));
    assert_eq!((ip.next_header(), answer.len()), (IpProtocol::ICMPV6, 1280));
    let icmp = icmpv6::Packet::new_unchecked(&answer[40..]);
    assert!(icmp.verify_checksum(ip.addresses()));
    assert_eq!((icmp.message_type(), icmp.code()), (icmpv6::TOO_BIG, 0));
    assert_eq!(answer[44..48], 1580u32.to_be_bytes());
    assert_eq!(answer[48..], bytes[..1280 - 48]);
}

/// In a network of frames the answer goes back by the frame's source and tags.
#[test]
fn frames_are_answered() {
    let mut sender = sender("vxlan", Layer::Ethernet);
    let tagged = [&[0, 9, 8, 0][..], &long_v4(1600)].concat();
    let bytes = frame(1, 0x8100, &tagged);
    let answer = answer(&mut sender, &bytes, Duration::ZERO).unwrap();
    assert_eq!(answer[..18], [&bytes[6..12], &bytes[..6], &bytes[12..18]].concat());
    let ip = ipv4::Packet::new_checked(&answer[18..]).unwrap();
    assert!(ip.verify_checksum());
    // Outer IP, UDP and VXLAN, the inner Ethernet header and its tag.
    let mtu = usize::from(port().mtu) - 20 - 8 - 8 - ethernet::HEADER_LEN - 4;
    assert_eq!(answer[44..46], (mtu as u16).to_be_bytes());
    assert_eq!(answer[46..], tagged[4..4 + 576 - 28]);
}

/// Where nothing is known of a destination each far end's tunnel has its own longest packet.
#[test]
fn a_place_of_the_flood_list_is_answered_for() {
    let mut here = table();
    here.add_network(NETWORK, Network { unknown: Unknown::Flood, ..Network::bridged() }).unwrap();
    let [short, long] = [tunnel("geneve", true), tunnel("gretap", false)];
    here.set_flood(NETWORK, &[short, long]).unwrap();
    let mut sender = here.encapsulator();
    here.publish();
    let bytes = frame(1, 0x0800, &long_v4(1550));
    let mut mtu = |place| {
        let mut packet = Buffers::new().packet(&bytes);
        assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Flood);
        if sender.flood(NETWORK, place, &mut packet) != Sent::Drop(Reason::OverlayTooLong) {
            return None;
        }
        assert!(sender.answer_flood(NETWORK, place, &mut packet, Duration::ZERO));
        Some(u16::from_be_bytes([packet[40], packet[41]]))
    };
    // Outer IPv6, UDP and Geneve, and the inner Ethernet header.
    assert_eq!((mtu(0), mtu(1)), (Some(port().mtu - 40 - 8 - 8 - 14), None));
    let mut packet = Buffers::new().packet(&bytes);
    assert!(!sender.answer_flood(NETWORK, 1, &mut packet, Duration::ZERO), "it is not too long there");
    assert!(!sender.answer_flood(NETWORK, 2, &mut packet, Duration::ZERO), "no such place");
    assert!(packet[..] == bytes, "as it was");
}

/// RFC 1122, section 3.2.2; RFC 4443, section 2.4.
#[test]
fn those_who_are_not_told() {
    let mut sender = sender("vxlan", Layer::Ethernet);
    let mut silent = |what: &str, change: &dyn Fn(&mut Vec<u8>), packet: Vec<u8>, ethertype| {
        let mut bytes = frame(0, ethertype, &packet);
        change(&mut bytes);
        assert_eq!(answer(&mut sender, &bytes, Duration::ZERO), None, "{what}");
    };
    silent("may be fragmented", &|bytes| bytes[20] = 0, long_v4(1600), 0x0800);
    silent("a later fragment", &|bytes| bytes[21] = 1, long_v4(1600), 0x0800);
    silent("to a group", &|bytes| bytes[0] = 3, long_v4(1600), 0x0800);
    silent("to a group of hosts", &|bytes| bytes[30] = 224, long_v4(1600), 0x0800);
    silent("from nobody", &|bytes| bytes[26..30].fill(0), long_v4(1600), 0x0800);
    silent("an error", &|bytes| (bytes[23], bytes[34]) = (1, 3), long_v4(1600), 0x0800);
    silent("to a group of hosts", &|bytes| bytes[38] = 0xFF, long_v6(1600), 0x86DD);
    silent("an error", &|bytes| (bytes[20], bytes[54]) = (58, 1), long_v6(1600), 0x86DD);
    silent("no IP", &|_| {}, long_v4(1600), 0x1234);
    assert_eq!(sender.answers().sent, 0);
    let echo = |bytes: &mut Vec<u8>| (bytes[23], bytes[34]) = (1, 8);
    let mut bytes = frame(0, 0x0800, &long_v4(1600));
    echo(&mut bytes);
    assert!(answer(&mut sender, &bytes, Duration::ZERO).is_some(), "a question is answered");
}

#[test]
fn no_more_than_a_thousand_in_a_second() {
    let mut sender = sender("ipip", Layer::Ip);
    let bytes = long_v4(1600);
    let mut made = |now| (0..200).filter(|_| answer(&mut sender, &bytes, now).is_some()).count();
    let at = Duration::from_millis;
    assert_eq!((made(at(0)), made(at(0)), made(at(10)), made(at(1000))), (64, 0, 10, 64));
    assert_eq!(sender.answers(), overlay::Answers { sent: 138, limited: 662 });
}
