//! Both tables against a list of routes that is searched from end to end.
#![allow(clippy::unwrap_used)]

use fib::Error;
use fib::lpm::{MAX_VALUE, MISS, Route, Table4, Table6};
use proptest::prelude::*;

/// The plainest table: what the others must agree with.
#[derive(Default, Clone)]
struct Oracle(Vec<Route<u128>>);

fn network(addr: u128, len: u8, bits: u8) -> u128 {
    if len == 0 { 0 } else { addr >> (bits - len) << (bits - len) }
}

impl Oracle {
    fn insert(&mut self, route: Route<u128>) -> Option<u32> {
        let old = self.remove(route.prefix, route.len);
        self.0.push(route);
        old
    }

    fn remove(&mut self, prefix: u128, len: u8) -> Option<u32> {
        let at = self.0.iter().position(|route| (route.prefix, route.len) == (prefix, len))?;
        Some(self.0.swap_remove(at).value)
    }

    fn lookup(&self, addr: u128, bits: u8) -> Option<u32> {
        let covers = |route: &&Route<u128>| network(addr, route.len, bits) == route.prefix;
        self.0.iter().filter(covers).max_by_key(|route| route.len).map(|route| route.value)
    }

    fn sorted(&self) -> Vec<Route<u128>> {
        let mut routes = self.0.clone();
        routes.sort();
        routes
    }
}

/// What both tables can do, over the wider address.
trait Table: Clone {
    const BITS: u8;
    fn insert(&mut self, route: Route<u128>) -> Option<u32>;
    fn remove(&mut self, prefix: u128, len: u8) -> Option<u32>;
    fn lookup(&self, addr: u128) -> Option<u32>;
    fn batch(&self, addrs: &[u128]) -> Vec<u32>;
    fn routes(&self) -> Vec<Route<u128>>;
    fn built(routes: &[Route<u128>]) -> Self;
    fn deciding(&self, addr: u128) -> Option<u32>;
    fn leaves_nothing(&self) -> bool;
}

fn narrow(route: Route<u128>) -> Route<u32> {
    Route { prefix: route.prefix as u32, len: route.len, value: route.value }
}

impl Table for Table4 {
    const BITS: u8 = 32;
    fn insert(&mut self, r: Route<u128>) -> Option<u32> {
        Table4::insert(self, r.prefix as u32, r.len, r.value).unwrap()
    }
    fn remove(&mut self, prefix: u128, len: u8) -> Option<u32> {
        Table4::remove(self, prefix as u32, len).unwrap()
    }
    fn lookup(&self, addr: u128) -> Option<u32> {
        Table4::lookup(self, addr as u32)
    }
    fn batch(&self, addrs: &[u128]) -> Vec<u32> {
        let addrs: Vec<u32> = addrs.iter().map(|&addr| addr as u32).collect();
        let mut values = vec![0; addrs.len()];
        self.lookup_batch(&addrs, &mut values);
        values
    }
    fn routes(&self) -> Vec<Route<u128>> {
        self.iter().map(|r| Route { prefix: r.prefix.into(), len: r.len, value: r.value }).collect()
    }
    fn built(routes: &[Route<u128>]) -> Self {
        Table4::from_routes(routes.iter().copied().map(narrow)).unwrap()
    }
    fn deciding(&self, addr: u128) -> Option<u32> {
        self.route(addr as u32).map(|route| route.value)
    }
    fn leaves_nothing(&self) -> bool {
        self.is_empty()
    }
}

impl Table for Table6 {
    const BITS: u8 = 128;
    fn insert(&mut self, r: Route<u128>) -> Option<u32> {
        Table6::insert(self, r.prefix, r.len, r.value).unwrap()
    }
    fn remove(&mut self, prefix: u128, len: u8) -> Option<u32> {
        Table6::remove(self, prefix, len).unwrap()
    }
    fn lookup(&self, addr: u128) -> Option<u32> {
        Table6::lookup(self, addr)
    }
    fn batch(&self, addrs: &[u128]) -> Vec<u32> {
        let mut values = vec![0; addrs.len()];
        self.lookup_batch(addrs, &mut values);
        values
    }
    fn routes(&self) -> Vec<Route<u128>> {
        self.iter().collect()
    }
    fn built(routes: &[Route<u128>]) -> Self {
        Table6::from_routes(routes.iter().copied()).unwrap()
    }
    fn deciding(&self, addr: u128) -> Option<u32> {
        self.route(addr).map(|route| route.value)
    }
    fn leaves_nothing(&self) -> bool {
        self.is_empty() && self.nodes() == 0
    }
}

/// Where the tables' steps begin and end, and the addresses around them.
fn probes<T: Table>(routes: &[Route<u128>]) -> Vec<u128> {
    let all = u128::MAX >> (128 - T::BITS);
    let mut probes = vec![0, all, all / 3];
    for route in routes {
        let size = if route.len == 0 { 0 } else { 1u128 << (T::BITS - route.len) };
        let last = if route.len == 0 { all } else { route.prefix + (size - 1) };
        probes.extend([route.prefix, last, route.prefix.wrapping_sub(1) & all, last.wrapping_add(1) & all]);
        probes.push(route.prefix | ((last - route.prefix) / 3));
    }
    probes
}

