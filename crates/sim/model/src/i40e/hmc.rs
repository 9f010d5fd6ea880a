//! The host memory cache: contexts of queues live in the host's memory, in segments of
//! 2 MiB that the driver lends (datasheet 332464, chapter 7). The model reads a context when
//! its queue is enabled and keeps nothing else.

use std::collections::BTreeMap;

use regs::i40e::*;

use super::host::Counters;
use super::lint::{Location, Rule};
use super::registers::Registers;
use crate::Dma;

/// Bytes of a segment and of a page.
const SEGMENT: u64 = 2 << 20;
const PAGE: u64 = 4 << 10;
/// Pages of a whole segment.
const PAGES: u64 = SEGMENT / PAGE;
/// Bases are in this many bytes.
const BASE_UNIT: u64 = 512;
/// The bit of a page descriptor that says it is one.
const PAGE_VALID: u64 = 1;

/// Contexts of one direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Objects {
    pub base: u32,
    pub count: u32,
    /// Bytes of a context.
    pub size: u64,
}

impl Objects {
    /// The contexts of receive queues.
    pub fn rx(registers: &Registers) -> Objects {
        let base = registers.read(GLHMC_LANRXBASE::at(0)) & GLHMC_LANRXBASE::BASE_MASK;
        Objects { base, count: registers.read(GLHMC_LANRXCNT::at(0)), size: context::rx::LEN as u64 }
    }

    /// The contexts of transmit queues.
    pub fn tx(registers: &Registers) -> Objects {
        let base = registers.read(GLHMC_LANTXBASE::at(0)) & GLHMC_LANTXBASE::BASE_MASK;
        Objects { base, count: registers.read(GLHMC_LANTXCNT::at(0)), size: context::tx::LEN as u64 }
    }
}

/// A segment that the driver lent.
#[derive(Debug, Clone, Copy)]
struct Segment {
    address: u64,
    pages: u64,
    direct: bool,
}

/// The cache's segment descriptors.
#[derive(Debug, Default)]
pub(super) struct Hmc {
    segments: BTreeMap<u16, Segment>,
}

impl Hmc {
    pub fn reset(&mut self) {
        self.segments.clear();
    }

    /// The driver wrote PFHMC_SDCMD.
    pub fn command(&mut self, value: u32, registers: &Registers, dma: &impl Dma, counters: &mut Counters) {
        if value & PFHMC_SDCMD::PMSDWR == 0 {
            return;
        }
        let (low, high) = (registers.read(PFHMC_SDDATALOW::AT), registers.read(PFHMC_SDDATAHIGH::AT));
        let index = (value & PFHMC_SDCMD::PMSDIDX_MASK) as u16;
        if low & PFHMC_SDDATALOW::VALID == 0 {
            self.segments.remove(&index);
            return;
        }
        let pages = u64::from((low & PFHMC_SDDATALOW::BPCOUNT_MASK) >> PFHMC_SDDATALOW::BPCOUNT_SHIFT);
        if pages == 0 || pages > PAGES {
            counters.report(Rule::SegmentInvalid, Location::Segment(index), u64::from(low));
            return;
        }
        let address = u64::from(high) << 32 | u64::from(low & PFHMC_SDDATALOW::ADDRESS_MASK);
        let direct = low & PFHMC_SDDATALOW::TYPE_DIRECT != 0;
        // A segment of pages is described by one page of addresses.
        let len = if direct { pages * PAGE } else { PAGE };
        if dma.window(address, len).is_none() {
            counters.report(Rule::SegmentUnmapped, Location::Segment(index), address);
        }
        self.segments.insert(index, Segment { address, pages, direct });
    }

    /// Where byte `offset` of the cache is in the host's memory.
    fn place(&self, offset: u64, dma: &impl Dma) -> Option<u64> {
        let segment = self.segments.get(&u16::try_from(offset / SEGMENT).ok()?)?;
        let within = offset % SEGMENT;
        if within >= segment.pages * PAGE {
            return None;
        }
        if segment.direct {
            return segment.address.checked_add(within);
        }
        let mut entry = [0; 8];
        let at = segment.address.checked_add(within / PAGE * 8)?;
        let entry = dma.read(at, &mut entry).then(|| u64::from_le_bytes(entry))?;
        (entry & PAGE_VALID != 0).then_some((entry & !(PAGE - 1)) + within % PAGE)
    }

    /// The words of a queue's context; `None` when they cannot be read.
    pub fn context<const WORDS: usize>(
        &self,
        objects: Objects,
        queue: u16,
        dma: &impl Dma,
    ) -> Option<[u64; WORDS]> {
        if u32::from(queue) >= objects.count {
            return None;
        }
        // Contexts do not cross pages: their size divides a page's.
        let offset = u64::from(objects.base) * BASE_UNIT + u64::from(queue) * objects.size;
        let place = self.place(offset, dma)?;
        let mut words = [0; WORDS];
        for (n, word) in (0..).zip(&mut words) {
            let mut bytes = [0; 8];
            if !dma.read(place.checked_add(8 * n)?, &mut bytes) {
                return None;
            }
            *word = u64::from_le_bytes(bytes);
        }
        Some(words)
    }
}
