//! Checksums in software (RFC 1071), for what the device does not fill in.

use memory::Packet;

/// Adds bytes to a one's complement sum, which starts at an even offset.
fn add(mut sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        // Any width may be added up, and in any byte order, as long as the end
        // agrees with the start (RFC 1071, 2).
        sum += u64::from(u32::from_be_bytes(*word));
    }
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum + u64::from(u32::from_be_bytes(last))
}

/// Folds a sum into 16 bits, inverted: what stands in a header.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

/// The checksum of `bytes`.
pub(super) fn of(bytes: &[u8]) -> u16 {
    fold(add(0, bytes))
}

/// Fills in the checksum over everything from `start` on, at `start + offset`
/// (5.1.6.2: what a device does with NEEDS_CSUM). The field holds the
/// pseudo-header's sum. `false` when it is not in the first segment.
#[must_use]
pub(super) fn complete(packet: &mut Packet, start: usize, offset: usize) -> bool {
    let at = start + offset;
    if packet.get(at..at + 2).is_none() {
        return false;
    }
    let mut sum = 0;
    let mut odd = false;
    for (n, segment) in packet.segments().enumerate() {
        let bytes = if n == 0 { &segment[start..] } else { &segment[..] };
        // A segment that starts at an odd offset has its bytes swapped.
        let part = u64::from(!fold(add(0, bytes)));
        sum += if odd { part.swap_bytes() >> 48 } else { part };
        odd ^= bytes.len() % 2 == 1;
    }
    // UDP sends an all-zero result as all ones; for TCP both are the same.
    let checksum = match fold(sum) {
        0 => 0xFFFF,
        checksum => checksum,
    };
    packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Adds to the pseudo-header's sum that a checksum field holds.
pub(super) fn add_to_field(field: &mut [u8; 2], value: u32) {
    let sum = u64::from(u16::from_be_bytes(*field)) + u64::from(value);
    *field = (!fold(sum)).to_be_bytes();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use memory::{Backing, Dma, Pool};

    use super::*;

    #[test]
    fn sums_are_as_in_the_rfc() {
        // RFC 1071, section 3.
        assert_eq!(of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(of(&[0x00, 0x01, 0xf2]), !0xf201);
        assert_eq!(of(&[]), 0xFFFF);
    }

    #[test]
    fn segments_at_odd_offsets_count_as_one_packet() {
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let mut pool = Pool::new(&dma, 4).unwrap();
        let data: Vec<u8> = (0..101_u8).map(|n| n.wrapping_mul(37)).collect();
        let mut whole = pool.alloc().unwrap();
        whole.copy_from(&data).unwrap();
        assert!(complete(&mut whole, 14, 16));
        let mut parts = pool.alloc().unwrap();
        parts.copy_from(&data[..33]).unwrap();
        let mut second = pool.alloc().unwrap();
        second.copy_from(&data[33..66]).unwrap();
        let mut third = pool.alloc().unwrap();
        third.copy_from(&data[66..]).unwrap();
        second.append(third);
        parts.append(second);
        assert!(complete(&mut parts, 14, 16));
        assert_eq!(whole[30..32], parts[30..32]);
        // A checksum that is right makes the sum all ones.
        let mut data = data;
        let field = u16::from_be_bytes([data[30], data[31]]);
        (data[30], data[31]) = (0, 0);
        let expected = fold(add(0, &data[14..]) + u64::from(field));
        assert_eq!(whole[30..32], expected.to_be_bytes());
        assert!(!complete(&mut whole, 90, 10), "outside of the packet");
    }
}
