//! The tests: cargo builds their programs, and two of them run at the same time, since
//! most of them wait for something else than a processor. What a program prints is shown
//! when it ends; documentation's tests come last, by cargo.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limit;
use crate::programs::{self, Program};
use crate::step::{Failure, cargo, in_parallel};

/// How many run at the same time.
const JOBS: usize = 2;
/// So long may a program take: four times what the longest does on two slow processors.
const LIMIT: Duration = Duration::from_mins(10);
/// Programs of tests that take longest, the longest first: begun last, each would run
/// while nothing else is left to do.
const LONG: [&str; 7] = [
    "ixora/it",
    "testbed/it",
    "ixora/confine",
    "ixora/hosts",
    "testbed/peers",
    "ixora/programs",
    "interface/af_xdp",
];

/// So much of what a failed test said is repeated with its name.
const MOST_LINES: usize = 12;

/// Builds the programs of all tests; in the order in which they are to run.
pub fn build() -> Result<Vec<Program>, Failure> {
    println!("==> build the tests");
    let mut all = programs::build(&mut cargo(&["test", "--workspace", "--locked", "--no-run", "--quiet"]))?;
    all.retain(|program| program.is_test);
    let missing: Vec<_> = LONG.into_iter().filter(|long| !all.iter().any(|p| place(p) == *long)).collect();
    if !missing.is_empty() {
        return Err(format!("xtask/src/runner.rs calls these tests long, but there are none: {missing:?}"));
    }
    let turn = |name: &str| LONG.iter().position(|long| *long == name).unwrap_or(LONG.len());
    all.sort_by_cached_key(|program| {
        let name = place(program);
        (turn(&name), name)
    });
    Ok(all)
}

/// A program's name after that of its package's folder.
fn place(program: &Program) -> String {
    let package = program.package.file_name().unwrap_or_default();
    format!("{}/{}", package.display(), program.name)
}

/// What the test runner said of all test programs together.
#[derive(Debug, Default, PartialEq)]
pub struct Summary {
    passed: u64,
    failed: u64,
    ignored: u64,
    seconds: f64,
    /// Names of the tests that failed, each after its program's, and what ended otherwise.
    failures: Vec<String>,
    /// What tests that passed did not try, and why, each after its program's name.
    pub passed_over: BTreeSet<String>,
}

impl Summary {
    /// Runs all tests, each program whatever became of the others.
    pub fn run(&mut self, programs: &[Program]) -> Result<(), Failure> {
        println!("==> tests");
        let (begin, all) = (Instant::now(), programs.len());
        let ended = Mutex::new((0, &mut *self));
        in_parallel(programs.iter().enumerate(), JOBS, |(number, program)| {
            let name = place(program);
            let (output, failure, time) =
                finish(&format!("{number}-{}", program.name), &mut command(program));
            let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            ended.0 += 1;
            print!("\n--- {} of {all}: {name}, {:.1} s\n{output}", ended.0, time.as_secs_f64());
            ended.1.add(&name, &output, failure);
        });
        // Cargo alone knows how documentation is tested.
        let mut documentation = cargo(&["test", "--workspace", "--locked", "--no-fail-fast", "--doc"]);
        let (output, failure, _) = finish("documentation", &mut documentation);
        print!("{output}");
        self.add("documentation", &output, failure);
        println!("<== tests: {:.1} s", begin.elapsed().as_secs_f64());
        match (self.failures.is_empty(), self.passed) {
            (true, 0) => Err("no test ran".to_owned()),
            (true, _) => Ok(()),
            (false, _) => Err(format!("{} {}", self.line(), self.failures.join(", "))),
        }
    }

    /// Adds what a program said; `failure` tells how it ended if not well.
    fn add(&mut self, program: &str, output: &str, failure: Option<String>) {
        let before = self.failures.len();
        output.lines().for_each(|line| self.note(program, line));
        for failure in &mut self.failures[before..] {
            let name = failure.rsplit(": ").next().unwrap_or_default();
            if let Some(why) = panic_message(output, name) {
                failure.push_str(&format!(" ({why})"));
            }
        }
        if failure.is_none() && !output.contains("test result: ") {
            self.failures.push(format!("{program} (it ended before its tests did)"));
        }
        // A program that a signal ended names no test.
        if let (Some(failure), true) = (failure, self.failures.len() == before) {
            self.failures.push(format!("{program} ({failure})"));
        }
    }

