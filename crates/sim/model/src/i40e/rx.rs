//! Receiving: a frame from the wire is checked, filtered, given a queue and written to the
//! queue's buffers (datasheet 332464, chapter 8). Without a descriptor it is lost: there is
//! no packet buffer here. Header split is not modelled.

use regs::Register;
use regs::i40e::descriptor::{MOST_RX_BUFFERS, rx_extended, rx_high, rx_low, rx_program};
use regs::i40e::*;
use wire::ethernet::{ADDRESSES_LEN, EtherType};
use wire::vlan;

use super::director::{Director, Filter, Target};
use super::hmc::{Hmc, Objects};
use super::host::{Counters, Host};
use super::lint::{Location, Rule};
use super::registers::Registers;
use super::ring::{ContextRing, Shape};
use super::rss::{Rss, packet_type};
use super::sriov::Sriov;
use super::statistics::RX;
use super::switch::{Switch, Unwanted};
use crate::checksum::crc32;
use crate::headers::{Headers, parse};
use crate::rest::Rest;
use crate::{Dma, FrameError, MAX_FRAME, MIN_FRAME, Pages, Window, Wire};

/// Most frames taken from the wire in a step.
const BURST: usize = 64;
/// Bytes of a CRC.
const CRC: usize = 4;
/// The unit of a buffer's size, and the smallest buffer.
const BUFFER_UNIT: usize = 128;
const LEAST_BUFFER: usize = 1024;
/// The longest frame that a context may allow, and the shortest.
const LONGEST: usize = super::link::MAX_FRAME as usize;
const SHORTEST: usize = MIN_FRAME + CRC;

/// Reports bytes of a buffer and of the longest frame, CRC included, that receive queue `n` cannot have;
/// whether it can run.
pub(super) fn check_sizes(n: u16, buffer: usize, longest: usize, counters: &mut Counters) -> bool {
    if buffer < LEAST_BUFFER {
        counters.report(Rule::BufferSizeInvalid, Location::Rx(n), buffer as u64);
        return false;
    }
    let most = LONGEST.min(MOST_RX_BUFFERS.saturating_mul(buffer));
    if !(SHORTEST..=most).contains(&longest) {
        counters.report(Rule::RxMaxInvalid, Location::Rx(n), longest as u64);
    }
    true
}

/// A receive queue.
#[derive(Debug)]
pub(super) struct RxQueue<W> {
    pub ring: ContextRing<W>,
    /// Bytes of a buffer.
    buffer: usize,
    /// The longest frame, CRC included.
    longest: usize,
    strips_crc: bool,
    /// The stripped tag stands in the first word.
    tag_in_first: bool,
    /// It received something in this step.
    touched: bool,
    /// A frame found no descriptor in this step.
    starved: bool,
    /// How long its tail has rested.
    rest: Rest,
    /// What QINT_RQCTL says.
    pub cause: u32,
}

impl<W: Window> RxQueue<W> {
    fn new(n: u16, tail: Register) -> RxQueue<W> {
        RxQueue {
            ring: ContextRing::new(Location::Rx(n), tail.at(n.into())),
            buffer: 0,
            longest: 0,
            strips_crc: true,
            tag_in_first: true,
            touched: false,
            starved: false,
            rest: Rest::default(),
            cause: 0,
        }
    }

    /// The queue was enabled: takes over its context. Whether it runs.
    pub fn enable<D: Dma<Window = W>, P: Pages>(
        &mut self,
        n: u16,
        hmc: &Hmc,
        registers: &Registers,
        host: &mut Host<D, P>,
    ) -> bool {
        if host.counters.dma_off {
            host.counters.report(Rule::BusMasterOff, Location::Rx(n), n.into());
            return false;
        }
        let Some(words) = hmc.context(Objects::rx(registers), n, &host.dma) else {
            host.counters.report(Rule::ContextUnreachable, Location::Rx(n), n.into());
            return false;
        };
        self.start(n, words, host)
    }

