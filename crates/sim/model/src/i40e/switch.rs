//! The switch inside, as far as a function needs it, a physical or a virtual one: its port, itself
//! and its VSI, with the filters that decide which frames the VSI receives and the queues that they
//! come to; and the bridge, and the VSI that drivers make to program Flow Director, which receives nothing
//! (datasheet 332464, chapter 7).

use std::collections::{BTreeMap, BTreeSet};

use regs::i40e::admin::element::{self, SwitchElement};
use regs::i40e::admin::{hash, promiscuous, vsi};

use super::statistics::OF_MAIN;
use wire::ethernet::{EtherType, Frame};
use wire::vlan;

/// SEIDs of the port's MAC, of the function and of its VSI.
const MAC_SEID: u16 = 2;
const PF_SEID: u16 = 16;
pub(super) const VSI_SEID: u16 = 390;
/// SEIDs of the bridge, and of the VSI that programs filters.
pub(super) const VEB_SEID: u16 = 288;
pub(super) const DIRECTOR_SEID: u16 = 391;
/// The first of virtual functions' VSIs.
pub(super) const FIRST_VF_SEID: u16 = 400;
/// Its number: so many are the physical function's.
pub(super) const FIRST_VF: u16 = VSIS;
/// VSIs that the function may have for itself.
pub(super) const VSIS: u16 = 2;
/// The queue set that the VSI's transmit queues belong to, and that of the other VSI.
pub(super) const QUEUE_SET: u16 = 21;
const DIRECTOR_QUEUE_SET: u16 = 22;
const QUEUE_SETS: [u16; 2] = [QUEUE_SET, DIRECTOR_QUEUE_SET];
/// Filters by address and VLAN, of all VSIs together: as many as Linux's driver reckons with of a card with
/// two ports (`I40E_MAX_MACVLAN_PER_HW` is 3,072, and ports share them). What other ports take is not
/// modelled.
pub(super) const FILTERS: usize = 1536;
/// Filters of control frames that have an effect here.
const CONTROL_FILTERS: usize = 16;

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

/// Traffic classes of a VSI.
const CLASSES: usize = 8;

/// The properties of a VSI.
#[derive(Debug, Clone, Copy)]
pub(super) struct Properties([u8; vsi::LEN]);

impl Properties {
    /// As the firmware makes them for the VSI whose number this is.
    fn new(number: u16) -> Properties {
        let mut properties = [0; vsi::LEN];
        let mut put = |at: usize, value: u16| properties[at..at + 2].copy_from_slice(&value.to_le_bytes());
        for class in 0..CLASSES {
            let set = if class == 0 { QUEUE_SETS[usize::from(number) % QUEUE_SETS.len()] } else { u16::MAX };
            put(vsi::QS_HANDLE + 2 * class, set);
        }
        put(vsi::STAT_COUNTER, OF_MAIN as u16 + number);
        properties[vsi::PORT_VLAN_FLAGS] = vsi::PVLAN_MODE_ALL | vsi::PVLAN_EMOD_NOTHING;
        Properties(properties)
    }

