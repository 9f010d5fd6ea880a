//! Handlers that elements call while packets go through them, and packets whose way
//! depends on what such calls did with the one before: as in Click, which has no batches.
#![allow(clippy::unwrap_used)]

use graph::{Batching, Options};

use crate::{Rig, registry};

fn printed(config: &str) -> String {
    let mut rig = Rig::new(config).unwrap_or_else(|problems| panic!("{problems}"));
    rig.run();
    rig.printed()
}

#[test]
fn a_called_script_reads_the_element_that_called_it() {
    let script = "s :: Script(TYPE PASSIVE, print \"first\", print $(c.count), read c.count, print \"last\")";
    let config = format!(
        "InfiniteSource(DATA x, LIMIT 10, BURST 10, STOP true) -> c :: Counter(COUNT_CALL 3 s.run)
         -> d :: Counter -> Discard; {script}"
    );
    assert_eq!(printed(&config), "first\n3\nc.count:\n3\nlast\n");
    // Those in front went on before, the third did not.
    let script = "s :: Script(TYPE PASSIVE, print $(d.count))";
    let config = format!(
        "InfiniteSource(DATA xx, LIMIT 10, BURST 10, STOP true) -> c :: Counter(BYTE_COUNT_CALL 6 s.run)
         -> d :: Counter -> Discard; {script}"
    );
    assert_eq!(printed(&config), "2\n");
    // Where packets are pulled as well.
    let config = "InfiniteSource(DATA x, LIMIT 10, BURST 10) -> Queue -> c :: Counter(COUNT_CALL 4 s.run)
         -> Unqueue(10) -> Discard; DriverManager(wait 1s); s :: Script(TYPE PASSIVE, print $(c.count))";
    assert_eq!(printed(config), "4\n");
}

