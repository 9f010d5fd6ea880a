//! Transmitting: descriptors are gathered to packets (packet.rs), which get their checksums and tags,
//! are cut into segments and go out (datasheet 332464, chapter 8). What makes no sense is lost as a
//! whole and counted, and its queue stops until it is enabled anew. Tunnels and timestamps are
//! not modelled.

mod buffers;
mod emit;
mod packet;

use regs::Register;
use regs::i40e::descriptor::tx;
use regs::i40e::*;

use super::director::Director;
use super::hmc::{Hmc, Objects};
use super::host::{Counters, Host};
use super::lint::{Location, Rule};
use super::registers::Registers;
use super::ring::{Awaited, ContextRing, HandedRing, Shape};
use super::statistics::TX;
use crate::{Dma, Pages, Window};
use packet::{Packet, Taken};

/// Most descriptors of a queue in a step; and bytes of all queues, read and sent, after which no
/// further packet is begun.
const BURST: u32 = 64;
const BYTES: usize = 4 << 20;
/// The unit of a ring's base.
const BASE_UNIT: u64 = 128;

/// What a queue is enabled with: where contexts are, and the queue sets of the function's VSIs.
pub(super) struct Owner<'a> {
    pub hmc: &'a Hmc,
    pub registers: &'a Registers,
    pub sets: &'a [u16],
}

/// A transmit queue.
#[derive(Debug)]
pub(super) struct TxQueue<W> {
    pub ring: ContextRing<W>,
    packet: Packet,
    /// Its driver is taken for malicious.
    stopped: bool,
    /// It may program filters.
    programs: bool,
    /// Where the head is written to, if it is.
    head_at: Option<u64>,
    /// Descriptors since the last that asked for a report.
    unreported: u32,
    /// GLLAN_TXPRE_QDIS was told that the queue will be enabled, or disabled.
    pub announced: Option<bool>,
    /// What QINT_TQCTL says.
    pub cause: u32,
}

impl<W: Window> TxQueue<W> {
    fn new(n: u16, tail: Register) -> TxQueue<W> {
        TxQueue {
            ring: ContextRing::new(Location::Tx(n), tail.at(n.into())),
            packet: Packet::default(),
            stopped: false,
            programs: false,
            head_at: None,
            unreported: 0,
            announced: None,
            cause: 0,
        }
    }

    /// The queue was enabled: takes over its context. Whether it runs.
    pub fn enable<D: Dma<Window = W>, P: Pages>(
        &mut self,
        n: u16,
        Owner { hmc, registers, sets }: Owner<'_>,
        host: &mut Host<D, P>,
    ) -> bool {
        let place = Location::Tx(n);
        if host.counters.dma_off {
            host.counters.report(Rule::BusMasterOff, place, n.into());
            return false;
        }
        let Some(words) = hmc.context(Objects::tx(registers), n, &host.dma) else {
            host.counters.report(Rule::ContextUnreachable, place, n.into());
            return false;
        };
        let owner = registers.read(QTX_CTL::at(n.into()));
        self.check(&words, sets, owner & 3 == QTX_CTL::PFVF_Q_PF, owner, &mut host.counters);
        let head = registers.read(QTX_HEAD::at(n.into()));
        // The tail of what ran before does not count: drivers leave it where it was.
        self.ring.set_tail(head, host);
        self.start(n, words, head, host)
    }

    /// Reports what is wrong with a queue that is to be enabled, which should be of one of some queue
    /// sets and of the function that its register `owner` names.
    pub fn check(
        &mut self,
        words: &[u64],
        sets: &[u16],
        is_owned: bool,
        owner: u32,
        counters: &mut Counters,
    ) {
        let place = self.ring.place;
        let list = context::tx::RDYLIST.of(words);
        if !sets.iter().any(|set| list == u64::from(*set)) {
            counters.report(Rule::QueueSetWrong, place, list);
        }
        if !is_owned {
            counters.report(Rule::QueueOwnerUnset, place, owner.into());
        }
        if self.announced.take() != Some(true) {
            counters.report(Rule::TxEnableUnannounced, place, 0);
        }
    }

    /// Starts with a context, at a head, and with what the tail gives. Whether it runs.
    pub fn start<D: Dma<Window = W>, P: Pages>(
        &mut self,
        n: u16,
        words: [u64; context::tx::LEN / 8],
        head: u32,
        host: &mut Host<D, P>,
    ) -> bool {
        use context::tx::*;
        if host.counters.dma_off {
            host.counters.report(Rule::BusMasterOff, Location::Tx(n), n.into());
            return false;
        }
        (self.stopped, self.programs, self.unreported) = (false, FD_ENA.of(&words) != 0, 0);
        self.head_at = (HEAD_WB_ENA.of(&words) != 0).then(|| HEAD_WB_ADDR.of(&words));
        let iova = BASE.of(&words) * BASE_UNIT;
        self.ring.enable(Shape { iova, size: QLEN.of(&words), bytes: 16, head: head.into() }, host)
    }

    /// The queue was disabled, or the device reset.
    pub fn disable(&mut self, counters: &mut Counters) {
        if !self.packet.pieces.is_empty() {
            counters.drops.tx_disabled += 1;
            counters.tx_offered += 1;
        }
        self.packet = Packet::default();
        self.ring.disable();
    }

    /// Its ring, while it runs, as the queue of this number.
    pub fn handed(&self, queue: usize) -> Option<HandedRing> {
        self.ring.handed(queue, self.head_at)
    }

