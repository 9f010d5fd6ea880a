//! Our driver of the X722, and of its virtual functions, through everything that it can do, on our model:
//! the linter finds nothing, and `cargo xtask mutants` sees what it says of a driver with a seeded bug.

use crate::common::i40e::on;
use crate::{i40e_probe, i40e_vf_probe};
use testbed::i40e::DEVICE_X722;

#[test]
fn the_linter_finds_nothing_whatever_the_driver_is_asked_to_do() {
    on(DEVICE_X722, i40e_probe::the_linter_finds_nothing_whatever_the_driver_is_asked_to_do);
}

#[test]
fn nor_does_it_of_the_driver_of_virtual_functions() {
    on(DEVICE_X722, i40e_vf_probe::the_linter_finds_nothing_whatever_the_driver_is_asked_to_do);
}
