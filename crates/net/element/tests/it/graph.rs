//! The graph as elements see it: push, pull, signals, threads, handlers.

use crate::Rig;

fn rig(config: &str) -> Rig {
    Rig::new(config).expect("a configuration")
}

#[test]
fn packets_go_from_source_to_sink() {
    let mut rig = rig("InfiniteSource(LIMIT 1000, BURST 7, STOP true) -> c :: Counter -> d :: Discard;");
    rig.run();
    assert_eq!((rig.read("c.count"), rig.read("d.count")), ("1000".into(), "1000".into()));
    assert_eq!(rig.read("c.byte_count"), "69000");
}

#[test]
fn a_full_queue_holds_its_source_back_and_loses_nothing() {
    let mut rig = rig(
        "src :: InfiniteSource(LIMIT 5000, STOP true) -> q :: Queue(10) -> u :: Unqueue(3) -> d :: Discard;",
    );
    rig.run();
    assert_eq!(rig.read("q.drops"), "0");
    let (sent, left, out) = (rig.read("src.count"), rig.read("q.length"), rig.read("d.count"));
    assert_eq!(sent, "5000");
    let sum = left.parse::<u32>().expect("a number") + out.parse::<u32>().expect("a number");
    assert_eq!(sum, 5000);
}

/// Nobody empties the queue, which is full when the limit is reached.
#[test]
fn a_source_ends_where_no_room_comes_any_more() {
    for (end, burst) in [("STOP true", 1), ("STOP true", 10), ("END_CALL stop", 3)] {
        let mut rig = rig(&format!(
            "InfiniteSource(LIMIT 10, BURST {burst}, {end}) -> q :: Queue(10) -> Idle; Script(wait 2, print \"late\", stop)"
        ));
        rig.run();
        assert_eq!((rig.read("q.length"), rig.read("q.drops")), ("10".into(), "0".into()), "{end}");
        assert_eq!(rig.printed(), "", "{end}");
    }
}

