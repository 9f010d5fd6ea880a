//! The overlay as several owners want it: the file, controllers, FRR and the kernel. Each
//! owner's wishes are kept apart; at a place for which several have one, the first in the
//! order of [`Owner`] has its way, and the next when that one gives it up.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use overlay::{Network, Overlay, Protocol, Tunnel, Unknown};

use crate::state::{Change, End, Far, Key, Value};

mod compare;

/// Who wants something, the one who has its way first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// The configuration.
    File,
    /// A controller, by the API.
    Api,
    /// FRR, in its stream.
    Fpm,
    /// This machine's kernel.
    Kernel,
}

impl Owner {
    /// All owners, in their order.
    pub const ALL: [Owner; 4] = [Owner::File, Owner::Api, Owner::Fpm, Owner::Kernel];

    /// The name that people read.
    pub fn name(self) -> &'static str {
        match self {
            Owner::File => "file",
            Owner::Api => "api",
            Owner::Fpm => "fpm",
            Owner::Kernel => "kernel",
        }
    }
}

/// What an owner wants at a place, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The value.
    pub value: Value,
    /// When it was first wanted, as the caller counts time.
    pub since_ns: i64,
}

/// What all owners want, and what the overlay has of it.
#[derive(Debug, Default)]
pub struct Program {
    claims: [BTreeMap<Key, Claim>; Owner::ALL.len()],
    /// Networks that were added to the overlay here, with their ends.
    networks: BTreeMap<u32, End>,
    /// Places of which the overlay refused the value, and why.
    refused: BTreeMap<Key, overlay::Error>,
    /// Networks with an entry that waits for them.
    waiting: BTreeSet<u32>,
}

impl Program {
    /// A program that wants nothing yet.
    pub fn new() -> Program {
        Program::default()
    }

    /// Changes what an owner wants, and the overlay by what is different then; how many
    /// places are. The caller publishes.
    pub fn apply(&mut self, overlay: &mut Overlay, owner: Owner, changes: Vec<Change>, now_ns: i64) -> usize {
        let mut different = 0;
        for Change { key, value } in changes {
            let claim = match (value, self.claims[owner as usize].get(&key)) {
                (Some(value), Some(claim)) if claim.value == value => continue,
                (Some(value), _) => Some(Claim { value, since_ns: now_ns }),
                (None, _) => None,
            };
            different += usize::from(self.set(overlay, owner, key, claim));
        }
        different
    }

    /// Replaces an owner's claim at a place, its time included; whether the place changes. The
    /// caller publishes.
    pub fn set(&mut self, overlay: &mut Overlay, owner: Owner, key: Key, claim: Option<Claim>) -> bool {
        let before = self.value(&key).cloned();
        let claims = &mut self.claims[owner as usize];
        match claim {
            Some(claim) => drop(claims.insert(key, claim)),
            None => drop(claims.remove(&key)),
        }
        let is_different = self.value(&key) != before.as_ref();
        if is_different {
            self.put(overlay, key);
        }
        is_different
    }

    /// Who has its way at a place, and what it wants there.
    pub fn claim(&self, key: &Key) -> Option<(Owner, &Claim)> {
        Owner::ALL.iter().find_map(|owner| Some((*owner, self.claims[*owner as usize].get(key)?)))
    }

    /// What should be at a place.
    pub fn value(&self, key: &Key) -> Option<&Value> {
        self.claim(key).map(|(_, claim)| &claim.value)
    }

    /// What one owner wants.
    pub fn claims(&self, owner: Owner) -> &BTreeMap<Key, Claim> {
        &self.claims[owner as usize]
    }

    /// Places of which the overlay refused the value, and why.
    pub fn refused(&self) -> &BTreeMap<Key, overlay::Error> {
        &self.refused
    }

    /// Entries and flood lists of which the network is not there.
    pub fn waiting(&self) -> impl Iterator<Item = Key> {
        let of_network = |vni: &u32| self.places(*vni).into_iter();
        self.waiting.iter().filter(|vni| !self.networks.contains_key(vni)).flat_map(of_network)
    }

    /// Puts into the overlay what should be at a place.
    fn put(&mut self, overlay: &mut Overlay, key: Key) {
        let value = self.value(&key).cloned();
        match self.try_put(overlay, key, value) {
            Ok(()) => drop(self.refused.remove(&key)),
            Err(error) => drop(self.refused.insert(key, error)),
        }
    }

