//! The nodes of an IPv6 table, for routes of more than 48 bits: six bits each, and only where routes end or ways part.
//!
//! A node says which bits must stand before its own, so a way without a fork is one
//! step, and no route needs more than two nodes. It holds only what its own six bits
//! decide; what shorter routes say is in the `cover` of the nodes above, so that a
//! change touches one node and its children.

use super::arena::Arena;
use super::bits::{encode, rank, rank_before};
use super::routes::{Bits, Routes};

/// Bits of a node.
const STRIDE: u8 = 6;
/// At least as many as there are nodes on the longest way, however few bits are the root's.
pub(super) const LEVELS: usize = 21;
/// Values that stand in the node itself.
const INLINE: usize = 4;

/// The 64 ways in which six bits of an address go on. One cache line.
#[derive(Clone, Copy, Default, Debug)]
#[repr(align(64))]
pub(super) struct Node {
    /// The slots that have a node of their own.
    kids: u64,
    /// Where the other slots' value changes.
    runs: u64,
    /// The node's first address without the root's bits: 64 bits, and those after them.
    start: [u64; 2],
    /// Where the children begin.
    nodes: u32,
    /// Where the runs' values begin; 0 when they stand in `inline`.
    leaves: u32,
    /// The longest route that ends in the parent's six bits and covers this node.
    cover: u32,
    /// How many bits after the root's stand before the node's own six.
    skip: u8,
    inline: [u32; INLINE],
}

impl Node {
    /// Of the address with `rest` behind the root's bits.
    fn new(rest: u128, level: usize, cover: u32) -> Self {
        let start = rest.network(STRIDE * level as u8);
        Node {
            start: [(start >> 64) as u64, start as u64],
            skip: STRIDE * level as u8,
            cover,
            ..Node::default()
        }
    }

    /// The address's bits after the root's.
    fn start(&self) -> u128 {
        u128::from(self.start[0]) << 64 | u128::from(self.start[1])
    }

    /// Whether an address goes through this node; `rest` are its bits after
    /// the root's.
    #[inline(always)]
    fn admits(&self, rest: u128) -> bool {
        (rest ^ self.start()) >> 1 >> (127 - self.skip) == 0
    }

    #[inline(always)]
    fn slot(&self, rest: u128) -> usize {
        (rest << self.skip >> 122) as usize
    }

    fn level(&self) -> usize {
        usize::from(self.skip / STRIDE)
    }

    fn values(&self) -> usize {
        if self.leaves == 0 { 0 } else { self.runs.count_ones() as usize + 1 }
    }

    fn children(&self) -> usize {
        self.kids.count_ones() as usize
    }

    fn child(&self, slot: usize) -> Option<u32> {
        (self.kids >> slot & 1 == 1).then(|| self.nodes + rank_before(self.kids, slot) as u32)
    }
}

/// The nodes from a root on as far as an address goes: index and node.
struct Path {
    steps: [u32; LEVELS],
    len: usize,
}

impl Path {
    fn last(&self) -> Option<u32> {
        self.len.checked_sub(1).map(|last| self.steps[last])
    }

    fn pop(&mut self) -> Option<u32> {
        let last = self.last();
        self.len = self.len.saturating_sub(1);
        last
    }
}

/// All nodes and their values. The root of an address, 0 for none, is the table's; it has
/// the address's first `ROOT_BITS`.
#[derive(Clone, Debug)]
pub(super) struct Trie<const ROOT_BITS: u8> {
    pub(super) nodes: Arena<Node>,
    pub(super) leaves: Arena<u32>,
}

impl<const ROOT_BITS: u8> Trie<ROOT_BITS> {
    pub(super) fn new() -> Self {
        Trie { nodes: Arena::new(), leaves: Arena::new() }
    }

    /// The first bit that nodes of `level` look at.
    pub(super) fn offset(level: usize) -> u8 {
        ROOT_BITS + STRIDE * level as u8
    }

    /// The level whose nodes decide about routes of `len` bits, which are more than the
    /// root's.
    pub(super) fn level(len: u8) -> usize {
        usize::from((len - ROOT_BITS - 1) / STRIDE)
    }

