//! Register accesses: who reads and who acts on what (datasheet 332464, chapter 10).

use regs::Access;
use regs::i40e::*;

use super::admin::{RECEIVE, SEND};
use super::interrupts::VECTORS;
use super::lint::{Location, Rule};
use super::registers::is_polled;
use super::ring::Awaited;
use super::tx::Owner;
use super::{I40e, QUEUES};
use crate::{Dma, Pages};

/// Intervals of vectors from 1 on: so many vectors for each.
const PER_INTERVAL: usize = PFINT_DYN_CTLN::COUNT;

/// Vectors of a virtual function, if there were any: DPDK's driver takes two away from the number,
/// and writes to as many registers.
const VF_VECTORS: u32 = 2;

/// Filters and contexts of FCoE for which there would be room.
const FCOE_FILTERS: u32 = 4096;

impl<D: Dma, P: Pages> I40e<D, P> {
    /// Reads a register.
    pub fn read(&mut self, offset: u32) -> u32 {
        let Some((id, n)) = lookup(offset) else {
            self.host.counters.report(Rule::UnknownRegister, Location::Offset(offset), 0);
            return 0;
        };
        if is_polled(offset) {
            return self.host.pages.load(offset);
        }
        if let Some(value) = self.read_of_vfs(id, n) {
            return value;
        }
        let counted = self.host.counters.statistics.read(id, n);
        if let Some(value) = counted.or_else(|| self.director.read(id, n)) {
            return value;
        }
        if let Some(value) = self.host.counters.time_sync.read(id, n) {
            self.host.counters.report_time_sync();
            return value;
        }
        let value = self.value(id, n, offset);
        self.note_read(id, n, value);
        value
    }

    /// What a register reads that no component of its own has.
    fn value(&mut self, id: Id, n: usize, offset: u32) -> u32 {
        match id {
            GLNVM_ULD::ID => GLNVM_ULD::CONF_CORE_DONE | GLNVM_ULD::CONF_GLOBAL_DONE,
            GLGEN_RSTAT::ID => {
                u32::from(self.reset_due_ns.is_some()) | self.last_reset << GLGEN_RSTAT::RESET_TYPE_SHIFT
            }
            PRTGEN_CNF::ID => {
                if n == 0 {
                    0
                } else {
                    PRTGEN_CNF::PORT_DIS
                }
            }
            GLNVM_GENS::ID => self.nvm.general(),
            GLNVM_FLA::ID => GLNVM_FLA::LOCKED,
            GLNVM_SRCTL::ID => GLNVM_SRCTL::DONE,
            GLNVM_SRDATA::ID => self.nvm.data(),
            GLPCI_CNF2::ID => {
                let vectors = (VECTORS as u32 - 2) << GLPCI_CNF2::MSI_X_PF_N_SHIFT;
                vectors | VF_VECTORS << GLPCI_CNF2::MSI_X_VF_N_SHIFT
            }
            GLHMC_LANQMAX::ID => QUEUES.into(),
            // Drivers refuse a card that has no room for the least, though none uses it.
            GLHMC_FCOEFMAX::ID => FCOE_FILTERS,
            GLGEN_PCIFCNCNT::ID => 1,
            PRTGL_SAH::ID => u32::from(self.link.max_frame) << PRTGL_SAH::MFS_SHIFT,
            GLVFGEN_TIMER::ID => (self.now_ns / 1000) as u32,
            GLHMC_LANTXOBJSZ::ID => context::tx::LEN.ilog2(),
            GLHMC_LANRXOBJSZ::ID => context::rx::LEN.ilog2(),
            PFLAN_QALLOC::ID => PFLAN_QALLOC::VALID | u32::from(QUEUES - 1) << PFLAN_QALLOC::LASTQ_SHIFT,
            PFINT_ICR0::ID => self.host.counters.interrupts.take_causes(),
            PFINT_DYN_CTL0::ID => self.host.counters.interrupts.read_control(0),
            PFINT_DYN_CTLN::ID => self.host.counters.interrupts.read_control(n + 1),
            PF_MDET_TX::ID => u32::from(self.host.counters.malicious),
            QTX_HEAD::ID => self.tx.queues.get(n).map_or(0, |queue| queue.ring.head),
            _ => self.registers.read(offset),
        }
    }

