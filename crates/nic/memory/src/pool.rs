//! A pool of packet buffers, owned by whoever holds it mutably.
//!
//! The owner's way (`alloc`, `free`) is a stack of pointers without atomics:
//! the buffer freed last is in the cache and goes out next. Everyone else's way
//! is to drop the packet, one atomic push; the owner collects those when its
//! stack runs low. Every buffer is in exactly one place (the stack, the return
//! stack, or a packet), so none can be lost or freed twice, and no backlog can
//! outgrow the pool. A pool may go before its packets: the last one frees the
//! memory.

use std::iter::Rev;
use std::ptr::NonNull;
use std::slice;

use crate::backing::Pages;
use crate::core::{Core, span};
use crate::packet::{Meta, Packet, STRIDE};
use crate::region::Dma;
use crate::slab::{self, Slab};
use crate::{Error, Result};

/// Buffers for packets. See the [module's page](self).
#[derive(Debug)]
pub struct Pool {
    /// Free buffers; the first `free` entries are valid.
    pub(crate) stack: Box<[NonNull<Meta>]>,
    pub(crate) free: usize,
    /// Buffers that there are; the stack has room for all there may be.
    pub(crate) made: usize,
    pub(crate) core: NonNull<Core>,
    first: usize,
    end: usize,
}

// SAFETY: the pool owns the buffers on its stack, and its core's shared part is
// atomic; nothing is bound to a thread.
unsafe impl Send for Pool {}

impl Pool {
    /// The largest pool, in packets: 4 GiB of buffers.
    pub const MAX: usize = (1 << 32) / STRIDE;

    /// A pool of `count` buffers, in memory of `dma`.
    ///
    /// # Errors
    /// When `count` is zero or above [`Pool::MAX`], or memory cannot be had.
    pub fn new(dma: &Dma, count: usize) -> Result<Pool> {
        let mut pool = Pool::over(dma, count, Pages::Now)?;
        pool.make(count);
        Ok(pool)
    }

    /// A pool without buffers, in memory that has its pages now or later.
    pub(crate) fn over(dma: &Dma, count: usize, pages: Pages) -> Result<Pool> {
        if count == 0 || count > Self::MAX {
            return Err(Error::PoolSize { count, max: Self::MAX });
        }
        let region = dma.alloc_pages(span(0, count).end, pages)?;
        let slab = Slab::new(dma.0.options, count, region.is_huge())?;
        let start = slab.start.addr().get();
        let (first, end) = (start + slab::place(0), start + slab::place(count - 1) + 1);
        let core = Core::new(slab, region);
        let stack = vec![NonNull::dangling(); count].into_boxed_slice();
        Ok(Pool { stack, free: 0, made: 0, core, first, end })
    }

    /// Up to `wanted` buffers, fewer when fewer are free, for a device to fill:
    /// their metadata is whatever it was, until [`Packet::set_received`].
    #[inline(always)]
    pub fn fresh(&mut self, wanted: usize) -> Fresh<'_> {
        if self.free < wanted {
            self.collect();
        }
        let before = self.free;
        self.free -= wanted.min(before); // they count as taken from here on
        Fresh(self.stack[self.free..before].iter().rev())
    }

    /// Frees packets of one segment each, without looking at them: what a
    /// transmit queue uses, which holds every segment by itself.
    #[inline(always)]
    pub fn free_segments(&mut self, packets: impl Iterator<Item = Packet>) {
        self.free = packets.fold(self.free, |free, packet| self.put(free, packet));
    }

    /// Puts a packet of one segment on the stack, on which `free` buffers are; how many are
    /// then. One of another pool goes the way of a drop.
    #[inline(always)]
    pub(crate) fn put(&mut self, free: usize, packet: Packet) -> usize {
        let meta = packet.into_raw();
        if meta.addr().get().wrapping_sub(self.first) >= self.end - self.first {
            Core::give_back(meta); // not ours
            return free;
        }
        debug_assert!(free < self.stack.len());
        // SAFETY: the buffer is ours by its address and was out, so fewer
        // than all are on the stack.
        unsafe { *self.stack.get_unchecked_mut(free) = meta };
        free + 1
    }
}

/// Buffers on their way out of a pool, the one that came last first. What is not
/// taken comes back the slow way.
pub struct Fresh<'a>(Rev<slice::Iter<'a, NonNull<Meta>>>);

impl Iterator for Fresh<'_> {
    type Item = Packet;

    #[inline(always)]
    fn next(&mut self) -> Option<Packet> {
        // SAFETY: the pool owned the buffers until they were taken from its
        // stack, and each is given out once.
        self.0.next().map(|&meta| unsafe { Packet::from_raw(meta) })
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Fresh<'_> {}

impl Drop for Fresh<'_> {
    #[inline]
    fn drop(&mut self) {
        self.for_each(drop);
    }
}
