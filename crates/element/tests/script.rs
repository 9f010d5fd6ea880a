//! Scripts: instructions, variables, functions, and when they run.

use element::fixture::Rig;

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
    assert_eq!(said, "c.count:\n7\n\n9\n");
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
