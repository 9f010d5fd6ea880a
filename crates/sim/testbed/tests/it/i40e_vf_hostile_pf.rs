//! Our driver of virtual functions, and a physical function whose driver means harm: answers that are
//! late, missing, wrong, of another length or of another message, resets and events at any moment.
//! Opening fails by name within its bounds, or works; nothing hangs, and an honest physical function
//! makes it good again. The hostile one is an admin queue by hand, in a thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::alone::alone;
use crate::common::mailbox::Raw;
use crate::common::witness::Witness;
use bus::Pci;
use driver::iavf::{Iavf, VfFault};
use memory::{Backing, Batch, Dma, Pool};
use port::{Filters as _, Options, Port as _, RxQueue as _, TxQueue as _};
use regs::i40e::admin::{BUFFER, opcode};
use regs::i40e::{GLGEN_VFLRSTAT, VFGEN_RSTAT1, VPGEN_VFRSTAT, VPGEN_VFRTRIG, reset_state};
use regs::virtchnl::message::{Counters, Event, Resources, Version};
use regs::virtchnl::{self, capability, event, op, status};
use testbed::fault::Random;
use testbed::inprocess::{Handle, InProcess, spawn};
use testbed::wire::Cable;
use testbed::{Idle, Stepper, i40e, ixgbe};

/// No opening takes longer: it waits for one answer and one reset in vain at most, 2 s each, and closing
/// for another.
const BOUND: Duration = Duration::from_secs(20);
/// Events of a storm.
const STORM: usize = 200;

/// What the physical function does instead of answering.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reaction {
    Honest,
    Silent,
    Reset,
    Status(i32),
    /// The honest answer with so many bytes.
    Length(usize),
    /// So many bytes of chance.
    Chance(usize),
    /// An answer to another message.
    Other,
    /// Twice the answer.
    Twice,
    /// Events that make no sense before the answer.
    Storm,
    /// A refusal, but only once the next message of the kind has come.
    Late,
    /// A reset is announced, which does not come.
    Announced,
}

/// How it reacts, and to which message.
type Told = Arc<Mutex<(Reaction, u32)>>;

/// A physical function by hand.
struct HostilePf {
    raw: Raw,
    told: Told,
    random: Random,
    late: bool,
}

impl HostilePf {
    /// Resets the virtual function, and lets it work.
    fn reset(&self) {
        let bar = &self.raw.bar;
        bar.write32(VFGEN_RSTAT1::at(0), reset_state::IN_PROGRESS);
        bar.write32(VPGEN_VFRTRIG::at(0), VPGEN_VFRTRIG::VFSWR);
        crate::common::limit::until("the reset", || {
            bar.read32(VPGEN_VFRSTAT::at(0)) & VPGEN_VFRSTAT::VFRD != 0
        });
        bar.write32(VFGEN_RSTAT1::at(0), reset_state::COMPLETED);
        bar.write32(VPGEN_VFRTRIG::at(0), 0);
        bar.write32(VFGEN_RSTAT1::at(0), reset_state::ACTIVE);
    }

    /// Sends a message. A virtual function that takes none is no harm to who sends them.
    fn say(&mut self, status: i32, kind: u32, bytes: &[u8]) {
        let _ = self.raw.tell_vf(0, kind, status, bytes);
    }

