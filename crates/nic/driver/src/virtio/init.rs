//! From reset to the first packet (virtio 1.3, 3.1.1 and 5.1.5), and again after a fault.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use bus::Pci;
use memory::{DATA_ROOM, Dma};
use port::{Options, VirtioInterface};
use regs::virtio::control::mq;
use regs::virtio::device::status;
use regs::virtio::feature::*;
use regs::virtio::net::{config as field, control_queue, rx_queue, tx_queue};

use super::config;
use super::control::{self, Control, Either};
use super::device::{LONGEST, MAX_PAIRS, Virtio};
use super::fault::VirtioFault;
use super::features::{self, Context, frame_bytes};
use super::interrupt::Signal;
use super::packed::Packed;
use super::queue::{RxKind, RxQueue, TxKind, TxQueue};
use super::ring::{Shape, Virtqueue};
use super::rx::{Layout, Rx};
use super::shared::VirtioShared;
use super::split::Split;
use super::transport::{Areas, Doorbell, Legacy, Modern, READY, Transport};
use super::tx::{Abilities, MAX_PARTS, Tx};
use crate::encap::Encap;
use crate::{Error, Result};

impl Virtio {
    /// Resets a PCI device and brings it up with `options`. Receive queues get
    /// buffers with their first `recv`; until then the device drops
    /// what comes.
    ///
    /// # Errors
    /// When an option is out of range, or the device lacks what it needs or does
    /// not do what the specification asks.
    pub fn open(pci: Pci, dma: &Dma, options: Options) -> Result<Virtio> {
        let ids = pci.ids()?;
        if !super::knows(ids.vendor, ids.device) {
            let (device, known) = (pci.name(), format!("this driver drives {}", super::DRIVES));
            return Err(Error::UnknownDevice { device, vendor: ids.vendor, id: ids.device, known });
        }
        pci.set_bus_master(true)?;
        let modern = match options.virtio.interface {
            VirtioInterface::Auto => Modern::is_offered(&pci),
            chosen => chosen == VirtioInterface::Modern,
        };
        let transport: Arc<dyn Transport> = match modern {
            true => Arc::new(Modern::open(pci)?),
            false => Arc::new(Legacy::open(pci)?),
        };
        Virtio::open_on(transport, dma, options)
    }

    /// As [`open`](Self::open), by another way to the device.
    ///
    /// # Errors
    /// As there.
    pub fn open_on(transport: Arc<dyn Transport>, dma: &Dma, options: Options) -> Result<Virtio> {
        let options = check(options)?;
        tracing::debug!(port = transport.pci().name(), "reset");
        transport.reset()?;
        let opened = Virtio::bring_up(&transport, dma, options);
        if opened.is_err() && transport.health().is_ok() {
            // "The driver has given up" (2.1); whoever opens it next resets it.
            let reached = transport.status() & (READY | status::FEATURES_OK);
            drop(transport.set_status(reached | status::FAILED));
        }
        opened
    }

    /// Resets the device and brings it up again with the same options, after it
    /// asked for a reset or misbehaved. The old queues' buffers go back to their pools;
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

