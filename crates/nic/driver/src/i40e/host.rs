//! The port as host of its virtual functions (datasheet chapters 4 and 7): a bridge with a VSI for
//! each, queues and vectors of theirs, resets, and the messages of their drivers, which
//! [`Host::poll`] answers (virtchnl 1.1, [`regs::virtchnl`]).
//!
//! Drivers of virtual functions are hostile: what they ask for is checked against what theirs has
//! and the [`Policy`] for it, refused by a status, and counted; a poll answers a bounded number of
//! them. Not here: limits of bandwidth, channels, more queues on request, RDMA.

mod bring_up;
mod messages;
mod queues;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use port::{Link, Port as _};
use regs::i40e::admin::{Descriptor, capability, error, opcode, vsi};
use regs::virtchnl::{self, event, message::Event, op, status};

use super::device::Chip;
use super::filter::Filters;
use super::stats::OfVf;
use super::{Fault, I40e, MOST_QUEUES};
use crate::Result;

/// The first queue of virtual functions: behind the port's own, and the one that programs filters.
const FIRST_QUEUE: usize = MOST_QUEUES + 1;
/// Queue pairs of a virtual function.
pub const VF_QUEUES: usize = 4;
/// Messages of a virtual function that wait to be looked at; those that come then are lost, and
/// counted. Its driver sends one and waits for the answer.
const MOST_WAITING: usize = 16;
/// Messages answered in a poll.
const AT_ONCE: usize = 64;

/// What a virtual function may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Its address; one that is made of the port's if it is `None`, and then its driver may have others.
    pub mac: Option<[u8; 6]>,
    /// The VLAN, 1 to 4094, whose tag all its frames have outside, and that it sees nothing of.
    pub vlan: Option<u16>,
    /// It may receive all frames, and have as many addresses and VLANs as there is room for.
    pub trust: bool,
    /// What it sends from an address that is not its own is dropped by the device.
    pub spoof_check: bool,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy { mac: None, vlan: None, trust: false, spoof_check: true }
    }
}

/// What a host counted of a virtual function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VfCounters {
    /// Messages that were answered.
    pub messages: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Answers and events that the firmware did not take, for the virtual function takes none.
    pub unsent: u64,
    /// Promiscuous modes that one without trust asked for and does not have.
    pub not_trusted: u64,
    /// Its resets, whoever asked for them.
    pub resets: u64,
    /// Those after which it could not be brought up at once.
    pub not_brought_up: u64,
}

/// Messages of virtual functions, as they came.
#[derive(Debug, Default)]
pub struct Inbox {
    waiting: VecDeque<Message>,
    lost: u64,
}

/// A message, and from whom it is.
#[derive(Debug)]
pub(super) struct Message {
    /// The virtual function's number on the card.
    vf: usize,
    opcode: u32,
    bytes: Vec<u8>,
}

impl Inbox {
    /// Keeps what an event brought.
    pub(super) fn put(&mut self, event: &Descriptor, bytes: Vec<u8>) {
        let vf = usize::from(event.retval);
        // A bound for each, so that one that floods loses its own alone.
        if self.waiting.iter().filter(|message| message.vf == vf).count() >= MOST_WAITING {
            self.lost += 1;
            return;
        }
        self.waiting.push_back(Message { vf, opcode: event.cookie as u32, bytes });
    }

    /// Throws away what came from a virtual function, by its number on the card.
    fn forget(&mut self, vf: usize) {
        self.waiting.retain(|message| message.vf != vf);
    }
}

/// The address of a virtual function that was given none: a local one, made of the port's.
fn own_address(port: [u8; 6], n: usize) -> [u8; 6] {
    let mut own = port;
    own[0] = own[0] & !1 | 2;
    // Unlike the port's, and unlike any other's.
    own[4] ^= 0x40;
    own[5] ^= n as u8;
    own
}

/// The VSI of a virtual function.
#[derive(Debug, Clone, Copy)]
struct Vsi {
    seid: u16,
    /// As messages and registers name it.
    number: u16,
    queue_set: u16,
    /// Where its counters are.
    counters: usize,
}

/// A virtual function.
struct Vf {
    policy: Policy,
    mac: [u8; 6],
    vsi: Option<Vsi>,
    filters: Filters,
    /// Its driver has asked for its resources since the last reset.
    active: bool,
    /// Queues whose rings are known, and those that run, a bit each: receive, transmit.
    configured: [u32; 2],
    running: [u32; 2],
    /// It could not be brought up, and when it is tried again.
    again: Option<Instant>,
    /// What its VSI has counted.
    counted: OfVf,
    counters: VfCounters,
}

