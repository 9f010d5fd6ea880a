//! A device of the family, as its port and its queues share it: registers, memory,
//! counters; and what a chip must tell and do ([`Chip`], [`ChipInfo`]). Section numbers
//! are the 82599's.

use std::mem;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use bus::{Bar, Pci};
use memory::{Attachment, Dma};
use regs::Register;
use regs::ixgbe::{CTRL, STATUS};

use port::{Counter, Link, Options, Reason};

use super::filter::FilterTables;
use super::layout::{RxLayout, TxLayout};
use super::stats::{Losses, Source, Sums};
use super::{rx::RxQueue, tx::TxQueue, writeback::Head};
use crate::ring::Ring;
use crate::wait::{Until, wait};
use crate::{Error, Result};

/// The registers' window of every chip here: 128 KiB (9.3.6.1).
const REGISTERS: u32 = 128 << 10;

/// What a queue asks of its chip when it is dropped.
pub trait Queues: Send + Sync {
    /// Takes a receive ring back; `false` when the device may still write to it.
    fn disable_rx(&self, queue: usize) -> bool;
    /// Takes a transmit ring back; `false` when the device may still read it.
    fn disable_tx(&self, queue: usize) -> bool;
}

impl<L: RxLayout> Drop for RxQueue<L> {
    fn drop(&mut self) {
        // The device must be quiet before its buffers go back to their pool.
        if !self.owner.disable_rx(self.index) {
            leak(&mut self.ring);
        }
    }
}

impl<L: TxLayout> Drop for TxQueue<L> {
    fn drop(&mut self) {
        // The device must be quiet before its buffers go back to their pools.
        if !self.owner.disable_tx(self.index) {
            leak(&mut self.ring);
            self.head.iter().for_each(Head::leak);
        }
    }
}

/// Keeps a ring and its buffers for ever: the device may still reach them.
fn leak<D>(ring: &mut Ring<D>) {
    mem::forget(ring.region.clone());
    mem::forget(mem::take(&mut ring.packets));
}

/// What a chip is, and what it does in its own way once it is up.
pub trait Chip: Deref<Target = Device> + Queues + FilterTables + Sized + 'static {
    /// Its receive descriptors.
    type Rx: RxLayout;
    /// Its transmit descriptors.
    type Tx: TxLayout;
    /// The driver's name.
    const DRIVER: &'static str;
    /// Registers and limits.
    const INFO: &'static ChipInfo;

    /// A chip that nothing was done to yet.
    fn new(device: Device) -> Self;
    /// Lets frames in from the wire, or no longer.
    fn set_receiving(&self, on: bool) -> Result<()>;
    /// The link as it is now.
    fn link(&self) -> Link;
    /// Receives all unicast frames, all multicast frames, or only what the filters
    /// let through.
    fn set_modes(&self, unicast: bool, multicast: bool) -> Result<()>;
}

/// The steps from power-on to the first packet, in the order in which a port takes
/// them.
pub trait Init: Chip {
    /// Resets it, up to the state from which it is configured, counters at zero.
    fn reset(&self) -> Result<()>;
    /// The port's own address.
    fn mac(&self) -> Result<[u8; 6]> {
        Device::mac(self)
    }
    /// Configures the receive side, apart from its queues; receive stays off.
    fn init_rx(&self, mac: [u8; 6], options: &Options) -> Result<()>;
    /// Configures the transmit side, apart from its queues.
    fn init_tx(&self) -> Result<()>;
    /// Hands a receive ring to the device. It owns no buffer yet.
    fn enable_rx(&self, queue: &RxQueue<Self::Rx>, options: &Options) -> Result<()>;
    /// Hands a transmit ring to the device.
    fn enable_tx(&self, queue: &TxQueue<Self::Tx>) -> Result<()>;
    /// Gives each receive queue its interrupt vector.
    fn init_interrupts(&self, queues: &mut [RxQueue<Self::Rx>]) -> Result<()>;
    /// Starts the link.
    fn start_link(&self) -> Result<()>;
}

