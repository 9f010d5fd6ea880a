//! DPDK's ixgbe driver, unmodified, on two 82599 models: `testpmd` in a guest, by
//! VFIO behind an IOMMU.
//!
//! The host talks to testpmd over a serial line and holds the other ends of both
//! cables, so that every frame, every counter of the driver and the models' own
//! accounting can be compared. Registers are trapped in one scenario, so that all of
//! them behave as the datasheet has it, and mapped in the other. What the linter finds up to
//! the end is a check, too.

mod basics;
mod filters;
mod flood;
mod frames;
mod offloads;
mod prompt;
mod rig;

use std::path::Path;

use super::{Bench, Served};
use crate::Result;
use crate::guest;
use crate::packages::{DPDK, Packages, Suite};
use crate::traffic::Cable;
use crate::vm::{Outcome, Vm};
use prompt::Prompt;
use rig::Rig;

const SCRIPT: &str = include_str!("dpdk_ixgbe.sh");

/// What testpmd loads only when it needs it.
const LATER: &[&str] =
    &["usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_mempool_ring.so", "lib/x86_64-linux-gnu/libgcc_s.so.1"];

/// Rules of the linter that DPDK 22.11 breaks at a register, each with the reason
/// why it works all the same.
const EXPLAINED: &[(&str, &str)] = &[
    // Section 8.2.3.1.1 wants 1 ms without any access after CTRL.RST. The driver
    // reads STATUS at once to push the posted write out, and CTRL each
    // microsecond until the bit is clear. Then it waits for 50 ms.
    ("ResetNotWaited", "STATUS"),
    ("ResetNotWaited", "CTRL"),
    // It looks at the link a second or four after an interrupt said that it changed,
    // from a thread of its own, and does not cancel that when a port stops or closes
    // (ixgbe_dev_interrupt_delayed_handler): this may fall into a reset.
    ("ResetNotWaited", "EIMC"),
    ("ResetNotWaited", "EICR"),
    ("ResetNotWaited", "LINKS"),
    ("ResetNotWaited", "ESDP"),
    ("ResetNotWaited", "EIMS"),
    // 8.2.3.7.1 wants RXEN off while FCTRL changes. The driver switches
    // promiscuous mode under traffic; a frame or two may be filtered by the old rule.
    ("FilterChangedWhileReceiving", "FCTRL"),
    // Bits 12 and 13, pause frames on the 82598: the driver shares the code.
    ("ReservedBitsWritten", "FCTRL"),
    // 4.6.3.1 has interrupts masked once more after a reset. The driver does so
    // only before; the reset itself leaves none enabled.
    ("InterruptsBeforeReset", "RXCTRL"),
    // 4.6.3.2 has the driver wait for EEC.AUTO_RD. This one waits for 50 ms after
    // the reset and does not look.
    ("EepromNotAwaited", "EEC"),
    // 4.6.7.1 wants bit 12 cleared. The driver clears the bits of relaxed ordering
    // (13 and 15) and leaves this one as the reset does.
    ("DcaRxctrlBitSet", "DCA_RXCTRL"),
    // 7.1.9 has heads written before a queue is enabled. The driver writes 0 over
    // the 0 that is there once it is.
    ("HeadWrittenWhileEnabled", "RDH"),
    ("HeadWrittenWhileEnabled", "TDH"),
    // Counters of MACsec (LSECTXUT to LSECTXOCTP, LSECRXUT to LSECRXUNSA), read
    // with all others. The model has no MACsec, the register table none of it.
    ("UnknownRegister", "0x08a"),
    ("UnknownRegister", "0x08f"),
];

