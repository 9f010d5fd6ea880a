//! `cargo xtask packetdrill CHECKOUT`: the TCP scripts of google/packetdrill against our stack,
//! in simulated time. packetdrill itself is not part of this: it is built in the checkout, as
//! its README says.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::limit;
use crate::step::{Failure, cargo, root, run, target};

/// Scripts that are not expected to pass, each with its reason.
const LEFT_OUT: &str = "crates/sim/packetdrill/left_out.txt";
/// Where the scripts are in a checkout, and where the program is that runs them.
const SCRIPTS: &str = "gtests/net/tcp";
const PROGRAM: &str = "gtests/net/packetdrill/packetdrill";
/// How long a script may take, which passes in a tenth of a second.
const LIMIT: Duration = Duration::from_secs(30);
/// What packetdrill is told for IPv4, and for IPv6 where a script is only for that; the cookies
/// are those of the key that the scripts set, for these addresses.
const V4: &[&str] = &[
    "--ip_version=ipv4",
    "--local_ip=192.168.0.1",
    "--gateway_ip=192.168.0.1",
    "--netmask_ip=255.255.0.0",
    "--remote_ip=192.0.2.1",
    "-D",
    "TFO_COOKIE=3021b9d889017eeb",
    "-D",
    "CODE=host_unreachable",
    "-D",
    "CMSG_LEVEL_IP=SOL_IP",
    "-D",
    "CMSG_TYPE_RECVERR=IP_RECVERR",
];
const V6: &[&str] = &[
    "--ip_version=ipv6",
    "--mtu=1520",
    "--local_ip=fd3d:0a0b:17d6::1",
    "--gateway_ip=fd3d:0a0b:17d6:8888::1",
    "--remote_ip=fd3d:fa7b:d17d::1",
    "-D",
    "TFO_COOKIE=c1d1e9742a47a9bc",
    "-D",
    "CMSG_LEVEL_IP=SOL_IPV6",
    "-D",
    "CMSG_TYPE_RECVERR=IPV6_RECVERR",
];

/// What to run.
#[derive(clap::Args)]
pub struct Arguments {
    /// A checkout of google/packetdrill, with packetdrill built in gtests/net/packetdrill.
    checkout: PathBuf,
    /// Only scripts whose path below gtests/net/tcp contains this.
    #[arg(long, default_value = "")]
    filter: String,
    /// The result of each script as JSON on the standard output.
    #[arg(long)]
    json: bool,
}

/// What became of a script.
struct Outcome {
    /// Its path below `gtests/net/tcp`.
    script: String,
    /// What packetdrill said, where it failed.
    failure: Option<String>,
}

/// Runs the scripts; fails when one fails that is expected to pass, or passes that is not.
pub fn of(arguments: &Arguments) -> Result<(), Failure> {
    let absolute = arguments.checkout.canonicalize();
    let checkout = absolute.map_err(|e| format!("{}: {e}", arguments.checkout.display()))?;
    let program = checkout.join(PROGRAM);
    if !program.is_file() {
        let folder = program.parent().map_or_else(String::new, |folder| folder.display().to_string());
        return Err(format!("{} is missing: build it in {folder} as its README says", program.display()));
    }
    let left_out = left_out()?;
    let folder = checkout.join(SCRIPTS);
    let mut scripts = Vec::new();
    find(&folder, &folder, &mut scripts)?;
    scripts.retain(|script| script.contains(&arguments.filter));
    scripts.sort();
    let mut build = cargo(&["build", "--locked", "--quiet", "-p", "ixora-packetdrill"]);
    if arguments.json {
        let end =
            limit::run(&mut build, crate::step::LIMIT).map_err(|e| format!("cannot start cargo: {e}"))?;
        end.failure().map_or(Ok(()), |failure| Err(format!("cargo build failed ({failure})")))?;
    } else {
        run("packetdrill's library", &mut build)?;
    }
    let library = target().join("debug/libpacketdrill.so");
    let start = Instant::now();
    let outcomes = run_all(&scripts, &|script| run_one(&program, &library, &folder, script));
    let report = Report { outcomes, left_out, is_whole: arguments.filter.is_empty() };
    match arguments.json {
        true => println!("{}", report.json()),
        false => report.print(start.elapsed()),
    }
    report.outcome()
}

/// The scripts that are left out by their paths, with their reasons.
fn left_out() -> Result<BTreeMap<String, String>, Failure> {
    let path = root().join(LEFT_OUT);
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parsed = lines.map(|line| match line.split_once(": ") {
        Some((script, reason)) => Ok((script.to_owned(), reason.to_owned())),
        None => Err(format!("{LEFT_OUT}: «{line}» is not «SCRIPT: REASON»")),
    });
    parsed.collect()
}

/// All scripts below a folder, by their paths from `base`.
fn find(base: &Path, folder: &Path, scripts: &mut Vec<String>) -> Result<(), Failure> {
    let broken = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(broken)? {
        let path = entry.map_err(broken)?.path();
        if path.is_dir() {
            find(base, &path, scripts)?;
        } else if path.extension().is_some_and(|extension| extension == "pkt")
            && let Ok(script) = path.strip_prefix(base)
        {
            scripts.push(script.display().to_string());
        }
    }
    Ok(())
}

