//! Route tables like those of a router in the default-free zone, made from a seed.
//!
//! Prefix lengths are shared out as in the public collectors' tables of the mid
//! twenties; a prefix lies anywhere, in the same holding as another, or beside another,
//! as holdings are split and announced piece by piece. Next hops are random, which is
//! worse for any table than a real router's few. Meant for benchmarks and tests.

use crate::lpm::Route;
use std::collections::HashSet;

/// Of a hundred thousand IPv4 routes, how many are of which length.
const SHARES_4: [(u8, u32); 19] = [
    (8, 2),
    (9, 2),
    (10, 4),
    (11, 10),
    (12, 30),
    (13, 60),
    (14, 120),
    (15, 210),
    (16, 1_370),
    (17, 850),
    (18, 1_400),
    (19, 2_500),
    (20, 4_600),
    (21, 5_300),
    (22, 11_500),
    (23, 10_200),
    (24, 61_700),
    (29, 80),
    (32, 62),
];

/// Of a hundred thousand IPv6 routes, how many are of which length.
const SHARES_6: [(u8, u32); 18] = [
    (20, 10),
    (24, 30),
    (28, 150),
    (29, 2_600),
    (30, 300),
    (31, 200),
    (32, 11_500),
    (33, 3_200),
    (34, 2_200),
    (35, 900),
    (36, 4_600),
    (38, 1_200),
    (40, 9_000),
    (42, 2_400),
    (44, 8_400),
    (46, 4_300),
    (48, 48_700),
    (64, 310),
];

/// Numbers that follow from a seed alone (splitmix64).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers that follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// The next 128 bits.
    pub fn next_u128(&mut self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }

    fn pick(&mut self, shares: &[(u8, u32)]) -> u8 {
        let all: u32 = shares.iter().map(|&(_, share)| share).sum();
        let mut left = self.below(all.into()) as u32;
        for &(len, share) in shares {
            match left.checked_sub(share) {
                Some(rest) => left = rest,
                None => return len,
            }
        }
        unreachable!("the shares add up to their sum")
    }
}

/// `count` IPv4 routes (below two million) to `hops` next hops, in random order.
pub fn table4(count: usize, hops: u32, seed: u64) -> Vec<Route<u32>> {
    let mut random = Random::new(seed);
    let (mut seen, mut routes) = (HashSet::new(), Vec::<Route<u32>>::with_capacity(count));
    while routes.len() < count {
        let len = random.pick(&SHARES_4);
        let fresh = random.next_u64() as u32;
        let near = routes.get(random.below(routes.len().max(1) as u64) as usize).map(|route| route.prefix);
        // Of four, one is new, one is in the same holding as another, two are the
        // neighbours of another.
        let addr = match (random.below(4), near) {
            (0, _) | (_, None) => fresh,
            (1, Some(near)) => near ^ fresh >> 18,
            (_, Some(near)) => near.wrapping_add((1 + random.below(4) as u32) << (32 - len)),
        };
        let prefix = addr & !(u32::MAX >> 1 >> (len - 1));
        // Unicast only, without 0/8, 10/8 and 127/8.
        if matches!(prefix >> 24, 0 | 10 | 127 | 224..) || !seen.insert((prefix, len)) {
            continue;
        }
        routes.push(Route { prefix, len, value: random.below(hops.into()) as u32 });
    }
    routes
}

/// `count` IPv6 routes (below one million) to `hops` next hops, in random order.
pub fn table6(count: usize, hops: u32, seed: u64) -> Vec<Route<u128>> {
    /// What the regional registries give addresses from.
    const REGISTRIES: [u128; 8] = [0x2001, 0x2400, 0x2404, 0x2600, 0x2604, 0x2800, 0x2a00, 0x2c0f];
    let mut random = Random::new(seed);
    let (mut seen, mut routes) = (HashSet::new(), Vec::<Route<u128>>::with_capacity(count));
    while routes.len() < count {
        let len = random.pick(&SHARES_6);
        let fresh = random.next_u128();
        let registry = REGISTRIES[random.below(8) as usize] << 112;
        let near = routes.get(random.below(routes.len().max(1) as u64) as usize).map(|route| route.prefix);
        // Of eight, one is new, three are inside the same holding as another, four are the
        // neighbours of another.
        let addr = match (random.below(8), near) {
            (0, _) | (_, None) => registry | fresh >> 16 & (u128::MAX >> 14),
            (1..4, Some(near)) => near ^ fresh >> 32,
            (_, Some(near)) => near.wrapping_add((1 + u128::from(random.below(4))) << (128 - len)),
        };
        let prefix = addr & !(u128::MAX >> 1 >> (len - 1));
        if prefix >> 125 != 1 || !seen.insert((prefix, len)) {
            continue;
        }
        routes.push(Route { prefix, len, value: random.below(hops.into()) as u32 });
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_one_table() {
        assert_eq!(table4(1000, 64, 1), table4(1000, 64, 1));
        assert_ne!(table4(1000, 64, 1), table4(1000, 64, 2));
        assert_eq!(table6(1000, 64, 1), table6(1000, 64, 1));
    }

    #[test]
    fn lengths_are_shared_out_as_in_a_full_table() {
        let routes = table4(20_000, 64, 3);
        let share = |len| routes.iter().filter(|route| route.len == len).count() * 100 / routes.len();
        assert!((58..=65).contains(&share(24)), "{}", share(24));
        assert!((9..=14).contains(&share(22)), "{}", share(22));
        assert!(routes.iter().all(|route| route.value < 64));
    }
}
