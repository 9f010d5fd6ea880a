//! What must be in place when receive or transmit is turned on, and around a
//! reset: the rules of the initialisation's order.
//!
//! 82599 datasheet rev. 3.4, sections 4.6.3, 4.6.5, 4.6.7 and 4.6.8. Nothing here
//! changes what the device does.

use regs::ixgbe::*;

use super::Ixgbe;
use super::lint::{Register, Rule};
use super::system_time::violations;
use crate::{Dma, Pages};

/// KiB of the receive and the transmit packet buffers (8.2.3.8.9, 8.2.3.9.13).
const RX_BUFFERS: u32 = 512;
const TX_BUFFERS: u32 = 160;

/// Longest frame without JUMBOEN, with CRC and tag (8.2.3.22.13).
const TAGGED: u32 = 1522;

impl<D: Dma, P: Pages> Ixgbe<D, P> {
    /// Reports a rule broken at a register, with what the register holds.
    fn report_kept(&mut self, rule: Rule, offset: u32) {
        let value = self.registers.read(offset);
        self.host.counters.report(rule, Register::at(offset), u64::from(value));
    }

    fn has(&self, offset: u32, bit: u32) -> bool {
        self.registers.read(offset) & bit != 0
    }

    /// RXCTRL.RXEN was set: everything else should be in place (4.6.7).
    pub(super) fn check_receive_start(&mut self, value: u32) {
        self.inspect_queues();
        self.host.counters.lint.note_enabled(Register::of(RXCTRL::ID, 0), u64::from(value));
        self.host.counters.lint.note_receiving(self.now_ns);
        // Queues of pools are enabled by virtual functions, in their own time.
        if self.rx.active.is_empty() && !self.has_pools() {
            self.report_kept(Rule::EnableBeforeGlobal, RXCTRL::AT);
        }
        self.check_awaited();
        self.check_receive_unit();
        self.check_filters();
        self.check_rss();
        self.check_timestamps();
    }

    /// What the driver should have waited for or read before.
    fn check_awaited(&mut self) {
        let seen = *self.host.counters.lint.seen();
        for (was, rule, offset) in [
            (seen.eeprom, Rule::EepromNotAwaited, EEC::AT),
            (seen.dma_init, Rule::DmaInitNotAwaited, RDRXCTL::AT),
            (seen.counters, Rule::CountersNotCleared, GPRC::AT),
            (seen.rx_halted, Rule::RxPathNotHalted, RXCTRL::AT),
        ] {
            if !was {
                self.report_kept(rule, offset);
            }
        }
    }

    fn check_receive_unit(&mut self) {
        if self.has(HLREG0::AT, HLREG0::RXCRCSTRP) != self.has(RDRXCTL::AT, RDRXCTL::CRCSTRIP) {
            self.report_kept(Rule::DrxWithoutCrcAgreement, RDRXCTL::AT);
        }
        if self.has(RDRXCTL::AT, RDRXCTL::RSCFRSTSIZE_MASK) {
            self.report_kept(Rule::RscFirstSizeNotZero, RDRXCTL::AT);
        }
        let longest = self.registers.read(MAXFRS::AT) >> MAXFRS::MFS_SHIFT;
        if longest > TAGGED && !self.has(HLREG0::AT, HLREG0::JUMBOEN) {
            self.report_kept(Rule::JumboNotEnabled, MAXFRS::AT);
        }
        let size = |n| (self.registers.read(RXPBSIZE::at(n)) & RXPBSIZE::SIZE_MASK) >> RXPBSIZE::SIZE_SHIFT;
        self.check_buffers((0..RXPBSIZE::COUNT).map(size).sum(), size(0), RX_BUFFERS, RXPBSIZE::at(0));
    }

    fn check_buffers(&mut self, booked: u32, first: u32, limit: u32, offset: u32) {
        if booked > limit {
            self.host.counters.report(Rule::PacketBufferOverbooked, Register::at(offset), u64::from(booked));
        }
        if first == 0 {
            self.report_kept(Rule::PacketBufferMissing, offset);
        }
    }

