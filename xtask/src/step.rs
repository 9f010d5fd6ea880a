//! Running a command as a named step, from the workspace's root.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// What a chore says when it fails.
pub type Failure = String;

/// The workspace's root.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}

/// `cargo` as it was called, with arguments.
pub fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    command
}

/// Runs a command to its end; its failure is the step's.
pub fn run(name: &str, command: &mut Command) -> Result<(), Failure> {
    println!("==> {name}");
    let start = Instant::now();
    let status = command.status().map_err(|e| format!("{name}: cannot start {command:?}: {e}"))?;
    println!("<== {name}: {:.1} s", start.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(format!("{name} failed ({status}): {command:?}")) }
}
