//! Sending into tunnels: one lookup, one copy of finished headers, and what differs between
//! packets.

use std::collections::BTreeSet;
use std::time::Duration;

use fib::exact::{Exact, Key};
use fib::{Fib, MISS, Reader};
use memory::{Packet, TxOffload};
use port::{Capabilities, Feature, Reason, software};
use wire::Inner;
use wire::tunnel::nsh;

use crate::answer::{self, Answers, Limit};
use crate::count::{Counting, OwnCounts};
use crate::drops::Drops;
use crate::group::Members;
use crate::hop::{Hop, Ready, State, inspect};
use crate::network::{Layer, Match, Network, Unknown};
use crate::routes::{self, Routing};
use crate::table::{Published, flood_key, network_key};
use crate::trace::{Note, Noted};

/// Packets that are looked up together.
const LANES: usize = 32;

/// What became of a packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The headers are in front of it: it leaves by this port of the underlay.
    Port(u16),
    /// It is as it was: no entry has its identifier, and the network gives such packets back.
    Punt,
    /// It is as it was: no entry has its identifier, and a copy goes to each tunnel of the
    /// flood list ([`Encapsulator::flood`]).
    Flood,
    /// It is counted and must be dropped. It is as it was, but for what it left to a NIC.
    Drop(Reason),
}

/// One who sends into tunnels; each thread has its own.
#[derive(Debug, Clone)]
pub struct Encapsulator {
    networks: Reader<Exact, Published>,
    entries: Reader<Exact, Hop>,
    floods: Reader<Exact, Hop>,
    routing: Routing,
    drops: Drops,
    /// Counters of tunnels.
    tunnels: Counting,
    /// Counters of entries.
    counting: Counting,
    now_ns: u64,
    limit: Limit,
    /// Of the next packet.
    number: u32,
    /// Ports that fill in checksums inside a tunnel's packet.
    summing: BTreeSet<u16>,
}

impl Encapsulator {
    pub(crate) fn new(
        networks: Reader<Exact, Published>,
        entries: Reader<Exact, Hop>,
        floods: Reader<Exact, Hop>,
        routing: Routing,
        (tunnels, counting): (Counting, Counting),
    ) -> Encapsulator {
        Encapsulator {
            networks,
            entries,
            floods,
            routing,
            drops: Drops::default(),
            tunnels,
            counting,
            now_ns: 0,
            limit: Limit::default(),
            number: 0,
            summing: BTreeSet::new(),
        }
    }

    /// What was dropped since the start, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Says what a port of the underlay can do: checksums that packets wait for are left to
    /// one that has [`Feature::TunnelChecksum`]. For others they are computed here, which
    /// reads the packet.
    pub fn set_port(&mut self, port: u16, capabilities: &Capabilities) {
        match capabilities.has(Feature::TunnelChecksum) {
            true => self.summing.insert(port),
            false => self.summing.remove(&port),
        };
    }

    /// Says what time it is, as the time since any moment, the same for all senders: when an
    /// entry was used last is known as exactly as this is said often.
    #[inline]
    pub fn set_time(&mut self, now: Duration) {
        self.now_ns = now.as_nanos() as u64; // enough for 500 years
    }

    /// How many packets that were too long were answered.
    pub fn answers(&self) -> Answers {
        self.limit.answers
    }

    /// Puts packets of a virtual network into their tunnels. `sent` says of each what became
    /// of it.
    ///
    /// # Panics
    /// When `sent` is shorter than `packets`.
    pub fn encapsulate(&mut self, network: u32, packets: &mut [Packet], sent: &mut [Sent]) {
        self.encapsulate_noting(network, packets, sent, &mut ());
    }

    /// As [`encapsulate`](Self::encapsulate), of one packet; also what was found on the way.
    pub(crate) fn trace(&mut self, network: u32, packet: &mut Packet) -> (Sent, Noted) {
        let (mut sent, mut noted) = ([Sent::Punt], Noted::default());
        self.encapsulate_noting(network, std::slice::from_mut(packet), &mut sent, &mut noted);
        (sent[0], noted)
    }

