//! What a table is to hold, all of it, as a configuration says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use control::{Key, Settings, Several, Value};
use overlay::{Learning, Network, Port, Prefix, Protocol, Route, Segment, Tunnel};
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
    /// Virtual networks by their numbers.
    pub networks: BTreeMap<u32, Network>,
    /// Entries by network and identifier.
    pub entries: BTreeMap<(u32, u128), EntryTarget>,
    /// Entries of networks in which the longest prefix decides.
    pub prefixes: BTreeMap<(u32, Prefix), EntryTarget>,
    /// Flood lists by network.
    pub floods: BTreeMap<u32, Vec<Tunnel>>,
    /// Ends of tunnels that are here.
    pub ends: BTreeMap<EndKey, End>,
    /// Ethernet segments behind networks' ports.
    pub segments: BTreeMap<u32, Segment>,
    /// How networks learn from the frames that come out of tunnels.
    pub learning: BTreeMap<u32, Learning>,
}

/// Where an entry leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryTarget {
    /// Into a tunnel.
    Tunnel(Tunnel),
    /// Into one of several, by the packet's flow; shared by the entries of a network that name the
    /// same ones.
    Several(Arc<Several>),
}

impl EntryTarget {
    /// The first of its tunnels.
    pub fn first(&self) -> Option<&Tunnel> {
        match self {
            EntryTarget::Tunnel(tunnel) => Some(tunnel),
            EntryTarget::Several(several) => several.members.first().map(|member| &member.tunnel),
        }
    }

    pub(crate) fn value(&self) -> Value {
        match self {
            EntryTarget::Tunnel(tunnel) => Value::tunnel(tunnel.clone()),
            EntryTarget::Several(several) => Value::Several(several.clone()),
        }
    }
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
    /// The protocol of the tunnels.
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

impl Desired {
    /// The claims of a program that has several owners, but for ports whose state is another's
    /// to tell.
    pub fn claims(&self, followed: &BTreeSet<u16>) -> BTreeMap<Key, Value> {
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
        for (number, network) in &self.networks {
            let settings = Settings { network: *network, ends: ends.remove(number).unwrap_or_default() };
            all.insert(Key::Network(*number), Value::network(*number, settings));
        }
        all.extend(self.entries.iter().map(|((number, bits), way)| {
            let network = self.networks.get(number);
            let key = network.map_or(Key::Other(*number, *bits), |network| Key::at(*number, network, *bits));
            (key, way.value())
        }));
        let prefixes = self.prefixes.iter();
        all.extend(prefixes.map(|((network, prefix), way)| (Key::Prefix(*network, *prefix), way.value())));
        // An empty list is no claim: it must not hide another owner's.
        let floods = self.floods.iter().filter(|(_, flood)| !flood.is_empty());
        all.extend(floods.map(|(number, flood)| (Key::Flood(*number), Value::tunnels(flood.clone()))));
        let segments = self.segments.iter();
        all.extend(segments.map(|(number, is)| (Key::Segment(*number), Value::Segment(is.clone()))));
        all
    }
}
