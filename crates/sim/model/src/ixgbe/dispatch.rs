//! Accesses to BAR 0: which component a register belongs to, and what reading
//! or writing it sets off.
//!
//! 82599 datasheet rev. 3.4, chapter 8. What no component owns is kept in
//! [`super::registers`]; the datasheet's table tells what software must not do.

use regs::Access;
use regs::ixgbe::*;

use super::link::Effects;
use super::lint::{Register, Rule};
use super::registers::{canonical, is_polled};
use super::statistics::Counter;
use super::{ENABLE, Ixgbe, interrupts};
use crate::{Dma, Pages};

/// What may change only while the arbiter rests (8.2.3.9.15).
const ARBITRATED: [&str; 3] = ["DTXMXSZRQ", "MTQC", "TXPBSIZE"];

/// Register and number within its array, as findings name it.
pub(super) fn named(offset: u32) -> Register {
    match lookup(offset) {
        None => Register::unknown(offset),
        Some((register, _)) if register.len() == 1 => Register::single(register.name, offset),
        Some((register, n)) => Register::indexed(register.name, n as u16, offset),
    }
}

impl<D: Dma, P: Pages> Ixgbe<D, P> {
    /// Reads four bytes of BAR 0, with all side effects.
    pub fn read(&mut self, offset: u32) -> u32 {
        if offset & 3 != 0 || offset >= BAR0_LEN {
            let rule = if offset & 3 != 0 { Rule::UnalignedAccess } else { Rule::UnknownRegister };
            self.books.report(rule, Register::unknown(offset), 0);
            return u32::MAX;
        }
        let offset = canonical(offset);
        let value = self.read_canonical(offset);
        self.books.lint.note_access(named(offset), u64::from(value), self.now_ns);
        self.note_seen(offset, value);
        match lookup(offset) {
            None => self.books.report(Rule::UnknownRegister, Register::unknown(offset), 0),
            // EICS is read by drivers of all houses to see causes uncleared.
            Some((register, _)) if register.access == Access::WO && offset != EICS::AT => {
                self.books.report(Rule::WriteOnlyRead, named(offset), u64::from(value));
            }
            Some(_) => {}
        }
        value
    }

    fn read_canonical(&mut self, offset: u32) -> u32 {
        let now = self.now_ns;
        if let Some(value) = self.link.read(offset, now) {
            return value;
        }
        if let Some(value) = self.books.interrupts.read(offset, now) {
            return value;
        }
        self.settle();
        if let Some(value) = self.books.statistics.read(offset) {
            if is_polled(offset) {
                self.pages.store(offset, 0);
            }
            return value;
        }
        if is_polled(offset) {
            return self.read_polled(offset);
        }
        let parts = self.eeprom.read(offset).or_else(|| self.i2c.read(offset));
        let parts = parts.or_else(|| self.mdio.read(offset)).or_else(|| self.semaphore.read(offset));
        parts.unwrap_or_else(|| self.read_kept(offset))
    }

    /// Registers that are kept, some with bits of the device's own.
    fn read_kept(&self, offset: u32) -> u32 {
        let kept = self.registers.read(offset);
        match offset {
            // Nothing is ever between the blocks here, so both rest at once.
            SECRXSTAT::AT if self.registers.read(SECRXCTRL::AT) & SECRXCTRL::RX_DIS != 0 => {
                SECRXSTAT::SECRX_RDY
            }
            SECRXSTAT::AT => 0,
            SECTXSTAT::AT if self.registers.read(SECTXCTRL::AT) & SECTXCTRL::TX_DIS != 0 => {
                SECTXSTAT::SECTX_RDY
            }
            SECTXSTAT::AT => 0,
            RDRXCTL::AT => kept | RDRXCTL::DMAIDONE,
            FDIRCTRL::AT => kept | FDIRCTRL::INIT_DONE,
            FDIRCMD::AT => kept & !FDIRCMD::CMD_MASK,
            FRTIMER::AT => (self.now_ns / 1000) as u32,
            HLREG1::AT => 0,
            _ => kept,
        }
    }

