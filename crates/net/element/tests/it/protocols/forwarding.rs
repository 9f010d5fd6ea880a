//! Combos, switches, addresses and what else a forwarder is made of.

use memory::annotation::Reach;

use super::bench::{bench, hex, ip, is_sound, try_bench, unhex};

fn frame(dst: &str, src: &str) -> String {
    format!("\\<{dst} {src} 0800 4500>")
}

#[test]
fn an_ethernet_switch_learns_where_hosts_are() {
    let (a, b, all) = ("020000000001", "020000000002", "ffffffffffff");
    let mut bench = bench(&format!(
        "s :: EtherSwitch(TIMEOUT 10); f :: Feed({}, {}, \\<00>) -> [0]s[0] -> n0 :: Catch;
         Feed({}) -> [1]s[1] -> n1 :: Catch; Idle -> [2]s[2] -> n2 :: Catch;",
        frame(b, a),
        frame(all, a),
        frame(a, b),
    ));
    // The first is flooded: nobody knows b; the answer to a goes to a alone.
    assert_eq!(bench.at("n0").len(), 1);
    assert_eq!(bench.at("n1").len(), 2);
    assert_eq!(bench.at("n2").len(), 2);
    assert_eq!(bench.read("s.table", ""), "02-00-00-00-00-01 0\n02-00-00-00-00-02 1\n");
    assert_eq!(bench.drops(0)[2], 1, "a frame that is cut off");
    bench.write("s.flush", "");
    assert_eq!(bench.read("s.table", ""), "");
}

#[test]
fn a_frame_to_its_own_network_goes_nowhere_and_a_listener_gets_all() {
    let (a, b) = ("020000000001", "020000000002");
    let mut bench = bench(&format!(
        "s :: ListenEtherSwitch; Feed({}, {}) -> [0]s[0] -> n0 :: Catch; Idle -> [1]s[1] -> n1 :: Catch;
         s[2] -> l :: Catch;",
        frame(b, a),
        frame(a, b),
    ));
    assert_eq!((bench.at("n0").len(), bench.at("n1").len(), bench.at("l").len()), (0, 1, 2));
    assert_eq!(bench.drops(0)[1], 1);
}

#[test]
fn ethernet_addresses_go_to_annotations_and_back() {
    let mut b = bench(
        "Feed(\\<010203040506 0a0b0c0d0e0f 0800>) -> GetEtherAddress(0, src) -> SetEtherAddress(1:1:1:1:1:1, 8)
         -> s :: StoreEtherAddress(9:9:9:9:9:9, dst) -> c :: Catch;
         Feed(\\<0102>) -> g :: GetEtherAddress(0, dst) -> Discard; g[1] -> x :: Catch",
    );
    let caught = b.caught();
    let good = caught.iter().find(|c| c.at == "c").expect("one");
    assert_eq!(good.bytes, unhex("090909090909 0a0b0c0d0e0f 0800"));
    assert_eq!(&good.annotations.area[..14], &unhex("0a0b0c0d0e0f 0000 010101010101")[..]);
    assert!(caught.iter().any(|c| c.at == "x"), "too short goes to output 1");
    assert_eq!(b.write("s.addr", "8:8:8:8:8:8"), "");
    assert_eq!(b.read("s.addr", ""), "08-08-08-08-08-08");
    assert!(
        try_bench("Idle -> GetEtherAddress(0, x) -> Discard").err().expect("refused").contains("bad OFFSET")
    );
}

#[test]
fn packets_without_an_ethernet_header_get_one() {
    let packet = ip(17, 64, &[], b"data");
    let framed = [unhex("aaaaaaaaaaaa bbbbbbbbbbbb 0800"), packet.clone()].concat();
    let mut b = bench(&format!(
        "Feed({0}) -> MarkIPHeader -> EnsureEther -> new :: Catch;
         Feed({1}) -> MarkIPHeader(14) -> EnsureEther -> has :: Catch;
         Feed({1}) -> MarkIPHeader(14) -> Strip(14) -> EnsureEther -> had :: Catch;
         Feed({0}) -> EnsureEther -> unknown :: Catch;",
        hex(&packet),
        hex(&framed),
    ));
    assert_eq!(b.at("new")[0], [unhex("020202020202 010101010101 0800"), packet.clone()].concat());
    assert_eq!(b.at("has")[0], framed);
    assert_eq!(b.at("had")[0], framed);
    assert_eq!(b.at("unknown")[0], packet);
}

