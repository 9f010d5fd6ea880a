//! `cargo xtask configurations FOLDER`: which configurations of others this program runs as
//! they are, such as those in the `conf` folders of Click and FastClick. Each is checked
//! (`ixora click --check`), with models as the ports that DPDK's numbers mean; none is run.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::programs;
use crate::step::{Failure, cargo, in_parallel};

/// As many of DPDK's numbers have a port.
const PORTS: usize = 16;

/// Endings of files in Click's language; an archive holds one.
const ENDINGS: [&str; 2] = ["click", "ipb"];

/// What is found of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Finding {
    Loads,
    /// It loads where there are these ports.
    WantsPorts(BTreeSet<String>),
    /// Values that are given on the command line.
    WantsVariables(BTreeSet<String>),
    /// Element classes that there are not.
    LacksClasses(BTreeSet<String>),
    /// Something else is wrong: the first error.
    Wrong(String),
}

/// Sorts all configurations in folders, and prints them.
pub fn sort(folders: &[PathBuf], json: bool) -> Result<(), Failure> {
    let mut files = vec![];
    for folder in folders {
        find(folder, &mut files)?;
    }
    if files.is_empty() {
        return Err("no .click and .ipb files there; name the conf folder of a checkout".into());
    }
    files.sort();
    let built =
        programs::build(&mut cargo(&["build", "--release", "--locked", "-p", "ixora", "--bin", "ixora"]))?;
    let ixora = built.iter().find(|program| program.name == "ixora").ok_or("cargo built no ixora")?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let found = in_parallel(&files, jobs, |file| (file.clone(), look_at(&ixora.path, file)));
    let mut sorted = vec![];
    for (file, finding) in found {
        sorted.push((file, finding?));
    }
    match json {
        true => println!("{:#}", as_json(&sorted)),
        false => print!("{}", as_text(&sorted)),
    }
    Ok(())
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let failed = |error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        // Links are not followed: they may lead round.
        match entry.file_type().map_err(failed)? {
            kind if kind.is_dir() => find(&path, files)?,
            kind if kind.is_file() => {
                let ending = path.extension().and_then(OsStr::to_str);
                files.extend(ending.is_some_and(|ending| ENDINGS.contains(&ending)).then_some(path));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Has the program look at a configuration, as somebody does who stands in its folder.
fn look_at(ixora: &Path, file: &Path) -> Result<Finding, Failure> {
    let ask = |what: &str| -> Result<(Output, Value), Failure> {
        let mut command = Command::new(ixora);
        command.args(["click", what, "--json"]).arg(fs::canonicalize(file).map_err(|e| e.to_string())?);
        command.args((0..PORTS).flat_map(|port| ["--port".to_string(), format!("{port}=model:82599")]));
        command.current_dir(file.parent().unwrap_or(Path::new(".")));
        let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let said = serde_json::from_slice(&output.stdout).unwrap_or_default();
        Ok((output, said))
    };
    let (output, checked) = ask("--check")?;
    let Some(problems) = checked["problems"].as_array() else {
        return Ok(Finding::Wrong(last_line(&output)));
    };
    let errors = problems.iter().filter(|problem| problem["severity"] == "error");
    let messages: Vec<&str> = errors.filter_map(|problem| problem["message"].as_str()).collect();
    if !messages.is_empty() {
        return Ok(of_errors(&messages));
    }
    let (_, explained) = ask("--explain")?;
    let ports = explained["ports"].as_object().into_iter().flatten();
    let ports: BTreeSet<String> = ports.map(|(port, _)| port.clone()).collect();
    Ok(if ports.is_empty() { Finding::Loads } else { Finding::WantsPorts(ports) })
}

/// What keeps a configuration from being run, by its errors: classes that are lacking come
/// first, for they bring others with them.
fn of_errors(messages: &[&str]) -> Finding {
    let quoted = |begin: &str| -> BTreeSet<String> {
        let rest = messages.iter().filter_map(|message| message.split_once(begin));
        rest.filter_map(|(_, rest)| rest.split('\'').next()).map(str::to_string).collect()
    };
    let mut classes = quoted("unknown element class '");
    // A class that is not known is taken for the name of an element, where it stands without
    // parentheses; names of elements begin with a small letter by habit.
    let undeclared = quoted("undeclared element '");
    classes.extend(undeclared.into_iter().filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase())));
    let variables = quoted("variable '$");
    match () {
        () if !classes.is_empty() => Finding::LacksClasses(classes),
        () if !variables.is_empty() => Finding::WantsVariables(variables),
        () => Finding::Wrong(messages.first().map_or(String::new(), ToString::to_string)),
    }
}

fn last_line(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    said.lines().next_back().unwrap_or("it says nothing").to_string()
}

impl Finding {
    /// The heading it is listed under, and what of it is named.
    fn words(&self) -> (&'static str, String) {
        let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
        match self {
            Finding::Loads => ("loads", String::new()),
            Finding::WantsPorts(ports) => ("wants ports", list(ports)),
            Finding::WantsVariables(names) => ("wants variables", list(names)),
            Finding::LacksClasses(classes) => ("lacks elements", list(classes)),
            Finding::Wrong(message) => ("other errors", message.clone()),
        }
    }
}

fn by_heading(sorted: &[(PathBuf, Finding)]) -> BTreeMap<&'static str, Vec<(&Path, String)>> {
    let mut headings: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (file, finding) in sorted {
        let (heading, named) = finding.words();
        headings.entry(heading).or_default().push((file.as_path(), named));
    }
    headings
}

fn as_text(sorted: &[(PathBuf, Finding)]) -> String {
    let headings = by_heading(sorted);
    let mut text = String::new();
    for (heading, files) in &headings {
        let _ = writeln!(text, "{heading}: {}", files.len());
        for (file, named) in files {
            let _ =
                writeln!(text, "    {}{}{named}", file.display(), if named.is_empty() { "" } else { ": " });
        }
    }
    let counts: Vec<String> =
        headings.iter().map(|(heading, files)| format!("{} {heading}", files.len())).collect();
    let _ = writeln!(text, "{} configurations: {}", sorted.len(), counts.join(", "));
    text
}

fn as_json(sorted: &[(PathBuf, Finding)]) -> Value {
    let one = |(file, finding): &(PathBuf, Finding)| {
        let (heading, named) = finding.words();
        serde_json::json!({ "file": file, "finding": heading, "named": named })
    };
    sorted.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_that_are_lacking_come_before_what_follows_from_them() {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let messages = ["'x' has no port 1", "unknown element class 'Foo'", "variable '$a' is not set"];
        assert_eq!(of_errors(&messages), Finding::LacksClasses(set(&["Foo"])));
        assert_eq!(of_errors(&["undeclared element 'Foo'"]), Finding::LacksClasses(set(&["Foo"])));
        assert_eq!(of_errors(&messages[2..]), Finding::WantsVariables(set(&["a"])));
        assert_eq!(of_errors(&messages[..1]), Finding::Wrong(messages[0].into()));
    }
}
