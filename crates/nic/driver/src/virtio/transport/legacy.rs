//! The legacy interface (virtio 1.3, 4.1.4.10 and the "Legacy Interface"
//! sections): I/O ports in BAR 0, rings named by page number, 32 feature bits.
//!
//! Legacy devices know no IOMMU: they see physical addresses. Interrupts are
//! used where the way to the device can wire MSI-X, which sysfs cannot.

use std::thread::sleep;
use std::time::{Duration, Instant};

use bus::{Bar, Pci};
use regs::virtio::pci::{NO_VECTOR, legacy};

use super::{Areas, Doorbell, Transport};
use crate::virtio::VirtioFault;
use crate::{Error, Result};

/// Bytes in front of the device's configuration, which is as long again.
const REGISTERS: u32 = legacy::CONFIG;

/// PCI capability: MSI-X (PCI 3.0, 6.8.2), and its enable bit.
const CAPABILITY_MSIX: u8 = 0x11;
const MSIX_ENABLE: u16 = 1 << 15;

/// A device by its legacy interface.
#[derive(Debug)]
pub struct Legacy {
    pci: Pci,
    bar: Bar,
}

impl Legacy {
    /// Finds the registers of a legacy or transitional device.
    pub fn open(pci: Pci) -> Result<Legacy> {
        let bar = pci.bar(0)?.traced(&pci.name(), |_| None);
        if bar.len() < REGISTERS {
            let device = pci.name();
            return Err(Error::BarTooSmall { device, bar: 0, len: bar.len(), needed: REGISTERS });
        }
        Ok(Legacy { pci, bar })
    }

    /// With MSI-X enabled two vector registers push the configuration back.
    fn msix_enabled(&self) -> bool {
        let found = crate::capability::find(&self.pci, |id, _| id == CAPABILITY_MSIX);
        let Some(at) = found else { return false };
        let mut control = [0; 2];
        self.pci.read_config(at + 2, &mut control).is_ok() && u16::from_le_bytes(control) & MSIX_ENABLE != 0
    }

    fn select(&self, queue: u16) {
        self.bar.write16(legacy::QUEUE_SELECT, queue);
    }
}

impl Transport for Legacy {
    fn pci(&self) -> &Pci {
        &self.pci
    }

    fn is_legacy(&self) -> bool {
        true
    }

    fn features(&self) -> Result<u64> {
        Ok(self.bar.read32(legacy::DEVICE_FEATURES).into())
    }

    fn accept(&self, features: u64) -> Result<()> {
        self.bar.write32(legacy::DRIVER_FEATURES, features as u32);
        Ok(())
    }

    fn status(&self) -> u8 {
        self.bar.read8(legacy::DEVICE_STATUS)
    }

    fn set_status(&self, status: u8) -> Result<()> {
        self.bar.write8(legacy::DEVICE_STATUS, status);
        Ok(())
    }

    fn reset(&self) -> Result<()> {
        self.bar.write8(legacy::DEVICE_STATUS, 0);
        await_zero(&self.pci, legacy::DEVICE_STATUS, || self.status())
    }

    fn queue_size(&self, queue: u16) -> u16 {
        self.select(queue);
        match self.bar.read16(legacy::QUEUE_SIZE) {
            u16::MAX => 0, // nothing answers
            size => size,
        }
    }

    fn start_queue(&self, queue: u16, areas: &Areas) -> Result<Doorbell> {
        let page = areas.descriptors / legacy::PAGE as u64;
        let page = u32::try_from(page).map_err(|_| VirtioFault::RingOutOfReach {
            device: self.pci.name(),
            address: areas.descriptors,
        })?;
        self.select(queue);
        self.bar.write32(legacy::QUEUE_ADDRESS, page);
        if self.bar.read32(legacy::QUEUE_ADDRESS) != page {
            return Err(VirtioFault::QueueRefused { device: self.pci.name(), queue }.into());
        }
        if let Some(vector) = areas.vector {
            self.bar.write16(legacy::CONFIG_MSIX_VECTOR, NO_VECTOR);
            self.bar.write16(legacy::QUEUE_MSIX_VECTOR, vector);
            if self.bar.read16(legacy::QUEUE_MSIX_VECTOR) != vector {
                return Err(VirtioFault::VectorRefused { device: self.pci.name(), queue, vector }.into());
            }
        }
        Ok(Doorbell::register(self.bar.clone(), legacy::QUEUE_NOTIFY, queue))
    }

    fn read_config(&self, offset: u32, data: &mut [u8]) {
        let start = if self.msix_enabled() { legacy::CONFIG_MSIX } else { legacy::CONFIG };
        for (at, byte) in (start + offset..).zip(data) {
            *byte = if at < self.bar.len() { self.bar.read8(at) } else { 0 };
        }
    }
}

/// Waits until a status register reads zero after a reset was asked for.
pub(super) fn await_zero(pci: &Pci, offset: u32, status: impl Fn() -> u8) -> Result<()> {
    const LIMIT: Duration = Duration::from_secs(1);
    let start = Instant::now();
    loop {
        let last = status();
        if last == 0 {
            return Ok(());
        }
        // One that is gone reads as all ones, and for ever.
        pci.health()?;
        if start.elapsed() >= LIMIT {
            return Err(Error::Timeout {
                device: pci.name(),
                register: "device_status",
                offset,
                last: last.into(),
                mask: 0xFF,
                wanted: 0,
                waited_ms: start.elapsed().as_millis() as u64,
                meaning: "the device does not come out of reset; restart its hypervisor or server",
            });
        }
        sleep(Duration::from_micros(50));
    }
}
