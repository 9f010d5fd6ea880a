//! The Intel 82599 from inside: what its registers do, and where packets go.
//!
//! 82599 datasheet rev. 3.4, the physical function. [`Ixgbe::step`] does some
//! bounded work; [`Ixgbe::read`] and [`Ixgbe::write`] are accesses to BAR 0
//! outside the polled pages (inside them, too, for a driver that maps nothing).
//! Virtual functions are devices of their own ([`Vf`]). Flow Director, receive coalescing, DCB, FCoE and IPsec
//! are not modelled: their registers keep what is written. Nor are timestamps, but those that an X550
//! puts behind frames.

mod chip;
mod dispatch;
pub mod eeprom;
mod fifo;
mod filter;
pub(crate) mod headers;
mod host;
pub mod i2c;
mod inspect;
pub mod interrupts;
pub mod link;
pub mod lint;
pub mod mdio;
mod packet;
mod queue;
mod registers;
mod rss;
mod rx;
mod rx_queue;
pub mod semaphore;
mod sriov;
mod start;
pub mod statistics;
mod system_time;
mod tx;
mod watch;
mod write_back;

#[cfg(test)]
mod tests;

pub use host::Drops;
pub use registers::POLLED;
pub use sriov::{MOST_VFS, SharedSlot, VF_POLLED, Vf};
pub use write_back::write_back;

use eeprom::Eeprom;
use host::{Counters, Host};
use i2c::{I2c, module::Module};
use link::{Link, Reset};
use lint::{Lint, Rule};
use mdio::{Mdio, Phy};
use registers::Registers;
use rx::Rx;
use semaphore::Semaphore;
use sriov::Sriov;
use statistics::Totals;
use system_time::SystemTime;
use tx::Tx;

use crate::{Dma, FrameError, Interrupts, Pages, Wire};
use regs::ixgbe::{EICR, HLREG0, RXDCTL, TSAUXC, TXDCTL, device};

/// Queues are looked at for being enabled or disabled this often.
const INSPECT_NS: u64 = 50_000;
/// ... and every so many steps, for a caller whose clock stands still.
const INSPECT_STEPS: u32 = 128;

/// What distinguishes one 82599 from another.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The EEPROM's contents, with the MAC address.
    pub eeprom: eeprom::Config,
    /// The port and its medium.
    pub link: link::Config,
    /// The SFP+ module in the cage.
    pub module: Option<Module>,
    /// An external PHY on the MDIO bus.
    pub phy: Option<Phy>,
}

/// An 82599. `D` is its view of host memory, `P` the pages it shares.
pub struct Ixgbe<D: Dma, P: Pages> {
    host: Host<D, P>,
    now_ns: u64,
    steps: u32,
    next_inspection_ns: u64,
    generation: u64,
    /// Registers have changed that the data path has not yet taken over.
    stale: bool,
    registers: Registers,
    rx: Rx<D::Window>,
    tx: Tx<D::Window>,
    link: Link,
    eeprom: Eeprom,
    i2c: I2c,
    mdio: Mdio,
    semaphore: Semaphore,
    system_time: SystemTime,
    /// Virtual functions, if the port has any.
    sriov: Option<Sriov>,
    /// Where interrupts go.
    messages: Option<Box<dyn Interrupts>>,
}

impl<D: Dma, P: Pages> Ixgbe<D, P> {
    /// A device that was just powered on.
    pub fn new(dma: D, pages: P, options: &Options) -> Ixgbe<D, P> {
        Ixgbe::with_vfs(dma, pages, options, &[])
    }

    /// Likewise, with the virtual functions that have these slots, [`MOST_VFS`] at most.
    pub fn with_vfs(dma: D, pages: P, options: &Options, vfs: &[SharedSlot]) -> Ixgbe<D, P> {
        let vfs = &vfs[..vfs.len().min(MOST_VFS)];
        let eeprom = Eeprom::new(&options.eeprom);
        let registers = Registers::new(eeprom.mac());
        let stamps = device(options.eeprom.device_id).is_some_and(|device| device.stamps_each_frame());
        let mut device = Ixgbe {
            now_ns: 0,
            steps: 0,
            next_inspection_ns: 0,
            generation: dma.generation(),
            stale: true,
            rx: Rx::new(&registers),
            tx: Tx::new(),
            sriov: (!vfs.is_empty()).then(|| Sriov::new(vfs, &registers)),
            registers,
            link: Link::new(options.link, 0),
            eeprom,
            i2c: I2c::new(options.module.clone()),
            mdio: Mdio::new(options.phy.clone()),
            semaphore: Semaphore::new(options.phy.is_some()),
            system_time: SystemTime::new(stamps),
            messages: None,
            host: Host { dma, pages, counters: Counters::default() },
        };
        device.clear_pages();
        device.reset_system_time();
        device
    }

