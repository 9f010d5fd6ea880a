//! One receive queue: buffers fetched ahead, frames written into them, and
//! descriptors written back a burst at a time.
//!
//! 82599 datasheet rev. 3.4, sections 7.1.5, 7.1.6 and 7.1.9.

use regs::ixgbe::descriptor::{rx_high, rx_legacy};
use regs::ixgbe::{RDBAL, RDT, RXDCTL, SRRCTL};
use wire::{ethernet, vlan};

use super::host::{Counters, Host};
use super::lint::{Register, Rule};
use super::queue::{FETCH, RegisterRing, RingRegisters};
use super::rx::Classified;
use super::statistics::{RxBurst, RxLoss};
use super::watch::Watch;
use crate::checksum::crc32;
use crate::{Dma, Pages, Window};

/// A receive queue.
#[derive(Debug)]
pub(super) struct RxQueue<W> {
    pub ring: RegisterRing<W>,
    /// Buffer addresses of the descriptors fetched.
    addresses: [u64; FETCH],
    /// What to write back into those used up.
    done: [[u64; 2]; FETCH],
    written: usize,
    /// Bytes of a buffer (SRRCTL.BSIZEPACKET).
    buffer: usize,
    /// The same, but 0 while no frame goes into a buffer as it is.
    room: usize,
    srrctl: u32,
    drop: bool,
    pub legacy: bool,
    strip_tag: bool,
    keep_crc: bool,
    burst: RxBurst,
    edited: Vec<u8>,
    pub watch: Watch,
}

impl<W: Window> RxQueue<W> {
    pub fn new(number: usize) -> RxQueue<W> {
        let place = RingRegisters { tail: RDT::ID, number: number as u16, base: RDBAL::at(number) };
        RxQueue {
            ring: RegisterRing::new(place),
            addresses: [0; FETCH],
            done: [[0; 2]; FETCH],
            written: 0,
            buffer: 0,
            room: 0,
            srrctl: 0,
            drop: false,
            legacy: false,
            strip_tag: false,
            keep_crc: false,
            burst: RxBurst { queue: number as u16, ..RxBurst::default() },
            edited: Vec::new(),
            watch: Watch::default(),
        }
    }

    /// The queue was enabled.
    pub fn enable<D, P>(&mut self, host: &mut Host<D, P>)
    where
        D: Dma<Window = W>,
        P: Pages,
    {
        self.ring.enable(host);
        self.watch = Watch::default();
        self.written = 0;
        self.srrctl = !host.pages.load(self.srrctl_at());
        self.inspect(host);
    }

    /// The queue was disabled: what is fetched goes back unused.
    pub fn disable<D, P: Pages>(&mut self, host: &mut Host<D, P>) {
        self.check_dca(host);
        self.check_buffers(&mut host.counters);
        self.write_back(&mut host.counters);
        self.flush_counters(&mut host.counters);
        self.ring.disable(&host.pages);
        self.written = 0;
        self.make_room();
    }

    fn srrctl_at(&self) -> u32 {
        SRRCTL::at(usize::from(self.ring.place.number))
    }

    /// Looks at the registers of an enabled queue.
    pub fn inspect<D, P: Pages>(&mut self, host: &mut Host<D, P>) {
        let srrctl = host.pages.load(self.srrctl_at());
        self.strip_tag = host.pages.load(self.ring.place.control()) & RXDCTL::VME != 0;
        if srrctl == self.srrctl {
            return;
        }
        self.srrctl = srrctl;
        let register = Register::of(SRRCTL::ID, self.ring.place.number.into());
        let kib = srrctl & SRRCTL::BSIZEPACKET_MASK;
        if !(1..=16).contains(&kib) {
            host.counters.report(Rule::SrrctlBufferInvalid, register, u64::from(srrctl));
        }
        self.buffer = (kib.clamp(1, 16) as usize) << 10;
        self.make_room();
        self.drop = srrctl & SRRCTL::DROP_EN != 0;
        let kind = srrctl & SRRCTL::DESCTYPE_MASK;
        self.legacy = kind == SRRCTL::DESCTYPE_LEGACY;
        if !self.legacy && kind != SRRCTL::DESCTYPE_ADV_ONE_BUFFER {
            host.counters.report(Rule::UnsupportedRxDescriptorType, register, u64::from(srrctl));
        }
    }

    /// Bytes of a buffer.
    pub fn buffer(&self) -> usize {
        self.buffer
    }

    /// The addresses of buffers that are fetched and not used.
    pub fn fetched(&self) -> &[u64] {
        self.addresses.get(self.ring.next..self.ring.got).unwrap_or(&[])
    }

