//! The programs that meet a bug: started, given a limit, and read.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::limit;
use crate::step::root;

/// Generous: it only bounds a hang, which is the test's own fault.
const LIMIT: Duration = Duration::from_secs(120);

/// How a program ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Passed,
    /// With an error, a panic or a signal.
    Failed,
    /// It had to be killed.
    TimeLimit,
}

fn with_bug(program: &Path, bug: &str) -> Command {
    let mut command = Command::new(program);
    // Where cargo runs tests.
    command.current_dir(root().join("crates/sim/testbed"));
    command.env("IXORA_SEEDED_BUG", bug).env("RUST_BACKTRACE", "0");
    command
}

/// One test of a test program.
pub fn test(program: &Path, test: &str, bug: &str) -> Command {
    let mut command = with_bug(program, bug);
    command.args(["--exact", test, "--test-threads", "1"]);
    command
}

/// A second of `ixora demo` on a model.
pub fn demo(ixora: &Path, model: &str, bug: &str) -> Command {
    let mut command = with_bug(ixora, bug);
    command.args(["demo", "--nic", model, "--duration", "1s", "--quiet"]);
    command
}

/// The probe in a module of the tests: how it ended, and what the linter found.
pub fn probe(program: &Path, module: &str, bug: &str) -> (End, BTreeSet<(String, String)>) {
    let name = format!("bug-{bug}-{module}");
    let (end, text) = finish(&name, with_bug(program, bug).args(["--nocapture", &format!("{module}::")]));
    let found = |line: &str| {
        let finding: Value = serde_json::from_str(line.strip_prefix("finding ")?).ok()?;
        Some((finding["rule"].as_str()?.to_owned(), finding["section"].as_str()?.to_owned()))
    };
    (end, text.lines().filter_map(found).collect())
}

/// Runs a program to its end, or to the limit; what it printed. `name` is its log's.
pub fn finish(name: &str, command: &mut Command) -> (End, String) {
    match limit::run_with_output(name, command, LIMIT) {
        Ok((limit::End::TimeLimit(_), text)) => (End::TimeLimit, text),
        Ok((limit::End::Status(status), text)) if status.success() => (End::Passed, text),
        Ok((limit::End::Status(_), text)) => (End::Failed, text),
        Err(error) => (End::Failed, format!("cannot start {command:?}: {error}")),
    }
}
