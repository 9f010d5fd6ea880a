//! Packets from lines.

use std::net::Ipv4Addr;

use graph::value::{fixed_point, unsigned};

use super::{FLAGS, Field};

/// What a line says of a packet.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    pub(super) timestamp_ns: i64,
    pub(super) first_ns: i64,
    pub(super) count: u32,
    pub(super) paint: u8,
    pub(super) aggregate: u32,
    /// A field was understood.
    pub(super) any: bool,
    /// Bytes that the packet had.
    pub(super) length: u32,
    ip: [u8; 20],
    header_len: usize,
    transport: [u8; 20],
    transport_len: usize,
    payload: Vec<u8>,
    payload_len: Option<u32>,
}

/// A packet made of a line.
pub(super) struct Made {
    pub(super) bytes: Vec<u8>,
    pub(super) header_len: usize,
    pub(super) destination: Ipv4Addr,
    pub(super) extra: u32,
}

fn put16(to: &mut [u8], at: usize, value: u32) {
    to[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}

fn fragment(text: &str) -> Option<u32> {
    match text {
        "." => return Some(0),
        "!" => return Some(0x4000),
        "F" => return Some(0x2000),
        "f" => return Some(100),
        _ => {}
    }
    let digits = text.trim_end_matches(['+', '!']);
    let mut value = u32::try_from(unsigned(digits)?).ok().filter(|n| *n <= 0xFFFF)? >> 3;
    for mark in text[digits.len()..].chars() {
        value |= if mark == '+' { 0x2000 } else { 0x4000 };
    }
    Some(value)
}

fn flags(text: &str) -> Option<u32> {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return unsigned(text).and_then(|n| u32::try_from(n).ok()).filter(|n| *n < 0x1000);
    }
    if text == "." {
        return Some(0);
    }
    text.bytes().try_fold(0, |bits, c| Some(bits | 1 << FLAGS.iter().position(|f| *f == c)?))
}

impl Draft {
    /// A packet of a protocol of which nothing is said.
    pub(super) fn new(protocol: u8) -> Draft {
        let mut draft = Draft { header_len: 20, ..Draft::default() };
        (draft.ip[0], draft.ip[8], draft.ip[9]) = (0x45, 100, protocol);
        draft
    }

    /// Says something of it; whether that was understood.
    pub(super) fn set(&mut self, field: Field, text: &str) -> bool {
        let understood = self.try_set(field, text).is_some();
        self.any |= understood;
        understood
    }

