//! Summaries of packets: every field, there and back, as text and in binary.

use std::path::PathBuf;

use crate::Rig;
use proptest::prelude::*;

fn rig(config: &str) -> Rig {
    Rig::new(config).unwrap_or_else(|problems| panic!("{config}\n{problems}"))
}

/// What is written of packets made of `lines`.
fn written(lines: &str, from: &str, fields: &str) -> String {
    let data = graph::lang::args::quote(lines.as_bytes());
    let config = format!(
        "FromIPSummaryDump(DATA {data}, STOP true, {from}) -> ToIPSummaryDump(-, HEADER false, FIELDS {fields})"
    );
    rig(&config).run().printed()
}

/// Lines that come out as they went in.
fn same(fields: &str, lines: &[&str]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    assert_eq!(written(&format!("!data {fields}\n{text}"), "", fields), text, "{fields}");
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("ixora-summary-{}-{name}", std::process::id()))
}

#[test]
fn fields_go_in_as_they_come_out() {
    same("timestamp count link aggregate", &["1.000020 1 0 7", "2.123456789 5 255 4294967295"]);
    same("ts_sec ts_usec", &["17 999999"]);
    same("ts_usec1 timestamp", &["1234567890123456 1234567890.123456"]);
    same("first_timestamp direction", &["3.500000 >", "0.000000 <", "0.000000 17"]);
    same("ip_src ip_dst ip_tos ip_ttl ip_id ip_sum", &["1.2.3.4 5.6.7.8 255 1 65535 9"]);
    same("ip_dscp ip_ecn", &["46 ect1", "0 no", "63 ce", "1 ect2"]);
    same("ip_ttl ip_frag", &["1 F", "2 f", "3 !", "4 ."]);
    same("ip_fragoff", &["0", "0+", "8!", "16+", "65528+!"]);
    same("ip_proto ip_len ip_hl", &["T 1500 20", "U 28 24", "I 84 60", "89 20 20"]);
    same("sport dport tcp_seq tcp_ack tcp_window tcp_urp", &["80 65535 4294967295 1 512 3"]);
    same("tcp_flags", &[".", "A", "PA", "FSRPAUECN"]);
    same("ip_proto sport dport udp_len", &["U 53 1024 8", "U 1 2 1000"]);
    same("ip_proto icmp_type icmp_code icmp_flowid icmp_seq", &["I 8 0 77 3", "I 13 1 2 65535"]);
    same("ip_proto icmp_type_name icmp_code_name icmp_nextmtu", &["I unreachable needfrag 576"]);
    same("payload payload_len", &["\"hello\" 5", "\"a b\\n\\001\\\\\" 6"]);
    same("eth_src eth_dst eth_type ip_src", &["00-01-02-03-04-05 06-07-08-09-0A-0B 0800 1.0.0.1"]);
    assert_eq!(written("!data wire_len\n54\n", "", "ip_len wire_len"), "54 0\n", "nothing of it is there");
}

#[test]
fn what_is_not_there_is_a_dash() {
    let lines = "!data ip_proto ip_frag\nU .\nT f\nI .\n";
    let fields = "sport tcp_seq udp_len icmp_type eth_src ip_len";
    assert_eq!(
        written(lines, "", fields),
        "0 - 8 - - 28\n\
         - - - - - 20\n\
         - - - 0 - 28\n"
    );
}

