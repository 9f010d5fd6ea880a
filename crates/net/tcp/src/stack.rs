//! The stack of one core: which connection a segment belongs to, what is due, and who may
//! send. What an application may ask of it stands in [`calls`](crate::calls).

use std::collections::{BTreeMap, VecDeque};

use memory::Packet;
use port::Reason as Loss;
use runtime::Timers;
use wire::Flow;
use wire::tcp::Flags;

use crate::choices::Listener;
use crate::connection::{Connection, Io, MaybePacket, NEVER, Next, StackShared, State};
use crate::cookie;
use crate::counters::Counters;
use crate::demux::Demux;
use crate::elsewhere::Elsewhere;
use crate::event::{Event, Id};
use crate::fast_open::{SynHandling, decide};
use crate::fast_open_client::Servers;
use crate::follow_up::arm;
use crate::kept::Ids;
use crate::key::Key;
use crate::near::Near;
use crate::options::{MILLISECOND_NS, Options};
use crate::output::Stop;
use crate::queue::Nodes;
use crate::reset::{reset_for, send_reply};
use crate::segment::Segment;
use crate::sequence::Sequence;
use crate::slab::Slab;

/// How late a timer may be.
const TICK_NS: i64 = MILLISECOND_NS;
/// How far the numbers of a connection begin behind those of one before it: beyond any window
/// that is not scaled.
const BEHIND: u32 = 1 << 17;

/// The TCP of one core.
pub struct Stack {
    pub(crate) connections: Slab,
    pub(crate) demux: Demux,
    /// Connections that segments came to lately.
    pub(crate) near: Near,
    /// Whether segments that are as expected take the fast path.
    #[cfg(debug_assertions)]
    pub(crate) predicts: bool,
    pub(crate) timers: Timers,
    /// Before that the wheel need not be looked at.
    pub(crate) wheel_due_ns: i64,
    /// Connections that have something to send, each once.
    pub(crate) ready: VecDeque<u32>,
    /// There was no room to send for all of them.
    pub(crate) is_stalled: bool,
    /// Connections in TIME-WAIT, the oldest first, among others that have left it.
    time_wait: Ids,
    /// Connections that could not send anything because others keep too many packets.
    pub(crate) starved: Ids,
    pub(crate) in_time_wait: u32,
    pub(crate) half_open: u32,
    /// Those of them whose SYN's data were taken.
    pub(crate) fast_half_open: u32,
    /// Until when those count that a reset ended, the oldest first.
    pub(crate) fast_resets: VecDeque<i64>,
    /// Until when acknowledgements may carry cookies.
    pub(crate) cookies_until_ns: i64,
    /// A bit for each port that is listened on.
    listening: Box<[u64; 1024]>,
    /// How connections to some of them are taken.
    pub(crate) listeners: BTreeMap<u16, Listener>,
    /// Which core has what this one has not, where connections may move.
    pub(crate) elsewhere: Option<Box<Elsewhere>>,
    pub(crate) shared: StackShared,
}

impl Stack {
    /// A stack without connections. Times are nanoseconds of a clock that does not go back.
    pub fn new(options: Options, now_ns: i64) -> Stack {
        let options = options.checked();
        let capacity = options.connections as usize;
        Stack {
            connections: Slab::new(options.connections),
            demux: Demux::new(capacity),
            near: Near::default(),
            #[cfg(debug_assertions)]
            predicts: true,
            timers: Timers::new(capacity, TICK_NS, now_ns),
            wheel_due_ns: NEVER,
            ready: VecDeque::new(),
            is_stalled: false,
            time_wait: Ids::default(),
            starved: Ids::default(),
            in_time_wait: 0,
            half_open: 0,
            fast_half_open: 0,
            fast_resets: VecDeque::new(),
            cookies_until_ns: i64::MIN,
            listening: Box::new([0; 1024]),
            listeners: BTreeMap::new(),
            elsewhere: None,
            shared: StackShared {
                options,
                nodes: Nodes::default(),
                servers: Servers::default(),
                early: Nodes::default(),
                unconsumed: 0,
                events: Vec::with_capacity(64),
                counters: Counters::default(),
            },
        }
    }

    /// Sets the longest IP packet of connections that are opened from now on; others find it out
    /// by themselves.
    pub(crate) fn set_mtu(&mut self, mtu: u16) {
        self.shared.options = Options { mtu, ..self.shared.options }.checked();
    }

