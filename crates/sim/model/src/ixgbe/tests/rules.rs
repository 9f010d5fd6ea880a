//! What the linter says of a driver that leaves out, or gets wrong, one thing;
//! and that it says nothing of one that does not.

use super::*;
use crate::Pages;
use descriptor::{tx, tx_context_high, tx_context_low};

/// A key, a table and the mode.
fn rss() -> Vec<(u32, u32)> {
    let key = (0..RSSRK::COUNT).map(|n| (RSSRK::at(n), 0x6d5a_56da));
    let table = (0..RETA::COUNT).map(|n| (RETA::at(n), 0));
    let mode = (MRQC::AT, MRQC::MRQE_RSS | MRQC::RSS_FIELD_IPV4);
    key.chain(table).chain([mode]).collect()
}

/// Runs for long enough that every round has been.
fn run(rig: &mut Rig) {
    for _ in 0..200 {
        rig.step();
    }
}

fn found(rig: &Rig) -> Vec<Rule> {
    rig.device.lint().findings().groups().iter().map(|group| group.rule).collect()
}

#[test]
fn a_driver_by_the_book_is_not_reported() {
    let mut rig = Rig::up_with(2, &rss());
    run(&mut rig);
    for n in 0..3 * RING {
        rig.put_data(0, &[7; 60], if n % 8 == 7 { tx::RS } else { 0 });
        rig.ring_tx(0);
        rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18));
        rig.step();
        assert!(rig.receive(0).is_some());
    }
    run(&mut rig);
    assert!(rig.device.lint().is_empty(), "{}", rig.device.lint());
}

#[test]
fn what_the_initialisation_leaves_out() {
    let cases: &[(&[u32], Rule)] = &[
        (&[EEC::AT], Rule::EepromNotAwaited),
        (&[GPRC::AT], Rule::CountersNotCleared),
        (&[MTA::at(3)], Rule::MulticastTableNotCleared),
        (&[VFTA::at(127)], Rule::VlanTableNotCleared),
        (&[CTRL_EXT::AT], Rule::NoSnoopLeftOn),
        (&[DCA_RXCTRL::at(1)], Rule::DcaRxctrlBitSet),
        (&[SECRXCTRL::AT], Rule::RxPathNotHalted),
        (&[SECRXSTAT::AT], Rule::RxPathNotHalted),
        (&[RSSRK::at(5)], Rule::RssKeyIncomplete),
        (&[RETA::at(31)], Rule::RedirectionIncomplete),
        (&[RXCSUM::AT], Rule::RssHashNotReported),
    ];
    for (left_out, rule) in cases {
        let mut rig = Rig::up_without(2, left_out, &rss());
        run(&mut rig);
        assert_eq!(found(&rig), [*rule], "{}", rig.device.lint());
    }
    let mut rig = Rig::up_without(1, &[RDRXCTL::AT], &[]);
    run(&mut rig);
    for rule in [Rule::DmaInitNotAwaited, Rule::RscFirstSizeNotZero, Rule::DrxWithoutCrcAgreement] {
        assert!(rig.linted(rule), "{}", rig.device.lint());
    }
}

