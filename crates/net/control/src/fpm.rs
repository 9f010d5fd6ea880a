//! FRR's stream of forwarding state (`dplane_fpm_nl`, fpm/fpm.h): zebra connects by TCP and
//! sends rtnetlink's messages, each behind a header with a version, a kind and a length.
//!
//! A connection is one telling of everything: zebra begins each with all that it has. The
//! stream does not say when that is over. So what came by a connection that has ended stays
//! in use for a time, in which a restarted FRR tells of it again, and is swept then. Each
//! connection that ended has a time of its own: one that comes and goes in the meantime
//! prolongs that of no other.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use crate::admission::accept;
use crate::mirror::{Generation, Mirror, Origin};

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
/// Connections that are accepted before others have a turn.
const ACCEPTS_A_TURN: usize = 64;
/// Ended connections of which what they told of is still in use. When there is one more, what
/// the oldest told of is swept before its time.
const MAX_ENDED: usize = 64;
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
    LinkKind(u8),
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
        (VERSION, _) => return Err(FrameError::LinkKind(kind)),
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
    /// Connections that had told of nothing and were closed, so that another one had a place.
    pub replaced: u64,
    /// Connections that ended, by either side.
    pub ended: u64,
    /// Connections that were closed for a wrong frame.
    pub wrong_frames: u64,
    /// How often what nobody told of any more was swept.
    pub sweeps: u64,
    /// Messages that were read in frames.
    pub messages: u64,
    /// Messages whose bytes are wrong.
    pub malformed: u64,
}

/// Where zebra connects to.
#[derive(Debug)]
pub struct Fpm {
    listener: TcpListener,
    own: SocketAddr,
    connections: Vec<Connection>,
    /// How long what came by an ended connection stays in use.
    hold_ns: i64,
    /// Connections that told of something and ended, the oldest first.
    ended: VecDeque<Ended>,
    counters: FpmCounters,
    /// What was wrong with the last stream that was closed for it.
    last_wrong: Option<FrameError>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    frames: Frames,
    generation: Generation,
    has_told: bool,
}

/// A connection that ended.
#[derive(Debug, Clone, Copy)]
struct Ended {
    generation: Generation,
    /// When what it told of is swept.
    due_ns: i64,
}

impl Connection {
    /// Whether nothing was told by it, and nothing waits to be read. Of one that has sent less than a
    /// frame nobody knows whether it ever sends the rest.
    fn is_silent(&self) -> bool {
        !self.has_told && !matches!(self.stream.peek(&mut [0]), Ok(1..))
    }
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
        let own = listener.local_addr()?;
        Ok(Fpm {
            listener,
            own,
            connections: Vec::new(),
            hold_ns,
            ended: VecDeque::new(),
            counters: FpmCounters::default(),
            last_wrong: None,
        })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.own
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
        self.ended.front().map(|ended| ended.due_ns)
    }

    /// Lets in who waits and is admitted, takes what connections sent, and sweeps when it is
    /// time. Whether there may be more.
    pub fn turn(
        &mut self,
        mirror: &mut Mirror,
        now_ns: i64,
        admits: &mut dyn FnMut(SocketAddr, SocketAddr) -> bool,
    ) -> bool {
        let mut is_more = self.accept(mirror, admits);
        for mut connection in std::mem::take(&mut self.connections) {
            if let Some(more) = self.read(mirror, &mut connection) {
                is_more |= more;
                self.connections.push(connection);
            } else {
                self.counters.ended += 1;
                if connection.has_told {
                    let due_ns = now_ns.saturating_add(self.hold_ns);
                    self.ended.push_back(Ended { generation: connection.generation, due_ns });
                }
            }
        }
        self.sweep(mirror, now_ns);
        is_more
    }

    /// Sweeps what connections told of whose time is over.
    fn sweep(&mut self, mirror: &mut Mirror, now_ns: i64) {
        let surplus = self.ended.len().saturating_sub(MAX_ENDED);
        let due = self.ended.iter().take_while(|ended| ended.due_ns <= now_ns).count().max(surplus);
        if due == 0 {
            return;
        }
        self.ended.drain(..due);
        self.counters.sweeps += 1;
        let open = self.connections.iter().map(|connection| connection.generation);
        let live: Vec<Generation> = open.chain(self.ended.iter().map(|ended| ended.generation)).collect();
        mirror.sweep(Origin::Fpm, &live);
    }

    /// Lets in who waits; whether there may be more.
    fn accept(
        &mut self,
        mirror: &mut Mirror,
        admits: &mut dyn FnMut(SocketAddr, SocketAddr) -> bool,
    ) -> bool {
        for _ in 0..ACCEPTS_A_TURN {
            // An error here is the other end's, or will be there the next time.
            let Ok((stream, peer)) = accept(&self.listener) else { return false };
            let is_one = peer.is_some_and(|peer| admits(peer, self.own));
            if !is_one || !self.make_room() {
                self.counters.refused += 1;
                continue;
            }
            self.counters.accepted += 1;
            let (stream, frames) = (TcpStream::from(stream), Frames::default());
            let generation = mirror.begin(Origin::Fpm);
            self.connections.push(Connection { stream, frames, generation, has_told: false });
        }
        true
    }

    /// Makes room for one connection more, if need be by closing the oldest that has told of
    /// nothing; whether there is room.
    fn make_room(&mut self) -> bool {
        if self.connections.len() < MAX_CONNECTIONS {
            return true;
        }
        let silent = self.connections.iter().position(Connection::is_silent);
        let Some(place) = silent else { return false };
        self.connections.remove(place);
        self.counters.replaced += 1;
        true
    }

    /// Takes what a connection sent: whether there may be more, or nothing when it ended.
    fn read(&mut self, mirror: &mut Mirror, connection: &mut Connection) -> Option<bool> {
        let mut chunk = vec![0; CHUNK];
        let mut taken = 0;
        while taken < BYTES_A_TURN {
            let length = match connection.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return None,
            };
            taken += length;
            let Connection { frames, generation, has_told, .. } = &mut *connection;
            let before = mirror.counters();
            let whole = frames.push(&chunk[..length], |payload| {
                *has_told |= !payload.is_empty();
                mirror.apply_bytes(*generation, payload);
            });
            let after = mirror.counters();
            self.counters.messages += after.messages - before.messages;
            self.counters.malformed += after.malformed - before.malformed;
            if let Err(wrong) = whole {
                self.counters.wrong_frames += 1;
                self.last_wrong = Some(wrong);
                return None;
            }
        }
        Some(true)
    }
}
