//! The hash table that exact match reads: two buckets for each key.

use super::{Exact, Key};
use crate::rules::Rules;
use crate::scheme::{Lookup, MISS, Memory};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

/// Entries of a bucket.
const SLOTS: usize = 4;
/// Entries that are moved at most to make room for another.
const MOVES: usize = 128;
/// Hashes that are tried at most when entries find no place.
const HASHES: usize = 4;
/// Keys of a batch whose tags are read before their entries are.
const LANES: usize = 16;

/// A hash's secret.
type Secret = [u64; 3];

/// A secret that is different each time.
fn random() -> Secret {
    let state = RandomState::new();
    [0, 1, 2].map(|n: u64| state.hash_one(n))
}

/// Four entries. A tag is part of the key's hash, 0 where there is no entry, so that keys
/// are read where they most likely are.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Bucket {
    tags: [u16; SLOTS],
    values: [u32; SLOTS],
    keys: [Key; SLOTS],
}

impl Bucket {
    #[inline(always)]
    fn find(&self, tag: u16, key: Key) -> Option<usize> {
        (0..SLOTS).find(|&slot| self.tags[slot] == tag && self.keys[slot] == key)
    }

    #[inline(always)]
    fn value(&self, tag: u16, key: Key) -> Option<u32> {
        self.find(tag, key).map(|slot| self.values[slot])
    }

    fn free(&self) -> Option<usize> {
        self.tags.iter().position(|tag| *tag == 0)
    }

    fn set(&mut self, slot: usize, (tag, key, value): (u16, Key, u32)) {
        (self.tags[slot], self.keys[slot], self.values[slot]) = (tag, key, value);
    }

    fn entry(&self, slot: usize) -> (u16, Key, u32) {
        (self.tags[slot], self.keys[slot], self.values[slot])
    }
}

/// Where a key is, if it is anywhere.
#[derive(Debug, Clone, Copy)]
struct Place {
    buckets: [usize; 2],
    tag: u16,
}

/// What lookups read.
#[derive(Debug, Clone)]
pub struct Buckets {
    /// A power of two.
    buckets: Vec<Bucket>,
    /// Entries in the buckets.
    len: usize,
    secret: Secret,
    secrets: fn() -> Secret,
    /// Entries that found no place in the buckets.
    rest: BTreeMap<Key, u32>,
}

/// The product's two halves, folded.
#[inline(always)]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl Buckets {
    fn with(secrets: fn() -> Secret) -> Buckets {
        let buckets = vec![Bucket::default()];
        Buckets { buckets, len: 0, secret: secrets(), secrets, rest: BTreeMap::new() }
    }

    #[inline(always)]
    fn place(&self, key: Key) -> Place {
        let [a, b, c] = self.secret;
        let inner = mix(key.bits[0] ^ a, key.bits[1] ^ b);
        let hash = mix(inner ^ c, u64::from(key.network) ^ a.rotate_left(32));
        let last = self.buckets.len() - 1;
        let buckets = [hash as usize & last, (hash >> 32) as usize & last];
        Place { buckets, tag: (hash >> 48) as u16 | 1 }
    }

    #[inline(always)]
    fn find(&self, place: Place, key: Key) -> Option<u32> {
        let [first, second] = place.buckets.map(|bucket| self.buckets.get(bucket));
        first?.value(place.tag, key).or_else(|| second?.value(place.tag, key)).or_else(|| self.find_rest(key))
    }

    #[inline(always)]
    fn find_rest(&self, key: Key) -> Option<u32> {
        if self.rest.is_empty() { None } else { self.rest.get(&key).copied() }
    }

    /// How many entries fit before the table grows: five of eight, as cuckoo hashing with
    /// such buckets places up to nine of ten with few moves.
    fn room(&self) -> usize {
        self.buckets.len() * SLOTS * 5 / 8
    }

    /// Adds an entry or replaces its value.
    fn insert(&mut self, key: Key, value: u32) {
        let place = self.place(key);
        for bucket in place.buckets {
            if let Some(slot) = self.buckets[bucket].find(place.tag, key) {
                self.buckets[bucket].values[slot] = value;
                return;
            }
        }
        if let Some(there) = self.rest.get_mut(&key) {
            *there = value;
            return;
        }
        if self.len >= self.room() {
            return self.rebuild(Some((key, value)));
        }
        match self.put(key, value) {
            None => {}
            // The hash was changed already, and that did not help.
            Some((key, value)) if !self.rest.is_empty() => {
                self.rest.insert(key, value);
            }
            homeless => self.rebuild(homeless),
        }
    }

    /// Puts an entry that is not there into one of its buckets; the entry that is left
    /// without a place when moving others did not make room.
    fn put(&mut self, key: Key, value: u32) -> Option<(Key, u32)> {
        let place = self.place(key);
        let mut entry = (place.tag, key, value);
        for bucket in place.buckets {
            if let Some(slot) = self.buckets[bucket].free() {
                self.buckets[bucket].set(slot, entry);
                self.len += 1;
                return None;
            }
        }
        let mut bucket = place.buckets[0];
        for step in 0..MOVES {
            // Each step in another slot, so that no entry comes back at once.
            let slot = step % SLOTS;
            let moved = self.buckets[bucket].entry(slot);
            self.buckets[bucket].set(slot, entry);
            entry = moved;
            let [first, second] = self.place(entry.1).buckets;
            bucket = if bucket == first { second } else { first };
            if let Some(slot) = self.buckets[bucket].free() {
                self.buckets[bucket].set(slot, entry);
                self.len += 1;
                return None;
            }
        }
        let (_, key, value) = entry;
        Some((key, value))
    }

    fn remove(&mut self, key: Key) {
        let place = self.place(key);
        for bucket in place.buckets {
            if let Some(slot) = self.buckets[bucket].find(place.tag, key) {
                self.buckets[bucket].set(slot, Default::default());
                self.len -= 1;
                if self.buckets.len() > LANES && self.len < self.room() / 8 {
                    self.rebuild(None);
                }
                return;
            }
        }
        self.rest.remove(&key);
    }

    /// Makes the table anew, with another hash and as many buckets as there is need for.
    fn rebuild(&mut self, more: Option<(Key, u32)>) {
        let slots = self.buckets.iter().flat_map(|bucket| (0..SLOTS).map(|slot| bucket.entry(slot)));
        let entries = slots.filter(|(tag, ..)| *tag != 0).map(|(_, key, value)| (key, value));
        let rest = std::mem::take(&mut self.rest);
        let entries: Vec<(Key, u32)> = entries.chain(rest).chain(more).collect();
        self.build(&entries);
    }

    /// Puts all of these entries, which are different, in the place of all there are.
    fn build(&mut self, entries: &[(Key, u32)]) {
        // Half full at most, so that the table is not soon made anew.
        let buckets = (entries.len() * 2).div_ceil(SLOTS).next_power_of_two();
        for _ in 0..HASHES {
            (self.buckets, self.len) = (vec![Bucket::default(); buckets], 0);
            self.secret = (self.secrets)();
            self.rest = entries.iter().filter_map(|&(key, value)| self.put(key, value)).collect();
            if self.rest.is_empty() {
                return;
            }
        }
    }
}

