//! How fast something comes: an average that forgets.

use graph::clock::SECOND_NS;

/// How long an epoch is, and how much of the average a new one replaces: after some
/// four seconds hardly anything of before is left.
const EPOCH_NS: i64 = SECOND_NS / 64;
const SHARE: f64 = 1.0 / 64.0;

/// A rate, as an average over epochs in which later ones count more.
#[derive(Debug, Clone, Default)]
pub(super) struct Rate {
    epoch: Option<i64>,
    /// In this epoch so far.
    count: u64,
    /// For each epoch.
    average: f64,
}

impl Rate {
    /// `count` more came.
    pub(super) fn count(&mut self, now_ns: i64, count: u64) {
        let now = now_ns / EPOCH_NS;
        let passed = now - *self.epoch.get_or_insert(now);
        if passed > 0 {
            self.average += (self.count as f64 - self.average) * SHARE;
            // Then nothing came for the rest of them.
            let empty = i32::try_from(passed - 1).unwrap_or(i32::MAX);
            self.average *= (1.0 - SHARE).powi(empty);
            (self.epoch, self.count) = (Some(now), 0);
        }
        self.count += count;
    }

    /// How many come in a second.
    pub(super) fn a_second(&self) -> f64 {
        self.average * (SECOND_NS / EPOCH_NS) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_found_and_forgotten() {
        let mut rate = Rate::default();
        (0..10_000).for_each(|n| rate.count(n * SECOND_NS / 1000, 1));
        assert!((rate.a_second() - 1000.0).abs() < 20.0, "{}", rate.a_second());
        rate.count(20 * SECOND_NS, 0);
        assert!(rate.a_second() < 10.0, "{}", rate.a_second());
    }
}
