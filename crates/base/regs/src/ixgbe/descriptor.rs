//! Descriptor layouts: two little-endian 64-bit words each (datasheet 7.1.5,
//! 7.1.6, 7.2.3). A name ending in `_SHIFT` is a bit position, others are masks
//! in the word the section names.

/// Receive write-back, advanced, first word (7.1.6.2): what kind of packet.
pub mod rx_low {
    /// RSS type, bits 3:0; zero means that the hash is not valid.
    pub const RSS_TYPE_MASK: u64 = 0xF;
    /// RSS type: TCP over IPv4.
    pub const RSS_TYPE_IPV4_TCP: u64 = 1;
    /// RSS type: IPv4.
    pub const RSS_TYPE_IPV4: u64 = 2;
    /// RSS type: TCP over IPv6.
    pub const RSS_TYPE_IPV6_TCP: u64 = 3;
    /// RSS type: IPv6.
    pub const RSS_TYPE_IPV6: u64 = 5;
    /// RSS type: UDP over IPv4.
    pub const RSS_TYPE_IPV4_UDP: u64 = 7;
    /// RSS type: UDP over IPv6.
    pub const RSS_TYPE_IPV6_UDP: u64 = 8;
    /// Packet type, bits 16:4.
    pub const PACKET_TYPE_SHIFT: u32 = 4;
    /// Packet type: IPv4.
    pub const PACKET_IPV4: u64 = 1 << 4;
    /// Packet type: IPv4 with options.
    pub const PACKET_IPV4E: u64 = 1 << 5;
    /// Packet type: IPv6.
    pub const PACKET_IPV6: u64 = 1 << 6;
    /// Packet type: IPv6 with extensions.
    pub const PACKET_IPV6E: u64 = 1 << 7;
    /// Packet type: TCP.
    pub const PACKET_TCP: u64 = 1 << 8;
    /// Packet type: UDP.
    pub const PACKET_UDP: u64 = 1 << 9;
    /// Packet type: SCTP.
    pub const PACKET_SCTP: u64 = 1 << 10;
    /// Packet type: an EtherType filter matched; bits 6:4 of it name the filter.
    pub const PACKET_ETQF: u64 = 1 << 15;
    /// RSS hash, or fragment checksum.
    pub const HASH_SHIFT: u32 = 32;
}

/// Receive write-back, advanced, second word (7.1.6.2): status, errors, length.
pub mod rx_high {
    /// Descriptor done (DD): the device has written this descriptor back.
    pub const DD: u64 = 1 << 0;
    /// End of packet.
    pub const EOP: u64 = 1 << 1;
    /// Flow Director matched.
    pub const FLM: u64 = 1 << 2;
    /// The frame carried a VLAN tag, which was stripped if so configured.
    pub const VP: u64 = 1 << 3;
    /// The UDP checksum is valid.
    pub const UDPCS: u64 = 1 << 4;
    /// The transport checksum was checked.
    pub const L4I: u64 = 1 << 5;
    /// The IPv4 header checksum was checked.
    pub const IPCS: u64 = 1 << 6;
    /// Passed an inexact filter.
    pub const PIF: u64 = 1 << 7;
    /// A UDP packet with a checksum.
    pub const UDPV: u64 = 1 << 10;
    /// A timestamp stands behind the frame and counts in the length (X550 datasheet 7.1.5.2.2);
    /// the bit is the last descriptor's.
    pub const TSIP: u64 = 1 << 15;
    /// Errors: frame reception (CRC, length) as the MAC saw it.
    pub const RXE: u64 = 1 << 29;
    /// Errors: transport checksum.
    pub const L4E: u64 = 1 << 30;
    /// Errors: IPv4 header checksum.
    pub const IPE: u64 = 1 << 31;
    /// Bytes in the buffer.
    pub const LENGTH_SHIFT: u32 = 32;
    /// The tag that was stripped, 16 bits: priority, drop eligibility and VLAN.
    pub const VLAN_SHIFT: u32 = 48;
}

/// Bytes of the timestamp behind a frame (X550 datasheet 333369-009, 7.1.6.2): nanoseconds
/// and seconds of SYSTIML and SYSTIMH, as one little-endian number.
///
/// CONTRADICTION: the datasheet has the seconds first and in network order. Linux's driver,
/// which runs on the chip, reads this number.
pub const TIMESTAMP_LEN: usize = 8;

/// Receive write-back, legacy, second word (7.1.5).
pub mod rx_legacy {
    /// Bytes in the buffer, bits 15:0.
    pub const LENGTH_MASK: u64 = 0xFFFF;
    /// Checksum over the bytes of the buffer (fragment checksum), 16 bits.
    pub const CHECKSUM_SHIFT: u32 = 16;
    /// Descriptor done (DD): the device has written this descriptor back.
    pub const DD: u64 = 1 << 32;
    /// End of packet.
    pub const EOP: u64 = 1 << 33;
    /// VLAN tag stripped.
    pub const VP: u64 = 1 << 35;
    /// UDP checksum checked.
    pub const UDPCS: u64 = 1 << 36;
    /// Transport checksum checked.
    pub const L4CS: u64 = 1 << 37;
    /// IPv4 checksum checked.
    pub const IPCS: u64 = 1 << 38;
    /// Passed an inexact filter.
    pub const PIF: u64 = 1 << 39;
    /// Errors: the MAC received the frame with an error (RXE).
    pub const RXE: u64 = 1 << 40;
    /// Errors: transport checksum.
    pub const TCPE: u64 = 1 << 46;
    /// Errors: IPv4 checksum.
    pub const IPE: u64 = 1 << 47;
    /// The tag that was stripped, 16 bits: priority, drop eligibility and VLAN.
    pub const VLAN_SHIFT: u32 = 48;
}

