//! A host on an Ethernet, of one core: it answers ARP requests, neighbour solicitations and
//! pings, finds its next hops, and has a stack for TCP and an application for its events. It
//! is a poller of `runtime`. It puts fragments together, and sends some where an answer is too long
//! for its link. No routes but one gateway, and messages of ICMP other than pings and those about
//! packets that are too long are dropped.

mod configured;
mod fragments;
mod headers;
mod moving;
mod route;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use memory::{Batch, Packet, Pool};
use neighbor::autoconf::OnLink;
use neighbor::{Limits, Responder, SyncTable, Table};
use port::{Counter, Reason, RxQueue, TxQueue};
use runtime::{Instant, Poller, Queue, Wakeup};
use wire::ip::Protocol;
use wire::{Flow, MacAddress, ethernet};

use crate::ahead::Arrival;
use crate::connection::Io;
use crate::copies::Copies;
use crate::event::{Event, Service};
use crate::fragments::BUFFERS;
use crate::icmp::{Errors, Problem, TooBig};
use crate::link::Link;
use crate::options::{Options, SECOND_NS};
use crate::stack::Stack;
use crate::udp::{Datagram, Datagrams, Udp};
use crate::watch::{Showing, Watch};
use configured::Configured;
use fragments::Long;
use headers::check_header;
pub use moving::Core;

/// Frames that may wait for a full ring.
const FRAMES: usize = Batch::MAX;
/// Segments that are sent in one turn.
const SEGMENTS: usize = 64;

/// From so many packets in a turn on the ring is cleaned before as well as when it is sent to.
const SEVERAL: usize = 8;

/// Packets of each version of IP that wait for neighbours.
const WAITING: usize = 512;

/// A host's addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// Its IPv4 address and the bits of its prefix.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// Its IPv6 address and the bits of its prefix.
    pub v6: Option<(Ipv6Addr, u8)>,
    /// Who forwards to addresses outside of the prefixes.
    pub gateways: (Option<Ipv4Addr>, Option<Ipv6Addr>),
}

/// Who has which address on the link, for all cores of a host.
#[derive(Clone)]
pub struct Neighbors {
    v4: Arc<SyncTable<Ipv4Addr>>,
    v6: Arc<SyncTable<Ipv6Addr>>,
}

impl Default for Neighbors {
    fn default() -> Neighbors {
        // Whoever opens connections sends again what waits for too long.
        let limits =
            Limits { wait_ns: 3 * SECOND_NS, packets: WAITING, packets_each: 64, ..Limits::default() };
        Neighbors {
            v4: Arc::new(SyncTable::new(Table::new(limits))),
            v6: Arc::new(SyncTable::new(Table::new(limits))),
        }
    }
}

/// What the cores of a host counted, by the time they ended.
pub type Report = Arc<Mutex<Vec<Counter>>>;

/// The losses below TCP.
#[derive(Debug, Clone, Copy, Default)]
struct Lost {
    malformed: u64,
    foreign: u64,
    /// Packets from addresses that no other host has.
    source: u64,
    unknown: u64,
    errors: u64,
    no_route: u64,
    /// Answers to requests for which there was no room.
    unsent: u64,
}

/// A host of one core.
pub struct Host {
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
    addresses: Addresses,
    responder: Responder,
    /// Prefixes whose addresses are on the link, beside those of the addresses.
    on_link: Vec<OnLink>,
    /// What tells it its addresses, if they are not the same for ever.
    configured: Option<Box<Configured>>,
    v4: Link<Ipv4Addr>,
    v6: Link<Ipv6Addr>,
    stack: Stack,
    service: Box<dyn Service>,
    udp: Udp,
    datagrams: Vec<Datagram>,
    /// Who takes the datagrams.
    speaker: Option<Box<dyn Datagrams>>,
    errors: Errors,
    /// Packets that come or go in fragments.
    long: Box<Long>,
    events: Vec<Event>,
    /// Segments of the batch that came.
    arrivals: Vec<Arrival>,
    /// IP packets from the stack.
    segments: Batch,
    /// Frames for the ring.
    frames: Batch,
    lost: Lost,
    now: Option<Instant>,
    /// Where the counters go in the end.
    report: Report,
    /// What others are shown while it runs.
    showing: Showing,
    /// By which somebody has frames copied.
    copies: Copies,
    /// Its part of what connections move by between cores, if they may.
    core: Option<Box<Core>>,
    /// Other hosts of which it knows nothing have the same addresses.
    has_others: bool,
}

