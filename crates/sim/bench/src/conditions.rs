//! What a figure was measured on.

use std::fs;

use serde::Serialize;

/// The machine, as far as it matters.
#[derive(Debug, Clone, Serialize)]
pub struct Conditions {
    /// The processor's name.
    pub cpu: String,
    /// Cores this process may use.
    pub cores: usize,
    /// Ticks of the time stamp counter per second.
    pub tsc_hz: u64,
    /// The kernel's release.
    pub kernel: String,
    /// Whether a hypervisor is below.
    pub virtualised: bool,
    /// Whether there are hugepages to use.
    pub hugepages: bool,
    /// This program's version.
    pub version: &'static str,
}

impl Conditions {
    /// Looks around.
    pub fn now() -> Conditions {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map_or("unknown", |(_, value)| value.trim()).to_owned()
        };
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let free = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Conditions {
            cpu: field("model name"),
            cores: cores(),
            tsc_hz: bus::tsc::hz(),
            kernel: kernel.trim().to_owned(),
            virtualised: field("flags").split(' ').any(|flag| flag == "hypervisor"),
            hugepages: free.is_some_and(|free| free.trim() != "0"),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// Cores this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
