//! Forwards between two ports, both ways: what arrives on one leaves on the
//! other. The loop is `Forward::turn`.

use port::{Batch, Pool, RxQueue, TxQueue};
use runtime::{Instant, Poller, Queue};

use crate::{Failure, cli, open, run, signal};

/// One direction: packets from `rx` go to `tx`.
pub struct Forward {
    pub rx: Box<dyn RxQueue>,
    pub tx: Box<dyn TxQueue>,
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

/// `ixora fwd A B`: queue n of one port goes to queue n of the other.
pub fn run(arguments: &cli::Fwd) -> Result<(), Failure> {
    let options = &arguments.port;
    let stop = signal::stop_flag()?;
    let mut ports = open::ports(&[&arguments.a, &arguments.b], options, &stop)?;
    let mut pollers: Vec<Box<dyn Poller>> = Vec::new();
    for n in 0..options.open.rx_queues {
        for (from, to) in [(0, 1), (1, 0)] {
            let (rx, tx) = (ports.rx(from, n)?, ports.tx(to, n)?);
            pollers.push(Box::new(Forward { rx, tx, touch: arguments.touch }));
        }
    }
    run::run("fwd", ports, pollers, options, &stop)
}
