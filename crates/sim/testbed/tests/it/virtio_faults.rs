//! Devices that write nonsense into their rings: each ends in an error with a name or
//! a counter, never in a panic, a hang or a buffer that is lost.

use port::{Offload, Options, Port as _, TxQueue as _};
use std::collections::BTreeMap;

use crate::common::virtio::{Bench, RINGS, frame, model, offer, sleepy, small_rings};
use driver::Error;
use driver::virtio::VirtioFault;
use memory::TxOffload;
use proptest::prelude::*;
use regs::virtio::feature::{self, net};
use testbed::fault::{Chance, Spec};

/// Without a control queue, which would be the first to be misled.
fn without_notifications(ring: u64) -> u64 {
    offer(ring, net::CTRL_VQ)
}

/// What became of a port whose device has faults.
struct End {
    fault: Option<VirtioFault>,
    bad: u64,
    told: BTreeMap<String, u64>,
    received: usize,
}

/// Runs packets both ways over misbehaving devices, whatever comes of it.
fn run(features: u64, options: &Options, spec: Spec, rounds: usize) -> [End; 2] {
    let mut bench = Bench::with_faults(&["pair", "pair"], &model(features), options, Some(spec), 4096);
    let mut received = [0; 2];
    for round in 0..rounds {
        for n in 0..16 {
            for from in 0..2 {
                let frame = frame(n, 60 + (round * 16 + n) % (options.max_frame - 59));
                bench.try_send(from, 0, &frame, TxOffload::default());
            }
        }
        bench.run_until_idle();
        for (at, received) in received.iter_mut().enumerate() {
            for packet in bench.recv(at) {
                assert!(packet.total_len() <= options.max_frame.max(memory::DATA_ROOM) + memory::DATA_ROOM);
                // Every byte of it can be read.
                assert!(
                    packet.segments().map(|s| s.iter().map(|&b| u64::from(b)).sum::<u64>()).sum::<u64>()
                        < u64::MAX
                );
                *received += 1;
            }
        }
    }
    let ends = [0, 1].map(|at| End {
        fault: match bench.sides[at].device.health().map_err(|error| Error::try_from(error).unwrap()) {
            Ok(()) => None,
            Err(Error::Virtio(fault)) => Some(fault),
            Err(other) => panic!("{other}"),
        },
        bad: bench.counter(at, "rx_bad_descriptor"),
        told: bench.handles[at].report().faults,
        received: received[at],
    });
    // A driver of such a device did nothing wrong itself.
    for report in bench.close() {
        assert_eq!(report.findings, []);
    }
    ends
}

fn spec(set: impl FnOnce(&mut Spec, Chance)) -> Spec {
    let mut spec = Spec { seed: 7, ..Spec::default() };
    set(&mut spec, Chance::new(0.02));
    spec
}

fn split(ring: u64) -> bool {
    ring & feature::RING_PACKED == 0
}

#[test]
fn a_buffer_that_no_ring_has_is_named() {
    for (name, ring) in RINGS {
        for end in
            run(without_notifications(ring), &small_rings(), spec(|spec, chance| spec.foreign = chance), 60)
        {
            let fault = end.fault.unwrap_or_else(|| panic!("{name}: {:?}", end.told));
            assert!(matches!(fault, VirtioFault::BufferId { id, .. } if id >= 0x8000), "{name}: {fault}");
            assert!(end.told["foreign"] >= 1);
        }
    }
}

#[test]
fn a_buffer_that_comes_again_is_named() {
    for (name, ring) in RINGS {
        for end in
            run(without_notifications(ring), &small_rings(), spec(|spec, chance| spec.twice = chance), 60)
        {
            assert!(end.told["twice"] >= 1, "{name}");
            match end.fault {
                Some(VirtioFault::BufferId { id, .. }) => assert!(id < 256, "{name}"),
                // In order, an id behind the last may stand for the whole ring.
                None => assert!(end.bad > 0, "{name}"),
                Some(other) => assert!(ring & feature::IN_ORDER != 0, "{name}: {other}"),
            }
        }
    }
}

#[test]
fn a_used_index_that_jumps_is_named() {
    for (name, ring) in RINGS.into_iter().filter(|&(_, ring)| split(ring)) {
        for end in
            run(without_notifications(ring), &small_rings(), spec(|spec, chance| spec.jump = chance), 60)
        {
            let fault = end.fault.unwrap_or_else(|| panic!("{name}: {:?}", end.told));
            assert!(matches!(fault, VirtioFault::UsedIndex { .. }), "{name}: {fault}");
        }
    }
}

