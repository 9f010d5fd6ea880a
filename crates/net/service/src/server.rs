//! Connections of a protocol: what came goes to the protocol as it came, what it answers goes
//! into packets, and a client that sends without taking the answers has to wait.
//!
//! A protocol takes bytes in pieces of any length, in the device's buffers; what it cannot
//! take because its answers find no room is copied behind what waits already, and the window
//! stays closed by that much. So no buffer of the pool is ever kept here, and what all
//! connections keep has a limit.

use port::Counter;
use tcp::{Event, Id, Io, Report, Service, Stack};

use crate::output::{Output, Sender};

/// How long a connection that this side has ended waits for the other side's end, in
/// nanoseconds: so long its data are thrown away, so that they do not reset the connection
/// in front of the last answer (RFC 9112, section 9.6).
const LINGER_NS: i64 = 2_000_000_000;
/// When sending is tried again for which there were no buffers, in nanoseconds.
const RETRY_NS: i64 = 1_000_000;

/// What became of bytes that a protocol was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// How many were taken: all, unless the output is full or the connection ends.
    pub used: usize,
    /// Whether the connection ends: all answers in front of its end have been given.
    pub ends: bool,
}

/// A protocol of requests and answers on connections.
pub trait Protocol: Send {
    /// What is kept of a connection.
    type Session: Default + Send;

    /// Is called once, before all else, with the present in nanoseconds.
    fn begin(&mut self, now_ns: i64) {
        let _ = now_ns;
    }

    /// A connection was opened.
    fn open(&mut self) {}

    /// Goes on with the answer that found no room before, and takes what came, which may
    /// begin and end anywhere.
    fn take(&mut self, session: &mut Self::Session, input: &[u8], output: &mut impl Output) -> Taken;

    /// Whether an answer waits for room.
    fn is_answering(&self, session: &Self::Session) -> bool;

    /// Bytes that a session keeps beside itself.
    fn held(&self, session: &Self::Session) -> usize;

    /// The connection of a session is no more.
    fn forget(&mut self, session: Self::Session);

    /// After how many nanoseconds without a whole request a connection is ended; never for
    /// `None`.
    fn idle_ns(&self) -> Option<i64> {
        None
    }

    /// What was counted.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }

    /// So many bytes came, and so many went.
    fn count_bytes(&mut self, came: u64, went: u64) {
        let _ = (came, went);
    }
}

/// A connection.
#[derive(Debug)]
struct Connection<S> {
    id: Id,
    session: S,
    /// What came and was not taken.
    backlog: Vec<u8>,
    /// What was answered and found no room.
    spill: Vec<u8>,
    /// What is counted of what this connection keeps.
    kept: usize,
    /// When something was answered last.
    answered_ns: i64,
    /// When the connection is closed, once this side has ended.
    linger_ns: Option<i64>,
    /// The answers end the connection.
    ends: bool,
    is_peer_finished: bool,
}

impl<S: Default> Connection<S> {
    fn new(id: Id, now_ns: i64) -> Connection<S> {
        Connection {
            id,
            session: S::default(),
            backlog: Vec::new(),
            spill: Vec::new(),
            kept: 0,
            answered_ns: now_ns,
            linger_ns: None,
            ends: false,
            is_peer_finished: false,
        }
    }
}

/// What a server counted.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    aborted: u64,
    idle: u64,
}

/// A protocol on the connections of one core.
#[derive(Debug)]
pub struct Server<P: Protocol> {
    protocol: P,
    /// Connections by their places.
    connections: Vec<Option<Connection<P::Session>>>,
    /// Bytes that all connections keep, and how many they may.
    kept: usize,
    limit: usize,
    counted: Counted,
    report: Report,
}

impl<P: Protocol> Server<P> {
    /// A server whose connections keep up to `limit` bytes of unanswered requests and unsent
    /// answers in all.
    pub fn new(protocol: P, limit: usize) -> Server<P> {
        let (connections, counted, report) = (Vec::new(), Counted::default(), Report::default());
        Server { protocol, connections, kept: 0, limit, counted, report }
    }

