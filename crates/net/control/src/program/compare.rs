//! Compares the overlay's table with what all owners together want.

use std::collections::BTreeSet;

use overlay::{LocalEnd, Overlay, Owner, Target, Tunnel};

use super::place::EntryKey;
use super::{Program, tunnel, tunnels};
use crate::state::{Key, Value};

impl Program {
    /// Ends, entries, flood lists and segments that are in the overlay's table otherwise than all owners
    /// together want them, and places of which it refused the value: each with a sentence.
    pub fn compare_table(&self, overlay: &Overlay) -> Vec<(Key, String)> {
        let mut found = Vec::new();
        for (vni, settings) in &self.networks {
            // What was refused is not in the table, and is named below.
            let places: BTreeSet<Key> = self.places(*vni);
            let is_wanted = |key: &Key| places.contains(key) && !self.refused.contains_key(key);
            let network = Key::Network(*vni);
            if !self.refused.contains_key(&network) {
                let ends = settings.ends.iter().filter_map(|end| compare_end(overlay, *vni, end));
                found.extend(ends.map(|what| (network, what)));
            }
            for key in places.iter().filter(|key| is_wanted(key)) {
                found.extend(self.compare_entry(overlay, *key).map(|what| (*key, what)));
            }
            let of_owners = overlay.entries_of(*vni).filter(|entry| entry.owner != Owner::Learned);
            let there = of_owners.map(|entry| self.place(*vni, entry.identifier));
            let prefixes = overlay.prefixes_of(*vni).map(|entry| Key::Prefix(*vni, entry.prefix));
            let there = there.chain(prefixes);
            let unwanted = there.filter(|key| !is_wanted(key));
            found.extend(unwanted.map(|key| (key, format!("nobody wants {key}, which is there"))));
            found.extend(self.compare_flood(overlay, *vni).map(|what| (Key::Flood(*vni), what)));
            found.extend(self.compare_segment(overlay, *vni).map(|what| (Key::Segment(*vni), what)));
        }
        let refused = self.refused.iter().map(|(key, error)| (*key, format!("{key} was refused: {error}")));
        found.extend(refused);
        found
    }

    /// Puts into the overlay once more what should be at a place; whether it is there then. The
    /// caller publishes.
    pub fn put_again(&mut self, overlay: &mut Overlay, key: Key) -> bool {
        self.put(overlay, key);
        !self.refused.contains_key(&key)
    }

    fn compare_entry(&self, overlay: &Overlay, key: Key) -> Option<String> {
        let (place, (wants, claim)) = (EntryKey::of(&key)?, self.claim(&key)?);
        let (owner, target) = place.there(overlay).unzip();
        let value = &claim.value;
        let is_so = target.is_some_and(|target| match (target, value) {
            (target, Value::Group(group)) => self.groups.is_nexthop(overlay, target, group),
            (target, Value::Several(several)) => self.groups.is_several(overlay, target, &key, several),
            (Target::Tunnel(is), value) => Some(is) == tunnel(value).as_ref(),
            (Target::Group(_), _) => false,
        });
        match target {
            _ if is_so && owner == Some(wants) => None,
            _ if is_so => Some(format!("{key} is not said to be told by owner {wants}")),
            Some(Target::Tunnel(is)) => Some(format!("{key} leads to {} and should lead {value}", is.remote)),
            Some(Target::Group(_)) => Some(format!("{key} leads to a group and should lead {value}")),
            None => Some(format!("{key} is missing and should lead {value}")),
        }
    }

    fn compare_flood(&self, overlay: &Overlay, vni: u32) -> Option<String> {
        let key = Key::Flood(vni);
        let value = self.value(&key).filter(|_| !self.refused.contains_key(&key));
        let wanted = tunnels(value.cloned());
        let is_so = overlay.flood(vni).eq(&wanted);
        let (is, should) = (overlay.flood(vni).count(), wanted.len());
        (!is_so).then(|| format!("{key} has {is} far ends that are not the {should} that it should have"))
    }

    fn compare_segment(&self, overlay: &Overlay, vni: u32) -> Option<String> {
        let key = Key::Segment(vni);
        let wanted = match self.value(&key).filter(|_| !self.refused.contains_key(&key)) {
            Some(Value::Segment(segment)) => Some(segment),
            _ => None,
        };
        (overlay.segment(vni) != wanted).then(|| format!("{key} is not as it should be"))
    }
}

/// Whether the overlay has an end of a network as it was added.
pub(super) fn has_end(overlay: &Overlay, vni: u32, end: &(Tunnel, bool)) -> bool {
    compare_end(overlay, vni, end).is_none()
}

fn compare_end(overlay: &Overlay, vni: u32, (tunnel, zero_checksum): &(Tunnel, bool)) -> Option<String> {
    let port = tunnel.protocol.udp_port().map(|own| tunnel.port.unwrap_or(own));
    let wanted = LocalEnd { network: vni, port, zero_checksum: *zero_checksum };
    match overlay.end(tunnel) {
        Some(is) if is == wanted => None,
        Some(_) => Some(format!("network {vni} ends otherwise than at {}", tunnel.local)),
        None => Some(format!("network {vni} has no end and should have it at {}", tunnel.local)),
    }
}
