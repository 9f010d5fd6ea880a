//! Threads: no wake-up is lost between them, tasks have the turns they should, and
//! an element is run by the thread that the configuration says.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use graph::Options;
use graph::clock::{Clock, SIMULATION_START_NS};

use crate::Rig;

fn rig(config: &str, threads: usize) -> Rig {
    Rig::with_threads(config, threads).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Runs until a counter has counted what it should; whether it has.
fn run_until(rig: &mut Rig, handler: &str, wanted: u64) -> bool {
    let shared = rig.router.shared();
    let ended = std::thread::scope(|scope| {
        let router = &mut rig.router;
        let running = scope.spawn(|| router.run());
        let end = Instant::now() + Duration::from_secs(60);
        while !running.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        let ended = running.is_finished();
        shared.end();
        ended
    });
    ended && rig.read(handler) == wanted.to_string()
}

/// Small queues run empty and full all the time: each time somebody sleeps and must
/// be woken by another thread. One packet at a time: room for one is told as room.
#[test]
fn a_relay_of_four_threads_loses_no_wake_up() {
    let mut rig = rig(
        "src :: InfiniteSource(LIMIT 20000, BURST 1) -> Queue(7) -> a :: Unqueue(1) -> Queue(3) -> b :: Unqueue(1)
         -> Queue(11) -> u :: Unqueue(4) -> c :: Counter(COUNT_CALL 20000 stop) -> Discard;
         StaticThreadSched(src 0, a 1, b 2, u 3)",
        4,
    );
    assert!(run_until(&mut rig, "c.count", 20_000), "{} came through", rig.read("c.count"));
}

#[test]
fn many_threads_push_to_one_queue_and_many_pull_from_it() {
    let mut rig = rig(
        "s0 :: InfiniteSource(LIMIT 20000, BURST 3) -> q :: Queue(60000); s1 :: InfiniteSource(LIMIT 20000) -> q;
         s2 :: InfiniteSource(LIMIT 20000, BURST 32) -> q;
         q -> u1 :: Unqueue(2) -> c :: Counter(COUNT_CALL 60000 stop) -> Discard;
         q -> u2 :: Unqueue(5) -> c; q -> u3 :: Unqueue -> c;
         StaticThreadSched(s0 0, s1 1, s2 2, u1 3, u2 1, u3 0)",
        4,
    );
    assert!(run_until(&mut rig, "c.count", 60_000), "{} came through", rig.read("c.count"));
}

#[test]
fn a_scheduler_across_threads_wakes_who_pulls() {
    let mut rig = rig(
        "s0 :: InfiniteSource(LIMIT 10000, BURST 1) -> Queue(5) -> r :: RoundRobinSched;
         s1 :: InfiniteSource(LIMIT 10000, BURST 1) -> Queue(5) -> [1] r;
         r -> u :: Unqueue(3) -> c :: Counter(COUNT_CALL 20000 stop) -> Discard;
         StaticThreadSched(s0 0, s1 1, u 2)",
        3,
    );
    assert!(run_until(&mut rig, "c.count", 20_000), "{} came through", rig.read("c.count"));
}

#[test]
fn tickets_share_out_the_turns() {
    let mut rig = rig(
        "a :: InfiniteSource(BURST 1) -> x :: Counter -> Discard;
         b :: InfiniteSource(BURST 1) -> y :: Counter -> Discard;
         ScheduleInfo(b 3)",
        1,
    );
    assert_eq!((rig.read("a.tickets"), rig.read("b.tickets")), ("1024".into(), "3072".into()));
    let count = |rig: &mut Rig| [rig.read("x.count"), rig.read("y.count")].map(|n| n.parse::<f64>().unwrap());
    rig.router.lanes_mut()[0].step(4000);
    let [x, y] = count(&mut rig);
    assert!((2.9..3.1).contains(&(y / x)), "{x} and {y}");
    rig.write("a.tickets", "6144").unwrap();
    rig.router.lanes_mut()[0].step(4000);
    let [more_x, more_y] = count(&mut rig);
    let ratio = (more_x - x) / (more_y - y);
    assert!((1.9..2.1).contains(&ratio), "{ratio}");
    assert!(rig.write("a.tickets", "many").is_err());
    rig.write("a.tickets", "0").unwrap();
    assert_eq!(rig.read("a.tickets"), "1", "at least one");
}

#[test]
fn a_task_can_be_stopped_and_started() {
    let mut rig = rig("a :: InfiniteSource(BURST 1) -> x :: Counter -> Discard", 1);
    rig.router.lanes_mut()[0].step(10);
    rig.write("a.scheduled", "false").unwrap();
    let before = rig.read("x.count");
    rig.router.lanes_mut()[0].step(10);
    assert_eq!((rig.read("x.count"), rig.read("a.scheduled")), (before.clone(), "false".into()));
    rig.write("a.scheduled", "true").unwrap();
    rig.router.lanes_mut()[0].step(10);
    assert_ne!(rig.read("x.count"), before);
}

#[test]
fn who_runs_what_is_as_the_configuration_says() {
    let mut rig = rig(
        "a :: InfiniteSource(LIMIT 1) -> q :: Queue -> u :: Unqueue -> Discard;
         b :: InfiniteSource(LIMIT 1) -> c :: Counter -> d :: Discard; StaticThreadSched(u 2, b 1, a 5)",
        4,
    );
    let homes = ["a", "u", "b"].map(|name| rig.read(&format!("{name}.home_thread")));
    assert_eq!(homes, ["0", "2", "1"], "there is no thread 5");
    let shared = rig.router.shared();
    let lanes = |name: &str| shared.plan.elements[shared.plan.find(name, None).unwrap()].lanes;
    assert_eq!((lanes("q"), lanes("c"), lanes("d")), (0b101, 0b10, 0b10));
    assert!(rig.write("u.home_thread", "0").is_err());
}

/// A thread looks up routes without a lock: what it has is nevertheless never older than
/// the last change, also when it rested while there were many.
#[test]
fn a_changed_route_is_that_of_all_threads() {
    for (lookup, set, address, net) in [
        ("RadixIPLookup", "set", "SetIPAddress(10.0.0.1)", "10.0.0.0/8"),
        ("LookupIP6Route", "add", "SetIP6Address(2001:db8::1)", "2001:db8::/32"),
    ] {
        let mut rig = rig(
            &format!(
                "a :: InfiniteSource(BURST 1) -> {address} -> r :: {lookup}({net} 0); r[0] -> x :: Counter -> Discard;
                 b :: InfiniteSource(BURST 1) -> {address} -> r; r[1] -> y :: Counter -> Discard;
                 StaticThreadSched(a 0, b 1)"
            ),
            2,
        );
        let mut counts = [0, 0];
        for (round, output) in [0, 1, 0, 1, 1, 0].into_iter().enumerate() {
            // Of many changes while both threads rest, the last is seen by both.
            for n in 0..=round * 3 {
                rig.write(&format!("r.{set}"), &format!("{net} {}", (output + round * 3 - n) % 2)).unwrap();
            }
            for lane in 0..2 {
                rig.router.lanes_mut()[lane].step(20);
                let now = ["x.count", "y.count"].map(|handler| rig.read(handler).parse::<u64>().unwrap());
                let came = [now[0] - counts[0], now[1] - counts[1]];
                assert!(came[output] > 0 && came[1 - output] == 0, "{came:?} in round {round} of {lookup}");
                counts = now;
            }
        }
    }
}

/// With simulated time each thread rests until the first timer of all: seconds pass at
/// once, and each timer in its turn, whichever thread's it is.
#[test]
fn simulated_time_passes_when_all_threads_rest() {
    let config = "Script(wait 1s, print \"hi\", wait 10s, print $(c.count), stop);
         s :: TimedSource(INTERVAL 2s, LIMIT 3) -> SetTimestamp -> Queue -> DelayShaper(1s)
         -> v :: Unqueue -> c :: Counter -> Print(it, TIMESTAMP true) -> Queue -> w :: Unqueue -> Discard;
         StaticThreadSched(s 1, v 2, w 3)";
    let clock = Arc::new(Clock::simulated(SIMULATION_START_NS));
    let options = Options { threads: 4, clock, ..Options::default() };
    let flat = element::fixture::flatten(config, &crate::registry()).unwrap();
    let rig = element::fixture::Rig::build(config, flat, &crate::registry(), options).unwrap();
    let mut rig = Rig(rig);
    assert!(run_until(&mut rig, "c.count", 3), "time stood still");
    let printed = rig.printed();
    let lines: Vec<&str> = printed.lines().map(|line| line.split('.').next().unwrap()).collect();
    assert_eq!(lines[0], "hi", "{printed}");
    assert_eq!(lines[lines.len() - 1], "3", "{printed}");
    let times: Vec<&str> = lines[1..4].iter().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(times, ["1000000003", "1000000005", "1000000007"], "{printed}");
}
