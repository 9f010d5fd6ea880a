//! Counters that several threads count on, each on its own cache line.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A count that is the sum over all threads. Each thread's copy of an element has
/// one of its own ([`for_another`](Self::for_another)); counting costs no more than
/// an ordinary addition, and any of them knows the sum.
#[derive(Debug)]
pub struct PerThreadCounter {
    mine: Arc<Cell>,
    all: Arc<Mutex<Vec<Arc<Cell>>>>,
}

/// Two lines, since processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Cell(AtomicU64);

impl Default for PerThreadCounter {
    fn default() -> PerThreadCounter {
        let mine = Arc::new(Cell::default());
        PerThreadCounter { mine: mine.clone(), all: Arc::new(Mutex::new(vec![mine])) }
    }
}

impl PerThreadCounter {
    /// One more thread's part of the same count.
    pub fn for_another(&self) -> PerThreadCounter {
        let mine = Arc::new(Cell::default());
        self.cells().push(mine.clone());
        PerThreadCounter { mine, all: self.all.clone() }
    }

    fn cells(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Cell>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds `count` to this thread's part.
    #[inline(always)]
    pub fn add(&mut self, count: u64) {
        // Relaxed, and not one operation: nobody else writes this cell but `reset`,
        // which may lose against a count that is made at that moment.
        let cell = &self.mine.0;
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// The sum.
    pub fn sum(&self) -> u64 {
        self.cells().iter().map(|cell| cell.0.load(Ordering::Relaxed)).sum()
    }

    /// This thread's part.
    #[inline]
    pub fn own(&self) -> u64 {
        self.mine.0.load(Ordering::Relaxed)
    }

    /// Begins at zero again, on all threads.
    pub fn reset(&self) {
        self.cells().iter().for_each(|cell| cell.0.store(0, Ordering::Relaxed));
    }
}