#[test]
fn arp_messages_are_checked() {
    let good = "0001 0800 06 04 0001 020000000001 0a000001 000000000000 0a000002";
    let bad =
        ["0001", "0001 0800 06 04 0001", "0001 0800 05 04 0001 00000000000000000000000000000000000000", ""];
    let feed: Vec<String> = bad.iter().chain([&good]).map(|text| hex(&unhex(text))).collect();
    let mut b =
        bench(&format!("Feed({}) -> c :: CheckARPHeader -> g :: Catch; c[1] -> x :: Catch", feed.join(", ")));
    assert_eq!(b.at("g"), [unhex(good)]);
    assert_eq!(b.at("x").len(), 4);
    let details = b.read("c.drop_details", "");
    assert!(details.starts_with("2\ttiny packet\n1\ttoo small for addresses\n1\tbad hardware"), "{details}");
    assert_eq!(b.read("c.drops", ""), "4");
}

#[test]
fn an_input_combo_is_its_parts() {
    let good = [vec![0; 14], ip(17, 64, &[], b"datagram"), vec![9; 4]].concat();
    let bad = [vec![0; 14], vec![0x55; 30]].concat();
    let parts = "Paint(3) -> Strip(14) -> CheckIPHeader(INTERFACES 10.0.9.1/24) -> GetIPAddress(16)";
    let run = |elements: &str| {
        let feed = format!("Feed({}, {}, \\<00>)", hex(&good), hex(&bad));
        bench(&format!("{feed} -> {elements} -> c :: Catch")).caught()
    };
    let (combo, alone) = (run("IPInputCombo(3, INTERFACES 10.0.9.1/24)"), run(parts));
    assert_eq!((combo.len(), &combo), (1, &alone));
}

#[test]
fn an_output_combo_is_its_parts() {
    let route = [7, 7, 4, 0, 0, 0, 0, 0];
    let packets = [
        ip(17, 64, &[], b"goes on"),
        ip(17, 1, &[], b"is at its end"),
        ip(17, 64, &route, b"is recorded"),
        ip(17, 64, &[7, 7, 3, 0, 0, 0, 0, 0], b"has bad options"),
        ip(17, 64, &[], &[7; 200]),
    ];
    let feed: Vec<String> = packets.iter().map(|packet| hex(packet)).collect();
    let feed = format!("Feed({}) -> MarkIPHeader -> Paint(2)", feed.join(", "));
    let ends = "o[0] -> o0 :: Catch; o[1] -> o1 :: Catch; o[2] -> o2 :: Catch; o[3] -> o3 :: Catch; o[4] -> o4 :: Catch;";
    let mut combo = bench(&format!("{feed} -> o :: IPOutputCombo(2, 10.0.0.9, 100); {ends}"));
    let parts = "o :: { input -> DropBroadcasts -> p :: PaintTee(2) -> g :: IPGWOptions(10.0.0.9)
        -> FixIPSrc(10.0.0.9) -> d :: DecIPTTL -> l :: CheckLength(100) -> output;
        p[1] -> [1]output; g[1] -> [2]output; d[1] -> [3]output; l[1] -> [4]output };";
    let seen = |names: [&str; 5], bench: &mut super::bench::Bench| names.map(|name| bench.at(name));
    let names = ["o0", "o1", "o2", "o3", "o4"];
    let got = seen(names, &mut combo);
    let mut alone = bench(&format!("{parts} {feed} -> o; {ends}"));
    assert_eq!(got, seen(names, &mut alone));
    assert_eq!(got.each_ref().map(Vec::len), [2, 5, 1, 1, 1]);
    assert!(got[0].iter().all(|packet| is_sound(packet) && packet[8] == 63));
    assert_eq!(&got[0][1][23..27], &[10, 0, 0, 9], "the route was recorded");
}

#[test]
fn a_packet_type_can_be_set() {
    let mut b = bench("Feed(a) -> SetPacketType(multicast) -> c :: Catch");
    assert_eq!(b.caught()[0].annotations.reach, Reach::Multicast);
    assert!(try_bench("Idle -> SetPacketType(x) -> Discard").is_err());
}

