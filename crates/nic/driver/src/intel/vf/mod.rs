//! Virtual functions whose rings and interrupts are registers of BAR 0, and that ask their physical
//! function through a mailbox of sixteen words: the 82599's and the 82576's. Here is what their drivers
//! have in common; where registers are and which messages a chip has, its [`Function`] tells.
//!
//! What belongs to the port, addresses, VLANs, longer frames, modes, is asked of the physical
//! function's driver, each message with a limit of time for its answer.

mod filter;
mod init;
mod mailbox;
pub(crate) mod stats;

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use port::{Counter, Link, Options, Rss};
use regs::Register;
use regs::ixgbe::RXDCTL;
use regs::ixgbevf::VFCTRL;
use wire::MacAddress;

use super::layout::{RxLayout, TxAdvanced};
use super::{ChipInfo, Device, Queues};
use crate::vf_fault::VfFault;
use crate::{Error, Result};
use mailbox::Mailbox;
pub use mailbox::Words;
pub use stats::Source;
use stats::Totals;

/// Where a virtual function has its registers. Bits that are used here are the same in all.
pub struct Registers {
    /// Control, whose bit RST resets the function.
    pub ctrl: Register,
    /// A register that may be read at any time: what was written before has arrived then.
    pub status: Register,
    /// The one that tells the link.
    pub link: Register,
    /// The mailbox's control, and its words.
    pub mailbox: Register,
    pub memory: Register,
    /// Interrupt cause; mask, set and clear; auto clear and auto mask: a bit for each vector.
    pub eicr: Register,
    pub eims: Register,
    pub eimc: Register,
    pub eiac: Register,
    pub eiam: Register,
    /// Vectors of four causes: receive and transmit of two queues.
    pub ivar: Register,
    pub eitr: Register,
    /// Registers of receive rings: this one and those below.
    pub rdbal: Register,
    pub rdbah: Register,
    pub rdlen: Register,
    pub srrctl: Register,
    pub rdh: Register,
    pub rdt: Register,
    pub rxdctl: Register,
    /// Registers of transmit rings: this one and those below.
    pub tdbal: Register,
    pub tdbah: Register,
    pub tdlen: Register,
    pub tdh: Register,
    pub tdt: Register,
    pub txdctl: Register,
    pub tdwbal: Register,
    pub tdwbah: Register,
    /// What is written to them: EITR's interval, SRRCTL apart from the buffers' size, and TXDCTL's
    /// thresholds.
    pub interval: u32,
    pub descriptors: u32,
    pub thresholds: u32,
    /// Counters of the function's own.
    pub counters: &'static [Source],
}

/// What a chip's virtual functions have of their own.
pub trait Function: Send + Sync + Sized + 'static {
    /// The layout of receive descriptors.
    type Rx: RxLayout;
    /// What the driver knows beside [`State`].
    type Own: Default + Send;
    /// The driver's name, and that of Linux's driver of the physical function.
    const DRIVER: &'static str;
    const HOST: &'static str;
    /// Its limits, and where its queues' doorbells are.
    const INFO: &'static ChipInfo;
    /// Where the registers are.
    const REGISTERS: &'static Registers;
    /// Bytes that a frame's limit counts beside what [`Options::max_frame`] does.
    const OVERHEAD: u32;
    /// The name of a message's kind.
    const MESSAGE: fn(u32) -> &'static str;

    /// The link, by the register that tells it.
    fn link(value: u32) -> Link;
    /// What is agreed on behind a reset, of which this is the answer.
    fn begin(chip: &Chip<Self>, answer: &Words) -> Result<()>;
    /// Makes sure of as many queues as the options ask for, and spreads flows over them.
    fn take_queues(chip: &Chip<Self>, options: &Options) -> Result<()>;
    /// What a queue needs before it is enabled besides its ring.
    fn prepare_rx(chip: &Chip<Self>, queue: usize);
    /// Likewise of a transmit queue.
    fn prepare_tx(chip: &Chip<Self>, queue: usize);
    /// RXDCTL of a queue that is enabled, of what it is before.
    fn rxdctl(chip: &Chip<Self>, before: u32) -> u32;
    /// Sets which frames are received without a filter, as [`super::Chip::set_modes`] does.
    fn set_modes(chip: &Chip<Self>, unicast: bool, multicast: bool) -> Result<()>;
    /// What the hash is set up with of what was asked for, as [`super::Chip::rss`] says.
    fn rss(_: &Chip<Self>, asked: &Rss) -> Rss {
        asked.clone()
    }
    /// The first word of the message that asks for the address number `n`, counted from 0.
    fn address_message(n: usize) -> u32;
    /// The message that takes all of these away.
    fn no_addresses(chip: &Chip<Self>) -> [u32; 3];
    /// An error where multicast frames cannot be filtered.
    fn can_filter_multicast(_: &Chip<Self>) -> Result<()> {
        Ok(())
    }
}

/// A virtual function, as its port and queues share it. Whoever locks both takes the mailbox first.
pub struct Chip<F: Function> {
    device: Device,
    mailbox: Mutex<Mailbox>,
    state: Mutex<State<F>>,
}

/// What the driver knows.
pub(crate) struct State<F: Function> {
    pub mac: [u8; 6],
    pub options: Options,
    /// Addresses that are received beside its own.
    unicast: Vec<[u8; 6]>,
    /// The mode of all frames was asked for and refused while the port was opened.
    not_promiscuous: bool,
    /// Receive queues were stopped.
    stopped: bool,
    totals: Totals,
    /// What the chip's own driver knows.
    pub own: F::Own,
}

