//! IPv6: a table of the first 18 bits (of fewer in tests), below it trees of the ranges into
//! which routes of up to 48 bits divide the next 30, and tries for longer routes.
//!
//! What is looked up is made from what is stored in `routes`; changes keep the two
//! equal. See the module above for the picture.

use super::arena::Arena;
use super::painted::Painted;
use super::ranges::{KEY_BITS, LAST, Node, Ranges, Tree};
use super::routes::{Bits, Routes, stored, value};
use super::trie::{LEVELS, Trie};
use super::{Address, Prefixes, Route};
use crate::scheme::{Lookup, MISS, Memory};
use std::hint::{black_box, select_unpredictable};

/// Lookups that are in flight together in a batch.
const LANES: usize = 32;
/// The same for what is left over.
const FEW: usize = 8;
/// The lowest levels, those of which the caches have the least.
const TOUCHED: u32 = 1;
/// In a range's value: the rest is the index of a `Deep`.
const DEEP: u32 = 1 << 31;

/// The addresses that share their first bits.
#[derive(Clone, Copy, Default, Debug)]
#[repr(align(8))]
struct Root {
    /// The longest route here that is no longer than these bits, in stored form.
    cover: u32,
    /// What longer routes say.
    tree: Tree,
}

/// The addresses that share the first 48 bits, if some have longer routes.
#[derive(Clone, Copy, Default, Debug)]
struct Deep {
    /// What the range would be without longer routes.
    cover: u32,
    /// The node of the next bits.
    node: u32,
}

/// What lookups of IPv6 addresses read. `NODE_BITS` are as many as roots and ranges decide
/// about.
#[derive(Clone, Debug)]
pub struct Lookup6<const ROOT_BITS: u8 = 18, const NODE_BITS: u8 = 48> {
    roots: Box<[Root]>,
    ranges: Ranges,
    deeps: Arena<Deep>,
    trie: Trie<NODE_BITS>,
    /// By root: 1 + the length of the cover's route, 0 for none.
    cover_lens: Box<[u8]>,
}

impl<const ROOT_BITS: u8, const NODE_BITS: u8> Prefixes for Lookup6<ROOT_BITS, NODE_BITS> {
    const ROOT_BITS: u8 = ROOT_BITS;
    const NODE_BITS: u8 = NODE_BITS;

    fn nodes(&self) -> usize {
        self.trie.nodes.live()
    }
}

