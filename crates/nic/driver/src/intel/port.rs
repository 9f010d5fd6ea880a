//! A port of any chip of the family: the order of opening, its queues until they
//! are taken, statistics, stop and close. What a chip does in its own way is
//! [`Chip`]'s and [`Init`]'s.

use std::fmt;
use std::sync::Arc;

use bus::Pci;
use memory::Dma;
use port::{
    Capabilities, Counter, EncapOffload, Feature, Features, FlowTable, Limits, Link, Offers, Options,
    PortStats, Reason, Support,
};

use super::chip::{Chip, DROPPED, Device};
use super::layout::TxLayout;
use super::scatter::scatters;
use super::{fixed, rx::RxQueue, tx::TxQueue};
use crate::Result;
use crate::encap::Encap;

/// The steps from power-on to the first packet, in the order in which a port takes
/// them.
pub trait Init: Chip {
    /// Resets it, up to the state from which it is configured, counters at zero.
    fn reset(&self) -> Result<()>;
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

/// An opened device, with the queues nobody has taken yet. The device is reset when
/// the port and all its queues are dropped.
pub struct Port<C: Chip> {
    pub(crate) chip: Arc<C>,
    mac: [u8; 6],
    pub(super) options: Options,
    promiscuous: bool,
    /// Frames are let in.
    receives: bool,
    /// Which queue a flow comes to.
    flows: FlowTable,
    /// The table of tunnels that the device has, and whether somebody took it.
    encap: Option<(Encap, bool)>,
    pub(super) all_multicast: bool,
    /// Multicast addresses that are received.
    pub(super) multicast: Vec<[u8; 6]>,
    pub(super) rx: Vec<Option<RxQueue<C::Rx>>>,
    pub(super) tx: Vec<Option<TxQueue<C::Tx>>>,
}

impl<C: Init> Port<C> {
    /// Resets the device and brings it up with `options`. Receive queues get buffers
    /// with their first `recv`; what arrives before is lost and counted. With
    /// [`Options::deferred_start`], which virtual functions do not have, nothing arrives before
    /// [`port::Port::start`].
    ///
    /// # Errors
    /// When an option is out of range, the device is another one, or a register
    /// does not reach the state that the datasheet promises.
    pub fn open(pci: Pci, dma: &Dma, options: Options) -> Result<Port<C>> {
        let options = fixed::checked(Device::check(options, C::INFO)?, C::INFO)?;
        let chip = Arc::new(C::new(Device::attach(pci, dma, C::INFO)?));
        let timestamps = options.timestamps && chip.clock().is_some();
        let options = Options { timestamps, ..options };
        let step = |step: fmt::Arguments<'_>| tracing::debug!(port = chip.name, "{step}");
        step(format_args!("reset"));
        chip.reset()?;
        let mac = chip.mac()?;
        step(format_args!("receive side: address {}", colons(mac)));
        chip.init_rx(mac, &options)?;
        step(format_args!("transmit side"));
        chip.init_tx()?;
        let mut rx = Vec::new();
        for n in 0..options.rx_queues {
            let queue = RxQueue::new(&chip, n, &options)?;
            step(format_args!(
                "receive queue {n}: {} descriptors at {:#x}",
                options.rx_ring,
                queue.ring.iova()
            ));
            if !options.fixed_buffers {
                chip.enable_rx(&queue, &options)?;
            }
            rx.push(queue);
        }
        let mut tx = Vec::new();
        for n in 0..options.tx_queues {
            let queue = TxQueue::new(&chip, n, &options)?;
            step(format_args!(
                "transmit queue {n}: {} descriptors at {:#x}",
                options.tx_ring,
                queue.ring.iova()
            ));
            if !options.fixed_buffers {
                chip.enable_tx(&queue)?;
            }
            tx.push(queue);
        }
        if options.interrupts && chip.pci.interrupt_vectors() > 0 {
            step(format_args!("interrupts"));
            chip.init_interrupts(&mut rx)?;
        }
        let receives = !(options.deferred_start && C::DEFERS_START && !options.fixed_buffers);
        if receives && !options.fixed_buffers {
            step(format_args!("receiving on"));
            chip.set_receiving(true)?;
        }
        step(format_args!("link started"));
        chip.start_link()?;
        chip.wait_for_link(options.link_wait_ms, || chip.link());
        step(format_args!("link {}", chip.link()));
        let (rx, tx) = (rx.into_iter().map(Some).collect(), tx.into_iter().map(Some).collect());
        let promiscuous = options.promiscuous;
        let flows = flows(&*chip, &options);
        let encap = Encap::find(&chip.pci).map(|encap| (encap, false));
        let (all_multicast, multicast) = (false, vec![]);
        Ok(Port { chip, mac, options, promiscuous, receives, flows, encap, all_multicast, multicast, rx, tx })
    }
}

/// The limits of a chip, as far as they are every device's.
fn limits<C: Chip>() -> Limits {
    let info = C::INFO;
    Limits {
        rx_queues: info.queues,
        tx_queues: info.queues,
        rss_queues: info.rss.0,
        rss_table: info.rss.1,
        ring: info.ring,
        max_frame: info.longest,
        tx_segments: C::Tx::MAX_SEGMENTS,
        unicast_addresses: info.addresses,
        flow_filters: 0,
        vectors: info.vectors.len(),
    }
}

impl<C: Chip> Port<C> {
    /// What such ports can do.
    pub fn offers() -> Offers {
        let mut counters = C::counter_names();
        counters.extend(DROPPED.map(Reason::name));
        Offers { limits: limits::<C>(), features: C::INFO.features.to_vec(), counters }
    }

