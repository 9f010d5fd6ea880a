//! What the firmware does: each command of the admin queue, its arguments and its answer
//! (datasheet 332464, chapter 7). Those about virtual functions stand in `sriov/commands.rs`; commands that
//! only other functions or several traffic classes need are not there.

use regs::i40e::admin::{
    self, Descriptor, LAN_ADDR_VALID, PORT_ADDR_VALID, bandwidth, capability, error, flag, link, macvlan,
    opcode, profile, promiscuous, version, vsi,
};
use regs::i40e::*;

use super::admin::{Buffer, RECEIVE, SEND};
use super::director::{BEST_EFFORT, GUARANTEED};
use super::interrupts::VECTORS;
use super::lint::{Location, Rule};
use super::switch::{FILTERS, QUEUE_SET, Switch, VSIS, Vsi};
use super::{I40e, QUEUES, family};
use crate::{Dma, Pages};

/// The time for which a resource is lent, in milliseconds.
const LENT_MS: u32 = 3_000;
/// Entries of the hash's table.
const RSS_TABLE: u32 = 512;
/// The SEID's bits in a command.
const SEID_MASK: u16 = 0x3FF;

/// An answer: zero, or an error.
pub(super) type Answer = Result<(), u16>;

impl<D: Dma, P: Pages> I40e<D, P> {
    /// The driver moved the tail of the send queue: all commands up to there are carried out.
    pub(super) fn run_commands(&mut self) {
        let Some(size) = SEND.moved(&self.registers, &mut self.host.counters) else { return };
        for _ in 0..size {
            let (registers, host) = (&mut self.registers, &mut self.host);
            let Some((place, mut command)) = SEND.take(registers, &host.dma, &mut host.counters) else {
                break;
            };
            let answer = self.command(&mut command);
            command.flags |= flag::DD | flag::CMP;
            if let Err(error) = answer {
                (command.flags, command.retval) = (command.flags | flag::ERR, error);
            } else {
                command.retval = 0;
            }
            self.host.counters.commands += 1;
            let (registers, host) = (&mut self.registers, &mut self.host);
            if !SEND.put(registers, &host.dma, &mut host.counters, place, &command) {
                break;
            }
        }
        self.post_events();
    }

    /// Gives the driver the events that wait, if it has lent a descriptor.
    pub(super) fn post_events(&mut self) {
        if self.link.event {
            self.post_link();
        }
        self.post_messages();
    }

    fn post_link(&mut self) {
        let (registers, host) = (&mut self.registers, &mut self.host);
        let Some((place, lent)) = RECEIVE.take(registers, &host.dma, &mut host.counters) else { return };
        let event = self.link.take_event();
        let event = Descriptor { flags: flag::DD | flag::CMP, cookie: lent.cookie, ..event };
        let (registers, host) = (&mut self.registers, &mut self.host);
        if !RECEIVE.put(registers, &host.dma, &mut host.counters, place, &event) {
            return;
        }
        self.host.counters.interrupts.cause(PFINT_ICR0::ADMINQ);
    }

