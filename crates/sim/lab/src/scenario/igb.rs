//! Our igb and igbvf drivers in a guest, unprivileged by VFIO, on QEMU's 82576: what each
//! of their features does on two NICs joined by a cable, or a virtual function of each, which
//! Linux's igb hosts.

use super::Bench;
use crate::Result;
use crate::vm::{Outcome, Vm};

const SCRIPT: &str = include_str!("igb.sh");
const VIRTUAL: &str = include_str!("igbvf.sh");
const TOKEN: &str = include_str!("vf_token.sh");

/// The checks of `vfio_guest`, an example of the crate `ixora-ports`.
pub fn features(bench: &Bench, name: &str) -> Result<Outcome> {
    run(bench, name, SCRIPT)
}

/// Likewise of virtual functions.
pub fn virtual_functions(bench: &Bench, name: &str) -> Result<Outcome> {
    run(bench, name, VIRTUAL)
}

/// A card and its virtual function, both in VFIO's hands and each in another process.
pub fn token(bench: &Bench, name: &str) -> Result<Outcome> {
    bench.directory(name)?;
    let mut vm = Vm::new(&bench.guest, bench.log(name), TOKEN).pair(["igb", "igb"]);
    vm.iommu = true;
    vm.host_program("ixora", bench.ixora())?.run()
}

fn run(bench: &Bench, name: &str, script: &str) -> Result<Outcome> {
    bench.directory(name)?;
    let nics = ["igb,mac=52:54:00:49:58:01", "igb,mac=52:54:00:49:58:02"];
    let mut vm = Vm::new(&bench.guest, bench.log(name), script).pair(nics);
    vm.iommu = true;
    let program = bench.ixora().with_file_name("examples").join("vfio_guest");
    vm.host_program("vfio_guest", &program)?.run()
}
