use super::bench::{bench, hex, ip, try_bench};

const TABLES: [&str; 5] =
    ["RadixIPLookup", "DirectIPLookup", "RangeIPLookup", "LinearIPLookup", "SortedIPLookup"];

#[test]
fn the_longest_prefix_wins_while_routes_come_and_go() {
    for table in TABLES {
        let mut b = bench(&format!("i :: Idle -> r :: {table}() -> i; r[1] -> i; r[2] -> i;"));
        let mut expect = |what: &str, said: &str, found: &str| {
            let (handler, route) = what.split_once(' ').expect("a command");
            assert_eq!(b.write(&format!("r.{handler}"), route), said, "{table} {what}");
            assert_eq!(b.read("r.lookup", "18.26.4.9"), found, "{table} {what}");
        };
        expect("add 18.26/16 1.0.0.1 0", "", "0 1.0.0.1");
        expect("add 18.26.0/18 2.0.0.2 1", "", "1 2.0.0.2");
        expect("add 18.26.0/17 3.0.0.3 2", "", "1 2.0.0.2");
        expect("remove 18.26.0/18 2.0.0.2 1", "", "2 3.0.0.3");
        expect("remove 18.26.0/16 1.0.0.1 0", "", "2 3.0.0.3");
        expect("add 18.26.0/12 4.0.0.4 0", "", "2 3.0.0.3");
        expect("remove 18.26.0/17 3.0.0.3 2", "", "0 4.0.0.4");
        expect("add 18.26.4.9/32 - 0", "", "0");
        expect("remove 18.26.4.9/32", "", "0 4.0.0.4");
        expect(
            "add 18.26.0/12 6.0.0.6 0",
            "conflict with existing route '18.16.0.0/12 4.0.0.4 0'",
            "0 4.0.0.4",
        );
        expect("set 18.26.0/12 7.0.0.7 0", "", "0 7.0.0.7");
        expect("remove 18.26.0/12 7.0.0.8 0", "route '18.16.0.0/12 7.0.0.8 0' not found", "0 7.0.0.7");
        expect("add 18/8 3", "bad OUTPUT", "0 7.0.0.7");
        expect("remove 18.26.0/12 7.0.0.7 0", "", "-1");
    }
}

#[test]
fn a_transaction_is_done_whole_or_not_at_all() {
    let mut b = bench("i :: Idle -> r :: LinearIPLookup(10/8 1.1.1.1 0, 11/8 0) -> i;");
    let before = b.read("r.table", "");
    assert_eq!(before, "10.0.0.0/8\t\t1.1.1.1\t\t0\n11.0.0.0/8\t\t-\t\t0\n");
    let said = b.write("r.ctrl", "add 12/8 0\nset 10/8 2.2.2.2 0\nremove 11/8\nadd 12/8 0\n");
    assert!(said.contains("conflict"), "{said}");
    let mut lines: Vec<String> = b.read("r.table", "").lines().map(str::to_string).collect();
    lines.sort();
    assert_eq!(lines.join("\n") + "\n", before);
    assert_eq!(b.write("r.ctrl", "add 12/8 0\nset 10/8 2.2.2.2 0\n\nremove 11/8"), "");
    assert_eq!(b.read("r.table", ""), "10.0.0.0/8\t\t2.2.2.2\t\t0\n12.0.0.0/8\t\t-\t\t0\n");
    assert_eq!(b.write("r.flush", ""), "");
    assert_eq!(b.read("r.table", ""), "");
}

#[test]
fn packets_go_where_their_routes_say_in_order() {
    let to = |last: u8| {
        let mut packet = ip(17, 9, &[], &[last]);
        packet[18..20].copy_from_slice(&[last, last]);
        hex(&packet)
    };
    let packets: Vec<String> = [2, 1, 1, 3, 2, 9, 1].map(to).into();
    let mut b = bench(&format!(
        "Feed({}) -> GetIPAddress(16) -> r :: StaticIPLookup(10.0.1.0/24 0, 10.0.2.0/24 5.5.5.5 1, 10.0.3.3 6.6.6.6 0)
         -> x :: Catch; r[1] -> y :: Catch",
        packets.join(", ")
    ));
    let last = |all: Vec<Vec<u8>>| all.iter().map(|p| p[20]).collect::<Vec<u8>>();
    assert_eq!((last(b.at("x")), last(b.at("y"))), (vec![1, 1, 3, 1], vec![2, 2]));
    assert!(b.printed().contains("IPRouteTable: no route for 10.0.9.9"), "{}", b.printed());
    for caught in b.caught() {
        let hop = &caught.annotations.area[..4];
        match caught.bytes[20] {
            2 => assert_eq!(hop, [5; 4]),
            3 => assert_eq!(hop, [6; 4]),
            _ => assert_eq!(hop, [10, 0, 1, 1]),
        }
    }
}

#[test]
fn wrong_routes_are_all_told_of() {
    let said =
        try_bench("Idle -> StaticIPLookup(10/8 0, nonsense, 11/8 7) -> Discard").err().expect("refused");
    assert!(said.contains("argument 2 should be 'ADDR/MASK [GATEWAY] OUTPUT'"), "{said}");
    assert!(said.contains("argument 3 bad OUTPUT"), "{said}");
    let mut b = bench("i :: Idle -> r :: StaticIPLookup(0/0 0) -> i");
    assert!(b.write("r.add", "1/8 0").contains("no 'r.add' write handler"));
}
