//! The table in a NIC that has one ([`port::EncapOffload`], decision 30): packets are marked with
//! their network ([`Mark`]) and get their headers in the device. [`NicTable`] keeps the device's
//! entries in step with an [`Overlay`]'s; what the device does not hold it gives back
//! ([`given_back`]), and an [`Encapsulator`](crate::Encapsulator) sends it.
//!
//! Not in the device: networks in which the longest prefix decides, groups, tunnels with a checksum
//! or numbers of GRE's, ways by other ports, flood lists, and how often an entry was used.

use std::collections::{BTreeMap, HashMap};

use memory::Packet;
use port::{EncapHeaders, EncapLayer, EncapNetwork, EncapOffload, Error, Reason, Result};
use wire::tunnel::nsh;
use wire::{MacAddress, encap_tag};

use crate::hop::{State, TunnelId};
use crate::network::{Layer, Match, Network, Unknown};
use crate::table::Overlay;

/// What a packet of a network gets in front of it for a NIC that puts it into its tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    header: [u8; encap_tag::HEADER_LEN],
    layer: Layer,
}

impl Mark {
    /// The mark of a network in a place of the NIC's, by a port with this Ethernet address.
    pub fn new(port: MacAddress, place: u16, layer: Layer) -> Mark {
        Mark { header: encap_tag::header(port, place), layer }
    }

    /// Marks a packet, which is then to leave by the port.
    ///
    /// # Errors
    /// Why it cannot be; the packet is as it was.
    #[inline]
    pub fn put(&self, packet: &mut Packet) -> std::result::Result<(), Reason> {
        let len = u16::try_from(packet.total_len()).map_err(|_| Reason::OverlayTooLong)?;
        let ttl = match self.layer {
            Layer::Service => Some(next_ttl(packet)?),
            Layer::Ethernet | Layer::Ip => None,
        };
        let room = packet.push_front(encap_tag::HEADER_LEN).ok().and_then(|room| room.first_chunk_mut());
        let room = room.ok_or(Reason::OverlayNoHeadroom)?;
        *room = self.header;
        encap_tag::set_packet_len(room, len);
        if let Some(ttl) = ttl {
            set_ttl(&mut packet[encap_tag::HEADER_LEN..], ttl);
        }
        Ok(())
    }
}

/// The hops of a service path that a packet has left behind this one (RFC 8300, section 2.2).
fn next_ttl(packet: &[u8]) -> std::result::Result<u8, Reason> {
    let before = nsh::Header::of(packet).ok_or(Reason::OverlayNoKey)?.ttl();
    match before.checked_sub(1).unwrap_or(nsh::DEFAULT_TTL) {
        0 => Err(Reason::OverlayServiceTtl),
        ttl => Ok(ttl),
    }
}

fn set_ttl(packet: &mut [u8], ttl: u8) {
    if let Some(mut header) = nsh::Header::of_mut(packet) {
        header.set_ttl(ttl);
    }
}

/// The place of the network of a packet that a NIC gives back, which is then as it was before it
/// was [marked](Mark::put); `None` of any other. `layer` tells what packets of a place are.
pub fn given_back(packet: &mut Packet, layer: impl FnOnce(u16) -> Option<Layer>) -> Option<u16> {
    if !encap_tag::is_tagged(packet) {
        return None;
    }
    let (tag, _) = encap_tag::split(packet).ok()?;
    let layer = layer(tag.network())?;
    packet.pull_front(encap_tag::HEADER_LEN).ok()?;
    packet.truncate(tag.packet_len().into());
    if layer == Layer::Service {
        let ttl = nsh::Header::of(packet).map_or(0, |header| header.ttl());
        // What was 0 became the largest.
        set_ttl(packet, if ttl == nsh::DEFAULT_TTL { 0 } else { ttl + 1 });
    }
    Some(tag.network())
}

impl Overlay {
    /// How often it was published.
    fn version(&self) -> u64 {
        self.version
    }

