//! The tunnels and groups that entries use: each once, with its number, and the order in
//! which a change of the underlay finds those that it concerns.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter::successors;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::count::{Count, Usages};
use crate::group::{Group, Member};
use crate::hop::{Hop, Ready, State, TunnelId};
use crate::network::Layer;
use crate::owner::{Owner, Target};
use crate::tunnel::Tunnel;
use crate::underlay::{Neighbor, Underlay, UnderlayPath};

/// Before and behind all numbers: no tunnel has an incarnation of 0, nor has any had so many.
const FIRST_ID: TunnelId = TunnelId { number: 0, incarnation: 0 };
const LAST_ID: TunnelId = TunnelId { number: u32::MAX, incarnation: u32::MAX };
/// The first and the last address: those of version 4 come before those of version 6.
const FIRST_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const LAST_ADDRESS: IpAddr = IpAddr::V6(Ipv6Addr::from_bits(u128::MAX));

/// A tunnel or a group, for packets of a network, and who asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Use {
    pub(crate) target: Target,
    pub(crate) network: u32,
    pub(crate) layer: Layer,
    pub(crate) owner: Owner,
}

#[derive(Debug)]
enum SlotTarget {
    /// A tunnel, and on whom its headers depend as they are now.
    Tunnel(UnderlayPath),
    /// A group's tunnels, in its order.
    Group(Vec<TunnelId>),
}

#[derive(Debug)]
struct Slot {
    used: Use,
    incarnation: u32,
    /// Entries and groups that lead to it.
    entries: usize,
    kind: SlotTarget,
}

/// What the state of a tunnel or group depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Basis {
    /// The way to the far end of a tunnel.
    Remote(IpAddr),
    /// The neighbour by which its packets leave.
    Neighbor(Neighbor),
    /// A tunnel of a group.
    Member(TunnelId),
}

/// By what a far end of a network's tunnels is known.
pub(crate) type FarKey = (u32, IpAddr);

/// What is known of a far end beside the tunnels that lead there now.
#[derive(Debug, Default)]
struct Past {
    /// How many tunnels these are, with those that are about to be freed.
    tunnels: usize,
    /// What went into others before.
    count: Count,
}

impl Use {
    /// The far end of a tunnel; `None` of a group.
    fn far_end(&self) -> Option<FarKey> {
        match &self.target {
            Target::Tunnel(tunnel) => Some((self.network, tunnel.remote)),
            Target::Group(_) => None,
        }
    }
}

/// Tunnels by number, by far end, by neighbour and by group.
#[derive(Debug, Default)]
pub(crate) struct Tunnels {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Numbers to which nothing leads any more but what is published.
    leaving: Vec<(u32, Option<FarKey>)>,
    far_ends: BTreeMap<FarKey, Past>,
    /// What went into tunnels.
    pub(crate) usages: Usages,
    incarnations: u32,
    ids: HashMap<Use, TunnelId>,
    /// Tunnels and groups by what their states depend on.
    dependents: BTreeSet<(Basis, TunnelId)>,
    pub(crate) groups: BTreeMap<u64, Group>,
}

impl Tunnels {
    /// A tunnel, or a group that there is, for one entry more, in its state now.
    pub(crate) fn acquire(&mut self, used: Use, underlay: &Underlay) -> Hop {
        let id = match self.ids.get(&used) {
            Some(id) => *id,
            None => self.add(used, underlay),
        };
        if let Some(slot) = self.slots[id.number as usize].as_mut() {
            slot.entries += 1;
        }
        self.hop(id)
    }

    fn add(&mut self, used: Use, underlay: &Underlay) -> TunnelId {
        let kind = match &used.target {
            Target::Tunnel(tunnel) => SlotTarget::Tunnel(underlay.way(tunnel.remote)),
            Target::Group(number) => SlotTarget::Group(self.acquire_members(*number, &used, underlay)),
        };
        let number = self.free.pop().unwrap_or(self.slots.len() as u32);
        if number as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.incarnations = self.incarnations.checked_add(1).unwrap_or(1);
        let id = TunnelId { number, incarnation: self.incarnations };
        if let Some(far_end) = used.far_end() {
            self.usages.begin(number);
            self.far_ends.entry(far_end).or_default().tunnels += 1;
        }
        self.ids.insert(used.clone(), id);
        self.link(id, &used.target, &kind);
        self.slots[number as usize] = Some(Slot { used, incarnation: id.incarnation, entries: 0, kind });
        id
    }

