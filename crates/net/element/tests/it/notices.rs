//! What Click warns of, and what it knows by names of the system's.
#![allow(clippy::unwrap_used)]

use crate::Rig;

fn warnings(config: &str) -> String {
    let rig = Rig::new(config).unwrap_or_else(|problems| panic!("{config}: {problems}"));
    rig.router.warnings().iter().map(|problem| problem.text() + "\n").collect()
}

/// `c` of a configuration, with so many outputs.
fn fan(class: &str, outputs: usize) -> String {
    let ends: String = (0..outputs).map(|n| format!(" c[{n}] -> Discard;")).collect();
    format!("Idle -> c :: {class};{ends}")
}

#[test]
fn what_click_warns_of_is_a_warning() {
    let (ip, ethernet) =
        (fan("IPClassifier(tcp, udp, tcp dst port 80, -)", 4), fan("Classifier(12/0800, 12/0800)", 2));
    for (config, word) in [
        (ip.as_str(), "output 2 matches no packets"),
        (ethernet.as_str(), "output 1 matches no packets"),
        ("Idle -> s :: StrideSched(40000) -> Discard", "input 0's tickets reduced to 32768"),
        (
            "ScheduleInfo(s 100); s :: InfiniteSource(LIMIT 0) -> Discard",
            "ScheduleInfo too high; reduced to 32",
        ),
        ("StaticThreadSched(nonex 0)", "'nonex' does not name an element"),
    ] {
        let said = warnings(config);
        assert!(said.contains(word), "{config}: {said}");
    }
    assert_eq!(warnings(&fan("IPFilter(0 tcp, 0 udp, 1 all)", 2)), "");
    // 32 is the most there is, and who has no task has no tickets.
    assert_eq!(warnings("ScheduleInfo(s 32); s :: InfiniteSource(LIMIT 0) -> Discard"), "");
    assert_eq!(warnings("ScheduleInfo(q 100); Idle -> q :: Queue -> Unqueue -> Discard"), "");
}

#[test]
fn an_empty_argument_keeps_the_place_of_one_that_may_be_left_out() {
    for config in [
        "Idle -> Print(a,,) -> Discard",
        "Idle -> Print(,10) -> Discard",
        "Idle -> Switch( , ) -> Discard",
        "Idle -> Queue( , ) -> Unqueue -> Discard",
    ] {
        assert_eq!(warnings(config), "", "{config}");
    }
    assert!(Rig::new("Idle -> Print(a, x) -> Discard").is_err());
    // What must be given is not given by an empty place.
    for (config, key) in [
        ("EtherEncap(0x800, , 1:2:3:4:5:6)", "SRC"),
        ("Paint(,)", "COLOR"),
        ("Truncate(,)", "LENGTH"),
        ("SetIPAddress(,)", "IPADDR"),
    ] {
        let said = Rig::new(&format!("Idle -> {config} -> Discard")).err().unwrap_or_default();
        assert!(said.contains(&format!("{key}: required argument is empty")), "{config}: {said}");
    }
    for config in ["CheckIPHeader(,)", "CheckIPHeader(,,)", "CheckIPHeader(, 14)", "CheckIPHeader(14,,)"] {
        let said = Rig::new(&format!("Idle -> {config} -> Discard")).err().unwrap_or_default();
        assert!(said.contains("too many arguments"), "{config}: {said}");
    }
    // An empty pattern holds always.
    let said = warnings(&fan("Classifier(12/0800, , -)", 3));
    assert!(said.contains("output 2 matches no packets"), "{said}");
}

#[test]
fn what_is_written_of_an_address_has_no_word_too_many() {
    let mut rig =
        Rig::new("Idle -> q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1) -> Discard; Idle -> [1]q; q[1] -> Discard")
            .unwrap();
    for (handler, value) in [("q.insert", "10.0.0.2 2:0:0:0:0:2 x"), ("q.delete", "10.0.0.2 x")] {
        let refused = rig.write(handler, value).unwrap_err();
        assert!(refused.to_string().contains("too many arguments"), "{handler}: {refused}");
    }
    assert_eq!(rig.read("q.count"), "0");
}

