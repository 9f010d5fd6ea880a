//! `cargo xtask lab`: the scenarios of the lab, once or many times, with nothing
//! else on the machine or beside busy loops.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::guest::Guest;
use lab::packages::Packages;
use lab::scenario::{Bench, Scenario, chosen};
use lab::vm::{End, Outcome};

use crate::step::{Failure, cargo, in_parallel, run, target};

/// How the scenarios are run.
#[derive(clap::Args)]
pub struct Lab {
    /// Scenarios, by a part of their names; all if left out.
    names: Vec<String>,
    /// Say which there are.
    #[arg(long)]
    list: bool,
    /// Fetch the packages that they need, and run none.
    #[arg(long)]
    fetch: bool,
    /// Run all chosen scenarios so many times in a row, whatever fails.
    #[arg(long, default_value_t = 1, value_name = "N")]
    repeat: usize,
    /// Run so many busy loops beside them.
    #[arg(long, default_value_t = 0, value_name = "N")]
    beside: usize,
    /// Run so many scenarios at the same time.
    #[arg(long, default_value_t = JOBS, value_name = "N")]
    jobs: usize,
}

/// Scenarios at the same time, unless said otherwise: a guest that boots, or whose driver
/// waits, leaves half of two cores idle.
const JOBS: usize = 2;

/// Builds the programs that the lab runs, and the benchmarks. Always together: built
/// apart, what both depend on has other features in each, and is built twice.
pub fn programs() -> Command {
    let mut build = cargo(&["build", "--release", "--locked", "-p", "ixora", "--bin", "ixora"]);
    build.args(["-p", "ixora-ports", "--example", "vfio_guest"]);
    build
}

/// What is known of a scenario's runs.
struct Record {
    scenario: &'static Scenario,
    /// How long each took, failed ones included.
    times: Vec<Duration>,
    /// The report of each run that failed, and the directory where it is kept.
    failures: Vec<(String, PathBuf)>,
}

/// Runs all once, in a process of their own, which can be killed: a step of `cargo xtask
/// test`. Its failure has what that process said of each scenario that failed: only the
/// failures of the steps stand at the end of what the tests print.
pub fn all() -> Result<(), Failure> {
    let failures = failures(&target().join("lab"));
    let _ = std::fs::remove_file(&failures); // of a run before
    run("lab", &mut chore(&["lab"])).map_err(|failure| with_scenarios(failure, &failures))
}

/// Where a run of the lab writes which scenarios failed.
fn failures(logs: &Path) -> PathBuf {
    logs.join("failures")
}

/// A failure of the lab with what is written of its scenarios, if anything is.
fn with_scenarios(failure: Failure, failures: &Path) -> Failure {
    match std::fs::read_to_string(failures) {
        Ok(scenarios) => format!("{failure}\n{scenarios}"),
        Err(_) => failure,
    }
}

/// This program, as a process of its own.
fn chore(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| "xtask".into()));
    command.args(arguments);
    command
}

/// Lists the scenarios, or runs them; an error when any run failed.
pub fn done(lab: &Lab) -> Result<(), Failure> {
    if lab.list {
        for scenario in lab::scenario::ALL {
            println!("{:<24} {}", scenario.name, scenario.about);
        }
        return Ok(());
    }
    let scenarios = chosen(&lab.names);
    if scenarios.is_empty() {
        return Err(format!("no scenario is called {}: see cargo xtask lab --list", lab.names.join(" ")));
    }
    if lab.fetch {
        return fetched(&scenarios).map(drop).map_err(|error| error.to_string());
    }
    let bench = bench(&scenarios)?;
    let begin = Instant::now();
    let mut records: Vec<Record> = scenarios
        .into_iter()
        .map(|scenario| Record { scenario, times: Vec::new(), failures: Vec::new() })
        .collect();
    beside(lab.beside, || {
        for turn in 1..=lab.repeat {
            if lab.repeat > 1 {
                println!("==> lab, run {turn} of {}", lab.repeat);
            }
            in_parallel(&mut records, lab.jobs, |record| record.run(&bench, lab.jobs > 1));
        }
    });
    println!("<== lab: {:.1} s", begin.elapsed().as_secs_f64());
    if lab.repeat > 1 {
        print!("{}", table(&records));
    }
    let outcome = told(&records);
    if let Err(failure) = &outcome {
        // It is printed, too: the file is for the process that waits for this one.
        let _ = std::fs::write(failures(&bench.logs), failure);
    }
    outcome
}

