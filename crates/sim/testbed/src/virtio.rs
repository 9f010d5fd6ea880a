//! The virtio network model as a PCI function: modern, as section 4.1 of virtio
//! 1.3 has it, with its capabilities; and its rings for vhost-user.
//!
//! The structures are in BAR 0, the MSI-X table in BAR 4. All is trapped: a
//! driver that heeds the device's wish rings no doorbell, for the rings are
//! polled.

use std::collections::BTreeMap;
use std::io;

use bus::Ids;
use bus::config_space::{BarType, ConfigSpace};
use bus::vhost_user::Ring;
use model::virtio::pci::{BAR_BYTES, Function, NOTIFY_MULTIPLIER, STRUCTURES, Structure};
use model::virtio::{Mishap, Options as ModelOptions, Place};
use model::{Dma, Window};
use regs::virtio::device;
use regs::virtio::feature::{ACCESS_PLATFORM, NOTIFICATION_DATA, RING_RESET, net};
use regs::virtio::pci::capability;

use crate::device::{Chip, Device, FaultHandle, Finding, Parts, Shape, Vectors};
use crate::fault;
use crate::fault::rings::LyingDma;
use crate::vhost_user::Rings;
use crate::view::{BarPages, Trust, View};
use crate::wire::Cable;

/// The MSI-X table's BAR, and where the pending bits begin in it.
const TABLE: u32 = 4 << 10;
const PENDING: u32 = 2 << 10;
/// Where the capabilities lie in configuration space.
const MSIX_AT: usize = 0x98;
const POWER_AT: usize = 0xA4;
const PCIE_AT: usize = 0xAC;
const CAPABILITIES: [usize; 4] = [0x40, 0x50, 0x64, 0x74];
const WINDOW_AT: usize = 0x84;

/// What distinguishes one served virtio device from another.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Address, queues, features.
    pub model: ModelOptions,
    /// How much clients are trusted.
    pub trust: Trust,
    /// Lies of the device; faults of the cable are its own.
    pub fault: Option<fault::Spec>,
}

impl Options {
    /// A device with this address.
    pub fn with_mac(mac: [u8; 6]) -> Options {
        Options { model: ModelOptions { mac, ..ModelOptions::default() }, ..Options::default() }
    }
}

/// A virtio network device with `cable` in its port.
///
/// # Errors
/// What making its shared pages says.
pub fn open(options: &Options, cable: Cable) -> io::Result<Device> {
    let view = View::new(options.trust);
    let pages = BarPages::new(BAR_BYTES)?;
    let vectors = Vectors::default();
    let count = 2 * options.model.pairs.clamp(1, ModelOptions::MOST_PAIRS) + 2;
    let dma = view.clone();
    let (chip, faults): (Box<dyn Chip>, Option<Box<dyn FaultHandle>>) = match options.fault {
        Some(spec) if spec.has_rings() => {
            let (dma, handle) = LyingDma::new(dma, spec);
            (Box::new(new(dma, options, count, &vectors)), Some(Box::new(handle)))
        }
        _ => (Box::new(new(dma, options, count, &vectors)), None),
    };
    Ok(Device::new(Parts { chip, shape: shape(count), view, pages, vectors, cable, faults }))
}

