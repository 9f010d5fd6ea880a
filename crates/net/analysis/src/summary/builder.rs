//! A packet that is built: what a line says of it, until all is said.

use std::net::Ipv4Addr;

use memory::Packet;
use memory::annotation::Header;
use wire::ip::{Addresses, DCCP_HEADER_LEN, Protocol, checksum_offset};
use wire::{checksum, icmpv4, ipv4, tcp, udp};

use graph::Cx;
use graph::annotation::{AGGREGATE, EXTRA_LENGTH, EXTRA_PACKETS, PAINT, PacketAnnotations};
use graph::ip_header::{self, LEN, u16_at};

/// Bytes a packet may have.
const MOST: usize = 0x1_0000 + 64;

/// Addresses and ports of packets that have none of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
    pub(super) sport: u16,
    pub(super) dport: u16,
}

/// What holds for all packets of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Defaults {
    pub(super) protocol: u8,
    pub(super) flow: Option<Flow>,
    pub(super) aggregate: u32,
    pub(super) minor_version: u32,
}

impl Defaults {
    /// What a packet is of which a line says nothing.
    pub(super) const NOTHING: Defaults = Defaults { protocol: 0, flow: None, aggregate: 0, minor_version: 0 };
}

/// What a line said of a packet.
#[derive(Debug, Clone)]
pub(crate) struct PacketBuilder {
    pub(crate) timestamp_ns: i64,
    pub(super) first_ns: i64,
    /// Packets beyond the first that this one stands for.
    pub(super) extra_packets: u32,
    pub(super) paint: u8,
    pub(super) aggregate: u32,
    /// The packet's bytes, as far as they were said.
    pub(super) bytes: Vec<u8>,
    pub(super) link: Option<usize>,
    pub(super) network: Option<usize>,
    pub(super) transport: usize,
    /// It is an IP packet: nobody said another Ethernet type.
    pub(super) is_ip: bool,
    pub(super) has_icmp_type: bool,
    pub(super) has_icmp_code: bool,
    pub(super) has_ip_hl: bool,
    pub(super) has_tcp_hl: bool,
    /// Bytes of each of the packets that this one stands for, once that is known.
    pub(super) each: Option<u32>,
    /// When the last of them came, and how much time is between two.
    pub(super) last_ns: i64,
    pub(super) step_ns: i64,
    /// Bytes that the packet had, if that was said.
    pub(super) wanted: u32,
    /// Bytes that the packet had beyond those here.
    pub(super) extra_length: u32,
    pub(super) minor_version: u32,
    protocol: u8,
    flow: Option<Flow>,
}

impl PacketBuilder {
    /// A packet of which nothing is said.
    pub(super) fn new(defaults: Defaults) -> PacketBuilder {
        PacketBuilder {
            timestamp_ns: 0,
            first_ns: 0,
            extra_packets: 0,
            paint: 0,
            aggregate: defaults.aggregate,
            bytes: vec![],
            link: None,
            network: None,
            transport: 0,
            is_ip: true,
            has_icmp_type: false,
            has_icmp_code: false,
            has_ip_hl: false,
            has_tcp_hl: false,
            each: None,
            last_ns: 0,
            step_ns: 0,
            wanted: 0,
            extra_length: 0,
            minor_version: defaults.minor_version,
            protocol: defaults.protocol,
            flow: defaults.flow,
        }
    }

    /// Has at least so many bytes.
    pub(super) fn reach(&mut self, length: usize) {
        let length = length.min(MOST);
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
    }

