//! Our drivers of the 82599 and of the XL710 beside DPDK's, on the same device.
//!
//! DPDK's `testpmd` runs unmodified in a process of its own, on a minimal device
//! (`testbed::minimal`): its registers are shared as PCI's `resource0` is, its
//! hugepages are mapped by physical address. So this needs root and x86-64. The
//! two take turns, window by window, on the same two cores; whoever does not run
//! is stopped. The distance of the cores is measured around each window, and
//! only windows of the same distance are compared.

mod memory;
mod sysfs;
mod testpmd;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;
use serde::Serialize;
use testbed::{Idle, inprocess};

use crate::distance::{Line, near_or_all};
use crate::figures::Spread;
use crate::rig::{Done, Rig};
use crate::two_cores::{self, Window};
use crate::{Choice, CompletionName, DeviceName, Error, Result, Setting, Workload};
pub use memory::Reserve;
use runtime::cores::pin;
pub use testpmd::Path;
use testpmd::Testpmd;

/// The device that both drivers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Nic {
    /// A minimal 82599.
    #[serde(rename = "82599")]
    Ixgbe,
    /// A minimal XL710.
    #[serde(rename = "xl710")]
    I40e,
}

impl Nic {
    /// All of them.
    pub const ALL: &[Choice<Nic>] = &[
        (Nic::Ixgbe, "82599", "As little of an 82599 as possible: ixgbe"),
        (Nic::I40e, "xl710", "As little of an XL710 as possible: i40e"),
    ];

    fn device(self) -> DeviceName {
        match self {
            Nic::Ixgbe => DeviceName::Minimal,
            Nic::I40e => DeviceName::MinimalXl710,
        }
    }
}

/// How to measure.
#[derive(Debug, Clone)]
pub struct Setup {
    /// On which device.
    pub nic: Nic,
    /// Where DPDK's packages were unpacked; else the one installed.
    pub dpdk: Option<PathBuf>,
    /// Packets a call, at most.
    pub batch: usize,
    /// Descriptors in each ring.
    pub ring: usize,
    /// Frame size in bytes, with CRC.
    pub size: usize,
    /// Windows of 0.1 s for each driver and work.
    pub windows: usize,
    /// The drivers' core.
    pub driver_core: usize,
    /// The device's core.
    pub model_core: usize,
}

/// Sees to it that there are as many hugepages as DPDK needs, until it is dropped.
///
/// # Errors
/// When the system has no more.
pub fn reserve() -> Result<Reserve> {
    Reserve::new(testpmd::HUGEPAGES).map_err(|error| Error::new(format!("cannot reserve hugepages: {error}")))
}

/// What both are made to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Forward both ways without looking at packets (`io`).
    Forward,
    /// Forward and swap the Ethernet addresses.
    Macswap,
}

/// Figures of one driver at one work.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// The name of the driver.
    pub driver: &'static str,
    /// What it did.
    pub work: Work,
    /// TSC cycles for each packet.
    pub cycles_per_packet: Spread,
    /// Packets per second, in millions, at the median.
    pub mpps: f64,
    /// Share of its polls that found nothing; of DPDK's that is not known.
    pub empty_polls: Option<f64>,
    /// Share of the device's rounds in which it moved no packet: near zero where the device is
    /// what limits.
    pub device_idle: f64,
}

/// Two drivers at the same work, in turns.
#[derive(Debug, Serialize)]
pub struct Pair {
    /// The device that both had.
    pub nic: Nic,
    /// The figures of our driver.
    pub ours: Figures,
    /// The figures of DPDK's driver.
    pub theirs: Figures,
    /// Theirs over ours, of each pair of neighbouring windows.
    pub ratio: Spread,
    /// Pairs of neighbouring windows that were measured.
    pub windows: usize,
    /// Of these, pairs of which both windows stood between near calibrations; the figures are
    /// theirs, or of all pairs when there was none.
    pub near_windows: usize,
}

