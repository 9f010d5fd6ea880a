//! Scripts: instructions, variables, functions, and when they run.

use crate::Rig;

fn printed(config: &str) -> String {
    let mut rig = Rig::new(config).expect("a configuration");
    rig.run();
    rig.printed()
}

#[test]
fn functions_compute() {
    let said = printed(
        r#"Script(print $(add 1 2 3), print $(sub 10 2 2), print $(div 75 2.5 5), print $(idiv 60 2 5),
            print $(eq 01 1) $(lt a b), print $(if $(not true) x y), print $(sprintf "%05d|%-4s|%x" 42 ab 255),
            print $(htons $(ntohs 6)), print $(mod 7 4), print $(in b a b c), print $(and true 0), stop)"#,
    );
    assert_eq!(said, "6\n6\n6\n6\ntrue true\ny\n00042|ab  |ff\n6\n3\ntrue\nfalse\n");
}

#[test]
fn a_script_waits_and_reads_handlers() {
    let said = printed(
        "s :: InfiniteSource(LIMIT 7) -> c :: Counter -> Discard;
         Script(wait 1s, read c.count, write s.limit 9, wait 0.5, print c.count, stop)",
    );
    assert_eq!(said, "c.count:\n7\n9\n");
}

#[test]
fn a_driver_goes_on_when_the_router_would_stop() {
    let said = printed(
        "s :: InfiniteSource(LIMIT 7, STOP true) -> c :: Counter -> Discard;
         DriverManager(wait, print c.count, write s.limit 8, wait 1s, print c.count)",
    );
    assert_eq!(said, "7\n8\n");
}

#[test]
fn a_passive_script_is_a_function() {
    let said = printed(
        "f :: Script(TYPE PASSIVE, return $(add $1 $2));
         loop :: Script(TYPE PASSIVE, init i 0, label l, set i $(add $i 1), goto l $(lt $i $1), return $i);
         Script(print $(f.run 3 4), print $(loop.run 10), stop)",
    );
    assert_eq!(said, "7\n10\n");
}

#[test]
fn an_endless_loop_is_given_up() {
    let said = printed("s0 :: Script(label a, goto a); s1 :: Script(wait 1, stop);");
    assert_eq!(said, "s0 :: Script: too many jumps, giving up\n");
    let said = printed("a :: Script(TYPE PASSIVE, return $(a.run)); Script(set x $(a.run), stop)");
    assert!(said.starts_with("a :: Script: too many jumps"), "{said}");
}

#[test]
fn variables_are_set_and_shifted() {
    let said = printed(
        "Script(write set v foo bar baz, print $(shift v), print $(get v), set w \"a b\", print \"<$w>\", stop)",
    );
    assert_eq!(said, "foo\nbar baz\n<\"a b\">\n");
}

#[test]
fn a_packet_script_chooses_outputs() {
    let mut rig = Rig::new(
        "InfiniteSource(LIMIT 9, STOP true) -> s :: Script(TYPE PACKET, init i 0, set j $i,
             set i $(mod $(add $i 1) 3), return $j) -> a :: Counter -> Discard; s[1] -> b :: Counter -> Discard;",
    )
    .expect("a configuration");
    rig.run();
    assert_eq!((rig.read("a.count"), rig.read("b.count")), ("3".into(), "3".into()));
}

#[test]
fn errors_are_told() {
    let said = Rig::new("Script(walk 3)").err().expect("refused");
    assert!(said.contains("syntax error at 'walk'"), "{said}");
    let said = Rig::new("Script(goto nowhere)").err().expect("refused");
    assert!(said.contains("no such label 'nowhere'"), "{said}");
    assert!(printed("Script(read x.y, stop)").contains("no element named 'x'"));
}

#[test]
fn errors_stand_under_the_scripts_name_and_what_it_called() {
    let said = printed(
        "f :: Script(TYPE PASSIVE, print $(nope), return 3); Script(print $(f.run), read f.run, print $?, stop)",
    );
    let nested = "While calling 'f.run':\n    no 'nope' read handler\n";
    assert!(said.contains(&format!("  {nested}")), "{said}");
    assert!(said.contains("f.run:\n3\n"), "an error is no reason to say nothing: {said}");
    let said =
        printed("Script(print a.b, write stop 0, read Script@1.nope, print \"done$(Script@1.nope).\", stop)");
    let words = "While executing 'Script@1 :: Script':\n  no element named 'a'\n  no 'Script@1.nope' read handler\n  \
                 no 'Script@1.nope' read handler\n";
    let lines: String = said.lines().filter(|l| !l.starts_with("done")).map(|l| format!("{l}\n")).collect();
    assert_eq!(lines, words);
}

