//! What our drivers need in a guest: the program itself, two NICs that nobody
//! here wrote, an IOMMU, and both devices bound to vfio-pci.
//!
//! It opens no device: that is for the drivers' own scenarios.

use super::Bench;
use crate::Result;
use crate::vm::{Outcome, Vm};

const SCRIPT: &str = include_str!("guest_vfio.sh");

/// Boots with two of QEMU's 82576 on one cable.
pub fn run(bench: &Bench, name: &str) -> Result<Outcome> {
    bench.directory(name)?;
    let mut vm = Vm::new(&bench.guest, bench.log(name), SCRIPT).pair(["igb", "igb"]);
    vm.iommu = true;
    vm.host_program("ixora", bench.ixora())?.run()
}
