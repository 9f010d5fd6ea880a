//! IPv4 made IPv6 and back, as Click's translators do it, and IPv6 addresses made others.

use proptest::prelude::*;

use wire::checksum::{combine, is_right, never_zero, pseudo_header_v6, sum};
use wire::ip::{Protocol, checksum_offset};

use super::bench::{Bench, bench, hex, ip, is_sound, try_bench, unhex};

/// What Click makes of a datagram and of a ping from 1.0.0.1 to 2.0.0.2, each with `hello`.
const CLICKS: [(&str, &str, &str); 2] = [
    (
        "45000021 00000000 fa11bdc9 01000001 02000002 000a0014 000db8e1 68656c6c 6f",
        "60000000 000d113b 00000000 00000000 0000ffff 01000001 00000000 00000000 0000ffff 02000002 \
         000a0014 000db8e1 68656c6c 6f",
        "45000021 00004000 3b113cca 01000001 02000002 000a0014 000db8e1 68656c6c 6f",
    ),
    (
        "45000021 00010000 ff01b8d8 01000001 02000002 0800b42c 00000001 68656c6c 6f",
        "60000000 000d3a40 00000000 00000000 0000ffff 01000001 00000000 00000000 0000ffff 02000002 \
         800038e2 00000001 68656c6c 6f",
        "45000021 00004000 400137da 01000001 02000002 0800b42c 00000001 68656c6c 6f",
    ),
];

#[test]
fn packets_are_those_that_click_makes() {
    for (v4, v6, back) in CLICKS {
        let mut b = bench(&format!(
            "Feed({}) -> ProtocolTranslator46 -> t :: Tee(2) -> six :: Catch; \
             t[1] -> ProtocolTranslator64 -> four :: Catch",
            hex(&unhex(v4))
        ));
        assert_eq!((b.at("six"), b.at("four")), (vec![unhex(v6)], vec![unhex(back)]));
        let networks: Vec<_> = b.caught().iter().map(|c| (c.at.clone(), c.network, c.transport)).collect();
        assert!(networks.contains(&("six".into(), Some(0), Some(40))), "{networks:?}");
        assert!(networks.contains(&("four".into(), Some(0), Some(20))), "{networks:?}");
    }
}

#[test]
fn options_go_and_what_is_behind_the_packet() {
    let with_options = ip(17, 200, &[1, 1, 1, 1], &unhex("0001 0002 0009 0000 77"));
    let padded = [&with_options[..], &[0; 5]].concat();
    let mut b = bench(&format!("Feed({}) -> ProtocolTranslator46 -> six :: Catch", hex(&padded)));
    let six = b.at("six").remove(0);
    assert_eq!((six.len(), six[7], &six[48..]), (49, 9, &[0x77][..]));
    let view = wire::ipv6::Packet::new_checked(&six[..]).expect("an IPv6 packet");
    let datagram = wire::udp::Datagram::new_checked(view.payload()).expect("a datagram");
    assert!(datagram.verify_checksum(view.addresses()));
}

#[test]
fn what_has_no_counterpart_is_dropped_by_name() {
    let mut fragment = ip(17, 9, &[], &[0; 8]);
    fragment[6] = 0x20;
    let timestamp = ip(1, 9, &[], &[13; 20]);
    let short = ip(17, 9, &[], &[0; 8])[..19].to_vec();
    let packets = [&fragment[..], &timestamp, &short].map(hex).join(", ");
    let b = bench(&format!("Feed({packets}) -> ProtocolTranslator46 -> Discard"));
    assert_eq!(b.drops(1), [1, 0, 0, 2]);
    let global =
        unhex("60000000 0000113b 20010db8 00000000 00000000 00000001 00000000 00000000 0000ffff 02000002");
    let mut solicitation = unhex(CLICKS[1].1);
    solicitation[40] = 135;
    let packets = [&global[..], &solicitation, &global[..30]].map(hex).join(", ");
    let b = bench(&format!("Feed({packets}) -> ProtocolTranslator64 -> Discard"));
    assert_eq!(b.drops(1), [1, 1, 0, 1]);
}

