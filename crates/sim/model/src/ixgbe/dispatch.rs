//! Accesses to BAR 0: which component a register belongs to, and what reading
//! or writing it sets off.
//!
//! 82599 datasheet rev. 3.4, chapter 8. What no component owns is kept in
//! [`super::registers`]; the datasheet's table tells what software must not do.

use regs::Access;
use regs::ixgbe::*;

use super::link::Effects;
use super::lint::{Register, Rule};
use super::queue::RegisterRing;
use super::registers::{canonical, is_polled};
use super::sriov::Sriov;
use super::statistics::Counter;
use super::system_time::APPENDS;
use super::{ENABLE, Ixgbe};
use crate::{Dma, Pages};

impl<D: Dma, P: Pages> Ixgbe<D, P> {
    /// Reads four bytes of BAR 0, with all side effects.
    pub fn read(&mut self, offset: u32) -> u32 {
        if offset & 3 != 0 || offset >= BAR0_LEN {
            self.report_unknown_offset(offset, 0);
            return u32::MAX;
        }
        let Some((id, n)) = lookup(offset).map(canonical) else {
            return self.read_unknown(offset);
        };
        let (value, register) = (self.read_register(id, n), Register::of(id, n));
        self.host.counters.lint.note_access(register, u64::from(value), self.now_ns);
        self.note_seen(id, value);
        // EICS is read by drivers of all houses to see causes uncleared.
        if id.access == Access::WO && id != EICS::ID {
            self.host.counters.report(Rule::WriteOnlyRead, register, u64::from(value));
        }
        value
    }

    /// Writes four bytes of BAR 0, with all side effects.
    pub fn write(&mut self, offset: u32, value: u32) {
        if offset & 3 != 0 || offset >= BAR0_LEN {
            return self.report_unknown_offset(offset, value);
        }
        let Some((id, n)) = lookup(offset).map(canonical) else {
            return self.write_unknown(offset, value);
        };
        self.host.counters.lint.note_access(Register::of(id, n), u64::from(value), self.now_ns);
        self.check_write(id, n, value);
        if is_polled(id.at(n)) {
            self.write_polled(id, n, value);
        } else {
            self.write_register(id, n, value);
        }
    }

    /// An access beside all registers.
    #[cold]
    fn report_unknown_offset(&mut self, offset: u32, value: u32) {
        let rule = if offset & 3 != 0 { Rule::UnalignedAccess } else { Rule::UnknownRegister };
        self.host.counters.report(rule, Register::Unknown(offset), u64::from(value));
    }

    /// What no table knows shows what was written there.
    #[cold]
    fn read_unknown(&mut self, offset: u32) -> u32 {
        let value = if is_polled(offset) {
            self.publish_heads();
            self.host.pages.load(offset)
        } else {
            self.registers.read(offset)
        };
        let register = Register::Unknown(offset);
        self.host.counters.lint.note_access(register, u64::from(value), self.now_ns);
        self.host.counters.report(Rule::UnknownRegister, register, 0);
        value
    }

    #[cold]
    fn write_unknown(&mut self, offset: u32, value: u32) {
        let register = Register::Unknown(offset);
        self.host.counters.lint.note_access(register, u64::from(value), self.now_ns);
        self.host.counters.report(Rule::UnknownRegister, register, u64::from(value));
        if is_polled(offset) {
            self.host.pages.store(offset, value);
        } else {
            self.registers.write(offset, value);
        }
    }

    /// Asks the components, one after the other, whether the register is theirs.
    fn read_register(&mut self, id: Id, n: usize) -> u32 {
        let now = self.now_ns;
        if let Some(value) = self.link.read(id, now) {
            let of_vfs = self.sriov.as_ref().filter(|_| id == STATUS::ID).map_or(0, Sriov::status);
            return value | of_vfs;
        }
        if let Some(value) = self.host.counters.interrupts.read(id, n, now) {
            return value;
        }
        self.flush_counters();
        let polled = is_polled(id.at(n));
        if let Some(value) = self.host.counters.statistics.read(id, n) {
            if polled {
                self.host.pages.store(id.at(n), 0);
            }
            return value;
        }
        if polled {
            return self.read_polled(id, n);
        }
        if let Some(value) = self.sriov.as_ref().and_then(|sriov| sriov.read(id, n)) {
            return value;
        }
        if let Some(value) = self.system_time.read(id, now) {
            self.check_system_time(id, value);
            return value;
        }
        let parts = self.eeprom.read(id).or_else(|| self.i2c.read(id));
        let parts = parts.or_else(|| self.mdio.read(id)).or_else(|| self.semaphore.read(id));
        parts.unwrap_or_else(|| self.read_kept(id, n))
    }

