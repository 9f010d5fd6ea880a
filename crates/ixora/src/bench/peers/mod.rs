//! `ixora bench peers`: our 82599 driver beside DPDK's, on the same device.
//!
//! DPDK's `testpmd` runs unmodified in a process of its own, on the lean device
//! (`testbed::lean`): its registers are shared as PCI's `resource0` is, its
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

use ::bench::distance::{Line, NEAR};
use ::bench::figures::Spread;
use ::bench::rig::{Done, Rig};
use ::bench::two_cores::{self, Window};
use ::bench::{CompletionName, DeviceName, Setting, Workload};
use clap::Args;
use runtime::cores::pin;
use rustix::process::Signal;
use serde::Serialize;
use testbed::{Idle, inprocess};

use super::report::{Report, end_progress, show_progress};
use crate::Failure;
use testpmd::{Path, Testpmd};

/// How to measure.
#[derive(Args, Debug, Clone)]
pub struct Arguments {
    /// Where DPDK's packages were unpacked; else the one installed.
    #[arg(long)]
    dpdk: Option<PathBuf>,
    /// Packets a call, at most.
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// Descriptors in each ring.
    #[arg(long, default_value_t = 512)]
    ring: usize,
    /// Frame size in bytes, with CRC.
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// Windows of 0.1 s for each driver and work.
    #[arg(long, default_value_t = 40)]
    windows: usize,
    /// Cores to use: the driver's and the device's.
    #[arg(long, value_delimiter = ',', default_value = "0,1")]
    cpu: Vec<usize>,
    /// Write the figures and their conditions here as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

impl Arguments {
    fn driver_core(&self) -> usize {
        self.cpu.first().copied().unwrap_or(0)
    }

    fn model_core(&self) -> usize {
        self.cpu.get(1).copied().unwrap_or(1)
    }
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
struct Figures {
    driver: &'static str,
    work: Work,
    cycles_per_packet: Spread,
    mpps: f64,
    windows: usize,
    near_windows: usize,
}

/// Two drivers at the same work, in turns.
#[derive(Debug, Serialize)]
struct Pair {
    ours: Figures,
    theirs: Figures,
    /// Theirs over ours, of each pair of neighbouring near windows.
    ratio: Spread,
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::new("DPDK's driver needs physical addresses, which only root may see")
            .fix("sudo env PATH=\"$PATH\" cargo xtask peers"));
    }
    let _reserve = memory::Reserve::new(testpmd::MEMORY / 2 + 8)
        .map_err(|error| Failure::new(format!("cannot reserve hugepages: {error}")))?;
    let report = Report::new(arguments.cpu.clone());
    report.print_machine();
    println!(
        "\n{:<14}{:<9}{:>24}{:>8}{:>8}  {:>26}",
        "driver", "work", "TSC cycles/packet", "Mpps", "near", "DPDK's cycles / ours"
    );
    let mut pairs = Vec::new();
    for work in [Work::Forward, Work::Macswap] {
        for path in [Path::Vector, Path::Scalar] {
            let pair = measure(arguments, path, work)?;
            pair.print();
            pairs.push(pair);
        }
    }
    report.write(arguments.json.as_deref(), &pairs)
}

fn measure(arguments: &Arguments, path: Path, work: Work) -> Result<Pair, Failure> {
    pin(arguments.driver_core());
    let (batch, ring, size) = (arguments.batch, arguments.ring, arguments.size);
    let workload = match work {
        Work::Forward => Workload::Fwd,
        Work::Macswap => Workload::Macswap,
    };
    let (device, completion) = (DeviceName::Lean, CompletionName::Report);
    let mut rig = Rig::new(&Setting { device, workload, batch, ring, size, completion })?;
    let peer = Testpmd::start(arguments, path, work)?;
    let line = Arc::new(Line::default());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for n in 0..arguments.windows.max(1) {
        show_progress(n + 1, arguments.windows);
        ours.push(two_cores::window(&mut rig, &line, arguments.model_core())?);
        theirs.push(window(&peer, &line, arguments.model_core())?);
    }
    end_progress();
    if peer.unreachable() > 0 {
        return Err(Failure::new("DPDK's memory was not all mapped: the figures mean nothing"));
    }
    let ratios = ours.iter().zip(&theirs).filter(|(a, b)| a.is_near() && b.is_near());
    let ratios = ratios.map(|(ours, theirs)| theirs.cycles_per_packet() / ours.cycles_per_packet());
    let name = if path == Path::Vector { "DPDK vector" } else { "DPDK scalar" };
    Ok(Pair {
        ratio: Spread::of(ratios.collect()),
        ours: Figures::of("ixora", work, &ours),
        theirs: Figures::of(name, work, &theirs),
    })
}

/// As [`two_cores::window`], of a process that runs by itself.
fn window(peer: &Testpmd, line: &Arc<Line>, model: usize) -> Result<Window, Failure> {
    let before = two_cores::distance(line, model);
    let stepper = inprocess::spawn(&peer.handles, Some(model), Idle::Spin).map_err(two_cores::no_thread)?;
    peer.signal(Signal::CONT);
    sleep(Duration::from_millis(10));
    let (sent, start) = (peer.sent(), bus::tsc::now());
    sleep(Duration::from_secs_f64(two_cores::WINDOW));
    let (packets, ticks) = (peer.sent() - sent, bus::tsc::now() - start);
    peer.signal(Signal::STOP);
    drop(stepper);
    let after = two_cores::distance(line, model);
    Ok(Window { done: Done { packets, calls: 0, empty: 0 }, ticks, before, after })
}

impl Figures {
    fn of(driver: &'static str, work: Work, windows: &[Window]) -> Figures {
        let near: Vec<&Window> = windows.iter().filter(|window| window.is_near()).collect();
        let cycles_per_packet = Spread::of(near.iter().map(|window| window.cycles_per_packet()).collect());
        let mpps = bus::tsc::hz() as f64 / cycles_per_packet.median.max(1.0) / 1e6;
        let (windows, near_windows) = (windows.len(), near.len());
        Figures { driver, work, cycles_per_packet, mpps, windows, near_windows }
    }

    fn print(&self, ratio: &str) {
        let c = self.cycles_per_packet;
        let work = if self.work == Work::Forward { "forward" } else { "macswap" };
        let near = format!("{}/{}", self.near_windows, self.windows);
        println!(
            "{:<14}{work:<9}{:>24}{:>8.1}{near:>8}  {ratio:>26}",
            self.driver,
            format!("{:.1} ({:.1} to {:.1})", c.median, c.min, c.max),
            self.mpps
        );
    }
}

impl Pair {
    fn print(&self) {
        let ratio = self.ratio;
        self.ours.print("");
        match self.theirs.near_windows.min(self.ours.near_windows) {
            0 => self.theirs.print(&format!("no window below {NEAR}")),
            _ => {
                self.theirs.print(&format!("{:.2} ({:.2} to {:.2})", ratio.median, ratio.min, ratio.max));
            }
        }
    }
}
