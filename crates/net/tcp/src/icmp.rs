//! Messages of ICMP about segments that this host sent.

use std::net::IpAddr;

use wire::ip::{Addresses, Protocol};
use wire::{Flow, icmpv4, icmpv6, ipv4, ipv6, tcp};

use crate::key::Key;

/// A router has dropped a segment that was too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooBig {
    /// The connection that it belongs to.
    pub key: Key,
    /// The number of its first byte.
    pub sequence: u32,
    /// The longest packet that the path takes, in bytes; zero from routers that do not tell.
    pub mtu: u32,
}

impl TooBig {
    /// Reads a message in a frame whose layers are `flow`; `None` when it is another one, or
    /// not sound.
    pub fn of(flow: &Flow, frame: &[u8]) -> Option<TooBig> {
        let message = frame.get(flow.l4_offset()..flow.end).filter(|_| !flow.fragment)?;
        match (flow.addresses, flow.protocol) {
            (Addresses::V4 { .. }, Protocol::ICMP) => TooBig::of_v4(message),
            (Addresses::V6 { .. }, Protocol::ICMPV6) => TooBig::of_v6(flow.addresses, message),
            _ => None,
        }
    }

    fn of_v4(message: &[u8]) -> Option<TooBig> {
        let icmp = icmpv4::Packet::new_checked(message).ok()?;
        let is_one = icmp.message_type() == icmpv4::UNREACHABLE && icmp.code() == icmpv4::NEEDS_FRAGMENTS;
        let mtu = icmpv4::Header::of(message).filter(|_| is_one && icmp.verify_checksum())?.mtu();
        let quoted = icmp.data();
        let ip = ipv4::Header::of(quoted).filter(|ip| ip.protocol() == Protocol::TCP)?;
        let segment = quoted.get(ip.header_len()..).filter(|_| !ip.is_fragment())?;
        TooBig::about(ip.src().into(), ip.dst().into(), segment, mtu.into())
    }

    fn of_v6(addresses: Addresses, message: &[u8]) -> Option<TooBig> {
        let icmp = icmpv6::Packet::new_checked(message).ok()?;
        let is_one = icmp.message_type() == icmpv6::TOO_BIG;
        let mtu = icmpv6::Header::of(message).filter(|_| is_one && icmp.verify_checksum(addresses))?.mtu();
        let quoted = icmp.data();
        // This host sends no extension headers with TCP.
        let ip = ipv6::Header::of(quoted).filter(|ip| ip.next_header() == Protocol::TCP)?;
        TooBig::about(ip.src().into(), ip.dst().into(), quoted.get(ipv6::HEADER_LEN..)?, mtu)
    }

    fn about(local: IpAddr, remote: IpAddr, segment: &[u8], mtu: u32) -> Option<TooBig> {
        let segment = tcp::Quoted::of(segment)?;
        let key = Key { local, remote, local_port: segment.src_port(), remote_port: segment.dst_port() };
        Some(TooBig { key, sequence: segment.sequence(), mtu })
    }
}
