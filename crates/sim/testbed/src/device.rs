//! A PCI function around a model: configuration space, BARs, interrupts, its
//! view of memory and the cable in its port.
//!
//! [`Chip`] is what differs between models; [`Device`] is the rest, and the same
//! whether a driver reaches it in this process or over vfio-user.

mod report;
mod vectors;
mod words;

pub use report::{DeviceReport, Finding, Place};
pub use vectors::Vectors;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use bus::Kind;
use bus::config_space::ConfigSpace;
use model::virtio::Mishap;
use regs::virtio::pci::capability;

use crate::vhost_user::Rings;
use crate::view::{BarPages, View};
use crate::wire::Cable;

/// A model of a chip, whatever chip it is.
pub trait Chip: Send {
    /// What it is called: `82599`.
    fn name(&self) -> &'static str;
    /// Reads aligned 32 bits of BAR 0.
    fn read(&mut self, offset: u32) -> u32;
    /// Writes aligned 32 bits of BAR 0.
    fn write(&mut self, offset: u32, value: u32);
    /// An access of a width or alignment that no register has was made.
    fn odd(&mut self, offset: u32);
    /// Reads bytes of BAR 0; `false` for a width or alignment that no register
    /// has. As it stands, registers have 32 bits.
    fn read_bytes(&mut self, offset: u32, data: &mut [u8]) -> bool {
        words::read(self, offset, data)
    }
    /// Writes bytes of BAR 0, as [`Chip::read_bytes`].
    fn write_bytes(&mut self, offset: u32, data: &[u8]) -> bool {
        words::write(self, offset, data)
    }
    /// Bus Master Enable of the PCI command register was set or cleared. The
    /// device's view of memory is shut without it; a chip can say why.
    fn set_bus_master(&mut self, on: bool) {
        let _ = on;
    }
    /// Does what is to be done now; packets moved.
    fn step(&mut self, cable: &mut Cable, now_ns: u64) -> usize;
    /// As after power-on.
    fn reset(&mut self);
    /// The chip's own counters, by name.
    fn counters(&mut self) -> BTreeMap<String, u64>;
    /// Packets that it lost, by name.
    fn drops(&self) -> BTreeMap<String, u64>;
    /// What the linter found.
    fn findings(&self) -> Vec<Finding>;
    /// Does of its own accord what a device never should; `false` for one that
    /// knows nothing of the kind.
    fn suffer(&mut self, mishap: Mishap) -> bool {
        let _ = mishap;
        false
    }
    /// Its rings, if they can be set up from outside, as vhost-user does.
    fn rings(&mut self) -> Option<&mut dyn Rings> {
        None
    }
}

/// The shape of a PCI function.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Configuration space with BARs and capabilities.
    pub config: ConfigSpace,
    /// Bytes of BAR 0.
    pub registers: u32,
    /// Stretches of BAR 0 that the model polls and drivers map.
    pub polled: Vec<(u32, u32)>,
    /// Bytes of the I/O BAR 2: an address and a data register.
    pub ports: u32,
    /// Bytes of BAR 4, which holds the MSI-X table.
    pub table: u32,
    /// MSI-X vectors.
    pub vectors: u16,
    /// Where a capability lies through which BARs are accessed by way of the
    /// configuration space (virtio 1.3, section 4.1.4.9).
    pub window: Option<u16>,
}

/// A BAR, as [`Device::bar`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarShape {
    /// Bytes.
    pub size: u32,
    /// Memory or I/O ports.
    pub kind: Kind,
}

/// Injected faults, as the device drives them.
pub(crate) trait FaultHandle: Send {
    fn step(&self);
    fn forget(&self);
    fn counts(&self) -> BTreeMap<String, u64>;
}

impl<W: model::Window + Send + Sync> FaultHandle for crate::fault::dma::Handle<W> {
    fn step(&self) {
        self.step();
    }

    fn forget(&self) {
        self.forget();
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        self.counts()
    }
}

/// What a device is made of. The chip has the other clones of `view`, `pages`
/// and `vectors`.
pub(crate) struct Parts {
    pub chip: Box<dyn Chip>,
    pub shape: Shape,
    pub view: View,
    pub pages: BarPages,
    pub vectors: Vectors,
    pub cable: Cable,
    pub faults: Option<Box<dyn FaultHandle>>,
}

/// A PCI function around a model.
pub struct Device {
    parts: Parts,
    table: Box<[u8]>,
    /// The I/O BAR's address register.
    port_address: u32,
    now_ns: u64,
    /// Whether it was stepped by the machine's clock, not the caller's.
    follows_clock: bool,
    /// How far the caller's time had gone ahead of the machine's clock.
    ahead_ns: u64,
    /// What the last client that left had not unmapped: ranges and bytes.
    left_mapped: (usize, u64),
    report: DeviceReport,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device")
            .field("chip", &self.parts.chip.name())
            .field("wire", &self.parts.cable)
            .finish()
    }
}

