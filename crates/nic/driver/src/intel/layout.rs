//! What the words of descriptors mean, NIC by NIC: constants and conversions, so
//! that a queue generic over a layout compiles to the code of its NIC. The facts
//! stand in [`regs`]; here they have the names that the queues use them by.
//!
//! A receive descriptor has its status in its second word, whatever its size. All
//! layouts here have transmit descriptors of two words, with the command in the
//! second.

use std::ops::Index;
use std::sync::atomic::AtomicU64;

use memory::TxOffload;
use regs::igb::rx_high as igb_rx;
use regs::ixgbe::descriptor::{rx_high, tx, tx_context_high, tx_context_low};

mod sealed {
    use std::sync::atomic::AtomicU64;

    pub trait Words {}
    impl Words for [AtomicU64; 2] {}
    impl Words for [AtomicU64; 4] {}
}

/// A descriptor: an array of words, for which any bits are a value.
pub trait Descriptor: sealed::Words + Index<usize, Output = AtomicU64> + Send + 'static {}

impl<D: sealed::Words + Index<usize, Output = AtomicU64> + Send + 'static> Descriptor for D {}

/// How a NIC writes back a received frame.
pub trait RxLayout: Send + Sync + 'static {
    /// A descriptor in memory: an array of words.
    type Descriptor: Descriptor;
    /// The device is done with the descriptor.
    const DONE: u64;
    /// The frame ends in this buffer.
    const EOP: u64;
    /// The frame must not be delivered.
    const ERROR: u64;
    /// Bits of which a good frame has none.
    const SUSPECT: u64;
    /// The descriptor tells something else, and its buffer has nothing; a suspect bit.
    const NO_FRAME: u64 = 0;
    /// A timestamp stands behind the frame that ends here; a suspect bit.
    const TIMESTAMP: u64 = 0;

    /// The place in the device that keeps the timestamp of the frame that ends here.
    fn latch(_status: u64) -> Option<usize> {
        None
    }

    /// Bytes in the buffer, from the status word.
    fn len(status: u64) -> u16;

    /// The first two words of a frame without suspect bits, as packets keep them:
    /// as the 82599 writes them.
    fn good(words: [u64; 2]) -> [u64; 2];

    /// Likewise of any frame.
    fn any(words: [u64; 2]) -> [u64; 2];
}

/// How a NIC is told what to send.
pub trait TxLayout: Send + Sync + 'static {
    /// Report when the packet was sent.
    const REPORT: u64;
    /// The packet ends here.
    const EOP: u64;
    /// The fewest bytes of a packet.
    const SHORTEST: usize;
    /// The most descriptors that one packet may take, contexts apart.
    const MAX_SEGMENTS: usize;
    /// The most bytes that can be cut into segments.
    const MAX_SEGMENTED: u64;

    /// Whether the device wrote that it is done.
    fn done(command: u64) -> bool;

    /// The command of a packet in one buffer of which nothing is asked.
    fn whole(len: u64) -> u64;

    /// Whether the device does what is asked, and its descriptors have room to say so.
    fn does(offload: TxOffload) -> bool;

    /// What the commands of all descriptors of a packet have in common: what is
    /// asked, and its length. A tunnel's outer headers are in `frame`, the first segment.
    fn command(offload: TxOffload, total: u64, frame: &[u8]) -> u64;

    /// A buffer's length, as it stands in a command.
    fn buffer(len: u64) -> u64;

    /// Whether the device keeps the last context for the packets behind it.
    const CONTEXT_STAYS: bool;

    /// The context descriptor that must stand before a packet of so many bytes.
    fn context(offload: TxOffload, total: u64, frame: &[u8]) -> Option<[u64; 2]>;
}

/// The 82599's receive descriptors (datasheet 7.1.6.2).
#[derive(Debug)]
pub struct Rx82599;

