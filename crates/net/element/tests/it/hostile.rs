//! Hostile configurations, built and run: each ends soon, within bounds.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use crate::Rig;

/// Kibibytes of memory in use by this process.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// This thread's time on processors: others may use them too.
fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn error(config: &str) -> String {
    let start = cpu();
    let error =
        Rig::new(config).err().unwrap_or_else(|| panic!("built: {}", &config[..config.len().min(99)]));
    assert!(cpu() - start < Duration::from_secs(3), "{:?}", cpu() - start);
    error
}

/// A million would take a sixth of a minute and 1.5 GB: fewer show the same.
#[test]
fn many_elements_are_built_and_run() {
    let (start, before) = (cpu(), memory());
    let text = format!(
        "i :: InfiniteSource(LIMIT 3, STOP true) {} -> c :: Counter -> Discard",
        "-> Null".repeat(160_000)
    );
    let mut rig = Rig::new(&text).unwrap();
    let (built, used) = (cpu() - start, memory() - before);
    rig.router.lanes_mut()[0].step(1_000);
    assert_eq!(rig.read("c.count"), "3", "packets go all the way");
    assert!(used < 240_000, "{used} KiB");
    assert!(built < Duration::from_millis(1600), "{built:?} of processor time");
}

#[test]
fn a_long_chain_is_pulled_through_without_a_stack() {
    let text = format!(
        "i :: InfiniteSource(LIMIT 3) -> Queue {} -> c :: Counter -> d :: Discard",
        "-> Null".repeat(100_000)
    );
    let mut rig = Rig::new(&text).unwrap();
    rig.router.lanes_mut()[0].step(20);
    assert_eq!(rig.read("c.count"), "3");
}

/// 20,000 queues that one element pulls from, through as many schedulers.
#[test]
fn a_tree_of_schedulers_is_searched_once() {
    let mut text = String::from("r :: RoundRobinSched -> d :: Discard;\n");
    for i in 0..20_000 {
        text += &format!("Idle -> Queue(1) -> RoundRobinSched -> [{i}] r;\n");
    }
    let start = cpu();
    let mut rig = Rig::new(&text).unwrap();
    assert!(cpu() - start < Duration::from_secs(5), "{:?}", cpu() - start);
    rig.router.lanes_mut()[0].step(20);
    assert_eq!(rig.read("d.count"), "0");
}

#[test]
fn ports_that_nobody_can_mean_are_told() {
    assert!(
        error("t :: Tee; Idle -> t; t[4000000000] -> Discard").contains("port number 4000000000 too large")
    );
    assert!(error("t :: Tee; Idle -> t; t[65535] -> Discard").contains("unused"));
    assert!(error("q :: Queue; Idle -> [60000] q -> Discard").contains("too many inputs"));
    assert!(error("Idle -> Tee(4000000000) -> Discard").len() < 2_000);
    assert!(error("s :: Switch(4000000000); Idle -> s -> Discard").len() < 2_000);
}

/// 65,536 outputs of which all but one are not connected: not as many problems.
#[test]
fn a_hole_of_ports_is_not_a_flood_of_problems() {
    let problems = error("c :: Classifier(-); Idle -> c; c[65535] -> Discard;");
    assert!(problems.lines().count() < 200, "{} lines", problems.lines().count());
}

#[test]
fn numbers_beyond_reason_are_refused_or_bounded() {
    for text in [
        "Idle -> Queue(99999999999999999999) -> Discard",
        "InfiniteSource(LENGTH 4000000000) -> Discard",
        "Idle -> Strip(99999999999999999999) -> Discard",
        "RatedSource(RATE -1) -> Discard",
        "StaticThreadSched(d 99999999999999999999); Idle -> d :: Discard",
        "Idle -> Paint(256) -> Discard",
    ] {
        assert!(!error(text).is_empty(), "{text}");
    }
    // Bounded: these run.
    for text in [
        "InfiniteSource(BURST 2000000000, LIMIT 9) -> d :: Discard",
        "i :: InfiniteSource(LIMIT 9) -> Queue(4000000000) -> d :: Discard(BURST 4000000)",
    ] {
        let mut rig = Rig::new(text).unwrap_or_else(|problems| panic!("{text}: {problems}"));
        rig.router.lanes_mut()[0].step(50);
        assert_eq!(rig.read("d.count"), "9", "{text}");
    }
}

/// Packets that are sent round for ever leave time for others.
#[test]
fn a_circle_does_not_stop_the_others() {
    let mut rig = Rig::new(
        "i :: InfiniteSource(LIMIT 10) -> n :: Null -> n2 :: Null -> n;
         j :: InfiniteSource(LIMIT 1000, BURST 1) -> c :: Counter -> Discard",
    )
    .unwrap();
    rig.router.lanes_mut()[0].step(1_100);
    assert_eq!(rig.read("c.count"), "1000");
    // A tee in a circle doubles until there are no buffers left, and no further.
    let mut rig =
        Rig::new("i :: InfiniteSource(LIMIT 1) -> t :: Tee(2) -> n :: Null -> t; t[1] -> n").unwrap();
    rig.router.lanes_mut()[0].step(100);
}
