//! The port as a whole: link, counters, stopping and starting, and taking rings
//! back from the device when queues go.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use bus::Bar;
use regs::igb::*;

use crate::intel::{Chip, Device, Options, rss};
use crate::{Counter, Result};

/// One port of the chip. Queues are handed out by [`Igb::open`]; this keeps what
/// they share. The device is reset when it and all queues are dropped.
pub struct Igb {
    pub(super) shared: Arc<Shared>,
    pub(super) mac: [u8; 6],
    pub(super) options: Options,
    pub(super) promiscuous: bool,
    pub(super) all_multicast: bool,
}

/// What the port and its queues share.
pub(super) struct Shared {
    pub(super) device: Device,
    /// Held while RCTL and what depends on it change: the port and its queues may
    /// be in different threads.
    pub(super) receive: Mutex<()>,
}

impl Deref for Shared {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

impl Igb {
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

    /// Whether the link is up, and its speed in Mbit/s (8.2.2).
    pub fn link(&self) -> (bool, u32) {
        let status = self.shared.bar.read32(STATUS::AT);
        if status == u32::MAX || status & STATUS::LU == 0 {
            return (false, 0);
        }
        match status & STATUS::SPEED_MASK {
            STATUS::SPEED_10M => (true, 10),
            STATUS::SPEED_100M => (true, 100),
            _ => (true, 1_000), // both codes mean it
        }
    }

    /// Every counter of the device, summed since it was opened.
    pub fn counters(&self) -> Vec<Counter> {
        self.shared.counters()
    }

    /// Stops receiving: frames from the wire go nowhere until [`Self::start`].
    /// What was received stays in the rings; transmitting goes on.
    pub fn stop(&self) -> Result<()> {
        self.shared.set_receiving(false);
        self.health()
    }

    /// Receives again after [`Self::stop`].
    pub fn start(&self) -> Result<()> {
        self.shared.set_receiving(true);
        self.health()
    }

    /// An error once the device is gone.
    pub fn health(&self) -> Result<()> {
        Ok(self.shared.pci.health()?)
    }
}

impl Shared {
    /// Nothing signals, and nothing is pending.
    pub(super) fn mask_interrupts(&self) {
        self.bar.write32(EIMC::AT, u32::MAX);
        self.bar.write32(IMC::AT, u32::MAX);
        self.bar.read32(EICR::AT); // clears what was pending
        self.bar.read32(ICR::AT);
    }

    /// Changes bits of RCTL.
    pub(super) fn set_rctl(&self, clear: u32, set: u32) {
        let _one_at_a_time = self.receive.lock().unwrap_or_else(PoisonError::into_inner);
        self.bar.write32(RCTL::AT, self.bar.read32(RCTL::AT) & !clear | set);
    }

    fn set_receiving(&self, on: bool) {
        self.set_rctl(RCTL::RXEN, if on { RCTL::RXEN } else { 0 });
    }

    /// Changes what must not change while a frame is being received; `change`
    /// says whether there is still a queue to receive into.
    fn with_rx_halted(&self, change: impl FnOnce(&Bar) -> bool) {
        let _one_at_a_time = self.receive.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = &self.bar;
        let rctl = bar.read32(RCTL::AT);
        bar.write32(RCTL::AT, rctl & !RCTL::RXEN);
        bar.read32(STATUS::AT); // the write has arrived
        let receive = if change(bar) { rctl } else { rctl & !RCTL::RXEN };
        bar.write32(RCTL::AT, receive);
    }
}

impl Chip for Shared {
    /// Frames are led elsewhere first, or not received when no queue is left for
    /// them (4.5.9.2).
    fn disable_rx(&self, n: usize) -> bool {
        self.with_rx_halted(|bar| {
            bar.clear32(RXDCTL::at(n), RXDCTL::ENABLE);
            rss::withdraw(bar, self.facts, n)
        });
        let meaning = "the receive queue does not stop: its memory is kept for good";
        let stopped = self.wait(100, "RXDCTL", RXDCTL::at(n), RXDCTL::ENABLE, 0, meaning);
        self.quiet(stopped)
    }

    /// What was queued is sent first, if the link lets it (4.5.10.2).
    fn disable_tx(&self, n: usize) -> bool {
        if self.bar.read32(STATUS::AT) & STATUS::LU != 0 {
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
        self.bar.clear32(CTRL_EXT::AT, CTRL_EXT::DRV_LOAD);
        self.leave(|bar| bar.set32(CTRL::AT, CTRL::RST));
    }
}
