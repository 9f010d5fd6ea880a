//! DPDK's drivers, unmodified, on two models of their NIC: `testpmd` in a guest, by
//! VFIO behind an IOMMU.
//!
//! The host talks to testpmd over a serial line and holds the other ends of both
//! cables, so that every frame, every counter of the driver and the models' own
//! accounting can be compared. What the linter finds up to the end is a check, too.

mod basics;
mod filters;
mod flood;
mod frames;
pub mod i40e;
pub mod iavf;
pub mod ixgbe;
mod offloads;
mod prompt;
mod rig;

use std::path::{Path, PathBuf};

use super::pf::Host;
use super::{Bench, Served};
use crate::Result;
use crate::guest;
use crate::packages::{DPDK, Packages, Suite};
use crate::traffic::Cable;
use crate::vm::{Outcome, Vm};
use prompt::Prompt;
use rig::Rig;

const SCRIPT: &str = include_str!("dpdk.sh");

/// What testpmd loads only when it needs it.
const LATER: &[&str] =
    &["usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_mempool_ring.so", "lib/x86_64-linux-gnu/libgcc_s.so.1"];

/// A NIC and its driver.
struct Nic {
    /// The name of its model.
    model: &'static str,
    /// As DPDK calls its driver, and tells its speed.
    driver: &'static str,
    /// Where the driver is that testpmd does not bring along.
    plugin: Option<&'static str>,
    speed: &'static str,
    /// Its counters of all packets, and what it calls the largest size of both ways.
    packets: &'static [&'static str],
    largest: &'static str,
    /// Rules of the linter that the driver breaks at a register.
    explained: &'static [(&'static str, &'static str)],
    /// The guest has the first virtual function of each card instead, and our driver hosts it; its
    /// policy, as `ixora pf --vf` is given it.
    hosted: Option<&'static str>,
    /// Whether testpmd may crash while its last port is closed, or behind that.
    may_crash_at_exit: bool,
}

/// Boots the guest and lets `checks` talk to testpmd.
fn run(
    bench: &Bench,
    name: &str,
    nic: &Nic,
    words: &[&str],
    checks: impl FnOnce(&mut Rig<'_>) -> Result<()>,
) -> Result<Outcome> {
    let directory = bench.directory(name)?;
    let cables = [Cable::new(&directory, "a")?, Cable::new(&directory, "b")?];
    let sockets = ["a", "b"].map(|name| directory.join(format!("{name}.sock")));
    let mut served = serve(bench, &directory, &cables, nic, words)?;
    let host = |socket: &PathBuf| {
        let start = |policy| Host::start(bench.ixora(), &socket.display().to_string(), policy);
        nic.hosted.map(start).transpose()
    };
    let _hosts = sockets.iter().map(host).collect::<Result<Vec<Option<Host>>>>()?;
    let given = match nic.hosted {
        None => sockets,
        Some(_) => sockets.map(|socket| PathBuf::from(format!("{}.vf0", socket.display()))),
    };
    let line = directory.join("line");
    let mut running = guest(bench, name, nic, &given, &line)?.start()?;
    if !running.says("LAB: ready") {
        return running.wait();
    }
    let mut prompt = Prompt::connect(&line, directory.join("testpmd.log"))?;
    let mut rig = Rig {
        prompt: &mut prompt,
        cables: &cables,
        served: &mut served,
        may_crash_at_exit: nic.may_crash_at_exit,
        markers: 0,
        passed: Vec::new(),
        failed: Vec::new(),
    };
    let talked = checks(&mut rig);
    let Rig { passed, mut failed, .. } = rig;
    if talked.is_err() {
        let _ = prompt.quit(); // or it would keep the guest until its time is over
    }
    failed.extend(talked.err().map(|error| error.to_string()));
    let findings = served.findings(nic.explained)?;
    prompt.end()?;
    let mut outcome = running.wait()?;
    outcome.passed.extend(passed);
    outcome.failed.extend(failed);
    match findings.is_empty() {
        true => outcome.passed.push("linter: nothing found".to_owned()),
        false => outcome.failed.extend(findings.iter().map(|finding| format!("linter: {finding}"))),
    }
    Ok(outcome)
}

/// Two models, each with the host at the other end of its cable.
fn serve(bench: &Bench, directory: &Path, cables: &[Cable; 2], nic: &Nic, words: &[&str]) -> Result<Served> {
    let mut all = vec![nic.model.to_owned()];
    for (name, cable) in ["a", "b"].iter().zip(cables) {
        let socket = directory.join(format!("{name}.sock")).display().to_string();
        all.extend(["--socket".to_owned(), socket, "--wire".to_owned(), cable.wire()]);
    }
    let all: Vec<&str> = all.iter().map(String::as_str).chain(words.iter().copied()).collect();
    Served::start(bench.ixora(), &all, &directory.join("model.log"))
}

/// A guest with testpmd, an IOMMU, both devices and a second serial line.
fn guest<'a>(bench: &'a Bench, name: &str, nic: &Nic, sockets: &[PathBuf; 2], line: &Path) -> Result<Vm<'a>> {
    let vm = Vm::new(&bench.guest, bench.log(name), SCRIPT);
    let mut vm = vm.served(&sockets[0]).served(&sockets[1]).line(line);
    (vm.iommu, vm.memory_mib) = (true, 768);
    let tree = Packages::open()?.tree(DPDK, Suite::BOOKWORM)?;
    for program in nic.plugin.into_iter().chain(["usr/bin/dpdk-testpmd"]) {
        guest::tree_program(&mut vm.files, &tree, program)?;
    }
    for file in LATER {
        vm.files.copy(file, &tree.file(file)?)?;
    }
    Ok(vm)
}
