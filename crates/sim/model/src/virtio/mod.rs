//! The virtio network device from inside: what its queues hold, and where
//! packets go.
//!
//! virtio 1.3 (OASIS), sections 2 and 5.1. [`Net`] is the device without a
//! transport: whoever has one sets features and queues and steps it. [`pci`] is
//! the modern PCI transport over it; vhost-user drives it directly. Not
//! modelled: receive coalescing (GUEST_TSO and its like), notification coalescing, administration queues, and the legacy interface.

mod area;
mod chain;
mod chip;
mod config;
mod control;
mod data_valid;
mod fault;
mod filter;
mod head;
mod host;
pub mod lint;
mod offload;
mod options;
pub mod pci;
mod queue;
mod ring;
mod rss;
mod rx;
mod steer;
mod tx;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use fault::{OTHER_MAC, OTHER_SPEED};
pub use host::{Drops, Totals};
pub use options::{Notify, Options};
pub use ring::{PACKED_START, RingAddresses};

use control::Subject;
use fault::ConfigFault;
use host::{Counters, Host, Interrupter};
use lint::{Lint, Rule};
use offload::Offloads;
use queue::Queue;
use regs::virtio::feature::{self, net};
use regs::virtio::net::header;
use regs::virtio::{packed, split};
use ring::Rules;
use rx::Rx;
use tx::Tx;

use crate::{Dma, Interrupts, Wire};

/// The link is looked at every so many steps.
const LINK_STEPS: u32 = 64;

/// A network device. `D` is its view of host memory.
pub struct Net<D: Dma> {
    host: Host<D>,
    options: Options,
    /// What the driver took.
    features: u64,
    /// The driver is ready.
    is_running: bool,
    queues: Vec<Queue<D::Window>>,
    pairs_in_use: u16,
    mac: [u8; 6],
    rx: Rx,
    tx: Tx,
    generation: u64,
    steps: u32,
    /// Changes with the configuration that the driver reads.
    config_generation: u8,
    /// Queues were set up, taken down, opened or broken: the parts take over.
    is_stale: bool,
    /// Queues that were broken when the driver was last told.
    told_broken: u64,
    needs_reset: bool,
    config_fault: ConfigFault,
}

impl<D: Dma> Net<D> {
    /// A device that was just powered on.
    pub fn new(dma: D, options: &Options) -> Net<D> {
        let options = options.clone().checked();
        let (mac, pairs) = (options.mac, options.pairs);
        Net {
            generation: dma.generation(),
            host: Host { dma, counters: Counters::default(), interrupter: Interrupter::default() },
            features: 0,
            is_running: false,
            queues: (0..2 * pairs + 1).map(Queue::new).collect(),
            pairs_in_use: 1,
            mac,
            rx: Rx::new(mac, pairs, options.longest()),
            tx: Tx::new(),
            steps: 0,
            config_generation: 0,
            is_stale: true,
            told_broken: 0,
            needs_reset: false,
            config_fault: ConfigFault::default(),
            options,
        }
    }

    /// The features it offers.
    pub fn offered(&self) -> u64 {
        self.options.features
    }

    /// The features in use.
    pub fn features(&self) -> u64 {
        self.features
    }

    /// How many queue pairs it has.
    pub fn pairs(&self) -> u16 {
        self.options.pairs
    }

    /// How many queues it has, the control queue included.
    pub fn queues(&self) -> u16 {
        self.queues.len() as u16
    }

    /// The most entries of a queue; a power of two unless packed rings are in
    /// use.
    pub fn queue_size(&self) -> u16 {
        match self.options.queue_size {
            size if self.has(feature::RING_PACKED) => size,
            size => 1 << size.ilog2(),
        }
    }

    /// The control queue's number: behind the pairs, of which there is one
    /// without MQ (5.1.2).
    pub fn control_queue(&self) -> Option<u16> {
        let pairs = if self.has(net::MQ) || self.has(net::RSS) { self.options.pairs } else { 1 };
        self.has(net::CTRL_VQ).then_some(regs::virtio::net::control_queue(pairs))
    }

    fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }

    /// Agrees on features. `false`, and nothing agreed, when the driver takes
    /// what is not offered, or one without what it requires (2.2.2).
    pub fn set_features(&mut self, features: u64) -> bool {
        if let Some((rule, bits)) = self.objection(features) {
            self.host.counters.report(rule, lint::Location::Device, bits);
            return false;
        }
        self.take_features(features);
        true
    }

    /// Agrees on what a front end says, which has the control queue itself, so
    /// that what needs one comes without; and whose notifications nobody hears,
    /// so that the device looks for buffers by itself.
    pub fn set_features_of_front_end(&mut self, features: u64) {
        self.options.notify = Notify::Polled;
        self.take_features(features & self.options.features);
    }

    fn take_features(&mut self, features: u64) {
        self.features = features;
        let modern = features & (feature::VERSION_1 | net::MRG_RXBUF) != 0;
        let length = match modern {
            _ if self.has(net::HASH_REPORT) => header::BYTES_HASH,
            true => header::BYTES,
            false => header::BYTES_LEGACY,
        };
        (self.rx.header, self.tx.header) = (length, length);
        self.rx.is_mergeable = self.has(net::MRG_RXBUF);
        self.rx.checks = self.has(net::GUEST_CSUM);
        self.rx.is_partial = self.options.partial_checksums && self.has(net::GUEST_CSUM);
        self.rx.filter.filter_vlans(self.has(net::CTRL_VLAN));
        self.tx.offloads = Offloads::of(features);
    }

    fn objection(&self, features: u64) -> Option<(Rule, u64)> {
        let unknown = features & !self.options.features;
        if unknown != 0 {
            return Some((Rule::FeatureNotOffered, unknown));
        }
        let lacking = options::REQUIRES
            .iter()
            .find(|(feature, needed)| features & feature != 0 && features & needed == 0);
        lacking.map(|(feature, _)| (Rule::FeatureLacksAnother, *feature))
    }

    /// What negotiated features mean to rings.
    fn rules(&self) -> Rules {
        Rules {
            packed: self.has(feature::RING_PACKED),
            indirect: self.has(feature::INDIRECT_DESC),
            event_index: self.has(feature::EVENT_IDX),
            in_order: self.has(feature::IN_ORDER),
        }
    }

    /// The driver hands a queue over; it goes on behind `base`, or begins when
    /// that is `None`. `false` for one that cannot lie there.
    pub fn set_up(&mut self, index: u16, place: RingAddresses, base: Option<u32>) -> bool {
        let rules = self.rules();
        if let Some((rule, value)) = self.misplaced(&place, rules) {
            self.host.counters.report(rule, lint::Location::Queue(index), value);
            return false;
        }
        let Some(queue) = self.queues.get_mut(usize::from(index)) else { return false };
        queue.set_up(place, base, rules);
        self.is_stale = true;
        true
    }

    fn misplaced(&self, place: &RingAddresses, rules: Rules) -> Option<(Rule, u64)> {
        let RingAddresses { size, descriptors, driver, device } = *place;
        let power = rules.packed || size.is_power_of_two();
        if size == 0 || size > self.options.queue_size || !power {
            return Some((Rule::QueueSizeInvalid, size.into()));
        }
        let (driver_align, device_align) = match rules.packed {
            true => (packed::event::ALIGN, packed::event::ALIGN),
            false => (split::available::ALIGN, split::used::ALIGN),
        };
        let aligns = [split::descriptor::ALIGN, driver_align, device_align];
        let crooked = [descriptors, driver, device].into_iter().zip(aligns);
        let mut crooked = crooked.filter(|&(address, align)| !address.is_multiple_of(align as u64));
        crooked.next().map(|(address, _)| (Rule::QueueMisaligned, address))
    }

    /// Takes a queue back; where it would go on.
    pub fn take_down(&mut self, index: u16) -> u32 {
        self.is_stale = true;
        self.host.counters.drops.rx_reset += self.rx.forget_queue(index);
        self.queues.get_mut(usize::from(index)).map_or(0, Queue::take_down)
    }

    /// A queue that is not enabled takes and gives nothing.
    pub fn enable(&mut self, index: u16, on: bool) {
        if let Some(queue) = self.queues.get_mut(usize::from(index)) {
            queue.is_enabled = on;
            self.is_stale = true;
        }
    }

    /// Whether the driver broke a queue, so that it no longer runs.
    pub fn is_broken(&self, index: u16) -> bool {
        self.queues.get(usize::from(index)).is_some_and(|queue| queue.is_broken)
    }

    /// Uses the first `pairs` pairs, as where no control queue says so.
    pub fn use_pairs(&mut self, pairs: u16) {
        self.pairs_in_use = pairs.clamp(1, self.options.pairs);
        self.is_stale = true;
    }

    /// The interrupt vector of a queue.
    pub fn set_vector(&mut self, index: u16, vector: Option<u16>) {
        if let Some(queue) = self.queues.get_mut(usize::from(index)) {
            queue.vector = vector;
        }
    }

    /// The driver says that a queue has buffers.
    pub fn kick(&mut self, index: u16) {
        self.host.counters.totals.kicks += 1;
        if let Some(queue) = self.queues.get_mut(usize::from(index)) {
            queue.kick();
        }
    }

    /// The driver is ready, or no longer: no packet moves before.
    pub fn run(&mut self, on: bool) {
        self.is_running = on;
        self.is_stale = true;
    }

    /// Does some of the work there is and returns how many packets moved; 0
    /// means idle. The work is bounded: 64 frames from the wire, 64 buffers of
    /// each transmit queue and 4 MiB (and one packet) of them all.
    #[inline]
    pub fn step<C: Wire>(&mut self, wire: &mut C, _now_ns: u64) -> usize {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(LINK_STEPS) || wire.is_up() != self.rx.link_up {
            self.follow_link(wire.is_up());
        }
        let generation = self.host.dma.generation();
        if generation != self.generation || self.is_stale {
            self.generation = generation;
            self.configure();
        }
        if !self.is_running {
            return self.discard(wire);
        }
        let Net { host, queues, rx, tx, .. } = self;
        let pairs = usize::from(self.pairs_in_use);
        let link_up = rx.link_up;
        let mut moved = match wire.takes_frames() {
            true => tx.step(queues, pairs, host, wire, &mut rx.steer, link_up),
            false => 0,
        };
        moved += rx.step(queues, host, wire);
        moved += self.step_control();
        if self.host.counters.totals.broken_queues != self.told_broken {
            self.tell_broken();
        }
        moved
    }

    #[inline]
    fn step_control(&mut self) -> usize {
        let Some(index) = self.control_queue() else { return 0 };
        let Net { host, queues, rx, .. } = self;
        let Some(queue) = queues.get_mut(usize::from(index)) else { return 0 };
        let before = self.pairs_in_use;
        let mut subject = Subject {
            features: self.features,
            rx,
            pairs: self.options.pairs,
            pairs_in_use: &mut self.pairs_in_use,
            mac: &mut self.mac,
            place: lint::Location::Queue(index),
        };
        let done = control::step(queue, host, &mut subject);
        if done > 0 {
            queue.publish(host);
        }
        if self.pairs_in_use != before {
            self.is_stale = true;
        }
        done
    }

    /// Queues and mappings have changed: opens rings and spreads anew.
    #[cold]
    fn configure(&mut self) {
        self.is_stale = false;
        let sleeps = self.options.notify == Notify::Wanted;
        let on = self.is_running;
        for queue in self.queues.iter_mut().filter(|queue| queue.is_set_up() && on) {
            queue.open(&mut self.host, sleeps);
        }
        let receives = |&pair: &u16| {
            let queue = &self.queues[2 * usize::from(pair)];
            queue.is_set_up() && queue.is_enabled && on
        };
        let pairs = (0..self.pairs_in_use).filter(receives).collect();
        self.rx.steer.set_pairs(pairs);
    }

    /// Nobody receives: frames of a wire that does not wait are lost.
    #[cold]
    fn discard<C: Wire>(&mut self, wire: &mut C) -> usize {
        if wire.has_backpressure() {
            return 0;
        }
        let mut scratch = vec![0; crate::MAX_FRAME];
        let taken = wire.receive_burst(&mut scratch, 64, &mut |_, _| {});
        self.host.counters.totals.rx_offered += taken as u64;
        self.host.counters.drops.rx_not_running += taken as u64;
        taken
    }

    /// A queue was broken: asks for a reset (2.1.2).
    #[cold]
    fn tell_broken(&mut self) {
        self.told_broken = self.host.counters.totals.broken_queues;
        self.needs_reset = true;
        if self.is_running {
            self.host.interrupt_config();
        }
    }

    /// Whether the device asks to be reset.
    pub fn needs_reset(&self) -> bool {
        self.needs_reset
    }

    /// As after power-on, but for what was counted and where interrupts go.
    pub fn reset(&mut self) {
        self.queues.iter_mut().for_each(|queue| *queue = Queue::new(queue.index));
        self.host.counters.drops.rx_reset += self.rx.forget();
        self.host.counters.totals.resets += 1;
        let link_up = self.rx.link_up;
        self.rx = Rx::new(self.options.mac, self.options.pairs, self.options.longest());
        self.rx.link_up = link_up;
        self.tx = Tx::new();
        (self.mac, self.pairs_in_use, self.features) = (self.options.mac, 1, 0);
        (self.is_running, self.needs_reset, self.is_stale) = (false, false, true);
        self.told_broken = self.host.counters.totals.broken_queues;
        (self.host.interrupter.isr, self.host.interrupter.config_vector) = (0, None);
        self.host.dma.forget();
    }

    /// Where interrupts go; without one nobody is woken.
    pub fn set_interrupts(&mut self, messages: Option<Box<dyn Interrupts>>) {
        self.host.interrupter.messages = messages;
    }

    /// Packets lost so far, by name.
    pub fn drops(&self) -> &Drops {
        &self.host.counters.drops
    }

    /// What moved since power-on; nothing clears it.
    pub fn totals(&self) -> &Totals {
        &self.host.counters.totals
    }

    /// Frames that wait for a buffer.
    pub fn waiting(&self) -> usize {
        self.rx.waiting()
    }

    /// What the driver did wrong.
    pub fn lint(&self) -> &Lint {
        &self.host.counters.lint
    }

    /// Reports a rule that a transport sees broken.
    pub fn report(&mut self, rule: Rule, place: lint::Location, value: u64) {
        self.host.counters.report(rule, place, value);
    }

    /// Its address now.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Its view of host memory.
    pub fn dma(&self) -> &D {
        &self.host.dma
    }
}