#[test]
fn what_a_write_came_to_is_known() {
    let said = printed(
        "f :: Script(TYPE PASSIVE, error no); c :: Counter; Idle -> c -> Discard;
         Script(write c.reset, print $?, write c.count_call x, print $?, write f.run, print $?, stop)",
    );
    let numbers: Vec<&str> =
        said.lines().filter(|l| l.trim_start_matches('-').parse::<u32>().is_ok()).collect();
    assert_eq!(numbers, ["0", "-22", "-1"], "{said}");
}

#[test]
fn a_proxy_answers_for_any_handler() {
    let said = printed(
        "s :: Script(TYPE PROXY, goto nota $(ne $0 a), returnq \"'a' <$args> $write\", label nota, error bad handler);
         Script(print $(s.a foo), print s.b, write s.a 3, read s.c.d, stop)",
    );
    assert!(said.starts_with("'a' <foo> false\n"), "{said}");
    assert!(said.contains("While calling 's.b':\n    bad handler\n"), "{said}");
    assert!(said.contains("While calling 's.c.d':\n    bad handler\n"), "{said}");
}

#[test]
fn a_packet_script_can_be_pulled_through() {
    let mut rig = Rig::new(
        "InfiniteSource(LIMIT 4) -> Queue -> s :: Script(TYPE PACKET, return 0) -> c :: Counter -> Unqueue -> Discard;
         Script(wait 1, stop)",
    )
    .expect("a configuration");
    rig.run();
    assert_eq!(rig.read("c.count"), "4");
}

#[test]
fn what_is_wrong_with_a_script_is_all_told() {
    let said = Rig::new("Script(walk, goto nowhere, end 3)").err().expect("refused");
    for words in ["syntax error at 'walk'", "syntax error at 'end'", "no such label 'nowhere'"] {
        assert!(said.contains(words), "{said}");
    }
    let said = Rig::new("DriverManager(stop); Script(TYPE DRIVER)").err().expect("refused");
    assert!(said.contains("router has more than one driver script"), "{said}");
    let said = Rig::new("Script(TYPE SIGNAL KILL)").err().expect("refused");
    assert!(said.contains("bad signal number"), "{said}");
    assert!(Rig::new("c :: Counter(COUNT_CALL 3 nobody.stop); Idle -> c -> Discard").is_err());
}

#[test]
fn a_driver_goes_through_what_it_has_to_do_when_the_router_is_halted() {
    let mut rig =
        Rig::new("d :: DriverManager(pause, print a, wait 100, print b, stop)").expect("a configuration");
    rig.router.shared().halt();
    rig.run();
    assert!(rig.printed().contains("no 'a' read handler") && rig.printed().contains("no 'b' read handler"));
}

#[test]
fn a_quit_watcher_stops_a_router_that_has_nothing_left_to_do() {
    let mut rig =
        Rig::new("i :: InfiniteSource(LIMIT 5) -> c :: Counter -> Discard; QuitWatcher(i)").expect("one");
    rig.run();
    assert_eq!(rig.read("c.count"), "5");
    assert!(
        Rig::new("i :: Idle -> Discard; QuitWatcher(i)")
            .err()
            .expect("refused")
            .contains("no 'i.scheduled' read")
    );
}

#[test]
fn sources_begin_and_end_as_clicks_do() {
    let times = |config: &str| {
        let config = format!(
            "{config} -> Print(x, MAXLENGTH 0, TIMESTAMP true) -> Discard; DriverManager(wait, print $(now))"
        );
        let said = printed(&config);
        let number = |line: &str| {
            line.trim_start_matches("x: ").split([':', ' ']).next().map(|t| t[9..12].to_string())
        };
        said.lines().filter_map(number).collect::<Vec<_>>()
    };
    // A second after the last packet the end is told; two packets wait at the beginning.
    assert_eq!(times("TimedSource(1, LIMIT 2, STOP true)"), ["1.0", "2.0", "3.0"]);
    assert_eq!(times("RatedSource(RATE 4, LIMIT 3, STOP true)"), ["0.0", "0.0", "0.2", "0.2"]);
}

#[test]
fn rates_and_spans_are_shown_with_their_units() {
    let mut rig = Rig::new(
        "Idle -> b :: BandwidthRatedUnqueue(1Mbps) -> Discard; t :: TimedSource -> Discard; Idle -> s :: Switch -> Discard;
         Idle -> l :: LinkUnqueue(1.5, 1Mbps) -> Discard; Idle -> r :: RandomSample(0.25) -> Discard",
    )
    .expect("a configuration");
    assert_eq!((rig.read("t.interval"), rig.read("l.latency")), ("500ms".into(), "1.500000s".into()));
    assert!(
        rig.read("b.rate").starts_with("1.000") && rig.read("b.rate").ends_with("Mbps"),
        "{}",
        rig.read("b.rate")
    );
    assert_eq!((rig.read("s.config"), rig.read("r.config")), ("0".into(), "SAMPLE 0.25, ACTIVE true".into()));
}
