//! What the device writes into packets on their way out: a checksum the driver
//! left to it, and the headers of the pieces a large packet is cut into.
//!
//! virtio 1.3, section 5.1.6.2. The driver puts the pseudo header's sum where
//! the checksum goes, and says where that is; it is used, right or wrong.

use regs::virtio::feature::net as feature;
use regs::virtio::net::header;
use wire::checksum::never_zero;
use wire::ethernet::{self, EtherType};
use wire::tcp::{self, Flags};
use wire::{flow, ipv4, ipv6, udp, vlan};

use super::head::Header;
use super::lint::Rule;
use crate::checksum::{add, fold, sum};
use crate::{MAX_FRAME, MIN_FRAME};

/// Which offloads were negotiated.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Offloads(u64);

/// What is to be done to a packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Plan {
    /// Where the covered part begins, and where the checksum goes.
    pub checksum: Option<(usize, usize)>,
    pub cut: Option<Cut>,
}

/// How a packet is cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    ipv4: bool,
    tcp: bool,
    l3: usize,
    l4: usize,
    headers: usize,
    size: usize,
    payload: usize,
    /// How many pieces.
    pub segments: usize,
}

/// TCP's flags that only the last piece has: FIN and PSH; and CWR, that only the
/// first has.
const LAST_ONLY: u8 = Flags::FIN.0 | Flags::PSH.0;
const FIRST_ONLY: u8 = Flags::CWR.0;

impl Offloads {
    pub fn of(features: u64) -> Offloads {
        Offloads(features)
    }

    fn has(self, feature: u64) -> bool {
        self.0 & feature != 0
    }

    /// What a header asks for, or which rule forbids it.
    pub fn plan(self, head: &Header, frame: &[u8]) -> Result<Plan, Rule> {
        let mut plan = Plan::default();
        if head.flags & header::NEEDS_CSUM != 0 {
            if !self.has(feature::CSUM) {
                return Err(Rule::ChecksumNotNegotiated);
            }
            let start = usize::from(head.csum_start);
            let field = start + usize::from(head.csum_offset);
            if field + 2 > frame.len() {
                return Err(Rule::ChecksumOutside);
            }
            plan.checksum = Some((start, field));
        }
        if head.gso_type != header::GSO_NONE {
            plan.cut = Some(self.cut(head, frame, plan.checksum)?);
        }
        Ok(plan)
    }

    fn cut(self, head: &Header, frame: &[u8], checksum: Option<(usize, usize)>) -> Result<Cut, Rule> {
        let ecn = head.gso_type & header::GSO_ECN != 0;
        let (needed, tcp) = match head.gso_type & !header::GSO_ECN {
            header::GSO_TCPV4 => (feature::HOST_TSO4, true),
            header::GSO_TCPV6 => (feature::HOST_TSO6, true),
            header::GSO_UDP_L4 => (feature::HOST_USO, false),
            _ => return Err(Rule::SegmentationNotNegotiated),
        };
        if !self.has(needed) || (ecn && !self.has(feature::HOST_ECN)) {
            return Err(Rule::SegmentationNotNegotiated);
        }
        // The checksum's place tells where the transport header begins.
        let (Some((l4, _)), size @ 1..) = (checksum, usize::from(head.gso_size)) else {
            return Err(Rule::SegmentationInvalid);
        };
        Cut::new(frame, l4, tcp, size).filter(|cut| cut.is_sendable()).ok_or(Rule::SegmentationInvalid)
    }
}

/// Most pieces of one packet, and longest headers: each piece costs them again.
const MOST_SEGMENTS: usize = 1024;
const LONGEST_HEADERS: usize = 512;

