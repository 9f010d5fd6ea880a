//! What the standards ask of tunnels' ends: entropy, congestion, hops, checksums, lengths.

use std::collections::HashSet;

use overlay::{Dscp, Layer, Network, Received, Sent, Tunnel};
use port::Reason;
use wire::{ipv4, ipv6};

use crate::rig::{Buffers, NETWORK, decapsulate, encapsulate, frame, port, reversed, table, tunnel, v4, v6};

/// The frame in which a packet leaves by a tunnel.
fn sent_by(tunnel: &Tunnel, layer: Layer, bytes: &[u8]) -> Result<Vec<u8>, Reason> {
    let mut here = table();
    here.add_network(NETWORK, Network::point_to_point(layer)).unwrap();
    here.insert(NETWORK, 0, tunnel.clone()).unwrap();
    let mut sender = here.encapsulator();
    here.publish();
    let mut packet = Buffers::new().packet(bytes);
    match encapsulate(&mut sender, &mut packet) {
        Sent::Port(3) => Ok(packet.to_vec()),
        Sent::Drop(reason) => {
            assert_eq!(sender.drops().of(reason), 1);
            Err(reason)
        }
        other => panic!("{other:?}"),
    }
}

/// What comes out of a frame at the other end of a tunnel.
fn received_by(tunnel: &Tunnel, layer: Layer, zero_checksum: bool, bytes: &[u8]) -> Result<Vec<u8>, Reason> {
    let mut there = table();
    there.add_network(NETWORK, Network::point_to_point(layer)).unwrap();
    there.add_end(NETWORK, &reversed(tunnel), zero_checksum).unwrap();
    let mut receiver = there.decapsulator();
    there.publish();
    let mut packet = Buffers::new().packet(bytes);
    match decapsulate(&mut receiver, &mut packet) {
        Received::Network(NETWORK) => Ok(packet.to_vec()),
        Received::Drop(reason) => {
            assert_eq!((receiver.drops().of(reason), &packet[..]), (1, bytes));
            Err(reason)
        }
        other => panic!("{other:?}"),
    }
}

/// RFC 7348, section 5; RFC 6438.
#[test]
fn flows_have_ports_and_labels_of_their_own() {
    let mut ports = HashSet::new();
    let mut labels = HashSet::new();
    for flow in 0..64u8 {
        let mut packet = v4(0, b"same");
        packet[21] = flow; // the source port
        let over_v4 = sent_by(&tunnel("gtpu", false), Layer::Ip, &packet).unwrap();
        let again = sent_by(&tunnel("gtpu", false), Layer::Ip, &packet).unwrap();
        assert_eq!(over_v4[34..36], again[34..36], "the same flow has the same port");
        let port = u16::from_be_bytes([over_v4[34], over_v4[35]]);
        assert!(port >= 49_152);
        ports.insert(port);
        let over_v6 = sent_by(&tunnel("ipip", true), Layer::Ip, &packet).unwrap();
        labels.insert(ipv6::Header::of(&over_v6[14..]).unwrap().flow_label());
    }
    assert!(
        ports.len() > 55 && labels.len() > 55 && !labels.contains(&0),
        "{} {}",
        ports.len(),
        labels.len()
    );
}

