//! `cargo xtask bench`: the benchmarks that show where speed is gained or lost, one after the
//! other; their figures go to a file with the commit and the machine, a line each, so that
//! what changes over months is seen (`ixora bench drift`), and to a table for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use lab::packages::{DPDK, Packages, Suite};
use serde_json::{Value, json};

use crate::lab::programs;
use crate::step::{Failure, root, run, target};

/// What to measure, and where it goes.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Benches by their names; all but those that need DPDK and root, or another program, if left
    /// out.
    names: Vec<String>,
    /// Measure beside DPDK too, which is fetched; needs root.
    #[arg(long)]
    peers: bool,
    /// Measure routers beside this program, such as FastClick's `click`.
    #[arg(long, value_name = "CLICK")]
    beside: Option<PathBuf>,
    /// Append each figure to this file, a line of JSON each.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Draw how figures changed over the records of the file, into this folder.
    #[arg(long, value_name = "DIR", requires = "record")]
    svg: Option<PathBuf>,
    /// Write the newest figures of these benches of each machine in the file into this one,
    /// between its lines `<!-- bench -->` and `<!-- /bench -->`.
    #[arg(long, value_name = "FILE", requires = "record")]
    table: Option<PathBuf>,
    /// Measure nothing: draw and write what the file has.
    #[arg(long, requires = "record")]
    recorded: bool,
}

/// A benchmark, how it is called, and which parts of a row say what was measured.
struct Bench {
    name: &'static str,
    /// The words behind `ixora bench`.
    words: &'static str,
    settings: &'static [&'static str],
    needs: Needs,
}

/// What a benchmark needs beside this repository.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// DPDK, which is fetched, and root.
    Dpdk,
    /// A program that reads Click's language.
    Click,
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "driver",
        words: "driver --device minimal --batch 32 --ring 512",
        settings: &["workload", "device", "cores", "batch", "ring"],
        needs: Needs::Nothing,
    },
    Bench {
        name: "graph",
        words: "graph --batch 32",
        settings: &["workload", "from", "threads", "batch"],
        needs: Needs::Nothing,
    },
    Bench {
        name: "overlay",
        words: "overlay --protocol ipip,vxlan --entries 1000,1000000 --size 64",
        settings: &["protocol", "entries", "size"],
        needs: Needs::Nothing,
    },
    Bench {
        name: "tcp",
        words: "tcp --connections 1,64,1024",
        settings: &["connections", "size"],
        needs: Needs::Nothing,
    },
    Bench {
        name: "growth",
        words: "growth --axis flows,prefixes,rules",
        settings: &["axis", "curve", "x"],
        needs: Needs::Nothing,
    },
    Bench {
        name: "beside",
        words: "graph --batch 32 --windows 9",
        settings: &["source", "workload", "batch"],
        needs: Needs::Click,
    },
    Bench {
        name: "peers",
        words: "peers",
        settings: &["nic", "ours.work", "theirs.driver"],
        needs: Needs::Dpdk,
    },
    Bench { name: "virtio", words: "virtio", settings: &["ring", "peer"], needs: Needs::Dpdk },
];

/// A figure of a row, and the range of its windows.
#[derive(Debug, Clone, PartialEq)]
struct Figure {
    row: String,
    figure: String,
    median: f64,
    min: f64,
    max: f64,
}

/// Measures, appends, draws and writes the table.
pub fn of(arguments: &Arguments) -> Result<(), Failure> {
    let chosen = chosen(arguments)?;
    // What is wrong with the page is told before minutes are spent.
    arguments.table.as_deref().map_or(Ok(()), |page| rewritten_page(page, "").map(drop))?;
    if !arguments.recorded || arguments.svg.is_some() {
        run("release build", &mut programs())?;
    }
    // Before the file of records is itself one that was changed.
    let commit = commit()?;
    for bench in chosen.iter().filter(|_| !arguments.recorded) {
        let report = measure(bench, arguments)?;
        let figures = figures(&report, bench.settings);
        if figures.is_empty() {
            return Err(format!("bench {}: its report has no figures", bench.name));
        }
        if let Some(file) = &arguments.record {
            append(file, &lines(bench.name, &report, &figures, &commit))?;
        }
    }
    let Some(file) = &arguments.record else { return Ok(()) };
    if let Some(folder) = &arguments.svg {
        let mut drift = Command::new(target().join("release/ixora"));
        run("drift", drift.args(["bench", "drift"]).arg(file).arg("--svg").arg(folder))?;
    }
    match &arguments.table {
        Some(page) => {
            let is_chosen = |record: &Value| chosen.iter().any(|bench| record["bench"] == bench.name);
            let records: Vec<Value> = read(file)?.into_iter().filter(is_chosen).collect();
            rewrite(page, &table(&records)?)
        }
        None => Ok(()),
    }
}