    #[inline(always)]
    fn encapsulate_noting(
        &mut self,
        network: u32,
        packets: &mut [Packet],
        sent: &mut [Sent],
        note: &mut impl Note,
    ) {
        let Some(&Published { network: settings, incarnation, .. }) =
            self.networks.fib().lookup(network_key(network))
        else {
            for sent in &mut sent[..packets.len()] {
                *sent = dropped(&mut self.drops, Reason::OverlayUnknownNetwork);
            }
            return;
        };
        let sent = &mut sent[..packets.len()];
        if settings.matching == Match::LongestPrefix {
            return self.route((network, &settings, incarnation), packets, sent, note);
        }
        let fib = self.entries.fib();
        let only = only_entry(fib, &settings, incarnation);
        for (packets, sent) in packets.chunks_mut(LANES).zip(sent.chunks_mut(LANES)) {
            let (mut indices, mut entries) = ([MISS; LANES], [0; LANES]);
            match only {
                Some((index, entry)) => {
                    for (packet, found) in packets.iter().zip(&mut indices) {
                        let key = settings.key(incarnation, packet);
                        *found = if key.is_ok() { index } else { MISS };
                        key.iter().for_each(|key| note.key(*key));
                    }
                    entries = [entry; LANES];
                }
                None => look_up(fib, &settings, incarnation, packets, (&mut indices, &mut entries), note),
            }
            let found = indices.into_iter().zip(entries);
            for ((packet, (index, entry)), sent) in packets.iter_mut().zip(found).zip(sent) {
                *sent = match fib.hop(index) {
                    Some(hop) => {
                        self.number = self.number.wrapping_add(1);
                        let entry = Some((&*self.counting.own, entry, self.now_ns));
                        let counts = (&*self.tunnels.own, entry);
                        send(hop, packet, &settings, self.number, &self.summing, counts, note)
                    }
                    None => unknown(&settings, network, packet),
                };
                if let Sent::Drop(reason) = *sent {
                    self.drops.count(reason);
                }
            }
        }
    }

    /// Puts packets into tunnels by the longest prefixes of their destinations.
    fn route(
        &mut self,
        (number, settings, incarnation): (u32, &Network, u32),
        packets: &mut [Packet],
        sent: &mut [Sent],
        note: &mut impl Note,
    ) {
        let Encapsulator { routing, drops, tunnels, summing, number: next, .. } = self;
        let Some(readers) = routing.of(incarnation) else {
            // The network was removed a moment ago.
            sent.iter_mut().for_each(|sent| *sent = dropped(drops, Reason::OverlayUnknownNetwork));
            return;
        };
        for (packets, sent) in packets.chunks_mut(LANES).zip(sent.chunks_mut(LANES)) {
            routes::look_up::<LANES>(readers, packets, |n, packet, hop| {
                sent[n] = match hop {
                    Some(hop) => {
                        *next = next.wrapping_add(1);
                        send(hop, packet, settings, *next, summing, (&*tunnels.own, None), note)
                    }
                    None => unknown(settings, number, packet),
                };
                if let Sent::Drop(reason) = sent[n] {
                    drops.count(reason);
                }
            });
        }
    }

    /// Puts the answer to a packet that was dropped as [`Reason::OverlayTooLong`] in its place: what is
    /// to be sent back into the network, so that the sender makes shorter packets. False, and
    /// the packet as it was, when nobody is to be told or too many were. `now` is the time since
    /// any moment, the same for all calls. The answer comes from the address to which the
    /// packet was sent, as Linux's does.
    pub fn answer(&mut self, network: u32, packet: &mut Packet, now: Duration) -> bool {
        let published = self.networks.fib().lookup(network_key(network));
        let Some(&Published { network: settings, incarnation, .. }) = published else { return false };
        let hop = match settings.matching {
            Match::LongestPrefix => {
                self.routing.of(incarnation).and_then(|readers| routes::look_up_one(readers, packet))
            }
            Match::Exact => {
                settings.key(incarnation, packet).ok().and_then(|key| self.entries.fib().lookup(key))
            }
        };
        hop.is_some_and(|hop| answer_for(hop, packet, &settings, (&mut self.limit, now)))
    }

