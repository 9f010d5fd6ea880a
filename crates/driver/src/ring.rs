//! A descriptor ring as Intel's NICs share it with the host: pairs of
//! little-endian 64-bit words in DMA memory.
//!
//! Host and device access the same words at the same time, so they are atomics:
//! on x86 and Arm a relaxed access is a plain load or store. The word that
//! passes ownership is read with acquire; the doorbell passes it the other way.

use std::mem;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use memory::{Dma, Packet, Region};

use crate::Result;

/// One descriptor: its address word and its command or status word.
pub(crate) type Descriptor = [AtomicU64; 2];

/// A ring whose size is a power of two, indexed by a free-running counter.
pub(crate) struct Ring {
    descriptors: NonNull<Descriptor>,
    mask: u32,
    pub(crate) region: Region,
}

// SAFETY: the ring is the only handle to its descriptors on the host's side, and
// they are atomics.
unsafe impl Send for Ring {}

impl Ring {
    /// A zeroed ring of `size` descriptors, a power of two.
    pub(crate) fn new(dma: &Dma, size: usize) -> Result<Ring> {
        assert!(size.is_power_of_two(), "ring sizes are checked with the options");
        let region = dma.alloc(size * size_of::<Descriptor>())?;
        Ok(Ring { descriptors: region.ptr().cast(), mask: size as u32 - 1, region })
    }

    /// The descriptor at a free-running index.
    pub(crate) fn at(&self, index: u32) -> &Descriptor {
        // SAFETY: the masked index is below the ring's size; the region is
        // zeroed, aligned to a page and lives as long as `self`.
        unsafe { self.descriptors.add((index & self.mask) as usize).as_ref() }
    }

    pub(crate) fn size(&self) -> u32 {
        self.mask + 1
    }

    pub(crate) fn mask(&self) -> u32 {
        self.mask
    }

    /// The device's address of the first descriptor.
    pub(crate) fn iova(&self) -> u64 {
        self.region.iova(0)
    }

    /// Length in bytes, as the device wants it.
    pub(crate) fn bytes(&self) -> u32 {
        self.size() * size_of::<Descriptor>() as u32
    }
}

/// The packets behind a ring's descriptors, at the same indices.
pub(crate) struct Slots {
    pub(crate) packets: Box<[Option<Packet>]>,
    mask: u32,
}

impl Slots {
    pub(crate) fn new(ring: &Ring) -> Slots {
        let packets = (0..ring.size()).map(|_| None).collect();
        Slots { packets, mask: ring.mask() }
    }

    /// Puts a packet into an empty slot.
    pub(crate) fn put(&mut self, index: u32, packet: Packet) {
        let slot = self.slot(index);
        debug_assert!(slot.is_none());
        // Not assigned, so that no drop of an old value is compiled in.
        mem::forget(slot.replace(packet));
    }

    /// Takes the packet out of a slot.
    pub(crate) fn take(&mut self, index: u32) -> Option<Packet> {
        self.slot(index).take()
    }

    fn slot(&mut self, index: u32) -> &mut Option<Packet> {
        // SAFETY: there is a slot for each value under the mask.
        unsafe { self.packets.get_unchecked_mut((index & self.mask) as usize) }
    }
}
