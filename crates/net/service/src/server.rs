//! Connections of a protocol: what came goes to the protocol as it came, what it answers goes
//! into packets, and a client that sends without taking the answers has to wait.
//!
//! A protocol takes bytes in pieces of any length, in the device's buffers; what it cannot
//! take because its answers find no room is copied behind what waits already, and the window
//! stays closed by that much. So no buffer of the pool is ever kept here, and what all
//! connections keep has a limit.

use port::Counter;
use tcp::{Event, Id, Io, Kept, Report, Service, Stack};

use crate::backlog::Backlog;
use crate::holdings::Holdings;
use crate::output::{Output, Sender};

/// After how many nanoseconds a connection ends whose client neither sent a whole request
/// that it had begun nor took anything of its answers.
const IDLE_NS: i64 = 60_000_000_000;
/// How long a connection that this side has ended waits for the other side's end once all
/// answers are acknowledged, in nanoseconds: so long its data are discarded, so that they do not
/// reset the connection in front of the last answer (RFC 9112, section 9.6).
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
    /// Whether a request was carried out: the client has its time for the next one.
    pub is_carried_out: bool,
    /// Whether there is room and the protocol has more to answer, but others' turn comes first:
    /// it is called again in the next turn.
    pub is_paused: bool,
}

/// A protocol of requests and answers on connections.
pub trait Protocol: Send {
    /// What is kept of a connection.
    type Session: Default + Send + 'static;

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

    /// Whether the client has to send something within a minute: the rest of a request.
    fn awaits(&self, session: &Self::Session) -> bool;

    /// What was counted.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }

    /// So many bytes came, and so many went.
    fn count_bytes(&mut self, came: u64, went: u64) {
        let _ = (came, went);
    }
}

/// How far the end of this side has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The connection is served.
    Open,
    /// Nothing is sent behind what is queued, which is not acknowledged yet.
    Queued,
    /// All is acknowledged, and the connection is closed at this time.
    Lingers(i64),
}

/// A connection of a client, with the protocol's session and the bytes that wait in both
/// directions.
#[derive(Debug)]
struct Connection<S> {
    id: Id,
    session: S,
    /// What came and was not taken.
    backlog: Backlog,
    /// What was answered and found no room.
    spill: Vec<u8>,
    /// Bytes that were answered and that the other side has not acknowledged.
    unacknowledged: u64,
    /// When a request was carried out last, or the client took some of its answers, or its
    /// time began.
    progressed_ns: i64,
    /// Whether the client's time was running when the connection was looked at last.
    is_timed: bool,
    /// When the connection's timer expires; `i64::MAX` for never.
    timer_ns: i64,
    end: End,
    /// The answers end the connection.
    ends: bool,
    is_peer_finished: bool,
}

impl<S: Default> Connection<S> {
    fn new(id: Id, now_ns: i64) -> Connection<S> {
        Connection {
            id,
            session: S::default(),
            backlog: Backlog::default(),
            spill: Vec::new(),
            unacknowledged: 0,
            progressed_ns: now_ns,
            is_timed: false,
            timer_ns: i64::MAX,
            end: End::Open,
            ends: false,
            is_peer_finished: false,
        }
    }
}

impl<S> Connection<S> {
    /// Has the timer expire at a time, or earlier if something else is waited for.
    fn wake(&mut self, at_ns: i64, stack: &mut Stack, io: &mut Io) {
        if at_ns < self.timer_ns {
            self.timer_ns = at_ns;
            let _ = stack.set_timer(self.id, Some(at_ns), io);
        }
    }

    /// Whether some of the answers has not been taken.
    fn has_answers<P: Protocol<Session = S>>(&self, protocol: &P) -> bool {
        self.unacknowledged > 0 || protocol.is_answering(&self.session)
    }

    /// Whether the client has a limited time to go on.
    fn is_limited<P: Protocol<Session = S>>(&self, protocol: &P) -> bool {
        self.has_answers(protocol)
            || !self.backlog.is_empty()
            || self.end != End::Open
            || protocol.awaits(&self.session)
    }

