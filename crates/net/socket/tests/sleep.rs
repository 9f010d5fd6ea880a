//! A thread that sleeps because nothing comes is woken by what streams want of it.
#![allow(clippy::unwrap_used)]

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use memory::{Backing, Batch, Dma, Pool};
use port::{RxQueue, RxStats, TxQueue, TxStats};
use runtime::{Options, Progress, Runtime, Wakeup};
use socket::Limits;
use socket::blocking::TcpListener;
use tcp::{Addresses, Host, Neighbors};
use wire::MacAddress;

const LIMIT: Duration = Duration::from_secs(60);

/// A wire on which nothing comes, with an interrupt that never signals.
struct Silent(Wakeup);

impl RxQueue for Silent {
    fn recv(&mut self, _: &mut Pool, _: &mut Batch) -> usize {
        0
    }

    fn stats(&self) -> RxStats {
        RxStats::default()
    }

    fn arm(&mut self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

impl TxQueue for Silent {
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

#[test]
fn a_listener_is_there_at_once_though_the_stack_would_sleep_for_an_hour() {
    let own = Ipv4Addr::new(10, 0, 0, 1);
    let (network, engine) = socket::network(&[own.into()], Limits::default()).unwrap();
    let addresses = Addresses {
        mac: MacAddress([2, 0, 0, 0, 0, 1]),
        v4: Some((own, 24)),
        v6: None,
        gateways: (None, None),
    };
    let queue = || Box::new(Silent(Wakeup::new().unwrap()));
    let (options, neighbors) = (tcp::Options::default(), Neighbors::default());
    let host = Host::new((queue(), queue()), addresses, &neighbors, options, Box::new(engine), 128);
    let options = Options {
        name: "sleeper",
        threads: 1,
        cores: Vec::new(),
        sleep: Some(Duration::from_secs(3600)),
        batch: 64,
        rx_ring: 64,
        tx_ring: 64,
        max_frame: 1514,
        count: None,
    };
    let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
    let progress = Arc::new(Progress::default());
    let runtime = Runtime::new(&dma, vec![Box::new(host)], &options, &Arc::default(), &progress).unwrap();
    let running = runtime.start(|| Ok(()));
    let turns = || progress.turns.load(Ordering::Relaxed);
    for port in 1..=20 {
        // The thread sleeps once its turns are no longer counted.
        let (begin, mut before) = (Instant::now(), 0);
        while turns() != before || before == 0 {
            assert!(begin.elapsed() < LIMIT, "it sleeps within {LIMIT:?}");
            before = turns();
            thread::sleep(Duration::from_millis(5));
        }
        let (done, is_done) = channel();
        let network = network.clone();
        thread::spawn(move || done.send(TcpListener::bind(&network, port).map(drop)));
        is_done.recv_timeout(LIMIT).expect("the stack's thread wakes").unwrap();
    }
    assert!(running.end().failure.is_none());
}
