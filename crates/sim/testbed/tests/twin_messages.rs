//! Every message of vfio-user and vhost-user with every lie about it, to both sides: our
//! clients and the servers of our models neither crash nor hang nor leak, touch no memory
//! but what was offered, and serve the next client.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use bus::Backend;
use bus::vfio_user::client::Client;
use bus::vhost_user::{Frontend, Ring, SPLIT_START};
use common::alone::alone;
use common::guarded::Guarded;
use common::limit::until;
use common::witness::Witness;
use rustix::event::{EventfdFlags, eventfd};
use testbed::serve::{Bound, Endpoint, Options, Serving};
use testbed::twin::{self, FileLie, Liar, Lie, Passing, Protocol, Role, Say, Side, Twin, Value};
use testbed::wire::Cable;
use testbed::{Idle, MODELS, Model};

/// Lies that are known to be believed. Empty when all is mended.
const NOT_YET: &[Lie] = &[Lie::Files(FileLie::Full), Lie::Files(FileLie::Shrunk)];

/// How long a peer waits for an answer.
const PATIENCE: Duration = Duration::from_millis(60);
/// An answer after this is late.
const LATE: Duration = Duration::from_millis(80);
/// No lie keeps anybody longer than this.
const BOUND: Duration = Duration::from_secs(4);
/// Each test has this long.
const LIMIT: Duration = Duration::from_secs(100);
/// Virtio features: VERSION_1 alone.
const FEATURES: u64 = 1 << 32;

/// A protocol and how to speak it.
struct Party {
    protocol: &'static Protocol,
    bind: fn(Vec<Endpoint>) -> bus::Result<Bound>,
    /// What passes otherwise than the peers said, so that they use other messages.
    feign: fn(&Passing) -> Say,
    /// All that an honest client ever does, and whether nothing was refused.
    converse: fn(UnixStream, &Guarded) -> bus::Result<()>,
}

const VFIO_USER: Party = Party {
    protocol: &twin::vfio_user::PROTOCOL,
    bind: testbed::vfio_user::bind,
    feign: |_| Say::Pass,
    converse: |stream, memory| {
        let client = Client::over(stream, "vfio-user:twin".to_owned(), PATIENCE)?;
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let mut word = [0; 4];
        let results = [
            client.read_config(0, &mut word),
            client.write_config(4, &[6, 0]),
            (0..6).try_for_each(|index| match client.bar_layout(index) {
                Ok(_) | Err(bus::Error::NoBar { .. }) => Ok(()),
                Err(error) => Err(error),
            }),
            client.read_bar(0, 0, &mut word),
            client.map_dma(&memory.range(twin::vfio_user::SAMPLE_IOVA)),
            client.set_interrupt(0, Some(std::os::fd::AsFd::as_fd(&event))),
            client.write_bar(0, 0x14, &[0]),
            client.read_bar(0, 0x14, &mut word[..1]),
            client.set_interrupt(0, None),
            client.reset(),
            client.unmap_dma(twin::vfio_user::SAMPLE_IOVA, 2 * 4096),
            client.health(),
        ];
        results.into_iter().collect()
    },
};

const VHOST_USER: Party = Party {
    protocol: &twin::vhost_user::PROTOCOL,
    bind: testbed::vhost_user::bind,
    feign: |_| Say::Pass,
    converse: converse_over_vhost_user,
};

/// The same, where the back end seems to take no memory region by region.
const VHOST_USER_TABLES: Party = Party {
    feign: |passing| {
        const GET_PROTOCOL_FEATURES: u32 = 15;
        const CONFIGURE_MEM_SLOTS: u8 = 15;
        let lies = (passing.head.role, passing.head.number) == (Role::Reply, GET_PROTOCOL_FEATURES);
        // Behind the three fields of the header.
        if lies { Say::Lie(Lie::Field(3, Value::Flipped(CONFIGURE_MEM_SLOTS))) } else { Say::Pass }
    },
    ..VHOST_USER
};

