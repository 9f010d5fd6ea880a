//! Linux's ixgbevf driver, unmodified, on the virtual functions of two 82599 models joined by a
//! cable, which our driver hosts.

use super::Bench;
use super::linux_pair::Pair;
use crate::Result;
use crate::vm::Outcome;

/// Rules of the linter that Linux 6.1 breaks at a register, each with the reason why it works all the
/// same.
const EXPLAINED: &[(&str, &str)] = &[
    // 7.1.6.1 has the done bit written as zero. The driver clears the length alone, and waits for
    // that instead of the bit, as ixgbe does.
    ("DoneBitInRxDescriptor", "RDT"),
    // 4.6.7 has a queue enabled before its tail moves. When another host comes the function is reset
    // under the driver, which hears of it within two seconds and sends until then.
    ("TailBeforeEnable", "TDT"),
];

/// Each receives all multicast frames if its driver asks for them.
const POLICY: &str = "0,trust";

/// A virtual function of each card.
pub fn hosted(bench: &Bench, name: &str) -> Result<Outcome> {
    let script = include_str!("linux_ixgbevf.sh");
    let pair = Pair {
        model: &["82599", "--vfs", "1"],
        environment: String::new(),
        script,
        explained: EXPLAINED,
        hosted: Some(POLICY),
        resets: 0,
    };
    pair.run(bench, name)
}
