//! The mailbox between the 82599's virtual functions and their host, and either side of it that means
//! harm: [`Hosted`], a driver that sends anything to our host, beside an honest one; and [`VfOfBadPf`], our
//! driver, to which its physical function answers anything.
//!
//! Card, host and port stay from one run to the next, and each run begins with a reset of both virtual
//! functions, or with a port that is healthy.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arbitrary::Arbitrary;
use bus::{Bar, Pci};
use driver::ixgbe::host::{Host, Policy};
use driver::ixgbevf::{Ixgbevf, RxQueue, TxQueue};
use port::{Filters as _, Options, Port as _};
use regs::ixgbe::{CTRL_EXT, PFMAILBOX, PFMBICR, PFMBMEM};
use regs::ixgbevf::message::{
    CLEAR_TO_SEND, FAILURE, INFO_SHIFT, KIND_MASK, SUCCESS, WORDS, kind, queues, version,
};
use regs::ixgbevf::{self, VFCTRL, VFMAILBOX, VFMBMEM};
use testbed::inprocess::{Handle, InProcess, while_stepping};
use testbed::ixgbe::{self, open_with_vfs};
use testbed::wire::Cable;

use crate::mailbox::Observed;

/// Virtual functions: one that means harm, and an honest one.
const HOSTILE: usize = 0;
const HONEST: usize = 1;
/// How often is looked for what comes at once.
const MAX_READS: usize = 16;
/// Bad answers that wait for their message, at most.
const WAITING: usize = 8;

/// A card with virtual functions: its devices, and their handles.
fn card(vfs: usize) -> (Vec<Pci>, Vec<Handle>) {
    let cable = Cable::open(&"sink".parse().expect("a wire")).expect("a wire");
    let options = ixgbe::Options::with_mac(ixgbe::mac(0));
    let (card, vfs) = open_with_vfs(&options, cable, vfs).expect("a model");
    [card].into_iter().chain(vfs).map(InProcess::new).unzip()
}

/// What the hostile driver does next.
#[derive(Arbitrary, Debug)]
pub enum Act {
    /// A message of a kind that there is.
    Ask { kind: u8, info: u8, words: [u32; 3], fill: u32 },
    /// A message about an address that somebody has.
    Address { more: bool, info: u8, of: u8, last: u8 },
    /// A message of any words.
    Any { words: [u32; 6] },
    /// A write of a register.
    Write { register: u8, n: u8, value: u32 },
    /// It is reset.
    Reset,
    /// The honest one asks for an address of its own.
    Honest { last: u8 },
}

/// A card with both virtual functions, hosted.
pub struct Hosted {
    host: Host,
    vfs: [Bar; 2],
    /// Their addresses from the beginning, and the card's.
    first: [[u8; 6]; 3],
    handles: Vec<Handle>,
}

impl Hosted {
    /// Opens the card and makes its host.
    pub fn open() -> Hosted {
        let (pcis, handles) = card(2);
        let dma = crate::dma::space();
        let open = || {
            let options = Options { link_wait_ms: 0, ..Options::default() };
            Host::open(pcis[0].clone(), &dma, options, &[Policy::default(); 2])
        };
        let host = while_stepping(&handles, open).expect("a thread");
        let host = host.unwrap_or_else(|error| panic!("{error}"));
        let vfs = [1, 2].map(|n| pcis[n].bar(0).unwrap_or_else(|error| panic!("{error}")));
        let first = [host.mac(0).expect("it has one"), host.mac(1).expect("likewise"), ixgbe::mac(0)];
        Hosted { host, vfs, first, handles }
    }