    /// Takes the next descriptors; how many packets were moved.
    fn step<D: Dma<Window = W>, P: Pages>(
        &mut self,
        host: &mut Host<D, P>,
        director: &mut Director,
        up: bool,
        budget: &mut usize,
        out: &mut impl FnMut(&mut Host<D, P>, &[u8]) -> bool,
    ) -> usize {
        self.ring.poll(host);
        if self.stopped {
            return 0;
        }
        if self.ring.given() > 0 && self.ring.awaited.take_if(|awaited| *awaited == Awaited::Start).is_some()
        {
            host.counters.report(Rule::TxTailBeforeEnable, self.ring.place, self.ring.tail().into());
        }
        let (place, mut moved) = (self.ring.place, 0);
        let (mut reported, mut unreported) = (false, false);
        for _ in 0..self.ring.given().min(BURST) {
            let Some((window, at)) = self.ring.next() else { break };
            let (address, command) = (window.load(at), window.load(at + 8));
            if !up && self.packet.is_sent(command) {
                break;
            }
            let (read, sent) = (self.packet.data.len(), host.counters.statistics.bytes[TX]);
            let taken = self.packet.take(host, place, address, command);
            *budget = budget.saturating_sub(self.packet.data.len() - read);
            if taken == Taken::Whole {
                self.packet.program(host, place, director, self.programs);
            }
            if taken != Taken::Part {
                self.stopped = self.packet.finish(host, place, out) || taken == Taken::Nonsense;
                *budget = budget.saturating_sub((host.counters.statistics.bytes[TX] - sent) as usize);
                moved += 1;
            }
            if self.stopped {
                host.counters.malicious = true;
                host.counters.interrupts.cause(PFINT_ICR0::MAL_DETECT);
                break;
            }
            self.ring.advance();
            // Others have something else where data has these bits.
            let data = command & tx::DTYPE_MASK == tx::DTYPE_DATA;
            self.unreported = self.unreported.saturating_add(1);
            if data && command & tx::RS != 0 {
                (reported, self.unreported) = (true, 0);
                self.report(host, at);
            }
            unreported = data && command & (tx::EOP | tx::RS) == tx::EOP;
            if *budget == 0 {
                break;
            }
        }
        self.tell(host, reported, unreported);
        moved
    }

    /// Tells the driver of what a step did, by the head and the interrupt: whether a descriptor was
    /// `reported`, and whether the last packet is `unreported` because no report of it was asked for.
    fn tell<D: Dma<Window = W>, P>(&mut self, host: &mut Host<D, P>, mut reported: bool, unreported: bool) {
        // A head is written, too, when the queue's interrupt is due and packets were sent for which
        // no report was asked: drivers rely on that.
        if unreported && self.head_at.is_some() && self.cause & QINT_TQCTL::CAUSE_ENA != 0 {
            reported = true;
            self.report(host, 0);
        }
        // A head is told without a report, too.
        if self.unreported + 1 >= self.ring.size() && self.head_at.is_none() {
            host.counters.report(Rule::ReportsTooRare, self.ring.place, self.unreported.into());
        }
        if reported && self.cause & QINT_TQCTL::CAUSE_ENA != 0 {
            let index = (self.cause & QINT_TQCTL::ITR_INDX_MASK) >> QINT_TQCTL::ITR_INDX_SHIFT;
            host.counters.interrupts.event((self.cause & QINT_TQCTL::MSIX_INDX_MASK) as usize, index);
        }
    }

    /// Tells the driver that the descriptor at `at` is done: there, or by the head.
    fn report<D: Dma<Window = W>, P>(&mut self, host: &mut Host<D, P>, at: usize) {
        match self.head_at {
            Some(address) => {
                if !host.dma.write(address, &self.ring.head.to_le_bytes()) {
                    host.counters.report(Rule::BufferUnmapped, self.ring.place, address);
                }
            }
            None => {
                if let Some((window, _)) = self.ring.next() {
                    window.store_release(at + 8, tx::DTYPE_DONE);
                }
            }
        }
    }
}

/// The transmit side.
#[derive(Debug)]
pub(super) struct Tx<W> {
    pub queues: Vec<TxQueue<W>>,
    /// Which of them is served first.
    next_queue: usize,
}

impl<W: Window> Tx<W> {
    /// So many queues, whose doorbells are `tail`.
    pub fn new(queues: u16, tail: Register) -> Tx<W> {
        Tx { queues: (0..queues).map(|n| TxQueue::new(n, tail)).collect(), next_queue: 0 }
    }

    /// Sends what the driver has given, within bounds; packets moved. With the link down, packets
    /// wait but those that only program filters. `out` tells whether a frame went to the wire.
    pub fn step<D, P>(
        &mut self,
        host: &mut Host<D, P>,
        director: &mut Director,
        up: bool,
        out: &mut impl FnMut(&mut Host<D, P>, &[u8]) -> bool,
    ) -> usize
    where
        D: Dma<Window = W>,
        P: Pages,
    {
        let (mut moved, mut budget) = (0, BYTES);
        // Round robin, from where the budget ended last time.
        let queues = self.queues.len();
        for n in (self.next_queue..queues).chain(0..self.next_queue) {
            let Some(queue) = self.queues.get_mut(n).filter(|queue| queue.ring.enabled) else { continue };
            moved += queue.step(host, director, up, &mut budget, out);
            if budget == 0 {
                self.next_queue = (n + 1) % queues;
                break;
            }
        }
        moved
    }
}