    /// Has the counters added to a report when the server ends.
    pub fn report_to(&mut self, report: &Report) {
        self.report = report.clone();
    }

    fn counters(&self) -> Vec<Counter> {
        let own = [
            Counter::of(
                "service_aborted",
                self.counted.aborted,
                "connections reset: too much was kept for them",
            ),
            Counter::of("service_idle", self.counted.idle, "connections ended that sent no whole request"),
        ];
        own.into_iter().chain(self.protocol.counters()).collect()
    }

    fn open(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        if self.connections.len() <= id.index() {
            self.connections.resize_with(id.index() + 1, || None);
        }
        self.forget(id, true);
        self.protocol.open();
        self.connections[id.index()] = Some(Connection::new(id, io.now_ns));
        if let Some(idle_ns) = self.protocol.idle_ns() {
            let _ = stack.set_timer(id, Some(io.now_ns + idle_ns), io);
        }
    }

    /// Forgets a connection, or whichever was in its place before.
    fn forget(&mut self, id: Id, any: bool) {
        let Some(place) = self.connections.get_mut(id.index()) else { return };
        if let Some(connection) = place.take_if(|connection| any || connection.id == id) {
            self.kept -= connection.kept;
            self.protocol.forget(connection.session);
        }
    }

    /// Takes the bytes of a packet.
    fn receive(&mut self, id: Id, bytes: &[u8], stack: &mut Stack, io: &mut Io) {
        let known = self.connections.get_mut(id.index()).and_then(Option::as_mut);
        let Some(connection) = known.filter(|connection| connection.id == id) else { return };
        self.protocol.count_bytes(bytes.len() as u64, 0);
        if connection.linger_ns.is_some() || connection.ends {
            let _ = stack.consume(id, bytes.len(), io);
            return;
        }
        let is_blocked = !connection.spill.is_empty() || !connection.backlog.is_empty();
        let used = match is_blocked || self.protocol.is_answering(&connection.session) {
            true => 0,
            false => run(&mut self.protocol, connection, bytes, stack, io),
        };
        connection.backlog.extend_from_slice(&bytes[used..]);
        self.settle(id, stack, io);
    }

    /// Goes on with a connection for which there may be room.
    fn resume(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        let known = self.connections.get_mut(id.index()).and_then(Option::as_mut);
        let Some(connection) = known.filter(|connection| connection.id == id) else { return };
        let is_answering = self.protocol.is_answering(&connection.session);
        if connection.spill.is_empty() && connection.backlog.is_empty() && !is_answering {
            return;
        }
        let mut sender = Sender::new(id, stack, io, &mut connection.spill);
        sender.resume();
        let is_starved = sender.is_starved;
        connection.answered_ns = io.now_ns;
        if is_starved {
            let _ = stack.set_timer(id, Some(io.now_ns + RETRY_NS), io);
        }
        if connection.spill.is_empty() && !connection.ends {
            let backlog = std::mem::take(&mut connection.backlog);
            let used = run(&mut self.protocol, connection, &backlog, stack, io);
            connection.backlog.extend_from_slice(&backlog[used..]);
        }
        self.settle(id, stack, io);
    }

    /// Ends the connection where it is time to, and counts what it keeps.
    fn settle(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        let Some(connection) = self.connections.get_mut(id.index()).and_then(Option::as_mut) else { return };
        let is_waiting = !connection.spill.is_empty()
            || self.protocol.is_answering(&connection.session)
            || (!connection.backlog.is_empty() && !connection.ends);
        if !is_waiting && (connection.ends || connection.is_peer_finished) && connection.linger_ns.is_none() {
            end(connection, stack, io);
        }
        let held = self.protocol.held(&connection.session);
        let kept = connection.backlog.capacity() + connection.spill.capacity() + held;
        let before = std::mem::replace(&mut connection.kept, kept);
        self.kept = self.kept - before + kept;
        if self.kept > self.limit && kept > before {
            self.counted.aborted += 1;
            let _ = stack.abort(id, io);
            self.forget(id, false);
        }
    }

