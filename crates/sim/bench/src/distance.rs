//! How far two cores are apart: the round trip of one cache line between two
//! threads. On a shared virtual machine it changes by a factor of ten within
//! seconds, and every figure of two cores with it, so it is measured around each
//! window and printed beside it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Below this many TSC ticks a round trip stays within one cache complex.
pub const NEAR: u64 = 250;
/// Round trips in one measurement.
const ROUNDS: u64 = 200;

/// One cache line that two threads pass back and forth.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Line(AtomicU64);

impl Line {
    /// Sends the line to the other thread some hundred times and waits for it to
    /// come back; the shortest round trip in TSC ticks. The other thread must be
    /// in [`answer`](Self::answer).
    pub fn measure(&self) -> u64 {
        let start = self.0.load(Ordering::Relaxed);
        let mut shortest = u64::MAX;
        for round in 0..ROUNDS {
            let sent = bus::tsc::now();
            self.0.store(start + 2 * round + 1, Ordering::Release);
            while self.0.load(Ordering::Acquire) != start + 2 * round + 2 {
                std::hint::spin_loop();
            }
            shortest = shortest.min(bus::tsc::now() - sent);
        }
        shortest
    }

    /// Answers one [`measure`](Self::measure) of the other thread.
    pub fn answer(&self) {
        let start = self.0.load(Ordering::Relaxed) & !1;
        for round in 0..ROUNDS {
            while self.0.load(Ordering::Acquire) != start + 2 * round + 1 {
                std::hint::spin_loop();
            }
            self.0.store(start + 2 * round + 2, Ordering::Release);
        }
    }
}
