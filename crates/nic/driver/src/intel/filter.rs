//! Which frames a port receives: the filters of every port here, over the tables that
//! its chip has.

use port::{Filters, Port as _};

use super::chip::Chip;
use super::port::{Port, colons};
use crate::Result;

/// The filter tables of a chip.
pub trait FilterTables {
    /// Receives frames to one more unicast address.
    ///
    /// # Errors
    /// [`crate::Error::TableFull`] when there is no room for it.
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

impl<C: Chip> Filters for Port<C> {
    fn add_mac(&mut self, mac: [u8; 6]) -> port::Result<()> {
        tracing::debug!(port = self.name(), "filter: address {} added", colons(mac));
        if mac[0] & 1 == 0 {
            return Ok(self.chip.add_unicast(mac)?);
        }
        let mut multicast = self.multicast.clone();
        if !multicast.contains(&mac) {
            multicast.push(mac);
        }
        self.chip.set_multicast(&multicast)?;
        self.multicast = multicast;
        Ok(())
    }

    fn remove_mac(&mut self, mac: [u8; 6]) -> port::Result<bool> {
        tracing::debug!(port = self.name(), "filter: address {} removed", colons(mac));
        if mac[0] & 1 == 0 {
            return Ok(self.chip.remove_unicast(mac)?);
        }
        let before = self.multicast.len();
        self.multicast.retain(|other| *other != mac);
        self.chip.set_multicast(&self.multicast)?;
        Ok(self.multicast.len() < before)
    }

    fn set_vlan(&mut self, vlan: u16, on: bool) -> port::Result<()> {
        tracing::debug!(port = self.name(), "filter: VLAN {vlan} {}", if on { "added" } else { "removed" });
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
