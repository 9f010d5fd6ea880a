//! `ixora bench growth`: what a packet costs when there is more of something. `bench::growth`
//! measures, each row in a process of its own, so that none is measured with the memory that
//! another has left.

use std::path::{Path, PathBuf};

use ::bench::calibration::is_steady;
use ::bench::conditions::{Conditions, mib};
use ::bench::figures::Spread;
use ::bench::growth::curve::{Curve, FLAT, curves, figure};
use ::bench::growth::{self, Axis, Point, Row, Setup, points};
use clap::Args;
use runtime::cores;

use super::in_process;
use super::one_of;
use super::plot::{self, Plot, Scale};
use super::report::{Report, end_progress, show_progress};
use crate::Failure;

/// How to measure.
#[derive(Args, Debug, Clone)]
pub struct Arguments {
    /// What there is to be more of, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "flows,prefixes,elements,rules,queues,ports,threads", value_parser = one_of(Axis::ALL))]
    axis: Vec<Axis>,
    /// How many, separated by commas; from one to the most of each axis if left out: a million
    /// flows and prefixes, 256 elements, 10,000 rules, 16 queues, 32 ports, a thread a core.
    #[arg(long, value_delimiter = ',')]
    at: Vec<u64>,
    /// Packets in a window.
    #[arg(long, default_value_t = 400_000)]
    packets: u64,
    /// Windows for each row.
    #[arg(long, default_value_t = 5)]
    windows: usize,
    /// Packets at a time.
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// Cores to measure on: the first, and another for each further thread; all there are.
    #[arg(long, value_delimiter = ',')]
    cpu: Vec<usize>,
    /// Write the rows, what they say of each curve, and their conditions here as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Draw a picture (SVG) of each axis into this folder.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Measure this curve's one row in this process, and print it as JSON.
    #[arg(long, hide = true, value_name = "CURVE")]
    in_process: Option<String>,
}

impl Arguments {
    fn setup(&self) -> Result<Setup, Failure> {
        cores::check(&self.cpu).map_err(|error| Failure::core("--cpu", &error))?;
        let cores = if self.cpu.is_empty() { cores::usable() } else { self.cpu.clone() };
        Ok(Setup { packets: self.packets, windows: self.windows, batch: self.batch, cores })
    }
}

/// Measures, prints and draws.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let setup = arguments.setup()?;
    let points = points(&arguments.axis, &arguments.at, &setup)?;
    if let Some(curve) = &arguments.in_process {
        return print_row(points.iter().find(|point| point.curve == curve), &setup);
    }
    let mut report = Report::new(setup.cores.clone());
    report.print_processor();
    report.print_caches();
    println!(
        "TSC cycles per packet, {} at a time; sources and the steps of minimal 82599s left out, but for threads;\n\
         table: bytes of what grows, where it is a table; calib: TSC ticks of a multiplication before and after\n",
        setup.batch
    );
    print_head();
    let mut rows: Vec<Row> = vec![];
    for (n, point) in points.iter().enumerate() {
        show_progress(n, points.len());
        let row = row(point, &setup);
        end_progress();
        let row = row?;
        print(&row);
        if !is_steady(row.calibration) {
            report.note("* the core ran at another speed after the row than before it: measure it again");
        }
        rows.push(row);
    }
    let curves = curves(&rows);
    println!();
    curves.iter().for_each(print_curve);
    report.print_notes();
    if let Some(folder) = &arguments.svg {
        draw(&rows, &setup, report.conditions(), folder)?;
    }
    report.write_with(arguments.json.as_deref(), &rows, &[("curves", serde_json::json!(curves))])
}

/// Prints the row of a process that measures nothing else.
fn print_row(point: Option<&Point>, setup: &Setup) -> Result<(), Failure> {
    let point = point.ok_or_else(|| Failure::usage("there is no such curve"))?;
    let row = growth::measure(point, setup)?;
    println!("{}", serde_json::to_string(&row).map_err(|error| Failure::new(error.to_string()))?);
    Ok(())
}

