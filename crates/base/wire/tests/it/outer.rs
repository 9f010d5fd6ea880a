//! Headers that are made once, beside those that are made for each packet, and beside bytes.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::outer::{Outer, PerPacket};
use wire::{Flow, MacAddress, flow, ipv4, ipv6, udp};

const DST: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const SRC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const FROM: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const TO: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

fn v4() -> ipv4::Repr {
    ipv4::Repr { dont_fragment: true, ..ipv4::Repr::between(FROM, TO, Protocol::UDP, 7) }
}

fn v6() -> ipv6::Repr {
    ipv6::Repr {
        src: Ipv6Addr::LOCALHOST,
        dst: Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 2),
        next_header: Protocol::UDP,
        hop_limit: 9,
        traffic_class: 0xA5,
        flow_label: 0x12345,
        payload_len: 7,
    }
}

fn link(ethertype: EtherType) -> ethernet::Repr {
    ethernet::Repr { dst: DST, src: SRC, ethertype }
}

/// Headers of a tunnel over UDP, with `tunnel` behind them.
fn over_v4(tunnel: &[u8]) -> Option<Outer<80>> {
    let outer = Outer::new().ethernet(&link(EtherType::VLAN))?.vlan(0x6123, EtherType::IPV4)?;
    outer.ipv4(&v4())?.udp(1, 4789)?.bytes(tunnel)
}

fn over_v6(tunnel: &[u8]) -> Option<Outer<80>> {
    Outer::new().ethernet(&link(EtherType::IPV6))?.ipv6(&v6())?.udp(1, 4789)?.bytes(tunnel)
}

/// With this identification, and nothing that tells flows apart.
fn numbered(identification: u16) -> PerPacket {
    PerPacket { identification, ..PerPacket::default() }
}

fn of_flow(identification: u16, hash: u32) -> PerPacket {
    PerPacket { flow_hash: Some(hash), ..numbered(identification) }
}

#[test]
fn headers_read_as_their_bytes() {
    let outer = over_v4(&[8, 0, 0, 0, 0, 0, 100, 0]).expect("there is room");
    let mut packet = [0xEE; 54 + 4];
    assert!(outer.write(&mut packet, 4, numbered(0x1234)));
    assert_eq!(packet[..18], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0x61, 0x23, 8, 0]);
    // 28 + 8 + 4 bytes; the words add up to 0x5B72.
    assert_eq!(packet[18..30], [0x45, 0, 0, 40, 0x12, 0x34, 0x40, 0, 64, 17, 0xA4, 0x8D]);
    assert_eq!(packet[30..38], [192, 0, 2, 1, 192, 0, 2, 2]);
    assert_eq!(packet[38..46], [0, 1, 0x12, 0xB5, 0, 20, 0, 0]);
    assert_eq!(packet[46..], [8, 0, 0, 0, 0, 0, 100, 0, 0xEE, 0xEE, 0xEE, 0xEE]);
    assert_eq!((outer.len(), outer.network_offset(), outer.is_empty()), (54, Some(18), false));
}

#[test]
fn flows_are_told_apart_by_port_and_label() {
    let outer = over_v6(&[]).expect("there is room");
    let mut packet = [0; 62];
    assert!(outer.write(&mut packet, 100, of_flow(0, 0xABCD_1234)));
    let ip = ipv6::Header::of(&packet[14..]).expect("long enough");
    assert_eq!((ip.flow_label(), ip.traffic_class()), (flow::label(0xABCD_1234), 0xA5));
    assert_eq!((ip.version(), ip.payload_len(), ip.hop_limit()), (6, 108, 9));
    let udp = udp::Header::of(&packet[54..]).expect("long enough");
    assert_eq!((udp.src_port(), udp.dst_port()), (flow::source_port(0xABCD_1234), 4789));
    assert_eq!((udp.total_len(), udp.checksum()), (108, 0));
    assert!(outer.write(&mut packet, 100, PerPacket::default()));
    let ip = ipv6::Header::of(&packet[14..]).expect("long enough");
    assert_eq!((ip.flow_label(), packet[55]), (0x12345, 1), "as they were given");
}

#[test]
fn the_checksum_of_udp_is_made_when_it_is_asked_for() {
    for outer in [over_v4(&[1, 2, 3]), over_v6(&[1, 2, 3])].map(|outer| outer.expect("there is room")) {
        let mut packet = vec![7; outer.len() + 33];
        assert!(outer.write(&mut packet, 33, of_flow(5, 9)));
        assert!(!outer.fill_udp_checksum(&mut packet[..outer.len() + 32]), "not all there");
        assert!(outer.fill_udp_checksum(&mut packet));
        let flow = Flow::of(&packet).expect("a flow");
        let datagram = udp::Datagram::new_checked(&packet[flow.l4_offset()..]).expect("whole");
        assert!(datagram.checksum() != 0 && datagram.verify_checksum(flow.addresses));
        assert_eq!(flow.ports, Some((flow::source_port(9), 4789)));
    }
    assert!(!Outer::<8>::new().udp(1, 2).expect("there is room").fill_udp_checksum(&mut [0; 8]));
}

