//! Against a list of routes that is searched from end to end, and beside readers.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::Error;
use crate::MISS;
use crate::lpm::model::{Invented, Model, Small6, prefixes, probes};
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a route leads to; how many there are tells whether next hops are freed.
type Hop = Arc<u32>;

#[derive(Clone, Debug)]
enum Step {
    Insert(usize, u32),
    Remove(usize),
    Clear,
    Publish,
    /// A reader stays with what is published now.
    Rest,
    /// The readers that rested go on, or away.
    Wake(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..40usize, 0..6u32).prop_map(|(route, hop)| Step::Insert(route, hop)),
        8 => (0..40usize).prop_map(Step::Remove),
        1 => Just(Step::Clear),
        6 => Just(Step::Publish),
        1 => Just(Step::Rest),
        1 => any::<bool>().prop_map(Step::Wake),
    ];
    prop::collection::vec(step, 1..200)
}

/// What readers have agrees with the list as it was when it was published.
fn agree<A: Address>(fib: &Fib<A, Hop>, model: &Model<A>, addrs: &[A]) {
    let mut indices = vec![0; addrs.len()];
    fib.lookup_batch(addrs, &mut indices);
    for (&addr, index) in addrs.iter().zip(indices) {
        let expected = model.lookup(addr);
        assert_eq!(fib.lookup(addr).map(|hop| **hop), expected, "of {addr:?}");
        assert_eq!(fib.hop(index).map(|hop| **hop), expected, "of {addr:?} in a batch");
        assert_eq!(index == MISS, expected.is_none());
    }
}

/// What the writer sees agrees with the list as it is.
fn agree_unpublished<A: Address>(rib: &Rib<A, Hop>, model: &Model<A>, addrs: &[A]) {
    let plain = |entry: Entry<'_, (A, u8), Hop>| Route {
        prefix: entry.rule.0,
        len: entry.rule.1,
        value: **entry.hop,
    };
    assert!(rib.iter().map(plain).eq(model.sorted()));
    for &addr in addrs {
        assert_eq!(rib.route(addr).map(plain), model.route(addr), "of {addr:?}");
    }
    for route in &model.0 {
        assert_eq!(rib.get((route.prefix, route.len)).map(|hop| **hop), Some(route.value));
    }
}

/// Makes all steps with routes to `prefixes` and six next hops.
fn follow<A: Invented>(prefixes: &[(A, u8)], steps: &[Step]) {
    let hops: Vec<Hop> = (0..6).map(Arc::new).collect();
    let addrs = probes(prefixes.iter().copied());
    let mut rib = Rib::<A, Hop>::new();
    let (mut model, mut published) = (Model(vec![]), Model(vec![]));
    let mut reader = rib.reader();
    let mut resting = Vec::new();
    for step in steps {
        match *step {
            Step::Insert(at, value) => {
                let (prefix, len) = prefixes[at % prefixes.len()];
                let old = rib.insert((prefix, len), Arc::clone(&hops[value as usize])).unwrap();
                assert_eq!(old.map(|hop| *hop), model.insert(Route { prefix, len, value }));
            }
            Step::Remove(at) => {
                let (prefix, len) = prefixes[at % prefixes.len()];
                assert_eq!(rib.remove((prefix, len)).unwrap().map(|hop| *hop), model.remove(prefix, len));
            }
            Step::Clear => {
                rib.clear();
                model.0.clear();
            }
            Step::Publish => {
                rib.publish();
                published = model.clone();
            }
            Step::Rest => resting.push((rib.reader(), published.clone())),
            Step::Wake(true) => resting.iter_mut().for_each(|(rests, then)| {
                rests.fib();
                then.clone_from(&published);
            }),
            Step::Wake(false) => resting.clear(),
        }
        agree(reader.fib(), &published, &addrs[..addrs.len().min(6)]);
        let used: HashSet<u32> = model.0.iter().map(|route| route.value).collect();
        assert_eq!(
            (rib.len(), rib.next_hops(), rib.is_empty()),
            (model.0.len(), used.len(), used.is_empty())
        );
    }
    agree(reader.fib(), &published, &addrs);
    for (Reader(rests), then) in &resting {
        agree(rests.held(), then, &addrs);
    }
    agree_unpublished(&rib, &model, &addrs);
    drop((rib, reader, resting));
    assert!(hops.iter().all(|hop| Arc::strong_count(hop) == 1), "all next hops are freed");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn ipv4_readers_see_what_was_published(prefixes in prefixes::<u16>(40), steps in steps()) {
        follow(&prefixes, &steps);
    }

    #[test]
    fn ipv6_readers_see_what_was_published(prefixes in prefixes::<Small6>(40), steps in steps()) {
        follow(&prefixes, &steps);
    }
}

