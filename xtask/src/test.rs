//! The test command. All steps run, whatever becomes of each; what is quick and
//! what fails most often comes first, machines and fuzzing last. In the end stand
//! every step's time, what failed, and the test runner's own summary once more.

use std::process::Command;
use std::time::Duration;

use crate::beside::{Beside, Build};
use crate::runner::{self, Summary};
use crate::step::{Failure, Steps, cargo, run, target};
use crate::{count, deny, doc_comments, floors, fuzz, headers, instructions, lab, miri, mutants};

/// Runs all steps, or all but the slow ones; those whose turn comes after `within` fail.
pub fn all(quick: bool, within: Option<Duration>) -> Result<(), Failure> {
    let mut steps = Steps::new(within);
    let mut summary = Summary::default();
    let mut beside = Beside::start(builds(quick));
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
    let mut programs = Vec::new();
    steps.take("build of the tests", || runner::build().map(|built| programs = built));
    steps.take("tests", || summary.run(&programs));
    std::mem::take(&mut summary.passed_over).into_iter().for_each(|why| steps.leave_out("tests", why));
    steps.wait(&mut beside, MODEL_CHECK);
    steps.take("model check", || run("model check of the pool's return stack", &mut loom(&[])));
    if !quick {
        slow(&mut steps, &mut beside);
    }
    print!("{}", steps.table());
    let outcome = steps.outcome();
    if outcome.is_ok() {
        // The last word is the test runner's own.
        println!("{}", summary.line());
    }
    outcome
}

/// The steps that take minutes.
fn slow(steps: &mut Steps, beside: &mut Beside) {
    steps.wait(beside, CARGO_DENY);
    steps.take("dependencies", deny::dependencies);
    match deny::fetch_advisories() {
        Ok(()) => steps.take("advisories", deny::advisories),
        Err(why) => steps.leave_out("advisories", why),
    }
    steps.wait(beside, RELEASE);
    match instructions::why_not() {
        None => steps.take("instructions", instructions::check),
        Some(why) => steps.leave_out("instructions", why),
    }
    steps.wait(beside, MIRI);
    match miri::why_not() {
        None => steps.take("miri", miri::installed),
        Some(why) => steps.leave_out("miri", why),
    }
    steps.take("seeded bugs", || mutants::run(&mutants::Arguments::default()));
    steps.take("lab", lab::all);
    steps.wait(beside, FUZZ);
    // What a commit can break at once; `cargo xtask fuzz` takes longer.
    steps.take("fuzzing", || fuzz::of(None, None));
}

const RELEASE: &str = "release build";
const CARGO_DENY: &str = "build of cargo-deny";
const MODEL_CHECK: &str = "build of the model check";
const MIRI: &str = "build for miri";
const FUZZ_LINTS: &str = "lints of the fuzz targets";
const FUZZ: &str = "build of the fuzz targets";

/// What is built beside the steps, each in a build directory of its own: cargo lets one
/// build at a time into a directory. Tests and machines wait much, so that there is time.
fn builds(quick: bool) -> Vec<Build> {
    let mut builds = vec![Build { name: MODEL_CHECK, command: loom(&["--no-run"]) }];
    if quick {
        return builds;
    }
    builds.push(Build { name: "packages of the lab", command: lab::fetch() });
    builds.extend(miri::install().map(|command| Build { name: "install miri", command }));
    builds.extend(deny::install().map(|command| Build { name: CARGO_DENY, command }));
    builds.push(Build { name: RELEASE, command: lab::programs() });
    builds.extend(miri::build().map(|command| Build { name: MIRI, command }));
    builds.push(Build { name: FUZZ_LINTS, command: fuzz::lints() });
    // What is wrong with it is told when the targets are to run.
    builds.extend(fuzz::build(None).ok().map(|command| Build { name: FUZZ, command }));
    builds
}

/// The pool's return stack, by loom: a build of its own, with other atomics.
fn loom(arguments: &[&str]) -> Command {
    let mut loom = cargo(&["test", "--locked", "-p", "ixora-memory", "--lib", "returns"]);
    loom.args(arguments).env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target().join("loom"));
    // It runs for some seconds; to optimize what it is made of takes longer.
    loom.env("CARGO_PROFILE_TEST_OPT_LEVEL", "0");
    loom
}
