//! `cargo xtask configurations FOLDER`: which configurations of others this program runs as
//! they are, such as those in the `conf` folders of Click and FastClick. Each is checked
//! (`ixora click --check`), with models as the ports that DPDK's numbers mean; none is run.
//!
//! Whoever wants a device, a variable or an element that there is not is sorted, and that is no
//! failure; one that is wrong otherwise is: either it or this program.

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

/// What is said of a port that is not there, which somebody else's machine has.
const ABSENT: [&str; 3] = ["there is no interface ", "no PCI device ", "there is no such socket"];

/// Configurations of Click's and FastClick's that user-level Click refuses as well: the file, its
/// first error, and why.
const WRONG_ANYWHERE: [(&str, &str, &str); 13] = [
    ("delay.click", "QUEUE: expected unsigned integer", OLD),
    ("demo.click", NO_PORT, KERNEL),
    ("diffserv.ipb", "needs the network header", OLD),
    ("fastudpsrc.click", NO_PORT, KERNEL),
    ("fromhost-tunnel.click", NO_PORT, KERNEL),
    ("ip64-nat3.click", "'nda :: IP6NDAdvertiser': need exactly 1 output, not 0", NOWHERE),
    ("kswitch.ipb", NO_PORT, KERNEL),
    ("localdelay.click", NO_PORT, KERNEL),
    ("switch-stp-2ports-dpdk.click", NO_PORT, NO_DEVICE),
    ("udpcount.click", NO_PORT, KERNEL),
    ("udpgen.click", NO_PORT, KERNEL),
    ("includes/dummy_firewall_in.click", "undeclared element 'filter'", PART),
    ("lib/classifier.click", "output ports ignored at end of chain", PART),
];
const NO_PORT: &str = "PORT: required argument missing";
const PART: &str = "it is a part of others";
const KERNEL: &str = "for Click in the kernel, whose ToHost needs no device";
const NO_DEVICE: &str = "its ToHost lacks the device that it needs outside the kernel";
const NOWHERE: &str = "it leaves an output unconnected that must lead somewhere";
const OLD: &str = "for an older Click, whose elements had other arguments";

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
    /// It is written for something else, for this reason.
    NotForUs(&'static str),
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
    let sorted = look_at_all(&ixora.path, &files)?;
    match json {
        true => println!("{:#}", as_json(&sorted)),
        false => print!("{}", as_text(&sorted)),
    }
    outcome(&sorted)
}

/// What is found of each file.
fn look_at_all(ixora: &Path, files: &[PathBuf]) -> Result<Vec<(PathBuf, Finding)>, Failure> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let found = in_parallel(files, jobs, |file| (file.clone(), look_at(ixora, file)));
    let one = |(file, finding): (PathBuf, Result<Finding, Failure>)| {
        let finding = excused(&file, finding?);
        Ok((file, finding))
    };
    found.into_iter().map(one).collect()
}

/// The finding, where it is not known that such a file is wrong anywhere.
fn excused(file: &Path, finding: Finding) -> Finding {
    let Finding::Wrong(message) = &finding else { return finding };
    let is = |(name, error, _): &&(&str, &str, _)| file.ends_with(name) && message.starts_with(error);
    WRONG_ANYWHERE.iter().find(is).map_or(finding.clone(), |(.., why)| Finding::NotForUs(why))
}

/// A failure where any is wrong otherwise.
fn outcome(sorted: &[(PathBuf, Finding)]) -> Result<(), Failure> {
    let wrong = sorted.iter().filter(|(_, finding)| matches!(finding, Finding::Wrong(_))).count();
    match wrong {
        0 => Ok(()),
        _ => Err(format!("{wrong} of {} configurations have other errors", sorted.len())),
    }
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
    let messages = errors.filter_map(|problem| problem["message"].as_str());
    let messages: Vec<&str> =
        messages.filter(|message| !ABSENT.iter().any(|absent| message.contains(absent))).collect();
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
            Finding::NotForUs(why) => ("for another Click", (*why).to_owned()),
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

    /// What is found of files, each of which is what a program says of it.
    fn sorted(files: &[(&str, &str)]) -> Vec<(PathBuf, Finding)> {
        let place = tempfile::tempdir().expect("a directory");
        let program = place.path().join("ixora");
        // Written by another process: a child of another test that had it open for writing as
        // well would keep it from being started.
        let script = r#"printf '#!/bin/sh\nexec cat "$4"\n' > ixora && chmod +x ixora"#;
        let written = Command::new("sh").args(["-c", script]).current_dir(&place).status();
        assert!(written.expect("a shell").success());
        fs::create_dir(place.path().join("deeper")).expect("a folder");
        for (name, said) in files {
            fs::write(place.path().join(name), said).expect("room");
        }
        let mut found = vec![];
        find(place.path(), &mut found).expect("it can be read");
        found.sort();
        let sorted = look_at_all(&program, &found).expect("the program runs");
        let short = |path: PathBuf| path.strip_prefix(place.path()).map(Path::to_owned).unwrap_or(path);
        sorted.into_iter().map(|(file, finding)| (short(file), finding)).collect()
    }

    #[test]
    fn files_are_sorted_and_only_what_is_wrong_otherwise_fails() {
        let error = |message: &str| {
            let problem = serde_json::json!({ "severity": "error", "message": message });
            let note = serde_json::json!({ "severity": "note", "message": "nothing" });
            serde_json::json!({ "problems": [note, problem], "ports": { "af_packet:eth0": [] } }).to_string()
        };
        let absent =
            error("af_packet:eth0: there is no interface eth0 in this network namespace: ip lists them");
        let mut files = vec![
            ("a.click", r#"{ "problems": [] }"#.to_owned()),
            ("b.click", absent),
            ("c.click", error("unknown element class 'Foo'")),
            ("deeper/d.click", error("variable '$X' is not set")),
            ("notes.txt", "no configuration".to_owned()),
        ];
        let as_strs = |files: &[(&'static str, String)]| -> Vec<(PathBuf, Finding)> {
            sorted(&files.iter().map(|(name, said)| (*name, said.as_str())).collect::<Vec<_>>())
        };
        let found = as_strs(&files);
        let headings: Vec<(&str, String)> = found.iter().map(|(_, finding)| finding.words()).collect();
        let named = |heading, named: &str| (heading, named.to_owned());
        assert_eq!(
            headings,
            [
                named("loads", ""),
                named("wants ports", "af_packet:eth0"),
                named("lacks elements", "Foo"),
                named("wants variables", "X"),
            ]
        );
        assert_eq!(outcome(&found), Ok(()));
        assert!(
            as_text(&found)
                .ends_with("4 configurations: 1 lacks elements, 1 loads, 1 wants ports, 1 wants variables\n")
        );
        files.push(("udpgen.click", error("PORT: required argument missing")));
        assert_eq!(outcome(&as_strs(&files)), Ok(()), "a known one");
        files.push(("delay.click", error("another error than the known one")));
        files.push(("f.ipb", "a program that fell over".to_owned()));
        assert_eq!(outcome(&as_strs(&files)), Err("2 of 7 configurations have other errors".into()));
    }
}
