//! IPv4 (RFC 791; DSCP and ECN as RFC 2474 and RFC 3168 have them). Options are
//! skipped when read and never written; fragments are described here, and put together by [`crate::fragments`].

use std::borrow::{Borrow, BorrowMut};
use std::net::Ipv4Addr;

use crate::field::set_u16;
use crate::ip::{Addresses, Protocol};
use crate::{Error, Result, checksum};

mod repr;
pub use repr::Repr;

/// Bytes of the header without options.
pub const HEADER_LEN: usize = 20;

/// In the fragment word: routers must not fragment.
pub const DONT_FRAGMENT: u16 = 1 << 14;
/// In the fragment word: this is a fragment, and not the last.
pub const MORE_FRAGMENTS: u16 = 1 << 13;
/// In the fragment word: where the fragment starts, in units of eight bytes.
pub const FRAGMENT_OFFSET: u16 = 0x1FFF;

/// Where the fields of the header are, in bytes.
pub mod offset {
    /// The version, and the header's length in units of four bytes.
    pub const VERSION: usize = 0;
    /// The differentiated services byte.
    pub const TRAFFIC_CLASS: usize = 1;
    /// Bytes of header and payload.
    pub const TOTAL_LEN: usize = 2;
    /// Which packet a fragment belongs to.
    pub const IDENTIFICATION: usize = 4;
    /// Flags and fragment offset.
    pub const FRAGMENT: usize = 6;
    /// Time to live: how many hops the packet may still take.
    pub const TTL: usize = 8;
    /// What the payload is.
    pub const PROTOCOL: usize = 9;
    /// The checksum over the header alone.
    pub const CHECKSUM: usize = 10;
    /// The source address.
    pub const SRC: usize = 12;
    /// The destination address.
    pub const DST: usize = 16;
}

/// The version, by the first byte of an IP header of any version.
#[inline(always)]
pub const fn version(first: u8) -> u8 {
    first >> 4
}

/// The first byte of a header of so many bytes: a multiple of 4, 20 to 60.
#[inline(always)]
pub const fn version_and_len(header_len: usize) -> u8 {
    0x40 | (header_len / 4) as u8 & 0xF
}

/// Bytes of a header with its options, by its first byte.
#[inline(always)]
pub const fn header_len(first: u8) -> usize {
    (first & 0xF) as usize * 4
}

/// Computes the checksum of a header with its options, which is all of `header`, and
/// sets it. Panics when the checksum's field is not in it.
#[inline]
pub fn fill_checksum(header: &mut [u8]) {
    set_u16(header, offset::CHECKSUM, 0);
    let checksum = checksum::of(header);
    set_u16(header, offset::CHECKSUM, checksum);
}