impl Host {
    /// A host on a pair of queues, with an application. Its connections keep up to `buffers`
    /// packets, which takes the place of [`Options::packets`].
    pub fn new(
        queues: (Box<dyn RxQueue>, Box<dyn TxQueue>),
        addresses: Addresses,
        neighbors: &Neighbors,
        options: Options,
        service: Box<dyn Service>,
        buffers: usize,
    ) -> Host {
        let own = [addresses.v4.map(|(own, _)| own.into()), addresses.v6.map(|(own, _)| own.into())];
        let packets = buffers.try_into().unwrap_or(u32::MAX);
        let now_ns = Instant::now().as_ns();
        let own: Vec<IpAddr> = own.into_iter().flatten().collect();
        let v4 = addresses.v4.map_or(Ipv4Addr::UNSPECIFIED, |(own, _)| own);
        let v6 = addresses.v6.map_or(Ipv6Addr::UNSPECIFIED, |(own, _)| own);
        let stack = Stack::new(Options { packets, ..options }, now_ns);
        Host {
            rx: queues.0,
            tx: queues.1,
            responder: Responder { mac: addresses.mac, addresses: own },
            on_link: Vec::new(),
            configured: None,
            v4: Link::new(addresses.mac, v4, neighbors.v4.clone()),
            v6: Link::new(addresses.mac, v6, neighbors.v6.clone()),
            addresses,
            udp: Udp::new(stack.options()),
            stack,
            service,
            datagrams: Vec::new(),
            speaker: None,
            errors: Errors::default(),
            long: Box::default(),
            events: Vec::new(),
            arrivals: Vec::with_capacity(Batch::MAX),
            segments: Batch::with_limit(SEGMENTS),
            frames: Batch::with_limit(FRAMES),
            lost: Lost::default(),
            now: None,
            report: Report::default(),
            showing: Showing::default(),
            copies: Copies::default(),
            core: None,
            has_others: false,
        }
    }

    /// Has the counters added to a report when the host ends, which is on its own thread.
    pub fn report_to(&mut self, report: &Report) {
        self.report = report.clone();
    }

    /// By what others see its connections and counters while it runs on its own thread.
    pub fn watch(&self) -> Watch {
        self.showing.watch()
    }

    /// By what others have frames of a peer copied while it runs on its own thread.
    pub fn copies(&self) -> Copies {
        self.copies.clone()
    }

    /// Goes on showing others what they ask for.
    #[cold]
    fn show(&mut self, now_ns: i64) {
        let mut showing = std::mem::take(&mut self.showing);
        let assigned = || self.configured.as_ref().map_or(vec![], |it| it.assigned().to_vec());
        showing.go_on(&self.stack, || (self.counters(), assigned()), now_ns);
        self.showing = showing;
    }

