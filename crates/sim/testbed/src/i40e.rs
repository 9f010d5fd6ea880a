//! The XL710 model as a PCI function: identity and BARs of an adapter with QSFP+ cages, or of an X722
//! in a chipset.
//!
//! Datasheet 332464, chapter 11 (configuration space); PCI ids as the adapter's memory
//! gives them.

use std::io;

use bus::Ids;
use bus::config_space::{BarType, ConfigSpace};
use model::chip::WriteBackFormat;
pub use model::i40e::{FIRMWARE_WORDS, FirmwareSetup, MOST_VFS};
use model::i40e::{I40e, POLLED, SharedSlot, VECTORS, VF_POLLED, VF_VECTORS, Vf, write_back};
use regs::i40e::{BAR0_LEN, VENDOR_INTEL, device};

use crate::device::{Bar, BarContent, BoxedChip, Device, Shape, Vectors};
use crate::fault;
use crate::function::{self, Family, Memory};
use crate::view::{BarPages, Trust};
use crate::wire::Cable;

/// The MSI-X table's BAR, its bytes, and where the pending bits begin in it.
const MSIX_BAR: u8 = 3;
const TABLE: u32 = 32 << 10;
const PENDING: u32 = 4 << 10;

/// Likewise of a virtual function.
const VF_TABLE: u32 = 16 << 10;
const VF_PENDING: u32 = 8 << 10;

/// The device id of a virtual function of an XL710, and of one of an X722.
const DEVICE_VF: u16 = regs::iavf::DEVICES[0];
const DEVICE_X722_VF: u16 = regs::iavf::DEVICES[2];
/// The device id of an XL710 with QSFP+ cages.
pub const DEVICE_QSFP: u16 = 0x1583;
/// The device id of an X710 with SFP+ cages.
pub const DEVICE_SFP: u16 = 0x1572;

/// The device id of an X722 with SFP+ cages.
pub const DEVICE_X722: u16 = 0x37D0;

/// What distinguishes one served XL710 from another.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The Ethernet address of the port.
    pub mac: [u8; 6],
    /// Its PCI device id.
    pub device_id: u16,
    /// How much clients are trusted.
    pub trust: Trust,
    /// Faults of the device; those of the cable are its own.
    pub fault: Option<fault::Spec>,
    /// Entries of a table of tunnels beside the chip (decision 30), if it has one.
    pub encap: Option<u32>,
    /// What its firmware tells.
    pub firmware: FirmwareSetup,
    /// The number on the card of its first virtual function: another than zero on a card's second port.
    pub first_vf: u16,
}

impl Options {
    /// An XL710 with QSFP+ cages and this address.
    pub fn with_mac(mac: [u8; 6]) -> Options {
        let (trust, firmware) = (Trust::default(), FirmwareSetup::default());
        Options { mac, device_id: DEVICE_QSFP, trust, fault: None, encap: None, firmware, first_vf: 0 }
    }

    /// The generation of the chip that the device id is of.
    fn family(&self) -> regs::i40e::Family {
        device(self.device_id).map_or_else(Default::default, |device| device.family)
    }
}

/// An XL710 with `cable` in its port.
///
/// # Errors
/// What making its shared pages says.
pub fn open(options: &Options, cable: Cable) -> io::Result<Device> {
    function::open(options, cable, &[])
}

/// An XL710 with `cable` in its port and so many virtual functions, each a device of its own,
/// [`MOST_VFS`] at most.
///
/// # Errors
/// What making their shared pages says.
pub fn open_with_vfs(options: &Options, cable: Cable, vfs: usize) -> io::Result<(Device, Vec<Device>)> {
    function::open_with_vfs(options, cable, vfs)
}

impl Family for Options {
    type Slot = SharedSlot;

    const MOST_VFS: usize = MOST_VFS;
    const BAR0: [u32; 2] = [BAR0_LEN, regs::iavf::BAR0_LEN];
    const POLLED: [&[(u32, u32)]; 2] = [&POLLED, &VF_POLLED];
    const ENCAP_BAR: usize = 2;
    const WRITE_BACK: WriteBackFormat = write_back;

    fn trust(&self) -> Trust {
        self.trust
    }

    fn fault(&self) -> Option<fault::Spec> {
        self.fault
    }

    fn encap(&self) -> Option<u32> {
        self.encap
    }

    fn shape(&self) -> Shape {
        shape(self.device_id)
    }

    fn vf_shape(&self) -> Shape {
        vf_shape(match self.family() {
            regs::i40e::Family::Xl710 => DEVICE_VF,
            regs::i40e::Family::X722 => DEVICE_X722_VF,
        })
    }

    fn chip(&self, dma: Memory, pages: BarPages, vfs: &[SharedSlot], vectors: Vectors) -> BoxedChip {
        let mut chip = I40e::with_vfs(self.family(), dma, pages, self.mac, vfs);
        chip.set_first_vf(self.first_vf);
        chip.set_firmware(self.firmware);
        chip.set_interrupts(Some(Box::new(vectors)));
        Box::new(chip)
    }

    fn vf(dma: Memory, pages: BarPages, slot: SharedSlot, vectors: Vectors) -> BoxedChip {
        let mut vf = Vf::new(dma, pages, slot);
        vf.set_interrupts(Some(Box::new(vectors)));
        Box::new(vf)
    }
}

/// What a virtual function with this device id is.
fn vf_shape(device: u16) -> Shape {
    let ids = Ids {
        vendor: VENDOR_INTEL,
        device,
        revision: 2,
        class: 0x02_0000,
        subsystem_vendor: VENDOR_INTEL,
        subsystem: 0,
    };
    let registers = regs::iavf::BAR0_LEN;
    let bars = vec![
        Bar { index: 0, kind: BarType::Memory64, size: registers, content: BarContent::Registers },
        Bar {
            index: MSIX_BAR.into(),
            kind: BarType::Memory64,
            size: VF_TABLE,
            content: BarContent::MsixTable,
        },
    ];
    let config = ConfigSpace::new(ids)
        .with_msix(0x70, VF_VECTORS, (MSIX_BAR, 0), (MSIX_BAR, VF_PENDING))
        .with_pcie(0xA0, 8);
    Shape::new(config, bars, VF_VECTORS)
}

/// The function that an adapter with this device id is.
pub(crate) fn shape(device: u16) -> Shape {
    let ids = Ids {
        vendor: VENDOR_INTEL,
        device,
        revision: 2,
        class: 0x02_0000,
        subsystem_vendor: VENDOR_INTEL,
        subsystem: 0x0002,
    };
    let bars = vec![
        Bar { index: 0, kind: BarType::Memory64, size: BAR0_LEN, content: BarContent::Registers },
        Bar { index: MSIX_BAR.into(), kind: BarType::Memory64, size: TABLE, content: BarContent::MsixTable },
    ];
    let vectors = VECTORS as u16;
    let config = ConfigSpace::new(ids)
        .with_power_management(0x40)
        .with_msix(0x70, vectors, (MSIX_BAR, 0), (MSIX_BAR, PENDING))
        .with_pcie(0xA0, 8);
    Shape::new(config, bars, vectors)
}
