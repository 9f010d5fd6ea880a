//! Both tables against a list of routes that is searched from end to end, and small
//! tables of the same kinds, which need less time.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::lpm::model::{Invented, Model, Small4, Small6, prefixes, probes};
use crate::synthetic;
use crate::{MAX_VALUE, MISS};
use proptest::prelude::*;

fn compare<A: Address>(table: &Table<A>, model: &Model<A>, probes: &[A]) {
    let mut batch = vec![0; probes.len()];
    table.lookup_batch(probes, &mut batch);
    for (&addr, value) in probes.iter().zip(batch) {
        let expected = model.route(addr);
        assert_eq!(table.lookup(addr), expected.map(|route| route.value), "of {addr:?}");
        assert_eq!(value, expected.map_or(MISS, |route| route.value), "of {addr:?} in a batch");
    }
    assert!(table.iter().eq(model.sorted()));
    assert_eq!((table.len(), table.is_empty()), (model.0.len(), model.0.is_empty()));
}

/// Adds where the flag is set, removes where it is not; compares now and then.
fn follow<A: Invented>(mut table: Table<A>, changes: &[(bool, Route<A>)]) {
    let probes = probes(changes.iter().map(|(_, route)| (route.prefix, route.len)));
    let mut model = Model(vec![]);
    for (n, &(add, Route { prefix, len, value })) in changes.iter().enumerate() {
        if add {
            assert_eq!(table.insert(prefix, len, value), Ok(model.insert(Route { prefix, len, value })));
        } else {
            assert_eq!(table.remove(prefix, len), Ok(model.remove(prefix, len)));
        }
        if n % 16 == 15 {
            compare(&table, &model, &probes);
        }
    }
    compare(&table, &model, &probes);
    for &addr in &probes {
        assert_eq!(table.route(addr), model.route(addr), "of {addr:?}");
    }
    compare(&Table::from_routes(model.0.iter().copied()).unwrap(), &model, &probes);
    for Route { prefix, len, value } in model.0 {
        assert_eq!(table.get(prefix, len), Some(value));
        assert_eq!(table.remove(prefix, len), Ok(Some(value)));
        assert_eq!(table.get(prefix, len), None);
    }
    compare(&table, &Model(vec![]), &probes);
    assert_eq!(table.lookup.nodes(), 0);
}

/// Routes that come and go, some again and again.
fn changes<A: Invented>() -> impl Strategy<Value = Vec<(bool, Route<A>)>> {
    // Few, many, around the widest that codes of one byte and of two have room for, and the widest.
    let value = || prop_oneof![4 => 0..4u32, 2 => 0..40u32, 1 => 252..256u32, 1 => 32_764..32_768u32, 1 => Just(MAX_VALUE)];
    let picks = prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), value()), 1..160);
    (prefixes(60), picks).prop_map(|(prefixes, picks)| {
        let change = |(add, at, value): (bool, prop::sample::Index, u32)| {
            let &(prefix, len) = at.get(&prefixes);
            (add, Route { prefix, len, value })
        };
        picks.into_iter().map(change).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn small_tables_of_ipv4_agree_with_a_list(changes in changes::<Small4>()) {
        follow(Table::new(), &changes);
    }

    #[test]
    fn tables_of_one_group_agree_with_a_list(changes in changes::<u16>()) {
        follow(Table::new(), &changes);
    }

    #[test]
    fn small_tables_of_ipv6_agree_with_a_list(changes in changes::<Small6>()) {
        follow(Table::new(), &changes);
    }

    /// Also when the routes that it is made from have gone on, and in any order.
    #[test]
    fn a_lookup_part_that_follows_late_is_that_of_the_routes(
        changes in changes::<Small6>(), kept in 0..160usize, rotated in any::<prop::sample::Index>()
    ) {
        follow_late(&changes, kept, rotated);
    }

    #[test]
    fn one_of_ipv4_too(
        changes in changes::<Small4>(), kept in 0..160usize, rotated in any::<prop::sample::Index>()
    ) {
        follow_late(&changes, kept, rotated);
    }
}

fn follow_late<A: Invented>(changes: &[(bool, Route<A>)], kept: usize, rotated: prop::sample::Index) {
    let probes = probes(changes.iter().map(|(_, route)| (route.prefix, route.len)));
    let (mut table, mut late, mut missed) = (Table::<A>::new(), A::Lookup::new(), vec![]);
    for (n, &(add, Route { prefix, len, value })) in changes.iter().enumerate() {
        if n == kept {
            late = table.lookup.clone();
            missed.clear();
        }
        let _ = if add { table.insert(prefix, len, value) } else { table.remove(prefix, len) };
        missed.push((prefix, len));
    }
    if !missed.is_empty() {
        let at = rotated.index(missed.len());
        missed.rotate_left(at);
        missed[at / 2..].reverse();
    }
    for (prefix, len) in missed {
        late.follow(&table.routes, (prefix, len));
    }
    let mut values = vec![0; probes.len()];
    late.lookup_batch(&probes, &mut values);
    for (&addr, value) in probes.iter().zip(values) {
        assert_eq!(late.lookup(addr), table.lookup(addr), "of {addr:?}");
        assert_eq!(value, table.lookup(addr).unwrap_or(MISS), "of {addr:?} in a batch");
    }
    assert_eq!(late.nodes(), table.lookup.nodes());
}

proptest! {
    // The same code at another size: few cases tell.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn table4_agrees_with_a_list(changes in changes::<u32>()) {
        follow(Table4::new(), &changes);
    }

    #[test]
    fn table6_agrees_with_a_list(changes in changes::<u128>()) {
        follow(Table6::new(), &changes);
    }
}

