//! What the chip writes into packets on their way out: checksums, and the
//! headers of the segments a large packet is cut into.
//!
//! 82599 datasheet rev. 3.4, sections 7.2.4 (segmentation) and 7.2.5
//! (checksums). The driver puts the pseudo header's sum where the transport
//! checksum goes; what it put there is used, right or wrong. IPv4, IPv6, TCP,
//! UDP and SCTP; no tunnels.

use regs::ixgbe::descriptor::{tx_context_high, tx_context_low};
use wire::checksum::never_zero;
use wire::ip::{self, Protocol};
use wire::{ethernet, ipv4, ipv6, tcp, udp};

use super::lint::Rule;
use crate::checksum::{add, crc32c, fold, pseudo, sum};

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

    /// Where the checksum stands in its header.
    fn checksum(self) -> usize {
        match self {
            Transport::Tcp => tcp::offset::CHECKSUM,
            Transport::Udp => udp::offset::CHECKSUM,
            Transport::Sctp => ip::SCTP_CHECKSUM,
        }
    }
}

/// A context descriptor: where a packet's headers are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Headers {
    pub l3: usize,
    pub l4: usize,
    pub l4_len: usize,
    pub ipv4: bool,
    pub transport: Transport,
    pub mss: usize,
}

/// How a packet is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Bytes of the headers.
    pub headers: usize,
    /// Bytes behind the headers.
    pub payload: usize,
    /// How many pieces.
    pub segments: usize,
}

/// Puts the checksum of everything from `start` into `field`.
pub(super) fn insert_checksum(data: &mut [u8], start: usize, field: usize) -> bool {
    let Some(covered) = data.get(start..).filter(|covered| !covered.is_empty()) else { return false };
    let value = !fold(sum(covered));
    let Some(place) = data.get_mut(field..field + 2) else { return false };
    place.copy_from_slice(&value.to_le_bytes());
    true
}

impl Headers {
    /// Reads a context descriptor's words.
    pub fn new([low, high]: [u64; 2]) -> Headers {
        let l3 = (low >> tx_context_low::MACLEN_SHIFT & tx_context_low::MACLEN_MASK) as usize;
        Headers {
            l3,
            l4: l3 + (low & tx_context_low::IPLEN_MASK) as usize,
            l4_len: (high >> tx_context_high::L4LEN_SHIFT & 0xFF) as usize,
            ipv4: high & tx_context_high::IPV4 != 0,
            transport: match high & tx_context_high::L4T_MASK {
                tx_context_high::L4T_TCP => Transport::Tcp,
                tx_context_high::L4T_SCTP => Transport::Sctp,
                _ => Transport::Udp,
            },
            mss: (high >> tx_context_high::MSS_SHIFT) as usize,
        }
    }

    /// Which rule a packet breaks whose headers are not as described here, or
    /// whose checksum field is not as 7.2.5 asks. `ip` and `l4` say what is asked
    /// for; a packet that is cut has no length in its pseudo header (`whole`).
    pub fn misfit(&self, data: &[u8], ip: bool, l4: bool, whole: bool) -> Option<Rule> {
        if !ip && !l4 {
            return None;
        }
        if self.l3 < ethernet::HEADER_LEN {
            return Some(Rule::ContextLengthsInvalid);
        }
        // What lies outside of the packet has a rule of its own.
        let header = data.get(self.l3..self.l4)?;
        let (fixed, len) = (ipv4::Header::of(header)?, header.len());
        let version = fixed.version();
        // Only the IP checksum and segmentation need the context's word for it; Linux
        // leaves the bit clear where the transport's checksum is all that is wanted.
        let ipv4 = if ip || !whole { self.ipv4 } else { version == 4 };
        let (sound, next, addresses) = match ipv4 {
            true => {
                let addresses = &header[ipv4::offset::SRC..ipv4::HEADER_LEN];
                (version == 4 && fixed.header_len() == len, fixed.protocol(), addresses)
            }
            // Extension headers may stand before the transport's.
            false if len > ipv6::HEADER_LEN => return (version != 6).then_some(Rule::ContextNotOfPacket),
            false => match ipv6::Header::of(header) {
                Some(fixed) => (version == 6, fixed.next_header(), &header[ipv6::offset::SRC..]),
                None => return Some(Rule::ContextNotOfPacket),
            },
        };
        let (protocol, field) = (self.transport.protocol(), self.transport.checksum());
        if !sound || l4 && next != protocol {
            return Some(Rule::ContextNotOfPacket);
        }
        if !l4 || self.transport == Transport::Sctp {
            return None;
        }
        let given = data.get(self.l4 + field..)?.first_chunk::<2>()?;
        let length = if whole { self.payload_length(ipv4, header, data) } else { 0 };
        let expected = fold(add(sum(addresses), pseudo(protocol.0, length)));
        // 0 and 0xFFFF are the same sum.
        let same = u16::from_le_bytes(*given) % 0xFFFF == expected % 0xFFFF;
        (!same).then_some(Rule::PseudoHeaderWrong)
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
        (!ip || self.insert_ip(data)) && (!l4 || self.insert_l4(data, 0))
    }

