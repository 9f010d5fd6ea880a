//! What the device writes into packets on their way out: a checksum the driver left to it;
//! and how a large packet is cut into pieces.
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
use crate::MAX_FRAME;
use crate::checksum::{fold, sum};
use crate::segment::Segmentation;

/// Which offloads were negotiated.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Offloads(u64);

/// What is to be done to a packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Plan {
    /// Where the covered part begins, and where the checksum goes.
    pub checksum: Option<(usize, usize)>,
    pub cut: Option<Segmentation>,
}

/// TCP's flags that only the last piece has: FIN and PSH; and CWR, that only the
/// first has.
const LAST_ONLY: u16 = (Flags::FIN.0 | Flags::PSH.0) as u16;
const FIRST_ONLY: u16 = Flags::CWR.0 as u16;
/// What the first, the middle and the last pieces may have.
const FLAGS: [u16; 3] = {
    let all = tcp::RESERVED_AND_FLAGS;
    [all & !LAST_ONLY, all & !LAST_ONLY & !FIRST_ONLY, all & !FIRST_ONLY]
};

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

    fn cut(
        self,
        head: &Header,
        frame: &[u8],
        checksum: Option<(usize, usize)>,
    ) -> Result<Segmentation, Rule> {
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
        segmentation(frame, l4, tcp, size).filter(is_sendable).ok_or(Rule::SegmentationInvalid)
    }
}

/// Most pieces of one packet, and longest headers: each piece costs them again.
const MOST_SEGMENTS: usize = 1024;
const LONGEST_HEADERS: usize = 512;

/// How a frame is cut whose transport header begins at `l4`; `None` when there are no such
/// headers, or nothing behind them.
fn segmentation(frame: &[u8], l4: usize, tcp: bool, size: usize) -> Option<Segmentation> {
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
    // The driver's pseudo header has the whole packet's length.
    let pseudo_len = (frame.len() - l4) as u16;
    Some(Segmentation { ipv4, tcp, l3, l4, headers, payload, size, pseudo_len, flags: FLAGS })
}

fn is_sendable(cut: &Segmentation) -> bool {
    cut.headers <= LONGEST_HEADERS
        && cut.headers + cut.size.min(cut.payload) <= MAX_FRAME
        && cut.segments() <= MOST_SEGMENTS
}

/// Puts the checksum of everything from `start` to `field`; both lie inside.
pub(super) fn fill_in(frame: &mut [u8], start: usize, field: usize) {
    let value = !fold(sum(&frame[start..]));
    // To UDP, zero would say that there is none (RFC 768); to others it is the same.
    let value = never_zero(value);
    frame[field..field + 2].copy_from_slice(&value.to_le_bytes());
}
