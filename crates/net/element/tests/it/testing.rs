//! Elements that tests of routers are made of, and streams that are cut into packets.

use crate::Rig;

fn rig(config: &str) -> Rig {
    Rig::new(config).unwrap_or_else(|problems| panic!("{config}\n{problems}"))
}

#[test]
fn packets_that_are_not_as_they_should_be_are_told() {
    let printed = |check: &str| {
        let config =
            format!("InfiniteSource(DATA abcd, LIMIT 1, STOP true) -> c :: CheckPacket({check}) -> Discard");
        rig(&config).run().printed()
    };
    for right in
        ["", "LENGTH 4", "LENGTH_GE 4", "LENGTH_LE 4", "DATA abcd", "DATA cd, DATA_OFFSET 2", "ALIGNMENT 4 1"]
    {
        assert_eq!(printed(right), "", "{right}");
    }
    for (wrong, what) in [
        ("LENGTH 5", "bad length 4 (wanted 5)"),
        ("LENGTH_GE 5", "bad length 4 (wanted > 4)"),
        ("LENGTH_LE 3", "bad length 4 (wanted < 4)"),
        ("DATA abcde", "data too short (4 bytes, wanted 5)"),
        ("DATA abc", "data too long (4 bytes, wanted 3)"),
        ("DATA abce", "bad data (does not match)"),
    ] {
        assert_eq!(printed(wrong), format!("c :: CheckPacket: {what}\n"), "{wrong}");
    }
    let refused =
        |check: &str| Rig::new(&format!("Idle -> CheckPacket({check}) -> Idle")).err().unwrap_or_default();
    assert!(
        refused("LENGTH 1, LENGTH_LE 1")
            .contains("specify at most one of LENGTH_EQ, LENGTH_GE, and LENGTH_LE")
    );
    assert!(refused("ALIGNMENT 4 4").contains("bad alignment modulus and/or offset"));
}

#[test]
fn streams_are_compared_pair_by_pair() {
    let compared = |one: &str, other: &str| {
        let mut rig = rig(&format!(
            "{one} -> Queue -> [0] c :: ComparePackets(TIMESTAMP false) [0] -> n :: Counter -> TimedSink(1ms); \
             {other} -> Queue -> [1] c [1] -> m :: Counter -> TimedSink(1ms); DriverManager(wait_time 30ms)"
        ));
        rig.run();
        let all = ["c.diffs", "c.all_same", "n.count", "m.count"].map(|name| rig.read(name)).join(" ");
        let details = rig.read("c.diff_details");
        (
            all,
            details
                .lines()
                .map(|line| line.split('\t').next().unwrap_or("").to_string())
                .collect::<Vec<_>>()
                .join(""),
        )
    };
    let source = |data: &str, limit: u32| format!("InfiniteSource(DATA {data}, LIMIT {limit})");
    assert_eq!(compared(&source("abc", 9), &source("abc", 9)), ("0 true 9 9".into(), "00000000".into()));
    assert_eq!(compared(&source("abc", 3), &source("abd", 3)), ("3 false 3 3".into(), "03000000".into()));
    assert_eq!(compared(&source("abc", 3), &source("abcd", 3)), ("3 false 3 3".into(), "30000000".into()));
    let long = source("Eabcdefghijklmnopqrst", 2);
    let marked = format!("{long} -> MarkIPHeader");
    assert_eq!(compared(&marked, &long), ("2 false 2 2".into(), "00000200".into()));
    let (all, details) = compared(&source("abc", 4), &source("abc", 3));
    assert_eq!((all.as_str(), &details[6..]), ("1 false 4 3", "10"));
}

#[test]
fn tasks_have_their_turns() {
    let mut rig = rig("n :: NullTask(LIMIT 7, STOP true); h :: HandlerTask(s.run, RESCHEDULE true); \
         s :: Script(TYPE PASSIVE, print x); o :: HandlerTask(s.run); q :: HandlerTask(s.run, ACTIVE false)");
    rig.run();
    assert_eq!(
        (rig.read("n.count"), rig.read("o.count"), rig.read("q.count")),
        ("7".into(), "1".into(), "0".into())
    );
    let count: usize = rig.read("h.count").parse().expect("a number");
    assert!(count >= 6, "{count}");
    assert_eq!(rig.printed().lines().count(), count + 1);
    assert_eq!(rig.write("h.reschedule", "false"), Ok(()));
    assert!(Rig::new("HandlerTask(nobody.run)").is_err() && Rig::new("HandlerTask()").is_err());
}

#[test]
fn the_order_of_turns_is_noted() {
    let mut rig =
        rig("a :: SchedOrderTest(1, SIZE 100, STOP true); b :: SchedOrderTest(2, SIZE 60, LIMIT 10); \
         SchedOrderTest(3); ScheduleInfo(a 1, b 2)");
    assert_eq!(rig.read("a.order"), "");
    rig.run();
    let order = rig.read("b.order");
    let of = |id: &str| order.split_whitespace().filter(|one| *one == id).count();
    assert_eq!(
        (order.split_whitespace().count(), of("2"), order.ends_with('\n')),
        (100, 10, true),
        "{order}"
    );
    // Twice the tickets: each other turn, until there were ten.
    assert_eq!(order.split_whitespace().take(20).filter(|id| *id == "2").count(), 10, "{order}");
    assert_eq!((of("1") + of("3"), of("1").abs_diff(of("3")) <= 1), (90, true), "{order}");
    let mut rig = super::run("a :: SchedOrderTest(-1, STOP true); DriverManager(wait_stop)");
    assert_eq!(rig.read("a.order").split_whitespace().count(), 1024);
    assert!(Rig::new("SchedOrderTest()").is_err());
}

