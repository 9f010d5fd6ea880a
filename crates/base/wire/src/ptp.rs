//! What tells messages of PTP apart (IEEE 1588-2019, 13.3 and annexes C to E): in frames of their own with
//! [`EtherType::PTP`](crate::ethernet::EtherType::PTP), or over UDP.
//!
//! A message begins with its type in the lower half of the first byte and the version in the lower half
//! of the second one.

/// The version that this is about.
pub const VERSION: u8 = 2;
/// The UDP port that event messages go to: those whose time counts.
pub const EVENT_PORT: u16 = 319;
/// The UDP port that other messages go to.
pub const GENERAL_PORT: u16 = 320;
/// Event messages have types below this one, other messages those from it on.
pub const FIRST_GENERAL: u8 = 8;
/// The type of a message that begins an exchange, an event message.
pub const SYNC: u8 = 0;
/// The type of a message that a slave asks with, an event message.
pub const DELAY_REQ: u8 = 1;
/// The type of a message that tells the time of the one before.
pub const FOLLOW_UP: u8 = 8;
