//! The port as a whole: link, counters, modes, stopping, health, and what
//! becomes of memory that the device may still reach.

use std::any::Any;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use memory::{Attachment, Dma};
use port::{Capabilities, Counter, Feature, Features, FlowTable, Limits, Link, Options, PortStats, Support};
use regs::virtio::device::status;
use regs::virtio::feature::net;
use regs::virtio::net::config as field;

use super::config;
use super::control::Control;
use super::fault::Fault;
use super::init::{LONGEST, MAX_PAIRS};
use super::modes::{ADDRESSES, TABLE};
use super::stats::QueueCounters;
use super::transport::{READY, Transport};
use super::{
    NAME, features,
    queue::{RxQueue, TxQueue},
};
use crate::Result;

/// A virtio network device, with the queues nobody has taken yet. The device is
/// reset when it and all queues are dropped.
pub struct Virtio {
    pub(super) shared: Arc<Shared>,
    pub(super) mac: [u8; 6],
    /// Further addresses that are received.
    pub(super) addresses: Vec<[u8; 6]>,
    pub(super) options: Options,
    /// Buffers of one packet that every transmit queue sends.
    pub(super) tx_buffers: usize,
    pub(super) rx: Vec<Option<RxQueue>>,
    pub(super) tx: Vec<Option<TxQueue>>,
}

/// What the port and its queues share.
pub(super) struct Shared {
    pub(super) name: String,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) dma: Dma,
    /// Keeps the memory mapped for the device.
    pub(super) attachment: Attachment,
    /// Features that the device has.
    offered: u64,
    /// Those that were taken.
    pub(super) features: u64,
    pub(super) mtu: Option<u16>,
    pub(super) control: Mutex<Option<Control>>,
    /// Receiving is stopped.
    pub(super) stopped: AtomicBool,
    /// The device was reset for good: it reaches no memory any more.
    pub(super) quiet: AtomicBool,
    fault: OnceLock<Fault>,
    /// Rings and packets of queues that were dropped before the device was reset.
    retired: Mutex<Vec<Box<dyn Any + Send>>>,
    all_counters: Mutex<Vec<Arc<QueueCounters>>>,
    generation: AtomicU32,
    config_changes: AtomicU64,
}