    fn read_polled(&mut self, offset: u32) -> u32 {
        self.publish_heads();
        let value = self.pages.load(offset);
        let (enabled, unread) = match lookup(offset) {
            Some((register, n)) if register.name == "RXDCTL" => {
                let ring = &mut self.rx.queues[n].ring;
                (ring.enabled, &mut ring.unread)
            }
            Some((register, n)) if register.name == "TXDCTL" => {
                let ring = &mut self.tx.queues[n].ring;
                (ring.enabled, &mut ring.unread)
            }
            _ => return value,
        };
        *unread = false;
        // What the queue does, not what was asked of it.
        value & !ENABLE | if enabled { ENABLE } else { 0 }
    }

    /// Writes four bytes of BAR 0, with all side effects.
    pub fn write(&mut self, offset: u32, value: u32) {
        if offset & 3 != 0 || offset >= BAR0_LEN {
            let rule = if offset & 3 != 0 { Rule::UnalignedAccess } else { Rule::UnknownRegister };
            self.books.report(rule, Register::unknown(offset), u64::from(value));
            return;
        }
        let offset = canonical(offset);
        self.books.lint.note_access(named(offset), u64::from(value), self.now_ns);
        self.check_write(offset, value);
        if is_polled(offset) {
            return self.write_polled(offset, value);
        }
        let now = self.now_ns;
        let mastered = !(self.link.master_disabled() && self.books.lint.seen().master_off);
        if let Some(effects) = self.link.write(offset, value, now) {
            return self.after_link_write(effects, mastered, value);
        }
        if self.books.interrupts.write(offset, value, now) {
            return self.after_interrupt_write(offset, value);
        }
        let owned = self.books.statistics.write(offset, value)
            || self.eeprom.write(offset, value)
            || self.i2c.write(offset, value)
            || self.mdio.write(offset, value)
            || self.semaphore.write(offset, value);
        for rule in [self.eeprom.violation(), self.semaphore.violation()].into_iter().flatten() {
            self.books.report(rule, named(offset), u64::from(value));
        }
        if !owned {
            self.write_kept(offset, value);
        }
    }

    /// What the datasheet's table says about a write.
    fn check_write(&mut self, offset: u32, value: u32) {
        let Some((register, _)) = lookup(offset) else {
            return self.books.report(Rule::UnknownRegister, Register::unknown(offset), u64::from(value));
        };
        if matches!(register.access, Access::RO | Access::RC) {
            self.books.report(Rule::ReadOnlyWritten, named(offset), u64::from(value));
        }
        // Reserved bits must keep their reset value, which is zero wherever the
        // table knows of them. In EIMC a 1 only takes away, so that all ones is
        // how 4.6.3.1 has interrupts masked.
        if value & register.reserved != 0 && offset != EIMC::AT {
            self.books.report(Rule::ReservedBitsWritten, named(offset), u64::from(value));
        }
    }

    fn after_link_write(&mut self, effects: Effects, mastered: bool, value: u32) {
        if let Some(reset) = effects.reset {
            if mastered {
                self.books.report(Rule::ResetWithoutMasterDisable, named(CTRL::AT), u64::from(value));
            }
            self.reset_device(reset);
        }
        if effects.lsc {
            self.link_changed();
        }
    }

    fn after_interrupt_write(&mut self, offset: u32, value: u32) {
        if let Some(rule) = self.books.interrupts.violation() {
            self.books.report(rule, named(offset), u64::from(value));
        }
        match lookup(offset).map(|(register, _)| register.name) {
            Some("EIMC") => self.books.lint.note_masked(),
            Some("EIMS" | "EIMS_EX") => self.books.lint.note_enabled(named(offset), u64::from(value)),
            _ => {}
        }
    }