/// Where a chip has its registers, and its limits.
pub struct ChipInfo {
    /// Whether it is such a device, by PCI id; and which are.
    pub knows: fn(u16, u16) -> bool,
    pub known: &'static str,
    pub ral: Register,
    pub rah: Register,
    /// Multicast by hash, and VLANs: a bit for each.
    pub mta: Register,
    pub vfta: Register,
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
    /// Descriptors in a ring, a power of two: the fewest and the most.
    pub ring: (usize, usize),
    /// Queues of each kind; and the words for it.
    pub queues: usize,
    pub queues_limit: &'static str,
    /// Longest frame in bytes, without CRC; and the words for it.
    pub longest: usize,
    pub longest_limit: &'static str,
    /// Unicast addresses that are received beside the port's own.
    pub addresses: usize,
    pub counters: &'static [Source],
    /// Which of them are the port's packets and bytes received, packets and bytes sent.
    pub sums: [&'static str; 4],
}

/// What a port and its queues share.
pub struct Device {
    pub name: String,
    pub bar: Bar,
    pub pci: Pci,
    pub dma: Dma,
    pub info: &'static ChipInfo,
    /// Keeps the memory mapped for the device.
    _attachment: Attachment,
    sums: Mutex<Sums>,
    /// What the queues dropped, and why.
    losses: Mutex<Vec<(Reason, Arc<Losses>)>>,
}

impl Device {
    /// Finds the registers and lets the device reach memory.
    pub fn attach(pci: Pci, dma: &Dma, info: &'static ChipInfo) -> Result<Device> {
        let (name, ids) = (pci.name(), pci.ids()?);
        if !(info.knows)(ids.vendor, ids.device) {
            let known = format!("this driver drives {}", info.known);
            return Err(Error::UnknownDevice { device: name, vendor: ids.vendor, id: ids.device, known });
        }
        pci.set_bus_master(true)?;
        let bar = pci.bar(0)?;
        if bar.len() < REGISTERS {
            return Err(Error::BarTooSmall { device: name, bar: 0, len: bar.len(), needed: REGISTERS });
        }
        let attachment = dma.attach(&pci)?;
        let sums = Mutex::new(Sums::new(info.counters));
        let (dma, losses) = (dma.clone(), Mutex::default());
        Ok(Device { name, bar, pci, dma, info, _attachment: attachment, sums, losses })
    }

    /// A counter of what a queue drops.
    pub fn add_losses(&self, reason: Reason) -> Arc<Losses> {
        let losses = Arc::new(Losses::default());
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).push((reason, losses.clone()));
        losses
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
        let [a, b, c, d] = self.bar.read32(self.info.ral.at(0)).to_le_bytes();
        let [e, f, _, _] = self.bar.read32(self.info.rah.at(0)).to_le_bytes();
        let mac = [a, b, c, d, e, f];
        let valid = a & 1 == 0 && mac != [0; 6];
        valid.then_some(mac).ok_or_else(|| Error::NoMacAddress { device: self.name.clone(), mac })
    }

    /// Starts counting at zero: counters clear when read (4.6.5).
    pub fn clear_counters(&self) {
        Sums::new(self.info.counters).update(&self.bar);
    }

    /// Every counter of the device, summed since it was opened, and what its queues
    /// dropped.
    pub fn counters(&self) -> Vec<Counter> {
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        // All ones from a device that is gone are not counts.
        if self.pci.health().is_ok() {
            sums.update(&self.bar);
        }
        let mut counters = sums.counters();
        let losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        counters.extend([Reason::RxBadDescriptor, Reason::TxUnsendable].map(|reason| {
            let of_reason = losses.iter().filter(|(why, _)| *why == reason);
            Counter::of_loss(reason, of_reason.map(|(_, losses)| losses.read()).sum())
        }));
        counters
    }

    /// The options with defaults filled in.
    ///
    /// # Errors
    /// When one is outside what the chip can do.
    pub fn check(options: Options, info: &ChipInfo) -> Result<Options> {
        let options = options.filled_in();
        let (fewest, most) = info.ring;
        options.check_rings(fewest, most, "a ring has a power of two of descriptors, from 64 to 4096")?;
        options.check_queues(info.queues, info.queues_limit)?;
        options.check_frame(info.longest, info.longest_limit)?;
        Ok(options)
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
    pub fn has_let_go(&self, stopped: Result<()>) -> bool {
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
