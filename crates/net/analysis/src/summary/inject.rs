//! What a line says, put into the packet in the making.

use wire::ethernet::{self, EtherType};
use wire::icmpv4::offset::{CODE, IDENTIFIER, MTU, SEQUENCE};
use wire::ip::Protocol;
use wire::ipv4::offset::{DST, FRAGMENT, IDENTIFICATION, PROTOCOL, SRC, TRAFFIC_CLASS, TTL, VERSION};
use wire::tcp::offset::DATA_OFFSET;
use wire::{MacAddress, icmpv4, ipv4, tcp, udp};

use super::builder::PacketBuilder;
use super::value::Said;
use super::{Field, WITH_PORTS};
use graph::ip_header::LEN;

impl PacketBuilder {
    /// Puts a field in. One that has no place in this packet is left out.
    pub(super) fn inject(&mut self, field: Field, said: Said) {
        use Field::*;
        match (field, said) {
            (AllMicroseconds, Said::Wide(us)) => {
                self.timestamp_ns = i64::try_from(us).unwrap_or(0).saturating_mul(1000);
            }
            (Timestamp | NanoTimestamp, Said::Time(ns)) => self.timestamp_ns = ns,
            (FirstTimestamp | FirstNanoTimestamp, Said::Time(ns)) => self.first_ns = ns,
            (EthSrc | EthDst, Said::Ethernet(address)) => {
                let (src, dst) = (ethernet::offset::SRC, ethernet::offset::DST);
                let at = self.make_link() + if field == EthSrc { src } else { dst };
                self.put(at, &address);
            }
            (IpOpt, Said::Bytes(bytes)) => self.inject_ip_options(&bytes),
            (TcpOpt | TcpNtOpt | TcpSack, Said::Bytes(bytes)) => self.inject_tcp_options(&bytes),
            (Payload, Said::Bytes(bytes)) => self.inject_payload(&bytes),
            (_, Said::Number(n)) => self.inject_number(field, n),
            _ => {}
        }
    }

    fn inject_number(&mut self, field: Field, n: u32) {
        use Field::*;
        const SECOND: i64 = 1_000_000_000;
        match field {
            Seconds => self.timestamp_ns = i64::from(n) * SECOND + self.timestamp_ns.rem_euclid(SECOND),
            Microseconds => {
                let seconds = self.timestamp_ns.div_euclid(SECOND);
                self.timestamp_ns = seconds.saturating_mul(SECOND).saturating_add(i64::from(n) * 1000);
            }
            Count => self.extra_packets = n.saturating_sub(1),
            Link | Direction => self.paint = n as u8,
            Aggregate => self.aggregate = n,
            WireLen => self.wanted = n,
            EthType => {
                let at = self.make_link();
                self.put(at + ethernet::offset::ETHERTYPE, &(n as u16).to_be_bytes());
                let known = u16::try_from(n).map(EtherType);
                self.is_ip &= matches!(known, Ok(EtherType::IPV4 | EtherType::IPV6));
            }
            PayloadLen => self.inject_payload_len(n),
            SPort | DPort => {
                if self.make_ip(0) && self.make_transport() {
                    let protocol = self.ip_protocol().0;
                    if protocol == 0 || WITH_PORTS.contains(&protocol) {
                        let at = if field == SPort { udp::offset::SRC_PORT } else { udp::offset::DST_PORT };
                        self.put(self.transport + at, &(n as u16).to_be_bytes());
                    }
                }
            }
            TcpSeq | TcpAck | TcpOff | TcpFlags | TcpWindow | TcpUrp => self.inject_tcp(field, n),
            UdpLen => {
                let fits = |protocol: Protocol| match protocol {
                    Protocol::UDP | Protocol::UDP_LITE => true,
                    other => other.0 == 0, // nothing was said
                };
                if self.make_ip(0) && self.make_transport() && fits(self.ip_protocol()) {
                    self.reach(self.transport + udp::HEADER_LEN);
                    self.put(self.transport + udp::offset::LEN, &(n as u16).to_be_bytes());
                }
            }
            IcmpType | IcmpTypeName | IcmpCode | IcmpCodeName | IcmpFlowId | IcmpSeq | IcmpNextMtu => {
                self.inject_icmp(field, n);
            }
            _ => self.inject_ip(field, n),
        }
    }

    /// Gives it an Ethernet header; where.
    fn make_link(&mut self) -> usize {
        if let Some(link) = self.link {
            return link;
        }
        let nobody = MacAddress::default();
        let header = ethernet::Header::between(nobody, nobody, EtherType::IPV4).into_inner();
        self.bytes.splice(..0, header);
        self.network = Some(header.len() + self.network.unwrap_or(0));
        self.transport += header.len();
        self.link = Some(0);
        0
    }