    /// Takes connections to a port from now on.
    pub fn listen(&mut self, port: u16) {
        self.listening[usize::from(port / 64)] |= 1 << (port % 64);
    }

    /// Takes no more connections to a port; those that there are stay.
    pub fn unlisten(&mut self, port: u16) {
        self.listening[usize::from(port / 64)] &= !(1 << (port % 64));
        self.listeners.remove(&port);
    }

    fn is_listening(&self, port: u16) -> bool {
        self.listening[usize::from(port / 64)] & 1 << (port % 64) != 0
    }

    /// Takes a segment in a frame or a packet, whose layers are `flow` and whose IP header has
    /// the traffic class `class`. Answers that need no connection go to `io.out` at once.
    pub fn receive(&mut self, packet: Packet, flow: &Flow, class: u8, io: &mut Io) {
        self.receive_hashed(packet, flow, class, None, io);
    }

    /// As [`receive`](Stack::receive), where the hash of its connection may be known.
    pub(crate) fn receive_hashed(
        &mut self,
        packet: Packet,
        flow: &Flow,
        class: u8,
        hash: Option<u32>,
        io: &mut Io,
    ) {
        self.shared.counters.segments_received += 1;
        // Made where it stays: it is copied nowhere.
        let view = match Segment::view(&packet, flow) {
            Ok(view) => view,
            Err(loss) => return self.lose(packet, loss, io),
        };
        let mut segment = Segment::of(&view, flow, class);
        if segment.timestamps.is_none()
            && let Err(loss) = segment.take_options(&view)
        {
            return self.lose(packet, loss, io);
        }
        let key = Key::of(&segment);
        let mut packet = Some(packet);
        match self.find_near(&key, hash) {
            Some(index) => self.arrive(index, &segment, &mut packet, io),
            None => match self.owner_elsewhere(&key) {
                Some(owner) => self.pass_on(owner, packet.take(), flow, class),
                None => self.arrive_at_none(key, &segment, &mut packet, io),
            },
        }
        packet.into_iter().for_each(|packet| io.pool.free(packet));
    }

    #[cold]
    fn lose(&mut self, packet: Packet, loss: Loss, io: &mut Io) {
        self.shared.counters.lose(loss);
        io.pool.free(packet);
    }

