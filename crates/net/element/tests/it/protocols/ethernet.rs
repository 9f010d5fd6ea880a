use memory::annotation::Reach;
use proptest::prelude::*;

use super::bench::{bench, hex, ip, try_bench, unhex};

#[test]
fn frames_get_headers_and_lose_them() {
    let mut b = bench(
        "Feed(ab) -> e :: EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> t :: Tee -> a :: Catch;
         t[1] -> EtherMirror -> t2 :: Tee -> b :: Catch; t2[1] -> EtherRewrite(3:3:3:3:3:3, 4:4:4:4:4:4) -> c :: Catch",
    );
    assert_eq!(b.at("a")[0], unhex("020202020202 010101010101 0800 6162"));
    assert_eq!(b.at("b")[0], unhex("010101010101 020202020202 0800 6162"));
    assert_eq!(b.at("c")[0], unhex("040404040404 030303030303 0800 6162"));
    assert_eq!(b.read("e.ethertype", ""), "2048");
    assert_eq!(b.write("e.ethertype", "0x0801"), "");
    assert_eq!((b.read("e.ethertype", ""), b.read("e.src", "")), ("2049".into(), "01-01-01-01-01-01".into()));
}

#[test]
fn vlan_tags_come_and_go() {
    let encap = "0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2";
    let mut b = bench(&format!(
        "Feed(\\<aaabacad>) -> EtherVLANEncap({encap}, 1) -> a :: Tee(2) -> StripEtherVLANHeader
         -> EtherVLANEncap({encap}, ANNO) -> c :: Tee(2) -> StripEtherVLANHeader
         -> EtherVLANEncap({encap}, ANNO, NATIVE_VLAN 1) -> e :: Tee(2) -> StripEtherVLANHeader
         -> SetVLANAnno(2, 1) -> EtherVLANEncap({encap}, ANNO, NATIVE_VLAN 1) -> f :: Catch;
         a[1] -> ca :: Catch; c[1] -> cc :: Catch; e[1] -> ce :: Catch;
         Feed(\\<aaabacad>) -> EtherEncap({encap}) -> VLANEncap(0x1234, ETHERTYPE 0x88a8) -> g :: Tee(2)
         -> VLANDecap -> VLANDecap(ETHERTYPE 0x88a8) -> h :: Catch; g[1] -> cg :: Catch"
    ));
    let addresses = "020202020202 010101010101";
    for (at, bytes) in [
        ("ca", "8100 0001 0800 aaabacad"),
        ("cc", "8100 0001 0800 aaabacad"),
        ("ce", "0800 aaabacad"),
        ("f", "8100 2002 0800 aaabacad"),
        ("cg", "88a8 1234 0800 aaabacad"),
        ("h", "0800 aaabacad"),
    ] {
        assert_eq!(b.at(at), [unhex(&format!("{addresses}{bytes}"))], "{at}");
    }
}

#[test]
fn a_host_knows_what_is_for_it() {
    let frame = |dst: &str, src: &str| format!("\\<{dst} {src} 0800>");
    let (me, other) = ("000000000001", "000000000002");
    let frames = [
        frame(me, other),
        frame("ffffffffffff", other),
        frame("01005e000001", other),
        frame(other, me),
        frame(me, me),
        "\\<00>".into(),
    ];
    let mut b = bench(&format!(
        "Feed({}) -> f :: HostEtherFilter(0:0:0:0:0:1, true) -> d :: DropBroadcasts -> g :: Catch;
         f[1] -> x :: Catch; d[1] -> y :: Catch",
        frames.join(", ")
    ));
    assert_eq!((b.at("g").len(), b.at("x").len(), b.at("y").len()), (1, 2, 2));
    let reach = |c: &super::bench::Caught| c.annotations.reach;
    let caught = b.caught();
    let groups: Vec<Reach> = caught.iter().filter(|c| c.at == "y").map(reach).collect();
    assert_eq!(groups, [Reach::Broadcast, Reach::Multicast]);
    assert_eq!(b.read("d.drops", ""), "2");
}

