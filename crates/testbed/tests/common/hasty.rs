//! A device that acts at once on each write of a register, as one may: what the
//! driver does after a doorbell comes too late for it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bus::{Addressing, Backend, BarLayout, DmaRange, Pci, Result};
use testbed::inprocess::Handle;

/// The backend; registers are never mapped, so that each access comes by here.
#[derive(Debug)]
pub struct Hasty {
    inner: Pci,
    handle: Handle,
}

impl Hasty {
    /// Has a device stepped after each write.
    #[expect(clippy::new_ret_no_self, reason = "the backend lives behind the Pci")]
    pub fn new(inner: Pci, handle: &Handle) -> Pci {
        Pci::new(Arc::new(Hasty { inner, handle: handle.clone() }))
    }
}

impl Backend for Hasty {
    fn name(&self) -> String {
        "hasty".to_owned()
    }

    fn read_config(&self, offset: u16, data: &mut [u8]) -> Result<()> {
        self.inner.read_config(offset, data)
    }

    fn write_config(&self, offset: u16, data: &[u8]) -> Result<()> {
        self.inner.write_config(offset, data)
    }

    fn bar_layout(&self, index: usize) -> Result<BarLayout> {
        Ok(BarLayout { mapped: Vec::new(), ..self.inner.bar_layout(index)? })
    }

    fn read_bar(&self, index: usize, offset: u32, data: &mut [u8]) -> Result<()> {
        self.inner.read_bar(index, offset, data)
    }

    fn write_bar(&self, index: usize, offset: u32, data: &[u8]) -> Result<()> {
        self.inner.write_bar(index, offset, data)?;
        (0..4).for_each(|_| _ = self.handle.step_now());
        Ok(())
    }

    fn addressing(&self) -> Addressing {
        self.inner.addressing()
    }

    fn map_dma(&self, range: &DmaRange<'_>) -> Result<()> {
        self.inner.map_dma(range)
    }

    fn unmap_dma(&self, iova: u64, len: usize) -> Result<()> {
        self.inner.unmap_dma(iova, len)
    }

    fn interrupt_vectors(&self) -> u16 {
        self.inner.interrupt_vectors()
    }

    fn set_interrupt(&self, vector: u16, event: Option<BorrowedFd<'_>>) -> Result<()> {
        self.inner.set_interrupt(vector, event)
    }

    fn reset(&self) -> Result<()> {
        self.inner.reset()
    }

    fn health(&self) -> Result<()> {
        self.inner.health()
    }
}