    /// The stack, to listen on ports of it and to read what it counted.
    pub fn stack(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// Has an application take the datagrams to the ports that it binds.
    pub fn speak_udp(&mut self, speaker: Box<dyn Datagrams>) -> &mut Udp {
        self.speaker = Some(speaker);
        &mut self.udp
    }

    /// What was counted, losses first.
    pub fn counters(&self) -> Vec<Counter> {
        let (lost, others) = self.configured.as_ref().map_or((0, vec![]), |it| it.counters());
        let own = [
            (Reason::RxConfiguration, lost),
            (Reason::RxIpMalformed, self.lost.malformed),
            (Reason::RxNotForHost, self.lost.foreign),
            (Reason::RxIpSource, self.lost.source),
            (Reason::RxNoProtocol, self.lost.unknown),
            (Reason::RxIcmpError, self.lost.errors),
            (Reason::TxIcmpLimit, self.errors.limited),
            (Reason::TxNoRoute, self.lost.no_route),
            (Reason::TxNoNeighbor, self.v4.lost + self.v6.lost),
            (Reason::TxRingFull, self.v4.unsent + self.v6.unsent + self.lost.unsent),
        ];
        let own = own.into_iter().chain(self.long.fragments.losses());
        let own = own.map(|(reason, count)| Counter::of_loss(reason, count));
        let joined =
            Counter::of("ip_reassembled", self.long.fragments.joined(), "IP packets came in fragments");
        let cores = self.core.iter().flat_map(|core| core.counters());
        own.chain(self.stack.counters().all())
            .chain(self.udp.counters())
            .chain([joined])
            .chain(others)
            .chain(cores)
            .collect()
    }

    /// Takes a received frame.
    fn take(&mut self, packet: Packet, now_ns: i64, pool: &mut Pool) {
        let flow = match Flow::of(&packet) {
            Ok(flow) if flow.fragment => return self.take_fragment(packet, &flow, now_ns, pool),
            Ok(flow) if matches!(flow.protocol, Protocol::TCP | Protocol::UDP) => flow,
            _ => return self.take_other(packet, now_ns, pool),
        };
        if flow.protocol == Protocol::UDP && self.is_for_client(&flow) {
            return self.take_lease(packet, &flow, now_ns, pool);
        }
        let class = match self.check(&packet, &flow) {
            Ok(class) => class,
            Err(lost) => {
                *lost += 1;
                return pool.free(packet);
            }
        };
        if flow.protocol == Protocol::UDP {
            return self.take_datagram(packet, &flow, now_ns, pool);
        }
        self.arrivals.push(Arrival::new(packet, flow, class));
    }

    /// Takes a datagram for this host; its sender is told when nobody has its port.
    fn take_datagram(&mut self, packet: Packet, flow: &Flow, now_ns: i64, pool: &mut Pool) {
        match self.udp.receive(packet, flow) {
            Ok(datagram) => self.datagrams.push(datagram),
            Err((packet, is_unreachable)) => {
                let about = packet.get(flow.l3_offset()..flow.end).filter(|_| is_unreachable);
                if let Some(about) = about {
                    self.tell(Problem::PortUnreachable, flow.addresses, about, now_ns, pool);
                }
                pool.free(packet);
            }
        }
    }

    /// Takes a frame that carries no TCP: it is answered, tells of a neighbour, or is dropped.
    #[cold]
    fn take_other(&mut self, mut packet: Packet, now_ns: i64, pool: &mut Pool) {
        if let Some(told) = self.too_big(&packet) {
            self.take_too_big(told, now_ns, pool);
            return pool.free(packet);
        }
        if self.hear_of_addresses(&packet, now_ns) {
            return pool.free(packet);
        }
        if self.responder.answer(&mut packet) {
            if let Some(packet) = self.frames.push(packet) {
                self.lost.unsent += 1;
                pool.free(packet);
            }
            return;
        }
        if self.answer_behind_headers(&packet, pool) {
            return pool.free(packet);
        }
        let is_known = self.v4.learn(&packet, now_ns, pool, &mut self.frames)
            || self.v6.learn(&packet, now_ns, pool, &mut self.frames);
        if !is_known {
            self.lost.unknown += 1;
        }
        pool.free(packet);
    }

    /// What a frame for this host says of a segment that was too long for its path.
    fn too_big(&self, packet: &Packet) -> Option<TooBig> {
        let flow = Flow::of(packet).ok()?;
        let to = ethernet::Header::of(packet)?.dst();
        let is_ours = to == self.addresses.mac && self.responder.addresses.contains(&flow.addresses.dst());
        let (is_sound, _) = check_header(packet.get(flow.l3_offset()..flow.l4_offset())?, packet);
        let told = TooBig::of(&flow, packet).filter(|_| is_ours && is_sound)?;
        self.responder.addresses.contains(&told.key.local).then_some(told)
    }

    /// Gives the applications what came and happened; one is called too when it is time that it
    /// waits for.
    fn serve(&mut self, now_ns: i64, pool: &mut Pool) {
        let due_ns = self.speaker.as_ref().and_then(|speaker| speaker.deadline_ns());
        if !self.datagrams.is_empty() || due_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            let mut io = Io { now_ns, pool, out: &mut self.segments };
            if let Some(speaker) = &mut self.speaker {
                speaker.serve(&mut self.datagrams, &mut self.udp, &mut io);
            }
            self.datagrams.drain(..).for_each(|datagram| io.pool.free(datagram.packet));
        }
        self.stack.swap_events(&mut self.events);
        if self.events.is_empty() && self.service.deadline_ns().is_none_or(|at_ns| at_ns > now_ns) {
            return;
        }
        let mut io = Io { now_ns, pool, out: &mut self.segments };
        self.service.serve(&mut self.events, &mut self.stack, &mut io);
        if self.events.is_empty() {
            return;
        }
        for event in self.events.drain(..) {
            if let Event::Received { packet, .. } = event {
                io.pool.free(packet);
            }
        }
    }

