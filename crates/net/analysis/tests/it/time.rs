//! Timestamps, averages and ARP printing, in simulated time.

use crate::Rig;

fn rig(config: &str) -> Rig {
    Rig::new(config).unwrap_or_else(|problems| panic!("{config}\n{problems}"))
}

/// What comes out of `elements` for packets of these times.
fn times(stamps: &[&str], elements: &str) -> Vec<String> {
    let lines: String = stamps.iter().map(|stamp| format!("{stamp} 1.0.0.1\\n")).collect();
    let config = format!(
        "f :: FromIPSummaryDump(DATA \"!data timestamp ip_src\\n{lines}\", STOP true) -> {elements} \
         -> ToIPSummaryDump(-, HEADER false, FIELDS timestamp)"
    );
    rig(&config).run().printed().lines().map(str::to_string).collect()
}

#[test]
fn timestamps_are_set_and_moved() {
    assert_eq!(times(&["5", "7"], "SetTimestamp(3.25)"), ["3.250000", "3.250000"]);
    assert!(times(&["5"], "SetTimestamp")[0].starts_with("1000000000."));
    assert_eq!(times(&["5", "0", "7"], "AdjustTimestamp(-1.5)"), ["3.500000", "0.000000", "5.500000"]);
    assert_eq!(times(&["0"], "AdjustTimestamp(2ms, ALL true)"), ["0.002000"]);
    assert_eq!(times(&["5", "7.5", "6"], "SetTimestampDelta"), ["0.000000", "2.500000", "1.000000"]);
    assert_eq!(times(&["5"], "SetTimestamp(4, FIRST true) -> SetTimestampDelta(TYPE FIRST)"), ["1.000000"]);
    assert!(
        Rig::new("Idle -> SetTimestampDelta(TYPE LATER) -> Discard")
            .err()
            .expect("refused")
            .contains("bad TYPE")
    );
    let mut rig = rig("Idle -> a :: AdjustTimestamp(1) -> Discard");
    rig.write("a.time", "-2.5s").expect("a handler");
    assert_eq!(rig.read("a.time"), "-2.500000s");
    rig.write("a.time", "0.5").expect("a handler");
    assert_eq!(rig.read("a.time"), "500ms");
    let mut open = self::rig("Idle -> TimestampAccum -> AdjustTimestamp -> t :: TimeFilter -> Discard");
    assert_eq!(
        (open.read("t.end"), open.read("t.interval")),
        ("2147483647.000000".into(), "2147483647.000000".into())
    );
    assert!(Rig::new("Idle -> TimeFilter(END 3, END_CALL nobody.stop) -> Discard").is_err());
}

#[test]
fn a_timestamp_is_stored_in_the_packet() {
    let stored = |arguments: &str| {
        let config = format!(
            "InfiniteSource(DATA \\<aabb>, LIMIT 1, STOP true) -> SetTimestamp(1) -> StoreTimestamp({arguments}) \
             -> Print(MAXLENGTH 20) -> Discard"
        );
        rig(&config).run().printed()
    };
    let one = 1_000_000_000i64.to_ne_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(stored("TAIL true").replace(' ', ""), format!("10|aabb{one}\n"));
    assert_eq!(stored("OFFSET 4").replace(' ', ""), format!("12|aabb0000{one}\n"));
    assert_eq!(stored("0").replace(' ', ""), format!("8|{one}\n"));
    assert_eq!(stored("OFFSET 2000000"), "", "longer than any packet");
    assert!(Rig::new("Idle -> StoreTimestamp -> Discard").is_err());
}

#[test]
fn a_range_of_time_goes_through() {
    let stamps = ["10", "11", "12", "13", "14"];
    assert_eq!(times(&stamps, "TimeFilter(11, 13)"), ["11.000000", "12.000000"]);
    assert_eq!(times(&stamps, "TimeFilter(START_AFTER 1, INTERVAL 2s)"), ["11.000000", "12.000000"]);
    assert_eq!(times(&stamps, "TimeFilter(END_AFTER 1.5)"), ["10.000000", "11.000000"]);
    assert_eq!(times(&stamps, "TimeFilter(END_DELAY 5)").len(), 5);
    assert_eq!(
        times(&stamps, "t :: TimeFilter(END 12, END_CALL t.extend_interval 2)"),
        ["10.000000", "11.000000", "12.000000", "13.000000", "14.000000"]
    );
    let stopped = "TimeFilter(END 12, STOP true)";
    assert_eq!(times(&stamps, stopped), ["10.000000", "11.000000"]);
    assert!(Rig::new("Idle -> TimeFilter(1, START_AFTER 1) -> Discard").is_err());
    assert!(Rig::new("Idle -> TimeFilter(END 1, STOP true, END_CALL stop) -> Discard").is_err());
    let mut rig = rig("Idle -> t :: TimeFilter(2, 5) -> Discard");
    assert_eq!((rig.read("t.start"), rig.read("t.interval")), ("2.000000".into(), "3.000000".into()));
    rig.write("t.interval", "10").expect("a handler");
    assert_eq!(rig.read("t.end"), "12.000000");
}

