//! SipHash (Aumasson and Bernstein, 2012): a hash of 64 bits under a secret key. Strangers
//! choose the addresses and ports of connections, and must neither find those that fall into
//! one bucket nor guess an initial sequence number.

/// The hash of whole words, with `UPDATE` rounds for each and `FINISH` at the end: 2 and 4
/// where the hash is seen by others, 1 and 3 where it is not.
#[inline]
pub fn hash<const UPDATE: usize, const FINISH: usize>(key: [u64; 2], words: &[u64]) -> u64 {
    let mut v = [
        key[0] ^ 0x736F_6D65_7073_6575,
        key[1] ^ 0x646F_7261_6E64_6F6D,
        key[0] ^ 0x6C79_6765_6E65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let len = (words.len() as u64 * 8) << 56;
    for word in words.iter().copied().chain([len]) {
        v[3] ^= word;
        (0..UPDATE).for_each(|_| round(&mut v));
        v[0] ^= word;
    }
    v[2] ^= 0xFF;
    (0..FINISH).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The authors' vectors: the key is 00 to 0F, the inputs are 00, 01, … of some length.
    #[test]
    fn the_hash_is_the_authors() {
        let key = [0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908];
        assert_eq!(hash::<2, 4>(key, &[]), 0x726F_DB47_DD0E_0E31);
        assert_eq!(hash::<2, 4>(key, &[key[0]]), 0x93F5_F579_9A93_2462);
    }
}
