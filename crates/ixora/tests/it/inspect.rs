//! `ixora click --check`, `--explain`, `--svg`, `--doc`: looking and not running.

use std::process::{Command, Output};

use port::Reason;
use port::loss::CountedBy;
use serde_json::Value;

use crate::common::output;

fn ixora(arguments: &[&str]) -> Output {
    output(Command::new(env!("CARGO_BIN_EXE_ixora")).args(arguments))
}

fn click(arguments: &[&str]) -> Output {
    let mut all = vec!["click"];
    all.extend(arguments);
    ixora(&all)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&out.stdout)))
}

const WRONG: &str = "s :: InfiniteSource(LIMT 5) -> ttl :: DecIPTTL -> Discard; Idle -> Queue(x) -> Discard;";

#[test]
fn check_tells_all_that_is_wrong_and_opens_nothing() {
    let out = click(&["--check", "-e", WRONG]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1));
    for part in
        ["config:1:21: error", "did you mean 'LIMIT'?", "needs the network header", "1:74: error", "^"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(text(&out.stdout), "config: 3 errors, 0 warnings\n");
    // Interfaces that are made, or are there; each would take a privilege to open.
    let port = "FromDevice(\"tap:nothing0,gso\") -> q :: Queue -> ToDevice(\"af_xdp:lo,generic,copy\");
        FromDevice(model:82599) -> Discard;";
    let out = click(&["--check", "-e", port]);
    assert_eq!(
        (out.status.code(), text(&out.stdout)),
        (Some(0), "config: no problems; 5 elements, 3 connections\n".into()),
        "{}",
        text(&out.stderr)
    );
}

#[test]
fn check_tells_of_ports_that_are_not_there() {
    for (port, missing) in [
        ("af_packet:nothing0", "there is no interface nothing0"),
        ("\"af_xdp:nothing0,generic,copy\"", "there is no interface nothing0"),
        ("0000:ff:1f.7", "no PCI device 0000:ff:1f.7"),
        ("vfio-user:/nowhere/nic.sock", "there is no such socket"),
        ("\"vhost-user:/nowhere/nic.sock,allow-unsealed\"", "there is no such socket"),
    ] {
        let config = format!("Idle -> Discard; FromDevice({port}) -> Queue -> ToDevice({port});");
        let out = click(&["--check", "--json", "-e", &config]);
        let (found, status) = (json(&out), out.status.code());
        let problems = found["problems"].as_array().expect("a list");
        assert_eq!((status, &found["errors"], problems.len()), (Some(1), &1.into(), 1), "{found:#}");
        let message = problems[0]["message"].as_str().expect("a message");
        assert!(message.contains(missing), "{port}: {message}");
        assert_eq!((&problems[0]["line"], &problems[0]["column"]), (&1.into(), &18.into()), "{found:#}");
        // A picture of another machine's router is drawn here all the same.
        assert_eq!(click(&["--dot", "-e", &config]).status.code(), Some(0));
    }
}

/// Click's `FromDevice(DEVNAME, PROMISC, SNAPLEN)`, and a port that the run cannot open, which it tells
/// where it is named, as `--check` does.
#[test]
fn an_interface_alone_is_named_as_in_click() {
    for arguments in ["lo, true", "lo, 1, 2000", "lo, PROMISC false", "lo, 0, QUEUE 0"] {
        let out = click(&["--check", "--json", "-e", &format!("FromDevice({arguments}) -> Discard")]);
        assert_eq!(json(&out)["errors"], 0, "{arguments}: {}", text(&out.stdout));
    }
    let out = click(&["--check", "-e", "FromDevice(lo, maybe) -> Discard"]);
    assert!(text(&out.stderr).contains("PROMISC: expected"), "{}", text(&out.stderr));
    let config = "Idle -> Discard; FromDevice(nothing0, 1) -> Discard;";
    let ran = click(&["-e", config]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("config:1:18: error: FromDevice@3 :: FromDevice: af_packet:nothing0"), "{said}");
}