    /// Writes a register.
    pub fn write(&mut self, offset: u32, value: u32) {
        let Some((id, n)) = lookup(offset) else {
            self.host.counters.report(Rule::UnknownRegister, Location::Offset(offset), value.into());
            return;
        };
        if matches!(id.access, Access::RO | Access::RC) {
            self.host.counters.report(Rule::WriteToReadOnly, Location::Register(id, n as u16), value.into());
            return;
        }
        if is_polled(offset) {
            self.host.pages.store(offset, value);
            return;
        }
        if value & id.reserved != 0 {
            let place = Location::Register(id, n as u16);
            self.host.counters.report(Rule::ReservedBitsWritten, place, value.into());
        }
        self.act(id, n, offset, value);
    }

    /// Does what a register does when it is written; those that keep the value have it then.
    fn act(&mut self, id: Id, n: usize, offset: u32, value: u32) {
        let interrupts = &mut self.host.counters.interrupts;
        match id {
            PFGEN_CTRL::ID if value & PFGEN_CTRL::PFSWR != 0 => return self.reset_by_driver(),
            GLGEN_RTRIG::ID if value & (GLGEN_RTRIG::CORER | GLGEN_RTRIG::GLOBR) != 0 => {
                return self.announce_reset(value & GLGEN_RTRIG::GLOBR != 0);
            }
            GLNVM_SRCTL::ID => return self.nvm.control(value),
            GLNVM_FLA::ID => return,
            GLQF_PCNT::ID => return self.director.clear_counter(n, value),
            PFQF_CTL_1::ID => {
                if value & PFQF_CTL_1::CLEARFDTABLE != 0 {
                    self.director.clear();
                }
                return;
            }
            // What was told is not read back.
            GLLAN_TXPRE_QDIS::ID => return self.announce(n, value),
            PF_MDET_TX::ID => return self.host.counters.malicious &= value & PF_MDET_TX::VALID == 0,
            PFINT_DYN_CTL0::ID => {
                interrupts.control(0, value);
                return self.check_list(0, value);
            }
            PFINT_DYN_CTLN::ID => {
                interrupts.control(n + 1, value);
                return self.check_list(n + 1, value);
            }
            PF_ATQLEN::ID if value & !self.registers.read(offset) & PF_ATQLEN::ENABLE != 0 => {
                self.seen.check(&mut self.host.counters);
            }
            PFINT_ICR0_ENA::ID => interrupts.set_wanted(value),
            PFINT_ITRN::ID => {
                let units = (value & PFINT_ITRN::INTERVAL_MASK) as u16;
                interrupts.set_interval(n % PER_INTERVAL + 1, n / PER_INTERVAL, units);
                if value != u32::from(units) {
                    let place = Location::Register(id, n as u16);
                    self.host.counters.report(Rule::IntervalInvalid, place, value.into());
                }
            }
            _ if self.act_for_vfs(id, n, value) => return,
            _ => {}
        }
        self.registers.write(offset, value);
        self.act_on_written(id, n, offset, value);
    }

