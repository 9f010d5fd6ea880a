//! Switches, schedulers, queues, rates and delays, in simulated time.

use crate::Rig;

fn rig(config: &str) -> Rig {
    Rig::new(config).expect("a configuration")
}

/// Runs a configuration whose script stops it; what it printed of the handlers read.
fn counts(config: &str, handlers: &[&str]) -> Vec<u64> {
    let mut rig = rig(config);
    rig.run();
    handlers.iter().map(|name| rig.read(name).parse().expect(name)).collect()
}

#[test]
fn a_switch_sends_where_it_is_set_to() {
    let config = "InfiniteSource(LIMIT 10, STOP true) -> c :: Counter(COUNT_CALL 5 s.switch 1)
        -> s :: Switch -> a :: Counter -> Discard; s[1] -> b :: Counter -> Discard;";
    let got = counts(config, &["a.count", "b.count"]);
    assert_eq!(got, [4, 6]);
    let mut rig = rig("InfiniteSource(LIMIT 10, STOP true) -> s :: Switch(-1) -> d :: Discard;");
    rig.run();
    assert_eq!((rig.read("d.count"), rig.read("s.switch")), ("0".into(), "-1".into()));
    assert!(Rig::new("Idle -> Switch(1) -> Discard").err().expect("refused").contains("output must be < 1"));
}

#[test]
fn switches_share_out() {
    let arms = "-> s; s -> a :: Counter -> Discard; s[1] -> b :: Counter -> Discard; s[2] -> c :: Counter -> Discard;";
    let go = |class: &str| {
        let config = format!("s :: {class}; InfiniteSource(LIMIT 600, BURST 7, STOP true) {arms}");
        counts(&config, &["a.count", "b.count", "c.count"])
    };
    assert_eq!(go("RoundRobinSwitch"), [200, 200, 200]);
    assert_eq!(go("StrideSwitch(3, 2, 1)"), [300, 200, 100]);
    assert_eq!(go("StaticSwitch(2)"), [0, 0, 600]);
    let random = go("RandomSwitch");
    assert!(random.iter().all(|n| *n > 100) && random.iter().sum::<u64>() == 600, "{random:?}");
    assert_eq!(go("HashSwitch(0, 4)").iter().filter(|n| **n == 600).count(), 1);
}

#[test]
fn an_input_switch_lets_one_input_through() {
    let config = "InfiniteSource(LIMIT 10, STOP true) -> s :: InputSwitch(1) -> d :: Discard;
        TimedSource(1ns, LIMIT 3) -> [1]s;";
    let got = counts(config, &["d.count"]);
    assert!(got[0] <= 3);
    let mut rig = rig(config);
    rig.write("s.switch", "0").expect("a handler");
    rig.run();
    assert_eq!(rig.read("d.count"), "10");
}

fn order(sched: &str, limits: [u32; 3]) -> String {
    let sources: String = (0..3)
        .map(|i| {
            format!("InfiniteSource(\\<{i}{i}>, LIMIT {}) -> c{i} :: Counter -> [{i}]s;", limits[i as usize])
        })
        .collect();
    let config = format!(
        "s :: {sched}; {sources} s -> u :: Unqueue(LIMIT 7) -> p :: HashSwitch(0, 1)
         -> Discard; p[1] -> Discard; p[2] -> Discard; p[3] -> Discard;"
    );
    let mut rig = rig(&config);
    rig.router.lanes_mut()[0].step(100);
    (0..3).map(|i| format!("{} ", rig.read(&format!("c{i}.count")))).collect()
}