/// What is wrong with one argument is told once, whatever stands behind it, and with it that
/// a variable is not set.
#[test]
fn check_tells_of_an_argument_once() {
    let config = "s :: FastUDPFlows(RATE 0, LIMIT $N, LENGTH 60, SRCETH 2:0:0:0:0:1, SRCIP 1.0.0.1,
        DSTETH 2:0:0:0:0:2, DSTIP 1.0.0.2, FLOWS 1, FLOWSIZE 5) -> Discard; FromHost(fake0, 1.0.0.1/8) -> Discard;";
    let out = click(&["--check", "--json", "-e", config]);
    let found = json(&out);
    let problems = found["problems"].as_array().expect("a list").iter();
    let errors: Vec<&Value> = problems
        .filter(|problem| problem["severity"] == "error")
        .map(|problem| &problem["message"])
        .collect();
    assert_eq!(errors, ["variable '$N' is not set"], "{found:#}");
    // What else is wrong with the element is told.
    let said = text(
        &click(&["--check", "-e", "Idle -> RED($a, 5, x, GENTLE maybe) -> Queue($Y) -> Discard"]).stderr,
    );
    for part in ["variable '$a'", "variable '$Y'", "GENTLE"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("CAPACITY: expected"), "{said}");
    // Likewise where it comes as a compound's argument, or as another variable's value.
    for config in [
        "elementclass A { $x | input -> Queue($x) -> output } Idle -> A($y) -> Discard",
        "elementclass A { $x | input -> Queue(CAPACITY $x) -> output } Idle -> A($y) -> Discard",
        "define($M $y); Idle -> Queue($M) -> Discard",
    ] {
        let found = json(&click(&["--check", "--json", "-e", config]));
        assert_eq!(found["problems"].as_array().map(Vec::len), Some(1), "{found:#}");
        assert_eq!(found["problems"][0]["message"], "variable '$y' is not set", "{found:#}");
    }
    let config =
        "elementclass A { $x, $z | input -> Paint($x, ANNO $z) -> output } Idle -> A(abc, $y) -> Discard";
    let said = text(&click(&["--check", "-e", config]).stderr);
    assert!(said.contains("COLOR: ") && said.contains("variable '$y'"), "{said}");
}

