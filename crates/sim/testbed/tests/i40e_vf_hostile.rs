//! Virtual functions whose driver means harm, against our host and our model: whatever they send, write
//! or leave out, the host answers within its bounds, counts what it refuses, and another virtual function
//! works on. The hostile driver is a mailbox by hand.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bus::{Bar, Pci};
use common::limit::{Limit, until};
use common::vf::{Card, expect, options, send, to};
use driver::i40e::host::{Policy, VF_QUEUES};
use memory::{Attachment, Dma, Region, TxOffload};
use port::Port as _;
use regs::i40e::admin::{BUFFER, Descriptor, flag, opcode};
use regs::i40e::reset_state;
use regs::iavf::*;
use regs::virtchnl::message::{
    Addresses, Classes, Promiscuous, QueuePair, Queues, Resources, Rss, Select, Vector, Vectors, Version,
    Vlans,
};
use regs::virtchnl::{op, status};
use testbed::ixgbe;

/// Descriptors of each ring.
const SIZE: u32 = 32;
/// Where the receive ring, the buffer of commands and those of events are.
const RECEIVE: usize = 4096;
const COMMAND: usize = 2 * 4096;
const EVENTS: usize = 3 * 4096;

/// A mailbox by hand.
struct Raw {
    bar: Bar,
    region: Region,
    next: u32,
    next_event: u32,
    _attachment: Attachment,
    _pci: Pci,
}

impl Raw {
    fn open(pci: &Pci, dma: &Dma) -> Raw {
        pci.set_bus_master(true).unwrap();
        let bar = pci.bar(0).unwrap();
        let attachment = dma.attach(pci).unwrap();
        until("the host", || bar.read32(VFGEN_RSTAT::AT) == reset_state::ACTIVE);
        let region = dma.alloc(EVENTS + SIZE as usize * BUFFER).unwrap();
        let mut raw = Raw { bar, region, next: 0, next_event: 0, _attachment: attachment, _pci: pci.clone() };
        raw.start();
        raw
    }

