//! What loss detection by time remembers of a connection (RACK, RFC 8985); what it does with it
//! stands in [`acknowledge`](crate::acknowledge).

use crate::sequence::Sequence;

/// What RACK knows (RFC 8985, section 5.2).
#[derive(Debug, Clone, Copy, Default)]
pub struct Rack {
    /// When the segment was sent that was sent last of those that arrived.
    pub sent_ns: i64,
    /// The number behind it.
    pub end: Sequence,
    /// Its round trip.
    pub rtt_ns: i64,
    /// The highest number that is known to have arrived.
    pub forward: Sequence,
    /// Until which number duplicates count as one.
    pub duplicate_round: Option<Sequence>,
    /// By how many quarters of the least round trip segments may be late.
    pub multiplier: u8,
    /// After how many recoveries they may be late by one again.
    pub persist: u8,
    /// Whether any came late.
    pub is_reordering: bool,
    /// By how many segments at most, where that was more than three.
    pub reordering: u16,
    /// How many acknowledgements told of any.
    pub reorderings: u32,
}