    /// The tunnels of a group, each for one use more.
    fn acquire_members(&mut self, group: u64, used: &Use, underlay: &Underlay) -> Vec<TunnelId> {
        let members = self.groups.get(&group).map(|group| group.members().to_vec()).unwrap_or_default();
        let members = members.into_iter().map(|member| Use { target: member.tunnel.into(), ..used.clone() });
        members.map(|member| self.acquire(member, underlay).id).collect()
    }

    /// Lets changes find a tunnel or group.
    fn link(&mut self, id: TunnelId, target: &Target, kind: &SlotTarget) {
        match (target, kind) {
            (Target::Tunnel(tunnel), SlotTarget::Tunnel(way)) => {
                self.dependents.insert((Basis::Remote(tunnel.remote), id));
                if let Some(neighbor) = way.neighbor {
                    self.dependents.insert((Basis::Neighbor(neighbor), id));
                }
            }
            (Target::Group(number), SlotTarget::Group(members)) => {
                for member in members {
                    self.dependents.insert((Basis::Member(*member), id));
                }
                if let Some(group) = self.groups.get_mut(number) {
                    group.hops.insert(id);
                }
            }
            _ => {}
        }
    }

    /// Lets changes not find it any more.
    fn unlink(&mut self, id: TunnelId, target: &Target, kind: &SlotTarget) {
        match (target, kind) {
            (Target::Tunnel(tunnel), SlotTarget::Tunnel(way)) => {
                self.dependents.remove(&(Basis::Remote(tunnel.remote), id));
                if let Some(neighbor) = way.neighbor {
                    self.dependents.remove(&(Basis::Neighbor(neighbor), id));
                }
            }
            (Target::Group(number), SlotTarget::Group(members)) => {
                for member in members {
                    self.dependents.remove(&(Basis::Member(*member), id));
                }
                if let Some(group) = self.groups.get_mut(number) {
                    group.hops.remove(&id);
                }
            }
            _ => {}
        }
    }

    /// An entry does not lead to the tunnel any more.
    pub(crate) fn release(&mut self, id: TunnelId) {
        let Some(place) = self.slots.get_mut(id.number as usize) else { return };
        let Some(slot) = place.as_mut().filter(|slot| slot.incarnation == id.incarnation) else { return };
        slot.entries -= 1;
        if slot.entries > 0 {
            return;
        }
        let Some(Slot { used, kind, .. }) = place.take() else { return };
        self.ids.remove(&used);
        self.unlink(id, &used.target, &kind);
        self.leaving.push((id.number, used.far_end()));
        if let SlotTarget::Group(members) = kind {
            members.into_iter().for_each(|member| self.release(member));
        }
    }

    /// Notes what went into tunnels to which nothing leads any more, now that all is published: no
    /// more goes there, and their numbers are for others.
    pub(crate) fn free_released(&mut self) {
        for (number, far_end) in self.leaving.drain(..) {
            self.free.push(number);
            let Some(far_end) = far_end else { continue };
            let Entry::Occupied(mut past) = self.far_ends.entry(far_end) else { continue };
            past.get_mut().tunnels -= 1;
            match past.get().tunnels {
                0 => drop(past.remove()),
                _ => past.get_mut().count += self.usages.of(number).count,
            }
        }
    }