    /// Starts with a context. Whether it runs.
    pub fn start<D: Dma<Window = W>, P: Pages>(
        &mut self,
        n: u16,
        words: [u64; context::rx::LEN / 8],
        host: &mut Host<D, P>,
    ) -> bool {
        use context::rx::*;
        self.buffer = DBUFF.of(&words) as usize * BUFFER_UNIT;
        self.longest = RXMAX.of(&words) as usize;
        if !check_sizes(n, self.buffer, self.longest, &mut host.counters) {
            return false;
        }
        if SHOWIV.of(&words) != 0 {
            host.counters.report(Rule::InnerTagStripped, Location::Rx(n), 1);
        }
        self.strips_crc = CRCSTRIP.of(&words) != 0;
        self.tag_in_first = L2TSEL.of(&words) != 0;
        let bytes = if DSIZE.of(&words) != 0 { 32 } else { 16 };
        let iova = BASE.of(&words) * BUFFER_UNIT as u64;
        self.ring.enable(Shape { iova, size: QLEN.of(&words), bytes, head: HEAD.of(&words) }, host)
    }
}

/// The receive side.
#[derive(Debug)]
pub(super) struct Rx<W> {
    pub queues: Vec<RxQueue<W>>,
    pub rss: Rss,
    /// Queues of the VSI: the first, and how many.
    vsi: (u16, u16),
    /// Queues that the function's own table of the hash may name; `None` where the table is another's.
    own_table: Option<u16>,
    strips: bool,
    /// A frame as it is written, when that is not as it came.
    changed: Vec<u8>,
    scratch: Box<[u8]>,
}

impl<W: Window> Rx<W> {
    /// So many queues of a chip of this family, whose doorbells are `tail`.
    pub fn new(family: Family, queues: u16, tail: Register) -> Rx<W> {
        Rx {
            queues: (0..queues).map(|n| RxQueue::new(n, tail)).collect(),
            rss: Rss::new(family),
            vsi: (0, 1),
            own_table: None,
            strips: false,
            changed: Vec::new(),
            scratch: vec![0; MAX_FRAME].into_boxed_slice(),
        }
    }

    /// Takes over registers and the VSI's properties.
    pub fn configure(&mut self, registers: &Registers, switch: &Switch) {
        self.rss.configure(registers, switch);
        (self.vsi, self.strips) = (switch.queues(), switch.strips());
        // Frames are of traffic class 0 here, and entries for a larger class are not wrong.
        self.own_table = Some(switch.most_queues());
    }

    /// Tells of filters that were not added or removed, on the function's first queue. What finds
    /// no descriptor there is lost.
    pub fn tell<D: Dma<Window = W>, P: Pages>(&mut self, host: &mut Host<D, P>, director: &mut Director) {
        if director.statuses.is_empty() {
            return;
        }
        let queue = &mut self.queues[0];
        if !queue.ring.enabled {
            director.untold += director.statuses.drain(..).count() as u64;
            return;
        }
        queue.ring.poll(host);
        for status in director.statuses.drain(..) {
            let words =
                [u64::from(status.id) << rx_program::FD_ID_SHIFT, rx_program::PROGID_FD | status.error];
            director.untold += u64::from(!queue.tell(words));
        }
        queue.interrupt(host);
    }

    /// Takes over what a virtual function's VSI has: so many queues, and whether tags are stripped.
    pub fn set_vsi(&mut self, queues: u16, strips: bool) {
        (self.vsi, self.strips) = ((0, queues.max(1)), strips);
    }

