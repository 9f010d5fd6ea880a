//! The Intel XL710 from inside, or an X722: one physical function with its firmware, what its registers
//! do, and where packets go.
//!
//! Datasheet 332464, cited by chapters. [`I40e::step`] does some bounded work; [`I40e::read`]
//! and [`I40e::write`] are accesses to BAR 0 outside the polled pages (inside them, too, for a
//! driver that maps nothing). The firmware answers a command as soon as the tail is moved.
//! Virtual functions are devices of their own ([`Vf`]). Not modelled: VSIs but for theirs, the
//! function's own and Flow Director's, DCB, times of sent packets, tunnels; the registers of what is
//! not modelled keep what is written.

mod admin;
mod bring_up;
mod chip;
mod director;
mod dispatch;
mod elements;
mod family;
mod firmware;
mod hash;
mod hmc;
mod host;
mod interrupts;
mod link;
pub mod lint;
mod list;
mod nvm;
mod registers;
mod ring;
mod rss;
mod rx;
mod setup;
mod sriov;
mod statistics;
mod switch;
mod timesync;
mod tx;
mod write_back;

#[cfg(test)]
mod tests;

pub use host::Drops;
pub use interrupts::VECTORS;
pub use registers::POLLED;
pub use ring::HandedRing;
pub use setup::{FIRMWARE_WORDS, FirmwareSetup, Module};
pub use sriov::{MOST_VFS, SharedSlot, VF_POLLED, VF_VECTORS, Vf};
pub use write_back::write_back;

use bring_up::Seen;
use director::Director;
use hmc::Hmc;
use host::{Counters, Host};
use link::Link;
use lint::{Lint, Location, Rule};
use nvm::Nvm;
use registers::Registers;
use rx::Rx;
use sriov::Sriov;
use switch::Switch;
use timesync::TimeSync;
use tx::Tx;

use std::collections::BTreeSet;

use crate::{Dma, Interrupts, Pages, Wire};
use regs::i40e::{Family, PFGEN_CTRL, PFINT_ICR0, QRX_TAIL, QTX_TAIL, VFS};

/// Queues of each kind.
pub const QUEUES: u16 = 128;

/// Resets of the card, as GLGEN_RSTAT tells them.
const CORE_RESET: u32 = 1;
const GLOBAL_RESET: u32 = 2;
/// How long one waits, as GLGEN_RSTCTL tells it, and the unit of that.
const RESET_DELAY: u32 = 1;
const RESET_DELAY_UNIT_NS: u64 = 100_000_000;

/// An XL710 or an X722. `D` is its view of host memory, `P` the pages it shares.
pub struct I40e<D: Dma, P: Pages> {
    host: Host<D, P>,
    family: Family,
    /// What its firmware tells.
    firmware: FirmwareSetup,
    mac: [u8; 6],
    now_ns: u64,
    generation: u64,
    /// Registers have changed that the data path has not yet taken over.
    stale: bool,
    registers: Registers,
    /// Which reset of the card was the last; zero for power-on.
    last_reset: u32,
    /// When the next one comes, if one was asked for.
    reset_due_ns: Option<u64>,
    /// What the driver has seen before it talks to the firmware.
    seen: Seen,
    director: Director,
    hmc: Hmc,
    link: Link,
    nvm: Nvm,
    switch: Switch,
    /// Virtual functions, if the card has any.
    sriov: Option<Sriov>,
    /// Commands that stopped for good what ran since power-on.
    stopped: BTreeSet<u16>,
    rx: Rx<D::Window>,
    tx: Tx<D::Window>,
    /// Where interrupts go.
    messages: Option<Box<dyn Interrupts>>,
}

impl<D: Dma, P: Pages> I40e<D, P> {
    /// An XL710 that was just powered on, with this address.
    pub fn new(dma: D, pages: P, mac: [u8; 6]) -> I40e<D, P> {
        I40e::with_vfs(Family::Xl710, dma, pages, mac, &[])
    }

