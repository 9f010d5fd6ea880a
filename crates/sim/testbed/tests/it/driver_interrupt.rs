//! Interrupts: a queue that is armed wakes whoever sleeps on its descriptor,
//! and no packet is slept through.

use port::{Options, RxQueue as _, TxQueue as _};
use std::os::fd::BorrowedFd;
use std::thread;
use std::time::Duration;

use crate::common::Bench;
use crate::common::frames::{self, Sums, payload};
use crate::common::limit::until;
use driver::ixgbe::RxQueue;
use memory::{Batch, Pool, TxOffload};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use testbed::Idle;
use testbed::inprocess::spawn;

fn options() -> Options {
    Options { interrupts: true, ..Options::default() }
}

fn is_readable(event: BorrowedFd<'_>, wait_ms: i64) -> bool {
    let mut polled = [PollFd::new(&event, PollFlags::IN)];
    let limit = Timespec { tv_sec: wait_ms / 1000, tv_nsec: wait_ms % 1000 * 1_000_000 };
    poll(&mut polled, Some(&limit)).unwrap() > 0
}

/// Steps past moderation, which spaces a vector's interrupts by 16 us.
fn run_until_idle(bench: &Bench) {
    bench.run_until_idle();
    thread::sleep(Duration::from_micros(50));
    bench.run_until_idle();
}

fn armed(bench: &mut Bench, queue: usize) -> bool {
    let event = bench.sides[1].rx[queue].arm().expect("opened with interrupts");
    is_readable(event, 0)
}

#[test]
fn a_packet_after_arming_wakes_and_one_before_does_not_stay_hidden() {
    let mut bench = Bench::pair(&options());
    let frame = frames::udp4(&payload(100), Sums::Full);
    for round in 0..20 {
        assert!(!armed(&mut bench, 0), "round {round}: nothing came");
        bench.send(0, &frame, TxOffload::default());
        run_until_idle(&bench);
        assert!(armed(&mut bench, 0), "round {round}: a packet came after arming");
        bench.sides[1].rx[0].disarm();
        assert_eq!(bench.recv(1).len(), 1);

        // Disarmed: traffic is silent, and it is there when polled.
        bench.send(0, &frame, TxOffload::default());
        run_until_idle(&bench);
        assert_eq!(bench.recv(1).len(), 1);
        run_until_idle(&bench);
        // What came in between signals at most once; disarming takes it back.
        armed(&mut bench, 0);
        run_until_idle(&bench);
        armed(&mut bench, 0);
        bench.sides[1].rx[0].disarm();
    }
    let report = bench.handles[1].report();
    assert_eq!(report.interrupts_unwired, 0);
    bench.finish();
}

#[test]
fn a_busy_loop_is_never_interrupted() {
    let mut bench = Bench::pair(&options());
    let frame = frames::udp4(&payload(100), Sums::Full);
    for _ in 0..500 {
        bench.send(0, &frame, TxOffload::default());
        bench.run_until_idle();
        assert_eq!(bench.recv(1).len(), 1);
    }
    assert_eq!(bench.handles[1].report().interrupts, 0, "nobody armed");
    bench.finish();
}

#[test]
fn the_device_masks_what_it_signalled() {
    let mut bench = Bench::pair(&options());
    let frame = frames::udp4(&payload(100), Sums::Full);
    bench.sides[1].rx[0].arm().unwrap();
    for _ in 0..100 {
        bench.send(0, &frame, TxOffload::default());
        run_until_idle(&bench);
    }
    assert_eq!(bench.handles[1].report().interrupts, 1, "one until it is armed again");
    assert_eq!(bench.recv(1).len(), 100);
    bench.finish();
}

#[test]
fn each_queue_has_a_vector_of_its_own() {
    let queues = 4;
    let rss = port::Rss { table: Some(Box::new([2; 128])), ..Default::default() };
    let mut bench = Bench::pair(&Options { rx_queues: queues, rss, ..options() });
    let arm = |bench: &mut Bench| (0..queues).map(|n| armed(bench, n)).collect::<Vec<_>>();
    assert_eq!(arm(&mut bench), [false; 4]);
    bench.send(0, &frames::udp4(&payload(100), Sums::Full), TxOffload::default());
    run_until_idle(&bench);
    assert_eq!(arm(&mut bench), [false, false, true, false]);
    bench.finish();
}

#[test]
fn without_the_option_there_is_nothing_to_arm() {
    let mut bench = Bench::pair(&Options::default());
    assert!(bench.sides[1].rx[0].arm().is_none());
    bench.sides[1].rx[0].disarm();
    bench.finish();
}

/// Receives `wanted` packets, sleeping whenever there are none. A wake-up that
/// gets lost shows as a time-out.
fn sleeper(queue: &mut RxQueue, pool: &mut Pool, wanted: usize) -> (usize, usize) {
    let (mut received, mut timeouts, mut batch) = (0, 0, Batch::default());
    while received < wanted && timeouts < 3 {
        let got = queue.recv(pool, &mut batch);
        pool.free_batch(&mut batch);
        received += got;
        if got > 0 {
            continue;
        }
        queue.arm().unwrap();
        let late = queue.recv(pool, &mut batch);
        pool.free_batch(&mut batch);
        received += late;
        // Arming twice is harmless, and it gives the descriptor again.
        if late == 0 && received < wanted && !is_readable(queue.arm().unwrap(), 2_000) {
            timeouts += 1;
        }
        queue.disarm();
    }
    (received, timeouts)
}

#[test]
fn a_sleeper_misses_nothing_whenever_packets_come() {
    const FRAMES: usize = 3_000;
    let mut bench = Bench::pair(&options());
    let stepper = spawn(&bench.handles, None, Idle::Yield).unwrap();
    let mut pool = Pool::new(&bench.dma, 1024).unwrap();
    let (from, to) = bench.sides.split_at_mut(1);
    let (tx, rx) = (&mut from[0].tx[0], &mut to[0].rx[0]);
    let (received, timeouts) = thread::scope(|scope| {
        let awake = scope.spawn(|| sleeper(rx, &mut bench.pool, FRAMES));
        for n in 0..FRAMES {
            let mut batch = Batch::default();
            let mut packet = pool.alloc().unwrap();
            packet.copy_from(&payload(60)).unwrap();
            batch.push(packet);
            until("room in the transmit ring", || tx.send(&mut pool, &mut batch) > 0);
            // Gaps of all lengths, so that frames come at every moment of the
            // sleeper's round.
            (0..n % 97 * 30).for_each(|_| std::hint::spin_loop());
        }
        awake.join().unwrap()
    });
    drop(stepper);
    assert_eq!((received, timeouts), (FRAMES, 0), "{:#?}", bench.handles[1].report());
    assert!(bench.handles[1].report().interrupts > 10, "it did sleep");
    bench.finish();
    assert_eq!(pool.available(), pool.capacity());
}