impl<F: Function> Deref for Chip<F> {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

impl<F: Function> super::Chip for Chip<F> {
    type Rx = F::Rx;
    type Tx = TxAdvanced;
    const DRIVER: &'static str = F::DRIVER;
    const INFO: &'static ChipInfo = F::INFO;
    const DEFERS_START: bool = false;

    fn new(device: Device) -> Chip<F> {
        let mailbox = Mutex::new(Mailbox::new(&device.name, F::REGISTERS, F::MESSAGE));
        let state = State {
            mac: [0; 6],
            options: Options::default(),
            unicast: Vec::new(),
            not_promiscuous: false,
            stopped: false,
            totals: Totals::new(F::REGISTERS.counters),
            own: F::Own::default(),
        };
        Chip { device, mailbox, state: Mutex::new(state) }
    }

    /// Queues that were stopped do not go on where they were: their port is opened again.
    fn set_receiving(&self, on: bool) -> Result<()> {
        let state = self.state();
        let (stopped, queues) = (state.stopped, state.options.rx_queues);
        drop(state);
        match (on, stopped) {
            (true, true) => {
                Err(self.not_offered("going on with queues that were stopped", "open the port again"))
            }
            (false, false) => {
                self.state().stopped = true;
                (0..queues).try_for_each(|n| self.stop_rx(n))
            }
            _ => Ok(()),
        }
    }

    fn mac(&self) -> Result<[u8; 6]> {
        let mac = self.state().mac;
        let fix = "set one for it (ixora pf --vf N,mac=…; ip link set … vf N mac …)";
        MacAddress(mac).is_station().then_some(mac).ok_or_else(|| self.not_offered("an address", fix))
    }

    fn link(&self) -> Link {
        match self.is_reset() {
            true => Link::DOWN,
            false => F::link(self.bar.read32(F::REGISTERS.link.offset)),
        }
    }

    fn health(&self) -> Result<()> {
        match self.is_reset() {
            true => Err(VfFault::Reset { device: self.name.clone() }.into()),
            false => Ok(()),
        }
    }

    fn counters(&self) -> Vec<Counter> {
        let mut mailbox = self.mailbox();
        let mut state = self.state();
        state.totals.update(&self.bar, || self.pci.health().is_ok() && !mailbox.is_reset(&self.bar));
        state.totals.counters()
    }

    fn counter_names() -> Vec<&'static str> {
        F::REGISTERS.counters.iter().map(|source| source.name).collect()
    }

    fn set_modes(&self, unicast: bool, multicast: bool) -> Result<()> {
        let mut state = self.state();
        // Who asks for it anew is told anew.
        state.not_promiscuous &= unicast;
        // Nor is it when another mode is asked for beside it.
        let unicast = unicast && !state.not_promiscuous;
        drop(state);
        F::set_modes(self, unicast, multicast)
    }

    fn rss(&self, asked: &Rss) -> Rss {
        F::rss(self, asked)
    }
}

impl<F: Function> Chip<F> {
    pub(crate) fn state(&self) -> MutexGuard<'_, State<F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mailbox(&self) -> MutexGuard<'_, Mailbox> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message; its answer.
    pub(crate) fn ask(&self, words: &[u32]) -> Result<Words> {
        self.pci.health()?;
        self.mailbox().ask(&self.bar, words)
    }

    /// Sends a message; whether it was done, and its answer.
    pub(crate) fn ask_whether(&self, words: &[u32]) -> Result<(bool, Words)> {
        self.pci.health()?;
        self.mailbox().ask_whether(&self.bar, words)
    }

    /// Whether the physical function has reset this one since it was opened.
    fn is_reset(&self) -> bool {
        self.mailbox().is_reset(&self.bar)
    }

    fn mask_interrupts(&self) {
        self.bar.write32(F::REGISTERS.eimc.offset, u32::MAX);
        self.bar.read32(F::REGISTERS.eicr.offset); // clears what was pending
    }

    /// Resets the function's queues and interrupts.
    fn reset_queues(&self) {
        self.mask_interrupts();
        self.bar.write32(F::REGISTERS.ctrl.offset, VFCTRL::RST);
        self.bar.read32(F::REGISTERS.status.offset); // the write has arrived
    }

    /// Stops a receive queue.
    fn stop_rx(&self, n: usize) -> Result<()> {
        let control = F::REGISTERS.rxdctl;
        self.bar.clear32(control.at(n), RXDCTL::ENABLE);
        let meaning = "the receive queue does not stop: its memory is kept";
        self.wait(100, control.name, control.at(n), RXDCTL::ENABLE, 0, meaning)
    }

    /// An error for something that the physical function does not do.
    pub(crate) fn not_offered(&self, what: &'static str, fix: &'static str) -> Error {
        VfFault::NotOffered { device: self.name.clone(), what, fix }.into()
    }
}

impl<F: Function> Queues for Chip<F> {
    fn disable_rx(&self, n: usize) -> bool {
        let stopped = self.stop_rx(n);
        self.flush_dma();
        self.has_released(stopped)
    }

    /// What was queued is sent first, if the link and the physical function let it.
    fn disable_tx(&self, n: usize) -> bool {
        let r = F::REGISTERS;
        let up = F::link(self.bar.read32(r.link.offset)).up;
        self.stop_tx(n, up && !self.is_reset(), [r.tdh, r.tdt, r.txdctl])
    }

    fn device(&self) -> &Device {
        self
    }
}

impl<F: Function> Drop for Chip<F> {
    /// Leaves the device reset, no bus master.
    fn drop(&mut self) {
        if self.pci.health().is_err() {
            return;
        }
        self.reset_queues();
        // Whoever opens it next may do so at once (4.2.2: as the physical function's).
        sleep(Duration::from_millis(10));
        self.release_bus();
    }
}
