//! IPv4 options (RFC 791, section 3.1): kinds, and the layout of routes and timestamps. The
//! walk over them is in [`crate::option_list`]; what routers do is left to those who act
//! on them.

use std::net::Ipv4Addr;

pub use crate::option_list::{END, NO_OPERATION};

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

/// Bytes of an address, or of a time, in an option.
pub const WORD_LEN: usize = 4;

/// Where fields of options are, in bytes.
pub mod offset {
    /// Of routes and timestamps: where the next entry is, counted from 1.
    pub const POINTER: usize = 2;
    /// The addresses of a route.
    pub const ROUTE: usize = 3;
    /// What a timestamp option holds, and how many routers found no room.
    pub const FLAGS: usize = 3;
    /// The entries of a timestamp option.
    pub const TIMESTAMPS: usize = 4;
}

/// What a timestamp option holds, in the low half of its flags.
pub mod timestamp {
    /// Each router's time, without its address.
    pub const TIMES: u8 = 0;
    /// Each router's address and its time.
    pub const ADDRESSES: u8 = 1;
    /// The times of those routers whose addresses are there.
    pub const NAMED: u8 = 3;
    /// In the flags: one more router that found no room.
    pub const OVERFLOW: u8 = 0x10;
    /// In a time: it is not in milliseconds since midnight UT.
    pub const NOT_STANDARD: u32 = 1 << 31;

    /// What flags say that the option holds.
    pub const fn format(flags: u8) -> u8 {
        flags & (OVERFLOW - 1)
    }

    /// How many routers found no room.
    pub const fn overflow(flags: u8) -> u8 {
        flags / OVERFLOW
    }

    /// Bytes of an entry.
    pub const fn entry_len(format: u8) -> usize {
        if format == TIMES { super::WORD_LEN } else { 2 * super::WORD_LEN }
    }
}

/// Whether an option names the routers of a packet's way.
pub const fn is_source_route(kind: u8) -> bool {
    matches!(kind, LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE)
}

/// Where in a route or timestamp option its pointer points, counted from 0. `None` without a
/// pointer, or when it is zero, which points at nothing.
pub fn pointer(option: &[u8]) -> Option<usize> {
    usize::from(*option.get(offset::POINTER)?).checked_sub(1)
}

/// The last address of a source route: where the packet goes in the end. `None` for any other
/// option, and for a route without an address.
pub fn last_hop(option: &[u8]) -> Option<Ipv4Addr> {
    let is_route = is_source_route(*option.first()?) && option.len() >= offset::ROUTE + WORD_LEN;
    option.last_chunk::<WORD_LEN>().filter(|_| is_route).map(|last| Ipv4Addr::from(*last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_count_from_one() {
        assert_eq!(pointer(&[RECORD_ROUTE, 7, 4, 10, 0, 0, 1]), Some(offset::ROUTE));
        assert_eq!(pointer(&[TIMESTAMP, 8, 5, 0, 0, 0, 0, 0]), Some(offset::TIMESTAMPS));
        assert_eq!(pointer(&[TIMESTAMP, 8, 0]), None);
        assert_eq!(pointer(&[TIMESTAMP, 2]), None);
    }

    #[test]
    fn a_source_route_ends_with_its_last_address() {
        let mut route = [LOOSE_SOURCE_ROUTE, 11, 4, 10, 0, 0, 1, 10, 0, 0, 2];
        assert_eq!(last_hop(&route), Some(Ipv4Addr::new(10, 0, 0, 2)));
        assert_eq!(last_hop(&route[..7]), Some(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(last_hop(&route[..6]), None, "no whole address");
        route[0] = RECORD_ROUTE;
        assert_eq!(last_hop(&route), None);
        assert_eq!(last_hop(&[]), None);
    }

    #[test]
    fn flags_of_timestamps_are_two_halves() {
        assert_eq!((timestamp::format(0x73), timestamp::overflow(0x73)), (timestamp::NAMED, 7));
        assert_eq!(timestamp::overflow(0xF0 + timestamp::ADDRESSES), 15);
        let lens = [timestamp::TIMES, timestamp::ADDRESSES, timestamp::NAMED].map(timestamp::entry_len);
        assert_eq!(lens, [4, 8, 8]);
    }
}
