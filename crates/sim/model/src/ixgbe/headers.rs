//! What the receive path sees in a frame: tag, packet type, and whether IPv4, TCP and
//! UDP checksums are right, as bits of the descriptor's write-back.
//!
//! 82599 datasheet rev. 3.4, sections 7.1.6.2 (bits) and 7.1.11 (checksums). What is found in
//! a frame is [`crate::headers`]'s; here are the bits, and a short cut for most frames.
//! Tunnels, IPsec and FCoE are not looked into; SCTP is named but not checked.

use crate::MIN_FRAME;
use crate::checksum::{RIGHT, add, fold, pseudo, sum};
use crate::headers::{self, Network};
use regs::ixgbe::descriptor::rx_high::{IPCS, IPE, L4E, L4I};
use regs::ixgbe::descriptor::rx_low::{
    PACKET_IPV4, PACKET_IPV4E, PACKET_IPV6, PACKET_IPV6E, PACKET_SCTP, PACKET_TCP, PACKET_UDP,
};

use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::{ipv4, tcp, udp};

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
    let found = headers::parse(frame, 1, |ethertype| ethertype.0 == vlan);
    let network = match found.network {
        Network::None => 0,
        Network::V4 { options } => PACKET_IPV4 | if options { PACKET_IPV4E } else { 0 },
        Network::V6 { extensions } => PACKET_IPV6 | if extensions { PACKET_IPV6E } else { 0 },
    };
    let transport = match Protocol(found.protocol) {
        _ if found.l4 == 0 => 0,
        Protocol::TCP => PACKET_TCP,
        Protocol::UDP => PACKET_UDP,
        _ => PACKET_SCTP,
    };
    let status = |looked_at: u64, wrong: u64, checksum: Option<bool>| match checksum {
        None => 0,
        Some(true) => looked_at,
        Some(false) => looked_at | wrong,
    };
    Headers {
        kind: network | transport,
        status: status(IPCS, IPE, found.ip_checksum) | status(L4I, L4E, found.l4_checksum),
        tag: found.tag,
        ethertype: found.ethertype,
        l3: found.l3,
        l4: found.l4,
        protocol: found.protocol,
    }
}
