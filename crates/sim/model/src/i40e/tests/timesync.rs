//! The clock, and times of messages of PTP that are kept until they are read.

use wire::ptp;

use super::*;

/// Event messages of version 2 in frames of their own, and to UDP's port for them.
const EVENTS: u32 = PRTTSYN_CTL1::TSYNENA | tsyntype::V2_EVENT << PRTTSYN_CTL1::TSYNTYPE_SHIFT;
const OVER_UDP: u32 = udp_ena::PORT_319 << PRTTSYN_CTL1::UDP_ENA_SHIFT;
/// Nanoseconds of a step, and how far the clock goes in it.
const STEP_NS: u64 = 1_000_000;
const STEP: u64 = 999_999;

/// A guest that receives, with the clock as it should be and `control` in PRTTSYN_CTL1.
fn guest(family: Family, control: u32, increment: u64) -> Guest {
    let mut guest = Guest::of(family);
    guest.start(&[], &[]);
    for n in 0..63 {
        guest.memory.store(RX_RING + 16 * n, DATA + 2048 * n);
    }
    guest.chip.write(QRX_TAIL::at(0), 63);
    for (register, value) in [
        (PRTTSYN_INC_L::AT, increment as u32),
        (PRTTSYN_INC_H::AT, (increment >> 32) as u32),
        (PRTTSYN_CTL0::AT, PRTTSYN_CTL0::TSYNENA),
        (PRTTSYN_CTL1::AT, control),
    ] {
        guest.chip.write(register, value);
    }
    guest
}

/// A message of this type and version in a frame of its own, with a tag if there is one.
fn message(kind: u8, version: u8, tag: Option<u16>) -> Vec<u8> {
    let tag = tag.map(|tag| [&[0x81, 0], &tag.to_be_bytes()[..]].concat()).unwrap_or_default();
    let mut frame = [&MAC[..], &[2; 6], &tag, &[0x88, 0xF7, kind, version]].concat();
    frame.resize(64, 0);
    frame
}

/// Likewise over UDP and IPv4, to a port.
fn datagram(kind: u8, port: u16) -> Vec<u8> {
    let mut frame = [&MAC[..], &[2; 6], &[8, 0, 0x45, 0, 0, 62]].concat();
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([&[1, 1][..], &port.to_be_bytes(), &[0, 42, 0, 0, kind, ptp::VERSION]].concat());
    frame.resize(76, 0);
    frame
}

impl Guest {
    /// Receives a frame as the `n`-th one; the place that its descriptor names.
    fn place(&mut self, n: u64, frame: &[u8]) -> Option<usize> {
        self.cable.send(frame);
        self.step();
        let status = self.memory.load(RX_RING + 16 * n + 8);
        assert_ne!(status & rx_high::DD, 0, "it was received");
        let place = (status & rx_high::TSYNINDX_MASK) >> rx_high::TSYNINDX_SHIFT;
        (status & rx_high::TSYNVALID != 0).then_some(place as usize)
    }

    /// The time in a place, which is free from then on.
    fn time(&mut self, place: usize) -> u64 {
        let lower = u64::from(self.chip.read(PRTTSYN_RXTIME_L::at(place)));
        u64::from(self.chip.read(PRTTSYN_RXTIME_H::at(place))) << 32 | lower
    }
}

#[test]
fn four_times_are_kept_until_they_are_read() {
    let mut guest = guest(Family::Xl710, EVENTS, INCREMENT_40G);
    let sync = message(ptp::SYNC, ptp::VERSION, None);
    for n in 0..4 {
        assert_eq!(guest.place(n, &sync), Some(n as usize));
    }
    assert_eq!(guest.place(4, &sync), None, "all places are taken");
    assert_eq!(guest.chip.read(PRTTSYN_STAT_1::AT), 0xF);
    assert_eq!(guest.time(2), 3 * STEP_NS - 1);
    assert_eq!(guest.chip.read(PRTTSYN_STAT_1::AT), 0xB);
    assert_eq!(guest.place(5, &sync), Some(2), "it is free");
    assert_eq!([0, 1, 2, 3].map(|n| guest.time(n) / STEP), [1, 2, 6, 4], "no other was overwritten");
    assert_eq!(guest.chip.read(PRTTSYN_STAT_1::AT), 0);
    // Without a descriptor, and without a filter that wants it, a message has its time kept, too.
    let other = [&[6; 6], &sync[6..]].concat();
    guest.cable.send(&other);
    guest.step();
    assert_eq!((guest.chip.read(PRTTSYN_STAT_1::AT), guest.chip.drops().rx_filtered_mac), (1, 1));
    assert!(guest.chip.lint().is_empty(), "{}", guest.chip.lint());
}