    fn try_set(&mut self, field: Field, text: &str) -> Option<()> {
        let number = |most: u32| unsigned(text).and_then(|n| u32::try_from(n).ok()).filter(|n| *n <= most);
        let byte = || number(255).map(|n| n as u8);
        let time = || fixed_point(text, 1_000_000_000).and_then(|n| i64::try_from(n).ok());
        match field {
            Field::Timestamp => self.timestamp_ns = time()?,
            Field::FirstTimestamp => self.first_ns = time()?,
            Field::Seconds => {
                self.timestamp_ns =
                    i64::from(number(u32::MAX)?) * 1_000_000_000 + self.timestamp_ns % 1_000_000_000;
            }
            Field::Microseconds => {
                let seconds = self.timestamp_ns / 1_000_000_000;
                self.timestamp_ns = seconds * 1_000_000_000 + i64::from(number(999_999)?) * 1000;
            }
            Field::Count => self.count = number(u32::MAX)?.saturating_sub(1),
            Field::Link | Field::Direction => {
                self.paint = match text {
                    ">" => 0,
                    "<" => 1,
                    _ => byte()?,
                }
            }
            Field::Aggregate => self.aggregate = number(u32::MAX)?,
            Field::WireLen | Field::IpLen => self.length = number(u32::MAX)?,
            Field::IpSrc => self.ip[12..16].copy_from_slice(&text.parse::<Ipv4Addr>().ok()?.octets()),
            Field::IpDst => self.ip[16..20].copy_from_slice(&text.parse::<Ipv4Addr>().ok()?.octets()),
            Field::IpTos => self.ip[1] = byte()?,
            Field::IpDscp => self.ip[1] = self.ip[1] & 3 | byte()? << 2,
            Field::IpEcn => {
                let bits =
                    ["no", "ect1", "ect2", "ce"].iter().position(|name| *name == text).map(|n| n as u8);
                self.ip[1] = self.ip[1] & !3 | bits.or_else(|| byte().filter(|n| *n < 4))?;
            }
            Field::IpTtl => self.ip[8] = byte()?,
            Field::IpFrag | Field::IpFragOff => put16(&mut self.ip, 6, fragment(text)?),
            Field::IpId => put16(&mut self.ip, 4, number(0xFFFF)?),
            Field::IpSum => put16(&mut self.ip, 10, number(0xFFFF)?),
            Field::IpProto => {
                self.ip[9] = match text {
                    "T" => 6,
                    "U" => 17,
                    "I" => 1,
                    _ => byte()?,
                }
            }
            Field::IpHl => self.header_len = (number(60)? as usize).next_multiple_of(4).max(20),
            Field::IpCaptureLen => {}
            Field::SPort => put16(&mut self.transport, 0, number(0xFFFF)?),
            Field::DPort => put16(&mut self.transport, 2, number(0xFFFF)?),
            Field::TcpSeq => self.transport[4..8].copy_from_slice(&number(u32::MAX)?.to_be_bytes()),
            Field::TcpAck => self.transport[8..12].copy_from_slice(&number(u32::MAX)?.to_be_bytes()),
            Field::TcpOff => self.transport_len = (number(60)? as usize).next_multiple_of(4).max(20),
            Field::TcpFlags => {
                let bits = flags(text)?;
                (self.transport[12], self.transport[13]) = ((bits >> 8 & 0xF) as u8, bits as u8);
            }
            Field::TcpWindow => put16(&mut self.transport, 14, number(0xFFFF)?),
            Field::TcpUrp => put16(&mut self.transport, 18, number(0xFFFF)?),
            Field::UdpLen => put16(&mut self.transport, 4, number(0xFFFF)?),
            Field::IcmpType => self.transport[0] = byte()?,
            Field::IcmpCode => self.transport[1] = byte()?,
            Field::PayloadLen => self.payload_len = Some(number(0xFFFF)?),
            Field::Payload => self.payload = graph::lang::args::unquote(text),
        }
        Some(())
    }

    /// The packet.
    pub(super) fn make(mut self, checksum: bool) -> Made {
        let first = crate::ip::header::is_first_fragment(&self.ip);
        let behind = match self.ip[9] {
            _ if !first => 0,
            6 => self.transport_len.max(20),
            1 | 17 => 8,
            33 | 136 => 4,
            _ => 0,
        };
        let headers = self.header_len + behind;
        let there = headers + self.payload.len();
        let said = self.payload_len.map(|n| headers as u32 + n);
        let length =
            if self.length != 0 { self.length } else { said.unwrap_or(there as u32).max(there as u32) };
        let total = length.min(0xFFFF);
        self.ip[0] = 0x40 | (self.header_len / 4) as u8;
        put16(&mut self.ip, 2, total);
        match self.ip[9] {
            6 => self.transport[12] = self.transport[12] & 0xF | ((behind / 4) << 4) as u8,
            17 if self.transport[4..6] == [0, 0] => {
                put16(&mut self.transport, 4, total.saturating_sub(self.header_len as u32));
            }
            _ => {}
        }
        let mut bytes = self.ip.to_vec();
        bytes.resize(self.header_len, 0);
        bytes.extend(&self.transport[..behind.min(20)]);
        bytes.resize(headers, 0);
        bytes.extend(&self.payload);
        if checksum {
            bytes.resize((total as usize).max(there).min(memory::DATA_ROOM), 0);
            crate::ip::header::fill_checksum(&mut bytes[..self.header_len]);
        }
        let extra = length.saturating_sub(bytes.len() as u32);
        let destination = Ipv4Addr::from([self.ip[16], self.ip[17], self.ip[18], self.ip[19]]);
        Made { bytes, header_len: self.header_len, destination, extra }
    }
}