    fn half(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    /// As commands have them.
    pub fn bytes(&self) -> &[u8; vsi::LEN] {
        &self.0
    }

    /// Takes over the sections that are valid; nothing, and `false`, when the queues are not
    /// among the first `queues` of the function.
    fn update(&mut self, new: &[u8; vsi::LEN], queues: u16) -> bool {
        let before = self.0;
        let valid = u16::from_le_bytes([new[vsi::VALID_SECTIONS], new[vsi::VALID_SECTIONS + 1]]);
        for (section, from, to) in [
            (vsi::SWITCH_VALID, vsi::SWITCH_ID, vsi::SECURITY),
            (vsi::SECURITY_VALID, vsi::SECURITY, vsi::PVID),
            (vsi::VLAN_VALID, vsi::PVID, vsi::PORT_VLAN_FLAGS + 4),
            (vsi::QUEUE_MAP_VALID, vsi::MAPPING_FLAGS, vsi::TC_MAPPING + 16),
            (vsi::QUEUE_OPT_VALID, vsi::TC_MAPPING + 16, vsi::TC_MAPPING + 20),
        ] {
            if valid & section != 0 {
                self.0[from..to].copy_from_slice(&new[from..to]);
            }
        }
        let (first, number) = self.queues();
        let fits = u32::from(first) + u32::from(number) <= queues.into();
        if !fits {
            self.0 = before;
        }
        fits
    }

    /// The first queue, and how many there are: a power of two.
    fn queues(&self) -> (u16, u16) {
        let (offset, count) = self.queues_of_class(0);
        (self.half(vsi::QUEUE_MAPPING).wrapping_add(offset), count)
    }

    /// The first queue of a traffic class among the VSI's, and how many there are.
    fn queues_of_class(&self, class: usize) -> (u16, u16) {
        let map = self.half(vsi::TC_MAPPING + 2 * class);
        (map & 0x1FF, 1 << (map >> vsi::TC_NUMBER_SHIFT & 7))
    }

    /// How many queues the class has that has most. All share the table of the hash.
    fn most_queues(&self) -> u16 {
        (0..CLASSES).map(|class| self.queues_of_class(class).1).max().unwrap_or(1)
    }
}

/// Which of the function's VSIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vsi {
    /// The function's own VSI.
    Main,
    /// The one that programs filters.
    Director,
    /// That of a virtual function.
    Vf(u16),
}

impl Vsi {
    /// Its number on the card.
    pub fn number(self) -> u16 {
        match self {
            Vsi::Main => 0,
            Vsi::Director => 1,
            Vsi::Vf(n) => FIRST_VF + n,
        }
    }

    pub fn seid(self) -> u16 {
        match self {
            Vsi::Main => VSI_SEID,
            Vsi::Director => DIRECTOR_SEID,
            Vsi::Vf(n) => FIRST_VF_SEID + n,
        }
    }
}

/// The VSI and its filters.
#[derive(Debug)]
pub(super) struct Switch {
    filters: BTreeSet<Filter>,
    /// How many filters name each VLAN, which untagged frames have too.
    vlans: BTreeMap<u16, usize>,
    promiscuous: u16,
    properties: Properties,
    /// The key of the VSI's hash, and its own table, of an X722.
    pub key: [u32; hash::KEY / 4],
    pub table: [u32; hash::VSI_TABLE / 4],
    /// There is a bridge.
    veb: bool,
    director: Option<Properties>,
    /// Control frames that no VSI may send.
    dropped: BTreeSet<EtherType>,
}

impl Switch {
    pub fn new(mac: [u8; 6]) -> Switch {
        // The firmware gives the VSI one queue and the function's own address.
        Switch {
            filters: BTreeSet::from([(mac, None)]),
            vlans: BTreeMap::new(),
            promiscuous: 0,
            properties: Properties::new(Vsi::Main.number()),
            key: [0; hash::KEY / 4],
            table: [0; hash::VSI_TABLE / 4],
            veb: false,
            director: None,
            dropped: BTreeSet::new(),
        }
    }

    /// The elements, as a command reads them: after a reset the firmware tells a function its
    /// VSI alone, and drivers take that for the sign that it is theirs.
    pub fn elements(&self) -> Vec<u8> {
        let above = if self.veb { VEB_SEID } else { MAC_SEID };
        let element = |kind, seid, uplink, downlink| SwitchElement { kind, seid, uplink, downlink };
        let mut elements = vec![element(element::VSI, VSI_SEID, above, PF_SEID)];
        if self.veb {
            elements.push(element(element::VEB, VEB_SEID, MAC_SEID, 0));
        }
        if self.director.is_some() {
            elements.push(element(element::VSI, DIRECTOR_SEID, VEB_SEID, PF_SEID));
        }
        let entries = elements.iter().flat_map(|element| element.encode());
        element::header(elements.len() as u16).into_iter().chain(entries).collect()
    }

    /// The VSI with this SEID.
    pub fn vsi(&self, seid: u16) -> Option<Vsi> {
        match seid {
            VSI_SEID => Some(Vsi::Main),
            DIRECTOR_SEID if self.director.is_some() => Some(Vsi::Director),
            _ => None,
        }
    }

