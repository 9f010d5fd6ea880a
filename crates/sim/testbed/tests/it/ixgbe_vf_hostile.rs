//! Virtual functions of the 82599 whose driver talks nonsense, against our host; and a physical function
//! that lies, against our driver: named errors, bounded, and others go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::common::between::{Between, in_front_of};
use crate::common::ixgbe_vf::{Card, models};
use crate::common::limit::until;
use crate::common::vf::{Polling, options};
use bus::{Bar, Pci};
use driver::Error;
use driver::ixgbe::host::{Host, Policy};
use driver::ixgbevf::{Ixgbevf, VfFault};
use memory::Dma;
use port::{Filters as _, Options, Port as _};
use regs::ixgbe::{CTRL_EXT, LINKS, PFMAILBOX, PFMBICR, PFMBMEM};
use regs::ixgbevf::message::{
    CLEAR_TO_SEND, FAILURE, INFO_SHIFT, KIND_MASK, SUCCESS, WORDS, kind, queues, version,
};
use regs::ixgbevf::{VFMAILBOX, VFMBMEM};
use testbed::Idle;
use testbed::inprocess::spawn;

/// Registers of a device, without a driver.
fn registers(pci: &Pci) -> Bar {
    pci.bar(0).unwrap()
}

/// Sends words to the host and waits for its answer.
fn ask(vf: &Bar, words: &[u32]) -> u32 {
    until("the buffer", || {
        vf.write32(VFMAILBOX::AT, VFMAILBOX::VFU);
        vf.read32(VFMAILBOX::AT) & VFMAILBOX::VFU != 0
    });
    words.iter().enumerate().for_each(|(n, word)| vf.write32(VFMBMEM::at(n), *word));
    vf.write32(VFMAILBOX::AT, VFMAILBOX::REQ);
    until("an answer", || vf.read32(VFMAILBOX::AT) & VFMAILBOX::PFSTS != 0);
    vf.read32(VFMBMEM::at(0))
}

#[test]
fn one_that_talks_nonsense_is_refused_and_the_others_go_on() {
    let mut card = Card::open(&[Policy { vlan: Some(9), ..Policy::default() }, Policy::default()]);
    let raw = registers(&card.vfs[0]);
    until("the host", || raw.read32(VFMAILBOX::AT) & VFMAILBOX::RSTI == 0);
    assert_eq!(ask(&raw, &[kind::GET_QUEUES]), kind::GET_QUEUES | FAILURE, "it has not begun");
    assert_eq!(ask(&raw, &[kind::RESET]), kind::RESET | SUCCESS);
    let mut seed = 7u32;
    for round in 0..600u32 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut words = [seed; WORDS];
        words[0] = (round % 0x12) | (seed & 0xFF_0000) | if round % 50 == 49 { 0x5000 } else { 0 };
        words[1] = if round % 3 == 0 { version::V1_3 } else { seed };
        let answer = ask(&raw, &words);
        assert_eq!(answer & KIND_MASK, words[0] & KIND_MASK);
        assert!((answer & SUCCESS != 0) != (answer & FAILURE != 0), "{answer:#x}");
    }
    // It keeps the buffer for ever, and rings all the same.
    raw.write32(VFMAILBOX::AT, VFMAILBOX::VFU);
    raw.write32(VFMAILBOX::AT, VFMAILBOX::VFU | VFMAILBOX::REQ | VFMAILBOX::ACK);
    let mut other = card.open_vf(1, &options());
    card.works_on(&mut other);
    let counted = card.host(|host| [host.counters(0), host.counters(1)]);
    assert!(counted[0].messages > 600 && counted[0].refused > 100, "{counted:?}");
    assert_eq!(counted[1].refused, 0);
    card.finish(vec![other], &[]);
}

