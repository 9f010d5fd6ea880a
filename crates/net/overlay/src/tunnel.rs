//! A tunnel as it is asked for: its protocol, its ends, and what its outer headers say. With
//! what the underlay knows of the way to the far end it becomes headers that are copied in
//! front of packets.

use std::net::{IpAddr, Ipv6Addr};

use wire::ethernet::{self, EtherType};
use wire::ip::Protocol as IpProtocol;
use wire::{MacAddress, ipv4, ipv6, vlan};

use crate::protocol::{self, Carrier, Headers, MAX_HEADERS, Payload, Protocol};

/// Hops of a tunnel's packets, where nothing else is asked for (IANA, IP option numbers).
pub const DEFAULT_TTL: u8 = 64;
/// Segments behind the first that a header has at most.
pub const MAX_SEGMENTS: usize = 2;

/// The upper six bits of the outer traffic class. ECN is copied in any case (RFC 6040).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dscp {
    /// This code point, 0 to 63, whatever the packet inside has (the pipe model, RFC 2983).
    Fixed(u8),
    /// That of the packet inside (the uniform model).
    Inherit,
}

/// A tunnel to one far end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tunnel {
    /// How packets are wrapped.
    pub protocol: &'static Protocol,
    /// The outer source address.
    pub local: IpAddr,
    /// The outer destination address; of a way of segments the first.
    pub remote: IpAddr,
    /// The identifier by which the far end knows the virtual network: a VNI, key, TEID or
    /// label.
    pub identifier: Option<u32>,
    /// Hops that the outer header allows.
    pub ttl: u8,
    /// The outer code point.
    pub dscp: Dscp,
    /// Whether routers of the underlay must not fragment (IPv4). Tunnels' ends do not put
    /// fragments together, so this should stay set (RFC 7348, section 4.3).
    pub dont_fragment: bool,
    /// The UDP port of the far end, where it is not the protocol's.
    pub port: Option<u16>,
    /// Whether UDP has a checksum. Over IPv6 the far end must have agreed to do without (RFC
    /// 6935, RFC 6936).
    pub udp_checksum: bool,
    /// Whether GRE has a checksum.
    pub gre_checksum: bool,
    /// Whether GRE numbers the packets. Each thread numbers those that it sends.
    pub gre_sequence: bool,
    /// The flow identifier (QFI) of GTP-U's PDU session extension.
    pub qos_flow: Option<u8>,
    /// The service path and index of a network service header in front of the payload.
    pub service: Option<(u32, u8)>,
    /// Segments behind the first, in the order of the way: at most [`MAX_SEGMENTS`].
    pub segments: Vec<Ipv6Addr>,
}

/// Why there is no such tunnel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTunnel {
    /// The ends are of different versions of IP.
    #[error("the ends {0} and {1} of a tunnel must both be IPv4 or both be IPv6 addresses")]
    Versions(IpAddr, IpAddr),
    /// An end is an address that no single host has.
    #[error("{0} is not an address of one host, as the end of a tunnel must be")]
    Address(IpAddr),
    /// The identifier does not fit.
    #[error("the identifier {identifier} of {protocol} must be below 2^{bits}")]
    Identifier {
        /// What was asked for.
        identifier: u32,
        /// The protocol's name.
        protocol: &'static str,
        /// Bits that it has for it.
        bits: u8,
    },
    /// The protocol has no identifier, or must have one.
    #[error("{protocol} {}", if *.has { "needs the identifier of the virtual network at the far end" } else { "has no identifier: its ends' addresses tell its networks apart" })]
    Presence {
        /// The protocol's name.
        protocol: &'static str,
        /// Whether it has identifiers.
        has: bool,
    },
    /// An option that the protocol does not have.
    #[error("{protocol} has no {option}")]
    Option {
        /// The protocol's name.
        protocol: &'static str,
        /// What was asked for.
        option: &'static str,
    },
    /// A number that its field has no room for.
    #[error("{value} is too much for the {field}, which is at most {most}")]
    Field {
        /// What the number is.
        field: &'static str,
        /// What was asked for.
        value: u32,
        /// What there is room for.
        most: u32,
    },
    /// No hop is allowed.
    #[error("packets of a tunnel with a TTL of 0 go nowhere")]
    Ttl,
    /// Too many segments.
    #[error("a way has at most {MAX_SEGMENTS} segments behind the first, and not {0}")]
    Segments(usize),
}

