//! Stopping, restarting, opening again, and devices that ask for it or fall over:
//! every buffer is returned, no counter goes back, and each trouble has a name.

use port::{Link, Offload, Options, RxQueue as _, TxQueue as _};
use std::time::{Duration, Instant};

use crate::common::broken::{Broken, Faults};
use crate::common::limit::until;
use crate::common::virtio::{Bench, RINGS, Side, frame, model, offer, recv, sleepy, small_rings};
use driver::Error;
use driver::virtio::{Virtio, VirtioFault};
use memory::{Batch, TxOffload};
use model::chip::DeviceFault;
use port::Port;
use regs::virtio::feature::net;
use regs::virtio::pci::common::DEVICE_STATUS;
use testbed::Idle;
use testbed::inprocess::{spawn, while_stepping};

impl Bench {
    /// Restarts a port, and fills its rings again.
    fn restart(&mut self, at: usize) {
        let Side { device, rx, tx } = self.sides.remove(at);
        let restart = || device.restart(rx, tx);
        let (device, mut rx, tx) = while_stepping(&self.handles, restart).unwrap().unwrap().split();
        assert!(recv(&mut rx, &mut self.pool).is_empty());
        self.sides.insert(at, Side { device, rx, tx });
    }
}

fn long() -> Options {
    Options { max_frame: 9014, ..small_rings() }
}

#[test]
fn a_stopped_port_hears_nothing_and_still_sends() {
    for (name, ring) in RINGS {
        for options in [small_rings(), long(), Options { rx_checksum: Offload::On, ..small_rings() }] {
            let mut bench = Bench::pair(&sleepy(offer(ring, 0)), &options);
            for round in 0..3 {
                (0..5).for_each(|n| bench.send(0, &frame(n, 100)));
                bench.run_until_idle();
                bench.sides[1].device.stop().unwrap();
                assert_eq!(bench.recv(1).len(), 5, "{name}: what came before is handed out");
                assert_eq!(bench.cross_plain(&frame(0, 200)).len(), 0, "{name}: stopped");
                bench.send(1, &frame(1, 300));
                bench.run_until_idle();
                assert_eq!(bench.recv(0).len(), 1, "{name}: sending goes on");
                assert_eq!(bench.counter(1, "rx_stopped"), round + 1);
                bench.sides[1].device.start().unwrap();
                assert_eq!(bench.cross_plain(&frame(2, 400)), [frame(2, 400)], "{name}: started");
            }
            bench.finish();
        }
    }
}

#[test]
fn a_start_within_a_long_frame_begins_with_the_next() {
    for (name, ring) in RINGS {
        let mut bench = Bench::pair(&model(offer(ring, 0)), &long());
        bench.sides[1].device.stop().unwrap();
        assert!(bench.recv(1).is_empty());
        // Five buffers each: a burst ends within one.
        for n in 0..51 {
            bench.send(0, &frame(n, 9000));
            bench.run_until_idle();
        }
        let mut batch = Batch::default();
        assert_eq!(bench.sides[1].rx[0].recv(&mut bench.pool, &mut batch), 0);
        bench.sides[1].device.start().unwrap();
        let rest = bench.recv(1).len();
        assert_eq!(rest as u64 + bench.counter(1, "rx_stopped"), 51, "{name}");
        assert_eq!(bench.cross_plain(&frame(7, 5000)), [frame(7, 5000)], "{name}");
        assert_eq!(bench.counter(1, "rx_bad_descriptor"), 0, "{name}");
        bench.finish();
    }
}

#[test]
fn a_restart_keeps_buffers_and_counters() {
    for (name, ring) in RINGS {
        for options in [small_rings(), long(), Options { rx_queues: 2, ..small_rings() }] {
            let mut bench = Bench::pair(&sleepy(offer(ring, 0)), &options);
            let (mut before, mut sent) = ((0, 0), 0);
            for round in 1..4 {
                for n in 0..40 {
                    assert_eq!(bench.cross_plain(&frame(n, 60 + n)).len(), 1, "{name}: round {round}");
                }
                // Some are received and not taken, some queued and not sent.
                (0..7).for_each(|n| bench.send(0, &frame(n, 80)));
                bench.run_until_idle();
                (0..3).for_each(|n| bench.send(1, &frame(n, 90)));
                bench.restart(1);
                let now = (bench.counter(1, "rx_packets"), bench.counter(1, "tx_packets"));
                assert_eq!(now, (40 * round, 3 * round), "{name}: was {before:?}");
                before = now;
                bench.run_until_idle();
                assert!(bench.recv(1).is_empty());
                // The device had until its reset to send them.
                sent += bench.recv(0).len() as u64;
                assert_eq!(bench.counter(1, "tx_unsent") + sent, 3 * round, "{name}");
                // All but what the rings hold is in the pool.
                let held = bench.pool.capacity() - bench.pool.available();
                assert!(held <= 4 * 256 + 40, "{name}: {held}");
            }
            bench.finish();
        }
    }
}

