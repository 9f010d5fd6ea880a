//! Packets of the lines that other programs write: tcpdump's, and NetFlow's.

use std::path::PathBuf;

use crate::Rig;

/// A file with `text`, which is gone when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("ixora-lines-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("a file");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What is printed of the packets that `class` makes of `text`.
fn printed(class: &str, name: &str, text: &str, more: &str, fields: &str) -> String {
    let file = Scratch::new(name, text);
    let path = file.0.display().to_string();
    let config =
        format!("f :: {class}({path}, STOP true{more}) -> ToIPSummaryDump(-, HEADER false, FIELDS {fields})");
    let mut rig = Rig::new(&config).unwrap_or_else(|problems| panic!("{config}\n{problems}"));
    rig.run().printed().replace(&path, "FILE")
}

const TCPDUMP: &str = "\
    # a comment\n\
    1000000000.5 10.0.0.1.1025 > 10.0.0.2.80: S 1000:1000(0) win 512 <mss 1460,nop,wscale 2,sackOK,timestamp 5 0> (DF) (ttl 64, id 7, len 64)\n\
    1000000000.6 10.0.0.2.80 > 10.0.0.1.1025: S 5000:5000(0) ack 1001 win 512 <mss 1460>\n\
    1000000000.7 10.0.0.1.1025 > 10.0.0.2.80: . ack 1 win 512 (DF)\n\
    1000000000.8 10.0.0.1.1025 > 10.0.0.2.80: P 1:101(100) ack 1 win 512 (DF) [tos 0x10] (ttl 64, id 8, len 140)\n\
    1000000000.9 10.0.0.2.80 > 10.0.0.1.1025: . ack 101 win 512 <nop,nop,sack sack 1 {5:9} >\n\
    1000000001.0 10.0.0.2.53 > 10.0.0.1.1025: udp 23 (ttl 3, id 9)\n\
    1000000001.1 10.0.0.2.53 > 10.0.0.1.1025: [udp sum ok] udp 23 (ttl 3, id 9, len 51)\n\
    1000000001.2 10.0.0.2 > 10.0.0.1: icmp: echo request (ttl 255, id 30, len 84)\n\
    1000000001.3 10.0.0.2 > 10.0.0.1: icmp: echo request (frag 77:1480@0+)\n\
    1000000001.4 10.0.0.2 > 10.0.0.1: ip-proto-50 20\n\
    garbage\n\
    1000000001.5 10.0.0.1.1025 > 10.0.0.2.80: F 101:101(0) ack 1 win 512 urg 4 (DF)\n\
";

const NETFLOW: &str = "\
    ! nothing\n\
    192.4.1.32|18.26.4.44|x|14|300|5|6000|1000000000|1000000004|80|1024|x|18|6|8|x\n\
    192.4.1.33|18.26.4.44|x|14|3|1|60|1000000000|0|53|1024|x|0|17|0\n\
    192.4.1.34|18.26.4.44|x|1|3|2|1000|1000000000|1000000001|0|0|x|0|1|0\n\
    bad line\n\
    1.0.0.1|2.0.0.2|x|1|3|2|1000|1000000000|1000000001|0|0|x|0|47|0\n\
";

#[test]
fn tcpdumps_lines_become_their_packets() {
    let fields = "timestamp ip_src sport ip_dst dport ip_proto ip_len ip_ttl ip_tos ip_id ip_fragoff";
    let first = "warning: first line suspicious; is this a tcpdump output file?";
    assert_eq!(
        printed("FromTcpdump", "headers", TCPDUMP, "", fields),
        format!(
            "config:1: While initializing 'f :: FromTcpdump':\nFILE:   {first}\n\
             1000000000.500000 10.0.0.1 1025 10.0.0.2 80 T 64 64 0 7 0!\n\
             1000000000.600000 10.0.0.2 80 10.0.0.1 1025 T 44 2 0 0 0\n\
             1000000000.700000 10.0.0.1 1025 10.0.0.2 80 T 40 2 0 0 0!\n\
             1000000000.800000 10.0.0.1 1025 10.0.0.2 80 T 140 64 16 8 0!\n\
             1000000000.900000 10.0.0.2 80 10.0.0.1 1025 T 52 2 0 0 0\n\
             1000000001.000000 10.0.0.2 53 10.0.0.1 1025 U 51 3 0 9 0\n\
             1000000001.100000 10.0.0.2 53 10.0.0.1 1025 U 51 3 0 9 0\n\
             1000000001.200000 10.0.0.2 - 10.0.0.1 - I 84 255 0 30 0\n\
             1000000001.300000 10.0.0.2 - 10.0.0.1 - I 1500 2 0 77 0+\n\
             1000000001.400000 10.0.0.2 - 10.0.0.1 - I 20 2 0 0 0\n\
             FILE:12: packet parse error\n\
             1000000001.500000 10.0.0.1 1025 10.0.0.2 80 T 40 2 0 0 0!\n"
        )
    );
}

