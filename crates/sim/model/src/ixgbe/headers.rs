//! What the receive path sees in a frame: tag, packet type, and whether IPv4, TCP and
//! UDP checksums are right, as bits of the descriptor's write-back.
//!
//! 82599 datasheet rev. 3.4, sections 7.1.6.2 (bits) and 7.1.11 (checksums).
//! Tunnels, IPsec and FCoE are not looked into; SCTP is named but not checked.

use crate::MIN_FRAME;
use crate::checksum::{RIGHT, add, fold, pseudo, sum};
use regs::ixgbe::descriptor::rx_high::{IPCS, IPE, L4E, L4I};
use regs::ixgbe::descriptor::rx_low::{
    PACKET_IPV4, PACKET_IPV4E, PACKET_IPV6, PACKET_IPV6E, PACKET_SCTP, PACKET_TCP, PACKET_UDP,
};

use wire::ethernet::{self, EtherType};
use wire::ip::{self, Protocol};
use wire::{ipv4, ipv6, tcp, udp, vlan};

/// Where an untagged frame has its type, and its headers if it is IPv4 without options.
const ETHERTYPE: usize = ethernet::offset::ETHERTYPE;
const L3: usize = ethernet::HEADER_LEN;
const L4: usize = L3 + ipv4::HEADER_LEN;
/// Where it has its length, the word about fragments, the protocol and the addresses.
const TOTAL_LEN: usize = L3 + ipv4::offset::TOTAL_LEN;
const FRAGMENT: usize = L3 + ipv4::offset::FRAGMENT;
const PROTOCOL: usize = L3 + ipv4::offset::PROTOCOL;
pub(super) const ADDRESSES: usize = L3 + ipv4::offset::SRC;
/// Where it has UDP's checksum.
const UDP_CHECKSUM: usize = L4 + udp::offset::CHECKSUM;

/// IPv4's EtherType, and the first byte of a header without options, as they lie in
/// memory; and the bits of a fragment likewise.
const LIKE_IPV4: u64 = {
    let [high, low] = EtherType::IPV4.0.to_be_bytes();
    u32::from_le_bytes([high, low, ipv4::version_and_len(ipv4::HEADER_LEN), 0]) as u64
};
const FRAGMENT_BITS: u64 = (ipv4::MORE_FRAGMENTS | ipv4::FRAGMENT_OFFSET).swap_bytes() as u64;

/// A frame's headers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Headers {
    /// Packet type, at its place in word 0.
    pub kind: u64,
    /// IPCS, L4I, IPE, L4E, at their places in word 1.
    pub status: u64,
    /// The tag, when there is one of the type looked for.
    pub tag: Option<u16>,
    /// The type behind the tag.
    pub ethertype: u16,
    /// Where the network header is; 0 when there is no IP.
    pub l3: u16,
    /// Where the transport header is; 0 when there is none, or not all of it.
    pub l4: u16,
    /// IP protocol of the last header.
    pub protocol: u8,
}

fn be16(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}

#[inline(always)]
fn le<const N: usize>(head: &[u8; 60], at: usize) -> u64 {
    let mut word = [0; 8];
    word[..N].copy_from_slice(&head[at..at + N]);
    u64::from_le_bytes(word)
}

/// Whether a plain frame has UDP, not TCP.
#[inline(always)]
pub(super) fn is_udp(head: &[u8; 60]) -> bool {
    Protocol(head[PROTOCOL]) == Protocol::UDP
}

/// What is found out about the checksums of a frame that is untagged IPv4 without options, not
/// fragmented, with TCP or UDP whole: nearly all of them. 0 for all others.
#[inline(always)]
pub(super) fn plain(frame: &[u8], head: &[u8; 60]) -> u64 {
    let (udp, protocol) = (is_udp(head), Protocol(head[PROTOCOL]));
    let like_ipv4 = le::<4>(head, ETHERTYPE) & 0xFF_FFFF == LIKE_IPV4;
    if !like_ipv4 || (!udp && protocol != Protocol::TCP) || le::<2>(head, FRAGMENT) & FRAGMENT_BITS != 0 {
        return 0;
    }
    let len = usize::from(u16::from_be_bytes([head[TOTAL_LEN], head[TOTAL_LEN + 1]]));
    let covered = if len == MIN_FRAME - L3 {
        // The shortest frame: all at fixed places, in words as a source that
        // has just written its payload (two bytes behind UDP's header) is likely to have
        // left them: loads across two fresh stores would wait for both.
        let first = add(le::<8>(head, L4), le::<2>(head, L4 + 8));
        add(first, add(le::<8>(head, L4 + 10), le::<8>(head, L4 + 18)))
    } else {
        let least = if udp { udp::HEADER_LEN } else { tcp::HEADER_LEN };
        let Some(l4) = frame.get(L4..L3 + len).filter(|l4| l4.len() >= least) else { return 0 };
        sum(l4)
    };
    let addresses = le::<8>(head, ADDRESSES);
    let ip = add(add(le::<8>(head, L3), le::<4>(head, L3 + 8)), addresses);
    let mut status = IPCS;
    if fold(ip) != RIGHT {
        status |= IPE;
    }
    // A checksum of zero says that the sender made none (RFC 768).
    if !udp || le::<2>(head, UDP_CHECKSUM) != 0 {
        status |= L4I;
        let pseudo = pseudo(protocol.0, (len as u32).wrapping_sub(ipv4::HEADER_LEN as u32));
        if fold(add(add(addresses, pseudo), covered)) != RIGHT {
            status |= L4E;
        }
    }
    status
}

