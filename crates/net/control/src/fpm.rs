//! FRR's stream of forwarding state (`dplane_fpm_nl`, fpm/fpm.h): zebra connects by TCP and
//! sends rtnetlink's messages, each behind a header with a version, a kind and a length.
//!
//! A connection is one telling of everything: zebra begins each with all that it has. The
//! stream does not say when that is over. So what came by a connection that has ended stays
//! in use for a time, in which a restarted FRR tells of it again, and is swept then.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use crate::mirror::{Mirror, Origin, Teller};

/// The port to which zebra connects when it is told of no other.
pub const PORT: u16 = 2620;
/// The version of the header.
const VERSION: u8 = 1;
/// The kind of payload: messages of rtnetlink. The other one is protobuf.
const NETLINK: u8 = 1;
/// Bytes of a header: version, kind, and the length with the header in network byte order.
const HEADER: usize = 4;
/// Connections at a time.
const MAX_CONNECTIONS: usize = 4;
/// Bytes that are read from a connection before others have a turn.
const BYTES_A_TURN: usize = 1 << 20;
/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;

/// What is wrong with a stream. Nothing behind that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The header has another version.
    #[error("version {0} of FPM's header is unknown: this is version {VERSION}")]
    Version(u8),
    /// The payload is not of rtnetlink.
    #[error("payload {0} is not rtnetlink's: configure zebra with -M dplane_fpm_nl")]
    Kind(u8),
    /// The length does not even cover the header.
    #[error("a frame of {0} bytes is shorter than its header")]
    Length(u16),
}

/// The bytes of a connection that are not yet a whole frame.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Takes the next bytes of a stream, and hands on the payload of each frame that is whole
    /// then. What is kept is less than one frame, which is 64 KiB at most.
    ///
    /// # Errors
    /// What is wrong with the stream, after the frames in front of that.
    pub fn push(&mut self, bytes: &[u8], mut payload: impl FnMut(&[u8])) -> Result<(), FrameError> {
        self.bytes.extend_from_slice(bytes);
        let mut rest = &self.bytes[..];
        let result = loop {
            match frame(rest) {
                Ok(Some((whole, behind))) => {
                    payload(whole);
                    rest = behind;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let used = self.bytes.len() - rest.len();
        self.bytes.drain(..used);
        result
    }
}

/// A frame's payload, and what follows the frame.
type Whole<'a> = (&'a [u8], &'a [u8]);

/// The first frame; `None` when it is not whole.
fn frame(bytes: &[u8]) -> Result<Option<Whole<'_>>, FrameError> {
    let Some((&[version, kind, high, low], _)) = bytes.split_first_chunk::<HEADER>() else { return Ok(None) };
    let length = u16::from_be_bytes([high, low]);
    match (version, kind) {
        (VERSION, NETLINK) if usize::from(length) >= HEADER => {}
        (VERSION, NETLINK) => return Err(FrameError::Length(length)),
        (VERSION, _) => return Err(FrameError::Kind(kind)),
        _ => return Err(FrameError::Version(version)),
    }
    let whole = bytes.split_at_checked(length.into());
    Ok(whole.map(|(frame, behind)| (&frame[HEADER..], behind)))
}

/// What became of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FpmCounters {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that were refused, because there are enough or the other end is not one of
    /// those who may tell.
    pub refused: u64,
    /// Connections that ended, by either side.
    pub ended: u64,
    /// Connections that were closed for a wrong frame.
    pub wrong_frames: u64,
    /// How often what nobody told of any more was swept.
    pub sweeps: u64,
}

/// Where zebra connects to.
#[derive(Debug)]
pub struct Fpm {
    listener: TcpListener,
    connections: Vec<Connection>,
    /// How long what came by an ended connection stays in use.
    hold_ns: i64,
    /// When it is swept.
    sweep_ns: Option<i64>,
    counters: FpmCounters,
    /// What was wrong with the last stream that was closed for it.
    last_wrong: Option<FrameError>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    frames: Frames,
    teller: Teller,
}

impl Fpm {
    /// Listens at an address. What came by a connection that ended stays in use for `hold_ns`
    /// nanoseconds.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn listen(address: SocketAddr, hold_ns: i64) -> io::Result<Fpm> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Fpm {
            listener,
            connections: Vec::new(),
            hold_ns,
            sweep_ns: None,
            counters: FpmCounters::default(),
            last_wrong: None,
        })
    }

    /// The address at which it listens.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What became of connections.
    pub fn counters(&self) -> FpmCounters {
        self.counters
    }

    /// What was wrong with the last stream that was closed for it.
    pub fn last_wrong(&self) -> Option<FrameError> {
        self.last_wrong
    }

    /// Connections that there are now.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// What to wait for: the listener and all connections.
    pub fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let connections = self.connections.iter().map(|connection| connection.stream.as_fd());
        std::iter::once(self.listener.as_fd()).chain(connections)
    }

    /// When a turn is due although nothing came.
    pub fn deadline_ns(&self) -> Option<i64> {
        self.sweep_ns
    }

    /// Lets in who waits and is admitted, takes what connections sent, and sweeps when it is
    /// time. Whether there may be more.
    pub fn turn(
        &mut self,
        mirror: &mut Mirror,
        now_ns: i64,
        admits: &mut dyn FnMut(SocketAddr, SocketAddr) -> bool,
    ) -> bool {
        self.accept(mirror, admits);
        let mut is_more = false;
        for connection in std::mem::take(&mut self.connections) {
            if let Some((connection, more)) = self.read(mirror, connection) {
                is_more |= more;
                self.connections.push(connection);
            } else {
                self.counters.ended += 1;
                self.sweep_ns = Some(now_ns.saturating_add(self.hold_ns));
            }
        }
        if self.sweep_ns.is_some_and(|due| due <= now_ns) {
            self.sweep_ns = None;
            self.counters.sweeps += 1;
            let live: Vec<Teller> = self.connections.iter().map(|connection| connection.teller).collect();
            mirror.sweep(Origin::Fpm, &live);
        }
        is_more
    }

    fn accept(&mut self, mirror: &mut Mirror, admits: &mut dyn FnMut(SocketAddr, SocketAddr) -> bool) {
        // An error here is the other end's, or will be there the next time.
        while let Ok((stream, peer)) = self.listener.accept() {
            let is_one = stream.local_addr().is_ok_and(|own| admits(peer, own));
            let is_room = self.connections.len() < MAX_CONNECTIONS;
            if !is_one || !is_room || stream.set_nonblocking(true).is_err() {
                self.counters.refused += 1;
                continue;
            }
            self.counters.accepted += 1;
            let teller = mirror.begin(Origin::Fpm);
            self.connections.push(Connection { stream, frames: Frames::default(), teller });
        }
    }

    /// Takes what a connection sent; the connection if it goes on, and whether there may be
    /// more.
    fn read(&mut self, mirror: &mut Mirror, mut connection: Connection) -> Option<(Connection, bool)> {
        let mut chunk = vec![0; CHUNK];
        let mut taken = 0;
        while taken < BYTES_A_TURN {
            let length = match connection.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some((connection, false)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return None,
            };
            taken += length;
            let teller = connection.teller;
            let whole =
                connection.frames.push(&chunk[..length], |payload| mirror.apply_bytes(teller, payload));
            if let Err(wrong) = whole {
                self.counters.wrong_frames += 1;
                self.last_wrong = Some(wrong);
                return None;
            }
        }
        Some((connection, true))
    }
}
