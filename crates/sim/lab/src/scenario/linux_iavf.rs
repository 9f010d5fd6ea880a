//! Linux's iavf driver, unmodified, on the virtual functions of two XL710 models, or X722s, joined by a
//! cable, which our driver hosts.

use super::Bench;
use super::linux_pair::Pair;
use crate::Result;
use crate::vm::Outcome;

/// Rules of the linter that Linux 6.1 breaks at a register, each with the reason why it works all the
/// same.
const EXPLAINED: &[(&str, &str)] = &[
    // A reset by the host comes at any time: the driver moves the tail of a queue that has just been
    // turned off, and sees the reset later.
    ("AdminQueueOff", "VF_ATQT1"),
    ("AdminQueueOff", "VF_ARQT1"),
];

/// Each receives all frames if its driver asks for them.
const POLICY: &str = "0,trust";

/// A virtual function of each card.
pub fn hosted(bench: &Bench, name: &str) -> Result<Outcome> {
    run(bench, name, &["xl710", "--vfs", "1"], "40000Mb/s")
}

/// Likewise of X722s.
pub fn x722(bench: &Bench, name: &str) -> Result<Outcome> {
    run(bench, name, &["xl710", "--device-id", "37d0", "--vfs", "1"], "10000Mb/s")
}

fn run(bench: &Bench, name: &str, model: &'static [&'static str], speed: &str) -> Result<Outcome> {
    let script = include_str!("linux_iavf.sh");
    let pair = Pair {
        model,
        environment: format!("SPEED={speed}\n"),
        script,
        explained: EXPLAINED,
        hosted: Some(POLICY),
        resets: 2,
    };
    pair.run(bench, name)
}
