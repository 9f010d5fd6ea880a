//! Sending: buffers are read, their headers followed, and frames go out.
//!
//! virtio 1.3, section 5.1.6.2. A buffer that makes no sense is lost as a whole,
//! counted and given back.

use regs::virtio::net::header;

use super::chain::Chain;
use super::head::Header;
use super::host::Host;
use super::lint::{Location, Rule};
use super::offload::{self, Offloads};
use super::queue::Queue;
use super::steer::Steer;
use crate::{Dma, MAX_FRAME, MIN_FRAME, Wire};

/// Most buffers of a queue in a step.
const BURST: usize = 64;
/// Most bytes and descriptors read in a step, of all queues; the one that goes
/// beyond is still sent.
const BUDGET: usize = 4 << 20;
/// What a descriptor costs of it.
const DESCRIPTOR_COST: usize = 64;
/// Longest packet: IP's 64 KiB and what is in front of it.
const LONGEST: u64 = 65_535 + 18 + 2;
/// Shortest: Ethernet's header.
const SHORTEST: usize = 14;

/// Why a packet is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    Buffer,
    Dma,
    Oversize,
    Offload,
}

/// The transmit side.
#[derive(Debug)]
pub(super) struct Tx {
    /// Length of the header in front of a packet.
    pub header: usize,
    pub offloads: Offloads,
    /// The queue pair with which the next step begins.
    next_pair: usize,
    chain: Chain,
    packet: Vec<u8>,
    segment: Vec<u8>,
}

/// Where packets come from and go to.
struct Sender<'a, D, C> {
    host: &'a mut Host<D>,
    wire: &'a mut C,
    steer: &'a mut Steer,
    link_up: bool,
    place: Location,
    pair: u16,
    /// Bytes read and sent, and what descriptors cost, so far in this step.
    spent: usize,
}

impl Tx {
    pub fn new() -> Tx {
        Tx {
            header: header::BYTES,
            offloads: Offloads::default(),
            next_pair: 0,
            chain: Chain::default(),
            packet: Vec::new(),
            segment: Vec::new(),
        }
    }

    /// Sends what is queued, a burst from each of the first `pairs` pairs;
    /// returns how many buffers that were.
    pub fn step<D: Dma, C: Wire>(
        &mut self,
        queues: &mut [Queue<D::Window>],
        pairs: usize,
        host: &mut Host<D>,
        wire: &mut C,
        steer: &mut Steer,
        link_up: bool,
    ) -> usize {
        let (mut sent, mut spent) = (0, 0);
        // Round robin, from where the budget ended last time.
        for n in 0..pairs {
            let pair = (self.next_pair + n) % pairs;
            let queue = &mut queues[2 * pair + 1];
            if !queue.is_on() {
                continue;
            }
            let place = Location::Queue(queue.index);
            let mut sender = Sender { host, wire, steer, link_up, place, pair: pair as u16, spent };
            let mut taken = 0;
            while taken < BURST && sender.spent < BUDGET {
                if !queue.take(sender.host, &mut self.chain) {
                    break;
                }
                sender.spent += DESCRIPTOR_COST * self.chain.walked as usize;
                self.send(&mut sender);
                queue.put_read(self.chain.id, self.chain.span);
                taken += 1;
            }
            spent = sender.spent;
            if taken > 0 {
                queue.publish(host);
                sent += taken;
            }
            if spent >= BUDGET {
                self.next_pair = (pair + 1) % pairs;
                break;
            }
        }
        sent
    }

    /// Sends the buffer that was taken, or loses it.
    #[inline(always)]
    fn send<D: Dma, C: Wire>(&mut self, sender: &mut Sender<'_, D, C>) {
        let done = match self.read(sender) {
            Ok(()) => self.emit(sender),
            Err(loss) => Err(loss),
        };
        if let Err(loss) = done {
            sender.lose(loss);
        }
    }

