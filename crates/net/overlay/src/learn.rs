//! Addresses that are learned from received frames, as a bridge does (RFC 7348, section 4.1):
//! receivers note who sent from behind which tunnel, and the table makes entries of it, no
//! more than a network may have, for as long as they are heard of.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use wire::ethernet;

use crate::error::{Error, Result};
use crate::owner::Owner;
use crate::table::Overlay;
use crate::tunnel::{Tunnel, is_one_host};

/// Notes that a receiver keeps at most.
const MAX_OBSERVATIONS: usize = 1024;
/// Places of what was noted since notes were taken last, so that each station is noted once.
const OBSERVED: usize = 4096;

/// A station that was heard of: who sent a frame, and from which tunnel it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Observation {
    /// The virtual network.
    pub network: u32,
    /// The frame's source, right-aligned.
    pub station: u64,
    /// The outer source address.
    pub remote: IpAddr,
}

/// What a receiver observed since it was asked last.
#[derive(Debug, Clone)]
pub(crate) struct Observations {
    notes: Vec<Observation>,
    /// A note in the place of its hash, so that it is not made again at once.
    observed: Vec<Option<Observation>>,
    /// Stations that were not noted, because there were too many.
    pub(crate) lost: u64,
}

impl Default for Observations {
    fn default() -> Observations {
        Observations { notes: Vec::with_capacity(MAX_OBSERVATIONS), observed: vec![None; OBSERVED], lost: 0 }
    }
}

impl Observations {
    /// Notes the sender of a frame, unless it is a group or nobody.
    #[inline]
    pub(crate) fn hear(&mut self, network: u32, remote: IpAddr, frame: &[u8]) {
        let Some(header) = ethernet::Header::of(frame) else { return };
        let src = header.src();
        if !src.is_station() {
            return;
        }
        let station = src.0.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let note = Observation { network, station, remote };
        let hash = (station ^ u64::from(network) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let place = &mut self.observed[(hash >> 52) as usize % OBSERVED];
        if *place == Some(note) {
            return;
        }
        if self.notes.len() == MAX_OBSERVATIONS {
            self.lost += 1;
            return;
        }
        *place = Some(note);
        self.notes.push(note);
    }

    /// What was observed since the last time; who is observed again is noted again.
    pub(crate) fn take(&mut self, into: &mut Vec<Observation>) {
        if !self.notes.is_empty() {
            self.observed.fill(None);
        }
        into.append(&mut self.notes);
    }
}

/// How a network learns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learning {
    /// The tunnel to a station that was heard of, but for the remote address: one for each version of
    /// IP by which the network's tunnels go.
    pub tunnels: Vec<Tunnel>,
    /// Entries that are learned, at most; those not heard of for longest go first.
    pub limit: usize,
    /// For how long an entry stays without being heard of.
    pub age: Duration,
}

/// What became of what was observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LearningCounts {
    /// Entries that were made.
    pub learned: u64,
    /// Entries whose stations were heard of behind another tunnel.
    pub moved: u64,
    /// Entries that gave way to others, as there are no more than the limit.
    pub evicted: u64,
    /// Entries that were not heard of for too long.
    pub aged: u64,
    /// Stations that have another owner's entry, or cannot have one.
    pub refused: u64,
}

/// A learned entry between those heard of before and after it.
#[derive(Debug, Clone, Copy)]
struct LearnedEntry {
    station: u64,
    remote: IpAddr,
    observed: Duration,
    older: Option<u32>,
    newer: Option<u32>,
}

/// Learned entries of a network in the order in which they were heard of last.
#[derive(Debug)]
pub(crate) struct Learned {
    settings: Learning,
    counts: LearningCounts,
    places: Vec<LearnedEntry>,
    by_station: HashMap<u64, u32>,
    free: Vec<u32>,
    oldest: Option<u32>,
    newest: Option<u32>,
}

impl Learned {
    fn new(settings: Learning) -> Learned {
        Learned {
            settings,
            counts: LearningCounts::default(),
            places: Vec::new(),
            by_station: HashMap::new(),
            free: Vec::new(),
            oldest: None,
            newest: None,
        }
    }

    /// Takes a place out of the order.
    fn unlink(&mut self, at: u32) {
        let LearnedEntry { older, newer, .. } = self.places[at as usize];
        match older {
            Some(older) => self.places[older as usize].newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.places[newer as usize].older = older,
            None => self.newest = older,
        }
    }

    /// Puts a place at the new end of the order.
    fn link(&mut self, at: u32) {
        let older = self.newest.replace(at);
        (self.places[at as usize].older, self.places[at as usize].newer) = (older, None);
        match older {
            Some(older) => self.places[older as usize].newer = Some(at),
            None => self.oldest = Some(at),
        }
    }

    /// Notes that a station was heard of, which has an entry.
    fn touch(&mut self, station: u64, remote: IpAddr, now: Duration) {
        let at = match self.by_station.get(&station) {
            Some(at) => {
                let at = *at;
                self.unlink(at);
                at
            }
            None => self.free.pop().unwrap_or(self.places.len() as u32),
        };
        let place = LearnedEntry { station, remote, observed: now, older: None, newer: None };
        match self.places.get_mut(at as usize) {
            Some(there) => *there = place,
            None => self.places.push(place),
        }
        self.by_station.insert(station, at);
        self.link(at);
    }

