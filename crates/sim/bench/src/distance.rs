//! How far two cores are apart: the round trip of one cache line between two
//! threads. On a shared virtual machine it changes by a factor of ten within
//! seconds, and every figure of two cores with it, so it is measured around each
//! window and printed beside it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Cores are near while their round trip takes at most this many times what a quarter of this
/// run's measurements did not exceed: what is quick differs between machines, and the quickest
/// of all may be one that no other comes near to. (Two threads of one core that read the line
/// in step: 56 ticks, where the others took 300 to 650.)
pub const NEAR: f64 = 1.5;
/// Round trips in one measurement.
const ROUNDS: usize = 200;
/// As many of them are no longer than the figure. The shortest of all says little: a few are
/// short however far the cores are apart; the longest are those of a thread that was stopped.
const QUICKER: usize = ROUNDS * 9 / 10;

/// What was measured in this run, in TSC ticks, in order of size.
static MEASURED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Whether cores with this round trip, in TSC ticks, are near, as far as is known yet.
pub fn is_near(round_trip: u64) -> bool {
    let measured = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
    is_near_among(&measured, round_trip)
}

fn is_near_among(measured: &[u64], round_trip: u64) -> bool {
    let reference = measured.get(measured.len() / 4);
    reference.is_none_or(|&reference| round_trip as f64 <= NEAR * reference as f64)
}

/// Those of `windows` in which the cores were near, or all of them when they were near in none;
/// and in how many they were near.
pub fn near_or_all<T>(windows: Vec<T>, is_near: impl Fn(&T) -> bool) -> (Vec<T>, usize) {
    let near = windows.iter().filter(|window| is_near(window)).count();
    let chosen = windows.into_iter().filter(|window| near == 0 || is_near(window)).collect();
    (chosen, near)
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
        let took = took[QUICKER];
        let mut measured = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
        let place = measured.partition_point(|&before| before < took);
        measured.insert(place, took);
        took
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_quick_measurement_makes_no_other_far() {
        let measured = [56, 300, 340, 404, 520, 560, 600, 660];
        assert!(is_near_among(&measured, 56) && is_near_among(&measured, 510));
        assert!(!is_near_among(&measured, 511) && !is_near_among(&measured, 2_000));
    }

    #[test]
    fn before_anything_was_measured_all_is_near() {
        assert!(is_near_among(&[], u64::MAX));
    }

    #[test]
    fn far_windows_count_when_no_other_was_seen() {
        let near = |window: &u64| *window < 10;
        assert_eq!(near_or_all(vec![1, 20, 3], near), (vec![1, 3], 2));
        assert_eq!(near_or_all(vec![20, 30], near), (vec![20, 30], 0));
        assert_eq!(near_or_all(vec![], near), (vec![], 0));
    }
}
