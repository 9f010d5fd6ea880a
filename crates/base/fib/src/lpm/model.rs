//! For tests: the plainest table, which all others must agree with, and families of
//! addresses whose tables are small.

use super::routes::Bits;
use super::{Address, Lookup4, Lookup6, Prefixes, Route};
use crate::scheme::Scheme;
use proptest::prelude::*;

/// A list of routes that is searched from end to end.
#[derive(Clone, Debug)]
pub(crate) struct Model<A>(pub(crate) Vec<Route<A>>);

impl<A: Address> Model<A> {
    pub(crate) fn insert(&mut self, route: Route<A>) -> Option<u32> {
        let old = self.remove(route.prefix, route.len);
        self.0.push(route);
        old
    }

    pub(crate) fn remove(&mut self, prefix: A, len: u8) -> Option<u32> {
        let at = self.0.iter().position(|route| (route.prefix, route.len) == (prefix, len))?;
        Some(self.0.swap_remove(at).value)
    }

    /// The longest route that covers `addr`.
    pub(crate) fn route(&self, addr: A) -> Option<Route<A>> {
        let covers = |route: &&Route<A>| addr.network(route.len) == route.prefix;
        self.0.iter().filter(covers).max_by_key(|route| route.len).copied()
    }

    pub(crate) fn lookup(&self, addr: A) -> Option<u32> {
        self.route(addr).map(|route| route.value)
    }

    pub(crate) fn sorted(&self) -> Vec<Route<A>> {
        let mut routes = self.0.clone();
        routes.sort();
        routes
    }
}

/// An IPv4 address of 18 bits: 2 + 2 + 6 + 8 in place of 16 + 2 + 6 + 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Small4(pub(crate) u32);

impl Small4 {
    /// As the last bits of a number, behind which an address of 32 bits has others.
    const SHIFT: u32 = 32 - Self::WIDTH;
}

impl From<Small4> for u32 {
    fn from(Small4(addr): Small4) -> u32 {
        addr
    }
}

impl Bits for Small4 {
    const WIDTH: u32 = 18;
    fn network(self, len: u8) -> Self {
        Small4((self.0 << Self::SHIFT).network(len) >> Self::SHIFT)
    }
    fn last(self, len: u8) -> Self {
        Small4((self.0 << Self::SHIFT).last(len) >> Self::SHIFT)
    }
    fn slot(self, offset: u8, stride: u8) -> usize {
        (self.0 << Self::SHIFT).slot(offset, stride)
    }
    fn common(self, other: Self) -> u8 {
        (self.0 << Self::SHIFT).common(other.0 << Self::SHIFT)
    }
    fn advance(self, slot: usize, shift: u8) -> Self {
        Small4(self.0.advance(slot, shift))
    }
}

impl Scheme for Small4 {
    type Key = Small4;
    type Rule = (Small4, u8);
    type Lookup = Lookup4<4>;
}

impl Address for Small4 {}

/// An IPv6 address in tables whose first part is of six bits in place of eighteen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Small6(pub(crate) u128);

impl From<Small6> for u128 {
    fn from(Small6(addr): Small6) -> u128 {
        addr
    }
}

impl Bits for Small6 {
    const WIDTH: u32 = 128;
    fn network(self, len: u8) -> Self {
        Small6(self.0.network(len))
    }
    fn last(self, len: u8) -> Self {
        Small6(self.0.last(len))
    }
    fn slot(self, offset: u8, stride: u8) -> usize {
        self.0.slot(offset, stride)
    }
    fn common(self, other: Self) -> u8 {
        self.0.common(other.0)
    }
    fn advance(self, slot: usize, shift: u8) -> Self {
        Small6(self.0.advance(slot, shift))
    }
}

impl Scheme for Small6 {
    type Key = Small6;
    type Rule = (Small6, u8);
    type Lookup = Lookup6<6, 36>;
}

impl Address for Small6 {}

/// Like IPv4, with one group: 2 + 6 + 8 bits in place of 16 + 2 + 6 + 8.
impl Scheme for u16 {
    type Key = u16;
    type Rule = (u16, u8);
    type Lookup = Lookup4<1>;
}

impl Address for u16 {}

/// Addresses that tests make up.
pub(crate) trait Invented: Address {
    /// The address that begins as these 128 bits do.
    fn of(bits: u128) -> Self;
    /// This address and the next and the last before it, going round.
    fn around(self) -> [Self; 3];
}

macro_rules! invented {
    ($int:ty) => {
        impl Invented for $int {
            fn of(bits: u128) -> Self {
                (bits >> (128 - Self::WIDTH)) as $int
            }
            fn around(self) -> [Self; 3] {
                [self, self.wrapping_add(1), self.wrapping_sub(1)]
            }
        }
    };
}
invented!(u16);
invented!(u32);
invented!(u128);

impl Invented for Small4 {
    fn of(bits: u128) -> Self {
        Small4((bits >> 110) as u32)
    }
    fn around(self) -> [Self; 3] {
        [0, 1, (1 << Self::WIDTH) - 1].map(|by| Small4((self.0 + by) % (1 << Self::WIDTH)))
    }
}

impl Invented for Small6 {
    fn of(bits: u128) -> Self {
        Small6(bits)
    }
    fn around(self) -> [Self; 3] {
        self.0.around().map(Small6)
    }
}

/// Prefixes crowded under few others, so that they nest and meet.
pub(crate) fn prefixes<A: Invented>(most: usize) -> impl Strategy<Value = Vec<(A, u8)>> {
    let (bits, root) = (A::WIDTH as u8, A::Lookup::ROOT_BITS);
    let near_root = root.saturating_sub(3)..=(root + 8).min(bits);
    let nodes = A::Lookup::NODE_BITS;
    let near_nodes = nodes.saturating_sub(3)..=(nodes + 3).min(bits);
    let near = prop_oneof![near_root, near_nodes];
    let len = prop_oneof![4 => 0..=bits, 3 => near, 1 => Just(bits), 1 => bits - 7..=bits];
    let prefix = (0..4u128, any::<u128>(), 0..=bits, len).prop_map(move |(seed, noise, keep, len)| {
        let base = seed.wrapping_mul(0x4A6F_91D3_0217_73C5_9999_0F0F_55AA_1234) >> 3;
        (A::of(base ^ noise.checked_shr(keep.into()).unwrap_or(0)).network(len), len)
    });
    prop::collection::vec(prefix, 1..most)
}

/// Where the tables' steps begin and end, and the addresses around them.
pub(crate) fn probes<A: Invented>(prefixes: impl Iterator<Item = (A, u8)>) -> Vec<A> {
    let mut probes = vec![A::of(0), A::of(u128::MAX), A::of(u128::MAX / 3)];
    for (prefix, len) in prefixes {
        probes.extend(prefix.around());
        probes.extend(prefix.last(len).around());
    }
    probes
}
