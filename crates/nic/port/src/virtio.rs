//! A virtio network device as a [`Port`].

use std::os::fd::BorrowedFd;

use driver::virtio::{Opened, Options, RxQueue as Rx, TxQueue as Tx, Virtio};
use memory::{Batch, Dma, Pool};
use regs::virtio::feature::net;

use crate::{Capabilities, Link, Port, PortStats, Result, RxQueue, RxStats, TxQueue, TxStats};

/// An opened virtio device, with the queues nobody has taken yet.
pub struct VirtioPort {
    device: Virtio,
    rx: Vec<Option<Rx>>,
    tx: Vec<Option<Tx>>,
}

impl VirtioPort {
    /// Resets and starts a device on PCI; see [`Virtio::open`].
    pub fn open(pci: bus::Pci, dma: &Dma, options: Options) -> Result<VirtioPort> {
        Ok(VirtioPort::of(Virtio::open(pci, dma, options)?))
    }

    /// A device that was opened over any transport.
    pub fn of((device, rx, tx): Opened) -> VirtioPort {
        let rx = rx.into_iter().map(Some).collect();
        let tx = tx.into_iter().map(Some).collect();
        VirtioPort { device, rx, tx }
    }

    /// The driver itself, for what only this kind has.
    pub fn device(&mut self) -> &mut Virtio {
        &mut self.device
    }
}

impl Port for VirtioPort {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn capabilities(&self) -> Capabilities {
        let (options, has) = (self.device.options(), |bit| self.device.features() & bit != 0);
        Capabilities {
            driver: "virtio".to_owned(),
            rx_queues: options.queue_pairs,
            tx_queues: options.queue_pairs,
            max_frame: options.max_frame,
            rx_checksum: has(net::GUEST_CSUM),
            tx_checksum: true,
            vlan: false,
            rss: has(net::RSS),
            scatter: has(net::MRG_RXBUF),
            interrupts: options.interrupts,
        }
    }

    fn mac(&self) -> [u8; 6] {
        self.device.mac()
    }

    fn link(&self) -> Link {
        let (up, speed_mbps) = self.device.link();
        Link { up, speed_mbps }
    }

    fn stats(&mut self) -> PortStats {
        let counters = self.device.counters();
        let mut stats = PortStats { counters, ..PortStats::default() };
        stats.rx_packets = stats.counter("rx_packets");
        stats.rx_bytes = stats.counter("rx_bytes");
        stats.tx_packets = stats.counter("tx_packets");
        stats.tx_bytes = stats.counter("tx_bytes");
        stats
    }

    fn rx_queue(&mut self, index: usize) -> Option<Box<dyn RxQueue>> {
        Some(Box::new(self.rx.get_mut(index)?.take()?))
    }

    fn tx_queue(&mut self, index: usize) -> Option<Box<dyn TxQueue>> {
        Some(Box::new(self.tx.get_mut(index)?.take()?))
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<()> {
        Ok(self.device.set_promiscuous(on)?)
    }

    fn health(&self) -> Result<()> {
        Ok(self.device.health()?)
    }

    fn stop(&mut self) -> Result<()> {
        Ok(self.device.stop()?)
    }
}

impl RxQueue for Rx {
    #[inline]
    fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        Rx::recv(self, pool, batch)
    }

    fn stats(&self) -> RxStats {
        Rx::stats(self)
    }

    fn arm(&mut self) -> Option<BorrowedFd<'_>> {
        Rx::arm(self)
    }

    fn disarm(&mut self) {
        Rx::disarm(self);
    }
}

impl TxQueue for Tx {
    #[inline]
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        Tx::send(self, pool, batch)
    }

    fn clean(&mut self, pool: &mut Pool) -> usize {
        Tx::clean(self, pool)
    }

    fn stats(&self) -> TxStats {
        Tx::stats(self)
    }
}
