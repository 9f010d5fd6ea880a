//! The port as a whole: what it can do, link, counters, stopping, health.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use port::{
    Capabilities, Counter, EncapOffload, Feature, Features, FlowTable, Limits, Link, Offers, Options,
    PortStats, Support,
};
use regs::virtio::feature::net;
use regs::virtio::net::config as field;

use super::queue::{RxQueue, TxQueue};
use super::shared::{TABLE, VirtioShared};
use super::stats::QueueCounters;
use super::{NAME, features};
use crate::Result;
use crate::encap::Encap;

/// The most queue pairs: their number doubled and the control queue's fit the
/// doorbell's 16 bits.
pub(super) const MAX_PAIRS: usize = 0x4000;
/// Descriptors in a ring: the fewest and the most.
const RING: (usize, usize) = (16, 32_768);
/// The longest frame in bytes, without VLAN tag.
pub(super) const LONGEST: usize = 15_500;
/// Addresses that are received beside the port's own: devices keep 64 of a kind
/// exactly, and receive all of the kind beyond.
pub(super) const ADDRESSES: usize = 64;

/// A virtio network device, with the queues nobody has taken yet. The device is
/// reset when it and all queues are dropped.
pub struct Virtio {
    pub(super) shared: Arc<VirtioShared>,
    pub(super) mac: [u8; 6],
    /// Further addresses that are received.
    pub(super) addresses: Vec<[u8; 6]>,
    pub(super) options: Options,
    /// Which queue a flow comes to, once it was changed.
    pub(super) flows: Option<FlowTable>,
    /// The table of tunnels that the device has, and whether somebody took it.
    pub(super) encap: Option<(Encap, bool)>,
    /// Buffers of one packet that every transmit queue sends.
    pub(super) tx_buffers: usize,
    pub(super) rx: Vec<Option<RxQueue>>,
    pub(super) tx: Vec<Option<TxQueue>>,
}

impl Virtio {
    /// What such ports can do where the device has it.
    pub fn offers() -> Offers {
        let limits = Limits {
            rx_queues: MAX_PAIRS,
            tx_queues: MAX_PAIRS,
            rss_queues: MAX_PAIRS,
            rss_table: TABLE.into(),
            ring: RING,
            max_frame: LONGEST,
            unicast_addresses: ADDRESSES,
            ..Limits::default()
        };
        let features = vec![
            Feature::RxChecksum,
            Feature::TxChecksum,
            Feature::TunnelChecksum,
            Feature::Segmentation,
            Feature::UdpSegmentation,
            Feature::VlanFilter,
            Feature::Rss,
            Feature::RssHash,
            Feature::RssTable,
            Feature::Scatter,
            Feature::Interrupts,
            Feature::EncapOffload,
        ];
        let counters = QueueCounters::sums(std::iter::empty()).into_iter().map(|counter| counter.name);
        Offers { limits, features, counters: counters.collect() }
    }

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

    /// The names of the features that were negotiated.
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
        counters.extend(self.encap.iter().flat_map(|(encap, _)| encap.counters()));
        counters
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
            ring: RING,
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
            (Feature::UdpSegmentation, support(net::HOST_USO)),
            (Feature::VlanFilter, support(net::CTRL_VLAN)),
            (Feature::Rss, support(net::RSS)),
            (Feature::RssHash, support(net::HASH_REPORT)),
            (Feature::RssTable, support(net::RSS)),
            (Feature::Scatter, support(net::MRG_RXBUF)),
            (
                Feature::Interrupts,
                if vectors == 0 { Support::No } else { Support::on_if(options.interrupts) },
            ),
            (Feature::EncapOffload, if self.encap.is_some() { Support::On } else { Support::No }),
        ]);
        Capabilities {
            driver: NAME.to_owned(),
            rx_queues: options.rx_queues,
            tx_queues: options.tx_queues,
            // The device drops longer packets than its MTU (5.1.4).
            max_frame: self.shared.mtu.map_or(options.max_frame, |mtu| {
                options.max_frame.min(wire::ethernet::HEADER_LEN + usize::from(mtu))
            }),
            limits,
            features,
            firmware: Vec::new(),
        }
    }

    fn flows(&self) -> Option<FlowTable> {
        self.flows.clone().or_else(|| self.shared.flows(self.options.rx_queues, &self.options.rss))
    }

    /// Without a table the device steers by what is sent (5.1.6.5.6).
    fn keeps_flows(&self) -> bool {
        self.options.rx_queues == 1 || self.features() & net::RSS != 0
    }

    /// The command names the whole table (5.1.6.5.7).
    fn set_flow_queues(&mut self, changes: &[(usize, usize)]) -> port::Result<()> {
        let has = self.features() & net::RSS != 0;
        let Some(flows) = self.flows().filter(|_| has) else {
            let operation = "changing which queue a flow comes to";
            return Err(port::Error::Unsupported { port: self.shared.name.clone(), operation });
        };
        let pairs = self.options.rx_queues;
        let flows = flows.changed(changes, pairs)?;
        self.shared.set_rss(pairs as u16, &self.options.rss, Some(&flows))?;
        self.flows = Some(flows);
        Ok(())
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

    fn encap_offload(&mut self) -> Option<Box<dyn EncapOffload>> {
        let (encap, is_taken) = self.encap.as_mut()?;
        (!std::mem::replace(is_taken, true)).then(|| encap.table())
    }

    fn health(&self) -> port::Result<()> {
        Ok(self.check_health()?)
    }

    fn start(&mut self) -> port::Result<()> {
        self.shared.stopped.store(false, Relaxed);
        Ok(())
    }

    /// What was received stays in the rings and can be taken, later packets go
    /// nowhere (counted as `rx_stopped`). Sending goes on. A virtio device has no such
    /// switch, so the queues do it.
    fn stop(&mut self) -> port::Result<()> {
        self.shared.stopped.store(true, Relaxed);
        Ok(())
    }
}
