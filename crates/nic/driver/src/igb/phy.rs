//! The copper PHY inside (datasheet 4.5.7, 8.2.4): the link starts when it has
//! negotiated. Firmware uses the PHY too, so that a semaphore comes first (4.7).

use regs::igb::*;

use super::device::Chip;
use crate::{Error, Result};

impl Chip {
    /// Lets the PHY tell the MAC its speed, and starts negotiation.
    pub(super) fn start_phy(&self) -> Result<()> {
        let bar = &self.bar;
        let ctrl = bar.read32(CTRL::AT) & !(CTRL::FRCSPD | CTRL::FRCDPLX);
        bar.write32(CTRL::AT, ctrl | CTRL::SLU);
        self.with_phy(|device| {
            let control = device.read_phy(phy::PCTRL)? & !phy::PCTRL_POWER_DOWN;
            device.write_phy(phy::PCTRL, control | phy::PCTRL_AUTO_NEGOTIATION | phy::PCTRL_RESTART)
        })
    }

    fn read_phy(&self, register: u32) -> Result<u16> {
        Ok((self.mdic(MDIC::OP_READ, register)? & MDIC::DATA_MASK) as u16)
    }

    fn write_phy(&self, register: u32, value: u16) -> Result<()> {
        self.mdic(MDIC::OP_WRITE | u32::from(value), register).map(drop)
    }

    /// One access to the PHY; what MDIC then holds.
    fn mdic(&self, operation: u32, register: u32) -> Result<u32> {
        let place = register << MDIC::REGADD_SHIFT | phy::ADDRESS << MDIC::PHYADD_SHIFT;
        self.bar.write32(MDIC::AT, operation | place);
        let meaning = "the PHY does not answer; a power cycle may help";
        // Ready, and not in error.
        self.wait(100, "MDIC", MDIC::AT, MDIC::R | MDIC::E, MDIC::R, meaning)?;
        Ok(self.bar.read32(MDIC::AT))
    }

    /// Does `work` while firmware and the other port's driver keep off this PHY.
    fn with_phy(&self, work: impl FnOnce(&Chip) -> Result<()>) -> Result<()> {
        let second = self.bar.read32(STATUS::AT) & STATUS::LAN_ID_MASK != 0;
        let phy = if second { SW_FW_SYNC::SW_PHY1 } else { SW_FW_SYNC::SW_PHY0 };
        self.with_semaphore(|device| {
            let meaning = "firmware does not let go of the PHY";
            let (at, theirs) = (SW_FW_SYNC::AT, phy << SW_FW_SYNC::FW_SHIFT);
            let free = device.wait(1000, "SW_FW_SYNC", at, phy | theirs, 0, meaning);
            if let Err(error @ Error::Timeout { last, .. }) = free {
                if last & theirs != 0 {
                    return Err(error);
                }
                // A driver that died has left its bit, and nobody else would clear it.
                tracing::warn!("{error}; taken from a driver that is gone");
            }
            device.bar.set32(at, phy);
            Ok(())
        })?;
        let outcome = work(self);
        self.with_semaphore(|device| {
            device.bar.clear32(SW_FW_SYNC::AT, phy);
            Ok(())
        })?;
        outcome
    }

    /// Does `work` while nobody else changes SW_FW_SYNC (4.7.1): first against other
    /// software, where reading a zero takes the bit, then against firmware.
    fn with_semaphore(&self, work: impl FnOnce(&Chip) -> Result<()>) -> Result<()> {
        let bar = &self.bar;
        let (bits, at) = (SWSM::SMBI | SWSM::SWESMBI, SWSM::AT);
        let software = self.wait(100, "SWSM", at, SWSM::SMBI, 0, "another driver holds the semaphore");
        if let Err(error) = software {
            tracing::warn!("{error}; taken from a driver that is gone");
        }
        bar.set32(at, SWSM::SWESMBI);
        let meaning = "firmware does not let go of the semaphore";
        let firmware = self.wait(100, "SWSM", at, SWSM::SWESMBI, SWSM::SWESMBI, meaning);
        let outcome = firmware.and_then(|()| work(self));
        bar.clear32(at, bits);
        outcome
    }
}