    /// Enables both queues, with all buffers lent but one.
    fn start(&mut self) {
        (self.next, self.next_event) = (0, 0);
        for n in 0..SIZE {
            let mut lent =
                Descriptor { flags: flag::BUF | flag::LB, datalen: BUFFER as u16, ..Descriptor::default() };
            lent.set_address(self.region.iova(EVENTS + n as usize * BUFFER));
            self.put(RECEIVE, n, &lent);
        }
        let (bar, region) = (&self.bar, &self.region);
        bar.write32(VF_ATQBAL1::AT, region.iova(0) as u32);
        bar.write32(VF_ATQBAH1::AT, (region.iova(0) >> 32) as u32);
        bar.write32(VF_ATQLEN1::AT, SIZE | VF_ATQLEN1::ENABLE);
        bar.write32(VF_ARQBAL1::AT, region.iova(RECEIVE) as u32);
        bar.write32(VF_ARQBAH1::AT, (region.iova(RECEIVE) >> 32) as u32);
        bar.write32(VF_ARQLEN1::AT, SIZE | VF_ARQLEN1::ENABLE);
        bar.write32(VF_ARQT1::AT, SIZE - 1);
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.region.len());
        // SAFETY: aligned and inside the region, which is mapped as long as `self`; the device accesses it
        // as atomic words, too.
        unsafe { self.region.ptr().add(at).cast().as_ref() }
    }

    fn put(&self, ring: usize, n: u32, descriptor: &Descriptor) {
        for (word, value) in descriptor.words().into_iter().enumerate() {
            self.word(ring + n as usize * 32 + 8 * word).store(value, Ordering::Release);
        }
    }

    fn get(&self, ring: usize, n: u32) -> Descriptor {
        let word = |word: usize| self.word(ring + n as usize * 32 + 8 * word).load(Ordering::Acquire);
        Descriptor::from_words([word(0), word(1), word(2), word(3)])
    }

    /// Sends a command as it is; the firmware's answer.
    fn command(&mut self, command: &Descriptor) -> u16 {
        self.put(0, self.next, command);
        let n = self.next;
        self.next = (n + 1) % SIZE;
        self.bar.write32(VF_ATQT1::AT, self.next);
        until("the firmware", || self.get(0, n).flags & flag::DD != 0);
        self.get(0, n).retval
    }

    /// Sends a message; the firmware's answer.
    fn tell(&mut self, kind: u32, bytes: &[u8]) -> u16 {
        let mut command = Descriptor::new(opcode::SEND_MSG_TO_PF);
        (command.cookie, command.datalen) = (kind.into(), bytes.len() as u16);
        command.flags = flag::SI;
        if !bytes.is_empty() {
            let large = if bytes.len() > 512 { flag::LB } else { 0 };
            command.flags |= flag::BUF | flag::RD | large;
            command.set_address(self.region.iova(COMMAND));
            for (at, eight) in (COMMAND..).step_by(8).zip(bytes.chunks(8)) {
                let mut word = [0; 8];
                word[..eight.len()].copy_from_slice(eight);
                self.word(at).store(u64::from_le_bytes(word), Ordering::Release);
            }
        }
        self.command(&command)
    }

    /// The next message that came: kind, status, bytes.
    fn take(&mut self) -> Option<(u32, i32, Vec<u8>)> {
        let n = self.next_event;
        let event = self.get(RECEIVE, n);
        if event.flags & flag::DD == 0 {
            return None;
        }
        let buffer = EVENTS + n as usize * BUFFER;
        let words = (0..usize::from(event.datalen).div_ceil(8)).map(|word| buffer + 8 * word);
        let bytes = words.flat_map(|at| self.word(at).load(Ordering::Acquire).to_le_bytes());
        let bytes = bytes.take(event.datalen.into()).collect();
        let mut lent =
            Descriptor { flags: flag::BUF | flag::LB, datalen: BUFFER as u16, ..Descriptor::default() };
        lent.set_address(self.region.iova(buffer));
        self.put(RECEIVE, n, &lent);
        self.bar.write32(VF_ARQT1::AT, n);
        self.next_event = (n + 1) % SIZE;
        Some((event.cookie as u32, (event.cookie >> 32) as i32, bytes))
    }

    /// Sends a message and waits for its answer.
    fn ask(&mut self, kind: u32, bytes: &[u8]) -> (i32, Vec<u8>) {
        assert_eq!(self.tell(kind, bytes), 0);
        let mut limit = Limit::time("an answer");
        loop {
            limit.check();
            match self.take() {
                Some((told, status, bytes)) if told == kind => return (status, bytes),
                Some((told, ..)) => assert_eq!(told, op::EVENT),
                None => thread::yield_now(),
            }
        }
    }

    fn resources(&mut self) -> Resources {
        assert_eq!(self.ask(op::VERSION, &Version { major: 1, minor: 1 }.encode()).0, status::SUCCESS);
        let (status, bytes) = self.ask(op::GET_VF_RESOURCES, &u32::MAX.to_le_bytes());
        assert_eq!(status, status::SUCCESS);
        Resources::decode(&bytes).unwrap()
    }
}

/// Frames go from one virtual function to the wire still.
fn works_on(card: &mut Card, vf: &mut common::vf::VfSide) {
    let frame = to(ixgbe::mac(1), vf.device.mac(), b"works on");
    send(&mut vf.tx[0], &mut card.pool, &frame, TxOffload::default());
    let (side, pool) = card.peer();
    assert_eq!(expect(&mut side.rx, pool, 1), [(0, frame)]);
}

