//! The lane's packet buffers: who makes packets of them, and what happens where they are scarce.

use memory::{Batch, Pool};
use port::Reason;

use super::Cx;

/// What an element does with the lane's buffers.
impl Cx<'_> {
    /// The lane's pool, for receive and transmit queues.
    #[inline]
    pub fn pool(&mut self) -> &mut Pool {
        self.lane.buffers.main()
    }

    /// Asks for buffers in the lane's pool, beside those that other elements ask for; the element cannot do
    /// without so many of them, and a router that may have fewer is refused. Only while elements are
    /// initialized: they are there before any packet is.
    pub fn reserve_buffers(&mut self, needed: usize, wanted: usize) {
        self.lane.buffers.reserve(self.me, needed, wanted);
    }

    /// So many packets were made here; none where there was no buffer.
    #[inline]
    pub(super) fn count_made(&mut self, packets: usize) {
        let slot = &mut self.lane.slots[self.me];
        slot.counters.made += packets as u64;
        if slot.ins.is_empty() && packets > 0 {
            self.lane.source = Some(self.me);
        }
        if packets == 0 {
            self.lane.buffers.lacks(self.me);
        }
    }

    /// Leaves in `batch` those packets, the first ones, that have buffers to wait in here, where so
    /// many wait already. The others are dropped, for the buffers that are left are for packets on
    /// their way: at the source that made them in this turn, as [`Reason::NoBuffers`], and here for
    /// a reason of the class's where none did (a port received them, or they had waited before).
    /// That is told once.
    #[inline]
    pub fn let_wait(&mut self, batch: &mut Batch, reason: usize, waiting: impl FnOnce() -> usize) {
        let room = self.lane.buffers.room_for(batch.len(), waiting);
        if room < batch.len() {
            self.refuse(batch, room, reason);
        }
    }

    /// Drops all packets of a batch but so many.
    #[cold]
    fn refuse(&mut self, batch: &mut Batch, room: usize, reason: usize) {
        let mut taken = Batch::with_limit(Batch::MAX);
        taken.take_from(batch, room);
        let elements = &self.lane.shared.plan.elements;
        let named = |source: usize| {
            let mut reasons = elements[source].kind.drops.iter();
            Some((source, reasons.position(|reason| *reason == Reason::NoBuffers)?))
        };
        let (at, reason) = self.lane.source.and_then(named).unwrap_or((self.me, reason));
        self.lane.buffers.count_refused(batch.len());
        self.lane.buffers.lacks(at);
        self.lane.drop_batch(at, reason, batch);
        batch.take_from(&mut taken, room);
    }
}
