//! Programs that cargo builds, as its messages name them.

use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::limit;
use crate::step::{Failure, LIMIT};

/// A program that cargo built, or found built.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// Its target's name.
    pub name: String,
    /// The folder of its package: where cargo runs tests.
    pub package: PathBuf,
    /// Whether it is made of tests.
    pub is_test: bool,
    pub path: PathBuf,
}

impl Program {
    /// The program in a message of cargo's, if it tells of one.
    fn read(message: &str) -> Option<Program> {
        let message: Value = serde_json::from_str(message).ok()?;
        Some(Program {
            name: message["target"]["name"].as_str()?.to_owned(),
            package: PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned(),
            is_test: message["profile"]["test"].as_bool()?,
            path: PathBuf::from(message["executable"].as_str()?),
        })
    }
}

/// Runs cargo, which builds, and returns the programs in the order in which they were
/// built.
pub fn build(command: &mut Command) -> Result<Vec<Program>, Failure> {
    let failed = |e| format!("the programs of a build: {e}");
    let mut messages = tempfile::tempfile().map_err(failed)?;
    command.arg("--message-format=json-render-diagnostics").stdout(messages.try_clone().map_err(failed)?);
    let end = limit::run(command, LIMIT).map_err(|e| format!("cannot start {command:?}: {e}"))?;
    if let Some(failure) = end.failure() {
        return Err(format!("a build failed ({failure}): {command:?}"));
    }
    let mut text = String::new();
    messages.rewind().and_then(|()| messages.read_to_string(&mut text)).map_err(failed)?;
    Ok(text.lines().filter_map(Program::read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_read_from_cargos_message() {
        let message = |executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml",
                "target":{{"kind":["test"],"name":"ends"}},"profile":{{"test":true}},"executable":{executable}}}"#
            )
        };
        let program = Program::read(&message(r#""/w/target/debug/deps/ends-1""#)).expect("a program");
        assert_eq!((program.name.as_str(), program.is_test), ("ends", true));
        assert_eq!(program.package, PathBuf::from("/w/crates/a"));
        assert_eq!(Program::read(&message("null")), None);
        assert_eq!(Program::read("no message"), None);
    }
}
