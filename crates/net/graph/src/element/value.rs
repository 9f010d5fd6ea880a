//! Values in configuration strings: numbers, addresses, times, rates, bytes.

mod names;

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::clock::SECOND_NS;
use crate::lang::args;

pub use names::{NameKind, Names, Scope, enclosing};

/// Something that stands in a configuration string.
pub trait Value: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// What was expected.
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Self, String>;
}

/// Reads a value where no names are known: what is written to a handler, and what a name was
/// declared to stand for, which is no name again, though a name may be written as an address is.
///
/// # Errors
/// What was expected.
pub fn parse_alone<T: Value>(text: &str) -> Result<T, String> {
    T::parse(text, &Scope { element: "", names: &Names::default() })
}

/// A name without one of these suffixes, which say what of it is meant.
fn without_suffix<'t>(text: &'t str, suffixes: &[&str]) -> &'t str {
    let known = |(_, suffix): &(&str, &str)| suffixes.iter().any(|known| suffix.eq_ignore_ascii_case(known));
    text.rsplit_once(':').filter(known).map_or(text, |(name, _)| name)
}

/// Reads an unsigned number: decimal, `0x` hexadecimal, `0` octal, `0b` binary.
pub fn unsigned(text: &str) -> Option<u64> {
    let clean = text.trim();
    let (digits, radix) = match clean.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&clean[2..], 16),
        [b'0', b'b' | b'B', ..] => (&clean[2..], 2),
        [b'0', _, ..] => (&clean[1..], 8),
        _ => (clean, 10),
    };
    let valid = !digits.starts_with(['+', '-', '_']) && !digits.ends_with('_') && !digits.contains("__");
    let valid = valid && !digits.is_empty();
    valid.then(|| u64::from_str_radix(&digits.replace('_', ""), radix).ok()).flatten()
}

macro_rules! unsigned_values {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn parse(text: &str, _: &Scope<'_>) -> Result<Self, String> {
                let value = unsigned(text).ok_or("expected unsigned integer")?;
                <$type>::try_from(value).map_err(|_| format!("out of range, bound {}", <$type>::MAX))
            }
        }
    )*};
}
unsigned_values!(u8, u16, u32, u64);

/// Lengths and counts: as Click's unsigned integers, of 32 bits on any machine.
impl Value for usize {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<usize, String> {
        u32::parse(text, scope).map(|value| value as usize)
    }
}

macro_rules! signed_values {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn parse(text: &str, _: &Scope<'_>) -> Result<Self, String> {
                let clean = text.trim();
                let (negative, digits) = match clean.strip_prefix('-') {
                    Some(digits) => (true, digits),
                    None => (false, clean.strip_prefix('+').unwrap_or(clean)),
                };
                let value = i128::from(unsigned(digits).ok_or("expected integer")?);
                let value = if negative { -value } else { value };
                let bound = if negative { <$type>::MIN } else { <$type>::MAX };
                <$type>::try_from(value).map_err(|_| format!("out of range, bound {bound}"))
            }
        }
    )*};
}
signed_values!(i32, i64, isize);

impl Value for bool {
    fn parse(text: &str, _: &Scope<'_>) -> Result<bool, String> {
        match text.trim() {
            "1" | "true" | "TRUE" | "True" | "t" | "yes" | "Yes" | "YES" | "y" => Ok(true),
            "0" | "false" | "FALSE" | "False" | "f" | "no" | "No" | "NO" | "n" => Ok(false),
            _ => Err("expected boolean".into()),
        }
    }
}

impl Value for f64 {
    fn parse(text: &str, _: &Scope<'_>) -> Result<f64, String> {
        text.trim().parse().ok().filter(|f: &f64| f.is_finite()).ok_or_else(|| "expected real".into())
    }
}

/// Text without its quotes.
impl Value for String {
    fn parse(text: &str, _: &Scope<'_>) -> Result<String, String> {
        Ok(String::from_utf8_lossy(&args::unquote(text)).into_owned())
    }
}

/// Bytes: text without its quotes, escapes replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Value for Bytes {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Bytes, String> {
        Ok(Bytes(args::unquote(text)))
    }
}

/// An argument as it was written, quotes and all: to be taken apart further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw(pub String);

impl Value for Raw {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Raw, String> {
        Ok(Raw(text.to_string()))
    }
}

