//! What a host that looks for its addresses sends: messages as frames, or as packets that
//! want a next hop.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::ethernet::{self, EtherType};
use wire::ip::{Addresses, Protocol};
use wire::{MacAddress, icmpv6, ipv4, ipv6, ndp, udp};

/// What is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A frame, as it is.
    Frame(Vec<u8>),
    /// An IP packet, whose next hop is to be found.
    Packet(Vec<u8>),
}

/// A datagram as an IPv4 packet.
pub(crate) fn datagram(src: Ipv4Addr, dst: Ipv4Addr, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let header = udp::Repr { src_port: ports.0, dst_port: ports.1, payload_len: payload.len() };
    let body = [&header.header().into_inner()[..], payload].concat();
    let mut bytes = vec![0; ipv4::HEADER_LEN];
    ipv4::Repr::between(src, dst, Protocol::UDP, body.len())
        .emit(&mut ipv4::Packet::new_unchecked(&mut bytes[..]));
    bytes.extend(body);
    let mut datagram = udp::Datagram::new_unchecked(&mut bytes[ipv4::HEADER_LEN..]);
    datagram.fill_checksum(Addresses::V4 { src, dst });
    bytes
}

/// A datagram to all hosts of the link, as a frame.
pub(crate) fn broadcast_datagram(
    mac: MacAddress,
    src: Ipv4Addr,
    ports: (u16, u16),
    payload: &[u8],
) -> Vec<u8> {
    let link = ethernet::Header::between(MacAddress::BROADCAST, mac, EtherType::IPV4).into_inner();
    [&link[..], &datagram(src, Ipv4Addr::BROADCAST, ports, payload)].concat()
}

/// A message of neighbor discovery to a group, as a frame; its checksum is filled in.
fn to_group(mac: MacAddress, src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ethernet::HEADER_LEN + ipv6::HEADER_LEN + message.len()];
    let mut frame = ethernet::Frame::new_unchecked(&mut bytes[..]);
    let dst_mac = MacAddress::of_ipv6_group(dst);
    ethernet::Repr { dst: dst_mac, src: mac, ethertype: EtherType::IPV6 }.emit(&mut frame);
    let mut packet = ipv6::Packet::new_unchecked(frame.payload_mut());
    let len = message.len() as u16;
    let addresses = packet.header_mut().fill(src, dst, Protocol::ICMPV6, len, ndp::HOP_LIMIT);
    packet.payload_mut().copy_from_slice(message);
    icmpv6::Packet::new_unchecked(packet.payload_mut()).fill_checksum(addresses);
    bytes
}

/// A router solicitation (RFC 4861, section 4.1).
pub(crate) fn router_solicitation(mac: MacAddress, src: Ipv6Addr) -> Vec<u8> {
    let mut head = icmpv6::Header::zeroed();
    head.set_message_type(icmpv6::ROUTER_SOLICITATION);
    let mut option = ndp::AddressOption::zeroed();
    option.set_kind(ndp::SOURCE_ADDRESS);
    option.set_mac(mac);
    let message: [u8; ndp::ROUTER_SOLICITATION_LEN] = head.into_inner();
    to_group(mac, src, ndp::ALL_ROUTERS, &[message, option.into_inner()].concat())
}

/// A question whether somebody has an address that this host is about to have: from nobody, and so
/// without an option that says who asks (RFC 4861, section 4.3; RFC 4862, section 5.4.2).
pub(crate) fn duplicate_probe(mac: MacAddress, target: Ipv6Addr) -> Vec<u8> {
    let mut head = ndp::Header::zeroed();
    head.set_message_type(icmpv6::NEIGHBOR_SOLICITATION);
    head.set_target(target);
    to_group(mac, Ipv6Addr::UNSPECIFIED, ndp::solicited_group(target), &head.into_inner())
}
