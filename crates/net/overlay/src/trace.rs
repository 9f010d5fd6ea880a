//! Why a packet goes where it goes: the packet is sent, by the code that sends all packets, and
//! what that code found on the way is noted. The table tells the names of it.

use fib::exact::Key;
use memory::Packet;

use crate::encap::{Encapsulator, Sent};
use crate::hop::TunnelId;
use crate::routes::PrefixEntry;
use crate::show::Entry;
use crate::table::Overlay;
use crate::tunnel::Tunnel;

/// Takes notes of a packet's way. Packets that are sent have `()`, which notes nothing and
/// takes no instruction.
pub(crate) trait Note {
    /// The packet's identifier.
    fn key(&mut self, key: Key);
    /// What the entry leads to.
    fn entry(&mut self, leads: TunnelId);
    /// The tunnel: of a group, the one that the flow chooses.
    fn tunnel(&mut self, tunnel: TunnelId);
}

impl Note for () {
    #[inline(always)]
    fn key(&mut self, _: Key) {}

    #[inline(always)]
    fn entry(&mut self, _: TunnelId) {}

    #[inline(always)]
    fn tunnel(&mut self, _: TunnelId) {}
}

/// What was found on the way of one packet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Noted {
    key: Option<Key>,
    entry: Option<TunnelId>,
    tunnel: Option<TunnelId>,
}

impl Note for Noted {
    fn key(&mut self, key: Key) {
        self.key = Some(key);
    }

    fn entry(&mut self, leads: TunnelId) {
        self.entry = Some(leads);
    }

    fn tunnel(&mut self, tunnel: TunnelId) {
        self.tunnel = Some(tunnel);
    }
}

/// What became of a packet, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation<'a> {
    /// The identifier of the packet, if it has one.
    pub identifier: Option<u128>,
    /// The entry that has it.
    pub entry: Option<Entry<'a>>,
    /// In a network of prefixes, the one that decides about it.
    pub prefix: Option<PrefixEntry<'a>>,
    /// The tunnel into which it goes: of a group the one that its flow chooses.
    pub tunnel: Option<(TunnelId, &'a Tunnel)>,
    /// What became of it.
    pub sent: Sent,
}

impl Overlay {
    /// Sends a packet of a network by a [sender that tries](Self::trial_encapsulator), and says
    /// what that found on the way. The packet has its headers then, or is as it was. All changes
    /// must be published: of those that are not, nothing is said.
    pub fn explain(&self, sender: &mut Encapsulator, network: u32, packet: &mut Packet) -> Explanation<'_> {
        // The lookup tells where the packet goes; which prefix that was for is the table's to say.
        let prefix = self.routed.get(&network).and_then(|routes| routes.decides(packet));
        let (sent, noted) = sender.trace(network, packet);
        let identifier = noted.key.map(|key| key.bits());
        let entry = noted.key.zip(noted.entry);
        let entry = entry.and_then(|(key, id)| self.shown(key.bits(), id, self.tunnels.problem(id)));
        let prefix = prefix.filter(|(_, hop)| Some(hop.id) == noted.entry);
        let prefix = prefix.and_then(|(prefix, hop)| self.shown_prefix(prefix, hop));
        let tunnel = noted.tunnel.and_then(|id| Some((id, self.tunnels.get(id)?)));
        Explanation { identifier, entry, prefix, tunnel, sent }
    }
}