    fn write_kept(&mut self, offset: u32, value: u32) {
        let before = self.registers.read(offset);
        let receiving = self.registers.read(RXCTRL::AT) & RXCTRL::RXEN != 0
            && self.registers.read(SECRXCTRL::AT) & SECRXCTRL::RX_DIS == 0;
        let register = lookup(offset);
        match register.map(|(register, _)| register.access) {
            Some(Access::RO) => return,
            Some(Access::W1C) => self.registers.write(offset, before & !value),
            _ => self.registers.write(offset, value),
        }
        self.registers.note_written(offset);
        let rule = match offset {
            FCTRL::AT if receiving => Some(Rule::FilterChangedWhileReceiving),
            RDRXCTL::AT if receiving => Some(Rule::RegisterNeedsRxDisabled),
            _ if receiving && register.is_some_and(|(register, _)| register.name == "RXPBSIZE") => {
                Some(Rule::RegisterNeedsRxDisabled)
            }
            _ if matches!(register, Some((register, _)) if ARBITRATED.contains(&register.name))
                && self.registers.read(RTTDCS::AT) & RTTDCS::ARBDIS == 0 =>
            {
                Some(Rule::ArbiterNotDisabled)
            }
            _ => None,
        };
        if let Some(rule) = rule.filter(|_| before != value) {
            self.books.report(rule, named(offset), u64::from(value));
        }
        if offset == RXCTRL::AT && value & !before & RXCTRL::RXEN != 0 {
            self.check_receive_start(value);
        }
        if offset == SECRXCTRL::AT && value & SECRXCTRL::RX_DIS == 0 {
            self.books.lint.seen_mut().rx_halted = false;
        }
        self.stale = true;
        if offset == DMATXCTL::AT {
            if value & !before & DMATXCTL::TE != 0 {
                self.check_transmit_start();
            }
            // A queue may have been waiting for this.
            self.survey();
        }
    }

    /// A ring register, by a driver that has not mapped its page. Here the
    /// order of events is exact.
    fn write_polled(&mut self, offset: u32, value: u32) {
        let Some((register, n)) = lookup(offset) else {
            return self.pages.store(offset, value);
        };
        if register.access == Access::RC {
            return;
        }
        self.pages.store(offset, value);
        let running = |enabled: bool, unread: bool| match (enabled, register.name) {
            (true, "RDH" | "TDH") => Some(Rule::HeadWrittenWhileEnabled),
            (true, "RDT" | "TDT") if unread && value != 0 => Some(Rule::TailBeforeEnable),
            _ => None,
        };
        let rule = match register.name {
            "RXDCTL" => {
                let before = self.rx.queues[n].ring.enabled;
                self.survey_rx(n);
                let ring = &mut self.rx.queues[n].ring;
                ring.unread |= ring.enabled != before;
                None
            }
            "TXDCTL" => {
                let before = self.tx.queues[n].ring.enabled;
                self.survey_tx(n);
                let ring = &mut self.tx.queues[n].ring;
                ring.unread |= ring.enabled != before;
                None
            }
            "RDT" if !self.rx.queues[n].ring.enabled => {
                self.survey_rx(n);
                None
            }
            "TDT" if !self.tx.queues[n].ring.enabled => {
                self.survey_tx(n);
                None
            }
            "RDH" | "RDT" => running(self.rx.queues[n].ring.enabled, self.rx.queues[n].ring.unread),
            "TDH" | "TDT" => running(self.tx.queues[n].ring.enabled, self.tx.queues[n].ring.unread),
            _ => None,
        };
        if let Some(rule) = rule {
            self.books.report(rule, named(offset), u64::from(value));
        }
    }

    /// The counters in the polled pages: a read there cannot clear them, so
    /// they show what was counted since the last trapped read.
    pub(super) fn show_counters(&mut self) {
        let statistics = &self.books.statistics;
        for n in 0..QPRC::COUNT {
            let bytes = statistics.peek(Counter::qbrc(n));
            for (offset, value) in [
                (QPRC::at(n), statistics.peek(Counter::qprc(n)) as u32),
                (QBRC_L::at(n), bytes as u32),
                (QBRC_H::at(n), (bytes >> 32) as u32),
                (QPRDC::at(n), statistics.peek(Counter::qprdc(n)) as u32),
                (QPTC_ALIAS::at(n), statistics.peek(Counter::qptc(n)) as u32),
            ] {
                if self.pages.load(offset) != value {
                    self.pages.store(offset, value);
                }
            }
        }
    }

    /// A cause of an interrupt from outside the device: the cage was opened or
    /// filled.
    pub fn set_module(&mut self, module: Option<super::i2c::module::Module>) {
        let changed = self.link.set_module(module.is_some(), self.now_ns);
        self.i2c.set_module(module);
        self.books.interrupts.cause_other(interrupts::GPI_SDP2);
        if changed {
            self.link_changed();
        }
    }
}
