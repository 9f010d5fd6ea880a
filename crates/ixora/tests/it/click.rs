//! `ixora click`, and `click` itself: flags, exit codes, output.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::output;

fn ixora(arguments: &[&str]) -> Output {
    output(Command::new(env!("CARGO_BIN_EXE_ixora")).arg("click").args(arguments))
}

fn click(arguments: &[&str]) -> Output {
    output(Command::new(env!("CARGO_BIN_EXE_click")).args(arguments))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const COUNTED: &str = "i :: InfiniteSource(LIMIT 1000, BURST 32, STOP true) -> c :: Counter -> d :: Discard;";

#[test]
fn handlers_are_printed_after_the_run() {
    let out = ixora(&["-e", COUNTED, "-h", "c.count"]);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(0), "1000\n".into()), "{}", text(&out.stderr));
    let out = ixora(&["-e", COUNTED, "-h", "*.count"]);
    assert_eq!(text(&out.stdout), "i.count:\n1000\n\nc.count:\n1000\n\nd.count:\n1000\n\n");
    let out = ixora(&["-e", COUNTED, "-h", "x.count"]);
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(1), "no element 'x'\n".into()));
}

#[test]
fn the_exit_status_can_be_a_handlers() {
    assert_eq!(ixora(&["-e", COUNTED, "-x", "i.burst"]).status.code(), Some(32));
    assert_eq!(ixora(&["-e", COUNTED, "-x", "i.active"]).status.code(), Some(0));
    assert_eq!(ixora(&["-e", COUNTED, "-x", "i.nothing"]).status.code(), Some(255));
}

#[test]
fn simulated_time_passes_for_more_than_one_thread() {
    let script = "Script(TYPE ACTIVE, wait 1s, print \"hi\", stop); Idle -> Discard";
    let out = ixora(&["--simtime", "-j", "2", "-e", script]);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(0), "hi\n".into()), "{}", text(&out.stderr));
}

#[test]
fn a_class_used_as_an_elements_name_is_one_error() {
    let compound = "elementclass Two { [0] -> Queue -> Unqueue -> [0]; [1] -> Discard; }";
    for config in [
        "Counter :: Null; Idle -> Counter -> Discard",
        "Idle -> Queue :: Counter -> Discard",
        &format!("{compound} Two :: Null; Idle -> Discard"),
        &format!("{compound} Idle -> Two :: Null -> Discard"),
        &format!("{compound} Idle -> Two :: Two -> Discard"),
        &format!("{compound} Idle -> Counter :: Two -> Discard"),
    ] {
        let out = ixora(&["--check", "-e", config]);
        assert_eq!(out.status.code(), Some(1), "{config}");
        let said = text(&out.stderr);
        assert!(said.matches(": error: ").count() == 1 && said.contains("used as element name"), "{said}");
        let said = text(&click(&["-q", "-e", config]).stderr);
        assert!(said.lines().count() <= 2 && said.contains("used as element name"), "{said}");
    }
}

/// What Click's tests compare is all that is on standard error.
#[test]
fn click_says_nothing_there_of_what_is_not_confined() {
    let words = ["-R", "-e", COUNTED];
    let said = text(&ixora(&words).stderr);
    assert!(said.contains("not confined as far as others are: -R"), "{said}");
    assert_eq!(text(&click(&words).stderr), "");
}

#[test]
fn a_wrong_configuration_is_told_with_its_place() {
    let out = ixora(&["-e", "Idle -> Cuonter -> Discard"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1));
    assert!(said.contains("config:1:9") && said.contains("Counter") && said.contains('^'), "{said}");
    let said = text(&click(&["-e", "Idle -> Cuonter -> Discard"]).stderr);
    assert!(said.starts_with("config:1: undeclared element 'Cuonter'"), "{said}");
}

#[test]
fn click_flatten_prints_what_click_reads() {
    let flatten = Path::new(env!("CARGO_BIN_EXE_click-flatten"));
    let config = "elementclass Two { input -> Queue(5) -> output } Idle -> Two -> Discard";
    let out = output(Command::new(flatten).args(["-e", config]));
    let flat = text(&out.stdout);
    assert!(flat.contains("Two@2/Queue@1 :: Queue(5);"), "{flat}");
    let again = output(Command::new(flatten).args(["-e", &flat]));
    assert_eq!(text(&again.stdout), flat);
}

#[test]
fn variables_come_from_the_command_line() {
    let config = "define($n 5) InfiniteSource(LIMIT $n, STOP true) -> c :: Counter -> Discard";
    assert_eq!(text(&ixora(&["-e", config, "-h", "c.count"]).stdout), "5\n");
    assert_eq!(text(&ixora(&["-e", config, "n=7", "-h", "c.count"]).stdout), "7\n");
}