#[test]
fn messages_that_make_no_sense_are_refused_by_name_and_counted() {
    let mut card = Card::open(&[Policy::default(); 2]);
    let mut honest = card.open_vf(1, &options());
    let mut raw = Raw::open(&card.vfs[0], &card.dma);
    // Before it knows what it has.
    assert_eq!(raw.ask(op::GET_STATS, &Select { vsi: 1, rx: 0, tx: 0 }.encode()).0, status::ERR_PARAM);
    let vsi = raw.resources().vsi;
    let mut refused = 1;
    let mut is = |raw: &mut Raw, kind: u32, bytes: &[u8], wanted: i32| {
        assert_eq!(raw.ask(kind, bytes).0, wanted, "{} {}", regs::virtchnl::name(kind), bytes.len());
        refused += u64::from(wanted != status::SUCCESS);
    };
    for kind in [0, 4, 5, 16, op::EVENT, 20, 29, 30, 99, u32::MAX] {
        is(&mut raw, kind, &[1, 2, 3, 4], status::ERR_NOT_SUPPORTED);
    }
    for (kind, _) in op::TABLE {
        // Of some kinds any length is good.
        let any = [op::RESET_VF, op::EVENT, op::GET_RSS_HENA_CAPS];
        let strips = [op::ENABLE_VLAN_STRIPPING, op::DISABLE_VLAN_STRIPPING];
        if any.contains(kind) || strips.contains(kind) {
            continue;
        }
        for len in [1, 7, 4096] {
            is(&mut raw, *kind, &vec![0xFF; len], status::ERR_OPCODE_MISMATCH);
        }
    }
    let pair = QueuePair {
        tx_len: 64,
        tx_ring: 1 << 20,
        rx_len: 64,
        rx_ring: 1 << 20,
        rx_buffer: 2048,
        rx_max: 1526,
        ..QueuePair::default()
    };
    let queues = |vsi: u16, pairs: Vec<QueuePair>| Queues { vsi, pairs }.encode();
    for bad in [
        queues(vsi + 1, vec![pair]),
        queues(0, vec![pair]),
        queues(vsi, vec![QueuePair { queue: VF_QUEUES as u16, ..pair }]),
        queues(vsi, vec![QueuePair { queue: u16::MAX, ..pair }]),
        queues(vsi, vec![pair; 9]),
        queues(vsi, vec![QueuePair { rx_len: 8192, ..pair }]),
        queues(vsi, vec![QueuePair { tx_len: 33, ..pair }]),
        queues(vsi, vec![QueuePair { rx_ring: 1, ..pair }]),
        queues(vsi, vec![QueuePair { tx_ring: 0, ..pair }]),
        queues(vsi, vec![QueuePair { rx_buffer: 0, ..pair }]),
        queues(vsi, vec![QueuePair { rx_max: 20_000, ..pair }]),
    ] {
        is(&mut raw, op::CONFIG_VSI_QUEUES, &bad, status::ERR_PARAM);
    }
    let vector = Vector { vector: 1, rx: 1, tx: 1, rx_itr: 0, tx_itr: 0 };
    for bad in
        [Vector { vector: 5, ..vector }, Vector { rx: 1 << 4, ..vector }, Vector { tx: 1 << 15, ..vector }]
    {
        is(&mut raw, op::CONFIG_IRQ_MAP, &Vectors { vsi, vectors: vec![bad] }.encode(), status::ERR_PARAM);
    }
    for (rx, tx) in [(1, 0), (0, 1), (u32::MAX, u32::MAX), (0, 0)] {
        is(&mut raw, op::ENABLE_QUEUES, &Select { vsi, rx, tx }.encode(), status::ERR_PARAM);
    }
    let addresses = |addresses: Vec<[u8; 6]>| Addresses { vsi, addresses }.encode();
    is(&mut raw, op::ADD_ETH_ADDR, &addresses(vec![[0; 6]]), status::ERR_PARAM);
    is(&mut raw, op::ADD_ETH_ADDR, &addresses(vec![[0xFF; 6]]), status::ERR_PARAM);
    let many = (0..200u8).map(|n| [2, 7, 7, 7, 7, n]).collect();
    is(&mut raw, op::ADD_ETH_ADDR, &addresses(many), status::ERR_NO_MEMORY);
    is(&mut raw, op::ADD_VLAN, &Vlans { vsi, vlans: vec![4096] }.encode(), status::ERR_PARAM);
    is(&mut raw, op::ADD_VLAN, &Vlans { vsi, vlans: (1..100).collect() }.encode(), status::ERR_NO_MEMORY);
    is(
        &mut raw,
        op::CONFIG_PROMISCUOUS_MODE,
        &Promiscuous { vsi, modes: 0xFFFF }.encode(),
        status::ERR_PARAM,
    );
    is(&mut raw, op::CONFIG_RSS_LUT, &Rss { vsi, bytes: vec![9; 64] }.encode(), status::ERR_PARAM);
    is(&mut raw, op::CONFIG_RSS_KEY, &Rss { vsi, bytes: vec![9; 400] }.encode(), status::ERR_PARAM);
    is(&mut raw, op::SET_RSS_HENA, &Classes(u64::MAX).encode(), status::ERR_PARAM);
    is(&mut raw, op::CONFIG_PROMISCUOUS_MODE, &Promiscuous { vsi, modes: 3 }.encode(), status::SUCCESS);
    let counters = card.host(|host| host.counters(0));
    assert_eq!((counters.refused, counters.not_trusted, counters.unsent), (refused, 1, 0));
    works_on(&mut card, &mut honest);
    drop(raw);
    card.finish(vec![honest], &[]);
}