    /// Moves frames from the wire to the host; how many came.
    pub fn step<D, P, C>(
        &mut self,
        host: &mut Host<D, P>,
        director: &mut Director,
        (switch, sriov): (&Switch, &mut Option<Sriov>),
        up: bool,
        longest: usize,
        wire: &mut C,
    ) -> usize
    where
        D: Dma<Window = W>,
        P: Pages,
        C: Wire,
    {
        let mut room = usize::MAX;
        let mut enabled = 0;
        for queue in self.queues.iter_mut().filter(|queue| queue.ring.enabled) {
            queue.ring.poll(host);
            enabled += 1;
            // The function may host virtual ones alone and receive nothing: they do not wait for it.
            if sriov.is_some() && !queue.ring.was_given() {
                continue;
            }
            room = room.min(queue.ring.given() as usize / MOST_RX_BUFFERS);
        }
        // Sources with backpressure wait for descriptors and for filters; other frames are lost.
        // Virtual functions have filters of their own.
        let receives = up && enabled > 0 && (sriov.is_some() || switch.receives());
        let wanted = match wire.has_backpressure() {
            true if !receives => 0,
            true => BURST.min(room),
            false => BURST,
        };
        if wanted == 0 {
            return 0;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let taken = wire.receive_burst(&mut scratch, wanted, &mut |frame, fault| {
            host.counters.rx_offered += 1;
            if up {
                self.arrive(host, director, (switch, sriov), longest, frame, fault);
            } else {
                host.counters.drops.rx_link_down += 1;
            }
        });
        self.scratch = scratch;
        self.raise(host);
        taken
    }

    /// Looks at queues for which frames found no descriptor: whether the driver has filled some and
    /// does not tell.
    pub fn watch<D: Dma<Window = W>, P>(&mut self, host: &mut Host<D, P>, now_ns: u64) {
        for queue in self.queues.iter_mut().filter(|queue| queue.starved || queue.rest.has_begun()) {
            let starved = std::mem::take(&mut queue.starved);
            let Some(behind) = queue.ring.behind_tail() else {
                queue.rest.end();
                continue;
            };
            // Drivers fill some before they tell, and may be left without buffers then: not half a ring.
            let filled = || {
                let is_filled = |[address, status]: &[u64; 2]| status & rx_high::DD == 0 && *address != 0;
                behind.iter().all(is_filled) && host.dma.read(behind[0][0], &mut [0])
            };
            let tail = queue.ring.tail();
            if queue.rest.is_too_long(tail, starved, now_ns, filled) {
                host.counters.report(Rule::RxTailRests, queue.ring.place, tail.into());
            }
        }
    }

    /// The interrupts of the queues that received something.
    pub fn raise<D, P>(&mut self, host: &mut Host<D, P>) {
        for queue in &mut self.queues {
            queue.interrupt(host);
        }
    }

    /// A frame came: it is delivered, or lost and counted.
    fn arrive<D, P>(
        &mut self,
        host: &mut Host<D, P>,
        director: &mut Director,
        (switch, sriov): (&Switch, &mut Option<Sriov>),
        longest: usize,
        frame: &[u8],
        fault: FrameError,
    ) where
        D: Dma<Window = W>,
        P: Pages,
    {
        let (drops, statistics) = (&mut host.counters.drops, &mut host.counters.statistics);
        let (lost, counted) = match fault {
            FrameError::Crc => (&mut drops.rx_crc, &mut statistics.crc),
            FrameError::Symbol => (&mut drops.rx_crc, &mut statistics.illegal),
            FrameError::None if frame.len() < MIN_FRAME => (&mut drops.rx_undersize, &mut statistics.short),
            FrameError::None if frame.len() + CRC > longest => (&mut drops.rx_oversize, &mut statistics.long),
            FrameError::None => {
                statistics.frame(RX, frame);
                let taken = sriov.as_mut().is_some_and(|sriov| sriov.offer(frame, None).any);
                return match self.deliver(host, director, switch, frame, false) {
                    Ok(()) => {}
                    Err(_) if taken => host.counters.rx_for_vfs += 1,
                    Err(Unwanted::Address) => host.counters.drops.rx_filtered_mac += 1,
                    Err(Unwanted::Vlan) => host.counters.drops.rx_filtered_vlan += 1,
                };
            }
        };
        *lost += 1;
        *counted += 1;
    }

    /// A good frame, of the wire or of another VSI: filters, queue, buffers. An error for one that
    /// the VSI does not want.
    pub fn deliver<D, P>(
        &mut self,
        host: &mut Host<D, P>,
        director: &mut Director,
        switch: &Switch,
        frame: &[u8],
        local: bool,
    ) -> Result<(), Unwanted>
    where
        D: Dma<Window = W>,
        P: Pages,
    {
        let headers = parse(frame, 1, |ethertype| ethertype == EtherType::VLAN);
        let kept = if local { None } else { host.counters.keep_time(frame, &headers) };
        switch.accept(frame, headers.tag, local)?;
        self.take(host, director, frame, &headers, kept);
        Ok(())
    }

    /// A frame that the VSI receives: queue, buffers. Its time may be kept in a place.
    pub fn take<D, P>(
        &mut self,
        host: &mut Host<D, P>,
        director: &mut Director,
        frame: &[u8],
        headers: &Headers,
        kept: Option<usize>,
    ) where
        D: Dma<Window = W>,
        P: Pages,
    {
        let counters = &mut host.counters;
        counters.statistics.of_vsi(RX, frame);
        let hash = self.rss.hash(frame, headers);
        let filter = director.find(frame, headers);
        let entry = match filter.map(|filter| filter.target) {
            Some(Target::Nowhere) => return counters.drops.rx_filtered_flow += 1,
            Some(Target::Queue(queue)) => queue,
            Some(Target::Elsewhere) | None => {
                let entry = hash.map_or(0, |hash| self.rss.queue(hash));
                if self.own_table.is_some_and(|queues| entry >= queues) {
                    let place = Location::Register(PFQF_HLUT::ID, 0);
                    counters.report(Rule::RssQueueInvalid, place, entry.into());
                }
                entry & (self.vsi.1 - 1)
            }
        };
        let n = usize::from(self.vsi.0.wrapping_add(entry));
        let Some(queue) = self.queues.get_mut(n).filter(|queue| queue.ring.enabled) else {
            return counters.drops.rx_queue_disabled += 1;
        };
        if frame.len() + CRC > queue.longest {
            counters.drops.rx_oversize += 1;
            return counters.statistics.oversize += 1;
        }
        if hash.is_some() && self.vsi.1 > 1 && self.rss.lacks_key() {
            counters.report(Rule::RssWithoutKey, Location::Register(PFQF_HKEY::ID, 0), 0);
        }
        let tag = headers.tag.filter(|_| self.strips && queue.tag_in_first);
        let mut bytes = frame;
        if tag.is_some() || !queue.strips_crc {
            self.changed.clear();
            let rest = if tag.is_some() { ADDRESSES_LEN + vlan::HEADER_LEN } else { ADDRESSES_LEN };
            self.changed.extend_from_slice(&frame[..ADDRESSES_LEN]);
            self.changed.extend_from_slice(&frame[rest..]);
            if !queue.strips_crc {
                self.changed.extend_from_slice(&crc32(frame).to_le_bytes());
            }
            bytes = &self.changed;
        }
        let [low, mut high] = words(frame, headers, hash, tag, queue.strips_crc);
        if let Some(place) = kept {
            high |= rx_high::TSYNVALID | (place as u64) << rx_high::TSYNINDX_SHIFT;
        }
        queue.write(host, bytes, queue.with_filter([low, high], filter));
    }
}

/// The write-back's words, without what depends on the buffer.
fn words(frame: &[u8], headers: &Headers, hash: Option<u32>, tag: Option<u16>, strips_crc: bool) -> [u64; 2] {
    let low = hash.map_or(0, |hash| u64::from(hash) << rx_low::HASH_SHIFT)
        | tag.map_or(0, |tag| u64::from(tag) << rx_low::L2TAG1_SHIFT);
    let (ip, l4) = (headers.ip_checksum, headers.l4_checksum);
    let mut high = u64::from(packet_type(frame, headers)) << rx_high::PTYPE_SHIFT;
    for (set, bit) in [
        (hash.is_some(), rx_high::FLTSTAT_RSS),
        (tag.is_some(), rx_high::L2TAG1P),
        (!strips_crc, rx_high::CRCP),
        (ip.is_some() || l4.is_some(), rx_high::L3L4P),
        (ip == Some(false), rx_high::IPE),
        (l4 == Some(false), rx_high::L4E),
    ] {
        high |= if set { bit } else { 0 };
    }
    [low, high]
}

impl<W: Window> RxQueue<W> {
    /// An interrupt, if it received something in this step.
    fn interrupt<D, P>(&mut self, host: &mut Host<D, P>) {
        if std::mem::take(&mut self.touched) && self.cause & QINT_RQCTL::CAUSE_ENA != 0 {
            let index = (self.cause & QINT_RQCTL::ITR_INDX_MASK) >> QINT_RQCTL::ITR_INDX_SHIFT;
            host.counters.interrupts.event((self.cause & QINT_RQCTL::MSIX_INDX_MASK) as usize, index);
        }
    }