header! {
    /// The header without its options.
    Header[HEADER_LEN]
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// The differentiated services byte: DSCP in the upper six bits, ECN below.
    #[inline(always)]
    pub fn traffic_class(&self) -> u8 {
        self.get::<{ offset::TRAFFIC_CLASS }, _>()
    }

    /// Which packet a fragment belongs to.
    #[inline(always)]
    pub fn identification(&self) -> u16 {
        self.get::<{ offset::IDENTIFICATION }, _>()
    }

    /// Flags and fragment offset as one word: see [`DONT_FRAGMENT`].
    #[inline(always)]
    pub fn fragment_word(&self) -> u16 {
        self.get::<{ offset::FRAGMENT }, _>()
    }

    /// Time to live: how many hops the packet may still take.
    #[inline(always)]
    pub fn ttl(&self) -> u8 {
        self.get::<{ offset::TTL }, _>()
    }

    /// What the payload is.
    #[inline(always)]
    pub fn protocol(&self) -> Protocol {
        self.get::<{ offset::PROTOCOL }, _>()
    }

    /// The header's checksum as it stands.
    #[inline(always)]
    pub fn checksum(&self) -> u16 {
        self.get::<{ offset::CHECKSUM }, _>()
    }

    /// The source address.
    #[inline(always)]
    pub fn src(&self) -> Ipv4Addr {
        self.get::<{ offset::SRC }, _>()
    }

    /// The destination address.
    #[inline(always)]
    pub fn dst(&self) -> Ipv4Addr {
        self.get::<{ offset::DST }, _>()
    }

    /// The version: 4, or this is another header.
    #[inline(always)]
    pub fn version(&self) -> u8 {
        version(self.get::<{ offset::VERSION }, _>())
    }

    /// Whether this is IPv4, and its length field says that there are no options.
    #[inline(always)]
    pub fn is_without_options(&self) -> bool {
        self.get::<{ offset::VERSION }, u8>() == version_and_len(HEADER_LEN)
    }

    /// Bytes of the header with its options, as its length field says.
    #[inline(always)]
    pub fn header_len(&self) -> usize {
        header_len(self.get::<{ offset::VERSION }, _>())
    }

    /// Bytes of header and payload.
    #[inline(always)]
    pub fn total_len(&self) -> usize {
        self.get::<{ offset::TOTAL_LEN }, u16>().into()
    }

    /// Whether routers must not fragment.
    #[inline(always)]
    pub fn dont_fragment(&self) -> bool {
        self.fragment_word() & DONT_FRAGMENT != 0
    }

    /// Whether this is a fragment, and not the last.
    #[inline(always)]
    pub fn more_fragments(&self) -> bool {
        self.fragment_word() & MORE_FRAGMENTS != 0
    }

    /// Where in the whole packet's payload this fragment starts, in bytes.
    #[inline(always)]
    pub fn fragment_offset(&self) -> u16 {
        (self.fragment_word() & FRAGMENT_OFFSET) << 3
    }

    /// Whether this is a fragment, first ones included.
    #[inline(always)]
    pub fn is_fragment(&self) -> bool {
        self.fragment_word() & (MORE_FRAGMENTS | FRAGMENT_OFFSET) != 0
    }

    /// Whether this is a fragment without the start of the payload.
    #[inline(always)]
    pub fn is_later_fragment(&self) -> bool {
        self.fragment_word() & FRAGMENT_OFFSET != 0
    }

    /// Both addresses, for the checksum of the layer above.
    #[inline(always)]
    pub fn addresses(&self) -> Addresses {
        Addresses::V4 { src: self.src(), dst: self.dst() }
    }

    /// Whether the checksum is right, of a header without options.
    #[inline(always)]
    pub fn verify_checksum(&self) -> bool {
        checksum::verify(self.bytes.borrow())
    }

    /// The sum of the pseudo header before an upper layer packet of `len` bytes.
    #[inline(always)]
    pub fn pseudo_header(&self, len: usize) -> u16 {
        self.addresses().pseudo_header(self.protocol(), len)
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets the differentiated services byte.
    #[inline(always)]
    pub fn set_traffic_class(&mut self, value: u8) {
        self.set::<{ offset::TRAFFIC_CLASS }, _>(value);
    }

    /// Sets which packet a fragment belongs to.
    #[inline(always)]
    pub fn set_identification(&mut self, value: u16) {
        self.set::<{ offset::IDENTIFICATION }, _>(value);
    }

    /// Sets flags and fragment offset as one word.
    #[inline(always)]
    pub fn set_fragment_word(&mut self, value: u16) {
        self.set::<{ offset::FRAGMENT }, _>(value);
    }

    /// Sets the hops left.
    #[inline(always)]
    pub fn set_ttl(&mut self, value: u8) {
        self.set::<{ offset::TTL }, _>(value);
    }

    /// Sets what the payload is.
    #[inline(always)]
    pub fn set_protocol(&mut self, value: Protocol) {
        self.set::<{ offset::PROTOCOL }, _>(value);
    }

    /// Sets the header's checksum.
    #[inline(always)]
    pub fn set_checksum(&mut self, value: u16) {
        self.set::<{ offset::CHECKSUM }, _>(value);
    }

    /// Sets the source.
    #[inline(always)]
    pub fn set_src(&mut self, value: Ipv4Addr) {
        self.set::<{ offset::SRC }, _>(value);
    }

    /// Sets the destination.
    #[inline(always)]
    pub fn set_dst(&mut self, value: Ipv4Addr) {
        self.set::<{ offset::DST }, _>(value);
    }

    /// Sets version 4 and the header's length, in bytes: a multiple of 4, 20 to 60.
    #[inline(always)]
    pub fn set_header_len(&mut self, len: usize) {
        self.set::<{ offset::VERSION }, _>(version_and_len(len));
    }

    /// Sets the bytes of header and payload.
    #[inline(always)]
    pub fn set_total_len(&mut self, len: u16) {
        self.set::<{ offset::TOTAL_LEN }, _>(len);
    }

    /// Sets both flags and the fragment's offset, in bytes: a multiple of 8.
    #[inline(always)]
    pub fn set_fragment(&mut self, dont_fragment: bool, more_fragments: bool, offset: u16) {
        let dont_fragment = if dont_fragment { DONT_FRAGMENT } else { 0 };
        let more_fragments = if more_fragments { MORE_FRAGMENTS } else { 0 };
        self.set_fragment_word(dont_fragment | more_fragments | offset >> 3);
    }

    /// Exchanges the addresses, which the checksum does not notice.
    #[inline(always)]
    pub fn swap_addresses(&mut self) {
        let (src, dst) = (self.src(), self.dst());
        self.set_src(dst);
        self.set_dst(src);
    }

    /// Computes the checksum of a header without options and sets it.
    #[inline(always)]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = checksum::of(self.bytes.borrow());
        self.set_checksum(checksum);
    }

    /// Sets the bytes of header and payload, and the identification, of a header whose both
    /// are zero and whose checksum is right; the checksum follows.
    #[inline(always)]
    pub fn complete(&mut self, total_len: u16, identification: u16) {
        let checksum = checksum::append(self.checksum(), [total_len, identification]);
        self.set_total_len(total_len);
        self.set_identification(identification);
        self.set_checksum(checksum);
    }

    /// Changes a 16-bit word, and the checksum with it (RFC 1624).
    #[inline(always)]
    fn update<const AT: usize>(&mut self, to: u16) {
        let (from, checksum) = (self.get::<AT, _>(), self.checksum());
        self.set::<AT, _>(to);
        self.set_checksum(checksum::update(checksum, from, to));
    }

    /// Changes the differentiated services byte, and the checksum with it.
    #[inline(always)]
    pub fn update_traffic_class(&mut self, class: u8) {
        let version = self.get::<{ offset::VERSION }, _>();
        self.update::<{ offset::VERSION }>(u16::from_be_bytes([version, class]));
    }

    /// Changes the bytes of header and payload, and the checksum with them.
    #[inline(always)]
    pub fn update_total_len(&mut self, len: u16) {
        self.update::<{ offset::TOTAL_LEN }>(len);
    }

    /// Changes flags and fragment offset as one word, and the checksum with them.
    #[inline(always)]
    pub fn update_fragment_word(&mut self, word: u16) {
        self.update::<{ offset::FRAGMENT }>(word);
    }

    /// Changes the hops left, and the checksum with them.
    #[inline(always)]
    pub fn update_ttl(&mut self, ttl: u8) {
        let protocol = self.protocol().0;
        self.update::<{ offset::TTL }>(u16::from_be_bytes([ttl, protocol]));
    }

    /// Changes the source, and the checksum with it.
    #[inline(always)]
    pub fn update_src(&mut self, src: Ipv4Addr) {
        let checksum = checksum::update_u32(self.checksum(), self.src().into(), src.into());
        self.set_src(src);
        self.set_checksum(checksum);
    }

    /// Changes the destination, and the checksum with it.
    #[inline(always)]
    pub fn update_dst(&mut self, dst: Ipv4Addr) {
        let checksum = checksum::update_u32(self.checksum(), self.dst().into(), dst.into());
        self.set_dst(dst);
        self.set_checksum(checksum);
    }

    /// One hop less, and the checksum kept right (RFC 1624). False, and nothing
    /// changed, when there was no hop left to take.
    #[inline(always)]
    pub fn decrement_ttl(&mut self) -> bool {
        // The word of hop limit and protocol, written as it is read: a word read
        // after one of its bytes was written waits until that is in the cache.
        let from: u16 = self.get::<{ offset::TTL }, _>();
        if from >> 8 <= 1 {
            return false;
        }
        // In equation 3, !m + m' is 0xFEFF whatever the hop limit was. A sum with its carry is
        // the same in any byte order (RFC 1071, section 2B): in the machine's nothing is swapped.
        let sum = u32::from(!self.checksum().to_be()) + u32::from(0xFEFF_u16.to_be());
        self.set::<{ offset::TTL }, _>(from - 0x100);
        self.set_checksum(u16::from_be(!((sum + (sum >> 16)) as u16)));
        true
    }
}

