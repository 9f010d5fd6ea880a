//! What goes in at one end comes out at the other, whatever the protocol; and the paper's
//! table of identifiers.

use fib::exact::{Extractor, Key};
use overlay::{Carrier, Layer, Network, PROTOCOLS, Payload, Protocol, Received, Sent, Tunnel, Unknown};
use port::Reason;
use proptest::prelude::*;

use crate::rig::{
    Buffers, MAC, NETWORK, PEER, decapsulate, encapsulate, ends, frame, port, reversed, table, tunnel, v4, v6,
};

/// Packets of a layer.
fn packets(layer: Layer) -> Vec<Vec<u8>> {
    let service = wire::tunnel::nsh::type_1(7, 9, 1);
    match layer {
        Layer::Ethernet => vec![
            frame(1, 0x0800, &v4(0, b"four")),
            frame(1, 0x86DD, &v6(0, b"six")),
            frame(1, 0x0806, &[7; 46]),
            frame(1, 0x8100, &[&[0x20, 9, 8, 0][..], &v4(0, b"tagged")].concat()),
        ],
        Layer::Ip => vec![v4(0, b"four"), v6(0, b"six"), v4(0, &[9; 200])],
        Layer::Service => vec![[&service[..], &v4(0, b"served")].concat()],
    }
}

/// The layers that a protocol carries, with a network of each whose packets all have an
/// entry.
fn networks(protocol: &Protocol) -> Vec<(Network, u128)> {
    let has = |payload| protocol.payloads.contains(&payload);
    let bridged = has(Payload::Ethernet).then(|| (Network::bridged(), 0x0200_0000_0101));
    let routed = has(Payload::Ipv4).then(|| (Network::point_to_point(Layer::Ip), 0));
    let served = has(Payload::Nsh).then(|| (Network::service_path(), 7 << 8 | 9));
    [bridged, routed, served].into_iter().flatten().collect()
}

/// Sends all packets of a network by a tunnel, and receives them at its other end.
fn there_and_back(tunnel: &Tunnel, network: Network, identifier: u128) {
    let (mut here, mut there) = (table(), table());
    here.add_network(NETWORK, network).unwrap();
    here.insert(NETWORK, identifier, tunnel.clone()).unwrap();
    there.add_network(8, network).unwrap();
    there.add_end(8, &reversed(tunnel), false).unwrap();
    let (mut sender, mut receiver) = (here.encapsulator(), there.decapsulator());
    here.publish();
    there.publish();
    let mut buffers = Buffers::new();
    for bytes in packets(network.layer) {
        let mut packet = buffers.packet(&bytes);
        assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3), "{tunnel:?}");
        assert_eq!(packet[..12], [PEER.0, MAC.0].concat());
        assert!(packet.len() > bytes.len() + 14);
        // An Ethernet frame may have padding, which is none of the packet inside.
        let padded = [&packet[..], &[0; 9]].concat();
        for wire in [packet[..].to_vec(), padded] {
            let mut packet = buffers.packet(&wire);
            let received = decapsulate(&mut receiver, &mut packet);
            assert_eq!(received, Received::Network(8), "{tunnel:?} with {bytes:x?}");
            let mut expected = bytes.clone();
            if network.layer == Layer::Service {
                let mut service = wire::tunnel::nsh::Header::of_mut(&mut expected).unwrap();
                service.set_ttl(service.ttl() - 1); // RFC 8300, section 2.2
            }
            assert_eq!(packet[..], expected, "{tunnel:?}");
        }
    }
    assert_eq!((sender.drops().total(), receiver.drops().total()), (0, 0));
}

#[test]
fn every_protocol_carries_what_it_says() {
    for protocol in PROTOCOLS {
        for is_v6 in [false, true] {
            if protocol.carrier == Carrier::Segments && !is_v6 {
                continue;
            }
            for (network, identifier) in networks(protocol) {
                there_and_back(&tunnel(protocol.name, is_v6), network, identifier);
            }
        }
    }
}

