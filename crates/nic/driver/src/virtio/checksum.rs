//! Checksums in software, for what the device does not fill in.

use memory::Packet;
use wire::checksum::{self, Partial};

/// Fills in the checksum over everything from `start` on, at `start + offset`
/// (5.1.6.2: what a device does with NEEDS_CSUM). The field holds the
/// pseudo-header's sum. `false` when it is not in the first segment.
#[must_use]
pub(super) fn complete(packet: &mut Packet, start: usize, offset: usize) -> bool {
    let at = start + offset;
    if packet.get(at..at + 2).is_none() {
        return false;
    }
    let mut sum = Partial::default();
    for (n, segment) in packet.segments().enumerate() {
        sum.add(if n == 0 { &segment[start..] } else { &segment[..] });
    }
    // UDP sends an all-zero result as all ones; for TCP both are the same.
    let checksum = checksum::never_zero(sum.checksum());
    packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Adds to the pseudo-header's sum that a checksum field holds.
pub(super) fn add_to_field(field: &mut [u8; 2], value: u32) {
    let mut sum = Partial::new(u16::from_be_bytes(*field));
    sum.add(&value.to_be_bytes());
    *field = sum.sum().to_be_bytes();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use memory::{Backing, Dma, Pool};

    use super::*;

    #[test]
    fn a_length_is_added_to_the_field() {
        let mut field = [0xFF, 0xFE];
        add_to_field(&mut field, 3);
        assert_eq!(field, [0, 2], "the carry comes back");
        add_to_field(&mut field, 0x1_0000);
        assert_eq!(field, [0, 3], "of a number with more than 16 bits too");
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
        let expected = !checksum::combine(checksum::sum(&data[14..]), field);
        assert_eq!(whole[30..32], expected.to_be_bytes());
        assert!(!complete(&mut whole, 90, 10), "outside of the packet");
    }
}
