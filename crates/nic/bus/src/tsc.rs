//! The time stamp counter: the clock of this field, because it costs a few
//! nanoseconds and ticks at one rate on every core of a modern machine.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The counter now.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: the instruction is on every x86-64 and only reads a counter.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Elsewhere than on x86 the monotonic clock in nanoseconds stands in, and
/// [`hz`] says so.
#[cfg(not(target_arch = "x86_64"))]
pub fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Ticks per second, measured once against the monotonic clock (20 ms).
pub fn hz() -> u64 {
    static HZ: OnceLock<u64> = OnceLock::new();
    *HZ.get_or_init(|| {
        let (clock, ticks) = both();
        std::thread::sleep(Duration::from_millis(20));
        let (end, end_ticks) = both();
        let (elapsed, ticks) = (end.duration_since(clock), end_ticks.wrapping_sub(ticks));
        (u128::from(ticks) * 1_000_000_000 / elapsed.as_nanos().max(1)) as u64
    })
}

/// Clock and counter at the same time: of some pairs the one between whose halves
/// least time passed, as a busy machine may stop this thread between them.
fn both() -> (Instant, u64) {
    let pair = |_| {
        let (before, clock) = (now(), Instant::now());
        let after = now();
        (after.wrapping_sub(before), clock, after)
    };
    let (_, clock, ticks) = (0..16).map(pair).min_by_key(|(apart, ..)| *apart).unwrap_or_else(|| pair(0));
    (clock, ticks)
}
