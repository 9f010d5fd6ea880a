//! The modern interface (virtio 1.3, 4.1): structures in memory BARs, found by
//! vendor capabilities of the PCI configuration space. Every offset comes from
//! the device and is checked against its BAR before it is used.

use bus::{Bar, Pci};
use regs::virtio::pci::{CAPABILITY_VENDOR, NO_VECTOR, capability, common};

use super::legacy::await_zero;
use super::{Areas, Doorbell, Transport};
use crate::virtio::VirtioFault;
use crate::{Result, capability as chain};

/// A device by its modern interface.
#[derive(Debug)]
pub struct Modern {
    pci: Pci,
    common: Structure,
    notify: Structure,
    /// Bytes from one `queue_notify_off` to the next.
    notify_unit: u32,
    device: Option<Structure>,
}

/// A range of a BAR that a capability named, which lies inside it.
#[derive(Debug, Clone)]
struct Structure {
    bar: Bar,
    offset: u32,
    length: u32,
}

impl Structure {
    /// The structure of a type: the first capability that names a BAR which
    /// holds it (4.1.4: later ones are less preferred), and where that is.
    fn find(pci: &Pci, kind: u8, least: u32) -> Option<(Structure, u16)> {
        let mut found = None;
        chain::find(pci, |id, at| {
            if id == CAPABILITY_VENDOR && found.is_none() {
                found = Structure::read(pci, at, kind, least).map(|structure| (structure, at));
            }
            found.is_some()
        });
        found
    }

    fn read(pci: &Pci, at: u16, kind: u8, least: u32) -> Option<Structure> {
        let mut fields = [0; capability::BYTES as usize];
        pci.read_config(at, &mut fields).ok()?;
        let word = |at: u16| fields.get(usize::from(at)..)?.first_chunk().map(|b| u32::from_le_bytes(*b));
        let (is, bar) = (fields[usize::from(capability::CFG_TYPE)], fields[usize::from(capability::BAR)]);
        if is != kind || bar > 5 || fields[usize::from(capability::LEN)] < capability::BYTES {
            return None;
        }
        let (offset, length) = (word(capability::OFFSET)?, word(capability::LENGTH)?);
        let bar = pci.bar(bar.into()).ok()?.traced(&pci.name(), |_| None);
        let fits = offset.checked_add(length).is_some_and(|end| end <= bar.len());
        (fits && length >= least).then_some(Structure { bar, offset, length })
    }

    fn at(&self, field: u32) -> u32 {
        self.offset + field
    }
}

impl Modern {
    /// Whether the device has a modern interface.
    pub fn is_offered(pci: &Pci) -> bool {
        Structure::find(pci, capability::TYPE_COMMON, common::BYTES).is_some()
    }

    /// Finds the structures of a modern or transitional device.
    pub fn open(pci: Pci) -> Result<Modern> {
        let missing = |structure| VirtioFault::NoStructure { device: pci.name(), structure };
        let (common, _) = Structure::find(&pci, capability::TYPE_COMMON, common::BYTES)
            .ok_or_else(|| missing("common configuration"))?;
        let (notify, at) = Structure::find(&pci, capability::TYPE_NOTIFY, 2)
            .ok_or_else(|| missing("notification structure"))?;
        let mut unit = [0; 4];
        pci.read_config(at + capability::NOTIFY_OFF_MULTIPLIER, &mut unit)?;
        // A device may have no configuration of its own (4.1.4.6.1).
        let device = Structure::find(&pci, capability::TYPE_DEVICE, 1).map(|(structure, _)| structure);
        Ok(Modern { pci, common, notify, notify_unit: u32::from_le_bytes(unit), device })
    }

    fn read16(&self, field: u32) -> u16 {
        self.common.bar.read16(self.common.at(field))
    }

    fn write16(&self, field: u32, value: u16) {
        self.common.bar.write16(self.common.at(field), value);
    }

    fn read32(&self, field: u32) -> u32 {
        self.common.bar.read32(self.common.at(field))
    }

    fn write32(&self, field: u32, value: u32) {
        self.common.bar.write32(self.common.at(field), value);
    }

    /// A 64-bit field takes two writes of 32 bits (4.1.3.1).
    fn write64(&self, field: u32, value: u64) {
        self.write32(field, value as u32);
        self.write32(field + 4, (value >> 32) as u32);
    }