/// RFC 6040: the outer field is the inner one, and what it met comes back.
#[test]
fn congestion_both_ways() {
    for is_v6 in [false, true] {
        for inner in 0..4u8 {
            for packet in [v4(0xB8 | inner, b"x"), v6(0xB8 | inner, b"x")] {
                let tunnel = tunnel("gre", is_v6);
                let frame = sent_by(&tunnel, Layer::Ip, &packet).unwrap();
                let class = |frame: &[u8]| match is_v6 {
                    true => ipv6::Header::of(&frame[14..]).unwrap().traffic_class(),
                    false => ipv4::Header::of(&frame[14..]).unwrap().traffic_class(),
                };
                assert_eq!(class(&frame), inner, "the code point stays inside");
                for outer in 0..4u8 {
                    let mut met = frame.clone();
                    match is_v6 {
                        true => ipv6::Header::of_mut(&mut met[14..]).unwrap().set_version(outer, 1),
                        false => ipv4::Header::of_mut(&mut met[14..]).unwrap().update_traffic_class(outer),
                    }
                    let expected = wire::ecn::decapsulate(0xB8 | inner, outer);
                    let out = received_by(&tunnel, Layer::Ip, false, &met);
                    let Some(expected) = expected else {
                        assert_eq!(out, Err(Reason::OverlayCongestion));
                        continue;
                    };
                    let mut changed = packet.clone();
                    if packet[0] >> 4 == 4 {
                        ipv4::Header::of_mut(&mut changed).unwrap().update_traffic_class(expected);
                        assert!(ipv4::Packet::new_checked(&changed).unwrap().verify_checksum());
                    } else {
                        ipv6::Header::of_mut(&mut changed).unwrap().set_version(expected, 0);
                    }
                    assert_eq!(out, Ok(changed), "{inner} in {outer}");
                }
            }
        }
    }
    // In a frame too, behind a tag.
    let bytes = frame(1, 0x8100, &[&[0, 9, 8, 0][..], &v4(2, b"x")].concat());
    let mut met = sent_by(&tunnel("vxlan", false), Layer::Ethernet, &bytes).unwrap();
    ipv4::Header::of_mut(&mut met[14..]).unwrap().update_traffic_class(3);
    let out = received_by(&tunnel("vxlan", false), Layer::Ethernet, false, &met).unwrap();
    assert_eq!((out[19], ipv4::Packet::new_checked(&out[18..]).unwrap().verify_checksum()), (3, true));
}

#[test]
fn what_the_outer_header_says() {
    let fixed = Tunnel { ttl: 9, dscp: Dscp::Fixed(46), ..tunnel("vxlan", false) };
    let bytes = frame(1, 0x0800, &v4(0x29, b"x"));
    let sent = sent_by(&fixed, Layer::Ethernet, &bytes).unwrap();
    let header = ipv4::Header::of(&sent[14..]).unwrap();
    assert_eq!((header.ttl(), header.traffic_class(), header.dont_fragment()), (9, 46 << 2 | 1, true));
    assert!(ipv4::Packet::new_checked(&sent[14..]).unwrap().verify_checksum());
    let inherit = Tunnel { dscp: Dscp::Inherit, dont_fragment: false, ..fixed };
    let sent = sent_by(&inherit, Layer::Ethernet, &bytes).unwrap();
    let header = ipv4::Header::of(&sent[14..]).unwrap();
    assert_eq!((header.traffic_class(), header.dont_fragment()), (0x29, false));
    let other_port = Tunnel { port: Some(8472), ..inherit };
    assert_eq!(sent_by(&other_port, Layer::Ethernet, &bytes).unwrap()[36..38], 8472u16.to_be_bytes());
}

/// RFC 7348, section 4.3: tunnels' ends do not fragment.
#[test]
fn what_is_too_long_is_not_sent() {
    for (protocol, is_v6, overhead) in [("vxlan", false, 36), ("geneve", true, 56), ("ipip", false, 20)] {
        let layer = if protocol == "ipip" { Layer::Ip } else { Layer::Ethernet };
        let longest = usize::from(port().mtu) - overhead;
        let bytes = [frame(1, 0x1234, &[]), vec![0; 2000]].concat();
        let bytes = if layer == Layer::Ip { [v4(0, b"x"), bytes].concat() } else { bytes };
        let sent = sent_by(&tunnel(protocol, is_v6), layer, &bytes[..longest]).unwrap();
        assert_eq!(sent.len(), 14 + usize::from(port().mtu));
        let longer = sent_by(&tunnel(protocol, is_v6), layer, &bytes[..longest + 1]);
        assert_eq!(longer, Err(Reason::OverlayTooLong), "{protocol}");
    }
}

