//! The 256 /24s of a /16, a code for each: one byte where the values allow it, two where
//! not. So a cache line has 64 or 32 of them, and a lookup reads one.
//!
//! A code is a value in stored form, 0 for the cover, or says that the value is elsewhere:
//! too wide for a code, or a /24 with longer routes. Such slots stand in the *row* of their
//! /18: which slots are in it (64 bits), and their values in order.

use super::bits::rank_before;

/// Slots of a group, one for each /24, and of a quarter of it.
pub(super) const SLOTS: usize = 256;
pub(super) const QUARTER: usize = 64;
/// Words of a row before its values.
const HEAD: usize = 2;
/// In a top, which is 32 bits for each /16: the group's index. The cover's code is above it.
const GROUP_BITS: u32 = 17;

/// What stands for a /24: `u8` or `u16`.
pub(super) trait Code: Copy + Default + Into<u32> + 'static {
    /// The code of what is too wide or longer; less than 2^15.
    const ELSEWHERE: u32;
    /// The last bits of a number.
    fn of(code: u32) -> Self;

    /// The code of a value in stored form.
    fn code(stored: u32) -> u32 {
        stored.min(Self::ELSEWHERE)
    }
}

impl Code for u8 {
    const ELSEWHERE: u32 = 0xFF;
    fn of(code: u32) -> Self {
        code as u8
    }
}

impl Code for u16 {
    const ELSEWHERE: u32 = 0x7FFF;
    fn of(code: u32) -> Self {
        code as u16
    }
}

/// What there is for each /16: its group and the code of its cover.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Top(u32);

impl Top {
    pub(super) fn new(group: u32, cover: u32) -> Self {
        Top(cover << GROUP_BITS | group)
    }

    #[inline(always)]
    pub(super) fn group(self) -> u32 {
        self.0 & ((1 << GROUP_BITS) - 1)
    }

    #[inline(always)]
    pub(super) fn cover(self) -> u32 {
        self.0 >> GROUP_BITS
    }
}

/// What codes could not say of a quarter, before it has a place.
pub(super) struct Row {
    words: [u32; HEAD + QUARTER],
    len: usize,
}

impl Row {
    /// The codes of `slots`, which are in stored form, and the row of the others.
    pub(super) fn encode<C: Code>(slots: &[u32; QUARTER], codes: &mut [C]) -> Row {
        let (mut row, mut mask) = (Row { words: [0; HEAD + QUARTER], len: HEAD }, 0u64);
        for (n, (&slot, code)) in slots.iter().zip(codes).enumerate() {
            *code = C::of(C::code(slot));
            if slot >= C::ELSEWHERE {
                mask |= 1 << n;
                row.words[row.len] = slot;
                row.len += 1;
            }
        }
        (row.words[0], row.words[1]) = (mask as u32, (mask >> 32) as u32);
        row
    }

    /// The words to be kept; none if the codes say all.
    pub(super) fn words(&self) -> &[u32] {
        if self.len == HEAD { &[] } else { &self.words[..self.len] }
    }
}

/// The slots that are in a row, which begins `words`.
pub(super) fn slots_of(words: &[u32]) -> u64 {
    match words {
        [low, high, ..] => u64::from(*low) | u64::from(*high) << 32,
        _ => 0,
    }
}

/// How many words a row has.
pub(super) fn len_of(words: &[u32]) -> usize {
    HEAD + slots_of(words).count_ones() as usize
}

/// What the row that begins `words` says of a slot; `None` if the slot is not in it.
pub(super) fn find(words: &[u32], slot: usize) -> Option<u32> {
    let slots = slots_of(words);
    if slots >> slot & 1 == 0 {
        return None;
    }
    words.get(HEAD + rank_before(slots, slot)).copied()
}

/// The values of a row's slots.
pub(super) fn values(row: &[u32]) -> &[u32] {
    row.get(HEAD..).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded<C: Code>(slots: [u32; QUARTER]) {
        let mut codes = [C::default(); QUARTER];
        let row = Row::encode(&slots, &mut codes);
        let words = row.words();
        for (n, &slot) in slots.iter().enumerate() {
            let code = codes[n].into();
            assert_eq!(code == C::ELSEWHERE, slot >= C::ELSEWHERE);
            assert_eq!(find(words, n).unwrap_or(code), slot, "slot {n}");
        }
        assert!(words.is_empty() || len_of(words) == words.len());
        assert_eq!(values(words).len(), slots.iter().filter(|&&slot| slot >= C::ELSEWHERE).count());
    }

    #[test]
    fn what_is_encoded_is_found_again() {
        for first in [0, 190, 0x7FDF, 0xFFDF, 1 << 31] {
            let slots = std::array::from_fn(|n| if n % 5 == 0 { 0 } else { first + n as u32 });
            encoded::<u8>(slots);
            encoded::<u16>(slots);
        }
    }

    #[test]
    fn a_top_has_all_groups_and_covers() {
        let top = Top::new(1 << 16, u16::ELSEWHERE);
        assert_eq!((top.group(), top.cover()), (1 << 16, u16::ELSEWHERE));
    }
}
