//! A descriptor ring as Intel's NICs share it with the host: two or four
//! little-endian 64-bit words for each descriptor, in DMA memory.
//!
//! Host and device access the same words at the same time, so they are atomics:
//! on x86 and Arm a relaxed access is a plain load or store. Ownership passes by a
//! word that is seen and by the doorbell, each with its barrier of [`bus::order`].

use std::any::Any;
use std::ptr::NonNull;
use std::slice;

use memory::{Dma, Packet, Region};

use crate::Result;
use crate::intel::layout::Descriptor;

/// A ring whose size is a power of two, indexed by a free-running counter, and
/// the packets behind its descriptors.
pub(crate) struct DescriptorRing<D> {
    descriptors: NonNull<D>,
    packets: Box<[Option<Packet>]>,
    mask: u32,
    region: Region,
}

// SAFETY: the ring is the only handle to its descriptors on the host's side, and
// they are atomics.
unsafe impl<D: Descriptor> Send for DescriptorRing<D> {}

impl<D: Descriptor> DescriptorRing<D> {
    /// A zeroed ring of `size` descriptors, a power of two.
    pub(crate) fn new(dma: &Dma, size: usize) -> Result<DescriptorRing<D>> {
        assert!(size.is_power_of_two(), "ring sizes are checked with the options");
        let region = dma.alloc(size * size_of::<D>())?;
        let packets = (0..size).map(|_| None).collect();
        Ok(DescriptorRing { descriptors: region.ptr().cast(), packets, mask: size as u32 - 1, region })
    }

    /// Up to `count` descriptors and their packets from a free-running index on,
    /// fewer where the ring's end comes first.
    #[inline(always)]
    pub(crate) fn slice(&mut self, index: u32, count: u32) -> (&[D], &mut [Option<Packet>]) {
        let size = self.packets.len();
        // SAFETY: the region has as many descriptors, zeroed and aligned to a
        // page, and lives as long as `self`.
        let descriptors = unsafe { slice::from_raw_parts(self.descriptors.as_ptr(), size) };
        let start = self.offset(index) as usize;
        let end = size.min(start + count as usize);
        (&descriptors[start..end], &mut self.packets[start..end])
    }

    /// The descriptor at a free-running index.
    pub(crate) fn at(&self, index: u32) -> &D {
        // SAFETY: below the ring's size; as in `slice`.
        unsafe { self.descriptors.add(self.offset(index) as usize).as_ref() }
    }

    /// Where a free-running index stands in the ring, as head and tail count.
    pub(crate) fn offset(&self, index: u32) -> u32 {
        index & self.mask
    }

    pub(crate) fn size(&self) -> u32 {
        self.mask + 1
    }

    /// The device's address of the first descriptor.
    pub(crate) fn iova(&self) -> u64 {
        self.region.iova(0)
    }

    /// Descriptors and buffers, which the device may still reach when the ring is gone.
    pub(crate) fn take_memory(&mut self) -> Box<dyn Any + Send> {
        Box::new((self.region.clone(), std::mem::take(&mut self.packets)))
    }

    /// Length in bytes, as the device wants it.
    pub(crate) fn bytes(&self) -> u32 {
        self.size() * size_of::<D>() as u32
    }
}
