//! Stopping, starting, closing, opening again, and running dry: nothing leaks,
//! nothing writes where it should no more, and everything comes back.

use port::{Completion, Link, Options, Port as _, RxQueue as _, TxQueue as _};
use std::time::Duration;

use crate::common::frames::{self, Sums, payload};
use crate::common::limit::until;
use crate::common::{Bench, Side, devices, sound};
use driver::ixgbe::Ixgbe;
use memory::{Batch, Dma, Packet, Pool, TxOffload};
use testbed::Idle;
use testbed::inprocess::{spawn, while_stepping};

#[test]
fn a_stopped_port_hears_nothing_and_still_sends() {
    let mut bench = Bench::pair(&Options::default());
    let frame = frames::udp4(&payload(80), Sums::Full);
    for round in 1..=3 {
        bench.meanwhile(|bench| bench.sides[1].device.stop()).unwrap();
        assert_eq!(bench.cross(&frame, TxOffload::default()).len(), 0, "stopped");
        bench.send(1, &frame, TxOffload::default());
        bench.run_until_idle();
        assert_eq!(bench.recv(0).len(), 1, "transmitting goes on");
        bench.meanwhile(|bench| bench.sides[1].device.start()).unwrap();
        assert_eq!(bench.cross(&frame, TxOffload::default()).len(), 1, "started");
        assert_eq!(bench.handles[1].report().drops["rx_disabled"], round);
    }
    bench.finish();
}

#[test]
fn what_came_before_the_stop_is_still_handed_out() {
    let mut bench = Bench::pair(&Options::default());
    let frame = frames::udp4(&payload(80), Sums::Full);
    (0..40).for_each(|_| bench.send(0, &frame, TxOffload::default()));
    bench.run_until_idle();
    bench.meanwhile(|bench| bench.sides[1].device.stop()).unwrap();
    assert_eq!(bench.recv(1).len(), 40);
    bench.finish();
}

#[test]
fn a_filter_change_does_not_start_a_stopped_port() {
    let mut bench = Bench::pair(&Options::default());
    let frame = frames::udp4(&payload(80), Sums::Full);
    bench.meanwhile(|bench| {
        bench.sides[1].device.stop().unwrap();
        bench.sides[1].device.set_promiscuous(false).unwrap();
    });
    assert_eq!(bench.cross(&frame, TxOffload::default()).len(), 0);
    bench.finish();
}

/// Takes every buffer of the pool and writes a mark over all of it.
fn mark_all(pool: &mut Pool) -> Vec<Packet> {
    let mut packets: Vec<Packet> = std::iter::from_fn(|| pool.alloc()).collect();
    for packet in &mut packets {
        packet.set_len(memory::DATA_ROOM).unwrap();
        packet.fill(0xA5);
    }
    packets
}

#[test]
fn a_queue_dropped_under_traffic_lets_go_of_its_buffers() {
    for queues in [1, 4] {
        let options = Options { rx_queues: queues, ..Options::default() };
        let mut bench = Bench::open(&["gen:flows=64,size=64-1518"], &options);
        let stepper = spawn(&bench.handles, None, Idle::Spin).unwrap();
        until("packets", || !bench.recv(0).is_empty());
        for left in (0..queues).rev() {
            drop(bench.sides[0].rx.pop());
            let all = mark_all(&mut bench.pool);
            // The rings that are left hold theirs; all else is here.
            assert!(all.len() + left * 511 >= bench.pool.capacity());
            std::thread::sleep(Duration::from_millis(5));
            assert!(all.iter().all(|packet| packet.iter().all(|&byte| byte == 0xA5)), "{left} left");
            drop(all);
            let received = bench.recv(0).len();
            assert!(left == 0 || received > 0, "the other queues go on");
        }
        drop(stepper);
        bench.handles[0].with_cable(|cable| cable.stop_source());
        bench.finish();
    }
}

#[test]
fn packets_that_were_handed_over_are_sent_before_a_queue_goes() {
    for completion in [Completion::Report, Completion::Head] {
        let mut bench = Bench::pair(&Options { completion, ..Options::default() });
        for n in 0..100 {
            bench.send(0, &frames::udp4(&payload(50 + n), Sums::Full), TxOffload::default());
        }
        bench.meanwhile(|bench| drop(bench.sides[0].tx.pop()));
        bench.run_until_idle();
        assert_eq!(bench.recv(1).len(), 100);
        bench.finish();
    }
}

