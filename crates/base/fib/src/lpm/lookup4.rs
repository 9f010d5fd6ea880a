//! IPv4: two memory accesses, of which the first is to a table that stays in the nearer
//! caches, for all addresses but those in a /24 with longer routes.
//!
//! Tests have it of addresses of 18 bits as well, whose first part is of two bits: what
//! is said of /16s here is true of /2s there, of /24s of /10s, and of 32 bits of 18.
//!
//! What is looked up is made from what is stored in `routes`; `follow` keeps the
//! two equal. See the module above for the picture.

use super::codes::Codes;
use super::group::{Code, QUARTER, SLOTS};
use super::routes::{Bits, Routes, stored, value};
use super::{Address, Prefixes, Route};
use crate::scheme::{Lookup, Memory};

/// Bits of an address that choose a quarter of a group, and a slot of a quarter.
const QUARTER_BITS: u8 = 2;
const SLOT_BITS: u8 = 6;
/// Lookups that are in flight together in a batch.
const LANES: usize = 128;
/// The same for what is left over.
const FEW: usize = 16;

/// What lookups of IPv4 addresses read: codes of one byte as long as that is enough for most.
#[derive(Clone, Debug)]
enum Width<const TOPS: usize> {
    Narrow(Codes<u8, TOPS>),
    Wide(Codes<u16, TOPS>),
}

/// Does the same with codes of either width.
macro_rules! with {
    ($width:expr, $codes:ident => $what:expr) => {
        match $width {
            Width::Narrow($codes) => $what,
            Width::Wide($codes) => $what,
        }
    };
}

/// What lookups of IPv4 addresses read, and the covers' lengths, which changes need.
#[derive(Clone, Debug)]
pub struct Lookup4<const TOPS: usize = { 1 << 16 }> {
    width: Width<TOPS>,
    /// By /16: 1 + the length of the cover's route, 0 for none.
    cover_lens: Box<[u8]>,
}

impl<const TOPS: usize> Prefixes for Lookup4<TOPS> {
    const ROOT_BITS: u8 = Self::TOP_LEN;
}

impl<A: Address + Into<u32>, const TOPS: usize> Lookup<A> for Lookup4<TOPS> {
    fn new() -> Self {
        Lookup4 { width: Width::Narrow(Codes::new()), cover_lens: vec![0; TOPS].into() }
    }

    fn fill(&mut self, routes: &Routes<A>) {
        *self = <Self as Lookup<A>>::new();
        let (mut quarter, mut sub) = (None, None);
        for ((prefix, len), value) in routes.iter() {
            if len <= Self::TOP_LEN {
                self.cover(Route { prefix, len, value });
                continue;
            }
            for start in Self::quarters_of(prefix, len) {
                if quarter.replace(start) != Some(start) {
                    self.paint_quarter(routes, start);
                }
            }
            let slot = prefix.network(Self::SLOT_LEN);
            if len > Self::SLOT_LEN && sub.replace(slot) != Some(slot) {
                with!(&mut self.width, codes => codes.paint_sub(routes, slot));
            }
        }
        with!(&mut self.width, codes => codes.compact());
    }

    fn follow(&mut self, routes: &Routes<A>, (prefix, len): (A, u8)) {
        if len <= Self::TOP_LEN {
            match routes.value((prefix, len)) {
                Some(value) => self.cover(Route { prefix, len, value }),
                None => self.uncover(routes, prefix, len),
            }
            return;
        }
        for start in Self::quarters_of(prefix, len) {
            self.paint_quarter(routes, start);
        }
        with!(&mut self.width, codes => {
            if len > Self::SLOT_LEN {
                codes.paint_sub(routes, prefix.network(Self::SLOT_LEN));
            }
            if codes.wasteful() {
                codes.compact();
            }
        });
    }

    fn memory(&self) -> Memory {
        Memory { lookup: with!(&self.width, codes => codes.bytes()), rules: TOPS }
    }

    #[inline]
    fn lookup(&self, addr: A) -> Option<u32> {
        value(with!(&self.width, codes => codes.lookup(addr.into())))
    }

    // Inlined, the code depends on the caller's: a few instructions more for each address.
    #[inline(never)]
    fn lookup_batch(&self, addrs: &[A], values: &mut [u32]) {
        with!(&self.width, codes => lookup_batch(codes, addrs, values));
    }
}