/// Whether an address may be one host's in packets between hosts (RFC 1122, section 3.2.1.3; RFC 4291,
/// section 2.5).
pub fn is_one_host(address: IpAddr) -> bool {
    let is_nobodys = match address {
        IpAddr::V4(address) => address.is_broadcast() || address.octets()[0] == 0,
        IpAddr::V6(address) => address.to_ipv4_mapped().is_some() || address.is_unspecified(),
    };
    !(is_nobodys || address.is_multicast() || address.is_loopback())
}

impl Tunnel {
    /// A tunnel with nothing but its ends, and what the standards advise for the rest.
    pub fn new(protocol: &'static Protocol, local: IpAddr, remote: IpAddr) -> Tunnel {
        Tunnel {
            protocol,
            local,
            remote,
            identifier: None,
            ttl: DEFAULT_TTL,
            dscp: Dscp::Fixed(0),
            dont_fragment: true,
            port: None,
            udp_checksum: remote.is_ipv6(),
            gre_checksum: false,
            gre_sequence: false,
            qos_flow: None,
            service: None,
            segments: Vec::new(),
        }
    }

    /// The same with the identifier by which the far end knows the virtual network.
    pub fn with_identifier(self, identifier: u32) -> Tunnel {
        Tunnel { identifier: Some(identifier), ..self }
    }

