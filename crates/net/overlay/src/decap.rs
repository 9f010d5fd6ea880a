//! Receiving from tunnels: a frame of the underlay is recognised as a tunnel's that ends
//! here, its headers are checked and taken away, and what congestion they met goes into the
//! packet inside.

use std::ops::Range;

use fib::exact::{Exact, Key};
use fib::{Fib, MISS, Reader};
use memory::Packet;
use port::Reason;
use wire::{checksum, ecn, ipv4, ipv6, udp};

use crate::arrival::{Entrance, Outer, check_outer, check_udp, network_offset, outer, sum};
use crate::drops::Drops;
use crate::end::{End, Local, LocalView};
use crate::hop::inspect_unhashed;
use crate::learn::Observation;
use crate::network::Layer;
use crate::protocol::{Carrier, PROTOCOLS, Payload, Recognized, Refusal, candidates, recognize_segments};
use crate::segment::{Watch, Watcher};

/// Packets whose ends are looked up together.
const LANES: usize = 32;

/// What became of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// It is a packet of this virtual network now.
    Network(u32),
    /// It is as it was: no tunnel's, or for the control of one.
    Other,
    /// It is as it was, and counted: it must be dropped.
    Drop(Reason),
}

/// One who receives from tunnels; each thread has its own.
#[derive(Debug, Clone)]
pub struct Decapsulator {
    locals: Reader<Exact, LocalView>,
    /// Protocols at UDP ports of their own.
    ports: Reader<Exact, u8>,
    ends: Reader<Exact, End>,
    /// Ports of the underlay, by their numbers.
    entrances: Reader<Exact, Entrance>,
    drops: Drops,
    watcher: Watcher,
}

/// What is kept of a frame in whose outer headers nothing is wrong, while ends are looked up
/// for a batch: small, as there is one for each packet.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    /// Where the IP header begins.
    network: u32,
    /// What the carrier carries: the tunnel's header, and where all of it ends.
    start: u32,
    end: u32,
    /// The number of the local address.
    local: u32,
    /// Protocols that it can be as well, a bit for each number.
    others: u32,
    traffic_class: u8,
    recognized: Recognized,
}

/// The local address and carrier of the packet before, and the protocols that it could be:
/// most packets of a batch are for the same.
type Last = Option<(std::net::IpAddr, Carrier, u32, u32)>;

impl Decapsulator {
    pub(crate) fn new(
        (locals, ports): (Reader<Exact, LocalView>, Reader<Exact, u8>),
        ends: Reader<Exact, End>,
        entrances: Reader<Exact, Entrance>,
        watcher: Watcher,
    ) -> Decapsulator {
        Decapsulator { locals, ports, ends, entrances, drops: Drops::default(), watcher }
    }

    /// What was dropped since the start, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Adds the stations to `into` that were heard of in networks that learn, each once since
    /// the last call, for [`Overlay::learn`](crate::Overlay::learn).
    pub fn observed(&mut self, into: &mut Vec<Observation>) {
        self.watcher.notes.take(into);
    }

    /// Stations that were not noted, because there were too many since the last call of
    /// [`observed`](Self::observed); they are when they send again.
    pub fn unobserved(&self) -> u64 {
        self.watcher.notes.lost
    }

    /// Takes frames of the underlay out of their tunnels. `received` says of each what became
    /// of it. To which station and in which VLAN a frame came is not looked at.
    ///
    /// # Panics
    /// When `received` is shorter than `packets`.
    pub fn decapsulate(&mut self, packets: &mut [Packet], received: &mut [Received]) {
        self.take(packets, received, network_offset);
    }

    /// As [`decapsulate`](Self::decapsulate), of frames that came by a port of the underlay: those to
    /// another station than its [entrance](Entrance) says, to a group of stations or in another VLAN are
    /// [others](Received::Other), and all are by a port whose entrance is not published.
    ///
    /// # Panics
    /// When `received` is shorter than `packets`.
    pub fn decapsulate_from(&mut self, port: u16, packets: &mut [Packet], received: &mut [Received]) {
        match self.entrances.fib().lookup(entrance_key(port)).copied() {
            Some(entrance) => self.take(packets, received, |frame| entrance.network_offset(frame)),
            None => received[..packets.len()].fill(Received::Other),
        }
    }

