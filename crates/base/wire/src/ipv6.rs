//! IPv6 (RFC 8200) and the way through its extension headers to the upper layer.
//! At most [`MAX_EXTENSIONS`] are followed, so that no packet costs more. Jumbograms
//! (RFC 2675) read as packets without payload; options are skipped, not obeyed.

use std::borrow::{Borrow, BorrowMut};
use std::net::Ipv6Addr;

use crate::field::{u16_at, u32_at};
use crate::ip::{Addresses, LONGEST, Protocol};
use crate::{Error, Result};

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 40;
/// Bytes of a fragment header.
pub const FRAGMENT_LEN: usize = 8;
/// In the word of a fragment header with offset and flags: the offset, in bytes.
const FRAGMENT_OFFSET: u16 = 0xFFF8;
/// More extension headers than any honest packet has.
pub const MAX_EXTENSIONS: usize = 8;

const FLOW_LABEL: u32 = 0xF_FFFF;
/// The code point in the first two bytes, and where it begins.
const DSCP: u16 = 0xFC0;
const DSCP_SHIFT: u32 = 6;

/// Where the fields of the fixed header are, in bytes.
pub mod offset {
    /// The version, the traffic class and the flow label.
    pub const VERSION: usize = 0;
    /// Bytes behind the fixed header.
    pub const PAYLOAD_LEN: usize = 4;
    /// What the payload begins with.
    pub const NEXT_HEADER: usize = 6;
    /// How many hops the packet may still take.
    pub const HOP_LIMIT: usize = 7;
    /// The source address.
    pub const SRC: usize = 8;
    /// The destination address.
    pub const DST: usize = 24;
}

/// Sets the differentiated services code point, 0 to 63, in a header's first bytes.
#[inline(always)]
pub fn set_dscp(start: &mut [u8; 2], dscp: u8) {
    let word = u16::from_be_bytes(*start) & !DSCP | u16::from(dscp) << DSCP_SHIFT & DSCP;
    *start = word.to_be_bytes();
}

