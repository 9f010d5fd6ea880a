//! Our host of virtual functions where the card refuses what it is told: queues that do not stop, and
//! commands that the firmware does not carry out. That is the virtual function's alone, and once the card
//! does as it is told all works.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::between::{Between, in_front_of};
use crate::common::limit::until;
use crate::common::mailbox::Raw;
use crate::common::vf::{Card, options};
use bus::{DmaRange, Pci};
use driver::i40e::host::Policy;
use port::Port as _;
use regs::i40e::admin::{flag, opcode};
use regs::i40e::{PF_ATQBAH, PF_ATQBAL, PF_ATQT, QTX_ENA};
use regs::virtchnl::message::{QueuePair, Queues, Select};
use regs::virtchnl::{op, status};

/// Transmit queues do not stop while this is on.
#[derive(Debug, Default)]
struct Running(AtomicBool);

impl Between for Running {
    fn read_bar(&self, inner: &Pci, index: usize, offset: u32, data: &mut [u8]) -> bus::Result<()> {
        inner.read_bar(index, offset, data)?;
        let is_queue = (0..QTX_ENA::COUNT).any(|n| offset == QTX_ENA::at(n));
        if index == 0 && is_queue && self.0.load(Ordering::Relaxed) {
            data[0] |= QTX_ENA::QENA_STAT as u8;
        }
        Ok(())
    }
}

#[test]
fn a_queue_that_did_not_stop_runs_still() {
    let running = Arc::new(Running::default());
    let front = running.clone();
    let card = Card::with(["pair"; 2], &[Policy::default()], 0, |pci| in_front_of(pci, front));
    let rings = card.dma.alloc(8192).unwrap();
    let mut raw = Raw::open(&card.vfs[0], &card.dma);
    let vsi = raw.resources().vsi;
    let pair = |queue: u16| QueuePair {
        queue,
        tx_len: 64,
        tx_ring: rings.iova(0),
        rx_len: 64,
        rx_ring: rings.iova(4096),
        rx_buffer: 2048,
        rx_max: 1526,
        ..QueuePair::default()
    };
    let both = Queues { vsi, pairs: vec![pair(0), pair(1)] }.encode();
    let of = |rx, tx| Select { vsi, rx, tx }.encode();
    assert_eq!(raw.ask(op::CONFIG_VSI_QUEUES, &both).0, status::SUCCESS);
    assert_eq!(raw.ask(op::ENABLE_QUEUES, &of(3, 3)).0, status::SUCCESS);
    running.0.store(true, Ordering::Relaxed);
    for again in 0..3 {
        let (told, _) = raw.ask(op::DISABLE_QUEUES, &of(3, 3));
        assert_eq!(told, status::ERR_ADMIN_QUEUE_ERROR, "again {again}");
        assert_eq!(raw.ask(op::CONFIG_VSI_QUEUES, &both).0, status::ERR_PARAM, "it runs");
    }
    running.0.store(false, Ordering::Relaxed);
    // Those that receive were stopped beside them.
    assert_eq!(raw.ask(op::DISABLE_QUEUES, &of(0, 3)).0, status::SUCCESS);
    assert_eq!(raw.ask(op::CONFIG_VSI_QUEUES, &both).0, status::SUCCESS);
    drop((raw, rings));
    card.finish(Vec::new(), &[]);
}

/// A kind of commands, and what is changed in a word of their descriptors.
type Change = (u16, usize, u64);

/// Commands of some kind come to the firmware as others that it refuses, or answers as such.
#[derive(Debug, Default)]
struct Garbling {
    /// Memory that the card reaches: where it sees it, address, bytes.
    memory: Mutex<Vec<(u64, usize, usize)>>,
    /// Where it sees the ring of commands.
    ring: AtomicU64,
    change: Mutex<Option<Change>>,
    /// What is changed in the answers.
    answer: Mutex<Option<Change>>,
    changed: AtomicUsize,
}

impl Garbling {
    fn set(&self, change: Option<Change>) {
        *self.change.lock().unwrap() = change;
    }

    fn set_answer(&self, change: Option<Change>) {
        *self.answer.lock().unwrap() = change;
    }

    /// How many commands were changed.
    fn changed(&self) -> usize {
        self.changed.load(Ordering::Relaxed)
    }

    /// Words of the descriptor in front of a tail.
    fn words(&self, tail: u32) -> Option<[&AtomicU64; 4]> {
        /// Descriptors of the ring, and bytes of each.
        const RING: u32 = 32;
        const BYTES: u64 = 32;
        let at = self.ring.load(Ordering::Relaxed) + u64::from((tail + RING - 1) % RING) * BYTES;
        let memory = self.memory.lock().unwrap();
        let within = |(iova, _, len): &&(u64, usize, usize)| (*iova..iova + *len as u64).contains(&at);
        let (iova, address, _) = memory.iter().find(within)?;
        let first = address + (at - iova) as usize;
        // SAFETY: aligned, and in memory that the driver keeps mapped while it sends commands, of which it
        // waits for this one; driver and device access it as atomic words, too.
        Some([0, 8, 16, 24].map(|word| unsafe { &*((first + word) as *const AtomicU64) }))
    }