impl<A: Address + Into<u128>, const ROOT_BITS: u8, const NODE_BITS: u8> Lookup<A>
    for Lookup6<ROOT_BITS, NODE_BITS>
{
    fn new() -> Self {
        const { assert!(NODE_BITS == ROOT_BITS + KEY_BITS) };
        Lookup6 {
            roots: vec![Root::default(); Self::ROOTS].into(),
            ranges: Ranges::new(),
            deeps: Arena::new(),
            trie: Trie::new(),
            cover_lens: vec![0; Self::ROOTS].into(),
        }
    }

    fn fill(&mut self, routes: &Routes<A>) {
        *self = <Self as Lookup<A>>::new();
        let (mut root, mut painted) = (None, [None; LEVELS]);
        for ((prefix, len), value) in routes.iter() {
            if len <= ROOT_BITS {
                self.cover(Route { prefix, len, value });
                continue;
            }
            let start = prefix.network(ROOT_BITS);
            if root.replace(start) != Some(start) {
                self.paint(routes, (start, ROOT_BITS));
            }
            if len > NODE_BITS {
                let level = Trie::<NODE_BITS>::level(len);
                let start = Some(prefix.network(Trie::<NODE_BITS>::offset(level)));
                if std::mem::replace(&mut painted[level], start) != start {
                    self.insert_long(routes, prefix, level);
                }
            }
        }
        self.compact();
    }

    fn follow(&mut self, routes: &Routes<A>, (prefix, len): (A, u8)) {
        match routes.value((prefix, len)) {
            Some(value) if len <= ROOT_BITS => self.cover(Route { prefix, len, value }),
            None if len <= ROOT_BITS => self.uncover(routes, prefix, len),
            _ if len <= NODE_BITS => self.paint(routes, (prefix, len)),
            Some(_) => self.insert_long(routes, prefix, Trie::<NODE_BITS>::level(len)),
            None => self.remove_long(routes, prefix, Trie::<NODE_BITS>::level(len)),
        }
        if self.ranges.wasteful() || self.trie.wasteful() {
            self.compact();
        }
    }

    /// Painting a route paints all inside it that need no nodes, so those are not painted
    /// again: however deep routes nest, each is visited once.
    fn follow_all(&mut self, routes: &Routes<A>, changed: &[(A, u8)]) {
        let mut painted = None;
        for &(prefix, len) in changed {
            let inside = painted.is_some_and(|(outer, outer_len)| prefix.network(outer_len) == outer);
            if len > NODE_BITS || !inside {
                Lookup::<A>::follow(self, routes, (prefix, len));
                painted =
                    if (ROOT_BITS + 1..=NODE_BITS).contains(&len) { Some((prefix, len)) } else { painted };
            }
        }
    }

    fn memory(&self) -> Memory {
        let roots = Self::ROOTS * size_of::<Root>();
        let trie = self.trie.nodes.bytes() + self.trie.leaves.bytes();
        Memory { lookup: roots + self.ranges.bytes() + self.deeps.bytes() + trie, rules: Self::ROOTS }
    }

    #[inline]
    fn lookup(&self, addr: A) -> Option<u32> {
        let addr = addr.into();
        let Root { cover, tree } = self.roots[Self::root(addr)];
        let found = self.ranges.value(tree, Self::key(addr));
        value(self.resolve(found, cover, addr))
    }

    // Inlined, the code depends on the caller's: a few instructions more for each address.
    #[inline(never)]
    fn lookup_batch(&self, addrs: &[A], values: &mut [u32]) {
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
            *value = Lookup::<A>::lookup(self, addr).unwrap_or(MISS);
        }
    }
}

impl<const ROOT_BITS: u8, const NODE_BITS: u8> Lookup6<ROOT_BITS, NODE_BITS> {
    const ROOTS: usize = 1 << ROOT_BITS;

    #[inline(always)]
    fn root(addr: u128) -> usize {
        ((addr >> 64) as u64 >> (64 - ROOT_BITS)) as usize
    }

    /// The bits that ranges decide about.
    #[inline(always)]
    fn key(addr: u128) -> i32 {
        ((addr >> 64) as u64 >> (64 - NODE_BITS)) as i32 & LAST
    }

    /// What the value of a range comes to, in stored form.
    #[inline(always)]
    fn resolve(&self, found: u32, cover: u32, addr: u128) -> u32 {
        let found = if found & DEEP == 0 { found } else { self.lookup_deep(found, addr) };
        if found == 0 { cover } else { found }
    }

    fn lookup_deep(&self, found: u32, addr: u128) -> u32 {
        let deep = self.deeps.at((found & !DEEP) as usize);
        self.trie.lookup(deep.node as usize, addr, deep.cover)
    }

    /// All lanes take a step, again and again: the accesses of one step depend on nothing in
    /// that step, so they overlap.
    #[inline(always)]
    fn lookup_row<A: Address + Into<u128>, const LANES: usize>(
        &self,
        addrs: &[A; LANES],
        values: &mut [u32; LANES],
    ) {
        let (mut keys, mut at, mut levels, mut most) = ([0; LANES], [0; LANES], [0; LANES], 0);
        for lane in 0..LANES {
            let addr = addrs[lane].into();
            let root = self.roots[Self::root(addr)];
            values[lane] = root.cover;
            keys[lane] = Self::key(addr);
            at[lane] = root.tree.root();
            levels[lane] = root.tree.levels();
            most = levels[lane].max(most);
        }
        let nodes = self.ranges.nodes();
        // All nodes that trees name are there: this is cheaper than a panic.
        let node = |at: u32| nodes.get(at as usize).unwrap_or(&Node::EMPTY);
        for level in (1..=most).rev() {
            // The step proper is too long for many to be in flight: this fetches the nodes.
            if level <= TOUCHED {
                black_box(at.iter().fold(0, |touched, &at| touched | node(at).touch()));
            }
            for lane in 0..LANES {
                // Lower trees wait for the others: a branch would undo the overlap.
                let next = node(at[lane]).step(keys[lane]);
                at[lane] = select_unpredictable(level <= levels[lane], next, at[lane]);
            }
        }
        let mut deep = 0;
        for (value, &found) in values.iter_mut().zip(&at) {
            deep |= found;
            *value = select_unpredictable(found == 0, *value, found).wrapping_sub(1);
        }
        if deep & DEEP != 0 {
            for lane in 0..LANES {
                if at[lane] & DEEP != 0 {
                    values[lane] = Lookup::<A>::lookup(self, addrs[lane]).unwrap_or(MISS);
                }
            }
        }
    }