fn chosen(arguments: &Arguments) -> Result<Vec<&'static Bench>, Failure> {
    if arguments.names.is_empty() {
        let is_wanted = |bench: &&Bench| match bench.needs {
            Needs::Nothing => true,
            Needs::Dpdk => arguments.peers || arguments.recorded,
            Needs::Click => arguments.beside.is_some() || arguments.recorded,
        };
        return Ok(BENCHES.iter().filter(is_wanted).collect());
    }
    let one = |name: &String| {
        let names = || BENCHES.iter().map(|bench| bench.name).collect::<Vec<_>>().join(", ");
        BENCHES.iter().find(|bench| bench.name == name).ok_or_else(|| format!("no bench {name}: {}", names()))
    };
    arguments.names.iter().map(one).collect()
}

/// Runs a benchmark: its report.
fn measure(bench: &Bench, arguments: &Arguments) -> Result<Value, Failure> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let json = folder.path().join("report.json");
    let mut command = Command::new(target().join("release/ixora"));
    command.arg("bench").args(bench.words.split_whitespace()).arg("--json").arg(&json);
    match (bench.needs, &arguments.beside) {
        (Needs::Nothing, _) => {}
        (Needs::Dpdk, _) => {
            let packages = Packages::open().map_err(|error| error.to_string())?;
            let dpdk = packages.tree(DPDK, Suite::BOOKWORM).map_err(|error| error.to_string())?;
            command.arg("--dpdk").arg(dpdk.root());
        }
        (Needs::Click, Some(click)) => {
            let click = click.canonicalize().map_err(|error| format!("{}: {error}", click.display()))?;
            command.arg("--beside").arg(click);
        }
        (Needs::Click, None) => {
            return Err(format!(
                "bench {}: name the program: --beside ~/fastclick/userlevel/click",
                bench.name
            ));
        }
    }
    run(&format!("bench {}", bench.name), command.current_dir(root()))?;
    let text = fs::read_to_string(&json).map_err(|error| format!("{}: {error}", json.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("bench {}: {error}", bench.name))
}

/// The commit that is measured, with a mark when files were changed since.
fn commit() -> Result<String, Failure> {
    let mut git = Command::new("git");
    git.arg("-C").arg(root()).args(["describe", "--always", "--dirty=+", "--abbrev=10", "--exclude=*"]);
    let said = git.output().map_err(|error| format!("git: {error}"))?;
    let name = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    if name.is_empty() {
        Err("git does not tell the commit: a checkout is needed".to_owned())
    } else {
        Ok(name)
    }
}

/// What a report's rows say in figures.
fn figures(report: &Value, settings: &[&str]) -> Vec<Figure> {
    let mut all = vec![];
    for row in report["rows"].as_array().into_iter().flatten() {
        let setting = |path: &&str| {
            let value = path.split('.').fold(row, |value, key| &value[key]);
            let said = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let key = path.rsplit('.').next().unwrap_or(path);
            if value.is_number() { format!("{key} {said}") } else { said }
        };
        let name = settings.iter().map(setting).collect::<Vec<_>>().join(", ");
        collect(row, "", &name, &mut all);
    }
    all
}

/// Collects the spreads below a value, each by its path.
fn collect(value: &Value, path: &str, row: &str, all: &mut Vec<Figure>) {
    let Some(fields) = value.as_object() else { return };
    let number = |key: &str| fields.get(key).and_then(Value::as_f64);
    if let (Some(median), Some(min), Some(max)) = (number("median"), number("min"), number("max")) {
        all.push(Figure { row: row.to_owned(), figure: path.to_owned(), median, min, max });
        return;
    }
    for (key, below) in fields {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        collect(below, &path, row, all);
    }
}

/// A line for each figure.
fn lines(bench: &str, report: &Value, figures: &[Figure], commit: &str) -> String {
    let conditions = &report["conditions"];
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mut text = String::new();
    for figure in figures {
        let line = json!({
            "commit": commit, "unix_s": now.as_secs(),
            "cpu": conditions["cpu"], "cores": conditions["cores"], "tsc_hz": conditions["tsc_hz"],
            "bench": bench, "row": figure.row, "figure": figure.figure,
            "median": figure.median, "min": figure.min, "max": figure.max,
        });
        let _ = writeln!(text, "{line}");
    }
    text
}

fn append(file: &Path, lines: &str) -> Result<(), Failure> {
    let failed = |error| format!("{}: {error}", file.display());
    let mut open = OpenOptions::new().create(true).append(true).open(file).map_err(failed)?;
    open.write_all(lines.as_bytes()).map_err(failed)
}

fn read(file: &Path) -> Result<Vec<Value>, Failure> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let line = |(n, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| format!("{}:{}: {error}", file.display(), n + 1))
    };
    text.lines().enumerate().map(line).collect()
}