    fn chance(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.random.next() as u8).collect()
    }

    /// Lets the virtual function work again after a reset by the bus, and answers what came, if anything
    /// did.
    fn step(&mut self) {
        let resets = GLGEN_VFLRSTAT::at(0);
        if self.raw.bar.read32(resets) & 1 != 0 {
            self.raw.bar.write32(resets, 1);
            self.reset();
        }
        let Some((event, _)) = self.raw.event() else { return };
        if event.opcode != opcode::SEND_MSG_TO_PF {
            return;
        }
        let kind = event.cookie as u32;
        let (reaction, at) = *self.told.lock().unwrap();
        let reaction = if kind == at { reaction } else { Reaction::Honest };
        let mut honest = answer(kind);
        match reaction {
            Reaction::Honest if kind == op::RESET_VF => self.reset(),
            Reaction::Honest => self.say(status::SUCCESS, kind, &honest),
            Reaction::Silent => {}
            Reaction::Reset => self.reset(),
            Reaction::Status(other) => self.say(other, kind, &honest),
            Reaction::Length(len) => {
                honest.resize(len, 0xA5);
                self.say(status::SUCCESS, kind, &honest);
            }
            Reaction::Chance(len) => {
                let bytes = self.chance(len);
                self.say(status::SUCCESS, kind, &bytes);
            }
            Reaction::Other => self.say(status::SUCCESS, kind ^ 1, &honest),
            Reaction::Twice => (0..2).for_each(|_| self.say(status::SUCCESS, kind, &honest)),
            Reaction::Late if !self.late => self.late = true,
            Reaction::Late => {
                self.late = false;
                self.say(status::ERR_PARAM, kind, &honest);
                self.say(status::SUCCESS, kind, &honest);
            }
            Reaction::Announced => {
                let event = Event { event: event::RESET_IMPENDING, link: (0, false), severity: 0 };
                self.say(status::SUCCESS, op::EVENT, &event.encode());
            }
            Reaction::Storm => {
                self.storm();
                self.say(status::SUCCESS, kind, &honest);
            }
        }
        if kind == op::ENABLE_QUEUES && reaction == Reaction::Honest {
            let up = Event { event: event::LINK_CHANGE, link: (virtchnl::SPEEDS[0].0, true), severity: 0 };
            self.say(status::SUCCESS, op::EVENT, &up.encode());
        }
    }

    /// Events of no kind that means anything, of all lengths.
    fn storm(&mut self) {
        for n in 0..STORM {
            let len = [0, 1, 15, 16, 17, BUFFER][n % 6];
            let mut bytes = self.chance(len);
            bytes.iter_mut().zip(u32::MAX.to_le_bytes()).for_each(|(byte, new)| *byte = new);
            self.say(status::SUCCESS, op::EVENT, &bytes);
        }
    }
}

/// What an honest physical function answers.
fn answer(kind: u32) -> Vec<u8> {
    match kind {
        op::VERSION => Version { major: 1, minor: 1 }.encode(),
        op::GET_VF_RESOURCES => resources().encode(),
        op::GET_STATS => Counters::default().encode(),
        _ => Vec::new(),
    }
}

fn resources() -> Resources {
    Resources {
        queues: 4,
        vectors: 5,
        max_mtu: 0,
        capabilities: capability::L2 | capability::VLAN | capability::RSS_PF,
        key_size: 52,
        lut_size: 64,
        vsi: 1,
        queue_set: 1,
        mac: [2, 0, 0, 0, 0, 0x44],
    }
}

/// A card whose physical function is hostile, in a thread, and its virtual function.
struct Scene {
    vf: Pci,
    told: Told,
    stop: Arc<AtomicBool>,
    pf_thread: Option<JoinHandle<()>>,
    stepper: Option<Stepper>,
    dma: Dma,
    pool: Pool,
    _handles: Vec<Handle>,
    _pf: Pci,
}

impl Scene {
    fn new() -> Scene {
        let cable = Cable::open(&"sink".parse().unwrap()).unwrap();
        let (card, vfs) = i40e::open_with_vfs(&i40e::Options::with_mac(ixgbe::mac(0)), cable, 1).unwrap();
        let (mut pcis, handles): (Vec<Pci>, Vec<Handle>) =
            [card].into_iter().chain(vfs).map(InProcess::new).unzip();
        let stepper = spawn(&handles, None, Idle::Yield).unwrap();
        let (vf, pf) = (pcis.pop().unwrap(), pcis.pop().unwrap());
        let dma = Dma::new(Default::default());
        let pool = Pool::new(&dma, 1024).unwrap();
        let told = Arc::new(Mutex::new((Reaction::Honest, 0)));
        let stop = Arc::new(AtomicBool::new(false));
        let raw = Raw::open_pf(&pf, &Dma::new(Default::default()));
        let mut hostile = HostilePf { raw, told: told.clone(), random: Random::new(7), late: false };
        let end = stop.clone();
        let pf_thread = thread::spawn(move || {
            hostile.reset();
            while !end.load(Ordering::Relaxed) {
                hostile.step();
                thread::yield_now();
            }
        });
        let (pf_thread, stepper) = (Some(pf_thread), Some(stepper));
        Scene { vf, told, stop, pf_thread, stepper, dma, pool, _handles: handles, _pf: pf }
    }

