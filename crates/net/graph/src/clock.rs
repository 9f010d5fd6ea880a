//! Time as the graph sees it: the system's, or simulated.
//!
//! Simulated time stands still but for one nanosecond each time somebody looks,
//! and jumps to the next timer when nothing is left to run. A simulation gives
//! the same result on every machine. The system's time may pass faster or slower
//! ([`Pace`]), as Click's handler `timewarp` has it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where simulated time begins: a second count that is easily told from real
/// time, as Click has it.
pub const SIMULATION_START_NS: i64 = 1_000_000_000 * SECOND_NS;
/// Nanoseconds in a second.
pub const SECOND_NS: i64 = 1_000_000_000;

/// How time passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// So many times as fast as the system's.
    Times(f64),
    /// As fast as the system's, but where nothing is left to run it jumps to the next timer.
    NoWait,
}

/// A source of time.
#[derive(Debug)]
pub struct Clock(ClockKind);

#[derive(Debug)]
enum ClockKind {
    /// While it is not paced, time is what `start` has passed behind `start_ns`.
    Real {
        start: Instant,
        start_ns: AtomicI64,
        is_paced: AtomicBool,
        paced: Mutex<Paced>,
    },
    Simulated(AtomicI64),
}

/// What was told when the pace was set or time jumped, and what the system's clock had passed then.
#[derive(Debug)]
struct Paced {
    told_ns: i64,
    passed_ns: i64,
    pace: Pace,
}

impl Paced {
    fn now_ns(&self, passed_ns: i64) -> i64 {
        // Whoever looked at the system's clock before the pace changed comes late.
        let since_ns = (passed_ns - self.passed_ns).max(0);
        match self.pace {
            Pace::Times(factor) => self.told_ns.saturating_add((since_ns as f64 * factor) as i64),
            Pace::NoWait => self.told_ns.saturating_add(since_ns),
        }
    }
}

impl Clock {
    /// The system's time; it never goes back, whatever is done to the system's clock.
    pub fn real() -> Clock {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let start_ns = since_1970.as_nanos() as i64;
        let paced = Mutex::new(Paced { told_ns: start_ns, passed_ns: 0, pace: Pace::Times(1.0) });
        let (start_ns, is_paced) = (AtomicI64::new(start_ns), AtomicBool::new(false));
        Clock(ClockKind::Real { start: Instant::now(), start_ns, is_paced, paced })
    }

    /// Time that begins at `start_ns` and moves only when it is told to.
    pub fn simulated(start_ns: i64) -> Clock {
        Clock(ClockKind::Simulated(AtomicI64::new(start_ns)))
    }

    /// Nanoseconds since 1970.
    pub fn now_ns(&self) -> i64 {
        match &self.0 {
            ClockKind::Real { start, start_ns, is_paced, paced } => {
                let passed_ns = start.elapsed().as_nanos() as i64;
                // Acquire: with what was written in front of it.
                match is_paced.load(Ordering::Acquire) {
                    false => start_ns.load(Ordering::Relaxed) + passed_ns,
                    true => lock(paced).now_ns(passed_ns),
                }
            }
            // Relaxed: a number of its own, ordered with nothing else.
            ClockKind::Simulated(now) => now.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Whether time is simulated.
    pub fn is_simulated(&self) -> bool {
        matches!(self.0, ClockKind::Simulated(_))
    }

    /// Whether time jumps to the next timer where nothing is left to run.
    pub fn jumps(&self) -> bool {
        self.pace().is_none_or(|pace| pace == Pace::NoWait)
    }

    /// How time passes; `None` for simulated time.
    pub fn pace(&self) -> Option<Pace> {
        match &self.0 {
            ClockKind::Real { is_paced, .. } if !is_paced.load(Ordering::Acquire) => Some(Pace::Times(1.0)),
            ClockKind::Real { paced, .. } => Some(lock(paced).pace),
            ClockKind::Simulated(_) => None,
        }
    }

    /// Has time pass in another way from now on; `false` for simulated time, which has no pace.
    pub fn set_pace(&self, pace: Pace) -> bool {
        let ClockKind::Real { start, start_ns, is_paced, paced } = &self.0 else { return false };
        let mut paced = lock(paced);
        let passed_ns = start.elapsed().as_nanos() as i64;
        let told_ns = paced.now_ns(passed_ns);
        *paced = Paced { told_ns, passed_ns, pace };
        // At the system's pace no lock is needed again.
        start_ns.store(told_ns - passed_ns, Ordering::Relaxed);
        is_paced.store(pace != Pace::Times(1.0), Ordering::Release);
        true
    }

    /// How long the system needs for so much time, in nanoseconds.
    pub fn system_ns(&self, ns: i64) -> i64 {
        match self.pace() {
            Some(Pace::Times(factor)) if factor != 1.0 => (ns as f64 / factor) as i64,
            _ => ns,
        }
    }

    /// Moves time that jumps on to `then_ns`, never back.
    pub fn jump_to(&self, then_ns: i64) {
        match &self.0 {
            ClockKind::Simulated(now) => {
                now.fetch_max(then_ns, Ordering::Relaxed);
            }
            ClockKind::Real { start, paced, .. } => {
                let mut paced = lock(paced);
                let passed_ns = start.elapsed().as_nanos() as i64;
                let now_ns = paced.now_ns(passed_ns);
                if paced.pace == Pace::NoWait && now_ns < then_ns {
                    (paced.told_ns, paced.passed_ns) = (then_ns, passed_ns);
                }
            }
        }
    }
}

fn lock(paced: &Mutex<Paced>) -> MutexGuard<'_, Paced> {
    paced.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_at_its_pace_and_never_goes_back() {
        let clock = Clock::real();
        assert_eq!((clock.pace(), clock.system_ns(10)), (Some(Pace::Times(1.0)), 10));
        let mut last = clock.now_ns();
        for pace in [Pace::Times(1e6), Pace::Times(0.001), Pace::NoWait, Pace::Times(1.0)] {
            assert!(clock.set_pace(pace) && clock.pace() == Some(pace));
            let now = clock.now_ns();
            assert!(now >= last, "{pace:?}");
            last = now;
        }
        clock.set_pace(Pace::Times(1e6));
        let (began, before) = (Instant::now(), clock.now_ns());
        std::thread::sleep(Duration::from_millis(2));
        let passed = clock.now_ns() - before;
        let most = began.elapsed().as_nanos() as i64 * 1_000_000;
        assert!(passed >= 2_000_000 * 1_000_000 && passed <= most, "{passed}");
        assert_eq!(clock.system_ns(5_000_000), 5);
    }

    #[test]
    fn time_jumps_only_where_it_does_not_wait() {
        let clock = Clock::real();
        let later = clock.now_ns() + 3_600 * SECOND_NS;
        clock.jump_to(later);
        assert!(clock.now_ns() < later && !clock.jumps());
        clock.set_pace(Pace::NoWait);
        clock.jump_to(later);
        clock.jump_to(later - SECOND_NS);
        assert!(clock.now_ns() >= later && clock.jumps());
        let simulated = Clock::simulated(7);
        assert!(simulated.jumps() && !simulated.set_pace(Pace::NoWait) && simulated.pace().is_none());
    }
}
