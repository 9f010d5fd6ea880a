//! What a table is to hold, all of it: applied to a table it becomes that, by as few changes
//! as there are differences from what was applied before.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use control::{Key, Settings, Value};
use overlay::{Network, Overlay, Port, Prefix, Protocol, Result, Route, Tunnel};
use wire::MacAddress;

/// The content of a table as a configuration asks for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Desired {
    /// Ports of the underlay.
    pub ports: BTreeMap<u16, Port>,
    /// Routes of the underlay.
    pub routes: BTreeMap<Prefix, Route>,
    /// Neighbours that need not be asked for.
    pub neighbors: BTreeMap<(u16, IpAddr), MacAddress>,
    /// Virtual networks.
    pub networks: BTreeMap<u32, Network>,
    /// Entries by network and identifier.
    pub entries: BTreeMap<(u32, u128), Tunnel>,
    /// Flood lists by network.
    pub floods: BTreeMap<u32, Vec<Tunnel>>,
    /// Ends of tunnels that are here.
    pub ends: BTreeMap<EndKey, End>,
}

/// What becomes of packets at an end of tunnels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The network that they come out in.
    pub network: u32,
    /// Whether UDP over IPv6 may have no checksum.
    pub zero_checksum: bool,
}

/// By what packets of an end of tunnels are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndKey {
    /// The protocol.
    pub protocol: &'static Protocol,
    /// The address here.
    pub local: IpAddr,
    /// The identifier that packets have.
    pub identifier: Option<u32>,
    /// The sender, where there is no identifier.
    pub remote: Option<IpAddr>,
}

impl EndKey {
    fn order(&self) -> (&str, IpAddr, Option<u32>, Option<IpAddr>) {
        (self.protocol.name, self.local, self.identifier, self.remote)
    }

    /// The tunnel from its far end.
    fn tunnel(&self) -> Tunnel {
        let remote = self.remote.unwrap_or(self.local);
        Tunnel { identifier: self.identifier, ..Tunnel::new(self.protocol, self.local, remote) }
    }
}

impl PartialOrd for EndKey {
    fn partial_cmp(&self, other: &EndKey) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EndKey {
    fn cmp(&self, other: &EndKey) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl fmt::Display for EndKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.protocol.name, self.local)?;
        self.identifier.map_or(Ok(()), |identifier| write!(f, ", identifier {identifier}"))?;
        self.remote.map_or(Ok(()), |remote| write!(f, ", from {remote}"))
    }
}

/// How much was different.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Things that are new or different.
    pub set: usize,
    /// Things that are gone.
    pub removed: usize,
}

impl Desired {
    /// Makes a table that holds `before` hold this. Nothing is published.
    ///
    /// # Errors
    /// What the table refuses; some changes may be made then. A table of its own finds out
    /// before ([`Desired::check`]).
    pub fn apply(&self, table: &mut Overlay, before: &Desired) -> Result<Changes> {
        let mut changes = Changes::default();
        self.apply_underlay(table, before, &mut changes)?;
        // Of a network that is another one by now all is new.
        let same = |network: &u32| before.networks.get(network) == self.networks.get(network);
        for network in before.networks.keys().filter(|network| !same(network)) {
            table.remove_network(*network)?;
            changes.removed += 1;
        }
        for (network, settings) in self.networks.iter().filter(|(network, _)| !same(network)) {
            table.add_network(*network, *settings)?;
            changes.set += 1;
        }
        let is_old = |network: &u32| before.networks.contains_key(network) && same(network);
        self.apply_ends(table, before, &is_old, &mut changes)?;
        self.apply_entries(table, before, &is_old, &mut changes)?;
        for (network, flood) in &self.floods {
            if !is_old(network) || before.floods.get(network) != Some(flood) {
                table.set_flood(*network, flood)?;
                changes.set += 1;
            }
        }
        Ok(changes)
    }

    fn apply_underlay(&self, table: &mut Overlay, before: &Desired, changes: &mut Changes) -> Result<()> {
        for (set, port, what) in differences(&before.ports, &self.ports) {
            table.set_port(*port, what.copied());
            changes.count(set);
        }
        for (set, prefix, route) in differences(&before.routes, &self.routes) {
            table.set_route(*prefix, route.copied())?;
            changes.count(set);
        }
        for (set, (port, address), mac) in differences(&before.neighbors, &self.neighbors) {
            table.set_neighbor(*port, *address, mac.copied());
            changes.count(set);
        }
        Ok(())
    }

