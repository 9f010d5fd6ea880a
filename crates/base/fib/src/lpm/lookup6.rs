//! IPv6: a table of the first 18 bits (of fewer in tests), and below it a trie.
//!
//! What is looked up is made from what is stored in `routes`; changes keep the two
//! equal. See the module above for the picture.

use super::bits::rank;
use super::routes::{Bits, Routes, stored, value};
use super::trie::{INLINE, LEVELS, Node, Trie};
use super::{Address, Prefixes, Route};
use crate::scheme::{Lookup, MISS, Memory};
use std::hint::{black_box, select_unpredictable};

/// Lookups that are in flight together in a batch.
const LANES: usize = 32;
/// The same for what is left over.
const FEW: usize = 8;
/// The greatest `skip` of a node that a batch can go through: its six bits are among
/// the 64 after the root's.
const NEAR: u8 = 58;

/// The addresses that share their first bits.
#[derive(Clone, Copy, Default, Debug)]
#[repr(align(8))]
struct Root {
    /// The longest route here that is no longer than these bits, in stored form.
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

/// Goes through `node` with the 64 bits of an address after the root's.
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

/// What lookups of IPv6 addresses read.
#[derive(Clone, Debug)]
pub struct Lookup6<const ROOT_BITS: u8 = 18> {
    roots: Box<[Root]>,
    trie: Trie<ROOT_BITS>,
    /// By root: 1 + the length of the cover's route, 0 for none.
    cover_lens: Box<[u8]>,
}

impl<const ROOT_BITS: u8> Prefixes for Lookup6<ROOT_BITS> {
    const ROOT_BITS: u8 = ROOT_BITS;

    fn nodes(&self) -> usize {
        self.trie.nodes.live()
    }
}

impl<A: Address + Into<u128>, const ROOT_BITS: u8> Lookup<A> for Lookup6<ROOT_BITS> {
    fn new() -> Self {
        let (roots, cover_lens) = (vec![Root::default(); Self::ROOTS].into(), vec![0; Self::ROOTS].into());
        Lookup6 { roots, trie: Trie::new(), cover_lens }
    }

    fn fill(&mut self, routes: &Routes<A>) {
        *self = <Self as Lookup<A>>::new();
        let mut painted = [None; LEVELS];
        for ((prefix, len), value) in routes.iter() {
            if len <= ROOT_BITS {
                self.cover(Route { prefix, len, value });
                continue;
            }
            let level = Trie::<ROOT_BITS>::level(len);
            let start = Some(prefix.network(Trie::<ROOT_BITS>::offset(level)));
            if std::mem::replace(&mut painted[level], start) != start {
                let node = &mut self.roots[Self::root(prefix.into())].node;
                self.trie.insert(node, routes, prefix, level);
            }
        }
        self.compact();
    }

    fn follow(&mut self, routes: &Routes<A>, (prefix, len): (A, u8)) {
        match routes.value((prefix, len)) {
            Some(value) if len <= ROOT_BITS => self.cover(Route { prefix, len, value }),
            None if len <= ROOT_BITS => self.uncover(routes, prefix, len),
            there => {
                let node = &mut self.roots[Self::root(prefix.into())].node;
                let level = Trie::<ROOT_BITS>::level(len);
                match there {
                    Some(_) => self.trie.insert(node, routes, prefix, level),
                    None => self.trie.remove(node, routes, prefix, level),
                }
                if self.trie.wasteful() {
                    self.compact();
                }
            }
        }
    }

    fn memory(&self) -> Memory {
        let roots = Self::ROOTS * size_of::<Root>();
        Memory { lookup: roots + self.trie.nodes.bytes() + self.trie.leaves.bytes(), rules: Self::ROOTS }
    }

    #[inline]
    fn lookup(&self, addr: A) -> Option<u32> {
        let addr = addr.into();
        let root = self.roots[Self::root(addr)];
        value(self.trie.lookup(root.node as usize, addr, root.cover))
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

impl<const ROOT_BITS: u8> Lookup6<ROOT_BITS> {
    const ROOTS: usize = 1 << ROOT_BITS;

    #[inline(always)]
    fn root(addr: u128) -> usize {
        (addr >> (128 - ROOT_BITS)) as usize
    }

    /// All lanes that have not arrived take a step, again and again: the accesses of one
    /// step depend on nothing in that step, so they overlap.
    #[inline(always)]
    fn lookup_row<A: Address + Into<u128>, const LANES: usize>(
        &self,
        addrs: &[A; LANES],
        values: &mut [u32; LANES],
    ) {
        let (nodes, leaves) = (self.trie.nodes.items(), self.trie.leaves.items());
        let (mut rest, mut at, mut found) = ([0; LANES], [0; LANES], [0; LANES]);
        let (mut going, mut far) = (0u32, 0u32);
        for lane in 0..LANES {
            let addr = addrs[lane].into();
            let root = self.roots[Self::root(addr)];
            (values[lane], at[lane]) = (root.cover, root.node);
            rest[lane] = (addr << ROOT_BITS >> 64) as u64;
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
            values[lane] = Lookup::<A>::lookup(self, addrs[lane]).unwrap_or(MISS);
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

    fn compact(&mut self) {
        self.trie.compact(self.roots.iter_mut().map(|root| &mut root.node));
    }
}
