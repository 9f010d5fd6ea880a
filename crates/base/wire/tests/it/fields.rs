//! Every field by itself: read from bytes that all differ, and written without a change
//! to its neighbours; the least lengths, and what cannot be seen in a round trip.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::ethernet::EtherType;
use wire::ip::{Addresses, Protocol};
use wire::tcp_option::TcpOption;
use wire::{
    Error, Flow, MacAddress, Toeplitz, arp, checksum, ethernet, icmpv4, icmpv6, ipv4, ipv6, tcp, udp, vlan,
};

const V4: Addresses = Addresses::V4 { src: Ipv4Addr::new(192, 0, 2, 1), dst: Ipv4Addr::new(198, 51, 100, 2) };

/// Bytes that all differ, from 0x10 on.
fn bytes<const N: usize>() -> [u8; N] {
    std::array::from_fn(|n| 0x10 + n as u8)
}

/// The places where bytes are no longer what they were.
fn changed(bytes: &[u8]) -> Vec<usize> {
    (0..bytes.len()).filter(|&n| bytes[n] != 0x10 + n as u8).collect()
}

#[test]
fn ethernet_and_vlan() {
    let mut frame = ethernet::Frame::new_checked(bytes::<16>()).expect("long enough");
    assert_eq!(frame.payload(), [0x1E, 0x1F]);
    frame.payload_mut()[1] = 0xFF;
    assert_eq!(changed(frame.as_ref()), [15]);
    assert_eq!(frame.payload_mut().len(), 2);
    assert!(ethernet::Frame::new_checked([0; 14]).is_ok_and(|frame| frame.payload().is_empty()));
    assert_eq!(ethernet::Frame::new_checked([0; 13]), Err(Error::Truncated));
    let repr = ethernet::Repr { dst: MacAddress([1; 6]), src: MacAddress([2; 6]), ethertype: EtherType(3) };
    assert_eq!(repr.header_len(), 14);
    for (kind, tag) in [(EtherType::VLAN, true), (EtherType::SERVICE_VLAN, true), (EtherType::IPV4, false)] {
        assert_eq!(kind.is_tag(), tag);
    }

    let mut tag = vlan::Tag::new_checked(bytes::<6>()).expect("long enough");
    assert_eq!(
        (tag.control(), tag.ethertype(), tag.payload()),
        (0x1011, EtherType(0x1213), &[0x14, 0x15][..])
    );
    tag.payload_mut()[0] = 0xFF;
    assert_eq!((changed(tag.as_ref()), tag.payload_mut().len()), (vec![4], 2));
    assert!(vlan::Tag::new_checked([0; 4]).is_ok());
    let repr = vlan::Repr { priority: 0xFF, drop_eligible: false, id: 0xFABC, ethertype: EtherType(0) };
    assert_eq!((repr.control(), repr.header_len()), (0xEABC, 4), "what is too large is cut");
    let repr = vlan::Repr { priority: 0, drop_eligible: true, id: 0, ethertype: EtherType(0) };
    assert_eq!(repr.control(), 0x1000);
    for (control, fields) in [(0xE000, (7, false, 0)), (0x1000, (0, true, 0)), (0x0FFF, (0, false, 0xFFF))] {
        tag.set_control(control);
        assert_eq!((tag.priority(), tag.drop_eligible(), tag.id()), fields);
    }
}

#[test]
fn arp_is_never_empty() {
    let repr = arp::Repr {
        operation: arp::Operation::REQUEST,
        sender_mac: MacAddress([1; 6]),
        sender_ip: Ipv4Addr::new(1, 2, 3, 4),
        target_mac: MacAddress([2; 6]),
        target_ip: Ipv4Addr::new(5, 6, 7, 8),
    };
    assert_eq!((repr.len(), repr.is_empty()), (28, false));
    let mut packet = arp::Packet::new_unchecked([0; 28]);
    repr.emit(&mut packet);
    assert_eq!(arp::Packet::new_checked(packet.into_inner()).map(|packet| packet.operation().0), Ok(1));
}

