//! Time as the graph sees it: the system's, or simulated.
//!
//! Simulated time stands still but for one nanosecond each time somebody looks,
//! and jumps to the next timer when nothing is left to run. A simulation gives
//! the same result on every machine.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where simulated time begins: a second count that is easily told from real
/// time, as Click has it.
pub const SIMULATION_START_NS: i64 = 1_000_000_000 * SECOND_NS;
/// Nanoseconds in a second.
pub const SECOND_NS: i64 = 1_000_000_000;

/// A source of time.
#[derive(Debug)]
pub struct Clock(Kind);

#[derive(Debug)]
enum Kind {
    Real { start: Instant, start_ns: i64 },
    Simulated(AtomicI64),
}

impl Clock {
    /// The system's time; it never goes back, whatever is done to the system's clock.
    pub fn real() -> Clock {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Clock(Kind::Real { start: Instant::now(), start_ns: since_1970.as_nanos() as i64 })
    }

    /// Time that begins at `start_ns` and moves only when it is told to.
    pub fn simulated(start_ns: i64) -> Clock {
        Clock(Kind::Simulated(AtomicI64::new(start_ns)))
    }

    /// Nanoseconds since 1970.
    pub fn now_ns(&self) -> i64 {
        match &self.0 {
            Kind::Real { start, start_ns } => start_ns + start.elapsed().as_nanos() as i64,
            // Relaxed: a number of its own, ordered with nothing else.
            Kind::Simulated(now) => now.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Whether time is simulated.
    pub fn is_simulated(&self) -> bool {
        matches!(self.0, Kind::Simulated(_))
    }

    /// Moves simulated time on to `then_ns`, never back.
    pub fn jump_to(&self, then_ns: i64) {
        if let Kind::Simulated(now) = &self.0 {
            now.fetch_max(then_ns, Ordering::Relaxed);
        }
    }
}
