//! What the kernel's messages, or FRR's, say of the network: links, neighbours, forwarding
//! databases, routes and nexthop objects, and what an overlay should have of them.
//!
//! Messages come in any order: an object that refers to another one which is not known waits
//! for it. What the overlay should have at a place is a function of all that is known now,
//! and not of the way to it; a change marks the places that it may concern, and
//! [`Mirror::changes`] says what should be there. So nothing stale stays behind, and a link
//! that flaps between two calls costs nothing.
//!
//! Some objects vanish without a message when another one does: routes and nexthop objects
//! whose device goes down, entries and routes of a nexthop object that is removed, all that
//! belongs to a removed device. Linux tells of the one event only (net/ipv4/nexthop.c,
//! net/ipv4/fib_semantics.c), and the mirror does the same.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::netlink::{self, Body, Header, IS_MULTI, Messages};
use crate::netlink::{link::Link, nexthop::Nexthop};
use crate::state::{Change, Key};

mod fdb;
mod links;
mod nexthops;
mod routes;
mod wanted;

use fdb::{Destination, FdbKey};
use routes::{RouteKey, Stands, Ways};
pub use wanted::Unresolved;

/// What is taken from whom, and where it leads.
#[derive(Debug, Clone)]
pub struct Options {
    /// The outer source addresses of devices that have none of their own: the first of a version of
    /// IP is that of tunnels to far ends of that version.
    pub locals: Vec<IpAddr>,
    /// The devices that are ports of the underlay.
    pub ports: Vec<Binding>,
    /// The routing table of the underlay; 254 is the main one.
    pub table: u32,
    /// Who tells of entries of forwarding databases and of the nexthop objects that they name.
    /// All else is the kernel's to tell.
    pub entries: Origin,
    /// How much is kept.
    pub limits: Limits,
}

/// A network device that is a port of the underlay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The device's name.
    pub link: String,
    /// The port's number in the overlay.
    pub port: u16,
    /// The VLAN of the underlay there, as a tag's control information.
    pub vlan: Option<u16>,
    /// Bytes of an IP packet that the port carries, where that is less than the device's.
    pub mtu: Option<u16>,
}

/// How many objects are kept. What comes above that is counted as [`Counters::full`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Network devices, of all kinds.
    pub links: usize,
    /// Nexthop objects, groups among them.
    pub nexthops: usize,
    /// Members of a group, next hops of a route, and tunnels of an entry.
    pub members: usize,
    /// Entries of forwarding databases.
    pub fdb: usize,
    /// Neighbours of all devices.
    pub neighbors: usize,
    /// Routes of the one table.
    pub routes: usize,
    /// Members of all groups, next hops of all routes, and tunnels of all entries that have
    /// lists of them, together.
    pub parts: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            locals: Vec::new(),
            ports: Vec::new(),
            table: 254,
            entries: Origin::Kernel,
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            links: 1 << 16,
            nexthops: 1 << 18,
            members: overlay::MAX_FLOOD,
            fdb: 1 << 21,
            neighbors: 1 << 18,
            routes: 1 << 21,
            parts: 1 << 22,
        }
    }
}

/// Whose messages tell of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// This machine's kernel.
    Kernel,
    /// FRR, in its stream.
    Fpm,
}

/// Origins that there are.
const ORIGINS: usize = 2;

/// What became of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Messages that were read.
    pub messages: u64,
    /// Messages of no interest.
    pub ignored: u64,
    /// Messages whose bytes are wrong.
    pub malformed: u64,
    /// Objects for which there was no room.
    pub full: u64,
    /// Objects that went because nobody told of them any more.
    pub swept: u64,
}

/// An object, with who told of it and when.
#[derive(Debug, Clone)]
struct Held<T> {
    stamp: Generation,
    what: T,
}

/// One telling of everything that there is: by the kernel from one dump to the next, by FRR
/// as long as a connection lasts. Objects are stamped with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    origin: Origin,
    round: u32,
}

