//! Packets byte by byte, with checksums computed by other programs.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::ip::{Addresses, Protocol};
use wire::{Error, MacAddress, arp, ipv4, ipv6, tcp, udp};

const V4: Addresses = Addresses::V4 { src: Ipv4Addr::new(192, 0, 2, 1), dst: Ipv4Addr::new(198, 51, 100, 2) };
const V6: Addresses = Addresses::V6 {
    src: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    dst: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
};

/// A datagram of 115 bytes to 192.168.0.199 whose checksum is well known.
const IPV4: [u8; 20] = [
    0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0,
    0xa8, 0x00, 0xc7,
];

#[test]
fn ipv4() {
    let bytes = [&IPV4[..], &[0; 100]].concat();
    let packet = ipv4::Packet::new_checked(&bytes).expect("valid");
    let repr = ipv4::Repr::parse(&packet).expect("valid");
    assert_eq!((repr.src, repr.dst), (Ipv4Addr::new(192, 168, 0, 1), Ipv4Addr::new(192, 168, 0, 199)));
    assert_eq!((repr.protocol, repr.ttl, repr.payload_len), (Protocol::UDP, 64, 95));
    assert_eq!((repr.dont_fragment, repr.more_fragments, repr.fragment_offset), (true, false, 0));

    let with = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        ipv4::Packet::new_checked(bytes)
    };
    assert_eq!(with(0, 0x65), Err(Error::Malformed));
    assert_eq!(with(0, 0x44), Err(Error::Malformed));
    assert_eq!(with(2, 0xFF), Err(Error::Truncated));
    assert_eq!(with(3, 19), Err(Error::Malformed));
    assert_eq!(ipv4::Repr::parse(&with(8, 63).expect("checked")), Err(Error::Checksum));
    let fragment = with(6, 0x20).map(|packet| (packet.is_fragment(), packet.more_fragments()));
    assert_eq!(fragment, Ok((true, true)));
    assert_eq!(with(7, 3).map(|packet| (packet.is_fragment(), packet.fragment_offset())), Ok((true, 24)));
}

#[test]
fn an_ipv4_packet_is_not_forwarded_for_ever() {
    let mut packet = ipv4::Packet::new_unchecked(IPV4);
    packet.set_ttl(1);
    packet.fill_checksum();
    let before = packet;
    assert!(!packet.header_mut().decrement_ttl());
    assert_eq!(packet, before);
}

#[test]
fn arp() {
    let bytes = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2, 0xEE];
    let packet = arp::Packet::new_checked(&bytes[..]).expect("valid");
    let request = arp::Repr::parse(&packet).expect("valid");
    assert_eq!(request.operation, arp::Operation::REQUEST);
    assert_eq!(
        (request.sender_ip, request.target_ip),
        (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
    );
    let mac = MacAddress([2, 0, 0, 0, 0, 2]);
    let reply = request.reply(mac);
    assert_eq!((reply.sender_mac, reply.target_mac), (mac, MacAddress([2, 0, 0, 0, 0, 1])));
    assert_eq!((reply.sender_ip, reply.target_ip), (request.target_ip, request.sender_ip));
    assert_eq!(reply.operation, arp::Operation::REPLY);

    assert_eq!(arp::Packet::new_checked(&bytes[..27]), Err(Error::Truncated));
    let mut token_ring = bytes;
    token_ring[1] = 6;
    assert_eq!(arp::Packet::new_checked(token_ring), Err(Error::Unsupported));
}