    /// Tables whose contents after a reset are undefined, and addresses.
    fn check_filters(&mut self) {
        let unwritten = |offset: &u32| !self.registers.is_written(*offset);
        let table = (0..MTA::COUNT).map(MTA::at).find(unwritten);
        let vlans = (0..VFTA::COUNT).map(VFTA::at).find(unwritten);
        // An entry that is taken out keeps nothing in RAH.
        let invalid = |offset: &u32| {
            let high = self.registers.read(*offset);
            high & RAH::AV == 0 && high & RAH::ADDRESS_MASK != 0
        };
        let address = (0..RAH::COUNT).map(RAH::at).find(invalid);
        for (found, rule) in [
            (table, Rule::MulticastTableNotCleared),
            (vlans, Rule::VlanTableNotCleared),
            (address, Rule::ReceiveAddressNotValid),
        ] {
            if let Some(offset) = found {
                self.report_kept(rule, offset);
            }
        }
    }

    fn check_rss(&mut self) {
        if !self.rx.rss.enabled {
            return;
        }
        let unwritten = |offset: &u32| !self.registers.is_written(*offset);
        let key = (0..RSSRK::COUNT).map(RSSRK::at).find(unwritten);
        let table = (0..RETA::COUNT).map(RETA::at).find(unwritten);
        // A key of zeroes has a rule of its own.
        if let Some(offset) = key.filter(|_| !self.rx.rss.lacks_key()) {
            self.report_kept(Rule::RssKeyIncomplete, offset);
        }
        if let Some(offset) = table {
            self.report_kept(Rule::RedirectionIncomplete, offset);
        }
        if !self.has(RXCSUM::AT, RXCSUM::PCSD) {
            self.report_kept(Rule::RssHashNotReported, RXCSUM::AT);
        }
        let legacy = |n: &&u8| self.rx.queues[usize::from(**n)].legacy;
        if let Some(&n) = self.rx.active.iter().find(legacy) {
            let offset = SRRCTL::at(n.into());
            let value = self.host.pages.load(offset);
            self.host.counters.report(Rule::LegacyDescriptorWithRss, Register::at(offset), u64::from(value));
        }
    }

    /// What has timestamps put behind frames (X550).
    pub(super) fn check_timestamps(&mut self) {
        for rule in violations(self.system_time, &self.registers) {
            self.host.counters.report(
                rule,
                Register::of(TSYNCRXCTL::ID, 0),
                u64::from(self.registers.read(TSYNCRXCTL::AT)),
            );
        }
    }

    /// DMATXCTL.TE was set (4.6.8).
    pub(super) fn check_transmit_start(&mut self) {
        let size = |n| (self.registers.read(TXPBSIZE::at(n)) & TXPBSIZE::SIZE_MASK) >> TXPBSIZE::SIZE_SHIFT;
        self.check_buffers((0..TXPBSIZE::COUNT).map(size).sum(), size(0), TX_BUFFERS, TXPBSIZE::at(0));
    }

    /// CTRL_EXT.NS_DIS, a while after receive was turned on: 4.6.7 lists it
    /// behind RXEN.
    pub(super) fn check_no_snoop(&mut self) {
        let value = self.registers.read(CTRL_EXT::AT);
        if self.host.counters.lint.take_receiving() && value & CTRL_EXT::NS_DIS == 0 {
            self.host.counters.report(Rule::NoSnoopLeftOn, Register::of(CTRL_EXT::ID, 0), u64::from(value));
        }
    }

    /// A read that shows the driver what it should wait for.
    pub(super) fn note_seen(&mut self, id: Id, value: u32) {
        let halted = self.has(SECRXCTRL::AT, SECRXCTRL::RX_DIS);
        let seen = self.host.counters.lint.seen_mut();
        match id {
            EEC::ID => seen.eeprom |= value & EEC::AUTO_RD != 0,
            RDRXCTL::ID => seen.dma_init |= value & RDRXCTL::DMAIDONE != 0,
            GPRC::ID => seen.counters = true,
            STATUS::ID => seen.master_off |= value & STATUS::PCIE_MASTER_ENABLE == 0,
            SECRXSTAT::ID => seen.rx_halted |= halted && value & SECRXSTAT::SECRX_RDY != 0,
            _ => {}
        }
    }
}