impl RxLayout for Rx82599 {
    type Descriptor = [AtomicU64; 2];
    const DONE: u64 = rx_high::DD;
    const EOP: u64 = rx_high::EOP;
    const ERROR: u64 = rx_high::RXE;
    const SUSPECT: u64 = rx_high::RXE | rx_high::TSIP;
    const TIMESTAMP: u64 = rx_high::TSIP; // at a virtual function, too, whose host asks for them

    #[inline(always)]
    fn len(status: u64) -> u16 {
        (status >> 32) as u16
    }

    #[inline(always)]
    fn good(words: [u64; 2]) -> [u64; 2] {
        words
    }

    fn any(words: [u64; 2]) -> [u64; 2] {
        words
    }
}

/// The 82576's receive descriptors (its datasheet, 7.1.5.2): as the 82599's but for
/// the places of the errors.
#[derive(Debug)]
pub struct Rx82576;

impl RxLayout for Rx82576 {
    type Descriptor = [AtomicU64; 2];
    const DONE: u64 = rx_high::DD;
    const EOP: u64 = rx_high::EOP;
    const ERROR: u64 = igb_rx::RXE;
    const SUSPECT: u64 = igb_rx::RXE | igb_rx::IPE | igb_rx::L4E;

    #[inline(always)]
    fn len(status: u64) -> u16 {
        (status >> 32) as u16
    }

    #[inline(always)]
    fn good(words: [u64; 2]) -> [u64; 2] {
        words
    }

    fn any([low, high]: [u64; 2]) -> [u64; 2] {
        const MOVES: [(u64, u64); 3] =
            [(igb_rx::RXE, rx_high::RXE), (igb_rx::IPE, rx_high::IPE), (igb_rx::L4E, rx_high::L4E)];
        let moved = MOVES.iter().filter(|(from, _)| high & from != 0).fold(0, |bits, (_, to)| bits | to);
        [low, high & !Self::SUSPECT | moved]
    }
}

/// Receive descriptors of the I350's virtual functions: as the 82576's, but for the tag of a frame that
/// another function of the card sent, whose bytes stand in the other order. DPDK's driver says so, and
/// Linux's has it for the same frames.
#[derive(Debug)]
pub struct RxI350Vf;

impl RxLayout for RxI350Vf {
    type Descriptor = [AtomicU64; 2];
    const DONE: u64 = Rx82576::DONE;
    const EOP: u64 = Rx82576::EOP;
    const ERROR: u64 = Rx82576::ERROR;
    // These frames are good, but not as the 82599 writes them.
    const SUSPECT: u64 = Rx82576::SUSPECT | igb_rx::LB;

    #[inline(always)]
    fn len(status: u64) -> u16 {
        Rx82576::len(status)
    }

    #[inline(always)]
    fn good(words: [u64; 2]) -> [u64; 2] {
        words
    }

    fn any(words: [u64; 2]) -> [u64; 2] {
        let [low, high] = Rx82576::any(words);
        let swapped = u64::from(((high >> rx_high::VLAN_SHIFT) as u16).swap_bytes()) << rx_high::VLAN_SHIFT;
        let rest = high & !(0xFFFF << rx_high::VLAN_SHIFT);
        [low, if high & igb_rx::LB != 0 { rest | swapped } else { high }]
    }
}

/// A data descriptor whose frame gets a CRC.
const TX_DATA: u64 = tx::DTYP_DATA | tx::DEXT | tx::IFCS;
/// A context descriptor.
const TX_CONTEXT: u64 = tx::DTYP_CONTEXT | tx::DEXT;

/// Advanced transmit descriptors (82599 datasheet 7.2.3.2, 82576 datasheet 7.2.2):
/// a context tells where the headers end and holds until the next one.
#[derive(Debug)]
pub struct TxAdvanced;

impl TxLayout for TxAdvanced {
    const REPORT: u64 = tx::RS;
    const EOP: u64 = tx::EOP;
    const SHORTEST: usize = 1;
    const MAX_SEGMENTS: usize = 38; // 7.2.1: 40 with segmentation
    const MAX_SEGMENTED: u64 = (1 << 18) - 1; // PAYLEN has 18 bits