/// Transmit data, advanced, second word (7.2.3.2.4).
pub mod tx {
    /// Bytes in the buffer, bits 15:0.
    pub const LENGTH_MASK: u64 = 0xFFFF;
    /// Timestamp the packet (MAC field).
    pub const MAC_1588: u64 = 1 << 19;
    /// Type of the descriptor (DTYP), four bits.
    pub const DTYP_MASK: u64 = 0xF << 20;
    /// Descriptor type: context.
    pub const DTYP_CONTEXT: u64 = 2 << 20;
    /// Descriptor type: data.
    pub const DTYP_DATA: u64 = 3 << 20;
    /// End of packet.
    pub const EOP: u64 = 1 << 24;
    /// Insert the frame's CRC.
    pub const IFCS: u64 = 1 << 25;
    /// Report status (RS): the device sets [`DD`] when it is done with the descriptor.
    pub const RS: u64 = 1 << 27;
    /// Advanced descriptor; zero is legacy.
    pub const DEXT: u64 = 1 << 29;
    /// Insert the VLAN tag of the context.
    pub const VLE: u64 = 1 << 30;
    /// Cut into segments.
    pub const TSE: u64 = 1 << 31;
    /// Descriptor done, in the write-back.
    pub const DD: u64 = 1 << 32;
    /// Which of its queue's contexts the packet uses (IDX).
    pub const IDX_SHIFT: u32 = 36;
    /// The context must be looked at (CC).
    pub const CC: u64 = 1 << 39;
    /// Insert the IPv4 header checksum (POPTS).
    pub const IXSM: u64 = 1 << 40;
    /// Insert the transport checksum (POPTS).
    pub const TXSM: u64 = 1 << 41;
    /// Bytes of the packet; with segmentation, behind the headers.
    pub const PAYLEN_SHIFT: u32 = 46;
    /// Mask of PAYLEN after shifting.
    pub const PAYLEN_MASK: u64 = (1 << 18) - 1;
}

/// Transmit context, first word (7.2.3.2.3).
pub mod tx_context_low {
    /// Bytes of the network header, bits 8:0.
    pub const IPLEN_MASK: u64 = 0x1FF;
    /// Bytes before the network header.
    pub const MACLEN_SHIFT: u32 = 9;
    /// Mask of MACLEN after shifting.
    pub const MACLEN_MASK: u64 = 0x7F;
    /// The VLAN tag to insert, 16 bits.
    pub const VLAN_SHIFT: u32 = 16;
}

/// Transmit context, second word (7.2.3.2.3).
pub mod tx_context_high {
    /// The network header is IPv4 (TUCMD).
    pub const IPV4: u64 = 1 << 10;
    /// Transport, two bits: UDP (TUCMD.L4T).
    pub const L4T_UDP: u64 = 0 << 11;
    /// Transport, two bits: TCP (TUCMD.L4T).
    pub const L4T_TCP: u64 = 1 << 11;
    /// Transport, two bits: SCTP (TUCMD.L4T).
    pub const L4T_SCTP: u64 = 2 << 11;
    /// Mask of the transport bits.
    pub const L4T_MASK: u64 = 3 << 11;
    /// Which of its queue's contexts this descriptor sets (IDX).
    pub const IDX_SHIFT: u32 = 36;
    /// Bytes of the transport header.
    pub const L4LEN_SHIFT: u32 = 40;
    /// Payload bytes of each segment.
    pub const MSS_SHIFT: u32 = 48;
}

/// Transmit, legacy, second word (7.2.3.2.2).
pub mod tx_legacy {
    /// Bytes in the buffer, bits 15:0.
    pub const LENGTH_MASK: u64 = 0xFFFF;
    /// Where the checksum goes (CSO): bytes from the start of the packet, eight bits.
    pub const CSO_SHIFT: u32 = 16;
    /// End of packet.
    pub const EOP: u64 = 1 << 24;
    /// Insert the frame's CRC.
    pub const IFCS: u64 = 1 << 25;
    /// Insert a checksum.
    pub const IC: u64 = 1 << 26;
    /// Report status (RS): the device sets [`DD`] when it is done with the descriptor.
    pub const RS: u64 = 1 << 27;
    /// Insert the VLAN tag.
    pub const VLE: u64 = 1 << 30;
    /// Descriptor done, in the write-back.
    pub const DD: u64 = 1 << 32;
    /// Where the checksum starts (CSS): bytes from the start of the packet, eight bits.
    pub const CSS_SHIFT: u32 = 40;
    /// The VLAN tag to insert, 16 bits.
    pub const VLAN_SHIFT: u32 = 48;
}
