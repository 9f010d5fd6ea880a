//! Fields of headers as `AggregateIP` names them: `ip src/8`, `tcp[12:2] & 0xFF0`,
//! `transp{3-7}`.

use graph::value::unsigned;
use wire::ip::Protocol;
use wire::{icmpv4, ipv4, tcp, udp};

/// Which header a field is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Ip,
    /// Behind the IP header, whatever it is.
    Transport,
    /// Behind all headers.
    Payload,
    TcpOrUdp,
    /// From the start of the header of a named protocol, such as `tcp[12:2]`.
    Protocol(Protocol),
}

/// Some bits of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) part: Part,
    pub(super) offset: u32,
    pub(super) length: u32,
}

const EXPECTED: &str = "expected 'HEADER [NAME] [{OFFSET:LENGTH}] [/PREFIX] [& MASK]'";
const BAD_PLACE: &str = "bad offset or length in TCP/IP field";
const BAD_MASK: &str = "bad prefix or mask in TCP/IP field";

const ICMP: Part = Part::Protocol(Protocol::ICMP);
const TCP: Part = Part::Protocol(Protocol::TCP);
const UDP: Part = Part::Protocol(Protocol::UDP);

/// A bit of the byte at an offset, counted from the highest.
const fn bit(offset: usize, bit: u32) -> u32 {
    8 * offset as u32 + bit
}

/// Names of fields, with the header, the first bit and how many bits.
const NAMES: &[(Part, &str, u32, u32)] = &[
    (Part::Ip, "df", bit(ipv4::offset::FRAGMENT, 1), 1),
    (Part::Ip, "dscp", bit(ipv4::offset::TRAFFIC_CLASS, 0), 6),
    (Part::Ip, "dst", bit(ipv4::offset::DST, 0), 32),
    (Part::Ip, "ecn", bit(ipv4::offset::TRAFFIC_CLASS, 6), 2),
    (Part::Ip, "fragoff", bit(ipv4::offset::FRAGMENT, 3), 13),
    (Part::Ip, "hl", bit(ipv4::offset::VERSION, 4), 4),
    (Part::Ip, "id", bit(ipv4::offset::IDENTIFICATION, 0), 16),
    (Part::Ip, "len", bit(ipv4::offset::TOTAL_LEN, 0), 16),
    (Part::Ip, "mf", bit(ipv4::offset::FRAGMENT, 2), 1),
    (Part::Ip, "off", bit(ipv4::offset::FRAGMENT, 0), 16),
    (Part::Ip, "proto", bit(ipv4::offset::PROTOCOL, 0), 8),
    (Part::Ip, "rf", bit(ipv4::offset::FRAGMENT, 0), 1),
    (Part::Ip, "src", bit(ipv4::offset::SRC, 0), 32),
    (Part::Ip, "sum", bit(ipv4::offset::CHECKSUM, 0), 16),
    (Part::Ip, "tos", bit(ipv4::offset::TRAFFIC_CLASS, 0), 8),
    (Part::Ip, "ttl", bit(ipv4::offset::TTL, 0), 8),
    (Part::Ip, "vers", bit(ipv4::offset::VERSION, 0), 4),
    (UDP, "dport", bit(udp::offset::DST_PORT, 0), 16),
    (UDP, "len", bit(udp::offset::LEN, 0), 16),
    (UDP, "sport", bit(udp::offset::SRC_PORT, 0), 16),
    (UDP, "sum", bit(udp::offset::CHECKSUM, 0), 16),
    (TCP, "ack", bit(tcp::offset::FLAGS, 3), 1),
    (TCP, "ackf", bit(tcp::offset::FLAGS, 3), 1),
    (TCP, "ackno", bit(tcp::offset::ACKNOWLEDGEMENT, 0), 32),
    (TCP, "dport", bit(tcp::offset::DST_PORT, 0), 16),
    (TCP, "fin", bit(tcp::offset::FLAGS, 7), 1),
    (TCP, "flags", bit(tcp::offset::FLAGS, 0), 8),
    (TCP, "hl", bit(tcp::offset::DATA_OFFSET, 0), 4),
    (TCP, "psh", bit(tcp::offset::FLAGS, 4), 1),
    (TCP, "push", bit(tcp::offset::FLAGS, 4), 1),
    (TCP, "rst", bit(tcp::offset::FLAGS, 5), 1),
    (TCP, "seq", bit(tcp::offset::SEQUENCE, 0), 32),
    (TCP, "seqno", bit(tcp::offset::SEQUENCE, 0), 32),
    (TCP, "sport", bit(tcp::offset::SRC_PORT, 0), 16),
    (TCP, "sum", bit(tcp::offset::CHECKSUM, 0), 16),
    (TCP, "syn", bit(tcp::offset::FLAGS, 6), 1),
    (TCP, "urg", bit(tcp::offset::FLAGS, 2), 1),
    (TCP, "urp", bit(tcp::offset::URGENT, 0), 16),
    (TCP, "win", bit(tcp::offset::WINDOW, 0), 16),
    (ICMP, "code", bit(icmpv4::offset::CODE, 0), 8),
    (ICMP, "sum", bit(icmpv4::offset::CHECKSUM, 0), 16),
    (ICMP, "type", bit(icmpv4::offset::TYPE, 0), 8),
    (Part::TcpOrUdp, "dport", bit(udp::offset::DST_PORT, 0), 16),
    (Part::TcpOrUdp, "sport", bit(udp::offset::SRC_PORT, 0), 16),
];

