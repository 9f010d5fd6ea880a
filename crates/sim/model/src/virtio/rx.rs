//! Receiving: a frame from the wire is checked, filtered, given a queue and
//! written to its buffers; if there is none it waits.
//!
//! virtio 1.3, sections 5.1.6.3 and 5.1.6.4. Frames are not merged into larger
//! ones (GUEST_TSO and its like are not offered).

use std::collections::VecDeque;

use regs::virtio::net::header;

use super::chain::Chain;
use super::data_valid;
use super::filter::{Filter, Unwanted};
use super::head::Told;
use super::host::{Counters, Host};
use super::lint::{Location, Rule};
use super::queue::Queue;
use super::steer::Steer;
use crate::{Dma, FrameError, MAX_FRAME, MIN_FRAME, Window, Wire};

/// Most frames taken from the wire in a step.
const BURST: usize = 64;
/// Most frames that wait for a buffer, for each queue.
const WAITING: usize = 256;
/// Descriptors walked for one frame, at least; else as many as the ring has.
const WALK: u32 = 512;

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It is in the host's memory, or lost and counted.
    Done,
    /// There are not enough buffers.
    NoBuffer,
}

/// The receive side.
#[derive(Debug)]
pub(super) struct Rx {
    pub filter: Filter,
    pub steer: Steer,
    /// Frames that wait, for each pair.
    waiting: Vec<VecDeque<Box<[u8]>>>,
    /// Length of the header in front of a packet.
    pub header: usize,
    /// A packet may take several buffers.
    pub is_mergeable: bool,
    /// The driver wants to know which checksums are right.
    pub checks: bool,
    /// It gets packets whose checksum is still to be filled in.
    pub is_partial: bool,
    /// The longest frame that is received, in bytes.
    pub longest: usize,
    pub link_up: bool,
    scratch: Box<[u8]>,
    chains: Vec<Chain>,
}

/// What placing a frame touches.
struct Target<'a, D: Dma> {
    queue: &'a mut Queue<D::Window>,
    host: &'a mut Host<D>,
}

impl Rx {
    pub fn new(mac: [u8; 6], pairs: u16, longest: usize) -> Rx {
        Rx {
            filter: Filter::new(mac),
            steer: Steer::new(),
            waiting: (0..pairs).map(|_| VecDeque::new()).collect(),
            header: header::BYTES,
            is_mergeable: false,
            checks: false,
            is_partial: false,
            longest,
            link_up: true,
            scratch: vec![0; MAX_FRAME].into_boxed_slice(),
            chains: vec![Chain::default()],
        }
    }

    /// Frames that wait for a buffer.
    pub fn waiting(&self) -> usize {
        self.waiting.iter().map(VecDeque::len).sum()
    }

    /// Discards what waits; how many frames that was.
    pub fn forget(&mut self) -> u64 {
        let count = self.waiting() as u64;
        self.waiting.iter_mut().for_each(VecDeque::clear);
        count
    }

    /// Discards what waits for queue `index`; how many frames that was.
    pub fn forget_queue(&mut self, index: u16) -> u64 {
        let waiting = self.waiting.get_mut(usize::from(index) / 2);
        let waiting = waiting.filter(|_| index.is_multiple_of(2));
        waiting.map_or(0, |waiting| waiting.drain(..).count() as u64)
    }

    /// Moves what there is to move; returns how many frames reached the host or
    /// were lost.
    pub fn step<D: Dma, C: Wire>(
        &mut self,
        queues: &mut [Queue<D::Window>],
        host: &mut Host<D>,
        wire: &mut C,
    ) -> usize {
        let mut moved = self.drain(queues, host);
        let backpressure = wire.has_backpressure();
        let wanted = if backpressure { self.wanted(queues, &mut host.counters) } else { BURST };
        if wanted > 0 {
            let mut scratch = std::mem::take(&mut self.scratch);
            let taken = wire.receive_burst(&mut scratch, wanted, &mut |frame, fault| {
                self.arrive(queues, host, frame, fault);
            });
            self.scratch = scratch;
            host.counters.totals.rx_offered += taken as u64;
            moved += taken;
        }
        for &pair in self.steer.pairs() {
            queues[2 * usize::from(pair)].publish(host);
        }
        moved
    }

    /// How many frames a wire with backpressure should give: none while any waits.
    fn wanted<W: Window>(&self, queues: &mut [Queue<W>], counters: &mut Counters) -> usize {
        if !self.link_up || self.waiting.iter().any(|waiting| !waiting.is_empty()) {
            return 0;
        }
        let at_hand = |&pair: &u16| queues[2 * usize::from(pair)].at_hand(BURST as u16, counters).into();
        self.steer.pairs().iter().map(at_hand).max().unwrap_or(0)
    }

