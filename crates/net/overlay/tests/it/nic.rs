//! The entries of a NIC behind the table's: by changes alone, whatever came in which order, they are
//! those that a walk over the whole table makes, and a change costs as much as it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard};

use overlay::{
    Layer, Match, Network, NicTable, Overlay, Owner, Port, Protocol, Route, Target, Tunnel, Unknown,
};
use port::{EncapHeaders, EncapLimits, EncapNetwork, EncapOffload, Error, Result};
use proptest::prelude::*;
use wire::MacAddress;

use crate::rig::{MAC, PEER};

/// The port that is the NIC.
pub const PORT: u16 = 3;
/// A port of another NIC.
const OTHER: u16 = 4;
pub const AMPLE: EncapLimits = EncapLimits { networks: 16, places: 1 << 20, entries: 1 << 20 };

/// What a device was told.
#[derive(Default)]
pub struct Held {
    limits: EncapLimits,
    generation: u32,
    networks: BTreeMap<u16, EncapNetwork>,
    headers: BTreeMap<(u32, bool), EncapHeaders>,
    pub entries: BTreeMap<(u16, u128), u32>,
    commands: u64,
    /// Entries that it takes until it fails.
    left: Option<usize>,
    /// Commands that it takes until it loses all, each time; the last one is the next.
    pub until_lost: Vec<u64>,
    /// Whether it loses all now and then: what it is told of then may be gone.
    pub loses: bool,
}

/// A device with a table.
#[derive(Clone, Default)]
pub struct Nic(Arc<Mutex<Held>>);

impl Nic {
    pub fn new(limits: EncapLimits) -> Nic {
        Nic(Arc::new(Mutex::new(Held { limits, ..Held::default() })))
    }

    pub fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap()
    }

    /// The device, to do a command.
    fn commanded(&self) -> MutexGuard<'_, Held> {
        let mut held = self.held();
        held.commands += 1;
        let Some(left) = held.until_lost.last_mut() else { return held };
        if *left > 0 {
            *left -= 1;
            return held;
        }
        held.until_lost.pop();
        drop(held);
        self.forget();
        self.held()
    }

    /// Loses all, as by a reset.
    pub fn forget(&self) {
        let mut held = self.held();
        let (limits, generation) = (held.limits, held.generation + 1);
        let (commands, left, loses) = (held.commands, held.left, held.loses);
        let until_lost = std::mem::take(&mut held.until_lost);
        *held = Held { limits, generation, commands, left, until_lost, loses, ..Held::default() };
    }
}

impl EncapOffload for Nic {
    fn limits(&self) -> EncapLimits {
        self.held().limits
    }

    fn generation(&self) -> Result<u32> {
        Ok(self.held().generation)
    }

    fn reset(&mut self) -> Result<()> {
        self.forget();
        Ok(())
    }

    fn set_network(&mut self, place: u16, network: Option<&EncapNetwork>) -> Result<()> {
        let mut held = self.commanded();
        assert!(usize::from(place) < held.limits.networks);
        let key = |network: &EncapNetwork| EncapNetwork { drops_unknown: false, ..*network };
        if held.networks.get(&place).map(key) != network.map(key) {
            held.entries.retain(|(of, _), _| *of != place);
        }
        match network {
            Some(network) => held.networks.insert(place, *network),
            None => held.networks.remove(&place),
        };
        Ok(())
    }

    fn set_headers(&mut self, place: u32, is_v6: bool, headers: &EncapHeaders) -> Result<()> {
        let mut held = self.commanded();
        assert!((place as usize) < held.limits.places);
        held.headers.insert((place, is_v6), headers.clone());
        Ok(())
    }

    fn insert(&mut self, network: u16, identifier: u128, place: u32) -> Result<()> {
        let mut held = self.commanded();
        if !held.networks.contains_key(&network) || !held.headers.contains_key(&(place, true)) {
            assert!(held.loses, "it was told of neither");
            return Err(Error::Lost { port: "nic".to_owned(), what: "it was reset" });
        }
        if let Some(left) = &mut held.left {
            let failure = Error::Lost { port: "nic".to_owned(), what: "it fails" };
            *left = left.checked_sub(1).ok_or(failure)?;
        }
        let (key, capacity) = ((network, identifier), held.limits.entries);
        if held.entries.len() == capacity && !held.entries.contains_key(&key) {
            return Err(Error::TableFull { port: "nic".to_owned(), table: "entries", capacity });
        }
        held.entries.insert(key, place);
        Ok(())
    }

