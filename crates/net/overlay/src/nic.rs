//! The entries of a NIC that has the table, too, kept in step with an [`Overlay`]'s: by what changed
//! since the last time, so that a change costs what it changes, however many entries there are. What there
//! is no room for waits, and follows when there is.
//!
//! Not in the NIC: networks in which the longest prefix decides, groups, tunnels with a checksum or
//! numbers of GRE's, ways by other ports, flood lists, and how often an entry was used.

mod held;
mod network_places;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use port::{EncapHeaders, EncapOffload, Error, Result};

use crate::hop::TunnelId;
use crate::journal::Change;
use crate::table::Overlay;
use held::{Held, Places, Way};
use network_places::NetworkPlaces;

/// How often a device is told at most that forgets all while it is told.
const ATTEMPTS: usize = 3;

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

/// How far a NIC was told.
#[derive(Debug, Clone, Copy)]
struct Told {
    /// Which publication was the last.
    version: u64,
    /// The first change that it was not told of.
    change: u64,
}

/// The table of a NIC, kept in step with an [`Overlay`].
pub struct NicTable {
    nic: Box<dyn EncapOffload>,
    /// The port of the underlay that the NIC is.
    port: u16,
    generation: u32,
    /// `None` while it is not known what the device has.
    told: Option<Told>,
    networks: BTreeMap<u32, Held>,
    /// Networks that have no place.
    unplaced: BTreeSet<u32>,
    network_places: NetworkPlaces,
    /// Whether there may be a place for a network that has none.
    has_more_places: bool,
    /// Networks of which other entries are in the NIC, or not in it, than before.
    touched: BTreeSet<u32>,
    ways: HashMap<TunnelId, Way>,
    /// Tunnels with entries that only lack room, and a place for their headers or none.
    ready: BTreeSet<TunnelId>,
    waiting: BTreeSet<TunnelId>,
    places: Places,
    counts: NicCounts,
    work: u64,
    walks: u64,
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
    pub fn new(nic: Box<dyn EncapOffload>, port: u16) -> Result<NicTable> {
        let mut table = NicTable {
            nic,
            port,
            generation: 0,
            told: None,
            networks: BTreeMap::new(),
            unplaced: BTreeSet::new(),
            network_places: NetworkPlaces::default(),
            has_more_places: false,
            touched: BTreeSet::new(),
            ways: HashMap::new(),
            ready: BTreeSet::new(),
            waiting: BTreeSet::new(),
            places: Places::default(),
            counts: NicCounts::default(),
            work: 0,
            walks: 0,
        };
        table.begin()?;
        Ok(table)
    }

    /// The place of a network, if the NIC has it.
    pub fn place(&self, network: u32) -> Option<u16> {
        self.networks.get(&network)?.place
    }

    /// What the NIC holds.
    pub fn counts(&self) -> NicCounts {
        self.counts
    }

    /// How many networks, entries and tunnels were looked at since this was made.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// How often all entries were gone over: at the beginning, when the device had forgotten them, and
    /// when more had changed than the table [keeps](Overlay::keep_changes).
    pub fn walks(&self) -> u64 {
        self.walks
    }

    /// Tells the NIC what is different since the last time, behind [`Overlay::publish`]; all of it
    /// when the device forgot it, before or meanwhile. Whether anything was told. It looks at what
    /// changed alone, as far as the table [keeps](Overlay::keep_changes) that, and else at all entries.
    ///
    /// A network has the place that it had when the device forgot it, or when it was made anew: what is
    /// marked with that comes back until it is told, and goes into no other network. The place of one that
    /// went [rests](Self::let_places_go).
    ///
    /// # Errors
    /// What the device says; it is not known then what it holds, and the next time begins anew.
    pub fn sync(&mut self, overlay: &Overlay) -> Result<bool> {
        for _ in 1..ATTEMPTS {
            let told = self.try_sync(overlay);
            let is_reset = self.nic.generation().is_ok_and(|generation| generation != self.generation);
            match told {
                Ok(true) if is_reset => {} // it is seen, and counted, the next time
                Err(_) if is_reset => self.counts.restored += 1,
                told => return told,
            }
        }
        self.try_sync(overlay)
    }

    /// Whether places rest that networks had which went.
    pub fn places_rest(&self) -> bool {
        self.network_places.rest()
    }

    /// Lets the places be given to others that have rested since the last time: no packet is marked with
    /// them any more.
    pub fn let_places_go(&mut self) {
        self.has_more_places |= self.network_places.let_go() && !self.unplaced.is_empty();
    }

