//! Ranges of numbers with a value each, in trees of which a step decides between sixteen.
//!
//! A tree says for each of 2^30 numbers what its value is: an entry is where a range begins,
//! and its value, which holds up to the next entry. A node has sixteen entries; their
//! numbers fill one cache line, so that a step compares all of them at once, and their
//! values (in the lowest nodes) or nodes fill the next.
//!
//! All nodes of a tree's lowest level are equally deep, as in a B-tree, but a node may have
//! any number of entries but none: what changes is one node or two, and when most nodes have
//! few entries the tables' owner builds all trees anew.

use super::arena::Arena;

/// Bits of a number.
pub(super) const KEY_BITS: u8 = 30;
/// The greatest number.
pub(super) const LAST: i32 = (1 << KEY_BITS) - 1;
/// Entries of a node.
const FAN: usize = 16;
/// Entries of a node when a tree is built: the others are room for changes.
const FILLED: usize = 13;
/// Where a node has no entry: more than any number.
const NONE: i32 = i32::MAX;
/// Bits of a tree that are the index of its root.
const INDEX_BITS: u32 = 28;
/// Levels that a tree can have: a level more takes eight times the changes.
const LEVELS: usize = 15;

/// Sixteen entries, in order.
#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
pub(super) struct Node {
    keys: [i32; FAN],
    /// Of the lowest level: the ranges' values; else the next nodes.
    next: [u32; FAN],
}

impl Default for Node {
    fn default() -> Self {
        Node::EMPTY
    }
}

impl Node {
    fn of(entries: &[(i32, u32)]) -> Self {
        let mut node = Node::default();
        for (n, &(key, next)) in entries.iter().enumerate() {
            (node.keys[n], node.next[n]) = (key, next);
        }
        node
    }

    /// No entries; all steps from here go to 0.
    pub(super) const EMPTY: Node = Node { keys: [NONE; FAN], next: [0; FAN] };

    /// The last entry that begins at `key` or before it; there is one in all nodes that a
    /// search comes to.
    #[inline(always)]
    fn position(&self, key: i32) -> usize {
        // -1 for each that begins after it: neither number is negative. Comparisons would be
        // counted bit by bit on a processor without an instruction for that.
        let after: i32 = self.keys.iter().map(|&first| key.wrapping_sub(first) >> 31).sum();
        (FAN as i32 - 1).wrapping_add(after).cast_unsigned() as usize % FAN
    }

    /// The value or the next node for `key`.
    #[inline(always)]
    pub(super) fn step(&self, key: i32) -> u32 {
        self.next[self.position(key)]
    }

    /// Fetches both cache lines.
    #[inline(always)]
    pub(super) fn touch(&self) -> u32 {
        self.next[0] | self.keys[0].cast_unsigned()
    }

    fn len(&self) -> usize {
        self.keys.iter().take_while(|&&key| key != NONE).count()
    }

    fn insert(&mut self, at: usize, (key, next): (i32, u32)) {
        self.keys.copy_within(at..FAN - 1, at + 1);
        self.next.copy_within(at..FAN - 1, at + 1);
        (self.keys[at], self.next[at]) = (key, next);
    }

    fn remove(&mut self, at: usize) {
        self.keys.copy_within(at + 1.., at);
        self.next.copy_within(at + 1.., at);
        (self.keys[FAN - 1], self.next[FAN - 1]) = (NONE, 0);
    }

    /// Leaves the first half here.
    fn split(&mut self) -> Node {
        let mut upper = Node::default();
        let half = FAN / 2;
        upper.keys[..half].copy_from_slice(&self.keys[half..]);
        upper.next[..half].copy_from_slice(&self.next[half..]);
        self.keys[half..].fill(NONE);
        self.next[half..].fill(0);
        upper
    }
}

/// Where a tree is: its root and how many levels it has, 0 if there is none.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Tree(u32);

impl Tree {
    fn new(root: u32, levels: usize) -> Self {
        Tree((levels as u32) << INDEX_BITS | root)
    }

    /// The index of the root; 0, whose entries are 0, if there is none.
    #[inline(always)]
    pub(super) fn root(self) -> u32 {
        self.0 & ((1 << INDEX_BITS) - 1)
    }

    #[inline(always)]
    pub(super) fn levels(self) -> u32 {
        self.0 >> INDEX_BITS
    }

    pub(super) fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// The nodes and entries on the way to a number, the lowest level first.
struct Path {
    steps: [(u32, usize); LEVELS],
    levels: usize,
}

/// All nodes of all trees.
#[derive(Clone, Debug)]
pub(super) struct Ranges {
    nodes: Arena<Node>,
    /// Entries of the lowest levels, and trees.
    entries: usize,
    trees: usize,
}

impl Ranges {
    pub(super) fn new() -> Self {
        Ranges { nodes: Arena::new(), entries: 0, trees: 0 }
    }