/// Fetches what machines are made of, as far as it is missing.
fn fetched(scenarios: &[&Scenario]) -> Result<Guest, lab::Error> {
    let start = Instant::now();
    let packages = Packages::open()?;
    let guest = Guest::fetch(&packages)?;
    scenarios.iter().try_for_each(|scenario| scenario.fetch(&packages))?;
    println!("<== packages, in {}: {:.1} s", packages.cache().display(), start.elapsed().as_secs_f64());
    Ok(guest)
}

/// What fetches for all scenarios.
pub fn fetch() -> Command {
    chore(&["lab", "--fetch"])
}

/// Builds the programs, and meanwhile fetches what machines are made of.
fn bench(scenarios: &[&Scenario]) -> Result<Bench, Failure> {
    let (built, guest) = std::thread::scope(|scope| {
        let guest = scope.spawn(|| fetched(scenarios));
        let built = run("build for the lab", &mut programs());
        (built, guest.join().expect("to fetch does not panic"))
    });
    built?;
    let guest = guest.map_err(|error| error.to_string())?.with_tsc(bus::tsc::hz());
    Ok(Bench { guest, ixora: target().join("release/ixora"), logs: target().join("lab") })
}

/// Does `work` while so many threads keep a processor busy each.
fn beside(loops: usize, work: impl FnOnce()) {
    /// Stops the loops when the work is done, or panics.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for _ in 0..loops {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        work();
    });
}

impl Record {
    /// Runs it once; `beside` others its line is printed when it is whole, else the
    /// reader sees what is under way.
    fn run(&mut self, bench: &Bench, beside: bool) {
        let scenario = self.scenario;
        let name = format!("lab {:<24} ", scenario.name);
        let (before, name) = if beside { ("", name.as_str()) } else { (name.as_str(), "") };
        print!("{before}");
        let _ = std::io::stdout().flush();
        let start = Instant::now();
        let mut outcome = (scenario.run)(bench, scenario.name);
        if matches!(&outcome, Ok(outcome) if outcome.end == End::NeverBooted) {
            // QEMU's translator or the kernel: nothing of ours had run.
            let kept = keep(&bench.logs, scenario.name, "the machine did not boot\n");
            println!("{name}the machine did not boot and is started again, kept in {}", kept.display());
            print!("{before}");
            outcome = (scenario.run)(bench, scenario.name);
        }
        self.times.push(start.elapsed());
        let report = match &outcome {
            Ok(outcome) if outcome.is_good() => {
                let took = start.elapsed().as_secs_f64();
                return println!("{name}ok, {} checks, {took:.1} s", outcome.passed.len());
            }
            Ok(outcome) => describe(outcome),
            Err(error) => format!("FAILED: {error}\n"),
        };
        let kept = keep(&bench.logs, scenario.name, &report);
        println!("{name}{}    kept in {}", head(&report), kept.display());
        self.failures.push((report, kept));
    }
}

fn describe(outcome: &Outcome) -> String {
    let end = match outcome.end {
        End::Finished => "",
        End::NeverBooted => ", the machine did not boot, twice",
        End::Died => ", the machine ended early",
        End::TimeLimit => ", the time was over",
    };
    let (passed, failed) = (outcome.passed.len(), outcome.failed.len());
    let took = outcome.elapsed.as_secs_f64();
    let mut report = format!("FAILED, {passed} checks passed, {failed} did not{end}, {took:.1} s\n");
    for why in &outcome.failed {
        let _ = writeln!(report, "    {why}");
    }
    report
}

/// The first lines of a report, and how many more the kept one has.
fn head(report: &str) -> String {
    const LINES: usize = 12;
    let mut head: String = report.split_inclusive('\n').take(LINES).collect();
    let more = report.lines().count().saturating_sub(LINES);
    if more > 0 {
        let _ = writeln!(head, "    and {more} more in its report");
    }
    head
}

/// Moves the directory of a run that failed to where no other run comes, with its
/// report; or says where it is when that cannot be done.
fn keep(logs: &Path, name: &str, report: &str) -> PathBuf {
    let from = logs.join(name);
    let places = (1..).map(|n| logs.join("failed").join(format!("{name}-{n}")));
    let to = places.into_iter().find(|place| !place.exists()).unwrap_or_default();
    let moved = std::fs::create_dir_all(logs.join("failed")).and_then(|()| std::fs::rename(&from, &to));
    let place = if moved.is_ok() { to } else { from };
    let _ = std::fs::write(place.join("report"), report); // it has been printed, too
    place
}