    /// Uses a descriptor to tell something that is no frame; whether there was one.
    fn tell(&mut self, [low, high]: [u64; 2]) -> bool {
        let Some((window, at)) = self.ring.next().filter(|_| self.ring.given() > 0) else { return false };
        window.store(at, low);
        window.store_release(at + 8, high | rx_high::DD | rx_high::PROGRAM);
        self.ring.advance();
        self.touched = true;
        true
    }

    /// The write-back with what it tells of a filter: descriptors of 16 bytes have one place for
    /// the hash and for the filter's own number.
    fn with_filter(&self, [mut low, mut high]: [u64; 2], filter: Option<Filter>) -> [u64; 4] {
        let Some(filter) = filter else { return [low, high, 0, 0] };
        high |= rx_high::FLM;
        if !filter.tells_id {
            return [low, high, 0, 0];
        }
        if self.ring.is_long() {
            let id = u64::from(filter.id) << rx_extended::FD_ID_SHIFT;
            return [low, high, rx_extended::FLEXBH_FD_ID, id];
        }
        low = low & !(u64::MAX << rx_low::HASH_SHIFT) | u64::from(filter.id) << rx_low::HASH_SHIFT;
        high = high & !rx_high::FLTSTAT_MASK | rx_high::FLTSTAT_FD_ID;
        [low, high, 0, 0]
    }

