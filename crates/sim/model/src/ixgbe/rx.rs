//! Receiving: a frame from the wire is checked, filtered, given a queue and
//! written to the queue's buffers; if the queue has none it waits in the
//! packet buffer.
//!
//! 82599 datasheet rev. 3.4, section 7.1. Header split, receive coalescing and
//! Flow Director are not modelled.

use regs::ixgbe::descriptor::{rx_high, rx_low};

use super::fifo::Fifo;
use super::filter::{Filter, Pass};
use super::headers::{Headers, parse, plain, plain_kind};
use super::host::{Counters, Host};
use super::lint::Rule;
use super::registers::Registers;
use super::rss::Rss;
use super::rx_queue::RxQueue;
use super::statistics::{Counter, RxLoss};
use super::system_time::{Stamps, SystemTime};
use crate::{Dma, FrameError, MAX_FRAME, MIN_FRAME, Pages, Window, Wire};
use regs::ixgbe::*;
use wire::ethernet::{self, EtherType};
use wire::vlan;

/// Most frames taken from the wire, and from the packet buffer, in a step.
const BURST: usize = 64;
/// As many of the longest frames as the packet buffer surely holds.
const PATIENT_BURST: usize = 31;

/// What was decided about a frame when it came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Classified {
    pub queue: u16,
    /// The tag, for a queue that strips it.
    pub tag: Option<u16>,
    /// The write-back's first word.
    pub low: u64,
    /// Status, error and type bits of its second word.
    pub status: u64,
    /// The time that is put behind it.
    pub timestamp: Option<u64>,
}

/// Why no frame can be received now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
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
    pub closed: Option<Closed>,
    /// Longest frame without CRC and tag.
    longest: usize,
    /// Longest plain frame that needs no second look; 0 when all do.
    plain_limit: usize,
    /// Without RXCSUM.PCSD the hash is not delivered: all zero.
    hash_mask: u32,
    /// The first queue: of the function's own pool, where there are pools.
    first_queue: u16,
    /// Frames that get a timestamp.
    stamps: Option<Stamps>,
    pub now_ns: u64,
    scratch: Box<[u8]>,
}

impl<W: Window> Rx<W> {
    pub fn new(registers: &Registers) -> Rx<W> {
        Rx {
            queues: (0..RDT::COUNT).map(RxQueue::new).collect(),
            active: Vec::new(),
            fifo: Fifo::new(),
            filter: Filter::new(registers),
            rss: Rss::new(),
            closed: Some(Closed::Disabled),
            longest: 1514,
            plain_limit: 0,
            hash_mask: 0,
            first_queue: 0,
            stamps: None,
            now_ns: 0,
            scratch: vec![0; MAX_FRAME].into_boxed_slice(),
        }
    }

