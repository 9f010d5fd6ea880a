//! TCP segments and UDP datagrams that are longer than a frame, as stacks give them to NICs to be
//! cut: the headers of each piece, a tunnel's in front of them too. Pieces differ in lengths, IPv4
//! identifications and checksums, those of TCP also in sequence numbers and flags: FIN and PSH are
//! the last one's, CWR is the first one's (RFC 3168, section 6.1.2). Those of UDP are datagrams of
//! their own (Linux's UDP_SEGMENT, udp(7)), no fragments of one. An outer UDP header must have no
//! checksum.

use crate::ethernet::{self, EtherType};
use crate::ip::{LONGEST, Protocol};
use crate::tcp::{self, Flags};
use crate::{checksum, ipv4, ipv6, udp, vlan};

/// Tags in front of an outer IP header, at most.
const MAX_TAGS: usize = 2;

/// Where the headers of a long packet stand that differ between its pieces, in bytes from the
/// start of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Long {
    /// The tunnel's IP header, and the UDP header behind it.
    outer: Option<(usize, Option<usize>)>,
    network: usize,
    transport: usize,
    protocol: Protocol,
}

/// A piece of a long packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// How many there are in front of it.
    pub number: u16,
    /// Bytes of payload in front of it.
    pub offset: u32,
    /// Bytes of its payload.
    pub len: usize,
    /// The sum of its payload ([`checksum::sum`]).
    pub sum: u16,
    /// Whether nothing follows.
    pub is_last: bool,
}

impl Long {
    /// The packet whose headers are all of `headers`, with an IP header at `network` and one of
    /// `protocol`, TCP or UDP, at `transport`. `None` when they are not there, or the headers of a
    /// tunnel in front of them are none that are known.
    pub fn of(
        headers: &[u8],
        protocol: Protocol,
        has_tunnel: bool,
        network: usize,
        transport: usize,
    ) -> Option<Long> {
        let ip = headers.get(network..transport)?;
        let is_ip = match ipv4::version(*ip.first()?) {
            4 => {
                let header = ipv4::Header::of(ip)?;
                header.header_len() == ip.len() && header.protocol() == protocol
            }
            6 => {
                let header = ipv6::Header::of(ip)?;
                let upper = ipv6::upper_layer(header.next_header(), &ip[ipv6::HEADER_LEN..]).ok()?;
                upper.protocol == protocol && upper.offset + ipv6::HEADER_LEN == ip.len()
            }
            _ => false,
        };
        let header = headers.get(transport..)?;
        let header_len = match protocol {
            Protocol::TCP => tcp::Header::of(header)?.header_len(),
            Protocol::UDP => udp::HEADER_LEN,
            _ => return None,
        };
        if !is_ip || header_len != header.len() {
            return None;
        }
        let outer = match has_tunnel {
            true => Some(outer(headers.get(..network)?)?),
            false => None,
        };
        Some(Long { outer, network, transport, protocol })
    }

    /// The longest payload of a piece behind so many bytes of headers: the outermost IP header tells
    /// the length of all behind it in 16 bits.
    pub fn most(&self, headers: usize) -> usize {
        let outermost = self.outer.map_or(self.network, |(at, _)| at);
        LONGEST.saturating_sub(headers.saturating_sub(outermost))
    }

    /// Makes a copy of the headers those of a piece, which is no longer than [`most`](Self::most).
    pub fn complete(&self, headers: &mut [u8], piece: Piece) {
        let end = headers.len();
        if let Some((outer, datagram)) = self.outer {
            complete_ip(headers, outer, piece);
            let len = end.saturating_sub(datagram.unwrap_or(end)) + piece.len;
            let datagram = datagram.and_then(|at| headers.get_mut(at..)).and_then(udp::Header::of_mut);
            if let Some(mut header) = datagram {
                header.set_total_len(len as u16);
            }
        }
        complete_ip(headers, self.network, piece);
        let addresses = match ipv4::Header::of(&headers[self.network..]).filter(|ip| ip.version() == 4) {
            Some(ip) => Some(ip.addresses()),
            None => ipv6::Header::of(&headers[self.network..]).map(|ip| ip.addresses()),
        };
        let behind = end - self.transport + piece.len;
        let pseudo = addresses.map_or(0, |ends| ends.pseudo_header(self.protocol, behind));
        let transport = &mut headers[self.transport..];
        match self.protocol {
            Protocol::TCP => complete_tcp(transport, pseudo, piece),
            _ => complete_udp(transport, pseudo, piece),
        }
    }
}