    /// One run, which the honest one survives as it is.
    pub fn run(&mut self, acts: &[Act]) {
        for n in [HOSTILE, HONEST] {
            self.begin(n);
        }
        assert_eq!(self.host.mac(HONEST), Some(self.first[HONEST]));
        for act in acts {
            self.act(act);
            let counters = self.host.counters(HOSTILE);
            assert!(counters.refused <= counters.messages, "{counters:?}");
            let [hostile, honest] = [HOSTILE, HONEST].map(|n| self.host.mac(n));
            assert!(hostile != honest && hostile != Some(self.first[2]), "an address of two: {hostile:?}");
        }
        let vlan = self.ask(HONEST, &[kind::SET_VLAN | 1 << INFO_SHIFT, 5]).expect("it is answered");
        assert_ne!(vlan & SUCCESS, 0, "the honest one gets what it asks for");
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Ask { kind, info, words: [a, b, c], fill } => {
                let (kind, _) = kind::TABLE[usize::from(kind) % kind::TABLE.len()];
                let mut words = [fill; WORDS];
                words[..4].copy_from_slice(&[kind | u32::from(info) << INFO_SHIFT, a, b, c]);
                if kind == kind::API_NEGOTIATE {
                    words[1] %= version::V1_3 + 2;
                }
                self.ask_and_check(&words);
            }
            Act::Address { more, info, of, last } => {
                let mut mac = self.first[usize::from(of) % 3];
                mac[5] ^= last % 4;
                let [a, b, c, d, e, f] = mac;
                let kind = if more { kind::SET_MACVLAN } else { kind::SET_MAC_ADDR };
                let first = kind | u32::from(info % 8) << INFO_SHIFT;
                let rest = [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, 0, 0])];
                self.ask_and_check(&[first, rest[0], rest[1]]);
            }
            Act::Any { ref words } => self.ask_and_check(words),
            Act::Write { register, n, value } => {
                let register = &ixgbevf::TABLE[usize::from(register) % ixgbevf::TABLE.len()];
                self.vfs[HOSTILE].write32(register.at(usize::from(n) % register.len()), value);
                self.poll();
            }
            Act::Reset => {
                self.vfs[HOSTILE].write32(VFCTRL::AT, VFCTRL::RST);
                self.poll();
            }
            Act::Honest { last } => {
                let answer = self.ask(HONEST, &[kind::SET_MAC_ADDR, 0x0403_0202, u32::from(last % 4)]);
                assert!(answer.is_some(), "the honest one is answered");
            }
        }
    }

    fn step(&self) {
        self.handles.iter().for_each(|handle| _ = handle.step(0));
    }

    /// The host looks at what came. Nothing that a virtual function does is an error of the device.
    fn poll(&mut self) {
        self.step();
        self.host.poll().unwrap_or_else(|error| panic!("{error}"));
        self.step();
    }

    /// Resets one, whose driver begins anew.
    fn begin(&mut self, n: usize) {
        let bar = &self.vfs[n];
        bar.write32(VFMAILBOX::AT, 0);
        bar.write32(VFCTRL::AT, VFCTRL::RST);
        self.poll();
        let answer = self.ask(n, &[kind::RESET]).expect("it is answered");
        assert_ne!(answer & SUCCESS, 0, "whoever is reset begins anew");
    }

    fn ask_and_check(&mut self, words: &[u32]) {
        let Some(answer) = self.ask(HOSTILE, words) else { return };
        let asked = words[0] & KIND_MASK;
        assert_eq!(answer & KIND_MASK, asked);
        assert!((answer & SUCCESS != 0) != (answer & FAILURE != 0), "{answer:#x} answers {asked:#x}");
    }

    /// Sends a message; the first word of its answer, if the mailbox could be had.
    fn ask(&mut self, n: usize, words: &[u32]) -> Option<u32> {
        let held = (0..MAX_READS).any(|_| {
            let bar = &self.vfs[n];
            bar.write32(VFMAILBOX::AT, VFMAILBOX::VFU);
            let held = bar.read32(VFMAILBOX::AT) & VFMAILBOX::VFU != 0;
            if !held {
                self.poll();
            }
            held
        });
        if !held {
            return None;
        }
        let bar = &self.vfs[n];
        words.iter().enumerate().for_each(|(at, word)| bar.write32(VFMBMEM::at(at), *word));
        bar.write32(VFMAILBOX::AT, VFMAILBOX::REQ);
        self.poll();
        let bar = &self.vfs[n];
        (bar.read32(VFMAILBOX::AT) & VFMAILBOX::PFSTS != 0).then(|| bar.read32(VFMBMEM::at(0)))
    }
}

