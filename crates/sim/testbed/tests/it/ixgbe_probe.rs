//! Our driver of the 82599 through everything that it can do, on our model: the linter finds
//! nothing, and `cargo xtask mutants` sees what it says of a driver with a seeded bug.

use crate::common::probe::{all, phases, ports};
use crate::common::{Bench, devices};
use port::Options;
use regs::ixgbe::{RXDCTL, TXDCTL};

ports!(Bench, [RXDCTL::at(0), TXDCTL::at(0)], devices, |parts, options| Bench::over(parts, options, 4096));

#[test]
fn the_linter_finds_nothing_whatever_the_driver_is_asked_to_do() {
    all(&phases::<Bench>(Options { rx_queues: 4, tx_queues: 2, ..Options::default() }));
}
