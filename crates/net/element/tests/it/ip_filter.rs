//! `IPFilter` and `IPClassifier`: what they decide, and the programs they make.

use crate::Rig;
use proptest::prelude::*;

fn program(rules: &str) -> String {
    let mut rig = Rig::new(&format!("Idle -> c :: IPFilter({rules}) -> Discard")).expect("a configuration");
    rig.read("c.program")
}

#[test]
fn programs_are_as_click_prints_them() {
    let one = " 0 268/0a000001%ffffffff  yes->[0]  no->[X]\nsafe length 272\nalignment offset 0\n";
    assert_eq!(program("allow src 10.0.0.1"), one);
    assert_eq!(program("allow false, allow false, allow src 10.0.0.1"), one);
    assert_eq!(program("allow false, allow true"), "all->[0]\nsafe length 0\nalignment offset 0\n");
    assert_eq!(
        program("allow tcp && dst 10.0.0.0/32 && src 2.0.0.0/32, allow all"),
        "all->[0]\nsafe length 0\nalignment offset 0\n"
    );
    let ether = program("allow src 0:1:2:3:4:5, allow dst 10:20:30:40:50:60, deny all");
    assert!(ether.starts_with(" 0   8/00010203%ffffffff  yes->step 1  no->step 2\n"), "{ether}");
    assert!(ether.contains(" 2   0/00001020%0000ffff"), "{ether}");
    let both = program("allow tcpudp port >= 1024");
    assert!(both.contains("512/00000000%fc00fc00  yes->[X]  no->[0]  short->yes"), "{both}");
}

/// What a program that was printed decides about a packet that is long enough.
fn interpret(program: &str, packet: &[u8]) -> String {
    let steps: Vec<&str> = program.lines().take_while(|line| !line.starts_with("safe")).collect();
    if let Some(end) = steps[0].strip_prefix("all->") {
        return end.to_string();
    }
    let mut at = 0;
    for _ in 0..=steps.len() {
        let (test, rest) = steps[at][3..].split_once("  yes->").expect("a step");
        let (yes, no) = rest.split_once("  no->").expect("both ends");
        let (offset, test) = test.trim().split_once('/').expect("an offset");
        let (value, mask) = test.split_once('%').expect("a mask");
        let place = match offset.parse::<usize>().expect("a number") {
            offset @ 512.. => offset - 512 + 20,
            offset => offset - 256,
        };
        let word = u32::from_be_bytes(packet[place..place + 4].try_into().expect("four bytes"));
        let number = |text: &str| u32::from_str_radix(text, 16).expect("a number");
        let held = word & number(mask) == number(value);
        let to = if held { yes } else { no.trim_end_matches("short->yes").trim() };
        match to.strip_prefix("step ") {
            Some(step) => at = step.parse().expect("a number"),
            None => return to.to_string(),
        }
    }
    panic!("it goes in circles:\n{program}");
}

const CONDITIONS: [&str; 18] = [
    "tcp",
    "udp",
    "icmp",
    "src 10.0.0.1",
    "dst net 10.0.0.0/30",
    "src net 10.0.0.0/31",
    "dst port 80",
    "src port > 1000",
    "port < 1024",
    "port >= 81",
    "src port != 1000",
    "tcp opt syn",
    "tcp opt ack",
    "ip frag",
    "ip ttl > 64",
    "ip ttl <= 9",
    "ip[8] & 3 = 1",
    "icmp type echo",
];