    fn try_put(&mut self, overlay: &mut Overlay, key: Key, value: Option<Value>) -> overlay::Result<()> {
        match (key, value) {
            (Key::Port(number), Some(Value::Port(port))) => overlay.set_port(number, Some(port)),
            (Key::Port(number), _) => overlay.set_port(number, None),
            (Key::Neighbor(port, address), Some(Value::Neighbor(mac))) => {
                overlay.set_neighbor(port, address, Some(mac));
            }
            (Key::Neighbor(port, address), _) => overlay.set_neighbor(port, address, None),
            (Key::Route(prefix), Some(Value::Route(route))) => overlay.set_route(prefix, Some(route))?,
            (Key::Route(prefix), _) => overlay.set_route(prefix, None)?,
            (Key::Network(vni), Some(Value::Network(end))) => self.set_network(overlay, vni, end)?,
            (Key::Network(vni), _) => self.remove_network(overlay, vni)?,
            (Key::Entry(vni, _) | Key::Flood(vni), _) if !self.networks.contains_key(&vni) => {
                self.wait(vni);
            }
            (Key::Entry(vni, mac), Some(Value::Entry(far))) => {
                // An entry that is refused must not leave the one before it.
                overlay.insert(vni, bits(mac), tunnel(&far)).inspect_err(|_| {
                    let _ = overlay.remove(vni, bits(mac));
                })?;
            }
            (Key::Entry(vni, mac), _) => drop(overlay.remove(vni, bits(mac))?),
            (Key::Flood(vni), Some(Value::Flood(fars))) => {
                let tunnels: Vec<Tunnel> = fars.iter().map(tunnel).collect();
                overlay.set_flood(vni, &tunnels).inspect_err(|_| {
                    let _ = overlay.set_flood(vni, &[]);
                })?;
            }
            (Key::Flood(vni), _) => overlay.set_flood(vni, &[])?,
        }
        Ok(())
    }

    /// Adds a network with the entries that waited for it, or moves its end.
    fn set_network(&mut self, overlay: &mut Overlay, vni: u32, end: End) -> overlay::Result<()> {
        match self.networks.get(&vni).copied() {
            Some(old) => drop(overlay.remove_end(&own_tunnel(vni, old))?),
            None => overlay.add_network(vni, Network { unknown: Unknown::Flood, ..Network::bridged() })?,
        }
        let is_new = self.networks.insert(vni, end).is_none();
        if is_new {
            self.waiting.remove(&vni);
            self.places(vni).into_iter().for_each(|key| self.put(overlay, key));
        }
        overlay.add_end(vni, &own_tunnel(vni, end), end.zero_checksum)
    }

    fn remove_network(&mut self, overlay: &mut Overlay, vni: u32) -> overlay::Result<()> {
        if self.networks.remove(&vni).is_some() {
            overlay.remove_network(vni)?;
            self.wait(vni);
        }
        Ok(())
    }

    /// Notes whether somebody wants something of a network that is not there.
    fn wait(&mut self, vni: u32) {
        let is_wanted = |claims: &BTreeMap<Key, Claim>| {
            claims.range(entries_of(vni)).next().is_some() || claims.contains_key(&Key::Flood(vni))
        };
        match self.claims.iter().any(is_wanted) {
            true => self.waiting.insert(vni),
            false => self.waiting.remove(&vni),
        };
    }

    /// The entries of a network that somebody wants, and its flood list.
    fn places(&self, vni: u32) -> BTreeSet<Key> {
        let entries =
            self.claims.iter().flat_map(|claims| claims.range(entries_of(vni)).map(|(key, _)| *key));
        let flood = Key::Flood(vni);
        entries.chain(Some(flood).filter(|key| self.value(key).is_some())).collect()
    }
}

/// All places of a network's entries.
fn entries_of(vni: u32) -> RangeInclusive<Key> {
    Key::Entry(vni, wire::MacAddress([0; 6]))..=Key::Entry(vni, wire::MacAddress::BROADCAST)
}

/// The bits by which a bridged network's table knows an address.
fn bits(mac: wire::MacAddress) -> u128 {
    mac.0.iter().fold(0, |bits, byte| bits << 8 | u128::from(*byte))
}

fn vxlan() -> &'static Protocol {
    Protocol::named("vxlan").expect("a row of the protocols' table")
}

/// The tunnel to a far end.
fn tunnel(far: &Far) -> Tunnel {
    let tunnel = Tunnel::new(vxlan(), far.local, far.remote).with_identifier(far.vni);
    // As Linux sends: over IPv6 too without a checksum only if the far end agreed to it.
    Tunnel { port: far.port, ..tunnel }
}

/// The tunnel whose end is here. The far end is of no meaning where there is an identifier.
fn own_tunnel(vni: u32, end: End) -> Tunnel {
    let tunnel = Tunnel::new(vxlan(), end.local, end.local).with_identifier(vni);
    Tunnel { port: end.port, ..tunnel }
}

#[cfg(test)]
mod tests;