    /// Likewise a chip of any family, with the virtual functions that have these slots, [`MOST_VFS`]
    /// at most.
    pub fn with_vfs(family: Family, dma: D, pages: P, mac: [u8; 6], vfs: &[SharedSlot]) -> I40e<D, P> {
        let vfs = &vfs[..vfs.len().min(MOST_VFS)];
        let counters = Counters { time_sync: TimeSync::new(family), ..Counters::default() };
        let mut device = I40e {
            generation: dma.generation(),
            host: Host { dma, pages, counters },
            family,
            firmware: FirmwareSetup::default(),
            mac,
            now_ns: 0,
            stale: true,
            registers: Registers::new(family),
            last_reset: 0,
            reset_due_ns: None,
            seen: Seen::default(),
            director: Director::new(family),
            hmc: Hmc::default(),
            link: Link::new(family),
            nvm: Nvm::new(),
            switch: Switch::new(mac),
            sriov: (!vfs.is_empty()).then(|| Sriov::new(vfs)),
            stopped: BTreeSet::new(),
            rx: Rx::new(family, QUEUES, QRX_TAIL::REGISTER),
            tx: Tx::new(QUEUES, QTX_TAIL::REGISTER),
            messages: None,
        };
        device.reset_function();
        device
    }

    /// The number on the card of the first virtual function, which is zero on a card's first port only.
    /// Numbers end with [`VFS`].
    pub fn set_first_vf(&mut self, first: u16) {
        if let Some(sriov) = &mut self.sriov {
            sriov.base = usize::from(first).min(VFS - sriov.vfs.len());
        }
    }

    /// Does some of the work there is and returns how many packets moved; 0 means idle.
    /// `now_ns` must not go backwards. The work is bounded: 64 frames from the wire, 64
    /// descriptors of each transmit queue and some 4 MiB, read and sent, of them all; of virtual
    /// functions 64 frames for each, and some 4 MiB of them all, copies included. A virtual function
    /// takes what waits for it in its own steps, and no more than a MiB waits: so much is copied at
    /// most of what others send to it.
    pub fn step<C: Wire>(&mut self, wire: &mut C, now_ns: u64) -> usize {
        self.attend(wire.is_up(), now_ns);
        let up = self.link.is_up();
        let may_send = wire.takes_frames();
        let I40e { host, rx, tx, director, switch, sriov, link, .. } = self;
        let mut out = |host: &mut Host<D, P>, frame: &[u8]| {
            if switch.drops_sent(frame) {
                host.counters.drop_control(frame);
                return false;
            }
            let leaves = sriov::leaves(sriov, switch, frame);
            if leaves {
                wire.transmit(frame);
            }
            leaves
        };
        let mut moved = if may_send { tx.step(host, director, up, &mut out) } else { 0 };
        rx.tell(host, director);
        moved += rx.step(host, director, (switch, sriov), up, link.max_frame.into(), wire);
        moved += if up && wire.takes_frames() { self.forward(wire) } else { 0 };
        self.rx.watch(&mut self.host, now_ns);
        if let Some(messages) = &mut self.messages {
            self.host.counters.interrupts.poll(now_ns, &mut |vector| messages.raise(vector));
        }
        moved
    }

    /// What a step does beside moving packets: resets that are due, the link and its light,
    /// messages and events, and what has changed of memory and registers.
    pub fn attend(&mut self, light: bool, now_ns: u64) {
        (self.now_ns, self.host.counters.time_sync.now_ns) = (now_ns, now_ns);
        if self.reset_due_ns.is_some_and(|due_ns| due_ns <= now_ns) {
            self.reset_card();
        }
        self.link.set_light(light);
        self.notice_vfs();
        self.post_events();
        let generation = self.host.dma.generation();
        if generation != self.generation {
            self.generation = generation;
            self.translate();
        }
        self.take_over();
    }

    /// The receive rings that run.
    pub fn rx_rings(&self) -> impl Iterator<Item = HandedRing> {
        self.rx.queues.iter().enumerate().filter_map(|(n, queue)| queue.ring.handed(n, None))
    }

    /// The transmit rings that run.
    pub fn tx_rings(&self) -> impl Iterator<Item = HandedRing> {
        self.tx.queues.iter().enumerate().filter_map(|(n, queue)| queue.handed(n))
    }

