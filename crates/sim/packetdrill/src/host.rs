//! The host that a script sees: a stack, its sockets, a clock that passes only when it is told
//! to, and a cable with packetdrill at the other end.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::net::SocketAddr;

use memory::{Backing, Batch, Dma, Packet, Pool, TxOffload};
use tcp::{Event, Id, Io, Reason, Stack};
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::{Flow, MacAddress, ipv4, ipv6, tcp as segment};

use crate::epoll::Interest;
use crate::errors::of_reason;
use crate::packets::{ChosenHeader, choose_header, cut, ip_len, split, whole};
use crate::pipes::PipeEnd;
use crate::settings::Settings;
use crate::socket::{Choices, Number, Role, Socket};
use crate::usage::Usage;

/// Nanoseconds of a microsecond, in which packetdrill counts.
pub const MICROSECOND_NS: i64 = 1_000;
/// When a host's clock begins, in nanoseconds: no time that anything takes for none.
const BEGIN_NS: i64 = 1_000_000_000_000;
/// Buffers of the pool.
const BUFFERS: usize = 8192;
/// Payload bytes of the parts into which a longer received segment is cut, for a buffer has
/// room for no more: the size of segments in most scripts.
const PART: usize = 1000;

/// What a descriptor stands for.
#[derive(Debug)]
pub enum Descriptor {
    /// A socket, by its number.
    Socket(Number),
    /// An epoll instance: what it waits for, by descriptors.
    Epoll(BTreeMap<i32, Interest>),
    /// An end of a pipe.
    Pipe(PipeEnd),
}

/// The host that a script runs on.
pub struct Host {
    /// What the script set.
    pub settings: Settings,
    /// The changes of it that the stack knows.
    known_changes: u64,
    known_flushes: u64,
    /// The present, in nanoseconds.
    pub now_ns: i64,
    stack: Option<Stack>,
    pool: Pool,
    mtu: u16,
    /// Sockets by their numbers.
    pub sockets: BTreeMap<Number, Socket>,
    /// The sockets of connections.
    by_id: HashMap<Id, Number>,
    next: Number,
    /// Bytes in pipes, by the pipes' numbers.
    pub pipes: BTreeMap<u32, VecDeque<u8>>,
    /// Descriptors, each with an open file that keeps its number from others.
    pub descriptors: HashMap<i32, (Descriptor, File)>,
    /// Packets that were sent, with the time in nanoseconds.
    cable: VecDeque<(i64, Vec<u8>)>,
}

impl Host {
    /// A host whose packets have up to `mtu` bytes.
    ///
    /// # Errors
    /// The machine gave no memory for packets.
    pub fn new(mtu: u16) -> Result<Host, String> {
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let pool = Pool::new(&dma, BUFFERS).map_err(|error| format!("no memory for packets: {error}"))?;
        Ok(Host {
            settings: Settings::default(),
            known_changes: 0,
            known_flushes: 0,
            now_ns: BEGIN_NS,
            stack: None,
            pool,
            mtu,
            sockets: BTreeMap::new(),
            by_id: HashMap::new(),
            next: 0,
            pipes: BTreeMap::new(),
            descriptors: HashMap::new(),
            cable: VecDeque::new(),
        })
    }

    /// Calls the stack, and lets sockets see what came of it. What is to be sent goes out.
    pub fn with<R>(&mut self, call: impl FnOnce(&mut Stack, &mut Io) -> R) -> R {
        let result = self.with_silently(call);
        self.pump();
        result
    }

    /// Calls the stack, which sends nothing yet.
    pub fn with_silently<R>(&mut self, call: impl FnOnce(&mut Stack, &mut Io) -> R) -> R {
        let options = self.settings.stack_options(self.mtu);
        let mut stack = self.stack.take().unwrap_or_else(|| Stack::new(options, self.now_ns));
        if self.known_changes != self.settings.changes {
            self.known_changes = self.settings.changes;
            stack.set_options(options);
        }
        if self.known_flushes != self.settings.flushes {
            self.known_flushes = self.settings.flushes;
            stack.forget_servers();
        }
        let mut out = Batch::with_limit(1024);
        let result = call(&mut stack, &mut Io { now_ns: self.now_ns, pool: &mut self.pool, out: &mut out });
        self.stack = Some(stack);
        self.put(out);
        result
    }

    /// Looks at the stack.
    pub fn stack(&self) -> Option<&Stack> {
        self.stack.as_ref()
    }

