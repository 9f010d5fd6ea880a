//! Contexts of queues in host memory (datasheet chapter 8): where each field lies, in bits
//! from the start of a context of little-endian 64-bit words.

/// A field of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The name that the datasheet has for it.
    pub name: &'static str,
    /// Its lowest bit.
    pub lsb: usize,
    /// How many bits it has, 64 at most.
    pub width: usize,
}

impl Field {
    /// The largest value.
    pub const fn max(self) -> u64 {
        u64::MAX >> (64 - self.width)
    }

    /// Its value in a context; zero for bits that the context does not have.
    pub fn of(self, context: &[u64]) -> u64 {
        let (word, bit) = (self.lsb / 64, self.lsb % 64);
        let at = |word: usize| u128::from(context.get(word).copied().unwrap_or(0));
        ((at(word) | at(word + 1) << 64) >> bit) as u64 & self.max()
    }

    /// Puts a value, cut to its width, into a context that has the field.
    pub fn put(self, context: &mut [u64], value: u64) {
        let (word, bit) = (self.lsb / 64, self.lsb % 64);
        let (value, mask) = (u128::from(value & self.max()) << bit, u128::from(self.max()) << bit);
        for (n, half) in context.iter_mut().skip(word).take(2).enumerate() {
            let part = |bits: u128| (bits >> (64 * n)) as u64;
            *half = *half & !part(mask) | part(value);
        }
    }
}

macro_rules! context {
    ($table:ident, $len:literal, $of:literal { $($name:ident @ $lsb:literal, $width:literal, $what:literal;)* }) => {
        #[doc = concat!("Fields of ", $of, " (chapter 8).")]
        pub mod $table {
            use super::Field;
            #[doc = concat!("Bytes of ", $of, ".")]
            pub const LEN: usize = $len;
            $(
                #[doc = $what]
                pub const $name: Field = Field { name: stringify!($name), lsb: $lsb, width: $width };
            )*
            /// All fields of the context, in the order of their statement.
            pub const TABLE: &[Field] = &[$($name),*];
        }
    };
}

context!(tx, 128, "a transmit queue's context" {
    HEAD @ 0, 13, "The descriptor to go on with.";
    NEW_CONTEXT @ 30, 1, "The context is a new one.";
    BASE @ 32, 57, "The ring's address, in 128 bytes.";
    FC_ENA @ 89, 1, "Fibre Channel over Ethernet.";
    TIMESYNC_ENA @ 90, 1, "Timestamps of what is sent.";
    FD_ENA @ 91, 1, "Flow Director.";
    ALT_VLAN_ENA @ 92, 1, "A second tag.";
    CPUID @ 96, 8, "For hints to caches.";
    THEAD_WB @ 128, 13, "The head that was written to memory.";
    HEAD_WB_ENA @ 160, 1, "Write the head to memory instead of done bits.";
    QLEN @ 161, 13, "Descriptors in the ring.";
    TPHRDESC_ENA @ 174, 1, "Hints for reading descriptors.";
    TPHRPACKET_ENA @ 175, 1, "Hints for reading packets.";
    TPHWDESC_ENA @ 176, 1, "Hints for writing descriptors.";
    HEAD_WB_ADDR @ 192, 64, "Where the head is written to.";
    CRC @ 896, 32, "Checksum of a context that is in the device.";
    RDYLIST @ 980, 10, "The scheduler's list that the queue is in: the VSI's queue set handle.";
    RDYLIST_ACT @ 990, 1, "The queue is in that list now.";
});

context!(rx, 32, "a receive queue's context" {
    HEAD @ 0, 13, "The descriptor to go on with.";
    CPUID @ 13, 8, "For hints to caches.";
    BASE @ 32, 57, "The ring's address, in 128 bytes.";
    QLEN @ 89, 13, "Descriptors in the ring.";
    DBUFF @ 102, 7, "Bytes of a packet's buffer, in 128 bytes.";
    HBUFF @ 109, 5, "Bytes of a header's buffer, in 64 bytes.";
    DTYPE @ 114, 2, "Whether headers have buffers of their own.";
    DSIZE @ 116, 1, "Descriptors have 32 bytes, not 16.";
    CRCSTRIP @ 117, 1, "The CRC is not written.";
    FC_ENA @ 118, 1, "Fibre Channel over Ethernet.";
    L2TSEL @ 119, 1, "The stripped tag stands in the first word.";
    HSPLIT_0 @ 120, 4, "Where headers are split off.";
    HSPLIT_1 @ 124, 2, "Where headers are split off, at the end.";
    SHOWIV @ 127, 1, "The tag in a tunnel's inner frame is stripped, and told nowhere.";
    RXMAX @ 174, 14, "The longest frame, CRC included.";
    TPHRDESC_ENA @ 193, 1, "Hints for reading descriptors.";
    TPHWDESC_ENA @ 194, 1, "Hints for writing descriptors.";
    TPHDATA_ENA @ 195, 1, "Hints for writing packets.";
    TPHHEAD_ENA @ 196, 1, "Hints for writing headers.";
    LRXQTHRESH @ 198, 3, "When to report few descriptors, in 64.";
    PREFENA @ 201, 1, "Fetch descriptors ahead.";
});

/// Descriptors in a ring come in multiples of this.
pub const RING_MULTIPLE: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_across_two_words_is_put_and_read_and_no_other_bit_changes() {
        for (fields, words) in [(tx::TABLE, 16), (rx::TABLE, 4)] {
            for field in fields {
                for before in [0, u64::MAX] {
                    let mut context = vec![before; words];
                    field.put(&mut context, 0x5A5A_5A5A_5A5A_5A5B);
                    assert_eq!(field.of(&context), 0x5A5A_5A5A_5A5A_5A5B & field.max(), "{}", field.name);
                    field.put(&mut context, before);
                    assert!(context.iter().all(|word| *word == before), "{}", field.name);
                }
            }
        }
        assert_eq!(rx::BASE.of(&[u64::MAX]), u64::MAX >> 32, "words that are not there are zero");
    }
}
