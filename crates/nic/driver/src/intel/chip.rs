//! A device of the kind, as its queues see it: registers, memory, counters, and
//! the facts by which the chips differ. Section numbers are the 82599's.

use std::ops::Deref;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use bus::{Bar, Pci};
use memory::{Attachment, Dma};
use regs::Register;
use regs::ixgbe::{CTRL, STATUS, VENDOR_INTEL};

use super::stats::{Source, Sums};
use crate::wait::{Until, wait};
use crate::{Counter, Error, Result};

/// The registers' window of every chip here: 128 KiB (9.3.6.1).
const REGISTERS: u32 = 128 << 10;

/// What the queues ask of their chip.
pub(crate) trait Chip: Deref<Target = Device> + Send + Sync {
    /// Takes a receive ring back; `false` when the device may still write to it.
    fn disable_rx(&self, queue: usize) -> bool;
    /// Takes a transmit ring back; `false` when the device may still read it.
    fn disable_tx(&self, queue: usize) -> bool;
}

/// Where a chip has its registers, and its limits.
pub(crate) struct Facts {
    /// Whether it is such a device, by PCI id; and what to say when not.
    pub knows: fn(u16) -> bool,
    pub known: &'static str,
    pub ral: Register,
    pub rah: Register,
    pub rdt: Register,
    pub rxdctl: Register,
    pub tdt: Register,
    pub reta: Register,
    pub rssrk: Register,
    pub mrqc: Register,
    /// MRQC for several queues: the mode and the fields of addresses; and the
    /// fields of ports.
    pub rss_addresses: u32,
    pub rss_ports: u32,
    /// Interrupt mask, set and clear: a bit for each vector.
    pub eims: Register,
    pub eimc: Register,
    /// Vectors of the MSI-X table.
    pub vectors: usize,
    /// Queues of each kind; and the words for it.
    pub queues: usize,
    pub queues_limit: &'static str,
    /// Longest frame in bytes, without CRC; and the words for it.
    pub longest: usize,
    pub longest_limit: &'static str,
    /// Bits of a receive descriptor's second word that no good frame has.
    pub rx_suspect: u64,
    /// A receive descriptor as the 82599 would have written it.
    pub rx_words: fn([u64; 2]) -> [u64; 2],
    pub counters: &'static [Source],
}

/// What a port and its queues share.
pub(crate) struct Device {
    pub name: String,
    pub bar: Bar,
    pub pci: Pci,
    pub dma: Dma,
    pub facts: &'static Facts,
    /// Keeps the memory mapped for the device.
    _attachment: Attachment,
    sums: Mutex<Sums>,
}

impl Device {
    /// Finds the registers and lets the device reach memory.
    pub fn attach(pci: Pci, dma: &Dma, facts: &'static Facts) -> Result<Device> {
        let (name, ids) = (pci.name(), pci.ids()?);
        if ids.vendor != VENDOR_INTEL || !(facts.knows)(ids.device) {
            let (vendor, id, known) = (ids.vendor, ids.device, facts.known);
            return Err(Error::UnknownDevice { device: name, vendor, id, known });
        }
        pci.set_bus_master(true)?;
        let bar = pci.bar(0)?;
        if bar.len() < REGISTERS {
            return Err(Error::BarTooSmall { device: name, bar: 0, len: bar.len(), needed: REGISTERS });
        }
        let attachment = dma.attach(&pci)?;
        let sums = Mutex::new(Sums::new(facts.counters));
        Ok(Device { name, bar, pci, dma: dma.clone(), facts, _attachment: attachment, sums })
    }

    pub fn wait(
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
    pub fn mac(&self) -> Result<[u8; 6]> {
        let [a, b, c, d] = self.bar.read32(self.facts.ral.at(0)).to_le_bytes();
        let [e, f, _, _] = self.bar.read32(self.facts.rah.at(0)).to_le_bytes();
        let mac = [a, b, c, d, e, f];
        let valid = a & 1 == 0 && mac != [0; 6];
        valid.then_some(mac).ok_or_else(|| Error::NoMacAddress { device: self.name.clone(), mac })
    }

    /// Starts counting at zero: counters clear when read (4.6.5).
    pub fn clear_counters(&self) {
        Sums::new(self.facts.counters).update(&self.bar);
    }

    /// Every counter of the device, summed since it was opened.
    pub fn counters(&self) -> Vec<Counter> {
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        // All ones from a device that is gone are not counts.
        if self.pci.health().is_ok() {
            sums.update(&self.bar);
        }
        sums.counters()
    }

    /// Stops DMA as 5.2.5.3.2 asks for before a reset; a device that has
    /// transactions pending may hang the bus otherwise. The bits are the same
    /// in every chip here.
    pub fn quiesce(&self) {
        self.bar.set32(CTRL::AT, CTRL::PCIE_MASTER_DISABLE);
        let meaning = "bus mastering does not stop";
        let idle = self.wait(100, "STATUS", STATUS::AT, STATUS::PCIE_MASTER_ENABLE, 0, meaning);
        if let Err(error) = idle {
            // The datasheet's answer is a second reset; it follows in any case.
            tracing::debug!("{error}");
        }
    }

    /// Waits for `up` to say that there is a link, for at most `limit_ms`.
    pub fn wait_for_link(&self, limit_ms: u64, up: impl Fn() -> bool) {
        for _ in 0..limit_ms.div_ceil(10) {
            if up() || self.pci.health().is_err() {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        if limit_ms > 0 {
            tracing::warn!(port = self.name, "no link yet: check cable and peer");
        }
    }

    /// Whether the device has let go of a ring that it was told to stop.
    pub fn quiet(&self, stopped: Result<()>) -> bool {
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

    /// Leaves the device as it was found, quiet and reset by `reset`, no bus
    /// master. The caller has masked its interrupts.
    pub fn leave(&self, reset: impl FnOnce(&Bar)) {
        self.quiesce();
        reset(&self.bar);
        // Whoever opens it next may do so at once (4.6.3.2: 10 ms).
        sleep(Duration::from_millis(10));
        if let Err(error) = self.pci.set_bus_master(false) {
            tracing::debug!(port = self.name, "cannot clear bus mastering: {error}");
        }
    }
}