/// Makes a TCP header that of a piece; `pseudo` is the sum of its pseudo header.
fn complete_tcp(bytes: &mut [u8], pseudo: u16, piece: Piece) {
    if let Some(mut header) = tcp::Header::of_mut(bytes) {
        let not_first = if piece.number > 0 { Flags::CWR } else { Flags(0) };
        let not_last = if piece.is_last { Flags(0) } else { Flags::FIN | Flags::PSH };
        header.set_flags(header.flags().without(not_first | not_last));
        header.set_sequence(header.sequence().wrapping_add(piece.offset));
        header.set_checksum(0);
    }
    let sum = checksum::combine(checksum::combine(pseudo, checksum::sum(bytes)), piece.sum);
    if let Some(mut header) = tcp::Header::of_mut(bytes) {
        header.set_checksum(!sum);
    }
}

/// Likewise a UDP header.
fn complete_udp(bytes: &mut [u8], pseudo: u16, piece: Piece) {
    if let Some(mut header) = udp::Header::of_mut(bytes) {
        header.set_total_len((udp::HEADER_LEN + piece.len) as u16);
        header.set_checksum(0);
    }
    let sum = checksum::combine(checksum::combine(pseudo, checksum::sum(bytes)), piece.sum);
    if let Some(mut header) = udp::Header::of_mut(bytes) {
        // Zero would say that there is none (RFC 768).
        header.set_checksum(checksum::never_zero(!sum));
    }
}

/// The IP header of a tunnel at the start of a frame, and the UDP header behind it.
fn outer(headers: &[u8]) -> Option<(usize, Option<usize>)> {
    let frame = ethernet::Header::of(headers)?;
    let (mut at, mut ethertype) = (ethernet::HEADER_LEN, frame.ethertype());
    for _ in 0..MAX_TAGS {
        if !ethertype.is_tag() {
            break;
        }
        ethertype = vlan::Header::of(headers.get(at..)?)?.ethertype();
        at += vlan::HEADER_LEN;
    }
    let ip = headers.get(at..)?;
    let (protocol, len) = match ethertype {
        EtherType::IPV4 => ipv4::Header::of(ip).map(|header| (header.protocol(), header.header_len()))?,
        EtherType::IPV6 => (ipv6::Header::of(ip)?.next_header(), ipv6::HEADER_LEN),
        _ => return None,
    };
    if protocol != Protocol::UDP {
        return Some((at, None));
    }
    let datagram = udp::Header::of(ip.get(len..)?)?;
    (datagram.checksum() == 0).then_some((at, Some(at + len)))
}

/// Makes the IP header at a place that of a piece.
fn complete_ip(headers: &mut [u8], at: usize, piece: Piece) {
    let behind = headers.len() - at + piece.len;
    let Some(bytes) = headers.get_mut(at..) else { return };
    match bytes.first().map(|first| ipv4::version(*first)) {
        Some(4) => {
            let Some(mut header) = ipv4::Header::of_mut(bytes) else { return };
            header.set_total_len(behind as u16);
            header.set_identification(header.identification().wrapping_add(piece.number));
            let len = header.header_len();
            if let Some(header) = bytes.get_mut(..len.max(ipv4::HEADER_LEN)) {
                ipv4::fill_checksum(header);
            }
        }
        _ => {
            if let Some(mut header) = ipv6::Header::of_mut(bytes) {
                header.set_payload_len((behind - ipv6::HEADER_LEN) as u16);
            }
        }
    }
}
