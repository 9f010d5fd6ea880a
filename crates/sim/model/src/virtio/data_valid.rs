//! Whether a frame's TCP or UDP checksum is there and right, which the device
//! may tell the driver (virtio 1.3, section 5.1.6.4: DATA_VALID).

use wire::ethernet::{self, EtherType};
use wire::flow::{Flow, MAX_TAGS};
use wire::ip::{Addresses, Protocol};
use wire::{ipv4, tcp, udp};

use crate::checksum::{RIGHT, add, fold, pseudo, sum};
use crate::headers;

/// Whether a checksum was looked at and is right. Fragments, other protocols and
/// UDP without a checksum have none.
#[inline]
pub(super) fn is_good(frame: &[u8]) -> bool {
    let Some(header) = plain(frame) else { return is_good_somewhere(frame) };
    let protocol = header.protocol();
    let end = ethernet::HEADER_LEN + header.total_len();
    let Some(l4) = frame.get(PLAIN_L4..end).filter(|l4| has_checksum(protocol, l4)) else { return false };
    let addresses = sum(&header.into_inner()[ipv4::offset::SRC..]);
    fold(add(addresses, add(pseudo(protocol.0, l4.len() as u32), sum(l4)))) == RIGHT
}

/// Where the transport header of a plain frame begins.
pub(super) const PLAIN_L4: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;

/// The header of a frame that is untagged IPv4 without options, not fragmented, with TCP
/// or UDP: nearly all of them.
#[inline(always)]
pub(super) fn plain(frame: &[u8]) -> Option<ipv4::Header<&[u8; ipv4::HEADER_LEN]>> {
    let (ethernet, packet) = frame.split_first_chunk()?;
    let header = ipv4::Header::of(packet)?;
    let like_ipv4 =
        ethernet::Header::new(ethernet).ethertype() == EtherType::IPV4 && header.is_without_options();
    let known = matches!(header.protocol(), Protocol::TCP | Protocol::UDP);
    (like_ipv4 && known && !header.is_fragment()).then_some(header)
}

/// Whether a whole TCP or UDP header is there, with a checksum: UDP's may be left out.
#[inline(always)]
fn has_checksum(protocol: Protocol, l4: &[u8]) -> bool {
    match protocol {
        Protocol::UDP => udp::Header::of(l4).is_some_and(|header| header.checksum() != 0),
        _ => l4.len() >= tcp::HEADER_LEN,
    }
}

/// Takes a right checksum out again: leaves the sum of the pseudo header, as a
/// sender does that has it filled in by others. Where the covered part begins,
/// and where in it the checksum goes.
pub(super) fn take_out(frame: &mut [u8]) -> Option<(u16, u16)> {
    let flow = Flow::of(frame).ok()?;
    let (start, len) = (flow.l4_offset(), flow.end - flow.l4_offset());
    let udp = flow.protocol == Protocol::UDP;
    let offset = if udp { udp::offset::CHECKSUM } else { tcp::offset::CHECKSUM };
    let field = frame.get_mut(start + offset..)?.first_chunk_mut::<2>()?;
    let addresses = match flow.addresses {
        Addresses::V4 { src, dst } => add(sum(&src.octets()), sum(&dst.octets())),
        Addresses::V6 { src, dst } => add(sum(&src.octets()), sum(&dst.octets())),
    };
    *field = fold(add(addresses, pseudo(flow.protocol.0, len as u32))).to_le_bytes();
    Some((start as u16, offset as u16))
}

#[cold]
fn is_good_somewhere(frame: &[u8]) -> bool {
    headers::parse(frame, MAX_TAGS, EtherType::is_tag).l4_checksum == Some(true)
}