    /// Takes over registers and properties that have changed.
    fn take_over(&mut self) {
        if std::mem::take(&mut self.stale) {
            self.rx.configure(&self.registers, &self.switch);
            self.director.configure(&self.registers, &self.switch, &mut self.host.counters);
        }
    }

    /// Mappings have changed: rings are translated anew.
    #[cold]
    fn translate(&mut self) {
        let I40e { host, rx, tx, .. } = self;
        rx.queues.iter_mut().for_each(|queue| queue.ring.translate(host));
        tx.queues.iter_mut().for_each(|queue| queue.ring.translate(host));
    }

    /// What the PCI command register's Bus Master Enable says: without it the device accesses
    /// no memory.
    pub fn set_bus_master(&mut self, on: bool) {
        if self.host.counters.dma_off == on {
            self.host.counters.dma_off = !on;
            self.translate();
        }
    }

    /// A reset of the whole device, as by power.
    pub fn reset(&mut self) {
        self.registers = Registers::new(self.family);
        (self.last_reset, self.reset_due_ns) = (0, None);
        self.director.reset();
        self.stopped.clear();
        self.host.counters.time_sync.reset();
        self.host.counters.malicious = false;
        self.seen = Default::default();
        self.reset_function();
        self.host.dma.forget();
    }

    /// A reset of the function (chapter 4): queues, interrupts, admin queues, filters and the
    /// host memory cache are as after power-on; statistics stay, and what belongs to the whole
    /// card.
    fn reset_function(&mut self) {
        let I40e { host, rx, tx, .. } = self;
        for queue in &mut rx.queues {
            queue.ring.disable();
            (queue.cause, queue.ring.awaited) = (0, None);
        }
        for queue in &mut tx.queues {
            queue.disable(&mut host.counters);
            (queue.cause, queue.announced, queue.ring.awaited) = (0, None, None);
        }
        for n in 0..QUEUES.into() {
            host.pages.store(QTX_TAIL::at(n), 0);
            host.pages.store(QRX_TAIL::at(n), 0);
        }
        host.counters.interrupts.reset();
        self.registers.reset();
        self.director.clear();
        self.hmc.reset();
        self.switch = Switch::new(self.mac);
        self.link.reset();
        if let Some(sriov) = &mut self.sriov {
            sriov.reset(&mut self.registers);
        }
        self.stale = true;
    }

    /// The driver asked for a reset of the function.
    fn reset_by_driver(&mut self) {
        let running = self.queues();
        if running != (0, 0) {
            let place = Location::Register(PFGEN_CTRL::ID, 0);
            let number = (running.0 + running.1) as u64;
            self.host.counters.report(Rule::ResetWithQueuesEnabled, place, number);
        }
        self.reset_function();
        self.seen.reset();
    }

    /// Some function's driver asked for a reset of the whole card: all of them are told by an
    /// interrupt, and have some time to stop (chapter 4).
    fn announce_reset(&mut self, global: bool) {
        self.host.counters.interrupts.cause(PFINT_ICR0::GRST);
        self.last_reset = if global { GLOBAL_RESET } else { CORE_RESET };
        self.reset_due_ns = Some(self.now_ns.saturating_add(u64::from(RESET_DELAY) * RESET_DELAY_UNIT_NS));
    }

    /// That time is over.
    fn reset_card(&mut self) {
        self.reset_due_ns = None;
        self.host.counters.malicious = false;
        self.host.counters.time_sync.reset();
        self.registers = Registers::new(self.family);
        self.director.reset();
        self.reset_function();
    }

    /// Where interrupts go; without one they stay pending.
    pub fn set_interrupts(&mut self, messages: Option<Box<dyn Interrupts>>) {
        self.messages = messages;
    }

    /// Packets lost so far, by name.
    pub fn drops(&self) -> &Drops {
        &self.host.counters.drops
    }

    /// What the driver did wrong.
    pub fn lint(&self) -> &Lint {
        &self.host.counters.lint
    }

    /// Enabled receive and transmit queues.
    pub fn queues(&self) -> (usize, usize) {
        let rx = self.rx.queues.iter().filter(|queue| queue.ring.enabled).count();
        (rx, self.tx.queues.iter().filter(|queue| queue.ring.enabled).count())
    }
}
