//! What drivers of virtual functions ask for, and what they are answered.

use regs::i40e::admin::{Descriptor, opcode, vsi};
use regs::i40e::*;
use regs::iavf;
use regs::virtchnl::message::{
    Addresses, Classes, Counters, Promiscuous, Queues, Resources, Rss, Select, Vectors, Version, Vlans,
};
use regs::virtchnl::{self, capability, op, promiscuous, status};
use wire::MacAddress;

use super::super::hash::Owner;
use super::bring_up::port_vlan_flags;
use super::{Host, Message, VF_QUEUES, Vsi};
use crate::Result;

/// What a virtual function is offered.
const OFFERED: u32 = capability::L2 | capability::VLAN | capability::RSS_PF | capability::WB_ON_ITR;
/// Bytes of the hash's key and entries of its table.
const KEY: usize = 4 * iavf::VFQF_HKEY::COUNT;
const TABLE: usize = 4 * iavf::VFQF_HLUT::COUNT;
/// An answer: bytes, or a status that says why not.
pub(super) type Answer = std::result::Result<Vec<u8>, i32>;

pub(super) const NOTHING: Answer = Ok(Vec::new());
const PARAM: Answer = Err(status::ERR_PARAM);
/// The VLAN that stands for frames without a tag.
const UNTAGGED: u16 = 0;
const LENGTH: i32 = status::ERR_OPCODE_MISMATCH;

/// An answer without bytes.
fn done(good: bool) -> Answer {
    if good { NOTHING } else { PARAM }
}

impl Host {
    /// Answers a message.
    pub(super) fn serve(&mut self, n: usize, message: &Message) -> Result<()> {
        let opcode = message.opcode;
        if opcode == op::RESET_VF {
            // Nobody answers: the reset itself is seen.
            self.vfs[n].counters.messages += 1;
            self.begin_reset(n, true);
            return Ok(());
        }
        let answer = match opcode {
            op::ENABLE_QUEUES | op::DISABLE_QUEUES => self.select(n, opcode, &message.bytes)?,
            _ => Some(self.answer(n, opcode, &message.bytes)?),
        };
        answer.into_iter().for_each(|answer| self.reply(n, opcode, answer));
        Ok(())
    }

    /// Sends an answer.
    pub(super) fn reply(&mut self, n: usize, opcode: u32, answer: Answer) {
        let name = virtchnl::name(opcode);
        self.vfs[n].counters.messages += 1;
        match answer {
            Ok(bytes) => {
                tracing::debug!(port = self.chip.name, vf = n, "{name} ({opcode}): done");
                self.send(n, opcode, status::SUCCESS, &bytes);
                if opcode == op::GET_VF_RESOURCES || opcode == op::ENABLE_QUEUES {
                    self.tell_link(n);
                }
            }
            Err(status) => {
                tracing::debug!(port = self.chip.name, vf = n, "{name} ({opcode}): refused, {status}");
                self.vfs[n].counters.refused += 1;
                self.send(n, opcode, status, &[]);
            }
        }
    }

    /// The firmware's refusal is an answer, and so is one of its answers that makes no sense; a failure of
    /// the device is not.
    fn by_firmware(&self, told: Result<()>) -> Result<Answer> {
        let Err(error) = told else { return Ok(NOTHING) };
        Ok(Err(match self.chip.unless_failed(error)? {
            crate::Error::TableFull { .. } => status::ERR_NO_MEMORY,
            _ => status::ERR_ADMIN_QUEUE_ERROR,
        }))
    }

