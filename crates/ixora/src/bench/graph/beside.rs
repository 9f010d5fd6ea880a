//! Our router beside FastClick's (or whoever reads the same language): one file, two
//! programs, in turns on one core.
//!
//! FastClick has no source that makes flows without cost, so both programs replay a
//! capture of 4,096 packets from memory (`ReplayUnqueue`), and both count what reaches
//! the end between two moments of their own clocks. What replaying costs is in both
//! figures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ::bench::conditions::Conditions;
use ::bench::figures::Spread;
use ::bench::graph::workload;
use runtime::cores::pin;
use serde::Serialize;

use super::{Arguments, finish};
use crate::Failure;
use crate::bench::report::{end_progress, show_progress};

/// Seconds that a program runs before it is looked at, and for how long it is.
const WARM: f64 = 0.3;
const WINDOW: f64 = 1.0;

#[derive(Debug, Serialize)]
struct Row {
    workload: String,
    batch: usize,
    ours_cycles_per_packet: Spread,
    theirs_cycles_per_packet: Spread,
    /// Theirs over ours, window by window.
    ratio: Spread,
}

/// Who runs a configuration.
struct Program {
    path: PathBuf,
    /// What comes before the file.
    words: &'static [&'static str],
}

impl Program {
    /// Its standard output for a configuration.
    fn run(&self, file: &Path) -> Result<String, Failure> {
        let failed = |what: String| Failure::new(format!("{}: {what}", self.path.display()));
        let done = Command::new(&self.path).args(self.words).arg(file).output();
        let done = done.map_err(|error| {
            failed(format!("cannot be run: {error}"))
                .fix("name a click program, such as FastClick's userlevel/click")
        })?;
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
            false => Err(failed(String::from_utf8_lossy(&done.stderr).trim().to_owned())),
        }
    }

    /// One window: TSC cycles for each packet.
    fn window(&self, file: &Path, tsc_hz: u64) -> Result<f64, Failure> {
        let said = self.run(file)?;
        let mut words = said.split_whitespace().map(str::parse::<f64>);
        match (words.next(), words.next()) {
            (Some(Ok(packets)), Some(Ok(seconds))) if packets > 0.0 => Ok(seconds * tsc_hz as f64 / packets),
            _ => {
                Err(Failure::new(format!("{}: it said {said:?}, not how many packets", self.path.display())))
            }
        }
    }
}

/// Measures each workload with both programs.
pub fn run(arguments: &Arguments, theirs: &Path) -> Result<(), Failure> {
    let conditions = Conditions::now();
    pin(arguments.cpu.first().copied().unwrap_or(0)); // and with this thread its children
    let ours =
        std::env::current_exe().map_err(|error| Failure::new(format!("cannot find itself: {error}")))?;
    let ours = Program { path: ours, words: &["click"] };
    let theirs = Program { path: theirs.to_owned(), words: &[] };
    let place = tempfile::tempdir().map_err(|error| Failure::new(format!("no folder for files: {error}")))?;
    let write = |name: &str, text: String| {
        let path = place.path().join(name);
        let failed = |error| Failure::new(format!("cannot write {}: {error}", path.display()));
        fs::write(&path, text).map_err(failed).map(|()| path)
    };
    let capture = place.path().join("flows.pcap");
    ours.run(&write("flows.click", workload::capture(&capture))?)?;
    println!(
        "{:10} {:>5}  {:>22}  {:>24}  {:>20}",
        "WORKLOAD", "BATCH", "OURS, CYCLES/PACKET", "THEIRS", "RATIO"
    );
    let mut rows = vec![];
    for name in arguments.workload.iter().filter(|name| *name != "router4") {
        for &batch in &arguments.batch {
            let file = write("bench.click", workload::replayed(name, &capture, batch, WARM, WINDOW)?)?;
            let (mut a, mut b) = (vec![], vec![]);
            for window in 0..arguments.windows.max(1) {
                show_progress(window, arguments.windows);
                a.push(ours.window(&file, conditions.tsc_hz)?);
                b.push(theirs.window(&file, conditions.tsc_hz)?);
            }
            end_progress();
            let ratio = Spread::of(a.iter().zip(&b).map(|(a, b)| b / a).collect());
            let (a, b) = (Spread::of(a), Spread::of(b));
            let shown = |s: &Spread| format!("{:.1} ({:.1} to {:.1})", s.median, s.min, s.max);
            let times = format!("{:.2} ({:.2} to {:.2})", ratio.median, ratio.min, ratio.max);
            println!("{name:10} {batch:>5}  {:>22}  {:>24}  {times:>20}", shown(&a), shown(&b));
            rows.push(Row {
                workload: name.clone(),
                batch,
                ours_cycles_per_packet: a,
                theirs_cycles_per_packet: b,
                ratio,
            });
        }
    }
    finish(&conditions, &rows, arguments.json.as_deref())
}
