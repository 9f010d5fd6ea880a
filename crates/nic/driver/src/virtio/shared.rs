//! What a port and its queues share: the way to the device, the features agreed upon, commands,
//! how flows are spread, the first fault, the counters, and memory that the device may still
//! reach, until it is reset.

use std::any::Any;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use memory::{Attachment, Dma};
use port::{FlowTable, Rss};
use regs::virtio::control::mq;
use regs::virtio::device::status;
use regs::virtio::feature::net;
use regs::virtio::net::{config as field, hash};

use super::control::Control;
use super::fault::VirtioFault;
use super::stats::QueueCounters;
use super::transport::{READY, Transport};
use super::{config, features};
use crate::Result;

/// Entries of the indirection table, where the device has so many.
pub(super) const TABLE: u16 = 128;
/// What is hashed, as far as the device can.
const HASHES: u32 = hash::IPV4 | hash::TCPV4 | hash::UDPV4 | hash::IPV6 | hash::TCPV6 | hash::UDPV6;

/// What the port and its queues share.
pub(super) struct VirtioShared {
    pub(super) name: String,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) dma: Dma,
    /// Keeps the memory mapped for the device.
    pub(super) attachment: Attachment,
    /// Features that the device has.
    pub(super) offered: u64,
    /// Those that were taken.
    pub(super) features: u64,
    pub(super) mtu: Option<u16>,
    pub(super) control: Mutex<Option<Control>>,
    /// Receiving is stopped.
    pub(super) stopped: AtomicBool,
    /// The device was reset for good: it reaches no memory any more.
    pub(super) quiesced: AtomicBool,
    pub(super) fault: OnceLock<VirtioFault>,
    /// Rings and packets of queues that were dropped before the device was reset.
    retired: Mutex<Vec<Box<dyn Any + Send>>>,
    pub(super) all_counters: Mutex<Vec<Arc<QueueCounters>>>,
    generation: AtomicU32,
    pub(super) config_changes: AtomicU64,
}

impl VirtioShared {
    pub(super) fn new(
        transport: Arc<dyn Transport>,
        dma: &Dma,
        attachment: Attachment,
        [offered, features]: [u64; 2],
        mtu: Option<u16>,
    ) -> VirtioShared {
        VirtioShared {
            name: transport.pci().name(),
            generation: AtomicU32::new(transport.generation()),
            transport,
            dma: dma.clone(),
            attachment,
            offered,
            features,
            mtu,
            control: Mutex::new(None),
            stopped: AtomicBool::new(false),
            quiesced: AtomicBool::new(false),
            fault: OnceLock::new(),
            retired: Mutex::default(),
            all_counters: Mutex::default(),
            config_changes: AtomicU64::new(0),
        }
    }

    /// A line for a queue's counters.
    pub(super) fn counters(&self) -> Arc<QueueCounters> {
        let counters = Arc::new(QueueCounters::default());
        self.all_counters.lock().unwrap_or_else(PoisonError::into_inner).push(counters.clone());
        counters
    }

    /// Remembers the first thing that went wrong.
    #[cold]
    pub(super) fn report_fault(&self, fault: VirtioFault) {
        if self.fault.set(fault.clone()).is_ok() {
            tracing::error!("{fault}");
        }
    }

    /// Keeps memory until the device cannot reach it any more.
    pub(super) fn retire(&self, memory: Box<dyn Any + Send>) {
        if !self.quiesced.load(Relaxed) {
            self.retired.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
        }
    }

    /// Sends a command (5.1.6.5), if `feature` allows it.
    pub(super) fn command(
        &self,
        feature: u64,
        name: &'static str,
        command: [u8; 2],
        data: &[u8],
    ) -> Result<()> {
        tracing::debug!(port = self.name, "{name}: command {command:?}, {data:02x?}");
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        match control.as_mut().filter(|_| self.features & feature != 0) {
            Some(control) => control.command(&self.name, name, command, data, || self.status()),
            None => {
                let feature = features::DECISIONS.iter().find(|d| d.bit == feature).map_or("", |d| d.name);
                Err(VirtioFault::NoCommand { device: self.name.clone(), command: name, feature }.into())
            }
        }
    }

    /// The device's status, unless it is what it should be.
    pub(super) fn status(&self) -> Result<()> {
        self.transport.health()?;
        let (device, status) = (self.name.clone(), self.transport.status());
        if status & status::NEEDS_RESET != 0 && status != u8::MAX {
            return Err(VirtioFault::NeedsReset { device, status }.into());
        }
        if status & READY != READY || status == u8::MAX {
            return Err(VirtioFault::WasReset { device, status }.into());
        }
        Ok(())
    }

