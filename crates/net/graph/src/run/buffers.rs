//! A lane's packet buffers: pools that grow with need.

use memory::{Batch, Dma, Packet, Pool};

/// Buffers a lane begins with.
const FIRST: usize = 2048;

/// Pools of one lane. The first is the one that receive queues refill from; further
/// ones come when elements hold many packets, up to a limit.
#[derive(Debug)]
pub struct Buffers {
    pools: Vec<Pool>,
    dma: Dma,
    /// Buffers there may be in all.
    limit: usize,
    /// Buffers that were asked for in advance.
    reserved: usize,
    /// Packets that were wanted and not had.
    pub(crate) missing: u64,
}

impl Buffers {
    /// Up to `limit` buffers in memory of `dma`.
    ///
    /// # Errors
    /// When memory cannot be had.
    pub fn new(dma: &Dma, limit: usize) -> memory::Result<Buffers> {
        let first = Pool::new(dma, FIRST.min(limit.max(1)))?;
        Ok(Buffers { pools: vec![first], dma: dma.clone(), limit, reserved: 0, missing: 0 })
    }

    /// The pool that receive and transmit queues use.
    #[inline(always)]
    pub fn main(&mut self) -> &mut Pool {
        &mut self.pools[0]
    }

    /// Asks for so many buffers in the main pool, beside those that others ask for:
    /// receive rings keep theirs.
    pub fn reserve(&mut self, count: usize) {
        self.reserved = self.reserved.saturating_add(count);
    }

    /// Makes the main pool as large as all asked for together, before anything is in
    /// use.
    ///
    /// # Errors
    /// When memory cannot be had.
    pub fn provide(&mut self) -> memory::Result<()> {
        if self.main().capacity() < self.reserved {
            self.pools.insert(0, Pool::new(&self.dma, self.reserved)?);
        }
        Ok(())
    }

    /// A buffer with an empty packet and nothing known of it.
    #[inline]
    pub fn alloc(&mut self) -> Option<Packet> {
        let found = self.pools.iter_mut().find_map(Pool::alloc).or_else(|| self.grow());
        let mut packet = found?;
        packet.clear_annotations();
        Some(packet)
    }

    /// Appends up to `count` empty packets to `batch`. What is known of them is
    /// whatever was known before.
    #[inline]
    pub fn alloc_batch(&mut self, batch: &mut Batch, count: usize) {
        let made = self.pools[0].alloc_batch(batch, count);
        if made < count && batch.room() > 0 {
            self.alloc_more(batch, count - made);
        }
    }

    #[cold]
    fn alloc_more(&mut self, batch: &mut Batch, count: usize) {
        let count = count.min(batch.room());
        for _ in 0..count {
            let Some(packet) = self.alloc() else { return };
            let _none = batch.push(packet); // there is room
        }
    }

    /// As many again as there are.
    #[cold]
    fn grow(&mut self) -> Option<Packet> {
        let have: usize = self.pools.iter().map(Pool::capacity).sum();
        let more = have.min(self.limit.saturating_sub(have));
        let pool = (more > 0).then(|| Pool::new(&self.dma, more).ok()).flatten();
        let Some(mut pool) = pool else {
            self.missing += 1;
            return None;
        };
        let packet = pool.alloc();
        self.pools.push(pool);
        packet
    }

    /// Frees a packet.
    #[inline]
    pub fn free(&mut self, packet: Packet) {
        self.pools[0].free(packet);
    }

    /// Frees all packets of a batch.
    #[inline]
    pub fn free_batch(&mut self, batch: &mut Batch) {
        if !batch.is_empty() {
            self.pools[0].free_batch(batch);
        }
    }

    /// Buffers in use, and in all.
    pub fn usage(&mut self) -> (usize, usize) {
        let all: usize = self.pools.iter().map(Pool::capacity).sum();
        let free: usize = self.pools.iter_mut().map(Pool::available).sum();
        (all - free, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_ask_for_adds_up() {
        let dma = Dma::new(memory::Options { backing: memory::Backing::Memfd, ..Default::default() });
        let mut buffers = Buffers::new(&dma, 1 << 16).expect("memory");
        buffers.reserve(FIRST - 1);
        buffers.provide().expect("memory");
        assert_eq!(buffers.main().capacity(), FIRST, "there is enough");
        // Two receive rings on one lane: the second must not find the first's buffers gone.
        buffers.reserve(4096);
        buffers.provide().expect("memory");
        assert!(buffers.main().capacity() >= FIRST - 1 + 4096);
    }
}
