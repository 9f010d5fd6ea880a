//! Whether a frame's TCP or UDP checksum is there and right, which the device
//! may tell the driver (virtio 1.3, section 5.1.6.4: DATA_VALID).

use wire::flow::Flow;
use wire::ip::{Addresses, Protocol};

use crate::checksum::{add, fold, pseudo, sum};

/// Whether a checksum was looked at and is right. Fragments, other protocols and
/// UDP without a checksum have none.
#[inline]
pub(super) fn is_good(frame: &[u8]) -> bool {
    let Some(head) = frame.first_chunk::<42>() else { return false };
    let udp = head[23] == Protocol::UDP.0;
    let plain = head[12..15] == [0x08, 0x00, 0x45]
        && (udp || head[23] == Protocol::TCP.0)
        && head[20] & 0x3F == 0
        && head[21] == 0;
    if !plain {
        return is_good_somewhere(frame);
    }
    let len = usize::from(u16::from_be_bytes([head[16], head[17]]));
    let least = if udp { 8 } else { 20 };
    let Some(l4) = frame.get(34..14 + len).filter(|l4| l4.len() >= least) else { return false };
    if udp && head[40] | head[41] == 0 {
        return false;
    }
    let covered = add(sum(&head[26..34]), add(pseudo(head[23], l4.len() as u32), sum(l4)));
    fold(covered) == 0xFFFF
}

/// Takes a right checksum out again: leaves the sum of the pseudo header, as a
/// sender does that has it filled in by others. Where the covered part begins,
/// and where in it the checksum goes.
pub(super) fn take_out(frame: &mut [u8]) -> Option<(u16, u16)> {
    let flow = Flow::of(frame).ok()?;
    let (start, len) = (flow.l4_offset(), flow.end - flow.l4_offset());
    let offset = if flow.protocol == Protocol::UDP { 6 } else { 16 };
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
    let Ok(flow) = Flow::of(frame) else { return false };
    let (udp, tcp) = (flow.protocol == Protocol::UDP, flow.protocol == Protocol::TCP);
    if flow.fragment || !(udp || tcp) {
        return false;
    }
    let Some(l4) = frame.get(flow.l4_offset()..flow.end) else { return false };
    if l4.len() < if udp { 8 } else { 20 } || (udp && l4[6] | l4[7] == 0) {
        return false;
    }
    let addresses = match flow.addresses {
        Addresses::V4 { src, dst } => add(sum(&src.octets()), sum(&dst.octets())),
        Addresses::V6 { src, dst } => add(sum(&src.octets()), sum(&dst.octets())),
    };
    fold(add(add(addresses, pseudo(flow.protocol.0, l4.len() as u32)), sum(l4))) == 0xFFFF
}
