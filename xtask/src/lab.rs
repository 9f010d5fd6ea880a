//! `cargo xtask lab`: the scenarios of the lab, one after the other.

use std::io::Write;
use std::process::Command;

use lab::guest::Guest;
use lab::packages::Packages;
use lab::scenario::{Bench, Scenario, chosen};
use lab::vm::{End, Outcome};

use crate::step::{Failure, cargo, run, target};

/// Lists the scenarios.
pub fn list() {
    for scenario in lab::scenario::ALL {
        println!("{:<24} {}", scenario.name, scenario.about);
    }
}

/// Builds the programs that the lab runs, and the benchmarks. Always together: built
/// apart, what both depend on has other features in each, and is built twice.
pub fn programs() -> Command {
    let mut build = cargo(&["build", "--release", "--locked", "-p", "ixora", "--bin", "ixora"]);
    build.args(["-p", "ixora-port", "--example", "igb_guest"]);
    build
}

/// Runs those that `names` choose, all for none.
pub fn of(names: &[String]) -> Result<(), Failure> {
    let scenarios = chosen(names);
    if scenarios.is_empty() {
        return Err(format!("no scenario is called {}: see cargo xtask lab --list", names.join(" ")));
    }
    run("build for the lab", &mut programs())?;
    let target = target();
    let packages = Packages::open().map_err(|error| error.to_string())?;
    println!("==> packages, in {}", packages.cache().display());
    let guest = Guest::fetch(&packages).map_err(|error| error.to_string())?;
    let bench = Bench { guest, ixora: target.join("release/ixora"), logs: target.join("lab") };
    let failed = scenarios.iter().filter(|scenario| !passes(&bench, scenario)).count();
    match failed {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} scenarios of the lab failed", scenarios.len())),
    }
}

fn passes(bench: &Bench, scenario: &Scenario) -> bool {
    print!("lab {:<24} ", scenario.name);
    let _ = std::io::stdout().flush(); // only for the reader's patience
    match (scenario.run)(bench, scenario.name) {
        Ok(outcome) if outcome.is_good() => {
            println!("ok, {} checks, {:.1} s", outcome.passed.len(), outcome.elapsed.as_secs_f64());
            true
        }
        Ok(outcome) => {
            describe(bench, scenario, &outcome);
            false
        }
        Err(error) => {
            println!("FAILED: {error}");
            false
        }
    }
}

fn describe(bench: &Bench, scenario: &Scenario, outcome: &Outcome) {
    let end = match outcome.end {
        End::Finished => "",
        End::Died => ", the machine ended early",
        End::TimeLimit => ", the time was over",
    };
    let (passed, failed) = (outcome.passed.len(), outcome.failed.len());
    println!("FAILED, {passed} checks passed, {failed} did not{end}, {:.1} s", outcome.elapsed.as_secs_f64());
    for why in &outcome.failed {
        println!("    {why}");
    }
    println!("    console: {}", bench.log(scenario.name).display());
}
