//! Handlers by name, with parameters, and configurations written while a router runs.

use crate::Rig;

fn rig(config: &str) -> Rig {
    Rig::new(config).expect("a configuration")
}

fn refusal(rig: &mut Rig, name: &str, value: &str) -> String {
    rig.write(name, value).expect_err("refused").to_string()
}

#[test]
fn a_configuration_is_replaced_while_the_router_runs() {
    let mut rig = rig(
        "i :: InfiniteSource(LIMIT 10) -> p :: Paint(2) -> s :: CheckPaint(5) -> c :: Counter -> Discard;
         Script(wait 1, write p.config 5, write i.limit 25, wait 1, stop)",
    );
    rig.run();
    assert_eq!(rig.read("c.count"), "15", "those that were painted otherwise before are not");
    assert_eq!((rig.read("p.config"), rig.read("p.color")), ("5".into(), "5".into()));
    assert_eq!(refusal(&mut rig, "p.config", "red"), "COLOR: invalid number");
    assert_eq!(rig.read("p.config"), "5", "what is wrong changes nothing");
    assert_eq!(refusal(&mut rig, "c.config", "5"), "no 'c.config' write handler");
}

#[test]
fn an_expression_is_read_and_replaced_by_the_number_of_its_output() {
    let mut rig = rig("Idle -> c :: IPClassifier(src 10.0.0.1 and tcp, TCP opt ack, -); \
         c[0], c[1], c[2] -> Discard; Idle -> f :: IPFilter(allow tcp) -> Discard");
    let read = |rig: &mut Rig| [0, 1, 2].map(|output| rig.read(&format!("c.pattern{output}")));
    assert_eq!(read(&mut rig), ["src 10.0.0.1 and tcp", "TCP opt ack", "-"]);
    rig.write("c.pattern1", "udp").expect("an expression in the place of what looks like a keyword");
    assert_eq!(read(&mut rig), ["src 10.0.0.1 and tcp", "udp", "-"]);
    assert_eq!(rig.read("c.config"), "src 10.0.0.1 and tcp, udp, -");
    let program = rig.read("c.program");
    assert!(program.contains("/00110000%00ff0000"), "{program}");
    assert!(refusal(&mut rig, "c.pattern0", "what 5").contains("pattern 0: "));
    assert_eq!((read(&mut rig)[0].as_str(), rig.read("c.program")), ("src 10.0.0.1 and tcp", program));
    assert_eq!(refusal(&mut rig, "c.pattern3", "-"), "no 'c.pattern3' write handler");
    assert_eq!(refusal(&mut rig, "f.pattern0", "-"), "no 'f.pattern0' write handler");
}

#[test]
fn headers_are_others_once_their_elements_have_another_configuration() {
    let mut rig = rig("Idle -> i :: IPEncap(6, 1.2.3.4, 5.6.7.8) -> d :: SetIP6DSCP(3) -> Discard");
    rig.write("i.config", "17, 4.3.2.1, 8.7.6.5").expect("as in Click");
    assert_eq!((rig.read("i.src"), rig.read("i.dst")), ("4.3.2.1".into(), "8.7.6.5".into()));
    assert!(refusal(&mut rig, "i.config", "17, 4.3.2.1").contains("DST: required argument missing"));
    rig.write("d.config", "5").expect("as in Click");
    assert_eq!((rig.read("d.dscp"), rig.read("i.src")), ("5".into(), "4.3.2.1".into()));
}

#[test]
fn another_host_asks_anew_who_has_its_neighbors_addresses() {
    let mut rig = rig("Idle -> q :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1) -> Discard; Idle -> [1] q");
    rig.write("q.insert", "10.0.0.9 2:0:0:0:0:9").expect("an entry");
    rig.write("q.config", "10.0.0.1/16, 2:0:0:0:0:1, ENTRY_CAPACITY 1").expect("the same host");
    assert_eq!([rig.read("q.count"), rig.read("q.broadcast")], ["1", "10.0.255.255"]);
    rig.write("q.insert", "10.0.0.8 2:0:0:0:0:8").expect("another in its place");
    assert_eq!(rig.read("q.count"), "1");
    rig.write("q.config", "10.0.0.2/24, 2:0:0:0:0:1").expect("another host");
    assert_eq!([rig.read("q.count"), rig.read("q.ipaddr")], ["0", "10.0.0.2"]);
    assert!(refusal(&mut rig, "q.config", "10.0.0.2/24, x").contains("ETH: "));
}

#[test]
fn all_copies_of_an_element_take_the_new_configuration() {
    let config =
        "a :: InfiniteSource(LIMIT 1000) -> p :: Paint(2) -> s :: CheckPaint(5) -> c :: Counter -> Discard;
        b :: InfiniteSource(LIMIT 1000) -> p; StaticThreadSched(a 0, b 1);
        Script(write p.config 5, write a.reset, write b.reset, wait 0.3, stop)";
    let config = config.replace("LIMIT 1000", "LIMIT 1000, ACTIVE false").replace("reset", "active true");
    let mut rig = Rig::with_threads(&config, 2).expect("a configuration");
    rig.run();
    assert_eq!(rig.read("c.count"), "2000");
}

