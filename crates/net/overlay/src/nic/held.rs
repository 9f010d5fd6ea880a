//! What there is to know of networks, tunnels and places when a NIC's table is kept: what it has, and
//! what it is to have as soon as there is room.

use std::collections::{BTreeMap, BTreeSet};

use port::{EncapHeaders, EncapLayer, EncapNetwork};

use crate::hop::{State, TunnelId};
use crate::network::{Layer, Match, Network, Unknown};
use crate::table::Overlay;

/// A network whose packets a NIC can look up.
#[derive(Debug)]
pub(super) struct Held {
    /// Which one of the networks that had its number.
    pub(super) incarnation: u32,
    /// Its place in the NIC, if it has one.
    pub(super) place: Option<u16>,
    /// What the NIC is told of it.
    pub(super) network: EncapNetwork,
    /// Whether packets without an entry are dropped, as soon as the NIC has all entries.
    may_drop: bool,
    /// The tunnels of all of its entries.
    pub(super) entries: BTreeMap<u128, TunnelId>,
    /// How many of these the NIC has.
    pub(super) inside: usize,
    /// The tunnels, each once.
    pub(super) ways: BTreeSet<TunnelId>,
}

impl Held {
    /// A network without entries and without a place; `None` of one that a NIC cannot have.
    pub(super) fn new(network: &Network, incarnation: u32) -> Option<Held> {
        if network.matching != Match::Exact {
            return None;
        }
        let layer = match network.layer {
            Layer::Ethernet => EncapLayer::Ethernet,
            Layer::Ip => EncapLayer::Ip,
            Layer::Service => EncapLayer::Service,
        };
        let (offset, bits) = (network.extractor.offset(), network.extractor.bits());
        Some(Held {
            incarnation,
            place: None,
            network: EncapNetwork { offset, bits, layer, drops_unknown: false },
            may_drop: network.unknown == Unknown::Drop,
            entries: BTreeMap::new(),
            inside: 0,
            ways: BTreeSet::new(),
        })
    }

    /// Whether the NIC is to drop packets without an entry: only where the table would, too.
    pub(super) fn drops(&self) -> bool {
        self.may_drop && self.inside == self.entries.len()
    }
}

/// A tunnel of a network, with the entries that lead to it.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) network: u32,
    /// Its headers; `None` while the NIC cannot send its packets.
    pub(super) headers: Option<[EncapHeaders; 2]>,
    /// The headers' place in the NIC, which they have as long as entries there lead to it.
    pub(super) place: Option<u32>,
    /// Entries that the NIC has.
    pub(super) inside: BTreeSet<u128>,
    /// Entries that it has not.
    pub(super) outside: BTreeSet<u128>,
    /// How many of these are counted as without room.
    pub(super) counted: usize,
}

impl Way {
    /// A tunnel to which no entry leads.
    pub(super) fn new(network: u32, headers: Option<[EncapHeaders; 2]>) -> Way {
        let (inside, outside) = (BTreeSet::new(), BTreeSet::new());
        Way { network, headers, place: None, inside, outside, counted: 0 }
    }

    /// The entries for which there is nothing but no room.
    pub(super) fn without_room(&self) -> usize {
        if self.headers.is_some() { self.outside.len() } else { 0 }
    }

    /// Whether no entry leads here.
    pub(super) fn is_unused(&self) -> bool {
        self.inside.is_empty() && self.outside.is_empty()
    }
}

/// Places for headers.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Those that are free again, the next one last.
    free: Vec<u32>,
    /// Where those begin that never were used.
    fresh: u32,
}

impl Places {
    /// Whether one of so many is free.
    pub(super) fn has_any(&self, of: usize) -> bool {
        !self.free.is_empty() || (self.fresh as usize) < of
    }

    /// One of so many.
    pub(super) fn take(&mut self, of: usize) -> Option<u32> {
        if (self.fresh as usize) < of {
            self.fresh += 1;
            return Some(self.fresh - 1);
        }
        self.free.pop()
    }

    pub(super) fn give_back(&mut self, place: u32) {
        self.free.push(place);
    }
}

impl Overlay {
    /// How often it was published.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The headers of a tunnel for a NIC that is this port, as changed last; `None` while its packets
    /// do not leave by the port, and of what a NIC does not do.
    pub(super) fn nic_headers(&self, tunnel: TunnelId, port: u16) -> Option<[EncapHeaders; 2]> {
        self.tunnels.get(tunnel)?; // a group is no single tunnel's headers
        match self.tunnels.hop(tunnel).state {
            State::Ready(ready) if ready.port == port => ready.nic_headers(),
            State::Ready(_) | State::Group(_) | State::Closed(_) => None,
        }
    }
}