#[test]
fn options_are_words() {
    same(
        "tcp_opt",
        &[
            "mss1400;wscale10;sackok",
            "sack95-98;sack4294967295-0",
            "ts669063908:38382731",
            "99=0:5:10",
            "mss536;30=1",
            ".",
        ],
    );
    same("tcp_sack", &["sackok", "sack1-2", "."]);
    same("tcp_ntopt", &["mss1460;wscale7", "."]);
    same(
        "ip_opt",
        &[
            "rr{10.0.0.1,20.0.0.2}+5",
            "ssrr{1.0.0.1,1.0.0.2^1.0.0.3}",
            "lsrr{1.0.0.1^}",
            "ts{1,10000,!45}+2++3",
            "ts.ip{1.0.0.1=1,1.0.0.2=2}+2",
            "ts.preip{1.0.0.1=1^1.0.0.2,1.0.0.3}",
            "98;99=0:5:10",
            ".",
        ],
    );
    // Options of other kinds are not looked at.
    let lines = "!data tcp_opt\nmss1400;sackok;ts1:2\n";
    assert_eq!(
        written(lines, "", "tcp_opt tcp_ntopt tcp_sack"),
        "mss1400;sackok;ts1:2 mss1400;sackok sackok\n"
    );
    // A length that cannot be.
    let lines = "!data ip_proto ip_hl payload\nT 24 \"\"\n";
    assert_eq!(written(lines, "", "ip_opt"), ".\n");
}

#[test]
fn digests_are_those_of_the_payload() {
    let lines = "!data payload\n\"abc\"\n\"\"\n";
    assert_eq!(
        written(lines, "", "payload_md5_hex payload_md5"),
        "900150983cd24fb0d6963f7d28e17f72 qaujGoYTaB7nVZPTO4qFfB\nd41d8cd98f00b204e9800998ecf8427e uBtJzyY8rAa7mIQ_y9BeuB\n"
            .replace("qaujGoYTaB7nVZPTO4qFfB", &letters("900150983cd24fb0d6963f7d28e17f72"))
            .replace("uBtJzyY8rAa7mIQ_y9BeuB", &letters("d41d8cd98f00b204e9800998ecf8427e"))
    );
}

/// Six bits a letter, the lowest first.
fn letters(hex: &str) -> String {
    let bytes: Vec<u8> =
        (0..16).map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).expect("hexadecimal")).collect();
    let bit = |n: usize| bytes.get(n / 8).map_or(0, |byte| byte >> (n % 8) & 1);
    let alphabet: Vec<char> = ('a'..='z').chain('A'..='Z').chain('0'..='9').chain(['_', '@']).collect();
    (0..22).map(|l| alphabet[(0..6).map(|b| usize::from(bit(6 * l + b)) << b).sum::<usize>()]).collect()
}

#[test]
fn lines_with_a_mark_say_how_to_read_on() {
    let lines = "!IPSummaryDump 1.3\n!creator \"me\"\n!proto U\n!aggregate 17\n!data dport\n5\n# nothing\n\n\
                 !flowid 1.0.0.1 10 2.0.0.1 20 T\n!data tcp_seq\n1\n!flowid - - - - U\n!data ip_id\n2\n";
    assert_eq!(
        written(lines, "", "ip_src sport ip_dst dport ip_proto aggregate ip_id"),
        "0.0.0.0 0 0.0.0.0 5 U 17 0\n\
         1.0.0.1 10 2.0.0.1 20 T 17 0\n\
         0.0.0.0 0 0.0.0.0 0 U 17 2\n"
    );
    let flow = "FLOWID 9.0.0.1 1 9.0.0.2 2 U, FIELDS ip_id";
    assert_eq!(written("3\n", flow, "ip_src sport ip_dst dport ip_proto"), "9.0.0.1 1 9.0.0.2 2 U\n");
}

/// What a complaint begins with that is made before lines are read.
const FIRST: &str = "config:1: While initializing 'FromIPSummaryDump@1 :: FromIPSummaryDump':\n";

#[test]
fn old_files_counted_fragments_in_eights() {
    assert_eq!(written("!IPSummaryDump 1.0\n!data ip_fragoff\n3+\n", "", "ip_fragoff"), "24+\n");
    let complaint = written("!IPSummaryDump 9.9\n!data ip_id\n1\n", "", "ip_id");
    assert_eq!(complaint, format!("{FIRST}<data>:0:   warning: unexpected IPSummaryDump version 9.9\n1\n"));
}

