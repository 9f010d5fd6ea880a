//! Transmitting: descriptors are fetched in bursts, packets read from host
//! memory and given to the wire, and completion reported where it was asked for.
//!
//! 82599 datasheet rev. 3.4, section 7.2. A packet of one buffer without
//! offloads takes the fast path here; all others go through [`Packet`].
//! What a queue sends is limited as RTTBCNRC says (7.7.2.2), packet by packet. DCB and IPsec are not
//! modelled.

use regs::ixgbe::descriptor::tx;
use regs::ixgbe::*;

use super::host::{Counters, Host};
use super::lint::Rule;
use super::packet::{Fields, Packet};
use super::queue::{FETCH, RegisterRing, RingRegisters};
use super::registers::Registers;
use super::statistics::TxBurst;
use crate::relay::Limiter;
use crate::{Dma, MAX_FRAME, MIN_FRAME, Pages, Window};

/// Fetches of a queue in a step, at most.
const FETCHES: usize = 2;

/// Bytes read and sent in a step, of all queues; one packet may go beyond.
const BUDGET: usize = 4 << 20;

/// Longest packet that takes the fast path.
const PLAIN_LIMIT: u64 = 2048;

/// Shortest packet the device takes (7.2.1.2), CRC not counted.
const LEAST: u64 = 17;

/// Bits 26 and 28 and STA above DD: the driver must leave them zero.
pub(super) const RESERVED: u64 = 1 << 26 | 1 << 28 | 0xE << 32;

const PLAIN_MASK: u64 = RESERVED
    | tx::DD
    | tx::DTYP_MASK
    | tx::EOP
    | tx::IFCS
    | tx::DEXT
    | tx::VLE
    | tx::TSE
    | tx::IXSM
    | tx::TXSM;
const PLAIN: u64 = tx::DTYP_DATA | tx::EOP | tx::IFCS | tx::DEXT;

/// What the registers say for all queues.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Settings {
    /// Whether short frames are padded (HLREG0.TXPADEN).
    pub pad: bool,
    /// Whether a CRC is appended to frames (HLREG0.TXCRCEN).
    pub append_crc: bool,
    /// The tag's type (DMATXCTL.VT).
    pub vlan_type: u16,
    /// TCP flags of the first, middle and last segment.
    pub flags: [u16; 3],
    /// Longest frame that this port receives, with two tags and without CRC.
    pub longest: usize,
    /// Longest packet that takes the fast path.
    pub plain_limit: u64,
}

/// The transmit side.
#[derive(Debug)]
pub(super) struct Tx<W> {
    pub queues: Vec<TxQueue<W>>,
    /// Queues that are enabled.
    pub active: Vec<u8>,
    /// Whether the transmit DMA is enabled (DMATXCTL.TE).
    pub enabled: bool,
    settings: Settings,
    /// Which of the active queues is served first.
    next_queue: usize,
    scratch: Box<[u8; PLAIN_LIMIT as usize]>,
}

impl<W: Window> Tx<W> {
    pub fn new() -> Tx<W> {
        Tx {
            queues: (0..TDT::COUNT).map(TxQueue::new).collect(),
            active: Vec::new(),
            enabled: false,
            settings: Settings::default(),
            next_queue: 0,
            scratch: Box::new([0; PLAIN_LIMIT as usize]),
        }
    }

    /// Takes over the registers, and the link's.
    pub fn configure(&mut self, registers: &Registers, links: u32) {
        for (n, queue) in self.queues.iter_mut().enumerate() {
            queue.limiter.set(mbps(registers.rate(n), links));
        }
        let hlreg0 = registers.read(HLREG0::AT);
        let (first, last) = (registers.read(DTXTCPFLGL::AT), registers.read(DTXTCPFLGH::AT));
        let with_crc = match hlreg0 & HLREG0::JUMBOEN {
            0 => 1518,
            _ => (registers.read(MAXFRS::AT) >> MAXFRS::MFS_SHIFT) as usize,
        };
        let longest = with_crc.max(1518) + 4;
        self.enabled = registers.read(DMATXCTL::AT) & DMATXCTL::TE != 0;
        self.settings = Settings {
            pad: hlreg0 & HLREG0::TXPADEN != 0,
            append_crc: hlreg0 & HLREG0::TXCRCEN != 0,
            vlan_type: (registers.read(DMATXCTL::AT) >> DMATXCTL::VT_SHIFT) as u16,
            flags: [first as u16 & 0xFFF, (first >> 16) as u16 & 0xFFF, last as u16 & 0xFFF],
            longest,
            plain_limit: PLAIN_LIMIT.min(longest as u64),
        };
    }