#[test]
fn a_restart_under_traffic() {
    for (name, ring) in RINGS {
        let options = Options { rx_queues: 2, ..long() };
        let wires = ["gen:flows=64,size=64-1518+sink:check"];
        let mut bench = Bench::open(&wires, &model(offer(ring, 0)), &options);
        for _ in 0..5 {
            let stepper = spawn(&bench.handles, None, Idle::Yield).unwrap();
            forward(&mut bench, 2000);
            drop(stepper);
            bench.restart(0);
        }
        bench.handles[0].with_cable(|cable| cable.stop_source());
        bench.run_until_idle();
        let reports = bench.finish();
        let check = reports[0].wire.check.as_ref().unwrap();
        assert_eq!((check.corrupt, check.duplicated), (0, 0), "{name}: {check:?}");
    }
}

/// Sends back what comes until so many have come.
fn forward(bench: &mut Bench, wanted: usize) {
    let (mut batch, mut moved) = (Batch::default(), 0);
    let Side { rx, tx, .. } = &mut bench.sides[0];
    until("packets to send back", || {
        for (rx, tx) in rx.iter_mut().zip(&mut *tx) {
            moved += rx.recv(&mut bench.pool, &mut batch);
            tx.send(&mut bench.pool, &mut batch);
            bench.pool.free_batch(&mut batch);
        }
        moved >= wanted
    });
}

fn fault<E>(error: E) -> VirtioFault
where
    Error: TryFrom<E, Error: std::fmt::Debug>,
{
    match Error::try_from(error).unwrap() {
        Error::Virtio(fault) => fault,
        other => panic!("{other}"),
    }
}

#[test]
fn a_device_that_asks_for_a_reset_is_heard_and_restarted() {
    for (name, ring) in RINGS {
        let mut bench = Bench::pair(&sleepy(offer(ring, 0)), &small_rings());
        for n in 0..20 {
            assert_eq!(bench.cross_plain(&frame(n, 100)).len(), 1);
        }
        assert!(bench.handles[1].inject(DeviceFault::NeedsReset));
        let error = fault(bench.sides[1].device.health().unwrap_err());
        assert!(matches!(error, VirtioFault::NeedsReset { .. }), "{name}: {error}");
        assert!(error.to_string().contains("restart"), "{error}");
        // Nothing moves, nothing hangs.
        for n in 0..600 {
            bench.send(0, &frame(n, 100));
            bench.run_until_idle();
            bench.try_send(1, 0, &frame(n, 100), TxOffload::default());
            assert!(bench.recv(1).is_empty(), "{name}");
        }
        let refused = bench.sides[1].device.set_promiscuous(false).unwrap_err();
        assert!(matches!(fault(refused), VirtioFault::NeedsReset { .. }), "{name}");
        let waiting = bench.sides[1].tx[0].clean(&mut bench.pool) as u64;
        assert_eq!((waiting, bench.counter(1, "tx_packets")), (256, 256), "{name}: a full ring");
        bench.restart(1);
        assert_eq!(bench.counter(1, "tx_unsent"), 256, "{name}");
        bench.sides[1].device.health().unwrap();
        assert_eq!(bench.cross_plain(&frame(1, 100)), [frame(1, 100)], "{name}");
        bench.finish();
    }
}

#[test]
fn a_device_that_resets_itself_is_told_from_one_that_works() {
    for (name, ring) in RINGS {
        let mut bench = Bench::pair(&model(offer(ring, 0)), &small_rings());
        for n in 0..20 {
            assert_eq!(bench.cross_plain(&frame(n, 100)).len(), 1);
        }
        bench.handles[1].inject(DeviceFault::Reset);
        let error = fault(bench.sides[1].device.health().unwrap_err());
        assert_eq!(
            error,
            VirtioFault::WasReset { device: bench.sides[1].device.name().to_owned(), status: 0 },
            "{name}"
        );
        for n in 0..600 {
            bench.send(0, &frame(n, 100));
            bench.run_until_idle();
            bench.try_send(1, 0, &frame(n, 100), TxOffload::default());
            assert!(bench.recv(1).is_empty(), "{name}");
        }
        let begin = Instant::now();
        let refused = bench.sides[1].device.set_promiscuous(false).unwrap_err();
        assert!(matches!(fault(refused), VirtioFault::WasReset { .. }), "{name}");
        assert!(begin.elapsed() < Duration::from_secs(1), "{name}: no waiting for what is dead");
        // Closed and opened again, instead of restarted.
        let gone = bench.sides.remove(1);
        bench.meanwhile(|_| drop(gone));
        let side = bench.reopen(1, &small_rings());
        bench.sides.push(side);
        assert_eq!(bench.cross_plain(&frame(1, 100)), [frame(1, 100)], "{name}");
        bench.finish();
    }
}

