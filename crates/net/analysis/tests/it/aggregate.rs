//! Aggregates: numbered, counted, kept, filtered and written.

use std::path::PathBuf;

use crate::Rig;
use proptest::prelude::*;

fn rig(config: &str) -> Rig {
    Rig::new(config).unwrap_or_else(|problems| panic!("{config}\n{problems}"))
}

fn source(lines: &str) -> String {
    format!("FromIPSummaryDump(DATA {}, STOP true)", graph::lang::args::quote(lines.as_bytes()))
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("ixora-aggregate-{}-{name}", std::process::id()))
}

/// Aggregates and colours behind `elements`.
fn aggregates(lines: &str, elements: &str) -> String {
    let config =
        format!("{} -> {elements} -> ToIPSummaryDump(-, HEADER false, FIELDS aggregate link)", source(lines));
    let printed = rig(&config).run().printed();
    printed.lines().map(|line| line.replace(' ', ".")).collect::<Vec<_>>().join(" ")
}

/// Two hosts can have a flow for each pair of ports: what one more packet costs does not depend
/// on how many there are. At a step for each, this takes minutes.
#[test]
fn flows_of_two_hosts_are_not_searched() {
    let config = "InfiniteSource(LIMIT 600000, BURST 32, STOP true) -> DynamicUDPIPEncap(1.0.0.1, 0, 2.0.0.2, 0, false, 1)
                  -> MarkIPHeader -> SetTimestamp -> af :: AggregateIPFlows -> c :: Counter -> Discard";
    let mut rig = rig(config);
    rig.run();
    assert_eq!((rig.read("af.nflows"), rig.read("c.count")), ("65536".into(), "600000".into()));
}

#[test]
fn fields_lengths_and_colours_are_aggregates() {
    let lines = "!data ip_src sport ip_len link\n1.2.3.4 80 100 5\n9.0.0.1 443 40 255\n";
    assert_eq!(aggregates(lines, "AggregateIP(ip src/8)"), "1.5 9.255");
    assert_eq!(aggregates(lines, "AggregateIP(ip[12:2])"), "258.5 2304.255");
    assert_eq!(
        aggregates(lines, "AggregateIP(\"ip[12, 2]\", UNSHIFT_IP_ADDR true)"),
        "16908288.5 150994944.255"
    );
    assert_eq!(
        aggregates(lines, "AggregateIP(tcp sport) -> AggregateIP(ip src & 0xF0000000, INCREMENTAL true)"),
        "1280.5 7088.255"
    );
    assert_eq!(aggregates(lines, "AggregateIP(udp sport)"), "");
    assert_eq!(aggregates(lines, "AggregateLength"), "100.5 40.255");
    assert_eq!(aggregates(lines, "AggregatePaint(4)"), "5.5 15.255");
    assert_eq!(aggregates(lines, "AggregatePaint -> AggregatePaint(2, INCREMENTAL true)"), "21.5 1023.255");
    for wrong in ["ip src/40", "nonsense", "ip{20:20}", "ip[0:8]", "ip id x"] {
        assert!(Rig::new(&format!("Idle -> AggregateIP({wrong}) -> Discard")).is_err(), "{wrong}");
    }
    let mut rig = rig("Idle -> a :: AggregateIP(ip dst/24) -> Discard");
    assert_eq!(
        (rig.read("a.header"), rig.read("a.bit_offset"), rig.read("a.bit_length"), rig.read("a.field")),
        ("ip".into(), "128".into(), "24".into(), "ip dst/24".into())
    );
}

const FLOWS: &str = "!data timestamp ip_src sport ip_dst dport ip_proto tcp_flags\n\
    1 1.0.0.1 10 2.0.0.1 20 T S\n\
    2 2.0.0.1 20 1.0.0.1 10 T SA\n\
    3 1.0.0.1 11 2.0.0.1 20 T S\n\
    4 1.0.0.1 10 2.0.0.1 20 U -\n\
    5 1.0.0.1 10 2.0.0.1 20 T FA\n\
    6 2.0.0.1 20 1.0.0.1 10 T FA\n\
    7 1.0.0.1 10 2.0.0.1 20 T S\n\
    100 1.0.0.1 10 2.0.0.1 20 U -\n\
    101 2.0.0.1 20 1.0.0.1 10 T A\n\
    102 0.0.0.0 1 0.0.0.0 2 T A\n\
    103 1.0.0.1 1 2.0.0.1 2 I -\n";