/// All routes that cover one address come and go, the longest first and last.
fn nest<A: Invented>(bits: u128) {
    let route = |len: u8| Route { prefix: A::of(bits).network(len), len, value: len.into() };
    let all = || 0..=A::WIDTH as u8;
    let mut changes: Vec<_> = all().map(|len| (true, route(len))).collect();
    changes.extend(all().rev().map(|len| (false, route(len))));
    changes.extend(all().rev().map(|len| (true, route(len))));
    changes.extend(all().map(|len| (false, route(len))));
    follow(Table::new(), &changes);
}

#[test]
fn every_length_nests_in_the_next() {
    for bits in [0, 0x2001_0DB8_1234_5678_9ABC_DEF0_1122_3344, u128::MAX] {
        nest::<u16>(bits);
        nest::<Small4>(bits);
        nest::<Small6>(bits);
    }
    nest::<u32>(0x0A0B_0C0D << 96);
    nest::<u128>(0x2001_0DB8_1234_5678_9ABC_DEF0_1122_3344);
}

/// All addresses that there are, by what the routes say in order of their lengths.
#[test]
fn every_address_of_a_small_table_is_right() {
    let mut random = synthetic::Random::new(4);
    let mut table = Table::<u16>::new();
    let all: Vec<u16> = (0..=u16::MAX).collect();
    for round in 0..60 {
        for _ in 0..1 << (round % 10) {
            let len = random.below(17) as u8;
            let prefix = (random.next_u64() as u16).network(len);
            if random.below(3) == 0 {
                table.remove(prefix, len).unwrap();
            } else {
                table.insert(prefix, len, random.below(9) as u32).unwrap();
            }
        }
        let mut routes: Vec<_> = table.iter().collect();
        routes.sort_by_key(|route| route.len);
        let mut expected = vec![MISS; all.len()];
        for Route { prefix, len, value } in routes {
            expected[prefix.into()..=prefix.last(len).into()].fill(value);
        }
        let mut values = vec![0; all.len()];
        table.lookup_batch(&all, &mut values);
        assert!(values == expected, "round {round}");
    }
}

