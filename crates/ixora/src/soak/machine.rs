//! What processes hold: descriptors, threads, memory, files, hugepages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait, waitpid};

use super::pause;

/// Resident memory that a process may gain without it being a leak, in KiB: what an
/// allocator keeps.
const KEPT: u64 = 16 * 1024;
/// Mappings that it may gain: an allocator's arenas and stacks that are kept.
const KEPT_MAPPINGS: usize = 24;
/// How long processes and memory may take to go.
const GOING: Duration = Duration::from_secs(5);

/// What one process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Open descriptors; `None` where they may not be seen.
    descriptors: Option<usize>,
    threads: usize,
    mappings: Option<usize>,
    resident_kib: u64,
}

impl Footprint {
    /// Of a process; `None` when it is gone.
    pub fn of(id: u32) -> Option<Footprint> {
        let place = PathBuf::from(format!("/proc/{id}"));
        let status = fs::read_to_string(place.join("status")).ok()?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        let maps = fs::read_to_string(place.join("maps")).ok();
        Some(Footprint {
            // Not the one that reads the folder.
            descriptors: fs::read_dir(place.join("fd"))
                .ok()
                .map(|all| all.count() - usize::from(id == std::process::id())),
            threads: fs::read_dir(place.join("task")).ok()?.count(),
            mappings: maps.map(|maps| maps.lines().count()),
            resident_kib: resident.unwrap_or(0),
        })
    }

    /// What it holds more than before, in words.
    pub fn grown_from(&self, before: &Footprint) -> Option<String> {
        let mut grown = Vec::new();
        let mut add = |what: &str, was: usize, is: usize, slack: usize| {
            if is > was + slack {
                grown.push(format!("{is} {what} where there were {was}"));
            }
        };
        let (was, is) = (before.descriptors.unwrap_or(0), self.descriptors.unwrap_or(0));
        add("open descriptors", was, is, 0);
        add("threads", before.threads, self.threads, 0);
        let (was, is) = (before.mappings.unwrap_or(0), self.mappings.unwrap_or(0));
        add("memory mappings", was, is, KEPT_MAPPINGS);
        let (was, is) = (before.resident_kib, self.resident_kib);
        add("KiB of memory", was as usize, is as usize, KEPT as usize);
        (!grown.is_empty()).then(|| grown.join(", "))
    }
}

/// What this process and the machine hold, to compare with later.
#[derive(Debug)]
pub struct Machine {
    own: Footprint,
    hugepages: u64,
    shared: BTreeSet<PathBuf>,
}

impl Machine {
    /// As it is now.
    pub fn now() -> Option<Machine> {
        let own = Footprint::of(std::process::id())?;
        Some(Machine { own, hugepages: free_hugepages(), shared: shared_files() })
    }

    /// What is left since then, in words: nothing, when all is well. What goes in a
    /// moment is waited for.
    pub fn left_since(before: &Machine) -> Vec<String> {
        let end = Instant::now() + GOING;
        loop {
            let left = Machine::now().map_or(vec![], |now| now.more_than(before));
            if left.is_empty() || Instant::now() >= end {
                return left;
            }
            pause(Duration::from_millis(50));
        }
    }

    fn more_than(&self, before: &Machine) -> Vec<String> {
        let mut left: Vec<String> = Vec::new();
        left.extend(self.own.grown_from(&before.own).map(|grown| format!("this process: {grown}")));
        if self.hugepages < before.hugepages {
            left.push(format!("{} hugepages are free where {} were", self.hugepages, before.hugepages));
        }
        left.extend(self.shared.difference(&before.shared).map(|path| format!("{} is left", path.display())));
        left
    }
}

/// Free hugepages of the usual size (proc(5), `HugePages_Free`).
fn free_hugepages() -> u64 {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = memory.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
}

/// Files of ours where processes share memory: `/dev/shm` and mounted hugetlbfs.
fn shared_files() -> BTreeSet<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, kind) = (words.next()?, words.next()?);
        (kind == "hugetlbfs").then(|| PathBuf::from(place))
    });
    let entries = mounted.chain([PathBuf::from("/dev/shm")]).filter_map(|place| fs::read_dir(place).ok());
    let ours =
        entries.flatten().flatten().filter(|file| file.file_name().to_string_lossy().contains("ixora"));
    ours.map(|file| file.path()).collect()
}

/// Waits for all child processes, also those of children that have ended; what of them
/// is still there after a while is named and killed.
pub fn reap() -> Vec<String> {
    let end = Instant::now() + GOING;
    loop {
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        let children = children();
        if children.is_empty() {
            return vec![];
        }
        if Instant::now() >= end {
            return children.into_iter().map(end_child).collect();
        }
        pause(Duration::from_millis(5));
    }
}

fn end_child(id: i32) -> String {
    let command = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    if let Some(id) = Pid::from_raw(id) {
        let _ = kill_process(id, Signal::KILL);
        let _ = waitpid(Some(id), WaitOptions::empty());
    }
    format!("process {id} is left: {}", command.trim())
}

/// The ids of this process's children.
fn children() -> Vec<i32> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// All files below a directory.
pub fn files(place: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        found.push(entry.path());
        if is_directory {
            found.extend(files(&entry.path()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footprint() -> Footprint {
        Footprint { descriptors: Some(5), threads: 2, mappings: Some(100), resident_kib: 10_000 }
    }

    #[test]
    fn a_descriptor_or_a_thread_more_is_a_leak() {
        let before = footprint();
        assert_eq!(before.grown_from(&before), None);
        let descriptor = Footprint { descriptors: Some(6), ..footprint() };
        assert_eq!(
            descriptor.grown_from(&before).unwrap_or_default(),
            "6 open descriptors where there were 5"
        );
        let thread = Footprint { threads: 3, ..footprint() };
        assert_eq!(thread.grown_from(&before).unwrap_or_default(), "3 threads where there were 2");
        assert_eq!(before.grown_from(&thread), None, "less is none");
    }

    #[test]
    fn what_an_allocator_keeps_is_none() {
        let before = footprint();
        let more = Footprint { resident_kib: 10_000 + KEPT, mappings: Some(120), ..footprint() };
        assert_eq!(more.grown_from(&before), None);
        let leak = Footprint { resident_kib: 10_001 + KEPT, ..footprint() };
        assert!(leak.grown_from(&before).is_some_and(|text| text.contains("KiB")));
        let maps = Footprint { mappings: Some(125), ..footprint() };
        assert!(maps.grown_from(&before).is_some_and(|text| text.contains("mappings")));
    }

    #[test]
    fn hugepages_and_shared_files_are_missed() {
        let machine = |hugepages, names: &[&str]| {
            let shared = names.iter().map(PathBuf::from).collect();
            Machine { own: footprint(), hugepages, shared }
        };
        let before = machine(4, &["/dev/shm/ixora-a"]);
        assert_eq!(machine(4, &[]).more_than(&before), Vec::<String>::new());
        assert_eq!(machine(3, &[]).more_than(&before), ["3 hugepages are free where 4 were"]);
        assert_eq!(machine(5, &["/dev/shm/ixora-b"]).more_than(&before), ["/dev/shm/ixora-b is left"]);
    }
}
