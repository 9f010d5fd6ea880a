//! What the overlay knows of the network below it: routes, the Ethernet addresses of next
//! hops, and the state of ports. Lower layers tell of changes; the way to a far end is what
//! follows from all of them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fib::Rib;
use port::Reason;
use wire::MacAddress;

use crate::arrival::Entrance;
use crate::decap::entrance_key;
use crate::error;
use crate::table::Overlay;
use crate::tunnel::Link;

/// A port of the underlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Port {
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// Bytes of an IP packet, at most.
    pub mtu: u16,
    /// The VLAN of the underlay, as a tag's control information.
    pub vlan: Option<u16>,
    /// Whether packets can leave.
    pub is_up: bool,
}

/// Where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Route {
    /// The port by which packets leave.
    pub port: u16,
    /// The router to which they go; without one the destination is on the link.
    pub gateway: Option<IpAddr>,
}

/// A prefix of addresses, and how many of the leading bits are meant.
pub type Prefix = (IpAddr, u8);

/// A neighbour: the port, and its address there.
pub(crate) type Neighbor = (u16, IpAddr);

/// What is known of the network below.
#[derive(Debug, Default)]
pub(crate) struct Underlay {
    v4: Rib<u32, Route>,
    v6: Rib<u128, Route>,
    neighbors: BTreeMap<Neighbor, MacAddress>,
    ports: BTreeMap<u16, Port>,
}

/// The way to a far end: of whom its headers depend, and the link if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnderlayPath {
    pub(crate) neighbor: Option<Neighbor>,
    pub(crate) link: Result<Link, Reason>,
}

impl Underlay {
    /// Changes or removes a route; whether anything is different.
    pub(crate) fn set_route(&mut self, prefix: Prefix, route: Option<Route>) -> fib::Result<bool> {
        let (address, len) = prefix;
        match address {
            IpAddr::V4(address) => set(&mut self.v4, (address.to_bits(), len), route),
            IpAddr::V6(address) => set(&mut self.v6, (address.to_bits(), len), route),
        }
    }

    /// Changes or removes a neighbour; whether anything is different.
    pub(crate) fn set_neighbor(&mut self, neighbor: Neighbor, mac: Option<MacAddress>) -> bool {
        match mac {
            Some(mac) => self.neighbors.insert(neighbor, mac) != Some(mac),
            None => self.neighbors.remove(&neighbor).is_some(),
        }
    }

    /// Changes or removes a port; whether anything is different.
    pub(crate) fn set_port(&mut self, number: u16, port: Option<Port>) -> bool {
        match port {
            Some(port) => self.ports.insert(number, port) != Some(port),
            None => self.ports.remove(&number).is_some(),
        }
    }

    /// What is known of a port, if it was told of.
    pub(crate) fn port(&self, number: u16) -> Option<&Port> {
        self.ports.get(&number)
    }

    /// The way to an address.
    pub(crate) fn way(&self, remote: IpAddr) -> UnderlayPath {
        let route = match remote {
            IpAddr::V4(remote) => self.v4.route(remote.to_bits()).map(|entry| *entry.hop),
            IpAddr::V6(remote) => self.v6.route(remote.to_bits()).map(|entry| *entry.hop),
        };
        let Some(route) = route else {
            return UnderlayPath { neighbor: None, link: Err(Reason::OverlayNoRoute) };
        };
        let neighbor = (route.port, route.gateway.unwrap_or(remote));
        UnderlayPath { neighbor: Some(neighbor), link: self.link(neighbor) }
    }

    fn link(&self, neighbor: Neighbor) -> Result<Link, Reason> {
        let port = self.ports.get(&neighbor.0).filter(|port| port.is_up).ok_or(Reason::OverlayLinkDown)?;
        let dst = *self.neighbors.get(&neighbor).ok_or(Reason::OverlayNoNeighbor)?;
        Ok(Link { port: neighbor.0, dst, src: port.mac, vlan: port.vlan, mtu: port.mtu })
    }
}

impl Overlay {
    /// Changes or removes a route of the underlay.
    ///
    /// # Errors
    /// When there is no such prefix.
    pub fn set_route(&mut self, prefix: Prefix, route: Option<Route>) -> error::Result<()> {
        if self.underlay.set_route(prefix, route)? {
            self.update(self.tunnels.to(range(prefix)));
        }
        Ok(())
    }

    /// Changes or removes the Ethernet address of a next hop.
    pub fn set_neighbor(&mut self, port: u16, address: IpAddr, mac: Option<MacAddress>) {
        if self.underlay.set_neighbor((port, address), mac) {
            self.update(self.tunnels.by(&(port, address)));
        }
    }

    /// Changes or removes a port of the underlay: its address, length of packets, VLAN and
    /// whether it is up.
    pub fn set_port(&mut self, number: u16, port: Option<Port>) {
        if self.underlay.set_port(number, port) {
            self.update(self.tunnels.by_port(number));
        }
    }

    /// Says which frames that come by a port of the underlay are for this host, whatever becomes of the
    /// port itself; none until then.
    pub fn set_entrance(&mut self, number: u16, entrance: Entrance) {
        let set = self.entrances.insert(entrance_key(number), entrance);
        debug_assert!(set.is_ok(), "there is room for all ports that have numbers");
    }

    /// Next hops whose Ethernet addresses are not known and asked for by some tunnel: the
    /// port, and the address to ask for.
    pub fn unresolved(&self) -> impl Iterator<Item = Neighbor> + '_ {
        self.tunnels.unresolved()
    }

    /// Whether a tunnel goes by a next hop: its port and address.
    pub fn has_next_hop(&self, neighbor: Neighbor) -> bool {
        self.tunnels.is_by(&neighbor)
    }
}

fn set<S: fib::Scheme>(rib: &mut Rib<S, Route>, rule: S::Rule, route: Option<Route>) -> fib::Result<bool> {
    Ok(match route {
        Some(route) => rib.insert(rule, route)? != Some(route),
        None => rib.remove(rule)?.is_some(),
    })
}

/// The first and the last address of a prefix.
pub(crate) fn range((address, len): Prefix) -> (IpAddr, IpAddr) {
    match address {
        IpAddr::V4(address) => {
            let host = u32::MAX.checked_shr(len.into()).unwrap_or(0);
            let first = address.to_bits() & !host;
            (IpAddr::V4(first.into()), IpAddr::V4((first | host).into()))
        }
        IpAddr::V6(address) => {
            let host = u128::MAX.checked_shr(len.into()).unwrap_or(0);
            let first = address.to_bits() & !host;
            (IpAddr::V6(first.into()), IpAddr::V6((first | host).into()))
        }
    }
}