    /// Packets go on the cable.
    fn put(&mut self, mut out: Batch) {
        while let Some(packet) = out.pop_front() {
            let bytes = whole(&packet);
            let chosen = self.count_sent(&bytes, packet.tx_offload());
            // Linux cuts by itself what a port does not cut.
            let mut parts = if self.settings.has_no_segmentation { cut(&packet) } else { vec![bytes] };
            parts
                .iter_mut()
                .zip(chosen.iter().cycle())
                .for_each(|(part, chosen)| choose_header(part, *chosen));
            self.pool.free(packet);
            if !self.settings.is_cut {
                self.cable.extend(parts.into_iter().map(|part| (self.now_ns, part)));
            }
        }
    }

    /// A packet goes out: it counts, the packets of a socket's send buffer that hold its data have
    /// been sent, and its socket chose what its IP header says.
    fn count_sent(&mut self, bytes: &[u8], offload: TxOffload) -> Option<ChosenHeader> {
        let tcp = bytes.get(ip_len(bytes)..).and_then(|tcp| segment::Segment::new_checked(tcp).ok())?;
        let ports = (Some(tcp.src_port()), Some(tcp.dst_port()));
        let port_of = |address: Option<SocketAddr>| address.map(|address| address.port());
        let is_its = |socket: &&mut Socket| {
            socket.connection().is_some() && (port_of(socket.local), port_of(socket.remote)) == ports
        };
        let now_ns = self.now_ns;
        let socket = self.sockets.values_mut().find(is_its)?;
        let (payload, flags) = (tcp.payload().len(), tcp.flags());
        let is_cut = offload.has(TxOffload::SEGMENT);
        let size = if is_cut { offload.segment_size.into() } else { payload };
        socket.usage.send(tcp.sequence(), payload, flags, size);
        let is_told = socket.stamps.send(socket.usage.bytes_new, now_ns);
        socket.out_events += u64::from(is_told);
        if payload > 0 && !flags.contains(segment::Flags::SYN) {
            socket.send_buffer.send(tcp.sequence(), payload);
        }
        Some(socket.chosen_header())
    }

    /// Lets sockets see what happened, and the stack send, until nothing is left to do.
    pub fn pump(&mut self) {
        loop {
            let is_quiet = self.poll_sockets();
            let is_done = self.with_silently(|stack, io| {
                stack.output(io);
                !stack.is_ready()
            });
            if is_quiet && is_done {
                self.make_room();
                return self.note_limits();
            }
        }
    }

    fn see(&mut self, event: Event) {
        match event {
            Event::Connected { connection, is_passive: true } => self.see_accepted(connection),
            Event::Connected { connection, is_passive: false } => {
                let now_ns = self.now_ns;
                if let Some(socket) = self.socket_of(connection) {
                    (socket.was_open, socket.received_ns) = (true, now_ns);
                    socket.out_events += 1;
                }
            }
            Event::Received { connection, packet } => self.see_received(connection, packet),
            Event::Sent { connection, .. } => self.see_sent(connection),
            Event::PeerFinished { connection } => {
                if let Some(socket) = self.socket_of(connection) {
                    socket.is_peer_finished = true;
                    socket.in_events += 1;
                }
            }
            Event::Closed { connection, reason } => self.see_closed(connection, reason),
            Event::Timer { .. } => {}
        }
    }

    /// The socket of a connection.
    pub fn socket_of(&mut self, id: Id) -> Option<&mut Socket> {
        self.sockets.get_mut(self.by_id.get(&id)?)
    }

    /// A connection was opened by the other side: a socket waits to be accepted, if there is
    /// room for it.
    fn see_accepted(&mut self, id: Id) {
        let key = self.stack().and_then(|stack| stack.info(id)).map(|info| info.key);
        let Some(key) = key else { return };
        let number = self.next_number();
        let listener = self.sockets.iter_mut().find(|(_, socket)| {
            let port = socket.local.map(|local| local.port());
            matches!(socket.role, Role::Listening { .. }) && port == Some(key.local_port)
        });
        let Some((listening, listener)) = listener else { return };
        let Role::Listening { backlog, waiting } = &mut listener.role else { return };
        if waiting.len() > *backlog {
            self.with_silently(|stack, io| stack.abort(id, io).ok());
            return;
        }
        let defers = listener.choices.defers_accept_s > 0;
        if !defers {
            waiting.push_back(number);
            listener.in_events += 1;
        }
        let choices = Choices { is_nonblocking: false, ..listener.choices };
        let mut socket = Socket::new(listener.is_v6, choices);
        socket.zero_copy.is_on = listener.zero_copy.is_on;
        (socket.remembered, socket.is_urgent_inline) =
            (listener.remembered.clone(), listener.is_urgent_inline);
        socket.stamps.ask(listener.stamps.flags(), 0);
        socket.deferred = defers.then_some(*listening);
        socket.role = Role::Open(id);
        socket.local = Some((key.local, key.local_port).into());
        socket.remote = Some((key.remote, key.remote_port).into());
        (socket.was_open, socket.received_ns) = (true, self.now_ns);
        socket.usage = Usage::of_accepted();
        self.sockets.insert(number, socket);
        self.by_id.insert(id, number);
        self.apply(id, &choices);
    }