    fn bring_up(transport: &Arc<dyn Transport>, dma: &Dma, options: Options) -> Result<Virtio> {
        transport.set_status(status::ACKNOWLEDGE)?;
        transport.set_status(status::ACKNOWLEDGE | status::DRIVER)?;
        let Agreed { offered, features, mtu } = agree(&**transport, &options)?;
        let attachment = dma.attach(transport.pci())?;
        let shared =
            Arc::new(VirtioShared::new(transport.clone(), dma, attachment, [offered, features], mtu));
        tracing::debug!(port = shared.name, "features: {}", features::names(features));
        let plan = Plan::new(&**transport, features, &options)?;
        let rx = (0..plan.pairs).map(|n| plan.rx(&shared, n, &options)).collect::<Result<Vec<_>>>()?;
        let tx = (0..plan.pairs).map(|n| plan.tx(&shared, n, &options)).collect::<Result<Vec<_>>>()?;
        let control = plan.control(&shared)?;
        *shared.control.lock().unwrap_or_else(PoisonError::into_inner) = control;
        let status = ready(&**transport);
        tracing::debug!(port = shared.name, "{} pairs of queues; status {status:#x}", plan.pairs);
        transport.set_status(status)?;
        let mac = match features & net::MAC {
            0 => options.mac.unwrap_or_else(random_mac),
            _ => config::mac(&**transport)?,
        };
        let tx_buffers = tx.iter().map(TxQueue::buffers).min().unwrap_or(1);
        let (rx, tx) = (rx.into_iter().map(Some).collect(), tx.into_iter().map(Some).collect());
        let encap = Encap::find(transport.pci()).map(|encap| (encap, false));
        let (addresses, flows) = (vec![], None);
        let mut device = Virtio { shared, mac, addresses, flows, encap, options, tx_buffers, rx, tx };
        device.begin(plan.pairs)?;
        device.check_health()?;
        Ok(device)
    }

    /// What is told by commands, which need a device that runs.
    fn begin(&mut self, pairs: u16) -> Result<()> {
        let (shared, features) = (&self.shared, self.shared.features);
        match shared.transport.set_queue_pairs(pairs) {
            Some(done) => done?,
            // Flows are spread by the hash instead (5.1.6.5.7).
            None if features & net::RSS != 0 => shared.set_rss(pairs, &self.options.rss, None)?,
            None if features & net::MQ != 0 => {
                let command = [mq::CLASS, mq::VQ_PAIRS_SET];
                shared.command(net::MQ, "setting the number of queues", command, &pairs.to_le_bytes())?;
            }
            None => {}
        }
        if features & net::HASH_REPORT != 0 && features & net::RSS == 0 {
            shared.set_rss(pairs, &self.options.rss, None)?;
        }
        // Without the command a device gives all it has.
        if features & net::CTRL_RX != 0 {
            self.command_promiscuous(self.options.promiscuous)?;
        }
        if let Some(mac) = self.options.mac.filter(|&mac| mac != self.mac) {
            self.set_mac(mac)?;
        }
        Ok(())
    }
}

/// The options with defaults filled in, or what is wrong with them.
fn check(options: Options) -> Result<Options> {
    options.check_rings(16, 32768, "a ring has a power of two of entries, from 16 to 32,768")?;
    options.queue_pairs(MAX_PAIRS, "a device has 1 to 16,384")?;
    options.check_frame(LONGEST, "the limit can be set from 1,514 to 15,500 bytes")?;
    Ok(options.filled_in())
}

/// The address of a port whose device has none: locally administered.
fn random_mac() -> [u8; 6] {
    let [a, b, c, d, e, ..] = RandomState::new().hash_one("virtio").to_ne_bytes();
    [0x02, a, b, c, d, e]
}

/// The status of a driver that is ready: a legacy device knows no FEATURES_OK.
fn ready(transport: &dyn Transport) -> u8 {
    if transport.is_legacy() { READY } else { READY | status::FEATURES_OK }
}

/// What driver and device agreed on.
struct Agreed {
    /// Features that the device has.
    offered: u64,
    /// Those that were taken.
    features: u64,
    mtu: Option<u16>,
}

/// Agrees with the device on features (2.2, 3.1.1 steps 4 to 6).
fn agree(transport: &dyn Transport, options: &Options) -> Result<Agreed> {
    let offered = transport.features()?;
    let legacy = transport.is_legacy();
    let mtu = (offered & net::MTU != 0).then(|| config::read16(transport, field::MTU)).transpose()?;
    let steered = transport.max_queue_pairs().is_some();
    let features = features::decide(&Context { offered, options, legacy, steered, mtu });
    features::check(transport, options, offered, features)?;
    transport.accept(features)?;
    if !legacy {
        let wanted = status::ACKNOWLEDGE | status::DRIVER | status::FEATURES_OK;
        transport.set_status(wanted)?;
        if transport.status() & status::FEATURES_OK == 0 {
            return Err(VirtioFault::FeaturesRefused { device: transport.pci().name(), features }.into());
        }
    }
    Ok(Agreed { offered, features, mtu: mtu.filter(|_| features & net::MTU != 0) })
}

