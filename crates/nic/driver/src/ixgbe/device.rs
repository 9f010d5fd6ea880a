//! The port as a whole: link, counters, stopping and starting, and taking rings
//! back from the device when queues go.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use bus::Bar;
use regs::ixgbe::*;

use crate::intel::{Chip, Device, Options, rss};
use crate::{Counter, Result};

/// One port of the family. Queues are handed out by [`Ixgbe::open`]; this keeps
/// what they share. The device is reset when it and all queues are dropped.
pub struct Ixgbe {
    pub(super) shared: Arc<Shared>,
    pub(super) mac: [u8; 6],
    pub(super) options: Options,
    pub(super) promiscuous: bool,
    pub(super) all_multicast: bool,
}

/// What the port and its queues share.
pub(super) struct Shared {
    pub(super) device: Device,
    /// Held while receive is halted to change filters or queues.
    pub(super) rx_halt: Mutex<()>,
}

impl Deref for Shared {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

impl Ixgbe {
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The port's own address, from the EEPROM.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// The device's name: a PCI address or a socket.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The options it was opened with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether the link is up, and its speed in Mbit/s (8.2.3.22.20).
    pub fn link(&self) -> (bool, u32) {
        let links = self.shared.bar.read32(LINKS::AT);
        if links == u32::MAX || links & LINKS::LINK_UP == 0 {
            return (false, 0);
        }
        match links & LINKS::LINK_SPEED_MASK {
            LINKS::LINK_SPEED_10G => (true, 10_000),
            LINKS::LINK_SPEED_1G => (true, 1_000),
            LINKS::LINK_SPEED_100M => (true, 100),
            _ => (true, 0),
        }
    }

    /// Starts the link as the EEPROM configured it (4.6.4.2).
    pub(super) fn start_link(&self) {
        self.shared.bar.set32(AUTOC::AT, AUTOC::RESTART_AN);
        self.shared.wait_for_link(self.options.link_wait_ms, || self.link().0);
    }

    /// Every counter of the device, summed since it was opened.
    pub fn counters(&self) -> Vec<Counter> {
        self.shared.counters()
    }

    /// Stops receiving: frames from the wire go nowhere until [`Self::start`].
    /// What was received stays in the rings; transmitting goes on.
    pub fn stop(&self) -> Result<()> {
        self.shared.set_receiving(false)
    }

    /// Receives again after [`Self::stop`].
    pub fn start(&self) -> Result<()> {
        self.shared.set_receiving(true)
    }

    /// An error once the device is gone.
    pub fn health(&self) -> Result<()> {
        Ok(self.shared.pci.health()?)
    }
}

impl Shared {
    pub(super) fn mask_interrupts(&self) {
        // Bit 31 is reserved (8.2.3.5.4).
        self.bar.write32(EIMC::AT, 0x7FFF_FFFF);
        self.bar.read32(EICR::AT); // clears what was pending
    }

    /// Changes filters while no frame is being received.
    pub(super) fn with_rx_halted(&self, change: impl FnOnce(&Bar)) -> Result<()> {
        self.halt_rx(|bar| {
            change(bar);
            None
        })
    }

    /// Turns receiving on or off.
    fn set_receiving(&self, on: bool) -> Result<()> {
        self.halt_rx(|_| Some(on))
    }

    /// Halts the receiver (4.6.7, 8.2.3.7.1): the security block in front of it
    /// holds frames back meanwhile. `change` says whether it shall receive
    /// afterwards, or `None` for as before.
    fn halt_rx(&self, change: impl FnOnce(&Bar) -> Option<bool>) -> Result<()> {
        let _one_at_a_time = self.rx_halt.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = &self.bar;
        bar.set32(SECRXCTRL::AT, SECRXCTRL::RX_DIS);
        let meaning = "the receive path does not empty";
        let ready = SECRXSTAT::SECRX_RDY;
        let emptied = self.wait(100, "SECRXSTAT", SECRXSTAT::AT, ready, ready, meaning);
        if emptied.is_ok() {
            let receiving = bar.read32(RXCTRL::AT) & RXCTRL::RXEN;
            bar.clear32(RXCTRL::AT, RXCTRL::RXEN);
            let receive = change(bar).unwrap_or(receiving != 0);
            if receive {
                bar.set32(RXCTRL::AT, RXCTRL::RXEN);
            }
        }
        bar.clear32(SECRXCTRL::AT, SECRXCTRL::RX_DIS);
        emptied
    }
}

impl Chip for Shared {
    /// Frames are led elsewhere first (4.6.7.1.2), or not received when no queue
    /// is left for them.
    fn disable_rx(&self, n: usize) -> bool {
        let withdrawn = self.halt_rx(|bar| {
            bar.clear32(RXDCTL::at(n), RXDCTL::ENABLE);
            (!rss::withdraw(bar, self.facts, n)).then_some(false)
        });
        if let Err(error) = withdrawn {
            tracing::debug!("{error}");
            self.bar.clear32(RXDCTL::at(n), RXDCTL::ENABLE);
        }
        let meaning = "the receive queue does not stop: its memory is kept for good";
        let stopped = self.wait(100, "RXDCTL", RXDCTL::at(n), RXDCTL::ENABLE, 0, meaning);
        self.quiet(stopped)
    }

    /// What was queued is sent first, if the link lets it (4.6.8.1.2).
    fn disable_tx(&self, n: usize) -> bool {
        if self.bar.read32(LINKS::AT) & LINKS::LINK_UP != 0 {
            let tail = self.bar.read32(TDT::at(n));
            let meaning = "packets that were queued are not sent";
            // A full ring of jumbo frames takes 300 ms at 1 Gbit/s.
            if let Err(error) = self.wait(500, "TDH", TDH::at(n), u32::MAX, tail, meaning) {
                tracing::debug!("{error}");
            }
        }
        self.bar.clear32(TXDCTL::at(n), TXDCTL::ENABLE);
        let meaning = "the transmit queue does not stop: its memory is kept for good";
        let stopped = self.wait(100, "TXDCTL", TXDCTL::at(n), TXDCTL::ENABLE, 0, meaning);
        self.quiet(stopped)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.pci.health().is_err() {
            return;
        }
        self.mask_interrupts();
        self.leave(|bar| bar.set32(CTRL::AT, CTRL::RST | CTRL::LRST));
    }
}