impl Device {
    pub(crate) fn new(parts: Parts) -> Device {
        let table = vec![0; parts.shape.table as usize].into();
        let mut device = Device {
            parts,
            table,
            port_address: 0,
            now_ns: 0,
            follows_clock: false,
            ahead_ns: 0,
            left_mapped: (0, 0),
            report: DeviceReport::default(),
        };
        device.follow_bus_master();
        device
    }

    /// The device reaches memory if the driver lets it.
    fn follow_bus_master(&mut self) {
        let on = self.parts.shape.config.bus_master();
        self.parts.view.set_enabled(on);
        self.parts.chip.set_bus_master(on);
    }

    /// One step: what the device does at `now_ns`, or where that would be in the
    /// past, at the time of the step before. Packets moved.
    #[inline]
    pub fn step(&mut self, now_ns: u64) -> usize {
        let now_ns = now_ns.max(self.now_ns);
        self.now_ns = now_ns;
        if let Some(faults) = &self.parts.faults {
            faults.step();
        }
        self.parts.cable.advance(now_ns);
        let moved = self.parts.chip.step(&mut self.parts.cable, now_ns);
        self.report.steps += 1;
        self.report.busy_steps += u64::from(moved > 0);
        self.report.packets += moved as u64;
        moved
    }

    /// One step by the caller's own time.
    pub(crate) fn step_by_hand(&mut self, now_ns: u64) -> usize {
        self.follows_clock = false;
        self.step(now_ns)
    }

    /// Follows the machine's clock from now on. Time that the caller has gone
    /// ahead stays so, or it would stand still until the clock had come after.
    #[inline]
    pub(crate) fn follow_clock(&mut self, clock_ns: u64) {
        if !self.follows_clock {
            self.follows_clock = true;
            self.ahead_ns = self.now_ns.saturating_sub(clock_ns);
        }
    }

    /// One step by the machine's clock.
    #[inline]
    pub(crate) fn step_by_clock(&mut self, clock_ns: u64) -> usize {
        self.follow_clock(clock_ns);
        self.step(clock_ns + self.ahead_ns)
    }

    /// Whether it is stepped by the machine's clock.
    pub(crate) fn follows_clock(&self) -> bool {
        self.follows_clock
    }

    /// Lets drivers map no registers, before the first one comes: every access is
    /// seen, in order, and counters in the polled pages clear when read.
    pub fn trap_all(&mut self) {
        self.parts.shape.polled.clear();
    }

    /// The cable in its port.
    pub fn cable(&mut self) -> &mut Cable {
        &mut self.parts.cable
    }

    /// What it counted so far.
    pub fn report(&mut self) -> DeviceReport {
        let counters = self.parts.chip.counters();
        let vectors = self.parts.vectors.state();
        DeviceReport {
            chip: self.parts.chip.name().to_owned(),
            interrupts: vectors.raised,
            interrupts_unwired: vectors.unwired,
            mapped: self.parts.view.mapped(),
            counters,
            drops: self.parts.chip.drops(),
            faults: self.parts.faults.as_ref().map(|faults| faults.counts()).unwrap_or_default(),
            wire: self.parts.cable.stats(),
            findings: self.parts.chip.findings(),
            ..self.report.clone()
        }
    }

    /// The shape of BAR `index`, if there is one.
    pub fn bar(&self, index: usize) -> Option<BarShape> {
        let shape = &self.parts.shape;
        let (size, kind) = match index {
            0 => (shape.registers, Kind::Memory),
            2 => (shape.ports, Kind::Io),
            4 => (shape.table, Kind::Memory),
            _ => return None,
        };
        (size > 0).then_some(BarShape { size, kind })
    }

    /// The device does of its own accord what it never should; `false` for one
    /// that knows nothing of the kind.
    pub fn suffer(&mut self, mishap: Mishap) -> bool {
        self.parts.chip.suffer(mishap)
    }

    pub(crate) fn rings(&mut self) -> Option<&mut dyn Rings> {
        self.parts.chip.rings()
    }

    /// Sets what a PCI driver sets to let the device reach memory; over
    /// vhost-user there is no configuration space to do that through.
    pub(crate) fn let_reach_memory(&mut self) {
        const COMMAND: u16 = 0x04;
        const BUS_MASTER: u8 = 1 << 2;
        self.write_config(COMMAND, &[BUS_MASTER, 0]);
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.parts.shape
    }

    pub(crate) fn view(&self) -> &View {
        &self.parts.view
    }

    pub(crate) fn pages(&self) -> &BarPages {
        &self.parts.pages
    }

    pub(crate) fn set_interrupt(&self, vector: u16, event: Option<OwnedFd>) {
        if vector < self.parts.shape.vectors {
            self.parts.vectors.set(vector, event);
        }
    }

    pub(crate) fn read_config(&mut self, offset: u16, data: &mut [u8]) {
        self.parts.shape.config.read(offset, data);
        if let Some((bar, at, len)) = self.window(offset, data.len()) {
            self.read_bar(bar, at, &mut data[..len]);
        }
    }

