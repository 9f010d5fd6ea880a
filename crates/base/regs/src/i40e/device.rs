//! PCI ids of the family's physical functions.

/// A generation of the chip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Family {
    /// X710, XL710 and XXV710.
    #[default]
    Xl710,
    /// X722, in the chipsets of C620.
    X722,
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
    0x1583 Xl710 "XL710 QSFP+ A"
    0x1584 Xl710 "XL710 QSFP+ B"
    0x1585 Xl710 "X710 QSFP+ C"
    0x1572 Xl710 "X710 SFP+"
    0x1580 Xl710 "XL710 backplane B"
    0x1581 Xl710 "XL710 backplane C"
    0x1586 Xl710 "X710 10GBASE-T"
    0x1587 Xl710 "XL710 20GBASE-KR2"
    0x1588 Xl710 "XL710 20GBASE-KR2 A"
    0x1589 Xl710 "X710 10GBASE-T, four ports"
    0x158A Xl710 "XXV710 backplane"
    0x158B Xl710 "XXV710 SFP28"
    0x104E Xl710 "X710 SFP+, OCP"
    0x104F Xl710 "X710 backplane"
    0x15FF Xl710 "X710-TL 10GBASE-T"
    0x101F Xl710 "X710-TL 5GBASE-T"
    0x0DD2 Xl710 "X710-TL 1GBASE-T"
    0x0CF8 Xl710 "X710 N3000"
    0x0D58 Xl710 "XXV710 N3000"
    0x37CE X722 "X722 backplane"
    0x37CF X722 "X722 QSFP+"
    0x37D0 X722 "X722 SFP+"
    0x37D1 X722 "X722 1GBASE-T"
    0x37D2 X722 "X722 10GBASE-T"
    0x37D3 X722 "X722 SFP+ I"
    0x0DDA X722 "X722 SFP+ A"
}

/// The member with a PCI device id.
pub fn device(id: u16) -> Option<&'static Device> {
    DEVICES.iter().find(|d| d.id == id)
}
