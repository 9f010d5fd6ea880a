//! One line of tcpdump's, read from its beginning to the options of TCP, and then the
//! words in brackets behind them.

use std::net::Ipv4Addr;

use wire::ip::Protocol;
use wire::{ecn, ipv4, tcp, udp};

use super::sequence::{End, Flows, Numbers};
use crate::summary::builder::{Defaults, PacketBuilder};
use crate::summary::value::Said;
use crate::summary::{FLAGS, Field};
use crate::timestamp::span;
use graph::ip_header::{self, LEN};

/// The time to live that a line does not tell; tcpdump tells 0 and 1.
const TTL: u32 = 2;
/// Bytes of options that a TCP header has room for.
const MAX_OPTIONS: usize = tcp::MAX_HEADER_LEN - tcp::HEADER_LEN;

/// What is left of a line, or of a part of it.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// Takes `text` if it comes next; whether it does.
    fn take(&mut self, text: &str) -> bool {
        let rest = self.0.strip_prefix(text.as_bytes());
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// A number if it comes next.
    fn number(&mut self, radix: u32) -> Option<u32> {
        let is_digit = |byte: &u8| char::from(*byte).is_digit(radix);
        let length = self.0.iter().take_while(|byte| is_digit(byte)).count();
        let (digits, rest) = self.0.split_at(length);
        let value = u32::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()?;
        self.0 = rest;
        Some(value)
    }

    /// A number behind a word; nothing is taken where either is not there.
    fn tagged(&mut self, word: &str) -> Option<u32> {
        let before = self.0;
        let value = if self.take(word) { self.number(10) } else { None };
        if value.is_none() {
            self.0 = before;
        }
        value
    }

    /// All up to `byte`, which is taken as well.
    fn until(&mut self, byte: u8) -> Option<&'a [u8]> {
        let at = self.0.iter().position(|other| *other == byte)?;
        let (part, rest) = self.0.split_at(at);
        self.0 = &rest[1..];
        Some(part)
    }

    fn skip_spaces(&mut self) {
        self.0 = self.0.trim_ascii_start();
    }
}

/// A packet of a line; `None` when it is not understood.
pub(super) fn packet(line: &[u8], flows: &mut Flows) -> Option<PacketBuilder> {
    let mut rest = Rest(line);
    let mut builder = PacketBuilder::new(Defaults::NOTHING);
    builder.timestamp_ns = span(std::str::from_utf8(rest.until(b' ')?).ok()?).ok()?;
    let (src, mut behind) = (rest.until(b' ')?, Rest(rest.0));
    if !behind.take("> ") {
        return None;
    }
    let (dst, mut rest) = (behind.until(b':')?, behind);
    rest.skip_spaces();
    let protocol = match rest.0 {
        [b'i', ..] => Protocol::ICMP,
        [b'u', ..] | [b'[', b'u', ..] => Protocol::UDP,
        [b'.' | b'A'..=b'Z', ..] => Protocol::TCP,
        _ => Protocol::HOP_BY_HOP,
    };
    builder.make_ip(0);
    builder.inject(Field::IpTtl, Said::Number(TTL));
    builder.inject(Field::IpProto, Said::Number(protocol.0.into()));
    let mut length = None;
    if matches!(protocol, Protocol::TCP | Protocol::UDP) {
        let ends = (end(src)?, end(dst)?);
        for (field, value) in [(Field::SPort, ends.0.1), (Field::DPort, ends.1.1)] {
            builder.inject(field, Said::Number(value.into()));
        }
        set_addresses(&mut builder, ends.0.0, ends.1.0);
        length = match protocol {
            Protocol::TCP => segment(&mut builder, &mut rest, ends, flows),
            _ => datagram(&mut rest),
        };
    } else {
        set_addresses(&mut builder, address(src)?, address(dst)?);
    }
    let length = brackets(&mut builder, rest.0, length);
    finish(&mut builder, length);
    Some(builder)
}

fn address(text: &[u8]) -> Option<Ipv4Addr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// An address and a port, with a point or a colon between them.
fn end(text: &[u8]) -> Option<End> {
    let at = text.iter().rposition(|byte| matches!(byte, b'.' | b':'))?;
    let port = std::str::from_utf8(&text[at + 1..]).ok()?.parse().ok()?;
    Some((address(&text[..at])?, port))
}

fn set_addresses(builder: &mut PacketBuilder, src: Ipv4Addr, dst: Ipv4Addr) {
    builder.inject(Field::IpSrc, Said::Number(src.into()));
    builder.inject(Field::IpDst, Said::Number(dst.into()));
}

/// Passes over what tcpdump says of a header's length and of a checksum.
fn skip_checks(rest: &mut Rest<'_>) {
    for opening in ["[bad hdr", "[tcp sum ok", "[bad tcp", "[udp sum ok", "[bad udp"] {
        if rest.0.starts_with(opening.as_bytes()) {
            rest.until(b']');
            rest.skip_spaces();
        }
    }
}

