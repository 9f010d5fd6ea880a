//! The drivers, and which device each of them knows.

use bus::Pci;
use driver::{i40e, iavf, igb, ixgbe, ixgbevf, virtio};
use memory::Dma;
use port::{Options, Port, Result};

/// A driver of this build.
#[derive(Debug)]
pub struct Driver {
    /// Its name.
    pub name: &'static str,
    /// The devices it drives, in words.
    pub drives: &'static str,
    /// The most receive queues that it opens a device with.
    pub most_queues: usize,
    /// Whether it knows a device by vendor and device id.
    pub knows: fn(vendor: u16, device: u16) -> bool,
    /// Resets a device and brings it up.
    pub open: fn(Pci, &Dma, Options) -> Result<Box<dyn Port>>,
}

/// All drivers. A static, not a constant: that would have each crate compile every driver's code anew.
pub static DRIVERS: &[Driver] = &[
    Driver {
        name: ixgbe::NAME,
        drives: ixgbe::DRIVES,
        most_queues: ixgbe::MOST_QUEUES,
        knows: ixgbe::knows,
        open: |pci, dma, options| Ok(Box::new(ixgbe::Ixgbe::open(pci, dma, options)?)),
    },
    Driver {
        name: ixgbevf::NAME,
        drives: ixgbevf::DRIVES,
        most_queues: ixgbevf::MOST_QUEUES,
        knows: ixgbevf::knows,
        open: |pci, dma, options| Ok(Box::new(ixgbevf::Ixgbevf::open(pci, dma, options)?)),
    },
    Driver {
        name: igb::NAME,
        drives: igb::DRIVES,
        most_queues: igb::MOST_QUEUES,
        knows: igb::knows,
        open: |pci, dma, options| Ok(Box::new(igb::Igb::open(pci, dma, options)?)),
    },
    Driver {
        name: i40e::NAME,
        drives: i40e::DRIVES,
        most_queues: i40e::MOST_QUEUES,
        knows: i40e::knows,
        open: |pci, dma, options| Ok(Box::new(i40e::I40e::open(pci, dma, options)?)),
    },
    Driver {
        name: iavf::NAME,
        drives: iavf::DRIVES,
        most_queues: iavf::MOST_QUEUES,
        knows: iavf::knows,
        open: |pci, dma, options| Ok(Box::new(iavf::Iavf::open(pci, dma, options)?)),
    },
    Driver {
        name: virtio::NAME,
        drives: virtio::DRIVES,
        most_queues: virtio::MOST_QUEUES,
        knows: virtio::knows,
        open: |pci, dma, options| Ok(Box::new(virtio::Virtio::open(pci, dma, options)?)),
    },
];

/// The driver that knows a device.
pub fn driver_of(vendor: u16, device: u16) -> Option<&'static Driver> {
    DRIVERS.iter().find(|driver| (driver.knows)(vendor, device))
}

/// What this build drives, in words.
pub fn drives() -> String {
    let each = DRIVERS.iter().map(|driver| format!("{} ({})", driver.drives, driver.name));
    format!("this build drives {}", each.collect::<Vec<_>>().join("; "))
}

/// Opens a device with the driver that knows its PCI ids.
///
/// # Errors
/// [`driver::Error::UnknownDevice`] when none does; else what the driver says.
pub fn open(pci: Pci, dma: &Dma, options: Options) -> Result<Box<dyn Port>> {
    let ids = pci.ids().map_err(driver::Error::from)?;
    match driver_of(ids.vendor, ids.device) {
        Some(driver) => (driver.open)(pci, dma, options),
        None => {
            let (vendor, id) = (ids.vendor, ids.device);
            Err(driver::Error::UnknownDevice { device: pci.name(), vendor, id, known: drives() }.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_one_driver_and_the_list_names_it() {
        let intel = [(0x8086, 0x10FB, "ixgbe"), (0x8086, 0x10C9, "igb"), (0x8086, 0x1583, "i40e")];
        let intel = intel.into_iter().chain([(0x8086, 0x154C, "iavf"), (0x8086, 0x1889, "iavf")]);
        let vfs = [0x10ED, 0x1515, 0x1565, 0x15A8].map(|device| (0x8086, device, "ixgbevf"));
        let known = intel.chain(vfs).chain([(0x1AF4, 0x1000, "virtio")]);
        for (vendor, device, name) in known.chain([(0x1AF4, 0x1041, "virtio")]) {
            let drivers = DRIVERS.iter().filter(|driver| (driver.knows)(vendor, device));
            assert_eq!(drivers.map(|driver| driver.name).collect::<Vec<_>>(), [name]);
            assert!(drives().contains(name));
        }
        assert!(driver_of(0x8086, 0x1521).is_none() && driver_of(0x10FB, 0x8086).is_none());
    }
}
