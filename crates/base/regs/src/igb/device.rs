//! PCI ids of the 82576's ports with copper.

/// A member of the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// PCI device id.
    pub id: u16,
    /// What it is sold as.
    pub name: &'static str,
}

/// Every physical function with the copper PHY inside; those with fibre or a
/// backplane bring their link up otherwise.
pub const DEVICES: &[Device] = &[
    Device { id: 0x10C9, name: "82576" },
    Device { id: 0x10E8, name: "82576, four ports" },
    Device { id: 0x1526, name: "82576, four ports, ET2" },
    Device { id: 0x150A, name: "82576NS" },
];

/// The member with a PCI device id.
pub fn device(id: u16) -> Option<&'static Device> {
    DEVICES.iter().find(|d| d.id == id)
}