    fn answer(&mut self, n: usize, opcode: u32, bytes: &[u8]) -> Result<Answer> {
        let (Some(vsi), active) = (self.vfs[n].vsi, self.vfs[n].active) else { return Ok(PARAM) };
        Ok(match opcode {
            op::VERSION => Version::decode(bytes).map_or(Err(LENGTH), |_| {
                let (major, minor) = virtchnl::VERSION;
                Ok(Version { major, minor }.encode())
            }),
            op::GET_VF_RESOURCES => self.resources(n, vsi, bytes),
            other if virtchnl::name(other) == "unknown" || other == op::EVENT => {
                Err(status::ERR_NOT_SUPPORTED)
            }
            // All else is for one whose driver knows what it has.
            _ if !active => PARAM,
            op::CONFIG_VSI_QUEUES => match Queues::decode(bytes) {
                Some(queues) if queues.vsi == vsi.number => done(self.configure(n, vsi, &queues)),
                Some(_) => PARAM,
                None => Err(LENGTH),
            },
            op::CONFIG_IRQ_MAP => match Vectors::decode(bytes) {
                Some(map) if map.vsi == vsi.number => done(self.map_vectors(n, &map)),
                Some(_) => PARAM,
                None => Err(LENGTH),
            },
            op::ADD_ETH_ADDR | op::DEL_ETH_ADDR => return self.addresses(n, opcode, vsi, bytes),
            op::ADD_VLAN | op::DEL_VLAN => return self.vlans(n, opcode, vsi, bytes),
            op::CONFIG_PROMISCUOUS_MODE => return self.promiscuous(n, vsi, bytes),
            op::GET_STATS => match Select::decode(bytes) {
                Some(select) if select.vsi == vsi.number => Ok(self.statistics(n).encode()),
                Some(_) => PARAM,
                None => Err(LENGTH),
            },
            op::CONFIG_RSS_KEY | op::CONFIG_RSS_LUT => return self.hash(n, opcode, vsi, bytes),
            op::GET_RSS_HENA_CAPS => Ok(Classes(self.chip.generation.hashed()).encode()),
            op::SET_RSS_HENA => return self.classes(n, bytes),
            _ => return self.strip(n, vsi, opcode == op::ENABLE_VLAN_STRIPPING),
        })
    }

    /// What a virtual function has; one of version 1.0 says nothing of what it can.
    fn resources(&mut self, n: usize, vsi: Vsi, bytes: &[u8]) -> Answer {
        let more = if self.chip.generation.hash_by_commands { capability::RSS_PCTYPE_V2 } else { 0 };
        let offered = OFFERED | more;
        let wanted = match bytes.len() {
            0 => offered,
            4 => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            _ => return Err(LENGTH),
        };
        let vf = &mut self.vfs[n];
        vf.active = true;
        let vlans = if vf.policy.vlan.is_some() { capability::VLAN } else { 0 };
        let of = Resources {
            queues: VF_QUEUES as u16,
            vectors: self.vectors,
            max_mtu: 0,
            capabilities: (offered & !vlans) & (wanted | capability::L2),
            key_size: KEY as u32,
            lut_size: TABLE as u32,
            vsi: vsi.number,
            queue_set: vsi.queue_set,
            mac: vf.mac,
        };
        Ok(of.encode())
    }

    /// Starts or stops queues, all of which must be there and known; the answer, unless they take their
    /// time.
    fn select(&mut self, n: usize, opcode: u32, bytes: &[u8]) -> Result<Option<Answer>> {
        let vf = &self.vfs[n];
        let Some(vsi) = vf.vsi.filter(|_| vf.active) else { return Ok(Some(PARAM)) };
        let Some(select) = Select::decode(bytes) else { return Ok(Some(Err(LENGTH))) };
        let wanted = [select.rx, select.tx];
        let there = (1u32 << VF_QUEUES) - 1;
        let known = match opcode {
            op::ENABLE_QUEUES => vf.configured,
            _ => [there; 2],
        };
        let good = wanted.iter().zip(known).all(|(wanted, known)| wanted & !known == 0);
        if select.vsi != vsi.number || !good || wanted == [0; 2] {
            return Ok(Some(PARAM));
        }
        let running = vf.running;
        match opcode {
            op::ENABLE_QUEUES => self.start(n, [0, 1].map(|kind| wanted[kind] & !running[kind])),
            _ => self.stop(n, [0, 1].map(|kind| wanted[kind] & running[kind])),
        }
        self.go_on_with(n)
    }

