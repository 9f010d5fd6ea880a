//! Points in time that cost one read of the time stamp counter.

use std::ops::Add;
use std::sync::OnceLock;
use std::time::Duration;

use bus::tsc;

/// A point in time, as the time stamp counter has it. A thread reads it once for each
/// turn of a poller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(u64);

/// Factors between ticks and nanoseconds, as binary fractions of 32 bits.
struct Scale {
    ns_per_tick: u64,
    ticks_per_ns: u64,
}

/// The counter's rate is measured by the first who asks, for 20 ms.
fn scale() -> &'static Scale {
    static SCALE: OnceLock<Scale> = OnceLock::new();
    SCALE.get_or_init(|| {
        let hz = u128::from(tsc::hz().max(1));
        let ns_per_tick = ((1_000_000_000 << 32) / hz) as u64;
        Scale { ns_per_tick, ticks_per_ns: ((hz << 32) / 1_000_000_000) as u64 }
    })
}

/// The ticks' nanoseconds. The factor is off by less than one in 2^30.
fn nanoseconds(ticks: u64) -> u64 {
    ((u128::from(ticks) * u128::from(scale().ns_per_tick)) >> 32) as u64
}

impl Instant {
    /// The present moment.
    #[inline(always)]
    pub fn now() -> Instant {
        Instant(tsc::now())
    }

    /// Measures the counter's rate, so that nobody waits for that later.
    pub(crate) fn calibrate() {
        scale();
    }

    /// The time stamp counter's value.
    #[inline(always)]
    pub fn ticks(self) -> u64 {
        self.0
    }

    /// Nanoseconds since the counter began, for what takes the time as a number.
    pub fn as_ns(self) -> i64 {
        nanoseconds(self.0) as i64
    }

    /// The time since `earlier`; zero if that is later, as the counter of another core
    /// may be ahead.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(nanoseconds(self.0.saturating_sub(earlier.0)))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// The first tick at which so much time is over; the last one there is for a time
    /// that does not end.
    fn add(self, time: Duration) -> Instant {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let ticks = (u128::from(ns) * u128::from(scale().ticks_per_ns)).div_ceil(1 << 32);
        Instant(self.0.saturating_add(u64::try_from(ticks).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_what_is_between() {
        let now = Instant::now();
        for ns in [0, 1, 999, 1_000_000, 3_600_000_000_000] {
            let time = Duration::from_nanos(ns);
            let between = (now + time).since(now);
            // The factors have 30 bits or more, and a tick may be shorter than a nanosecond.
            assert!(between.abs_diff(time) <= Duration::from_nanos(2 + (ns >> 29)), "{time:?}, {between:?}");
            assert_eq!(now.since(now + time), Duration::ZERO, "time does not go back");
        }
        assert_eq!((now + Duration::MAX).ticks(), u64::MAX);
    }

    #[test]
    fn a_second_of_the_counter_is_a_second_in_nanoseconds() {
        let now = Instant::now();
        let between = (now + Duration::from_secs(1)).as_ns() - now.as_ns();
        assert!((between - 1_000_000_000).abs() < 10, "{between}");
    }
}