    /// The headers of a tunnel for a NIC, and the port by which its packets leave, as changed last;
    /// `None` while there is no way, and of what a NIC does not do.
    pub(crate) fn nic_headers(&self, tunnel: TunnelId) -> Option<(u16, [EncapHeaders; 2])> {
        self.tunnels.used(tunnel)?;
        match self.tunnels.hop(tunnel).state {
            State::Ready(ready) => Some((ready.port, ready.nic_headers()?)),
            State::Group(_) | State::Closed(_) => None,
        }
    }
}

/// How a NIC is told of a network; `None` of one that it cannot have.
fn nic_network(network: &Network, drops_unknown: bool) -> Option<EncapNetwork> {
    if network.matching != Match::Exact {
        return None;
    }
    let layer = match network.layer {
        Layer::Ethernet => EncapLayer::Ethernet,
        Layer::Ip => EncapLayer::Ip,
        Layer::Service => EncapLayer::Service,
    };
    let (offset, bits) = (network.extractor.offset(), network.extractor.bits());
    Some(EncapNetwork { offset, bits, layer, drops_unknown })
}

/// A network in the NIC.
#[derive(Debug)]
struct Held {
    place: u16,
    network: EncapNetwork,
    /// Places of headers by identifier.
    entries: BTreeMap<u128, u32>,
}

/// Headers in the NIC.
#[derive(Debug)]
struct Headers {
    place: u32,
    headers: [EncapHeaders; 2],
}

/// What a NIC holds of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NicCounts {
    /// Entries that it has.
    pub entries: usize,
    /// Entries for which it has no room, and that software sends.
    pub without_room: usize,
    /// How often all was told anew, as the device had forgotten it.
    pub restored: u64,
}

/// The table of a NIC, kept in step with an [`Overlay`].
pub struct NicTable {
    nic: Box<dyn EncapOffload>,
    /// The port of the underlay that the NIC is.
    port: u16,
    generation: u32,
    /// Which change of the overlay's was the last that the NIC was told of.
    version: Option<u64>,
    networks: BTreeMap<u32, Held>,
    headers: BTreeMap<TunnelId, Headers>,
    /// Places of headers that are free, the next one last, and where those begin that never were used.
    free: Vec<u32>,
    fresh: u32,
    /// Behind the last place of a network.
    next_place: u16,
    counts: NicCounts,
}

impl std::fmt::Debug for NicTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NicTable").field("port", &self.port).field("counts", &self.counts).finish()
    }
}

impl NicTable {
    /// The table of the NIC that is a port of the underlay, empty.
    ///
    /// # Errors
    /// What the device says.
    pub fn new(mut nic: Box<dyn EncapOffload>, port: u16) -> Result<NicTable> {
        nic.reset()?;
        let generation = nic.generation()?;
        Ok(NicTable {
            nic,
            port,
            generation,
            version: None,
            networks: BTreeMap::new(),
            headers: BTreeMap::new(),
            free: Vec::new(),
            fresh: 0,
            next_place: 0,
            counts: NicCounts::default(),
        })
    }

    /// The place of a network, if the NIC has it.
    pub fn place(&self, network: u32) -> Option<u16> {
        self.networks.get(&network).map(|held| held.place)
    }

    /// What the NIC holds.
    pub fn counts(&self) -> NicCounts {
        self.counts
    }

