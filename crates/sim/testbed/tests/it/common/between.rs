//! What stands between a driver and its device, and changes or notes what passes:
//! by default nothing. Registers are never mapped, so that each access comes by.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bus::{Addressing, Backend, BarLayout, DmaRange, Pci, Result};

/// What passes; `inner` is the device behind.
pub trait Between: Send + Sync + std::fmt::Debug + 'static {
    fn read_config(&self, inner: &Pci, offset: u16, data: &mut [u8]) -> Result<()> {
        inner.read_config(offset, data)
    }

    fn write_config(&self, inner: &Pci, offset: u16, data: &[u8]) -> Result<()> {
        inner.write_config(offset, data)
    }

    /// The size of a BAR, from the one it has.
    fn bar_size(&self, size: u64) -> u64 {
        size
    }

    fn read_bar(&self, inner: &Pci, index: usize, offset: u32, data: &mut [u8]) -> Result<()> {
        inner.read_bar(index, offset, data)
    }

    fn write_bar(&self, inner: &Pci, index: usize, offset: u32, data: &[u8]) -> Result<()> {
        inner.write_bar(index, offset, data)
    }

    fn addressing(&self, inner: &Pci) -> Addressing {
        inner.addressing()
    }

    fn map_dma(&self, inner: &Pci, range: &DmaRange<'_>) -> Result<()> {
        inner.map_dma(range)
    }

    fn unmap_dma(&self, inner: &Pci, iova: u64, len: usize) -> Result<()> {
        inner.unmap_dma(iova, len)
    }

    fn set_interrupt(&self, inner: &Pci, vector: u16, event: Option<BorrowedFd<'_>>) -> Result<()> {
        inner.set_interrupt(vector, event)
    }

    fn reset(&self, inner: &Pci) -> Result<()> {
        inner.reset()
    }

    fn health(&self, inner: &Pci) -> Result<()> {
        inner.health()
    }
}

/// Puts something in front of a device.
pub fn in_front_of<B: Between>(inner: Pci, between: Arc<B>) -> Pci {
    Pci::new(Arc::new(Front { inner, between }))
}

#[derive(Debug)]
struct Front<B> {
    inner: Pci,
    between: Arc<B>,
}

impl<B: Between> Backend for Front<B> {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn read_config(&self, offset: u16, data: &mut [u8]) -> Result<()> {
        self.between.read_config(&self.inner, offset, data)
    }

    fn write_config(&self, offset: u16, data: &[u8]) -> Result<()> {
        self.between.write_config(&self.inner, offset, data)
    }

    fn bar_layout(&self, index: usize) -> Result<BarLayout> {
        let layout = self.inner.bar_layout(index)?;
        let size = self.between.bar_size(layout.size);
        Ok(BarLayout { size, mapped: Vec::new(), ..layout })
    }

    fn read_bar(&self, index: usize, offset: u32, data: &mut [u8]) -> Result<()> {
        self.between.read_bar(&self.inner, index, offset, data)
    }

    fn write_bar(&self, index: usize, offset: u32, data: &[u8]) -> Result<()> {
        self.between.write_bar(&self.inner, index, offset, data)
    }

    fn addressing(&self) -> Addressing {
        self.between.addressing(&self.inner)
    }

    fn map_dma(&self, range: &DmaRange<'_>) -> Result<()> {
        self.between.map_dma(&self.inner, range)
    }

    fn unmap_dma(&self, iova: u64, len: usize) -> Result<()> {
        self.between.unmap_dma(&self.inner, iova, len)
    }

    fn interrupt_vectors(&self) -> u16 {
        self.inner.interrupt_vectors()
    }

    fn set_interrupt(&self, vector: u16, event: Option<BorrowedFd<'_>>) -> Result<()> {
        self.between.set_interrupt(&self.inner, vector, event)
    }

    fn reset(&self) -> Result<()> {
        self.between.reset(&self.inner)
    }

    fn health(&self) -> Result<()> {
        self.between.health(&self.inner)
    }
}
