//! What is emitted parses to what it was, checksums hold, and any single bit turned
//! over breaks them.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use wire::ethernet::EtherType;
use wire::ip::{Addresses, Protocol};
use wire::{MacAddress, arp, ethernet, icmpv4, icmpv6, ipv4, ipv6, tcp, udp, vlan};

fn mac() -> impl Strategy<Value = MacAddress> {
    any::<[u8; 6]>().prop_map(MacAddress)
}

fn addresses() -> impl Strategy<Value = Addresses> {
    let v4 = any::<(Ipv4Addr, Ipv4Addr)>().prop_map(|(src, dst)| Addresses::V4 { src, dst });
    let v6 = any::<(Ipv6Addr, Ipv6Addr)>().prop_map(|(src, dst)| Addresses::V6 { src, dst });
    prop_oneof![v4, v6]
}

fn tcp_repr() -> impl Strategy<Value = tcp::Repr> {
    let options =
        (any::<Option<u16>>(), prop::option::of(0..=14u8), any::<bool>(), any::<Option<(u32, u32)>>());
    (any::<(u16, u16, u32, u32, u8, u16, u16)>(), options).prop_map(|(fixed, options)| tcp::Repr {
        src_port: fixed.0,
        dst_port: fixed.1,
        sequence: fixed.2,
        acknowledgement: fixed.3,
        flags: tcp::Flags(fixed.4),
        window: fixed.5,
        urgent: fixed.6,
        max_segment: options.0,
        window_scale: options.1,
        sack_permitted: options.2,
        timestamps: options.3,
    })
}

/// Old bytes must not shine through, so headers are emitted over these.
fn junk(len: usize) -> Vec<u8> {
    vec![0xA5; len]
}

