//! Network devices: which are ports of the underlay, which are ends of tunnels, and what goes
//! with one that goes down or away.

use std::net::{IpAddr, Ipv4Addr};

use super::{Generation, Held, Mirror};
use crate::mirror::fdb::FdbKey;
use crate::mirror::routes::{RouteKey, RouteTarget};
use crate::netlink::link::{Link, LinkKind};
use crate::netlink::route::Hop;
use crate::state::Key;

impl Mirror {
    pub(super) fn set_link(&mut self, stamp: Generation, link: Link) {
        let (index, is_up, has_carrier) = (link.index, link.is_up, link.has_carrier);
        let was_up = self.links.get(&index).is_some_and(|held| held.what.is_up);
        let is_new = !self.links.contains_key(&index);
        if is_new && !self.has_room(self.links.len(), self.options.limits.links) {
            return;
        }
        match self.links.get_mut(&index) {
            Some(held) if held.what == link => held.stamp = stamp,
            _ => self.replace_link(stamp, link),
        }
        if was_up && !is_up {
            self.lose_neighbors(index);
        }
        // Also when it was down before, as far as is known: that it was up, and got routes,
        // may have been lost.
        if !is_up {
            self.lose_routes(index);
        }
        if !is_up || !has_carrier {
            self.lose_nexthops(index);
        }
    }

    fn replace_link(&mut self, stamp: Generation, link: Link) {
        let index = link.index;
        self.touch_link(index);
        self.unindex_link(index);
        self.links.insert(index, Held { stamp, what: link });
        self.index_link(index);
        self.touch_link(index);
    }

    /// Removes a device with all that belongs to it.
    pub(super) fn remove_link(&mut self, index: u32) {
        self.touch_link(index);
        self.unindex_link(index);
        self.links.remove(&index);
        self.lose_neighbors(index);
        self.lose_routes(index);
        self.lose_nexthops(index);
        let entries: Vec<FdbKey> = self.fdb.range(FdbKey::of_link(index)).map(|(key, _)| *key).collect();
        entries.into_iter().for_each(|key| self.drop_fdb(key));
        self.touch_bound(); // a device that had the name before may have it again
    }

    fn index_link(&mut self, index: u32) {
        let Some(Held { what: link, .. }) = self.links.get(&index) else { return };
        for (binding, devices) in self.options.ports.iter().zip(&mut self.bound) {
            if binding.link == link.name {
                devices.insert(index);
            }
        }
        match link.kind {
            LinkKind::Vxlan(vxlan) if vxlan.is_external => {
                self.externals.insert(index);
            }
            LinkKind::Vxlan(vxlan) => {
                self.by_vni.entry(vxlan.vni).or_default().insert(index);
            }
            _ => {}
        }
    }

    fn unindex_link(&mut self, index: u32) {
        for devices in &mut self.bound {
            devices.remove(&index);
        }
        self.externals.remove(&index);
        let Some(Held { what: Link { kind: LinkKind::Vxlan(vxlan), .. }, .. }) = self.links.get(&index)
        else {
            return;
        };
        if let Some(devices) = self.by_vni.get_mut(&vxlan.vni) {
            devices.remove(&index);
            if devices.is_empty() {
                self.by_vni.remove(&vxlan.vni);
            }
        }
    }

    /// The place in the options of the port that a device is. Two devices may seem to have a
    /// name when one was renamed: the younger one has it.
    pub(super) fn binding_of(&self, index: u32) -> Option<usize> {
        self.bound.iter().position(|devices| devices.last() == Some(&index))
    }

    /// Marks what depends on a device.
    fn touch_link(&mut self, index: u32) {
        let Some(held) = self.links.get(&index) else { return };
        if let LinkKind::Vxlan(vxlan) = held.what.kind {
            if !vxlan.is_external {
                self.dirty.insert(Key::Network(vxlan.vni));
            }
            let entries: Vec<FdbKey> = self.fdb.range(FdbKey::of_link(index)).map(|(key, _)| *key).collect();
            entries.into_iter().for_each(|key| self.touch_fdb(key));
        }
        if self.bound.iter().any(|devices| devices.contains(&index)) {
            self.touch_bound();
        }
        let nexthops = self.nexthops_by_link.range((index, 0)..=(index, u32::MAX));
        let nexthops: Vec<u32> = nexthops.map(|(_, id)| *id).collect();
        nexthops.into_iter().for_each(|id| self.touch_nexthop(id));
        for key in self.routes_of_link(index) {
            self.dirty.insert(Key::Route(key.prefix));
        }
    }

    /// Marks all that depends on which device is which port. Ports are few and seldom change.
    fn touch_bound(&mut self) {
        for (place, binding) in self.options.ports.iter().enumerate() {
            self.dirty.insert(Key::Port(binding.port));
            for index in &self.bound[place] {
                let of_link =
                    (*index, IpAddr::V4(Ipv4Addr::UNSPECIFIED))..=(*index, super::routes::LAST_ADDRESS);
                let neighbors = self.neighbors.range(of_link);
                self.dirty.extend(neighbors.map(|((_, address), _)| Key::Neighbor(binding.port, *address)));
                let routes = self.routes_by_link.range((*index, RouteKey::FIRST)..=(*index, RouteKey::LAST));
                self.dirty.extend(routes.map(|(_, key)| Key::Route(key.prefix)));
            }
        }
    }

    pub(super) fn routes_of_link(&self, index: u32) -> Vec<RouteKey> {
        let routes = self.routes_by_link.range((index, RouteKey::FIRST)..=(index, RouteKey::LAST));
        routes.map(|(_, key)| *key).collect()
    }

    fn lose_neighbors(&mut self, index: u32) {
        let of_link = (index, IpAddr::V4(Ipv4Addr::UNSPECIFIED))..=(index, super::routes::LAST_ADDRESS);
        let neighbors: Vec<_> = self.neighbors.range(of_link).map(|(key, _)| *key).collect();
        neighbors.into_iter().for_each(|key| self.drop_neighbor(key));
    }

    /// Removes the routes of a device that is down, of which no next hop is left. Linux tells
    /// of those of IPv6, but not of those of IPv4.
    fn lose_routes(&mut self, index: u32) {
        for key in self.routes_of_link(index) {
            let is_down = |link: u32| self.links.get(&link).is_none_or(|held| !held.what.is_up);
            let is_lost = |hop: &Hop| hop.link == index || (hop.link != 0 && is_down(hop.link));
            let is_left = |way: &&RouteTarget| match way {
                RouteTarget::Hops(hops) => {
                    !(hops.iter().any(|hop| hop.link == index) && hops.iter().all(is_lost))
                }
                RouteTarget::Nexthop(_) | RouteTarget::Nowhere => true,
            };
            let ways = self.routes.get(&key).into_iter().flat_map(|held| &held.what.0);
            let left = ways.filter(is_left).cloned().collect();
            self.reduce_ways(key, |ways| ways.0 = left);
        }
    }

    /// Removes the nexthop objects of a device that went down or lost its carrier, as Linux
    /// does without a message.
    fn lose_nexthops(&mut self, index: u32) {
        let nexthops = self.nexthops_by_link.range((index, 0)..=(index, u32::MAX));
        let nexthops: Vec<u32> = nexthops.map(|(_, id)| *id).collect();
        nexthops.into_iter().for_each(|id| self.remove_nexthop(id));
    }
}