impl Value for Ipv4Addr {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Ipv4Addr, String> {
        let text = text.trim();
        let known = || scope.find(NameKind::Ipv4, text).and_then(|known| known.parse().ok());
        let found = text.parse().ok().or_else(known).or_else(|| scope.suffixed(text));
        found.ok_or_else(|| "expected IP address".into())
    }
}

impl Value for Ipv6Addr {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Ipv6Addr, String> {
        let text = text.trim();
        let known = || {
            let name = without_suffix(text, &["ip6"]);
            scope.find(NameKind::Ipv6, name).and_then(|known| known.parse().ok())
        };
        text.parse().ok().or_else(known).ok_or_else(|| "expected IPv6 address".into())
    }
}

impl Value for IpAddr {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<IpAddr, String> {
        let v4 = Ipv4Addr::parse(text, scope).map(IpAddr::V4);
        v4.or_else(|_| Ipv6Addr::parse(text, scope).map(IpAddr::V6)).map_err(|_| "expected IP address".into())
    }
}

/// An IPv4 prefix: `10.0.0.0/8`, `10.0.0.0/255.0.0.0`; a mere address is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix4 {
    /// The address as written, its host part included.
    pub address: Ipv4Addr,
    /// The mask; any bits, though most are a prefix's.
    pub mask: Ipv4Addr,
}

impl Prefix4 {
    /// Whether an address lies within.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        (address.to_bits() ^ self.address.to_bits()) & self.mask.to_bits() == 0
    }

    /// Bits of the prefix; `None` when the mask is none of a prefix.
    pub fn length(&self) -> Option<u8> {
        let mask = self.mask.to_bits();
        (mask.leading_ones() + mask.trailing_zeros() >= 32).then_some(mask.leading_ones() as u8)
    }
}

impl Value for Prefix4 {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Prefix4, String> {
        let expected = || "expected IP address or prefix".to_string();
        let text = text.trim();
        let Some((address, mask)) = text.split_once('/') else {
            // A bare name is its address, if it has one: `name:ipnet` is its net.
            // A name that is an address as well is that: Click's order.
            if let Ok(address) = Ipv4Addr::parse(text, scope) {
                return Ok(Prefix4 { address, mask: Ipv4Addr::BROADCAST });
            }
            let name = without_suffix(text, &["net", "ipnet", "ip4net"]);
            let known = scope.lookup(NameKind::Ipv4Prefix, text).map(Cow::Borrowed);
            return parse_alone(
                &known.or_else(|| scope.find(NameKind::Ipv4Prefix, name)).ok_or_else(expected)?,
            );
        };
        // Bytes that are left out are zero: 10/8.
        let given = address.split('.').count();
        let padded = format!("{address}{}", ".0".repeat(4usize.saturating_sub(given)));
        let address = Ipv4Addr::parse(&padded, scope).or_else(|_| Ipv4Addr::parse(address, scope));
        let mask = match mask.parse::<u32>() {
            Ok(bits @ 0..=32) => Ipv4Addr::from(u32::MAX.checked_shl(32 - bits).unwrap_or(0)),
            Ok(_) => return Err(expected()),
            Err(_) => Ipv4Addr::parse(mask, scope).map_err(|_| expected())?,
        };
        Ok(Prefix4 { address: address.map_err(|_| expected())?, mask })
    }
}

/// An IPv6 prefix: `2001:db8::/32`; a mere address is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix6 {
    /// The address as written, its host part included.
    pub address: Ipv6Addr,
    /// Bits that count.
    pub length: u8,
}

impl Value for Prefix6 {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Prefix6, String> {
        let expected = || "expected IPv6 address or prefix".to_string();
        let text = text.trim();
        let of_net = without_suffix(text, &["ip6net"]);
        if let Some(known) = scope.lookup(NameKind::Ipv6Prefix, of_net) {
            return parse_alone(known);
        }
        if let Some(known) = scope.find(NameKind::Ipv6Prefix, of_net).filter(|_| of_net != text) {
            return parse_alone(&known);
        }
        let (address, length) = text.split_once('/').unwrap_or((text, "128"));
        let length = length.parse().ok().filter(|n| *n <= 128).ok_or_else(expected)?;
        Ok(Prefix6 { address: Ipv6Addr::parse(address, scope).map_err(|_| expected())?, length })
    }
}

