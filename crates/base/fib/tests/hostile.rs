//! Floods and flaps: memory stays in proportion to the routes there are.
#![allow(clippy::unwrap_used)]

use fib::Error;
use fib::lpm::{Table4, Table6};
use fib::synthetic::Random;

const ROUTES: usize = 40_000;

/// The longest prefixes, as far from each other as can be: all they need is their own.
#[test]
fn scattered_long_routes_take_no_more_than_promised() {
    let mut random = Random::new(1);
    let mut table = Table4::with_limit(ROUTES);
    let empty = table.memory().lookup;
    let refused = (0..2 * ROUTES).find_map(|_| table.insert(random.next_u64() as u32, 32, 1).err());
    let refused = refused.expect("there is a limit");
    assert_eq!(refused, Error::Full { limit: ROUTES });
    let each = (table.memory().lookup - empty) / ROUTES;
    assert!(each <= 512, "{each} bytes a route");

    let mut table = Table6::with_limits(ROUTES, 2 * ROUTES);
    let empty = table.memory().lookup;
    let refused = (0..2 * ROUTES).find_map(|_| table.insert(random.next_u128(), 128, 1).err());
    let refused = refused.expect("there is a limit");
    assert!(matches!(refused, Error::Full { .. } | Error::Nodes { .. }));
    assert!(table.len() > ROUTES * 9 / 10 && table.nodes() <= 2 * ROUTES);
    let each = (table.memory().lookup - empty) / table.len();
    assert!(each <= 384, "{each} bytes a route");
}

/// The routes that need most: each in a /16 of its own, over half of it, with a value too wide
/// for any code.
#[test]
fn routes_that_take_the_most_take_no_more_than_promised() {
    let mut table = Table4::new();
    let empty = table.memory().lookup;
    for n in 0..1u32 << 16 {
        table.insert(n << 16 | (n & 1) << 15, 17, 1 << 20 | n).unwrap();
        let each = (table.memory().lookup - empty) / (n as usize + 1);
        assert!(n < 1000 || each <= 2048, "{each} bytes each of {n} routes");
    }
    // The other halves, and all /24s of a part: the most that there is for routes of 24 bits.
    for n in 0..1u32 << 16 {
        table.insert(n << 16 | (!n & 1) << 15, 17, 1 << 21 | n).unwrap();
    }
    for n in 0..1u32 << 16 {
        table.insert(n << 8, 24, 1 << 22 | n).unwrap();
    }
    assert!(table.memory().lookup < 176 << 20, "{} bytes", table.memory().lookup);
    for n in 0..1u32 << 20 {
        let addr = n << 12;
        assert_eq!(table.lookup(addr), table.route(addr).map(|route| route.value));
    }
}

/// Ranges that come by the thousand and go but for a few: their trees are built anew.
#[test]
fn ranges_that_go_leave_no_memory_behind() {
    let mut table = Table6::new();
    let empty = table.memory().lookup;
    let prefix = |n: u128| 0x2001_0DB8 << 96 | n << 80;
    for n in 0..1 << 16 {
        table.insert(prefix(n), 48, (n % 7) as u32).unwrap();
    }
    let full = table.memory().lookup - empty;
    for n in (0..1 << 16).filter(|n| n % 64 != 0) {
        table.remove(prefix(n), 48).unwrap();
    }
    let few = table.memory().lookup - empty;
    assert!(few < full / 4, "{few} bytes of {full}");
    for n in 0..1 << 16 {
        let expected = (n % 64 == 0).then_some((n % 7) as u32);
        assert_eq!((table.lookup(prefix(n)), table.lookup(prefix(n) | 1 << 79)), (expected, expected));
    }
}

/// Groups of ever other sizes: what is freed is not lost.
#[test]
fn flaps_do_not_pile_up_memory() {
    let mut table = Table4::new();
    let mut most = 0;
    for round in 0..40u32 {
        for n in 0..20_000u32 {
            // In each block as many routes as the round says, then all gone.
            let prefix = (n / 20 % 1000) << 14 | (n % 20 * (round % 3 + 1)) << 8;
            if n % 20 <= round % 20 {
                table.insert(prefix, 24 + (round % 2 * 4) as u8, n % 7).unwrap();
            }
        }
        most = most.max(table.memory().lookup);
        let routes: Vec<_> = table.iter().collect();
        for route in routes {
            assert_eq!(table.remove(route.prefix, route.len), Ok(Some(route.value)));
        }
    }
    let first = Table4::new().memory().lookup;
    assert!(table.is_empty() && most - first < 8 << 20, "{} bytes", most - first);
}

/// All routes below a few roots, so that nodes are full; then away in another order.
#[test]
fn tables_survive_being_copied_together() {
    let mut random = Random::new(3);
    let mut table = Table6::new();
    let mut routes = Vec::new();
    for n in 0..60_000u32 {
        let addr = 0x2001_0DB8 << 96 | random.next_u128() >> 100 << 60;
        let len = 40 + random.below(28) as u8;
        let prefix = addr >> (128 - len) << (128 - len);
        if table.insert(prefix, len, n).unwrap().is_none() {
            routes.push((prefix, len));
        }
    }
    let full = table.memory().lookup;
    for (n, &(prefix, len)) in routes.iter().enumerate() {
        assert!(table.remove(prefix, len).unwrap().is_some());
        if n % 1000 == 0 {
            let (probe, _) = routes[random.below(routes.len() as u64) as usize];
            assert_eq!(table.lookup(probe), table.route(probe).map(|route| route.value));
        }
    }
    assert!(table.is_empty() && table.nodes() == 0);
    assert!(table.memory().lookup < full);
}
