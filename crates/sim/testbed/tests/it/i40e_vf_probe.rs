//! Our driver of the XL710's virtual functions through everything that it can do, on our model: the
//! linter finds nothing, and `cargo xtask mutants` sees what it says of a driver with a seeded bug. Two
//! virtual functions of one card send to each other; our driver hosts them.

use crate::common::frames::{self, Sums, payload};
use crate::common::i40e_vf::{Pair, models, pair};
use crate::common::probe::{Clock, Phase, all, overfull, phases, ports, recv, traffic_once};
use crate::common::vf::send;
use memory::{Batch, TxOffload};
use port::{Filters as _, Options, Port as _, TxQueue as _};
use regs::iavf::VFGEN_RSTAT;
use testbed::inprocess::while_stepping;

// No register tells a virtual function whether a queue runs: the physical function answers when it does.
ports!(Pair, [VFGEN_RSTAT::AT; 2], |_: &[&str]| models(2), pair);

/// What is asked of the physical function.
fn filters(bench: &mut Pair, clock: &mut Clock) {
    for round in 0..3 {
        let port = &mut bench.sides[1].device;
        let changed = while_stepping(&bench.handles, || -> port::Result<()> {
            port.add_mac([0x02, 0, 0, 0, 0, round])?;
            port.add_mac([0x01, 0, 0x5E, 0, 0, round])?;
            port.set_promiscuous(round % 2 == 0)?;
            port.set_all_multicast(round % 2 == 1)?;
            port.set_vlan(u16::from(round) + 1, true)?;
            port.set_vlan_filter(round % 2 == 0)?;
            port.remove_mac([0x02, 0, 0, 0, 0, round])?;
            port.stats();
            Ok(())
        });
        changed.unwrap().unwrap();
        traffic_once(bench, clock);
    }
}

/// Flows over all queues, from each of them.
fn all_queues(bench: &mut Pair, clock: &mut Clock) {
    for n in 0..64u8 {
        let mut frame = frames::udp4(&payload(100), Sums::Full);
        frame[29] = n; // the address
        let Pair { sides, pool, .. } = bench;
        let queue = usize::from(n) % sides[0].tx.len();
        send(&mut sides[0].tx[queue], pool, &frame, TxOffload::default());
        clock.run(bench, 8, 10_000);
        recv(bench);
    }
}

/// More frames than the ring has descriptors, of which the device sees none before the ring is full.
fn full_ring(bench: &mut Pair, clock: &mut Clock) {
    for _ in 0..4 {
        let mut batch = Batch::with_limit(100);
        for _ in 0..100 {
            let packet = bench.packet(&frames::udp4(&payload(60), Sums::Full), TxOffload::default());
            batch.push(packet);
        }
        let Pair { sides, pool, .. } = bench;
        (0..3).for_each(|_| _ = sides[0].tx[0].send(pool, &mut batch));
        pool.free_batch(&mut batch);
        clock.run(bench, 8, 10_000);
        recv(bench);
    }
}

/// The host resets a virtual function, and its driver is asked for something long after that.
fn reset(bench: &mut Pair, clock: &mut Clock) {
    traffic_once(bench, clock);
    let host = bench.sides[0].host.clone();
    while_stepping(&bench.handles, || host.polling.with(|host| host.reset(0))).unwrap().unwrap();
    clock.run(bench, 40, 1_000_000_000);
    let port = &mut bench.sides[0].device;
    let told = while_stepping(&bench.handles, || port.add_mac([0x02, 0, 0, 0, 0, 1])).unwrap();
    assert!(told.is_err(), "it was reset");
}

#[test]
pub fn the_linter_finds_nothing_whatever_the_driver_is_asked_to_do() {
    let several = || Options { rx_queues: 4, tx_queues: 4, interrupts: true, ..Options::default() };
    let mut phases = phases::<Pair>(several());
    // The port's link, what virtual functions do not have, and registers of queues.
    let left_out = ["rings that fill", "filters", "queues that take their time"];
    phases.retain(|phase| !left_out.contains(&phase.name));
    phases.push(Phase::new("addresses, VLANs and modes", Options::default(), filters));
    let short = Options { tx_ring: 128, ..Options::default() };
    phases.push(Phase::new("more than a ring holds", short, overfull));
    phases.push(Phase::new("all queues", several(), all_queues));
    let small = Options { rx_ring: 64, tx_ring: 64, ..Options::default() };
    phases.push(Phase::new("a full ring", small, full_ring));
    phases.push(Phase::new("a reset by the host", Options::default(), reset));
    all(&phases);
}
