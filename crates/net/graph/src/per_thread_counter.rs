//! Counters that several threads count on, each on its own cache line.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A count that is the sum over all threads.
pub type PerThreadCounter = PerThreadCounters<1>;

/// Counts that are sums over all threads, counted together. Each thread's copy of an element
/// has its own ([`for_another`](Self::for_another)); counting costs no more than ordinary
/// additions, and any of them knows the sums, without a lock.
#[derive(Debug)]
pub struct PerThreadCounters<const N: usize> {
    mine: Arc<Cell<N>>,
    first: Arc<Cell<N>>,
}

/// What one thread counts. Nothing else is on the counts' cache lines, and no other
/// thread's counts on those that processors fetch with them: room around the counts keeps
/// others away wherever the allocator puts the cell. (An alignment would do so too, but
/// what allocators cut off for it costs a configuration of a million elements seconds.)
#[derive(Debug)]
#[repr(C)]
struct Cell<const N: usize> {
    /// The part of the thread that came next.
    next: OnceLock<Arc<Cell<N>>>,
    room_before: [u64; 3],
    counts: [AtomicU64; N],
    room_after: [u64; 8],
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes of an [`Arc`]'s own counts, which stand before the cell and are not written while
/// packets are counted.
const ARC: usize = 2 * size_of::<usize>();

impl<const N: usize> Cell<N> {
    /// The room keeps others away, as said above.
    const APART: () = {
        let (before, counts) = (ARC + std::mem::offset_of!(Self, counts), N * size_of::<AtomicU64>());
        let all = ARC + size_of::<Self>();
        assert!(before >= LINE - size_of::<AtomicU64>(), "something before the counts may be on their line");
        assert!(all >= 2 * LINE, "two threads' counts may be on a pair of lines");
        let after = LINE - size_of::<AtomicU64>();
        assert!(all - before - counts >= after, "something behind the counts may be on their line");
    };

    fn new() -> Arc<Cell<N>> {
        let () = Self::APART;
        let counts = std::array::from_fn(|_| AtomicU64::new(0));
        Arc::new(Cell { next: OnceLock::new(), room_before: [0; 3], counts, room_after: [0; 8] })
    }
}

impl<const N: usize> Default for PerThreadCounters<N> {
    fn default() -> PerThreadCounters<N> {
        let mine = Cell::new();
        PerThreadCounters { mine: mine.clone(), first: mine }
    }
}

impl<const N: usize> PerThreadCounters<N> {
    /// One more thread's part of the same counts.
    pub fn for_another(&self) -> PerThreadCounters<N> {
        let mine = Cell::new();
        let mut last = &self.first;
        // Where another one comes at the same time, this one is behind it.
        while last.next.set(mine.clone()).is_err()
            && let Some(next) = last.next.get()
        {
            last = next;
        }
        PerThreadCounters { mine, first: self.first.clone() }
    }

    fn cells(&self) -> impl Iterator<Item = &Cell<N>> {
        std::iter::successors(Some(&*self.first), |cell| cell.next.get().map(|next| &**next))
    }

    /// Adds to each of this thread's counts.
    #[inline(always)]
    pub fn add_all(&mut self, more: [u64; N]) {
        for (count, more) in self.mine.counts.iter().zip(more) {
            // Relaxed, and not one operation: nobody else writes this cell but `reset`,
            // which may lose against a count that is made at that moment.
            count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        }
    }

    /// The sum over all threads of each counter, modulo 2^64.
    pub fn sums(&self) -> [u64; N] {
        let count = |cell: &Cell<N>, i: usize| cell.counts[i].load(Ordering::Relaxed);
        std::array::from_fn(|i| self.cells().fold(0, |sum: u64, cell| sum.wrapping_add(count(cell, i))))
    }

    /// This thread's counts.
    #[inline]
    pub fn owns(&self) -> [u64; N] {
        std::array::from_fn(|i| self.mine.counts[i].load(Ordering::Relaxed))
    }

    /// Begins at zero again, on all threads.
    pub fn reset(&self) {
        self.cells().flat_map(|cell| &cell.counts).for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

impl PerThreadCounter {
    /// Adds `count` to this thread's part.
    #[inline(always)]
    pub fn add(&mut self, count: u64) {
        self.add_all([count]);
    }

    /// The sum over all threads, modulo 2^64.
    pub fn sum(&self) -> u64 {
        self.sums()[0]
    }

    /// This thread's part.
    #[inline]
    pub fn own(&self) -> u64 {
        self.owns()[0]
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

    #[test]
    fn counts_that_are_counted_together_keep_apart() {
        let mut first = PerThreadCounters::<2>::default();
        let mut other = first.for_another();
        first.add_all([1, 60]);
        other.add_all([2, 3000]);
        assert_eq!((first.owns(), other.owns(), first.sums()), ([1, 60], [2, 3000], [3, 3060]));
        other.reset();
        assert_eq!(first.sums(), [0, 0]);
    }
}