#[test]
fn what_is_not_published_is_not_seen() {
    let mut rib = Rib::<u16, u8>::new();
    let mut reader = rib.reader();
    assert_eq!(rib.insert((0, 0), 1), Ok(None));
    assert_eq!((reader.fib().lookup(9), rib.route(9).map(|route| *route.hop)), (None, Some(1)));
    rib.publish();
    assert_eq!(reader.fib().lookup(9), Some(&1));
    assert!(rib.insert((1, 0), 1).is_err());
    assert_eq!(rib.remove((0, 0)), Ok(Some(1)));
    assert_eq!(rib.reader().fib().lookup(9), Some(&1));
    rib.publish();
    assert_eq!((reader.fib().lookup(9), rib.reader().fib().lookup(9)), (None, None));
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut rib = Rib::<u32, &str>::with_limit(2);
    assert_eq!(rib.insert((0, 33), "a"), Err(Error::Length { len: 33, max: 32 }));
    assert_eq!(rib.insert((0x0A00_0001, 8), "a"), Err(Error::HostBits { len: 8 }));
    assert_eq!(rib.remove((1, 0)), Err(Error::HostBits { len: 0 }));
    assert_eq!((rib.len(), rib.next_hops()), (0, 0));
    assert_eq!((rib.insert((0, 0), "a"), rib.insert((1 << 31, 1), "b")), (Ok(None), Ok(None)));
    assert_eq!(rib.insert((0, 1), "c"), Err(Error::Full { limit: 2 }));
    assert_eq!((rib.len(), rib.next_hops(), rib.get((0, 1))), (2, 2, None));
    assert_eq!(rib.insert((0, 0), "c"), Ok(Some("a")), "there is room for another next hop");
    assert_eq!(rib.insert((0, 0), "b"), Ok(Some("c")));
    assert_eq!((rib.next_hops(), rib.remove((0, 1))), (1, Ok(None)));
    rib.publish();
    assert_eq!(rib.reader().fib().lookup(7), Some(&"b"));
    let mut rib = Rib::<u128, &str>::with_limit(1);
    assert_eq!(rib.insert((0, 129), "a"), Err(Error::Length { len: 129, max: 128 }));
    assert_eq!(
        (rib.insert((1, 128), "a"), rib.insert((2, 128), "a")),
        (Ok(None), Err(Error::Full { limit: 1 }))
    );
    assert!(Rib::<u32, u8>::with_limit(usize::MAX).insert((0, 0), 1).is_ok());
}

#[test]
fn many_changes_at_once_are_as_good_as_one_by_one() {
    let mut rib = Rib::<u32, u32>::new();
    let mut reader = rib.reader();
    for round in 0..6 {
        // Around the number of changes that are remembered.
        let count = REMEMBERED as u32 - 3 + round;
        for n in 0..count {
            rib.insert((n << 12, 20), n % 7 + round).unwrap();
            assert!(rib.changes.rules.len() <= REMEMBERED && rib.changes.hops.len() <= 2 * REMEMBERED);
        }
        rib.publish();
        rib.insert((0, 28), 99).unwrap();
        rib.publish();
        let fib = reader.fib();
        assert_eq!((fib.lookup(0), fib.lookup(16)), (Some(&99), Some(&round)));
        rib.remove((0, 28)).unwrap();
        rib.publish();
        for n in 0..count {
            assert_eq!(reader.fib().lookup(n << 12), Some(&(n % 7 + round)), "{n} in round {round}");
        }
    }
}