    /// Opens the port and uses it, while the answer to `at` is wrong; why it could not be opened.
    fn run(&mut self, reaction: Reaction, at: u32) -> Option<driver::Error> {
        self.react(reaction, at);
        let begin = Instant::now();
        let opened = self.open();
        let error = match opened {
            Err(error) => Some(error),
            Ok(port) => {
                let (mut device, mut rx, mut tx) = port.split();
                let mut batch = Batch::default();
                rx[0].recv(&mut self.pool, &mut batch);
                let mut packet = self.pool.alloc().unwrap();
                packet.copy_from(&[2; 64]).unwrap();
                assert!(batch.push(packet).is_none());
                tx[0].send(&mut self.pool, &mut batch);
                let _ = (device.link(), device.stats(), device.health(), device.mac());
                let _ = (device.add_mac([2, 9, 9, 9, 9, 9]), device.set_promiscuous(false));
                drop((rx, tx));
                drop(device);
                self.pool.free_batch(&mut batch);
                None
            }
        };
        assert!(begin.elapsed() < BOUND, "{reaction:?} at {} took {:?}", virtchnl::name(at), begin.elapsed());
        assert_eq!(self.pool.available(), self.pool.capacity(), "{reaction:?} at {at}: every buffer is back");
        error
    }

    fn open(&self) -> driver::Result<Iavf> {
        self.open_in(&self.dma)
    }

    fn open_in(&self, dma: &Dma) -> driver::Result<Iavf> {
        let options = Options {
            rx_queues: 2,
            tx_queues: 2,
            interrupts: true,
            vlan_strip: true,
            promiscuous: true,
            link_wait_ms: 0,
            ..Options::default()
        };
        Iavf::open(self.vf.clone(), dma, options)
    }

    fn react(&self, reaction: Reaction, at: u32) {
        *self.told.lock().unwrap() = (reaction, at);
    }

