//! What is logged on standard error: warnings, or what `IXORA_LOG` or `-v` asks for.

use std::io::IsTerminal;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::Failure;

/// The variable that says what is logged.
const VARIABLE: &str = "IXORA_LOG";
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// Names in front of levels: the crates of this program.
const TARGETS: [&str; 25] = [
    "analysis",
    "app",
    "bench",
    "bus",
    "control",
    "driver",
    "element",
    "fib",
    "graph",
    "interface",
    "ixora",
    "lab",
    "memory",
    "model",
    "neighbor",
    "overlay",
    "port",
    "ports",
    "runtime",
    "service",
    "socket",
    "tcp",
    "testbed",
    "vtep",
    "wire",
];

/// Has diagnostics printed from now on: what `IXORA_LOG` says, else what so many `-v` ask
/// for.
///
/// # Errors
/// A value of the variable that means nothing.
pub fn begin(verbose: u8) -> Result<(), Failure> {
    let filter = match std::env::var(VARIABLE) {
        Ok(text) if !text.trim().is_empty() => parse(&text)?,
        Ok(_) | Err(std::env::VarError::NotPresent) => Targets::new().with_default(match verbose {
            0 => LevelFilter::WARN,
            1 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        }),
        Err(error) => return Err(refused(&error.to_string())),
    };
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .log_internal_errors(false);
    tracing_subscriber::registry().with(filter).with(layer).init();
    Ok(())
}

/// Levels for all targets or for single ones, separated by commas; a target without a level
/// has all of them.
fn parse(text: &str) -> Result<Targets, Failure> {
    for part in text.split(',').map(str::trim) {
        let is_level = |word: &str| LEVELS.iter().any(|known| word.eq_ignore_ascii_case(known));
        let (target, level) = match part.split_once('=') {
            Some((target, level)) => (Some(target), Some(level)),
            None if is_level(part) => (None, Some(part)),
            None => (Some(part), None),
        };
        if let Some(level) = level.filter(|level| !is_level(level)) {
            return Err(refused(&format!("{level:?} is no level")));
        }
        let name = target.map(|target| target.split("::").next().unwrap_or(target));
        if let Some(name) = name.filter(|name| !TARGETS.contains(name)) {
            return Err(refused(&format!(
                "{name:?} is no level and logs nothing: names are {}",
                TARGETS.join(", ")
            )));
        }
    }
    text.parse().map_err(|error: tracing_subscriber::filter::ParseError| refused(&error.to_string()))
}

fn refused(why: &str) -> Failure {
    Failure::usage(format!("{VARIABLE}: {why}")).fix(format!(
        "write one of {}, for all or for names: debug, or driver=debug,bus=trace,warn",
        LEVELS.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_taken_and_other_words_are_not() {
        for good in [
            "debug",
            "TRACE",
            "off",
            "driver=debug,info",
            "bus=trace",
            "driver::ixgbe=debug, warn",
            "driver",
            "off,driver::ixgbe",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in ["", "loud", "driver=loud", "drivers=debug", "debug,", "7", "debug driver"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn all_crates_have_a_name() {
        let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let floors = ["base", "nic", "net", "sim"].map(|floor| format!("{crates}/{floor}"));
        let folders = floors.iter().flat_map(|floor| std::fs::read_dir(floor).expect("a floor"));
        for folder in folders.map(|folder| folder.expect("a folder").file_name()) {
            let name = folder.to_string_lossy().into_owned();
            // Tables, and a library that is loaded by a program of others.
            let is_silent = ["regs", "packetdrill"].contains(&name.as_str());
            assert!(is_silent || TARGETS.contains(&name.as_str()), "{name}");
        }
    }
}