    /// The port, and all queues that nobody has taken.
    #[expect(clippy::type_complexity, reason = "it is a port and its queues")]
    pub fn split(mut self) -> (Port<C>, Vec<RxQueue<C::Rx>>, Vec<TxQueue<C::Tx>>) {
        let free = !self.options.fixed_buffers;
        let rx = self.rx.iter_mut().filter(|_| free).filter_map(Option::take).collect();
        let tx = self.tx.iter_mut().filter(|_| free).filter_map(Option::take).collect();
        (self, rx, tx)
    }

    /// The options it was opened with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Every counter of the device and its queues, since it was opened.
    pub fn counters(&self) -> Vec<Counter> {
        let encap = self.encap.iter().flat_map(|(encap, _)| encap.counters());
        self.chip.counters().into_iter().chain(self.chip.dropped()).chain(encap).collect()
    }

    /// One bit serves both modes in some chips, so that each must know of the other.
    pub(super) fn set_modes(&self) -> Result<()> {
        let (unicast, multicast) = (self.promiscuous, self.promiscuous || self.all_multicast);
        tracing::debug!(port = self.chip.name, "filter: all unicast {unicast}, all multicast {multicast}");
        self.chip.set_modes(unicast, multicast)
    }
}

impl<C: Chip> port::Port for Port<C> {
    fn name(&self) -> &str {
        &self.chip.name
    }

