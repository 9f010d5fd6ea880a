//! Every message of vfio-user and vhost-user with every mutation of it, to both sides: our
//! clients and the servers of our models neither crash nor hang nor leak, touch no memory
//! but what was offered, and serve the next client.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::common::alone::alone;
use crate::common::limit::until;
use crate::common::witness::Witness;
use testbed::serve::{Bound, Endpoint, Options, Serving};
use testbed::twin::guarded::Guarded;
use testbed::twin::vfio_user::SAMPLE_IOVA;
use testbed::twin::{self, Mutation, Mutator, Passing, Protocol, Role, Say, Side, Twin, Value, honest};
use testbed::wire::Cable;
use testbed::{Idle, MODELS, Model};

/// How long a client waits for an answer: at first, so that a mutation is soon over, and where
/// the machine was too busy for that.
const ANSWER_LIMIT: [Duration; 3] =
    [Duration::from_millis(60), Duration::from_millis(500), Duration::from_secs(3)];
/// No mutation keeps anybody longer than this.
const BOUND: Duration = Duration::from_secs(10);
/// Each test has this long.
const LIMIT: Duration = Duration::from_secs(100);

/// A protocol and how to speak it.
struct Party {
    protocol: &'static Protocol,
    bind: fn(Vec<Endpoint>) -> bus::Result<Bound>,
    /// What passes otherwise than the peers said, so that they use other messages.
    feign: fn(&Passing) -> Say,
    /// All that an honest client ever does, and whether nothing was refused.
    converse: fn(UnixStream, &Guarded, &Guarded, Duration) -> bus::Result<()>,
}

const VFIO_USER: Party = Party {
    protocol: &twin::vfio_user::PROTOCOL,
    bind: testbed::vfio_user::bind,
    feign: |_| Say::Pass,
    converse: |stream, memory, _, timeout| honest::vfio_user(stream, memory, timeout),
};

const VHOST_USER: Party = Party {
    protocol: &twin::vhost_user::PROTOCOL,
    bind: testbed::vhost_user::bind,
    feign: |_| Say::Pass,
    converse: honest::vhost_user,
};

/// The same, where the back end seems to take no memory region by region.
const VHOST_USER_TABLES: Party = Party {
    feign: |passing| {
        const GET_PROTOCOL_FEATURES: u32 = 15;
        const CONFIGURE_MEM_SLOTS: u8 = 15;
        let mutations = (passing.head.role, passing.head.number) == (Role::Reply, GET_PROTOCOL_FEATURES);
        // Behind the three fields of the header.
        if mutations {
            Say::Mutation(Mutation::Field(3, Value::Flipped(CONFIGURE_MEM_SLOTS)))
        } else {
            Say::Pass
        }
    },
    ..VHOST_USER
};

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

    /// A conversation with a mutator in between; whether nobody noticed.
    fn converse(&self, timeout: Duration, mutator: Mutator) -> bus::Result<()> {
        let [memory, later] = [honest::PAGES; 2].map(|pages| Guarded::new(pages).unwrap());
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut mutator, feign) = (mutator, self.party.feign);
        let mutator = Box::new(move |passing: &Passing| match mutator(passing) {
            Say::Pass => feign(passing),
            mutation => mutation,
        });
        let server = UnixStream::connect(&self.socket).unwrap();
        let begin = Instant::now();
        let twin = Twin::between(self.party.protocol, theirs, server, timeout * 5 / 4, None, mutator);
        let outcome = (self.party.converse)(ours, &memory, &later, timeout);
        twin.join().unwrap();
        memory.check();
        later.check();
        // The server notices in its own time; it may not take what the next client says.
        until("the server to be free", || !self.serving.report().endpoints[0].attached);
        assert!(begin.elapsed() < BOUND, "took {:?}", begin.elapsed());
        outcome
    }

    /// A conversation without a mutation.
    fn honest(&self) {
        self.converse(ANSWER_LIMIT[2], Box::new(|_| Say::Pass)).expect("the server serves on");
    }

    /// What passes between honest peers: sender, role and type.
    fn natural(&self) -> BTreeSet<(Side, Role, u32)> {
        let (note, noted) = channel();
        let outcome = self.converse(
            ANSWER_LIMIT[2],
            Box::new(move |passing| {
                note.send((passing.from, passing.head.role, passing.head.number)).unwrap();
                Say::Pass
            }),
        );
        outcome.expect("nothing is mutated");
        noted.iter().collect()
    }
}

