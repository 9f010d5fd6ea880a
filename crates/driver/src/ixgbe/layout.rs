//! The bits of the descriptors' words that the hot paths use, as 64-bit masks:
//! the status or command word is the second of a descriptor's two, and its upper
//! half holds lengths.

/// Receive and transmit: the device is done with the descriptor (7.1.6.2, 7.2.3.2.4).
pub(super) const DD: u64 = 1 << 0;
/// Receive: the frame ends in this buffer (7.1.6.2).
pub(super) const RX_EOP: u64 = 1 << 1;
/// Receive: the MAC saw an error (7.1.6.2, RXE).
pub(super) const RX_ERROR: u64 = 1 << 29;

/// Transmit: an advanced data descriptor whose frame gets a CRC (7.2.3.2.4:
/// DTYP = 3, DEXT, IFCS).
pub(super) const TX_DATA: u64 = 3 << 20 | 1 << 29 | 1 << 25;
/// Transmit: the packet ends here.
pub(super) const TX_EOP: u64 = 1 << 24;
/// Transmit: report status.
pub(super) const TX_REPORT: u64 = 1 << 27;
/// Transmit: insert the context's VLAN tag.
pub(super) const TX_VLAN: u64 = 1 << 30;
/// Transmit: cut into segments.
pub(super) const TX_SEGMENT: u64 = 1 << 31;
/// Transmit: insert the IPv4 header checksum (POPTS.IXSM).
pub(super) const TX_IP_CHECKSUM: u64 = 1 << 40;
/// Transmit: insert the TCP or UDP checksum (POPTS.TXSM).
pub(super) const TX_L4_CHECKSUM: u64 = 1 << 41;
/// Transmit: the packet's length.
pub(super) const TX_PAYLEN_SHIFT: u32 = 46;

/// Transmit: an advanced context descriptor (7.2.3.2.3: DTYP = 2, DEXT).
pub(super) const TX_CONTEXT: u64 = 2 << 20 | 1 << 29;
/// Context: the network header is IPv4.
pub(super) const CONTEXT_IPV4: u64 = 1 << 10;
/// Context: the transport is TCP; UDP is zero.
pub(super) const CONTEXT_TCP: u64 = 1 << 11;
/// Context: bytes before the network header.
pub(super) const CONTEXT_MACLEN_SHIFT: u32 = 9;
/// Context: the tag to insert.
pub(super) const CONTEXT_VLAN_SHIFT: u32 = 16;
/// Context: bytes of the transport header.
pub(super) const CONTEXT_L4LEN_SHIFT: u32 = 40;
/// Context: payload bytes of each segment.
pub(super) const CONTEXT_MSS_SHIFT: u32 = 48;
