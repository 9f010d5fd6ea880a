//! The split virtqueue from the device's side.
//!
//! virtio 1.3, section 2.7. The driver's index is looked at only when all that
//! was known of is taken, and ours is published once for a burst: each look and
//! each write costs both sides a cache miss.

use std::sync::atomic::{Ordering, fence};

use regs::virtio::split::{available, descriptor, needs_event, table_bytes, used};

use super::super::area::Area;
use super::super::chain::{Breach, Chain, Descriptor, INDIRECT, NEXT};
use super::super::lint::Rule;
use super::{RingAddresses, Rules};
use crate::{Dma, Window};

/// A split ring.
#[derive(Debug)]
pub(in crate::virtio) struct Split<W> {
    size: u16,
    rules: Rules,
    table: Area<W>,
    available: Area<W>,
    used: Area<W>,
    /// The next entry to take, free-running.
    next: u16,
    /// The driver's index as last seen.
    seen: u16,
    /// Where the next used entry goes.
    done: u16,
    /// Our index as last published, and as of the last decision to interrupt.
    published: u16,
    /// The last of a batch that IN_ORDER lets us name alone.
    batched: Option<u16>,
}

impl<W: Window> Split<W> {
    /// The ring at `place`, going on behind entry `base`.
    pub fn open<D: Dma<Window = W>>(
        dma: &D,
        place: &RingAddresses,
        rules: Rules,
        base: u16,
    ) -> Option<Split<W>> {
        let size = place.size;
        Some(Split {
            size,
            rules,
            table: Area::open(dma, place.descriptors, table_bytes(size))?,
            available: Area::open(dma, place.driver, available::bytes(size))?,
            used: Area::open(dma, place.device, used::bytes(size))?,
            next: base,
            seen: base,
            done: base,
            published: base,
            batched: None,
        })
    }

    pub fn base(&self) -> u32 {
        self.next.into()
    }

    #[inline(always)]
    fn slot(&self, index: u16) -> usize {
        usize::from(index & (self.size - 1))
    }

    /// Entries at hand; looks for more where they are fewer than `wanted`.
    #[inline(always)]
    pub fn at_hand(&mut self, wanted: u16) -> Result<u16, Breach> {
        let known = self.seen.wrapping_sub(self.next);
        if known >= wanted {
            return Ok(known);
        }
        // Acquire: entries and descriptors behind the index are seen after it.
        let index = self.available.load16_acquire(available::INDEX);
        let ahead = index.wrapping_sub(self.next);
        if ahead > self.size {
            return Err(Breach { rule: Rule::AvailableIndexJumped, value: index.into() });
        }
        self.seen = index;
        Ok(ahead)
    }

    /// Takes the next available buffer; `false` when there is none.
    #[inline(always)]
    pub fn take<D: Dma>(&mut self, dma: &D, chain: &mut Chain) -> Result<bool, Breach> {
        if self.at_hand(1)? == 0 {
            return Ok(false);
        }
        let entry = available::RING + available::ENTRY * self.slot(self.next);
        let head = self.available.load16(entry);
        if head >= self.size {
            return Err(Breach { rule: Rule::HeadOutOfRange, value: head.into() });
        }
        chain.clear();
        (chain.id, chain.span) = (head, 1);
        self.walk(dma, head, chain)?;
        self.next = self.next.wrapping_add(1);
        Ok(true)
    }

    #[inline(always)]
    fn walk<D: Dma>(&self, dma: &D, head: u16, chain: &mut Chain) -> Result<(), Breach> {
        let mut at = head;
        for _ in 0..self.size {
            let offset = descriptor::BYTES * usize::from(at);
            let entry = Descriptor::of(self.table.load(offset), self.table.load(offset + 8));
            chain.walked += 1;
            if entry.flags & INDIRECT != 0 {
                if !self.rules.indirect {
                    return Err(Breach { rule: Rule::IndirectNotNegotiated, value: entry.flags.into() });
                }
                return chain.push_table(dma, &entry, self.size, true);
            }
            chain.push(&entry);
            if entry.flags & NEXT == 0 {
                return Ok(());
            }
            at = entry.next;
            if at >= self.size {
                return Err(Breach { rule: Rule::NextOutOfRange, value: at.into() });
            }
        }
        Err(Breach { rule: Rule::ChainLoops, value: head.into() })
    }

    /// Gives back the last buffer taken, so that it is taken again.
    pub fn untake(&mut self, _span: u16) {
        self.next = self.next.wrapping_sub(1);
    }

    /// Has used buffer `id` and wrote `len` bytes to it.
    #[inline(always)]
    pub fn put(&mut self, id: u16, _span: u16, len: u32) {
        let entry = used::RING + used::ENTRY * self.slot(self.done);
        self.used.store32(entry + used::ENTRY_ID, id.into());
        self.used.store32(entry + used::ENTRY_LEN, len);
        self.done = self.done.wrapping_add(1);
    }

    /// Has used buffer `id` up, of a burst that ends with [`Split::publish`].
    /// Where the driver expects buffers in order, only the last is named (2.7.9).
    #[inline(always)]
    pub fn put_read(&mut self, id: u16, span: u16) {
        if self.rules.in_order {
            self.batched = Some(id);
            self.done = self.done.wrapping_add(1);
        } else {
            self.put(id, span, 0);
        }
    }

    /// Shows the driver what was used; whether it wants to be interrupted.
    #[inline(always)]
    pub fn publish(&mut self) -> bool {
        let (old, new) = (self.published, self.done);
        if old == new {
            return false;
        }
        if let Some(id) = self.batched.take() {
            // The entry of the batch's first buffer stands for all (2.7.9).
            let entry = used::RING + used::ENTRY * self.slot(old);
            self.used.store32(entry + used::ENTRY_ID, id.into());
            self.used.store32(entry + used::ENTRY_LEN, 0);
        }
        // Release: buffers and entries are seen before the index.
        self.used.store16_release(used::INDEX, new);
        self.published = new;
        // The index must be out before the driver's event index or flag is read, or both sides
        // could wait for each other (2.7.7.2).
        fence(Ordering::SeqCst);
        if self.rules.event_index {
            needs_event(self.available.load16(available::used_event(self.size)), new, old)
        } else {
            self.available.load16(available::FLAGS) & available::NO_INTERRUPT == 0
        }
    }

    /// Asks for a notification with the next buffer, or for none.
    pub fn want_kick(&self, wanted: bool) {
        if self.rules.event_index {
            // Without: where the driver's index comes by last of all.
            let event = if wanted { self.next } else { self.next.wrapping_sub(1) };
            self.used.store16_release(used::avail_event(self.size), event);
        }
        let flags = if wanted || self.rules.event_index { 0 } else { used::NO_NOTIFY };
        self.used.store16_release(used::FLAGS, flags);
        // The event index and the flag must be out before the ring is looked at once more (2.7.10.2).
        fence(Ordering::SeqCst);
    }
}
