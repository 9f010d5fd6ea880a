//! What is known of a packet that is to be summarized.

use std::borrow::Cow;
use std::fmt::Write;

use memory::Packet;
use memory::annotation::Header;
use wire::icmpv4::offset::{CHECKSUM, CODE, IDENTIFIER, MTU, SEQUENCE};
use wire::ip::Protocol;
use wire::tcp_option::kind::{NO_OPERATION, TIMESTAMPS};
use wire::{MacAddress, ethernet, icmpv4, ipv4, tcp, udp};

use super::{Field, WITH_PORTS};
use graph::annotation::{AGGREGATE, EXTRA_LENGTH, EXTRA_PACKETS, PAINT, PacketAnnotations};
use graph::ip_header::{LEN, is_first_fragment, is_fragment, total_len, u16_at, u32_at};

const TCP: u8 = Protocol::TCP.0;
const UDP: u8 = Protocol::UDP.0;
const ICMP: u8 = Protocol::ICMP.0;

const UDP_LITE: u8 = Protocol::UDP_LITE.0;
/// How a message begins that tells of the longest packet.
const TOO_LONG: [u8; 2] = [icmpv4::UNREACHABLE, icmpv4::NEEDS_FRAGMENTS];
/// How options begin that are nothing but a timestamp, and how long the header is.
const ONLY_TIME: [u8; 4] = [NO_OPERATION, NO_OPERATION, TIMESTAMPS, 10];
const ONLY_TIME_LEN: usize = tcp::HEADER_LEN + 12;

/// A field's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u32),
    Wide(u64),
    /// Nanoseconds since 1970.
    Time(i64),
    Address(u32),
    Ethernet([u8; 6]),
    Char(u8),
    Options(&'a [u8]),
    Payload(Cow<'a, [u8]>),
}

/// Which header a field would be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Ethernet,
    Ip,
    Protocol(&'static str, &'static [u8]),
}

const NO_TCP: Missing = Missing::Protocol("TCP", &[TCP]);
const NO_UDP: Missing = Missing::Protocol("UDP", &[UDP]);
const NO_ICMP: Missing = Missing::Protocol("ICMP", &[ICMP]);
const NO_PORTS: Missing = Missing::Protocol("TCP/UDP", &[TCP, UDP]);

/// A packet's headers, as far as they are consistent.
pub(super) struct View<'a> {
    packet: &'a Packet,
    /// The IP header and what follows, without what is behind the IP packet.
    ip: Option<&'a [u8]>,
    /// The transport header and what follows; empty where it is not known.
    transport: &'a [u8],
    /// The protocol whose header `transport` is.
    protocol: Option<u8>,
    /// Bytes from the IP header to the end of the IP packet that are there.
    network_len: usize,
    /// Bytes of the frame behind the IP packet.
    padding: usize,
    /// Bytes that were cut off, and that the IP length does not count.
    extra: u32,
    /// Extra lengths count.
    with_extra: bool,
    /// What is wrong with it, if anybody wants to know.
    pub(super) bad: Option<String>,
}