#[test]
fn schedulers_choose_as_they_should() {
    assert_eq!(order("RoundRobinSched", [9, 9, 9]), "3 2 2 ");
    assert_eq!(order("RoundRobinSched", [9, 0, 9]), "4 0 3 ");
    assert_eq!(order("PrioSched", [9, 9, 9]), "7 0 0 ");
    assert_eq!(order("PrioSched", [2, 4, 9]), "2 4 1 ");
    assert_eq!(order("StrideSched(4, 2, 1)", [9, 9, 9]), "4 2 1 ");
    assert_eq!(order("StrideSched(0, 2, 1)", [9, 9, 9]), "0 5 2 ");
    assert!(Rig::new("Idle -> StrideSched -> Discard").err().expect("refused").contains("need 1 arguments"));
}

#[test]
fn drr_shares_bytes_out() {
    let config = "InfiniteSource(LENGTH 1000) -> s :: DRRSched(500) -> l :: Unqueue(LIMIT 300) -> c :: CheckLength(500)
        -> short :: Counter -> Discard; c[1] -> long :: Counter -> Discard; InfiniteSource(LENGTH 100) -> [1]s;";
    let mut rig = rig(config);
    rig.router.lanes_mut()[0].step(1000);
    let bytes = |rig: &mut Rig, name: &str| rig.read(name).parse::<i64>().expect("a number");
    let (short, long) = (bytes(&mut rig, "short.byte_count"), bytes(&mut rig, "long.byte_count"));
    assert!((short - long).abs() <= 2000, "{short} {long}");
}

#[test]
fn a_pull_switch_lets_who_pulls_sleep() {
    let mut rig = rig("i :: InfiniteSource(LIMIT 4) -> ps :: PullSwitch(-1) -> d :: Discard; Idle -> [1]ps;");
    rig.router.lanes_mut()[0].step(20);
    assert_eq!((rig.read("d.scheduled"), rig.read("d.count")), ("false".into(), "0".into()));
    rig.write("ps.switch", "0").expect("a handler");
    assert_eq!(rig.read("d.scheduled"), "true");
    rig.router.lanes_mut()[0].step(20);
    assert_eq!((rig.read("d.scheduled"), rig.read("d.count")), ("false".into(), "4".into()));
    rig.write("i.reset", "").expect("a handler");
    rig.router.lanes_mut()[0].step(20);
    assert_eq!(rig.read("d.count"), "8", "woken through the switch");
}

const STOP: &str = "Script(wait 10, write stop);";

#[test]
fn rated_unqueues_give_clicks_figures() {
    let arm = |i: u32, arguments: &str| {
        format!("InfiniteSource -> Queue(10) -> RatedUnqueue({arguments}) -> c{i} :: Counter -> Discard;")
    };
    let config = [
        arm(1, "RATE 2"),
        arm(2, "RATE 2, BURST_SIZE 50"),
        arm(3, "RATE 2, BURST_DURATION 25"),
        arm(4, "RATE 100, BURST_SIZE 1"),
        STOP.into(),
    ];
    let got = counts(&config.concat(), &["c1.count", "c2.count", "c3.count", "c4.count"]);
    assert!(matches!(got[..], [20 | 21, 69 | 70, 69 | 70, 909 | 910]), "{got:?}");
}

#[test]
fn bandwidth_rated_unqueues_give_clicks_figures() {
    let arm = |i: u32, arguments: &str| {
        format!(
            "InfiniteSource(LENGTH 100) -> Queue(10) -> BandwidthRatedUnqueue({arguments}) -> c{i} :: Counter -> Discard;"
        )
    };
    let config = [
        arm(1, "RATE 200Bps"),
        arm(2, "RATE 200Bps, BURST_BYTES 5000"),
        arm(3, "RATE 200Bps, BURST_DURATION 25"),
        arm(4, "RATE 10000Bps, BURST_BYTES 100"),
        STOP.into(),
    ];
    let got = counts(&config.concat(), &["c1.count", "c2.count", "c3.count", "c4.count"]);
    assert!(matches!(got[..], [21, 71, 71, 1001]), "{got:?}");
}

