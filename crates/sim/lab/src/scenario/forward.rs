//! Frames through a guest: in at one NIC, out at the other, the host at both
//! ends. Below what the guest can do every frame must come back in order and
//! unchanged; above it, every frame that does not must be lost by a name.

use std::time::Duration;

use super::Bench;
use super::accounting::Accounting;
use crate::Result;
use crate::traffic::{self, Cable, Load, Traffic, exchange, overload};
use crate::vm::{Outcome, Running, Vm};

/// Frames under way: below what a guest's rings hold, so that none may be lost.
const WINDOW: u32 = 64;
const BRIDGE: &str = include_str!("forward_bridge.sh");
const OURS: &str = include_str!("forward_ours.sh");
/// Frames in each direction: with both, a million. They take half a minute, so one NIC has them.
const MANY_FRAMES: u32 = 500_000;
/// Enough for each ring to go round some hundred times.
const FRAMES: u32 = 100_000;
/// Long enough for all queues to be full, twice.
const LOAD: Load = Load { time: Duration::from_secs(3), not_reading: Duration::from_millis(1500) };
/// Frames that QEMU keeps for a cable that is not read; see [`Accounting::check`].
const KEPT: u32 = 10_000;

/// A NIC of QEMU's, as our forwarder meets it.
#[derive(Debug, Clone, Copy)]
struct Nic {
    device: &'static str,
    /// By VFIO and as an ordinary user; else by sysfs, as root to begin with.
    vfio: bool,
    /// A line of the driver's log that tells how it drives the device.
    log: &'static str,
    /// As [`Accounting::check`] has it.
    hidden: Option<u32>,
    /// In each direction.
    frames: u32,
}

impl Nic {
    const fn virtio(device: &'static str, vfio: bool, log: &'static str) -> Nic {
        Nic { device, vfio, log, hidden: None, frames: FRAMES }
    }
}

/// Linux's own bridge and drivers: that what is measured with is right.
pub fn bridge(bench: &Bench, name: &str) -> Result<Outcome> {
    const COUNT: u32 = 100_000;
    let directory = bench.directory(name)?;
    let cables = [Cable::new(&directory, "a")?, Cable::new(&directory, "b")?];
    let mut vm = Vm::new(&bench.guest, bench.log(name), BRIDGE);
    for (n, cable) in cables.iter().enumerate() {
        vm = vm.nic("igb", &cable.netdev(&format!("n{n}")), n);
    }
    vm.files.file("lab/environment", format!("COUNT={COUNT}\n").as_bytes());
    let mut running = vm.told().start()?;
    if !running.says("LAB: ready") {
        return running.wait();
    }
    let seen = exchange(&cables[0], &cables[1], COUNT, WINDOW);
    running.tell()?;
    let mut outcome = running.wait()?;
    whole("there", COUNT, &seen, &mut outcome);
    Ok(outcome)
}

/// `ixora fwd` on legacy virtio: I/O ports and physical addresses.
pub fn virtio_legacy(bench: &Bench, name: &str) -> Result<Outcome> {
    // A feature that the driver takes from legacy devices only.
    ours(bench, name, Nic::virtio("virtio-net-pci,disable-modern=on", false, "features:.*ANY_LAYOUT"))
}

/// On a device with both interfaces: the modern one, with physical addresses.
pub fn virtio_transitional(bench: &Bench, name: &str) -> Result<Outcome> {
    let device = "virtio-net-pci,disable-modern=off,disable-legacy=off";
    ours(bench, name, Nic::virtio(device, false, "features:.*VERSION_1"))
}

/// On modern virtio with split rings, by VFIO.
pub fn virtio_modern(bench: &Bench, name: &str) -> Result<Outcome> {
    let device = "virtio-net-pci,disable-legacy=on,iommu_platform=on";
    ours(bench, name, Nic::virtio(device, true, "features:.*ACCESS_PLATFORM"))
}

/// Likewise with packed rings.
pub fn virtio_packed(bench: &Bench, name: &str) -> Result<Outcome> {
    let device = "virtio-net-pci,disable-legacy=on,iommu_platform=on,packed=on";
    ours(bench, name, Nic::virtio(device, true, "features:.*RING_PACKED"))
}

/// On an 82576, by VFIO.
pub fn igb(bench: &Bench, name: &str) -> Result<Outcome> {
    let nic = Nic { device: "igb", vfio: true, log: "igb", hidden: Some(KEPT), frames: MANY_FRAMES };
    ours(bench, name, nic)
}

/// Boots a guest in which our forwarder joins two such NICs, and sends frames
/// both ways: some at a rate without loss, then more than it can take.
fn ours(bench: &Bench, name: &str, nic: Nic) -> Result<Outcome> {
    let directory = bench.directory(name)?;
    let cables = [Cable::new(&directory, "a")?, Cable::new(&directory, "b")?];
    let mut vm = Vm::new(&bench.guest, bench.log(name), OURS).host_program("ixora", bench.ixora())?;
    for (n, cable) in cables.iter().enumerate() {
        let netdev = cable.netdev(&format!("n{n}"));
        vm = match nic.vfio {
            true => vm.nic(nic.device, &netdev, n),
            // I/O ports are PCI's, not PCI Express's: no port of its own.
            false => vm.with(&["-netdev", &netdev, "-device", &format!("{},netdev=n{n}", nic.device)]),
        };
    }
    vm.iommu = nic.vfio;
    let (all, way) = (2 * nic.frames, if nic.vfio { "vfio" } else { "sysfs" });
    let environment = format!("COUNT={all}\nWAY={way}\nLOG='{}'\n", nic.log);
    vm.files.file("lab/environment", environment.as_bytes());
    let mut running = vm.told().start()?;
    let Some([calm, more]) = send_frames(&mut running, &cables, nic.frames) else { return running.wait() };
    let accounting = Accounting::read(&running.console());
    let mut outcome = running.wait()?;
    whole("there", nic.frames, &calm[0], &mut outcome);
    whole("back", nic.frames, &calm[1], &mut outcome);
    match accounting {
        Some(accounting) => accounting.check(&more, nic.hidden, &mut outcome),
        None => outcome.failed.push("overload: the forwarder did not say what it counted".to_owned()),
    }
    Ok(outcome)
}

/// Frames at a rate without loss, and then too many; nothing when the guest does
/// not get so far.
fn send_frames(running: &mut Running, cables: &[Cable; 2], frames: u32) -> Option<[[Traffic; 2]; 2]> {
    let go = |running: &mut Running, text| running.says(text).then_some(());
    go(running, "LAB: ready")?;
    let calm = traffic::both(cables, |into, out_of| exchange(into, out_of, frames, WINDOW));
    go(running, "LAB: overload")?;
    let more = traffic::both(cables, |into, out_of| overload(into, out_of, LOAD));
    running.tell().ok()?;
    go(running, "LAB: end")?;
    Some([calm, more])
}

fn whole(direction: &str, count: u32, seen: &Traffic, outcome: &mut Outcome) {
    match *seen == (Traffic { sent: count, back: count, ..Traffic::default() }) {
        true => outcome.passed.push(format!("{direction}: {count} frames in order and unchanged")),
        false => outcome.failed.push(format!("{direction}, of {count} frames: {seen:?}")),
    }
}
