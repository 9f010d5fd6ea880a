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
    /// In the place of the first.
    Instead,
    /// Before those that are known; behind those of IPv6.
    InFront,
    /// After those that are known.
    Behind,
}

impl RouteTarget {
    fn has_hops(&self) -> bool {
        matches!(self, RouteTarget::Hops(_))
    }
}

/// The routes of one key in their order: the first that leads anywhere is used. Those of IPv6 by next
/// hops are one with all of these, as in Linux.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ways(pub(super) Vec<RouteTarget>);

impl Ways {
    /// Next hops of the routes that name them, and routes beside the first.
    fn parts(&self) -> usize {
        let hops = self.0.iter().map(|way| if let RouteTarget::Hops(hops) = way { hops.len() } else { 0 });
        hops.sum::<usize>() + self.0.len().saturating_sub(1)
    }

    /// A route takes its place, as fib_table_insert (net/ipv4/fib_trie.c) has it.
    fn set_v4(&mut self, way: RouteTarget, stands: Stands) {
        if stands == Stands::Behind && self.0.contains(&way) {
            return; // a dump tells of it again
        }
        if stands == Stands::Instead && !self.0.is_empty() {
            self.0.remove(0);
        }
        self.0.retain(|other| *other != way);
        let place = if stands == Stands::Behind { self.0.len() } else { 0 };
        self.0.insert(place, way);
    }

    /// A route takes its place, as fib6_add_rt2node (net/ipv6/ip6_fib.c) has it: behind the others, with
    /// its next hops beside theirs, or in the place of the first of its kind.
    fn set_v6(&mut self, way: RouteTarget, stands: Stands) {
        let alike = self.0.iter().position(|other| other.has_hops() == way.has_hops());
        if stands == Stands::Instead && !self.0.is_empty() {
            self.0[alike.unwrap_or(0)] = way;
            return;
        }
        let beside = alike.and_then(|place| self.0.get_mut(place));
        if let (Some(RouteTarget::Hops(hops)), RouteTarget::Hops(new)) = (beside, &way) {
            let new: Vec<Hop> = new.iter().filter(|hop| !hops.contains(hop)).copied().collect();
            hops.extend(new);
        } else if !self.0.contains(&way) {
            self.0.push(way);
        }
    }

    /// Takes away the route that a message names, or the next hops that it names of others.
    fn remove(&mut self, route: &Route) {
        let named =
            |hop: &Hop| route.hops.iter().any(|gone| (gone.link, gone.gateway) == (hop.link, hop.gateway));
        let place = self.0.iter().position(|way| match (way, route.nexthop) {
            (RouteTarget::Nexthop(id), named) => named == Some(*id),
            (RouteTarget::Nowhere, None) => !route.is_unicast,
            (RouteTarget::Hops(hops), None) => {
                route.is_unicast && hops.len() == route.hops.len() && hops.iter().all(named)
            }
            _ => false,
        });
        match place {
            Some(place) => drop(self.0.remove(place)),
            None if route.nexthop.is_some() || !route.is_unicast => {}
            None if route.hops.is_empty() => self.0.clear(),
            None => self.0.retain_mut(|way| {
                let RouteTarget::Hops(hops) = way else { return true };
                hops.retain(|hop| !named(hop));
                !hops.is_empty()
            }),
        }
    }
}

impl Mirror {
    fn route_key(&self, route: &Route) -> Option<RouteKey> {
        let is_ours = route.table == self.options.table && !route.is_cached;
        let prefix = route.prefix.filter(|(address, _)| is_ours && is_routed(*address));
        Some(RouteKey { prefix: prefix?, metric: route.metric, tos: route.tos })
    }

    /// Changes a route. It stands beside those that were told of in the same round, unless it says that
    /// it replaces one.
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
        let known = self.routes.get(&key);
        let before = known.map_or(0, |held| held.what.parts());
        let is_new = known.is_none();
        let mut ways =
            known.filter(|held| held.stamp == stamp).map(|held| held.what.clone()).unwrap_or_default();
        match key.prefix.0 {
            IpAddr::V4(_) => ways.set_v4(way, stands),
            IpAddr::V6(_) => ways.set_v6(way, stands),
        }
        if is_new && !self.has_room(self.routes.len(), self.options.limits.routes) {
            return;
        }
        if self.resize(before, ways.parts()) {
            self.hold_ways(key, Held { stamp, what: ways });
        }
    }

    /// Puts routes in the place of those of their key; their parts are counted.
    fn hold_ways(&mut self, key: RouteKey, held: Held<Ways>) {
        self.unindex_route(key);
        for way in &held.what.0 {
            match way {
                RouteTarget::Hops(hops) => self.routes_by_link.extend(hops.iter().map(|hop| (hop.link, key))),
                RouteTarget::Nexthop(id) => drop(self.routes_by_nexthop.insert((*id, key))),
                RouteTarget::Nowhere => {}
            }
        }
        self.routes.insert(key, held);
        self.dirty.insert(Key::Route(key.prefix));
    }

    fn unindex_route(&mut self, key: RouteKey) {
        for way in self.routes.get(&key).into_iter().flat_map(|held| &held.what.0) {
            match way {
                RouteTarget::Hops(hops) => {
                    for hop in hops {
                        self.routes_by_link.remove(&(hop.link, key));
                    }
                }
                RouteTarget::Nexthop(id) => drop(self.routes_by_nexthop.remove(&(*id, key))),
                RouteTarget::Nowhere => {}
            }
        }
    }

    /// Removes a route, or those of its next hops that the message names.
    pub(super) fn remove_route(&mut self, route: &Route) {
        if let Some(key) = self.route_key(route) {
            self.reduce_ways(key, |ways| ways.remove(route));
        }
    }

    /// Removes the route by a nexthop object, and none that stands beside it.
    pub(super) fn drop_route_by(&mut self, key: RouteKey, nexthop: u32) {
        self.reduce_ways(key, |ways| ways.0.retain(|way| *way != RouteTarget::Nexthop(nexthop)));
    }

    /// Takes some of the routes of a key away.
    pub(super) fn reduce_ways(&mut self, key: RouteKey, reduce: impl FnOnce(&mut Ways)) {
        let Some(Held { stamp, what }) = self.routes.get(&key) else { return };
        let (stamp, mut left) = (*stamp, what.clone());
        reduce(&mut left);
        if left.0.is_empty() {
            return self.drop_route(key);
        }
        if left != *what {
            self.parts -= what.parts() - left.parts();
            self.hold_ways(key, Held { stamp, what: left });
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
