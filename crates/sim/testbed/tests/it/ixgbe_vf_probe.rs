//! Our driver of the 82599's virtual functions through everything that it can do, on our model:
//! the linter finds nothing, and `cargo xtask mutants` sees what it says of a driver with a seeded
//! bug. Two virtual functions of one card send to each other; our driver hosts them.

use crate::common::ixgbe_vf::{Pair, models, pair};
use crate::common::probe::{Clock, Phase, all, phases, ports, traffic_once};
use port::{Filters as _, Options};
use regs::ixgbevf::{VFRXDCTL, VFTXDCTL};
use testbed::inprocess::while_stepping;

ports!(Pair, [VFRXDCTL::at(0), VFTXDCTL::at(0)], |_: &[&str]| models(2), pair);

/// What is asked of the physical function.
fn filters(bench: &mut Pair, clock: &mut Clock) {
    for round in 0..3 {
        let port = &mut bench.sides[1].device;
        let changed = while_stepping(&bench.handles, || -> port::Result<()> {
            port.add_mac([0x02, 0, 0, 0, 0, round])?;
            port.add_mac([0x01, 0, 0x5E, 0, 0, round])?;
            port.set_vlan(u16::from(round) + 1, true)?;
            port.remove_mac([0x02, 0, 0, 0, 0, round]).map(|_| ())
        });
        changed.unwrap().unwrap();
        traffic_once(bench, clock);
    }
}

#[test]
fn the_linter_finds_nothing_whatever_the_driver_is_asked_to_do() {
    let mut phases = phases::<Pair>(Options { rx_queues: 4, tx_queues: 2, ..Options::default() });
    // The port's link, and modes that virtual functions do not have.
    phases.retain(|phase| !["rings that fill", "filters"].contains(&phase.name));
    phases.push(Phase::new("addresses and VLANs", Options::default(), filters));
    all(&phases);
}
