//! Commands that make and remove elements of the switch: a bridge below the port, the VSI that
//! programs filters of Flow Director, and those of virtual functions (datasheet 332464, chapter 7).
//! Others are refused for want of room.

use regs::i40e::admin::{Descriptor, error, opcode, veb, vsi};
use regs::i40e::control_packet;
use wire::ethernet::EtherType;

use super::firmware::Answer;
use super::switch::{VEB_SEID, Vsi};
use super::{I40e, QUEUES};
use crate::{Dma, Pages};

impl<D: Dma, P: Pages> I40e<D, P> {
    /// Makes a VSI.
    pub(super) fn add_vsi(&mut self, command: &mut Descriptor) -> Answer {
        let (uplink, flags) = (command.param16(0), command.param16(vsi::FLAGS));
        if flags & vsi::TYPE_MASK == vsi::TYPE_VF {
            return self.add_vsi_of_vf(command);
        }
        if flags & vsi::TYPE_MASK != vsi::TYPE_PF || self.switch.vsi(Vsi::Director.seid()).is_some() {
            return Err(error::ENOSPC);
        }
        if command.params[vsi::CONNECTION] != vsi::CONNECTION_NORMAL {
            return self.invalid(command, command.params[vsi::CONNECTION].into(), error::EINVAL);
        }
        let new = self.new_properties(command)?;
        if !self.switch.add_director(uplink, &new, QUEUES) {
            return self.invalid(command, uplink.into(), error::ENOENT);
        }
        let properties = self.switch.properties(Vsi::Director).map(|properties| *properties.bytes());
        self.answer(command, &properties.unwrap_or(new))?;
        self.describe_vsi(command, Vsi::Director);
        Ok(())
    }

    /// Makes a bridge, or tells what it is like.
    pub(super) fn veb(&mut self, command: &mut Descriptor) -> Answer {
        let seid = command.param16(0);
        let (at, used) = if command.opcode == opcode::ADD_VEB {
            if self.switch.has_veb() {
                return Err(error::ENOSPC);
            }
            if !self.switch.add_veb(seid, command.param16(2)) {
                return self.invalid(command, seid.into(), error::ENOENT);
            }
            (veb::SEID, veb::SEID + 4)
        } else {
            self.check_veb(command)?;
            (0, 8)
        };
        // It has no statistics of its own: their number says so. It is the only one there can be.
        for (at, half) in [(at, VEB_SEID), (used - 2, 0), (used, 1), (used + 2, 0)] {
            command.set_param(at, &half.to_le_bytes());
        }
        Ok(())
    }

    /// Adds a filter of control frames. Those that drop what is sent, whatever its address, take effect;
    /// others have no effect.
    pub(super) fn control_packet(&mut self, command: &Descriptor) -> Answer {
        let vsi = self.find_vsi(command, command.param16(control_packet::SEID))?;
        let effective = control_packet::IGNORE_MAC | control_packet::DROP | control_packet::TX;
        if vsi != Vsi::Main || command.param16(control_packet::FLAGS) & effective != effective {
            return Ok(());
        }
        let ethertype = EtherType(command.param16(control_packet::ETHERTYPE));
        self.switch.drop_sent(ethertype).then_some(()).ok_or(error::ENOSPC)
    }

    fn check_veb(&mut self, command: &Descriptor) -> Answer {
        let seid = command.param16(0);
        if self.switch.has_veb() && seid == VEB_SEID {
            return Ok(());
        }
        self.invalid(command, seid.into(), error::ENOENT)
    }

    /// What a bridge may send: all there is, in one traffic class.
    pub(super) fn veb_bandwidth(&mut self, command: &mut Descriptor) -> Answer {
        self.check_veb(command)?;
        if command.opcode == opcode::QUERY_SWITCHING_COMP_ETS_CONFIG {
            let mut answer = [0; veb::UPLINK_LEN];
            answer[0] = 1; // traffic class 0 is valid
            return self.answer(command, &answer);
        }
        let mut answer = [0; veb::CLASSES_LEN];
        (answer[0], answer[veb::SHARES]) = (1, 1);
        self.answer(command, &answer)
    }

    /// Removes an element that was made.
    pub(super) fn delete_element(&mut self, command: &mut Descriptor) -> Answer {
        let seid = command.param16(0);
        if seid == VEB_SEID && self.vsis_of_vfs() > 0 {
            return Err(error::EBUSY);
        }
        match self.delete_vsi_of_vf(seid) || self.switch.delete(seid) {
            true => Ok(()),
            false => Err(error::ENOENT),
        }
    }
}
