//! The switch inside, as far as one function needs it: its port, itself and its VSI, with the
//! filters that decide which frames the VSI receives and the queues that they come to
//! (datasheet 332464, chapter 7).

use std::collections::{BTreeMap, BTreeSet};

use regs::i40e::admin::{element, promiscuous, vsi};

use wire::vlan;

/// SEIDs of the port's MAC, of the function and of its VSI.
const MAC_SEID: u16 = 2;
const PF_SEID: u16 = 16;
pub(super) const VSI_SEID: u16 = 390;
/// The queue set that the VSI's transmit queues belong to.
pub(super) const QUEUE_SET: u16 = 21;
/// Filters by address and VLAN.
pub(super) const FILTERS: usize = 1536;

/// Bits of an address's first byte that make it one of several hosts.
const GROUP: u8 = 1;

/// Why the VSI does not receive a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unwanted {
    Address,
    Vlan,
}

/// A filter: an address, and a VLAN unless any will do.
type Filter = ([u8; 6], Option<u16>);

/// The VSI and its filters.
#[derive(Debug)]
pub(super) struct Switch {
    filters: BTreeSet<Filter>,
    /// How many filters name each VLAN, which untagged frames have too.
    vlans: BTreeMap<u16, usize>,
    promiscuous: u16,
    properties: [u8; vsi::LEN],
}

impl Switch {
    pub fn new(mac: [u8; 6]) -> Switch {
        let mut properties = [0; vsi::LEN];
        let mut put = |at: usize, value: u16| properties[at..at + 2].copy_from_slice(&value.to_le_bytes());
        for class in 0..8 {
            put(vsi::QS_HANDLE + 2 * class, if class == 0 { QUEUE_SET } else { u16::MAX });
        }
        properties[vsi::PORT_VLAN_FLAGS] = vsi::PVLAN_MODE_ALL | vsi::PVLAN_EMOD_NOTHING;
        // The firmware gives the VSI one queue and the function's own address.
        let filters = BTreeSet::from([(mac, None)]);
        Switch { filters, vlans: BTreeMap::new(), promiscuous: 0, properties }
    }

    fn half(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.properties[at], self.properties[at + 1]])
    }

    /// The elements, as a command reads them: after a reset the firmware tells a function its
    /// VSI alone, and drivers take that for the sign that it is theirs.
    pub fn elements(&self) -> Vec<u8> {
        let mut bytes = vec![0; 2 * element::LEN];
        let (header, vsi) = bytes.split_at_mut(element::LEN);
        (header[0], header[2]) = (1, 1);
        (vsi[0], vsi[1]) = (element::VSI, 1);
        let downlink = element::UPLINK + 2;
        for (at, seid) in [(element::SEID, VSI_SEID), (element::UPLINK, MAC_SEID), (downlink, PF_SEID)] {
            vsi[at..at + 2].copy_from_slice(&seid.to_le_bytes());
        }
        bytes
    }

    /// The VSI's properties.
    pub fn properties(&self) -> &[u8; vsi::LEN] {
        &self.properties
    }

    /// Takes over the sections that are valid; nothing, and `false`, when the queues are not
    /// among the first `queues` of the function.
    pub fn update(&mut self, new: &[u8; vsi::LEN], queues: u16) -> bool {
        let before = self.properties;
        let valid = u16::from_le_bytes([new[vsi::VALID_SECTIONS], new[vsi::VALID_SECTIONS + 1]]);
        for (section, from, to) in [
            (vsi::VLAN_VALID, 8, vsi::PORT_VLAN_FLAGS + 4),
            (vsi::QUEUE_MAP_VALID, vsi::MAPPING_FLAGS, vsi::TC_MAPPING + 16),
            (vsi::QUEUE_OPT_VALID, vsi::TC_MAPPING + 16, vsi::TC_MAPPING + 20),
        ] {
            if valid & section != 0 {
                self.properties[from..to].copy_from_slice(&new[from..to]);
            }
        }
        let (first, number) = self.queues();
        let fits = u32::from(first) + u32::from(number) <= queues.into();
        if !fits {
            self.properties = before;
        }
        fits
    }

    /// Whether tags are stripped.
    pub fn strips(&self) -> bool {
        self.properties[vsi::PORT_VLAN_FLAGS] & vsi::PVLAN_EMOD_MASK == vsi::PVLAN_EMOD_STRIP
    }

    /// The first queue of the VSI, and how many there are: a power of two.
    pub fn queues(&self) -> (u16, u16) {
        let map = self.half(vsi::TC_MAPPING);
        let (offset, number) = (map & 0x1FF, map >> vsi::TC_NUMBER_SHIFT & 7);
        (self.half(vsi::QUEUE_MAPPING).wrapping_add(offset), 1 << number)
    }

    /// Adds a filter; `false` when there is no room.
    pub fn add(&mut self, mac: [u8; 6], vlan: Option<u16>) -> bool {
        if self.filters.len() >= FILTERS && !self.filters.contains(&(mac, vlan)) {
            return false;
        }
        if let (true, Some(vlan)) = (self.filters.insert((mac, vlan)), vlan) {
            *self.vlans.entry(vlan).or_default() += 1;
        }
        true
    }

    /// Removes a filter; whether it was there.
    pub fn remove(&mut self, mac: [u8; 6], vlan: Option<u16>) -> bool {
        let was = self.filters.remove(&(mac, vlan));
        if let (true, Some(vlan)) = (was, vlan)
            && let Some(count) = self.vlans.get_mut(&vlan)
        {
            *count -= 1;
            if *count == 0 {
                self.vlans.remove(&vlan);
            }
        }
        was
    }

    /// Filters in use.
    pub fn used(&self) -> usize {
        self.filters.len()
    }

    pub fn set_promiscuous(&mut self, flags: u16, valid: u16) {
        self.promiscuous = self.promiscuous & !valid | flags & valid;
    }

    /// Whether the VSI receives a frame.
    pub fn accept(&self, frame: &[u8], tag: Option<u16>) -> Result<(), Unwanted> {
        let Some(destination) = frame.first_chunk::<6>() else { return Err(Unwanted::Address) };
        let id = tag.map_or(0, |tag| tag & vlan::ID);
        if self.filters.contains(&(*destination, None)) || self.filters.contains(&(*destination, Some(id))) {
            return Ok(());
        }
        let mode = match destination {
            [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF] => promiscuous::BROADCAST,
            [first, ..] if first & GROUP != 0 => promiscuous::MULTICAST,
            _ => promiscuous::UNICAST,
        };
        if self.promiscuous & mode == 0 {
            let known = self.filters.range((*destination, None)..).next();
            let other_vlan = known.is_some_and(|(mac, _)| mac == destination);
            return Err(if other_vlan { Unwanted::Vlan } else { Unwanted::Address });
        }
        let any_vlan = self.vlans.is_empty() || self.promiscuous & promiscuous::VLAN != 0;
        if any_vlan || self.vlans.contains_key(&id) {
            return Ok(());
        }
        Err(Unwanted::Vlan)
    }
}
