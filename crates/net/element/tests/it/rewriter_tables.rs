//! Rewriters' tables, byte for byte as Click 2.1 lists them: order, expiry, what takes
//! whose place; what patterns and mappers choose; and what is said of mistakes.

use crate::Rig;

/// A router that ran for a simulated second.
fn ran(config: &str) -> Rig {
    let mut rig = built(&format!("{config}\nDriverManager(wait 1s, stop);"));
    rig.router.run();
    rig
}

fn built(config: &str) -> Rig {
    Rig::new(config).unwrap_or_else(|error| panic!("{error}"))
}

/// A datagram, or several whose ports count up.
fn datagrams(count: u32, from: &str, to: &str, port: &str) -> String {
    format!(
        "InfiniteSource(LIMIT {count}, BURST 1, STOP false) -> DynamicUDPIPEncap({from}, {to}, true, 1) -> {port};\n"
    )
}

const ENDS: &str = "Idle -> [1]rw; rw[0] -> Discard; rw[1] -> Discard;\n";

#[test]
fn a_table_keeps_its_order_when_flows_leave_it() {
    let config =
        "rw :: IPRewriter(pattern 1.0.0.1 5000-6000# - - 0 1, drop, MAPPING_CAPACITY 5, UDP_GUARANTEE 0, \
                  REAP_INTERVAL 0);\n"
            .to_string()
            + ENDS
            + &datagrams(9, "10.0.0.1, 1000", "2.0.0.2, 50", "rw");
    let mut rig = ran(&config);
    assert_eq!(
        rig.read("rw.udp_table"),
        "(10.0.0.1, 1008, 2.0.0.2, 58) => (1.0.0.1, 5008, 2.0.0.2, 58) [*0 1] i0 exp299
(2.0.0.2, 51, 1.0.0.1, 5001) => (2.0.0.2, 51, 10.0.0.1, 1001) [0 *1] i0 exp299
(2.0.0.2, 52, 1.0.0.1, 5002) => (2.0.0.2, 52, 10.0.0.1, 1002) [0 *1] i0 exp299
(10.0.0.1, 1002, 2.0.0.2, 52) => (1.0.0.1, 5002, 2.0.0.2, 52) [*0 1] i0 exp299
(2.0.0.2, 53, 1.0.0.1, 5003) => (2.0.0.2, 53, 10.0.0.1, 1003) [0 *1] i0 exp299
(2.0.0.2, 54, 1.0.0.1, 5004) => (2.0.0.2, 54, 10.0.0.1, 1004) [0 *1] i0 exp299
(10.0.0.1, 1001, 2.0.0.2, 51) => (1.0.0.1, 5001, 2.0.0.2, 51) [*0 1] i0 exp299
(10.0.0.1, 1004, 2.0.0.2, 54) => (1.0.0.1, 5004, 2.0.0.2, 54) [*0 1] i0 exp299
(10.0.0.1, 1003, 2.0.0.2, 53) => (1.0.0.1, 5003, 2.0.0.2, 53) [*0 1] i0 exp299
(2.0.0.2, 58, 1.0.0.1, 5008) => (2.0.0.2, 58, 10.0.0.1, 1008) [0 *1] i0 exp299
"
    );
}

/// One inside host can take all ports; what the others' packets cost then must not grow: at
/// some milliseconds for each, this would take ten minutes.
#[test]
fn packets_that_find_no_port_cost_no_search() {
    let inside = |n: u32| {
        format!(
            "InfiniteSource(LIMIT 60000, BURST 32, STOP false)
               -> DynamicUDPIPEncap(10.0.0.{n}, 1000, 2.0.0.2, 50, true, 1) -> rw;\n"
        )
    };
    let config = format!(
        "rw :: UDPRewriter(pattern 1.0.0.1 1024-65535? 2.0.0.2 7 0 1, drop, REAP_INTERVAL 0);
         {ENDS}{}{}{}",
        inside(1),
        inside(2),
        inside(3)
    );
    let mut rig = ran(&config);
    let read = |rig: &mut Rig, handler: &str| rig.read(handler).trim().parse::<u64>().expect("a number");
    let (flows, failures) = (read(&mut rig, "rw.size"), read(&mut rig, "rw.mapping_failures"));
    assert_eq!((flows, flows + failures), (65_535 - 1023, 180_000));
    assert_eq!(
        rig.read("rw.failure_details"),
        format!("{failures}\tno free address or port\n0\ttable full\n0\ttoo many flows of one host\n")
    );
}