#[test]
fn a_route_that_changes_again_and_again_is_followed_once() {
    let mut rib = Rib::<u128, u32>::new();
    rib.insert((0, 20), 1).unwrap();
    rib.publish();
    let mut reader = rib.reader();
    for n in 0..20 * REMEMBERED as u32 {
        rib.insert((0, 24), 5 + n % 3).unwrap();
        assert!(rib.changes.rules.len() < REMEMBERED && !rib.changes.all);
    }
    rib.publish();
    assert_eq!(rib.last_changes.rules, [(0, 24)]);
    let fib = reader.fib();
    assert_eq!((fib.lookup(0), fib.lookup(1 << 107)), (Some(&6), Some(&1)));
}

#[test]
fn the_same_route_again_is_no_change() {
    let mut rib = Rib::<u16, u8>::new();
    rib.insert((0, 9), 1).unwrap();
    rib.publish();
    assert_eq!((rib.insert((0, 9), 1), rib.remove((0, 8))), (Ok(Some(1)), Ok(None)));
    assert!(rib.changes.is_empty());
    assert_eq!((rib.remove((0, 9)), rib.next_hops()), (Ok(Some(1)), 0));
    assert_eq!((&rib.changes.rules[..], &rib.changes.hops[..]), (&[(0, 9)][..], &[0][..]));
    assert!(!rib.changes.is_empty() && !rib.changes.all);
}

#[test]
fn nothing_is_published_when_nothing_changed() {
    let mut rib = Rib::<u16, u8>::new();
    rib.publish();
    assert_eq!(rib.memory(), Memory { lookup: 0, rules: 0 });
    rib.insert((0, 9), 1).unwrap();
    rib.publish();
    let mut reader = rib.reader();
    let before: *const Fib<u16, u8> = reader.fib();
    rib.publish();
    assert!(std::ptr::eq(before, reader.fib()));
}

#[test]
fn memory_counts_what_only_the_writer_reads() {
    let mut rib = Rib::<u32, u8>::new();
    for n in 0..3 {
        rib.insert((n << 24, 8), n as u8 % 2).unwrap();
    }
    // Routes in the map, next hops, prefixes and next hops that changed.
    assert_eq!(rib.memory(), Memory { lookup: 0, rules: 3 * 26 + 2 * 36 + 3 * 8 + 2 * 4 });
}

#[test]
fn memory_counts_the_next_hops_of_a_copy() {
    let mut fib = Fib::<u16, u64>::new();
    let empty = fib.memory();
    fib.hops = vec![Some(1); 10];
    assert_eq!(fib.memory(), Memory { lookup: empty.lookup + 160, ..empty });
}

#[test]
fn a_next_hop_is_freed_when_its_last_route_is() {
    let mut rib = Rib::<u16, Arc<&str>>::new();
    let hop = Arc::new("a");
    let mut reader = rib.reader();
    rib.insert((0, 0), Arc::clone(&hop)).unwrap();
    rib.insert((0, 8), Arc::clone(&hop)).unwrap();
    rib.publish();
    rib.insert((0, 0), Arc::new("b")).unwrap();
    rib.publish();
    reader.fib();
    assert_eq!((rib.next_hops(), reader.fib().lookup(1).map(|hop| **hop)), (2, Some("a")));
    rib.insert((0, 8), Arc::new("c")).unwrap();
    rib.publish();
    assert_eq!((rib.next_hops(), reader.fib().lookup(1).map(|hop| **hop)), (2, Some("c")));
    rib.insert((0, 8), Arc::new("d")).unwrap();
    rib.publish();
    assert_eq!(Arc::strong_count(&hop), 1, "both copies have followed");
}

#[test]
fn memory_counts_all_copies() {
    let mut rib = Rib::<u32, u8>::new();
    assert_eq!(rib.memory(), Memory { lookup: 0, rules: 0 });
    rib.insert((0, 0), 1).unwrap();
    rib.publish();
    let once = rib.memory();
    assert!(once.lookup >= 8 << 16 && once.rules > 1 << 16, "{once:?}");
    let (mut awake, rests) = (rib.reader(), rib.reader());
    for n in 1..40 {
        rib.insert((n << 24, 8), n as u8).unwrap();
        rib.publish();
        awake.fib();
    }
    // What is published, what was before, and what the reader has that rests.
    let thrice = rib.memory().lookup / once.lookup;
    assert_eq!(thrice, 3, "{:?}", rib.memory());
    drop(rests);
    rib.insert((0, 0), 2).unwrap();
    rib.publish();
    assert_eq!(rib.memory().lookup / once.lookup, 2, "{:?}", rib.memory());
}