/// An Ethernet address: `00:1b:21:00:00:01`, or with dashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ethernet(pub [u8; 6]);

impl Value for Ethernet {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Ethernet, String> {
        let text = text.trim();
        // The name of a port that has commas stands in quotes.
        let name = without_suffix(text.trim_matches('"'), &["eth", "ether", "ethernet"]);
        let known = scope.lookup(NameKind::Ethernet, text).map(Cow::Borrowed);
        if let Some(known) = known.or_else(|| scope.find(NameKind::Ethernet, name)) {
            return parse_alone(&known);
        }
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let part = parts.next().filter(|p| matches!(p.len(), 1 | 2) && !p.starts_with('+'));
            let value = part.and_then(|p| u8::from_str_radix(p, 16).ok());
            *byte = value.ok_or("expected Ethernet address")?;
        }
        match parts.next() {
            None => Ok(Ethernet(bytes)),
            Some(_) => Err("expected Ethernet address".into()),
        }
    }
}

impl std::fmt::Display for Ethernet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02X}-{b:02X}-{c:02X}-{d:02X}-{e:02X}-{g:02X}")
    }
}

/// A decimal number with an optional unit, as a multiple of `scale` below one:
/// (`1.5`, 10^9) is 1,500,000,000. Digits beyond are cut off.
pub fn fixed_point(text: &str, scale: u64) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit()) && s.len() <= 20;
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let mut value = whole.parse::<u128>().unwrap_or(0) as i128 * i128::from(scale);
    let mut unit = i128::from(scale);
    for digit in fraction.bytes() {
        unit /= 10;
        value += i128::from(digit - b'0') * unit;
    }
    Some(if negative { -value } else { value })
}

/// A time span in nanoseconds, never negative: `5`, `0.1s`, `20ms`, `3 min`, `10us`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span(pub i64);

impl Value for Span {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Span, String> {
        match SignedSpan::parse(text, scope)? {
            SignedSpan(ns @ 0..) if !text.trim_start().starts_with('-') => Ok(Span(ns)),
            SignedSpan(_) => Err("expected time in seconds".into()),
        }
    }
}

/// A time span in nanoseconds that may be negative, as `-1.5s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct SignedSpan(pub i64);

impl Value for SignedSpan {
    fn parse(text: &str, _: &Scope<'_>) -> Result<SignedSpan, String> {
        let text = text.trim();
        let digits =
            text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || "+-.".contains(c)).len();
        let (number, unit) = text.split_at(digits);
        let (scale, times) = match unit.trim() {
            "" | "s" | "sec" | "second" | "seconds" => (SECOND_NS as u64, 1),
            "ms" | "msec" => (1_000_000, 1),
            "us" | "usec" => (1_000, 1),
            "ns" | "nsec" => (1, 1),
            "m" | "min" => (SECOND_NS as u64, 60),
            "h" | "hr" => (SECOND_NS as u64, 3600),
            "d" | "day" => (SECOND_NS as u64, 86400),
            _ => return Err("expected time in seconds".into()),
        };
        let value = fixed_point(number, scale).ok_or("expected time in seconds")?;
        i64::try_from(value * times).map(SignedSpan).map_err(|_| "time out of range".into())
    }
}

/// A rate of bytes: `10Mbps`, `1.5kB/s`, `100 baud`; a mere number is bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Bandwidth(pub u64);

impl Value for Bandwidth {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Bandwidth, String> {
        let expected = || "expected bandwidth".to_string();
        let text = text.trim();
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim();
        let (prefix, unit) = match unit.chars().next() {
            Some(p @ ('k' | 'K' | 'M' | 'G')) => (p, &unit[1..]),
            _ => (' ', unit),
        };
        let bits = match unit {
            "" | "Bps" | "B/s" | "B" | "bytes/s" => false,
            "bps" | "b/s" | "b" | "baud" | "bits/s" => true,
            _ => return Err(expected()),
        };
        let scale = match prefix {
            'k' | 'K' => 1_000,
            'M' => 1_000_000,
            'G' => 1_000_000_000,
            _ => 1,
        };
        let value = fixed_point(number, scale * 8).filter(|v| *v >= 0).ok_or_else(expected)?;
        let bytes = if bits { value / 64 } else { value / 8 };
        u64::try_from(bytes).map(Bandwidth).map_err(|_| "bandwidth out of range".into())
    }
}
