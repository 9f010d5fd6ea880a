//! Descriptors of the LAN engine: receive descriptors of two or four little-endian 64-bit
//! words, transmit descriptors of two (datasheet chapter 8). Names ending in `_SHIFT` are bit
//! positions, others masks.

/// Receive write-back, first word (chapter 8).
pub mod rx_low {
    /// The first tag that was stripped.
    pub const L2TAG1_SHIFT: u32 = 16;
    /// The RSS hash, 32 bits, valid where the second word has
    /// [`rx_high::FLTSTAT_RSS`](super::rx_high::FLTSTAT_RSS).
    pub const HASH_SHIFT: u32 = 32;
}

/// Receive write-back, second word (chapter 8).
pub mod rx_high {
    /// Descriptor done (DD): the device has written this descriptor back.
    pub const DD: u64 = 1 << 0;
    /// End of packet.
    pub const EOF: u64 = 1 << 1;
    /// A tag was stripped into the first word.
    pub const L2TAG1P: u64 = 1 << 2;
    /// Layers 3 and 4 were parsed and their checksums looked at.
    pub const L3L4P: u64 = 1 << 3;
    /// The CRC is in the buffer.
    pub const CRCP: u64 = 1 << 4;
    /// Which place has the time of the packet: two bits.
    pub const TSYNINDX_SHIFT: u32 = 5;
    /// Which place has the time of the packet: both bits.
    pub const TSYNINDX_MASK: u64 = 3 << 5;
    /// A place has the time of the packet.
    pub const TSYNVALID: u64 = 1 << 7;
    /// To one host, to several, to all: two bits.
    pub const UMBCAST_SHIFT: u32 = 9;
    /// A filter of Flow Director matched.
    pub const FLM: u64 = 1 << 11;
    /// What the hash's place holds: 3 is the hash.
    pub const FLTSTAT_SHIFT: u32 = 12;
    /// What the hash's place holds: both bits.
    pub const FLTSTAT_MASK: u64 = 3 << 12;
    /// What the hash's place holds: the filter's own number, in descriptors of 16 bytes.
    pub const FLTSTAT_FD_ID: u64 = 1 << 12;
    /// What the hash's place holds: the hash.
    pub const FLTSTAT_RSS: u64 = 3 << 12;
    /// IPv6 with extension headers.
    pub const IPV6EXADD: u64 = 1 << 15;
    /// Errors, all of them.
    pub const ERROR_MASK: u64 = 0xFF << 19;
    /// Errors: reception, as the MAC saw it.
    pub const RXE: u64 = 1 << 19;
    /// Errors: IPv4 header checksum.
    pub const IPE: u64 = 1 << 22;
    /// Errors: transport checksum.
    pub const L4E: u64 = 1 << 23;
    /// Errors: IPv4 header checksum of a tunnel's outer header.
    pub const EIPE: u64 = 1 << 24;
    /// Errors: longer than the queue's context allows.
    pub const OVERSIZE: u64 = 1 << 25;
    /// Packet type, one of [`super::ptype`].
    pub const PTYPE_SHIFT: u32 = 30;
    /// Packet type, eight bits.
    pub const PTYPE_MASK: u64 = 0xFF << 30;
    /// Bytes in the buffer.
    pub const LENGTH_SHIFT: u32 = 38;
    /// Bytes in the buffer, 14 bits.
    pub const LENGTH_MASK: u64 = 0x3FFF << 38;
    /// No frame was received: the descriptor is one of [`super::rx_program`]. The place is that
    /// of split headers, which are not used.
    pub const PROGRAM: u64 = 1 << 63;
}

/// Words behind [`rx_high`] in a write-back of 32 bytes (chapter 8).
pub mod rx_extended {
    /// Third word: what the upper half of the fourth holds, two bits.
    pub const FLEXBH_MASK: u64 = 3 << 4;
    /// Third word: the upper half of the fourth holds the filter's own number.
    pub const FLEXBH_FD_ID: u64 = 1 << 4;
    /// Fourth word: the filter's own number.
    pub const FD_ID_SHIFT: u32 = 32;
}

