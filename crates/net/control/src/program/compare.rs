//! Compares the overlay's table with what all owners together want.

use std::collections::BTreeSet;

use overlay::{LocalEnd, Overlay, Owner, Tunnel};
use wire::MacAddress;

use super::{Program, bits, own_tunnel, tunnel, vxlan};
use crate::state::{End, Key, Value};

impl Program {
    /// Ends, entries and flood lists that are in the overlay's table otherwise than all owners
    /// together want them, and places of which it refused the value: each with a sentence.
    pub fn compare_table(&self, overlay: &Overlay) -> Vec<(Key, String)> {
        let mut found = Vec::new();
        for (vni, end) in &self.networks {
            // What was refused is not in the table, and is named below.
            let places: BTreeSet<Key> = self.places(*vni);
            let is_wanted = |key: &Key| places.contains(key) && !self.refused.contains_key(key);
            let network = Key::Network(*vni);
            if !self.refused.contains_key(&network) {
                found.extend(compare_end(overlay, *vni, *end).map(|what| (network, what)));
            }
            for key in places.iter().filter(|key| is_wanted(key)) {
                found.extend(self.compare_entry(overlay, *key).map(|what| (*key, what)));
            }
            let of_owners = overlay.entries_of(*vni).filter(|entry| entry.owner == Owner::Static);
            let there = of_owners.map(|entry| Key::Entry(*vni, mac(entry.identifier)));
            let unwanted = there.filter(|key| !is_wanted(key));
            found.extend(unwanted.map(|key| (key, format!("nobody wants {key}, which is there"))));
            found.extend(self.compare_flood(overlay, *vni).map(|what| (Key::Flood(*vni), what)));
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
        let (Key::Entry(vni, mac), Some(Value::Entry(far))) = (key, self.value(&key)) else { return None };
        match overlay.get(vni, bits(mac)) {
            Some(is) if *is == tunnel(far) => None,
            Some(is) => Some(format!("{key} leads to {} and should lead to {far}", is.remote)),
            None => Some(format!("{key} is missing and should lead to {far}")),
        }
    }

    fn compare_flood(&self, overlay: &Overlay, vni: u32) -> Option<String> {
        let key = Key::Flood(vni);
        let wanted: Vec<Tunnel> = match self.value(&key) {
            Some(Value::Flood(fars)) if !self.refused.contains_key(&key) => fars.iter().map(tunnel).collect(),
            _ => Vec::new(),
        };
        let is_so = overlay.flood(vni).eq(&wanted);
        let (is, should) = (overlay.flood(vni).count(), wanted.len());
        (!is_so).then(|| format!("{key} has {is} far ends that are not the {should} that it should have"))
    }
}

fn compare_end(overlay: &Overlay, vni: u32, end: End) -> Option<String> {
    let End { port, zero_checksum, .. } = end;
    let wanted = LocalEnd { network: vni, port: port.or(vxlan().udp_port()), zero_checksum };
    match overlay.end(&own_tunnel(vni, end)) {
        Some(is) if is == wanted => None,
        Some(_) => Some(format!("network {vni} ends otherwise than at {end}")),
        None => Some(format!("network {vni} has no end and should have it at {end}")),
    }
}

/// The address of an entry in a bridged network.
fn mac(bits: u128) -> MacAddress {
    let [.., a, b, c, d, e, f] = bits.to_be_bytes();
    MacAddress([a, b, c, d, e, f])
}