#[test]
fn flags_of_another_lap_are_named() {
    for (name, ring) in RINGS.into_iter().filter(|&(_, ring)| !split(ring)) {
        for end in
            run(without_notifications(ring), &small_rings(), spec(|spec, chance| spec.lap = chance), 60)
        {
            let fault = end.fault.unwrap_or_else(|| panic!("{name}: {:?}", end.told));
            assert!(matches!(fault, VirtioFault::Lap { .. }), "{name}: {fault}");
        }
    }
}

#[test]
fn a_length_beyond_the_buffer_costs_its_packet_only() {
    for (name, ring) in RINGS {
        for max_frame in [1514, 9014] {
            let options = Options { max_frame, ..small_rings() };
            for end in
                run(without_notifications(ring), &options, spec(|spec, chance| spec.length = chance), 60)
            {
                assert_eq!(end.fault, None, "{name}: the queue goes on");
                assert!(end.bad > 0 && end.received > 500, "{name}: {} bad, {}", end.bad, end.received);
                assert!(end.told["length"] >= end.bad, "{name}");
            }
        }
    }
}

#[test]
fn a_correct_device_violates_no_rule() {
    for (name, ring) in RINGS {
        for end in run(without_notifications(ring), &small_rings(), Spec::default(), 60) {
            assert_eq!((end.fault, end.bad, end.received), (None, 0, 960), "{name}");
        }
    }
}

#[test]
fn a_wrong_answer_to_a_command_ends_its_opening() {
    for (name, ring) in RINGS {
        let spec = Spec { foreign: Chance::new(1.0), ..Spec::default() };
        let device = crate::common::virtio::devices(&["loop"], &sleepy(offer(ring, 0)), Some(spec)).remove(0);
        let (pci, handle) = testbed::inprocess::InProcess::new(device);
        let dma = memory::Dma::new(Default::default());
        let open = || driver::virtio::Virtio::open(pci, &dma, small_rings());
        let opened = testbed::inprocess::while_stepping(std::slice::from_ref(&handle), open).unwrap();
        match opened {
            Err(Error::Virtio(VirtioFault::BufferId { queue, .. })) => {
                assert_eq!(queue, 2, "{name}: commands")
            }
            Err(other) => panic!("{name}: {other}"),
            Ok(_) => panic!("{name}: opened"),
        }
        assert_eq!(handle.report().mapped, (0, 0), "{name}");
    }
}

#[test]
fn a_port_that_was_lied_to_works_again_once_restarted() {
    for (name, ring) in RINGS {
        let spec = Spec { foreign: Chance::new(0.002), seed: 3, ..Spec::default() };
        let mut bench = Bench::with_faults(
            &["loop"],
            &model(without_notifications(ring)),
            &small_rings(),
            Some(spec),
            2048,
        );
        let (mut restarts, mut received) = (0, 0);
        for n in 0..6000 {
            bench.try_send(0, 0, &frame(n, 100), TxOffload::default());
            bench.run_until_idle();
            received += bench.recv(0).len();
            bench.sides[0].tx[0].clean(&mut bench.pool);
            if bench.sides[0].device.health().is_err() {
                let crate::common::virtio::Side { device, rx, tx } = bench.sides.remove(0);
                let restart = || device.restart(rx, tx);
                let again = testbed::inprocess::while_stepping(&bench.handles, restart).unwrap();
                let (device, mut rx, tx) = again.unwrap().split();
                crate::common::virtio::recv(&mut rx, &mut bench.pool);
                bench.sides.push(crate::common::virtio::Side { device, rx, tx });
                restarts += 1;
            }
        }
        assert!(restarts > 3 && received > 4000, "{name}: {restarts} {received}");
        assert!(bench.counter(0, "rx_packets") >= received as u64, "{name}");
        bench.close();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_violations_end_in_a_name_or_a_counter(
        kind in 0..RINGS.len(),
        long: bool,
        checks: bool,
        chances in prop::array::uniform6(prop_oneof![3 => Just(0.0), 1 => 0.0..0.3_f64]),
        seed: u64,
    ) {
        let [jump, foreign, twice, lap, length, garbage] = chances.map(Chance::new);
        let spec = Spec { jump, foreign, twice, lap, length, garbage, seed, ..Spec::default() };
        let max_frame = if long { 9014 } else { 1514 };
        let features = without_notifications(RINGS[kind].1);
        let rx_checksum = if checks { Offload::On } else { Offload::Off };
        let options = Options { max_frame, rx_checksum, ..small_rings() };
        for end in run(features, &options, spec, 12) {
            // Of faults in what is used, none goes unnoticed for long: the next
            // one meets a queue that has stopped.
            let told: u64 = ["foreign", "lap"].iter().filter_map(|violation| end.told.get(*violation)).sum();
            if told > 2 {
                prop_assert!(end.fault.is_some() || end.bad > 0, "{:?}", end.told);
            }
            if end.told.is_empty() {
                prop_assert_eq!((end.fault, end.bad), (None, 0));
            }
        }
    }
}
