//! Our router beside FastClick's (or whoever reads the same language): one file, two
//! programs, in turns on one core.
//!
//! Both programs feed themselves and count what reaches the end between two moments of their
//! own clocks. Two sources that both have: `flows` makes each packet anew (`FastUDPFlows` with
//! `DUPLICATE`), `replay` sends a capture from memory again and again (`ReplayUnqueue`). What a
//! source costs is in the figures, and may be less on one side. Therefore each workload is
//! measured in turns with the source alone, and what it costs beside that is told, too.
//! Replayed packets that FastClick's elements write to are copied there first, ours before.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ::bench::conditions::Conditions;
use ::bench::figures::Spread;
use ::bench::graph::workload::{self, Feed};
use clap::ValueEnum;
use runtime::cores::pin;
use serde::Serialize;

use super::{Arguments, finish};
use crate::Failure;
use crate::bench::report::{end_progress, show_progress};
use crate::compile;

/// Seconds that a program runs before it is looked at, and for how long it is.
const WARM: f64 = 0.3;
const WINDOW: f64 = 0.7;

/// What makes packets on both sides.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// FastUDPFlows: each packet is made anew, a batch has one destination network.
    Flows,
    /// ReplayUnqueue: packets of a capture, destinations mixed. FastClick's share their bytes
    /// until they are written to, ours are copies.
    Replay,
}

/// The cycles of one workload on both sides.
#[derive(Debug, Serialize)]
struct Row {
    source: Source,
    workload: String,
    batch: usize,
    ours_cycles_per_packet: Spread,
    theirs_cycles_per_packet: Spread,
    /// Theirs over ours, window by window.
    ratio: Spread,
    /// Without the source, of medians; none for the source itself.
    own: Option<Own>,
}

/// What a workload costs beside its source.
#[derive(Debug, Serialize)]
struct Own {
    ours_cycles_per_packet: f64,
    theirs_cycles_per_packet: f64,
    ratio: f64,
}

/// Who runs a configuration.
struct Program {
    path: PathBuf,
    /// What comes before the file.
    words: &'static [&'static str],
    /// The configuration is built in: no file.
    compiled: bool,
}

impl Program {
    /// Its standard output for a configuration.
    fn run(&self, file: &Path) -> Result<String, Failure> {
        let failed = |what: String| Failure::new(format!("{}: {what}", self.path.display()));
        let file = (!self.compiled).then_some(file);
        let done = Command::new(&self.path).args(self.words).args(file).output();
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

/// A workload, and who runs it.
struct Contest {
    workload: String,
    file: PathBuf,
    ours: Program,
    windows: [Vec<f64>; 2],
}

/// Where files and programs of a measurement are.
struct Paths<'a> {
    arguments: &'a Arguments,
    folder: tempfile::TempDir,
    capture: PathBuf,
    ours: PathBuf,
}

impl Paths<'_> {
    fn write(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let path = self.folder.path().join(name);
        let failed = |error| Failure::new(format!("cannot write {}: {error}", path.display()));
        fs::write(&path, text).map_err(failed).map(|()| path)
    }

    fn ours(&self) -> Program {
        Program { path: self.ours.clone(), words: &["click"], compiled: false }
    }

    /// One workload with packets of a source.
    fn contest(&self, source: Source, workload: &str, batch: usize) -> Result<Contest, Failure> {
        let feed = match source {
            Source::Flows => Feed::Flows,
            Source::Replay => Feed::Replay(&self.capture),
        };
        let text = workload::fed(workload, feed, batch, WARM, WINDOW)?;
        let name = format!("{workload}-{batch}-{source:?}").to_lowercase();
        let file = self.write(&format!("{name}.click"), &text)?;
        let ours = match self.arguments.compiled && workload != "source" {
            true => {
                let folder = compile::cache::folder()?.join(&name);
                Program { path: compile::program_of(&name, &text, &folder)?, words: &[], compiled: true }
            }
            false => self.ours(),
        };
        Ok(Contest { workload: workload.to_owned(), file, ours, windows: [vec![], vec![]] })
    }
}

