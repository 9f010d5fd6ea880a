//! What a packet asks of a device ([`TxOffload`]), done here where no device does it: VLAN
//! tags and checksums, of a packet and of the one inside a tunnel's, and long TCP segments and UDP
//! datagrams cut.

use memory::{DATA_ROOM, Packet, Pool, TxOffload};
use wire::checksum::{self, Partial};
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::segment::{Long, Piece};
use wire::{ipv4, tcp, udp, vlan};

/// Puts the tag that the packet asks for between the addresses and the type, and moves
/// the lengths of its headers. `false`, and nothing changed, when there is no room for it
/// or no frame.
#[must_use]
pub fn insert_tag(packet: &mut Packet) -> bool {
    let asked = packet.tx_offload();
    let Some(l2_len) = asked.l2_len.checked_add(vlan::HEADER_LEN as u8) else { return false };
    if packet.len() < ethernet::HEADER_LEN || packet.push_front(vlan::HEADER_LEN).is_err() {
        return false;
    }
    packet.copy_within(vlan::HEADER_LEN..vlan::HEADER_LEN + ethernet::ADDRESSES_LEN, 0);
    if let Some(mut header) = vlan::Tagged::of_mut(packet) {
        header.set_tag(EtherType::VLAN, asked.vlan);
    }
    packet.set_tx_offload(TxOffload { l2_len, ..asked.without(TxOffload::VLAN) });
    true
}

/// Fills in the checksum of the IPv4 header that the packet tells the place of. `false`,
/// and nothing changed, when no such header is in the first segment.
#[must_use]
pub fn fill_ip_checksum(packet: &mut Packet) -> bool {
    let asked = packet.tx_offload();
    let header = packet.get_mut(usize::from(asked.l2_len)..asked.transport_offset());
    let Some(header) = header.filter(|header| header.len() >= ipv4::HEADER_LEN) else { return false };
    ipv4::fill_checksum(header);
    packet.set_tx_offload(asked.without(TxOffload::IP_CHECKSUM));
    true
}

/// Where the transport's checksum stands that the packet asks for, in bytes from the
/// transport header's start.
pub fn checksum_offset(asked: TxOffload) -> Option<usize> {
    if asked.is_tcp() {
        return Some(tcp::offset::CHECKSUM);
    }
    asked.has(TxOffload::UDP_CHECKSUM).then_some(udp::offset::CHECKSUM)
}

/// Fills in all checksums that the packet asks for; it asks for none any longer. `false`
/// when a header is not where the packet says.
#[must_use]
pub fn fill_checksums(packet: &mut Packet) -> bool {
    let asked = packet.tx_offload();
    if asked.has(TxOffload::IP_CHECKSUM) && !fill_ip_checksum(packet) {
        return false;
    }
    if let Some(offset) = checksum_offset(asked)
        && !complete_checksum(packet, asked.transport_offset(), offset)
    {
        return false;
    }
    let done = TxOffload::IP_CHECKSUM | TxOffload::TCP_CHECKSUM | TxOffload::UDP_CHECKSUM;
    packet.set_tx_offload(asked.without(done));
    true
}