/// Reads what stands behind the addresses of a segment; how long its payload is, if that is
/// said.
fn segment(
    builder: &mut PacketBuilder,
    rest: &mut Rest<'_>,
    (src, dst): (End, End),
    flows: &mut Flows,
) -> Option<u32> {
    let mut flags = 0;
    if rest.take(".") {
        flags = u32::from(tcp::Flags::ACK.0);
    } else {
        while let Some(bit) = rest.0.first().and_then(|byte| FLAGS.iter().position(|flag| flag == byte)) {
            flags |= 1 << bit;
            rest.0 = &rest.0[1..];
        }
    }
    builder.inject(Field::TcpFlags, Said::Number(flags));
    if !rest.take(" ") {
        return None;
    }
    skip_checks(rest);
    let has = |flags: u32, flag: tcp::Flags| flags & u32::from(flag.0) != 0;
    let mut numbers = Numbers {
        is_syn: has(flags, tcp::Flags::SYN),
        is_fin: has(flags, tcp::Flags::FIN),
        ..Numbers::default()
    };
    if rest.0.first().is_some_and(|byte| *byte != b'a') {
        numbers.sequence = rest.number(10)?;
        numbers.end = rest.tagged(":")?;
        rest.tagged("(")?;
        if !rest.take(")") {
            return None;
        }
        rest.take(" ");
    }
    let length = numbers.end.wrapping_sub(numbers.sequence);
    if let Some(acknowledgement) = rest.tagged("ack ") {
        numbers.acknowledgement = acknowledgement;
        flags |= u32::from(tcp::Flags::ACK.0);
        rest.take(" ");
    }
    let base = if has(flags, tcp::Flags::ACK) { flows.place(src, dst, &mut numbers) } else { 0 };
    let mut number = |field, value| builder.inject(field, Said::Number(value));
    number(Field::TcpFlags, flags);
    number(Field::TcpSeq, numbers.sequence);
    number(Field::TcpAck, numbers.acknowledgement);
    for (word, field) in [("win ", Field::TcpWindow), ("urg ", Field::TcpUrp)] {
        if let Some(value) = rest.tagged(word) {
            number(field, value);
            rest.take(" ");
        }
    }
    if rest.take("<") {
        let options = options(rest, base);
        builder.inject(Field::TcpOpt, Said::Bytes(options));
    }
    Some(length)
}

/// Options up to `>`, as they stand in a header.
fn options(rest: &mut Rest<'_>, base: u32) -> Vec<u8> {
    let mut bytes = vec![];
    while !matches!(rest.0.first(), None | Some(b'>')) {
        let mut one = vec![];
        let is_known = option(rest, base, &mut one);
        let is_whole = matches!(rest.0.first(), None | Some(b',' | b'>'));
        if is_known && is_whole && bytes.len() + one.len() <= MAX_OPTIONS {
            bytes.extend(one);
        }
        while !matches!(rest.0.first(), None | Some(b',' | b'>')) {
            rest.0 = &rest.0[1..];
        }
        rest.take(",");
    }
    rest.take(">");
    bytes
}

/// Reads one option; whether it is known.
fn option(rest: &mut Rest<'_>, base: u32, bytes: &mut Vec<u8>) -> bool {
    use wire::tcp_option::kind::{
        END, MAX_SEGMENT, NO_OPERATION, SACK, SACK_PERMITTED, TIMESTAMPS, WINDOW_SCALE,
    };
    let mut sized = |kind: u8, value: &[u8]| {
        bytes.extend([kind, value.len() as u8 + 2]);
        bytes.extend(value);
    };
    if rest.take("nop") {
        bytes.push(NO_OPERATION);
    } else if rest.take("eol") {
        bytes.push(END);
    } else if let Some(size) = rest.tagged("mss ") {
        sized(MAX_SEGMENT, &(size as u16).to_be_bytes());
    } else if let Some(scale) = rest.tagged("wscale ") {
        sized(WINDOW_SCALE, &[scale as u8]);
    } else if rest.take("sackOK") {
        sized(SACK_PERMITTED, &[]);
    } else if let Some(value) = rest.tagged("timestamp ") {
        let Some(echo) = rest.tagged(" ") else { return false };
        sized(TIMESTAMPS, &[value.to_be_bytes(), echo.to_be_bytes()].concat());
    } else if rest.tagged("sack sack ").is_some() {
        let mut blocks = vec![];
        rest.skip_spaces();
        while let Some(left) = rest.tagged("{") {
            let Some(right) = rest.tagged(":") else { return false };
            if !rest.take("}") || blocks.len() >= MAX_OPTIONS {
                return false;
            }
            blocks.extend(left.wrapping_add(base).to_be_bytes());
            blocks.extend(right.wrapping_add(base).to_be_bytes());
        }
        rest.skip_spaces();
        sized(SACK, &blocks);
    } else {
        return false;
    }
    true
}

