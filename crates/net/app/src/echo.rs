//! Sends back every packet with its Ethernet addresses swapped; asked to be a
//! host, it answers ARP requests and pings instead of repeating them.

use neighbor::Responder;
use port::{Batch, Pool, RxQueue, TxQueue};
use runtime::{Instant, Poller, Queue};
use wire::ethernet::Addresses;

/// One queue pair.
pub struct Echo {
    /// Where packets come from.
    pub rx: Box<dyn RxQueue>,
    /// Where they go back to.
    pub tx: Box<dyn TxQueue>,
    /// The host that is played, if one is.
    pub host: Option<Responder>,
}

impl Poller for Echo {
    fn turn(&mut self, _now: Instant, pool: &mut Pool, batch: &mut Batch) -> usize {
        let received = self.rx.recv(pool, batch);
        if received == 0 {
            self.tx.clean(pool);
            return 0;
        }
        for packet in batch.iter_mut() {
            if self.host.as_ref().is_some_and(|host| host.answer(packet)) {
                continue;
            }
            if let Some(mut addresses) = Addresses::of_mut(packet) {
                addresses.swap();
            }
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
