//! Registers by which the physical function rules the virtual ones: resets, mappings, queues, the
//! hash (datasheet 332464, chapter 10).

use regs::i40e::*;

use super::super::hmc::Objects;
use super::super::interrupts::VECTORS;
use super::super::lint::{Location, Rule};
use super::super::rss::Hash;
use super::super::statistics::{OF_FUNCTION, OF_MAIN};
use super::super::switch::FIRST_VF;
use super::super::{I40e, QUEUES};
use super::commands::queue_set;
use super::{Member, Sriov};
use crate::{Dma, Pages};

impl Sriov {
    /// The virtual functions of the card's block of 32, and the bit of each.
    fn block(&self, block: usize) -> impl Iterator<Item = (u32, &Member)> {
        let first = 32 * block;
        let numbered = (self.base..).zip(&self.vfs);
        numbered.filter(move |(n, _)| n / 32 == block).map(move |(n, vf)| (1 << (n - first), vf))
    }

    /// Which virtual functions of a block were reset by their drivers.
    fn resets(&self, block: usize) -> u32 {
        let reset = |vf: &Member| vf.slot.lock().reset_by_vf;
        self.block(block).filter(|(_, vf)| reset(vf)).fold(0, |bits, (bit, _)| bits | bit)
    }

    /// What a register reads of which the physical function itself knows nothing.
    fn read(&self, id: Id, n: usize) -> Option<u32> {
        let slot = |vf: &Member| vf.slot.clone();
        let at = |n: usize| self.vfs.get(n).map(slot);
        Some(match id {
            PF_VT_PFALLOC::ID => {
                let last = self.base + self.vfs.len() - 1;
                PF_VT_PFALLOC::VALID | self.base as u32 | (last as u32) << PF_VT_PFALLOC::LASTVF_SHIFT
            }
            VPGEN_VFRSTAT::ID => at(n).map_or(0, |_| VPGEN_VFRSTAT::VFRD),
            VFGEN_RSTAT1::ID => at(n)?.lock().state,
            GLGEN_VFLRSTAT::ID => self.resets(n),
            VP_MDET_TX::ID => u32::from(at(n)?.lock().malicious),
            _ if id.name.starts_with("GLV_") => {
                let slot = at(n.checked_sub(OF_MAIN + usize::from(FIRST_VF))?)?;
                let slot = slot.lock();
                let mut statistics = slot.statistics.clone();
                (statistics.refused, statistics.no_descriptor) =
                    (slot.refused, statistics.no_descriptor + slot.frames.full);
                statistics.read(id, OF_MAIN)?
            }
            GL_RXERR1L::ID | GL_RXERR1H::ID => {
                let slot = at(n.checked_sub(self.base)?)?;
                let slot = slot.lock();
                slot.statistics.read(id, OF_FUNCTION)?
            }
            GLPCI_CNF2::ID => {
                let own = (VECTORS as u32 - 2) << GLPCI_CNF2::MSI_X_PF_N_SHIFT;
                own | (u32::from(super::VF_VECTORS) - 2) << GLPCI_CNF2::MSI_X_VF_N_SHIFT
            }
            _ => return None,
        })
    }

    /// Resets a virtual function, tells it of a reset, or clears what it was told; `false` for
    /// other registers.
    fn write(&mut self, id: Id, n: usize, value: u32) -> bool {
        match id {
            VPGEN_VFRTRIG::ID if value & VPGEN_VFRTRIG::VFSWR != 0 => {
                self.vfs.get(n).into_iter().for_each(|vf| vf.slot.lock().reset());
                false
            }
            VFGEN_RSTAT1::ID => {
                let state = value & VFGEN_RSTAT1::VFR_STATE_MASK;
                self.vfs.get(n).into_iter().for_each(|vf| vf.slot.lock().state = state);
                true
            }
            GLGEN_VFLRSTAT::ID => {
                for (bit, vf) in self.block(n) {
                    vf.slot.lock().reset_by_vf &= value & bit == 0;
                }
                true
            }
            VP_MDET_TX::ID => {
                self.vfs.get(n).into_iter().for_each(|vf| vf.slot.lock().malicious &= value & 1 == 0);
                true
            }
            _ => false,
        }
    }

    /// A register of a virtual function's hash was written.
    fn write_hash(&self, id: Id, index: usize, value: u32) {
        let Some((n, vf)) = column(index) else { return };
        let Some(vf) = self.vfs.get(vf) else { return };
        let mut slot = vf.slot.lock();
        let Hash { classes, key, table, .. } = &mut slot.hash;
        let place = match id {
            VFQF_HENA1::ID => classes.get_mut(n),
            VFQF_HKEY1::ID => key.get_mut(n),
            _ => table.get_mut(n),
        };
        place.into_iter().for_each(|place| *place = value);
        slot.stale = true;
    }
}

