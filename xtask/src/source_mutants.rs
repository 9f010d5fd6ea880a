//! `cargo xtask source-mutants`: cargo-mutants on the crates whose own tests must notice
//! every change of their source. What it leaves out stands in .cargo/mutants.toml with
//! the reason. Hours for all three; `--file` and `--shard` (`-- --help` tells more)
//! make it shorter.

use std::process::Command;

use crate::step::{Failure, installed, root};

/// The crates, where none are named.
const CRATES: [&str; 3] = ["wire", "memory", "fib"];

/// What cargo-mutants ends with when a mutant was not noticed.
const MISSED: i32 = 2;
/// And when the only thing to report is that tests of some did not end: they are noticed.
const TIMED_OUT: i32 = 3;

/// Runs cargo-mutants on `crates`, all for none; `arguments` go to it.
pub fn of(crates: &[String], arguments: &[String]) -> Result<(), Failure> {
    let all = CRATES.map(str::to_owned);
    let chosen = if crates.is_empty() { &all } else { crates };
    if let Some(other) = chosen.iter().find(|name| !CRATES.contains(&name.as_str())) {
        return Err(format!("{other} is none of {}", CRATES.join(", ")));
    }
    let binary = installed("cargo-mutants", "^27")?;
    // Each of them, so that one run tells of all.
    let failures: Vec<Failure> =
        chosen.iter().filter_map(|name| one(Command::new(&binary), name, arguments).err()).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

fn one(mut command: Command, name: &str, arguments: &[String]) -> Result<(), Failure> {
    println!("==> mutants of {name}");
    let output = root().join("target/mutants").join(name);
    std::fs::create_dir_all(&output).map_err(|e| format!("{}: {e}", output.display()))?;
    // One at a time: a test that waits for another thread is not to be mistaken for one
    // that hangs.
    command.args(["mutants", "--jobs", "1", "--package", &format!("ixora-{name}"), "--output"]);
    command.arg(&output).args(arguments).current_dir(root());
    let status = command.status().map_err(|e| format!("cannot start {command:?}: {e}"))?;
    match status.code() {
        Some(0 | TIMED_OUT) => Ok(()),
        Some(MISSED) => {
            let list = output.join("mutants.out/missed.txt");
            Err(format!("tests of {name} do not notice what {} lists", list.display()))
        }
        _ => Err(format!("mutants of {name} failed ({status}): {command:?}")),
    }
}
