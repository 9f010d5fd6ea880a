//! Networks whose entries are prefixes of addresses (RFC 9300, and routes of EVPN's type 5):
//! a packet goes by the longest that its destination has. Each has tables of its own, which a
//! thread asks for at the network's first packet.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fib::{Reader, Rib};
use memory::Packet;
use port::Reason;
use wire::{ipv4, ipv6};

use crate::error::{Error, Result};
use crate::hop::{Hop, TunnelId};
use crate::network::{Match, Network};
use crate::owner::{Owner, Target};
use crate::table::Overlay;
use crate::tunnels::Use;
use crate::underlay::Prefix;

/// Networks with prefixes, at most: tables of one take 2.5 MiB when they are empty, and as much
/// again once they were changed.
pub const MAX_ROUTED: usize = 256;

/// A network's prefixes.
#[derive(Debug)]
pub(crate) struct Routes {
    /// The number that the network got when it was made, by which threads find its tables.
    pub(crate) incarnation: u32,
    v4: Rib<u32, Hop>,
    v6: Rib<u128, Hop>,
}

impl Routes {
    pub(crate) fn new(incarnation: u32) -> Routes {
        Routes { incarnation, v4: Rib::new(), v6: Rib::new() }
    }

    fn get(&self, (address, len): Prefix) -> Option<&Hop> {
        match address {
            IpAddr::V4(address) => self.v4.get((address.to_bits(), len)),
            IpAddr::V6(address) => self.v6.get((address.to_bits(), len)),
        }
    }

    fn insert(&mut self, (address, len): Prefix, hop: Hop) -> fib::Result<Option<Hop>> {
        match address {
            IpAddr::V4(address) => self.v4.insert((address.to_bits(), len), hop),
            IpAddr::V6(address) => self.v6.insert((address.to_bits(), len), hop),
        }
    }

    fn remove(&mut self, (address, len): Prefix) -> fib::Result<Option<Hop>> {
        match address {
            IpAddr::V4(address) => self.v4.remove((address.to_bits(), len)),
            IpAddr::V6(address) => self.v6.remove((address.to_bits(), len)),
        }
    }

    /// All prefixes and where they lead, those of IPv4 first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Prefix, &Hop)> + '_ {
        let v4 = self.v4.iter().map(|entry| ((IpAddr::V4(entry.rule.0.into()), entry.rule.1), entry.hop));
        let v6 = self.v6.iter().map(|entry| ((IpAddr::V6(entry.rule.0.into()), entry.rule.1), entry.hop));
        v4.chain(v6)
    }

    /// The prefix that decides about a packet, and where it leads.
    pub(crate) fn decides(&self, packet: &[u8]) -> Option<(Prefix, &Hop)> {
        match destination(packet)? {
            IpAddr::V4(dst) => {
                let entry = self.v4.route(dst.to_bits())?;
                Some(((IpAddr::V4(entry.rule.0.into()), entry.rule.1), entry.hop))
            }
            IpAddr::V6(dst) => {
                let entry = self.v6.route(dst.to_bits())?;
                Some(((IpAddr::V6(entry.rule.0.into()), entry.rule.1), entry.hop))
            }
        }
    }

    pub(crate) fn refresh(&mut self, hop: &Hop) {
        self.v4.refresh(hop.clone());
        self.v6.refresh(hop.clone());
    }

    pub(crate) fn publish(&mut self) {
        self.v4.publish();
        self.v6.publish();
    }

    /// Entries of all.
    pub(crate) fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }
}

/// Where an IP packet goes.
#[inline]
fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first().map(|first| ipv4::version(*first)) {
        Some(4) => ipv4::Header::of(packet).map(|header| IpAddr::V4(header.dst())),
        Some(6) => ipv6::Header::of(packet).map(|header| IpAddr::V6(header.dst())),
        _ => None,
    }
}

/// What a thread reads of a network's prefixes.
type Readers = (Reader<u32, Hop>, Reader<u128, Hop>);

/// Readers of all networks' prefixes, from which threads take their own.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedReaders(Arc<Mutex<HashMap<u32, Readers>>>);