#[test]
fn what_does_not_fit_is_refused() {
    assert!(Outer::<13>::new().ethernet(&link(EtherType::IPV4)).is_none());
    assert!(Outer::<20>::new().ipv4(&v4()).is_some() && Outer::<19>::new().ipv4(&v4()).is_none());
    assert!(over_v4(&[0; 34]).is_some() && over_v4(&[0; 35]).is_none());
    let two = Outer::<80>::new().ipv4(&v4()).and_then(|outer| outer.ipv6(&v6()));
    assert!(two.is_none(), "only one network header is completed");
    assert!(Outer::<80>::new().udp(1, 2).and_then(|outer| outer.udp(1, 2)).is_none());
    let outer = over_v4(&[]).expect("there is room");
    let mut room = [0xEE; 46];
    assert!(!outer.write(&mut room[..45], 0, PerPacket::default()));
    assert!(!outer.write(&mut room, 65_535 - 27, PerPacket::default()));
    assert_eq!(room, [0xEE; 46], "nothing is written");
    assert!(outer.write(&mut room, 65_535 - 28, PerPacket::default()));
    let outer = over_v6(&[]).expect("there is room");
    assert!(
        !outer.write(&mut [0; 62], 65_535 - 7, PerPacket::default())
            && outer.write(&mut [0; 62], 65_535 - 8, PerPacket::default())
    );
    assert!(Outer::<1>::new().write(&mut [], 1 << 20, PerPacket::default()), "no header, no limit");
}

#[test]
fn hashes_spread_over_ports_and_labels() {
    let (mut ports, mut labels) = (HashSet::new(), HashSet::new());
    for n in 0..4096_u16 {
        let mut frame = [0; 42];
        let outer = Outer::<42>::new().ethernet(&link(EtherType::IPV4));
        let outer = outer.and_then(|outer| outer.ipv4(&v4())).and_then(|outer| outer.udp(1024 + n, 9));
        assert!(outer.expect("there is room").write(&mut frame, 0, numbered(n)));
        let hash = flow::hash(&frame);
        ports.insert(flow::source_port(hash));
        labels.insert(flow::label(hash));
    }
    // Of 16,384 ports some 3,600 are expected, of a million labels nearly all.
    assert!(ports.len() > 3400 && labels.len() > 4050, "{} {}", ports.len(), labels.len());
    assert!(ports.iter().all(|port| *port >= 49_152));
    assert_eq!((flow::label(0), flow::source_port(0), flow::source_port(u32::MAX)), (1, 49_152, 49_152));
}

proptest! {
    #[test]
    fn a_completed_header_is_the_one_made_anew(
        src: u32, dst: u32, ttl: u8, traffic_class: u8, identification: u16, dont_fragment: bool,
        payload_len in 0..65_515usize,
    ) {
        let repr = ipv4::Repr {
            ttl, traffic_class, identification, dont_fragment,
            ..ipv4::Repr::between(src.into(), dst.into(), Protocol::GRE, payload_len)
        };
        let mut expected = ipv4::Header::zeroed();
        repr.write(&mut expected);
        let mut header = repr.template();
        prop_assert_eq!((header.total_len(), header.identification()), (0, 0));
        header.complete((payload_len + ipv4::HEADER_LEN) as u16, identification);
        prop_assert_eq!(header, expected);
    }

    #[test]
    fn the_traffic_class_is_the_templates_and_the_packets(
        template: u8, packet: u8, identification: u16, hash in prop::option::of(any::<u32>()),
        payload_len in 0..1400usize,
    ) {
        let with = |traffic_class| {
            let v4 = Outer::<80>::new().ipv4(&ipv4::Repr { traffic_class, ..v4() });
            [v4, Outer::new().ipv6(&ipv6::Repr { traffic_class, ..v6() })].map(|outer| outer.expect("there is room"))
        };
        let whole = PerPacket { identification, flow_hash: hash, traffic_class: 0 };
        for (outer, expected) in with(template).iter().zip(with(template | packet)) {
            let (mut written, mut anew) = ([0; 80], [0; 80]);
            let len = outer.len() + payload_len;
            let marked = PerPacket { traffic_class: packet, ..whole };
            prop_assert!(outer.write(&mut written, len, marked) && expected.write(&mut anew, len, whole));
            prop_assert_eq!(written, anew);
        }
    }

    #[test]
    fn a_hash_is_of_the_flow_and_nothing_else(payload: Vec<u8>, other: Vec<u8>, ports: (u16, u16)) {
        let frame = |payload: &[u8], ports: (u16, u16), number| {
            let mut frame = vec![0; 42 + payload.len()];
            let outer = Outer::<42>::new().ethernet(&link(EtherType::IPV4));
            let outer = outer.and_then(|outer| outer.ipv4(&v4())).and_then(|outer| outer.udp(ports.0, ports.1));
            assert!(outer.is_some_and(|outer| outer.write(&mut frame, payload.len(), numbered(number))));
            frame[42..].copy_from_slice(payload);
            flow::hash(&frame)
        };
        prop_assert_eq!(frame(&payload, ports, 1), frame(&other, ports, 2));
        prop_assert_ne!(frame(&payload, ports, 1), frame(&payload, (ports.0 ^ 1, ports.1), 1));
    }

    #[test]
    fn any_bytes_have_a_hash(bytes: Vec<u8>, more: Vec<u8>) {
        let hash = flow::hash(&bytes);
        prop_assert_eq!(hash, flow::hash(&bytes));
        if bytes.len() >= 14 && Flow::of(&bytes).is_err() {
            let longer = [&bytes[..], &more].concat();
            prop_assert!(Flow::of(&longer).is_ok() || hash == flow::hash(&longer), "by the Ethernet header");
        }
        let (port, label) = (flow::source_port(hash), flow::label(hash));
        prop_assert!(port >= 49_152 && label != 0 && label < 1 << 20);
    }
}
