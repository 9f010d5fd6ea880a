//! Filters of control frames by address and EtherType, which the firmware adds by
//! [`ADD_CONTROL_PACKET_FILTER`](super::admin::opcode::ADD_CONTROL_PACKET_FILTER): where the command's
//! parameters stand, and their flags (datasheet chapter 7).

/// Where the command has the EtherType; the address stands before it.
pub const ETHERTYPE: usize = 6;
/// Where it has the flags.
pub const FLAGS: usize = 8;
/// Where it has the SEID of a VSI.
pub const SEID: usize = 10;
/// The flag for frames whatever their address.
pub const IGNORE_MAC: u16 = 1 << 0;
/// The flag that has them dropped.
pub const DROP: u16 = 1 << 1;
/// The flag for frames that are sent, not received.
pub const TX: u16 = 1 << 3;