    /// Writes a frame to the next buffers, and their descriptors.
    fn write<D: Dma<Window = W>, P>(&mut self, host: &mut Host<D, P>, bytes: &[u8], words: [u64; 4]) {
        let buffers = bytes.len().div_ceil(self.buffer);
        if buffers > MOST_RX_BUFFERS {
            return host.counters.drops.rx_oversize += 1;
        }
        if buffers > self.ring.given() as usize {
            host.counters.statistics.no_descriptor += 1;
            self.starved = true;
            return host.counters.drops.rx_no_descriptor += 1;
        }
        let mut reached = true;
        for (n, piece) in (1..).zip(bytes.chunks(self.buffer)) {
            let Some((window, at)) = self.ring.next() else { return };
            let address = window.load(at);
            if !host.dma.write(address, piece) {
                host.counters.report(Rule::BufferUnmapped, self.ring.place, address);
                reached = false;
            }
            let last = n == buffers;
            let [low, mut high, third, fourth] = if last { words } else { [0; 4] };
            high |= rx_high::DD | (piece.len() as u64) << rx_high::LENGTH_SHIFT;
            if last {
                high |= rx_high::EOF | if reached { 0 } else { rx_high::RXE };
            }
            window.store(at, low);
            if self.ring.is_long() {
                window.store(at + 16, third);
                window.store(at + 24, fourth);
            }
            window.store_release(at + 8, high);
            self.ring.advance();
        }
        self.touched = true;
        if reached {
            host.counters.statistics.packets[RX] += 1;
            host.counters.statistics.bytes[RX] += bytes.len() as u64;
        } else {
            host.counters.drops.rx_dma_fault += 1;
        }
    }
}