#[test]
fn ranges_and_ages_are_found() {
    let mut rig =
        rig("FromIPSummaryDump(DATA \"!data timestamp\\n5\\n2\\n9.5\\n\") -> r :: TimeRange -> Discard;
         InfiniteSource(LIMIT 10) -> a :: TimestampAccum -> Discard; DriverManager(wait_time 1s, stop)");
    rig.run();
    assert_eq!(rig.read("r.range"), "2.000000 9.500000");
    assert_eq!(
        (rig.read("r.first"), rig.read("r.last"), rig.read("r.interval")),
        ("2.000000".into(), "9.500000".into(), "7.500000".into())
    );
    rig.write("r.reset", "").expect("a handler");
    assert_eq!(rig.read("r.range"), "0.000000 0.000000");
    let age: f64 = rig.read("a.average_time").parse().expect("a number");
    assert!(rig.read("a.count") == "10" && (0.0..0.001).contains(&age), "{age}");
}

#[test]
fn streams_are_merged_by_time() {
    let config = |buffer: &str| {
        format!(
            "t :: TimeSortedSched(STOP true, BUFFER {buffer});
             FromIPSummaryDump(DATA \"!data timestamp\\n1\\n4\\n3\\n7\\n\") -> t;
             FromIPSummaryDump(DATA \"!data timestamp\\n2\\n5\\n6\\n\") -> [1] t;
             t -> ToIPSummaryDump(-, HEADER false, FIELDS ts_sec)"
        )
    };
    let mut plain = rig(&config("1"));
    assert_eq!(plain.run().printed().split_whitespace().collect::<String>(), "1243567");
    assert_eq!(plain.read("t.well_ordered"), "false");
    let mut buffered = rig(&config("2"));
    assert_eq!(buffered.run().printed().split_whitespace().collect::<String>(), "1234567");
    assert_eq!(buffered.read("t.well_ordered"), "true");
    assert!(Rig::new("Idle -> TimeSortedSched(BUFFER 0) -> Discard").is_err());
}

#[test]
fn an_average_is_from_the_first_to_the_last() {
    let mut rig = rig(
        "RatedSource(RATE 100, LIMIT 201, STOP true, LENGTH 50) -> c :: AverageCounter -> d :: AverageCounter(1) -> Discard",
    );
    rig.run();
    let number = |rig: &mut Rig, name: &str| rig.read(name).parse::<f64>().expect("a number");
    assert_eq!(rig.read("c.count"), "201");
    assert!((number(&mut rig, "c.rate") - 100.0).abs() < 3.0);
    assert!((number(&mut rig, "c.byte_rate") - 5000.0).abs() < 150.0);
    assert!((number(&mut rig, "d.count") - 100.0).abs() < 4.0, "the first second does not count");
    assert_eq!((rig.read("c.bit_count"), rig.read("c.link_count")), ("80400".into(), "118992".into()));
    assert!((number(&mut rig, "c.time") - 2.0).abs() < 0.05);
    rig.write("c.reset", "").expect("a handler");
    assert_eq!((rig.read("c.count"), rig.read("c.byte_count")), ("0".into(), "0".into()));
}

#[test]
fn arp_is_printed() {
    let arp = |op: u16, hardware: u16, protocol: &str, target: &str| {
        let config = format!(
            "InfiniteSource(DATA \\<ffffffffffff 020304050607 0806 {hardware:04x} {protocol} 0604 {op:04x} 020304050607 0a000001 {target} 0a000002>, \
             LIMIT 1, STOP true) -> SetTimestamp(1.5) -> MarkMACHeader(0, 14) -> ARPPrint(x, ETHER true) -> Discard"
        );
        rig(&config).run().printed()
    };
    let start = "x: 1.500000: 02-03-04-05-06-07 > FF-FF-FF-FF-FF-FF: ";
    for (op, said) in [
        (1, "arp who-has 10.0.0.2 tell 10.0.0.1"),
        (2, "arp reply 10.0.0.1 is-at 02-03-04-05-06-07"),
        (3, "rarp who-is 00-00-00-00-00-00 tell 02-03-04-05-06-07"),
        (4, "rarp reply 00-00-00-00-00-00 at 10.0.0.2"),
        (8, "invarp who-is 00-00-00-00-00-00 tell 02-03-04-05-06-07"),
        (77, "arp-#77"),
    ] {
        assert_eq!(arp(op, 1, "0800", "000000000000"), format!("{start}{said}\n"));
    }
    let asked = arp(1, 1, "0800", "00000000000f");
    assert_eq!(asked, format!("{start}arp who-has 10.0.0.2 (00-00-00-00-00-0F) tell 10.0.0.1\n"));
    assert_eq!(
        arp(1, 6, "86dd", "000000000000"),
        format!("{start}arp-#1 for proto #34525 (4) hardware #6 (6)\n")
    );
    for length in 1..50 {
        let config = format!(
            "InfiniteSource(DATA \\<0001 0800 0604 0001 02>, LENGTH {length}, LIMIT 1, STOP true) \
             -> MarkIPHeader -> ARPPrint(TIMESTAMP false, ETHER true) -> Discard"
        );
        let printed = rig(&config).run().printed();
        assert_eq!(printed.contains("truncated-arp"), length < 28, "{length}: {printed}");
    }
}

#[test]
fn signals_are_shown() {
    let mut rig = rig(
        "i :: InfiniteSource(ACTIVE false) -> q :: Queue(5) -> n :: NotifierDebug -> Discard;
         Idle -> p :: NotifierDebug -> Queue -> Discard; InfiniteSource(LIMIT 0) -> b :: NotifierDebug -> Discard",
    );
    assert_eq!(rig.read("n.signal"), "empty.0/1:0");
    assert_eq!(rig.read("p.signal"), "full.0/1:1*");
    assert_eq!(rig.read("b.signal"), "busy*");
}

/// Half of the packets must go: with RED's own share that is at 50 packets, long before
/// all are dropped at 100.
fn drop_early(red: &str, average: f64) -> bool {
    red != "RED(5, 50, 0.5)" || average < 80.0
}

#[test]
fn queues_are_kept_short() {
    let run = |red: &str| {
        let config = format!(
            "RatedSource(RATE 1000, LIMIT 4000, LENGTH 60) -> red :: {red} -> q :: Queue(1000) -> RatedUnqueue(RATE 500) -> Discard;
             DriverManager(wait_time 4.5s, stop)"
        );
        let mut rig = rig(&config);
        rig.run();
        let number = |rig: &mut Rig, name: &str| rig.read(name).parse::<f64>().expect("a number");
        let average = number(&mut rig, "red.avg_queue_size");
        assert!(drop_early(red, average), "{red}: {average}");
        (number(&mut rig, "q.highwater_length"), number(&mut rig, "red.drops"))
    };
    let (highest, drops) = run("RED(5, 50, 0.5)");
    assert!(highest < 130.0 && drops > 1500.0, "{highest} {drops}");
    let (highest, drops) = run("AdaptiveRED(50, 0.5)");
    assert!(highest < 300.0 && drops > 1400.0, "{highest} {drops}");
    let (highest, drops) = run("RED(2000, 3000, 0.5)");
    assert!(highest > 900.0 && drops == 0.0, "{highest} {drops}");
    let mut rig = rig(
        "Idle -> r :: RED(5, 50, 0.02) -> t :: Tee; t -> Queue -> Discard; t[1] -> q :: Queue -> Discard",
    );
    assert_eq!(rig.read("r.queues").lines().count(), 2);
    rig.write("r.max_p", "0.5").expect("a handler");
    assert_eq!(rig.read("r.max_p"), "0.5");
    assert!(rig.write("r.max_p", "1.5").is_err() && rig.write("r.min_thresh", "51").is_err());
    for wrong in
        ["RED(5, 4, 0.1)", "RED(1, 70000, 0.1)", "RED(1, 2, 0.1, STABILITY 17)", "RED(1, 2, 0.1, QUEUES x)"]
    {
        assert!(Rig::new(&format!("Idle -> {wrong} -> Queue -> Discard")).is_err(), "{wrong}");
    }
    assert!(
        Rig::new("Idle -> RED(1, 2, 0.1) -> Discard").err().expect("refused").contains("no nearby Queues")
    );
}

/// The drops of CoDel, and what is in the queue, after packets came and went at such rates.
fn after_codel(codel: &str, stamp: &str, rate: u32, taken: u32, seconds: &str) -> (u64, u64) {
    let config = format!(
        "RatedSource(RATE {rate}, LENGTH 60) -> {stamp} -> q :: Queue(10000) -> codel :: {codel}
             -> RatedUnqueue(RATE {taken}) -> Discard;
         DriverManager(wait_time {seconds}, stop)"
    );
    let mut rig = rig(&config);
    rig.run();
    let mut number = |name: &str| rig.read(name).parse::<u64>().expect("a number");
    (number("codel.drops"), number("q.length"))
}

#[test]
fn packets_do_not_wait_for_long() {
    let first = "SetTimestamp(FIRST true)";
    // All wait too long. The first is dropped after 0.1 s, and the next 0.1 s later divided by the
    // square root of the drops so far: N of them take 0.1 s times 2 sqrt(N) - 1.46.
    let (drops, _) = after_codel("CoDel", first, 1000, 500, "2.1s");
    assert!((105..118).contains(&drops), "{drops}");
    let (slower, _) = after_codel("CoDel(5ms, 0.2)", first, 1000, 500, "2.2s");
    assert!((26..34).contains(&slower), "{slower}");
    // A tenth too many: the queue is kept short, where it would have 500 packets in the end.
    let (drops, length) = after_codel("CoDel", first, 550, 500, "10s");
    assert!(drops > 350 && length < 120, "{drops} dropped, {length} left");
    // Nobody waits, nobody waits too long, nobody says since when.
    assert_eq!(after_codel("CoDel", first, 500, 1000, "2s").0, 0);
    assert_eq!(after_codel("CoDel(5s)", first, 1000, 500, "2s").0, 0);
    assert_eq!(after_codel("CoDel", "SetTimestamp", 1000, 500, "2s").0, 0);

    let mut rig =
        rig("Idle -> q :: Queue -> c :: CoDel(QUEUES q) -> Discard; r :: Queue; Idle -> r -> Discard");
    assert_eq!(rig.read("c.queues"), "q\n");
    assert_eq!((rig.read("c.codel_target"), rig.read("c.codel_interval")), ("5ms".into(), "100ms".into()));
    rig.write("c.codel_target", "0.02").expect("a handler");
    assert_eq!(rig.read("c.codel_target"), "20ms");
    assert!(rig.write("c.codel_interval", "-1").is_err() && rig.write("c.codel_interval", "x").is_err());
    for wrong in ["CoDel(-1)", "CoDel(5ms, 100ms, 1)", "CoDel(QUEUES nobody)", "CoDel(QUEUES i)"] {
        assert!(Rig::new(&format!("i :: Idle -> Queue -> {wrong} -> Discard")).is_err(), "{wrong}");
    }
}

#[test]
fn delays_are_measured() {
    let mut rig = rig("RatedSource(RATE 1000, LIMIT 100, LENGTH 64) -> n :: NumberPacket(40) -> r :: RecordTimestamp(OFFSET 40)
         -> SetTimestamp -> q :: Queue -> DelayUnqueue(0.02) -> d :: TimestampDiff(r, OFFSET 40) -> c :: CheckNumberPacket(40, COUNT 90)
         -> a :: Counter -> Discard; c[1] -> b :: Counter -> Discard; InfiniteSource(LENGTH 20, LIMIT 1) -> d; d[1] -> e :: Counter -> Discard;
         DriverManager(wait_time 1s, stop)");
    rig.run();
    let number = |rig: &mut Rig, name: &str| rig.read(name).parse::<f64>().expect("a number");
    for handler in ["d.median", "d.avg", "d.perc99", "d.min", "d.max"] {
        let delay = number(&mut rig, handler);
        assert!((19_900.0..21_500.0).contains(&delay), "{handler} {delay}");
    }
    assert!(number(&mut rig, "d.stddev") < 500.0);
    assert_eq!(
        (rig.read("d.index"), rig.read("r.count"), rig.read("n.count")),
        ("99".into(), "100".into(), "100".into())
    );
    assert_eq!(
        (rig.read("a.count"), rig.read("b.count"), rig.read("e.count")),
        ("90".into(), "10".into(), "1".into())
    );
    assert_eq!((rig.read("c.min"), rig.read("c.max")), ("[0] : 1".into(), "[0] : 1".into()));
    assert!(Rig::new("Idle -> TimestampDiff(x) -> Discard").is_err());
    assert!(Rig::new("Idle -> RecordTimestamp(N 99999999999) -> Discard").is_err());
}
