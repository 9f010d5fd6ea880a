//! The ends of tunnels that are here, for the one who changes them.

use std::net::IpAddr;

use fib::exact::Key;

use crate::end::{End, Local, MAX_LOCALS};
use crate::error::{Error, Result};
use crate::protocol::{PROTOCOLS, Protocol};
use crate::table::Overlay;
use crate::tunnel::Tunnel;

impl Overlay {
    /// Lets packets of a tunnel that ends here come out in a virtual network. What the tunnel
    /// says of its outer headers is not looked at, but its protocol, local address, UDP port
    /// and identifier; without an identifier its remote address too, and of a way of segments
    /// the local address alone.
    ///
    /// # Errors
    /// Why there is no such end.
    pub fn add_end(&mut self, network: u32, tunnel: &Tunnel, zero_checksum: bool) -> Result<()> {
        let layer = self.carried(network, tunnel)?;
        let port = tunnel.protocol.udp_port().map(|own| tunnel.port.unwrap_or(own));
        if let Some(local) = self.locals.get(&tunnel.local) {
            if local.is_ambiguous(tunnel.protocol) {
                return Err(Error::Ambiguous(tunnel.local));
            }
            let other = port.and_then(|port| Some((port, local.protocol_at(port)?)));
            if let Some((port, other)) = other.filter(|(_, other)| *other != tunnel.protocol.number) {
                return Err(Error::Port { port, protocol: PROTOCOLS[usize::from(other)].name });
            }
        }
        let number = self.acquire_local(tunnel.local, tunnel.protocol, port)?;
        let key = End::key(tunnel, number);
        if let Some(end) = self.ends.get(key) {
            let network = end.network;
            self.release_local(tunnel.local, tunnel.protocol, port)?;
            return Err(Error::EndExists(network));
        }
        let watch = self.watch(network);
        let end = End { network, layer, zero_checksum, watch, port, local: tunnel.local };
        if let Err(full) = self.ends.insert(key, end) {
            self.release_local(tunnel.local, tunnel.protocol, port)?;
            return Err(full.into());
        }
        self.network_ends.insert((network, key));
        Ok(())
    }

    /// Takes the end of a tunnel away; whether there was one.
    ///
    /// # Errors
    /// When the table refuses.
    pub fn remove_end(&mut self, tunnel: &Tunnel) -> Result<bool> {
        let Some(local) = self.locals.get(&tunnel.local) else { return Ok(false) };
        let key = End::key(tunnel, local.view().number);
        let end = self.ends.remove(key)?;
        if let Some(end) = &end {
            self.network_ends.remove(&(end.network, key));
            self.release_local(tunnel.local, tunnel.protocol, end.port)?;
        }
        Ok(end.is_some())
    }

    /// The number of a local address, for one end more of a protocol.
    fn acquire_local(&mut self, address: IpAddr, protocol: &Protocol, port: Option<u16>) -> Result<u32> {
        if !self.locals.contains_key(&address) {
            if self.locals.len() == MAX_LOCALS {
                return Err(Error::LocalsFull);
            }
            let number = self.free_locals.pop().unwrap_or(self.locals.len() as u32);
            self.locals.insert(address, Local::new(number));
        }
        let local = self.locals.get_mut(&address).expect("just seen or added");
        local.ends[usize::from(protocol.number)] += 1;
        if let Some(port) = port.filter(|port| protocol.udp_port() != Some(*port)) {
            local.ports.entry(port).or_insert((protocol.number, 0)).1 += 1;
            self.ports.insert(Local::port_key(local.number(), port), protocol.number)?;
        }
        let view = local.view();
        self.published_locals.insert(Local::key(address), view)?;
        Ok(view.number)
    }

    pub(crate) fn release_local(
        &mut self,
        address: IpAddr,
        protocol: &Protocol,
        port: Option<u16>,
    ) -> Result<()> {
        let Some(local) = self.locals.get_mut(&address) else { return Ok(()) };
        local.ends[usize::from(protocol.number)] -= 1;
        if let Some((port, (_, ends))) = port.and_then(|port| Some((port, local.ports.get_mut(&port)?))) {
            *ends -= 1;
            if *ends == 0 {
                local.ports.remove(&port);
                self.ports.remove(Local::port_key(local.number(), port))?;
            }
        }
        let view = local.view();
        if view.protocols != 0 {
            self.published_locals.insert(Local::key(address), view)?;
            return Ok(());
        }
        self.published_locals.remove(Local::key(address))?;
        self.locals.remove(&address);
        self.free_locals.push(view.number);
        Ok(())
    }

    /// Lets receivers know what is done now with frames at the ends of a network.
    pub(crate) fn watch_ends(&mut self, network: u32) -> Result<()> {
        let watch = self.watch(network);
        for (key, end) in self.ends_of(network) {
            self.ends.insert(key, End { watch, ..end })?;
        }
        Ok(())
    }

    /// The ends of a network. Not all there are is looked at: there may be as many networks.
    pub(crate) fn ends_of(&self, network: u32) -> Vec<(Key, End)> {
        let of_network = (network, Key::new(0, 0))..=(network, Key::new(u32::MAX, u128::MAX));
        let keys = self.network_ends.range(of_network).map(|(_, key)| *key);
        keys.filter_map(|key| Some((key, *self.ends.get(key)?))).collect()
    }
}
