//! A driver of Linux's, unmodified, on two models of its NIC joined by a cable.
//!
//! One guest, two network namespaces, one NIC in each. What is looked at with any driver is
//! in `linux_pair.sh`, what with one of them in its own script; the linter's report of the
//! whole run up to the driver's own diagnosis is a check, too.

use std::path::Path;

use super::pf::Host;
use super::{Bench, Served};
use crate::Result;
use crate::vm::{Outcome, Running, Vm};

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
    /// How often its script asks, while packets are under way, that one of the hosts resets its own.
    pub resets: usize,
}

/// Why frames may be lost while virtual functions are reset, by the models' names: the rings are taken away
/// with what is in them, what waits is lost, what comes meanwhile is wanted by no filter, and a guest that is
/// behind gives no descriptors for what comes all at once afterwards.
const LOST_BY_RESETS: [&str; 6] =
    ["vf_reset", "rx_queue_disabled", "tx_disabled", "rx_vf_full", "rx_filtered_mac", "rx_no_descriptor"];

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
        let lost = self.reset(&mut running, &mut hosts, &mut served)?;
        let ended = !running.says("LAB: judge"); // then the report is all there is
        let findings = served.findings(self.explained)?;
        if !ended {
            running.tell()?;
        }
        let mut outcome = running.wait()?;
        outcome.failed.extend(lost);
        match findings.is_empty() {
            true => outcome.passed.push("linter: nothing found".to_owned()),
            false => outcome.failed.extend(findings.iter().map(|finding| format!("linter: {finding}"))),
        }
        Ok(outcome)
    }

    /// Has the hosts reset their virtual functions in turns, as often as the script asks for it, and others
    /// come in their place; what was lost meanwhile for another reason.
    fn reset(&self, running: &mut Running, hosts: &mut [Host], served: &mut Served) -> Result<Vec<String>> {
        let turns = hosts.iter().cycle().zip(1..=self.resets);
        let mut before = None;
        for (host, n) in turns {
            if !running.says(&format!("LAB: reset {n}")) {
                return Ok(Vec::new()); // the machine's end tells why
            }
            before = before.map_or_else(|| served.losses().map(Some), |known| Ok(Some(known)))?;
            host.reset();
            running.tell()?;
        }
        if self.hosted.is_some() && running.says("LAB: hosts") {
            for host in &mut *hosts {
                host.restart()?;
            }
            running.tell()?;
        }
        let Some(before) = before.filter(|_| running.says("LAB: no more resets")) else {
            return Ok(Vec::new());
        };
        let more = served.losses()?.into_iter().filter_map(|(name, count)| {
            let more = count - before.get(&name).copied().unwrap_or(0).min(count);
            (more > 0 && !LOST_BY_RESETS.contains(&name.as_str()))
                .then(|| format!("reset: lost {more} {name}"))
        });
        let more = more.collect();
        running.tell()?;
        Ok(more)
    }
}