    fn command(&mut self, command: &mut Descriptor) -> Answer {
        match command.opcode {
            opcode::GET_VERSION => self.version(command),
            opcode::REQUEST_RESOURCE => command.set_param(4, &LENT_MS.to_le_bytes()),
            opcode::DRIVER_VERSION
            | opcode::RELEASE_RESOURCE
            | opcode::MAC_ADDRESS_WRITE
            | opcode::SET_PORT_PARAMETERS
            | opcode::SET_SWITCH_CONFIG
            | opcode::LLDP_SET_LOCAL_MIB
            | opcode::SET_DCB_PARAMETERS => {}
            opcode::QUEUE_SHUTDOWN => self.check_stopped(),
            opcode::CLEAR_PXE_MODE => return self.once(opcode::CLEAR_PXE_MODE, error::EEXIST),
            opcode::LLDP_STOP => return self.once(opcode::LLDP_STOP, error::EPERM),
            opcode::LLDP_START if self.stopped.remove(&opcode::LLDP_STOP) => {}
            opcode::LLDP_START => return Err(error::EEXIST),
            // The agent, while it runs, has heard nothing.
            opcode::LLDP_GET_MIB if self.stopped.contains(&opcode::LLDP_STOP) => return Err(error::EPERM),
            opcode::LLDP_GET_MIB => return Err(error::ENOENT),
            opcode::DEBUG_READ_REG | opcode::DEBUG_WRITE_REG => return self.debug_register(command),
            opcode::LIST_FUNC_CAPABILITIES | opcode::LIST_DEV_CAPABILITIES => {
                return self.capabilities(command);
            }
            opcode::MAC_ADDRESS_READ => return self.addresses(command),
            opcode::GET_SWITCH_CONFIG => return self.answer(command, &self.switch.elements()),
            opcode::RX_CTL_REG_READ | opcode::RX_CTL_REG_WRITE
                if self.family == Family::Xl710 && self.api() >= version::RX_CTL_SINCE =>
            {
                return self.receive_register(command);
            }
            opcode::GET_PERSONALIZATION_PROFILE_LIST if self.api() >= profile::SINCE => {
                return self.profiles(command);
            }
            opcode::SET_RSS_KEY..=opcode::GET_RSS_LUT if self.family == Family::X722 => {
                return self.hash(command);
            }
            opcode::GET_PHY_ABILITIES => return self.answer(command, &self.link.abilities(command)),
            opcode::SET_PHY_CONFIG => self.link.set_phy(command),
            opcode::RESTART_AN => self.link.set_enabled(command.params[0] & link::RESTART_ENABLE != 0),
            opcode::SET_MAC_CONFIG => self.link.max_frame = command.param16(0),
            opcode::GET_LINK_STATUS => self.link_status(command),
            opcode::SET_PHY_INT_MASK => self.link.set_event_mask(command.param16(link::EVENT_MASK)),
            // It cannot come back; drivers say that it shall not.
            opcode::SET_LB_MODES if command.param16(0) != 0 => return Err(error::EINVAL),
            opcode::SET_LB_MODES => {}
            opcode::NVM_READ => return self.read_nvm(command),
            _ => return self.switch_command(command),
        }
        Ok(())
    }

    /// Commands to the internal switch: its VSIs and bridges, their filters and bandwidth.
    fn switch_command(&mut self, command: &mut Descriptor) -> Answer {
        match command.opcode {
            opcode::GET_VSI | opcode::UPDATE_VSI => self.vsi(command),
            opcode::ADD_VSI => self.add_vsi(command),
            opcode::ADD_VEB | opcode::GET_VEB_PARAMETERS => self.veb(command),
            opcode::QUERY_SWITCHING_COMP_ETS_CONFIG | opcode::QUERY_SWITCHING_COMP_BW_CONFIG => {
                self.veb_bandwidth(command)
            }
            opcode::DELETE_ELEMENT => self.delete_element(command),
            opcode::SEND_MSG_TO_VF => self.send_to_vf(command),
            opcode::ADD_MACVLAN | opcode::REMOVE_MACVLAN => self.filters(command),
            opcode::SET_VSI_PROMISCUOUS => self.promiscuous(command),
            opcode::ADD_CONTROL_PACKET_FILTER => self.control_packet(command),
            opcode::CONFIGURE_VSI_BW_LIMIT
            | opcode::CONFIGURE_VSI_TC_BW
            | opcode::QUERY_VSI_BW_CONFIG
            | opcode::QUERY_VSI_ETS_SLA_CONFIG => self.bandwidth(command),
            other => {
                self.host.counters.report(Rule::AdminUnknownCommand, Location::Command(other), 0);
                Err(error::ESRCH)
            }
        }
    }

    /// An argument makes no sense.
    pub(super) fn invalid<T>(&mut self, command: &Descriptor, value: u64, error: u16) -> Result<T, u16> {
        self.host.counters.report(Rule::AdminArgumentInvalid, Location::Command(command.opcode), value);
        Err(error)
    }

    /// Answers with bytes in the command's buffer.
    pub(super) fn answer(&mut self, command: &mut Descriptor, bytes: &[u8]) -> Answer {
        let host = &mut self.host;
        let buffer = Buffer::of(command, &mut host.counters).ok_or(error::EINVAL)?;
        if !buffer.write(bytes, command, &host.dma, &mut host.counters) {
            return Err(error::BAD_ADDR);
        }
        command.datalen = bytes.len().min(buffer.len) as u16;
        Ok(())
    }

    /// The bytes of the command's buffer.
    pub(super) fn argument(&mut self, command: &Descriptor) -> Result<(Buffer, Vec<u8>), u16> {
        let host = &mut self.host;
        let buffer = Buffer::of(command, &mut host.counters).ok_or(error::EINVAL)?;
        let bytes = buffer.read(command, &host.dma, &mut host.counters).ok_or(error::BAD_ADDR)?;
        Ok((buffer, bytes))
    }

