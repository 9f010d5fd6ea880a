//! `cargo deny`: what we allow ourselves to depend on (`deny.toml`).

use std::process::Command;
use std::time::Duration;

use crate::limit::run_with_output;
use crate::step::{Failure, cargo, installed, root, run, tool};

/// Duplicates, licences and sources; all that is needed is in the lock file.
pub fn dependencies() -> Result<(), Failure> {
    run("dependencies", deny()?.args(["check", "-D", "unmatched-skip", "bans", "licenses", "sources"]))
}

/// Fetches the advisory database, a git repository at GitHub, which CI and many a lab
/// cannot reach.
///
/// # Errors
/// Why it cannot be had.
pub fn fetch_advisories() -> Result<(), Failure> {
    let mut fetch = deny()?;
    // Git asks nobody for a password.
    fetch.args(["fetch", "db"]).env("GIT_TERMINAL_PROMPT", "0");
    let fetched = run_with_output("advisories", &mut fetch, FETCH);
    let (end, said) = fetched.map_err(|error| format!("cargo deny: {error}"))?;
    let Some(failure) = end.failure() else { return Ok(()) };
    let why = said.lines().rfind(|line| line.contains("fatal")).unwrap_or(&failure);
    Err(format!("the advisory database cannot be had: {why}"))
}

/// Advisories and yanked crates, by the database that was fetched.
pub fn advisories() -> Result<(), Failure> {
    run("advisories", deny()?.args(["check", "advisories"]))
}

/// So long may the database take to come, from a network that answers.
const FETCH: Duration = Duration::from_mins(3);

/// Which release of it.
const VERSION: &str = "^0.20";

/// What builds `cargo deny` into target/tools; nothing where there is one.
pub fn install() -> Option<Command> {
    (!is_installed()).then(|| tool("cargo-deny", VERSION).1).flatten()
}

fn is_installed() -> bool {
    cargo(&["deny", "--version"]).output().is_ok_and(|output| output.status.success())
}

/// `cargo deny`, built when the machine has none.
fn deny() -> Result<Command, Failure> {
    if is_installed() {
        return Ok(cargo(&["deny"]));
    }
    let mut command = Command::new(installed("cargo-deny", VERSION)?);
    command.current_dir(root());
    Ok(command)
}