impl Shared {
    pub(super) fn new(
        transport: Arc<dyn Transport>,
        dma: &Dma,
        attachment: Attachment,
        [offered, features]: [u64; 2],
        mtu: Option<u16>,
    ) -> Shared {
        Shared {
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
            quiet: AtomicBool::new(false),
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
    pub(super) fn report_fault(&self, fault: Fault) {
        if self.fault.set(fault.clone()).is_ok() {
            tracing::error!("{fault}");
        }
    }

    /// Keeps memory until the device cannot reach it any more.
    pub(super) fn retire(&self, memory: Box<dyn Any + Send>) {
        if !self.quiet.load(Relaxed) {
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
                Err(Fault::NoCommand { device: self.name.clone(), command: name, feature }.into())
            }
        }
    }

    /// The device's status, unless it is what it should be.
    fn status(&self) -> Result<()> {
        self.transport.health()?;
        let (device, status) = (self.name.clone(), self.transport.status());
        if status & status::NEEDS_RESET != 0 && status != u8::MAX {
            return Err(Fault::NeedsReset { device, status }.into());
        }
        if status & READY != READY || status == u8::MAX {
            return Err(Fault::WasReset { device, status }.into());
        }
        Ok(())
    }

    /// What all queues counted.
    fn sum(&self) -> QueueCounters {
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
    fn watch(&self) {
        let now = self.transport.generation();
        if self.generation.swap(now, Relaxed) != now {
            self.config_changes.fetch_add(1, Relaxed);
        }
    }
}

impl Virtio {
    /// The port, and all queues that nobody has taken: receive queue `n` and transmit
    /// queue `n` are a pair.
    pub fn split(mut self) -> (Virtio, Vec<RxQueue>, Vec<TxQueue>) {
        let rx = self.rx.iter_mut().filter_map(Option::take).collect();
        let tx = self.tx.iter_mut().filter_map(Option::take).collect();
        (self, rx, tx)
    }

    /// The options it was opened with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The features that were agreed upon (`regs::virtio::feature`).
    pub fn features(&self) -> u64 {
        self.shared.features
    }

    /// Their names.
    pub fn feature_names(&self) -> String {
        features::names(self.shared.features)
    }

    /// What the queues counted, and how often the configuration changed.
    pub fn counters(&self) -> Vec<Counter> {
        self.shared.watch();
        let all_counters = self.shared.all_counters.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counters = QueueCounters::sums(all_counters.iter().map(|counters| &**counters));
        let changes = self.shared.config_changes.load(Relaxed);
        counters.push(Counter::of("config_changes", changes, "changes of the device's configuration"));
        counters
    }

    /// Receives again after [`port::Port::stop`].
    pub fn start(&self) -> Result<()> {
        self.shared.stopped.store(false, Relaxed);
        Ok(())
    }

    /// The first thing that went wrong: the way to the device, what it did to a
    /// queue, or its status.
    pub(super) fn check_health(&self) -> Result<()> {
        let shared = &self.shared;
        shared.transport.health()?;
        shared.attachment.health()?;
        match shared.fault.get() {
            Some(fault) => Err(fault.clone().into()),
            None => shared.status(),
        }
    }

    /// Resets the device and brings it up again with the same options, after it
    /// asked for a reset or lied. The old queues' buffers go back to their pools;
    /// what the port counted it goes on counting.
    ///
    /// # Errors
    /// As [`Virtio::open`]; the port is closed then.
    pub fn restart(self, rx: Vec<RxQueue>, tx: Vec<TxQueue>) -> Result<Virtio> {
        let Virtio { shared, options, addresses, rx: untaken_rx, tx: untaken_tx, .. } = self;
        shared.transport.reset()?;
        shared.release();
        drop((rx, tx, untaken_rx, untaken_tx));
        let (transport, dma) = (shared.transport.clone(), shared.dma.clone());
        let (sum, changes) = (shared.sum(), shared.config_changes.load(Relaxed));
        // With it goes the old mapping of the memory.
        drop(shared);
        let mut opened = Virtio::open_on(transport, &dma, options)?;
        if !addresses.is_empty() {
            opened.set_addresses(&addresses)?;
        }
        opened.shared.counters().take_over(&sum);
        opened.shared.config_changes.fetch_add(changes, Relaxed);
        Ok(opened)
    }
}

impl port::Port for Virtio {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn capabilities(&self) -> Capabilities {
        let (options, has) = (&self.options, |bits| self.features() & bits == bits);
        let support = |bits| match (has(bits), self.shared.offered & bits == bits) {
            (true, _) => Support::On,
            (false, true) => Support::Off,
            (false, false) => Support::No,
        };
        let vectors = usize::from(self.shared.transport.vectors());
        let limits = Limits {
            rx_queues: MAX_PAIRS,
            tx_queues: MAX_PAIRS,
            rss_queues: if has(net::RSS) { MAX_PAIRS } else { 0 },
            rss_table: if has(net::RSS) { usize::from(TABLE) } else { 0 },
            ring: (16, 32768),
            max_frame: LONGEST,
            tx_segments: self.tx_buffers,
            flow_filters: 0,
            unicast_addresses: if has(net::CTRL_RX) { ADDRESSES } else { 0 },
            vectors,
        };
        let features = Features::from([
            (Feature::RxChecksum, support(net::GUEST_CSUM)),
            // Where the device does not, the driver fills them in.
            (Feature::TxChecksum, Support::On),
            (Feature::TunnelChecksum, Support::On),
            // Nobody asks which version of IP is cut, so both must be.
            (Feature::Segmentation, support(net::HOST_TSO4 | net::HOST_TSO6)),
            (Feature::VlanFilter, support(net::CTRL_VLAN)),
            (Feature::Rss, support(net::RSS)),
            (Feature::RssHash, support(net::HASH_REPORT)),
            (Feature::Scatter, support(net::MRG_RXBUF)),
            (
                Feature::Interrupts,
                if vectors == 0 { Support::No } else { Support::on_if(options.interrupts) },
            ),
        ]);
        Capabilities {
            driver: NAME.to_owned(),
            rx_queues: options.rx_queues,
            tx_queues: options.tx_queues,
            max_frame: options.max_frame,
            limits,
            features,
        }
    }

    fn flows(&self) -> Option<FlowTable> {
        self.shared.flows(self.options.rx_queues, &self.options.rss)
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Speed zero if unknown (5.1.4). Without a status field the link is up as long as
    /// the device is there.
    fn link(&self) -> Link {
        let shared = &self.shared;
        shared.watch();
        let up = match shared.features & net::STATUS {
            0 => shared.transport.health().is_ok(),
            // A device that is gone reads as all ones.
            _ => shared
                .config(field::STATUS)
                .map(u16::from_le_bytes)
                .is_some_and(|status| status != u16::MAX && status & field::LINK_UP != 0),
        };
        let speed = match shared.features & net::SPEED_DUPLEX {
            0 => 0,
            _ => shared.config(field::SPEED).map_or(0, u32::from_le_bytes),
        };
        // Values above 2^31 - 1 mean that it is not known (5.1.4.2).
        match up {
            true => Link::up(if speed <= i32::MAX as u32 { speed } else { 0 }),
            false => Link::DOWN,
        }
    }

    fn stats(&mut self) -> PortStats {
        PortStats::from_counters(self.counters(), ["rx_packets", "rx_bytes", "tx_packets", "tx_bytes"])
    }

    fn rx_queue(&mut self, index: usize) -> Option<Box<dyn port::RxQueue>> {
        Some(Box::new(self.rx.get_mut(index)?.take()?))
    }

    fn tx_queue(&mut self, index: usize) -> Option<Box<dyn port::TxQueue>> {
        Some(Box::new(self.tx.get_mut(index)?.take()?))
    }

    fn set_promiscuous(&mut self, on: bool) -> port::Result<()> {
        Ok(self.command_promiscuous(on)?)
    }

    fn filters(&mut self) -> Option<&mut dyn port::Filters> {
        (self.shared.features & net::CTRL_RX != 0).then_some(self)
    }

    fn health(&self) -> port::Result<()> {
        Ok(self.check_health()?)
    }

    /// What was received stays in the rings and can be taken, later packets go
    /// nowhere (counted as `rx_stopped`). Sending goes on. A virtio device has no such
    /// switch, so the queues do it.
    fn stop(&mut self) -> port::Result<()> {
        self.shared.stopped.store(true, Relaxed);
        Ok(())
    }
}

impl Shared {
    /// The device reaches no memory any more: frees what was kept for it.
    pub(super) fn release(&self) {
        self.quiet.store(true, Relaxed);
        self.retired.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if *self.quiet.get_mut() {
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
