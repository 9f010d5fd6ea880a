//! The virtual function while it runs: its address, modes, counters, whether it was reset, and taking
//! rings back when queues go.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use port::{Counter, Link, Options, Rss};
use regs::ixgbe::{LINKS, RXDCTL};
use regs::ixgbevf::message::{kind, version, xcast};
use regs::ixgbevf::*;
use wire::MacAddress;

use super::info::INFO;
use super::mailbox::{Mailbox, Words};
use super::stats::Totals;
use super::{Fault, NAME};
use crate::Result;
use crate::intel::{self, ChipInfo, Device, Queues, layout};
use crate::ixgbe::link_of;

/// A virtual function, as its port and queues share it. Whoever locks both takes the mailbox first.
pub struct Chip {
    device: Device,
    mailbox: Mutex<Mailbox>,
    state: Mutex<State>,
}

/// What the driver knows.
#[derive(Default)]
pub(super) struct State {
    /// The version of the mailbox's messages.
    pub version: u32,
    pub mac: [u8; 6],
    /// Which bits of a multicast address the port looks at (MCSTCTRL.MO).
    pub multicast_filter: u32,
    pub options: Options,
    /// Tags are taken out of received frames.
    pub strips: bool,
    /// How the port spreads flows, with several queues.
    pub spread: Option<Spread>,
    /// Addresses that are received beside its own.
    pub unicast: Vec<[u8; 6]>,
    /// The mode of all frames was asked for and refused while the port was opened.
    pub not_promiscuous: bool,
    /// Receive queues were stopped.
    stopped: bool,
    pub totals: Totals,
}

/// The hash's key and table, which are the port's.
pub(super) struct Spread {
    pub key: [u8; 40],
    pub table: Box<[u8; 128]>,
}

impl Deref for Chip {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

impl intel::Chip for Chip {
    type Rx = layout::Rx82599;
    type Tx = layout::TxAdvanced;
    const DRIVER: &'static str = NAME;
    const INFO: &'static ChipInfo = &INFO;

    fn new(device: Device) -> Chip {
        let mailbox = Mutex::new(Mailbox::new(&device.name));
        Chip { device, mailbox, state: Mutex::default() }
    }