impl Lookup<Exact> for Buckets {
    fn new() -> Self {
        Buckets::with(random)
    }

    fn fill(&mut self, rules: &Rules<Key>) {
        let entries: Vec<(Key, u32)> = rules.iter().collect();
        self.build(&entries);
    }

    fn follow(&mut self, rules: &Rules<Key>, key: Key) {
        match rules.value(key) {
            Some(value) => self.insert(key, value),
            None => self.remove(key),
        }
    }

    fn memory(&self) -> Memory {
        let rest = self.rest.len() * size_of::<(Key, u32)>() * 2;
        Memory { lookup: self.buckets.len() * size_of::<Bucket>() + rest, rules: 0 }
    }

    #[inline]
    fn lookup(&self, key: Key) -> Option<u32> {
        self.find(self.place(key), key)
    }

    fn lookup_batch(&self, keys: &[Key], values: &mut [u32]) {
        let values = &mut values[..keys.len()];
        for (keys, values) in keys.chunks(LANES).zip(values.chunks_mut(LANES)) {
            let mut places = [Place { buckets: [0; 2], tag: 0 }; LANES];
            let mut maybe = [[false; 2]; LANES];
            // The tags of all first, so that the reads of their buckets overlap.
            for ((&key, place), maybe) in keys.iter().zip(&mut places).zip(&mut maybe) {
                *place = self.place(key);
                *maybe = place.buckets.map(|bucket| {
                    self.buckets.get(bucket).is_some_and(|bucket| bucket.tags.contains(&place.tag))
                });
            }
            for (((&key, value), place), maybe) in keys.iter().zip(values).zip(places).zip(maybe) {
                let in_bucket = |n: usize| self.buckets.get(place.buckets[n])?.value(place.tag, key);
                let found = maybe[0].then(|| in_bucket(0)).flatten();
                let found = found.or_else(|| maybe[1].then(|| in_bucket(1)).flatten());
                *value = found.or_else(|| self.find_rest(key)).unwrap_or(MISS);
            }
        }
    }
}

#[cfg(test)]
impl Buckets {
    /// With a hash that is the same for all keys one of whose halves is zero.
    pub(super) fn with_poor_hash() -> Buckets {
        Buckets::with(|| [0; 3])
    }

    /// Entries in the buckets, and beside them.
    pub(super) fn entries(&self) -> (usize, usize) {
        (self.len, self.rest.len())
    }
}