    /// Takes frames out of their tunnels whose IP headers begin where `network_offset` says.
    #[inline(always)]
    fn take(
        &mut self,
        packets: &mut [Packet],
        received: &mut [Received],
        network_offset: impl Fn(&[u8]) -> Result<usize, Refusal>,
    ) {
        let received = &mut received[..packets.len()];
        let (locals, ports, ends) = (self.locals.fib(), self.ports.fib(), self.ends.fib());
        let mut last = None;
        for (packets, received) in packets.chunks_mut(LANES).zip(received.chunks_mut(LANES)) {
            let mut arrivals = [None; LANES];
            // Packets in a row mostly came to the same end, which is looked up once.
            let (mut keys, mut indices, mut count) = ([Key::default(); LANES], [MISS; LANES], 0);
            for (n, packet) in packets.iter().enumerate() {
                let arrived =
                    network_offset(packet).and_then(|at| arrive(packet, at, (locals, ports), &mut last));
                match arrived {
                    Ok((key, arrival)) => {
                        if count == 0 || keys[count - 1] != key {
                            keys[count] = key;
                            count += 1;
                        }
                        arrivals[n] = Some((count - 1, arrival));
                    }
                    Err(refusal) => received[n] = refused(refusal, &mut self.drops),
                }
            }
            ends.lookup_batch(&keys[..count], &mut indices);
            for (n, packet) in packets.iter_mut().enumerate() {
                let Some((place, arrival)) = &arrivals[n] else { continue };
                let end = ends.hop(indices[*place]);
                received[n] = match finish(packet, arrival, end, ends, &mut self.watcher) {
                    Ok(network) => Received::Network(network),
                    Err(refusal) => refused(refusal, &mut self.drops),
                };
            }
        }
    }
}

/// What becomes of a packet that did not come out of a tunnel.
fn refused(refusal: Refusal, drops: &mut Drops) -> Received {
    match refusal {
        Refusal::NotMine | Refusal::Control => Received::Other,
        Refusal::Drop(reason) => {
            drops.count(reason);
            Received::Drop(reason)
        }
    }
}

/// Where a port of the underlay stands in their table.
pub(crate) fn entrance_key(port: u16) -> Key {
    Key::new(port.into(), 0)
}

/// Recognises a tunnel's packet whose IP header begins at `at`: the key of its end, and what its
/// headers say.
#[inline(always)]
fn arrive(
    packet: &Packet,
    at: usize,
    (locals, ports): (&Fib<Exact, LocalView>, &Fib<Exact, u8>),
    last: &mut Last,
) -> Result<(Key, Arrival), Refusal> {
    // What is for another address, or for a protocol that does not end here, is nobody's
    // to complain of: it is left alone, whatever it is.
    let outer = outer(packet, at).ok_or(Refusal::NotMine)?;
    let dst = outer.addresses.dst();
    let (local, protocols) = match *last {
        Some((address, carrier, local, protocols)) if address == dst && carrier == outer.carrier => {
            (local, protocols)
        }
        _ => {
            let view = locals.lookup(Local::key(dst)).ok_or(Refusal::NotMine)?;
            let protocols = view.protocols & possible(view, outer.carrier, ports);
            *last = Some((dst, outer.carrier, view.number, protocols));
            (view.number, protocols)
        }
    };
    if protocols == 0 {
        return Err(Refusal::NotMine);
    }
    check_outer(packet, &outer)?;
    let behind = if matches!(outer.carrier, Carrier::Udp(_)) { udp::HEADER_LEN } else { 0 };
    let mut others = protocols;
    let (key, recognized) = recognize(packet, &outer, behind, local, &mut others)?;
    let arrival = Arrival {
        network: at as u32, // a packet's bytes are fewer than 2^32
        start: (outer.payload.start + behind) as u32,
        end: outer.payload.end as u32,
        local,
        others,
        traffic_class: outer.traffic_class,
        recognized,
    };
    Ok((key, arrival))
}

