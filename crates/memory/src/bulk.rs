//! Conveniences of pools and batches together, away from the queues' own path.

use std::fmt;

use crate::batch::Batch;
use crate::packet::Packet;
use crate::pool::Pool;

impl Pool {
    /// How many buffers the pool has in all.
    pub fn capacity(&self) -> usize {
        self.stack.len()
    }

    /// A buffer, holding an empty packet; `None` when all are out.
    #[inline]
    pub fn alloc(&mut self) -> Option<Packet> {
        let mut packet = self.alloc_for_rx()?;
        packet.set_received(0, 0);
        Some(packet)
    }

    /// Frees a packet. One of another pool goes the way of a drop.
    #[inline]
    pub fn free(&mut self, mut packet: Packet) {
        while let Some(next) = packet.split_next() {
            self.free_segment(std::mem::replace(&mut packet, next));
        }
        self.free_segment(packet);
    }

    /// How many buffers can be allocated now.
    pub fn available(&mut self) -> usize {
        self.collect();
        self.free
    }

    /// Appends up to `count` empty packets to `batch`; how many.
    pub fn alloc_batch(&mut self, batch: &mut Batch, count: usize) -> usize {
        let count = self.reserve(count.min(batch.room()));
        for _ in 0..count {
            if let Some(packet) = self.alloc() {
                batch.push(packet);
            }
        }
        count
    }

    /// Frees all packets of a batch.
    pub fn free_batch(&mut self, batch: &mut Batch) {
        for packet in batch.drain() {
            self.free(packet);
        }
    }
}

impl Batch {
    /// How many packets fit in all.
    pub fn limit(&self) -> usize {
        self.room() + self.len()
    }

    /// Drops all packets: their pools get them back by the slow way. Prefer
    /// [`Pool::free_batch`](crate::Pool::free_batch).
    pub fn clear(&mut self) {
        self.drain().for_each(drop);
    }

    /// Brings all packets' first bytes towards the cache.
    #[inline(always)]
    pub fn prefetch(&self) {
        self.iter().for_each(Packet::prefetch);
    }
}

impl Default for Batch {
    /// A batch of 32, where most of the gain of batching is had.
    fn default() -> Batch {
        Batch::with_limit(32)
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