#[test]
fn flows_are_numbered() {
    let numbers = "1.0 1.1 2.0 3.0 1.0 1.1 4.0 5.0 4.1";
    assert_eq!(aggregates(FLOWS, "AggregateIPFlows"), numbers);
    assert_eq!(aggregates(FLOWS, "AggregateIPFlows(UDP_TIMEOUT 200)"), "1.0 1.1 2.0 3.0 1.0 1.1 4.0 3.0 4.1");
    assert_eq!(aggregates(FLOWS, "AggregateIPFlows(TCP_TIMEOUT 50)"), "1.0 1.1 2.0 3.0 1.0 1.1 4.0 5.0 6.0");
    assert_eq!(aggregates(FLOWS, "AggregateIPFlows(CAPACITY 1)"), "1.0 1.1 1.0 1.1 2.0 2.1");
    assert_eq!(aggregates(FLOWS, "AggregateIPAddrPair"), "1.0 1.1 1.0 1.0 1.0 1.1 1.0 1.0 1.1 2.0 1.0");
    assert_eq!(
        aggregates(FLOWS, "AggregateIPAddrPair(TIMEOUT 50)"),
        "1.0 1.1 1.0 1.0 1.0 1.1 1.0 2.0 2.1 3.0 2.0"
    );
}

#[test]
fn icmp_errors_belong_to_the_flow_they_are_about() {
    // An error that 2.0.0.1 sent about what 1.0.0.1 had sent to it.
    let error = "4500 0038 0000 0000 4001 0000 02000001 01000001 0301 0000 00000000 \
                 4500 001c 0000 0000 4011 0000 01000001 02000001 000a 0014 0008 0000";
    let config = format!(
        "{} -> q :: Queue -> u :: Unqueue -> af :: AggregateIPFlows(ICMP true) -> ToIPSummaryDump(-, HEADER false, FIELDS aggregate link);
         InfiniteSource(DATA \\<{error}>, LIMIT 1, ACTIVE false) -> MarkIPHeader -> SetTimestamp(5) -> q;
         DriverManager(wait, write InfiniteSource@7.active true, wait_time 1s, stop)",
        source("!data timestamp ip_src sport ip_dst dport ip_proto\n4 1.0.0.1 10 2.0.0.1 20 U\n")
    )
    .replace("InfiniteSource(DATA", "i :: InfiniteSource(DATA")
    .replace("InfiniteSource@7", "i");
    assert_eq!(rig(&config).run().printed(), "1 0\n1 2\n");
}

#[test]
fn fragments_wait_for_the_first_one() {
    let lines = "!data timestamp ip_src sport ip_dst dport ip_proto ip_id ip_fragoff\n\
                 1 1.0.0.1 - 2.0.0.1 - U 7 80+\n\
                 1 1.0.0.1 10 2.0.0.1 20 U 9 0\n\
                 2 1.0.0.1 10 2.0.0.1 20 U 7 0+\n\
                 3 1.0.0.1 - 2.0.0.1 - U 8 80\n\
                 4 1.0.0.1 11 2.0.0.1 20 U 10 0\n";
    let config = |arguments: &str, end: &str| {
        format!(
            "{} -> af :: AggregateIPFlows({arguments}) -> ToIPSummaryDump(-, HEADER false, FIELDS ip_id aggregate);
             DriverManager(wait, {end} stop)",
            source(lines)
        )
    };
    assert_eq!(rig(&config("FRAGMENTS false", "")).run().printed(), "9 1\n7 1\n10 2\n");
    let mut held = rig(&config("", "write af.clear,"));
    assert_eq!(held.run().printed(), "7 1\n9 1\n7 1\n10 2\n", "in order; the lone fragment is dropped");
    // Those that are too old go although nothing came for them.
    let lines = format!("{lines}100 1.0.0.1 10 2.0.0.1 20 U 11 0\n");
    assert!(aggregates(&lines, "AggregateIPFlows").ends_with("2.0 3.0"));
    let pulled = "Idle -> Queue -> AggregateIPFlows(FRAGMENTS true) -> Unqueue -> Discard";
    assert!(Rig::new(pulled).err().expect("refused").contains("incompatible with pull"));
}