    /// Data came on a connection that waits for them before it can be accepted.
    fn end_deferral(&mut self, id: Id) {
        let Some(number) = self.by_id.get(&id).copied() else { return };
        let Some(listening) = self.sockets.get_mut(&number).and_then(|socket| socket.deferred.take()) else {
            return;
        };
        if let Some(listener) = self.sockets.get_mut(&listening)
            && let Role::Listening { waiting, .. } = &mut listener.role
        {
            waiting.push_back(number);
            listener.in_events += 1;
        }
    }

    fn see_received(&mut self, id: Id, packet: Packet) {
        let now_ns = self.now_ns;
        if let Some(socket) = self.socket_of(id) {
            socket.received.extend(packet.iter());
            socket.received_ns = now_ns;
            socket.in_events += 1;
        }
        self.end_deferral(id);
        self.pool.free(packet);
        self.with_silently(|stack, _| stack.release(id, 1).ok());
    }

    fn see_sent(&mut self, id: Id) {
        let now_ns = self.now_ns;
        let acknowledged = self.stack().and_then(|stack| stack.info(id)).map(|info| info.bytes_acknowledged);
        if let (Some(socket), Some(bytes)) = (self.socket_of(id), acknowledged) {
            // It wakes whoever waits for room as well.
            socket.out_events += u64::from(socket.zero_copy.acknowledge(bytes));
            socket.out_events += u64::from(socket.stamps.acknowledge(bytes, now_ns));
            socket.send_buffer.acknowledge(bytes);
        }
    }

    fn see_closed(&mut self, id: Id, reason: Reason) {
        if let Some(number) = self.by_id.remove(&id)
            && let Some(socket) = self.sockets.get_mut(&number)
        {
            socket.error = of_reason(reason, socket.was_open);
            socket.role = Role::Ended;
            socket.in_events += 1;
            socket.out_events += 1;
        }
    }

    /// Bytes of a connection that wait to be sent or acknowledged.
    pub fn queued(&self, id: Id) -> usize {
        self.stack().and_then(|stack| stack.info(id)).map_or(0, |info| info.queued as usize)
    }

    /// Bytes of a connection that were not sent.
    pub fn unsent(&self, id: Id) -> usize {
        self.stack().and_then(|stack| stack.detail(id)).map_or(0, |detail| detail.unsent as usize)
    }

    /// A number for a new socket.
    pub fn next_number(&mut self) -> Number {
        self.next += 1;
        self.next
    }

    /// Binds a socket and a connection to each other.
    pub fn attach(&mut self, number: Number, id: Id) {
        self.by_id.insert(id, number);
        if let Some(socket) = self.sockets.get_mut(&number) {
            socket.role = Role::Open(id);
        }
    }

    /// Nobody speaks of a socket any more.
    pub fn detach(&mut self, number: Number) -> Option<Socket> {
        let socket = self.sockets.remove(&number)?;
        if let Some(id) = socket.connection() {
            self.by_id.remove(&id);
        }
        Some(socket)
    }

    /// When something happens by itself next, in nanoseconds.
    pub fn next_deadline_ns(&self) -> Option<i64> {
        self.stack().and_then(Stack::next_deadline_ns)
    }

    /// Lets time pass until a moment, at which nothing else is due before it.
    pub fn pass(&mut self, until_ns: i64) {
        self.now_ns = self.now_ns.max(until_ns);
        self.remember();
        if self.stack.is_some() {
            self.with(|stack, io| stack.expire(io));
        }
    }

    /// Remembers what is known of each connection, for one that is about to end is still asked
    /// about.
    fn remember(&mut self) {
        let Some(stack) = &self.stack else { return };
        for socket in self.sockets.values_mut() {
            if let Some(detail) = socket.connection().and_then(|id| stack.detail(id)) {
                socket.last_info = Some(detail);
            }
        }
    }