    fn inject_ip(&mut self, field: Field, n: u32) {
        use Field::*;
        if !self.make_ip(0) {
            return;
        }
        let (ip, word) = (self.ip(), (n as u16).to_be_bytes());
        let tos = self.ip_byte(TRAFFIC_CLASS);
        match field {
            IpSrc => self.put(ip + SRC, &n.to_be_bytes()),
            IpDst => self.put(ip + DST, &n.to_be_bytes()),
            IpTos => self.put(ip + TRAFFIC_CLASS, &[n as u8]),
            IpDscp => self.put(ip + TRAFFIC_CLASS, &[tos & 3 | (n as u8) << 2]),
            IpEcn => self.put(ip + TRAFFIC_CLASS, &[tos & !3 | n as u8 & 3]),
            IpTtl => self.put(ip + TTL, &[n as u8]),
            IpFrag | IpFragOff => self.put(ip + FRAGMENT, &word),
            IpId => self.put(ip + IDENTIFICATION, &word),
            IpSum => self.put(ip + ipv4::offset::CHECKSUM, &word),
            IpProto => self.put(ip + PROTOCOL, &[n as u8]),
            IpLen => self.wanted = (ip as u32).saturating_add(n),
            IpHl => {
                self.has_ip_hl = true;
                let length = (n as usize).next_multiple_of(4).min(60);
                self.set_ip_hl(length);
                // Also a length that cannot be, if that is what was said.
                self.put_ip_header_len(length);
            }
            _ => {}
        }
    }

    /// Makes the IP header at least so long.
    fn set_ip_hl(&mut self, length: usize) {
        let ip = self.ip();
        if length > ipv4::header_len(self.ip_byte(VERSION)) {
            self.reach(ip + length);
            self.transport = ip + length;
            self.put_ip_header_len(length);
        }
    }

    fn inject_ip_options(&mut self, options: &[u8]) {
        if !self.make_ip(0) {
            return;
        }
        self.has_ip_hl = true;
        if options.len() <= 40 && !options.is_empty() {
            self.set_ip_hl((LEN + options.len()).next_multiple_of(4));
            self.put(self.ip() + LEN, options);
        }
    }

    fn inject_tcp(&mut self, field: Field, n: u32) {
        use Field::*;
        if !self.make_ip(Protocol::TCP.0) || !self.make_transport() {
            return;
        }
        let (tcp, word) = (self.transport, (n as u16).to_be_bytes());
        match field {
            TcpSeq => self.put(tcp + tcp::offset::SEQUENCE, &n.to_be_bytes()),
            TcpAck => self.put(tcp + tcp::offset::ACKNOWLEDGEMENT, &n.to_be_bytes()),
            TcpFlags => {
                let off = self.bytes.get(tcp + DATA_OFFSET).copied().unwrap_or(0) & 0xF0;
                self.put(tcp + DATA_OFFSET, &[off | (n >> 8) as u8 & 0xF, n as u8]);
            }
            TcpWindow => self.put(tcp + tcp::offset::WINDOW, &word),
            TcpUrp => self.put(tcp + tcp::offset::URGENT, &word),
            _ => self.set_tcp_off((n as usize).next_multiple_of(4).min(60), true),
        }
    }

    /// The TCP header's length.
    pub(super) fn tcp_off(&self) -> usize {
        tcp::header_len(self.bytes.get(self.transport + DATA_OFFSET).copied().unwrap_or(0))
    }

    /// Says how long the TCP header is, and makes it so long.
    pub(super) fn set_tcp_off(&mut self, length: usize, also_shorter: bool) {
        let before = self.tcp_off();
        if length > before {
            self.reach(self.transport + length);
        } else if !also_shorter {
            return;
        }
        let flags = self.bytes.get(self.transport + DATA_OFFSET).copied().unwrap_or(0) & 0xF;
        self.put(self.transport + DATA_OFFSET, &[tcp::data_offset(length) | flags]);
    }

    fn inject_tcp_options(&mut self, options: &[u8]) {
        if !self.make_ip(Protocol::TCP.0) || !self.make_transport() {
            return;
        }
        self.has_tcp_hl = true;
        if options.len() <= 40 && !options.is_empty() {
            let length = (tcp::HEADER_LEN + options.len()).next_multiple_of(4);
            self.reach(self.transport + length);
            self.set_tcp_off(length, false);
            let end = tcp::HEADER_LEN + options.len();
            self.put(self.transport + tcp::HEADER_LEN, options);
            self.put(self.transport + end, &[0; 3][..length - end]);
        }
    }

    fn inject_icmp(&mut self, field: Field, n: u32) {
        use Field::*;
        if !self.make_ip(Protocol::ICMP.0) || !self.make_transport() {
            return;
        }
        let icmp = self.transport;
        self.reach(icmp + icmpv4::HEADER_LEN);
        let (kind, code) = (self.bytes.get(icmp).copied(), self.bytes.get(icmp + CODE).copied());
        let with_flow = !self.has_icmp_type || kind.is_some_and(icmpv4::is_numbered);
        let too_big = (!self.has_icmp_type || kind == Some(icmpv4::UNREACHABLE))
            && (!self.has_icmp_code || code == Some(icmpv4::NEEDS_FRAGMENTS));
        let word = (n as u16).to_be_bytes();
        match field {
            IcmpType | IcmpTypeName => {
                self.put(icmp, &[n as u8]);
                self.has_icmp_type = true;
                if matches!(u8::try_from(n), Ok(icmpv4::TIMESTAMP | icmpv4::TIMESTAMP_REPLY)) {
                    self.reach(icmp + icmpv4::TIMESTAMP_LEN);
                }
            }
            IcmpCode | IcmpCodeName => {
                self.put(icmp + CODE, &[n as u8]);
                self.has_icmp_code = true;
            }
            IcmpFlowId if with_flow => self.put(icmp + IDENTIFIER, &word),
            IcmpSeq if with_flow => self.put(icmp + SEQUENCE, &word),
            IcmpNextMtu if too_big => self.put(icmp + MTU, &word),
            _ => {}
        }
    }
}
