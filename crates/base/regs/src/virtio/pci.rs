//! virtio over PCI (4.1): capabilities and the structures they point at, and
//! the legacy interface's registers (4.1.4.10 and its neighbours).

/// PCI capability id of all virtio capabilities: vendor-specific (4.1.4).
pub const CAPABILITY_VENDOR: u8 = 0x09;

/// A virtio capability's fields (4.1.4: `virtio_pci_cap`).
pub mod capability {
    /// Capability id, 8 bits.
    pub const VNDR: u16 = 0;
    /// Offset of the next capability, 8 bits.
    pub const NEXT: u16 = 1;
    /// Length of this capability, 8 bits.
    pub const LEN: u16 = 2;
    /// Which structure it points at, 8 bits.
    pub const CFG_TYPE: u16 = 3;
    /// In which BAR, 8 bits; values above 5 are reserved.
    pub const BAR: u16 = 4;
    /// Tells capabilities of one type apart, 8 bits.
    pub const ID: u16 = 5;
    /// Where in the BAR, 32 bits.
    pub const OFFSET: u16 = 8;
    /// How long, 32 bits.
    pub const LENGTH: u16 = 12;
    /// Notification capability only: multiplier of `queue_notify_off`, 32 bits
    /// (4.1.4.4).
    pub const NOTIFY_OFF_MULTIPLIER: u16 = 16;
    /// Configuration access capability only: the data window, 32 bits (4.1.4.9).
    pub const PCI_CFG_DATA: u16 = 16;
    /// Length of a plain capability.
    pub const BYTES: u8 = 16;
    /// Length of the notification and the configuration access capability.
    pub const BYTES_LONG: u8 = 20;

    /// Type: common configuration (4.1.4.3).
    pub const TYPE_COMMON: u8 = 1;
    /// Type: notifications (4.1.4.4).
    pub const TYPE_NOTIFY: u8 = 2;
    /// Type: interrupt status (4.1.4.5).
    pub const TYPE_ISR: u8 = 3;
    /// Type: device configuration (4.1.4.6).
    pub const TYPE_DEVICE: u8 = 4;
    /// Type: access to BARs through configuration space (4.1.4.9).
    pub const TYPE_PCI: u8 = 5;
    /// Type: shared memory (4.1.4.7).
    pub const TYPE_SHARED_MEMORY: u8 = 8;
    /// Type: vendor data (4.1.4.8).
    pub const TYPE_VENDOR: u8 = 9;
}

/// The common configuration structure (4.1.4.3). An access has the field's width; a 64-bit field
/// takes two of 32.
pub mod common {
    crate::virtio::field::fields! {
        DEVICE_FEATURE_SELECT "device_feature_select" @ 0x00, 4, RW, "Which half of the device's features [`DEVICE_FEATURE`] shows";
        DEVICE_FEATURE "device_feature" @ 0x04, 4, RO, "Features the device offers";
        DRIVER_FEATURE_SELECT "driver_feature_select" @ 0x08, 4, RW, "Which half of the driver's features [`DRIVER_FEATURE`] shows";
        DRIVER_FEATURE "driver_feature" @ 0x0C, 4, RW, "Features the driver takes";
        CONFIG_MSIX_VECTOR "config_msix_vector" @ 0x10, 2, RW, "MSI-X vector of configuration changes";
        NUM_QUEUES "num_queues" @ 0x12, 2, RO, "How many queues there are";
        DEVICE_STATUS "device_status" @ 0x14, 1, RW, "Device status";
        CONFIG_GENERATION "config_generation" @ 0x15, 1, RO, "Changes whenever the configuration did";
        QUEUE_SELECT "queue_select" @ 0x16, 2, RW, "Which queue the fields below are of";
        QUEUE_SIZE "queue_size" @ 0x18, 2, RW, "Entries of the queue, zero where there is none";
        QUEUE_MSIX_VECTOR "queue_msix_vector" @ 0x1A, 2, RW, "MSI-X vector of the queue";
        QUEUE_ENABLE "queue_enable" @ 0x1C, 2, RW, "One starts the queue";
        QUEUE_NOTIFY_OFF "queue_notify_off" @ 0x1E, 2, RO, "Where to notify, in units of the multiplier";
        QUEUE_DESC[2] "queue_desc" @ 0x20, 4, RW, "Address of the descriptor area";
        QUEUE_DRIVER[2] "queue_driver" @ 0x28, 4, RW, "Address of the driver area";
        QUEUE_DEVICE[2] "queue_device" @ 0x30, 4, RW, "Address of the device area";
        QUEUE_NOTIF_CONFIG_DATA "queue_notif_config_data" @ 0x38, 2, RO, "What to write as notification, with NOTIF_CONFIG_DATA";
        QUEUE_RESET "queue_reset" @ 0x3A, 2, RW, "One resets the queue, with RING_RESET";
        ADMIN_QUEUE_INDEX "admin_queue_index" @ 0x3C, 2, RO, "First administration queue, with ADMIN_VQ";
        ADMIN_QUEUE_NUM "admin_queue_num" @ 0x3E, 2, RO, "How many administration queues, with ADMIN_VQ";
    }

    /// Bytes up to and with QUEUE_DEVICE: what every device has.
    pub const BYTES: u32 = QUEUE_NOTIF_CONFIG_DATA;
    /// Bytes with all fields.
    pub const BYTES_ALL: u32 = 0x40;
}

/// Interrupt status (4.1.4.5), cleared when read; for INTx.
pub mod isr {
    /// A queue has used buffers.
    pub const QUEUE: u8 = 1;
    /// The configuration changed.
    pub const CONFIG: u8 = 2;
}

/// In a vector field: no vector (4.1.5.1.2).
pub const NO_VECTOR: u16 = 0xFFFF;

/// The legacy interface: the I/O ports of BAR 0 (4.1.4.10).
pub mod legacy {
    /// Features the device offers; 32, RO.
    pub const DEVICE_FEATURES: u32 = 0;
    /// Features the driver takes; 32, RW.
    pub const DRIVER_FEATURES: u32 = 4;
    /// Page number of the selected queue's ring; 32, RW.
    pub const QUEUE_ADDRESS: u32 = 8;
    /// Entries of the selected queue, fixed; zero: there is none; 16, RO.
    pub const QUEUE_SIZE: u32 = 12;
    /// Which queue; 16, RW.
    pub const QUEUE_SELECT: u32 = 14;
    /// Write a queue's number to notify; 16, RW.
    pub const QUEUE_NOTIFY: u32 = 16;
    /// Device status; 8, RW.
    pub const DEVICE_STATUS: u32 = 18;
    /// Interrupt status, cleared when read; 8, RO.
    pub const ISR_STATUS: u32 = 19;
    /// MSI-X vector of configuration changes, while MSI-X is enabled; 16, RW.
    pub const CONFIG_MSIX_VECTOR: u32 = 20;
    /// MSI-X vector of the selected queue, while MSI-X is enabled; 16, RW.
    pub const QUEUE_MSIX_VECTOR: u32 = 22;
    /// The device's configuration while MSI-X is disabled.
    pub const CONFIG: u32 = 20;
    /// The device's configuration while MSI-X is enabled.
    pub const CONFIG_MSIX: u32 = 24;
    /// Unit of [`QUEUE_ADDRESS`], and alignment of the used ring (2.7.2).
    pub const PAGE: usize = 4096;
}
