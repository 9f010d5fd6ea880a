//! Fields read from text, and from binary records.

use std::net::Ipv4Addr;

use graph::value::{Ethernet, parse_alone, unsigned};

use super::builder::PacketBuilder;
use super::options::{ALL, NOT_TIME, SACK};
use super::{Binary, FLAGS, Field, Known, option_text};
use crate::timestamp::span;
use wire::ip::Protocol;
use wire::names::{code_number, type_number};

/// What a line says of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    Number(u32),
    Wide(u64),
    /// Nanoseconds since 1970.
    Time(i64),
    Ethernet([u8; 6]),
    Bytes(Vec<u8>),
}

/// Reads a field from text; `None` when it is not understood. What an ICMP code means
/// depends on the type that was said before.
pub(super) fn from_text(known: &Known, text: &str, builder: &PacketBuilder) -> Option<Said> {
    use Field::*;
    let number = |most: u32| {
        let value = unsigned(text).and_then(|n| u32::try_from(n).ok()).filter(|n| *n <= most)?;
        Some(Said::Number(value))
    };
    match known.field {
        Timestamp | NanoTimestamp | FirstTimestamp | FirstNanoTimestamp => {
            span(text).ok().filter(|ns| *ns >= 0).map(Said::Time)
        }
        AllMicroseconds => unsigned(text).map(Said::Wide),
        Link | Direction => match text {
            ">" => Some(Said::Number(0)),
            "<" => Some(Said::Number(1)),
            _ => number(u32::MAX),
        },
        EthSrc | EthDst => parse_alone::<Ethernet>(text).ok().map(|address| Said::Ethernet(address.0)),
        EthType => u32::from_str_radix(text.trim_start_matches("0x"), 16)
            .ok()
            .filter(|n| *n <= 0xFFFF)
            .map(Said::Number),
        IpSrc | IpDst => text.parse::<Ipv4Addr>().ok().map(|address| Said::Number(address.to_bits())),
        IpFrag | IpFragOff => fragment(text, builder.minor_version).map(Said::Number),
        IpProto => {
            lettered(text).map_or_else(|| number(255), |protocol| Some(Said::Number(protocol.0.into())))
        }
        IpEcn => ecn(text).map_or_else(|| number(3), |ecn| Some(Said::Number(ecn))),
        IpOpt => options(text, option_text::ip),
        TcpOpt => options(text, |text| option_text::tcp(text, ALL)),
        TcpNtOpt => options(text, |text| option_text::tcp(text, NOT_TIME)),
        TcpSack => options(text, |text| option_text::tcp(text, SACK)),
        TcpFlags => flags(text).map(Said::Number),
        IcmpType | IcmpTypeName => match type_number(text) {
            Some(kind) => Some(Said::Number(kind.into())),
            None => number(255),
        },
        IcmpCode | IcmpCodeName => match builder.icmp_type().and_then(|kind| code_number(kind, text)) {
            Some(code) => Some(Said::Number(code.into())),
            None => number(255),
        },
        Payload => Some(Said::Bytes(graph::lang::args::unquote(text))),
        PayloadMd5 | PayloadMd5Hex => None,
        _ => match known.binary {
            Binary::Bytes(1) => number(0xFF),
            Binary::Bytes(2) => number(0xFFFF),
            _ => number(u32::MAX),
        },
    }
}

/// A protocol by the letter that summaries have for it.
pub(super) fn lettered(text: &str) -> Option<Protocol> {
    match text {
        "T" => Some(Protocol::TCP),
        "U" => Some(Protocol::UDP),
        "I" => Some(Protocol::ICMP),
        _ => None,
    }
}

/// The two bits of congestion notification by name, as Click's summaries have them.
fn ecn(text: &str) -> Option<u32> {
    match text {
        "no" => Some(0),
        "ect1" | "ECT(1)" => Some(1),
        "ect2" | "ECT(0)" => Some(2),
        "ce" | "CE" => Some(3),
        _ => None,
    }
}

fn options(text: &str, read: impl Fn(&str) -> Option<Vec<u8>>) -> Option<Said> {
    if text == "." { Some(Said::Bytes(vec![])) } else { read(text).map(Said::Bytes) }
}

/// The word of flags and offset: `.`, `!`, `F`, `f`, or bytes with `+` and `!`.
fn fragment(text: &str, minor_version: u32) -> Option<u32> {
    match text {
        "." => return Some(0),
        "!" => return Some(0x4000),
        "F" => return Some(0x2000),
        "f" => return Some(100), // some place behind the first
        _ => {}
    }
    let digits = text.trim_end_matches(['+', '!']);
    let offset = if digits.is_empty() { 0 } else { unsigned(digits)? };
    // Version 1.0 counted in units of eight bytes.
    let offset = if minor_version > 0 { offset >> 3 } else { offset };
    let mut value = u32::try_from(offset).ok()? & 0xFFFF;
    for mark in text[digits.len()..].chars() {
        value |= if mark == '+' { 0x2000 } else { 0x4000 };
    }
    Some(value)
}

/// TCP flags: a number, or letters; `W` and `X`, `Y` as old files have them.
fn flags(text: &str) -> Option<u32> {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return unsigned(text).and_then(|n| u32::try_from(n).ok()).filter(|n| *n < 0x1000);
    }
    if text == "." {
        return Some(0);
    }
    text.bytes().try_fold(0, |bits, letter| {
        let letter = match letter {
            b'W' | b'Y' => b'C',
            b'X' => b'E',
            other => other,
        };
        Some(bits | 1 << FLAGS.iter().position(|flag| *flag == letter)?)
    })
}

/// Takes a field from the front of a binary record; what it says, if anything.
pub(super) fn take(known: &Known, record: &mut &[u8]) -> Option<Said> {
    let size = match known.binary {
        Binary::Bytes(size) => size,
        Binary::Counted => {
            let (length, rest) = record.split_first()?;
            *record = rest;
            usize::from(*length)
        }
        // Nobody knows how long it is: the rest is lost.
        Binary::Never => usize::MAX,
    };
    if record.len() < size {
        *record = &[];
        return None;
    }
    let (bytes, rest) = record.split_at(size);
    *record = rest;
    if known.binary == Binary::Counted {
        return Some(Said::Bytes(bytes.to_vec()));
    }
    let number = bytes.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let time = |unit: i64| {
        let (seconds, part) = ((number >> 32) as i64, (number & 0xFFFF_FFFF) as i64);
        Said::Time(seconds * 1_000_000_000 + part * unit)
    };
    Some(match known.field {
        Field::Timestamp | Field::FirstTimestamp => time(1000),
        Field::NanoTimestamp | Field::FirstNanoTimestamp => time(1),
        Field::AllMicroseconds => Said::Wide(number),
        Field::EthSrc | Field::EthDst => Said::Ethernet(*bytes.first_chunk()?),
        Field::IpFrag => Said::Number(match number as u8 {
            b'F' => 0x2000,
            b'f' => 100,
            b'!' => 0x4000,
            _ => 0,
        }),
        _ => Said::Number(number as u32),
    })
}
