//! Packets kept and sent again, handed from thread to thread, and state that a new
//! configuration takes over.

use crate::Rig;

fn rig(config: &str) -> Rig {
    Rig::new(config).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_replay_sends_what_it_took_in_over_and_over() {
    let mut rig = rig(
        "InfiniteSource(DATA abc, LIMIT 10) -> r :: ReplayUnqueue(STOP 3, LIMIT 4) -> c :: Counter -> Discard",
    );
    rig.run();
    assert_eq!((rig.read("c.count"), rig.read("c.byte_count")), ("12".into(), "36".into()));
    assert_eq!(
        (rig.read("r.kept"), rig.read("r.loaded"), rig.read("r.stop")),
        ("4".into(), "true".into(), "0".into())
    );
}

#[test]
fn a_replay_keeps_the_packets_time() {
    let file = std::env::temp_dir().join(format!("ixora-replay-{}", std::process::id()));
    std::fs::write(&file, "!data timestamp ip_src\n1 1.0.0.1\n3 1.0.0.2\n4 1.0.0.3\n").expect("a file");
    // Twice as fast: the second after one second, the third after one and a half.
    let mut rig = rig(&format!(
        "FromIPSummaryDump({}) -> r :: ReplayUnqueue(STOP 1, TIMING 200) -> c :: Counter -> Discard;
         DriverManager(wait 0.9s, print c.count, wait 0.2s, print c.count, wait 0.3s, print c.count, wait)",
        file.display()
    ));
    rig.run();
    std::fs::remove_file(&file).expect("there");
    assert_eq!(rig.printed().split_whitespace().collect::<String>(), "122");
    assert_eq!(rig.read("c.count"), "3");
}

#[test]
fn a_pulled_replay_ends_too() {
    let mut rig =
        rig("InfiniteSource(LIMIT 5) -> r :: Replay(STOP 4) -> u :: Unqueue(8) -> c :: Counter -> Discard");
    rig.run();
    assert_eq!(rig.read("c.count"), "20");
}

#[test]
fn inputs_of_a_replay_are_merged_by_their_time() {
    let mut rig =
        rig("InfiniteSource(DATA a, LIMIT 2) -> SetTimestamp(1) -> [0]r :: MultiReplayUnqueue(STOP 1);
         InfiniteSource(DATA b, LIMIT 3) -> SetTimestamp(2) -> [1]r;
         r[0] -> Print(A, MAXLENGTH 1) -> Discard; r[1] -> Print(B, MAXLENGTH 1) -> Discard");
    rig.run();
    // When the first input is dry there is no more to merge.
    assert_eq!(rig.printed().matches("A:").count(), 2);
    assert_eq!(rig.printed().matches("B:").count(), 0);
}

#[test]
fn a_pipeliner_hands_packets_to_its_thread() {
    let mut rig = Rig::with_threads(
        "a :: InfiniteSource(LIMIT 20000, BURST 32) -> ca :: Counter -> p :: Pipeliner(CAPACITY 100000) -> s :: CPUSwitch;
         s[0] -> d0 :: Counter -> Discard; s[1] -> d1 :: Counter -> Discard;
         StaticThreadSched(a 0, p 1);
         Script(wait 1ms, label x, goto done $(eq $(d1.count) 20000), wait 1ms, goto x, label done, stop);
         DriverManager(wait_time 20s)",
        2,
    )
    .unwrap_or_else(|error| panic!("{error}"));
    rig.run();
    assert_eq!(
        (rig.read("ca.count"), rig.read("d0.count"), rig.read("d1.count")),
        ("20000".into(), "0".into(), "20000".into())
    );
    assert_eq!((rig.read("p.count"), rig.read("p.dropped")), ("20000".into(), "0".into()));
}

#[test]
fn a_pipeliner_with_one_thread_is_not_there() {
    let mut rig = rig(
        "InfiniteSource(LIMIT 100, STOP true) -> p :: Pipeliner(NOUSELESS true) -> c :: Counter -> Discard",
    );
    rig.run();
    assert_eq!((rig.read("c.count"), rig.read("p.count")), ("100".into(), "0".into()));
}

#[test]
fn meters_go_by_the_rate() {
    let mut rig = rig(
        "RatedSource(DATA 1234567890, RATE 1000, LIMIT 8000, STOP true) -> t :: Tee;
         t[0] -> m :: Meter(500, 5000) -> a :: Counter -> Discard; m[1] -> b :: Counter -> Discard; m[2] -> c :: Counter -> Discard;
         t[1] -> n :: BandwidthMeter(20000Bps) -> d :: Counter -> Discard; n[1] -> e :: Counter -> Discard",
    );
    rig.run();
    let count = |rig: &mut Rig, name: &str| rig.read(name).parse::<u64>().expect("a number");
    // It takes a moment until the average is there.
    let (slow, fast) = (count(&mut rig, "a.count"), count(&mut rig, "b.count"));
    assert_eq!(slow + fast, 8000);
    assert_eq!(slow, 10, "as of Click's");
    assert_eq!((count(&mut rig, "c.count"), count(&mut rig, "e.count")), (0, 0));
    let rate: f64 = rig.read("m.rate").parse().expect("a number");
    assert!((rate - 1000.0).abs() < 50.0, "{rate}");
    assert!(Rig::new("m :: Meter(10, 5) -> Discard; Idle -> m; m[1] -> Discard; m[2] -> Discard").is_err());
}

#[test]
fn blocks_go_by_rates_that_were_noted() {
    let mut rig = rig(
        "InfiniteSource(LIMIT 10, STOP true) -> SetAnnoByte(20, 200) -> b :: Block(100) -> x :: Counter -> Discard;
         b[1] -> c :: CompareBlock(1, 1, 150) -> Discard; c[1] -> y :: Counter -> Discard",
    );
    rig.run();
    assert_eq!((rig.read("x.count"), rig.read("y.count")), ("0".into(), "10".into()));
    rig.write("b.thresh", "300").expect("a number");
    assert_eq!(rig.read("b.thresh"), "300");
}

#[test]
fn a_pulled_bypass_leads_back_to_itself() {
    let mut rig =
        rig("InfiniteSource(DATA x, LIMIT 4, STOP true) -> PullNull -> Counter(COUNT_CALL 3 b.active true)
         -> b :: Bypass -> Print(C) -> Discard; b[1] -> Print(D) -> [1]b");
    rig.run();
    let labels: String = rig.printed().lines().filter_map(|line| line.chars().next()).collect();
    assert_eq!(labels, "CCCDC");
}

/// A router of a new configuration in the place of an old one.
fn swap(old: &mut Rig, config: &str) -> Rig {
    let mut new = rig(config);
    new.router.take_over(&mut old.router);
    new
}

const SOURCE: &str =
    "i :: InfiniteSource(\\<4500001c 00000000 40110000 0a000001 02000002 03e80035 00080000>, LIMIT 3)
    -> MarkIPHeader -> [0]rw; Idle -> [1]rw; rw[0] -> Discard; rw[1] -> Discard;";

#[test]
fn flows_are_still_known_to_a_new_configuration() {
    let text = |spec: &str| format!("rw :: UDPRewriter({spec}, drop, REAP_INTERVAL 0); {SOURCE}");
    let mut old = rig(&text("pattern 1.0.0.1 5000-6000# - - 0 1"));
    old.router.lanes_mut()[0].step(50);
    let table = old.read("rw.table");
    assert!(table.contains("(1.0.0.1, 5000, 2.0.0.2, 53)"), "{table}");
    let mut same = swap(&mut old, &text("pattern 1.0.0.1 5000-6000# - - 0 1"));
    assert_eq!((same.read("rw.table"), same.read("rw.size")), (table, "1".into()));
    assert_eq!(old.read("rw.size"), "0", "they were given away");
    // Other addresses are not its own any more.
    let mut other = swap(&mut same, &text("pattern 9.0.0.9 5000-6000# - - 0 1"));
    assert_eq!(other.read("rw.size"), "0");
}

#[test]
fn a_switch_and_a_table_remember() {
    let switch = "s :: EtherSwitch; InfiniteSource(\\<ffffffffffff 020000000001 0800>, LIMIT 1) -> [0]s[0] -> Discard; Idle -> [1]s[1] -> Discard;
        t :: ARPTable";
    let mut old = rig(switch);
    old.router.lanes_mut()[0].step(20);
    old.write("t.insert", "10.0.0.1 1:2:3:4:5:6").expect("an entry");
    let mut new = swap(&mut old, &switch.replace("LIMIT 1", "LIMIT 0"));
    assert_eq!(new.read("s.table"), "02-00-00-00-00-01 0\n");
    let table = new.read("t.table");
    assert!(table.starts_with("10.0.0.1 1 01-02-03-04-05-06"), "{table}");
}
