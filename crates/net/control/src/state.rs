//! What an overlay should have: values by keys. Everything that the control plane compares,
//! hands on or shows is a list of these.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use overlay::{Match, Member, Network, Port, Prefix, Protocol, Route, Segment, Tunnel, Unknown};
use wire::MacAddress;

/// The port of routes that lead to where the overlay has no port. There is never a port of
/// this number, so that packets are dropped by name and do not take a shorter prefix's way.
pub const ELSEWHERE: u16 = u16::MAX;

/// A place in the overlay. The order is that in which places are filled: ports before the
/// routes that lead to them, networks before their entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A port of the underlay.
    Port(u16),
    /// A next hop of the underlay: its port and address.
    Neighbor(u16, IpAddr),
    /// A route of the underlay.
    Route(Prefix),
    /// A virtual network.
    Network(u32),
    /// An Ethernet address in a network.
    Entry(u32, MacAddress),
    /// What packets of a network are known by that is no Ethernet address.
    Other(u32, u128),
    /// Addresses of packets' destinations, in a network in which the longest prefix decides.
    Prefix(u32, Prefix),
    /// The tunnels for frames to nobody known.
    Flood(u32),
    /// The Ethernet segment behind a network's port.
    Segment(u32),
}

/// What is at a place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Value {
    /// The state of a port.
    Port(Port),
    /// The Ethernet address of a next hop.
    Neighbor(MacAddress),
    /// Where a route leads.
    Route(Route),
    /// The end of a network's tunnels that is here.
    Network(End),
    /// Where frames to an address go.
    Entry(Far),
    /// Frames to an address go to one of several far ends, by their flows.
    Group(Group),
    /// Where copies of other frames go, in order and each once.
    Flood(Vec<Far>),
    /// A network that only the configuration can have.
    Settings(Settings),
    /// A tunnel that only the configuration can have.
    Tunnel(Box<Tunnel>),
    /// Several tunnels that only the configuration can have: a flow goes by one. They are shared
    /// by all entries that name them, of which there may be very many.
    Several(Arc<Several>),
    /// A flood list with such tunnels.
    Tunnels(Vec<Tunnel>),
    /// Which frames for all go to an Ethernet segment.
    Segment(Segment),
}

/// Tunnels of an entry of the configuration's, each for its share of the flows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Several {
    /// The name of the group that they are: entries of a network that have the same one change
    /// together. Without a name they are one entry's alone.
    pub name: Option<String>,
    /// In order, and each once.
    pub members: Vec<Member>,
}

/// A network of any kind, and the ends of its tunnels that are here.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Settings {
    /// How its packets are looked up.
    pub network: Network,
    /// Tunnels as their far ends send them, and whether UDP over IPv6 may have no checksum.
    pub ends: Vec<(Tunnel, bool)>,
}

/// The end of a network's tunnels that is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct End {
    /// The address to which packets come and from which they go.
    pub local: IpAddr,
    /// The UDP port to which they come, where it is not VXLAN's.
    pub port: Option<u16>,
    /// Whether packets over IPv6 may come without a UDP checksum: both ends must have agreed
    /// to that (RFC 6935, RFC 6936).
    pub zero_checksum: bool,
}

/// A UDP port that is not VXLAN's (RFC 7348, section 8). 0 stands for no port.
pub(crate) fn own_port(port: u16) -> Option<u16> {
    Some(port).filter(|port| *port != wire::tunnel::vxlan::PORT && *port != 0)
}

/// The far end of a VXLAN tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Far {
    /// The address of the far end, to which tunneled packets go.
    pub remote: IpAddr,
    /// The outer source address.
    pub local: IpAddr,
    /// The network's number there.
    pub vni: u32,
    /// Its UDP port, where it is not VXLAN's.
    pub port: Option<u16>,
}

/// Far ends at each of which a host is, as a nexthop object names them (RFC 7432, section
/// 8.4): a flow goes to one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Group {
    /// The nexthop object's number: entries of a network that have the same one change
    /// together.
    pub id: u32,
    /// In order, and each once.
    pub fars: Vec<Weighted>,
}

/// A far end among several that share flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Weighted {
    /// The far end.
    pub far: Far,
    /// How many flows it gets in proportion to the others, from 1 to [`overlay::MAX_WEIGHT`].
    pub weight: u16,
}

/// A place, and what should be there from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The place whose value changes.
    pub key: Key,
    /// What should be there; nothing without.
    pub value: Option<Value>,
}

impl Far {
    /// The tunnel to it. As Linux sends: over IPv6 too without a checksum only if the far end
    /// agreed to it.
    pub fn tunnel(&self) -> Tunnel {
        let tunnel = Tunnel::new(vxlan(), self.local, self.remote).with_identifier(self.vni);
        Tunnel { port: self.port, ..tunnel }
    }

