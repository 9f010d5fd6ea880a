//! Which frames are received (datasheet 7.1.1): own addresses, multicast,
//! promiscuous modes, VLANs. The filters may change only while receive is off
//! (8.2.3.7.1), so each change halts the receiver for a moment.

use regs::ixgbe::{FCTRL, MCSTCTRL, MTA, RAH, RAL, VFTA, VLNCTRL};

use super::Ixgbe;
use crate::intel::address::{address_words, multicast_hash};
use crate::{Error, Result};

impl Ixgbe {
    /// Receives broadcast frames, as is the default, or not.
    pub fn set_broadcast(&mut self, on: bool) -> Result<()> {
        self.chip.with_rx_halted(|bar| match on {
            true => bar.set32(FCTRL::AT, FCTRL::BAM),
            false => bar.clear32(FCTRL::AT, FCTRL::BAM),
        })
    }

    /// Receives frames to one more unicast address.
    ///
    /// # Errors
    /// [`Error::TableFull`] after 127.
    pub fn add_unicast(&mut self, mac: [u8; 6]) -> Result<()> {
        let bar = self.chip.bar.clone();
        let free = (1..RAL::COUNT).find(|&n| bar.read32(RAH::at(n)) & RAH::AV == 0);
        let n = free.ok_or_else(|| Error::TableFull {
            device: self.chip.name.clone(),
            table: "receive addresses (RAL, RAH)",
            capacity: RAL::COUNT - 1,
        })?;
        self.chip.with_rx_halted(|bar| {
            let [low, high] = address_words(mac);
            bar.write32(RAL::at(n), low);
            bar.write32(RAH::at(n), high | RAH::AV);
        })
    }

    /// No longer receives frames to an address added before; whether it was.
    pub fn remove_unicast(&mut self, mac: [u8; 6]) -> Result<bool> {
        let [low, high] = address_words(mac);
        let bar = self.chip.bar.clone();
        let is_it = |&n: &usize| bar.read32(RAL::at(n)) == low && bar.read32(RAH::at(n)) == high | RAH::AV;
        let Some(n) = (1..RAL::COUNT).find(is_it) else { return Ok(false) };
        self.chip.with_rx_halted(|bar| bar.write32(RAH::at(n), 0))?;
        Ok(true)
    }

    /// Receives frames to a multicast address, and others that share its hash
    /// (8.2.3.7.7: 4,096 bits over the address's highest 12).
    pub fn add_multicast(&mut self, mac: [u8; 6]) -> Result<()> {
        self.chip.with_rx_halted(|bar| {
            let (register, bit) = multicast_hash(mac);
            bar.set32(MTA::at(register), 1 << bit);
            bar.write32(MCSTCTRL::AT, MCSTCTRL::MFE);
        })
    }

    /// Receives no frames by multicast hash any more.
    pub fn clear_multicast(&mut self) -> Result<()> {
        self.chip.with_rx_halted(|bar| {
            bar.write32(MCSTCTRL::AT, 0);
            (0..MTA::COUNT).for_each(|n| bar.write32(MTA::at(n), 0));
        })
    }

    /// Turns the VLAN filter on or off: on, only tagged frames of the VLANs of
    /// [`Self::set_vlan`] are received, and untagged ones.
    pub fn set_vlan_filter(&mut self, on: bool) -> Result<()> {
        self.chip.with_rx_halted(|bar| match on {
            true => bar.set32(VLNCTRL::AT, VLNCTRL::VFE),
            false => bar.clear32(VLNCTRL::AT, VLNCTRL::VFE),
        })
    }

    /// Lets a VLAN through the filter, or not.
    pub fn set_vlan(&mut self, vlan: u16, on: bool) -> Result<()> {
        let (register, bit) = (usize::from(vlan >> 5) & 127, 1 << (vlan & 31));
        self.chip.with_rx_halted(|bar| match on {
            true => bar.set32(VFTA::at(register), bit),
            false => bar.clear32(VFTA::at(register), bit),
        })
    }
}
