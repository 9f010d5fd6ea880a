//! `ixora doctor`: what this machine can do, what is missing, and the exact
//! command that mends it. It only looks; it changes nothing.

mod checks;
mod system;

use clap::Args;
use serde::Serialize;

use crate::Failure;
use system::System;

#[derive(Args, Debug)]
pub struct Doctor {
    /// Print the checks as JSON.
    #[arg(long)]
    pub json: bool,
}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// Works, but not as well as it could.
    Warn,
    /// Something cannot be done without it.
    Missing,
    /// Only to know.
    Info,
}

/// What was looked at, and how it is.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it came out.
    pub state: State,
    /// What was seen.
    pub seen: String,
    /// What it means for a driver.
    pub meaning: &'static str,
    /// The command that mends it.
    pub fix: Option<String>,
}

/// Looks and prints; fails only when not even the demo can run.
pub fn run(arguments: &Doctor) -> Result<(), Failure> {
    let checks = checks::all(&System::root());
    if arguments.json {
        let _ = serde_json::to_writer_pretty(std::io::stdout().lock(), &checks);
        println!();
    } else {
        checks.iter().for_each(print);
    }
    match checks.iter().find(|check| check.name == "demo" && check.state == State::Missing) {
        Some(check) => Err(Failure::new(format!("not even the demo can run here: {}", check.seen))),
        None => Ok(()),
    }
}

fn print(check: &Check) {
    let mark = match check.state {
        State::Ok => "ok     ",
        State::Warn => "warn   ",
        State::Missing => "missing",
        State::Info => "       ",
    };
    println!("{mark}  {:<12} {}", check.name, check.seen);
    if matches!(check.state, State::Warn | State::Missing) {
        println!("         {:<12} {}", "", check.meaning);
    }
    if let Some(fix) = &check.fix {
        println!("         {:<12} mend it: {fix}", "");
    }
}
