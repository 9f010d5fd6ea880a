//! Linux's virtio_net driver, unmodified, on two virtio models joined by a
//! cable.
//!
//! One guest, two network namespaces, one NIC in each. The script in
//! `linux_virtio.sh` says what is looked at; the linter's report of the whole run
//! is the last check.

use std::time::Duration;

use super::{Bench, Served};
use crate::Result;
use crate::vm::{Outcome, Vm};

const SCRIPT: &str = include_str!("linux_virtio.sh");

/// Rules of the linter that Linux 6.1 breaks, each with the reason why it works
/// all the same: none.
const EXPLAINED: &[(&str, &str)] = &[];

/// With everything the model offers: packed rings, event indices, offloads.
pub fn run(bench: &Bench, name: &str) -> Result<Outcome> {
    let directory = bench.directory(name)?;
    let sockets = [directory.join("a.sock"), directory.join("b.sock")];
    let paths = sockets.each_ref().map(|path| path.display().to_string());
    let words = ["virtio-net", "--socket", &paths[0], "--socket", &paths[1], "--wire", "pair"];
    let mut served = Served::start(bench.ixora(), &words, &directory.join("model.log"))?;
    let mut vm = Vm::new(&bench.guest, bench.log(name), SCRIPT).served(&sockets[0]).served(&sockets[1]);
    vm.limit = Duration::from_secs(180);
    let mut outcome = vm.run()?;
    let findings = served.findings(EXPLAINED)?;
    match findings.is_empty() {
        true => outcome.passed.push("linter: nothing found".to_owned()),
        false => outcome.failed.extend(findings.iter().map(|finding| format!("linter: {finding}"))),
    }
    Ok(outcome)
}