    /// Changes filters and tells the firmware; they stay as they were if that fails.
    fn filter(&mut self, n: usize, vsi: Vsi, change: impl FnOnce(&mut super::Filters)) -> Result<Answer> {
        let (chip, filters) = (self.chip.clone(), &mut self.vfs[n].filters);
        let before = filters.clone();
        change(filters);
        let told = chip.with_admin(|admin| filters.tell(admin, vsi.seid, &chip.name));
        if told.is_err() {
            filters.restore(before);
            // What was added before there was no room goes again; what does not, with the next change.
            if let Err(error) = chip.with_admin(|admin| filters.tell(admin, vsi.seid, &chip.name)) {
                let error = chip.unless_failed(error)?;
                tracing::warn!(port = chip.name, vf = n, "its filters are not as they were: {error}");
            }
        }
        self.by_firmware(told)
    }

    fn addresses(&mut self, n: usize, opcode: u32, vsi: Vsi, bytes: &[u8]) -> Result<Answer> {
        let Some(list) = Addresses::decode(bytes) else { return Ok(Err(LENGTH)) };
        let vf = &self.vfs[n];
        let (policy, own) = (vf.policy, vf.mac);
        let adding = opcode == op::ADD_ETH_ADDR;
        let is_good = |mac: &[u8; 6]| {
            // Another address than the one that was set is for one with trust, and so is another's: with
            // it come copies of that one's frames.
            let any = policy.trust || *mac == own || MacAddress(*mac).is_multicast();
            let free = any || policy.mac.is_none() && !(adding && self.has_other(n, *mac));
            ![MacAddress::ZERO, MacAddress::BROADCAST].contains(&MacAddress(*mac)) && free
        };
        if list.vsi != vsi.number || !list.addresses.iter().all(is_good) {
            return Ok(PARAM);
        }
        let most = vf.limits.addresses;
        let mut filters = vf.filters.clone();
        for mac in &list.addresses {
            let is_group = MacAddress(*mac).is_multicast();
            let kind = if is_group { filters.multicast() } else { &mut filters.unicast };
            kind.retain(|other| other != mac);
            kind.extend(adding.then_some(*mac));
        }
        let count = filters.unicast.len() + filters.multicast().len();
        if adding && count > most {
            return Ok(Err(status::ERR_NO_MEMORY));
        }
        let (unicast, multicast) = (filters.unicast.clone(), filters.multicast().clone());
        self.filter(n, vsi, |filters| {
            filters.unicast = unicast;
            *filters.multicast() = multicast;
        })
    }

    /// Whether the port has an address, or another virtual function.
    fn has_other(&self, n: usize, mac: [u8; 6]) -> bool {
        let mut others = self.vfs.iter().enumerate().filter(|(other, _)| *other != n);
        let of_port = self.chip.state().filters.unicast.contains(&mac);
        of_port || others.any(|(_, vf)| vf.mac == mac || vf.filters.unicast.contains(&mac))
    }

    fn vlans(&mut self, n: usize, opcode: u32, vsi: Vsi, bytes: &[u8]) -> Result<Answer> {
        let Some(list) = Vlans::decode(bytes) else { return Ok(Err(LENGTH)) };
        let (policy, most) = (self.vfs[n].policy, self.vfs[n].limits.vlans);
        let known = list.vlans.iter().all(|vlan| *vlan <= wire::vlan::ID);
        if list.vsi != vsi.number || policy.vlan.is_some() || !known {
            return Ok(PARAM);
        }
        let mut vlans = self.vfs[n].filters.vlans().clone();
        for vlan in list.vlans {
            let _ = if opcode == op::ADD_VLAN { vlans.insert(vlan) } else { vlans.remove(&vlan) };
        }
        // Frames without a tag, for which VLAN 0 stands, are received beside those of any VLAN.
        if vlans.iter().filter(|vlan| **vlan != UNTAGGED).count() > most {
            return Ok(Err(status::ERR_NO_MEMORY));
        }
        self.filter(n, vsi, |filters| {
            // Frames of all VLANs come to one that has named none.
            filters.use_vlans(!vlans.is_empty());
            *filters.vlans() = vlans;
        })
    }