/// Runs all scripts on as many threads as there are processors, in any order.
fn run_all(scripts: &[String], run: &(impl Fn(&str) -> Option<String> + Sync)) -> Vec<Outcome> {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(script) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = Outcome { script: script.clone(), failure: run(script) };
            outcomes.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(outcome);
        }
    };
    thread::scope(|scope| {
        let count = thread::available_parallelism().map_or(1, usize::from);
        (0..count).for_each(|_| drop(scope.spawn(work)));
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    outcomes.sort_by(|a, b| a.script.cmp(&b.script));
    outcomes
}

/// Runs a script; what it says when it fails.
fn run_one(program: &Path, library: &Path, folder: &Path, script: &str) -> Option<String> {
    let path = folder.join(script);
    let log = match tempfile::NamedTempFile::new() {
        Ok(log) => log,
        Err(error) => return Some(format!("no file for what it says: {error}")),
    };
    let handle = |log: &tempfile::NamedTempFile| log.reopen().map(std::process::Stdio::from);
    let (Ok(out), Ok(err)) = (handle(&log), handle(&log)) else {
        return Some("no file for what it says".to_owned());
    };
    let mut command = Command::new(program);
    // The library also stands in front of the C library (`overrides` in the crate).
    command.arg(format!("--so_filename={}", library.display())).env("LD_PRELOAD", library);
    let text = fs::read_to_string(&path).unwrap_or_default();
    let usual = if script.ends_with("v6.pkt") { V6 } else { V4 };
    command.args(usual.iter().filter(|flag| !is_set(&text, flag)));
    command.arg(path.file_name()?).current_dir(path.parent()?).stdout(out).stderr(err);
    let failure = match limit::run(&mut command, LIMIT) {
        Ok(end) => end.failure()?,
        Err(error) => return Some(format!("cannot start packetdrill: {error}")),
    };
    let said = fs::read_to_string(log.path()).unwrap_or_default();
    let lines = said.lines().filter(|line| !line.trim().is_empty());
    // What the assertions of a script print stands in front, and the reason at the end.
    let last = lines.clone().next_back().unwrap_or_default();
    let reason = lines.clone().find(|line| line.contains(".pkt:") && line.contains("rror")).unwrap_or(last);
    Some(match reason.contains("Python") {
        true => format!("{reason}: {last}"),
        false if reason.is_empty() => failure,
        false => reason.to_owned(),
    })
}

/// Whether a script sets an option by itself, which the command line would override.
fn is_set(text: &str, flag: &str) -> bool {
    let name = flag.split_once('=').map(|(name, _)| name).filter(|name| name.starts_with("--"));
    name.is_some_and(|name| text.lines().any(|line| line.starts_with(name)))
}

/// What became of all scripts.
struct Report {
    outcomes: Vec<Outcome>,
    left_out: BTreeMap<String, String>,
    is_whole: bool,
}

impl Report {
    /// What a script counts as, in one word.
    fn word(&self, outcome: &Outcome) -> &'static str {
        match (&outcome.failure, self.left_out.contains_key(&outcome.script)) {
            (None, false) => "passed",
            (None, true) => "passed though left out",
            (Some(_), false) => "FAILED",
            (Some(_), true) => "left out",
        }
    }

    fn print(&self, took: Duration) {
        let mut folders: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for outcome in &self.outcomes {
            let folder = outcome.script.rsplit_once('/').map_or("", |(folder, _)| folder);
            let (passed, all) = folders.entry(folder).or_default();
            *passed += usize::from(outcome.failure.is_none());
            *all += 1;
            let reason = self.left_out.get(&outcome.script).or(outcome.failure.as_ref());
            match self.word(outcome) {
                "passed" => {}
                "left out" => println!("left out  {}: {}", outcome.script, reason.map_or("", |it| it)),
                word => {
                    let failure = outcome.failure.as_ref().or(reason);
                    println!("{word}  {}: {}", outcome.script, failure.map_or("", |it| it));
                }
            }
        }
        println!();
        for (folder, (passed, all)) in &folders {
            println!("{passed:4} of {all:3}  {folder}");
        }
        let passed = self.outcomes.iter().filter(|outcome| outcome.failure.is_none()).count();
        println!("{passed:4} of {:3}  in all, in {:.1} s", self.outcomes.len(), took.as_secs_f64());
    }

    fn json(&self) -> serde_json::Value {
        let scripts = self.outcomes.iter().map(|outcome| {
            json!({
                "script": outcome.script,
                "result": self.word(outcome),
                "failure": outcome.failure,
                "reason": self.left_out.get(&outcome.script),
            })
        });
        let passed = self.outcomes.iter().filter(|outcome| outcome.failure.is_none()).count();
        json!({ "passed": passed, "scripts": scripts.collect::<Vec<_>>() })
    }

    /// Whether all is as the list of scripts that are left out has it.
    fn outcome(&self) -> Result<(), Failure> {
        let mut wrong = Vec::new();
        for outcome in &self.outcomes {
            match self.word(outcome) {
                "FAILED" => wrong.push(format!("{} failed", outcome.script)),
                "passed though left out" => {
                    wrong.push(format!("{} passes: take it off {LEFT_OUT}", outcome.script));
                }
                _ => {}
            }
        }
        let is_there = |script: &String| self.outcomes.iter().any(|outcome| outcome.script == *script);
        let gone = self.left_out.keys().filter(|script| self.is_whole && !is_there(script));
        wrong.extend(gone.map(|script| format!("{script}, which {LEFT_OUT} names, is not in the checkout")));
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong.join("\n")),
        }
    }
}
