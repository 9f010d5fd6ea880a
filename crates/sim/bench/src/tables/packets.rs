//! Packets of strangers: one for each number, no two of a case with the same key.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::arp::{Operation, Repr as Arp};
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::{MacAddress, icmpv4, ipv4, ipv6, udp};

/// Bytes of the longest packet.
const ROOM: usize = 128;

/// What a packet begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Layer {
    #[default]
    Ethernet,
    Ipv4,
    Ipv6,
}

/// A packet that is made.
pub(super) struct Frame {
    room: [u8; ROOM],
    len: usize,
    pub(super) layer: Layer,
}

impl Default for Frame {
    fn default() -> Frame {
        Frame { room: [0; ROOM], len: 0, layer: Layer::default() }
    }
}

/// A gateway's inside host, a host outside, and the router's own.
const INSIDE: u32 = 0x0A00_0001;
const OUTSIDE: u32 = 0xC000_0201;
const OWN_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

impl Frame {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.room[..self.len]
    }

    /// An IPv4 packet, but for its payload; where that is.
    fn ipv4(&mut self, repr: ipv4::Repr) -> &mut [u8] {
        (self.layer, self.len) = (Layer::Ipv4, ipv4::HEADER_LEN + repr.payload_len);
        repr.emit(&mut ipv4::Packet::new_unchecked(&mut self.room[..self.len]));
        &mut self.room[ipv4::HEADER_LEN..self.len]
    }

    fn udp(&mut self, src: (u32, u16), dst: (u32, u16)) {
        let ends = (Ipv4Addr::from_bits(src.0), Ipv4Addr::from_bits(dst.0));
        let ip = ipv4::Repr::between(ends.0, ends.1, Protocol::UDP, udp::HEADER_LEN + 16);
        let payload = self.ipv4(ip);
        let repr = udp::Repr { src_port: src.1, dst_port: dst.1, payload_len: 16 };
        repr.emit(&mut udp::Datagram::new_unchecked(payload));
    }
}

/// Another number for each, never zero, so that neighbours part.
pub(super) fn spread(n: u64) -> u32 {
    (n as u32 + 1).wrapping_mul(0x9E37_79B1)
}

/// Flows of inside hosts to one host outside, 60,000 of each of them.
pub(super) fn to_one_host(n: u64, frame: &mut Frame) {
    let port = 1024 + (n % 60_000) as u16;
    frame.udp((INSIDE + (n / 60_000) as u32, port), (OUTSIDE, 80));
}

/// Flows of one inside host to hosts everywhere.
pub(super) fn to_many_hosts(n: u64, frame: &mut Frame) {
    frame.udp((INSIDE, 1024 + (n % 60_000) as u16), (spread(n), 80));
}

/// Flows of which all have the same number in Click's hash table.
pub(super) fn colliding(n: u64, frame: &mut Frame) {
    let src = spread(n);
    // `FlowId::number` turns the source by its port modulo 16 and one more, the destination by
    // 31 less its port modulo 16, and combines them: by 1 and 31 with these ports.
    let dst = src.swap_bytes().rotate_left(1).rotate_right(31).swap_bytes();
    frame.udp((src, 1024), (dst, 80));
}

/// Datagrams of two hosts, each with other ports.
pub(super) fn of_two_hosts(n: u64, frame: &mut Frame) {
    frame.udp((INSIDE, n as u16), (OUTSIDE, (n >> 16) as u16));
}

/// Datagrams of other hosts to one.
pub(super) fn of_many_hosts(n: u64, frame: &mut Frame) {
    frame.udp((spread(n), 1024), (OUTSIDE, 80));
}

/// Packets to the hosts of a network, one after the other.
pub(super) fn scan(n: u64, frame: &mut Frame) {
    frame.udp((OUTSIDE, 1024), (0x0A00_0002 + n as u32, 80));
}

/// The same, for IPv6.
pub(super) fn scan6(n: u64, frame: &mut Frame) {
    (frame.layer, frame.len) = (Layer::Ipv6, ipv6::HEADER_LEN + 16);
    let src = Ipv6Addr::from_bits(0x2001_0db8_0001 << 80 | 1);
    let dst = Ipv6Addr::from_bits(0x2001_0db8_0000 << 80 | u128::from(n + 2));
    let mut packet = ipv6::Packet::new_unchecked(&mut frame.room[..frame.len]);
    packet.header_mut().fill(src, dst, Protocol::UDP, 16, 64);
}

/// Echo requests from one host to another for each number.
pub(super) fn pings(n: u64, frame: &mut Frame) {
    let ends = (Ipv4Addr::from_bits(INSIDE), Ipv4Addr::from_bits(spread(n)));
    let message = frame.ipv4(ipv4::Repr::between(ends.0, ends.1, Protocol::ICMP, icmpv4::HEADER_LEN));
    message.fill(0);
    if let Some(mut icmp) = icmpv4::Header::of_mut(message) {
        icmp.set_message_type(icmpv4::ECHO_REQUEST);
        icmp.set_identifier(n as u16);
    }
}

/// First fragments, of packets of which no others come.
pub(super) fn first_fragments(n: u64, frame: &mut Frame) {
    fragment(n, 0, frame);
}

/// Fragments that say that much is missing in front of them.
pub(super) fn far_fragments(n: u64, frame: &mut Frame) {
    fragment(n, 65_000, frame);
}

fn fragment(n: u64, fragment_offset: u16, frame: &mut Frame) {
    let ends = (Ipv4Addr::from_bits(spread(n)), Ipv4Addr::from_bits(OUTSIDE));
    let ip = ipv4::Repr::between(ends.0, ends.1, Protocol::UDP, 16);
    frame.ipv4(ipv4::Repr { more_fragments: true, fragment_offset, ..ip });
}

/// Frames of other stations.
pub(super) fn stations(n: u64, frame: &mut Frame) {
    let [a, b, c, d] = spread(n).to_be_bytes();
    (frame.layer, frame.len) = (Layer::Ethernet, 60);
    let repr =
        ethernet::Repr { dst: OWN_MAC, src: MacAddress([2, 1, a, b, c, d]), ethertype: EtherType::IPV4 };
    repr.emit(&mut ethernet::Frame::new_unchecked(&mut frame.room[..frame.len]));
}

/// ARP replies that nobody asked for.
pub(super) fn arp_replies(n: u64, frame: &mut Frame) {
    let [a, b, c, d] = spread(n).to_be_bytes();
    let reply = Arp {
        operation: Operation::REPLY,
        sender_mac: MacAddress([2, 1, a, b, c, d]),
        sender_ip: Ipv4Addr::from_bits(0x0A00_0002 + n as u32),
        target_mac: OWN_MAC,
        target_ip: Ipv4Addr::from_bits(INSIDE),
    };
    let bytes = neighbor::arp::frame(&reply, OWN_MAC);
    (frame.layer, frame.len) = (Layer::Ethernet, bytes.len());
    frame.room[..bytes.len()].copy_from_slice(&bytes);
}
