//! `ixora bench tables`: what packets of strangers cost while they fill a table, and what
//! memory that takes. `bench::tables` measures, each table in a process of its own, so that
//! none counts what another has left.

use std::path::PathBuf;

use ::bench::tables::{self, CASES, Case, Figures, Window};
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::in_process;
use super::report::Report;
use crate::Failure;

/// How to measure.
#[derive(Args, Debug, Clone)]
pub struct Arguments {
    /// Tables, separated by commas; all.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(CASES.iter().map(|case| case.name)))]
    table: Vec<String>,
    /// Packets for each, with as many keys.
    #[arg(long, default_value_t = 1_000_000)]
    packets: u64,
    /// Write the figures and their conditions here as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Measure one table in this process, and print its figures as JSON.
    #[arg(long, hide = true)]
    in_process: bool,
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let is_wanted =
        |case: &&Case| arguments.table.is_empty() || arguments.table.iter().any(|t| t == case.name);
    if arguments.in_process {
        for case in CASES.iter().filter(is_wanted) {
            let figures = tables::measure(case.name, arguments.packets)?;
            let text = serde_json::to_string(&figures).map_err(|error| Failure::new(error.to_string()))?;
            println!("{text}");
        }
        return Ok(());
    }
    let report = Report::new(vec![]);
    report.print_processor();
    println!(
        "\n{:<17}{:>10}{:>10}{:>11}{:>9}  cycles/packet, and what was counted",
        "table", "entries", "bound", "MiB", "B/entry"
    );
    let mut rows = vec![];
    for case in CASES.iter().filter(is_wanted) {
        let figures = figures(case, arguments.packets)?;
        print(case, &figures);
        rows.push(figures);
    }
    report.write(arguments.json.as_deref(), &rows)
}

/// Has a fresh process measure a table.
fn figures(case: &Case, packets: u64) -> Result<Figures, Failure> {
    let options = ["--in-process", "--table", case.name, "--packets", &packets.to_string()];
    in_process(case.name, "tables", &options.map(str::to_owned))
}

/// The lines of a table.
fn print(case: &Case, figures: &Figures) {
    let mib = figures.bytes as f64 / f64::from(1 << 20);
    println!(
        "{:<17}{:>10}{:>10}{mib:>11.1}{:>9.0}  {}",
        case.name,
        figures.entries,
        figures.bound,
        figures.bytes_per_entry(),
        case.about
    );
    let window = |w: &Window| format!("{} to {}: {:.0}", w.from, w.to, w.cycles_per_packet);
    println!("{:59}{}", "", figures.windows.iter().map(window).collect::<Vec<_>>().join(", "));
    let counters: Vec<String> =
        figures.counters.iter().map(|counter| format!("{} {}", counter.name, counter.count)).collect();
    if !counters.is_empty() {
        println!("{:59}{}", "", counters.join(", "));
    }
}
