//! Cores, and threads that are kept on one.

use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores of this process, before its first thread was pinned.
static ALL: OnceLock<CpuSet> = OnceLock::new();

/// A core that this process may not use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("core {core} is not possible: this process may use {}", self.usable_list())]
pub struct UnusableCore {
    /// The number of the core that was asked for.
    pub core: usize,
    /// Those it may use.
    pub usable: Vec<usize>,
}

impl UnusableCore {
    /// The cores that it may use, with commas between them.
    pub fn usable_list(&self) -> String {
        let usable: Vec<String> = self.usable.iter().map(usize::to_string).collect();
        usable.join(",")
    }
}

/// The cores that the calling thread, and those it starts, may run on.
pub fn usable() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect()
}

/// Checks that this process may use all of `cores`.
///
/// # Errors
/// The first that it may not use.
pub fn check(cores: &[usize]) -> Result<(), UnusableCore> {
    let usable = usable();
    match cores.iter().find(|core| !usable.contains(core)) {
        None => Ok(()),
        Some(&core) => Err(UnusableCore { core, usable }),
    }
}

/// Keeps the calling thread on one core; `false` if the system refuses.
pub fn pin(core: usize) -> bool {
    if core >= CpuSet::MAX_CPU {
        return false;
    }
    if ALL.get().is_none()
        && let Ok(all) = sched_getaffinity(None)
    {
        let _ = ALL.set(all); // another thread was first
    }
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).is_ok()
}

/// Lets the calling thread run on any core of this process again: a thread that a pinned
/// one starts is pinned as well.
pub fn unpin() {
    if let Some(all) = ALL.get() {
        let _ = sched_setaffinity(None, all); // it runs where it did
    }
}

/// Does some work on a core: memory that is touched first then is of that core's node.
/// Where the core cannot be had, the work is done where the thread is.
pub fn on<T>(core: usize, work: impl FnOnce() -> T) -> T {
    let before = sched_getaffinity(None);
    pin(core);
    let done = work();
    if let Ok(before) = before {
        let _ = sched_setaffinity(None, &before); // the thread may run where it could before
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_is_not_there_is_refused_by_name() {
        let usable = usable();
        assert_eq!(check(&usable), Ok(()));
        let core = CpuSet::MAX_CPU - 1;
        assert!(!usable.contains(&core), "a machine with {core} cores");
        let refused = check(&[usable[0], core]).expect_err("it is not there");
        assert_eq!(refused, UnusableCore { core, usable: usable.clone() });
        assert!(!pin(core) && !pin(CpuSet::MAX_CPU) && super::usable() == usable);
    }

    #[test]
    fn a_thread_is_on_its_core_and_free_again_after_work_on_another() {
        let usable = usable();
        let &last = usable.last().expect("a core");
        let there = on(last, super::usable);
        assert_eq!((there, super::usable()), (vec![last], usable.clone()));
        let pinned = std::thread::spawn(move || {
            let pinned = pin(last).then(super::usable);
            let started = std::thread::spawn(|| (super::usable(), unpin(), super::usable()));
            (pinned, started.join().expect("no panic"))
        });
        let (pinned, (before, (), after)) = pinned.join().expect("no panic");
        assert_eq!((pinned, before, after), (Some(vec![last]), vec![last], usable.clone()));
        assert_eq!(super::usable(), usable, "other threads run where they did");
    }
}
