//! A router in another one's place: what elements kept is there in the new one,
//! whatever the threads.
#![allow(clippy::unwrap_used)]

use crate::Rig;

fn rig(config: &str, threads: usize) -> Rig {
    Rig::with_threads(config, threads).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A router of the same configuration that took the place of another.
fn swapped(config: &str, threads: (usize, usize), before: impl FnOnce(&mut Rig)) -> Rig {
    let mut old = rig(config, threads.0);
    old.router.begin();
    before(&mut old);
    let mut new = rig(config, threads.1);
    new.router.take_over(&mut old.router);
    old.router.cleanup();
    drop(old);
    new.router.begin();
    new
}

/// Lets lanes run in turn.
fn step(rig: &mut Rig, rounds: usize) {
    for _ in 0..rounds {
        rig.router.lanes_mut().iter_mut().for_each(|lane| lane.step(1));
    }
}

const THREADS: [(usize, usize); 5] = [(1, 1), (2, 2), (2, 1), (1, 2), (3, 3)];

#[test]
fn what_neighbours_said_is_still_known() {
    let config = "a :: InfiniteSource(ACTIVE false) -> q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1) -> Discard;
         b :: InfiniteSource(ACTIVE false) -> q; c :: InfiniteSource(ACTIVE false) -> q; Idle -> [1]q;
         d :: InfiniteSource(ACTIVE false) -> n :: IP6NDSolicitor(fe80::1, 2:0:0:0:0:1) -> Discard;
         e :: InfiniteSource(ACTIVE false) -> n; f :: InfiniteSource(ACTIVE false) -> n; Idle -> [1]n;
         StaticThreadSched(a 0, b 1, c 2, d 0, e 1, f 2)";
    for threads in THREADS {
        let mut rig = swapped(config, threads, |old| {
            old.write("q.insert", "10.0.0.2 2:0:0:0:0:2").unwrap();
            old.write("n.insert", "fe80::2 2:0:0:0:0:3").unwrap();
        });
        for (table, address) in [("q.table", "02-00-00-00-00-02"), ("n.table", "02-00-00-00-00-03")] {
            let known = rig.read(table);
            assert!(known.contains(address), "{threads:?}: {table}: {known:?}");
        }
    }
}

#[test]
fn ports_of_a_bridge_stay_open() {
    let config = |address: &str| {
        format!(
            "t :: EtherSpanTree({address}, i, o, s); i, o :: Suppressor; s :: EtherSwitch;
             Idle -> [0]t[0] -> Discard; Idle -> [0]i[0] -> [0]s[0] -> [0]o[0] -> Discard;
             Idle -> [1]t[1] -> Discard; Idle -> [1]i[1] -> [1]s[1] -> [1]o[1] -> Discard"
        )
    };
    for (address, state, gate) in
        [("2:0:0:0:0:1", "forwarding", "true"), ("2:0:0:0:0:2", "listening", "false")]
    {
        let mut old = rig(&config("2:0:0:0:0:1"), 1);
        old.router.begin();
        step(&mut old, 200);
        assert_eq!(old.read("t.states"), "0 forwarding\n1 forwarding\n");
        let mut new = rig(&config(address), 1);
        new.router.take_over(&mut old.router);
        assert_eq!(new.read("t.states"), format!("0 {state}\n1 {state}\n"), "{address}");
        let gates = ["i.active0", "i.active1", "o.active0", "o.active1"].map(|name| new.read(name));
        assert_eq!(gates, [gate; 4], "{address}");
    }
}

#[test]
fn packets_on_their_way_arrive() {
    // Each holds packets that came before the change.
    for (held, limit) in [
        ("Queue(100) -> g :: Unqueue(ACTIVE false)", 20),
        ("p :: Pipeliner(DIRECT_TRAVERSAL false, ACTIVE false, NOUSELESS true)", 20),
        ("Queue(100) -> LinkUnqueue(1ms, 1Mbps)", 20),
        ("Queue(100) -> DelayUnqueue(1ms)", 20),
        ("Queue(100) -> DelayShaper(1ms) -> Unqueue", 20),
        ("Queue(100) -> d :: DRRSched(60) -> Unqueue", 20),
    ] {
        for threads in [(1, 1), (2, 2), (2, 1)] {
            let config = format!(
                "s :: InfiniteSource(LIMIT {limit}, BURST 5, ACTIVE false) -> {held} -> c :: Counter -> k :: Discard;
                 StaticThreadSched(p 1); p2 :: Null; Idle -> p2 -> Discard"
            );
            let config =
                if held.starts_with('p') { config } else { config.replace("StaticThreadSched(p 1);", "") };
            let mut rig = swapped(&config, threads, |old| {
                old.write("s.active", "true").unwrap();
                step(old, 8);
                assert_eq!(old.read("s.count"), limit.to_string(), "{held}");
            });
            for handler in ["g.active", "p.active"] {
                let _ = rig.write(handler, "true");
            }
            std::thread::sleep(std::time::Duration::from_millis(if threads.1 > 1 { 30 } else { 0 }));
            step(&mut rig, 400);
            let count = rig.read("c.count");
            assert_eq!(count, limit.to_string(), "{held}, {threads:?}");
            assert_eq!(rig.read("k.count"), count, "{held}, {threads:?}: Discard's count");
        }
    }
}

#[test]
fn fragments_wait_for_the_rest() {
    let piece = |at: &str| {
        let lines = format!(
            "!data ip_src ip_dst ip_proto ip_id ip_fragoff payload\\n1.0.0.1 2.0.0.2 U 7 {at} 01234567\\n"
        );
        format!("FromIPSummaryDump(DATA \"{lines}\", CHECKSUM true)")
    };
    // Both of simulated time, or of the true one.
    for threads in [(1, 1), (2, 2), (3, 2)] {
        let config = |at| format!("{} -> r :: IPReassembler -> c :: Counter -> Discard", piece(at));
        let mut old = rig(&config("0+"), threads.0);
        old.router.begin();
        // Simulated time runs on, and after a while a packet is given up.
        let rounds = |threads: usize| if threads > 1 { 200 } else { 2 };
        step(&mut old, rounds(threads.0));
        assert_eq!(old.read("r.length"), "1", "{threads:?}");
        let mut new = rig(&config("16"), threads.1);
        new.router.take_over(&mut old.router);
        old.router.cleanup();
        drop(old);
        new.router.begin();
        step(&mut new, rounds(threads.1));
        assert_eq!((new.read("r.length"), new.read("c.count")), ("0".into(), "1".into()), "{threads:?}");
    }
}

#[test]
fn counts_go_on() {
    // A source waits for a Queue that is full, and nothing is dropped.
    for (queue, drops) in [("SimpleQueue", "30"), ("Queue", "0")] {
        let config = format!(
            "s :: InfiniteSource(LIMIT 50, BURST 5) -> q :: {queue}(20) -> Unqueue(ACTIVE false) -> Discard"
        );
        for threads in THREADS {
            let mut rig = swapped(&config, threads, |old| step(old, 20));
            let counts = ["q.drops", "q.length", "q.highwater_length"].map(|handler| rig.read(handler));
            assert_eq!(counts, [drops, "20", "20"], "{queue}, {threads:?}");
        }
    }
}

/// The first router holds packets that its elements have pulled, or that wait for others.
#[test]
fn what_is_held_for_its_turn_goes_on_in_the_new_router() {
    let sorted = |limit| {
        format!(
            "InfiniteSource(LIMIT 20, BURST 20) -> SetTimestamp -> q :: Queue -> t :: TimeSortedSched(BUFFER 10)
             -> u :: Unqueue(LIMIT {limit}) -> c :: Counter -> Discard"
        )
    };
    let line = "!data timestamp ip_src ip_dst ip_proto ip_id ip_fragoff sport dport";
    let flows = |packets: &str| {
        format!(
            "FromIPSummaryDump(DATA \"{line}\\n{packets}\", CHECKSUM true)
             -> f :: AggregateIPFlows(FRAGMENTS true) -> c :: Counter -> Discard"
        )
    };
    let later = "1 1.0.0.1 2.0.0.2 U 7 16 - -\\n";
    let first = "1 1.0.0.1 2.0.0.2 U 7 0+ 5 6\\n100 1.0.0.1 2.0.0.2 U 8 0 5 6\\n";
    for (before, after, then, now) in
        [(sorted(1), sorted(-1), "1", "20"), (flows(later), flows(first), "0", "3")]
    {
        let mut old = rig(&before, 1);
        old.router.begin();
        step(&mut old, 60);
        assert_eq!(old.read("c.count"), then, "{before}");
        let mut new = rig(&after.replacen("InfiniteSource(LIMIT 20", "InfiniteSource(LIMIT 0", 1), 1);
        new.router.take_over(&mut old.router);
        old.router.cleanup();
        drop(old);
        new.router.begin();
        step(&mut new, 200);
        assert_eq!(new.read("c.count"), now, "{after}");
    }
}
