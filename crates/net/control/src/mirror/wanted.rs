//! What an overlay should have at a place, as all that is known says now.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use overlay::{MAX_MEMBERS, MAX_WEIGHT, Port, Prefix, Route};
use wire::MacAddress;

use super::fdb::{Destination, FLOOD, FdbKey, Remote};
use super::routes::{RouteKey, RouteTarget};
use super::{Held, Mirror};
use crate::netlink::link::{Link, LinkKind, Vxlan};
use crate::state::{ELSEWHERE, End, Far, Group, Key, Value, Weighted, own_port};

/// Why an entry of a forwarding database is not in the overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unresolved {
    /// Its device is not known.
    NoLink(u32),
    /// Its device is no end of VXLAN tunnels.
    NotVxlan(u32),
    /// Its device is down.
    LinkDown(u32),
    /// Its network is not one of its device's.
    NoNetwork(u32),
    /// There is no far end behind its nexthop object.
    NoNexthop(u32),
    /// Neither its device nor the configuration names an outer source address, or that is of
    /// the other version of IP.
    NoLocal,
    /// Its far end is an address that no single host has.
    NotOneHost(IpAddr),
    /// It leads to so many far ends at once, which only the flood list does.
    Several(usize),
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unresolved::NoLink(index) => write!(f, "device {index} is not known"),
            Unresolved::NotVxlan(index) => write!(f, "device {index} is no end of VXLAN tunnels"),
            Unresolved::LinkDown(index) => write!(f, "device {index} is down"),
            Unresolved::NoNetwork(vni) => write!(f, "network {vni} is not the device's"),
            Unresolved::NoNexthop(id) => write!(f, "nexthop {id} names no far end"),
            Unresolved::NoLocal => write!(f, "no outer source address is known"),
            Unresolved::NotOneHost(address) => write!(f, "{address} is not one host's address"),
            Unresolved::Several(count) => {
                write!(f, "{count} far ends would each get a copy, which only those of {FLOOD} do")
            }
        }
    }
}

impl Mirror {
    pub(super) fn wanted(&self, key: Key) -> Option<Value> {
        match key {
            Key::Port(port) => self.port(port).map(Value::Port),
            Key::Neighbor(port, address) => {
                self.neighbor(self.device_of(port)?, address).map(Value::Neighbor)
            }
            Key::Route(prefix) => self.route(prefix).map(Value::Route),
            Key::Network(vni) => self.network(vni).map(Value::Network),
            Key::Entry(vni, mac) => self.entry(vni, mac),
            Key::Other(..) | Key::Prefix(..) => None,
            // Neither the kernel nor FRR's stream has a word for it.
            Key::Segment(_) => None,
            Key::Flood(vni) => Some(self.flood(vni)).filter(|fars| !fars.is_empty()).map(Value::Flood),
        }
    }

    fn device_of(&self, port: u16) -> Option<u32> {
        let place = self.options.ports.iter().position(|binding| binding.port == port)?;
        self.bound[place].last().copied()
    }

    fn port(&self, number: u16) -> Option<Port> {
        let link = &self.links.get(&self.device_of(number)?)?.what;
        let binding = self.options.ports.iter().find(|binding| binding.port == number)?;
        Some(Port {
            mac: link.mac?,
            mtu: u16::try_from(link.mtu).unwrap_or(u16::MAX).min(binding.mtu.unwrap_or(u16::MAX)),
            vlan: binding.vlan,
            is_up: link.is_up && link.has_carrier,
        })
    }

    /// The best route of a prefix: to the first next hop that is up. Without a device that is
    /// a port, the kernel's routes say nothing of the underlay.
    fn route(&self, prefix: Prefix) -> Option<Route> {
        if self.options.ports.is_empty() {
            return None;
        }
        let all =
            RouteKey { prefix, metric: 0, tos: 0 }..=RouteKey { prefix, metric: u32::MAX, tos: u8::MAX };
        let (_, Held { what: ways, .. }) = self.routes.range(all).find(|(key, _)| key.tos == 0)?;
        let is_up = |route: &&Route| self.port(route.port).is_some_and(|port| port.is_up);
        let mut first = None;
        for target in &ways.0 {
            let ways = self.ways(target);
            if let Some(up) = ways.iter().find(is_up) {
                return Some(*up);
            }
            // What leads nowhere, or by no port, is taken before those behind it.
            let Some(way) = ways.first() else { break };
            first.get_or_insert(*way);
        }
        first.or(Some(Route { port: ELSEWHERE, gateway: None }))
    }