header! {
    /// The fixed header.
    Header[HEADER_LEN]
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// What the payload begins with.
    #[inline(always)]
    pub fn next_header(&self) -> Protocol {
        self.get::<{ offset::NEXT_HEADER }, _>()
    }

    /// How many hops the packet may still take.
    #[inline(always)]
    pub fn hop_limit(&self) -> u8 {
        self.get::<{ offset::HOP_LIMIT }, _>()
    }

    /// The source address.
    #[inline(always)]
    pub fn src(&self) -> Ipv6Addr {
        self.get::<{ offset::SRC }, _>()
    }

    /// The destination address.
    #[inline(always)]
    pub fn dst(&self) -> Ipv6Addr {
        self.get::<{ offset::DST }, _>()
    }

    /// The version: 6, or this is another header.
    #[inline(always)]
    pub fn version(&self) -> u8 {
        self.get::<{ offset::VERSION }, u8>() >> 4
    }

    /// The differentiated services byte: DSCP in the upper six bits, ECN below.
    #[inline(always)]
    pub fn traffic_class(&self) -> u8 {
        (self.get::<{ offset::VERSION }, u16>() >> 4) as u8
    }

    /// The flow label, 20 bits.
    #[inline(always)]
    pub fn flow_label(&self) -> u32 {
        self.get::<{ offset::VERSION }, u32>() & FLOW_LABEL
    }

    /// Bytes behind the fixed header, extension headers included.
    #[inline(always)]
    pub fn payload_len(&self) -> usize {
        self.get::<{ offset::PAYLOAD_LEN }, u16>().into()
    }

    /// Both addresses, for the checksum of the layer above.
    #[inline(always)]
    pub fn addresses(&self) -> Addresses {
        Addresses::V6 { src: self.src(), dst: self.dst() }
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets what the payload begins with.
    #[inline(always)]
    pub fn set_next_header(&mut self, value: Protocol) {
        self.set::<{ offset::NEXT_HEADER }, _>(value);
    }

    /// Sets the hops left.
    #[inline(always)]
    pub fn set_hop_limit(&mut self, value: u8) {
        self.set::<{ offset::HOP_LIMIT }, _>(value);
    }

    /// Sets the source.
    #[inline(always)]
    pub fn set_src(&mut self, value: Ipv6Addr) {
        self.set::<{ offset::SRC }, _>(value);
    }

    /// Sets the destination.
    #[inline(always)]
    pub fn set_dst(&mut self, value: Ipv6Addr) {
        self.set::<{ offset::DST }, _>(value);
    }

    /// Sets version 6, the differentiated services byte and the flow label (20 bits).
    #[inline(always)]
    pub fn set_version(&mut self, traffic_class: u8, flow_label: u32) {
        let word = 6 << 28 | u32::from(traffic_class) << 20 | flow_label & FLOW_LABEL;
        self.set::<{ offset::VERSION }, u32>(word);
    }

    /// Sets the flow label (20 bits).
    #[inline(always)]
    pub fn set_flow_label(&mut self, flow_label: u32) {
        let word = self.get::<{ offset::VERSION }, u32>() & !FLOW_LABEL | flow_label & FLOW_LABEL;
        self.set::<{ offset::VERSION }, u32>(word);
    }

    /// Sets the bytes behind the fixed header.
    #[inline(always)]
    pub fn set_payload_len(&mut self, len: u16) {
        self.set::<{ offset::PAYLOAD_LEN }, _>(len);
    }

    /// Writes a header without traffic class and flow label; its addresses, for the
    /// checksum of the layer above.
    #[inline(always)]
    pub fn fill(
        &mut self,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        next_header: Protocol,
        payload_len: u16,
        hop_limit: u8,
    ) -> Addresses {
        let payload_len = payload_len.into();
        Repr { src, dst, next_header, hop_limit, traffic_class: 0, flow_label: 0, payload_len }.write(self);
        self.addresses()
    }

    /// Exchanges the addresses, which checksums of upper layers do not notice.
    #[inline(always)]
    pub fn swap_addresses(&mut self) {
        let (src, dst) = (self.src(), self.dst());
        self.set_src(dst);
        self.set_dst(src);
    }
}

view! {
    /// A packet in place. Bytes behind the payload (Ethernet's padding) are no part
    /// of it.
    Packet
}

fn check_bytes(bytes: &[u8]) -> Result<()> {
    let Some(header) = Header::of(bytes) else { return Err(Error::Truncated) };
    if header.version() != 6 {
        return Err(Error::Malformed);
    }
    if bytes.len() - HEADER_LEN < header.payload_len() { Err(Error::Truncated) } else { Ok(()) }
}

forward! {
    Packet to Header[HEADER_LEN]:
    traffic_class -> u8, flow_label -> u32, payload_len -> usize, next_header -> Protocol,
    hop_limit -> u8, src -> Ipv6Addr, dst -> Ipv6Addr, addresses -> Addresses;
    set_payload_len(u16), set_next_header(Protocol), set_hop_limit(u8), set_src(Ipv6Addr),
    set_dst(Ipv6Addr)
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// What the packet carries, extension headers included.
    pub fn payload(&self) -> &[u8] {
        &self.as_ref()[HEADER_LEN..HEADER_LEN + self.payload_len()]
    }

    /// The way through the extension headers.
    pub fn upper_layer(&self) -> Result<UpperLayer> {
        upper_layer(self.next_header(), self.payload())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the first word as [`Header::set_version`] does.
    pub fn set_version(&mut self, traffic_class: u8, flow_label: u32) {
        self.header_mut().set_version(traffic_class, flow_label);
    }

    /// What the packet carries, extension headers included.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = HEADER_LEN + self.payload_len();
        &mut self.bytes.as_mut()[HEADER_LEN..end]
    }
}

header! {
    /// What the extension headers begin with that count their length in units of eight bytes:
    /// options for every router or the destination, routing.
    Extension[2]
}

impl<T: Borrow<[u8; 2]>> Extension<T> {
    /// Which header or upper layer stands behind this one.
    #[inline(always)]
    pub fn next_header(&self) -> Protocol {
        self.get::<0, _>()
    }

    /// Bytes of the whole extension header.
    #[inline(always)]
    pub fn header_len(&self) -> usize {
        (usize::from(self.get::<1, u8>()) + 1) * 8
    }
}

/// What lies behind the extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpperLayer {
    /// The first protocol that is no extension header.
    pub protocol: Protocol,
    /// Where it begins, in bytes from the end of the fixed header.
    pub offset: usize,
    /// The fragment header, when there was one. Behind the header of a fragment with
    /// an offset lies the middle of something, and `protocol` is not followed further.
    pub fragment: Option<Fragment>,
}

/// An IPv6 fragment header (RFC 8200, section 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Where in the fragmentable part this fragment starts, in bytes.
    pub offset: u16,
    /// Whether this is not the last fragment.
    pub more: bool,
    /// Which packet the fragment belongs to.
    pub identification: u32,
}

impl Fragment {
    /// The header in front of a part of what begins with `next_header`.
    pub fn header(&self, next_header: Protocol) -> [u8; FRAGMENT_LEN] {
        let [high, low] = (self.offset & FRAGMENT_OFFSET | u16::from(self.more)).to_be_bytes();
        let [a, b, c, d] = self.identification.to_be_bytes();
        [next_header.0, 0, high, low, a, b, c, d]
    }
}

/// A fragment, and where in its packet what it is a part of stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The fragment header.
    pub fragment: Fragment,
    /// What the whole begins with, which the first fragment tells.
    pub protocol: Protocol,
    /// Where the part begins, in bytes from the end of the fixed header.
    pub offset: usize,
}