/// A host of virtual functions. They are reset when it is dropped.
pub struct Host {
    chip: Arc<Chip>,
    vfs: Vec<Vf>,
    /// The bridge's SEID.
    bridge: u16,
    /// The number of the first of them on the card, and their vectors.
    first: u16,
    vectors: u16,
    /// What they were told of the link.
    link: Link,
}

impl Host {
    /// Makes virtual functions work that the device has, one for each policy. The port is to be
    /// dropped after its host.
    ///
    /// # Errors
    /// [`Fault::FewVfs`] and [`Fault::FewQueues`] when the device has not so many; when the firmware
    /// refuses what is to be set up.
    pub fn new(port: &I40e, policies: &[Policy]) -> Result<Host> {
        let chip = port.chip.clone();
        let (first, vectors) = chip.has_vfs(policies.len())?;
        let mac = port.mac();
        let bridge = chip.open_bridge()?;
        let vf = |(n, policy): (usize, &Policy)| Vf {
            policy: *policy,
            mac: policy.mac.unwrap_or(own_address(mac, n)),
            vsi: None,
            filters: Filters::default(),
            active: false,
            configured: [0; 2],
            running: [0; 2],
            again: None,
            counted: OfVf::default(),
            counters: VfCounters::default(),
        };
        let vfs = policies.iter().enumerate().map(vf).collect();
        let mut host = Host { chip, vfs, bridge, first, vectors, link: Link::DOWN };
        host.link = host.chip.link_by_events();
        for n in 0..host.vfs.len() {
            host.bring_up(n, true)?;
        }
        Ok(host)
    }

    /// Answers what virtual functions ask, brings up those that were reset, and tells all when the
    /// link changes; how much was done. What a virtual function does wrong is no error here.
    ///
    /// # Errors
    /// When the device itself fails.
    pub fn poll(&mut self) -> Result<usize> {
        let mut done = self.take_resets()? + self.try_again()?;
        let link = self.chip.link_by_events();
        if link != self.link {
            self.link = link;
            let active: Vec<usize> = (0..self.vfs.len()).filter(|n| self.vfs[*n].active).collect();
            active.into_iter().for_each(|n| self.tell_link(n));
            done += 1;
        }
        for _ in 0..AT_ONCE {
            let Some(message) = self.chip.state().inbox.waiting.pop_front() else { break };
            done += 1;
            match message.vf.checked_sub(self.first.into()).filter(|vf| *vf < self.vfs.len()) {
                Some(vf) => self.serve(vf, &message)?,
                None => self.chip.state().inbox.lost += 1,
            }
        }
        Ok(done)
    }

    /// Resets a virtual function, whose driver is told before.
    ///
    /// # Errors
    /// [`Fault::FewVfs`] when there is none of that number; when the device itself fails.
    pub fn reset(&mut self, vf: usize) -> Result<()> {
        if vf >= self.vfs.len() {
            let (device, has) = (self.chip.name.clone(), self.vfs.len());
            return Err(Fault::FewVfs { device, has, wanted: vf + 1 }.into());
        }
        let impending =
            Event { event: event::RESET_IMPENDING, link: (0, false), severity: event::SEVERITY_CERTAIN };
        self.send(vf, op::EVENT, status::SUCCESS, &impending.encode());
        self.bring_back(vf, true)
    }

    /// The address of a virtual function; `None` when there is none of that number.
    pub fn mac(&self, vf: usize) -> Option<[u8; 6]> {
        self.vfs.get(vf).map(|vf| vf.mac)
    }

    /// What was counted of a virtual function.
    pub fn counters(&self, vf: usize) -> VfCounters {
        self.vfs.get(vf).map(|vf| vf.counters).unwrap_or_default()
    }

    /// Messages that came while too many of the same virtual function waited.
    pub fn lost(&self) -> u64 {
        self.chip.state().inbox.lost
    }

    /// Sends a message to a virtual function. One that takes none loses it, which is counted.
    fn send(&mut self, vf: usize, opcode: u32, status: i32, bytes: &[u8]) {
        let mut command = Descriptor::new(opcode::SEND_MSG_TO_VF);
        command.cookie = u64::from(opcode) | u64::from(status as u32) << 32;
        command.set_param(0, &u32::from(self.first + vf as u16).to_le_bytes());
        let sent = self.chip.with_admin(|admin| match bytes {
            [] => admin.command(command),
            bytes => admin.write(command, bytes),
        });
        if let Err(error) = sent {
            tracing::debug!(port = self.chip.name, vf, "{error}");
            self.vfs[vf].counters.unsent += 1;
        }
    }

