//! Hostile twins: what stands between two honest peers of vfio-user or vhost-user and changes
//! to either, so that each seems hostile to the other.
//!
//! [`vfio_user::PROTOCOL`] and [`vhost_user::PROTOCOL`] are tables of every message and its
//! fields; [`mutations`] makes of a message's row all that can be said wrong about it. A
//! [`Twin`] passes messages on and asks a [`Mutator`] about each. What is shared beside the
//! messages, memory and registers, is mutated in [`shared`].
//!
//! For tests and fuzzing. Not here: the peers, which are those that users have.

mod conversation;
pub mod guarded;
pub mod honest;
mod mutation;
mod protocol;
pub mod shared;
mod socket;
pub mod vfio_user;
pub mod vhost_user;

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub use conversation::{Conversation, Edit};
pub use mutation::{FileMutation, Mutation, Value, mutations};
pub use protocol::{Field, Head, MessageType, Protocol, Role, Side};

use mutation::Step;
use shared::TwinMemory;
use socket::{Message, receive, send};

/// How long a twin stands between its peers at most.
const LIMIT: Duration = Duration::from_secs(10);

/// A message that passes.
#[derive(Clone, Copy, Debug)]
pub struct Passing {
    /// Who sent it.
    pub from: Side,
    /// Its number and role.
    pub head: Head,
    /// How many messages passed before it.
    pub nth: usize,
}

/// What a mutator does about a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Say {
    /// It passes as it is.
    Pass,
    /// It is mutated.
    Mutation(Mutation),
    /// It passes, but before it another comes that nobody asked for: its number, its role,
    /// and mutated.
    Before(u32, Role, Mutation),
}

/// Decides about each message.
pub type Mutator = Box<dyn FnMut(&Passing) -> Say + Send>;

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Messages that the honest peers sent.
    pub passed: usize,
    /// Mutations that were sent.
    pub mutations: usize,
}

/// Stands between two peers in a thread of its own, until one of them hangs up.
#[derive(Debug)]
pub struct Twin(JoinHandle<Told>);

impl Twin {
    /// Passes what comes from a client at the other end of `client` and from a server at
    /// that of `server`. `late` is longer than any of them waits; what they share is noted
    /// in `shared`.
    pub fn between(
        protocol: &'static Protocol,
        client: UnixStream,
        server: UnixStream,
        late: Duration,
        shared: Option<Arc<TwinMemory>>,
        mutator: Mutator,
    ) -> Twin {
        let between = Between {
            protocol,
            client,
            server,
            late,
            shared,
            mutator,
            told: Told::default(),
            withheld: [0; 2],
            ignores_all: false,
            doomed: Vec::new(),
        };
        Twin(thread::spawn(move || between.run()))
    }

    /// Waits until a peer hung up.
    ///
    /// # Errors
    /// When the twin panicked, which is a bug of its own.
    pub fn join(self) -> io::Result<Told> {
        self.0.join().map_err(|_| io::Error::other("the twin panicked"))
    }
}

struct Between {
    protocol: &'static Protocol,
    client: UnixStream,
    server: UnixStream,
    late: Duration,
    shared: Option<Arc<TwinMemory>>,
    mutator: Mutator,
    told: Told,
    /// Replies to what nobody asked, not to be passed on: to requests that seemed the
    /// client's, and the server's.
    withheld: [usize; 2],
    /// Nothing passes any more.
    ignores_all: bool,
    /// Files that lose their pages with the next message.
    doomed: Vec<OwnedFd>,
}

impl Between {
    fn run(mut self) -> Told {
        let end = Instant::now() + LIMIT;
        // Whoever does not read or does not finish a message is given up.
        for stream in [&self.client, &self.server] {
            let _ = stream.set_read_timeout(Some(LIMIT));
            let _ = stream.set_write_timeout(Some(LIMIT));
        }
        while Instant::now() < end {
            let mut fds = [&self.client, &self.server].map(|stream| PollFd::new(stream, PollFlags::IN));
            let slice = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            if !matches!(poll(&mut fds, Some(&slice)), Ok(1..)) {
                continue;
            }
            let ready = fds.map(|fd| !fd.revents().is_empty());
            let from = if ready[1] { Side::Server } else { Side::Client };
            if !self.pass(from).unwrap_or(false) {
                break;
            }
        }
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
        self.told
    }

    fn stream(&mut self, side: Side) -> &mut UnixStream {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// Takes a message and passes on what the mutator makes of it; whether it goes on.
    fn pass(&mut self, from: Side) -> io::Result<bool> {
        let protocol = self.protocol;
        let Some((head, message)) = receive(self.stream(from), protocol)? else { return Ok(false) };
        for file in self.doomed.drain(..) {
            let _ = rustix::fs::ftruncate(&file, 0);
        }
        if self.ignores_all {
            return Ok(true);
        }
        if head.role == Role::Reply && self.is_for_us(from, &message) {
            return Ok(true);
        }
        if let Some(shared) = &self.shared {
            shared.note(from, &head, &message);
        }
        let passing = Passing { from, head, nth: self.told.passed };
        self.told.passed += 1;
        let kind = protocol.message(head.number);
        match ((self.mutator)(&passing), kind) {
            (Say::Mutation(mutation), Some(kind)) => {
                self.told.mutations += 1;
                self.tell(from, mutation, kind, head.role, message)
            }
            (Say::Before(number, role, mutation), _) => {
                if let Some(kind) = protocol.message(number) {
                    self.told.mutations += 1;
                    let unsolicited = Message { bytes: protocol.sample(kind, role), files: Vec::new() };
                    let wants_reply = (protocol.head)(&unsolicited.bytes).wants_reply;
                    self.withheld[from as usize] += usize::from(wants_reply);
                    if !self.tell(from, mutation, kind, role, unsolicited)? {
                        return Ok(false);
                    }
                }
                send(self.stream(from.peer()), &message).map(|()| true)
            }
            (Say::Pass | Say::Mutation(_), _) => send(self.stream(from.peer()), &message).map(|()| true),
        }
    }

    /// Whether a reply answers what nobody asked. Where replies have no id it is the next.
    fn is_for_us(&mut self, from: Side, message: &Message) -> bool {
        let has_id = self.protocol.header[0].name == "id";
        let ours = message.bytes.starts_with(&vfio_user::UNASKED_ID.to_le_bytes());
        let waiting = &mut self.withheld[from.peer() as usize];
        let taken = if has_id { ours } else { *waiting > 0 };
        *waiting -= usize::from(taken && *waiting > 0);
        taken
    }

    /// Sends a mutation of a message that is, or seems to be, from one side.
    fn tell(
        &mut self,
        from: Side,
        mutation: Mutation,
        kind: &MessageType,
        role: Role,
        message: Message,
    ) -> io::Result<bool> {
        for step in mutation.told(self.protocol, kind, role, message)? {
            match step {
                Step::Send(message) => send(self.stream(from.peer()), &message)?,
                Step::Answer(message) => send(self.stream(from), &message)?,
                Step::Wait => thread::sleep(self.late),
                Step::IgnoreAll => self.ignores_all = true,
                Step::End => return Ok(false),
                Step::Doom(file) => self.doomed.push(file),
            }
        }
        Ok(true)
    }
}
