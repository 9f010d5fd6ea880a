//! What printers have in common: times, bytes, and how much of them is asked for.

use std::fmt::Write;

/// How a packet's bytes are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Not at all.
    None,
    /// In hexadecimal.
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