    /// Ends this side. What comes is discarded until the other side ends, for some time.
    fn finish(&mut self, stack: &mut Stack, io: &mut Io) {
        (self.end, self.ends, self.progressed_ns) = (End::Queued, true, io.now_ns);
        let _ = stack.consume(self.id, self.backlog.rest().len(), io);
        self.backlog = Backlog::default();
        let _ = stack.finish(self.id, io);
        self.linger(stack, io);
    }

    /// Gives the other side some time for its end, if it has all answers.
    fn linger(&mut self, stack: &mut Stack, io: &mut Io) {
        if self.end == End::Queued && self.unacknowledged == 0 {
            let at_ns = io.now_ns + LINGER_NS;
            self.end = End::Lingers(at_ns);
            self.wake(at_ns, stack, io);
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
    /// Bytes that connections keep, by their places, and how many all may.
    holdings: Holdings,
    limit: usize,
    counted: Counted,
    report: Report,
}

impl<P: Protocol> Server<P> {
    /// A server whose connections keep up to `limit` bytes of unanswered requests and unsent
    /// answers in all.
    pub fn new(protocol: P, limit: usize) -> Server<P> {
        let (connections, counted, report) = (Vec::new(), Counted::default(), Report::default());
        Server { protocol, connections, holdings: Holdings::default(), limit, counted, report }
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
            Counter::of(
                "service_idle",
                self.counted.idle,
                "connections ended: no whole request was sent, or no answer was taken",
            ),
        ];
        own.into_iter().chain(self.protocol.counters()).collect()
    }

    fn open(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        self.clear_place(id);
        self.protocol.open();
        self.connections[id.index()] = Some(Connection::new(id, io.now_ns));
        self.update(id, stack, io);
    }

    /// Makes room for a connection in the place of its name, where nobody is any more.
    fn clear_place(&mut self, id: Id) {
        if self.connections.len() <= id.index() {
            self.connections.resize_with(id.index() + 1, || None);
        }
        self.forget(id, true);
    }

    /// Forgets a connection, or whichever was in its place before.
    fn forget(&mut self, id: Id, any: bool) {
        let Some(place) = self.connections.get_mut(id.index()) else { return };
        if let Some(connection) = place.take_if(|connection| any || connection.id == id) {
            self.holdings.set(id.index(), 0);
            self.protocol.forget(connection.session);
        }
    }

    /// Takes the bytes of a packet.
    fn receive(&mut self, id: Id, bytes: &[u8], stack: &mut Stack, io: &mut Io) {
        let Some(connection) = known(&mut self.connections, id) else { return };
        self.protocol.count_bytes(bytes.len() as u64, 0);
        if connection.ends {
            let _ = stack.consume(id, bytes.len(), io);
            return;
        }
        let is_blocked = !connection.spill.is_empty() || !connection.backlog.is_empty();
        let used = match is_blocked || self.protocol.is_answering(&connection.session) {
            true => 0,
            false => run(&mut self.protocol, connection, bytes, stack, io),
        };
        if used < bytes.len() {
            connection.backlog.push(&bytes[used..]);
            // The bytes are copied, and the packet is freed: only they keep the window closed.
            let _ = stack.release(id, 1);
        }
        self.update(id, stack, io);
    }

    /// The other side has so many bytes more of its answers, so that there may be room.
    fn sent(&mut self, id: Id, bytes: u32, stack: &mut Stack, io: &mut Io) {
        let Some(connection) = known(&mut self.connections, id) else { return };
        if bytes > 0 {
            connection.progressed_ns = io.now_ns;
            connection.unacknowledged = connection.unacknowledged.saturating_sub(bytes.into());
            connection.linger(stack, io);
            connection.is_timed = connection.is_limited(&self.protocol);
        }
        self.resume(id, stack, io);
    }

    /// Goes on with a connection for which there may be room.
    fn resume(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        let Some(connection) = known(&mut self.connections, id) else { return };
        let is_answering = self.protocol.is_answering(&connection.session);
        if connection.spill.is_empty() && connection.backlog.is_empty() && !is_answering {
            return;
        }
        let mut sender = Sender::new(id, stack, io, &mut connection.spill);
        sender.resume();
        let is_starved = sender.is_starved;
        if is_starved {
            connection.wake(io.now_ns + RETRY_NS, stack, io);
        }
        if connection.spill.is_empty() && !connection.ends {
            let mut backlog = std::mem::take(&mut connection.backlog);
            let used = run(&mut self.protocol, connection, backlog.rest(), stack, io);
            backlog.take(used);
            connection.backlog = backlog;
        }
        self.update(id, stack, io);
    }

    /// Ends the connection where it is time to, sees to the client's time, and counts what the
    /// connection keeps.
    fn update(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        let Some(connection) = known(&mut self.connections, id) else { return };
        let is_waiting = !connection.spill.is_empty()
            || self.protocol.is_answering(&connection.session)
            || (!connection.backlog.is_empty() && !connection.ends);
        let is_over = connection.ends || connection.is_peer_finished;
        if !is_waiting && is_over && connection.end == End::Open {
            connection.finish(stack, io);
        }
        let is_timed = connection.is_limited(&self.protocol);
        if is_timed && !connection.is_timed {
            connection.progressed_ns = io.now_ns;
        }
        connection.is_timed = is_timed;
        if is_timed {
            connection.wake(connection.progressed_ns + IDLE_NS, stack, io);
        }
        let held = self.protocol.held(&connection.session);
        let kept = connection.backlog.held() + connection.spill.capacity() + held;
        let before = self.holdings.set(id.index(), kept);
        if self.holdings.total() > self.limit && kept > before {
            self.make_room(stack, io);
        }
    }

    /// Resets connections, those first that keep most but for a factor of two, until a
    /// quarter of what all may keep is free.
    fn make_room(&mut self, stack: &mut Stack, io: &mut Io) {
        while self.holdings.total() > self.limit / 4 * 3 {
            let Some(place) = self.holdings.large() else { return };
            let Some(Some(Connection { id, .. })) = self.connections.get(place) else { return };
            let id = *id;
            self.counted.aborted += 1;
            let _ = stack.abort(id, io);
            self.forget(id, false);
        }
    }

    /// The other side sends no more: what it sent is still answered.
    fn peer_finished(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        let Some(connection) = known(&mut self.connections, id) else { return };
        connection.is_peer_finished = true;
        self.update(id, stack, io);
    }

    /// The time of a connection is over, or sending is tried again.
    fn expire(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        let Some(connection) = known(&mut self.connections, id) else { return };
        connection.timer_ns = i64::MAX;
        self.resume(id, stack, io);
        let Some(connection) = known(&mut self.connections, id) else { return };
        connection.is_timed = connection.is_limited(&self.protocol);
        let due_ns = connection.progressed_ns + IDLE_NS;
        match connection.end {
            End::Lingers(at_ns) if io.now_ns >= at_ns => drop(stack.close(id, io)),
            End::Lingers(at_ns) => connection.wake(at_ns, stack, io),
            _ if !connection.is_timed => {}
            _ if io.now_ns < due_ns => connection.wake(due_ns, stack, io),
            _ => self.give_up(id, stack, io),
        }
    }

    /// Ends a connection whose client took too long: with a reset, if it does not take what it
    /// was answered.
    fn give_up(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        let Some(connection) = known(&mut self.connections, id) else { return };
        self.counted.idle += 1;
        if connection.end == End::Open && !connection.has_answers(&self.protocol) {
            return connection.finish(stack, io);
        }
        let _ = stack.abort(id, io);
        self.forget(id, false);
    }
}

/// The connection of that number, if it is served.
fn known<S>(connections: &mut [Option<Connection<S>>], id: Id) -> Option<&mut Connection<S>> {
    connections.get_mut(id.index())?.as_mut().filter(|connection| connection.id == id)
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
    connection.unacknowledged += written;
    if written > 0 || taken.is_carried_out || taken.is_paused {
        connection.progressed_ns = now_ns;
    }
    if taken.is_paused {
        connection.wake(now_ns, stack, io);
    }
    if is_starved {
        connection.wake(now_ns + RETRY_NS, stack, io);
    }
    connection.ends |= taken.ends;
    let _ = stack.consume(connection.id, taken.used, io);
    taken.used
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
                Event::Sent { connection, bytes } => self.sent(connection, bytes, stack, io),
                Event::PeerFinished { connection } => self.peer_finished(connection, stack, io),
                Event::Timer { connection } => self.expire(connection, stack, io),
                Event::Closed { connection, .. } => self.forget(connection, false),
            }
        }
    }

    fn can_move(&self) -> bool {
        true
    }

    fn give(&mut self, id: Id) -> Option<Kept> {
        let place = self.connections.get_mut(id.index())?;
        let connection = place.take_if(|connection| connection.id == id)?;
        self.holdings.set(id.index(), 0);
        Some(Box::new(connection))
    }

    fn take(&mut self, id: Option<Id>, kept: Kept, stack: &mut Stack, io: &mut Io) {
        let Ok(mut connection) = kept.downcast::<Connection<P::Session>>() else { return };
        let Some(id) = id else { return self.protocol.forget(connection.session) };
        self.clear_place(id);
        connection.id = id;
        self.connections[id.index()] = Some(*connection);
        self.update(id, stack, io);
    }
}

