//! Packed virtqueues (virtio 1.3, 2.8).
//!
//! One ring that both sides write. Each buffer takes one descriptor of it, so
//! that the free-running counters tell place and wrap counter: the place is the
//! lower bits, the wrap counter the bit above them, inverted. (Buffers of several
//! parts are indirect; a device without INDIRECT_DESC is given split rings.)
//!
//! Memory order: a descriptor's length, id and flags are one store of 64 bits behind
//! [`order::before_doorbell`], so that whoever sees the flags sees all of it (2.8.21);
//! behind the look at the device's flags stands [`order::after_ready`]. Before the look
//! at the device's event suppression comes [`order::before_look`], as in split rings
//! (2.8.21.3), once for a batch.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use bus::order;
use memory::{Dma, Region};
use regs::virtio::packed::{self, descriptor, event};
use regs::virtio::split::needs_event;

use super::ring::{Ids, Part, RingViolation, Shape, Used, Virtqueue};
use super::tables::Tables;
use crate::Result;
use crate::words::Words;

/// Event suppression areas stand on cache lines of their own.
const LINE: usize = 64;

/// The flags that say whose a descriptor is, at their place in its second word.
const OWNER: u64 = ((descriptor::AVAIL | descriptor::USED) as u64) << 48;

/// The driver's side of a packed virtqueue.
pub(super) struct Packed {
    ring: Words<[AtomicU64; 2]>,
    /// When the driver wants an interrupt: offset and wrap counter, flags.
    driver_event: Words<AtomicU32>,
    /// When the device wants a notification.
    device_event: Words<AtomicU32>,
    ids: Ids,
    published: u32,
    /// Which bit of a counter is the wrap counter.
    wrap_shift: u32,
    tables: Option<Tables>,
    event_idx: bool,
    violation: Option<RingViolation>,
    offsets: [usize; 3],
    region: Region,
}

impl Packed {
    /// Whether the wrap counter is one at a count: it starts so (2.8.1).
    #[inline(always)]
    fn wrap(&self, count: u32) -> bool {
        count >> self.wrap_shift & 1 == 0
    }

    /// Place and wrap counter, as event suppression has them.
    fn off_wrap(&self, count: u32) -> u16 {
        let place = count & (self.ids.size() - 1);
        place as u16 | if self.wrap(count) { event::WRAP } else { 0 }
    }

    #[inline(always)]
    fn write(&mut self, id: u16, part: &Part, flags: u16) {
        let count = self.ids.put;
        let owner = if self.wrap(count) { descriptor::AVAIL } else { descriptor::USED };
        let write = if part.write { descriptor::WRITE } else { 0 };
        let flags = u64::from(flags | owner | write) << 48;
        let [address, rest] = self.ring.at(count);
        address.store(part.address, Relaxed);
        order::before_doorbell();
        rest.store(u64::from(part.len) | u64::from(id) << 32 | flags, Release);
        self.ids.put = count.wrapping_add(1);
    }

    /// Whether the device asked for a notification between two counts (2.8.10).
    fn wanted(&self, old: u32, new: u32) -> bool {
        let word = self.device_event.at(0).load(Relaxed);
        let (off_wrap, flags) = (word as u16, (word >> 16) as u16 & event::FLAGS_MASK);
        if flags != event::DESC || !self.event_idx {
            return flags != event::DISABLE;
        }
        // Both counts in terms of the lap that `new` is in.
        let size = self.ids.size();
        let lap = new & !(size - 1);
        let mut at = (off_wrap & !event::WRAP).into();
        if (off_wrap & event::WRAP != 0) != self.wrap(new) {
            at = u32::wrapping_sub(at, size);
        }
        needs_event(at as u16, new.wrapping_sub(lap) as u16, old.wrapping_sub(lap) as u16)
    }

    /// A descriptor that is not used is as the driver wrote it in this lap: its
    /// flags change at once, whoever writes them.
    #[inline(always)]
    fn check_lap(&mut self, word: u64) -> Option<Used> {
        let flags = (word >> 48) as u16;
        let ours = if self.wrap(self.ids.done) { descriptor::AVAIL } else { descriptor::USED };
        if word & OWNER != u64::from(ours) << 48 {
            let place = (self.ids.done & (self.ids.size() - 1)) as u16;
            self.report_fault(RingViolation::Lap { place, flags });
        }
        None
    }

    fn ask(&self, off_wrap: u16, flags: u16) {
        self.driver_event.at(0).store(u32::from(off_wrap) | u32::from(flags) << 16, Relaxed);
    }
}

impl Virtqueue for Packed {
    fn new(dma: &Dma, shape: Shape) -> Result<Packed> {
        let size = shape.size;
        let at_driver = packed::ring_bytes(size).next_multiple_of(LINE);
        let at_device = at_driver + LINE;
        let region = dma.alloc(at_device + LINE)?;
        let tables = shape.indirect.then(|| Tables::new(dma, size.into(), shape.parts)).transpose()?;
        let mut ring = Packed {
            ring: Words::new(&region, 0, size.into()),
            driver_event: Words::new(&region, at_driver, 1),
            device_event: Words::new(&region, at_device, 1),
            ids: Ids::new(size.into(), shape.in_order),
            published: 0,
            wrap_shift: u32::from(size).ilog2(),
            tables,
            event_idx: shape.event_idx,
            violation: None,
            offsets: [0, at_driver, at_device],
            region,
        };
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
        self.write(self.ids.next(), &part, 0);
    }

    fn put_parts(&mut self, parts: &[Part]) {
        let id = self.ids.next();
        match (&self.tables, parts) {
            (_, [part]) => self.write(id, part, 0),
            (Some(tables), parts) => {
                let part = tables.fill(id, parts, false);
                self.write(id, &part, descriptor::INDIRECT);
            }
            (None, _) => debug_assert!(false, "packed rings have one part or tables"),
        }
    }

    #[inline(always)]
    fn publish(&mut self) -> bool {
        let old = std::mem::replace(&mut self.published, self.ids.put);
        if old == self.ids.put {
            return false;
        }
        order::before_look();
        self.wanted(old, self.ids.put)
    }

    #[inline(always)]
    fn refresh_used(&mut self) {}

    #[inline(always)]
    fn pop(&mut self) -> Option<Used> {
        let count = self.ids.done;
        // What lies beyond was not given to the device; flags there are no news.
        if count == self.ids.put || self.violation.is_some() {
            return None;
        }
        if self.ids.in_batch() {
            return Some(self.ids.next_of_batch());
        }
        let word = self.ring.at(count)[1].load(Relaxed);
        if word & OWNER != if self.wrap(count) { OWNER } else { 0 } {
            return self.check_lap(word);
        }
        order::after_ready();
        let id = (word >> 32) as u16;
        let used = self.ids.finish(id.into(), word as u32);
        if used.is_none() {
            self.report_fault(RingViolation::Id(id.into()));
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
        match self.event_idx {
            true => self.ask(self.off_wrap(self.ids.done), event::DESC),
            false => self.ask(0, event::ENABLE),
        }
        // The caller's next look must not come before this (2.8.21.3.1).
        order::before_look();
    }

    fn disarm(&mut self) {
        self.ask(0, event::DISABLE);
    }
}
