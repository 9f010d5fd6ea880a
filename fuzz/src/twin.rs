//! Hostile twins: a conversation of our clients and servers, taken down once, is said to
//! one of them again with changes, while the memory that was offered is watched.

use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use arbitrary::Arbitrary;
use testbed::twin::guarded::Guarded;
use testbed::twin::{Conversation, Edit, Protocol, Side, honest};
use testbed::wire::Cable;
use testbed::{Device, twin};

/// Where the memory is that a conversation offers.
const OFFERED: u64 = twin::vfio_user::SAMPLE_IOVA;
const OFFERED_END: u64 = OFFERED + 4096 * honest::PAGES as u64;

/// A change of what is said, see [`Edit`].
#[derive(Arbitrary, Debug)]
pub enum Change {
    Field { at: u8, field: u8, value: u64 },
    Common { at: u8, field: u8, value: u8 },
    Mutation { at: u8, mutation: u8 },
    Unsolicited { at: u8, kind: u8, reply: bool, field: u8, value: u8 },
}

impl Change {
    fn edit(&self) -> Edit {
        // Numbers at which things change, and their neighbours.
        const COMMON: [u64; 8] = [0, 1, 4, 4096, OFFERED, OFFERED_END, u32::MAX as u64, u64::MAX];
        let common = |value: u8| {
            let near = COMMON[usize::from(value) % 8].wrapping_add(u64::from(value / 8 % 3));
            near.wrapping_sub(1)
        };
        match *self {
            Change::Field { at, field, value } => Edit::Field { at, field, value },
            Change::Common { at, field, value } => Edit::Field { at, field, value: common(value) },
            Change::Mutation { at, mutation } => Edit::Mutation { at, mutation },
            Change::Unsolicited { at, kind, reply, field, value } => {
                Edit::Unsolicited { at, kind, reply, field, value: common(value) }
            }
        }
    }
}

/// How to speak a protocol.
struct Party {
    protocol: &'static Protocol,
    client: fn(UnixStream, &[Guarded; 2], Duration),
    server: fn(UnixStream),
}

const VFIO_USER: Party = Party {
    protocol: &twin::vfio_user::PROTOCOL,
    client: |stream, [memory, _], timeout| _ = honest::vfio_user(stream, memory, timeout),
    server: |stream| testbed::vfio_user::feed(device(), &stream),
};

const VHOST_USER: Party = Party {
    protocol: &twin::vhost_user::PROTOCOL,
    client: |stream, [memory, later], timeout| _ = honest::vhost_user(stream, memory, later, timeout),
    server: |stream| testbed::vhost_user::feed_stream(device(), stream).expect("a session"),
};

fn device() -> Device {
    let cable = Cable::open(&"gen:count=8".parse().expect("a wire")).expect("a cable");
    testbed::virtio::open(&testbed::virtio::Options::default(), cable)
}

/// A conversation, and the memory that it is about.
pub struct Twins {
    party: Party,
    said: Conversation,
    memory: [Guarded; 2],
}

impl Twins {
    pub fn of_vfio_user() -> Twins {
        Twins::of(VFIO_USER)
    }

    pub fn of_vhost_user() -> Twins {
        Twins::of(VHOST_USER)
    }

    /// Has honest peers speak.
    fn of(party: Party) -> Twins {
        let memory = [honest::PAGES; 2].map(|pages| Guarded::new(pages).expect("memory"));
        let pair = || UnixStream::pair().expect("sockets");
        let ((ours, client), (server, theirs)) = (pair(), pair());
        let (protocol, serve) = (party.protocol, party.server);
        let server = thread::spawn(move || serve(server));
        let between = thread::spawn(move || Conversation::between(protocol, client, theirs));
        (party.client)(ours, &memory, Duration::from_secs(10));
        let said = between.join().expect("no panic").expect("a conversation");
        server.join().expect("no panic");
        Twins { party, said, memory }
    }

    /// Says the conversation once more, to the client or to the server.
    pub fn run(&self, to_client: bool, changes: &[Change]) {
        let edits: Vec<Edit> = changes.iter().map(Change::edit).collect();
        let Ok((ours, theirs)) = UnixStream::pair() else { return };
        let side = if to_client { Side::Server } else { Side::Client };
        // What is too much for the socket is not said.
        let _ = self.said.say(side, &theirs, &edits);
        match to_client {
            true => (self.party.client)(ours, &self.memory, Duration::from_secs(1)),
            false => (self.party.server)(ours),
        }
        self.memory.iter().for_each(Guarded::check);
    }
}
