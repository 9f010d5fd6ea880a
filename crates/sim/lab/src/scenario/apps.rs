//! The other programs of ours in a guest: `pktgen`, `pcap` and `echo` on two NICs
//! on one cable. Linux's driver and ping, and tcpdump, say whether they are right.

use super::Bench;
use crate::packages::{Packages, Suite};
use crate::vm::{Outcome, Vm};
use crate::{Result, guest};

const SCRIPT: &str = include_str!("apps.sh");
/// What reads the captures.
pub(super) const PACKAGES: &[&str] = &["tcpdump"];

/// On modern virtio.
pub fn virtio(bench: &Bench, name: &str) -> Result<Outcome> {
    run(bench, name, "virtio-net-pci,disable-legacy=on,iommu_platform=on", "virtio_pci virtio_net")
}

/// The applications on QEMU's 82576.
pub fn igb(bench: &Bench, name: &str) -> Result<Outcome> {
    run(bench, name, "igb", "igb")
}

fn run(bench: &Bench, name: &str, device: &str, modules: &str) -> Result<Outcome> {
    bench.directory(name)?;
    let vm = Vm::new(&bench.guest, bench.log(name), SCRIPT).pair([device, device]);
    let mut vm = vm.host_program("ixora", bench.ixora())?;
    let tcpdump = Packages::open()?.tree(PACKAGES, Suite::BOOKWORM)?;
    guest::tree_program(&mut vm.files, &tcpdump, "usr/bin/tcpdump")?;
    vm.iommu = true;
    vm.files.file("lab/environment", format!("MODULES='{modules}'\n").as_bytes());
    vm.run()
}
