//! What a line says, put into the packet in the making.

use super::draft::Draft;
use super::value::Said;
use super::{Field, ICMP_WITH_FLOW, WITH_PORTS};
use crate::ip::header::LEN;

impl Draft {
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
                let at = self.make_link() + if field == EthSrc { 6 } else { 0 };
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
                self.put(at + 12, &(n as u16).to_be_bytes());
                self.is_ip &= matches!(n, 0x0800 | 0x86DD);
            }
            PayloadLen => self.inject_payload_len(n),
            SPort | DPort => {
                if self.make_ip(0) && self.make_transport() {
                    let protocol = self.ip_byte(9);
                    if protocol == 0 || WITH_PORTS.contains(&protocol) {
                        let at = if field == SPort { 0 } else { 2 };
                        self.put(self.transport + at, &(n as u16).to_be_bytes());
                    }
                }
            }
            TcpSeq | TcpAck | TcpOff | TcpFlags | TcpWindow | TcpUrp => self.inject_tcp(field, n),
            UdpLen => {
                if self.make_ip(0) && self.make_transport() && matches!(self.ip_byte(9), 0 | 17 | 136) {
                    self.reach(self.transport + 8);
                    self.put(self.transport + 4, &(n as u16).to_be_bytes());
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
        let header = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0x00];
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
        let tos = self.ip_byte(1);
        match field {
            IpSrc => self.put(ip + 12, &n.to_be_bytes()),
            IpDst => self.put(ip + 16, &n.to_be_bytes()),
            IpTos => self.put(ip + 1, &[n as u8]),
            IpDscp => self.put(ip + 1, &[tos & 3 | (n as u8) << 2]),
            IpEcn => self.put(ip + 1, &[tos & !3 | n as u8 & 3]),
            IpTtl => self.put(ip + 8, &[n as u8]),
            IpFrag | IpFragOff => self.put(ip + 6, &word),
            IpId => self.put(ip + 4, &word),
            IpSum => self.put(ip + 10, &word),
            IpProto => self.put(ip + 9, &[n as u8]),
            IpLen => self.wanted = (ip as u32).saturating_add(n),
            IpHl => {
                self.has_ip_hl = true;
                let length = (n as usize).next_multiple_of(4).min(60);
                self.set_ip_hl(length);
                // Also a length that cannot be, if that is what was said.
                self.put(ip, &[0x40 | (length / 4) as u8]);
            }
            _ => {}
        }
    }

    /// Makes the IP header at least so long.
    fn set_ip_hl(&mut self, length: usize) {
        let ip = self.ip();
        if length > usize::from(self.ip_byte(0) & 0xF) * 4 {
            self.reach(ip + length);
            self.transport = ip + length;
            self.put(ip, &[0x40 | (length / 4) as u8]);
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
        if !self.make_ip(6) || !self.make_transport() {
            return;
        }
        let (tcp, word) = (self.transport, (n as u16).to_be_bytes());
        match field {
            TcpSeq => self.put(tcp + 4, &n.to_be_bytes()),
            TcpAck => self.put(tcp + 8, &n.to_be_bytes()),
            TcpFlags => {
                let off = self.bytes.get(tcp + 12).copied().unwrap_or(0) & 0xF0;
                self.put(tcp + 12, &[off | (n >> 8) as u8 & 0xF, n as u8]);
            }
            TcpWindow => self.put(tcp + 14, &word),
            TcpUrp => self.put(tcp + 18, &word),
            _ => self.set_tcp_off((n as usize).next_multiple_of(4).min(60), true),
        }
    }

    /// The TCP header's length.
    pub(super) fn tcp_off(&self) -> usize {
        usize::from(self.bytes.get(self.transport + 12).copied().unwrap_or(0) >> 4) * 4
    }

    /// Says how long the TCP header is, and makes it so long.
    pub(super) fn set_tcp_off(&mut self, length: usize, also_shorter: bool) {
        let before = self.tcp_off();
        if length > before {
            self.reach(self.transport + length);
        } else if !also_shorter {
            return;
        }
        let flags = self.bytes.get(self.transport + 12).copied().unwrap_or(0) & 0xF;
        self.put(self.transport + 12, &[((length / 4) as u8) << 4 | flags]);
    }

    fn inject_tcp_options(&mut self, options: &[u8]) {
        if !self.make_ip(6) || !self.make_transport() {
            return;
        }
        self.has_tcp_hl = true;
        if options.len() <= 40 && !options.is_empty() {
            let length = (20 + options.len()).next_multiple_of(4);
            self.reach(self.transport + length);
            self.set_tcp_off(length, false);
            self.put(self.transport + 20, options);
            let end = self.transport + 20 + options.len();
            self.put(end, &[0; 3][..length - 20 - options.len()]);
        }
    }

    fn inject_icmp(&mut self, field: Field, n: u32) {
        use Field::*;
        if !self.make_ip(1) || !self.make_transport() {
            return;
        }
        let icmp = self.transport;
        self.reach(icmp + 8);
        let (kind, code) = (self.bytes.get(icmp).copied(), self.bytes.get(icmp + 1).copied());
        let with_flow = !self.has_icmp_type || kind.is_some_and(|kind| ICMP_WITH_FLOW.contains(&kind));
        let too_big = (!self.has_icmp_type || kind == Some(3)) && (!self.has_icmp_code || code == Some(4));
        let word = (n as u16).to_be_bytes();
        match field {
            IcmpType | IcmpTypeName => {
                self.put(icmp, &[n as u8]);
                self.has_icmp_type = true;
                if matches!(n, 13 | 14) {
                    self.reach(icmp + 20);
                }
            }
            IcmpCode | IcmpCodeName => {
                self.put(icmp + 1, &[n as u8]);
                self.has_icmp_code = true;
            }
            IcmpFlowId if with_flow => self.put(icmp + 4, &word),
            IcmpSeq if with_flow => self.put(icmp + 6, &word),
            IcmpNextMtu if too_big => self.put(icmp + 6, &word),
            _ => {}
        }
    }
}
