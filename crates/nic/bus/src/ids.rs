//! A PCI function's identity: the read-only ids of its header (PCI 3.0,
//! section 6.2.1).

use crate::{Pci, Result};

/// Who made the device and what it is (PCI 3.0, section 6.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// Vendor, 0x8086 is Intel.
    pub vendor: u16,
    /// Device, a number of the vendor's.
    pub device: u16,
    /// Revision of the device.
    pub revision: u8,
    /// Base class, subclass and programming interface; 0x020000 is Ethernet.
    pub class: u32,
    /// Vendor of the board.
    pub subsystem_vendor: u16,
    /// Device id the board's vendor gave.
    pub subsystem: u16,
}

impl Pci {
    /// Reads the identity.
    pub fn ids(&self) -> Result<Ids> {
        let mut header = [0; 0x30];
        self.read_config(0, &mut header)?;
        let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        Ok(Ids {
            vendor: word(0x00),
            device: word(0x02),
            revision: header[0x08],
            class: u32::from(word(0x0A)) << 8 | u32::from(header[0x09]),
            subsystem_vendor: word(0x2C),
            subsystem: word(0x2E),
        })
    }
}