impl<'a> View<'a> {
    /// Looks at a packet. `careful`: says so when bytes are missing; `with_extra`:
    /// those that were cut off count.
    pub(super) fn new(packet: &'a Packet, careful: bool, with_extra: bool) -> View<'a> {
        let mut view = View {
            packet,
            ip: packet.header(Header::Network),
            transport: packet.header(Header::Transport).unwrap_or(&[]),
            protocol: None,
            network_len: 0,
            padding: 0,
            extra: packet.u32_at(EXTRA_LENGTH),
            with_extra,
            bad: None,
        };
        view.check_ip(careful);
        view.check_transport();
        view
    }

    fn complain(&mut self, what: std::fmt::Arguments<'_>) {
        if self.bad.is_none() {
            let mut bad = String::new();
            let _ = writeln!(bad, "!bad {what}");
            self.bad = Some(bad);
        }
    }

    fn check_ip(&mut self, careful: bool) {
        let Some(ip) = self.ip else {
            // It was there before the packet was cut.
            if self.packet.has_header(Header::Network) {
                self.complain(format_args!("truncated IP header"));
            }
            return;
        };
        let first = ip.first().copied().unwrap_or(0);
        let (version, header, total) = (ipv4::version(first), ipv4::header_len(first), total_len(ip));
        let sound = if ip.len() < 4 {
            self.complain(format_args!("truncated IP header"));
            false
        } else if version != 4 {
            self.complain(format_args!("IP version {version}"));
            false
        } else if header < LEN {
            self.complain(format_args!("IP header length {}", header / 4));
            false
        } else if total < header {
            self.complain(format_args!("IP length {total}"));
            false
        } else {
            true
        };
        if !sound {
            self.ip = None;
            return;
        }
        let there = ip.len() + self.packet.total_len() - self.packet.len();
        self.network_len = there.min(total);
        if there > total {
            self.padding = there - total;
            self.extra = self.extra.saturating_add(self.padding as u32);
            self.ip = Some(&ip[..total.min(ip.len())]);
            let behind = self.packet.total_len() - self.packet.len();
            let kept = (self.transport.len() + behind).saturating_sub(self.padding);
            self.transport = &self.transport[..kept.min(self.transport.len())];
        } else if careful && there as u64 + u64::from(self.extra) < total as u64 {
            let missing = total as u64 - there as u64 - u64::from(self.extra);
            self.complain(format_args!("truncated IP missing {missing}"));
        }
        // The IP length counts bytes that were cut off, but for one that is too long to.
        let whole = self.network_len as u64 + u64::from(self.extra);
        let longest = usize::from(u16::MAX);
        self.extra = if total == longest { whole.saturating_sub(longest as u64) as u32 } else { 0 };
    }

    fn check_transport(&mut self) {
        let Some(ip) = self.ip else { return };
        let header = ipv4::header_len(ip[0]);
        let Some(protocol) = ip.get(ipv4::offset::PROTOCOL).copied() else { return };
        if !self.packet.has_header(Header::Transport) || ip.len() <= header || !is_first_fragment(ip) {
            return;
        }
        let off = self.transport.get(tcp::offset::DATA_OFFSET);
        let off = off.map_or(tcp::HEADER_LEN, |byte| tcp::header_len(*byte));
        if protocol == TCP && off < tcp::HEADER_LEN {
            self.complain(format_args!("TCP header length {}", off / 4));
        } else {
            self.protocol = Some(protocol);
        }
    }

    /// A header of which so many bytes would be needed is not there.
    fn missing(&mut self, what: Missing, bytes: usize) {
        match what {
            Missing::Ethernet => self.complain(format_args!("Ethernet header")),
            _ if self.ip.is_none() => self.complain(format_args!("no IP header")),
            Missing::Ip => self.complain(format_args!("truncated IP header capture")),
            Missing::Protocol(name, protocols) => {
                let ip = self.ip.unwrap_or(&[]);
                // That it is another protocol is nothing bad.
                if ip.get(ipv4::offset::PROTOCOL).is_some_and(|protocol| !protocols.contains(protocol)) {
                    return;
                }
                if !is_first_fragment(ip) {
                    self.complain(format_args!("fragmented {name} header"));
                } else if self.transport.len() as u64 + u64::from(self.extra) >= bytes as u64 {
                    self.complain(format_args!("truncated {name} header capture"));
                } else {
                    self.complain(format_args!("truncated {name} header"));
                }
            }
        }
    }

    /// The first `bytes` of the IP header.
    fn ip(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let there = self.ip.filter(|ip| ip.len() >= bytes);
        if there.is_none() {
            self.missing(Missing::Ip, bytes);
        }
        there
    }

    /// The first `bytes` of a transport header.
    fn transport(&mut self, what: Missing, bytes: usize) -> Option<&'a [u8]> {
        let Missing::Protocol(_, protocols) = what else { return None };
        let right = self.protocol.is_some_and(|protocol| protocols.contains(&protocol));
        if right && self.transport.len() >= bytes {
            return Some(self.transport);
        }
        self.missing(what, bytes);
        None
    }

