//! The instructions that the driver, the router and the overlay spend on a packet, and a server on
//! a request over TCP, and those that a configuration takes for each of its elements, counted by
//! callgrind: the same every time on one compiler, so a regression of the hot path fails the test
//! command where a timed test would only flicker.

use std::fmt::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::lab::programs;
use crate::step::{Failure, root, run, target};

/// What each workload may take at batch 32: what it takes, and about a twelfth more, since
/// another version of the compiler makes other code.
const DRIVER: [(&str, f64); 6] =
    [("rx", 99.0), ("tx", 90.0), ("fwd", 125.0), ("touch", 134.0), ("fixed", 21.5), ("fixed-touch", 23.7)];
/// As above, from memory.
const ROUTER: [(&str, f64); 4] = [("source", 116.0), ("forward", 147.0), ("null8", 140.0), ("router", 529.0)];
/// As above, of the overlay with 1,000 entries, to send a packet and to receive it.
const OVERLAY: [(&str, [f64; 2]); 2] = [("ipip", [367.0, 624.0]), ("vxlan", [572.0, 887.0])];
/// Of an echo over TCP by connections, one request under way on each: driver, stack and echo. From
/// 513 connections on the stack reads ahead.
const TCP: [(&str, f64); 3] = [("1", 3650.0), ("64", 2850.0), ("1024", 3250.0)];

/// Of a configuration that is read, made and checked (`ixora click --check`), for each of its
/// elements, which have names. A million of them are to load in three seconds.
const LOADING: f64 = 13_600.0;
/// How many elements it has: at fifty times the instructions in a row something is quadratic.
const ELEMENTS: usize = 20_000;

/// Counts, and compares with the limits.
pub fn check() -> Result<(), Failure> {
    installed()?;
    run("build for counting", &mut programs())?;
    let workloads = DRIVER.map(|(workload, _)| workload).join(",");
    let driver = ["--workload", &workloads, "--device", "82599", "--cores", "one"];
    let report = count("driver", &[&driver[..], &["--ring", "512", "--batch", "32"]].concat())?;
    for (workload, limit) in DRIVER {
        compare(&report, ("workload", workload), "instructions_per_packet", limit)?;
    }
    let memory = ["--from", "memory", "--windows", "1", "--packets", "200000", "--batch", "32"];
    let report = count("graph", &memory)?;
    for (workload, limit) in ROUTER {
        compare(&report, ("workload", workload), "instructions_per_packet", limit)?;
    }
    let overlay = ["--protocol", "ipip,vxlan", "--entries", "1000", "--size", "64", "--windows", "1"];
    let report = count("overlay", &overlay)?;
    for (protocol, [send, receive]) in OVERLAY {
        compare(&report, ("protocol", protocol), "send_instructions", send)?;
        compare(&report, ("protocol", protocol), "receive_instructions", receive)?;
    }
    let connections = TCP.map(|(connections, _)| connections).join(",");
    let report = count("tcp", &["--connections", &connections, "--requests", "1000", "--windows", "1"])?;
    for (connections, limit) in TCP {
        compare(&report, ("connections", connections), "instructions_per_request", limit)?;
    }
    within("instructions to load an element", loading()?, LOADING)
}

/// A configuration of elements one behind the other that are declared by their names first.
fn named_elements() -> String {
    let mut text = "s :: InfiniteSource(LIMIT 1, STOP true);\n".to_owned();
    for n in 0..ELEMENTS {
        let _ = writeln!(text, "c{n} :: Counter;"); // a String takes all
    }
    text.push('s');
    for n in 0..ELEMENTS {
        let _ = write!(text, " -> c{n}");
    }
    text + " -> Discard;\n"
}

/// The instructions of looking at a configuration, for each of its elements.
fn loading() -> Result<f64, Failure> {
    let place = |name: &str| target().join(name);
    let (file, output) = (place("instructions-loading.click"), place("instructions-loading.callgrind"));
    std::fs::write(&file, named_elements()).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", output.display()))
        .arg(target().join("release/ixora"))
        .args(["click", "--check"])
        .arg(&file);
    run("instructions to load a configuration", &mut command)?;
    let profile = std::fs::read_to_string(&output).map_err(|e| format!("{}: {e}", output.display()))?;
    let total = profile.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse::<f64>().ok());
    total.map(|total| total / ELEMENTS as f64).ok_or_else(|| "callgrind counted nothing".to_owned())
}

/// Holds what was counted against a limit.
fn within(what: &str, count: f64, limit: f64) -> Result<(), Failure> {
    if count <= limit {
        println!("{what}: {count:.1} of {limit} allowed");
        return Ok(());
    }
    Err(format!(
        "{what}: {count:.1}, {limit} are allowed: see what changed, or raise the limit in \
         xtask/src/instructions.rs and say why"
    ))
}

/// Runs a benchmark with some arguments, counting: its report.
fn count(bench: &str, arguments: &[&str]) -> Result<Value, Failure> {
    let json = root().join(format!("target/instructions-{bench}.json"));
    let mut command = Command::new(target().join("release/ixora"));
    command
        .args(["bench", bench, "--instructions"])
        .args(arguments)
        .current_dir(root())
        .arg("--json")
        .arg(&json);
    run(&format!("instructions per packet, {bench}"), &mut command)?;
    let text = std::fs::read_to_string(&json).map_err(|e| format!("{}: {e}", json.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", json.display()))
}

/// Holds what was counted in a row against a limit.
fn compare(report: &Value, (column, row): (&str, &str), counted: &str, limit: f64) -> Result<(), Failure> {
    let is_number = |found: &Value| row.parse::<u64>().is_ok_and(|row| *found == row);
    let is = |found: &Value| found[column] == row || is_number(&found[column]);
    let mut rows = report["rows"].as_array().into_iter().flatten().filter(|found| is(found));
    match rows.next().and_then(|row| row[counted].as_f64()) {
        Some(count) => within(&format!("{column} {row}, {counted}"), count, limit),
        None => Err(format!("the benchmark counted no {counted} for {row}")),
    }
}

/// Why the test command leaves it out: there is no valgrind, and nobody asked for all.
pub fn why_not() -> Option<String> {
    let is_wanted = works() || std::env::var_os("CI").is_some();
    (!is_wanted).then(|| "there is no valgrind: apt-get install valgrind".to_owned())
}

/// Whether valgrind can be run.
fn works() -> bool {
    Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// Installs valgrind where CI, which has root, has none.
fn installed() -> Result<(), Failure> {
    if let Some(why) = why_not() {
        return Err(why);
    }
    if works() {
        return Ok(());
    }
    run(
        "install valgrind",
        Command::new("apt-get")
            .args(["install", "--yes", "--no-install-recommends", "valgrind"])
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null()),
    )?;
    if works() { Ok(()) } else { Err("valgrind was installed but does not run".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_by_its_name_or_number_and_held_against_its_limit() {
        let report = serde_json::json!({ "rows": [
            { "workload": "rx", "count": 10.0 },
            { "connections": 64, "count": 20.0 },
            { "connections": 6, "count": 30.0 },
        ] });
        let is_within = |place, limit| compare(&report, place, "count", limit).is_ok();
        assert!(is_within(("workload", "rx"), 10.0) && !is_within(("workload", "rx"), 9.0));
        assert!(is_within(("connections", "64"), 20.0) && !is_within(("connections", "64"), 19.0));
        assert!(!is_within(("connections", "1"), 99.0) && !is_within(("workload", "tx"), 99.0));
    }
}