    fn remove(&mut self, network: u16, identifier: u128) -> Result<bool> {
        Ok(self.commanded().entries.remove(&(network, identifier)).is_some())
    }
}

/// Headers by network and identifier.
type Content = BTreeMap<(u32, u128), [EncapHeaders; 2]>;

/// What packets of each network find in a device.
fn content(nic: &Nic, table: &NicTable, overlay: &Overlay) -> Content {
    let held = nic.held();
    let numbers = overlay.networks().filter_map(|number| Some((table.place(number)?, number)));
    let numbers: BTreeMap<u16, u32> = numbers.collect();
    assert!(held.networks.keys().eq(numbers.keys()), "networks in the device");
    let entry = |((place, identifier), to): (&(u16, u128), &u32)| {
        let headers = [false, true].map(|is_v6| held.headers[&(*to, is_v6)].clone());
        ((numbers[place], *identifier), headers)
    };
    held.entries.iter().map(entry).collect()
}

/// What a walk over the table has a device with much room hold.
fn walked(overlay: &Overlay) -> Content {
    let nic = Nic::new(AMPLE);
    let mut table = NicTable::new(Box::new(nic.clone()), PORT).unwrap();
    assert!(table.sync(overlay).unwrap());
    content(&nic, &table, overlay)
}

/// The device has what it is to have, and as much as there is room for.
pub fn check(nic: &Nic, table: &NicTable, overlay: &Overlay) {
    let (is, wanted) = (content(nic, table, overlay), walked(overlay));
    let held = nic.held();
    for (key, headers) in &is {
        assert_eq!(wanted.get(key), Some(headers), "{key:?}");
    }
    let places: BTreeSet<u32> = held.entries.values().copied().collect();
    for (number, identifier) in wanted.keys().filter(|key| !is.contains_key(key)) {
        let is_full = match table.place(*number) {
            None => held.networks.len() == held.limits.networks || table.places_rest(),
            Some(_) => held.entries.len() == held.limits.entries || places.len() == held.limits.places,
        };
        assert!(is_full, "there is room for {identifier} of {number}");
    }
    for number in overlay.networks() {
        let Some(place) = table.place(number) else { continue };
        let of_network = is.keys().filter(|(of, _)| *of == number).count();
        let drops = overlay.network(number).unwrap().unknown == Unknown::Drop;
        let drops = drops && of_network == overlay.entries(number);
        assert_eq!(held.networks[&place].drops_unknown, drops, "network {number}");
    }
    let counts = table.counts();
    assert_eq!((counts.entries, counts.without_room), (is.len(), wanted.len() - is.len()));
}

fn address(last: u8) -> std::net::IpAddr {
    Ipv4Addr::new(192, 0, 2, last).into()
}

/// A tunnel to a far end; the one to the last of five a NIC does not do.
pub fn tunnel(to: u8) -> Tunnel {
    let protocol = if to == 5 { "gretap" } else { "vxlan" };
    let tunnel = Tunnel::new(Protocol::named(protocol).unwrap(), address(100), address(to));
    match to {
        5 => Tunnel { gre_checksum: true, ..tunnel },
        _ => tunnel.with_identifier(to.into()),
    }
}

fn port(mtu: u16, is_up: bool) -> Port {
    Port { mac: MAC, mtu, vlan: None, is_up }
}

/// A table with two ports, which all far ends are behind.
pub fn table() -> Overlay {
    let mut overlay = Overlay::new();
    overlay.set_port(PORT, Some(port(1600, true)));
    overlay.set_port(OTHER, Some(port(1500, true)));
    for last in 1..=5 {
        route(&mut overlay, last, Some(PORT));
        overlay.set_neighbor(PORT, address(last), Some(PEER));
        overlay.set_neighbor(OTHER, address(last), Some(PEER));
    }
    overlay
}

fn route(overlay: &mut Overlay, last: u8, port: Option<u16>) {
    let route = port.map(|port| Route { port, gateway: None });
    overlay.set_route((address(last), 32), route).unwrap();
}

/// Networks in turn: with frames that are dropped or given back when nobody knows them, and with
/// prefixes.
fn network(kind: u8) -> Network {
    match kind {
        1 | 2 => Network::bridged(),
        3 | 4 => Network { unknown: Unknown::Punt, ..Network::bridged() },
        _ => Network { matching: Match::LongestPrefix, ..Network::point_to_point(Layer::Ip) },
    }
}