/// Measures both drivers at some work, in turns; `progress` is told each window's number.
///
/// # Errors
/// When a driver or its device does not start, or a device could not reach DPDK's memory.
pub fn measure(setup: &Setup, path: Path, work: Work, progress: &mut dyn FnMut(usize)) -> Result<Pair> {
    pin(setup.driver_core);
    let (batch, ring, size) = (setup.batch, setup.ring, setup.size);
    let workload = match work {
        Work::Forward => Workload::Fwd,
        Work::Macswap => Workload::Macswap,
    };
    let (device, completion) = (setup.nic.device(), CompletionName::Report);
    let mut rig = Rig::new(&Setting { device, workload, batch, ring, queues: 1, size, completion })?;
    let peer = Testpmd::start(setup, path, work)?;
    let line = Arc::new(Line::default());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for n in 0..setup.windows.max(1) {
        progress(n + 1);
        ours.push(two_cores::window(&mut rig, &line, setup.model_core)?);
        theirs.push(window(&peer, &line, setup.model_core)?);
    }
    if peer.unreachable() > 0 {
        return Err(Error::new("DPDK's memory was not all mapped: the figures mean nothing"));
    }
    let name = if path == Path::Vector { "DPDK vector" } else { "DPDK scalar" };
    Ok(Pair::of(setup.nic, name, work, ours, theirs))
}

/// As [`two_cores::window`], of a process that runs by itself.
fn window(peer: &Testpmd, line: &Arc<Line>, model: usize) -> Result<Window> {
    let before = two_cores::distance(line, model);
    let stepper = inprocess::spawn(&peer.handles, Some(model), Idle::Spin).map_err(two_cores::no_thread)?;
    peer.signal(Signal::CONT);
    sleep(Duration::from_millis(10));
    let (rounds, sent, start) = (stepper.rounds(), peer.sent(), bus::tsc::now());
    sleep(Duration::from_secs_f64(two_cores::WINDOW));
    let (packets, ticks) = (peer.sent() - sent, bus::tsc::now() - start);
    let device_idle = stepper.rounds().idle_since(rounds);
    peer.signal(Signal::STOP);
    drop(stepper);
    let after = two_cores::distance(line, model);
    Ok(Window { done: Done { packets, calls: 0, empty: 0 }, ticks, before, after, device_idle })
}

impl Pair {
    fn of(nic: Nic, name: &'static str, work: Work, ours: Vec<Window>, theirs: Vec<Window>) -> Pair {
        let both: Vec<_> = ours.into_iter().zip(theirs).collect();
        let windows = both.len();
        let (chosen, near_windows) = near_or_all(both, |(a, b)| a.is_near() && b.is_near());
        let ratios = chosen.iter().map(|(a, b)| b.cycles_per_packet() / a.cycles_per_packet());
        let ratio = Spread::of(ratios.collect());
        let (ours, theirs): (Vec<_>, Vec<_>) = chosen.into_iter().unzip();
        let (ours, theirs) = (Figures::of("ixora", work, &ours), Figures::of(name, work, &theirs));
        Pair { nic, ours, theirs, ratio, windows, near_windows }
    }
}

impl Figures {
    fn of(driver: &'static str, work: Work, windows: &[Window]) -> Figures {
        let cycles_per_packet = Spread::of(windows.iter().map(Window::cycles_per_packet).collect());
        let mpps = bus::tsc::hz() as f64 / cycles_per_packet.median.max(1.0) / 1e6;
        let calls = windows.iter().map(|window| window.done.calls).sum::<u64>();
        let empty = windows.iter().map(|window| window.done.empty).sum::<u64>();
        let empty_polls = (calls > 0).then(|| empty as f64 / calls as f64);
        let device_idle = Spread::of(windows.iter().map(|window| window.device_idle).collect()).median;
        Figures { driver, work, cycles_per_packet, mpps, empty_polls, device_idle }
    }
}
