//! The overlay as several owners want it: the file, controllers, FRR and the kernel. Each
//! owner's claims are kept apart; at a place for which several have one, the first in the
//! order of [`Owner`] takes precedence, and the next when that one gives it up.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

use overlay::{Overlay, Owner, Prefix, Target, Tunnel};

use crate::state::{Change, Far, Key, Settings, Value};
use groups::Groups;
use place::EntryKey;

mod compare;
mod groups;
mod place;

/// Those who have claims, in order of precedence.
pub const OWNERS: [Owner; 4] = [Owner::Static, Owner::Api, Owner::Fpm, Owner::Kernel];

/// What an owner wants at a place, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// What the owner wants at the place.
    pub value: Value,
    /// When it was first wanted, as the caller counts time.
    pub since_ns: i64,
}

/// What all owners want, and what the overlay has of it.
#[derive(Debug, Default)]
pub struct Program {
    /// By owner; what was learned is nobody's claim.
    claims: [BTreeMap<Key, Claim>; Owner::ALL.len()],
    /// Networks that were added to the overlay here, with the ends that the overlay took.
    networks: BTreeMap<u32, Settings>,
    /// Places of which the overlay refused the value, and why.
    refused: BTreeMap<Key, overlay::Error>,
    /// Networks with an entry that waits for them.
    waiting: BTreeSet<u32>,
    groups: Groups,
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
            different += usize::from(self.replace(overlay, owner, key, claim));
        }
        if different > 0 {
            self.put_refused_networks(overlay);
        }
        different
    }

    /// Replaces an owner's claim at a place, its time included; whether the place changes. The
    /// caller publishes.
    pub fn set(&mut self, overlay: &mut Overlay, owner: Owner, key: Key, claim: Option<Claim>) -> bool {
        let is_different = self.replace(overlay, owner, key, claim);
        if is_different {
            self.put_refused_networks(overlay);
        }
        is_different
    }

    fn replace(&mut self, overlay: &mut Overlay, owner: Owner, key: Key, claim: Option<Claim>) -> bool {
        let claimed =
            |program: &Program| program.claim(&key).map(|(owner, claim)| (owner, claim.value.clone()));
        let before = claimed(self);
        let claims = &mut self.claims[owner as usize];
        match claim {
            Some(claim) => drop(claims.insert(key, claim)),
            None => drop(claims.remove(&key)),
        }
        let now = claimed(self);
        if now != before {
            self.put(overlay, key);
        }
        // Another owner of the same is no change of the place.
        now.map(|(_, value)| value) != before.map(|(_, value)| value)
    }

    /// Puts networks again that were refused: an end of theirs may be another's no more.
    fn put_refused_networks(&mut self, overlay: &mut Overlay) {
        let networks = self.refused.range(Key::Network(0)..=Key::Network(u32::MAX));
        let networks: Vec<Key> = networks.map(|(key, _)| *key).collect();
        networks.into_iter().for_each(|key| self.put(overlay, key));
    }

    /// Who takes precedence at a place, and what it wants there.
    pub fn claim(&self, key: &Key) -> Option<(Owner, &Claim)> {
        OWNERS.iter().find_map(|owner| Some((*owner, self.claims[*owner as usize].get(key)?)))
    }

    /// What should be at a place.
    pub fn value(&self, key: &Key) -> Option<&Value> {
        self.claim(key).map(|(_, claim)| &claim.value)
    }

    /// The place of an identifier in a network.
    pub fn place(&self, vni: u32, bits: u128) -> Key {
        match self.networks.get(&vni).is_some_and(|settings| !settings.has_macs()) {
            true => Key::Other(vni, bits),
            false => Key::of(vni, bits),
        }
    }

    /// What one owner wants.
    pub fn claims(&self, owner: Owner) -> &BTreeMap<Key, Claim> {
        &self.claims[owner as usize]
    }

    /// Places of which the overlay refused the value, and why.
    pub fn refused(&self) -> &BTreeMap<Key, overlay::Error> {
        &self.refused
    }

    /// Entries, flood lists and segments of which the network is not there.
    pub fn waiting(&self) -> impl Iterator<Item = Key> {
        let of_network = |vni: &u32| self.places(*vni).into_iter();
        self.waiting.iter().filter(|vni| !self.networks.contains_key(vni)).flat_map(of_network)
    }

    /// Puts into the overlay what should be at a place.
    fn put(&mut self, overlay: &mut Overlay, key: Key) {
        let wanted = self.claim(&key).map(|(owner, claim)| (owner, claim.value.clone()));
        match self.try_put(overlay, key, wanted) {
            Ok(()) => drop(self.refused.remove(&key)),
            Err(error) => drop(self.refused.insert(key, error)),
        }
    }

    fn try_put(
        &mut self,
        overlay: &mut Overlay,
        key: Key,
        wanted: Option<(Owner, Value)>,
    ) -> overlay::Result<()> {
        let (owner, value) = wanted.unzip();
        match (key, value) {
            (Key::Port(number), Some(Value::Port(port))) => overlay.set_port(number, Some(port)),
            (Key::Port(number), _) => overlay.set_port(number, None),
            (Key::Neighbor(port, address), Some(Value::Neighbor(mac))) => {
                overlay.set_neighbor(port, address, Some(mac));
            }
            (Key::Neighbor(port, address), _) => overlay.set_neighbor(port, address, None),
            (Key::Route(prefix), Some(Value::Route(route))) => overlay.set_route(prefix, Some(route))?,
            (Key::Route(prefix), _) => overlay.set_route(prefix, None)?,
            (Key::Network(vni), Some(Value::Network(end))) => {
                self.set_network(overlay, vni, Settings::bridged(vni, end))?;
            }
            (Key::Network(vni), Some(Value::Settings(settings))) => {
                self.set_network(overlay, vni, settings)?
            }
            (Key::Network(vni), _) => self.remove_network(overlay, vni)?,
            (Key::Entry(vni, _) | Key::Other(vni, _) | Key::Prefix(vni, _), _)
            | (Key::Flood(vni) | Key::Segment(vni), _)
                if !self.networks.contains_key(&vni) =>
            {
                self.wait(vni);
            }
            (Key::Segment(vni), Some(Value::Segment(segment))) => overlay.set_segment(vni, Some(segment))?,
            (Key::Segment(vni), _) => overlay.set_segment(vni, None)?,
            (Key::Entry(..) | Key::Other(..) | Key::Prefix(..), value) => {
                self.put_entry(overlay, key, owner.zip(value.as_ref()))?;
            }
            (Key::Flood(vni), value) => {
                overlay.set_flood(vni, &tunnels(value)).inspect_err(|_| {
                    let _ = overlay.set_flood(vni, &[]);
                })?;
            }
        }
        Ok(())
    }

    fn put_entry(
        &mut self,
        overlay: &mut Overlay,
        key: Key,
        wanted: Option<(Owner, &Value)>,
    ) -> overlay::Result<()> {
        let Some(place) = EntryKey::of(&key) else { return Ok(()) };
        let vni = place.network();
        let other = self.networks.get(&vni).filter(|settings| !settings.has(&key));
        if let Some(settings) = other {
            // Of what is known there otherwise, nothing is there; only the configuration knows how.
            return wanted.map_or(Ok(()), |_| Err(place.refused(settings.network)));
        }
        let before = place.group(overlay);
        let target = match wanted {
            Some((_, Value::Group(group))) => self.groups.set_nexthop(overlay, vni, group).map(Some),
            Some((_, Value::Several(several))) => self.groups.set_several(overlay, &key, several).map(Some),
            wanted => Ok(wanted.and_then(|(_, value)| tunnel(value)).map(Target::from)),
        };
        let made = match &target {
            Ok(Some(Target::Group(number))) => Some(*number),
            _ => None,
        };
        let put = target.and_then(|target| match (wanted, target) {
            (Some((owner, _)), Some(target)) => place.insert(overlay, owner, target),
            _ => place.remove(overlay),
        });
        if put.is_err() {
            // An entry that is refused must not leave the one before it.
            place.remove(overlay)?;
            self.groups.release(overlay, made);
        }
        self.groups.release(overlay, before);
        put
    }

    /// Adds a network with the entries that waited for it, or changes its ends. One whose
    /// packets are looked up otherwise than before is a new one.
    fn set_network(&mut self, overlay: &mut Overlay, vni: u32, settings: Settings) -> overlay::Result<()> {
        let Settings { network, ends } = settings;
        if self.networks.get(&vni).is_some_and(|old| old.network != network) {
            self.remove_network(overlay, vni)?;
        }
        if let Entry::Vacant(vacant) = self.networks.entry(vni) {
            overlay.add_network(vni, network)?;
            vacant.insert(Settings { network, ends: Vec::new() });
            self.waiting.remove(&vni);
            self.places(vni).into_iter().for_each(|key| self.put(overlay, key));
        }
        let old =
            self.networks.get_mut(&vni).map(|state| std::mem::take(&mut state.ends)).unwrap_or_default();
        let wanted: HashSet<&(Tunnel, bool)> = ends.iter().collect();
        let stays = |end: &(Tunnel, bool)| wanted.contains(end) && compare::has_end(overlay, vni, end);
        let (mut there, gone): (Vec<_>, Vec<_>) = old.into_iter().partition(stays);
        let mut result = Ok(());
        for (tunnel, _) in &gone {
            result = result.and(overlay.remove_end(tunnel).map(drop));
        }
        let known: HashSet<(Tunnel, bool)> = there.iter().cloned().collect();
        for end in ends.into_iter().filter(|end| !known.contains(end)) {
            match overlay.add_end(vni, &end.0, end.1) {
                Ok(()) => there.push(end),
                Err(error) => result = result.and(Err(error)),
            }
        }
        self.networks.insert(vni, Settings { network, ends: there });
        result
    }

    fn remove_network(&mut self, overlay: &mut Overlay, vni: u32) -> overlay::Result<()> {
        if self.networks.remove(&vni).is_some() {
            overlay.remove_network(vni)?;
            self.groups.release_all(overlay, vni);
            self.wait(vni);
        }
        Ok(())
    }

    /// Notes whether somebody wants something of a network that is not there.
    fn wait(&mut self, vni: u32) {
        let is_wanted = |claims: &BTreeMap<Key, Claim>| {
            let others = [Key::Flood(vni), Key::Segment(vni)];
            entries_of(claims, vni).next().is_some() || others.iter().any(|key| claims.contains_key(key))
        };
        match self.claims.iter().any(is_wanted) {
            true => self.waiting.insert(vni),
            false => self.waiting.remove(&vni),
        };
    }

    /// The entries of a network that somebody wants, its flood list and its segment.
    fn places(&self, vni: u32) -> BTreeSet<Key> {
        let entries = self.claims.iter().flat_map(|claims| entries_of(claims, vni));
        let others = [Key::Flood(vni), Key::Segment(vni)].into_iter();
        entries.chain(others.filter(|key| self.value(key).is_some())).collect()
    }
}