    /// The roots that a route covers which is no longer than theirs.
    fn roots_of(prefix: u128, len: u8) -> std::ops::Range<usize> {
        let first = Self::root(prefix);
        first..first + (1 << (ROOT_BITS - len))
    }

    fn cover<A: Into<u128>>(&mut self, route: Route<A>) {
        let roots = Self::roots_of(route.prefix.into(), route.len);
        for (len, root) in self.cover_lens[roots.clone()].iter_mut().zip(&mut self.roots[roots]) {
            if *len <= route.len + 1 {
                *len = route.len + 1;
                root.cover = stored(route.value);
            }
        }
    }

    /// Gives what the removed route covered to the next shorter one.
    fn uncover<A: Bits + Into<u128>>(&mut self, routes: &Routes<A>, prefix: A, len: u8) {
        let shorter = len.checked_sub(1).and_then(|len| routes.covering(prefix, len));
        let (shorter_len, cover) = shorter.map_or((0, 0), |route| (route.len + 1, stored(route.value)));
        let roots = Self::roots_of(prefix.into(), len);
        for (cover_len, root) in self.cover_lens[roots.clone()].iter_mut().zip(&mut self.roots[roots]) {
            if *cover_len == len + 1 {
                *cover_len = shorter_len;
                root.cover = cover;
            }
        }
    }

    /// Makes the ranges inside a prefix of at most 48 bits anew from the routes; those with
    /// longer routes stay.
    fn paint<A: Bits + Into<u128>>(&mut self, routes: &Routes<A>, (prefix, len): (A, u8)) {
        let root = Self::root(prefix.into());
        let (first, last) = (Self::key(prefix.into()), Self::key(prefix.last(len).into()));
        let base = (len > ROOT_BITS).then(|| routes.covering_between(prefix, ROOT_BITS + 1, len)).flatten();
        let mut painted = Painted::new(first, last, base.map_or(0, |route| stored(route.value)));
        routes.visit((prefix, len), NODE_BITS, |(prefix, len), value| {
            painted.route(Self::key(prefix.into()), Self::key(prefix.last(len).into()), stored(value));
        });
        let mut old = vec![];
        self.ranges.entries(self.roots[root].tree, first, (last + 1).min(LAST), &mut old);
        let new = self.weave(&painted.finish(), last, &old);
        self.replace(root, (first, last), &old, new);
    }

    /// Puts ranges with longer routes among those that were painted, and tells them what covers
    /// them.
    fn weave(&mut self, painted: &[(i32, u32)], last: i32, old: &[(i32, u32)]) -> Vec<(i32, u32)> {
        let (mut new, mut value) = (Vec::with_capacity(painted.len() + 2), 0);
        let mut painted = painted.iter().copied().peekable();
        for &(key, deep) in old.iter().filter(|&&(key, value)| key <= last && value & DEEP != 0) {
            while let Some((begin, next)) = painted.next_if(|&(begin, _)| begin <= key) {
                value = next;
                new.extend((begin < key).then_some((begin, next)));
            }
            self.deeps.at_mut(deep & !DEEP).cover = value;
            // The one before it may have begun a range behind itself.
            new.pop_if(|&mut (begin, _)| begin == key);
            new.push((key, deep));
            if key < last && painted.peek().is_none_or(|&(begin, _)| begin > key + 1) {
                new.push((key + 1, value));
            }
        }
        new.extend(painted);
        new
    }

