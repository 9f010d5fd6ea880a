//! Annotations: what the elements of a router tell each other about a packet.
//!
//! One cache line beside each packet's bytes. Its first [`AREA`] bytes are
//! Click's annotation area, at Click's offsets (`packet_anno.hh`), because
//! configurations name them; then a timestamp and the places of the headers.
//! A packet fresh from a pool or a port holds whatever was there before:
//! whoever brings packets into a router calls [`Packet::clear_annotations`].

use crate::packet::{DATA_ROOM, HEADROOM, Packet};
use crate::slab;

/// Bytes of the area that configurations can address.
pub const AREA: usize = 48;

/// No header was found yet: behind the end of all data.
const UNSET: i16 = i16::MAX;

/// How a packet came, as Linux says it (`PACKET_HOST`, …).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Reach {
    /// To this host.
    #[default]
    Host,
    /// To everyone on the link.
    Broadcast,
    /// To a group.
    Multicast,
    /// To another host; seen because the port is promiscuous.
    OtherHost,
    /// Sent by this host.
    Outgoing,
}

/// The annotations of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Annotations {
    /// The area that configurations can address.
    pub area: [u8; AREA],
    /// When the packet came, in nanoseconds since 1970; zero if nobody said.
    pub timestamp_ns: i64,
    /// Places of the headers, from the start of the data room: below zero in the headroom.
    link: i16,
    network: i16,
    transport: i16,
    /// To whom it came.
    pub reach: Reach,
}

const _: () = assert!(size_of::<Annotations>() == 64);

/// Places that a buffer has.
const PLACES: std::ops::RangeInclusive<isize> = -(HEADROOM as isize)..=DATA_ROOM as isize;

impl Default for Annotations {
    fn default() -> Annotations {
        Annotations {
            area: [0; AREA],
            timestamp_ns: 0,
            link: UNSET,
            network: UNSET,
            transport: UNSET,
            reach: Reach::Host,
        }
    }
}

/// A header of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// The link layer's: Ethernet.
    Link,
    /// The network layer's: IP.
    Network,
    /// The transport layer's: TCP, UDP, ICMP.
    Transport,
}

impl Annotations {
    #[inline(always)]
    fn place(&self, header: Header) -> i16 {
        match header {
            Header::Link => self.link,
            Header::Network => self.network,
            Header::Transport => self.transport,
        }
    }
}

impl Packet {
    /// What elements noted of the packet.
    #[inline(always)]
    pub fn annotations(&self) -> &Annotations {
        // SAFETY: the packet owns the buffer, whose annotations are initialised.
        unsafe { slab::annotations(self.0).as_ref() }
    }

    /// The annotations, to change them.
    #[inline(always)]
    pub fn annotations_mut(&mut self) -> &mut Annotations {
        // SAFETY: as above, and `&mut self` is exclusive.
        unsafe { slab::annotations(self.0).as_mut() }
    }

    /// Nothing is known of the packet.
    #[inline(always)]
    pub fn clear_annotations(&mut self) {
        *self.annotations_mut() = Annotations::default();
    }

    /// Says that a header begins `at` bytes behind the start of the data. A place
    /// that no buffer has is forgotten.
    #[inline(always)]
    pub fn set_header(&mut self, header: Header, at: usize) {
        let place = (self.meta().start as isize).wrapping_add(at as isize);
        // The start itself is a place: a constant zero costs no comparison.
        let place = if at == 0 || PLACES.contains(&place) { place as i16 } else { UNSET };
        let annotations = self.annotations_mut();
        match header {
            Header::Link => annotations.link = place,
            Header::Network => annotations.network = place,
            Header::Transport => annotations.transport = place,
        }
    }

    /// Says where a network header and a transport header begin, in bytes behind the start of
    /// the data and within it, at its end at most.
    #[inline(always)]
    pub fn set_headers_within(&mut self, network: usize, transport: usize) {
        let (start, len) = (self.meta().start, self.len());
        // The data end in the buffer, so that these are places that it has.
        let place = |at: usize| (start + at.min(len) as i32) as i16;
        let (network, transport) = (place(network), place(transport));
        let annotations = self.annotations_mut();
        (annotations.network, annotations.transport) = (network, transport);
    }

    /// Forgets where a header is.
    pub fn clear_header(&mut self, header: Header) {
        self.set_header(header, usize::MAX / 2);
    }

    /// Where a header begins, in bytes from the start of the data: below zero
    /// when it was stripped.
    #[inline(always)]
    pub fn header_offset(&self, header: Header) -> Option<isize> {
        let place = self.annotations().place(header);
        (place != UNSET).then(|| place as isize - self.meta().start as isize)
    }

    /// Whether it is known where a header begins.
    #[inline(always)]
    pub fn has_header(&self, header: Header) -> bool {
        self.annotations().place(header) != UNSET
    }

    /// A header and all that follows it in the first segment, also when it was
    /// stripped; `None` when nobody said where it is, or it begins behind the
    /// end of the data.
    #[inline(always)]
    pub fn header(&self, header: Header) -> Option<&[u8]> {
        let place = self.annotations().place(header) as isize;
        let end = self.meta().start as isize + self.len() as isize;
        if place > end {
            return None; // also when it is not set
        }
        // SAFETY: `place..end` lies in the buffer, as `Deref` says of the end and
        // `set_header` of the place; the packet owns it, and all of a buffer is
        // initialised memory.
        Some(unsafe { std::slice::from_raw_parts(self.data_room().offset(place), (end - place) as usize) })
    }

    /// As [`header`](Self::header), to change it.
    #[inline(always)]
    pub fn header_mut(&mut self, header: Header) -> Option<&mut [u8]> {
        let place = self.annotations().place(header) as isize;
        let end = self.meta().start as isize + self.len() as isize;
        if place > end {
            return None;
        }
        // SAFETY: as above, and `&mut self` is exclusive.
        Some(unsafe {
            std::slice::from_raw_parts_mut(self.data_room().offset(place), (end - place) as usize)
        })
    }

    /// As [`header_mut`](Self::header_mut), and the segments behind the first, in which the
    /// packet goes on.
    #[inline(always)]
    pub fn header_and_next(&mut self, header: Header) -> Option<(&mut [u8], Option<&Packet>)> {
        let next: *const Option<Packet> = self.next_slot();
        let bytes = self.header_mut(header)?;
        // SAFETY: the link is beside the bytes of all buffers, and the segments behind it are
        // other buffers than this one, so that nothing that `bytes` can change is reached
        // through it; both are borrowed from `self`.
        Some((bytes, unsafe { (*next).as_ref() }))
    }

    /// The bytes of the first segment, to change them, and the segments behind it, in which the
    /// packet goes on.
    #[inline(always)]
    pub fn first_and_next(&mut self) -> (&mut [u8], Option<&Packet>) {
        let next: *const Option<Packet> = self.next_slot();
        let bytes = &mut self[..];
        // SAFETY: as in `header_and_next`.
        (bytes, unsafe { (*next).as_ref() })
    }
}
