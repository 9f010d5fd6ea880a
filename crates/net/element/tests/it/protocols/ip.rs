use memory::annotation::AREA;
use proptest::prelude::*;

use super::bench::{bench, hex, ip, is_sound, try_bench};

#[test]
fn sound_packets_pass_and_bad_ones_are_told_apart() {
    let good = ip(17, 64, &[], &[1; 30]);
    let padded = [&good[..], &[0; 6]].concat();
    let mut version = good.clone();
    version[0] = 0x65;
    let mut header_len = good.clone();
    header_len[0] = 0x44;
    let mut sum = good.clone();
    sum[10] ^= 1;
    let bad = [&good[..19], &version, &header_len, &good[..40], &sum];
    let bad = bad.map(hex).join(", ");
    let mut b = bench(&format!(
        "Feed({}, {bad}) -> c :: CheckIPHeader(DETAILS true) -> g :: Catch; c[1] -> b :: Catch",
        hex(&padded)
    ));
    assert_eq!(b.at("g"), [good]);
    assert_eq!(b.at("b").len(), 5);
    assert_eq!(b.read("c.drops", ""), "5");
    let details = "1\ttiny packet\n1\tbad IP version\n1\tbad IP header length\n1\tbad IP length\n\
                   1\tbad IP checksum\n0\tbad source address\n";
    assert_eq!(b.read("c.drop_details", ""), details);
    assert!(b.printed().contains("c: IP header check failed: tiny packet"), "{}", b.printed());
    let mut caught = b.caught();
    caught.retain(|c| c.at == "g");
    assert_eq!((caught[0].network, caught[0].transport), (Some(0), Some(20)));
    assert_eq!(caught[0].annotations.area[..4], [10, 0, 1, 2]);
}

#[test]
fn broadcast_addresses_are_no_sources() {
    let good = ip(17, 64, &[], &[]);
    for (config, passes) in [
        ("INTERFACES 10.0.0.7/24", 1),
        ("INTERFACES 10.0.0.1/32", 0),
        ("BADSRC 10.0.0.1", 0),
        ("BADSRC 10.0.0.1, GOODDST 10.0.1.2", 1),
        ("10.0.0.1 1.2.3.4, 0", 0),
        ("0", 1),
    ] {
        let mut b = bench(&format!("Feed({}) -> CheckIPHeader({config}) -> g :: Catch", hex(&good)));
        assert_eq!(b.at("g").len(), passes, "{config}");
    }
}

#[test]
fn headers_are_stripped_and_come_back() {
    let frame = [&[7; 14][..], &ip(17, 64, &[], &[1, 2, 3])].concat();
    let mut b = bench(&format!(
        "Feed({}) -> MarkIPHeader(14) -> n :: StripToNetworkHeader -> StripIPHeader -> t :: Tee
         -> a :: Catch; t[1] -> UnstripIPHeader -> b :: Catch;",
        hex(&frame)
    ));
    assert_eq!((b.at("a"), b.at("b")), (vec![vec![1, 2, 3]], vec![frame[14..].to_vec()]));
}

#[test]
fn a_hop_is_taken_and_the_checksum_stays_right() {
    let packets =
        [ip(17, 2, &[], &[]), ip(17, 1, &[], &[]), ip(17, 255, &[], &[])].map(|p| hex(&p)).join(", ");
    let mut b =
        bench(&format!("Feed({packets}) -> MarkIPHeader -> d :: DecIPTTL -> g :: Catch; d[1] -> x :: Catch"));
    let passed = b.at("g");
    assert!(passed.iter().all(|p| is_sound(p)));
    assert_eq!((passed[0][8], passed[1][8], b.at("x")[0][8]), (1, 254, 1));
    assert_eq!((b.read("d.drops", ""), b.read("d.active", "")), ("1".into(), "true".into()));
    let mut b = bench(&format!("Feed({packets}) -> d :: DecIPTTL -> g :: Catch"));
    assert!(b.at("g").is_empty(), "nobody found a header");
    assert_eq!(b.drops(1), [0, 3]);
}