fn new<D: Dma>(dma: D, options: &Options, count: u16, vectors: &Vectors) -> Virtio<D> {
    let mut chip = Function::new(dma, &options.model, count);
    chip.set_interrupts(Some(Box::new(vectors.clone())));
    Virtio(chip)
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
    let mut config = ConfigSpace::new(ids).with_bar(0, BarType::Memory64, BAR_BYTES.into()).with_bar(
        4,
        BarType::Memory64,
        TABLE.into(),
    );
    for (at, structure) in CAPABILITIES.into_iter().zip(STRUCTURES) {
        config = config.with_vendor_capability(at, &content(structure), &[]);
    }
    // BAR, offset, length and data of accesses through configuration space
    // (4.1.4.9) are the driver's to write.
    let access = content(Structure { kind: capability::TYPE_PCI, offset: 0, length: 0 });
    let writable = [[0, 0xFF, 0, 0, 0].as_slice(), &[0xFF; 12]].concat();
    let config = config
        .with_vendor_capability(WINDOW_AT, &[&access[..], &[0; 4]].concat(), &writable)
        .with_msix(MSIX_AT, vectors, (4, 0), (4, PENDING))
        .with_power_management(POWER_AT)
        .with_pcie(PCIE_AT, 1);
    let window = Some(WINDOW_AT as u16);
    Shape { config, registers: BAR_BYTES, polled: Vec::new(), ports: 0, table: TABLE, vectors, window }
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

/// The chip, over either transport.
struct Virtio<D: Dma>(Function<D>);

impl<D> Chip for Virtio<D>
where
    D: Dma + Send,
    D::Window: Window + Send,
{
    fn name(&self) -> &'static str {
        "virtio-net"
    }

    fn read(&mut self, offset: u32) -> u32 {
        let mut data = [0; 4];
        self.0.read(offset, &mut data);
        u32::from_le_bytes(data)
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.0.write(offset, &value.to_le_bytes());
    }

    fn odd(&mut self, _offset: u32) {}

    fn read_bytes(&mut self, offset: u32, data: &mut [u8]) -> bool {
        self.0.read(offset, data);
        true
    }

    fn write_bytes(&mut self, offset: u32, data: &[u8]) -> bool {
        self.0.write(offset, data);
        true
    }

    #[inline]
    fn step(&mut self, cable: &mut Cable, now_ns: u64) -> usize {
        self.0.step(cable, now_ns)
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn counters(&mut self) -> BTreeMap<String, u64> {
        let net = self.0.net();
        let mut all: BTreeMap<_, _> =
            net.totals().iter().map(|(name, count)| (name.to_owned(), count)).collect();
        all.insert("rx_waiting".to_owned(), net.waiting() as u64);
        all
    }

    fn drops(&self) -> BTreeMap<String, u64> {
        let lost = self.0.net().drops().iter().filter(|&(_, count)| count > 0);
        lost.map(|(name, count)| (name.to_owned(), count)).collect()
    }

    fn findings(&self) -> Vec<Finding> {
        self.0.net().lint().groups().iter().map(Finding::from).collect()
    }

    fn suffer(&mut self, mishap: Mishap) -> bool {
        self.0.suffer(mishap);
        true
    }

    fn rings(&mut self) -> Option<&mut dyn Rings> {
        Some(self)
    }
}

/// Features that stay with a front end, which has the control queue and the
/// configuration; and translation, which it does itself.
const FRONT_END: u64 = ACCESS_PLATFORM
    | net::CTRL_VQ
    | net::CTRL_RX
    | net::CTRL_VLAN
    | net::CTRL_RX_EXTRA
    | net::CTRL_MAC_ADDR
    | net::CTRL_GUEST_OFFLOADS
    | net::MAC
    | net::MTU
    | net::STATUS
    | net::RSS
    | net::HASH_REPORT
    | net::SPEED_DUPLEX
    | RING_RESET
    | NOTIFICATION_DATA;

impl<D: Dma> Rings for Virtio<D>
where
    D: Dma + Send,
    D::Window: Window + Send,
{
    fn features(&self) -> u64 {
        self.0.net().offered() & !FRONT_END
    }

    fn set_features(&mut self, features: u64) {
        let net = self.0.net_mut();
        net.set_features_of_front_end(features);
        let pairs = net.pairs();
        net.use_pairs(pairs);
        net.run(true);
    }

    fn pairs(&self) -> u16 {
        self.0.net().pairs()
    }

    fn start(&mut self, index: u16, ring: &Ring) -> bool {
        let Ring { size, descriptors, driver, device, base } = *ring;
        let net = self.0.net_mut();
        net.set_vector(index, Some(index));
        net.set_up(index, Place { size, descriptors, driver, device }, Some(base))
    }

    fn enable(&mut self, index: u16, on: bool) {
        self.0.net_mut().enable(index, on);
    }

    fn stop(&mut self, index: u16) -> u32 {
        self.0.net_mut().take_down(index)
    }

    fn is_broken(&self, index: u16) -> bool {
        self.0.net().is_broken(index)
    }
}
