//! Receiving: a frame from the wire is checked, filtered, given a queue and
//! written to the queue's buffers; if the queue has none it waits in the
//! packet buffer.
//!
//! 82599 datasheet rev. 3.4, section 7.1. Header split, receive coalescing and
//! Flow Director are not modelled.

use regs::ixgbe::descriptor::{rx_high, rx_low};

use super::books::Books;
use super::fifo::Fifo;
use super::filter::{Filter, Pass};
use super::headers::{Headers, parse, plain, plain_kind};
use super::lint::Rule;
use super::registers::Registers;
use super::rss::Rss;
use super::rx_queue::RxQueue;
use super::statistics::{Counter, RxLoss};
use crate::{Dma, Fault, MAX_FRAME, MIN_FRAME, Pages, Window, Wire};
use regs::ixgbe::*;

/// Most frames taken from the wire, and from the packet buffer, in a step.
const BURST: usize = 64;
/// As many of the longest frames as the packet buffer surely holds.
const PATIENT_BURST: usize = 31;

/// What was decided about a frame when it came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket {
    pub queue: u16,
    /// The tag, for a queue that strips it.
    pub tag: Option<u16>,
    /// The write-back's first word.
    pub low: u64,
    /// Verdicts and type bits of its second word.
    pub status: u64,
}

/// Why no frame can be received now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deaf {
    Disabled,
    LinkDown,
}

/// The receive side.
#[derive(Debug)]
pub(super) struct Rx<W> {
    pub queues: Vec<RxQueue<W>>,
    /// Queues that are enabled.
    pub active: Vec<u8>,
    pub fifo: Fifo,
    filter: Filter,
    pub rss: Rss,
    pub deaf: Option<Deaf>,
    /// Longest frame without CRC and tag.
    longest: usize,
    /// Longest plain frame that needs no second look; 0 when all do.
    short_way: usize,
    /// Without RXCSUM.PCSD the hash is not delivered: all zero.
    hash_mask: u32,
    scratch: Box<[u8]>,
}

/// The queues, the host and the books: all that placing a frame touches.
struct Placement<'a, D: Dma, P> {
    queues: &'a mut [RxQueue<D::Window>],
    dma: &'a D,
    pages: &'a P,
    books: &'a mut Books,
}

impl<W: Window> Rx<W> {
    pub fn new(registers: &Registers) -> Rx<W> {
        Rx {
            queues: (0..RDT::COUNT).map(RxQueue::new).collect(),
            active: Vec::new(),
            fifo: Fifo::new(),
            filter: Filter::new(registers),
            rss: Rss::new(),
            deaf: Some(Deaf::Disabled),
            longest: 1514,
            short_way: 0,
            hash_mask: 0,
            scratch: vec![0; MAX_FRAME].into_boxed_slice(),
        }
    }

    /// Takes over the registers.
    pub fn configure(&mut self, registers: &Registers, link_up: bool, books: &mut Books) {
        self.filter = Filter::new(registers);
        self.rss.configure(registers);
        if self.rss.enabled && self.rss.lacks_key() && registers.read(RXCTRL::AT) & RXCTRL::RXEN != 0 {
            books.report(Rule::RssWithoutKey, super::lint::Register::of(MRQC::ID, 0), 0);
        }
        let hlreg0 = registers.read(HLREG0::AT);
        let with_crc = match hlreg0 & HLREG0::JUMBOEN {
            0 => 1518,
            _ => (registers.read(MAXFRS::AT) >> MAXFRS::MFS_SHIFT) as usize,
        };
        self.longest = with_crc.clamp(MIN_FRAME + 4, MAX_FRAME) - 4;
        self.hash_mask = if registers.read(RXCSUM::AT) & RXCSUM::PCSD != 0 { u32::MAX } else { 0 };
        let buffer = |n| (registers.read(RXPBSIZE::at(n)) & RXPBSIZE::SIZE_MASK) as usize;
        self.fifo.limit = (0..RXPBSIZE::COUNT).map(buffer).sum();
        let off = registers.read(RXCTRL::AT) & RXCTRL::RXEN == 0
            || registers.read(SECRXCTRL::AT) & SECRXCTRL::RX_DIS != 0;
        self.deaf = match (off, link_up || hlreg0 & HLREG0::LPBK != 0) {
            (true, _) => Some(Deaf::Disabled),
            (false, false) => Some(Deaf::LinkDown),
            (false, true) => None,
        };
        // A tag's type that is IPv4's would make a nonsense of the short way.
        let simple = self.deaf.is_none() && !self.filter.steers() && self.filter.vlan_type != 0x0800;
        self.short_way = if simple { self.longest } else { 0 };
        for queue in &mut self.queues {
            queue.keep_crc(hlreg0 & HLREG0::RXCRCSTRP == 0);
        }
    }