    /// How many VSIs the function has.
    pub fn vsis(&self) -> u16 {
        1 + u16::from(self.director.is_some())
    }

    /// A VSI's properties.
    pub fn properties(&self, vsi: Vsi) -> Option<&Properties> {
        match vsi {
            Vsi::Main => Some(&self.properties),
            Vsi::Director => self.director.as_ref(),
            Vsi::Vf(_) => None,
        }
    }

    /// The properties of its own VSI.
    pub fn own(&self) -> &Properties {
        &self.properties
    }

    /// Changes a VSI's properties; nothing, and `false`, when the queues are not among the first
    /// `queues` of the function.
    pub fn update(&mut self, vsi: Vsi, new: &[u8; vsi::LEN], queues: u16) -> bool {
        let properties = match vsi {
            Vsi::Main => Some(&mut self.properties),
            Vsi::Director => self.director.as_mut(),
            Vsi::Vf(_) => None,
        };
        properties.is_some_and(|properties| properties.update(new, queues))
    }

    /// Makes the bridge between the port and the VSI; `false` when there is one.
    pub fn add_veb(&mut self, uplink: u16, downlink: u16) -> bool {
        let fits = !self.veb && uplink == MAC_SEID && downlink == VSI_SEID;
        self.veb |= fits;
        fits
    }

    /// Whether there is a bridge.
    pub fn has_veb(&self) -> bool {
        self.veb
    }

    /// Makes the VSI that programs filters, below the bridge; `false` when it cannot be.
    pub fn add_director(&mut self, uplink: u16, new: &[u8; vsi::LEN], queues: u16) -> bool {
        let mut properties = Properties::new(Vsi::Director.number());
        let fits = self.veb && uplink == VEB_SEID && self.director.is_none();
        let made = fits && properties.update(new, queues);
        if made {
            self.director = Some(properties);
        }
        made
    }

    /// Removes an element; `false` when there is none that may go.
    pub fn delete(&mut self, seid: u16) -> bool {
        match seid {
            DIRECTOR_SEID => self.director.take().is_some(),
            VEB_SEID if self.director.is_none() => std::mem::take(&mut self.veb),
            _ => false,
        }
    }

    /// Whether tags are stripped.
    pub fn strips(&self) -> bool {
        self.properties.0[vsi::PORT_VLAN_FLAGS] & vsi::PVLAN_EMOD_MASK == vsi::PVLAN_EMOD_STRIP
    }

    /// The first queue of the VSI, and how many there are: a power of two.
    pub fn queues(&self) -> (u16, u16) {
        self.properties.queues()
    }

    /// Likewise of the VSI that programs filters; none without one.
    pub fn director_queues(&self) -> (u16, u16) {
        self.director.as_ref().map_or((0, 0), Properties::queues)
    }

    /// How many queues the traffic class has that has most.
    pub fn most_queues(&self) -> u16 {
        self.properties.most_queues()
    }

    /// Whether some VSI has a queue.
    pub fn has_queue(&self, n: u16) -> bool {
        let all = [self.queues(), self.director_queues()];
        all.iter().any(|(first, count)| n.checked_sub(*first).is_some_and(|n| n < *count))
    }