#[test]
fn rings_outside_of_its_memory_do_not_start_and_nothing_else_is_touched() {
    let mut card = Card::open(&[Policy::default(); 2]);
    let mut honest = card.open_vf(1, &options());
    let mut raw = Raw::open(&card.vfs[0], &card.dma);
    let vsi = raw.resources().vsi;
    // It has descriptors where nothing is mapped: the queues run on nothing.
    let far = 0x7000_0000_0000;
    let pair = QueuePair {
        tx_len: 64,
        tx_ring: far,
        tx_head: Some(far + 4096),
        rx_len: 64,
        rx_ring: far,
        rx_buffer: 2048,
        rx_max: 1526,
        ..QueuePair::default()
    };
    assert_eq!(
        raw.ask(op::CONFIG_VSI_QUEUES, &Queues { vsi, pairs: vec![pair] }.encode()).0,
        status::SUCCESS
    );
    let select = Select { vsi, rx: 1, tx: 1 }.encode();
    let (status, _) = raw.ask(op::ENABLE_QUEUES, &select);
    assert!([status::SUCCESS, status::ERR_ADMIN_QUEUE_ERROR].contains(&status), "{status}");
    raw.bar.write32(QTX_TAIL1::at(0), 63);
    raw.bar.write32(QRX_TAIL1::at(0), 63);
    raw.bar.write32(QTX_TAIL1::at(1), u32::MAX);
    // What runs is not configured anew.
    let queues = Queues { vsi, pairs: vec![pair] }.encode();
    assert_eq!(raw.ask(op::CONFIG_VSI_QUEUES, &queues).0, status::ERR_PARAM);
    works_on(&mut card, &mut honest);
    assert_eq!(raw.ask(op::DISABLE_QUEUES, &select).0, status::SUCCESS);
    drop(raw);
    let findings = ["RingUnmapped", "TailOutOfRange"];
    card.finish(vec![honest], &findings);
}

#[test]
fn a_mailbox_that_floods_or_takes_nothing_is_bounded() {
    let mut card = Card::open(&[Policy::default(); 2]);
    let mut honest = card.open_vf(1, &options());
    let mut raw = Raw::open(&card.vfs[0], &card.dma);
    let vsi = raw.resources().vsi;
    let select = Select { vsi, rx: 0, tx: 0 }.encode();
    // Without a buffer for answers: they wait in the device up to its bound, and are lost then.
    raw.bar.write32(VF_ARQLEN1::AT, 0);
    let sent: usize = (0..200).filter(|_| raw.tell(op::GET_STATS, &select) == 0).count();
    until("all to be answered", || card.host(|host| host.counters(0).messages) >= 2 + sent as u64);
    let counters = card.host(|host| host.counters(0));
    assert!(counters.unsent as usize + 16 >= sent && sent > 16, "{counters:?} {sent}");
    works_on(&mut card, &mut honest);
    // Rings and buffers that are not there, commands that are none.
    let bad =
        Descriptor { flags: flag::BUF | flag::RD, datalen: 64, ..Descriptor::new(opcode::SEND_MSG_TO_PF) };
    assert_ne!(raw.command(&bad), 0, "its buffer is at zero");
    assert_ne!(raw.command(&Descriptor::new(opcode::UPDATE_VSI)), 0, "that is no command of its own");
    raw.bar.write32(VF_ATQT1::AT, 4000);
    raw.bar.write32(VF_ATQBAH1::AT, 0x7FFF);
    raw.bar.write32(VF_ATQT1::AT, 3);
    until("the firmware to stop the queue", || raw.bar.read32(VF_ATQLEN1::AT) & VF_ATQLEN1::CRIT != 0);
    works_on(&mut card, &mut honest);
    // A reset makes it good again.
    drop(raw);
    card.host(|host| host.reset(0)).unwrap();
    let mut raw = Raw::open(&card.vfs[0], &card.dma);
    assert_eq!(raw.resources().vsi, vsi);
    drop(raw);
    let rules = ["AdminBufferUnmapped", "AdminUnknownCommand", "AdminTailOutOfRange", "AdminRingUnmapped"];
    card.finish(vec![honest], &rules);
}
