//! The host memory cache (datasheet chapter 7): the contexts of queues lie in memory that the
//! driver lends, one segment of 2 MiB for all of them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use bus::{Bar, order};
use memory::{Dma, Region};
use regs::i40e::*;

use crate::Result;
use crate::words::Words;

/// Bytes of the segment, and of its pages.
const SEGMENT: usize = 2 << 20;
const PAGE: usize = 4 << 10;
/// Bases of contexts are in this many bytes.
const BASE_UNIT: usize = 512;
/// Where receive contexts begin: behind all that there can be of the others.
const RX_AT: usize = SEGMENT / 2;
/// Bytes of a pair of words.
const PAIR: usize = size_of::<[AtomicU64; 2]>();

/// Memory for the contexts of queues.
pub(super) struct Contexts {
    words: Words<[AtomicU64; 2]>,
    region: Region,
}

impl Contexts {
    /// Lends the device a segment, and tells it where contexts lie in it.
    pub fn new(bar: &Bar, dma: &Dma, queues: usize) -> Result<Contexts> {
        let region = dma.alloc(SEGMENT)?;
        let words = Words::new(&region, 0, (SEGMENT / PAIR) as u32);
        let iova = region.iova(0);
        let pages = ((SEGMENT / PAGE) as u32) << PFHMC_SDDATALOW::BPCOUNT_SHIFT;
        let kind = PFHMC_SDDATALOW::TYPE_DIRECT | PFHMC_SDDATALOW::VALID;
        bar.write32(PFHMC_SDDATAHIGH::AT, (iova >> 32) as u32);
        bar.write32(PFHMC_SDDATALOW::AT, iova as u32 | pages | kind);
        bar.write32(PFHMC_SDCMD::AT, PFHMC_SDCMD::PMSDWR);
        let function = (bar.read32(PF_FUNC_RID::AT) & PF_FUNC_RID::FUNCTION_NUMBER_MASK) as usize;
        for (base, at) in [(GLHMC_LANTXBASE::at(function), 0), (GLHMC_LANRXBASE::at(function), RX_AT)] {
            bar.write32(base, (at / BASE_UNIT) as u32);
        }
        bar.write32(GLHMC_LANTXCNT::at(function), queues as u32);
        bar.write32(GLHMC_LANRXCNT::at(function), queues as u32);
        Ok(Contexts { words, region })
    }

    /// Writes a receive queue's context.
    pub fn put_rx(&self, queue: usize, context: &[u64; context::rx::LEN / 8]) {
        self.put(RX_AT + queue * context::rx::LEN, context);
    }

    /// Writes a transmit queue's context.
    pub fn put_tx(&self, queue: usize, context: &[u64; context::tx::LEN / 8]) {
        self.put(queue * context::tx::LEN, context);
    }

    fn put(&self, at: usize, context: &[u64]) {
        for (n, pair) in context.chunks(2).enumerate() {
            let place = self.words.at((at / PAIR + n) as u32);
            place.iter().zip(pair).for_each(|(place, word)| place.store(*word, Relaxed));
        }
        order::before_doorbell(); // the device reads it when the queue is enabled
    }

    /// Keeps the memory for ever: the device may still reach it.
    pub fn leak(&self) {
        std::mem::forget(self.region.clone());
    }
}