#[inline(always)]
fn lookup_batch<C: Code, A: Bits + Into<u32>, const TOPS: usize>(
    codes: &Codes<C, TOPS>,
    addrs: &[A],
    values: &mut [u32],
) {
    // Not zipped: a zip of slices begins with a call that is not inlined everywhere.
    let (rows, addrs) = addrs.as_chunks::<LANES>();
    let (row_values, values) = values[..rows.len() * LANES + addrs.len()].as_chunks_mut::<LANES>();
    for (row, addrs) in rows.iter().enumerate() {
        codes.lookup_row(addrs, &mut row_values[row]);
    }
    let (rows, addrs) = addrs.as_chunks::<FEW>();
    let (row_values, values) = values.as_chunks_mut::<FEW>();
    for (row, addrs) in rows.iter().enumerate() {
        codes.lookup_row(addrs, &mut row_values[row]);
    }
    for (&addr, value) in addrs.iter().zip(values) {
        *value = codes.lookup(addr.into()).wrapping_sub(1);
    }
}

impl<const TOPS: usize> Lookup4<TOPS> {
    /// Bits of a top's prefix: 16 of IPv4.
    const TOP_LEN: u8 = TOPS.ilog2() as u8;
    /// Bits of a quarter's prefix: 18 of IPv4.
    const QUARTER_LEN: u8 = Self::TOP_LEN + QUARTER_BITS;
    /// Bits of a slot's prefix: 24 of IPv4.
    const SLOT_LEN: u8 = Self::QUARTER_LEN + SLOT_BITS;

    /// The first addresses of the quarters in which a route of more than 16 bits is.
    fn quarters_of<A: Bits>(prefix: A, len: u8) -> impl Iterator<Item = A> {
        let first = prefix.network(Self::QUARTER_LEN);
        let shift = A::WIDTH as u8 - Self::QUARTER_LEN;
        (0..1 << Self::QUARTER_LEN.saturating_sub(len)).map(move |at| first.advance(at, shift))
    }

    /// The tops that a route of at most 16 bits covers.
    fn tops_of(prefix: u32, len: u8) -> std::ops::Range<usize> {
        let first = (prefix >> 16) as usize;
        first..first + (1 << (Self::TOP_LEN - len))
    }

    fn cover<A: Into<u32>>(&mut self, route: Route<A>) {
        let tops = Self::tops_of(route.prefix.into(), route.len);
        with!(&mut self.width, codes => for (top, len) in tops.clone().zip(&mut self.cover_lens[tops]) {
            if *len <= route.len + 1 {
                *len = route.len + 1;
                codes.set_cover(top, stored(route.value));
            }
        });
        self.widen_if_crowded();
    }

    /// Gives what the removed route covered to the next shorter one.
    fn uncover<A: Bits + Into<u32>>(&mut self, routes: &Routes<A>, prefix: A, len: u8) {
        let shorter = len.checked_sub(1).and_then(|len| routes.covering(prefix, len));
        let (shorter_len, cover) = shorter.map_or((0, 0), |route| (route.len + 1, stored(route.value)));
        let tops = Self::tops_of(prefix.into(), len);
        with!(&mut self.width, codes => for (top, cover_len) in tops.clone().zip(&mut self.cover_lens[tops]) {
            if *cover_len == len + 1 {
                *cover_len = shorter_len;
                codes.set_cover(top, cover);
            }
        });
        self.widen_if_crowded();
    }

    /// Makes the quarter that begins with `start` anew from its routes of 17 to 24 bits.
    fn paint_quarter<A: Bits + Into<u32>>(&mut self, routes: &Routes<A>, start: A) {
        // What covers all of the quarter, but not all of the group.
        let whole = [Self::QUARTER_LEN, Self::QUARTER_LEN - 1];
        let whole = whole.into_iter().find_map(|len| routes.value((start.network(len), len)));
        let (mut slots, mut deep) = ([whole.map_or(0, stored); QUARTER], 0u64);
        routes.paint(start, Self::QUARTER_LEN, SLOT_BITS, &mut slots, |slot| deep |= 1 << slot);
        with!(&mut self.width, codes => codes.set_quarter(start.into(), &mut slots, deep));
        self.widen_if_crowded();
    }

    fn widen_if_crowded(&mut self) {
        if let Width::Narrow(codes) = &self.width
            && codes.crowded()
        {
            self.width = Width::Wide(codes.widened());
        }
    }
}

const _: () = assert!(SLOTS == QUARTER << QUARTER_BITS && QUARTER == 1 << SLOT_BITS);

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether codes are of two bytes after /8s with this value.
    fn wide(value: u32, routes: u32) -> bool {
        let mut all = Routes::new(1 << 10);
        let mut lookup: Lookup4 = Lookup::<u32>::new();
        for n in 0..routes {
            all.insert((n << 24, 8), value);
            Lookup::<u32>::follow(&mut lookup, &all, (n << 24, 8));
        }
        for n in 0..routes {
            assert_eq!(Lookup::<u32>::lookup(&lookup, n << 24 | 7), Some(value));
        }
        matches!(lookup.width, Width::Wide(_))
    }

    #[test]
    fn covers_that_are_too_wide_widen_the_codes() {
        assert!(!wide(253, 200) && !wide(254, 1));
        assert!(wide(254, 2) && wide(40_000, 2));
    }
}
