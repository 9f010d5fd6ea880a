//! IPv6: a table of the first 18 bits, and below it a trie.
//!
//! What is looked up is made from what is stored in `routes`; changes keep the two
//! equal. See the module above for the picture.

use super::bits::rank;
use super::routes::{Address, Routes, stored, value};
use super::trie::{INLINE, Node, ROOT_BITS, Trie, level, offset};
use super::{MISS, Memory, Route};
use crate::error::{Error, Result};
use std::hint::{black_box, select_unpredictable};

const ROOTS: usize = 1 << ROOT_BITS;
/// Lookups that are in flight together in a batch.
const LANES: usize = 32;
/// The same for what is left over.
const FEW: usize = 8;
/// The greatest `skip` of a node that a batch can go through: its six bits are among
/// the 64 after the first 18.
const NEAR: u8 = 58;

/// The addresses that share their first 18 bits.
#[derive(Clone, Copy, Default, Debug)]
#[repr(align(8))]
struct Root {
    /// The longest route of at most 18 bits here, in stored form.
    cover: u32,
    /// The node of the next bits; 0, which has nothing, if no route is longer.
    node: u32,
}

/// Where a lookup is after a node.
struct Step {
    /// The value so far, in stored form.
    best: u32,
    /// Whether `node` is next.
    further: bool,
    node: u32,
    /// The index of a better value; 0 for none.
    leaf: u32,
    /// Whether this node's bits are not among those given: nothing else is to be used.
    far: bool,
}

/// Goes through `node` with the 64 bits of an address after the first 18.
#[inline(always)]
fn step(node: &Node, rest: u64, best: u32) -> Step {
    let far = node.skip > NEAR;
    let here = (rest ^ node.start[0]) >> 1 >> (63 - node.skip % 64) == 0 && !far;
    let slot = (rest << (node.skip % 64) >> 58) as usize;
    let kid = node.kids >> slot & 1 == 1;
    // What a lookup finds is as good as random: a branch would undo the overlap.
    let best = select_unpredictable(node.cover == 0, best, node.cover);
    let rank = rank(select_unpredictable(kid, node.kids, node.runs), slot);
    let inline = select_unpredictable(here & !kid & (node.leaves == 0), node.inline[rank % INLINE], 0);
    Step {
        best: select_unpredictable(inline == 0, best, inline),
        further: here & kid,
        node: node.nodes.wrapping_add(rank as u32).wrapping_sub(1),
        leaf: select_unpredictable(
            here & !kid & (node.leaves != 0),
            node.leaves.wrapping_add(rank as u32),
            0,
        ),
        far,
    }
}

/// The numbers of the bits that are set.
#[inline(always)]
fn lanes(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = (set != 0).then_some(set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(lane)
    })
}

/// Longest-prefix match for IPv6 addresses (host byte order, as `Ipv6Addr::to_bits`).
#[derive(Clone, Debug)]
pub struct Table6 {
    roots: Box<[Root]>,
    trie: Trie,
    /// By root: 1 + the length of the cover's route, 0 for none.
    cover_lens: Box<[u8]>,
    routes: Routes<u128>,
    node_limit: usize,
}

impl Default for Table6 {
    fn default() -> Self {
        Self::new()
    }
}

fn root(addr: u128) -> usize {
    (addr >> (128 - ROOT_BITS)) as usize
}

impl Table6 {
    /// Routes that a table may hold at most, whatever is asked for.
    pub const MAX_ROUTES: usize = 1 << 26;
    /// Nodes that a table may have at most, whatever is asked for.
    pub const MAX_NODES: usize = 1 << 28;

    /// An empty table for up to four million routes in up to four million nodes.
    pub fn new() -> Self {
        Self::with_limits(1 << 22, 1 << 22)
    }

    /// An empty table for up to `routes` routes (at most [`Self::MAX_ROUTES`]) in up to
    /// `nodes` nodes (at most [`Self::MAX_NODES`]). A node takes 64 bytes, and
    /// a route needs at most two; many need none of their own.
    pub fn with_limits(routes: usize, nodes: usize) -> Self {
        Table6 {
            roots: vec![Root::default(); ROOTS].into(),
            trie: Trie::new(),
            cover_lens: vec![0; ROOTS].into(),
            routes: Routes::new(routes.min(Self::MAX_ROUTES)),
            node_limit: nodes.min(Self::MAX_NODES),
        }
    }

