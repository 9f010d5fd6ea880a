//! IPv4 (RFC 791; DSCP and ECN as RFC 2474 and RFC 3168 have them). Options are
//! skipped when read and never written; fragments are described, not reassembled.

use std::net::Ipv4Addr;

use crate::field::{array_at, set_array, set_u16, u16_at};
use crate::ip::{Addresses, Protocol};
use crate::{Error, Result, checksum};

/// Bytes of the header without options.
pub const HEADER_LEN: usize = 20;

const DONT_FRAGMENT: u16 = 1 << 14;
const MORE_FRAGMENTS: u16 = 1 << 13;
/// In units of eight bytes.
const FRAGMENT_OFFSET: u16 = 0x1FFF;

view! {
    /// A packet in place. Bytes behind the total length (Ethernet's padding) are no
    /// part of the payload.
    Packet
}

fn check_bytes(bytes: &[u8]) -> Result<()> {
    if bytes.len() < HEADER_LEN {
        return Err(Error::Truncated);
    }
    let header_len = usize::from(bytes[0] & 0xF) * 4;
    let total_len = usize::from(u16_at(bytes, 2));
    if bytes[0] >> 4 != 4 || header_len < HEADER_LEN || total_len < header_len {
        return Err(Error::Malformed);
    }
    if bytes.len() < total_len { Err(Error::Truncated) } else { Ok(()) }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Bytes of the header with its options.
    pub fn header_len(&self) -> usize {
        usize::from(self.as_ref()[0] & 0xF) * 4
    }

    /// The differentiated services byte: DSCP in the upper six bits, ECN below.
    pub fn traffic_class(&self) -> u8 {
        self.as_ref()[1]
    }

    /// Bytes of header and payload.
    pub fn total_len(&self) -> usize {
        u16_at(self.as_ref(), 2).into()
    }

    /// Which packet a fragment belongs to.
    pub fn identification(&self) -> u16 {
        u16_at(self.as_ref(), 4)
    }

    /// Whether routers must not fragment.
    pub fn dont_fragment(&self) -> bool {
        u16_at(self.as_ref(), 6) & DONT_FRAGMENT != 0
    }

    /// Whether this is a fragment, and not the last.
    pub fn more_fragments(&self) -> bool {
        u16_at(self.as_ref(), 6) & MORE_FRAGMENTS != 0
    }

    /// Where in the whole packet's payload this fragment starts, in bytes.
    pub fn fragment_offset(&self) -> u16 {
        (u16_at(self.as_ref(), 6) & FRAGMENT_OFFSET) << 3
    }

    /// Whether this is a fragment, first ones included.
    pub fn is_fragment(&self) -> bool {
        u16_at(self.as_ref(), 6) & (MORE_FRAGMENTS | FRAGMENT_OFFSET) != 0
    }

    /// Hops left.
    pub fn ttl(&self) -> u8 {
        self.as_ref()[8]
    }

    /// What the payload is.
    pub fn protocol(&self) -> Protocol {
        Protocol(self.as_ref()[9])
    }

    /// The header's checksum as it stands.
    pub fn checksum(&self) -> u16 {
        u16_at(self.as_ref(), 10)
    }

    /// From whom.
    pub fn src(&self) -> Ipv4Addr {
        array_at(self.as_ref(), 12).into()
    }

    /// To whom.
    pub fn dst(&self) -> Ipv4Addr {
        array_at(self.as_ref(), 16).into()
    }

    /// Both addresses, for the checksum of the layer above.
    pub fn addresses(&self) -> Addresses {
        Addresses::V4 { src: self.src(), dst: self.dst() }
    }

    /// The options, undecoded.
    pub fn options(&self) -> &[u8] {
        &self.as_ref()[HEADER_LEN..self.header_len()]
    }

    /// What the packet carries.
    pub fn payload(&self) -> &[u8] {
        &self.as_ref()[self.header_len()..self.total_len()]
    }

    /// Whether the header's checksum is right.
    pub fn verify_checksum(&self) -> bool {
        checksum::sum(&self.as_ref()[..self.header_len()]) == 0xFFFF
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets version 4 and the header's length, in bytes: a multiple of 4, 20 to 60.
    pub fn set_header_len(&mut self, len: usize) {
        self.bytes.as_mut()[0] = 0x40 | (len / 4) as u8 & 0xF;
    }

    /// Sets the differentiated services byte.
    pub fn set_traffic_class(&mut self, class: u8) {
        self.bytes.as_mut()[1] = class;
    }

    /// Sets the bytes of header and payload.
    pub fn set_total_len(&mut self, len: u16) {
        set_u16(self.bytes.as_mut(), 2, len);
    }

    /// Sets which packet a fragment belongs to.
    pub fn set_identification(&mut self, identification: u16) {
        set_u16(self.bytes.as_mut(), 4, identification);
    }

    /// Sets both flags and the fragment's offset, in bytes: a multiple of 8.
    pub fn set_fragment(&mut self, dont_fragment: bool, more_fragments: bool, offset: u16) {
        let dont_fragment = if dont_fragment { DONT_FRAGMENT } else { 0 };
        let more_fragments = if more_fragments { MORE_FRAGMENTS } else { 0 };
        set_u16(self.bytes.as_mut(), 6, dont_fragment | more_fragments | offset >> 3);
    }

    /// Sets the hops left.
    pub fn set_ttl(&mut self, ttl: u8) {
        self.bytes.as_mut()[8] = ttl;
    }

    /// Sets what the payload is.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.bytes.as_mut()[9] = protocol.0;
    }

    /// Sets the header's checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        set_u16(self.bytes.as_mut(), 10, checksum);
    }

    /// Sets the source.
    pub fn set_src(&mut self, src: Ipv4Addr) {
        set_array(self.bytes.as_mut(), 12, &src.octets());
    }

    /// Sets the destination.
    pub fn set_dst(&mut self, dst: Ipv4Addr) {
        set_array(self.bytes.as_mut(), 16, &dst.octets());
    }

    /// Computes the header's checksum and sets it.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = checksum::of(&self.as_ref()[..self.header_len()]);
        self.set_checksum(checksum);
    }

    /// One hop less, and the checksum kept right (RFC 1624). False, and nothing
    /// changed, when there was no hop left to take.
    #[inline]
    pub fn decrement_ttl(&mut self) -> bool {
        // The word of hop limit and protocol, written as it is read: a word read
        // after one of its bytes was written waits until that is in the cache.
        let from = u16_at(self.as_ref(), 8);
        if from >> 8 <= 1 {
            return false;
        }
        let to = from - 0x100;
        set_u16(self.bytes.as_mut(), 8, to);
        self.set_checksum(checksum::update(self.checksum(), from, to));
        true
    }

    /// What the packet carries.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = self.header_len()..self.total_len();
        &mut self.bytes.as_mut()[range]
    }
}

