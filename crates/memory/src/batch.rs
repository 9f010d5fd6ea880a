//! A batch: an array of packets with a limit, reused from call to call.
//!
//! Batches live on their owner's stack or in its state and are never allocated
//! on the way of a packet.

use std::mem::{self, MaybeUninit};
use std::ops::{Deref, DerefMut};

use crate::packet::Packet;

/// Up to 256 packets.
pub struct Batch {
    packets: [MaybeUninit<Packet>; Batch::MAX],
    /// The first `len` are packets.
    len: usize,
    limit: usize,
}

impl Batch {
    /// The most packets a batch can hold.
    pub const MAX: usize = 256;

    /// An empty batch for up to `limit` packets, at least 1 and at most
    /// [`Batch::MAX`].
    pub fn with_limit(limit: usize) -> Batch {
        let packets = [const { MaybeUninit::uninit() }; Batch::MAX];
        Batch { packets, len: 0, limit: limit.clamp(1, Batch::MAX) }
    }

    /// How many more packets fit.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.limit - self.len
    }

    /// Appends a packet; gives it back when the batch is full.
    #[inline(always)]
    pub fn push(&mut self, packet: Packet) -> Option<Packet> {
        if self.len >= self.limit {
            return Some(packet);
        }
        self.packets[self.len].write(packet);
        self.len += 1;
        None
    }

    /// Takes all packets, in order.
    pub fn drain(&mut self) -> Drain<'_> {
        self.drain_front(self.len)
    }

    /// Takes the first `count` packets (fewer if there are fewer), in order. The
    /// rest move to the front when the iterator is dropped.
    #[inline(always)]
    pub fn drain_front(&mut self, count: usize) -> Drain<'_> {
        let len = mem::replace(&mut self.len, 0);
        // The batch counts as empty meanwhile: if the iterator is forgotten,
        // packets leak, and nothing is used twice.
        Drain { next: 0, end: count.min(len), len, batch: self }
    }
}

impl Deref for Batch {
    type Target = [Packet];

    #[inline(always)]
    fn deref(&self) -> &[Packet] {
        // SAFETY: the first `len` are packets, and len <= MAX.
        unsafe { std::slice::from_raw_parts(self.packets.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Batch {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Packet] {
        // SAFETY: the first `len` are packets, and len <= MAX.
        unsafe { std::slice::from_raw_parts_mut(self.packets.as_mut_ptr().cast(), self.len) }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.drain().for_each(drop);
    }
}

/// Packets on their way out of a batch.
pub struct Drain<'a> {
    batch: &'a mut Batch,
    next: usize,
    end: usize,
    len: usize,
}

impl Drain<'_> {
    /// The packet that comes next, still in the batch.
    #[inline(always)]
    pub fn peek(&self) -> Option<&Packet> {
        if self.next == self.end {
            return None;
        }
        // SAFETY: next < end <= the batch's old length, and it was not taken yet.
        Some(unsafe { self.batch.packets.get_unchecked(self.next).assume_init_ref() })
    }
}

impl Iterator for Drain<'_> {
    type Item = Packet;

    #[inline(always)]
    fn next(&mut self) -> Option<Packet> {
        if self.next == self.end {
            return None;
        }
        let i = self.next;
        self.next += 1;
        // SAFETY: i < end <= the batch's old length, and each is read once.
        Some(unsafe { self.batch.packets.get_unchecked(i).assume_init_read() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.next, Some(self.end - self.next))
    }
}

impl ExactSizeIterator for Drain<'_> {}

impl Drop for Drain<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // What was not taken stays, in order.
        let rest = self.len - self.next;
        if rest > 0 && self.next > 0 {
            self.batch.packets[..self.len].rotate_left(self.next);
        }
        self.batch.len = rest;
    }
}
