//! Commands of the admin queue that are about virtual functions: their VSIs, and the messages
//! either way (datasheet 332464, chapter 7).

use regs::i40e::admin::{Descriptor, bandwidth, error, opcode, vsi};
use regs::i40e::*;

use super::super::admin::{Message, RECEIVE};
use super::super::firmware::Answer;
use super::super::lint::{Location, Rule};
use super::super::statistics::OF_MAIN;
use super::super::switch::{FIRST_VF, FIRST_VF_SEID, QUEUE_SET, Switch, VEB_SEID, Vsi};
use super::super::{I40e, QUEUES};
use super::SharedSlot;
use crate::relay::Limiter;
use crate::{Dma, Pages};

/// Messages that the physical function is given in a step.
const MESSAGES: usize = 32;

/// The queue set of a virtual function's transmit queues.
pub fn queue_set(vf: usize) -> u16 {
    QUEUE_SET + FIRST_VF + vf as u16
}

impl<D: Dma, P: Pages> I40e<D, P> {
    /// How many virtual functions there are.
    pub(in super::super) fn vfs(&self) -> usize {
        self.sriov.as_ref().map_or(0, |sriov| sriov.vfs.len())
    }

    /// The number of the first on the card.
    pub(in super::super) fn first_vf(&self) -> usize {
        self.sriov.as_ref().map_or(0, |sriov| sriov.base)
    }

    /// Which of them has a number on the card.
    fn vf_of(&self, number: usize) -> Option<usize> {
        number.checked_sub(self.first_vf()).filter(|n| *n < self.vfs())
    }

    /// How many of them have a VSI.
    pub(in super::super) fn vsis_of_vfs(&self) -> u16 {
        let vfs = self.sriov.iter().flat_map(|sriov| &sriov.vfs);
        vfs.filter(|vf| vf.vsi.is_some()).count() as u16
    }

    /// The VSI of a virtual function with a SEID.
    pub(in super::super) fn vsi_of_vf(&self, seid: u16) -> Option<Vsi> {
        let n = seid.checked_sub(FIRST_VF_SEID)?;
        let vf = self.sriov.as_ref()?.vfs.get(usize::from(n))?;
        vf.vsi.as_ref().map(|_| Vsi::Vf(n))
    }

    /// What is shared with a virtual function.
    pub(in super::super) fn slot(&self, n: u16) -> Option<&SharedSlot> {
        Some(&self.sriov.as_ref()?.vfs.get(usize::from(n))?.slot)
    }

    /// The filters of a VSI; Flow Director's has none.
    pub(in super::super) fn switch_of(&mut self, vsi: Vsi) -> Option<&mut Switch> {
        match vsi {
            Vsi::Main => Some(&mut self.switch),
            Vsi::Director => None,
            Vsi::Vf(n) => self.sriov.as_mut()?.vfs.get_mut(usize::from(n))?.vsi.as_mut(),
        }
    }

    /// Makes the VSI of a virtual function.
    pub(in super::super) fn add_vsi_of_vf(&mut self, command: &mut Descriptor) -> Answer {
        let (uplink, number) = (command.param16(0), usize::from(command.params[vsi::VF_ID]));
        let Some(sriov) = &self.sriov else { return Err(error::ENOSPC) };
        let Some(n) = self.vf_of(number) else {
            return self.invalid(command, number as u64, error::ENOENT);
        };
        if sriov.vfs[n].vsi.is_some() {
            return Err(error::EEXIST);
        }
        if !self.switch.has_veb() || uplink != VEB_SEID {
            return self.invalid(command, uplink.into(), error::ENOENT);
        }
        let new = self.new_properties(command)?;
        let of = Vsi::Vf(n as u16);
        let mut made = Switch::of_vf(queue_set(n));
        made.set_counter(OF_MAIN as u16 + of.number());
        if !made.update(Vsi::Main, &new, QUEUES) {
            return self.invalid(command, 0, error::EINVAL);
        }
        if let Some(sriov) = &mut self.sriov {
            (sriov.vfs[n].vsi, sriov.vfs[n].limiter) = (Some(made), Limiter::default());
        }
        self.share_vsi(of);
        self.describe_vsi(command, of);
        Ok(())
    }

