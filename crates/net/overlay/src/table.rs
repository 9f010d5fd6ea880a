//! The overlay's table, for the one who changes it: networks, entries, tunnels and the ends
//! that are here. Changes of entries and of the underlay come together in one publication.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use fib::Rib;
use fib::exact::{Exact, Key};

use crate::arrival::Entrance;
use crate::count::{Counting, Usages};
use crate::decap::Decapsulator;
use crate::encap::Encapsulator;
use crate::end::{End, Local, LocalView};
use crate::error::{Error, Result};
use crate::group::{Group, Member};
use crate::hop::{Hop, TunnelId};
use crate::journal::{Change, Journal};
use crate::learn::Learned;
use crate::network::{Layer, Match, Network};
use crate::owner::{Owner, Target};
use crate::routes::{Routes, Routing, SharedReaders};
use crate::segment::{Segment, Watcher};
use crate::tunnel::Tunnel;
use crate::tunnels::{Tunnels, Use};
use crate::underlay::Underlay;

/// Places of all flood lists together, at most.
const MAX_FLOODS: usize = 1 << 22;
/// Tunnels of a flood list, at most.
pub const MAX_FLOOD: usize = 1024;

/// A virtual network, and how much belongs to it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) network: Network,
    /// Places of its flood list.
    pub(crate) flood: usize,
    /// Entries of it.
    entries: usize,
    /// Which one of the networks that there were it is.
    pub(crate) incarnation: u32,
}

/// A virtual network as senders find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Published {
    pub(crate) network: Network,
    /// Places of its flood list.
    pub(crate) flood: u32,
    /// Which one of the networks that there were it is: its entries, prefixes and flood list
    /// are found by this, so that no packet meets those of another network of its number.
    pub(crate) incarnation: u32,
}