    /// Queues that were stopped do not go on where they were: their port is opened again.
    fn set_receiving(&self, on: bool) -> Result<()> {
        let state = self.state();
        let (stopped, queues) = (state.stopped, state.options.rx_queues);
        drop(state);
        match (on, stopped) {
            (true, true) => {
                let (device, what) = (self.name.clone(), "going on with queues that were stopped");
                Err(Fault::NotOffered { device, what, fix: "open the port again" }.into())
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
        MacAddress(mac).is_station().then_some(mac).ok_or_else(|| {
            let (device, what) = (self.name.clone(), "an address");
            let fix = "set one for it (ixora pf --vf N,mac=…; ip link set … vf N mac …)";
            Fault::NotOffered { device, what, fix }.into()
        })
    }

    /// By VFLINKS (8.3.5.1).
    fn link(&self) -> Link {
        match self.is_reset() {
            true => Link::DOWN,
            false => link_of(self.bar.read32(VFLINKS::AT)),
        }
    }

    fn health(&self) -> Result<()> {
        match self.is_reset() {
            true => Err(Fault::Reset { device: self.name.clone() }.into()),
            false => Ok(()),
        }
    }

    fn counters(&self) -> Vec<Counter> {
        let mut mailbox = self.mailbox();
        let mut state = self.state();
        state.totals.update(&self.bar, || self.pci.health().is_ok() && !mailbox.is_reset(&self.bar));
        state.totals.counters()
    }

    /// A mode that the physical function does not give is an error; the 82599 has none for all unicast
    /// frames of a pool.
    fn set_modes(&self, unicast: bool, multicast: bool) -> Result<()> {
        let mut state = self.state();
        let version = state.version;
        // Who asks for it anew is told anew.
        state.not_promiscuous &= unicast;
        // Nor is it when another mode is asked for beside it.
        let unicast = unicast && !state.not_promiscuous;
        drop(state);
        let mode = match (unicast, multicast) {
            (true, _) => xcast::PROMISCUOUS,
            (_, true) => xcast::ALL_MULTICAST,
            // Not NONE, in which older hosts of Linux's take broadcast frames away as well.
            _ => xcast::MULTICAST,
        };
        let since = if unicast { version::V1_3 } else { version::V1_2 };
        let refused = |fix| {
            let (device, what) = (self.name.clone(), "receiving frames without a filter");
            Err(Fault::NotOffered { device, what, fix }.into())
        };
        if version < since {
            // What it does without being asked is the least.
            return match mode {
                xcast::MULTICAST => Ok(()),
                _ => refused("leave the modes as they are, or use a later driver of the physical function"),
            };
        }
        // The mode that was given; one without trust has less, and is not refused.
        match self.ask(&[kind::UPDATE_XCAST_MODE, mode])?[1] < mode {
            true => refused("trust it (ixora pf --vf N,trust; ip link set … vf N trust on)"),
            false => Ok(()),
        }
    }

    fn rss(&self, asked: &Rss) -> Rss {
        match &self.state().spread {
            Some(Spread { key, table }) => Rss { key: *key, table: Some(table.clone()), ..asked.clone() },
            None => asked.clone(),
        }
    }
}

impl Chip {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mailbox(&self) -> MutexGuard<'_, Mailbox> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins anew with the mailbox, after a reset.
    pub(super) fn begin_mailbox(&self) {
        self.mailbox().begin(&self.bar);
    }

    /// Sends a message; its answer.
    pub(super) fn ask(&self, words: &[u32]) -> Result<Words> {
        self.pci.health()?;
        self.mailbox().ask(&self.bar, words)
    }

    /// Sends a message; whether it was done, and its answer.
    pub(super) fn ask_whether(&self, words: &[u32]) -> Result<(bool, Words)> {
        self.pci.health()?;
        self.mailbox().ask_whether(&self.bar, words)
    }

    /// Whether the physical function has reset this one since it was opened.
    fn is_reset(&self) -> bool {
        self.mailbox().is_reset(&self.bar)
    }

    pub(super) fn mask_interrupts(&self) {
        self.bar.write32(VTEIMC::AT, u32::MAX);
        self.bar.read32(VTEICR::AT); // clears what was pending
    }

    /// Stops a receive queue.
    fn stop_rx(&self, n: usize) -> Result<()> {
        self.bar.clear32(VFRXDCTL::at(n), RXDCTL::ENABLE);
        let meaning = "the receive queue does not stop: its memory is kept";
        self.wait(100, "VFRXDCTL", VFRXDCTL::at(n), RXDCTL::ENABLE, 0, meaning)
    }
}

impl Queues for Chip {
    fn disable_rx(&self, n: usize) -> bool {
        let stopped = self.stop_rx(n);
        self.flush_dma();
        self.has_released(stopped)
    }

    /// What was queued is sent first, if the link and the physical function let it.
    fn disable_tx(&self, n: usize) -> bool {
        let up = self.bar.read32(VFLINKS::AT) & LINKS::LINK_UP != 0;
        self.stop_tx(n, up && !self.is_reset(), [VFTDH::REGISTER, VFTDT::REGISTER, VFTXDCTL::REGISTER])
    }

    fn device(&self) -> &Device {
        self
    }
}

impl Drop for Chip {
    /// Leaves the device reset, no bus master.
    fn drop(&mut self) {
        if self.pci.health().is_err() {
            return;
        }
        self.mask_interrupts();
        self.bar.write32(VFCTRL::AT, VFCTRL::RST);
        self.bar.read32(VFSTATUS::AT); // the write has arrived
        // Whoever opens it next may do so at once (4.2.2: as the physical function's).
        sleep(Duration::from_millis(10));
        self.release_bus();
    }
}
