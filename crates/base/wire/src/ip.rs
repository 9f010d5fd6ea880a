//! What both versions of IP share: protocol numbers, ports, and the pair of addresses
//! that upper layers put into their checksums (RFC 9293, section 3.1; RFC 8200,
//! section 8.1).

use std::borrow::{Borrow, BorrowMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{checksum, icmpv4, icmpv6, tcp, udp};

/// The largest length that a header of IP or UDP tells.
pub const LONGEST: usize = 0xFFFF;

/// An upper layer protocol or IPv6 extension header (IANA, protocol numbers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Protocol(pub u8);

impl Protocol {
    /// IPv6 options for every router.
    pub const HOP_BY_HOP: Protocol = Protocol(0);
    /// Internet control messages of version 4.
    pub const ICMP: Protocol = Protocol(1);
    /// Internet group management.
    pub const IGMP: Protocol = Protocol(2);
    /// IPv4 in IP.
    pub const IPV4: Protocol = Protocol(4);
    /// Transmission control protocol (RFC 9293).
    pub const TCP: Protocol = Protocol(6);
    /// User datagram protocol (RFC 768).
    pub const UDP: Protocol = Protocol(17);
    /// Datagram congestion control.
    pub const DCCP: Protocol = Protocol(33);
    /// IPv6 in IP.
    pub const IPV6: Protocol = Protocol(41);
    /// The IPv6 routing header.
    pub const ROUTING: Protocol = Protocol(43);
    /// The IPv6 fragment header.
    pub const FRAGMENT: Protocol = Protocol(44);
    /// Generic routing encapsulation.
    pub const GRE: Protocol = Protocol(47);
    /// Encapsulating security payload.
    pub const ESP: Protocol = Protocol(50);
    /// The authentication header.
    pub const AUTHENTICATION: Protocol = Protocol(51);
    /// Internet control messages of version 6.
    pub const ICMPV6: Protocol = Protocol(58);
    /// IPv6 options for the destination.
    pub const DESTINATION: Protocol = Protocol(60);
    /// An Ethernet frame in IP (RFC 8986, section 9.1).
    pub const ETHERNET: Protocol = Protocol(143);
    /// MPLS labels in IP (RFC 4023).
    pub const MPLS: Protocol = Protocol(137);
    /// Stream control transmission.
    pub const SCTP: Protocol = Protocol(132);
    /// Mobility header of IPv6 (RFC 6275).
    pub const MOBILITY: Protocol = Protocol(135);
    /// User datagrams whose checksum may leave out the payload.
    pub const UDP_LITE: Protocol = Protocol(136);
    /// Host identity protocol (RFC 7401).
    pub const HOST_IDENTITY: Protocol = Protocol(139);
    /// Level 3 multihoming (IPv6).
    pub const SHIM6: Protocol = Protocol(140);
}

/// Where the layer above IP has its checksum, in bytes from its start; `None` for
/// protocols that have none, or that this crate does not know.
#[inline]
pub fn checksum_offset(protocol: Protocol) -> Option<usize> {
    match protocol {
        Protocol::TCP => Some(tcp::offset::CHECKSUM),
        Protocol::UDP | Protocol::UDP_LITE => Some(udp::offset::CHECKSUM),
        Protocol::DCCP => Some(DCCP_CHECKSUM),
        Protocol::ICMP => Some(icmpv4::offset::CHECKSUM),
        Protocol::ICMPV6 => Some(icmpv6::offset::CHECKSUM),
        _ => None,
    }
}

/// Bytes of DCCP's header without options, with short sequence numbers (RFC 4340,
/// section 5.1).
pub const DCCP_HEADER_LEN: usize = 12;
/// Bytes of SCTP's common header (RFC 9260, section 3.1).
pub const SCTP_HEADER_LEN: usize = 12;
/// Where SCTP has its checksum, four bytes that are a CRC (RFC 9260, section 3.1).
pub const SCTP_CHECKSUM: usize = 8;
/// Where DCCP has its checksum (RFC 4340, section 5.1).
const DCCP_CHECKSUM: usize = 6;

/// Well-known ports (IANA, service names).
pub mod port {
    /// What comes is sent back (RFC 862).
    pub const ECHO: u16 = 7;
    /// What comes is discarded (RFC 863).
    pub const DISCARD: u16 = 9;
    /// HTTP (RFC 9110).
    pub const HTTP: u16 = 80;
    /// Caches that speak as memcached does.
    pub const MEMCACHED: u16 = 11_211;
    /// iperf3; nobody has registered it.
    pub const IPERF3: u16 = 5201;
}

header! {
    /// What TCP, UDP, DCCP and SCTP begin with: the ports.
    Ports[4]
}

impl<T: Borrow<[u8; 4]>> Ports<T> {
    /// From which port.
    #[inline(always)]
    pub fn src(&self) -> u16 {
        self.get::<0, _>()
    }

    /// To which port.
    #[inline(always)]
    pub fn dst(&self) -> u16 {
        self.get::<2, _>()
    }
}

impl<T: BorrowMut<[u8; 4]>> Ports<T> {
    /// Sets from which port.
    #[inline(always)]
    pub fn set_src(&mut self, port: u16) {
        self.set::<0, _>(port);
    }

    /// Sets to which port.
    #[inline(always)]
    pub fn set_dst(&mut self, port: u16) {
        self.set::<2, _>(port);
    }

    /// Exchanges source and destination port.
    #[inline(always)]
    pub fn swap(&mut self) {
        let (src, dst) = (self.src(), self.dst());
        self.set_src(dst);
        self.set_dst(src);
    }
}

/// Source and destination, of one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// Two addresses of IPv4.
    V4 {
        /// The source address.
        src: Ipv4Addr,
        /// The destination address.
        dst: Ipv4Addr,
    },
    /// Two addresses of IPv6.
    V6 {
        /// The source address.
        src: Ipv6Addr,
        /// The destination address.
        dst: Ipv6Addr,
    },
}

impl Addresses {
    /// The source address.
    #[inline]
    pub fn src(&self) -> IpAddr {
        match *self {
            Addresses::V4 { src, .. } => src.into(),
            Addresses::V6 { src, .. } => src.into(),
        }
    }

    /// The destination address.
    #[inline]
    pub fn dst(&self) -> IpAddr {
        match *self {
            Addresses::V4 { dst, .. } => dst.into(),
            Addresses::V6 { dst, .. } => dst.into(),
        }
    }

    /// The sum of the pseudo header before an upper layer packet of `len` bytes, not
    /// inverted. Lengths past 32 bits do not exist, and are cut.
    pub fn pseudo_header(&self, protocol: Protocol, len: usize) -> u16 {
        match self {
            Addresses::V4 { src, dst } => checksum::pseudo_header_v4(*src, *dst, protocol.0, len as u32),
            Addresses::V6 { src, dst } => checksum::pseudo_header_v6(*src, *dst, protocol.0, len as u32),
        }
    }
}