#[test]
fn what_registers_should_not_hold() {
    let hlreg0 = HLREG0::TXCRCEN | HLREG0::RXCRCSTRP | HLREG0::TXPADEN;
    let cases: &[(&[(u32, u32)], Rule)] = &[
        (&[(MAXFRS::AT, 9000 << MAXFRS::MFS_SHIFT)], Rule::JumboNotEnabled),
        (&[(RXPBSIZE::at(0), 0)], Rule::PacketBufferMissing),
        (&[(RTTDCS::AT, RTTDCS::ARBDIS), (TXPBSIZE::at(0), 0), (RTTDCS::AT, 0)], Rule::PacketBufferMissing),
        (&[(RTTDCS::AT, RTTDCS::ARBDIS)], Rule::ArbiterLeftDisabled),
        (&[(TXPBSIZE::at(0), 80 << TXPBSIZE::SIZE_SHIFT)], Rule::ArbiterNotDisabled),
        (&[(RXPBSIZE::at(1), 64 << RXPBSIZE::SIZE_SHIFT)], Rule::PacketBufferOverbooked),
        (&[(RAL::at(1), 0x0100_5E00), (RAH::at(1), 0x0302)], Rule::ReceiveAddressNotValid),
        (&[(GPRC::AT, 0)], Rule::ReadOnlyWritten),
        (&[(EITR::at(0), 16_000)], Rule::EitrOutOfRange),
        (&[(IVAR::at(0), 0x01)], Rule::IvarEntryInvalid),
        (&[(EIMS_EX::at(0), 1)], Rule::InterruptWithoutVector),
        (&[(GPIE::AT, GPIE::EIAME)], Rule::AutoMaskWithoutMsix),
        (&[(GPIE::AT, GPIE::MULTIPLE_MSIX), (EIMS::AT, EICR::LSC)], Rule::InterruptWithoutVector),
    ];
    for (more, rule) in cases {
        let mut rig = Rig::up_with(1, more);
        run(&mut rig);
        assert_eq!(found(&rig), [*rule], "{}", rig.device.lint());
    }
    let jumbo = (HLREG0::AT, hlreg0 | HLREG0::JUMBOEN);
    let sound: &[&[(u32, u32)]] = &[
        &[(MAXFRS::AT, 9000 << MAXFRS::MFS_SHIFT), jumbo],
        &[(RTTDCS::AT, RTTDCS::ARBDIS), (TXPBSIZE::at(0), 80 << TXPBSIZE::SIZE_SHIFT), (RTTDCS::AT, 0)],
        &[(RAL::at(1), 0x0100_5E00), (RAH::at(1), 0x0302 | RAH::AV), (RAH::at(1), 0)],
        &[(EITR::at(0), 8 << EITR::INTERVAL_SHIFT | EITR::CNT_WDIS)],
        &[(GPIE::AT, GPIE::MULTIPLE_MSIX | GPIE::EIAME), (IVAR::at(0), 0x81), (EIMS_EX::at(0), u32::MAX)],
        &[(GPIE::AT, GPIE::MULTIPLE_MSIX), (IVAR_MISC::AT, 0x8100), (EIMS::AT, EICR::LSC)],
    ];
    for more in sound {
        let mut rig = Rig::up_with(1, more);
        run(&mut rig);
        assert_eq!(found(&rig), [], "{}", rig.device.lint());
    }
}

#[test]
fn a_cause_that_nothing_clears() {
    for (auto_clear, expected) in [(0, true), (0xFFFF, false)] {
        let mut rig = Rig::up_with(1, &[(GPIE::AT, GPIE::MULTIPLE_MSIX), (EIAC::AT, auto_clear)]);
        rig.device.set_interrupts(Some(Box::new(NoInterrupts)));
        rig.write(IVAR::at(0), 0x80);
        rig.write(EIMS_EX::at(0), 1);
        rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18));
        rig.step();
        rig.write(EIMC_EX::at(0), 1);
        rig.write(EIMS_EX::at(0), 1);
        assert_eq!(rig.linted(Rule::CauseNotCleared), expected);
    }
}

struct NoInterrupts;

impl crate::Interrupts for NoInterrupts {
    fn raise(&mut self, _vector: u16) {}
}

#[test]
fn legacy_descriptors_have_no_place_for_a_hash() {
    let mut rig = Rig::cold();
    for (offset, value) in rss() {
        rig.write(offset, value);
    }
    rig.enable_rx(0, SRRCTL::DESCTYPE_LEGACY | 2, 0);
    rig.start_receive();
    assert!(rig.linted(Rule::LegacyDescriptorWithRss));
}

#[test]
fn a_reset_wants_bus_mastering_off_and_seen_off() {
    for (disable, look, expected) in [(true, true, false), (true, false, true), (false, true, true)] {
        let mut rig = Rig::cold();
        if disable {
            rig.write(CTRL::AT, CTRL::PCIE_MASTER_DISABLE);
        }
        if look {
            rig.read(STATUS::AT);
        }
        let ctrl = if disable { CTRL::PCIE_MASTER_DISABLE } else { 0 };
        rig.write(CTRL::AT, ctrl | CTRL::RST);
        assert_eq!(rig.linted(Rule::ResetWithoutMasterDisable), expected, "{disable} {look}");
    }
}

#[test]
fn without_bus_mastering_no_memory_is_touched() {
    let mut rig = Rig::cold();
    rig.device.set_bus_master(false);
    let mut rig = rig.bring_up(1, &[]);
    rig.put_data(0, &[7; 60], tx::RS);
    rig.ring_tx(0);
    rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18));
    assert!(rig.sent().is_empty() && rig.receive(0).is_none());
    assert_eq!(found(&rig), [Rule::BusMasterOff], "{}", rig.device.lint());
    rig.device.set_bus_master(true);
    assert_eq!(rig.sent().len(), 1);
    assert!(rig.receive(0).is_some());
}