    /// Sends what is queued, a burst from each queue; returns how many packets.
    #[inline(always)]
    pub fn step<D, P>(
        &mut self,
        host: &mut Host<D, P>,
        now_ns: u64,
        out: &mut impl FnMut(&mut Host<D, P>, &[u8]),
    ) -> usize
    where
        D: Dma<Window = W>,
        P: Pages,
    {
        let (mut sent, queues) = (0, self.active.len());
        let mut sender = Sender { host, settings: &self.settings, out, spent: 0, now_ns };
        // Round robin, from where the budget ended last time.
        for nth in 0..queues {
            let at = self.next_queue + nth;
            let n = self.active[if at < queues { at } else { at % queues }];
            let queue = &mut self.queues[usize::from(n)];
            sent += match queue.limiter.limits() {
                false => queue.step::<false, _, _, _>(&mut sender, &mut self.scratch),
                true => queue.step::<true, _, _, _>(&mut sender, &mut self.scratch),
            };
            if sender.spent >= BUDGET {
                self.next_queue = (at + 1) % queues;
                break;
            }
        }
        sent
    }
}

/// Where packets come from and go to.
pub(super) struct Sender<'a, D, P, O> {
    pub host: &'a mut Host<D, P>,
    pub settings: &'a Settings,
    pub out: &'a mut O,
    /// Bytes read and sent so far in this step.
    pub spent: usize,
    pub now_ns: u64,
}

impl<D: Dma, P, O: FnMut(&mut Host<D, P>, &[u8])> Sender<'_, D, P, O> {
    /// A whole frame for the wire.
    #[inline(always)]
    pub fn send(&mut self, burst: &mut TxBurst, frame: &[u8]) {
        self.spent += frame.len();
        burst.add(frame);
        (self.out)(self.host, frame);
    }
}

/// A transmit queue.
#[derive(Debug)]
pub(super) struct TxQueue<W> {
    pub ring: RegisterRing<W>,
    words: [[u64; 2]; FETCH],
    packet: Packet,
    /// Address for head write-back, if it is on.
    head_at: Option<u64>,
    /// Descriptors taken since one asked for a report.
    unreported: usize,
    /// TXDCTL.WTHRESH is not zero.
    wthresh: bool,
    burst: TxBurst,
    limiter: Limiter,
}

/// What RTTBCNRC lets a queue send, in Mbit/s, on a link of which LINKS is given: its speed divided by a
/// factor of ten bits and fourteen behind the point. Zero is no limit.
fn mbps(rate: u32, links: u32) -> u64 {
    let speed: u64 = match links & LINKS::LINK_SPEED_MASK {
        LINKS::LINK_SPEED_100M => 100,
        LINKS::LINK_SPEED_1G => 1_000,
        _ => 10_000,
    };
    let factor = u64::from(rate & RTTBCNRC::RF_MASK).max(1);
    let limited = rate & RTTBCNRC::RS_ENA != 0;
    if limited { ((speed << RTTBCNRC::RF_INT_SHIFT) / factor).max(1) } else { 0 }
}

impl<W: Window> TxQueue<W> {
    pub fn new(number: usize) -> TxQueue<W> {
        let place = RingRegisters { tail: TDT::ID, number: number as u16, base: TDBAL::at(number) };
        TxQueue {
            ring: RegisterRing::new(place),
            words: [[0; 2]; FETCH],
            packet: Packet::default(),
            head_at: None,
            unreported: 0,
            wthresh: false,
            burst: TxBurst { queue: number as u16, ..TxBurst::default() },
            limiter: Limiter::default(),
        }
    }

