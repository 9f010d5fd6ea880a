//! Our drivers on hostile devices, over vfio-user and vhost-user: messages, rings, packets
//! and registers that change under them, from seeds. Whatever a device does, a driver does
//! not crash or hang, an application's packets are its own, each buffer is returned, and
//! the server of the model serves the next client.

mod drivers;

use std::collections::{BTreeMap, HashSet};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::alone::alone;
use crate::common::limit::{Limit, until};
use crate::common::witness::Witness;
use drivers::{DRIVERS, Device, TestedDriver};
use memory::{Backing, Batch, DATA_ROOM, Dma, Packet, Pool};
use port::{Port, RxQueue, TxQueue};
use testbed::fault::Random;
use testbed::twin::shared::{MutationTarget, TwinMemory};
use testbed::twin::{self, Mutation, Mutator, Say, Told, Twin};

/// How long a peer waits for an answer.
const TIMEOUT: Duration = Duration::from_millis(100);
/// Likewise where nothing is mutated: the machine may be busy.
const LONG_TIMEOUT: Duration = Duration::from_secs(10);
/// No run takes longer: opening and closing wait for bits that never come, each for
/// less than a second.
const BOUND: Duration = Duration::from_secs(8);
const LIMIT: Duration = Duration::from_secs(100);
/// Packets of a pool, and descriptors of a ring.
const PACKETS: usize = 300;
const RING: usize = 64;
/// Mappings of a driver that a device may reach: its rings and queues.
const KEPT: usize = 4;
/// What an application does, over and over, in one run.
const ROUNDS: usize = 60;

/// An application that receives and sends, and looks at all it gets.
struct Application {
    port: Box<dyn Port>,
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
    held: Vec<Packet>,
    received: usize,
}

impl Application {
    fn new(mut port: Box<dyn Port>) -> Application {
        let (rx, tx) = (port.rx_queue(0).unwrap(), port.tx_queue(0).unwrap());
        Application { port, rx, tx, held: Vec::new(), received: 0 }
    }

    fn round(&mut self, pool: &mut Pool, n: usize) {
        let mut batch = Batch::with_limit(16);
        assert_eq!(self.rx.recv(pool, &mut batch), batch.len());
        self.received += batch.len();
        for mut packet in batch.drain() {
            let mut segment = Some(&mut packet);
            while let Some(packet) = segment {
                assert!(packet.len() <= DATA_ROOM);
                packet.fill(n as u8);
                let _ = (packet.packet_type(), packet.hash(), packet.vlan(), packet.l4_checksum());
                segment = packet.next_mut();
            }
            self.held.push(packet);
        }
        let mut seen = HashSet::new();
        for buffer in self.held.iter().flat_map(Packet::segments) {
            assert!(seen.insert(buffer.rx_iova()), "a buffer was given twice");
        }
        let all = seen.len() + pool.available();
        assert!(all <= PACKETS, "{all} of {PACKETS} buffers");
        for _ in 0..4 {
            let Some(mut packet) = pool.alloc() else { break };
            packet.copy_from(&[n as u8; 200][..60 + n % 100]).unwrap();
            self.held.push(packet);
        }
        let mut batch = Batch::with_limit(16);
        let count = batch.room().min(self.held.len());
        self.held.drain(..count).for_each(|packet| assert!(batch.push(packet).is_none()));
        self.tx.send(pool, &mut batch);
        pool.free_batch(&mut batch);
        assert!(self.tx.clean(pool) <= RING);
        if n % 20 == 19 {
            let _ = (self.port.link(), self.port.stats(), self.port.health(), self.port.mac());
            let _ = (self.rx.stats(), self.tx.stats(), self.rx.arm().is_some());
            self.rx.disarm();
        }
    }
}

/// What a run mutates.
struct Mutations {
    mutator: Mutator,
    /// Mutations of shared bytes in a round, and where.
    shared: usize,
    places: Vec<MutationTarget>,
    random: Random,
    /// Something is received in the end.
    is_honest: bool,
}

/// What may be left when a run is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    /// Memory of a device that refused its reset: it may still reach it.
    Memory,
}

/// What came of a run.
#[derive(Default)]
struct Outcome {
    opened: bool,
    received: usize,
    told: Told,
    shared: BTreeMap<MutationTarget, usize>,
}

impl TestedDriver {
    /// One run: opens the port, uses it, and takes it down after the device is gone.
    fn run(&self, device: &mut Device, mut mutations: Mutations) -> Outcome {
        let begin = Instant::now();
        let timeout = if mutations.is_honest { LONG_TIMEOUT } else { TIMEOUT };
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (server, cut) = (device.connect(), theirs.try_clone().unwrap());
        let shared = Arc::new(TwinMemory::new(self.rings));
        let twin = Twin::between(
            self.protocol,
            theirs,
            server,
            timeout * 5 / 4,
            Some(shared.clone()),
            mutations.mutator,
        );
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let mut pool = Pool::new(&dma, PACKETS).unwrap();
        let mut outcome = Outcome::default();
        let port = (self.open)(ours, timeout, &dma);
        outcome.opened = port.is_some();
        let mut application = port.map(Application::new);
        if let Some(application) = &mut application {
            application.round(&mut pool, 0);
            shared.find_buffers();
            let mut limit = Limit::time("a packet");
            for n in 1.. {
                limit.check();
                if n >= ROUNDS && (application.received > 0 || !mutations.is_honest) {
                    break;
                }
                match device {
                    Device::Stub(stub, _) => stub.step(),
                    Device::Model(..) => sleep(Duration::from_micros(200)),
                }
                for _ in 0..mutations.shared {
                    if let Some((place, _)) = shared.mutation(&mut mutations.random, &mutations.places) {
                        *outcome.shared.entry(place).or_default() += 1;
                    }
                }
                application.round(&mut pool, n);
            }
            outcome.received = application.received;
        }
        // A device that is gone keeps nothing: all buffers are returned.
        cut.shutdown(std::net::Shutdown::Both).unwrap();
        outcome.told = twin.join().unwrap();
        until("the driver to see that its device is gone", || {
            application.as_ref().is_none_or(|application| application.port.health().is_err())
        });
        drop(application);
        assert_eq!(pool.available(), PACKETS, "a buffer is lost");
        if let Device::Model(model) = device {
            until("the server to be free", || !model.serving.report().endpoints[0].attached);
        }
        assert!(begin.elapsed() < BOUND, "took {:?}", begin.elapsed());
        outcome
    }

