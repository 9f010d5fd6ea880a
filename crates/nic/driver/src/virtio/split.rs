//! Split virtqueues (virtio 1.3, 2.7).
//!
//! Slot `n` owns descriptor `n`, or a group of them where the device knows no
//! indirect descriptors but buffers have several parts. The available ring holds
//! the slots in order and is written once, when it is made, as long as the device
//! returns them in order: for each buffer only its descriptor is written, and for
//! each batch one index.
//!
//! Memory order: descriptors before the index that publishes them (2.7.13.2,
//! 2.7.13.3: [`order::before_doorbell`] and a release store); the index before the
//! look whether the device wants a notification (2.7.13.4), the one place where a
//! store must be seen before a later load, hence [`order::before_look`], once for a
//! batch; the used index before the entries below it (2.7.14: [`order::after_ready`]).

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use bus::order;
use memory::{Dma, Region};
use regs::virtio::split::{self, available, descriptor, used};

use super::ring::{Ids, Part, RingViolation, Shape, Used, Virtqueue};
use super::tables::Tables;
use crate::Result;
use crate::words::Words;

/// The driver's side of a split virtqueue.
pub(super) struct Split {
    table: Words<[AtomicU64; 2]>,
    available: Words<AtomicU16>,
    available_flags: Words<AtomicU16>,
    available_index: Words<AtomicU16>,
    /// Behind which entry the driver wants an interrupt.
    used_event: Words<AtomicU16>,
    used: Words<[AtomicU32; 2]>,
    used_flags: Words<AtomicU16>,
    used_index: Words<AtomicU16>,
    /// Behind which entry the device wants a notification.
    available_event: Words<AtomicU16>,
    ids: Ids,
    /// What `available_index` says.
    published: u32,
    /// Entries of the used ring that may be read.
    seen: u32,
    /// A slot owns 2^shift descriptors.
    shift: u32,
    tables: Option<Tables>,
    event_idx: bool,
    violation: Option<RingViolation>,
    offsets: [usize; 3],
    region: Region,
}

impl Split {
    /// Descriptors that a slot owns, as a power of two.
    fn shift(shape: &Shape) -> u32 {
        if shape.indirect { 0 } else { u32::from(shape.parts).next_power_of_two().ilog2() }
    }

    /// Writes the descriptors of a buffer that owns several.
    fn put_chain(&mut self, slot: u32, parts: &[Part]) {
        for (n, part) in parts.iter().enumerate() {
            let index = (slot << self.shift) + n as u32;
            let last = n + 1 == parts.len();
            let next = if last { 0 } else { descriptor::NEXT };
            self.write(index, part, next, index as u16 + u16::from(!last));
        }
        self.announce(slot);
    }

    #[inline(always)]
    fn write(&self, index: u32, part: &Part, flags: u16, next: u16) {
        let write = if part.write { descriptor::WRITE } else { 0 };
        let [address, rest] = self.table.at(index);
        address.store(part.address, Relaxed);
        let flags = u64::from(flags | write) << 32 | u64::from(next) << 48;
        rest.store(u64::from(part.len) | flags, Relaxed);
    }

    /// Puts a slot into the available ring, unless it stands there already.
    #[inline(always)]
    fn announce(&mut self, slot: u32) {
        if self.ids.mixed {
            self.available.at(self.ids.put).store((slot << self.shift) as u16, Relaxed);
        }
        self.ids.put = self.ids.put.wrapping_add(1);
    }
}

impl Virtqueue for Split {
    fn new(dma: &Dma, shape: Shape) -> Result<Split> {
        let size = shape.size;
        let shift = Split::shift(&shape);
        // Laid out as the legacy interface demands (2.7.2); modern devices take
        // any layout.
        let region = dma.alloc(split::legacy_bytes(size))?;
        let [at_available, at_used] = [split::legacy_available(size), split::legacy_used(size)];
        let word = |offset| Words::new(&region, offset, 1);
        let slots = u32::from(size) >> shift;
        let tables = shape.indirect.then(|| Tables::new(dma, slots, shape.parts)).transpose()?;
        let ring = Split {
            table: Words::new(&region, 0, size.into()),
            available: Words::new(&region, at_available + available::RING, size.into()),
            available_flags: word(at_available + available::FLAGS),
            available_index: word(at_available + available::INDEX),
            used_event: word(at_available + available::used_event(size)),
            used: Words::new(&region, at_used + used::RING, size.into()),
            used_flags: word(at_used + used::FLAGS),
            used_index: word(at_used + used::INDEX),
            available_event: word(at_used + used::avail_event(size)),
            ids: Ids::new(slots, shape.in_order),
            published: 0,
            seen: 0,
            shift,
            tables,
            event_idx: shape.event_idx,
            violation: None,
            offsets: [0, at_available, at_used],
            region,
        };
        for n in 0..u32::from(size) {
            let slot = n & (slots - 1);
            ring.available.at(n).store((slot << shift) as u16, Relaxed);
        }
        let mut ring = ring;
        ring.disarm();
        Ok(ring)
    }