#[test]
fn rated_splitters_give_clicks_figures() {
    let arm = |i: u32, rate: u32, arguments: &str| {
        format!("InfiniteSource -> Queue(10) -> RatedUnqueue({rate}) -> r{i} :: RatedSplitter({arguments}) -> c{i} :: Counter -> Discard;
                 r{i}[1] -> Discard;")
    };
    let config = [arm(1, 10, "RATE 2"), arm(2, 10, "RATE 2, BURST_SIZE 50"), STOP.into()];
    let got = counts(&config.concat(), &["c1.count", "c2.count"]);
    assert!(matches!(got[..], [20, 69]), "{got:?}");
}

#[test]
fn sources_keep_their_pace() {
    let config = "RatedSource(RATE 100, LIMIT 500) -> a :: Counter -> Discard;
        TimedSource(0.5) -> b :: Counter -> Discard; RandomSource(64, LIMIT 5) -> c :: Counter -> Discard;
        RatedSource(DATA \"x\", RATE 10) -> d :: Counter -> Discard; Script(wait 2.2, write stop);";
    let got = counts(config, &["a.count", "b.count", "c.byte_count", "d.count"]);
    assert!((218..=222).contains(&got[0]) && got[1] == 4 && got[2] == 320, "{got:?}");
    assert!((22..=24).contains(&got[3]), "{got:?}");
}

#[test]
fn timed_pullers_pull_at_intervals() {
    let config = "InfiniteSource -> a :: Counter -> TimedSink(0.1);
        InfiniteSource -> TimedUnqueue(0.1, 5) -> b :: Counter -> Discard; Script(wait 1.05, write stop);";
    assert_eq!(counts(config, &["a.count", "b.count"]), [10, 55]);
}

#[test]
fn a_shaper_spreads_packets() {
    let config = "InfiniteSource -> s :: Shaper(100) -> a :: Counter -> TimedSink(1ms);
        InfiniteSource(LENGTH 100) -> BandwidthShaper(10000Bps) -> b :: Counter -> TimedSink(1ms);
        InfiniteSource -> Shaper(0) -> c :: Counter -> TimedSink(1ms); Script(wait 2, write stop);";
    let got = counts(config, &["a.count", "b.count", "c.count"]);
    assert!((198..=203).contains(&got[0]) && (198..=203).contains(&got[1]) && got[2] == 0, "{got:?}");
}

#[test]
fn delays_hold_packets_back() {
    let config =
        "RatedSource(RATE 1000, LIMIT 10) -> Queue -> DelayShaper(0.5) -> Unqueue -> a :: Counter -> Discard;
        RatedSource(RATE 1000, LIMIT 10) -> Queue -> DelayUnqueue(0.5) -> b :: Counter -> Discard;
        RatedSource(RATE 1000, LIMIT 10) -> Queue -> LinkUnqueue(0.5, 1MBps) -> c :: Counter -> Discard;";
    let before = format!("{config} Script(wait 0.4, write stop);");
    assert_eq!(counts(&before, &["a.count", "b.count", "c.count"]), [0, 0, 0]);
    let after = format!("{config} Script(wait 0.6, write stop);");
    assert_eq!(counts(&after, &["a.count", "b.count", "c.count"]), [10, 10, 10]);
}

#[test]
fn a_link_is_as_slow_as_its_bandwidth() {
    let config = "InfiniteSource(LENGTH 1000, LIMIT 1000) -> Queue -> LinkUnqueue(0.001, 10kBps) -> c :: Counter -> Discard;
        Script(wait 1.05, write stop);";
    assert_eq!(counts(config, &["c.count"]), [10]);
}

#[test]
fn queues_drop_what_they_should() {
    let config = |queue: &str, arms: &str| {
        format!(
            "RandomSource(10, LIMIT 8, STOP true) -> q :: {queue}(5) -> Unqueue(ACTIVE false) -> Discard; {arms}"
        )
    };
    let arm = "q[1] -> o :: Counter -> Discard;";
    for class in ["SimpleQueue", "NotifierQueue", "FrontDropQueue"] {
        let got = counts(&config(class, arm), &["q.length", "q.drops", "o.count", "q.highwater_length"]);
        assert_eq!(got, [5, 3, 3, 5], "{class}");
    }
    let mut rig = rig(&config("NotifierQueue", ""));
    rig.run();
    assert!(rig.printed().contains(": overflow\n"));
    rig.write("q.capacity", "2").expect("a handler");
    assert_eq!((rig.read("q.length"), rig.read("q.config")), ("2".into(), "2".into()));
}

#[test]
fn a_front_drop_queue_keeps_the_newest_and_a_mixed_queue_is_a_stack_as_well() {
    let source = "s :: InfiniteSource(\\<01>, LIMIT 3) -> c :: Counter(COUNT_CALL 3 t.active true) -> q;
        t :: InfiniteSource(\\<02>, LIMIT 2, ACTIVE false, STOP true)";
    let rest = "q -> Unqueue(ACTIVE true, LIMIT 2) -> h :: HashSwitch(0, 1) -> Discard; h[1] -> one :: Counter -> Discard;
        h[2] -> two :: Counter -> Discard; h[3] -> Discard;";
    let run = |queue: &str, input: u32| {
        let config =
            format!("q :: {queue}; {source} -> [{input}]q; {}", rest.replace("ACTIVE true", "ACTIVE false"));
        let config = config.replace("Unqueue", "u :: Unqueue");
        let mut rig = rig(&config);
        rig.router.lanes_mut()[0].step(50);
        rig.write("u.active", "true").expect("a handler");
        rig.router.lanes_mut()[0].step(50);
        (rig.read("one.count"), rig.read("two.count"))
    };
    assert_eq!(run("FrontDropQueue(2)", 0), ("0".into(), "2".into()));
    assert_eq!(run("Queue(2)", 0).0, "2");
    assert_eq!(run("MixedQueue(9)", 1), ("0".into(), "2".into()));
}

#[test]
fn packets_are_made_longer_and_shorter() {
    let lengths = |elements: &str| {
        let config = format!(
            "InfiniteSource(LENGTH 50, LIMIT 1, STOP true) -> {elements} -> c :: Counter -> Discard;"
        );
        counts(&config, &["c.byte_count"])[0]
    };
    assert_eq!(lengths("Strip(14) -> Unstrip(14)"), 50);
    assert_eq!(lengths("Truncate(44)"), 44);
    assert_eq!(lengths("Truncate(44) -> Pad"), 50);
    assert_eq!(lengths("Truncate(44) -> Pad(46)"), 46);
    assert_eq!(lengths("Pad(40)"), 50);
    assert_eq!(lengths("Resize(-8, 4)"), 46);
    assert_eq!(lengths("Resize(+4, -2)"), 52);
    assert_eq!(lengths("Resize(-80)"), 0);
    assert_eq!(lengths("SetCRC32"), 54);
    assert_eq!(lengths("SetCRC32 -> CheckCRC32"), 50);
    assert_eq!(lengths("SetCRC32 -> RandomBitErrors(1) -> CheckCRC32"), 0);
    assert_eq!(lengths("Unstrip(5000)"), 5050);
    assert_eq!(lengths("Unstrip(5000000)"), 0, "dropped");
    assert_eq!(lengths("Align(4, 2) -> SetAnnoByte(PAINT, 3) -> CheckPaint(3)"), 50);
    assert_eq!(lengths("CheckLength(49)"), 0);
}

#[test]
fn a_bypass_leads_another_way() {
    let config = "InfiniteSource(LIMIT 4, STOP true) -> Counter(COUNT_CALL 3 b.active true) -> b :: Bypass
            -> a :: Counter -> Discard; b[1] -> o :: Counter -> [1]b;";
    assert_eq!(counts(config, &["a.count", "o.count"]), [4, 2]);
}

#[test]
fn hubs_tees_suppressors_and_samples() {
    let source = "InfiniteSource(LIMIT 100, BURST 9, STOP true)";
    let got = counts(
        &format!(
            "{source} -> [1]h :: Hub; Idle -> h; Idle -> [2]h; h -> a :: Counter -> Discard; h[1] -> b :: Counter -> Discard; h[2] -> c :: Counter -> Discard;"
        ),
        &["a.count", "b.count", "c.count"],
    );
    assert_eq!(got, [100, 0, 100]);
    let got = counts(
        &format!("{source} -> t :: PullTee -> a :: Counter -> Discard; t[1] -> b :: Counter -> Discard;"),
        &["a.count", "b.count"],
    );
    assert_eq!(got, [100, 100]);
    let mut rig = rig(&format!("{source} -> s :: Suppressor -> d :: Discard;"));
    rig.write("s.active0", "false").expect("a handler");
    rig.run();
    assert_eq!((rig.read("d.count"), rig.read("s.active0")), ("0".into(), "false".into()));
    let sample = |p: &str| {
        counts(&format!("{source} -> s :: RandomSample({p}) -> a :: Counter -> Discard;"), &["a.count"])[0]
    };
    assert_eq!((sample("1"), sample("0"), sample("DROP 1")), (100, 0, 0));
    assert!((15..=85).contains(&sample("0.5")));
}

#[test]
fn a_clipboard_copies_bytes() {
    let config = "c :: Clipboard(0/1, 2/1); InfiniteSource(\\<0a0b0c>, LIMIT 1) -> c -> Discard;
        TimedSource(0.1, \\<010101>, LIMIT 1, STOP true) -> [1]c; c[1] -> h :: Classifier(0/0a010c, -) -> a :: Counter
        -> Discard; h[1] -> Discard;";
    assert_eq!(counts(config, &["a.count"]), [1]);
}

#[test]
fn nothing_here_minds_what_a_packet_holds() {
    let elements = [
        "Unstrip(14)",
        "Truncate(7)",
        "Pad(60)",
        "Resize(-9, 5)",
        "Resize(9, -5)",
        "HashSwitch(3, 9)",
        "Align(4, 0)",
        "CheckLength(4)",
        "SetAnnoByte(0, 1)",
        "RandomBitErrors(0.3)",
        "SetCRC32",
        "CheckCRC32",
        "Bypass",
        "Suppressor",
        "RandomSample(0.5)",
        "RatedSplitter(5)",
        "BandwidthRatedSplitter(500)",
        "Strip(3)",
        "RoundRobinSwitch",
        "RandomSwitch",
        "StrideSwitch(1)",
        "Switch",
        "StaticSwitch(0)",
        "InputSwitch",
    ];
    for element in elements {
        for length in [0, 1, 3, 4, 8, 13, 60, 2048] {
            let config = format!("RandomSource({length}, LIMIT 9, STOP true) -> {element} -> Discard;");
            rig(&config).run();
        }
    }
}

#[test]
fn copies_and_fragments_have_the_headers_that_were_stripped() {
    let frame = "000102030405 060708090A0B 0800 45000044000000004011B5A50A0000010A000002";
    let config = format!(
        "InfiniteSource(DATA \\<{frame} {}>, LIMIT 1, STOP true) -> Strip(14) -> CheckIPHeader(CHECKSUM false)
         -> t :: Tee -> Unstrip(14) -> Print(a, 14) -> Discard;
         t[1] -> IPFragmenter(48) -> Unstrip(14) -> Print(b, 14) -> Discard;
         t[2] -> Queue -> Unqueue -> pt :: PaintTee(0) -> Discard; pt[1] -> Unstrip(14) -> Print(c, 14) -> Discard;",
        "00".repeat(48)
    );
    let mut rig = crate::Rig::new(&config).expect("a router");
    let printed = rig.run().printed();
    let header = " | 00010203 04050607 08090a0b 0800\n";
    assert_eq!(printed.matches(header).count(), 1 + 2 + 1, "{printed}");
}