impl SharedReaders {
    fn all(&self) -> MutexGuard<'_, HashMap<u32, Readers>> {
        // Nothing that is done under the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, routes: &mut Routes) {
        self.all().insert(routes.incarnation, (routes.v4.reader(), routes.v6.reader()));
    }

    pub(crate) fn remove(&self, incarnation: u32) {
        self.all().remove(&incarnation);
    }
}

/// A thread's own readers.
#[derive(Debug, Clone)]
pub(crate) struct Routing {
    shared: SharedReaders,
    own: HashMap<u32, Readers>,
}

impl Routing {
    pub(crate) fn new(shared: SharedReaders) -> Routing {
        Routing { shared, own: HashMap::new() }
    }

    /// The readers of a network's prefixes; `None` when it is gone.
    #[inline]
    pub(crate) fn of(&mut self, incarnation: u32) -> Option<&mut Readers> {
        if !self.own.contains_key(&incarnation) {
            self.take(incarnation);
        }
        self.own.get_mut(&incarnation)
    }

    /// Asks for readers that this thread does not have, and lets those of networks go that are
    /// gone: once for each network.
    #[cold]
    fn take(&mut self, incarnation: u32) {
        let shared = self.shared.all();
        self.own.retain(|incarnation, _| shared.contains_key(incarnation));
        if let Some(readers) = shared.get(&incarnation) {
            self.own.insert(incarnation, readers.clone());
        }
    }
}

/// Where packets go by their destinations, of a batch of `N` at most. `hop` is called with the
/// number of each packet, in order.
#[inline]
pub(crate) fn look_up<const N: usize>(
    (v4, v6): &mut Readers,
    packets: &mut [Packet],
    mut hop: impl FnMut(usize, &mut Packet, Option<&Hop>),
) {
    let (v4, v6) = (v4.fib(), v6.fib());
    let (mut keys4, mut keys6) = ([0; N], [0; N]);
    let (mut indices4, mut indices6) = ([fib::MISS; N], [fib::MISS; N]);
    let (mut is4, mut is6) = (0u64, 0u64);
    const { assert!(N <= 64, "a bit for each packet") };
    for (n, packet) in packets.iter().enumerate() {
        match destination(packet) {
            Some(IpAddr::V4(dst)) => (keys4[n], is4) = (dst.to_bits(), is4 | 1 << n),
            Some(IpAddr::V6(dst)) => (keys6[n], is6) = (dst.to_bits(), is6 | 1 << n),
            None => {}
        }
    }
    if is4 != 0 {
        v4.lookup_batch(&keys4[..packets.len()], &mut indices4);
    }
    if is6 != 0 {
        v6.lookup_batch(&keys6[..packets.len()], &mut indices6);
    }
    for (n, packet) in packets.iter_mut().enumerate() {
        let found = match (is4 >> n & 1, is6 >> n & 1) {
            (1, _) => v4.hop(indices4[n]),
            (_, 1) => v6.hop(indices6[n]),
            _ => None,
        };
        hop(n, packet, found);
    }
}

/// Where one packet goes.
pub(crate) fn look_up_one<'a>((v4, v6): &'a mut Readers, packet: &[u8]) -> Option<&'a Hop> {
    match destination(packet)? {
        IpAddr::V4(dst) => v4.fib().lookup(dst.to_bits()),
        IpAddr::V6(dst) => v6.fib().lookup(dst.to_bits()),
    }
}

/// Why a packet that no prefix has is not sent.
pub(crate) fn check(packet: &[u8]) -> std::result::Result<(), Reason> {
    destination(packet).map(drop).ok_or(Reason::OverlayNoIp)
}

/// A prefix of a network, as changed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixEntry<'a> {
    /// The addresses that it is about.
    pub prefix: Prefix,
    /// Who asked for it.
    pub owner: Owner,
    /// Where it leads.
    pub target: &'a Target,
    /// By which number senders count what goes there.
    pub tunnel: TunnelId,
    /// Why packets cannot go there now.
    pub problem: Option<Reason>,
}

impl Overlay {
    /// Makes the tables of a network that has prefixes.
    pub(crate) fn add_routes(&mut self, number: u32, network: &Network, incarnation: u32) -> Result<()> {
        if network.matching == Match::Exact {
            return Ok(());
        }
        if self.routed.len() == MAX_ROUTED {
            return Err(Error::RoutedFull);
        }
        let mut routes = Routes::new(incarnation);
        self.shared.add(&mut routes);
        self.routed.insert(number, routes);
        Ok(())
    }