    fn areas(&self) -> [u64; 3] {
        self.offsets.map(|offset| self.region.iova(offset))
    }

    fn memory(&self) -> Vec<Region> {
        let tables = self.tables.iter().map(|tables| tables.region.clone());
        tables.chain([self.region.clone()]).collect()
    }

    #[inline(always)]
    fn ids(&self) -> &Ids {
        &self.ids
    }

    #[inline(always)]
    fn put(&mut self, part: Part) {
        let slot = u32::from(self.ids.next());
        self.write(slot << self.shift, &part, 0, 0);
        self.announce(slot);
    }

    fn put_parts(&mut self, parts: &[Part]) {
        let slot = self.ids.next();
        match &self.tables {
            Some(tables) if parts.len() > 1 => {
                let part = tables.fill(slot, parts, true);
                self.write(slot.into(), &part, descriptor::INDIRECT, 0);
                self.announce(slot.into());
            }
            _ => self.put_chain(slot.into(), parts),
        }
    }

    #[inline(always)]
    fn publish(&mut self) -> bool {
        let (old, new) = (self.published as u16, self.ids.put as u16);
        if old == new {
            return false;
        }
        self.published = self.ids.put;
        order::before_doorbell();
        self.available_index.at(0).store(new, Release);
        order::before_look();
        if self.event_idx {
            return split::needs_event(self.available_event.at(0).load(Relaxed), new, old);
        }
        self.used_flags.at(0).load(Relaxed) & used::NO_NOTIFY == 0
    }

    #[inline(always)]
    fn refresh_used(&mut self) {
        let index = self.used_index.at(0).load(Relaxed);
        order::after_ready();
        // A batch of which one entry was read is taken already.
        let ahead = index.wrapping_sub(self.ids.done as u16);
        if u32::from(ahead) > self.ids.outstanding() {
            let outstanding = self.ids.outstanding();
            return self.report_fault(RingViolation::Index { index, ahead, outstanding });
        }
        self.seen = self.ids.done.wrapping_add(ahead.into());
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<Used> {
        if self.ids.done == self.seen || self.violation.is_some() {
            return None;
        }
        if self.ids.in_batch() {
            return Some(self.ids.next_of_batch());
        }
        let [id, len] = self.used.at(self.ids.done);
        let (id, len) = (id.load(Relaxed), len.load(Relaxed));
        let whole = id & ((1 << self.shift) - 1) == 0;
        let used = if whole { self.ids.finish(id >> self.shift, len) } else { None };
        if used.is_none() {
            self.report_fault(RingViolation::Id(id));
        }
        used
    }

    #[inline(always)]
    fn violation(&self) -> Option<RingViolation> {
        self.violation
    }

    #[cold]
    fn report_fault(&mut self, violation: RingViolation) {
        self.violation.get_or_insert(violation);
    }

    fn arm(&mut self) {
        if self.event_idx {
            self.used_event.at(0).store(self.ids.done as u16, Relaxed);
        } else {
            self.available_flags.at(0).store(0, Relaxed);
        }
        // The caller polls once more: that load must not come before this store,
        // or both sides might miss each other (2.7.7.1).
        order::before_look();
    }

    fn disarm(&mut self) {
        if self.event_idx {
            // The flag must be zero then (2.7.7.1); an index that was just passed
            // comes up again after 65,536 buffers: one idle interrupt.
            self.used_event.at(0).store((self.ids.done as u16).wrapping_sub(1), Relaxed);
        } else {
            self.available_flags.at(0).store(available::NO_INTERRUPT, Relaxed);
        }
    }
}