#[test]
fn wrong_routes_are_refused_by_name() {
    let mut table = Table4::with_limit(2);
    assert_eq!(table.insert(0, 33, 0), Err(Error::Length { len: 33, max: 32 }));
    assert_eq!(table.remove(0, 33), Err(Error::Length { len: 33, max: 32 }));
    assert_eq!(table.insert(0x0A00_0001, 8, 0), Err(Error::HostBits { len: 8 }));
    assert_eq!(table.insert(1, 0, 0), Err(Error::HostBits { len: 0 }));
    assert_eq!(table.insert(0, 0, MAX_VALUE + 1), Err(Error::Value { value: MAX_VALUE + 1 }));
    assert_eq!(table.replace(0, 0, 5), Ok(None));
    assert!(table.is_empty());
    assert_eq!(table.insert(0, 0, 1), Ok(None));
    assert_eq!(table.insert(1 << 31, 1, 2), Ok(None));
    assert_eq!(table.insert(0, 1, 3), Err(Error::Full { limit: 2 }));
    assert_eq!(table.insert(0, 0, 4), Ok(Some(1)));
    assert_eq!(table.replace(0, 0, 5), Ok(Some(4)));
    assert_eq!((table.lookup(7), table.lookup(u32::MAX)), (Some(5), Some(2)));

    let mut table = Table6::with_limits(10, 4);
    assert_eq!(table.insert(0, 129, 0), Err(Error::Length { len: 129, max: 128 }));
    assert_eq!(table.insert(1, 127, 0), Err(Error::HostBits { len: 127 }));
    assert_eq!(table.insert(1, 128, 0), Ok(None));
    assert_eq!(table.nodes(), 1);
    assert_eq!(table.insert(1 << 64, 128, 7), Ok(None));
    assert_eq!(table.nodes(), 3);
    assert_eq!(table.insert(1 << 127, 128, 0), Err(Error::Nodes { limit: 4 }));
    assert_eq!(table.insert(1, 128, 1), Ok(Some(0)), "a new value needs no node");
    assert_eq!((table.len(), table.nodes(), table.lookup(1 << 127)), (2, 3, None));
    assert_eq!(table.insert(0, 18, 3), Ok(None), "a short route needs no node");
    assert_eq!(table.remove(0, 18), Ok(Some(3)));
    assert_eq!(table.remove(1 << 64, 128), Ok(Some(7)));
    assert_eq!((table.nodes(), table.lookup(1)), (1, Some(1)));
    assert_eq!(table.remove(1, 128), Ok(Some(1)));
    assert_eq!(table.nodes(), 0);

    let mut table = Table6::with_limits(10, 3);
    assert_eq!((table.insert(1, 128, 0), table.insert(1 << 64, 128, 7)), (Ok(None), Ok(None)), "just enough");
}

#[test]
fn memory_counts_lookup_parts_and_routes() {
    let (mut table, mut small) = (Table4::new(), Table::<Small6>::new());
    // Tops, covers and roots of 8 bytes, a byte beside each, and the first of each arena.
    let empty =
        |memory: Memory, parts: usize| (memory.lookup > parts && memory.lookup < parts + 1024, memory.rules);
    assert_eq!(empty(table.memory(), 8 << 16), (true, 1 << 16));
    assert_eq!(empty(small.memory(), 8 << 6), (true, 1 << 6));
    let before = (table.memory(), small.memory());
    for n in 0..1000 {
        table.insert(n << 20, 24, n).unwrap();
        small.insert(Small6(u128::from(n) << 100), 28, n).unwrap();
    }
    let added = |now: Memory, then: Memory| (now.lookup > then.lookup, now.rules - then.rules);
    // About 26 bytes and 62 in a map.
    assert_eq!(added(table.memory(), before.0), (true, 26_000));
    assert_eq!(added(small.memory(), before.1), (true, 62_000));
}

#[test]
fn a_refused_fill_leaves_nothing() {
    let route = |prefix, len| Route { prefix, len, value: 9 };
    let mut table = Table4::with_limit(2);
    table.insert(0, 0, 1).unwrap();
    assert_eq!(table.fill([route(0, 1), route(0, 2), route(0, 3)]), Err(Error::Full { limit: 2 }));
    assert_eq!((table.len(), table.lookup(0)), (0, None));
    assert_eq!(table.fill([route(0, 1), route(1 << 31, 1), route(0, 1)]), Ok(()));
    assert_eq!((table.len(), table.lookup(0)), (2, Some(9)));
    let long = |n: u128| Route { prefix: n << 64, len: 128, value: 9 };
    let mut table = Table6::with_limits(10, 3);
    assert_eq!(table.fill([long(0), long(1)]), Ok(()));
    assert_eq!(table.fill([long(0), long(1), long(1 << 60)]), Err(Error::Nodes { limit: 3 }));
    assert_eq!((table.len(), table.nodes(), table.lookup(0)), (0, 0, None));
}

#[test]
fn a_full_table_agrees_with_another_way_to_search_it() {
    let routes = synthetic::table4(20_000, 64, 1);
    let table = Table4::from_routes(routes.iter().copied()).unwrap();
    let mut grown = Table4::new();
    for route in &routes {
        grown.insert(route.prefix, route.len, route.value).unwrap();
    }
    let mut random = synthetic::Random::new(2);
    for n in 0..50_000 {
        let near = routes[random.below(routes.len() as u64) as usize];
        let addr =
            if n % 4 == 0 { random.next_u64() as u32 } else { near.prefix ^ random.below(1 << 10) as u32 };
        let expected = table.route(addr).map(|route| route.value);
        assert_eq!(table.lookup(addr), expected, "{addr:#x}");
        assert_eq!(grown.lookup(addr), expected, "{addr:#x}");
    }
}
