//! DMA regions: memory at an address the devices know.
//!
//! A [`Dma`] is one address space shared by all devices attached to it: a
//! region has the same I/O virtual address (IOVA) in each, so a packet received
//! on one port can be sent on another. Behind an IOMMU or on a device model we
//! choose the IOVAs; without an IOMMU they are the physical addresses of
//! hugepages. Small regions share a chunk; a chunk goes when its last region
//! goes.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::Result;
use crate::backing::{HUGE_PAGE, Options, Pages};
use crate::pagemap::physical;
use crate::space::{Chunk, Space};

/// One address space, shared by the devices attached to it.
#[derive(Debug, Clone)]
pub struct Dma(pub(crate) Arc<Space>);

/// A contiguous range of DMA memory; freed when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Region {
    pub(crate) chunk: Arc<Chunk>,
    pub(crate) start: usize,
    pub(crate) len: usize,
}

impl Dma {
    /// An address space without devices and memory.
    pub fn new(options: Options) -> Dma {
        Dma::over(options, physical)
    }

    /// Allocates `len` zeroed bytes. Up to 2 MiB are contiguous for the device;
    /// more are so only where we choose the addresses (see [`Region::iova`]).
    pub fn alloc(&self, len: usize) -> Result<Region> {
        self.alloc_pages(len, Pages::Now)
    }

    /// Allocates as [`alloc`](Dma::alloc) does. Pages that come later are provided by
    /// [`Region::populate`]; all of them are there at once where a region is small, or a device
    /// has them pinned.
    pub(crate) fn alloc_pages(&self, len: usize, pages: Pages) -> Result<Region> {
        if len >= HUGE_PAGE {
            let chunk = self.chunk(len, pages)?;
            return Ok(Region { chunk, start: 0, len });
        }
        self.cut(len)
    }
}

impl Region {
    /// The first byte. Valid for `len` bytes while the region lives; shared with
    /// devices, so access it by volatile or atomic operations.
    pub fn ptr(&self) -> NonNull<u8> {
        // SAFETY: start + len lies within the mapping.
        unsafe { self.chunk.mapping.ptr.add(self.start) }
    }

    /// Length in bytes.
    #[allow(clippy::len_without_is_empty)] // never empty to its users
    pub fn len(&self) -> usize {
        self.len
    }

    /// The address at which devices see the byte at `offset`.
    ///
    /// # Panics
    /// When `offset` is outside the region.
    pub fn iova(&self, offset: usize) -> u64 {
        assert!(offset < self.len, "offset {offset} outside a region of {} bytes", self.len);
        let at = self.start + offset;
        match self.chunk.contiguous {
            true => self.chunk.iovas[0] + at as u64,
            false => self.chunk.iovas[at / HUGE_PAGE] + (at % HUGE_PAGE) as u64,
        }
    }

    /// Whether the memory is made of hugepages.
    pub fn is_huge(&self) -> bool {
        self.chunk.mapping.huge
    }
}
