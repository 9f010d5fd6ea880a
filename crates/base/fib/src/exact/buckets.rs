//! The hash table that exact match reads: two buckets for each key.

use super::{Exact, Key};
use crate::rules::Rules;
use crate::scheme::{Lookup, MISS, Memory};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

/// Entries of a bucket.
const SLOTS: usize = 4;
/// Bits of an entry's tag.
const TAG_BITS: usize = 16;
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

/// What is found for a key: the value, and the number, of its rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    value: u32,
    number: u32,
}

/// An entry: 24 bytes, as a [`Key`] alone would take. Its number stands beside it.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Entry {
    bits: [u64; 2],
    network: u32,
    value: u32,
}

impl Entry {
    const fn new(key: Key, value: u32) -> Entry {
        Entry { bits: key.bits, network: key.network, value }
    }

    const fn key(&self) -> Key {
        Key { network: self.network, bits: self.bits }
    }

    /// Whether it is that of a key; one branch for all of its parts.
    #[inline(always)]
    fn is_of(&self, key: Key) -> bool {
        let [high, low] = self.bits;
        (high ^ key.bits[0]) | (low ^ key.bits[1]) | u64::from(self.network ^ key.network) == 0
    }
}

/// Two entries and their numbers.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Pair {
    entries: [Entry; 2],
    numbers: [u32; 2],
}

/// Four entries. A tag is part of the key's hash, 0 where there is no entry, so that keys
/// are read where they most likely are. Tags and the first two entries with their numbers,
/// and most buckets have no more than two, are in one cache line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
struct Bucket {
    /// That of the first entry in the lowest 16 bits.
    tags: u64,
    pairs: [Pair; SLOTS / 2],
}

const _: () = assert!(size_of::<Bucket>() == 128);

/// Slots of a bucket: bit 15 of the 16 bits that a slot's tag has.
type SlotSet = u64;

/// The first of some slots.
#[inline(always)]
fn first_of(slots: SlotSet) -> usize {
    slots.trailing_zeros() as usize / TAG_BITS % SLOTS
}

impl Bucket {
    /// The slots with a tag, all compared at once: in which one a key is cannot be predicted.
    #[inline(always)]
    fn tagged(&self, tag: u16) -> SlotSet {
        const LOW: u64 = 0x7FFF_7FFF_7FFF_7FFF;
        let differ = self.tags ^ (u64::from(tag) * 0x0001_0001_0001_0001);
        // Bit 15 is 0 only of 16 bits that are all 0, and no sum carries into the next 16.
        !(((differ & LOW) + LOW) | differ | LOW)
    }

    fn find(&self, tag: u16, key: Key) -> Option<usize> {
        let mut slots = self.tagged(tag);
        while slots != 0 {
            let slot = first_of(slots);
            if self.entry(slot).is_of(key) {
                return Some(slot);
            }
            slots &= slots - 1;
        }
        None
    }

    fn found(&self, tag: u16, key: Key) -> Option<Found> {
        self.find(tag, key).map(|slot| self.at(slot))
    }

    #[inline(always)]
    fn entry(&self, slot: usize) -> &Entry {
        &self.pairs[slot / 2 % 2].entries[slot % 2]
    }

    /// What the entry of a slot says.
    #[inline(always)]
    fn at(&self, slot: usize) -> Found {
        let pair = &self.pairs[slot / 2 % 2];
        Found { value: pair.entries[slot % 2].value, number: pair.numbers[slot % 2] }
    }

    fn tag(&self, slot: usize) -> u16 {
        (self.tags >> (slot * TAG_BITS)) as u16
    }

    fn free(&self) -> Option<usize> {
        (0..SLOTS).find(|slot| self.tag(*slot) == 0)
    }

    fn set(&mut self, slot: usize, tag: u16, key: Key, found: Found) {
        self.tags ^= u64::from(self.tag(slot) ^ tag) << (slot * TAG_BITS);
        let pair = &mut self.pairs[slot / 2 % 2];
        (pair.entries[slot % 2], pair.numbers[slot % 2]) = (Entry::new(key, found.value), found.number);
    }