#[test]
fn ipv4_fields() {
    let mut packet = ipv4::Packet::new_unchecked(bytes::<32>());
    packet.set_header_len(24);
    packet.set_total_len(28);
    assert_eq!(packet.check(), Ok(()));
    assert_eq!((packet.header_len(), packet.total_len(), packet.as_ref()[0]), (24, 28, 0x46));
    assert_eq!((packet.traffic_class(), packet.identification()), (0x11, 0x1415));
    assert_eq!((packet.ttl(), packet.protocol(), packet.checksum()), (0x18, Protocol(0x19), 0x1A1B));
    assert_eq!(packet.src(), Ipv4Addr::new(0x1C, 0x1D, 0x1E, 0x1F));
    assert_eq!(packet.dst(), Ipv4Addr::new(0x20, 0x21, 0x22, 0x23));
    assert_eq!(packet.addresses(), Addresses::V4 { src: packet.src(), dst: packet.dst() });
    assert_eq!(
        (packet.options(), packet.payload()),
        (&[0x24, 0x25, 0x26, 0x27][..], &[0x28, 0x29, 0x2A, 0x2B][..])
    );
    packet.payload_mut().fill(0xFF);
    packet.set_traffic_class(0xFE);
    packet.set_identification(0xFDFC);
    packet.set_ttl(0xFB);
    packet.set_protocol(Protocol(0xFA));
    packet.set_checksum(0xF9F8);
    assert_eq!(changed(packet.as_ref()), [0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 24, 25, 26, 27]);
    packet.set_src(Ipv4Addr::new(1, 2, 3, 4));
    packet.set_dst(Ipv4Addr::new(5, 6, 7, 8));
    assert_eq!(packet.as_ref()[12..20], [1, 2, 3, 4, 5, 6, 7, 8]);
    for (dont, more, offset, word) in [
        (true, false, 0, 0x4000),
        (false, true, 0, 0x2000),
        (false, false, 0xFFF8, 0x1FFF),
        (false, false, 0, 0),
    ] {
        packet.header_mut().set_fragment(dont, more, offset);
        assert_eq!(packet.as_ref()[6..8], u16::to_be_bytes(word));
        let read = (packet.dont_fragment(), packet.more_fragments(), packet.fragment_offset());
        assert_eq!(read, (dont, more, offset));
        assert_eq!(packet.is_fragment(), more || offset != 0);
    }
}

#[test]
fn an_ipv4_packet_may_be_its_header() {
    let mut packet = ipv4::Packet::new_unchecked([0; 60]);
    for header in [20, 24, 60] {
        packet.set_header_len(header);
        packet.set_total_len(header as u16);
        assert_eq!((packet.check(), packet.payload().len()), (Ok(()), 0));
        packet.set_total_len(header as u16 - 1);
        assert_eq!(packet.check(), Err(Error::Malformed));
        let bytes = packet.into_inner();
        packet = ipv4::Packet::new_unchecked(bytes);
    }
    packet.set_header_len(20);
    packet.set_total_len(20);
    let bytes = packet.into_inner();
    assert!(ipv4::Packet::new_checked(&bytes[..20]).is_ok());
    assert_eq!(ipv4::Packet::new_checked(&bytes[..19]), Err(Error::Truncated));
    // The last hop that may be taken, and the checksum that goes with it.
    let mut packet = ipv4::Packet::new_unchecked(bytes);
    packet.set_ttl(2);
    packet.set_protocol(Protocol::UDP);
    packet.fill_checksum();
    assert!(packet.verify_checksum() && packet.header_mut().decrement_ttl() && packet.verify_checksum());
    assert_eq!((packet.ttl(), packet.protocol()), (1, Protocol::UDP));
    for ttl in [0, 1] {
        packet.set_ttl(ttl);
        assert!(!packet.header_mut().decrement_ttl());
        assert_eq!(packet.ttl(), ttl);
    }
}