#[test]
fn a_header_is_another_in_all_threads_or_in_none() {
    let config = "a :: InfiniteSource(LIMIT 100) -> i :: IPEncap(6, 1.2.3.4, 5.6.7.8);
        b :: InfiniteSource(LIMIT 100) -> i; StaticThreadSched(a 0, b 1);
        i -> c :: IPClassifier(src 9.9.9.9, -) -> new :: Counter -> Discard;
        c [1] -> old :: Counter -> Discard; Script(wait 0.3, stop)";
    for (written, counts) in [("17, 9.9.9.9, 8.7.6.5", ["200", "0"]), ("17, 9.9.9.9", ["0", "200"])] {
        let mut rig = Rig::with_threads(config, 2).expect("a configuration");
        assert_eq!(rig.write("i.config", written).is_ok(), counts[0] == "200", "{written}");
        rig.run();
        assert_eq!([rig.read("new.count"), rig.read("old.count")], counts, "{written}");
    }
}

#[test]
fn switches_and_schedulers_take_another_configuration() {
    let mut rig = rig("Idle -> x :: PullSwitch(0) -> Unqueue -> Discard; Idle -> [1] x;
        Idle -> s :: StrideSched(1, 1) -> Unqueue -> Discard; Idle -> [1] s;
        a :: InfiniteSource(LIMIT 30) -> w :: StrideSwitch(1, 1) -> c :: Counter -> Discard;
        w [1] -> d :: Counter -> Discard; Script(wait 0.1, stop)");
    rig.write("w.config", "2, 1").expect("as in Click");
    rig.run();
    assert_eq!([rig.read("c.count"), rig.read("d.count")], ["20", "10"]);
    rig.write("x.config", "1").expect("as in Click");
    assert_eq!([rig.read("x.switch"), rig.read("x.config")], ["1", "1"]);
    rig.write("s.config", "3, 0").expect("as in Click");
    assert_eq!([rig.read("s.tickets0"), rig.read("s.tickets1")], ["3", "0"]);
    assert!(refusal(&mut rig, "s.config", "3").contains("need 2 arguments"));
    assert_eq!(rig.read("s.tickets0"), "3");
}

#[test]
fn a_pulled_input_that_has_packets_wakes_who_pulls_once_it_is_configured() {
    let mut rig = rig("Idle -> x :: PullSwitch(0) -> Unqueue -> c :: Counter -> Discard;
        InfiniteSource(LIMIT 7) -> Queue -> [1] x; Script(wait 0.1, write x.config 1, wait 0.1, stop)");
    rig.run();
    assert_eq!(rig.read("c.count"), "7");
}

#[test]
fn a_source_of_random_packets_begins_to_count_anew() {
    let mut rig = rig("r :: RandomSource(60, LIMIT 5) -> c :: Counter -> Discard;
        Script(wait 0.1, write c.reset, write r.config LENGTH 70, print $(r.length) $(r.count),
               wait 0.1, print $(c.count), write r.limit 3, write r.active true, wait 0.1, stop)");
    rig.run();
    assert_eq!(rig.printed(), "70 0\n0\n");
    assert_eq!([rig.read("r.count"), rig.read("c.byte_count")], ["3", "210"]);
}

#[test]
fn a_seed_that_is_configured_draws_the_same_numbers_again() {
    let mut rig = rig("s :: RandomSeed(5); Script(set a $(random 1000000), write s.config 5,
        print $(eq $a $(random 1000000)), write s.config 6, print $(eq $a $(random 1000000)), stop)");
    rig.run();
    assert_eq!((rig.printed(), rig.read("s.seed")), ("true\nfalse\n".into(), "6".into()));
}

#[test]
fn a_table_with_another_configuration_knows_what_it_knew() {
    let mut rig = rig("t :: ARPTable(TIMEOUT 0); Script(write t.insert 10.0.0.9 2:0:0:0:0:9,
        wait 1000, print $(t.count), write t.config TIMEOUT 10, print $(t.count), wait 40, print $(t.count),
        stop)");
    rig.run();
    assert_eq!(rig.printed(), "1\n1\n0\n");
    rig.write("t.config", "ENTRY_CAPACITY 1").expect("as in Click");
    for address in ["10.0.0.8", "10.0.0.7"] {
        rig.write("t.insert", &format!("{address} 2:0:0:0:0:8")).expect("an entry");
    }
    assert_eq!(rig.read("t.count"), "1");
}

#[test]
fn arguments_that_are_written_alone_keep_the_others() {
    let mut rig =
        rig("Idle -> r :: Resize(1, 2) -> q :: Queue(7) -> e :: RandomBitErrors(0.25, KIND set) -> Discard");
    rig.write("r.head", "-3").expect("a number");
    rig.write("r.tail", "9").expect("a number");
    assert_eq!((rig.read("r.head"), rig.read("r.tail")), ("-3".into(), "9".into()));
    assert_eq!(rig.read("r.config"), "1, 2", "data are not configuration");
    rig.write("q.capacity", "5").expect("a number");
    assert_eq!((rig.read("q.capacity"), rig.read("q.config")), ("5".into(), "5".into()));
    rig.write("e.error_kind", "clear").expect("a kind");
    assert_eq!(rig.read("e.config"), "0.25, KIND clear");
    assert!(refusal(&mut rig, "e.error_kind", "eat").contains("bad action 'eat'"));
}

#[test]
fn a_smaller_queue_drops_its_last_packets_and_does_not_count_them() {
    let mut rig = rig("InfiniteSource(LIMIT 10) -> q :: SimpleQueue(5) -> Idle; Script(wait 1, stop)");
    rig.run();
    rig.write("q.capacity", "3").expect("a number");
    assert_eq!((rig.read("q.length"), rig.read("q.drops")), ("3".into(), "5".into()));
    assert!(rig.printed().contains("q :: SimpleQueue: overflow\n"), "{}", rig.printed());
}

#[test]
fn handlers_are_listed_with_what_they_are() {
    let mut rig =
        rig("i :: InfiniteSource -> p :: Paint(1) -> Discard; s :: Script(TYPE PASSIVE, export x 3)");
    assert!(rig.read("p.handlers").ends_with("handlers\tr.\nports\tr.\nconfig\trw.\nclass\tr.\nname\tr.\n"));
    let listed = rig.read("s.handlers");
    assert!(
        listed.contains("run\trw+\n") && listed.contains("add\tr+\n") && listed.contains("x\tr\n"),
        "{listed}"
    );
    assert!(!listed.contains("cat"), "a script's own: {listed}");
    assert!(!rig.read("handlers").contains("hotconfig"), "it cannot be replaced");
    assert_eq!((rig.read("driver"), rig.read("timewarp")), ("userlevel".into(), "simulation".into()));
}

#[test]
fn names_are_found_as_click_finds_them() {
    let mut rig = rig("elementclass Two { s :: Script(TYPE PASSIVE, return $(c.count) $(name)); c :: Counter;
             input -> c -> output }
         Idle -> x :: Two -> c :: Counter -> Discard; Script(print $(x/s.run), print config, print $(.driver), stop)");
    rig.run();
    let own = "print $(x/s.run), print config, print $(.driver), stop";
    assert_eq!(rig.printed(), format!("0 x/s\n{own}\nuserlevel\n"));
    for (name, words) in [
        ("nobody.count", "refused: no element named 'nobody'"),
        ("c.nothing", "refused: no 'c.nothing' read handler"),
        ("c.reset", "refused: no 'c.reset' read handler"),
        ("nothing", "refused: no 'nothing' read handler"),
        ("c.", "refused: syntax error"),
    ] {
        assert_eq!(rig.read(name), words);
    }
    assert_eq!(refusal(&mut rig, "c.count", "1"), "no 'c.count' write handler");
    let asked = rig.router.read("c.count", "x").expect_err("refused").to_string();
    assert_eq!(asked, "read handler 'c.count' does not take parameters");
}

#[test]
fn tickets_multiply_through_compounds_and_are_pinned() {
    let mut rig = rig("elementclass C { i :: InfiniteSource(LIMIT 0) -> output; ScheduleInfo(i 0.5) }
         c :: C -> Discard; ScheduleInfo(c 4); Script(write c/i.tickets 0, print c/i.tickets, stop)");
    assert_eq!(rig.read("c/i.tickets"), "2048");
    rig.run();
    let said = "While executing 'Script@4 :: Script':\n  While calling 'c/i.tickets 0':\n    warning: tickets pinned at 1\n1\n";
    assert_eq!(rig.printed(), said);
}

#[test]
fn threads_are_given_by_compound_and_shared_out() {
    let two = |config: &str| Rig::with_threads(config, 2).expect("a configuration");
    let mut rig = two(
        "elementclass C { i :: InfiniteSource(LIMIT 0) -> output } c :: C -> Discard; StaticThreadSched(c 1)",
    );
    assert_eq!(rig.read("c/i.home_thread"), "1");
    let mut rig = two(
        "a :: InfiniteSource(LIMIT 0) -> Discard; b :: InfiniteSource(LIMIT 0) -> Discard; BalancedThreadSched()",
    );
    assert_eq!((rig.read("a.home_thread"), rig.read("b.home_thread")), ("0".into(), "1".into()));
    assert_eq!(rig.write("a.home_thread", "9").expect_err("refused").to_string(), "bad thread");
    let mut rig = two("a :: InfiniteSource(LIMIT 0) -> Discard; StaticThreadSched(a 0/1)");
    assert_eq!(rig.read("a.home_thread"), "1", "a socket's core");
    for wrong in ["0/", "/1", "x/1", "0/1/1"] {
        let config = format!("a :: InfiniteSource(LIMIT 0) -> Discard; StaticThreadSched(a {wrong})");
        assert!(
            Rig::with_threads(&config, 2).is_err_and(|e| e.contains("THREAD: expected integer")),
            "{wrong}"
        );
    }
    let mut rig = two("a :: InfiniteSource(LIMIT 0) -> Discard; StaticThreadSched(a 7)");
    assert_eq!(rig.read("a.home_thread"), "0", "there is no such thread");
}
