//! Headers in front of many packets, as tunnels and sources of packets write them: made
//! once, copied in front of each packet, and completed by what differs between packets:
//! lengths, identification, checksum and what tells flows apart.
//!
//! ```
//! use std::net::Ipv4Addr;
//! use wire::ethernet::{self, EtherType};
//! use wire::ip::Protocol;
//! use wire::outer::{Outer, PerPacket};
//! use wire::{MacAddress, flow, ipv4};
//!
//! // A tunnel with eight bytes of its own over UDP's port 4789 (RFC 7348).
//! let (dst, src) = (MacAddress([2, 0, 0, 0, 0, 2]), MacAddress([2, 0, 0, 0, 0, 1]));
//! let ends = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
//! let ip = ipv4::Repr { dont_fragment: true, ..ipv4::Repr::between(ends.0, ends.1, Protocol::UDP, 0) };
//! let outer = Outer::<64>::new()
//!     .ethernet(&ethernet::Repr { dst, src, ethertype: EtherType::IPV4 })
//!     .and_then(|outer| outer.ipv4(&ip))
//!     .and_then(|outer| outer.udp(0, 4789))
//!     .and_then(|outer| outer.bytes(&[8, 0, 0, 0, 0, 0, 100, 0]))
//!     .expect("64 bytes are enough");
//!
//! let inner = [0; 60]; // the packet
//! let mut room = [0; 50]; // in front of it
//! let packet = PerPacket { flow_hash: Some(flow::hash(&inner)), ..PerPacket::default() };
//! assert!(outer.write(&mut room, inner.len(), packet));
//! let packet = [&room[..], &inner].concat();
//! assert!(ipv4::Packet::new_checked(&packet[14..]).unwrap().verify_checksum());
//! ```
//!
//! Tunnels' own headers are in [`tunnel`](crate::tunnel) and are added as bytes; headers behind
//! UDP's are not looked into.

use crate::ethernet::{self, EtherType};
use crate::ip::Addresses;
use crate::{flow, ipv4, ipv6, udp, vlan};

/// Where the IP header is that is completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Network {
    None,
    V4(usize),
    V6(usize),
}

/// What differs between the packets that have the same headers in front of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerPacket {
    /// The IPv4 header's identification.
    pub identification: u16,
    /// A flow's hash: the UDP source port ([`flow::source_port`]) and IPv6's flow label
    /// ([`flow::label`]) are made of it.
    pub flow_hash: Option<u32>,
    /// Bits that are set in the traffic class beside those of the template, such as the
    /// packet's own [`ecn`](crate::ecn).
    pub traffic_class: u8,
}

/// Headers of `N` bytes at most. The functions that add one give `None` where there is no
/// room for it, and where a second IP or UDP header would have to be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Outer<const N: usize> {
    bytes: [u8; N],
    len: usize,
    network: Network,
    udp: Option<usize>,
}

impl<const N: usize> Default for Outer<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Outer<N> {
    /// Starts without headers, to be added from the outermost on.
    pub const fn new() -> Self {
        Outer { bytes: [0; N], len: 0, network: Network::None, udp: None }
    }

    /// Adds bytes that stay as they are, such as a tunnel's own header.
    pub fn bytes(mut self, bytes: &[u8]) -> Option<Self> {
        self.bytes.get_mut(self.len..)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
        self.len += bytes.len();
        Some(self)
    }

    /// Adds an Ethernet header.
    pub fn ethernet(self, header: &ethernet::Repr) -> Option<Self> {
        self.bytes(&header.header().into_inner())
    }

    /// Adds a VLAN tag behind an Ethernet header that announces it: its control
    /// information, and what follows.
    pub fn vlan(self, control: u16, ethertype: EtherType) -> Option<Self> {
        let mut tag = vlan::Header::zeroed();
        tag.set_control(control);
        tag.set_ethertype(ethertype);
        self.bytes(&tag.into_inner())
    }

    /// Adds an IPv4 header. Its lengths, identification and checksum are made for each
    /// packet.
    pub fn ipv4(self, header: &ipv4::Repr) -> Option<Self> {
        let at = self.len;
        let outer = self.bytes(&header.template().into_inner())?;
        outer.with_network(Network::V4(at))
    }

    /// Adds an IPv6 header. Its length is made for each packet, and its flow label where
    /// flows are told apart.
    pub fn ipv6(self, header: &ipv6::Repr) -> Option<Self> {
        let at = self.len;
        let outer = self.bytes(&header.header().into_inner())?;
        outer.with_network(Network::V6(at))
    }