    /// The queue sets of all VSIs.
    pub fn queue_sets(&self) -> &'static [u16] {
        &QUEUE_SETS[..self.vsis().into()]
    }

    /// A virtual function's VSI, as it is added: with no filters.
    pub fn of_vf(queue_set: u16) -> Switch {
        let mut of = Switch::new([0; 6]);
        of.filters.clear();
        of.properties.0[vsi::QS_HANDLE..vsi::QS_HANDLE + 2].copy_from_slice(&queue_set.to_le_bytes());
        of
    }

    /// Which of the VSIs' counters are its own.
    pub fn set_counter(&mut self, counter: u16) {
        self.properties.0[vsi::STAT_COUNTER..vsi::STAT_COUNTER + 2].copy_from_slice(&counter.to_le_bytes());
    }

    /// Whether a frame is for an address that the VSI has a filter of.
    pub fn is_own(&self, frame: &[u8], tag: Option<u16>) -> bool {
        let id = tag.map_or(0, |tag| tag & vlan::ID);
        frame.first_chunk::<6>().is_some_and(|destination| {
            destination[0] & GROUP == 0
                && (self.filters.contains(&(*destination, None))
                    || self.filters.contains(&(*destination, Some(id))))
        })
    }

    /// Whether the VSI has a filter of an address, whatever the VLAN.
    pub fn has_address(&self, mac: &[u8; 6]) -> bool {
        self.filters.range((*mac, None)..).next().is_some_and(|(known, _)| known == mac)
    }

    /// Whether the VSI has a filter of a tag's VLAN.
    pub fn has_vlan(&self, tag: u16) -> bool {
        self.vlans.contains_key(&(tag & vlan::ID))
    }

    /// Whether other VSIs of the port receive what it sends.
    pub fn loops(&self) -> bool {
        self.properties.half(vsi::SWITCH_ID) & vsi::ALLOW_LB != 0
    }

    /// The tag that all frames of the VSI have outside of it, if they do.
    pub fn port_vlan(&self) -> Option<u16> {
        let inserted = self.properties.0[vsi::PORT_VLAN_FLAGS] & vsi::PVLAN_INSERT_PVID != 0;
        inserted.then(|| self.properties.half(vsi::PVID))
    }

    /// Adds a filter; `false` when there is none of that kind and no room in the card's table.
    pub fn add(&mut self, mac: [u8; 6], vlan: Option<u16>, room: bool) -> bool {
        if !room && !self.filters.contains(&(mac, vlan)) {
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

    /// Drops control frames that are sent, from now on; `false` when there is no room.
    pub fn drop_sent(&mut self, ethertype: EtherType) -> bool {
        let fits = self.dropped.len() < CONTROL_FILTERS || self.dropped.contains(&ethertype);
        if fits {
            self.dropped.insert(ethertype);
        }
        fits
    }

    /// Whether a frame that a VSI sends is one of those.
    pub fn drops_sent(&self, frame: &[u8]) -> bool {
        let is_dropped = |frame: Frame<&[u8]>| self.dropped.contains(&frame.ethertype());
        !self.dropped.is_empty() && Frame::new_checked(frame).is_ok_and(is_dropped)
    }

    /// Filters in use.
    pub fn used(&self) -> usize {
        self.filters.len()
    }

    pub fn set_promiscuous(&mut self, flags: u16, valid: u16) {
        self.promiscuous = self.promiscuous & !valid | flags & valid;
    }

    /// Whether the VSI has what drivers give it before frames come: a filter, or modes by which it
    /// receives everything. Modes that let a part in are set while filters are still to come.
    pub fn receives(&self) -> bool {
        let all = promiscuous::UNICAST | promiscuous::MULTICAST | promiscuous::BROADCAST;
        let modes = self.promiscuous;
        !self.filters.is_empty() || modes & all == all || modes & promiscuous::DEFAULT != 0
    }

    /// Whether the VSI receives a frame, which another VSI of the port has sent if it is `local`.
    pub fn accept(&self, frame: &[u8], tag: Option<u16>, local: bool) -> Result<(), Unwanted> {
        let Some(destination) = frame.first_chunk::<6>() else { return Err(Unwanted::Address) };
        let id = tag.map_or(0, |tag| tag & vlan::ID);
        if self.filters.contains(&(*destination, None)) || self.filters.contains(&(*destination, Some(id))) {
            return Ok(());
        }
        if self.promiscuous & promiscuous::DEFAULT != 0 {
            return Ok(());
        }
        let mode = match destination {
            [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF] => promiscuous::BROADCAST,
            [first, ..] if first & GROUP != 0 => promiscuous::MULTICAST,
            _ => promiscuous::UNICAST,
        };
        let from_wire_only = mode == promiscuous::UNICAST && self.promiscuous & promiscuous::RX_ONLY != 0;
        if self.promiscuous & mode == 0 || local && from_wire_only {
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
