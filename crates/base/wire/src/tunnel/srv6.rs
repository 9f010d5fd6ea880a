//! The segment routing header of IPv6 (RFC 8754): the segments that a packet still has to
//! visit, the last one first. Type, length and value objects behind the segments are skipped.

use std::borrow::{Borrow, BorrowMut};
use std::net::Ipv6Addr;

use crate::field::{array_at, set_slice};
use crate::ip::Protocol;
use crate::{Error, Result};

/// Bytes of the header in front of the segments.
pub const HEADER_LEN: usize = 8;
/// Bytes of one segment.
pub const SEGMENT_LEN: usize = 16;
/// The routing type (RFC 8754, section 2).
pub const ROUTING_TYPE: u8 = 4;

/// Where the fields of the header are, in bytes.
pub mod offset {
    /// What follows the header.
    pub const NEXT_HEADER: usize = 0;
    /// Bytes behind the first eight, in units of eight.
    pub const LEN: usize = 1;
    /// The routing type.
    pub const ROUTING_TYPE: usize = 2;
    /// Segments that are still to be visited.
    pub const SEGMENTS_LEFT: usize = 3;
    /// The index of the last element of the list of segments.
    pub const LAST_ENTRY: usize = 4;
}

header! {
    /// The header in front of the segments.
    Header[HEADER_LEN]
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// What follows the header.
    #[inline(always)]
    pub fn next_header(&self) -> Protocol {
        self.get::<{ offset::NEXT_HEADER }, _>()
    }

    /// Bytes of all with segments and objects.
    #[inline(always)]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + usize::from(self.get::<{ offset::LEN }, u8>()) * 8
    }

    /// The routing type: [`ROUTING_TYPE`], or this is another header.
    #[inline(always)]
    pub fn routing_type(&self) -> u8 {
        self.get::<{ offset::ROUTING_TYPE }, _>()
    }

    /// Segments that are still to be visited, which is the index of the one that the packet
    /// goes to now.
    #[inline(always)]
    pub fn segments_left(&self) -> u8 {
        self.get::<{ offset::SEGMENTS_LEFT }, _>()
    }

    /// The index of the last element of the list of segments.
    #[inline(always)]
    pub fn last_entry(&self) -> u8 {
        self.get::<{ offset::LAST_ENTRY }, _>()
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets what follows the header.
    #[inline(always)]
    pub fn set_next_header(&mut self, protocol: Protocol) {
        self.set::<{ offset::NEXT_HEADER }, _>(protocol);
    }

    /// Sets segments that are still to be visited.
    #[inline(always)]
    pub fn set_segments_left(&mut self, left: u8) {
        self.set::<{ offset::SEGMENTS_LEFT }, _>(left);
    }
}

view! {
    /// A header with its segments, and the payload behind it.
    Packet
}

fn check_bytes(bytes: &[u8]) -> Result<()> {
    let Some(header) = Header::of(bytes) else { return Err(Error::Truncated) };
    if header.routing_type() != ROUTING_TYPE {
        return Err(Error::Unsupported);
    }
    let segments = usize::from(header.last_entry()) + 1;
    // RFC 8754, section 4.3.1.1. A reduced list lacks the first segment of the way, which is
    // the destination already, so that one more may be left than there are.
    let left = usize::from(header.segments_left());
    if HEADER_LEN + segments * SEGMENT_LEN > header.header_len() || left > segments {
        return Err(Error::Malformed);
    }
    if bytes.len() < header.header_len() { Err(Error::Truncated) } else { Ok(()) }
}

forward! {
    Packet to Header[HEADER_LEN]:
    next_header -> Protocol, header_len -> usize, segments_left -> u8, last_entry -> u8;
    set_segments_left(u8)
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// An element of the list of segments; the first is the last to be visited.
    pub fn segment(&self, index: u8) -> Option<Ipv6Addr> {
        let at = HEADER_LEN + usize::from(index) * SEGMENT_LEN;
        (index <= self.last_entry()).then(|| array_at(self.as_ref(), at).into())
    }

    /// What is carried.
    pub fn payload(&self) -> &[u8] {
        &self.as_ref()[self.header_len()..]
    }
}

/// Bytes of a header with so many segments.
pub const fn len(segments: usize) -> usize {
    HEADER_LEN + segments * SEGMENT_LEN
}

/// Writes a header with these segments, in the order of the way, of which `left` are still to
/// be visited: to the start of `bytes`, [`len`] of them. A list without the way's first
/// segment, which is the destination already, has all of its segments left (RFC 8754, section
/// 4.1.1); a whole one all but one. False, and nothing written, where there is no room, no
/// segment, more than 127, or more left than there are.
pub fn emit(bytes: &mut [u8], next_header: Protocol, segments: &[Ipv6Addr], left: u8) -> bool {
    let Some(bytes) = bytes.get_mut(..len(segments.len())) else { return false };
    let last = match segments.len() {
        n @ 1..=127 if usize::from(left) <= n => n as u8 - 1,
        _ => return false,
    };
    let Some(mut header) = Header::of_mut(bytes) else { return false };
    *header.bytes = [0; HEADER_LEN];
    header.set_next_header(next_header);
    header.set::<{ offset::LEN }, u8>((last + 1) * 2);
    header.set::<{ offset::ROUTING_TYPE }, _>(ROUTING_TYPE);
    header.set_segments_left(left);
    header.set::<{ offset::LAST_ENTRY }, _>(last);
    for (segment, at) in segments.iter().rev().zip((HEADER_LEN..).step_by(SEGMENT_LEN)) {
        set_slice(bytes, at, &segment.octets());
    }
    true
}
