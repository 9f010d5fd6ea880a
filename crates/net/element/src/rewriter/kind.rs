//! What the rewriters do differently: what makes a flow, and what a mapping may be.

use std::net::Ipv4Addr;

use wire::icmpv4::{self, ECHO_REPLY, ECHO_REQUEST};
use wire::ip::{Ports, Protocol};
use wire::{ipv4, udp};

use super::flow::Tracking;
use super::flow_id::FlowId;
use graph::ip_header;

pub(crate) const ICMP: u8 = Protocol::ICMP.0;
pub(crate) const TCP: u8 = Protocol::TCP.0;
pub(crate) const UDP: u8 = Protocol::UDP.0;
pub(crate) const DCCP: u8 = Protocol::DCCP.0;

/// Kinds of rewriters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum RewriterKind {
    /// `IPRewriter`: TCP and UDP, each with flows of its own.
    #[default]
    Ip,
    /// `TCPRewriter`: TCP, with its sequence numbers.
    Tcp,
    /// `UDPRewriter`: all that has ports.
    Udp,
    /// `IPAddrRewriter`: source addresses.
    Address,
    /// `IPAddrPairRewriter`: pairs of source and destination address.
    Pair,
    /// `ICMPPingRewriter`: echo requests. The identifier is their source port; the
    /// destination port is another number, which tells requests from replies.
    Ping,
}

/// The addresses of an IP header, as numbers.
pub(super) fn addresses(header: &[u8]) -> (u32, u32) {
    (ip_header::u32_at(header, ipv4::offset::SRC), ip_header::u32_at(header, ipv4::offset::DST))
}

impl RewriterKind {
    /// The identity of a packet: its map, its protocol, its flow. `None` when it is
    /// none to rewrite.
    pub(crate) fn key(self, header: &[u8], payload: &[u8]) -> Option<(usize, u8, FlowId)> {
        let protocol = ip_header::protocol(header).0;
        let (src, dst) = addresses(header);
        if matches!(self, RewriterKind::Address | RewriterKind::Pair) {
            return Some((0, protocol, FlowId { src, dst, ..FlowId::default() }));
        }
        let has_ports = match self {
            RewriterKind::Ip => matches!(protocol, TCP | UDP),
            RewriterKind::Tcp => protocol == TCP,
            RewriterKind::Udp => matches!(protocol, TCP | UDP | DCCP),
            _ => protocol == ICMP && matches!(payload.first(), Some(&(ECHO_REQUEST | ECHO_REPLY))),
        };
        // Of an echo as far as the identifier, else what every header has.
        let least = if self == RewriterKind::Ping { icmpv4::offset::SEQUENCE } else { udp::HEADER_LEN };
        if !has_ports || !ip_header::is_first_fragment(header) || payload.len() < least {
            return None;
        }
        let (src_port, dst_port) = match self {
            RewriterKind::Ping => {
                let identifier = ip_header::u16_at(payload, icmpv4::offset::IDENTIFIER);
                echo_ports(identifier, payload.first() == Some(&ECHO_REQUEST))
            }
            _ => {
                let ports = Ports::of(payload)?;
                (ports.src(), ports.dst())
            }
        };
        let map = usize::from(self == RewriterKind::Ip && protocol == UDP);
        Some((map, protocol, FlowId { src, src_port, dst, dst_port }))
    }

    /// The same for somebody who asks by addresses and ports. `back`: about a packet
    /// that answers.
    pub(crate) fn asked(self, protocol: u8, id: FlowId, back: bool) -> Option<(usize, FlowId)> {
        match self {
            RewriterKind::Ip => match protocol {
                TCP => Some((0, id)),
                UDP => Some((1, id)),
                _ => None,
            },
            RewriterKind::Tcp | RewriterKind::Udp => Some((0, id)),
            RewriterKind::Address | RewriterKind::Pair => {
                Some((0, FlowId { src: id.src, dst: id.dst, ..FlowId::default() }))
            }
            RewriterKind::Ping if protocol != ICMP => None,
            RewriterKind::Ping => {
                let (src_port, dst_port) = echo_ports(id.src_port, !back);
                Some((0, FlowId { src_port, dst_port, ..id }))
            }
        }
    }

    /// What a new flow is known by, of a packet's identity.
    pub(crate) fn forward(self, id: FlowId) -> FlowId {
        match self {
            RewriterKind::Address => FlowId { src: id.src, ..FlowId::default() },
            _ => id,
        }
    }

    /// What follows from the rest of a new identity.
    pub(crate) fn complete(self, id: FlowId) -> FlowId {
        match self {
            RewriterKind::Ping => FlowId { dst_port: beside(id.src_port), ..id },
            _ => id,
        }
    }

    /// Whether packets can get this identity.
    pub(crate) fn can_become(self, id: FlowId) -> bool {
        match self {
            RewriterKind::Address => (id.src_port, id.dst, id.dst_port) == (0, 0, 0),
            RewriterKind::Pair => (id.src_port, id.dst_port) == (0, 0),
            _ => true,
        }
    }

    /// The protocol of a flow; zero for any.
    pub(crate) fn protocol(self, protocol: u8) -> u8 {
        if matches!(self, RewriterKind::Address | RewriterKind::Pair) { 0 } else { protocol }
    }

    pub(crate) fn tracking(self, protocol: u8) -> Tracking {
        match self {
            RewriterKind::Tcp => Tracking::Tcp,
            RewriterKind::Ip if protocol == TCP => Tracking::Tcp,
            RewriterKind::Ip | RewriterKind::Udp => Tracking::Datagram,
            _ => Tracking::None,
        }
    }

    /// Whether its TCP flows have sequence numbers that can shift.
    pub(crate) fn is_tcp(self) -> bool {
        matches!(self, RewriterKind::Ip | RewriterKind::Tcp)
    }

    /// A mapping as tables list it.
    pub(crate) fn unparse(self, from: FlowId, to: FlowId) -> String {
        let ip = Ipv4Addr::from_bits;
        match self {
            RewriterKind::Address => format!("{} => {}", ip(from.src), ip(to.src)),
            RewriterKind::Pair => {
                format!("({}, {}) => ({}, {})", ip(from.src), ip(from.dst), ip(to.src), ip(to.dst))
            }
            RewriterKind::Ping => format!(
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