/// Fills in the checksum over everything from `start` on, at `start + offset`. The field
/// holds the pseudo-header's sum. `false`, and nothing changed, when it is not in the
/// first segment.
#[must_use]
pub fn complete_checksum(packet: &mut Packet, start: usize, offset: usize) -> bool {
    let at = start + offset;
    if packet.get(at..at + 2).is_none() {
        return false;
    }
    let mut sum = Partial::default();
    for (n, segment) in packet.segments().enumerate() {
        sum.add(if n == 0 { &segment[start..] } else { &segment[..] });
    }
    // UDP sends an all-zero result as all ones; for TCP both are the same.
    let checksum = checksum::never_zero(sum.checksum());
    packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Bytes of payload of a piece, at least: TCP's segments have so many where the path is the narrowest
/// that Linux accepts (tcp(7), `tcp_min_snd_mss` without the headers). With less, one packet
/// would become as many as it has bytes.
pub const LEAST_SEGMENT: usize = 48;
/// Pieces of UDP that may have fewer bytes, at most: Linux cuts no datagram into more
/// (linux/udp.h, UDP_MAX_SEGMENTS).
pub const MOST_SHORT_DATAGRAMS: usize = 128;

/// Whether a packet of `total` bytes is cut into a number of pieces that is in proportion to it.
pub fn bears_cutting(asked: TxOffload, total: usize) -> bool {
    let payload = total.saturating_sub(asked.header_len() as usize);
    match usize::from(asked.segment_size) {
        0 => false,
        LEAST_SEGMENT.. => true,
        size => asked.cuts_udp() && payload.div_ceil(size) <= MOST_SHORT_DATAGRAMS,
    }
}

/// What became of a packet that was to be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Packets that were made of it.
    pub pieces: usize,
    /// Whether these are all of it: otherwise there was no buffer for more, or the packet asks for
    /// nothing that can be done.
    pub is_whole: bool,
}

/// Cuts a packet that asks for it ([`TxOffload::SEGMENT`]), also inside of a tunnel, into packets
/// that ask for nothing. The headers must be in its first buffer.
pub fn cut(packet: &Packet, pool: &mut Pool, mut give: impl FnMut(&mut Pool, Packet)) -> Cut {
    let asked = packet.tx_offload();
    let (end, size) = (asked.header_len() as usize, usize::from(asked.segment_size));
    let mut cut = Cut { pieces: 0, is_whole: false };
    if !asked.has(TxOffload::SEGMENT) || !bears_cutting(asked, packet.total_len()) {
        return cut;
    }
    let Some(headers) = packet.get(..end) else { return cut };
    let protocol = if asked.cuts_udp() { Protocol::UDP } else { Protocol::TCP };
    let (network, transport) = (asked.l2_len.into(), asked.transport_offset());
    let Some(long) = Long::of(headers, protocol, asked.has(TxOffload::TUNNEL), network, transport) else {
        return cut;
    };
    if size.min(packet.total_len() - end) > long.most(end) {
        return cut;
    }
    let mut payload = packet.segments().map(|segment| &segment[..]);
    let first = payload.next().and_then(|segment| segment.get(end..)).unwrap_or_default();
    let mut payload = Payload { rest: first, more: payload };
    let (total, mut at) = (packet.total_len() - end, 0);
    while at < total || cut.pieces == 0 {
        let len = size.min(total - at);
        let (Some(mut piece), sum) = payload.take(pool, headers, len) else { return cut };
        let number = cut.pieces as u16; // of 64 KiB there are no more
        let is_last = at + len == total;
        long.complete(&mut piece[..end], Piece { number, offset: at as u32, len, sum, is_last });
        give(pool, piece);
        cut.pieces += 1;
        at += len;
    }
    Cut { is_whole: true, ..cut }
}

/// Bytes that are cut.
struct Payload<'a, I> {
    rest: &'a [u8],
    more: I,
}

