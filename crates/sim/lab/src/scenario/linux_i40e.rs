//! Linux's i40e driver, unmodified, on two XL710 models joined by a cable.

use super::Bench;
use super::linux_pair::Pair;
use crate::Result;
use crate::vm::Outcome;

/// Rules of the linter that Linux 6.1 breaks at a register or with a command, each with the
/// reason why it works all the same.
const EXPLAINED: &[(&str, &str)] = &[
    // The least segment size of packets that are cut, which Intel's headers give no name: the
    // driver lowers it where it is above 64.
    ("UnknownRegister", "0x0e64dc"),
    // The driver lends as many pages as its queues' contexts need, and writes the count of a whole
    // segment (512) all the same: near the end of memory those behind are none. No context lies there.
    ("SegmentUnmapped", "segment 0"),
];

/// As an adapter with QSFP+ cages.
pub fn qsfp(bench: &Bench, name: &str) -> Result<Outcome> {
    let script = include_str!("linux_i40e.sh");
    let (model, environment): (&[&str], _) = (&["xl710"], String::new());
    Pair { model, environment, script, explained: EXPLAINED, hosted: None }.run(bench, name)
}