    /// A command that stops something: what was stopped before is so until the next power-on.
    fn once(&mut self, opcode: u16, again: u16) -> Answer {
        if self.stopped.insert(opcode) { Ok(()) } else { Err(again) }
    }

    fn capabilities(&mut self, command: &mut Descriptor) -> Answer {
        let queues = u32::from(QUEUES);
        let (vfs, first) = (self.vfs() as u32, self.first_vf() as u32);
        let mut all = vec![
            (capability::VSI, u32::from(VSIS) + vfs, 0),
            // One traffic class, which drivers look for here.
            (capability::DCB, 1, 1),
            (capability::RSS, RSS_TABLE, family::port(self.family).entry_bits),
            (capability::RXQ, queues, 0),
            (capability::TXQ, queues, 0),
            (capability::MSIX, VECTORS as u32, 0),
            (capability::FLOW_DIRECTOR, GUARANTEED, BEST_EFFORT),
        ];
        if vfs > 0 {
            all.extend([(capability::VF, vfs, first), (capability::VF_MSIX, super::VF_VECTORS.into(), 0)]);
        }
        let mut bytes = Vec::new();
        for &(kind, number, logical) in &all {
            let physical = u32::from(kind == capability::DCB);
            let mut one = [0; capability::LEN];
            one[..2].copy_from_slice(&kind.to_le_bytes());
            one[2] = 1; // the revision
            for (at, value) in [
                (capability::NUMBER, number),
                (capability::LOGICAL, logical),
                (capability::PHYSICAL, physical),
            ] {
                one[at..at + size_of::<u32>()].copy_from_slice(&u32::to_le_bytes(value));
            }
            bytes.extend(one);
        }
        if usize::from(command.datalen) < bytes.len() {
            // The driver asks again with as many bytes as this says.
            command.datalen = bytes.len() as u16;
            return Err(error::ENOMEM);
        }
        command.set_param(4, &(all.len() as u32).to_le_bytes());
        self.answer(command, &bytes)
    }

    fn addresses(&mut self, command: &mut Descriptor) -> Answer {
        let none = [0; 6];
        let bytes = [self.mac, none, self.mac, none].concat();
        command.set_param(0, &(LAN_ADDR_VALID | PORT_ADDR_VALID).to_le_bytes());
        self.answer(command, &bytes)
    }

    /// Receive registers that may only be accessed by the firmware while frames come.
    fn receive_register(&mut self, command: &mut Descriptor) -> Answer {
        let offset = command.param32(4);
        let known = lookup(offset).map(|(id, _)| id);
        match known {
            Some(
                PFQF_CTL_0::ID
                | PFQF_HENA::ID
                | PFQF_HKEY::ID
                | PFQF_HLUT::ID
                | GLQF_HASH_INSET::ID
                | GLQF_FD_MSK::ID
                | GLQF_HASH_MSK::ID
                | GLQF_SWAP::ID
                | GLQF_HSYM::ID
                | GLQF_CTL::ID
                | GLQF_ORT::ID
                | GLQF_PIT::ID
                | PRTQF_CTL_0::ID
                | PFQF_HREGION::ID
                | PRTQF_FD_INSET::ID
                | PRTQF_FD_MSK::ID
                | PRTQF_FD_FLXINSET::ID
                | VSILAN_QBASE::ID
                | VFQF_HENA1::ID
                | VFQF_HKEY1::ID
                | VFQF_HLUT1::ID,
            ) => {}
            _ => return self.invalid(command, offset.into(), error::EINVAL),
        }
        if command.opcode == opcode::RX_CTL_REG_READ {
            command.set_param(12, &self.registers.read(offset).to_le_bytes());
        } else {
            let value = command.param32(12);
            if let Some((id, n)) = lookup(offset) {
                self.act_for_vfs(id, n, value);
            }
            self.registers.write(offset, value);
            self.stale = true;
        }
        Ok(())
    }