/// A handler or an element that is named and is not there is told before anything runs, and so the
/// run tells it; what is opened when a router starts is not.
#[test]
fn check_tells_of_names_that_are_none() {
    for (element, message) in [
        ("Idle -> Counter(COUNT_CALL 3 nonex.run) -> Discard", "no element named 'nonex'"),
        ("Idle -> Counter(COUNT_CALL 3 x.nothing) -> Discard", "no 'x.nothing' write handler"),
        ("Idle -> Counter(COUNT_CALL 3 x.class) -> Discard", "no 'x.class' write handler"),
        ("Idle -> TimeFilter(INTERVAL 1s, END_CALL nonex.run) -> Discard", "no element named 'nonex'"),
        ("Idle -> AggregateCounter(AGGREGATE_CALL 5 nonex.run) -> Discard", "no element named 'nonex'"),
        ("ProgressBar(nonex.count)", "no element named 'nonex'"),
        ("ProgressBar(x.count, 5)", "no '5' handler"),
        ("QuitWatcher(nonex)", "no element named 'nonex'"),
        ("HandlerAggregate(x, nonex)", "no element named 'nonex'"),
        ("ControlSocket(tcp, 0, PROXY nonex)", "PROXY: 'nonex' does not name an element"),
        ("InfiniteSource(LIMIT 1, END_CALL nonex.run) -> Discard", "no element named 'nonex'"),
        ("RandomSource(64, LIMIT 1, END_CALL nonex.run) -> Discard", "no element named 'nonex'"),
        ("FromDump(/nowhere/none.pcap, END_CALL nonex.run) -> Discard", "no element named 'nonex'"),
        ("Idle -> ToDump(/nowhere/none.pcap, USE_ENCAP_FROM nonex) -> Discard", "no element named 'nonex'"),
        ("Idle -> RED(1, 2, 0.5, QUEUES x) -> Discard", "'x' is not a Storage element"),
    ] {
        let config = format!("Idle -> x :: Counter -> Discard; {element}");
        for further in [&["--check"][..], &[]] {
            let out = click(&[further, &["-e", &config]].concat());
            let said = text(&out.stderr);
            assert_eq!((out.status.code(), said.matches("error:").count()), (Some(1), 1), "{config}: {said}");
            assert!(said.contains(message), "{config}: {said}");
        }
    }
    // All at once, beside an argument that is wrong, with their places.
    let config = "Idle -> Counter(COUNT_CALL 3 a.b) -> Discard;\n\
        Idle -> TimeFilter(END_CALL c.d)\n-> Queue(x) -> Discard";
    let said = text(&click(&["--check", "-e", config]).stderr);
    for part in ["config:1:9: error", "named 'a'", "config:2:9: error", "named 'c'", "config:3:10: error"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // Those that are there: of another element, of a task, of the router, an own one.
    for call in ["x.reset", "s.scheduled true", "stop", "reset"] {
        let config = format!(
            "s :: InfiniteSource(LIMIT 5, STOP true) -> Counter(COUNT_CALL 3 {call}) -> x :: Counter -> Discard"
        );
        let out = click(&["--check", "-e", &config]);
        assert_eq!(out.status.code(), Some(0), "{call}: {}", text(&out.stderr));
        assert_eq!(text(&click(&["-e", &config]).stderr), "", "{call}");
    }
}

/// What does not depend on another problem is told beside it.
#[test]
fn check_tells_independent_problems_together() {
    let graph = "Idle -> q :: Queue -> Counter -> q2 :: Queue -> Discard;\n\
        Idle -> Strip(xyz); ARPResponder(zz); Idle -> Print(foo, bar, baz) -> Discard;\n\
        Idle -> Counter(COUNT_CALL 3 nonex.run) -> t :: Tee; t[1] -> Discard;\n\
        InfiniteSource -> DecIPTTL -> Discard; i :: Idle; i -> Discard; i -> Discard;";
    let always = ["pull output 0 connected to 'q2'", "MAXLENGTH: expected"];
    let connected =
        ["need exactly 1 input", "no element named 'nonex'", "output 0 unused", "needs the network header"];
    // An element whose ports and arguments are wrong.
    let always = [&always[..], &["LENGTH: expected unsigned"]].concat();
    for (further, told) in [("", &connected[..]), ("a[2] -> Discard", &["undeclared element 'a'"])] {
        let said = text(&click(&["--check", "-e", &format!("{graph}\n{further}")]).stderr);
        for part in always.iter().chain(told) {
            assert_eq!(said.matches(part).count(), 1, "{further}: {part}: {said}");
        }
        // With a connection that was not understood there may be what is missing.
        assert_eq!(said.contains("unused"), further.is_empty(), "{said}");
    }
}

/// What comes of another problem only is not told, and what is right is not refused.
#[test]
fn check_tells_nothing_that_is_not_wrong() {
    for (config, message) in [
        (
            "t :: ARPTable(TIMEOUT bogus); Idle -> q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE t) -> Discard;
             Idle -> [1]q",
            "TIMEOUT: ",
        ),
        (
            "Idle -> n :: AggregateIPFlows(REAP $r) -> AggregateFirst(NOTIFIER n) -> Discard",
            "'$r' is not set",
        ),
        ("Idle -> RED(1, 2, 0.5) -> Null -> Queue -> Discard; Idle -> Queue(x) -> Discard", "CAPACITY: "),
        ("InfiniteSource -> d :: DecIPTTL -> Discard; Idle -> MarkIPHeadr -> d", "undeclared element 'MarkIPHeadr'"),
        ("InfiniteSource(LIMT $N) -> Discard", "LIMT: unknown argument"),
    ] {
        let out = click(&["--check", "-e", config]);
        let said = text(&out.stderr);
        assert!(said.contains(message), "{config}: {said}");
        let more = usize::from(config.contains("$N"));
        assert_eq!(said.matches("error:").count(), 1 + more, "{config}: {said}");
    }
    let hotconfig = "Idle -> Counter(COUNT_CALL 3 hotconfig \"Idle -> Discard\") -> Discard";
    for (further, code) in [(&["-R"][..], 0), (&[], 1)] {
        let out = click(&[further, &["--check", "-e", hotconfig]].concat());
        assert_eq!(out.status.code(), Some(code), "{further:?}: {}", text(&out.stderr));
    }
    // A task that an element makes when it is initialized, and one that it does not make.
    let calls = |element: &str| {
        format!(
            "Idle -> Counter(COUNT_CALL 1 d.scheduled true) -> Discard; {element}; Script(wait 1ms, stop)"
        )
    };
    let delays = calls("Idle -> Queue -> d :: DelayShaper(1ms) -> Discard");
    for further in [&["--check"][..], &[]] {
        let out = click(&[further, &["-e", &delays]].concat());
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    }
    let said = text(&click(&["-e", &calls("d :: Idle -> Discard")]).stderr);
    assert_eq!(said.matches("no 'd.scheduled' write handler").count(), 1, "{said}");
}

/// Click asks for names when it is an element's turn to be initialized.
#[test]
fn names_are_told_in_clicks_order_in_compatibility() {
    let config =
        "FromDump(/nowhere/none.pcap) -> Discard; Idle -> Counter(COUNT_CALL 3 nonex.run) -> Discard";
    let said = text(&click(&["--compat", "-e", config]).stderr);
    assert!(said.contains("No such file") && !said.contains("nonex"), "{said}");
}

/// A variable that nothing sets is told, and so is a name that is no port's, beside all else.
#[test]
fn check_tells_of_variables_and_ports() {
    let text_of = |config: &str, further: &[&str]| {
        let out = click(&[&["--check", "-e", config], further].concat());
        (out.status.code(), text(&out.stderr))
    };
    let config = "FromDevice($P0) -> Queue($n) -> Unqueue(BURST $b) -> ToDevice(0000:ff:1f.9);";
    let config = config.replace("Queue($n)", "Print($n) -> Queue");
    let (code, said) = text_of(&config, &["b=5"]);
    assert_eq!(code, Some(1), "{said}");
    for part in ["variable '$P0' is not set", "variable '$n' is not set", "\"0000:ff:1f.9\" is no port"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("'$b'") && said.matches("P0' is").count() == 1, "{said}");
    let (code, said) = text_of(&config.replace("0000:ff:1f.9", "$P0"), &["b=5", "n=x", "P0=model:82599"]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let (_, said) = text_of("Idle -> IPFilter(allow src $NET, deny all) -> Discard", &[]);
    assert!(said.contains("variable '$NET' is not set"), "{said}");
    // Without `--check` too, where it is a port.
    let said = text(&click(&["-e", "FromDevice($P0) -> Discard"]).stderr);
    assert!(said.contains("\"$P0\" is no port") && said.contains("set the variable, P0=PORT"), "{said}");
    // And beside a class that there is not, and an argument that is wrong.
    for other in ["FromDevice(nope9) -> Foo -> Discard", "FromDevice(nope9) -> Queue(x) -> Discard"] {
        let (_, said) = text_of(&format!("Idle -> Bar -> Discard; {other}"), &[]);
        assert_eq!(said.matches("there is no interface nope9").count(), 1, "{other}: {said}");
        let (_, said) = text_of(other, &[]);
        assert_eq!(said.matches("there is no interface nope9").count(), 1, "{other}: {said}");
    }
    // A script's variables are its own.
    assert_eq!(text_of("Script(set x 5, print $x)", &[]).0, Some(0));
}

#[test]
fn check_tells_programs_the_same() {
    let out = click(&["--check", "--json", "-e", WRONG]);
    let all = json(&out);
    assert_eq!((out.status.code(), &all["errors"]), (Some(1), &Value::from(3)));
    let problem = &all["problems"][0];
    assert_eq!((&problem["line"], &problem["column"]), (&Value::from(1), &Value::from(21)));
    assert_eq!(
        (&problem["element"], &problem["help"]),
        (&"s :: InfiniteSource".into(), &"did you mean 'LIMIT'?".into())
    );
    // What cannot be read at all is told in the same way.
    let all = json(&click(&["--check", "--json", "-e", "Idle -> ; -> Cuonter"]));
    assert!(all["errors"].as_u64() > Some(0) && all["elements"].is_null(), "{all}");
    // And what is wrong with arguments beside it.
    let said = text(&click(&["--check", "-e", "Idle -> Cuonter -> Queue(x) -> Discard"]).stderr);
    assert!(said.contains("did you mean 'Counter'?") && said.contains("expected unsigned integer"), "{said}");
}

#[test]
fn a_port_that_has_commas_and_no_quotes_is_told_so() {
    for config in ["FromDevice(model:82599,wire=loop) -> Discard", "Idle -> ToDevice(model:82599,wire=loop)"]
    {
        let said = text(&click(&["--check", "-e", config]).stderr);
        assert!(said.contains("put a port that has commas in quotes: \"model:82599,…\""), "{said}");
    }
}

#[test]
fn time_passes_as_fast_as_the_handler_says() {
    let run = |script: &str| {
        // The other thread is never without work.
        let busy = "s :: InfiniteSource -> Discard; StaticThreadSched(s 1)";
        let out = click(&["-j", "2", "-e", &format!("{script}; {busy}")]);
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    for (pace, wait) in [("nowait", "1s"), ("100000", "300s")] {
        let (code, said, _) =
            run(&format!("Script(write timewarp {pace}, wait {wait}, print $(timewarp), stop)"));
        assert_eq!((code, said), (Some(0), format!("{pace}\n")));
    }
    // With no work anywhere nobody waits.
    let out = click(&["-j", "2", "-e", "Script(write timewarp nowait, wait 300s, print \"waited\", stop)"]);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(0), "waited\n".to_owned()));
    for (pace, why) in
        [("0", "timefactor must be > 0"), ("inf", "must be <= 1000000"), ("x", "expected double")]
    {
        let (_, _, said) = run(&format!("Script(write timewarp {pace}, stop)"));
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn what_would_crash_click_is_refused_at_load_but_not_in_compatibility() {
    let config = "InfiniteSource(LIMIT 5, STOP true) -> DecIPTTL -> c :: Counter -> Discard";
    let out = click(&["-e", config, "-h", "c.count"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("put a CheckIPHeader or MarkIPHeader on the way"));
    let out = click(&["--compat", "-e", config, "-h", "c.count"]);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(0), "0\n".into()), "{}", text(&out.stderr));
}

#[test]
fn explain_tells_which_queue_goes_to_which_thread() {
    let config = "FromDevice(af_packet:lo) -> c :: Paint(1) -> q :: Queue -> ToDevice(af_packet:lo);";
    let out = click(&["--explain", "--json", "-j", "2", "-a=0", "-e", config]);
    let all = json(&out);
    let queues = all["ports"]["af_packet:lo"].as_array().expect("queues");
    let rx: Vec<_> = queues.iter().filter(|q| q["direction"] == "rx").collect();
    assert_eq!(rx.len(), 2, "{all}");
    assert_eq!((&rx[1]["thread"], &rx[1]["core"], &rx[1]["shared"]), (&1.into(), &1.into(), &false.into()));
    let c = all["elements"].as_array().and_then(|e| e.iter().find(|e| e["name"] == "c")).expect("c");
    assert_eq!(
        (&c["way"], &c["threads"], &c["unit"]),
        (&"push".into(), &serde_json::json!([0, 1]), &"packet".into())
    );
    let out = text(&click(&["--explain", "-j", "2", "-e", config]).stdout);
    assert!(out.contains("ELEMENT") && out.contains("rx 1") && out.contains("threads meet here"), "{out}");
}

#[test]
fn explain_tells_what_locks_and_copies_cost() {
    // A Meter is behind a lock, a Tee copies, threads meet at a Queue.
    let config =
        "FromDevice(af_packet:lo) -> m :: Meter(10) -> t :: Tee -> q :: Queue -> Discard; t[1] -> Discard;
                  m[1] -> Discard";
    let out = text(&click(&["--explain", "-j", "2", "-e", config]).stdout);
    let about =
        |name: &str| out.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{out}"));
    let numbers = |line: &str| {
        line.split(|c: char| !c.is_ascii_digit()).filter(|n| n.parse::<u64>().is_ok_and(|n| n > 0)).count()
    };
    for (name, words) in
        [("m ", "each batch ("), ("t ", "cycles for a packet of 60 bytes"), ("q ", "each batch (")]
    {
        let line = about(name);
        assert!(line.contains(words) && line.contains("cycles") && numbers(line) > 0, "{line}");
    }
    assert!(out.contains("CYCLES: of the TSC"), "{out}");
    let costs = &json(&click(&["--explain", "--json", "-e", config]))["costs"];
    assert!(costs["lock_cycles"].as_u64() > Some(1), "{costs}");
    // Which of them takes longer a busy machine may tell otherwise.
    for (copy, bytes) in [(0, 60), (1, 1514)] {
        let copy = &costs["copies"][copy];
        assert!(copy["bytes"] == bytes && copy["cycles"].as_u64() > Some(1), "{costs}");
    }
}

#[test]
fn pictures_go_to_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("router.svg");
    let name = file.to_string_lossy().into_owned();
    assert!(click(&["--svg", &name, "-e", "Idle -> Null -> Discard"]).status.success());
    let svg = std::fs::read_to_string(&file).expect("a picture");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    // Three boxes with their words, two connections between them.
    let count = |part: &str| svg.matches(part).count();
    assert_eq!(
        [count("<g>"), count("</g>"), count("<path marker-end="), count("<title>")],
        [3, 3, 2, 3],
        "{svg}"
    );
    assert!(svg.contains(">Discard<") && svg.contains(">Null<"), "{svg}");
}

/// An archive as Click's tools write it, of a configuration and a map.
fn archive(configuration: &str) -> String {
    let member = |name: &str, data: &str| {
        let padding = if data.len() % 2 == 1 { "\n" } else { "" };
        format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n{data}{padding}", 0, 0, 0, 644, data.len())
    };
    format!("!<arch>\n{}{}", member("componentmap", "a"), member("config", configuration))
}

#[test]
fn archives_are_configurations() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("two.click");
    let check = |bytes: &str| {
        std::fs::write(&file, bytes).expect("room");
        click(&["--check", file.to_str().expect("text")])
    };
    let out = check(&archive("Idle -> Discard;\n"));
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("no problems; 2 elements"), "{}", text(&out.stdout));
    assert!(text(&out.stderr).contains("only 'config' is read, not componentmap"), "{}", text(&out.stderr));
    // Places are those of the member.
    let out = check(&archive("Idle ->\nDiscrd;\n"));
    assert!(text(&out.stderr).contains("two.click:2:1: error"), "{}", text(&out.stderr));
    let out = check("!<arch>\n");
    assert_eq!(out.status.code(), Some(1));
    assert!(
        text(&out.stderr).contains("two.click: archive has no 'config' section"),
        "{}",
        text(&out.stderr)
    );
}