    /// As [`answer`](Self::answer), to a packet that a place of the flood list did not take.
    pub fn answer_flood(&mut self, network: u32, place: u32, packet: &mut Packet, now: Duration) -> bool {
        let published = self.networks.fib().lookup(network_key(network));
        let Some(&Published { network: settings, incarnation, .. }) = published else { return false };
        let hop = self.floods.fib().lookup(flood_key(incarnation, place));
        hop.is_some_and(|hop| answer_for(hop, packet, &settings, (&mut self.limit, now)))
    }

    /// Tunnels to which copies of a packet go that nothing is known of. Each place has its
    /// own copy: see [`flood`](Self::flood).
    pub fn flood_len(&mut self, network: u32) -> u32 {
        self.networks.fib().lookup(network_key(network)).map_or(0, |published| published.flood)
    }

    /// Puts a copy of a packet into the tunnel at a place of the flood list, from 0 to
    /// [`flood_len`](Self::flood_len).
    pub fn flood(&mut self, network: u32, place: u32, packet: &mut Packet) -> Sent {
        let settings = self.networks.fib().lookup(network_key(network));
        let Some(&Published { network: settings, incarnation, .. }) = settings else {
            return dropped(&mut self.drops, Reason::OverlayUnknownNetwork);
        };
        self.number = self.number.wrapping_add(1);
        let hop = self.floods.fib().lookup(flood_key(incarnation, place));
        let sent = match hop {
            Some(hop) => {
                let counts = (&*self.tunnels.own, None);
                send(hop, packet, &settings, self.number, &self.summing, counts, &mut ())
            }
            None => Sent::Drop(Reason::OverlayUnknownKey), // the list became shorter meanwhile
        };
        if let Sent::Drop(reason) = sent {
            self.drops.count(reason);
        }
        sent
    }
}

/// Puts what its sender is to be told in the place of a packet that was too long for where it goes.
fn answer_for(
    hop: &Hop,
    packet: &mut Packet,
    settings: &Network,
    (limit, now): (&mut Limit, Duration),
) -> bool {
    let Ok((ready, _)) = way(hop, packet, settings) else { return false };
    let longest = ready.max_len();
    packet.total_len() > longest && answer::too_long(packet, settings.layer, longest, || limit.allows(now))
}

/// The entry of all packets of a network with one far end, but of those that are too short for
/// where the identifier would stand: its hop's index, and its number.
fn only_entry(fib: &Fib<Exact, Hop>, settings: &Network, incarnation: u32) -> Option<(u32, u32)> {
    (settings.extractor.bits() == 0).then(|| {
        let (mut index, mut entry) = ([MISS], [0]);
        fib.lookup_batch_numbered(&[Key::new(incarnation, 0)], &mut index, &mut entry);
        (index[0], entry[0])
    })
}

/// Looks up entries by the packets' identifiers: indices of hops, and the entries' numbers.
#[inline(always)]
fn look_up(
    fib: &Fib<Exact, Hop>,
    settings: &Network,
    incarnation: u32,
    packets: &[Packet],
    (indices, entries): (&mut [u32; LANES], &mut [u32; LANES]),
    note: &mut impl Note,
) {
    let mut keys = [Key::default(); LANES];
    let mut without_key = 0u32;
    for (n, (packet, key)) in packets.iter().zip(&mut keys).enumerate() {
        match settings.key(incarnation, packet) {
            Ok(found) => {
                note.key(found);
                *key = found;
            }
            Err(_) => without_key |= 1 << n,
        }
    }
    fib.lookup_batch_numbered(&keys[..packets.len()], indices, entries);
    while without_key != 0 {
        indices[without_key.trailing_zeros() as usize] = MISS;
        without_key &= without_key - 1;
    }
}

