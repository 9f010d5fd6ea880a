//! Words in DMA memory that driver and device share, for what is not a ring of the
//! 82599's kind: virtio's rings and indices, a queue of commands. Each is an atomic, for
//! the other side accesses it at the same time; on x86 and Arm a relaxed access is a plain
//! load or store. All are little endian, as is every machine this is built for (crate
//! `memory` sees to it).

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use memory::Region;

/// What may stand in shared memory.
///
/// # Safety
/// Only types for which any bits are valid and which are made of atomics.
pub(crate) unsafe trait Word: Sync {}

// SAFETY: an atomic integer.
unsafe impl Word for AtomicU16 {}
// SAFETY: an atomic integer.
unsafe impl Word for AtomicU32 {}
// SAFETY: atomic integers: an entry of the used ring (id, length).
unsafe impl Word for [AtomicU32; 2] {}
// SAFETY: atomic integers: a descriptor (address; length, id and flags).
unsafe impl Word for [AtomicU64; 2] {}

/// A power of two of words, indexed by free-running counters.
pub(crate) struct Words<T: Word> {
    first: NonNull<T>,
    mask: u32,
    /// Keeps the memory.
    _region: Region,
}

// SAFETY: the words are atomics in memory that `_region` keeps mapped, whichever
// thread looks.
unsafe impl<T: Word> Send for Words<T> {}

impl<T: Word> Words<T> {
    /// The `count` words at `offset` of a region.
    pub(crate) fn new(region: &Region, offset: usize, count: u32) -> Words<T> {
        let fits = count as usize * size_of::<T>() + offset <= region.len();
        let aligned = offset.is_multiple_of(align_of::<T>());
        assert!(fits && aligned && count.is_power_of_two(), "the driver lays its own memory out");
        // SAFETY: the offset is inside the region.
        let first = unsafe { region.ptr().add(offset) }.cast();
        Words { first, mask: count - 1, _region: region.clone() }
    }

    /// The word at an index, which wraps.
    #[inline(always)]
    pub(crate) fn at(&self, index: u32) -> &T {
        // SAFETY: `new` saw to it that mask + 1 words lie in the region, whose
        // memory is zeroed, page-aligned, and lives as long as `self`.
        unsafe { self.first.add((index & self.mask) as usize).as_ref() }
    }
}