#[test]
fn colours_tell_packets_apart() {
    let mut b = bench(
        "Feed(a) -> Paint(1) -> s :: PaintSwitch; Feed(b) -> Paint(2) -> s; Feed(c) -> Paint(255) -> s;
         Feed(d) -> p :: Paint(9) -> s;
         s[0] -> x :: Catch; s[1] -> y :: Catch;
         s[2] -> t :: PaintTee(2) -> k :: CheckPaint(2) -> z :: Catch; t[1] -> copy :: Catch; k[1] -> no :: Catch;",
    );
    let at = |b: &mut super::bench::Bench, name: &str| b.at(name).concat();
    assert_eq!((at(&mut b, "x"), at(&mut b, "y")), (b"c".to_vec(), b"ac".to_vec()));
    assert_eq!(
        (at(&mut b, "z"), at(&mut b, "copy"), at(&mut b, "no")),
        (b"b".to_vec(), b"b".to_vec(), b"c".to_vec())
    );
    assert_eq!(b.write("p.color", "7"), "");
    assert_eq!(b.read("p.color", ""), "7");
    assert!(b.write("p.color", "256").contains("expected"));
}

#[test]
fn options_are_acted_on() {
    let record = [7, 7, 4, 0, 0, 0, 0, 0];
    let full = [7, 7, 8, 1, 2, 3, 4, 0];
    let stamp = [68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let overflow = [68, 8, 9, 0x10, 1, 2, 3, 4];
    let broken = [7, 9, 4, 0];
    let packets =
        [&record[..], &full, &stamp, &overflow, &broken].map(|o| hex(&ip(17, 9, o, &[5]))).join(", ");
    let mut b = bench(&format!(
        "Feed({packets}) -> CheckIPHeader -> o :: IPGWOptions(9.8.7.6) -> g :: Catch; o[1] -> x :: Catch"
    ));
    let passed = b.at("g");
    assert!(passed.len() == 4 && passed.iter().all(|p| is_sound(p)));
    assert_eq!(passed[0][20..28], [7, 7, 8, 9, 8, 7, 6, 0]);
    assert_eq!(passed[1][20..28], full);
    assert_eq!(passed[2][22..28], [13, 1, 9, 8, 7, 6]);
    assert_eq!(passed[3][23], 0x20);
    let caught = b.caught();
    assert_eq!(caught.iter().find(|c| c.at == "x").expect("bad").annotations.area[17], 21);
}

#[test]
fn long_packets_are_sent_in_fragments_that_add_up() {
    let copied = [0x94, 4, 0, 0];
    let payload: Vec<u8> = (0..600).map(|i| i as u8).collect();
    let whole = ip(17, 9, &[&[7, 3, 4, 1][..], &copied].concat(), &payload);
    let mut b =
        bench(&format!("Feed({}) -> CheckIPHeader -> f :: IPFragmenter(100) -> g :: Catch", hex(&whole)));
    let mut together: Vec<u8> = vec![];
    let fragments = b.at("g");
    for (i, fragment) in fragments.iter().enumerate() {
        let view = wire::ipv4::Packet::new_checked(&fragment[..]).expect("sound");
        assert!(view.verify_checksum() && fragment.len() <= 100 && view.total_len() == fragment.len());
        assert_eq!(usize::from(view.fragment_offset()), together.len());
        assert_eq!(view.more_fragments(), i + 1 < fragments.len());
        assert_eq!(view.options().len(), if i == 0 { 8 } else { 4 });
        together.extend(view.payload());
    }
    assert_eq!(together, payload);
    assert_eq!(b.read("f.fragments", ""), fragments.len().to_string());
}

#[test]
fn packets_may_forbid_fragments() {
    let mut whole = ip(17, 9, &[], &[1; 200]);
    whole[6] = 0x40;
    let config = |more| {
        format!(
            "Feed({}) -> MarkIPHeader -> f :: IPFragmenter(100{more}) -> g :: Catch; f[1] -> x :: Catch",
            hex(&whole)
        )
    };
    let mut b = bench(&config(""));
    assert_eq!((b.at("g").len(), b.at("x").len(), b.read("f.drops", "")), (0, 1, "1".into()));
    assert!(b.printed().contains("IPFragmenter(100) DF 10.0.0.1 10.0.1.2 len=220"), "{}", b.printed());
    let mut b = bench(&config(", false"));
    assert_eq!((b.at("g").len(), b.at("x").len()), (3, 0));
    assert!(b.at("g").iter().all(|f| f[6] & 0x40 == 0));
}

#[test]
fn addresses_go_between_packets_and_annotations() {
    let packet = ip(17, 9, &[], &[0x10, 0, 0x20, 0, 0, 8, 0xAB, 0xCD]);
    let mut b = bench(&format!(
        "Feed({}) -> MarkIPHeader -> GetIPAddress(IP src) -> StoreIPAddress(dst) -> SetIPAddress(1.2.3.4)
         -> StoreIPAddress(0) -> StoreIPAddress(9.9.9.9, 4) -> s :: StoreIPAddress(100) -> g :: Catch;
         s[1] -> x :: Catch",
        hex(&packet)
    ));
    let stored = b.at("x").remove(0);
    assert_eq!((&stored[..8], &stored[16..20]), (&[1, 2, 3, 4, 9, 9, 9, 9][..], &[10, 0, 0, 1][..]));
    // UDP's checksum changed as the sum of the addresses did.
    let before = wire::checksum::combine(wire::checksum::sum(&packet[12..20]), 0xABCD);
    let after = wire::checksum::combine(
        wire::checksum::sum(&stored[12..20]),
        u16::from_be_bytes([stored[26], stored[27]]),
    );
    assert_eq!(before, after);
    assert!(
        try_bench("Idle -> GetIPAddress -> Discard")
            .err()
            .expect("refused")
            .contains("set one of OFFSET, IP")
    );
}

#[test]
fn a_source_is_filled_in_where_it_is_asked_for() {
    let mut b = bench(&format!(
        "p :: Paint(0, FIX_IP_SRC); Feed({}) -> MarkIPHeader -> p -> FixIPSrc(7.7.7.7) -> g :: Catch;
         Feed({}) -> MarkIPHeader -> Paint(1, FIX_IP_SRC) -> FixIPSrc(7.7.7.7) -> h :: Catch",
        hex(&ip(1, 1, &[], &[])),
        hex(&ip(1, 1, &[], &[]))
    ));
    assert_eq!(b.at("g")[0], ip(1, 1, &[], &[]));
    let fixed = b.at("h").remove(0);
    assert!(is_sound(&fixed) && fixed[12..16] == [7; 4]);
}

#[test]
fn places_outside_the_area_are_refused() {
    let said = try_bench(&format!("Idle -> Paint(1, {AREA}) -> Discard")).err().expect("refused");
    assert!(said.contains("ANNO"), "{said}");
    assert!(try_bench(&format!("Idle -> Paint(1, {}) -> Discard", AREA - 1)).is_ok());
}

/// All elements of the folder in a row, and around each.
const ALL: &str = "-> c :: CheckIPHeader2(VERBOSE true) -> GetIPAddress(16) -> IPGWOptions(1.1.1.1) -> FixIPSrc(1.1.1.1)
    -> DecIPTTL -> IPFragmenter(64, false) -> StoreIPAddress(src) -> DropBroadcasts -> StripIPHeader
    -> UnstripIPHeader -> Discard; c[1] -> MarkIPHeader(1) -> Paint(1) -> StoreIPAddress(1.1.1.1, dst) -> FixIPSrc(1.1.1.1)
    -> IPGWOptions(2.2.2.2) -> DecIPTTL -> GetIPAddress(IP dst) -> StripToNetworkHeader
    -> IPFragmenter(40, false) -> StripIPHeader -> UnstripIPHeader -> r :: RadixIPLookup(0/0 0, 10/8 1.1.1.1 1) -> Discard; r[1] -> Discard;";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn nothing_that_comes_makes_them_fail(packets: Vec<Vec<u8>>, cut in 0..120usize, options in prop::collection::vec(any::<u8>(), 0..10)) {
        let options: Vec<u8> = options.iter().copied().cycle().take(options.len() * 4).collect();
        let whole = ip(17, 9, &options, &[3; 80]);
        let packets = packets.into_iter().chain([whole[..cut.min(whole.len())].to_vec(), whole]);
        let packets: Vec<String> = packets.map(|p| hex(&p)).collect();
        bench(&format!("Feed({}) {ALL}", packets.join(", ")));
    }
}
