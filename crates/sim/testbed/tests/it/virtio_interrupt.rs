//! Interrupts and notifications: a queue that is armed wakes whoever sleeps on
//! its descriptor, no packet is slept through, and no doorbell rings for a
//! device that is awake.

use port::{Options, Port as _, RxQueue as _, TxQueue as _, VirtioOptions};
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use crate::common::virtio::{Bench, RINGS, frame, model, offer, sleepy, small_rings};
use driver::virtio::RxQueue;
use memory::{Batch, Pool, TxOffload};
use model::chip::DeviceFault;
use model::virtio::Options as ModelOptions;
use regs::virtio::feature;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use testbed::Idle;
use testbed::inprocess::spawn;

fn interrupts() -> Options {
    Options {
        interrupts: true,
        virtio: VirtioOptions { packed_event_index: true, ..VirtioOptions::default() },
        ..small_rings()
    }
}

fn is_readable(event: BorrowedFd<'_>, wait_ms: i64) -> bool {
    let mut polled = [PollFd::new(&event, PollFlags::IN)];
    let limit = Timespec { tv_sec: wait_ms / 1000, tv_nsec: wait_ms % 1000 * 1_000_000 };
    poll(&mut polled, Some(&limit)).unwrap() > 0
}

fn armed(bench: &mut Bench, queue: usize) -> bool {
    let event = bench.sides[1].rx[queue].arm().expect("opened with interrupts");
    is_readable(event, 0)
}

#[test]
fn a_packet_after_arming_wakes_and_none_else_does() {
    for (name, ring) in RINGS {
        let mut bench = Bench::pair(&model(offer(ring, 0)), &interrupts());
        // Many laps, so that each place of the ring is armed at.
        for round in 0..700 {
            assert!(!armed(&mut bench, 0), "{name}, round {round}: nothing came");
            bench.send(0, &frame(round, 100));
            bench.run_until_idle();
            assert!(armed(&mut bench, 0), "{name}, round {round}: a packet came after arming");
            bench.sides[1].rx[0].disarm();
            assert_eq!(bench.recv(1).len(), 1);
            // Disarmed: traffic is silent, and it is there when polled.
            for n in 0..round % 5 {
                bench.send(0, &frame(n, 200));
            }
            bench.run_until_idle();
            assert_eq!(bench.recv(1).len(), round % 5, "{name}");
        }
        let report = bench.handles[1].report();
        // With an index, arming twice may signal twice for one packet.
        assert!((700..=701).contains(&report.interrupts), "{name}: {}", report.interrupts);
        assert_eq!(report.interrupts_unwired, 0);
        bench.finish();
    }
}

#[test]
fn an_index_signals_the_first_packet_only() {
    for (name, ring) in RINGS {
        let mut bench = Bench::pair(&model(offer(ring, 0)), &interrupts());
        bench.sides[1].rx[0].arm().unwrap();
        for n in 0..100 {
            bench.send(0, &frame(n, 100));
            bench.run_until_idle();
        }
        let wanted = if ring & feature::EVENT_IDX != 0 { 1 } else { 100 };
        assert_eq!(bench.handles[1].report().interrupts, wanted, "{name}");
        assert_eq!(bench.recv(1).len(), 100);
        bench.finish();
    }
}

#[test]
fn a_busy_loop_is_never_interrupted() {
    for (name, ring) in RINGS {
        let mut bench = Bench::pair(&model(offer(ring, 0)), &interrupts());
        for n in 0..1000 {
            assert_eq!(bench.cross_plain(&frame(n, 100)).len(), 1);
        }
        assert_eq!(bench.handles[1].report().interrupts, 0, "{name}: nobody armed");
        bench.finish();
    }
}

#[test]
fn each_queue_has_a_vector_of_its_own() {
    for (name, ring) in RINGS {
        let mut bench = Bench::pair(&model(offer(ring, 0)), &Options { rx_queues: 4, ..interrupts() });
        let arm = |bench: &mut Bench| (0..4).map(|n| armed(bench, n)).collect::<Vec<_>>();
        assert_eq!(arm(&mut bench), [false; 4]);
        // A flow is received where it is sent (5.1.6.5.6).
        let sent = crate::common::frames::udp4(&[1, 2, 3], crate::common::frames::Sums::Full);
        assert!(bench.try_send(1, 2, &sent, TxOffload::default()));
        bench.run_until_idle();
        bench.send(0, &sent);
        bench.run_until_idle();
        assert_eq!(arm(&mut bench), [false, false, true, false], "{name}");
        bench.finish();
    }
}

#[test]
fn without_the_option_there_is_nothing_to_arm() {
    let mut bench = Bench::pair(&model(offer(0, 0)), &small_rings());
    assert!(bench.sides[1].rx[0].arm().is_none());
    bench.sides[1].rx[0].disarm();
    bench.finish();
}

