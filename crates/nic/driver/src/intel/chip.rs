//! A device of Intel's, as its port and its queues share it: the way to it, memory, what
//! queues dropped; and what a chip must tell and do ([`Chip`], [`FilterTables`], [`ChipInfo`]),
//! be it by registers or by the commands of an admin queue. Nothing here knows the queues
//! or the port, which are built on it.

use std::any::Any;
use std::mem;
use std::ops::{Deref, Range};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use bus::{Bar, Pci, RegisterName};
use memory::{Attachment, Dma};
use regs::Register;
use regs::ixgbe::{STATUS, TXDCTL};

use port::{Counter, Feature, Flow, FlowTable, FlowTarget, Link, Options, Reason, Rss};

use super::clock::Clock;
use super::layout::{RxLayout, TxLayout};
use crate::wait::{Until, wait};
use crate::{Error, Result};

/// What a queue asks of its chip when it is dropped.
pub trait Queues: Send + Sync {
    /// Takes a receive ring back; `false` when the device may still write to it.
    fn disable_rx(&self, queue: usize) -> bool;
    /// Takes a transmit ring back; `false` when the device may still read it.
    fn disable_tx(&self, queue: usize) -> bool;
    /// The device whose queues they are.
    fn device(&self) -> &Device;
}

/// What a chip is, and what it does in its own way once it is up.
pub trait Chip: Deref<Target = Device> + Queues + FilterTables + Sized + 'static {
    /// Its receive descriptors.
    type Rx: RxLayout;
    /// Its transmit descriptors.
    type Tx: TxLayout;
    /// The driver's name.
    const DRIVER: &'static str;
    /// What the chip is, and its limits.
    const INFO: &'static ChipInfo;
    /// Whether there is a switch for all receive queues, that can be off while they are enabled.
    const DEFERS_START: bool = true;

    /// A chip that nothing was done to yet.
    fn new(device: Device) -> Self;
    /// Lets frames in from the wire, or no longer.
    fn set_receiving(&self, on: bool) -> Result<()>;
    /// The port's own address, as the device came with it.
    fn mac(&self) -> Result<[u8; 6]>;
    /// The link as it is now.
    fn link(&self) -> Link;
    /// What its firmware tells of itself, by name, where it does.
    fn firmware(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
    /// The key and table by which flows are spread, where a port asked for these.
    fn rss(&self, asked: &Rss) -> Rss {
        asked.clone()
    }
    /// Changes the table by which flows are spread while packets come: some entries, each
    /// given with its queue, after which the whole table is this one. Chips with
    /// [`Feature::RssTable`].
    fn set_flow_queues(&self, _changes: &[(usize, usize)], _table: &FlowTable) -> Result<()> {
        Ok(())
    }
    /// The clock by which the device can tell when frames came: each, or messages of PTP alone.
    fn clock(&self) -> Option<Clock> {
        None
    }
    /// Whether the device goes on with what it was given.
    fn health(&self) -> Result<()> {
        Ok(())
    }
    /// The device's own counters, since it was opened.
    fn counters(&self) -> Vec<Counter>;
    /// The names of these counters, in their order.
    fn counter_names() -> Vec<&'static str>;
    /// Receives all unicast frames, all multicast frames, or only what the filters
    /// let through.
    fn set_modes(&self, unicast: bool, multicast: bool) -> Result<()>;
}

/// The filter tables of a chip.
pub trait FilterTables {
    /// Receives frames to one more unicast address.
    ///
    /// # Errors
    /// [`crate::Error::TableFull`] when there is no room for it.
    fn add_unicast(&self, mac: [u8; 6]) -> Result<()>;
    /// Receives no frames any more to an address added before; whether it was.
    fn remove_unicast(&self, mac: [u8; 6]) -> Result<bool>;
    /// Receives frames to these multicast addresses, and to no others that the chip
    /// tells apart from them.
    fn set_multicast(&self, addresses: &[[u8; 6]]) -> Result<()>;
    /// Lets a VLAN through the filter, or not.
    fn set_vlan(&self, vlan: u16, on: bool) -> Result<()>;
    /// Turns the VLAN filter on or off: on, only tagged frames of chosen VLANs are
    /// received, and untagged ones.
    fn set_vlan_filter(&self, on: bool) -> Result<()>;
    /// Receives broadcast frames, as is the default, or not.
    fn set_broadcast(&self, on: bool) -> Result<()>;
    /// Flows that can be led to a queue or dropped.
    fn flow_filters(&self) -> usize {
        0
    }
    /// Leads a flow to a queue that was opened, or drops it; chips that have room for some.
    fn add_flow(&self, _flow: &Flow, _target: FlowTarget) -> Result<()> {
        Ok(())
    }
    /// Does so no longer; whether it did.
    fn remove_flow(&self, _flow: &Flow) -> Result<bool> {
        Ok(false)
    }
}

