//! How fast something comes: an average that forgets, in the fixed point that Click's
//! RateEWMA has, so that the same packets are told apart.

use graph::clock::SECOND_NS;

/// Bits behind the point.
pub(crate) const SCALE: u32 = 10;
/// Epochs without anything after which nothing is left.
const FORGOTTEN: i64 = 100;

/// Epochs of a millisecond, of which a new one replaces a 16th of the average.
pub(super) type Rate = EpochRate<1_000_000, 4>;
/// Epochs of eight milliseconds, of which a new one replaces a 32nd of the average.
pub(crate) type SlowRate = EpochRate<8_000_000, 5>;

/// A rate, as an average over epochs in which later ones count more: how long they are, and which power
/// of two a new one has to be divided by.
#[derive(Debug, Clone, Default)]
pub(crate) struct EpochRate<const EPOCH_NS: i64, const STABILITY: u32> {
    epoch: Option<i64>,
    /// In this epoch so far.
    count: i64,
    /// For each epoch, in fixed point.
    average: i64,
}

impl<const EPOCH_NS: i64, const STABILITY: u32> EpochRate<EPOCH_NS, STABILITY> {
    /// Epochs in a second.
    pub(crate) const FREQUENCY: i64 = SECOND_NS / EPOCH_NS;

    /// The epoch of a time.
    pub(crate) fn epoch(now_ns: i64) -> i64 {
        now_ns / EPOCH_NS
    }

    /// `count` more came.
    pub(crate) fn count(&mut self, now_ns: i64, count: u64) {
        let now = Self::epoch(now_ns);
        let passed = now - *self.epoch.get_or_insert(now);
        if passed > 0 {
            self.update(self.count);
            match passed - 1 {
                FORGOTTEN.. => self.average = 0,
                empty => (0..empty).for_each(|_| self.update(0)),
            }
            (self.epoch, self.count) = (Some(now), 0);
        }
        self.count += count as i64;
    }

    /// An epoch ended in which so many came.
    fn update(&mut self, count: i64) {
        let scaled = (count << SCALE) + (1 << (STABILITY - 1));
        self.average += (scaled - self.average) >> STABILITY;
    }

    /// A rate for each second as this one is compared with.
    pub(super) fn threshold(a_second: u64) -> i64 {
        ((a_second << SCALE) / Self::FREQUENCY as u64) as i64
    }

    /// Such a rate as handlers show it.
    pub(super) fn shown(threshold: i64) -> String {
        decimal((threshold * Self::FREQUENCY) as u64, SCALE)
    }

    /// How many come in an epoch, in fixed point.
    pub(crate) fn average(&self) -> i64 {
        self.average
    }

    /// How many come in a second, in decimal: as few digits as tell it apart.
    pub(super) fn a_second(&self) -> String {
        Self::shown(self.average)
    }
}

/// A number in fixed point, as decimal (Knuth's `print_scaled`).
pub(crate) fn decimal(number: u64, bits: u32) -> String {
    let one = 1u64 << bits;
    let mut out = (number >> bits).to_string();
    let mut rest = number & (one - 1);
    if rest == 0 {
        return out;
    }
    out.push('.');
    rest = 10 * rest + 5;
    let (mut inexact, mut rounder) = (10u64, 5u64);
    while rounder < one >> 1 {
        rounder *= 10;
    }
    loop {
        if inexact > one {
            rest = (rest + (one >> 1)).wrapping_sub(rounder);
        }
        out.push(char::from(b'0' + (rest >> bits) as u8));
        rest = 10 * (rest & (one - 1));
        inexact *= 10;
        if rest <= inexact {
            return out;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH_NS: i64 = 1_000_000;

    #[test]
    fn a_steady_rate_is_found_and_forgotten() {
        let mut rate = Rate::default();
        (0..10_000).for_each(|n| rate.count(n * EPOCH_NS, 1));
        assert!((rate.average() - (1 << SCALE)).abs() < 20, "{}", rate.a_second());
        rate.count(20_000 * EPOCH_NS, 0);
        assert_eq!(rate.a_second(), "0");
    }

    #[test]
    fn decimals_are_as_short_as_can_be() {
        assert_eq!((decimal(1 << 9, 10), decimal(3 << 10, 10)), ("0.5".into(), "3".into()));
        assert_eq!(decimal(103, 10), "0.101", "which reads back as 103");
    }
}