    /// Adds what a line of the runner's output says.
    fn note(&mut self, program: &str, line: &str) {
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.failures.push(format!("{program}: {name}"));
        }
        if let Some(why) = line.strip_prefix("passed over: ") {
            self.passed_over.insert(format!("{program}: {why}"));
        }
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        for part in counts.split([';', '.']) {
            let mut words = part.split_whitespace();
            let (Some(Ok(count)), Some(what)) = (words.next().map(str::parse::<u64>), words.next()) else {
                continue;
            };
            match what {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.ignored += count,
                _ => {}
            }
        }
        let seconds = line.rsplit_once("finished in ").and_then(|(_, time)| time.strip_suffix('s'));
        self.seconds += seconds.and_then(|time| time.parse::<f64>().ok()).unwrap_or(0.0);
    }

    /// The runner's line, over all programs.
    pub fn line(&self) -> String {
        let word = if self.failures.is_empty() { "ok" } else { "FAILED" };
        format!(
            "test result: {word}. {} passed; {} failed; {} ignored; 0 measured; 0 filtered out; finished in {:.2}s",
            self.passed, self.failed, self.ignored, self.seconds
        )
    }
}

/// What a test's panic said and where, the start of it; in the output of its program.
fn panic_message(output: &str, test: &str) -> Option<String> {
    let (_, said) = output.split_once(&format!("---- {test} stdout ----"))?;
    let (_, message) = said.split_once("panicked at ")?;
    let ends =
        |line: &&str| line.is_empty() || line.starts_with("stack backtrace:") || line.starts_with("note: ");
    let lines: Vec<_> = message.lines().take_while(|line| !ends(line)).take(MOST_LINES).collect();
    Some(lines.join("\n"))
}

/// A test program as cargo runs it, but that tests which pass may say what they did not try.
fn command(program: &Program) -> Command {
    let mut command = Command::new(&program.path);
    command.arg("--show-output");
    command.current_dir(&program.package).env("CARGO_MANIFEST_DIR", &program.package);
    command
}

/// Runs a program to its end: what it printed, how it ended if not well, and its time.
fn finish(log: &str, command: &mut Command) -> (String, Option<String>, Duration) {
    let begin = Instant::now();
    let (output, failure) = match limit::run_with_output(log, command, LIMIT) {
        Ok((end, output)) => (output, end.failure()),
        Err(error) => (String::new(), Some(error.to_string())),
    };
    (output, failure, begin.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_adds_up_what_the_runner_says() {
        let mut summary = Summary::default();
        for line in [
            "running 3 tests",
            "test a::b ... ok",
            "test a::c ... FAILED",
            "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s",
            "test result: ok. 40 passed; 0 failed; 2 ignored; 0 measured; 7 filtered out; finished in 0.25s",
        ] {
            summary.note("it", line);
        }
        assert_eq!((summary.passed, summary.failed, summary.ignored), (42, 1, 2));
        assert_eq!((summary.seconds, summary.failures.clone()), (1.75, vec!["it: a::c".to_owned()]));
        assert!(summary.line().starts_with("test result: FAILED. 42 passed; 1 failed; 2 ignored;"));
    }

    #[test]
    fn what_a_failed_test_said_stands_behind_its_name() {
        let output = "test a::b ... FAILED\ntest a::c ... FAILED\n\nfailures:\n\n---- a::b stdout ----\nabout to\n\n\
            thread 'a::b' (7) panicked at src/a.rs:3:5:\nleft: 1\nright: 2\nstack backtrace:\n   0: begin\n\n\
            ---- a::c stdout ----\n\nthread 'a::c' (8) panicked at src/a.rs:9:5:\nno\nnote: run with\n\n\
            test result: FAILED. 0 passed; 2 failed; 0 ignored; finished in 1.50s\n";
        let mut summary = Summary::default();
        summary.add("it", output, Some("exit status: 101".to_owned()));
        let wanted = ["it: a::b (src/a.rs:3:5:\nleft: 1\nright: 2)", "it: a::c (src/a.rs:9:5:\nno)"];
        assert_eq!(summary.failures, wanted);
    }

    #[test]
    fn a_program_that_ends_in_the_middle_is_a_failure() {
        let mut summary = Summary::default();
        summary.add("ends", "running 2 tests\ntest a ... ok\n", None);
        assert!(summary.failures.len() == 1, "{summary:?}");
    }

    #[test]
    fn what_was_not_tried_is_noted_once() {
        let mut summary = Summary::default();
        let said = "passed over: no root\n";
        summary.add(
            "it",
            &format!("{said}{said}test result: ok. 2 passed; 0 failed; finished in 1s\n"),
            None,
        );
        assert_eq!(summary.passed_over.into_iter().collect::<Vec<_>>(), ["it: no root"]);
    }

    #[test]
    fn a_program_that_ends_without_naming_a_test_is_a_failure() {
        let (output, failure, _) =
            finish("xtask-test", Command::new("sh").args(["-c", "echo one; echo two >&2; kill -9 $$"]));
        assert_eq!(output, "one\ntwo\n");
        let mut summary = Summary::default();
        summary.add("ends", &output, failure);
        assert!(summary.failures.len() == 1 && summary.failures[0].contains("SIGKILL"), "{summary:?}");
    }
}