    /// Registers that are kept, some with bits of the device's own.
    fn read_kept(&self, id: Id, n: usize) -> u32 {
        let kept = self.registers.read(id.at(n));
        match id {
            // Nothing is ever between the blocks here, so both rest at once.
            SECRXSTAT::ID if self.registers.read(SECRXCTRL::AT) & SECRXCTRL::RX_DIS != 0 => {
                SECRXSTAT::SECRX_RDY
            }
            SECTXSTAT::ID if self.registers.read(SECTXCTRL::AT) & SECTXCTRL::TX_DIS != 0 => {
                SECTXSTAT::SECTX_RDY
            }
            SECRXSTAT::ID | SECTXSTAT::ID | HLREG1::ID => 0,
            RDRXCTL::ID => kept | RDRXCTL::DMAIDONE,
            FDIRCTRL::ID => kept | FDIRCTRL::INIT_DONE,
            FDIRCMD::ID => kept & !FDIRCMD::CMD_MASK,
            FRTIMER::ID => (self.now_ns / 1000) as u32,
            RTTBCNRC::ID => self.registers.selected_rate(),
            _ => kept,
        }
    }

    fn read_polled(&mut self, id: Id, n: usize) -> u32 {
        self.publish_heads();
        let value = self.host.pages.load(id.at(n));
        let is_control = matches!(id, RXDCTL::ID | TXDCTL::ID);
        let Some(ring) = self.ring(id, n).filter(|_| is_control) else { return value };
        ring.unread = false;
        // What the queue does, not what was asked of it.
        value & !ENABLE | if ring.enabled { ENABLE } else { 0 }
    }

    /// The ring that one of these registers belongs to.
    fn ring(&mut self, id: Id, n: usize) -> Option<&mut RegisterRing<D::Window>> {
        match id {
            RDH::ID | RDT::ID | RXDCTL::ID => Some(&mut self.rx.queues[n].ring),
            TDH::ID | TDT::ID | TXDCTL::ID => Some(&mut self.tx.queues[n].ring),
            _ => None,
        }
    }

    /// What the datasheet's table says about a write.
    fn check_write(&mut self, id: Id, n: usize, value: u32) {
        if matches!(id.access, Access::RO | Access::RC) {
            self.host.counters.report(Rule::ReadOnlyWritten, Register::of(id, n), u64::from(value));
        }
        // Reserved bits must keep their reset value, which is zero wherever the
        // table knows of them. In EIMC a 1 only takes away, so that all ones is
        // how 4.6.3.1 has interrupts masked; EITR has a rule of its own.
        let of_x550 = if id == TSYNCRXCTL::ID && !self.system_time.is_there() { APPENDS } else { 0 };
        if value & (id.reserved | of_x550) != 0 && !matches!(id, EIMC::ID | EITR::ID) {
            self.host.counters.report(Rule::ReservedBitsWritten, Register::of(id, n), u64::from(value));
        }
    }

    fn check_system_time(&mut self, id: Id, value: u32) {
        if let Some(rule) = self.system_time.violation() {
            self.host.counters.report(rule, Register::of(id, 0), u64::from(value));
        }
    }

    /// Asks the components, one after the other, whether the register is theirs.
    fn write_register(&mut self, id: Id, n: usize, value: u32) {
        let now = self.now_ns;
        let mastered = !(self.link.master_disabled() && self.host.counters.lint.seen().master_off);
        if let Some(effects) = self.link.write(id, value, now) {
            return self.after_link_write(effects, mastered, value);
        }
        if self.host.counters.interrupts.write(id, n, value, now) {
            return self.after_interrupt_write(id, n, value);
        }
        if self.system_time.write(id, value, now) {
            self.stale = true;
            return self.check_system_time(id, value);
        }
        let of_vfs = self.sriov.as_ref().map(|sriov| sriov.write(&mut self.host.counters, id, n, value));
        let owned = of_vfs == Some(true)
            || self.host.counters.statistics.write(id, n, value)
            || self.eeprom.write(id, value)
            || self.i2c.write(id, value)
            || self.mdio.write(id, value)
            || self.semaphore.write(id, value);
        for rule in [self.eeprom.violation(), self.semaphore.violation()].into_iter().flatten() {
            self.host.counters.report(rule, Register::of(id, n), u64::from(value));
        }
        if !owned {
            self.write_kept(id, n, value);
        }
    }

    fn after_link_write(&mut self, effects: Effects, mastered: bool, value: u32) {
        if let Some(reset) = effects.reset {
            if mastered {
                let ctrl = Register::of(CTRL::ID, 0);
                self.host.counters.report(Rule::ResetWithoutMasterDisable, ctrl, u64::from(value));
            }
            self.reset_device(reset);
        }
        if effects.lsc {
            self.link_changed();
        }
    }

    fn after_interrupt_write(&mut self, id: Id, n: usize, value: u32) {
        let register = Register::of(id, n);
        if let Some(rule) = self.host.counters.interrupts.violation() {
            self.host.counters.report(rule, register, u64::from(value));
        }
        match id {
            EIMC::ID => self.host.counters.lint.note_masked(),
            EIMS::ID | EIMS_EX::ID => self.host.counters.lint.note_enabled(register, u64::from(value)),
            _ => {}
        }
    }