/// How an answer is none.
#[derive(Arbitrary, Debug, Clone)]
pub enum BadAnswer {
    None,
    /// It is refused.
    Refused,
    /// Neither done nor refused.
    Neither,
    /// Other words behind the first.
    Words([u32; 6]),
    /// Another answer before it.
    Other {
        kind: u16,
        status: u8,
    },
    /// It has to begin anew.
    Reset,
}

/// What happens next to our driver.
#[derive(Arbitrary, Debug)]
pub enum Told {
    /// The answer to one of the next messages is a lie.
    BadAnswer { skip: u8, bad: BadAnswer },
    /// The physical function sends something unsolicited.
    Tell { words: [u32; 3] },
    /// The application uses the port.
    Use(u8),
}

/// A physical function by hand.
struct BadPf {
    pf: Bar,
    handles: Vec<Handle>,
    bad_answers: VecDeque<BadAnswer>,
    /// An answer that comes behind another message.
    waiting: Option<[u32; 6]>,
    /// It told the driver to begin anew.
    told_reset: bool,
}

impl BadPf {
    fn say(&mut self, words: &[u32], bits: u32) {
        self.pf.write32(PFMAILBOX::at(0), PFMAILBOX::PFU);
        words.iter().enumerate().for_each(|(at, word)| self.pf.write32(PFMBMEM::at(at), *word));
        self.pf.write32(PFMAILBOX::at(0), bits | PFMAILBOX::STS);
    }

    /// Answers what came.
    fn work(&mut self) {
        self.handles.iter().for_each(|handle| _ = handle.step(0));
        let told = self.pf.read32(PFMBICR::at(0));
        self.pf.write32(PFMBICR::at(0), told);
        if let Some(answer) = self.waiting.take_if(|_| told >> PFMBICR::VFACK_SHIFT & 1 != 0) {
            self.say(&answer, PFMAILBOX::ACK);
        }
        if told & 1 == 0 {
            return;
        }
        self.waiting = None;
        let asked = self.pf.read32(PFMBMEM::at(0)) & KIND_MASK;
        let mut honest = [0; 6];
        honest[0] = asked | SUCCESS | CLEAR_TO_SEND;
        match asked {
            kind::RESET => honest = [asked | SUCCESS, 0x0403_0202, 0x0605, 0, 0, 0],
            kind::GET_QUEUES => (honest[queues::TX], honest[queues::RX]) = (2, 2),
            kind::UPDATE_XCAST_MODE => honest[1] = self.pf.read32(PFMBMEM::at(1)),
            _ => {}
        }
        match self.bad_answers.pop_front().unwrap_or(BadAnswer::None) {
            BadAnswer::None => {}
            BadAnswer::Refused => honest[0] = asked | FAILURE | CLEAR_TO_SEND,
            BadAnswer::Neither => honest[0] = asked | CLEAR_TO_SEND,
            BadAnswer::Words(words) => honest[1..].copy_from_slice(&words[1..]),
            BadAnswer::Other { kind, status } if u32::from(kind) != asked => {
                // The answer comes when the driver has taken the other.
                let other = u32::from(kind) | u32::from(status) << 24;
                self.told_reset |= u32::from(kind) == kind::PF_CONTROL_MSG && other & CLEAR_TO_SEND == 0;
                self.waiting = Some(honest);
                return self.say(&[other], PFMAILBOX::ACK);
            }
            BadAnswer::Other { .. } => {}
            BadAnswer::Reset => {
                self.told_reset = true;
                return self.say(&[kind::PF_CONTROL_MSG], PFMAILBOX::ACK);
            }
        }
        self.say(&honest, PFMAILBOX::ACK);
    }
}

