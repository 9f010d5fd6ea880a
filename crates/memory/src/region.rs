//! DMA regions: memory at an address the devices know.
//!
//! A [`Dma`] is one address space shared by all devices attached to it: a
//! region has the same I/O virtual address (IOVA) in each, so a packet received
//! on one port can be sent on another. Behind an IOMMU or on a device model we
//! choose the IOVAs; without an IOMMU they are the physical addresses of
//! hugepages. Small regions share a chunk; a chunk goes when its last region
//! goes.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bus::{Addressing, DmaRange, Pci};

use crate::attachment::Attachment;
use crate::backing::{HUGE_PAGE, Mapping, Options, physical_pages};
use crate::iova::Iovas;
use crate::{Error, Result};

/// Regions start on a page of their own, as descriptor rings like it.
const REGION_ALIGN: usize = 4096;

/// One address space, shared by the devices attached to it.
#[derive(Debug, Clone)]
pub struct Dma(Arc<Space>);

#[derive(Debug)]
struct Space {
    options: Options,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) devices: Vec<(u64, Pci)>,
    next_device: u64,
    pub(crate) chunks: Vec<Weak<Chunk>>,
    /// The chunk from which small regions are cut, and how much is cut.
    small: Option<(Weak<Chunk>, usize)>,
    iovas: Iovas,
}

/// A mapping known to every device of its space.
#[derive(Debug)]
pub(crate) struct Chunk {
    dma: Dma,
    mapping: Mapping,
    /// The IOVA of each hugepage, or one for the whole when it is contiguous.
    iovas: Vec<u64>,
    contiguous: bool,
}

/// A stretch of DMA memory; freed when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Region {
    chunk: Arc<Chunk>,
    start: usize,
    len: usize,
}

impl Dma {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // State is consistent after each statement that changes it, so a panic
        // elsewhere while it was locked does no harm.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dma {
    /// An address space without devices and memory.
    pub fn new(options: Options) -> Dma {
        Dma(Arc::new(Space { options, state: Mutex::default() }))
    }

    /// Lets a device into the space: every region, earlier and later, is mapped
    /// for it until the [`Attachment`] is dropped.
    ///
    /// # Errors
    /// [`Error::MixedAddressing`] when the device sees physical memory and the
    /// space does not already; [`Error::Bus`] when it refuses a mapping.
    pub fn attach(&self, pci: &Pci) -> Result<Attachment> {
        let chunks: Vec<_>; // dropped after the lock, which Chunk::drop takes
        let mut state = self.state();
        chunks = state.chunks.iter().filter_map(Weak::upgrade).collect();
        if pci.addressing() == Addressing::Physical && chunks.iter().any(|c| c.contiguous) {
            return Err(Error::MixedAddressing { device: pci.name() });
        }
        for chunk in &chunks {
            chunk.map_into(pci)?;
        }
        let device = state.next_device;
        state.next_device += 1;
        state.devices.push((device, pci.clone()));
        Ok(Attachment::new(self.clone(), device))
    }

    /// Allocates `len` zeroed bytes. Up to 2 MiB are contiguous for the device;
    /// more are so only where we choose the addresses (see [`Region::iova`]).
    pub fn alloc(&self, len: usize) -> Result<Region> {
        if len >= HUGE_PAGE {
            let chunk = self.chunk(len)?;
            return Ok(Region { chunk, start: 0, len });
        }
        let mut small = self.state().small.take();
        if let Some((weak, used)) = &mut small
            && let Some(chunk) = weak.upgrade()
            && *used + len <= chunk.mapping.len.min(HUGE_PAGE)
        {
            let region = Region { chunk, start: *used, len };
            *used = (*used + len).next_multiple_of(REGION_ALIGN);
            self.state().small = small;
            return Ok(region);
        }
        let chunk = self.chunk(HUGE_PAGE)?;
        let used = len.next_multiple_of(REGION_ALIGN);
        self.state().small = Some((Arc::downgrade(&chunk), used));
        Ok(Region { chunk, start: 0, len })
    }

    fn chunk(&self, len: usize) -> Result<Arc<Chunk>> {
        let mut state = self.state();
        let physical = state.devices.iter().any(|(_, pci)| pci.addressing() == Addressing::Physical);
        let mapping = Mapping::new(self.0.options, len, physical)?;
        let (iovas, contiguous) = match physical {
            true => (physical_pages(&mapping)?, false),
            false => (vec![state.iovas.take(mapping.len)?], true),
        };
        let chunk = Chunk { dma: self.clone(), mapping, iovas, contiguous };
        let devices: Vec<_> = state.devices.iter().map(|(_, pci)| pci.clone()).collect();
        let chunk = Arc::new(chunk);
        state.chunks.retain(|c| c.strong_count() > 0);
        state.chunks.push(Arc::downgrade(&chunk));
        // Mapped under the lock, so that a device attached meanwhile maps it
        // exactly once. On an error the chunk drops after the lock is gone.
        let mapped = devices.iter().try_for_each(|pci| chunk.map_into(pci));
        drop(state);
        mapped.map(|()| chunk)
    }
}

impl Chunk {
    /// The stretches that are contiguous for the device: (IOVA, offset, length).
    pub(crate) fn stretches(&self) -> impl Iterator<Item = (u64, usize, usize)> {
        let step = if self.contiguous { self.mapping.len } else { HUGE_PAGE };
        self.iovas.iter().enumerate().map(move |(i, &iova)| (iova, i * step, step))
    }

    fn map_into(&self, pci: &Pci) -> Result<()> {
        for (iova, offset, len) in self.stretches() {
            let addr = self.mapping.ptr.as_ptr().wrapping_add(offset);
            let fd = Some(self.mapping.file());
            pci.map_dma(&DmaRange { fd, fd_offset: offset as u64, addr, len, iova })?;
        }
        Ok(())
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let mut state = self.dma.state();
        for (iova, _, len) in self.stretches() {
            for (_, pci) in &state.devices {
                if let Err(error) = pci.unmap_dma(iova, len) {
                    tracing::debug!(device = pci.name(), iova, "cannot unmap: {error}");
                }
            }
        }
        if self.contiguous {
            state.iovas.give_back(self.iovas[0], self.mapping.len);
        }
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