    fn try_sync(&mut self, overlay: &Overlay) -> Result<bool> {
        let told = self.told.take();
        if told.is_none() {
            self.begin()?;
        }
        let generation = self.nic.generation()?;
        let changes = match told {
            Some(_) if generation != self.generation => {
                self.generation = generation;
                self.forget();
                self.counts.restored += 1;
                None
            }
            Some(told) if told.version == overlay.version() && !self.has_more_places => {
                self.told = Some(told);
                return Ok(false);
            }
            Some(told) => overlay.journal.since(told.change),
            None => None,
        };
        match changes {
            Some(changes) => self.follow(overlay, changes)?,
            None => self.walk(overlay)?,
        }
        self.fill()?;
        for number in std::mem::take(&mut self.touched) {
            self.set_drops(number)?;
        }
        self.told = Some(Told { version: overlay.version(), change: overlay.journal.end() });
        Ok(true)
    }

    /// Begins with an empty device.
    fn begin(&mut self) -> Result<()> {
        self.nic.reset()?;
        self.generation = self.nic.generation()?;
        self.forget();
        Ok(())
    }

    /// Nothing is in the device.
    fn forget(&mut self) {
        for (number, held) in std::mem::take(&mut self.networks) {
            held.place.into_iter().for_each(|place| self.network_places.leave(number, place));
        }
        self.unplaced.clear();
        self.touched.clear();
        self.ways.clear();
        self.ready.clear();
        self.waiting.clear();
        self.places = Places::default();
        (self.counts.entries, self.counts.without_room) = (0, 0);
    }

    /// Looks at what changed: networks first, so that entries are looked up in those of now.
    fn follow(&mut self, overlay: &Overlay, changes: impl Iterator<Item = Change> + Clone) -> Result<()> {
        for change in changes.clone() {
            if let Change::Network(number) = change {
                self.look_at_network(overlay, number)?;
            }
        }
        changes.into_iter().try_for_each(|change| match change {
            Change::Network(_) => Ok(()),
            Change::Entry(number, identifier) => self.look_at_entry(overlay, number, identifier),
            Change::Tunnel(tunnel) => self.look_at_tunnel(overlay, tunnel),
        })
    }

    /// Looks at all that there is, and at all that there was.
    fn walk(&mut self, overlay: &Overlay) -> Result<()> {
        self.walks += 1;
        let numbers: BTreeSet<u32> = self.networks.keys().copied().chain(overlay.networks()).collect();
        numbers.iter().try_for_each(|number| self.look_at_network(overlay, *number))?;
        let tunnels: Vec<TunnelId> = self.ways.keys().copied().collect();
        tunnels.into_iter().try_for_each(|tunnel| self.look_at_tunnel(overlay, tunnel))?;
        for number in numbers {
            let Some(held) = self.networks.get(&number) else { continue };
            let gone = held.entries.keys().filter(|key| overlay.entry(number, **key).is_none());
            let gone: Vec<u128> = gone.copied().collect();
            let there = overlay.entries_of(number).map(|entry| entry.identifier);
            let mut all = gone.into_iter().chain(there);
            all.try_for_each(|identifier| self.look_at_entry(overlay, number, identifier))?;
        }
        Ok(())
    }

    /// Takes a network away that is not there any more, and notes one that is new.
    fn look_at_network(&mut self, overlay: &Overlay, number: u32) -> Result<()> {
        self.work += 1;
        let now = overlay.networks.get(&number);
        let before = self.networks.get(&number).map(|held| held.incarnation);
        if before.is_some() && before == now.map(|state| state.incarnation) {
            return Ok(());
        }
        if let Some(held) = self.networks.remove(&number) {
            self.unplaced.remove(&number);
            held.ways.iter().for_each(|tunnel| self.remove_way(*tunnel));
            self.counts.entries -= held.inside;
            if let Some(place) = held.place {
                self.network_places.leave(number, place);
                self.nic.set_network(place, None)?;
            }
        }
        if let Some(held) = now.and_then(|state| Held::new(&state.network, state.incarnation)) {
            self.networks.insert(number, held);
            self.unplaced.insert(number);
        }
        Ok(())
    }

    fn remove_way(&mut self, tunnel: TunnelId) {
        let Some(way) = self.ways.remove(&tunnel) else { return };
        self.ready.remove(&tunnel);
        self.waiting.remove(&tunnel);
        self.counts.without_room -= way.counted;
        way.place.into_iter().for_each(|place| self.places.give_back(place));
    }

