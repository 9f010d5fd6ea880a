//! Semaphores between drivers and firmware: SWSM, SW_FW_SYNC, and FWSM, in
//! which firmware says what it is.
//!
//! 82599 datasheet rev. 3.4, sections 8.2.3.4 and 10.5.4. Firmware here never
//! takes anything by itself; a test makes it with [`Semaphore::seize`].

use regs::ixgbe::{FWSM, Id, SW_FW_SYNC, SWSM};

use super::lint::Rule;

/// FWSM.FW_Mode: pass-through firmware is running.
const FW_MODE_PASS_THROUGH: u32 = 2 << FWSM::MODE_SHIFT;
const SW_BITS: u32 = 0x0000_001F;
const FW_BITS: u32 = SW_BITS << FW_SHIFT;
const FW_SHIFT: u32 = 5;
const _: () = assert!(SW_FW_SYNC::FW_EEP_SM == SW_FW_SYNC::SW_EEP_SM << FW_SHIFT);
/// Bits above the ten of the 82599: X540's I2C semaphores and manageability.
const X540_BITS: u32 = 0x0000_3C00;

/// What SW_FW_SYNC guards: one software bit each, the firmware's bit five up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Resource {
    /// The EEPROM with its shadow.
    Eeprom = SW_FW_SYNC::SW_EEP_SM,
    /// The PHY (and the SFP+ module's I2C bus) of port 0.
    Phy0 = SW_FW_SYNC::SW_PHY0_SM,
    /// The PHY of port 1.
    Phy1 = SW_FW_SYNC::SW_PHY1_SM,
    /// Shared MAC registers, among them AUTOC.
    MacCsr = SW_FW_SYNC::SW_MAC_CSR_SM,
    /// The flash memory's interface.
    Flash = SW_FW_SYNC::SW_FLASH_SM,
}

/// The semaphore registers of one function.
#[derive(Debug, Clone)]
pub struct Semaphore {
    swsm: u32,
    sync: u32,
    fwsm: u32,
    register_semaphore: bool,
    violation: Option<Rule>,
}

impl Semaphore {
    /// Everything free. `x540` adds the register semaphore in SW_FW_SYNC.
    pub fn new(x540: bool) -> Semaphore {
        Semaphore {
            swsm: 0,
            sync: 0,
            fwsm: FWSM::VALID | FW_MODE_PASS_THROUGH,
            register_semaphore: x540,
            violation: None,
        }
    }

    /// Whether software holds a resource.
    pub fn software_holds(&self, resource: Resource) -> bool {
        self.sync & resource as u32 != 0
    }

    /// Whether software holds the right to change SW_FW_SYNC.
    pub fn software_may_sync(&self) -> bool {
        if self.register_semaphore {
            self.sync & SW_FW_SYNC::REGSMP != 0
        } else {
            self.swsm & SWSM::SWESMBI != 0
        }
    }

    /// Firmware takes a resource; `false` when software holds it.
    pub fn seize(&mut self, resource: Resource) -> bool {
        let free = !self.software_holds(resource);
        if free {
            self.sync |= (resource as u32) << FW_SHIFT;
        }
        free
    }

    /// Firmware gives a resource back.
    pub fn release(&mut self, resource: Resource) {
        self.sync &= !((resource as u32) << FW_SHIFT);
    }

    /// Firmware takes or leaves the semaphore SWESMBI competes with.
    pub fn set_firmware_semaphore(&mut self, held: bool) {
        self.fwsm &= !FWSM::FWSMBI;
        if held && self.swsm & SWSM::SWESMBI == 0 {
            self.fwsm |= FWSM::FWSMBI;
        }
    }

    /// A device reset: SWSM is released, SW_FW_SYNC is not (a driver that
    /// died with a lock leaves it to the next one).
    pub fn reset(&mut self) {
        self.swsm = 0;
    }

    /// The rule the last write broke, if any; asking takes it.
    pub fn violation(&mut self) -> Option<Rule> {
        self.violation.take()
    }

    /// Reads a register of this component; `None` when it does not own it.
    pub fn read(&mut self, id: Id) -> Option<u32> {
        Some(match id {
            SWSM::ID => {
                // The read is the test-and-set: whoever saw 0 has it.
                let seen = self.swsm;
                self.swsm |= SWSM::SMBI;
                seen
            }
            FWSM::ID => self.fwsm,
            SW_FW_SYNC::ID => {
                let seen = self.sync;
                if self.register_semaphore {
                    self.sync |= SW_FW_SYNC::REGSMP;
                }
                seen
            }
            _ => return None,
        })
    }