/// All places of a network's entries for which there is a claim. In the order of keys the
/// entries of all networks come first, then all others.
fn entries_of(claims: &BTreeMap<Key, Claim>, vni: u32) -> impl Iterator<Item = Key> {
    let macs = Key::Entry(vni, wire::MacAddress::ZERO)..=Key::Entry(vni, wire::MacAddress::BROADCAST);
    let others = Key::Other(vni, 0)..=Key::Other(vni, u128::MAX);
    let (first, last): (Prefix, Prefix) = ((IpAddr::from([0; 4]), 0), (IpAddr::from([0xFF; 16]), u8::MAX));
    let prefixes = Key::Prefix(vni, first)..=Key::Prefix(vni, last);
    [claims.range(macs), claims.range(others), claims.range(prefixes)]
        .into_iter()
        .flatten()
        .map(|(key, _)| *key)
}

/// The tunnel of an entry.
fn tunnel(value: &Value) -> Option<Tunnel> {
    match value {
        Value::Entry(far) => Some(far.tunnel()),
        Value::Tunnel(tunnel) => Some((**tunnel).clone()),
        _ => None,
    }
}

/// The tunnels of a flood list.
fn tunnels(value: Option<Value>) -> Vec<Tunnel> {
    match value {
        Some(Value::Flood(fars)) => fars.iter().map(Far::tunnel).collect(),
        Some(Value::Tunnels(tunnels)) => tunnels,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
