//! Next hops as a routing table keeps them: each once, under a small index, as long as a
//! rule uses it.

use std::collections::HashMap;
use std::hash::Hash;

/// A next hop and the number of rules that use it.
#[derive(Clone, Debug)]
struct Slot<H> {
    hop: Option<H>,
    uses: usize,
}

/// Next hops by index, and the other way round.
#[derive(Clone, Debug)]
pub(crate) struct NextHops<H> {
    slots: Vec<Slot<H>>,
    indices: HashMap<H, u32>,
    /// Indices that no rule uses.
    free: Vec<u32>,
}

impl<H: Clone + Eq + Hash> NextHops<H> {
    pub(crate) fn new() -> Self {
        NextHops { slots: Vec::new(), indices: HashMap::new(), free: Vec::new() }
    }

    /// The index of `hop` for one rule more, and whether it is new. There are never more
    /// next hops than rules, plus one while a rule's next hop is replaced: so an index
    /// is always a value that a rule can have.
    pub(crate) fn intern(&mut self, hop: H) -> (u32, bool) {
        if let Some(&index) = self.indices.get(&hop) {
            self.slots[index as usize].uses += 1;
            return (index, false);
        }
        let index = self.free.pop().unwrap_or(self.slots.len() as u32);
        if index as usize == self.slots.len() {
            self.slots.push(Slot { hop: None, uses: 0 });
        }
        self.slots[index as usize] = Slot { hop: Some(hop.clone()), uses: 1 };
        self.indices.insert(hop, index);
        (index, true)
    }

    /// A rule does not use `index` any more: the next hop, and whether it was the last
    /// rule that did.
    pub(crate) fn release(&mut self, index: u32) -> (H, bool) {
        let slot = &mut self.slots[index as usize];
        let hop = slot.hop.clone().expect("a rule uses it");
        slot.uses -= 1;
        let was_last = slot.uses == 0;
        if was_last {
            slot.hop = None;
            self.indices.remove(&hop);
            self.free.push(index);
        }
        (hop, was_last)
    }

    /// Puts `hop` in the place of the one that equals it; its index, if there is one.
    pub(crate) fn refresh(&mut self, hop: H) -> Option<u32> {
        let (_, index) = self.indices.remove_entry(&hop)?;
        self.slots[index as usize].hop = Some(hop.clone());
        self.indices.insert(hop, index);
        Some(index)
    }

    /// The next hop of an index.
    pub(crate) fn get(&self, index: u32) -> Option<&H> {
        self.slots.get(index as usize)?.hop.as_ref()
    }

    /// How many next hops there are.
    pub(crate) fn len(&self) -> usize {
        self.indices.len()
    }

    /// Indices in use, free ones between them included.
    pub(crate) fn indices(&self) -> std::ops::Range<u32> {
        0..self.slots.len() as u32
    }

    /// Forgets all next hops, whoever still uses them.
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Bytes that they take, about: the standard library does not say. A map has up to
    /// twice the room that it needs.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.len() * (size_of::<Slot<H>>() + 2 * size_of::<(H, u32)>() + size_of::<u32>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_next_hop_has_one_index_until_its_last_route_is_gone() {
        let mut hops = NextHops::new();
        assert_eq!(
            (hops.intern("a"), hops.intern("b"), hops.intern("a")),
            ((0, true), (1, true), (0, false))
        );
        assert_eq!(hops.release(0), ("a", false));
        assert_eq!((hops.get(0), hops.len()), (Some(&"a"), 2));
        assert_eq!(hops.release(0), ("a", true));
        assert_eq!((hops.get(0), hops.get(1), hops.get(2), hops.len()), (None, Some(&"b"), None, 1));
        assert_eq!(hops.intern("c"), (0, true));
        assert_eq!((hops.get(0), hops.indices()), (Some(&"c"), 0..2));
        hops.clear();
        assert_eq!((hops.len(), hops.intern("b")), (0, (0, true)));
    }

    #[test]
    fn memory_follows_the_most_there_ever_were() {
        let mut hops = NextHops::new();
        assert_eq!(hops.bytes(), 0);
        for round in 0..10u64 {
            let indices: Vec<u32> = (0..100).map(|n| hops.intern(round << 32 | n).0).collect();
            for index in indices {
                hops.release(index);
            }
        }
        assert_eq!(hops.indices(), 0..100);
        // 24 bytes of a slot, 32 of the map, 4 of an index that may be free.
        assert_eq!(hops.bytes(), 6_000);
    }
}