fn rule() -> impl Strategy<Value = String> {
    let one = (0..CONDITIONS.len(), any::<bool>())
        .prop_map(|(n, not)| format!("{}({})", if not { "not " } else { "" }, CONDITIONS[n]));
    let join = |words: (String, usize, String)| {
        let word = ["and", "or", "? true :"][words.1];
        format!("({} {word} {})", words.0, words.2)
    };
    (one.clone(), 0..3usize, one.clone(), 0..3usize, one)
        .prop_map(move |(a, i, b, j, c)| join((join((a, i, b)), j, c)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_program_that_is_printed_decides_as_the_one_that_runs(
        rules in proptest::collection::vec(rule(), 1..5),
        (protocol, ttl, host, port, flags, fragment) in
            (prop::sample::select(vec![1u8, 6, 17, 50]), prop::sample::select(vec![1u8, 9, 64, 65]), 0..4u8,
             prop::sample::select(vec![80u16, 81, 1000, 1001, 5000]), any::<u8>(), any::<bool>()),
    ) {
        let packet = packet(ttl, protocol, (host, 2), (port, 80), (flags, fragment));
        let patterns: Vec<String> = rules.iter().map(|rule| format!("allow {rule}")).collect();
        let (mut rig, to) = decides(&patterns, &packet);
        let program = rig.read("f.program");
        prop_assert_eq!(interpret(&program, &packet), to, "{:?}\n{}", patterns, program);
    }

    #[test]
    fn many_rules_decide_as_the_program_that_is_printed(
        rules in proptest::collection::vec(one_of_many(), 40..70),
        (rule, host, port, protocol) in (any::<prop::sample::Index>(), 0..4u8, 0..4u16,
            prop::sample::select(vec![6u8, 17, 1])),
    ) {
        let patterns: Vec<String> = rules.iter().map(|(text, ..)| text.clone()).collect();
        let (_, from, to) = rules[rule.index(rules.len())];
        let packet = packet(64, protocol, (from ^ host, to), (1000, (80 + u16::from(to)) ^ port), (2, false));
        let (mut rig, to) = decides(&patterns, &packet);
        let program = rig.read("f.program");
        prop_assert_eq!(interpret(&program, &packet), to, "{:?}\n{}", patterns, program);
    }
}

/// A rule of an access list, and the last bytes of its addresses.
fn one_of_many() -> impl Strategy<Value = (String, u8, u8)> {
    let word = prop::sample::select(vec!["allow", "deny"]);
    (word, 0..7, any::<u8>(), 0..40u8).prop_map(|(word, kind, from, to)| {
        let port = 80 + u16::from(to);
        let rule = match kind {
            0 => format!("src host 10.0.0.{from}"),
            1 => format!("src host 10.0.0.{from} and tcp dst port {port}"),
            2 => format!("src net 10.0.0.{}/30 and udp dst port >= {port}", from & !3),
            3 => format!("dst host 10.0.0.{to} and dst port {port} or {}", port + 9),
            4 => format!("src host 10.0.0.{from} and not tcp port {port}"),
            5 => format!("src 10.0.0.{from} and dst net 10.0.0.{}/29 and port <= {port}", to & !7),
            _ => format!("src host 10.0.0.{from} or 10.0.0.{to}"),
        };
        (format!("{word} {rule}"), from, to)
    })
}

/// A packet of TCP from 10.0.0.`from` to 10.0.0.`to`, or what is like it of another protocol.
fn packet(
    ttl: u8,
    protocol: u8,
    (from, to): (u8, u8),
    (source, destination): (u16, u16),
    (flags, fragment): (u8, bool),
) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 40, 0, 1, u8::from(fragment), 0, ttl, protocol, 0, 0];
    packet.extend([10, 0, 0, from, 10, 0, 0, to]);
    packet.extend([source.to_be_bytes(), destination.to_be_bytes()].concat());
    packet.extend([8, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    packet
}

/// An `IPFilter` with an output that got a packet, and where it sent it.
fn decides(rules: &[String], packet: &[u8]) -> (Rig, &'static str) {
    let digits: String = packet.iter().map(|byte| format!("{byte:02x}")).collect();
    let config = format!(
        "InfiniteSource(DATA \\<{digits}>, LIMIT 1, STOP true) -> MarkIPHeader
         -> f :: IPFilter({}) -> d :: Discard",
        rules.join(", ")
    );
    let mut rig = Rig::new(&config).unwrap_or_else(|error| panic!("{config}: {error}"));
    rig.run();
    let to = if rig.read("d.count") == "1" { "[0]" } else { "[X]" };
    (rig, to)
}

/// The program of `udp dst port`s and prefixes, step by step.
#[test]
fn what_is_known_is_not_tested_again() {
    let mut rig = Rig::new(
        "i :: Idle -> d :: IPFilter(0 udp dst port netbios-ns, 1 udp dst port 5353, 2 udp src port bootpc, \
         3 128.230.206.0/24, 4 -); d[0], d[1], d[2], d[3], d[4] -> Discard",
    )
    .expect("a configuration");
    assert_eq!(
        rig.read("d.program"),
        " 0 264/00110000%00ff0000  yes->step 1  no->step 5
 1 260/00000000%00001fff  yes->step 2  no->step 5
 2 512/00000089%0000ffff  yes->[0]  no->step 3
 3 512/000014e9%0000ffff  yes->[1]  no->step 4
 4 512/00440000%ffff0000  yes->[2]  no->step 5
 5 268/80e6ce00%ffffff00  yes->[3]  no->step 6
 6 272/80e6ce00%ffffff00  yes->[3]  no->[4]
safe length 516
alignment offset 0
"
    );
}

/// An IP packet of TCP, 10.0.0.1 port 1000 to 10.0.0.2 port 80, with SYN.
const TCP: &str =
    "4500 0028 0001 0000 4006 0000 0a000001 0a000002 03e8 0050 00000000 00000000 5002 0000 0000 0000";

/// Whether a packet passes a filter, of which `length` bytes are there.
fn passes(rule: &str, length: usize) -> bool {
    let mut rig = Rig::new(&format!(
        "InfiniteSource(DATA \\<{TCP}>, LIMIT 1, STOP true, LENGTH {length}) -> MarkIPHeader \
         -> IPFilter(allow {rule}) -> d :: Discard"
    ))
    .unwrap_or_else(|e| panic!("{rule}: {e}"));
    rig.run();
    rig.read("d.count") == "1"
}

#[test]
fn conditions_hold_when_they_should() {
    for rule in [
        "tcp",
        "ip proto tcp",
        "src 10.0.0.1",
        "dst host 10.0.0.2",
        "host 10.0.0.2",
        "net 10.0.0.0/24",
        "src and dst net 10.0.0.0/24",
        "src net 10.0.0.0 mask 255.255.255.0",
        "dst port 80",
        "tcp port www",
        "port 1000",
        "src port > 999",
        "src port >= 1000",
        "src port < 1001",
        "src port <= 1000",
        "dst port != 81",
        "tcp opt syn",
        "syn and not ack",
        "ip ttl 64",
        "ip ttl > 63",
        "ip vers 4",
        "ip hl = 5",
        "ip[9] = 6",
        "tcp[13] & 0x12 = 2",
        "transp[2:2] = 80",
        "ip unfrag",
        "not ip frag",
        "udp or (tcp dst port 80)",
        "udp ? false : true",
        "src 10.0.0.1 or 10.0.0.9",
        "dst port 22 or 80",
        "-",
        "any",
        "ip tos 0",
        "ip id 1",
        "not udp",
    ] {
        assert!(passes(rule, 40), "{rule}");
    }
}

#[test]
fn conditions_fail_when_they_should() {
    for rule in [
        "udp",
        "icmp",
        "src 10.0.0.2",
        "dst port 81",
        "src port > 1000",
        "src port < 1000",
        "dst port != 80",
        "tcp opt ack",
        "ip frag",
        "ip ttl < 64",
        "udp or dst port 22",
        "tcp ? false : true",
        "not tcp",
        "false",
        "src and dst host 10.0.0.1",
        "ip ect",
        "ip ce",
        "icmp type echo",
    ] {
        assert!(!passes(rule, 40), "{rule}");
    }
}

#[test]
fn what_is_not_there_fulfils_no_condition() {
    for rule in ["dst port 80", "dst port != 81", "src port < 2000", "tcp[13] & 2 != 0"] {
        assert!(!passes(rule, 20), "{rule}");
    }
    assert!(passes("not (transp[1] & 128 == 0)", 20), "a condition that fails, the other way round");
    assert!(!passes("transp[1] & 128 == 0 || transp[1] & 128 == 128", 20));
}

/// What is wrong with a rule, line by line as Click says it, and what is odd about it.
#[test]
fn rules_are_judged_in_clicks_words() {
    let said = |rule: &str| {
        let config = format!("Idle -> f :: IPFilter({rule}); f[0] -> Discard;");
        let flat = element::fixture::flatten(&config, &crate::registry()).unwrap_or_else(|e| panic!("{e}"));
        let (_, problems) =
            graph::Router::plan(config.as_str(), flat, &crate::registry(), Default::default());
        let text: String = problems.iter().map(graph::lang::Problem::compat).collect();
        let lines = text.lines().filter_map(|line| line.strip_prefix("  "));
        lines.map(|line| line.replace("pattern 0: ", "")).collect::<Vec<_>>()
    };
    let empty = |word: &str| format!("empty term near '{word}'");
    let garbage = |word: &str| format!("garbage after expression at '{word}'");
    for (rule, lines) in [
        ("allow foo", vec![empty("foo"), "missing expression".into(), garbage("foo")]),
        (
            "allow src host 1.2.3",
            vec!["'src ip host': address missing".into(), empty("1.2.3"), garbage("1.2.3")],
        ),
        ("allow src net 1.2.3.4", vec!["'src ip net': address missing".into()]),
        ("allow ip ttl 256", vec!["'ip ttl': out of range, bound 255".into()]),
        ("allow ip[0] = 300", vec!["'ip[...]': out of range, bound 255".into()]),
        ("allow not", vec!["missing expression after 'not'".into()]),
        ("allow udp opt syn", vec!["'tcp opt udp syn' is meaningless; try 'tcp opt udp syn'".into()]),
        ("bar tcp foo", vec!["unknown slot ID 'bar'".into(), empty("foo"), garbage("foo")]),
        ("allow ttl & 255 < 300", vec!["warning: relation '< 300' is always true (range 0-255)".into()]),
        ("allow src ip ect", vec!["warning: 'src ip tos': 'src' or 'dst' ignored".into()]),
        ("allow port 1:2:3:4:5:6", vec!["'port': ip only".into()]),
        ("-1 tcp", vec!["slot '-1' out of range".into()]),
        ("0x10 tcp", vec!["slot '16' out of range".into()]),
        ("-0 tcp", vec![]),
        ("0x0 tcp and ip ect 1 or 2", vec![]),
        ("allow tcp not", vec![]),
        ("allow ip ttl < 255", vec![]),
    ] {
        assert_eq!(said(rule), lines, "{rule}");
    }
}

#[test]
fn wrong_rules_are_refused() {
    for rule in [
        "allow",
        "allow src",
        "allow tcp udp",
        "5 tcp",
        "what tcp",
        "allow (tcp",
        "allow tcp )",
        "allow port",
        "allow 5",
        "allow dst port 70000",
        "allow ip[3:2] 5",
        "allow tcp ? udp",
        "allow ip[1",
        "allow not",
        "allow ip ttl 256",
    ] {
        let refused = Rig::new(&format!("Idle -> IPFilter({rule}) -> Discard")).is_err();
        assert!(refused || rule == "allow", "{rule}");
    }
    let deep = format!("allow {} tcp", "(".repeat(5000));
    assert!(Rig::new(&format!("Idle -> IPFilter(\"{deep}\") -> Discard")).is_err());
}

/// More rules than can be simplified: the first that holds decides, of ten thousand.
#[test]
fn thousands_of_rules_are_a_program() {
    let rule = |n: u32| {
        let word = if n.is_multiple_of(2) { "allow" } else { "deny" };
        format!("{word} src 10.{}.{}.1 && dst port {}", n / 250, n % 250, 1000 + n)
    };
    let mut rules: Vec<String> = (0..10_000).map(rule).collect();
    rules.extend(["deny src 10.4.0.0/16".to_owned(), "allow src 10.0.0.0/8".to_owned()]);
    let to = |host: [u8; 2], port: u16| {
        let mut packet = packet(64, 6, (1, 2), (1000, port), (2, false));
        packet[13..15].copy_from_slice(&host);
        decides(&rules, &packet).1
    };
    assert_eq!(to([39, 248], 10_998), "[0]", "rule 9,998");
    assert_eq!(to([39, 249], 10_999), "[X]", "rule 9,999");
    assert_eq!(to([39, 249], 10_998), "[0]", "the last");
    assert_eq!(to([4, 0], 2_001), "[X]", "the last but one");
    assert_eq!(to([4, 0], 2_000), "[0]", "rule 1,000");
}