#[test]
fn bad_lines_are_told_once_with_their_place() {
    let printed = written("!data ip_src\nnonsense\nworse\n1.0.0.1\n", "", "ip_src");
    assert_eq!(printed, "<data>:2: packet parse error\n1.0.0.1\n");
    assert_eq!(
        written("1.0.0.1\n", "", "ip_src"),
        format!(
            "{FIRST}<data>:0:   warning: missing banner line; is this an IP summary dump?\n\
             <data>:1: no '!data' provided\n"
        )
    );
    let printed = written("!data ip_src whatever payload_md5\n1.0.0.1 x y\n", "", "ip_src");
    assert_eq!(
        printed,
        "<data>:1: warning: unknown content type 'whatever'\n\
         <data>:1: warning: unknown content type 'payload_md5'\n1.0.0.1\n"
    );
    for (lines, complaint) in [
        ("!flowid nonsense\n", "<data>:1: bad !flowid specification\n"),
        ("!proto XYZ\n", "<data>:1: bad protocol in !proto\n"),
        ("!proto\n", "<data>:1: bad !proto\n"),
        (
            "!data\n!aggregate -1\n",
            "<data>:1: no contents specified\n<data>:2: bad !aggregate specification\n",
        ),
        ("!data \n", "<data>:1: no contents specified\n"),
    ] {
        assert_eq!(written(lines, "", "ip_src"), complaint);
    }
    let missing = Rig::new("FromIPSummaryDump(/nonexistent/file) -> Discard").err().expect("refused");
    assert!(missing.contains("/nonexistent/file: No such file or directory"), "{missing}");
    rig("FromIPSummaryDump(/nonexistent/file, ALLOW_NONEXISTENT true, STOP true) -> Discard").run();
    let unknown = Rig::new("Idle -> ToIPSummaryDump(-, FIELDS ipsrc payloads)").err().expect("refused");
    for what in ["unknown content type 'ipsrc'", "unknown content type 'payloads'", "no contents specified"] {
        assert!(unknown.contains(what), "{unknown}");
    }
}

#[test]
fn checksums_are_filled_in_over_all_bytes() {
    for (proto, check) in [("T", "CheckTCPHeader"), ("U", "CheckUDPHeader"), ("I", "CheckICMPHeader")] {
        let config = format!(
            "FromIPSummaryDump(DATA \"!data ip_src ip_dst ip_proto ip_len payload\\n1.0.0.1 2.0.0.2 {proto} 1200 \\\"abc\\\"\\n\", \
             STOP true, CHECKSUM true) -> CheckIPHeader -> {check} -> ToIPSummaryDump(-, HEADER false, FIELDS ip_len wire_len)"
        );
        assert_eq!(rig(&config).run().printed(), "1200 1200\n", "{proto}");
    }
    assert_eq!(written("!data ip_len\n60000\n", "CHECKSUM true", "wire_len ip_len"), "60000 60000\n");
}

/// Where a line says how long all is and how long the payload, the rest is options.
#[test]
fn headers_are_as_long_as_the_lengths_say() {
    let lines = "!data ip_len payload_len\n60 8\n100 0\n48 8\n";
    assert_eq!(
        written(lines, "", "ip_len payload_len tcp_off ip_hl"),
        "60 8 32 20\n100 0 60 40\n48 8 20 20\n"
    );
    assert_eq!(
        written("!data ip_len payload\n60 \"payload!\"\n", "", "payload tcp_off"),
        "\"payload!\" 32\n"
    );
}

