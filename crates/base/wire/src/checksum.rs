//! The internet checksum (RFC 1071), its incremental update (RFC 1624), and the
//! pseudo headers of IPv4 (RFC 9293, section 3.1) and IPv6 (RFC 8200, section 8.1).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::field::array_at;

/// The sum of 16-bit big-endian words in one's complement, not yet inverted. An
/// odd last byte counts as the high byte of a word.
#[inline]
pub fn sum(bytes: &[u8]) -> u16 {
    // Native words of eight bytes: the one's complement sum does not mind the byte
    // order (RFC 1071, section 2B), which is swapped at the end. The upper half of the
    // total counts the carries, which takes one instruction a word, where a folded sum
    // would chain every step to the one before it.
    let mut total = 0_u128;
    let mut blocks = bytes.chunks_exact(32);
    for block in blocks.by_ref() {
        let [a, b, c, d] = [0, 8, 16, 24].map(|at| u128::from(u64::from_ne_bytes(array_at(block, at))));
        total += a + b + c + d;
    }
    let mut words = blocks.remainder().chunks_exact(8);
    total += words.by_ref().map(|word| u128::from(u64::from_ne_bytes(array_at(word, 0)))).sum::<u128>();
    // The rest in words of four: a header of 20 bytes ends in one, and gathering it
    // into eight bytes first would stall on reading what was just stored.
    let mut words = words.remainder().chunks_exact(4);
    total += words.by_ref().map(|word| u128::from(u32::from_ne_bytes(array_at(word, 0)))).sum::<u128>();
    // Copying so few bytes would be a call.
    let last = match *words.remainder() {
        [] => [0; 4],
        [a] => [a, 0, 0, 0],
        [a, b] => [a, b, 0, 0],
        [a, b, c, ..] => [a, b, c, 0],
    };
    total += u128::from(u32::from_ne_bytes(last));
    // A carry of 2^64 counts one, as it is one more than a multiple of 0xFFFF.
    let (low, carry) = (total as u64).overflowing_add((total >> 64) as u64);
    u16::from_be(fold((low & 0xFFFF_FFFF) + (low >> 32) + u64::from(carry)))
}

/// The checksum to put into a header whose checksum field is zero.
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    !sum(bytes)
}

/// Whether a sum over data and its checksum says that the data are right.
#[inline]
pub fn is_right(sum: u16) -> bool {
    sum == 0xFFFF
}

/// Whether data that contain their checksum are right.
#[inline]
pub fn verify(bytes: &[u8]) -> bool {
    is_right(sum(bytes))
}

/// As [`verify`], of an IPv4 header without options.
#[inline]
pub fn verify_header(header: &[u8; 20]) -> bool {
    let (low, high) = (u64::from_ne_bytes(array_at(header, 0)), u64::from_ne_bytes(array_at(header, 8)));
    let last = u32::from_ne_bytes(array_at(header, 16));
    let (sum, carry) = low.overflowing_add(high);
    let (sum, more) = sum.overflowing_add(u64::from(last) + u64::from(carry));
    // A carry of 2^64 counts one, as it is one more than a multiple of 0xFFFF. A right sum is such a
    // multiple itself, which a multiplication finds out; of a header that is all zeros it is none.
    let sum = sum + u64::from(more);
    sum != 0 && sum % 0xFFFF == 0
}

/// A checksum as a field carries it in which 0 means that there is none (RFC 768):
/// one that comes out as 0 is sent in its other form.
#[inline]
pub fn never_zero(checksum: u16) -> u16 {
    if checksum == 0 { 0xFFFF } else { checksum }
}

/// The sum of data that lie in several pieces, of any lengths.
#[derive(Debug, Clone, Copy, Default)]
pub struct Partial {
    total: u64,
    /// Whether the next piece starts at an odd offset.
    odd: bool,
}

impl Partial {
    /// A sum that begins with another's.
    pub fn new(sum: u16) -> Partial {
        Partial { total: sum.into(), odd: false }
    }

    /// Adds the next piece.
    pub fn add(&mut self, bytes: &[u8]) {
        let part = sum(bytes);
        // At an odd offset high and low bytes change places (RFC 1071, section 2B).
        self.total += u64::from(if self.odd { part.swap_bytes() } else { part });
        self.odd ^= bytes.len() % 2 == 1;
    }

    /// The sum, not inverted.
    pub fn sum(&self) -> u16 {
        fold(self.total)
    }

    /// The checksum to put into a header whose checksum field was zero, or held the
    /// sum of the pseudo header.
    pub fn checksum(&self) -> u16 {
        !self.sum()
    }
}

