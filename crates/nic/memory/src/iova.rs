//! I/O virtual addresses: which are free, for devices behind an IOMMU and for
//! device models, where the choice is ours.

use crate::backing::HUGE_PAGE;
use crate::{Error, Result};

/// IOVAs start here: above 4 GiB, away from the window that x86 keeps for
/// interrupts (0xFEE0_0000) and from address zero.
const IOVA_START: u64 = 1 << 32;
/// IOVAs end here: the narrowest IOMMUs translate 39 bits.
const IOVA_END: u64 = 1 << 39;
/// The IOVAs of one address space.
#[derive(Debug)]
pub(crate) struct Iovas {
    next: u64,
    free: Vec<(u64, usize)>,
}

impl Default for Iovas {
    fn default() -> Iovas {
        Iovas { next: IOVA_START, free: Vec::new() }
    }
}

impl Iovas {
    /// A free range for `len` bytes, on a hugepage boundary, so that the IOMMU
    /// can use large pages too.
    pub(crate) fn take(&mut self, len: usize) -> Result<u64> {
        let len = len.next_multiple_of(HUGE_PAGE);
        if let Some(i) = self.free.iter().position(|&(_, free)| free >= len) {
            let (iova, free) = self.free.swap_remove(i);
            if free > len {
                self.free.push((iova + len as u64, free - len));
            }
            return Ok(iova);
        }
        let end = self.next + len as u64;
        if end > IOVA_END {
            return Err(Error::IovaExhausted { len, limit: IOVA_END });
        }
        Ok(std::mem::replace(&mut self.next, end))
    }

    /// Frees a range that [`take`](Self::take) gave for `len` bytes.
    pub(crate) fn give_back(&mut self, iova: u64, len: usize) {
        let len = len.next_multiple_of(HUGE_PAGE);
        match self.free.iter_mut().find(|(start, free)| start + *free as u64 == iova) {
            Some((_, free)) => *free += len,
            None => self.free.push((iova, len)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_used_again_and_never_overlaps() {
        let mut iovas = Iovas::default();
        let a = iovas.take(5).expect("fresh");
        let b = iovas.take(3 * HUGE_PAGE).expect("fresh");
        assert_eq!(b - a, HUGE_PAGE as u64);
        iovas.give_back(a, 5);
        iovas.give_back(b, 3 * HUGE_PAGE);
        assert_eq!(iovas.take(4 * HUGE_PAGE).expect("merged"), a);
        assert!(iovas.take(1 << 39).is_err(), "39 bits are all an IOMMU surely has");
    }

    #[test]
    fn a_space_goes_from_4_gib_to_39_bits_and_no_further() {
        let all = (1 << 39) - (1 << 32);
        let mut iovas = Iovas::default();
        assert_eq!(iovas.take(all).expect("all there is"), 1 << 32);
        let error = iovas.take(1).expect_err("nothing is left");
        assert!(matches!(error, Error::IovaExhausted { len: HUGE_PAGE, limit: 0x80_0000_0000 }), "{error}");
        assert!(Iovas::default().take(all + 1).is_err());
    }

    #[test]
    fn stretches_that_are_free_are_cut_and_joined() {
        const HUGE: u64 = HUGE_PAGE as u64;
        let mut iovas = Iovas::default();
        let a = iovas.take(4 * HUGE_PAGE).expect("fresh");
        let b = iovas.take(HUGE_PAGE).expect("fresh");
        assert_eq!((a, b), (1 << 32, (1 << 32) + 4 * HUGE));
        iovas.give_back(a, 4 * HUGE_PAGE);
        assert_eq!(iovas.take(1).expect("cut"), a, "from its beginning");
        assert_eq!(iovas.free, [(a + HUGE, 3 * HUGE_PAGE)]);
        assert_eq!(iovas.take(5 * HUGE_PAGE).expect("fresh"), b + HUGE, "what is free is too short");
        assert_eq!(iovas.take(3 * HUGE_PAGE).expect("the rest"), a + HUGE);
        assert_eq!(iovas.free, [], "nothing is left of it");
        // Apart they stay two, and what follows one is joined to it.
        iovas.give_back(a, HUGE_PAGE);
        iovas.give_back(b, HUGE_PAGE);
        iovas.give_back(a + HUGE, 1);
        assert_eq!(iovas.free, [(a, 2 * HUGE_PAGE), (b, HUGE_PAGE)]);
        assert_eq!(iovas.take(2 * HUGE_PAGE).expect("joined"), a);
    }
}
