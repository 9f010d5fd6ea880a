//! Small things that scripts and Click's users see: how tables are listed, what handlers
//! say, what becomes of packets that are odd.

use crate::Rig;

use super::bench::{bench, hex, ip};

#[test]
fn routes_are_listed_in_the_places_of_clicks_tables() {
    let routes = "18.26.4.0/24 1.1.1.1 1, 18.26.4.5/32 1, 0.0.0.0/0 9.9.9.9 1, 10.0.0.0/8 0";
    let listed = |table: &str| {
        let mut b = bench(&format!("i :: Idle -> r :: {table}({routes}) -> i; r[1] -> i;"));
        assert_eq!(b.write("r.remove", "18.26.4.0/24"), "");
        assert_eq!(b.write("r.remove", "0.0.0.0/0"), "");
        assert_eq!(b.write("r.set", "10.0.0.0/8 1"), "");
        assert_eq!(b.write("r.add", "11.0.0.0/8 1"), "");
        let table = b.read("r.table", "");
        table.lines().map(|line| line.split('/').next().expect("a prefix").to_string()).collect::<Vec<_>>()
    };
    // The first free place, and one that is replaced stays where it is.
    assert_eq!(listed("LinearIPLookup"), ["11.0.0.0", "18.26.4.5", "10.0.0.0"]);
    // The place that was left last, also by the one that was replaced.
    assert_eq!(listed("RadixIPLookup"), ["18.26.4.5", "10.0.0.0", "11.0.0.0"]);
    // The buckets of a hash table.
    for table in ["DirectIPLookup", "RangeIPLookup"] {
        assert_eq!(listed(table), ["11.0.0.0", "18.26.4.5", "10.0.0.0"]);
        let mut b = bench(&format!("i :: Idle -> r :: {table}({routes}, 18.26.4.24/32 0) -> i; r[1] -> i;"));
        let all: Vec<String> =
            b.read("r.table", "").lines().map(|l| l.split('/').next().unwrap_or("").into()).collect();
        assert_eq!(all, ["0.0.0.0", "18.26.4.24", "18.26.4.5", "18.26.4.0", "10.0.0.0"]);
    }
}

#[test]
fn fragments_are_told_of_and_reaped_by_their_timestamps() {
    let mut b = bench("i :: Idle -> r :: IPReassembler -> i;");
    let empty = "frags seen total:    0\ngood reassemblies:   0\nfailed reassemblies: 0\n\
                 bad fragments seen:  0\ncached chunk data:\n";
    assert_eq!(b.read("r.dump", ""), empty);
    let piece = |at: u32, time: u32, id: u32, more: char| {
        format!("{time} 1.0.0.1 2.0.0.2 U {id} {at}{more} 44 \"0123456789abcdefghijklmn\"\\n")
    };
    let lines = [piece(0, 1, 7, '+'), piece(48, 2, 7, '+'), piece(0, 3, 8, '+'), piece(0, 40, 9, '+')];
    let config = format!(
        "FromIPSummaryDump(DATA \"!data timestamp ip_src ip_dst ip_proto ip_id ip_fragoff ip_len payload\\n{}\", STOP true)
         -> TruncateIPPayload(24, false) -> r :: IPReassembler -> Discard; r[1] -> ToIPSummaryDump(-, HEADER false, FIELDS ip_id)",
        lines.concat()
    );
    let mut rig = Rig::new(&config).expect("a configuration");
    rig.run();
    // Those of which nothing more came for thirty seconds went out.
    assert_eq!(rig.printed().lines().collect::<std::collections::BTreeSet<_>>(), ["7", "8"].into());
    let dump = rig.read("r.dump");
    assert!(dump.starts_with("frags seen total:    4\n"), "{dump}");
    assert!(dump.contains("cached chunk data:\n (1.0.0.1, "), "{dump}");
    assert!(dump.ends_with(" 9 (0,24)\n"), "{dump}");
}

#[test]
fn what_is_odd_is_done_as_in_click() {
    // The header is in front already.
    let packet = ip(17, 9, &[], &[1, 2, 3]);
    let mut b = bench(&format!("Feed({}) -> MarkIPHeader -> UnstripIPHeader -> g :: Catch", hex(&packet)));
    assert_eq!(b.at("g"), std::slice::from_ref(&packet));
    // Where a transport header would be counts as one, also in a later fragment.
    let mut later = ip(17, 9, &[], &[1; 30]);
    later[7] = 3;
    let mut b =
        bench(&format!("Feed({}) -> MarkIPHeader -> TruncateIPPayload(4) -> g :: Catch", hex(&later)));
    assert_eq!(b.at("g")[0].len(), 32);
    let mut b = bench("i :: Idle -> p :: Paint(3) -> i;");
    assert!(b.write("p.color", "300").contains("expected uint8_t"));
    let mut rig =
        Rig::new("IPFieldInfo; Idle -> p :: IPPrint(CHANNEL quiet) -> Discard").expect("a configuration");
    for (value, active) in [("no", "false"), ("1", "true")] {
        rig.write("p.active", value).expect("a truth");
        assert_eq!(rig.read("p.active"), active);
    }
    let quiet = "FromIPSummaryDump(DATA \"!data ip_src\\n1.0.0.1\\n\", STOP true) -> IPPrint(CHANNEL quiet) -> Discard";
    assert_eq!(Rig::new(quiet).expect("a configuration").run().printed(), "");
}

#[test]
fn ip6_packets_are_made_marked_shown_and_sent_back() {
    let printed = |elements: &str| {
        let config = format!(
            "InfiniteSource(DATA \\<00 01 00 02 00 08 00 00>, LIMIT 1, STOP true)
             -> IP6Encap(udp, 2001:db8::1, ::2, HLIM 5, CLASS 3) -> {elements} -> Discard"
        );
        Rig::new(&config).expect("a configuration").run().printed()
    };
    assert_eq!(printed("IP6Print(in)"), "in: 2001:db8::1 -> ::0.0.0.2 plen 8, next 17, hlim 5\n");
    assert_eq!(
        printed("IP6Mirror -> SetIP6DSCP(46) -> Print(p, -1)"),
        "p:   48 | 6bb00000 00081105 00000000 00000000 00000000 00000002 20010db8 00000000 00000000 00000001 \
         00020001 00080000\n"
    );
    assert_eq!(
        printed("IP6Print(CONTENTS true, NBYTES 26)"),
        "2001:db8::1 -> ::0.0.0.2 plen 8, next 17, hlim 5\n  60300000 00081105 20010db8 00000000 00000000 00000001\n  0000\n"
    );
    for wrong in ["SetIP6DSCP(64)", "IP6Encap(nothing, ::1, ::2)", "IP6Encap(6, ::1, x)"] {
        assert!(Rig::new(&format!("Idle -> {wrong} -> Discard")).is_err(), "{wrong}");
    }
}

#[test]
fn ip6_routes_are_listed_as_click_writes_addresses() {
    let mut b = bench("i :: Idle -> r :: LookupIP6Route(2001:db8::/32 ::7 0, ::/0 2001::1 0) -> i;");
    assert_eq!(b.read("r.table", ""), "# Active routes\n::/0\t2001::1\t0\n2001:db8::/32\t::0.0.0.7\t0\n");
    let wide = Rig::new("Idle -> AggregateIP(ip[0:8]) -> Discard").err().expect("refused");
    assert!(wide.contains("field specification does not fit within a single word"), "{wide}");
}
