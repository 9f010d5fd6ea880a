//! The stack's side of all connections: a `tcp::Service` that copies what came to where handles
//! read it, and gives what they wrote to the stack as there is room.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError};

use memory::Packet;
use port::Counter;
use runtime::Wakeup;
use tcp::{Event, Id, Io, Reason, Refusal, Report, Service, Stack};

use crate::backlog::Backlog;
use crate::calls::{Call, Calls};
use crate::connection::{Connection, Ended, Handle, State};

/// When sending is tried again for which there were no buffers, in nanoseconds.
const RETRY_NS: i64 = 1_000_000;

/// What the engine counted.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    over_limit: u64,
    over_backlog: u64,
    lingered: u64,
    gone: u64,
}

/// The application of a stack whose connections are streams: it is given to a host, and what
/// [`network`](crate::network) returns beside it is for the threads that use them.
pub struct Engine {
    own: Vec<IpAddr>,
    calls: Arc<Calls>,
    /// The list of calls that was taken, for its memory.
    taken: Vec<Call>,
    /// Connections by their places.
    connections: Vec<Option<(Id, Arc<Connection>)>>,
    listeners: BTreeMap<u16, Arc<Backlog>>,
    /// Connections for which there were no buffers, and when they have another turn.
    starved: BTreeSet<Id>,
    retry_ns: i64,
    counted: Counted,
    report: Report,
}

impl Engine {
    pub(crate) fn new(own: &[IpAddr], calls: Arc<Calls>) -> Engine {
        Engine {
            own: own.to_vec(),
            calls,
            taken: Vec::new(),
            connections: Vec::new(),
            listeners: BTreeMap::new(),
            starved: BTreeSet::new(),
            retry_ns: i64::MAX,
            counted: Counted::default(),
            report: Report::default(),
        }
    }

    /// Has the counters added to a report when the engine ends.
    pub fn report_to(&mut self, report: &Report) {
        self.report = report.clone();
    }

    fn counters(&self) -> Vec<Counter> {
        let Counted { over_limit, over_backlog, lingered, gone } = self.counted;
        vec![
            Counter::of("socket_over_limit", over_limit, "connections reset: there were as many as may be"),
            Counter::of("socket_over_backlog", over_backlog, "connections reset: too many were not accepted"),
            Counter::of("socket_gone", gone, "connections ended as soon as they were open"),
            Counter::of(
                "socket_lingered",
                lingered,
                "closed connections reset: the last bytes were not taken",
            ),
        ]
    }

    fn known(&self, id: Id) -> Option<Arc<Connection>> {
        let (known, connection) = self.connections.get(id.index())?.as_ref()?;
        (*known == id).then(|| connection.clone())
    }

    fn keep(&mut self, id: Id, connection: Arc<Connection>) {
        if self.connections.len() <= id.index() {
            self.connections.resize_with(id.index() + 1, || None);
        }
        self.connections[id.index()] = Some((id, connection));
    }

    fn forget(&mut self, id: Id) -> Option<Arc<Connection>> {
        self.starved.remove(&id);
        let place = self.connections.get_mut(id.index())?;
        place.take_if(|(known, _)| *known == id).map(|(_, connection)| connection)
    }

    /// A connection that another host opened.
    fn accept(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        // It may have been reset in the same turn.
        let Some(ends) = ends_of(stack, id) else {
            self.counted.gone += 1;
            return;
        };
        let backlog = self.listeners.get(&ends.0.port()).filter(|it| it.has_room());
        let place = backlog.and_then(|_| self.calls.take_place());
        let (Some(backlog), Some(place)) = (backlog, place) else {
            match backlog {
                Some(_) => self.counted.over_limit += 1,
                None => self.counted.over_backlog += 1,
            }
            let _ = stack.abort(id, io);
            return;
        };
        let connection =
            Arc::new(Connection::new(place, State::opened(id, Some(ends), worth_telling(stack))));
        // The waker that is called may panic: the connection is ended with the engine then.
        let backlog = backlog.clone();
        self.keep(id, connection.clone());
        backlog.push(Handle(connection));
    }

    /// A connection of this side is open.
    fn connected(&mut self, id: Id) {
        let Some(connection) = self.known(id) else { return };
        let mut state = connection.lock();
        state.ends = state.opening.take();
        let waiting = state.wake_writer();
        drop(state);
        connection.wake(waiting);
    }