/// A counter that threads share calls once, whichever thread reaches the number.
#[test]
fn threads_that_count_together_call_once() {
    let config =
        "a :: InfiniteSource(LIMIT 30000, BURST 7) -> c :: Counter(COUNT_CALL 20000 s.run) -> Discard;
         b :: InfiniteSource(LIMIT 30000, BURST 7) -> c; StaticThreadSched(a 0, b 1);
         s :: Script(TYPE PASSIVE, print \"reached\");
         Script(label again, wait 10ms, goto again $(lt $(c.count) 60000), stop)";
    let mut rig = Rig::with_threads(config, 2).unwrap();
    rig.run();
    assert_eq!(rig.printed(), "reached\n");
}

#[test]
fn a_source_at_its_end_can_be_asked() {
    for source in ["InfiniteSource(LIMIT 5, BURST 5", "RandomSource(60, LIMIT 5, BURST 5"] {
        let config = format!(
            "i :: {source}, END_CALL s.run) -> c :: Counter -> Discard;
             s :: Script(TYPE PASSIVE, print $(i.count) $(c.count), write stop)"
        );
        assert_eq!(printed(&config), "5 5\n", "{source}");
    }
}

#[test]
fn what_a_call_refuses_is_printed() {
    let config =
        "InfiniteSource(LIMIT 10, BURST 10, STOP true) -> c :: Counter(COUNT_CALL 3 s.run) -> Discard;
         s :: Script(TYPE PASSIVE, print $(c.nothing), error \"too bad\")";
    let printed = printed(config);
    assert!(printed.contains("nothing") && printed.contains("too bad"), "{printed}");
}

/// Each end is moved on before the next packet is judged, and the packet that came at the
/// end is judged once more.
#[test]
fn a_called_script_moves_the_end_of_a_filter() {
    let config = "TimedSource(1, LIMIT 10, STOP true) -> SetTimestamp -> Queue -> u :: Unqueue(10, ACTIVE false)
         -> t :: TimeFilter(END_AFTER 2.5s, END_CALL s.run) -> c :: Counter -> Discard; t[1] -> e :: Counter -> Discard;
         s :: Script(TYPE PASSIVE, init n 0, set n $(add $n 1), print \"end $n\", goto over $(gt $n 2),
           write t.extend_interval 2s, label over);
         DriverManager(wait, write u.active true, wait 0.1s, print $(c.count) $(e.count))";
    assert_eq!(printed(config), "end 1\nend 2\nend 3\n7 3\n");
}

#[test]
fn a_called_script_freezes_a_counter_of_aggregates() {
    let config = "InfiniteSource(DATA x, LIMIT 10, BURST 10, STOP true) -> a :: AggregateCounter(COUNT_CALL 4 s.run) -> Discard;
         s :: Script(TYPE PASSIVE, write a.active false);
         DriverManager(wait, print $(a.count))";
    assert_eq!(printed(config), "4\n");
}

/// The packet behind a call waits for it, and goes on behind it.
#[test]
fn no_packet_is_lost_behind_a_call_that_changes_nothing() {
    let nothing = "s :: Script(TYPE PASSIVE, return 0)";
    for call in ["COUNT_CALL 4 s.run", "AGGREGATE_CALL 0 s.run"] {
        let config = format!(
            "InfiniteSource(DATA x, LIMIT 10, BURST 10, STOP true) -> a :: AggregateCounter({call})
             -> c :: Counter -> Discard; {nothing}; DriverManager(wait, print $(a.count) $(c.count))"
        );
        assert_eq!(printed(&config), "10 10\n", "{call}");
    }
}

const SPLIT: &str = "InfiniteSource(LIMIT 10, BURST 10, STOP true) -> c :: Counter
     -> Script(TYPE PACKET, write sw.switch $(mod $(c.count) 2), return 0) -> sw :: Switch(0);
     sw[0] -> a :: Counter -> Discard; sw[1] -> b :: Counter -> Discard;";

fn split(config: &str, batching: Batching) -> (String, String) {
    let mut rig = ended(config, batching);
    (rig.read("a.count"), rig.read("b.count"))
}

/// A router in simulated time that has run to its end.
fn ended(config: &str, batching: Batching) -> Rig {
    let options = Options {
        clock: std::sync::Arc::new(graph::Clock::simulated(graph::clock::SIMULATION_START_NS)),
        batching,
        ..Options::default()
    };
    let flat = element::fixture::flatten(config, &registry()).unwrap();
    let mut rig = Rig(element::fixture::Rig::build(config, flat, &registry(), options).unwrap());
    rig.run();
    rig
}

#[test]
fn packets_go_one_by_one_where_a_script_looks_between_them() {
    assert_eq!(split(SPLIT, Batching::Auto), ("5".into(), "5".into()));
    assert_eq!(split(SPLIT, Batching::Never), ("5".into(), "5".into()));
    // The whole batch was counted before the script saw the first.
    assert_eq!(split(SPLIT, Batching::Always), ("10".into(), "0".into()));
    // Behind a queue, and with the script where packets are pulled.
    let pushed =
        SPLIT.replacen("-> c ::", "-> Queue -> Unqueue(10) -> c ::", 1).replacen(", STOP true", "", 1)
            + "DriverManager(wait 1s)";
    assert_eq!(split(&pushed, Batching::Auto), ("5".into(), "5".into()));
    let pulled = SPLIT
        .replacen("-> c ::", "-> Queue -> c ::", 1)
        .replacen("-> sw ::", "-> Unqueue(10) -> sw ::", 1)
        .replacen(", STOP true", "", 1)
        + "DriverManager(wait 1s)";
    assert_eq!(split(&pulled, Batching::Auto), ("5".into(), "5".into()));
}

/// Who pulls several packets in a turn pulls as many where they go one by one, each after the one
/// before it has gone as far as it goes: as many as come, so that nothing is lost in front of it.
#[test]
fn a_burst_that_goes_one_by_one_is_a_whole_burst() {
    let source = "InfiniteSource(LIMIT 1000, BURST 5, STOP true) -> q :: Queue(50)";
    let (script, no_script) = ("Script(TYPE PACKET, return 0) ->", "");
    let none = "x :: Script(TYPE PASSIVE, return 0);";
    for (path, batching) in [
        (format!("Unqueue(BURST 5) -> {script} a :: Counter -> Discard"), Batching::Auto),
        (format!("{script} Unqueue(BURST -1) -> a :: Counter -> Discard"), Batching::Auto),
        (format!("Unqueue(BURST 5) -> {no_script} a :: Counter -> Discard"), Batching::Never),
        (format!("RoundRobinSched -> Unqueue(5) -> {script} a :: Counter -> Discard"), Batching::Auto),
        (format!("RoundRobinUnqueue(5) -> {script} a :: Counter -> Discard"), Batching::Auto),
        (format!("Unqueue(5) -> a :: Counter(COUNT_CALL 100000 x.run) -> Discard; {none}"), Batching::Auto),
        (format!("{script} a :: Counter -> Discard(BURST 5)"), Batching::Auto),
    ] {
        let mut rig = ended(&format!("{source} -> {path}"), batching);
        assert_eq!(rig.read("q.drops"), "0", "{path}");
        assert!(rig.read("a.count").parse::<u32>().unwrap() > 990, "{path}");
    }
}

/// What has no room in a queue goes on from its second output: the elements behind that
/// see one packet at a time as well.
#[test]
fn what_a_queue_has_no_room_for_goes_one_by_one_too() {
    let config = SPLIT
        .replacen("-> c ::", "-> q :: SimpleQueue(2) -> Idle; q[1] -> c ::", 1)
        .replacen("LIMIT 10", "LIMIT 12", 1);
    let config = config.replacen("BURST 10", "BURST 12", 1);
    assert_eq!(split(&config, Batching::Auto), ("5".into(), "5".into()));
}

#[test]
fn what_goes_one_by_one_is_told() {
    let config = format!("InfiniteSource -> n :: Null -> Queue -> Unqueue -> x :: Null -> Discard; {SPLIT}");
    let flat = element::fixture::flatten(&config, &registry()).unwrap();
    let (plan, problems) = graph::Router::plan(config.as_str(), flat, &registry(), Options::default());
    assert!(problems.is_empty(), "{problems:?}");
    let text = graph::plan::explain::text(&plan.unwrap(), None);
    let unit = |name: &str| {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
        line.contains(" single")
    };
    let singles: Vec<bool> = ["c", "sw", "n", "x", "a"].map(unit).into();
    assert_eq!(singles, [true, false, false, false, false], "{text}");
    assert!(text.contains("--batches always"), "{text}");
}
