//! What wires are asked for by name: faults, and texts that are refused.

use super::*;

#[test]
fn each_fault_happens_and_the_accounts_balance() {
    for fault in ["drop", "corrupt", "crc", "truncate", "duplicate", "reorder"] {
        let mut both = cables(&[&format!("gen:count=2000+fault:{fault}=0.1,seed=3"), "sink:check"]);
        let [from, to] = &mut both[..] else { unreachable!() };
        let mut bad_crc = 0;
        let mut scratch = vec![0; MAX_FRAME];
        for now in 0..100 {
            from.advance(now * 1_000_000);
            from.receive_burst(&mut scratch, 64, &mut |frame, fault| match fault {
                FrameError::None => to.transmit(frame),
                _ => bad_crc += 1,
            });
        }
        let stats = balanced(from);
        let injected = stats.faults[fault];
        assert!((120..300).contains(&injected), "{fault}: {injected}");
        let check = to.stats().check.unwrap();
        match fault {
            "drop" => assert_eq!(stats.to_host.lost["fault: dropped"], injected),
            "crc" => assert_eq!((bad_crc, check.received), (injected, 2000 - injected)),
            "duplicate" => assert_eq!(check.duplicated, injected),
            "reorder" => assert!(check.received == 2000 && check.reordered > 0),
            // Some bits of the Ethernet header are not checked.
            "corrupt" => assert!(check.corrupt + check.foreign > injected / 2),
            _ => assert!(check.foreign + check.corrupt > injected / 2),
        }
        assert_eq!(stats.faults.len(), 1);
    }
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let run = |seed: u32| burst(&mut cable(&format!("gen+fault:drop=0.3,corrupt=0.3,seed={seed}")), 200);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_flapping_link_goes_down_and_comes_back() {
    let mut wire = cable("gen+fault:flap=100ms/10ms");
    let mut at = |ms: u64| {
        wire.advance(ms * 1_000_000);
        wire.is_up()
    };
    assert_eq!([0, 89, 91, 99, 101].map(&mut at), [true, true, false, false, true]);
    wire.advance(195 * 1_000_000);
    assert!(burst(&mut wire, 10).is_empty());
    assert!(balanced(&wire).to_host.lost["fault: link down"] > 0);
}

#[test]
fn faults_from_the_host_are_counted_too() {
    let mut wire = cable("sink+fault:drop=0.5,crc=0.5,duplicate=0.2,reorder=0.2");
    (0..1000).for_each(|_| wire.transmit(&[0; 60]));
    wire.advance(1);
    wire.advance(10_000_000);
    let stats = balanced(&wire);
    assert!(stats.from_host.lost["fault: wrong CRC"] > 0 && stats.from_host.waiting == 0);
}

#[test]
fn wires_are_refused_with_what_to_write() {
    for (text, hint) in [
        ("", "use loop"),
        ("cat5", "use loop"),
        ("gen:size=63", "64 to 15872"),
        ("gen:size=100-64", "64 to 15872"),
        ("gen:rate=fast", "or `max`"),
        ("gen:flows=0", "1 to 65536"),
        ("gen:flows=70000", "1 to 65536"),
        ("gen:count=-1", "10M"),
        ("gen:dst=1:2", "02:00"),
        ("gen:speed=1", "size, rate"),
        ("gen+pair", "cannot be one wire"),
        ("loop+sink", "cannot be one wire"),
        ("gen+gen", "cannot be one wire"),
        ("gen+pcap:x", "cannot be one wire"),
        ("loop:x", "no option `x`"),
        ("sink:chek", "check"),
        ("pcap", "pcap:in.pcapng"),
        ("pcap:x,twice", "loop, rate"),
        ("record:", "record:out.pcapng"),
        ("record:x,limit=y", "frames"),
        ("tap", "tap:ixora0"),
        ("tap:a/b", "15 bytes"),
        ("tap:0123456789abcdef", "15 bytes"),
        ("unix", "unix:/tmp"),
        ("unix:/x,remote=", "remote=PATH"),
        ("gen+fault:drop=2", "0 to 1"),
    ] {
        let error = text.parse::<Spec>().expect_err(text).to_string();
        assert!(error.contains(hint), "{text}: {error}");
    }
    let one = [Plug { spec: "pair".parse().unwrap(), mac: MAC }];
    assert!(plug(&one, &Arc::default()).unwrap_err().to_string().contains("even number"));
    let big = "gen:flows=65536,size=9000".parse().unwrap();
    assert!(Cable::open(&big).unwrap_err().to_string().contains("fewer flows"));
}

#[test]
fn a_plus_in_a_path_is_not_a_joint() {
    let spec: Spec = "gen+record:/tmp/a+b.pcapng+sink:check".parse().unwrap();
    assert_eq!(spec.to_string(), "gen+record:/tmp/a+b.pcapng+sink:check");
    assert_eq!(spec.record, Some(("/tmp/a+b.pcapng".into(), u64::MAX)));
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "(gen|pcap|sink|unix|tap|fault|record)?[:+]?(size|rate|flows|count|dst|check)?=?.{0,20}") {
        let _ = text.parse::<Spec>();
    }

    #[test]
    fn what_can_be_said_can_be_read(size in 64_usize..15_872, flows in 1_u32..65_536, count: u64, rate in 1_u64..1_000_000_000) {
        let text = format!("gen:size={size},flows={flows},count={count},rate={}", Rate::PerSecond(rate));
        let spec: Spec = text.parse().unwrap();
        let expected = GeneratorSpec {
            hold: false,
            size: Sizes::Fixed(size), flows, count: Some(count), rate: Rate::PerSecond(rate), to: None,
        };
        let end = crate::wire::spec::EndSpec::Traffic { source: Some(SourceSpec::Generator(expected)), check: None };
        prop_assert_eq!(spec.end, end);
    }

    #[test]
    fn no_frame_makes_the_sink_panic(frame in prop::collection::vec(any::<u8>(), 0..100), ours: bool, at in 0_usize..60, value: u8) {
        let mut sink = cable("sink:check");
        let mut generated = burst(&mut cable("gen"), 1).pop().unwrap();
        generated[at] = value;
        sink.transmit(if ours { &generated } else { &frame });
        let check = sink.stats().check.unwrap();
        prop_assert_eq!(check.received + check.corrupt + check.foreign, 1);
    }
}

#[test]
fn a_generator_that_holds_waits_to_be_started() {
    let mut cable = Cable::open(&"gen:rate=1M,hold".parse().expect("a wire")).expect("opens");
    let mut frame = vec![0; model::MAX_FRAME];
    for now in [0, 1_000_000, 2_000_000] {
        cable.advance(now);
        assert_eq!(model::Wire::receive(&mut cable, &mut frame), None);
    }
    cable.start_source();
    cable.advance(3_000_000);
    cable.advance(3_100_000);
    let given = std::iter::from_fn(|| model::Wire::receive(&mut cable, &mut frame)).count();
    assert_eq!(given, 100, "what was held back is not owed");
}