    fn forget(&mut self, station: u64) {
        if let Some(at) = self.by_station.remove(&station) {
            self.unlink(at);
            self.free.push(at);
        }
    }

    /// The station not heard of for longest, and when it was.
    fn oldest(&self) -> Option<(u64, Duration)> {
        let place = self.places.get(self.oldest? as usize)?;
        Some((place.station, place.observed))
    }
}

impl Overlay {
    /// Lets a network learn from received frames, or not any more: what was learned is
    /// forgotten. Senders of frames are noted by receivers
    /// ([`observed`](crate::Decapsulator::observed)) once this is published.
    ///
    /// # Errors
    /// When the network has no frames that go by their destination, or its packets do not go by
    /// such tunnels.
    pub fn set_learning(&mut self, network: u32, learning: Option<Learning>) -> Result<()> {
        let settings = self.state(network)?.network;
        if let Some(learning) = &learning {
            for tunnel in &learning.tunnels {
                self.carried(network, tunnel)?;
            }
            if settings != (crate::Network { unknown: settings.unknown, ..crate::Network::bridged() }) {
                return Err(Error::Matching(network));
            }
        }
        self.forget_learned(network)?;
        self.learned.remove(&network);
        if let Some(learning) = learning {
            self.learned.insert(network, Learned::new(learning));
        }
        self.watch_ends(network)
    }

    fn forget_learned(&mut self, network: u32) -> Result<()> {
        let stations = self.learned.get(&network).map(|learned| learned.by_station.keys().copied());
        let stations: Vec<u64> = stations.into_iter().flatten().collect();
        for station in stations {
            self.remove_as(Owner::Learned, network, station.into())?;
        }
        Ok(())
    }

    /// Makes an entry of what was observed, or notes that it was heard of again; whether the table is
    /// another one. `now` is the time since any moment, the same for all calls.
    pub fn learn(&mut self, observed: &Observation, now: Duration) -> bool {
        let Observation { network, station, remote } = *observed;
        let Some(learned) = self.learned.get_mut(&network) else { return false };
        let before = learned.by_station.get(&station).map(|at| learned.places[*at as usize].remote);
        let is_mine = self.entry(network, station.into()).is_some_and(|entry| entry.owner == Owner::Learned);
        let is_new = !is_mine || before != Some(remote);
        if is_new {
            let tunnel = self.tunnel_to_learned(network, remote);
            let made = tunnel.is_some_and(|tunnel| {
                self.insert_as(Owner::Learned, network, station.into(), tunnel).is_ok()
            });
            let Some(learned) = self.learned.get_mut(&network) else { return false };
            match (made, before.is_some() && is_mine) {
                (true, true) => learned.counts.moved += 1,
                (true, false) => learned.counts.learned += 1,
                (false, _) => {
                    learned.counts.refused += 1;
                    learned.forget(station);
                    return false;
                }
            }
        }
        let Some(learned) = self.learned.get_mut(&network) else { return false };
        learned.touch(station, remote, now);
        while let Some(learned) = self.learned.get_mut(&network)
            && learned.by_station.len() > learned.settings.limit
            && let Some((station, _)) = learned.oldest()
        {
            learned.counts.evicted += 1;
            self.unlearn(network, station);
        }
        is_new
    }

    /// The tunnel to a station behind a far end, which is another host's address.
    fn tunnel_to_learned(&self, network: u32, remote: IpAddr) -> Option<Tunnel> {
        let is_another = is_one_host(remote) && !self.locals.contains_key(&remote);
        let tunnels = &self.learned.get(&network)?.settings.tunnels;
        let tunnel = tunnels.iter().find(|tunnel| tunnel.local.is_ipv4() == remote.is_ipv4())?;
        let tunnel = Tunnel { remote, ..tunnel.clone() };
        (is_another && tunnel.local != remote && tunnel.check().is_ok()).then_some(tunnel)
    }

    /// Removes entries that were not heard of for as long as their networks let them stay; whether
    /// there were any.
    pub fn age(&mut self, now: Duration) -> bool {
        let mut is_changed = false;
        let networks: Vec<u32> = self.learned.keys().copied().collect();
        for network in networks {
            while let Some(learned) = self.learned.get_mut(&network)
                && let Some((station, observed)) = learned.oldest()
                && now.saturating_sub(observed) > learned.settings.age
            {
                learned.counts.aged += 1;
                self.unlearn(network, station);
                is_changed = true;
            }
        }
        is_changed
    }

    fn unlearn(&mut self, network: u32, station: u64) {
        if let Some(learned) = self.learned.get_mut(&network) {
            learned.forget(station);
        }
        // Another owner's entry stays.
        let _ = self.remove_as(Owner::Learned, network, station.into());
    }

    /// How a network learns; `None` when it does not.
    pub fn learns(&self, network: u32) -> Option<&Learning> {
        self.learned.get(&network).map(|learned| &learned.settings)
    }

    /// What became of what a network observed.
    pub fn learning(&self, network: u32) -> LearningCounts {
        self.learned.get(&network).map_or(LearningCounts::default(), |learned| learned.counts)
    }
}
