//! A signal that comes again: programs that start others tell them to end twice at times,
//! `timeout(1)` once the process and once its group. Only one that comes some time after
//! the first asks to end at once.
//!
//! The time is asked for in the signal's handler, by clock_gettime(2), which may be called
//! there (signal-safety(7)). Who acts on the answer is signal-hook.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use signal_hook::flag::BorrowSignalSafe;

static YES: AtomicBool = AtomicBool::new(true);
static NO: AtomicBool = AtomicBool::new(false);

/// True in the handler of a signal that came long enough after the first one: a condition
/// for [`signal_hook::flag::register_conditional_shutdown`]. Clones have the first signal
/// in common.
#[derive(Clone, Debug)]
pub struct Again {
    after: Duration,
    /// When the first one came, in nanoseconds since the machine started; 0 before that.
    first_ns: Arc<AtomicU64>,
}

impl Again {
    /// No signal came yet. Those that come earlier than `after` the first are part of it.
    pub fn new(after: Duration) -> Again {
        Again { after, first_ns: Arc::default() }
    }

    /// Whether a signal that comes at a time is another one than the first.
    fn is_another(&self, now_ns: u64) -> bool {
        // One handler may interrupt another one, or run beside it: one of them is the first.
        let first = self.first_ns.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed);
        let since = |first_ns| Duration::from_nanos(now_ns.saturating_sub(first_ns));
        first.is_err_and(|first_ns| since(first_ns) >= self.after)
    }
}

// SAFETY: what is called reads a clock by an async-signal-safe call, and reads and writes
// atomics: no lock, no allocation.
unsafe impl BorrowSignalSafe<AtomicBool> for Again {
    fn borrow_signal_safe(&self) -> &AtomicBool {
        if self.is_another(monotonic_ns()) { &YES } else { &NO }
    }
}

/// Nanoseconds since the machine started.
fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours and written by the call. It cannot fail: Linux has the
    // clock, and zero would be a first signal that is forgotten.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_soon_after_the_first_are_part_of_it() {
        let again = Again::new(Duration::from_nanos(200));
        let other = again.clone();
        assert!(!again.is_another(1000));
        assert!(!other.is_another(1000) && !other.is_another(1199));
        assert!(other.is_another(1200) && again.is_another(5000));
        assert!(!again.is_another(999), "a clock that another processor read earlier");
    }

    #[test]
    fn the_clock_goes() {
        let begin = monotonic_ns();
        std::thread::sleep(Duration::from_millis(2));
        assert!(begin > 0 && monotonic_ns() - begin >= 2_000_000);
    }
}
