//! The 82599 model as a PCI function: identity and BARs of an X520 adapter.
//!
//! 82599 datasheet rev. 3.4, sections 8.1 (BARs) and 9.3 (configuration
//! space); PCI ids as the adapter's EEPROM gives them.

use std::io;

use bus::Ids;
use bus::config_space::{BarType, ConfigSpace};
use model::Dma;
use model::ixgbe::{Ixgbe, Options as ModelOptions, POLLED};

use crate::device::{BoxedChip, Device, FaultHandle, Parts, PolledPages, Shape, Vectors};
use crate::fault;
use crate::fault::dma::FaultyDma;
use crate::view::{BarPages, Trust, View};
use crate::wire::Cable;

/// Bytes of BAR 0.
pub(crate) const REGISTERS: u32 = regs::ixgbe::BAR0_LEN;
const VECTORS: u16 = 64;
/// The MSI-X table's BAR, and where the pending bits begin in it.
const TABLE: u32 = 16 << 10;
const PENDING: u32 = 8 << 10;

/// What distinguishes one served 82599 from another.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// EEPROM with the MAC address, medium and module.
    pub model: ModelOptions,
    /// How much clients are trusted.
    pub trust: Trust,
    /// Faults of the device; those of the cable are its own.
    pub fault: Option<fault::Spec>,
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

    /// Another adapter with the same chip: 0x10FB has a cage with a module,
    /// 0x10F7 a backplane (KX4) and no cage.
    pub fn set_device_id(&mut self, id: u16) {
        self.model.eeprom.device_id = id;
        if id == 0x10F7 {
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
    let view = View::new(options.trust);
    let pages = BarPages::new(REGISTERS)?;
    let vectors = Vectors::default();
    let (dma, shared) = (view.clone(), pages.clone());
    let (chip, faults): (BoxedChip, Option<Box<dyn FaultHandle>>) = match options.fault {
        Some(spec) if spec.has_dma() => {
            let (dma, handle) = FaultyDma::new(dma, spec);
            (Box::new(new(dma, shared, options, &vectors)), Some(Box::new(handle)))
        }
        _ => (Box::new(new(dma, shared, options, &vectors)), None),
    };
    let shape = shape(options.model.eeprom.device_id);
    let polled = Some(PolledPages { pages, areas: POLLED.to_vec() });
    Ok(Device::new(Parts { chip, shape, view, polled, vectors, cable, faults }))
}

fn new<D: Dma>(dma: D, pages: BarPages, options: &Options, vectors: &Vectors) -> Ixgbe<D, BarPages> {
    let mut chip = Ixgbe::new(dma, pages, &options.model);
    chip.set_interrupts(Some(Box::new(vectors.clone())));
    chip
}

/// The function that an adapter with this device id is.
pub(crate) fn shape(device: u16) -> Shape {
    let ids = Ids {
        vendor: 0x8086,
        device,
        revision: 1,
        class: 0x02_0000,
        subsystem_vendor: 0x8086,
        subsystem: 0x0003,
    };
    let config = ConfigSpace::new(ids)
        .with_bar(0, BarType::Memory64, REGISTERS.into())
        .with_bar(2, BarType::Io, 32)
        .with_bar(4, BarType::Memory64, TABLE.into())
        .with_power_management(0x40)
        .with_msix(0x70, VECTORS, (4, 0), (4, PENDING))
        .with_pcie(0xA0, 8);
    Shape { config, registers: REGISTERS, ports: 32, table: TABLE, vectors: VECTORS, window: None }
}
