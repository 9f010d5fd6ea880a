//! Run-length coding by bitmap: where in a row of slots the value changes.
//!
//! Bit `n` is set when slot `n` differs from slot `n - 1`; bit 0 never is. The values
//! of the runs stand side by side, so the number of bits set up to and with `n` is
//! the index of slot `n`'s value.

/// How many of `runs`' bits 0 to `at` are set.
#[inline(always)]
pub(super) fn rank(runs: u64, at: usize) -> usize {
    (runs << (63 - at)).count_ones() as usize
}

/// How many of `bits`' bits before `at` are set.
#[inline(always)]
pub(super) fn rank_before(bits: u64, at: usize) -> usize {
    (bits & ((1 << at) - 1)).count_ones() as usize
}

/// The changes of up to 64 slots, where the slot before them held `before`.
fn changes(slots: &[u32], mut before: u32) -> u64 {
    let mut runs = 0;
    for (n, &slot) in slots.iter().enumerate() {
        runs |= u64::from(slot != before) << n;
        before = slot;
    }
    runs
}

/// Codes `slots` (a multiple of 64, at most 256): the bitmap, and the runs' values,
/// which are left in `slots`; none when all are 0.
pub(super) fn encode<const WORDS: usize>(slots: &mut [u32]) -> ([u64; WORDS], usize) {
    let mut runs = [0; WORDS];
    let mut before = slots[0];
    for (word, row) in runs.iter_mut().zip(slots.chunks(64)) {
        *word = changes(row, before);
        before = row[row.len() - 1];
    }
    let mut count = 1;
    for n in 1..slots.len() {
        if runs[n / 64] >> (n % 64) & 1 == 1 {
            slots[count] = slots[n];
            count += 1;
        }
    }
    if count == 1 && slots[0] == 0 { (runs, 0) } else { (runs, count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_coded_is_found_again() {
        let original: [u32; 256] = std::array::from_fn(|n| [0, 0, 7, 7, 7, 1][n * n % 6 * (n / 100 + 1) % 6]);
        let mut slots = original;
        let (runs, count) = encode::<4>(&mut slots);
        let mut before = 0;
        for n in 0..256 {
            let at = before + rank(runs[n / 64], n % 64);
            assert!(at < count);
            assert_eq!(slots[at], original[n], "slot {n}");
            if n % 64 == 63 {
                before += runs[n / 64].count_ones() as usize;
            }
        }
        assert_eq!(before + 1, count);
    }

    #[test]
    fn uniform_rows_take_one_value_or_none() {
        assert_eq!(encode::<1>(&mut [5; 64]), ([0], 1));
        assert_eq!(encode::<1>(&mut [0; 64]), ([0], 0));
    }
}