/// An unreachable host's answer goes through with its quotation.
#[test]
fn errors_keep_what_they_quote() {
    let error = ip(1, 9, &[], &[&[3, 1, 0, 0, 0, 0, 0, 0][..], &[7; 28]].concat());
    let mut b = bench(&format!(
        "Feed({}) -> ProtocolTranslator46 -> t :: Tee(2) -> six :: Catch; \
         t[1] -> ProtocolTranslator64 -> four :: Catch",
        hex(&error)
    ));
    let (six, four) = (b.at("six").remove(0), b.at("four").remove(0));
    assert_eq!((&six[40..42], &six[48..]), (&[1, 0][..], &[7; 28][..]));
    assert_eq!((&four[20..22], &four[28..]), (&[3, 0][..], &[7; 28][..]));
    assert!(is_sound(&four) && wire::checksum::verify(&four[20..]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn nothing_that_comes_makes_them_fail(junk: Vec<u8>, cut in 0..70usize, at in 0..60usize, byte: u8) {
        let mut packets = vec![junk];
        for (v4, v6, _) in CLICKS {
            for bytes in [unhex(v4), unhex(v6)] {
                let mut changed = bytes.clone();
                let place = at % changed.len();
                changed[place] = byte;
                packets.extend([changed, bytes[..cut.min(bytes.len())].to_vec()]);
            }
        }
        let packets = packets.iter().map(|packet| hex(packet)).collect::<Vec<_>>().join(", ");
        bench(&format!(
            "Feed({packets}) -> t :: Tee(2) -> ProtocolTranslator46 -> CheckIP6Header -> Discard; \
             t[1] -> ProtocolTranslator64 -> CheckIPHeader -> Discard"
        ));
    }
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
/// Sends what comes from 2001::/16 out, and all else in.
const TWO_WAYS: &str = "c :: Classifier(8/2001, -); c[0] -> [0]at[0] -> out :: Catch; \
                        c[1] -> [1]at[1] -> back :: Catch; ";

/// The sum of a packet's upper layer and its pseudo header.
fn upper_sum(packet: &[u8]) -> u16 {
    let view = wire::ipv6::Packet::new_checked(packet).expect("an IPv6 packet");
    let length = view.payload().len() as u32;
    let pseudo = pseudo_header_v6(view.src(), view.dst(), view.next_header().0, length);
    combine(pseudo, sum(view.payload()))
}

/// An IPv6 packet with the right checksum; the payload has zero in its place.
fn six(protocol: u8, src: &str, dst: &str, payload: &[u8]) -> Vec<u8> {
    let address = |text: &str| text.parse::<std::net::Ipv6Addr>().expect("an address").octets();
    let mut packet = vec![0x60, 0, 0, 0, 0, payload.len() as u8, protocol, 64];
    packet.extend([address(src), address(dst)].concat());
    packet.extend(payload);
    let at = 40 + checksum_offset(Protocol(protocol)).expect("it has one");
    let checksum = never_zero(!upper_sum(&packet));
    packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    packet
}

fn udp(src: (&str, u16), dst: (&str, u16)) -> Vec<u8> {
    let ports = [src.1.to_be_bytes(), dst.1.to_be_bytes()].concat();
    six(UDP, src.0, dst.0, &[&ports[..], &[0, 9, 0, 0, 7]].concat())
}

fn echo(message_type: u8, identifier: u16, src: &str, dst: &str) -> Vec<u8> {
    let [high, low] = identifier.to_be_bytes();
    six(ICMPV6, src, dst, &[message_type, 0, 0, 0, high, low, 0, 1, 5])
}

fn translated(arguments: &str, packets: &[Vec<u8>]) -> Bench {
    // Each is a batch of its own, so that they come in their order.
    let feeds: String = packets.iter().map(|packet| format!("Feed({}) -> c; ", hex(packet))).collect();
    bench(&format!("at :: AddressTranslator({arguments}); {TWO_WAYS} {feeds}"))
}

#[test]
fn static_mappings_hold_for_all_protocols_and_both_ways() {
    let tcp = |src: &str, dst: &str| {
        six(TCP, src, dst, &[&[0, 1, 0, 2][..], &[0; 8], &[0x50, 2], &[0; 7]].concat())
    };
    let (inner, mapped, far) = ("2001:db8::2", "::1.0.0.1", "::9.9.9.9");
    let mut packets = vec![];
    let mut expected = (vec![], vec![]);
    for make in [
        &tcp as &dyn Fn(&str, &str) -> Vec<u8>,
        &|src, dst| udp((src, 1), (dst, 2)),
        &|src, dst| echo(128, 3, src, dst),
        &|src, dst| six(ICMPV6, src, dst, &[1, 4, 0, 0, 0, 0, 0, 0, 6]),
    ] {
        packets.extend([make(inner, far), make(far, mapped)]);
        expected.0.push(make(mapped, far));
        expected.1.push(make(far, inner));
    }
    packets.extend([udp(("2001::7", 1), (far, 2)), udp((far, 1), ("::1.0.0.2", 2))]);
    let mut b = translated("1, 0, 2001:db8::2 ::1.0.0.1, 0", &packets);
    assert_eq!((b.at("out"), b.at("back")), expected);
    assert_eq!((b.drops(0), b.read("at.table", "")), (vec![0, 0, 0, 0, 2], "2001:db8::2 ::1.0.0.1\n".into()));
    let caught = b.caught();
    let back = caught.iter().find(|caught| caught.at == "back").expect("one came");
    assert_eq!((back.network, back.transport), (Some(0), Some(40)));
    // A checksum that is wrong stays wrong, and none stays none.
    let mut wrong = udp((inner, 1), (far, 2));
    let mut none = wrong.clone();
    wrong[48] ^= 1;
    none[46..48].fill(0);
    let out = translated("1, 0, 2001:db8::2 ::1.0.0.1, 0", &[wrong, none]).at("out");
    assert!(!is_right(upper_sum(&out[0])) && out[1][46..48] == [0, 0]);
}

#[test]
fn static_mappings_of_ports_hold_for_their_ports() {
    let far = "::9.9.9.9";
    let packets = [
        udp(("2001:db8::2", 80), (far, 7)),
        udp(("2001:db8::2", 81), (far, 7)),
        udp((far, 7), ("::1.0.0.1", 8080)),
        udp((far, 7), ("::1.0.0.1", 80)),
        echo(128, 3, "2001:db8::2", far),
    ];
    let mut b = translated("2, true, 2001:db8::2 80 ::1.0.0.1 8080, 2001:db8::2 90 ::2 90, 0", &packets);
    assert_eq!(b.at("out"), [udp(("::1.0.0.1", 8080), (far, 7)), echo(128, 3, "::1.0.0.1", far)]);
    assert_eq!(b.at("back"), [udp((far, 7), ("2001:db8::2", 80))]);
    assert_eq!(b.drops(0), [0, 0, 0, 0, 2]);
    assert_eq!(b.read("at.table", ""), "2001:db8::2 80 ::1.0.0.1 8080\n2001:db8::2 90 ::0.0.0.2 90\n");
}

#[test]
fn hosts_are_given_addresses_from_either_side() {
    let far = "::9.9.9.9";
    let packets = [
        udp(("2001:db8::2", 1), (far, 2)),
        udp(("2001:db8::3", 1), (far, 2)),
        udp(("2001:db8::2", 5), (far, 2)),
        udp((far, 2), ("::1.0.0.1", 1)),
        udp((far, 2), ("::1.0.0.2", 1)),
    ];
    let mut b = translated("0, 1, 0, 0, ::1.0.0.1", &packets);
    assert_eq!(b.at("out"), [udp(("::1.0.0.1", 1), (far, 2)), udp(("::1.0.0.1", 5), (far, 2))]);
    assert_eq!(b.at("back"), [udp((far, 2), ("2001:db8::2", 1))]);
    assert_eq!((b.drops(0), b.read("at.table", "")), (vec![0, 0, 0, 1, 1], "2001:db8::2 ::1.0.0.1\n".into()));
    // From outside: those inside are the ones to give.
    let packets = ["::5.0.0.1", "::5.0.0.2", "::5.0.0.3"].map(|dst| udp((far, 2), (dst, 1)));
    let mut b = translated("0, 1, 0, 1, 2001::1, 2001::2, 2001::1", &packets);
    assert_eq!(b.at("back"), [udp((far, 2), ("2001::1", 1)), udp((far, 2), ("2001::2", 1))]);
    assert_eq!(b.drops(0), [0, 0, 0, 1, 0]);
    assert_eq!(b.read("at.table", ""), "2001::1 ::5.0.0.1\n2001::2 ::5.0.0.2\n");
}

#[test]
fn flows_are_given_ports_and_their_answers_come_back() {
    let (one, two, far) = ("2001:db8::2", "2001:db8::3", "::9.9.9.9");
    let gate = "::1.0.0.1";
    let packets = [
        udp((one, 1), (far, 53)),
        udp((two, 1), (far, 53)),
        echo(128, 77, one, far),
        udp((one, 1), (far, 53)),
        udp((one, 2), (far, 53)),
        six(ICMPV6, one, far, &[1, 4, 0, 0, 0, 0, 0, 0, 6]),
        udp((far, 53), (gate, 6001)),
        echo(129, 6002, far, gate),
        udp(("::9.9.9.8", 53), (gate, 6001)),
        udp((far, 54), (gate, 6001)),
        udp((far, 53), (gate, 6002)),
        udp((far, 53), (gate, 5999)),
        udp((far, 53), ("::1.0.0.2", 6001)),
    ];
    let mut b = translated("0, 1, 1, 0, ::1.0.0.1 6000 6002", &packets);
    let first = udp((gate, 6000), (far, 53));
    assert_eq!(b.at("out"), [first.clone(), udp((gate, 6001), (far, 53)), echo(128, 6002, gate, far), first]);
    assert_eq!(b.at("back"), [udp((far, 53), (two, 1)), echo(129, 77, far, one)]);
    assert_eq!(b.drops(0), [0, 0, 1, 1, 5]);
    let table = b.read("at.table", "");
    assert!(table.ends_with("2001:db8::2 77 ::1.0.0.1 6002 58 ::9.9.9.9\n"), "{table}");
    assert!(table.starts_with("2001:db8::2 1 ::1.0.0.1 6000 17 ::9.9.9.9 53\n"), "{table}");
}

#[test]
fn static_mappings_and_dynamic_ones_share_addresses() {
    let (server, host, far, gate) = ("2001:db8::2", "2001:db8::3", "::9.9.9.9", "::1.0.0.1");
    let packets = [
        udp((host, 5), (far, 53)),
        echo(128, 77, host, far),
        udp((far, 53), (gate, 80)),
        echo(129, 81, far, gate),
        udp((far, 54), (gate, 80)),
        echo(128, 9, far, gate),
        udp((server, 80), (far, 54)),
    ];
    let mut b = translated("1, 1, 2001:db8::2 80 ::1.0.0.1 80, 1, 1, 0, ::1.0.0.1 80 81", &packets);
    let out = [udp((gate, 80), (far, 53)), echo(128, 81, gate, far), udp((gate, 80), (far, 54))];
    let back = [
        udp((far, 53), (host, 5)),
        echo(129, 77, far, host),
        udp((far, 54), (server, 80)),
        echo(128, 9, far, server),
    ];
    assert_eq!((b.at("out"), b.at("back")), (out.to_vec(), back.to_vec()));
    assert!(b.read("at.table", "").starts_with("2001:db8::2 80 ::1.0.0.1 80\n2001:db8::3 5 ::1.0.0.1 80 17"));
    // Hosts are given no address that a static mapping has.
    let packets = [udp((host, 5), (far, 53)), udp((far, 53), (gate, 5)), udp((far, 53), ("::1.0.0.2", 5))];
    let mut b = translated("1, 0, 2001:db8::2 ::1.0.0.1, 1, 0, 0, ::1.0.0.1, ::1.0.0.2", &packets);
    assert_eq!(b.at("out"), [udp(("::1.0.0.2", 5), (far, 53))]);
    assert_eq!(b.at("back"), [udp((far, 53), (server, 5)), udp((far, 53), (host, 5))]);
    let mut b =
        translated("1, 0, 2001::1 ::5.0.0.9, 1, 0, 1, 2001::1, 2001::2", &[udp((far, 2), ("::5.0.0.1", 1))]);
    assert_eq!(b.at("back"), [udp((far, 2), ("2001::2", 1))]);
}

#[test]
fn what_cannot_be_translated_is_dropped_by_name() {
    let good = udp(("2001:db8::2", 1), ("::9.9.9.9", 2));
    let (mut short, mut four, mut fragment) = (good.clone(), good.clone(), good.clone());
    short[5] = 7; // the datagram ends within its header
    four[0] = 0x45;
    fragment[6] = 44;
    let b = translated("0, 1, 0, 0, ::1.0.0.1", &[good[..48].to_vec(), short, four, fragment, good]);
    assert_eq!(b.drops(0), [2, 1, 1, 0, 0]);
}

#[test]
fn arguments_that_are_wrong_are_told_with_their_numbers() {
    let fault = |arguments: &str| {
        let config = format!("at :: AddressTranslator({arguments}); {TWO_WAYS} Idle -> c");
        try_bench(&config).err().unwrap_or_else(|| panic!("built: {arguments}"))
    };
    for (arguments, expected) in [
        ("0, 1 1 0 0 0 0, 0", "argument 2 should be : bool"),
        ("1, 0, 2001::1, 0", "argument 3 should be : <IP6Address> <IP6Address>"),
        ("1, 1, 2001::1 2001::2, 0", "argument 3 should be : <IP6Address> <port>"),
        ("2, 0, 2001::1 2001::2", "argument 4 should be"),
        ("0, 1, 0, 0, ::1, nonsense", "argument 6 should be : <IP6Address>"),
        ("0, 1, 1, 0, ::1 6001 6000", "argument 5 should be : <IP6Address> <first port> <last port>"),
        ("0, 1, 1, 0, ::1 0 6000", "argument 5"),
        ("4000000000, 1", "argument 3"),
        ("-1", "STATIC"),
    ] {
        let told = fault(arguments);
        assert!(told.contains(expected), "{arguments}: {told}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn no_bytes_make_the_translator_fail(
        junk: Vec<u8>, cut in 0..70usize, at in 0..60usize, byte: u8, which in 0..4usize,
    ) {
        let arguments = [
            "1, 0, 2001:db8::2 ::1.0.0.1, 0", "1, 1, 2001:db8::2 1 ::1.0.0.1 2, 1, 1, 1, 2001::9 65535 65535",
            "0, 1, 0, 0, ::1.0.0.1", "0, 1, 1, 0, ::1.0.0.1 65534 65535",
        ][which];
        let mut packets = vec![junk];
        for packet in [
            udp(("2001:db8::2", 1), ("::9.9.9.9", 2)),
            udp(("::9.9.9.9", 2), ("::1.0.0.1", 65534)),
            echo(128, 9, "2001:db8::2", "::9.9.9.9"),
            six(TCP, "2001:db8::2", "::9.9.9.9", &[0; 20]),
        ] {
            let mut changed = packet.clone();
            let place = at % changed.len();
            changed[place] = byte;
            let mut short = packet[..cut.clamp(40, packet.len())].to_vec();
            short[5] = short.len() as u8 - 40;
            packets.extend([changed, short, packet[..cut.min(packet.len())].to_vec(), packet]);
        }
        let mut b = translated(arguments, &packets);
        b.read("at.table", "");
        for packet in b.at("out") {
            prop_assert!(packet.len() >= 40 + 8);
        }
    }
}
