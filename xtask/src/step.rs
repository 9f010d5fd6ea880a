//! Running a command as a named step, from the workspace's root; and a list of
//! steps of which all run, whatever becomes of each.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

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

/// Runs a command to its end; its failure is the step's.
pub fn run(name: &str, command: &mut Command) -> Result<(), Failure> {
    println!("==> {name}");
    let start = Instant::now();
    let status = command.status().map_err(|e| format!("{name}: cannot start {command:?}: {e}"))?;
    println!("<== {name}: {:.1} s", start.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(format!("{name} failed ({status}): {command:?}")) }
}

/// A tool of Cargo's, built into target/tools when it is not there yet.
pub fn tool(name: &str, version: &str) -> Result<PathBuf, Failure> {
    let tools = root().join("target/tools");
    let binary = tools.join("bin").join(name);
    if !binary.exists() {
        // Not optimised: to build it takes longer than all it has to do here.
        let mut install = cargo(&["install", name, "--debug", "--locked", "--version", version, "--root"]);
        install.arg(&tools).env("CARGO_TARGET_DIR", tools.join("target"));
        run(&format!("install {name}"), &mut install)?;
    }
    Ok(binary)
}

/// A command that runs beside the steps until one of them needs what it makes.
pub struct Beside {
    name: &'static str,
    child: Child,
    output: PathBuf,
}

impl Beside {
    /// Starts it; what it prints goes to a file in the build directory.
    pub fn start(name: &'static str, command: &mut Command) -> Result<Beside, Failure> {
        let output = target().join(format!("{name}.log"));
        let failed = |e| format!("{name}: {}: {e}", output.display());
        std::fs::create_dir_all(target()).map_err(failed)?;
        let file = File::create(&output).map_err(failed)?;
        let errors = file.try_clone().map_err(failed)?;
        let child = command.stdout(file).stderr(errors).spawn();
        let child = child.map_err(|e| format!("{name}: cannot start {command:?}: {e}"))?;
        Ok(Beside { name, child, output })
    }

    /// Waits for its end; what it printed is in the failure.
    pub fn join(mut self) -> Result<(), Failure> {
        let status = self.child.wait().map_err(|e| format!("{}: {e}", self.name))?;
        if status.success() {
            return Ok(());
        }
        let printed = std::fs::read_to_string(&self.output).unwrap_or_default();
        Err(format!("{} failed ({status}):\n{printed}", self.name))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // After a join there is nothing left to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What became of the steps so far.
#[derive(Default)]
pub struct Steps {
    done: Vec<(&'static str, Duration, Result<(), Failure>)>,
    /// What could not be done here, and why.
    left_out: Vec<(&'static str, String)>,
}

impl Steps {
    /// Takes a step. The next ones are taken even if it fails.
    pub fn take(&mut self, name: &'static str, step: impl FnOnce() -> Result<(), Failure>) {
        let begin = Instant::now();
        let outcome = step();
        if let Err(failure) = &outcome {
            println!("!!! {failure}");
        }
        self.done.push((name, begin.elapsed(), outcome));
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
        for (name, time, outcome) in &self.done {
            let word = if outcome.is_ok() { "ok" } else { "FAILED" };
            let _ = writeln!(text, "{name:<28}{word:>7}{:>9.1} s", time.as_secs_f64());
        }
        let all: Duration = self.done.iter().map(|(_, time, _)| *time).sum();
        let _ = writeln!(text, "{:<28}{:>7}{:>9.1} s", "all", "", all.as_secs_f64());
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
            .filter_map(|(name, _, outcome)| Some(format!("{name}: {}", outcome.err()?)))
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

    #[test]
    fn steps_behind_a_failure_are_taken_and_all_failures_are_listed() {
        let mut steps = Steps::default();
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
    fn what_runs_beside_tells_its_output_when_it_fails() {
        let mut command = Command::new("sh");
        let beside = Beside::start("xtask-test", command.args(["-c", "echo no luck; exit 3"]));
        let failure = beside.expect("started").join().expect_err("it failed");
        assert!(failure.contains("no luck"), "{failure}");
    }
}