    /// Limits what a VSI may send. Those of the physical function take a limit, which has no effect.
    pub(in super::super) fn limit(&mut self, command: &Descriptor, vsi: Vsi) -> Answer {
        let limit = command.param16(bandwidth::LIMIT);
        if limit > bandwidth::HIGHEST {
            return self.invalid(command, limit.into(), error::EINVAL);
        }
        let members = self.sriov.as_mut().map(|sriov| &mut sriov.vfs);
        if let (Vsi::Vf(n), Some(vfs)) = (vsi, members)
            && let Some(vf) = vfs.get_mut(usize::from(n))
        {
            vf.limiter = Limiter::new(u32::from(limit) * bandwidth::UNIT_MBPS);
        }
        Ok(())
    }

    /// Tells a virtual function's device what its VSI has.
    pub(in super::super) fn share_vsi(&mut self, vsi: Vsi) {
        self.take_over();
        let (family, with_ports) = (self.family, self.rx.rss.with_ports());
        let Vsi::Vf(n) = vsi else { return };
        let members = self.sriov.as_mut().map(|sriov| &mut sriov.vfs);
        let Some(vf) = members.and_then(|vfs| vfs.get_mut(usize::from(n))) else { return };
        let Some(vsi) = &vf.vsi else { return };
        let mut slot = vf.slot.lock();
        (slot.spread, slot.strips, slot.stale) = (vsi.queues().1, vsi.strips(), true);
        (slot.hash.family, slot.hash.with_ports) = (family, with_ports);
    }

    /// Removes the VSI of a virtual function; `false` when there is none.
    pub(in super::super) fn delete_vsi_of_vf(&mut self, seid: u16) -> bool {
        let Some(Vsi::Vf(n)) = self.vsi_of_vf(seid) else { return false };
        let vfs = self.sriov.iter_mut().flat_map(|sriov| sriov.vfs.get_mut(usize::from(n)));
        vfs.for_each(|vf| vf.vsi = None);
        true
    }

    /// The physical function sends a message to a virtual one.
    pub(in super::super) fn send_to_vf(&mut self, command: &Descriptor) -> Answer {
        let number = command.param32(0);
        let host = &mut self.host;
        let message = Message::of(command, &host.dma, &mut host.counters)?;
        let n = self.vf_of(number as usize);
        let vf = n.and_then(|n| self.sriov.as_ref()?.vfs.get(n));
        let Some(vf) = vf else { return self.invalid(command, number.into(), error::ENOENT) };
        let sent = vf.slot.lock().tell_vf(message);
        if sent { Ok(()) } else { Err(error::EBUSY) }
    }

    /// Gives the physical function the messages of virtual ones, as far as it has lent descriptors.
    pub(in super::super) fn post_messages(&mut self) {
        let I40e { host, sriov: Some(sriov), registers, .. } = self else { return };
        for _ in 0..MESSAGES {
            let waits = |vf: &super::Member| vf.slot.lock().has_messages().0;
            let count = sriov.vfs.len();
            let mut turn = (0..count).map(|n| (sriov.first + n) % count);
            let Some(n) = turn.find(|n| waits(&sriov.vfs[*n])) else { return };
            let Some((place, lent)) = RECEIVE.take(registers, &host.dma, &mut host.counters) else { return };
            // The next time another is first.
            sriov.first = n + 1;
            let Some(message) = sriov.vfs[n].slot.lock().next_for_pf() else { return };
            let opcode = opcode::SEND_MSG_TO_PF;
            let number = (sriov.base + n) as u16;
            let event = message.event(opcode, number, &lent, &host.dma, &mut host.counters);
            let Some(event) = event else {
                host.counters.report(Rule::MessageLost, Location::Command(opcode), n as u64);
                continue;
            };
            if !RECEIVE.put(registers, &host.dma, &mut host.counters, place, &event) {
                return;
            }
            host.counters.interrupts.cause(PFINT_ICR0::ADMINQ);
        }
    }
}