#[test]
fn a_device_that_is_awake_hears_no_doorbell() {
    for (name, ring) in RINGS {
        // One that polls asks for none at all.
        let mut bench = Bench::pair(&model(offer(ring, 0)), &interrupts());
        let before = (bench.counter(0, "tx_kicks"), bench.counter(0, "rx_kicks"));
        for n in 0..1000 {
            assert_eq!(bench.cross_plain(&frame(n, 100)).len(), 1);
        }
        assert_eq!((bench.counter(0, "tx_kicks"), bench.counter(0, "rx_kicks")), before, "{name}");
        bench.finish();

        // One that sleeps wants one, whatever comes until it sleeps again.
        let mut bench = Bench::pair(&sleepy(offer(ring, 0)), &interrupts());
        bench.run_until_idle();
        for burst in 1..=40 {
            for n in 0..50 {
                bench.send(0, &frame(n, 100));
            }
            assert_eq!(bench.counter(0, "tx_kicks"), burst, "{name}: 50 packets, one doorbell");
            bench.run_until_idle();
            assert_eq!(bench.recv(1).len(), 50, "{name}");
        }
        let reports = bench.finish();
        let (kicks, packets) = (reports[0].counters["kicks"], reports[0].counters["tx_packets"]);
        assert!(packets == 2000 && kicks < 100, "{name}: {kicks} for {packets}");
    }
}

/// Receives `wanted` packets, sleeping whenever there are none. A wake-up that
/// gets lost shows as a time-out.
fn sleeper(queue: &mut RxQueue, pool: &mut Pool, wanted: usize, received: &AtomicUsize) -> usize {
    let (mut timeouts, mut batch) = (0, Batch::default());
    let mut take = |queue: &mut RxQueue| {
        let got = queue.recv(pool, &mut batch);
        pool.free_batch(&mut batch);
        received.fetch_add(got, Relaxed) + got >= wanted || got > 0
    };
    while received.load(Relaxed) < wanted && timeouts < 3 {
        if take(queue) {
            continue;
        }
        queue.arm().unwrap();
        if !take(queue) && !is_readable(queue.arm().unwrap(), 10_000) {
            timeouts += 1;
        }
        queue.disarm();
    }
    timeouts
}

/// Sends `wanted` packets to a sleeper, over a device that sleeps as well.
fn stress(name: &str, model: &ModelOptions, wanted: usize) {
    let mut bench = Bench::pair(model, &interrupts());
    let stepper = spawn(&bench.handles, None, Idle::Yield).unwrap();
    let mut pool = Pool::new(&bench.dma, 1024).unwrap();
    let (from, to) = bench.sides.split_at_mut(1);
    let (tx, rx) = (&mut from[0].tx[0], &mut to[0].rx[0]);
    let received = AtomicUsize::new(0);
    let timeouts = thread::scope(|scope| {
        let awake = scope.spawn(|| sleeper(rx, &mut bench.pool, wanted, &received));
        let mut sent = 0;
        while sent < wanted && !awake.is_finished() {
            // No more on the way than the receiver's ring takes; and now and then
            // none, so that it sleeps until the next one, which comes alone.
            let most = if sent % 5 == 0 { 0 } else { 200 };
            if sent - received.load(Relaxed) > most {
                thread::yield_now();
                continue;
            }
            let mut batch = Batch::default();
            for _ in 0..(1 + sent % 7).min(wanted - sent) {
                let Some(mut packet) = pool.alloc() else { break };
                packet.copy_from(&[0xFF; 60]).unwrap();
                batch.push(packet);
            }
            sent += tx.send(&mut pool, &mut batch);
            pool.free_batch(&mut batch);
            // Gaps of all lengths, so that frames come at every moment of the
            // sleeper's round.
            (0..sent % 97 * 5).for_each(|_| std::hint::spin_loop());
            if sent % 256 > 250 {
                thread::yield_now();
            }
        }
        awake.join().unwrap()
    });
    drop(stepper);
    let (sender, receiver) = (bench.handles[0].report(), bench.handles[1].report());
    let outcome = (received.into_inner(), timeouts);
    assert_eq!(outcome, (wanted, 0), "{name}: {sender:#?} {receiver:#?}");
    assert!(receiver.interrupts > 10, "{name}: it did sleep");
    assert!(sender.counters["kicks"] < wanted as u64, "{name}: doorbells are fewer than packets");
    bench.finish();
    assert_eq!(pool.available(), pool.capacity());
}

#[test]
fn a_sleeper_misses_nothing_whenever_packets_come() {
    for (name, ring) in RINGS {
        let wanted = if ring & feature::EVENT_IDX != 0 { 100_000 } else { 10_000 };
        stress(name, &sleepy(offer(ring, 0)), wanted);
    }
}

#[test]
fn a_sleeper_on_a_device_that_died_is_not_woken_but_told() {
    let mut bench = Bench::pair(&sleepy(offer(feature::EVENT_IDX, 0)), &interrupts());
    bench.sides[1].rx[0].arm().unwrap();
    bench.handles[1].inject(DeviceFault::NeedsReset);
    bench.send(0, &frame(1, 100));
    bench.run_until_idle();
    assert!(!is_readable(bench.sides[1].rx[0].arm().unwrap(), 50));
    assert!(bench.sides[1].device.health().is_err());
    bench.close();
}
