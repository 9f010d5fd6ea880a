use proptest::prelude::*;

use super::bench::{bench, hex, try_bench, unhex};

const SRC: &str = "20010db8000000000000000000000001";
const DST: &str = "20010db8000000020000000000000002";

/// An IPv6 packet from `SRC` to `dst`.
fn ip6(next: u8, hops: u8, dst: &str, payload: &[u8]) -> Vec<u8> {
    let mut packet = unhex("60000000");
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, hops]);
    packet.extend(unhex(SRC));
    packet.extend(unhex(dst));
    packet.extend(payload);
    packet
}

fn is_sound_icmp(packet: &[u8]) -> bool {
    let view = wire::ipv6::Packet::new_checked(packet).expect("an IPv6 packet");
    wire::icmpv6::Packet::new_checked(view.payload()).expect("ICMPv6").verify_checksum(view.addresses())
}

#[test]
fn sound_packets_pass_and_hops_are_counted() {
    let good = ip6(17, 2, DST, &[1; 8]);
    let mut version = good.clone();
    version[0] = 0x40;
    let mut multicast = good.clone();
    multicast[8] = 0xFF;
    let padded = [&good[..], &[0; 4]].concat();
    let packets = [&padded[..], &version, &multicast, &good[..30], &good[..44], &ip6(17, 1, DST, &[])]
        .map(hex)
        .join(", ");
    let mut b = bench(&format!(
        "Feed({packets}) -> c :: CheckIP6Header -> d :: DecIP6HLIM -> f :: IP6Fragmenter(1280) -> g :: Catch; c[1] -> x :: Catch; d[1] -> y :: Catch"
    ));
    let passed = b.at("g").remove(0);
    assert_eq!((passed.len(), passed[7]), (good.len(), 1));
    assert_eq!((b.at("x").len(), b.at("y").len(), b.read("c.drops", "")), (4, 1, "4".into()));
}