/// Protocols that a packet for a local address can be by its carrier: at a UDP port of its
/// own the one that has it.
#[inline]
fn possible(view: &LocalView, carrier: Carrier, ports: &Fib<Exact, u8>) -> u32 {
    if let Carrier::Udp(port) = carrier
        && view.has_ports
        && let Some(number) = ports.lookup(Local::port_key(view.number, port))
    {
        return 1 << number;
    }
    candidates(carrier)
}

/// Reads a tunnel's header as the first of some protocols that knows it, and takes those
/// tried away: the key of the tunnel's end, and the header.
#[inline(always)]
fn recognize(
    packet: &Packet,
    outer: &Outer,
    behind: usize,
    local: u32,
    protocols: &mut u32,
) -> Result<(Key, Recognized), Refusal> {
    let bytes = packet.get(outer.payload.start + behind..outer.payload.end.min(packet.len()));
    let bytes = bytes.ok_or(Refusal::Drop(Reason::OverlayOuterMalformed))?;
    let mut refused = Refusal::NotMine;
    while let Some(protocol) = PROTOCOLS.get(protocols.trailing_zeros() as usize) {
        *protocols &= *protocols - 1;
        let recognized = match protocol.carrier {
            Carrier::Segments => recognize_segments(outer.protocol, bytes),
            _ => (protocol.recognize)(bytes),
        };
        match recognized {
            Ok(recognized)
                if protocol.carrier == Carrier::Payload
                    && recognized.payload.ip_protocol() != Some(outer.protocol) =>
            {
                refused = Refusal::Drop(Reason::OverlayWrongPayload);
            }
            Ok(recognized) => {
                let src = outer.addresses.src();
                return Ok((End::key_of(protocol, local, recognized.identifier, src), recognized));
            }
            Err(Refusal::NotMine) => {}
            Err(other) if refused == Refusal::NotMine => refused = other,
            Err(_) => {}
        }
    }
    Err(refused)
}

/// Takes a packet out of the tunnel that ends at `end`: the network's number.
#[inline(always)]
fn finish(
    packet: &mut Packet,
    arrival: &Arrival,
    end: Option<&End>,
    ends: &Fib<Exact, End>,
    watcher: &mut Watcher,
) -> Result<u32, Refusal> {
    let other;
    let (end, recognized) = match end.filter(|end| end.is_of(packet, arrival.network as usize)) {
        Some(end) => (end, &arrival.recognized),
        None => {
            other = another(packet, arrival, ends)?;
            (other.0, &other.1)
        }
    };
    if end.port.is_some() {
        check_udp(packet, arrival.network as usize, arrival.start as usize..arrival.end as usize, end)?;
    }
    let (start, end_of_outer) = (arrival.start as usize, arrival.end as usize);
    let end_of_tunnel = recognized.len.map_or(end_of_outer, |len| start + len);
    if end_of_tunnel > end_of_outer {
        return Err(Refusal::Drop(Reason::OverlayTunnelMalformed));
    }
    if recognized.is_summed && !checksum::is_right(sum(packet, start..end_of_tunnel, 0)) {
        return Err(Refusal::Drop(Reason::OverlayOuterChecksum));
    }
    let inner = start + recognized.header_len..end_of_tunnel;
    check_payload(packet, &inner, recognized.payload, end.layer)?;
    carry_congestion(packet, inner.start, arrival.traffic_class, end.layer)?;
    match end.watch {
        Watch::Nothing => strip(packet, inner)?,
        _ => watched(packet, arrival.network as usize, inner, end, watcher)?,
    }
    Ok(end.network)
}

/// As [`strip`], of a packet whose IP header begins at `network`, at an end where the frames are
/// watched that come.
#[inline(never)]
fn watched(
    packet: &mut Packet,
    network: usize,
    inner: Range<usize>,
    end: &End,
    watcher: &mut Watcher,
) -> Result<(), Refusal> {
    let Some(outer) = outer(packet, network) else { return strip(packet, inner) };
    let remote = outer.addresses.src();
    let frame = packet.get(inner.start..).unwrap_or_default();
    watcher.admit(end.watch, end.network, remote, frame)?;
    strip(packet, inner)?;
    if end.watch.learns() {
        watcher.notes.hear(end.network, remote, packet);
    }
    Ok(())
}