#[test]
fn an_address_that_a_driver_chose_goes_with_its_reset() {
    let card = Card::open(&[Policy::default()]);
    let raw = registers(&card.vfs[0]);
    until("the host", || raw.read32(VFMAILBOX::AT) & VFMAILBOX::RSTI == 0);
    let address = || [1, 2].map(|word| raw.read32(VFMBMEM::at(word)));
    assert_eq!(ask(&raw, &[kind::RESET]), kind::RESET | SUCCESS);
    let first = address();
    let chosen = [0x0403_0202, 0x0605];
    let answer = ask(&raw, &[kind::SET_MAC_ADDR, chosen[0], chosen[1]]);
    assert_eq!(answer, kind::SET_MAC_ADDR | SUCCESS | CLEAR_TO_SEND);
    assert_eq!(card.host(|host| host.mac(0)), Some([2, 2, 3, 4, 5, 6]));
    assert_eq!(ask(&raw, &[kind::RESET]), kind::RESET | SUCCESS);
    assert_eq!(address(), first);
    card.finish(Vec::new(), &[]);
}

/// One chooses another address; that which it has again after its next reset is nobody's meanwhile.
#[test]
fn an_address_that_comes_back_is_not_given_to_another() {
    let card = Card::open(&[Policy::default(); 2]);
    let [one, other] = [0, 1].map(|n| registers(&card.vfs[n]));
    for raw in [&one, &other] {
        until("the host", || raw.read32(VFMAILBOX::AT) & VFMAILBOX::RSTI == 0);
        assert_eq!(ask(raw, &[kind::RESET]), kind::RESET | SUCCESS);
        assert_eq!(ask(raw, &[kind::API_NEGOTIATE, version::V1_3]) & SUCCESS, SUCCESS);
    }
    let first = card.host(|host| host.mac(0)).unwrap();
    let [a, b, c, d, e, f] = first;
    let words = [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, 0, 0])];
    let answer = ask(&one, &[kind::SET_MAC_ADDR, 0x0403_0202, 0x0605]);
    assert_eq!(answer & (SUCCESS | FAILURE), SUCCESS);
    for message in [kind::SET_MAC_ADDR, kind::SET_MACVLAN | 1 << INFO_SHIFT] {
        let answer = ask(&other, &[message, words[0], words[1]]);
        assert_eq!(answer & (SUCCESS | FAILURE), FAILURE, "{message:#x}");
    }
    assert_eq!(ask(&one, &[kind::RESET]), kind::RESET | SUCCESS);
    assert_eq!(card.host(|host| host.mac(0)), Some(first));
    assert_ne!(card.host(|host| host.mac(1)), Some(first));
    card.finish(Vec::new(), &[]);
}

/// What opening a virtual function says whose physical one answers by `answer_with`: the words for a message.
fn opened_by(
    asked: Options,
    answer_with: impl Fn(u32, &[u32; WORDS]) -> Option<Vec<u32>> + Sync,
) -> Result<(), Error> {
    let (pcis, handles) = models(1);
    let _stepper = spawn(&handles, None, Idle::Yield).unwrap();
    let pf = registers(&pcis[0]);
    pf.set32(CTRL_EXT::AT, CTRL_EXT::PFRSTD);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                if pf.read32(PFMBICR::at(0)) & 1 == 0 {
                    thread::yield_now();
                    continue;
                }
                pf.write32(PFMBICR::at(0), 1);
                let words: [u32; WORDS] = std::array::from_fn(|n| pf.read32(PFMBMEM::at(n)));
                let Some(answer) = answer_with(words[0] & KIND_MASK, &words) else { continue };
                pf.write32(PFMAILBOX::at(0), PFMAILBOX::PFU);
                answer.iter().enumerate().for_each(|(n, word)| pf.write32(PFMBMEM::at(n), *word));
                pf.write32(PFMAILBOX::at(0), PFMAILBOX::ACK | PFMAILBOX::STS);
            }
        });
        let opened = Ixgbevf::open(pcis[2].clone(), &Dma::new(Default::default()), asked).map(|_| ());
        ended.store(true, Ordering::Relaxed);
        opened
    })
}

/// An answer by the rules.
fn honest(kind: u32) -> Vec<u32> {
    let done = kind | SUCCESS | CLEAR_TO_SEND;
    match kind {
        kind::RESET => vec![kind | SUCCESS, 0x0403_0202, 0x0605, 0],
        kind::GET_QUEUES => {
            let mut words = vec![done, 0, 0, 0, 0];
            (words[queues::TX], words[queues::RX]) = (2, 2);
            words
        }
        _ => vec![done],
    }
}

