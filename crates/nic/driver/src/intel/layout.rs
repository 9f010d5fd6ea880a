//! The bits of the descriptors' second word that the driver uses, under the names
//! it uses them by. The facts stand in [`regs::ixgbe::descriptor`]; the
//! 82576 has them at the same places but for the verdicts on received packets,
//! which its driver moves.

use regs::ixgbe::descriptor::{rx_high, tx, tx_context_high, tx_context_low};

/// Receive: the device is done with the descriptor.
pub(super) const RX_DONE: u64 = rx_high::DD;
/// Receive: the frame ends in this buffer.
pub(super) const RX_EOP: u64 = rx_high::EOP;
/// Receive: the MAC saw an error.
pub(super) const RX_ERROR: u64 = rx_high::RXE;

/// Transmit: the device is done with the descriptor.
pub(super) const TX_DONE: u64 = tx::DD;
/// Transmit: an advanced data descriptor whose frame gets a CRC.
pub(super) const TX_DATA: u64 = tx::DTYP_DATA | tx::DEXT | tx::IFCS;
/// Transmit: the packet ends here.
pub(super) const TX_EOP: u64 = tx::EOP;
/// Transmit: report status.
pub(super) const TX_REPORT: u64 = tx::RS;
/// Transmit: insert the context's VLAN tag.
pub(super) const TX_VLAN: u64 = tx::VLE;
/// Transmit: cut into segments.
pub(super) const TX_SEGMENT: u64 = tx::TSE;
/// Transmit: insert the IPv4 header checksum.
pub(super) const TX_IP_CHECKSUM: u64 = tx::IXSM;
/// Transmit: insert the TCP or UDP checksum.
pub(super) const TX_L4_CHECKSUM: u64 = tx::TXSM;
/// Transmit: the packet's length.
pub(super) const TX_PAYLEN_SHIFT: u32 = tx::PAYLEN_SHIFT;

/// Transmit: an advanced context descriptor.
pub(super) const TX_CONTEXT: u64 = tx::DTYP_CONTEXT | tx::DEXT;
/// Context: the network header is IPv4.
pub(super) const CONTEXT_IPV4: u64 = tx_context_high::IPV4;
/// Context: the transport is TCP; UDP is zero.
pub(super) const CONTEXT_TCP: u64 = tx_context_high::L4T_TCP;
/// Context: bytes before the network header.
pub(super) const CONTEXT_MACLEN_SHIFT: u32 = tx_context_low::MACLEN_SHIFT;
/// Context: the tag to insert.
pub(super) const CONTEXT_VLAN_SHIFT: u32 = tx_context_low::VLAN_SHIFT;
/// Context: bytes of the transport header.
pub(super) const CONTEXT_L4LEN_SHIFT: u32 = tx_context_high::L4LEN_SHIFT;
/// Context: payload bytes of each segment.
pub(super) const CONTEXT_MSS_SHIFT: u32 = tx_context_high::MSS_SHIFT;