    /// What follows from a value that a register has now.
    fn act_on_written(&mut self, id: Id, n: usize, offset: u32, value: u32) {
        match id {
            PF_ATQLEN::ID => SEND.check(&self.registers, &mut self.host.counters),
            PF_ARQLEN::ID => RECEIVE.check(&self.registers, &mut self.host.counters),
            PF_ATQT::ID => self.run_commands(),
            PF_ARQT::ID if RECEIVE.moved(&self.registers, &mut self.host.counters).is_some() => {
                self.post_events();
            }
            PFHMC_SDCMD::ID => {
                let host = &mut self.host;
                self.hmc.command(value, &self.registers, &host.dma, &mut host.counters);
            }
            PFQF_CTL_0::ID | PFQF_HENA::ID | PFQF_HKEY::ID | PFQF_HLUT::ID => self.stale = true,
            PRTQF_FD_INSET::ID | GLQF_FD_MSK::ID | GLQF_HASH_INSET::ID => self.stale = true,
            PRTTSYN_CTL0::ID | PRTTSYN_CTL1::ID => self.host.counters.time_sync.configure(&self.registers),
            PRTTSYN_TIME_L::ID | PRTTSYN_TIME_H::ID | PRTTSYN_INC_L::ID | PRTTSYN_INC_H::ID => {
                self.host.counters.time_sync.write(id, value);
                self.host.counters.report_time_sync();
            }
            QINT_RQCTL::ID => self.rx.queues.get_mut(n).into_iter().for_each(|queue| queue.cause = value),
            QINT_TQCTL::ID => self.tx.queues.get_mut(n).into_iter().for_each(|queue| queue.cause = value),
            QRX_ENA::ID => self.enable_rx(n, offset, value & QRX_ENA::QENA_REQ != 0),
            QTX_ENA::ID => self.enable_tx(n, offset, value & QTX_ENA::QENA_REQ != 0),
            _ => {}
        }
    }

    /// The driver told that a transmit queue will be enabled or disabled.
    fn announce(&mut self, block: usize, value: u32) {
        let queue = block * 128 + (value & GLLAN_TXPRE_QDIS::QINDX_MASK) as usize % 128;
        if let Some(queue) = self.tx.queues.get_mut(queue) {
            if value & GLLAN_TXPRE_QDIS::CLEAR_QDIS != 0 {
                queue.announced = Some(true);
            } else if value & GLLAN_TXPRE_QDIS::SET_QDIS != 0 {
                queue.announced = Some(false);
            }
        }
    }

    fn enable_rx(&mut self, n: usize, offset: u32, on: bool) {
        let has_queue = self.switch.has_queue(n as u16);
        let Some(queue) = self.rx.queues.get_mut(n) else { return };
        let mut runs = queue.ring.enabled;
        if !on {
            if runs {
                queue.ring.awaited = Some(Awaited::Stop);
            }
            queue.ring.disable();
            runs = false;
        } else if !runs {
            if !has_queue {
                self.host.counters.report(Rule::ContextNotOfVsi, Location::Rx(n as u16), n as u64);
            }
            runs = queue.enable(n as u16, &self.hmc, &self.registers, &mut self.host);
            self.raise_hmc_error(runs);
        }
        let state = if runs { QRX_ENA::QENA_REQ | QRX_ENA::QENA_STAT } else { u32::from(on) };
        self.registers.write(offset, state);
    }

    fn enable_tx(&mut self, n: usize, offset: u32, on: bool) {
        let Some(queue) = self.tx.queues.get_mut(n) else { return };
        let mut runs = queue.ring.enabled;
        if !on {
            if runs && queue.announced != Some(false) {
                self.host.counters.report(Rule::TxDisableUnannounced, Location::Tx(n as u16), n as u64);
            }
            queue.announced = None;
            if runs {
                queue.ring.awaited = Some(Awaited::Stop);
            }
            queue.disable(&mut self.host.counters);
            runs = false;
        } else if !runs {
            let owner = Owner { hmc: &self.hmc, registers: &self.registers, sets: self.switch.queue_sets() };
            runs = queue.enable(n as u16, owner, &mut self.host);
            queue.ring.awaited = runs.then_some(Awaited::Start);
            self.raise_hmc_error(runs);
        }
        let state = if runs { QTX_ENA::QENA_REQ | QTX_ENA::QENA_STAT } else { u32::from(on) };
        self.registers.write(offset, state);
    }

    /// A queue did not start: its context cannot be used.
    pub(super) fn raise_hmc_error(&mut self, runs: bool) {
        if !runs {
            self.registers.write(PFHMC_ERRORINFO::AT, PFHMC_ERRORINFO::ERROR_DETECTED);
            self.host.counters.interrupts.cause(PFINT_ICR0::HMC_ERR);
        }
    }
}
