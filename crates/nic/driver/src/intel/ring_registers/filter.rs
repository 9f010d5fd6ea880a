//! Filter tables in registers (82599 datasheet 7.1.1, 82576 datasheet 7.1.1): exact
//! addresses in RAL and RAH, multicast by hash in MTA, VLANs in VFTA.

use super::RingRegisters;
use super::address::{address_words, multicast_hash};
use crate::intel::FilterTables;
use crate::{Error, Result};

/// The bit of RAH that makes an entry valid, the same in every chip here.
const VALID: u32 = regs::ixgbe::RAH::AV;

/// Which entry has an address, beside the port's own.
fn unicast_entry<C: RingRegisters>(chip: &C, mac: [u8; 6]) -> Option<usize> {
    let (bar, info) = (&chip.bar, C::REGISTERS);
    let [low, high] = address_words(mac);
    let is_it = |&n: &usize| bar.read32(info.ral.at(n)) == low && bar.read32(info.rah.at(n)) == high | VALID;
    (1..=chip.info.addresses).find(is_it)
}

impl<C: RingRegisters> FilterTables for C {
    fn add_unicast(&self, mac: [u8; 6]) -> Result<()> {
        let (bar, info, capacity) = (&self.bar, C::REGISTERS, self.info.addresses);
        if unicast_entry(self, mac).is_some() {
            return Ok(());
        }
        let free = (1..=capacity).find(|&n| bar.read32(info.rah.at(n)) & VALID == 0);
        let table = "receive addresses (RAL, RAH)";
        let full = || Error::TableFull { device: self.name.clone(), table, capacity };
        let n = free.ok_or_else(full)?;
        self.change_filters(|bar| {
            let [low, high] = address_words(mac);
            bar.write32(info.ral.at(n), low);
            bar.write32(info.rah.at(n), high | VALID);
        })
    }

    fn remove_unicast(&self, mac: [u8; 6]) -> Result<bool> {
        let Some(n) = unicast_entry(self, mac) else { return Ok(false) };
        self.change_filters(|bar| bar.write32(C::REGISTERS.rah.at(n), 0))?;
        Ok(true)
    }

    /// 82599 datasheet 8.2.3.7.7, 82576 with RCTL.MO = 0: 4,096 bits over the address's
    /// highest 12.
    fn set_multicast(&self, addresses: &[[u8; 6]]) -> Result<()> {
        let mta = &C::REGISTERS.mta;
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
        let (register, bit) = (C::REGISTERS.vfta.at(usize::from(vlan >> 5) & 127), 1 << (vlan & 31));
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