    /// What an access to the window's data reaches: BAR, offset and length.
    fn window(&self, offset: u16, len: usize) -> Option<(usize, u64, usize)> {
        let window = self.parts.shape.window?;
        if offset != window + capability::PCI_CFG_DATA {
            return None;
        }
        let mut fields = [0; capability::BYTES_LONG as usize];
        self.parts.shape.config.read(window, &mut fields);
        let word =
            |at: u16| fields[usize::from(at)..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        let wanted = word(capability::LENGTH) as usize;
        let whole = matches!(wanted, 1 | 2 | 4) && wanted <= len;
        whole.then_some((
            fields[usize::from(capability::BAR)].into(),
            word(capability::OFFSET).into(),
            wanted,
        ))
    }

    pub(crate) fn write_config(&mut self, offset: u16, data: &[u8]) {
        self.parts.shape.config.write(offset, data);
        if let Some((bar, at, len)) = self.window(offset, data.len()) {
            self.write_bar(bar, at, &data[..len]);
        }
        self.follow_bus_master();
        if self.parts.shape.config.take_reset() {
            self.parts.shape.config.reset();
            self.reset();
        }
    }

    /// A BAR as a trapped access sees it. Out of range reads all ones.
    pub(crate) fn read_bar(&mut self, bar: usize, offset: u64, data: &mut [u8]) {
        self.report.trapped += 1;
        data.fill(0xFF);
        let Some(offset) = self.inside(bar, offset, data.len()) else { return };
        match bar {
            0 => {
                let fits = self.parts.chip.read_bytes(offset, data);
                self.report.odd_accesses += u64::from(!fits);
            }
            2 => {
                let word = match offset {
                    0..4 => self.port_address,
                    4..8 => self.register(self.port_address),
                    _ => 0,
                };
                words::copy_out(word, offset, data);
            }
            _ => data.copy_from_slice(&self.table[offset as usize..][..data.len()]),
        }
    }

    /// As [`Device::read_bar`]. Out of range is ignored.
    pub(crate) fn write_bar(&mut self, bar: usize, offset: u64, data: &[u8]) {
        self.report.trapped += 1;
        let Some(offset) = self.inside(bar, offset, data.len()) else { return };
        match bar {
            0 => {
                let fits = self.parts.chip.write_bytes(offset, data);
                self.report.odd_accesses += u64::from(!fits);
            }
            2 => match (offset, <[u8; 4]>::try_from(data)) {
                (0, Ok(word)) => self.port_address = u32::from_le_bytes(word),
                (4, Ok(word)) => self.set_register(self.port_address, u32::from_le_bytes(word)),
                _ => self.odd(offset),
            },
            _ => self.table[offset as usize..][..data.len()].copy_from_slice(data),
        }
    }

    fn inside(&self, bar: usize, offset: u64, len: usize) -> Option<u32> {
        let size = self.bar(bar)?.size;
        let offset = u32::try_from(offset).ok()?;
        (len as u64 + u64::from(offset) <= u64::from(size)).then_some(offset)
    }

    fn odd(&mut self, offset: u32) {
        self.report.odd_accesses += 1;
        self.parts.chip.odd(offset);
    }

    fn register(&mut self, offset: u32) -> u32 {
        let aligned = offset & !3;
        if aligned >= self.parts.shape.registers {
            return u32::MAX;
        }
        self.parts.chip.read(aligned)
    }

    fn set_register(&mut self, offset: u32, value: u32) {
        if offset.is_multiple_of(4) && offset < self.parts.shape.registers {
            self.parts.chip.write(offset, value);
        }
    }

    /// Resets the registers, not what the host mapped or wired. The
    /// configuration space stays: VFIO restores it after a reset.
    pub(crate) fn reset(&mut self) {
        self.parts.chip.reset();
        self.follow_bus_master();
        self.table.fill(0);
        self.port_address = 0;
        if let Some(faults) = &self.parts.faults {
            faults.forget();
        }
    }

    /// A client attaches.
    pub(crate) fn attach(&mut self) {
        self.report.clients += 1;
    }

    /// Ranges of host memory that the last client left mapped when it went, and
    /// their bytes.
    pub(crate) fn left_mapped(&self) -> (usize, u64) {
        self.left_mapped
    }

    /// The client is gone: so is its memory, and the device as new.
    pub(crate) fn detach(&mut self) {
        self.left_mapped = self.parts.view.mapped();
        self.parts.vectors.clear();
        self.parts.view.clear();
        self.parts.shape.config.reset();
        self.reset();
        self.parts.cable.flush();
    }

    pub(crate) fn map(&self, range: &bus::DmaRange<'_>) -> io::Result<()> {
        // SAFETY: whoever makes a DmaRange vouches that it stays mapped until
        // it is unmapped; that goes through `Device::unmap`, which holds the
        // device's lock as does every step.
        unsafe { self.parts.view.map_here(range.iova(), range.addr(), range.len()) }
    }

    pub(crate) fn unmap(&self, iova: u64, len: u64) -> io::Result<()> {
        self.parts.view.unmap(iova, len)
    }
}