    /// Tells a virtual function of the link.
    fn tell_link(&mut self, vf: usize) {
        let speed = virtchnl::SPEEDS.iter().find(|(_, mbps)| *mbps == self.link.speed_mbps);
        let link = (speed.map_or(0, |(value, _)| *value), self.link.up);
        let told = Event { event: event::LINK_CHANGE, link, severity: event::SEVERITY_INFO };
        self.send(vf, op::EVENT, status::SUCCESS, &told.encode());
    }
}

impl Drop for Host {
    /// Resets all of them and takes the bridge away.
    fn drop(&mut self) {
        let closing =
            Event { event: event::PF_DRIVER_CLOSE, link: (0, false), severity: event::SEVERITY_CERTAIN };
        for n in 0..self.vfs.len() {
            self.send(n, op::EVENT, status::SUCCESS, &closing.encode());
            self.take_down(n);
        }
        if let Err(error) = self.chip.close_bridge(self.bridge) {
            tracing::debug!(port = self.chip.name, "{error}");
        }
    }
}

impl Chip {
    /// The first virtual function, and the vectors of each, if there are so many.
    fn has_vfs(&self, wanted: usize) -> Result<(u16, u16)> {
        let all = self.capabilities()?;
        let of = |wanted: u16| all.iter().find(|(kind, ..)| *kind == wanted).map(|one| (one.1, one.2));
        let (has, first) = of(capability::VF).unwrap_or((0, 0));
        let device = || self.name.clone();
        if (has as usize) < wanted {
            return Err(Fault::FewVfs { device: device(), has: has as usize, wanted }.into());
        }
        let queues = FIRST_QUEUE + wanted * VF_QUEUES;
        let has = of(capability::TXQ).map_or(0, |(number, _)| number as usize);
        if has < queues {
            return Err(Fault::FewQueues { device: device(), has, wanted: queues }.into());
        }
        let vectors = of(capability::VF_MSIX).map_or(0, |(number, _)| number as u16);
        Ok((first as u16, vectors))
    }

    /// The bridge, to which what the port sends goes from now on, too.
    fn open_bridge(&self) -> Result<u16> {
        let seid = self.state().vsi.seid;
        let mut get = Descriptor::new(opcode::GET_VSI);
        get.set_param(0, &seid.to_le_bytes());
        let (_, properties) = self.with_admin(|admin| admin.read(get, vsi::LEN))?;
        let mut properties: [u8; vsi::LEN] = properties.try_into().map_err(|_| Fault::Nonsense {
            device: self.name.clone(),
            command: "GET_VSI",
            why: "it is too short",
        })?;
        properties[vsi::VALID_SECTIONS..vsi::VALID_SECTIONS + 2]
            .copy_from_slice(&vsi::SWITCH_VALID.to_le_bytes());
        properties[vsi::SWITCH_ID + 1] |= (vsi::ALLOW_LB >> 8) as u8;
        let mut update = Descriptor::new(opcode::UPDATE_VSI);
        update.set_param(0, &seid.to_le_bytes());
        self.with_admin(|admin| admin.write(update, &properties))?;
        self.bridge()
    }

    /// Removes the bridge, unless Flow Director's VSI hangs on it.
    fn close_bridge(&self, bridge: u16) -> Result<()> {
        // Nobody adds a flow meanwhile.
        let _director = self.director();
        let has_vsi = self.state().director_set.is_some();
        if !has_vsi {
            self.delete(bridge)?;
            self.state().bridge = None;
        }
        Ok(())
    }

    /// Removes an element of the switch; one that is not there is gone.
    fn delete(&self, seid: u16) -> Result<()> {
        let mut command = Descriptor::new(opcode::DELETE_ELEMENT);
        command.set_param(0, &seid.to_le_bytes());
        self.with_admin(|admin| admin.command_unless(command, &[error::ENOENT]))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::own_address;

    #[test]
    fn addresses_that_are_made_are_local_and_all_different() {
        let port = [0, 0x1B, 0x21, 1, 2, 3];
        let made: BTreeSet<[u8; 6]> = (0..128).map(|n| own_address(port, n)).chain([port]).collect();
        assert_eq!(made.len(), 129);
        assert!(made.iter().all(|mac| *mac == port || mac[0] & 3 == 2));
    }
}
