//! `ixora bench peers`: our drivers of Intel's NICs beside DPDK's, on the same device.
//! `bench::peers` measures it.

use std::path::PathBuf;

use ::bench::peers::{self, Figures, Nic, Pair, Path, Setup, Work};
use clap::Args;

use super::one_of;
use super::report::{Report, end_progress, percent, show_progress};
use crate::Failure;

/// How to measure.
#[derive(Args, Debug, Clone)]
pub struct Arguments {
    /// Where DPDK's packages were unpacked; else the one installed.
    #[arg(long)]
    dpdk: Option<PathBuf>,
    /// The devices, and with them the drivers.
    #[arg(long, visible_alias = "nic", value_delimiter = ',', default_value = "82599,xl710", value_parser = one_of(Nic::ALL))]
    device: Vec<Nic>,
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
    fn setup(&self, nic: Nic) -> Setup {
        Setup {
            nic,
            dpdk: self.dpdk.clone(),
            batch: self.batch,
            ring: self.ring,
            size: self.size,
            windows: self.windows,
            driver_core: self.cpu.first().copied().unwrap_or(0),
            model_core: self.cpu.get(1).copied().unwrap_or(1),
        }
    }
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::new("DPDK's driver needs physical addresses, which only root may see")
            .fix("sudo env PATH=\"$PATH\" cargo xtask peers"));
    }
    let _reserve = peers::reserve()?;
    let report = Report::new(arguments.cpu.clone());
    report.print_machine();
    println!(
        "\n{:<8}{:<14}{:<9}{:>24}{:>8}{:>7}{:>6}{:>8}  {:>26}",
        "device",
        "driver",
        "work",
        "TSC cycles/packet",
        "Mpps",
        "empty",
        "idle",
        "near",
        "DPDK's cycles / ours"
    );
    let mut pairs = Vec::new();
    for setup in arguments.device.iter().map(|nic| arguments.setup(*nic)) {
        for work in [Work::Forward, Work::Macswap] {
            for path in [Path::Vector, Path::Scalar] {
                let pair = peers::measure(&setup, path, work, &mut |n| show_progress(n, setup.windows));
                end_progress();
                let pair = pair?;
                print(&pair);
                pairs.push(pair);
            }
        }
    }
    report.write(arguments.json.as_deref(), &pairs)
}

/// The lines of a pair.
fn print(pair: &Pair) {
    let near = format!("{}/{}", pair.near_windows, pair.windows);
    let ratio = pair.ratio;
    let times = format!("{:.2} ({:.2} to {:.2})", ratio.median, ratio.min, ratio.max);
    let nic = Nic::ALL.iter().find(|(nic, ..)| *nic == pair.nic).map_or("", |(_, name, _)| name);
    print_figures(nic, &pair.ours, &near, "");
    print_figures(nic, &pair.theirs, &near, &times);
}

fn print_figures(nic: &str, figures: &Figures, near: &str, ratio: &str) {
    let c = figures.cycles_per_packet;
    let work = if figures.work == Work::Forward { "forward" } else { "macswap" };
    println!(
        "{nic:<8}{:<14}{work:<9}{:>24}{:>8.1}{:>7}{:>6}{near:>8}  {ratio:>26}",
        figures.driver,
        format!("{:.1} ({:.1} to {:.1})", c.median, c.min, c.max),
        figures.mpps,
        percent(figures.empty_polls),
        percent(Some(figures.device_idle)),
    );
}
