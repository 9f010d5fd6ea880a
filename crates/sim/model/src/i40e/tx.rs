//! Transmitting: descriptors are gathered to packets, which get their checksums and tags, are
//! cut into segments and go out (datasheet 332464, chapter 8). What makes no sense is lost as a
//! whole and counted, and its queue stops until it is enabled anew. Tunnels and timestamps are
//! not modelled.

mod buffers;
mod emit;

use regs::Register;
use regs::i40e::descriptor::{MOST_TX_BUFFERS, SHORTEST_TX, tx, tx_context};
use regs::i40e::*;

use super::director::Director;
use super::hmc::{Hmc, Objects};
use super::host::{Counters, Host};
use super::lint::{Location, Rule};
use super::registers::Registers;
use super::ring::{Ring, Shape};
use super::statistics::TX;
use crate::ixgbe::lint::Rule as Misfit;
use crate::ixgbe::offload::{Headers, Transport};
use crate::{Dma, Pages, Window};
use buffers::most_buffers;
use emit::emit;

/// Most descriptors of a queue in a step; and bytes of all queues, read and sent, after which no
/// further packet is begun.
const BURST: u32 = 64;
const BYTES: usize = 4 << 20;
/// The unit of a ring's base.
const BASE_UNIT: u64 = 128;
/// The longest packet that is not cut.
const LONGEST: usize = super::link::MAX_FRAME as usize - 4;
/// The longest packet that is cut: 18 bits and the headers.
const LONGEST_CUT: usize = (1 << 18) + 512;
/// The most descriptors of a packet that is cut; one that has more is nonsense.
const MOST_DESCRIPTORS: usize = 1024;
/// Which flags of TCP the first segment, those in the middle and the last one keep.
const TCP_FLAGS: [u16; 3] = [0xFF6, 0xF76, 0xF7F];

/// What a queue is enabled with: where contexts are, and the queue sets of the function's VSIs.
pub(super) struct Owner<'a> {
    pub hmc: &'a Hmc,
    pub registers: &'a Registers,
    pub sets: &'a [u16],
}

/// A transmit queue.
#[derive(Debug)]
pub(super) struct TxQueue<W> {
    pub ring: Ring<W>,
    packet: Packet,
    /// Its driver is taken for malicious.
    stopped: bool,
    /// It may program filters.
    programs: bool,
    /// Where the head is written to, if it is.
    head_at: Option<u64>,
    /// GLLAN_TXPRE_QDIS was told that the queue will be enabled, or disabled.
    pub announced: Option<bool>,
    /// What QINT_TQCTL says.
    pub cause: u32,
}

/// A packet in the making.
#[derive(Debug, Default)]
struct Packet {
    data: Vec<u8>,
    /// Bytes of each of its buffers.
    pieces: Vec<usize>,
    /// Its first descriptor's second word.
    first: u64,
    /// The context that stands before it.
    context: Option<u64>,
    /// The descriptor before it that programs a filter.
    filter: Option<[u64; 2]>,
    loss: Option<Loss>,
}

/// What became of a packet with a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// More of it must come.
    Part,
    /// It is whole.
    Whole,
    /// The descriptor makes no sense.
    Nonsense,
}

/// Why a packet is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Descriptor,
    Dma,
}