#[test]
fn a_physical_function_that_lies_is_named() {
    let plain = || options();
    assert!(opened_by(plain(), |kind, _| Some(honest(kind))).is_ok());
    type BadAnswer = (fn(u32) -> Option<Vec<u32>>, fn(&VfFault) -> bool);
    let answers: [BadAnswer; 6] = [
        // Neither done nor refused.
        (|kind| Some(vec![kind]), |fault| matches!(fault, VfFault::Nonsense { message: "RESET", .. })),
        // Reset, and there is no address for it, as Linux's ixgbe says it.
        (
            |kind| Some(if kind == kind::RESET { vec![kind | FAILURE, 0, 0, 0] } else { honest(kind) }),
            |fault| matches!(fault, VfFault::NotOffered { what: "an address", .. }),
        ),
        // Another's answer, and none.
        (|_| Some(vec![0x55 | SUCCESS]), |fault| matches!(fault, VfFault::NoAnswer { message: "RESET", .. })),
        (|_| None, |fault| matches!(fault, VfFault::NoAnswer { message: "RESET", .. })),
        // No queues, and a word that it has to begin anew instead of an answer.
        (
            |kind| Some(if kind == kind::GET_QUEUES { vec![kind | SUCCESS, 0, 0] } else { honest(kind) }),
            |fault| matches!(fault, VfFault::Nonsense { message: "GET_QUEUES", .. }),
        ),
        (
            |kind| Some(if kind == kind::SET_LPE { vec![kind::PF_CONTROL_MSG] } else { honest(kind) }),
            |fault| matches!(fault, VfFault::Reset { .. }),
        ),
    ];
    for (n, (answer_with, named)) in answers.into_iter().enumerate() {
        let Err(Error::Vf(fault)) = opened_by(plain(), |kind, _| answer_with(kind)) else {
            panic!("answer_with {n}")
        };
        assert!(named(&fault), "answer_with {n}: {fault}");
    }
}

#[test]
fn one_that_speaks_an_old_version_gives_one_queue() {
    let old = |kind: u32, words: &[u32; WORDS]| {
        let refused = kind == kind::API_NEGOTIATE && words[1] != version::V1_0;
        Some(if refused { vec![kind | FAILURE | CLEAR_TO_SEND] } else { honest(kind) })
    };
    assert!(opened_by(options(), old).is_ok());
    let two = Options { rx_queues: 2, tx_queues: 2, ..options() };
    let silent = |kind: u32, _: &[u32; WORDS]| {
        let refused = kind == kind::GET_RETA;
        Some(if refused { vec![kind | FAILURE | CLEAR_TO_SEND] } else { honest(kind) })
    };
    let error = opened_by(two.clone(), silent).unwrap_err();
    assert!(error.to_string().contains("query_rss on"), "{error}");
    let error = opened_by(two, old).unwrap_err();
    assert!(matches!(error, Error::Vf(VfFault::FewQueues { has: 1, wanted: 2, .. })), "{error}");
}

/// Counts the writes of registers.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl Between for Counting {
    fn write_bar(&self, inner: &Pci, index: usize, offset: u32, data: &[u8]) -> bus::Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        inner.write_bar(index, offset, data)
    }
}

#[test]
fn a_physical_function_that_keeps_the_buffer_holds_up_nobody_who_asks_how_it_is() {
    let mut card = Card::open(&[Policy::default()]);
    let counting = Arc::new(Counting::default());
    card.vfs[0] = in_front_of(card.vfs[0].clone(), counting.clone());
    let vf = card.open_vf(0, &options());
    let pf = registers(&card.pcis[0]);
    card.host(|_| {
        until("the buffer", || {
            pf.write32(PFMAILBOX::at(0), PFMAILBOX::PFU);
            pf.read32(PFMAILBOX::at(0)) & PFMAILBOX::PFU != 0
        });
        pf.write32(PFMBMEM::at(0), kind::PF_CONTROL_MSG);
        pf.write32(PFMAILBOX::at(0), PFMAILBOX::PFU | PFMAILBOX::STS);
        let before = counting.0.load(Ordering::Relaxed);
        (0..10).for_each(|_| vf.device.health().unwrap());
        let written = counting.0.load(Ordering::Relaxed) - before;
        assert!((1..=20).contains(&written), "{written} writes");
        pf.write32(PFMAILBOX::at(0), 0);
    });
    // What it told is read once the buffer is free: that this one has to begin anew.
    until("the driver to be told", || vf.device.health().is_err());
    card.finish(vec![vf], &[]);
}

