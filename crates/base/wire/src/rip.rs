//! RIP version 2 (RFC 2453): how a router announces routes.

use std::borrow::BorrowMut;
use std::net::Ipv4Addr;

/// The UDP port.
pub const PORT: u16 = 520;
/// Bytes of a message with one route: its header and an entry of 20 bytes.
pub const ROUTE_LEN: usize = 24;
/// The command of a message that tells of routes (section 3.6).
pub const RESPONSE: u8 = 2;
/// The version that this is about.
pub const VERSION: u8 = 2;
/// The family of addresses of IPv4.
pub const FAMILY_IP: u16 = 2;

/// Where the fields of a message with one route are, in bytes (section 4).
pub mod offset {
    /// What the message is for.
    pub const COMMAND: usize = 0;
    /// The version of RIP.
    pub const VERSION: usize = 1;
    /// The family of the addresses.
    pub const FAMILY: usize = 4;
    /// The address of the network.
    pub const ADDRESS: usize = 8;
    /// The mask of the network.
    pub const MASK: usize = 12;
    /// By whom it is reached; 0.0.0.0 for the sender.
    pub const NEXT_HOP: usize = 16;
    /// How many hops it is away; 16 is unreachable.
    pub const METRIC: usize = 20;
}

header! {
    /// A message with one route, 24 bytes.
    Route[ROUTE_LEN]
}

impl<T: BorrowMut<[u8; ROUTE_LEN]>> Route<T> {
    /// Makes it a response that tells of a network, its mask, by whom it is reached, and how many hops
    /// away it is.
    pub fn fill(&mut self, [network, mask, next_hop]: [Ipv4Addr; 3], metric: u32) {
        self.set::<{ offset::COMMAND }, _>(RESPONSE);
        self.set::<{ offset::VERSION }, _>(VERSION);
        self.set::<{ offset::FAMILY }, _>(FAMILY_IP);
        self.set::<{ offset::ADDRESS }, _>(network);
        self.set::<{ offset::MASK }, _>(mask);
        self.set::<{ offset::NEXT_HOP }, _>(next_hop);
        self.set::<{ offset::METRIC }, _>(metric);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_stands_as_rfc_2453_has_it() {
        let mut route = Route::zeroed();
        let [network, mask, next_hop] = [[10, 0, 0, 0], [255, 0, 0, 0], [18, 26, 4, 24]].map(Ipv4Addr::from);
        route.fill([network, mask, next_hop], 10);
        let wanted = [2, 2, 0, 0, 0, 2, 0, 0, 10, 0, 0, 0, 255, 0, 0, 0, 18, 26, 4, 24, 0, 0, 0, 10];
        assert_eq!(route.into_inner(), wanted);
    }
}
