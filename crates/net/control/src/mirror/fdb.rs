//! Entries of VXLAN devices' forwarding databases: one far end for the address of a host,
//! several for the address of a group and for all zero (the flood list), or a nexthop object.

use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use wire::MacAddress;

use super::{Generation, Held, Mirror};
use crate::netlink::link::{LinkKind, Vxlan};
use crate::netlink::neighbor::Neighbor;
use crate::state::Key;

/// Which entry: the device, the network if the device has many (else 0), and the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FdbKey {
    pub(super) link: u32,
    pub(super) vni: u32,
    pub(super) mac: MacAddress,
}

/// Frames to nobody known.
pub(super) const FLOOD: MacAddress = MacAddress::ZERO;

impl FdbKey {
    pub(super) const FIRST: FdbKey = FdbKey { link: 0, vni: 0, mac: FLOOD };
    pub(super) const LAST: FdbKey = FdbKey { link: u32::MAX, vni: u32::MAX, mac: MacAddress::BROADCAST };

    /// All entries of a device.
    pub(super) fn of_link(link: u32) -> RangeInclusive<FdbKey> {
        FdbKey { link, ..FdbKey::FIRST }..=FdbKey { link, ..FdbKey::LAST }
    }

    /// All entries of one network of a device.
    pub(super) fn of_network(link: u32, vni: u32) -> RangeInclusive<FdbKey> {
        FdbKey { link, vni, mac: FLOOD }..=FdbKey { link, vni, mac: MacAddress::BROADCAST }
    }

    /// The network to which the entry belongs on a device; none when it cannot be there.
    pub(super) fn network(&self, vxlan: &Vxlan) -> Option<u32> {
        match (vxlan.is_external, self.vni) {
            (true, vni) => Some(vni),
            (false, 0) => Some(vxlan.vni),
            (false, _) => None,
        }
    }

    /// Whether the address is one for which several far ends stand side by side.
    pub(super) fn has_many(&self) -> bool {
        self.mac == FLOOD || self.mac.is_multicast()
    }
}

/// A far end of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Remote {
    pub(super) dst: IpAddr,
    pub(super) vni: Option<u32>,
    pub(super) port: Option<u16>,
}

/// Where an entry leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Destination {
    /// A far end.
    Remote(Remote),
    /// Far ends that each get a copy, each with who told of it.
    Remotes(Vec<(Remote, Generation)>),
    /// A nexthop object, which names the far ends.
    Nexthop(u32),
}

impl Destination {
    /// Far ends of a list.
    fn parts(&self) -> usize {
        match self {
            Destination::Remotes(remotes) => remotes.len(),
            Destination::Remote(_) | Destination::Nexthop(_) => 0,
        }
    }
}

fn key_of(neighbor: &Neighbor) -> Option<FdbKey> {
    Some(FdbKey { link: neighbor.link, vni: neighbor.src_vni.unwrap_or(0), mac: neighbor.mac? })
}

fn remote_of(neighbor: &Neighbor) -> Option<Remote> {
    Some(Remote { dst: neighbor.dst?, vni: neighbor.vni, port: neighbor.port })
}

