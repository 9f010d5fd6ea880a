//! The port as host of its virtual functions (datasheet chapters 4 and 7): a bridge with a VSI for
//! each, queues and vectors of theirs, resets, and the messages of their drivers, which
//! [`Host::poll`] answers (virtchnl 1.1, [`regs::virtchnl`]).
//!
//! Drivers of virtual functions are hostile: what they ask for is checked against what theirs has
//! and the [`Policy`] for it, refused by a status, and counted. They take turns, and none waits for
//! another's queues or reset. Not here: channels, more queues on request, RDMA.

mod bring_up;
mod inbox;
mod limits;
mod messages;
mod queues;

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use bus::Pci;
use memory::Dma;
use port::{Link, Options, Port as _};
use regs::i40e::admin::{Descriptor, capability, error, opcode, vsi};
use regs::i40e::{VFS, control_packet};
use regs::virtchnl::{self, event, message::Event, op, status};
use wire::ethernet::EtherType;

use super::device::Chip;
use super::filter::Filters;
use super::info::FILTERS;
use super::stats::OfVf;
use super::{I40e, I40eFault, MOST_QUEUES};
use crate::vf_host::{Hosting, own_address};
pub use crate::vf_host::{Policy, VfCounters};
use crate::{Error, Result};
use bring_up::{DRAINED, Wait};
pub use inbox::Inbox;
use inbox::Message;
use limits::Limits;
use queues::Switching;

/// The first queue of virtual functions: behind the port's own, and the one that programs filters.
const FIRST_QUEUE: usize = MOST_QUEUES + 1;
/// Queue pairs of a virtual function.
pub const VF_QUEUES: usize = 4;

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
    limits: Limits,
    /// Its driver has asked for its resources since the last reset.
    active: bool,
    /// Queues whose rings are known, and those that run, a bit each: receive, transmit.
    configured: [u32; 2],
    running: [u32; 2],
    /// Queues that are being started or stopped, of which its driver is to be told.
    switching: Option<Switching>,
    /// What has to come before it may work.
    waits: Option<Wait>,
    /// What its VSI has counted.
    counted: OfVf,
    counters: VfCounters,
}

/// A host of virtual functions. They are reset when it is dropped.
pub struct Host {
    chip: Arc<Chip>,
    /// The port it was opened with, which is dropped after the virtual functions are reset.
    _port: Option<I40e>,
    vfs: Vec<Vf>,
    /// The bridge's SEID.
    bridge: u16,
    /// The number of the first of them on the card, and their vectors.
    first: u16,
    vectors: u16,
    /// What they were told of the link.
    link: Link,
    /// How long the device's queues may take to run empty behind a reset.
    drain: Duration,
}

impl Host {
    /// Opens a device and makes virtual functions work that it has, one for each policy. Its port,
    /// which nobody else has, stays open with the host.
    ///
    /// # Errors
    /// Those of [`I40e::open`] and [`Host::new`].
    pub fn open(pci: Pci, dma: &Dma, options: Options, policies: &[Policy]) -> Result<Host> {
        // Nobody could start it.
        let port = I40e::open(pci, dma, Options { deferred_start: false, ..options })?;
        let mut host = Host::new(&port, policies)?;
        host._port = Some(port);
        Ok(host)
    }

    /// Makes virtual functions work that the device has, one for each policy. The port is to be
    /// dropped after its host.
    ///
    /// # Errors
    /// [`Error::FewVfs`] and [`I40eFault::FewQueues`] when the device has not so many; when the firmware
    /// refuses what is to be set up.
    pub fn new(port: &I40e, policies: &[Policy]) -> Result<Host> {
        Host::with_drain(port, policies, DRAINED)
    }

    /// The same, of a device whose queues run empty within `drain` when a virtual function is reset: a
    /// model's are empty at once.
    ///
    /// # Errors
    /// Those of [`Host::new`].
    pub fn with_drain(port: &I40e, policies: &[Policy], drain: Duration) -> Result<Host> {
        let chip = port.chip.clone();
        let (first, vectors) = chip.has_vfs(policies.len())?;
        let mac = port.mac();
        let limits = chip.divide_filters(policies)?;
        let bridge = chip.open_bridge().inspect_err(|_| chip.state().filters.others = 0)?;
        let vf = |(n, (policy, limits)): (usize, (&Policy, Limits))| Vf {
            policy: *policy,
            mac: policy.mac.unwrap_or(own_address(mac, n)),
            vsi: None,
            filters: Filters::default(),
            limits,
            active: false,
            configured: [0; 2],
            running: [0; 2],
            switching: None,
            waits: None,
            counted: OfVf::default(),
            counters: VfCounters::default(),
        };
        let vfs = policies.iter().zip(limits).enumerate().map(vf).collect();
        let mut host = Host { chip, _port: None, vfs, bridge, first, vectors, link: Link::DOWN, drain };
        host.chip.drop_control_frames()?;
        host.link = host.chip.link_by_events();
        host.bring_up_all()?;
        Ok(host)
    }