    fn with_network(self, network: Network) -> Option<Self> {
        (self.network == Network::None).then_some(Outer { network, ..self })
    }

    /// Adds a UDP header. Its length is made for each packet, and its source port where
    /// flows are told apart. It has no checksum (RFC 768; over IPv6 only tunnels may do
    /// without, RFC 6935) until [`fill_udp_checksum`](Outer::fill_udp_checksum).
    pub fn udp(self, src_port: u16, dst_port: u16) -> Option<Self> {
        let at = self.len;
        let header = udp::Repr { src_port, dst_port, payload_len: 0 }.header();
        let outer = self.bytes(&header.into_inner())?;
        outer.udp.is_none().then_some(Outer { udp: Some(at), ..outer })
    }

    /// Bytes of all headers.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// All headers, with nothing in them that differs between packets.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Whether there is no header.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the IP header begins, for who changes more of it once it is written: the
    /// traffic class, the hops left.
    pub const fn network_offset(&self) -> Option<usize> {
        match self.network {
            Network::None => None,
            Network::V4(at) | Network::V6(at) => Some(at),
        }
    }

    /// Where the UDP header begins.
    pub const fn udp_offset(&self) -> Option<usize> {
        self.udp
    }

    /// The addresses of the IP header.
    pub fn addresses(&self) -> Option<Addresses> {
        match self.network {
            Network::None => None,
            Network::V4(at) => ipv4::Header::of(self.bytes.get(at..)?).map(|ip| ip.addresses()),
            Network::V6(at) => ipv6::Header::of(self.bytes.get(at..)?).map(|ip| ip.addresses()),
        }
    }

    /// Writes the headers to the start of `room`, in front of `payload_len` bytes. False, and
    /// nothing written, when there is no room or the packet is too long for its headers.
    #[inline]
    pub fn write(&self, room: &mut [u8], payload_len: usize, packet: PerPacket) -> bool {
        self.try_write(room, payload_len, packet).is_some()
    }

    #[inline(always)]
    fn try_write(&self, room: &mut [u8], payload_len: usize, packet: PerPacket) -> Option<()> {
        let room = room.get_mut(..self.len)?;
        // Bytes from a header on.
        let from = |at: usize| u16::try_from(self.len - at + payload_len).ok();
        let network_len = match self.network {
            Network::None => 0,
            Network::V4(at) => from(at)?,
            Network::V6(at) => from(at + ipv6::HEADER_LEN)?,
        };
        let udp_len = self.udp.map_or(Some(0), from)?;
        room.copy_from_slice(self.bytes.get(..self.len)?);
        match self.network {
            Network::None => {}
            Network::V4(at) => {
                let mut ip = ipv4::Header::of_mut(&mut room[at..])?;
                ip.complete(network_len, packet.identification);
                if packet.traffic_class != 0 {
                    ip.update_traffic_class(ip.traffic_class() | packet.traffic_class);
                }
            }
            Network::V6(at) => {
                let mut ip = ipv6::Header::of_mut(&mut room[at..])?;
                ip.set_payload_len(network_len);
                if packet.traffic_class != 0 {
                    ip.set_version(ip.traffic_class() | packet.traffic_class, ip.flow_label());
                }
                if let Some(hash) = packet.flow_hash {
                    ip.set_flow_label(flow::label(hash));
                }
            }
        }
        if let Some(at) = self.udp {
            let mut udp = udp::Header::of_mut(&mut room[at..])?;
            udp.set_total_len(udp_len);
            if let Some(hash) = packet.flow_hash {
                udp.set_src_port(flow::source_port(hash));
            }
        }
        Some(())
    }

    /// Computes the UDP checksum of a packet that begins with these headers as they were
    /// written, and sets it. False, and nothing changed, without a UDP header behind an IP
    /// header, or when the packet is not all there.
    pub fn fill_udp_checksum(&self, packet: &mut [u8]) -> bool {
        let (Some(at), Some(network)) = (self.udp, self.network_offset()) else { return false };
        if at < network {
            return false;
        }
        let datagram = packet.get_mut(at..).and_then(|bytes| udp::Datagram::new_checked(bytes).ok());
        let (Some(addresses), Some(mut datagram)) = (self.addresses(), datagram) else { return false };
        datagram.fill_checksum(addresses);
        true
    }
}
