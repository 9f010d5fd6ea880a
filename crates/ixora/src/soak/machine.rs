//! What processes hold: descriptors, threads, memory, files, hugepages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait, waitpid};

use super::pause;

/// What a process may gain without it being a leak.
#[derive(Clone, Copy, Debug)]
pub struct Slack {
    descriptors: usize,
    mappings: usize,
    resident_kib: u64,
}

impl Slack {
    /// What an allocator keeps: memory, arenas and stacks.
    pub const KEPT: Slack = Slack { descriptors: 0, mappings: 24, resident_kib: 16 * 1024 };
    /// A router's packet memory as well, in files without names: pages of it are
    /// touched, and files of it come and go, as configurations overlap.
    pub const POOLS: Slack = Slack { descriptors: 3, mappings: 24, resident_kib: 128 * 1024 };
}

/// Turns on a core after which a thread has looked at all it has to do.
const TURNS: u64 = 5;
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
    hugepages_kib: u64,
}

impl Footprint {
    /// Of a process; `None` when it is gone.
    pub fn of(id: u32) -> Option<Footprint> {
        let place = PathBuf::from(format!("/proc/{id}"));
        let status = fs::read_to_string(place.join("status")).ok()?;
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
        };
        let maps = fs::read_to_string(place.join("maps")).ok();
        Some(Footprint {
            // Not the one that reads the folder.
            descriptors: fs::read_dir(place.join("fd"))
                .ok()
                .map(|all| all.count() - usize::from(id == std::process::id())),
            threads: fs::read_dir(place.join("task")).ok()?.count(),
            mappings: maps.map(|maps| maps.lines().count()),
            resident_kib: kib("VmRSS:"),
            hugepages_kib: kib("HugetlbPages:"),
        })
    }

    /// The more of both, of each.
    pub fn most(self, other: Footprint) -> Footprint {
        Footprint {
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
            mappings: self.mappings.max(other.mappings),
            resident_kib: self.resident_kib.max(other.resident_kib),
            hugepages_kib: self.hugepages_kib.max(other.hugepages_kib),
        }
    }

    /// What it holds more than before, in words.
    pub fn grown_from(&self, before: &Footprint, slack: Slack) -> Option<String> {
        let mut grown = Vec::new();
        let mut add = |what: &str, was: usize, is: usize, slack: usize| {
            if is > was + slack {
                grown.push(format!("{is} {what} where there were {was}"));
            }
        };
        let (was, is) = (before.descriptors.unwrap_or(0), self.descriptors.unwrap_or(0));
        add("open descriptors", was, is, slack.descriptors);
        add("threads", before.threads, self.threads, 0);
        let (was, is) = (before.mappings.unwrap_or(0), self.mappings.unwrap_or(0));
        add("memory mappings", was, is, slack.mappings);
        let (was, is) = (before.resident_kib, self.resident_kib);
        add("KiB of memory", was as usize, is as usize, slack.resident_kib as usize);
        let (was, is) = (before.hugepages_kib, self.hugepages_kib);
        add("KiB of hugepages", was as usize, is as usize, 0);
        (!grown.is_empty()).then(|| grown.join(", "))
    }
}

/// What this process and the machine hold, to compare with later.
#[derive(Debug)]
pub struct Machine {
    own: Footprint,
    /// Hugepages in use that no process has mapped.
    hugepages: u64,
    shared: BTreeSet<PathBuf>,
}

impl Machine {
    /// As it is now.
    pub fn now() -> Option<Machine> {
        let own = Footprint::of(std::process::id())?;
        Some(Machine { own, hugepages: unmapped_hugepages(), shared: shared_files() })
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
        left.extend(
            self.own.grown_from(&before.own, Slack::KEPT).map(|grown| format!("this process: {grown}")),
        );
        if self.hugepages > before.hugepages {
            left.push(format!(
                "{} hugepages are left, {} were in use before",
                self.hugepages, before.hugepages
            ));
        }
        left.extend(self.shared.difference(&before.shared).map(|path| format!("{} is left", path.display())));
        left
    }
}