    /// Sends what the stack has to send, as far as there is room for frames.
    fn send(&mut self, now_ns: i64, pool: &mut Pool) {
        self.stack.output(&mut Io { now_ns, pool, out: &mut self.segments });
        // A packet may need a request in front of it.
        while self.frames.room() >= 2
            && let Some(packet) = self.segments.pop_front()
        {
            self.route(packet, now_ns, pool);
        }
        if self.frames.is_empty() {
            return;
        }
        let (before, is_copied) = (self.frames.len(), self.copies.are_wanted());
        if is_copied {
            self.copies.leaving(&self.frames);
        }
        self.tx.send(pool, &mut self.frames);
        if is_copied {
            self.copies.sent(before - self.frames.len());
        }
    }

    /// Begins: the application may open connections before any event.
    fn begin(&mut self, now: Instant, pool: &mut Pool) {
        if self.now.is_none() {
            let mut io = Io { now_ns: now.as_ns(), pool, out: &mut self.segments };
            self.service.begin(&mut self.stack, &mut io);
            if let Some(speaker) = &mut self.speaker {
                speaker.begin(&mut self.udp, &mut io);
            }
        }
        self.now = Some(now);
    }
}

impl Poller for Host {
    fn turn(&mut self, now: Instant, pool: &mut Pool, batch: &mut Batch) -> usize {
        let now_ns = now.as_ns();
        self.begin(now, pool);
        self.configure(now_ns, pool);
        if self.core.is_some() {
            self.take_mail(now_ns, pool);
        }
        let received = self.rx.recv(pool, batch);
        if self.copies.are_wanted() {
            self.copies.received(batch);
        }
        while let Some(packet) = batch.pop_front() {
            self.take(packet, now_ns, pool);
        }
        if self.core.as_ref().is_some_and(|core| core.awaits()) {
            self.hold_back();
        }
        let mut io = Io { now_ns, pool, out: &mut self.segments };
        self.stack.receive_batch(&mut self.arrivals, &mut io);
        self.stack.expire(&mut io);
        if self.long.fragments.due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            self.expire_fragments(now_ns, pool);
        }
        self.v4.expire(now_ns, pool, &mut self.frames);
        self.v6.expire(now_ns, pool, &mut self.frames);
        self.serve(now_ns, pool);
        if received >= SEVERAL {
            // What was sent lately is in the cache, and goes out again before what was kept for long.
            self.tx.clean(pool);
        }
        self.send(now_ns, pool);
        if received == 0 {
            self.tx.clean(pool);
        }
        if self.core.is_some() {
            self.serve_cores(received, pool);
        }
        if self.showing.is_asked() {
            self.show(now_ns);
        }
        received + usize::from(self.stack.is_ready())
    }

    fn queues<'a>(&'a mut self, visit: &mut dyn FnMut(Queue<'a>)) {
        visit(Queue::Rx(&mut *self.rx));
        visit(Queue::Tx(&mut *self.tx));
    }

    fn buffers(&self) -> usize {
        let options = self.stack.options();
        // What the port cuts waits for it in as many buffers as there are segments.
        let copies = if options.offload.buffers > 1 { options.packets / 2 } else { 0 };
        // Neighbours are shared by all cores, and what waits for them may be all of this one.
        let moving = self.core.as_ref().map_or(0, |core| core.buffers(self.moves()));
        (options.packets + copies) as usize + FRAMES + SEGMENTS + 2 * WAITING + BUFFERS + moving
    }

    fn deadline(&self) -> Option<Instant> {
        let now = self.now?;
        let is_busy = self.core.as_ref().is_some_and(|core| core.is_busy());
        if is_busy || !self.frames.is_empty() || !self.segments.is_empty() || self.stack.is_ready() {
            return Some(now);
        }
        let links = [self.v4.deadline_ns(), self.v6.deadline_ns(), self.long.fragments.due_ns()];
        let configured = self.configured.as_ref().map(|it| it.due_ns());
        let services =
            [self.service.deadline_ns(), self.speaker.as_ref().and_then(|speaker| speaker.deadline_ns())];
        let all = [self.stack.next_deadline_ns(), configured].into_iter().chain(links).chain(services);
        let next = all.flatten().min()?;
        Some(now + Duration::from_nanos(next.saturating_sub(now.as_ns()).max(0) as u64))
    }

    fn wakeup(&self) -> Option<Arc<Wakeup>> {
        self.service.wakeup().or_else(|| self.core.as_ref().map(|core| core.wakeup()))
    }

    /// Its core has no flow groups, and nothing is left of them.
    fn rests(&self) -> bool {
        self.stack.elsewhere.as_ref().is_some_and(|it| it.is_empty()) && self.stack.is_empty()
    }

    fn retries(&self) -> bool {
        true
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.extend(self.counters());
    }
}