    /// Moves what there is to move; returns how many frames reached the host or
    /// were lost. `wire` is `None` while the link is looped back.
    pub fn step<D, P, C>(&mut self, dma: &D, pages: &P, books: &mut Books, wire: Option<&mut C>) -> usize
    where
        D: Dma<Window = W>,
        P: Pages,
        C: Wire,
    {
        let mut moved = 0;
        if !self.fifo.is_empty() && self.deaf != Some(Deaf::Disabled) {
            moved += self.drain(dma, pages, books);
        }
        if let Some(wire) = wire {
            let patient = wire.is_patient();
            let wanted = if patient { self.appetite(pages, books) } else { BURST };
            if wanted > 0 {
                let mut scratch = std::mem::take(&mut self.scratch);
                let taken = wire.receive_burst(&mut scratch, wanted, &mut |frame, fault| {
                    self.arrive(dma, pages, books, frame, fault, patient);
                });
                self.scratch = scratch;
                books.rx_offered += taken as u64;
                moved += taken;
            }
        }
        self.finish(pages, books);
        moved
    }

    /// Writes back what is done; an idle queue shows its head.
    pub fn finish<P: Pages>(&mut self, pages: &P, books: &mut Books) {
        for &n in &self.active {
            let queue = &mut self.queues[usize::from(n)];
            if queue.has_done() {
                queue.write_back(books);
                books.interrupts.cause_rx(usize::from(n));
            } else {
                queue.idle(pages);
            }
        }
    }

    /// How many frames a patient wire should give.
    fn appetite<P: Pages>(&mut self, pages: &P, books: &mut Books) -> usize {
        if self.deaf.is_some() || !self.fifo.is_empty() {
            return 0;
        }
        let most = if self.longest > 2048 { PATIENT_BURST } else { BURST };
        if self.rss.enabled || self.filter.steers() || !self.queues[0].ring.enabled {
            return most;
        }
        let queue = &mut self.queues[0];
        let at_hand = queue.ring.at_hand(most, pages, books).min(most);
        queue.watch.starved |= at_hand == 0;
        at_hand
    }

    /// A frame from the wire. The caller counts it as offered.
    #[inline(always)]
    pub fn arrive<D, P>(
        &mut self,
        dma: &D,
        pages: &P,
        books: &mut Books,
        frame: &[u8],
        fault: Fault,
        patient: bool,
    ) where
        D: Dma<Window = W>,
        P: Pages,
    {
        if let Some(head) = frame.first_chunk::<MIN_FRAME>()
            && fault == Fault::None
            && frame.len() <= self.short_way
            && self.filter.wants(head.first_chunk().expect("60 bytes hold 8"))
            && self.fifo.is_empty()
        {
            let verdict = plain(frame, head);
            let (mut low, mut n) = (plain_kind(head), 0);
            if self.rss.enabled {
                let (kind, hash, queue) = self.rss.spread_plain(head);
                low |= kind | u64::from(hash & self.hash_mask) << rx_low::HASH_SHIFT;
                n = queue;
            }
            let queue = &mut self.queues[usize::from(n) & 127];
            if verdict != 0 && queue.takes_plain(frame.len()) && queue.ensure(pages, books) {
                if verdict & (rx_high::IPE | rx_high::L4E) != 0 {
                    count_checksum_error(books);
                }
                return queue.put(dma, books, low, verdict, frame);
            }
        }
        self.arrive_any(dma, pages, books, frame, fault, patient);
    }

    /// Any frame.
    #[inline(never)]
    fn arrive_any<D, P>(
        &mut self,
        dma: &D,
        pages: &P,
        books: &mut Books,
        frame: &[u8],
        fault: Fault,
        patient: bool,
    ) where
        D: Dma<Window = W>,
        P: Pages,
    {
        let sound = fault == Fault::None && self.deaf.is_none();
        let sound = sound && (MIN_FRAME..=self.longest).contains(&frame.len());
        if !sound && self.refuse(books, frame, fault) {
            return;
        }
        if let Some(ticket) = self.classify(books, frame) {
            self.seat(dma, pages, books, frame, ticket, patient);
        }
    }

    /// Puts a frame into its queue or into the packet buffer.
    fn seat<D, P>(
        &mut self,
        dma: &D,
        pages: &P,
        books: &mut Books,
        frame: &[u8],
        ticket: Ticket,
        patient: bool,
    ) where
        D: Dma<Window = W>,
        P: Pages,
    {
        if self.fifo.is_empty() {
            let mut placement = Placement { queues: &mut self.queues, dma, pages, books };
            if placement.place(&ticket, frame) {
                return;
            }
        }
        if !self.fifo.push(ticket, frame, patient) {
            books.drops.rx_fifo_full += 1;
            books.statistics.add_rx_loss(RxLoss::Missed { class: 0 }, 1, frame.len() as u64);
            books.interrupts.cause_other(EICR::RX_MISS);
        }
    }

