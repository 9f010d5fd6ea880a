//! Running a command as a named step, from the workspace's root; and a list of
//! steps of which all run, whatever becomes of each.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::beside::{Beside, Built};
use crate::limit;

/// What a chore says when it fails.
pub type Failure = String;

/// The workspace's root.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}

/// The build directory.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// All Rust files under a folder but those that builds make, sorted.
pub fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let broken = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(broken)? {
        let path = entry.map_err(broken)?.path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

/// `cargo` as it was called, with arguments.
pub fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    command
}

/// The nightly toolchain's cargo, whichever toolchain this was built with.
pub fn nightly(arguments: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).args(arguments).current_dir(root());
    command
}

/// So long may a command take: more than the longest build on two slow processors.
pub const LIMIT: Duration = Duration::from_mins(20);

/// Runs a command to its end; its failure is the step's.
pub fn run(name: &str, command: &mut Command) -> Result<(), Failure> {
    run_within(LIMIT, name, command)
}

/// Runs a command that has another limit.
pub fn run_within(limit: Duration, name: &str, command: &mut Command) -> Result<(), Failure> {
    println!("==> {name}");
    let start = Instant::now();
    let end = limit::run(command, limit).map_err(|e| format!("{name}: cannot start {command:?}: {e}"))?;
    println!("<== {name}: {:.1} s", start.elapsed().as_secs_f64());
    match end.failure() {
        None => Ok(()),
        Some(failure) => Err(format!("{name} failed ({failure}): {command:?}")),
    }
}

/// Where a tool of Cargo's is in target/tools, and what builds it when it is not there yet.
pub fn tool(name: &str, version: &str) -> (PathBuf, Option<Command>) {
    let tools = root().join("target/tools");
    let binary = tools.join("bin").join(name);
    let install = (!binary.exists()).then(|| {
        // Not optimised: to build it takes longer than all it has to do here.
        let mut install = cargo(&["install", name, "--debug", "--locked", "--version", version, "--root"]);
        install.arg(&tools).env("CARGO_TARGET_DIR", tools.join("target"));
        // Nobody debugs it here.
        install.env("CARGO_PROFILE_DEV_DEBUG", "0");
        install
    });
    (binary, install)
}

/// A tool of Cargo's, built into target/tools when it is not there yet.
pub fn installed(name: &str, version: &str) -> Result<PathBuf, Failure> {
    let (binary, install) = tool(name, version);
    install.map_or(Ok(()), |mut install| run(&format!("install {name}"), &mut install))?;
    Ok(binary)
}

