//! `ixora bench drift`: how figures changed over the records that `cargo xtask bench --record`
//! appended to a file, a picture for each figure of each bench on each machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ::bench::figures::Spread;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::plot::{self, Curve, Plot, Scale};
use crate::Failure;

/// What to draw.
#[derive(Args, Debug, Clone)]
pub struct Arguments {
    /// The file that `cargo xtask bench --record` appended to.
    history: PathBuf,
    /// Draw pictures into this folder.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Rows whose newest figure is larger than the one before by more than this share of it are
    /// told.
    #[arg(long, default_value_t = 0.1)]
    tolerance: f64,
    /// Print what changed as JSON.
    #[arg(long)]
    json: bool,
}

/// A line of the file.
#[derive(Deserialize)]
struct Record {
    commit: String,
    cpu: String,
    cores: usize,
    bench: String,
    row: String,
    figure: String,
    median: f64,
    min: f64,
    max: f64,
}

/// A figure of a bench on a machine.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct FigureKey {
    machine: String,
    bench: String,
    figure: String,
}

/// A row's course: the commits and their figures, as they were recorded.
type Course = Vec<(String, Spread)>;

/// A row whose newest figure differs from the one before by more than the tolerance.
#[derive(Serialize)]
struct Change<'a> {
    machine: &'a str,
    bench: &'a str,
    figure: &'a str,
    row: &'a str,
    /// The commit before, and its median.
    before: (&'a str, f64),
    /// The newest commit, and its median.
    newest: (&'a str, f64),
    /// Newest over before.
    ratio: f64,
}

/// Tells what changed, and draws.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = &arguments.history;
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::new(format!("{}: {error}", path.display()))
            .fix("cargo xtask bench --record FILE makes such a file")
    })?;
    let courses = courses(&text).map_err(|why| Failure::new(format!("{}:{why}", path.display())))?;
    let changes = changes(&courses, arguments.tolerance);
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&changes).unwrap_or_default());
    } else {
        print(&changes, courses.values().map(BTreeMap::len).sum());
    }
    match &arguments.svg {
        Some(folder) => draw(&courses, folder),
        None => Ok(()),
    }
}

/// The rows of each figure, each with its course.
fn courses(text: &str) -> Result<BTreeMap<FigureKey, BTreeMap<String, Course>>, String> {
    let mut all: BTreeMap<FigureKey, BTreeMap<String, Course>> = BTreeMap::new();
    for (n, line) in text.lines().enumerate() {
        let record: Record = serde_json::from_str(line).map_err(|error| format!("{}: {error}", n + 1))?;
        let Record { commit, cpu, cores, bench, row, figure, median, min, max } = record;
        let place = FigureKey { machine: format!("{cpu}, {cores} cores"), bench, figure };
        let spread = Spread { median, min, max };
        all.entry(place).or_default().entry(row).or_default().push((commit, spread));
    }
    Ok(all)
}

fn changes(courses: &BTreeMap<FigureKey, BTreeMap<String, Course>>, tolerance: f64) -> Vec<Change<'_>> {
    let mut all = vec![];
    for (place, rows) in courses {
        for (row, course) in rows {
            let [.., (before, was), (newest, is)] = &course[..] else { continue };
            let ratio = is.median / was.median;
            if (ratio - 1.0).abs() > tolerance {
                let FigureKey { machine, bench, figure } = place;
                let (before, newest) = ((&**before, was.median), (&**newest, is.median));
                all.push(Change { machine, bench, figure, row, before, newest, ratio });
            }
        }
    }
    all
}

fn print(changes: &[Change], rows: usize) {
    for change in changes {
        let ((before, was), (newest, is)) = (change.before, change.newest);
        println!(
            "{} {} {}: {was:.2} at {before}, {is:.2} at {newest} ({:+.0} %; {})",
            change.bench,
            change.row,
            change.figure,
            (change.ratio - 1.0) * 100.0,
            change.machine,
        );
    }
    println!("{} of {rows} rows changed", changes.len());
}

fn draw(courses: &BTreeMap<FigureKey, BTreeMap<String, Course>>, folder: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::new(format!("cannot write {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    for (place, rows) in courses {
        let longest = rows.values().max_by_key(|course| course.len());
        let commits: Vec<&str> = longest.into_iter().flatten().map(|(commit, _)| &**commit).collect();
        let first_and_last = [commits.first(), commits.last()].map(|commit| commit.copied().unwrap_or("-"));
        let curve = |(row, course): (&String, &Course)| Curve {
            name: row.clone(),
            points: (1_u32..).zip(course).map(|(n, (_, spread))| (f64::from(n), *spread)).collect(),
        };
        let plot = Plot {
            title: format!("{}: {}", place.bench, place.figure.replace('_', " ")),
            conditions: vec![
                place.machine.clone(),
                format!("{} records, from {} to {}", commits.len(), first_and_last[0], first_and_last[1]),
            ],
            x: Scale { name: "record".to_owned(), is_logarithmic: false },
            y: Scale { name: place.figure.replace('_', " "), is_logarithmic: false },
            curves: rows.iter().map(curve).collect(),
        };
        let name = format!("drift-{}-{}-{}.svg", place.bench, place.figure, place.machine);
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        plot::draw(&plot, &folder.join(name.chars().map(plain).collect::<String>()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(commit: &str, row: &str, median: f64) -> String {
        serde_json::json!({
            "commit": commit, "unix_s": 1, "cpu": "X", "cores": 2, "tsc_hz": 1, "bench": "driver",
            "row": row, "figure": "cycles_per_packet", "median": median, "min": 1.0, "max": 99.0,
        })
        .to_string()
    }

    #[test]
    fn what_differs_from_the_record_before_is_told_and_drawn() {
        let lines =
            [line("a", "rx", 10.0), line("a", "tx", 10.0), line("b", "rx", 12.0), line("b", "tx", 10.5)];
        let courses = courses(&lines.join("\n")).expect("records");
        let changed = changes(&courses, 0.1);
        assert_eq!(
            changed.iter().map(|change| (change.row, change.before.0)).collect::<Vec<_>>(),
            [("rx", "a")]
        );
        let folder = tempfile::tempdir().expect("a directory");
        draw(&courses, folder.path()).expect("drawn");
        let drawn =
            std::fs::read_to_string(folder.path().join("drift-driver-cycles-per-packet-X--2-cores.svg"));
        assert!(drawn.expect("a picture").contains("2 records, from a to b"));
    }

    #[test]
    fn a_line_that_is_no_record_is_named() {
        let text = format!("{}\nno record", line("a", "rx", 10.0));
        assert!(courses(&text).err().expect("refused").starts_with("2: "));
    }
}
