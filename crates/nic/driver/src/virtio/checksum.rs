//! Checksum fields between [`memory::TxOffload`]'s form and virtio's.

use wire::checksum::Partial;

/// Adds to the pseudo-header's sum that a checksum field holds.
pub(super) fn add_to_field(field: &mut [u8; 2], value: u32) {
    let mut sum = Partial::new(u16::from_be_bytes(*field));
    sum.add(&value.to_be_bytes());
    *field = sum.sum().to_be_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_added_to_the_field() {
        let mut field = [0xFF, 0xFE];
        add_to_field(&mut field, 3);
        assert_eq!(field, [0, 2], "the carry comes back");
        add_to_field(&mut field, 0x1_0000);
        assert_eq!(field, [0, 3], "of a number with more than 16 bits too");
    }
}
