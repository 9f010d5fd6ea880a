//! PCI ids of the family.

/// Intel's PCI vendor id.
pub const VENDOR_INTEL: u16 = 0x8086;

/// A generation of the chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// 82599 and X520.
    I82599,
    /// X540: 10GBASE-T with the PHY inside.
    X540,
    /// X550, and the X553 in systems on a chip.
    X550,
    /// X552 in systems on a chip. The clock of some is a third faster than that of an X550, which
    /// counts in nanoseconds.
    X552,
}

/// A member of the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// PCI device id.
    pub id: u16,
    /// The generation of the chip that it has.
    pub family: Family,
    /// What it is sold as.
    pub name: &'static str,
}

macro_rules! devices {
    ($($id:literal $family:ident $name:literal)*) => {
        /// Every physical function of the family.
        pub const DEVICES: &[Device] = &[$(Device { id: $id, family: Family::$family, name: $name }),*];
    };
}

devices! {
    0x10F7 I82599 "82599 KX4"
    0x1514 I82599 "82599 KX4 mezzanine"
    0x1517 I82599 "82599 KR"
    0x10F8 I82599 "82599 combined backplane"
    0x000C I82599 "82599 combined backplane, second subsystem"
    0x10F9 I82599 "82599 CX4"
    0x10FB I82599 "82599 SFP+ (X520)"
    0x1529 I82599 "82599 SFP+ with FCoE"
    0x152A I82599 "82599 backplane with FCoE"
    0x154D I82599 "82599 SFP+ SF2"
    0x154A I82599 "82599 SFP+, four ports"
    0x1558 I82599 "82599 QSFP+, four ports"
    0x1557 I82599 "82599EN SFP+"
    0x10FC I82599 "82599 XAUI with LOM"
    0x151C I82599 "82599 10GBASE-T"
    0x1507 I82599 "82599 SFP+ with EM"
    0x154F I82599 "82599 LS"
    0x1528 X540 "X540 10GBASE-T"
    0x1560 X540 "X540 10GBASE-T, one port"
    0x1563 X550 "X550 10GBASE-T"
    0x15D1 X550 "X550 10GBASE-T, one port"
    0x15AA X552 "X552 KX4"
    0x15AB X552 "X552 KR"
    0x15AC X552 "X552 SFP+"
    0x15AD X552 "X552 10GBASE-T"
    0x15AE X552 "X552 1GBASE-T"
    0x15C2 X550 "X553 KR"
    0x15C3 X550 "X553 KR, low power"
    0x15C4 X550 "X553 SFP+"
    0x15C6 X550 "X553 SGMII"
    0x15C7 X550 "X553 SGMII, low power"
    0x15C8 X550 "X553 10GBASE-T"
    0x15CE X550 "X553 SFP+, no I2C"
    0x15E4 X550 "X553 1GBASE-T"
    0x15E5 X550 "X553 1GBASE-T, low power"
}

impl Device {
    /// Whether it can put the time at which it came behind each frame, by a clock that counts
    /// seconds and nanoseconds (X550 datasheet 7.1.6.2). The others keep the time of one packet
    /// in a register until it is read, and of PTP's packets alone.
    pub fn stamps_each_frame(&self) -> bool {
        self.family == Family::X550
    }
}

/// The member with a PCI device id.
pub fn device(id: u16) -> Option<&'static Device> {
    DEVICES.iter().find(|d| d.id == id)
}