    /// The queue was enabled.
    pub fn enable<D, P>(&mut self, host: &mut Host<D, P>)
    where
        D: Dma<Window = W>,
        P: Pages,
    {
        self.ring.enable(host);
        self.packet = Packet::default();
        self.unreported = 0;
        self.inspect(host);
    }

    /// The queue was disabled: a packet not yet whole is lost.
    pub fn disable<D, P: Pages>(&mut self, host: &mut Host<D, P>) {
        if self.packet.is_open() {
            host.counters.tx_offered += 1;
            host.counters.drops.tx_disabled += 1;
        }
        self.packet = Packet::default();
        self.flush_counters(&mut host.counters);
        self.ring.disable(&host.pages);
    }

    /// Looks at the registers of an enabled queue.
    pub fn inspect<D, P: Pages>(&mut self, host: &mut Host<D, P>) {
        let number = usize::from(self.ring.place.number);
        let low = host.pages.load(TDWBAL::at(number));
        let high = host.pages.load(TDWBAH::at(number));
        let on = low & TDWBAL::HEAD_WB_EN != 0;
        self.wthresh = host.pages.load(self.ring.place.control()) & TXDCTL::WTHRESH_MASK != 0;
        let address = u64::from(high) << 32 | u64::from(low & !3);
        if on && self.head_at != Some(address) {
            if low & 2 != 0 {
                self.ring.place.lint(&mut host.counters, Rule::HeadWriteBackUnaligned, u64::from(low));
            }
            let txdctl = host.pages.load(self.ring.place.control());
            if txdctl & TXDCTL::WTHRESH_MASK != 0 {
                self.ring.place.lint(&mut host.counters, Rule::WthreshWithHeadWriteBack, u64::from(txdctl));
            }
        }
        self.head_at = on.then_some(address);
    }

    #[inline(always)]
    fn step<const LIMITED: bool, D, P, O>(
        &mut self,
        sender: &mut Sender<'_, D, P, O>,
        scratch: &mut [u8; PLAIN_LIMIT as usize],
    ) -> usize
    where
        D: Dma<Window = W>,
        P: Pages,
        O: FnMut(&mut Host<D, P>, &[u8]),
    {
        let before = self.burst.packets;
        for _ in 0..FETCHES {
            if LIMITED && !self.limiter.is_open(sender.now_ns) {
                break;
            }
            let words = &mut self.words;
            let got = self.ring.fetch(sender.host, |n, window, offset| {
                words[n] = [window.load(offset), window.load(offset + 8)];
            });
            if got == 0 {
                self.ring.publish(&sender.host.pages);
                break;
            }
            if self.wthresh {
                self.check_reports(&mut sender.host.counters, got);
            }
            let mut asked = 0u32;
            while self.ring.next < got && sender.spent < BUDGET {
                if LIMITED && !self.limiter.is_open(sender.now_ns) {
                    break;
                }
                let spent = sender.spent;
                let n = self.ring.next & (FETCH - 1);
                self.ring.next += 1;
                asked |= u32::from(self.words[n][1] & tx::RS != 0) << n;
                self.take(sender, self.words[n], scratch);
                if LIMITED && sender.spent > spent {
                    self.limiter.count(sender.spent - spent, sender.now_ns);
                }
            }
            self.report(sender, self.ring.next, asked);
            if self.ring.next < got {
                // Out of budget, or at its limit: the rest is fetched again.
                self.ring.unfetch();
                break;
            }
        }
        let sent = self.burst.packets.wrapping_sub(before) as usize;
        if self.burst.packets > 1 << 20 {
            self.flush_counters(&mut sender.host.counters);
        }
        sent
    }

    /// With WTHRESH, each packet's last descriptor must ask for a report
    /// (7.2.3.5.1).
    #[cold]
    fn check_reports(&self, counters: &mut Counters, got: usize) {
        let context = |command: u64| command & (tx::DEXT | tx::DTYP_MASK) == tx::DEXT | tx::DTYP_CONTEXT;
        let last = |[_, command]: &&[u64; 2]| command & (tx::EOP | tx::RS) == tx::EOP && !context(*command);
        if let Some([_, command]) = self.words[..got].iter().find(last) {
            self.ring.place.lint(counters, Rule::ReportStatusBelowWthresh, *command);
        }
    }

