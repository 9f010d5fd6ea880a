//! Packet buffers: there are as many as the elements may hold, and when there are no more,
//! packets are dropped by name where they are made or would wait, and nobody else's.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use graph::Options;
use graph::clock::{Clock, SIMULATION_START_NS};
use graph::plan::buffers;

use crate::{Rig, registry};

fn rig(config: &str, buffers: Option<usize>) -> Rig {
    let clock = Arc::new(Clock::simulated(SIMULATION_START_NS));
    let options = Options { clock, buffers, ..Options::default() };
    let flat = element::fixture::flatten(config, &registry()).unwrap();
    Rig(element::fixture::Rig::build(config, flat, &registry(), options).unwrap())
}

#[test]
fn a_queue_may_hold_what_it_says() {
    let config = "InfiniteSource(DATA x, LIMIT 30000, BURST 64, STOP true) -> q :: Queue(300000) -> Idle";
    let mut rig = rig(config, None);
    rig.run();
    assert_eq!((rig.read("q.length"), rig.printed()), ("30000".into(), String::new()));
    let held = rig.router.shared().plan.held(0);
    assert_eq!(held, 300_000);
    assert_eq!(buffers::limit(held, 1), 300_000 + buffers::BASE);
}

/// Where buffers are scarce a queue that holds few packets still takes some.
#[test]
fn a_full_queue_starves_no_other_queue() {
    let config = "a :: InfiniteSource(DATA x) -> q :: Queue(1000000) -> Idle;
         b :: InfiniteSource(DATA y, LIMIT 3200, BURST 32, ACTIVE false) -> r :: Queue(100) -> Unqueue(32)
         -> c :: Counter -> Discard; DriverManager(wait 1s)";
    let mut rig = rig(config, Some(20_000));
    rig.router.begin();
    rig.router.lanes_mut()[0].step(20_000);
    rig.write("b.active", "true").unwrap();
    rig.router.lanes_mut()[0].step(2000);
    assert_eq!((rig.read("b.count"), rig.read("c.count")), ("3200".into(), "3200".into()));
    let held: u64 = rig.read("q.length").parse().unwrap();
    assert!(held < 20_000 - 500, "buffers are kept for packets on their way: {held} wait");
}

/// A queue that nobody empties takes all there is but what others need on their way.
#[test]
fn packets_that_wait_starve_nobody() {
    let config = "a :: InfiniteSource(DATA x, BURST 64) -> q :: Queue(1000000) -> Idle;
         b :: InfiniteSource(DATA y, LIMIT 5000, STOP true) -> c :: Counter -> Discard";
    let mut rig = rig(config, Some(20_000));
    rig.run();
    assert_eq!(rig.read("c.count"), "5000");
    let held: u64 = rig.read("q.length").parse().unwrap();
    assert!((15_000..20_000).contains(&held), "{held} packets wait");
    let shared = rig.router.shared();
    let queue = shared.plan.find("q", None).unwrap();
    let drops = rig.router.lanes()[0].counters(queue).drops.clone();
    let names = shared.plan.elements[queue].kind.drops;
    let named = names.iter().position(|name| *name == "no packet buffers left").unwrap();
    assert!(drops[named] > 0 && rig.read("q.drops") == "0", "{drops:?}");
    let said = rig.printed();
    assert_eq!(said.matches("no packet buffers left").count(), 1, "{said}");
}