    /// Copies what came: the window stays closed by as much until somebody reads it.
    fn receive(&mut self, id: Id, packet: Packet, stack: &mut Stack, io: &mut Io) {
        let Some(connection) = self.known(id) else {
            // It was closed, and nobody will read it: as below.
            let _ = stack.abort(id, io);
            return io.pool.free(packet);
        };
        let mut state = connection.lock();
        if state.is_read_shut {
            drop(state);
            let _ = stack.consume(id, packet.len(), io);
            return io.pool.free(packet);
        }
        state.received.extend(&packet[..]);
        let (waiting, is_dropped) = (state.wake_reader(), state.is_dropped);
        drop(state);
        io.pool.free(packet);
        let _ = stack.release(id, 1);
        connection.wake(waiting);
        if is_dropped {
            // Nobody will read it, which the other side is told (RFC 9293, section 3.6.1).
            self.serve_handles(&connection, stack, io);
        }
    }

    fn peer_finished(&mut self, id: Id) {
        let Some(connection) = self.known(id) else { return };
        let mut state = connection.lock();
        state.is_peer_finished = true;
        let waiting = state.wake_reader();
        drop(state);
        connection.wake(waiting);
    }

    fn closed(&mut self, id: Id, reason: Reason) {
        let Some(connection) = self.forget(id) else { return };
        let was_open = connection.lock().ends.is_some();
        connection.end(Ended::of(reason, was_open));
    }

    /// The last bytes of a connection that nobody holds were not taken in time.
    fn lingered(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        if self.forget(id).is_some() {
            self.counted.lingered += 1;
            let _ = stack.abort(id, io);
        }
    }

    fn connect(&mut self, connection: &Arc<Connection>, to: SocketAddr, stack: &mut Stack, io: &mut Io) {
        let own = self.own.iter().find(|own| own.is_ipv4() == to.is_ipv4());
        let opened = own.map(|own| stack.connect(*own, (to.ip(), to.port()), io));
        match opened {
            Some(Ok(id)) => {
                let mut state = connection.lock();
                (state.id, state.worth_telling) = (Some(id), worth_telling(stack));
                state.opening = ends_of(stack, id);
                drop(state);
                self.keep(id, connection.clone());
            }
            Some(Err(Refusal::TooMany)) => connection.end(Ended::Failed(ErrorKind::QuotaExceeded)),
            Some(Err(_)) => connection.end(Ended::Failed(ErrorKind::AddrNotAvailable)),
            None => connection.end(Ended::Failed(ErrorKind::NetworkUnreachable)),
        }
    }

    /// Does what the handles of a connection want.
    fn serve_handles(&mut self, connection: &Arc<Connection>, stack: &mut Stack, io: &mut Io) {
        let mut state = connection.lock();
        let Some(id) = state.id.filter(|_| state.ended.is_none()) else { return };
        if state.is_dropped && !state.received.is_empty() {
            // As Linux does: who closes without having read resets.
            state.ended = Some(Ended::Failed(ErrorKind::ConnectionAborted));
            drop(state);
            let _ = stack.abort(id, io);
            self.forget(id);
            return;
        }
        let consumed = std::mem::take(&mut state.consumed);
        if consumed > 0 {
            let _ = stack.consume(id, consumed, io);
        }
        if let Some(is_on) = state.nagle.take() {
            let _ = stack.set_nagle(id, is_on, io);
        }
        self.give(id, &mut state, stack, io);
        let is_roomy = state.to_send.len() <= self.calls.send_buffer / 2;
        let waiting = if is_roomy { state.wake_writer() } else { Default::default() };
        drop(state);
        connection.wake(waiting);
    }

