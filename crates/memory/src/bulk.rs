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
        let mut packet = self.fresh(1).next()?;
        packet.set_received(0, 0);
        Some(packet)
    }

    /// Frees a packet. One of another pool goes the way of a drop.
    #[inline]
    pub fn free(&mut self, packet: Packet) {
        let mut rest = Some(packet);
        self.free_segments(std::iter::from_fn(|| {
            let mut segment = rest.take()?;
            rest = segment.split_next();
            Some(segment)
        }));
    }

    /// Frees a packet of one segment without looking at it.
    #[inline(always)]
    pub fn free_segment(&mut self, packet: Packet) {
        self.free_segments(std::iter::once(packet));
    }

    /// How many buffers can be allocated now.
    pub fn available(&mut self) -> usize {
        self.collect();
        self.free
    }

    /// Appends up to `count` empty packets to `batch`; how many.
    pub fn alloc_batch(&mut self, batch: &mut Batch, count: usize) -> usize {
        let before = batch.len();
        let mut fresh = self.fresh(count.min(batch.room()));
        batch.fill(|| {
            let mut packet = fresh.next()?;
            packet.set_received(0, 0);
            Some(packet)
        });
        batch.len() - before
    }

    /// Frees all packets of a batch.
    pub fn free_batch(&mut self, batch: &mut Batch) {
        let mut rest: Option<Packet> = None;
        self.free_segments(std::iter::from_fn(|| {
            let mut segment = rest.take().or_else(|| batch.pop_front())?;
            rest = segment.split_next();
            Some(segment)
        }));
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
