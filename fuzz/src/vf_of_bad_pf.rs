//! Our driver of virtual functions, and a physical function whose driver means harm: what it
//! answers and tells is anything, the driver opens its port or says why not, and its counters do
//! not go back.
//!
//! Each message is answered somehow: the driver waits for seconds for an answer that does not come,
//! which the tests of `testbed` do.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arbitrary::Arbitrary;
use bus::Pci;
use driver::iavf::{Iavf, RxQueue, TxQueue};
use port::{Filters as _, Options, Port as _};
use regs::i40e::admin::{Descriptor, opcode};
use regs::i40e::{VFGEN_RSTAT1, VPGEN_VFRTRIG, reset_state};
use regs::iavf::VF_ATQT1;
use regs::virtchnl::message::{Counters, Event, Resources, Version};
use regs::virtchnl::{capability, event, op, status};
use testbed::i40e::open_with_vfs;
use testbed::inprocess::{Handle, InProcess};
use testbed::wire::Cable;

use crate::mailbox::{Observed, Raw};

/// Bad answers that wait for their message, at most.
const WAITING: usize = 16;

/// How the application looks at counters.
const COUNT: u8 = 5;

/// How an answer is none.
#[derive(Arbitrary, Debug, Clone)]
pub enum BadAnswer {
    None,
    /// The honest answer with another status.
    Status(i32),
    /// The honest answer with so many bytes.
    Length(u16),
    /// An answer of other bytes than the honest one's.
    Bytes {
        len: u8,
        bytes: [u8; 24],
    },
    /// Resources that could be.
    Resources {
        queues: u16,
        vectors: u16,
        capabilities: u32,
        sizes: [u8; 2],
        mac: [u8; 6],
    },
    /// Counters that could be.
    Counters([u64; 3]),
    /// Another answer before a refusal.
    Other {
        kind: u8,
    },
    Twice,
    /// A reset instead of an answer.
    Reset,
}

/// What happens next.
#[derive(Arbitrary, Debug)]
pub enum Act {
    /// The answer to one of the next messages is a lie.
    BadAnswer { skip: u8, bad: BadAnswer },
    /// The physical function sends something unsolicited.
    Tell { kind: u8, event: u8, link: u32, severity: i32, len: u8 },
    /// The application uses the port.
    Use(u8),
    /// The port is closed, and opened again.
    Open,
}

/// A physical function by hand.
struct BadPf {
    raw: Raw,
    card: Handle,
    vf: Handle,
    bad_answers: VecDeque<BadAnswer>,
    /// A reset was announced.
    announced: bool,
}

impl BadPf {
    /// Resets the virtual function, and lets it work.
    fn reset(&mut self) {
        let bar = &self.raw.bar;
        bar.write32(VFGEN_RSTAT1::at(0), reset_state::IN_PROGRESS);
        bar.write32(VPGEN_VFRTRIG::at(0), VPGEN_VFRTRIG::VFSWR);
        bar.write32(VPGEN_VFRTRIG::at(0), 0);
        bar.write32(VFGEN_RSTAT1::at(0), reset_state::ACTIVE);
        self.announced = false;
        self.vf.step(0);
    }

    fn say(&mut self, status: i32, kind: u32, bytes: &[u8]) {
        let cookie = u64::from(kind) | u64::from(status as u32) << 32;
        // One that takes none is no harm to who sends them.
        let _ = self.raw.send(Descriptor { cookie, ..Descriptor::new(opcode::SEND_MSG_TO_VF) }, bytes);
        self.vf.step(0);
    }

    /// Answers what came.
    fn work(&mut self) {
        self.card.step(0);
        while let Some((event, _)) = self.raw.event() {
            if event.opcode != opcode::SEND_MSG_TO_PF {
                continue;
            }
            match event.cookie as u32 {
                op::RESET_VF => self.reset(),
                kind => self.answer(kind),
            }
        }
        self.vf.step(0);
    }

    fn answer(&mut self, kind: u32) {
        let mut honest = match kind {
            op::VERSION => Version { major: 1, minor: 1 }.encode(),
            op::GET_VF_RESOURCES => RESOURCES.encode(),
            op::GET_STATS => Counters::default().encode(),
            _ => Vec::new(),
        };
        match self.bad_answers.pop_front().unwrap_or(BadAnswer::None) {
            BadAnswer::None => self.say(status::SUCCESS, kind, &honest),
            BadAnswer::Status(other) => self.say(other, kind, &honest),
            BadAnswer::Length(len) => {
                honest.resize(usize::from(len) % 4097, 0xA5);
                self.say(status::SUCCESS, kind, &honest);
            }
            BadAnswer::Bytes { len, bytes } => {
                let mut bytes = bytes.to_vec();
                bytes.resize(len.into(), 0);
                self.say(status::SUCCESS, kind, &bytes);
            }
            BadAnswer::Resources { queues, vectors, capabilities, sizes: [key_size, lut_size], mac } => {
                let (key_size, lut_size) = (key_size.into(), lut_size.into());
                let of = Resources { queues, vectors, capabilities, key_size, lut_size, mac, ..RESOURCES };
                self.say(status::SUCCESS, kind, &of.encode());
            }
            BadAnswer::Counters(some) => {
                let counters = Counters(std::array::from_fn(|n| some[n % some.len()]));
                self.say(status::SUCCESS, kind, &counters.encode());
            }
            BadAnswer::Other { kind: other } => {
                self.say(status::SUCCESS, other.into(), &honest);
                self.say(status::ERR_PARAM, kind, &[]);
            }
            BadAnswer::Twice => (0..2).for_each(|_| self.say(status::SUCCESS, kind, &honest)),
            BadAnswer::Reset => self.reset(),
        }
    }
}

