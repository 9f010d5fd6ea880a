//! Intel's NICs: which driver a device needs, and the queues of all of them as
//! [`RxQueue`] and [`TxQueue`].

use std::os::fd::BorrowedFd;

use driver::intel::{Options, RxQueue as Rx, TxQueue as Tx};
use memory::{Batch, Dma, Pool};

use crate::igb::IgbPort;
use crate::ixgbe::IxgbePort;
use crate::{Port, Result, RxQueue, RxStats, TxQueue, TxStats};

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
