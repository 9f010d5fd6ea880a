//! Pacing: how many frames are due, by the time passed in.

use std::fmt;
use std::str::FromStr;

use super::SpecError;

/// Frames per second that a source offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rate {
    /// As fast as the NIC takes them: the source waits, nothing is lost.
    #[default]
    Max,
    /// So many per second, whether the NIC has room or not; a capture's begin with the first that it takes.
    PerSecond(u64),
}

/// The fastest rate that can be asked for.
const MAX_RATE: u64 = 1_000_000_000;

impl FromStr for Rate {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Rate, SpecError> {
        if text == "max" {
            return Ok(Rate::Max);
        }
        let wrong = || SpecError::value("rate", text, "frames per second as 5000, 250k, 1.5M, or `max`");
        let (number, unit) = match text.as_bytes().last() {
            Some(b'k' | b'K') => (&text[..text.len() - 1], 1e3),
            Some(b'M' | b'm') => (&text[..text.len() - 1], 1e6),
            _ => (text, 1.0),
        };
        let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let rate = number.parse::<f64>().ok().filter(|_| plain).ok_or_else(wrong)? * unit;
        if !(1.0..=MAX_RATE as f64).contains(&rate) {
            return Err(wrong());
        }
        Ok(Rate::PerSecond(rate as u64))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Rate::Max => f.write_str("max"),
            Rate::PerSecond(rate) if rate % 1_000_000 == 0 => write!(f, "{}M", rate / 1_000_000),
            Rate::PerSecond(rate) if rate % 1_000 == 0 => write!(f, "{}k", rate / 1_000),
            Rate::PerSecond(rate) => write!(f, "{rate}"),
        }
    }
}

const SECOND_NS: u64 = 1_000_000_000;
/// A source that was not asked for longer does not catch up further.
const MAX_CATCH_UP_NS: u64 = 1_000_000;
/// But a slow source may always owe some frames.
const MIN_CATCH_UP: u64 = 32;

/// How many frames a source may give now.
#[derive(Debug)]
pub(super) struct Pacer {
    rate: Rate,
    due: u64,
    /// Fraction of a frame that is due, in frames times 10⁻⁹.
    remainder: u64,
    last_ns: Option<u64>,
    /// Frames that were due but too late to be offered.
    skipped: u64,
}

impl Pacer {
    pub(super) fn new(rate: Rate) -> Pacer {
        let due = if rate == Rate::Max { u64::MAX } else { 0 };
        Pacer { rate, due, remainder: 0, last_ns: None, skipped: 0 }
    }

    pub(super) fn has_backpressure(&self) -> bool {
        self.rate == Rate::Max
    }

    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    #[inline]
    pub(super) fn due(&self) -> u64 {
        self.due
    }

    #[inline]
    pub(super) fn take(&mut self, frames: u64) {
        if self.rate != Rate::Max {
            self.due -= frames;
        }
    }

    pub(super) fn advance(&mut self, now_ns: u64) {
        let Rate::PerSecond(rate) = self.rate else { return };
        let last = self.last_ns.replace(now_ns).unwrap_or(now_ns);
        // At most ten seconds, so that the product fits.
        let elapsed = now_ns.saturating_sub(last).min(10 * SECOND_NS);
        let parts = elapsed * rate + self.remainder;
        self.remainder = parts % SECOND_NS;
        self.due += parts / SECOND_NS;
        let most = (rate * MAX_CATCH_UP_NS / SECOND_NS).max(MIN_CATCH_UP);
        self.skipped += self.due.saturating_sub(most);
        self.due = self.due.min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_met_whatever_the_steps() {
        for step in [7, 333, 10_000, 99_991] {
            let mut pacer = Pacer::new(Rate::PerSecond(1_234_567));
            let (mut now, mut given) = (5, 0);
            while now <= SECOND_NS {
                pacer.advance(now);
                given += pacer.due();
                pacer.take(pacer.due());
                now += step;
            }
            assert!((1_234_000..=1_234_567).contains(&given), "{given} in steps of {step}");
            assert_eq!(pacer.skipped(), 0);
        }
    }

    #[test]
    fn catching_up_is_bounded_and_counted() {
        let mut pacer = Pacer::new(Rate::PerSecond(1_000_000));
        pacer.advance(0);
        pacer.advance(SECOND_NS);
        assert_eq!((pacer.due(), pacer.skipped()), (1_000, 999_000));
    }

    #[test]
    fn time_that_goes_back_gives_nothing() {
        let mut pacer = Pacer::new(Rate::PerSecond(1_000_000));
        pacer.advance(1_000);
        pacer.advance(0);
        assert_eq!(pacer.due(), 0);
    }

    #[test]
    fn rates_are_read_and_written() {
        for (text, rate) in [("1", 1), ("250k", 250_000), ("1.5M", 1_500_000), ("10M", 10_000_000)] {
            assert_eq!(text.parse(), Ok(Rate::PerSecond(rate)));
            assert_eq!(Rate::PerSecond(rate).to_string().parse(), Ok(Rate::PerSecond(rate)));
        }
        for wrong in ["", "0", "-1", "fast", "1e9", "inf", "NaN", "2000M", "k", "1 M"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }
}
