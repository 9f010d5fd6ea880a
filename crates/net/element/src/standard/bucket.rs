//! A token bucket that counts as Click's does: 32 bits for a full bucket, refilled
//! each millisecond; so rates come out the same to the packet.

use graph::{ConfFault, Cx};

/// Ticks in a second.
const FREQUENCY: u64 = 1000;
const FULL: u64 = u32::MAX as u64;
/// Tokens a bucket of bytes keeps for the packet that is next, whatever its length.
pub(super) const BYTES_THRESHOLD: u32 = 131_072;

/// A rate, a capacity, and what is there now.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    /// Fractions of a token gained in a tick.
    gain: u64,
    /// Fractions in a token.
    scale: u64,
    fractions: u64,
    /// When it was filled last.
    tick: i64,
}

impl Bucket {
    /// `rate` tokens a second, at most `capacity`; it is full when first looked at.
    pub(super) fn new(rate: u32, capacity: u32) -> Bucket {
        let mut bucket = Bucket { gain: 0, scale: 1, fractions: 0, tick: 0 };
        bucket.assign(rate, capacity);
        bucket
    }

    /// Changes rate and capacity; what is there stays, in tokens.
    pub(super) fn assign(&mut self, rate: u32, capacity: u32) {
        let (rate, capacity) = if capacity == 0 { (0, FULL) } else { (u64::from(rate), u64::from(capacity)) };
        // A tick's gain is never more than the whole bucket.
        let least = if rate == 0 { 1 } else { (rate - 1) / FREQUENCY + 1 };
        let scale = FULL / capacity.max(least);
        self.fractions = (self.fractions * scale / self.scale).min(FULL);
        self.scale = scale;
        self.gain = if rate == 0 { 0 } else { (rate * scale / FREQUENCY).max(1) };
    }

    /// Tokens a second, as they come out.
    pub(super) fn rate(&self) -> u32 {
        u32::try_from((self.gain * FREQUENCY + self.gain / 2) / self.scale).unwrap_or(u32::MAX)
    }

    /// Puts in what came since the last time.
    #[inline]
    pub(super) fn refill(&mut self, cx: &Cx<'_>) {
        self.refill_at(cx.now_ns());
    }

    fn refill_at(&mut self, now_ns: i64) {
        let tick = now_ns / 1_000_000;
        let ticks = tick.saturating_sub(self.tick).max(0) as u64;
        if ticks > 0 {
            let gained = ticks.saturating_mul(self.gain);
            self.fractions = self.fractions.saturating_add(gained).min(FULL);
        }
        self.tick = tick;
    }

    /// Has exactly this many tokens; what came since it was filled last is still to come.
    pub(super) fn set(&mut self, tokens: u32) {
        self.fractions = (u64::from(tokens) * self.scale).min(FULL);
    }

    #[inline]
    pub(super) fn contains(&self, tokens: u32) -> bool {
        u64::from(tokens) * self.scale <= self.fractions
    }

    /// Takes tokens, as many as there are.
    #[inline]
    pub(super) fn remove(&mut self, tokens: u32) {
        self.fractions = self.fractions.saturating_sub(u64::from(tokens) * self.scale);
    }

    /// Takes tokens if they are there.
    #[inline]
    pub(super) fn remove_if(&mut self, tokens: u32) -> bool {
        let there = self.contains(tokens);
        if there {
            self.remove(tokens);
        }
        there
    }

    /// When there will be this many, in nanoseconds from now; `None` for never.
    pub(super) fn wait_ns(&self, tokens: u32) -> Option<i64> {
        let wanted = u64::from(tokens) * self.scale;
        if wanted <= self.fractions {
            return Some(0);
        }
        if self.gain == 0 || wanted > FULL {
            return None;
        }
        let ticks = (wanted - self.fractions - 1) / self.gain + 1;
        Some(i64::try_from(ticks).unwrap_or(i64::MAX).saturating_mul(1_000_000))
    }
}

/// The capacity of a bucket from its arguments: a burst, or how long one lasts.
pub(super) fn capacity(
    rate: u32,
    burst: Option<u32>,
    duration_ns: Option<i64>,
    bytes: bool,
) -> Result<u32, ConfFault> {
    if burst.is_some() && duration_ns.is_some() {
        return Err(ConfFault::new("cannot specify both BURST_DURATION and BURST_SIZE"));
    }
    let duration_ms = u64::try_from(duration_ns.unwrap_or(20_000_000) / 1_000_000)
        .map_err(|_| ConfFault::new("BURST_DURATION: must be positive"))?;
    let lasting = || u32::try_from(u64::from(rate).saturating_mul(duration_ms) / 1000).unwrap_or(u32::MAX);
    let tokens = burst.unwrap_or_else(lasting);
    Ok(if bytes { tokens.saturating_add(BYTES_THRESHOLD) } else { tokens }.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_full_at_first_and_gains_at_its_rate() {
        let mut bucket = Bucket::new(2, 50);
        bucket.refill_at(1_000_000_000);
        bucket.refill_at(1_000_000_000_000);
        assert!(bucket.contains(50) && !bucket.contains(51));
        bucket.remove(50);
        assert!(!bucket.remove_if(1));
        assert!(matches!(bucket.wait_ns(1), Some(500_000_000 | 501_000_000)), "to a tick");
        bucket.refill_at(1_000_501_000_000);
        assert!(bucket.remove_if(1) && !bucket.remove_if(1));
        assert_eq!(bucket.rate(), 2);
    }

    #[test]
    fn a_bucket_of_one_is_a_tick_late_as_clicks_is() {
        let mut bucket = Bucket::new(100, 1);
        bucket.set(0);
        assert_eq!(bucket.wait_ns(1), Some(11_000_000));
    }

    #[test]
    fn extreme_rates_neither_overflow_nor_divide_by_zero() {
        for (rate, capacity) in [(0, 0), (u32::MAX, 1), (1, u32::MAX), (u32::MAX, u32::MAX), (5, 0)] {
            let mut bucket = Bucket::new(rate, capacity);
            bucket.refill_at(i64::MAX);
            bucket.remove(u32::MAX);
            bucket.assign(capacity, rate);
            let _ = (bucket.wait_ns(u32::MAX), bucket.rate());
        }
    }
}