    fn get(&self, slot: usize) -> (u16, Key, Found) {
        (self.tag(slot), self.entry(slot).key(), self.at(slot))
    }
}

/// Where a key is, if it is anywhere.
#[derive(Debug, Clone, Copy, Default)]
struct KeyLocation {
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
    rest: BTreeMap<Key, Found>,
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
    fn place(&self, key: Key) -> KeyLocation {
        let [a, b, c] = self.secret;
        let inner = mix(key.bits[0] ^ a, key.bits[1] ^ b);
        let hash = mix(inner ^ c, u64::from(key.network) ^ a.rotate_left(32));
        let last = self.buckets.len() - 1;
        let buckets = [hash as usize & last, (hash >> 32) as usize & last];
        KeyLocation { buckets, tag: (hash >> 48) as u16 | 1 }
    }

    /// The slots of a key's first bucket that have its tag.
    #[inline(always)]
    fn tagged(&self, place: KeyLocation) -> SlotSet {
        self.buckets.get(place.buckets[0]).map_or(0, |bucket| bucket.tagged(place.tag))
    }

    /// What is found for a key, with the slots of its first bucket that have its tag.
    #[inline(always)]
    fn found(&self, key: Key, place: KeyLocation, slots: SlotSet) -> Option<Found> {
        if slots != 0 {
            let (bucket, slot) = (self.buckets.get(place.buckets[0])?, first_of(slots));
            if bucket.entry(slot).is_of(key) {
                return Some(bucket.at(slot));
            }
        }
        self.found_elsewhere(key, place)
    }

    /// What is found for a key that is not the first with its tag in its first bucket, as
    /// nearly all are.
    #[inline(never)]
    fn found_elsewhere(&self, key: Key, place: KeyLocation) -> Option<Found> {
        let in_bucket = |bucket: usize| self.buckets.get(bucket)?.found(place.tag, key);
        let found = place.buckets.into_iter().find_map(in_bucket);
        found.or_else(|| if self.rest.is_empty() { None } else { self.rest.get(&key).copied() })
    }

    /// The buckets of at most [`LANES`] keys, with the slots of the first that have their tags.
    /// The tags of all are read first, so that the reads of their buckets overlap.
    #[inline(always)]
    fn places(&self, keys: &[Key]) -> [(KeyLocation, SlotSet); LANES] {
        let mut places = [(KeyLocation::default(), 0); LANES];
        for (&key, place) in keys.iter().zip(&mut places) {
            let at = self.place(key);
            *place = (at, self.tagged(at));
        }
        places
    }

    /// As [`Lookup::lookup_batch`], with the numbers of the rules that are found.
    pub(crate) fn lookup_batch_numbered(&self, keys: &[Key], values: &mut [u32], numbers: &mut [u32]) {
        let (values, numbers) = (&mut values[..keys.len()], &mut numbers[..keys.len()]);
        let results = values.chunks_mut(LANES).zip(numbers.chunks_mut(LANES));
        for (keys, (values, numbers)) in keys.chunks(LANES).zip(results) {
            let places = self.places(keys);
            let results = values.iter_mut().zip(numbers);
            for ((&key, (value, number)), (place, slots)) in keys.iter().zip(results).zip(places) {
                match self.found(key, place, slots) {
                    Some(found) => (*value, *number) = (found.value, found.number),
                    None => *value = MISS,
                }
            }
        }
    }

    /// How many entries fit before the table grows: five of eight, as cuckoo hashing with
    /// such buckets places up to nine of ten with few moves.
    fn room(&self) -> usize {
        self.buckets.len() * SLOTS * 5 / 8
    }

    /// Adds an entry or replaces what it says.
    fn insert(&mut self, key: Key, found: Found) {
        let place = self.place(key);
        for bucket in place.buckets {
            if let Some(slot) = self.buckets[bucket].find(place.tag, key) {
                self.buckets[bucket].set(slot, place.tag, key, found);
                return;
            }
        }
        if let Some(there) = self.rest.get_mut(&key) {
            *there = found;
            return;
        }
        if self.len >= self.room() {
            return self.rebuild(Some((key, found)));
        }
        match self.put(key, found) {
            None => {}
            // The hash was changed already, and that did not help.
            Some((key, found)) if !self.rest.is_empty() => {
                self.rest.insert(key, found);
            }
            homeless => self.rebuild(homeless),
        }
    }

