//! Flows of frames put together layer by layer.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::ethernet::EtherType;
use wire::ip::{Addresses, Protocol};
use wire::toeplitz::MICROSOFT_KEY;
use wire::{Error, Flow, Toeplitz, ethernet, ipv4, ipv6, udp, vlan};

const SRC: Ipv4Addr = Ipv4Addr::new(66, 9, 149, 187);
const DST: Ipv4Addr = Ipv4Addr::new(161, 142, 100, 80);

fn link(tags: &[u16], ethertype: EtherType) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN + tags.len() * vlan::HEADER_LEN];
    let next = |n: usize| if n < tags.len() { EtherType::VLAN } else { ethertype };
    ethernet::Frame::new_unchecked(&mut frame[..]).set_ethertype(next(0));
    for (n, &control) in tags.iter().enumerate() {
        let mut tag = vlan::Tag::new_unchecked(&mut frame[ethernet::HEADER_LEN + n * vlan::HEADER_LEN..]);
        tag.set_control(control);
        tag.set_ethertype(next(n + 1));
    }
    frame
}

fn udp_datagram() -> Vec<u8> {
    let mut datagram = udp::Datagram::new_unchecked(vec![0; 8 + 3]);
    udp::Repr { src_port: 2794, dst_port: 1766, payload_len: 3 }.emit(&mut datagram);
    datagram.into_inner()
}

fn ipv4_packet(protocol: Protocol, more_fragments: bool, fragment_offset: u16, payload: &[u8]) -> Vec<u8> {
    let repr = ipv4::Repr {
        src: SRC,
        dst: DST,
        protocol,
        ttl: 64,
        traffic_class: 0,
        identification: 0,
        dont_fragment: false,
        more_fragments,
        fragment_offset,
        payload_len: payload.len(),
    };
    let mut packet = ipv4::Packet::new_unchecked(vec![0; 20 + payload.len()]);
    repr.emit(&mut packet);
    packet.payload_mut().copy_from_slice(payload);
    packet.into_inner()
}

fn ipv6_packet(next_header: Protocol, payload: &[u8]) -> Vec<u8> {
    let repr = ipv6::Repr {
        src: Ipv6Addr::LOCALHOST,
        dst: Ipv6Addr::UNSPECIFIED,
        next_header,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
        payload_len: payload.len(),
    };
    let mut packet = ipv6::Packet::new_unchecked(vec![0; 40 + payload.len()]);
    repr.emit(&mut packet);
    packet.payload_mut().copy_from_slice(payload);
    packet.into_inner()
}

#[test]
fn ipv4_behind_any_number_of_tags() {
    let ip = ipv4_packet(Protocol::UDP, false, 0, &udp_datagram());
    for (tags, l2_len) in [(&[][..], 14), (&[0x2064], 18), (&[0x2064, 7], 22)] {
        let mut frame = [link(tags, EtherType::IPV4), ip.clone()].concat();
        frame.resize(60, 0xEE); // Ethernet's padding is no payload
        let flow = Flow::of(&frame).expect("valid");
        assert_eq!((flow.l3_offset(), flow.l4_offset()), (l2_len, l2_len + 20));
        assert_eq!(flow.payload_range(), l2_len + 28..l2_len + 31);
        assert_eq!(flow.vlan, tags.first().copied());
        assert_eq!(flow.addresses, Addresses::V4 { src: SRC, dst: DST });
        assert_eq!((flow.protocol, flow.ports, flow.fragment), (Protocol::UDP, Some((2794, 1766)), false));
        assert_eq!(Toeplitz::new(&MICROSOFT_KEY).hash(flow.rss_input().as_ref()), 0x51cc_c178);
    }
    let three = [link(&[1, 2, 3], EtherType::IPV4), ip].concat();
    assert_eq!(Flow::of(&three), Err(Error::Unsupported));
}

#[test]
fn fragments_have_no_ports_and_are_spread_by_address() {
    for (more, offset) in [(true, 0), (true, 8), (false, 8)] {
        let ip = ipv4_packet(Protocol::UDP, more, offset, &udp_datagram());
        let flow = Flow::of(&[link(&[], EtherType::IPV4), ip].concat()).expect("valid");
        assert_eq!((flow.fragment, flow.ports, flow.l4_len), (true, None, 0));
        assert_eq!(Toeplitz::new(&MICROSOFT_KEY).hash(flow.rss_input().as_ref()), 0x323e_8fc2);
    }
}

#[test]
fn ipv6_behind_extension_headers() {
    let options = [17, 0, 1, 4, 0, 0, 0, 0];
    let ip = ipv6_packet(Protocol(60), &[&options[..], &udp_datagram()].concat());
    let frame = [link(&[], EtherType::IPV6), ip].concat();
    let flow = Flow::of(&frame).expect("valid");
    assert_eq!((flow.l3_len, flow.l4_len, flow.ports), (48, 8, Some((2794, 1766))));
    assert_eq!(flow.rss_input().as_ref().len(), 36);

    // RFC 6946: the only fragment is no fragment; one with more to come is.
    for (more, ports) in [(0, Some((2794, 1766))), (1, None)] {
        let fragment = [17, 0, 0, more, 0, 0, 0, 1];
        let ip = ipv6_packet(Protocol(44), &[&fragment[..], &udp_datagram()].concat());
        let flow = Flow::of(&[link(&[], EtherType::IPV6), ip].concat()).expect("valid");
        assert_eq!((flow.fragment, flow.ports), (more == 1, ports));
    }
}

#[test]
fn what_is_no_ip_or_too_short_has_no_flow() {
    assert_eq!(Flow::of(&[0; 13]), Err(Error::Truncated));
    assert_eq!(Flow::of(&link(&[], EtherType::ARP)), Err(Error::Unsupported));
    for protocol in [Protocol::UDP, Protocol::TCP] {
        let ip = ipv4_packet(protocol, false, 0, &[0; 7]);
        // Padding must not be taken for the header that is missing.
        let mut frame = [link(&[], EtherType::IPV4), ip].concat();
        frame.resize(60, 0x50);
        assert_eq!(Flow::of(&frame), Err(Error::Truncated));
    }
    let icmp = ipv4_packet(Protocol::ICMP, false, 0, &[8, 0, 0, 0]);
    let flow = Flow::of(&[link(&[], EtherType::IPV4), icmp].concat()).expect("valid");
    assert_eq!((flow.ports, flow.payload_range()), (None, 34..38));
}
