//! Conveniences of pools and batches together, away from the queues' own path.

use std::fmt;
use std::mem;

use crate::batch::Batch;
use crate::packet::Packet;
use crate::pool::Pool;

impl Pool {
    /// How many buffers the pool has in all.
    pub fn capacity(&self) -> usize {
        self.made
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

    /// Whether fewer buffers are at hand than these, without those that others gave back.
    #[inline(always)]
    pub fn is_below(&self, count: usize) -> bool {
        self.free < count
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
        let mut free = self.free;
        batch.give(
            Batch::MAX,
            |_| true,
            |packet| {
                let mut rest = Some(packet);
                while let Some(mut segment) = rest {
                    rest = segment.split_next();
                    free = self.put(free, segment);
                }
            },
        );
        self.free = free;
    }
}

impl Batch {
    /// How many packets fit in all.
    pub fn limit(&self) -> usize {
        self.room() + self.len()
    }

    /// Sorts packets out: those for which `sort` says where to are handed to
    /// `take`, in order, the others stay, in order. Both closures are lent `state`.
    #[inline(always)]
    pub fn split<S, T>(
        &mut self,
        state: &mut S,
        mut sort: impl FnMut(&mut S, usize, &mut Packet) -> Option<T>,
        mut take: impl FnMut(&mut S, T, Packet),
    ) {
        let (start, len) = (self.start, mem::replace(&mut self.len, 0)); // a panic leaks
        let mut kept = 0;
        for place in 0..len {
            // SAFETY: one of the `len` packets that were there, and not moved yet.
            match sort(state, place, unsafe { self.packets[start + place].assume_init_mut() }) {
                None => {
                    if kept != place {
                        self.packets.swap(start + kept, start + place);
                    }
                    kept += 1;
                }
                // SAFETY: as above; its place is overwritten by the swap (which
                // moves bits, whatever they are) or lies behind the end.
                Some(to) => take(state, to, unsafe { self.packets[start + place].assume_init_read() }),
            }
        }
        self.len = kept;
    }

    /// Moves up to `count` packets from the front of `other` to the end of this
    /// one, as many as fit; how many.
    pub fn take_from(&mut self, other: &mut Batch, count: usize) -> usize {
        let before = self.len();
        let mut left = count;
        self.fill(|| {
            left = left.checked_sub(1)?;
            other.pop_front()
        });
        self.len() - before
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
