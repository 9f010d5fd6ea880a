//! Frames through a guest: in at one NIC, out at the other, the host at both
//! ends. Every frame must come back in order and unchanged.

use std::time::Duration;

use super::Bench;
use super::igb::both;
use crate::Result;
use crate::traffic::{Cable, Traffic, exchange};
use crate::vm::{Outcome, Vm};

/// Frames under way: below what a guest's rings hold, so that none may be lost.
const WINDOW: u32 = 64;
const BRIDGE: &str = include_str!("forward_bridge.sh");
const OURS: &str = include_str!("forward_ours.sh");
/// Frames in each direction: with both, a million.
const FRAMES: u32 = 500_000;

/// Linux's own bridge and drivers: that what is measured with is right.
pub fn bridge(bench: &Bench, name: &str) -> Result<Outcome> {
    through(bench, name, "igb", BRIDGE, 100_000)
}

/// `ixora fwd` on legacy virtio: I/O ports and physical addresses, as root.
pub fn virtio_legacy(bench: &Bench, name: &str) -> Result<Outcome> {
    ours(bench, name, "virtio-net-pci,disable-modern=on", false)
}

/// On modern virtio with split rings, by VFIO and as an ordinary user.
pub fn virtio_modern(bench: &Bench, name: &str) -> Result<Outcome> {
    ours(bench, name, "virtio-net-pci,disable-legacy=on,iommu_platform=on", true)
}

/// Likewise with packed rings.
pub fn virtio_packed(bench: &Bench, name: &str) -> Result<Outcome> {
    ours(bench, name, "virtio-net-pci,disable-legacy=on,iommu_platform=on,packed=on", true)
}

/// Boots a guest in which our forwarder joins two such devices, and sends frames
/// both ways at a rate without loss.
fn ours(bench: &Bench, name: &str, device: &str, vfio: bool) -> Result<Outcome> {
    let directory = bench.directory(name)?;
    let cables = [Cable::new(&directory, "a")?, Cable::new(&directory, "b")?];
    let mut vm = Vm::new(&bench.guest, bench.log(name), OURS).host_program("ixora", bench.ixora())?;
    for (n, cable) in cables.iter().enumerate() {
        let netdev = cable.netdev(&format!("n{n}"));
        vm = match vfio {
            true => vm.nic(device, &netdev, n),
            // I/O ports are PCI's, not PCI Express's: no port of its own.
            false => vm.with(&["-netdev", &netdev, "-device", &format!("{device},netdev=n{n}")]),
        };
    }
    (vm.iommu, vm.limit) = (vfio, Duration::from_secs(240));
    let (all, way) = (2 * FRAMES, if vfio { "vfio" } else { "sysfs" });
    vm.files.file("lab/environment", format!("COUNT={all}\nWAY={way}\n").as_bytes());
    let mut running = vm.start()?;
    if !running.says("LAB: ready") {
        return running.wait();
    }
    let seen = both(&cables, FRAMES, Some(WINDOW));
    let mut outcome = running.wait()?;
    for (direction, seen) in ["there", "back"].into_iter().zip(seen) {
        match seen == (Traffic { sent: FRAMES, back: FRAMES, ..Traffic::default() }) {
            true => outcome.passed.push(format!("{direction}: {FRAMES} frames in order and unchanged")),
            false => outcome.failed.push(format!("{direction}, of {FRAMES} frames: {seen:?}")),
        }
    }
    Ok(outcome)
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
