//! What a figure was measured on.

use std::fs;
use std::path::Path;

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
    /// The first core's caches for data, the nearest first.
    pub caches: Vec<Cache>,
    /// This program's version.
    pub version: &'static str,
}

/// A cache, as the system tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// 1 for the nearest.
    pub level: u8,
    /// Its bytes. Other cores may share them.
    pub bytes: u64,
}

impl Conditions {
    /// Reads what this machine and its processor tell of themselves.
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
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// The processor and the kernel, in a line.
    pub fn processor(&self) -> String {
        let virtualised = if self.virtualised { ", virtualised" } else { "" };
        let ghz = self.tsc_hz as f64 / 1e9;
        format!("{} ({} cores{virtualised}), TSC {ghz:.3} GHz, Linux {}", self.cpu, self.cores, self.kernel)
    }

    /// The caches, in a line.
    pub fn caches(&self) -> String {
        let cache = |cache: &Cache| format!("L{} {:.3} MiB", cache.level, mib(cache.bytes));
        match self.caches[..] {
            [] => "caches not known".to_owned(),
            _ => self.caches.iter().map(cache).collect::<Vec<_>>().join(", "),
        }
    }
}

/// Bytes in MiB.
pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The caches for data that a folder of the kernel's describes.
fn caches(folder: &Path) -> Vec<Cache> {
    let mut caches: Vec<Cache> = (0..8)
        .filter_map(|index| {
            let read = |file: &str| fs::read_to_string(folder.join(format!("index{index}/{file}"))).ok();
            let level = read("level")?.trim().parse().ok()?;
            let kib: u64 = read("size")?.trim().strip_suffix('K')?.parse().ok()?;
            (read("type")?.trim() != "Instruction").then_some(Cache { level, bytes: kib << 10 })
        })
        .collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

/// Cores this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_for_data_are_read_and_those_for_code_are_not() {
        let place = tempfile::tempdir().expect("a directory");
        for (index, level, kind, size) in
            [(0, "1", "Data", "32K"), (1, "1", "Instruction", "64K"), (2, "2", "Unified", "1024K")]
        {
            let folder = place.path().join(format!("index{index}"));
            fs::create_dir(&folder).expect("a folder");
            for (file, text) in [("level", level), ("type", kind), ("size", size)] {
                fs::write(folder.join(file), format!("{text}\n")).expect("a file");
            }
        }
        let wanted = [Cache { level: 1, bytes: 32 << 10 }, Cache { level: 2, bytes: 1 << 20 }];
        assert_eq!(caches(place.path()), wanted);
        assert!(caches(&place.path().join("nothing")).is_empty());
    }
}
