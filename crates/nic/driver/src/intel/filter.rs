//! Which frames a port receives (82599 datasheet 7.1.1, 82576 datasheet 7.1.1): the
//! filters of every port here, and the tables of those chips that have them in
//! registers: exact addresses in RAL and RAH, multicast by hash in MTA, VLANs in VFTA.

use std::ops::Deref;

use bus::Bar;
use port::Filters;

use super::address::{address_words, multicast_hash};
use super::chip::{Chip, Device};
use super::port::Port;
use crate::{Error, Result};

/// The filter tables of a chip.
pub trait FilterTables {
    /// Receives frames to one more unicast address.
    ///
    /// # Errors
    /// [`Error::TableFull`] when there is no room for it.
    fn add_unicast(&self, mac: [u8; 6]) -> Result<()>;
    /// Receives no frames any more to an address added before; whether it was.
    fn remove_unicast(&self, mac: [u8; 6]) -> Result<bool>;
    /// Receives frames to these multicast addresses, and to no others that the chip
    /// tells apart from them.
    fn set_multicast(&self, addresses: &[[u8; 6]]) -> Result<()>;
    /// Lets a VLAN through the filter, or not.
    fn set_vlan(&self, vlan: u16, on: bool) -> Result<()>;
    /// Turns the VLAN filter on or off: on, only tagged frames of chosen VLANs are
    /// received, and untagged ones.
    fn set_vlan_filter(&self, on: bool) -> Result<()>;
    /// Receives broadcast frames, as is the default, or not.
    fn set_broadcast(&self, on: bool) -> Result<()>;
}

/// What is a chip's own of tables that stand in registers.
pub trait FilterRegisters: Deref<Target = Device> {
    /// Changes the tables in the way in which the chip lets them be changed.
    fn change_filters(&self, change: impl FnOnce(&Bar)) -> Result<()>;
    /// Whether the multicast table is looked at; the tables are being changed.
    fn use_multicast(bar: &Bar, on: bool);
    /// Whether the VLAN table is looked at; the tables are being changed.
    fn use_vlans(bar: &Bar, on: bool);
    /// Whether broadcast frames are received; the tables are being changed.
    fn use_broadcast(bar: &Bar, on: bool);
}

/// The bit of RAH that makes an entry valid, the same in every chip here.
const VALID: u32 = regs::ixgbe::RAH::AV;

impl<C: FilterRegisters> FilterTables for C {
    fn add_unicast(&self, mac: [u8; 6]) -> Result<()> {
        let (bar, info) = (&self.bar, self.info);
        let free = (1..=info.addresses).find(|&n| bar.read32(info.rah.at(n)) & VALID == 0);
        let (table, capacity) = ("receive addresses (RAL, RAH)", info.addresses);
        let full = || Error::TableFull { device: self.name.clone(), table, capacity };
        let n = free.ok_or_else(full)?;
        self.change_filters(|bar| {
            let [low, high] = address_words(mac);
            bar.write32(info.ral.at(n), low);
            bar.write32(info.rah.at(n), high | VALID);
        })
    }

    fn remove_unicast(&self, mac: [u8; 6]) -> Result<bool> {
        let (bar, info) = (&self.bar, self.info);
        let [low, high] = address_words(mac);
        let is_it =
            |&n: &usize| bar.read32(info.ral.at(n)) == low && bar.read32(info.rah.at(n)) == high | VALID;
        let Some(n) = (1..=info.addresses).find(is_it) else { return Ok(false) };
        self.change_filters(|bar| bar.write32(info.rah.at(n), 0))?;
        Ok(true)
    }

    /// 82599 datasheet 8.2.3.7.7, 82576 with RCTL.MO = 0: 4,096 bits over the address's
    /// highest 12.
    fn set_multicast(&self, addresses: &[[u8; 6]]) -> Result<()> {
        let mta = &self.info.mta;
        let mut words = vec![0; mta.len()];
        for (register, bit) in addresses.iter().map(|mac| multicast_hash(*mac)) {
            words[register] |= 1 << bit;
        }
        self.change_filters(|bar| {
            words.iter().enumerate().for_each(|(n, word)| bar.write32(mta.at(n), *word));
            C::use_multicast(bar, !addresses.is_empty());
        })
    }

    fn set_vlan(&self, vlan: u16, on: bool) -> Result<()> {
        let (register, bit) = (self.info.vfta.at(usize::from(vlan >> 5) & 127), 1 << (vlan & 31));
        self.change_filters(|bar| match on {
            true => bar.set32(register, bit),
            false => bar.clear32(register, bit),
        })
    }

    fn set_vlan_filter(&self, on: bool) -> Result<()> {
        self.change_filters(|bar| C::use_vlans(bar, on))
    }

    fn set_broadcast(&self, on: bool) -> Result<()> {
        self.change_filters(|bar| C::use_broadcast(bar, on))
    }
}

impl<C: Chip> Filters for Port<C> {
    fn add_mac(&mut self, mac: [u8; 6]) -> port::Result<()> {
        if mac[0] & 1 == 0 {
            return Ok(self.chip.add_unicast(mac)?);
        }
        if !self.multicast.contains(&mac) {
            self.multicast.push(mac);
        }
        Ok(self.chip.set_multicast(&self.multicast)?)
    }

    fn remove_mac(&mut self, mac: [u8; 6]) -> port::Result<bool> {
        if mac[0] & 1 == 0 {
            return Ok(self.chip.remove_unicast(mac)?);
        }
        let before = self.multicast.len();
        self.multicast.retain(|other| *other != mac);
        self.chip.set_multicast(&self.multicast)?;
        Ok(self.multicast.len() < before)
    }

    fn set_vlan(&mut self, vlan: u16, on: bool) -> port::Result<()> {
        Ok(self.chip.set_vlan(vlan, on)?)
    }

    fn set_all_multicast(&mut self, on: bool) -> port::Result<()> {
        self.all_multicast = on;
        Ok(self.set_modes()?)
    }
}

impl<C: Chip> Port<C> {
    /// Turns the VLAN filter on or off: on, only tagged frames of the VLANs of
    /// [`Filters::set_vlan`] are received, and untagged ones.
    pub fn set_vlan_filter(&mut self, on: bool) -> Result<()> {
        self.chip.set_vlan_filter(on)
    }

    /// Receives broadcast frames, as is the default, or not.
    pub fn set_broadcast(&mut self, on: bool) -> Result<()> {
        self.chip.set_broadcast(on)
    }
}