/// Works on all items, so many at the same time; results in the items' order.
pub fn in_parallel<I, R>(items: I, jobs: usize, work: impl Fn(I::Item) -> R + Sync) -> Vec<R>
where
    I: IntoIterator<IntoIter: Send>,
    R: Send,
{
    let (left, done) = (Mutex::new(items.into_iter().enumerate()), Mutex::new(Vec::new()));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some((number, item)) = next() {
                    let result = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// What became of the steps so far.
pub struct Steps {
    begin: Instant,
    /// Later than so long after the begin, no step is taken.
    within: Option<Duration>,
    done: Vec<Done>,
    /// What could not be done here, and why.
    left_out: Vec<(&'static str, String)>,
}

/// A step, or a build beside them.
struct Done {
    name: &'static str,
    time: Duration,
    outcome: Result<(), Failure>,
    /// Other steps were taken meanwhile.
    beside: bool,
}

impl Steps {
    /// None so far; none is to be begun after `within`.
    pub fn new(within: Option<Duration>) -> Steps {
        Steps { begin: Instant::now(), within, done: Vec::new(), left_out: Vec::new() }
    }

    /// Takes a step. The next ones are taken even if it fails.
    pub fn take(&mut self, name: &'static str, step: impl FnOnce() -> Result<(), Failure>) {
        let begin = Instant::now();
        let outcome = match self.within.filter(|within| self.begin.elapsed() > *within) {
            None => step(),
            Some(within) => Err(format!("not begun: {} minutes are over", within.as_secs() / 60)),
        };
        self.note(Done { name, time: begin.elapsed(), outcome, beside: false });
    }

    /// Waits for a build beside the steps, and for all before it, no longer than steps may
    /// begin.
    pub fn wait(&mut self, beside: &mut Beside, name: &str) {
        let left = self.within.map_or(Duration::MAX, |within| within.saturating_sub(self.begin.elapsed()));
        for Built { name, time, outcome } in beside.wait(name, left) {
            println!("<== {name}, beside the steps: {:.1} s", time.as_secs_f64());
            self.note(Done { name, time, outcome, beside: true });
        }
    }

    fn note(&mut self, done: Done) {
        if let Err(failure) = &done.outcome {
            println!("!!! {failure}");
        }
        self.done.push(done);
    }

    /// Notes a step that cannot be taken on this machine for a reason that is not ours. It
    /// does not fail, but the table says so.
    pub fn leave_out(&mut self, name: &'static str, why: String) {
        println!("!!! {name} not checked: {why}");
        self.left_out.push((name, why));
    }

    /// Each step with its time, and those that were left out.
    pub fn table(&self) -> String {
        let mut text = String::from("==> steps\n");
        for Done { name, time, outcome, beside } in &self.done {
            let word = if outcome.is_ok() { "ok" } else { "FAILED" };
            let beside = if *beside { "  beside the steps" } else { "" };
            let _ = writeln!(text, "{name:<28}{word:>7}{:>9.1} s{beside}", time.as_secs_f64());
        }
        let _ = writeln!(text, "{:<28}{:>7}{:>9.1} s", "all", "", self.begin.elapsed().as_secs_f64());
        for (name, why) in &self.left_out {
            let _ = writeln!(text, "{name:<28}NOT CHECKED: {why}");
        }
        text
    }

    /// The failures of all steps, or none.
    pub fn outcome(self) -> Result<(), Failure> {
        let failed: Vec<String> = self
            .done
            .into_iter()
            .filter_map(|done| Some(format!("{}: {}", done.name, done.outcome.err()?)))
            .collect();
        match failed.len() {
            0 => Ok(()),
            1 => Err(format!("a step failed\n{}", failed.join("\n"))),
            count => Err(format!("{count} steps failed\n{}", failed.join("\n"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beside::Build;

    #[test]
    fn steps_behind_a_failure_are_taken_and_all_failures_are_listed() {
        let mut steps = Steps::new(None);
        steps.take("first", || Err("broken".to_owned()));
        steps.take("second", || Ok(()));
        steps.take("third", || Err("wrong".to_owned()));
        steps.leave_out("fourth", "no network".to_owned());
        let table = steps.table();
        assert!(table.contains("fourth") && table.contains("NOT CHECKED: no network"), "{table}");
        assert!(table.contains("first") && table.contains("FAILED") && table.contains("second"), "{table}");
        let failure = steps.outcome().expect_err("two failed");
        assert!(
            failure.contains("2 steps") && failure.contains("first: broken") && failure.contains("wrong")
        );
    }

    #[test]
    fn a_step_that_is_too_late_is_not_begun_and_fails() {
        let mut steps = Steps::new(Some(Duration::ZERO));
        steps.take("late", || panic!("it was begun"));
        let failure = steps.outcome().expect_err("it was not taken");
        assert!(failure.contains("late: not begun: 0 minutes are over"), "{failure}");
    }

    #[test]
    fn a_build_beside_the_steps_is_waited_for_once_and_its_failure_counts() {
        let build = |name, script| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Build { name, command }
        };
        let mut beside =
            Beside::start(vec![build("xtask steps 1", "exit 1"), build("xtask steps 2", "true")]);
        let mut steps = Steps::new(None);
        steps.wait(&mut beside, "xtask steps 2");
        steps.take("a step", || Ok(()));
        steps.wait(&mut beside, "xtask steps 1");
        assert_eq!(steps.done.len(), 3);
        assert_eq!(steps.table().matches("beside the steps").count(), 2);
        assert!(steps.outcome().expect_err("one failed").contains("xtask steps 1 failed"));
    }

    #[test]
    fn each_item_has_its_turn_once_with_any_number_of_jobs() {
        for jobs in 0..4 {
            let mut all = [0; 9];
            let results = in_parallel(all.iter_mut().enumerate(), jobs, |(number, one)| {
                *one += 1;
                number
            });
            assert_eq!((all, results), ([1; 9], (0..9).collect()), "{jobs} jobs");
        }
    }
}
