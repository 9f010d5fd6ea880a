//! The overlay's table, for the one who changes it: networks, entries, tunnels and the ends
//! that are here. Changes of entries and of the underlay come together in one publication.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fib::Rib;
use fib::exact::{Exact, Key};
use wire::MacAddress;

use crate::decap::Decapsulator;
use crate::encap::Encapsulator;
use crate::end::{End, Local, LocalView, MAX_LOCALS};
use crate::hop::{Hop, TunnelId};
use crate::network::{Layer, Network};
use crate::protocol::{PROTOCOLS, Protocol};
use crate::tunnel::{InvalidTunnel, Tunnel};
use crate::tunnels::Tunnels;
use crate::underlay::{self, Neighbor, Port, Prefix, Route, Underlay};

/// Places of all flood lists together, at most.
const MAX_FLOODS: usize = 1 << 22;
/// Tunnels of a flood list, at most.
pub const MAX_FLOOD: usize = 1024;

/// Why a change was refused. Nothing is different then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such network.
    #[error("there is no virtual network {0}: add it first")]
    NoNetwork(u32),
    /// A network of this number is there.
    #[error("there is a virtual network {0} already")]
    NetworkExists(u32),
    /// An identifier that the network's packets cannot have.
    #[error(
        "the identifier {key:#x} does not fit into the {bits} bits by which packets of network {network} are known"
    )]
    Key {
        /// The network.
        network: u32,
        /// What was asked for.
        key: u128,
        /// Bits that there are.
        bits: u8,
    },
    /// There cannot be such a tunnel.
    #[error(transparent)]
    Tunnel(#[from] InvalidTunnel),
    /// A tunnel that does not carry the network's packets.
    #[error("{protocol} does not carry the packets of network {network}")]
    Payload {
        /// The protocol's name.
        protocol: &'static str,
        /// The network.
        network: u32,
    },
    /// The flood list is full.
    #[error("network {0} has {MAX_FLOOD} tunnels in its flood list, which is the most")]
    FloodFull(u32),
    /// Another protocol's packets come to this UDP port.
    #[error("packets to UDP port {port} are those of {protocol} already")]
    Port {
        /// The port.
        port: u16,
        /// The name of the protocol that has it.
        protocol: &'static str,
    },
    /// Two protocols whose packets cannot be told apart.
    #[error("packets of nvgre and gretap cannot be told apart: {0} can be the end of one of them")]
    Ambiguous(IpAddr),
    /// Another network has this end.
    #[error("packets of this tunnel go to network {0} already")]
    EndExists(u32),
    /// Too many local addresses.
    #[error("{MAX_LOCALS} addresses are local, which is the most")]
    LocalsFull,
    /// The table of entries or routes refused.
    #[error(transparent)]
    Table(#[from] fib::Error),
}

/// What a change gives.
pub type Result<T> = std::result::Result<T, Error>;

/// A virtual network, and how much belongs to it.
#[derive(Debug)]
struct State {
    network: Network,
    /// Places of its flood list.
    flood: usize,
    /// Entries of it.
    entries: usize,
}

/// The table, for the one who changes it. Others see what was
/// [published](Overlay::publish).
#[derive(Debug)]
pub struct Overlay {
    networks: BTreeMap<u32, State>,
    published_networks: Rib<Exact, (Network, u32)>,
    entries: Rib<Exact, Hop>,
    /// Flood lists: a network, and the place in its list.
    floods: Rib<Exact, Hop>,
    tunnels: Tunnels,
    underlay: Underlay,
    locals: BTreeMap<IpAddr, Local>,
    published_locals: Rib<Exact, LocalView>,
    free_locals: Vec<u32>,
    /// Protocols at UDP ports that are not their own.
    ports: Rib<Exact, u8>,
    ends: Rib<Exact, End>,
}

impl Default for Overlay {
    fn default() -> Self {
        Self::new()
    }
}

impl Overlay {
    /// An empty table.
    pub fn new() -> Overlay {
        Overlay {
            networks: BTreeMap::new(),
            published_networks: Rib::new(),
            entries: Rib::new(),
            floods: Rib::with_limit(MAX_FLOODS),
            tunnels: Tunnels::default(),
            underlay: Underlay::default(),
            locals: BTreeMap::new(),
            published_locals: Rib::new(),
            free_locals: Vec::new(),
            ports: Rib::new(),
            ends: Rib::new(),
        }
    }

    /// One more sender, who sees what is published.
    pub fn encapsulator(&mut self) -> Encapsulator {
        Encapsulator::new(self.published_networks.reader(), self.entries.reader(), self.floods.reader())
    }

    /// One more receiver, who sees what is published.
    pub fn decapsulator(&mut self) -> Decapsulator {
        Decapsulator::new(self.published_locals.reader(), self.ports.reader(), self.ends.reader())
    }

    /// Shows senders and receivers all changes since the last time. All entries and the state
    /// of their tunnels come at once. Networks, entries, flood lists, ends and local addresses
    /// come one after the other: what refers to another table is checked where it is used, so
    /// that a packet in between is dropped or goes as before, and nowhere else.
    pub fn publish(&mut self) {
        self.entries.publish();
        self.floods.publish(); // in front of their lengths
        self.published_networks.publish();
        self.ends.publish();
        self.ports.publish();
        self.published_locals.publish();
    }

    /// Adds a virtual network.
    ///
    /// # Errors
    /// When there is one of this number.
    pub fn add_network(&mut self, number: u32, network: Network) -> Result<()> {
        if self.networks.contains_key(&number) {
            return Err(Error::NetworkExists(number));
        }
        self.published_networks.insert(network_key(number), (network, 0))?;
        self.networks.insert(number, State { network, flood: 0, entries: 0 });
        Ok(())
    }

    fn state(&mut self, number: u32) -> Result<&mut State> {
        self.networks.get_mut(&number).ok_or(Error::NoNetwork(number))
    }

    /// The key of an entry, if packets of the network can have it.
    fn key(&mut self, number: u32, bits: u128) -> Result<Key> {
        let wide = self.state(number)?.network.extractor.bits();
        match bits.checked_shr(wide.into()).unwrap_or(0) {
            0 => Ok(Key::new(number, bits)),
            _ => Err(Error::Key { network: number, key: bits, bits: wide }),
        }
    }

    /// Lets packets with this identifier, right-aligned, go by a tunnel, whatever they did
    /// before.
    ///
    /// # Errors
    /// Why there is no such entry.
    pub fn insert(&mut self, network: u32, identifier: u128, tunnel: Tunnel) -> Result<()> {
        let key = self.key(network, identifier)?;
        let layer = self.carried(network, &tunnel)?;
        let hop = self.tunnels.acquire((tunnel, layer), &self.underlay);
        let id = hop.id;
        match self.entries.insert(key, hop).inspect_err(|_| self.tunnels.release(id))? {
            Some(old) => self.tunnels.release(old.id),
            None => self.state(network)?.entries += 1,
        }
        Ok(())
    }

    /// The layer of a network whose packets a tunnel carries.
    fn carried(&mut self, network: u32, tunnel: &Tunnel) -> Result<Layer> {
        let layer = self.state(network)?.network.layer;
        tunnel.check()?;
        match layer.goes_by(tunnel) {
            true => Ok(layer),
            false => Err(Error::Payload { protocol: tunnel.protocol.name, network }),
        }
    }

    /// Removes an entry; whether it was there.
    ///
    /// # Errors
    /// When there is no such network.
    pub fn remove(&mut self, network: u32, identifier: u128) -> Result<bool> {
        let key = self.key(network, identifier)?;
        let old = self.entries.remove(key)?;
        if let Some(old) = &old {
            self.tunnels.release(old.id);
            self.state(network)?.entries -= 1;
        }
        Ok(old.is_some())
    }

    /// The tunnel that packets with this identifier go by, as changed last.
    pub fn get(&self, network: u32, identifier: u128) -> Option<&Tunnel> {
        self.tunnels.get(self.entries.get(Key::new(network, identifier))?.id)
    }

    /// Why packets of an entry cannot be sent now; `None` when they can, or without an entry.
    pub fn problem(&self, network: u32, identifier: u128) -> Option<crate::Reason> {
        self.entries.get(Key::new(network, identifier))?.state.as_ref().err().copied()
    }

    /// Replaces the tunnels to which copies of packets go whose identifier no entry has.
    ///
    /// # Errors
    /// Why one of them cannot be; none is replaced then.
    pub fn set_flood(&mut self, number: u32, tunnels: &[Tunnel]) -> Result<()> {
        let state = self.state(number)?;
        let (network, before) = (state.network, state.flood);
        let all = self.floods.len() - before + tunnels.len();
        if tunnels.len() > MAX_FLOOD || all > MAX_FLOODS {
            return Err(Error::FloodFull(number));
        }
        tunnels.iter().try_for_each(|tunnel| self.carried(number, tunnel).map(drop))?;
        for (place, tunnel) in tunnels.iter().enumerate() {
            let hop = self.tunnels.acquire((tunnel.clone(), network.layer), &self.underlay);
            // There is room, as was seen above.
            if let Some(old) = self.floods.insert(flood_key(number, place as u32), hop)? {
                self.tunnels.release(old.id);
            }
        }
        self.shorten_flood(number, tunnels.len(), before)?;
        self.published_networks.insert(network_key(number), (network, tunnels.len() as u32))?;
        self.state(number)?.flood = tunnels.len();
        Ok(())
    }

    /// Takes away the places of a flood list from one on.
    fn shorten_flood(&mut self, number: u32, from: usize, to: usize) -> Result<()> {
        for place in from..to {
            if let Some(old) = self.floods.remove(flood_key(number, place as u32))? {
                self.tunnels.release(old.id);
            }
        }
        Ok(())
    }

    /// How many entries a network has, flood lists not counted.
    pub fn entries(&self, network: u32) -> usize {
        self.networks.get(&network).map_or(0, |state| state.entries)
    }

    /// How many different tunnels are used.
    pub fn tunnels(&self) -> usize {
        self.tunnels.len()
    }

    /// Changes or removes a route of the underlay.
    ///
    /// # Errors
    /// When there is no such prefix.
    pub fn set_route(&mut self, prefix: Prefix, route: Option<Route>) -> Result<()> {
        if self.underlay.set_route(prefix, route)? {
            self.update(self.tunnels.to(underlay::range(prefix)));
        }
        Ok(())
    }

    /// Changes or removes the Ethernet address of a next hop.
    pub fn set_neighbor(&mut self, port: u16, address: IpAddr, mac: Option<MacAddress>) {
        if self.underlay.set_neighbor((port, address), mac) {
            self.update(self.tunnels.by(&(port, address)));
        }
    }

    /// Changes or removes a port of the underlay: its address, length of packets, VLAN and
    /// whether it is up.
    pub fn set_port(&mut self, number: u16, port: Option<Port>) {
        if self.underlay.set_port(number, port) {
            self.update(self.tunnels.by_port(number));
        }
    }

    /// Makes the headers of tunnels anew whose way changed.
    fn update(&mut self, tunnels: Vec<TunnelId>) {
        for id in tunnels {
            if let Some(hop) = self.tunnels.update(id, &self.underlay) {
                self.floods.refresh(hop.clone());
                self.entries.refresh(hop);
            }
        }
    }

    /// Next hops whose Ethernet addresses are not known and asked for by some tunnel: the
    /// port, and the address to ask for.
    pub fn unresolved(&self) -> impl Iterator<Item = Neighbor> + '_ {
        self.tunnels.unresolved()
    }

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
        let end = End { network, layer, zero_checksum, port, local: tunnel.local };
        if let Err(full) = self.ends.insert(key, end) {
            self.release_local(tunnel.local, tunnel.protocol, port)?;
            return Err(full.into());
        }
        Ok(())
    }

    /// Takes the end of a tunnel away; whether there was one.
    ///
    /// # Errors
    /// When the table refuses.
    pub fn remove_end(&mut self, tunnel: &Tunnel) -> Result<bool> {
        let Some(local) = self.locals.get(&tunnel.local) else { return Ok(false) };
        let end = self.ends.remove(End::key(tunnel, local.view().number))?;
        if let Some(end) = &end {
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

    fn release_local(&mut self, address: IpAddr, protocol: &Protocol, port: Option<u16>) -> Result<()> {
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

    /// Removes a virtual network with its entries, its flood list and its ends.
    ///
    /// # Errors
    /// When there is no such network.
    pub fn remove_network(&mut self, number: u32) -> Result<()> {
        let flood = self.state(number)?.flood;
        self.shorten_flood(number, 0, flood)?;
        let entries = self.entries.range(Key::new(number, 0), Key::new(number, u128::MAX));
        let keys: Vec<Key> = entries.map(|entry| entry.rule).collect();
        for key in keys {
            if let Some(old) = self.entries.remove(key)? {
                self.tunnels.release(old.id);
            }
        }
        let of_network = self.ends.iter().filter(|entry| entry.hop.network == number);
        let ends: Vec<(Key, End)> = of_network.map(|entry| (entry.rule, *entry.hop)).collect();
        for (key, end) in ends {
            self.ends.remove(key)?;
            self.release_local(end.local, End::protocol_of(key), end.port)?;
        }
        self.published_networks.remove(network_key(number))?;
        self.networks.remove(&number);
        Ok(())
    }
}

/// Where a network stands in its table.
pub(crate) fn network_key(number: u32) -> Key {
    Key::new(number, 0)
}

/// Where a place of a flood list stands in their table.
pub(crate) fn flood_key(network: u32, place: u32) -> Key {
    Key::new(network, place.into())
}
