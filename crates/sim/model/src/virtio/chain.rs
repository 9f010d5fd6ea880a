//! A buffer as the driver makes it available: a chain of descriptors, flattened
//! to segments of memory.
//!
//! virtio 1.3, sections 2.7.5 (split), 2.8.5 (packed) and 2.7.5.3, 2.8.7
//! (indirect tables). Readable segments come before writable ones (2.7.4.2);
//! what breaks the structure of the ring is a [`Breach`], what merely makes no
//! sense is recorded in the chain.

use super::lint::Rule;
use crate::Dma;

/// A segment of host memory, not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub address: u64,
    pub len: u32,
}

/// A way to break a ring for good: which rule, and the value at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Breach {
    pub rule: Rule,
    pub value: u64,
}

/// What a descriptor says, in either ring's layout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Descriptor {
    pub address: u64,
    pub len: u32,
    pub flags: u16,
    /// Split: the next one. Packed: the buffer's id.
    pub next: u16,
}

/// Flags that both layouts have, at the same bits.
pub(super) const NEXT: u16 = regs::virtio::split::descriptor::NEXT;
pub(super) const WRITE: u16 = regs::virtio::split::descriptor::WRITE;
pub(super) const INDIRECT: u16 = regs::virtio::split::descriptor::INDIRECT;
const _: () = assert!(
    NEXT == regs::virtio::packed::descriptor::NEXT
        && WRITE == regs::virtio::packed::descriptor::WRITE
        && INDIRECT == regs::virtio::packed::descriptor::INDIRECT
);

/// One available buffer. Filled anew for each, so that its memory is reused.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// What the used entry names.
    pub id: u16,
    /// Descriptors it takes in the ring.
    pub span: u16,
    segments: Vec<Segment>,
    /// How many of them are for reading.
    readable: usize,
    /// Descriptors read, in the ring and in tables.
    pub walked: u32,
    /// A readable segment follows a writable one.
    pub is_mixed: bool,
    /// A segment has no bytes.
    pub has_empty: bool,
}

impl Chain {
    pub fn clear(&mut self) {
        self.segments.clear();
        (self.readable, self.walked, self.span) = (0, 0, 0);
        (self.is_mixed, self.has_empty) = (false, false);
    }

    #[inline(always)]
    pub fn push(&mut self, descriptor: &Descriptor) {
        let Descriptor { address, len, flags, .. } = *descriptor;
        self.has_empty |= len == 0;
        if flags & WRITE == 0 {
            if self.readable < self.segments.len() {
                // Passed over: readable segments come first.
                self.is_mixed = true;
                return;
            }
            self.readable += 1;
        }
        self.segments.push(Segment { address, len });
    }

    /// What the device reads.
    #[inline(always)]
    pub fn readable(&self) -> &[Segment] {
        &self.segments[..self.readable]
    }

    /// What the device writes.
    #[inline(always)]
    pub fn writable(&self) -> &[Segment] {
        &self.segments[self.readable..]
    }

    /// Bytes the device may write.
    pub fn room(&self) -> u64 {
        self.writable().iter().map(|segment| u64::from(segment.len)).sum()
    }

    /// Bytes the device may read.
    pub fn bytes(&self) -> u64 {
        self.readable().iter().map(|segment| u64::from(segment.len)).sum()
    }

    /// Takes over the table that `descriptor` refers to. `most` is the ring's
    /// size, the longest a chain may be (2.7.5.3.1). In a packed ring's table all
    /// entries belong to the chain, in a split one's those that are linked.
    pub fn push_table<D: Dma>(
        &mut self,
        dma: &D,
        descriptor: &Descriptor,
        most: u16,
        linked: bool,
    ) -> Result<(), Breach> {
        let Descriptor { address, len, flags, .. } = *descriptor;
        if linked && flags & NEXT != 0 {
            return Err(Breach { rule: Rule::IndirectWithNext, value: flags.into() });
        }
        let entries = len / 16;
        if len == 0 || len % 16 != 0 || (!linked && entries > u32::from(most)) {
            return Err(Breach { rule: Rule::IndirectTableSize, value: len.into() });
        }
        let mut at = 0;
        for _ in 0..entries.min(most.into()) {
            let mut bytes = [0; 16];
            let Some(place) = address.checked_add(16 * u64::from(at)) else {
                return Err(Breach { rule: Rule::IndirectTableUnmapped, value: address });
            };
            if !dma.read(place, &mut bytes) {
                return Err(Breach { rule: Rule::IndirectTableUnmapped, value: place });
            }
            let entry = Descriptor::decode(&bytes, linked);
            self.walked += 1;
            if entry.flags & INDIRECT != 0 {
                return Err(Breach { rule: Rule::IndirectNested, value: entry.flags.into() });
            }
            self.push(&entry);
            if linked && entry.flags & NEXT == 0 {
                return Ok(());
            }
            at = if linked { u32::from(entry.next) } else { at + 1 };
            if linked && at >= entries {
                return Err(Breach { rule: Rule::NextOutOfRange, value: at.into() });
            }
        }
        if linked { Err(Breach { rule: Rule::ChainLoops, value: address }) } else { Ok(()) }
    }
}

impl Descriptor {
    /// An entry of a table, which is laid out as the ring that refers to it: DPDK
    /// and QEMU read it so (2.8.7: an element of type `pvirtq_desc`).
    fn decode(bytes: &[u8; 16], split: bool) -> Descriptor {
        let (words, _) = bytes.as_chunks::<{ size_of::<u64>() }>();
        let (address, word) = (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
        if split { Descriptor::of(address, word) } else { Descriptor::of_packed(address, word) }
    }

    /// From the words of a split ring's descriptor.
    #[inline(always)]
    pub fn of(address: u64, word: u64) -> Descriptor {
        Descriptor { address, len: word as u32, flags: (word >> 32) as u16, next: (word >> 48) as u16 }
    }

    /// From the words of a packed ring's descriptor, which has id and flags the
    /// other way round.
    #[inline(always)]
    pub fn of_packed(address: u64, word: u64) -> Descriptor {
        Descriptor { address, len: word as u32, flags: (word >> 48) as u16, next: (word >> 32) as u16 }
    }
}