    /// Frames that waited, as far as there are buffers now.
    #[inline]
    fn drain<D: Dma>(&mut self, queues: &mut [Queue<D::Window>], host: &mut Host<D>) -> usize {
        let mut moved = 0;
        for pair in 0..self.waiting.len() {
            if self.waiting[pair].is_empty() {
                continue;
            }
            let queue = &mut queues[2 * pair];
            while queue.is_on() && moved < BURST {
                let Some(frame) = self.waiting[pair].pop_front() else { break };
                let mut target = Target { queue: &mut *queue, host: &mut *host };
                if self.deliver(&mut target, &frame) == Outcome::NoBuffer {
                    self.waiting[pair].push_front(frame);
                    break;
                }
                moved += 1;
            }
        }
        moved
    }

    /// A frame from the wire. The caller counts it as offered.
    #[inline]
    fn arrive<D: Dma>(
        &mut self,
        queues: &mut [Queue<D::Window>],
        host: &mut Host<D>,
        frame: &[u8],
        fault: FrameError,
    ) {
        let drops = &mut host.counters.drops;
        if fault != FrameError::None {
            drops.rx_crc += 1;
            return;
        }
        if frame.len() < MIN_FRAME || frame.len() > self.longest || !self.link_up {
            *match () {
                () if !self.link_up => &mut drops.rx_link_down,
                () if frame.len() < MIN_FRAME => &mut drops.rx_undersize,
                () => &mut drops.rx_oversize,
            } += 1;
            return;
        }
        match self.filter.check(frame) {
            Ok(()) => {}
            Err(Unwanted::Mac) => {
                drops.rx_filtered_mac += 1;
                return;
            }
            Err(Unwanted::Vlan) => {
                drops.rx_filtered_vlan += 1;
                return;
            }
        }
        let Some(pair) = self.steer.pair(frame).map(usize::from) else {
            drops.rx_queue_off += 1;
            return;
        };
        let queue = &mut queues[2 * pair];
        if !queue.is_on() {
            drops.rx_queue_off += 1;
            return;
        }
        let waits = !self.waiting[pair].is_empty();
        let mut target = Target { queue, host };
        if waits || self.deliver(&mut target, frame) == Outcome::NoBuffer {
            self.hold(pair, frame, &mut host.counters);
        }
    }

    #[cold]
    fn hold(&mut self, pair: usize, frame: &[u8], counters: &mut Counters) {
        let waiting = &mut self.waiting[pair];
        if waiting.len() < WAITING {
            waiting.push_back(frame.into());
        } else {
            counters.drops.rx_no_buffer += 1;
        }
    }

    /// Writes a frame to the next buffers.
    #[inline(always)]
    fn deliver<D: Dma>(&mut self, target: &mut Target<'_, D>, frame: &[u8]) -> Outcome {
        let chain = &mut self.chains[0];
        if !target.queue.take(target.host, chain) {
            return target.without_buffer();
        }
        let told = Told {
            is_good: self.checks && data_valid::is_good(frame),
            partial: None,
            hash: self.steer.reported(frame),
        };
        if self.is_partial && told.is_good {
            return self.deliver_partial(target, frame, told);
        }
        self.write(target, frame, told)
    }

    /// Gives a packet over whose checksum the driver is to fill in.
    #[cold]
    fn deliver_partial<D: Dma>(&mut self, target: &mut Target<'_, D>, frame: &[u8], told: Told) -> Outcome {
        let mut frame = frame.to_vec();
        let partial = data_valid::take_out(&mut frame);
        self.write(target, &frame, Told { is_good: partial.is_none(), partial, ..told })
    }

    /// Writes a frame to the buffers from the one that was taken on.
    #[inline(always)]
    fn write<D: Dma>(&mut self, target: &mut Target<'_, D>, frame: &[u8], told: Told) -> Outcome {
        let chain = &mut self.chains[0];
        let need = self.header + frame.len();
        // One buffer in one piece that is long enough: nearly always.
        if let ([], &[segment]) = (chain.readable(), chain.writable())
            && segment.len as usize >= need
        {
            let head = told.header(1);
            let written = target.host.dma.write(segment.address, &head[..self.header])
                && target.host.dma.write(segment.address.wrapping_add(self.header as u64), frame);
            target.finish(chain, need, written, segment.address);
            if written {
                target.count(frame, told, 1);
            }
            return Outcome::Done;
        }
        self.gather(target, frame, told)
    }