fn compare<T: Table>(table: &T, oracle: &Oracle, probes: &[u128]) {
    let batch = table.batch(probes);
    for (&addr, value) in probes.iter().zip(batch) {
        let expected = oracle.lookup(addr, T::BITS);
        assert_eq!(table.lookup(addr), expected, "of {addr:#x}");
        assert_eq!(value, expected.unwrap_or(MISS), "of {addr:#x} in a batch");
        assert_eq!(table.deciding(addr), expected, "route of {addr:#x}");
    }
    assert_eq!(table.routes(), oracle.sorted());
}

/// Adds where the flag is set, removes where it is not; compares now and then.
fn follow<T: Table>(mut table: T, changes: &[(bool, Route<u128>)]) {
    let probes = probes::<T>(&changes.iter().map(|&(_, route)| route).collect::<Vec<_>>());
    let mut oracle = Oracle::default();
    for (n, &(add, route)) in changes.iter().enumerate() {
        if add {
            assert_eq!(table.insert(route), oracle.insert(route));
        } else {
            assert_eq!(table.remove(route.prefix, route.len), oracle.remove(route.prefix, route.len));
        }
        if n % 16 == 15 {
            compare(&table, &oracle, &probes);
        }
    }
    compare(&table, &oracle, &probes);
    compare(&T::built(&oracle.0), &oracle, &probes);
    for route in oracle.0.clone() {
        assert_eq!(table.remove(route.prefix, route.len), Some(route.value));
    }
    compare(&table, &Oracle::default(), &probes);
    assert!(table.leaves_nothing());
}

/// Routes crowded under few prefixes, so that they nest, meet and go again.
fn changes(bits: u8) -> impl Strategy<Value = Vec<(bool, Route<u128>)>> {
    let len = prop_oneof![4 => 0..=bits, 2 => 15..=26u8, 1 => Just(bits), 1 => bits - 7..=bits];
    let addr = (0..4u8, any::<u128>(), 0..=bits).prop_map(move |(seed, noise, keep)| {
        let all = u128::MAX >> (128 - bits);
        let base = ((u128::from(seed) * 0x4A6F_91D3_0217_73C5_9999_0F0F_55AA_1234) >> 3) & all;
        base ^ (noise & all.checked_shr(keep.into()).unwrap_or(0))
    });
    let route = (addr, len, prop_oneof![0..4u32, Just(MAX_VALUE)])
        .prop_map(move |(addr, len, value)| Route { prefix: network(addr, len, bits), len, value });
    (
        prop::collection::vec(route, 1..60),
        prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..160),
    )
        .prop_map(|(routes, picks)| picks.into_iter().map(|(add, at)| (add, *at.get(&routes))).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn table4_agrees_with_a_list(changes in changes(32)) {
        follow(Table4::new(), &changes);
    }

    #[test]
    fn table6_agrees_with_a_list(changes in changes(128)) {
        follow(Table6::new(), &changes);
    }
}

#[test]
fn every_length_nests_in_the_next() {
    for addr in [0, 0x0A0B_0C0D, u32::MAX] {
        let nest = |len| (true, Route { prefix: network(addr.into(), len, 32), len, value: len.into() });
        let mut changes: Vec<_> = (0..=32).map(nest).collect();
        changes.extend((0..=32).rev().map(nest).map(|(_, route)| (false, route)));
        changes.extend((0..=32).rev().map(nest));
        changes.extend((0..=32).map(nest).map(|(_, route)| (false, route)));
        follow(Table4::new(), &changes);
    }
    for addr in [0, 0x2001_0DB8_1234_5678_9ABC_DEF0_1122_3344, u128::MAX] {
        let nest = |len| (true, Route { prefix: network(addr, len, 128), len, value: len.into() });
        let mut changes: Vec<_> = (0..=128).map(nest).collect();
        changes.extend((0..=128).rev().map(nest).map(|(_, route)| (false, route)));
        changes.extend((0..=128).rev().map(nest));
        follow(Table6::new(), &changes);
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
    assert_eq!(table.remove(1 << 64, 128), Ok(Some(7)));
    assert_eq!((table.nodes(), table.lookup(1)), (1, Some(1)));
    assert_eq!(table.remove(1, 128), Ok(Some(1)));
    assert_eq!(table.nodes(), 0);
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
}

#[test]
fn a_full_table_agrees_with_another_way_to_search_it() {
    let routes = fib::synthetic::table4(50_000, 64, 1);
    let table = Table4::from_routes(routes.iter().copied()).unwrap();
    let mut grown = Table4::new();
    for route in &routes {
        grown.insert(route.prefix, route.len, route.value).unwrap();
    }
    let mut random = fib::synthetic::Random::new(2);
    for n in 0..200_000 {
        let near = routes[random.below(routes.len() as u64) as usize];
        let addr =
            if n % 4 == 0 { random.next_u64() as u32 } else { near.prefix ^ random.below(1 << 10) as u32 };
        let expected = table.route(addr).map(|route| route.value);
        assert_eq!(table.lookup(addr), expected, "{addr:#x}");
        assert_eq!(grown.lookup(addr), expected, "{addr:#x}");
    }
}
