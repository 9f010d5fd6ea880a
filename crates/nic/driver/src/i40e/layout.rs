//! What the words of descriptors mean (datasheet chapter 8): receive descriptors of 16 and 32 bytes,
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
    const SUSPECT: u64 = rx_high::ERROR_MASK | rx_high::PROGRAM;
    // Of filters for flows, whose outcome their driver learns otherwise.
    const NO_FRAME: u64 = rx_high::PROGRAM;

    fn latch(status: u64) -> Option<usize> {
        let place = (status & rx_high::TSYNINDX_MASK) >> rx_high::TSYNINDX_SHIFT;
        (status & rx_high::TSYNVALID != 0).then_some(place as usize)
    }

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

/// The XL710's receive descriptors of 32 bytes, which virtual functions have, for
/// virtchnl knows no others: the first two words are those of the shorter ones.
#[derive(Debug)]
pub struct RxXl710Long;

impl RxLayout for RxXl710Long {
    type Descriptor = [AtomicU64; 4];
    const DONE: u64 = RxXl710::DONE;
    const EOP: u64 = RxXl710::EOP;
    const ERROR: u64 = RxXl710::ERROR;
    const SUSPECT: u64 = RxXl710::SUSPECT;

    #[inline(always)]
    fn len(status: u64) -> u16 {
        RxXl710::len(status)
    }

    #[inline(always)]
    fn good(words: [u64; 2]) -> [u64; 2] {
        RxXl710::good(words)
    }

    fn any(words: [u64; 2]) -> [u64; 2] {
        RxXl710::any(words)
    }
}

/// Words of four bytes in the shortest headers of TCP and of UDP.
const TCP_WORDS: u8 = (wire::tcp::HEADER_LEN / 4) as u8;
const UDP_WORDS: u8 = (wire::udp::HEADER_LEN / 4) as u8;

/// The fewest bytes in a segment.
///
/// CONTRADICTION: Linux's driver cuts down to [`tx_context::MSS`], DPDK's gives no packet to
/// the device that asks for segments of fewer bytes than this. The stricter one is taken.
const LEAST_SEGMENT: u64 = 256;

/// The transmit descriptors.
#[derive(Debug)]
pub struct TxXl710;

impl TxLayout for TxXl710 {
    const REPORT: u64 = tx::RS;
    const EOP: u64 = tx::EOP;
    const SHORTEST: usize = regs::i40e::descriptor::SHORTEST_TX;
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

    /// Lengths stand in words of two and four bytes, of which the transport header's has four
    /// bits; the others hold any length that can be asked for.
    fn does(offload: TxOffload) -> bool {
        let cut = offload.has(TxOffload::SEGMENT);
        let sizes = LEAST_SEGMENT..=tx_context::MSS.1;
        let least = if offload.cuts_udp() { UDP_WORDS } else { TCP_WORDS };
        let size = !cut || sizes.contains(&offload.segment_size.into()) && offload.l4_len / 4 >= least;
        let words = offload.l2_len.is_multiple_of(2)
            && offload.l3_len.is_multiple_of(4)
            && offload.l4_len.is_multiple_of(4);
        let fits = u64::from(offload.l4_len / 4) <= tx::L4LEN_MASK >> tx::L4LEN_SHIFT;
        size && words && fits && !offload.has(TxOffload::TUNNEL)
    }

    fn command(offload: TxOffload, _total: u64, _frame: &[u8]) -> u64 {
        let mut bits = tx::DTYPE_DATA | tx::ICRC;
        if offload.has(TxOffload::VLAN) {
            bits |= tx::IL2TAG1 | u64::from(offload.vlan) << tx::L2TAG1_SHIFT;
        }
        const SUMS: u8 = TxOffload::TCP_CHECKSUM | TxOffload::UDP_CHECKSUM | TxOffload::IP_CHECKSUM;
        if !offload.has(SUMS | TxOffload::SEGMENT) {
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
        let (kind, least) = if offload.is_tcp() {
            (tx::L4T_TCP, TCP_WORDS)
        } else if offload.has(TxOffload::UDP_CHECKSUM) {
            (tx::L4T_UDP, UDP_WORDS)
        } else {
            return bits;
        };
        // Nobody needs to name the length where nothing is cut, but the device wants it.
        let l4_len = if offload.l4_len == 0 { least } else { offload.l4_len / 4 };
        bits | kind | u64::from(l4_len) << tx::L4LEN_SHIFT
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

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKSUM: TxOffload = TxOffload {
        flags: TxOffload::TCP_CHECKSUM,
        l2_len: 14,
        l3_len: 20,
        l4_len: 20,
        segment_size: 0,
        vlan: 0,
    };

    #[test]
    fn lengths_that_their_fields_do_not_hold_are_not_done() {
        let of = |l4_len| TxOffload { l4_len, ..CHECKSUM };
        for (l4_len, done) in [(0, true), (20, true), (60, true), (64, false), (220, false), (22, false)] {
            assert_eq!(TxXl710::does(of(l4_len)), done, "{l4_len}");
        }
        let most = TxOffload { l2_len: 254, l3_len: 252, ..of(60) };
        assert!(TxXl710::does(most));
        assert_eq!(TxXl710::command(most, 1000, &[]) & tx::SIZE_MASK, 0, "no length reaches the buffer's");
    }

    #[test]
    fn segments_are_of_256_bytes_and_more_behind_a_whole_header() {
        let cut = |segment_size, l4_len| {
            let flags = TxOffload::SEGMENT | TxOffload::TCP_CHECKSUM;
            TxXl710::does(TxOffload { flags, segment_size, l4_len, ..CHECKSUM })
        };
        assert_eq!([255, 256, 9674, 9675].map(|size| cut(size, 20)), [false, true, true, false]);
        assert_eq!([0, 16, 20].map(|l4_len| cut(1000, l4_len)), [false, false, true]);
        let flags = TxOffload::SEGMENT | TxOffload::UDP_CHECKSUM;
        let datagrams = [0, 4, 8].map(|l4_len| TxOffload { flags, segment_size: 1000, l4_len, ..CHECKSUM });
        assert_eq!(datagrams.map(TxXl710::does), [false, false, true]);
        assert_eq!(TxXl710::command(datagrams[2], 5000, &[]) & tx::L4T_MASK, tx::L4T_UDP);
    }

    #[test]
    fn a_checksum_comes_with_the_length_of_its_header() {
        let words = |flags, l4_len| {
            let bits = TxXl710::command(TxOffload { flags, l4_len, ..CHECKSUM }, 1000, &[]);
            (bits & tx::L4LEN_MASK) >> tx::L4LEN_SHIFT
        };
        assert_eq!([0, 32].map(|len| words(TxOffload::TCP_CHECKSUM, len)), [5, 8]);
        assert_eq!([0, 8].map(|len| words(TxOffload::UDP_CHECKSUM, len)), [2, 2]);
        assert_eq!(words(TxOffload::IP_CHECKSUM, 8), 0, "no checksum, no length");
    }
}