#[test]
fn ipv6_fields() {
    let mut packet = ipv6::Packet::new_unchecked(bytes::<48>());
    packet.set_version(0xAB, 0xFFF1_2345);
    packet.set_payload_len(6);
    assert_eq!((packet.check(), &packet.as_ref()[..6]), (Ok(()), &[0x6A, 0xB1, 0x23, 0x45, 0, 6][..]));
    assert_eq!((packet.traffic_class(), packet.flow_label(), packet.payload_len()), (0xAB, 0x1_2345, 6));
    assert_eq!((packet.next_header(), packet.hop_limit()), (Protocol(0x16), 0x17));
    assert_eq!(packet.src().octets(), <[u8; 16]>::try_from(&bytes::<48>()[8..24]).expect("sixteen"));
    assert_eq!(packet.dst().octets(), <[u8; 16]>::try_from(&bytes::<48>()[24..40]).expect("sixteen"));
    assert_eq!(packet.payload(), &bytes::<48>()[40..46]);
    packet.payload_mut().fill(0xFF);
    packet.set_next_header(Protocol(0xFE));
    packet.set_hop_limit(0xFD);
    assert_eq!(changed(packet.as_ref()), [0, 1, 2, 3, 4, 5, 6, 7, 40, 41, 42, 43, 44, 45]);
    packet.set_src(Ipv6Addr::LOCALHOST);
    packet.set_dst(Ipv6Addr::UNSPECIFIED);
    assert_eq!(packet.addresses(), Addresses::V6 { src: Ipv6Addr::LOCALHOST, dst: Ipv6Addr::UNSPECIFIED });
    packet.set_payload_len(0);
    let bytes = packet.into_inner();
    assert!(ipv6::Packet::new_checked(&bytes[..40]).is_ok());
    assert_eq!(ipv6::Packet::new_checked(&bytes[..39]), Err(Error::Truncated));
}

