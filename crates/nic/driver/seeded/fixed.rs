//! Fixed buffers: the ring that is received into and sent from.

use super::{Bug, Reports, edit};

pub(super) const BUGS: &[Bug] = &[Bug {
    name: "fixed-nothing-sent-as-advanced",
    about: "What an output does not get is an advanced descriptor of length zero there.",
    linter: Reports("ZeroLengthDescriptor", "7.2.3.2"),
    test: "driver_fixed::a_frame_goes_to_the_outputs_that_are_named_and_as_long_as_is_said",
    demo: false,
    edits: &[edit(
        "intel/fixed.rs",
        "commands[n] |= sent;",
        "commands[n] |= if sent == 0 { 3 << 20 | 1 << 29 } else { sent };",
    )],
}];
