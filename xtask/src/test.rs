//! The test command. All steps run, whatever becomes of each; what is quick and
//! what fails most often comes first, machines and fuzzing last. In the end stand
//! every step's time, what failed, and the test runner's own summary once more.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::step::{Beside, Failure, Steps, cargo, run, target};
use crate::{count, deny, doc_comments, floors, fuzz, headers, instructions, lab, miri, mutants};

/// Seconds for each fuzz target: what a commit can break at once. `cargo xtask fuzz`
/// takes longer.
const FUZZ_SECONDS: u64 = 20;

/// Runs all steps, or all but the slow ones.
pub fn all(quick: bool) -> Result<(), Failure> {
    let mut steps = Steps::default();
    let mut summary = Summary::default();
    // The optimised programs are built beside the first steps: with one unit of
    // code generation for each crate, that build leaves a core idle most of the time.
    let programs = (!quick).then(|| Beside::start("release build", &mut lab::programs()));
    steps.take("format", || run("format", &mut cargo(&["fmt", "--all", "--check"])));
    steps.take("lock files", fuzz::check_lock);
    steps.take("floors", floors::check);
    steps.take("headers", headers::check);
    steps.take("doc comments", doc_comments::check);
    steps.take("reader's path", count::run);
    steps.take("lints", || {
        let lints = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        run("lints", &mut cargo(&lints))
    });
    steps.take("docs", || {
        let mut docs = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
        run("docs", docs.env("RUSTDOCFLAGS", "-D warnings"))
    });
    steps.take("build of the tests", || {
        run("build the tests", &mut cargo(&["test", "--workspace", "--locked", "--no-run", "--quiet"]))
    });
    if let Some(programs) = programs {
        steps.take("wait for the release build", || programs?.join());
    }
    steps.take("tests", || summary.run());
    steps.take("model check", loom);
    if !quick {
        steps.take("dependencies", deny::dependencies);
        match deny::fetch_advisories() {
            Ok(()) => steps.take("advisories", deny::advisories),
            Err(why) => steps.leave_out("advisories", why),
        }
        steps.take("instructions", instructions::check);
        steps.take("miri", miri::check);
        steps.take("seeded bugs", || mutants::run(&mutants::Arguments::default()));
        steps.take("lab", || lab::of(&[]));
        steps.take("fuzzing", || fuzz::of(None, FUZZ_SECONDS));
    }
    print!("{}", steps.table());
    let outcome = steps.outcome();
    if outcome.is_ok() {
        // The last word is the test runner's own.
        println!("{}", summary.line());
    }
    outcome
}

/// The pool's return stack, by loom: a build of its own, with other atomics.
fn loom() -> Result<(), Failure> {
    let mut loom = cargo(&["test", "--locked", "-p", "ixora-memory", "--lib", "returns"]);
    loom.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target().join("loom"));
    run("model check of the pool's return stack", &mut loom)
}

/// What the test runner said of all test programs together.
#[derive(Debug, Default, PartialEq)]
struct Summary {
    passed: u64,
    failed: u64,
    ignored: u64,
    seconds: f64,
    /// Names of the tests that failed.
    failures: Vec<String>,
}

impl Summary {
    /// Runs all tests, each program whatever became of the ones before it.
    fn run(&mut self) -> Result<(), Failure> {
        println!("==> tests");
        let mut tests = cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
        let started = tests.stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| format!("cannot start cargo: {error}"))?;
        let output = child.stdout.take().ok_or("cargo's output is not ours")?;
        for line in BufReader::new(output).lines() {
            let line = line.map_err(|error| format!("cargo's output: {error}"))?;
            println!("{line}");
            self.note(&line);
        }
        let status = child.wait().map_err(|error| format!("cargo: {error}"))?;
        match (status.success(), self.passed) {
            (true, 0) => Err("no test ran".to_owned()),
            (true, _) => Ok(()),
            (false, _) => Err(format!("{} ({status}) {}", self.line(), self.failures.join(", "))),
        }
    }

    /// Adds what a line of the runner's output says.
    fn note(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.failures.push(name.to_owned());
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
    fn line(&self) -> String {
        let word = if self.failed == 0 { "ok" } else { "FAILED" };
        format!(
            "test result: {word}. {} passed; {} failed; {} ignored; 0 measured; 0 filtered out; finished in {:.2}s",
            self.passed, self.failed, self.ignored, self.seconds
        )
    }
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
            summary.note(line);
        }
        assert_eq!((summary.passed, summary.failed, summary.ignored), (42, 1, 2));
        assert_eq!((summary.seconds, summary.failures.clone()), (1.75, vec!["a::c".to_owned()]));
        assert!(summary.line().starts_with("test result: FAILED. 42 passed; 1 failed; 2 ignored;"));
    }
}