/// Each access reaches the model: all there is to check.
pub fn all(bench: &Bench, name: &str) -> Result<Outcome> {
    run(bench, name, &["--trap"], |rig| {
        rig.start("--rxq=1 --txq=1 --forward-mode=io")?;
        basics::up(rig)?;
        rig.say("start")?;
        basics::counted(rig, 60_000)?;
        basics::restarted(rig)?;
        basics::darkened(rig)?;
        flood::flooded(rig)?;
        filters::addresses(rig)?;
        rig.quit("testpmd ends well")?;
        rig.start("--rxq=2 --txq=2 --rss-udp --max-pkt-len=9018 --enable-scatter --tx-offloads=0x8000")?;
        rig.say("start")?;
        offloads::spread(rig)?;
        offloads::scattered(rig);
        offloads::stripped(rig)?;
        filters::vlans(rig)?;
        offloads::inserted(rig)?;
        rig.quit("testpmd with two queues ends well")?;
        rig.start(
            "--forward-mode=csum --max-pkt-len=9018 --enable-rx-cksum --enable-scatter --tx-offloads=0x802e",
        )?;
        rig.stopped(&["csum set ip hw 1", "csum set udp hw 1", "csum set tcp hw 1"])?;
        offloads::checksums(rig)?;
        offloads::segmented(rig)?;
        rig.quit("testpmd with checksums ends well")
    })
}

/// The pages of the queues are mapped: many frames through them. A backplane's
/// adapter, which has no module.
pub fn mapped(bench: &Bench, name: &str) -> Result<Outcome> {
    run(bench, name, &["--device-id", "10f7"], |rig| {
        rig.start("--rxq=1 --txq=1 --forward-mode=io")?;
        basics::up(rig)?;
        rig.say("start")?;
        basics::forward(rig, "mapped", 250_000);
        basics::restarted(rig)?;
        rig.quit("testpmd ends well")
    })
}

/// Boots the guest and lets `checks` talk to testpmd.
fn run(
    bench: &Bench,
    name: &str,
    words: &[&str],
    checks: impl FnOnce(&mut Rig<'_>) -> Result<()>,
) -> Result<Outcome> {
    let directory = bench.directory(name)?;
    let cables = [Cable::new(&directory, "a")?, Cable::new(&directory, "b")?];
    let sockets = ["a", "b"].map(|name| directory.join(format!("{name}.sock")));
    let mut served = serve(bench, &directory, &cables, words)?;
    let line = directory.join("line");
    let mut running = guest(bench, name, &sockets, &line)?.start()?;
    if !running.says("LAB: ready") {
        return running.wait();
    }
    let mut prompt = Prompt::connect(&line, directory.join("testpmd.log"))?;
    let (passed, failed) = (Vec::new(), Vec::new());
    let mut rig =
        Rig { prompt: &mut prompt, cables: &cables, served: &mut served, markers: 0, passed, failed };
    let talked = checks(&mut rig);
    let Rig { passed, mut failed, .. } = rig;
    if talked.is_err() {
        let _ = prompt.quit(); // or it would keep the guest until its time is over
    }
    failed.extend(talked.err().map(|error| error.to_string()));
    let findings = served.findings(EXPLAINED)?;
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
fn serve(bench: &Bench, directory: &Path, cables: &[Cable; 2], words: &[&str]) -> Result<Served> {
    let mut all = vec!["82599".to_owned()];
    for (name, cable) in ["a", "b"].iter().zip(cables) {
        let socket = directory.join(format!("{name}.sock")).display().to_string();
        all.extend(["--socket".to_owned(), socket, "--wire".to_owned(), cable.wire()]);
    }
    let all: Vec<&str> = all.iter().map(String::as_str).chain(words.iter().copied()).collect();
    Served::start(bench.ixora(), &all, &directory.join("model.log"))
}

/// A guest with testpmd, an IOMMU, both devices and a second serial line.
fn guest<'a>(bench: &'a Bench, name: &str, sockets: &[std::path::PathBuf; 2], line: &Path) -> Result<Vm<'a>> {
    let vm = Vm::new(&bench.guest, bench.log(name), SCRIPT);
    let mut vm = vm.served(&sockets[0]).served(&sockets[1]).line(line);
    (vm.iommu, vm.memory_mib) = (true, 768);
    let tree = Packages::open()?.tree(DPDK, Suite::BOOKWORM)?;
    guest::tree_program(&mut vm.files, &tree, "usr/bin/dpdk-testpmd")?;
    for file in LATER {
        vm.files.copy(file, &tree.file(file)?)?;
    }
    Ok(vm)
}