fn converse_over_vhost_user(stream: UnixStream, memory: &Guarded) -> bus::Result<()> {
    const IOVA: u64 = 0x10_0000;
    let frontend = Frontend::over(stream, "vhost-user:twin".to_owned(), PATIENCE)?;
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let event = std::os::fd::AsFd::as_fd(&event);
    let later = Guarded::new(1);
    let ring = |index: u8| {
        let [descriptors, driver, device] = [0, 0x400, 0x800].map(|at| IOVA + at + 0x1000 * u64::from(index));
        Ring { size: 16, descriptors, driver, device, base: SPLIT_START }
    };
    let results = [
        frontend.set_features(FEATURES & frontend.features()),
        frontend.set_status(15),
        frontend.status().map(drop),
        if frontend.has_config() { frontend.config(0, &mut [0; 6]) } else { Ok(()) },
        frontend.map_dma(&memory.range(IOVA)),
        frontend.set_interrupt(0, Some(event)),
        frontend.start_ring(0, &ring(0), event, Some(0)),
        frontend.start_ring(1, &ring(1), event, None),
        frontend.enable_ring(0, true),
        frontend.enable_ring(1, true),
        frontend.map_dma(&later.range(2 * IOVA)),
        frontend.unmap_dma(2 * IOVA, 4096),
        frontend.set_interrupt(0, None),
        frontend.stop_ring(0).map(drop),
        frontend.reset(),
        frontend.unmap_dma(IOVA, 2 * 4096),
        frontend.health(),
    ];
    later.check();
    results.into_iter().collect()
}

/// A served model.
struct Served {
    party: &'static Party,
    serving: Serving,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Served {
    fn new(party: &'static Party, model: &'static Model) -> Served {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let cable = Cable::open(&"loop".parse().unwrap()).unwrap();
        let device = model.open(&Default::default(), cable).unwrap();
        let endpoint = Endpoint { socket: socket.clone(), device };
        let options = Options { core: None, idle: Idle::Sleep };
        let serving = (party.bind)(vec![endpoint]).unwrap().serve(options).unwrap();
        Served { party, serving, socket, _folder: folder }
    }

    /// A conversation with a liar in between; whether nobody noticed, and how many lies
    /// were told.
    fn converse(&self, liar: Liar) -> (bus::Result<()>, usize) {
        let memory = Guarded::new(2);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut liar, feign) = (liar, self.party.feign);
        let liar = Box::new(move |passing: &Passing| match liar(passing) {
            Say::Pass => feign(passing),
            lie => lie,
        });
        let server = UnixStream::connect(&self.socket).unwrap();
        let begin = Instant::now();
        let twin = Twin::between(self.party.protocol, theirs, server, LATE, None, liar);
        let outcome = (self.party.converse)(ours, &memory);
        let told = twin.join().unwrap();
        memory.check();
        // The server notices in its own time; it may not take what the next client says.
        until("the server to be free", || !self.serving.report().endpoints[0].attached);
        assert!(begin.elapsed() < BOUND, "took {:?}", begin.elapsed());
        (outcome, told.lies)
    }

    /// What passes between peers that do not lie: sender, role and type.
    fn natural(&self) -> BTreeSet<(Side, Role, u32)> {
        let (note, noted) = channel();
        let (outcome, _) = self.converse(Box::new(move |passing| {
            note.send((passing.from, passing.head.role, passing.head.number)).unwrap();
            Say::Pass
        }));
        outcome.expect("nobody lies");
        noted.iter().collect()
    }
}

impl Served {
    /// Tells each lie in a conversation of its own: the types that were lied about, and
    /// the lies.
    fn tell_all(
        &self,
        cases: &[Case],
        natural: &BTreeSet<(Side, Role, u32)>,
    ) -> (BTreeSet<(Side, Role, u32)>, BTreeSet<Lie>) {
        let honest = || self.converse(Box::new(|_| Say::Pass)).0.expect("the server serves on");
        let (feigned, before) = (self.converse(Box::new(|_| Say::Pass)).1, Witness::now());
        let (mut told, mut lies) = (BTreeSet::new(), BTreeSet::new());
        for (n, case) in cases.iter().enumerate() {
            let &(from, role, number, lie) = case;
            if NOT_YET.contains(&lie) {
                continue;
            }
            println!("{n}: {case:?}");
            let comes = natural.contains(&(from, role, number));
            let (_, count) = self.converse(tell(*case, comes, n % 13));
            assert!(count > feigned || count == 1, "the lie was told");
            told.insert((from, role, number));
            lies.insert(kind(lie));
            if n % 200 == 0 {
                honest();
            }
        }
        honest();
        before.is_as_before();
        (told, lies)
    }
}