/// Ends the readers, also when the writer panics: the scope waits for them.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_reader_sees_all_of_a_set_of_changes_or_none() {
    // Two changes each, which are fewer than are remembered.
    const ROUTES: u16 = 24;
    let stop = AtomicBool::new(false);
    let mut rib = Rib::<u16, u32>::new();
    // Each set gives all routes one next hop, shorter and longer ones alternating.
    let mut set = |value: u32| {
        for n in 0..ROUTES {
            rib.insert((n << 10, 6), value).unwrap();
            if value.is_multiple_of(2) {
                rib.insert((n << 10, 14), value).unwrap();
            } else {
                rib.remove((n << 10, 14)).unwrap();
            }
        }
        rib.publish();
        rib.reader()
    };
    let reader = set(0);
    std::thread::scope(|scope| {
        let stop = Stop(&stop);
        for mut reader in [reader, set(1)] {
            let stop = stop.0;
            scope.spawn(move || {
                let addrs: Vec<u16> = (0..ROUTES * 2).map(|n| ((n / 2) << 10) | (n % 2)).collect();
                let (mut indices, mut last) = (vec![MISS; addrs.len()], 0);
                while !stop.load(Ordering::Relaxed) {
                    let fib = reader.fib();
                    fib.lookup_batch(&addrs, &mut indices);
                    let hops: Vec<_> = indices.iter().map(|&index| fib.hop(index).copied()).collect();
                    let first = hops[0].expect("there is always a route");
                    assert!(hops.iter().all(|&hop| hop == Some(first)), "{hops:?}");
                    assert!(first >= last, "{first} after {last}");
                    last = first;
                }
            });
        }
        for value in 2..500 {
            set(value);
        }
        drop(stop);
    });
}

#[test]
fn an_index_in_use_again_never_gives_a_reader_the_wrong_hop() {
    const ROUTES: u128 = 16;
    let stop = AtomicBool::new(false);
    let mut rib = Rib::<u128, (u128, u32)>::new();
    // Each route's next hop is its own and has it changed each time: there are never more
    // indices than routes and one, so that each is soon that of another route.
    let mut change = |age: u32| {
        let route = u128::from(age) % ROUTES;
        rib.remove((route << 100, 28)).unwrap();
        let other = (route + 5) % ROUTES;
        rib.insert((other << 100, 28), (other, age)).unwrap();
        rib.insert((route << 100, 28), (route, age)).unwrap();
        rib.publish();
        assert!(rib.next_hops() <= ROUTES as usize);
        rib.reader()
    };
    let readers: Vec<_> = (0..ROUTES as u32).map(&mut change).collect();
    std::thread::scope(|scope| {
        let stop = Stop(&stop);
        for mut reader in readers.into_iter().skip(14) {
            let stop = stop.0;
            scope.spawn(move || {
                let addrs: Vec<u128> = (0..ROUTES).map(|route| route << 100 | 7).collect();
                let (mut indices, mut ages) = (vec![MISS; addrs.len()], vec![0; addrs.len()]);
                while !stop.load(Ordering::Relaxed) {
                    let fib = reader.fib();
                    fib.lookup_batch(&addrs, &mut indices);
                    // So that the writer goes on between the lookup and the next hop.
                    std::thread::yield_now();
                    for (route, &index) in indices.iter().enumerate() {
                        let &(of, age) = fib.hop(index).expect("there is always a route");
                        assert_eq!(of, route as u128);
                        assert!(age >= ages[route], "{age} after {}", ages[route]);
                        ages[route] = age;
                    }
                }
            });
        }
        for age in ROUTES as u32..4_000 {
            change(age);
        }
        drop(stop);
    });
}