fn dropped(drops: &mut Drops, reason: Reason) -> Sent {
    drops.count(reason);
    Sent::Drop(reason)
}

#[inline(always)]
fn send(
    hop: &Hop,
    packet: &mut Packet,
    settings: &Network,
    number: u32,
    summing: &BTreeSet<u16>,
    (tunnels, entry): (&OwnCounts, Option<(&OwnCounts, u32, u64)>),
    note: &mut impl Note,
) -> Sent {
    note.entry(hop.id);
    match try_send(hop, packet, settings, number, summing, note) {
        Ok((ready, len)) => {
            tunnels.add(ready.id.number, len as u64);
            if let Some((counts, entry, now_ns)) = entry {
                counts.add_at(entry, len as u64, now_ns);
            }
            Sent::Port(ready.port)
        }
        Err(reason) => Sent::Drop(reason),
    }
}

/// Puts a packet into a tunnel: which, and the packet's length before.
#[inline(always)]
fn try_send<'a>(
    hop: &'a Hop,
    packet: &mut Packet,
    settings: &Network,
    number: u32,
    summing: &BTreeSet<u16>,
    note: &mut impl Note,
) -> Result<(&'a Ready, usize), Reason> {
    let (ready, inner) = way(hop, packet, settings)?;
    note.tunnel(ready.id);
    let len = packet.total_len();
    match packet.tx_offload().is_empty() {
        true => put_in(ready, packet, &inner, number)?,
        false => put_in_unfinished(ready, packet, &inner, number, summing)?,
    }
    Ok((ready, len))
}

#[inline(always)]
fn put_in(ready: &Ready, packet: &mut Packet, inner: &Inner, number: u32) -> Result<(), Reason> {
    match ready.layer {
        Layer::Service => send_service(ready, packet, inner, number),
        layer => ready.encapsulate(packet, inner, layer, number),
    }
}

/// Puts a packet into a tunnel that waits for a tag, for checksums or for being cut: a tag is of
/// the packet inside and is put there; checksums are left to a port that can, where the tunnel has
/// none over them.
#[cold]
fn put_in_unfinished(
    ready: &Ready,
    packet: &mut Packet,
    inner: &Inner,
    number: u32,
    summing: &BTreeSet<u16>,
) -> Result<(), Reason> {
    let asked = packet.tx_offload();
    let tags = asked.has(TxOffload::VLAN);
    if tags && ready.layer != Layer::Ethernet {
        return Err(Reason::OverlayOffload);
    }
    if tags && !software::insert_tag(packet) {
        return Err(Reason::OverlayNoHeadroom);
    }
    let asked = packet.tx_offload();
    if asked.has(TxOffload::SEGMENT) {
        return put_in_long(ready, packet, number);
    }
    let l2_len = u8::try_from(ready.header_len(inner) + usize::from(asked.l2_len));
    let left = match l2_len {
        Ok(l2_len) if summing.contains(&ready.port) && !ready.sums_payload() && !asked.is_empty() => {
            TxOffload { flags: asked.flags | TxOffload::TUNNEL, l2_len, ..asked }
        }
        _ if software::fill_checksums(packet) => TxOffload::default(),
        _ => return Err(Reason::OverlayOffload),
    };
    // A tag moved what is known of the packet.
    let inner = inspect(packet, ready.layer).ok_or(Reason::OverlayNoIp)?;
    put_in(ready, packet, &inner, number)?;
    packet.set_tx_offload(left);
    Ok(())
}

