//! `ixora bench latency`: how long packets are under way, against load. `bench::latency`
//! measures.

use std::path::{Path, PathBuf};

use ::bench::calibration::is_steady;
use ::bench::conditions::Conditions;
use ::bench::figures::Spread;
use ::bench::latency::{self, Mode, Row, SHARES, Setup, Work};
use clap::Args;
use runtime::cores;

use super::one_of;
use super::plot::{self, Plot, Scale};
use super::report::{Report, end_progress, percent, show_progress};
use crate::Failure;

/// How to measure.
#[derive(Args, Debug, Clone)]
pub struct Arguments {
    /// What packets go through, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "wire,forward,router", value_parser = one_of(Work::ALL))]
    work: Vec<Work>,
    /// How its thread learns of packets, separated by commas; a router only polls.
    #[arg(long, value_delimiter = ',', default_value = "poll,interrupt", value_parser = one_of(Mode::ALL))]
    mode: Vec<Mode>,
    /// Packets at a time, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1,32,256")]
    batch: Vec<usize>,
    /// Descriptors in each ring, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "512")]
    ring: Vec<usize>,
    /// Loads in percent of the most that came through, separated by commas: 0.1 to 200.
    #[arg(long, value_delimiter = ',', default_value = "1,10,50,80,95")]
    load: Vec<f64>,
    /// Seconds for each load, and to find out what comes through.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// The core of what is measured, and the tester's; the first two.
    #[arg(long, value_delimiter = ',')]
    cpu: Vec<usize>,
    /// Write the rows and their conditions here as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Draw pictures (SVG) of each combination of work, mode and ring into this folder.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

impl Arguments {
    fn cores(&self) -> Result<[usize; 2], Failure> {
        cores::check(&self.cpu).map_err(|error| Failure::core("--cpu", &error))?;
        let cores = if self.cpu.is_empty() { cores::usable() } else { self.cpu.clone() };
        match cores[..] {
            [measured, tester, ..] if measured != tester => Ok([measured, tester]),
            _ => Err(Failure::usage("the tester needs a core of its own").fix("name two cores: --cpu 0,1")),
        }
    }

    /// Every combination; what was named first varies slowest. A wire has neither mode nor
    /// batch, and a router only polls, unless nothing else was asked for.
    fn setups(&self) -> Result<Vec<Setup>, Failure> {
        let cores = self.cores()?;
        let mut setups: Vec<Setup> = vec![];
        for &work in &self.work {
            for &mode in &self.mode {
                for &ring in &self.ring {
                    for &batch in &self.batch {
                        let (loads, seconds) = (self.load.clone(), self.seconds);
                        setups.push(Setup { work, mode, batch, ring, loads, seconds, cores });
                    }
                }
            }
        }
        let polls = self.mode.contains(&Mode::Poll);
        setups.retain(|setup| !(polls && setup.work == Work::Router && setup.mode == Mode::Interrupt));
        setups.dedup_by(|a, b| a.work == Work::Wire && b.work == Work::Wire && a.ring == b.ring);
        setups.iter().try_for_each(latency::check)?;
        Ok(setups)
    }
}

/// Measures, prints and draws.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let setups = arguments.setups()?;
    let cores = arguments.cores()?;
    let mut report = Report::new(cores.to_vec());
    report.print_processor();
    println!(
        "core {}; the tester and the models of the 82599 on core {}; 60-byte frames; microseconds from when a\n\
         packet was due until the tester had it back, with what the tester and the models take (wire); load: of\n\
         the most that came through; cpu: processor time of what is measured; calib: TSC ticks of a multiplication\n",
        cores[0], cores[1]
    );
    print_head();
    let mut rows: Vec<Row> = vec![];
    for (n, setup) in setups.iter().enumerate() {
        show_progress(n, setups.len());
        let measured = latency::measure(setup);
        end_progress();
        for row in measured? {
            print(&row);
            if !is_steady(row.calibration) {
                report.note(
                    "* the tester's core ran at another speed after the row than before it: measure it again",
                );
            }
            rows.push(row);
        }
    }
    report.print_notes();
    if let Some(folder) = &arguments.svg {
        draw(&rows, arguments.seconds, report.conditions(), folder)?;
    }
    report.write_with(arguments.json.as_deref(), &rows, &[("shares", serde_json::json!(SHARES))])
}

fn print_head() {
    print!("{:<9}{:<11}{:>6}{:>6}{:>7}{:>10}{:>9}", "work", "mode", "batch", "ring", "load", "kpps", "lost");
    SHARES.iter().for_each(|share| print!("{:>10}", format!("{share} %")));
    println!("{:>11}{:>7}{:>13}", "longest", "cpu", "calib");
}

/// The line of a row.
fn print(row: &Row) {
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    let [before, after] = row.calibration;
    print!(
        "{:<9}{:<11}{:>6}{:>6}{:>7}{:>10.1}{:>9}",
        row.work.name(),
        if row.work == Work::Wire { "-" } else { row.mode.name() },
        row.batch,
        row.ring,
        format!("{} %", row.load),
        row.sent_per_s / 1e3,
        row.lost
    );
    row.delay_ns.iter().for_each(|ns| print!("{:>10}", us(*ns)));
    println!(
        "{:>11}{:>7}{:>13}",
        us(row.longest_ns),
        percent(Some(row.processor)),
        format!("{before:.2} {after:.2}{}", if is_steady(row.calibration) { "" } else { "*" }),
    );
}

/// A picture for each work, mode and ring: a curve for each batch and load.
fn draw(rows: &[Row], seconds: f64, conditions: &Conditions, folder: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::new(format!("cannot write {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let same = |a: &Row, b: &Row| (a.work, a.mode, a.ring) == (b.work, b.mode, b.ring);
    for rows in rows.chunk_by(same) {
        let Row { work, mode, ring, .. } = rows[0];
        let us = |ns: u64| ns as f64 / 1e3;
        let same_batch = |a: &Row, b: &Row| a.batch == b.batch;
        let curve = |rows: &[Row]| plot::Curve {
            name: format!("batch {}", rows[0].batch),
            points: rows
                .iter()
                .map(|row| {
                    let [median, _, _, most, _] = row.delay_ns.map(us);
                    (row.load, Spread { min: median, median, max: most })
                })
                .collect(),
        };
        let name = format!("{}-{}-{ring}", work.name(), mode.name());
        let plot = Plot {
            title: format!("Delay: {}, {}, rings of {ring}", work.name(), mode.name()),
            conditions: vec![
                conditions.processor(),
                format!(
                    "{seconds} s for each load; the median, and up to what 99.9 % take; the tester and the models are in it"
                ),
            ],
            x: Scale { name: "load, percent of the most that came through".to_owned(), is_logarithmic: true },
            y: Scale { name: "microseconds".to_owned(), is_logarithmic: true },
            curves: rows.chunk_by(same_batch).map(curve).collect(),
        };
        let path = folder.join(format!("latency-{name}.svg"));
        plot::draw(&plot, &path)?;
        println!("{}", path.display());
    }
    Ok(())
}
