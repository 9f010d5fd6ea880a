//! The MDIO bus to an external PHY: MSCA (command) and MSRWD (data).
//!
//! 82599 datasheet rev. 3.4, sections 3.7 and 8.2.3.22; the frames are
//! IEEE 802.3 clause 22 and clause 45. A command completes at once. An SFP+
//! board has no PHY here: every read gives 0xFFFF, as a floating line does.

use std::collections::BTreeMap;

use regs::ixgbe::{Id, MSCA, MSRWD, SMADARCTL};

/// Registers a driver has written: bounded by the devices and addresses a PHY
/// decodes, and by this.
const MOST_WRITTEN: usize = 1024;

/// An external PHY: what it is called and where it sits on the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phy {
    /// Address on the bus, 0 to 31.
    pub address: u8,
    /// Registers 2 and 3 of every device: maker, model and revision.
    pub id: u32,
}

impl Phy {
    /// The 10GBASE-T PHY that is part of an X540.
    pub const X540: Phy = Phy { address: 0, id: 0x0154_0200 };
}

/// The bus with its two registers and at most one PHY.
#[derive(Debug, Clone)]
pub struct Mdio {
    phy: Option<Phy>,
    msca: u32,
    msrwd: u32,
    smadarctl: u32,
    /// The address cycle's latch of each clause 45 device.
    latched: [u16; 32],
    written: BTreeMap<(u8, u16), u16>,
    link: bool,
}

impl Mdio {
    /// A bus with `phy` on it.
    pub fn new(phy: Option<Phy>) -> Mdio {
        Mdio { phy, msca: 0, msrwd: 0, smadarctl: 0, latched: [0; 32], written: BTreeMap::new(), link: true }
    }

    /// What the PHY's status registers say about its line.
    pub fn set_link(&mut self, up: bool) {
        self.link = up;
    }

    /// Forgets everything written; the PHY stays.
    pub fn reset(&mut self) {
        let link = self.link;
        *self = Mdio::new(self.phy.take());
        self.link = link;
    }

    /// Reads a register of this component; `None` when it does not own it.
    pub fn read(&mut self, id: Id) -> Option<u32> {
        Some(match id {
            MSCA::ID => self.msca,
            MSRWD::ID => self.msrwd,
            SMADARCTL::ID => self.smadarctl,
            _ => return None,
        })
    }

    /// Writes a register; `false` when the component does not own it.
    pub fn write(&mut self, id: Id, value: u32) -> bool {
        match id {
            MSCA::ID => {
                self.msca = value & !(MSCA::MDI_COMMAND | MSCA::MDI_IN_PROGRESS);
                if value & MSCA::MDI_COMMAND != 0 {
                    self.run(value);
                }
                self.msca |= value & MSCA::MDI_IN_PROGRESS;
            }
            MSRWD::ID => self.msrwd = self.msrwd & 0xFFFF_0000 | value & 0xFFFF,
            SMADARCTL::ID => self.smadarctl = value,
            _ => return false,
        }
        true
    }

    fn run(&mut self, command: u32) {
        let register = command as u16;
        let device = (command >> 16 & 0x1F) as u8;
        let address = (command >> 21 & 0x1F) as u8;
        let operation = command >> 26 & 3;
        if command & MSCA::ST_CODE_MASK == MSCA::ST_CODE_OLD {
            // The device field carries the register; the PHY is one space.
            match operation {
                1 => self.store(address, 0, u16::from(device)),
                2 => self.load(address, 0, u16::from(device)),
                _ => {}
            }
            return;
        }
        let slot = usize::from(device);
        match operation {
            0 => self.latched[slot] = register,
            1 => self.store(address, device, self.latched[slot]),
            2 => {
                self.load(address, device, self.latched[slot]);
                self.latched[slot] = self.latched[slot].wrapping_add(1);
            }
            _ => self.load(address, device, self.latched[slot]),
        }
    }

    fn answers(&self, address: u8) -> bool {
        self.phy.as_ref().is_some_and(|phy| phy.address == address)
    }

    fn store(&mut self, address: u8, device: u8, register: u16) {
        let known = self.written.contains_key(&(device, register));
        if self.answers(address) && (known || self.written.len() < MOST_WRITTEN) {
            let value = self.msrwd as u16;
            self.written.insert((device, register), value);
        }
    }

