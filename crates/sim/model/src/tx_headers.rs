//! Headers of a packet to be sent, as a driver's descriptors tell of them: whether the packet
//! has them, the checksums that are filled in by them, and how they are cut off for segments.
//!
//! 82599 datasheet rev. 3.4, sections 7.2.4 (segmentation) and 7.2.5 (checksums), and what the
//! XL710 does alike. The driver puts the pseudo header's sum where the transport checksum goes;
//! what it put there is used, right or wrong. IPv4, IPv6, TCP, UDP and SCTP; no tunnels.

use wire::checksum::never_zero;
use wire::ip::{self, Protocol};
use wire::{ethernet, ipv4, ipv6, tcp, udp};

use crate::checksum::{add, crc32c, fold, pseudo, sum};
use crate::segment::{Segmentation, fill_ip_checksum};

/// Smallest segment size taken; a smaller one is a driver's error.
const LEAST_MSS: usize = 48;

/// Whose checksum is filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
    Sctp,
}

impl Transport {
    fn protocol(self) -> Protocol {
        match self {
            Transport::Tcp => Protocol::TCP,
            Transport::Udp => Protocol::UDP,
            Transport::Sctp => Protocol::SCTP,
        }
    }

    /// Bytes of its shortest header.
    pub fn header_len(self) -> usize {
        match self {
            Transport::Tcp => tcp::HEADER_LEN,
            Transport::Udp => udp::HEADER_LEN,
            Transport::Sctp => ip::SCTP_HEADER_LEN,
        }
    }

    /// Where the checksum stands in its header.
    fn checksum(self) -> usize {
        match self {
            Transport::Tcp => tcp::offset::CHECKSUM,
            Transport::Udp => udp::offset::CHECKSUM,
            Transport::Sctp => ip::SCTP_CHECKSUM,
        }
    }
}

/// What a driver says wrong of a packet's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// No such headers have these lengths.
    Lengths,
    /// The packet has other headers.
    NotOfPacket,
    /// The checksum field does not have the pseudo header's sum.
    PseudoHeader,
    /// Nothing stands behind the headers of a packet that is to be cut.
    NoPayload,
    /// Segments would be too short.
    SegmentSize,
}

/// Where a packet's headers are, and what its segments are to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TxHeaders {
    /// Where the IP header begins.
    pub l3: usize,
    /// Where the transport's header begins.
    pub l4: usize,
    /// Bytes of the transport's header.
    pub l4_len: usize,
    /// The IP header is one of IPv4.
    pub ipv4: bool,
    /// The transport's protocol.
    pub transport: Transport,
    /// Bytes of payload of a segment.
    pub mss: usize,
}

impl TxHeaders {
    /// What is wrong with a packet whose headers are not as described here, or
    /// whose checksum field is not as 7.2.5 asks. `ip` and `l4` say what is asked
    /// for; a packet that is cut has no length in its pseudo header (`whole`).
    pub fn mismatch(&self, data: &[u8], ip: bool, l4: bool, whole: bool) -> Option<Mismatch> {
        if !ip && !l4 {
            return None;
        }
        if self.l3 < ethernet::HEADER_LEN {
            return Some(Mismatch::Lengths);
        }
        // What lies outside of the packet has a rule of its own.
        let header = data.get(self.l3..self.l4)?;
        let (fixed, len) = (ipv4::Header::of(header)?, header.len());
        let version = fixed.version();
        // Only the IP checksum and segmentation need the driver's word for it; Linux
        // leaves the bit of the context clear where the transport's checksum is all that is wanted.
        let ipv4 = if ip || !whole { self.ipv4 } else { version == 4 };
        let (sound, next, addresses) = match ipv4 {
            true => {
                let addresses = &header[ipv4::offset::SRC..ipv4::HEADER_LEN];
                (version == 4 && fixed.header_len() == len, fixed.protocol(), addresses)
            }
            // Extension headers may stand before the transport's.
            false if len > ipv6::HEADER_LEN => return (version != 6).then_some(Mismatch::NotOfPacket),
            false => match ipv6::Header::of(header) {
                Some(fixed) => (version == 6, fixed.next_header(), &header[ipv6::offset::SRC..]),
                None => return Some(Mismatch::NotOfPacket),
            },
        };
        let (protocol, field) = (self.transport.protocol(), self.transport.checksum());
        if !sound || l4 && next != protocol {
            return Some(Mismatch::NotOfPacket);
        }
        if !l4 || self.transport == Transport::Sctp {
            return None;
        }
        let given = data.get(self.l4 + field..)?.first_chunk::<2>()?;
        let length = if whole { self.payload_length(ipv4, header, data) } else { 0 };
        let expected = fold(add(sum(addresses), pseudo(protocol.0, length)));
        // 0 and 0xFFFF are the same sum.
        let same = u16::from_le_bytes(*given) % 0xFFFF == expected % 0xFFFF;
        (!same).then_some(Mismatch::PseudoHeader)
    }

