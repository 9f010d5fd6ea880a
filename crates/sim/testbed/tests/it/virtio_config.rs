//! A configuration that changes while packets run: the link, the MTU, the number
//! of queue pairs; and one that changes while it is read.

use crate::common::virtio::{Bench, RINGS, Side, frame, model, offer, sleepy, small_rings};
use driver::Error;
use driver::virtio::{Virtio, VirtioFault};
use memory::TxOffload;
use model::chip::DeviceFault;
use model::virtio::{OTHER_MAC, OTHER_SPEED};
use port::{Link, Options, Port as _};
use regs::virtio::feature::net;
use testbed::inprocess::while_stepping;
use testbed::ixgbe;

#[test]
fn a_link_that_flaps_is_seen_and_traffic_comes_back() {
    for (name, ring) in RINGS {
        let wires = ["gen:rate=100k+sink+fault:flap=1s/300ms"];
        let mut bench = Bench::open(&wires, &model(offer(ring, 0)), &small_rings());
        let begin = 20_000_000_000; // later than opening can have taken
        let (mut seen, mut received) = (Vec::new(), [0_u64; 2]);
        for tick in 0..30_000 {
            bench.handles[0].step(begin + tick * 100_000);
            let got = bench.recv(0).len() as u64;
            let link = bench.sides[0].device.link();
            if seen.last() != Some(&link) {
                seen.push(link);
            }
            received[usize::from(link.up)] += got;
            if tick % 500 == 0 {
                bench.try_send(0, 0, &frame(1, 100), TxOffload::default());
            }
        }
        let (up, down) = (Link::up(10_000), Link::DOWN);
        assert!(seen.len() >= 5 && seen.iter().all(|link| [up, down].contains(link)), "{name}: {seen:?}");
        assert!(received[1] > 100_000 && received[0] < 500, "{name}: {received:?}");
        assert!(bench.counter(0, "config_changes") >= seen.len() as u64 - 1, "{name}");
        let reports = bench.finish();
        assert!(reports[0].drops["tx_link_down"] > 0, "{name}");
    }
}

#[test]
fn without_a_status_field_the_link_is_always_up() {
    let without = offer(0, net::STATUS | net::SPEED_DUPLEX);
    let bench = Bench::open(&["sink+fault:flap=1s/900ms"], &model(without), &small_rings());
    for tick in 0..30 {
        bench.handles[0].step(20_000_000_000 + tick * 100_000_000);
        assert_eq!(bench.sides[0].device.link(), Link::up(0));
    }
    bench.finish();
}

#[test]
fn other_numbers_in_the_configuration_change_nothing_while_packets_run() {
    for (name, ring) in RINGS {
        let options = Options { rx_queues: 2, ..small_rings() };
        let mut bench = Bench::pair(&sleepy(offer(ring, 0)), &options);
        let before = bench.counter(1, "config_changes");
        let changes = [
            DeviceFault::Mtu(68),
            DeviceFault::Pairs(1),
            DeviceFault::Pairs(0),
            DeviceFault::Mtu(0),
            DeviceFault::Pairs(9),
        ];
        for (n, change) in (1..).zip(changes) {
            bench.handles[1].inject(change);
            for queue in 0..2 {
                assert!(bench.try_send(1, queue, &frame(n, 1500), TxOffload::default()));
            }
            bench.run_until_idle();
            assert_eq!(bench.recv(0).len(), 2, "{name}: {change:?}");
            assert_eq!(bench.cross_plain(&frame(n, 1500)), [frame(n, 1500)], "{name}: {change:?}");
            assert_eq!(bench.counter(1, "config_changes"), before + n as u64, "{name}");
        }
        // Whoever opens it next is told.
        bench.handles[1].inject(DeviceFault::Pairs(1));
        let Side { device, rx, tx } = bench.sides.pop().unwrap();
        let restarted = while_stepping(&bench.handles, || device.restart(rx, tx)).unwrap();
        let device = bench.handles[1].report().chip;
        let wanted = VirtioFault::QueuePairs { device: format!("model:{device}"), wanted: 2, pairs: 1 };
        assert_eq!(faulted(restarted), wanted, "{name}");
        bench.finish();
    }
}

fn faulted<T, E>(result: Result<T, E>) -> VirtioFault
where
    Error: TryFrom<E, Error: std::fmt::Debug>,
{
    match result.map_err(|error| Error::try_from(error).unwrap()) {
        Err(Error::Virtio(fault)) => fault,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it worked"),
    }
}

#[test]
fn what_is_read_is_of_one_moment() {
    let bench = Bench::open(&["sink"], &model(offer(0, 0)), &small_rings());
    let mut seen = std::collections::BTreeSet::new();
    for accesses in (1..40).chain([90, 91]) {
        bench.handles[0].inject(DeviceFault::Unsettled(accesses));
        let Link { up, speed_mbps: speed, .. } = bench.sides[0].device.link();
        assert!(up, "{accesses}");
        assert!([10_000, OTHER_SPEED].contains(&speed), "{accesses}: {speed:#x}");
        seen.insert(speed);
    }
    assert_eq!(seen.len(), 2);
    bench.finish();
}

#[test]
fn an_address_is_not_half_of_one_and_half_of_another() {
    let mut bench = Bench::open(&["sink"], &model(offer(0, 0)), &small_rings());
    let mut seen = std::collections::BTreeSet::new();
    for accesses in 1..40 {
        let old = bench.sides.pop().unwrap();
        bench.meanwhile(|_| drop(old));
        bench.handles[0].inject(DeviceFault::Unsettled(accesses));
        let side = bench.reopen(0, &small_rings());
        let mac = side.device.mac();
        assert!([ixgbe::mac(0), OTHER_MAC].contains(&mac), "{accesses}: {mac:x?}");
        seen.insert(mac);
        bench.sides.push(side);
    }
    assert_eq!(seen.len(), 2);
    bench.finish();
}

#[test]
fn a_configuration_that_never_rests_is_a_fault_with_a_name() {
    let mut bench = Bench::open(&["loop"], &model(offer(0, 0)), &small_rings());
    bench.handles[0].inject(DeviceFault::Unsettled(u32::MAX));
    assert_eq!(bench.sides[0].device.link(), Link::DOWN, "nothing is known");
    let unstable = |fault| matches!(fault, VirtioFault::ConfigUnstable { tries: 100, .. });
    assert!(unstable(faulted(bench.sides[0].device.health())));
    // Packets go on; it cannot be opened anew before it rests.
    bench.send(0, &frame(1, 100));
    bench.run_until_idle();
    assert_eq!(bench.recv(0).len(), 1);
    let old = bench.sides.pop().unwrap();
    bench.meanwhile(|_| drop(old));
    let open = || Virtio::open(bench.pcis[0].clone(), &bench.dma, small_rings());
    assert!(unstable(faulted(while_stepping(&bench.handles, open).unwrap())));
    bench.handles[0].inject(DeviceFault::Unsettled(0));
    let side = bench.reopen(0, &small_rings());
    bench.sides.push(side);
    bench.finish();
}