#[test]
fn no_time_span_is_negative_but_what_is_added_to_a_time() {
    for class in [
        "TimedSource(-1)",
        "Idle -> DelayShaper(-0.5)",
        "Idle -> LinkUnqueue(-1, 10Mbps)",
        "Idle -> TimeFilter(START -1, INTERVAL 2)",
        "Idle -> TimeFilter(INTERVAL -0)",
        "Idle -> SetTimestamp(-1)",
    ] {
        let problems = Rig::new(&format!("{class} -> Discard")).err().unwrap_or_default();
        assert!(problems.contains("expected time in seconds"), "{class}: {problems}");
    }
    let mut rig = Rig::new("Idle -> a :: AdjustTimestamp(-1.5) -> Discard").unwrap();
    assert_eq!(rig.read("a.time").trim(), "-1.500000s");
    rig.write("a.time", "-2").unwrap();
    assert_eq!(rig.read("a.time").trim(), "-2.000000s");
}

#[test]
fn what_tells_dpdk_something_is_named_in_one_note() {
    let said = warnings("DPDKInfo(NB_MBUF 65536, MBUF_CACHE_SIZE 256)");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("NB_MBUF 65536, MBUF_CACHE_SIZE 256 not needed"), "{said}");
    assert_eq!(warnings("DPDKInfo()"), "");
}

#[test]
fn what_fastclick_says_of_its_own_ways_is_taken() {
    for config in [
        "Idle -> ReplayUnqueue(STOP 0, QUICK_CLONE true, VERBOSE false) -> Discard".to_owned(),
        fan("RoundRobinSwitch(SPLITBATCH false)", 2),
    ] {
        assert_eq!(warnings(&config), "", "{config}");
    }
}

#[test]
fn filters_know_the_systems_protocols() {
    // Where the machine has no such file they do not.
    if !std::fs::read_to_string("/etc/protocols").is_ok_and(|text| text.contains("ospf")) {
        return;
    }
    assert_eq!(warnings(&fan("IPClassifier(ip proto esp, ip proto ah, proto ospf, -)", 4)), "");
    assert!(Rig::new(&fan("IPClassifier(ip proto nonesuch, -)", 2)).is_err());
}

#[test]
fn the_flat_configuration_is_as_it_is_now() {
    let mut rig =
        Rig::new("Idle -> p :: Paint(1) -> s :: Switch(0); s[0] -> Discard; s[1] -> Discard").unwrap();
    assert!(rig.read("flatconfig").contains("p :: Paint(1);"), "{}", rig.read("flatconfig"));
    rig.write("p.config", "7").unwrap();
    rig.write("s.switch", "1").unwrap();
    let flat = rig.read("flatconfig");
    assert!(flat.contains("p :: Paint(7);") && flat.contains("s :: Switch(1);"), "{flat}");
}