impl<D: Dma, P: Pages> I40e<D, P> {
    /// What a register reads that is about virtual functions.
    pub(in super::super) fn read_of_vfs(&self, id: Id, n: usize) -> Option<u32> {
        let sriov = self.sriov.as_ref()?;
        let of_queue =
            |runs: bool, wanted: bool| u32::from(wanted) | if runs { QRX_ENA::QENA_STAT } else { 0 };
        match id {
            QRX_ENA::ID => {
                let (vf, queue) = sriov.owner(n, &self.registers)?;
                let queue = sriov.vfs[vf].slot.lock().rx[queue];
                Some(of_queue(queue.runs, queue.wanted.is_some()))
            }
            QTX_ENA::ID => {
                let (vf, queue) = sriov.owner(n, &self.registers)?;
                let queue = sriov.vfs[vf].slot.lock().tx[queue];
                Some(of_queue(queue.runs, queue.wanted.is_some()))
            }
            _ => sriov.read(id, n),
        }
    }

    /// Acts on the write of a register that is about virtual functions; `true` if nobody else does.
    pub(in super::super) fn act_for_vfs(&mut self, id: Id, n: usize, value: u32) -> bool {
        let Some(sriov) = &mut self.sriov else { return false };
        match id {
            QRX_ENA::ID | QTX_ENA::ID | QINT_RQCTL::ID | QINT_TQCTL::ID => {
                let Some((vf, queue)) = sriov.owner(n, &self.registers) else { return false };
                match id {
                    QRX_ENA::ID => self.want_rx(vf, queue, n, value & QRX_ENA::QENA_REQ != 0),
                    QTX_ENA::ID => self.want_tx(vf, queue, n, value & QTX_ENA::QENA_REQ != 0),
                    QINT_RQCTL::ID => sriov.vfs[vf].slot.lock().rx[queue].cause = value,
                    _ => sriov.vfs[vf].slot.lock().tx[queue].cause = value,
                }
                // What was written is read back, but for the bits that tell the state.
                id == QRX_ENA::ID || id == QTX_ENA::ID
            }
            // An X722's firmware sets these.
            VFQF_HKEY1::ID | VFQF_HLUT1::ID if self.family == Family::X722 => false,
            VFQF_HENA1::ID | VFQF_HKEY1::ID | VFQF_HLUT1::ID => {
                sriov.write_hash(id, n, value);
                false
            }
            _ => sriov.write(id, n, value),
        }
    }

    /// Starts or stops a receive queue of a virtual function, which is the function's queue `n`.
    fn want_rx(&mut self, vf: usize, queue: usize, n: usize, on: bool) {
        let context = self.hmc.context(Objects::rx(&self.registers), n as u16, &self.host.dma);
        let Some(sriov) = self.sriov.as_mut().filter(|_| n < QUEUES.into()) else { return };
        let unreachable = on && context.is_none();
        sriov.vfs[vf].slot.lock().rx[queue].want(context.filter(|_| on).map(|words| (words, 0)));
        if unreachable {
            self.host.counters.report(Rule::ContextUnreachable, Location::Rx(n as u16), n as u64);
            self.raise_hmc_error(false);
        }
    }

    /// Likewise a transmit queue.
    fn want_tx(&mut self, vf: usize, queue: usize, n: usize, on: bool) {
        let context = self.hmc.context(Objects::tx(&self.registers), n as u16, &self.host.dma);
        let (Some(sriov), Some(own)) = (self.sriov.as_mut(), self.tx.queues.get_mut(n)) else { return };
        let counters = &mut self.host.counters;
        let mut slot = sriov.vfs[vf].slot.lock();
        if !on {
            if slot.tx[queue].runs && own.announced != Some(false) {
                counters.report(Rule::TxDisableUnannounced, Location::Tx(n as u16), n as u64);
            }
            own.announced = None;
            slot.tx[queue].want(None);
            return;
        }
        let Some(words) = context else {
            drop(slot);
            counters.report(Rule::ContextUnreachable, Location::Tx(n as u16), n as u64);
            return self.raise_hmc_error(false);
        };
        let owner = self.registers.read(QTX_CTL::at(n));
        let number = (owner & QTX_CTL::VFVM_INDX_MASK) >> QTX_CTL::VFVM_INDX_SHIFT;
        let is_owned = owner & 3 == QTX_CTL::PFVF_Q_VF && number as usize == sriov.base + vf;
        own.check(&words, &[queue_set(vf)], is_owned, owner, counters);
        slot.tx[queue].want(Some((words, self.registers.read(QTX_HEAD::at(n)))));
    }

    /// What virtual functions' devices have noticed since: contexts that cannot be used, and resets
    /// by their drivers.
    pub(in super::super) fn notice_vfs(&mut self) {
        let Some(sriov) = &self.sriov else { return };
        let (mut failed, mut causes) = (false, 0);
        for vf in &sriov.vfs {
            let mut slot = vf.slot.lock();
            failed |= std::mem::take(&mut slot.failed);
            if std::mem::take(&mut slot.tell_reset) {
                causes |= PFINT_ICR0::VFLR;
            }
        }
        if failed {
            self.raise_hmc_error(false);
        }
        if causes != 0 {
            self.host.counters.interrupts.cause(causes);
        }
    }
}
