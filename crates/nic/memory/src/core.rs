//! What a pool shares with its packets: the way back from other threads, and the
//! end, which comes when both the pool and the last packet are gone.

use std::ptr::NonNull;

use crate::packet::Meta;
use crate::pool::Pool;
use crate::region::Region;
use crate::returns::Returns;

/// The part of a pool that its packets refer to; outlives them all.
#[derive(Debug)]
pub(crate) struct Core {
    returns: Returns<Meta>,
    /// Keeps the buffers mapped.
    _region: Region,
}

impl Core {
    /// The core of a pool whose buffers lie in `region`.
    pub(crate) fn new(region: Region) -> NonNull<Core> {
        NonNull::from(Box::leak(Box::new(Core { returns: Returns::new(), _region: region })))
    }

    /// Returns a buffer from any thread.
    #[cold]
    pub(crate) fn give_back(meta: NonNull<Meta>) {
        // SAFETY: the caller owned the buffer, and a core outlives its buffers.
        let core = unsafe { (*meta.as_ptr()).core };
        // SAFETY: as above.
        if unsafe { core.as_ref() }.returns.push(meta) {
            // SAFETY: the pool is gone and this was its last buffer, so nobody
            // else knows the core, which `Core::new` took from a box.
            drop(unsafe { Box::from_raw(core.as_ptr()) });
        }
    }
}

impl Pool {
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

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the core lives at least as long as the pool.
        if unsafe { self.core.as_ref() }.returns.close(self.free, self.stack.len()) {
            // SAFETY: no packet is out, so nobody else knows the core, which
            // `Core::new` took from a box.
            drop(unsafe { Box::from_raw(self.core.as_ptr()) });
        }
    }
}
