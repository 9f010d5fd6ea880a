//! A device that is wrong in a way of the test's choosing: a register that
//! never moves, another identity, a small BAR, or gone. What is not wrong is the
//! model's.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use bus::{Addressing, Backend, BarLayout, DmaRange, Error, Pci, Result};

/// What is wrong; nothing by default.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Registers whose bits under a mask read as this: offset, mask, bits.
    pub stuck: Vec<(u32, u32, u32)>,
    /// The PCI vendor and device ids.
    pub ids: Option<(u16, u16)>,
    /// Size of BAR 0 in bytes.
    pub size: Option<u64>,
    /// Reads give all ones, writes vanish.
    pub gone: bool,
}

/// The backend; registers are never mapped, so that each access comes by here.
#[derive(Debug)]
pub struct Broken {
    inner: Pci,
    faults: Arc<Mutex<Faults>>,
}

impl Broken {
    /// Puts faults, which may change later, in front of a device.
    #[expect(clippy::new_ret_no_self, reason = "the backend lives behind the Pci")]
    pub fn new(inner: Pci, faults: Faults) -> (Pci, Arc<Mutex<Faults>>) {
        let faults = Arc::new(Mutex::new(faults));
        (Pci::new(Arc::new(Broken { inner, faults: faults.clone() })), faults)
    }

    fn faults(&self) -> Faults {
        self.faults.lock().unwrap().clone()
    }
}

impl Backend for Broken {
    fn name(&self) -> String {
        "broken".to_owned()
    }

    fn read_config(&self, offset: u16, data: &mut [u8]) -> Result<()> {
        self.inner.read_config(offset, data)?;
        if let Some((vendor, device)) = self.faults().ids.filter(|_| offset == 0 && data.len() >= 4) {
            data[..2].copy_from_slice(&vendor.to_le_bytes());
            data[2..4].copy_from_slice(&device.to_le_bytes());
        }
        Ok(())
    }

    fn write_config(&self, offset: u16, data: &[u8]) -> Result<()> {
        self.inner.write_config(offset, data)
    }

    fn bar_layout(&self, index: usize) -> Result<BarLayout> {
        let layout = self.inner.bar_layout(index)?;
        let size = self.faults().size.unwrap_or(layout.size);
        Ok(BarLayout { size, mapped: Vec::new(), ..layout })
    }

    fn read_bar(&self, index: usize, offset: u32, data: &mut [u8]) -> Result<()> {
        let faults = self.faults();
        if faults.gone {
            data.fill(0xFF);
            return Ok(());
        }
        self.inner.read_bar(index, offset, data)?;
        if let Some(&(_, mask, bits)) = faults.stuck.iter().find(|(at, ..)| *at == offset) {
            for (byte, (mask, bits)) in
                data.iter_mut().zip(mask.to_le_bytes().into_iter().zip(bits.to_le_bytes()))
            {
                *byte = *byte & !mask | bits;
            }
        }
        Ok(())
    }

    fn write_bar(&self, index: usize, offset: u32, data: &[u8]) -> Result<()> {
        if self.faults().gone { Ok(()) } else { self.inner.write_bar(index, offset, data) }
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
        if self.faults().gone { Err(Error::HungUp { peer: self.name() }) } else { Ok(()) }
    }
}
