//! Registers, resets, interrupts and the link, as a driver meets them.
//!
//! 82599 datasheet rev. 3.4, chapters 4, 7.3 and 8. What each component does by
//! itself is tested beside it.

use std::sync::mpsc::{Sender, channel};

use super::*;
use crate::{Chip, Interrupts};

#[test]
fn a_reset_forgets_the_driver() {
    let mut rig = Rig::up(2);
    rig.cable.backpressure = false;
    for _ in 0..100 {
        rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18));
    }
    rig.step();
    assert_eq!(rig.device.queues(), (2, 2));
    rig.write(CTRL::AT, CTRL::RST | CTRL::LRST);
    assert!(rig.linted(Rule::ResetWithoutMasterDisable));
    assert_eq!(rig.device.read(CTRL::AT) & (CTRL::RST | CTRL::LRST), 0);
    rig.now += 20_000_000;
    rig.step();
    assert_eq!(rig.device.queues(), (0, 0));
    for offset in [FCTRL::AT, RXCTRL::AT, RDLEN::at(0), RDT::at(1), RXDCTL::at(0), TDT::at(0), GPRC::AT] {
        assert_eq!(rig.device.read(offset), 0, "{offset:#x}");
    }
    assert_eq!(rig.device.read(RAL::at(0)), u32::from_le_bytes([2, 0x49, 0x58, 0]));
    assert_ne!(rig.device.read(RAH::at(0)) & RAH::AV, 0);
    assert_ne!(rig.device.read(RDRXCTL::AT) & RDRXCTL::DMAIDONE, 0);
    assert_eq!(rig.device.drops().rx_reset, 100 - (RING - 1));
    rig.balance();
}

#[test]
fn all_interrupts_may_be_masked_with_all_ones() {
    let mut rig = Rig::cold();
    rig.write(EIMC::AT, u32::MAX);
    assert!(!rig.linted(Rule::ReservedBitsWritten));
    rig.write(EIMS::AT, 1 << 31);
    assert!(rig.linted(Rule::ReservedBitsWritten));
}

#[test]
fn reserved_bits_are_found_by_the_table() {
    // A packet buffer of 512 where its unit is a KiB, which begins at bit 10; a ring longer than
    // its field; a vector with the bit between number and VALID.
    for (offset, value) in [(RXPBSIZE::at(0), 512), (RDLEN::at(5), 1 << 20), (IVAR::at(3), 0xC1)] {
        let mut rig = Rig::cold();
        rig.write(offset, value);
        assert!(rig.linted(Rule::ReservedBitsWritten), "{offset:#x}");
    }
}

#[test]
fn old_places_show_the_same() {
    let mut rig = Rig::cold();
    rig.write(MRQC_ALIAS::AT, 0x0033_0001);
    assert_eq!(rig.device.read(MRQC::AT), 0x0033_0001);
    rig.write(RAL::at(3), 77);
    assert_eq!(rig.device.read(RAL_ALIAS::at(3)), 77);
    rig.write(SRRCTL_ALIAS::at(2), 9);
    assert_eq!(rig.device.read(SRRCTL::at(2)), 9);
    rig.write(CTRL_ALIAS::AT, CTRL::PCIE_MASTER_DISABLE);
    assert_eq!(rig.device.read(CTRL::AT), CTRL::PCIE_MASTER_DISABLE);
    assert!(rig.device.lint().is_empty(), "{}", rig.device.lint());
}

#[test]
fn transmit_queues_wait_for_the_unit() {
    let mut rig = Rig::cold();
    rig.write(TDBAL::at(0), tx_ring(0) as u32);
    rig.write(TDLEN::at(0), 1024);
    rig.write(TXDCTL::at(0), TXDCTL::ENABLE);
    assert_eq!(rig.device.read(TXDCTL::at(0)) & TXDCTL::ENABLE, 0);
    assert!(rig.linted(Rule::TxEnableBeforeDma));
    rig.write(DMATXCTL::AT, DMATXCTL::TE);
    rig.step();
    assert_ne!(rig.device.read(TXDCTL::at(0)) & TXDCTL::ENABLE, 0);
}

#[test]
fn a_mapped_queue_is_seen_within_100_us() {
    use crate::Pages;
    let mut rig = Rig::up(1);
    for (offset, value) in
        [(RDBAL::at(70), rx_ring(5) as u32), (RDLEN::at(70), 1024), (RXDCTL::at(70), RXDCTL::ENABLE)]
    {
        rig.bar.store(offset, value);
    }
    rig.device.step(&mut rig.cable, rig.now + 50_000);
    assert_eq!(rig.device.queues().0, 2);
    rig.bar.store(RXDCTL::at(70), 0);
    rig.device.step(&mut rig.cable, rig.now + 100_000);
    assert_eq!(rig.device.queues().0, 1);
    // A clock that stands still does not stop the rounds.
    rig.bar.store(RXDCTL::at(70), RXDCTL::ENABLE);
    for _ in 0..128 {
        rig.device.step(&mut rig.cable, rig.now + 100_000);
    }
    assert_eq!(rig.device.queues().0, 2);
}

