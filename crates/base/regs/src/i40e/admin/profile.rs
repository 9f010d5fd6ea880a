//! Profiles of dynamic device personalization (DDP), by which packets are taken apart in another way:
//! [`super::opcode::GET_PERSONALIZATION_PROFILE_LIST`] answers with their number, then an entry for
//! each. Places are those on which the drivers of Linux and DPDK agree.

/// Bytes of the number.
pub const COUNT_LEN: usize = 4;
/// Bytes of an entry.
pub const LEN: usize = 48;
/// Where an entry has Intel's number of the profile, 32 bits.
pub const TRACK_ID: usize = 0;
/// Where it has its version: major, minor, update, draft, a byte each.
pub const VERSION: usize = 4;
/// Where it has its name, and the name's bytes, zeroes behind it.
pub const NAME: usize = 16;
/// Bytes of the name.
pub const NAME_LEN: usize = 32;
/// The most profiles.
pub const MOST: usize = 16;
/// The first version of the interface whose firmware has any: that of image 6.01.
pub const SINCE: (u16, u16) = (1, 7);
