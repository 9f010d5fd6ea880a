//! A table for one thread: the routes, and the lookup part that follows them.

use super::routes::{Bits, Routes};
use super::{Lookup4, Lookup6, Route};
use crate::error::{Error, Result};
use crate::rules::{DEFAULT_LIMIT, MAX_RULES, Rule};
use crate::scheme::{Lookup, Memory, Scheme};

/// An address family: `u32` is IPv4 and `u128` is IPv6, both in host byte order. Its scheme
/// is longest prefix match.
pub trait Address: Bits + Scheme<Key = Self, Rule = (Self, u8), Lookup: Prefixes> {}

/// What only lookup parts of longest prefix match have.
pub trait Prefixes {
    /// First bits of an address that index a table; the routes of so many bits or fewer
    /// stand in it.
    const ROOT_BITS: u8;

    /// First bits of an address of which there are no nodes: routes of so many bits or fewer
    /// need none.
    const NODE_BITS: u8 = Self::ROOT_BITS;

    /// How many nodes there are, where nodes are limited.
    fn nodes(&self) -> usize {
        0
    }
}

impl Scheme for u32 {
    type Key = u32;
    type Rule = (u32, u8);
    type Lookup = Lookup4;
}

impl Address for u32 {}

impl Scheme for u128 {
    type Key = u128;
    type Rule = (u128, u8);
    type Lookup = Lookup6;
}

impl Address for u128 {}

/// Longest-prefix match from addresses to numbers, for one thread.
///
/// [`Rib`](crate::Rib) has next hops in the place of the numbers, and readers beside the
/// writer.
#[derive(Clone, Debug)]
pub struct Table<A: Address> {
    routes: Routes<A>,
    lookup: A::Lookup,
    node_limit: usize,
}

/// Longest-prefix match for IPv4 addresses (host byte order).
pub type Table4 = Table<u32>;

/// Longest-prefix match for IPv6 addresses (host byte order, as `Ipv6Addr::to_bits`).
pub type Table6 = Table<u128>;

impl Table4 {
    /// An empty table for up to `routes` routes (at most [`Self::MAX_ROUTES`]). The
    /// limit bounds the memory of lookups: 0.5 MiB, and at most 2 KiB for each route, which
    /// only few routes far from each other, with values above 32,765, need.
    pub fn with_limit(routes: usize) -> Self {
        Self::limited(routes, usize::MAX)
    }
}

impl Table6 {
    /// Nodes that a table may have at most, whatever is asked for.
    pub const MAX_NODES: usize = 1 << 28;

    /// An empty table for up to `routes` routes (at most [`Self::MAX_ROUTES`]) in up to
    /// `nodes` nodes (at most [`Self::MAX_NODES`]). Only routes of more than 48 bits need
    /// nodes, two at most, of 64 bytes.
    pub fn with_limits(routes: usize, nodes: usize) -> Self {
        Self::limited(routes, nodes.min(Self::MAX_NODES))
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.lookup.nodes()
    }
}

impl<A: Address> Default for Table<A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Address> Table<A> {
    /// Routes that a table may hold at most, whatever is asked for.
    pub const MAX_ROUTES: usize = MAX_RULES;

    /// An empty table for up to four million routes, in up to four million nodes where
    /// there are nodes.
    pub fn new() -> Self {
        Self::limited(DEFAULT_LIMIT, DEFAULT_LIMIT)
    }

    fn limited(routes: usize, node_limit: usize) -> Self {
        Table { routes: Routes::new(routes), lookup: A::Lookup::new(), node_limit }
    }

    /// A table of `routes`, the last of equal ones winning: faster than one by one.
    pub fn from_routes(routes: impl IntoIterator<Item = Route<A>>) -> Result<Self> {
        let mut table = Self::new();
        table.fill(routes)?;
        Ok(table)
    }

    /// Puts `routes` in the place of all there are; on an error the table is empty.
    pub fn fill(&mut self, routes: impl IntoIterator<Item = Route<A>>) -> Result<()> {
        let rules = routes.into_iter().map(|Route { prefix, len, value }| ((prefix, len), value));
        let filled = self.routes.fill(rules).and_then(|()| {
            self.lookup.fill(&self.routes);
            let fits = self.lookup.nodes() <= self.node_limit;
            if fits { Ok(()) } else { Err(Error::Nodes { limit: self.node_limit }) }
        });
        if filled.is_err() {
            self.clear();
        }
        filled
    }

    /// Removes all routes.
    pub fn clear(&mut self) {
        self.routes.clear();
        self.lookup = A::Lookup::new();
    }

    /// Adds the route or replaces its value; the old value if there was one.
    pub fn insert(&mut self, prefix: A, len: u8, value: u32) -> Result<Option<u32>> {
        self.routes.admits((prefix, len), value)?;
        // Two nodes are what a route needs at most.
        let crowded = len > A::Lookup::NODE_BITS && self.lookup.nodes() + 2 > self.node_limit;
        if crowded && self.get(prefix, len).is_none() {
            return Err(Error::Nodes { limit: self.node_limit });
        }
        let old = self.routes.insert((prefix, len), value);
        if old != Some(value) {
            self.lookup.follow(&self.routes, (prefix, len));
        }
        Ok(old)
    }

    /// Replaces the value of a route that is there; `None` when it is not.
    pub fn replace(&mut self, prefix: A, len: u8, value: u32) -> Result<Option<u32>> {
        if self.get(prefix, len).is_none() {
            return (prefix, len).check().map(|()| None);
        }
        self.insert(prefix, len, value)
    }

    /// Removes the route; its value if it was there.
    pub fn remove(&mut self, prefix: A, len: u8) -> Result<Option<u32>> {
        (prefix, len).check()?;
        let old = self.routes.remove((prefix, len));
        if old.is_some() {
            self.lookup.follow(&self.routes, (prefix, len));
        }
        Ok(old)
    }

    /// The value of exactly this route.
    pub fn get(&self, prefix: A, len: u8) -> Option<u32> {
        self.routes.value((prefix, len))
    }

    /// The route that decides about `addr`. For people: [`Self::lookup`] is faster.
    pub fn route(&self, addr: A) -> Option<Route<A>> {
        self.routes.covering(addr, A::WIDTH as u8)
    }

    /// All routes, by prefix and then length: one comes before those inside it.
    pub fn iter(&self) -> impl Iterator<Item = Route<A>> + '_ {
        self.routes.iter().map(|((prefix, len), value)| Route { prefix, len, value })
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the table takes.
    pub fn memory(&self) -> Memory {
        let Memory { lookup, rules } = self.lookup.memory();
        Memory { lookup, rules: rules + self.routes.bytes() }
    }

    /// The value of the longest route that covers `addr`.
    #[inline]
    pub fn lookup(&self, addr: A) -> Option<u32> {
        self.lookup.lookup(addr)
    }

    /// Looks up `addrs`, [`MISS`](crate::MISS) standing for no route. Many at a time are
    /// several times as fast as one by one, because their memory accesses overlap.
    ///
    /// # Panics
    /// When `values` is shorter than `addrs`.
    #[inline]
    pub fn lookup_batch(&self, addrs: &[A], values: &mut [u32]) {
        self.lookup.lookup_batch(addrs, values);
    }
}

#[cfg(test)]
mod tests;