#[test]
fn counters_clear_when_read_and_show_in_the_page() {
    use crate::Pages;
    let mut rig = Rig::up(1);
    for _ in 0..5 {
        rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18));
    }
    for _ in 0..5 {
        rig.put_data(0, &[7; 60], 0);
    }
    rig.ring_tx(0);
    rig.step();
    rig.step();
    assert_eq!(rig.bar.load(QPRC::at(0)), 5);
    assert_eq!(rig.bar.load(QBRC_L::at(0)), 5 * 64);
    assert_eq!(rig.bar.load(QPTC_ALIAS::at(0)), 5);
    for offset in [GPRC::AT, PRC64::AT, QPRC::at(0), GPTC::AT, QPTC_ALIAS::at(0)] {
        assert_eq!(rig.device.read(offset), 5, "{offset:#x}");
        assert_eq!(rig.device.read(offset), 0, "{offset:#x}");
    }
    assert_eq!((rig.bar.load(QPRC::at(0)), rig.bar.load(QPTC_ALIAS::at(0))), (0, 0));
    assert_eq!(rig.device.totals().rx_packets, 5);
}

struct MsixSink(Sender<u16>);

impl Interrupts for MsixSink {
    fn raise(&mut self, vector: u16) {
        self.0.send(vector).expect("the test listens");
    }
}

#[test]
fn queues_interrupt() {
    let (mouth, ears) = channel();
    let mut rig = Rig::up(1);
    rig.device.set_interrupts(Some(Box::new(MsixSink(mouth))));
    rig.write(GPIE::AT, GPIE::MULTIPLE_MSIX);
    rig.write(IVAR::at(0), 0x80 | 3 | 0x84 << 8);
    rig.write(EIMS::AT, 1 << 3 | 1 << 4);
    rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18));
    rig.step();
    assert_eq!(ears.try_iter().collect::<Vec<_>>(), [3]);
    rig.put_data(0, &udp([10, 0, 0, 1], [1, 2], 18), descriptor::tx::RS);
    rig.ring_tx(0);
    rig.step();
    assert_eq!(ears.try_iter().collect::<Vec<_>>(), [4]);
}

#[test]
fn the_link_comes_and_goes() {
    let mut rig = Rig::up(1);
    assert_ne!(rig.device.read(LINKS::AT) & LINKS::LINK_UP, 0);
    rig.device.read(EICR::AT);
    rig.cable.unplugged = true;
    rig.step();
    assert_eq!(rig.device.read(LINKS::AT) & LINKS::LINK_UP, 0);
    assert_ne!(rig.device.read(EICR::AT) & EICR::LSC, 0);
    rig.cable.unplugged = false;
    rig.step();
    rig.now += LINK_NS;
    rig.step();
    rig.device.read(LINKS::AT);
    assert_ne!(rig.device.read(LINKS::AT) & LINKS::LINK_UP, 0);
}

#[test]
fn the_table_is_minded() {
    let mut rig = Rig::cold();
    rig.write(STATUS::AT, 1);
    assert!(rig.linted(Rule::ReadOnlyWritten));
    rig.write(RXCTRL::AT, 0x80);
    assert!(rig.linted(Rule::ReservedBitsWritten));
    rig.write(0x1_FFF0, 1);
    assert!(rig.linted(Rule::UnknownRegister));
    assert_eq!(rig.device.read(2), u32::MAX);
    assert!(rig.linted(Rule::UnalignedAccess));
    rig.write(RXCTRL::AT, RXCTRL::RXEN);
    assert!(rig.linted(Rule::EnableBeforeGlobal) && rig.linted(Rule::DrxWithoutCrcAgreement));
}

#[test]
fn an_access_of_part_of_a_register_is_not_an_unaligned_one() {
    let bytes = |rig: &mut Rig, offset, data: &mut [u8]| {
        let written = Chip::<Cable>::write_bytes(&mut rig.device, offset, data);
        (Chip::<Cable>::read_bytes(&mut rig.device, offset, data), written)
    };
    for (offset, len, rule) in [
        (RETA::at(1), 2, Rule::NarrowAccess),
        (RETA::at(1), 1, Rule::NarrowAccess),
        (RETA::at(1) + 2, 2, Rule::UnalignedAccess),
        (RETA::at(1) + 1, 4, Rule::UnalignedAccess),
    ] {
        let mut rig = Rig::cold();
        assert_eq!(bytes(&mut rig, offset, &mut [0xFF; 8][..len]), (false, false));
        let found: Vec<_> = rig.device.lint().findings().groups().iter().map(|group| group.rule).collect();
        assert_eq!(found, [rule], "{len} bytes at {offset:#x}");
        assert_eq!(rig.device.read(RETA::at(1)), 0, "a part is not kept");
    }
    let mut rig = Rig::cold();
    assert_eq!(bytes(&mut rig, RETA::at(1), &mut [1; 8]), (true, true));
    assert_eq!((rig.device.read(RETA::at(2)), rig.device.lint().is_empty()), (0x0101_0101, true));
}