#[test]
fn options_of_protocols() {
    let plain = tunnel("gre", false);
    let ip = Network::point_to_point(Layer::Ip);
    there_and_back(&Tunnel { identifier: None, ..plain.clone() }, ip, 0);
    there_and_back(&Tunnel { gre_checksum: true, ..plain.clone() }, ip, 0);
    there_and_back(&Tunnel { gre_checksum: true, gre_sequence: true, ..plain }, ip, 0);
    let tap = Tunnel { gre_sequence: true, identifier: None, ..tunnel("gretap", true) };
    there_and_back(&tap, Network::bridged(), 0x0200_0000_0101);
    there_and_back(&Tunnel { qos_flow: Some(9), ..tunnel("gtpu", false) }, ip, 0);
    there_and_back(
        &Tunnel { udp_checksum: true, ..tunnel("vxlan", false) },
        Network::bridged(),
        0x0200_0000_0101,
    );
    let segment = |n| std::net::Ipv6Addr::new(0xFC00, 0, 0, 0, 0, 0, 0, n);
    let way = Tunnel { segments: vec![segment(1)], ..tunnel("srv6", true) };
    let mut here = table();
    here.add_network(NETWORK, ip).unwrap();
    here.insert(NETWORK, 0, way.clone()).unwrap();
    let mut sender = here.encapsulator();
    here.publish();
    let mut packet = Buffers::new().packet(&v4(0, b"routed"));
    assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3));
    // The list has what the destination has not: the last segment, to be visited.
    assert_eq!((packet[14 + 6], packet[54..62].to_vec()), (43, vec![4, 2, 4, 1, 0, 0, 0, 0]));
    assert_eq!(packet[62..78], segment(1).octets());
    // The first segment's host takes it as the destination, and has nothing to do but that.
    packet[54 + 3] = 0;
    packet[14 + 24..14 + 40].copy_from_slice(&segment(1).octets());
    let mut there = table();
    there.add_network(8, ip).unwrap();
    there.add_end(8, &reversed(&way), false).unwrap();
    let mut receiver = there.decapsulator();
    there.publish();
    assert_eq!(decapsulate(&mut receiver, &mut packet), Received::Network(8));
    assert_eq!(packet[..], v4(0, b"routed"));
}

/// Table 1 of the paper: where identifiers stand behind the outer IP header.
#[test]
fn the_papers_identifiers() {
    let rows = [
        ("ipip", None, 0, Network::point_to_point(Layer::Ip)),
        ("gre", None, 0, Network::point_to_point(Layer::Ip)),
        ("vxlan", Some(16), 48, Network::bridged()),
        ("nvgre", Some(8), 48, Network::bridged()),
        ("vxlan-gpe", Some(20), 32, Network::service_path()),
    ];
    for (protocol, offset, bits, network) in rows {
        assert_eq!(network.extractor.bits(), bits, "{protocol}");
        let mut here = table();
        here.add_network(NETWORK, network).unwrap();
        let packet = &packets(network.layer)[0];
        let key = network.extractor.key(NETWORK, packet).unwrap();
        here.insert(NETWORK, key.bits(), tunnel(protocol, false)).unwrap();
        let mut sender = here.encapsulator();
        here.publish();
        let mut packet = Buffers::new().packet(packet);
        assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3));
        // The paper counts from the end of the outer IP header, as the packet is sent.
        if let Some(offset) = offset {
            let sent = Extractor::new(34 + offset, bits).unwrap().key(NETWORK, &packet);
            assert_eq!(sent, Some(Key::new(NETWORK, key.bits())), "{protocol}");
        }
    }
    // MPLS over GRE: the label is behind GRE's four bytes.
    let mut here = table();
    here.add_network(NETWORK, Network::point_to_point(Layer::Ip)).unwrap();
    here.insert(NETWORK, 0, tunnel("mpls-gre", false)).unwrap();
    let mut sender = here.encapsulator();
    here.publish();
    let mut packet = Buffers::new().packet(&v4(0, b"labelled"));
    encapsulate(&mut sender, &mut packet);
    let label = Extractor::new(34 + 4, 20).unwrap().key(0, &packet);
    assert_eq!(label.map(Key::bits), Some(100));
}

