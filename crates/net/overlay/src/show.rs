//! The table for people: entries with their owners.

use std::net::IpAddr;

use fib::exact::Key;
use port::Reason;

use crate::count::{Count, Usage};
use crate::end::End;
use crate::group::Member;
use crate::hop::{Hop, TunnelId};
use crate::network::Network;
use crate::owner::{Owner, Target};
use crate::table::{Overlay, flood_key};
use crate::tunnel::Tunnel;
use crate::underlay::Port;

/// An entry of the table, as changed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The identifier, right-aligned.
    pub identifier: u128,
    /// Who asked for it.
    pub owner: Owner,
    /// Where it leads.
    pub target: &'a Target,
    /// By which number senders count what goes there.
    pub tunnel: TunnelId,
    /// Why packets cannot go there now.
    pub problem: Option<Reason>,
}

/// Where a network's tunnels lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FarEnd {
    /// The network's number.
    pub network: u32,
    /// The far end's address.
    pub remote: IpAddr,
    /// What went there since something leads there, copies for a flood list among it: it never
    /// becomes less meanwhile, whatever leads there.
    pub count: Count,
}

/// An end of tunnels that is here, as changed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalEnd {
    /// The network that packets come out in.
    pub network: u32,
    /// The UDP port to which they come, where UDP carries the tunnel.
    pub port: Option<u16>,
    /// Whether UDP over IPv6 may have no checksum.
    pub zero_checksum: bool,
}

impl Overlay {
    /// The tunnel that packets with this identifier go by, as changed last; `None` when there
    /// is no entry, or it leads to a group.
    pub fn get(&self, network: u32, identifier: u128) -> Option<&Tunnel> {
        self.tunnels.get(self.entries.get(self.place(network, identifier)?)?.id)
    }

    /// The entry of an identifier, as changed last.
    pub fn entry(&self, network: u32, identifier: u128) -> Option<Entry<'_>> {
        self.shown_hop(identifier, self.entries.get(self.place(network, identifier)?)?)
    }

    /// How much an entry is used; `None` without the entry. What goes by prefixes is not counted
    /// by entry.
    pub fn usage(&self, network: u32, identifier: u128) -> Option<Usage> {
        Some(self.usages.of(self.entries.number(self.place(network, identifier)?)?))
    }

    /// What went into a tunnel since it is one, by all senders; of a group nothing, but of its
    /// members.
    pub fn count(&self, tunnel: TunnelId) -> Count {
        self.tunnels.used(tunnel).map_or(Count::default(), |_| self.tunnels.usages.of(tunnel.number).count)
    }

    /// All far ends of networks' tunnels, in the order of networks and addresses.
    pub fn far_ends(&self) -> impl Iterator<Item = FarEnd> {
        let counts = self.tunnels.far_ends().into_iter();
        counts.map(|((network, remote), count)| FarEnd { network, remote, count })
    }

    /// All entries of a network, as changed last, in the order of their identifiers.
    pub fn entries_of(&self, network: u32) -> impl Iterator<Item = Entry<'_>> + '_ {
        let incarnation = self.networks.get(&network).map(|state| state.incarnation).into_iter();
        let range =
            |incarnation| self.entries.range(Key::new(incarnation, 0), Key::new(incarnation, u128::MAX));
        let entries = incarnation.flat_map(range);
        entries.filter_map(|entry| self.shown_hop(entry.rule.bits(), entry.hop))
    }

    /// The tunnels of a network's flood list, as changed last, in its order.
    pub fn flood(&self, network: u32) -> impl Iterator<Item = &Tunnel> + '_ {
        let incarnation = self.networks.get(&network).map(|state| state.incarnation).into_iter();
        let places = incarnation.flat_map(|incarnation| {
            self.floods.range(flood_key(incarnation, 0), flood_key(incarnation, u32::MAX))
        });
        places.filter_map(|place| self.tunnels.get(place.hop.id))
    }

    /// The end at which packets of a tunnel arrive here, as changed last; what of the tunnel
    /// counts is said at [`Overlay::add_end`].
    pub fn end(&self, tunnel: &Tunnel) -> Option<LocalEnd> {
        let local = self.locals.get(&tunnel.local)?;
        let end = self.ends.get(End::key(tunnel, local.number()))?;
        Some(LocalEnd { network: end.network, port: end.port, zero_checksum: end.zero_checksum })
    }

    fn shown_hop(&self, identifier: u128, hop: &Hop) -> Option<Entry<'_>> {
        self.shown(identifier, hop.id, hop.state.problem())
    }

    /// An entry by what it leads to, and why packets cannot go there.
    pub(crate) fn shown(
        &self,
        identifier: u128,
        tunnel: TunnelId,
        problem: Option<Reason>,
    ) -> Option<Entry<'_>> {
        let used = self.tunnels.used(tunnel)?;
        Some(Entry { identifier, owner: used.owner, target: &used.target, tunnel, problem })
    }

    /// How packets of a network are looked up; `None` without the network.
    pub fn network(&self, number: u32) -> Option<&Network> {
        self.networks.get(&number).map(|state| &state.network)
    }

    /// The numbers of all networks.
    pub fn networks(&self) -> impl Iterator<Item = u32> + '_ {
        self.networks.keys().copied()
    }

    /// Why packets of an entry cannot be sent now; `None` when they can, or without an entry.
    pub fn problem(&self, network: u32, identifier: u128) -> Option<Reason> {
        self.entries.get(self.place(network, identifier)?)?.state.problem()
    }

    /// A port of the underlay, as changed last.
    pub fn port(&self, number: u16) -> Option<&Port> {
        self.underlay.port(number)
    }

    /// The members of a group.
    pub fn group(&self, number: u64) -> Option<&[Member]> {
        self.tunnels.groups.get(&number).map(|group| group.members())
    }
}