/// The end of a packet that the protocol it was read as first has no end for.
#[cold]
fn another<'a>(
    packet: &Packet,
    arrival: &Arrival,
    ends: &'a Fib<Exact, End>,
) -> Result<(&'a End, Recognized), Refusal> {
    let at = arrival.network as usize;
    let outer = outer(packet, at).ok_or(Refusal::NotMine)?;
    let behind = arrival.start as usize - outer.payload.start;
    let mut others = arrival.others;
    while others != 0 {
        let header = recognize(packet, &outer, behind, arrival.local, &mut others);
        let Ok((key, recognized)) = header else { break };
        if let Some(end) = ends.lookup(key).filter(|end| end.is_of(packet, at)) {
            return Ok((end, recognized));
        }
    }
    Err(Refusal::Drop(Reason::OverlayUnknownEnd))
}

/// Whether a network has such packets, and this is one: of the version that was said, with
/// its header whole in the first buffer.
#[inline(always)]
fn check_payload(
    packet: &Packet,
    inner: &Range<usize>,
    payload: Payload,
    layer: Layer,
) -> Result<(), Refusal> {
    let is_right = match layer {
        Layer::Ethernet => payload == Payload::Ethernet,
        Layer::Ip => matches!(payload, Payload::Ipv4 | Payload::Ipv6),
        Layer::Service => payload == Payload::Nsh,
    };
    let bytes = packet.get(inner.start..inner.end.min(packet.len()));
    match is_right && bytes.is_some_and(|bytes| payload.is_whole(bytes)) {
        true => Ok(()),
        false => Err(Refusal::Drop(Reason::OverlayWrongPayload)),
    }
}

/// Carries the congestion that the outer header met into the packet inside (RFC 6040).
#[inline(always)]
fn carry_congestion(packet: &mut Packet, inner: usize, outer: u8, layer: Layer) -> Result<(), Refusal> {
    // The other two change nothing, whatever is inside.
    match matches!(outer & ecn::MASK, ecn::CE | ecn::ECT_1) && layer != Layer::Service {
        true => carry_met_congestion(packet, inner, outer, layer),
        false => Ok(()),
    }
}

/// As [`carry_congestion`], where there may be something to carry.
#[inline(never)]
fn carry_met_congestion(packet: &mut Packet, inner: usize, outer: u8, layer: Layer) -> Result<(), Refusal> {
    let Some(bytes) = packet.get_mut(inner..) else { return Ok(()) };
    let Some(known) = inspect_unhashed(bytes, layer) else { return Ok(()) };
    let Some(at) = known.network_offset else { return Ok(()) }; // no IP, and nobody to tell
    let class =
        ecn::decapsulate(known.traffic_class, outer).ok_or(Refusal::Drop(Reason::OverlayCongestion))?;
    if class == known.traffic_class {
        return Ok(());
    }
    let header = &mut bytes[usize::from(at)..];
    if known.is_v6 {
        if let Some(mut header) = ipv6::Header::of_mut(header) {
            let label = header.flow_label();
            header.set_version(class, label);
        }
    } else if let Some(mut header) = ipv4::Header::of_mut(header) {
        header.update_traffic_class(class);
    }
    Ok(())
}

/// Takes away what is not the packet inside: the headers, and what is behind it; and what was
/// said of the packet that had them.
#[inline(always)]
fn strip(packet: &mut Packet, inner: Range<usize>) -> Result<(), Refusal> {
    let malformed = |_| Refusal::Drop(Reason::OverlayTunnelMalformed);
    if packet.next().is_some() {
        cut_chain(packet, inner.end);
    } else if inner.end < packet.len() {
        packet.set_len(inner.end).map_err(malformed)?;
    }
    packet.pull_front(inner.start).map_err(malformed)?;
    packet.forget_rx_words();
    packet.clear_annotations();
    Ok(())
}

/// Takes away what is behind the first `len` bytes of a packet in several buffers.
#[cold]
fn cut_chain(packet: &mut Packet, len: usize) {
    let (mut last, mut left) = (packet, len);
    while left > last.len() && last.next().is_some() {
        left -= last.len();
        last = last.next_mut().expect("just seen");
    }
    let _ = last.set_len(left.min(last.len())); // shorter always fits
    drop(last.split_next());
}
