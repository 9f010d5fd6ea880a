//! Against a plain map, with hostile keys, and beside what was published before.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::rules::Rules;
use crate::scheme::Lookup;
use crate::synthetic::Random;
use crate::{Error, MISS, Rib};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

/// A next hop that is the same by its number alone.
#[derive(Clone, Debug)]
struct Tunnel {
    id: u8,
    carries: u8,
}

impl PartialEq for Tunnel {
    fn eq(&self, other: &Tunnel) -> bool {
        self.id == other.id
    }
}

impl Eq for Tunnel {}

impl std::hash::Hash for Tunnel {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Key, u8),
    Remove(Key),
    Clear,
    Publish,
}

/// Few keys, so that they meet again; some differ in one place only.
fn keys() -> impl Strategy<Value = Key> {
    let bits = prop_oneof![
        (0..40u128).prop_map(|n| n),
        (0..40u128).prop_map(|n| n << 64),
        (0..4u128).prop_map(|n| u128::MAX - n),
    ];
    (0..3u32, bits).prop_map(|(network, bits)| Key::new(network, bits))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (keys(), 0..6u8).prop_map(|(key, hop)| Step::Insert(key, hop)),
        8 => keys().prop_map(Step::Remove),
        1 => Just(Step::Clear),
        4 => Just(Step::Publish),
    ];
    prop::collection::vec(step, 1..400)
}

