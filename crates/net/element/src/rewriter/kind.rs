//! What the rewriters do differently: what makes a flow, and what a mapping may be.

use std::net::Ipv4Addr;

use super::flow_id::FlowId;
use super::flows::Tracking;
use crate::ip::header;

pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const DCCP: u8 = 33;

/// ICMP types.
pub(crate) const ECHO_REPLY: u8 = wire::icmpv4::ECHO_REPLY;
pub(crate) const ECHO: u8 = wire::icmpv4::ECHO_REQUEST;

/// Kinds of rewriters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `IPRewriter`: TCP and UDP, each with flows of its own.
    Ip,
    /// `TCPRewriter`.
    Tcp,
    /// `UDPRewriter`: all that has ports.
    Udp,
    /// `IPAddrRewriter`: source addresses.
    Address,
    /// `IPAddrPairRewriter`: addresses.
    Pair,
    /// `ICMPPingRewriter`: echo requests. The identifier is their source port; the
    /// destination port is another number, which tells requests from replies.
    Ping,
}

impl Kind {
    /// The identity of a packet: its map, its protocol, its flow. `None` when it is
    /// none to rewrite.
    pub(crate) fn key(self, header: &[u8], payload: &[u8]) -> Option<(usize, u8, FlowId)> {
        let protocol = header[9];
        let (src, dst) = (header::u32_at(header, 12), header::u32_at(header, 16));
        if matches!(self, Kind::Address | Kind::Pair) {
            return Some((0, protocol, FlowId { src, dst, ..FlowId::default() }));
        }
        let has_ports = match self {
            Kind::Ip => matches!(protocol, TCP | UDP),
            Kind::Tcp => protocol == TCP,
            Kind::Udp => matches!(protocol, TCP | UDP | DCCP),
            _ => protocol == ICMP && matches!(payload.first(), Some(&(ECHO | ECHO_REPLY))),
        };
        let least = if self == Kind::Ping { 6 } else { 8 };
        if !has_ports || !header::is_first_fragment(header) || payload.len() < least {
            return None;
        }
        let (src_port, dst_port) = match self {
            Kind::Ping => echo_ports(header::u16_at(payload, 4), payload[0] == ECHO),
            _ => (header::u16_at(payload, 0), header::u16_at(payload, 2)),
        };
        let map = usize::from(self == Kind::Ip && protocol == UDP);
        Some((map, protocol, FlowId { src, src_port, dst, dst_port }))
    }

    /// The same for somebody who asks by addresses and ports. `back`: about a packet
    /// that answers.
    pub(crate) fn asked(self, protocol: u8, id: FlowId, back: bool) -> Option<(usize, FlowId)> {
        match self {
            Kind::Ip => match protocol {
                TCP => Some((0, id)),
                UDP => Some((1, id)),
                _ => None,
            },
            Kind::Tcp | Kind::Udp => Some((0, id)),
            Kind::Address | Kind::Pair => Some((0, FlowId { src: id.src, dst: id.dst, ..FlowId::default() })),
            Kind::Ping if protocol != ICMP => None,
            Kind::Ping => {
                let (src_port, dst_port) = echo_ports(id.src_port, !back);
                Some((0, FlowId { src_port, dst_port, ..id }))
            }
        }
    }

    /// What a new flow is known by, of a packet's identity.
    pub(crate) fn forward(self, id: FlowId) -> FlowId {
        match self {
            Kind::Address => FlowId { src: id.src, ..FlowId::default() },
            _ => id,
        }
    }

    /// What follows from the rest of a new identity.
    pub(crate) fn complete(self, id: FlowId) -> FlowId {
        match self {
            Kind::Ping => FlowId { dst_port: beside(id.src_port), ..id },
            _ => id,
        }
    }

    /// Whether packets can get this identity.
    pub(crate) fn can_become(self, id: FlowId) -> bool {
        match self {
            Kind::Address => (id.src_port, id.dst, id.dst_port) == (0, 0, 0),
            Kind::Pair => (id.src_port, id.dst_port) == (0, 0),
            _ => true,
        }
    }

    /// The protocol of a flow; zero for any.
    pub(crate) fn protocol(self, protocol: u8) -> u8 {
        if matches!(self, Kind::Address | Kind::Pair) { 0 } else { protocol }
    }

    pub(crate) fn tracking(self, protocol: u8) -> Tracking {
        match self {
            Kind::Tcp => Tracking::Tcp,
            Kind::Ip if protocol == TCP => Tracking::Tcp,
            Kind::Ip | Kind::Udp => Tracking::Datagram,
            _ => Tracking::None,
        }
    }

    /// Whether its TCP flows have sequence numbers that can shift.
    pub(crate) fn is_tcp(self) -> bool {
        matches!(self, Kind::Ip | Kind::Tcp)
    }

    /// A mapping as tables list it.
    pub(crate) fn unparse(self, from: FlowId, to: FlowId) -> String {
        let ip = Ipv4Addr::from_bits;
        match self {
            Kind::Address => format!("{} => {}", ip(from.src), ip(to.src)),
            Kind::Pair => format!("({}, {}) => ({}, {})", ip(from.src), ip(from.dst), ip(to.src), ip(to.dst)),
            Kind::Ping => format!(
                "({}, {}, {}) => ({}, {}, {})",
                ip(from.src),
                ip(from.dst),
                from.src_port,
                ip(to.src),
                ip(to.dst),
                to.src_port
            ),
            _ => format!("{from} => {to}"),
        }
    }
}

/// The number that goes with an identifier: Click adds one to it in memory, which the
/// order of its tables shows.
fn beside(identifier: u16) -> u16 {
    identifier.swap_bytes().wrapping_add(1).swap_bytes()
}

fn echo_ports(identifier: u16, request: bool) -> (u16, u16) {
    let next = beside(identifier);
    if request { (identifier, next) } else { (next, identifier) }
}
