//! Head write-back (82599 datasheet 7.2.3.5.2): instead of a bit in each descriptor,
//! the device writes its head index to memory. One line to look at, but the
//! device writes it while we read it; `ixora bench driver --completion` compares.

use std::sync::atomic::{AtomicU32, Ordering};

use bus::order;
use memory::{Dma, Region};
use port::Completion;

use crate::Result;

/// The place to which the device writes its head.
pub(crate) struct Head(Region);

impl Head {
    /// A place, if completion is to be told this way.
    pub(super) fn wanted(dma: &Dma, completion: Completion) -> Result<Option<Head>> {
        match completion {
            Completion::Report => Ok(None),
            Completion::Head => Ok(Some(Head(dma.alloc(size_of::<AtomicU32>())?))),
        }
    }

    /// The first descriptor the device has not finished with.
    #[inline(always)]
    pub(in crate::intel) fn read(&self) -> u32 {
        // SAFETY: the region is zeroed, page-aligned, four bytes long and lives
        // as long as `self`; the device writes it, so it is read atomically.
        let head = unsafe { self.0.ptr().cast::<AtomicU32>().as_ref() };
        let head = head.load(Ordering::Relaxed);
        order::after_ready(); // the device has read the buffers below, which are now reused
        head
    }

    /// Where it is, for who keeps it for a device that does not stop.
    pub(in crate::intel) fn memory(&self) -> Region {
        self.0.clone()
    }

    pub(crate) fn iova(&self) -> u64 {
        self.0.iova(0)
    }
}
