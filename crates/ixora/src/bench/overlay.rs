//! `ixora bench overlay`: sending into tunnels by the overlay's table and by two passes.
//! `bench::overlay` measures it.

use std::path::PathBuf;

use ::bench::figures::Spread;
use ::bench::overlay::{self, Keys, Row, SUBJECTS, Setup};
use clap::Args;

use super::instructions::count_overlay;
use super::report::{Report, end_progress, show_progress};
use crate::Failure;

/// How to measure.
#[derive(Args, Debug, Clone)]
pub struct Arguments {
    /// Protocols, separated by commas: those of the paper, and nvgre, geneve, gtpu, mpls-gre,
    /// mpls-udp, lisp, srv6.
    #[arg(long, value_delimiter = ',', default_value = "ipip,gre,gretap,vxlan,vxlan-gpe")]
    protocol: Vec<String>,
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
    /// Count instructions too, by valgrind's callgrind.
    #[arg(long)]
    instructions: bool,
    /// Write the figures and their conditions here as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// For callgrind: send and receive so many packets for each row and print nothing.
    #[arg(long, hide = true)]
    only_packets: Option<u64>,
}

impl Arguments {
    /// The rows, each with the paper's name of its protocol.
    fn settings(&self) -> Result<Vec<(&'static str, Setup)>, Failure> {
        let mut settings = Vec::new();
        for wanted in &self.protocol {
            let found = SUBJECTS.iter().find(|subject| subject.protocol == wanted);
            let subject = *found.ok_or_else(|| {
                Failure::usage(format!("the protocol {wanted} is not among those that are measured"))
            })?;
            // Of protocols with one far end the row would be the same again.
            let rows = if subject.keys == Keys::One { 1 } else { self.entries.len() };
            for &entries in self.entries.iter().take(rows) {
                settings.extend(self.size.iter().map(|&size| {
                    (subject.name, Setup { subject, entries, size: size.into(), windows: self.windows })
                }));
            }
        }
        Ok(settings)
    }
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.settings()?;
    if let Some(packets) = arguments.only_packets {
        return settings.iter().try_for_each(|(_, setup)| Ok(overlay::pass(setup, packets)?));
    }
    let report = Report::new(vec![arguments.cpu]); // before this thread is pinned to one core
    runtime::cores::pin(arguments.cpu);
    report.print_machine();
    println!("TSC cycles per packet on one core, packets in memory, batches of 32\n");
    println!(
        "{:<8}{:>9}{:>6}{:>22}{:>22}{:>24}{:>24}{:>7}{:>22}{:>24}{:>9}{:>16}",
        "tunnel",
        "entries",
        "size",
        "first pass",
        "second pass",
        "two passes",
        "overlay",
        "gain",
        "offload",
        "receive",
        "load s",
        "instructions"
    );
    let mut rows = Vec::new();
    for (n, (name, setup)) in settings.iter().enumerate() {
        show_progress(n, settings.len());
        let row = overlay::measure(setup);
        end_progress();
        let mut row = row?;
        if arguments.instructions {
            let [send, receive] = count_overlay(setup)?;
            (row.send_instructions, row.receive_instructions) = (Some(send), Some(receive));
        }
        print(name, &row);
        rows.push(row);
    }
    report.write(arguments.json.as_deref(), &rows)
}

/// The line of a row.
fn print(name: &str, row: &Row) {
    let spread = |s: Spread| format!("{:.1} ({:.1} to {:.1})", s.median, s.min, s.max);
    println!(
        "{name:<8}{:>9}{:>6}{:>22}{:>22}{:>24}{:>24}{:>7.2}{:>22}{:>24}{:>9.2}{:>16}",
        row.entries,
        row.size,
        spread(row.first_pass),
        spread(row.second_pass),
        spread(row.two_passes),
        spread(row.overlay),
        row.two_passes.median / row.overlay.median,
        spread(row.offload),
        spread(row.receive),
        row.load_s,
        match (row.send_instructions, row.receive_instructions) {
            (Some(send), Some(receive)) => format!("{send:.1}, {receive:.1}"),
            _ => "-".to_owned(),
        }
    );
}
