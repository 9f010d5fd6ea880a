//! Sends back every packet with its Ethernet addresses swapped; asked to be a
//! host, it answers ARP requests and pings instead of repeating them.

use neighbor::Responder;
use port::{Batch, Pool, RxQueue, TxQueue};
use runtime::{Instant, Poller, Queue};
use wire::MacAddress;
use wire::ethernet::Addresses;

use crate::{Failure, cli, open, run, signal};

/// One queue pair.
struct Echo {
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
    host: Option<Responder>,
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

/// `ixora echo A`.
pub fn run(arguments: &cli::Echo) -> Result<(), Failure> {
    let options = &arguments.port;
    let stop = signal::stop_flag()?;
    let mut ports = open::ports(&[&arguments.a], options, &stop)?;
    let mut pollers: Vec<Box<dyn Poller>> = Vec::new();
    let mac = MacAddress(ports.mac(0));
    let host = arguments.ip.map(|ip| Responder { mac, addresses: vec![ip.into()] });
    for n in 0..options.open.rx_queues {
        let host = host.clone();
        pollers.push(Box::new(Echo { rx: ports.rx(0, n)?, tx: ports.tx(0, n)?, host }));
    }
    run::run("echo", ports, pollers, options, &stop)
}
