//! What a port receives (virtio 1.3, 5.1.6.5.1 to 5.1.6.5.3): modes, addresses
//! and VLANs, all by commands on the control queue.

use port::{Flow, FlowTable, FlowTarget, Rss};
use regs::virtio::control::{mac, mq, rx, vlan};
use regs::virtio::feature::net;
use regs::virtio::net::{config as field, hash};

use super::config;
use super::device::{Shared, Virtio};
use super::fault::Fault;
use crate::Result;

/// Entries of the indirection table, where the device has so many.
pub(super) const TABLE: u16 = 128;
/// Addresses that are received beside the port's own: devices keep 64 of a kind
/// exactly, and receive all of the kind beyond.
pub(super) const ADDRESSES: usize = 64;
/// What is hashed, as far as the device can.
const HASHES: u32 = hash::IPV4 | hash::TCPV4 | hash::UDPV4 | hash::IPV6 | hash::TCPV6 | hash::UDPV6;

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
            addresses.iter().copied().partition(|mac| mac[0] & 1 == 1);
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

impl Shared {
    /// Spreads flows over `pairs` receive queues by a Toeplitz hash
    /// (5.1.6.5.7), or has the hash reported only (5.1.6.5.6).
    pub(super) fn set_rss(&self, pairs: u16, rss: &Rss) -> Result<()> {
        let transport = &*self.transport;
        let supported = u32::from_le_bytes(config::read(transport, field::SUPPORTED_HASH_TYPES)?);
        let [key_len] = config::read(transport, field::RSS_MAX_KEY_SIZE)?;
        if usize::from(key_len) < rss.key.len() {
            let (device, command) = (self.name.clone(), "hash key of 40 bytes");
            return Err(Fault::NoCommand { device, command, feature: "rss_max_key_size" }.into());
        }
        let spread = self.features & net::RSS != 0;
        let mut data = Vec::from((supported & HASHES).to_le_bytes());
        if spread {
            let entries = self.rss_entries()?;
            let table = rss.entries(entries.into(), pairs.into()).map(|queue| queue as u16);
            let words = [entries - 1, 0].into_iter().chain(table).chain([pairs]);
            data.extend(words.flat_map(u16::to_le_bytes));
        } else {
            data.extend([0; 8]); // reserved
        }
        data.push(rss.key.len() as u8);
        data.extend(rss.key);
        let (feature, command) =
            if spread { (net::RSS, mq::RSS_CONFIG) } else { (net::HASH_REPORT, mq::HASH_CONFIG) };
        self.command(feature, "setting the hash", [mq::CLASS, command], &data)
    }

    /// Entries of the indirection table: a power of two, as the device has.
    fn rss_entries(&self) -> Result<u16> {
        let longest = config::read16(&*self.transport, field::RSS_MAX_INDIRECTION_TABLE_LENGTH)?;
        Ok(1 << longest.clamp(1, TABLE).ilog2())
    }

    /// How flows are spread over `pairs` receive queues: by the hash, or not at all where
    /// there is one. Which queue a device chooses by itself nobody knows.
    pub(super) fn flows(&self, pairs: usize, rss: &Rss) -> Option<FlowTable> {
        if self.features & net::RSS == 0 {
            return (pairs == 1).then(|| FlowTable::new(rss, 1, 1, true));
        }
        let types = u32::from_le_bytes(self.config(field::SUPPORTED_HASH_TYPES)?) & HASHES;
        // Only a device that hashes all kinds alike is one whose hashes can be told.
        (types == HASHES)
            .then(|| self.rss_entries().ok())
            .flatten()
            .map(|entries| FlowTable::new(rss, entries.into(), pairs, true))
    }
}
