//! Tables of the TCP stack, and of a service on it: clients that are segments alone, each with
//! an address of its own.

use std::net::Ipv4Addr;

use app::services::memcached_servers;
use memory::{Backing, Batch, Dma, Packet, Pool};
use service::memcached::Limits;
use tcp::{Event, Io, Report, Service, Stack};
use wire::ethernet::{self, EtherType};
use wire::ip::{Addresses, Protocol};
use wire::tcp::{Flags, Repr, Segment};
use wire::{Flow, MacAddress, ipv4};

use super::packets::spread;
use super::strangers::{self, BURST};
use super::{Case, Counter, Figures, resident};
use crate::{Error, Result};

/// How far a client goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    /// It does not acknowledge the answer to its SYN.
    Silent,
    /// It does, so that its connection is open.
    Opens,
    /// The host ends the connection, and the client ends it as well.
    Finishes,
    /// It sends a part of a request, which a service keeps.
    Asks,
}

const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PORT: u16 = 80;
/// Buffers of the host; no packet of a client stays in one.
const BUFFERS: usize = 4096;
/// Packets that the host sends in a turn.
const SENT: usize = 256;
/// Time stands still here, in nanoseconds.
const NOW_NS: i64 = 1_000_000_000_000;
/// The number of a client's SYN.
const FIRST: u32 = 1000;

/// What a client acknowledges and sends.
#[derive(Debug, Clone, Copy)]
struct Peer {
    address: Ipv4Addr,
    port: u16,
    sequence: u32,
    acknowledgement: u32,
}

impl Peer {
    fn new(n: u64) -> Peer {
        let (address, port) = (Ipv4Addr::from_bits(spread(n)), 1024 + (n % 60_000) as u16);
        Peer { address, port, sequence: FIRST, acknowledgement: 0 }
    }

    /// A frame with a segment of this client's.
    fn frame(&mut self, flags: Flags, payload: &[u8]) -> Vec<u8> {
        let is_syn = flags.contains(Flags::SYN);
        let repr = Repr {
            src_port: self.port,
            dst_port: PORT,
            sequence: self.sequence,
            acknowledgement: self.acknowledgement,
            flags,
            window: 50_000,
            max_segment: is_syn.then_some(1460),
            ..Repr::default()
        };
        let controls = [Flags::SYN, Flags::FIN].iter().filter(|flag| flags.contains(**flag)).count();
        self.sequence += (payload.len() + controls) as u32;
        let start = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
        let len = repr.header_len() + payload.len();
        let mut frame = vec![0; start + len];
        let mac = MacAddress([2, 0, 0, 0, 0, 1]);
        let header = ethernet::Header::between(mac, mac, EtherType::IPV4).into_inner();
        frame[..ethernet::HEADER_LEN].copy_from_slice(&header);
        let ip = ipv4::Repr::between(self.address, HOST, Protocol::TCP, len);
        ip.emit(&mut ipv4::Packet::new_unchecked(&mut frame[ethernet::HEADER_LEN..]));
        frame[start + repr.header_len()..].copy_from_slice(payload);
        let mut segment = Segment::new_unchecked(&mut frame[start..]);
        repr.emit(&mut segment);
        segment.fill_checksum(Addresses::V4 { src: self.address, dst: HOST });
        frame
    }

    /// Takes the number of what the host sent, if it is for this client.
    fn take(&mut self, packet: &[u8]) {
        let Ok(ip) = ipv4::Packet::new_checked(packet) else { return };
        let Ok(segment) = Segment::new_checked(ip.payload()) else { return };
        if ip.dst() == self.address && segment.dst_port() == self.port {
            let controls = u32::from(segment.flags().contains(Flags::SYN))
                + u32::from(segment.flags().contains(Flags::FIN));
            self.acknowledgement = segment.sequence().wrapping_add(controls);
        }
    }
}

/// A host without a service: it may end what is opened.
struct Bare {
    ends: bool,
}

impl Service for Bare {
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.drain(..) {
            match event {
                Event::Received { packet, .. } => io.pool.free(packet),
                Event::Connected { connection, .. } if self.ends => drop(stack.finish(connection, io)),
                _ => {}
            }
        }
    }
}

/// The host whose tables fill: a stack, and a service on it.
struct Host {
    stack: Stack,
    pool: Pool,
    service: Box<dyn Service>,
    report: Report,
    events: Vec<Event>,
    out: Batch,
}