proptest! {
    #[test]
    fn ethernet(dst in mac(), src in mac(), ethertype: u16) {
        let repr = ethernet::Repr { dst, src, ethertype: EtherType(ethertype) };
        let mut frame = ethernet::Frame::new_unchecked(junk(repr.header_len()));
        repr.emit(&mut frame);
        prop_assert_eq!(ethernet::Repr::parse(&frame), Ok(repr));
        prop_assert_eq!(dst.to_string().parse(), Ok(dst));
    }

    #[test]
    fn vlan(priority in 0..8u8, drop_eligible: bool, id in 0..4096u16, ethertype: u16) {
        let repr = vlan::Repr { priority, drop_eligible, id, ethertype: EtherType(ethertype) };
        let mut tag = vlan::Tag::new_unchecked(junk(repr.header_len()));
        repr.emit(&mut tag);
        prop_assert_eq!(vlan::Repr::parse(&tag), Ok(repr));
    }

    #[test]
    fn arp(op: u16, sender_mac in mac(), sender_ip: Ipv4Addr, target_mac in mac(), target_ip: Ipv4Addr) {
        let operation = arp::Operation(op);
        let repr = arp::Repr { operation, sender_mac, sender_ip, target_mac, target_ip };
        let mut packet = arp::Packet::new_unchecked(junk(repr.len()));
        repr.emit(&mut packet);
        prop_assert_eq!(arp::Repr::parse(&packet), Ok(repr));
    }

    #[test]
    fn ipv4(
        ends: (Ipv4Addr, Ipv4Addr),
        bytes: (u8, u8, u8),
        identification: u16,
        flags: (bool, bool),
        offset in 0..8192u16,
        payload_len in 0..100usize,
        bit in 0..160usize,
    ) {
        let repr = ipv4::Repr {
            src: ends.0,
            dst: ends.1,
            protocol: Protocol(bytes.0),
            ttl: bytes.1,
            traffic_class: bytes.2,
            identification,
            dont_fragment: flags.0,
            more_fragments: flags.1,
            fragment_offset: offset * 8,
            payload_len,
        };
        let mut packet = ipv4::Packet::new_unchecked(junk(20 + payload_len + 7));
        repr.emit(&mut packet);
        prop_assert_eq!(ipv4::Repr::parse(&packet), Ok(repr));
        prop_assert_eq!(packet.payload().len(), payload_len);

        let mut hop = packet.clone();
        let hops = hop.header_mut().decrement_ttl();
        prop_assert_eq!(hops, repr.ttl > 1);
        let ttl = repr.ttl - u8::from(hops);
        prop_assert_eq!(ipv4::Repr::parse(&hop), Ok(ipv4::Repr { ttl, ..repr }));

        let mut bytes = packet.into_inner();
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(ipv4::Repr::parse(&ipv4::Packet::new_unchecked(bytes)).is_err());
    }

    #[test]
    fn ipv6(ends: (Ipv6Addr, Ipv6Addr), bytes: (u8, u8, u8), label in 0..1u32 << 20, payload_len in 0..100usize) {
        let repr = ipv6::Repr {
            src: ends.0,
            dst: ends.1,
            next_header: Protocol(bytes.0),
            hop_limit: bytes.1,
            traffic_class: bytes.2,
            flow_label: label,
            payload_len,
        };
        let mut packet = ipv6::Packet::new_unchecked(junk(40 + payload_len));
        repr.emit(&mut packet);
        prop_assert_eq!(ipv6::Repr::parse(&packet), Ok(repr));
    }

    #[test]
    fn udp(src_port: u16, dst_port: u16, payload: Vec<u8>, addresses in addresses(), bit: prop::sample::Index) {
        let repr = udp::Repr { src_port, dst_port, payload_len: payload.len() };
        let mut datagram = udp::Datagram::new_unchecked(junk(8 + payload.len()));
        repr.emit(&mut datagram);
        datagram.payload_mut().copy_from_slice(&payload);
        datagram.fill_checksum(addresses);
        prop_assert_eq!(udp::Repr::parse(&datagram), Ok(repr));
        prop_assert_ne!(datagram.checksum(), 0);
        prop_assert!(datagram.verify_checksum(addresses));

        // What a NIC does with the pseudo header's sum gives the same checksum.
        let whole = datagram.checksum();
        datagram.fill_pseudo_checksum(addresses);
        let by_nic = wire::checksum::of(datagram.as_ref());
        prop_assert_eq!(if by_nic == 0 { 0xFFFF } else { by_nic }, whole);
        datagram.set_checksum(whole);

        let mut bytes = datagram.into_inner();
        // Any bit but those of the length, which decide what is summed at all.
        let bit = bit.index(bytes.len() * 8 - 16);
        let bit = if bit >= 32 { bit + 16 } else { bit };
        bytes[bit / 8] ^= 1 << (bit % 8);
        let broken = udp::Datagram::new_unchecked(bytes);
        let none = broken.checksum() == 0 && matches!(addresses, Addresses::V4 { .. });
        prop_assert_eq!(broken.verify_checksum(addresses), none);
    }

    #[test]
    fn tcp(repr in tcp_repr(), payload: Vec<u8>, addresses in addresses(), bit: prop::sample::Index) {
        let mut segment = tcp::Segment::new_unchecked(junk(repr.header_len() + payload.len()));
        repr.emit(&mut segment);
        segment.payload_mut().copy_from_slice(&payload);
        segment.fill_checksum(addresses);
        prop_assert_eq!(segment.check(), Ok(()));
        prop_assert_eq!(tcp::Repr::parse(&segment), Ok(repr));
        prop_assert!(segment.verify_checksum(addresses));
        let mut bytes = segment.into_inner();
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!tcp::Segment::new_unchecked(bytes).verify_checksum(addresses));
    }

    #[test]
    fn icmp(reply: bool, identifier: u16, sequence: u16, data: Vec<u8>, addresses in addresses()) {
        let repr = icmpv4::Repr { reply, identifier, sequence, data: &data };
        let mut packet = icmpv4::Packet::new_unchecked(junk(repr.len()));
        repr.emit(&mut packet);
        packet.fill_checksum();
        prop_assert_eq!(icmpv4::Repr::parse(&packet), Ok(repr));
        prop_assert!(packet.verify_checksum());

        let repr = icmpv6::Repr { reply, identifier, sequence, data: &data };
        let mut packet = icmpv6::Packet::new_unchecked(junk(repr.len()));
        repr.emit(&mut packet);
        packet.fill_checksum(addresses);
        prop_assert_eq!(icmpv6::Repr::parse(&packet), Ok(repr));
        prop_assert!(packet.verify_checksum(addresses));
    }

    #[test]
    fn an_address_rewritten_keeps_the_checksum(from: [u8; 24], to: u32) {
        // A NAT's case: a 32-bit word of the sum changes. All zeros is no header.
        let mut bytes = from;
        bytes[23] |= 1;
        let before = wire::checksum::of(&bytes);
        let word = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        bytes[4..8].copy_from_slice(&to.to_be_bytes());
        prop_assert_eq!(wire::checksum::update_u32(before, word, to), wire::checksum::of(&bytes));
    }
}
