//! Counts by number, kept as `tcpdpriv` and Click keep them: a binary tree in which
//! numbers share their first bits. Walked in order it gives the numbers sorted; numbers
//! of which nothing was counted are in it too, where ways part.

/// A place in the tree.
#[derive(Debug, Clone, Copy, Default)]
struct Node {
    key: u32,
    count: u32,
    /// Those that begin as this one does, the next bit clear, and set.
    below: Option<[u32; 2]>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// Numbers of which something was counted.
    nonzero: usize,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree { nodes: vec![Node::default()], nonzero: 0 }
    }
}

impl Tree {
    /// Numbers of which something was counted.
    pub(super) fn len(&self) -> usize {
        self.nonzero
    }

    /// Places in the tree, at most twice the numbers that were asked for.
    pub(super) fn places(&self) -> usize {
        self.nodes.len()
    }

    /// What was counted of a number.
    pub(super) fn count(&mut self, key: u32) -> u32 {
        self.find(key, false).map_or(0, |place| self.nodes[place].count)
    }

    /// Adds to a number's count.
    pub(super) fn add(&mut self, key: u32, amount: u32) {
        let Some(place) = self.find(key, true) else { return };
        let count = &mut self.nodes[place].count;
        self.nonzero += usize::from(*count == 0 && amount > 0);
        *count = count.saturating_add(amount);
    }

    fn find(&mut self, key: u32, make: bool) -> Option<usize> {
        let mut at = 0;
        loop {
            let node = self.nodes[at];
            if node.key == key {
                return Some(at);
            }
            let Some([clear, set]) = node.below else { return make.then(|| self.part(at, key)) };
            let bit = (self.nodes[clear as usize].key ^ self.nodes[set as usize].key).leading_zeros();
            if (key ^ node.key).leading_zeros() < bit {
                return make.then(|| self.part(at, key));
            }
            at = if key << bit & 1 << 31 != 0 { set } else { clear } as usize;
        }
    }

    /// Parts the way at a node that has less in common with `key` than what is below it.
    fn part(&mut self, at: usize, key: u32) -> usize {
        let old = self.nodes[at];
        let bit = (key ^ old.key).leading_zeros();
        let mut below = [old; 2];
        let side = (key << bit >> 31) as usize;
        below[side] = Node { key, count: 0, below: None };
        let mut here = Node { key: below[0].key & !(u32::MAX >> bit), count: 0, below: None };
        if below[0].key == here.key {
            std::mem::swap(&mut here.count, &mut below[0].count);
        }
        let next = self.nodes.len() as u32;
        here.below = Some([next, next + 1]);
        self.nodes[at] = here;
        self.nodes.extend(below);
        if here.key == key { at } else { next as usize + side }
    }

    /// All places, in the order of their numbers; some of them count nothing.
    fn walk(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut next = vec![0];
        std::iter::from_fn(move || {
            let node = &self.nodes[next.pop()? as usize];
            next.extend(node.below.iter().flat_map(|below| below.iter().rev()));
            Some((node.key, node.count))
        })
    }

    /// Numbers and their counts, sorted.
    pub(super) fn counts(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.walk().filter(|(_, count)| *count > 0)
    }

    /// How often there is each count. As in Click, zero is how many places count
    /// nothing.
    pub(super) fn of_counts(&self) -> Tree {
        let mut counts = Tree::default();
        self.walk().for_each(|(_, count)| counts.add(count, 1));
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn numbers_are_counted_and_sorted() {
        let (mut tree, mut plain, mut x) = (Tree::default(), BTreeMap::<u32, u32>::new(), 1u32);
        for n in 0..5000u32 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = x & [u32::MAX, 0xFF, 0xFF00_00FF, 0xF000_0000][n as usize % 4];
            tree.add(key, n % 3);
            *plain.entry(key).or_default() += n % 3;
        }
        plain.retain(|_, count| *count > 0);
        assert_eq!(tree.counts().collect::<Vec<_>>(), plain.clone().into_iter().collect::<Vec<_>>());
        assert_eq!(tree.len(), plain.len());
        assert!(plain.iter().all(|(key, count)| tree.count(*key) == *count));
        assert_eq!(tree.count(3_000_000_019), 0);
    }

    #[test]
    fn places_that_count_nothing_are_counts_of_zero() {
        let mut tree = Tree::default();
        for key in [0x0100_0001, 0x0200_0001, 0x0300_0003] {
            tree.add(key, 2);
        }
        // 0, where the first of them parts from it, and where the others do.
        assert_eq!(tree.of_counts().counts().collect::<Vec<_>>(), [(0, 4), (2, 3)]);
    }
}