/// What queues there are, and how they are made.
struct Plan {
    features: u64,
    /// Pairs in use.
    pairs: u16,
    /// Pairs the device has, after which the control queue comes.
    all: u16,
}

impl Plan {
    fn new(transport: &dyn Transport, features: u64, options: &Options) -> Result<Plan> {
        let all = match features & (net::MQ | net::RSS) {
            0 => 1,
            _ => match transport.max_queue_pairs() {
                Some(pairs) => pairs,
                None => config::read16(transport, field::MAX_VIRTQUEUE_PAIRS)?,
            },
        };
        if options.rx_queues > usize::from(all) {
            let (device, wanted) = (transport.pci().name(), options.rx_queues);
            return Err(VirtioFault::QueuePairs { device, wanted, pairs: all }.into());
        }
        Ok(Plan { features, pairs: options.rx_queues as u16, all })
    }

    fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }

    /// How a queue is made whose buffers have up to `parts` parts, if possible,
    /// and `needed` in any case: no buffer may have more than the queue has
    /// entries, in a table or not (2.7.5.3.1, 2.8.19).
    fn shape(&self, shared: &VirtioShared, queue: u16, size: u16, needed: u16, parts: u16) -> Result<Shape> {
        if size < needed {
            let device = shared.name.clone();
            return Err(VirtioFault::QueueTooSmall { device, queue, size, needed }.into());
        }
        let parts = parts.min(size);
        Ok(Shape {
            size,
            parts,
            event_idx: self.has(EVENT_IDX),
            in_order: self.has(IN_ORDER),
            indirect: parts > 1 && self.has(INDIRECT_DESC),
        })
    }

    /// The entries of a queue: as many as wanted if the device has them.
    fn size(&self, shared: &VirtioShared, queue: u16, wanted: usize) -> Result<u16> {
        let transport = &*shared.transport;
        let size = transport.queue_size(queue);
        let fits = if self.has(RING_PACKED) { size > 0 } else { size.is_power_of_two() };
        if !fits || size > 32768 {
            return Err(VirtioFault::QueueSize { device: shared.name.clone(), queue, size }.into());
        }
        // Of a packed ring that is no power of two, the largest part that is.
        let most = 1 << size.ilog2();
        Ok(if transport.is_legacy() { most } else { most.min(wanted as u16) })
    }

    /// Makes a ring and hands it to the device.
    fn start<R: Virtqueue>(
        &self,
        shared: &VirtioShared,
        queue: u16,
        shape: Shape,
        vector: Option<u16>,
    ) -> Result<(R, Doorbell)> {
        let mut ring = R::new(&shared.dma, shape)?;
        ring.disarm();
        let [descriptors, driver, device] = ring.areas();
        let (port, size) = (&shared.name, shape.size);
        tracing::debug!(port, "queue {queue}: {size} descriptors at {descriptors:#x}");
        let areas = Areas { size: shape.size, descriptors, driver, device, vector };
        match shared.transport.start_queue(queue, &areas) {
            Ok(doorbell) => Ok((ring, doorbell)),
            Err(error) => {
                // The device may have taken it all the same.
                shared.retire(Box::new(ring.memory()));
                Err(error)
            }
        }
    }

    fn control(&self, shared: &VirtioShared) -> Result<Option<Control>> {
        if !self.has(net::CTRL_VQ) {
            return Ok(None);
        }
        let queue = control_queue(self.all);
        // A few commands never wait for each other.
        let joined = features::any_layout(self.features);
        let parts = control::parts(joined);
        let shape = self.shape(shared, queue, self.size(shared, queue, 64)?, parts, parts)?;
        let (ring, doorbell) = match self.has(RING_PACKED) {
            true => {
                let (ring, doorbell) = self.start(shared, queue, shape, None)?;
                (Either::Packed(ring), doorbell)
            }
            false => {
                let (ring, doorbell) = self.start(shared, queue, shape, None)?;
                (Either::Split(ring), doorbell)
            }
        };
        Control::new(&shared.dma, ring, doorbell, queue, joined).map(Some)
    }

    fn rx(&self, shared: &Arc<VirtioShared>, pair: u16, options: &Options) -> Result<RxQueue> {
        Ok(RxQueue(match self.has(RING_PACKED) {
            true => RxKind::Packed(self.rx_over::<Packed>(shared, pair, options)?),
            false => RxKind::Split(self.rx_over::<Split>(shared, pair, options)?),
        }))
    }

    fn rx_over<R: Virtqueue>(
        &self,
        shared: &Arc<VirtioShared>,
        pair: u16,
        options: &Options,
    ) -> Result<Rx<R>> {
        let queue = rx_queue(pair);
        // With MRG_RXBUF legacy devices, too, want one descriptor (5.1.6.3.1).
        let joined = features::any_layout(self.features) || self.has(net::MRG_RXBUF);
        let parts = if joined { 1 } else { 2 };
        // The longest frame has to fit the ring, or it would never come.
        let bytes = frame_bytes(options) + features::header_len(self.features);
        let needed = if self.has(net::MRG_RXBUF) { bytes.div_ceil(DATA_ROOM) as u16 } else { parts };
        let shape = self.shape(shared, queue, self.size(shared, queue, options.rx_ring)?, needed, parts)?;
        let signal = match options.interrupts {
            true => Signal::wire(&*shared.transport, pair)?,
            false => None,
        };
        let vector = signal.as_ref().map(|signal| signal.vector);
        let (ring, doorbell) = self.start::<R>(shared, queue, shape, vector)?;
        let told = net::GUEST_CSUM | net::MRG_RXBUF | net::HASH_REPORT;
        let layout = Layout {
            header: features::header_len(self.features),
            joined,
            plain: self.features & told == 0,
            frame: frame_bytes(options),
            merging: self.has(net::MRG_RXBUF),
        };
        let mut rx = Rx::new(shared, queue, ring, doorbell, layout);
        rx.signal = signal;
        Ok(rx)
    }

    fn tx(&self, shared: &Arc<VirtioShared>, pair: u16, options: &Options) -> Result<TxQueue> {
        Ok(TxQueue(match self.has(RING_PACKED) {
            true => TxKind::Packed(self.tx_over::<Packed>(shared, pair, options)?),
            false => TxKind::Split(self.tx_over::<Split>(shared, pair, options)?),
        }))
    }

    fn tx_over<R: Virtqueue>(
        &self,
        shared: &Arc<VirtioShared>,
        pair: u16,
        options: &Options,
    ) -> Result<Tx<R>> {
        let queue = tx_queue(pair);
        // Without tables each slot owns as many descriptors as its packet may
        // need: a header apart, and the frame's buffers.
        let parts = match self.has(INDIRECT_DESC) {
            true => MAX_PARTS,
            false => 1 + frame_bytes(options).div_ceil(DATA_ROOM),
        };
        let least = if features::any_layout(self.features) { 1 } else { 2 };
        let size = self.size(shared, queue, options.tx_ring)?;
        let shape = self.shape(shared, queue, size, least, parts as u16)?;
        let (ring, doorbell) = self.start::<R>(shared, queue, shape, None)?;
        let able = Abilities {
            header: features::header_len(self.features),
            joined: features::any_layout(self.features),
            parts: shape.parts.into(),
            frame: shared.mtu.map_or(usize::MAX, |mtu| usize::from(mtu) + 22).min(frame_bytes(options)),
            checksum: self.has(net::CSUM),
            segment: [self.has(net::HOST_TSO4), self.has(net::HOST_TSO6)],
            datagrams: self.has(net::HOST_USO),
        };
        Tx::new(shared, &shared.dma, queue, ring, doorbell, able)
    }
}