#[test]
fn traces_are_told_in_xml() {
    let path = scratch("trace");
    let config = format!(
        "f :: {} -> AggregateIPFlows(TRACEINFO {}, SOURCE f) -> Discard",
        source(FLOWS),
        path.display()
    );
    rig(&config).run();
    let told = std::fs::read_to_string(&path).expect("a file");
    std::fs::remove_file(&path).expect("a file");
    assert!(told.starts_with("<?xml version='1.0' standalone='yes'?>\n<trace file='&lt;data>'>\n"), "{told}");
    assert!(told.ends_with("</flow>\n</trace>\n"));
    assert!(told.contains(
        "<flow aggregate='1' src='1.0.0.1' sport='10' dst='2.0.0.1' dport='20' begin='1.000000000' duration='5.000000000'>\n  \
         <stream dir='0' packets='2' /><stream dir='1' packets='2' />\n</flow>\n"
    ), "{told}");
    assert_eq!(told.matches("<flow ").count(), 5);
}

/// A router that takes another's place goes on in its document; one that is made and never
/// runs leaves it alone.
#[test]
fn a_trace_goes_on_in_another_router() {
    let path = scratch("trace-goes-on");
    let config = |port: &str| {
        let line =
            format!("!data timestamp ip_src sport ip_dst dport ip_proto\n1 1.0.0.1 {port} 2.0.0.1 20 T\n");
        format!("{} -> AggregateIPFlows(TRACEINFO {}) -> Discard", source(&line), path.display())
    };
    let mut old = rig(&config("10"));
    old.router.run();
    drop(rig(&config("11")));
    let mut new = rig(&config("12"));
    new.router.take_over(&mut old.router);
    old.router.cleanup();
    drop(old);
    new.run();
    let told = std::fs::read_to_string(&path).expect("a file");
    assert!(told.starts_with("<?xml") && told.ends_with("</flow>\n</trace>\n"), "{told}");
    let count = |part: &str| told.matches(part).count();
    assert_eq!((count("<trace>"), count("</trace>"), count("<flow ")), (1, 1, 2), "{told}");
    // Another document begins anew.
    drop(rig(&config("13")));
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), told);
    rig(&config("14")).run();
    let told = std::fs::read_to_string(&path).expect("a file");
    std::fs::remove_file(&path).expect("a file");
    assert_eq!((told.matches("<trace>").count(), told.matches("<flow ").count()), (1, 1), "{told}");
}