/// Hugepages of the usual size that are in use (proc(5), `HugePages_Total` and
/// `HugePages_Free`) while no process has any mapped: then they are in files that
/// somebody left. Others may use hugepages beside us, so that more cannot be told.
fn unmapped_hugepages() -> u64 {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let number = |name: &str| -> u64 {
        let line = memory.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
    };
    let used = number("HugePages_Total:").saturating_sub(number("HugePages_Free:"));
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut users = ids.filter_map(Footprint::of).filter(|process| process.hugepages_kib > 0);
    if used == 0 || users.next().is_some() { 0 } else { used }
}

/// How often each thread of a process had a core, and whether it sleeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuTimes(Vec<(u64, bool)>);

impl CpuTimes {
    /// Of a process (proc(5), `schedstat`: the third number; `stat`: the state).
    pub fn of(id: u32) -> CpuTimes {
        let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
        let turns = threads.filter_map(|thread| {
            let text = |name: &str| fs::read_to_string(thread.path().join(name)).ok();
            let count = text("schedstat")?.split_whitespace().nth(2)?.parse().ok()?;
            let stat = text("stat")?;
            let state = stat.rsplit(')').next()?.trim_start().chars().next()?;
            Some((count, state == 'S'))
        });
        CpuTimes(turns.collect())
    }

    /// Whether each thread had time since then to see what there is to do, or sleeps
    /// until there is something.
    pub fn all_ran_since(&self, then: &CpuTimes) -> bool {
        let ran = |((now, sleeps), (then, _)): (&(u64, bool), &(u64, bool))| *sleeps || *now >= then + TURNS;
        self.0.len() == then.0.len() && self.0.iter().zip(&then.0).all(ran)
    }
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
        Footprint {
            descriptors: Some(5),
            threads: 2,
            mappings: Some(100),
            resident_kib: 10_000,
            hugepages_kib: 0,
        }
    }

    fn grown(now: &Footprint) -> String {
        now.grown_from(&footprint(), Slack::KEPT).unwrap_or_default()
    }

    #[test]
    fn a_descriptor_a_thread_or_a_hugepage_more_is_a_leak() {
        assert_eq!(grown(&footprint()), "");
        let descriptor = Footprint { descriptors: Some(6), ..footprint() };
        assert_eq!(grown(&descriptor), "6 open descriptors where there were 5");
        let thread = Footprint { threads: 3, ..footprint() };
        assert_eq!(grown(&thread), "3 threads where there were 2");
        assert_eq!(footprint().grown_from(&thread, Slack::KEPT), None, "less is none");
        let page = Footprint { hugepages_kib: 2048, ..footprint() };
        assert_eq!(grown(&page), "2048 KiB of hugepages where there were 0");
    }

    #[test]
    fn what_an_allocator_keeps_is_none() {
        let kept = Slack::KEPT.resident_kib;
        let more = Footprint { resident_kib: 10_000 + kept, mappings: Some(120), ..footprint() };
        assert_eq!(grown(&more), "");
        let leak = Footprint { resident_kib: 10_001 + kept, ..footprint() };
        assert!(grown(&leak).contains("KiB of memory"));
        let maps = Footprint { mappings: Some(125), ..footprint() };
        assert!(grown(&maps).contains("mappings"));
    }

    #[test]
    fn hugepages_and_shared_files_are_missed() {
        let machine = |hugepages, names: &[&str]| {
            let shared = names.iter().map(PathBuf::from).collect();
            Machine { own: footprint(), hugepages, shared }
        };
        let before = machine(4, &["/dev/shm/ixora-a"]);
        assert_eq!(machine(4, &[]).more_than(&before), Vec::<String>::new());
        assert_eq!(machine(5, &[]).more_than(&before), ["5 hugepages are left, 4 were in use before"]);
        assert_eq!(machine(3, &["/dev/shm/ixora-b"]).more_than(&before), ["/dev/shm/ixora-b is left"]);
    }

    #[test]
    fn a_thread_that_had_no_core_has_seen_nothing() {
        let turns = |all: &[(u64, bool)]| CpuTimes(all.to_vec());
        let then = turns(&[(10, false), (3, true)]);
        assert!(turns(&[(10 + TURNS, false), (3, true)]).all_ran_since(&then));
        assert!(!turns(&[(11, false), (3, true)]).all_ran_since(&then), "it waits for a core");
        assert!(!turns(&[(20, false)]).all_ran_since(&then), "a thread is gone");
        assert!(CpuTimes::of(std::process::id()).0.iter().any(|(count, _)| *count > 0));
    }
}
