//! Routes as rules: what a prefix is, and what lookup parts ask of all routes.

use super::Route;
use crate::error::{Error, Result};
use crate::rules::{Rule, Rules};
use std::fmt::Debug;

/// Longer routes passed one by one before the map is searched for what follows them.
const PASSED: usize = 8;

/// An address as a number: `u32` or `u128`.
pub trait Bits: Copy + Ord + Debug + Send + Sync + 'static {
    /// Bits of an address.
    const WIDTH: u32;
    /// The address with all bits after the first `len` clear.
    fn network(self, len: u8) -> Self;
    /// The last address that begins with the first `len` bits of this one.
    fn last(self, len: u8) -> Self;
    /// The `stride` bits after the first `offset`, zeros behind the address's end.
    fn slot(self, offset: u8, stride: u8) -> usize;
    /// How many first bits two addresses have in common.
    fn common(self, other: Self) -> u8;
    /// The address `slot` slots of `1 << shift` addresses further on.
    fn advance(self, slot: usize, shift: u8) -> Self;
}

macro_rules! bits {
    ($int:ty) => {
        impl Bits for $int {
            const WIDTH: u32 = <$int>::BITS;
            fn network(self, len: u8) -> Self {
                self & !<$int>::MAX.checked_shr(len.into()).unwrap_or(0)
            }
            fn last(self, len: u8) -> Self {
                self | <$int>::MAX.checked_shr(len.into()).unwrap_or(0)
            }
            fn slot(self, offset: u8, stride: u8) -> usize {
                ((self << offset) >> (Self::WIDTH - u32::from(stride))) as usize
            }
            fn common(self, other: Self) -> u8 {
                (self ^ other).leading_zeros() as u8
            }
            fn advance(self, slot: usize, shift: u8) -> Self {
                self + ((slot as $int) << shift)
            }
        }
    };
}
bits!(u32);
bits!(u128);
#[cfg(test)]
bits!(u16);

impl<A: Bits> Rule for (A, u8) {
    fn check(self) -> Result<()> {
        let (prefix, len) = self;
        if u32::from(len) > A::WIDTH {
            return Err(Error::Length { len, max: A::WIDTH as u8 });
        }
        if prefix.network(len) != prefix {
            return Err(Error::HostBits { len });
        }
        Ok(())
    }
}

/// Routes: a sorted map from (prefix, length), so that a route comes before those inside
/// it.
pub(crate) type Routes<A> = Rules<(A, u8)>;

impl<A: Bits> Routes<A> {
    /// The longest route of at most `len` bits that covers `address`.
    pub(crate) fn covering(&self, address: A, len: u8) -> Option<Route<A>> {
        self.covering_between(address, 0, len)
    }

    /// The longest route of `shortest` to `len` bits that covers `address`: as many searches as
    /// ways part in them, at most.
    pub(super) fn covering_between(&self, address: A, shortest: u8, mut len: u8) -> Option<Route<A>> {
        loop {
            let first = (address.network(shortest), shortest);
            let last = (address.network(len), len);
            let (&(prefix, found), ruled) = self.map.range(first..=last).next_back()?;
            let common = address.common(prefix);
            if found <= common {
                return Some(Route { prefix, len: found, value: ruled.value });
            }
            // What covers the address begins before this one, which is so in it as well.
            len = common;
            if len < shortest {
                return None;
            }
        }
    }

