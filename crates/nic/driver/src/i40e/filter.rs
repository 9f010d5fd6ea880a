//! Which frames are received (datasheet chapter 7): filters of an address and a VLAN, and
//! promiscuous modes, set by commands. What is wanted is kept here; each change adds and
//! removes what makes the difference.

use std::collections::BTreeSet;

use port::{Flow, FlowTarget};
use regs::i40e::admin::{Descriptor, error, macvlan, opcode, promiscuous};

use super::admin::AdminQueue;
use super::device::Chip;
use super::info::FILTERS;
use crate::intel::FilterTables;
use crate::{Error, Result};

/// The address of all hosts.
const BROADCAST: [u8; 6] = [0xFF; 6];
/// Filters in a command's buffer.
const AT_ONCE: usize = regs::i40e::admin::BUFFER / macvlan::LEN;
/// The VLAN that stands for frames without a tag.
const UNTAGGED: u16 = 0;

/// An address, and a VLAN unless any will do.
type Filter = ([u8; 6], Option<u16>);

/// What is wanted, and what the firmware was told.
#[derive(Debug, Clone, Default)]
pub(super) struct Filters {
    /// Nothing is received while this is false.
    pub receiving: bool,
    pub all_unicast: bool,
    pub all_multicast: bool,
    /// The firmware knows that all unicast means what comes from the wire.
    pub rx_only: bool,
    pub broadcast: bool,
    /// The port's own address first.
    pub unicast: Vec<[u8; 6]>,
    multicast: Vec<[u8; 6]>,
    by_vlan: bool,
    vlans: BTreeSet<u16>,
    /// Filters of the card's table that are kept for others.
    pub others: usize,
    /// All frames have this tag outside of the VSI.
    pub port_vlan: Option<u16>,
    told: BTreeSet<Filter>,
}

impl Filters {
    /// A port with this address, which receives nothing yet.
    pub fn new(mac: [u8; 6]) -> Filters {
        Filters { broadcast: true, unicast: vec![mac], ..Filters::default() }
    }

    pub fn use_vlans(&mut self, on: bool) {
        self.by_vlan = on;
    }

    /// Multicast addresses that are received.
    pub fn multicast(&mut self) -> &mut Vec<[u8; 6]> {
        &mut self.multicast
    }

    /// VLANs that are received where VLANs count.
    pub fn vlans(&mut self) -> &mut BTreeSet<u16> {
        &mut self.vlans
    }

    /// Goes back to what was wanted before, knowing what the firmware was told since.
    pub fn restore(&mut self, before: Filters) {
        let told = std::mem::take(&mut self.told);
        *self = Filters { told, ..before };
    }

    /// The filters that should be there.
    fn wanted(&self) -> BTreeSet<Filter> {
        if self.receiving { self.while_receiving() } else { BTreeSet::new() }
    }

    /// The filters that are there while frames are let in.
    pub fn while_receiving(&self) -> BTreeSet<Filter> {
        let broadcast = self.broadcast.then_some(BROADCAST);
        let addresses = self.unicast.iter().chain(&self.multicast).copied().chain(broadcast);
        let vlans: Vec<Option<u16>> = match self.by_vlan {
            _ if self.port_vlan.is_some() => vec![self.port_vlan],
            true => self.vlans.iter().copied().chain([UNTAGGED]).map(Some).collect(),
            false => vec![None],
        };
        addresses.flat_map(|mac| vlans.iter().map(move |vlan| (mac, *vlan))).collect()
    }

    /// Tells the firmware what makes the difference, for a VSI.
    pub fn tell(&mut self, admin: &mut AdminQueue, seid: u16, device: &str) -> Result<()> {
        let wanted = self.wanted();
        let capacity = FILTERS - self.others;
        let full = || Error::TableFull { device: device.to_owned(), table: "MAC and VLAN filters", capacity };
        // Before it receives, too: what is wanted then is told at once or never.
        let most = if self.told.is_empty() { self.while_receiving().len() } else { wanted.len() };
        if most > capacity {
            return Err(full());
        }
        let gone: Vec<Filter> = self.told.difference(&wanted).copied().collect();
        for filters in gone.chunks(AT_ONCE) {
            remove(admin, seid, filters)?;
            filters.iter().for_each(|filter| _ = self.told.remove(filter));
        }
        // Before the filters, by which the VSI begins to receive: all that is wanted, from the first frame
        // on. Behind them where VLANs count, which are all let in as long as there is no filter of one.
        if !self.by_vlan {
            self.tell_modes(admin, seid)?;
        }
        let new: Vec<Filter> = wanted.difference(&self.told).copied().collect();
        for filters in new.chunks(AT_ONCE) {
            let (retval, answers) = change(admin, seid, opcode::ADD_MACVLAN, filters)?;
            let added = |n: &usize| answers.get(n * macvlan::LEN + macvlan::ANSWER) != Some(&macvlan::FAILED);
            self.told.extend((0..filters.len()).filter(added).map(|n| filters[n]));
            match retval {
                0 => {}
                // Other functions of the card have more of the table than was left to them.
                error::ENOSPC => return Err(full()),
                other => return Err(admin.refused(opcode::ADD_MACVLAN, other)),
            }
        }
        if self.by_vlan { self.tell_modes(admin, seid) } else { Ok(()) }
    }

