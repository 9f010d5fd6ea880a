//! Commands of the control queue (5.1.6.5): two bytes of class and command, data
//! in the same or further buffers, and one byte of answer that the device writes.

/// The answer that the device did the command.
pub const OK: u8 = 0;
/// The answer that the device refused the command.
pub const ERR: u8 = 1;

/// Receive modes (5.1.6.5.1); one byte of data, 0 or 1.
pub mod rx {
    /// The class of these commands: `VIRTIO_NET_CTRL_RX`.
    pub const CLASS: u8 = 0;
    /// Receive all frames (promiscuous).
    pub const PROMISC: u8 = 0;
    /// Receive all multicast.
    pub const ALLMULTI: u8 = 1;
    /// Receive all unicast.
    pub const ALLUNI: u8 = 2;
    /// Receive no multicast.
    pub const NOMULTI: u8 = 3;
    /// Receive no unicast.
    pub const NOUNI: u8 = 4;
    /// Receive no broadcast.
    pub const NOBCAST: u8 = 5;
}

/// MAC address filtering (5.1.6.5.2).
pub mod mac {
    /// The class of these commands: `VIRTIO_NET_CTRL_MAC`.
    pub const CLASS: u8 = 1;
    /// Two tables, unicast then multicast: a 32-bit count, then addresses.
    pub const TABLE_SET: u8 = 0;
    /// The device's own address, six bytes.
    pub const ADDR_SET: u8 = 1;
}

/// VLAN filtering (5.1.6.5.3); 16 bits of data.
pub mod vlan {
    /// The class of these commands: `VIRTIO_NET_CTRL_VLAN`.
    pub const CLASS: u8 = 2;
    /// Let a VLAN through.
    pub const ADD: u8 = 0;
    /// Let a VLAN through no longer.
    pub const DEL: u8 = 1;
}

/// Gratuitous packets (5.1.6.5.4).
pub mod announce {
    /// The class of these commands: `VIRTIO_NET_CTRL_ANNOUNCE`.
    pub const CLASS: u8 = 3;
    /// They were sent; no data.
    pub const ACK: u8 = 0;
}

/// Several queues (5.1.6.5.5 to 5.1.6.5.7).
pub mod mq {
    /// The class of these commands: `VIRTIO_NET_CTRL_MQ`.
    pub const CLASS: u8 = 4;
    /// Use so many pairs; 16 bits.
    pub const VQ_PAIRS_SET: u8 = 0;
    /// Set up receive-side scaling (RSS): hash types, indirection table and key.
    pub const RSS_CONFIG: u8 = 1;
    /// Set up which hashes the device reports with a packet.
    pub const HASH_CONFIG: u8 = 2;
    /// The fewest pairs.
    pub const PAIRS_MIN: u16 = 1;
    /// The most pairs.
    pub const PAIRS_MAX: u16 = 0x8000;
}

/// Receive offloads (5.1.6.5.8); 64 bits of feature mask.
pub mod guest_offloads {
    /// The class of these commands: `VIRTIO_NET_CTRL_GUEST_OFFLOADS`.
    pub const CLASS: u8 = 5;
    /// Use exactly these.
    pub const SET: u8 = 0;
}

/// Notification coalescing (5.1.6.5.9).
pub mod coalescing {
    /// The class of these commands: `VIRTIO_NET_CTRL_NOTF_COAL`.
    pub const CLASS: u8 = 6;
    /// Of all transmit queues.
    pub const TX_SET: u8 = 0;
    /// Of all receive queues.
    pub const RX_SET: u8 = 1;
    /// Of one queue.
    pub const VQ_SET: u8 = 2;
    /// Read those of one queue.
    pub const VQ_GET: u8 = 3;
}