/// What is known.
#[derive(Debug)]
pub struct Mirror {
    options: Options,
    /// Rounds by origin.
    rounds: [u32; ORIGINS],
    links: BTreeMap<u32, Held<Link>>,
    nexthops: BTreeMap<u32, Held<Nexthop>>,
    fdb: BTreeMap<FdbKey, Held<Destination>>,
    neighbors: BTreeMap<(u32, IpAddr), Held<wire::MacAddress>>,
    routes: BTreeMap<RouteKey, Held<Ways>>,
    /// Members of groups, next hops of routes, and tunnels in lists of entries.
    parts: usize,
    /// Devices that have a binding's name, by its place in the options.
    bound: Vec<BTreeSet<u32>>,
    /// Devices of a network, and those that are for all.
    by_vni: BTreeMap<u32, BTreeSet<u32>>,
    externals: BTreeSet<u32>,
    /// Who refers to a nexthop object, and what refers to a device.
    fdb_by_nexthop: BTreeSet<(u32, FdbKey)>,
    routes_by_nexthop: BTreeSet<(u32, RouteKey)>,
    groups_by_member: BTreeSet<(u32, u32)>,
    nexthops_by_link: BTreeSet<(u32, u32)>,
    routes_by_link: BTreeSet<(u32, RouteKey)>,
    /// Places at which something else should be, perhaps.
    dirty: BTreeSet<Key>,
    counters: Counters,
}

impl Mirror {
    /// A mirror that knows nothing yet.
    pub fn new(options: Options) -> Mirror {
        Mirror {
            bound: vec![BTreeSet::new(); options.ports.len()],
            options,
            rounds: [0; ORIGINS],
            links: BTreeMap::new(),
            nexthops: BTreeMap::new(),
            fdb: BTreeMap::new(),
            neighbors: BTreeMap::new(),
            routes: BTreeMap::new(),
            parts: 0,
            by_vni: BTreeMap::new(),
            externals: BTreeSet::new(),
            fdb_by_nexthop: BTreeSet::new(),
            routes_by_nexthop: BTreeSet::new(),
            groups_by_member: BTreeSet::new(),
            nexthops_by_link: BTreeSet::new(),
            routes_by_link: BTreeSet::new(),
            dirty: BTreeSet::new(),
            counters: Counters::default(),
        }
    }

    /// Begins to tell of everything that there is.
    pub fn begin(&mut self, origin: Origin) -> Generation {
        let round = &mut self.rounds[origin as usize];
        *round = round.wrapping_add(1);
        Generation { origin, round: *round }
    }

    /// Takes all messages in a buffer. What cannot be read is counted, and nothing is read
    /// behind a message whose length cannot be.
    pub fn apply_bytes(&mut self, generation: Generation, bytes: &[u8]) {
        for message in Messages::new(bytes) {
            match message.and_then(|(header, body)| Ok((header, netlink::parse(&header, body)?))) {
                Ok((header, body)) => self.apply(generation, &header, body),
                Err(_) => self.count_malformed(),
            }
        }
    }

    /// Takes a message.
    pub fn apply(&mut self, generation: Generation, header: &Header, body: Body) {
        self.counters.messages += 1;
        let is_gone = matches!(body, Body::DelNexthop(_));
        let origin_of_it = if is_of_entries(&body) { self.options.entries } else { Origin::Kernel };
        if generation.origin != origin_of_it && !is_gone {
            self.counters.ignored += 1;
            return;
        }
        match body {
            Body::NewLink(link) | Body::DelLink(link) if link.is_bridge_port => self.counters.ignored += 1,
            Body::NewLink(link) => self.set_link(generation, link),
            Body::DelLink(link) => self.remove_link(link.index),
            Body::NewNexthop(nexthop) => self.set_nexthop(generation, nexthop),
            Body::DelNexthop(nexthop) => {
                let held = self.nexthops.get(&nexthop.id);
                if held.is_none_or(|held| held.stamp.origin == generation.origin) {
                    self.remove_nexthop(nexthop.id);
                }
            }
            Body::NewNeighbor(neighbor) if neighbor.is_vxlan() => self.set_fdb(generation, &neighbor),
            Body::DelNeighbor(neighbor) if neighbor.is_vxlan() => self.remove_fdb(&neighbor),
            Body::NewNeighbor(neighbor) if !neighbor.is_fdb => self.set_neighbor(generation, &neighbor),
            Body::DelNeighbor(neighbor) if !neighbor.is_fdb => self.remove_neighbor(&neighbor),
            Body::NewRoute(route) => {
                let stands = match header.flags {
                    flags if flags & (netlink::IS_APPENDED | IS_MULTI) != 0 => Stands::Behind,
                    flags if flags & netlink::IS_REPLACED != 0 => Stands::Instead,
                    _ => Stands::InFront,
                };
                self.set_route(generation, route, stands);
            }
            Body::DelRoute(route) => self.remove_route(&route),
            _ => self.counters.ignored += 1,
        }
    }