/// Reads what stands behind the addresses of a datagram; how long its payload is, if that is
/// said.
fn datagram(rest: &mut Rest<'_>) -> Option<u32> {
    skip_checks(rest);
    rest.tagged("udp ")
}

/// Reads the words in brackets at the end of the line, from the last brackets to the first;
/// how long the payload is, if that is said here or was before.
fn brackets(builder: &mut PacketBuilder, line: &[u8], mut length: Option<u32>) -> Option<u32> {
    let mut line = line.trim_ascii_end();
    while let [before @ .., close @ (b')' | b']')] = line {
        let opening = if *close == b')' { b'(' } else { b'[' };
        let Some(at) = before.iter().rposition(|byte| *byte == opening) else { break };
        let mut rest = Rest(&before[at + 1..]);
        while !rest.0.is_empty() && word(builder, &mut rest, &mut length) {
            rest.0 = rest.0.trim_ascii_start();
            while rest.take(",") {
                rest.skip_spaces();
            }
        }
        line = before[..at].trim_ascii_end();
    }
    length
}

/// Reads one of the words in brackets; whether it is known.
fn word(builder: &mut PacketBuilder, rest: &mut Rest<'_>, length: &mut Option<u32>) -> bool {
    let mut number = |field, value| builder.inject(field, Said::Number(value));
    if rest.take("tos 0x") {
        let Some(tos) = rest.number(16) else { return false };
        number(Field::IpTos, tos & 0xFF);
    } else if rest.take("ECT(0)") {
        number(Field::IpEcn, u32::from(ecn::ECT_0));
    } else if rest.take("ECT(1)") {
        number(Field::IpEcn, u32::from(ecn::ECT_1));
    } else if rest.take("CE") {
        number(Field::IpEcn, u32::from(ecn::CE));
    } else if rest.take("DF") {
        let flags = fragment(builder) | ipv4::DONT_FRAGMENT;
        builder.inject(Field::IpFragOff, Said::Number(flags.into()));
    } else if let Some(id) = rest.tagged("frag ") {
        number(Field::IpId, id);
        let Some(own) = rest.tagged(":") else { return false };
        *length = Some(own);
        let Some(at) = rest.tagged("@") else { return false };
        let mut flags = fragment(builder) & !ipv4::FRAGMENT_OFFSET | (at / 8) as u16 & ipv4::FRAGMENT_OFFSET;
        if rest.take("+") {
            flags |= ipv4::MORE_FRAGMENTS;
        }
        builder.inject(Field::IpFragOff, Said::Number(flags.into()));
    } else if let Some(ttl) = rest.tagged("ttl ") {
        number(Field::IpTtl, ttl);
    } else if let Some(id) = rest.tagged("id ") {
        number(Field::IpId, id);
    } else if let Some(total) = rest.tagged("len ") {
        set_total(builder, total, length);
    } else {
        return false;
    }
    true
}

fn fragment(builder: &PacketBuilder) -> u16 {
    ip_header::u16_at(&builder.bytes, ipv4::offset::FRAGMENT)
}

/// The line says how long the whole packet was.
fn set_total(builder: &mut PacketBuilder, total: u32, length: &mut Option<u32>) {
    let headers = builder.bytes.len() as u32;
    match *length {
        Some(payload) if total != headers.saturating_add(payload) => {
            // What is missing are options of TCP that were not told.
            let tcp = total.checked_sub(payload.saturating_add(LEN as u32)).map(|tcp| tcp as usize);
            let fits = |tcp: &usize| (tcp::HEADER_LEN..=tcp::HEADER_LEN + MAX_OPTIONS).contains(tcp);
            if let Some(tcp) = tcp.filter(|tcp| builder.ip_protocol() == Protocol::TCP && fits(tcp)) {
                builder.bytes.truncate(LEN + tcp);
                builder.set_tcp_off(tcp, true);
            }
        }
        _ => *length = Some(total.saturating_sub(headers)),
    }
}

/// Says in the headers how long the packet is.
fn finish(builder: &mut PacketBuilder, length: Option<u32>) {
    let (headers, payload) = (builder.bytes.len() as u32, length.unwrap_or(0));
    let total = headers.saturating_add(payload).min(u16::MAX.into()) as u16;
    builder.put(ipv4::offset::TOTAL_LEN, &total.to_be_bytes());
    builder.extra_length = payload;
    if builder.ip_protocol() == Protocol::UDP && builder.is_first_fragment() {
        builder.put(LEN + udp::offset::LEN, &(total - LEN as u16).to_be_bytes());
    }
}
