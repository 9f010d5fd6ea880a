//! The table and its JSON.

use std::fs::File;
use std::io::IsTerminal;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use crate::Failure;
use ::bench::conditions::Conditions;
use ::bench::distance::NEAR;
use ::bench::figures::Row;

/// Tells a person who waits how far the measurement is.
pub fn show_progress(done: usize, windows: usize) {
    if std::io::stderr().is_terminal() {
        eprint!("\r{done} of {windows} windows ");
    }
}

/// Wipes what [`show_progress`] left.
pub fn end_progress() {
    if std::io::stderr().is_terminal() {
        eprint!("\r{:24}\r", "");
    }
}

/// Rows and conditions.
#[derive(Debug)]
pub struct Report {
    conditions: Conditions,
    cpus: Vec<usize>,
    rows: Vec<Row>,
    notes: Vec<&'static str>,
}

impl Report {
    /// An empty report.
    pub fn new(cpus: Vec<usize>) -> Report {
        Report { conditions: Conditions::now(), cpus, rows: Vec::new(), notes: Vec::new() }
    }

    /// Prints what it was measured on.
    pub fn print_processor(&self) {
        println!("{}", self.conditions.processor());
    }

    /// Prints the sizes of its caches.
    pub fn print_caches(&self) {
        println!("{}", self.conditions.caches());
    }

    /// What it was measured on.
    pub fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// Prints what the figures depend on.
    pub fn print_machine(&self) {
        self.print_processor();
        let pages = if self.conditions.hugepages { "hugepages" } else { "ordinary pages" };
        println!(
            "cores {:?}, {pages}; the devices are models: doorbells are stores, not PCIe writes",
            self.cpus
        );
        println!(
            "near: nine of ten round trips between the cores take at most {NEAR} times what a quarter of this run's\n\
             measurements did not exceed; where no window is near, the figures are of all"
        );
    }

    /// Prints what the figures depend on, and the table's head.
    pub fn print_conditions(&self) {
        self.print_machine();
        println!();
        println!(
            "{:<14}{:<12}{:>6}{:>6}{:>6}{:>7}  {:>22}{:>8}{:>8}{:>6}{:>7}{:>8}  {:>11}{:>10}",
            "device",
            "work",
            "cores",
            "batch",
            "ring",
            "queues",
            "TSC cycles/packet",
            "Mpps",
            "empty",
            "idle",
            "fill",
            "instr",
            "round trip",
            "near"
        );
    }

    /// Adds and prints a line.
    pub fn add(&mut self, row: Row) {
        let work = row.setting.workload.name();
        let c = row.cycles_per_packet;
        let instructions = row.instructions_per_packet.map_or("-".to_owned(), |i| format!("{i:.1}"));
        let distance = row.distance.map_or("-".to_owned(), |d| format!("{:.0}..{:.0}", d.min, d.max));
        let near =
            if row.cores == 2 { format!("{}/{}", row.near_windows, row.windows) } else { "-".to_owned() };
        println!(
            "{:<14}{work:<12}{:>6}{:>6}{:>6}{:>7}  {:>22}{:>8.1}{:>8}{:>6}{:>7.1}{instructions:>8}  {distance:>11}{near:>10}",
            row.setting.device.name(),
            row.cores,
            row.setting.batch,
            row.setting.ring,
            row.setting.queues,
            format!(
                "{:.1} ({:.1} to {:.1}){}",
                c.median,
                c.min,
                c.max,
                if row.device_limits { "*" } else { "" }
            ),
            row.mpps,
            percent(Some(row.empty_polls)),
            percent(row.device_idle),
            row.batch_fill,
        );
        if row.device_limits {
            self.note("* the device's cycles: more than 15 % of the driver's polls found nothing");
        }
        self.rows.push(row);
    }

    /// Says something once, below the table.
    pub fn note(&mut self, note: &'static str) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Prints the notes and writes the JSON.
    pub fn finish(&self, json: Option<&Path>) -> Result<(), Failure> {
        self.print_notes();
        self.write(json, &self.rows)
    }

    /// Prints the notes.
    pub fn print_notes(&self) {
        for note in &self.notes {
            println!("note: {note}");
        }
    }

    /// Writes other rows than this report's under its conditions.
    pub fn write(&self, json: Option<&Path>, rows: &impl Serialize) -> Result<(), Failure> {
        self.write_with(json, rows, &[])
    }

    /// The same, with something more beside the rows, by name.
    pub fn write_with(
        &self,
        json: Option<&Path>,
        rows: &impl Serialize,
        more: &[(&str, Value)],
    ) -> Result<(), Failure> {
        let Some(path) = json else { return Ok(()) };
        let failed =
            |error: std::io::Error| Failure::new(format!("cannot write {}: {error}", path.display()));
        let file = File::create(path).map_err(failed)?;
        let mut all = json!({
            "conditions": self.conditions, "cpus": self.cpus, "rows": rows, "notes": self.notes,
        });
        for (name, value) in more {
            all[*name] = value.clone();
        }
        serde_json::to_writer_pretty(file, &all).map_err(|error| failed(error.into()))
    }
}

/// A share as a table has it.
pub fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.0}%", share * 100.0))
}