/// As in Click the router stops when there is room for one more packet.
#[test]
fn a_source_that_reached_its_limit_waits_for_room() {
    let mut rig = rig("InfiniteSource(LIMIT 25, BURST 5, STOP true) -> q :: Queue(5)
         -> TimedUnqueue(0.5, 5) -> d :: Discard;");
    rig.run();
    assert_eq!((rig.read("d.count"), rig.read("q.length")), ("25".into(), "0".into()));
}

/// One that was told to go on meanwhile has not reached its end.
#[test]
fn a_source_that_begins_again_does_not_end() {
    let mut rig = rig("s :: InfiniteSource(LIMIT 10, STOP true) -> q :: Queue(10) -> Idle;
         Script(wait 0.5, write s.limit 20, wait 2, write q.reset, wait 9, print \"late\", stop)");
    rig.run();
    assert_eq!((rig.read("s.count"), rig.read("q.length")), ("20".into(), "10".into()));
    assert_eq!(rig.printed(), "");
}

#[test]
fn agnostic_elements_are_pulled_through() {
    let mut rig = rig(
        "InfiniteSource(LIMIT 100, BURST 10, STOP false) -> Queue -> c :: Counter -> Strip(10) -> k :: Counter
         -> d :: Discard(BURST 4); Idle -> Discard;",
    );
    rig.router.lanes_mut()[0].step(2000);
    assert_eq!((rig.read("c.count"), rig.read("k.byte_count")), ("100".into(), "5900".into()));
    assert_eq!(rig.read("d.count"), "100");
}

#[test]
fn packets_are_dropped_by_name() {
    let mut rig =
        rig("InfiniteSource(LENGTH 5, LIMIT 10, STOP true) -> s :: CheckLength(4) -> d :: Discard;");
    rig.run();
    assert_eq!(rig.read("d.count"), "0");
    assert_eq!(rig.router.lanes()[0].counters(1).drops[..], [10]);
}

#[test]
fn a_tee_copies() {
    let mut rig =
        rig("InfiniteSource(LIMIT 100, BURST 32, STOP true) -> t :: Tee(3) -> a :: Counter -> Discard;
         t[1] -> Strip(60) -> b :: Counter -> Discard; t[2] -> c :: Counter -> Discard;");
    rig.run();
    assert_eq!(rig.read("a.byte_count"), "6900");
    assert_eq!(rig.read("b.byte_count"), "900");
    assert_eq!(rig.read("c.byte_count"), "6900");
}

#[test]
fn a_handler_of_an_element_further_up_works_while_packets_flow() {
    let mut rig = rig("s :: InfiniteSource(LIMIT 1000, BURST 1, STOP true)
         -> c :: Counter(COUNT_CALL 10 s.limit 20) -> d :: Discard;");
    rig.run();
    assert_eq!(rig.read("d.count"), "20");
}

#[test]
fn a_graph_that_leads_back_to_itself_is_carried_on_without_a_stack() {
    // The tee's second output leads back into it: packets multiply until none are left.
    let mut rig = rig("InfiniteSource(LIMIT 1, STOP false) -> t :: Tee(2) -> d :: Discard; t[1] -> [0]t;");
    rig.router.lanes_mut()[0].step(100);
    assert!(rig.read("d.count").parse::<u32>().expect("a number") > 50);
}

#[test]
fn a_long_chain_needs_no_stack() {
    let chain = "-> Null ".repeat(20_000);
    let mut rig = rig(&format!("InfiniteSource(LIMIT 10, STOP true) {chain} -> d :: Discard;"));
    rig.run();
    assert_eq!(rig.read("d.count"), "10");
}

#[test]
fn a_long_chain_is_pulled_through_or_refused() {
    let chain = "-> Null ".repeat(20_000);
    let config = format!("InfiniteSource(LIMIT 10) -> Queue {chain} -> d :: Discard;");
    match Rig::new(&config) {
        Ok(mut rig) => {
            rig.router.lanes_mut()[0].step(1000);
            assert_eq!(rig.read("d.count"), "10");
        }
        Err(said) => assert!(said.contains("pull"), "{said}"),
    }
}

#[test]
fn wrong_graphs_are_refused_with_all_that_is_wrong() {
    let said =
        Rig::new("InfiniteSource -> Queue -> Queue -> Discard; Strip(1) -> Discard;").err().expect("refused");
    assert!(said.contains("push") && said.contains("pull"), "{said}");
    let said = Rig::new("Idle -> Discard(ACTIV true); Idle -> Strip(x) -> Discard;").err().expect("refused");
    assert!(said.contains("ACTIV") && said.contains("LENGTH: expected unsigned integer"), "{said}");
    let said = Rig::new("i :: Idle; i -> Discard; i[2] -> Discard").err().expect("refused");
    assert!(said.contains("output 1 unused"), "{said}");
}

#[test]
fn threads_meet_at_a_queue() {
    // The queue holds whole bursts: room for some packets of one is room, and the
    // rest of the burst would be dropped.
    let config = "StaticThreadSched(u 1);
         s :: InfiniteSource(LIMIT 19200, BURST 32) -> a :: Counter -> q :: Queue(96)
         -> u :: Unqueue(32) -> b :: Counter(COUNT_CALL 19200 stop) -> d :: Discard;
         Script(wait 60s, stop);";
    let mut rig = Rig::with_threads(config, 2).expect("a configuration");
    rig.run();
    assert_eq!((rig.read("b.count"), rig.read("q.drops")), ("19200".into(), "0".into()));
    assert_eq!((rig.read("u.home_thread"), rig.read("s.home_thread")), ("1".into(), "0".into()));
}

#[test]
fn every_element_tells_of_itself() {
    let mut rig = rig("a :: InfiniteSource(LIMIT 0, STOP true) -> Queue(5) -> d :: Discard");
    assert_eq!((rig.read("a.name"), rig.read("a.class")), ("a".into(), "InfiniteSource".into()));
    assert_eq!(rig.read("a.config"), "LIMIT 0, STOP true");
    assert_eq!(rig.read("Queue@2.config"), "5");
    assert_eq!(rig.read("d.tickets"), "1024");
    assert!(rig.read("d.ports").contains("1 input\npull~"), "{}", rig.read("d.ports"));
    assert!(rig.read("a.handlers").contains("active\trwc\n"));
    assert_eq!(rig.read("b.name"), "refused: no element named 'b'");
    assert!(rig.read("a.nothing").contains("no 'a.nothing' read handler"));
    assert!(rig.read("list").starts_with("3\na\n"));
}

#[test]
fn every_class_is_documented() {
    for (name, class) in crate::registry().iter() {
        assert!(!class.brief.is_empty() && !class.doc.is_empty() && !class.example.is_empty(), "{name}");
        assert!(class.arguments.iter().all(|a| !a.about.is_empty()), "{name}");
        assert!(class.handlers().all(|h| !h.about.is_empty()), "{name}");
        assert!(!class.drops.is_empty(), "{name}: the first reason is used where an output leads nowhere");
    }
}