    /// The ways of a route that go by ports and in no tunnel.
    fn ways(&self, target: &RouteTarget) -> Vec<Route> {
        match target {
            RouteTarget::Hops(hops) => {
                let plain = hops.iter().filter(|hop| hop.encap.is_none());
                plain.filter_map(|hop| self.way(hop.link, hop.gateway)).collect()
            }
            RouteTarget::Nexthop(id) => {
                let plain = self.members(*id).map(|(nexthop, _)| nexthop);
                let plain = plain.filter(|it| !it.is_blackhole && !it.is_encapsulated);
                plain.filter_map(|nexthop| self.way(nexthop.link?, nexthop.gateway)).collect()
            }
            RouteTarget::Nowhere => Vec::new(),
        }
    }

    fn way(&self, link: u32, gateway: Option<IpAddr>) -> Option<Route> {
        Some(Route { port: self.options.ports[self.binding_of(link)?].port, gateway })
    }

    /// Devices of a network that are up, the youngest first.
    fn devices(&self, vni: u32) -> impl Iterator<Item = (&Link, Vxlan)> {
        let own = self.by_vni.get(&vni).into_iter().flatten().rev();
        let devices = own.chain(self.externals.iter().rev()).filter_map(|index| self.links.get(index));
        devices.filter_map(|Held { what: link, .. }| match link.kind {
            LinkKind::Vxlan(vxlan) if link.is_up => Some((link, vxlan)),
            _ => None,
        })
    }

    fn network(&self, vni: u32) -> Option<End> {
        let has_it = |link: &Link, vxlan: &Vxlan| {
            !vxlan.is_external || self.fdb.range(FdbKey::of_network(link.index, vni)).next().is_some()
        };
        let mut devices = self.devices(vni).filter(|(link, vxlan)| has_it(link, vxlan));
        devices.find_map(|(_, vxlan)| {
            let (port, zero_checksum) = (own_port(vxlan.port), vxlan.zero_checksum);
            let local = vxlan.local.or(self.options.locals.first().copied());
            Some(End { local: local?, port, zero_checksum })
        })
    }

    fn entry(&self, vni: u32, mac: MacAddress) -> Option<Value> {
        self.devices(vni).find_map(|(link, vxlan)| {
            let key = FdbKey { link: link.index, vni: if vxlan.is_external { vni } else { 0 }, mac };
            match &self.fdb.get(&key)?.what {
                Destination::Remote(remote) => self.far(key, remote, &vxlan).ok().map(Value::Entry),
                // Where a group of hosts has several far ends, one entry cannot name them.
                Destination::Remotes(remotes) => match remotes.as_slice() {
                    [(remote, _)] => self.far(key, remote, &vxlan).ok().map(Value::Entry),
                    _ => None,
                },
                Destination::Nexthop(id) => self.by_nexthop(key, *id, &vxlan).ok(),
            }
        })
    }

    fn flood(&self, vni: u32) -> Vec<Far> {
        let mut fars = Vec::new();
        for (link, vxlan) in self.devices(vni) {
            let vni = if vxlan.is_external { vni } else { 0 };
            let key = FdbKey { link: link.index, vni, mac: FLOOD };
            match self.fdb.get(&key).map(|held| &held.what) {
                Some(Destination::Remotes(remotes)) => {
                    fars.extend(remotes.iter().filter_map(|(remote, _)| self.far(key, remote, &vxlan).ok()));
                }
                Some(Destination::Remote(remote)) => fars.extend(self.far(key, remote, &vxlan)),
                // The hosts of a segment get one copy together.
                Some(Destination::Nexthop(id)) => {
                    fars.extend(self.fars(key, *id, &vxlan).next().map(|(far, _)| far))
                }
                None => {}
            }
        }
        fars.sort_unstable();
        fars.dedup();
        fars
    }