/// What an IPv4 header means, options left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// From whom.
    pub src: Ipv4Addr,
    /// To whom.
    pub dst: Ipv4Addr,
    /// What the payload is.
    pub protocol: Protocol,
    /// Hops left.
    pub ttl: u8,
    /// DSCP in the upper six bits, ECN below.
    pub traffic_class: u8,
    /// Which packet a fragment belongs to.
    pub identification: u16,
    /// Whether routers must not fragment.
    pub dont_fragment: bool,
    /// Whether this is a fragment, and not the last.
    pub more_fragments: bool,
    /// Where this fragment starts, in bytes: a multiple of 8.
    pub fragment_offset: u16,
    /// Bytes of the payload, at most 65,515.
    pub payload_len: usize,
}

impl Repr {
    /// Reads the header, which must have the right checksum.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr> {
        packet.check()?;
        if !packet.verify_checksum() {
            return Err(Error::Checksum);
        }
        Ok(Repr {
            src: packet.src(),
            dst: packet.dst(),
            protocol: packet.protocol(),
            ttl: packet.ttl(),
            traffic_class: packet.traffic_class(),
            identification: packet.identification(),
            dont_fragment: packet.dont_fragment(),
            more_fragments: packet.more_fragments(),
            fragment_offset: packet.fragment_offset(),
            payload_len: packet.total_len() - packet.header_len(),
        })
    }

    /// Bytes that [`Repr::emit`] writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header and its checksum.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_header_len(HEADER_LEN);
        packet.set_traffic_class(self.traffic_class);
        packet.set_total_len((HEADER_LEN + self.payload_len) as u16);
        packet.set_identification(self.identification);
        packet.set_fragment(self.dont_fragment, self.more_fragments, self.fragment_offset);
        packet.set_ttl(self.ttl);
        packet.set_protocol(self.protocol);
        packet.set_src(self.src);
        packet.set_dst(self.dst);
        packet.fill_checksum();
    }
}