    fn insert_ip(&self, data: &mut [u8]) -> bool {
        // IPv6 has no checksum: the request is passed over.
        if !self.ipv4 {
            return true;
        }
        let Some(header) = data.get_mut(self.l3..self.l4) else { return false };
        let Some(mut fixed) = ipv4::Header::of_mut(header) else { return false };
        fixed.set_checksum(0);
        let value = !fold(sum(header));
        header[ipv4::offset::CHECKSUM..][..2].copy_from_slice(&value.to_le_bytes());
        true
    }

    /// `extra` is added to the sum the driver has put into the field.
    fn insert_l4(&self, data: &mut [u8], extra: u64) -> bool {
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
        let value = !fold(add(sum(l4), extra));
        // A UDP checksum of zero would say that there is none (RFC 768).
        let value = if self.transport == Transport::Udp { never_zero(value) } else { value };
        l4[field..field + 2].copy_from_slice(&value.to_le_bytes());
        true
    }

    /// How a packet of `len` bytes is cut, or which rule forbids it.
    pub fn cut(&self, len: usize) -> Result<Cut, Rule> {
        let headers = self.l4 + self.l4_len;
        let least = match self.transport {
            Transport::Tcp => tcp::HEADER_LEN,
            Transport::Udp => udp::HEADER_LEN,
            Transport::Sctp => return Err(Rule::ContextLengthsInvalid),
        };
        let network = if self.ipv4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        if self.l4_len < least || self.l3 < ethernet::HEADER_LEN || self.l4 < self.l3 + network {
            return Err(Rule::ContextLengthsInvalid);
        }
        if headers >= len {
            return Err(Rule::TsoHeaderSplit);
        }
        if self.mss < LEAST_MSS {
            return Err(Rule::TsoBadMss);
        }
        let payload = len - headers;
        Ok(Cut { headers, payload, segments: payload.div_ceil(self.mss) })
    }

    /// Appends segment `n` of `whole` to `out`: headers, brought up to date, and
    /// its piece. `flags` are what the first, middle and last may carry.
    pub fn segment(&self, whole: &[u8], cut: Cut, n: usize, flags: &[u16; 3], out: &mut Vec<u8>) {
        let from = n * self.mss;
        let piece = &whole[cut.headers..][from..(from + self.mss).min(cut.payload)];
        out.extend_from_slice(&whole[..cut.headers]);
        out.extend_from_slice(piece);
        let behind_l3 = (self.l4_len + piece.len()) as u16;
        if self.ipv4 {
            if let Some(mut header) = ipv4::Header::of_mut(&mut out[self.l3..]) {
                header.set_total_len((self.l4 - self.l3) as u16 + behind_l3);
                header.set_identification(header.identification().wrapping_add(n as u16));
            }
            self.insert_ip(out);
        } else if let Some(mut header) = ipv6::Header::of_mut(&mut out[self.l3..]) {
            let extensions = (self.l4 - self.l3 - ipv6::HEADER_LEN) as u16;
            header.set_payload_len(extensions + behind_l3);
        }
        if self.transport == Transport::Tcp {
            self.adjust_tcp(out, cut, n, flags);
        } else if let Some(mut header) = udp::Header::of_mut(&mut out[self.l4..]) {
            header.set_total_len(behind_l3);
        }
        // The driver's pseudo header has no length (7.2.4.7).
        let length = u64::from(u16::from_le_bytes(behind_l3.to_be_bytes()));
        self.insert_l4(out, length);
    }

    /// Sequence number and flags of segment `n`.
    fn adjust_tcp(&self, out: &mut [u8], cut: Cut, n: usize, flags: &[u16; 3]) {
        if let Some(mut header) = tcp::Header::of_mut(&mut out[self.l4..]) {
            header.set_sequence(header.sequence().wrapping_add((n * self.mss) as u32));
        }
        let last = n + 1 == cut.segments;
        // A packet of one segment keeps all its flags.
        let allowed = match (n == 0, last) {
            (true, true) => tcp::RESERVED_AND_FLAGS,
            (true, false) => flags[0],
            (false, false) => flags[1],
            (false, true) => flags[2],
        };
        let at = self.l4 + tcp::offset::DATA_OFFSET;
        let field = u16::from_be_bytes([out[at], out[at + 1]]);
        let kept = field & (!tcp::RESERVED_AND_FLAGS | allowed);
        out[at..at + 2].copy_from_slice(&kept.to_be_bytes());
    }
}
