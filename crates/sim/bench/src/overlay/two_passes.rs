//! Sending into a tunnel by two passes through a stack: the tunnel is looked up by the packet's
//! identifier and its headers up to IP are copied in front (the first pass), then the outer
//! destination is looked up among the routes, the next hop among the neighbours, and Ethernet's
//! header is put in front (the second).

use std::net::{Ipv4Addr, Ipv6Addr};

use fib::exact::{Exact, Extractor, Key};
use fib::lpm::Address as Bits;
use fib::{Fib, MISS, Reader, Rib, Scheme};
use memory::Packet;
use neighbor::{Limits, Table};
use overlay::{Layer, Network};
use wire::ethernet::EtherType;
use wire::outer::PerPacket;
use wire::tunnel::nsh;
use wire::{Inner, MacAddress, ecn, ethernet, ipv4, ipv6};

use super::BATCH;
use super::subject::{ENDS, Headers, Keys, NETWORK, OWN, Shim, Subject, end, end_v6, neighbor};
use crate::{Error, Result};

/// The address family of a pass.
pub(crate) trait Version: neighbor::Address {
    /// Its bits, by which routes are looked up.
    type Bits: Bits + Default;
    fn bits(self) -> Self::Bits;
    /// The destination of a packet.
    fn dst(packet: &[u8]) -> Option<Self>;
    /// The first bits of all addresses' prefixes.
    const LENGTH: u8;
}

impl Version for Ipv4Addr {
    type Bits = u32;
    const LENGTH: u8 = 32;

    fn bits(self) -> u32 {
        self.to_bits()
    }

    fn dst(packet: &[u8]) -> Option<Ipv4Addr> {
        ipv4::Header::of(packet).map(|header| header.dst())
    }
}

impl Version for Ipv6Addr {
    type Bits = u128;
    const LENGTH: u8 = 128;

    fn bits(self) -> u128 {
        self.to_bits()
    }

    fn dst(packet: &[u8]) -> Option<Ipv6Addr> {
        ipv6::Header::of(packet).map(|header| header.dst())
    }
}

/// One pass through a stack: routes, each to a host on the link, and those hosts.
pub(crate) struct Pass<A: Version> {
    routes: Reader<A::Bits, A>,
    neighbors: Table<A>,
}

impl<A: Version> Pass<A> {
    /// A pass for these hosts.
    pub(crate) fn new(hosts: impl Iterator<Item = (A, MacAddress)>) -> Result<Pass<A>> {
        let mut routes = Rib::<A::Bits, A>::new();
        let limits = Limits { addresses: 1 << 20, ..Limits::default() };
        let mut neighbors = Table::new(limits);
        for (host, mac) in hosts {
            let prefix = (host.bits(), A::LENGTH);
            routes.insert(prefix, host).map_err(|error| Error::new(error.to_string()))?;
            neighbors.insert(host, Some(mac), 0, &mut Vec::new());
        }
        routes.publish();
        Ok(Pass { routes: routes.reader(), neighbors })
    }

    /// The routes of packets.
    #[inline(never)]
    pub(crate) fn route(&mut self, packets: &[Packet]) -> [u32; BATCH] {
        let (mut keys, mut indices) = ([A::Bits::default(); BATCH], [MISS; BATCH]);
        for (key, packet) in keys.iter_mut().zip(packets.iter()) {
            *key = A::dst(packet).map_or_else(A::Bits::default, A::bits);
        }
        self.routes.fib().lookup_batch(&keys[..packets.len()], &mut indices);
        indices
    }

    /// Ethernet's header, to the neighbour of each packet's route.
    #[inline(never)]
    pub(crate) fn leave(&mut self, packets: &mut [Packet], indices: &[u32; BATCH]) {
        let fib = self.routes.fib();
        for (packet, index) in packets.iter_mut().zip(indices) {
            let Some(next_hop) = fib.hop(*index) else { continue };
            let Some((dst, _)) = self.neighbors.lookup(*next_hop, 0, 0) else { continue };
            if let Ok(room) = packet.push_front(ethernet::HEADER_LEN) {
                let header = ethernet::Header::between(dst, OWN, A::ETHERTYPE);
                room.copy_from_slice(&header.into_inner());
            }
        }
    }
}

