//! Which frames are received: addresses and VLANs, by messages.

use std::collections::BTreeSet;

use regs::virtchnl::message::{Addresses, Vlans};
use regs::virtchnl::op;

use super::VfFault;
use super::device::Chip;
use crate::Result;
use crate::intel::FilterTables;

/// Addresses and VLANs in a message: as many as a physical function must take in one.
const AT_ONCE: usize = 16;
/// The VLAN that stands for frames without a tag.
const UNTAGGED: u16 = 0;

/// What is wanted, and what was told.
#[derive(Debug, Default)]
pub(super) struct Filters {
    by_vlan: bool,
    vlans: BTreeSet<u16>,
    multicast: BTreeSet<[u8; 6]>,
    unicast: BTreeSet<[u8; 6]>,
}

impl Chip {
    /// Adds addresses, or removes them.
    pub(super) fn change_addresses(&self, kind: u32, addresses: &[[u8; 6]]) -> Result<()> {
        let vsi = self.resources()?.vsi;
        addresses.chunks(AT_ONCE).try_for_each(|some| {
            self.ask(kind, &Addresses { vsi, addresses: some.to_vec() }.encode()).map(|_| ())
        })
    }

    fn change_vlans(&self, kind: u32, vlans: &[u16]) -> Result<()> {
        let vsi = self.resources()?.vsi;
        vlans
            .chunks(AT_ONCE)
            .try_for_each(|some| self.ask(kind, &Vlans { vsi, vlans: some.to_vec() }.encode()).map(|_| ()))
    }
}

impl FilterTables for Chip {
    fn add_unicast(&self, mac: [u8; 6]) -> Result<()> {
        self.change_addresses(op::ADD_ETH_ADDR, &[mac])?;
        self.state().filters.unicast.insert(mac);
        Ok(())
    }

    fn remove_unicast(&self, mac: [u8; 6]) -> Result<bool> {
        if !self.state().filters.unicast.contains(&mac) {
            return Ok(false);
        }
        self.change_addresses(op::DEL_ETH_ADDR, &[mac])?;
        Ok(self.state().filters.unicast.remove(&mac))
    }

    fn set_multicast(&self, addresses: &[[u8; 6]]) -> Result<()> {
        let wanted: BTreeSet<[u8; 6]> = addresses.iter().copied().collect();
        let told = self.state().filters.multicast.clone();
        let gone: Vec<[u8; 6]> = told.difference(&wanted).copied().collect();
        let new: Vec<[u8; 6]> = wanted.difference(&told).copied().collect();
        self.change_addresses(op::DEL_ETH_ADDR, &gone)?;
        self.state().filters.multicast.retain(|mac| wanted.contains(mac));
        self.change_addresses(op::ADD_ETH_ADDR, &new)?;
        self.state().filters.multicast = wanted;
        Ok(())
    }

    fn set_vlan(&self, vlan: u16, on: bool) -> Result<()> {
        let mut vlans = self.state().filters.vlans.clone();
        let changed = if on { vlans.insert(vlan) } else { vlans.remove(&vlan) };
        if changed && self.state().filters.by_vlan {
            self.change_vlans(if on { op::ADD_VLAN } else { op::DEL_VLAN }, &[vlan])?;
        }
        self.state().filters.vlans = vlans;
        Ok(())
    }

    fn set_vlan_filter(&self, on: bool) -> Result<()> {
        if self.state().filters.by_vlan == on {
            return Ok(());
        }
        let vlans: Vec<u16> = self.state().filters.vlans.iter().copied().chain([UNTAGGED]).collect();
        self.change_vlans(if on { op::ADD_VLAN } else { op::DEL_VLAN }, &vlans)?;
        self.state().filters.by_vlan = on;
        Ok(())
    }

    fn set_broadcast(&self, on: bool) -> Result<()> {
        let (device, what) = (self.name.clone(), "turning broadcast frames off");
        match on {
            true => Ok(()),
            false => Err(VfFault::NotOffered { device, what, fix: "leave them on" }.into()),
        }
    }
}