#[test]
fn udp() {
    for (addresses, checksum) in [(V4, [0x33, 0x55]), (V6, [0xC4, 0x17])] {
        let bytes = [&[0, 53, 0x9C, 0x40, 0, 13], &checksum[..], b"hello", b"padding"].concat();
        let datagram = udp::Datagram::new_checked(&bytes).expect("valid");
        assert!(datagram.verify_checksum(addresses));
        assert_eq!(
            (datagram.src_port(), datagram.dst_port(), datagram.payload()),
            (53, 40000, &b"hello"[..])
        );
    }
    let none = udp::Datagram::new_checked([0, 53, 0x9C, 0x40, 0, 8, 0, 0]).expect("valid");
    assert!(none.verify_checksum(V4) && !none.verify_checksum(V6));
    assert_eq!(udp::Datagram::new_checked([0, 53, 0x9C, 0x40, 0, 7, 0, 0]), Err(Error::Malformed));
    assert_eq!(udp::Datagram::new_checked([0, 53, 0x9C, 0x40, 0, 9, 0, 0]), Err(Error::Truncated));
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_its_other_form() {
    // The one word of payload that makes the sum come out as zero.
    let mut datagram = udp::Datagram::new_unchecked([0; 10]);
    udp::Repr { src_port: 1, dst_port: 2, payload_len: 2 }.emit(&mut datagram);
    datagram.fill_checksum(V4);
    let missing = datagram.checksum();
    datagram.payload_mut().copy_from_slice(&missing.to_be_bytes());
    datagram.fill_checksum(V4);
    assert_eq!(datagram.checksum(), 0xFFFF);
    assert!(datagram.verify_checksum(V4));
}

#[test]
fn tcp() {
    let bytes = [
        0x01, 0xBB, 0xC3, 0x50, 1, 2, 3, 4, 5, 6, 7, 8, 0xA0, 0x12, 0xFF, 0xFF, 0x0E, 0x88, 0, 0, 2, 4, 5,
        0xB4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 7, 1, 3, 3, 7, b'x',
    ];
    let segment = tcp::Segment::new_checked(&bytes[..]).expect("valid");
    assert!(segment.verify_checksum(V4));
    assert_eq!(segment.payload(), b"x");
    let expected = tcp::Repr {
        src_port: 443,
        dst_port: 50000,
        sequence: 0x01020304,
        acknowledgement: 0x05060708,
        flags: tcp::Flags::SYN | tcp::Flags::ACK,
        window: 0xFFFF,
        urgent: 0,
        max_segment: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some((9, 7)),
    };
    assert_eq!(tcp::Repr::parse(&segment), Ok(expected));
    assert!(segment.flags().contains(tcp::Flags::SYN) && !segment.flags().contains(tcp::Flags::FIN));
    assert_eq!(tcp::Segment::new_checked(&bytes[..39]), Err(Error::Truncated));
    let mut short = bytes;
    short[12] = 0x40;
    assert_eq!(tcp::Segment::new_checked(short), Err(Error::Malformed));
}

#[test]
fn ipv6_extension_headers() {
    let walk = |first, payload: &[u8]| ipv6::upper_layer(Protocol(first), payload);
    // Hop-by-hop of 16 bytes, an authentication header of 12, a first fragment, UDP.
    let mut chain = vec![0; 16 + 12 + 8];
    chain[..2].copy_from_slice(&[51, 1]);
    chain[16..18].copy_from_slice(&[44, 1]);
    chain[28..36].copy_from_slice(&[17, 0, 0, 1, 0xDE, 0xAD, 0xBE, 0xEF]);
    let fragment = Some(ipv6::Fragment { offset: 0, more: true, identification: 0xDEADBEEF });
    let expected = ipv6::UpperLayer { protocol: Protocol::UDP, offset: 36, fragment };
    assert_eq!(walk(0, &chain), Ok(expected));

    // Behind a later fragment's header is no header, whatever it claims to be.
    let later = walk(44, &[60, 0, 0, 8, 0, 0, 0, 1]).expect("valid");
    assert_eq!((later.protocol, later.offset), (Protocol(60), 8));
    assert_eq!(later.fragment.map(|fragment| fragment.offset), Some(8));

    // What a fragment is a part of stands behind its header, options for the destination included.
    let fragment = ipv6::Fragment { offset: 0x1230, more: true, identification: 0xDEADBEEF };
    let header = [60, 0, 0x12, 0x31, 0xDE, 0xAD, 0xBE, 0xEF];
    assert_eq!(fragment.header(Protocol(60)), header);
    let front = [&[44, 0, 0, 0, 0, 0, 0, 0][..], &header].concat();
    let part = ipv6::Part { fragment, protocol: Protocol(60), offset: 16 };
    assert_eq!(ipv6::part(Protocol(43), &front), Some(part));
    assert_eq!(ipv6::part(Protocol(43), &front[..15]), None);
    assert_eq!(ipv6::part(Protocol(17), &front), None);
    // One that says that it is a whole packet does not undo one in front of it.
    let nested = walk(44, &[44, 0, 0, 1, 0, 0, 0, 7, 6, 0, 0, 0, 0, 0, 0, 9]).expect("valid");
    assert_eq!(nested.fragment.map(|it| (it.more, it.identification)), Some((true, 7)));

    assert_eq!(walk(6, &[]).map(|upper| upper.offset), Ok(0));
    assert_eq!(walk(60, &[6]), Err(Error::Truncated));
    assert_eq!(walk(60, &[6, 1, 0, 0, 0, 0, 0, 0]), Err(Error::Truncated));

    // As many as are followed, and one more.
    let chain = |n: usize| {
        let mut chain = [60, 0, 0, 0, 0, 0, 0, 0].repeat(n);
        chain[(n - 1) * 8] = 6;
        chain
    };
    let expected = ipv6::UpperLayer { protocol: Protocol::TCP, offset: 64, fragment: None };
    assert_eq!(walk(60, &chain(ipv6::MAX_EXTENSIONS)), Ok(expected));
    assert_eq!(walk(60, &chain(ipv6::MAX_EXTENSIONS + 1)), Err(Error::Unsupported));
}

#[test]
fn ipv6() {
    let mut bytes = [0; 44];
    bytes[..8].copy_from_slice(&[0x6A, 0xB1, 0x23, 0x45, 0, 3, 58, 255]);
    bytes[8] = 0xFE;
    bytes[39] = 1;
    let packet = ipv6::Packet::new_checked(&bytes[..]).expect("valid");
    assert_eq!((packet.traffic_class(), packet.flow_label()), (0xAB, 0x12345));
    assert_eq!((packet.next_header(), packet.hop_limit()), (Protocol::ICMPV6, 255));
    assert_eq!((packet.src().segments()[0], packet.dst().segments()[7]), (0xFE00, 1));
    assert_eq!(packet.payload().len(), 3);
    assert_eq!(ipv6::Packet::new_checked(&bytes[..42]), Err(Error::Truncated));
    bytes[0] = 0x4A;
    assert_eq!(ipv6::Packet::new_checked(&bytes[..]), Err(Error::Malformed));
}