/// A receive descriptor that tells of a filter that was not added or removed: second word
/// (chapter 7). Queue 0 of the function gets it; the first word's upper half has the filter's
/// own number.
pub mod rx_program {
    /// What it tells of, three bits.
    pub const PROGID_MASK: u64 = 7 << 2;
    /// It tells of Flow Director.
    pub const PROGID_FD: u64 = 1 << 2;
    /// What went wrong, six bits.
    pub const ERROR_MASK: u64 = 0x3F << 19;
    /// There is no room for the filter.
    pub const FD_TABLE_FULL: u64 = 1 << 19;
    /// There is no such filter.
    pub const NO_FD_ENTRY: u64 = 1 << 20;
    /// The filter's own number, in the first word.
    pub const FD_ID_SHIFT: u32 = 32;
}

/// Packet types of frames without a tunnel (chapter 7); others are more.
pub mod ptype {
    /// A frame without a layer 3 that is known.
    pub const L2: u8 = 1;
    /// A message of PTP in a frame of its own.
    pub const TIMESYNC: u8 = 2;
    /// An ARP message.
    pub const ARP: u8 = 11;
    /// IPv4, a fragment.
    pub const IPV4_FRAGMENT: u8 = 22;
    /// IPv4, nothing known behind it.
    pub const IPV4: u8 = 23;
    /// IPv4 and UDP.
    pub const IPV4_UDP: u8 = 24;
    /// IPv4 and TCP.
    pub const IPV4_TCP: u8 = 26;
    /// IPv4 and SCTP.
    pub const IPV4_SCTP: u8 = 27;
    /// IPv4 and ICMP.
    pub const IPV4_ICMP: u8 = 28;
    /// IPv6, a fragment.
    pub const IPV6_FRAGMENT: u8 = 88;
    /// IPv6, nothing known behind it.
    pub const IPV6: u8 = 89;
    /// IPv6 and UDP.
    pub const IPV6_UDP: u8 = 90;
    /// IPv6 and TCP.
    pub const IPV6_TCP: u8 = 92;
    /// IPv6 and SCTP.
    pub const IPV6_SCTP: u8 = 93;
    /// IPv6 and ICMP.
    pub const IPV6_ICMP: u8 = 94;
}

/// Transmit descriptors, second word (chapter 8).
pub mod tx {
    /// Type of the descriptor (DTYPE), four bits.
    pub const DTYPE_MASK: u64 = 0xF;
    /// Descriptor type: data.
    pub const DTYPE_DATA: u64 = 0;
    /// Descriptor type: context.
    pub const DTYPE_CONTEXT: u64 = 1;
    /// Descriptor type: programs a filter of Flow Director.
    pub const DTYPE_FILTER: u64 = 8;
    /// Descriptor type: the device is done with it.
    pub const DTYPE_DONE: u64 = 0xF;
    /// End of packet.
    pub const EOP: u64 = 1 << 4;
    /// Report status (RS): the device writes the descriptor back when it is done.
    pub const RS: u64 = 1 << 5;
    /// Insert the frame's CRC.
    pub const ICRC: u64 = 1 << 6;
    /// Insert the tag.
    pub const IL2TAG1: u64 = 1 << 7;
    /// The packet is not sent: it has the fields of a filter.
    pub const DUMMY: u64 = 1 << 8;
    /// What is behind the MAC header: two bits.
    pub const IIPT_MASK: u64 = 3 << 9;
    /// What is behind the MAC header: IPv6.
    pub const IIPT_IPV6: u64 = 1 << 9;
    /// What is behind the MAC header: IPv4, whose checksum is left alone.
    pub const IIPT_IPV4: u64 = 2 << 9;
    /// What is behind the MAC header: IPv4, whose checksum is filled in.
    pub const IIPT_IPV4_CSUM: u64 = 3 << 9;
    /// Whose checksum is filled in: two bits.
    pub const L4T_MASK: u64 = 3 << 12;
    /// Whose checksum is filled in: TCP's.
    pub const L4T_TCP: u64 = 1 << 12;
    /// Whose checksum is filled in: SCTP's.
    pub const L4T_SCTP: u64 = 2 << 12;
    /// Whose checksum is filled in: UDP's.
    pub const L4T_UDP: u64 = 3 << 12;
    /// Bytes of the MAC header, in two bytes.
    pub const MACLEN_SHIFT: u32 = 16;
    /// Bytes of the MAC header, seven bits.
    pub const MACLEN_MASK: u64 = 0x7F << 16;
    /// Bytes of the network header, in four bytes.
    pub const IPLEN_SHIFT: u32 = 23;
    /// Bytes of the network header, seven bits.
    pub const IPLEN_MASK: u64 = 0x7F << 23;
    /// Bytes of the transport header, in four bytes.
    pub const L4LEN_SHIFT: u32 = 30;
    /// Bytes of the transport header, four bits.
    pub const L4LEN_MASK: u64 = 0xF << 30;
    /// Bytes in the buffer.
    pub const SIZE_SHIFT: u32 = 34;
    /// Bytes in the buffer, 14 bits.
    pub const SIZE_MASK: u64 = 0x3FFF << 34;
    /// The tag to insert.
    pub const L2TAG1_SHIFT: u32 = 48;
}