    /// A register of the card, read where that has no effect, or one of set-up written: nothing
    /// happens when these are, so that a command cannot bring the queue of commands into it.
    fn debug_register(&mut self, command: &mut Descriptor) -> Answer {
        let offset = command.param32(4);
        match (command.opcode, lookup(offset).map(|(id, _)| id)) {
            (
                opcode::DEBUG_WRITE_REG,
                Some(
                    GLQF_L3_MAP::ID
                    | GL_SWR_PM_UP_THR::ID
                    | GL_SWR_PRI_JOIN_MAP_0::ID
                    | GL_SWR_PRI_JOIN_MAP_2::ID
                    | GL_SWT_L2TAGCTRL::ID
                    | VSI_L2TAGSTXVALID::ID
                    | VSI_TSR::ID,
                ),
            ) => self.registers.write(offset, command.param32(12)),
            (opcode::DEBUG_READ_REG, Some(id)) if id.access != regs::Access::RC => {
                let value = self.read(offset);
                command.set_param(8, &0u32.to_le_bytes());
                command.set_param(12, &value.to_le_bytes());
            }
            _ => return self.invalid(command, offset.into(), error::EINVAL),
        }
        Ok(())
    }

    /// What the VSI may send: all there is, in one traffic class, or up to a limit.
    fn bandwidth(&mut self, command: &mut Descriptor) -> Answer {
        let vsi = self.find_vsi(command, command.param16(0))?;
        let set = self.switch.queue_sets().get(usize::from(vsi.number())).unwrap_or(&QUEUE_SET).to_le_bytes();
        match command.opcode {
            opcode::QUERY_VSI_BW_CONFIG => {
                let mut answer = [0; bandwidth::LEN];
                answer[0] = 1; // traffic class 0 is valid
                answer[bandwidth::QUEUE_SETS..bandwidth::QUEUE_SETS + 2].copy_from_slice(&set);
                self.answer(command, &answer)
            }
            opcode::QUERY_VSI_ETS_SLA_CONFIG => {
                let mut answer = [0; bandwidth::CLASSES_LEN];
                (answer[0], answer[bandwidth::SHARES]) = (1, 1);
                self.answer(command, &answer)
            }
            opcode::CONFIGURE_VSI_TC_BW => {
                let (buffer, mut classes) = self.argument(command)?;
                let Some(first) = classes.get_mut(bandwidth::SET_QUEUE_SETS..bandwidth::SET_QUEUE_SETS + 2)
                else {
                    return self.invalid(command, buffer.len as u64, error::EINVAL);
                };
                first.copy_from_slice(&set);
                match buffer.write(&classes, command, &self.host.dma, &mut self.host.counters) {
                    true => Ok(()),
                    false => Err(error::BAD_ADDR),
                }
            }
            _ => self.limit(command, vsi),
        }
    }

    /// The VSI that a command names.
    pub(super) fn find_vsi(&mut self, command: &Descriptor, seid: u16) -> Result<Vsi, u16> {
        match self.switch.vsi(seid & SEID_MASK).or_else(|| self.vsi_of_vf(seid & SEID_MASK)) {
            Some(vsi) => Ok(vsi),
            None => self.invalid(command, seid.into(), error::ENOENT),
        }
    }

    fn vsi(&mut self, command: &mut Descriptor) -> Answer {
        let vsi = self.find_vsi(command, command.param16(0))?;
        // A virtual function's VSI is the main one of its own switch.
        let (of, own) = match vsi {
            Vsi::Vf(_) => (self.switch_of(vsi), Vsi::Main),
            vsi => (Some(&mut self.switch), vsi),
        };
        if command.opcode == opcode::GET_VSI {
            let properties = of.and_then(|of| of.properties(own).map(|properties| *properties.bytes()));
            self.answer(command, &properties.unwrap_or([0; vsi::LEN]))?;
        } else {
            let properties = self.new_properties(command)?;
            let of = match vsi {
                Vsi::Vf(_) => self.switch_of(vsi),
                _ => Some(&mut self.switch),
            };
            if !of.is_some_and(|of| of.update(own, &properties, QUEUES)) {
                return self.invalid(command, 0, error::EINVAL);
            }
            self.stale = true;
            self.share_vsi(vsi);
        }
        self.describe_vsi(command, vsi);
        Ok(())
    }

    /// The properties in a command's buffer.
    pub(super) fn new_properties(&mut self, command: &Descriptor) -> Result<[u8; vsi::LEN], u16> {
        let (_, bytes) = self.argument(command)?;
        match bytes.first_chunk() {
            Some(properties) => Ok(*properties),
            None => self.invalid(command, bytes.len() as u64, error::EINVAL),
        }
    }