    /// Frames from the packet buffer, in order, until one finds no descriptor.
    #[cold]
    fn drain<D, P>(&mut self, dma: &D, pages: &P, books: &mut Books) -> usize
    where
        D: Dma<Window = W>,
        P: Pages,
    {
        let mut placement = Placement { queues: &mut self.queues, dma, pages, books };
        for moved in 0..BURST {
            let Some((ticket, frame)) = self.fifo.front() else { return moved };
            if !placement.place(&ticket, frame) {
                return moved;
            }
            self.fifo.pop();
        }
        BURST
    }

    /// Address and VLAN filters, and the choice of a queue.
    fn classify(&mut self, books: &mut Books, frame: &[u8]) -> Option<Ticket> {
        let pass = self.filter.address(frame.first_chunk()?);
        let headers = parse(frame, self.filter.vlan_type);
        let unwanted_vlan = !self.filter.vlan(&headers);
        if pass == Pass::No || unwanted_vlan {
            let lost = if pass == Pass::No {
                &mut books.drops.rx_filtered_mac
            } else {
                &mut books.drops.rx_filtered_vlan
            };
            *lost += 1;
            books.statistics.add_rx_loss(RxLoss::Filtered, 1, frame.len() as u64);
            return None;
        }
        let mut ticket = Ticket { queue: 0, tag: headers.tag, low: headers.kind, status: headers.verdict };
        if pass == Pass::Inexact {
            ticket.status |= rx_high::PIF;
        }
        if self.rss.enabled
            && let Some(spread) = self.rss.spread(frame, &headers)
        {
            ticket.queue = u16::from(spread.queue);
            ticket.low |= spread.kind;
            ticket.low |= u64::from(spread.hash & self.hash_mask) << rx_low::HASH_SHIFT;
        }
        if self.filter.steers() {
            self.steer(frame, &headers, &mut ticket);
        }
        if headers.verdict & (rx_high::IPE | rx_high::L4E) != 0 {
            count_checksum_error(books);
        }
        Some(ticket)
    }

    #[cold]
    fn steer(&self, frame: &[u8], headers: &Headers, ticket: &mut Ticket) {
        if let Some(queue) = self.filter.queue(frame, headers) {
            ticket.queue = u16::from(queue);
        }
        if let Some(number) = self.filter.ethertype(headers) {
            ticket.low = ticket.low & !(0xFFF << rx_low::PACKET_TYPE_SHIFT)
                | rx_low::PACKET_ETQF
                | u64::from(number) << rx_low::PACKET_TYPE_SHIFT;
        }
    }

    /// Names the reason why a frame is not received: `false` if there is none.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, books: &mut Books, frame: &[u8], fault: Fault) -> bool {
        let drops = &mut books.drops;
        match self.deaf {
            Some(Deaf::Disabled) => {
                drops.rx_disabled += 1;
                return true;
            }
            Some(Deaf::LinkDown) => {
                drops.rx_link_down += 1;
                return true;
            }
            None => {}
        }
        let short = frame.len() < MIN_FRAME;
        let tagged = frame.get(12..14) == Some(&self.filter.vlan_type.to_be_bytes());
        let long = frame.len() > self.longest + if tagged { 4 } else { 0 };
        let damaged = fault != Fault::None;
        let (lost, loss) = match (short, long, fault) {
            (true, ..) if damaged => (&mut drops.rx_undersize, RxLoss::Fragment),
            (true, ..) => (&mut drops.rx_undersize, RxLoss::Undersize),
            (_, true, _) if damaged => (&mut drops.rx_oversize, RxLoss::Jabber),
            (_, true, _) => (&mut drops.rx_oversize, RxLoss::Oversize),
            (.., Fault::Crc) => (&mut drops.rx_crc, RxLoss::Crc),
            (.., Fault::Symbol) => (&mut drops.rx_crc, RxLoss::Illegal),
            (.., Fault::None) => return false,
        };
        *lost += 1;
        books.statistics.add_rx_loss(loss, 1, frame.len() as u64);
        true
    }
}

#[cold]
fn count_checksum_error(books: &mut Books) {
    books.statistics.add(Counter::XEC, 1);
}

impl<D: Dma, P: Pages> Placement<'_, D, P> {
    /// Writes a frame to its queue; `false` when it has to wait.
    fn place(&mut self, ticket: &Ticket, frame: &[u8]) -> bool {
        let queue = &mut self.queues[usize::from(ticket.queue) & 127];
        if !queue.is_simple(ticket, frame.len()) {
            return queue.place_any(self.dma, self.pages, self.books, ticket, frame);
        }
        if !queue.ensure(self.pages, self.books) {
            return queue.starved(self.books, frame.len());
        }
        queue.put(self.dma, self.books, ticket.low, ticket.status, frame);
        true
    }
}
