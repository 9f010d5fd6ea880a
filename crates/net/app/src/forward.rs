//! Forwards what arrives on one queue to another. The loop is `Forward::turn`.

use port::{Batch, Pool, RxQueue, TxQueue};
use runtime::{Instant, Poller, Queue};

/// One direction: packets from `rx` go to `tx`.
pub struct Forward {
    /// Where they come from.
    pub rx: Box<dyn RxQueue>,
    /// Where they go to.
    pub tx: Box<dyn TxQueue>,
    /// Whether a byte of each is read and written.
    pub touch: bool,
}

impl Poller for Forward {
    /// Receives a batch and sends it. What a full transmit ring refuses is
    /// dropped; the queue counts it (`tx_ring_full`).
    fn turn(&mut self, _now: Instant, pool: &mut Pool, batch: &mut Batch) -> usize {
        let received = self.rx.recv(pool, batch);
        if received == 0 {
            self.tx.clean(pool);
            return 0;
        }
        if self.touch {
            let second = batch.iter_mut().filter_map(|packet| packet.get_mut(1));
            second.for_each(|byte| *byte = byte.wrapping_add(1));
        }
        self.tx.send(pool, batch);
        pool.free_batch(batch);
        received
    }

    fn queues<'a>(&'a mut self, visit: &mut dyn FnMut(Queue<'a>)) {
        visit(Queue::Rx(&mut *self.rx));
        visit(Queue::Tx(&mut *self.tx));
    }
}