    /// Does some of the work there is and returns how many packets moved; 0
    /// means idle. `now_ns` must not go backwards. The work is bounded: 64
    /// frames from the wire, 64 descriptors of each transmit queue and 4 MiB (and
    /// one packet) of them all; of virtual functions 64 frames for each, and some 4 MiB of
    /// them all, copies included.
    pub fn step<C: Wire>(&mut self, wire: &mut C, now_ns: u64) -> usize {
        self.notice_vfs();
        if self.is_inspection_due(now_ns) {
            self.follow_link(wire.is_up());
            self.inspect_queues();
        }
        self.take_over();
        let moved = if self.registers.read(HLREG0::AT) & HLREG0::LPBK != 0 {
            self.step_looped(wire)
        } else if self.has_pools() {
            self.step_pools(wire)
        } else {
            self.step_wired(wire)
        };
        self.raise_interrupts();
        moved
    }

    /// Whether queues are to be looked at in this step.
    #[inline(always)]
    fn is_inspection_due(&mut self, now_ns: u64) -> bool {
        (self.now_ns, self.rx.now_ns) = (now_ns, now_ns);
        self.steps = self.steps.wrapping_add(1);
        let due = now_ns >= self.next_inspection_ns || self.steps.is_multiple_of(INSPECT_STEPS);
        if due {
            self.next_inspection_ns = now_ns.saturating_add(INSPECT_NS);
        }
        due
    }

    /// Takes over mappings and registers that have changed.
    #[inline(always)]
    fn take_over(&mut self) {
        let generation = self.host.dma.generation();
        if generation != self.generation {
            self.generation = generation;
            self.translate();
        }
        if self.stale {
            self.configure();
        }
    }

    #[inline(always)]
    fn raise_interrupts(&mut self) {
        if let Some(messages) = &mut self.messages {
            self.host.counters.interrupts.poll(self.now_ns, &mut |vector| messages.raise(vector));
        }
    }

    /// A step of queues that are a pool's: frames go by its switch, and there is no link of their own.
    /// Packets moved, and whether queues were looked at.
    /// Frames that `wait` may be for a queue that was enabled just now.
    fn step_as_pool<C: Wire>(
        &mut self,
        wire: &mut C,
        may_send: bool,
        wait: bool,
        now_ns: u64,
    ) -> (usize, bool) {
        let due = self.is_inspection_due(now_ns) || wait;
        if due {
            self.inspect_queues();
        }
        self.take_over();
        let Ixgbe { host, rx, tx, .. } = self;
        let sent = if may_send { tx.step(host, now_ns, &mut |_, frame| wire.transmit(frame)) } else { 0 };
        let moved = sent + rx.step(host, Some(wire));
        self.raise_interrupts();
        (moved, due)
    }

    /// A reset of queues that are a pool's.
    fn reset_as_pool(&mut self) {
        self.stop_queues();
        self.host.counters.drops.rx_reset += self.rx.fifo.clear();
        self.clear_pages();
        self.registers.reset(self.eeprom.mac());
        self.host.counters.interrupts.reset();
        self.stale = true;
    }

    #[inline(always)]
    fn step_wired<C: Wire>(&mut self, wire: &mut C) -> usize {
        let Ixgbe { host, rx, tx, .. } = self;
        let mut moved = 0;
        if tx.enabled && self.link.is_up() && !self.link.tx_paused(self.now_ns) && wire.takes_frames() {
            moved += tx.step(host, self.now_ns, &mut |_, frame| wire.transmit(frame));
        }
        moved + rx.step(host, Some(wire))
    }

    /// MAC loopback (HLREG0.LPBK): what is sent is received, and nothing from the wire.
    #[cold]
    fn step_looped<C: Wire>(&mut self, wire: &mut C) -> usize {
        let Ixgbe { host, rx, tx, .. } = self;
        let mut moved = 0;
        if tx.enabled {
            moved += tx.step(host, self.now_ns, &mut |host, frame| {
                host.counters.rx_offered += 1;
                rx.arrive(host, frame, FrameError::None, false);
            });
        }
        moved += rx.step(host, None::<&mut C>);
        if !wire.has_backpressure() {
            let mut scratch = vec![0; crate::MAX_FRAME];
            let taken = wire.receive_burst(&mut scratch, 64, &mut |_, _| {});
            host.counters.rx_offered += taken as u64;
            host.counters.drops.rx_disabled += taken as u64;
            moved += taken;
        }
        moved
    }

    /// The data path takes over what the registers say.
    #[cold]
    fn configure(&mut self) {
        self.stale = false;
        let links = self.link.links();
        let first_queue = self.sriov.as_mut().map_or(0, |sriov| {
            sriov.configure(&self.registers, links);
            sriov.first_queue()
        });
        let up = self.link.is_up();
        self.rx.configure(&self.registers, up, first_queue, self.system_time, &mut self.host.counters);
        self.tx.configure(&self.registers, links);
    }