    /// The Ethernet header, where it stands right before the network header.
    fn ethernet(&mut self) -> Option<ethernet::Header<&'a [u8; ethernet::HEADER_LEN]>> {
        let packet = self.packet;
        let network = packet.header_offset(Header::Network);
        let link = match packet.header_offset(Header::Link) {
            None if network.is_none_or(|network| network > 0) => Some(0),
            known => known,
        };
        let network = network.unwrap_or(packet.len() as isize);
        if link.is_some_and(|link| link + ethernet::HEADER_LEN as isize == network) {
            return ethernet::Header::of(packet.header(Header::Link).unwrap_or(packet));
        }
        self.missing(Missing::Ethernet, 0);
        None
    }

    /// A field's value; `None` when the packet has no such field.
    pub(super) fn value(&mut self, field: Field) -> Option<Value<'a>> {
        use Field::*;
        let stamp = self.packet.annotations().timestamp_ns;
        let number = |n: u32| Some(Value::Number(n));
        match field {
            Timestamp | NanoTimestamp => Some(Value::Time(stamp)),
            Seconds => number(stamp.div_euclid(1_000_000_000) as u32),
            Microseconds => number((stamp.rem_euclid(1_000_000_000) / 1000) as u32),
            AllMicroseconds => Some(Value::Wide((stamp / 1000) as u64)),
            FirstTimestamp | FirstNanoTimestamp => Some(Value::Time(self.packet.first_ns())),
            Count => number(self.packet.u32_at(EXTRA_PACKETS).wrapping_add(1)),
            Link | Direction => number(self.packet.u8_at(PAINT).into()),
            Aggregate => number(self.packet.u32_at(AGGREGATE)),
            WireLen => number(self.packet.total_len() as u32),
            EthSrc | EthDst => {
                let header = self.ethernet()?;
                let MacAddress(address) = if field == EthSrc { header.src() } else { header.dst() };
                Some(Value::Ethernet(address))
            }
            EthType => self.ethernet().and_then(|header| number(header.ethertype().0.into())),
            PayloadLen | Payload | PayloadMd5 | PayloadMd5Hex => self.payload(field),
            SPort | DPort => {
                let at = if field == SPort { udp::offset::SRC_PORT } else { udp::offset::DST_PORT };
                let bytes = at + 2;
                // Also where what follows in the header is bad.
                let ip = self.ip.filter(|ip| is_first_fragment(ip) && ip.len() > ipv4::header_len(ip[0]));
                let right = ip.is_some_and(|ip| WITH_PORTS.contains(&ip[ipv4::offset::PROTOCOL]));
                if !right || self.transport.len() < bytes {
                    self.missing(NO_PORTS, bytes);
                    return None;
                }
                number(u16_at(self.transport, at).into())
            }
            IcmpType | IcmpCode | IcmpTypeName | IcmpCodeName | IcmpFlowId | IcmpSeq | IcmpNextMtu => {
                self.icmp(field).and_then(number)
            }
            UdpLen => {
                let udp = self.transport(NO_UDP, udp::offset::CHECKSUM)?;
                number(u16_at(udp, udp::offset::LEN).into())
            }
            TcpSeq | TcpAck | TcpOff | TcpFlags | TcpWindow | TcpUrp => self.tcp(field).and_then(number),
            TcpOpt | TcpNtOpt | TcpSack => self.tcp_options(field).map(Value::Options),
            _ => self.network(field),
        }
    }

    fn network(&mut self, field: Field) -> Option<Value<'a>> {
        use Field::*;
        let number = |n: u32| Some(Value::Number(n));
        match field {
            IpSrc => self.ip(ipv4::offset::DST).map(|ip| Value::Address(u32_at(ip, ipv4::offset::SRC))),
            IpDst => self.ip(LEN).map(|ip| Value::Address(u32_at(ip, ipv4::offset::DST))),
            IpTos => {
                self.ip(ipv4::offset::TOTAL_LEN).and_then(|ip| number(ip[ipv4::offset::TRAFFIC_CLASS].into()))
            }
            IpDscp => self
                .ip(ipv4::offset::TOTAL_LEN)
                .and_then(|ip| number((ip[ipv4::offset::TRAFFIC_CLASS] >> 2).into())),
            IpEcn => self
                .ip(ipv4::offset::TOTAL_LEN)
                .and_then(|ip| number((ip[ipv4::offset::TRAFFIC_CLASS] & 3).into())),
            IpTtl => self.ip(ipv4::offset::PROTOCOL).and_then(|ip| number(ip[ipv4::offset::TTL].into())),
            IpFrag => self.ip(ipv4::offset::TTL).map(|ip| {
                let forbidden = u16_at(ip, ipv4::offset::FRAGMENT) & ipv4::DONT_FRAGMENT != 0;
                Value::Char(match (is_fragment(ip), is_first_fragment(ip), forbidden) {
                    (true, true, _) => b'F',
                    (true, false, _) => b'f',
                    (false, _, true) => b'!',
                    _ => b'.',
                })
            }),
            IpFragOff => {
                self.ip(ipv4::offset::TTL).and_then(|ip| number(u16_at(ip, ipv4::offset::FRAGMENT).into()))
            }
            IpId => self
                .ip(ipv4::offset::FRAGMENT)
                .and_then(|ip| number(u16_at(ip, ipv4::offset::IDENTIFICATION).into())),
            IpSum => {
                self.ip(ipv4::offset::SRC).and_then(|ip| number(u16_at(ip, ipv4::offset::CHECKSUM).into()))
            }
            IpProto => {
                self.ip(ipv4::offset::CHECKSUM).and_then(|ip| number(ip[ipv4::offset::PROTOCOL].into()))
            }
            IpHl => self.ip(1).and_then(|ip| number(ipv4::header_len(ip[0]) as u32)),
            IpLen => {
                let length = match self.ip {
                    Some(ip) => u16_at(ip, ipv4::offset::TOTAL_LEN).into(),
                    None => (self.packet.total_len() - self.padding) as u32,
                };
                number(if self.with_extra { length.saturating_add(self.extra) } else { length })
            }
            IpCaptureLen => number(match self.ip {
                Some(ip) => (self.network_len as u32).min(u16_at(ip, ipv4::offset::TOTAL_LEN).into()),
                None => self.packet.total_len() as u32,
            }),
            IpOpt => {
                let header = self.ip.map_or(LEN, |ip| ipv4::header_len(ip[0]));
                let ip = self.ip(if header > LEN { header } else { 1 })?;
                Some(Value::Options(ip.get(LEN..header).unwrap_or(&[])))
            }
            _ => None,
        }
    }

    fn tcp(&mut self, field: Field) -> Option<u32> {
        let bytes = match field {
            Field::TcpSeq => tcp::offset::ACKNOWLEDGEMENT,
            Field::TcpAck => tcp::offset::DATA_OFFSET,
            Field::TcpOff => tcp::offset::FLAGS,
            Field::TcpFlags => tcp::offset::WINDOW,
            Field::TcpWindow => tcp::offset::CHECKSUM,
            _ => tcp::HEADER_LEN,
        };
        let tcp = self.transport(NO_TCP, bytes)?;
        Some(match field {
            Field::TcpSeq => u32_at(tcp, tcp::offset::SEQUENCE),
            Field::TcpAck => u32_at(tcp, tcp::offset::ACKNOWLEDGEMENT),
            Field::TcpOff => tcp::header_len(tcp[tcp::offset::DATA_OFFSET]) as u32,
            Field::TcpFlags => (u16_at(tcp, tcp::offset::DATA_OFFSET) & tcp::RESERVED_AND_FLAGS).into(),
            Field::TcpWindow => u16_at(tcp, tcp::offset::WINDOW).into(),
            _ => u16_at(tcp, tcp::offset::URGENT).into(),
        })
    }

    /// The options; none at all where nothing but a timestamp is, unless that counts.
    fn tcp_options(&mut self, field: Field) -> Option<&'a [u8]> {
        let length = self.transport.len();
        let tcp = self.transport(NO_TCP, tcp::offset::FLAGS)?;
        let header = tcp::header_len(tcp[tcp::offset::DATA_OFFSET]);
        let only_time = header == ONLY_TIME_LEN
            && tcp.get(tcp::HEADER_LEN..).is_some_and(|options| options.starts_with(&ONLY_TIME));
        if header <= tcp::HEADER_LEN || only_time && field != Field::TcpOpt {
            return Some(&[]);
        }
        if length < header {
            self.missing(NO_TCP, length + 1);
            return None;
        }
        tcp.get(tcp::HEADER_LEN..header)
    }

    fn icmp(&mut self, field: Field) -> Option<u32> {
        let kind = *self.transport(NO_ICMP, 1)?.first()?;
        let flow = icmpv4::is_numbered(kind);
        let (bytes, at) = match field {
            Field::IcmpType | Field::IcmpTypeName => return Some(kind.into()),
            Field::IcmpCode | Field::IcmpCodeName => {
                return self.transport(NO_ICMP, CHECKSUM).map(|icmp| icmp[CODE].into());
            }
            Field::IcmpFlowId if flow => (SEQUENCE, IDENTIFIER),
            Field::IcmpSeq if flow => (icmpv4::HEADER_LEN, SEQUENCE),
            Field::IcmpNextMtu if self.transport(NO_ICMP, CHECKSUM)?.starts_with(&TOO_LONG) => {
                (icmpv4::HEADER_LEN, MTU)
            }
            _ => return None,
        };
        self.transport(NO_ICMP, bytes).map(|icmp| u16_at(icmp, at).into())
    }

    /// The ICMP message's type, to name its code.
    pub(super) fn icmp_type(&self) -> u8 {
        self.transport.first().copied().unwrap_or(0)
    }

    /// Where the payload begins in the packet, and how long it was.
    fn payload_place(&self) -> (isize, u32) {
        let whole = (self.packet.total_len() - self.padding) as u32;
        let Some(ip) = self.ip else { return (0, whole) };
        let network = self.packet.header_offset(Header::Network).unwrap_or(0);
        let header = ipv4::header_len(ip[0]) as isize;
        let transport = self.packet.header_offset(Header::Transport).unwrap_or(network + header);
        let behind = match (is_first_fragment(ip), ip.get(ipv4::offset::PROTOCOL)) {
            (true, Some(&TCP)) => {
                let said =
                    self.transport.get(tcp::offset::DATA_OFFSET).map_or(0, |byte| tcp::header_len(*byte));
                said.max(tcp::HEADER_LEN) as isize
            }
            (true, Some(&UDP | &UDP_LITE)) => udp::HEADER_LEN as isize,
            _ => 0,
        };
        let at = transport + behind;
        let headers = u32::try_from(at - network).unwrap_or(0);
        (at, u32::from(u16_at(ip, ipv4::offset::TOTAL_LEN)).saturating_sub(headers))
    }

    fn payload(&mut self, field: Field) -> Option<Value<'a>> {
        let (at, length) = self.payload_place();
        if field == Field::PayloadLen {
            let extra = if self.ip.is_none() || self.with_extra { self.extra } else { 0 };
            return Some(Value::Number(length.saturating_add(extra)));
        }
        if length == 0 {
            return Some(Value::Payload(Cow::Borrowed(&[])));
        }
        let bytes: Cow<'a, [u8]> = match self.packet.next() {
            None => Cow::Borrowed(&self.packet[..]),
            Some(_) => Cow::Owned(self.packet.segments().flat_map(|s| s.iter().copied()).collect()),
        };
        let start = usize::try_from(at).ok().filter(|start| *start < bytes.len())?;
        let end = (start + length as usize).min(bytes.len() - self.padding.min(bytes.len()));
        Some(Value::Payload(match bytes {
            Cow::Borrowed(bytes) => Cow::Borrowed(bytes.get(start..end).unwrap_or(&[])),
            Cow::Owned(bytes) => Cow::Owned(bytes.get(start..end).unwrap_or(&[]).to_vec()),
        }))
    }
}