impl<'a, I: Iterator<Item = &'a [u8]>> Payload<'a, I> {
    /// A packet of headers and the next bytes, which there are, and the sum of these; no packet
    /// when there are too few buffers.
    fn take(&mut self, pool: &mut Pool, headers: &[u8], len: usize) -> (Option<Packet>, u16) {
        let (mut left, mut sum) = (headers.len() + len, Partial::default());
        let mut whole: Option<Packet> = None;
        let mut from = headers.len();
        while left > 0 {
            let part = left.min(DATA_ROOM);
            let buffer = pool.alloc().and_then(|mut buffer| buffer.set_len(part).ok().map(|()| buffer));
            let Some(mut buffer) = buffer else {
                whole.into_iter().for_each(|packet| pool.free(packet));
                return (None, 0);
            };
            let filled = &mut buffer[from..part];
            self.fill(filled);
            sum.add(filled);
            if from > 0 {
                buffer[..from].copy_from_slice(headers);
            }
            (left, from) = (left - part, 0);
            match &mut whole {
                Some(whole) => whole.append(buffer),
                None => whole = Some(buffer),
            }
        }
        (whole, sum.sum())
    }

    fn fill(&mut self, mut into: &mut [u8]) {
        while !into.is_empty() {
            if self.rest.is_empty() {
                let Some(next) = self.more.next() else { return };
                self.rest = next;
            }
            let len = into.len().min(self.rest.len());
            let (here, behind) = into.split_at_mut(len);
            here.copy_from_slice(&self.rest[..len]);
            (into, self.rest) = (behind, &self.rest[len..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use memory::{Backing, Dma, Pool};

    use super::*;

    fn pool() -> Pool {
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        Pool::new(&dma, 8).expect("memory")
    }

    fn packet(pool: &mut Pool, bytes: &[u8], asked: TxOffload) -> Packet {
        let mut packet = pool.alloc().expect("a buffer");
        packet.copy_from(bytes).expect("it fits");
        packet.set_tx_offload(asked);
        packet
    }

    #[test]
    fn segments_at_odd_offsets_count_as_one_packet() {
        let mut pool = pool();
        let data: Vec<u8> = (0..101_u8).map(|n| n.wrapping_mul(37)).collect();
        let mut whole = packet(&mut pool, &data, TxOffload::default());
        assert!(complete_checksum(&mut whole, 14, 16));
        let mut parts = packet(&mut pool, &data[..33], TxOffload::default());
        let mut second = packet(&mut pool, &data[33..66], TxOffload::default());
        second.append(packet(&mut pool, &data[66..], TxOffload::default()));
        parts.append(second);
        assert!(complete_checksum(&mut parts, 14, 16));
        assert_eq!(whole[30..32], parts[30..32]);
        // A checksum that is right makes the sum all ones.
        let mut data = data;
        let field = u16::from_be_bytes([data[30], data[31]]);
        (data[30], data[31]) = (0, 0);
        let expected = !checksum::combine(checksum::sum(&data[14..]), field);
        assert_eq!(whole[30..32], expected.to_be_bytes());
        assert!(!complete_checksum(&mut whole, 90, 10), "outside of the packet");
    }

    /// The IP header of a piece tells its length in 16 bits.
    #[test]
    fn pieces_that_are_longer_than_a_length_tells_are_refused() {
        const HEADERS: usize = 54; // 40 of them count
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let mut pool = Pool::new(&dma, 80).expect("memory");
        let mut headers = [0; HEADERS];
        (headers[12], headers[14], headers[23], headers[46]) = (8, 0x45, 6, 0x50);
        for (payload, segment_size, pieces) in
            [(65_496, 0xFFFF, 0), (65_495, 0xFFFF, 1), (65_600, 0xFFFF, 0), (65_600, 65_495, 2)]
        {
            let flags = TxOffload::SEGMENT | TxOffload::IP_CHECKSUM;
            let asked = TxOffload { flags, l2_len: 14, l3_len: 20, l4_len: 20, segment_size, vlan: 0 };
            let mut long = packet(&mut pool, &headers, asked);
            let mut left: usize = payload;
            while left > 0 {
                let part = left.min(DATA_ROOM);
                long.append(packet(&mut pool, &[7; DATA_ROOM][..part], TxOffload::default()));
                left -= part;
            }
            let mut lens = Vec::new();
            let cut = cut(&long, &mut pool, |pool, piece| {
                let told = usize::from(u16::from_be_bytes([piece[16], piece[17]]));
                assert_eq!(told, piece.total_len() - 14);
                lens.push(told);
                pool.free(piece);
            });
            assert_eq!((cut.pieces, cut.is_whole), (pieces, pieces > 0), "{payload} by {segment_size}");
            assert_eq!(lens.iter().sum::<usize>(), if pieces > 0 { payload + 40 * pieces } else { 0 });
            pool.free(long);
        }
    }

    /// TCP's pieces are worth their headers; UDP's are what an application asked for, in some number.
    #[test]
    fn short_pieces_are_made_of_udp_alone_and_not_too_many() {
        let bears = |flags, segment_size, payload: usize| {
            let flags = TxOffload::SEGMENT | flags;
            let asked = TxOffload { flags, l2_len: 14, l3_len: 20, l4_len: 8, segment_size, vlan: 0 };
            bears_cutting(asked, 42 + payload)
        };
        let (tcp, udp) = (TxOffload::TCP_CHECKSUM, TxOffload::UDP_CHECKSUM);
        assert_eq!([0, 1, 47, 48].map(|size| bears(tcp, size, 100)), [false, false, false, true]);
        assert_eq!([0, 1, 47, 48].map(|size| bears(udp, size, 100)), [false, true, true, true]);
        assert_eq!([1280, 1281].map(|payload| bears(udp, 10, payload)), [true, false]);
    }

    /// A sum of zero would say that there is no checksum (RFC 768).
    #[test]
    fn the_checksum_of_a_datagram_is_never_zero() {
        let mut pool = pool();
        let mut bytes = vec![0; 42 + 60];
        (bytes[12], bytes[14], bytes[23]) = (8, 0x45, 17);
        // The pseudo header's and UDP's lengths, and the protocol: 30 + 8 and again, and 17.
        bytes[42..44].copy_from_slice(&(0xFFFF_u16 - 93).to_be_bytes());
        let flags = TxOffload::SEGMENT | TxOffload::UDP_CHECKSUM | TxOffload::IP_CHECKSUM;
        let asked = TxOffload { flags, l2_len: 14, l3_len: 20, l4_len: 8, segment_size: 30, vlan: 0 };
        let whole = packet(&mut pool, &bytes, asked);
        let mut sums = Vec::new();
        let cut = cut(&whole, &mut pool, |pool, piece| {
            sums.push(u16::from_be_bytes([piece[40], piece[41]]));
            pool.free(piece);
        });
        assert_eq!((cut, sums), (Cut { pieces: 2, is_whole: true }, vec![0xFFFF, 0xFFFF - 93]));
    }

    #[test]
    fn a_tag_moves_the_headers_behind_it() {
        let mut pool = pool();
        let bytes: Vec<u8> = (0..60).collect();
        let flags = TxOffload::VLAN | TxOffload::UDP_CHECKSUM;
        let asked = TxOffload { flags, l2_len: 14, l3_len: 20, vlan: 0x2007, ..TxOffload::default() };
        let mut frame = packet(&mut pool, &bytes, asked);
        assert!(insert_tag(&mut frame));
        assert_eq!(frame[..], [&bytes[..12], &[0x81, 0, 0x20, 7], &bytes[12..]].concat());
        let left = frame.tx_offload();
        assert_eq!((left.flags, left.l2_len, left.transport_offset()), (TxOffload::UDP_CHECKSUM, 18, 38));
        let far = TxOffload { l2_len: 252, ..asked };
        for mut refused in [packet(&mut pool, &bytes[..13], asked), packet(&mut pool, &bytes, far)] {
            let before = refused.to_vec();
            assert!(!insert_tag(&mut refused));
            assert_eq!((refused[..].to_vec(), refused.tx_offload().flags), (before, flags));
        }
    }

    #[test]
    fn headers_that_are_not_there_are_refused() {
        let mut pool = pool();
        let flags = TxOffload::IP_CHECKSUM | TxOffload::TCP_CHECKSUM;
        for (l2_len, l3_len) in [(60, 20), (14, 19), (14, 47), (14, 30)] {
            let asked = TxOffload { flags, l2_len, l3_len, ..TxOffload::default() };
            let mut frame = packet(&mut pool, &[0x45; 60], asked);
            assert!(!fill_checksums(&mut frame), "{l2_len} and {l3_len}");
        }
        let asked = TxOffload { flags, l2_len: 14, l3_len: 20, ..TxOffload::default() };
        let mut frame = packet(&mut pool, &[0x45; 60], asked);
        assert!(fill_checksums(&mut frame) && frame.tx_offload().is_empty());
        assert!(checksum::verify(&frame[14..34]), "the IPv4 header's");
    }
}
