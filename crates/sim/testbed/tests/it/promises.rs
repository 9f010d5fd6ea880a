//! What our drivers of Intel's NICs say that a port can do, shown feature by feature on our models.

use crate::common::promises::all;
use crate::common::{i40e, i40e_vf, ixgbe_vf};
use port::Feature;

#[test]
fn what_the_driver_of_the_82599_says() {
    all::<crate::common::Bench>(&[
        (Feature::VlanFilter, "driver_filter.rs", "only_vlans_that_were_let_in_pass_the_filter"),
        (Feature::Interrupts, "driver_interrupt.rs", "a_sleeper_misses_nothing_whenever_packets_come"),
        (Feature::FixedBuffers, "driver_fixed.rs", "frames_cross_both_ways_in_order_and_changed"),
    ]);
}

#[test]
fn what_the_driver_of_the_82599s_virtual_functions_says() {
    all::<ixgbe_vf::Pair>(&[
        (Feature::VlanFilter, "ixgbe_vf.rs", "addresses_and_vlans_are_asked_for_and_go_again"),
        (Feature::Interrupts, "ixgbe_vf.rs", "a_frame_wakes_a_virtual_function_that_sleeps"),
    ]);
}

#[test]
fn what_the_driver_of_the_xl710_says() {
    all::<i40e::Bench>(&[
        (Feature::VlanFilter, "i40e_driver.rs", "vlans_are_filtered_for_each_address"),
        (Feature::Interrupts, "i40e_driver.rs", "a_queue_wakes_who_sleeps_on_it"),
        (Feature::FlowFilter, "i40e_flow.rs", "a_flow_comes_to_the_queue_that_it_is_led_to"),
    ]);
}

#[test]
fn what_the_driver_of_the_xl710s_virtual_functions_says() {
    all::<i40e_vf::Pair>(&[
        (Feature::VlanFilter, "i40e_vf.rs", "vlans_are_chosen_stripped_or_hidden"),
        (Feature::Interrupts, "i40e_vf.rs", "a_queue_wakes_who_sleeps_on_it"),
    ]);
}
