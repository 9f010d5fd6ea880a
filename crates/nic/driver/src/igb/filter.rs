//! Which frames are received (datasheet 7.1.1): own addresses, multicast,
//! promiscuous modes, VLANs.

use regs::igb::{MTA, RAH, RAL, RCTL, VFTA};

use super::Igb;
use crate::intel::address::{address_words, multicast_hash};
use crate::{Error, Result};

impl Igb {
    /// Receives broadcast frames, as is the default, or not.
    pub fn set_broadcast(&mut self, on: bool) -> Result<()> {
        self.chip.set_rctl(RCTL::BAM, if on { RCTL::BAM } else { 0 })
    }

    /// Receives frames to one more unicast address.
    ///
    /// # Errors
    /// [`Error::TableFull`] after 23.
    pub fn add_unicast(&mut self, mac: [u8; 6]) -> Result<()> {
        let bar = &self.chip.bar;
        let free = (1..RAH::COUNT).find(|&n| bar.read32(RAH::at(n)) & RAH::AV == 0);
        let n = free.ok_or_else(|| Error::TableFull {
            device: self.chip.name.clone(),
            table: "receive addresses (RAL, RAH)",
            capacity: RAH::COUNT - 1,
        })?;
        let [low, high] = address_words(mac);
        bar.write32(RAL::at(n), low);
        bar.write32(RAH::at(n), high | RAH::AV);
        self.chip.health()
    }

    /// No longer receives frames to an address added before; whether it was.
    pub fn remove_unicast(&mut self, mac: [u8; 6]) -> Result<bool> {
        let [low, high] = address_words(mac);
        let bar = &self.chip.bar;
        let is_it = |&n: &usize| bar.read32(RAL::at(n)) == low && bar.read32(RAH::at(n)) == high | RAH::AV;
        let Some(n) = (1..RAH::COUNT).find(is_it) else { return Ok(false) };
        bar.write32(RAH::at(n), 0);
        self.chip.health().map(|()| true)
    }

    /// Receives frames to a multicast address, and others that share its hash
    /// (RCTL.MO = 0: 4,096 bits over the address's highest 12).
    pub fn add_multicast(&mut self, mac: [u8; 6]) -> Result<()> {
        let (register, bit) = multicast_hash(mac);
        self.chip.bar.set32(MTA::at(register), 1 << bit);
        self.chip.health()
    }

    /// Receives no frames by multicast hash any more.
    pub fn clear_multicast(&mut self) -> Result<()> {
        (0..MTA::COUNT).for_each(|n| self.chip.bar.write32(MTA::at(n), 0));
        self.chip.health()
    }

    /// Turns the VLAN filter on or off: on, only tagged frames of the VLANs of
    /// [`Self::set_vlan`] are received, and untagged ones.
    pub fn set_vlan_filter(&mut self, on: bool) -> Result<()> {
        self.chip.set_rctl(RCTL::VFE, if on { RCTL::VFE } else { 0 })
    }

    /// Lets a VLAN through the filter, or not.
    pub fn set_vlan(&mut self, vlan: u16, on: bool) -> Result<()> {
        let (register, bit) = (VFTA::at(usize::from(vlan >> 5) & 127), 1 << (vlan & 31));
        match on {
            true => self.chip.bar.set32(register, bit),
            false => self.chip.bar.clear32(register, bit),
        }
        self.chip.health()
    }
}
