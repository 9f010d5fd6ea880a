//! Ethernet addresses as Intel's filters hold them (82599 datasheet 7.1.1, 82576
//! datasheet 7.1.1): the exact ones in RAL and RAH, multicast by hash in MTA.

/// An address as RAL and RAH hold it: first byte lowest.
pub(crate) fn address_words(mac: [u8; 6]) -> [u32; 2] {
    let [a, b, c, d, e, f] = mac;
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, 0, 0])]
}

/// The register and bit of MTA for an address, with the filter's offset (MO) at
/// zero: its bits 47:36 as the datasheets count them, lowest byte first on the
/// wire.
pub(crate) fn multicast_hash(mac: [u8; 6]) -> (usize, u32) {
    let hash = u32::from(mac[4] >> 4) | u32::from(mac[5]) << 4;
    ((hash >> 5) as usize, hash & 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 82599 datasheet 7.1.1.3, table: with MO = 0 the address 12:34:56:78:9A:BC
    /// (12 first on the wire) hashes to 0xBC9.
    #[test]
    fn multicast_hash_is_the_datasheets() {
        let (register, bit) = multicast_hash([0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC]);
        assert_eq!(register * 32 + bit as usize, 0xBC9);
    }
}