    /// Tells the NIC what is different since the last time, behind [`Overlay::publish`]; all of it
    /// when the device forgot it. Whether anything was told. It goes over all entries of the
    /// networks, so it is for tables of thousands.
    ///
    /// # Errors
    /// What the device says; it is not known then what it holds.
    pub fn sync(&mut self, overlay: &Overlay) -> Result<bool> {
        let generation = self.nic.generation()?;
        if generation != self.generation {
            self.generation = generation;
            self.forget();
            self.counts.restored += 1;
        } else if self.version == Some(overlay.version()) {
            return Ok(false);
        }
        self.version = None;
        self.counts.without_room = 0;
        self.remove_networks(overlay)?;
        let mut ways = Ways::new();
        let numbers: Vec<u32> = overlay.networks().collect();
        for number in &numbers {
            self.remove_entries(overlay, *number, &mut ways)?;
        }
        for number in numbers {
            self.sync_network(overlay, number, &mut ways)?;
        }
        let has_freed = self.free_headers();
        self.counts.entries = self.networks.values().map(|held| held.entries.len()).sum();
        // What had no room for its headers may have it now.
        let is_done = !has_freed || self.counts.without_room == 0;
        self.version = is_done.then_some(overlay.version());
        Ok(true)
    }

    /// Nothing is known to be in the device.
    fn forget(&mut self) {
        self.networks.clear();
        self.headers.clear();
        self.free.clear();
        self.fresh = 0;
    }

    /// Removes networks that are not there any more, or whose packets are looked up otherwise now.
    fn remove_networks(&mut self, overlay: &Overlay) -> Result<()> {
        let is_same = |number: &u32, held: &Held| {
            let now = overlay.network(*number).and_then(|now| nic_network(now, held.network.drops_unknown));
            now == Some(held.network)
        };
        let gone = self.networks.iter().filter(|(number, held)| !is_same(number, held));
        let gone: Vec<u32> = gone.map(|(number, _)| *number).collect();
        for number in gone {
            if let Some(held) = self.networks.remove(&number) {
                self.nic.set_network(held.place, None)?;
            }
        }
        Ok(())
    }

    /// Removes entries that are gone, or whose packets the NIC cannot send any more.
    fn remove_entries(&mut self, overlay: &Overlay, number: u32, ways: &mut Ways) -> Result<()> {
        let port = self.port;
        let Some(held) = self.networks.get_mut(&number) else { return Ok(()) };
        let unwanted = |(identifier, _): (&u128, &u32)| {
            let tunnel = overlay.entry(number, *identifier).map(|entry| entry.tunnel);
            tunnel.is_none_or(|tunnel| way(overlay, ways, tunnel, port).is_none()).then_some(*identifier)
        };
        let gone: Vec<u128> = held.entries.iter().filter_map(unwanted).collect();
        if !gone.is_empty() && held.network.drops_unknown {
            // What the table has and the NIC has not is to be given back.
            held.network.drops_unknown = false;
            self.nic.set_network(held.place, Some(&held.network))?;
        }
        for identifier in gone {
            self.nic.remove(held.place, identifier)?;
            held.entries.remove(&identifier);
        }
        Ok(())
    }

    /// Adds what is new in a network, and changes what is different.
    fn sync_network(&mut self, overlay: &Overlay, number: u32, ways: &mut Ways) -> Result<()> {
        let Some(settings) = overlay.network(number) else { return Ok(()) };
        let Some(network) = nic_network(settings, false) else { return Ok(()) };
        if !self.networks.contains_key(&number) {
            let Some(place) = self.free_place() else {
                self.counts.without_room += overlay.entries(number);
                return Ok(());
            };
            self.nic.set_network(place, Some(&network))?;
            self.networks.insert(number, Held { place, network, entries: BTreeMap::new() });
        }
        let mut is_whole = true;
        for entry in overlay.entries_of(number) {
            is_whole &= match way(overlay, ways, entry.tunnel, self.port) {
                Some(headers) => self.insert(number, entry.identifier, entry.tunnel, headers)?,
                None => false,
            };
        }
        self.set_drops(number, settings.unknown == Unknown::Drop && is_whole)
    }

    /// A place for a network: as long as possible none that another one had, whose packets may still be
    /// on their way.
    fn free_place(&mut self) -> Option<u16> {
        let places = self.nic.limits().networks.min(u16::MAX.into()) as u16;
        let mut used = vec![false; places.into()];
        for held in self.networks.values() {
            if let Some(used) = used.get_mut(usize::from(held.place)) {
                *used = true;
            }
        }
        let from = self.next_place.min(places);
        let place = (from..places).chain(0..from).find(|place| !used[usize::from(*place)])?;
        self.next_place = place + 1;
        Some(place)
    }

