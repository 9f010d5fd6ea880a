//! The packed virtqueue from the device's side.
//!
//! virtio 1.3, section 2.8. Of a burst of used descriptors the first is written
//! last, so that the driver sees all of them at once.

use std::sync::atomic::{Ordering, fence};

use regs::virtio::packed::{descriptor, event, ring_bytes};

use super::super::area::Area;
use super::super::chain::{Breach, Chain, Descriptor, INDIRECT, NEXT};
use super::super::lint::Rule;
use super::{RingAddresses, Rules};
use crate::{Dma, Window};
use regs::virtio::split::needs_event;

/// A place in the ring, with the wrap counter there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    index: u16,
    wrap: bool,
}

impl Position {
    #[inline(always)]
    fn forward(&mut self, count: u16, size: u16) {
        // Sizes are 32768 at most, and counts no more than the size.
        self.index += count;
        if self.index >= size {
            self.index -= size;
            self.wrap = !self.wrap;
        }
    }

    fn back(&mut self, count: u16, size: u16) {
        if self.index < count {
            self.index += size;
            self.wrap = !self.wrap;
        }
        self.index -= count;
    }

    fn decode(word: u16, size: u16) -> Position {
        Position { index: (word & !event::WRAP) % size.max(1), wrap: word & event::WRAP != 0 }
    }

    fn encode(self) -> u16 {
        self.index | if self.wrap { event::WRAP } else { 0 }
    }
}

/// A packed ring.
#[derive(Debug)]
pub(in crate::virtio) struct Packed<W> {
    size: u16,
    rules: Rules,
    ring: Area<W>,
    driver: Area<W>,
    device: Area<W>,
    /// The next descriptor to take.
    next: Position,
    /// Where the next used one goes.
    done: Position,
    /// Used position as of the last decision to interrupt.
    told: Position,
    /// The first used descriptor of the burst: its offset and word.
    first: Option<(usize, u64)>,
    /// The last of a batch that IN_ORDER lets us name alone.
    batched: Option<u16>,
}

impl<W: Window> Packed<W> {
    /// The ring at `place`; `base` has both positions, the available one in its
    /// lower half.
    pub fn open<D: Dma<Window = W>>(
        dma: &D,
        place: &RingAddresses,
        rules: Rules,
        base: u32,
    ) -> Option<Packed<W>> {
        let size = place.size;
        let done = Position::decode((base >> 16) as u16, size);
        Some(Packed {
            size,
            rules,
            ring: Area::open(dma, place.descriptors, ring_bytes(size))?,
            driver: Area::open(dma, place.driver, event::BYTES)?,
            device: Area::open(dma, place.device, event::BYTES)?,
            next: Position::decode(base as u16, size),
            done,
            told: done,
            first: None,
            batched: None,
        })
    }

    pub fn base(&self) -> u32 {
        u32::from(self.done.encode()) << 16 | u32::from(self.next.encode())
    }

    /// Whether a buffer is available; how many are is not known before they are
    /// taken.
    #[inline(always)]
    pub fn has_one(&self) -> bool {
        let offset = descriptor::BYTES * usize::from(self.next.index) + descriptor::LEN;
        self.is_available((self.ring.load(offset) >> 48) as u16)
    }

    /// The driver made a descriptor available when AVAIL equals its wrap counter
    /// and USED does not (2.8.1).
    #[inline(always)]
    fn is_available(&self, flags: u16) -> bool {
        let (avail, used) = (flags & descriptor::AVAIL != 0, flags & descriptor::USED != 0);
        avail == self.next.wrap && used != self.next.wrap
    }

    /// Takes the next available buffer; `false` when there is none.
    #[inline(always)]
    pub fn take<D: Dma>(&mut self, dma: &D, chain: &mut Chain) -> Result<bool, Breach> {
        let offset = descriptor::BYTES * usize::from(self.next.index);
        // Acquire: the rest of the chain is seen after its first flags (2.8.21).
        let word = self.ring.load_acquire(offset + descriptor::LEN);
        if !self.is_available((word >> 48) as u16) {
            return Ok(false);
        }
        chain.clear();
        let entry = Descriptor::of_packed(self.ring.load(offset), word);
        (chain.id, chain.span, chain.walked) = (entry.next, 1, 1);
        if entry.flags & INDIRECT != 0 {
            if !self.rules.indirect {
                return Err(Breach { rule: Rule::IndirectNotNegotiated, value: entry.flags.into() });
            }
            chain.push_table(dma, &entry, self.size, false)?;
        } else {
            chain.push(&entry);
            if entry.flags & NEXT != 0 {
                self.walk(chain)?;
            }
        }
        self.next.forward(chain.span, self.size);
        Ok(true)
    }

