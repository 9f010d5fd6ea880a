//! Counters that several threads count on, each on its own cache line.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A count that is the sum over all threads. Each thread's copy of an element has
/// one of its own ([`for_another`](Self::for_another)); counting costs no more than
/// an ordinary addition, and any of them knows the sum, without a lock.
#[derive(Debug)]
pub struct PerThreadCounter {
    mine: Arc<Cell>,
    first: Arc<Cell>,
}

/// What one thread counts. Nothing else is on the count's cache line, and no other
/// thread's count on the one that processors fetch with it: room around the count keeps
/// others away wherever the allocator puts the cell. (An alignment would do so too, but
/// what allocators cut off for it costs a configuration of a million elements seconds.)
#[derive(Debug, Default)]
#[repr(C)]
struct Cell {
    /// The part of the thread that came next.
    next: OnceLock<Arc<Cell>>,
    room_before: [u64; 3],
    count: AtomicU64,
    room_after: [u64; 8],
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes of an [`Arc`]'s own counts, which stand before the cell and are not written while
/// packets are counted.
const ARC: usize = 2 * size_of::<usize>();

const _: () = {
    let (before, count) = (ARC + std::mem::offset_of!(Cell, count), size_of::<AtomicU64>());
    assert!(before >= LINE - count, "something before the count may be on its line");
    assert!(size_of::<Cell>() + ARC >= 2 * LINE, "two counts may be on a pair of lines");
    assert!(size_of::<Cell>() + ARC - before - count >= LINE - count, "something behind may be on its line");
};

impl Default for PerThreadCounter {
    fn default() -> PerThreadCounter {
        let mine = Arc::new(Cell::default());
        PerThreadCounter { mine: mine.clone(), first: mine }
    }
}

impl PerThreadCounter {
    /// One more thread's part of the same count.
    pub fn for_another(&self) -> PerThreadCounter {
        let mine = Arc::new(Cell::default());
        let mut last = &self.first;
        // Where another one comes at the same time, this one is behind it.
        while last.next.set(mine.clone()).is_err()
            && let Some(next) = last.next.get()
        {
            last = next;
        }
        PerThreadCounter { mine, first: self.first.clone() }
    }

    fn cells(&self) -> impl Iterator<Item = &Cell> {
        std::iter::successors(Some(&*self.first), |cell| cell.next.get().map(|next| &**next))
    }

    /// Adds `count` to this thread's part.
    #[inline(always)]
    pub fn add(&mut self, count: u64) {
        // Relaxed, and not one operation: nobody else writes this cell but `reset`,
        // which may lose against a count that is made at that moment.
        let own = self.own().wrapping_add(count);
        self.mine.count.store(own, Ordering::Relaxed);
    }

    /// The sum.
    pub fn sum(&self) -> u64 {
        self.cells().map(|cell| cell.count.load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }

    /// This thread's part.
    #[inline]
    pub fn own(&self) -> u64 {
        self.mine.count.load(Ordering::Relaxed)
    }

    /// Begins at zero again, on all threads.
    pub fn reset(&self) {
        self.cells().for_each(|cell| cell.count.store(0, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_has_the_parts_of_all_who_came_at_once() {
        let first = PerThreadCounter::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..8).for_each(|_| first.for_another().add(3)));
            }
        });
        assert_eq!((first.sum(), first.own()), (192, 0));
        first.for_another().reset();
        assert_eq!(first.sum(), 0);
    }
}