/// A host that begins flow after flow is refused when it has so many, and others are not, with
/// every rewriter that lets a host have several.
#[test]
fn one_host_does_not_take_what_all_share() {
    let source = |count: u32| format!("InfiniteSource(LIMIT {count}, BURST 1, STOP false)");
    let udp = |host: u8, count: u32| {
        source(count) + &format!(" -> DynamicUDPIPEncap(10.0.0.{host}, 1000, 2.0.0.2, 50, true, 1)")
    };
    let tcp = |host: u8, count: u32| udp(host, count) + " -> StoreData(9, \\<06>) -> SetIPChecksum";
    let pings = |host: u8, count: u32| {
        source(count) + &format!(" -> ICMPPingEncap(10.0.0.{host}, 2.0.0.2) -> NumberPacket(24)")
    };
    let pairs = |host: u8, count: u32| udp(host, count) + " -> NumberPacket(16)";
    let ports = "pattern 1.0.0.1 1024-65535 - - 0 1";
    let mapped = "RoundRobinIPMapper(- 1024-65535 2.0.0.2 80 0 1, - 1024-65535 2.0.0.3 80 0 1)";
    let cases: [(&str, &str, String, String); 5] = [
        ("IPRewriter", ports, udp(1, 5000), udp(2, 3)),
        ("TCPRewriter", ports, tcp(1, 5000), tcp(2, 3)),
        ("UDPRewriter", "mapper", udp(1, 5000), udp(2, 3)),
        ("ICMPPingRewriter", ports, pings(1, 5000), pings(2, 3)),
        ("IPAddrPairRewriter", "pattern - - 0 1", pairs(1, 5000), pairs(2, 3)),
    ];
    for (class, spec, many, few) in cases {
        let config = format!(
            "mapper :: {mapped};\nrw :: {class}({spec}, drop, HOST_CAPACITY 100, REAP_INTERVAL 0);\n{ENDS}\
             {many} -> rw; {few} -> rw;\n"
        );
        let mut rig = ran(&config);
        assert_eq!(
            (rig.read("rw.size"), rig.read("rw.host_capacity")),
            ("103".into(), "100".into()),
            "{class}"
        );
        let refused = "0\tno free address or port\n0\ttable full\n4900\ttoo many flows of one host\n";
        assert_eq!(rig.read("rw.failure_details"), refused, "{class}");
    }
}

/// What a host has is counted down when its flows expire, and nobody needs to wait for the
/// next time that all are looked through.
#[test]
fn a_host_may_begin_flows_again_when_its_old_ones_expired() {
    let config = format!(
        "rw :: UDPRewriter(pattern 1.0.0.1 1024-65535 - - 0 1, drop, HOST_CAPACITY 10, TIMEOUT 5, GUARANTEE 1,
                           REAP_INTERVAL 0);
         {ENDS}
         RatedSource(DATA x, RATE 2, LIMIT 100) -> DynamicUDPIPEncap(10.0.0.1, 1000, 2.0.0.2, 50, true, 1) -> rw;
         DriverManager(wait 45s, stop);"
    );
    let mut rig = built(&config);
    rig.router.run();
    let read = |rig: &mut Rig, handler: &str| rig.read(handler).trim().parse::<u64>().expect("a number");
    let refused = read(&mut rig, "rw.mapping_failures");
    assert_eq!(read(&mut rig, "rw.size"), 10);
    assert!(refused <= 5, "{refused} of 90 were refused at two flows a second for five seconds each");
}

#[test]
fn pings_are_listed_in_clicks_order() {
    let ping = |host: u8, identifier: u16| {
        format!(
            "InfiniteSource(LIMIT 1, STOP false) -> ICMPPingEncap(10.0.0.{host}, 2.0.0.2, IDENTIFIER {identifier}) -> rw;\n"
        )
    };
    let config = "rw :: ICMPPingRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop);\n".to_string()
        + ENDS
        + &[(1, 255), (2, 1), (3, 2000)].map(|(host, identifier)| ping(host, identifier)).concat();
    let table = ran(&config).read("rw.table");
    // Replies are listed with the number that goes with their identifier, as Click does.
    assert_eq!(
        table,
        "(2.0.0.2, 1.0.0.1, 1282) => (2.0.0.2, 10.0.0.3, 2256) [0 *1] i0 exp299
(10.0.0.3, 2.0.0.2, 2000) => (1.0.0.1, 2.0.0.2, 1026) [*0 1] i0 exp299
(2.0.0.2, 1.0.0.1, 1280) => (2.0.0.2, 10.0.0.1, 511) [0 *1] i0 exp299
(10.0.0.2, 2.0.0.2, 1) => (1.0.0.1, 2.0.0.2, 1025) [*0 1] i0 exp299
(10.0.0.1, 2.0.0.2, 255) => (1.0.0.1, 2.0.0.2, 1024) [*0 1] i0 exp299
(2.0.0.2, 1.0.0.1, 1281) => (2.0.0.2, 10.0.0.2, 257) [0 *1] i0 exp299
"
    );
}