#[test]
fn rings_that_share_memory() {
    let rx = ([RDBAL::at(1), RDLEN::at(1), RXDCTL::at(1)], RXDCTL::ENABLE, rx_ring(0));
    let tx = ([TDBAL::at(1), TDLEN::at(1), TXDCTL::at(1)], TXDCTL::ENABLE, tx_ring(0));
    for ([base, len, control], enable, first) in [rx, tx] {
        // Behind the other ring, and where its last descriptors are.
        for (offset, expected) in [(16 * RING as u32, false), (16 * RING as u32 - 128, true)] {
            let mut rig = Rig::up(1);
            rig.write(base, first as u32 + offset);
            rig.write(len, 1024);
            rig.write(control, enable);
            rig.step();
            assert_eq!(rig.linted(Rule::RingsOverlap), expected, "{control:#x} {offset}");
        }
    }
}

/// As a driver with all registers trapped: each access is seen.
#[test]
fn the_enable_bit_is_read_before_anything_follows() {
    let mut rig = Rig::up(1);
    rig.write(RDH::at(0), 0);
    assert!(rig.linted(Rule::HeadWrittenWhileEnabled));
    for (read, expected) in [(true, false), (false, true)] {
        let mut rig = Rig::up(1);
        rig.write(RDBAL::at(1), rx_ring(1) as u32);
        rig.write(RDLEN::at(1), 1024);
        rig.write(RXDCTL::at(1), RXDCTL::ENABLE);
        if read {
            rig.read(RXDCTL::at(1));
        }
        rig.write(RDT::at(1), 5);
        assert_eq!(rig.linted(Rule::TailBeforeEnable), expected);
        rig.read(RXDCTL::at(1));
        rig.write(RXDCTL::at(1), 0);
        if read {
            rig.read(RXDCTL::at(1));
        }
        rig.memory.map_only(SHARE);
        rig.step();
        assert_eq!(rig.linted(Rule::DisableNotAwaited), expected);
    }
}

/// The same of sending: the bit is read before the ring's memory goes (4.6.8.1.2).
#[test]
fn a_transmit_queue_has_stopped_before_its_memory_goes() {
    for (read, expected) in [(true, false), (false, true)] {
        let mut rig = Rig::up(1);
        rig.write(TDBAL::at(1), tx_ring(1) as u32);
        rig.write(TDLEN::at(1), 1024);
        rig.write(TXDCTL::at(1), TXDCTL::ENABLE);
        rig.read(TXDCTL::at(1));
        rig.write(TXDCTL::at(1), 0);
        if read {
            rig.read(TXDCTL::at(1));
        }
        rig.memory.map_only(SHARE);
        rig.step();
        assert_eq!(rig.linted(Rule::DisableNotAwaited), expected);
    }
}

/// The tail rests: nobody was there, or somebody was and did not say so.
#[test]
fn a_tail_that_rests_on_filled_descriptors() {
    // None; what a driver keeps back until it tells of it, being left without buffers meanwhile; all.
    for (count, filled) in [(0, false), (RING / 3, false), (RING - 1, true)] {
        let mut rig = Rig::up(1);
        for _ in 0..2 * RING {
            rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18));
        }
        rig.step();
        assert!(rig.device.waiting() > 0 || !rig.cable.to_host.is_empty());
        for _ in 0..count {
            rig.refill(0);
        }
        for _ in 0..24 {
            rig.step();
        }
        assert!(!rig.linted(Rule::RxTailRests), "a moment proves nothing");
        rig.now += 10_000_000_000;
        rig.step();
        assert!(!rig.linted(Rule::RxTailRests), "a device that was stopped saw nothing meanwhile");
        for _ in 0..20_000 {
            rig.step();
        }
        assert_eq!(rig.linted(Rule::RxTailRests), filled);
        assert_eq!(rig.device.lint().is_empty(), !filled, "{}", rig.device.lint());
        rig.balance();
    }
}

