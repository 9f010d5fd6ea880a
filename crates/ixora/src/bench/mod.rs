//! `ixora bench`: what drivers and routers cost, in cycles per packet, with the
//! conditions under which it was measured. The crate `bench` measures.

mod bars;
mod drift;
mod graph;
mod growth;
mod instructions;
mod latency;
mod overlay;
mod paper;
mod peers;
pub mod plot;
mod report;
mod tables;
mod tcp;
mod virtio;

pub use graph::run_compiled;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use ::bench::{Choice, CompletionName, DeviceName, Setting, Workload, conditions, one_core, two_cores};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use serde::de::DeserializeOwned;

use crate::Failure;
use report::Report;

/// What to measure.
#[derive(Subcommand, Debug)]
pub enum Bench {
    /// A NIC's driver on its model: 82599, XL710, and virtual functions of both.
    Driver(DriverArguments),
    /// How figures changed over the records of `cargo xtask bench --record`.
    Drift(drift::Arguments),
    /// A router: what its graph and its elements cost.
    #[command(visible_alias = "router")]
    Graph(graph::Arguments),
    /// What a packet costs when there is more of something: flows, prefixes, elements, rules,
    /// queues, ports, threads.
    Growth(growth::Arguments),
    /// How long packets are under way through a forwarder and a router, against load.
    Latency(latency::Arguments),
    /// Sending into tunnels: one lookup beside two passes through a stack.
    Overlay(overlay::Arguments),
    /// The figures of a paper.
    Paper(paper::Arguments),
    /// The drivers of the 82599 and the XL710 beside DPDK's, in turns on the same minimal device; root.
    Peers(peers::Arguments),
    /// Tables that strangers fill: what each packet with a new key costs, and what memory.
    Tables(tables::Arguments),
    /// An echo over TCP: what a request costs the server, by connections, messages and sizes.
    Tcp(tcp::Arguments),
    /// The virtio driver beside DPDK's virtio-user, in turns on DPDK's vhost.
    Virtio(virtio::Arguments),
}

/// How to measure the driver.
#[derive(Args, Debug, Clone)]
pub struct DriverArguments {
    /// Workloads, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "rx,tx,fwd,touch", value_parser = one_of(Workload::ALL))]
    workload: Vec<Workload>,
    /// Batch sizes, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,32,64,256")]
    batch: Vec<usize>,
    /// Ring sizes, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "64,512,4096")]
    ring: Vec<usize>,
    /// Numbers of pairs of queues of each port, which one thread serves, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    queues: Vec<usize>,
    /// Devices, separated by commas.
    #[arg(long, visible_alias = "nic", value_delimiter = ',', default_value = "minimal,82599", value_parser = one_of(DeviceName::ALL))]
    device: Vec<DeviceName>,
    /// Frame size in bytes, with CRC.
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// How the device reports sent packets.
    #[arg(long, default_value = "report", value_parser = one_of(CompletionName::ALL))]
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

/// Which of the two ways.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// The model steps between timed calls.
    One,
    /// The model runs on a core of its own.
    Two,
    /// One after the other, both of them.
    Both,
}

/// Reads one of the values that there are.
fn one_of<T: Copy + Send + Sync + 'static>(all: &'static [Choice<T>]) -> impl TypedValueParser<Value = T> {
    let values = all.iter().map(|(_, name, about)| PossibleValue::new(*name).help(*about));
    PossibleValuesParser::new(values).try_map(move |given| {
        let known = all.iter().find(|(_, name, _)| *name == given);
        known.map(|(value, ..)| *value).ok_or("no such value")
    })
}

/// Measures and prints a table.
pub fn run(bench: &Bench) -> Result<(), Failure> {
    match bench {
        Bench::Driver(arguments) => driver(arguments),
        Bench::Drift(arguments) => drift::run(arguments),
        Bench::Overlay(arguments) => overlay::run(arguments),
        Bench::Paper(arguments) => paper::run(arguments),
        Bench::Peers(arguments) => peers::run(arguments),
        Bench::Graph(arguments) => graph::run(arguments),
        Bench::Growth(arguments) => growth::run(arguments),
        Bench::Latency(arguments) => latency::run(arguments),
        Bench::Tables(arguments) => tables::run(arguments),
        Bench::Tcp(arguments) => tcp::run(arguments),
        Bench::Virtio(arguments) => virtio::run(arguments),
    }
}

/// Has a fresh process of this program measure `what` by a command of `ixora bench`, which
/// prints it as JSON.
fn in_process<T: DeserializeOwned>(what: &str, command: &str, options: &[String]) -> Result<T, Failure> {
    let program =
        std::env::current_exe().map_err(|e| Failure::new(format!("cannot find this program: {e}")))?;
    let output = Command::new(program)
        .args(["bench", command])
        .args(options)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Failure::new(format!("cannot run this program: {error}")))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::new(format!("{what} was not measured ({}): {error}", output.status)))
}

fn driver(arguments: &DriverArguments) -> Result<(), Failure> {
    let settings = arguments.settings();
    if let Some(packets) = arguments.only_packets {
        return Ok(settings.iter().try_for_each(|setting| one_core::run_packets(setting, packets))?);
    }
    let cores = conditions::cores(); // before this thread is pinned to one
    let mut report = Report::new(arguments.cpu.clone());
    report.print_conditions();
    for setting in settings {
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
    /// Every combination; what was named first varies slowest.
    fn settings(&self) -> Vec<Setting> {
        let (size, completion) = (self.size, self.completion);
        let mut settings = Vec::new();
        for &device in &self.device {
            for &workload in &self.workload {
                for &ring in &self.ring {
                    for &queues in &self.queues {
                        let setting =
                            |&batch| Setting { device, workload, batch, ring, queues, size, completion };
                        settings.extend(self.batch.iter().map(setting));
                    }
                }
            }
        }
        settings
    }

    fn driver_core(&self) -> Option<usize> {
        self.cpu.first().copied()
    }
}
