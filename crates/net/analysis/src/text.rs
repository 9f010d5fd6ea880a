//! What printers have in common: times, bytes, and how much of them is asked for.

use std::fmt::Write;

use graph::Refused;
use graph::value::{Ethernet, parse_alone};
use memory::Packet;
use memory::annotation::Header;
use wire::ethernet;

/// How a packet's bytes are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Not at all.
    None,
    /// As hexadecimal digits, two for a byte.
    Hex,
    /// As characters, dots for those that are none.
    Ascii,
}

impl Contents {
    /// Reads `false`, `true`, `NONE`, `HEX` or `ASCII`.
    pub(crate) fn parse(text: &str) -> Option<Contents> {
        match text.trim().to_ascii_uppercase().as_str() {
            "NONE" | "FALSE" | "NO" | "0" => Some(Contents::None),
            "HEX" | "TRUE" | "YES" | "1" => Some(Contents::Hex),
            "ASCII" => Some(Contents::Ascii),
            _ => None,
        }
    }
}

/// A truth that is written to a handler, in any of the forms that configurations have.
pub(crate) fn truth(value: &str) -> Result<bool, Refused> {
    parse_alone::<bool>(value).map_err(Refused::from)
}

/// A time in seconds, with six digits behind the point, or nine where they matter.
pub(crate) fn time(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let ns = ns.unsigned_abs();
    let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    match rest % 1000 {
        0 => format!("{sign}{seconds}.{:06}", rest / 1000),
        _ => format!("{sign}{seconds}.{rest:09}"),
    }
}

/// A number with twelve digits that count, as C's `%.12g` prints it.
pub(crate) fn general(value: f64) -> String {
    let scientific = format!("{value:.11e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if (-4..12).contains(&exponent) {
        return trim(&format!("{value:.*}", (11 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(digits), exponent.abs())
}

/// A span of time: seconds, or a smaller unit for less than one.
pub(crate) fn span(ns: i64) -> String {
    match ns {
        1_000_000_000.. | ..0 => format!("{}s", time(ns)),
        _ if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        _ if ns % 1000 == 0 => format!("{}us", ns / 1000),
        _ => format!("{ns}ns"),
    }
}

/// Appends bytes in hexadecimal: a space between groups of four, a new line and two
/// spaces before each `line` of them.
pub(crate) fn hex(out: &mut String, bytes: &[u8], line: Option<usize>) {
    for (i, byte) in bytes.iter().enumerate() {
        if line.is_some_and(|line| i % line == 0) {
            out.push_str("\n  ");
        } else if i % 4 == 0 && i > 0 {
            out.push(' ');
        }
        let _ = write!(out, "{byte:02x}");
    }
}

/// Appends bytes as characters: a space before groups of eight, a new line and two
/// spaces before each `line` of them.
pub(crate) fn ascii(out: &mut String, bytes: &[u8], line: Option<usize>) {
    for (i, byte) in bytes.iter().enumerate() {
        if line.is_some_and(|line| i % line == 0) {
            out.push_str("\n  ");
        } else if i % 8 == 0 {
            out.push(' ');
        }
        out.push(if (32..=126).contains(byte) { char::from(*byte) } else { '.' });
    }
}

/// The addresses of an Ethernet header, the sender's first, where the whole of it is before
/// the packet's network header. `link` is where it begins, as an offset of the data.
pub(crate) fn link_addresses(out: &mut String, packet: &Packet, link: isize, bytes: &[u8]) {
    let network = packet.header_offset(Header::Network).unwrap_or(0);
    if let Some(header) = ethernet::Header::of(bytes)
        && link + ethernet::HEADER_LEN as isize <= network
    {
        let _ = write!(out, "{} > {}: ", Ethernet(header.src().0), Ethernet(header.dst().0));
    }
}

#[cfg(test)]
mod tests {
    use super::{general, span};

    #[test]
    fn numbers_look_as_c_prints_them() {
        for (value, text) in [
            (0.5, "0.5"),
            (1.0 / 3.0, "0.333333333333"),
            (1.0, "1"),
            (0.00001, "1e-05"),
            (0.0, "0"),
            (2.5e-7, "2.5e-07"),
        ] {
            assert_eq!(general(value), text);
        }
    }

    #[test]
    fn spans_have_units() {
        for (ns, text) in
            [(5_000_000_000, "5.000000s"), (500_000_000, "500ms"), (0, "0ms"), (7_000, "7us"), (7, "7ns")]
        {
            assert_eq!(span(ns), text);
        }
    }
}