    fn garble(&self, change: Option<Change>, tail: u32) {
        let (Some((kind, word, bits)), Some(words)) = (change, self.words(tail)) else { return };
        if (words[0].load(Ordering::Acquire) >> 16) as u16 == kind {
            words[word].fetch_xor(bits, Ordering::AcqRel);
            self.changed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Between for Garbling {
    fn write_bar(&self, inner: &Pci, index: usize, offset: u32, data: &[u8]) -> bus::Result<()> {
        let value = data.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        match offset {
            PF_ATQBAL::AT => self.ring.store(value.into(), Ordering::Relaxed),
            PF_ATQBAH::AT => _ = self.ring.fetch_or(u64::from(value) << 32, Ordering::Relaxed),
            PF_ATQT::AT => self.garble(*self.change.lock().unwrap(), value),
            _ => {}
        }
        inner.write_bar(index, offset, data)?;
        if offset == PF_ATQT::AT {
            let answer = *self.answer.lock().unwrap();
            if let (Some(_), Some([first, ..])) = (answer, self.words(value)) {
                until("the answer", || first.load(Ordering::Acquire) as u16 & flag::DD != 0);
                self.garble(answer, value);
            }
        }
        Ok(())
    }

    fn map_dma(&self, inner: &Pci, range: &DmaRange<'_>) -> bus::Result<()> {
        self.memory.lock().unwrap().push((range.iova(), range.addr() as usize, range.len()));
        inner.map_dma(range)
    }

    fn unmap_dma(&self, inner: &Pci, iova: u64, len: usize) -> bus::Result<()> {
        self.memory.lock().unwrap().retain(|(at, ..)| *at != iova);
        inner.unmap_dma(iova, len)
    }
}

/// The bits of a descriptor's third word that hold the first 16 bits of the parameters, and the third.
const FIRST: u64 = 0xFFFF;
const THIRD: u64 = 0xFFFF << 32;

/// A card with a virtual function, with trust, whose firmware can be made to refuse.
fn garbled() -> (Card, Arc<Garbling>) {
    let garbling = Arc::new(Garbling::default());
    let (front, trusted) = (garbling.clone(), Policy { trust: true, ..Policy::default() });
    (Card::with(["pair"; 2], &[trusted], 0, |pci| in_front_of(pci, front)), garbling)
}

#[test]
fn a_vsi_that_is_not_removed_or_not_read_back_is_not_lost() {
    for change in [
        (opcode::DELETE_ELEMENT, 0, u64::from(opcode::DELETE_ELEMENT ^ opcode::GET_VERSION) << 16),
        (opcode::GET_VSI, 2, FIRST),
    ] {
        let (mut card, garbling) = garbled();
        garbling.set(Some(change));
        card.host(|host| host.reset(0)).unwrap();
        until("it to be tried again", || card.host(|host| host.counters(0).not_brought_up) > 1);
        garbling.set(None);
        let mut vf = card.open_vf(0, &options());
        card.works_on(&mut vf);
        card.finish(vec![vf], &["AdminArgumentInvalid"]);
    }
}

#[test]
fn a_mode_that_cannot_be_set_or_taken_back_is_refused() {
    let (mut card, garbling) = garbled();
    let mut vf = card.open_vf(0, &options());
    garbling.set(Some((opcode::SET_VSI_PROMISCUOUS, 2, THIRD)));
    let refused = vf.device.set_promiscuous(true).unwrap_err().to_string();
    assert!(refused.contains("CONFIG_PROMISCUOUS_MODE (14): ERR_ADMIN_QUEUE_ERROR"), "{refused}");
    assert_eq!(garbling.changed(), 2, "taken back as well");
    garbling.set(None);
    vf.device.set_promiscuous(true).unwrap();
    card.works_on(&mut vf);
    card.finish(vec![vf], &["AdminArgumentInvalid"]);
}

#[test]
fn an_answer_to_another_command_is_the_virtual_functions_alone_that_asked() {
    let (mut card, garbling) = garbled();
    let mut vf = card.open_vf(0, &options());
    let kind = opcode::SET_VSI_PROMISCUOUS;
    garbling.set_answer(Some((kind, 0, u64::from(kind ^ opcode::GET_VERSION) << 16)));
    let refused = vf.device.set_promiscuous(true).unwrap_err().to_string();
    assert!(refused.contains("CONFIG_PROMISCUOUS_MODE (14): ERR_ADMIN_QUEUE_ERROR"), "{refused}");
    garbling.set_answer(None);
    vf.device.set_promiscuous(true).expect("it is hosted still");
    card.works_on(&mut vf);
    card.finish(vec![vf], &[]);
}

#[test]
fn an_answer_that_tells_an_error_without_a_number_is_an_error() {
    let (mut card, garbling) = garbled();
    garbling.set_answer(Some((opcode::DELETE_ELEMENT, 0, flag::ERR.into())));
    card.host(|host| host.reset(0)).unwrap();
    until("it to be refused", || card.host(|host| host.counters(0).not_brought_up) > 0);
    garbling.set_answer(None);
    let mut vf = card.open_vf(0, &options());
    card.works_on(&mut vf);
    card.finish(vec![vf], &[]);
}