    /// A table of `routes`, the last of equal ones winning: faster than one by one.
    pub fn from_routes(routes: impl IntoIterator<Item = Route<u128>>) -> Result<Self> {
        let mut table = Self::new();
        table.fill(routes)?;
        Ok(table)
    }

    /// Puts `routes` in the place of all there are; on an error the table is empty.
    pub fn fill(&mut self, routes: impl IntoIterator<Item = Route<u128>>) -> Result<()> {
        self.clear();
        let filled = self.routes.fill(routes).and_then(|()| self.paint_all());
        if filled.is_err() {
            self.clear();
        }
        filled
    }

    /// Removes all routes.
    pub fn clear(&mut self) {
        *self = Self::with_limits(self.routes.limit(), self.node_limit);
    }

    /// Adds the route or replaces its value; the old value if there was one.
    pub fn insert(&mut self, prefix: u128, len: u8, value: u32) -> Result<Option<u32>> {
        let route = Route { prefix, len, value };
        self.routes.admits(route)?;
        if len > ROOT_BITS && self.get(prefix, len).is_none() {
            self.admits_nodes()?;
        }
        let old = self.routes.insert(route);
        if len <= ROOT_BITS {
            self.cover(route);
        } else if old != Some(value) {
            self.trie.insert(&mut self.roots[root(prefix)].node, &self.routes, prefix, level(len));
            self.tidy();
        }
        Ok(old)
    }

    /// Replaces the value of a route that is there; `None` when it is not.
    pub fn replace(&mut self, prefix: u128, len: u8, value: u32) -> Result<Option<u32>> {
        if self.get(prefix, len).is_none() {
            return Routes::check(prefix, len).map(|()| None);
        }
        self.insert(prefix, len, value)
    }

    /// Removes the route; its value if it was there.
    pub fn remove(&mut self, prefix: u128, len: u8) -> Result<Option<u32>> {
        Routes::check(prefix, len)?;
        let old = self.routes.remove(prefix, len);
        if old.is_some() {
            if len <= ROOT_BITS {
                self.uncover(prefix, len);
            } else {
                self.trie.remove(&mut self.roots[root(prefix)].node, &self.routes, prefix, level(len));
                self.tidy();
            }
        }
        Ok(old)
    }

    /// The value of exactly this route.
    pub fn get(&self, prefix: u128, len: u8) -> Option<u32> {
        self.routes.value(prefix, len)
    }

    /// The route that decides about `addr`. For people: [`Self::lookup`] is faster.
    pub fn route(&self, addr: u128) -> Option<Route<u128>> {
        self.routes.covering(addr, 128)
    }