fn request(target: [u8; 4]) -> Vec<u8> {
    [
        &unhex("ffffffffffff 000000000009 0806 0001 0800 06 04 0001 000000000009 0a000009 000000000000")[..],
        &target,
    ]
    .concat()
}

#[test]
fn whoever_has_an_address_says_so() {
    let mut b = bench(&format!(
        "Feed({}, {}, {}) -> r :: ARPResponder(10.0.0.0/24 0:0:0:0:0:1, 10.0.0.7 0:0:0:0:0:7) -> g :: Catch; r[1] -> x :: Catch",
        hex(&request([10, 0, 0, 1])),
        hex(&request([10, 0, 0, 7])),
        hex(&request([10, 1, 0, 1])),
    ));
    let answers = b.at("g");
    assert_eq!(
        answers[0],
        unhex(
            "000000000009 000000000001 0806 0001 0800 06 04 0002 000000000001 0a000001 000000000009 0a000009"
        )
    );
    assert_eq!((answers[1][11], b.at("x").len()), (7, 1));
    assert_eq!(b.read("r.table", ""), "10.0.0.7/32 00-00-00-00-00-07\n10.0.0.0/24 00-00-00-00-00-01\n");
    assert_eq!(b.write("r.remove", "10.0.0.7"), "");
    assert_eq!(b.read("r.lookup", "10.0.0.7"), "00-00-00-00-00-01");
    assert_eq!(b.write("r.add", "10.0.0.0/8 0:0:0:0:0:8"), "");
    assert_eq!(
        (b.read("r.lookup", "10.9.9.9"), b.read("r.lookup", "11.0.0.0")),
        ("00-00-00-00-00-08".into(), String::new())
    );
    assert!(
        try_bench("Idle -> ARPResponder(10.0.0.1) -> Discard")
            .err()
            .expect("refused")
            .contains("argument 0: missing ETH")
    );
}

#[test]
fn packets_wait_until_their_address_is_known() {
    let packets: Vec<String> = (0..3).map(|i| hex(&ip(17, 9, &[], &[i]))).collect();
    let feed = format!("Feed({}) -> SetIPAddress(10.0.1.2)", packets.join(", "));
    // Nobody answers.
    let mut b = bench(&format!(
        "{feed} -> q :: ARPQuerier(10.0.0.1/24, 0:0:0:0:0:1, TIMEOUT 0) -> g :: Catch; Idle -> [1]q; q[1] -> a :: Catch"
    ));
    assert_eq!((b.at("g").len(), b.at("a").len(), b.read("q.length", "")), (0, 1, "3".into()));
    assert_eq!(
        b.at("a")[0],
        unhex(
            "ffffffffffff 000000000001 0806 0001 0800 06 04 0001 000000000001 0a000001 000000000000 0a000102"
        )
    );
    assert_eq!(b.read("q.stats", ""), "0 packets killed\n1 ARP queries sent\n");
    // Somebody who knows says so, and what waits waits for an answer still, as in Click.
    assert_eq!(b.write("q.insert", "10.0.1.2 0:0:0:0:0:2"), "");
    assert_eq!((b.at("g").len(), b.read("q.length", "")), (0, "3".into()));
    // Somebody answers.
    let mut b = bench(&format!(
        "{feed} -> q :: ARPQuerier(10.0.0.1/24, 0:0:0:0:0:1, TIMEOUT 0) -> g :: Catch;
        q[1] -> ARPResponder(10.0.1.2 0:0:0:0:0:2) -> [1]q;"
    ));
    let sent = b.at("g");
    assert_eq!(sent.iter().map(|f| f[34]).collect::<Vec<u8>>(), [0, 1, 2]);
    assert!(sent.iter().all(|f| f[..14] == unhex("000000000002 000000000001 0800")));
    assert!(b.read("q.table", "").starts_with("10.0.1.2 1 00-00-00-00-00-02 0.0"));
    assert_eq!((b.read("q.responses", ""), b.read("q.count", "")), ("1".into(), "1".into()));
}

