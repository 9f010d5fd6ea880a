//! `cargo xtask mutants`: what the linter and the tests say of a driver with a
//! bug, for each of the seeded ones (`crates/nic/driver/seeded`). All are in one
//! build; a variable chooses. The linter's word comes from a probe of each chip, such as
//! `tests/it/ixgbe_probe.rs` of the testbed, which is also an ordinary test.

pub mod process;
mod table;

#[path = "../../crates/nic/driver/seeded/mod.rs"]
mod seeded;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::thread;

use serde_json::{Value, json};

use crate::programs;
use crate::step::{Failure, cargo, in_parallel};
use process::{End, finish};
use seeded::{Bug, CHIPS, Chip, Linter};

/// The package's feature; cargo knows it by the name of the dependency.
const FEATURE: &str = "driver/seeded-bugs";
/// The testbed's program of tests.
const TESTS: &str = "it";
/// Of a hundred bugs of a chip, how many the linter reports with the right section.
const REPORTED_OF_100: usize = 95;

/// Which seeded bugs are tried.
#[derive(clap::Args, Default)]
pub struct Arguments {
    /// Bugs, by a part of their names; all if left out.
    names: Vec<String>,
    /// Say which there are.
    #[arg(long)]
    list: bool,
    /// Show what each does to the source, and nothing else.
    #[arg(long)]
    show: bool,
    /// Have `ixora demo` meet each bug too; it takes a second for each.
    #[arg(long)]
    demo: bool,
    /// Give the results as JSON.
    #[arg(long)]
    json: bool,
}

/// What was built.
struct Programs {
    /// The testbed's tests.
    tests: PathBuf,
    ixora: Option<PathBuf>,
}

/// A bug, and the chip of which it is.
#[derive(Clone, Copy)]
struct Seeded {
    chip: &'static Chip,
    bug: &'static Bug,
}

/// What became of one bug.
struct Row {
    chip: &'static Chip,
    bug: &'static Bug,
    /// The rules that the linter reported, with their sections.
    found: BTreeSet<(String, String)>,
    probe: End,
    test: End,
    demo: Option<End>,
}

impl Row {
    /// Whether the linter reported the rule, with its section.
    fn is_reported(&self) -> bool {
        let Linter::Reports(rule, section) = self.bug.linter else { return false };
        self.found.iter().any(|(name, sections)| name == rule && sections.split(", ").any(|s| s == section))
    }

    /// What is not as it should be.
    fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        if let (Linter::Reports(rule, section), false) = (&self.bug.linter, self.is_reported()) {
            complaints.push(format!("the linter does not report {rule} ({section})"));
        }
        if self.probe == End::TimeLimit {
            complaints.push("the probe did not end by itself".to_owned());
        }
        match self.test {
            End::Passed => complaints.push(format!("{} passes", self.bug.test)),
            End::TimeLimit => complaints.push(format!("{} did not end by itself", self.bug.test)),
            End::Failed => {}
        }
        match self.demo {
            Some(End::Passed) if self.bug.demo => complaints.push("ixora demo passes".to_owned()),
            Some(End::TimeLimit) => complaints.push("ixora demo did not end by itself".to_owned()),
            _ => {}
        }
        complaints
    }

    fn to_json(&self) -> Value {
        let (rule, section, blind) = match self.bug.linter {
            Linter::Reports(rule, section) => (Some(rule), Some(section), None),
            Linter::Blind(reason) => (None, None, Some(reason)),
        };
        json!({
            "name": self.bug.name, "chip": self.chip.name, "about": self.bug.about, "rule": rule, "section": section, "blind": blind,
            "found": self.found, "reported": self.is_reported(), "test": self.bug.test,
            "caught": self.test == End::Failed, "demo_ends_with_error": self.demo.map(|end| end == End::Failed),
            "complaints": self.complaints(),
        })
    }
}

/// Builds, runs and tells.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let wanted = |Seeded { bug, .. }: &Seeded| {
        arguments.names.is_empty() || arguments.names.iter().any(|part| bug.name.contains(part.as_str()))
    };
    let all = CHIPS.iter().flat_map(|chip| chip.bugs().map(move |bug| Seeded { chip, bug }));
    let bugs: Vec<Seeded> = all.filter(wanted).collect();
    if bugs.is_empty() {
        return Err(format!(
            "no seeded bug is called {}: see cargo xtask mutants --list",
            arguments.names.join(" ")
        ));
    }
    if arguments.list || arguments.show {
        bugs.iter().for_each(|seeded| table::describe(seeded.bug, arguments.show));
        return Ok(());
    }
    let programs = build(arguments.demo)?;
    sound(&programs, &bugs)?;
    let rows = meet(&programs, &bugs);
    match arguments.json {
        true => println!("{:#}", json!({ "bugs": rows.iter().map(Row::to_json).collect::<Vec<_>>() })),
        false => table::print(&rows),
    }
    outcome(&rows)
}

