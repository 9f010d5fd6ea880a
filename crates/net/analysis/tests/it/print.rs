//! Printers and summaries: what they write, byte by byte.

use crate::Rig;

#[test]
fn packets_of_lines_are_printed_and_written_again() {
    let lines = "!data timestamp src dst sport dport proto ip_len ip_hl tcp_off tcp_flags\n\
        1.00002 1.0.0.1 1.0.0.2 10 20 T 1500 40 20 A\n\
        1.00003 1.0.0.2 1.0.0.3 20 30 T 1000 20 20 SA\n\
        1.00004 1.0.0.3 1.0.0.4 30 40 T 1000 20 40 SF\n\
        1.00005 1.0.0.4 1.0.0.5 40 50 T 1000 32 40 A\n";
    let mut rig = Rig::new(&format!(
        "FromIPSummaryDump(DATA \"{lines}\", STOP true) -> IPPrint \
         -> ToIPSummaryDump(-, FIELDS timestamp sport ip_len ip_hl tcp_off tcp_flags payload_len)"
    ))
    .expect("a configuration");
    let printed = rig.run().printed();
    for line in [
        "1.000020: 1.0.0.1.10 > 1.0.0.2.20: . 0:1440(1440,60,1500) ack 0 win 0\n",
        "1.000030: 1.0.0.2.20 > 1.0.0.3.30: S 0:961(961,40,1000) ack 0 win 0\n",
        "1.000040: 1.0.0.3.30 > 1.0.0.4.40: SF 0:942(942,60,1000) win 0\n",
        "1.000050: 1.0.0.4.40 > 1.0.0.5.50: . 0:928(928,72,1000) ack 0 win 0\n",
        "!IPSummaryDump 1.3\n!data timestamp sport ip_len ip_hl tcp_off tcp_flags payload_len\n",
        "1.000020 10 1500 40 20 A 1440\n",
        "1.000040 30 1000 20 40 FS 940\n",
    ] {
        assert!(printed.contains(line), "{line} is not in\n{printed}");
    }
}

#[test]
fn ip_packets_are_printed_with_their_link_header() {
    let print = |way: &str| {
        let config = format!(
            "InfiniteSource(DATA \\<020000000001 020000000002 0800 45000014 00010000 40fd0000 01000001 01000002>, \
             LIMIT 1, STOP true) -> {way} -> Discard"
        );
        Rig::new(&config).expect("a configuration").run().printed()
    };
    let print_all = "IPPrint(x, ETHER true, VLAN true, TIMESTAMP false)";
    assert_eq!(
        print(&format!("SetVLANAnno(5, VLAN_PCP 1) -> MarkMACHeader -> MarkIPHeader(14) -> {print_all}")),
        "x:  VLAN:819702-00-00-00-00-02 > 02-00-00-00-00-01: 1.0.0.1 > 1.0.0.2: ip-proto-253\n"
    );
    // Without a link header nothing is said of one.
    assert_eq!(
        print(&format!("MarkIPHeader(14) -> {print_all}")),
        "x:  VLAN:01.0.0.1 > 1.0.0.2: ip-proto-253\n"
    );
}

#[test]
fn print_shows_bytes() {
    let print = |arguments: &str| {
        let config = format!(
            "InfiniteSource(DATA \\<000102030405 2041>, LIMIT 1, STOP true, TIMESTAMP false) -> Print({arguments}) -> Discard"
        );
        Rig::new(&config).expect("a configuration").run().printed()
    };
    assert_eq!(print(""), "   8 | 00010203 04052041\n");
    assert_eq!(print("x, 2"), "x:    8 | 0001\n");
    assert_eq!(print("x, CONTENTS ASCII"), "x:    8 |  ...... A\n");
    assert_eq!(print("x, CONTENTS NONE, TIMESTAMP true"), "x: 0.000000:    8\n");
    assert_eq!(print("ACTIVE false"), "");
}

/// Every printer and field takes packets that end anywhere, of any bytes.
#[test]
fn packets_that_end_anywhere_are_printed() {
    for protocol in ["01", "06", "11", "21"] {
        for length in 0..80 {
            let config = format!(
                "InfiniteSource(DATA \\<4f00 003c 0001 2000 40{protocol} ffff 03040506>, LENGTH {length}, LIMIT 1, STOP true) \
                 -> MarkIPHeader -> IPPrint(PAYLOAD HEX) -> IPFilter(0 tcp opt syn or icmp type echo, 1 port 5, 2 -) \
                 [0,1,2] -> ToIPSummaryDump(-, FIELDS ip_src ip_frag ip_fragoff ip_proto sport dport tcp_flags tcp_urp udp_len icmp_code payload payload_len)"
            );
            Rig::new(&config).expect("a configuration").run();
        }
    }
}