#[test]
fn pages_are_made_of_classes() {
    let page = text(&click(&["--doc", "Queue"]).stdout);
    assert!(page.contains("CAPACITY") && page.contains("Drops"), "{page}");
    let section = text(&click(&["--doc", "Queue", "--markdown"]).stdout);
    assert!(section.starts_with("## Queue\n") && section.contains("| `CAPACITY` |"), "{section}");
    let out = click(&["--doc", "Qeue"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("did you mean 'Queue'?"));
}

#[test]
fn the_reference_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/elements.md");
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    let now = text(&click(&["--doc", "all", "--markdown"]).stdout);
    assert!(kept == now, "docs/elements.md is old: ixora click --doc all --markdown > docs/elements.md");
}

#[test]
fn each_reason_of_elements_is_a_class_s() {
    let classes = element::registry().with(analysis::registry());
    let counted: Vec<Reason> = classes.iter().flat_map(|(_, class)| class.drops).copied().collect();
    for reason in Reason::ALL.iter().filter(|reason| reason.counted_by() == [CountedBy::Element]) {
        assert!(counted.contains(reason), "no class drops packets for '{reason}'");
    }
}

/// Files and folders that the map of the project names, but for one that stands for several.
#[test]
fn paths_of_the_architecture_are_there() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let pages = ["ARCHITECTURE.md", "CONTRIBUTING.md"].map(|page| {
        std::fs::read_to_string(root.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
    });
    let quoted = pages.iter().flat_map(|page| page.split('`').skip(1).step_by(2));
    let is_path = |word: &&str| {
        let begins = ["crates/", "docs/", "xtask/", "fuzz/"].iter().any(|folder| word.starts_with(folder));
        begins && !word.contains(['<', ' '])
    };
    let paths: Vec<&str> = quoted.filter(is_path).collect();
    assert!(paths.len() > 60, "{paths:?}");
    for path in paths {
        assert!(root.join(path).exists(), "{path}");
    }
}

#[test]
fn shells_complete_commands() {
    for (shell, word) in [("bash", "complete -F"), ("zsh", "#compdef ixora"), ("fish", "complete -c ixora")] {
        let out = text(&ixora(&["completions", shell]).stdout);
        assert!(out.contains(word) && out.contains("pktgen"), "{shell}");
    }
}