fn all_keys() -> Vec<Key> {
    let bits = (0..40u128).flat_map(|n| [n, n << 64]).chain((0..4).map(|n| u128::MAX - n));
    bits.flat_map(|bits| (0..4).map(move |network| Key::new(network, bits))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn readers_see_what_was_published(steps in steps()) {
        let keys = all_keys();
        let mut rib = Rib::<Exact, u8>::new();
        let mut reader = rib.reader();
        let (mut model, mut published) = (HashMap::new(), HashMap::new());
        for step in steps {
            match step {
                Step::Insert(key, hop) => prop_assert_eq!(rib.insert(key, hop), Ok(model.insert(key, hop))),
                Step::Remove(key) => prop_assert_eq!(rib.remove(key), Ok(model.remove(&key))),
                Step::Clear => {
                    rib.clear();
                    model.clear();
                }
                Step::Publish => {
                    rib.publish();
                    published.clone_from(&model);
                }
            }
            prop_assert_eq!(rib.len(), model.len());
            let fib = reader.fib();
            let mut indices = vec![0; keys.len()];
            fib.lookup_batch(&keys, &mut indices);
            for (key, index) in keys.iter().zip(indices) {
                prop_assert_eq!(fib.lookup(*key), published.get(key));
                prop_assert_eq!(fib.hop(index), published.get(key), "in a batch");
                prop_assert_eq!(index == MISS, !published.contains_key(key));
            }
        }
        let mut all: Vec<(Key, u8)> = model.into_iter().collect();
        all.sort();
        prop_assert!(rib.iter().map(|entry| (entry.rule, *entry.hop)).eq(all));
    }

    #[test]
    fn a_refreshed_next_hop_is_another_one_for_all_its_rules(
        steps in prop::collection::vec((0..30u128, 0..5u8, any::<u8>(), 0..6u8), 1..300),
    ) {
        let mut rib = Rib::<Exact, Tunnel>::new();
        let mut reader = rib.reader();
        // What each tunnel carries, which tunnel each key has; and both as published.
        let (mut carried, mut keys) = (HashMap::new(), HashMap::new());
        let mut published = HashMap::new();
        for (bits, id, carries, kind) in steps {
            match kind {
                0..=2 => {
                    let is_used = keys.values().any(|used| *used == id);
                    let carries = if is_used { carried[&id] } else { carries };
                    carried.insert(id, carries);
                    rib.insert(Key::new(1, bits), Tunnel { id, carries }).unwrap();
                    keys.insert(bits, id);
                }
                3 => {
                    rib.remove(Key::new(1, bits)).unwrap();
                    keys.remove(&bits);
                }
                4 => {
                    let is_used = keys.values().any(|used| *used == id);
                    prop_assert_eq!(rib.refresh(Tunnel { id, carries }), is_used);
                    carried.insert(id, carries);
                }
                _ => {
                    rib.publish();
                    published = keys.iter().map(|(bits, id)| (*bits, (*id, carried[id]))).collect();
                }
            }
            let fib = reader.fib();
            for bits in 0..30 {
                let found = fib.lookup(Key::new(1, bits)).map(|tunnel| (tunnel.id, tunnel.carries));
                prop_assert_eq!(found, published.get(&bits).copied());
            }
        }
        let unpublished = rib.iter().map(|entry| (entry.rule.bits(), (entry.hop.id, entry.hop.carries)));
        let expected: HashMap<u128, (u8, u8)> = keys.iter().map(|(bits, id)| (*bits, (*id, carried[id]))).collect();
        prop_assert_eq!(unpublished.collect::<HashMap<_, _>>(), expected);
    }

    #[test]
    fn keys_that_all_collide_are_still_found(steps in steps()) {
        let keys = all_keys();
        let (mut rules, mut lookup, mut most) = (Rules::new(1000), Buckets::with_poor_hash(), 0);
        for step in steps {
            match step {
                Step::Insert(key, value) => {
                    rules.insert(key, value.into());
                    lookup.follow(&rules, key);
                }
                Step::Remove(key) => {
                    rules.remove(key);
                    lookup.follow(&rules, key);
                }
                Step::Clear => {
                    rules.clear();
                    lookup.fill(&rules);
                }
                Step::Publish => lookup.fill(&rules),
            }
            let (inside, beside) = lookup.entries();
            prop_assert_eq!(inside + beside, rules.len());
            let (mut values, mut numbers) = (vec![0; keys.len()], vec![u32::MAX; keys.len()]);
            lookup.lookup_batch_numbered(&keys, &mut values, &mut numbers);
            for (key, number) in keys.iter().zip(&numbers) {
                prop_assert_eq!(*number, rules.number(*key).unwrap_or(u32::MAX));
            }
            let own: HashSet<u32> = keys.iter().filter_map(|key| rules.number(*key)).collect();
            prop_assert_eq!(own.len(), rules.len(), "each has its own");
            most = most.max(rules.len());
            prop_assert!(own.iter().all(|number| (*number as usize) < most));
            lookup.lookup_batch(&keys, &mut numbers);
            prop_assert_eq!(&numbers, &values);
            for (key, value) in keys.iter().zip(values) {
                prop_assert_eq!(lookup.lookup(*key), rules.value(*key));
                prop_assert_eq!(value, rules.value(*key).unwrap_or(MISS));
            }
        }
    }

    #[test]
    fn a_key_is_the_bits_that_stand_there(packet: Vec<u8>, offset in 0..40u16, bits in 0..=128u8, network: u32) {
        let key = Extractor::new(offset, bits).unwrap().key(network, &packet);
        let (first, len) = (usize::from(offset) * 8, usize::from(bits));
        let bit = |at: usize| packet[at / 8] >> (7 - at % 8) & 1;
        let is_there = usize::from(offset) <= packet.len() && first + len <= packet.len() * 8;
        let expected = is_there.then(|| (first..first + len).fold(0u128, |sum, at| sum << 1 | u128::from(bit(at))));
        prop_assert_eq!(key, expected.map(|bits| Key::new(network, bits)));
        prop_assert!(key.is_none_or(|key| (key.network(), Some(key.bits())) == (network, expected)));
    }
}

#[test]
fn colliding_keys_go_beside_the_buckets_and_memory_stays_bounded() {
    let (mut rules, mut lookup) = (Rules::new(1000), Buckets::with_poor_hash());
    for n in 0..500 {
        let key = Key::new(7, n);
        rules.insert(key, n as u32);
        lookup.follow(&rules, key);
    }
    assert_eq!(lookup.entries(), (4, 496), "one bucket, which is both of theirs, and the rest");
    assert!(lookup.memory().lookup < 500 * 512, "{:?}", lookup.memory());
    assert!((0..500).all(|n| lookup.lookup(Key::new(7, n)) == Some(n as u32)));
}

/// A change at a time: more than five of eight entries are never in use, where changes
/// would move many others, and what is gone does not keep its memory.
#[test]
fn a_table_grows_before_it_is_full_and_shrinks_again() {
    let (mut rules, mut lookup) = (Rules::new(5000), Buckets::new());
    let bucket = lookup.memory().lookup;
    let keys: Vec<Key> = (0..5000).map(|n| Key::new(7, n)).collect();
    for (n, &key) in keys.iter().enumerate() {
        rules.insert(key, n as u32);
        lookup.follow(&rules, key);
        let buckets = lookup.memory().lookup / bucket;
        assert!((n + 1) * 8 <= buckets * 4 * 5, "{} entries in {buckets} buckets", n + 1);
    }
    for &key in &keys {
        rules.remove(key);
        lookup.follow(&rules, key);
    }
    assert!(lookup.memory().lookup <= 32 * bucket, "{:?} for nothing", lookup.memory());
}

#[test]
fn a_packet_that_ends_within_a_key_has_none() {
    for bits in 1..=128 {
        let extractor = Extractor::new(3, bits).unwrap();
        let packet = vec![0xFF; 3 + usize::from(bits).div_ceil(8)];
        assert_eq!(extractor.key(5, &packet), Some(Key::new(5, u128::MAX >> (128 - bits))));
        assert_eq!(extractor.key(5, &packet[..packet.len() - 1]), None, "{bits} bits");
    }
    assert_eq!(Extractor::new(0, 129), None);
}

#[test]
fn many_keys_of_any_kind_take_no_more_than_promised() {
    let mut random = Random::new(5);
    let kinds: [&mut dyn FnMut(u128) -> Key; 4] = [
        &mut |n| Key::new(n as u32, 0),
        &mut |n| Key::new(1, n),
        &mut |n| Key::new(1, n << 100),
        &mut |_| Key::new(1, random.next_u128()),
    ];
    for key in kinds {
        let mut rib = Rib::<Exact, u32>::with_limit(30_000);
        rib.publish();
        let mut reader = rib.reader();
        let keys: Vec<Key> = (0..30_000).map(key).collect();
        for (n, &key) in keys.iter().enumerate() {
            assert_eq!(rib.insert(key, n as u32 % 9), Ok(None));
            if n % 1000 == 999 {
                rib.publish();
            }
        }
        assert_eq!(rib.insert(Key::new(u32::MAX, 1), 1), Err(Error::Full { limit: 30_000 }));
        let mut indices = vec![0; keys.len()];
        let fib = reader.fib();
        fib.lookup_batch(&keys, &mut indices);
        assert!(indices.iter().enumerate().all(|(n, index)| fib.hop(*index) == Some(&(n as u32 % 9))));
        assert!(fib.memory().lookup < 30_000 * 200, "{} bytes", fib.memory().lookup);
        assert!(keys.iter().all(|&key| rib.remove(key).is_ok_and(|hop| hop.is_some())));
        rib.publish();
        assert!(reader.fib().memory().lookup < 1 << 16, "what is gone takes no memory");
    }
}

#[test]
fn the_table_of_the_paper_in_offsets_and_lengths() {
    let packet: Vec<u8> = (0..64).collect();
    let key = |offset, bits| Extractor::new(offset, bits).unwrap().key(0, &packet).unwrap().bits();
    assert_eq!(key(16, 48), 0x10_11_12_13_14_15, "VXLAN: the inner destination");
    assert_eq!(key(20, 32), 0x14_15_16_17, "NSH: service path and index");
    assert_eq!(key(4, 20), 0x4050, "MPLS: a label");
    assert_eq!(key(0, 0), 0, "IPIP: no identifier");
    assert_eq!(Extractor::new(0, 129), None);
}