impl Served {
    /// Sends each mutation in a conversation of its own: the types that were mutated, and
    /// the mutations.
    fn tell_all(
        &self,
        cases: &[Case],
        natural: &BTreeSet<(Side, Role, u32)>,
    ) -> (BTreeSet<(Side, Role, u32)>, BTreeSet<Mutation>) {
        let before = (self.honest(), Witness::now()).1;
        let (mut told, mut mutations) = (BTreeSet::new(), BTreeSet::new());
        for (n, case) in cases.iter().enumerate() {
            let &(from, role, number, mutation) = case;
            println!("{n}: {case:?}");
            let comes = natural.contains(&(from, role, number));
            let is_told_in = |&timeout: &Duration| {
                let (mutator, told) = tell(*case, comes, n % 13);
                let _ = self.converse(timeout, mutator);
                told.load(Ordering::Relaxed)
            };
            assert!(ANSWER_LIMIT.iter().any(is_told_in), "the mutation was sent");
            told.insert((from, role, number));
            mutations.insert(kind(mutation));
            if n % 200 == 0 {
                self.honest();
            }
        }
        self.honest();
        before.is_as_before();
        (told, mutations)
    }
}

/// A case: who seems to say which message, and what is wrong about it.
type Case = (Side, Role, u32, Mutation);

/// All cases. Messages that no honest peer sends come unsolicited, each with one mutation of
/// each field: there the message itself is the mutation.
fn cases(protocol: &Protocol, natural: &BTreeSet<(Side, Role, u32)>) -> Vec<Case> {
    let mut cases = Vec::new();
    for message in protocol.types {
        for (from, role) in Side::ALL.into_iter().flat_map(|from| Role::ALL.map(|role| (from, role))) {
            let number = message.number;
            let comes = natural.contains(&(from, role, number));
            let told = twin::mutations(protocol, message, role);
            let values = Value::all(0).len();
            let one_in_turn = |(at, mutation): &(usize, Mutation)| match mutation {
                Mutation::Field(field, _) => {
                    (at + usize::from(*field) + number as usize).is_multiple_of(values)
                }
                Mutation::Refused | Mutation::Silent | Mutation::Late => false,
                _ => true,
            };
            let told = told.into_iter().enumerate().filter(|mutation| comes || one_in_turn(mutation));
            cases.extend(told.map(|(_, mutation)| (from, role, number, mutation)));
        }
    }
    cases
}

/// Sends a mutation once: of the first message of its type, or before the `moment`th that
/// the same side sends; and whether it was told.
fn tell((from, role, number, mutation): Case, comes: bool, moment: usize) -> (Mutator, Arc<AtomicBool>) {
    let (mut seen, mut told, is_told) = (0, false, Arc::new(AtomicBool::new(false)));
    let tells = is_told.clone();
    let mutator: Mutator = Box::new(move |passing| {
        if told || passing.from != from {
            return Say::Pass;
        }
        seen += 1;
        told = match comes {
            true => (passing.head.role, passing.head.number) == (role, number),
            false => seen > moment,
        };
        tells.store(told, Ordering::Relaxed);
        match (told, comes) {
            (false, _) => Say::Pass,
            (true, true) => Say::Mutation(mutation),
            (true, false) => Say::Before(number, role, mutation),
        }
    });
    (mutator, is_told)
}

