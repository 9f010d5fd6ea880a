//! Flow Director: filters that lead a flow to a queue or drop it (datasheet chapter 10), and
//! the words of a packet that they compare (chapter 7).

use crate::table::registers;

registers! {
    #![ids]
    PFQF_CTL_1 @ 0x245D80, RW reserved 0xFFFF_FFFE, "10", "Filters of a function: forget those of Flow Director" {
        CLEARFDTABLE = 1 << 0;
    }
    PFQF_FDALLOC @ 0x246280, RO, "10", "Filters of Flow Director that a function may have, in 32" {
        FDALLOC_MASK = 0xFF;
        FDBEST_SHIFT = 8;
        FDBEST_MASK = 0xFF << 8;
    }
    PFQF_FDSTAT @ 0x246380, RO, "10", "Filters of Flow Director that a function has" {
        GUARANT_CNT_MASK = 0x1FFF;
        BEST_CNT_SHIFT = 16;
        BEST_CNT_MASK = 0x1FFF << 16;
    }
    GLQF_FDCNT_0 @ 0x269BAC, RO, "10", "Filters of Flow Director of all functions" {
        GUARANT_CNT_MASK = 0x1FFF;
        BESTCNT_SHIFT = 13;
        BESTCNT_MASK = 0x1FFF << 13;
    }
    GLQF_PCNT[512; 4] @ 0x266800, W1C, "10", "Packets that a filter of Flow Director matched" {}
    PRTQF_FD_INSET[128; 32] @ 0x250000, RW, "10", "What Flow Director compares of each packet class, 64 bits" {}
    PRTQF_FD_MSK[128; 32] @ 0x252000, RW, "10", "Which bits it leaves out of a word of the payload, two for each packet class" {
        OFFSET_SHIFT = 16;
    }
    PRTQF_FD_FLXINSET[64; 32] @ 0x253800, RW reserved 0xFFFF_FF00, "10", "Which words of the payload it compares of each packet class" {}
    GLQF_FD_MSK[128; 4] @ 0x267200, RW, "10", "Which bits it leaves out of a word, two for each packet class" {
        MASK_MASK = 0xFFFF;
        OFFSET_SHIFT = 16;
        OFFSET_MASK = 0x3F << 16;
    }
}

/// Filters in a unit of [`PFQF_FDALLOC`].
pub const DIRECTOR_UNIT: u32 = 32;

/// Words of the field vector, 16 bits each: what of a packet can be compared or hashed. Bit
/// 63 - n of [`PRTQF_FD_INSET`] and of [`super::GLQF_HASH_INSET`] selects word n (chapter 7).
pub mod vector {
    /// How many words there are.
    pub const WORDS: usize = 64;
    /// Destination address of Ethernet: three words.
    pub const MAC_DST: usize = 0;
    /// Source address of Ethernet: three words.
    pub const MAC_SRC: usize = 3;
    /// Control information of the one tag, or of the inner of two.
    pub const VLAN: usize = 8;
    /// The first two bytes of an IP header: version, and TOS or traffic class.
    pub const IP_CLASS: usize = 9;
    /// Next header and hop limit of IPv6.
    pub const IPV6_NEXT: usize = 12;
    /// Time to live and protocol of IPv4.
    pub const IPV4_PROTOCOL: usize = 13;
    /// Time to live and protocol of IPv4 in an X722.
    pub const X722_IPV4_PROTOCOL: usize = 11;
    /// Source address of IPv4 in an X722: two words.
    pub const X722_IPV4_SRC: usize = 13;
    /// Destination address of IPv4 in an X722: two words.
    pub const X722_IPV4_DST: usize = 21;
    /// Source address of IPv6: eight words.
    pub const IPV6_SRC: usize = 13;
    /// Source address of IPv4: two words.
    pub const IPV4_SRC: usize = 15;
    /// Destination address of IPv6: eight words.
    pub const IPV6_DST: usize = 21;
    /// Destination address of IPv4: two words.
    pub const IPV4_DST: usize = 27;
    /// Source port of TCP, UDP or SCTP: one word.
    pub const SRC_PORT: usize = 29;
    /// Destination port of TCP, UDP or SCTP: one word.
    pub const DST_PORT: usize = 30;
    /// Verification tag of SCTP: two words.
    pub const SCTP_TAG: usize = 31;
    /// The last EtherType.
    pub const ETHERTYPE: usize = 49;

    /// The bits of a pair of registers that select `count` words from `first` on.
    pub const fn bits(first: usize, count: usize) -> u64 {
        (u64::MAX << (WORDS - count)) >> first
    }
}

#[cfg(test)]
mod tests {
    use super::vector::{self, bits};
    use crate::i40e::inset;

    /// The bits that drivers of the family write.
    #[test]
    fn words_of_the_vector_are_those_that_bits_select() {
        for (first, count, selected) in [
            (vector::MAC_DST, 3, 0xE000_0000_0000_0000),
            (vector::MAC_SRC, 3, 0x1C00_0000_0000_0000),
            (vector::VLAN, 1, 0x0080_0000_0000_0000),
            (vector::IP_CLASS, 1, 0x0040_0000_0000_0000),
            (vector::IPV6_NEXT, 1, 0x0008_0000_0000_0000),
            (vector::IPV4_PROTOCOL, 1, 0x0004_0000_0000_0000),
            (vector::IPV6_SRC, 8, inset::IPV6_SRC),
            (vector::IPV4_SRC, 2, inset::IPV4_SRC),
            (vector::IPV6_DST, 8, inset::IPV6_DST),
            (vector::IPV4_DST, 2, inset::IPV4_DST),
            (vector::X722_IPV4_PROTOCOL, 1, 0x0010_0000_0000_0000),
            (vector::X722_IPV4_SRC, 2, inset::X722_IPV4_SRC),
            (vector::X722_IPV4_DST, 2, inset::X722_IPV4_DST),
            (vector::SRC_PORT, 1, inset::SRC_PORT),
            (vector::DST_PORT, 1, inset::DST_PORT),
            (vector::SCTP_TAG, 2, inset::SCTP_TAG),
            (vector::ETHERTYPE, 1, inset::ETHERTYPE),
        ] {
            assert_eq!(bits(first, count), selected, "word {first}");
        }
    }
}
