//! `ixora bench`: what the driver costs, in cycles per packet, with the
//! conditions under which it was measured.
//!
//! Two ways. On **one core** the model takes its steps between the driver's
//! calls, and only those are timed: caches are warm, nothing is contended, the
//! figure is stable and says how much work the code is. On **two cores** the
//! model runs beside the driver, descriptors and packets cross between caches,
//! and the distance of the cores, measured around each window, says which
//! windows can be compared.

mod conditions;
pub use conditions::pin;
mod distance;
mod instructions;
mod one_core;
mod report;
mod rig;
mod two_cores;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use report::Report;

/// What to measure.
#[derive(Subcommand, Debug)]
pub enum Bench {
    /// The 82599 driver on its model.
    Driver(DriverArguments),
}

/// How to measure the driver.
#[derive(Args, Debug, Clone)]
pub struct DriverArguments {
    /// Workloads, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "rx,tx,fwd,touch")]
    workload: Vec<Workload>,
    /// Batch sizes, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,32,64,256")]
    batch: Vec<usize>,
    /// Ring sizes, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "64,512,4096")]
    ring: Vec<usize>,
    /// Frame size in bytes, with CRC.
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// How the device reports sent packets.
    #[arg(long, value_enum, default_value = "report")]
    completion: CompletionName,
    /// One core, two, or both.
    #[arg(long, value_enum, default_value = "both")]
    cores: Cores,
    /// Cores to use: the driver's and the model's.
    #[arg(long, value_delimiter = ',', default_value = "0,1")]
    cpu: Vec<usize>,
    /// Windows of 0.1 s for each row on two cores.
    #[arg(long, default_value_t = 10)]
    windows: usize,
    /// Count instructions too, by running under valgrind's callgrind.
    #[arg(long)]
    instructions: bool,
    /// Write the rows and their conditions here as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// For callgrind: run one workload for so many packets and print nothing.
    #[arg(long, hide = true)]
    only_packets: Option<u64>,
}

/// What the driver is made to do.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Receive and free.
    Rx,
    /// Allocate and send.
    Tx,
    /// Forward between two ports, both ways, without looking at packets.
    Fwd,
    /// Forward and change one byte of each packet.
    Touch,
}

/// How sent packets are reported.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CompletionName {
    /// By a bit in some descriptors.
    Report,
    /// By head write-back.
    Head,
}

/// Which of the two ways.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// The model steps between timed calls.
    One,
    /// The model runs on a core of its own.
    Two,
    /// Both.
    Both,
}

/// One line of the table: what was set.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Setting {
    /// What was done.
    pub workload: Workload,
    /// Packets a call, at most.
    pub batch: usize,
    /// Descriptors in each ring.
    pub ring: usize,
    /// Frame size with CRC.
    pub size: usize,
    /// How sent packets are reported.
    pub completion: CompletionName,
}

/// Measures and prints a table.
pub fn run(bench: &Bench) -> Result<(), crate::Failure> {
    let Bench::Driver(arguments) = bench;
    if let Some(packets) = arguments.only_packets {
        return one_core::run_packets(&arguments.first(), packets);
    }
    let cores = conditions::cores(); // before this thread is pinned to one
    let mut report = Report::new(arguments.cpu.clone());
    report.print_conditions();
    for setting in arguments.settings() {
        if arguments.cores != Cores::Two {
            let mut row = one_core::measure(&setting, arguments.driver_core())?;
            if arguments.instructions {
                row.instructions_per_packet = Some(instructions::count(&setting)?);
            }
            report.add(row);
        }
        if arguments.cores != Cores::One {
            match arguments.cpu[..] {
                [driver, model, ..] if cores > 1 => {
                    report.add(two_cores::measure(&setting, driver, model, arguments.windows)?);
                }
                _ => report.note("two cores are needed for the other half of the table"),
            }
        }
    }
    report.finish(arguments.json.as_deref())
}

impl DriverArguments {
    fn settings(&self) -> impl Iterator<Item = Setting> {
        let settings = self.workload.iter().flat_map(move |&workload| {
            let rings = self.ring.iter().map(move |&ring| (workload, ring));
            rings.flat_map(move |(workload, ring)| {
                self.batch.iter().map(move |&batch| (workload, ring, batch))
            })
        });
        settings.map(|(workload, ring, batch)| self.setting(workload, ring, batch))
    }

    fn setting(&self, workload: Workload, ring: usize, batch: usize) -> Setting {
        Setting { workload, batch, ring, size: self.size, completion: self.completion }
    }

    fn first(&self) -> Setting {
        let at = |list: &[usize], default| list.first().copied().unwrap_or(default);
        self.setting(
            self.workload.first().copied().unwrap_or(Workload::Fwd),
            at(&self.ring, 512),
            at(&self.batch, 32),
        )
    }

    fn driver_core(&self) -> Option<usize> {
        self.cpu.first().copied()
    }
}