    /// Lets an entry lead where it leads now. One that the NIC has stays there where that can be.
    fn look_at_entry(&mut self, overlay: &Overlay, number: u32, identifier: u128) -> Result<()> {
        self.work += 1;
        let Some(held) = self.networks.get_mut(&number) else { return Ok(()) };
        let now = overlay.entry(number, identifier).map(|entry| entry.tunnel);
        let before = match now {
            Some(tunnel) => held.entries.insert(identifier, tunnel),
            None => held.entries.remove(&identifier),
        };
        if before == now {
            return Ok(());
        }
        self.touched.insert(number);
        if let Some(tunnel) = now {
            held.ways.insert(tunnel);
            let way = || Way::new(number, overlay.nic_headers(tunnel, self.port));
            self.ways.entry(tunnel).or_insert_with(way).outside.insert(identifier);
        }
        let was_inside = before.is_some_and(|tunnel| self.take_out(tunnel, identifier));
        match now {
            Some(tunnel) if was_inside => {
                let is_in = self.put(tunnel, identifier)?;
                if !is_in {
                    self.remove(number, identifier, true)?;
                }
            }
            Some(tunnel) => self.settle(tunnel),
            None if was_inside => self.remove(number, identifier, false)?,
            None => {}
        }
        Ok(())
    }

    /// An entry does not lead to a tunnel any more: whether the NIC has it, which is still to be told.
    fn take_out(&mut self, tunnel: TunnelId, identifier: u128) -> bool {
        let Some(way) = self.ways.get_mut(&tunnel) else { return false };
        let was_inside = way.inside.remove(&identifier);
        way.outside.remove(&identifier);
        if was_inside {
            self.count_inside(tunnel, false);
        }
        self.settle(tunnel);
        was_inside
    }

    /// Counts an entry of a tunnel that comes into the NIC, or leaves it.
    fn count_inside(&mut self, tunnel: TunnelId, comes: bool) {
        let held = self.ways.get(&tunnel).and_then(|way| self.networks.get_mut(&way.network));
        let counts = [Some(&mut self.counts.entries), held.map(|held| &mut held.inside)];
        counts.into_iter().flatten().for_each(|count| *count = if comes { *count + 1 } else { *count - 1 });
    }

    /// Removes an entry from the NIC. What the table has still is to be given back.
    fn remove(&mut self, number: u32, identifier: u128, is_there: bool) -> Result<()> {
        let Some(held) = self.networks.get_mut(&number) else { return Ok(()) };
        let Some(place) = held.place else { return Ok(()) };
        if is_there && held.network.drops_unknown {
            held.network.drops_unknown = false;
            self.nic.set_network(place, Some(&held.network))?;
        }
        self.nic.remove(place, identifier).map(drop)
    }

    /// Puts a tunnel's headers into the NIC as they are now, in one step for all of its entries; or
    /// takes its entries out, when there is no way.
    fn look_at_tunnel(&mut self, overlay: &Overlay, tunnel: TunnelId) -> Result<()> {
        self.work += 1;
        let Some(way) = self.ways.get_mut(&tunnel) else { return Ok(()) };
        let now = overlay.nic_headers(tunnel, self.port);
        let before = std::mem::replace(&mut way.headers, now);
        if way.headers == before {
            return Ok(());
        }
        match (&way.headers, way.place) {
            (Some(headers), Some(place)) => set_headers(&mut *self.nic, place, headers)?,
            (None, Some(_)) => {
                let (number, gone) = (way.network, std::mem::take(&mut way.inside));
                way.outside.extend(&gone);
                self.touched.insert(number);
                for identifier in gone {
                    self.work += 1;
                    self.count_inside(tunnel, false);
                    self.remove(number, identifier, true)?;
                }
            }
            (_, None) => {}
        }
        self.settle(tunnel);
        Ok(())
    }

    /// Frees a tunnel's place to which no entry in the NIC leads, and notes what the tunnel waits for.
    fn settle(&mut self, tunnel: TunnelId) {
        let Some(way) = self.ways.get_mut(&tunnel) else { return };
        if way.inside.is_empty() {
            way.place.take().into_iter().for_each(|place| self.places.give_back(place));
        }
        let (has_headers, counted) = (way.place.is_some(), way.without_room());
        self.counts.without_room = self.counts.without_room - way.counted + counted;
        way.counted = counted;
        let held = self.networks.get_mut(&way.network);
        let waits = counted > 0 && held.as_ref().is_some_and(|held| held.place.is_some());
        for (set, is_in) in [(&mut self.ready, has_headers), (&mut self.waiting, !has_headers)] {
            match waits && is_in {
                true => set.insert(tunnel),
                false => set.remove(&tunnel),
            };
        }
        if way.is_unused() {
            if let Some(held) = held {
                held.ways.remove(&tunnel);
            }
            self.ways.remove(&tunnel);
        }
    }