    /// Whether there can be such a tunnel.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), InvalidTunnel> {
        let (protocol, bits) = (self.protocol.name, self.protocol.identifier_bits);
        if self.local.is_ipv4() != self.remote.is_ipv4() {
            return Err(InvalidTunnel::Versions(self.local, self.remote));
        }
        let ends = [self.local, self.remote];
        if let Some(address) = ends.iter().find(|end| end.is_unspecified() || end.is_multicast()) {
            return Err(InvalidTunnel::Address(*address));
        }
        let is_gre = self.protocol.carrier == Carrier::Ip(IpProtocol::GRE);
        let carries_key = is_gre && bits == 32;
        match self.identifier {
            Some(_) if bits == 0 => return Err(InvalidTunnel::Presence { protocol, has: false }),
            None if bits != 0 && !carries_key => return Err(InvalidTunnel::Presence { protocol, has: true }),
            Some(identifier) if u64::from(identifier) >> bits != 0 => {
                return Err(InvalidTunnel::Identifier { identifier, protocol, bits });
            }
            _ => {}
        }
        let is_udp = matches!(self.protocol.carrier, Carrier::Udp(_));
        let is_routed = self.protocol.carrier == Carrier::Segments;
        let takes_service = self.protocol.payloads.contains(&Payload::Nsh);
        let options = [
            ("UDP port", self.port.is_some() && !is_udp),
            ("GRE checksum", self.gre_checksum && !carries_key),
            ("GRE sequence number", self.gre_sequence && !carries_key),
            ("flow identifier", self.qos_flow.is_some() && !self.protocol.has_qos_flow),
            ("network service header", self.service.is_some() && !takes_service),
            ("segments", !self.segments.is_empty() && !is_routed),
            ("end with an IPv4 address", is_routed && self.remote.is_ipv4()),
        ];
        if let Some((option, _)) = options.iter().find(|(_, is_wrong)| *is_wrong) {
            return Err(InvalidTunnel::Option { protocol, option });
        }
        self.check_fields()?;
        match self.segments.len() {
            0..=MAX_SEGMENTS => Ok(()),
            count => Err(InvalidTunnel::Segments(count)),
        }
    }

    /// Whether all numbers fit where they stand.
    fn check_fields(&self) -> Result<(), InvalidTunnel> {
        let code_point = match self.dscp {
            Dscp::Fixed(code_point) => code_point.into(),
            Dscp::Inherit => 0,
        };
        let fields = [
            ("code point", code_point, 63),
            ("flow identifier", self.qos_flow.unwrap_or(0).into(), 63),
            ("service path", self.service.map_or(0, |(path, _)| path), 0xFF_FFFF),
        ];
        match fields.iter().find(|(_, value, most)| value > most) {
            Some(&(field, value, most)) => Err(InvalidTunnel::Field { field, value, most }),
            None if self.ttl == 0 => Err(InvalidTunnel::Ttl),
            None => Ok(()),
        }
    }

    /// The number by which the outer IP header names what follows it.
    fn ip_protocol(&self, payload: Payload) -> Option<IpProtocol> {
        match self.protocol.carrier {
            Carrier::Udp(_) => Some(IpProtocol::UDP),
            Carrier::Ip(protocol) => Some(protocol),
            Carrier::Segments if !self.segments.is_empty() => Some(IpProtocol::ROUTING),
            Carrier::Payload | Carrier::Segments => payload.ip_protocol(),
        }
    }

    /// The headers in front of a payload. `None` when the tunnel does not carry it, or they
    /// are longer than [`MAX_HEADERS`].
    pub(crate) fn headers(&self, link: &Link, payload: Payload) -> Option<Headers> {
        if !self.protocol.payloads.contains(&payload) {
            return None;
        }
        let headers = self.network_headers(link.headers(self.remote)?, payload)?;
        let headers = match self.protocol.carrier {
            // The source port is made of the flow's hash for each packet.
            Carrier::Udp(port) => headers.udp(0, self.port.unwrap_or(port))?,
            _ => headers,
        };
        let headers = (self.protocol.add)(self, payload, headers)?;
        protocol::add_service(self, payload, headers)
    }

    fn network_headers(&self, headers: Headers, payload: Payload) -> Option<Headers> {
        let (protocol, ttl) = (self.ip_protocol(payload)?, self.ttl);
        let traffic_class = match self.dscp {
            Dscp::Fixed(code_point) => code_point << 2,
            Dscp::Inherit => 0,
        };
        match (self.local, self.remote) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let plain = ipv4::Repr::between(src, dst, protocol, 0);
                let dont_fragment = self.dont_fragment;
                headers.ipv4(&ipv4::Repr { ttl, traffic_class, dont_fragment, ..plain })
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => headers.ipv6(&ipv6::Repr {
                src,
                dst,
                next_header: protocol,
                hop_limit: ttl,
                traffic_class,
                flow_label: 0,
                payload_len: 0,
            }),
            _ => None,
        }
    }
}

/// The way from here to a tunnel's far end, or to the router in front of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Link {
    /// The underlay's port by which packets leave.
    pub port: u16,
    /// The Ethernet address of the next hop.
    pub dst: MacAddress,
    /// The Ethernet address of the port.
    pub src: MacAddress,
    /// The VLAN's tag in front of the IP header, as its control information.
    pub vlan: Option<u16>,
    /// Bytes of an IP packet, at most, on the way.
    pub mtu: u16,
}

impl Link {
    /// Bytes of the Ethernet header, with the tag.
    pub(crate) const fn header_len(&self) -> usize {
        ethernet::HEADER_LEN + if self.vlan.is_some() { vlan::HEADER_LEN } else { 0 }
    }

    fn headers(&self, remote: IpAddr) -> Option<Headers> {
        const { assert!(MAX_HEADERS >= 14 + 4 + 40 + 8 + 16 + 40, "the longest tunnel's headers") };
        let ip = if remote.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
        let ethertype = if self.vlan.is_some() { EtherType::VLAN } else { ip };
        let headers = Headers::new().ethernet(&ethernet::Repr { dst: self.dst, src: self.src, ethertype })?;
        match self.vlan {
            Some(control) => headers.vlan(control, ip),
            None => Some(headers),
        }
    }
}