#[test]
fn one_line_may_stand_for_several_packets() {
    let lines = "!data timestamp first_timestamp count ip_len\n3.0 1.0 3 161\n";
    assert_eq!(
        written(lines, "MULTIPACKET true", "timestamp count ip_len"),
        "1.000000 1 53\n2.000000 1 53\n3.000000 1 55\n"
    );
    let config = format!(
        "FromIPSummaryDump(DATA \"{lines}\", STOP true) \
         -> ToIPSummaryDump(-, HEADER false, MULTIPACKET true, FIELDS timestamp ip_src)"
    );
    let printed = rig(&config).run().printed();
    assert_eq!(printed, "1.000000 0.0.0.0\n2.000000 0.0.0.0\n3.000000 0.0.0.0\n");
    // The length field of one that is too long for it says the most it can, and not what is
    // left of the length when its upper bits are gone.
    let lines = "!data wire_len ip_src count\n200000 1.0.0.1 2\n";
    assert_eq!(written(lines, "MULTIPACKET true", "ip_len"), "100000\n100000\n");
    // The first timestamp stays, and the last packet comes when the last came.
    let lines = "!data timestamp first_timestamp count\n60 57.5 4\n";
    assert_eq!(
        written(lines, "MULTIPACKET true", "timestamp first_timestamp"),
        "57.500000 57.500000\n58.333333333 57.500000\n59.166666666 57.500000\n60.000000 57.500000\n"
    );
    // When lines are written time goes in equal steps, also where the count is asked for.
    assert_eq!(
        written(lines, "", "timestamp count, MULTIPACKET true"),
        "57.500000 1\n58.333333333 1\n59.166666666 1\n59.999999999 1\n"
    );
}

#[test]
fn values_are_read_as_click_reads_them() {
    assert_eq!(written("!data eth_type\n0x86dd\n", "", "eth_type"), "86DD\n");
    assert_eq!(written("!data timestamp ip_id\n-1 7\n", "", "timestamp ip_id"), "0.000000 7\n");
    // Ports are there also where the rest of the header is bad.
    assert_eq!(written("!data sport tcp_off\n7 16\n", "", "sport tcp_seq"), "7 -\n");
    assert_eq!(written("!data ip_proto ip_id\n47 3\n", "PROTO 47", "ip_proto ip_id"), "47 3\n");
    assert_eq!(written("!proto gre\n!data ip_id icmp_code_name\n3 -\n", "", "ip_proto"), "47\n");
    assert_eq!(
        written(
            "!data icmp_type icmp_code ip_proto\n3 isolated I\n3 toshost I\n",
            "",
            "icmp_code icmp_code_name"
        ),
        "8 isolated\n12 toshost\n"
    );
}

#[test]
fn only_what_is_asked_for_is_looked_at() {
    let cut = |fields: &str| {
        let config = format!(
            "FromIPSummaryDump(DATA \"!data eth_src\\n0:0:0:0:0:1\\n\", STOP true) -> Truncate(16) \
             -> ToIPSummaryDump(-, HEADER false, BAD_PACKETS true, FIELDS {fields})"
        );
        rig(&config).run().printed()
    };
    assert_eq!(cut("eth_src"), "00-00-00-00-00-01\n");
    assert_eq!(cut("eth_src ip_src"), "!bad truncated IP header\n00-00-00-00-00-01 -\n");
}

#[test]
fn a_sample_is_about_as_large_as_was_asked() {
    let lines = format!("!data ip_id\n{}", "7\n".repeat(4000));
    let data = graph::lang::args::quote(lines.as_bytes());
    let mut rig = rig(&format!(
        "f :: FromIPSummaryDump(DATA {data}, STOP true, SAMPLE 0.25) -> c :: Counter -> Discard"
    ));
    rig.run();
    let count: u32 = rig.read("c.count").parse().expect("a number");
    assert!((800..1200).contains(&count), "{count}");
    assert_eq!(rig.read("f.sampling_prob"), "0.25");
    assert_eq!(rig.read("f.encap"), "IP");
    assert_eq!(rig.read("f.filepos"), "8012", "where it ended");
}

