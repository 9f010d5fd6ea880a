//! Feature bits as masks of a 64-bit word (2.2, 5.1.3, 6). The legacy
//! interface has the lower 32 only.

/// The device interrupts when the available ring runs empty, even if interrupts
/// are suppressed; legacy (6.3).
pub const NOTIFY_ON_EMPTY: u64 = 1 << 24;
/// Descriptors may be laid out in any way; legacy (6.3). Implied by
/// [`VERSION_1`].
pub const ANY_LAYOUT: u64 = 1 << 27;
/// A descriptor may refer to a table of descriptors (6, 2.7.5.3, 2.8.7).
pub const INDIRECT_DESC: u64 = 1 << 28;
/// Notifications are suppressed by an index (6, 2.7.7, 2.7.10, 2.8.10).
pub const EVENT_IDX: u64 = 1 << 29;
/// The device follows version 1 of the specification (6).
pub const VERSION_1: u64 = 1 << 32;
/// The device's memory accesses are translated and limited by the platform, as
/// by an IOMMU (6).
pub const ACCESS_PLATFORM: u64 = 1 << 33;
/// Packed virtqueues (6, 2.8).
pub const RING_PACKED: u64 = 1 << 34;
/// The device uses buffers in the order in which they were made available (6).
pub const IN_ORDER: u64 = 1 << 35;
/// Memory accesses are ordered as the platform orders them; a hardware device
/// needs real barriers (6).
pub const ORDER_PLATFORM: u64 = 1 << 36;
/// Single root I/O virtualization (6).
pub const SR_IOV: u64 = 1 << 37;
/// A notification carries the ring's position (6, 2.9).
pub const NOTIFICATION_DATA: u64 = 1 << 38;
/// A notification carries data that the device gave (6, 2.9).
pub const NOTIF_CONFIG_DATA: u64 = 1 << 39;
/// A single queue can be reset (6, 2.6.1).
pub const RING_RESET: u64 = 1 << 40;
/// The device has administration virtqueues (6, 2.13).
pub const ADMIN_VQ: u64 = 1 << 41;
/// First bit that is not a device type's own, below which 0 to 23 are (2.2).
pub const TRANSPORT_START: u32 = 24;
/// First bit above the transports' range (2.2).
pub const TRANSPORT_END: u32 = 42;

/// vhost-user only: the back end speaks protocol features; never offered to a
/// guest (vhost-user, "Communication").
pub const VHOST_USER_PROTOCOL_FEATURES: u64 = 1 << 30;

/// A network device's own features (5.1.3).
pub mod net {
    /// The device fills in a checksum on request.
    pub const CSUM: u64 = 1 << 0;
    /// The driver takes packets with a partial checksum.
    pub const GUEST_CSUM: u64 = 1 << 1;
    /// Receive offloads can be changed through the control queue.
    pub const CTRL_GUEST_OFFLOADS: u64 = 1 << 2;
    /// The device says which MTU is right.
    pub const MTU: u64 = 1 << 3;
    /// The device has a MAC address.
    pub const MAC: u64 = 1 << 5;
    /// The device handles packets of any segmentation type; legacy (5.1.3.1).
    pub const GSO: u64 = 1 << 6;
    /// The driver takes TCP over IPv4 larger than the MTU.
    pub const GUEST_TSO4: u64 = 1 << 7;
    /// The driver takes TCP over IPv6 larger than the MTU.
    pub const GUEST_TSO6: u64 = 1 << 8;
    /// The driver takes large TCP packets with ECN.
    pub const GUEST_ECN: u64 = 1 << 9;
    /// The driver takes large UDP datagrams.
    pub const GUEST_UFO: u64 = 1 << 10;
    /// The device cuts TCP over IPv4.
    pub const HOST_TSO4: u64 = 1 << 11;
    /// The device cuts TCP over IPv6.
    pub const HOST_TSO6: u64 = 1 << 12;
    /// The device cuts TCP with ECN.
    pub const HOST_ECN: u64 = 1 << 13;
    /// The device fragments UDP.
    pub const HOST_UFO: u64 = 1 << 14;
    /// The driver takes a packet in several buffers.
    pub const MRG_RXBUF: u64 = 1 << 15;
    /// The configuration has a status field.
    pub const STATUS: u64 = 1 << 16;
    /// There is a control queue.
    pub const CTRL_VQ: u64 = 1 << 17;
    /// The control queue sets receive modes.
    pub const CTRL_RX: u64 = 1 << 18;
    /// The control queue sets the VLAN filter.
    pub const CTRL_VLAN: u64 = 1 << 19;
    /// The control queue sets further receive modes.
    pub const CTRL_RX_EXTRA: u64 = 1 << 20;
    /// The driver can send gratuitous packets when the device asks for them.
    pub const GUEST_ANNOUNCE: u64 = 1 << 21;
    /// Several queue pairs, spread by the device (automatic receive steering).
    pub const MQ: u64 = 1 << 22;
    /// The control queue sets the MAC address.
    pub const CTRL_MAC_ADDR: u64 = 1 << 23;
    /// The device hands out statistics.
    pub const DEVICE_STATS: u64 = 1 << 50;
    /// Notifications of one queue can be coalesced.
    pub const VQ_NOTF_COAL: u64 = 1 << 52;
    /// Notifications can be coalesced.
    pub const NOTF_COAL: u64 = 1 << 53;
    /// The driver takes UDP over IPv4 to be cut.
    pub const GUEST_USO4: u64 = 1 << 54;
    /// The driver takes UDP over IPv6 to be cut.
    pub const GUEST_USO6: u64 = 1 << 55;
    /// The device cuts UDP.
    pub const HOST_USO: u64 = 1 << 56;
    /// The device reports a hash with each packet.
    pub const HASH_REPORT: u64 = 1 << 57;
    /// The driver says how long headers are.
    pub const GUEST_HDRLEN: u64 = 1 << 59;
    /// Receive-side scaling with a Toeplitz hash.
    pub const RSS: u64 = 1 << 60;
    /// The device merges received segments and tells how many.
    pub const RSC_EXT: u64 = 1 << 61;
    /// The device stands by for another of the same address.
    pub const STANDBY: u64 = 1 << 62;
    /// The configuration has speed and duplex.
    pub const SPEED_DUPLEX: u64 = 1 << 63;
}