#[test]
fn aggregates_are_counted_and_written() {
    let lines = "!data ip_src ip_len count\n1.0.0.1 100 1\n2.0.0.2 50 3\n1.0.0.1 40 1\n3.0.0.3 30 1\n";
    let count = |arguments: &str, handler: &str| {
        let config = format!(
            "{} -> AggregateIP(ip src) -> ac :: AggregateCounter({arguments}) -> Discard;
             DriverManager(pause, write ac.{handler} -)",
            source(lines)
        );
        rig(&config).run().printed()
    };
    assert_eq!(
        count("", "write_ip_file"),
        "!IPAggregate 1.0\n!num_nonzero 3\n!ip\n1.0.0.1 2\n2.0.0.2 3\n3.0.0.3 1\n"
    );
    assert_eq!(
        count("BYTES true, BANNER \"# me\"", "write_text_file"),
        "!IPAggregate 1.0\n# me\n!num_nonzero 3\n16777217 140\n33554434 50\n50331651 30\n"
    );
    assert_eq!(
        count("MULTIPACKET false, AGGREGATE_FREEZE 1", "write_ip_file"),
        "!IPAggregate 1.0\n!num_nonzero 1\n!ip\n1.0.0.1 2\n"
    );
    assert_eq!(
        count("CAPACITY 2", "write_ip_file"),
        "!IPAggregate 1.0\n!num_nonzero 2\n!ip\n1.0.0.1 2\n2.0.0.2 3\n"
    );
    assert!(count("", "write_pdf_file").contains("16777217 0.333333333333\n33554434 0.5\n"));
    let config = format!(
        "{} -> AggregateIP(ip src) -> ac :: AggregateCounter(COUNT_STOP 4, AGGREGATE_CALL 2 ac.freeze true) -> d :: Discard;
         ac[1] -> e :: Discard; DriverManager(pause)",
        source(lines)
    );
    let mut rig = rig(&config);
    rig.run();
    assert_eq!(
        (rig.read("ac.count"), rig.read("ac.nagg"), rig.read("ac.active")),
        ("4".into(), "2".into(), "false".into())
    );
    rig.write("ac.counts_pdf", "").expect("a handler");
    // Two counts; and Click's tree has three places that count nothing.
    assert_eq!((rig.read("ac.count"), rig.read("ac.nagg")), ("5".into(), "3".into()));
    for wrong in ["COUNT_STOP 1, COUNT_FREEZE 2", "COUNT_CALL 1 x.y", "AGGREGATE_CALL 1 nothing"] {
        assert!(Rig::new(&format!("Idle -> AggregateCounter({wrong}) -> Discard")).is_err(), "{wrong}");
    }
    assert!(rig.write("ac.count_call", "5 nobody.stop").is_err());
    for (banner, read) in [("two\nlines", "two\nlines\n"), ("one\n", "one\n"), ("\n", ""), ("", "")] {
        rig.write("ac.banner", banner).expect("a text");
        assert_eq!(rig.read("ac.banner"), read);
    }
}

#[test]
fn the_first_and_the_last_are_kept() {
    let config = |class: &str, end: &str| {
        format!(
            "{} -> af :: AggregateIPFlows -> al :: {class} -> ToIPSummaryDump(-, HEADER false, FIELDS ts_sec aggregate count first_timestamp);
             DriverManager(wait, {end} stop)",
            source(FLOWS)
        )
    };
    assert_eq!(
        rig(&config("AggregateFirst(NOTIFIER af)", "")).run().printed(),
        "1 1 1 0.000000\n3 2 1 0.000000\n4 3 1 0.000000\n7 4 1 0.000000\n100 5 1 0.000000\n"
    );
    assert_eq!(
        rig(&config("AggregateLast", "write al.clear,")).run().printed(),
        "6 1 4 1.000000\n3 2 1 3.000000\n4 3 1 4.000000\n101 4 2 7.000000\n100 5 1 100.000000\n"
    );
    // Those that ended go at once, the others when all flows end.
    let printed = rig(&config("AggregateLast(NOTIFIER af)", "write af.clear,")).run().printed();
    assert!(printed.starts_with("6 1 4 1.000000\n4 3 1 4.000000\n"), "{printed}");
    assert_eq!(printed.lines().count(), 5);
    let full = rig(&config("AggregateLast(CAPACITY 1)", "write al.clear,")).run().printed();
    assert_eq!(full, "6 1 4 1.000000\n");
    assert!(
        Rig::new("i :: Idle -> AggregateFirst(NOTIFIER i) -> Discard")
            .err()
            .expect("refused")
            .contains("i is not an AggregateNotifier")
    );
}

