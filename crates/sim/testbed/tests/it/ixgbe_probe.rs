//! Our driver of the 82599 through everything that it can do, on our model: the linter finds
//! nothing, and `cargo xtask mutants` sees what it says of a driver with a seeded bug.

use crate::common::probe::{Clock, Phase, all, phases, ports};
use crate::common::{Bench, devices};
use driver::ixgbe::join;
use port::Options;
use regs::ixgbe::{RXDCTL, TXDCTL};
use testbed::inprocess::while_stepping;

ports!(Bench, [RXDCTL::at(0), TXDCTL::at(0)], devices, |parts, options| Bench::over(parts, options, 4096));

/// From the first port to the second in fixed buffers, every third frame to nowhere.
fn fixed_buffers(bench: &mut Bench, clock: &mut Clock) {
    let handles = bench.handles.clone();
    let [from, to] = &mut bench.sides[..] else { panic!("two ports") };
    let joined = while_stepping(&handles, || join(&mut from.device, [&mut to.device]));
    let (mut ring, mut frames) = (joined.unwrap().unwrap(), 0);
    for _ in 0..200 {
        clock.run(bench, 8, 10_000);
        ring.forward(32, |_, len| {
            frames += 1;
            [if frames % 3 == 0 { 0 } else { len }]
        });
    }
    while_stepping(&handles, || drop(ring)).unwrap();
    assert!(frames > 1000, "{frames} frames");
}

#[test]
fn the_linter_finds_nothing_whatever_the_driver_is_asked_to_do() {
    let mut phases = phases::<Bench>(Options { rx_queues: 4, tx_queues: 2, ..Options::default() });
    let options = Options { fixed_buffers: true, rx_ring: 64, ..Options::default() };
    let wires = ["gen:flows=16,size=64-1518+sink", "sink"];
    phases.push(Phase { wires, ..Phase::new("fixed buffers", options, fixed_buffers) });
    all(&phases);
}