/// A chip's limits, and where its queues' doorbells are.
pub struct ChipInfo {
    /// Whether it is such a device, by PCI id; and which are.
    pub knows: fn(u16, u16) -> bool,
    pub known: &'static str,
    /// The names of its registers, for those who look at accesses.
    pub register_name: RegisterName,
    /// Bytes of BAR 0 that the driver touches.
    pub window: u32,
    /// The tails of receive and transmit rings.
    pub rdt: Register,
    pub tdt: Register,
    /// What it and its driver can do. Whether they do is the options' choice.
    pub features: &'static [Feature],
    /// Vectors of the MSI-X table that receive queues have, in their order. Those before
    /// them are for other causes.
    pub vectors: Range<usize>,
    /// Descriptors in a ring, a power of two: the fewest and the most.
    pub ring: (usize, usize),
    /// Queues of each kind; and the words for it.
    pub queues: usize,
    pub queues_limit: &'static str,
    /// Queues that flows can be spread over, and entries of the table for that.
    pub rss: (usize, usize),
    /// Longest frame in bytes, without CRC; and the words for it.
    pub longest: usize,
    pub longest_limit: &'static str,
    /// Unicast addresses that are received beside the port's own.
    pub addresses: usize,
    /// Which counters are the port's packets and bytes received, packets and bytes sent.
    pub sums: [&'static str; 4],
}

/// The name of the register at an offset of a table, with its number in an array.
pub fn name_at<'a>(mut table: impl Iterator<Item = &'a Register>, offset: u32) -> Option<String> {
    table.find_map(|register| {
        let n = (0..register.len()).find(|&n| register.at(n) == offset)?;
        let (name, single) = (register.name, register.len() == 1);
        Some(if single { name.to_owned() } else { format!("{name}[{n}]") })
    })
}

/// Packets that a queue dropped: written by the thread that has the queue, read by
/// the one that has the port.
#[derive(Debug, Default)]
pub struct Losses(AtomicU64);

