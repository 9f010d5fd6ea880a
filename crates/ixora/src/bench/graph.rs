//! `ixora bench graph`: what a router costs, in cycles per packet on one core.
//! `bench::graph` measures it.

mod beside;
mod compiled;

pub use compiled::run as run_compiled;

use std::path::{Path, PathBuf};

use ::bench::conditions::Conditions;
use ::bench::figures::Spread;
use ::bench::graph::{stepped, window, workload};
use clap::{Args, ValueEnum};
use runtime::cores::pin;
use serde::Serialize;

use super::instructions::count_router;
use crate::Failure;

/// How to measure.
#[derive(Args, Debug, Clone)]
pub struct Arguments {
    /// Workloads, separated by commas: source, forward, null8, router, router4.
    #[arg(long, value_delimiter = ',', default_value = "source,forward,null8,router,router4")]
    workload: Vec<String>,
    /// Where packets come from, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "memory,ports")]
    from: Vec<From>,
    /// Batch sizes, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1,8,32,64,256")]
    batch: Vec<usize>,
    /// Threads, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    threads: Vec<usize>,
    /// Packets in a window.
    #[arg(long, default_value_t = 2_000_000)]
    packets: u64,
    /// Windows for each row.
    #[arg(long, default_value_t = 7)]
    windows: usize,
    /// Cores to measure on, one for each thread.
    #[arg(long, value_delimiter = ',', default_value = "0,1")]
    cpu: Vec<usize>,
    /// Compile each workload (`ixora compile`) and measure it beside the same one as it
    /// is, in turns, from memory on one thread. The first time this takes minutes.
    #[arg(long)]
    compiled: bool,
    /// Another program that reads the language, such as FastClick's `click`: measured in
    /// turns with this one on the same file. With --compiled ours is compiled.
    #[arg(long, value_name = "CLICK")]
    beside: Option<PathBuf>,
    /// With --beside, what makes packets on both sides, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "flows,replay")]
    source: Vec<beside::Source>,
    /// Measure each row from memory once more, in turns, with every element's packets,
    /// batches and cycles counted, as `ixora click --metrics` and `ixora top` have it.
    #[arg(long)]
    counting: bool,
    /// Count instructions too, from memory on one thread, by valgrind's callgrind.
    #[arg(long)]
    instructions: bool,
    /// Write the rows and their conditions here as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// For callgrind: run each workload for so many packets and print nothing.
    #[arg(long, hide = true)]
    only_packets: Option<u64>,
}

/// Where packets come from and go to.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum From {
    /// Frames in memory, and nowhere.
    Memory,
    /// Minimal 82599s, in and out.
    Ports,
}

#[derive(Debug, Serialize)]
struct Row {
    workload: String,
    from: From,
    threads: usize,
    batch: usize,
    /// Of all threads together.
    cycles_per_packet: Spread,
    mpps: f64,
    /// With all counted for each element over without, window by window.
    counting: Option<Spread>,
    /// By callgrind, the source's included.
    instructions_per_packet: Option<f64>,
}

/// A line of the table, still to be measured.
#[derive(Clone, Copy)]
struct Point<'a> {
    workload: &'a str,
    from: From,
    threads: usize,
    batch: usize,
}