/// Tunnels by the identifiers of packets.
enum Tunnels {
    Exact(Reader<Exact, Headers>, Extractor),
    Prefixes(Reader<u32, Headers>),
}

/// The second pass, of the outer packets' version.
enum Second {
    V4(Pass<Ipv4Addr>),
    V6(Pass<Ipv6Addr>),
}

/// The tables of both passes.
pub(crate) struct TwoPasses {
    tunnels: Tunnels,
    second: Second,
    layer: Layer,
}

/// Ticks of the first pass's parts: which tunnel and what its headers have to know of the packet
/// inside (the paper's tunnel processing), and the headers (its encapsulation).
pub(crate) type FirstTicks = [u64; 2];

impl TwoPasses {
    /// For a protocol with so many entries.
    pub(crate) fn new(
        subject: &Subject,
        network: &Network,
        shim: &Shim,
        entries: usize,
    ) -> Result<TwoPasses> {
        let tunnels = match subject.keys {
            Keys::Prefixes => {
                let key = |entry| (subject.identifier(entry) as u32, 32);
                Tunnels::Prefixes(tunnels(subject, shim, entries, key)?)
            }
            _ => {
                let key = |entry| Key::new(NETWORK, subject.identifier(entry));
                Tunnels::Exact(tunnels(subject, shim, entries, key)?, network.extractor)
            }
        };
        let ends = 0..u64::from(ENDS);
        let second = match subject.is_v6 {
            true => Second::V6(Pass::new(ends.map(|n| (end_v6(n), neighbor(n))))?),
            false => Second::V4(Pass::new(ends.map(|n| (end(n), neighbor(n))))?),
        };
        Ok(TwoPasses { tunnels, second, layer: network.layer })
    }

    /// Which tunnel, and its headers up to IP.
    #[inline(never)]
    pub(crate) fn first_pass(&mut self, packets: &mut [Packet]) {
        let layer = self.layer;
        match &mut self.tunnels {
            Tunnels::Exact(tunnels, extractor) => {
                let (fib, keys) = (tunnels.fib(), exact_keys(*extractor, packets));
                encapsulate(fib, &find(fib, &keys), layer, packets);
            }
            Tunnels::Prefixes(tunnels) => {
                let (fib, keys) = (tunnels.fib(), destinations(packets));
                encapsulate(fib, &find(fib, &keys), layer, packets);
            }
        }
    }

    /// The same, each of its parts by itself for all packets: ticks of each.
    #[inline(never)]
    pub(crate) fn first_pass_in_parts(&mut self, packets: &mut [Packet], ticks: &mut FirstTicks) {
        let layer = self.layer;
        match &mut self.tunnels {
            Tunnels::Exact(tunnels, extractor) => {
                let extractor = *extractor;
                in_parts(tunnels.fib(), |packets| exact_keys(extractor, packets), layer, packets, ticks);
            }
            Tunnels::Prefixes(tunnels) => in_parts(tunnels.fib(), destinations, layer, packets, ticks),
        }
    }

    /// Route, neighbour, Ethernet's header.
    pub(crate) fn second_pass(&mut self, packets: &mut [Packet]) {
        let indices = self.route(packets);
        self.leave(packets, &indices);
    }

    /// The routes of outer packets.
    pub(crate) fn route(&mut self, packets: &[Packet]) -> [u32; BATCH] {
        match &mut self.second {
            Second::V4(pass) => pass.route(packets),
            Second::V6(pass) => pass.route(packets),
        }
    }

    /// Ethernet's header in front of them.
    pub(crate) fn leave(&mut self, packets: &mut [Packet], indices: &[u32; BATCH]) {
        match &mut self.second {
            Second::V4(pass) => pass.leave(packets, indices),
            Second::V6(pass) => pass.leave(packets, indices),
        }
    }
}

fn tunnels<S: Scheme>(
    subject: &Subject,
    shim: &Shim,
    entries: usize,
    rule: impl Fn(u64) -> S::Rule,
) -> Result<Reader<S, Headers>> {
    let mut tunnels = Rib::<S, Headers>::new();
    for entry in 0..entries as u64 {
        let headers = subject.headers(shim, entry).ok_or_else(|| Error::new("the headers are too long"))?;
        tunnels.insert(rule(entry), headers).map_err(|error| Error::new(error.to_string()))?;
    }
    tunnels.publish();
    Ok(tunnels.reader())
}

