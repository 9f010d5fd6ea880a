//! The tunnels that entries use: each once, with its number, and the order in which a change
//! of the underlay finds those that it concerns.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use crate::hop::{Hop, Ready, TunnelId};
use crate::network::Layer;
use crate::tunnel::Tunnel;
use crate::underlay::{Neighbor, Underlay, Way};

/// A tunnel for packets of a layer.
pub(crate) type Use = (Tunnel, Layer);

#[derive(Debug)]
struct Slot {
    used: Use,
    /// Entries that lead to it.
    entries: usize,
    /// On whom its headers depend as they are now.
    way: Way,
}

/// Tunnels by number, by far end and by neighbour.
#[derive(Debug, Default)]
pub(crate) struct Tunnels {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    ids: HashMap<Use, TunnelId>,
    by_remote: BTreeMap<IpAddr, BTreeSet<TunnelId>>,
    by_neighbor: BTreeMap<Neighbor, BTreeSet<TunnelId>>,
}

impl Tunnels {
    /// A tunnel for one entry more, in its state now.
    pub(crate) fn acquire(&mut self, used: Use, underlay: &Underlay) -> Hop {
        let id = match self.ids.get(&used) {
            Some(id) => *id,
            None => self.add(used, underlay),
        };
        let slot = self.slots[id.0 as usize].as_mut().expect("a number in use has a tunnel");
        slot.entries += 1;
        slot.hop(id)
    }

    fn add(&mut self, used: Use, underlay: &Underlay) -> TunnelId {
        let number = self.free.pop().unwrap_or(self.slots.len() as u32);
        if number as usize == self.slots.len() {
            self.slots.push(None);
        }
        let (id, remote) = (TunnelId(number), used.0.remote);
        let way = underlay.way(remote);
        self.ids.insert(used.clone(), id);
        self.by_remote.entry(remote).or_default().insert(id);
        if let Some(neighbor) = way.neighbor {
            self.by_neighbor.entry(neighbor).or_default().insert(id);
        }
        self.slots[number as usize] = Some(Slot { used, entries: 0, way });
        id
    }

    /// An entry does not lead to the tunnel any more.
    pub(crate) fn release(&mut self, id: TunnelId) {
        let place = &mut self.slots[id.0 as usize];
        let Some(slot) = place else { return };
        slot.entries -= 1;
        if slot.entries > 0 {
            return;
        }
        let Some(Slot { used, way, .. }) = place.take() else { return };
        self.ids.remove(&used);
        remove(&mut self.by_remote, &used.0.remote, id);
        if let Some(neighbor) = way.neighbor {
            remove(&mut self.by_neighbor, &neighbor, id);
        }
        self.free.push(id.0);
    }

    /// Looks for the way to a tunnel's far end again: its new state, if it is another one.
    pub(crate) fn update(&mut self, id: TunnelId, underlay: &Underlay) -> Option<Hop> {
        let slot = self.slots[id.0 as usize].as_mut()?;
        let way = underlay.way(slot.used.0.remote);
        if way == slot.way {
            return None;
        }
        let before = std::mem::replace(&mut slot.way, way);
        let hop = slot.hop(id);
        if before.neighbor != way.neighbor {
            if let Some(neighbor) = before.neighbor {
                remove(&mut self.by_neighbor, &neighbor, id);
            }
            if let Some(neighbor) = way.neighbor {
                self.by_neighbor.entry(neighbor).or_default().insert(id);
            }
        }
        Some(hop)
    }

    /// Tunnels whose far ends are in this range of addresses.
    pub(crate) fn to(&self, (first, last): (IpAddr, IpAddr)) -> Vec<TunnelId> {
        self.by_remote.range(first..=last).flat_map(|(_, ids)| ids.iter().copied()).collect()
    }

    /// Tunnels by this neighbour.
    pub(crate) fn by(&self, neighbor: &Neighbor) -> Vec<TunnelId> {
        self.by_neighbor.get(neighbor).into_iter().flatten().copied().collect()
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
            let slot = self.slots[id.0 as usize].as_ref();
            slot.is_some_and(|slot| slot.way.link == Err(crate::Reason::NoNeighbor))
        };
        self.by_neighbor
            .iter()
            .filter(move |(_, ids)| ids.first().is_some_and(is_unresolved))
            .map(|(neighbor, _)| *neighbor)
    }

    /// The tunnel of a number.
    pub(crate) fn get(&self, id: TunnelId) -> Option<&Tunnel> {
        self.slots.get(id.0 as usize)?.as_ref().map(|slot| &slot.used.0)
    }

    /// How many tunnels there are.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }
}

impl Slot {
    fn hop(&self, id: TunnelId) -> Hop {
        let (tunnel, layer) = &self.used;
        let state = self.way.link.and_then(|link| Ready::new(tunnel, &link, *layer));
        Hop { id, state }
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