    /// All nodes, freed ones included: what a batch of lookups indexes.
    #[inline(always)]
    pub(super) fn nodes(&self) -> &[Node] {
        self.nodes.items()
    }

    pub(super) fn bytes(&self) -> usize {
        self.nodes.bytes()
    }

    /// Whether building all trees anew would free at least half of the nodes.
    pub(super) fn wasteful(&self) -> bool {
        self.nodes.live() > 2 * self.trees + self.entries / 3 + 1024 || self.nodes.wasteful()
    }

    /// The value of `key`; 0 when there is no tree.
    #[inline(always)]
    pub(super) fn value(&self, tree: Tree, key: i32) -> u32 {
        let mut at = tree.root();
        for _ in 0..tree.levels() {
            at = self.nodes.at(at as usize).step(key);
        }
        at
    }

    fn path(&self, tree: Tree, key: i32) -> Path {
        let levels = tree.levels() as usize;
        let mut path = Path { steps: [(0, 0); LEVELS], levels };
        let mut at = tree.root();
        for level in (0..levels).rev() {
            let node = self.nodes.at(at as usize);
            path.steps[level] = (at, node.position(key));
            at = node.step(key);
        }
        path
    }

    /// The entry that `key` is in the range of; there is a tree.
    fn entry(&self, tree: Tree, key: i32) -> (i32, u32) {
        let (node, at) = self.path(tree, key).steps[0];
        let node = self.nodes.at(node as usize);
        (node.keys[at], node.next[at])
    }

    /// Whether a range begins at `key`.
    pub(super) fn begins(&self, tree: Tree, key: i32) -> bool {
        self.entry(tree, key).0 == key
    }

    /// The entries between two numbers, both included, in order.
    pub(super) fn entries(&self, tree: Tree, first: i32, last: i32, entries: &mut Vec<(i32, u32)>) {
        if !tree.is_none() {
            self.collect(tree.root(), tree.levels(), first, last, entries);
        }
    }

    fn collect(&self, node: u32, level: u32, first: i32, last: i32, entries: &mut Vec<(i32, u32)>) {
        let node = self.nodes.at(node as usize);
        for at in node.position(first)..node.len() {
            let (key, next) = (node.keys[at], node.next[at]);
            if key > last {
                return;
            }
            match level {
                1 if key >= first => entries.push((key, next)),
                1 => {}
                // The first of a lower node may be before `first`, never behind its own key.
                _ => self.collect(next, level - 1, first.max(key), last, entries),
            }
        }
    }

    /// A tree of these entries, in order, of which the first begins at 0.
    pub(super) fn build(&mut self, entries: &[(i32, u32)]) -> Tree {
        self.entries += entries.len();
        self.trees += 1;
        let (mut level, mut levels) = (entries.to_vec(), 0);
        while levels == 0 || level.len() > 1 {
            let nodes =
                level.chunks(FILLED).map(|entries| (entries[0].0, self.nodes.put(&[Node::of(entries)])));
            level = nodes.collect();
            levels += 1;
        }
        Tree::new(level[0].1, levels)
    }

    /// Frees all nodes of a tree.
    pub(super) fn drop_tree(&mut self, tree: Tree) {
        if !tree.is_none() {
            self.trees -= 1;
            self.drop_node(tree.root(), tree.levels());
        }
    }

    /// Frees a tree in which everything has the value 0.
    pub(super) fn drop_blank(&mut self, tree: &mut Tree) {
        let root = self.nodes.at(tree.root() as usize);
        if tree.levels() == 1 && root.len() == 1 && root.next[0] == 0 {
            self.drop_tree(std::mem::take(tree));
        }
    }

    fn drop_node(&mut self, index: u32, level: u32) {
        let node = *self.nodes.at(index as usize);
        let len = node.len();
        self.nodes.release(index, 1);
        if level == 1 {
            self.entries -= len;
        } else {
            node.next[..len].iter().for_each(|&next| self.drop_node(next, level - 1));
        }
    }

    /// Lets a range of `value` begin at `key`, or gives the one that begins there this value.
    pub(super) fn set(&mut self, tree: &mut Tree, key: i32, value: u32) {
        let path = self.path(*tree, key);
        let (index, at) = path.steps[0];
        let node = self.nodes.at_mut(index);
        if node.keys[at] == key {
            node.next[at] = value;
            return;
        }
        self.entries += 1;
        let mut entry = (key, value);
        for (index, at) in path.steps[..path.levels].iter().copied() {
            match self.insert(index, at + 1, entry) {
                Some(split) => entry = split,
                None => return,
            }
        }
        let (root, first) = (tree.root(), self.nodes.at(tree.root() as usize).keys[0]);
        *tree = Tree::new(self.nodes.put(&[Node::of(&[(first, root), entry])]), path.levels + 1);
    }