impl Losses {
    /// One writer, so no atomic addition is needed.
    pub(crate) fn add(&self, packets: u64) {
        self.0.store(self.read().wrapping_add(packets), Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Why queues drop packets.
pub(super) const DROPPED: [Reason; 3] = [Reason::RxBadDescriptor, Reason::TxUnsendable, Reason::TxOffload];

/// What a port and its queues share.
pub struct Device {
    pub name: String,
    /// Its PCI device id, one that the chip knows.
    pub id: u16,
    pub bar: Bar,
    pub pci: Pci,
    pub dma: Dma,
    pub info: &'static ChipInfo,
    /// Keeps the memory mapped for the device.
    pub(super) attachment: Attachment,
    /// What the queues dropped, and why.
    losses: Mutex<Vec<(Reason, Arc<Losses>)>>,
    /// What queues had that did not stop: the device may reach it until it is reset.
    retired: Mutex<Vec<Box<dyn Any + Send>>>,
    is_quiesced: AtomicBool,
}

impl Device {
    /// The vectors that receive queues have: those of the chip that the device has too.
    pub(crate) fn vectors(&self) -> Range<usize> {
        let Range { start, end } = self.info.vectors;
        start..end.min(self.pci.interrupt_vectors().into())
    }

    /// Finds the registers and lets the device reach memory.
    pub fn attach(pci: Pci, dma: &Dma, info: &'static ChipInfo) -> Result<Device> {
        let (name, ids) = (pci.name(), pci.ids()?);
        if !(info.knows)(ids.vendor, ids.device) {
            let known = format!("this driver drives {}", info.known);
            return Err(Error::UnknownDevice { device: name, vendor: ids.vendor, id: ids.device, known });
        }
        pci.set_bus_master(true)?;
        let bar = pci.bar(0)?.traced(&name, info.register_name);
        if bar.len() < info.window {
            return Err(Error::BarTooSmall { device: name, bar: 0, len: bar.len(), needed: info.window });
        }
        let attachment = dma.attach(&pci)?;
        let (dma, losses, retired) = (dma.clone(), Mutex::default(), Mutex::default());
        let is_quiesced = AtomicBool::new(false);
        Ok(Device { name, id: ids.device, bar, pci, dma, info, attachment, losses, retired, is_quiesced })
    }

    /// Keeps memory of a queue that did not stop: for good, unless the device is reset in the end.
    pub fn retire(&self, memory: Box<dyn Any + Send>) {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
    }

    /// The device was reset after its last queue: it reaches no memory any more.
    pub fn was_reset(&self) {
        self.is_quiesced.store(true, Relaxed);
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
        wait(&self.pci, &self.bar, &self.name, limit_ms, &Until { register, offset, mask, wanted, meaning })
    }

    /// What the queues dropped.
    pub fn dropped(&self) -> impl Iterator<Item = Counter> {
        let losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        DROPPED
            .map(|reason| {
                let of_reason = losses.iter().filter(|(why, _)| *why == reason);
                Counter::of_loss(reason, of_reason.map(|(_, losses)| losses.read()).sum())
            })
            .into_iter()
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

    /// Takes a transmit ring back; `false` when the device may still read it. What was queued is sent
    /// first, if it `sends`. The registers are the ring's head, tail and control.
    pub fn stop_tx(&self, n: usize, sends: bool, [head, tail, control]: [Register; 3]) -> bool {
        if sends {
            let (tail, meaning) = (self.bar.read32(tail.at(n)), "packets that were queued are not sent");
            // A full ring of jumbo frames takes 300 ms at 1 Gbit/s.
            if let Err(error) = self.wait(500, head.name, head.at(n), u32::MAX, tail, meaning) {
                tracing::debug!("{error}");
            }
        }
        // The enable bit is the same in every chip here.
        self.bar.clear32(control.at(n), TXDCTL::ENABLE);
        let meaning = "the transmit queue does not stop: its memory is kept";
        let stopped = self.wait(100, control.name, control.at(n), TXDCTL::ENABLE, 0, meaning);
        self.flush_dma();
        self.has_released(stopped)
    }

    /// Waits until what a device whose rings are registers was still writing has arrived.
    pub fn flush_dma(&self) {
        // A packet may still be on its way (4.6.7.1.2: 100 us). What the device
        // wrote before it answers a read has arrived with the answer.
        sleep(Duration::from_micros(100));
        self.bar.read32(STATUS::AT);
    }

    /// Whether the device reaches a ring no more, by how the attempt to stop it ended.
    pub fn has_released(&self, stopped: Result<()>) -> bool {
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

    /// Waits for `link` to say that there is one, for at most `limit_ms`.
    pub fn wait_for_link(&self, limit_ms: u64, link: impl Fn() -> Link) {
        for _ in 0..limit_ms.div_ceil(10) {
            if link().up || self.pci.health().is_err() {
                return tracing::debug!(port = self.name, "the wait for a link is over");
            }
            sleep(Duration::from_millis(10));
        }
        if limit_ms > 0 {
            tracing::warn!(port = self.name, "no link yet: {}", link().advice());
        }
    }

    /// The device reaches no memory any more.
    pub fn release_bus(&self) {
        if let Err(error) = self.pci.set_bus_master(false) {
            tracing::debug!(port = self.name, "cannot clear bus mastering: {error}");
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let retired = mem::take(self.retired.get_mut().unwrap_or_else(PoisonError::into_inner));
        // A device that is gone does no DMA.
        if !retired.is_empty() && !*self.is_quiesced.get_mut() && self.pci.health().is_ok() {
            tracing::error!(port = self.name, "memory of queues that did not stop is kept for good");
            mem::forget(retired);
        }
    }
}