/// The physical function keeps the buffer: one message waits for it for long, later ones for a
/// millisecond, and what they ask is answered as soon as it is free.
#[test]
fn a_buffer_that_is_kept_is_waited_for_once_for_long() {
    let mut card = Card::open(&[Policy { trust: true, ..Policy::default() }]);
    let counting = Arc::new(Counting::default());
    card.vfs[0] = in_front_of(card.vfs[0].clone(), counting.clone());
    let mut vf = card.open_vf(0, &options());
    let pf = registers(&card.pcis[0]);
    let mut ask = |n| {
        let before = counting.0.load(Ordering::Relaxed);
        let answered = vf.device.add_mac([2, 9, 9, 9, 9, n]);
        (answered, counting.0.load(Ordering::Relaxed) - before)
    };
    card.host(|_| {
        until("the buffer", || {
            pf.write32(PFMAILBOX::at(0), PFMAILBOX::PFU);
            pf.read32(PFMAILBOX::at(0)) & PFMAILBOX::PFU != 0
        });
        let (first, tries) = ask(1);
        assert!(first.unwrap_err().to_string().contains("did not answer"));
        assert!(tries > 1, "it was waited for");
        let later = [2, 3, 4, 5].map(|n| {
            let (later, tries) = ask(n);
            assert!(later.is_err());
            tries
        });
        // One try each 50 us at most; a busy machine makes fewer.
        assert!(later.iter().all(|tries| (1..=21).contains(tries)), "{later:?}");
        assert!(later.iter().any(|tries| *tries > 1), "none waited at all");
        pf.write32(PFMAILBOX::at(0), 0);
    });
    ask(6).0.expect("it is sent and answered");
    card.works_on(&mut vf);
    card.finish(vec![vf], &[]);
}

/// The physical function answers a message after the driver has given up waiting, and resets the virtual
/// function later: it is told all the same.
#[test]
fn one_that_answered_too_late_tells_of_a_reset() {
    let mut card = Card::open(&[Policy { trust: true, ..Policy::default() }]);
    let mut vf = card.open_vf(0, &options());
    card.host(|_| {
        let error = vf.device.add_mac([2, 9, 9, 9, 9, 1]).unwrap_err();
        assert!(error.to_string().contains("did not answer"), "{error}");
    });
    vf.device.health().expect("nobody has reset it");
    let error = vf.device.add_mac([2, 9, 9, 9, 9, 2]).unwrap_err();
    assert!(error.to_string().contains("did not answer"), "the late answer is taken for none: {error}");
    card.host(|host| host.reset(0).unwrap());
    until("the driver to be told", || vf.device.health().is_err());
    card.finish(vec![vf], &[]);
}

/// Says that the link is down, once it is told to.
#[derive(Debug, Default)]
struct Unplugged(AtomicBool);

impl Between for Unplugged {
    fn read_bar(&self, inner: &Pci, index: usize, offset: u32, data: &mut [u8]) -> bus::Result<()> {
        inner.read_bar(index, offset, data)?;
        if offset == LINKS::AT && self.0.load(Ordering::Relaxed) {
            data.fill(0);
        }
        Ok(())
    }
}

#[test]
fn a_reset_is_told_though_the_link_goes_meanwhile() {
    let mut card = Card::open(&[Policy::default()]);
    let unplugged = Arc::new(Unplugged::default());
    let pci = in_front_of(card.pcis[0].clone(), unplugged.clone());
    card.polling = None;
    let host = Host::open(pci, &card.dma, Options::default(), &[Policy::default()]).unwrap();
    card.polling = Some(Polling::of(host));
    let vf = card.open_vf(0, &options());
    card.host(|host| {
        unplugged.0.store(true, Ordering::Relaxed);
        host.reset(0).unwrap();
    });
    until("the driver to be told", || vf.device.health().is_err());
    card.finish(vec![vf], &[]);
}