    /// The rest of a chain lies behind its first descriptor (2.8.5); the last
    /// one has the id.
    fn walk(&self, chain: &mut Chain) -> Result<(), Breach> {
        let mut at = self.next;
        for _ in 1..self.size {
            at.forward(1, self.size);
            let offset = descriptor::BYTES * usize::from(at.index);
            let word = self.ring.load(offset + descriptor::LEN);
            let entry = Descriptor::of_packed(self.ring.load(offset), word);
            (chain.span, chain.walked, chain.id) = (chain.span + 1, chain.walked + 1, entry.next);
            if entry.flags & INDIRECT != 0 {
                // Within a chain none may refer to a table (2.8.19).
                return Err(Breach { rule: Rule::IndirectWithNext, value: entry.flags.into() });
            }
            chain.push(&entry);
            if entry.flags & NEXT == 0 {
                return Ok(());
            }
        }
        Err(Breach { rule: Rule::ChainLoops, value: self.next.index.into() })
    }

    /// Gives back the last buffer taken, so that it is taken again.
    pub fn untake(&mut self, span: u16) {
        self.next.back(span, self.size);
    }

    /// Has used buffer `id` and wrote `len` bytes to it.
    #[inline(always)]
    pub fn put(&mut self, id: u16, span: u16, len: u32) {
        let written = if len > 0 { descriptor::WRITE } else { 0 };
        self.write(id, len, written);
        self.done.forward(span, self.size);
    }

    #[inline(always)]
    fn write(&mut self, id: u16, len: u32, mut flags: u16) {
        if self.done.wrap {
            flags |= descriptor::AVAIL | descriptor::USED;
        }
        let offset = descriptor::BYTES * usize::from(self.done.index) + descriptor::LEN;
        let word = u64::from(flags) << 48 | u64::from(id) << 32 | u64::from(len);
        if self.first.is_none() {
            self.first = Some((offset, word));
        } else {
            self.ring.store(offset, word);
        }
    }

    /// Has used buffer `id` up, of a burst that ends with [`Packed::publish`].
    /// Where the driver expects buffers in order, only the last is named (2.8.8).
    #[inline(always)]
    pub fn put_read(&mut self, id: u16, span: u16) {
        if !self.rules.in_order {
            return self.put(id, span, 0);
        }
        if self.first.is_none() {
            // Takes the place of the batch's first; the id comes at its end.
            self.write(id, 0, 0);
        }
        self.batched = Some(id);
        self.done.forward(span, self.size);
    }

    /// Shows the driver what was used; whether it wants to be interrupted.
    #[inline(always)]
    pub fn publish(&mut self) -> bool {
        let Some((offset, mut word)) = self.first.take() else { return false };
        if let Some(id) = self.batched.take() {
            word = word & !(0xFFFF << 32) | u64::from(id) << 32;
        }
        // Release: buffers and the other descriptors are seen before it.
        self.ring.store_release(offset, word);
        let old = std::mem::replace(&mut self.told, self.done);
        // The descriptors must be out before the driver's event suppression is read, or both
        // sides could wait for each other (2.8.21).
        fence(Ordering::SeqCst);
        let suppression = self.driver.load32_acquire(event::OFF_WRAP);
        match (suppression >> 16) as u16 & event::FLAGS_MASK {
            event::DISABLE => false,
            event::DESC if self.rules.event_index => self.passed(suppression as u16, old),
            _ => true,
        }
    }

    /// Whether the position the driver named was passed since `old`.
    fn passed(&self, suppression: u16, old: Position) -> bool {
        let new = self.done.index;
        let behind = if new <= old.index { old.index.wrapping_sub(self.size) } else { old.index };
        let mut named = suppression & !event::WRAP;
        if (suppression & event::WRAP != 0) != self.done.wrap {
            named = named.wrapping_sub(self.size);
        }
        needs_event(named, new, behind)
    }

    /// Asks for a notification with the next buffer, or for none.
    pub fn want_kick(&self, wanted: bool) {
        let word = match (wanted, self.rules.event_index) {
            (false, _) => u32::from(event::DISABLE) << 16,
            (true, false) => u32::from(event::ENABLE) << 16,
            (true, true) => u32::from(event::DESC) << 16 | u32::from(self.next.encode()),
        };
        self.device.store32(event::OFF_WRAP, word);
        // The event suppression must be out before the ring is looked at once more.
        fence(Ordering::SeqCst);
    }
}