#[test]
fn extension_headers_may_end_the_packet() {
    let walk = |first, payload: &[u8]| {
        ipv6::upper_layer(Protocol(first), payload).map(|upper| (upper.protocol.0, upper.offset))
    };
    // Each kind, with nothing behind it: lengths count in eights, that of AH in fours.
    for kind in [0, 43, 60, 135, 139, 140] {
        assert_eq!(walk(kind, &[59, 0, 0, 0, 0, 0, 0, 0]), Ok((59, 8)), "{kind}");
        assert_eq!(walk(kind, &[59, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Ok((59, 16)), "{kind}");
    }
    assert_eq!(walk(51, &[59, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Ok((59, 12)));
    assert_eq!(walk(51, &[59, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Err(Error::Truncated));
    // A fragment header has no length.
    let fragment = |bytes: &[u8]| ipv6::upper_layer(Protocol(44), bytes).map(|upper| upper.fragment);
    let read = fragment(&[59, 255, 0xFF, 0xFF, 1, 2, 3, 4]).expect("whole").expect("a fragment");
    assert_eq!((read.offset, read.more, read.identification), (0xFFF8, true, 0x0102_0304));
    let read = fragment(&[59, 0, 0, 6, 0, 0, 0, 0]).expect("whole").expect("a fragment");
    assert_eq!((read.offset, read.more), (0, false), "reserved bits say nothing");
    assert_eq!(fragment(&[59, 0, 0, 0, 0, 0, 0]), Err(Error::Truncated));
}

#[test]
fn udp_fields() {
    let mut datagram = udp::Datagram::new_unchecked(bytes::<12>());
    datagram.set_total_len(10);
    assert_eq!(datagram.check(), Ok(()));
    assert_eq!((datagram.src_port(), datagram.dst_port(), datagram.checksum()), (0x1011, 0x1213, 0x1617));
    assert_eq!(datagram.payload(), [0x18, 0x19]);
    assert_eq!(datagram.payload_mut().len(), 2);
    datagram.payload_mut().fill(0xFF);
    datagram.set_src_port(0xFFFE);
    datagram.set_dst_port(0xFDFC);
    assert_eq!(changed(datagram.as_ref()), [0, 1, 2, 3, 4, 5, 8, 9]);
    datagram.fill_pseudo_checksum(V4);
    assert_eq!(datagram.checksum(), V4.pseudo_header(Protocol::UDP, 10));
    datagram.set_total_len(8);
    let bytes = datagram.into_inner();
    assert!(udp::Datagram::new_checked(&bytes[..8]).is_ok_and(|datagram| datagram.payload().is_empty()));
    assert_eq!(udp::Datagram::new_checked(&bytes[..7]), Err(Error::Truncated));
    assert_eq!(udp::Repr { src_port: 1, dst_port: 2, payload_len: 3 }.header_len(), 8);
}

#[test]
fn tcp_fields() {
    let mut segment = tcp::Segment::new_unchecked(bytes::<28>());
    segment.set_header_len(24);
    assert_eq!((segment.check(), segment.header_len()), (Ok(()), 24));
    assert_eq!((segment.src_port(), segment.dst_port()), (0x1011, 0x1213));
    assert_eq!((segment.sequence(), segment.acknowledgement()), (0x1415_1617, 0x1819_1A1B));
    assert_eq!((segment.flags(), segment.window()), (tcp::Flags(0x1D), 0x1E1F));
    assert_eq!((segment.checksum(), segment.urgent()), (0x2021, 0x2223));
    assert_eq!(segment.payload(), [0x28, 0x29, 0x2A, 0x2B]);
    segment.payload_mut().fill(0xFF);
    segment.options_mut().fill(0xFE);
    segment.set_window(0xFDFC);
    segment.set_urgent(0xFBFA);
    assert_eq!(changed(segment.as_ref()), [12, 14, 15, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27]);
    segment.fill_pseudo_checksum(V4);
    assert_eq!(segment.checksum(), V4.pseudo_header(Protocol::TCP, 28));
    segment.set_header_len(28);
    assert_eq!((segment.check(), segment.payload().len()), (Ok(()), 0), "options to its end");
    segment.set_header_len(32);
    assert_eq!(segment.check(), Err(Error::Truncated));
    segment.set_header_len(20);
    let bytes = segment.into_inner();
    assert!(tcp::Segment::new_checked(&bytes[..20]).is_ok());
    assert_eq!(tcp::Segment::new_checked(&bytes[..19]), Err(Error::Truncated));
    // Said twice is said once.
    let both = tcp::Flags::SYN | tcp::Flags::ACK;
    assert_eq!((both, both | tcp::Flags::ACK), (tcp::Flags(18), tcp::Flags(18)));
    assert!(both.contains(tcp::Flags::ACK) && both.contains(both) && !tcp::Flags::ACK.contains(both));
}

#[test]
fn tcp_options_have_the_length_they_say() {
    let options = [
        (TcpOption::MaxSegment(1460), 4, &[2, 4, 5, 0xB4][..]),
        (TcpOption::WindowScale(7), 3, &[3, 3, 7]),
        (TcpOption::SackPermitted, 2, &[4, 2]),
        (TcpOption::Sack(&[1, 2, 3, 4, 5, 6, 7, 8]), 10, &[5, 10, 1, 2, 3, 4, 5, 6, 7, 8]),
        (TcpOption::Timestamps { value: 1, echo: 2 }, 10, &[8, 10, 0, 0, 0, 1, 0, 0, 0, 2]),
        (TcpOption::Unknown { kind: 254, data: &[9] }, 3, &[254, 3, 9]),
    ];
    for (option, len, written) in options {
        let mut bytes = [0xEE; 12];
        assert_eq!(option.len(), len);
        assert_eq!(option.emit(&mut bytes).len(), 12 - len, "what is left");
        assert_eq!(&bytes[..len], written);
        assert!(bytes[len..].iter().all(|&byte| byte == 0xEE));
        let mut read = wire::tcp_option::Options::new(written);
        assert_eq!((read.next(), read.next()), (Some(Ok(option)), None));
    }
    // RFC 7323, section 2.3: a shift of more than 14 counts as 14.
    let mut segment = tcp::Segment::new_unchecked([0; 24]);
    tcp::Repr { window_scale: Some(15), ..tcp::Repr::default() }.emit(&mut segment);
    assert_eq!(tcp::Repr::parse(&segment).map(|repr| repr.window_scale), Ok(Some(14)));
    assert_eq!(tcp::Repr { window_scale: Some(15), ..tcp::Repr::default() }.header_len(), 24);
}

#[test]
fn icmp_fields() {
    let mut packet = icmpv4::Packet::new_checked(bytes::<10>()).expect("long enough");
    assert_eq!((packet.message_type(), packet.code(), packet.checksum()), (0x10, 0x11, 0x1213));
    assert_eq!((packet.identifier(), packet.sequence()), (0x1415, 0x1617));
    packet.data_mut().fill(0xFF);
    packet.set_code(0xFE);
    assert_eq!((changed(packet.as_ref()), packet.data_mut().len()), (vec![1, 8, 9], 2));
    assert!(icmpv4::Packet::new_checked([0; 8]).is_ok());
    assert_eq!(icmpv4::Packet::new_checked([0; 7]), Err(Error::Truncated));
    let repr = icmpv4::Repr { reply: true, identifier: 1, sequence: 2, data: &[3; 5] };
    assert_eq!((repr.len(), repr.is_empty()), (13, false));

    let mut packet = icmpv6::Packet::new_checked(bytes::<10>()).expect("long enough");
    assert_eq!((packet.message_type(), packet.code(), packet.checksum()), (0x10, 0x11, 0x1213));
    assert_eq!((packet.identifier(), packet.sequence()), (0x1415, 0x1617));
    packet.data_mut().fill(0xFF);
    packet.set_code(0xFE);
    assert_eq!((changed(packet.as_ref()), packet.data_mut().len()), (vec![1, 8, 9], 2));
    assert!(icmpv6::Packet::new_checked([0; 8]).is_ok());
    assert_eq!(icmpv6::Packet::new_checked([0; 7]), Err(Error::Truncated));
    let repr = icmpv6::Repr { reply: true, identifier: 1, sequence: 2, data: &[3; 5] };
    assert_eq!((repr.len(), repr.is_empty()), (13, false));
    // An echo's code is 0; with another it is no echo, whatever was there before.
    for code in [0, 1] {
        let mut echo = icmpv4::Packet::new_unchecked([0xFF; 8]);
        icmpv4::Repr { reply: false, identifier: 1, sequence: 2, data: &[] }.emit(&mut echo);
        assert_eq!(echo.code(), 0);
        echo.set_code(code);
        assert_eq!(icmpv4::Repr::parse(&echo).is_ok(), code == 0);
        let mut echo = icmpv6::Packet::new_unchecked([0xFF; 8]);
        icmpv6::Repr { reply: false, identifier: 1, sequence: 2, data: &[] }.emit(&mut echo);
        assert_eq!(echo.code(), 0);
        echo.set_code(code);
        assert_eq!(icmpv6::Repr::parse(&echo).is_ok(), code == 0);
    }
}

#[test]
fn a_datagram_without_payload_has_ports_and_half_a_header_is_an_error() {
    let frame = |len: usize| {
        let mut frame = vec![0; 14 + 20 + len];
        frame[12..14].copy_from_slice(&[8, 0]);
        let mut packet = ipv4::Packet::new_unchecked(&mut frame[14..]);
        packet.set_header_len(20);
        packet.set_total_len(20 + len as u16);
        packet.set_protocol(Protocol::UDP);
        frame[34..].fill(1);
        Flow::of(&frame).map(|flow| (flow.ports, flow.l4_len, flow.payload_range().len()))
    };
    assert_eq!(frame(8), Ok((Some((0x0101, 0x0101)), 8, 0)));
    assert_eq!(frame(7), Err(Error::Truncated));
}

#[test]
fn an_ipv6_fragment_is_one_unless_it_is_all() {
    let is_fragment = |offset_and_more: u16| {
        let mut frame = vec![0; 14 + 40 + 8 + 8];
        frame[12..14].copy_from_slice(&[0x86, 0xDD]);
        let mut packet = ipv6::Packet::new_unchecked(&mut frame[14..]);
        packet.set_version(0, 0);
        packet.set_payload_len(16);
        packet.set_next_header(Protocol(44));
        packet.payload_mut()[0] = 17;
        packet.payload_mut()[2..4].copy_from_slice(&offset_and_more.to_be_bytes());
        Flow::of(&frame).expect("valid").fragment
    };
    assert_eq!([0, 1, 8, 9].map(is_fragment), [false, true, true, true]);
}

#[test]
fn what_is_shown_says_what_it_is() {
    let texts = [
        (Error::Truncated, "the bytes end before the packet does"),
        (Error::Malformed, "a length or version field contradicts the format"),
        (Error::Unsupported, "the packet is well formed, but of a kind this crate does not read"),
        (Error::Checksum, "the header's checksum is wrong"),
    ];
    texts.iter().for_each(|(error, text)| assert_eq!(error.to_string(), *text));
    let error = "no".parse::<MacAddress>().expect_err("no address");
    assert!(error.to_string().contains("\"no\" is no Ethernet address"), "{error}");
    assert_eq!(format!("{:?}", Toeplitz::new(&[0; 40])), "Toeplitz { .. }");
    assert_eq!("02-00-5e-10-00-ff".parse(), Ok(MacAddress([2, 0, 0x5E, 0x10, 0, 0xFF])));
    for (first, multicast) in [(0, false), (1, true), (2, false), (0xFE, false), (0xFF, true)] {
        assert_eq!(MacAddress([first, 1, 1, 1, 1, 1]).is_multicast(), multicast, "{first}");
    }
}

#[test]
fn checksums_are_the_rfcs_at_their_edges() {
    assert_eq!((checksum::sum(&[]), checksum::of(&[])), (0, 0xFFFF));
    assert_eq!((checksum::sum(&[0xFF; 64]), checksum::combine(0xFFFF, 1)), (0xFFFF, 1));
    assert_eq!(checksum::combine(0xFFFF, 0xFFFF), 0xFFFF);
    // RFC 1624, section 4: a field of 0x5555 becomes 0x3285.
    assert_eq!(checksum::update(0xDD2F, 0x5555, 0x3285), 0x0000);
    // Both halves of a long word, each by itself.
    for (from, to) in [(0x0001_0000, 0x0002_0000), (0x0000_0001, 0x0000_0002), (0x1234_5678, 0x8765_4321)] {
        let old = checksum::of(&[&u32::to_be_bytes(from)[..], &[1, 1]].concat());
        let new = checksum::of(&[&u32::to_be_bytes(to)[..], &[1, 1]].concat());
        assert_eq!(checksum::update_u32(old, from, to), new);
    }
    // Pseudo headers, summed by hand.
    let by_hand = |bytes: &[u8]| checksum::sum(bytes);
    let (src, dst) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 2));
    let header = [&src.octets()[..], &dst.octets(), &[0, 17], &[0x12, 0x34]].concat();
    assert_eq!(checksum::pseudo_header_v4(src, dst, 17, 0x1234), by_hand(&header));
    let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 1, 0xFF00, 9));
    let header = [&src.octets()[..], &dst.octets(), &[0, 1, 0, 2], &[0, 0, 0, 58]].concat();
    assert_eq!(checksum::pseudo_header_v6(src, dst, 58, 0x1_0002), by_hand(&header));
}

#[test]
fn a_tag_goes_behind_the_addresses_or_nowhere() {
    let frame: Vec<u8> = (0..16).collect();
    let mut bytes = [&[0xEE; 4][..], &frame].concat();
    assert!(wire::vlan::insert(&mut bytes, 0x2007));
    assert_eq!(bytes, [&frame[..12], &[0x81, 0, 0x20, 7], &frame[12..]].concat());
    let mut shortest = [0xEE; 16];
    assert!(wire::vlan::insert(&mut shortest, 1));
    let mut short = [0xEE; 15];
    assert!(!wire::vlan::insert(&mut short, 1));
    assert_eq!(short, [0xEE; 15]);
}
