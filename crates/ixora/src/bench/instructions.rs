//! Instructions per packet by valgrind's callgrind: the same every time, so a
//! regression shows where a time would drown in noise.

use std::process::{Command, Stdio};

use super::{CompletionName, Setting};
use crate::Failure;

/// Packets under callgrind, which runs fifty times slower.
const PACKETS: u64 = 20_000;

/// Runs this program under callgrind and counts what happens inside the driver's
/// calls, the application's loop around them included.
pub fn count(setting: &Setting) -> Result<f64, Failure> {
    let program =
        std::env::current_exe().map_err(|e| Failure::new(format!("cannot find this program: {e}")))?;
    let output = std::env::temp_dir().join(format!("ixora-callgrind-{}", std::process::id()));
    let workload = setting.workload.name();
    let completion = match setting.completion {
        CompletionName::Report => "report",
        CompletionName::Head => "head",
    };
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--toggle-collect=*Rig*driver_calls*", "--quiet"])
        .arg(format!("--callgrind-out-file={}", output.display()))
        .arg(program)
        .args(["bench", "driver", "--device", setting.device.name()])
        .args(["--workload", workload, "--completion", completion])
        .args(["--batch", &setting.batch.to_string(), "--ring", &setting.ring.to_string()])
        .args(["--size", &setting.size.to_string(), "--only-packets", &PACKETS.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = command.status().map_err(|error| {
        Failure::new(format!("cannot run valgrind: {error}")).fix("install it: apt-get install valgrind")
    })?;
    let profile = std::fs::read_to_string(&output).unwrap_or_default();
    let _ = std::fs::remove_file(&output);
    let total = profile
        .lines()
        .find_map(|line| line.strip_prefix("totals: "))
        .and_then(|n| n.trim().parse::<f64>().ok());
    match total {
        Some(total) if status.success() && total > 0.0 => Ok(total / PACKETS as f64),
        _ => Err(Failure::new(format!("callgrind counted nothing ({status})"))),
    }
}
