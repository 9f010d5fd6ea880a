//! A queue: where it lies, whether it runs, and what the driver did to it.

use super::chain::{Breach, Chain};
use super::host::{Counters, Host};
use super::lint::{Location, Rule};
use super::ring::{PACKED_START, RingAddresses, Rules, VirtqueueRing};
use crate::{Dma, Window};

/// A virtqueue of the device, whether it is set up or not.
#[derive(Debug)]
pub(super) struct Queue<W> {
    pub index: u16,
    /// Where it lies, once it was set up.
    place: Option<RingAddresses>,
    /// Where to go on when it is opened.
    base: u32,
    ring: Option<VirtqueueRing<W>>,
    /// A queue that is not enabled takes and gives nothing.
    pub is_enabled: bool,
    /// The driver broke it; a reset mends it.
    pub is_broken: bool,
    pub vector: Option<u16>,
    /// Whether buffers are looked for only when the driver has notified us.
    sleeps: bool,
    /// It found nothing, and the driver was asked to notify.
    is_asleep: bool,
    rules: Rules,
}

impl<W: Window> Queue<W> {
    pub fn new(index: u16) -> Queue<W> {
        Queue {
            index,
            place: None,
            base: 0,
            ring: None,
            is_enabled: true,
            is_broken: false,
            vector: None,
            sleeps: false,
            is_asleep: false,
            rules: Rules::default(),
        }
    }

    pub fn is_set_up(&self) -> bool {
        self.place.is_some()
    }

    /// Entries, while it is set up.
    pub fn size(&self) -> u32 {
        self.place.map_or(0, |place| place.size.into())
    }

    /// Whether buffers can be taken and used.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.ring.is_some() && self.is_enabled && !self.is_broken
    }

    /// The driver set the queue up; it goes on behind `base`, if that is known.
    pub fn set_up(&mut self, place: RingAddresses, base: Option<u32>, rules: Rules) {
        let start = if rules.packed { PACKED_START } else { 0 };
        (self.place, self.base, self.rules) = (Some(place), base.unwrap_or(start), rules);
        (self.ring, self.is_broken) = (None, false);
    }

    /// Takes a queue back; where it would go on.
    pub fn take_down(&mut self) -> u32 {
        let base = self.ring.take().map_or(self.base, |ring| ring.base());
        *self = Queue { vector: self.vector, ..Queue::new(self.index) };
        base
    }

    /// Asks for the queue's memory, again when mappings have changed.
    pub fn open<D: Dma<Window = W>>(&mut self, host: &mut Host<D>, sleeps: bool) {
        let Some(place) = self.place.filter(|_| !self.is_broken) else { return };
        if let Some(ring) = self.ring.take() {
            self.base = ring.base();
        }
        self.ring = VirtqueueRing::open(&host.dma, &place, self.rules, self.base);
        (self.sleeps, self.is_asleep) = (sleeps, false);
        match &self.ring {
            Some(ring) => ring.want_kick(false),
            None => host.counters.report(Rule::RingUnmapped, Location::Queue(self.index), place.descriptors),
        }
    }

    /// The driver has notified us.
    pub fn kick(&mut self) {
        if std::mem::take(&mut self.is_asleep)
            && let Some(ring) = &self.ring
        {
            ring.want_kick(false);
        }
    }

    /// How many buffers are at hand, `wanted` at most.
    pub fn at_hand(&mut self, wanted: u16, counters: &mut Counters) -> u16 {
        if !self.is_on() || self.is_asleep {
            return 0;
        }
        let found = self.ring.as_mut().map_or(Ok(0), |ring| ring.at_hand(wanted));
        found.unwrap_or_else(|breach| {
            self.break_down(breach, counters);
            0
        })
    }

    /// Takes the next buffer into `chain`; `false` when there is none, or no
    /// longer any because the driver broke the queue.
    #[inline(always)]
    pub fn take<D: Dma<Window = W>>(&mut self, host: &mut Host<D>, chain: &mut Chain) -> bool {
        if self.is_asleep {
            return false;
        }
        let Some(ring) = &mut self.ring else { return false };
        match ring.take(&host.dma, chain) {
            Ok(true) => {
                if chain.is_mixed | chain.has_empty {
                    self.report_chain(chain, &mut host.counters);
                }
                true
            }
            Ok(false) => self.sleeps && self.doze(host, chain),
            Err(breach) => {
                self.break_down(breach, &mut host.counters);
                false
            }
        }
    }

    #[cold]
    fn report_chain(&self, chain: &Chain, counters: &mut Counters) {
        if chain.is_mixed {
            counters.report(Rule::ReadableAfterWritable, Location::Queue(self.index), chain.id.into());
        }
        if chain.has_empty {
            counters.report(Rule::BufferEmpty, Location::Queue(self.index), chain.id.into());
        }
    }

    /// Nothing is there: asks for a notification, and looks once more, for the
    /// driver may have made a buffer available before it saw that.
    #[cold]
    fn doze<D: Dma<Window = W>>(&mut self, host: &mut Host<D>, chain: &mut Chain) -> bool {
        let Some(ring) = &mut self.ring else { return false };
        ring.want_kick(true);
        match ring.take(&host.dma, chain) {
            Ok(true) => {
                ring.want_kick(false);
                true
            }
            Ok(false) => {
                self.is_asleep = true;
                false
            }
            Err(breach) => {
                self.break_down(breach, &mut host.counters);
                false
            }
        }
    }

    #[cold]
    fn break_down(&mut self, breach: Breach, counters: &mut Counters) {
        self.is_broken = true;
        counters.totals.broken_queues += 1;
        counters.report(breach.rule, Location::Queue(self.index), breach.value);
    }

    /// Gives back the last buffer taken and not put.
    pub fn untake(&mut self, span: u16) {
        if let Some(ring) = &mut self.ring {
            ring.untake(span);
        }
    }

    /// Has used a buffer and wrote `len` bytes to it.
    #[inline(always)]
    pub fn put(&mut self, id: u16, span: u16, len: u32) {
        if let Some(ring) = &mut self.ring {
            ring.put(id, span, len);
        }
    }

    /// Has used a buffer up that there was nothing to write to.
    #[inline(always)]
    pub fn put_read(&mut self, id: u16, span: u16) {
        if let Some(ring) = &mut self.ring {
            ring.put_read(id, span);
        }
    }

    /// Shows the driver what was used since the last time, and wakes it if it
    /// wants to be.
    #[inline(always)]
    pub fn publish<D>(&mut self, host: &mut Host<D>) {
        let Some(ring) = &mut self.ring else { return };
        if ring.publish() {
            host.interrupt_queue(self.vector);
        }
    }
}
