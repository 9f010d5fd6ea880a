//! What a virtual function and its physical one tell each other in the mailbox's sixteen words,
//! versions 1.0 to 1.3: kinds and statuses in the first word, layouts of the others. The datasheet
//! has the mailbox (7.10.2.9) and leaves messages to software: these are Intel's drivers', as
//! Linux's `drivers/net/ethernet/intel/ixgbevf/mbx.h` tells them.

/// Words in the mailbox.
pub const WORDS: usize = 16;

/// A message was done, or refused: set in the first word of its answer.
pub const SUCCESS: u32 = 1 << 31;
/// A message was refused: set in the first word of its answer, as [`SUCCESS`] is of others.
pub const FAILURE: u32 = 1 << 30;
/// The virtual function has been reset, and may ask for more.
pub const CLEAR_TO_SEND: u32 = 1 << 29;
/// Where the first word has a number that belongs to the message, of eight bits.
pub const INFO_SHIFT: u32 = 16;
/// The kind of a message, without what is told beside it.
pub const KIND_MASK: u32 = 0xFFFF;

macro_rules! kinds {
    ($($name:ident = $value:literal, $what:literal;)*) => {
        /// Kinds of messages.
        pub mod kind {
            $(
                #[doc = $what]
                pub const $name: u32 = $value;
            )*

            /// Every kind here, with its name.
            pub const TABLE: &[(u32, &str)] = &[$(($name, stringify!($name))),*];
        }

        /// The name of a message's kind; `unknown` for one that is not here.
        pub fn name(kind: u32) -> &'static str {
            kind::TABLE.iter().find(|(value, _)| *value == kind).map_or("unknown", |(_, name)| name)
        }
    };
}
pub(crate) use kinds;

kinds! {
    RESET = 0x01, "The virtual function begins anew; the answer has its address.";
    SET_MAC_ADDR = 0x02, "Its address, in the second and third word.";
    SET_MULTICAST = 0x03, "Multicast addresses by their hash, 16 bits each; how many is told beside it.";
    SET_VLAN = 0x04, "Receives a VLAN, in the second word, or no longer: 1 or 0 beside it.";
    SET_LPE = 0x05, "The longest frame, in bytes with CRC.";
    SET_MACVLAN = 0x06, "One more address: its number beside it, from 1 on; 0 takes all away.";
    API_NEGOTIATE = 0x08, "The version, as in the second word.";
    GET_QUEUES = 0x09, "Queues: words 1 to 4 of the answer.";
    GET_RETA = 0x0A, "The hash's table: 128 entries of two bits.";
    GET_RSS_KEY = 0x0B, "The hash's key.";
    UPDATE_XCAST_MODE = 0x0C, "Which frames are received without a filter.";
    PF_CONTROL_MSG = 0x100, "The physical function tells, unsolicited, whether this one is clear to send.";
}

/// Versions, as [`kind::API_NEGOTIATE`] tells them.
pub mod version {
    /// Version 1.0: what a virtual function speaks that negotiates no version.
    pub const V1_0: u32 = 0;
    /// Queues can be asked for.
    pub const V1_1: u32 = 2;
    /// Likewise the hash's key and table, and modes.
    pub const V1_2: u32 = 3;
    /// Likewise the mode of all frames.
    pub const V1_3: u32 = 4;
}

/// Modes of [`kind::UPDATE_XCAST_MODE`], each with those before it.
pub mod xcast {
    /// Broadcast frames alone; not even those by older hosts of Linux's.
    pub const NONE: u32 = 0;
    /// Multicast frames by their hash.
    pub const MULTICAST: u32 = 1;
    /// All multicast frames.
    pub const ALL_MULTICAST: u32 = 2;
    /// All frames, by promiscuous reception.
    pub const PROMISCUOUS: u32 = 3;
}

/// Words of the answer to [`kind::GET_QUEUES`].
pub mod queues {
    /// How many transmit queues the virtual function has.
    pub const TX: usize = 1;
    /// How many receive queues the virtual function has.
    pub const RX: usize = 2;
    /// Whether frames have a tag outside that the virtual function sees nothing of, or queues by
    /// traffic class.
    pub const TRANSPARENT_VLAN: usize = 3;
    /// The queue of frames that are not hashed.
    pub const DEFAULT: usize = 4;
}

/// Entries of the hash's table.
pub const RETA_ENTRIES: usize = 128;

/// The address that two words have, lowest byte first.
pub fn mac_of(words: [u32; 2]) -> [u8; 6] {
    let [a, b, c, d] = words[0].to_le_bytes();
    let [e, f, ..] = words[1].to_le_bytes();
    [a, b, c, d, e, f]
}

/// The entries of the hash's table in the words of an answer.
pub fn reta_of(words: &[u32; RETA_ENTRIES / 16]) -> [u8; RETA_ENTRIES] {
    std::array::from_fn(|n| (words[n / 16] >> (2 * (n % 16)) & 3) as u8)
}

/// The words for entries of the hash's table, of which two bits are told.
pub fn reta_words(entries: &[u8; RETA_ENTRIES]) -> [u32; RETA_ENTRIES / 16] {
    let word = |n: usize| {
        entries[16 * n..][..16].iter().rev().fold(0, |word, entry| word << 2 | u32::from(entry & 3))
    };
    std::array::from_fn(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_addresses_come_back_as_they_were_told() {
        let entries: [u8; RETA_ENTRIES] = std::array::from_fn(|n| (n % 3) as u8);
        let words = reta_words(&entries);
        assert_eq!(words[0] & 0xFF, 0b00_10_01_00, "the first entry lowest");
        assert_eq!(reta_of(&words), entries);
        assert_eq!(mac_of([0x0403_0102, 0xFFFF_0605]), [2, 1, 3, 4, 5, 6]);
    }
}