impl<P: Protocol> Drop for Server<P> {
    fn drop(&mut self) {
        let mut report = self.report.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        report.extend(self.counters());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use memory::{Backing, Batch, Dma, Pool};

    use super::*;

    /// Takes nothing, so that all that comes is kept.
    struct NeverTaking;

    impl Protocol for NeverTaking {
        type Session = ();

        fn take(&mut self, (): &mut (), _: &[u8], _: &mut impl Output) -> Taken {
            Taken { used: 0, ends: false, is_carried_out: false, is_paused: false }
        }

        fn is_answering(&self, (): &()) -> bool {
            false
        }

        fn held(&self, (): &()) -> usize {
            0
        }

        fn forget(&mut self, (): ()) {}

        fn awaits(&self, (): &()) -> bool {
            false
        }
    }

    #[test]
    fn making_room_does_not_look_at_all_connections() {
        const COUNT: usize = 20_000;
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let mut pool = Pool::new(&dma, 1024).unwrap();
        let mut out = Batch::with_limit(16);
        let mut io = Io { now_ns: 1_000_000_000, pool: &mut pool, out: &mut out };
        let mut stack = Stack::new(tcp::Options { key: [1, 2], ..tcp::Options::default() }, io.now_ns);
        let mut server = Server::new(NeverTaking, COUNT * 100);
        let ends = [1, 2].map(|last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
        let connect = |n: usize| stack.connect_from((ends[0], n as u16), (ends[1], 80), &mut io).unwrap();
        let ids: Vec<Id> = (1..=COUNT).map(connect).collect();
        for id in &ids {
            server.open(*id, &mut stack, &mut io);
            server.receive(*id, &[0; 100], &mut stack, &mut io);
        }
        assert_eq!((server.counted.aborted, server.holdings.total()), (0, server.limit));
        let before = server.holdings.touched;
        for id in &ids[COUNT - 1000..] {
            server.receive(*id, &[0; 1500], &mut stack, &mut io);
            assert!(server.holdings.total() <= server.limit);
        }
        let touched = server.holdings.touched - before;
        let events = 1000 + server.counted.aborted as usize;
        assert!(server.counted.aborted > 0 && touched <= 6 * events, "{touched} places for {events} events");
    }
}