    /// Tells the firmware which frames the VSI receives whatever its filters are.
    fn tell_modes(&self, admin: &mut AdminQueue, seid: u16) -> Result<()> {
        let mode = |on: bool, bit: u16| if on && self.receiving { bit } else { 0 };
        let unicast = promiscuous::UNICAST | if self.rx_only { promiscuous::RX_ONLY } else { 0 };
        let both = unicast | promiscuous::MULTICAST;
        let modes = mode(self.all_unicast, unicast) | mode(self.all_multicast, promiscuous::MULTICAST);
        let mut command = Descriptor::new(opcode::SET_VSI_PROMISCUOUS);
        for (at, half) in [(0, modes), (2, both), (4, seid)] {
            command.set_param(at, &half.to_le_bytes());
        }
        admin.command(command).map(|_| ())
    }
}

/// Removes some filters. What the firmware does not know any more is gone, too.
fn remove(admin: &mut AdminQueue, seid: u16, filters: &[Filter]) -> Result<()> {
    match change(admin, seid, opcode::REMOVE_MACVLAN, filters)?.0 {
        0 | error::ENOENT => Ok(()),
        other => Err(admin.refused(opcode::REMOVE_MACVLAN, other)),
    }
}

/// Adds or removes some filters; the firmware's error, and its answers.
fn change(admin: &mut AdminQueue, seid: u16, opcode: u16, filters: &[Filter]) -> Result<(u16, Vec<u8>)> {
    let any_vlan = match opcode {
        opcode::ADD_MACVLAN => macvlan::ADD_ANY_VLAN,
        _ => macvlan::REMOVE_ANY_VLAN,
    };
    let mut data = Vec::new();
    for (mac, vlan) in filters {
        let mut one = [0; macvlan::LEN];
        one[..mac.len()].copy_from_slice(mac);
        one[macvlan::VLAN..macvlan::FLAGS].copy_from_slice(&vlan.unwrap_or(0).to_le_bytes());
        let flags = macvlan::PERFECT | if vlan.is_none() { any_vlan } else { 0 };
        one[macvlan::FLAGS..macvlan::FLAGS + 2].copy_from_slice(&flags.to_le_bytes());
        data.extend(one);
    }
    let mut command = Descriptor::new(opcode);
    command.set_param(0, &(filters.len() as u16).to_le_bytes());
    command.set_param(2, &(seid | macvlan::SEID_VALID).to_le_bytes());
    admin.exchange_bytes(command, &data)
}

impl Chip {
    /// Forgets the filter that the firmware made for the port's own address: some firmware lets
    /// every VLAN through, other frames without a tag.
    pub(super) fn remove_first_filter(&self, mac: [u8; 6]) -> Result<()> {
        let seid = self.state().vsi.seid;
        self.with_admin(|admin| {
            remove(admin, seid, &[(mac, Some(UNTAGGED))])?;
            remove(admin, seid, &[(mac, None)])
        })
    }

    /// Changes what is wanted, and tells the firmware. Nothing is changed when there is no room.
    pub(super) fn change_filters(&self, change: impl FnOnce(&mut Filters)) -> Result<()> {
        self.with_admin(|admin| {
            let mut state = self.state();
            let seid = state.vsi.seid;
            let before = state.filters.clone();
            change(&mut state.filters);
            let told = state.filters.tell(admin, seid, &self.name);
            if told.is_err() {
                state.filters.restore(before);
                // What was added before there was no room goes again.
                if let Err(error) = state.filters.tell(admin, seid, &self.name) {
                    tracing::debug!(port = self.name, "{error}");
                }
            }
            told
        })
    }
}

impl FilterTables for Chip {
    fn add_unicast(&self, mac: [u8; 6]) -> Result<()> {
        self.change_filters(|filters| {
            if !filters.unicast.contains(&mac) {
                filters.unicast.push(mac);
            }
        })
    }

    fn remove_unicast(&self, mac: [u8; 6]) -> Result<bool> {
        let mut was = false;
        self.change_filters(|filters| {
            // The first is the port's own.
            let place = filters.unicast.iter().skip(1).position(|other| *other == mac);
            was = place.map(|place| filters.unicast.remove(place + 1)).is_some();
        })?;
        Ok(was)
    }

    fn set_multicast(&self, addresses: &[[u8; 6]]) -> Result<()> {
        self.change_filters(|filters| filters.multicast = addresses.to_vec())
    }

    fn set_vlan(&self, vlan: u16, on: bool) -> Result<()> {
        self.change_filters(|filters| {
            let _ = if on { filters.vlans.insert(vlan) } else { filters.vlans.remove(&vlan) };
        })
    }

    fn set_vlan_filter(&self, on: bool) -> Result<()> {
        self.change_filters(|filters| filters.use_vlans(on))
    }

    fn set_broadcast(&self, on: bool) -> Result<()> {
        self.change_filters(|filters| filters.broadcast = on)
    }

    fn flow_filters(&self) -> usize {
        self.flow_capacity()
    }

    fn add_flow(&self, flow: &Flow, target: FlowTarget) -> Result<()> {
        self.direct(flow, target)
    }

    fn remove_flow(&self, flow: &Flow) -> Result<bool> {
        self.undirect(flow)
    }
}
