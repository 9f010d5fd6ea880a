//! Checksums that the sender left to its device, where there is no device: a
//! packet from this machine's own stack comes over a virtual interface with only
//! the pseudo-header's sum in its field, as [`memory::TxOffload::TCP_CHECKSUM`]
//! puts it there. Sent elsewhere it would be a bad packet; so it is completed
//! here. TCP and UDP over IPv4 and IPv6; SCTP, extension headers and packets in
//! several buffers stay as they are.

use wire::checksum;
use wire::ethernet::{self, EtherType};
use wire::ip::{Protocol, checksum_offset};
use wire::{ipv4, ipv6, vlan};

/// A transport checksum in a frame.
struct Place {
    /// Where the transport header begins, and where its checksum is.
    start: usize,
    field: usize,
    /// The pseudo-header's sum.
    pseudo: u16,
}

/// Completes a checksum that was left open; `false` where it is not known how.
pub(crate) fn complete(frame: &mut [u8]) -> bool {
    let Some(Place { start, field, .. }) = place(frame) else { return false };
    // For UDP zero would mean none; for TCP both are the same.
    let value = checksum::never_zero(checksum::of(&frame[start..]));
    frame[field..field + 2].copy_from_slice(&value.to_be_bytes());
    true
}

/// As [`complete`], where nobody says whether the checksum was left open: it was
/// if the field holds the pseudo-header's sum. If a whole packet's does by chance,
/// completing it changes nothing.
pub(crate) fn complete_if_open(frame: &mut [u8]) -> bool {
    let open = |place: Place| frame[place.field..place.field + 2] == place.pseudo.to_be_bytes();
    place(frame).is_some_and(open) && complete(frame)
}

fn place(frame: &[u8]) -> Option<Place> {
    let mut ethertype = ethernet::Header::of(frame)?.ethertype();
    let mut network = ethernet::HEADER_LEN;
    for _ in 0..wire::flow::MAX_TAGS {
        if ethertype.is_tag() {
            ethertype = vlan::Header::of(frame.get(network..)?)?.ethertype();
            network += vlan::HEADER_LEN;
        }
    }
    let packet = frame.get(network..)?;
    let (addresses, protocol, header_len, len) = match ethertype {
        EtherType::IPV4 => {
            let ip = ipv4::Header::of(packet)?;
            (ip.addresses(), ip.protocol(), ip.header_len(), ip.total_len())
        }
        EtherType::IPV6 => {
            let ip = ipv6::Header::of(packet)?;
            let len = ipv6::HEADER_LEN + ip.payload_len();
            (ip.addresses(), ip.next_header(), ipv6::HEADER_LEN, len)
        }
        _ => return None,
    };
    let (Protocol::TCP | Protocol::UDP) = protocol else { return None };
    let (start, end) = (network + header_len, network + len);
    let field = start + checksum_offset(protocol)?;
    // Padding behind the packet is zero, if anything, and changes no sum; cut or
    // strange lengths do.
    if end > frame.len() || field + 2 > end || frame[end..].iter().any(|&b| b != 0) {
        return None;
    }
    Some(Place { start, field, pseudo: addresses.pseudo_header(protocol, end - start) })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const UDP: u8 = 17;

    /// A UDP packet as a stack leaves it to its device, and the whole one.
    fn udp(payload: &[u8], tags: usize) -> (Vec<u8>, u16) {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let len = 8 + payload.len() as u16;
        let mut datagram = vec![0x12, 0x34, 0, 53];
        datagram.extend(len.to_be_bytes());
        datagram.extend([0, 0]);
        datagram.extend(payload);
        let pseudo = checksum::pseudo_header_v4(src, dst, UDP, u32::from(len));
        datagram[6..8].copy_from_slice(&pseudo.to_be_bytes());
        let whole = checksum::of(&datagram);
        let mut frame = vec![2; 12];
        frame.extend([0x81, 0, 0, 7].repeat(tags));
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + len).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, UDP, 0, 0]);
        frame.extend(src.octets());
        frame.extend(dst.octets());
        frame.extend(datagram);
        frame.resize(frame.len().max(60), 0);
        (frame, whole)
    }

    #[test]
    fn the_rest_is_added_to_the_pseudo_header() {
        for (payload, tags) in [(&b"x"[..], 0), (b"four", 1), (&[7; 1001][..], 2), (b"", 0)] {
            let (mut frame, whole) = udp(payload, tags);
            assert!(complete(&mut frame));
            let at = 14 + 4 * tags + 20 + 6;
            assert_eq!(frame[at..at + 2], whole.to_be_bytes(), "{} bytes, {tags} tags", payload.len());
        }
    }

    #[test]
    fn an_open_checksum_is_known_by_its_value() {
        let (mut open, whole) = udp(b"payload", 0);
        assert!(complete_if_open(&mut open));
        assert_eq!(open[40..42], whole.to_be_bytes());
        let before = open.clone();
        assert!(!complete_if_open(&mut open), "it is whole now");
        // None at all, and a wrong one, stay what they are.
        for value in [[0, 0], [0x12, 0x34]] {
            open[40..42].copy_from_slice(&value);
            assert!(!complete_if_open(&mut open));
            assert_eq!((&open[40..42], &open[..40], &open[42..]), (&value[..], &before[..40], &before[42..]));
        }
    }

    #[test]
    fn ipv6_is_known_as_well() {
        let mut frame = vec![2; 12];
        frame.extend([0x86, 0xDD, 0x60, 0, 0, 0, 0, 12, UDP, 64]);
        frame.extend([0xFD; 16]);
        frame.extend([0xFC; 16]);
        let pseudo = checksum::pseudo_header_v6([0xFD; 16].into(), [0xFC; 16].into(), UDP, 12);
        frame.extend([0, 7, 0, 8, 0, 12]);
        frame.extend(pseudo.to_be_bytes());
        frame.extend(b"data");
        assert!(complete_if_open(&mut frame));
        // A receiver's sum over all of it, the pseudo-header included, is all ones.
        assert_eq!(checksum::combine(pseudo, checksum::sum(&frame[54..])), 0xFFFF);
    }

    #[test]
    fn nothing_is_touched_where_it_is_not_known_how() {
        let (whole, _) = udp(&[5; 40], 0);
        for len in 0..whole.len() {
            let mut cut = whole[..len].to_vec();
            assert!(!complete(&mut cut), "{len} bytes");
            assert_eq!(cut, whole[..len]);
        }
        let (mut other, _) = udp(&[5; 40], 0);
        other[23] = 132;
        assert!(!complete(&mut other));
    }
}