/// A change of any kind. What the table refuses changes nothing.
fn change(overlay: &mut Overlay, nic: &Nic, (kind, number, key, to): (u8, u32, u8, u8)) {
    let identifier = u128::from(key);
    match kind {
        0..=4 => drop(overlay.insert(number, identifier, tunnel(to))),
        5 | 6 => drop(overlay.remove(number, identifier)),
        7 if overlay.network(number).is_none() => overlay.add_network(number, network(to)).unwrap(),
        7 if key < 3 => overlay.remove_network(number).unwrap(),
        8 => overlay.set_neighbor(PORT, address(to), (key > 2).then_some(MacAddress([key; 6]))),
        9 => route(overlay, to, [None, Some(OTHER), Some(PORT)][usize::from(key % 3)]),
        10 => overlay.set_port(PORT, Some(port(1400 + u16::from(key), key > 1))),
        11 => overlay.set_group(1, &[tunnel(key), tunnel(1 + key % 5)]).unwrap(),
        12 => drop(overlay.insert_as(Owner::Static, number, identifier, Target::Group(1))),
        13 => drop(overlay.hand_over(number, identifier, Owner::Learned)),
        14 if key == 1 => nic.forget(),
        _ => {}
    }
}

/// The places of the networks that have one.
fn places(table: &NicTable) -> Vec<(u32, u16)> {
    (1..4).filter_map(|number| Some((number, table.place(number)?))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Entries that come, change and go, networks likewise, what lower layers tell, a device that is
    /// full, has room again or loses all, and changes that the table keeps or not.
    #[test]
    fn whatever_changes_the_device_has_what_a_walk_finds(
        limits in prop::option::of((1..4usize, 1..5usize, 1..9usize)),
        kept in prop::sample::select(vec![0, 3, 1000]),
        steps in prop::collection::vec((0..18u8, 1..4u32, 1..6u8, 1..6u8), 1..80),
    ) {
        let limits = limits.map_or(AMPLE, |(networks, places, entries)| EncapLimits { networks, places, entries });
        let nic = Nic::new(limits);
        let mut overlay = table();
        overlay.keep_changes(kept);
        (1..3).for_each(|number| overlay.add_network(number, network(number as u8 * 2)).unwrap());
        let mut told = NicTable::new(Box::new(nic.clone()), PORT).unwrap();
        for step in steps {
            match step.0 {
                15.. => {
                    overlay.publish();
                    let marked = places(&told);
                    assert!(told.sync(&overlay).unwrap());
                    check(&nic, &told, &overlay);
                    for (number, place) in places(&told) {
                        let whose = marked.iter().find(|(_, before)| *before == place);
                        assert!(whose.is_none_or(|(before, _)| *before == number), "{place} of {number}");
                    }
                }
                14 if step.2 == 2 => told.let_places_go(),
                _ => change(&mut overlay, &nic, step),
            }
        }
        overlay.publish();
        told.sync(&overlay).unwrap();
        while told.places_rest() {
            told.let_places_go();
        }
        told.sync(&overlay).unwrap();
        check(&nic, &told, &overlay);
        assert!(!told.sync(&overlay).unwrap(), "nothing is different");
    }
}

/// A table of many entries in the device, and what a change of it costs: networks, entries and tunnels
/// that are looked at, and commands to the device.
struct Large {
    nic: Nic,
    overlay: Overlay,
    table: NicTable,
}

impl Large {
    const ENTRIES: u32 = 100_000;

    fn new(kept: usize, limits: EncapLimits) -> Large {
        let (nic, mut overlay) = (Nic::new(limits), table());
        overlay.keep_changes(kept);
        overlay.add_network(1, Network::bridged()).unwrap();
        for entry in 0..Self::ENTRIES {
            overlay.insert(1, entry.into(), tunnel(1 + (entry % 3) as u8)).unwrap();
        }
        let table = NicTable::new(Box::new(nic.clone()), PORT).unwrap();
        let mut large = Large { nic, overlay, table };
        let (work, _) = large.cost(|_| {});
        assert!(work >= Self::ENTRIES.into() && large.table.walks() == 1);
        large
    }

    fn cost(&mut self, change: impl FnOnce(&mut Overlay)) -> (u64, u64) {
        let (work, commands) = (self.table.work(), self.nic.held().commands);
        change(&mut self.overlay);
        self.overlay.publish();
        assert!(self.table.sync(&self.overlay).unwrap());
        (self.table.work() - work, self.nic.held().commands - commands)
    }
}

#[test]
fn a_change_costs_what_it_changes() {
    let mut large = Large::new(16, AMPLE);
    assert_eq!(large.table.counts().entries, Large::ENTRIES as usize);
    // It moves, and its new tunnel is there already; to a new tunnel, with two kinds of headers; a new one.
    assert_eq!(large.cost(|overlay| overlay.insert(1, 0, tunnel(2)).unwrap()), (1, 1));
    assert_eq!(large.cost(|overlay| overlay.insert(1, 0, tunnel(4)).unwrap()), (1, 3));
    assert_eq!(large.cost(|overlay| overlay.insert(1, 1 << 40, tunnel(1)).unwrap()), (2, 1));
    assert_eq!(large.cost(|overlay| assert!(overlay.remove(1, 1 << 40).unwrap())), (1, 1));
    // A neighbour's new address is one tunnel's headers, whatever number of entries leads there.
    let moved = Some(MacAddress([2; 6]));
    assert_eq!(large.cost(|overlay| overlay.set_neighbor(PORT, address(1), moved)), (1, 2));
    // A way that is lost is that of the entries which lead there: here one, given back from now on.
    assert_eq!(large.cost(|overlay| route(overlay, 4, None)), (2, 2));
    assert_eq!(large.cost(|overlay| route(overlay, 4, Some(PORT))), (2, 4));
    assert_eq!(large.cost(|_| {}), (0, 0));
    assert_eq!(large.table.walks(), 1);
}

#[test]
fn room_that_is_freed_is_found_at_once() {
    let limits = EncapLimits { networks: 1, places: 3, entries: 1000 };
    let mut large = Large::new(16, limits);
    let without_room = Large::ENTRIES as usize - limits.entries;
    assert_eq!(large.table.counts().without_room, without_room);
    assert_eq!(large.cost(|overlay| assert!(overlay.remove(1, 0).unwrap())), (2, 2));
    let counts = large.table.counts();
    assert_eq!((counts.entries, counts.without_room), (limits.entries, without_room - 1));
    assert_eq!(large.cost(|overlay| overlay.insert(1, 1 << 40, tunnel(1)).unwrap()), (1, 0));
}

#[test]
fn more_changes_than_are_kept_are_a_walk_that_is_counted() {
    let mut large = Large::new(2, AMPLE);
    let change = |count: u32| {
        move |overlay: &mut Overlay| (0..count).for_each(|n| overlay.insert(1, n.into(), tunnel(4)).unwrap())
    };
    assert_eq!(large.cost(change(2)).0, 2);
    assert_eq!(large.table.walks(), 1);
    assert!(large.cost(change(3)).0 >= Large::ENTRIES.into());
    assert_eq!(large.table.walks(), 2);
    assert_eq!(large.cost(change(1)).0, 1);
}

#[test]
fn a_device_that_failed_half_way_is_begun_anew() {
    let (nic, mut overlay) = (Nic::new(AMPLE), table());
    overlay.keep_changes(1000);
    overlay.add_network(1, Network::bridged()).unwrap();
    (0..9).for_each(|entry| overlay.insert(1, entry, tunnel(1 + entry as u8 % 4)).unwrap());
    overlay.publish();
    let mut table = NicTable::new(Box::new(nic.clone()), PORT).unwrap();
    table.sync(&overlay).unwrap();
    (3..20).for_each(|entry| overlay.insert(1, entry, tunnel(1 + entry as u8 % 3)).unwrap());
    overlay.publish();
    for left in 0..10 {
        nic.held().left = Some(left);
        assert!(table.sync(&overlay).is_err());
    }
    nic.held().left = None;
    assert!(table.sync(&overlay).unwrap());
    check(&nic, &table, &overlay);
}

/// What the device forgot is told again, by a walk.
#[test]
fn a_device_that_lost_all_is_told_all_again() {
    let mut large = Large::new(16, AMPLE);
    large.nic.forget();
    assert!(large.table.sync(&large.overlay).unwrap());
    let counts = large.table.counts();
    assert_eq!((counts.entries, counts.restored, large.table.walks()), (Large::ENTRIES as usize, 1, 2));
    assert_eq!(large.nic.held().entries.len(), counts.entries);
}