#[test]
fn flows_are_told_in_xml_as_click_tells_them() {
    // The second flow between the same ports goes on counting; the document stays open
    // on standard output.
    let lines = "!data timestamp ip_src sport ip_dst dport ip_proto\n\
        1 9.0.0.9 53 3.0.0.3 5353 U\n2 3.0.0.3 5353 9.0.0.9 53 U\n200 9.0.0.9 53 3.0.0.3 5353 U\n";
    let told = rig(&format!("{} -> AggregateIPFlows(TRACEINFO -) -> Discard", source(lines))).run().printed();
    let flow = |aggregate: u32, begin: &str, duration: &str, packets: [u32; 2]| {
        format!(
            "<flow aggregate='{aggregate}' src='9.0.0.9' sport='53' dst='3.0.0.3' dport='5353' begin='{begin}.000000000' \
             duration='{duration}.000000000'>\n  <stream dir='0' packets='{}' /><stream dir='1' packets='{}' />\n</flow>\n",
            packets[0], packets[1]
        )
    };
    let head = "<?xml version='1.0' standalone='yes'?>\n<trace>\n";
    assert_eq!(told, format!("{head}{}{}", flow(1, "1", "1", [1, 1]), flow(2, "200", "0", [2, 1])));
    // Flows between several hosts are in the order of Click's table.
    let mut lines = "!data timestamp ip_src sport ip_dst dport ip_proto\n".to_string();
    for n in 1..7 {
        lines += &format!("{n} 1.0.{n}.{n} 1 2.0.0.{n} 2 T\n");
    }
    let told =
        rig(&format!("{} -> AggregateIPFlows(TRACEINFO -) -> Discard", source(&lines))).run().printed();
    let order: Vec<&str> = told.split("aggregate='").skip(1).map(|flow| &flow[..1]).collect();
    assert_eq!(order, ["3", "4", "1", "2", "5", "6"]);
    for wrong in ["SOURCE nobody", "TRACEINFO /nonexistent/x"] {
        assert!(Rig::new(&format!("Idle -> AggregateIPFlows({wrong}) -> Discard")).is_err(), "{wrong}");
    }
}

#[test]
fn flows_without_options_have_records_without_them() {
    let folder = scratch("records");
    let lines = "!data timestamp ip_src sport ip_dst dport tcp_flags tcp_opt\n1 1.0.0.1 1 2.0.0.2 2 S -\n";
    let dump = |options: &str| {
        let path = format!("{}/{}%n", folder.display(), options.len());
        let config = format!("{} -> AggregateIPFlows -> ToIPFlowDumps({path}{options})", source(lines));
        rig(&config).run();
        std::fs::read(path.replace("%n", "1")).expect("a file")
    };
    let bytes = dump(", BINARY true");
    let record = bytes.len() - 26;
    assert_eq!((&bytes[record..record + 4], &bytes[record + 24..]), (&[0, 0, 0, 26][..], &[2, 0][..]));
    let none = rig(&format!("{} -> ToIPFlowDumps(-)", source(lines))).run().printed();
    assert!(
        none.ends_with(":: ToIPFlowDumps: warning: saw no packets with aggregate annotations\n"),
        "{none}"
    );
    std::fs::remove_dir_all(folder).expect("it was made");
}

#[test]
fn aggregates_are_filtered() {
    let lines = "!data aggregate\n1\n5\n7\n9\n4294967295\n";
    let config = format!(
        "{} -> f :: AggregateFilter(allow 1 7-8, 1 5, drop 9, 1 all) -> a :: Discard; f[1] -> b :: Discard",
        source(lines)
    );
    let mut rig = rig(&config);
    rig.run();
    assert_eq!((rig.read("a.count"), rig.read("b.count")), ("2".into(), "2".into()));
    for wrong in ["allow", "x 1", "allow y", ""] {
        let config = format!("Idle -> AggregateFilter({wrong}, drop all) -> Discard");
        assert!(Rig::new(&config).is_err(), "{wrong}");
    }
}