    /// The far end of a tunnel that is like those of the kernel and of controllers.
    pub fn of(tunnel: &Tunnel) -> Option<Far> {
        let Tunnel { remote, local, port, .. } = *tunnel;
        let far = Far { remote, local, vni: tunnel.identifier?, port };
        (far.tunnel() == *tunnel).then_some(far)
    }
}

impl Settings {
    /// A network of VXLAN as the kernel and controllers have it: frames, by their destinations.
    pub fn bridged(vni: u32, end: End) -> Settings {
        // The far end is of no meaning where there is an identifier.
        let tunnel = Tunnel::new(vxlan(), end.local, end.local).with_identifier(vni);
        let network = Network { unknown: Unknown::Flood, ..Network::bridged() };
        Settings { network, ends: vec![(Tunnel { port: end.port, ..tunnel }, end.zero_checksum)] }
    }

    /// The first end of its tunnels.
    pub fn end(&self) -> Option<End> {
        let (tunnel, zero_checksum) = self.ends.first()?;
        Some(End { local: tunnel.local, port: tunnel.port, zero_checksum: *zero_checksum })
    }

    /// Whether its packets are known by as many bits as an Ethernet address has.
    pub fn has_macs(&self) -> bool {
        has_macs(&self.network)
    }

    /// Whether there can be such a place in it.
    pub(crate) fn has(&self, key: &Key) -> bool {
        match key {
            Key::Entry(..) => self.has_macs(),
            Key::Other(..) => self.network.matching == Match::Exact && !self.has_macs(),
            Key::Prefix(..) => self.network.matching == Match::LongestPrefix,
            _ => true,
        }
    }
}

impl Value {
    /// A network of the configuration's.
    pub fn network(vni: u32, settings: Settings) -> Value {
        match settings.end().filter(|end| Settings::bridged(vni, *end) == settings) {
            Some(end) => Value::Network(end),
            None => Value::Settings(settings),
        }
    }

    /// The end of a network's tunnels that is here: of several the first.
    pub fn end(&self) -> Option<End> {
        match self {
            Value::Network(end) => Some(*end),
            Value::Settings(settings) => settings.end(),
            _ => None,
        }
    }

    /// A tunnel of the configuration's.
    pub fn tunnel(tunnel: Tunnel) -> Value {
        Far::of(&tunnel).map_or_else(|| Value::Tunnel(Box::new(tunnel)), Value::Entry)
    }

    /// A flood list of the configuration's.
    pub fn tunnels(tunnels: Vec<Tunnel>) -> Value {
        let fars: Option<Vec<Far>> = tunnels.iter().map(Far::of).collect();
        match fars {
            Some(mut fars) => {
                fars.sort_unstable();
                fars.dedup();
                Value::Flood(fars)
            }
            None => Value::Tunnels(tunnels),
        }
    }
}

fn vxlan() -> &'static Protocol {
    Protocol::named("vxlan").expect("a row of the protocols' table")
}

/// Whether packets of a network are known by as many bits as an Ethernet address has.
fn has_macs(network: &Network) -> bool {
    network.matching == Match::Exact && network.extractor.bits() == MAC_BITS
}

/// Bits of an Ethernet address.
const MAC_BITS: u8 = 48;

/// The bits by which a table knows an Ethernet address.
pub(crate) fn bits(mac: MacAddress) -> u128 {
    mac.0.iter().fold(0, |bits, byte| bits << 8 | u128::from(*byte))
}

impl Change {
    /// The changes that lead from one state to another.
    pub fn between(from: &BTreeMap<Key, Value>, to: &BTreeMap<Key, Value>) -> Vec<Change> {
        let gone =
            from.keys().filter(|key| !to.contains_key(key)).map(|key| Change { key: *key, value: None });
        let other = to.iter().filter(|(key, value)| from.get(key) != Some(value));
        let other = other.map(|(key, value)| Change { key: *key, value: Some(value.clone()) });
        let mut changes: Vec<Change> = gone.chain(other).collect();
        changes.sort_by_key(|change| change.key);
        changes
    }
}

impl End {
    /// An end at VXLAN's port, to which packets come with checksums.
    pub fn new(local: IpAddr) -> End {
        End { local, port: None, zero_checksum: false }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.local)?;
        self.port.map_or(Ok(()), |port| write!(f, ", port {port}"))?;
        match self.zero_checksum {
            true => write!(f, ", with UDP checksums or without"),
            false => Ok(()),
        }
    }
}

impl Key {
    /// The network to which a place belongs.
    pub fn network(&self) -> Option<u32> {
        match self {
            Key::Network(vni)
            | Key::Entry(vni, _)
            | Key::Other(vni, _)
            | Key::Prefix(vni, _)
            | Key::Flood(vni)
            | Key::Segment(vni) => Some(*vni),
            Key::Port(_) | Key::Neighbor(..) | Key::Route(_) => None,
        }
    }

