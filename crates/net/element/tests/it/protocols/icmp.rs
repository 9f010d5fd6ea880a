use proptest::prelude::*;

use super::bench::{bench, hex, ip, is_sound, try_bench};

fn echo(data: &[u8]) -> Vec<u8> {
    let mut message = vec![8, 0, 0, 0, 0x12, 0x34, 0, 1];
    message.extend(data);
    let sum = wire::checksum::of(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ip(1, 3, &[], &message)
}

fn udp(data: &[u8]) -> Vec<u8> {
    let length = 8 + data.len() as u16;
    let head = [0x10, 0, 0x20, 0, (length >> 8) as u8, length as u8, 0, 0];
    ip(17, 9, &[], &[&head[..], data].concat())
}

fn tcp(data: &[u8]) -> Vec<u8> {
    let mut head = [0; 20];
    (head[0], head[2], head[7], head[11], head[12]) = (1, 2, 3, 4, 0x50);
    ip(6, 9, &[], &[&head[..], data].concat())
}

#[test]
fn a_ping_is_answered() {
    let mut b = bench(&format!(
        "Feed({}, {}) -> CheckIPHeader -> CheckICMPHeader -> p :: ICMPPingResponder -> CheckIPHeader -> CheckICMPHeader -> g :: Catch; p[1] -> x :: Catch",
        hex(&echo(b"data")),
        hex(&{
            let mut reply = echo(b"data");
            reply[20] = 0;
            let sum = wire::checksum::update(u16::from_be_bytes([reply[22], reply[23]]), 0x0800, 0);
            reply[22..24].copy_from_slice(&sum.to_be_bytes());
            reply
        })
    ));
    let answer = b.at("g").remove(0);
    assert!(is_sound(&answer) && answer[12..20] == [10, 0, 1, 2, 10, 0, 0, 1]);
    assert_eq!((answer[8], answer[20], &answer[28..]), (255, 0, &b"data"[..]));
    assert_eq!(b.at("x").len(), 1);
    let passed = b.caught().into_iter().find(|c| c.at == "g").expect("answered");
    assert_eq!(passed.annotations.area[..4], [10, 0, 0, 1]);
}

#[test]
fn senders_are_told_of_errors_with_the_start_of_their_packet() {
    let long = ip(17, 1, &[], &[7; 1000]);
    let mut b = bench(&format!(
        "Feed({}) -> MarkIPHeader -> t :: Tee(3) -> ICMPError(9.9.9.9, timeexceeded) -> CheckIPHeader -> CheckICMPHeader -> a :: Catch;
         t[1] -> ICMPError(9.9.9.9, unreachable, needfrag, PMTU 1400, MTU 100) -> b :: Catch;
         t[2] -> SetIPAddress(5.5.5.5) -> e :: ICMPError(9.9.9.9, redirect, host) -> FixIPSrc(8.8.8.8) -> CheckIPHeader -> CheckICMPHeader -> c :: Catch;",
        hex(&long)
    ));
    let a = b.at("a").remove(0);
    assert_eq!((a.len(), a[9], &a[12..22]), (576, 1, &[9, 9, 9, 9, 10, 0, 0, 1, 11, 0][..]));
    assert_eq!(a[28..], long[..548]);
    let frag = b.at("b").remove(0);
    assert_eq!((frag.len(), &frag[20..22], &frag[26..28]), (100, &[3, 4][..], &[5, 0x78][..]));
    let redirect = b.at("c").remove(0);
    assert_eq!(
        (&redirect[12..16], &redirect[20..22], &redirect[24..28]),
        (&[8; 4][..], &[5, 1][..], &[5; 4][..])
    );
    assert_eq!(b.read("e.src", ""), "9.9.9.9");
}

#[test]
fn errors_are_not_answered_nor_fragments_nor_groups() {
    let error = ip(1, 9, &[], &[3, 1, 0, 0, 0, 0, 0, 0]);
    let mut later = udp(b"x");
    later[7] = 1;
    let mut group = udp(b"x");
    group[16] = 224;
    let mut nobody = udp(b"x");
    nobody[12] = 0;
    let packets = [error, later, group, nobody].map(|p| hex(&p)).join(", ");
    let mut b =
        bench(&format!("Feed({packets}) -> MarkIPHeader -> ICMPError(9.9.9.9, unreachable) -> g :: Catch"));
    assert!(b.at("g").is_empty());
    assert_eq!(b.drops(2), [4, 0]);
    assert!(
        try_bench("Idle -> ICMPError(1.1.1.1, 8) -> Discard")
            .err()
            .expect("refused")
            .contains("not an error type")
    );
}

#[test]
fn a_source_route_is_taken_back() {
    let route = [131, 11, 12, 1, 1, 1, 1, 2, 2, 2, 2, 0];
    let mut b = bench(&format!(
        "Feed({}) -> MarkIPHeader -> ICMPError(9.9.9.9, unreachable) -> CheckIPHeader -> CheckICMPHeader -> g :: Catch",
        hex(&ip(17, 9, &route, &[1; 8]))
    ));
    assert_eq!(b.at("g")[0][20..32], [131, 11, 4, 2, 2, 2, 2, 1, 1, 1, 1, 0]);
}

#[test]
fn checksums_are_set_and_checked() {
    let packets = [udp(b"odd"), tcp(b"odd")].map(|p| hex(&p)).join(", ");
    let mut b = bench(&format!(
        "Feed({packets}) -> CheckIPHeader -> Paint(0) -> u :: CheckTCPHeader(DETAILS true) -> x :: Catch;
         u[1] -> t :: Tee(2) -> SetUDPChecksum -> CheckUDPHeader -> IPMirror -> CheckIPHeader -> cu :: CheckUDPHeader -> a :: Catch;
         t[1] -> SetTCPChecksum -> CheckTCPHeader -> IPMirror -> CheckIPHeader -> CheckTCPHeader -> b :: Catch;"
    ));
    assert_eq!((b.at("x").len(), b.at("a").len(), b.at("b").len()), (0, 1, 1));
    assert_eq!(b.read("u.drop_details", ""), "1\tnot TCP\n0\tbad packet length\n1\tbad TCP checksum\n");
    let mirrored = b.at("a").remove(0);
    assert_eq!(
        (&mirrored[12..20], &mirrored[20..24]),
        (&[10, 0, 1, 2, 10, 0, 0, 1][..], &[0x20, 0, 0x10, 0][..])
    );
}

#[test]
fn checksums_that_a_nic_would_set_are_set() {
    let wrong = |packet: Vec<u8>, checksum: usize| {
        let mut packet = packet;
        for at in [10, checksum] {
            packet[at] ^= 0x55;
        }
        hex(&packet)
    };
    let packets = [wrong(udp(b"odd"), 26), wrong(tcp(b"odd"), 36)].join(", ");
    let mut b = bench(&format!(
        "Feed({packets}) -> MarkIPHeader -> t :: Tee(2) -> ResetIPChecksum(L4 true) -> CheckIPHeader
         -> c :: IPClassifier(udp, tcp) -> CheckUDPHeader -> a :: Catch; c[1] -> CheckTCPHeader -> b :: Catch;
         t[1] -> ResetIPChecksum -> CheckIPHeader -> d :: IPClassifier(udp, tcp) -> u :: CheckUDPHeader -> e :: Catch;
         d[1] -> v :: CheckTCPHeader -> f :: Catch;
         Feed(\\<45>) -> g :: ResetIPChecksum -> h :: Catch;"
    ));
    assert_eq!([b.at("a").len(), b.at("b").len(), b.at("h").len()], [1, 1, 0]);
    assert_eq!([b.at("e").len(), b.at("f").len()], [0, 0], "TCP and UDP are left as they are");
    assert_eq!([b.read("u.drops", ""), b.read("v.drops", ""), b.read("g.drops", "")], ["1", "1", "1"]);
}

#[test]
fn payloads_get_headers() {
    let mut b = bench(
        "Feed(odd) -> u :: UDPIPEncap(1.0.0.1, 1234, 2.0.0.2, 80) -> CheckIPHeader -> CheckUDPHeader -> a :: Catch;
         Feed(ping) -> ICMPPingEncap(1.0.0.1, 2.0.0.2, IDENTIFIER 7) -> CheckIPHeader -> CheckICMPHeader -> ICMPPingResponder -> b :: Catch;
         Feed(x) -> SetIPAddress(3.3.3.3) -> e :: IPEncap(tcp, 1.0.0.1, DST_ANNO, DSCP 10, DF true, TTL 9) -> CheckIPHeader -> SetIPDSCP(46) -> SetIPECN(ect1)
         -> MarkIPCE -> CheckIPHeader -> c :: Catch;
         Feed(x) -> IPEncap(1, 1.0.0.1, 2.0.0.2) -> m :: MarkIPCE -> Discard;",
    );
    assert_eq!(b.at("a")[0][28..], b"odd"[..]);
    assert_eq!(b.at("a")[0][20..24], [4, 210, 0, 80]);
    assert_eq!(b.at("b")[0][28..], b"ping"[..]);
    let plain = b.at("c").remove(0);
    assert_eq!(
        (plain[1], plain[6], plain[8], plain[9], &plain[16..20]),
        (46 << 2 | 3, 0x40, 9, 6, &[3; 4][..])
    );
    assert_eq!(
        (b.read("e.dst", ""), b.read("u.dport", ""), b.read("m.drops", "")),
        ("DST_ANNO".into(), "80".into(), "1".into())
    );
}

#[test]
fn fragments_become_whole_again_in_any_order() {
    let payload: Vec<u8> = (0..3000u32).map(|i| (i * 7) as u8).collect();
    let whole = ip(17, 9, &[], &payload);
    let pieces = |order: &[usize]| -> Vec<String> {
        let piece = |i: usize| {
            let (start, end) = (i * 504, payload.len().min((i + 1) * 504));
            let mut fragment = ip(17, 9, &[], &payload[start..end]);
            let more = if end < payload.len() { 0x2000 } else { 0 };
            fragment[6..8].copy_from_slice(&((start / 8) as u16 | more).to_be_bytes());
            fragment[10..12].fill(0);
            let sum = wire::checksum::of(&fragment[..20]);
            fragment[10..12].copy_from_slice(&sum.to_be_bytes());
            hex(&fragment)
        };
        order.iter().map(|i| piece(*i)).collect()
    };
    for order in [&[0, 1, 2, 3, 4, 5][..], &[5, 4, 3, 2, 1, 0], &[2, 0, 2, 5, 1, 1, 4, 3]] {
        let mut b = bench(&format!(
            "Feed({}) -> CheckIPHeader -> r :: IPReassembler -> CheckIPHeader -> g :: Catch",
            pieces(order).join(", ")
        ));
        assert_eq!(b.at("g"), std::slice::from_ref(&whole), "{order:?}");
        assert_eq!((b.read("r.length", ""), b.read("r.memory", "")), ("0".into(), "0".into()));
    }
    let mut b = bench(&format!(
        "Feed({}) -> CheckIPHeader -> r :: IPReassembler(HIMEM 4000) -> g :: Catch; r[1] -> x :: Catch",
        pieces(&[0, 1, 2, 3, 4]).join(", ")
    ));
    // The rest of it waits in vain; nobody is told, since its beginning went before.
    assert_eq!((b.at("g").len(), b.at("x").len(), b.read("r.memory", "")), (0, 1, "0".into()));
}

/// A fragment of a packet with these options, from its place in the payload on.
fn fragment(options: &[u8], at: usize, more: bool, payload: &[u8]) -> Vec<u8> {
    let mut bytes = ip(17, 9, options, payload);
    let word = (at / 8) as u16 | if more { 0x2000 } else { 0 };
    bytes[6..8].copy_from_slice(&word.to_be_bytes());
    bytes[10..12].fill(0);
    let sum = wire::checksum::of(&bytes[..20 + options.len()]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}

#[test]
fn a_packet_longer_than_its_length_field_can_say_is_dropped() {
    let reassembled = |options: &[u8], length: usize| {
        let end = |at: usize| (at + 1504).min(length);
        let piece = |at: usize| {
            let options = if at == 0 { options } else { &[] };
            hex(&fragment(options, at, end(at) < length, &vec![at as u8; end(at) - at]))
        };
        let pieces: Vec<String> = (0..length).step_by(1504).map(piece).collect();
        let mut b = bench(&format!(
            "Feed({}) -> CheckIPHeader -> r :: IPReassembler -> g :: Catch",
            pieces.join(", ")
        ));
        (b.at("g"), b.drops(2), b.read("r.memory", ""))
    };
    let (whole, ..) = reassembled(&[], 65_515);
    assert_eq!((whole[0].len(), &whole[0][2..4]), (65_535, &[0xFF, 0xFF][..]));
    // Only the first fragment has all the options, so the others' offsets do not tell.
    let (whole, drops, memory) = reassembled(&[1; 40], 65_515);
    assert!(whole.is_empty(), "length field {:?} of {} bytes", &whole[0][2..4], whole[0].len());
    assert_eq!((drops, memory), (vec![0, 0, 0, 0, 0, 1, 0], "0".into()));
    let (whole, drops, _) = reassembled(&[], 65_520);
    assert_eq!((whole.len(), drops), (0, vec![0, 0, 0, 0, 0, 2, 0]), "the beginning, and what is too long");
}

#[test]
fn a_fragment_is_not_cut_where_its_offset_would_wrap() {
    let at = |at: usize| {
        let bytes = fragment(&[], at, true, &[7; 200]);
        let mut b =
            bench(&format!("Feed({}) -> MarkIPHeader -> IPFragmenter(100) -> g :: Catch", hex(&bytes)));
        let places: Vec<u16> = b.at("g").iter().map(|f| u16::from_be_bytes([f[6], f[7]])).collect();
        (places, b.drops(2))
    };
    assert_eq!(at(65_328), (vec![0x3FE6, 0x3FF0, 0x3FFA], vec![0, 0, 0, 0]));
    for beyond in [65_520, 65_344] {
        assert_eq!(at(beyond), (vec![], vec![0, 0, 0, 1]), "{beyond}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn nothing_that_comes_makes_them_fail(packets: Vec<Vec<u8>>, kind in 0..4usize, cut in 0..60usize, at in 0..60usize, byte: u8) {
        let mut one = [udp(b"abcdefgh"), tcp(b"abc"), echo(b"abc"), ip(17, 9, &[131, 7, 4, 1, 2, 3, 4, 0], &[1; 9])][kind].clone();
        let place = at % one.len();
        one[place] = byte;
        let packets = packets.into_iter().chain([one[..cut.min(one.len())].to_vec(), one]);
        let packets: Vec<String> = packets.map(|p| hex(&p)).collect();
        bench(&format!(
            "Feed({}) -> MarkIPHeader -> t :: Tee(5) -> IPReassembler -> IPMirror -> SetTCPChecksum(true) -> Discard;
             t[1] -> SetUDPChecksum -> CheckUDPHeader -> MarkIPCE(true) -> SetIPDSCP(3) -> SetIPECN(ce) -> Discard;
             t[2] -> p :: ICMPPingResponder -> CheckICMPHeader -> Discard; p[1] -> c :: CheckTCPHeader -> Discard; c[1] -> SetIPChecksum -> Discard;
             t[3] -> ICMPError(1.1.1.1, parameterproblem, MTU 20) -> CheckIPHeader -> CheckICMPHeader -> Discard;
             t[4] -> SetRandIPAddress(10.0.0.0/8, 3) -> UDPIPEncap(1.1.1.1, 1, DST_ANNO, 2) -> IPEncap(4, 1.1.1.1, 2.2.2.2) -> ICMPPingEncap(1.1.1.1, 2.2.2.2) -> Discard;",
            packets.join(", ")
        ));
    }
}

#[test]
fn pings_are_sent_and_their_answers_measured() {
    let mut b = try_bench(
        "p :: ICMPPingSource(1.0.0.1, 2.0.0.2, LIMIT 3, DATA hello, INTERVAL 0.1)
        -> CheckIPHeader -> CheckICMPHeader -> t :: Tee(2) -> ICMPPingResponder -> p; t[1] -> g :: Catch",
    )
    .expect("a configuration");
    for _ in 0..10 {
        b.step();
    }
    assert_eq!(b.at("g").len(), 3);
    assert_eq!(b.at("g")[2][28..], b"hello"[..]);
    assert!(
        b.read("p.summary", "")
            .starts_with("3 packets transmitted, 3 received, 0% packet loss\nrtt min/avg/max/mdev = 0.")
    );
    assert!(
        b.printed().contains("p :: ICMPPingSource: 5 bytes from 2.0.0.2: icmp_seq=1 ttl=255 time=0."),
        "{}",
        b.printed()
    );
}

#[test]
fn datagrams_are_made_at_a_rate() {
    let mut b = try_bench(
        "s :: FastUDPSource(1000, 5, 64, 0:0:0:0:0:1, 1.0.0.1, 1, 0:0:0:0:0:2, 2.0.0.2, 2)
        -> CheckIPHeader(14) -> CheckUDPHeader -> u :: Unqueue -> SetTimestamp -> g :: Catch",
    )
    .expect("a configuration");
    for _ in 0..10 {
        b.step();
    }
    assert_eq!((b.at("g").len(), b.read("s.count", "")), (5, "5".into()));
    let stamps: Vec<i64> = b.caught().iter().map(|c| c.annotations.timestamp_ns).collect();
    assert!(stamps[4] - stamps[0] >= 3_900_000, "{stamps:?}");
}