    /// Tells of the routes in `start`'s first `len` bits, in order, but for itself and those of
    /// more than `longest` bits, crowds of which are passed by.
    pub(crate) fn visit(&self, (start, len): (A, u8), longest: u8, mut route: impl FnMut((A, u8), u32)) {
        let end = start.last(len);
        let mut from = (start, len + 1);
        'search: loop {
            let mut passed = 0;
            for (&(prefix, len), ruled) in self.map.range(from..=(end, u8::MAX)) {
                if len <= longest {
                    route((prefix, len), ruled.value);
                    passed = 0;
                    continue;
                }
                passed += 1;
                if prefix.last(longest) == end {
                    return;
                }
                if passed == PASSED {
                    from = (prefix.network(longest).advance(1, A::WIDTH as u8 - longest), 0);
                    continue 'search;
                }
            }
            return;
        }
    }

    /// Paints the routes of `offset + 1` to `offset + stride` bits that lie in `start`'s
    /// first `offset` bits over `slots`, in stored form, and tells `deep` each slot in
    /// which there are longer ones (some more than once).
    ///
    /// Takes at most `slots.len() * PASSED` steps and as many searches as there are
    /// slots, however many longer routes there are.
    pub(crate) fn paint(
        &self,
        start: A,
        offset: u8,
        stride: u8,
        slots: &mut [u32],
        mut deep: impl FnMut(usize),
    ) {
        let end = (start.last(offset), u8::MAX);
        let longest = offset + stride;
        let mut from = (start, offset + 1);
        'search: loop {
            let mut passed = 0;
            for (&(prefix, len), ruled) in self.map.range(from..=end) {
                let first = prefix.slot(offset, stride);
                if len <= longest {
                    slots[first..][..1 << (longest - len)].fill(stored(ruled.value));
                    passed = 0;
                    continue;
                }
                deep(first);
                passed += 1;
                if first + 1 == slots.len() {
                    return;
                }
                if passed == PASSED {
                    from = (start.advance(first + 1, A::WIDTH as u8 - longest), offset + 1);
                    continue 'search;
                }
            }
            return;
        }
    }
}

/// A value as slots hold it: 0 is for none.
pub(super) fn stored(value: u32) -> u32 {
    value + 1
}

/// The value that a slot holds.
#[inline(always)]
pub(super) fn value(stored: u32) -> Option<u32> {
    stored.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paint_tells_longer_routes_apart_and_skips_crowds() {
        let mut routes = Routes::<u32>::new(10_000);
        routes.insert((0, 16), 99);
        routes.insert((0x0000_4000, 18), 98);
        routes.insert((0x0000_4000, 20), 0);
        routes.insert((0x0000_4500, 24), 1);
        for n in 0..256 {
            routes.insert((0x0000_4600 + n, 32), 7);
        }
        routes.insert((0x0000_4700, 24), 2);
        routes.insert((0x0000_8000, 24), 3);
        let (mut slots, mut deep) = ([0; 64], 0u64);
        routes.paint(0x4000, 18, 6, &mut slots, |slot| deep |= 1 << slot);
        assert_eq!(deep, 1 << 6);
        assert_eq!(slots[..9], [1, 1, 1, 1, 1, 2, 1, 3, 1]);
        assert_eq!(slots[16..], [0; 48]);
    }

    #[test]
    fn a_visit_skips_crowds_of_longer_routes_only() {
        let mut routes = Routes::<u32>::new(10_000);
        for (prefix, len) in [(0, 8), (0, 16), (0x0010_0000, 12), (0x00FF_0000, 16), (0x0100_0000, 16)] {
            routes.insert((prefix, len), prefix >> 16);
        }
        for n in 0..1000 {
            routes.insert((n, 32), 7);
            routes.insert((0x0011_0000 + (n << 8), 24), 7);
            routes.insert((0x00FF_FC18 + n, 32), 7);
        }
        let mut seen = vec![];
        routes.visit((0, 8), 16, |route, value| seen.push((route, value)));
        assert_eq!(seen, [((0, 16), 0), ((0x0010_0000, 12), 0x10), ((0x00FF_0000, 16), 0xFF)]);
    }

    #[test]
    fn covering_finds_the_longest() {
        let mut routes = Routes::<u32>::new(10);
        assert_eq!(routes.covering(5, 32), None);
        routes.insert((0, 0), 1);
        routes.insert((0x0A00_0000, 8), 2);
        assert_eq!(routes.covering(0x0A01_0000, 32), Some(Route { prefix: 0x0A00_0000, len: 8, value: 2 }));
        assert_eq!(routes.covering(0x0A01_0000, 7), Some(Route { prefix: 0, len: 0, value: 1 }));
        // Neighbours that are in the way.
        for prefix in [0x0A00_8000, 0x0A00_C000, 0x0A00_FF00] {
            routes.insert((prefix, 24), 3);
        }
        assert_eq!(routes.covering(0x0A01_0000, 32), Some(Route { prefix: 0x0A00_0000, len: 8, value: 2 }));
        assert_eq!(routes.covering(0x0A00_C001, 23), Some(Route { prefix: 0x0A00_0000, len: 8, value: 2 }));
        assert_eq!(routes.covering(0x0A00_C001, 32), Some(Route { prefix: 0x0A00_C000, len: 24, value: 3 }));
        assert_eq!(routes.covering(0x0B00_0000, 32), Some(Route { prefix: 0, len: 0, value: 1 }));
    }
}