/// Transmit context, second word (chapter 8).
pub mod tx_context {
    /// Cut the packet into segments.
    pub const TSO: u64 = 1 << 4;
    /// Bytes behind the headers.
    pub const TSO_LEN_SHIFT: u32 = 30;
    /// Bytes behind the headers, 18 bits.
    pub const TSO_LEN_MASK: u64 = 0x3_FFFF << 30;
    /// Bytes in each segment.
    pub const MSS_SHIFT: u32 = 50;
    /// Bytes in each segment, 14 bits.
    pub const MSS_MASK: u64 = 0x3FFF << 50;
    /// The fewest bytes in each segment, and the most (Linux's driver; DPDK's gives none of
    /// fewer than 256 bytes).
    pub const MSS: (u64, u64) = (64, 9674);
}

/// A descriptor that programs a filter of Flow Director with the fields of the packet behind it,
/// whose source and destination are those of the flow's answers (chapters 7 and 8).
pub mod filter {
    /// First word: the queue, counted from the first of the VSI.
    pub const QINDEX_MASK: u64 = 0x7FF;
    /// First word: the packet class.
    pub const PCTYPE_SHIFT: u32 = 17;
    /// First word: the packet class, six bits.
    pub const PCTYPE_MASK: u64 = 0x3F << 17;
    /// First word: the number of the VSI whose queue it is.
    pub const DEST_VSI_SHIFT: u32 = 23;
    /// First word: the VSI, nine bits.
    pub const DEST_VSI_MASK: u64 = 0x1FF << 23;
    /// Second word: what to do, three bits.
    pub const PCMD_MASK: u64 = 7 << 4;
    /// Second word: add the filter, or change it.
    pub const PCMD_ADD: u64 = 1 << 4;
    /// Second word: remove it.
    pub const PCMD_REMOVE: u64 = 2 << 4;
    /// Second word: where packets go, two bits.
    pub const DEST_MASK: u64 = 3 << 7;
    /// Second word: packets are dropped.
    pub const DEST_DROP: u64 = 0;
    /// Second word: packets go to the queue.
    pub const DEST_QUEUE: u64 = 1 << 7;
    /// Second word: packets go where they would without the filter.
    pub const DEST_OTHER: u64 = 2 << 7;
    /// Second word: packets are counted.
    pub const CNT_ENA: u64 = 1 << 11;
    /// Second word: what a received packet tells, two bits.
    pub const FD_STATUS_MASK: u64 = 3 << 13;
    /// Second word: a received packet tells the filter's own number.
    pub const FD_STATUS_FD_ID: u64 = 1 << 13;
    /// Second word: which of [`super::super::GLQF_PCNT`] counts.
    pub const CNTINDEX_SHIFT: u32 = 20;
    /// Second word: the counter, nine bits.
    pub const CNTINDEX_MASK: u64 = 0x1FF << 20;
    /// Second word: the filter's own number, 32 bits.
    pub const FD_ID_SHIFT: u32 = 32;
}

/// Bytes of a packet that programs a filter, as drivers give them.
pub const FILTER_PACKET: usize = 512;

/// The fewest bytes of a packet that is sent, without a CRC (chapter 8).
pub const SHORTEST_TX: usize = 17;

/// The most buffers of which a frame is put together, headers included (chapter 8).
pub const MOST_TX_BUFFERS: usize = 8;

/// The most buffers that a received frame is spread over (chapter 8).
pub const MOST_RX_BUFFERS: usize = 5;
