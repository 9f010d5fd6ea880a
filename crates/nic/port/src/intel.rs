//! Intel's NICs: which driver a device needs, and what is the same with all of
//! them, as a [`Port`] with its [`RxQueue`]s and [`TxQueue`]s.

use std::os::fd::BorrowedFd;

use driver::igb::Igb;
use driver::intel::{Options, RxQueue as Rx, TxQueue as Tx};
use driver::ixgbe::Ixgbe;
use memory::{Batch, Dma, Pool};

use crate::igb::IgbPort;
use crate::ixgbe::IxgbePort;
use crate::{Capabilities, Counter, Link, Port, PortStats, Result, RxQueue, RxStats, TxQueue, TxStats};

/// Opens a device of Intel's by the driver that knows it.
///
/// # Errors
/// [`driver::Error::UnknownDevice`] when none does; else what the driver says.
pub fn open(pci: bus::Pci, dma: &Dma, options: Options) -> Result<Box<dyn Port>> {
    let ids = pci.ids().map_err(driver::Error::from)?;
    if driver::igb::knows(ids.device) {
        return Ok(Box::new(IgbPort::open(pci, dma, options)?));
    }
    if !driver::ixgbe::knows(ids.device) {
        let known = "this build drives Intel 82599, X520, X540 and X550 (ixgbe) and 82576 with copper (igb)";
        let (device, vendor, id) = (pci.name(), ids.vendor, ids.device);
        return Err(driver::Error::UnknownDevice { device, vendor, id, known }.into());
    }
    Ok(Box::new(IxgbePort::open(pci, dma, options)?))
}

/// An opened device, with the queues nobody has taken yet.
pub struct IntelPort<N> {
    device: N,
    rx: Vec<Option<Rx>>,
    tx: Vec<Option<Tx>>,
}

impl<N: Nic> IntelPort<N> {
    /// Resets and starts the device; see [`Ixgbe::open`] and [`Igb::open`].
    ///
    /// # Errors
    /// As there.
    pub fn open(pci: bus::Pci, dma: &Dma, options: Options) -> Result<IntelPort<N>> {
        let (device, rx, tx) = N::open(pci, dma, options)?;
        let rx = rx.into_iter().map(Some).collect();
        let tx = tx.into_iter().map(Some).collect();
        Ok(IntelPort { device, rx, tx })
    }

    /// The driver itself, for what only this kind has.
    pub fn device(&mut self) -> &mut N {
        &mut self.device
    }
}

impl<N: Nic> Port for IntelPort<N> {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn capabilities(&self) -> Capabilities {
        let options = self.device.options();
        Capabilities {
            driver: N::DRIVER.to_owned(),
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

/// What the drivers of Intel's NICs offer alike: each method is the driver's own
/// of the same name.
#[expect(missing_docs, reason = "they are the drivers' own")]
pub trait Nic: Send + Sized {
    const DRIVER: &'static str;
    fn open(pci: bus::Pci, dma: &Dma, options: Options) -> driver::Result<(Self, Vec<Rx>, Vec<Tx>)>;
    fn name(&self) -> &str;
    fn options(&self) -> &Options;
    fn mac(&self) -> [u8; 6];
    fn link(&self) -> (bool, u32);
    fn counters(&self) -> Vec<Counter>;
    fn set_promiscuous(&mut self, on: bool) -> driver::Result<()>;
    fn health(&self) -> driver::Result<()>;
    fn stop(&self) -> driver::Result<()>;
}

macro_rules! nic {
    ($nic:ident, $driver:literal) => {
        impl Nic for $nic {
            const DRIVER: &'static str = $driver;

            fn open(pci: bus::Pci, dma: &Dma, options: Options) -> driver::Result<(Self, Vec<Rx>, Vec<Tx>)> {
                $nic::open(pci, dma, options)
            }

            fn name(&self) -> &str {
                $nic::name(self)
            }

            fn options(&self) -> &Options {
                $nic::options(self)
            }

            fn mac(&self) -> [u8; 6] {
                $nic::mac(self)
            }

            fn link(&self) -> (bool, u32) {
                $nic::link(self)
            }

            fn counters(&self) -> Vec<Counter> {
                $nic::counters(self)
            }

            fn set_promiscuous(&mut self, on: bool) -> driver::Result<()> {
                $nic::set_promiscuous(self, on)
            }

            fn health(&self) -> driver::Result<()> {
                $nic::health(self)
            }

            fn stop(&self) -> driver::Result<()> {
                $nic::stop(self)
            }
        }
    };
}

nic!(Ixgbe, "ixgbe");
nic!(Igb, "igb");

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
