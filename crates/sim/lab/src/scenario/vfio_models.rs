//! Our drivers in a guest, unprivileged by VFIO behind an IOMMU, on our models of two cards of each
//! family joined by a cable, and on their virtual functions, which our program hosts in the same guest.

use std::path::{Path, PathBuf};

use super::{Bench, Served};
use crate::Result;
use crate::vm::{Outcome, Vm};

const SCRIPT: &str = include_str!("vfio_models.sh");
/// The families, as `ixora model` calls them.
const MODELS: [&str; 2] = ["xl710", "82599"];
/// Rules of the linter that are broken at a register on purpose.
const EXPLAINED: &[(&str, &str)] = &[
    // A frame longer than the port receives is sent, so that the other end drops it.
    ("TxAboveMaxFrame", "TDT"),
];
/// The guest's memory, MiB.
const MEMORY: usize = 768;

/// The checks of `vfio_guest`, an example of the crate `ixora-ports`.
pub fn features(bench: &Bench, name: &str) -> Result<Outcome> {
    let directory = bench.directory(name)?;
    let mut served =
        MODELS.iter().map(|model| serve(bench, &directory, model)).collect::<Result<Vec<_>>>()?;
    let mut vm = Vm::new(&bench.guest, bench.log(name), SCRIPT);
    (vm.iommu, vm.memory_mib) = (true, MEMORY);
    for model in MODELS {
        for card in cards(&directory, model) {
            vm = vm.served(&card).served(Path::new(&format!("{}.vf0", card.display())));
        }
    }
    let program = bench.ixora().with_file_name("examples").join("vfio_guest");
    let vm = vm.host_program("vfio_guest", &program)?.host_program("ixora", bench.ixora())?;
    let mut outcome = vm.run()?;
    for (model, served) in MODELS.iter().zip(&mut served) {
        let findings = served.findings(EXPLAINED)?;
        match findings.is_empty() {
            true => outcome.passed.push(format!("linter of {model}: nothing found")),
            false => {
                outcome.failed.extend(findings.iter().map(|finding| format!("linter of {model}: {finding}")))
            }
        }
    }
    Ok(outcome)
}

/// The sockets of two cards.
fn cards(directory: &Path, model: &str) -> [PathBuf; 2] {
    ["a", "b"].map(|card| directory.join(format!("{model}-{card}.sock")))
}

/// Serves them, on one cable and with a virtual function of each.
fn serve(bench: &Bench, directory: &Path, model: &str) -> Result<Served> {
    let sockets = cards(directory, model).map(|socket| socket.display().to_string());
    let words = [model, "--socket", &sockets[0], "--socket", &sockets[1], "--wire", "pair", "--vfs", "1"];
    Served::start(bench.ixora(), &words, &directory.join(format!("{model}.log")))
}
