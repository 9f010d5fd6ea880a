//! A pool of packet buffers, owned by whoever holds it mutably.
//!
//! The owner's way (`alloc`, `free`) is a stack of pointers without atomics:
//! the buffer freed last is in the cache and goes out next. Everyone else's way
//! is to drop the packet, one atomic push; the owner collects those when its
//! stack runs low. Every buffer is in exactly one place (the stack, the return
//! stack, or a packet), so none can be lost or freed twice, and no backlog can
//! outgrow the pool. A pool may go before its packets: the last one frees the
//! memory.

use std::ptr::NonNull;

use crate::backing::HUGE_PAGE;
use crate::packet::{Meta, Packet, SLOT};
use crate::region::{Dma, Region};
use crate::returns::Returns;
use crate::{Error, Result};

/// The part of a pool that its packets refer to; outlives them all.
#[derive(Debug)]
pub(crate) struct Core {
    returns: Returns<Meta>,
    /// Keeps the buffers mapped.
    _region: Region,
}

impl Core {
    /// Returns a buffer from any thread.
    pub(crate) fn give_back(meta: NonNull<Meta>) {
        // SAFETY: the caller owned the buffer, and a core outlives its buffers.
        let core = unsafe { (*meta.as_ptr()).core };
        // SAFETY: as above.
        if unsafe { core.as_ref() }.returns.push(meta) {
            // SAFETY: the pool is gone and this was its last buffer, so nobody
            // else knows the core, which `Pool::new` took from a box.
            drop(unsafe { Box::from_raw(core.as_ptr()) });
        }
    }
}

/// Buffers for packets. See the [module's page](self).
#[derive(Debug)]
pub struct Pool {
    /// Free buffers; the first `free` entries are valid.
    pub(crate) stack: Box<[NonNull<Meta>]>,
    pub(crate) free: usize,
    core: NonNull<Core>,
    first: usize,
    end: usize,
}

// SAFETY: the pool owns the buffers on its stack, and its core's shared part is
// atomic; nothing is bound to a thread.
unsafe impl Send for Pool {}

impl Pool {
    /// The largest pool, in packets: 4 GiB of buffers.
    pub const MAX: usize = (1 << 32) / SLOT;

    /// A pool of `count` buffers, in memory of `dma`.
    ///
    /// # Errors
    /// When `count` is zero or above [`Pool::MAX`], or memory cannot be had.
    pub fn new(dma: &Dma, count: usize) -> Result<Pool> {
        if count == 0 || count > Self::MAX {
            return Err(Error::PoolSize { count, max: Self::MAX });
        }
        // No buffer crosses a hugepage: its bytes are contiguous for a device
        // that sees physical memory.
        let per_page = HUGE_PAGE / SLOT;
        let offset = |i: usize| i / per_page * HUGE_PAGE + i % per_page * SLOT;
        let region = dma.alloc(offset(count - 1) + SLOT)?;
        let base = region.ptr();
        let iovas: Vec<u64> = (0..count).map(|i| region.iova(offset(i) + size_of::<Meta>())).collect();
        let first = base.addr().get();
        let end = first + region.len();
        let core = Box::new(Core { returns: Returns::new(), _region: region });
        let core = NonNull::from(Box::leak(core));
        // Last buffer first, so that the first one goes out first.
        let slot = |i: usize| {
            // SAFETY: the region holds `offset(count - 1) + SLOT` bytes.
            let meta = unsafe { base.add(offset(i)) }.cast::<Meta>();
            // SAFETY: in the region, aligned (regions start on pages, slots are
            // whole lines), and nobody else knows it yet.
            unsafe { meta.write(Meta::new(iovas[i], core)) };
            meta
        };
        let stack: Box<[_]> = (0..count).rev().map(slot).collect();
        Ok(Pool { stack, free: count, core, first, end })
    }

    /// A buffer for a device to fill: its metadata is whatever it was, until
    /// [`Packet::set_received`]. `None` when all are out.
    #[inline(always)]
    pub fn alloc_for_rx(&mut self) -> Option<Packet> {
        if self.free == 0 && !self.collect() {
            return None;
        }
        self.free -= 1;
        // SAFETY: `free` was above zero and never exceeds the stack's length;
        // the entry below it is a buffer that the pool owned until now.
        Some(unsafe { Packet::from_raw(*self.stack.get_unchecked(self.free)) })
    }

    /// Makes sure that `wanted` buffers can be allocated if as many are home;
    /// how many of them can.
    #[inline]
    pub fn reserve(&mut self, wanted: usize) -> usize {
        if self.free < wanted {
            self.collect();
        }
        self.free.min(wanted)
    }

    /// Frees a packet of one segment without looking at it: what a transmit
    /// queue uses, which holds every segment by itself.
    #[inline(always)]
    pub fn free_segment(&mut self, packet: Packet) {
        let address = packet.as_raw().addr().get();
        if address.wrapping_sub(self.first) >= self.end - self.first {
            return; // not ours: the drop returns it
        }
        let meta = packet.into_raw();
        debug_assert!(self.free < self.stack.len());
        // SAFETY: the buffer is ours by its address and was out, so fewer than
        // all are on the stack.
        unsafe { *self.stack.get_unchecked_mut(self.free) = meta };
        self.free += 1;
    }

    /// Takes back what other threads returned; whether any buffer is free.
    #[cold]
    pub(crate) fn collect(&mut self) -> bool {
        // SAFETY: the core lives at least as long as the pool.
        for meta in unsafe { self.core.as_ref() }.returns.take() {
            // SAFETY: the buffer is ours again; links are the return stack's.
            unsafe { (*meta.as_ptr()).clear_link() };
            self.stack[self.free] = meta;
            self.free += 1;
        }
        self.free > 0
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the core lives at least as long as the pool.
        if unsafe { self.core.as_ref() }.returns.close(self.free, self.stack.len()) {
            // SAFETY: no packet is out, so nobody else knows the core, which
            // `new` took from a box.
            drop(unsafe { Box::from_raw(self.core.as_ptr()) });
        }
    }
}