    /// What the node at `index` and those below it say about `addr`, in stored form;
    /// `best` if they say nothing.
    #[inline(always)]
    pub(super) fn lookup(&self, mut index: usize, addr: u128, mut best: u32) -> u32 {
        let rest = addr << ROOT_BITS;
        loop {
            let node = self.nodes.at(index);
            best = if node.cover == 0 { best } else { node.cover };
            if !node.admits(rest) {
                return best;
            }
            let slot = node.slot(rest);
            if node.kids >> slot & 1 == 0 {
                let leaf = self.leaf(node, slot);
                return if leaf == 0 { best } else { leaf };
            }
            index = node.nodes as usize + rank_before(node.kids, slot);
        }
    }

    #[inline(always)]
    fn leaf(&self, node: &Node, slot: usize) -> u32 {
        let at = rank(node.runs, slot);
        if node.leaves == 0 { node.inline[at % INLINE] } else { *self.leaves.at(node.leaves as usize + at) }
    }

    fn node(&self, index: u32) -> Node {
        *self.nodes.at(index as usize)
    }

    /// The way from `root` to the node at `level` of the address with `rest` behind the
    /// root's bits, as far as there is one.
    fn path(&self, root: u32, rest: u128, level: usize) -> Path {
        let mut path = Path { steps: [0; LEVELS], len: 0 };
        let mut next = Some(root).filter(|&root| root != 0);
        while let Some(index) = next {
            let node = self.node(index);
            if node.level() > level || !node.admits(rest) {
                break;
            }
            path.steps[path.len] = index;
            path.len += 1;
            next = if node.level() == level { None } else { node.child(node.slot(rest)) };
        }
        path
    }

    /// Follows a new or changed route that ends in `addr`'s node at `level`.
    pub(super) fn insert<A: Bits + Into<u128>>(
        &mut self,
        root: &mut u32,
        routes: &Routes<A>,
        addr: A,
        level: usize,
    ) {
        let rest = addr.into() << ROOT_BITS;
        let path = self.path(*root, rest, level);
        let index = match path.last() {
            Some(index) if self.node(index).level() == level => index,
            Some(parent) => {
                let node = self.node(parent);
                let slot = node.slot(rest);
                match node.child(slot) {
                    Some(child) => self.fork(child, rest, level),
                    None => self.add_child(parent, slot, Node::new(rest, level, self.leaf(&node, slot))),
                }
            }
            None if *root != 0 => self.fork(*root, rest, level),
            None => {
                *root = self.nodes.put(&[Node::new(rest, level, 0)]);
                *root
            }
        };
        self.paint(index, routes, addr);
    }

    /// Puts the node at `level` of an address with `rest` in the place of the node at
    /// `index`, which is deeper or elsewhere, and that one below it; or both below a new
    /// one where they part.
    fn fork(&mut self, index: u32, rest: u128, level: usize) -> u32 {
        let mut old = self.node(index);
        let common = (rest ^ old.start()).leading_zeros() as usize;
        let parting = (common / usize::from(STRIDE)).min(level);
        let mut upper = Node::new(rest, parting, old.cover);
        let old_slot = upper.slot(old.start());
        old.cover = 0;
        upper.kids = 1 << old_slot;
        upper.nodes = self.nodes.put(&[old]);
        *self.nodes.at_mut(index) = upper;
        if parting == level {
            return index;
        }
        self.add_child(index, upper.slot(rest), Node::new(rest, level, 0))
    }

    fn add_child(&mut self, index: u32, slot: usize, child: Node) -> u32 {
        let mut node = self.node(index);
        let (count, at) = (node.children(), rank_before(node.kids, slot));
        let mut children = [Node::default(); 64];
        let old = self.nodes.group(node.nodes, count);
        children[..at].copy_from_slice(&old[..at]);
        children[at] = child;
        children[at + 1..=count].copy_from_slice(&old[at..]);
        node.nodes = self.nodes.replace(node.nodes, count, &children[..=count]);
        node.kids |= 1 << slot;
        *self.nodes.at_mut(index) = node;
        node.nodes + at as u32
    }