/// Runs, failures and seconds of each scenario.
fn table(records: &[Record]) -> String {
    let mut table = format!(
        "{:<24} {:>5} {:>7} {:>7} {:>7} {:>7}\n",
        "scenario", "runs", "failed", "min s", "median", "max s"
    );
    for record in records {
        let mut times: Vec<f64> = record.times.iter().map(Duration::as_secs_f64).collect();
        times.sort_by(f64::total_cmp);
        let at = |n: usize| times.get(n).copied().unwrap_or_default();
        let (least, median, most) = (at(0), at(times.len() / 2), at(times.len().saturating_sub(1)));
        let (name, runs, failed) = (record.scenario.name, times.len(), record.failures.len());
        let _ = writeln!(table, "{name:<24} {runs:>5} {failed:>7} {least:>7.1} {median:>7.1} {most:>7.1}");
    }
    table
}

/// All failures once more, as an error; none is none.
fn told(records: &[Record]) -> Result<(), Failure> {
    let runs: usize = records.iter().map(|record| record.times.len()).sum();
    let (mut failed, mut all) = (0, String::new());
    for record in records {
        for (report, kept) in &record.failures {
            failed += 1;
            let (name, report) = (record.scenario.name, head(report));
            let _ = write!(all, "\n{name}: {report}    kept in {}", kept.display());
        }
    }
    match failed {
        0 => Ok(()),
        failed => Err(format!("{failed} of {runs} runs of the lab's scenarios failed{all}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(times: &[u64], failures: &[&str]) -> Record {
        Record {
            scenario: &lab::scenario::ALL[0],
            times: times.iter().map(|&ms| Duration::from_millis(ms)).collect(),
            failures: failures.iter().map(|why| ((*why).to_owned(), PathBuf::from("there"))).collect(),
        }
    }

    #[test]
    fn the_table_has_runs_failures_and_times() {
        let text = table(&[record(&[3000, 1000, 2500], &["FAILED: x\n"])]);
        let words: Vec<&str> = text.lines().last().expect("a line").split_whitespace().collect();
        assert_eq!(words, [lab::scenario::ALL[0].name, "3", "1", "1.0", "2.5", "3.0"]);
    }

    #[test]
    fn one_failure_of_many_runs_is_an_error_that_tells_it() {
        assert_eq!(told(&[record(&[1, 2], &[])]), Ok(()));
        let said = told(&[record(&[1, 2], &[]), record(&[1, 2], &["FAILED: x\n"])]).expect_err("one failed");
        assert!(
            said.starts_with("1 of 4 runs") && said.contains("FAILED: x") && said.contains("there"),
            "{said}"
        );
    }

    #[test]
    fn the_step_tells_which_scenarios_failed() {
        let logs = tempfile::tempdir().expect("a directory");
        let file = failures(logs.path());
        assert_eq!(with_scenarios("lab failed".to_owned(), &file), "lab failed");
        std::fs::write(&file, "1 of 4 runs failed\nigb: FAILED: x").expect("written");
        let said = with_scenarios("lab failed".to_owned(), &file);
        assert!(said.starts_with("lab failed\n") && said.ends_with("igb: FAILED: x"), "{said}");
    }

    #[test]
    fn a_long_report_is_cut() {
        assert_eq!(head("a\nb\n"), "a\nb\n");
        let said = head(&"x\n".repeat(20));
        assert!(said.lines().count() == 13 && said.contains("and 8 more"), "{said}");
    }

    #[test]
    fn what_failed_is_kept_beside_what_failed_before() {
        let logs = tempfile::tempdir().expect("a directory");
        for n in 1..3 {
            let run = logs.path().join("igb");
            std::fs::create_dir_all(&run).expect("made");
            std::fs::write(run.join("console.log"), format!("run {n}")).expect("written");
            let kept = keep(logs.path(), "igb", "why\n");
            assert_eq!(std::fs::read_to_string(kept.join("console.log")).expect("kept"), format!("run {n}"));
            assert_eq!(std::fs::read_to_string(kept.join("report")).expect("kept"), "why\n");
        }
    }

    #[test]
    fn busy_loops_end_with_the_work() {
        let mut done = false;
        beside(2, || done = true);
        assert!(done);
    }
}