    fn routes(&mut self, network: u32) -> Result<&mut Routes> {
        self.state(network)?;
        self.routed.get_mut(&network).ok_or(Error::Matching(network))
    }

    /// Lets packets to addresses of a prefix go by a tunnel or a group, where no longer prefix
    /// has them.
    ///
    /// # Errors
    /// Why there is no such entry: also when it is another owner's ([`Owner`]).
    pub fn insert_prefix(
        &mut self,
        owner: Owner,
        network: u32,
        prefix: Prefix,
        target: impl Into<Target>,
    ) -> Result<()> {
        self.routes(network)?;
        let target = target.into();
        let layer = self.leads(network, &target)?;
        if let Some(other) = self.prefix_owner(network, prefix)
            && other != owner
            && other != Owner::Learned
        {
            return Err(Error::OwnedPrefix { network, prefix, owner: other });
        }
        let hop = self.tunnels.acquire(Use { target, network, layer, owner }, &self.underlay);
        let id = hop.id;
        match self.routes(network)?.insert(prefix, hop) {
            Ok(Some(old)) => self.tunnels.release(old.id),
            Ok(None) => {}
            Err(error) => {
                self.tunnels.release(id);
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// As [`hand_over`](Self::hand_over), of a prefix.
    ///
    /// # Errors
    /// When the network has no prefixes.
    pub fn hand_over_prefix(&mut self, network: u32, prefix: Prefix, owner: Owner) -> Result<()> {
        let used = self.routes(network)?.get(prefix).map(|hop| hop.id);
        let Some(used) = used.and_then(|id| self.tunnels.used(id)).cloned() else { return Ok(()) };
        let hop = self.tunnels.acquire(Use { owner, ..used }, &self.underlay);
        if let Some(old) = self.routes(network)?.insert(prefix, hop)? {
            self.tunnels.release(old.id);
        }
        Ok(())
    }

    /// A prefix of a network, as changed last.
    pub fn prefix_entry(&self, network: u32, prefix: Prefix) -> Option<PrefixEntry<'_>> {
        self.shown_prefix(prefix, self.routed.get(&network)?.get(prefix)?)
    }

    fn prefix_owner(&self, network: u32, prefix: Prefix) -> Option<Owner> {
        Some(self.tunnels.used(self.routed.get(&network)?.get(prefix)?.id)?.owner)
    }

    /// Removes an owner's prefix; whether it was there.
    ///
    /// # Errors
    /// When the network has no prefixes.
    pub fn remove_prefix(&mut self, owner: Owner, network: u32, prefix: Prefix) -> Result<bool> {
        self.routes(network)?;
        if self.prefix_owner(network, prefix) != Some(owner) {
            return Ok(false);
        }
        let old = self.routes(network)?.remove(prefix)?;
        if let Some(old) = &old {
            self.tunnels.release(old.id);
        }
        Ok(old.is_some())
    }

    /// All prefixes of a network, as changed last.
    pub fn prefixes_of(&self, network: u32) -> impl Iterator<Item = PrefixEntry<'_>> + '_ {
        let prefixes = self.routed.get(&network).into_iter().flat_map(Routes::iter);
        prefixes.filter_map(|(prefix, hop)| self.shown_prefix(prefix, hop))
    }

    pub(crate) fn shown_prefix(&self, prefix: Prefix, hop: &Hop) -> Option<PrefixEntry<'_>> {
        let used = self.tunnels.used(hop.id)?;
        let (owner, target, tunnel) = (used.owner, &used.target, hop.id);
        Some(PrefixEntry { prefix, owner, target, tunnel, problem: hop.state.problem() })
    }

    /// Takes a network's prefixes away, if it has any.
    pub(crate) fn remove_routes(&mut self, network: u32) {
        let Some(routes) = self.routed.remove(&network) else { return };
        self.shared.remove(routes.incarnation);
        routes.iter().for_each(|(_, hop)| self.tunnels.release(hop.id));
    }
}
