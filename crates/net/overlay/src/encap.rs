//! Sending into tunnels: one lookup, one copy of finished headers, and what differs between
//! packets.

use std::collections::BTreeSet;

use fib::exact::{Exact, Key};
use fib::{MISS, Reader};
use memory::{Packet, TxOffload};
use port::{Capabilities, Feature, software};

use crate::hop::{Hop, Ready, look};
use crate::network::{Layer, Network, Unknown};
use crate::reason::{Drops, Reason};
use crate::table::{flood_key, network_key};

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
    networks: Reader<Exact, (Network, u32)>,
    entries: Reader<Exact, Hop>,
    floods: Reader<Exact, Hop>,
    drops: Drops,
    /// Of the next packet.
    number: u32,
    /// Ports that fill in checksums inside a tunnel's packet.
    summing: BTreeSet<u16>,
}

impl Encapsulator {
    pub(crate) fn new(
        networks: Reader<Exact, (Network, u32)>,
        entries: Reader<Exact, Hop>,
        floods: Reader<Exact, Hop>,
    ) -> Encapsulator {
        Encapsulator {
            networks,
            entries,
            floods,
            drops: Drops::default(),
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

    /// Puts packets of a virtual network into their tunnels. `sent` says of each what became
    /// of it.
    ///
    /// # Panics
    /// When `sent` is shorter than `packets`.
    pub fn encapsulate(&mut self, network: u32, packets: &mut [Packet], sent: &mut [Sent]) {
        let Some(&(settings, _)) = self.networks.fib().lookup(network_key(network)) else {
            for sent in &mut sent[..packets.len()] {
                *sent = dropped(&mut self.drops, Reason::UnknownNetwork);
            }
            return;
        };
        let sent = &mut sent[..packets.len()];
        let fib = self.entries.fib();
        for (packets, sent) in packets.chunks_mut(LANES).zip(sent.chunks_mut(LANES)) {
            let mut keys = [Key::default(); LANES];
            let mut indices = [MISS; LANES];
            let mut without_key = 0u32;
            for (n, (packet, key)) in packets.iter().zip(&mut keys).enumerate() {
                match settings.key(network, packet) {
                    Ok(found) => *key = found,
                    Err(_) => without_key |= 1 << n,
                }
            }
            fib.lookup_batch(&keys[..packets.len()], &mut indices);
            while without_key != 0 {
                indices[without_key.trailing_zeros() as usize] = MISS;
                without_key &= without_key - 1;
            }
            for ((packet, index), sent) in packets.iter_mut().zip(indices).zip(sent) {
                *sent = match fib.hop(index) {
                    Some(hop) => {
                        self.number = self.number.wrapping_add(1);
                        send(hop, packet, &settings, self.number, &self.summing)
                    }
                    None => unknown(&settings, network, packet),
                };
                if let Sent::Drop(reason) = *sent {
                    self.drops.count(reason);
                }
            }
        }
    }

    /// Tunnels to which copies of a packet go that nothing is known of. Each place has its
    /// own copy: see [`flood`](Self::flood).
    pub fn flood_len(&mut self, network: u32) -> u32 {
        self.networks.fib().lookup(network_key(network)).map_or(0, |(_, len)| *len)
    }

    /// Puts a copy of a packet into the tunnel at a place of the flood list, from 0 to
    /// [`flood_len`](Self::flood_len).
    pub fn flood(&mut self, network: u32, place: u32, packet: &mut Packet) -> Sent {
        let settings = self.networks.fib().lookup(network_key(network));
        let Some(&(settings, _)) = settings else { return dropped(&mut self.drops, Reason::UnknownNetwork) };
        self.number = self.number.wrapping_add(1);
        let hop = self.floods.fib().lookup(flood_key(network, place));
        let sent = match hop {
            Some(hop) => send(hop, packet, &settings, self.number, &self.summing),
            None => Sent::Drop(Reason::UnknownKey), // the list became shorter meanwhile
        };
        if let Sent::Drop(reason) = sent {
            self.drops.count(reason);
        }
        sent
    }
}

fn dropped(drops: &mut Drops, reason: Reason) -> Sent {
    drops.count(reason);
    Sent::Drop(reason)
}

#[inline]
fn send(hop: &Hop, packet: &mut Packet, settings: &Network, number: u32, summing: &BTreeSet<u16>) -> Sent {
    let ready = match &hop.state {
        Ok(ready) => ready,
        Err(reason) => return Sent::Drop(*reason),
    };
    if ready.layer != settings.layer {
        return Sent::Drop(Reason::BadTunnel); // of a network that has another layer by now
    }
    let done = match packet.tx_offload().is_empty() {
        true => put_in(ready, packet, number),
        false => put_in_unfinished(ready, packet, number, summing),
    };
    match done {
        Ok(()) => Sent::Port(ready.port),
        Err(reason) => Sent::Drop(reason),
    }
}

#[inline]
fn put_in(ready: &Ready, packet: &mut Packet, number: u32) -> Result<(), Reason> {
    let inner = look(packet, ready.layer).ok_or(Reason::NoIp)?;
    ready.encapsulate(packet, &inner, number)
}

/// Puts a packet into a tunnel that waits for a tag or for checksums: a tag is of the packet
/// inside and is put there; checksums are left to a port that can, where the tunnel has none
/// over them. A packet that is to be cut is refused.
#[cold]
fn put_in_unfinished(
    ready: &Ready,
    packet: &mut Packet,
    number: u32,
    summing: &BTreeSet<u16>,
) -> Result<(), Reason> {
    let asked = packet.tx_offload();
    let inner = look(packet, ready.layer).ok_or(Reason::NoIp)?;
    let tags = asked.has(TxOffload::VLAN);
    if asked.has(TxOffload::SEGMENT) || tags && ready.layer != Layer::Ethernet {
        return Err(Reason::Offload);
    }
    if tags && !software::insert_tag(packet) {
        return Err(Reason::NoHeadroom);
    }
    let asked = packet.tx_offload();
    let l2_len = u8::try_from(ready.header_len(&inner) + usize::from(asked.l2_len));
    let left = match l2_len {
        Ok(l2_len) if summing.contains(&ready.port) && !ready.sums_payload() && !asked.is_empty() => {
            TxOffload { flags: asked.flags | TxOffload::TUNNEL, l2_len, ..asked }
        }
        _ if software::fill_checksums(packet) => TxOffload::default(),
        _ => return Err(Reason::Offload),
    };
    put_in(ready, packet, number)?;
    packet.set_tx_offload(left);
    Ok(())
}

#[cold]
fn unknown(settings: &Network, network: u32, packet: &Packet) -> Sent {
    match (settings.key(network, packet), settings.unknown) {
        (Err(reason), _) => Sent::Drop(reason),
        (Ok(_), Unknown::Drop) => Sent::Drop(Reason::UnknownKey),
        (Ok(_), Unknown::Punt) => Sent::Punt,
        (Ok(_), Unknown::Flood) => Sent::Flood,
    }
}