#[test]
fn groups_need_no_request_and_nothing_goes_nowhere() {
    let config = |dst: &str| {
        format!(
            "Feed(x) -> SetIPAddress({dst}) -> q :: ARPQuerier(10.0.0.1/24, 0:0:0:0:0:1) -> g :: Catch; Idle -> [1]q; q[1] -> a :: Catch"
        )
    };
    assert_eq!(bench(&config("10.0.0.255")).at("g")[0][..6], [0xFF; 6]);
    assert_eq!(bench(&config("224.129.2.3")).at("g")[0][..6], [1, 0, 0x5E, 1, 2, 3]);
    let mut b = bench(&config("0.0.0.0"));
    assert_eq!((b.at("a").len(), b.read("q.drops", "")), (0, "1".into()));
    assert!(b.printed().contains("would query for 0.0.0.0"), "{}", b.printed());
}

#[test]
fn what_waits_is_bounded() {
    let feed =
        |count: usize, dst: &str| format!("InfiniteSource(LIMIT {count}, BURST 32) -> SetIPAddress({dst})");
    let mut b = bench(&format!(
        "{} -> q :: ARPQuerier(1.0.0.3, 2:1:1:1:1:1, CAPACITY 10, TIMEOUT 0) -> Discard; Idle -> [1]q",
        feed(100, "2.0.0.2")
    ));
    assert_eq!(b.read("q.stats", ""), "90 packets killed\n1 ARP queries sent\n");
    let mut b = bench(&format!(
        "{} -> q :: ARPQuerier(1.0.0.3, 2:1:1:1:1:1, ENTRY_PACKET_CAPACITY 10, TIMEOUT 0) -> Discard;
        {} -> q; Idle -> [1]q",
        feed(50, "2.0.0.2"),
        feed(50, "2.0.0.3")
    ));
    assert_eq!(b.read("q.stats", ""), "80 packets killed\n2 ARP queries sent\n");
}

#[test]
fn a_table_may_be_shared() {
    let mut b = bench(
        "t :: ARPTable(TIMEOUT 0); q :: ARPQuerier(1.0.0.3, 2:1:1:1:1:1, TABLE t) -> g :: Catch;
        Feed(x) -> SetIPAddress(2.0.0.2) -> q; Idle -> [1]q;",
    );
    assert_eq!(b.read("t.count", ""), "1");
    assert_eq!(b.write("t.insert", "2.0.0.9 0:0:0:0:0:9"), "");
    assert!(b.read("q.table", "").contains("2.0.0.9 1 00-00-00-00-00-09"));
    assert_eq!(b.write("t.clear", ""), "");
    assert_eq!((b.read("t.drops", ""), b.read("q.length", "")), ("1".into(), "0".into()));
    assert!(
        try_bench("q :: ARPQuerier(1.0.0.3, 2:1:1:1:1:1, TABLE no) -> Discard; Idle -> q; Idle -> [1]q")
            .err()
            .expect("refused")
            .contains("no ARPTable")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn nothing_that_comes_makes_them_fail(packets: Vec<Vec<u8>>, cut in 0..42usize, at in 0..42usize, byte: u8) {
        let mut asked = request([10, 0, 0, 1]);
        asked[at] = byte;
        let mut answer = asked.clone();
        answer[21] = 2;
        let packets = packets.into_iter().chain([asked[..cut].to_vec(), asked, answer]);
        let packets: Vec<String> = packets.map(|p| hex(&p)).collect();
        let config = format!(
            "Feed({}) -> h :: HostEtherFilter(0:0:0:0:0:1, DROP_OTHER false) -> t :: Tee(3)
             -> VLANDecap -> VLANEncap(5) -> EtherMirror -> EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2) -> StripEtherVLANHeader(-1) -> Discard;
             t[1] -> MarkMACHeader(20, 14) -> EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2) -> GetIPAddress(2) -> q :: ARPQuerier(10.0.0.3, 1:1:1:1:1:1, CAPACITY 3)
             -> EtherVLANEncap(1, 1:1:1:1:1:1, 2:2:2:2:2:2, ANNO) -> EtherEncap(1, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Discard;
             t[2] -> u :: Tee(2) -> [1]q; u[1] -> ARPResponder(0/0 1:1:1:1:1:1) -> Discard;",
            packets.join(", ")
        );
        bench(&config);
    }
}
