//! The API's sockets: a TCP port of this machine or a Unix socket, and clients with bounds on
//! how many there are, how long they may stand still, and how much of their requests and our
//! answers is kept.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use super::http::{self, MAX_BODY, MAX_HEAD, Parsed, Request, Response};
use super::{Controlled, answer};
use crate::admission::{Admission, accept};

/// Clients at a time; one more is refused.
const MAX_CLIENTS: usize = 64;
/// Clients that are let in or refused before others have a turn.
const ACCEPTS_A_TURN: usize = 64;
/// Requests of a client that are answered before others have a turn.
const REQUESTS_A_TURN: usize = 64;
/// How long a client may take over a request or an answer, and be quiet, in nanoseconds.
pub const STALL_NS: i64 = 10_000_000_000;
/// Bytes of answers that a client may leave unread before it is not listened to any more.
const MAX_UNREAD: usize = 1 << 20;
/// Bytes that are read at a time.
const CHUNK: usize = 16 << 10;

/// What became of clients and their requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ApiCounters {
    /// Clients that were let in.
    pub accepted: u64,
    /// Clients that were refused, because there are enough or they are other users'.
    pub refused: u64,
    /// Clients that were let go because they stood still.
    pub stalled: u64,
    /// Requests that were answered with success.
    pub answered: u64,
    /// Requests that were answered with an error.
    pub errors: u64,
}

/// Where clients come in.
#[derive(Debug)]
enum Listener {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener),
}

/// A connection of either kind.
trait Stream: Read + Write + AsFd + std::fmt::Debug + Send {}
impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// The socket that listens, and its clients.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    /// Who is let in; everybody without.
    admission: Option<Admission>,
    clients: Vec<Client>,
    counters: ApiCounters,
}

#[derive(Debug)]
struct Client {
    stream: Box<dyn Stream>,
    input: Input,
    output: Vec<u8>,
    /// It is let go as soon as it was told all.
    ends: bool,
    /// When it last sent a whole request or took all answers: single bytes do not count.
    moved_ns: i64,
}

/// What a client sent and nobody has answered yet.
#[derive(Debug, Default)]
struct Input {
    bytes: Vec<u8>,
    /// So many bytes has the request at their front at least: before they are here it is not
    /// looked at again.
    wanted: usize,
}

impl Input {
    /// What stands at `at`, where the requests before it end; `None` while it is not here.
    fn next(&mut self, at: usize, is_tcp: bool) -> Option<Parsed<'_>> {
        let rest = self.bytes.get(at..).filter(|rest| rest.len() >= self.wanted)?;
        let parsed = http::parse(rest, is_tcp);
        self.wanted = if let Parsed::Partial(wanted) = parsed { wanted } else { 0 };
        (self.wanted == 0).then_some(parsed)
    }
}

impl Server {
    /// Serves at a port of this machine.
    ///
    /// # Errors
    /// When it is not one of this machine alone, or cannot be had.
    pub fn tcp(address: SocketAddr, admission: Admission) -> io::Result<Server> {
        if !address.ip().is_loopback() {
            let why = format!("{address} is reached by others: the API is for this machine (127.0.0.1, ::1)");
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        Server::bound(address, Some(admission))
    }

    /// Serves everybody who reaches a port: what is answered there must change nothing.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn public(address: SocketAddr) -> io::Result<Server> {
        Server::bound(address, None)
    }

    fn bound(address: SocketAddr, admission: Option<Admission>) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let own = listener.local_addr()?;
        Ok(Server::new(Listener::Tcp(listener, own), admission))
    }

    /// Serves at a Unix socket, which is bound already: its file's owner and mode are the
    /// caller's to choose.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn unix(listener: UnixListener, admission: Admission) -> io::Result<Server> {
        listener.set_nonblocking(true)?;
        Ok(Server::new(Listener::Unix(listener), Some(admission)))
    }

    fn new(listener: Listener, admission: Option<Admission>) -> Server {
        Server { listener, admission, clients: Vec::new(), counters: ApiCounters::default() }
    }

    /// The address of a TCP port.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.listener {
            Listener::Tcp(_, own) => Some(*own),
            Listener::Unix(_) => None,
        }
    }

    /// What became of clients.
    pub fn counters(&self) -> ApiCounters {
        self.counters
    }

    /// Clients that there are now.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// What to wait for: that the listener or a client can be read, and of those marked that
    /// they can be written.
    pub fn sources(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let listener = match &self.listener {
            Listener::Tcp(listener, _) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        };
        let clients = self.clients.iter().map(|client| (client.stream.as_fd(), !client.output.is_empty()));
        std::iter::once((listener, false)).chain(clients)
    }

    /// Lets clients in, answers what they asked of the API, and lets go who stands still. Whether
    /// there is more to do at once.
    pub fn turn(&mut self, on: &mut Controlled<'_>) -> bool {
        self.turn_with(on.now_ns, &mut |request| answer(request, on))
    }

    /// As [`turn`](Self::turn), with another's answers.
    pub fn turn_with(&mut self, now_ns: i64, answer: &mut dyn FnMut(&Request<'_>) -> Response) -> bool {
        let mut is_more = self.accept(now_ns);
        let is_tcp = matches!(self.listener, Listener::Tcp(..));
        let mut counters = self.counters;
        self.clients.retain_mut(|client| {
            let alive = client.turn((now_ns, answer), is_tcp, &mut counters, &mut is_more);
            let stalled = alive && now_ns.saturating_sub(client.moved_ns) > STALL_NS;
            counters.stalled += u64::from(stalled);
            alive && !stalled
        });
        self.counters = counters;
        is_more
    }

    /// Lets clients in; whether there may be more.
    fn accept(&mut self, now_ns: i64) -> bool {
        for _ in 0..ACCEPTS_A_TURN {
            // An error here is the other end's, or will be there the next time.
            let Ok((stream, is_admitted)) = self.next_client() else { return false };
            if !is_admitted || self.clients.len() >= MAX_CLIENTS {
                self.counters.refused += 1;
                continue;
            }
            self.counters.accepted += 1;
            let (input, output) = (Input::default(), Vec::new());
            self.clients.push(Client { stream, input, output, ends: false, moved_ns: now_ns });
        }
        true
    }

    fn next_client(&self) -> io::Result<(Box<dyn Stream>, bool)> {
        match &self.listener {
            Listener::Tcp(listener, own) => {
                let (stream, peer) = accept(listener)?;
                let admits = |admission: &Admission| peer.is_some_and(|peer| admission.tcp(peer, *own));
                let is_admitted = self.admission.as_ref().is_none_or(admits);
                Ok((Box::new(TcpStream::from(stream)), is_admitted))
            }
            Listener::Unix(listener) => {
                let (stream, _) = accept(listener)?;
                let is_admitted = self.admission.as_ref().is_none_or(|admission| admission.unix(&stream));
                Ok((Box::new(UnixStream::from(stream)), is_admitted))
            }
        }
    }
}