    /// Removes what an origin told of and what none of these has told of since.
    pub fn sweep(&mut self, origin: Origin, live: &[Generation]) {
        let is_stale = |stamp: Generation| stamp.origin == origin && !live.contains(&stamp);
        fn stale<K: Copy, T>(table: &BTreeMap<K, Held<T>>, is_stale: impl Fn(Generation) -> bool) -> Vec<K> {
            table.iter().filter(|(_, held)| is_stale(held.stamp)).map(|(key, _)| *key).collect()
        }
        let before = self.len();
        stale(&self.links, is_stale).into_iter().for_each(|index| self.remove_link(index));
        stale(&self.nexthops, is_stale).into_iter().for_each(|id| self.remove_nexthop(id));
        stale(&self.fdb, is_stale).into_iter().for_each(|key| self.drop_fdb(key));
        self.sweep_remotes(is_stale);
        stale(&self.neighbors, is_stale).into_iter().for_each(|key| self.drop_neighbor(key));
        stale(&self.routes, is_stale).into_iter().for_each(|key| self.drop_route(key));
        self.sweep_dangling(origin);
        self.counters.swept += before.saturating_sub(self.len()) as u64;
    }

    /// Counts a message whose bytes are wrong.
    pub(crate) fn count_malformed(&mut self) {
        self.counters.malformed += 1;
    }

    /// How many objects are known.
    pub fn len(&self) -> usize {
        self.links.len() + self.nexthops.len() + self.fdb.len() + self.neighbors.len() + self.routes.len()
    }

    /// How many members of groups, next hops of routes and tunnels in lists of entries are
    /// known.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What became of messages.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Lets [`changes`](Mirror::changes) tell of these places too, whether or not a message
    /// concerns them.
    pub fn touch(&mut self, places: impl IntoIterator<Item = Key>) {
        self.dirty.extend(places);
    }

    /// What should be at the places concerned by messages since the last time, in the order
    /// in which places are filled.
    pub fn changes(&mut self) -> Vec<Change> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty.into_iter().map(|key| Change { key, value: self.wanted(key) }).collect()
    }

    /// Whether an object of so many parts may have another number of them, which is noted;
    /// counted when not.
    fn resize(&mut self, before: usize, after: usize) -> bool {
        let (all, limits) = (self.parts - before + after, self.options.limits);
        let is_room = after <= before || (after <= limits.members && all <= limits.parts);
        match is_room {
            true => self.parts = all,
            false => self.counters.full += 1,
        }
        is_room
    }

    /// Whether there is room for one more; counted when not.
    fn has_room(&mut self, present: usize, most: usize) -> bool {
        self.counters.full += u64::from(present >= most);
        present < most
    }
}

/// Whether a message tells of an entry of a forwarding database, or of far ends. That a
/// nexthop object is gone may tell of either kind.
fn is_of_entries(body: &Body) -> bool {
    match body {
        Body::NewNeighbor(neighbor) | Body::DelNeighbor(neighbor) => neighbor.is_fdb,
        Body::NewNexthop(nexthop) => nexthop.is_fdb,
        _ => false,
    }
}