view! {
    /// A packet in place. Bytes behind the total length (Ethernet's padding) are no
    /// part of the payload.
    Packet
}

fn check_bytes(bytes: &[u8]) -> Result<()> {
    let Some(header) = Header::of(bytes) else { return Err(Error::Truncated) };
    let (header_len, total_len) = (header.header_len(), header.total_len());
    if header.version() != 4 || header_len < HEADER_LEN || total_len < header_len {
        return Err(Error::Malformed);
    }
    if bytes.len() < total_len { Err(Error::Truncated) } else { Ok(()) }
}

forward! {
    Packet to Header[HEADER_LEN]:
    header_len -> usize, traffic_class -> u8, total_len -> usize, identification -> u16,
    dont_fragment -> bool, more_fragments -> bool, fragment_offset -> u16, is_fragment -> bool,
    ttl -> u8, protocol -> Protocol, checksum -> u16, src -> Ipv4Addr, dst -> Ipv4Addr,
    addresses -> Addresses;
    set_header_len(usize), set_traffic_class(u8), set_total_len(u16), set_identification(u16),
    set_ttl(u8), set_protocol(Protocol), set_checksum(u16), set_src(Ipv4Addr), set_dst(Ipv4Addr)
}

impl<T: AsRef<[u8]>> Packet<T> {
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
        checksum::verify(&self.as_ref()[..self.header_len()])
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes the header's checksum and sets it.
    pub fn fill_checksum(&mut self) {
        let len = self.header_len();
        fill_checksum(&mut self.bytes.as_mut()[..len]);
    }

    /// What the packet carries.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = self.header_len()..self.total_len();
        &mut self.bytes.as_mut()[range]
    }
}
