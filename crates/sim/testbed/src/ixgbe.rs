//! The 82599 model as a PCI function: identity and BARs of an X520 adapter.
//!
//! 82599 datasheet rev. 3.4, sections 8.1 (BARs) and 9.3 (configuration
//! space); PCI ids as the adapter's EEPROM gives them.

use std::io;

use bus::Ids;
use bus::config_space::{BarType, ConfigSpace};
use model::chip::WriteBackFormat;
pub use model::ixgbe::MOST_VFS;
use model::ixgbe::{Ixgbe, Options as ModelOptions, POLLED, SharedSlot, VF_POLLED, Vf, write_back};
use regs::ixgbe::VENDOR_INTEL;

use crate::device::{Bar, BarContent, BoxedChip, Device, Shape, Vectors};
use crate::fault;
use crate::function::{self, Family, Memory};
use crate::view::{BarPages, Trust};
use crate::wire::Cable;

/// Bytes of BAR 0.
pub(crate) const REGISTERS: u32 = regs::ixgbe::BAR0_LEN;
const VECTORS: u16 = 64;
/// The MSI-X table's BAR, its bytes, and where the pending bits begin in it.
const MSIX_BAR: u8 = 4;
const TABLE: u32 = 16 << 10;
const PENDING: u32 = 8 << 10;

/// Likewise of a virtual function.
const VF_MSIX_BAR: u8 = 3;
const VF_TABLE: u32 = 16 << 10;
const VF_PENDING: u32 = 8 << 10;
const VF_VECTORS: u16 = regs::ixgbevf::VECTORS as u16;

/// The device id of a virtual function.
pub const DEVICE_VF: u16 = regs::ixgbevf::DEVICES[0];
/// The device id of an adapter with a cage for an SFP+ module, an X520.
pub const DEVICE_SFP: u16 = 0x10FB;
/// The device id of a backplane adapter (KX4), without a cage.
pub const DEVICE_KX4: u16 = 0x10F7;
/// The device id of an X550, as far as it differs here: it stamps frames.
pub const DEVICE_X550: u16 = 0x1563;

/// What distinguishes one served 82599 from another.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// EEPROM with the MAC address, medium and module.
    pub model: ModelOptions,
    /// How much clients are trusted.
    pub trust: Trust,
    /// Faults of the device; those of the cable are its own.
    pub fault: Option<fault::Spec>,
    /// Entries of a table of tunnels beside the chip (decision 30), if it has one.
    pub encap: Option<u32>,
}

impl Options {
    /// An X520 with an SFP+ module and this address.
    pub fn with_mac(mac: [u8; 6]) -> Options {
        let mut options = Options::default();
        options.model.eeprom.mac = mac;
        let serial = format!("IX{:02X}{:02X}{:02X}", mac[3], mac[4], mac[5]);
        options.model.module = Some(model::ixgbe::i2c::module::Module::short_range("IXORA", &serial));
        options
    }

    /// Makes it another adapter: [`DEVICE_SFP`] has a cage with a module, [`DEVICE_KX4`] a
    /// backplane and no cage, [`DEVICE_X550`] the clock of an X550. Of that its PHY, its firmware
    /// and its new filters are not modelled; its link is that of the cage.
    pub fn set_device_id(&mut self, id: u16) {
        self.model.eeprom.device_id = id;
        if id == DEVICE_KX4 {
            self.model.link.media = model::ixgbe::link::Media::Backplane;
            self.model.link.autoc = 0xC09C_8004; // LMS 4: KX4, KX and KR with autonegotiation
            self.model.module = None;
        }
    }
}

/// The address of device `index` of a testbed: locally administered.
pub fn mac(index: u8) -> [u8; 6] {
    [0x02, 0x49, 0x58, 0x00, 0x00, index.wrapping_add(1)]
}

/// An 82599 with `cable` in its port.
///
/// # Errors
/// What making its shared pages says.
pub fn open(options: &Options, cable: Cable) -> io::Result<Device> {
    function::open(options, cable, &[])
}

/// An 82599 with `cable` in its port and so many virtual functions, each a device of its own,
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
    const BAR0: [u32; 2] = [REGISTERS, regs::ixgbevf::BAR0_LEN];
    const POLLED: [&[(u32, u32)]; 2] = [&POLLED, &VF_POLLED];
    const ENCAP_BAR: usize = 3;
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
        shape(self.model.eeprom.device_id)
    }

    fn vf_shape(&self) -> Shape {
        vf_shape()
    }

    fn chip(&self, dma: Memory, pages: BarPages, vfs: &[SharedSlot], vectors: Vectors) -> BoxedChip {
        let mut chip = Ixgbe::with_vfs(dma, pages, &self.model, vfs);
        chip.set_interrupts(Some(Box::new(vectors)));
        Box::new(chip)
    }

    fn vf(dma: Memory, pages: BarPages, slot: SharedSlot, vectors: Vectors) -> BoxedChip {
        let mut vf = Vf::new(dma, pages, slot);
        vf.set_interrupts(Some(Box::new(vectors)));
        Box::new(vf)
    }
}

/// What a virtual function is.
fn vf_shape() -> Shape {
    let ids = Ids {
        vendor: VENDOR_INTEL,
        device: DEVICE_VF,
        revision: 1,
        class: 0x02_0000,
        subsystem_vendor: VENDOR_INTEL,
        subsystem: 0x0003,
    };
    let registers = regs::ixgbevf::BAR0_LEN;
    let table = BarContent::MsixTable;
    let bars = vec![
        Bar { index: 0, kind: BarType::Memory64, size: registers, content: BarContent::Registers },
        Bar { index: VF_MSIX_BAR.into(), kind: BarType::Memory64, size: VF_TABLE, content: table },
    ];
    let config = ConfigSpace::new(ids)
        .with_msix(0x70, VF_VECTORS, (VF_MSIX_BAR, 0), (VF_MSIX_BAR, VF_PENDING))
        .with_pcie(0xA0, 8);
    Shape::new(config, bars, VF_VECTORS)
}

/// The function that an adapter with this device id is.
pub(crate) fn shape(device: u16) -> Shape {
    let ids = Ids {
        vendor: VENDOR_INTEL,
        device,
        revision: 1,
        class: 0x02_0000,
        subsystem_vendor: VENDOR_INTEL,
        subsystem: 0x0003,
    };
    let bars = vec![
        Bar { index: 0, kind: BarType::Memory64, size: REGISTERS, content: BarContent::Registers },
        Bar { index: 2, kind: BarType::Io, size: 32, content: BarContent::RegisterWindow },
        Bar { index: MSIX_BAR.into(), kind: BarType::Memory64, size: TABLE, content: BarContent::MsixTable },
    ];
    let config = ConfigSpace::new(ids)
        .with_power_management(0x40)
        .with_msix(0x70, VECTORS, (MSIX_BAR, 0), (MSIX_BAR, PENDING))
        .with_pcie(0xA0, 8);
    Shape::new(config, bars, VECTORS)
}