    fn capabilities(&self) -> Capabilities {
        let options = &self.options;
        let (flow_filters, vectors) = (self.chip.flow_filters(), self.chip.vectors().len());
        let limits = Limits { flow_filters, vectors, ..limits::<C>() };
        let has = (self.chip.clock().is_some(), self.encap.is_some());
        let features = features(C::INFO.features, options, vectors, has);
        Capabilities {
            driver: C::DRIVER.to_owned(),
            rx_queues: options.rx_queues,
            tx_queues: options.tx_queues,
            max_frame: options.max_frame,
            limits,
            features,
            firmware: self.chip.firmware(),
        }
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn link(&self) -> Link {
        self.chip.link()
    }

    fn stats(&mut self) -> PortStats {
        PortStats::from_counters(self.counters(), C::INFO.sums)
    }

    fn rx_queue(&mut self, index: usize) -> Option<Box<dyn port::RxQueue>> {
        // With fixed buffers they are for `fixed` alone: not enabled, and without packets.
        let queues = self.rx.get_mut(index).filter(|_| !self.options.fixed_buffers);
        Some(Box::new(queues?.take()?))
    }

    fn tx_queue(&mut self, index: usize) -> Option<Box<dyn port::TxQueue>> {
        let queues = self.tx.get_mut(index).filter(|_| !self.options.fixed_buffers);
        Some(Box::new(queues?.take()?))
    }

    fn set_promiscuous(&mut self, on: bool) -> port::Result<()> {
        let before = std::mem::replace(&mut self.promiscuous, on);
        Ok(self.set_modes().inspect_err(|_| self.promiscuous = before)?)
    }

    fn flows(&self) -> Option<FlowTable> {
        Some(self.flows.clone())
    }

    fn set_flow_queues(&mut self, changes: &[(usize, usize)]) -> port::Result<()> {
        if !C::INFO.features.contains(&Feature::RssTable) || self.options.rx_queues < 2 {
            let operation = "changing which queue a flow comes to";
            return Err(port::Error::Unsupported { port: self.chip.name.clone(), operation });
        }
        let flows = self.flows.changed(changes, spread_over::<C>(&self.options))?;
        self.chip.set_flow_queues(changes, &flows)?;
        self.flows = flows;
        Ok(())
    }

    fn filters(&mut self) -> Option<&mut dyn port::Filters> {
        Some(self)
    }

    fn encap_offload(&mut self) -> Option<Box<dyn EncapOffload>> {
        let (encap, is_taken) = self.encap.as_mut()?;
        (!std::mem::replace(is_taken, true)).then(|| encap.table())
    }

    fn health(&self) -> port::Result<()> {
        let bus = self.chip.pci.health().and_then(|()| self.chip.attachment.health());
        bus.map_err(crate::Error::from)?;
        Ok(Chip::health(&*self.chip)?)
    }

    fn start(&mut self) -> port::Result<()> {
        if !self.receives {
            tracing::debug!(port = self.chip.name, "receiving on");
            self.chip.set_receiving(true)?;
            self.receives = true;
        }
        Ok(())
    }

    fn stop(&mut self) -> port::Result<()> {
        tracing::debug!(port = self.chip.name, "receiving off");
        self.receives = false;
        Ok(self.chip.set_receiving(false)?)
    }
}

/// Which queue a flow comes to in a port that was opened with these options.
fn flows<C: Chip>(chip: &C, options: &Options) -> FlowTable {
    let rss = chip.rss(&options.rss);
    FlowTable::new(&rss, C::INFO.rss.1, spread_over::<C>(options), rss.ports)
}

/// Queues that a port with these options spreads flows over.
fn spread_over<C: Chip>(options: &Options) -> usize {
    options.rx_queues.min(C::INFO.rss.0)
}

/// An Ethernet address as people write it.
pub(super) fn colons(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// The support of each feature that a chip has, in a port that was opened with these
/// options, has so many interrupt vectors, and may have a clock and a table of tunnels.
fn features(chip: &[Feature], options: &Options, vectors: usize, (clock, encap): (bool, bool)) -> Features {
    let support = |feature: Feature| match feature {
        Feature::Interrupts if vectors == 0 => Support::No,
        Feature::Interrupts => Support::on_if(options.interrupts),
        Feature::RxChecksum => Support::on_if(options.rx_checksum.where_free()),
        Feature::TxChecksum | Feature::TunnelChecksum => Support::On,
        Feature::Segmentation | Feature::UdpSegmentation | Feature::VlanInsert => Support::On,
        Feature::VlanStrip => Support::on_if(options.vlan_strip),
        Feature::VlanFilter => Support::on_if(options.vlan_filter),
        Feature::Rss | Feature::RssHash | Feature::RssTable => Support::on_if(options.rx_queues > 1),
        Feature::Scatter => Support::on_if(scatters(options)),
        Feature::HeadWriteback => Support::on_if(options.completion == port::Completion::Head),
        Feature::FlowFilter => Support::On,
        Feature::Timestamps | Feature::PtpTimestamps if !clock => Support::No,
        Feature::Timestamps | Feature::PtpTimestamps => Support::on_if(options.timestamps),
        Feature::KernelTimestamps => Support::No, // no kernel is in the way
        Feature::FixedBuffers => Support::on_if(options.fixed_buffers),
        Feature::EncapOffload if !encap => Support::No,
        Feature::EncapOffload => Support::On,
    };
    chip.iter().map(|&feature| (feature, support(feature))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_no_feature_that_its_chip_does_not_list() {
        let options = Options { vlan_strip: true, interrupts: true, rx_queues: 4, ..Options::default() };
        let few = [Feature::VlanStrip, Feature::Interrupts, Feature::HeadWriteback];
        let features = features(&few, &options, 8, (true, true));
        let can = Capabilities { features, ..Capabilities::default() };
        let on = Feature::ALL.into_iter().filter(|feature| can.support(*feature) == Support::On);
        assert_eq!(on.collect::<Vec<_>>(), [Feature::VlanStrip, Feature::Interrupts]);
        assert_eq!(can.support(Feature::HeadWriteback), Support::Off, "nobody asked for it");
        assert_eq!(can.support(Feature::Rss), Support::No, "this chip has none");
    }

    #[test]
    fn a_device_without_vectors_has_no_interrupts_and_without_a_clock_no_timestamps() {
        let options = Options { interrupts: true, timestamps: true, ..Options::default() };
        let features = features(&Feature::ALL, &options, 0, (false, false));
        let can = Capabilities { features, ..Capabilities::default() };
        assert_eq!(can.support(Feature::Interrupts), Support::No);
        assert_eq!(can.support(Feature::Timestamps), Support::No);
        assert_eq!(can.support(Feature::PtpTimestamps), Support::No);
        assert_eq!(can.support(Feature::EncapOffload), Support::No);
        assert_eq!(can.support(Feature::TxChecksum), Support::On);
    }
}
