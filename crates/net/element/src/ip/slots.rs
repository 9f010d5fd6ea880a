//! In which order a table lists its routes: in that of the places that Click's tables
//! have for them, so that what scripts read stays as it was.

use std::collections::{BTreeSet, HashMap};

/// A prefix and its length.
type Prefix = (u32, u8);

/// Where the place comes from that a route gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The first that is free. A route that replaces another has its place.
    First,
    /// The one that was left last. One that replaces another has a place of its own.
    Last,
    /// The bucket of a hash table.
    Bucket,
}

/// The places of a table's routes.
#[derive(Debug)]
pub(super) struct Slots {
    order: Order,
    places: Vec<Option<Prefix>>,
    numbers: HashMap<Prefix, usize>,
    /// Free places: in the order in which they were left, and by number.
    left: Vec<usize>,
    free: BTreeSet<usize>,
}

impl Slots {
    pub(super) fn new(order: Order) -> Slots {
        let (places, numbers) = (vec![], HashMap::new());
        Slots { order, places, numbers, left: vec![], free: BTreeSet::new() }
    }

    /// A route was added, or replaced.
    pub(super) fn add(&mut self, prefix: Prefix) {
        let before = self.numbers.get(&prefix).copied();
        if self.order == Order::Bucket || self.order == Order::First && before.is_some() {
            return;
        }
        let free = if self.order == Order::First { self.free.pop_first() } else { self.left.pop() };
        let number = free.unwrap_or(self.places.len());
        if number == self.places.len() {
            self.places.push(None);
        }
        self.places[number] = Some(prefix);
        self.numbers.insert(prefix, number);
        if let Some(before) = before {
            self.leave(before);
        }
    }

    /// A route was removed.
    pub(super) fn remove(&mut self, prefix: Prefix) {
        if let Some(number) = self.numbers.remove(&prefix) {
            self.leave(number);
        }
    }

    fn leave(&mut self, number: usize) {
        self.places[number] = None;
        match self.order {
            Order::First => drop(self.free.insert(number)),
            _ => self.left.push(number),
        }
    }

    /// Forgets all places, as when the table is emptied.
    pub(super) fn clear(&mut self) {
        *self = Slots::new(self.order);
    }

    /// All prefixes of a table, in order.
    pub(super) fn list(&self, table: impl Iterator<Item = Prefix>) -> Vec<Prefix> {
        if self.order != Order::Bucket {
            return self.places.iter().flatten().copied().collect();
        }
        let mut all: Vec<Prefix> = table.collect();
        all.sort_by_key(|(prefix, len)| bucket(*prefix, (*len).into()));
        all
    }
}

/// The bucket in which `DirectIPLookup` has a prefix.
fn bucket(prefix: u32, len: u32) -> u32 {
    let mut hash = prefix ^ len << 5 ^ (prefix >> (len >> 2)).wrapping_sub(len);
    hash ^= hash >> 23 ^ (hash >> 15).wrapping_mul(len) ^ (prefix >> 17).wrapping_mul(53);
    // As the processors do for which it was written, a shift by 32 is none.
    let shifted = hash.wrapping_shr(len);
    hash = hash.wrapping_sub(prefix >> 3 ^ shifted.wrapping_mul(7) ^ (hash >> 11).wrapping_mul(103));
    (hash ^ hash >> 17) & 0xFFFF
}
