//! `ixora bench paper`: the figures of a paper, measured with this program.
//!
//! What the papers' authors did with four cores and four cards is done with what is
//! here: one thread or two, and minimal models of the same card that step between the
//! router's or the driver's polls. There is no wire, so no line rate either: the curves go on
//! where the paper's end.

use std::path::{Path, PathBuf};

use ::bench::conditions::Conditions;
use ::bench::paper::{self, Figure, Series, Windows, xl710};
use clap::{Args, ValueEnum};
use runtime::cores::pin;

use super::plot::{self, Plot, Scale};
use super::report::{end_progress, show_progress};
use crate::Failure;

/// Which paper, and where its figures go.
#[derive(Args, Debug, Clone)]
pub struct Arguments {
    /// The paper.
    paper: Paper,
    /// Figures, separated by commas; all if left out.
    #[arg(long, value_delimiter = ',')]
    figure: Vec<String>,
    /// The folder for the figures (SVG) and what they show (JSON).
    #[arg(long, default_value = "figures")]
    out: PathBuf,
    /// Packets in a window.
    #[arg(long, default_value_t = 500_000)]
    packets: u64,
    /// Windows for each point.
    #[arg(long, default_value_t = 3)]
    windows: usize,
    /// Cores to measure on.
    #[arg(long, value_delimiter = ',', default_value = "0,1")]
    cpu: Vec<usize>,
}

/// Papers whose figures can be made.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Paper {
    /// Fast Userspace Packet Processing: figures 5, 6, 8, 9, 11, 15.
    Fastclick,
    /// Porting a driver for the Intel XL710 to IX: figures 8 and 10, and queues.
    Xl710,
}

impl Paper {
    /// What its files are called by, and its figures.
    fn names(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Paper::Fastclick => ("fastclick", &paper::NAMES),
            Paper::Xl710 => ("xl710", &xl710::NAMES),
        }
    }

    fn figure(self, name: &str, windows: &Windows) -> ::bench::Result<Figure> {
        match self {
            Paper::Fastclick => paper::figure(name, windows, &show_progress),
            Paper::Xl710 => xl710::figure(name, windows, &show_progress),
        }
    }
}

/// Measures, draws and prints.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (files, all) = arguments.paper.names();
    let conditions = Conditions::now();
    if let Some(&core) = arguments.cpu.first() {
        pin(core);
    }
    let names: Vec<&str> = match arguments.figure[..] {
        [] => all.to_vec(),
        _ => arguments.figure.iter().map(String::as_str).collect(),
    };
    std::fs::create_dir_all(&arguments.out).map_err(|error| cannot_write(&arguments.out, &error))?;
    let (packets, count, cores) = (arguments.packets, arguments.windows, arguments.cpu.clone());
    let windows = Windows { packets, count, cores, tsc_hz: conditions.tsc_hz };
    for name in names {
        let figure = arguments.paper.figure(name, &windows);
        end_progress();
        let figure = figure?;
        print(&figure);
        let path = arguments.out.join(format!("{files}-{name}.svg"));
        plot::draw(&picture(&figure, &conditions, &windows), &path)?;
        let json = arguments.out.join(format!("{files}-{name}.json"));
        let value = serde_json::json!({ "conditions": conditions, "figure": figure });
        std::fs::write(&json, format!("{value:#}\n")).map_err(|error| cannot_write(&json, &error))?;
        println!("{}\n", path.display());
    }
    println!("{}", conditions.processor());
    Ok(())
}

/// A figure as a picture.
fn picture(figure: &Figure, conditions: &Conditions, windows: &Windows) -> Plot {
    let curve = |series: &Series| plot::Curve { name: series.name.clone(), points: series.points.clone() };
    let (count, packets) = (windows.count, windows.packets);
    Plot {
        title: figure.number.map_or(String::new(), |number| format!("{number}. ")) + figure.title,
        conditions: [
            Some(figure.here.to_owned()),
            figure.paper.map(|paper| format!("the paper: {paper}")),
            Some(format!(
                "{}; {count} windows of {packets} packets: median, and range",
                conditions.processor()
            )),
        ]
        .into_iter()
        .flatten()
        .chain(figure.notes.iter().cloned())
        .collect(),
        x: Scale { name: figure.x.to_owned(), is_logarithmic: false },
        y: Scale { name: figure.y.to_owned(), is_logarithmic: false },
        curves: figure.series.iter().map(curve).collect(),
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
}

/// A table: a line for each x, a column for each curve.
fn print(figure: &Figure) {
    let number = figure.number.map_or("Not in the paper".to_owned(), |number| format!("Figure {number}"));
    println!("{number}: {} ({})", figure.title, figure.y);
    println!("  {}", figure.here);
    figure.paper.iter().for_each(|paper| println!("  the paper: {paper}"));
    let width = |series: &Series| series.name.len().max(8) + 2;
    print!("{:>14}", figure.x);
    figure.series.iter().for_each(|s| print!("{:>w$}", s.name, w = width(s)));
    println!();
    let xs = figure.series.first().map_or(&[][..], |series| &series.points);
    for (x, _) in xs {
        print!("{x:>14}");
        for series in &figure.series {
            let y = series.points.iter().find(|point| point.0 == *x);
            let y = y.map_or("-".to_owned(), |point| format!("{:.1}", point.1.median));
            print!("{y:>w$}", w = width(series));
        }
        println!();
    }
    figure.notes.iter().for_each(|note| println!("  {note}"));
}
