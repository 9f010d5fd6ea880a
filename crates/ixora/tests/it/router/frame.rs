//! Frames, made and taken apart by places that were counted by hand: but for checksums, what
//! routers send is not looked at with `wire`, of which they are made.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::checksum;

pub type Mac = [u8; 6];

pub const ICMP: u8 = 1;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ICMP6: u8 = 58;

pub const BROADCAST: Mac = [0xFF; 6];

/// An Ethernet frame.
pub fn ethernet(dst: Mac, src: Mac, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&dst[..], &src, &ethertype.to_be_bytes(), payload].concat()
}

/// An IPv4 packet to be.
#[derive(Debug, Clone)]
pub struct Ip4 {
    pub src: Ipv4Addr,
    pub dst: Ipv4Addr,
    pub protocol: u8,
    pub ttl: u8,
    /// Flags and offset.
    pub fragment: u16,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

pub const DONT_FRAGMENT: u16 = 0x4000;

impl Ip4 {
    /// A packet between two addresses.
    pub fn new(src: &str, dst: &str, protocol: u8, payload: &[u8]) -> Ip4 {
        let [src, dst] = [src, dst].map(|address| address.parse().expect("an address"));
        Ip4 { src, dst, protocol, ttl: 64, fragment: 0, options: vec![], payload: payload.to_vec() }
    }

