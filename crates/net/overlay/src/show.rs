//! The table for people: entries with their owners, and why a packet goes where it goes.

use fib::exact::Key;

use crate::encap::{Sent, unknown, way};
use crate::hop::{Hop, TunnelId};
use crate::owner::{Owner, Target};
use crate::reason::Reason;
use crate::table::Overlay;
use crate::tunnel::Tunnel;

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

/// What becomes of a packet, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation<'a> {
    /// The identifier of the packet, if it has one.
    pub identifier: Option<u128>,
    /// The entry that has it.
    pub entry: Option<Entry<'a>>,
    /// The tunnel into which it goes: of a group the one that its flow chooses.
    pub tunnel: Option<(TunnelId, &'a Tunnel)>,
    /// The headers in front of it, without the tunnel's own numbers and checksums.
    pub headers: Vec<u8>,
    /// What becomes of it.
    pub sent: Sent,
}

impl Overlay {
    /// The tunnel that packets with this identifier go by, as changed last; `None` when there
    /// is no entry, or it leads to a group.
    pub fn get(&self, network: u32, identifier: u128) -> Option<&Tunnel> {
        self.tunnels.get(self.entries.get(Key::new(network, identifier))?.id)
    }

    /// The entry of an identifier, as changed last.
    pub fn entry(&self, network: u32, identifier: u128) -> Option<Entry<'_>> {
        self.shown(identifier, self.entries.get(Key::new(network, identifier))?)
    }

    /// All entries of a network, as changed last, in the order of their identifiers.
    pub fn entries_of(&self, network: u32) -> impl Iterator<Item = Entry<'_>> + '_ {
        let entries = self.entries.range(Key::new(network, 0), Key::new(network, u128::MAX));
        entries.filter_map(|entry| self.shown(entry.rule.bits(), entry.hop))
    }

    fn shown(&self, identifier: u128, hop: &Hop) -> Option<Entry<'_>> {
        let used = self.tunnels.used(hop.id)?;
        let (owner, target, tunnel) = (used.owner, &used.target, hop.id);
        Some(Entry { identifier, owner, target, tunnel, problem: hop.state.problem() })
    }

    /// Why packets of an entry cannot be sent now; `None` when they can, or without an entry.
    pub fn problem(&self, network: u32, identifier: u128) -> Option<Reason> {
        self.entries.get(Key::new(network, identifier))?.state.problem()
    }

    /// The members of a group.
    pub fn group(&self, number: u64) -> Option<&[Tunnel]> {
        self.tunnels.groups.get(&number).map(|group| group.members())
    }

    /// What becomes of a packet of a network that is sent now, all changes published.
    pub fn explain(&self, network: u32, packet: &[u8]) -> Explanation<'_> {
        let nothing = |reason| Explanation {
            identifier: None,
            entry: None,
            tunnel: None,
            headers: Vec::new(),
            sent: Sent::Drop(reason),
        };
        let Some(state) = self.networks.get(&network) else { return nothing(Reason::UnknownNetwork) };
        let key = match state.network.key(network, packet) {
            Ok(key) => key,
            Err(reason) => return nothing(reason),
        };
        let identifier = Some(key.bits());
        let Some(hop) = self.entries.get(key) else {
            let sent = unknown(&state.network, network, packet);
            return Explanation { identifier, sent, ..nothing(Reason::UnknownKey) };
        };
        let entry = self.shown(key.bits(), hop);
        let (id, ready, inner) = match way(hop, packet, &state.network) {
            Ok(way) => way,
            Err(reason) => return Explanation { identifier, entry, ..nothing(reason) },
        };
        let tunnel = self.tunnels.get(id).map(|tunnel| (id, tunnel));
        let (headers, sent) = match ready.explain(&inner, packet.len()) {
            Ok(headers) => (headers, Sent::Port(ready.port)),
            Err(reason) => (Vec::new(), Sent::Drop(reason)),
        };
        Explanation { identifier, entry, tunnel, headers, sent }
    }
}
