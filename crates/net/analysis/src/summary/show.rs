//! Fields of a packet as text, and in binary records.

use std::fmt::Write;
use std::net::Ipv4Addr;

use graph::value::Ethernet;

use super::options::{self, ALL_BUT_PADDING, NOT_TIME, SACK};
use super::view::{Value, View};
use super::{Binary, FLAGS, Field, Known};
use crate::{md5, text};
use wire::names::{code_name, type_name};

/// Which TCP options a field shows.
fn mask(field: Field) -> u32 {
    match field {
        Field::TcpNtOpt => NOT_TIME,
        Field::TcpSack => SACK,
        _ => ALL_BUT_PADDING,
    }
}

/// Appends a field as text, `-` where the packet has none.
pub(super) fn ascii(field: Field, view: &mut View<'_>, out: &mut String) {
    let Some(value) = view.value(field) else { return out.push('-') };
    let _ = match value {
        Value::Number(n) => return number(field, n, view, out),
        Value::Wide(n) => write!(out, "{n}"),
        Value::Time(ns) => write!(out, "{}", text::time(ns)),
        Value::Address(address) => write!(out, "{}", Ipv4Addr::from(address)),
        Value::Ethernet(address) => write!(out, "{}", Ethernet(address)),
        Value::Char(letter) => write!(out, "{}", char::from(letter)),
        Value::Options([]) => write!(out, "."),
        Value::Options(bytes) => match field {
            Field::IpOpt => return options::show_ip(bytes, out),
            _ => return options::show_tcp(bytes, mask(field), out),
        },
        Value::Payload(bytes) => match field {
            Field::PayloadMd5 => write!(out, "{}", md5::letters(&md5::digest(&bytes))),
            Field::PayloadMd5Hex => write!(out, "{}", md5::hex(&md5::digest(&bytes))),
            _ => write!(out, "{}", graph::lang::args::quote(&bytes)),
        },
    };
}

fn number(field: Field, n: u32, view: &View<'_>, out: &mut String) {
    let name = match (field, n) {
        (Field::Direction, 0) => Some(">"),
        (Field::Direction, 1) => Some("<"),
        (Field::IpEcn, n) => Some(["no", "ect1", "ect2", "ce"][n as usize & 3]),
        (Field::IpProto, 6) => Some("T"),
        (Field::IpProto, 17) => Some("U"),
        (Field::IpProto, 1) => Some("I"),
        (Field::IcmpTypeName, n) => type_name(n as u8),
        (Field::IcmpCodeName, n) => code_name(view.icmp_type(), n as u8),
        _ => None,
    };
    let _ = match field {
        _ if name.is_some() => write!(out, "{}", name.unwrap_or("")),
        Field::IpFragOff => {
            let (more, whole) =
                (if n & 0x2000 != 0 { "+" } else { "" }, if n & 0x4000 != 0 { "!" } else { "" });
            write!(out, "{}{more}{whole}", (n & 0x1FFF) << 3)
        }
        Field::EthType => write!(out, "{n:04X}"),
        Field::TcpFlags => return flags(n, out),
        _ => write!(out, "{n}"),
    };
}

/// Appends TCP flags: a letter for each, `.` for none.
pub(crate) fn flags(bits: u32, out: &mut String) {
    if bits == 0 {
        return out.push('.');
    }
    let set = FLAGS.iter().enumerate().filter(|(n, _)| bits >> n & 1 != 0);
    out.extend(set.map(|(_, letter)| char::from(*letter)));
}

/// Appends a field as it stands in a binary record; zero where the packet has none.
pub(super) fn binary(known: &Known, view: &mut View<'_>, out: &mut Vec<u8>) {
    let value = view.value(known.field);
    let size = match known.binary {
        Binary::Never => return,
        Binary::Bytes(size) => size,
        Binary::Counted => {
            let bytes = match value {
                Some(Value::Options(bytes)) if known.field == Field::IpOpt => bytes.to_vec(),
                Some(Value::Options(bytes)) if known.field == Field::TcpOpt => bytes.to_vec(),
                Some(Value::Options(bytes)) => options::only(bytes, mask(known.field)),
                _ => vec![],
            };
            // Forty bytes at the most: it fits.
            out.push(bytes.len() as u8);
            return out.extend(bytes);
        }
    };
    let number: u128 = match value {
        None => 0,
        Some(Value::Number(n) | Value::Address(n)) => n.into(),
        Some(Value::Wide(n)) => n.into(),
        Some(Value::Char(letter)) => letter.into(),
        Some(Value::Time(ns)) => {
            let (seconds, rest) = (ns.div_euclid(1_000_000_000) as u32, ns.rem_euclid(1_000_000_000) as u32);
            let nano = matches!(known.field, Field::NanoTimestamp | Field::FirstNanoTimestamp);
            u128::from(seconds) << 32 | u128::from(if nano { rest } else { rest / 1000 })
        }
        Some(Value::Ethernet(address)) => return out.extend(address),
        Some(Value::Payload(bytes)) => return out.extend(md5::digest(&bytes)),
        Some(Value::Options(_)) => 0,
    };
    let bytes = number.to_be_bytes();
    out.extend(&bytes[bytes.len() - size..]);
}
