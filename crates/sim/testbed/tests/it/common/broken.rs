//! A device that is wrong in a way of the test's choosing: a register that
//! never moves, another identity, a small BAR, or gone. What is not wrong is the
//! model's.

use std::sync::{Arc, Mutex};

use bus::{Error, Pci, Result};

use super::between::{Between, in_front_of};

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
    /// The bus cannot reset it.
    pub no_reset: bool,
}

/// What stands in front of the model.
#[derive(Debug)]
pub struct Broken {
    faults: Arc<Mutex<Faults>>,
}

impl Broken {
    /// Puts faults, which may change later, in front of a device.
    #[expect(clippy::new_ret_no_self, reason = "it lives behind the Pci")]
    pub fn new(inner: Pci, faults: Faults) -> (Pci, Arc<Mutex<Faults>>) {
        let faults = Arc::new(Mutex::new(faults));
        (in_front_of(inner, Arc::new(Broken { faults: faults.clone() })), faults)
    }

    fn faults(&self) -> Faults {
        self.faults.lock().unwrap().clone()
    }
}

impl Between for Broken {
    fn read_config(&self, inner: &Pci, offset: u16, data: &mut [u8]) -> Result<()> {
        inner.read_config(offset, data)?;
        if let Some((vendor, device)) = self.faults().ids.filter(|_| offset == 0 && data.len() >= 4) {
            data[..2].copy_from_slice(&vendor.to_le_bytes());
            data[2..4].copy_from_slice(&device.to_le_bytes());
        }
        Ok(())
    }

    fn bar_size(&self, size: u64) -> u64 {
        self.faults().size.unwrap_or(size)
    }

    fn read_bar(&self, inner: &Pci, index: usize, offset: u32, data: &mut [u8]) -> Result<()> {
        let faults = self.faults();
        if faults.gone {
            data.fill(0xFF);
            return Ok(());
        }
        inner.read_bar(index, offset, data)?;
        if let Some(&(_, mask, bits)) = faults.stuck.iter().find(|(at, ..)| *at == offset) {
            for (byte, (mask, bits)) in
                data.iter_mut().zip(mask.to_le_bytes().into_iter().zip(bits.to_le_bytes()))
            {
                *byte = *byte & !mask | bits;
            }
        }
        Ok(())
    }

    fn write_bar(&self, inner: &Pci, index: usize, offset: u32, data: &[u8]) -> Result<()> {
        if self.faults().gone { Ok(()) } else { inner.write_bar(index, offset, data) }
    }

    fn reset(&self, inner: &Pci) -> Result<()> {
        let (device, what) = (inner.name(), "be reset");
        match self.faults().no_reset {
            true => Err(Error::Unsupported { device, what, fix: "use its own register" }),
            false => inner.reset(),
        }
    }

    fn health(&self, inner: &Pci) -> Result<()> {
        if self.faults().gone { Err(Error::HungUp { peer: inner.name() }) } else { Ok(()) }
    }
}