/// A mutation, whatever the field and the bit.
fn kind(mutation: Mutation) -> Mutation {
    match mutation {
        Mutation::Field(_, Value::Flipped(_)) => Mutation::Field(0, Value::Flipped(0)),
        Mutation::Field(_, value) => Mutation::Field(0, value),
        other => other,
    }
}

fn every_mutation(name: &str, party: &'static Party, model: &'static Model) {
    alone(module_path!(), name, LIMIT, || {
        let served = Served::new(party, model);
        let natural = served.natural();
        let cases = cases(party.protocol, &natural);
        let (told, mutations) = served.tell_all(&cases, &natural);
        assert_eq!(told.len(), 4 * party.protocol.types.len(), "each message, from each side, in each role");
        let all = twin::mutations(party.protocol, &party.protocol.types[0], Role::Request);
        let all: BTreeSet<Mutation> = all.into_iter().map(kind).collect();
        assert_eq!(mutations, all, "each mutation");
    });
}

#[test]
fn every_mutation_of_every_message_of_vfio_user() {
    every_mutation("every_mutation_of_every_message_of_vfio_user", &VFIO_USER, &MODELS[1]);
}

#[test]
fn every_mutation_of_every_message_of_vhost_user() {
    every_mutation("every_mutation_of_every_message_of_vhost_user", &VHOST_USER, &MODELS[1]);
}

/// What a client mutates, sent to a model whose registers are in shared pages.
#[test]
fn every_mutation_of_what_a_client_says_of_the_82599() {
    alone(module_path!(), "every_mutation_of_what_a_client_says_of_the_82599", LIMIT, || {
        let served = Served::new(&VFIO_USER, &MODELS[0]);
        let natural = served.natural();
        let mut cases = cases(&twin::vfio_user::PROTOCOL, &natural);
        cases.retain(|case| case.0 == Side::Client && natural.contains(&(case.0, case.1, case.2)));
        served.tell_all(&cases, &natural);
    });
}

/// A server asks for memory before each of its replies, wherever that is: 8 bytes of what
/// was offered, across its edges and beside it.
#[test]
fn memory_is_asked_for_at_any_moment_and_address() {
    const DMA: [u32; 2] = [11, 12];
    const ADDRESS: u8 = 5; // behind the five fields of the header
    alone(module_path!(), "memory_is_asked_for_at_any_moment_and_address", LIMIT, || {
        let served = Served::new(&VFIO_USER, &MODELS[1]);
        let before = (served.honest(), Witness::now()).1;
        let (begin, end) = (SAMPLE_IOVA, SAMPLE_IOVA + 4096 * honest::PAGES as u64);
        let inside = [begin, begin + 4092, end - 8];
        let across = [begin - 4, end - 7, end - 4, end - 1, u64::MAX - 3];
        let beside = [0, begin - 8, end, u64::MAX];
        for address in inside.into_iter().chain(across).chain(beside) {
            for (number, moment) in DMA.into_iter().flat_map(|number| (0..40).map(move |n| (number, n))) {
                println!("{moment}: message {number} for {address:#x}");
                let mutation = Mutation::Field(ADDRESS, Value::Is(address));
                let (mutator, _) = tell((Side::Server, Role::Request, number, mutation), false, moment);
                let _ = served.converse(ANSWER_LIMIT[0], mutator);
            }
        }
        served.honest();
        before.is_as_before();
    });
}

#[test]
fn every_mutation_of_memory_that_is_told_as_a_table() {
    const SET_MEM_TABLE: u32 = 5;
    alone(module_path!(), "every_mutation_of_memory_that_is_told_as_a_table", LIMIT, || {
        let served = Served::new(&VHOST_USER_TABLES, &MODELS[1]);
        let natural = served.natural();
        let mut cases = cases(&twin::vhost_user::PROTOCOL, &natural);
        cases.retain(|case| case.2 == SET_MEM_TABLE);
        assert!(natural.contains(&(Side::Client, Role::Request, SET_MEM_TABLE)));
        served.tell_all(&cases, &natural);
    });
}