/// What a handler changes stands in the configuration where it does in Click's: handlers that give an
/// argument another value, and elements that tell their configuration themselves. The others are for
/// the moment (`Paint.color`).
#[test]
fn what_handlers_change_stands_in_the_configuration() {
    let (a, b, c) = ("1:1:1:1:1:1", "02:02:02:02:02:02", "03:03:03:03:03:03");
    let ether = format!("0x0800, {a}, {b}");
    for (class, config, handler, value, expected) in [
        ("EtherEncap", &ether[..], "src", c, format!("0x0800, {c}, {b}")),
        ("EtherEncap", &ether, "dst", c, format!("0x0800, {a}, {c}")),
        ("EtherEncap", &ether, "ethertype", "0x0806", format!("0x0806, {a}, {b}")),
        ("EtherEncap", &ether, "etht", "0x0806", format!("0x0806, {a}, {b}")),
        ("EtherRewrite", &format!("DST {b}, SRC {a}"), "src", c, format!("DST {b}, SRC {c}")),
        ("EtherRewrite", &format!("{a}, {b}"), "dst", c, format!("{a}, {c}")),
        (
            "EtherVLANEncap",
            &format!("0x0800, {b}, {b}, 5"),
            "vlan_id",
            "7",
            format!("2048, {}, {}, VLAN_ID 7, VLAN_PCP 0", mac(2), mac(2)),
        ),
        (
            "EtherVLANEncap",
            &format!("0x0800, {b}, {b}, ANNO"),
            "src",
            c,
            format!("2048, {}, {}, ANNO", mac(3), mac(2)),
        ),
        ("VLANEncap", "5", "vlan_id", "7", "VLAN_ID 7, VLAN_PCP 0".into()),
        ("VLANEncap", "0x1005", "native_vlan", "3", "4101, NATIVE_VLAN 3".into()),
        ("VLANEncap", "ANNO", "native_vlan", "3", "ANNO, NATIVE_VLAN 3".into()),
        ("VLANEncap", "5", "ethertype", "0x88a8", "VLAN_ID 5, VLAN_PCP 0, ETHERTYPE 0x88a8".into()),
        ("SetVLANAnno", "VLAN_ID 5", "vlan_pcp", "3", "VLAN_ID 5, VLAN_PCP 3".into()),
        ("IPEncap", "4, 1.0.0.1, 2.0.0.2", "src", "3.0.0.3", "4, 3.0.0.3, 2.0.0.2".into()),
        ("IPEncap", "4, 1.0.0.1, 2.0.0.2", "dst", "DST_ANNO", "4, 1.0.0.1, DST_ANNO".into()),
        ("IP6Encap", "41, ::1, ::2", "src", "::3", "41, ::3, ::2".into()),
        ("SetIPDSCP", "3", "dscp", "5", "5".into()),
        ("SetIPECN", "1", "ecn", "ce", "ce".into()),
        ("SetIP6DSCP", "3", "dscp", "5", "5".into()),
        ("UDPIP6Encap", "::1, 1, ::2, 2", "src", "::3", "::3, 1, ::2, 2".into()),
        ("UDPIP6Encap", "::1, 1, ::2, 2", "dport", "9", "::1, 1, ::2, 9".into()),
        ("UDPIPEncap", "1.0.0.1, 1, 2.0.0.2, 2", "sport", "9", "1.0.0.1, 9, 2.0.0.2, 2".into()),
        ("RatedUnqueue", "100", "rate", "200", "200".into()),
        ("Queue", "100", "capacity", "200", "200".into()),
        ("Paint", "1", "color", "7", "1".into()),
    ] {
        let class_of = if class == "RatedUnqueue" { "Queue -> e :: RatedUnqueue" } else { "e :: " };
        let class_of = if class == "RatedUnqueue" { class_of.into() } else { format!("{class_of}{class}") };
        let end = if class == "Queue" { "Idle" } else { "Discard" };
        let mut rig = Rig::new(&format!("Idle -> {class_of}({config}) -> {end}")).unwrap();
        let read = rig.read(&format!("e.{handler}"));
        rig.write(&format!("e.{handler}"), value).unwrap();
        assert_eq!(rig.read("e.config"), expected, "{class}({config}) {handler}");
        assert!(
            rig.read("flatconfig").contains(&format!("{class}({expected})")),
            "{}",
            rig.read("flatconfig")
        );
        assert_ne!(rig.read(&format!("e.{handler}")), read, "{class}.{handler}");
        // What is shown is a configuration that the element takes.
        rig.write("e.config", &expected).unwrap();
    }
}

/// A value is one argument, whatever is in it: it sets no other, and ends none.
#[test]
fn what_a_handler_is_given_changes_no_other_argument() {
    let encap = "Idle -> e :: UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2) -> Discard";
    // A pattern has blanks, and quotes of its own.
    let mut rig = Rig::new("Idle -> e :: IPClassifier(tcp, -) -> Discard; e[1] -> Discard").unwrap();
    for pattern in ["src host 1.2.3.4", "tcp dst port \"80\""] {
        rig.write("e.pattern0", pattern).unwrap();
        assert_eq!(rig.read("e.pattern0"), pattern);
    }
    for (graph, handler, value) in [
        (encap, "sport", "9, CHECKSUM false"),
        (encap, "sport", "9 //"),
        (encap, "sport", "9 /*"),
        (encap, "src", "\"3.0.0.3"),
        (encap, "src", "'3.0.0.3"),
        (encap, "sport", "9 \\"),
        (encap, "sport", "CHECKSUM false"),
        ("Idle -> Queue -> e :: RatedUnqueue(100) -> Discard", "rate", "200, BURST 3"),
    ] {
        let mut rig = Rig::new(graph).unwrap();
        let before = rig.read("e.config");
        let refused = rig.write(&format!("e.{handler}"), value);
        assert!(refused.is_err(), "{handler} {value}: {}", rig.read("e.config"));
        assert_eq!(rig.read("e.config"), before, "{handler} {value}");
    }
}

/// An address of one digit, as handlers show it.
fn mac(digit: u8) -> String {
    vec![format!("0{digit}"); 6].join("-").to_uppercase()
}
