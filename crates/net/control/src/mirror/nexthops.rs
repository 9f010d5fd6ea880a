//! Nexthop objects, their groups, and what goes with one that is removed.

use super::fdb::FdbKey;
use super::routes::RouteKey;
use super::{Generation, Held, Mirror, Origin};
use crate::netlink::nexthop::{GroupMember, Nexthop};
use crate::state::Key;

impl Mirror {
    pub(super) fn set_nexthop(&mut self, stamp: Generation, nexthop: Nexthop) {
        let id = nexthop.id;
        if !self.nexthops.contains_key(&id)
            && !self.has_room(self.nexthops.len(), self.options.limits.nexthops)
        {
            return;
        }
        let before = self.nexthops.get(&id).map_or(0, |held| held.what.group.len());
        if !self.resize(before, nexthop.group.len()) {
            return;
        }
        self.unindex_nexthop(id);
        self.groups_by_member.extend(nexthop.group.iter().map(|member| (member.id, id)));
        self.nexthops_by_link.extend(nexthop.link.map(|link| (link, id)));
        self.nexthops.insert(id, Held { stamp, what: nexthop });
        self.touch_nexthop(id);
    }

    fn unindex_nexthop(&mut self, id: u32) {
        let Some(Held { what, .. }) = self.nexthops.get(&id) else { return };
        for member in &what.group {
            self.groups_by_member.remove(&(member.id, id));
        }
        if let Some(link) = what.link {
            self.nexthops_by_link.remove(&(link, id));
        }
    }

    /// Removes a nexthop object from its groups, with the entries and routes that name it and
    /// with groups that are empty then.
    pub(super) fn remove_nexthop(&mut self, id: u32) {
        let mut leaving = vec![id];
        while let Some(id) = leaving.pop() {
            self.touch_nexthop(id);
            self.unindex_nexthop(id);
            self.parts -= self.nexthops.remove(&id).map_or(0, |held| held.what.group.len());
            for key in self.fdb_of_nexthop(id) {
                self.drop_fdb(key);
            }
            for key in self.routes_of_nexthop(id) {
                self.drop_route_by(key, id);
            }
            for group in self.groups_of(id) {
                self.groups_by_member.remove(&(id, group));
                let Some(Held { what, .. }) = self.nexthops.get_mut(&group) else { continue };
                let before = what.group.len();
                what.group.retain(|member| member.id != id);
                self.parts -= before - what.group.len();
                if what.group.is_empty() {
                    leaving.push(group);
                }
            }
        }
    }

    /// Removes what an origin told of that names a nexthop object which is not there, once all
    /// objects were told of: it went with one whose message was lost.
    pub(super) fn sweep_dangling(&mut self, origin: Origin) {
        let is_unknown = |id: &u32| !self.nexthops.contains_key(id);
        let entries = self.fdb_by_nexthop.iter().filter(|(id, _)| is_unknown(id)).map(|(_, key)| *key);
        let entries = entries.filter(|key| self.fdb[key].stamp.origin == origin);
        let routes = self.routes_by_nexthop.iter().filter(|(id, _)| is_unknown(id)).copied();
        let routes = routes.filter(|(_, key)| self.routes[key].stamp.origin == origin);
        let (entries, routes): (Vec<FdbKey>, Vec<(u32, RouteKey)>) = (entries.collect(), routes.collect());
        entries.into_iter().for_each(|key| self.drop_fdb(key));
        routes.into_iter().for_each(|(id, key)| self.drop_route_by(key, id));
    }

    fn fdb_of_nexthop(&self, id: u32) -> Vec<FdbKey> {
        self.fdb_by_nexthop.range((id, FdbKey::FIRST)..=(id, FdbKey::LAST)).map(|(_, key)| *key).collect()
    }

    fn routes_of_nexthop(&self, id: u32) -> Vec<RouteKey> {
        self.routes_by_nexthop
            .range((id, RouteKey::FIRST)..=(id, RouteKey::LAST))
            .map(|(_, key)| *key)
            .collect()
    }

    fn groups_of(&self, id: u32) -> Vec<u32> {
        self.groups_by_member.range((id, 0)..=(id, u32::MAX)).map(|(_, group)| *group).collect()
    }

    /// Marks what depends on a nexthop object, by itself or by a group.
    pub(super) fn touch_nexthop(&mut self, id: u32) {
        let groups = self.groups_of(id);
        for id in groups.into_iter().chain([id]) {
            for key in self.fdb_of_nexthop(id) {
                self.touch_fdb(key);
            }
            for key in self.routes_of_nexthop(id) {
                self.dirty.insert(Key::Route(key.prefix));
            }
        }
    }

    /// The nexthops behind a number, with their weights: itself, or the known members of the group
    /// that it is.
    pub(super) fn members(&self, id: u32) -> impl Iterator<Item = (&Nexthop, u32)> {
        let named = self.nexthops.get(&id).map(|held| &held.what);
        let group = named.map_or(&[][..], |nexthop| &nexthop.group);
        let itself = named.filter(|nexthop| nexthop.group.is_empty());
        let known = |member: &GroupMember| Some((&self.nexthops.get(&member.id)?.what, member.weight));
        itself.into_iter().map(|nexthop| (nexthop, 1)).chain(group.iter().filter_map(known))
    }
}
