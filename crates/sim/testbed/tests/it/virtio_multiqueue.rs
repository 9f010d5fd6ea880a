//! Several queues on several threads: flows spread by RSS, nothing is lost
//! without a name, nothing comes twice, and no buffer is missing at the end.
//!
//! `IXORA_PACKETS=10000000 cargo test --release -p ixora-testbed --test
//! virtio_multiqueue` forwards ten million packets; without it, fewer.

use port::{Options, Rss, RxQueue as _, TxQueue as _};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::virtio::{Bench, RINGS, model, offer, small_rings};
use driver::virtio::{RxQueue, TxQueue};
use memory::{Batch, Pool};
use testbed::Idle;
use testbed::inprocess::spawn;

const QUEUES: usize = 4;
/// Packets forwarded by default, over each kind of ring.
const PACKETS: u64 = 60_000;

/// One thread's work: two receive queues into two transmit queues.
struct Lane {
    queues: Vec<(RxQueue, TxQueue)>,
    pool: Pool,
    taken: u64,
    given: u64,
}

impl Lane {
    /// Forwards until all lanes together have forwarded `wanted`.
    fn run(&mut self, total: &AtomicU64, wanted: u64) {
        let (begin, mut batch) = (Instant::now(), Batch::default());
        while total.load(Relaxed) < wanted && begin.elapsed() < Duration::from_secs(60) {
            let mut moved = 0;
            for (rx, tx) in &mut self.queues {
                self.taken += rx.recv(&mut self.pool, &mut batch) as u64;
                moved += tx.send(&mut self.pool, &mut batch) as u64;
                self.pool.free_batch(&mut batch);
            }
            self.given += moved;
            if total.fetch_add(moved, Relaxed) == 0 || moved == 0 {
                thread::yield_now();
            }
        }
    }
}

#[test]
fn lanes_forward_flows_that_rss_spread() {
    let wanted = std::env::var("IXORA_PACKETS").map_or(PACKETS, |n| n.parse().unwrap());
    for (name, ring) in RINGS {
        let options = Options {
            rx_queues: QUEUES,
            rss: Rss { report: true, ..Rss::default() },
            max_frame: 9014,
            ..small_rings()
        };
        let wires = ["gen:flows=64,size=64-9000+sink:check"];
        let mut bench = Bench::open(&wires, &model(offer(ring, 0)), &options);
        let stepper = spawn(&bench.handles, None, Idle::Yield).unwrap();
        let total = AtomicU64::new(0);
        let side = &mut bench.sides[0];
        let mut queues: Vec<_> = side.rx.drain(..).zip(side.tx.drain(..)).collect();
        let mut lanes: Vec<Lane> = (0..2)
            .map(|_| Lane {
                queues: queues.drain(..2).collect(),
                pool: Pool::new(&bench.dma, 4096).unwrap(),
                taken: 0,
                given: 0,
            })
            .collect();
        thread::scope(|scope| {
            lanes.iter_mut().for_each(|lane| _ = scope.spawn(|| lane.run(&total, wanted)));
        });
        assert!(total.load(Relaxed) >= wanted, "{name}: {:#?}", bench.handles[0].report());
        bench.handles[0].with_cable(|cable| cable.stop_source());
        let spread: Vec<u64> =
            lanes.iter().flat_map(|lane| &lane.queues).map(|(rx, _)| rx.stats().packets).collect();
        assert!(spread.iter().all(|&count| count > wanted / 40), "{name}: {spread:?}");
        let (taken, given) = lanes.iter().fold((0, 0), |sum, lane| (sum.0 + lane.taken, sum.1 + lane.given));
        assert_eq!(bench.counter(0, "rx_packets"), taken, "{name}");
        assert_eq!(bench.counter(0, "tx_packets"), given, "{name}");
        let full: u64 = lanes.iter().flat_map(|l| &l.queues).map(|(_, tx)| tx.stats().ring_full).sum();
        assert_eq!(taken, given + full, "{name}: what was not sent found a ring full");
        let mut pools: Vec<Pool> = Vec::new();
        for Lane { queues, pool, .. } in lanes {
            drop(queues);
            pools.push(pool);
        }
        drop(stepper);
        assert_eq!(bench.counter(0, "tx_unsent"), 0, "{name}");
        let reports = bench.finish();
        let check = reports[0].wire.check.as_ref().unwrap();
        assert_eq!(
            (check.received, check.corrupt, check.duplicated, check.foreign),
            (given, 0, 0, 0),
            "{name}"
        );
        assert_eq!(check.reordered, 0, "{name}: a flow stays on its queue");
        for pool in &mut pools {
            // What was received is all there; buffers of other lanes are returned.
            assert_eq!(pool.available(), pool.capacity(), "{name}");
        }
    }
}