    /// All routes, by prefix and then length: one comes before those inside it.
    pub fn iter(&self) -> impl Iterator<Item = Route<u128>> + '_ {
        self.routes.iter()
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.trie.nodes.live()
    }

    /// What the table takes.
    pub fn memory(&self) -> Memory {
        let roots = ROOTS * size_of::<Root>();
        Memory {
            lookup: roots + self.trie.nodes.bytes() + self.trie.leaves.bytes(),
            routes: ROOTS + self.routes.bytes(),
        }
    }

    /// The value of the longest route that covers `addr`.
    #[inline]
    pub fn lookup(&self, addr: u128) -> Option<u32> {
        let root = self.roots[root(addr)];
        value(self.trie.lookup(root.node as usize, addr, root.cover))
    }

    /// Looks up `addrs`, [`MISS`] standing for no route. Many at a time are several
    /// times as fast as one by one, because their memory accesses overlap.
    ///
    /// # Panics
    /// When `values` is shorter than `addrs`.
    pub fn lookup_batch(&self, addrs: &[u128], values: &mut [u32]) {
        let (rows, addrs) = addrs.as_chunks::<LANES>();
        let (row_values, values) = values[..rows.len() * LANES + addrs.len()].as_chunks_mut::<LANES>();
        for (addrs, values) in rows.iter().zip(row_values) {
            self.lookup_row(addrs, values);
        }
        let (rows, addrs) = addrs.as_chunks::<FEW>();
        let (row_values, values) = values.as_chunks_mut::<FEW>();
        for (addrs, values) in rows.iter().zip(row_values) {
            self.lookup_row(addrs, values);
        }
        for (&addr, value) in addrs.iter().zip(values) {
            *value = self.lookup(addr).unwrap_or(MISS);
        }
    }

    /// All lanes that have not arrived take a step, again and again: the accesses of one
    /// step depend on nothing in that step, so they overlap.
    #[inline(always)]
    fn lookup_row<const LANES: usize>(&self, addrs: &[u128; LANES], values: &mut [u32; LANES]) {
        let (nodes, leaves) = (self.trie.nodes.items(), self.trie.leaves.items());
        let (mut rest, mut at, mut found) = ([0; LANES], [0; LANES], [0; LANES]);
        let (mut going, mut far) = (0u32, 0u32);
        for lane in 0..LANES {
            let root = self.roots[root(addrs[lane])];
            (values[lane], at[lane]) = (root.cover, root.node);
            rest[lane] = (addrs[lane] << ROOT_BITS >> 64) as u64;
            going |= u32::from(root.node != 0) << lane;
        }
        while going != 0 {
            // The step proper is too long for many to be in flight: this fetches the nodes.
            let mut touched = 0;
            for lane in lanes(going) {
                touched |= nodes[at[lane] as usize].cover;
            }
            black_box(touched);
            let mut further = 0;
            for lane in lanes(going) {
                let step = step(&nodes[at[lane] as usize], rest[lane], values[lane]);
                values[lane] = step.best;
                at[lane] = step.node;
                found[lane] = step.leaf;
                further |= u32::from(step.further) << lane;
                far |= u32::from(step.far) << lane;
            }
            going = further;
        }
        for lane in 0..LANES {
            let leaf = leaves[found[lane] as usize];
            values[lane] = select_unpredictable(leaf == 0, values[lane], leaf).wrapping_sub(1);
        }
        for lane in lanes(far) {
            values[lane] = self.lookup(addrs[lane]).unwrap_or(MISS);
        }
    }

    /// The roots that a route of at most 18 bits covers.
    fn roots_of(prefix: u128, len: u8) -> std::ops::Range<usize> {
        let first = root(prefix);
        first..first + (1 << (ROOT_BITS - len))
    }

    fn cover(&mut self, route: Route<u128>) {
        let roots = Self::roots_of(route.prefix, route.len);
        for (len, root) in self.cover_lens[roots.clone()].iter_mut().zip(&mut self.roots[roots]) {
            if *len <= route.len + 1 {
                *len = route.len + 1;
                root.cover = stored(route.value);
            }
        }
    }

    /// Gives what the removed route covered to the next shorter one.
    fn uncover(&mut self, prefix: u128, len: u8) {
        let heir = len.checked_sub(1).and_then(|len| self.routes.covering(prefix, len));
        let (heir_len, heir) = heir.map_or((0, 0), |heir| (heir.len + 1, stored(heir.value)));
        let roots = Self::roots_of(prefix, len);
        for (cover_len, root) in self.cover_lens[roots.clone()].iter_mut().zip(&mut self.roots[roots]) {
            if *cover_len == len + 1 {
                *cover_len = heir_len;
                root.cover = heir;
            }
        }
    }

    /// Makes the lookup part from all routes.
    fn paint_all(&mut self) -> Result<()> {
        let mut painted = [None; 19];
        let routes: Vec<Route<u128>> = self.routes.iter().collect();
        for route in routes {
            if route.len <= ROOT_BITS {
                self.cover(route);
                continue;
            }
            let level = level(route.len);
            let start = Some(route.prefix.network(offset(level)));
            if std::mem::replace(&mut painted[level], start) != start {
                self.admits_nodes()?;
                self.trie.insert(&mut self.roots[root(route.prefix)].node, &self.routes, route.prefix, level);
            }
        }
        self.compact();
        Ok(())
    }

    /// Whether another route is sure to find its nodes.
    fn admits_nodes(&self) -> Result<()> {
        if self.nodes() + 2 > self.node_limit {
            return Err(Error::Nodes { limit: self.node_limit });
        }
        Ok(())
    }

    fn tidy(&mut self) {
        if self.trie.wasteful() {
            self.compact();
        }
    }

    fn compact(&mut self) {
        self.trie.compact(self.roots.iter_mut().map(|root| &mut root.node));
    }
}
