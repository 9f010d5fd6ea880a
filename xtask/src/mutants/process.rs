//! The programs that meet a bug: started, given a limit, and read.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

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
pub fn test(program: &Path, function: &str, bug: &str) -> Command {
    let mut command = with_bug(program, bug);
    command.args(["--exact", function, "--test-threads", "1"]);
    command
}

/// A second of `ixora demo`.
pub fn demo(ixora: &Path, bug: &str) -> Command {
    let mut command = with_bug(ixora, bug);
    command.args(["demo", "--duration", "1s", "--quiet"]);
    command
}

/// The probe: how it ended, and what the linter found.
pub fn probe(program: &Path, bug: &str) -> (End, BTreeSet<(String, String)>) {
    let (end, text) = finish(with_bug(program, bug).arg("--nocapture"));
    let found = |line: &str| {
        let finding: Value = serde_json::from_str(line.strip_prefix("finding ")?).ok()?;
        Some((finding["rule"].as_str()?.to_owned(), finding["section"].as_str()?.to_owned()))
    };
    (end, text.lines().filter_map(found).collect())
}

/// Runs a program to its end, or to the limit; what it printed.
pub fn finish(command: &mut Command) -> (End, String) {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else { return (End::Failed, format!("cannot start {command:?}")) };
    let outputs: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|pipe| Box::new(pipe) as _),
        child.stderr.take().map(|pipe| Box::new(pipe) as _),
    ];
    let readers = outputs.map(|pipe| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        })
    });
    let (begin, mut limit) = (Instant::now(), false);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.success(),
            Ok(None) if begin.elapsed() > LIMIT && !limit => {
                limit = true;
                let _ = child.kill();
            }
            Ok(None) => thread::sleep(Duration::from_millis(5)),
            Err(_) => break false,
        }
    };
    let text = readers.map(|reader| reader.join().unwrap_or_default()).concat();
    let end = match (limit, status) {
        (true, _) => End::TimeLimit,
        (_, true) => End::Passed,
        (_, false) => End::Failed,
    };
    (end, text)
}