    /// It works when nothing is mutated. An opening has limits of its own, of less than a second each,
    /// which a busy machine may exceed: it may be tried again.
    fn honest(&self, device: &mut Device) {
        let mut tries = (0..3).map(|_| {
            let mutator: Mutator = Box::new(|_| Say::Pass);
            let random = Random::new(0);
            let mutations = Mutations { mutator, shared: 0, places: Vec::new(), random, is_honest: true };
            self.run(device, mutations)
        });
        let outcome = tries.find(|outcome| outcome.opened);
        let works = outcome.is_some_and(|outcome| outcome.received > 0);
        assert!(works, "{}: it works when nothing is mutated", self.name);
    }
}

/// Runs each driver so many times; afterwards its device serves on and nothing is left.
fn each(runs: u64, mut run: impl FnMut(&TestedDriver, &mut Device, u64) -> Left) {
    for tested in DRIVERS {
        let begin = Instant::now();
        let mut device = (tested.device)();
        tested.honest(&mut device);
        let mut before = Witness::now();
        for seed in 0..runs {
            println!("{}: seed {seed}", tested.name);
            match run(tested, &mut device, seed) {
                Left::Nothing => before.is_as_before(),
                Left::Memory => before = before.has_kept_at_most(KEPT),
            }
        }
        tested.honest(&mut device);
        before.is_as_before();
        println!("{}: {:?}", tested.name, begin.elapsed());
    }
}

#[test]
fn drivers_bear_mutations_of_messages() {
    alone(module_path!(), "drivers_bear_mutations_of_messages", LIMIT, || {
        let (mut told, mut opened) = (0, 0);
        each(24, |tested, device, seed| {
            let (protocol, mut random) = (tested.protocol, Random::new(seed));
            // The sooner the first mutation, the less comes after it.
            let (one_in, spared) = ([40, 100, 300][seed as usize % 3], random.below(600) as usize);
            let refused = Arc::new(AtomicBool::new(false));
            let refusing = refused.clone();
            let mutator: Mutator = Box::new(move |passing| {
                let Some(message) = protocol.message(passing.head.number) else { return Say::Pass };
                if passing.nth < spared || random.below(one_in) != 0 {
                    return Say::Pass;
                }
                let all = twin::mutations(protocol, message, passing.head.role);
                match all[random.below(all.len() as u64) as usize] {
                    Mutation::Late | Mutation::Silent if random.below(4) != 0 => Say::Pass,
                    mutation => {
                        refusing.fetch_or(message.name == "DEVICE_RESET", Relaxed);
                        println!(
                            "  {}: {:?} of {} is {mutation:?}",
                            passing.nth, passing.head.role, message.name
                        );
                        Say::Mutation(mutation)
                    }
                }
            });
            let mutations = Mutations {
                mutator,
                shared: 0,
                places: Vec::new(),
                random: Random::new(seed),
                is_honest: false,
            };
            let outcome = tested.run(device, mutations);
            told += outcome.told.mutations;
            opened += usize::from(outcome.opened);
            if refused.load(Relaxed) { Left::Memory } else { Left::Nothing }
        });
        assert!(told > 100 && opened > 20, "{told} mutations, {opened} ports");
    });
}

#[test]
fn drivers_bear_mutations_of_shared_bytes() {
    alone(module_path!(), "drivers_bear_mutations_of_shared_bytes", LIMIT, || {
        let mut told = BTreeMap::new();
        each(12, |tested, device, seed| {
            let mutator: Mutator = Box::new(|_| Say::Pass);
            let shared = [1, 4, 20][seed as usize % 3];
            let mutations = Mutations {
                mutator,
                shared,
                places: MutationTarget::ALL.into(),
                random: Random::new(seed),
                is_honest: false,
            };
            for (place, count) in tested.run(device, mutations).shared {
                *told.entry((tested.name, place)).or_insert(0) += count;
            }
            Left::Nothing
        });
        for (tested, place) in
            DRIVERS.iter().flat_map(|tested| MutationTarget::ALL.map(|place| (tested, place)))
        {
            // Registers of those models alone are in pages that both see.
            let is_paged = ["82599", "XL710", "X722", "82599 VF", "XL710 VF"].contains(&tested.name);
            let wanted = if place == MutationTarget::Register && !is_paged { 0 } else { 50 };
            let count = told.get(&(tested.name, place)).copied().unwrap_or(0);
            assert!(count >= wanted, "{}: {count} mutations of {place:?}", tested.name);
        }
    });
}
