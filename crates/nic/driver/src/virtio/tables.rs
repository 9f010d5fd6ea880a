//! Indirect descriptors (virtio 1.3, 2.7.5.3 and 2.8.7): a buffer of several
//! parts takes one slot of the ring, which points at a table of its own.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use memory::{Dma, Region};
use regs::virtio::split::descriptor;

use super::ring::Part;
use crate::Result;
use crate::words::Words;

/// A table for each slot of a ring.
pub(super) struct Tables {
    words: Words<[AtomicU64; 2]>,
    /// Descriptors of a table, a power of two: none crosses a page.
    len: u32,
    pub(super) region: Region,
}

impl Tables {
    pub(super) fn new(dma: &Dma, slots: u32, parts: u16) -> Result<Tables> {
        let len = u32::from(parts).next_power_of_two();
        let region = dma.alloc((slots * len) as usize * descriptor::BYTES)?;
        Ok(Tables { words: Words::new(&region, 0, slots * len), len, region })
    }

    /// Writes the table of a slot; the part that the ring shall point at.
    /// `chained`: descriptors name their successor (split rings), else they
    /// stand in order (packed rings, 2.8.7).
    pub(super) fn fill(&self, slot: u16, parts: &[Part], chained: bool) -> Part {
        let first = u32::from(slot) * self.len;
        debug_assert!(parts.len() <= self.len as usize);
        for (n, part) in (0..).zip(parts) {
            let mut flags = if part.write { descriptor::WRITE } else { 0 };
            let mut next = 0;
            if chained && n as usize + 1 < parts.len() {
                flags |= descriptor::NEXT;
                next = n as u16 + 1;
            }
            let [address, rest] = self.words.at(first + n);
            address.store(part.address, Relaxed);
            // A packed ring's descriptor has its id where a split one has flags.
            let upper =
                if chained { u32::from(flags) | u32::from(next) << 16 } else { u32::from(flags) << 16 };
            rest.store(u64::from(part.len) | u64::from(upper) << 32, Relaxed);
        }
        let address = self.region.iova(first as usize * descriptor::BYTES);
        Part { address, len: parts.len() as u32 * descriptor::BYTES as u32, write: false }
    }
}