impl Arguments {
    fn points(&self) -> Vec<Point<'_>> {
        let mut points = vec![];
        for workload in &self.workload {
            for &from in &self.from {
                if from == From::Ports && !matches!(workload.as_str(), "forward" | "router") {
                    continue;
                }
                for &threads in &self.threads {
                    points.extend(self.batch.iter().map(|&batch| Point { workload, from, threads, batch }));
                }
            }
        }
        points
    }

    fn threads(&self, count: usize) -> Result<window::Threads, Failure> {
        let cores: Vec<usize> = self.cpu.iter().copied().take(count).collect();
        if count == 0 || cores.len() < count {
            return Err(Failure::usage(format!("{count} threads on {} cores", cores.len()))
                .fix("name a core for each thread: --cpu 0,1"));
        }
        Ok(window::Threads { count, cores })
    }

    /// One window's cycles for each packet.
    fn window(&self, point: Point<'_>, packets: u64) -> Result<f64, Failure> {
        let threads = self.threads(point.threads)?;
        if point.from == From::Memory {
            return self.in_memory(point, packets, false);
        }
        let on = workload::OnPorts::new(point.workload, point.batch)?;
        let setup = stepped::Setup {
            ring: 512,
            manner: stepped::Manner::ZeroCopy,
            transmit_queues: point.threads,
            receiving: point.threads,
        };
        let outcome = window::on_ports(&on, on.frames(60), packets, setup, &threads)?;
        if outcome.kept < 0.999 {
            // To drop is cheaper than to send.
            return Err(Failure::new(format!(
                "{:.1} % found no room to be sent",
                100.0 * (1.0 - outcome.kept)
            )));
        }
        let ticks: u64 = outcome.threads.iter().map(|m| m.wall - m.spent).sum();
        Ok(ticks as f64 / outcome.threads.iter().map(|m| m.packets).sum::<u64>() as f64)
    }

    fn in_memory(&self, point: Point<'_>, packets: u64, counting: bool) -> Result<f64, Failure> {
        let router = window::FromMemory::new(point.workload, point.threads)?;
        let router = window::FromMemory { counting, ..router };
        Ok(router.window(point.batch, packets, &self.threads(point.threads)?)?)
    }

    fn row(&self, point: Point<'_>, tsc_hz: u64) -> Result<Row, Failure> {
        self.window(point, self.packets / 10)?; // warms up
        let (mut cycles, mut counting) = (vec![], vec![]);
        for _ in 0..self.windows.max(1) {
            let plain = self.window(point, self.packets)?;
            cycles.push(plain);
            if self.counting && point.from == From::Memory {
                counting.push(self.in_memory(point, self.packets, true)? / plain);
            }
        }
        let cycles_per_packet = Spread::of(cycles);
        let Point { workload, from, threads, batch } = point;
        let mpps = tsc_hz as f64 * threads as f64 / cycles_per_packet.median / 1e6;
        let counted = self.instructions && from == From::Memory && threads == 1;
        Ok(Row {
            workload: workload.to_owned(),
            from,
            threads,
            batch,
            cycles_per_packet,
            mpps,
            counting: (!counting.is_empty()).then(|| Spread::of(counting)),
            instructions_per_packet: counted.then(|| count_router(workload, batch)).transpose()?,
        })
    }
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(packets) = arguments.only_packets {
        return arguments.points().iter().try_for_each(|point| arguments.window(*point, packets).map(|_| ()));
    }
    if let Some(theirs) = &arguments.beside {
        return beside::run(arguments, theirs);
    }
    if arguments.compiled {
        return compiled::build_and_run(arguments);
    }
    let conditions = Conditions::now();
    if let Some(&core) = arguments.cpu.first() {
        pin(core);
    }
    let mut rows = vec![];
    println!(
        "{:10} {:6} {:>7} {:>5}  {:>24}  {:>8}  {:>6}  {}",
        "WORKLOAD",
        "FROM",
        "THREADS",
        "BATCH",
        "TSC CYCLES/PACKET",
        "MPPS",
        "INSTR",
        if arguments.counting { "COUNTING ALL, TIMES" } else { "" }
    );
    for point in arguments.points() {
        let row = arguments.row(point, conditions.tsc_hz)?;
        let c = row.cycles_per_packet;
        println!(
            "{:10} {:6} {:>7} {:>5}  {:>24}  {:>8.1}  {:>6}  {}",
            row.workload,
            if row.from == From::Memory { "memory" } else { "ports" },
            row.threads,
            row.batch,
            format!("{:.1} ({:.1} to {:.1})", c.median, c.min, c.max),
            row.mpps,
            row.instructions_per_packet.map_or("-".to_owned(), |i| format!("{i:.1}")),
            row.counting.map_or(String::new(), |t| format!("{:.3} ({:.3} to {:.3})", t.median, t.min, t.max))
        );
        rows.push(row);
    }
    println!("\nports: minimal 82599s, whose own steps are not counted");
    finish(&conditions, &rows, arguments.json.as_deref())
}

/// Prints the conditions, and writes all there is.
fn finish(conditions: &Conditions, rows: &impl Serialize, json: Option<&Path>) -> Result<(), Failure> {
    let ghz = conditions.tsc_hz as f64 / 1e9;
    println!("{} ({} cores), TSC {ghz:.3} GHz", conditions.cpu, conditions.cores);
    let Some(path) = json else { return Ok(()) };
    let json = serde_json::json!({ "conditions": conditions, "rows": rows });
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
    std::fs::write(path, format!("{json:#}\n")).map_err(failed)
}