#[test]
fn a_flow_that_takes_anothers_place_is_listed_there() {
    let config = "rw :: UDPRewriter(pattern 1.0.0.1 77 - - 0 1, drop);\n".to_string()
        + ENDS
        + &datagrams(1, "10.0.0.1, 1", "2.0.0.2, 5", "rw")
        + &datagrams(1, "10.0.0.1, 1", "2.0.0.3, 5", "rw")
        + &datagrams(1, "10.0.0.9, 2", "2.0.0.2, 5", "rw")
        + &datagrams(1, "10.0.0.9, 3", "2.0.0.3, 5", "rw");
    assert_eq!(
        ran(&config).read("rw.table"),
        "(10.0.0.9, 3, 2.0.0.3, 5) => (1.0.0.1, 77, 2.0.0.3, 5) [*0 1] i0 exp299
(10.0.0.9, 2, 2.0.0.2, 5) => (1.0.0.1, 77, 2.0.0.2, 5) [*0 1] i0 exp299
(2.0.0.3, 5, 1.0.0.1, 77) => (2.0.0.3, 5, 10.0.0.9, 3) [0 *1] i0 exp299
(2.0.0.2, 5, 1.0.0.1, 77) => (2.0.0.2, 5, 10.0.0.9, 2) [0 *1] i0 exp299
"
    );
}

/// What `IPPrint` says, without its label.
fn printed(rig: &Rig) -> Vec<String> {
    rig.printed().lines().filter_map(|line| Some(line.strip_prefix("x: ")?.to_string())).collect()
}

#[test]
fn who_uses_a_named_pattern_takes_turns_with_all_others() {
    let config = "IPRewriterPatterns(A 1.0.0.1 1024-1030# - -, B A);
        m :: RoundRobinIPMapper(A 0 0, B 0 0);
        rw :: UDPRewriter(pattern A 0 0, pattern B 0 0, m); rw -> IPPrint(x, TIMESTAMP false) -> Discard;\n"
        .to_string()
        + &(0..3)
            .map(|i| datagrams(2, &format!("10.0.0.{i}, 1"), "2.0.0.2, 5", &format!("[{i}]rw")))
            .collect::<String>();
    let got = printed(&ran(&config));
    let ports = [(1024, 5), (1025, 5), (1026, 5), (1027, 6), (1028, 6), (1029, 6)];
    assert_eq!(got, ports.map(|(from, to)| format!("1.0.0.1.{from} > 2.0.0.2.{to}: udp 77")));
}

#[test]
fn a_source_has_the_server_that_click_gives_it() {
    let sources = ["10.0.0.1", "10.1.2.3", "10.0.0.77", "192.168.3.4", "172.16.0.1", "10.200.0.1"];
    let config =
        "h :: SourceIPHashMapper(7 0xbeef, - - 8.0.0.1 - 0 0 9, - - 8.0.0.2 - 0 0 3, - - 8.0.0.3 - 0 0 12);
        rw :: UDPRewriter(h); rw -> IPPrint(x, TIMESTAMP false) -> Discard;\n"
            .to_string()
            + &sources.map(|source| datagrams(1, &format!("{source}, 1"), "2.0.0.2, 5", "rw")).concat();
    let servers = [1, 1, 2, 1, 1, 1];
    let expected: Vec<String> =
        sources.iter().zip(servers).map(|(source, n)| format!("{source}.1 > 8.0.0.{n}.5: udp 77")).collect();
    assert_eq!(printed(&ran(&config)), expected);
}

fn wrong(config: &str) -> String {
    Rig::new(config).err().unwrap_or_default()
}