    fn make_room(&mut self) {
        self.room = if self.ring.enabled && !self.keep_crc { self.buffer } else { 0 };
    }

    /// HLREG0.RXCRCSTRP is off.
    pub fn keep_crc(&mut self, keep: bool) {
        self.keep_crc = keep;
        self.make_room();
    }

    /// Whether a frame fits one buffer as it is.
    #[inline(always)]
    pub fn is_simple(&self, classified: &Classified, len: usize) -> bool {
        let edits =
            self.keep_crc | (self.strip_tag & classified.tag.is_some()) | classified.timestamp.is_some();
        !edits & (len <= self.buffer) & self.ring.enabled
    }

    /// Whether a frame without a tag fits one buffer.
    #[inline(always)]
    pub fn takes_plain(&self, len: usize) -> bool {
        len <= self.room
    }

    /// Whether a descriptor is at hand.
    #[inline(always)]
    pub fn ensure<D, P: Pages>(&mut self, host: &mut Host<D, P>) -> bool {
        self.ring.next < self.ring.got || self.fetch(host)
    }

    #[inline(never)]
    fn fetch<D, P: Pages>(&mut self, host: &mut Host<D, P>) -> bool {
        self.write_back(&mut host.counters);
        self.written = 0;
        let (addresses, mut first) = (&mut self.addresses, 0);
        let got = self.ring.fetch(host, |n, window, offset| {
            addresses[n] = window.load(offset);
            // One of them is a sample: a driver that leaves the bit leaves all.
            first = if n == 0 { window.load(offset + 8) } else { first };
        });
        let done = if self.legacy { rx_legacy::DD } else { rx_high::DD };
        if got > 0 && first & done != 0 {
            self.ring.place.lint(&mut host.counters, Rule::DoneBitInRxDescriptor, first);
        }
        got > 0
    }

    /// Writes a frame into the next buffer. The caller has seen that it fits.
    #[inline(always)]
    pub fn put<D: Dma, P>(&mut self, host: &mut Host<D, P>, low: u64, status: u64, frame: &[u8]) {
        let n = self.ring.next & (FETCH - 1);
        let status = status | rx_high::DD | rx_high::EOP;
        self.done[n] = [low, status | (frame.len() as u64) << rx_high::LENGTH_SHIFT];
        self.ring.next += 1;
        if write(&host.dma, self.addresses[n], frame) {
            self.burst.add(frame);
        } else {
            self.fault(&mut host.counters, n);
        }
    }

    /// The buffer's address leads nowhere. The device cannot see that its
    /// posted writes vanish; the driver gets a descriptor and no packet.
    #[cold]
    fn fault(&mut self, counters: &mut Counters, n: usize) {
        self.ring.place.lint(counters, Rule::BufferAddressUnmapped, self.addresses[n]);
        self.done[n][1] |= rx_high::RXE;
        counters.drops.rx_dma_fault += 1;
    }

    /// No descriptor: with DROP_EN the frame is lost, else it waits (`false`).
    #[cold]
    pub fn starved(&mut self, counters: &mut Counters, len: usize) -> bool {
        self.watch.starved = true;
        if self.drop {
            counters.drops.rx_no_descriptor += 1;
            let queue = self.ring.place.number;
            counters.statistics.add_rx_loss(RxLoss::NoDescriptor { queue }, 1, len as u64);
        }
        self.drop
    }

    /// A frame that is edited or takes several buffers, or has no queue.
    #[cold]
    pub fn place_any<D, P>(&mut self, host: &mut Host<D, P>, classified: &Classified, frame: &[u8]) -> bool
    where
        D: Dma<Window = W>,
        P: Pages,
    {
        if !self.ring.enabled {
            host.counters.drops.rx_queue_disabled += 1;
            self.ring.place.lint(&mut host.counters, Rule::RedirectionToDisabledQueue, 0);
            return true;
        }
        let mut classified = *classified;
        let mut edited = std::mem::take(&mut self.edited);
        edited.clear();
        match classified.tag.filter(|_| self.strip_tag) {
            Some(tag) => {
                edited.extend_from_slice(&frame[..ethernet::ADDRESSES_LEN]);
                edited.extend_from_slice(&frame[vlan::TAGGED_LEN..]);
                classified.status |= rx_high::VP | u64::from(tag) << rx_high::VLAN_SHIFT;
            }
            None => edited.extend_from_slice(frame),
        }
        let len = edited.len();
        if self.keep_crc {
            edited.extend_from_slice(&crc32(frame).to_le_bytes());
        }
        if let Some(timestamp) = classified.timestamp {
            edited.extend_from_slice(&timestamp.to_le_bytes());
            classified.status |= rx_high::TSIP;
        }
        let placed = self.scatter(host, &classified, &edited, len);
        self.edited = edited;
        placed
    }