    /// Answers what virtual functions ask, brings up those that were reset, and tells all when the
    /// link changes; how much was done. What a virtual function does wrong is no error here.
    ///
    /// # Errors
    /// When the device itself fails.
    pub fn poll(&mut self) -> Result<usize> {
        let mut done = self.take_resets()? + self.go_on_with_resets()? + self.go_on_with_queues()?;
        let link = self.chip.link_by_events();
        if link != self.link {
            self.link = link;
            let active: Vec<usize> = (0..self.vfs.len()).filter(|n| self.vfs[*n].active).collect();
            active.into_iter().for_each(|n| self.tell_link(n));
            done += 1;
        }
        // As many as there are virtual functions: what else is to be done is looked at again soon. Events
        // are fetched in between, for one that floods leaves the others few of their descriptors.
        for _ in 0..self.vfs.len() {
            let Some(message) = self.next_message()? else { break };
            done += 1;
            match self.vf_of(message.vf) {
                // Of before its reset.
                Some(n) if self.vfs[n].waits.is_some() => self.vfs[n].counters.discarded += 1,
                Some(n) => self.serve(n, &message)?,
                None => self.chip.state().inbox.lose(message.vf),
            }
        }
        Ok(done)
    }

    /// Which virtual function has a number on the card.
    fn vf_of(&self, number: usize) -> Option<usize> {
        number.checked_sub(self.first.into()).filter(|n| *n < self.vfs.len())
    }

    /// The message whose turn it is, of those that came up to now. What a virtual function sends waits
    /// while its queues are being started or stopped.
    fn next_message(&self) -> Result<Option<Message>> {
        self.chip.fetch_events()?;
        let busy = |number| self.vf_of(number).is_some_and(|n| self.vfs[n].switching.is_some());
        Ok(self.chip.state().inbox.take(busy))
    }

    /// Resets a virtual function, whose driver is told before; [`Host::poll`] gives it what it has
    /// when the device is done with the reset.
    ///
    /// # Errors
    /// [`Error::FewVfs`] when there is none of that number.
    pub fn reset(&mut self, vf: usize) -> Result<()> {
        if vf >= self.vfs.len() {
            let (device, has) = (self.chip.name.clone(), self.vfs.len());
            return Err(Error::FewVfs { device, has, wanted: vf + 1 });
        }
        let impending =
            Event { event: event::RESET_IMPENDING, link: (0, false), severity: event::SEVERITY_CERTAIN };
        self.send(vf, op::EVENT, status::SUCCESS, &impending.encode());
        self.begin_reset(vf, true);
        Ok(())
    }

    /// The address of a virtual function; `None` when there is none of that number.
    pub fn mac(&self, vf: usize) -> Option<[u8; 6]> {
        self.vfs.get(vf).map(|vf| vf.mac)
    }

    /// What was counted of a virtual function.
    pub fn counters(&self, vf: usize) -> VfCounters {
        let Some(counters) = self.vfs.get(vf).map(|vf| vf.counters) else { return VfCounters::default() };
        let messages_lost = self.chip.state().inbox.lost_of(usize::from(self.first) + vf);
        VfCounters { messages_lost, ..counters }
    }

    /// Messages that were lost: those that came while too many of the same virtual function waited, and
    /// those of none that is hosted here.
    pub fn lost(&self) -> u64 {
        self.chip.state().inbox.lost()
    }

