//! A driver of Linux's, unmodified, on two models of its NIC joined by a cable.
//!
//! One guest, two network namespaces, one NIC in each. What is looked at with any driver is
//! in `linux_pair.sh`, what with one of them in its own script; the linter's report of the
//! whole run up to the driver's own diagnosis is a check, too.

use std::path::Path;

use super::pf::Host;
use super::{Bench, Served};
use crate::Result;
use crate::vm::{Outcome, Vm};

/// What scripts are made of.
const COMMON: &str = include_str!("linux_pair.sh");

/// A driver and its NIC.
pub struct Pair {
    /// Which model is served, and with what options.
    pub model: &'static [&'static str],
    /// Variables of the script.
    pub environment: String,
    /// What is done.
    pub script: &'static str,
    /// Rules of the linter that the driver breaks at a register, each with the
    /// reason why it works all the same beside it.
    pub explained: &'static [(&'static str, &'static str)],
    /// The guest has the first virtual function of each NIC instead, and our driver hosts it;
    /// its policy, as `ixora pf --vf` is given it.
    pub hosted: Option<&'static str>,
}

impl Pair {
    /// Boots the guest, and asks the linter.
    pub fn run(&self, bench: &Bench, name: &str) -> Result<Outcome> {
        let directory = bench.directory(name)?;
        let sockets = [directory.join("a.sock"), directory.join("b.sock")];
        let paths = sockets.each_ref().map(|path| path.display().to_string());
        let mut words = self.model.to_vec();
        words.extend(["--socket", &paths[0], "--socket", &paths[1], "--wire", "pair"]);
        let mut served = Served::start(bench.ixora(), &words, &directory.join("model.log"))?;
        let script = [COMMON, self.script].concat();
        let mut vm = Vm::new(&bench.guest, bench.log(name), &script);
        let mut hosts = Vec::new();
        for path in &paths {
            vm = match self.hosted {
                None => vm.served(Path::new(path)),
                Some(policy) => {
                    hosts.push(Host::start(bench.ixora(), path, policy)?);
                    vm.served(Path::new(&format!("{path}.vf0")))
                }
            };
        }
        vm.files.file("lab/environment", self.environment.as_bytes());
        let mut running = vm.told().start()?;
        if self.hosted.is_some() && running.says("LAB: hosts") {
            for host in &mut hosts {
                host.restart()?;
            }
            running.tell()?;
        }
        let ended = !running.says("LAB: judge"); // then the report is all there is
        let findings = served.findings(self.explained)?;
        if !ended {
            running.tell()?;
        }
        let mut outcome = running.wait()?;
        match findings.is_empty() {
            true => outcome.passed.push("linter: nothing found".to_owned()),
            false => outcome.failed.extend(findings.iter().map(|finding| format!("linter: {finding}"))),
        }
        Ok(outcome)
    }
}