impl Client {
    /// Reads, answers and writes; false when the client is gone or told all.
    fn turn(
        &mut self,
        (now_ns, answer): (i64, &mut dyn FnMut(&Request<'_>) -> Response),
        is_tcp: bool,
        counters: &mut ApiCounters,
        is_more: &mut bool,
    ) -> bool {
        let is_open = self.read();
        let mut asked = 0;
        let mut at = 0;
        let may_have_more = loop {
            if self.ends {
                break false;
            }
            if asked == REQUESTS_A_TURN || self.output.len() >= MAX_UNREAD {
                break true;
            }
            let here = self.input.bytes.len() - at;
            let (response, used, keeps) = match self.input.next(at, is_tcp) {
                None | Some(Parsed::Partial(_)) => break false,
                Some(Parsed::Whole(request, used)) => (answer(&request), used, request.keeps),
                Some(Parsed::Bad(status, why)) => {
                    let error = serde_json::json!({ "error": why });
                    (Response::json(status, &error), here, false)
                }
            };
            let count = if response.status < 400 { &mut counters.answered } else { &mut counters.errors };
            *count += 1;
            self.output.extend(response.bytes(keeps));
            self.ends |= !keeps;
            self.moved_ns = now_ns;
            at += used;
            asked += 1;
        };
        self.input.bytes.drain(..at);
        let is_told = self.write(now_ns);
        // Requests that are here already wake nobody: they are answered as soon as there is
        // room for answers, and before a client that has said all is let go.
        *is_more |= may_have_more && self.output.len() < MAX_UNREAD;
        let is_done = self.output.is_empty() && (self.ends || !is_open && !may_have_more);
        is_told && !is_done
    }

    /// Takes what was sent, up to a whole request; false when no more will come.
    fn read(&mut self) -> bool {
        let mut chunk = [0; CHUNK];
        while !self.ends && self.input.bytes.len() < MAX_HEAD + MAX_BODY && self.output.len() < MAX_UNREAD {
            match self.stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(length) => self.input.bytes.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// Sends answers as far as they are taken; false when the client is gone.
    fn write(&mut self, now_ns: i64) -> bool {
        let mut sent = 0;
        let mut is_there = true;
        while sent < self.output.len() {
            match self.stream.write(&self.output[sent..]) {
                Ok(0) => is_there = false,
                Ok(length) => sent += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => is_there = false,
            }
            if !is_there {
                break;
            }
        }
        self.output.drain(..sent);
        if sent > 0 && self.output.is_empty() {
            self.moved_ns = now_ns;
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_comes_byte_by_byte_has_its_head_read_once() {
        const BODY: usize = 5000;
        let head = b"PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n";
        let mut input = Input { bytes: head.to_vec(), wanted: 0 };
        assert!(input.next(0, true).is_none());
        assert_eq!(input.wanted, head.len() + BODY);
        // Who looked at it again would see that it is no head any more.
        input.bytes[..4].copy_from_slice(b"\x16\x03\x01\x02");
        for n in 1..BODY {
            input.bytes.push(b'x');
            assert!(input.next(0, true).is_none(), "{n}");
        }
        input.bytes.push(b'x');
        assert!(matches!(input.next(0, true), Some(Parsed::Bad(400, _))), "all is here: it is looked at");
    }

    #[test]
    fn requests_that_come_together_are_read_one_after_the_other() {
        let one = b"PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab";
        let mut input = Input { bytes: one.repeat(2), wanted: 0 };
        input.bytes.extend(&one[..one.len() - 1]);
        for at in [0, one.len()] {
            assert!(matches!(input.next(at, true), Some(Parsed::Whole(request, _)) if request.body == b"ab"));
        }
        assert!(input.next(2 * one.len(), true).is_none());
        input.bytes.drain(..2 * one.len());
        assert!(input.next(0, true).is_none());
        input.bytes.push(b'b');
        assert!(matches!(input.next(0, true), Some(Parsed::Whole(..))));
    }
}