    /// What all queues counted.
    pub(super) fn sum(&self) -> QueueCounters {
        let sum = QueueCounters::default();
        let all_counters = self.all_counters.lock().unwrap_or_else(PoisonError::into_inner);
        all_counters.iter().for_each(|counters| sum.take_over(counters));
        sum
    }

    /// A field of the configuration. One that never comes to rest is the
    /// device's fault.
    pub(super) fn config<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        let told = config::read(&*self.transport, offset);
        told.map_err(|error| match error {
            crate::Error::Virtio(fault) => self.report_fault(fault),
            other => tracing::error!("{other}"),
        })
        .ok()
    }

    /// Notices that the configuration changed.
    pub(super) fn watch(&self) {
        let now = self.transport.generation();
        if self.generation.swap(now, Relaxed) != now {
            self.config_changes.fetch_add(1, Relaxed);
        }
    }

    /// Spreads flows over `pairs` receive queues by a Toeplitz hash
    /// (5.1.6.5.7), by a table of the caller's if it has one, or has the hash reported only
    /// (5.1.6.5.6).
    pub(super) fn set_rss(&self, pairs: u16, rss: &Rss, own: Option<&FlowTable>) -> Result<()> {
        let transport = &*self.transport;
        let supported = u32::from_le_bytes(config::read(transport, field::SUPPORTED_HASH_TYPES)?);
        let [key_len] = config::read(transport, field::RSS_MAX_KEY_SIZE)?;
        if usize::from(key_len) < rss.key.len() {
            let (device, command) = (self.name.clone(), "hash key of 40 bytes");
            return Err(VirtioFault::NoCommand { device, command, feature: "rss_max_key_size" }.into());
        }
        let spread = self.features & net::RSS != 0;
        let mut data = Vec::from((supported & HASHES).to_le_bytes());
        if spread {
            let entries = self.rss_entries()?;
            let table = match own {
                Some(own) => own.queues().to_vec(),
                None => rss.entries(entries.into(), pairs.into()).map(|queue| queue as u16).collect(),
            };
            let words = [entries - 1, 0].into_iter().chain(table).chain([pairs]);
            data.extend(words.flat_map(u16::to_le_bytes));
        } else {
            data.extend([0; 8]); // reserved
        }
        data.push(rss.key.len() as u8);
        data.extend(rss.key);
        let (feature, command) =
            if spread { (net::RSS, mq::RSS_CONFIG) } else { (net::HASH_REPORT, mq::HASH_CONFIG) };
        self.command(feature, "setting the hash", [mq::CLASS, command], &data)
    }

    /// Entries of the indirection table: a power of two, as the device has.
    fn rss_entries(&self) -> Result<u16> {
        let longest = config::read16(&*self.transport, field::RSS_MAX_INDIRECTION_TABLE_LENGTH)?;
        Ok(1 << longest.clamp(1, TABLE).ilog2())
    }

    /// How flows are spread over `pairs` receive queues: by the hash, or not at all where
    /// there is one. Which queue a device chooses by itself nobody knows.
    pub(super) fn flows(&self, pairs: usize, rss: &Rss) -> Option<FlowTable> {
        if self.features & net::RSS == 0 {
            return (pairs == 1).then(|| FlowTable::new(rss, 1, 1, true));
        }
        let types = u32::from_le_bytes(self.config(field::SUPPORTED_HASH_TYPES)?) & HASHES;
        // Only a device that hashes all kinds alike is one whose hashes can be told.
        (types == HASHES)
            .then(|| self.rss_entries().ok())
            .flatten()
            .map(|entries| FlowTable::new(rss, entries.into(), pairs, true))
    }

    /// The device reaches no memory any more: frees what was kept for it.
    pub(super) fn release(&self) {
        self.quiesced.store(true, Relaxed);
        self.retired.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for VirtioShared {
    fn drop(&mut self) {
        if *self.quiesced.get_mut() {
            return;
        }
        // A device that is gone does no DMA; any other is left as it was found.
        if self.transport.health().is_ok()
            && let Err(error) = self.transport.reset()
            && self.transport.health().is_ok()
        {
            tracing::error!("{error}; its rings and buffers are kept for good");
            mem::forget(mem::take(&mut self.retired));
            mem::forget(self.control.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
        if let Err(error) = self.transport.pci().set_bus_master(false) {
            tracing::debug!(port = self.name, "cannot clear bus mastering: {error}");
        }
    }
}