impl Mirror {
    pub(super) fn set_fdb(&mut self, stamp: Generation, neighbor: &Neighbor) {
        let Some(key) = key_of(neighbor) else {
            self.counters.ignored += 1;
            return;
        };
        let destination = match (neighbor.nexthop, remote_of(neighbor)) {
            (Some(id), _) => Destination::Nexthop(id),
            (None, Some(remote)) if key.has_many() => Destination::Remotes(vec![(remote, stamp)]),
            (None, Some(remote)) => Destination::Remote(remote),
            (None, None) => return self.counters.ignored += 1,
        };
        if !self.fdb.contains_key(&key) && !self.has_room(self.fdb.len(), self.options.limits.fdb) {
            return;
        }
        let held = self.fdb.get(&key).map(|held| &held.what);
        let before = held.map_or(0, Destination::parts);
        let after = match (held, &destination) {
            (Some(Destination::Remotes(remotes)), Destination::Remotes(more)) => {
                before + more.iter().filter(|(new, _)| remotes.iter().all(|(is, _)| is != new)).count()
            }
            (_, destination) => destination.parts(),
        };
        if !self.resize(before, after) {
            return;
        }
        match self.fdb.entry(key) {
            Entry::Vacant(vacant) => drop(vacant.insert(Held { stamp, what: destination })),
            Entry::Occupied(mut occupied) => {
                let held = occupied.get_mut();
                held.stamp = stamp;
                match (&mut held.what, destination) {
                    (Destination::Remotes(remotes), Destination::Remotes(more)) => {
                        add(remotes, &more);
                    }
                    (what, destination) => {
                        if let Destination::Nexthop(id) = what {
                            self.fdb_by_nexthop.remove(&(*id, key));
                        }
                        *what = destination;
                    }
                }
            }
        }
        if let Some(id) = neighbor.nexthop {
            self.fdb_by_nexthop.insert((id, key));
        }
        self.touch_fdb(key);
    }

    /// Removes an entry, or a far end of one. A message of a far end to which the entry does not
    /// lead any more removes nothing.
    pub(super) fn remove_fdb(&mut self, neighbor: &Neighbor) {
        let Some(key) = key_of(neighbor) else { return };
        let Some(held) = self.fdb.get_mut(&key) else { return };
        let remote = remote_of(neighbor);
        let is_all = match &mut held.what {
            Destination::Nexthop(id) => neighbor.nexthop.is_none_or(|named| named == *id),
            _ if neighbor.nexthop.is_some() => false,
            Destination::Remote(is) => remote.is_none_or(|remote| remote == *is),
            Destination::Remotes(remotes) => {
                let before = remotes.len();
                remotes.retain(|(is, _)| remote.is_some_and(|remote| remote != *is));
                self.parts -= before - remotes.len();
                remotes.is_empty()
            }
        };
        match is_all {
            true => self.drop_fdb(key),
            false => self.touch_fdb(key),
        }
    }

    pub(super) fn drop_fdb(&mut self, key: FdbKey) {
        if let Some(Held { what, .. }) = self.fdb.remove(&key) {
            self.parts -= what.parts();
            if let Destination::Nexthop(id) = what {
                self.fdb_by_nexthop.remove(&(id, key));
            }
        }
        self.touch_fdb(key);
    }

    /// Removes stale far ends of entries that have others, and entries that have no other: who
    /// told of an entry last may have told that a far end is gone.
    pub(super) fn sweep_remotes(&mut self, is_stale: impl Fn(Generation) -> bool) {
        let mut touched = Vec::new();
        for (key, held) in &mut self.fdb {
            let Destination::Remotes(remotes) = &mut held.what else { continue };
            let before = remotes.len();
            remotes.retain(|(_, stamp)| !is_stale(*stamp));
            self.parts -= before - remotes.len();
            if remotes.len() != before {
                touched.push((*key, remotes.is_empty()));
            }
        }
        for (key, is_empty) in touched {
            match is_empty {
                true => self.drop_fdb(key),
                false => self.touch_fdb(key),
            }
        }
    }

    /// Marks the place of an entry.
    pub(super) fn touch_fdb(&mut self, key: FdbKey) {
        let Some(Held { what: link, .. }) = self.links.get(&key.link) else { return };
        let LinkKind::Vxlan(vxlan) = link.kind else { return };
        let Some(vni) = key.network(&vxlan) else { return };
        if vxlan.is_external {
            self.dirty.insert(Key::Network(vni)); // which is there while it has entries
        }
        self.dirty.insert(if key.mac == FLOOD { Key::Flood(vni) } else { Key::Entry(vni, key.mac) });
    }
}

/// Adds far ends that are not there yet, and renews those that are.
fn add(remotes: &mut Vec<(Remote, Generation)>, more: &[(Remote, Generation)]) {
    for (remote, stamp) in more {
        match remotes.iter().position(|(is, _)| is == remote) {
            Some(place) => remotes[place].1 = *stamp,
            None => remotes.push((*remote, *stamp)),
        }
    }
}
