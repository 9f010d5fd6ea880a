//! TCP, UDP and ICMP elements, as Click's are: what they print, bytes they make, and
//! what they do with what is odd.

use crate::Rig;

fn built(config: &str) -> Rig {
    Rig::new(config).unwrap_or_else(|error| panic!("{error}"))
}

/// A router that ran for a while, simulated.
fn ran(config: &str, wait: &str) -> Rig {
    let mut rig = built(&format!("{config}\nDriverManager(wait {wait}, stop);"));
    rig.run();
    rig
}

/// What `Print` says behind a label: the bytes in hexadecimal.
fn printed(rig: &Rig, label: &str) -> Vec<String> {
    let line = |line: &str| {
        let (_, bytes) = line.strip_prefix(label)?.strip_prefix(':')?.split_once(" | ")?;
        Some(bytes.chars().filter(|c| *c != ' ').collect())
    };
    rig.printed().lines().filter_map(line).collect()
}

fn source(count: u32, hex: &str) -> String {
    format!("InfiniteSource(DATA \\<{hex}>, LIMIT {count}, BURST 1, STOP false) -> MarkIPHeader -> ")
}

#[test]
fn bad_packets_are_told_of_as_click_tells() {
    let config = source(2, "4500001500000000401122c70a000001020000020000")
        + "t :: CheckTCPHeader -> u :: CheckICMPHeader -> Discard; t[1] -> c :: CheckICMPHeader(VERBOSE true) -> Discard;
           c[1] -> d :: CheckUDPHeader(VERBOSE true) -> Discard; d[1] -> e :: SetTCPChecksum -> Discard;"
        + &source(2, "4500001500000000401122c70a000001020000020000")
        + "f :: SetUDPChecksum -> SetUDPChecksum -> Discard;"
        + &source(2, "4500001500000000401122c70a000001020000020000")
        + "g :: SetUDPChecksum -> Discard;";
    let rig = ran(&config, "1s");
    let said = rig.printed();
    let count = |text: &str| said.lines().filter(|line| *line == text).count();
    assert_eq!(count("t :: CheckTCPHeader: TCP header check failed: not TCP"), 1, "{said}");
    assert_eq!(count("c :: CheckICMPHeader: ICMP header check failed: not ICMP"), 2);
    assert_eq!(count("UDP header check failed: bad packet length"), 2);
    assert_eq!(count("SetTCPChecksum: bad lengths"), 2);
    let short = said.lines().filter(|line| line.ends_with(":: SetUDPChecksum: fragment or short packet"));
    assert_eq!(short.count(), 1, "once for the router: {said}");
}

#[test]
fn checksums_may_be_of_no_concern() {
    let bad = "4500001c00000000401166ce0a000001020000020001000200081234";
    let config = source(2, bad)
        + "a :: CheckUDPHeader(CHECKSUM false) -> b :: CheckUDPHeader -> Discard; b[1] -> Discard;";
    let mut rig = ran(&config, "1s");
    let counts = ["a.count", "a.drops", "b.count", "b.drops"].map(|name| rig.read(name));
    assert_eq!(counts, ["2", "0", "0", "2"].map(String::from));
}

#[test]
fn a_route_leads_to_the_address_that_checksums_are_about() {
    // By way of 3.3.3.3, then to 4.4.4.4.
    let routed = "4800002d0000000040114c540a00000102000002830b0403030303040404040000050006000d00006162636465";
    let config = source(1, routed)
        + "SetUDPChecksum -> c :: CheckUDPHeader(VERBOSE true) -> Print(x, -1) -> Discard; c[1] -> Discard;";
    let mut rig = ran(&config, "1s");
    let got = printed(&rig, "x");
    assert_eq!(rig.read("c.drops"), "0");
    // 0a000001 and 04040404, 17, 13, and what follows.
    let words = [0x0a00, 0x0001, 0x0404, 0x0404, 17, 13, 5, 6, 13, 0x6162, 0x6364, 0x6500];
    let sum = words.iter().fold(0u32, |sum, word| (sum + word) % 0xFFFF);
    assert_eq!(got[0][76..80], format!("{:04x}", !(sum as u16)), "{got:?}");
}

