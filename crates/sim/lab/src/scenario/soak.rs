//! A minute of `ixora soak`, whose hour is for whoever has one: our programs on our
//! models under faults, kills, hot swaps and shortages. No guest. The seed is always
//! the same: what fails here and passed before was changed by somebody.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Bench;
use crate::vm::{End, Outcome};
use crate::{Error, Result, limited};

/// Long enough for an episode of most kinds.
const DURATION: &str = "60s";
/// By then it has ended, with all its checks, on a machine that is busy as well.
const LIMIT: Duration = Duration::from_secs(600);
const SEED: &str = "7";

/// One run; each failed check of an episode is one of ours.
pub fn run(bench: &Bench, name: &str) -> Result<Outcome> {
    let start = Instant::now();
    let directory = bench.directory(name)?;
    let program = bench.ixora();
    let mut soak = Command::new(program);
    soak.args(["soak", "--duration", DURATION, "--seed", SEED, "--json", "--quiet", "--logs"]);
    let soak = limited::output(soak.arg(directory.join("logs")), LIMIT).map_err(Error::at(program))?;
    let log = bench.log(name);
    std::fs::write(&log, [&soak.stdout[..], &soak.stderr].concat()).map_err(Error::at(&log))?;
    let summary: Value = serde_json::from_slice(&soak.stdout)
        .map_err(|error| Error::Malformed { path: log, reason: format!("its summary: {error}") })?;
    let mut outcome =
        Outcome { passed: Vec::new(), failed: Vec::new(), end: End::Finished, elapsed: start.elapsed() };
    let failed = summary["failed"].as_array().map_or(&[][..], Vec::as_slice);
    outcome
        .failed
        .extend(failed.iter().map(|episode| format!("{}: {}", episode["repeat"], episode["failures"])));
    let held = summary["episodes"].as_u64().unwrap_or_default().saturating_sub(failed.len() as u64);
    outcome.passed.extend((0..held).map(|_| "an episode that held".to_owned()));
    if held == 0 || soak.status.success() != failed.is_empty() {
        outcome.failed.push(format!("{held} episodes held, and the program's status was {}", soak.status));
    }
    Ok(outcome)
}