#[test]
fn each_flow_has_a_file() {
    let folder = scratch("flows");
    let lines = "!data timestamp ip_src sport ip_dst dport ip_proto tcp_flags tcp_seq tcp_ack payload_len tcp_opt tcp_window\n\
        1.5 1.0.0.1 10 2.0.0.1 20 T S 1000 0 0 mss1460;ts1:2 512\n\
        2 2.0.0.1 20 1.0.0.1 10 T SA 5000 1001 0 - 512\n\
        3 1.0.0.1 10 2.0.0.1 20 T A 1001 5001 100 sack5010-5020 512\n\
        4 1.0.0.1 1 2.0.0.1 2 U - - - 50 - -\n";
    let config = format!(
        "{} -> af :: AggregateIPFlows -> ToIPFlowDumps({}/%p/flow%03n, NOTIFIER af, TCP_OPT true)",
        source(lines),
        folder.display()
    );
    rig(&config).run();
    let tcp = std::fs::read_to_string(folder.join("T/flow001")).expect("a file");
    assert_eq!(
        tcp,
        "!IPSummaryDump 1.3\n!flowid 1.0.0.1 10 2.0.0.1 20 T\n!aggregate 1\n\
         !data ntimestamp direction tcp_flags tcp_seq payload_len tcp_ack tcp_ntopt\n\
         !firstseq > 1000\n!firstseq < 5000\n!firsttime 1.499999999\n\
         0.000000001 > S 0 0 0 mss1460\n\
         0.500000001 < SA 0 0 1\n\
         1.500000001 > A 1 100 1 sack10-20\n"
    );
    let udp = std::fs::read_to_string(folder.join("U/flow002")).expect("a file");
    assert!(
        udp.ends_with("!data ntimestamp direction payload_len\n!firsttime 3.999999999\n0.000000001 > 70\n"),
        "{udp}"
    );
    // FromIPSummaryDump reads it, with addresses and ports.
    let again = format!(
        "FromIPSummaryDump({}/T/flow001, STOP true) -> ToIPSummaryDump(-, HEADER false, FIELDS ip_src sport tcp_flags payload_len)",
        folder.display()
    );
    assert!(rig(&again).run().printed().starts_with("1.0.0.1 10 S 0\n"));
    let binary = format!(
        "{} -> AggregateIPFlows -> ToIPFlowDumps({}/b%n, BINARY true, MINCOUNT 2, IP_ID true, TCP_WINDOW true, ALL_TCP_OPT true)",
        source(lines),
        folder.display()
    );
    rig(&binary).run();
    assert!(!folder.join("b2").exists(), "too short");
    let again = format!(
        "FromIPSummaryDump({}/b1, STOP true) -> ToIPSummaryDump(-, HEADER false, FIELDS timestamp sport tcp_flags tcp_seq tcp_window tcp_opt)",
        folder.display()
    );
    assert_eq!(
        rig(&again).run().printed(),
        "0.000000001 10 S 0 512 mss1460;ts1:2\n0.500000001 10 SA 0 512 .\n1.500000001 10 A 1 512 sack10-20\n"
    );
    std::fs::remove_dir_all(folder).expect("a folder");
    assert!(Rig::new("Idle -> ToIPFlowDumps(%q)").is_err());
}

#[test]
fn anonymous_addresses_share_prefixes_as_true_ones_do() {
    let addresses = [
        "1.2.3.4",
        "1.2.3.5",
        "1.2.200.1",
        "200.1.1.1",
        "18.0.0.1",
        "18.77.0.1",
        "0.0.0.0",
        "255.255.255.255",
    ];
    let lines: String = addresses.iter().map(|a| format!("{a} 1.2.3.4\n")).collect();
    let config = format!(
        "FromIPSummaryDump(DATA {}, STOP true, CHECKSUM true) -> AnonymizeIPAddr(CLASS 2, PRESERVE_8 18) -> t :: Tee
         -> ToIPSummaryDump(-, HEADER false, FIELDS ip_src); t[1] -> CheckIPHeader -> c :: Counter -> Discard",
        graph::lang::args::quote(format!("!data ip_src ip_dst\n{lines}").as_bytes())
    );
    let mut anonymous = rig(&config);
    let printed = anonymous.run().printed();
    let number = |text: &str| u32::from(text.parse::<std::net::Ipv4Addr>().expect(text));
    let got: Vec<u32> = printed.lines().map(number).collect();
    let had: Vec<u32> = addresses.iter().map(|a| number(a)).collect();
    assert_eq!(got.len(), had.len(), "{printed}");
    for i in 0..6 {
        for j in 0..6 {
            assert_eq!((got[i] ^ got[j]).leading_zeros(), (had[i] ^ had[j]).leading_zeros(), "{printed}");
        }
    }
    assert_eq!((got[4] >> 24, got[5] >> 24), (18, 18));
    assert_eq!((got[0] >> 31, got[3] >> 30), (0, 3), "class A, class C");
    assert_eq!((got[6], got[7]), (0, u32::MAX));
    let sound: usize = anonymous.read("c.count").parse().expect("a number");
    assert!(sound >= 6, "checksums stay right: {sound}");
}

