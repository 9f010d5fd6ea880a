//! What a pool shares with its packets: the way back from other threads, and the
//! end, which comes when both the pool and the last packet are gone.

use std::ops::Range;
use std::ptr::NonNull;

use crate::annotation::Annotations;
use crate::backing::HUGE_PAGE;
use crate::packet::{HEADROOM, Meta, STRIDE};
use crate::pool::Pool;
use crate::region::Region;
use crate::returns::Returns;
use crate::slab::{self, Slab};

/// The part of a pool that its packets refer to; outlives them all. It stands at the
/// start of the slab with their metadata.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Core {
    returns: Returns<Meta>,
    /// Keeps the metadata mapped, and the core itself.
    _slab: Slab,
    /// Keeps the buffers mapped.
    pub(crate) region: Region,
}

impl Core {
    /// The core of a pool whose buffers lie in `region` and their metadata in `slab`.
    pub(crate) fn new(slab: Slab, region: Region) -> NonNull<Core> {
        let core = slab.start.cast();
        // SAFETY: a slab begins with room for a core, on a page, and nobody else knows it.
        unsafe { core.write(Core { returns: Returns::new(), _slab: slab, region }) };
        core
    }

    /// Makes the metadata of buffer `n`, which begins at an offset of the region.
    ///
    /// # Safety
    /// `core` must come from [`Core::new`], its slab must have room for buffer `n`, whose
    /// metadata nobody uses, and [`STRIDE`](crate::packet::STRIDE) bytes of the region
    /// from `offset` on must be the buffer's alone.
    pub(crate) unsafe fn add_buffer(core: NonNull<Core>, n: usize, offset: usize) -> NonNull<Meta> {
        let from_core = slab::place(n);
        // SAFETY: the caller's promise.
        let (meta, region) = unsafe { (core.byte_add(from_core).cast::<Meta>(), &core.as_ref().region) };
        // SAFETY: the caller's promise: within the region.
        let data_room = unsafe { region.ptr().add(offset + HEADROOM) };
        let annotations = slab::annotations(meta);
        // SAFETY: both lines are in the slab and nobody else's.
        unsafe {
            meta.write(Meta::new(data_room, region.iova(offset + HEADROOM), from_core as u32));
            annotations.write(Annotations::default());
        }
        meta
    }

    /// Ends a core, and unmaps what its buffers and their metadata lay in.
    ///
    /// # Safety
    /// `core` must come from [`Core::new`], and nobody else may know it or a buffer of it.
    unsafe fn end(core: NonNull<Core>) {
        // SAFETY: the caller's promise; moved out first, for the slab unmaps the place.
        drop(unsafe { core.read() });
    }

    /// Returns a buffer from any thread.
    #[cold]
    pub(crate) fn give_back(meta: NonNull<Meta>) {
        // SAFETY: the caller owned the buffer, whose core is so far in front of it in the
        // same slab, and a core outlives its buffers.
        let core = unsafe { meta.byte_sub((*meta.as_ptr()).from_core as usize).cast::<Core>() };
        // SAFETY: as above.
        if unsafe { core.as_ref() }.returns.push(meta) {
            // SAFETY: the pool is gone and this was its last buffer, so nobody
            // else knows the core.
            unsafe { Core::end(core) };
        }
    }
}

impl Pool {
    /// Makes `count` further buffers, for which there is room. The first one goes out first.
    pub(crate) fn make(&mut self, count: usize) {
        for n in (self.made..self.made + count).rev() {
            // SAFETY: slab and region are for as many buffers as the stack, and each is made once.
            self.stack[self.free] = unsafe { Core::add_buffer(self.core, n, span(n, 1).start) };
            self.free += 1;
        }
        self.made += count;
    }

    /// Takes back what other threads returned.
    #[cold]
    pub(crate) fn collect(&mut self) {
        // SAFETY: the core lives at least as long as the pool.
        for meta in unsafe { self.core.as_ref() }.returns.take() {
            // SAFETY: the buffer is ours again; links are the return stack's.
            unsafe { (*meta.as_ptr()).clear_link() };
            self.stack[self.free] = meta;
            self.free += 1;
        }
    }
}

/// The bytes in a pool's region of `count` buffers from the `n`-th on. No buffer crosses a hugepage: its
/// bytes are contiguous for a device that sees physical memory.
pub(crate) fn span(n: usize, count: usize) -> Range<usize> {
    let per_page = HUGE_PAGE / STRIDE;
    let offset = |n: usize| n / per_page * HUGE_PAGE + n % per_page * STRIDE;
    offset(n)..offset(n + count - 1) + STRIDE
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the core lives at least as long as the pool.
        if unsafe { self.core.as_ref() }.returns.close(self.free, self.made) {
            // SAFETY: no packet is out, so nobody else knows the core.
            unsafe { Core::end(self.core) };
        }
    }
}