#[test]
fn a_seed_has_the_same_packets_drawn() {
    let drawn = |seed: &str| {
        let config = format!(
            "RandomSeed({seed}); InfiniteSource(LIMIT 64) -> NumberPacket(0) -> RandomSample(0.5) \
             -> Truncate(8) -> Print(x) -> Discard; DriverManager(wait_time 1ms)"
        );
        rig(&config).run().printed()
    };
    assert_eq!(drawn("7"), drawn("7"));
    assert_ne!(drawn("7"), drawn("8"));
    assert_ne!(drawn(""), drawn(""));
    let mut rig = rig("r :: RandomSeed(3)");
    assert_eq!((rig.write("r.seed", "4"), rig.read("r.seed")), (Ok(()), "4".into()));
    assert_eq!((rig.write("r.seed", ""), rig.read("r.seed")), (Ok(()), String::new()));
    assert!(rig.write("r.seed", "x").is_err());
}

#[test]
fn inputs_have_turns_of_their_own() {
    let mut rig = rig(
        "InfiniteSource(DATA a, LIMIT 3, BURST 3) -> Queue -> [0] u :: RoundRobinUnqueue(2) [0] -> Print(a, 1) -> Discard; \
         InfiniteSource(DATA b, LIMIT 3, BURST 3) -> Queue -> [1] u [1] -> Print(b, 1) -> Discard; \
         DriverManager(wait_time 1ms)",
    );
    rig.run();
    assert_eq!(rig.read("u.packets"), "6 packets\n");
    let order: String = rig.printed().lines().filter_map(|line| line.chars().next()).collect();
    assert!(["aabbab", "bbaaba"].contains(&order.as_str()), "{order}");
    assert!(Rig::new("Idle -> Queue -> RoundRobinUnqueue; Idle -> Discard").is_err());
}

#[test]
fn bytes_count_up() {
    let printed = |check: u32| {
        rig(&format!("SendPattern(300) -> Unqueue(LIMIT 1) -> CheckPattern({check}) -> Print(x, 4) -> Discard; DriverManager(wait_time 1ms)"))
            .run()
            .printed()
    };
    assert_eq!(printed(300), "x:  300 | 00010203\n");
    assert_eq!(printed(299), "CheckPattern: p->length() 300 _len 299\nx:  300 | 00010203\n");
    let wrong = rig("InfiniteSource(DATA \\<000105>, LIMIT 1, STOP true) -> CheckPattern(3) -> Discard")
        .run()
        .printed();
    assert_eq!(wrong, "CheckPattern: i=2 pkt 05 wanted 02\n");
}

#[test]
fn a_stream_is_cut_into_its_packets() {
    let frames = |data: &str, conf: &str| {
        let config = format!(
            "InfiniteSource(DATA \\<{data}>, LIMIT 1, STOP true) -> r :: Reframe({conf}) -> Print(x) -> Discard"
        );
        let mut rig = rig(&config);
        rig.run();
        let lines = rig.printed();
        let bytes = lines.lines().map(|line| line.split('|').nth(1).unwrap_or("").replace(' ', ""));
        (bytes.collect::<Vec<_>>(), rig.router.lanes()[0].counters(1).drops.to_vec())
    };
    assert_eq!(
        frames("45000005ff 45000004 4500", ""),
        (vec!["45000005ff".into(), "45000004".into()], vec![0, 0])
    );
    assert_eq!(frames("aabbcc", "FLEN 0, ADD 2"), (vec!["aabb".into()], vec![0, 0]));
    assert_eq!(frames("01aabb 02ccdddddd", "FOFF 0, FLEN 1, MUL 2, ADD 1").0, ["01aabb", "02ccdddddd"]);
    assert_eq!(frames("0300aa00 0100", "FOFF 0, NTOH false, ALIGN 4").0, ["0300aa00"]);
    assert_eq!(frames("00000000", ""), (vec![], vec![1, 0]), "no packet is so short");
    assert_eq!(frames("ffffffff", "FOFF 0, FLEN 4"), (vec![], vec![1, 0]), "none is so long");
    assert!(
        Rig::new("Idle -> Reframe(FLEN 3) -> Discard")
            .err()
            .is_some_and(|wrong| wrong.contains("invalid field length 3"))
    );
    // What comes in pieces is put together.
    let mut pieces = rig("InfiniteSource(DATA \\<450000>, LIMIT 1) -> r :: Reframe -> Print(x) -> Discard; \
         b :: InfiniteSource(DATA \\<06aabb>, LIMIT 1, ACTIVE false) -> r; \
         Script(wait 1ms, write b.active true, wait 1ms, stop)");
    assert_eq!(pieces.run().printed(), "x:    6 | 45000006 aabb\n");
}