/// Puts a packet into a tunnel that is to be cut: with the tunnel's headers in front, so that one
/// lookup and one copy of these are for all that it is cut into (the paper, section 5). Tunnels
/// with more in their headers than lengths are refused.
fn put_in_long(ready: &Ready, packet: &mut Packet, number: u32) -> Result<(), Reason> {
    let asked = packet.tx_offload();
    let inner = inspect(packet, ready.layer).ok_or(Reason::OverlayNoIp)?;
    let l2_len = u8::try_from(ready.header_len(&inner) + usize::from(asked.l2_len));
    let l2_len = l2_len.map_err(|_| Reason::OverlayOffload)?;
    ready.encapsulate_long(packet, &inner, number)?;
    packet.set_tx_offload(TxOffload { flags: asked.flags | TxOffload::TUNNEL, l2_len, ..asked });
    Ok(())
}

/// Sends a packet with a network service header, a hop of whose path this is: before outer
/// checksums are made, and not if it is not sent.
fn send_service(ready: &Ready, packet: &mut Packet, inner: &Inner, number: u32) -> Result<(), Reason> {
    let before = service_ttl(packet).ok_or(Reason::OverlayNoKey)?;
    // RFC 8300, section 2.2: 0 is taken for one more than the largest.
    let ttl = before.checked_sub(1).unwrap_or(nsh::DEFAULT_TTL);
    if ttl == 0 {
        return Err(Reason::OverlayServiceTtl);
    }
    set_service_ttl(packet, ttl);
    let sent = ready.encapsulate(packet, inner, Layer::Service, number);
    if sent.is_err() {
        set_service_ttl(packet, before);
    }
    sent
}

fn service_ttl(packet: &[u8]) -> Option<u8> {
    Some(nsh::Header::of(packet)?.ttl())
}

fn set_service_ttl(packet: &mut [u8], ttl: u8) {
    if let Some(mut header) = nsh::Header::of_mut(packet) {
        header.set_ttl(ttl);
    }
}

/// The tunnel by which a packet of a network goes, and what is known of the packet.
#[inline(always)]
fn way<'a>(hop: &'a Hop, packet: &[u8], settings: &Network) -> Result<(&'a Ready, Inner), Reason> {
    let (ready, inner) = match &hop.state {
        State::Ready(ready) => (ready, ready.inspect(packet, settings.layer).ok_or(Reason::OverlayNoIp)?),
        State::Group(members) => way_of_group(members, packet, settings)?,
        State::Closed(reason) => return Err(*reason),
    };
    match ready.layer == settings.layer {
        true => Ok((ready, inner)),
        false => Err(Reason::OverlayBadTunnel), // of a network that has another layer by now
    }
}

/// As [`way`], of a group. Not inlined, as what is known of a packet is read here as well.
#[inline(never)]
fn way_of_group<'a>(
    members: &'a Members,
    packet: &[u8],
    settings: &Network,
) -> Result<(&'a Ready, Inner), Reason> {
    let inner = inspect(packet, settings.layer).ok_or(Reason::OverlayNoIp)?;
    match &members.of(inner.hash).ok_or(Reason::OverlayBadTunnel)?.state {
        State::Ready(ready) => Ok((ready, inner)),
        State::Closed(reason) => Err(*reason),
        State::Group(_) => Err(Reason::OverlayBadTunnel),
    }
}

#[cold]
fn unknown(settings: &Network, network: u32, packet: &[u8]) -> Sent {
    let has_key = match settings.matching {
        Match::Exact => settings.key(network, packet).map(drop),
        Match::LongestPrefix => routes::check(packet),
    };
    match (has_key, settings.unknown) {
        (Err(reason), _) => Sent::Drop(reason),
        (Ok(_), Unknown::Drop) => Sent::Drop(Reason::OverlayUnknownKey),
        (Ok(_), Unknown::Punt) => Sent::Punt,
        (Ok(_), Unknown::Flood) => Sent::Flood,
    }
}