    /// Takes the first packet off the cable, with the time in nanoseconds at which it was sent.
    pub fn take_packet(&mut self) -> Option<(i64, Vec<u8>)> {
        self.cable.pop_front()
    }

    /// Whether a packet is on the cable.
    pub fn has_packet(&self) -> bool {
        !self.cable.is_empty()
    }

    /// A packet comes in, without an Ethernet header. What it leads to is sent by
    /// [`Host::pump`], so that calls that wait may add to it, as applications do.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.remember();
        // Hosts receive what fits into no buffer from their own network card, which put segments
        // together.
        match bytes.len() < memory::DATA_ROOM - ethernet::HEADER_LEN {
            true => self.receive_one(bytes),
            false => split(bytes.to_vec(), PART).iter().for_each(|part| self.receive_one(part)),
        }
        self.poll_sockets();
    }

    /// Lets sockets see what happened.
    fn poll_sockets(&mut self) -> bool {
        let mut events = Vec::new();
        self.with_silently(|stack, _| stack.swap_events(&mut events));
        let is_quiet = events.is_empty();
        events.into_iter().for_each(|event| self.see(event));
        is_quiet
    }

    fn receive_one(&mut self, bytes: &[u8]) {
        let Some(packet) = self.frame(bytes) else { return };
        let Ok(flow) = Flow::of(&packet) else { return self.pool.free(packet) };
        if flow.protocol != Protocol::TCP {
            self.take_message(&packet, &flow);
            return self.pool.free(packet);
        }
        let ip = &packet[flow.l3_offset()..flow.l4_offset()];
        let class = match ipv4::version(ip[0]) {
            4 => ipv4::Header::of(ip).map_or(0, |ip| ip.traffic_class()),
            _ => ipv6::Header::of(ip).map_or(0, |ip| ip.traffic_class()),
        };
        if flow.ports.is_none() {
            return self.pool.free(packet);
        }
        self.count_received(&packet, &flow);
        self.with_silently(|stack, io| stack.receive(packet, &flow, class, io));
    }

    /// A segment is about to be taken: it counts, and may tell of an urgent byte.
    fn count_received(&mut self, packet: &Packet, flow: &Flow) {
        let bytes = packet.get(flow.l4_offset()..flow.end);
        let Some(tcp) = bytes.and_then(|bytes| segment::Segment::new_checked(bytes).ok()) else { return };
        let ends = (tcp.dst_port(), tcp.src_port());
        let is_its = |socket: &&mut Socket| {
            let port_of = |address: Option<SocketAddr>| address.map_or(0, |address| address.port());
            (port_of(socket.local), port_of(socket.remote)) == ends
        };
        let Some(socket) = self.sockets.values_mut().find(is_its) else { return };
        socket.usage.receive(tcp.payload().len());
        if let Some(id) = socket.connection() {
            self.note_urgent(id, &tcp);
        }
    }

    /// A message of ICMP: the path takes only shorter packets, or the other end is not there.
    fn take_message(&mut self, packet: &Packet, flow: &Flow) {
        if let Some(too_big) = tcp::TooBig::of(flow, packet) {
            self.with_silently(|stack, io| stack.too_big(&too_big.key, too_big.sequence, too_big.mtu, io));
            return;
        }
        let Some(message) = tcp::Unreachable::of(flow, packet) else { return };
        let mut is_ours = false;
        self.with_silently(|stack, io| is_ours = stack.unreachable(&message, io));
        self.settings.strange_messages += u64::from(!is_ours);
    }

    /// A packet with an Ethernet header in front, as the stack's layers count from there.
    fn frame(&mut self, bytes: &[u8]) -> Option<Packet> {
        let version = ipv4::version(*bytes.first()?);
        let mut packet = self.pool.alloc()?;
        if packet.copy_from(bytes).is_err() {
            self.pool.free(packet);
            return None;
        }
        let header = packet.push_front(ethernet::HEADER_LEN).ok()?;
        ethernet::Repr {
            dst: MacAddress([2, 0, 0, 0, 0, 1]),
            src: MacAddress([2, 0, 0, 0, 0, 2]),
            ethertype: if version == 4 { EtherType::IPV4 } else { EtherType::IPV6 },
        }
        .emit(&mut ethernet::Frame::new_unchecked(header));
        Some(packet)
    }
}