    /// The packet's bytes, from the IP header on.
    pub fn bytes(&self) -> Vec<u8> {
        let header = 20 + self.options.len();
        let mut bytes = vec![0x40 | (header / 4) as u8, 0];
        bytes.extend(((header + self.payload.len()) as u16).to_be_bytes());
        bytes.extend([0x12, 0x34]);
        bytes.extend(self.fragment.to_be_bytes());
        bytes.extend([self.ttl, self.protocol, 0, 0]);
        bytes.extend(self.src.octets());
        bytes.extend(self.dst.octets());
        bytes.extend(&self.options);
        let sum = checksum::of(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }
}

/// A UDP datagram without a checksum.
pub fn udp(src: u16, dst: u16, data: &[u8]) -> Vec<u8> {
    let length = 8 + data.len() as u16;
    [&src.to_be_bytes()[..], &dst.to_be_bytes(), &length.to_be_bytes(), &[0, 0], data].concat()
}

/// A UDP datagram with its checksum over IPv4.
pub fn udp4(ends: (&str, u16), to: (&str, u16), data: &[u8]) -> Ip4 {
    let mut packet = Ip4::new(ends.0, to.0, UDP, &udp(ends.1, to.1, data));
    let sum = transport_sum(&packet);
    packet.payload[6..8].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// A TCP segment with its checksum over IPv4.
pub fn tcp4(ends: (&str, u16), to: (&str, u16), flags: u8) -> Ip4 {
    let mut segment = [ends.1.to_be_bytes(), to.1.to_be_bytes()].concat();
    segment.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 4, 0, 0, 0, 0, 0]);
    let mut packet = Ip4::new(ends.0, to.0, TCP, &segment);
    let sum = transport_sum(&packet);
    packet.payload[16..18].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn transport_sum(packet: &Ip4) -> u16 {
    let length = packet.payload.len() as u32;
    let pseudo = checksum::pseudo_header_v4(packet.src, packet.dst, packet.protocol, length);
    !checksum::combine(pseudo, checksum::sum(&packet.payload))
}

/// An ICMP echo request.
pub fn echo(number: u16, data: &[u8]) -> Vec<u8> {
    let mut message = [&[8, 0, 0, 0, 0x77, 0x77][..], &number.to_be_bytes(), data].concat();
    let sum = checksum::of(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// An IPv6 packet.
pub fn ip6(src: Ipv6Addr, dst: Ipv6Addr, next: u8, hops: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend([next, hops]);
    bytes.extend(src.octets());
    bytes.extend(dst.octets());
    bytes.extend(payload);
    bytes
}

/// An ICMPv6 message with its checksum.
pub fn icmp6(src: Ipv6Addr, dst: Ipv6Addr, kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, 0, 0, 0][..], body].concat();
    let pseudo = checksum::pseudo_header_v6(src, dst, ICMP6, message.len() as u32);
    let sum = !checksum::combine(pseudo, checksum::sum(&message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// An IPv4 frame that was heard: its header and what it carries are checked.
#[derive(Debug)]
pub struct Heard4 {
    pub link: (Mac, Mac),
    pub header: Vec<u8>,
    pub payload: Vec<u8>,
}

/// Takes an IPv4 frame apart; all sums in it must be right.
pub fn heard4(frame: &[u8]) -> Heard4 {
    assert_eq!(frame[12..14], [8, 0], "IPv4: {frame:02x?}");
    let (packet, mac) = (&frame[14..], |at: usize| frame[at..at + 6].try_into().expect("six"));
    let header_len = usize::from(packet[0] & 0xF) * 4;
    let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    assert_eq!(checksum::sum(&packet[..header_len]), 0xFFFF, "the header's sum: {packet:02x?}");
    let heard = Heard4 {
        link: (mac(0), mac(6)),
        header: packet[..header_len].to_vec(),
        payload: packet[header_len..total].to_vec(),
    };
    if heard.protocol() == ICMP && heard.fragment() & 0x3FFF == 0 {
        assert_eq!(checksum::sum(&heard.payload), 0xFFFF, "ICMP's sum: {packet:02x?}");
    }
    let sum_at = match heard.protocol() {
        TCP => 16,
        UDP => 6,
        _ => return heard,
    };
    let (length, has) = (heard.payload.len() as u32, heard.payload.get(sum_at..sum_at + 2) != Some(&[0, 0]));
    if has && heard.fragment() & 0x3FFF == 0 {
        let pseudo = checksum::pseudo_header_v4(heard.src(), heard.dst(), heard.protocol(), length);
        let sum = checksum::combine(pseudo, checksum::sum(&heard.payload));
        assert_eq!(sum, 0xFFFF, "the transport's sum: {packet:02x?}");
    }
    heard
}

impl Heard4 {
    pub fn ttl(&self) -> u8 {
        self.header[8]
    }

    pub fn protocol(&self) -> u8 {
        self.header[9]
    }

    /// Flags and offset.
    pub fn fragment(&self) -> u16 {
        u16::from_be_bytes([self.header[6], self.header[7]])
    }

    fn address(&self, at: usize) -> Ipv4Addr {
        <[u8; 4]>::try_from(&self.header[at..at + 4]).expect("four").into()
    }

    pub fn src(&self) -> Ipv4Addr {
        self.address(12)
    }

    pub fn dst(&self) -> Ipv4Addr {
        self.address(16)
    }

    /// Ports of TCP or UDP.
    pub fn ports(&self) -> (u16, u16) {
        let port = |at: usize| u16::from_be_bytes([self.payload[at], self.payload[at + 1]]);
        (port(0), port(2))
    }

    /// An ICMP error about a packet, from a router to its sender: type, code and the
    /// four bytes in front of the quotation, which must be the packet's beginning.
    pub fn error_about(&self, packet: &[u8]) -> (u8, u8, [u8; 4]) {
        assert_eq!(self.protocol(), ICMP, "{self:02x?}");
        assert_eq!(self.dst().octets(), packet[12..16], "to the sender");
        let header_len = usize::from(packet[0] & 0xF) * 4;
        let quoted = &self.payload[8..];
        assert!(quoted.len() >= packet.len().min(header_len + 8), "RFC 792: {} bytes", quoted.len());
        // Time to live, checksum and options may be as the router left them.
        let same = |at: usize| at == 8 || (10..12).contains(&at) || (20..header_len).contains(&at);
        let differs = (0..quoted.len()).find(|&at| !same(at) && quoted[at] != packet[at]);
        assert_eq!(differs, None, "{quoted:02x?} is the beginning of {packet:02x?}");
        (self.payload[0], self.payload[1], self.payload[4..8].try_into().expect("four"))
    }
}

/// An IPv6 frame that was heard.
#[derive(Debug)]
pub struct Heard6 {
    pub link: (Mac, Mac),
    pub src: Ipv6Addr,
    pub dst: Ipv6Addr,
    pub next: u8,
    pub hops: u8,
    pub payload: Vec<u8>,
}

/// Takes an IPv6 frame apart; ICMPv6's sum must be right.
pub fn heard6(frame: &[u8]) -> Heard6 {
    assert_eq!(frame[12..14], [0x86, 0xDD], "IPv6: {frame:02x?}");
    let mac = |at: usize| frame[at..at + 6].try_into().expect("six");
    let packet = wire::ipv6::Packet::new_checked(&frame[14..]).expect("an IPv6 packet");
    let (next, payload) = (frame[14 + 6], packet.payload().to_vec());
    if next == ICMP6 {
        let message = wire::icmpv6::Packet::new_checked(&payload[..]).expect("ICMPv6");
        assert!(message.verify_checksum(packet.addresses()), "ICMPv6's sum: {frame:02x?}");
    }
    let address = |at: usize| <[u8; 16]>::try_from(&frame[at..at + 16]).expect("sixteen").into();
    Heard6 { link: (mac(0), mac(6)), src: address(22), dst: address(38), next, hops: frame[14 + 7], payload }
}

impl Heard6 {
    /// An ICMPv6 error about a packet: type, code and the four bytes in front of the
    /// quotation, which must be the packet's beginning.
    pub fn error_about(&self, packet: &[u8]) -> (u8, u8, [u8; 4]) {
        assert_eq!((self.next, self.dst.octets().as_slice()), (ICMP6, &packet[8..24]), "{self:02x?}");
        let quoted = &self.payload[8..];
        assert_eq!(quoted.len(), packet.len().min(1280 - 48), "as much as fits: RFC 4443, 2.4");
        let differs = (0..quoted.len()).find(|&at| at != 7 && quoted[at] != packet[at]);
        assert_eq!(differs, None, "{quoted:02x?} is the beginning of {packet:02x?}");
        (self.payload[0], self.payload[1], self.payload[4..8].try_into().expect("four"))
    }
}
