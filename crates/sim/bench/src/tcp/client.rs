//! The client of the echo: a closed loop with one request under way on each connection at most,
//! and on all together as many as a ring has room for; connections have their turns in order.
//! One that has had its messages is reset, and another is opened in its place.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tcp::{Event, Id, Io, Refusal, Service, Stack};
use wire::ip::port;

use super::Shape;

/// The hosts' addresses.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The server's ports: more than one, because there are more connections than one has.
pub const PORTS: [u16; 4] = [port::ECHO, port::ECHO + 1, port::ECHO + 2, port::ECHO + 3];

/// The client's first port, and how many it has.
const FIRST_PORT: u16 = 1024;
const OWN_PORTS: u32 = (1 << 16) - FIRST_PORT as u32;
/// Pairs of ports: so many connections are opened before a pair comes again.
pub const PAIRS: u32 = OWN_PORTS * PORTS.len() as u32;
/// Segments of requests that are under way at most: fewer than a ring has room for, so that
/// none is lost.
pub const UNDER_WAY: u32 = 384;
/// Bytes of a segment, in round numbers.
const SEGMENT: u32 = 1400;
/// Connections that are being opened at a time at the beginning, when packets still wait for
/// the neighbour's address: fewer than may.
const OPENING: usize = 32;

/// What the client tells whoever steps it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Connections that were opened.
    pub opened: AtomicU64,
    /// Requests that were answered.
    pub answers: AtomicU64,
    /// Answers with other bytes than the request's.
    pub wrong: AtomicU64,
    /// Connections that could not be opened, or that ended by themselves.
    pub failed: AtomicU64,
}

/// Segments of a message.
pub fn segments(size: u32) -> u32 {
    size.div_ceil(SEGMENT)
}

/// A connection of the client, and how much of its requests and answers is done.
struct Connection {
    id: Id,
    /// Answers that came on it.
    answers: u32,
    /// Bytes of the request that found no room yet.
    unsent: usize,
    /// Bytes of the answer that have come.
    received: usize,
}

/// The client, as an application of a stack.
pub struct Client {
    shape: Shape,
    message: Vec<u8>,
    connections: Vec<Connection>,
    /// The connections' numbers by their places in the stack.
    places: Vec<Option<usize>>,
    /// Connections that are open, until all are.
    open: usize,
    /// Connections that are to send a request.
    waiting: VecDeque<usize>,
    /// Requests that are under way.
    under_way: u32,
    /// The next pair of ports.
    pair: u32,
    progress: Arc<Progress>,
}

impl Client {
    /// A client that tells `progress` what it sees.
    pub fn new(shape: Shape, progress: &Arc<Progress>) -> Client {
        Client {
            shape,
            message: (0..shape.size).map(|n| (n % 251) as u8).collect(),
            connections: Vec::new(),
            places: Vec::new(),
            open: 0,
            waiting: VecDeque::new(),
            under_way: 0,
            pair: 0,
            progress: progress.clone(),
        }
    }

    fn wanted(&self) -> usize {
        self.shape.connections as usize
    }

    /// Opens a connection from the next port that is free, which is the one of this number.
    fn connect(&mut self, number: usize, stack: &mut Stack, io: &mut Io) -> Option<Id> {
        for _ in 0..PAIRS {
            let pair = self.pair;
            self.pair = (pair + 1) % PAIRS;
            let local = FIRST_PORT + (pair % OWN_PORTS) as u16;
            let remote = PORTS[(pair / OWN_PORTS) as usize];
            match stack.connect_from((CLIENT.into(), local), (SERVER.into(), remote), io) {
                Ok(id) => {
                    if self.places.len() <= id.index() {
                        self.places.resize(id.index() + 1, None);
                    }
                    self.places[id.index()] = Some(number);
                    return Some(id);
                }
                Err(Refusal::NoPort) => {}
                Err(_) => break,
            }
        }
        self.progress.failed.fetch_add(1, Relaxed);
        None
    }