    /// Puts an entry that is not there into one of its buckets; the entry that is left
    /// without a place when moving others did not make room.
    fn put(&mut self, key: Key, found: Found) -> Option<(Key, Found)> {
        let place = self.place(key);
        let mut moving = (place.tag, key, found);
        for bucket in place.buckets {
            if let Some(slot) = self.buckets[bucket].free() {
                self.buckets[bucket].set(slot, place.tag, key, found);
                self.len += 1;
                return None;
            }
        }
        let mut bucket = place.buckets[0];
        for step in 0..MOVES {
            // Each step in another slot, so that no entry comes back at once.
            let slot = step % SLOTS;
            let moved = self.buckets[bucket].get(slot);
            let (tag, key, found) = std::mem::replace(&mut moving, moved);
            self.buckets[bucket].set(slot, tag, key, found);
            let (tag, key, found) = moving;
            let [first, second] = self.place(key).buckets;
            bucket = if bucket == first { second } else { first };
            if let Some(slot) = self.buckets[bucket].free() {
                self.buckets[bucket].set(slot, tag, key, found);
                self.len += 1;
                return None;
            }
        }
        let (_, key, found) = moving;
        Some((key, found))
    }

    fn remove(&mut self, key: Key) {
        let place = self.place(key);
        for bucket in place.buckets {
            if let Some(slot) = self.buckets[bucket].find(place.tag, key) {
                self.buckets[bucket].set(slot, 0, Key::default(), Found { value: 0, number: 0 });
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
    fn rebuild(&mut self, more: Option<(Key, Found)>) {
        let slots = self.buckets.iter().flat_map(|bucket| (0..SLOTS).map(|slot| bucket.get(slot)));
        let entries = slots.filter(|(tag, ..)| *tag != 0).map(|(_, key, found)| (key, found));
        let rest = std::mem::take(&mut self.rest);
        let entries: Vec<(Key, Found)> = entries.chain(rest).chain(more).collect();
        self.build(&entries);
    }

    /// Puts all of these entries, which are different, in the place of all there are.
    fn build(&mut self, entries: &[(Key, Found)]) {
        // Half full at most, so that the table is not soon made anew.
        let buckets = (entries.len() * 2).div_ceil(SLOTS).next_power_of_two();
        for _ in 0..HASHES {
            (self.buckets, self.len) = (vec![Bucket::default(); buckets], 0);
            self.secret = (self.secrets)();
            self.rest = entries.iter().filter_map(|&(key, found)| self.put(key, found)).collect();
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
        let numbered = rules.numbered();
        let entries: Vec<(Key, Found)> =
            numbered.map(|(key, value, number)| (key, Found { value, number })).collect();
        self.build(&entries);
    }

    fn follow(&mut self, rules: &Rules<Key>, key: Key) {
        match rules.value(key).zip(rules.number(key)) {
            Some((value, number)) => self.insert(key, Found { value, number }),
            None => self.remove(key),
        }
    }

    fn memory(&self) -> Memory {
        let rest = self.rest.len() * size_of::<(Key, Found)>() * 2;
        Memory { lookup: self.buckets.len() * size_of::<Bucket>() + rest, rules: 0 }
    }

    #[inline]
    fn lookup(&self, key: Key) -> Option<u32> {
        let place = self.place(key);
        self.found(key, place, self.tagged(place)).map(|found| found.value)
    }

    fn lookup_batch(&self, keys: &[Key], values: &mut [u32]) {
        let values = &mut values[..keys.len()];
        for (keys, values) in keys.chunks(LANES).zip(values.chunks_mut(LANES)) {
            // Few keys are in their second bucket, which is read for these alone.
            let places = self.places(keys);
            for ((&key, value), (place, slots)) in keys.iter().zip(values).zip(places) {
                *value = self.found(key, place, slots).map_or(MISS, |found| found.value);
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
