//! The ring of `SourceIPHashMapper`: consistent hashing whose places are those that
//! Click gives them on Linux, so that both send a source to the same server.

/// The numbers of `random(3)`, as the C library of GNU makes them: an additive
/// feedback generator, x³¹ + x³ + 1.
#[derive(Debug)]
pub(crate) struct Random {
    words: [u32; 31],
    at: usize,
}

impl Random {
    /// As after `srandom(seed)`.
    pub(crate) fn new(seed: u32) -> Random {
        let mut word = i64::from(if seed == 0 { 1 } else { seed } as i32);
        let mut words = [word as u32; 31];
        for slot in &mut words[1..] {
            word = 16807 * (word % 127_773) - 2836 * (word / 127_773);
            word += if word < 0 { 0x7FFF_FFFF } else { 0 };
            *slot = word as u32;
        }
        let mut random = Random { words, at: 3 };
        for _ in 0..310 {
            random.next();
        }
        random
    }

    /// The next, below 2³¹.
    pub(crate) fn next(&mut self) -> u32 {
        let behind = self.words[(self.at + 28) % 31];
        self.words[self.at] = self.words[self.at].wrapping_add(behind);
        let number = self.words[self.at] >> 1;
        self.at = (self.at + 1) % 31;
        number
    }
}

/// Places and whose they are, as a tree in one list.
#[derive(Debug)]
pub(crate) struct HashRing {
    tree: Vec<(i32, usize)>,
}

impl HashRing {
    /// A ring with so many places for each server. `ids` say who a server is: one that
    /// comes or goes leaves the others' places as they are.
    pub(crate) fn new(ids: &[u16], nodes: usize, seed: u32) -> HashRing {
        let mut random = Random::new(seed);
        let mut places = vec![];
        let mut rank = 0;
        for id in 0..=ids.iter().copied().max().unwrap_or(0) {
            let known = ids.contains(&id);
            for _ in 0..nodes {
                let place = random.next() as i32;
                if known {
                    places.push((place, rank));
                }
            }
            rank += usize::from(known);
        }
        places.sort_by_key(|(place, _)| *place);
        HashRing { tree: in_layers(&places) }
    }

    /// Whose the flows of a source are, by the rank of the server's id: the next
    /// place's. Behind the last place they are the root's.
    pub(crate) fn server(&self, src: u32) -> Option<usize> {
        let bytes = src.swap_bytes();
        // All bits have a say, so that neighbours part.
        let key = (bytes.wrapping_mul((bytes & 0xFF) << 24 | 1) % 0x7FFF_FFFF) as i32;
        let (mut at, mut found) = (0, self.tree.first()?);
        while let Some(node) = self.tree.get(at) {
            at = match key.cmp(&node.0) {
                std::cmp::Ordering::Equal => return Some(node.1),
                std::cmp::Ordering::Greater => 2 * at + 2,
                std::cmp::Ordering::Less => {
                    found = node;
                    2 * at + 1
                }
            };
        }
        Some(found.1)
    }
}

/// A sorted list as a balanced tree, layer after layer, each full but the last.
fn in_layers<T: Copy>(sorted: &[T]) -> Vec<T> {
    let count = sorted.len();
    let full = (count + 1).next_power_of_two().max(2);
    // Leaves there are in the last layer, and where the nodes begin that have none.
    let last = count + 1 - full / 2;
    let bare = 2 * last + 1;
    let mut tree = Vec::with_capacity(count);
    let mut step = full;
    while step > 1 && tree.len() < count {
        for at in (step / 2..full).step_by(step) {
            let place = if at < bare { at } else { (at + bare - 1) / 2 };
            tree.extend(sorted.get(place - 1).filter(|_| tree.len() < count));
        }
        step /= 2;
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_c_library() {
        let mut random = Random::new(1);
        let first: Vec<u32> = (0..3).map(|_| random.next()).collect();
        assert_eq!(first, [1_804_289_383, 846_930_886, 1_681_692_777]);
    }

    #[test]
    fn a_list_becomes_a_tree() {
        assert_eq!(in_layers(&[1, 2, 3, 4, 5, 6]), [4, 2, 6, 1, 3, 5]);
        assert_eq!(in_layers(&[1, 2, 3, 4, 5, 6, 7]), [4, 2, 6, 1, 3, 5, 7]);
        assert_eq!(in_layers(&[1]), [1]);
    }
}
