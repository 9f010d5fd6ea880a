//! The Internet checksum (RFC 1071) and the Ethernet CRC, as chips compute
//! them on the way through. Sums are of little-endian 16-bit words, which gives
//! the same bytes in memory as network order does (RFC 1071, 2(B)).
//!
//! A chip's arithmetic is its own: with `wire`'s, which drivers and applications use, a
//! wrong sum would agree with itself. This is a second witness, and a test compares it.

/// Bytes of the words that are added.
const WORD: usize = size_of::<u64>();

/// Adds with the carry brought round: sums of any words stay sums of 16-bit
/// words (RFC 1071, 2(A)).
#[inline(always)]
pub(crate) fn add(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u64::from(carry)
}

/// The sum of `data` as 16-bit words, not folded; a last odd byte is padded.
#[inline]
pub(crate) fn sum(data: &[u8]) -> u64 {
    let (words, rest) = data.as_chunks::<WORD>();
    let total = words.iter().fold(0, |total, word| add(total, u64::from_le_bytes(*word)));
    // What is left over, by way of the last eight bytes: a copy of so few would
    // cost more than all the rest.
    let last = match data.last_chunk::<WORD>() {
        Some(last) => {
            let spare = 8 * (8 - rest.len() as u32);
            u64::from_le_bytes(*last).checked_shr(spare).unwrap_or(0)
        }
        None => data.iter().rev().fold(0, |last, byte| last << 8 | u64::from(*byte)),
    };
    add(total, last)
}

/// What folds out of data that contain their right checksum.
pub(crate) const RIGHT: u16 = 0xFFFF;

/// The sum's 16 bits with end-around carry; 0xFFFF over a valid checksum.
#[inline(always)]
pub(crate) fn fold(sum: u64) -> u16 {
    // The upper half takes the lower half's carry.
    let half = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (half.wrapping_add(half.rotate_left(16)) >> 16) as u16
}

/// What a pseudo header adds apart from its addresses: protocol and length.
#[inline]
pub(crate) fn pseudo(protocol: u8, len: u32) -> u64 {
    let len = len.to_be_bytes();
    let low = u16::from_le_bytes([len[2], len[3]]);
    let high = u16::from_le_bytes([len[0], len[1]]);
    (u64::from(protocol) << 8) + u64::from(low) + u64::from(high)
}

const CRC: [u32; 256] = crc_table(0xEDB8_8320);
const CRC_C: [u32; 256] = crc_table(0x82F6_3B78);

const fn crc_table(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ (polynomial & 0u32.wrapping_sub(value & 1));
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
}

fn crc_with(table: &[u32; 256], data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc: u32, byte| crc >> 8 ^ table[usize::from(crc as u8 ^ byte)])
}

/// The Ethernet CRC of a frame (IEEE 802.3, 3.2.9), to be appended little-endian.
pub(crate) fn crc32(data: &[u8]) -> u32 {
    crc_with(&CRC, data)
}

/// SCTP's CRC32c (RFC 9260, appendix A), stored little-endian.
pub(crate) fn crc32c(data: &[u8]) -> u32 {
    crc_with(&CRC_C, data)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;
    use wire::checksum;

    use super::*;

    #[test]
    fn rfc_1071_example() {
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&data)).to_le_bytes(), [0xdd, 0xf2]);
        assert_eq!(fold(sum(&[0xFF; 9001])), fold(u64::from(0xFFu16)));
    }

    proptest! {
        #[test]
        fn sums_are_those_of_wire(data in prop::collection::vec(any::<u8>(), 0..2000), protocol: u8, len: u16) {
            let ours = |sum: u64| fold(sum).swap_bytes();
            prop_assert_eq!(ours(sum(&data)), checksum::sum(&data));
            let (src, dst) = (Ipv4Addr::new(10, 1, 2, 3), Ipv4Addr::new(198, 18, 0, 1));
            let addresses = add(sum(&src.octets()), sum(&dst.octets()));
            let theirs = checksum::pseudo_header_v4(src, dst, protocol, len.into());
            prop_assert_eq!(ours(add(addresses, pseudo(protocol, len.into()))), theirs);
        }
    }

    #[test]
    fn crc_check_values() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn an_odd_tail_counts_as_if_padded() {
        for len in 0..40 {
            let data: Vec<u8> = (0..len).map(|n| n as u8 ^ 0x5A).collect();
            let mut padded = data.clone();
            padded.resize(48, 0);
            assert_eq!(fold(sum(&data)), fold(sum(&padded)), "{len}");
        }
    }
}