    /// Takes over the registers.
    pub fn configure(
        &mut self,
        registers: &Registers,
        link_up: bool,
        first_queue: u16,
        time: SystemTime,
        counters: &mut Counters,
    ) {
        self.first_queue = first_queue;
        self.stamps = time.stamps(registers);
        self.filter = Filter::new(registers);
        self.rss.configure(registers);
        if self.rss.enabled && self.rss.lacks_key() && registers.read(RXCTRL::AT) & RXCTRL::RXEN != 0 {
            counters.report(Rule::RssWithoutKey, super::lint::Register::of(MRQC::ID, 0), 0);
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
        self.closed = match (off, link_up || hlreg0 & HLREG0::LPBK != 0) {
            (true, _) => Some(Closed::Disabled),
            (false, false) => Some(Closed::LinkDown),
            (false, true) => None,
        };
        // A tag's type that is IPv4's would make nonsense of the fast path.
        let simple = self.closed.is_none()
            && !self.filter.steers()
            && self.filter.vlan_type != EtherType::IPV4.0
            && self.stamps.is_none();
        self.plain_limit = if simple { self.longest } else { 0 };
        for queue in &mut self.queues {
            queue.keep_crc(hlreg0 & HLREG0::RXCRCSTRP == 0);
        }
    }

    /// Moves what there is to move; returns how many frames reached the host or
    /// were lost. `wire` is `None` while the link is looped back.
    pub fn step<D, P, C>(&mut self, host: &mut Host<D, P>, wire: Option<&mut C>) -> usize
    where
        D: Dma<Window = W>,
        P: Pages,
        C: Wire,
    {
        let mut moved = 0;
        if !self.fifo.is_empty() && self.closed != Some(Closed::Disabled) {
            moved += self.drain(host);
        }
        if let Some(wire) = wire {
            let backpressure = wire.has_backpressure();
            let wanted = if backpressure { self.wanted(host) } else { BURST };
            if wanted > 0 {
                let mut scratch = std::mem::take(&mut self.scratch);
                let taken = wire.receive_burst(&mut scratch, wanted, &mut |frame, fault| {
                    self.arrive(host, frame, fault, backpressure);
                });
                self.scratch = scratch;
                host.counters.rx_offered += taken as u64;
                moved += taken;
            }
        }
        self.finish(host);
        moved
    }

    /// Writes back what is done; an idle queue shows its head.
    pub fn finish<D, P: Pages>(&mut self, host: &mut Host<D, P>) {
        for &n in &self.active {
            let queue = &mut self.queues[usize::from(n)];
            if queue.has_done() {
                queue.write_back(&mut host.counters);
                host.counters.interrupts.cause_rx(usize::from(n));
            } else {
                queue.idle(&host.pages);
            }
        }
    }

    /// How many frames a wire with backpressure should give.
    fn wanted<D, P: Pages>(&mut self, host: &mut Host<D, P>) -> usize {
        if self.closed.is_some() || !self.fifo.is_empty() {
            return 0;
        }
        let most = if self.longest > 2048 { PATIENT_BURST } else { BURST };
        if self.rss.enabled || self.filter.steers() || !self.queues[0].ring.enabled || self.first_queue != 0 {
            return most;
        }
        let queue = &mut self.queues[0];
        let at_hand = queue.ring.at_hand(most, host).min(most);
        queue.watch.starved |= at_hand == 0;
        at_hand
    }

    /// A frame from the wire. The caller counts it as offered.
    #[inline(always)]
    pub fn arrive<D, P>(&mut self, host: &mut Host<D, P>, frame: &[u8], fault: FrameError, backpressure: bool)
    where
        D: Dma<Window = W>,
        P: Pages,
    {
        if let Some(head) = frame.first_chunk::<MIN_FRAME>()
            && fault == FrameError::None
            && frame.len() <= self.plain_limit
            && self.filter.wants(head.first_chunk().expect("60 bytes hold 8"))
            && self.fifo.is_empty()
        {
            let status = plain(frame, head);
            let (mut low, mut n) = (plain_kind(head), self.first_queue);
            if self.rss.enabled {
                let (kind, hash, queue) = self.rss.spread_plain(head);
                low |= kind | u64::from(hash & self.hash_mask) << rx_low::HASH_SHIFT;
                n += u16::from(queue);
            }
            let queue = &mut self.queues[usize::from(n) & 127];
            if status != 0 && queue.takes_plain(frame.len()) && queue.ensure(host) {
                if status & (rx_high::IPE | rx_high::L4E) != 0 {
                    count_checksum_error(&mut host.counters);
                }
                return queue.put(host, low, status, frame);
            }
        }
        self.arrive_any(host, frame, fault, backpressure);
    }

    /// Takes any frame that comes from the wire.
    #[inline(never)]
    fn arrive_any<D, P>(&mut self, host: &mut Host<D, P>, frame: &[u8], fault: FrameError, backpressure: bool)
    where
        D: Dma<Window = W>,
        P: Pages,
    {
        let sound = fault == FrameError::None && self.closed.is_none();
        let sound = sound && (MIN_FRAME..=self.longest).contains(&frame.len());
        if !sound && self.refuse(&mut host.counters, frame, fault) {
            return;
        }
        if let Some(classified) = self.classify(&mut host.counters, frame) {
            self.store(host, frame, classified, backpressure);
        }
    }

    /// Puts a frame into its queue or into the packet buffer.
    fn store<D, P>(&mut self, host: &mut Host<D, P>, frame: &[u8], classified: Classified, backpressure: bool)
    where
        D: Dma<Window = W>,
        P: Pages,
    {
        if self.fifo.is_empty() && place(&mut self.queues, host, &classified, frame) {
            return;
        }
        if !self.fifo.push(classified, frame, backpressure) {
            host.counters.drops.rx_fifo_full += 1;
            host.counters.statistics.add_rx_loss(RxLoss::Missed { class: 0 }, 1, frame.len() as u64);
            host.counters.interrupts.cause_other(EICR::RX_MISS);
        }
    }

    /// Frames from the packet buffer, in order, until one finds no descriptor.
    #[cold]
    fn drain<D, P>(&mut self, host: &mut Host<D, P>) -> usize
    where
        D: Dma<Window = W>,
        P: Pages,
    {
        for moved in 0..BURST {
            let Some((classified, frame)) = self.fifo.front() else { return moved };
            if !place(&mut self.queues, host, &classified, frame) {
                return moved;
            }
            self.fifo.pop();
        }
        BURST
    }

    /// Address and VLAN filters, and the choice of a queue.
    fn classify(&mut self, counters: &mut Counters, frame: &[u8]) -> Option<Classified> {
        let pass = self.filter.address(frame.first_chunk()?);
        let headers = parse(frame, self.filter.vlan_type);
        let unwanted_vlan = !self.filter.vlan(&headers);
        if pass == Pass::No || unwanted_vlan {
            let lost = if pass == Pass::No {
                &mut counters.drops.rx_filtered_mac
            } else {
                &mut counters.drops.rx_filtered_vlan
            };
            *lost += 1;
            counters.statistics.add_rx_loss(RxLoss::Filtered, 1, frame.len() as u64);
            return None;
        }
        let mut classified = Classified {
            queue: self.first_queue,
            tag: headers.tag,
            low: headers.kind,
            status: headers.status,
            timestamp: self.stamps.and_then(|stamps| stamps.of(headers.tag, self.now_ns)),
        };
        if pass == Pass::Inexact {
            classified.status |= rx_high::PIF;
        }
        if self.rss.enabled
            && let Some(spread) = self.rss.spread(frame, &headers)
        {
            classified.queue += u16::from(spread.queue);
            classified.low |= spread.kind;
            classified.low |= u64::from(spread.hash & self.hash_mask) << rx_low::HASH_SHIFT;
        }
        if self.filter.steers() {
            self.steer(frame, &headers, &mut classified);
        }
        if headers.status & (rx_high::IPE | rx_high::L4E) != 0 {
            count_checksum_error(counters);
        }
        Some(classified)
    }

    #[cold]
    fn steer(&self, frame: &[u8], headers: &Headers, classified: &mut Classified) {
        if let Some(queue) = self.filter.queue(frame, headers) {
            classified.queue = u16::from(queue);
        }
        if let Some(number) = self.filter.ethertype(headers) {
            classified.low = classified.low & !(0xFFF << rx_low::PACKET_TYPE_SHIFT)
                | rx_low::PACKET_ETQF
                | u64::from(number) << rx_low::PACKET_TYPE_SHIFT;
        }
    }

    /// Names the reason why a frame is not received: `false` if there is none.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, counters: &mut Counters, frame: &[u8], fault: FrameError) -> bool {
        let drops = &mut counters.drops;
        match self.closed {
            Some(Closed::Disabled) => {
                drops.rx_disabled += 1;
                return true;
            }
            Some(Closed::LinkDown) => {
                drops.rx_link_down += 1;
                return true;
            }
            None => {}
        }
        let short = frame.len() < MIN_FRAME;
        let ethertype = ethernet::Header::of(frame).map(|header| header.ethertype().0);
        let tagged = ethertype == Some(self.filter.vlan_type);
        let long = frame.len() > self.longest + if tagged { vlan::HEADER_LEN } else { 0 };
        let damaged = fault != FrameError::None;
        let (lost, loss) = match (short, long, fault) {
            (true, ..) if damaged => (&mut drops.rx_undersize, RxLoss::Fragment),
            (true, ..) => (&mut drops.rx_undersize, RxLoss::Undersize),
            (_, true, _) if damaged => (&mut drops.rx_oversize, RxLoss::Jabber),
            (_, true, _) => (&mut drops.rx_oversize, RxLoss::Oversize),
            (.., FrameError::Crc) => (&mut drops.rx_crc, RxLoss::Crc),
            (.., FrameError::Symbol) => (&mut drops.rx_crc, RxLoss::Illegal),
            (.., FrameError::None) => return false,
        };
        *lost += 1;
        counters.statistics.add_rx_loss(loss, 1, frame.len() as u64);
        true
    }
}

#[cold]
fn count_checksum_error(counters: &mut Counters) {
    counters.statistics.add(Counter::XEC, 1);
}

/// Writes a frame to its queue; `false` when it has to wait.
fn place<D: Dma, P: Pages>(
    queues: &mut [RxQueue<D::Window>],
    host: &mut Host<D, P>,
    classified: &Classified,
    frame: &[u8],
) -> bool {
    let queue = &mut queues[usize::from(classified.queue) & 127];
    if !queue.is_simple(classified, frame.len()) {
        return queue.place_any(host, classified, frame);
    }
    if !queue.ensure(host) {
        return queue.starved(&mut host.counters, frame.len());
    }
    queue.put(host, classified.low, classified.status, frame);
    true
}