    /// Writes a frame into as many buffers as it takes, all or nothing. Its first `len` bytes
    /// are what the counters take.
    fn scatter<D, P>(
        &mut self,
        host: &mut Host<D, P>,
        classified: &Classified,
        frame: &[u8],
        len: usize,
    ) -> bool
    where
        D: Dma<Window = W>,
        P: Pages,
    {
        let needed = frame.len().div_ceil(self.buffer);
        if self.ring.size() > 0 && needed >= self.ring.size() as usize {
            self.ring.place.lint(&mut host.counters, Rule::BufferBelowSrrctl, frame.len() as u64);
            host.counters.drops.rx_ring_too_small += 1;
            return true;
        }
        // At most 16 of 1 KiB, so one fetch is always enough.
        if self.ring.got - self.ring.next < needed {
            self.write_back(&mut host.counters);
            self.ring.unfetch();
            self.fetch(host);
        }
        if self.ring.got - self.ring.next < needed {
            return self.starved(&mut host.counters, frame.len());
        }
        let mut sound = true;
        for (index, piece) in frame.chunks(self.buffer).enumerate() {
            let n = self.ring.next;
            sound &= host.dma.write(self.addresses[n], piece);
            let length = (piece.len() as u64) << rx_high::LENGTH_SHIFT;
            let last = index + 1 == needed;
            self.done[n] = match last {
                true => [classified.low, classified.status | rx_high::DD | rx_high::EOP | length],
                false => [classified.low, rx_high::DD | length],
            };
            self.ring.next += 1;
        }
        if sound {
            self.burst.add(&frame[..len]);
        } else {
            let last = self.ring.next - 1;
            self.fault(&mut host.counters, last);
        }
        true
    }

    /// Whether something waits to be written back.
    #[inline(always)]
    pub fn has_done(&self) -> bool {
        self.written < self.ring.next
    }

    /// Writes back what is done since the last time.
    #[inline]
    pub fn write_back(&mut self, counters: &mut Counters) {
        let (from, to) = (self.written, self.ring.next.min(FETCH));
        self.written = to;
        let Some(window) = self.ring.window() else { return };
        if from < to && window.load(self.ring.offset(from)) != self.addresses[from] {
            self.ring.place.lint(counters, Rule::DescriptorReusedWhileOwned, self.addresses[from]);
        }
        let Some(window) = self.ring.window() else { return };
        for n in from..to {
            let offset = self.ring.offset(n);
            let [low, high] = self.done[n];
            // DD goes last: the driver reads the rest once it sees it.
            if self.legacy {
                window.store_release(offset + 8, legacy(high));
            } else {
                window.store(offset, low);
                window.store_release(offset + 8, high);
            }
        }
    }

    /// The queue has nothing to do: shows its head.
    #[inline(always)]
    pub fn idle<P: Pages>(&mut self, pages: &P) {
        self.ring.publish(pages);
    }

    /// Hands the counts over.
    pub fn flush_counters(&mut self, counters: &mut Counters) {
        if self.burst.packets > 0 {
            counters.statistics.add_rx_burst(&self.burst);
            self.burst = RxBurst { queue: self.burst.queue, ..RxBurst::default() };
        }
    }
}

/// Writes a frame; short ones, of which there are most, as one block.
#[inline(always)]
fn write<D: Dma>(dma: &D, iova: u64, frame: &[u8]) -> bool {
    if let Ok(shortest) = <&[u8; 60]>::try_from(frame) {
        return dma.write(iova, shortest);
    }
    if let Ok(line) = <&[u8; 64]>::try_from(frame) {
        return dma.write(iova, line);
    }
    dma.write(iova, frame)
}

/// The second word of a legacy write-back for that of an advanced one.
fn legacy(high: u64) -> u64 {
    let to = |from: u64, bit: u64| if high & from != 0 { bit } else { 0 };
    (high >> rx_high::LENGTH_SHIFT & rx_legacy::LENGTH_MASK)
        | high >> rx_high::VLAN_SHIFT << rx_legacy::VLAN_SHIFT
        | to(rx_high::DD, rx_legacy::DD)
        | to(rx_high::EOP, rx_legacy::EOP)
        | to(rx_high::VP, rx_legacy::VP)
        | to(rx_high::L4I, rx_legacy::L4CS)
        | to(rx_high::IPCS, rx_legacy::IPCS)
        | to(rx_high::PIF, rx_legacy::PIF)
        | to(rx_high::RXE, rx_legacy::RXE)
        | to(rx_high::L4E, rx_legacy::TCPE)
        | to(rx_high::IPE, rx_legacy::IPE)
}
