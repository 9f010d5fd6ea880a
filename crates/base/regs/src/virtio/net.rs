//! The network device (5.1): queues, configuration, and the header in front of
//! each packet.

/// Queue `2 * n` receives (5.1.2).
pub const fn rx_queue(pair: u16) -> u16 {
    2 * pair
}

/// Queue `2 * n + 1` transmits (5.1.2).
pub const fn tx_queue(pair: u16) -> u16 {
    2 * pair + 1
}

/// The control queue is behind all pairs that the device *has*, whether in use
/// or not; without MQ and RSS that is one (5.1.2).
pub const fn control_queue(pairs: u16) -> u16 {
    2 * pairs
}

/// The most queue pairs (5.1.4.1).
pub const MAX_PAIRS: u16 = 0x8000;

/// Device configuration (5.1.4); each field is there if its feature is.
pub mod config {
    crate::virtio::field::fields! {
        MAC[6] "mac" @ 0, 1, RO, "MAC address";
        STATUS "status" @ 6, 2, RO, "Status";
        MAX_VIRTQUEUE_PAIRS "max_virtqueue_pairs" @ 8, 2, RO, "Queue pairs the device has";
        MTU "mtu" @ 10, 2, RO, "MTU: the frame without its Ethernet header";
        SPEED "speed" @ 12, 4, RO, "Speed in Mbit/s, all ones if unknown";
        DUPLEX "duplex" @ 16, 1, RO, "Duplex: 1 is full, 0xFF unknown";
        RSS_MAX_KEY_SIZE "rss_max_key_size" @ 17, 1, RO, "Longest RSS key in bytes";
        RSS_MAX_INDIRECTION_TABLE_LENGTH "rss_max_indirection_table_length" @ 18, 2, RO, "Longest RSS table in entries";
        SUPPORTED_HASH_TYPES "supported_hash_types" @ 20, 4, RO, "Hash types the device can compute";
    }

    /// Length of the configuration.
    pub const BYTES: u32 = 24;

    /// Status: the link is up.
    pub const LINK_UP: u16 = 1;
    /// Status: the driver shall announce itself.
    pub const ANNOUNCE: u16 = 2;
    /// Speed: not known.
    pub const SPEED_UNKNOWN: u32 = u32::MAX;
}

/// The header in front of each packet (5.1.6: `virtio_net_hdr`).
pub mod header {
    /// Flags, 8 bits.
    pub const FLAGS: usize = 0;
    /// Segmentation, 8 bits.
    pub const GSO_TYPE: usize = 1;
    /// Bytes of all headers, 16 bits; a hint unless agreed otherwise.
    pub const HDR_LEN: usize = 2;
    /// Payload bytes of each segment, 16 bits.
    pub const GSO_SIZE: usize = 4;
    /// Where the checksum begins, from the packet's start, 16 bits.
    pub const CSUM_START: usize = 6;
    /// Where it is put, from `csum_start`, 16 bits.
    pub const CSUM_OFFSET: usize = 8;
    /// Buffers of a received packet, 16 bits; not in the legacy header without
    /// MRG_RXBUF.
    pub const NUM_BUFFERS: usize = 10;
    /// The hash, 32 bits, with HASH_REPORT.
    pub const HASH_VALUE: usize = 12;
    /// Its type, 16 bits, with HASH_REPORT.
    pub const HASH_REPORT: usize = 16;
    /// Length in the legacy interface without MRG_RXBUF (5.1.6.1).
    pub const BYTES_LEGACY: usize = 10;
    /// Length with MRG_RXBUF or VERSION_1.
    pub const BYTES: usize = 12;
    /// Length with HASH_REPORT.
    pub const BYTES_HASH: usize = 20;

    /// Flag: the checksum from `csum_start` on is still to be filled in.
    pub const NEEDS_CSUM: u8 = 1;
    /// Flag: the device verified the checksum.
    pub const DATA_VALID: u8 = 2;
    /// Flag: the checksum fields hold receive-segment-coalescing counts.
    pub const RSC_INFO: u8 = 4;
    /// The packet is not to be segmented.
    pub const GSO_NONE: u8 = 0;
    /// TCP over IPv4.
    pub const GSO_TCPV4: u8 = 1;
    /// UDP over IP, to be cut into fragments (UFO).
    pub const GSO_UDP: u8 = 3;
    /// TCP over IPv6.
    pub const GSO_TCPV6: u8 = 4;
    /// UDP over IP, to be cut into datagrams (USO).
    pub const GSO_UDP_L4: u8 = 5;
    /// Bit: with ECN.
    pub const GSO_ECN: u8 = 0x80;
}

/// Hash types that can be asked for (5.1.6.4.3.1).
pub mod hash {
    /// A hash over the two addresses of IPv4.
    pub const IPV4: u32 = 1 << 0;
    /// TCP over IPv4.
    pub const TCPV4: u32 = 1 << 1;
    /// UDP over IPv4.
    pub const UDPV4: u32 = 1 << 2;
    /// A hash over the two addresses of IPv6.
    pub const IPV6: u32 = 1 << 3;
    /// TCP over IPv6.
    pub const TCPV6: u32 = 1 << 4;
    /// UDP over IPv6.
    pub const UDPV6: u32 = 1 << 5;
    /// IPv6 with extension headers.
    pub const IP_EX: u32 = 1 << 6;
    /// TCP over IPv6 with extension headers.
    pub const TCP_EX: u32 = 1 << 7;
    /// UDP over IPv6 with extension headers.
    pub const UDP_EX: u32 = 1 << 8;

    /// Reported: no hash (5.1.6.4.3.3).
    pub const REPORT_NONE: u16 = 0;
    /// Reported: the addresses of IPv4 alone.
    pub const REPORT_IPV4: u16 = 1;
    /// Reported: TCP over IPv4.
    pub const REPORT_TCPV4: u16 = 2;
    /// Reported: UDP over IPv4.
    pub const REPORT_UDPV4: u16 = 3;
    /// Reported: the addresses of IPv6 alone.
    pub const REPORT_IPV6: u16 = 4;
    /// Reported: TCP over IPv6.
    pub const REPORT_TCPV6: u16 = 5;
    /// Reported: UDP over IPv6.
    pub const REPORT_UDPV6: u16 = 6;
    /// Reported: IPv6 with extension headers.
    pub const REPORT_IPV6_EX: u16 = 7;
    /// Reported: TCP over IPv6 with extension headers.
    pub const REPORT_TCPV6_EX: u16 = 8;
    /// Reported: UDP over IPv6 with extension headers.
    pub const REPORT_UDPV6_EX: u16 = 9;
}
