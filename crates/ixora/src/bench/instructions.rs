//! Instructions per packet by valgrind's callgrind: the same every time, so a
//! regression shows where a time would be lost in noise.

use std::process::{Command, Stdio};

use ::bench::Setting;
use ::bench::overlay::Setup;
use ::bench::tcp::Shape;

use crate::Failure;

/// Packets under callgrind, which runs fifty times slower.
const PACKETS: u64 = 20_000;

/// What happens inside the driver's calls, the application's loop around them
/// included.
pub fn count(setting: &Setting) -> Result<f64, Failure> {
    let [batch, ring, queues, size] =
        [setting.batch, setting.ring, setting.queues, setting.size].map(|number| number.to_string());
    callgrind(
        "*Rig*driver_calls*",
        &[
            &["bench", "driver", "--device", setting.device.name(), "--workload", setting.workload.name()],
            &["--completion", setting.completion.name(), "--batch", &batch, "--ring", &ring],
            &["--queues", &queues, "--size", &size],
        ],
    )
}

/// What happens while a router runs, its source included.
pub fn count_router(workload: &str, batch: usize) -> Result<f64, Failure> {
    let batch = batch.to_string();
    callgrind(
        "*run_measured*",
        &[&["bench", "graph", "--from", "memory", "--workload", workload, "--batch", &batch]],
    )
}

/// What the overlay does to send a packet, and to receive it.
pub fn count_overlay(setup: &Setup) -> Result<[f64; 2], Failure> {
    let (entries, size) = (setup.entries.to_string(), setup.size.to_string());
    let row: &[&str] =
        &["bench", "overlay", "--protocol", setup.subject.protocol, "--entries", &entries, "--size", &size];
    Ok([callgrind("*send_by_overlay*", &[row])?, callgrind("*receive_by_overlay*", &[row])?])
}

/// What happens in a server's turns for each request over TCP: driver, stack and echo.
pub fn count_tcp(shape: Shape) -> Result<f64, Failure> {
    let (connections, size) = (shape.connections.to_string(), shape.size.to_string());
    let messages = shape.messages.map_or("open".to_owned(), |messages| messages.to_string());
    let row: &[&str] =
        &["bench", "tcp", "--connections", &connections, "--messages", &messages, "--size", &size];
    callgrind("*counted_turn*", &[row])
}

/// Runs this program with some arguments under callgrind, which counts inside one
/// function; instructions for each of [`PACKETS`].
fn callgrind(function: &str, arguments: &[&[&str]]) -> Result<f64, Failure> {
    let program =
        std::env::current_exe().map_err(|e| Failure::new(format!("cannot find this program: {e}")))?;
    // A directory of our own: in one that all may write to, its name could be a link.
    let folder = tempfile::tempdir().map_err(|e| Failure::new(format!("cannot make a directory: {e}")))?;
    let output = folder.path().join("callgrind");
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--toggle-collect={function}"))
        .arg(format!("--callgrind-out-file={}", output.display()))
        .arg(program)
        .args(arguments.concat())
        .args(["--only-packets", &PACKETS.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = command.status().map_err(|error| {
        Failure::new(format!("cannot run valgrind: {error}")).fix("install it: apt-get install valgrind")
    })?;
    let profile = std::fs::read_to_string(&output).unwrap_or_default();
    let total = profile
        .lines()
        .find_map(|line| line.strip_prefix("totals: "))
        .and_then(|n| n.trim().parse::<f64>().ok());
    match total {
        Some(total) if status.success() && total > 0.0 => Ok(total / PACKETS as f64),
        _ => Err(Failure::new(format!("callgrind counted nothing ({status})"))),
    }
}