/// The table, for the one who changes it. Others see what was
/// [published](Overlay::publish).
#[derive(Debug)]
pub struct Overlay {
    pub(crate) networks: BTreeMap<u32, State>,
    published_networks: Rib<Exact, Published>,
    pub(crate) entries: Rib<Exact, Hop>,
    /// Prefixes of the networks that have such entries.
    pub(crate) routed: BTreeMap<u32, Routes>,
    incarnations: u32,
    pub(crate) learned: BTreeMap<u32, Learned>,
    pub(crate) shared: SharedReaders,
    pub(crate) usages: Usages,
    /// Flood lists: a network, and the place in its list.
    pub(crate) floods: Rib<Exact, Hop>,
    pub(crate) tunnels: Tunnels,
    pub(crate) underlay: Underlay,
    pub(crate) locals: BTreeMap<IpAddr, Local>,
    pub(crate) published_locals: Rib<Exact, LocalView>,
    pub(crate) free_locals: Vec<u32>,
    /// Protocols at UDP ports that are not their own.
    pub(crate) ports: Rib<Exact, u8>,
    pub(crate) ends: Rib<Exact, End>,
    /// The same by their networks.
    pub(crate) network_ends: BTreeSet<(u32, Key)>,
    /// Ports of the underlay.
    pub(crate) entrances: Rib<Exact, Entrance>,
    /// Ethernet segments behind networks' ports.
    pub(crate) segments: Rib<Exact, Segment>,
    rewritten: u64,
    pub(crate) version: u64,
    pub(crate) journal: Journal,
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
            routed: BTreeMap::new(),
            incarnations: 0,
            learned: BTreeMap::new(),
            shared: SharedReaders::default(),
            usages: Usages::default(),
            floods: Rib::with_limit(MAX_FLOODS),
            tunnels: Tunnels::default(),
            underlay: Underlay::default(),
            locals: BTreeMap::new(),
            published_locals: Rib::new(),
            free_locals: Vec::new(),
            ports: Rib::new(),
            ends: Rib::new(),
            network_ends: BTreeSet::new(),
            entrances: Rib::new(),
            segments: Rib::new(),
            rewritten: 0,
            version: 0,
            journal: Journal::default(),
        }
    }

    /// One more sender, who sees what is published.
    pub fn encapsulator(&mut self) -> Encapsulator {
        let entries = Counting::new(self.usages.clone());
        self.sender((Counting::new(self.tunnels.usages.clone()), entries))
    }

    /// As [`encapsulator`](Self::encapsulator), of packets that do not count as the
    /// [usage](Self::usage) of entries or tunnels: they are tried for people.
    pub fn trial_encapsulator(&mut self) -> Encapsulator {
        self.sender((Counting::apart(), Counting::apart()))
    }

    fn sender(&mut self, counting: (Counting, Counting)) -> Encapsulator {
        let (networks, entries) = (self.published_networks.reader(), self.entries.reader());
        let routing = Routing::new(self.shared.clone());
        Encapsulator::new(networks, entries, self.floods.reader(), routing, counting)
    }

    /// One more receiver, who sees what is published.
    pub fn decapsulator(&mut self) -> Decapsulator {
        let watcher = Watcher::new(self.segments.reader());
        let here = (self.published_locals.reader(), self.ports.reader());
        Decapsulator::new(here, self.ends.reader(), self.entrances.reader(), watcher)
    }

    /// Shows senders and receivers all changes since the last time. All entries and the state
    /// of their tunnels come at once. Networks, entries, flood lists, ends and local addresses
    /// come one after the other: what refers to another table is checked where it is used, so
    /// that a packet in between is dropped or goes as before, and nowhere else.
    pub fn publish(&mut self) {
        self.entries.publish();
        self.routed.values_mut().for_each(Routes::publish);
        self.floods.publish(); // in front of their lengths
        self.published_networks.publish();
        self.segments.publish(); // in front of the ends that look at them
        self.ends.publish();
        self.ports.publish();
        self.published_locals.publish();
        self.entrances.publish();
        self.tunnels.free_released();
        self.version += 1;
    }

    /// Adds a virtual network.
    ///
    /// # Errors
    /// When there is one of this number.
    pub fn add_network(&mut self, number: u32, network: Network) -> Result<()> {
        if self.networks.contains_key(&number) {
            return Err(Error::NetworkExists(number));
        }
        if network.matching == Match::LongestPrefix && network.layer != Layer::Ip {
            return Err(Error::Matching(number));
        }
        let incarnation = self.incarnations.checked_add(1).unwrap_or(1);
        self.add_routes(number, &network, incarnation)?;
        let published = Published { network, flood: 0, incarnation };
        if let Err(error) = self.published_networks.insert(network_key(number), published) {
            self.remove_routes(number);
            return Err(error.into());
        }
        self.incarnations = incarnation;
        self.networks.insert(number, State { network, flood: 0, entries: 0, incarnation });
        self.journal.note(Change::Network(number));
        Ok(())
    }

    /// Where an identifier of a network stands in the table of entries.
    pub(crate) fn place(&self, number: u32, bits: u128) -> Option<Key> {
        Some(Key::new(self.networks.get(&number)?.incarnation, bits))
    }

    pub(crate) fn state(&mut self, number: u32) -> Result<&mut State> {
        self.networks.get_mut(&number).ok_or(Error::NoNetwork(number))
    }

    /// The key of an entry, if packets of the network can have it.
    fn key(&mut self, number: u32, bits: u128) -> Result<Key> {
        let &mut State { network, incarnation, .. } = self.state(number)?;
        if network.matching != Match::Exact {
            return Err(Error::Matching(number));
        }
        let wide = network.extractor.bits();
        match bits.checked_shr(wide.into()).unwrap_or(0) {
            0 => Ok(Key::new(incarnation, bits)),
            _ => Err(Error::Key { network: number, key: bits, bits: wide }),
        }
    }

    /// Lets packets with this identifier, right-aligned, go by a tunnel, whatever they did
    /// before. The entry is [static](Owner::Static).
    ///
    /// # Errors
    /// Why there is no such entry.
    pub fn insert(&mut self, network: u32, identifier: u128, tunnel: Tunnel) -> Result<()> {
        self.insert_as(Owner::Static, network, identifier, tunnel)
    }

    /// Lets packets with this identifier, right-aligned, go by a tunnel or a group, whatever
    /// they did before by the same owner's word.
    ///
    /// # Errors
    /// Why there is no such entry: also when it is another owner's ([`Owner`]).
    pub fn insert_as(
        &mut self,
        owner: Owner,
        network: u32,
        identifier: u128,
        target: impl Into<Target>,
    ) -> Result<()> {
        let key = self.key(network, identifier)?;
        let target = target.into();
        let layer = self.leads(network, &target)?;
        if let Some(other) = self.owner(key).filter(|other| *other != owner && *other != Owner::Learned) {
            return Err(Error::Owned { network, key: identifier, owner: other });
        }
        let hop = self.tunnels.acquire(Use { target, network, layer, owner }, &self.underlay);
        let id = hop.id;
        match self.entries.insert(key, hop).inspect_err(|_| self.tunnels.release(id))? {
            Some(old) => self.tunnels.release(old.id),
            None => {
                self.state(network)?.entries += 1;
                self.entries.number(key).into_iter().for_each(|number| self.usages.begin(number));
            }
        }
        self.journal.note(Change::Entry(network, identifier));
        Ok(())
    }

    /// Gives an entry another owner, who changes it from now on; what it counted stays. Whoever
    /// decides between several owners' claims says so: by itself none takes another's.
    ///
    /// # Errors
    /// When there is no such network, or no such entry can be.
    pub fn hand_over(&mut self, network: u32, identifier: u128, owner: Owner) -> Result<()> {
        let key = self.key(network, identifier)?;
        let Some(used) = self.entries.get(key).and_then(|hop| self.tunnels.used(hop.id)).cloned() else {
            return Ok(());
        };
        let hop = self.tunnels.acquire(Use { owner, ..used }, &self.underlay);
        // The place is there already, so that there is room for it.
        if let Some(old) = self.entries.insert(key, hop)? {
            self.tunnels.release(old.id);
        }
        self.journal.note(Change::Entry(network, identifier));
        Ok(())
    }

    /// The owner of an entry.
    fn owner(&self, key: Key) -> Option<Owner> {
        Some(self.tunnels.used(self.entries.get(key)?.id)?.owner)
    }

    /// The layer of a network whose packets a target carries.
    pub(crate) fn leads(&mut self, network: u32, target: &Target) -> Result<Layer> {
        match target {
            Target::Tunnel(tunnel) => self.carried(network, tunnel),
            Target::Group(number) => {
                let group = self.tunnels.groups.get(number).ok_or(Error::NoGroup(*number))?;
                let members = group.members().to_vec();
                members.iter().try_for_each(|member| self.carried(network, &member.tunnel).map(drop))?;
                Ok(self.state(network)?.network.layer)
            }
        }
    }

    /// The layer of a network whose packets a tunnel carries.
    pub(crate) fn carried(&mut self, network: u32, tunnel: &Tunnel) -> Result<Layer> {
        let layer = self.state(network)?.network.layer;
        tunnel.check()?;
        match layer.goes_by(tunnel) {
            true => Ok(layer),
            false => Err(Error::Payload { protocol: tunnel.protocol.name, network }),
        }
    }

    /// Removes a static entry; whether it was there.
    ///
    /// # Errors
    /// When there is no such network.
    pub fn remove(&mut self, network: u32, identifier: u128) -> Result<bool> {
        self.remove_as(Owner::Static, network, identifier)
    }

    /// Removes an owner's entry; whether it was there.
    ///
    /// # Errors
    /// When there is no such network.
    pub fn remove_as(&mut self, owner: Owner, network: u32, identifier: u128) -> Result<bool> {
        let key = self.key(network, identifier)?;
        if self.owner(key) != Some(owner) {
            return Ok(false);
        }
        let old = self.entries.remove(key)?;
        if let Some(old) = &old {
            self.tunnels.release(old.id);
            self.state(network)?.entries -= 1;
            self.journal.note(Change::Entry(network, identifier));
        }
        Ok(old.is_some())
    }

    /// Makes a group of tunnels to the same place, or gives one other members: tunnels of the
    /// same weight, or [`Member`]s. A flow stays with its member as long as that one is in the
    /// group and its way is open, and as the shares of the members allow.
    ///
    /// # Errors
    /// When there cannot be such a group, or a network whose entries lead to it has packets
    /// that a member does not carry. The group is as it was then.
    pub fn set_group<M: Clone + Into<Member>>(&mut self, number: u64, members: &[M]) -> Result<()> {
        let members: Vec<Member> = members.iter().cloned().map(Into::into).collect();
        if !Group::is_possible(&members) {
            return Err(Error::Members);
        }
        members.iter().try_for_each(|member| member.tunnel.check())?;
        let layers = self.tunnels.layers(number);
        let goes = |member: &&Member| !layers.iter().all(|layer| layer.goes_by(&member.tunnel));
        if let Some(wrong) = members.iter().find(goes) {
            return Err(Error::Member { protocol: wrong.tunnel.protocol.name, group: number });
        }
        for hop in self.tunnels.set_group(number, members, &self.underlay) {
            self.refresh(hop);
        }
        Ok(())
    }

    /// Removes a group; whether it was there.
    ///
    /// # Errors
    /// When entries lead to it.
    pub fn remove_group(&mut self, number: u64) -> Result<bool> {
        match self.tunnels.groups.get(&number) {
            Some(group) if !group.hops.is_empty() => Err(Error::GroupUsed(number)),
            Some(_) => Ok(self.tunnels.groups.remove(&number).is_some()),
            None => Ok(false),
        }
    }

    /// Replaces the tunnels to which copies of packets go whose identifier no entry has.
    ///
    /// # Errors
    /// Why one of them cannot be; none is replaced then.
    pub fn set_flood(&mut self, number: u32, tunnels: &[Tunnel]) -> Result<()> {
        let &mut State { network, flood: before, incarnation, .. } = self.state(number)?;
        let all = self.floods.len() - before + tunnels.len();
        if tunnels.len() > MAX_FLOOD || all > MAX_FLOODS {
            return Err(Error::FloodFull(number));
        }
        tunnels.iter().try_for_each(|tunnel| self.carried(number, tunnel).map(drop))?;
        for (place, tunnel) in tunnels.iter().enumerate() {
            let (target, layer) = (tunnel.clone().into(), network.layer);
            let used = Use { target, network: number, layer, owner: Owner::Static };
            let hop = self.tunnels.acquire(used, &self.underlay);
            // There is room, as was seen above.
            if let Some(old) = self.floods.insert(flood_key(incarnation, place as u32), hop)? {
                self.tunnels.release(old.id);
            }
        }
        self.shorten_flood(incarnation, tunnels.len(), before)?;
        let published = Published { network, flood: tunnels.len() as u32, incarnation };
        self.published_networks.insert(network_key(number), published)?;
        self.state(number)?.flood = tunnels.len();
        Ok(())
    }

    /// Takes away the places of a flood list from one on.
    fn shorten_flood(&mut self, incarnation: u32, from: usize, to: usize) -> Result<()> {
        for place in from..to {
            if let Some(old) = self.floods.remove(flood_key(incarnation, place as u32))? {
                self.tunnels.release(old.id);
            }
        }
        Ok(())
    }

    /// How many entries a network has, flood lists not counted.
    pub fn entries(&self, network: u32) -> usize {
        let exact = self.networks.get(&network).map_or(0, |state| state.entries);
        exact + self.routed.get(&network).map_or(0, Routes::len)
    }

    /// How many different tunnels are used.
    pub fn tunnels(&self) -> usize {
        self.tunnels.len()
    }

    /// Puts a tunnel's new state where it is read.
    fn refresh(&mut self, hop: Hop) {
        self.journal.note(Change::Tunnel(hop.id));
        self.routed.values_mut().for_each(|routes| routes.refresh(&hop));
        self.floods.refresh(hop.clone());
        self.entries.refresh(hop);
    }

    /// Makes the headers of tunnels anew whose way changed.
    pub(crate) fn update(&mut self, mut tunnels: Vec<TunnelId>) {
        tunnels.retain(|id| self.tunnels.update(*id, &self.underlay));
        // A group is made once, however many of its members are others.
        let groups = self.tunnels.groups_with(&tunnels);
        for id in tunnels.into_iter().chain(groups) {
            self.rewritten += 1;
            self.refresh(self.tunnels.hop(id));
        }
    }

    /// How often headers were made anew because the underlay changed: once for each tunnel whose
    /// way is another one, and for each group that has it.
    pub fn rewritten(&self) -> u64 {
        self.rewritten
    }

    /// Removes a virtual network with its entries, its flood list and its ends.
    ///
    /// # Errors
    /// When there is no such network.
    pub fn remove_network(&mut self, number: u32) -> Result<()> {
        let &mut State { flood, incarnation, .. } = self.state(number)?;
        self.shorten_flood(incarnation, 0, flood)?;
        let entries = self.entries.range(Key::new(incarnation, 0), Key::new(incarnation, u128::MAX));
        let keys: Vec<Key> = entries.map(|entry| entry.rule).collect();
        for key in keys {
            if let Some(old) = self.entries.remove(key)? {
                self.tunnels.release(old.id);
            }
        }
        for (key, end) in self.ends_of(number) {
            self.ends.remove(key)?;
            self.network_ends.remove(&(number, key));
            self.release_local(end.local, End::protocol_of(key), end.port)?;
        }
        self.remove_routes(number);
        self.learned.remove(&number);
        self.segments.remove(network_key(number))?;
        self.published_networks.remove(network_key(number))?;
        self.networks.remove(&number);
        self.journal.note(Change::Network(number));
        Ok(())
    }
}

/// Where a network stands in its table.
pub(crate) fn network_key(number: u32) -> Key {
    Key::new(number, 0)
}

/// Where a place of a flood list stands in their table, by its network's incarnation.
pub(crate) fn flood_key(incarnation: u32, place: u32) -> Key {
    Key::new(incarnation, place.into())
}
