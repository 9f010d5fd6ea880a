//! A table that threads share: a cache of it says what the table would say, and takes the
//! lock only when it must.

use std::net::Ipv4Addr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use neighbor::{Cache, Limits, Resolution, Resolver, SyncTable, Table};
use proptest::prelude::*;
use wire::MacAddress;

const SECOND_NS: i64 = 1_000_000_000;

#[derive(Debug, Clone)]
enum Action {
    Lookup(u8),
    /// Somebody says who has an address; or that nobody has.
    Say(u8, Option<u8>),
    Wait(i64),
    Expire,
    Clear,
}

fn act() -> impl Strategy<Value = Action> {
    prop_oneof![
        12 => (0..10_u8).prop_map(Action::Lookup),
        3 => (0..10_u8, prop::option::weighted(0.8, 0..4_u8)).prop_map(|(a, m)| Action::Say(a, m)),
        3 => (0..2 * SECOND_NS).prop_map(Action::Wait),
        1 => Just(Action::Expire),
        1 => Just(Action::Clear),
    ]
}

/// Hosts, the address of a subnet's broadcasts, that of none, and a group.
fn address(n: u8) -> Ipv4Addr {
    match n {
        7 => Ipv4Addr::new(10, 0, 0, 255),
        8 => Ipv4Addr::UNSPECIFIED,
        9 => Ipv4Addr::new(224, 0, 0, 9),
        _ => Ipv4Addr::new(10, 0, 0, n),
    }
}

fn mac(n: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, n])
}

fn resolver(poll_ns: i64) -> Resolver<Ipv4Addr> {
    let broadcast = Some(address(7));
    Resolver { poll_ns, broadcast, ..Resolver::new(mac(9), Ipv4Addr::new(10, 0, 0, 9)) }
}

fn limits(timeout_ns: i64) -> Limits {
    Limits { addresses: 6, timeout_ns, ..Limits::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_cache_says_what_the_table_says(
        acts in prop::collection::vec(act(), 1..200),
        timeout_ns in prop_oneof![Just(0), Just(5 * SECOND_NS)],
        poll_ns in prop_oneof![Just(0), Just(2 * SECOND_NS)],
    ) {
        let resolver = resolver(poll_ns);
        let mut plain = Table::new(limits(timeout_ns));
        let shared = SyncTable::new(Table::new(limits(timeout_ns)));
        let mut cache = Cache::default();
        let mut now_ns = SECOND_NS;
        for act in acts {
            match act {
                Action::Lookup(n) => {
                    let expected = resolver.lookup(&mut plain, address(n), now_ns);
                    prop_assert_eq!(cache.lookup(&shared, &resolver, address(n), now_ns), expected);
                }
                Action::Say(n, who) => {
                    plain.insert(address(n), who.map(mac), now_ns, &mut vec![]);
                    shared.lock().insert(address(n), who.map(mac), now_ns, &mut vec![]);
                }
                Action::Wait(ns) => now_ns += ns,
                Action::Expire => {
                    plain.expire(now_ns, &mut vec![]);
                    shared.lock().expire(now_ns, &mut vec![]);
                }
                Action::Clear => {
                    plain.clear(&mut vec![]);
                    shared.lock().clear(&mut vec![]);
                }
            }
        }
    }
}

/// What a thread is told of an address that it knows while another holds the lock, also
/// after answers that say nothing new.
#[test]
fn what_is_known_takes_no_lock() {
    let table = Arc::new(SyncTable::new(Table::new(Limits::default())));
    let resolver = resolver(60 * SECOND_NS);
    table.lock().insert(address(1), Some(mac(1)), 0, &mut vec![]);
    let mut cache = Cache::default();
    for n in [1, 9] {
        assert!(matches!(cache.lookup(&table, &resolver, address(n), 0), Resolution::Known(_)));
    }
    table.lock().insert(address(1), Some(mac(1)), 1, &mut vec![]);
    table.lock().insert(address(2), Some(mac(2)), 1, &mut vec![]);
    let locked = table.lock();
    let (sender, answer) = mpsc::channel();
    let other = table.clone();
    let looks = std::thread::spawn(move || {
        let found = [1, 9].map(|n| cache.lookup(&other, &resolver, address(n), 2));
        sender.send(found).unwrap();
    });
    let found = answer.recv_timeout(Duration::from_secs(20));
    drop(locked);
    looks.join().unwrap();
    let [host, group] = found.expect("an answer while the table was locked");
    assert_eq!(host, Resolution::Known(mac(1)));
    assert_eq!(group, Resolution::Known(MacAddress([1, 0, 0x5E, 0, 0, 9])));
}

/// What became wrong is not told again, by any thread's cache.
#[test]
fn a_new_address_comes_to_every_cache() {
    let table = SyncTable::new(Table::new(Limits::default()));
    let resolver = resolver(60 * SECOND_NS);
    let mut caches = [Cache::default(), Cache::default()];
    for (now_ns, n) in [(0, 1), (1, 2)] {
        table.lock().insert(address(1), Some(mac(n)), now_ns, &mut vec![]);
        for cache in &mut caches {
            assert_eq!(cache.lookup(&table, &resolver, address(1), now_ns), Resolution::Known(mac(n)));
        }
    }
    let mut another = Table::new(Limits::default());
    another.insert(address(1), Some(mac(3)), 2, &mut vec![]);
    table.lock().adopt(&mut another);
    for cache in &mut caches {
        assert_eq!(cache.lookup(&table, &resolver, address(1), 3), Resolution::Known(mac(3)));
    }
}
