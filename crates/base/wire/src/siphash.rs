//! SipHash-1-3 (Aumasson and Bernstein, *SipHash: a fast short-input PRF*, 2012, with one round
//! for each word and three at the end) of a few words whose number the compiler knows, such as the
//! addresses and ports of a flow: a hash is made for each packet, under a secret, for strangers
//! choose addresses and ports, and must not find those that fall into one place of a table.

/// The hash of some words of 64 bits, and of one of 32 bits behind them, under a key of 128 bits:
/// that of their bytes, the lowest first.
#[inline(always)]
pub fn hash_words<const N: usize>(key: [u64; 2], words: &[u64; N], last: u32) -> u64 {
    let mut state = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    // The last word has the number of bytes in its highest one.
    let last = u64::from(last) | (8 * N as u64 + 4) << 56;
    for word in words.iter().copied().chain([last]) {
        state[3] ^= word;
        round(&mut state);
        state[0] ^= word;
    }
    state[2] ^= 0xFF;
    (0..3).for_each(|_| round(&mut state));
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

#[inline(always)]
fn round(state: &mut [u64; 4]) {
    let [mut a, mut b, mut c, mut d] = *state;
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    *state = [a, b, c, d];
}

#[cfg(test)]
mod tests {
    use siphasher::sip::SipHasher13;

    use super::*;

    #[test]
    fn it_is_the_hash_of_the_same_bytes() {
        let key = [0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908];
        let words = [3, u64::MAX, 0x8000_0000_0000_0001, 0x1234_5678_9ABC_DEF0];
        let theirs = |words: &[u64], last: u32| {
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            bytes.extend(last.to_le_bytes());
            SipHasher13::new_with_keys(key[0], key[1]).hash(&bytes)
        };
        for last in [0, 1, 0xFEDC_BA98, u32::MAX] {
            assert_eq!(hash_words(key, &words, last), theirs(&words, last));
            assert_eq!(hash_words(key, &[words[1]], last), theirs(&words[1..2], last));
        }
    }
}