    /// Bytes behind the network header, as the header says: what follows may be
    /// padding.
    fn payload_length(&self, ipv4: bool, header: &[u8], data: &[u8]) -> u32 {
        let given = match ipv4 {
            true => ipv4::Header::of(header).map(|fixed| fixed.total_len().saturating_sub(header.len())),
            false => ipv6::Header::of(header).map(|fixed| fixed.payload_len()),
        };
        given.unwrap_or(0).min(data.len() - self.l4) as u32
    }

    /// Checksums of a packet that is not cut; `false` when the headers do not
    /// lie inside it.
    pub fn insert_checksums(&self, data: &mut [u8], ip: bool, l4: bool) -> bool {
        (!ip || self.insert_ip(data)) && (!l4 || self.insert_l4(data))
    }

    fn insert_ip(&self, data: &mut [u8]) -> bool {
        // IPv6 has no checksum: the request is passed over.
        !self.ipv4 || data.get_mut(self.l3..self.l4).is_some_and(fill_ip_checksum)
    }

    fn insert_l4(&self, data: &mut [u8]) -> bool {
        let field = self.transport.checksum();
        let Some(l4) = data.get_mut(self.l4..) else { return false };
        if self.transport == Transport::Sctp {
            let Some(place) = l4.get_mut(field..field + 4) else { return false };
            place.fill(0);
            let value = crc32c(l4).to_le_bytes();
            l4[field..field + 4].copy_from_slice(&value);
            return true;
        }
        if l4.len() < field + 2 {
            return false;
        }
        let value = !fold(sum(l4));
        // A UDP checksum of zero would say that there is none (RFC 768).
        let value = if self.transport == Transport::Udp { never_zero(value) } else { value };
        l4[field..field + 2].copy_from_slice(&value.to_le_bytes());
        true
    }

    /// How a packet of `len` bytes is cut, with what the first, middle and last segment may
    /// carry of TCP's flags; or why it cannot be.
    pub fn cut(&self, len: usize, flags: [u16; 3]) -> Result<Segmentation, Mismatch> {
        let headers = self.l4 + self.l4_len;
        // Options are TCP's alone.
        let transport = match self.transport {
            Transport::Tcp => self.l4_len >= tcp::HEADER_LEN,
            Transport::Udp => self.l4_len == udp::HEADER_LEN,
            Transport::Sctp => false,
        };
        let network = if self.ipv4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        if !transport || self.l3 < ethernet::HEADER_LEN || self.l4 < self.l3 + network {
            return Err(Mismatch::Lengths);
        }
        if headers >= len {
            return Err(Mismatch::NoPayload);
        }
        if self.mss < LEAST_MSS {
            return Err(Mismatch::SegmentSize);
        }
        Ok(Segmentation {
            ipv4: self.ipv4,
            tcp: self.transport == Transport::Tcp,
            l3: self.l3,
            l4: self.l4,
            headers,
            payload: len - headers,
            size: self.mss,
            pseudo_len: 0, // the driver's pseudo header has no length (7.2.4.7)
            flags,
        })
    }
}
