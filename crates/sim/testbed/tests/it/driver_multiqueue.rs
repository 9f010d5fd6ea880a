//! Several queues on several threads: RSS keeps each flow on one queue and says
//! its Toeplitz hash, nothing is lost without a name, and
//! no buffer is missing at the end.
//!
//! `IXORA_PACKETS=10000000 cargo test --release -p ixora-testbed --test
//! driver_multiqueue` forwards ten million packets; without it, fewer.

use port::{Offload, Options, Rss, RxQueue as _, TxQueue as _};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::common::limit::Limit;
use crate::common::{Bench, frames};
use driver::ixgbe::{RxQueue, TxQueue};
use memory::{Batch, Packet, Pool};
use testbed::Idle;
use testbed::inprocess::spawn;

const QUEUES: usize = 4;
const FLOWS: usize = 64;
/// Packets forwarded by default.
const PACKETS: u64 = 400_000;

/// The Toeplitz hash, bit by bit as Microsoft's "RSS hashing" text defines it.
fn toeplitz(key: &[u8; 40], input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], n: usize| bytes[n / 8] >> (7 - n % 8) & 1;
    let window = |n: usize| (0..32).fold(0, |window, at| window << 1 | u32::from(bit(key, n + at)));
    (0..8 * input.len()).filter(|&n| bit(input, n) != 0).fold(0, |hash, n| hash ^ window(n))
}

/// The published vector: 66.9.149.187:2794 to 161.142.100.80:1766.
#[test]
fn the_tests_own_hash_is_the_published_one() {
    let input = [66, 9, 149, 187, 161, 142, 100, 80, 0x0A, 0xEA, 0x06, 0xE6];
    assert_eq!(toeplitz(&Rss::KEY, &input), 0x51CC_C178);
    assert_eq!(toeplitz(&Rss::KEY, &input[..8]), 0x323E_8FC2);
}

/// Addresses and ports of an untagged IPv4 frame without options.
fn tuple(frame: &[u8]) -> [u8; 12] {
    frame[26..38].try_into().unwrap()
}

/// One thread's work: two receive queues into two transmit queues.
struct Lane {
    rx: Vec<(usize, RxQueue)>,
    tx: Vec<TxQueue>,
    pool: Pool,
    /// Where each flow was seen.
    flows: HashMap<[u8; 12], (usize, u32)>,
    sent: u64,
}

impl Lane {
    /// Forwards until all lanes together have forwarded `wanted`.
    fn run(&mut self, total: &AtomicU64, wanted: u64) {
        let mut limit = Limit::time("packets to forward");
        while total.load(Ordering::Relaxed) < wanted {
            let moved = self.forward();
            total.fetch_add(moved, Ordering::Relaxed);
            if moved > 0 {
                limit.restart();
            } else {
                limit.check();
                thread::yield_now();
            }
        }
    }

    fn forward(&mut self) -> u64 {
        let mut moved = 0;
        for n in 0..self.rx.len() {
            let mut batch = Batch::with_limit(32);
            let (queue, rx) = &mut self.rx[n];
            rx.recv(&mut self.pool, &mut batch);
            batch.iter().for_each(|packet| note(&mut self.flows, *queue, packet));
            let mut limit = Limit::time("room in a transmit ring");
            while !batch.is_empty() {
                limit.check();
                moved += self.tx[n].send(&mut self.pool, &mut batch) as u64;
            }
        }
        self.sent += moved;
        moved
    }
}

/// Holds a packet against what its flow did before.
fn note(flows: &mut HashMap<[u8; 12], (usize, u32)>, queue: usize, packet: &Packet) {
    let hash = packet.hash().expect("RSS hashes every flow");
    let tuple = tuple(packet);
    let seen = flows.entry(tuple).or_insert_with(|| (queue, toeplitz(&Rss::KEY, &tuple)));
    assert_eq!(*seen, (queue, hash), "a flow keeps its queue and its hash");
    assert_eq!(queue, hash as usize % 128 % QUEUES, "the table deals out queues in turn");
}