    /// The place of an Ethernet address that a table knows by these bits.
    pub fn of(vni: u32, bits: u128) -> Key {
        let [_, _, _, _, _, _, _, _, _, _, mac @ ..] = bits.to_be_bytes();
        Key::Entry(vni, MacAddress(mac))
    }

    /// The place of the packets that a network knows by these bits.
    pub fn at(vni: u32, network: &Network, bits: u128) -> Key {
        if has_macs(network) { Key::of(vni, bits) } else { Key::Other(vni, bits) }
    }

    /// The network of an entry, and the bits by which its packets are known.
    pub fn entry(&self) -> Option<(u32, u128)> {
        match self {
            Key::Entry(vni, mac) => Some((*vni, bits(*mac))),
            Key::Other(vni, key) => Some((*vni, *key)),
            _ => None,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Port(port) => write!(f, "port {port}"),
            Key::Neighbor(port, address) => write!(f, "neighbor {address} on port {port}"),
            Key::Route((address, length)) => write!(f, "route {address}/{length}"),
            Key::Network(vni) => write!(f, "network {vni}"),
            Key::Entry(vni, mac) => write!(f, "entry {mac} of network {vni}"),
            Key::Other(vni, key) => write!(f, "entry {key:#x} of network {vni}"),
            Key::Prefix(vni, (address, length)) => write!(f, "entry {address}/{length} of network {vni}"),
            Key::Flood(vni) => write!(f, "flood list of network {vni}"),
            Key::Segment(vni) => write!(f, "Ethernet segment of network {vni}"),
        }
    }
}

impl fmt::Display for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (vni {}, from {}", self.remote, self.vni, self.local)?;
        match self.port {
            Some(port) => write!(f, ", port {port})"),
            None => write!(f, ")"),
        }
    }
}

impl fmt::Display for Weighted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.far, in_words(self.weight))
    }
}

/// A member in words.
fn member(Member { tunnel, weight }: &Member) -> String {
    format!("{}{}", tunnel.remote, in_words(*weight))
}

/// A weight behind what has it, where it is not the usual one.
fn in_words(weight: u16) -> String {
    match weight {
        1 => String::new(),
        weight => format!(" (weight {weight})"),
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Port(port) => {
                let state = if port.is_up { "up" } else { "down" };
                write!(f, "{state}, {}, mtu {}", port.mac, port.mtu)?;
                port.vlan.map_or(Ok(()), |vlan| write!(f, ", vlan {vlan}"))
            }
            Value::Neighbor(mac) => write!(f, "at {mac}"),
            Value::Route(route) if route.port == ELSEWHERE => {
                write!(f, "elsewhere, by no port of the overlay")
            }
            Value::Route(Route { port, gateway: Some(gateway) }) => write!(f, "by {gateway} on port {port}"),
            Value::Route(Route { port, gateway: None }) => write!(f, "on port {port}"),
            Value::Network(end) => write!(f, "ends at {end}"),
            Value::Entry(far) => write!(f, "to {far}"),
            Value::Group(Group { id, fars }) => {
                let fars: Vec<String> = fars.iter().map(Weighted::to_string).collect();
                write!(f, "by nexthop {id} to {}", fars.join(" or "))
            }
            Value::Flood(fars) => {
                let fars: Vec<String> = fars.iter().map(Far::to_string).collect();
                write!(f, "to {}", fars.join(" and "))
            }
            Value::Settings(settings) => {
                let ends: Vec<String> = settings.ends.iter().map(|(end, _)| end.local.to_string()).collect();
                write!(f, "of the configuration's kind, ends at {}", ends.join(" and "))
            }
            Value::Tunnel(tunnel) => write!(f, "by {} to {}", tunnel.protocol.name, tunnel.remote),
            Value::Several(several) => {
                let Several { name, members } = &**several;
                let name = name.as_ref().map(|name| format!("group {name} ")).unwrap_or_default();
                let members: Vec<String> = members.iter().map(member).collect();
                write!(f, "by {name}to {}", members.join(" or "))
            }
            Value::Tunnels(tunnels) => {
                let remotes: Vec<String> = tunnels.iter().map(|tunnel| tunnel.remote.to_string()).collect();
                write!(f, "to {}", remotes.join(" and "))
            }
            Value::Segment(segment) => {
                let role = if segment.is_designated { "designated" } else { "not designated" };
                let peers: Vec<String> = segment.peers.iter().map(IpAddr::to_string).collect();
                match peers.is_empty() {
                    true => write!(f, "{role}, without peers"),
                    false => write!(f, "{role}, peers {}", peers.join(" and ")),
                }
            }
        }
    }
}
