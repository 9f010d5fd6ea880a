//! Kinds of IPv4 options (RFC 791, section 3.1). What follows a kind is left to those
//! who act on it.

/// There are no more.
pub const END: u8 = 0;
/// One byte that means nothing.
pub const NO_OPERATION: u8 = 1;
/// Routers write down their addresses.
pub const RECORD_ROUTE: u8 = 7;
/// Routers write down the time.
pub const TIMESTAMP: u8 = 68;
/// By way of these routers, and others.
pub const LOOSE_SOURCE_ROUTE: u8 = 131;
/// By way of these routers only.
pub const STRICT_SOURCE_ROUTE: u8 = 137;
/// In a kind: all fragments have the option.
pub const COPIED: u8 = 0x80;

/// Whether an option names the routers of a packet's way.
pub const fn is_source_route(kind: u8) -> bool {
    matches!(kind, LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE)
}