    /// Gives a network that has none this place.
    fn place_at(&mut self, number: u32, place: u16) -> Result<()> {
        let Some(held) = self.networks.get_mut(&number).filter(|held| held.place.is_none()) else {
            return Ok(());
        };
        self.nic.set_network(place, Some(&held.network))?;
        held.place = Some(place);
        let tunnels: Vec<TunnelId> = held.ways.iter().copied().collect();
        self.unplaced.remove(&number);
        self.touched.insert(number);
        tunnels.into_iter().for_each(|tunnel| self.settle(tunnel));
        Ok(())
    }

    /// Puts what waits where there is room now.
    fn fill(&mut self) -> Result<()> {
        self.has_more_places = false;
        let before = self.network_places.before();
        before.into_iter().try_for_each(|(number, place)| self.place_at(number, place))?;
        self.network_places.settle(|number| self.networks.contains_key(&number));
        while let Some(number) = self.unplaced.first().copied() {
            let Some(place) = self.free_place() else { break };
            self.place_at(number, place)?;
        }
        let limits = self.nic.limits();
        while self.counts.entries < limits.entries {
            let waiting = self.waiting.first().filter(|_| self.places.has_any(limits.places));
            let Some(tunnel) = self.ready.first().or(waiting).copied() else { break };
            let first = self.ways.get(&tunnel).and_then(|way| way.outside.first().copied());
            let Some(identifier) = first else { break };
            self.work += 1;
            if !self.put(tunnel, identifier)? {
                break;
            }
        }
        Ok(())
    }

    /// A place for a network.
    fn free_place(&mut self) -> Option<u16> {
        let places = self.nic.limits().networks.min(u16::MAX.into()) as u16;
        let held = self.networks.values().filter_map(|held| held.place);
        self.network_places.free(held, places)
    }

    /// Lets an entry of a tunnel be in the NIC, in place of another one of its identifier; false when
    /// that cannot be now.
    fn put(&mut self, tunnel: TunnelId, identifier: u128) -> Result<bool> {
        let is_put = self.try_put(tunnel, identifier)?;
        if is_put && let Some(way) = self.ways.get_mut(&tunnel) {
            way.outside.remove(&identifier);
            way.inside.insert(identifier);
            self.touched.insert(way.network);
            self.count_inside(tunnel, true);
        }
        self.settle(tunnel);
        Ok(is_put)
    }

    /// Tells the NIC of an entry, and of its headers where it has them not.
    fn try_put(&mut self, tunnel: TunnelId, identifier: u128) -> Result<bool> {
        let Some(way) = self.ways.get_mut(&tunnel) else { return Ok(false) };
        let network = self.networks.get(&way.network).and_then(|held| held.place);
        let (Some(headers), Some(network)) = (&way.headers, network) else { return Ok(false) };
        let to = match way.place {
            Some(place) => place,
            None => {
                let Some(place) = self.places.take(self.nic.limits().places) else { return Ok(false) };
                way.place = Some(place);
                set_headers(&mut *self.nic, place, headers)?;
                place
            }
        };
        match self.nic.insert(network, identifier, to) {
            Ok(()) => Ok(true),
            Err(Error::TableFull { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Has the NIC drop packets of a network without an entry, or give them back.
    fn set_drops(&mut self, number: u32) -> Result<()> {
        let Some(held) = self.networks.get_mut(&number) else { return Ok(()) };
        let Some(place) = held.place else { return Ok(()) };
        let drops_unknown = held.drops();
        if held.network.drops_unknown != drops_unknown {
            held.network.drops_unknown = drops_unknown;
            self.nic.set_network(place, Some(&held.network))?;
        }
        Ok(())
    }
}

/// Puts headers of both kinds into a place.
fn set_headers(nic: &mut dyn EncapOffload, place: u32, headers: &[EncapHeaders; 2]) -> Result<()> {
    let mut both = headers.iter().enumerate();
    both.try_for_each(|(which, headers)| nic.set_headers(place, which == 1, headers))
}