/// The first fragment header in the chain of extension headers at the start of `payload`, the first
/// of which is `first`; `None` when there is none among those that [`upper_layer`] follows.
pub fn part(first: Protocol, payload: &[u8]) -> Option<Part> {
    let (mut protocol, mut offset) = (first, 0);
    for _ in 0..=MAX_EXTENSIONS {
        let extension = Extension::of(payload.get(offset..)?)?;
        match protocol {
            Protocol::FRAGMENT => {
                let header = payload.get(offset..offset + FRAGMENT_LEN)?;
                let (protocol, offset) = (extension.next_header(), offset + FRAGMENT_LEN);
                return Some(Part { fragment: fragment(header), protocol, offset });
            }
            Protocol::HOP_BY_HOP | Protocol::ROUTING | Protocol::DESTINATION => {
                (protocol, offset) = (extension.next_header(), offset + extension.header_len());
            }
            _ => return None,
        }
    }
    None
}

/// Reads a fragment header of [`FRAGMENT_LEN`] bytes.
fn fragment(header: &[u8]) -> Fragment {
    let word = u16_at(header, 2);
    let more = word & 1 != 0;
    Fragment { offset: word & FRAGMENT_OFFSET, more, identification: u32_at(header, 4) }
}

/// Follows the chain of extension headers at the start of `payload`, the first of
/// which is `first`. What is encrypted (ESP) or unknown counts as the upper layer.
/// Chains longer than [`MAX_EXTENSIONS`] are [`Error::Unsupported`].
pub fn upper_layer(first: Protocol, payload: &[u8]) -> Result<UpperLayer> {
    let mut upper = UpperLayer { protocol: first, offset: 0, fragment: None };
    for _ in 0..=MAX_EXTENSIONS {
        let rest = payload.get(upper.offset..).ok_or(Error::Truncated)?;
        let len = match upper.protocol {
            Protocol::HOP_BY_HOP
            | Protocol::ROUTING
            | Protocol::DESTINATION
            | Protocol::MOBILITY
            | Protocol::HOST_IDENTITY
            | Protocol::SHIM6 => |n| (n + 1) * 8,
            // The one length that counts in units of four bytes (RFC 4302, section 2.2).
            Protocol::AUTHENTICATION => |n| (n + 2) * 4,
            Protocol::FRAGMENT => |_| FRAGMENT_LEN,
            _ => return Ok(upper),
        };
        let &[next, units, ..] = rest else { return Err(Error::Truncated) };
        let len: usize = len(usize::from(units));
        if rest.len() < len {
            return Err(Error::Truncated);
        }
        let fragment = (upper.protocol == Protocol::FRAGMENT).then(|| fragment(rest));
        upper.protocol = Protocol(next);
        upper.offset += len;
        // Behind the header of a fragment that is no whole packet another one says nothing.
        let outer = upper.fragment.filter(|outer| outer.more);
        upper.fragment = outer.or(fragment).or(upper.fragment);
        if fragment.is_some_and(|fragment| fragment.offset != 0) {
            return Ok(upper);
        }
    }
    Err(Error::Unsupported)
}

/// What a fixed IPv6 header means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// The source address.
    pub src: Ipv6Addr,
    /// The destination address.
    pub dst: Ipv6Addr,
    /// What the payload begins with.
    pub next_header: Protocol,
    /// How many hops the packet may still take.
    pub hop_limit: u8,
    /// DSCP in the upper six bits, ECN below.
    pub traffic_class: u8,
    /// The flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes behind the fixed header, at most 65,535.
    pub payload_len: usize,
}

impl Repr {
    /// Reads the fixed header.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr> {
        packet.check()?;
        Ok(Repr {
            src: packet.src(),
            dst: packet.dst(),
            next_header: packet.next_header(),
            hop_limit: packet.hop_limit(),
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
            payload_len: packet.payload_len(),
        })
    }

    /// Bytes that [`Repr::emit`] writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the fixed header over an array. A length that 16 bits do not hold is the largest that they
    /// do: it does not begin anew at zero.
    #[inline(always)]
    pub fn write<T: BorrowMut<[u8; HEADER_LEN]>>(&self, header: &mut Header<T>) {
        header.set_version(self.traffic_class, self.flow_label);
        header.set_payload_len(self.payload_len.min(LONGEST) as u16);
        header.set_next_header(self.next_header);
        header.set_hop_limit(self.hop_limit);
        header.set_src(self.src);
        header.set_dst(self.dst);
    }

    /// The fixed header as bytes.
    pub fn header(&self) -> Header<[u8; HEADER_LEN]> {
        let mut header = Header::zeroed();
        self.write(&mut header);
        header
    }

    /// Writes the fixed header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        self.write(&mut packet.header_mut());
    }
}