/// The packet type of such a frame.
#[inline(always)]
pub(super) fn plain_kind(head: &[u8; 60]) -> u64 {
    PACKET_IPV4 | if is_udp(head) { PACKET_UDP } else { PACKET_TCP }
}

/// Looks at any frame's headers; `vlan` is the tag's type (VLNCTRL.VET).
#[inline(never)]
pub(crate) fn parse(frame: &[u8], vlan: u16) -> Headers {
    let mut headers = Headers::default();
    let mut at = ETHERTYPE;
    if be16(frame, at) == Some(vlan) {
        headers.tag = be16(frame, ethernet::HEADER_LEN);
        at += vlan::HEADER_LEN;
    }
    headers.ethertype = be16(frame, at).unwrap_or(0);
    match EtherType(headers.ethertype) {
        EtherType::IPV4 => ipv4(frame, at + 2, &mut headers),
        EtherType::IPV6 => ipv6(frame, at + 2, &mut headers),
        _ => None,
    };
    headers
}

fn ipv4(frame: &[u8], at: usize, headers: &mut Headers) -> Option<()> {
    let fixed = ipv4::Header::of(frame.get(at..)?)?;
    let len = fixed.header_len();
    if fixed.version() != 4 || len < ipv4::HEADER_LEN {
        return None;
    }
    let whole = frame.get(at..at + len)?;
    headers.l3 = at as u16;
    headers.kind |= PACKET_IPV4;
    if len > ipv4::HEADER_LEN {
        headers.kind |= PACKET_IPV4E;
    }
    headers.status |= IPCS;
    if fold(sum(whole)) != RIGHT {
        headers.status |= IPE;
    }
    headers.protocol = fixed.protocol().0;
    if fixed.is_fragment() {
        return None;
    }
    let l4 = frame.get(at + len..at + fixed.total_len())?;
    transport(l4, at + len, sum(&whole[ipv4::offset::SRC..ipv4::HEADER_LEN]), headers)
}

fn ipv6(frame: &[u8], at: usize, headers: &mut Headers) -> Option<()> {
    let fixed = ipv6::Header::of(frame.get(at..)?)?;
    if fixed.version() != 6 {
        return None;
    }
    headers.l3 = at as u16;
    headers.kind |= PACKET_IPV6;
    let mut l4 = at + ipv6::HEADER_LEN;
    let end = l4 + fixed.payload_len();
    let mut next = fixed.next_header();
    // Hop-by-hop, routing and destination options; a few at most are followed.
    for _ in 0..8 {
        headers.protocol = next.0;
        match next {
            Protocol::HOP_BY_HOP | Protocol::ROUTING | Protocol::DESTINATION => {
                headers.kind |= PACKET_IPV6E;
                next = Protocol(*frame.get(l4)?);
                l4 += 8 + 8 * usize::from(*frame.get(l4 + 1)?);
            }
            Protocol::FRAGMENT => {
                headers.kind |= PACKET_IPV6E;
                return None;
            }
            _ => {
                let addresses = &fixed.into_inner()[ipv6::offset::SRC..];
                return transport(frame.get(l4..end)?, l4, sum(addresses), headers);
            }
        }
    }
    None
}

fn transport(l4: &[u8], at: usize, addresses: u64, headers: &mut Headers) -> Option<()> {
    let protocol = Protocol(headers.protocol);
    let (kind, least) = match protocol {
        Protocol::TCP => (PACKET_TCP, tcp::HEADER_LEN),
        Protocol::UDP => (PACKET_UDP, udp::HEADER_LEN),
        Protocol::SCTP => (PACKET_SCTP, ip::SCTP_HEADER_LEN),
        _ => return None,
    };
    if l4.len() < least {
        return None;
    }
    headers.kind |= kind;
    headers.l4 = at as u16;
    let absent = protocol == Protocol::UDP && be16(l4, udp::offset::CHECKSUM) == Some(0);
    if protocol != Protocol::SCTP && !absent {
        headers.status |= L4I;
        let pseudo = pseudo(protocol.0, l4.len() as u32);
        if fold(add(add(addresses, pseudo), sum(l4))) != RIGHT {
            headers.status |= L4E;
        }
    }
    Some(())
}