#[test]
fn headers_are_as_long_as_the_standards_say() {
    // Bytes in front of a packet, Ethernet's 14 and the frame inside not counted.
    let lens = [
        ("ipip", 20),
        ("gre", 28),
        ("nvgre", 28),
        ("gretap", 28),
        ("mpls-gre", 28),
        ("vxlan", 36),
        ("vxlan-gpe", 36),
        ("geneve", 36),
        ("gtpu", 36),
        ("mpls-udp", 32),
        ("lisp", 36),
        ("srv6", 40),
    ];
    for (protocol, (name, len)) in PROTOCOLS.iter().zip(lens) {
        assert_eq!(protocol.name, name);
        let is_v6 = name == "srv6";
        let (network, identifier) = networks(protocol)[0];
        let mut here = table();
        here.add_network(NETWORK, network).unwrap();
        here.insert(NETWORK, identifier, tunnel(name, is_v6)).unwrap();
        let mut sender = here.encapsulator();
        here.publish();
        let bytes = packets(network.layer).remove(0);
        let mut packet = Buffers::new().packet(&bytes);
        assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3));
        assert_eq!(packet.len(), 14 + len + bytes.len(), "{name}");
    }
}

#[test]
fn a_packet_goes_by_its_own_entry_or_by_the_list() {
    let mut here = table();
    here.add_network(NETWORK, Network { unknown: Unknown::Flood, ..Network::bridged() }).unwrap();
    let (_, remote) = ends(false);
    for last in 1..=40u8 {
        let tunnel = Tunnel { identifier: Some(1000 + u32::from(last)), ..tunnel("vxlan", false) };
        here.insert(NETWORK, 0x0200_0000_0100 | u128::from(last), tunnel).unwrap();
    }
    let others = [tunnel("vxlan", false).with_identifier(1), tunnel("geneve", false).with_identifier(2)];
    here.set_flood(NETWORK, &others).unwrap();
    let mut sender = here.encapsulator();
    here.publish();
    let mut buffers = Buffers::new();
    let frames = (1..=50).map(|last| buffers.packet(&frame(last, 0x0800, &v4(0, b"any"))));
    let mut packets: Vec<_> = frames.collect();
    let mut sent = [Sent::Punt; 50];
    sender.encapsulate(NETWORK, &mut packets, &mut sent);
    for (n, (packet, sent)) in packets.iter().zip(sent).enumerate() {
        if n < 40 {
            let vni = u32::from_be_bytes([0, packet[46], packet[47], packet[48]]);
            assert_eq!((sent, vni), (Sent::Port(3), 1001 + n as u32));
        } else {
            assert_eq!((sent, packet.len()), (Sent::Flood, 14 + 20 + 8 + 3), "as it was");
        }
    }
    assert_eq!(sender.flood_len(NETWORK), 2);
    for (place, port) in [(0, 4789u16), (1, 6081)] {
        let mut copy = buffers.packet(&frame(77, 0x0800, &v4(0, b"any")));
        assert_eq!(sender.flood(NETWORK, place, &mut copy), Sent::Port(3));
        assert_eq!(copy[36..38], port.to_be_bytes());
    }
    let mut copy = buffers.packet(&frame(77, 0x0800, &v4(0, b"any")));
    assert_eq!(sender.flood(NETWORK, 2, &mut copy), Sent::Drop(Reason::OverlayUnknownKey));
    here.set_flood(NETWORK, &others[1..]).unwrap();
    here.publish();
    assert_eq!(sender.flood_len(NETWORK), 1);
    assert_eq!(sender.flood(NETWORK, 0, &mut copy), Sent::Port(3));
    assert_eq!(copy[36..38], 6081u16.to_be_bytes());
    assert_eq!((here.entries(NETWORK), here.tunnels()), (40, 41));
    here.set_neighbor(3, remote, None);
    here.publish();
    let mut copy = buffers.packet(&frame(77, 0x0800, &v4(0, b"any")));
    assert_eq!(sender.flood(NETWORK, 0, &mut copy), Sent::Drop(Reason::OverlayNoNeighbor));
}

