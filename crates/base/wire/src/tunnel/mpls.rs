//! MPLS labels (RFC 3032; the traffic class as RFC 5462 names it), and the UDP port that
//! carries them (RFC 7510).

use std::borrow::{Borrow, BorrowMut};

/// Bytes of one label of a stack.
pub const HEADER_LEN: usize = 4;
/// The UDP port of MPLS over UDP (RFC 7510, section 3).
pub const PORT: u16 = 6635;
/// The largest label: 20 bits.
pub const MAX_LABEL: u32 = 0xF_FFFF;
/// The label under which an IPv4 packet lies, whatever the tunnel (RFC 3032, section 2.1).
pub const IPV4_EXPLICIT_NULL: u32 = 0;
/// The label under which an IPv6 packet lies, whatever the tunnel.
pub const IPV6_EXPLICIT_NULL: u32 = 2;

header! {
    /// One label of a stack.
    Header[HEADER_LEN]
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    #[inline(always)]
    fn word(&self) -> u32 {
        self.get::<0, _>()
    }

    /// The label: 20 bits.
    #[inline(always)]
    pub fn label(&self) -> u32 {
        self.word() >> 12
    }

    /// The traffic class: 3 bits.
    #[inline(always)]
    pub fn traffic_class(&self) -> u8 {
        (self.word() >> 9) as u8 & 7
    }

    /// Whether this is the last label of the stack.
    #[inline(always)]
    pub fn is_last(&self) -> bool {
        self.word() & 1 << 8 != 0
    }

    /// Time to live: how many hops the packet may still take.
    #[inline(always)]
    pub fn ttl(&self) -> u8 {
        self.word() as u8
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets hops left.
    #[inline(always)]
    pub fn set_ttl(&mut self, ttl: u8) {
        self.set::<3, _>(ttl);
    }
}

/// One label of a stack, as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// The label: 20 bits.
    pub label: u32,
    /// The traffic class: 3 bits.
    pub traffic_class: u8,
    /// Whether it is the last of the stack.
    pub is_last: bool,
    /// Time to live: how many hops the packet may still take.
    pub ttl: u8,
}

impl Repr {
    /// The label as bytes. Excess bits of the parts are cut.
    pub fn header(&self) -> Header<[u8; HEADER_LEN]> {
        let word = (self.label & MAX_LABEL) << 12
            | u32::from(self.traffic_class & 7) << 9
            | u32::from(self.is_last) << 8
            | u32::from(self.ttl);
        Header::new(word.to_be_bytes())
    }
}