    fn apply_ends(
        &self,
        table: &mut Overlay,
        before: &Desired,
        is_old: &dyn Fn(&u32) -> bool,
        changes: &mut Changes,
    ) -> Result<()> {
        let stays = |key: &EndKey, end: &End| is_old(&end.network) && self.ends.get(key) == Some(end);
        for (key, end) in before.ends.iter().filter(|(key, end)| !stays(key, end)) {
            // With a network its ends are gone.
            if is_old(&end.network) {
                table.remove_end(&key.tunnel())?;
                changes.removed += 1;
            }
        }
        let was = |key: &EndKey, end: &End| is_old(&end.network) && before.ends.get(key) == Some(end);
        for (key, end) in self.ends.iter().filter(|(key, end)| !was(key, end)) {
            table.add_end(end.network, &key.tunnel(), end.zero_checksum)?;
            changes.set += 1;
        }
        Ok(())
    }

    fn apply_entries(
        &self,
        table: &mut Overlay,
        before: &Desired,
        is_old: &dyn Fn(&u32) -> bool,
        changes: &mut Changes,
    ) -> Result<()> {
        let gone = before.entries.keys().filter(|key| is_old(&key.0) && !self.entries.contains_key(*key));
        for (network, identifier) in gone {
            table.remove(*network, *identifier)?;
            changes.removed += 1;
        }
        for (key @ (network, identifier), tunnel) in &self.entries {
            if !is_old(network) || before.entries.get(key) != Some(tunnel) {
                table.insert(*network, *identifier, tunnel.clone())?;
                changes.set += 1;
            }
        }
        Ok(())
    }

    /// The same as wishes of a program that has several owners, but for ports whose state
    /// is another's to tell.
    pub fn wishes(&self, followed: &BTreeSet<u16>) -> BTreeMap<Key, Value> {
        let ports = self.ports.iter().filter(|(port, _)| !followed.contains(port));
        let ports = ports.map(|(port, is)| (Key::Port(*port), Value::Port(*is)));
        let routes = self.routes.iter().map(|(prefix, route)| (Key::Route(*prefix), Value::Route(*route)));
        let neighbors = self.neighbors.iter();
        let neighbors = neighbors.map(|((port, ip), mac)| (Key::Neighbor(*port, *ip), Value::Neighbor(*mac)));
        let mut all: BTreeMap<Key, Value> = ports.chain(routes).chain(neighbors).collect();
        let mut ends: BTreeMap<u32, Vec<(Tunnel, bool)>> = BTreeMap::new();
        for (key, end) in &self.ends {
            ends.entry(end.network).or_default().push((key.tunnel(), end.zero_checksum));
        }
        let mut macs = BTreeSet::new();
        for (number, network) in &self.networks {
            let settings = Settings { network: *network, ends: ends.remove(number).unwrap_or_default() };
            if settings.has_macs() {
                macs.insert(*number);
            }
            all.insert(Key::Network(*number), Value::network(*number, settings));
        }
        all.extend(self.entries.iter().map(|((network, bits), tunnel)| {
            let is_mac = macs.contains(network);
            let key = if is_mac { Key::of(*network, *bits) } else { Key::Other(*network, *bits) };
            (key, Value::tunnel(tunnel.clone()))
        }));
        // An empty list is no wish: it must not hide another owner's.
        let floods = self.floods.iter().filter(|(_, flood)| !flood.is_empty());
        all.extend(floods.map(|(number, flood)| (Key::Flood(*number), Value::tunnels(flood.clone()))));
        all
    }

    /// Whether a table takes all of this.
    ///
    /// # Errors
    /// What it refuses.
    pub fn check(&self) -> Result<()> {
        self.apply(&mut Overlay::new(), &Desired::default()).map(drop)
    }
}

impl Changes {
    fn count(&mut self, set: bool) {
        match set {
            true => self.set += 1,
            false => self.removed += 1,
        }
    }
}

/// What is different between two maps: whether it is there now, the key, and the value if so.
fn differences<'a, K: Ord, V: PartialEq>(
    before: &'a BTreeMap<K, V>,
    now: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (bool, &'a K, Option<&'a V>)> {
    let gone = before.keys().filter(|key| !now.contains_key(*key)).map(|key| (false, key, None));
    let new = now.iter().filter(|(key, value)| before.get(*key) != Some(*value));
    gone.chain(new.map(|(key, value)| (true, key, Some(value))))
}