/// The whole of an IPv6 address as the identifier: no bit of it is the flood list's.
#[test]
fn identifiers_of_all_bits() {
    let extractor = Extractor::new(24, 128).unwrap();
    let network = Network { extractor, unknown: Unknown::Flood, ..Network::point_to_point(Layer::Ip) };
    let mut here = table();
    here.add_network(NETWORK, network).unwrap();
    here.set_flood(NETWORK, &[tunnel("gre", false)]).unwrap();
    let mut sender = here.encapsulator();
    here.publish();
    let mut buffers = Buffers::new();
    let mut packet = v6(0, b"x");
    for (first, last) in [(0x80, 0), (0xFF, 0xFF), (0x80, 1)] {
        packet[24..40].fill(0);
        (packet[24], packet[39]) = (first, last);
        assert_eq!(encapsulate(&mut sender, &mut buffers.packet(&packet)), Sent::Flood);
    }
    assert_eq!(here.remove(NETWORK, 1 << 127), Ok(false));
    here.insert(NETWORK, 1 << 127 | 1, tunnel("ipip", false)).unwrap();
    here.publish();
    assert_eq!(encapsulate(&mut sender, &mut buffers.packet(&packet)), Sent::Port(3));
    assert_eq!((sender.flood_len(NETWORK), here.entries(NETWORK), here.tunnels()), (1, 1, 2));
    let sent = encapsulate(&mut sender, &mut buffers.packet(&packet[..39]));
    assert_eq!(sent, Sent::Drop(Reason::OverlayNoKey), "the address is cut");
    here.remove_network(NETWORK).unwrap();
    assert_eq!(here.tunnels(), 0);
}

/// A service header that the tunnel puts in front comes out as one.
#[test]
fn service_headers_by_every_protocol_that_has_them() {
    for protocol in PROTOCOLS.iter().filter(|protocol| protocol.payloads.contains(&Payload::Nsh)) {
        let wrapped = Tunnel { service: Some((7, 9)), ..tunnel(protocol.name, false) };
        let (mut here, mut there) = (table(), table());
        here.add_network(NETWORK, Network::point_to_point(Layer::Ip)).unwrap();
        here.insert(NETWORK, 0, wrapped.clone()).unwrap();
        there.add_network(8, Network::service_path()).unwrap();
        there.add_end(8, &reversed(&wrapped), false).unwrap();
        let (mut sender, mut receiver) = (here.encapsulator(), there.decapsulator());
        here.publish();
        there.publish();
        let mut packet = Buffers::new().packet(&v4(2, b"served"));
        assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3), "{}", protocol.name);
        assert_eq!(decapsulate(&mut receiver, &mut packet), Received::Network(8), "{}", protocol.name);
        let service = wire::tunnel::nsh::type_1(7, 9, wire::tunnel::nsh::next_protocol::IPV4);
        assert_eq!(packet[..], [&service[..], &v4(2, b"served")].concat(), "{}", protocol.name);
    }
}

#[test]
fn a_vlan_of_the_underlay() {
    let (mut here, mut there) = (table(), table());
    here.set_port(3, Some(overlay::Port { vlan: Some(0x6007), ..port() }));
    here.add_network(NETWORK, Network::bridged()).unwrap();
    here.insert(NETWORK, 0x0200_0000_0101, tunnel("vxlan", true)).unwrap();
    there.add_network(8, Network::bridged()).unwrap();
    there.add_end(8, &reversed(&tunnel("vxlan", true)), false).unwrap();
    let (mut sender, mut receiver) = (here.encapsulator(), there.decapsulator());
    here.publish();
    there.publish();
    let bytes = frame(1, 0x0800, &v4(0, b"four"));
    let mut packet = Buffers::new().packet(&bytes);
    assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3));
    assert_eq!(packet[12..18], [0x81, 0, 0x60, 7, 0x86, 0xDD]);
    assert_eq!(decapsulate(&mut receiver, &mut packet), Received::Network(8));
    assert_eq!(packet[..], bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_frame_and_identifier(
        payload in prop::collection::vec(any::<u8>(), 0..200), ethertype: u16, vni in 0..1u32 << 24, is_v6: bool,
        protocol in prop::sample::select(vec!["vxlan", "geneve", "vxlan-gpe", "gretap", "nvgre"]),
    ) {
        let tunnel = tunnel(protocol, is_v6).with_identifier(vni);
        let (mut here, mut there) = (table(), table());
        here.add_network(NETWORK, Network::bridged()).unwrap();
        here.insert(NETWORK, 0x0200_0000_0109, tunnel.clone()).unwrap();
        there.add_network(vni, Network::bridged()).unwrap();
        there.add_end(vni, &reversed(&tunnel), false).unwrap();
        let (mut sender, mut receiver) = (here.encapsulator(), there.decapsulator());
        here.publish();
        there.publish();
        let bytes = frame(9, ethertype, &payload);
        let mut packet = Buffers::new().packet(&bytes);
        prop_assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3));
        prop_assert_eq!(decapsulate(&mut receiver, &mut packet), Received::Network(vni));
        prop_assert_eq!(&packet[..], &bytes[..]);
    }
}