    fn load(&mut self, address: u8, device: u8, register: u16) {
        let value = if self.answers(address) { self.value(device, register) } else { 0xFFFF };
        self.msrwd = self.msrwd & 0xFFFF | u32::from(value) << 16;
    }

    /// What the PHY says: identity and status are its own, the rest is what
    /// was written. Bit 15 (reset) and bit 9 (restart) of control clear
    /// themselves.
    fn value(&self, device: u8, register: u16) -> u16 {
        const LINK: u16 = 1 << 2;
        let id = self.phy.as_ref().map_or(u32::MAX, |phy| phy.id);
        let up = if self.link { LINK } else { 0 };
        let written = self.written.get(&(device, register)).copied();
        match (device, register) {
            (_, 0) => written.unwrap_or(0x2040) & !(1 << 15 | 1 << 9),
            (_, 1) => up | 1 << 5 | 1 << 3 | 1 << 1,
            (_, 2) => (id >> 16) as u16,
            (_, 3) => id as u16,
            // Speeds (10G, 1G, 100M) and devices in package (PMA, PCS, PHY XS, AN).
            (1, 4) => 0x0031,
            (_, 5) => 0x009A,
            (1, 11) => 0x01A4,
            (7, 32) => written.unwrap_or(0x1181),
            _ => written.unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(bus: &mut Mdio, operation: u32, address: u32, device: u32, register: u32) {
        bus.write(MSCA::ID, MSCA::MDI_COMMAND | operation << 26 | address << 21 | device << 16 | register);
        assert_eq!(bus.read(MSCA::ID).expect("owned") & MSCA::MDI_COMMAND, 0, "self-clearing");
    }

    fn read45(bus: &mut Mdio, address: u32, device: u32, register: u32) -> u32 {
        command(bus, 0, address, device, register);
        command(bus, 3, address, device, register);
        bus.read(MSRWD::ID).expect("owned") >> 16
    }

    #[test]
    fn without_a_phy_every_address_floats() {
        let mut bus = Mdio::new(None);
        for address in 0..32 {
            assert_eq!(read45(&mut bus, address, 1, 2), 0xFFFF);
        }
    }

    #[test]
    fn a_phy_is_found_at_its_address_only() {
        let mut bus = Mdio::new(Some(Phy::X540));
        assert_eq!(read45(&mut bus, 0, 1, 2), 0x0154);
        assert_eq!(read45(&mut bus, 0, 1, 3), 0x0200);
        assert_eq!(read45(&mut bus, 1, 1, 2), 0xFFFF);
        bus.set_link(false);
        assert_eq!(read45(&mut bus, 0, 7, 1) & 4, 0);
    }

    #[test]
    fn writes_stay_and_reset_bits_do_not() {
        let mut bus = Mdio::new(Some(Phy::X540));
        bus.write(MSRWD::ID, 0x8000 | 0x0200 | 0x40);
        command(&mut bus, 0, 0, 7, 0);
        command(&mut bus, 1, 0, 7, 0);
        assert_eq!(read45(&mut bus, 0, 7, 0), 0x40);
        assert_eq!(bus.read(MSRWD::ID).expect("owned") & 0xFFFF, 0x8240);
    }

    #[test]
    fn reading_with_increment_walks_and_clause_22_reads_too() {
        let mut bus = Mdio::new(Some(Phy::X540));
        command(&mut bus, 0, 0, 1, 2);
        command(&mut bus, 2, 0, 1, 0);
        assert_eq!(bus.read(MSRWD::ID).expect("owned") >> 16, 0x0154);
        command(&mut bus, 2, 0, 1, 0);
        assert_eq!(bus.read(MSRWD::ID).expect("owned") >> 16, 0x0200);
        bus.write(MSCA::ID, MSCA::MDI_COMMAND | MSCA::ST_CODE_OLD | 2 << 26 | 2 << 16);
        assert_eq!(bus.read(MSRWD::ID).expect("owned") >> 16, 0x0154);
    }

    #[test]
    fn a_driver_cannot_grow_the_memory() {
        let mut bus = Mdio::new(Some(Phy::X540));
        for register in 0..0x1_0000 {
            command(&mut bus, 0, 0, 30, register);
            command(&mut bus, 1, 0, 30, register);
        }
        assert!(bus.written.len() <= MOST_WRITTEN);
    }
}