/// RFC 6935, RFC 6936; RFC 7348, section 5.
#[test]
fn checksums_of_udp() {
    let bytes = frame(1, 0x0800, &v4(0, b"checked"));
    let checksum = |sent: &[u8], at: usize| u16::from_be_bytes([sent[at], sent[at + 1]]);
    let over_v4 = sent_by(&tunnel("vxlan", false), Layer::Ethernet, &bytes).unwrap();
    assert_eq!(checksum(&over_v4, 40), 0);
    let over_v6 = sent_by(&tunnel("vxlan", true), Layer::Ethernet, &bytes).unwrap();
    let flow = wire::Flow::of(&over_v6).unwrap();
    let datagram = wire::udp::Datagram::new_checked(&over_v6[54..]).unwrap();
    assert!(datagram.checksum() != 0 && datagram.verify_checksum(flow.addresses));
    let without = Tunnel { udp_checksum: false, ..tunnel("vxlan", true) };
    let sent = sent_by(&without, Layer::Ethernet, &bytes).unwrap();
    assert_eq!(checksum(&sent, 60), 0);
    assert_eq!(received_by(&without, Layer::Ethernet, true, &sent), Ok(bytes.clone()));
    assert_eq!(received_by(&without, Layer::Ethernet, false, &sent), Err(Reason::OverlayZeroChecksum));
    for mut sent in [
        over_v6,
        sent_by(&Tunnel { udp_checksum: true, ..tunnel("vxlan", false) }, Layer::Ethernet, &bytes).unwrap(),
    ] {
        let is_v6 = sent[12] == 0x86;
        *sent.last_mut().unwrap() ^= 1;
        let out = received_by(&tunnel("vxlan", is_v6), Layer::Ethernet, false, &sent);
        assert_eq!(out, Err(Reason::OverlayOuterChecksum));
    }
}

/// RFC 2473, section 4.1.1: Linux puts a limit of encapsulations in front.
#[test]
fn options_of_the_outer_header() {
    let bytes = v4(0, b"limited");
    let sent = sent_by(&tunnel("ipip", true), Layer::Ip, &bytes).unwrap();
    let mut limited = sent.clone();
    limited.splice(54..54, [4, 0, 4, 1, 4, 1, 1, 0]);
    (limited[20], limited[19]) = (60, limited[19] + 8);
    assert_eq!(received_by(&tunnel("ipip", true), Layer::Ip, false, &limited), Ok(bytes));
}

#[test]
fn sequence_numbers_and_checksums_of_gre() {
    let numbered = Tunnel { gre_sequence: true, gre_checksum: true, ..tunnel("gre", false) };
    let mut here = table();
    here.add_network(NETWORK, Network::point_to_point(Layer::Ip)).unwrap();
    here.insert(NETWORK, 0, numbered.clone()).unwrap();
    let mut sender = here.encapsulator();
    here.publish();
    let mut buffers = Buffers::new();
    let mut numbers = Vec::new();
    for _ in 0..3 {
        let mut packet = buffers.packet(&v4(0, b"odd"));
        assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3));
        let gre = wire::tunnel::gre::Packet::new_checked(&packet[34..]).unwrap();
        assert!(gre.checksum().is_some() && gre.verify_checksum());
        numbers.push(gre.sequence().unwrap());
    }
    assert_eq!((numbers[1] - numbers[0], numbers[2] - numbers[1]), (1, 1));
    let mut sent = sent_by(&numbered, Layer::Ip, &v4(0, b"odd")).unwrap();
    *sent.last_mut().unwrap() ^= 1;
    assert_eq!(received_by(&numbered, Layer::Ip, false, &sent), Err(Reason::OverlayOuterChecksum));
}

/// A packet in several buffers is summed up and counted whole.
#[test]
fn packets_in_several_buffers() {
    let mut here = table();
    let tunnel = Tunnel { udp_checksum: true, ..tunnel("gtpu", true) };
    here.add_network(NETWORK, Network::point_to_point(Layer::Ip)).unwrap();
    here.insert(NETWORK, 0, tunnel.clone()).unwrap();
    let mut sender = here.encapsulator();
    here.publish();
    let mut buffers = Buffers::new();
    let bytes = v4(0, &[7; 100]);
    let mut packet = buffers.packet(&bytes[..51]);
    packet.append(buffers.packet(&bytes[51..]));
    assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3));
    let whole: Vec<u8> = packet.segments().flat_map(|segment| segment.iter().copied()).collect();
    assert_eq!(received_by(&tunnel, Layer::Ip, false, &whole), Ok(bytes.clone()));
    let mut there = table();
    there.add_network(NETWORK, Network::point_to_point(Layer::Ip)).unwrap();
    there.add_end(NETWORK, &reversed(&tunnel), false).unwrap();
    let mut receiver = there.decapsulator();
    there.publish();
    assert_eq!(decapsulate(&mut receiver, &mut packet), Received::Network(NETWORK));
    let whole: Vec<u8> = packet.segments().flat_map(|segment| segment.iter().copied()).collect();
    assert_eq!(whole, bytes);
}