    fn write_kept(&mut self, id: Id, n: usize, value: u32) {
        let offset = id.at(n);
        let before = self.registers.read(offset);
        let receiving = self.registers.read(RXCTRL::AT) & RXCTRL::RXEN != 0
            && self.registers.read(SECRXCTRL::AT) & SECRXCTRL::RX_DIS == 0;
        match id.access {
            Access::RO => return,
            Access::W1C => self.registers.write(offset, before & !value),
            _ => self.registers.write(offset, value),
        }
        self.registers.note_written(offset);
        if let Some(rule) = self.check_kept(id, receiving).filter(|_| before != value) {
            self.host.counters.report(rule, Register::of(id, n), u64::from(value));
        }
        match id {
            RTTBCNRC::ID => self.registers.set_rate(self.registers.read(RTTDQSEL::AT) as usize, value),
            RXCTRL::ID if value & !before & RXCTRL::RXEN != 0 => self.check_receive_start(value),
            TSAUXC::ID => self.system_time.control(value, self.now_ns),
            TSYNCRXCTL::ID if receiving => self.check_timestamps(),
            SECRXCTRL::ID if value & SECRXCTRL::RX_DIS == 0 => {
                self.host.counters.lint.seen_mut().rx_halted = false;
            }
            _ => {}
        }
        self.stale = true;
        if id == DMATXCTL::ID {
            if value & !before & DMATXCTL::TE != 0 {
                self.check_transmit_start();
            }
            // A queue may have been waiting for this.
            self.inspect_queues();
        }
    }

    /// What is broken by changing a register that is kept, now.
    fn check_kept(&self, id: Id, receiving: bool) -> Option<Rule> {
        let arbitrating = || self.registers.read(RTTDCS::AT) & RTTDCS::ARBDIS == 0;
        match id {
            FCTRL::ID if receiving => Some(Rule::FilterChangedWhileReceiving),
            RDRXCTL::ID | RXPBSIZE::ID if receiving => Some(Rule::RegisterNeedsRxDisabled),
            // They may change only while the arbiter rests (8.2.3.9.15).
            DTXMXSZRQ::ID | MTQC::ID | TXPBSIZE::ID if arbitrating() => Some(Rule::ArbiterNotDisabled),
            _ => None,
        }
    }

    /// A ring register, by a driver that has not mapped its page. Here the
    /// order of events is exact.
    fn write_polled(&mut self, id: Id, n: usize, value: u32) {
        if id.access == Access::RC {
            return;
        }
        self.host.pages.store(id.at(n), value);
        let Some(ring) = self.ring(id, n) else { return };
        let (enabled, unread) = (ring.enabled, ring.unread);
        let rule = match id {
            RDH::ID | TDH::ID => enabled.then_some(Rule::HeadWrittenWhileEnabled),
            RDT::ID | TDT::ID if enabled => (unread && value != 0).then_some(Rule::TailBeforeEnable),
            _ => {
                if matches!(id, RDT::ID | RXDCTL::ID) {
                    self.inspect_rx(n)
                } else {
                    self.inspect_tx(n)
                }
                None
            }
        };
        if let (RXDCTL::ID | TXDCTL::ID, Some(ring)) = (id, self.ring(id, n)) {
            ring.unread |= ring.enabled != enabled;
        }
        if let Some(rule) = rule {
            self.host.counters.report(rule, Register::of(id, n), u64::from(value));
        }
    }

    /// The counters in the polled pages: a read there cannot clear them, so
    /// they show what was counted since the last trapped read.
    pub(super) fn show_counters(&mut self) {
        let statistics = &self.host.counters.statistics;
        for n in 0..QPRC::COUNT {
            let bytes = statistics.peek(Counter::qbrc(n));
            for (offset, value) in [
                (QPRC::at(n), statistics.peek(Counter::qprc(n)) as u32),
                (QBRC_L::at(n), bytes as u32),
                (QBRC_H::at(n), (bytes >> 32) as u32),
                (QPRDC::at(n), statistics.peek(Counter::qprdc(n)) as u32),
                (QPTC_ALIAS::at(n), statistics.peek(Counter::qptc(n)) as u32),
            ] {
                if self.host.pages.load(offset) != value {
                    self.host.pages.store(offset, value);
                }
            }
        }
    }

    /// A cause of an interrupt from outside the device: the cage was opened or
    /// filled.
    pub fn set_module(&mut self, module: Option<super::i2c::module::Module>) {
        let changed = self.link.set_module(module.is_some(), self.now_ns);
        self.i2c.set_module(module);
        self.host.counters.interrupts.cause_other(EICR::GPI_SDP2);
        if changed {
            self.link_changed();
        }
    }
}