    pub(super) fn put(&mut self, at: usize, value: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at + value.len()) {
            place.copy_from_slice(value);
        }
    }

    /// Says how long the IP header is.
    pub(super) fn put_ip_header_len(&mut self, length: usize) {
        let place = self.ip();
        self.put(place, &[ipv4::version_and_len(length)]);
    }

    /// The IP header's place.
    pub(super) fn ip(&self) -> usize {
        self.network.unwrap_or(0)
    }

    /// A byte of the IP header.
    pub(super) fn ip_byte(&self, at: usize) -> u8 {
        self.bytes.get(self.ip() + at).copied().unwrap_or(0)
    }

    /// What the IP header says that the packet carries; 0 is nothing yet.
    pub(super) fn ip_protocol(&self) -> Protocol {
        Protocol(self.ip_byte(ipv4::offset::PROTOCOL))
    }

    pub(super) fn ip_len(&self) -> u16 {
        u16_at(&self.bytes, self.ip() + ipv4::offset::TOTAL_LEN)
    }

    pub(super) fn is_first_fragment(&self) -> bool {
        ip_header::is_first_fragment(self.bytes.get(self.ip()..).unwrap_or(&[]))
    }

    /// Bytes behind the IP header.
    pub(super) fn transport_len(&self) -> usize {
        self.bytes.len().saturating_sub(self.transport)
    }

    /// The ICMP type that was said.
    pub(super) fn icmp_type(&self) -> Option<u8> {
        self.has_icmp_type.then(|| self.bytes.get(self.transport).copied()).flatten()
    }

    /// Makes it an IP packet, of `protocol` if that is not zero; whether it is one.
    pub(super) fn make_ip(&mut self, protocol: u8) -> bool {
        if !self.is_ip {
            return false;
        }
        let network = *self.network.get_or_insert(0);
        if self.bytes.len() < network + LEN {
            self.reach(network + LEN);
            self.transport = network + LEN;
            self.put_ip_header_len(LEN);
            self.put(network + ipv4::offset::TTL, &[100, self.protocol]);
            if let Some(flow) = self.flow {
                self.put(network + ipv4::offset::SRC, &flow.source.octets());
                self.put(network + ipv4::offset::DST, &flow.destination.octets());
            }
        }
        let own = self.ip_protocol().0;
        protocol == 0 || own == 0 || own == protocol
    }

    /// Gives it the transport header of its protocol, as far as its length allows;
    /// whether it may have one.
    pub(super) fn make_transport(&mut self) -> bool {
        if !self.is_first_fragment() {
            return false;
        }
        if self.transport_len() >= udp::HEADER_LEN {
            return true;
        }
        let protocol = self.ip_protocol();
        let length = match protocol {
            Protocol::TCP => tcp::HEADER_LEN,
            Protocol::UDP | Protocol::UDP_LITE => udp::HEADER_LEN,
            Protocol::ICMP => icmpv4::HEADER_LEN,
            Protocol::DCCP => DCCP_HEADER_LEN,
            _ => return true,
        };
        let wanted = self.wanted as usize;
        let length = match wanted {
            0 => length,
            _ => length.min(wanted.saturating_sub(self.transport)),
        };
        if self.transport_len() < length {
            self.reach(self.transport + length.max(size_of::<[u16; 2]>()));
            if protocol == Protocol::TCP && length > tcp::offset::DATA_OFFSET {
                self.put(self.transport + tcp::offset::DATA_OFFSET, &[tcp::data_offset(tcp::HEADER_LEN)]);
            }
            if let Some(flow) = self.flow {
                self.put(self.transport + tcp::offset::SRC_PORT, &flow.sport.to_be_bytes());
                self.put(self.transport + tcp::offset::DST_PORT, &flow.dport.to_be_bytes());
            }
            self.bytes.truncate(self.transport + length);
        }
        true
    }

    /// All is said: lengths and checksums.
    pub(super) fn finish(&mut self, with_checksums: bool) {
        if self.flow.is_some() {
            self.make_ip(0);
        }
        if self.is_ip && self.network.is_some() {
            self.make_transport();
            self.finish_ip(with_checksums);
        }
        self.extra_length = self.wanted.saturating_sub(self.bytes.len() as u32);
    }

    fn finish_ip(&mut self, with_checksums: bool) {
        let network = self.ip();
        let there = self.bytes.len().saturating_sub(network);
        let mut length = u32::from(self.ip_len());
        if length == 0 {
            length = self.wanted.checked_sub(network as u32).unwrap_or(self.wanted).min(u16::MAX.into());
            if length == 0 {
                length = there.min(u16::MAX.into()) as u32;
            }
            self.put(network + ipv4::offset::TOTAL_LEN, &(length as u16).to_be_bytes());
        }
        let udp = self.ip_protocol() == Protocol::UDP && self.is_first_fragment();
        if udp && u16_at(&self.bytes, self.transport + udp::offset::LEN) == 0 {
            let header = self.transport - network;
            let length = length.saturating_sub(header as u32) as u16;
            self.put(self.transport + udp::offset::LEN, &length.to_be_bytes());
        }
        if with_checksums {
            self.reach(network + length as usize);
            self.fill_checksums();
        }
    }

    pub(super) fn fill_checksums(&mut self) {
        let (network, transport) = (self.ip(), self.transport);
        let header = self.bytes.get_mut(network..transport);
        if let Some(header) = header.filter(|header| header.len() >= LEN) {
            ipv4::fill_checksum(header);
        }
        let protocol = self.ip_protocol();
        let (Protocol::TCP | Protocol::UDP | Protocol::ICMP) = protocol else { return };
        let Some(at) = checksum_offset(protocol) else { return };
        let ip = self.bytes.get(network..).unwrap_or(&[]);
        if ip_header::is_fragment(ip) || self.transport_len() < at + 2 {
            return;
        }
        let (src, dst) = ip_header::ends(ip);
        self.put(transport + at, &[0, 0]);
        let mut sum = checksum::sum(&self.bytes[transport..]);
        if protocol != Protocol::ICMP {
            let pseudo = Addresses::V4 { src, dst }.pseudo_header(protocol, self.transport_len());
            sum = checksum::combine(sum, pseudo);
        }
        self.put(transport + at, &(!sum).to_be_bytes());
    }

    /// The packet; `None` when there are no buffers.
    pub(super) fn packet(&self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = cx.packet(&self.bytes)?;
        if let Some(link) = self.link {
            packet.set_header(Header::Link, link);
        }
        if let Some(network) = self.network {
            packet.set_header(Header::Network, network);
            packet.set_header(Header::Transport, self.transport);
            let ip = self.bytes.get(network..).and_then(ipv4::Header::of);
            if let Some(ip) = ip.filter(|_| self.is_ip) {
                packet.set_dst_ip(ip.dst());
            }
        }
        packet.annotations_mut().timestamp_ns = self.timestamp_ns;
        packet.set_u8_at(PAINT, self.paint);
        packet.set_u32_at(AGGREGATE, self.aggregate);
        packet.set_u32_at(EXTRA_PACKETS, self.extra_packets);
        packet.set_u32_at(EXTRA_LENGTH, self.extra_length);
        packet.set_first_ns(self.first_ns);
        Some(packet)
    }
}