#[test]
fn all_that_is_wrong_with_inputs_is_said_at_once() {
    let inputs: String = (0..9).map(|i| format!("Idle -> [{i}]rw; ")).collect();
    let config = "rw :: IPRewriter(pattern 1.0.0.1 80# - - 0 0, pattern 1.0.0.1 0 - - 0 0, pass -1, keep 0, keep 0 x, \
                  foo bar, rw 5, rw, drop x);"
        .to_string();
    let said = wrong(&(config + &inputs + "rw -> Discard;"));
    for (input, message) in [
        "bad source port",
        "bad source port",
        "output port out of range",
        "bad forward port",
        "bad reply port",
        "unknown specification",
        "syntax error, expected element name",
        "element is not an IPMapper",
        "syntax error, expected 'drop'",
    ]
    .iter()
    .enumerate()
    {
        assert!(said.contains(&format!("input spec {input}: {message}")), "{message}: {said}");
    }
    let both = wrong("Idle -> ICMPRewriter(x y:5 z:a d:7) -> d :: Discard");
    for message in [
        "x not an IP rewriter",
        "y not an IP rewriter",
        "z:a not an IP rewriter",
        "d:7 port offset requires more than 1 output",
        "no IP rewriters supplied",
    ] {
        assert!(both.contains(message), "{message}: {both}");
    }
    let ftp = wrong("Idle -> FTPPortMapper(d, x, 0) -> d :: Discard");
    assert!(ftp.contains("CONTROL_REWRITER: element type mismatch, expected TCPRewriter"), "{ftp}");
    assert!(ftp.contains("DATA_REWRITER: does not name an element"), "{ftp}");
    let patterns = wrong("IPRewriterPatterns(a 1.0.0.1 5 - -, a 1.0.0.2 5 - -, c 1.0.0.1 x - -, e q)");
    for message in ["pattern 'a' already defined", "bad source port", "no such pattern 'q'"] {
        assert!(patterns.contains(message), "{message}: {patterns}");
    }
}

#[test]
fn times_are_whole_seconds() {
    let config = "rw :: UDPRewriter(keep 0 1, drop, TIMEOUT 10.5, GUARANTEE 0.4, REAP_INTERVAL 0);\n"
        .to_string()
        + ENDS
        + &datagrams(1, "10.0.0.1, 1", "2.0.0.2, 5", "rw");
    let table = ran(&config).read("rw.table");
    assert!(table.lines().all(|line| line.ends_with(" exp10")), "11 s, and one has passed: {table}");
}

#[test]
fn an_aggregate_is_a_flows_number() {
    let config = "rw :: IPRewriter(keep 0 1, drop, SET_AGGREGATE true, USE_CACHE false) -> IPPrint(x, AGGREGATE true, TIMESTAMP false) -> Discard; Idle -> [1]rw; rw[1] -> Discard;"
        .to_string()
        + &datagrams(3, "10.0.0.1, 1", "2.0.0.2, 5", "rw");
    let lines = printed(&ran(&config));
    let numbers: Vec<&str> = lines.iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(numbers, ["#0:", "#1:", "#2:"], "{lines:?}");
}

#[test]
fn handlers_take_what_click_takes_and_say_what_it_says() {
    let config = "AddressInfo(me 10.0.0.1); rw :: TCPRewriter(drop); Idle -> rw -> Discard;
        u :: UDPRewriter(drop, CAPACITY rw); Idle -> u -> Discard;";
    let mut rig = built(config);
    let ask = |rig: &mut Rig, what: &str| {
        let answer = rig.router.read("rw.lookup", what);
        answer.map_err(|refused| refused.to_string())
    };
    assert_eq!(ask(&mut rig, "me ftp 2.0.0.2 www"), Ok(String::new()));
    assert_eq!(
        ask(&mut rig, "1 2 3"),
        Err("SADDR: parse error\nDADDR: parse error\nDPORT: required argument missing".into())
    );
    assert_eq!(
        ask(&mut rig, "me a 2.0.0.2 99999 6"),
        Err("SPORT: parse error\nDPORT: overflow, range 0-65535\ntoo many arguments".into())
    );
    let mut write = |name: &str, value: &str| rig.write(name, value).err().map(|refused| refused.to_string());
    assert_eq!(write("rw.capacity", "x"), Some("CAPACITY: invalid number".into()));
    assert_eq!(write("rw.capacity", ""), Some("CAPACITY: required argument missing".into()));
    assert_eq!(write("rw.capacity", "5 6"), Some("too many arguments".into()));
    assert_eq!(write("rw.capacity", "0x10"), None);
    assert_eq!(write("rw.pattern0", "pattern me 5 - - 0 0"), None);
    assert_eq!(write("rw.pattern0", "what"), Some("input spec 0: unknown specification".into()));
    assert_eq!((rig.read("u.capacity"), rig.read("rw.pattern0")), ("16".into(), "10.0.0.1 5 - -\n".into()));
}
