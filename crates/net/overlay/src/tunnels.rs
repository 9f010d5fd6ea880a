//! The tunnels and groups that entries use: each once, with its number, and the order in
//! which a change of the underlay finds those that it concerns.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use crate::count::{Count, Usages};
use crate::group::{Group, Member};
use crate::hop::{Hop, Ready, State, TunnelId};
use crate::network::Layer;
use crate::owner::{Owner, Target};
use crate::tunnel::Tunnel;
use crate::underlay::{Neighbor, Underlay, UnderlayPath};

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
    birth: u32,
    /// Entries and groups that lead to it.
    entries: usize,
    kind: SlotTarget,
}

/// By what a far end of a network's tunnels is known.
pub(crate) type FarKey = (u32, IpAddr);

/// What is known of a far end beside the tunnels that lead there now.
#[derive(Debug, Default)]
struct Past {
    /// How many tunnels these are, and those that [leave](Tunnels::settle).
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
    births: u32,
    ids: HashMap<Use, TunnelId>,
    by_remote: BTreeMap<IpAddr, BTreeSet<TunnelId>>,
    by_neighbor: BTreeMap<Neighbor, BTreeSet<TunnelId>>,
    /// Groups that have a tunnel.
    by_member: BTreeMap<TunnelId, BTreeSet<TunnelId>>,
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
        self.births = self.births.checked_add(1).unwrap_or(1);
        let id = TunnelId { number, birth: self.births };
        if let Some(far_end) = used.far_end() {
            self.usages.begin(number);
            self.far_ends.entry(far_end).or_default().tunnels += 1;
        }
        self.ids.insert(used.clone(), id);
        self.link(id, &used.target, &kind);
        self.slots[number as usize] = Some(Slot { used, birth: id.birth, entries: 0, kind });
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
                self.by_remote.entry(tunnel.remote).or_default().insert(id);
                if let Some(neighbor) = way.neighbor {
                    self.by_neighbor.entry(neighbor).or_default().insert(id);
                }
            }
            (Target::Group(number), SlotTarget::Group(members)) => {
                for member in members {
                    self.by_member.entry(*member).or_default().insert(id);
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
                remove(&mut self.by_remote, &tunnel.remote, id);
                if let Some(neighbor) = way.neighbor {
                    remove(&mut self.by_neighbor, &neighbor, id);
                }
            }
            (Target::Group(number), SlotTarget::Group(members)) => {
                for member in members {
                    remove(&mut self.by_member, member, id);
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
        let Some(slot) = place.as_mut().filter(|slot| slot.birth == id.birth) else { return };
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
                remove(&mut self.by_neighbor, &neighbor, id);
            }
            if let Some(neighbor) = way.neighbor {
                self.by_neighbor.entry(neighbor).or_default().insert(id);
            }
        }
        true
    }

    /// The groups that have any of these tunnels, each once.
    pub(crate) fn groups_with(&self, tunnels: &[TunnelId]) -> BTreeSet<TunnelId> {
        tunnels.iter().filter_map(|id| self.by_member.get(id)).flatten().copied().collect()
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
        self.by_remote.range(first..=last).flat_map(|(_, ids)| ids.iter().copied()).collect()
    }

    /// Tunnels by this neighbour.
    pub(crate) fn by(&self, neighbor: &Neighbor) -> Vec<TunnelId> {
        self.by_neighbor.get(neighbor).into_iter().flatten().copied().collect()
    }

    /// Whether there is a tunnel by this neighbour.
    pub(crate) fn is_by(&self, neighbor: &Neighbor) -> bool {
        self.by_neighbor.contains_key(neighbor)
    }

    /// Tunnels by this port.
    pub(crate) fn by_port(&self, port: u16) -> Vec<TunnelId> {
        // Addresses of version 4 come before those of version 6.
        let first = (port, IpAddr::from([0; 4]));
        let last = (port, IpAddr::from([0xFF; 16]));
        self.by_neighbor.range(first..=last).flat_map(|(_, ids)| ids.iter().copied()).collect()
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
        self.by_neighbor
            .iter()
            .filter(move |(_, ids)| ids.first().is_some_and(is_unresolved))
            .map(|(neighbor, _)| *neighbor)
    }

    /// What a number stands for.
    pub(crate) fn used(&self, id: TunnelId) -> Option<&Use> {
        let slot = self.slots.get(id.number as usize)?.as_ref()?;
        (slot.birth == id.birth).then_some(&slot.used)
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

fn remove<K: Ord>(index: &mut BTreeMap<K, BTreeSet<TunnelId>>, key: &K, id: TunnelId) {
    if let Some(ids) = index.get_mut(key) {
        ids.remove(&id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}