    /// Opens as many of the first connections as may be opened now.
    fn begin_some(&mut self, stack: &mut Stack, io: &mut Io) {
        while self.connections.len() < self.wanted() && self.connections.len() - self.open < OPENING {
            let Some(id) = self.connect(self.connections.len(), stack, io) else { return };
            self.connections.push(Connection { id, answers: 0, unsent: 0, received: 0 });
        }
    }

    /// The number of a connection that is still the client's.
    fn number(&self, id: Id) -> Option<usize> {
        let number = self.places.get(id.index()).copied().flatten()?;
        self.connections.get(number).filter(|connection| connection.id == id).map(|_| number)
    }

    /// A connection is open. Requests begin when all first ones are.
    fn connected(&mut self, number: usize) {
        self.progress.opened.fetch_add(1, Relaxed);
        if self.open == self.wanted() {
            return self.waiting.push_back(number);
        }
        self.open += 1;
        if self.open == self.wanted() {
            self.waiting.extend(0..self.wanted());
        }
    }

    /// Sends as many requests as may be under way.
    fn request_some(&mut self, stack: &mut Stack, io: &mut Io) {
        let most = (UNDER_WAY / segments(self.shape.size)).max(1);
        while self.under_way < most
            && let Some(number) = self.waiting.pop_front()
        {
            self.under_way += 1;
            if let Some(connection) = self.connections.get_mut(number) {
                (connection.unsent, connection.received) = (self.message.len(), 0);
                self.send(number, stack, io);
            }
        }
    }

    /// Sends what is left of a request, as far as there is room.
    fn send(&mut self, number: usize, stack: &mut Stack, io: &mut Io) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        if connection.unsent > 0 {
            let left = &self.message[self.message.len() - connection.unsent..];
            // A connection that is no more has an event that says so.
            connection.unsent -= stack.write(connection.id, left, io).unwrap_or(0);
        }
    }

    /// Bytes of an answer came.
    fn received(&mut self, number: usize, bytes: &[u8], stack: &mut Stack, io: &mut Io) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        let _ = stack.consume(connection.id, bytes.len(), io);
        let end = connection.received + bytes.len();
        if self.message.get(connection.received..end) != Some(bytes) {
            self.progress.wrong.fetch_add(1, Relaxed);
        }
        connection.received = end;
        if end < self.message.len() {
            return;
        }
        self.progress.answers.fetch_add(1, Relaxed);
        self.under_way = self.under_way.saturating_sub(1);
        connection.answers += 1;
        if self.shape.messages.is_none_or(|messages| connection.answers < messages) {
            return self.waiting.push_back(number);
        }
        let _ = stack.abort(connection.id, io);
        if let Some(id) = self.connect(number, stack, io) {
            self.connections[number] = Connection { id, answers: 0, unsent: 0, received: 0 };
        }
    }
}

impl Service for Client {
    fn begin(&mut self, stack: &mut Stack, io: &mut Io) {
        self.begin_some(stack, io);
    }

    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.drain(..) {
            let (Event::Connected { connection, .. }
            | Event::Received { connection, .. }
            | Event::Sent { connection, .. }
            | Event::PeerFinished { connection }
            | Event::Closed { connection, .. }
            | Event::Timer { connection }) = event;
            let number = self.number(connection);
            match (event, number) {
                (Event::Received { packet, .. }, number) => {
                    number.into_iter().for_each(|number| self.received(number, &packet, stack, io));
                    io.pool.free(packet);
                }
                (Event::Connected { .. }, Some(number)) => self.connected(number),
                (Event::Sent { .. }, Some(number)) => self.send(number, stack, io),
                (Event::PeerFinished { .. } | Event::Closed { .. }, Some(_)) => {
                    self.progress.failed.fetch_add(1, Relaxed);
                }
                _ => {}
            }
        }
        self.begin_some(stack, io);
        self.request_some(stack, io);
    }
}
