//! The headers that tunnels put between the outer header (IP or UDP) and the packet that
//! they carry. What belongs to a tunnel as a whole, which end it has and which virtual
//! network a number stands for, is not here.
//!
//! Each format has a `Header` of its fixed part and, where options follow, a view of the
//! whole that knows where the payload begins. What a receiver must refuse by the format's
//! own rules is [`Error`](crate::Error) from `new_checked`: `Malformed` where lengths
//! contradict each other, `Unsupported` for versions and flags that nobody may ignore.

pub mod geneve;
pub mod gre;
pub mod gtpu;
pub mod lisp;
pub mod mpls;
pub mod nsh;
pub mod srv6;
pub mod vxlan;

/// The 24 bits of a field that has eight bits of something else behind it.
#[inline(always)]
const fn upper_24(word: u32) -> u32 {
    word >> 8
}

/// A word with other upper 24 bits. Excess bits of `value` are cut.
#[inline(always)]
const fn with_upper_24(word: u32, value: u32) -> u32 {
    value << 8 | word & 0xFF
}