#[test]
fn a_ping_is_answered_and_errors_are_told() {
    let mut echo = vec![128, 0, 0, 0, 0, 1, 0, 2, b'h', b'i'];
    let sum = !wire::checksum::combine(
        wire::checksum::pseudo_header_v6(
            "2001:db8::1".parse().expect("one"),
            "2001:db8:0:2::2".parse().expect("one"),
            58,
            10,
        ),
        wire::checksum::sum(&echo),
    );
    echo[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut b = bench(&format!(
        "Feed({}) -> CheckIP6Header -> ICMP6PingResponder -> a :: Catch;
         Feed({}) -> CheckIP6Header -> ICMP6Error(2001:db8::9, 3, 0) -> b :: Catch;
         Feed({}) -> CheckIP6Header -> f :: IP6Fragmenter(1280) -> Discard; f[1] -> ICMP6Error(2001:db8::9, 2, 0, PMTU 1280) -> c :: Catch;
         Feed({}) -> CheckIP6Header -> e :: ICMP6Error(2001:db8::9, 1, 0) -> d :: Catch",
        hex(&ip6(58, 64, DST, &echo)),
        hex(&ip6(17, 1, DST, &[7; 20])),
        hex(&ip6(17, 9, DST, &[7; 1400])),
        hex(&ip6(58, 9, DST, &[1, 0, 0, 0, 0, 0, 0, 0])),
    ));
    let answer = b.at("a").remove(0);
    assert!(is_sound_icmp(&answer) && answer[8..24] == unhex(DST) && answer[24..40] == unhex(SRC));
    assert_eq!((answer[40], answer[7], &answer[48..]), (129, 255, &b"hi"[..]));
    let late = b.at("b").remove(0);
    assert!(is_sound_icmp(&late) && late[24..40] == unhex(SRC));
    assert_eq!((late[40], late.len()), (3, 40 + 8 + 60));
    let big = b.at("c").remove(0);
    assert!(is_sound_icmp(&big));
    assert_eq!((big.len(), &big[40..48][4..]), (1280, &[0, 0, 5, 0][..]));
    assert!(b.at("d").is_empty(), "errors are not answered");
    assert!(try_bench("Idle -> ICMP6Error(::1, 128, 0) -> Discard").is_err());
}

#[test]
fn the_longest_prefix_wins() {
    let packets = [DST, "20010db8000100000000000000000001", "fe800000000000000000000000000001"]
        .map(|d| hex(&ip6(17, 9, d, &[])))
        .join(", ");
    let mut b = bench(&format!(
        "Feed({packets}) -> GetIP6Address(24) -> r :: LookupIP6Route(2001:db8::/32 0, 2001:db8:1::/48 2001:db8::5 1) -> a :: Catch; r[1] -> b :: Catch"
    ));
    assert_eq!((b.at("a").len(), b.at("b").len(), b.drops(2)), (1, 1, vec![0, 1]));
    assert_eq!(b.read("r.lookup", "2001:db8:1::7"), "1 2001:db8::5");
    assert_eq!(b.write("r.ctrl", "add ::/0 1"), "");
    assert_eq!(b.read("r.lookup", "fe80::1"), "1");
    assert_eq!(b.write("r.remove", "2001:db8:1::/48"), "");
    assert_eq!(b.read("r.lookup", "2001:db8:1::7"), "0");
    assert!(b.write("r.add", "::/0 7").contains("out of range"));
}

#[test]
fn neighbours_find_each_other() {
    let packets = [DST, DST].map(|d| hex(&ip6(17, 9, d, &[1]))).join(", ");
    let mut b = bench(&format!(
        "Feed({packets}) -> CheckIP6Header -> s :: IP6NDSolicitor(2001:db8::1, 0:0:0:0:0:1, TIMEOUT 0) -> g :: Catch;
         s[1] -> t :: Tee(2) -> IP6NDAdvertiser(2001:db8:0:2::/64 0:0:0:0:0:2) -> u :: Tee(2) -> [1]s; t[1] -> q :: Catch; u[1] -> a :: Catch;"
    ));
    let asked = b.at("q").remove(0);
    assert!(is_sound_icmp(&asked[14..]));
    assert_eq!((asked[..6].to_vec(), &asked[54..55]), (unhex("3333ff000002"), &[135][..]));
    assert!(is_sound_icmp(&b.at("a")[0][14..]));
    let sent = b.at("g");
    assert_eq!((sent.len(), sent[0][..14].to_vec()), (2, unhex("000000000002 000000000001 86dd")));
    assert!(b.read("s.table", "").starts_with("2001:db8:0:2::2 1 00-00-00-00-00-02"));
    assert!(b.read("s.stats", "").contains("1 neighbor solicitations sent"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn nothing_that_comes_makes_them_fail(packets: Vec<Vec<u8>>, cut in 0..120usize, at in 0..90usize, byte: u8, kind in prop::sample::select(vec![1u8, 128, 135, 136])) {
        let mut frame = [&unhex("000000000002 000000000001 86dd")[..], &ip6(58, 255, DST, &[kind, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0])].concat();
        let place = at % frame.len();
        frame[place] = byte;
        let packets = packets.into_iter().chain([frame[..cut.min(frame.len())].to_vec(), frame]);
        let packets: Vec<String> = packets.map(|p| hex(&p)).collect();
        bench(&format!(
            "Feed({}) -> t :: Tee(3) -> MarkIP6Header(14) -> GetIP6Address(38) -> DecIP6HLIM -> IP6Fragmenter(1280) -> p :: ICMP6PingResponder -> Discard;
             p[1] -> ICMP6Error(::2, 4, 2) -> l :: LookupIP6Route(::/0 0) -> Discard;
             t[2] -> c :: CheckIP6Header(OFFSET 14) -> s :: IP6NDSolicitor(::5, 0:0:0:0:0:1, CAPACITY 2) -> Discard; c[1] -> ICMP6Error(::2, 137, 0) -> Discard;
             t[1] -> v :: Tee(2) -> IP6NDAdvertiser(::/0 0:0:0:0:0:2) -> Discard; v[1] -> [1]s;",
            packets.join(", ")
        ));
    }
}
