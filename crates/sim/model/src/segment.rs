//! Cutting a large packet into segments, each a frame with headers of its own, as devices do
//! it that segment TCP and UDP (82599 datasheet 7.2.4; virtio 1.3, section 5.1.6.2). A model
//! reads what its driver asks for and makes a [`Segmentation`] of it.

use wire::checksum::never_zero;
use wire::{ipv4, ipv6, tcp, udp};

use crate::checksum::{add, fold, sum};

/// How a packet is cut. The headers lie inside it, and are as long as their protocols' are at
/// least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segmentation {
    /// Whether the network header is IPv4's; it is IPv6's otherwise.
    pub ipv4: bool,
    /// Whether the transport is TCP; it is UDP otherwise.
    pub tcp: bool,
    /// Where the network header begins.
    pub l3: usize,
    /// Where the transport header begins.
    pub l4: usize,
    /// Bytes of all headers.
    pub headers: usize,
    /// Bytes behind them, at least one.
    pub payload: usize,
    /// Bytes of payload in each segment but the last, at least one.
    pub size: usize,
    /// The length in the pseudo header whose sum the driver put into the checksum's field.
    pub pseudo_len: u16,
    /// The bits of TCP's flags that the first, the middle and the last segments may have.
    pub flags: [u16; 3],
}

impl Segmentation {
    /// How many segments there are.
    pub fn segments(&self) -> usize {
        self.payload.div_ceil(self.size)
    }

    /// Makes `out` segment `n` of `whole`: the headers, brought up to date, and its part of the
    /// payload.
    pub fn write(&self, whole: &[u8], n: usize, out: &mut Vec<u8>) {
        let from = n * self.size;
        let piece = &whole[self.headers..][from..(from + self.size).min(self.payload)];
        out.clear();
        out.extend_from_slice(&whole[..self.headers]);
        out.extend_from_slice(piece);
        let (l3_len, l4_len) = ((out.len() - self.l3) as u16, (out.len() - self.l4) as u16);
        if self.ipv4 {
            if let Some(mut header) = ipv4::Header::of_mut(&mut out[self.l3..]) {
                header.set_total_len(l3_len);
                header.set_identification(header.identification().wrapping_add(n as u16));
            }
            fill_ip_checksum(&mut out[self.l3..self.l4]);
        } else if let Some(mut header) = ipv6::Header::of_mut(&mut out[self.l3..]) {
            header.set_payload_len(l3_len - ipv6::HEADER_LEN as u16);
        }
        if self.tcp {
            self.adjust_tcp(out, n);
        } else if let Some(mut header) = udp::Header::of_mut(&mut out[self.l4..]) {
            header.set_total_len(l4_len);
        }
        // The driver's length is taken out of the sum, and the segment's put in.
        let other_len = add(u64::from(!self.pseudo_len.to_be()), u64::from(l4_len.to_be()));
        let offset = if self.tcp { tcp::offset::CHECKSUM } else { udp::offset::CHECKSUM };
        let value = !fold(add(sum(&out[self.l4..]), other_len));
        // To UDP, zero would say that there is none (RFC 768).
        let value = if self.tcp { value } else { never_zero(value) };
        out[self.l4 + offset..][..2].copy_from_slice(&value.to_le_bytes());
    }

    /// Sequence number and flags of segment `n`.
    fn adjust_tcp(&self, out: &mut [u8], n: usize) {
        if let Some(mut header) = tcp::Header::of_mut(&mut out[self.l4..]) {
            header.set_sequence(header.sequence().wrapping_add((n * self.size) as u32));
        }
        // A packet of one segment keeps all its flags.
        let allowed = match (n == 0, n + 1 == self.segments()) {
            (true, true) => tcp::RESERVED_AND_FLAGS,
            (true, false) => self.flags[0],
            (false, false) => self.flags[1],
            (false, true) => self.flags[2],
        };
        let at = self.l4 + tcp::offset::DATA_OFFSET;
        let field = u16::from_be_bytes([out[at], out[at + 1]]);
        let kept = field & (!tcp::RESERVED_AND_FLAGS | allowed);
        out[at..at + 2].copy_from_slice(&kept.to_be_bytes());
    }
}

/// Fills in the checksum of an IPv4 header, which is all of `header`; `false` when it is too
/// short for one.
pub(crate) fn fill_ip_checksum(header: &mut [u8]) -> bool {
    let Some(mut fixed) = ipv4::Header::of_mut(header) else { return false };
    fixed.set_checksum(0);
    let value = !fold(sum(header));
    header[ipv4::offset::CHECKSUM..][..2].copy_from_slice(&value.to_le_bytes());
    true
}