    /// What went to each far end since a tunnel leads there.
    pub(crate) fn far_ends(&self) -> BTreeMap<FarKey, Count> {
        let mut counts: BTreeMap<FarKey, Count> =
            self.far_ends.iter().map(|(far_end, past)| (*far_end, past.count)).collect();
        let there = self.slots.iter().enumerate();
        let there = there.filter_map(|(number, slot)| Some((number as u32, slot.as_ref()?.used.far_end()?)));
        let leaving = self.leaving.iter().filter_map(|(number, far_end)| Some((*number, (*far_end)?)));
        for (number, far_end) in there.chain(leaving) {
            *counts.entry(far_end).or_default() += self.usages.of(number).count;
        }
        counts
    }

    /// Looks for the way to a tunnel's far end again: whether it is another one.
    pub(crate) fn update(&mut self, id: TunnelId, underlay: &Underlay) -> bool {
        let Some(slot) = self.slots.get_mut(id.number as usize).and_then(Option::as_mut) else {
            return false;
        };
        let (Target::Tunnel(tunnel), SlotTarget::Tunnel(before)) = (&slot.used.target, &mut slot.kind) else {
            return false;
        };
        let way = underlay.way(tunnel.remote);
        let before = std::mem::replace(before, way);
        if way == before {
            return false;
        }
        if before.neighbor != way.neighbor {
            if let Some(neighbor) = before.neighbor {
                self.dependents.remove(&(Basis::Neighbor(neighbor), id));
            }
            if let Some(neighbor) = way.neighbor {
                self.dependents.insert((Basis::Neighbor(neighbor), id));
            }
        }
        true
    }

    /// The groups that have any of these tunnels, each once.
    pub(crate) fn groups_with(&self, tunnels: &[TunnelId]) -> BTreeSet<TunnelId> {
        tunnels.iter().flat_map(|id| self.depending_on(Basis::Member(*id), Basis::Member(*id))).collect()
    }

    /// Makes a group, or gives one other members: the states that entries lead to from now on.
    pub(crate) fn set_group(&mut self, number: u64, members: Vec<Member>, underlay: &Underlay) -> Vec<Hop> {
        match self.groups.get_mut(&number) {
            Some(group) => group.replace(members),
            None => {
                self.groups.insert(number, Group::new(members));
                return vec![];
            }
        }
        let hops = self.groups.get(&number).map(|group| group.hops.clone()).unwrap_or_default();
        for id in &hops {
            self.replace_members(*id, number, underlay);
        }
        hops.into_iter().map(|id| self.hop(id)).collect()
    }

    /// Puts the members that a group has now in the place of those that an entry's had.
    fn replace_members(&mut self, id: TunnelId, group: u64, underlay: &Underlay) {
        let Some(slot) = self.slots[id.number as usize].as_ref() else { return };
        let used = slot.used.clone();
        // New ones first, so that those in both are not made anew.
        let members = SlotTarget::Group(self.acquire_members(group, &used, underlay));
        let Some(slot) = self.slots[id.number as usize].as_mut() else { return };
        let before = std::mem::replace(&mut slot.kind, SlotTarget::Group(Vec::new()));
        self.unlink(id, &used.target, &before);
        self.link(id, &used.target, &members);
        if let Some(slot) = self.slots[id.number as usize].as_mut() {
            slot.kind = members;
        }
        if let SlotTarget::Group(before) = before {
            before.into_iter().for_each(|member| self.release(member));
        }
    }

    /// Why packets cannot go by a tunnel or group now.
    pub(crate) fn problem(&self, id: TunnelId) -> Option<port::Reason> {
        self.used(id).and_then(|_| self.hop(id).state.problem())
    }

    /// A tunnel or group in its state now.
    pub(crate) fn hop(&self, id: TunnelId) -> Hop {
        let slot = self.slots.get(id.number as usize).and_then(Option::as_ref);
        let slot = slot.expect("a number in use has a tunnel");
        let state = match (&slot.used.target, &slot.kind) {
            (Target::Tunnel(tunnel), SlotTarget::Tunnel(way)) => {
                match way.link.and_then(|link| Ready::new(id, tunnel, &link, slot.used.layer)) {
                    Ok(ready) => State::Ready(ready),
                    Err(reason) => State::Closed(reason),
                }
            }
            (Target::Group(number), SlotTarget::Group(members)) => {
                let hops = members.iter().map(|member| self.hop(*member)).collect();
                self.groups
                    .get(number)
                    .map_or(State::Closed(port::Reason::OverlayBadTunnel), |group| group.state(hops))
            }
            _ => State::Closed(port::Reason::OverlayBadTunnel),
        };
        Hop { id, state }
    }