impl<W: Window> TxQueue<W> {
    fn new(n: u16, tail: Register) -> TxQueue<W> {
        TxQueue {
            ring: Ring::new(Location::Tx(n), tail.at(n.into())),
            packet: Packet::default(),
            stopped: false,
            programs: false,
            head_at: None,
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
        self.start(n, words, registers.read(QTX_HEAD::at(n.into())), host)
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

    /// Starts with a context, at a head. Whether it runs.
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
        (self.stopped, self.programs) = (false, FD_ENA.of(&words) != 0);
        self.head_at = (HEAD_WB_ENA.of(&words) != 0).then(|| HEAD_WB_ADDR.of(&words));
        let iova = BASE.of(&words) * BASE_UNIT;
        // The tail of what ran before does not count: drivers leave it where it was.
        self.ring.set_tail(head, host);
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
            if data && command & tx::RS != 0 {
                reported = true;
                self.report(host, at);
            }
            unreported = data && command & (tx::EOP | tx::RS) == tx::EOP;
            if *budget == 0 {
                break;
            }
        }
        // A head is written, too, when the queue's interrupt is due and packets were sent for which
        // no report was asked: drivers rely on that.
        if unreported && self.head_at.is_some() && self.cause & QINT_TQCTL::CAUSE_ENA != 0 {
            reported = true;
            self.report(host, 0);
        }
        if reported && self.cause & QINT_TQCTL::CAUSE_ENA != 0 {
            let index = (self.cause & QINT_TQCTL::ITR_INDX_MASK) >> QINT_TQCTL::ITR_INDX_SHIFT;
            host.counters.interrupts.event((self.cause & QINT_TQCTL::MSIX_INDX_MASK) as usize, index);
        }
        moved
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

impl Packet {
    fn lose(&mut self, loss: Loss) {
        self.loss.get_or_insert(loss);
    }

    /// Which rule a descriptor breaks that the device does not take, whatever the packet.
    fn nonsense(&self, command: u64) -> Option<Rule> {
        let data = match command & tx::DTYPE_MASK {
            tx::DTYPE_CONTEXT if !self.pieces.is_empty() => return Some(Rule::ContextInsidePacket),
            tx::DTYPE_FILTER if !self.pieces.is_empty() => return Some(Rule::FilterInsidePacket),
            tx::DTYPE_CONTEXT | tx::DTYPE_FILTER => false,
            tx::DTYPE_DATA => true,
            _ => return Some(Rule::UnsupportedDescriptor),
        };
        if data && command & tx::RS != 0 && command & tx::EOP == 0 {
            return Some(Rule::ReportWithoutEnd);
        }
        (data && command & tx::SIZE_MASK == 0).then_some(Rule::ZeroLengthDescriptor)
    }

    /// Takes a descriptor.
    fn take<D: Dma, P>(
        &mut self,
        host: &mut Host<D, P>,
        place: Location,
        address: u64,
        command: u64,
    ) -> Taken {
        if let Some(rule) = self.nonsense(command) {
            host.counters.report(rule, place, command);
            self.lose(Loss::Descriptor);
            return Taken::Nonsense;
        }
        let kind = command & tx::DTYPE_MASK;
        if kind != tx::DTYPE_DATA {
            if let Some([low, _]) = self.filter.take() {
                host.counters.report(Rule::FilterWithoutPacket, place, low);
            }
            match kind {
                tx::DTYPE_FILTER => self.filter = Some([address, command]),
                _ => self.context = Some(command),
            }
            return Taken::Part;
        }
        let taken = if command & tx::EOP != 0 { Taken::Whole } else { Taken::Part };
        if self.pieces.is_empty() {
            self.first = command;
        }
        let len = ((command & tx::SIZE_MASK) >> tx::SIZE_SHIFT) as usize;
        let at = self.data.len();
        if self.pieces.len() >= MOST_DESCRIPTORS || at + len > LONGEST_CUT {
            self.lose(Loss::Descriptor);
            // One piece at least stays, so that the packet is known to be open.
            return taken;
        }
        self.pieces.push(len);
        if self.loss.is_none() {
            self.data.resize(at + len, 0);
            if !host.dma.read(address, &mut self.data[at..]) {
                host.counters.report(Rule::BufferUnmapped, place, address);
                self.lose(Loss::Dma);
            }
        }
        taken
    }

    /// A whole packet may program a filter.
    fn program<D, P>(&mut self, host: &mut Host<D, P>, place: Location, director: &mut Director, may: bool) {
        match self.filter.take() {
            Some(_) if self.loss.is_some() => {} // its fields are not known
            Some(words) => director.program(&mut host.counters, place, may, words, &self.data),
            None if self.is_dummy() => host.counters.report(Rule::DummyWithoutFilter, place, self.first),
            None => {}
        }
    }

    /// Whether a descriptor is data of a packet that is sent.
    fn is_sent(&self, command: u64) -> bool {
        let first = if self.pieces.is_empty() { command } else { self.first };
        command & tx::DTYPE_MASK == tx::DTYPE_DATA && first & tx::DUMMY == 0
    }

    /// Whether the packet is not sent.
    fn is_dummy(&self) -> bool {
        self.first & tx::DUMMY != 0
    }

    /// The last descriptor has come; whether the device takes the packet for malicious.
    fn finish<D, P>(
        &mut self,
        host: &mut Host<D, P>,
        place: Location,
        out: &mut impl FnMut(&mut Host<D, P>, &[u8]) -> bool,
    ) -> bool {
        let cut = self.context.filter(|context| context & tx_context::TSO != 0);
        let done = match (self.loss, cut) {
            (Some(loss), _) => Err((None, loss)),
            _ if self.is_dummy() => Ok(()),
            (None, Some(context)) => self.send_cut(host, place, context, out),
            (None, None) => self.send_whole(host, place, out),
        };
        let mut malicious = false;
        if let Err((rule, loss)) = done {
            if let Some(rule) = rule {
                malicious = rule != Rule::HeaderLengthsWrong;
                host.counters.report(rule, place, self.first);
            }
            host.counters.tx_offered += 1;
            match loss {
                Loss::Descriptor => host.counters.drops.tx_bad_descriptor += 1,
                Loss::Dma => host.counters.drops.tx_dma_fault += 1,
            }
        }
        let mut data = std::mem::take(&mut self.data);
        data.clear();
        // A packet of the largest size is rare: its memory is not kept for ever.
        data.shrink_to(2 * LONGEST);
        self.pieces.clear();
        *self = Packet { data, pieces: std::mem::take(&mut self.pieces), ..Packet::default() };
        malicious
    }

    /// Where the headers are, as the first descriptor has it.
    fn headers(&self, mss: usize) -> Headers {
        let length = |mask: u64, shift: u32, unit: usize| ((self.first & mask) >> shift) as usize * unit;
        let l3 = length(tx::MACLEN_MASK, tx::MACLEN_SHIFT, 2);
        Headers {
            l3,
            l4: l3 + length(tx::IPLEN_MASK, tx::IPLEN_SHIFT, 4),
            l4_len: length(tx::L4LEN_MASK, tx::L4LEN_SHIFT, 4),
            ipv4: matches!(self.first & tx::IIPT_MASK, tx::IIPT_IPV4 | tx::IIPT_IPV4_CSUM),
            transport: match self.first & tx::L4T_MASK {
                tx::L4T_TCP => Transport::Tcp,
                tx::L4T_SCTP => Transport::Sctp,
                _ => Transport::Udp,
            },
            mss,
        }
    }

    /// Reports headers that are not as the descriptor says.
    fn check<D, P>(
        &self,
        host: &mut Host<D, P>,
        place: Location,
        headers: &Headers,
        sums: (bool, bool),
        whole: bool,
    ) {
        let rule = match headers.misfit(&self.data, sums.0, sums.1, whole) {
            None => return,
            Some(Misfit::PseudoHeaderWrong) => Rule::PseudoHeaderWrong,
            Some(_) => Rule::HeaderLengthsWrong,
        };
        host.counters.report(rule, place, self.first);
    }

    fn send_whole<D, P>(
        &mut self,
        host: &mut Host<D, P>,
        place: Location,
        out: &mut impl FnMut(&mut Host<D, P>, &[u8]) -> bool,
    ) -> Result<(), (Option<Rule>, Loss)> {
        let wrong = |rule| Err((Some(rule), Loss::Descriptor));
        if !(SHORTEST_TX..=LONGEST).contains(&self.data.len()) {
            return wrong(Rule::TxLengthInvalid);
        }
        if self.pieces.len() > MOST_TX_BUFFERS {
            return wrong(Rule::TooManyBuffers);
        }
        let sums = (self.first & tx::IIPT_MASK == tx::IIPT_IPV4_CSUM, self.first & tx::L4T_MASK != 0);
        if sums.0 || sums.1 {
            let headers = self.headers(0);
            if sums.1 && headers.l4_len < headers.transport.header_len() {
                host.counters.report(Rule::TransportLengthWrong, place, self.first);
            }
            self.check(host, place, &headers, sums, true);
            if !headers.insert_checksums(&mut self.data, sums.0, sums.1) {
                return wrong(Rule::HeaderLengthsWrong);
            }
        }
        let mut frame = std::mem::take(&mut self.data);
        emit(host, self.first, &mut frame, out);
        self.data = frame;
        Ok(())
    }

    fn send_cut<D, P>(
        &mut self,
        host: &mut Host<D, P>,
        place: Location,
        context: u64,
        out: &mut impl FnMut(&mut Host<D, P>, &[u8]) -> bool,
    ) -> Result<(), (Option<Rule>, Loss)> {
        let wrong = |rule| Err((Some(rule), Loss::Descriptor));
        let mss = (context & tx_context::MSS_MASK) >> tx_context::MSS_SHIFT;
        let len = (context & tx_context::TSO_LEN_MASK) >> tx_context::TSO_LEN_SHIFT;
        let (least, most) = tx_context::MSS;
        if !(least..=most).contains(&mss) {
            return wrong(Rule::TsoInvalid);
        }
        let headers = self.headers(mss as usize);
        let Ok(cut) = headers.cut(self.data.len(), TCP_FLAGS) else { return wrong(Rule::HeaderLengthsWrong) };
        if cut.payload as u64 != len {
            return wrong(Rule::TsoInvalid);
        }
        if most_buffers(&self.pieces, cut.headers, headers.mss) > MOST_TX_BUFFERS {
            return wrong(Rule::TooManyBuffers);
        }
        self.check(host, place, &headers, (headers.ipv4, true), false);
        let mut frame = Vec::new();
        for n in 0..cut.segments() {
            cut.write(&self.data, n, &mut frame);
            emit(host, self.first, &mut frame, out);
        }
        Ok(())
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