#[test]
fn four_queues_on_two_threads_forward_all_flows() {
    let wanted = std::env::var("IXORA_PACKETS").map_or(PACKETS, |text| text.parse().unwrap());
    let options = Options { rx_queues: QUEUES, tx_queues: QUEUES, ..Options::default() };
    let mut bench = Bench::open(&[&format!("gen:flows={FLOWS}+sink:check")], &options);
    let side = &mut bench.sides[0];
    let mut rx = side.rx.drain(..).enumerate();
    let mut lanes: Vec<Lane> = (0..2)
        .map(|_| Lane {
            rx: rx.by_ref().take(QUEUES / 2).collect(),
            tx: side.tx.drain(..QUEUES / 2).collect(),
            pool: Pool::new(&bench.dma, 4096).unwrap(),
            flows: HashMap::new(),
            sent: 0,
        })
        .collect();
    drop(rx);
    let total = AtomicU64::new(0);
    let stepper = spawn(&bench.handles, None, Idle::Yield).unwrap();
    thread::scope(|scope| {
        lanes.iter_mut().for_each(|lane| _ = scope.spawn(|| lane.run(&total, wanted)));
    });
    drop(stepper);

    // What is under way runs out; then every packet is accounted for.
    bench.handles[0].with_cable(|cable| cable.stop_source());
    let mut limit = Limit::rounds(10_000, "the lanes to have nothing left to forward");
    bench.run_until_idle();
    while lanes.iter_mut().map(Lane::forward).sum::<u64>() > 0 {
        limit.check();
        bench.run_until_idle();
    }
    let sent: u64 = lanes.iter().map(|lane| lane.sent).sum();
    let report = bench.handles[0].report();
    let check = report.wire.check.clone().unwrap();
    assert!(sent >= wanted);
    assert_eq!(check.received, sent, "all that was forwarded came out");
    assert_eq!((check.corrupt, check.foreign, check.duplicated, check.reordered), (0, 0, 0, 0));
    assert_eq!(report.counters["rx_packets"], sent);

    let flows: Vec<usize> = lanes.iter().flat_map(|lane| lane.flows.values().map(|flow| flow.0)).collect();
    assert_eq!(flows.len(), FLOWS, "each flow is on one thread");
    for queue in 0..QUEUES {
        let share = flows.iter().filter(|&&of| of == queue).count();
        assert!((4..=32).contains(&share), "queue {queue} has {share} of {FLOWS} flows");
    }
    let queue_drops: u64 = report.drops.values().sum();
    let counted: u64 =
        bench.sides[0].device.counters().iter().filter(|c| c.loss.is_some()).map(|c| c.value).sum();
    assert_eq!(counted, queue_drops, "the device's counters name each loss");

    let pools: Vec<Pool> = bench.meanwhile(|_| {
        lanes.into_iter().map(|Lane { rx, tx, pool, .. }| (drop(rx), drop(tx), pool).2).collect()
    });
    for mut pool in pools {
        assert_eq!(pool.available(), pool.capacity(), "no buffer is missing");
    }
    bench.finish();
}

#[test]
fn each_kind_of_packet_is_hashed_over_its_own_fields() {
    let cases: [(Vec<u8>, std::ops::Range<usize>, std::ops::Range<usize>); 4] = [
        (frames::udp4(b"hash", frames::Sums::Full), 26..38, 26..34),
        (frames::tcp4(b"hash", frames::Sums::Full), 26..38, 26..34),
        (frames::udp6(b"hash", frames::Sums::Full), 22..58, 22..54),
        (frames::tcp6(b"hash", frames::Sums::Full), 22..58, 22..54),
    ];
    let mut key = Rss::KEY;
    key.reverse();
    for ports in [true, false] {
        for rx_checksum in [Offload::On, Offload::Off] {
            let rss = Rss { key, ports, ..Rss::default() };
            let options = Options { rx_queues: QUEUES, rss, rx_checksum, ..Options::default() };
            let mut bench = Bench::pair(&options);
            let flows = port::Port::flows(&bench.sides[1].device).unwrap();
            let mut counts = [0; QUEUES];
            for (n, (frame, with, without)) in cases.iter().enumerate() {
                let packets = bench.cross(frame, Default::default());
                let fields = if ports { with } else { without };
                let hash = toeplitz(&key, &frame[fields.clone()]);
                assert_eq!(
                    packets[0].hash(),
                    Some(hash),
                    "case {n}, ports {ports}, checksums {rx_checksum:?}"
                );
                let (src, dst) = frame[without.clone()].split_at(without.len() / 2);
                let numbers = [0, 2].map(|at| frame[without.end + at..][..2].try_into().unwrap());
                assert_eq!(flows.hash(src, dst, Some(numbers)), hash, "the port says so before");
                let received = |queue: usize| bench.sides[1].rx[queue].stats().packets;
                counts[flows.queue(hash)] += 1;
                assert_eq!(std::array::from_fn(received), counts, "and to which queue it comes");
            }
            let arp = bench.cross(&frames::ethernet(frames::TO, 0x0806, &[0; 28]), Default::default());
            assert_eq!(arp[0].hash(), None, "no flow, no hash");
            drop(arp);
            bench.finish();
        }
    }
}

#[test]
fn a_table_of_ones_own_sends_all_to_one_queue() {
    let rss = Rss { table: Some(Box::new([2; 128])), ..Rss::default() };
    let options = Options { rx_queues: QUEUES, rss, ..Options::default() };
    let mut bench = Bench::open(&["gen:flows=64"], &options);
    let mut received = 0;
    for _ in 0..100 {
        bench.handles[0].step_now();
        received += bench.recv(0).len() as u64;
    }
    let counts: Vec<u64> = bench.sides[0].rx.iter().map(|queue| queue.stats().packets).collect();
    assert_eq!(counts, [0, 0, received, 0]);
    let flows = port::Port::flows(&bench.sides[0].device).unwrap();
    assert_eq!([0, 77, u32::MAX].map(|hash| flows.queue(hash)), [2; 3]);
    assert!(received > 1_000);
    bench.finish();
}
