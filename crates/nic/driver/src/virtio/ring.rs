//! What split and packed virtqueues have in common: each buffer takes one slot,
//! named by an id that the device gives back.
//!
//! The ids of free slots stand in a queue of their own. As long as the device
//! returns buffers in order, as all known ones do, that queue is the identity
//! and nothing is written to it: descriptor `n` always is slot `n`.

use memory::{Dma, Region};

use super::fault::VirtioFault;
use crate::Result;

/// A range of memory that is (part of) a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub address: u64,
    pub len: u32,
    /// The device writes it; else it reads.
    pub write: bool,
}

/// A buffer that the device has finished with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Used {
    pub id: u16,
    /// Bytes the device wrote; [`Used::FULL`] where it said so without a number.
    pub len: u32,
}

impl Used {
    /// The device wrote the whole buffer (2.7.9, 2.8.9: skipped in a batch).
    pub(super) const FULL: u32 = u32::MAX;
}

/// What a device did that it must not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RingViolation {
    Index { index: u16, ahead: u16, outstanding: u32 },
    Id(u32),
    Lap { place: u16, flags: u16 },
}

impl RingViolation {
    pub(super) fn fault(self, device: &str, queue: u16) -> VirtioFault {
        let device = device.to_owned();
        match self {
            RingViolation::Index { index, ahead, outstanding } => {
                VirtioFault::UsedIndex { device, queue, index, ahead, outstanding }
            }
            RingViolation::Id(id) => VirtioFault::BufferId { device, queue, id },
            RingViolation::Lap { place, flags } => VirtioFault::Lap { device, queue, place, flags },
        }
    }
}

/// How a ring is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Entries, a power of two.
    pub size: u16,
    /// The most parts of a buffer.
    pub parts: u16,
    /// Notifications are suppressed by an index.
    pub event_idx: bool,
    /// The device uses buffers in order.
    pub in_order: bool,
    /// A buffer of several parts stands in a table of its own.
    pub indirect: bool,
}

/// The driver's side of a virtqueue.
pub(super) trait Virtqueue: Send + Sized {
    fn new(dma: &Dma, shape: Shape) -> Result<Self>;

    /// Addresses of descriptor, driver and device area.
    fn areas(&self) -> [u64; 3];

    /// The memory that the device reaches, to keep it when the ring goes first.
    fn memory(&self) -> Vec<Region>;

    fn ids(&self) -> &Ids;

    /// Puts a buffer of one part into the next slot. The caller has seen that
    /// there is one ([`Ids::room`]).
    fn put(&mut self, part: Part);

    /// Likewise a buffer of several parts, at most [`Shape::parts`].
    fn put_parts(&mut self, parts: &[Part]);

    /// Lets the device see what was put since the last time. Whether it wants to
    /// be notified.
    fn publish(&mut self) -> bool;

    /// Reads how far the device is, for [`pop`](Ring::pop).
    fn refresh_used(&mut self);

    /// The next buffer that the device has finished with.
    fn pop(&mut self) -> Option<Used>;

    /// The first thing the device did wrong; nothing is popped afterwards.
    fn violation(&self) -> Option<RingViolation>;

    /// Records a violation that only the ring's user can see.
    fn report_fault(&mut self, violation: RingViolation);

    /// Asks for an interrupt with the next used buffer.
    fn arm(&mut self);

    /// Asks for none.
    fn disarm(&mut self);
}

/// Which slots are free, and in which order they were given to the device.
#[derive(Debug)]
pub(super) struct Ids {
    /// The ids of `put..put + room`, at their places modulo the size.
    queue: Box<[u16]>,
    mask: u32,
    /// Buffers given to the device, free-running.
    pub(super) put: u32,
    /// Buffers taken back, free-running.
    pub(super) done: u32,
    /// The device took order back into its own hands: the queue is no longer the
    /// identity.
    pub(super) mixed: bool,
    in_order: bool,
    /// With `in_order`: the batch that one used entry stands for ends here, and
    /// the length of its last buffer.
    batch_end: u32,
    batch_len: u32,
}

impl Ids {
    pub(super) fn new(count: u32, in_order: bool) -> Ids {
        assert!(count.is_power_of_two() && count <= 32768, "sizes are checked when the device gives them");
        Ids {
            queue: (0..count as u16).collect(),
            mask: count - 1,
            put: 0,
            done: 0,
            mixed: false,
            in_order,
            batch_end: 0,
            batch_len: 0,
        }
    }

    /// How many slots there are.
    pub(super) fn size(&self) -> u32 {
        self.mask + 1
    }

    /// Buffers that the device has.
    #[inline(always)]
    pub(super) fn outstanding(&self) -> u32 {
        self.put.wrapping_sub(self.done)
    }

    /// How many more slots are free.
    #[inline(always)]
    pub(super) fn room(&self) -> u32 {
        self.size() - self.outstanding()
    }

    /// The id that the next buffer gets.
    #[inline(always)]
    pub(super) fn next(&self) -> u16 {
        self.queue[(self.put & self.mask) as usize]
    }

    /// Whether buffers of a batch are left, for which the device writes no entry.
    #[inline(always)]
    pub(super) fn in_batch(&self) -> bool {
        self.in_order && self.done != self.batch_end
    }

    /// The next buffer of the batch.
    #[inline(always)]
    pub(super) fn next_of_batch(&mut self) -> Used {
        let id = self.queue[(self.done & self.mask) as usize];
        self.done = self.done.wrapping_add(1);
        let last = self.done == self.batch_end;
        Used { id, len: if last { self.batch_len } else { Used::FULL } }
    }

    /// Takes a used entry in. `None` when the device cannot have meant it.
    #[inline(always)]
    pub(super) fn finish(&mut self, id: u32, len: u32) -> Option<Used> {
        let place = (self.done & self.mask) as usize;
        if u32::from(self.queue[place]) == id {
            self.done = self.done.wrapping_add(1);
            self.batch_end = self.done;
            return Some(Used { id: id as u16, len });
        }
        self.finish_other(id, len)
    }

    #[cold]
    fn finish_other(&mut self, id: u32, len: u32) -> Option<Used> {
        if id > self.mask {
            return None;
        }
        if self.in_order {
            // In order the queue is the identity, so the id tells how many
            // buffers the entry stands for.
            let ahead = id.wrapping_sub(self.done) & self.mask;
            if ahead >= self.outstanding() {
                return None;
            }
            self.batch_end = self.done.wrapping_add(ahead + 1);
            self.batch_len = len;
            return Some(self.next_of_batch());
        }
        self.mixed = true;
        self.queue[(self.done & self.mask) as usize] = id as u16;
        self.done = self.done.wrapping_add(1);
        Some(Used { id: id as u16, len })
    }
}
