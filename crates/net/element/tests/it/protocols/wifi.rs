//! Frames of Wi-Fi as Click makes them, and Ethernet frames of them again.

use proptest::prelude::*;

use super::bench::{bench, hex, unhex};

const ETHERNET: &str = "00060708090a 000102030405 9000 68656c6c6f";
const CLICKS: [&str; 4] = [
    "08000000 00060708 090a0001 02030405 000b0c0d 0e0f0000 aaaa0300 00009000 68656c6c 6f",
    "08010000 000b0c0d 0e0f0001 02030405 00060708 090a0000 aaaa0300 00009000 68656c6c 6f",
    "08020000 00060708 090a000b 0c0d0e0f 00010203 04050000 aaaa0300 00009000 68656c6c 6f",
    "08030000 00060708 090a0001 02030405 000b0c0d 0e0f0000 aaaa0300 00009000 68656c6c 6f",
];

#[test]
fn frames_are_those_that_click_makes() {
    for (mode, frame) in CLICKS.iter().enumerate() {
        let mut b = bench(&format!(
            "Feed({}, \\<0102>) -> e :: WifiEncap({mode}, 0:b:c:d:e:f) -> t :: Tee(2) -> w :: Catch; \
             t[1] -> d :: WifiDecap -> x :: Catch",
            hex(&unhex(ETHERNET))
        ));
        assert_eq!((b.at("w"), b.drops(1)), (vec![unhex(frame)], vec![1, 0, 0]));
        // Between access points there would be a fourth address.
        let back = if mode == 3 { vec![] } else { vec![unhex(ETHERNET)] };
        assert_eq!(b.at("x"), back);
        assert_eq!(
            (b.read("e.mode", ""), b.read("e.bssid", "")),
            (format!("{mode}\n"), "00-0B-0C-0D-0E-0F\n".into())
        );
        assert_eq!(b.write("e.mode", "x"), "mode parameter must be int");
        assert_eq!((b.write("e.mode", "7"), b.write("e.bssid", "0:0:0:0:0:1")), Default::default());
    }
    let mut b = bench(&format!("Feed({}) -> WifiEncap(4) -> w :: Catch", hex(&unhex(ETHERNET))));
    assert_eq!(
        (b.at("w").len(), b.drops(1), b.printed().contains("invalid mode 4")),
        (0, vec![0, 0, 1], true)
    );
}

#[test]
fn frames_that_cannot_be_read_are_dropped() {
    let mut encrypted = unhex(CLICKS[0]);
    encrypted[1] |= 0x40;
    let mut other = unhex(CLICKS[0]);
    other[24] = 0x42;
    let qos = [&[0x88, 0][..], &unhex(CLICKS[0])[2..24], &[0, 0], &unhex(CLICKS[0])[24..]].concat();
    let packets = [&encrypted[..], &other, &qos, &qos[..30], &qos[..10]].map(hex).join(", ");
    let mut b = bench(&format!(
        "Feed({packets}) -> t :: Tee(3) -> d :: WifiDecap -> x :: Catch; t[1] -> s :: WifiDecap(STRICT true) -> y :: Catch; \
         t[2] -> WifiDecap(ETHER false) -> z :: Catch"
    ));
    assert_eq!((b.at("x"), b.at("y")), (vec![unhex(ETHERNET); 2], vec![unhex(ETHERNET)]));
    assert_eq!(b.at("z"), vec![b"hello".to_vec(); 2]);
    assert_eq!(b.drops(2), [2, 0, 1]);
}

#[test]
fn what_came_twice_is_dropped() {
    let frame = |number: u16, fragment: u16, retry: bool, more: bool, group: bool| {
        let mut bytes = unhex(CLICKS[0]);
        bytes[1] |= u8::from(retry) << 3 | u8::from(more) << 2;
        bytes[4] |= u8::from(group);
        bytes[22..24].copy_from_slice(&(number << 4 | fragment).to_le_bytes());
        hex(&bytes)
    };
    let frames = [
        frame(7, 0, false, false, false),
        frame(7, 0, true, false, false), // again
        frame(8, 0, false, true, false),
        frame(8, 1, true, false, false), // the next fragment, sent again
        frame(8, 1, true, false, false), // again
        frame(8, 0, true, false, true),
        frame(9, 0, true, false, false), // the first was lost
    ];
    let mut b = bench(&format!("Feed({}) -> f :: WifiDupeFilter -> x :: Catch", frames.join(", ")));
    assert_eq!((b.at("x").len(), b.read("f.dupes", ""), b.drops(1)), (5, "2\n".into(), vec![2]));
    assert_eq!(b.read("f.stats", ""), "00-01-02-03-04-05 packets 0 dupes 2 seq 9 frag 0\n");
    assert_eq!((b.write("f.reset", ""), b.read("f.stats", "")), (String::new(), String::new()));
}

#[test]
fn what_is_done_is_told_when_it_is_asked_for() {
    let mut frame = unhex(CLICKS[2]);
    let feed = hex(&frame);
    frame[1] |= 8;
    let config = format!(
        "Feed({feed}, {}) -> f :: WifiDupeFilter(DEBUG true) -> d :: WifiDecap(DEBUG true) -> Discard; \
         Feed({}) -> e :: WifiEncap(0) -> Discard",
        hex(&frame),
        hex(&unhex(ETHERNET))
    );
    let mut b = bench(&config);
    let decap = "d :: WifiDecap: dir 2 src 00-01-02-03-04-05 dst 00-06-07-08-09-0A bssid 00-0B-0C-0D-0E-0F";
    assert!(b.printed().contains(&format!("{decap} eth 0x9000\n")), "{}", b.printed());
    let dup = "f :: WifiDupeFilter: dup seq 0 frag 0 src 00-0B-0C-0D-0E-0F\n";
    assert!(b.printed().contains(dup), "{}", b.printed());
    for (handler, before) in [("f.debug", "true\n"), ("d.debug", "true\n"), ("e.debug", "false\n")] {
        assert_eq!(b.read(handler, ""), before, "{handler}");
        let other = if before == "true\n" { "false" } else { "1" };
        assert_eq!(b.write(handler, other), "", "{handler}");
        assert_ne!(b.read(handler, ""), before, "{handler}");
        assert_eq!(b.write(handler, "perhaps"), "debug parameter must be boolean");
    }
    let mut b = bench(&config.replace("DEBUG true", ""));
    assert_eq!((b.printed().as_str(), b.read("d.debug", "")), ("", "false\n".to_string()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn nothing_that_comes_makes_them_fail(junk: Vec<u8>, cut in 0..40usize, at in 0..37usize, byte: u8) {
        let mut changed = unhex(CLICKS[3]);
        changed[at] = byte;
        let packets = [junk, changed.clone(), changed[..cut.min(changed.len())].to_vec()];
        let packets = packets.iter().map(|packet| hex(packet)).collect::<Vec<_>>().join(", ");
        bench(&format!("Feed({packets}) -> WifiDupeFilter -> t :: Tee(2) -> WifiDecap -> Discard; t[1] -> WifiEncap(3) -> Discard"));
    }
}
