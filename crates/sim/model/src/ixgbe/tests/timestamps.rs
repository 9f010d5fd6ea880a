//! Times that an X550 puts behind frames.

use super::*;
use descriptor::{TIMESTAMP_LEN, rx_high};

const ALL: u32 = TSYNCRXCTL::ENABLED | TSYNCRXCTL::TYPE_ALL;
const EACH: u32 = ALL | TSYNCRXCTL::TSIP_UT_EN | TSYNCRXCTL::TSIP_UP_EN_MASK;
const HLREG0_RESET: u32 = HLREG0::TXCRCEN | HLREG0::RXCRCSTRP | HLREG0::TXPADEN;

/// An X550 that receives, its clock and its timestamps set like this; when that was.
fn x550(more: &[(u32, u32)]) -> (Rig, u64) {
    let mut options = Options::default();
    options.eeprom.device_id = 0x1563;
    let cold = Rig::of(&options);
    let since = cold.now;
    (cold.bring_up(1, more), since)
}

/// What is received of a frame, and the nanoseconds behind it.
fn stamped(rig: &mut Rig, frame: &[u8]) -> Option<u64> {
    rig.cable.send(frame);
    rig.step();
    let Received { data, high, .. } = rig.receive(0).expect("a frame");
    assert_eq!(data[..frame.len()], *frame);
    let behind = &data[frame.len()..];
    assert_eq!(
        (high & rx_high::TSIP != 0, behind.len()),
        match behind.len() {
            0 => (false, 0),
            _ => (true, TIMESTAMP_LEN),
        }
    );
    let stamp = u64::from_le_bytes(behind.try_into().ok()?);
    Some((stamp >> 32) * 1_000_000_000 + (stamp & 0xFFFF_FFFF))
}

#[test]
fn each_frame_has_the_time_at_which_it_came() {
    let (mut rig, since) = x550(&[(TSAUXC::AT, 0), (TSYNCRXCTL::AT, EACH)]);
    for len in [18, 100, 1472] {
        let came = rig.now + 100_000;
        assert_eq!(stamped(&mut rig, &udp([10, 0, 0, 1], [1, 2], len)), Some(came - since));
    }
    let low = u64::from(rig.read(SYSTIML::AT));
    assert_eq!((low, rig.read(SYSTIMH::AT)), ((rig.now - since) % 1_000_000_000, 0));
    let totals = rig.device.totals();
    assert_eq!(totals.rx_bytes, 60 + 142 + 1514, "the counters know nothing of them");
    rig.balance();
    assert!(rig.device.lint().is_empty(), "{}", rig.device.lint());
}

#[test]
fn a_frame_that_waits_for_a_descriptor_keeps_its_time() {
    let (mut rig, since) = x550(&[(TSAUXC::AT, 0), (TSYNCRXCTL::AT, EACH)]);
    rig.cable.backpressure = false;
    let frame = udp([10, 0, 0, 1], [1, 2], 18);
    let came = rig.now + 100_000;
    (0..RING).for_each(|_| rig.cable.send(&frame));
    rig.step();
    assert_eq!(rig.device.waiting(), 1, "one has no descriptor");
    let stamp = |received: Received| u64::from_le_bytes(received.data[60..].try_into().expect("8 bytes"));
    let first = rig.receive(0).map(stamp);
    rig.now += 50_000_000;
    rig.step();
    let last = std::iter::from_fn(|| rig.receive(0)).last().map(stamp);
    assert_eq!((first, last), (Some(came - since), Some(came - since)));
}

#[test]
fn frames_are_stamped_by_their_priority() {
    for (control, expected) in [
        (ALL | TSYNCRXCTL::TSIP_UT_EN, [true, false, false]),
        (ALL | 1 << TSYNCRXCTL::TSIP_UP_EN_SHIFT, [false, true, false]),
        (ALL | 1 << (TSYNCRXCTL::TSIP_UP_EN_SHIFT + 5), [false, false, true]),
    ] {
        let (mut rig, _) = x550(&[(TSAUXC::AT, 0), (TSYNCRXCTL::AT, control)]);
        let frame = udp([10, 0, 0, 1], [1, 2], 18);
        let frames = [frame.clone(), tagged(&frame, 7), tagged(&frame, 5 << 13 | 7)];
        assert_eq!(frames.map(|frame| stamped(&mut rig, &frame).is_some()), expected);
    }
}

#[test]
fn no_frame_is_stamped_while_the_clock_stands_or_nobody_asks() {
    let none: &[&[(u32, u32)]] = &[
        &[],
        &[(TSAUXC::AT, 0), (TSYNCRXCTL::AT, EACH & !TSYNCRXCTL::ENABLED)],
        &[(TSAUXC::AT, 0), (TSYNCRXCTL::AT, EACH & !TSYNCRXCTL::TYPE_MASK)],
        &[(TSAUXC::AT, TSAUXC::DISABLE_SYSTIME), (TSYNCRXCTL::AT, EACH)],
        &[(TSYNCRXCTL::AT, EACH)],
    ];
    for more in none {
        let (mut rig, _) = x550(more);
        assert_eq!(stamped(&mut rig, &udp([10, 0, 0, 1], [1, 2], 18)), None, "{more:x?}");
    }
}

#[test]
fn the_rules_of_timestamps() {
    let clock = (TSAUXC::AT, 0);
    let cases: &[(&[(u32, u32)], Rule)] = &[
        (&[(TSYNCRXCTL::AT, EACH)], Rule::TimestampWithoutClock),
        (&[clock, (TSYNCRXCTL::AT, EACH & !TSYNCRXCTL::ENABLED)], Rule::TimestampNotEnabled),
        (&[clock, (TSYNCRXCTL::AT, TSYNCRXCTL::ENABLED | 3 << 1)], Rule::TimestampTypeReserved),
        (
            &[
                clock,
                (TSYNCRXCTL::AT, EACH),
                (HLREG0::AT, HLREG0_RESET & !HLREG0::RXCRCSTRP),
                (RDRXCTL::AT, 0),
            ],
            Rule::TimestampBehindCrc,
        ),
        (&[(SYSTIMH::AT, 3)], Rule::SystemTimeSecondsFirst),
    ];
    for (more, rule) in cases {
        let (rig, _) = x550(more);
        let found: Vec<Rule> = rig.device.lint().findings().groups().iter().map(|group| group.rule).collect();
        assert_eq!(found, [*rule], "{}", rig.device.lint());
    }
    let mut rig = Rig::up_with(1, &[(TSYNCRXCTL::AT, EACH)]);
    assert!(rig.linted(Rule::ReservedBitsWritten), "an 82599 has none: {}", rig.device.lint());
    assert_eq!(stamped(&mut rig, &udp([10, 0, 0, 1], [1, 2], 18)), None);
    let (mut rig, _) = x550(&[]);
    rig.write(TSYNCRXCTL::AT, EACH);
    assert!(rig.linted(Rule::TimestampWithoutClock), "while it receives, too: {}", rig.device.lint());
}