    /// Mappings have changed: rings are translated anew.
    #[cold]
    fn translate(&mut self) {
        let Ixgbe { rx, tx, host, .. } = self;
        for ring in rx.queues.iter_mut().map(|queue| &mut queue.ring).filter(|ring| !ring.enabled) {
            ring.check_stopped(host);
        }
        for ring in tx.queues.iter_mut().map(|queue| &mut queue.ring).filter(|ring| !ring.enabled) {
            ring.check_stopped(host);
        }
        for &n in &rx.active {
            rx.queues[usize::from(n)].ring.translate(host);
        }
        for &n in &tx.active {
            tx.queues[usize::from(n)].ring.translate(host);
        }
    }

    /// What the PCI command register's Bus Master Enable says: without it the
    /// device accesses no memory (9.3.3.3).
    pub fn set_bus_master(&mut self, on: bool) {
        if self.host.counters.dma_off == on {
            self.host.counters.dma_off = !on;
            self.translate();
        }
    }

    /// A reset of the whole function, as by FLR or power.
    pub fn reset(&mut self) {
        self.reset_device(Reset::Link);
        self.host.counters.lint.note_ready();
    }

    fn reset_device(&mut self, reset: Reset) {
        self.check_no_snoop();
        self.host.counters.lint.note_reset(self.now_ns);
        self.stop_queues();
        self.host.counters.drops.rx_reset += self.rx.fifo.clear();
        self.clear_pages();
        self.registers.reset(self.eeprom.mac());
        self.host.counters.interrupts.reset();
        self.host.counters.statistics.reset();
        self.link.reset(reset, self.now_ns);
        self.eeprom.reset();
        self.i2c.reset();
        self.mdio.reset();
        self.semaphore.reset();
        self.reset_system_time();
        self.sriov.iter().for_each(Sriov::reset);
        self.host.dma.forget();
        self.stale = true;
    }

    fn reset_system_time(&mut self) {
        self.system_time.reset();
        if self.system_time.is_there() {
            self.registers.write(TSAUXC::AT, system_time::TSAUXC_RESET);
        }
    }

    fn follow_link(&mut self, light: bool) {
        let mut changed = self.link.set_link(light, self.now_ns);
        changed |= self.link.poll(self.now_ns);
        if changed {
            self.link_changed();
        }
    }

    fn link_changed(&mut self) {
        self.host.counters.interrupts.cause_other(EICR::LSC);
        self.mdio.set_link(self.link.is_up());
        if let Some(module) = self.i2c.module_mut() {
            module.set_light(self.link.is_up());
        }
        self.stale = true;
    }

    /// Where interrupts go; without one they stay pending.
    pub fn set_interrupts(&mut self, messages: Option<Box<dyn Interrupts>>) {
        self.messages = messages;
    }

    /// Packets lost so far, by name.
    pub fn drops(&self) -> &Drops {
        &self.host.counters.drops
    }

    /// Frames the wire has given (looped ones count, too), and packets the host
    /// has queued, each segment of a large one counting.
    pub fn offered(&self) -> (u64, u64) {
        (self.host.counters.rx_offered, self.host.counters.tx_offered)
    }

    /// Frames in the packet buffer, waiting for a descriptor.
    pub fn waiting(&self) -> usize {
        self.rx.fifo.len()
    }

    /// What moved since power-on; nothing clears it.
    pub fn totals(&mut self) -> Totals {
        self.flush_counters();
        *self.host.counters.statistics.totals()
    }

    /// What the driver did wrong.
    pub fn lint(&self) -> &Lint {
        &self.host.counters.lint
    }

    /// Reports a rule that somebody else sees broken, such as the PCI side.
    pub fn report(&mut self, rule: Rule, register: lint::Register, value: u64) {
        self.host.counters.report(rule, register, value);
    }

    /// The link, for its speed and state.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Interrupts delivered since power-on.
    pub fn interrupts(&self) -> u64 {
        self.host.counters.interrupts.delivered()
    }

    /// The pages it shares with the driver.
    pub fn pages(&self) -> &P {
        &self.host.pages
    }

    /// Its view of host memory.
    pub fn dma(&self) -> &D {
        &self.host.dma
    }

    /// The permanent MAC address.
    pub fn mac(&self) -> [u8; 6] {
        self.eeprom.mac()
    }

    /// Enabled receive and transmit queues.
    pub fn queues(&self) -> (usize, usize) {
        (self.rx.active.len(), self.tx.active.len())
    }
}

/// The enable bit, at the same place in RXDCTL and TXDCTL.
const ENABLE: u32 = RXDCTL::ENABLE;
const _: () = assert!(RXDCTL::ENABLE == TXDCTL::ENABLE);
