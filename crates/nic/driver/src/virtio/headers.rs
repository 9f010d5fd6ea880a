//! Headers in memory of their own, for packets without room in front and for
//! devices that want header and frame apart.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use memory::{Dma, Region};
use regs::virtio::net::header;

use super::ring::Part;
use crate::Result;
use crate::words::Words;

/// Bytes from one header to the next.
const STRIDE: usize = 32;
/// Words of a header's place.
const WORDS: u32 = (STRIDE / size_of::<u32>()) as u32;

/// A header for each slot.
pub(super) struct Headers {
    words: Words<AtomicU32>,
    pub(super) region: Region,
}

impl Headers {
    pub(super) fn new(dma: &Dma, slots: u32) -> Result<Headers> {
        let region = dma.alloc(slots as usize * STRIDE)?;
        Ok(Headers { words: Words::new(&region, 0, slots * WORDS), region })
    }

    /// Writes the header of a slot; the part that points at it.
    pub(super) fn fill(&self, slot: u16, bytes: &[u8; header::BYTES_HASH], len: usize) -> Part {
        let first = u32::from(slot) * WORDS;
        for (n, word) in (0..).zip(bytes.as_chunks().0) {
            self.words.at(first + n).store(u32::from_le_bytes(*word), Relaxed);
        }
        let address = self.region.iova(usize::from(slot) * STRIDE);
        Part { address, len: len as u32, write: false }
    }
}