/// The newest figures of each machine, side by side.
fn table(records: &[Value]) -> Result<String, Failure> {
    let text = |record: &Value, key: &str| record[key].as_str().unwrap_or_default().to_owned();
    let mut newest: BTreeMap<(String, String, String), BTreeMap<String, &Value>> = BTreeMap::new();
    let mut machines: BTreeMap<String, String> = BTreeMap::new();
    for record in records {
        let machine = format!("{}, {} cores", text(record, "cpu"), record["cores"]);
        let row = (text(record, "bench"), text(record, "row"), text(record, "figure"));
        newest.entry(row).or_default().insert(machine.clone(), record);
        machines.insert(machine, text(record, "commit"));
    }
    if newest.is_empty() {
        return Err("the file has no figures".to_owned());
    }
    let mut page = String::from("| bench | row | figure |");
    for (machine, commit) in &machines {
        let _ = write!(page, " {machine} (newest of {commit}) |");
    }
    let _ = writeln!(page, "\n|---|---|---|{}", "---|".repeat(machines.len()));
    for ((bench, row, figure), by_machine) in &newest {
        let _ = write!(page, "| {bench} | {row} | {} |", figure.replace('_', " "));
        for machine in machines.keys() {
            let _ = match by_machine
                .get(machine)
                .map(|record| ["median", "min", "max"].map(|key| &record[key]))
            {
                Some([Value::Number(median), Value::Number(min), Value::Number(max)]) => {
                    let [median, min, max] =
                        [median, min, max].map(|number| number.as_f64().unwrap_or(f64::NAN));
                    write!(page, " {median:.2} ({min:.2} to {max:.2}) |")
                }
                _ => write!(page, " |"),
            };
        }
        page.push('\n');
    }
    Ok(page)
}

const BEGIN: &str = "<!-- bench -->\n";
const END: &str = "<!-- /bench -->";

/// Puts a table between the marks of a page.
fn rewrite(page: &Path, table: &str) -> Result<(), Failure> {
    fs::write(page, rewritten_page(page, table)?).map_err(|error| format!("{}: {error}", page.display()))
}

/// A page with a table between its marks; where there is no such file, the table and its marks.
fn rewritten_page(page: &Path, table: &str) -> Result<String, Failure> {
    let text = match fs::read_to_string(page) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => format!("{BEGIN}{END}\n"),
        read => read.map_err(|error| format!("{}: {error}", page.display()))?,
    };
    let marks = || format!("{}: it has no line {} and {END} behind it", page.display(), BEGIN.trim());
    rewritten(&text, table).ok_or_else(marks)
}

fn rewritten(text: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(median: f64) -> Value {
        json!({ "conditions": { "cpu": "X", "cores": 2, "tsc_hz": 1 }, "rows": [
            { "ours": { "cycles": { "min": 1.0, "median": median, "max": 9.0 }, "work": "forward" },
              "theirs": { "driver": "vector" }, "batch": 32, "windows": [1, 2] },
        ] })
    }

    #[test]
    fn each_spread_of_a_row_is_a_figure() {
        let found = figures(&report(2.0), &["ours.work", "theirs.driver", "batch"]);
        let row = "forward, vector, batch 32".to_owned();
        assert_eq!(
            found,
            [Figure { row, figure: "ours.cycles".to_owned(), median: 2.0, min: 1.0, max: 9.0 }]
        );
    }

    #[test]
    fn a_table_has_the_newest_figures_of_each_machine() {
        let records = |median, commit| {
            let report = report(median);
            let text = lines("b", &report, &figures(&report, &["batch"]), commit);
            text.lines().map(|line| serde_json::from_str(line).expect("it works")).collect::<Vec<Value>>()
        };
        let mut all = records(2.0, "one");
        all.extend(records(3.0, "two"));
        let page = table(&all).expect("it works");
        assert!(page.contains("| b | batch 32 | ours.cycles | 3.00 (1.00 to 9.00) |\n"), "{page}");
        assert!(page.contains("X, 2 cores (newest of two)"), "{page}");
        assert!(table(&[]).is_err());
    }

    #[test]
    fn only_what_stands_between_the_marks_is_written_anew() {
        let page = "above\n<!-- bench -->\nold\n<!-- /bench -->\nbelow\n";
        assert_eq!(rewritten(page, "new\n").as_deref(), Some(&*page.replace("old", "new")));
        assert_eq!(rewritten("no marks", "new"), None);
    }

    #[test]
    fn a_page_without_marks_is_refused_and_a_new_one_is_written() {
        let folder = tempfile::tempdir().expect("it works");
        let page = folder.path().join("page.md");
        rewrite(&page, "table\n").expect("there is no such file yet");
        assert_eq!(
            fs::read_to_string(&page).expect("it is there"),
            "<!-- bench -->\ntable\n<!-- /bench -->\n"
        );
        fs::write(&page, "no marks").expect("it works");
        let why = rewritten_page(&page, "").expect_err("nothing says where");
        assert!(why.contains("it has no line <!-- bench -->"), "{why}");
    }

    #[test]
    fn a_file_is_appended_to_and_read_again() {
        let folder = tempfile::tempdir().expect("it works");
        let file = folder.path().join("history.jsonl");
        for _ in 0..2 {
            append(&file, &lines("b", &report(2.0), &figures(&report(2.0), &["batch"]), "one"))
                .expect("it works");
        }
        assert_eq!(read(&file).expect("it works").len(), 2);
        append(&file, "no JSON\n").expect("it works");
        assert!(read(&file).expect_err("no JSON").contains(":3: "));
    }
}
