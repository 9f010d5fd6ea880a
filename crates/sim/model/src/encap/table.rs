//! Networks, headers and entries.

use std::collections::HashMap;

use regs::encap::mode;
use wire::Inner;
use wire::tunnel::nsh;

use super::headers::Headers;

/// What packets of a network are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    Frames,
    Ip,
    Service,
}

/// A virtual network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    offset: u16,
    bits: u8,
    layer: Layer,
    drops: bool,
}

impl Network {
    /// A network by the registers' fields; `None` when there is no such mode.
    pub(super) fn new(offset: u16, bits: u8, mode: u32) -> Option<Network> {
        let layer = match mode & mode::LAYER {
            mode::FRAMES => Layer::Frames,
            mode::IP => Layer::Ip,
            mode::SERVICE => Layer::Service,
            _ => return None,
        };
        let drops = mode & mode::DROP != 0;
        (mode & !(mode::LAYER | mode::DROP) == 0).then_some(Network { offset, bits, layer, drops })
    }

    /// Bits of an identifier.
    pub(super) fn bits(&self) -> u8 {
        self.bits
    }

    /// Whether packets that no entry is for are dropped.
    pub(super) fn drops(&self) -> bool {
        self.drops
    }

    /// A packet's identifier, and what else its headers depend on; `None` of one that ends too
    /// early, or is no IP packet in a network of these.
    pub(super) fn parse(&self, packet: &[u8]) -> Option<(u128, Inner)> {
        let bytes = packet.get(self.offset.into()..)?.get(..usize::from(self.bits).div_ceil(8))?;
        let all = bytes.iter().fold(0, |key: u128, byte| key << 8 | u128::from(*byte));
        let key = all >> (bytes.len() * 8 - usize::from(self.bits));
        let inner = match self.layer {
            Layer::Frames => Inner::of_frame(packet),
            Layer::Ip => Some(Inner::of_packet(packet)).filter(|inner| inner.network_offset.is_some())?,
            Layer::Service => behind_service(packet),
        };
        Some((key, inner))
    }
}

/// The packet behind a network service header, by which its flow is known; its congestion is not
/// told outside (RFC 6040, section 4.1).
fn behind_service(packet: &[u8]) -> Inner {
    let Ok(service) = nsh::Packet::new_checked(packet) else { return Inner::default() };
    let inner = match service.next_protocol() {
        nsh::next_protocol::ETHERNET => Inner::of_frame(service.payload()),
        _ => Inner::of_packet(service.payload()),
    };
    Inner { traffic_class: 0, ..inner }
}

/// All that packets are looked up in. What a driver fills is bounded.
#[derive(Debug)]
pub(super) struct Table {
    networks: Vec<Option<Network>>,
    headers: Vec<[Option<Box<Headers>>; 2]>,
    entries: HashMap<(u16, u128), u32>,
    capacity: usize,
}

impl Table {
    /// Room for so many networks and entries, and as many headers as entries.
    pub(super) fn new(networks: u32, entries: u32) -> Table {
        Table {
            networks: vec![None; networks as usize],
            headers: (0..entries).map(|_| [None, None]).collect(),
            entries: HashMap::new(),
            capacity: entries as usize,
        }
    }

    pub(super) fn clear(&mut self) {
        self.networks.fill(None);
        self.headers.iter_mut().for_each(|place| *place = [None, None]);
        self.entries = HashMap::new();
    }

    pub(super) fn places(&self) -> usize {
        self.headers.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn network(&self, number: u16) -> Option<Network> {
        *self.networks.get(usize::from(number))?
    }

    /// Makes a network without entries; or changes one, which keeps them where its identifiers are
    /// the same.
    pub(super) fn set_network(&mut self, number: u16, network: Network) {
        let key = |network: Network| (network.offset, network.bits, network.layer);
        if self.network(number).map(key) != Some(key(network)) {
            self.clear_network(number);
        }
        if let Some(place) = self.networks.get_mut(usize::from(number)) {
            *place = Some(network);
        }
    }

    /// Removes a network with its entries; whether it was there.
    pub(super) fn clear_network(&mut self, number: u16) -> bool {
        let was = self.networks.get_mut(usize::from(number)).and_then(Option::take);
        if was.is_some() {
            self.entries.retain(|(of, _), _| *of != number);
        }
        was.is_some()
    }

    /// Puts headers into a place.
    pub(super) fn set_headers(&mut self, place: usize, which: usize, headers: Headers) {
        if let Some(place) = self.headers.get_mut(place).and_then(|place| place.get_mut(which)) {
            *place = Some(Box::new(headers));
        }
    }

    /// Whether there are any headers in a place.
    pub(super) fn has_headers(&self, place: usize) -> bool {
        self.headers.get(place).is_some_and(|place| place.iter().any(Option::is_some))
    }

    /// Puts an entry in, or another one in its place; false when there is no room.
    pub(super) fn insert(&mut self, network: u16, key: u128, place: u32) -> bool {
        let is_full = self.entries.len() >= self.capacity && !self.entries.contains_key(&(network, key));
        if !is_full {
            self.entries.insert((network, key), place);
        }
        !is_full
    }

    /// Removes an entry; whether it was there.
    pub(super) fn remove(&mut self, network: u16, key: u128) -> bool {
        self.entries.remove(&(network, key)).is_some()
    }

    /// The headers of a packet's entry.
    pub(super) fn find(&self, network: u16, key: u128, inner: &Inner) -> Option<&Headers> {
        let place = self.headers.get(*self.entries.get(&(network, key))? as usize)?;
        let is_ip = self.network(network)?.layer == Layer::Ip;
        place[usize::from(is_ip && inner.is_v6)].as_deref()
    }
}