#[test]
fn timing_keeps_the_gaps() {
    let config = "f :: FromIPSummaryDump(DATA \"!data timestamp ip_id\\n100.0 1\\n100.5 2\\n102.0 3\\n\", STOP true, TIMING true) \
                  -> SetTimestamp -> ToIPSummaryDump(-, HEADER false, FIELDS ts_sec ts_usec)";
    let printed = rig(config).run().printed();
    let times: Vec<f64> = printed
        .lines()
        .map(|line| {
            let (seconds, micros) = line.split_once(' ').expect("two words");
            seconds.parse::<f64>().expect("seconds") + micros.parse::<f64>().expect("microseconds") / 1e6
        })
        .collect();
    assert!((times[1] - times[0] - 0.5).abs() < 0.001, "{times:?}");
    assert!((times[2] - times[1] - 1.5).abs() < 0.001, "{times:?}");
}

#[test]
fn bad_packets_are_told_before_their_lines() {
    let bad = |bytes: &str, fields: &str, more: &str| {
        let config = format!(
            "InfiniteSource(DATA \\<{bytes}>, LIMIT 1, STOP true) -> MarkIPHeader{more} \
             -> ToIPSummaryDump(-, HEADER false, BAD_PACKETS true, FIELDS {fields})"
        );
        rig(&config).run().printed()
    };
    let ip = |first: &str, length: &str, proto: &str| {
        format!("{first}00 {length} 0000 0000 40{proto} 0000 01000001 01000002")
    };
    assert_eq!(bad("4500", "ip_src", ""), "!bad truncated IP header\n-\n");
    assert_eq!(bad(&ip("65", "0014", "06"), "ip_src", ""), "!bad IP version 6\n-\n");
    assert_eq!(bad(&ip("44", "0014", "06"), "ip_src", ""), "!bad IP header length 4\n-\n");
    assert_eq!(bad(&ip("45", "0013", "06"), "ip_src", ""), "!bad IP length 19\n-\n");
    assert_eq!(bad(&ip("45", "0020", "06"), "ip_src", ""), "!bad truncated IP missing 12\n1.0.0.1\n");
    assert_eq!(bad(&ip("45", "0014", "06"), "tcp_seq", ""), "!bad truncated TCP header\n-\n");
    assert_eq!(bad(&ip("45", "0014", "11"), "tcp_seq", ""), "-\n");
    let tcp = "0001 0002 00000003 00000004 4010 0000 0000 0000";
    assert_eq!(
        bad(&format!("{} {tcp}", ip("45", "0028", "06")), "tcp_seq", ""),
        "!bad TCP header length 4\n-\n"
    );
}

#[test]
fn padding_behind_the_packet_is_no_part_of_it() {
    let config = "InfiniteSource(DATA \\<4500 001c 0000 0000 4011 0000 01000001 01000002 0001 0002 0008 0000 ffffffff>, \
                  LIMIT 1, STOP true) -> MarkIPHeader \
                  -> ToIPSummaryDump(-, HEADER false, FIELDS ip_len ip_capture_len payload_len payload wire_len)";
    assert_eq!(rig(config).run().printed(), "28 28 0 \"\" 32\n");
}

#[test]
fn records_say_what_lines_say() {
    let fields = "timestamp ntimestamp ts_usec1 ip_src ip_dst sport dport ip_proto ip_frag ip_fragoff ip_opt \
                  tcp_seq tcp_flags tcp_opt tcp_sack payload_len count link eth_src";
    let lines = "1.000020 1.000020 1000020 1.0.0.1 2.0.0.2 10 20 T ! 0! rr{1.1.1.1}+1 77 PA mss1400;sackok sackok 100 3 1 00-01-02-03-04-05\n\
                 2.000000 2.000000 2000000 1.0.0.1 2.0.0.2 - - T f 16 . - - - - 5 1 0 00-01-02-03-04-05\n";
    let path = scratch("binary");
    let data = graph::lang::args::quote(format!("!data {fields}\n{lines}").as_bytes());
    let to = format!(
        "FromIPSummaryDump(DATA {data}, STOP true) -> ToIPSummaryDump({}, BINARY true, BAD_PACKETS true, FIELDS {fields})",
        path.display()
    );
    rig(&to).run();
    let from = format!(
        "FromIPSummaryDump({}, STOP true) -> ToIPSummaryDump(-, HEADER false, FIELDS {fields})",
        path.display()
    );
    let again = rig(&from).run().printed();
    let first = again.lines().next().expect("a line");
    assert_eq!(first, lines.lines().next().expect("a line"));
    assert_eq!(again.lines().count(), 2, "{again}");
    // A file that ends in the middle of a record: told, and what was whole came.
    let whole = std::fs::read(&path).expect("a file");
    std::fs::write(&path, &whole[..whole.len() - 3]).expect("a file");
    let cut = rig(&from).run().printed();
    assert!(cut.starts_with(first) && cut.contains("cut in the middle of a record"), "{cut}");
    std::fs::remove_file(path).expect("a file");
}

