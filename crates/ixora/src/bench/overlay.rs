//! `ixora bench overlay`: sending into tunnels by the overlay's table and by two passes.
//! `bench::overlay` measures it.

use std::path::PathBuf;

use ::bench::figures::Spread;
use ::bench::overlay::{self, PROTOCOLS, Row, Setup};
use clap::Args;

use super::report::{Report, end_progress, show_progress};
use crate::Failure;

/// How to measure.
#[derive(Args, Debug, Clone)]
pub struct Arguments {
    /// Entries of the table, separated by commas. IPIP and GRE have one far end.
    #[arg(long, value_delimiter = ',', default_value = "1000,1000000")]
    entries: Vec<usize>,
    /// Bytes of the packet inside, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "64,1500", value_parser = clap::value_parser!(u16).range(64..=1900))]
    size: Vec<u16>,
    /// Windows for each row.
    #[arg(long, default_value_t = 11)]
    windows: usize,
    /// The core to use.
    #[arg(long, default_value_t = 0)]
    cpu: usize,
    /// Write the figures and their conditions here as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::cores::pin(arguments.cpu);
    let report = Report::new(vec![arguments.cpu]);
    report.print_machine();
    println!("TSC cycles per packet on one core, packets in memory, batches of 32\n");
    println!(
        "{:<8}{:>9}{:>6}{:>22}{:>22}{:>24}{:>24}{:>7}{:>24}{:>9}",
        "tunnel",
        "entries",
        "size",
        "first pass",
        "second pass",
        "two passes",
        "overlay",
        "gain",
        "receive",
        "load s"
    );
    let mut settings = Vec::new();
    for (name, protocol) in PROTOCOLS {
        for (n, &entries) in arguments.entries.iter().enumerate() {
            if n > 0 && ["ipip", "gre"].contains(protocol) {
                continue; // the same row again
            }
            settings
                .extend(arguments.size.iter().map(|&size| (*name, *protocol, entries, usize::from(size))));
        }
    }
    let mut rows = Vec::new();
    for (n, &(name, protocol, entries, size)) in settings.iter().enumerate() {
        show_progress(n, settings.len());
        let row = overlay::measure(&Setup { protocol, entries, size, windows: arguments.windows });
        end_progress();
        let row = row?;
        print(name, &row);
        rows.push(row);
    }
    report.write(arguments.json.as_deref(), &rows)
}

/// The line of a row.
fn print(name: &str, row: &Row) {
    let spread = |s: Spread| format!("{:.1} ({:.1} to {:.1})", s.median, s.min, s.max);
    println!(
        "{name:<8}{:>9}{:>6}{:>22}{:>22}{:>24}{:>24}{:>7.2}{:>24}{:>9.2}",
        row.entries,
        row.size,
        spread(row.first_pass),
        spread(row.second_pass),
        spread(row.two_passes),
        spread(row.overlay),
        row.two_passes.median / row.overlay.median,
        spread(row.receive),
        row.load_s,
    );
}