    /// Layers of the networks whose entries lead to a group.
    pub(crate) fn layers(&self, group: u64) -> BTreeSet<Layer> {
        let hops = self.groups.get(&group).map(|group| &group.hops);
        hops.into_iter().flatten().filter_map(|id| Some(self.used(*id)?.layer)).collect()
    }

    /// Tunnels whose far ends are in this range of addresses.
    pub(crate) fn to(&self, (first, last): (IpAddr, IpAddr)) -> Vec<TunnelId> {
        self.depending_on(Basis::Remote(first), Basis::Remote(last)).collect()
    }

    /// Tunnels by this neighbour.
    pub(crate) fn by(&self, neighbor: &Neighbor) -> Vec<TunnelId> {
        self.depending_on(Basis::Neighbor(*neighbor), Basis::Neighbor(*neighbor)).collect()
    }

    /// Whether there is a tunnel by this neighbour.
    pub(crate) fn is_by(&self, neighbor: &Neighbor) -> bool {
        self.depending_on(Basis::Neighbor(*neighbor), Basis::Neighbor(*neighbor)).next().is_some()
    }

    /// Tunnels by this port.
    pub(crate) fn by_port(&self, port: u16) -> Vec<TunnelId> {
        let (first, last) = ((port, FIRST_ADDRESS), (port, LAST_ADDRESS));
        self.depending_on(Basis::Neighbor(first), Basis::Neighbor(last)).collect()
    }

    /// Next hops whose Ethernet addresses are asked for, each once.
    pub(crate) fn unresolved(&self) -> impl Iterator<Item = Neighbor> + '_ {
        let is_unresolved = |id: &TunnelId| {
            let slot = self.slots[id.number as usize].as_ref();
            slot.is_some_and(|slot| match &slot.kind {
                SlotTarget::Tunnel(way) => way.link == Err(port::Reason::OverlayNoNeighbor),
                SlotTarget::Group(_) => false,
            })
        };
        // One tunnel by each neighbour, for its address is known to all of them or to none.
        let first = self.neighbor_from((Basis::Neighbor((0, FIRST_ADDRESS)), FIRST_ID));
        let each =
            successors(first, |(neighbor, _)| self.neighbor_from((Basis::Neighbor(*neighbor), LAST_ID)));
        each.filter(move |(_, id)| is_unresolved(id)).map(|(neighbor, _)| neighbor)
    }

    /// The first neighbour by which a tunnel goes from this place in the order on, and the first
    /// such tunnel.
    fn neighbor_from(&self, from: (Basis, TunnelId)) -> Option<(Neighbor, TunnelId)> {
        match self.dependents.range(from..).next()? {
            (Basis::Neighbor(neighbor), id) => Some((*neighbor, *id)),
            _ => None,
        }
    }

    /// Tunnels and groups that depend on one of these, in their order.
    fn depending_on(&self, first: Basis, last: Basis) -> impl Iterator<Item = TunnelId> + '_ {
        self.dependents.range((first, FIRST_ID)..=(last, LAST_ID)).map(|(_, id)| *id)
    }

    /// What a number stands for.
    pub(crate) fn used(&self, id: TunnelId) -> Option<&Use> {
        let slot = self.slots.get(id.number as usize)?.as_ref()?;
        (slot.incarnation == id.incarnation).then_some(&slot.used)
    }

    /// The tunnel of a number; `None` for a group.
    pub(crate) fn get(&self, id: TunnelId) -> Option<&Tunnel> {
        match &self.used(id)?.target {
            Target::Tunnel(tunnel) => Some(tunnel),
            Target::Group(_) => None,
        }
    }

    /// How many tunnels and groups are used.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }
}