#[test]
fn the_clock_goes_by_ticks_of_the_links_speed_and_is_set_with_its_upper_half() {
    for (family, factor) in [(Family::Xl710, 1), (Family::X722, 2)] {
        let mut guest = guest(family, EVENTS, INCREMENT_40G * factor);
        guest.step();
        let time = |guest: &mut Guest| {
            let lower = u64::from(guest.chip.read(PRTTSYN_TIME_L::AT));
            u64::from(guest.chip.read(PRTTSYN_TIME_H::AT)) << 32 | lower
        };
        assert_eq!(time(&mut guest), STEP);
        guest.chip.write(PRTTSYN_TIME_L::AT, 5);
        assert_eq!(time(&mut guest), STEP, "not yet");
        guest.chip.write(PRTTSYN_TIME_H::AT, 7);
        assert_eq!(time(&mut guest), 7 << 32 | 5);
        guest.chip.read(PRTTSYN_TIME_L::AT);
        guest.now_ns += 10_000_000_000;
        guest.step();
        assert_eq!(guest.chip.read(PRTTSYN_TIME_H::AT), 7, "held from the lower half on");
        // A reset of the function leaves the port's clock alone, one of the card does not.
        guest.chip.write(QRX_ENA::at(0), 0);
        guest.chip.write(GLLAN_TXPRE_QDIS::at(0), GLLAN_TXPRE_QDIS::SET_QDIS);
        guest.chip.write(QTX_ENA::at(0), 0);
        guest.read_all(&[QTX_ENA::at(0), QRX_ENA::at(0)]);
        guest.chip.write(PFGEN_CTRL::AT, PFGEN_CTRL::PFSWR);
        assert!(time(&mut guest) > 7 << 32);
        assert_eq!(guest.chip.read(PRTTSYN_CTL1::AT), EVENTS);
        assert!(guest.chip.lint().is_empty(), "{}", guest.chip.lint());
        guest.chip.reset();
        assert_eq!((time(&mut guest), guest.chip.read(PRTTSYN_CTL1::AT)), (0, 0));
    }
}

#[test]
fn messages_are_stamped_by_type_version_and_port() {
    let by_type = |first: u32, second: u32| {
        let types = first << PRTTSYN_CTL1::V2MESSTYPE0_SHIFT | second << PRTTSYN_CTL1::V2MESSTYPE1_SHIFT;
        PRTTSYN_CTL1::TSYNENA | tsyntype::V2 << PRTTSYN_CTL1::TSYNTYPE_SHIFT | types
    };
    let over = |kind| message(kind, ptp::VERSION, None);
    let frames = [
        over(ptp::SYNC),
        over(ptp::DELAY_REQ),
        over(ptp::FOLLOW_UP),
        message(ptp::SYNC, 1, None),
        message(ptp::SYNC, ptp::VERSION, Some(0x2007)),
        datagram(ptp::SYNC, ptp::EVENT_PORT),
        datagram(ptp::FOLLOW_UP, ptp::GENERAL_PORT),
        datagram(ptp::SYNC, 4321),
    ];
    let general = udp_ena::PORT_320 << PRTTSYN_CTL1::UDP_ENA_SHIFT;
    for (control, stamped) in [
        (0, 0b0000_0000),
        (EVENTS & !PRTTSYN_CTL1::TSYNENA, 0b0000_0000),
        (EVENTS, 0b0001_0011),
        (EVENTS | OVER_UDP, 0b0011_0011),
        (by_type(0, 0), 0b0001_0001),
        (by_type(1, 8), 0b0000_0110),
        (by_type(tsyntype::ANY_MESSAGE, 0) | OVER_UDP | general, 0b0111_0111),
        (PRTTSYN_CTL1::TSYNENA | tsyntype::V1 << PRTTSYN_CTL1::TSYNTYPE_SHIFT, 0b0000_0000),
    ] {
        let mut guest = guest(Family::Xl710, control, INCREMENT_40G);
        for (n, frame) in (0..).zip(&frames) {
            let place = guest.place(n, frame);
            assert_eq!(place.is_some(), stamped >> n & 1 != 0, "{control:#x} frame {n}");
            place.into_iter().for_each(|place| _ = guest.time(place));
        }
        assert!(guest.chip.lint().is_empty(), "{}", guest.chip.lint());
    }
}

#[test]
fn the_rules_of_the_clock_and_of_times_that_are_kept() {
    let sync = message(ptp::SYNC, ptp::VERSION, None);
    let mut guest = guest(Family::Xl710, EVENTS, 0);
    guest.place(0, &sync);
    assert_eq!(guest.broke(Rule::ClockStands), 1);
    guest.chip.write(PRTTSYN_INC_H::AT, 1);
    guest.chip.write(PRTTSYN_TIME_H::AT, 1);
    guest.chip.read(PRTTSYN_TIME_H::AT);
    assert_eq!(guest.broke(Rule::ClockUpperHalfFirst), 3);
    // The upper half first: the place is free by then.
    guest.chip.read(PRTTSYN_RXTIME_H::at(0));
    assert_eq!(guest.broke(Rule::ReceiveTimeNotKept), 0, "so are places given free");
    guest.chip.read(PRTTSYN_RXTIME_L::at(0));
    assert_eq!(guest.broke(Rule::ReceiveTimeNotKept), 1);
    // Nobody reads them, for a while and then for too long.
    (1..20).for_each(|n| _ = guest.place(n, &sync));
    assert_eq!(guest.broke(Rule::ReceiveTimesNotRead), 0);
    guest.now_ns += 10_000_000_000;
    guest.place(20, &sync);
    assert_eq!(guest.broke(Rule::ReceiveTimesNotRead), 1);
    guest.time(3);
    assert_eq!(guest.place(21, &sync), Some(3));
    guest.place(22, &sync);
    assert_eq!(guest.broke(Rule::ReceiveTimesNotRead), 1, "counted anew");
    assert_eq!(guest.chip.lint().groups().len(), 4, "{}", guest.chip.lint());
}