impl Part {
    fn find(word: &str) -> Option<Part> {
        Some(match word {
            "ip" => Part::Ip,
            "transp" => Part::Transport,
            "data" | "payload" => Part::Payload,
            _ => {
                let known = wire::names::PROTOCOLS.iter().find(|(name, _)| *name == word);
                Part::Protocol(known?.1)
            }
        })
    }

    /// What it is called.
    pub(super) fn name(self) -> String {
        match self {
            Part::Ip => "ip".into(),
            Part::Transport => "transp".into(),
            Part::Payload => "payload".into(),
            Part::TcpOrUdp => "tcpudp".into(),
            Part::Protocol(number) => {
                let known = wire::names::PROTOCOLS.iter().find(|(_, n)| *n == number);
                known.map_or_else(|| format!("ip proto {}", number.0), |(name, _)| name.to_string())
            }
        }
    }
}

/// What is left of a text.
struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    fn word(&mut self) -> &'a str {
        self.0 = self.0.trim_start();
        let end = self.0.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    fn mark(&mut self, mark: char) -> bool {
        let rest = self.0.trim_start().strip_prefix(mark);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn number(&mut self) -> Option<u32> {
        let word = self.word();
        unsigned(word).and_then(|n| u32::try_from(n).ok())
    }

    /// A place in brackets: offset and length, in bits.
    fn place(&mut self) -> Result<Option<(u32, u32)>, &'static str> {
        let (close, unit) = match () {
            () if self.mark('[') => (']', 8),
            () if self.mark('{') => ('}', 1),
            () => return Ok(None),
        };
        let offset = self.number().ok_or(EXPECTED)?;
        let length = if self.mark(':') || self.mark(',') {
            self.number().ok_or(EXPECTED)?
        } else if self.mark('-') {
            (self.number().ok_or(EXPECTED)? + 1).checked_sub(offset).ok_or(BAD_PLACE)?
        } else {
            1
        };
        if !self.mark(close) {
            return Err(EXPECTED);
        }
        let in_range = length > 0 && offset <= 0xFFFF && length <= 0xFFFF;
        in_range.then_some(Some((offset * unit, length * unit))).ok_or(BAD_PLACE)
    }
}