/// A driver that comes late fills a whole ring before it tells, which takes the device many rounds.
#[test]
fn a_tail_that_rests_while_a_late_driver_fills_its_ring() {
    let mut rig = Rig::up(1);
    for _ in 0..2 * RING {
        rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18));
    }
    for _ in 0..20_000 {
        rig.step();
    }
    for _ in 0..RING - 1 {
        rig.refill(0);
    }
    for _ in 0..1000 {
        rig.step();
    }
    rig.ring_rx(0);
    rig.step();
    assert!(rig.device.lint().is_empty(), "{}", rig.device.lint());
    rig.balance();
}

/// A server resets the device between its clients, VFIO between its users, and waits.
#[test]
fn a_reset_by_pci_is_over_before_a_driver_comes() {
    let mut rig = Rig::up(1);
    rig.device.reset();
    rig.device.write(EIMC::AT, 0x7FFF_FFFF);
    rig.device.read(EICR::AT);
    assert!(rig.device.lint().is_empty(), "{}", rig.device.lint());
}

#[test]
fn a_whole_ring_is_given_at_once() {
    let mut rig = Rig::up(1);
    rig.refill(0);
    rig.ring_rx(0);
    rig.step();
    assert_eq!(found(&rig), [Rule::TailPassedHead]);
}

#[test]
fn a_sender_does_not_wait_for_the_device() {
    let mut rig = Rig::up(1);
    rig.cable.unplugged = true;
    rig.step();
    for _ in 0..RING - 1 {
        rig.put_data(0, &[7; 60], tx::RS);
    }
    rig.ring_tx(0);
    rig.step();
    assert!(!rig.linted(Rule::TailPassedHead));
    for _ in 0..8 {
        rig.put_data(0, &[7; 60], tx::RS);
    }
    rig.ring_tx(0);
    rig.step();
    assert!(rig.linted(Rule::TailPassedHead));
}

#[test]
fn descriptors_that_are_given_as_they_came_back() {
    let mut rig = Rig::up(1);
    (0..RING).for_each(|n| rig.memory.store(rx_ring(0) + 16 * n + 8, 3));
    rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18));
    rig.step();
    assert_eq!(found(&rig), [Rule::DoneBitInRxDescriptor]);

    let mut rig = Rig::up(1);
    rig.put_data(0, &[7; 60], tx::RS | tx::DD);
    rig.ring_tx(0);
    rig.step();
    assert_eq!(found(&rig), [Rule::DoneBitInTxDescriptor]);
}

#[test]
fn buffers_that_lie_in_each_other() {
    for (kib, rule) in [(2, None), (4, Some(Rule::RxBuffersOverlap))] {
        let mut rig = Rig::cold();
        rig.left_out = vec![SRRCTL::at(0)];
        rig.device.write(SRRCTL::at(0), SRRCTL::DESCTYPE_ADV_ONE_BUFFER | kib);
        let mut rig = rig.bring_up(1, &[]);
        rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18));
        run(&mut rig);
        assert_eq!(found(&rig), Vec::from_iter(rule), "{}", rig.device.lint());
    }
}

#[test]
fn a_threshold_wants_every_packet_reported() {
    for (report, expected) in [(tx::RS, false), (0, true)] {
        let mut rig = Rig::up(1);
        rig.bar.store(TXDCTL::at(0), TXDCTL::ENABLE | 4 << TXDCTL::WTHRESH_SHIFT);
        rig.step();
        rig.put_data(0, &[7; 60], tx::RS);
        rig.put_data(0, &[7; 60], report);
        rig.ring_tx(0);
        rig.step();
        assert_eq!(rig.linted(Rule::ReportStatusBelowWthresh), expected);
    }
}

#[test]
fn a_ring_full_of_packets_without_a_report() {
    for (every, expected) in [(u64::MAX, true), (32, false), (RING - 1, false)] {
        let mut rig = Rig::up(1);
        for n in 1..RING {
            rig.put_data(0, &[7; 60], if n.is_multiple_of(every) { tx::RS } else { 0 });
        }
        rig.ring_tx(0);
        rig.step();
        assert_eq!(rig.linted(Rule::TxReportStatusMissing), expected, "every {every}");
    }
    // With head write-back the device reports without the bit.
    let mut rig = Rig::up(1);
    rig.bar.store(TDWBAL::at(0), (IOVA + 0x8000) as u32 | TDWBAL::HEAD_WB_EN);
    rig.step();
    (0..3 * RING).for_each(|_| {
        rig.put_data(0, &[7; 60], 0);
        rig.ring_tx(0);
        rig.step();
    });
    assert!(!rig.linted(Rule::TxReportStatusMissing));
}