#[test]
fn payloads_are_cut_off_behind_their_headers() {
    let udp = ip(17, 64, &[], &[[4, 0, 0, 53, 0, 12, 0, 0].as_slice(), b"datagram"].concat());
    let feed = format!("Feed({}) -> MarkIPHeader", hex(&udp));
    let mut b = bench(&format!(
        "{feed} -> TruncateIPPayload(2) -> a :: Catch; {feed} -> TruncateIPPayload(2, false) -> b :: Catch;
         Feed(abcdef) -> TruncateIPPayload(4) -> c :: Catch"
    ));
    assert_eq!((b.at("a")[0].len(), b.at("b")[0].len(), b.at("c")[0].len()), (30, 22, 4));
    let note = |at: &str, b: &super::bench::Caught| (b.at == at).then(|| b.annotations.area[28]);
    let caught = b.caught();
    assert_eq!(caught.iter().find_map(|c| note("a", c)), Some(6), "what is gone is noted");
}

#[test]
fn icmp_messages_are_made() {
    let mut b = bench(
        "Feed(data, more) -> ICMPIPEncap(1.0.0.1, 2.0.0.2, echo, IDENTIFIER 7) -> a :: Catch;
         Feed(data) -> ICMPIPEncap(1.0.0.1, 2.0.0.2, unreachable, port) -> b :: Catch",
    );
    let echoes = b.at("a");
    assert!(echoes.iter().all(|packet| is_sound(packet) && wire::checksum::sum(&packet[20..]) == 0xFFFF));
    assert_eq!(&echoes[1][20..22], &[8, 0]);
    assert_eq!(&echoes[1][24..], b"\0\x07\0\x02more");
    assert_eq!(&b.at("b")[0][20..22], &[3, 3]);
    assert!(try_bench("Idle -> ICMPIPEncap(1.0.0.1, 2.0.0.2, nonsense) -> Discard").is_err());
}

#[test]
fn fast_flows_are_what_they_say() {
    let mut b = bench(
        "FastUDPFlows(0, 12, 64, 1:1:1:1:1:1, 1.0.0.1, 2:2:2:2:2:2, 2.0.0.2, 3, 2, SEQUENTIAL true) -> u :: Catch;
         FastTCPFlows(0, 6, 64, 1:1:1:1:1:1, 1.0.0.1, 2:2:2:2:2:2, 2.0.0.2, 1, 3) -> t :: Catch",
    );
    let ports = |frame: &Vec<u8>| u16::from_be_bytes([frame[34], frame[35]]);
    let udp = b.at("u");
    let seen: Vec<u16> = udp.iter().map(ports).collect();
    assert_eq!(seen, [0, 1, 2, 0, 1, 2, 1, 2, 3, 1, 2, 3], "flows take turns, and change after two frames");
    let tcp = b.at("t");
    let flags: Vec<u8> = tcp.iter().map(|frame| frame[47]).collect();
    assert_eq!(flags, [2, 0x10, 0x11, 2, 0x10, 0x11]);
    for frame in udp.iter().chain(&tcp) {
        assert!(is_sound(&frame[14..]));
        let length = frame.len() as u32 - 34;
        let pseudo =
            wire::checksum::pseudo_header_v4([1, 0, 0, 1].into(), [2, 0, 0, 2].into(), frame[23], length);
        assert_eq!(wire::checksum::combine(pseudo, wire::checksum::sum(&frame[34..])), 0xFFFF);
    }
}

#[test]
fn bytes_are_stored_where_a_mask_says() {
    let mut b = bench(
        "Feed(abcd) -> StoreData(1, XY) -> a :: Catch; Feed(\\<ffff>) -> StoreData(0, \\<00>, \\<0f>) -> b :: Catch;
         Feed(ab) -> StoreData(1, XYZ) -> c :: Catch; Feed(ab) -> StoreData(3, X, GROW true) -> d :: Catch;
         Feed(ab) -> StoreData(9, X) -> e :: Catch",
    );
    let got = ["a", "b", "c", "d", "e"].map(|at| b.at(at)[0].clone());
    assert_eq!(got, [b"aXYd".to_vec(), vec![0xF0, 0xFF], b"aX".to_vec(), b"ab\0X".to_vec(), b"ab".to_vec()]);
}

