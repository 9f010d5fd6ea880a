//! `ixora bench paper`: the figures of a paper, measured with this program. Beside those of the
//! overlay FIB stand the kernel's own devices, in a network namespace that a second process of this
//! program makes for them.
//!
//! What the papers' authors did with four cores and four cards is done with what is
//! here: one thread or two, and minimal models of the same card that step between the
//! router's or the driver's polls. There is no wire, so no line rate either: the curves go on
//! where the paper's end.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ::bench::conditions::Conditions;
use ::bench::paper::overlay_fib::kernel::{self, Kernel};
use ::bench::paper::overlay_fib::{self, OverlayFib};
use ::bench::paper::{self, Figure, Series, Windows, xl710};
use clap::{Args, ValueEnum};
use runtime::cores::pin;

use super::bars;
use super::plot::{self, Plot, Scale};
use super::report::{end_progress, show_progress};
use crate::Failure;

/// Which paper, and where its figures go.
#[derive(Args, Debug, Clone)]
pub struct Arguments {
    /// The paper whose figures are measured.
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
    /// Measure the kernel's devices in this process's network namespace, and print that as JSON.
    #[arg(long, hide = true)]
    only_kernel: bool,
}

/// Papers whose figures can be made.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Paper {
    /// Fast Userspace Packet Processing: figures 5, 6, 8, 9, 11, 15.
    Fastclick,
    /// Protocol-Independent FIB Architecture for Network Overlays: figures 3 and 7, Table 2.
    OverlayFib,
    /// Porting a driver for the Intel XL710 to IX: figures 8 and 10, and queues.
    Xl710,
}

impl Paper {
    /// What its files are called by, and its figures.
    fn names(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Paper::Fastclick => ("fastclick", &paper::NAMES),
            Paper::OverlayFib => ("overlay-fib", &overlay_fib::NAMES),
            Paper::Xl710 => ("xl710", &xl710::NAMES),
        }
    }
}

/// A paper whose figures are made.
enum Making {
    Fastclick,
    OverlayFib(OverlayFib),
    Xl710,
}

impl Making {
    fn figure(&mut self, name: &str, windows: &Windows) -> ::bench::Result<Figure> {
        match self {
            Making::Fastclick => paper::figure(name, windows, &show_progress),
            Making::OverlayFib(all) => all.figure(name, windows, &show_progress),
            Making::Xl710 => xl710::figure(name, windows, &show_progress),
        }
    }
}

/// Measures, draws and prints.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.only_kernel {
        return print_kernel(arguments);
    }
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
    let mut making = match arguments.paper {
        Paper::Fastclick => Making::Fastclick,
        Paper::OverlayFib => Making::OverlayFib(OverlayFib::new(kernel(arguments))),
        Paper::Xl710 => Making::Xl710,
    };
    for name in names {
        let figure = making.figure(name, &windows);
        end_progress();
        let figure = figure?;
        print(&figure);
        let path = arguments.out.join(format!("{files}-{name}.svg"));
        let picture = picture(&figure, &conditions, &windows);
        match &figure.bars {
            None => plot::draw(&picture, &path)?,
            Some(bars) => bars::draw(&picture, bars, &path)?,
        }
        let json = arguments.out.join(format!("{files}-{name}.json"));
        let value = serde_json::json!({ "conditions": conditions, "figure": figure });
        std::fs::write(&json, format!("{value:#}\n")).map_err(|error| cannot_write(&json, &error))?;
        println!("{}\n", path.display());
    }
    println!("{}", conditions.processor());
    Ok(())
}

/// What the kernel's devices cost; nothing, and why, where that cannot be measured.
fn kernel(arguments: &Arguments) -> Kernel {
    let cores = arguments.cpu.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let measured = std::env::current_exe().and_then(|program| {
        Command::new("unshare")
            .arg("--net")
            .arg(program)
            .args(["bench", "paper", "overlay-fib", "--only-kernel", "--cpu", &cores])
            .args(["--packets", &arguments.packets.to_string()])
            .args(["--windows", &arguments.windows.to_string()])
            .stdin(Stdio::null())
            .output()
    });
    let why = match measured {
        Ok(output) => match serde_json::from_slice(&output.stdout) {
            Ok(kernel) => return kernel,
            Err(_) => String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned(),
        },
        Err(error) => format!("unshare: {error}"),
    };
    Kernel { rows: vec![], notes: vec![format!("the kernel's devices were not measured: {why}")] }
}

/// Measures the kernel's devices here, and prints that.
fn print_kernel(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(&core) = arguments.cpu.first() {
        pin(core);
    }
    let measured = kernel::measure(&OverlayFib::sizes(), arguments.packets, arguments.windows)?;
    println!("{}", serde_json::to_string(&measured).map_err(|error| Failure::new(error.to_string()))?);
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
        // Bars have a note for each of many places, which the table has.
        .chain(figure.notes.iter().filter(|_| figure.bars.is_none()).cloned())
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
    let label = |x: f64| match &figure.bars {
        Some(bars) => bars.labels.get(x as usize).cloned().unwrap_or_default(),
        None => x.to_string(),
    };
    print!("{:>18}", figure.x);
    figure.series.iter().for_each(|s| print!("{:>w$}", s.name, w = width(s)));
    println!();
    // Rates of the paper have two places.
    let digits = if figure.bars.as_ref().is_some_and(|bars| bars.stacked == 0) { 2 } else { 1 };
    let xs = figure.series.first().map_or(&[][..], |series| &series.points);
    for (x, _) in xs {
        print!("{:>18}", label(*x));
        for series in &figure.series {
            let y = series.points.iter().find(|point| point.0 == *x);
            let y = y.map_or("-".to_owned(), |point| format!("{:.*}", digits, point.1.median));
            print!("{y:>w$}", w = width(series));
        }
        println!();
    }
    figure.notes.iter().for_each(|note| println!("  {note}"));
}
