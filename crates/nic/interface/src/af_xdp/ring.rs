//! A ring between us and the kernel: entries, and an index on each side. One of
//! us puts, the other takes (Linux's af_xdp.rst, "Rings"). Entries and both
//! indices are the kernel's memory: what it says is bounded here.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::mapping::Mapping;

/// Bit `XDP_RING_NEED_WAKEUP` of a ring's flags.
const NEED_WAKEUP: u32 = 1;

/// Where things are in the mapping, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offsets {
    pub(super) ours: usize,
    pub(super) theirs: usize,
    pub(super) flags: usize,
    pub(super) entries: usize,
}

/// Our end of a ring.
#[derive(Debug)]
pub(super) struct XdpRing {
    memory: Mapping,
    offsets: Offsets,
    /// Entries, a power of two, and the bytes of each.
    size: u32,
    width: usize,
    /// Our index, free-running; published when told to.
    next: u32,
}

impl XdpRing {
    /// A fresh ring: both indices at zero.
    pub(super) fn new(memory: Mapping, offsets: Offsets, size: usize, width: usize) -> XdpRing {
        XdpRing { memory, offsets, size: size as u32, width, next: 0 }
    }

    fn theirs(&self) -> u32 {
        // Acquire: what the other side did to the entries before is seen.
        self.memory.word(self.offsets.theirs).load(Acquire)
    }

    /// Entries to take, where the kernel puts.
    pub(super) fn filled(&self) -> u32 {
        self.theirs().wrapping_sub(self.next).min(self.size)
    }

    /// Entries that the kernel has not taken yet, where we put.
    pub(super) fn waiting(&self) -> u32 {
        self.next.wrapping_sub(self.theirs()).min(self.size)
    }

    /// Entries that can be put.
    pub(super) fn room(&self) -> u32 {
        self.size - self.waiting()
    }

    fn at(&self) -> usize {
        self.offsets.entries + (self.next & (self.size - 1)) as usize * self.width
    }

    /// The next entry: its address and, where it has one, its length.
    pub(super) fn peek(&self) -> (u64, usize) {
        let at = self.at();
        let len = if self.width > 8 { self.memory.word(at + 8).load(Relaxed) as usize } else { 0 };
        (self.memory.long(at).load(Relaxed), len)
    }

    /// Goes past the next entry.
    pub(super) fn advance(&mut self) {
        self.next = self.next.wrapping_add(1);
    }

    /// Writes the next entry and goes past it.
    pub(super) fn put(&mut self, address: u64, len: usize) {
        let at = self.at();
        self.memory.long(at).store(address, Relaxed);
        if self.width > 8 {
            self.memory.long(at + 8).store(len as u64, Relaxed); // and no options
        }
        self.advance();
    }

    /// Tells the kernel how far we are.
    pub(super) fn publish(&self) {
        // Release: our accesses to the entries come before it may touch them.
        self.memory.word(self.offsets.ours).store(self.next, Release);
    }

    /// Whether the kernel wants to be told that there is something.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.memory.word(self.offsets.flags).load(Relaxed) & NEED_WAKEUP != 0
    }
}
