//! Semaphores between drivers and firmware: SWSM, SW_FW_SYNC, and FWSM, in
//! which firmware says what it is.
//!
//! 82599 datasheet rev. 3.4, sections 8.2.3.4 and 10.5.4. Firmware here never
//! takes anything by itself; a test makes it with [`Semaphore::seize`].

use super::lint::Rule;

const SWSM: u32 = 0x1_0140;
const FWSM: u32 = 0x1_0148;
const SW_FW_SYNC: u32 = 0x1_0160;

const SMBI: u32 = 1 << 0;
const SWESMBI: u32 = 1 << 1;
const WMNG: u32 = 1 << 2;
const EEP_FW_SEMAPHORE: u32 = 1 << 0;
/// FWSM.FW_Mode: pass-through firmware is running.
const FW_MODE_PASS_THROUGH: u32 = 1 << 2;
const FW_VALID: u32 = 1 << 15;
const SW_BITS: u32 = 0x0000_001F;
const FW_BITS: u32 = SW_BITS << FW_SHIFT;
const FW_SHIFT: u32 = 5;
/// Bits above the ten of the 82599: X540's I2C semaphores and manageability.
const X540_BITS: u32 = 0x0000_3C00;
const REGSMP: u32 = 1 << 31;

/// What SW_FW_SYNC guards: one software bit each, the firmware's bit five up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Resource {
    /// The EEPROM.
    Eeprom = 1 << 0,
    /// The PHY (and the SFP+ module's I2C bus) of port 0.
    Phy0 = 1 << 1,
    /// The PHY of port 1.
    Phy1 = 1 << 2,
    /// Shared MAC registers, among them AUTOC.
    MacCsr = 1 << 3,
    /// The flash.
    Flash = 1 << 4,
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
            fwsm: FW_VALID | FW_MODE_PASS_THROUGH,
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
        if self.register_semaphore { self.sync & REGSMP != 0 } else { self.swsm & SWESMBI != 0 }
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
        self.fwsm &= !EEP_FW_SEMAPHORE;
        if held && self.swsm & SWESMBI == 0 {
            self.fwsm |= EEP_FW_SEMAPHORE;
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

    /// Reads a register of this component; `None` when it owns none there.
    pub fn read(&mut self, offset: u32) -> Option<u32> {
        Some(match offset {
            SWSM => {
                // The read is the test-and-set: whoever saw 0 has it.
                let seen = self.swsm;
                self.swsm |= SMBI;
                seen
            }
            FWSM => self.fwsm,
            SW_FW_SYNC => {
                let seen = self.sync;
                if self.register_semaphore {
                    self.sync |= REGSMP;
                }
                seen
            }
            _ => return None,
        })
    }

    /// Writes a register; `false` when the component owns none at `offset`.
    pub fn write(&mut self, offset: u32, value: u32) -> bool {
        match offset {
            SWSM => self.write_swsm(value),
            // Read only: the dispatcher's table says so, nothing changes.
            FWSM => {}
            SW_FW_SYNC => self.write_sync(value),
            _ => return false,
        }
        true
    }

    fn write_swsm(&mut self, value: u32) {
        // SMBI can only be given back; SWESMBI is taken when firmware's is free.
        let mut next = self.swsm & value & SMBI | value & WMNG;
        if value & SWESMBI != 0 && self.fwsm & EEP_FW_SEMAPHORE == 0 {
            next |= SWESMBI;
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
            next |= self.sync & value & REGSMP;
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
        assert_eq!(locks.read(SWSM), Some(0));
        assert_eq!(locks.read(SWSM), Some(SMBI));
        locks.write(SWSM, 0);
        assert_eq!(locks.read(SWSM), Some(0));
    }

    #[test]
    fn swesmbi_waits_for_firmware() {
        let mut locks = Semaphore::new(false);
        locks.set_firmware_semaphore(true);
        locks.write(SWSM, SWESMBI);
        assert_eq!(locks.read(SWSM).expect("owned") & SWESMBI, 0);
        locks.set_firmware_semaphore(false);
        locks.write(SWSM, SWESMBI);
        assert_ne!(locks.read(SWSM).expect("owned") & SWESMBI, 0);
        locks.set_firmware_semaphore(true);
        assert_eq!(locks.read(FWSM).expect("owned") & EEP_FW_SEMAPHORE, 0);
    }

    #[test]
    fn taking_a_resource_the_drivers_way() {
        let mut locks = Semaphore::new(false);
        locks.read(SWSM);
        locks.write(SWSM, SMBI | SWESMBI);
        let sync = locks.read(SW_FW_SYNC).expect("owned");
        locks.write(SW_FW_SYNC, sync | Resource::Eeprom as u32);
        locks.write(SWSM, 0);
        assert!(locks.software_holds(Resource::Eeprom));
        assert!(!locks.seize(Resource::Eeprom));
        assert!(locks.seize(Resource::Phy0));
        assert_eq!(locks.violation(), None);
        assert_ne!(locks.read(SW_FW_SYNC).expect("owned") & 1 << 6, 0);
    }

    #[test]
    fn changing_sync_without_the_semaphore_is_reported() {
        let mut locks = Semaphore::new(false);
        locks.write(SW_FW_SYNC, 1);
        assert_eq!(locks.violation(), Some(Rule::SemaphoreNotHeld));
    }

    #[test]
    fn software_cannot_set_firmwares_bits() {
        let mut locks = Semaphore::new(false);
        locks.write(SW_FW_SYNC, FW_BITS);
        assert_eq!(locks.read(SW_FW_SYNC), Some(0));
        locks.seize(Resource::Flash);
        locks.write(SW_FW_SYNC, 0);
        assert_eq!(locks.read(SW_FW_SYNC), Some(0));
    }

    #[test]
    fn a_reset_keeps_resources_and_frees_swsm() {
        let mut locks = Semaphore::new(false);
        locks.write(SWSM, SWESMBI);
        locks.write(SW_FW_SYNC, 8);
        locks.reset();
        assert!(locks.software_holds(Resource::MacCsr));
        assert_eq!(locks.read(SWSM), Some(0));
    }

    #[test]
    fn x540_reads_its_register_semaphore_from_sync() {
        let mut locks = Semaphore::new(true);
        assert_eq!(locks.read(SW_FW_SYNC), Some(0));
        assert_eq!(locks.read(SW_FW_SYNC), Some(REGSMP));
        locks.write(SW_FW_SYNC, 1);
        assert_eq!(locks.violation(), None);
        assert_eq!(locks.read(SW_FW_SYNC), Some(1));
    }
}
