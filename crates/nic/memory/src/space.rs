//! One address space for many devices: what each of them must be told of.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bus::sigbus::Registration;
use bus::{Addressing, DmaRange, Pci};

use crate::attachment::Attachment;
use crate::backing::{HUGE_PAGE, Mapping, Options, Pages};
use crate::iova::Iovas;
use crate::region::{Dma, Region};
use crate::{Error, Result};

/// Regions start on a page of their own, as descriptor rings like it.
const REGION_ALIGN: usize = 4096;

/// Gives memory whose physical addresses are known, and those of its hugepages.
pub(crate) type Physical = fn(Options, usize) -> Result<(Mapping, Vec<u64>)>;

#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) options: Options,
    pub(crate) physical: Physical,
    pub(crate) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) devices: Vec<(u64, Pci)>,
    pub(crate) next_device: u64,
    pub(crate) chunks: Vec<Weak<Chunk>>,
    /// The chunk from which small regions are cut, and how much is cut.
    pub(crate) small: Option<(Weak<Chunk>, usize)>,
    pub(crate) iovas: Iovas,
}

/// A mapping known to every device of its space.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) dma: Dma,
    /// Notes that pages are gone, whatever became of the peers that have the file: one that
    /// refused it or was closed may have kept it. Goes before the mapping does.
    watch: Option<Registration>,
    pub(crate) mapping: Mapping,
    /// The IOVA of each hugepage, or one for the whole when it is contiguous.
    pub(crate) iovas: Vec<u64>,
    pub(crate) contiguous: bool,
}

impl Dma {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // State is consistent after each statement that changes it, so a panic
        // elsewhere while it was locked does no harm.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the same address space: what is mapped in one is in the other.
    pub fn is_same(&self, other: &Dma) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
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
        let device = state.next_device;
        state.next_device += 1;
        state.devices.push((device, pci.clone()));
        let attachment = Attachment::new(self.clone(), device);
        let mapped = chunks.iter().try_for_each(|chunk| chunk.map_into(pci));
        // On an error the attachment, which takes the lock, goes now: what the device had
        // taken until then is taken back.
        drop(state);
        mapped.map(|()| attachment)
    }
}

impl Dma {
    /// A space whose memory for devices that see physical addresses `physical` gives.
    pub(crate) fn over(options: Options, physical: Physical) -> Dma {
        Dma(Arc::new(Space { options, physical, state: Mutex::default() }))
    }

    /// Memory, and where devices see it: the address of each hugepage, or one for all.
    pub(crate) fn memory(
        &self,
        state: &mut State,
        len: usize,
        physical: bool,
        pages: Pages,
    ) -> Result<(Mapping, Vec<u64>)> {
        if physical {
            return (self.0.physical)(self.0.options, len);
        }
        let mapping = Mapping::new(self.0.options, len, false, pages)?;
        let iova = state.iovas.take(mapping.len)?;
        Ok((mapping, vec![iova]))
    }

    /// Memory of its own, mapped into all devices.
    pub(crate) fn chunk(&self, len: usize, pages: Pages) -> Result<Arc<Chunk>> {
        let mut state = self.state();
        let physical = state.devices.iter().any(|(_, pci)| pci.addressing() == Addressing::Physical);
        let (mapping, iovas) = self.memory(&mut state, len, physical, pages)?;
        let chunk = Chunk::new(self.clone(), mapping, iovas, !physical);
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

    /// Cuts a small region out of a shared chunk.
    pub(crate) fn cut(&self, len: usize) -> Result<Region> {
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
        let chunk = self.chunk(HUGE_PAGE, Pages::Now)?;
        let used = len.next_multiple_of(REGION_ALIGN);
        self.state().small = Some((Arc::downgrade(&chunk), used));
        Ok(Region { chunk, start: 0, len })
    }
}

impl Chunk {
    /// Memory that devices see at `iovas`: at one for the whole if it is contiguous.
    pub(crate) fn new(dma: Dma, mapping: Mapping, iovas: Vec<u64>, contiguous: bool) -> Chunk {
        let (addr, file) = (mapping.ptr.as_ptr(), Some((mapping.file(), 0)));
        // SAFETY: all of our mapping, which holds no Rust object and stays until the watch
        // is dropped; no backend is given this range.
        let range = unsafe { DmaRange::new(addr, mapping.len, iovas[0], file) };
        // Miri's memory has no file that a peer could have.
        let watch = if cfg!(miri) { None } else { range.watch() };
        Chunk { dma, watch, mapping, iovas, contiguous }
    }

    /// Whether a peer took pages of it away.
    pub(crate) fn is_lost(&self) -> bool {
        self.watch.as_ref().is_some_and(Registration::is_lost)
    }

    /// The stretches that are contiguous for the device: (IOVA, offset, length).
    pub(crate) fn stretches(&self) -> impl Iterator<Item = (u64, usize, usize)> {
        let step = if self.contiguous { self.mapping.len } else { HUGE_PAGE };
        self.iovas.iter().enumerate().map(move |(i, &iova)| (iova, i * step, step))
    }

    pub(crate) fn map_into(&self, pci: &Pci) -> Result<()> {
        for (iova, offset, len) in self.stretches() {
            let addr = self.mapping.ptr.as_ptr().wrapping_add(offset);
            let file = Some((self.mapping.file(), offset as u64));
            // SAFETY: a part of our mapping, which holds no Rust object; it
            // is unmapped from each device before it goes, when we are dropped.
            pci.map_dma(&unsafe { DmaRange::new(addr, len, iova, file) })?;
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

#[cfg(test)]
mod tests;
