//! `ixora bench virtio`: our virtio driver beside DPDK's virtio-user, on the same
//! device. `bench::virtio` measures it.

use std::path::PathBuf;

use ::bench::figures::Spread;
use ::bench::virtio::{self, Pair, Setup};
use clap::Args;

use super::report::{Report, end_progress, show_progress};
use crate::Failure;

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
    #[arg(long, default_value_t = 256)]
    ring: u16,
    /// Windows for each driver and ring.
    #[arg(long, default_value_t = 20)]
    windows: usize,
    /// Cores to use: the drivers' and the device's.
    #[arg(long, value_delimiter = ',', default_value = "0,1")]
    cpu: Vec<usize>,
    /// Write the figures and their conditions here as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let dpdk = virtio::dpdk(arguments.dpdk.as_deref())?;
    let report = Report::new(arguments.cpu.clone());
    report.print_machine();
    println!(
        "\n{:<8}{:<15}{:>24}{:>24}{:>9}{:>9}  {:>22}{:>8}",
        "ring",
        "peer",
        "our cycles/packet",
        "their cycles/packet",
        "our Mpps",
        "theirs",
        "Mpps, ours / theirs",
        "near"
    );
    let cores = [0, 1].map(|n| arguments.cpu.get(n).copied().unwrap_or(n));
    let (batch, ring, windows) = (arguments.batch, arguments.ring, arguments.windows);
    let setup = Setup { batch, ring, windows, cores };
    let mut pairs = Vec::new();
    for peer in virtio::PEERS {
        let pair = virtio::measure(&setup, &dpdk, peer, &mut |n| show_progress(n, setup.windows));
        end_progress();
        let pair = pair?;
        print(&pair);
        pairs.push(pair);
    }
    report.write(arguments.json.as_deref(), &pairs)
}

/// The line of a pair.
fn print(pair: &Pair) {
    let spread = |s: Spread| format!("{:.1} ({:.1} to {:.1})", s.median, s.min, s.max);
    let ratio = pair.mpps_ratio;
    println!(
        "{:<8}{:<15}{:>24}{:>24}{:>9.1}{:>9.1}  {:>22}{:>8}",
        pair.ring,
        pair.peer,
        spread(pair.our_cycles),
        spread(pair.their_cycles),
        pair.our_mpps.median,
        pair.their_mpps.median,
        format!("{:.2} ({:.2} to {:.2})", ratio.median, ratio.min, ratio.max),
        format!("{}/{}", pair.near_windows, pair.windows),
    );
}
