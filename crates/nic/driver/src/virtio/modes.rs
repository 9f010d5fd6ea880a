//! What a port receives (virtio 1.3, 5.1.6.5.1 to 5.1.6.5.3): modes, addresses
//! and VLANs, all by commands on the control queue.

use port::{Flow, FlowTarget};
use regs::virtio::control::{mac, rx, vlan};
use regs::virtio::feature::net;
use wire::MacAddress;

use super::device::{ADDRESSES, Virtio};
use crate::Result;

impl Virtio {
    /// Receive every frame, whatever its destination. An error when the device has no
    /// such command, or refuses it.
    pub(super) fn command_promiscuous(&mut self, on: bool) -> Result<()> {
        let command = [rx::CLASS, rx::PROMISC];
        if on && self.shared.features & net::CTRL_RX == 0 {
            return Ok(()); // without the command a device gives all it has
        }
        self.shared.command(net::CTRL_RX, "setting promiscuous mode", command, &[u8::from(on)])?;
        self.options.promiscuous = on;
        Ok(())
    }

    /// Changes the port's own address.
    ///
    /// # Errors
    /// When the device has no such command, or refuses it.
    pub fn set_mac(&mut self, address: [u8; 6]) -> Result<()> {
        let command = [mac::CLASS, mac::ADDR_SET];
        self.shared.command(net::CTRL_MAC_ADDR, "setting the address", command, &address)?;
        self.mac = address;
        Ok(())
    }

    /// Further addresses to receive, which replace those of an earlier call.
    ///
    /// # Errors
    /// When the device has no such command, or refuses it.
    pub fn set_addresses(&mut self, addresses: &[[u8; 6]]) -> Result<()> {
        let (multicast, unicast): (Vec<[u8; 6]>, Vec<[u8; 6]>) =
            addresses.iter().copied().partition(|&mac| MacAddress(mac).is_multicast());
        let mut data = Vec::new();
        for table in [unicast, multicast] {
            data.extend((table.len() as u32).to_le_bytes());
            data.extend(table.as_flattened());
        }
        let command = [mac::CLASS, mac::TABLE_SET];
        self.shared.command(net::CTRL_RX, "setting the address table", command, &data)?;
        self.addresses = addresses.to_vec();
        Ok(())
    }
}

impl port::Filters for Virtio {
    fn add_mac(&mut self, mac: [u8; 6]) -> port::Result<()> {
        if self.addresses.contains(&mac) {
            return Ok(());
        }
        if self.addresses.len() >= ADDRESSES {
            let (port, table) = (self.shared.name.clone(), "the address table");
            return Err(port::Error::TableFull { port, table, capacity: ADDRESSES });
        }
        Ok(self.set_addresses(&[&self.addresses[..], &[mac]].concat())?)
    }

    fn remove_mac(&mut self, mac: [u8; 6]) -> port::Result<bool> {
        let left: Vec<[u8; 6]> = self.addresses.iter().copied().filter(|other| *other != mac).collect();
        let was = left.len() < self.addresses.len();
        if was {
            self.set_addresses(&left)?;
        }
        Ok(was)
    }

    fn set_vlan(&mut self, id: u16, on: bool) -> port::Result<()> {
        let command = [vlan::CLASS, if on { vlan::ADD } else { vlan::DEL }];
        Ok(self.shared.command(net::CTRL_VLAN, "setting a VLAN", command, &id.to_le_bytes())?)
    }

    fn add_flow(&mut self, _flow: &Flow, _target: FlowTarget) -> port::Result<()> {
        Err(port::Error::Unsupported { port: self.shared.name.clone(), operation: "a filter for a flow" })
    }

    fn remove_flow(&mut self, _flow: &Flow) -> port::Result<bool> {
        Ok(false)
    }

    fn set_all_multicast(&mut self, on: bool) -> port::Result<()> {
        let command = [rx::CLASS, rx::ALLMULTI];
        Ok(self.shared.command(net::CTRL_RX, "setting all-multicast mode", command, &[u8::from(on)])?)
    }
}