#[test]
fn long_tcp_segments_become_several() {
    let mut tcp = unhex("0400 0050 00000064 00000000 5019 0100 0000 0000");
    tcp.extend((0..100).map(|n| n as u8));
    let mut long = ip(6, 64, &[], &tcp);
    long.extend(b"padding");
    let short = ip(6, 64, &[], &tcp[..30]);
    let mut b = bench(&format!(
        "Feed({}, {}, {}) -> MarkIPHeader -> f :: TCPFragmenter(MTU 80) -> c :: Catch",
        hex(&long),
        hex(&short),
        hex(&ip(17, 64, &[], &[7; 200])),
    ));
    let parts = b.at("c");
    assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [80, 80, 60, 50, 220]);
    let data: Vec<u8> = parts[..3].iter().flat_map(|part| part[40..].to_vec()).collect();
    assert_eq!(data, tcp[20..]);
    for (part, number) in parts.iter().zip([100u32, 140, 180]) {
        assert!(is_sound(part));
        assert_eq!(part[24..28], number.to_be_bytes());
        let pseudo = wire::checksum::pseudo_header_v4(
            [10, 0, 0, 1].into(),
            [10, 0, 1, 2].into(),
            6,
            part.len() as u32 - 20,
        );
        assert_eq!(wire::checksum::combine(pseudo, wire::checksum::sum(&part[20..])), 0xFFFF);
    }
    assert_eq!([parts[0][33], parts[1][33], parts[2][33]], [0x18, 0x18, 0x19], "the end is at the end");
    assert_eq!((b.read("f.fragments", ""), b.read("f.fragmented_count", "")), ("3".into(), "1".into()));
}

#[test]
fn datagrams_are_made_for_ip6() {
    let mut b = bench(
        "Feed(data) -> u :: UDPIP6Encap(2001:db8::1, 1000, 2001:db8::2, 53) -> CheckIP6Header -> c :: Catch",
    );
    let packet = b.at("c")[0].clone();
    assert_eq!((packet.len(), &packet[40..46]), (52, &unhex("03e8 0035 000c")[..]));
    let [src, dst] = ["2001:db8::1", "2001:db8::2"].map(|text| text.parse().expect("an address"));
    let pseudo = wire::checksum::pseudo_header_v6(src, dst, 17, 12);
    assert_eq!(wire::checksum::combine(pseudo, wire::checksum::sum(&packet[40..])), 0xFFFF);
    assert_eq!((b.write("u.dst", "DST_ANNO"), b.read("u.dst", "")), (String::new(), "DST_ANNO".into()));
}

#[test]
fn colours_choose_outputs_and_packets_are_numbered() {
    let mut b = bench(
        "Feed(a) -> Paint(5) -> r :: PaintRR -> Discard; r[1] -> x :: Catch;
         Feed(a) -> Paint(17) -> e :: ExactPaintSwitch(PAINT, MAP 6, MAP 17) -> Discard; e[1] -> y :: Catch;
         Feed(a) -> Paint(9) -> g :: ExactPaintSwitch(MAP 6) -> Discard; g[1] -> z :: Catch;
         Feed(a, b) -> NumberPacket(1, NET_ORDER true) -> n :: Catch; ClickyInfo(STYLE #x { y: z });",
    );
    assert_eq!(["x", "y", "z"].map(|at| b.at(at).len()), [1, 1, 1]);
    assert_eq!(b.at("n")[1], b"b\0\0\0\0\0\0\0\x01");
}

#[test]
fn handlers_of_several_elements_are_one() {
    let mut b = bench(
        "Feed(a, b) -> c :: Counter -> Discard; Feed(a, b, c, d) -> d :: Counter -> Discard;
         h :: HandlerAggregate(ELEMENT c, ELEMENT d)",
    );
    assert_eq!((b.read("h.add", "count"), b.read("h.avg", "count")), ("6".into(), "3".into()));
    assert_eq!(b.write("h.write", "reset"), "");
    assert_eq!((b.read("h.add", "count"), b.read("c.count", "")), ("0".into(), "0".into()));
    assert!(try_bench("HandlerAggregate(ELEMENT nobody)").is_err());
}