#[test]
fn compressed_files_are_read() {
    let path = scratch("packed");
    std::fs::write(&path, "!data ip_id\n1\n2\n").expect("a file");
    let packed = std::process::Command::new("gzip").arg("-f").arg(&path).status();
    if !packed.is_ok_and(|status| status.success()) {
        return; // nobody here can pack
    }
    let path = path.with_extension("gz");
    let config = format!(
        "FromIPSummaryDump({}, STOP true) -> ToIPSummaryDump(-, HEADER false, FIELDS ip_id)",
        path.display()
    );
    assert_eq!(rig(&config).run().printed(), "1\n2\n");
    std::fs::remove_file(path).expect("a file");
}

const ALL: &str = "timestamp count link aggregate wire_len eth_src eth_dst eth_type ip_src ip_dst ip_tos ip_dscp ip_ecn \
    ip_ttl ip_frag ip_fragoff ip_id ip_sum ip_proto ip_hl ip_len ip_capture_len ip_opt sport dport tcp_seq tcp_ack \
    tcp_off tcp_flags tcp_window tcp_urp tcp_opt tcp_ntopt tcp_sack udp_len icmp_type icmp_code icmp_type_name \
    icmp_code_name icmp_flowid icmp_seq icmp_nextmtu payload_len payload_md5";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any packet, cut anywhere, has a line and a record.
    #[test]
    fn any_packet_is_summarized(mut bytes in prop::collection::vec(any::<u8>(), 0..120), header in 0u8..4, proto in 0usize..4) {
        if let Some(first) = bytes.first_mut().filter(|_| header > 0) {
            *first = 0x44 + header; // most are IP of some kind
        }
        if let Some(protocol) = bytes.get_mut(9) {
            *protocol = [6, 17, 1, 99][proto];
        }
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        for (more, binary) in [("payload", false), ("", true)] {
            let path = if binary { "/dev/null" } else { "-" };
            let config = format!(
                "InfiniteSource(DATA \\<{hex}>, LENGTH {}, LIMIT 1, STOP true) -> MarkIPHeader \
                 -> ToIPSummaryDump({path}, HEADER false, BAD_PACKETS true, BINARY {binary}, FIELDS {ALL} {more})",
                bytes.len()
            );
            let printed = rig(&config).run().printed();
            prop_assert!(binary || printed.ends_with('\n'));
        }
    }

    /// Any line, and any record, makes a packet or is told.
    #[test]
    fn any_line_is_read(words in prop::collection::vec("[-0-9.a-zA-Z!+:;={}^\"\\\\]{0,12}", 0..44), tail in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut lines = format!("!data {ALL} payload\n{}\n!binary\n", words.join(" ")).into_bytes();
        lines.extend((tail.len() as u32 + 4).to_be_bytes());
        lines.extend(&tail);
        let path = scratch("fuzz");
        std::fs::write(&path, &lines).expect("a file");
        let config = format!(
            "FromIPSummaryDump({}, STOP true, CHECKSUM true) -> ToIPSummaryDump(/dev/null, FIELDS {ALL} payload)",
            path.display()
        );
        rig(&config).run();
    }
}
