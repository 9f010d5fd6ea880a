//! Frames through a guest: in at one NIC, out at the other, the host at both
//! ends. Every frame must come back in order and unchanged.

use std::time::Duration;

use super::Bench;
use crate::Result;
use crate::traffic::{Cable, Traffic, exchange};
use crate::vm::{Outcome, Vm};

/// Frames under way: below what a guest's rings hold, so that none may be lost.
const WINDOW: u32 = 64;
const BRIDGE: &str = include_str!("forward_bridge.sh");

/// Linux's own bridge and drivers: that what is measured with is right.
pub fn bridge(bench: &Bench, name: &str) -> Result<Outcome> {
    through(bench, name, "igb", BRIDGE, 100_000)
}

/// Boots a guest with two such devices and the script, and sends `count` frames
/// through it once it says `LAB: ready`.
fn through(bench: &Bench, name: &str, device: &str, script: &str, count: u32) -> Result<Outcome> {
    let directory = bench.directory(name)?;
    let cables = [Cable::new(&directory, "a")?, Cable::new(&directory, "b")?];
    let mut vm = Vm::new(&bench.guest, bench.log(name), script);
    for (n, cable) in cables.iter().enumerate() {
        vm = vm.nic(device, &cable.netdev(&format!("n{n}")), n);
    }
    vm.limit = Duration::from_secs(300);
    vm.files.file("lab/environment", format!("COUNT={count}\n").as_bytes());
    let mut running = vm.start()?;
    if !running.says("LAB: ready") {
        return running.wait();
    }
    let seen = exchange(&cables[0], &cables[1], count, Some(WINDOW));
    let mut outcome = running.wait()?;
    match seen == (Traffic { sent: count, back: count, ..Traffic::default() }) {
        true => outcome.passed.push(format!("{count} frames in order and unchanged")),
        false => outcome.failed.push(format!("of {count} frames: {seen:?}")),
    }
    Ok(outcome)
}
