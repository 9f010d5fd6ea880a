//! IPv4 made IPv6 and back, as Click's translators do it.

use proptest::prelude::*;

use super::bench::{bench, hex, ip, is_sound, unhex};

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