#[test]
fn a_routers_errors_count_together_and_take_new_configurations() {
    let packet = "4500001c00000000401122c00a0000010200000200010002000800ff";
    let config = source(1, packet)
        + "Tee(3) -> e :: ICMPError(9.9.9.9, unreachable, precedencecutoff) -> Print(a) -> Discard;"
        + &source(1, packet)
        + "ICMPError(9.9.9.9, unreachable, srcroutefail) -> Print(b) -> Discard;"
        + &source(1, packet)
        + "ICMPError(9.9.9.9, 12, 255) -> Print(c) -> Discard;";
    let config = config.replace("Tee(3) -> ", "");
    let mut rig = ran(&config, "1s");
    let starts = |label| printed(&rig, label)[0][..16].to_string();
    assert_eq!(["a", "b", "c"].map(starts), [1, 2, 3].map(|id| format!("45000038{id:04x}0000")));
    let code = |label: &str| printed(&rig, label)[0][40..44].to_string();
    assert_eq!(["a", "b", "c"].map(code), ["030f", "0305", "0cff"].map(String::from));
    rig.write("e.config", "1.2.3.4, timeexceeded, PMTU 7").expect("it is live");
    assert_eq!((rig.read("e.src"), rig.read("e.pmtu")), ("1.2.3.4".into(), "7".into()));
    let refused = rig.write("e.config", "1.2.3.4, 99").expect_err("no type");
    assert_eq!(refused.to_string(), "ICMP type 99 is not an error type");
    assert_eq!(rig.read("e.src"), "1.2.3.4");
    for (arguments, message) in [
        ("1.0.0.1, 300", "ICMP type must be between 0 and 255"),
        ("1.0.0.1, echo", "ICMP type 8 is not an error type"),
        ("1.0.0.1, 3, what", "argument 2 takes ICMP code (integer between 0 and 255)"),
        ("1.0.0.1, 11, port", "argument 2 takes ICMP code (integer between 0 and 255)"),
    ] {
        let wrong = Rig::new(&format!("Idle -> ICMPError({arguments}) -> Discard")).err().unwrap_or_default();
        assert!(wrong.contains(message), "{arguments}: {wrong}");
    }
}

#[test]
fn an_mtu_that_its_field_does_not_hold_is_the_largest_that_it_does() {
    let packet = "4500001c00000000401122c00a0000010200000200010002000800ff";
    let told = |mtu: &str| {
        let error =
            format!("ICMPError(9.9.9.9, unreachable, needfrag, PMTU {mtu}) -> Print(x, -1) -> Discard");
        printed(&ran(&(source(1, packet) + &error), "1s"), "x")[0][48..56].to_string()
    };
    assert_eq!(told("1400"), "00000578");
    assert_eq!(told("66000"), "0000ffff", "and not 464, by which the sender's path would be narrower");
}

#[test]
fn headers_are_made_with_ports_that_count_up_and_names_of_ports() {
    let config = "InfiniteSource(DATA x, LIMIT 5, BURST 1, STOP false) -> DynamicUDPIPEncap(1.0.0.1, 65535, 2.0.0.2, domain, true, 2)
        -> CheckIPHeader -> CheckUDPHeader -> Print(x, -1) -> Discard;
        InfiniteSource(DATA x, LIMIT 1, STOP false) -> u :: UDPIPEncap(1.0.0.1, 1, DST_ANNO, dns) -> Discard;";
    let mut rig = ran(config, "1s");
    let ports: Vec<String> = printed(&rig, "x").iter().map(|bytes| bytes[40..48].to_string()).collect();
    assert_eq!(ports, ["ffff0035", "ffff0035", "00000036", "00000036", "00010037"]);
    assert_eq!((rig.read("u.dst"), rig.read("u.dport")), ("0.0.0.0".into(), "53".into()));
    rig.write("u.dst", "3.3.3.3").expect("an address");
    rig.write("u.sport", "tftp").expect("a port");
    assert_eq!(rig.read("u.config"), "1.0.0.1, tftp, 3.3.3.3, dns");
    assert_eq!(rig.write("u.dst", "x").map_err(|refused| refused.to_string()), Err("bad DST".into()));
}