    /// Puts a VSI's names, and how many there are, into an answer.
    pub(super) fn describe_vsi(&self, command: &mut Descriptor, vsi: Vsi) {
        let (used, all) = (self.switch.vsis() + self.vsis_of_vfs(), VSIS + self.vfs() as u16);
        for (at, half) in [(0, vsi.seid()), (2, vsi.number()), (4, used), (6, all - used)] {
            command.set_param(at, &half.to_le_bytes());
        }
    }

    /// Filters that the function's VSIs have, those of virtual functions with them.
    fn filters_used(&self) -> usize {
        let of_vfs = self.sriov.iter().flat_map(|sriov| &sriov.vfs).filter_map(|vf| vf.vsi.as_ref());
        self.switch.used() + of_vfs.map(Switch::used).sum::<usize>()
    }

    fn filters(&mut self, command: &mut Descriptor) -> Answer {
        let vsi = self.find_vsi(command, command.param16(2))?;
        let (buffer, mut bytes) = self.argument(command)?;
        let count = usize::from(command.param16(0));
        if count == 0 || count * macvlan::LEN > bytes.len() {
            return self.invalid(command, count as u64, error::EINVAL);
        }
        let adding = command.opcode == opcode::ADD_MACVLAN;
        let any_vlan = if adding { macvlan::ADD_ANY_VLAN } else { macvlan::REMOVE_ANY_VLAN };
        let (mut used, mut failed) = (self.filters_used(), false);
        for filter in bytes.chunks_exact_mut(macvlan::LEN).take(count) {
            let half = |at: usize| u16::from_le_bytes([filter[at], filter[at + 1]]);
            let flags = if adding { half(macvlan::FLAGS) } else { half(macvlan::FLAGS) & 0xFF };
            let vlan = (flags & any_vlan == 0).then_some(half(macvlan::VLAN) & wire::vlan::ID);
            let mac = std::array::from_fn(|n| filter[n]);
            // Flow Director's receives nothing, whatever it asks for.
            let done = vsi == Vsi::Director
                || self.switch_of(vsi).is_some_and(|of| match adding {
                    true => of.add(mac, vlan, used < FILTERS),
                    false => of.remove(mac, vlan),
                });
            used = self.filters_used();
            let good = if adding { macvlan::PERFECT as u8 } else { 0 };
            filter[macvlan::ANSWER] = if done { good } else { macvlan::FAILED };
            failed |= !done;
        }
        for (at, half) in [(0, used), (2, FILTERS - used), (4, 0), (6, 0)] {
            command.set_param(at, &(half as u16).to_le_bytes());
        }
        if !buffer.write(&bytes, command, &self.host.dma, &mut self.host.counters) {
            return Err(error::BAD_ADDR);
        }
        match (failed, adding) {
            (false, _) => Ok(()),
            (true, true) => Err(error::ENOSPC),
            (true, false) => Err(error::ENOENT),
        }
    }

    fn promiscuous(&mut self, command: &mut Descriptor) -> Answer {
        let vsi = self.find_vsi(command, command.param16(4))?;
        let (modes, valid) = (command.param16(0), command.param16(2));
        let told = self.api() < promiscuous::RX_ONLY_SINCE || modes & valid & promiscuous::RX_ONLY != 0;
        if modes & promiscuous::UNICAST != 0 && !told {
            let place = Location::Command(command.opcode);
            self.host.counters.report(Rule::PromiscuousOfSent, place, modes.into());
        }
        self.switch_of(vsi).into_iter().for_each(|of| of.set_promiscuous(modes, valid));
        Ok(())
    }

    fn link_status(&mut self, command: &mut Descriptor) {
        match command.param16(0) & link::EVENTS_ON {
            link::EVENTS_ON => self.link.set_events(true),
            0 => {}
            _ => self.link.set_events(false),
        }
        self.link.describe(command);
    }

    fn read_nvm(&mut self, command: &mut Descriptor) -> Answer {
        let (module, len, offset) = (command.params[1], command.param16(2), command.param32(4));
        if module != 0 {
            return Err(error::EINVAL); // there are none, which drivers cannot know
        }
        match self.nvm.bytes(offset as usize, len.into()) {
            Some(bytes) if usize::from(len) <= admin::BUFFER => self.answer(command, &bytes),
            _ => self.invalid(command, offset.into(), error::EINVAL),
        }
    }
}