    /// Puts an entry into a node; if the node had to be split, the entry for the second half.
    fn insert(&mut self, index: u32, at: usize, entry: (i32, u32)) -> Option<(i32, u32)> {
        let node = self.nodes.at_mut(index);
        if node.keys[FAN - 1] == NONE {
            node.insert(at, entry);
            return None;
        }
        let mut upper = node.split();
        match at.checked_sub(FAN / 2) {
            Some(at) if at > 0 => upper.insert(at, entry),
            _ => node.insert(at, entry),
        }
        Some((upper.keys[0], self.nodes.put(&[upper])))
    }

    /// Joins the range that begins at `key`, which is not 0, to the one before it.
    pub(super) fn unset(&mut self, tree: &mut Tree, key: i32) {
        let path = self.path(*tree, key);
        self.entries -= 1;
        let mut steps = path.steps[..path.levels].iter().copied();
        while let Some((index, at)) = steps.next() {
            let node = self.nodes.at_mut(index);
            node.remove(at);
            let first = node.keys[0];
            if first == NONE {
                self.nodes.release(index, 1);
                continue;
            }
            // What was before its first entry now belongs to the node before.
            let mut at = at;
            while at == 0
                && let Some((index, above)) = steps.next()
            {
                self.nodes.at_mut(index).keys[above] = first;
                at = above;
            }
            break;
        }
        self.lower(tree);
    }

    /// Takes away roots that decide nothing.
    fn lower(&mut self, tree: &mut Tree) {
        while tree.levels() > 1 {
            let root = *self.nodes.at(tree.root() as usize);
            if root.len() > 1 {
                return;
            }
            self.nodes.release(tree.root(), 1);
            *tree = Tree::new(root.next[0], tree.levels() as usize - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Random;
    use std::collections::BTreeMap;

    fn compare(ranges: &Ranges, tree: Tree, model: &BTreeMap<i32, u32>) {
        let mut entries = vec![];
        ranges.entries(tree, 0, LAST, &mut entries);
        assert!(entries.iter().copied().eq(model.iter().map(|(&key, &value)| (key, value))));
        for (&key, &value) in model {
            assert_eq!(ranges.value(tree, key), value);
            let before = model.range(..key).next_back().map(|(_, &value)| value);
            assert_eq!(before, (key > 0).then(|| ranges.value(tree, key - 1)));
        }
        assert_eq!(ranges.value(tree, LAST), *model.last_key_value().expect("0 is there").1);
        assert_eq!(ranges.entries, model.len());
    }

    #[test]
    fn a_tree_agrees_with_a_map_while_it_grows_and_shrinks() {
        let mut random = Random::new(1);
        let mut ranges = Ranges::new();
        let mut tree = ranges.build(&[(0, 7)]);
        let mut model = BTreeMap::from([(0, 7)]);
        for round in 0..40 {
            // Whole regions come and go, so that nodes and levels do.
            for _ in 0..400 {
                let key = (random.below(1 << 10) << (round % 21)) as i32 & LAST;
                let value = random.below(100) as u32;
                if round % 4 < 3 {
                    ranges.set(&mut tree, key, value);
                    model.insert(key, value);
                } else if let Some((&key, _)) = model.range(key.max(1)..).next() {
                    ranges.unset(&mut tree, key);
                    model.remove(&key);
                }
            }
            compare(&ranges, tree, &model);
            let (first, last) = (random.below(1 << 20) as i32, random.below(1 << 30) as i32);
            let (mut some, mut all) = (vec![], vec![]);
            ranges.entries(tree, first, last, &mut some);
            ranges.entries(tree, 0, LAST, &mut all);
            all.retain(|&(key, _)| (first..=last).contains(&key));
            assert_eq!(some, all);
        }
        let all: Vec<(i32, u32)> = model.iter().map(|(&key, &value)| (key, value)).collect();
        for (key, _) in &all[1..] {
            ranges.unset(&mut tree, *key);
        }
        assert_eq!((tree.levels(), ranges.nodes.live(), ranges.entries), (1, 1, 1));
        ranges.drop_tree(tree);
        assert_eq!((ranges.nodes.live(), ranges.entries, ranges.trees), (0, 0, 0));
        let tree = ranges.build(&all);
        compare(&ranges, tree, &model);
    }

    #[test]
    fn nodes_with_few_entries_are_wasteful_and_built_ones_are_not() {
        let mut ranges = Ranges::new();
        let all: Vec<(i32, u32)> = (0..1 << 17).map(|n| (n, n as u32)).collect();
        let mut tree = ranges.build(&all);
        assert!(!ranges.wasteful());
        for (key, _) in all.iter().filter(|(key, _)| key % 13 != 0) {
            ranges.unset(&mut tree, *key);
        }
        assert!(ranges.wasteful());
        let mut left = vec![];
        ranges.entries(tree, 0, LAST, &mut left);
        ranges.drop_tree(tree);
        let mut anew = Ranges::new();
        anew.build(&left);
        assert!(!anew.wasteful());
    }
}
