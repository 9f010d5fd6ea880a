//! MD5 (RFC 1321): a name for a packet's contents, not a safeguard against anyone.

const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The digest of some bytes.
pub(super) fn digest(bytes: &[u8]) -> [u8; 16] {
    let mut state = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];
    let mut blocks = bytes.chunks_exact(64);
    for block in blocks.by_ref() {
        mix(&mut state, block);
    }
    let mut last = blocks.remainder().to_vec();
    last.push(0x80);
    let length = if last.len() > 56 { 120 } else { 56 };
    last.resize(length, 0);
    last.extend((bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    last.chunks_exact(64).for_each(|block| mix(&mut state, block));
    let mut out = [0; 16];
    for (to, word) in out.chunks_exact_mut(4).zip(state) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// Section 3.4: one block of 64 bytes.
fn mix(state: &mut [u32; 4], block: &[u8]) {
    let word = |n: usize| {
        block.get(4 * n..).and_then(|rest| rest.first_chunk()).map_or(0, |w| u32::from_le_bytes(*w))
    };
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64 {
        let (function, of) = match step / 16 {
            0 => (b & c | !b & d, step),
            1 => (d & b | !d & c, (5 * step + 1) % 16),
            2 => (b ^ c ^ d, (3 * step + 5) % 16),
            _ => (c ^ (b | !d), 7 * step % 16),
        };
        // The table T: the integer part of 2^32 times |sin(step + 1)|.
        let constant = (f64::sin((step + 1) as f64).abs() * 4_294_967_296.0) as u32;
        let sum = a.wrapping_add(function).wrapping_add(constant).wrapping_add(word(of));
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(SHIFTS[step / 16][step % 4]));
    }
    for (state, add) in state.iter_mut().zip([a, b, c, d]) {
        *state = state.wrapping_add(add);
    }
}

/// A digest in 22 letters, six bits each, the lowest first.
pub(super) fn letters(digest: &[u8; 16]) -> String {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@";
    let number = u128::from_le_bytes(*digest);
    (0..128).step_by(6).map(|bit| char::from(LETTERS[(number >> bit & 0x3F) as usize])).collect()
}

/// A digest in hexadecimal.
pub(super) fn hex(digest: &[u8; 16]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1321, A.5.
    #[test]
    fn the_rfcs_examples() {
        for (text, expected) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            (
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                "d174ab98d277d9f5a5611c2c9f419d9f",
            ),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            assert_eq!(hex(&digest(text.as_bytes())), expected);
        }
    }

    #[test]
    fn letters_are_six_bits_each() {
        let mut digest = [0; 16];
        (digest[0], digest[1], digest[15]) = (0b0100_0001, 0b1000, 0xC0);
        assert_eq!(letters(&digest), "bHaaaaaaaaaaaaaaaaaaad");
    }
}