/// A case: who seems to say which message, and what is wrong about it.
type Case = (Side, Role, u32, Lie);

/// All cases. Messages that no honest peer sends come unasked, each with one lie about
/// each field: there the message itself is the lie.
fn cases(protocol: &Protocol, natural: &BTreeSet<(Side, Role, u32)>) -> Vec<Case> {
    let mut cases = Vec::new();
    for message in protocol.types {
        for (from, role) in Side::ALL.into_iter().flat_map(|from| Role::ALL.map(|role| (from, role))) {
            let number = message.number;
            let comes = natural.contains(&(from, role, number));
            let told = twin::lies(protocol, message, role);
            let values = Value::all(0).len();
            let one_in_turn = |(at, lie): &(usize, Lie)| match lie {
                Lie::Field(field, _) => (at + usize::from(*field) + number as usize).is_multiple_of(values),
                Lie::Refused | Lie::Silent | Lie::Late => false,
                _ => true,
            };
            let told = told.into_iter().enumerate().filter(|lie| comes || one_in_turn(lie));
            cases.extend(told.map(|(_, lie)| (from, role, number, lie)));
        }
    }
    cases
}

/// Tells a lie once: about the first message of its type, or before the `moment`th that
/// the same side sends.
fn tell((from, role, number, lie): Case, comes: bool, moment: usize) -> Liar {
    let (mut seen, mut told) = (0, false);
    Box::new(move |passing| {
        if told || passing.from != from {
            return Say::Pass;
        }
        if comes {
            told = (passing.head.role, passing.head.number) == (role, number);
            return if told { Say::Lie(lie) } else { Say::Pass };
        }
        seen += 1;
        told = seen > moment;
        if told { Say::Before(number, role, lie) } else { Say::Pass }
    })
}

/// A lie, whatever the field and the bit.
fn kind(lie: Lie) -> Lie {
    match lie {
        Lie::Field(_, Value::Flipped(_)) => Lie::Field(0, Value::Flipped(0)),
        Lie::Field(_, value) => Lie::Field(0, value),
        other => other,
    }
}

fn every_lie(name: &str, party: &'static Party, model: &'static Model) {
    alone(name, LIMIT, || {
        let served = Served::new(party, model);
        let natural = served.natural();
        let cases = cases(party.protocol, &natural);
        let (told, lies) = served.tell_all(&cases, &natural);
        assert_eq!(told.len(), 4 * party.protocol.types.len(), "each message, from each side, in each role");
        let all = twin::lies(party.protocol, &party.protocol.types[0], Role::Request);
        let all: BTreeSet<Lie> = all.into_iter().filter(|lie| !NOT_YET.contains(lie)).map(kind).collect();
        assert_eq!(lies, all, "each lie");
    });
}

#[test]
fn every_lie_about_every_message_of_vfio_user() {
    every_lie("every_lie_about_every_message_of_vfio_user", &VFIO_USER, &MODELS[1]);
}

#[test]
fn every_lie_about_every_message_of_vhost_user() {
    every_lie("every_lie_about_every_message_of_vhost_user", &VHOST_USER, &MODELS[1]);
}

#[test]
fn every_lie_about_memory_that_is_told_as_a_table() {
    const SET_MEM_TABLE: u32 = 5;
    alone("every_lie_about_memory_that_is_told_as_a_table", LIMIT, || {
        let served = Served::new(&VHOST_USER_TABLES, &MODELS[1]);
        let natural = served.natural();
        let mut cases = cases(&twin::vhost_user::PROTOCOL, &natural);
        cases.retain(|case| case.2 == SET_MEM_TABLE);
        assert!(natural.contains(&(Side::Client, Role::Request, SET_MEM_TABLE)));
        served.tell_all(&cases, &natural);
    });
}
