//! A batch: an array of packets with a limit, reused from call to call.
//!
//! Batches live on their owner's stack or in its state and are never allocated
//! on the way of a packet.

use std::mem::{self, MaybeUninit};
use std::ops::{Deref, DerefMut};

use crate::packet::Packet;

/// Up to 256 packets.
pub struct Batch {
    pub(crate) packets: [MaybeUninit<Packet>; Batch::MAX],
    /// Packets are `len` from `start` on.
    pub(crate) start: usize,
    pub(crate) len: usize,
    limit: usize,
}

impl Batch {
    /// The most packets a batch can hold.
    pub const MAX: usize = 256;

    /// An empty batch for up to `limit` packets, at most [`Batch::MAX`]. One for none
    /// is what a receive queue is given that shall only fill its ring.
    pub fn with_limit(limit: usize) -> Batch {
        let packets = [const { MaybeUninit::uninit() }; Batch::MAX];
        Batch { packets, start: 0, len: 0, limit: limit.min(Batch::MAX) }
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
        self.tidy();
        self.packets[self.len].write(packet);
        self.len += 1;
        None
    }

    /// Appends what `give` gives, until it gives nothing or the batch is full.
    #[inline(always)]
    pub fn fill(&mut self, mut give: impl FnMut() -> Option<Packet>) {
        self.tidy();
        let mut len = self.len;
        for place in &mut self.packets[len..self.limit] {
            let Some(packet) = give() else { break };
            place.write(packet);
            len += 1;
        }
        self.len = len;
    }

    /// Gives up to `count` packets from the front to `take`, for as long as they
    /// are what is asked for; how many.
    #[inline(always)]
    pub fn give(
        &mut self,
        count: usize,
        is: impl Fn(&Packet) -> bool,
        mut take: impl FnMut(Packet),
    ) -> usize {
        let (start, len) = (self.start, mem::replace(&mut self.len, 0)); // a panic of `take` leaks
        let mut given = 0;
        for packet in &self.packets[start..start + len.min(count)] {
            // SAFETY: one of the `len` packets, and not taken yet.
            if !is(unsafe { packet.assume_init_ref() }) {
                break;
            }
            // SAFETY: as above, and each is read once.
            take(unsafe { packet.assume_init_read() });
            given += 1;
        }
        (self.start, self.len) = (start + given, len - given);
        given
    }

    /// Takes the first packet.
    #[inline(always)]
    pub fn pop_front(&mut self) -> Option<Packet> {
        let mut front = None;
        self.give(1, |_| true, |packet| front = Some(packet));
        front
    }

    /// Takes packets from the front, in order; what is not taken stays.
    pub fn drain(&mut self) -> impl Iterator<Item = Packet> {
        std::iter::from_fn(|| self.pop_front())
    }

    /// Moves the packets to the front of the array, to append behind them.
    #[inline(always)]
    fn tidy(&mut self) {
        if self.start > 0 {
            self.packets[..self.start + self.len].rotate_left(self.start);
            self.start = 0;
        }
    }
}

impl Deref for Batch {
    type Target = [Packet];

    #[inline(always)]
    fn deref(&self) -> &[Packet] {
        // SAFETY: `len` from `start` on are packets, and within the array.
        unsafe { std::slice::from_raw_parts(self.packets.as_ptr().add(self.start).cast(), self.len) }
    }
}

impl DerefMut for Batch {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Packet] {
        // SAFETY: `len` from `start` on are packets, and within the array.
        unsafe { std::slice::from_raw_parts_mut(self.packets.as_mut_ptr().add(self.start).cast(), self.len) }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.drain().for_each(drop);
    }
}