    /// Whether packets of a network without an entry are dropped in the NIC: only where the table
    /// would drop them, too.
    fn set_drops(&mut self, number: u32, drops_unknown: bool) -> Result<()> {
        let Some(held) = self.networks.get_mut(&number) else { return Ok(()) };
        if held.network.drops_unknown != drops_unknown {
            held.network.drops_unknown = drops_unknown;
            self.nic.set_network(held.place, Some(&held.network))?;
        }
        Ok(())
    }

    /// Puts an entry in; false when there is no room for it.
    fn insert(
        &mut self,
        number: u32,
        identifier: u128,
        tunnel: TunnelId,
        headers: &[EncapHeaders; 2],
    ) -> Result<bool> {
        let Some(to) = self.set_headers(tunnel, headers)? else {
            self.counts.without_room += 1;
            return self.leave_out(number, identifier).map(|()| false);
        };
        let Some(held) = self.networks.get_mut(&number) else { return Ok(false) };
        if held.entries.get(&identifier) == Some(&to) {
            return Ok(true);
        }
        match self.nic.insert(held.place, identifier, to) {
            Ok(()) => {
                held.entries.insert(identifier, to);
                Ok(true)
            }
            Err(Error::TableFull { .. }) => {
                self.counts.without_room += 1;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes an entry that leads elsewhere now, if it is there.
    fn leave_out(&mut self, number: u32, identifier: u128) -> Result<()> {
        let Some(held) = self.networks.get_mut(&number) else { return Ok(()) };
        if held.entries.remove(&identifier).is_some() {
            held.network.drops_unknown = false;
            self.nic.set_network(held.place, Some(&held.network))?;
            self.nic.remove(held.place, identifier)?;
        }
        Ok(())
    }

    /// Has a tunnel's headers in the NIC, in one step for all of its entries: their place, or `None`
    /// when there is none.
    fn set_headers(&mut self, tunnel: TunnelId, headers: &[EncapHeaders; 2]) -> Result<Option<u32>> {
        let before = self.headers.get(&tunnel);
        if before.is_some_and(|before| before.headers == *headers) {
            return Ok(before.map(|before| before.place));
        }
        let place = match before {
            Some(before) => before.place,
            None if (self.fresh as usize) < self.nic.limits().places => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => match self.free.pop() {
                Some(place) => place,
                None => return Ok(None),
            },
        };
        for (which, headers) in headers.iter().enumerate() {
            self.nic.set_headers(place, which == 1, headers)?;
        }
        self.headers.insert(tunnel, Headers { place, headers: headers.clone() });
        Ok(Some(place))
    }

    /// Frees the places of headers to which no entry leads; whether there were any.
    fn free_headers(&mut self) -> bool {
        let mut used = vec![false; self.fresh as usize];
        let places = self.networks.values().flat_map(|held| held.entries.values());
        places.for_each(|place| used[*place as usize] = true);
        let (free, before) = (&mut self.free, self.headers.len());
        self.headers.retain(|_, headers| {
            let is_used = used[headers.place as usize];
            free.extend((!is_used).then_some(headers.place));
            is_used
        });
        self.headers.len() < before
    }
}

/// Headers of tunnels as they are now, each made once.
type Ways = HashMap<TunnelId, Option<[EncapHeaders; 2]>>;

/// The headers of a tunnel whose packets leave by a port.
fn way<'a>(
    overlay: &Overlay,
    ways: &'a mut Ways,
    tunnel: TunnelId,
    port: u16,
) -> Option<&'a [EncapHeaders; 2]> {
    let made = || overlay.nic_headers(tunnel).filter(|(by, _)| *by == port).map(|(_, headers)| headers);
    ways.entry(tunnel).or_insert_with(made).as_ref()
}
