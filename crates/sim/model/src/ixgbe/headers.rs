//! What the receive path sees in a frame: tag, packet type, and verdicts on
//! IPv4, TCP and UDP checksums, as bits of the descriptor's write-back.
//!
//! 82599 datasheet rev. 3.4, sections 7.1.6.2 (bits) and 7.1.11 (checksums).
//! Tunnels, IPsec and FCoE are not looked into; SCTP is named but not checked.

use crate::checksum::{add, fold, pseudo, sum};
use regs::ixgbe::descriptor::rx_high::{IPCS, IPE, L4E, L4I};
use regs::ixgbe::descriptor::rx_low::{
    PACKET_IPV4, PACKET_IPV4E, PACKET_IPV6, PACKET_IPV6E, PACKET_SCTP, PACKET_TCP, PACKET_UDP,
};

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

/// A frame's headers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Headers {
    /// Packet type, at its place in word 0.
    pub kind: u64,
    /// IPCS, L4I, IPE, L4E, at their places in word 1.
    pub verdict: u64,
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

/// The verdict on a frame that is untagged IPv4 without options, not
/// fragmented, with TCP or UDP whole: nearly all of them. 0 for all others.
#[inline(always)]
pub(super) fn plain(frame: &[u8], head: &[u8; 60]) -> u64 {
    let udp = head[23] == UDP;
    let like_ipv4 = le::<4>(head, 12) & 0xFF_FFFF == 0x45_0008;
    if !like_ipv4 || (!udp && head[23] != TCP) || le::<2>(head, 20) & 0xFF3F != 0 {
        return 0;
    }
    let len = usize::from(u16::from_be_bytes([head[16], head[17]]));
    let covered = if len == 46 {
        // The shortest frame: all at fixed places, in words as a source that
        // has just written its payload (from 44 on) is likely to have left them:
        // loads across two fresh stores would wait for both.
        add(add(le::<8>(head, 34), le::<2>(head, 42)), add(le::<8>(head, 44), le::<8>(head, 52)))
    } else {
        let least = if udp { 8 } else { 20 };
        let Some(l4) = frame.get(34..14 + len).filter(|l4| l4.len() >= least) else { return 0 };
        sum(l4)
    };
    let addresses = le::<8>(head, 26);
    let ip = add(add(le::<8>(head, 14), le::<4>(head, 22)), addresses);
    let mut verdict = IPCS;
    if fold(ip) != 0xFFFF {
        verdict |= IPE;
    }
    // A checksum of zero says that the sender made none (RFC 768).
    if !udp || le::<2>(head, 40) != 0 {
        verdict |= L4I;
        let pseudo = pseudo(head[23], (len as u32).wrapping_sub(20));
        if fold(add(add(addresses, pseudo), covered)) != 0xFFFF {
            verdict |= L4E;
        }
    }
    verdict
}

/// The packet type of such a frame.
#[inline(always)]
pub(super) fn plain_kind(head: &[u8; 60]) -> u64 {
    PACKET_IPV4 | if head[23] == UDP { PACKET_UDP } else { PACKET_TCP }
}

/// Looks at any frame's headers; `vlan` is the tag's type (VLNCTRL.VET).
#[inline(never)]
pub(super) fn parse(frame: &[u8], vlan: u16) -> Headers {
    let mut headers = Headers::default();
    let mut at = 12;
    if be16(frame, at) == Some(vlan) {
        headers.tag = be16(frame, 14);
        at = 16;
    }
    headers.ethertype = be16(frame, at).unwrap_or(0);
    match headers.ethertype {
        0x0800 => ipv4(frame, at + 2, &mut headers),
        0x86DD => ipv6(frame, at + 2, &mut headers),
        _ => None,
    };
    headers
}

fn ipv4(frame: &[u8], at: usize, headers: &mut Headers) -> Option<()> {
    let first = *frame.get(at)?;
    let header = usize::from(first & 0xF) * 4;
    if first >> 4 != 4 || header < 20 {
        return None;
    }
    let fixed = frame.get(at..at + header)?;
    headers.l3 = at as u16;
    headers.kind |= PACKET_IPV4;
    if header > 20 {
        headers.kind |= PACKET_IPV4E;
    }
    headers.verdict |= IPCS;
    if fold(sum(fixed)) != 0xFFFF {
        headers.verdict |= IPE;
    }
    let len = usize::from(be16(fixed, 2)?);
    let fragment = be16(fixed, 6)? & 0x3FFF != 0;
    headers.protocol = fixed[9];
    if fragment {
        return None;
    }
    let l4 = frame.get(at + header..at + len)?;
    transport(l4, at + header, sum(&fixed[12..20]), headers)
}

fn ipv6(frame: &[u8], at: usize, headers: &mut Headers) -> Option<()> {
    let fixed = frame.get(at..at + 40)?;
    if fixed[0] >> 4 != 6 {
        return None;
    }
    headers.l3 = at as u16;
    headers.kind |= PACKET_IPV6;
    let end = at + 40 + usize::from(be16(fixed, 4)?);
    let mut next = fixed[6];
    let mut l4 = at + 40;
    // Hop-by-hop, routing and destination options; a few at most are followed.
    for _ in 0..8 {
        headers.protocol = next;
        match next {
            0 | 43 | 60 => {
                headers.kind |= PACKET_IPV6E;
                next = *frame.get(l4)?;
                l4 += 8 + 8 * usize::from(*frame.get(l4 + 1)?);
            }
            44 => {
                headers.kind |= PACKET_IPV6E;
                return None;
            }
            _ => return transport(frame.get(l4..end)?, l4, sum(&fixed[8..40]), headers),
        }
    }
    None
}

fn transport(l4: &[u8], at: usize, addresses: u64, headers: &mut Headers) -> Option<()> {
    let (kind, least, field) = match headers.protocol {
        TCP => (PACKET_TCP, 20, 16),
        UDP => (PACKET_UDP, 8, 6),
        SCTP => (PACKET_SCTP, 12, 8),
        _ => return None,
    };
    if l4.len() < least {
        return None;
    }
    headers.kind |= kind;
    headers.l4 = at as u16;
    let absent = headers.protocol == UDP && be16(l4, field) == Some(0);
    if headers.protocol != SCTP && !absent {
        headers.verdict |= L4I;
        let pseudo = pseudo(headers.protocol, l4.len() as u32);
        if fold(add(add(addresses, pseudo), sum(l4))) != 0xFFFF {
            headers.verdict |= L4E;
        }
    }
    Some(())
}
