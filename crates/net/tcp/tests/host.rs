//! What a host asks for is enough for all that it can be made to keep.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use common::dma;
use memory::{Batch, Pool};
use port::{RxQueue, RxStats, TxQueue, TxStats};
use runtime::{Instant, Poller};
use tcp::{Addresses, Event, Host, Io, Neighbors, Options, Service, Stack};
use wire::MacAddress;

const V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1);
const BUFFERS: usize = 128;

/// A wire on which nobody answers.
struct Nobody;

impl RxQueue for Nobody {
    fn recv(&mut self, _: &mut Pool, _: &mut Batch) -> usize {
        0
    }

    fn stats(&self) -> RxStats {
        RxStats::default()
    }
}

impl TxQueue for Nobody {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let count = batch.len();
        pool.free_batch(batch);
        count
    }

    fn clean(&mut self, _: &mut Pool) -> usize {
        0
    }

    fn stats(&self) -> TxStats {
        TxStats::default()
    }
}

/// Opens connections to one address after the other.
#[derive(Default)]
struct Opens {
    count: u16,
}

impl Service for Opens {
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        events.clear();
        for _ in 0..32 {
            self.count += 1;
            let [high, low] = self.count.to_be_bytes();
            let remote = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 1, self.count);
            let ends: [(IpAddr, IpAddr); 2] =
                [(V4.into(), [10, 1, high, low].into()), (V6.into(), remote.into())];
            for (local, remote) in ends {
                stack.connect(local, (remote, 9), io).unwrap();
            }
        }
    }

    fn deadline_ns(&self) -> Option<i64> {
        Some(0)
    }
}

/// Packets that wait for neighbours who do not answer leave connections all that they may keep.
#[test]
fn packets_that_wait_for_neighbours_are_asked_for() {
    let mac = MacAddress([2, 0, 0, 0, 0, 1]);
    let addresses = Addresses { mac, v4: Some((V4, 8)), v6: Some((V6, 64)), gateways: (None, None) };
    let queues: (Box<dyn RxQueue>, Box<dyn TxQueue>) = (Box::new(Nobody), Box::new(Nobody));
    let service = Box::new(Opens::default());
    let mut host = Host::new(queues, addresses, &Neighbors::default(), Options::default(), service, BUFFERS);
    let mut pool = Pool::new(&dma(), host.buffers()).unwrap();
    let mut batch = Batch::with_limit(64);
    for turn in 0..200 {
        host.turn(Instant::now(), &mut pool, &mut batch);
        assert!(pool.available() >= BUFFERS, "{} are left after turn {turn}", pool.available());
    }
    let lost = |name| host.counters().iter().find(|counter| counter.name == name).unwrap().value;
    assert!(lost("tx_no_neighbor") > 1000, "more waited than may");
}