    /// One without trust is told that it has the modes, as drivers of the field expect, and has not.
    fn promiscuous(&mut self, n: usize, vsi: Vsi, bytes: &[u8]) -> Result<Answer> {
        let Some(Promiscuous { vsi: number, modes }) = Promiscuous::decode(bytes) else {
            return Ok(Err(LENGTH));
        };
        if number != vsi.number || modes & !(promiscuous::UNICAST | promiscuous::MULTICAST) != 0 {
            return Ok(PARAM);
        }
        let vf = &mut self.vfs[n];
        if !vf.policy.trust {
            vf.counters.not_trusted += u64::from(modes != 0);
            return Ok(NOTHING);
        }
        self.filter(n, vsi, |filters| {
            filters.all_unicast = modes & promiscuous::UNICAST != 0;
            filters.all_multicast = modes & promiscuous::MULTICAST != 0;
        })
    }

    /// What was counted of a virtual function since its last reset.
    fn statistics(&mut self, n: usize) -> Counters {
        let chip = &self.chip;
        self.vfs[n].counted.update(&chip.bar, || chip.pci.health().is_ok())
    }

    /// The key of the hash, or its table.
    fn hash(&mut self, n: usize, opcode: u32, vsi: Vsi, bytes: &[u8]) -> Result<Answer> {
        let Some(rss) = Rss::decode(bytes) else { return Ok(Err(LENGTH)) };
        let key = opcode == op::CONFIG_RSS_KEY;
        let fits = rss.bytes.len() == if key { KEY } else { TABLE };
        let there = key || rss.bytes.iter().all(|queue| usize::from(*queue) < VF_QUEUES);
        if rss.vsi != vsi.number || !fits || !there {
            return Ok(PARAM);
        }
        let owner = Owner::Vf { n, vsi: vsi.number };
        self.by_firmware(match key {
            true => self.chip.set_key(owner, &rss.bytes),
            false => self.chip.set_table(owner, &rss.bytes),
        })
    }

    fn classes(&mut self, n: usize, bytes: &[u8]) -> Result<Answer> {
        let Some(Classes(classes)) = Classes::decode(bytes) else { return Ok(Err(LENGTH)) };
        if classes & !self.chip.generation.hashed() != 0 {
            return Ok(PARAM);
        }
        let halves = [classes as u32, (classes >> 32) as u32];
        let write = |(at, half)| self.chip.write_receive_register(VFQF_HENA1::at(row(at, n)), half);
        self.by_firmware(halves.into_iter().enumerate().try_for_each(write))
    }

    /// Has tags taken out of received frames, or not.
    fn strip(&mut self, n: usize, vsi: Vsi, on: bool) -> Result<Answer> {
        let vlan = self.vfs[n].policy.vlan;
        if vlan.is_some() {
            return Ok(PARAM);
        }
        let mut properties = [0; vsi::LEN];
        properties[vsi::VALID_SECTIONS..vsi::VALID_SECTIONS + 2]
            .copy_from_slice(&vsi::VLAN_VALID.to_le_bytes());
        properties[vsi::PORT_VLAN_FLAGS] = port_vlan_flags(vlan, on);
        let mut command = Descriptor::new(opcode::UPDATE_VSI);
        command.set_param(0, &vsi.seid.to_le_bytes());
        self.by_firmware(self.chip.with_admin(|admin| admin.write(command, &properties)).map(|_| ()))
    }
}
