//! Forwards in fixed buffers: what arrives on one port leaves on another from the buffer in
//! which it came ([`driver::ixgbe::FixedRing`]).

use driver::ixgbe::FixedRing;
use port::{Batch, Pool};
use runtime::{Instant, Poller, Queue};

/// One direction of a forwarder: the ring that both of its queues share.
pub struct FixedForward {
    /// From where to where.
    pub ring: FixedRing<1>,
    /// Whether a byte of each packet is read and written.
    pub touch: bool,
}

impl Poller for FixedForward {
    /// Forwards as many packets as a batch has room for. None are refused: where the other port
    /// is slow, its device holds the buffers, and this port's counts what it misses.
    fn turn(&mut self, _now: Instant, _pool: &mut Pool, batch: &mut Batch) -> usize {
        let limit = batch.room();
        match self.touch {
            false => self.ring.forward(limit, |_, len| [len]),
            true => self.ring.forward(limit, |frame, len| {
                frame[1] = frame[1].wrapping_add(1);
                [len]
            }),
        }
    }

    fn queues<'a>(&'a mut self, visit: &mut dyn FnMut(Queue<'a>)) {
        let (rx, [tx]) = self.ring.queues();
        visit(Queue::Rx(rx));
        visit(Queue::Tx(tx));
    }
}