#[test]
fn an_error_between_command_and_answer_ends_the_command() {
    for injected in [DeviceFault::NeedsReset, DeviceFault::Reset] {
        let mut bench = Bench::pair(&model(offer(0, 0)), &small_rings());
        // The device is not stepped, so no command is answered before.
        let handle = bench.handles[1].clone();
        let breaker = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            handle.inject(injected);
        });
        let begin = Instant::now();
        let ended = bench.sides[1].device.set_promiscuous(false);
        breaker.join().unwrap();
        // A register access steps the device: it may have answered before.
        if let Err(error) = ended {
            let error = fault(error);
            assert!(
                matches!(error, VirtioFault::NeedsReset { .. } | VirtioFault::WasReset { .. }),
                "{error}"
            );
        }
        assert!(begin.elapsed() < Duration::from_secs(1), "{injected:?}");
        bench.restart(1);
        assert_eq!(bench.cross_plain(&frame(1, 100)), [frame(1, 100)]);
        bench.finish();
    }
}

#[test]
fn the_port_names_what_its_device_did() {
    for injected in [DeviceFault::NeedsReset, DeviceFault::Reset] {
        let mut bench = Bench::open(&["loop"], &model(offer(0, 0)), &small_rings());
        let Side { device, rx, tx } = bench.sides.remove(0);
        let mut port = device;
        port.health().unwrap();
        bench.handles[0].inject(injected);
        let error = port.health().unwrap_err().to_string();
        let wanted = if injected == DeviceFault::Reset { "reset behind" } else { "asks for a reset" };
        assert!(error.contains(wanted), "{error}");
        assert!(port.rx_queue(0).is_none() && port.tx_queue(0).is_none(), "they were taken");
        bench.meanwhile(|_| drop((port, rx, tx)));
        let Side { device, rx, tx } = bench.reopen(0, &small_rings());
        let port = device;
        port.health().unwrap();
        bench.meanwhile(|_| drop((port, rx, tx)));
        bench.finish();
    }
}

#[test]
fn queues_go_on_when_the_port_is_dropped_first() {
    for (name, ring) in RINGS {
        let mut bench = Bench::open(&["gen:count=3000+sink:check"], &model(offer(ring, 0)), &small_rings());
        let Side { device, mut rx, mut tx } = bench.sides.remove(0);
        drop(device);
        let mut batch = Batch::default();
        for _ in 0..500 {
            rx[0].recv(&mut bench.pool, &mut batch);
            tx[0].send(&mut bench.pool, &mut batch);
            bench.handles[0].step_now();
        }
        bench.meanwhile(|_| drop((rx, tx)));
        let reports = bench.finish();
        assert_eq!(reports[0].wire.check.as_ref().unwrap().received, 3000, "{name}");
    }
}

#[test]
fn packets_that_were_handed_over_are_sent_before_a_queue_goes() {
    for (_, ring) in RINGS {
        let mut bench = Bench::pair(&sleepy(offer(ring, 0)), &small_rings());
        (0..100).for_each(|n| bench.send(0, &frame(n, 100 + n)));
        bench.meanwhile(|bench| drop(bench.sides[0].tx.pop()));
        bench.run_until_idle();
        assert_eq!(bench.recv(1).len(), 100);
        bench.finish();
    }
}

#[test]
fn an_empty_pool_is_counted_and_recovered_from() {
    for (name, ring) in RINGS {
        let model = model(offer(ring, net::MRG_RXBUF));
        let mut bench = Bench::with_faults(&["gen:count=5000"], &model, &small_rings(), None, 100);
        assert!(bench.sides[0].rx[0].stats().no_buffer > 0, "{name}: a ring of 256 and a pool of 100");
        let mut held = Vec::new();
        for _ in 0..50 {
            bench.run_until_idle();
            held.extend(bench.recv(0));
        }
        assert_eq!((held.len(), bench.pool.available()), (100, 0), "{name}");
        drop(held);
        let mut received = 100;
        for _ in 0..500 {
            bench.run_until_idle();
            received += bench.recv(0).len();
        }
        assert_eq!(received, 5000, "{name}: a wire with backpressure loses nothing meanwhile");
        bench.finish();
    }
}