#[test]
fn packets_go_from_a_model_to_a_model() {
    let config = "a :: FromDevice(\"model:82599,wire=gen:rate=100k\")
        -> c :: Counter(COUNT_CALL 5000 stop) -> t :: ToDevice(\"model:82599,wire=sink\", BLOCKING true);";
    let out = ixora(&["-e", config, "-h", "c.count", "-h", "t.count", "-h", "t.dropped"]);
    let said = text(&out.stdout);
    let value = |name: &str| {
        let after = said.split_once(&format!("{name}:\n")).map(|(_, after)| after);
        after.and_then(|a| a.lines().next()).and_then(|l| l.parse::<u64>().ok()).unwrap_or(0)
    };
    assert!(value("c.count") >= 5000, "{said}{}", text(&out.stderr));
    assert_eq!(value("c.count"), value("t.count") + value("t.dropped"));
}

/// A script that writes a new configuration goes on there: what it reads, writes and stops
/// is the new router's.
#[test]
fn a_script_goes_on_in_the_router_that_it_wrote() {
    let next = "InfiniteSource(LIMIT 7) -> c :: Counter -> Discard; n :: Script(TYPE PASSIVE, return new)";
    for (script, end) in [("Script(", "write stop)"), ("DriverManager(wait 0.1s, ", "label over)")] {
        let config = format!(
            "InfiniteSource(LIMIT 3) -> c :: Counter -> Discard; n :: Script(TYPE PASSIVE, return old);
             {script} set v here, print $(n.run), writeq hotconfig \"{next}\", print $(n.run) $v, wait 0.2s,
               read c.count, {end}"
        );
        let out = ixora(&["-R", "-e", &config, "-h", "c.count"]);
        let said = (out.status.code(), text(&out.stdout), text(&out.stderr));
        // Its counter goes on from where the old one was.
        let expected = (Some(0), "old\nnew here\n10\n".to_string());
        assert_eq!((said.0, said.1.clone()), expected, "{script}: {}", said.2);
        assert!(said.2.contains("c.count:\n10\n"), "{}", said.2);
    }
}

/// A driver's script that wrote a configuration stops no router that has a driver's script
/// itself; what the configuration reads as does not tell of what goes on in it.
#[test]
fn a_driver_that_goes_on_leaves_the_end_to_the_new_driver() {
    let next =
        "RatedSource(RATE 1000) -> c :: Counter -> Discard; DriverManager(wait 0.5s, print $(c.count), stop)";
    let config = format!(
        "InfiniteSource(LIMIT 3) -> Discard;
         DriverManager(wait 0.1s, writeq hotconfig \"{next}\", print flatconfig)"
    );
    let out = ixora(&["-R", "-e", &config]);
    let said = text(&out.stdout);
    assert!(said.contains("DriverManager(wait 0.5s") && !said.contains("continued"), "{said}");
    let count = said.lines().last().and_then(|line| line.parse::<u64>().ok());
    assert!(count.is_some_and(|count| count > 200), "{said}{}", text(&out.stderr));
}

#[test]
fn what_waits_and_is_not_taken_over_by_the_new_configuration_is_told_of() {
    let fragment = "45000024 00012000 40110000 01000001 01000002 00010002 00000000 00000000 00000000";
    let merged = "w :: MultiReplayUnqueue; Idle -> Queue -> [1]w; w[1] -> Discard; \
                  InfiniteSource(LIMIT 3) -> Queue(9) -> w";
    let fragment = format!("InfiniteSource(DATA \\<{fragment}>, LIMIT 1) -> MarkIPHeader");
    for (waiting, element, packets, next) in [
        ("InfiniteSource(LIMIT 50) -> w :: Queue(100) -> Unqueue(ACTIVE false)", "Queue", 50, "Idle"),
        ("InfiniteSource(LIMIT 3) -> Queue(9) -> w :: LinkUnqueue(10s, 1Gbps)", "LinkUnqueue", 3, "Idle"),
        (&format!("{fragment} -> w :: IPReassembler"), "IPReassembler", 1, "Idle"),
        (merged, "MultiReplayUnqueue", 1, "Idle"), // waits for one of the other input
        (
            &format!("{fragment} -> AggregateIP(ip dst) -> w :: AggregateLast"),
            "AggregateLast",
            1,
            "Idle -> w :: AggregateLast",
        ),
    ] {
        let config = format!(
            "{waiting} -> Discard;
             Script(wait 0.1s, writeq hotconfig \"{next} -> Discard\", wait 0.1s, write stop)"
        );
        let out = ixora(&["-R", "-e", &config]);
        let said = text(&out.stderr);
        let told = format!("w :: {element}: not taken over by the new configuration, drops {packets} packet");
        assert!(said.contains(&told), "{told} is not in\n{said}");
        let said = text(&click(&["-R", "-e", &config]).stderr);
        assert!(!said.contains(&told), "Click says nothing of it:\n{said}");
    }
}

#[test]
fn a_configuration_takes_the_place_of_another_and_keeps_its_packets() {
    let next = "InfiniteSource(LIMIT 0) -> q :: Queue(100) -> Unqueue -> c :: Counter(COUNT_CALL 50 stop) -> Discard";
    let config = format!(
        "InfiniteSource(LIMIT 50) -> q :: Queue(100) -> Unqueue(ACTIVE false) -> Discard;
         Script(wait 0.1s, write hotconfig {next})"
    );
    let out = ixora(&[
        "-R",
        "-e",
        &config
            .replace("hotconfig Inf", "hotconfig \"Inf")
            .replace("Discard)", "Discard\")")
            .replace("write hot", "writeq hot"),
        "-h",
        "c.count",
    ]);
    assert_eq!(text(&out.stdout), "50\n", "{}", text(&out.stderr));
}
