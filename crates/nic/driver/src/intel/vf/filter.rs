//! Which frames are received: addresses and VLANs, by messages.

use regs::ixgbevf::message::{INFO_SHIFT, WORDS, kind};

use super::{Chip, Function};
use crate::intel::FilterTables;
use crate::intel::ring_registers::address::{address_words, multicast_hash};
use crate::{Error, Result};

/// Multicast addresses in a message: two in each word behind the first.
const MULTICAST: usize = 2 * (WORDS - 1);

impl<F: Function> Chip<F> {
    /// Tells the list of addresses from `first` on.
    fn tell_addresses(&self, list: &[[u8; 6]], first: usize) -> Result<()> {
        for (n, mac) in list.iter().enumerate().skip(first) {
            let [low, high] = address_words(*mac);
            self.ask(&[F::address_message(n), low, high])?;
        }
        Ok(())
    }

    fn full(&self, table: &'static str, capacity: usize) -> Error {
        Error::TableFull { device: self.name.clone(), table, capacity }
    }
}

impl<F: Function> FilterTables for Chip<F> {
    fn add_unicast(&self, mac: [u8; 6]) -> Result<()> {
        let mut list = self.state().unicast.clone();
        if list.contains(&mac) {
            return Ok(());
        }
        let room = F::INFO.addresses;
        if list.len() >= room {
            return Err(self.full("addresses of a virtual function", room));
        }
        list.push(mac);
        self.tell_addresses(&list, list.len() - 1)?;
        self.state().unicast = list;
        Ok(())
    }

    fn remove_unicast(&self, mac: [u8; 6]) -> Result<bool> {
        let mut list = self.state().unicast.clone();
        let before = list.len();
        list.retain(|other| *other != mac);
        if list.len() == before {
            return Ok(false);
        }
        // A new list, without it.
        self.ask(&F::no_addresses(self))?;
        self.state().unicast.clear();
        self.tell_addresses(&list, 0)?;
        self.state().unicast = list;
        Ok(true)
    }

    fn set_multicast(&self, addresses: &[[u8; 6]]) -> Result<()> {
        if addresses.len() > MULTICAST {
            return Err(self.full("multicast addresses of a virtual function", MULTICAST));
        }
        F::can_filter_multicast(self)?;
        let mut words = [0; WORDS];
        words[0] = kind::SET_MULTICAST | (addresses.len() as u32) << INFO_SHIFT;
        for (n, mac) in addresses.iter().enumerate() {
            let (register, bit) = multicast_hash(*mac);
            words[1 + n / 2] |= ((register as u32) << 5 | bit) << (16 * (n as u32 % 2));
        }
        self.ask(&words).map(|_| ())
    }

    fn set_vlan(&self, vlan: u16, on: bool) -> Result<()> {
        self.ask(&[kind::SET_VLAN | u32::from(on) << INFO_SHIFT, vlan.into()]).map(|_| ())
    }

    /// Frames with a tag come of chosen VLANs alone, whether that is asked for or not.
    fn set_vlan_filter(&self, on: bool) -> Result<()> {
        match on {
            true => Ok(()),
            false => Err(self.not_offered("receiving frames of all VLANs", "choose VLANs")),
        }
    }

    fn set_broadcast(&self, on: bool) -> Result<()> {
        match on {
            true => Ok(()),
            false => Err(self.not_offered("turning broadcast frames off", "leave them on")),
        }
    }
}