    /// Puts the ranges `new` in the place of all between two numbers; `old` are those, and the
    /// one that begins behind them.
    fn replace(
        &mut self,
        root: usize,
        (first, last): (i32, i32),
        old: &[(i32, u32)],
        mut new: Vec<(i32, u32)>,
    ) {
        let Lookup6 { roots, ranges, .. } = self;
        let tree = &mut roots[root].tree;
        let after = ranges.value(*tree, (last + 1).min(LAST));
        if last < LAST && new.last().is_some_and(|&(_, value)| value != after) {
            new.push((last + 1, after));
        }
        if first > 0 && ranges.value(*tree, first - 1) == new[0].1 {
            new.remove(0);
        }
        if tree.is_none() {
            if first > 0 && !new.is_empty() {
                new.insert(0, (0, 0));
            }
            if new.iter().any(|&(_, value)| value != 0) {
                *tree = ranges.build(&new);
            }
            return;
        }
        for &(key, value) in &new {
            if old.binary_search(&(key, value)).is_err() {
                ranges.set(tree, key, value);
            }
        }
        for &(key, _) in old {
            if new.binary_search_by_key(&key, |&(key, _)| key).is_err() {
                ranges.unset(tree, key);
            }
        }
        ranges.drop_blank(tree);
    }

    /// Follows a new or changed route of more than 48 bits.
    fn insert_long<A: Bits + Into<u128>>(&mut self, routes: &Routes<A>, prefix: A, level: usize) {
        let (tree, key) = (&mut self.roots[Self::root(prefix.into())].tree, Self::key(prefix.into()));
        if tree.is_none() {
            *tree = self.ranges.build(&[(0, 0)]);
        }
        let mut found = self.ranges.value(*tree, key);
        if found & DEEP == 0 {
            if key < LAST && !self.ranges.begins(*tree, key + 1) {
                self.ranges.set(tree, key + 1, found);
            }
            found = DEEP | self.deeps.put(&[Deep { cover: found, node: 0 }]);
            self.ranges.set(tree, key, found);
        }
        let deep = self.deeps.at_mut(found & !DEEP);
        self.trie.insert(&mut deep.node, routes, prefix, level);
    }

    /// Follows the removal of a route of more than 48 bits.
    fn remove_long<A: Bits + Into<u128>>(&mut self, routes: &Routes<A>, prefix: A, level: usize) {
        let (tree, key) = (&mut self.roots[Self::root(prefix.into())].tree, Self::key(prefix.into()));
        let found = self.ranges.value(*tree, key);
        if found & DEEP == 0 {
            return;
        }
        let deep = self.deeps.at_mut(found & !DEEP);
        self.trie.remove(&mut deep.node, routes, prefix, level);
        if deep.node != 0 {
            return;
        }
        let cover = std::mem::take(&mut deep.cover);
        self.deeps.release(found & !DEEP, 1);
        self.ranges.set(tree, key, cover);
        if key > 0 && self.ranges.value(*tree, key - 1) == cover {
            self.ranges.unset(tree, key);
        }
        if key < LAST && self.ranges.value(*tree, key + 1) == cover {
            self.ranges.unset(tree, key + 1);
        }
        self.ranges.drop_blank(tree);
    }

    /// Builds all trees anew, and copies what is in use of the trie together.
    fn compact(&mut self) {
        let mut next = Ranges::new();
        let mut entries = vec![];
        for root in self.roots.iter_mut().filter(|root| !root.tree.is_none()) {
            entries.clear();
            self.ranges.entries(root.tree, 0, LAST, &mut entries);
            root.tree = next.build(&entries);
        }
        self.ranges = next;
        self.trie.compact(self.deeps.items_mut().iter_mut().map(|deep| &mut deep.node));
    }
}
