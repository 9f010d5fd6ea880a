//! Routes and neighbours of the underlay.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlay::Prefix;
use wire::MacAddress;

use super::{Generation, Held, Mirror};
use crate::netlink::neighbor::Neighbor;
use crate::netlink::route::{Hop, Route};
use crate::state::Key;

/// The last of all addresses, as they are ordered.
pub(super) const LAST_ADDRESS: IpAddr = IpAddr::V6(Ipv6Addr::from_bits(u128::MAX));

/// Which route. The order is that in which routes of a prefix are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RouteKey {
    pub(super) prefix: Prefix,
    pub(super) metric: u32,
    pub(super) tos: u8,
}

impl RouteKey {
    pub(super) const FIRST: RouteKey =
        RouteKey { prefix: (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), metric: 0, tos: 0 };
    pub(super) const LAST: RouteKey =
        RouteKey { prefix: (LAST_ADDRESS, u8::MAX), metric: u32::MAX, tos: u8::MAX };
}

/// Where a route leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RouteTarget {
    /// To one of these.
    Hops(Vec<Hop>),
    /// To what a nexthop object says.
    Nexthop(u32),
    /// Nowhere: packets are refused or dropped.
    Nowhere,
}

/// Where a route stands among those of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    /// In their place.
    Instead,
    /// Before those that are known.
    InFront,
    /// After those that are known.
    Behind,
}

impl RouteTarget {
    /// Next hops of a route that names them.
    fn parts(&self) -> usize {
        match self {
            RouteTarget::Hops(hops) => hops.len(),
            RouteTarget::Nexthop(_) | RouteTarget::Nowhere => 0,
        }
    }
}

impl Mirror {
    fn route_key(&self, route: &Route) -> Option<RouteKey> {
        let is_ours = route.table == self.options.table && !route.is_cached;
        let prefix = route.prefix.filter(|(address, _)| is_ours && is_routed(*address));
        Some(RouteKey { prefix: prefix?, metric: route.metric, tos: route.tos })
    }

    /// Changes a route. Its next hops stand beside those that were told of in the same round, unless
    /// it says that it replaces them.
    pub(super) fn set_route(&mut self, stamp: Generation, route: Route, stands: Stands) {
        let Some(key) = self.route_key(&route) else {
            self.counters.ignored += 1;
            return;
        };
        let way = match route.nexthop {
            Some(id) => RouteTarget::Nexthop(id),
            None if route.is_unicast => RouteTarget::Hops(route.hops),
            None => RouteTarget::Nowhere,
        };
        let old = self.routes.get(&key).filter(|held| stands != Stands::Instead && held.stamp == stamp);
        let way = match (old.map(|held| &held.what), way) {
            (Some(RouteTarget::Hops(old)), RouteTarget::Hops(new)) => {
                let (first, then) = match stands {
                    Stands::InFront => (&new, old),
                    Stands::Instead | Stands::Behind => (old, &new),
                };
                let then = then.iter().filter(|hop| !first.contains(hop));
                RouteTarget::Hops(first.iter().chain(then).copied().collect())
            }
            (_, way) => way,
        };
        let is_new = !self.routes.contains_key(&key);
        if is_new && !self.has_room(self.routes.len(), self.options.limits.routes) {
            return;
        }
        let before = self.routes.get(&key).map_or(0, |held| held.what.parts());
        if !self.resize(before, way.parts()) {
            return;
        }
        self.unindex_route(key);
        match &way {
            RouteTarget::Hops(hops) => self.routes_by_link.extend(hops.iter().map(|hop| (hop.link, key))),
            RouteTarget::Nexthop(id) => drop(self.routes_by_nexthop.insert((*id, key))),
            RouteTarget::Nowhere => {}
        }
        self.routes.insert(key, Held { stamp, what: way });
        self.dirty.insert(Key::Route(key.prefix));
    }

    fn unindex_route(&mut self, key: RouteKey) {
        match self.routes.get(&key).map(|held| &held.what) {
            Some(RouteTarget::Hops(hops)) => {
                for hop in hops {
                    self.routes_by_link.remove(&(hop.link, key));
                }
            }
            Some(RouteTarget::Nexthop(id)) => drop(self.routes_by_nexthop.remove(&(*id, key))),
            Some(RouteTarget::Nowhere) | None => {}
        }
    }

    /// Removes a route, or those of its next hops that the message names.
    pub(super) fn remove_route(&mut self, route: &Route) {
        let Some(key) = self.route_key(route) else { return };
        let Some(Held { stamp, what: way }) = self.routes.get(&key) else { return };
        let (stamp, named) = (*stamp, |hop: &Hop| {
            route.hops.iter().any(|gone| (gone.link, gone.gateway) == (hop.link, hop.gateway))
        });
        match way {
            RouteTarget::Nexthop(id) if route.nexthop.is_some_and(|named| named != *id) => {}
            RouteTarget::Hops(_) if route.nexthop.is_some() => {}
            RouteTarget::Hops(hops) if !route.hops.is_empty() => {
                let left: Vec<Hop> = hops.iter().filter(|hop| !named(hop)).copied().collect();
                if left.is_empty() {
                    return self.drop_route(key);
                }
                self.parts -= hops.len() - left.len();
                self.unindex_route(key);
                self.routes_by_link.extend(left.iter().map(|hop| (hop.link, key)));
                self.routes.insert(key, Held { stamp, what: RouteTarget::Hops(left) });
                self.dirty.insert(Key::Route(key.prefix));
            }
            _ => self.drop_route(key),
        }
    }

    pub(super) fn drop_route(&mut self, key: RouteKey) {
        self.unindex_route(key);
        self.parts -= self.routes.remove(&key).map_or(0, |held| held.what.parts());
        self.dirty.insert(Key::Route(key.prefix));
    }

    pub(super) fn set_neighbor(&mut self, stamp: Generation, neighbor: &Neighbor) {
        let Some(key) = neighbor.dst.map(|address| (neighbor.link, address)) else { return };
        let Some(mac) = neighbor.answered() else { return self.drop_neighbor(key) };
        let is_new = !self.neighbors.contains_key(&key);
        if is_new && !self.has_room(self.neighbors.len(), self.options.limits.neighbors) {
            return;
        }
        self.neighbors.insert(key, Held { stamp, what: mac });
        self.touch_neighbor(key);
    }

    pub(super) fn remove_neighbor(&mut self, neighbor: &Neighbor) {
        if let Some(address) = neighbor.dst {
            self.drop_neighbor((neighbor.link, address));
        }
    }

    pub(super) fn drop_neighbor(&mut self, key: (u32, IpAddr)) {
        self.neighbors.remove(&key);
        self.touch_neighbor(key);
    }

    fn touch_neighbor(&mut self, (link, address): (u32, IpAddr)) {
        if let Some(place) = self.binding_of(link) {
            self.dirty.insert(Key::Neighbor(self.options.ports[place].port, address));
        }
    }

    /// The Ethernet address of a neighbour on a device.
    pub(super) fn neighbor(&self, link: u32, address: IpAddr) -> Option<MacAddress> {
        self.neighbors.get(&(link, address)).map(|held| held.what)
    }
}

/// Whether a prefix leads beyond a link. Prefixes of a link stand there once for each device,
/// and no far end of a tunnel has such an address.
fn is_routed(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_multicast() && !address.is_link_local(),
        IpAddr::V6(address) => !address.is_multicast() && !address.is_unicast_link_local(),
    }
}
