//! The virtio network model as a PCI function: modern, as section 4.1 of virtio
//! 1.3 has it, with its capabilities.
//!
//! The structures are in BAR 0, the MSI-X table in BAR 4. All is trapped: a
//! driver that keeps to the device's event suppression rings no doorbell, for the rings are
//! polled.

use bus::Ids;
use bus::config_space::{BarType, ConfigSpace};
use model::virtio::Options as ModelOptions;
use model::virtio::pci::{BAR_BYTES, Function, NOTIFY_MULTIPLIER, STRUCTURES, Structure};
use regs::virtio::device;
use regs::virtio::pci::capability;

use crate::device::{
    Bar, BarContent, BoxedChip, ConfigWindow, Device, Edge, FaultHandle, Parts, Shape, Vectors,
};
use crate::fault;
use crate::fault::rings::{self, FaultyRingDma};
use crate::view::{Trust, View};
use crate::wire::Cable;

/// The MSI-X table's BAR, its bytes, and where the pending bits begin in it.
const MSIX_BAR: u8 = 4;
const TABLE: u32 = 4 << 10;
const PENDING: u32 = 2 << 10;
/// Where the capabilities lie in configuration space.
const MSIX_AT: usize = 0x98;
const POWER_AT: usize = 0xA4;
const PCIE_AT: usize = 0xAC;
const CAPABILITIES: [usize; 4] = [0x40, 0x50, 0x64, 0x74];
const WINDOW_AT: usize = 0x84;
/// Where the registers of the table of tunnels are, and the capability that names them.
const ENCAP_BAR: usize = 2;
const ENCAP_AT: usize = 0xE8;

/// What distinguishes one served virtio device from another.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Address, queues, features.
    pub model: ModelOptions,
    /// How much clients are trusted.
    pub trust: Trust,
    /// Faults of the device; those of the cable are its own.
    pub fault: Option<fault::Spec>,
    /// Entries of a table of tunnels beside the device (decision 30), if it has one.
    pub encap: Option<u32>,
}

impl Options {
    /// A device with this address.
    pub fn with_mac(mac: [u8; 6]) -> Options {
        Options { model: ModelOptions { mac, ..ModelOptions::default() }, ..Options::default() }
    }
}

/// A virtio network device with `cable` in its port.
pub fn open(options: &Options, cable: Cable) -> Device {
    let view = View::new(options.trust);
    let vectors = Vectors::default();
    let count = 2 * options.model.pairs.clamp(1, ModelOptions::MOST_PAIRS) + 2;
    let dma = view.clone();
    let (dma, faults): (_, Option<Box<dyn FaultHandle>>) = match options.fault {
        Some(spec) if spec.has_any(rings::NAMES) => {
            let (dma, handle) = FaultyRingDma::new(dma, spec);
            (dma, Some(Box::new(handle)))
        }
        _ => (FaultyRingDma::without_faults(dma), None),
    };
    let mut chip = Function::new(dma, &options.model, count);
    chip.set_interrupts(Some(Box::new(vectors.clone())));
    let chip: BoxedChip = Box::new(chip);
    let shape = match options.encap {
        Some(_) => shape(count).with_encap(ENCAP_BAR, ENCAP_AT),
        None => shape(count),
    };
    let edge = Edge::new(cable, options.encap);
    Device::new(Parts { chip, shape, view, polled: None, vectors, edge, faults })
}

/// The function's shape: one vector for each queue, and one for changes of the
/// configuration.
fn shape(vectors: u16) -> Shape {
    let ids = Ids {
        vendor: device::VENDOR,
        device: device::NET_MODERN,
        revision: 1,
        class: device::CLASS_ETHERNET,
        subsystem_vendor: device::VENDOR,
        subsystem: 0x1100, // section 4.1.2.1: any at or above 0x40 will do
    };
    let bars = vec![
        Bar { index: 0, kind: BarType::Memory64, size: BAR_BYTES, content: BarContent::Registers },
        Bar { index: MSIX_BAR.into(), kind: BarType::Memory64, size: TABLE, content: BarContent::MsixTable },
    ];
    let mut config = ConfigSpace::new(ids);
    for (at, structure) in CAPABILITIES.into_iter().zip(STRUCTURES) {
        config = config.with_vendor_capability(at, &content(structure), &[]);
    }
    // BAR, offset, length and data of accesses through configuration space
    // (4.1.4.9) are the driver's to write.
    let access = content(Structure { kind: capability::TYPE_PCI, offset: 0, length: 0 });
    let writable = [[0, 0xFF, 0, 0, 0].as_slice(), &[0xFF; 12]].concat();
    let config = config
        .with_vendor_capability(WINDOW_AT, &[&access[..], &[0; 4]].concat(), &writable)
        .with_msix(MSIX_AT, vectors, (MSIX_BAR, 0), (MSIX_BAR, PENDING))
        .with_power_management(POWER_AT)
        .with_pcie(PCIE_AT, 1);
    let config_window = Some(ConfigWindow { at: WINDOW_AT as u16 });
    Shape { config_window, ..Shape::new(config, bars, vectors) }
}

/// A capability behind its first three bytes (4.1.4).
fn content(structure: Structure) -> Vec<u8> {
    let Structure { kind, offset, length } = structure;
    let mut content = vec![kind, 0, 0, 0, 0];
    content.extend(offset.to_le_bytes());
    content.extend(length.to_le_bytes());
    if kind == capability::TYPE_NOTIFY {
        content.extend(NOTIFY_MULTIPLIER.to_le_bytes());
    }
    content
}