    /// Writes a register; `false` when the component does not own it.
    pub fn write(&mut self, id: Id, value: u32) -> bool {
        match id {
            SWSM::ID => self.write_swsm(value),
            // Read only: the dispatcher's table says so, nothing changes.
            FWSM::ID => {}
            SW_FW_SYNC::ID => self.write_sync(value),
            _ => return false,
        }
        true
    }

    fn write_swsm(&mut self, value: u32) {
        // SMBI can only be given back; SWESMBI is taken when firmware's is free.
        let mut next = self.swsm & value & SWSM::SMBI | value & SWSM::WMNG;
        if value & SWSM::SWESMBI != 0 && self.fwsm & FWSM::FWSMBI == 0 {
            next |= SWSM::SWESMBI;
        }
        self.swsm = next;
    }

    fn write_sync(&mut self, value: u32) {
        let mut own = SW_BITS;
        if self.register_semaphore {
            own |= X540_BITS;
        }
        if (value ^ self.sync) & (own | FW_BITS) != 0 && !self.software_may_sync() {
            self.violation = Some(Rule::SemaphoreNotHeld);
        }
        // Firmware's bits can be taken away (a driver's last resort), not set.
        let mut next = value & own | self.sync & value & FW_BITS;
        if self.register_semaphore {
            next |= self.sync & value & SW_FW_SYNC::REGSMP;
        }
        self.sync = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_swsm_is_a_test_and_set() {
        let mut locks = Semaphore::new(false);
        assert_eq!(locks.read(SWSM::ID), Some(0));
        assert_eq!(locks.read(SWSM::ID), Some(SWSM::SMBI));
        locks.write(SWSM::ID, 0);
        assert_eq!(locks.read(SWSM::ID), Some(0));
    }

    #[test]
    fn swesmbi_waits_for_firmware() {
        let mut locks = Semaphore::new(false);
        locks.set_firmware_semaphore(true);
        locks.write(SWSM::ID, SWSM::SWESMBI);
        assert_eq!(locks.read(SWSM::ID).expect("owned") & SWSM::SWESMBI, 0);
        locks.set_firmware_semaphore(false);
        locks.write(SWSM::ID, SWSM::SWESMBI);
        assert_ne!(locks.read(SWSM::ID).expect("owned") & SWSM::SWESMBI, 0);
        locks.set_firmware_semaphore(true);
        assert_eq!(locks.read(FWSM::ID).expect("owned") & FWSM::FWSMBI, 0);
    }

    #[test]
    fn taking_a_resource_the_drivers_way() {
        let mut locks = Semaphore::new(false);
        locks.read(SWSM::ID);
        locks.write(SWSM::ID, SWSM::SMBI | SWSM::SWESMBI);
        let sync = locks.read(SW_FW_SYNC::ID).expect("owned");
        locks.write(SW_FW_SYNC::ID, sync | Resource::Eeprom as u32);
        locks.write(SWSM::ID, 0);
        assert!(locks.software_holds(Resource::Eeprom));
        assert!(!locks.seize(Resource::Eeprom));
        assert!(locks.seize(Resource::Phy0));
        assert_eq!(locks.violation(), None);
        assert_ne!(locks.read(SW_FW_SYNC::ID).expect("owned") & 1 << 6, 0);
    }

    #[test]
    fn changing_sync_without_the_semaphore_is_reported() {
        let mut locks = Semaphore::new(false);
        locks.write(SW_FW_SYNC::ID, 1);
        assert_eq!(locks.violation(), Some(Rule::SemaphoreNotHeld));
    }

    #[test]
    fn software_cannot_set_firmwares_bits() {
        let mut locks = Semaphore::new(false);
        locks.write(SW_FW_SYNC::ID, FW_BITS);
        assert_eq!(locks.read(SW_FW_SYNC::ID), Some(0));
        locks.seize(Resource::Flash);
        locks.write(SW_FW_SYNC::ID, 0);
        assert_eq!(locks.read(SW_FW_SYNC::ID), Some(0));
    }

    #[test]
    fn a_reset_keeps_resources_and_frees_swsm() {
        let mut locks = Semaphore::new(false);
        locks.write(SWSM::ID, SWSM::SWESMBI);
        locks.write(SW_FW_SYNC::ID, 8);
        locks.reset();
        assert!(locks.software_holds(Resource::MacCsr));
        assert_eq!(locks.read(SWSM::ID), Some(0));
    }

    #[test]
    fn x540_reads_its_register_semaphore_from_sync() {
        let mut locks = Semaphore::new(true);
        assert_eq!(locks.read(SW_FW_SYNC::ID), Some(0));
        assert_eq!(locks.read(SW_FW_SYNC::ID), Some(SW_FW_SYNC::REGSMP));
        locks.write(SW_FW_SYNC::ID, 1);
        assert_eq!(locks.violation(), None);
        assert_eq!(locks.read(SW_FW_SYNC::ID), Some(1));
    }
}
