//! The instructions that the driver and the router spend on a packet, counted by
//! callgrind: the same every time on one compiler, so a regression of the hot path
//! fails the test command where a timed test would only flicker.

use std::process::{Command, Stdio};

use crate::lab::programs;
use crate::step::{Failure, root, run, target};

/// What each workload may take at batch 32: what it takes, and about a twelfth more
/// for the compiler's moods.
const DRIVER: [(&str, f64); 4] = [("rx", 99.0), ("tx", 90.0), ("fwd", 125.0), ("touch", 134.0)];
/// As above, from memory.
const ROUTER: [(&str, f64); 4] = [("source", 163.0), ("forward", 194.0), ("null8", 185.0), ("router", 798.0)];

/// Counts, and compares with the limits.
pub fn check() -> Result<(), Failure> {
    if !valgrind()? {
        println!("==> instructions: skipped, there is no valgrind; install it: apt-get install valgrind");
        return Ok(());
    }
    run("build for counting", &mut programs())?;
    let driver = ["--device", "82599", "--cores", "one", "--ring", "512"];
    compare("driver", &driver, &DRIVER)?;
    compare("graph", &["--from", "memory", "--windows", "1", "--packets", "200000"], &ROUTER)
}

/// Runs a benchmark with some arguments and holds what it counts against limits.
fn compare(bench: &str, arguments: &[&str], limits: &[(&str, f64)]) -> Result<(), Failure> {
    let json = root().join(format!("target/instructions-{bench}.json"));
    let mut command = Command::new(target().join("release/ixora"));
    command
        .args(["bench", bench])
        .args(arguments)
        .current_dir(root())
        .args(["--batch", "32", "--instructions", "--json"])
        .arg(&json);
    run(&format!("instructions per packet, {bench}"), &mut command)?;
    let text = std::fs::read_to_string(&json).map_err(|e| format!("{}: {e}", json.display()))?;
    let report: serde_json::Value =
        serde_json::from_str(&text).map_err(|e| format!("{}: {e}", json.display()))?;
    for (workload, limit) in limits {
        let rows = report["rows"].as_array().into_iter().flatten();
        let mut counts =
            rows.filter(|row| row["workload"] == *workload).map(|row| &row["instructions_per_packet"]);
        match counts.next().and_then(serde_json::Value::as_f64) {
            Some(count) if count <= *limit => println!("{workload}: {count:.1} of {limit} allowed"),
            Some(count) => {
                return Err(format!(
                    "{workload} takes {count:.1} instructions a packet, {limit} are allowed: see what changed with \
                     `ixora bench {bench} --instructions`, or raise the limit in xtask/src/instructions.rs and say why"
                ));
            }
            None => return Err(format!("the benchmark counted no instructions for {workload}")),
        }
    }
    Ok(())
}

/// Whether valgrind can be run; where CI has root, it is installed.
fn valgrind() -> Result<bool, Failure> {
    let works = || {
        Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success())
    };
    if works() {
        return Ok(true);
    }
    if std::env::var_os("CI").is_none() {
        return Ok(false);
    }
    run(
        "install valgrind",
        Command::new("apt-get")
            .args(["install", "--yes", "--no-install-recommends", "valgrind"])
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null()),
    )?;
    if works() { Ok(true) } else { Err("valgrind was installed but does not run".to_owned()) }
}
