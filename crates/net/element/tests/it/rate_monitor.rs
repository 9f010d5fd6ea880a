//! `IPRateMonitor`: rates of networks and hosts, and what its handlers take.

use proptest::prelude::*;

use crate::{Rig, run};

/// A source of so many UDP packets in a second from one address to another, 100 bytes each.
fn source(rate: u32, src: &str, dst: &str) -> String {
    format!("RatedSource(LENGTH 72, RATE {rate}) -> UDPIPEncap({src}, 1, {dst}, 2)")
}

#[test]
fn rates_are_kept_where_there_is_much() {
    let mut rig = run(&format!(
        "m :: IPRateMonitor(PACKETS, 1, 50, 600); {} -> [0]m; {} -> [1]m; {} -> [0]m; \
         m[0] -> b :: CompareBlock(1, 0, 150) -> low :: Counter -> Discard; b[1] -> high :: Counter -> Discard; \
         m[1] -> Discard; Script(wait 5s, stop)",
        source(200, "18.26.4.9", "1.0.0.1"),
        source(100, "1.0.0.1", "18.26.4.9"),
        source(10, "10.0.0.1", "1.0.0.1"),
    ));
    let look = rig.read("m.look");
    let (epochs, lines) = look.split_once('\n').expect("lines");
    assert_eq!(epochs, "625", "8 ms each");
    let lines: Vec<Vec<&str>> = lines.lines().map(|line| line.trim().split('\t').collect()).collect();
    let names: Vec<&str> = lines.iter().map(|line| line[0]).collect();
    assert_eq!(names, ["10", "18", "18.26", "18.26.4", "18.26.4.9"]);
    assert!(look.contains("\n\t\t\t18.26.4.9\t"), "{look}");
    let rate = |text: &str| text.parse::<f64>().expect("a rate");
    assert!((190.0..210.0).contains(&rate(lines[4][1])), "{look}");
    assert!((90.0..110.0).contains(&rate(lines[4][2])), "{look}");
    assert!((1.0..20.0).contains(&rate(lines[0][1])) && rate(lines[0][2]) == 0.0, "{look}");
    let counts = ["low.count", "high.count"].map(|name| rig.read(name).parse::<u64>().expect("a number"));
    assert!(counts[0] > 50 && counts[1] > 600, "annotated: {counts:?}");
    assert_eq!(rig.read("m.thresh"), "50");
    rig.write("m.anno_level", "18.26.0.0 1 100").expect("as Click documents it");
    let names = |rig: &mut Rig| rig.read("m.look").lines().skip(1).count();
    assert_eq!(names(&mut rig), 3, "18.26 is closed");
    rig.write("m.reset", "").expect("an action");
    assert_eq!((rig.read("m.look").as_str(), names(&mut rig)), ("0\n", 0));
}

#[test]
fn bytes_are_counted_and_nothing_is_noted_when_nobody_wants_it() {
    let mut rig = run(&format!(
        "m :: IPRateMonitor(bytes, 1, 1000000, 0, false); {} -> m -> b :: CompareBlock(1, 0, 1) \
         -> low :: Counter -> Discard; b[1] -> high :: Counter -> Discard; Script(wait 3s, stop)",
        source(100, "18.26.4.9", "1.0.0.1"),
    ));
    let look = rig.read("m.look");
    let rate: f64 = look.split('\t').nth(1).expect("a rate").parse().expect("a number");
    assert!((9_000.0..11_000.0).contains(&rate), "{look}");
    assert_eq!(rig.read("high.count"), "0");
}

#[test]
fn what_is_wrong_is_told() {
    let told = |arguments: &str| {
        Rig::new(&format!("Idle -> IPRateMonitor({arguments}) -> Discard")).err().unwrap_or_default()
    };
    assert_eq!(told("packets, 0.5, 256, 600"), "");
    assert!(told("FLOWS, 0.5, 256").contains("monitor type should be \"PACKETS\" or \"BYTES\""));
    assert!(told("PACKETS, 1.5, 256").contains("ratio must be between 0 and 1"));
    assert!(told("PACKETS, 1").contains("THRESH: required argument missing"));
    let mut rig =
        Rig::new("Idle -> m :: IPRateMonitor(PACKETS, 0.5, 256, 6) -> Discard").expect("a configuration");
    assert_eq!((rig.read("m.thresh").as_str(), rig.read("m.memmax").as_str()), ("128", "102400"));
    for (handler, value, wrong) in [
        ("m.memmax", "1, 2", "expecting 1 integer"),
        ("m.memmax", "x", "not an integer"),
        ("m.anno_level", "1.2.3.4 1", "expecting 3 arguments"),
        ("m.anno_level", "1.2.3, 1, 1", "not an IP address"),
        ("m.anno_level", "1.2.3.4 4 1", "2nd argument specifies a level, between 0 and 3, to annotate"),
        ("m.anno_level", "1.2.3.4, 1, 0", "3rd argument specifies when this rule expires, must be > 0"),
    ] {
        let refused = rig.write(handler, value).expect_err("refused");
        assert_eq!(refused.to_string(), wrong, "{handler} {value}");
    }
    rig.write("m.memmax", "0").expect("no limit");
    assert_eq!(rig.read("m.memmax"), "0");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn no_packet_makes_it_fail(junk: Vec<u8>, cut in 0..40usize, at in 0..20usize, byte: u8, bytes: bool) {
        let mut whole = [0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8].to_vec();
        whole.resize(40, 0);
        let mut changed = whole.clone();
        changed[at] = byte;
        let feed = |bytes: &[u8]| {
            let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            format!("InfiniteSource(\\<{digits}>, LIMIT 3) -> k; ")
        };
        let feeds = [&junk[..], &whole[..cut], &changed, &whole].map(feed).concat();
        let kind = if bytes { "BYTES" } else { "PACKETS" };
        let mut rig = run(&format!(
            "k :: MarkIPHeader -> m :: IPRateMonitor({kind}, 1, 0) -> c :: Counter -> Discard; {feeds} \
             Script(wait 1s, stop)"
        ));
        prop_assert_eq!(rig.read("c.count"), "12");
        rig.read("m.look");
    }
}
