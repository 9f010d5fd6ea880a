//! Linux's i40e driver, unmodified, on two models of an XL710 or of an X722, joined by a cable.

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

/// Likewise of an X722.
const EXPLAINED_X722: &[(&str, &str)] = &[
    EXPLAINED[0],
    EXPLAINED[1],
    // The driver knows where an X722 has the addresses of IPv4 for the hash alone. Flow Director it
    // tells those of an XL710, while there are filters: these are replaced as their flows go on.
    ("FilterFieldsChanged", "PRTQF_FD_INSET"),
];

/// As an adapter with QSFP+ cages.
pub fn qsfp(bench: &Bench, name: &str) -> Result<Outcome> {
    pair(&["xl710"], "40000Mb/s", EXPLAINED).run(bench, name)
}

/// As an X722 with SFP+ cages: key and table of the hash by commands, more classes of packets.
pub fn x722(bench: &Bench, name: &str) -> Result<Outcome> {
    pair(&["xl710", "--device-id", "37d0"], "10000Mb/s", EXPLAINED_X722).run(bench, name)
}

fn pair(
    model: &'static [&'static str],
    speed: &str,
    explained: &'static [(&'static str, &'static str)],
) -> Pair {
    let (script, environment) = (include_str!("linux_i40e.sh"), format!("SPEED={speed}\n"));
    Pair { model, environment, script, explained, hosted: None, resets: 0 }
}