#[test]
fn a_port_opens_again_and_again_and_leaks_nothing() {
    let model = model(offer(0, 0));
    let options = Options { interrupts: true, rx_queues: 2, ..small_rings() };
    let mut bench = Bench::open(&["gen:flows=3+sink:check"], &model, &options);
    let mut mapped = Vec::new();
    for _ in 0..5 {
        mapped.push(bench.handles[0].report().mapped);
        let stepper = spawn(&bench.handles, None, Idle::Yield).unwrap();
        forward(&mut bench, 2000);
        drop(bench.sides.pop());
        drop(stepper);
        assert_eq!(bench.handles[0].report().mapped, (0, 0));
        assert_eq!(bench.pool.available(), bench.pool.capacity());
        let side = bench.reopen(0, &options);
        bench.sides.push(side);
    }
    assert!(mapped.iter().all(|it| *it == mapped[0]), "{mapped:?}");
    bench.handles[0].with_cable(|cable| cable.stop_source());
    bench.run_until_idle();
    bench.finish();
}

#[test]
fn a_device_that_does_not_come_out_of_reset_is_named_and_keeps_what_it_may_reach() {
    for (name, ring) in [RINGS[0], RINGS[3]] {
        let mut bench = Bench::open(&["loop"], &sleepy(offer(ring, 0)), &small_rings());
        let gone = bench.sides.remove(0);
        bench.meanwhile(|_| drop(gone));
        let (pci, faults) = Broken::new(bench.pcis[0].clone(), Faults::default());
        let open = || Virtio::open(pci, &bench.dma, small_rings());
        let (device, mut rx, tx) = while_stepping(&bench.handles, open).unwrap().unwrap().split();
        assert!(recv(&mut rx, &mut bench.pool).is_empty());
        let held = bench.pool.capacity() - bench.pool.available();
        assert_eq!(held, 256, "{name}: the receive ring");
        // The status reads as if the driver were ready, whatever is written.
        faults.lock().unwrap().stuck = vec![(DEVICE_STATUS, 0xFF, 0x0F)];
        let begin = Instant::now();
        let error = match bench.meanwhile(|_| device.restart(rx, tx)) {
            Err(error @ Error::Timeout { .. }) => error.to_string(),
            Err(other) => panic!("{name}: {other}"),
            Ok(_) => panic!("{name}: restarted"),
        };
        assert!(error.contains("does not come out of reset"), "{name}: {error}");
        assert!(begin.elapsed() < Duration::from_secs(10), "{name}");
        let kept = bench.pool.capacity() - bench.pool.available();
        assert_eq!(kept, held, "{name}: a device that may still run gets no buffer taken away");
    }
}

#[test]
fn a_device_that_is_gone_is_named_and_gives_its_buffers_back() {
    for (name, ring) in RINGS {
        let mut bench = Bench::open(&["loop"], &sleepy(offer(ring, 0)), &small_rings());
        let old = bench.sides.remove(0);
        bench.meanwhile(|_| drop(old));
        for restart in [false, true] {
            let (pci, faults) = Broken::new(bench.pcis[0].clone(), Faults::default());
            let open = || Virtio::open(pci, &bench.dma, small_rings());
            let (device, rx, tx) = while_stepping(&bench.handles, open).unwrap().unwrap().split();
            bench.sides.push(Side { device, rx, tx });
            bench.recv(0);
            bench.send(0, &frame(1, 100));
            bench.run_until_idle();
            assert_eq!(bench.recv(0).len(), 1, "{name}");
            faults.lock().unwrap().gone = true;
            let error = bench.sides[0].device.health().unwrap_err().to_string();
            assert!(error.contains("hung up"), "{name}: {error}");
            let begin = Instant::now();
            for n in 0..300 {
                bench.try_send(0, 0, &frame(n, 100), TxOffload::default());
                assert!(bench.recv(0).is_empty(), "{name}");
            }
            assert_eq!(bench.sides[0].device.link(), Link::DOWN, "{name}");
            assert!(bench.sides[0].device.set_promiscuous(false).is_err(), "{name}");
            let Side { device, rx, tx } = bench.sides.remove(0);
            if restart {
                let error = device.restart(rx, tx).err().unwrap().to_string();
                assert!(error.contains("hung up"), "{name}: {error}");
            } else {
                drop((device, rx, tx));
            }
            assert!(begin.elapsed() < Duration::from_secs(2), "{name}: no waiting for what is gone");
            assert_eq!(bench.pool.available(), bench.pool.capacity(), "{name}: every buffer is back");
            // The model itself is still there, and as the driver left it.
            bench.pcis[0].reset().unwrap();
        }
    }
}