    /// Sends a message to a virtual function. One that takes none loses it, which is counted.
    fn send(&mut self, vf: usize, opcode: u32, status: i32, bytes: &[u8]) {
        let mut command = Descriptor::new(opcode::SEND_MSG_TO_VF);
        command.cookie = u64::from(opcode) | u64::from(status as u32) << 32;
        command.set_param(0, &(u32::from(self.first) + vf as u32).to_le_bytes());
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

impl Hosting for Host {
    fn poll(&mut self) -> Result<usize> {
        Host::poll(self)
    }

    fn reset(&mut self, vf: usize) -> Result<()> {
        Host::reset(self, vf)
    }

    fn mac(&self, vf: usize) -> Option<[u8; 6]> {
        Host::mac(self, vf)
    }

    fn counters(&self, vf: usize) -> VfCounters {
        Host::counters(self, vf)
    }

    fn lost(&self) -> u64 {
        Host::lost(self)
    }
}

impl Drop for Host {
    /// Resets all of them and takes the bridge away.
    fn drop(&mut self) {
        let closing =
            Event { event: event::PF_DRIVER_CLOSE, link: (0, false), severity: event::SEVERITY_CERTAIN };
        for n in 0..self.vfs.len() {
            self.send(n, op::EVENT, status::SUCCESS, &closing.encode());
            self.begin_reset(n, true);
        }
        sleep(self.drain);
        let begun = Instant::now();
        (0..self.vfs.len()).for_each(|n| self.take_down(n, begun));
        self.chip.state().filters.others = 0;
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
            return Err(Error::FewVfs { device: device(), has: has as usize, wanted });
        }
        if !are_numbers(first, wanted) {
            let why = "no card has virtual functions of these numbers";
            return Err(self.nonsense("LIST_FUNC_CAPABILITIES", why));
        }
        let queues = FIRST_QUEUE + wanted * VF_QUEUES;
        let has = of(capability::TXQ).map_or(0, |(number, _)| number as usize);
        if has < queues {
            return Err(I40eFault::FewQueues { device: device(), has, wanted: queues }.into());
        }
        let vectors = of(capability::VF_MSIX).map_or(0, |(number, _)| number as u16);
        Ok((first as u16, vectors))
    }

    /// Takes what the firmware sent since, and is given its descriptors back.
    fn fetch_events(&self) -> Result<()> {
        self.with_admin(|admin| {
            self.take_events(admin);
            Ok(())
        })
    }

    /// Divides the table of filters among the port and virtual functions, none of which takes what
    /// another may have from then on.
    fn divide_filters(&self, policies: &[Policy]) -> Result<Vec<Limits>> {
        let mut of_port = 0;
        self.change_filters(|filters| {
            of_port = limits::of_port(filters.while_receiving().len());
            filters.others = FILTERS - of_port;
        })?;
        Ok(limits::divide(policies, FILTERS - of_port))
    }

    /// The bridge, to which what the port sends goes from now on, too.
    fn open_bridge(&self) -> Result<u16> {
        let seid = self.state().vsi.seid;
        let mut get = Descriptor::new(opcode::GET_VSI);
        get.set_param(0, &seid.to_le_bytes());
        let (_, properties) = self.with_admin(|admin| admin.read(get, vsi::LEN))?;
        let short = |_| self.nonsense("GET_VSI", "it is too short");
        let mut properties: [u8; vsi::LEN] = properties.try_into().map_err(short)?;
        properties[vsi::VALID_SECTIONS..vsi::VALID_SECTIONS + 2]
            .copy_from_slice(&vsi::SWITCH_VALID.to_le_bytes());
        properties[vsi::SWITCH_ID + 1] |= (vsi::ALLOW_LB >> 8) as u8;
        let mut update = Descriptor::new(opcode::UPDATE_VSI);
        update.set_param(0, &seid.to_le_bytes());
        self.with_admin(|admin| admin.write(update, &properties))?;
        self.bridge()
    }

    /// Has the device drop frames that rule the link or tell who stands at its end: a virtual function
    /// that sends PAUSE frames stops the port of others, and with LLDP it poses as the host. Ours, as
    /// those of Linux, name the function's VSI and are for what any VSI sends; the function's reset
    /// removes them. Firmware that has one already says so.
    fn drop_control_frames(&self) -> Result<()> {
        let seid = self.state().vsi.seid;
        let flags = control_packet::IGNORE_MAC | control_packet::DROP | control_packet::TX;
        for ethertype in [EtherType::MAC_CONTROL, EtherType::LLDP] {
            let mut add = Descriptor::new(opcode::ADD_CONTROL_PACKET_FILTER);
            add.set_param(control_packet::ETHERTYPE, &ethertype.0.to_le_bytes());
            add.set_param(control_packet::FLAGS, &flags.to_le_bytes());
            add.set_param(control_packet::SEID, &seid.to_le_bytes());
            self.with_admin(|admin| admin.command_unless(add, &[error::EEXIST]))?;
        }
        Ok(())
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

    /// Gives an error back that is of what was asked for alone.
    ///
    /// # Errors
    /// The others: when the device is gone, or its firmware answers no more.
    fn unless_failed(&self, error: Error) -> Result<Error> {
        self.pci.health()?;
        match error {
            Error::I40e(I40eFault::Stuck { .. } | I40eFault::NoAnswer { .. }) => Err(error),
            error => Ok(error),
        }
    }

    /// Removes an element of the switch; one that is not there is gone.
    fn delete(&self, seid: u16) -> Result<()> {
        let mut command = Descriptor::new(opcode::DELETE_ELEMENT);
        command.set_param(0, &seid.to_le_bytes());
        self.with_admin(|admin| admin.command_unless(command, &[error::ENOENT]))
    }
}

/// Whether a card can have so many virtual functions from this number on.
fn are_numbers(first: u32, count: usize) -> bool {
    (first as usize).checked_add(count).is_some_and(|end| end <= VFS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_virtual_functions_are_those_that_a_card_can_have() {
        assert!(are_numbers(0, VFS) && are_numbers(127, 1));
        assert!(!are_numbers(127, 2) && !are_numbers(0x1_0000, 1) && !are_numbers(u32::MAX, 1));
    }
}
