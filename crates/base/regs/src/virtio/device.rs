//! What a device is, and its status (2.1, 4.1.2.1).

/// PCI vendor of all virtio devices (4.1.2.1).
pub const VENDOR: u16 = 0x1AF4;
/// PCI device id of a network device that knows the legacy interface:
/// legacy-only or transitional (4.1.2.1).
pub const NET_TRANSITIONAL: u16 = 0x1000;
/// PCI device id of a modern network device: 0x1040 and the device type.
pub const NET_MODERN: u16 = 0x1041;
/// First PCI device id of modern devices; the device type is added.
pub const MODERN_BASE: u16 = 0x1040;
/// Device type (5): network card. Also the subsystem id of a transitional one.
pub const TYPE_NET: u16 = 1;
/// PCI class code of a network device: Ethernet controller.
pub const CLASS_ETHERNET: u32 = 0x02_00_00;

/// Whether a PCI device id is a virtio network device's.
pub const fn is_net(device: u16) -> bool {
    device == NET_TRANSITIONAL || device == NET_MODERN
}

/// The device status field (2.1). Writing zero resets the device.
pub mod status {
    /// The guest has seen the device.
    pub const ACKNOWLEDGE: u8 = 1;
    /// The guest knows how to drive it.
    pub const DRIVER: u8 = 2;
    /// The driver is ready.
    pub const DRIVER_OK: u8 = 4;
    /// Features are agreed upon; not in the legacy interface.
    pub const FEATURES_OK: u8 = 8;
    /// The device met an error it cannot recover from.
    pub const NEEDS_RESET: u8 = 64;
    /// The driver gave up on the device.
    pub const FAILED: u8 = 128;
}
