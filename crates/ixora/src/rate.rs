//! Rates, sizes and times as people write them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Packets per second; `None` is as fast as possible.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate(pub Option<f64>);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        if text == "max" {
            return Ok(Rate(None));
        }
        let (number, unit) = match text.strip_suffix(['k', 'K']) {
            Some(number) => (number, 1e3),
            None => text.strip_suffix(['m', 'M']).map_or((text, 1.0), |number| (number, 1e6)),
        };
        match number.parse::<f64>() {
            Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(Rate(Some(rate * unit))),
            _ => Err(format!("{text:?} is no rate: write packets per second as 1000, 500k, 14.88M, or max")),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("max"),
            Some(rate) if rate >= 1e6 => write!(f, "{}M", rate / 1e6),
            Some(rate) => write!(f, "{rate}"),
        }
    }
}

/// Sizes of memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory(pub usize);

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Memory, String> {
        let units = [(['k', 'K'], 10), (['m', 'M'], 20), (['g', 'G'], 30)];
        let unit = units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
        let (number, shift) = unit.unwrap_or((text, 0));
        let bytes = number.parse().ok().and_then(|number: usize| number.checked_mul(1 << shift));
        let wrong = || format!("{text:?} is no size of memory: write bytes as 4096, 512k, 64M or 2G");
        bytes.filter(|bytes| (1024..1 << 46).contains(bytes)).map(Memory).ok_or_else(wrong)
    }
}

/// Packets per second in words: `14.88 Mpps`, `4.20 kpps`, `12 pps`.
pub fn per_second(rate: f64) -> String {
    match rate {
        rate if rate >= 999_500.0 => format!("{:.2} Mpps", rate / 1e6),
        rate if rate >= 999.5 => format!("{:.2} kpps", rate / 1e3),
        rate => format!("{rate:.0} pps"),
    }
}

/// How many of something in words: `1 packet`, `2 packets`.
pub fn plural<N: std::fmt::Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    let ending = if count == N::from(1) { "" } else { "s" };
    format!("{count} {what}{ending}")
}

/// Sizes of frames, with CRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// All the same.
    Bytes(usize),
    /// The simple internet mix: of twelve frames seven have 64 bytes, four 594
    /// and one 1518.
    Imix,
}

impl Size {
    /// The smallest Ethernet frame.
    const LEAST: usize = 64;
    /// What fits one buffer, and the CRC.
    const MOST: usize = memory::DATA_ROOM + 4;

    /// The sizes that there are, and which of them each frame of a cycle has.
    pub fn cycle(self) -> (Vec<usize>, &'static [u8]) {
        match self {
            Size::Bytes(size) => (vec![size], &[0]),
            Size::Imix => (vec![64, 594, 1518], &[0, 1, 0, 0, 1, 0, 2, 0, 1, 0, 1, 0]),
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        if text == "imix" {
            return Ok(Size::Imix);
        }
        let (least, most) = (Size::LEAST, Size::MOST);
        let size = text.parse().ok().filter(|size| (least..=most).contains(size));
        let wrong = || format!("{text:?} is no size: write {least} to {most} bytes, CRC included, or imix");
        size.map(Size::Bytes).ok_or_else(wrong)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Bytes(size) => write!(f, "{size}"),
            Size::Imix => f.write_str("imix"),
        }
    }
}

/// A time such as 10s, 500ms, 2m or 1h; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let scale = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{text:?} is no time: write 10s, 500ms, 2m or 1h")),
    };
    let seconds = number.parse::<f64>().ok().map(|n| n * scale);
    seconds
        .and_then(|s| Duration::try_from_secs_f64(s).ok())
        .ok_or_else(|| format!("{text:?} is no time: write 10s, 500ms, 2m or 1h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read_as_written() {
        assert_eq!("14.88M".parse(), Ok(Rate(Some(14.88e6))));
        assert_eq!("500k".parse(), Ok(Rate(Some(5e5))));
        assert_eq!("max".parse(), Ok(Rate(None)));
        assert!("fast".parse::<Rate>().is_err() && "-1".parse::<Rate>().is_err());
    }

    #[test]
    fn memory_reads_as_written() {
        assert_eq!(("64M".parse(), "4096".parse()), (Ok(Memory(64 << 20)), Ok(Memory(4096))));
        assert_eq!(("2g".parse(), "512k".parse()), (Ok(Memory(2 << 30)), Ok(Memory(512 << 10))));
        assert!("0".parse::<Memory>().is_err() && "99999999999G".parse::<Memory>().is_err());
    }

    #[test]
    fn low_rates_are_not_nought() {
        let all = [0.0, 12.4, 999.9, 4_200.0, 999_600.0, 14.88e6].map(per_second);
        assert_eq!(all, ["0 pps", "12 pps", "1.00 kpps", "4.20 kpps", "1.00 Mpps", "14.88 Mpps"]);
    }

    #[test]
    fn sizes_read_as_written() {
        assert_eq!("64".parse(), Ok(Size::Bytes(64)));
        assert_eq!("2052".parse(), Ok(Size::Bytes(2052)));
        assert_eq!("imix".parse(), Ok(Size::Imix));
        for bad in ["63", "2053", "-64", "large", ""] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_mix_is_seven_to_four_to_one() {
        let (sizes, cycle) = Size::Imix.cycle();
        let of = |index: u8| cycle.iter().filter(|&&n| n == index).count();
        assert_eq!((sizes.len(), of(0), of(1), of(2)), (3, 7, 4, 1));
    }

    #[test]
    fn times_read_as_written() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert!(duration("soon").is_err() && duration("-3s").is_err());
    }
}