#[test]
fn frames_that_nobody_would_take() {
    let hlreg0 = HLREG0::TXCRCEN | HLREG0::RXCRCSTRP | HLREG0::TXPADEN;
    let cases = [
        (hlreg0, 60, tx::IFCS, Rule::FrameWithoutCrc),
        (hlreg0 & !HLREG0::TXCRCEN, 60, 0, Rule::TransmitCrcOff),
        (hlreg0 & !HLREG0::TXPADEN, 50, 0, Rule::TxRunt),
        (hlreg0, 1600, 0, Rule::TxAboveMaxFrame),
    ];
    for (hlreg0, len, cleared, rule) in cases {
        let mut rig = Rig::up_with(1, &[(HLREG0::AT, hlreg0)]);
        let at = rig.put_data(0, &vec![7; len], tx::RS);
        rig.memory.store(at + 8, rig.memory.load(at + 8) & !cleared);
        rig.ring_tx(0);
        rig.step();
        assert_eq!(found(&rig), [rule], "{}", rig.device.lint());
        rig.balance();
    }
}

#[test]
fn an_advanced_descriptor_that_says_it_is_legacy() {
    let mut rig = Rig::up(1);
    let at = rig.put_data(0, &[7; 60], tx::RS);
    rig.memory.store(at + 8, rig.memory.load(at + 8) & !tx::DEXT);
    rig.ring_tx(0);
    rig.step();
    assert!(rig.linted(Rule::UnsupportedDescriptorType));
}

#[test]
fn a_length_that_is_not_the_packets() {
    let mut rig = Rig::up(1);
    rig.put_data(0, &[7; 60], tx::RS | 61 << tx::PAYLEN_SHIFT);
    rig.ring_tx(0);
    rig.step();
    assert_eq!(found(&rig), [Rule::PaylenWrong]);
}

/// A UDP packet with its pseudo header's sum where the checksum goes.
fn seeded() -> Vec<u8> {
    let mut frame = udp([10, 0, 0, 1], [1, 2], 30);
    let pseudo = [&frame[26..34], &[0, 17, 0, 38]].concat();
    let sum = checksum(&[&pseudo]);
    frame[40..42].copy_from_slice(&[!sum[0], !sum[1]]);
    frame
}

#[test]
fn a_context_describes_the_packet_behind_it() {
    let context = |ip: u64, mac: u64, l4: u64| {
        let low = ip | mac << tx_context_low::MACLEN_SHIFT;
        [low, tx::DTYP_CONTEXT | tx::DEXT | tx_context_high::IPV4 | l4]
    };
    let udp4 = tx_context_high::L4T_UDP;
    let mut unseeded = seeded();
    unseeded[40..42].fill(0);
    let mut tagged = tagged(&seeded(), 5);
    tagged.truncate(72);
    // The bit that says IPv4, for the IP checksum alone.
    let [low, high] = context(20, 14, udp4);
    let unsaid = [low, high & !tx_context_high::IPV4];
    let both = tx::IXSM | tx::TXSM;
    for (asked, rule) in [(tx::TXSM, None), (both, Some(Rule::ContextNotOfPacket))] {
        assert_eq!(sent(unsaid, &seeded(), asked), Vec::from_iter(rule));
    }
    let cases = [
        (context(20, 14, udp4), seeded(), None),
        (context(20, 14, udp4), unseeded, Some(Rule::PseudoHeaderWrong)),
        (context(24, 14, udp4), seeded(), Some(Rule::ContextNotOfPacket)),
        (context(20, 14, tx_context_high::L4T_TCP), seeded(), Some(Rule::ContextNotOfPacket)),
        (context(20, 14, udp4), tagged, Some(Rule::ContextNotOfPacket)),
        (context(20, 0, udp4), seeded(), Some(Rule::ContextLengthsInvalid)),
    ];
    for (words, frame, rule) in cases {
        assert_eq!(sent(words, &frame, both), Vec::from_iter(rule));
    }
}

/// What is found when a frame is sent behind a context, with these offloads.
fn sent(context: [u64; 2], frame: &[u8], offloads: u64) -> Vec<Rule> {
    let mut rig = Rig::up(1);
    rig.put(0, context);
    rig.put_data(0, frame, tx::RS | offloads);
    rig.ring_tx(0);
    rig.step();
    found(&rig)
}
