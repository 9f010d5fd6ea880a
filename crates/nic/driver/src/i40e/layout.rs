//! What the words of descriptors mean (datasheet chapter 8): receive descriptors of 16 bytes,
//! and transmit descriptors whose type the device overwrites when it is done.

use std::sync::atomic::AtomicU64;

use memory::{PacketType, RxFlags, TxOffload};
use regs::i40e::descriptor::{MOST_TX_BUFFERS, ptype, rx_high, rx_low, tx, tx_context};

use crate::intel::layout::{RxLayout, TxLayout};

/// The receive descriptors.
#[derive(Debug)]
pub struct RxXl710;

/// Where packets keep the hash's type, zero without a hash; what it is here is not told.
const HASHED: u64 = 2;
/// Where packets keep the headers that were found.
const TYPE_SHIFT: u32 = 4;

/// What a packet type says: the headers found, and which checksums were checked.
const fn found(kind: u8) -> (u16, u32) {
    let (ip, l4) = (RxFlags::IP_CHECKED, RxFlags::L4_CHECKED);
    let (v4, v6) = (PacketType::IPV4, PacketType::IPV6);
    match kind {
        ptype::IPV4_FRAGMENT | ptype::IPV4 | ptype::IPV4_ICMP => (v4, ip),
        ptype::IPV4_UDP => (v4 | PacketType::UDP, ip | l4),
        ptype::IPV4_TCP => (v4 | PacketType::TCP, ip | l4),
        ptype::IPV4_SCTP => (v4 | PacketType::SCTP, ip | l4),
        ptype::IPV6_FRAGMENT | ptype::IPV6 | ptype::IPV6_ICMP => (v6, 0),
        ptype::IPV6_UDP => (v6 | PacketType::UDP, l4),
        ptype::IPV6_TCP => (v6 | PacketType::TCP, l4),
        ptype::IPV6_SCTP => (v6 | PacketType::SCTP, l4),
        _ => (0, 0),
    }
}

/// The same for every type: low word's bits, high word's bits.
static FOUND: [(u32, u32); 256] = {
    let mut table = [(0, 0); 256];
    let mut kind = 0;
    while kind < table.len() {
        let (headers, flags) = found(kind as u8);
        table[kind] = ((headers as u32) << TYPE_SHIFT, flags);
        kind += 1;
    }
    table
};

impl RxLayout for RxXl710 {
    type Descriptor = [AtomicU64; 2];
    const DONE: u64 = rx_high::DD;
    const EOP: u64 = rx_high::EOF;
    const ERROR: u64 = rx_high::RXE | rx_high::OVERSIZE;
    const SUSPECT: u64 = rx_high::ERROR_MASK;

    #[inline(always)]
    fn len(status: u64) -> u16 {
        ((status & rx_high::LENGTH_MASK) >> rx_high::LENGTH_SHIFT) as u16
    }

    #[inline(always)]
    fn good([low, high]: [u64; 2]) -> [u64; 2] {
        let (kind, checked) = FOUND[((high & rx_high::PTYPE_MASK) >> rx_high::PTYPE_SHIFT) as usize];
        let hashed = if high & rx_high::FLTSTAT_MASK == rx_high::FLTSTAT_RSS { HASHED } else { 0 };
        let checked = if high & rx_high::L3L4P != 0 { checked } else { 0 };
        let tagged = if high & rx_high::L2TAG1P != 0 { RxFlags::VLAN } else { 0 };
        let tag = low >> rx_low::L2TAG1_SHIFT & 0xFFFF;
        [
            low & !0xFFFF_FFFF | u64::from(kind) | hashed,
            u64::from(checked | tagged) | u64::from(Self::len(high)) << 32 | tag << 48,
        ]
    }

    fn any([low, high]: [u64; 2]) -> [u64; 2] {
        const BAD: [(u64, u32); 2] = [(rx_high::IPE, RxFlags::IP_BAD), (rx_high::L4E, RxFlags::L4_BAD)];
        let bad = BAD.iter().filter(|(error, _)| high & error != 0).fold(0, |bits, (_, bad)| bits | bad);
        let [low, high] = Self::good([low, high]);
        [low, high | u64::from(bad)]
    }
}

/// The transmit descriptors.
#[derive(Debug)]
pub struct TxXl710;

impl TxLayout for TxXl710 {
    const REPORT: u64 = tx::RS;
    const EOP: u64 = tx::EOP;
    const MAX_SEGMENTS: usize = MOST_TX_BUFFERS;
    const MAX_SEGMENTED: u64 = tx_context::TSO_LEN_MASK >> tx_context::TSO_LEN_SHIFT;

    #[inline(always)]
    fn done(command: u64) -> bool {
        command & tx::DTYPE_MASK == tx::DTYPE_DONE
    }

    #[inline(always)]
    fn whole(len: u64) -> u64 {
        tx::EOP | tx::ICRC | Self::buffer(len)
    }

    /// Lengths stand in words of two and four bytes; segments are of 64 bytes and more.
    fn does(offload: TxOffload) -> bool {
        let (least, most) = tx_context::MSS;
        let size = !offload.has(TxOffload::SEGMENT) || (least..=most).contains(&offload.segment_size.into());
        let even = offload.l2_len.is_multiple_of(2)
            && u64::from(offload.l2_len) / 2 <= tx::MACLEN_MASK >> tx::MACLEN_SHIFT;
        let words = offload.l3_len.is_multiple_of(4) && offload.l4_len.is_multiple_of(4);
        size && even && words && !offload.has(TxOffload::TUNNEL)
    }

    fn command(offload: TxOffload, _total: u64, _frame: &[u8]) -> u64 {
        let mut bits = tx::DTYPE_DATA | tx::ICRC;
        if offload.has(TxOffload::VLAN) {
            bits |= tx::IL2TAG1 | u64::from(offload.vlan) << tx::L2TAG1_SHIFT;
        }
        let (tcp, udp) = (TxOffload::TCP_CHECKSUM | TxOffload::SEGMENT, TxOffload::UDP_CHECKSUM);
        if !offload.has(tcp | udp | TxOffload::IP_CHECKSUM) {
            return bits;
        }
        bits |= u64::from(offload.l2_len / 2) << tx::MACLEN_SHIFT
            | u64::from(offload.l3_len / 4) << tx::IPLEN_SHIFT;
        bits |= if offload.has(TxOffload::IPV6) {
            tx::IIPT_IPV6
        } else if offload.has(TxOffload::IP_CHECKSUM | TxOffload::SEGMENT) {
            tx::IIPT_IPV4_CSUM
        } else {
            tx::IIPT_IPV4
        };
        bits |= u64::from(offload.l4_len / 4) << tx::L4LEN_SHIFT;
        bits | if offload.has(tcp) {
            tx::L4T_TCP
        } else if offload.has(udp) {
            tx::L4T_UDP
        } else {
            0
        }
    }

    #[inline(always)]
    fn buffer(len: u64) -> u64 {
        len << tx::SIZE_SHIFT
    }

    const CONTEXT_STAYS: bool = false;

    /// Only segmentation needs a context: checksums and tags stand in the data descriptor.
    fn context(offload: TxOffload, total: u64, _frame: &[u8]) -> Option<[u64; 2]> {
        let payload = total - offload.header_len().min(total);
        let size = u64::from(offload.segment_size) << tx_context::MSS_SHIFT;
        let high = tx::DTYPE_CONTEXT | tx_context::TSO | payload << tx_context::TSO_LEN_SHIFT | size;
        offload.has(TxOffload::SEGMENT).then_some([0, high])
    }
}