impl Host {
    fn new(client: Client) -> Result<Host> {
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let mut stack = Stack::new(tcp::Options { key: [1, 2], ..tcp::Options::default() }, NOW_NS);
        stack.listen(PORT);
        let report = Report::default();
        let bare = || -> Box<dyn Service> { Box::new(Bare { ends: client == Client::Finishes }) };
        let service = match client {
            Client::Asks => memcached_servers(Limits::default(), &report, None, None).pop(),
            _ => None,
        };
        let service = service.map_or_else(bare, |application| application.service);
        let pool = Pool::new(&dma, BUFFERS).map_err(|error| Error::new(error.to_string()))?;
        let mut host = Host { stack, pool, service, report, events: vec![], out: Batch::with_limit(SENT) };
        let mut io = Io { now_ns: NOW_NS, pool: &mut host.pool, out: &mut host.out };
        host.service.begin(&mut host.stack, &mut io);
        Ok(host)
    }

    /// A turn in which these frames come, whose answers the peers take; TSC cycles of the turn.
    fn turn(&mut self, frames: &[Vec<u8>], peers: &mut [Peer]) -> u64 {
        let packets: Vec<(Packet, Flow)> = frames.iter().filter_map(|frame| self.packet(frame)).collect();
        let begin = bus::tsc::now();
        let mut io = Io { now_ns: NOW_NS, pool: &mut self.pool, out: &mut self.out };
        for (packet, flow) in packets {
            self.stack.receive(packet, &flow, 0, &mut io);
        }
        self.stack.expire(&mut io);
        self.stack.swap_events(&mut self.events);
        self.service.serve(&mut self.events, &mut self.stack, &mut io);
        self.stack.output(&mut io);
        let cycles = bus::tsc::now().wrapping_sub(begin);
        for packet in self.out.iter() {
            peers.iter_mut().for_each(|peer| peer.take(packet));
        }
        self.pool.free_batch(&mut self.out);
        cycles
    }

    fn packet(&mut self, frame: &[u8]) -> Option<(Packet, Flow)> {
        let flow = Flow::of(frame).ok()?;
        let mut packet = self.pool.alloc()?;
        if packet.copy_from(frame).is_err() {
            self.pool.free(packet);
            return None;
        }
        Some((packet, flow))
    }

    /// Lets these clients come; TSC cycles of the host's turns.
    fn meet(&mut self, client: Client, peers: &mut [Peer]) -> u64 {
        const ACK_END: Flags = Flags(Flags::ACK.0 | Flags::FIN.0);
        let rounds: &[(Flags, &[u8])] = match client {
            Client::Silent => &[(Flags::SYN, b"")],
            Client::Opens => &[(Flags::SYN, b""), (Flags::ACK, b"")],
            Client::Finishes => &[(Flags::SYN, b""), (Flags::ACK, b""), (ACK_END, b"")],
            Client::Asks => &[(Flags::SYN, b""), (Flags::ACK, b""), (Flags::ACK, &HALF)],
        };
        let mut cycles = 0;
        for (flags, payload) in rounds {
            let frames: Vec<Vec<u8>> = peers.iter_mut().map(|peer| peer.frame(*flags, payload)).collect();
            cycles += self.turn(&frames, peers);
        }
        cycles
    }
}

/// A part of a request for many keys.
const HALF: [u8; 1400] = {
    let mut line = [b'x'; 1400];
    (line[0], line[1], line[2], line[3]) = (b'g', b'e', b't', b' ');
    line
};

/// Lets so many clients come.
pub(super) fn measure(case: &'static Case, client: Client, packets: u64) -> Result<Figures> {
    let mut host = Host::new(client)?;
    let mut windows = strangers::windows(packets, case);
    let before = resident();
    for from in (0..packets).step_by(BURST as usize) {
        let to = packets.min(from + BURST);
        let mut peers: Vec<Peer> = (from..to).map(Peer::new).collect();
        let cycles = host.meet(client, &mut peers);
        strangers::account(&mut windows, to - 1, cycles);
    }
    let bytes = resident().saturating_sub(before);
    let Host { stack, service, report, .. } = host;
    drop(service);
    let report = report.lock().map(|counters| counters.clone()).unwrap_or_default();
    let all = stack.counters().all().chain(report);
    let named = all.filter(|counter| case.counters.contains(&counter.name) && counter.value > 0);
    let counters = named.map(|counter| Counter { name: counter.name.into(), count: counter.value });
    Ok(Figures {
        case: case.name.into(),
        packets,
        windows: windows.iter().map(strangers::Sum::window).collect(),
        entries: stack.len() as u64,
        bound: case.bound,
        bytes,
        counters: counters.collect(),
    })
}