    /// Takes a segment of a connection by the slow path.
    #[inline(never)]
    pub(crate) fn arrive_in_general(
        &mut self,
        index: u32,
        segment: &Segment,
        packet: &mut MaybePacket,
        io: &mut Io,
    ) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        if connection.reopens(segment) {
            let (key, behind) = (connection.key, connection.nxt);
            if self.is_listening(key.local_port) {
                self.remove(index, io);
                return self.arrive_at_listener(key, Some(behind), segment, packet, io);
            }
            return self.arrive_at_none(key, segment, packet, io);
        }
        let (before, was_fast) = (connection.state, connection.is_fast_open());
        let next = connection.arrive(index, segment, packet, &mut self.shared, io);
        let after = connection.state;
        self.fast_half_open -= u32::from(was_fast && !connection.is_fast_open());
        self.count_states(index, before, after, io);
        if next == Next::Refuse {
            self.reply_reset(segment, io);
        }
        self.follow_up(index, next, io);
    }

    /// Keeps count of the states that have limits.
    pub(crate) fn count_states(&mut self, index: u32, before: State, after: State, io: &mut Io) {
        let is_half_open = |state| state == State::SynReceived;
        self.half_open += u32::from(is_half_open(after));
        self.half_open -= u32::from(is_half_open(before));
        if after != State::TimeWait || before == State::TimeWait {
            return;
        }
        self.in_time_wait += 1;
        let Some(id) = self.connections.get(index).map(|connection| connection.id(index)) else { return };
        let connections = &self.connections;
        self.time_wait.push(id, |id| is_in_time_wait(connections, id));
        while self.in_time_wait > self.shared.options.time_wait && self.end_time_wait(io) {}
    }

    /// Ends the connection that has been in TIME-WAIT for longest; false when there is none.
    fn end_time_wait(&mut self, io: &mut Io) -> bool {
        while let Some(oldest) = self.time_wait.pop() {
            if is_in_time_wait(&self.connections, oldest) {
                self.shared.counters.time_wait_ended += 1;
                self.remove(oldest.index, io);
                return true;
            }
        }
        false
    }

    /// A segment of no connection (RFC 9293, sections 3.10.7.1 and 3.10.7.2).
    fn arrive_at_none(&mut self, key: Key, segment: &Segment, packet: &mut MaybePacket, io: &mut Io) {
        let is_listening = self.is_listening(key.local_port);
        if segment.has(Flags::RST) {
            return self.shared.counters.lose(Loss::RxTcpNoConnection);
        }
        if segment.has(Flags::ACK) {
            let by_cookie = if is_listening { self.accept_cookie(key, segment, io) } else { None };
            match by_cookie {
                Some(index) => self.arrive(index, segment, packet, io),
                None => {
                    self.shared.counters.lose(Loss::RxTcpNoConnection);
                    self.reply_reset(segment, io);
                }
            }
            return;
        }
        if !is_listening || !segment.has(Flags::SYN) || segment.has(Flags::FIN) {
            self.shared.counters.lose(Loss::RxTcpNoConnection);
            return self.reply_reset(segment, io);
        }
        self.arrive_at_listener(key, None, segment, packet, io);
    }

    /// A SYN to a port that is listened on. Its connection's numbers begin `behind` those of
    /// one before it between the same ends (RFC 6191, section 2).
    fn arrive_at_listener(
        &mut self,
        key: Key,
        behind: Option<Sequence>,
        segment: &Segment,
        packet: &mut MaybePacket,
        io: &mut Io,
    ) {
        let is_full = self.connections.is_full() && self.in_time_wait == 0;
        if self.half_open >= self.shared.options.half_open || is_full {
            // Nothing is kept of it; the answer's number says what must be known later.
            self.shared.counters.lose(Loss::RxTcpLimit);
            self.shared.counters.cookies_sent += 1;
            self.expect_cookies(io.now_ns);
            if let Some(header) = cookie::answer(&key, segment, &self.shared.options, io.now_ns) {
                send_reply(&header, &mut self.shared, io);
            }
            return;
        }
        let initial = self.initial(&key, io.now_ns);
        let least = behind.map(|behind| behind.plus(BEHIND));
        let initial = least.map_or(initial, |least| initial.max(least));
        let Some(index) = self.open(key, initial, io) else { return };
        let listener = self.listeners.get(&key.local_port).copied().unwrap_or_default();
        let pending = listener.fast_open.map_or(0, |_| self.fast_pending(io.now_ns));
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.is.is_passive = true;
        connection.state = State::SynReceived;
        listener.max_segment.into_iter().for_each(|size| connection.limit_segment(size));
        connection.heard_ns = io.now_ns;
        connection.learn(segment, &self.shared.options, io.now_ns);
        connection.set_window(segment);
        connection.queue_control(&mut self.shared, io.now_ns);
        match decide(&key, segment, &listener, pending, &mut self.shared) {
            SynHandling::Usual => {}
            SynHandling::Give(cookie) => connection.cookie = Some(Box::new(cookie)),
            SynHandling::Open => {
                connection.open_fast(index, segment, packet, &mut self.shared, io);
                self.fast_half_open += 1;
            }
        }
        self.half_open += 1;
        self.follow_up(index, Next::Keep, io);
    }

    fn reply_reset(&mut self, segment: &Segment, io: &mut Io) {
        if let Some(header) = reset_for(segment) {
            self.shared.counters.resets_sent += 1;
            send_reply(&header, &mut self.shared, io);
        }
    }

    /// The first number of a connection (RFC 6528, section 3): a clock of four microseconds,
    /// and a secret for each pair of ends.
    pub(crate) fn initial(&self, key: &Key, now_ns: i64) -> Sequence {
        let clock = (now_ns / 4_000) as u32;
        Sequence(clock.wrapping_add(key.seen_hash(self.shared.options.key, 2)))
    }

    /// A place for a connection; where there is none, the oldest in TIME-WAIT leaves its own.
    pub(crate) fn open(&mut self, key: Key, initial: Sequence, io: &mut Io) -> Option<u32> {
        if self.connections.is_full() && !self.end_time_wait(io) {
            return None;
        }
        let hash = self.hash(&key);
        let index = self.connections.insert(key, initial, &self.shared.options)?;
        self.demux.insert(index, hash);
        Some(index)
    }

    /// Forgets a connection.
    pub(crate) fn remove(&mut self, index: u32, io: &mut Io) {
        self.unlist(index);
        if let Some(connection) = self.connections.get_mut(index) {
            connection.clear(&mut self.shared, io.pool);
        }
        self.connections.remove(index);
    }

    /// Takes a connection out, with its packets.
    pub(crate) fn forget(&mut self, index: u32) -> Option<Connection> {
        self.unlist(index);
        self.connections.take(index)
    }

    /// Takes a connection out of all lists but those of its packets.
    fn unlist(&mut self, index: u32) {
        let Some(connection) = self.connections.get(index) else { return };
        self.half_open -= u32::from(connection.state == State::SynReceived);
        self.fast_half_open -= u32::from(connection.is_fast_open());
        self.in_time_wait -= u32::from(connection.state == State::TimeWait);
        self.timers.cancel(index as usize);
        self.demux.remove(index);
    }

    /// Does what is due.
    pub fn expire(&mut self, io: &mut Io) {
        if io.now_ns >= self.wheel_due_ns {
            self.run_wheel(io);
        }
        self.resume();
    }

    fn run_wheel(&mut self, io: &mut Io) {
        while let Some(index) = self.timers.expired(io.now_ns) {
            let index = index as u32;
            let Some(connection) = self.connections.get_mut(index) else { continue };
            (connection.armed_ns, connection.is.to_arm) = (NEVER, true);
            let next = connection.expire(index, &mut self.shared, io);
            self.follow_up(index, next, io);
        }
        self.wheel_due_ns = self.timers.next_deadline_ns().unwrap_or(NEVER);
    }

    /// Until when [`expire`](Stack::expire) need not be called; `None` while nothing is waited
    /// for.
    pub fn next_deadline_ns(&self) -> Option<i64> {
        self.timers.next_deadline_ns().map(|_| self.wheel_due_ns)
    }

    /// Whether something waits for [`output`](Stack::output).
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty() || self.may_resume()
    }

    /// Sends what connections have to send, as far as there is room in `io.out`. Each has its
    /// turn.
    pub fn output(&mut self, io: &mut Io) {
        for _ in 0..self.ready.len() {
            if io.out.room() == 0 {
                return self.stall();
            }
            let Some(index) = self.ready.pop_front() else { return };
            let Some(connection) = self.connections.get_mut(index).filter(|it| it.is.is_ready) else {
                continue; // of a connection that is no more
            };
            match connection.output(&mut self.shared, io) {
                Stop::Done => connection.is.is_ready = false,
                Stop::NoRoom => self.ready.push_back(index),
            }
            arm(connection, index, &mut self.timers, &mut self.wheel_due_ns);
        }
        self.is_stalled = false;
    }

    /// There is no room to send, maybe for long: what waits for its turn is timed meanwhile.
    fn stall(&mut self) {
        if std::mem::replace(&mut self.is_stalled, true) {
            return;
        }
        for &index in &self.ready {
            if let Some(connection) = self.connections.get_mut(index).filter(|it| it.is.is_ready) {
                arm(connection, index, &mut self.timers, &mut self.wheel_due_ns);
            }
        }
    }

    /// Takes the events since the last call, in place of an empty list.
    pub fn swap_events(&mut self, events: &mut Vec<Event>) {
        std::mem::swap(&mut self.shared.events, events);
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// The options, within their limits.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Connections, those in TIME-WAIT among them.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether there are no connections.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Packets that connections keep, without those that applications have.
    pub fn kept_packets(&self) -> usize {
        self.shared.nodes.packets() + self.shared.early.packets()
    }

    /// Drops all connections without a word to anyone, and frees their packets.
    pub fn clear(&mut self, io: &mut Io) {
        for index in 0..self.connections.end() {
            if self.connections.get(index).is_some() {
                self.remove(index, io);
            }
        }
        for event in self.shared.events.drain(..) {
            if let Event::Received { packet, .. } = event {
                io.pool.free(packet);
            }
        }
    }
}

fn is_in_time_wait(connections: &Slab, id: Id) -> bool {
    let connection = connections.get(id.index);
    connection.is_some_and(|it| it.generation == id.generation && it.state == State::TimeWait)
}