    /// Gives the stack what was written, as far as it has room, and the end behind that.
    fn give(&mut self, id: Id, state: &mut State, stack: &mut Stack, io: &mut Io) {
        while let (front @ [_, ..], _) = state.to_send.as_slices() {
            match stack.write(id, front, io) {
                Ok(0) => break,
                Ok(written) => drop(state.to_send.drain(..written)),
                Err(_) => state.to_send.clear(), // its last event says why
            }
        }
        if !state.to_send.is_empty() {
            // Acknowledgements tell of room, if any can come.
            if stack.info(id).is_some_and(|info| info.queued == 0) && self.starved.insert(id) {
                self.retry_ns = self.retry_ns.min(io.now_ns + RETRY_NS);
            }
            if state.is_dropped && !std::mem::replace(&mut state.is_lingering, true) {
                let limit_ns = stack.options().fin_wait_ns;
                let _ = stack.set_timer(id, Some(io.now_ns + limit_ns), io);
            }
        } else if state.is_dropped {
            let _ = stack.close(id, io);
            state.ended = Some(Ended::Finished);
            self.forget(id);
        } else if state.is_finished && !std::mem::replace(&mut state.is_finish_told, true) {
            let _ = stack.finish(id, io);
        }
    }

    /// Tries again to send what found no buffers.
    fn retry(&mut self, stack: &mut Stack, io: &mut Io) {
        if self.retry_ns > io.now_ns {
            return;
        }
        self.retry_ns = i64::MAX;
        for id in std::mem::take(&mut self.starved) {
            self.sent(id, stack, io);
        }
    }

    /// There may be room.
    fn sent(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        if let Some(connection) = self.known(id) {
            self.serve_handles(&connection, stack, io);
        }
    }

    fn take_calls(&mut self, stack: &mut Stack, io: &mut Io) {
        self.calls.swap(&mut self.taken);
        self.taken.reverse();
        // What is left is ended with the engine, should whoever is woken panic.
        while let Some(call) = self.taken.pop() {
            match call {
                Call::Look(connection) => {
                    connection.lock().take_call();
                    self.serve_handles(&connection, stack, io);
                }
                Call::Connect(connection, to) => self.connect(&connection, to, stack, io),
                Call::Listen(backlog) => {
                    stack.listen(backlog.port);
                    self.listeners.insert(backlog.port, backlog.clone());
                    backlog.begin();
                }
                Call::Unlisten(backlog) => {
                    stack.unlisten(backlog.port);
                    self.listeners.remove(&backlog.port);
                    backlog.clear();
                }
            }
        }
    }
}

impl Service for Engine {
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.drain(..) {
            match event {
                Event::Received { connection, packet } => self.receive(connection, packet, stack, io),
                Event::Sent { connection, .. } => self.sent(connection, stack, io),
                Event::Connected { connection, is_passive: true } => self.accept(connection, stack, io),
                Event::Connected { connection, is_passive: false } => self.connected(connection),
                Event::PeerFinished { connection } => self.peer_finished(connection),
                Event::Closed { connection, reason } => self.closed(connection, reason),
                Event::Timer { connection } => self.lingered(connection, stack, io),
            }
        }
        if self.calls.is_any() {
            self.take_calls(stack, io);
        }
        self.retry(stack, io);
    }

    fn deadline_ns(&self) -> Option<i64> {
        if self.calls.is_any() {
            return Some(i64::MIN);
        }
        Some(self.retry_ns).filter(|at_ns| *at_ns != i64::MAX)
    }

    fn wakeup(&self) -> Option<Arc<Wakeup>> {
        Some(self.calls.wakeup())
    }
}

impl Drop for Engine {
    /// All who wait find that there is no stack any more.
    fn drop(&mut self) {
        let gone = Ended::Failed(ErrorKind::NotConnected);
        for call in self.taken.drain(..).chain(self.calls.end()) {
            match call {
                Call::Connect(connection, _) | Call::Look(connection) => connection.end(gone),
                Call::Listen(backlog) | Call::Unlisten(backlog) => backlog.end(),
            }
        }
        self.connections.drain(..).flatten().for_each(|(_, connection)| connection.end(gone));
        self.listeners.values().for_each(|backlog| backlog.end());
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.extend(self.counters());
    }
}

/// This end of a connection and the other.
fn ends_of(stack: &Stack, id: Id) -> Option<(SocketAddr, SocketAddr)> {
    let key = stack.info(id)?.key;
    Some(((key.local, key.local_port).into(), (key.remote, key.remote_port).into()))
}

/// From how many bytes on that were read the stack is told: a quarter of the window.
fn worth_telling(stack: &Stack) -> usize {
    (stack.options().receive_buffer / 4) as usize
}