#[inline(always)]
fn exact_keys(extractor: Extractor, packets: &[Packet]) -> [Key; BATCH] {
    let mut keys = [Key::default(); BATCH];
    for (key, packet) in keys.iter_mut().zip(packets) {
        *key = extractor.key(NETWORK, packet).unwrap_or_default();
    }
    keys
}

#[inline(always)]
fn destinations(packets: &[Packet]) -> [u32; BATCH] {
    let mut keys = [0; BATCH];
    for (key, packet) in keys.iter_mut().zip(packets) {
        *key = Ipv4Addr::dst(packet).map_or(0, Ipv4Addr::to_bits);
    }
    keys
}

#[inline(always)]
fn find<S: Scheme>(fib: &Fib<S, Headers>, keys: &[S::Key; BATCH]) -> [u32; BATCH] {
    let mut indices = [MISS; BATCH];
    fib.lookup_batch(keys, &mut indices);
    indices
}

#[inline(always)]
fn encapsulate<S: Scheme>(
    fib: &Fib<S, Headers>,
    indices: &[u32; BATCH],
    layer: Layer,
    packets: &mut [Packet],
) {
    for (n, (packet, index)) in packets.iter_mut().zip(indices).enumerate() {
        let Some(headers) = fib.hop(*index) else { continue };
        let inner = inspect(layer, packet);
        put(headers, packet, &inner, n);
    }
}

#[inline(always)]
fn in_parts<S: Scheme>(
    fib: &Fib<S, Headers>,
    keys: impl Fn(&[Packet]) -> [S::Key; BATCH],
    layer: Layer,
    packets: &mut [Packet],
    ticks: &mut FirstTicks,
) {
    let start = bus::tsc::now();
    let indices = find(fib, &keys(packets));
    let mut known = [Inner::default(); BATCH];
    for (known, packet) in known.iter_mut().zip(packets.iter()) {
        *known = inspect(layer, packet);
    }
    let looked = bus::tsc::now();
    for (n, ((packet, index), inner)) in packets.iter_mut().zip(indices).zip(&known).enumerate() {
        let Some(headers) = fib.hop(index) else { continue };
        put(headers, packet, inner, n);
    }
    let spent = [looked - start, bus::tsc::now() - looked];
    ticks.iter_mut().zip(spent).for_each(|(sum, spent)| *sum += spent);
}

/// What the outer headers have to know of a packet.
#[inline(always)]
fn inspect(layer: Layer, packet: &[u8]) -> Inner {
    match layer {
        Layer::Ethernet => Inner::of_frame(packet),
        Layer::Ip => Inner::of_packet(packet),
        Layer::Service => Inner::of_packet(packet.get(nsh::TYPE_1_LEN..).unwrap_or_default()),
    }
}

#[inline(always)]
fn put(headers: &Headers, packet: &mut Packet, inner: &Inner, number: usize) {
    let len = packet.total_len();
    let per_packet = PerPacket {
        identification: number as u16,
        flow_hash: Some(inner.hash),
        traffic_class: ecn::encapsulate(0, inner.traffic_class),
    };
    if let Ok(room) = packet.push_front(headers.len()) {
        headers.write(room, len, per_packet);
    }
}

/// Takes away what two passes put in front, which must be there.
pub(crate) fn strip(packets: &mut [Packet], before: &[usize; BATCH]) -> Result<()> {
    for (packet, before) in packets.iter_mut().zip(before) {
        let headers = packet.len() - before;
        let has_ip = ethernet::Header::of(packet)
            .is_some_and(|header| [EtherType::IPV4, EtherType::IPV6].contains(&header.ethertype()));
        if headers < ethernet::HEADER_LEN + ipv4::HEADER_LEN || !has_ip {
            return Err(Error::new("a packet did not get all headers in two passes"));
        }
        packet.pull_front(headers).map_err(|e| Error::new(e.to_string()))?;
    }
    Ok(())
}