    /// The far end that an entry's remote is.
    fn far(&self, key: FdbKey, remote: &Remote, vxlan: &Vxlan) -> Result<Far, Unresolved> {
        let dst = remote.dst;
        if dst.is_unspecified() || dst.is_multicast() {
            return Err(Unresolved::NotOneHost(dst));
        }
        let vni = key.network(vxlan).ok_or(Unresolved::NoNetwork(key.vni))?;
        let is_same = |local: &IpAddr| local.is_ipv4() == dst.is_ipv4();
        let usual = || self.options.locals.iter().copied().find(is_same);
        let local = vxlan.local.map_or_else(usual, |local| Some(local).filter(is_same));
        Ok(Far {
            remote: dst,
            local: local.ok_or(Unresolved::NoLocal)?,
            vni: remote.vni.unwrap_or(vni),
            port: own_port(remote.port.unwrap_or(vxlan.port)),
        })
    }

    /// The far ends behind a nexthop object, with their weights: its own, or those of its members.
    fn fars(&self, key: FdbKey, id: u32, vxlan: &Vxlan) -> impl Iterator<Item = (Far, u32)> {
        let far = move |gateway| self.far(key, &Remote { dst: gateway, vni: None, port: None }, vxlan);
        let members = self.members(id).filter(|(nexthop, _)| nexthop.is_fdb);
        members.filter_map(move |(nexthop, weight)| Some((far(nexthop.gateway?).ok()?, weight)))
    }

    /// Where a nexthop object leads: to one far end, or to those of a group.
    fn by_nexthop(&self, key: FdbKey, id: u32, vxlan: &Vxlan) -> Result<Value, Unresolved> {
        let mut weights: BTreeMap<Far, u64> = BTreeMap::new();
        for (far, weight) in self.fars(key, id, vxlan) {
            *weights.entry(far).or_default() += u64::from(weight);
        }
        let fars = weighted(weights.into_iter().take(MAX_MEMBERS).collect());
        let is_group = self.nexthops.get(&id).is_some_and(|held| !held.what.group.is_empty());
        match fars.as_slice() {
            [] => Err(Unresolved::NoNexthop(id)),
            [single] if !is_group => Ok(Value::Entry(single.far)),
            _ => Ok(Value::Group(Group { id, fars })),
        }
    }

    /// Entries of forwarding databases that the overlay does not have, and why: the device,
    /// the network there (0: the device's own) and the address.
    pub fn unresolved(&self) -> impl Iterator<Item = (u32, u32, MacAddress, Unresolved)> {
        self.fdb.iter().flat_map(|(key, held)| {
            let problems = self.problems(*key, &held.what);
            problems.into_iter().map(move |problem| (key.link, key.vni, key.mac, problem))
        })
    }

    fn problems(&self, key: FdbKey, destination: &Destination) -> Vec<Unresolved> {
        let Some(Held { what: link, .. }) = self.links.get(&key.link) else {
            return vec![Unresolved::NoLink(key.link)];
        };
        let LinkKind::Vxlan(vxlan) = link.kind else { return vec![Unresolved::NotVxlan(key.link)] };
        if !link.is_up {
            return vec![Unresolved::LinkDown(key.link)];
        }
        match destination {
            Destination::Remote(remote) => self.far(key, remote, &vxlan).err().into_iter().collect(),
            Destination::Remotes(remotes) if key.mac != FLOOD && remotes.len() > 1 => {
                vec![Unresolved::Several(remotes.len())]
            }
            Destination::Remotes(remotes) => {
                remotes.iter().filter_map(|(remote, _)| self.far(key, remote, &vxlan).err()).collect()
            }
            Destination::Nexthop(id) => self.by_nexthop(key, *id, &vxlan).err().into_iter().collect(),
        }
    }
}

/// Far ends with weights that a group of the overlay's can have, in the same proportion.
fn weighted(fars: Vec<(Far, u64)>) -> Vec<Weighted> {
    let (limit, most) = (u64::from(MAX_WEIGHT), fars.iter().map(|(_, weight)| *weight).max());
    let most = most.unwrap_or(1).max(limit);
    // At most `limit`, as none is more than `most`.
    let weight = |weight: u64| ((weight * limit / most) as u16).max(1);
    fars.into_iter().map(|(far, is)| Weighted { far, weight: weight(is) }).collect()
}
