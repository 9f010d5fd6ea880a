//! IPv6 (RFC 8200) and the way through its extension headers to the upper layer.
//! At most [`MAX_EXTENSIONS`] are followed, so that no packet costs more. Jumbograms
//! (RFC 2675) read as packets without payload; options are skipped, not obeyed.

use std::net::Ipv6Addr;

use crate::field::{array_at, set_array, set_u16, set_u32, u16_at, u32_at};
use crate::ip::{Addresses, Protocol};
use crate::{Error, Result};

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 40;
/// More extension headers than any honest packet has.
pub const MAX_EXTENSIONS: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const HOST_IDENTITY: u8 = 139;
const SHIM6: u8 = 140;

view! {
    /// A packet in place. Bytes behind the payload (Ethernet's padding) are no part
    /// of it.
    Packet
}

fn check_bytes(bytes: &[u8]) -> Result<()> {
    if bytes.len() < HEADER_LEN {
        return Err(Error::Truncated);
    }
    if bytes[0] >> 4 != 6 {
        return Err(Error::Malformed);
    }
    if bytes.len() - HEADER_LEN < usize::from(u16_at(bytes, 4)) { Err(Error::Truncated) } else { Ok(()) }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// The differentiated services byte: DSCP in the upper six bits, ECN below.
    pub fn traffic_class(&self) -> u8 {
        (u16_at(self.as_ref(), 0) >> 4) as u8
    }

    /// The flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        u32_at(self.as_ref(), 0) & 0xF_FFFF
    }

    /// Bytes behind the fixed header, extension headers included.
    pub fn payload_len(&self) -> usize {
        u16_at(self.as_ref(), 4).into()
    }

    /// What the payload begins with.
    pub fn next_header(&self) -> Protocol {
        Protocol(self.as_ref()[6])
    }

    /// Hops left.
    pub fn hop_limit(&self) -> u8 {
        self.as_ref()[7]
    }

    /// From whom.
    pub fn src(&self) -> Ipv6Addr {
        array_at::<16>(self.as_ref(), 8).into()
    }

    /// To whom.
    pub fn dst(&self) -> Ipv6Addr {
        array_at::<16>(self.as_ref(), 24).into()
    }

    /// Both addresses, for the checksum of the layer above.
    pub fn addresses(&self) -> Addresses {
        Addresses::V6 { src: self.src(), dst: self.dst() }
    }

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
    /// Sets version 6, the differentiated services byte and the flow label (20 bits).
    pub fn set_version(&mut self, traffic_class: u8, flow_label: u32) {
        let word = 6 << 28 | u32::from(traffic_class) << 20 | flow_label & 0xF_FFFF;
        set_u32(self.bytes.as_mut(), 0, word);
    }

    /// Sets the bytes behind the fixed header.
    pub fn set_payload_len(&mut self, len: u16) {
        set_u16(self.bytes.as_mut(), 4, len);
    }

    /// Sets what the payload begins with.
    pub fn set_next_header(&mut self, protocol: Protocol) {
        self.bytes.as_mut()[6] = protocol.0;
    }

    /// Sets the hops left.
    pub fn set_hop_limit(&mut self, hops: u8) {
        self.bytes.as_mut()[7] = hops;
    }

    /// Sets the source.
    pub fn set_src(&mut self, src: Ipv6Addr) {
        set_array(self.bytes.as_mut(), 8, &src.octets());
    }

    /// Sets the destination.
    pub fn set_dst(&mut self, dst: Ipv6Addr) {
        set_array(self.bytes.as_mut(), 24, &dst.octets());
    }

    /// What the packet carries, extension headers included.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = HEADER_LEN + self.payload_len();
        &mut self.bytes.as_mut()[HEADER_LEN..end]
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

/// Follows the chain of extension headers at the start of `payload`, the first of
/// which is `first`. What is encrypted (ESP) or unknown counts as the upper layer.
/// Chains longer than [`MAX_EXTENSIONS`] are [`Error::Unsupported`].
pub fn upper_layer(first: Protocol, payload: &[u8]) -> Result<UpperLayer> {
    let mut upper = UpperLayer { protocol: first, offset: 0, fragment: None };
    for _ in 0..=MAX_EXTENSIONS {
        let rest = payload.get(upper.offset..).ok_or(Error::Truncated)?;
        let len = match upper.protocol.0 {
            HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY | HOST_IDENTITY | SHIM6 => |n| (n + 1) * 8,
            // The one length that counts in units of four bytes (RFC 4302, section 2.2).
            AUTHENTICATION => |n| (n + 2) * 4,
            FRAGMENT => |_| 8,
            _ => return Ok(upper),
        };
        let &[next, units, ..] = rest else { return Err(Error::Truncated) };
        let len: usize = len(usize::from(units));
        if rest.len() < len {
            return Err(Error::Truncated);
        }
        let fragment = (upper.protocol.0 == FRAGMENT).then(|| Fragment {
            offset: u16_at(rest, 2) & 0xFFF8,
            more: rest[3] & 1 != 0,
            identification: u32_at(rest, 4),
        });
        upper.protocol = Protocol(next);
        upper.offset += len;
        upper.fragment = fragment.or(upper.fragment);
        if fragment.is_some_and(|fragment| fragment.offset != 0) {
            return Ok(upper);
        }
    }
    Err(Error::Unsupported)
}

/// What a fixed IPv6 header means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// From whom.
    pub src: Ipv6Addr,
    /// To whom.
    pub dst: Ipv6Addr,
    /// What the payload begins with.
    pub next_header: Protocol,
    /// Hops left.
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

    /// Writes the fixed header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_version(self.traffic_class, self.flow_label);
        packet.set_payload_len(self.payload_len as u16);
        packet.set_next_header(self.next_header);
        packet.set_hop_limit(self.hop_limit);
        packet.set_src(self.src);
        packet.set_dst(self.dst);
    }
}