    /// Where the selected queue is notified (4.1.4.4).
    fn doorbell(&self, queue: u16) -> Result<Doorbell> {
        let off = u64::from(self.read16(common::QUEUE_NOTIFY_OFF)) * u64::from(self.notify_unit);
        if off + 2 > self.notify.length.into() || !off.is_multiple_of(2) {
            let (device, length) = (self.pci.name(), self.notify.length);
            return Err(VirtioFault::NotifyOutside { device, queue, offset: off, length }.into());
        }
        Ok(Doorbell::register(self.notify.bar.clone(), self.notify.at(off as u32), queue))
    }
}

impl Transport for Modern {
    fn pci(&self) -> &Pci {
        &self.pci
    }

    fn features(&self) -> Result<u64> {
        let half = |select| {
            self.write32(common::DEVICE_FEATURE_SELECT, select);
            u64::from(self.read32(common::DEVICE_FEATURE))
        };
        Ok(half(0) | half(1) << 32)
    }

    fn accept(&self, features: u64) -> Result<()> {
        for select in 0..2 {
            self.write32(common::DRIVER_FEATURE_SELECT, select);
            self.write32(common::DRIVER_FEATURE, (features >> (32 * select)) as u32);
        }
        Ok(())
    }

    fn status(&self) -> u8 {
        self.common.bar.read8(self.common.at(common::DEVICE_STATUS))
    }

    fn set_status(&self, status: u8) -> Result<()> {
        self.common.bar.write8(self.common.at(common::DEVICE_STATUS), status);
        Ok(())
    }

    fn reset(&self) -> Result<()> {
        self.set_status(0)?;
        await_zero(&self.pci, self.common.at(common::DEVICE_STATUS), || self.status())
    }

    fn queue_size(&self, queue: u16) -> u16 {
        if queue >= self.read16(common::NUM_QUEUES) {
            return 0;
        }
        self.write16(common::QUEUE_SELECT, queue);
        self.read16(common::QUEUE_SIZE)
    }

    fn start_queue(&self, queue: u16, areas: &Areas) -> Result<Doorbell> {
        let device = || self.pci.name();
        self.write16(common::QUEUE_SELECT, queue);
        self.write16(common::QUEUE_SIZE, areas.size);
        self.write64(common::QUEUE_DESC, areas.descriptors);
        self.write64(common::QUEUE_DRIVER, areas.driver);
        self.write64(common::QUEUE_DEVICE, areas.device);
        if self.pci.interrupt_vectors() > 0 {
            self.write16(common::CONFIG_MSIX_VECTOR, NO_VECTOR);
            let vector = areas.vector.unwrap_or(NO_VECTOR);
            self.write16(common::QUEUE_MSIX_VECTOR, vector);
            // A device without room for it answers NO_VECTOR (4.1.5.1.2.2).
            if self.read16(common::QUEUE_MSIX_VECTOR) != vector {
                return Err(VirtioFault::VectorRefused { device: device(), queue, vector }.into());
            }
        }
        let doorbell = self.doorbell(queue)?;
        self.write16(common::QUEUE_ENABLE, 1);
        if self.read16(common::QUEUE_ENABLE) != 1 || self.read16(common::QUEUE_SIZE) != areas.size {
            return Err(VirtioFault::QueueRefused { device: device(), queue }.into());
        }
        Ok(doorbell)
    }

    fn read_config(&self, offset: u32, data: &mut [u8]) {
        data.fill(0);
        let Some(device) = &self.device else { return };
        let at = device.at(offset);
        let whole = u64::from(offset) + data.len() as u64 <= device.length.into();
        // A field is read at once by its own width (4.1.3.1); addresses are bytes.
        match data {
            [_, _] if whole => data.copy_from_slice(&device.bar.read16(at).to_le_bytes()),
            [_, _, _, _] if whole => data.copy_from_slice(&device.bar.read32(at).to_le_bytes()),
            _ => {
                for (at, byte) in (offset..device.length).zip(data) {
                    *byte = device.bar.read8(device.at(at));
                }
            }
        }
    }

    fn generation(&self) -> u32 {
        self.common.bar.read8(self.common.at(common::CONFIG_GENERATION)).into()
    }
}