/// Numbers are counted from a flow's first in all lines but those, also of selective
/// acknowledgements and of the other direction.
#[test]
fn sequence_numbers_are_absolute_again() {
    let fields = "tcp_seq tcp_ack tcp_flags tcp_window tcp_urp tcp_opt payload_len wire_len";
    let lines: Vec<&str> = TCPDUMP.lines().filter(|line| line.contains(" win ")).collect();
    assert_eq!(
        printed("FromTcpdump", "numbers", &lines.join("\n"), "", fields),
        "1000 0 S 512 0 mss1460;wscale2;sackok;ts5:0 0 64\n\
         5000 1001 SA 512 0 mss1460 0 44\n\
         1001 5001 A 512 0 . 0 40\n\
         1001 5001 PA 512 0 . 100 40\n\
         5001 1101 A 512 0 sack1005-1009 0 52\n\
         1101 5001 FA 512 4 . 0 40\n"
    );
    let absolute = "1.5 1.0.0.1.1 > 2.0.0.2.2: P 9000:9010(10) ack 70000 win 1\n\
                    1.6 1.0.0.1.1 > 2.0.0.2.2: P 9010:9020(10) ack 70000 win 1\n";
    assert_eq!(
        printed("FromTcpdump", "absolute", absolute, "", "tcp_seq tcp_ack"),
        "9000 70000\n9010 70000\n"
    );
}

/// Options that the line does not tell are there where it tells the whole length.
#[test]
fn lengths_say_what_the_words_leave_out() {
    let line = "1.5 1.0.0.1.1 > 2.0.0.2.2: P 1:11(10) ack 7 win 1 (ttl 9, id 3, len 62)\n\
                1.5 1.0.0.1.1 > 2.0.0.2.2: P 1:11(10) ack 7 win 1 (ttl 9, id 3, len 9)\n\
                1.5 1.0.0.1.1 > 2.0.0.2.2: P 1:11(10) ack 7 win 1 (len 4000000000)\n";
    assert_eq!(
        printed("FromTcpdump", "lengths", line, "", "ip_len tcp_off payload_len"),
        "62 32 10\n50 20 10\n50 20 10\n"
    );
    let checked = printed("FromTcpdump", "sums", line, ", CHECKSUM true", "ip_sum");
    assert!(!checked.contains("0\n0\n"), "{checked}");
    let bad = Rig::new("Idle -> Discard; FromTcpdump(/nonexistent, SAMPLE 0) -> Discard").err();
    assert!(bad.is_some_and(|bad| bad.contains("No such file or directory")));
}

const FLOWS: &str = "timestamp first_timestamp link count ip_src sport ip_dst dport ip_proto ip_len \
                     tcp_flags udp_len payload_len wire_len";

#[test]
fn a_flow_is_a_packet_that_stands_for_several() {
    assert_eq!(
        printed("FromNetFlowSummaryDump", "flows", NETFLOW, "", FLOWS),
        "1000000004.000000 1000000000.000000 14 5 192.4.1.32 80 18.26.4.44 1024 T 6000 SA - 5960 40\n\
         1000000000.000000 1000000000.000000 14 1 192.4.1.33 53 18.26.4.44 1024 U 60 - 40 32 28\n\
         1000000001.000000 1000000000.000000 1 2 192.4.1.34 - 18.26.4.44 - I 1000 - - 980 20\n\
         FILE:5: bad format\n\
         1000000001.000000 1000000000.000000 1 2 1.0.0.1 - 2.0.0.2 - 47 1000 - - 980 20\n"
    );
}

#[test]
fn or_as_many_packets_as_it_had() {
    let one: Vec<&str> = NETFLOW.lines().take(4).collect();
    let times = "timestamp link count ip_src ip_len wire_len payload_len";
    assert_eq!(
        printed("FromNetFlowSummaryDump", "packets", &one.join("\n"), ", MULTIPACKET true, LINK both", times),
        "1000000000.000000 239 1 192.4.1.32 1200 40 1160\n\
         1000000001.000000 239 1 192.4.1.32 1200 40 1160\n\
         1000000002.000000 239 1 192.4.1.32 1200 40 1160\n\
         1000000003.000000 239 1 192.4.1.32 1200 40 1160\n\
         1000000004.000000 239 1 192.4.1.32 1200 40 1160\n\
         1000000000.000000 227 1 192.4.1.33 60 28 32\n\
         1000000000.000000 19 1 192.4.1.34 500 20 480\n\
         1000000001.000000 19 1 192.4.1.34 500 20 480\n"
    );
    let wrong = Rig::new("FromNetFlowSummaryDump(/nonexistent, LINK in) -> Discard").err();
    assert!(wrong.is_some_and(|wrong| wrong.contains("'LINK' should be 'input', 'output', or 'both'")));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(100))]
    #[test]
    fn nothing_in_a_file_makes_them_fail(at in 0..900usize, byte: u8, cut in 0..900usize, junk in "[0-9.: >a-z(){}<\\[\\],|-]{0,80}") {
        for (class, text) in [("FromTcpdump", TCPDUMP), ("FromNetFlowSummaryDump", NETFLOW)] {
            let mut bytes = text.as_bytes().to_vec();
            let place = at % bytes.len();
            bytes[place] = byte;
            bytes.truncate(cut.max(1));
            let text = format!("{}\n{junk}\n1.5 1.0.0.1.1 > 2.0.0.2.2: {junk}\n", String::from_utf8_lossy(&bytes));
            printed(class, "hostile", &text, "", "ip_len tcp_opt payload_len ip_sum");
        }
    }
}