/// A card whose physical function lies, and the port of its virtual function.
pub struct VfOfBadPf {
    port: Option<(Ixgbevf, Vec<RxQueue>, Vec<TxQueue>)>,
    bad_pf: Arc<Mutex<BadPf>>,
    device: Arc<Observed>,
}

impl VfOfBadPf {
    /// A card that works.
    pub fn open() -> VfOfBadPf {
        let (pcis, handles) = card(1);
        let pf = pcis[0].bar(0).unwrap_or_else(|error| panic!("{error}"));
        pf.set32(CTRL_EXT::AT, CTRL_EXT::PFRSTD);
        let bad_pf = BadPf { pf, handles, bad_answers: VecDeque::new(), waiting: None, told_reset: false };
        let bad_pf = Arc::new(Mutex::new(bad_pf));
        let observed = Observed::unmapped(pcis[1].clone());
        let beside = bad_pf.clone();
        observed.set_beside(Box::new(move || beside.lock().unwrap_or_else(PoisonError::into_inner).work()));
        let mut driven = VfOfBadPf { port: None, bad_pf, device: observed };
        driven.reopen();
        driven
    }

    fn bad_pf(&self) -> MutexGuard<'_, BadPf> {
        self.bad_pf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One run. In the end nobody lies, and the port opens anew if it did not stay healthy or had an
    /// error: one that had no answer sends no more.
    pub fn run(&mut self, acts: &[Told]) {
        self.bad_pf().waiting = None;
        let mut has_failed = false;
        for act in acts {
            match *act {
                Told::BadAnswer { skip, ref bad } => {
                    let bad_answers = &mut self.bad_pf().bad_answers;
                    bad_answers.extend((0..skip % 4).map(|_| BadAnswer::None));
                    bad_answers.push_back(bad.clone());
                    bad_answers.truncate(WAITING);
                }
                Told::Tell { ref words } => {
                    let mut bad_pf = self.bad_pf();
                    let control = words[0] & KIND_MASK == kind::PF_CONTROL_MSG;
                    bad_pf.told_reset |= control && words[0] & CLEAR_TO_SEND == 0;
                    bad_pf.say(words, 0);
                    drop(bad_pf);
                    self.port.iter().for_each(|(port, ..)| _ = port.health());
                }
                Told::Use(how) => has_failed |= self.use_port(how).is_err(),
            }
            if self.bad_pf().told_reset {
                let healthy = self.port.as_ref().is_some_and(|(port, ..)| port.health().is_ok());
                assert!(!healthy, "it was told to begin anew");
                break;
            }
        }
        self.bad_pf().bad_answers.clear();
        if has_failed || self.port.as_ref().is_none_or(|(port, ..)| port.health().is_err()) {
            self.reopen();
        }
    }

    fn use_port(&mut self, how: u8) -> port::Result<()> {
        let Some((port, ..)) = &mut self.port else { return Ok(()) };
        match how % 8 {
            0 | 1 => return port.add_mac([2, 9, 9, 9, 9, how]),
            2 => return port.set_promiscuous(how & 8 != 0),
            3 => return port.set_vlan(how.into(), how & 16 != 0),
            4 => _ = port.link(),
            5 => _ = port.mac(),
            6 => return port.health(),
            _ => _ = port.stats(),
        }
        Ok(())
    }

    /// Closes the port, if it is open, and opens it: an honest physical function makes it good again.
    /// The device is pulled out meanwhile, or closing would wait for it.
    fn reopen(&mut self) {
        self.device.pull_out();
        self.port = None;
        self.device.put_in();
        self.bad_pf().told_reset = false;
        let options =
            Options { rx_ring: 64, tx_ring: 64, link_wait_ms: 0, promiscuous: false, ..Options::default() };
        let opened = Ixgbevf::open(Pci::new(self.device.clone()), &crate::dma::space(), options);
        self.port = Some(opened.unwrap_or_else(|error| panic!("{error}")).split());
    }
}