    fn drop_child(&mut self, index: u32, slot: usize) {
        let mut node = self.node(index);
        let (count, at) = (node.children(), rank_before(node.kids, slot));
        let mut children = [Node::default(); 64];
        let old = self.nodes.group(node.nodes, count);
        children[..at].copy_from_slice(&old[..at]);
        children[at..count - 1].copy_from_slice(&old[at + 1..]);
        node.nodes = self.nodes.replace(node.nodes, count, &children[..count - 1]);
        node.kids &= !(1 << slot);
        *self.nodes.at_mut(index) = node;
    }

    /// Makes `addr`'s node at `index` anew from the routes that end there, and tells its
    /// children what covers them. Whether any route ends there.
    fn paint<A: Bits>(&mut self, index: u32, routes: &Routes<A>, addr: A) -> bool {
        let mut node = self.node(index);
        let offset = ROOT_BITS + node.skip;
        let mut slots = [0; 64];
        routes.paint(addr.network(offset), offset, STRIDE, &mut slots, |_| {});
        let own = slots.iter().any(|&slot| slot != 0);
        let (mut child, mut before) = (node.nodes, 0);
        for (n, slot) in slots.iter_mut().enumerate() {
            if node.kids >> n & 1 == 1 {
                self.nodes.at_mut(child).cover = *slot;
                child += 1;
                // Nobody asks for the leaf of a slot with a child: it joins a run.
                *slot = before;
            }
            before = *slot;
        }
        let ([runs], count) = encode(&mut slots);
        let (inline, leaves) =
            if count <= INLINE { (&slots[..count], &[][..]) } else { (&[][..], &slots[..count]) };
        node.leaves = self.leaves.replace(node.leaves, node.values(), leaves);
        node.inline = [0; INLINE];
        node.inline[..inline.len()].copy_from_slice(inline);
        node.runs = runs;
        *self.nodes.at_mut(index) = node;
        own
    }

    /// Follows the removal of a route that ended in `addr`'s node at `level`: nodes in
    /// which no route ends and no ways part go.
    pub(super) fn remove<A: Bits + Into<u128>>(
        &mut self,
        root: &mut u32,
        routes: &Routes<A>,
        addr: A,
        level: usize,
    ) {
        let rest = addr.into() << ROOT_BITS;
        let mut path = self.path(*root, rest, level);
        while let Some(index) = path.pop() {
            if self.paint(index, routes, addr) {
                return;
            }
            let node = self.node(index);
            match (node.children(), path.last()) {
                (0, Some(parent)) => self.drop_child(parent, self.node(parent).slot(rest)),
                (0, None) => {
                    self.nodes.release(index, 1);
                    *root = 0;
                }
                (1, _) => {
                    let child = Node { cover: node.cover, ..self.node(node.nodes) };
                    self.nodes.release(node.nodes, 1);
                    *self.nodes.at_mut(index) = child;
                    return;
                }
                _ => return,
            }
        }
    }

    pub(super) fn wasteful(&self) -> bool {
        self.nodes.wasteful() || self.leaves.wasteful()
    }

    /// Copies what is in use together.
    pub(super) fn compact<'a>(&mut self, roots: impl Iterator<Item = &'a mut u32>) {
        let mut next = Self { nodes: self.nodes.successor(), leaves: self.leaves.successor() };
        for root in roots.filter(|root| **root != 0) {
            let copy = self.copy(self.node(*root), &mut next);
            *root = next.nodes.put(&[copy]);
        }
        *self = next;
    }

    /// Copies all that hangs on `node`, at most [`LEVELS`] levels; the node it hangs on there.
    fn copy(&self, node: Node, next: &mut Self) -> Node {
        let mut children = [Node::default(); 64];
        let old = self.nodes.group(node.nodes, node.children());
        for (child, &old) in children.iter_mut().zip(old) {
            *child = self.copy(old, next);
        }
        Node {
            nodes: next.nodes.put(&children[..old.len()]),
            leaves: next.leaves.put(self.leaves.group(node.leaves, node.values())),
            ..node
        }
    }
}