impl Cut {
    fn new(frame: &[u8], l4: usize, tcp: bool, size: usize) -> Option<Cut> {
        let mut l3 = ethernet::HEADER_LEN;
        let mut ethertype = ethernet::Header::of(frame)?.ethertype();
        while ethertype.is_tag() && l3 < ethernet::HEADER_LEN + flow::MAX_TAGS * vlan::HEADER_LEN {
            ethertype = vlan::Header::of(frame.get(l3..)?)?.ethertype();
            l3 += vlan::HEADER_LEN;
        }
        let (ipv4, least) = match ethertype {
            EtherType::IPV4 => (true, ipv4::HEADER_LEN),
            EtherType::IPV6 => (false, ipv6::HEADER_LEN),
            _ => return None,
        };
        if l4 < l3 + least {
            return None;
        }
        let l4_len = match tcp {
            true => tcp::header_len(*frame.get(l4 + tcp::offset::DATA_OFFSET)?),
            false => udp::HEADER_LEN,
        };
        let headers = l4 + l4_len;
        let payload = frame.len().checked_sub(headers).filter(|&payload| payload > 0)?;
        (!tcp || l4_len >= tcp::HEADER_LEN).then_some(())?;
        let segments = payload.div_ceil(size);
        Some(Cut { ipv4, tcp, l3, l4, headers, size, payload, segments })
    }

    fn is_sendable(&self) -> bool {
        self.headers <= LONGEST_HEADERS
            && self.headers + self.size.min(self.payload) <= MAX_FRAME
            && self.segments <= MOST_SEGMENTS
    }

    /// Writes piece `n` of `whole` to `out`: headers, brought up to date, and its
    /// part of the payload.
    pub fn segment(&self, whole: &[u8], n: usize, out: &mut Vec<u8>) {
        let from = n * self.size;
        let piece = &whole[self.headers..][from..(from + self.size).min(self.payload)];
        out.clear();
        out.reserve(MIN_FRAME);
        out.extend_from_slice(&whole[..self.headers]);
        out.extend_from_slice(piece);
        let (l3, l4) = (self.l3, self.l4);
        let l4_len = (out.len() - l4) as u16;
        let l3_len = (out.len() - l3) as u16;
        if self.ipv4 {
            if let Some(mut header) = ipv4::Header::of_mut(&mut out[l3..]) {
                header.set_total_len(l3_len);
                header.set_identification(header.identification().wrapping_add(n as u16));
                header.set_checksum(0);
            }
            let value = !fold(sum(&out[l3..l4]));
            out[l3 + ipv4::offset::CHECKSUM..][..2].copy_from_slice(&value.to_le_bytes());
        } else if let Some(mut header) = ipv6::Header::of_mut(&mut out[l3..]) {
            header.set_payload_len(l3_len - ipv6::HEADER_LEN as u16);
        }
        if self.tcp {
            self.adjust_tcp(out, n);
        } else if let Some(mut header) = udp::Header::of_mut(&mut out[l4..]) {
            header.set_total_len(l4_len);
        }
        let field = l4 + if self.tcp { tcp::offset::CHECKSUM } else { udp::offset::CHECKSUM };
        // The driver's pseudo header has the whole packet's length: take that out
        // of the sum, and put the piece's in.
        let whole_len = (whole.len() - l4) as u16;
        let had = u16::from_le_bytes([out[field], out[field + 1]]);
        let adjusted = add(u64::from(had), u64::from(!whole_len.to_be()));
        let seed = fold(add(adjusted, u64::from(l4_len.to_be())));
        out[field..field + 2].copy_from_slice(&seed.to_le_bytes());
        fill_in(out, l4, field);
    }

    fn adjust_tcp(&self, out: &mut [u8], n: usize) {
        if let Some(mut header) = tcp::Header::of_mut(&mut out[self.l4..]) {
            header.set_sequence(header.sequence().wrapping_add((n * self.size) as u32));
        }
        let flags = &mut out[self.l4 + tcp::offset::FLAGS];
        if n > 0 {
            *flags &= !FIRST_ONLY;
        }
        if n + 1 < self.segments {
            *flags &= !LAST_ONLY;
        }
    }
}

/// Puts the checksum of everything from `start` to `field`; both lie inside.
pub(super) fn fill_in(frame: &mut [u8], start: usize, field: usize) {
    let value = !fold(sum(&frame[start..]));
    // To UDP, zero would say that there is none (RFC 768); to others it is the same.
    let value = never_zero(value);
    frame[field..field + 2].copy_from_slice(&value.to_le_bytes());
}
