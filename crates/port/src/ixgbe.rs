//! The 82599 family as a [`Port`].

use driver::ixgbe::{Ixgbe, Options, RxQueue as Rx, TxQueue as Tx};
use memory::Dma;

use crate::{Capabilities, Link, Port, PortStats, Result, RxQueue, TxQueue};

/// An opened 82599, with the queues nobody has taken yet.
pub struct IxgbePort {
    device: Ixgbe,
    rx: Vec<Option<Rx>>,
    tx: Vec<Option<Tx>>,
}

impl IxgbePort {
    /// Resets and starts the device; see [`Ixgbe::open`].
    pub fn open(pci: bus::Pci, dma: &Dma, options: Options) -> Result<IxgbePort> {
        let (device, rx, tx) = Ixgbe::open(pci, dma, options)?;
        let rx = rx.into_iter().map(Some).collect();
        let tx = tx.into_iter().map(Some).collect();
        Ok(IxgbePort { device, rx, tx })
    }

    /// The driver itself, for what only this family has.
    pub fn device(&mut self) -> &mut Ixgbe {
        &mut self.device
    }
}

impl Port for IxgbePort {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn capabilities(&self) -> Capabilities {
        let options = self.device.options();
        Capabilities {
            driver: "ixgbe".to_owned(),
            rx_queues: options.rx_queues,
            tx_queues: options.tx_queues,
            max_frame: options.max_frame,
            rx_checksum: options.rx_checksum,
            tx_checksum: true,
            vlan: true,
            rss: true,
            scatter: true,
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
        stats.rx_packets = stats.counter("GPRC");
        stats.rx_bytes = stats.counter("GORC");
        stats.tx_packets = stats.counter("GPTC");
        stats.tx_bytes = stats.counter("GOTC");
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