    /// Takes one descriptor from the ring.
    #[inline(always)]
    fn take<D, P, O>(
        &mut self,
        sender: &mut Sender<'_, D, P, O>,
        [address, command]: [u64; 2],
        scratch: &mut [u8; PLAIN_LIMIT as usize],
    ) where
        D: Dma<Window = W>,
        O: FnMut(&mut Host<D, P>, &[u8]),
    {
        let len = command & tx::LENGTH_MASK;
        let plain = command & PLAIN_MASK == PLAIN
            && (LEAST..=sender.settings.plain_limit).contains(&len)
            && command >> tx::PAYLEN_SHIFT == len
            && !self.packet.is_open()
            && sender.settings.append_crc;
        if !plain {
            let fields = Fields { address, command };
            return self.packet.take(sender, fields, &mut self.burst, self.ring.place);
        }
        let len = len as usize;
        sender.host.counters.tx_offered += 1;
        if !read(&sender.host.dma, address, &mut scratch[..len]) {
            self.ring.place.lint(&mut sender.host.counters, Rule::BufferAddressUnmapped, address);
            sender.host.counters.drops.tx_dma_fault += 1;
            return;
        }
        let mut whole = len;
        if len < MIN_FRAME {
            if sender.settings.pad {
                scratch[len..MIN_FRAME].fill(0);
                whole = MIN_FRAME;
            } else {
                self.ring.place.lint(&mut sender.host.counters, Rule::TxRunt, len as u64);
            }
        }
        sender.send(&mut self.burst, &scratch[..whole]);
    }

    /// Tells the driver how far we are, where it asked for that (7.2.3.5).
    #[inline(always)]
    fn report<D, P, O>(&mut self, sender: &mut Sender<'_, D, P, O>, taken: usize, mut asked: u32)
    where
        D: Dma<Window = W>,
    {
        if asked == 0 {
            self.unreported += taken;
            // One descriptor of a ring stays empty: a driver that waits for the
            // first report gets no further.
            if self.unreported + 1 >= self.ring.size() as usize && self.head_at.is_none() {
                self.ring.place.lint(
                    &mut sender.host.counters,
                    Rule::TxReportStatusMissing,
                    self.unreported as u64,
                );
                self.unreported = 0;
            }
            return;
        }
        self.unreported = 0;
        let Some(window) = self.ring.window() else { return };
        if let Some(address) = self.head_at {
            let head = self.ring.head();
            if !sender.host.dma.write(address, &head.to_le_bytes()) {
                self.ring.place.lint(&mut sender.host.counters, Rule::BufferAddressUnmapped, address);
            }
        } else {
            while asked != 0 {
                let n = asked.trailing_zeros() as usize;
                asked &= asked - 1;
                // Release: the buffers were read before the driver reuses them.
                window.store_release(self.ring.offset(n) + 8, self.words[n][1] | tx::DD);
            }
        }
        sender.host.counters.interrupts.cause_tx(usize::from(self.ring.place.number));
    }

    /// Hands the counts over.
    pub fn flush_counters(&mut self, counters: &mut Counters) {
        if self.burst.packets > 0 {
            counters.statistics.add_tx_burst(&self.burst);
            self.burst = TxBurst { queue: self.burst.queue, ..TxBurst::default() };
        }
    }
}

/// Reads a packet; short ones, of which there are most, as one block.
#[inline(always)]
fn read<D: Dma>(dma: &D, iova: u64, data: &mut [u8]) -> bool {
    if let Ok(shortest) = <&mut [u8; 60]>::try_from(&mut *data) {
        return dma.read(iova, shortest);
    }
    if let Ok(line) = <&mut [u8; 64]>::try_from(&mut *data) {
        return dma.read(iova, line);
    }
    dma.read(iova, data)
}

const _: () = assert!(MAX_FRAME > PLAIN_LIMIT as usize);