/// Measures each workload with both programs.
pub fn run(arguments: &Arguments, theirs: &Path) -> Result<(), Failure> {
    let conditions = Conditions::now();
    pin(arguments.cpu.first().copied().unwrap_or(0)); // and with this thread its children
    let ours =
        std::env::current_exe().map_err(|error| Failure::new(format!("cannot find itself: {error}")))?;
    let folder =
        tempfile::tempdir().map_err(|error| Failure::new(format!("no folder for files: {error}")))?;
    let capture = folder.path().join("flows.pcap");
    let place = Paths { arguments, folder, capture, ours };
    if arguments.source.contains(&Source::Replay) {
        place.ours().run(&place.write("flows.click", &workload::capture(&place.capture))?)?;
    }
    let theirs = Program { path: theirs.to_owned(), words: &[], compiled: false };
    println!(
        "{:7} {:10} {:>5}  {:>22}  {:>24}  {:>19}  {:>25}",
        "SOURCE", "WORKLOAD", "BATCH", "OURS, CYCLES/PACKET", "THEIRS", "RATIO", "WITHOUT THE SOURCE, RATIO"
    );
    let mut rows = vec![];
    for &source in &arguments.source {
        for &batch in &arguments.batch {
            rows.extend(in_turns(&place, source, batch, &theirs, conditions.tsc_hz)?);
        }
    }
    finish(&conditions, &rows, arguments.json.as_deref())
}

/// Measures all workloads with one source, the source first: each window of every workload and
/// both programs before the next.
fn in_turns(
    place: &Paths<'_>,
    source: Source,
    batch: usize,
    theirs: &Program,
    tsc_hz: u64,
) -> Result<Vec<Row>, Failure> {
    let others = place.arguments.workload.iter().map(String::as_str);
    let others = others.filter(|name| !matches!(*name, "source" | "router4"));
    let contests = std::iter::once("source").chain(others).map(|name| place.contest(source, name, batch));
    let mut contests = contests.collect::<Result<Vec<_>, _>>()?;
    let windows = place.arguments.windows.max(1);
    for window in 0..windows {
        show_progress(window, windows);
        for contest in &mut contests {
            let [ours, others] = &mut contest.windows;
            ours.push(contest.ours.window(&contest.file, tsc_hz)?);
            others.push(theirs.window(&contest.file, tsc_hz)?);
        }
    }
    end_progress();
    let mut alone: Option<(f64, f64)> = None;
    let row = |Contest { workload, windows: [a, b], .. }: Contest| {
        let ratio = Spread::of(a.iter().zip(&b).map(|(a, b)| b / a).collect());
        let (ours, theirs) = (Spread::of(a), Spread::of(b));
        let own = alone.map(|(a, b)| {
            let (a, b) = (ours.median - a, theirs.median - b);
            Own { ours_cycles_per_packet: a, theirs_cycles_per_packet: b, ratio: b / a }
        });
        alone = alone.or(Some((ours.median, theirs.median)));
        let row = Row {
            source,
            workload,
            batch,
            ours_cycles_per_packet: ours,
            theirs_cycles_per_packet: theirs,
            ratio,
            own,
        };
        row.print();
        row
    };
    Ok(contests.into_iter().map(row).collect())
}

impl Row {
    fn print(&self) {
        let shown = |s: &Spread| format!("{:.1} ({:.1} to {:.1})", s.median, s.min, s.max);
        let (ours, theirs) = (shown(&self.ours_cycles_per_packet), shown(&self.theirs_cycles_per_packet));
        let Spread { median, min, max, .. } = &self.ratio;
        let times = format!("{median:.2} ({min:.2} to {max:.2})");
        let own = self.own.as_ref().map_or("-".to_owned(), |own| {
            format!(
                "{:.1}, {:.1}: {:.2}",
                own.ours_cycles_per_packet, own.theirs_cycles_per_packet, own.ratio
            )
        });
        let source = format!("{:?}", self.source).to_lowercase();
        println!(
            "{source:7} {:10} {:>5}  {ours:>22}  {theirs:>24}  {times:>19}  {own:>25}",
            self.workload, self.batch
        );
    }
}