    /// Reads the buffer in one piece: header and packet.
    #[inline(always)]
    fn read<D: Dma, C: Wire>(&mut self, sender: &mut Sender<'_, D, C>) -> Result<(), Loss> {
        let bytes = self.chain.bytes();
        if !self.chain.writable().is_empty() {
            sender.report(Rule::WritableInTransmit, self.chain.id.into());
            return Err(Loss::Buffer);
        }
        if bytes > LONGEST + self.header as u64 {
            sender.report(Rule::TxTooLong, bytes);
            return Err(Loss::Oversize);
        }
        if (bytes as usize) < self.header + SHORTEST {
            sender.report(Rule::TxTooShort, bytes);
            return Err(Loss::Buffer);
        }
        sender.spent += bytes as usize;
        self.packet.resize(bytes as usize, 0);
        let mut at = 0;
        for segment in self.chain.readable() {
            let end = at + segment.len as usize;
            if !sender.host.dma.read(segment.address, &mut self.packet[at..end]) {
                sender.report(Rule::BufferUnmapped, segment.address);
                return Err(Loss::Dma);
            }
            at = end;
        }
        Ok(())
    }

    #[inline(always)]
    fn emit<D: Dma, C: Wire>(&mut self, sender: &mut Sender<'_, D, C>) -> Result<(), Loss> {
        let (head, _) = self.packet.split_at(self.header);
        if head.iter().any(|&byte| byte != 0) {
            return self.emit_offloaded(sender);
        }
        let len = self.packet.len() - self.header;
        if len > MAX_FRAME {
            sender.report(Rule::TxTooLong, len as u64);
            return Err(Loss::Oversize);
        }
        pad(&mut self.packet, self.header);
        sender.transmit(&self.packet[self.header..]);
        Ok(())
    }

    #[cold]
    fn emit_offloaded<D: Dma, C: Wire>(&mut self, sender: &mut Sender<'_, D, C>) -> Result<(), Loss> {
        let head = Header::decode(&self.packet[..self.header]);
        if head.flags & !header::NEEDS_CSUM != 0 {
            sender.report(Rule::TxFlagsUnknown, head.flags.into());
        }
        if self.header >= header::BYTES && head.num_buffers != 0 {
            sender.report(Rule::TxNumBuffersSet, head.num_buffers.into());
        }
        let Tx { packet, segment, offloads, .. } = self;
        let frame = &mut packet[self.header..];
        let plan = offloads.plan(&head, frame).map_err(|rule| {
            sender.report(rule, u64::from(head.flags) << 8 | u64::from(head.gso_type));
            Loss::Offload
        })?;
        if let Some(cut) = plan.cut {
            sender.host.counters.totals.tx_cut += 1;
            for n in 0..cut.segments() {
                cut.write(frame, n, segment);
                pad(segment, 0);
                sender.transmit(segment);
            }
            return Ok(());
        }
        if frame.len() > MAX_FRAME {
            sender.report(Rule::TxTooLong, frame.len() as u64);
            return Err(Loss::Oversize);
        }
        if let Some((start, field)) = plan.checksum {
            sender.host.counters.totals.tx_checksums += 1;
            offload::fill_in(frame, start, field);
        }
        pad(packet, self.header);
        sender.transmit(&packet[self.header..]);
        Ok(())
    }
}

/// Makes the frame that begins at `start` as long as the wire wants it.
#[inline(always)]
fn pad(packet: &mut Vec<u8>, start: usize) {
    if packet.len() - start < MIN_FRAME {
        packet.resize(start + MIN_FRAME, 0);
    }
}

impl<D: Dma, C: Wire> Sender<'_, D, C> {
    fn report(&mut self, rule: Rule, value: u64) {
        self.host.counters.report(rule, self.place, value);
    }

    #[cold]
    fn lose(&mut self, loss: Loss) {
        self.host.counters.totals.tx_offered += 1;
        let drops = &mut self.host.counters.drops;
        *match loss {
            Loss::Buffer => &mut drops.tx_bad_buffer,
            Loss::Dma => &mut drops.tx_dma_fault,
            Loss::Oversize => &mut drops.tx_oversize,
            Loss::Offload => &mut drops.tx_bad_offload,
        } += 1;
    }

    /// A whole frame for the wire.
    #[inline(always)]
    fn transmit(&mut self, frame: &[u8]) {
        self.spent += frame.len();
        self.host.counters.totals.tx_offered += 1;
        if !self.link_up {
            self.host.counters.drops.tx_link_down += 1;
            return;
        }
        if self.steer.learns() {
            self.steer.learn(frame, self.pair);
        }
        self.host.counters.totals.tx_packets += 1;
        self.host.counters.totals.tx_bytes += frame.len() as u64;
        self.wire.transmit(frame);
    }
}