    /// The slow path: buffers in pieces, several for a frame, or useless ones.
    /// The first one is taken already.
    #[cold]
    fn gather<D: Dma>(&mut self, target: &mut Target<'_, D>, frame: &[u8], told: Told) -> Outcome {
        let need = (self.header + frame.len()) as u64;
        let (mut count, mut room, mut walked, mut spans) = (0, 0, 0, 0);
        loop {
            let chain = &self.chains[count];
            if !chain.readable().is_empty() {
                target.report(Rule::ReadableInReceive, chain.id.into());
            }
            let has = chain.room();
            walked += chain.walked;
            if count == 0 && has < self.header as u64 {
                target.report(Rule::RxBufferTooSmall, has);
                target.queue.put(chain.id, chain.span, 0);
            } else {
                spans += u32::from(chain.span);
                (count, room) = (count + 1, room + has);
            }
            if room >= need {
                break;
            }
            let size = target.queue.size();
            if count > 0 && !self.is_mergeable {
                target.report(Rule::RxBufferShort, need);
                return self.give_up(target, count);
            }
            // The whole ring will not do, or is walked for nothing.
            if spans >= size || walked > size.max(WALK) {
                return self.give_up(target, count);
            }
            if self.chains.len() == count {
                self.chains.push(Chain::default());
            }
            if !target.queue.take(target.host, &mut self.chains[count]) {
                self.give_back(target, count);
                return target.without_buffer();
            }
        }
        self.scatter(target, frame, told, count);
        Outcome::Done
    }

    fn give_back<D: Dma>(&mut self, target: &mut Target<'_, D>, count: usize) {
        self.chains[..count].iter().rev().for_each(|chain| target.queue.untake(chain.span));
    }

    /// The frame will never fit.
    fn give_up<D: Dma>(&mut self, target: &mut Target<'_, D>, count: usize) -> Outcome {
        self.give_back(target, count);
        target.host.counters.drops.rx_buffer_too_small += 1;
        Outcome::Done
    }

    /// Writes header and frame over the buffers taken, which have room.
    fn scatter<D: Dma>(&mut self, target: &mut Target<'_, D>, frame: &[u8], told: Told, count: usize) {
        let head = told.header(count as u16);
        let (mut head, mut rest) = (&head[..self.header], frame);
        let mut whole = true;
        let mut lengths = Vec::with_capacity(count);
        for chain in &self.chains[..count] {
            let mut len = 0;
            for segment in chain.writable() {
                let mut at = segment.address;
                let mut left = segment.len as usize;
                for part in [&mut head, &mut rest] {
                    let (now, later) = part.split_at(part.len().min(left));
                    *part = later;
                    if !target.host.dma.write(at, now) {
                        target.report(Rule::BufferUnmapped, at);
                        whole = false;
                    }
                    at = at.wrapping_add(now.len() as u64);
                    left -= now.len();
                    len += now.len();
                }
            }
            lengths.push(len as u32);
        }
        for (chain, len) in self.chains[..count].iter().zip(lengths) {
            target.queue.put(chain.id, chain.span, if whole { len } else { 0 });
        }
        if whole {
            target.count(frame, told, count);
        } else {
            target.host.counters.drops.rx_dma_fault += 1;
        }
    }
}

impl<D: Dma> Target<'_, D> {
    fn report(&mut self, rule: Rule, value: u64) {
        self.host.counters.report(rule, Location::Queue(self.queue.index), value);
    }

    #[inline]
    fn without_buffer(&mut self) -> Outcome {
        if self.queue.is_on() {
            return Outcome::NoBuffer;
        }
        self.host.counters.drops.rx_queue_off += 1;
        Outcome::Done
    }

    /// Hands a buffer back; an address that is not mapped spoils it.
    #[inline(always)]
    fn finish(&mut self, chain: &Chain, len: usize, written: bool, address: u64) {
        self.queue.put(chain.id, chain.span, if written { len as u32 } else { 0 });
        if !written {
            self.report(Rule::BufferUnmapped, address);
            self.host.counters.drops.rx_dma_fault += 1;
        }
    }

    #[inline(always)]
    fn count(&mut self, frame: &[u8], told: Told, buffers: usize) {
        let totals = &mut self.host.counters.totals;
        totals.rx_packets += 1;
        totals.rx_bytes += frame.len() as u64;
        totals.rx_checksum_good += u64::from(told.is_good);
        totals.rx_checksum_partial += u64::from(told.partial.is_some());
        totals.rx_buffers += buffers as u64;
    }
}