    #[inline(always)]
    fn done(command: u64) -> bool {
        command & tx::DD != 0
    }

    #[inline(always)]
    fn whole(len: u64) -> u64 {
        TX_DATA | tx::EOP | len | len << tx::PAYLEN_SHIFT
    }

    /// A checksum inside a tunnel's packet is like any other: all that is in front of the
    /// inner network header counts as MACLEN. Nobody brings the outer lengths of segments
    /// up to date.
    fn does(offload: TxOffload) -> bool {
        let whole = !offload.has(TxOffload::TUNNEL) || !offload.has(TxOffload::SEGMENT);
        whole && u64::from(offload.l2_len) <= tx_context_low::MACLEN_MASK
    }

    fn command(offload: TxOffload, total: u64, _frame: &[u8]) -> u64 {
        let has = |flag| offload.flags & flag != 0;
        let mut bits = TX_DATA;
        let mut payload = total;
        if has(TxOffload::VLAN) {
            bits |= tx::VLE;
        }
        if has(TxOffload::IP_CHECKSUM) {
            bits |= tx::IXSM;
        }
        if has(TxOffload::TCP_CHECKSUM) || has(TxOffload::UDP_CHECKSUM) {
            bits |= tx::TXSM;
        }
        if has(TxOffload::SEGMENT) {
            bits |= tx::TSE | tx::TXSM;
            if !has(TxOffload::IPV6) {
                bits |= tx::IXSM;
            }
            // With segmentation PAYLEN counts what is behind the headers (7.2.3.2.4).
            payload -= offload.header_len();
        }
        bits | payload << tx::PAYLEN_SHIFT
    }

    #[inline(always)]
    fn buffer(len: u64) -> u64 {
        len
    }

    const CONTEXT_STAYS: bool = true;

    fn context(offload: TxOffload, _total: u64, _frame: &[u8]) -> Option<[u64; 2]> {
        if offload.is_empty() {
            return None;
        }
        let has = |flag| offload.flags & flag != 0;
        let low = u64::from(offload.l3_len)
            | u64::from(offload.l2_len) << tx_context_low::MACLEN_SHIFT
            | u64::from(offload.vlan) << tx_context_low::VLAN_SHIFT;
        let mut high = TX_CONTEXT;
        if !has(TxOffload::IPV6) {
            high |= tx_context_high::IPV4;
        }
        if offload.is_tcp() {
            high |= tx_context_high::L4T_TCP; // UDP is 0
        }
        if has(TxOffload::SEGMENT) {
            high |= u64::from(offload.l4_len) << tx_context_high::L4LEN_SHIFT;
            high |= u64::from(offload.segment_size) << tx_context_high::MSS_SHIFT;
        }
        Some([low, high])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_the_82576_finds_its_place_and_nothing_else_moves() {
        let rest = 0x1234_05DC_0000_0063;
        for (from, to) in
            [(igb_rx::RXE, rx_high::RXE), (igb_rx::IPE, rx_high::IPE), (igb_rx::L4E, rx_high::L4E)]
        {
            assert_eq!(Rx82576::any([7, rest | from]), [7, rest | to]);
        }
        assert_eq!(Rx82576::any([7, rest]), Rx82576::good([7, rest]));
    }

    #[test]
    fn a_tag_from_another_function_of_an_i350_has_its_bytes_turned() {
        let (of_wire, of_function) = (0x1234_05DC_0000_0063, 0x1234_05DC_0004_0063);
        assert_eq!(RxI350Vf::any([7, of_wire]), [7, of_wire]);
        assert_eq!(RxI350Vf::any([7, of_function]), [7, 0x3412_05DC_0004_0063]);
        assert_eq!(of_wire & RxI350Vf::SUSPECT, 0);
        assert_ne!(of_function & RxI350Vf::SUSPECT, 0, "it goes the way of those that are not plain");
        let bad = of_function | igb_rx::L4E;
        assert_eq!(RxI350Vf::any([7, bad]), [7, 0x3412_05DC_0004_0063 | rx_high::L4E]);
    }
}