    /// The other side sends no more: what it sent is still answered.
    fn peer_finished(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        let known = self.connections.get_mut(id.index()).and_then(Option::as_mut);
        let Some(connection) = known.filter(|connection| connection.id == id) else { return };
        connection.is_peer_finished = true;
        self.settle(id, stack, io);
    }

    /// The time of a connection is over, or sending is tried again.
    fn expire(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        self.resume(id, stack, io);
        let known = self.connections.get_mut(id.index()).and_then(Option::as_mut);
        let Some(connection) = known.filter(|connection| connection.id == id) else { return };
        if let Some(linger_ns) = connection.linger_ns {
            let is_over = io.now_ns >= linger_ns;
            let _ = match is_over {
                true => stack.close(id, io),
                false => stack.set_timer(id, Some(linger_ns), io),
            };
            return;
        }
        let Some(idle_ns) = self.protocol.idle_ns() else { return };
        let due_ns = connection.answered_ns + idle_ns;
        if io.now_ns < due_ns {
            let _ = stack.set_timer(id, Some(due_ns), io);
            return;
        }
        self.counted.idle += 1;
        connection.spill = Vec::new();
        end(connection, stack, io);
    }
}

/// Gives bytes to the protocol, and sends what it answers; how many it took.
fn run<P: Protocol>(
    protocol: &mut P,
    connection: &mut Connection<P::Session>,
    bytes: &[u8],
    stack: &mut Stack,
    io: &mut Io,
) -> usize {
    let now_ns = io.now_ns;
    let mut sender = Sender::new(connection.id, stack, io, &mut connection.spill);
    let taken = protocol.take(&mut connection.session, bytes, &mut sender);
    sender.flush();
    let (written, is_starved) = (sender.written, sender.is_starved);
    protocol.count_bytes(0, written);
    if written > 0 {
        connection.answered_ns = now_ns;
    }
    if is_starved {
        let _ = stack.set_timer(connection.id, Some(now_ns + RETRY_NS), io);
    }
    connection.ends |= taken.ends;
    let _ = stack.consume(connection.id, taken.used, io);
    taken.used
}

/// Ends this side. What comes is thrown away until the other side ends, for some time.
fn end<S>(connection: &mut Connection<S>, stack: &mut Stack, io: &mut Io) {
    let linger_ns = io.now_ns + LINGER_NS;
    connection.linger_ns = Some(linger_ns);
    connection.ends = true;
    let _ = stack.consume(connection.id, connection.backlog.len(), io);
    connection.backlog = Vec::new();
    let _ = stack.finish(connection.id, io);
    let _ = stack.set_timer(connection.id, Some(linger_ns), io);
}

impl<P: Protocol> Service for Server<P> {
    fn begin(&mut self, _: &mut Stack, io: &mut Io) {
        self.protocol.begin(io.now_ns);
    }

    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.drain(..) {
            match event {
                Event::Received { connection, packet } => {
                    self.receive(connection, &packet, stack, io);
                    io.pool.free(packet);
                }
                Event::Connected { connection, .. } => self.open(connection, stack, io),
                Event::Sent { connection, .. } => self.resume(connection, stack, io),
                Event::PeerFinished { connection } => self.peer_finished(connection, stack, io),
                Event::Timer { connection } => self.expire(connection, stack, io),
                Event::Closed { connection, .. } => self.forget(connection, false),
            }
        }
    }
}

impl<P: Protocol> Drop for Server<P> {
    fn drop(&mut self) {
        let mut report = self.report.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        report.extend(self.counters());
    }
}
