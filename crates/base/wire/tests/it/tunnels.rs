//! Tunnels' headers: bytes as the standards draw them, fields that leave their neighbours
//! alone, and bytes from anyone.

use std::net::Ipv6Addr;

use proptest::prelude::*;
use wire::Error;
use wire::ethernet::EtherType;
use wire::ip::Protocol;
use wire::tunnel::{geneve, gre, gtpu, lisp, mpls, nsh, srv6, vxlan};

#[test]
fn vxlan_and_its_extension() {
    assert_eq!(vxlan::header(0x12_3456).into_inner(), [0x08, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
    let gpe = vxlan::gpe_header(0x12_3456, vxlan::next_protocol::NSH).into_inner();
    assert_eq!(gpe, [0x0C, 0, 0, 4, 0x12, 0x34, 0x56, 0]);
    let mut header = vxlan::Header::new([0xFF; 8]);
    assert_eq!((header.flags(), header.next_protocol(), header.vni()), (0xFF, 0xFF, 0xFF_FFFF));
    header.set_vni(0xAB00_0001);
    assert_eq!(header.into_inner(), [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 1, 0xFF], "24 bits, and no more");
    assert_eq!((vxlan::PORT, vxlan::GPE_PORT), (4789, 4790));
}

#[test]
fn gre_with_its_words() {
    let repr = gre::Repr {
        protocol: EtherType::TRANSPARENT_BRIDGING,
        checksum: true,
        key: Some(0x0102_0304),
        sequence: Some(7),
    };
    let mut bytes = [0xEE; 18];
    let mut packet = gre::Packet::new_unchecked(&mut bytes);
    repr.emit(&mut packet);
    packet.fill_checksum();
    assert_eq!(repr.header_len(), 16);
    // 0xB000, 0x6558, 0x0102, 0x0304, 7 and 0xEEEE add up to 0x1_084D + ...: by hand.
    let sum = [0xB000u32, 0x6558, 0x0102, 0x0304, 7, 0xEEEE].iter().sum::<u32>();
    let checksum = (!((sum & 0xFFFF) + (sum >> 16)) as u16).to_be_bytes();
    let expected = [0xB0, 0, 0x65, 0x58, checksum[0], checksum[1], 0, 0, 1, 2, 3, 4, 0, 0, 0, 7, 0xEE, 0xEE];
    assert_eq!(bytes, expected);
    let mut packet = gre::Packet::new_checked(bytes).unwrap();
    assert_eq!(gre::Repr::parse(&packet), Ok(repr));
    assert!(packet.verify_checksum());
    assert_eq!((packet.header_len(), packet.payload()), (16, &[0xEE; 2][..]));
    packet.set_sequence(8);
    assert!(!packet.verify_checksum());
    packet.fill_checksum();
    assert!(packet.verify_checksum());

    let plain = gre::Repr { protocol: EtherType::IPV4, checksum: false, key: None, sequence: None };
    let sequence = gre::Repr { sequence: Some(0x0A0B_0C0D), ..plain };
    for (repr, expected) in [(plain, &[0, 0, 8, 0][..]), (sequence, &[0x10, 0, 8, 0, 0x0A, 0x0B, 0x0C, 0x0D])]
    {
        let mut bytes = vec![0xEE; repr.header_len()];
        repr.emit(&mut gre::Packet::new_unchecked(&mut bytes));
        assert_eq!(bytes, expected);
        let packet = gre::Packet::new_checked(&bytes).unwrap();
        assert_eq!(gre::Repr::parse(&packet), Ok(repr));
        assert!(packet.verify_checksum(), "there is none");
    }
    for flags in [0x01, 0x07] {
        assert_eq!(gre::Packet::new_checked([0, flags, 8, 0]), Err(Error::Unsupported), "version {flags}");
    }
    for flags in [0x40, 0x08, 0x04] {
        assert_eq!(
            gre::Packet::new_checked([flags, 0, 8, 0]),
            Err(Error::Unsupported),
            "RFC 1701's {flags:x}"
        );
    }
    assert!(gre::Packet::new_checked([0x03, 0xF8, 8, 0]).is_ok(), "reserved bits are ignored");
    assert_eq!(gre::Packet::new_checked([0x20, 0, 8, 0, 1, 2, 3]), Err(Error::Truncated));
    assert_eq!((gre::nvgre_key(0x12_3456, 0x78), gre::nvgre_network(0x1234_5678)), (0x1234_5678, 0x12_3456));
}

#[test]
fn geneve_and_its_options() {
    let header = geneve::header(0x12_3456, EtherType::TRANSPARENT_BRIDGING).into_inner();
    assert_eq!(header, [0, 0, 0x65, 0x58, 0x12, 0x34, 0x56, 0]);
    let bytes = [
        0x04, 0x40, 0x65, 0x58, 0, 0, 9, 0, // 16 bytes of options
        0x01, 0x02, 0x80, 0xE1, 1, 2, 3, 4, // one of four bytes, which is critical
        0x01, 0x03, 0x05, 0x00, 0xFF, 0xFF, 0x12, 0x01, 9, 9, 9, 9, // ends behind the options
    ];
    assert_eq!(geneve::Packet::new_checked(bytes), Err(Error::Malformed));
    let mut whole = bytes;
    whole[0] = 0x03;
    let packet = geneve::Packet::new_checked(whole).unwrap();
    let options: Vec<geneve::GeneveOption<'_>> = packet.options().collect();
    let first = geneve::GeneveOption { class: 0x0102, option_type: 0x80, data: &[1, 2, 3, 4] };
    let second = geneve::GeneveOption { class: 0x0103, option_type: 5, data: &[] };
    assert_eq!(options, [first, second]);
    assert!(first.is_critical() && !second.is_critical());
    assert_eq!((packet.vni(), packet.flags(), packet.header_len()), (9, geneve::flag::CRITICAL, 20));
    assert_eq!(packet.payload(), &whole[20..]);
    assert_eq!(geneve::Packet::new_checked([0x40, 0, 0, 0, 0, 0, 0, 0]), Err(Error::Unsupported));
    assert_eq!(geneve::Packet::new_checked([1, 0, 0, 0, 0, 0, 0, 0]), Err(Error::Truncated));
    let mut header = geneve::Header::new([0xFF; 8]);
    header.set_options_len(252);
    assert_eq!((header.version(), header.options_len()), (0, 252));
}

#[test]
fn service_headers() {
    let bytes = nsh::type_1(0x00_2A2B, 255, nsh::next_protocol::ETHERNET);
    assert_eq!(bytes[..8], [0x0F, 0xC6, 1, 3, 0, 0x2A, 0x2B, 255]);
    assert_eq!(bytes[8..], [0; 16]);
    let mut packet = nsh::Packet::new_checked([&bytes[..], &[1, 2]].concat()).unwrap();
    assert_eq!((packet.ttl(), packet.service_path(), packet.service_index()), (63, 0x2A2B, 255));
    assert_eq!((packet.metadata().len(), packet.payload()), (16, &[1, 2][..]));
    packet.set_ttl(0);
    assert_eq!((packet.ttl(), packet.header_len(), packet.is_oam()), (0, 24, false));
    for (first, md_type, expected) in [
        ([0x40, 0xC6], 1, Err(Error::Unsupported)),
        ([0x0F, 0xC5], 1, Err(Error::Malformed)),
        ([0x0F, 0xC1], 2, Err(Error::Malformed)),
        ([0x0F, 0xC7], 2, Err(Error::Truncated)),
        ([0x0F, 0xC6], 3, Err(Error::Unsupported)),
        ([0x0F, 0xC2], 2, Ok(8)),
        ([0x2F, 0xC6], 1, Ok(24)),
    ] {
        let mut bytes = bytes;
        bytes[..2].copy_from_slice(&first);
        bytes[2] = md_type;
        let header_len = nsh::Packet::new_checked(bytes).map(|packet| packet.header_len());
        assert_eq!(header_len, expected, "{first:x?} {md_type}");
    }
}

#[test]
fn user_packets_of_mobile_networks() {
    assert_eq!(gtpu::header(0x0102_0304).into_inner(), [0x30, 255, 0, 0, 1, 2, 3, 4]);
    let mut bytes = gtpu::with_qos_flow(0x0102_0304, 0, 9).to_vec();
    assert_eq!(bytes, [0x34, 255, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0x85, 1, 0, 9, 0]);
    bytes[3] = 8 + 2;
    bytes.extend([0xAA, 0xBB, 0xCC]);
    let packet = gtpu::Packet::new_checked(&bytes).unwrap();
    assert_eq!((packet.teid(), packet.qos_flow(), packet.header_len()), (0x0102_0304, Some(9), 16));
    assert_eq!(packet.payload(), [0xAA, 0xBB], "what is behind the length is padding");

    let message = |first: u8, rest: &[u8]| [&[first, 255, 0, rest.len() as u8, 0, 0, 0, 1], rest].concat();
    let header_len = |bytes: Vec<u8>| gtpu::Packet::new_checked(bytes).map(|packet| packet.header_len());
    assert_eq!(header_len(message(0x30, &[1, 2])), Ok(8));
    assert_eq!(header_len(message(0x32, &[0, 7, 0, 0x85, 1])), Ok(12), "the type means nothing without E");
    assert_eq!(
        header_len(message(0x34, &[0, 0, 0, 0x40, 1, 0, 0, 0])),
        Ok(16),
        "who does not know it skips it"
    );
    assert_eq!(header_len(message(0x34, &[0, 0, 0, 0xC0, 1, 0, 0, 0])), Err(Error::Unsupported));
    assert_eq!(header_len(message(0x34, &[0, 0, 0, 0x81, 1, 0, 0, 0])), Err(Error::Unsupported));
    assert_eq!(
        header_len(message(0x34, &[0, 0, 0, 0x40, 0, 0, 0, 0])),
        Err(Error::Malformed),
        "it has no end"
    );
    assert_eq!(header_len(message(0x34, &[0, 0, 0, 0x40, 2, 0, 0, 0])), Err(Error::Malformed), "cut");
    assert_eq!(header_len(message(0x34, &[0, 0, 0])), Err(Error::Malformed));
    assert_eq!(header_len(message(0x20, &[])), Err(Error::Unsupported), "GTP', for charging");
    assert_eq!(header_len(message(0x50, &[])), Err(Error::Unsupported), "version 2");
    assert_eq!(header_len(vec![0x30, 255, 0, 1, 0, 0, 0, 0]), Err(Error::Truncated));
    let many: Vec<u8> = [&[0, 0, 0][..], &[0x40, 1, 0, 0].repeat(9), &[0]].concat();
    assert_eq!(header_len(message(0x34, &many)), Err(Error::Unsupported), "nine extension headers");
}

#[test]
fn labels_and_instances() {
    let label = mpls::Repr { label: 0x1_2345, traffic_class: 5, is_last: true, ttl: 64 };
    let header = label.header();
    assert_eq!(
        (header.label(), header.traffic_class(), header.is_last(), header.ttl()),
        (0x1_2345, 5, true, 64)
    );
    assert_eq!(header.into_inner(), [0x12, 0x34, 0x5B, 64]);
    let mut header = mpls::Header::new([0xFF; 4]);
    header.set_ttl(1);
    assert_eq!(header.into_inner(), [0xFF, 0xFF, 0xFF, 1]);

    assert_eq!(lisp::header(0x12_3456).into_inner(), [0x08, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
    let header = lisp::Header::new([0xC0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!((header.flags(), header.instance()), (0xC0, None));
    assert_eq!(lisp::Header::new([0x08, 0, 0, 0, 1, 2, 3, 9]).instance(), Some(0x01_0203));
}

#[test]
fn segments() {
    let way: Vec<Ipv6Addr> = (1..=3).map(|n| Ipv6Addr::new(0xFC00, 0, 0, 0, 0, 0, 0, n)).collect();
    let mut bytes = [0xEE; 56];
    assert!(srv6::emit(&mut bytes, Protocol::IPV4, &way, 2));
    assert_eq!(bytes[..8], [4, 6, 4, 2, 2, 0, 0, 0]);
    assert_eq!((bytes[8..24].last(), bytes[40..56].last()), (Some(&3), Some(&1)), "the last comes first");
    let packet = srv6::Packet::new_checked(&bytes).unwrap();
    assert_eq!(packet.segment(packet.segments_left()), Some(way[0]));
    assert_eq!((packet.segment(3), packet.header_len(), packet.payload().len()), (None, 56, 0));

    let mut reduced = [0; 40];
    assert!(srv6::emit(&mut reduced, Protocol::ETHERNET, &way[1..], 2));
    assert_eq!(reduced[..8], [143, 4, 4, 2, 1, 0, 0, 0]);
    assert!(srv6::Packet::new_checked(reduced).is_ok());
    for (at, value, expected) in [
        (2, 3, Err(Error::Unsupported)),
        (3, 3, Err(Error::Malformed)),
        (4, 2, Err(Error::Malformed)),
        (1, 5, Err(Error::Truncated)),
    ] {
        let mut bytes = reduced;
        bytes[at] = value;
        assert_eq!(srv6::Packet::new_checked(bytes).map(|_| ()), expected, "byte {at} is {value}");
    }
    assert!(!srv6::emit(&mut bytes[..39], Protocol::IPV4, &way[1..], 2), "no room");
    assert!(!srv6::emit(&mut bytes, Protocol::IPV4, &[], 0));
    assert!(!srv6::emit(&mut bytes, Protocol::IPV4, &way, 4));
}

#[test]
fn numbers_are_those_of_iana() {
    let types = [
        (EtherType::TRANSPARENT_BRIDGING, 0x6558),
        (EtherType::MPLS, 0x8847),
        (EtherType::MPLS_UPSTREAM, 0x8848),
        (EtherType::NSH, 0x894F),
    ];
    assert!(types.iter().all(|(ethertype, number)| ethertype.0 == *number));
    assert_eq!((Protocol::ETHERNET.0, Protocol::MPLS.0), (143, 137));
    let ports = [geneve::PORT, gtpu::PORT, mpls::PORT, lisp::PORT];
    assert_eq!(ports, [6081, 2152, 6635, 4341]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// What a view accepts its accessors stand by, and the parts are the whole.
    #[test]
    fn bytes_from_anyone(
        mut bytes in prop::collection::vec(any::<u8>(), 0..120),
        first in prop_oneof![Just(0u8), Just(0x30), Just(0x34), Just(0x0F), any::<u8>()],
        small in 0..16u8,
        plausible: bool,
    ) {
        if plausible && bytes.len() > 4 {
            (bytes[0], bytes[1], bytes[2], bytes[3]) = (first, small, 4, small);
        }
        if let Ok(packet) = gre::Packet::new_checked(&bytes) {
            let repr = gre::Repr::parse(&packet).expect("checked");
            prop_assert_eq!(repr.header_len(), packet.header_len());
            prop_assert_eq!(packet.header_len() + packet.payload().len(), bytes.len());
            let mut packet = gre::Packet::new_checked(bytes.clone()).expect("checked before");
            packet.fill_checksum();
            prop_assert!(packet.verify_checksum());
        }
        if let Ok(packet) = geneve::Packet::new_checked(&bytes) {
            let options: usize = packet.options().map(|option| 4 + option.data.len()).sum();
            prop_assert_eq!(options, packet.options_len());
            prop_assert_eq!(packet.header_len() + packet.payload().len(), bytes.len());
        }
        if let Ok(packet) = nsh::Packet::new_checked(&bytes) {
            prop_assert_eq!(8 + packet.metadata().len() + packet.payload().len(), bytes.len());
        }
        if let Ok(packet) = gtpu::Packet::new_checked(&bytes) {
            prop_assert_eq!(packet.header_len() + packet.payload().len(), 8 + packet.payload_len());
            let _ = packet.qos_flow();
        }
        if let Ok(packet) = srv6::Packet::new_checked(&bytes) {
            prop_assert!((0..=packet.last_entry()).all(|index| packet.segment(index).is_some()));
            prop_assert_eq!(packet.header_len() + packet.payload().len(), bytes.len());
        }
    }
}
