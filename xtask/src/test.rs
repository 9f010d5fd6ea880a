//! The test command: each step in turn, the first failure ends it. Steps that
//! count tests come last, so that the runner's own summary closes the output.

use std::path::PathBuf;
use std::process::Command;

use crate::step::{Failure, cargo, root, run};
use crate::{count, fuzz, instructions, lab};

/// Seconds for each fuzz target: what a commit can break at once. `cargo xtask fuzz`
/// takes longer.
const FUZZ_SECONDS: u64 = 30;

/// Runs all steps, or all but the slow ones.
pub fn all(quick: bool) -> Result<(), Failure> {
    run("format", &mut cargo(&["fmt", "--all", "--check"]))?;
    run(
        "lints",
        &mut cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]),
    )?;
    let mut docs = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    run("docs", docs.env("RUSTDOCFLAGS", "-D warnings"))?;
    count::run()?;
    if !quick {
        instructions::check()?;
        run("dependencies", &mut deny()?)?;
        fuzz::of(None, FUZZ_SECONDS)?;
        lab::of(&[])?;
    }
    let mut loom = cargo(&["test", "--locked", "-p", "ixora-memory", "--lib", "returns"]);
    loom.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", root().join("target/loom"));
    run("model check of the pool's return stack", &mut loom)?;
    // The last word is the test runner's own.
    println!("==> tests");
    let tests = cargo(&["test", "--workspace", "--locked"]).status();
    match tests.map_err(|error| format!("tests: cannot start cargo: {error}"))? {
        status if status.success() => Ok(()),
        status => Err(format!("tests failed ({status})")),
    }
}

/// `cargo deny`, built into target/tools when the machine has none.
fn deny() -> Result<Command, Failure> {
    let check = ["check", "bans", "licenses", "sources"];
    if cargo(&["deny", "--version"]).output().is_ok_and(|o| o.status.success()) {
        let mut command = cargo(&["deny"]);
        command.args(check);
        return Ok(command);
    }
    let tools = root().join("target/tools");
    let binary: PathBuf = tools.join("bin/cargo-deny");
    if !binary.exists() {
        // Not optimised: to build it takes longer than all it has to do here.
        let mut install =
            cargo(&["install", "cargo-deny", "--debug", "--locked", "--version", "^0.20", "--root"]);
        install.arg(&tools).env("CARGO_TARGET_DIR", tools.join("target"));
        run("install cargo-deny (no cargo-deny on this machine)", &mut install)?;
    }
    let mut command = Command::new(binary);
    command.args(check).current_dir(root());
    Ok(command)
}