/// Has a fresh process measure a row.
fn row(point: &Point, setup: &Setup) -> Result<Row, Failure> {
    let list = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let options = [
        ("--in-process", point.curve.to_owned()),
        ("--axis", point.axis.name().to_owned()),
        ("--at", point.x.to_string()),
        ("--packets", setup.packets.to_string()),
        ("--windows", setup.windows.to_string()),
        ("--batch", setup.batch.to_string()),
        ("--cpu", list(&setup.cores)),
    ];
    let options: Vec<String> =
        options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
    in_process(&format!("{} of {} {}", point.curve, point.x, point.axis.name()), "growth", &options)
}

fn print_head() {
    println!(
        "{:<10}{:<15}{:>9}{:>26}{:>24}{:>13}{:>6}{:>14}",
        "axis", "curve", "number", "cycles/packet", "cycles/element", "table MiB", "near", "calib"
    );
}

/// The line of a row.
fn print(row: &Row) {
    let spread = |s: Spread| format!("{:.1} ({:.1} to {:.1})", s.median, s.min, s.max);
    let [before, after] = row.calibration;
    println!(
        "{:<10}{:<15}{:>9}{:>26}{:>24}{:>13}{:>6}{:>14}",
        row.axis.name(),
        row.curve,
        row.x,
        spread(row.cycles_per_packet),
        row.cycles_per_element.map_or("-".to_owned(), spread),
        row.table_bytes.map_or("-".to_owned(), |bytes| format!("{:.2}", mib(bytes))),
        row.near_windows.map_or("-".to_owned(), |near| format!("{near}/{}", row.windows)),
        format!("{before:.2} {after:.2}{}", if is_steady(row.calibration) { "" } else { "*" }),
    );
}

/// What a curve's rows say together.
fn print_curve(curve: &Curve) {
    let table = |bytes: Option<u64>| bytes.map_or(String::new(), |b| format!(" ({:.2} MiB)", mib(b)));
    let knee = curve.knee.map_or("no knee".to_owned(), |knee| {
        let (before, at) = (table(knee.bytes_after), table(knee.bytes_at));
        format!("level to {}{before}, above at {}{at}", knee.after, knee.at)
    });
    println!(
        "{:<10}{:<15}{}: {:.1} to {:.1}, {:.2} times; {knee}",
        curve.axis.name(),
        curve.curve,
        if curve.is_flat { format!("flat within {FLAT}") } else { format!("not flat within {FLAT}") },
        curve.lowest,
        curve.highest,
        curve.ratio,
    );
}

/// A picture for each axis.
fn draw(rows: &[Row], setup: &Setup, conditions: &Conditions, folder: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::new(format!("cannot write {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    for rows in rows.chunk_by(|a, b| a.axis == b.axis) {
        let axis = rows[0].axis;
        let curve = |rows: &[Row]| plot::Curve {
            name: rows[0].curve.clone(),
            points: rows.iter().map(|row| (row.x as f64, figure(row))).collect(),
        };
        let of = if axis == Axis::Elements { "element" } else { "packet" };
        let plot = Plot {
            title: format!("Growth: {}", axis.name()),
            conditions: vec![
                conditions.processor(),
                format!(
                    "{}; batch {}, {} windows of {} packets: median, and range",
                    conditions.caches(),
                    setup.batch,
                    setup.windows,
                    setup.packets
                ),
            ],
            x: Scale { name: axis.name().to_owned(), is_logarithmic: true },
            y: Scale { name: format!("TSC cycles per {of}"), is_logarithmic: true },
            curves: rows.chunk_by(|a, b| a.curve == b.curve).map(curve).collect(),
        };
        let path = folder.join(format!("growth-{}.svg", axis.name()));
        plot::draw(&plot, &path)?;
        println!("{}", path.display());
    }
    Ok(())
}