#[test]
fn payloads_are_erased() {
    let lines = "!data ip_proto payload\nT \"secret\"\nU \"secret\"\n89 \"secret\"\n";
    let config = format!(
        "{} -> EraseIPPayload -> ToIPSummaryDump(-, HEADER false, FIELDS ip_proto payload)",
        source(lines)
    );
    let nothing = "\"\\000\\000\\000\\000\\000\\000\"";
    assert_eq!(rig(&config).run().printed(), format!("T {nothing}\nU {nothing}\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any packets go through every element of aggregates.
    #[test]
    fn any_packet_is_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..80), proto in 0usize..3, cut in 0usize..80) {
        if let Some(first) = bytes.first_mut() {
            *first = 0x45;
        }
        if let Some(protocol) = bytes.get_mut(9) {
            *protocol = [6, 17, 1][proto];
        }
        bytes.truncate(cut);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let config = format!(
            "InfiniteSource(DATA \\<{hex}>, LENGTH {}, LIMIT 3, STOP true) -> MarkIPHeader -> t :: Tee(4);
             t[0] -> AggregateIP(transp[0:4]) -> AggregateCounter -> AggregateFirst -> Discard;
             t[1] -> AnonymizeIPAddr -> EraseIPPayload -> AggregateLength(IP true) -> AggregatePaint -> Discard;
             t[2] -> af :: AggregateIPFlows(ICMP true) -> ToIPFlowDumps(/dev/null, NOTIFIER af, ALL_TCP_OPT true) -> AggregateLast -> Discard;
             t[3] -> AggregateIPAddrPair -> ARPPrint -> StoreTimestamp(TAIL true) -> ToDump(/dev/null)",
            bytes.len()
        );
        rig(&config).run();
    }
}

#[test]
fn packets_that_did_not_arrive_are_named() {
    let side = |name: &str, lines: &str| {
        format!("{} -> [{name}] c; c[{name}] -> Discard;", source(&format!("!data aggregate ip_id\n{lines}")))
    };
    let config = format!(
        "c :: AggregatePacketCounter(ANNO AGGREGATE); {} {} DriverManager(wait, wait)",
        side("0", "1 1\n2 1\n2 1\n3 1\n0 1\n"),
        side("1", "1 1\n2 1\n")
    );
    let mut rig = rig(&config);
    rig.run();
    let ask = |rig: &mut Rig, handler: &str, aggregate: &str| {
        rig.router.read(&format!("c.{handler}"), aggregate).unwrap_or_else(|refused| refused.to_string())
    };
    assert_eq!(rig.read("c.count"), "6");
    assert_eq!(
        (ask(&mut rig, "received", "2"), ask(&mut rig, "undelivered", "1")),
        ("2\n".into(), "".into())
    );
    assert_eq!(
        (ask(&mut rig, "undelivered", "2"), ask(&mut rig, "undelivered", "3")),
        ("2\n".into(), "3\n".into())
    );
    assert_eq!(ask(&mut rig, "received", "x"), "argument should be aggregate number");
    rig.write("c.clear", "").expect("a handler");
    assert_eq!(rig.read("c.count"), "0");
}
