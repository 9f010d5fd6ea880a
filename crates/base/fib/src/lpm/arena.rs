//! Groups of items, each group side by side, all groups in one vector.
//!
//! A table's leaves and nodes live here, so that a lookup follows 32-bit indices
//! within one allocation. Freed groups are reused by groups of the same size; when
//! too little of the vector is in use, its owner copies what lives into a new one.

/// Items that an arena may have more than twice those in use before it is wasteful.
const SLACK: usize = 1 << 16;

/// Groups of items in one vector; group 0 is one item that is never freed.
#[derive(Clone, Debug)]
pub(super) struct Arena<T> {
    items: Vec<T>,
    /// By size: where freed groups begin.
    free: Vec<Vec<u32>>,
    live: usize,
}

impl<T: Copy + Default> Arena<T> {
    pub(super) fn new() -> Self {
        Arena { items: vec![T::default()], free: Vec::new(), live: 0 }
    }

    /// An empty arena that will take what lives in this one.
    pub(super) fn successor(&self) -> Self {
        let mut next = Self::new();
        next.items.reserve(self.live + self.live / 8 + 1);
        next
    }

    /// Copies `group` in and says where it begins; nothing is at 0.
    pub(super) fn put(&mut self, group: &[T]) -> u32 {
        if group.is_empty() {
            return 0;
        }
        self.live += group.len();
        if let Some(base) = self.free.get_mut(group.len()).and_then(Vec::pop) {
            self.items[base as usize..][..group.len()].copy_from_slice(group);
            return base;
        }
        let base = u32::try_from(self.items.len()).expect("the tables' limits keep arenas below 2^32 items");
        if self.items.capacity() - self.items.len() < group.len() {
            // By a quarter: what is reserved is memory too.
            self.items.reserve_exact(group.len().max(self.items.len() / 4));
        }
        self.items.extend_from_slice(group);
        base
    }

    /// Frees the group of `len` items at `base`.
    pub(super) fn release(&mut self, base: u32, len: usize) {
        if len == 0 {
            return;
        }
        self.live -= len;
        if self.free.len() <= len {
            self.free.resize_with(len + 1, Vec::new);
        }
        self.free[len].push(base);
    }

    /// Puts `new` in the place of the group of `len` items at `base`.
    pub(super) fn replace(&mut self, base: u32, len: usize, new: &[T]) -> u32 {
        if len == new.len() {
            self.items[base as usize..][..len].copy_from_slice(new);
            return base;
        }
        self.release(base, len);
        self.put(new)
    }

    #[inline(always)]
    pub(super) fn at(&self, index: usize) -> &T {
        &self.items[index]
    }

    pub(super) fn at_mut(&mut self, index: u32) -> &mut T {
        &mut self.items[index as usize]
    }

    pub(super) fn group(&self, base: u32, len: usize) -> &[T] {
        &self.items[base as usize..][..len]
    }

    pub(super) fn group_mut(&mut self, base: u32, len: usize) -> &mut [T] {
        &mut self.items[base as usize..][..len]
    }

    /// All items, freed ones included: what a batch of lookups indexes.
    #[inline(always)]
    pub(super) fn items(&self) -> &[T] {
        &self.items
    }

    pub(super) fn items_mut(&mut self) -> &mut [T] {
        &mut self.items
    }

    /// Items in groups that are not freed.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Whether copying what lives would free at least half.
    pub(super) fn wasteful(&self) -> bool {
        self.items.len() > 2 * self.live + SLACK
    }

    /// Bytes taken from the allocator.
    pub(super) fn bytes(&self) -> usize {
        self.items.capacity() * size_of::<T>()
            + self.free.iter().map(|list| list.capacity() * 4).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_group_is_reused_by_its_size_only() {
        let mut arena = Arena::<u32>::new();
        let one = arena.put(&[1, 2, 3]);
        let two = arena.put(&[4, 5]);
        assert_eq!((one, two), (1, 4));
        arena.release(one, 3);
        assert_eq!(arena.put(&[6, 7]), 6);
        assert_eq!(arena.put(&[8, 9, 10]), one);
        assert_eq!(arena.group(one, 3), [8, 9, 10]);
        assert_eq!(arena.live(), 7);
    }

    #[test]
    fn what_is_mostly_free_is_wasteful() {
        let mut arena = Arena::<u32>::new();
        let bases: Vec<u32> = (0..SLACK as u32).map(|n| arena.put(&[n, n])).collect();
        assert!(!arena.wasteful());
        for base in bases {
            arena.release(base, 2);
        }
        assert!(arena.wasteful());
        assert!(!arena.successor().wasteful());
    }
}