#[test]
fn segments_leave_when_a_handler_is_written() {
    let mut rig = built("s :: TCPIPSend -> Print(x, -1) -> Discard");
    rig.write("s.send", "1.0.0.1 6 2.0.0.2 www 9 10 18 2").expect("nine words");
    rig.write("s.send", "0x0100000a 6 2.0.0.2 8 9 10 18").expect("an address as Click has it");
    let got = printed(&rig, "x");
    let segment = "4500002800004000ff0678cd010000010200000200060050000000090000000a50127d782eef0000";
    assert_eq!((got.len(), &got[0], &got[1]), (3, &segment.to_string(), &segment.to_string()));
    assert_eq!(got[2][24..32], *"0a000001");
    let refused = rig.write("s.send", "1.0.0.1 6 2.0.0.2").expect_err("three words");
    assert!(
        refused.to_string().starts_with("DPORT: required argument missing\nSEQNO: required"),
        "{refused}"
    );
}

#[test]
fn anything_becomes_a_packet() {
    let noise = "05112233445566778811aaaa0a0000010200000201020304050607080900ff00aa";
    let config = format!("InfiniteSource(DATA \\<{noise}>, LIMIT 3, BURST 1, STOP false) -> ForceIP -> CheckIPHeader(VERBOSE true) -> t :: Tee(3);
        t[0] -> ForceUDP(53) -> c :: CheckUDPHeader(VERBOSE true) -> Print(u, -1) -> Discard;
        t[1] -> SetIPFields -> ForceICMP(echo, 3) -> Print(i, -1) -> Discard; t[2] -> ForceTCP(80) -> Discard;");
    let mut rig = ran(&config.replace("SetIPFields -> ", ""), "1s");
    let udp = printed(&rig, "u");
    assert_eq!(rig.read("c.drops"), "0", "{}", rig.printed());
    assert_eq!(udp[0][..16], *"4511002144550000");
    assert_eq!(udp[1][..16], *"4511002144556677", "the second stays a fragment");
    assert_eq!(udp[0][40..52], *"01020035000d");
    assert_eq!(printed(&rig, "i")[0][40..44], *"0803");
    assert!(rig.printed().contains("ForceTCP: bad lengths\n"));
}

#[test]
fn ports_of_a_source_count_up_and_its_rate_is_measured() {
    let config =
        "s :: FastUDPSource(1000, 5, 60, 0:0:0:0:0:1, 1.0.0.1, 65535, 0:0:0:0:0:2, 2.0.0.2, 53, true, 2)
        -> Unqueue(BURST 1) -> CheckIPHeader(14) -> c :: CheckUDPHeader -> Print(x, -1) -> Discard;";
    let mut rig = ran(config, "1s");
    let ports: Vec<String> = printed(&rig, "x").iter().map(|bytes| bytes[68..76].to_string()).collect();
    assert_eq!(ports, ["ffff0035", "ffff0035", "00000036", "00000036", "00010037"]);
    assert_eq!(
        (rig.read("c.drops"), rig.read("s.count"), rig.read("s.rate")),
        ("0".into(), "5".into(), "1250".into())
    );
    rig.write("s.reset", "").expect("it begins again");
    assert_eq!((rig.read("s.count"), rig.read("s.rate")), ("0".into(), "0".into()));
    let refused = rig.write("s.active", "x").expect_err("no boolean");
    assert_eq!(refused.to_string(), "active parameter must be boolean");
}

#[test]
fn pings_have_clicks_bytes_and_are_summed_up_at_the_end() {
    let config = "p :: ICMPPingSource(1.0.0.1, 2.0.0.2, INTERVAL 0.5, IDENTIFIER 513, LIMIT 4, DATA abc)
        -> Print(o, -1) -> ICMPPingResponder -> r :: Print(i, -1) -> n :: Null -> p;
        q :: ICMPPingSource(1.0.0.1, 2.0.0.2, LIMIT 2, IDENTIFIER 1) -> Print(m, -1) -> Discard; Idle -> q;";
    let mut rig = ran(config, "3.2s");
    let out = printed(&rig, "o");
    assert_eq!(out.len(), 4);
    assert_eq!(out[0], "4500001f00010000c801efda01000001020000020800329a01020001616263");
    assert_eq!(printed(&rig, "i")[0], "4500001f00010000ff01b8da020000020100000100003a9a01020001616263");
    let said = rig.printed();
    assert!(said.contains("p :: ICMPPingSource: 3 bytes from 2.0.0.2: icmp_seq=1 ttl=255 time=0.000 ms\n"));
    for line in [
        "p :: ICMPPingSource: 4 packets transmitted, 4 received, 0% packet loss",
        "p :: ICMPPingSource: rtt min/avg/max/mdev = 0.000/0.000/0.000/0.000",
        "q :: ICMPPingSource: 2 packets transmitted, 0 received, 100% packet loss",
    ] {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
    assert_eq!(rig.read("p.rtt_max"), "0s");
    let refused = ["active", "limit", "interval", "src"]
        .map(|name| rig.write(&format!("p.{name}"), "x").expect_err("x").to_string());
    let expected =
        ["type mismatch", "'limit' should be integer", "'interval' should be an interval", "syntax error"];
    assert_eq!(refused, expected.map(String::from));
    assert!(
        built("ICMPPingSource(1.0.0.1, 2.0.0.2) -> Discard")
            .read("ICMPPingSource@1.summary")
            .starts_with("refused")
    );
}

#[test]
fn pings_are_pulled_and_answers_become_pings() {
    let config = "s :: ICMPPingSource(1.0.0.1, 2.0.0.2, LIMIT 3) -> Print(p) -> Unqueue -> Discard;
        q :: ICMPPingSource(1.0.0.1, 2.0.0.2, LIMIT 1, MIRROR true, DATA x, VERBOSE false) -> Print(m, -1)
        -> ICMPPingResponder -> Queue(10) -> DelayUnqueue(0.3) -> SetTimestamp -> q;";
    let mut rig = ran(config, "2.05s");
    assert_eq!((printed(&rig, "p").len(), rig.read("s.count")), (3, "3".into()));
    let sent = printed(&rig, "m");
    let numbers: Vec<&str> = sent.iter().map(|bytes| &bytes[52..56]).collect();
    assert_eq!(numbers, ["0001", "0002", "0003", "0004"], "at 1, 1.3, 1.6 and 1.9 s, whatever LIMIT says");
    assert_eq!(rig.read("q.rtt_min"), "0.3s");
    let wrong = Rig::new("ICMPPingSource(1.0.0.1, 2.0.0.2, MIRROR true) -> Unqueue -> Discard").err();
    assert!(wrong.unwrap_or_default().contains("MIRROR invalid on pull element"));
}

#[test]
fn nothing_but_zeros_has_a_checksum_of_ones() {
    let ping = "4500001c00000000400170c90a000001020000020800f7ff00000000";
    let config = source(1, ping)
        + "rw :: ICMPPingRewriter(keep 0 1) -> ICMPPingResponder -> Print(x, -1) -> Discard; rw[1] -> Discard;";
    let got = printed(&ran(&config, "1s"), "x");
    assert_eq!(got[0][40..], *"0000ffff00000000");
}
