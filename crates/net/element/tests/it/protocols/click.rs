//! What Click makes of the same packets, byte by byte.

use super::bench::{bench, hex, ip, unhex};

#[test]
fn options_are_copied_into_fragments_or_not() {
    for (whole, first, second) in [
        (
            "4600002c 00000000 64063482 121a042c 0a000004 01010000 001e0028 00000000 00000000 50000000 8f550000",
            "46000028 00002000 64061486 121a042c 0a000004 01010000 001e0028 00000000 00000000 50000000",
            "45000018 00000002 64063695 121a042c 0a000004 8f550000",
        ),
        (
            "4600002c 00000000 64063383 121a042c 0a000004 02000000 001e0028 00000000 00000000 50000000 8f550000",
            "46000028 00002000 64061387 121a042c 0a000004 02000000 001e0028 00000000 00000000 50000000",
            "45000018 00000002 64063695 121a042c 0a000004 8f550000",
        ),
    ] {
        let mut b = bench(&format!(
            "Feed({}) -> MarkIPHeader -> IPFragmenter(40, HONOR_DF false) -> g :: Catch",
            hex(&unhex(whole))
        ));
        assert_eq!(b.at("g"), [unhex(first), unhex(second)]);
    }
}

#[test]
fn addresses_are_stored_with_their_checksums() {
    for (config, wanted) in [
        ("0", "01000002 99999999 99999999 99999999 99999999"),
        ("1.0.0.3, 4", "99999999 01000003 99999999 99999999 99999999"),
        ("src", "99999999 99999999 9999cbca 01000002 99999999"),
        ("dst", "99999999 99999999 9999cbca 99999999 01000002"),
        ("1.0.0.4, dst", "99999999 99999999 9999cbc8 99999999 01000004"),
    ] {
        let mut b = bench(&format!(
            "Feed({}) -> MarkIPHeader(0) -> SetIPAddress(1.0.0.2) -> StoreIPAddress({config}) -> g :: Catch",
            hex(&[0x99; 20])
        ));
        assert_eq!(b.at("g"), [unhex(wanted)], "{config}");
    }
}

/// The IP router of Click's paper, two ports, as far as these elements make it.
#[test]
fn the_papers_router_forwards_and_tells_of_what_it_cannot() {
    let frame = |packet: &[u8]| [&unhex("000000000001 0000000000aa 0800")[..], packet].concat();
    let to = |last: u8, ttl: u8| {
        let mut packet = ip(17, ttl, &[], &[last; 26]);
        packet[18] = last;
        packet[10..12].fill(0);
        let sum = wire::checksum::of(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        frame(&packet)
    };
    let frames = [to(1, 9), to(2, 9), to(2, 1), to(9, 9), to(1, 9)].map(|f| hex(&f)).join(", ");
    let port = |n: u8| {
        format!(
            "rt[{n}] -> DropBroadcasts -> cp{n} :: PaintTee({n}) -> gio{n} :: IPGWOptions(10.0.{n}.254) -> FixIPSrc(10.0.{n}.254)
             -> dt{n} :: DecIPTTL -> fr{n} :: IPFragmenter(1500) -> EtherEncap(0x0800, 0:0:0:0:1:{n}, 0:0:0:0:2:{n}) -> out{n} :: Catch;
             dt{n}[1] -> ICMPError(10.0.{n}.254, timeexceeded) -> rt; fr{n}[1] -> ICMPError(10.0.{n}.254, unreachable, needfrag) -> rt;
             gio{n}[1] -> ICMPError(10.0.{n}.254, parameterproblem) -> rt; cp{n}[1] -> ICMPError(10.0.{n}.254, redirect, host) -> rt;"
        )
    };
    let mut b = bench(&format!(
        "rt :: StaticIPLookup(10.0.1.0/24 0, 10.0.2.0/24 1, 10.0.0.0/24 2);
         Feed({frames}) -> Paint(0) -> Strip(14) -> CheckIPHeader(INTERFACES 10.0.0.254/24 10.0.1.254/24) -> rt;
         {} {} {}",
        port(0), port(1), port(2)
    ));
    let hops = |b: &mut super::bench::Bench, name: &str| -> Vec<(u8, u8)> {
        b.at(name).iter().map(|f| (f[14 + 18], f[14 + 8])).collect()
    };
    assert_eq!(hops(&mut b, "out0"), [(1, 8), (1, 8)]);
    assert_eq!(hops(&mut b, "out1"), [(2, 8)]);
    // The sender hears of the packet that was too old, and twice of a shorter way.
    let told = b.at("out2");
    let kinds: Vec<u8> = told.iter().map(|f| f[14 + 20]).collect();
    assert_eq!(
        (kinds.iter().filter(|k| **k == 11).count(), kinds.iter().filter(|k| **k == 5).count()),
        (1, 2)
    );
    assert!(told.iter().all(|f| super::bench::is_sound(&f[14..]) && f[14 + 12..14 + 16] == [10, 0, 2, 254]));
    assert!(b.printed().contains("IPRouteTable: no route for 10.0.9.2"), "{}", b.printed());
}