/// The checksum after a 16-bit word of the data changed (RFC 1624, equation 3).
#[inline]
pub fn update(checksum: u16, from: u16, to: u16) -> u16 {
    !fold_32(u32::from(!checksum) + u32::from(!from) + u32::from(to))
}

/// The checksum after a 32-bit word of the data changed, such as an address.
#[inline]
pub fn update_u32(checksum: u16, from: u32, to: u32) -> u16 {
    let high = update(checksum, (from >> 16) as u16, (to >> 16) as u16);
    update(high, from as u16, to as u16)
}

/// The checksum after two words of the data that were zero have others.
#[inline(always)]
pub(crate) fn append(checksum: u16, words: [u16; 2]) -> u16 {
    !fold_32(u32::from(!checksum) + u32::from(words[0]) + u32::from(words[1]))
}

/// The sum of two stretches of data whose sums are `a` and `b`, the first of which
/// has an even number of bytes.
#[inline]
pub fn combine(a: u16, b: u16) -> u16 {
    fold_32(u32::from(a) + u32::from(b))
}

/// The sum of the pseudo header before an upper layer packet of `len` bytes in IPv4.
pub fn pseudo_header_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: u32) -> u16 {
    let total = u64::from(u32::from(src)) + u64::from(u32::from(dst));
    fold(total + u64::from(protocol) + u64::from(len))
}

/// The sum of the pseudo header before an upper layer packet of `len` bytes in IPv6.
pub fn pseudo_header_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, len: u32) -> u16 {
    let addresses = u64::from(sum(&src.octets())) + u64::from(sum(&dst.octets()));
    fold(addresses + u64::from(protocol) + u64::from(len))
}

/// The one's complement sum of words of 32 bits whose plain sum is `total`, not inverted.
#[inline(always)]
pub(crate) fn sum_of_words(total: u64) -> u16 {
    fold(total)
}

/// A sum of words as one word. There is no branch: how often a carry comes out depends on the
/// data, and no branch predictor could predict it.
#[inline(always)]
fn fold(total: u64) -> u16 {
    let total = (total & 0xFFFF_FFFF) + (total >> 32); // 33 bits
    let total = (total & 0xFFFF) + (total >> 16); // 18 bits
    fold_32(total as u32)
}

/// As [`fold`], of 32 bits.
#[inline(always)]
fn fold_32(total: u32) -> u16 {
    let total = (total & 0xFFFF) + (total >> 16); // 17 bits
    ((total & 0xFFFF) + (total >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071, section 3.
    #[test]
    fn the_rfcs_example() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    fn slow(bytes: &[u8]) -> u16 {
        let word = |w: &[u8]| u64::from(w[0]) << 8 | u64::from(*w.get(1).unwrap_or(&0));
        fold(bytes.chunks(2).map(word).sum())
    }

    #[test]
    fn carries_come_out_whole() {
        let totals =
            [0, 1, 0xFFFF, 0x1_0000, 0x1_FFFE, 0xFFFF_FFFF, 0x1_0000_0000, u64::MAX - 0xFFFF, u64::MAX];
        for total in totals {
            let expected = if total == 0 { 0 } else { (total - 1) % 0xFFFF + 1 };
            assert_eq!(u64::from(fold(total)), expected, "{total:#x}");
        }
    }

    proptest! {
        #[test]
        fn a_header_is_right_as_its_sum_says(mut header: [u8; 20], right: bool, small in 0usize..20) {
            header[..small].fill(0); // sums with few carries, and all zeros
            if right {
                header[10..12].fill(0);
                let checksum = of(&header);
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            prop_assert_eq!(verify_header(&header), verify(&header));
        }

        #[test]
        fn a_folded_sum_is_the_same_number(total: u64) {
            prop_assert_eq!(u64::from(fold(total)), if total == 0 { 0 } else { (total - 1) % 0xFFFF + 1 });
            let short = total as u32;
            prop_assert_eq!(fold_32(short), fold(short.into()));
        }

        #[test]
        fn fast_is_slow(bytes: Vec<u8>) {
            prop_assert_eq!(sum(&bytes), slow(&bytes));
        }

        #[test]
        fn an_update_is_as_good_as_a_new_sum(mut words in prop::collection::vec(any::<u16>(), 2..40), to: u16) {
            let bytes = |words: &[u16]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
            words[1] |= 1; // a header is never all zeros
            let before = of(&bytes(&words));
            let after = update(before, words[0], to);
            words[0] = to;
            prop_assert_eq!(after, of(&bytes(&words)));
        }
    }
}