/// What the virtual function has.
const RESOURCES: Resources = Resources {
    queues: 4,
    vectors: 5,
    max_mtu: 0,
    capabilities: capability::L2 | capability::VLAN | capability::RSS_PF,
    key_size: 52,
    lut_size: 64,
    vsi: 1,
    queue_set: 1,
    mac: [2, 0, 0, 0, 0, 0x44],
};

/// A card whose physical function lies, and the port of its virtual function.
pub struct VfOfBadPf {
    port: Option<(Iavf, Vec<RxQueue>, Vec<TxQueue>)>,
    bad_pf: Arc<Mutex<BadPf>>,
    pci: Pci,
    received: u64,
}

impl VfOfBadPf {
    /// A card with this device id that works.
    pub fn open(device_id: u16) -> VfOfBadPf {
        let mac = testbed::ixgbe::mac(0);
        let options = testbed::i40e::Options { device_id, ..testbed::i40e::Options::with_mac(mac) };
        let cable = Cable::open(&"sink".parse().expect("a wire")).expect("a wire");
        let (card, mut vfs) = open_with_vfs(&options, cable, 1).expect("a model");
        let (pf, card) = InProcess::new(card);
        let (pci, vf) = InProcess::new(vfs.pop().expect("it has one"));
        let mut raw = Raw::over(pf, true);
        raw.start();
        let mut bad_pf = BadPf { raw, card, vf, bad_answers: VecDeque::new(), announced: false };
        bad_pf.reset();
        let bad_pf = Arc::new(Mutex::new(bad_pf));
        let observed = Observed::over(pci, VF_ATQT1::AT);
        let beside = bad_pf.clone();
        observed.set_beside(Box::new(move || beside.lock().unwrap_or_else(PoisonError::into_inner).work()));
        let mut driven = VfOfBadPf { port: None, bad_pf, pci: Pci::new(observed), received: 0 };
        driven.reopen();
        assert!(driven.port.is_some(), "an honest physical function makes it work");
        driven
    }

    fn bad_pf(&self) -> MutexGuard<'_, BadPf> {
        self.bad_pf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One run. In the end nobody lies, and the port opens if it did not stay open.
    pub fn run(&mut self, acts: &[Act]) {
        for act in acts {
            self.act(act);
        }
        self.bad_pf().bad_answers.clear();
        let healthy = self.port.as_ref().is_some_and(|(port, ..)| port.health().is_ok());
        if healthy {
            // What counters were told is not left for the next run.
            self.use_port(COUNT);
        } else {
            self.reopen();
            assert!(self.port.is_some(), "an honest physical function makes it good again");
        }
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::BadAnswer { skip, ref bad } => {
                let bad_answers = &mut self.bad_pf().bad_answers;
                bad_answers.extend((0..skip % 8).map(|_| BadAnswer::None));
                bad_answers.push_back(bad.clone());
                bad_answers.truncate(WAITING);
            }
            Act::Tell { kind, event, link, severity, len } => {
                let event = Event { event: u32::from(event) % 5, link: (link, link & 1 != 0), severity };
                let mut bytes = event.encode();
                bytes.resize(if len < 64 { bytes.len() } else { len.into() }, 0);
                let mut bad_pf = self.bad_pf();
                bad_pf.announced |= event.event >= event::RESET_IMPENDING;
                bad_pf.say(status::SUCCESS, if kind < 128 { op::EVENT } else { kind.into() }, &bytes);
                drop(bad_pf);
                // It is taken before more come than there is room for.
                self.port.iter().for_each(|(port, ..)| _ = port.link());
            }
            Act::Use(how) => self.use_port(how),
            Act::Open => self.reopen(),
        }
    }

    fn use_port(&mut self, how: u8) {
        let Some((port, ..)) = &mut self.port else { return };
        match how % 8 {
            0 => _ = port.add_mac([2, 9, 9, 9, 9, how]),
            1 => _ = port.set_promiscuous(how & 8 != 0),
            2 => _ = port.link(),
            3 => _ = port.mac(),
            4 => _ = port.health(),
            COUNT.. => {
                let received = port.stats().counter("PRC");
                assert!(received >= self.received, "{received} after {}", self.received);
                self.received = received;
            }
        }
    }

    /// Closes the port, if it is open, and opens it. One that was told of a reset waits for it.
    fn reopen(&mut self) {
        let mut bad_pf = self.bad_pf();
        if bad_pf.announced {
            bad_pf.reset();
        }
        // Closing is honest: what a device is not known to have let go of is kept for ever.
        let bad_answers = std::mem::take(&mut bad_pf.bad_answers);
        drop(bad_pf);
        (self.port, self.received) = (None, 0);
        self.bad_pf().bad_answers = bad_answers;
        let options = Options {
            rx_queues: 2,
            tx_queues: 2,
            rx_ring: 64,
            tx_ring: 64,
            link_wait_ms: 0,
            ..Options::default()
        };
        self.port = Iavf::open(self.pci.clone(), &crate::dma::space(), options).ok().map(Iavf::split);
    }
}
