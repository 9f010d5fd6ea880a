//! A table kept equal to what a configuration says, and to what others want where that says
//! nothing: each change is as small as what is different.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use control::{Change, Key, Owner, Program, Value};
use overlay::{Error, Overlay, Port, Prefix, Result};
use wire::MacAddress;

use crate::desired::{Desired, EntryTarget};

/// How much was different.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Things that are new or different.
    pub set: usize,
    /// Things that are gone.
    pub removed: usize,
}

/// Where an entry is: its network, and the bits or the prefix by which its packets are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// Bits of packets.
    Bits(u32, u128),
    /// The longest prefix of their destinations.
    Prefix(u32, Prefix),
}

/// A table, and all that is wanted of it.
#[derive(Debug, Default)]
pub struct Held {
    /// The table, as packets find it.
    pub table: Overlay,
    program: Program,
    /// What the configuration says.
    desired: Desired,
    /// Ports of which another tells.
    followed: BTreeSet<u16>,
    /// Ports whose links are down.
    down: BTreeSet<u16>,
}

impl Held {
    /// An empty table. Of `followed` ports another tells than the configuration.
    pub fn new(followed: BTreeSet<u16>) -> Held {
        Held { followed, ..Held::default() }
    }

    /// Whether a table takes all that a configuration says.
    ///
    /// # Errors
    /// What it refuses.
    pub fn check(desired: &Desired) -> Result<()> {
        let mut held = Held::default();
        held.replace(desired.clone(), 0)?;
        if let Some(error) = held.program.refused().values().next() {
            return Err(error.clone());
        }
        let waiting = held.program.waiting().find_map(|key| key.network());
        let without = desired.ends.values().map(|end| end.network);
        let mut without = without.filter(|network| !desired.networks.contains_key(network));
        waiting.or(without.next()).map_or(Ok(()), |network| Err(Error::NoNetwork(network)))
    }

    /// Lets the table hold what a configuration says, in place of the one before. It is
    /// [checked](Self::check) before, so that what a table refuses changes nothing; only what
    /// others hold in this table may be refused then ([`Program::refused`]). The caller publishes.
    ///
    /// # Errors
    /// What a table refuses.
    pub fn apply(&mut self, desired: Desired, now_ns: i64) -> Result<Changes> {
        Held::check(&desired)?;
        self.replace(desired, now_ns)
    }

    fn replace(&mut self, mut desired: Desired, now_ns: i64) -> Result<Changes> {
        for (number, port) in &mut desired.ports {
            port.is_up &= !self.down.contains(number);
        }
        let before = self.desired.claims(&self.followed);
        let changes = Change::between(&before, &desired.claims(&self.followed));
        let removed = changes.iter().filter(|change| change.value.is_none()).count();
        let mut counted = Changes { set: changes.len() - removed, removed };
        self.change(Owner::Static, changes, now_ns);
        self.desired = desired;
        for number in self.desired.networks.keys() {
            // A network that was made anew has to be told again.
            let learning = self.desired.learning.get(number);
            if self.table.learns(*number) != learning && self.table.network(*number).is_some() {
                self.table.set_learning(*number, learning.cloned())?;
                counted.set += 1;
            }
        }
        Ok(counted)
    }

    /// Changes what an owner wants, and the table by what is different then; how many places
    /// are. The caller publishes.
    pub fn change(&mut self, owner: Owner, changes: Vec<Change>, now_ns: i64) -> usize {
        self.program.apply(&mut self.table, owner, changes, now_ns)
    }

    /// Lets an entry lead elsewhere than the configuration says, or nowhere; whether the
    /// configuration had one there. The caller publishes.
    ///
    /// # Errors
    /// What the table refuses; nothing is different then.
    pub fn set_entry(&mut self, at: At, way: Option<EntryTarget>, now_ns: i64) -> Result<bool> {
        let key = match at {
            At::Bits(number, bits) => {
                let network = self.desired.networks.get(&number).ok_or(Error::NoNetwork(number))?;
                Key::at(number, network, bits)
            }
            At::Prefix(number, prefix) => Key::Prefix(number, prefix),
        };
        let before = self.set_desired(at, way.clone());
        let set = |held: &mut Held, way: Option<&EntryTarget>| {
            let value = way.map(EntryTarget::value);
            held.change(Owner::Static, vec![Change { key, value }], now_ns);
            held.program.refused().get(&key).cloned()
        };
        if let Some(error) = set(self, way.as_ref()) {
            set(self, before.as_ref());
            self.set_desired(at, before);
            return Err(error);
        }
        Ok(before.is_some())
    }

    fn set_desired(&mut self, at: At, way: Option<EntryTarget>) -> Option<EntryTarget> {
        match at {
            At::Bits(network, bits) => replace(&mut self.desired.entries, (network, bits), way),
            At::Prefix(network, prefix) => replace(&mut self.desired.prefixes, (network, prefix), way),
        }
    }

    /// Says who a next hop is, or that nobody is, in place of the configuration; whether that
    /// named it. The caller publishes.
    pub fn set_neighbor(
        &mut self,
        (port, address): (u16, IpAddr),
        mac: Option<MacAddress>,
        now_ns: i64,
    ) -> bool {
        let change = Change { key: Key::Neighbor(port, address), value: mac.map(Value::Neighbor) };
        self.change(Owner::Static, vec![change], now_ns);
        replace(&mut self.desired.neighbors, (port, address), mac).is_some()
    }

    /// Notes whether a port's link is up, until that is said again; whether the table is another
    /// one. What goes by other ports is not touched. The caller publishes.
    pub fn set_link(&mut self, number: u16, is_up: bool, now_ns: i64) -> bool {
        let is_new = if is_up { self.down.remove(&number) } else { self.down.insert(number) };
        let Some(port) = self.desired.ports.get_mut(&number).filter(|_| is_new) else { return false };
        *port = Port { is_up, ..*port };
        let change = Change { key: Key::Port(number), value: Some(Value::Port(*port)) };
        let is_own = !self.followed.contains(&number);
        is_own && self.change(Owner::Static, vec![change], now_ns) > 0
    }

    /// What the configuration says.
    pub fn desired(&self) -> &Desired {
        &self.desired
    }

    /// What all owners want.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// What all owners want, and the table, to change both.
    pub fn parts(&mut self) -> (&mut Program, &mut Overlay) {
        (&mut self.program, &mut self.table)
    }

    /// Who wants what is at a place, and for how long by this time, in seconds.
    pub fn told(&self, key: &Key, now_ns: i64) -> Option<(Owner, f64)> {
        let (owner, claim) = self.program.claim(key)?;
        Some((owner, now_ns.saturating_sub(claim.since_ns) as f64 / 1e9))
    }
}

/// Puts a value in its place, or takes it away: what was there.
fn replace<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) -> Option<V> {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    }
}
