//! The port as a whole: link, counters, stopping and starting, and taking rings
//! back from the device when queues go.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use bus::{Bar, Pci};
use memory::{Attachment, Dma};
use regs::ixgbe::*;

use super::options::Options;
use super::rss;
use super::stats::Sums;
use crate::wait::{Until, wait};
use crate::{Counter, Error, Result};

/// The registers' window: 128 KiB (datasheet 9.3.6.1).
const REGISTERS: u32 = 128 << 10;

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
    pub(super) name: String,
    pub(super) bar: Bar,
    pub(super) pci: Pci,
    pub(super) dma: Dma,
    /// Keeps the memory mapped for the device.
    _attachment: Attachment,
    sums: Mutex<Sums>,
    /// Held while receive is halted to change filters or queues.
    rx_halt: Mutex<()>,
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
        self.wait_for_link();
    }

    fn wait_for_link(&self) {
        for _ in 0..self.options.link_wait_ms.div_ceil(10) {
            if self.link().0 || self.health().is_err() {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        if self.options.link_wait_ms > 0 {
            tracing::warn!(port = self.name(), "no link yet: check cable and peer");
        }
    }

    /// Every counter of the device, summed since it was opened.
    pub fn counters(&self) -> Vec<Counter> {
        let mut sums = self.shared.sums.lock().unwrap_or_else(PoisonError::into_inner);
        // All ones from a device that is gone are not counts.
        if self.health().is_ok() {
            sums.update(&self.shared.bar);
        }
        sums.counters()
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
    /// Finds the registers and lets the device reach memory.
    pub(super) fn attach(pci: Pci, dma: &Dma) -> Result<Shared> {
        let (name, ids) = (pci.name(), pci.ids()?);
        if ids.vendor != VENDOR_INTEL || DEVICES.iter().all(|d| d.id != ids.device) {
            let known = "this build drives Intel 82599, X520, X540 and X550 (ixgbe)";
            return Err(Error::UnknownDevice { device: name, vendor: ids.vendor, id: ids.device, known });
        }
        pci.set_bus_master(true)?;
        let bar = pci.bar(0)?;
        if bar.len() < REGISTERS {
            return Err(Error::BarTooSmall { device: name, bar: 0, len: bar.len(), needed: REGISTERS });
        }
        let attachment = dma.attach(&pci)?;
        let (dma, sums) = (dma.clone(), Mutex::new(Sums::new()));
        Ok(Shared { name, bar, pci, dma, _attachment: attachment, sums, rx_halt: Mutex::new(()) })
    }

    pub(super) fn wait(
        &self,
        limit_ms: u64,
        register: &'static str,
        offset: u32,
        mask: u32,
        wanted: u32,
        meaning: &'static str,
    ) -> Result<()> {
        wait(&self.bar, &self.name, limit_ms, &Until { register, offset, mask, wanted, meaning })
    }

    /// The address that the EEPROM put into the first receive address register.
    pub(super) fn mac(&self) -> Result<[u8; 6]> {
        let [a, b, c, d] = self.bar.read32(RAL::at(0)).to_le_bytes();
        let [e, f, _, _] = self.bar.read32(RAH::at(0)).to_le_bytes();
        let mac = [a, b, c, d, e, f];
        let valid = a & 1 == 0 && mac != [0; 6];
        valid.then_some(mac).ok_or_else(|| Error::NoMacAddress { device: self.name.clone(), mac })
    }

    pub(super) fn mask_interrupts(&self) {
        // Bit 31 is reserved (8.2.3.5.4).
        self.bar.write32(EIMC::AT, 0x7FFF_FFFF);
        self.bar.read32(EICR::AT); // clears what was pending
    }

    /// Stops DMA as 5.2.5.3.2 asks for before a reset; a device that has
    /// transactions pending may hang the bus otherwise.
    pub(super) fn quiesce(&self) {
        self.bar.set32(CTRL::AT, CTRL::PCIE_MASTER_DISABLE);
        let meaning = "bus mastering does not stop";
        let idle = self.wait(100, "STATUS", STATUS::AT, STATUS::PCIE_MASTER_ENABLE, 0, meaning);
        if let Err(error) = idle {
            // The datasheet's answer is a second reset; it follows in any case.
            tracing::debug!("{error}");
        }
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

    /// Takes a ring back; `false` when the device may still write to it. Frames
    /// are led elsewhere first (4.6.7.1.2), or not received when no queue is
    /// left for them.
    pub(super) fn disable_rx(&self, n: usize) -> bool {
        let withdrawn = self.halt_rx(|bar| {
            bar.clear32(RXDCTL::at(n), RXDCTL::ENABLE);
            (!rss::withdraw(bar, n)).then_some(false)
        });
        if let Err(error) = withdrawn {
            tracing::debug!("{error}");
            self.bar.clear32(RXDCTL::at(n), RXDCTL::ENABLE);
        }
        let meaning = "the receive queue does not stop: its memory is kept for good";
        let stopped = self.wait(100, "RXDCTL", RXDCTL::at(n), RXDCTL::ENABLE, 0, meaning);
        self.quiet(stopped)
    }

    /// Takes a ring back; `false` when the device may still read it. What was
    /// queued is sent first, if the link lets it (4.6.8.1.2).
    pub(super) fn disable_tx(&self, n: usize) -> bool {
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

    /// Whether the device has let go of a ring that it was told to stop.
    fn quiet(&self, stopped: Result<()>) -> bool {
        // A packet may still be on its way (4.6.7.1.2: 100 us). What the device
        // wrote before it answers a read has arrived with the answer.
        sleep(Duration::from_micros(100));
        self.bar.read32(STATUS::AT);
        match stopped {
            Ok(()) => true,
            // A device that is gone does no DMA.
            Err(_) if self.pci.health().is_err() => true,
            Err(error) => {
                tracing::error!("{error}");
                false
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Leave the device as it was found: quiet, reset, no bus master.
        if self.pci.health().is_err() {
            return;
        }
        self.mask_interrupts();
        self.quiesce();
        self.bar.set32(CTRL::AT, CTRL::RST | CTRL::LRST);
        // Whoever opens it next may do so at once (4.6.3.2: 10 ms).
        sleep(Duration::from_millis(10));
        if let Err(error) = self.pci.set_bus_master(false) {
            tracing::debug!(port = self.name, "cannot clear bus mastering: {error}");
        }
    }
}
