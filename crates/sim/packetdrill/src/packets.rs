//! Packets as bytes: put together from buffers, completed and cut.

use memory::{Packet, TxOffload};
use wire::{ipv4, ipv6, tcp as segment};

/// The bytes of a packet that a port would cut into segments or complete: packetdrill is given
/// it in one piece, as Linux gives it to a TUN device, with its checksums.
pub fn whole(packet: &Packet) -> Vec<u8> {
    let (mut bytes, mut at) = (packet.to_vec(), packet.next());
    while let Some(next) = at {
        bytes.extend_from_slice(next);
        at = next.next();
    }
    complete(&mut bytes);
    bytes
}

/// What an application chose for the IP headers of its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChosenHeader {
    /// The traffic class, whose last two bits are the connection's (RFC 3168).
    pub class: u8,
    /// How many routers may pass it on.
    pub hops: u8,
}

/// Has the IP header of a packet say what its application chose.
pub fn choose_header(bytes: &mut [u8], chosen: ChosenHeader) {
    let with = |ecn: u8| chosen.class & !ECN_BITS | ecn & ECN_BITS;
    if ipv4::version(bytes[0]) == 4 {
        if let Some(mut ip) = ipv4::Header::of_mut(bytes) {
            ip.set_traffic_class(with(ip.traffic_class()));
            ip.set_ttl(chosen.hops);
            ip.fill_checksum();
        }
    } else if let Some(mut ip) = ipv6::Header::of_mut(bytes) {
        ip.set_version(with(ip.traffic_class()), ip.flow_label());
        ip.set_hop_limit(chosen.hops);
    }
}

/// The bits of the traffic class that are not the application's.
const ECN_BITS: u8 = 3;

/// Fills in the checksums of a packet.
fn complete(bytes: &mut [u8]) {
    let ip_len = ip_len(bytes);
    let (ip, tcp) = bytes.split_at_mut(ip_len);
    let addresses = match ipv4::version(ip[0]) {
        4 => ipv4::Header::of_mut(ip).map(|mut header| {
            header.fill_checksum();
            header.addresses()
        }),
        _ => ipv6::Header::of_mut(ip).map(|header| header.addresses()),
    };
    if let Some(addresses) = addresses {
        segment::Segment::new_unchecked(tcp).fill_checksum(addresses);
    }
}

/// Bytes of the IP header, which has no options.
pub fn ip_len(bytes: &[u8]) -> usize {
    if ipv4::version(bytes[0]) == 4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
}

/// A packet that a port would cut, cut as the port would do it.
pub fn cut(packet: &Packet) -> Vec<Vec<u8>> {
    let (asked, bytes) = (packet.tx_offload(), whole(packet));
    match asked.has(TxOffload::SEGMENT) {
        true => split(bytes, asked.segment_size.into()),
        false => vec![bytes],
    }
}

/// The parts of a packet that have so many bytes of its payload each: FIN and PSH stay with the
/// last.
pub fn split(bytes: Vec<u8>, size: usize) -> Vec<Vec<u8>> {
    let ip_len = ip_len(&bytes);
    let Some(view) = bytes.get(ip_len..).and_then(|tcp| segment::Segment::new_checked(tcp).ok()) else {
        return vec![bytes];
    };
    let (front, payload) = bytes.split_at(ip_len + view.header_len());
    let (sequence, flags) = (view.sequence(), view.flags());
    let count = payload.len().div_ceil(size);
    let parts = payload.chunks(size).enumerate().map(|(n, part)| {
        let is_last = n + 1 == count;
        let last_only = segment::Flags::FIN | segment::Flags::PSH;
        let flags = if is_last { flags } else { flags.without(last_only) };
        rebuild(front, ip_len, part, sequence.wrapping_add((n * size) as u32), flags)
    });
    parts.collect()
}

/// The packet of a part of a segment.
fn rebuild(front: &[u8], ip_len: usize, part: &[u8], sequence: u32, flags: segment::Flags) -> Vec<u8> {
    let mut bytes = [front, part].concat();
    let len = bytes.len();
    let (ip, tcp) = bytes.split_at_mut(ip_len);
    if ipv4::version(ip[0]) == 4 {
        ipv4::Header::of_mut(ip).into_iter().for_each(|mut header| header.set_total_len(len as u16));
    } else if let Some(mut header) = ipv6::Header::of_mut(ip) {
        header.set_payload_len(tcp.len() as u16);
    }
    let mut view = segment::Segment::new_unchecked(tcp);
    view.set_sequence(sequence);
    view.set_flags(flags);
    complete(&mut bytes);
    bytes
}
