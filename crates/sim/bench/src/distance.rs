//! How far two cores are apart: the round trip of one cache line between two
//! threads. On a shared virtual machine it changes by a factor of ten within
//! seconds, and every figure of two cores with it, so it is measured around each
//! window and printed beside it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Cores are near while their round trip takes at most this many times the quickest one that
/// was measured in this run: what is quick differs between machines.
pub const NEAR: f64 = 1.5;
/// Round trips in one measurement.
const ROUNDS: usize = 200;
/// As many of them are no longer than the figure. The shortest of all says little: a few are
/// short however far the cores are apart; the longest are those of a thread that was stopped.
const QUICKER: usize = ROUNDS * 9 / 10;

/// The quickest in this run, in TSC ticks.
static QUICKEST: AtomicU64 = AtomicU64::new(u64::MAX);

/// Whether cores with this round trip, in TSC ticks, are near, as far as is known yet.
pub fn is_near(round_trip: u64) -> bool {
    round_trip as f64 <= NEAR * QUICKEST.load(Ordering::Relaxed) as f64
}

/// One cache line that two threads pass back and forth.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Line(AtomicU64);

impl Line {
    /// Sends the line to the other thread some hundred times and waits for it to
    /// come back; TSC ticks that nine of ten round trips take at most. The other
    /// thread must be in [`answer`](Self::answer).
    pub fn measure(&self) -> u64 {
        let start = self.0.load(Ordering::Relaxed);
        let mut took = [0; ROUNDS];
        for (round, took) in (0..).zip(&mut took) {
            let sent = bus::tsc::now();
            self.0.store(start + 2 * round + 1, Ordering::Release);
            while self.0.load(Ordering::Acquire) != start + 2 * round + 2 {
                std::hint::spin_loop();
            }
            *took = bus::tsc::now() - sent;
        }
        took.sort_unstable();
        QUICKEST.fetch_min(took[QUICKER], Ordering::Relaxed);
        took[QUICKER]
    }

    /// Answers one [`measure`](Self::measure) of the other thread.
    pub fn answer(&self) {
        let start = self.0.load(Ordering::Relaxed) & !1;
        for round in 0..ROUNDS as u64 {
            while self.0.load(Ordering::Acquire) != start + 2 * round + 1 {
                std::hint::spin_loop();
            }
            self.0.store(start + 2 * round + 2, Ordering::Release);
        }
    }
}