/// Exit status: every expectation, and the linter's share of all bugs of a chip.
fn outcome(rows: &[Row]) -> Result<(), Failure> {
    let unmet = rows.iter().filter(|row| !row.complaints().is_empty()).count();
    if unmet > 0 {
        return Err(format!("{unmet} of {} seeded bugs are not reported as they should be", rows.len()));
    }
    for chip in CHIPS {
        let of_chip = || rows.iter().filter(|row| row.chip.name == chip.name);
        let (all, met) = (chip.bugs().count(), of_chip().count());
        let reported = of_chip().filter(|row| row.is_reported()).count();
        if met == all && reported * 100 < all * REPORTED_OF_100 {
            let name = chip.name;
            return Err(format!(
                "the linter of the {name} reports {reported} of {all} bugs, {REPORTED_OF_100} in 100 are required"
            ));
        }
    }
    Ok(())
}

/// Builds the tests, with the probes among them, and if wanted, the demo.
fn build(demo: bool) -> Result<Programs, Failure> {
    let tests =
        ["test", "--locked", "-p", "ixora-testbed", "--features", FEATURE, "--no-run", "--test", TESTS];
    let tests = program(&tests, TESTS)?;
    // The tests' profile, so that the two share what they are made of.
    let ixora =
        ["build", "--locked", "--profile", "test", "-p", "ixora", "--features", FEATURE, "--bin", "ixora"];
    let ixora = demo.then(|| program(&ixora, "ixora")).transpose()?;
    Ok(Programs { tests, ixora })
}

/// Has cargo build a program.
fn program(arguments: &[&str], name: &str) -> Result<PathBuf, Failure> {
    let built = programs::build(&mut cargo(arguments))?;
    let program = built.into_iter().find(|program| program.name == name);
    program.map(|program| program.path).ok_or_else(|| format!("cargo built no program {name}"))
}

/// Without a bug everything passes; a test that is not there would, too.
fn sound(programs: &Programs, bugs: &[Seeded]) -> Result<(), Failure> {
    let tests: BTreeSet<_> = bugs.iter().map(|seeded| seeded.bug.test).collect();
    let tests: Vec<_> = tests.into_iter().collect();
    let failed = in_parallel(&tests, jobs(), |test| {
        let log = format!("bug--{}", test.replace("::", "-"));
        let (end, text) = finish(&log, &mut process::test(&programs.tests, test, ""));
        (end != End::Passed || !text.contains("1 passed"))
            .then(|| format!("without a bug {test} does not pass:\n{text}"))
    });
    if let Some(failure) = failed.into_iter().flatten().next() {
        return Err(failure);
    }
    for chip in CHIPS.iter().filter(|chip| bugs.iter().any(|seeded| seeded.chip.name == chip.name)) {
        let (probe, found) = process::probe(&programs.tests, chip.probe, "");
        if probe != End::Passed || !found.is_empty() {
            let name = chip.name;
            return Err(format!(
                "without a bug the probe of the {name} does not pass; the linter found {found:?}"
            ));
        }
        let demo =
            |(ixora, model)| finish(&format!("bug--demo-{model}"), &mut process::demo(ixora, model, ""));
        match programs.ixora.as_deref().zip(chip.model).map(demo) {
            None | Some((End::Passed, _)) => {}
            Some((_, text)) => return Err(format!("without a bug ixora demo does not pass:\n{text}")),
        }
    }
    Ok(())
}

/// Lets probe, test and demo meet each bug.
fn meet(programs: &Programs, bugs: &[Seeded]) -> Vec<Row> {
    in_parallel(bugs, jobs(), |&Seeded { chip, bug }| {
        let (probe, found) = process::probe(&programs.tests, chip.probe, bug.name);
        let log = |what| format!("bug-{}-{what}", bug.name);
        let (test, _) = finish(&log("test"), &mut process::test(&programs.tests, bug.test, bug.name));
        let demo = |(ixora, model)| finish(&log("demo"), &mut process::demo(ixora, model, bug.name)).0;
        let demo = programs.ixora.as_deref().zip(chip.model).map(demo);
        Row { chip, bug, found, probe, test, demo }
    })
}

/// Programs that run at a time: more than half of the time they wait for what a bug keeps
/// from coming.
fn jobs() -> usize {
    2 * thread::available_parallelism().map_or(1, usize::from)
}