impl Field {
    /// Reads a field.
    pub(super) fn parse(text: &str) -> Result<Field, &'static str> {
        let mut text = Text(text.trim());
        let whole = text.0;
        let word = text.word();
        let mut part = match Part::find(word) {
            Some(part) => part,
            None if matches!(word, "sport" | "dport") => {
                text = Text(whole);
                Part::TcpOrUdp
            }
            None => return Err(EXPECTED),
        };
        let before = text.0;
        let mut name = text.word();
        if part == Part::Ip
            && name == "proto"
            && text.0.trim_start().starts_with(|c: char| c.is_ascii_digit())
        {
            let number = text.number().and_then(|n| u8::try_from(n).ok()).ok_or(EXPECTED)?;
            part = Part::Protocol(Protocol(number));
            name = text.word();
        }
        if part == Part::Ip && matches!(name, "sport" | "dport") {
            part = Part::TcpOrUdp;
        }
        let known = NAMES.iter().find(|(p, n, ..)| *p == part && *n == name);
        let mut field = known.map(|&(part, _, offset, length)| Field { part, offset, length });
        if field.is_none() && !name.is_empty() {
            text.0 = before;
        }
        field = match (field, text.place()?) {
            (Some(field), Some((offset, length))) if offset + length > field.length => return Err(BAD_PLACE),
            (Some(field), Some((offset, length))) => {
                Some(Field { offset: field.offset + offset, length, ..field })
            }
            (None, Some((offset, length))) => Some(Field { part, offset, length }),
            (field, None) => field,
        };
        let mut field = field.ok_or(EXPECTED)?;
        if text.mark('/') {
            let length = text.number().filter(|n| *n > 0 && *n <= field.length).ok_or(BAD_MASK)?;
            field.length = length;
        }
        if text.mark('&') {
            let mask = text.number().filter(|n| *n != 0).ok_or(BAD_MASK)?;
            let (low, high) = (mask.trailing_zeros(), 32 - mask.leading_zeros());
            if mask.count_ones() != high - low || high > field.length {
                return Err(BAD_MASK);
            }
            field.offset += field.length - high;
            field.length = high - low;
        }
        if text.0.trim().is_empty() { Ok(field) } else { Err("garbage after field specification") }
    }
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Field { part, offset, length } = *self;
        let named = |at: u32, bits: u32| NAMES.iter().find(|(p, _, o, l)| (*p, *o, *l) == (part, at, bits));
        write!(f, "{}", part.name())?;
        if let Some((_, name, ..)) = named(offset, length) {
            return write!(f, " {name}");
        }
        for container in [8, 16, 32] {
            if offset / container != (offset + length - 1) / container {
                continue;
            }
            let Some((_, name, ..)) = named(offset & !(container - 1), container) else { continue };
            write!(f, " {name}")?;
            return match offset & (container - 1) {
                0 => write!(f, "/{length}"),
                inside => write!(f, "{{{inside}:{length}}}"),
            };
        }
        match (offset % 8, length) {
            (0, 8) => write!(f, "[{}]", offset / 8),
            (0, bits) if bits % 8 == 0 => write!(f, "[{}:{}]", offset / 8, bits / 8),
            (_, 1) => write!(f, "{{{offset}}}"),
            _ => write!(f, "{{{offset}:{length}}}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_field_has_many_names() {
        for text in
            ["ip src/8", "ip src & 0xFF000000", "ip[12]", "ip[12, 1]", "ip{96, 8}", "ip{96-103}", "ip src[0]"]
        {
            let field = Field::parse(text);
            assert_eq!(field, Ok(Field { part: Part::Ip, offset: 96, length: 8 }), "{text}");
            assert_eq!(field.map(|f| f.to_string()), Ok("ip src/8".into()));
        }
        assert_eq!(Field::parse("tcp flags").map(|f| f.to_string()), Ok("tcp flags".into()));
        assert_eq!(Field::parse("sport"), Field::parse("ip sport"));
        assert_eq!(Field::parse("ip proto 99[2:2]").map(|f| f.to_string()), Ok("ip proto 99[2:2]".into()));
        for text in
            ["", "ip", "ip nonsense", "ip src/33", "ip[1", "ip{0:0}", "ip id & 0x50000", "tcp sport x"]
        {
            assert!(Field::parse(text).is_err(), "{text}");
        }
    }
}