    fn honest(&mut self) {
        let error = self.run(Reaction::Honest, 0);
        assert!(error.is_none(), "it works when it answers honestly: {error:?}");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.pf_thread.take().map(JoinHandle::join);
        self.stepper.take().into_iter().for_each(|mut stepper| stepper.stop());
        if !thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

/// What opening asks, in its order.
const ASKED: [u32; 11] = [
    op::VERSION,
    op::GET_VF_RESOURCES,
    op::CONFIG_RSS_KEY,
    op::CONFIG_RSS_LUT,
    op::SET_RSS_HENA,
    op::ENABLE_VLAN_STRIPPING,
    op::CONFIG_VSI_QUEUES,
    op::CONFIG_IRQ_MAP,
    op::ENABLE_QUEUES,
    op::CONFIG_PROMISCUOUS_MODE,
    op::GET_STATS,
];

#[test]
fn refusals_are_told_by_message_and_status() {
    let mut scene = Scene::new();
    scene.honest();
    for at in ASKED {
        for (told, known) in [(status::ERR_PARAM, "ERR_PARAM"), (i32::MIN, "no status")] {
            let error = scene.run(Reaction::Status(told), at).expect("it does not open");
            let driver::Error::Vf(VfFault::Refused { message, opcode, status, .. }) = error else {
                panic!("{}: {error}", virtchnl::name(at))
            };
            assert_eq!((message, opcode, status), (virtchnl::name(at), at, known));
        }
    }
    scene.honest();
}

#[test]
fn answers_of_another_length_or_of_chance_do_no_harm() {
    let mut scene = Scene::new();
    let decoded = [op::VERSION, op::GET_VF_RESOURCES, op::GET_STATS];
    for at in decoded {
        for len in [0, 1, answer(at).len() - 1] {
            let error = scene.run(Reaction::Length(len), at).expect("it does not open");
            let driver::Error::Vf(VfFault::Nonsense { message, .. }) = error else { panic!("{error}") };
            assert_eq!(message, virtchnl::name(at));
        }
    }
    for at in ASKED {
        for len in [4, answer(at).len(), answer(at).len() + 1, BUFFER] {
            // A resemblance of resources by chance would be none that the driver knows.
            let error = scene.run(Reaction::Chance(len), at);
            let named = matches!(error, None | Some(driver::Error::Vf(_)));
            assert!(named, "{} with {len} bytes: {error:?}", virtchnl::name(at));
        }
    }
    scene.honest();
}

#[test]
fn answers_that_do_not_come_or_belong_elsewhere_are_waited_for_in_vain() {
    let mut scene = Scene::new();
    for (reaction, at) in [
        (Reaction::Silent, op::VERSION),
        (Reaction::Silent, op::ENABLE_QUEUES),
        (Reaction::Other, op::GET_VF_RESOURCES),
        (Reaction::Silent, op::RESET_VF),
    ] {
        let error = scene.run(reaction, at).expect("it does not open");
        let driver::Error::Vf(VfFault::NoAnswer { opcode, .. }) = error else {
            panic!("{reaction:?}: {error}")
        };
        assert_eq!(opcode, at);
    }
    scene.honest();
}

#[test]
fn resets_storms_and_second_answers_at_any_message_do_no_harm() {
    let mut scene = Scene::new();
    for at in ASKED {
        assert!(scene.run(Reaction::Twice, at).is_none(), "{}", virtchnl::name(at));
        let error = scene.run(Reaction::Storm, at);
        // A storm may take the place of the answer in the mailbox.
        let named = matches!(error, None | Some(driver::Error::Vf(VfFault::NoAnswer { .. })));
        assert!(named, "{}: {error:?}", virtchnl::name(at));
        let error = scene.run(Reaction::Reset, at).expect("it does not open");
        let driver::Error::Vf(VfFault::Reset { .. }) = error else {
            panic!("{}: {error}", virtchnl::name(at))
        };
    }
    scene.honest();
}

#[test]
fn a_late_answer_is_not_that_of_a_later_message() {
    let mut scene = Scene::new();
    let (mut device, rx, tx) = scene.open().unwrap().split();
    scene.react(Reaction::Late, op::ADD_ETH_ADDR);
    let error = device.add_mac([2, 9, 9, 9, 9, 1]).unwrap_err().to_string();
    assert!(error.contains("did not answer ADD_ETH_ADDR"), "{error}");
    device.add_mac([2, 9, 9, 9, 9, 2]).expect("the refusal was the first one's");
    scene.react(Reaction::Honest, 0);
    drop((rx, tx));
    drop(device);
    scene.honest();
}

#[test]
fn a_reset_that_is_only_announced_gives_no_buffer_back() {
    let mut scene = Scene::new();
    let (mut device, mut rx, tx) = scene.open().unwrap().split();
    let mut batch = Batch::default();
    rx[0].recv(&mut scene.pool, &mut batch);
    let lent = scene.pool.available();
    assert!(lent < scene.pool.capacity(), "the ring is filled");
    scene.react(Reaction::Announced, op::ADD_ETH_ADDR);
    let error = device.add_mac([2, 9, 9, 9, 9, 1]).unwrap_err().to_string();
    assert!(error.contains("has reset this one"), "{error}");
    drop((rx, tx));
    assert_eq!(scene.pool.available(), lent, "the device has them still");
    drop(device);
}

/// The physical function does not reset a virtual one that is closed: what was the device's is not kept,
/// for the bus resets it.
#[test]
fn a_virtual_function_that_nobody_resets_keeps_no_memory() {
    alone(module_path!(), "a_virtual_function_that_nobody_resets_keeps_no_memory", BOUND, || {
        let mut scene = Scene::new();
        scene.honest();
        let before = Witness::now();
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let port = scene.open_in(&dma).unwrap();
        scene.react(Reaction::Silent, op::RESET_VF);
        drop((port, dma));
        before.is_as_before();
    });
}
