//! What both versions of IP share: protocol numbers, and the pair of addresses that
//! upper layers put into their checksums (RFC 9293, section 3.1; RFC 8200, section
//! 8.1).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum;

/// An upper layer protocol or IPv6 extension header (IANA, protocol numbers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Protocol(pub u8);

impl Protocol {
    /// Internet control messages of version 4.
    pub const ICMP: Protocol = Protocol(1);
    /// Transmission control.
    pub const TCP: Protocol = Protocol(6);
    /// User datagrams.
    pub const UDP: Protocol = Protocol(17);
    /// Internet control messages of version 6.
    pub const ICMPV6: Protocol = Protocol(58);
    /// Stream control transmission.
    pub const SCTP: Protocol = Protocol(132);
}

/// Source and destination, of one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// Version 4.
    V4 {
        /// From whom.
        src: Ipv4Addr,
        /// To whom.
        dst: Ipv4Addr,
    },
    /// Version 6.
    V6 {
        /// From whom.
        src: Ipv6Addr,
        /// To whom.
        dst: Ipv6Addr,
    },
}

impl Addresses {
    /// From whom.
    pub fn src(&self) -> IpAddr {
        match *self {
            Addresses::V4 { src, .. } => src.into(),
            Addresses::V6 { src, .. } => src.into(),
        }
    }

    /// To whom.
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