#[test]
fn a_cable_that_flaps_is_seen_and_traffic_comes_back() {
    let options = Options { link_wait_ms: 0, ..Options::default() };
    let mut bench = Bench::open(&["gen:rate=100k+sink+fault:flap=1s/300ms"], &options);
    let begin = 20_000_000_000; // later than opening can have taken
    let mut seen = Vec::new();
    let mut received = [0_u64; 2];
    for tick in 0..40_000 {
        bench.handles[0].step(begin + tick * 100_000);
        let got = bench.recv(0).len() as u64;
        let link = bench.sides[0].device.link();
        if seen.last() != Some(&link) {
            seen.push(link);
        }
        received[usize::from(link.up)] += got;
    }
    let (up, down) = (Link::up(10_000), Link::DOWN);
    assert!(seen.windows(2).all(|two| two[0] != two[1]));
    assert!(seen.len() >= 7 && seen.iter().all(|link| [up, down].contains(link)), "{seen:?}");
    assert!(received[1] > 100_000 && received[0] < 200, "{received:?}");
    let reports = bench.finish();
    assert!(reports[0].wire.to_host.lost["fault: link down"] > 1000);
}

#[test]
fn an_empty_pool_is_counted_and_recovered_from() {
    let options = Options { rx_ring: 128, ..Options::default() };
    let mut bench = Bench::with_pool(&["gen:count=5000"], &options, 100);
    assert!(bench.sides[0].rx[0].stats().no_buffer > 0, "a ring of 127 and a pool of 100");
    // Held back until nothing is left to receive into.
    let mut held = Vec::new();
    for _ in 0..50 {
        bench.run_until_idle();
        held.extend(bench.recv(0));
    }
    assert_eq!((held.len(), bench.pool.available()), (100, 0));
    let before = bench.sides[0].rx[0].stats();
    assert_eq!(bench.recv(0).len(), 0);
    assert!(bench.sides[0].rx[0].stats().no_buffer > before.no_buffer);
    drop(held);
    let mut received = 100;
    for _ in 0..500 {
        bench.run_until_idle();
        received += bench.recv(0).len();
    }
    assert_eq!(received, 5000, "a wire with backpressure loses nothing meanwhile");
    bench.finish();
}

#[test]
fn a_port_opens_again_and_again_and_leaks_nothing() {
    let (pcis, handles) = devices(&["gen:flows=3+sink:check"]);
    let dma = Dma::new(Default::default());
    let mut pool = Pool::new(&dma, 2048).unwrap();
    let options = Options { link_wait_ms: 0, interrupts: true, rx_queues: 2, ..Options::default() };
    let mut mapped = Vec::new();
    for _ in 0..5 {
        let open = || Ixgbe::open(pcis[0].clone(), &dma, options.clone()).unwrap().split();
        let (device, rx, tx) = while_stepping(&handles, open).unwrap();
        let mut side = Side { device, rx, tx };
        mapped.push(handles[0].report().mapped);
        let mut batch = Batch::default();
        let mut moved = 0;
        let stepper = spawn(&handles, None, Idle::Yield).unwrap();
        until("link and packets", || {
            for queue in &mut side.rx {
                queue.recv(&mut pool, &mut batch);
                moved += side.tx[0].send(&mut pool, &mut batch);
                pool.free_batch(&mut batch);
            }
            moved >= 2_000
        });
        drop(side);
        drop(stepper);
        assert_eq!(handles[0].report().mapped, (0, 0));
        assert_eq!(pool.available(), pool.capacity());
    }
    assert!(mapped.iter().all(|it| *it == mapped[0]), "{mapped:?}");
    handles[0].with_cable(|cable| cable.stop_source());
    sound(&handles[0].report());
}

#[test]
fn queues_go_on_when_the_port_is_dropped_first() {
    let (pcis, handles) = devices(&["gen:count=3000+sink:check"]);
    let dma = Dma::new(Default::default());
    let mut pool = Pool::new(&dma, 2048).unwrap();
    let open = || Ixgbe::open(pcis[0].clone(), &dma, Options::default()).unwrap().split();
    let (device, mut rx, mut tx) = while_stepping(&handles, open).unwrap();
    drop(device);
    let mut batch = Batch::default();
    for _ in 0..500 {
        rx[0].recv(&mut pool, &mut batch);
        tx[0].send(&mut pool, &mut batch);
        handles[0].step_now();
    }
    while_stepping(&handles, || drop((rx, tx))).unwrap();
    let report = handles[0].report();
    assert_eq!(report.wire.check.as_ref().unwrap().received, 3000);
    assert_eq!((report.mapped, pool.available()), ((0, 0), pool.capacity()));
    sound(&report);
}
