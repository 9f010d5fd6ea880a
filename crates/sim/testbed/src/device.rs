//! A PCI function around a model: configuration space, BARs, interrupts, its
//! view of memory and the cable in its port.
//!
//! [`model::Chip`] is what differs between models; [`Device`] is the rest, and the
//! same whether a driver reaches it in this process or over a socket.

mod config_window;
mod edge;
mod report;
mod vectors;

pub use config_window::ConfigWindow;
pub(crate) use edge::Edge;
pub use report::{DeviceReport, Finding, FindingPlace};
pub use vectors::Vectors;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use bus::BarKind;
use bus::config_space::{BarType, ConfigSpace};
use model::Chip;
use model::chip::{DeviceFault, Rings, copy_word};

use crate::view::{BarPages, View};
use crate::wire::Cable;

/// A model of a chip with what is at its port.
pub(crate) type BoxedChip = Box<dyn Chip<Edge>>;

/// The shape of a PCI function.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Configuration space with BARs and capabilities.
    pub config: ConfigSpace,
    /// The BARs, one of them with the registers.
    pub bars: Vec<Bar>,
    /// How many MSI-X vectors the function has.
    pub vectors: u16,
    /// BARs accessed by way of the configuration space, if they can be.
    pub config_window: Option<ConfigWindow>,
}

/// A BAR of a PCI function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Which one, 0 to 5.
    pub index: usize,
    /// Memory or I/O ports.
    pub kind: BarType,
    /// Its size in bytes, a power of two.
    pub size: u32,
    /// What an access of it reaches.
    pub content: BarContent,
}

/// What an access of a BAR reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarContent {
    /// The chip's registers.
    Registers,
    /// An address register at 0 and a data register at 4, which is the chip's register
    /// at that address (82599, IOADDR and IODATA).
    RegisterWindow,
    /// The table and pending bits of MSI-X.
    MsixTable,
    /// The registers of the table of tunnels (decision 30).
    Encap,
}

impl Bar {
    /// How an access of it is made.
    pub(crate) fn access(&self) -> BarKind {
        match self.kind {
            BarType::Io => BarKind::Io,
            BarType::Memory32 | BarType::Memory64 => BarKind::Memory,
        }
    }
}

impl Shape {
    /// A function with these BARs, which are added to `config`, and so many vectors.
    pub fn new(config: ConfigSpace, bars: Vec<Bar>, vectors: u16) -> Shape {
        let add = |config: ConfigSpace, bar: &Bar| config.with_bar(bar.index, bar.kind, bar.size.into());
        let config = bars.iter().fold(config, add);
        Shape { config, bars, vectors, config_window: None }
    }

    /// The bytes of the BAR with this content; zero where there is none.
    fn bytes_of(&self, content: BarContent) -> u32 {
        self.bars.iter().find(|bar| bar.content == content).map_or(0, |bar| bar.size)
    }
}

/// Pages of the registers' BAR that the model polls and drivers map.
#[derive(Clone, Debug)]
pub struct PolledPages {
    /// All of the BAR.
    pub pages: BarPages,
    /// Offset and bytes of what is polled, in whole pages.
    pub areas: Vec<(u32, u32)>,
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

/// What a device is made of. The chip has the other clones of `view`, `polled`'s
/// pages and `vectors`.
pub(crate) struct Parts {
    pub chip: BoxedChip,
    pub shape: Shape,
    pub view: View,
    pub polled: Option<PolledPages>,
    pub vectors: Vectors,
    pub edge: Edge,
    pub faults: Option<Box<dyn FaultHandle>>,
}

/// A PCI function around a model.
pub struct Device {
    parts: Parts,
    msix_table: Box<[u8]>,
    /// Bytes of the registers' BAR.
    registers: u32,
    /// The register window's address register.
    window_address: u32,
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
            .field("wire", &self.parts.edge.cable)
            .finish()
    }
}

impl Device {
    pub(crate) fn new(parts: Parts) -> Device {
        let msix_table = vec![0; parts.shape.bytes_of(BarContent::MsixTable) as usize].into();
        let registers = parts.shape.bytes_of(BarContent::Registers);
        let mut device = Device {
            parts,
            msix_table,
            registers,
            window_address: 0,
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
        self.step_with(now_ns, |chip, edge, now_ns| chip.step(edge, now_ns))
    }

    #[inline]
    fn step_with(
        &mut self,
        now_ns: u64,
        step: impl FnOnce(&mut BoxedChip, &mut Edge, u64) -> usize,
    ) -> usize {
        let now_ns = now_ns.max(self.now_ns);
        self.now_ns = now_ns;
        if let Some(faults) = &self.parts.faults {
            faults.step();
        }
        self.parts.edge.cable.advance(now_ns);
        let moved = step(&mut self.parts.chip, &mut self.parts.edge, now_ns);
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

    /// One step by the machine's clock of one pair of queues.
    #[inline]
    pub(crate) fn step_queue_by_clock(&mut self, clock_ns: u64, queue: usize) -> usize {
        self.follow_clock(clock_ns);
        let now_ns = clock_ns + self.ahead_ns;
        self.step_with(now_ns, |chip, edge, now_ns| chip.step_queue(edge, now_ns, queue))
    }

    /// Whether it is stepped by the machine's clock.
    pub(crate) fn follows_clock(&self) -> bool {
        self.follows_clock
    }

    /// Lets drivers map no registers, before the first one comes: every access is
    /// seen, in order, and counters in the polled pages clear when read.
    pub fn trap_all(&mut self) {
        self.parts.polled = None;
    }

    /// The cable in its port.
    pub fn cable(&mut self) -> &mut Cable {
        &mut self.parts.edge.cable
    }

    /// What it counted so far.
    pub fn report(&mut self) -> DeviceReport {
        let owned = |(name, count): (&str, u64)| (name.to_owned(), count);
        let encap = self.parts.edge.encap();
        let (of_encap, lost, found): (Vec<_>, Vec<_>, Vec<_>) = match encap {
            Some(encap) => (encap.counters().collect(), encap.drops().collect(), encap.findings()),
            None => (Vec::new(), Vec::new(), Vec::new()),
        };
        let counters = self.parts.chip.counters().into_iter().chain(of_encap).map(owned).collect();
        let drops = self.parts.chip.drops().into_iter().chain(lost).filter(|&(_, count)| count > 0);
        let findings = self.parts.chip.findings().into_iter().chain(found);
        let vectors = self.parts.vectors.state();
        DeviceReport {
            chip: self.parts.chip.name().to_owned(),
            interrupts: vectors.raised,
            interrupts_unwired: vectors.unwired,
            mapped: self.parts.view.mapped(),
            counters,
            drops: drops.map(owned).collect(),
            faults: self.parts.faults.as_ref().map(|faults| faults.counts()).unwrap_or_default(),
            wire: self.parts.edge.cable.stats(),
            findings: findings.map(Finding::from).collect(),
            ..self.report.clone()
        }
    }

    /// BAR `index`, if there is one.
    pub fn bar(&self, index: usize) -> Option<Bar> {
        self.parts.shape.bars.iter().copied().find(|bar| bar.index == index)
    }

    /// The device does of its own accord what it never should; `false` for one
    /// that cannot.
    pub fn inject(&mut self, fault: DeviceFault) -> bool {
        let injection = self.parts.chip.fault_injection();
        injection.map(|injection| injection.inject(fault)).is_some()
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

    pub(crate) fn polled(&self) -> Option<&PolledPages> {
        self.parts.polled.as_ref()
    }

    pub(crate) fn set_interrupt(&self, vector: u16, event: Option<OwnedFd>) {
        if vector < self.parts.shape.vectors {
            self.parts.vectors.set(vector, event);
        }
    }

    pub(crate) fn read_config(&mut self, offset: u16, data: &mut [u8]) {
        self.parts.shape.config.read(offset, data);
        if let Some((bar, at, len)) = self.config_window(offset, data.len()) {
            self.read_bar(bar, at, &mut data[..len]);
        }
    }

    /// What an access to the configuration space reaches in a BAR: which, offset and
    /// length.
    fn config_window(&self, offset: u16, len: usize) -> Option<(usize, u64, usize)> {
        let shape = &self.parts.shape;
        shape.config_window?.target(&shape.config, offset, len)
    }

    pub(crate) fn write_config(&mut self, offset: u16, data: &[u8]) {
        self.parts.shape.config.write(offset, data);
        if let Some((bar, at, len)) = self.config_window(offset, data.len()) {
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
        let Some((content, offset)) = self.inside(bar, offset, data.len()) else { return };
        match content {
            BarContent::Registers => {
                let fits = self.parts.chip.read_bytes(offset, data);
                self.report.odd_accesses += u64::from(!fits);
            }
            BarContent::RegisterWindow => {
                let word = match offset {
                    0..4 => self.window_address,
                    4..8 => self.register(self.window_address),
                    _ => 0,
                };
                copy_word(word, offset, data);
            }
            BarContent::MsixTable => {
                data.copy_from_slice(&self.msix_table[offset as usize..][..data.len()]);
            }
            BarContent::Encap => {
                let Some(encap) = self.parts.edge.encap() else { return };
                match <&mut [u8; 4]>::try_from(&mut *data) {
                    Ok(word) if offset.is_multiple_of(4) => *word = encap.read(offset).to_le_bytes(),
                    _ => encap.odd(offset, data.len()),
                }
            }
        }
    }

    /// As [`Device::read_bar`]. Out of range is ignored.
    pub(crate) fn write_bar(&mut self, bar: usize, offset: u64, data: &[u8]) {
        self.report.trapped += 1;
        let Some((content, offset)) = self.inside(bar, offset, data.len()) else { return };
        match content {
            BarContent::Registers => {
                let fits = self.parts.chip.write_bytes(offset, data);
                self.report.odd_accesses += u64::from(!fits);
            }
            BarContent::RegisterWindow => match (offset, <[u8; 4]>::try_from(data)) {
                (0, Ok(word)) => self.window_address = u32::from_le_bytes(word),
                (4, Ok(word)) => self.set_register(self.window_address, u32::from_le_bytes(word)),
                _ => self.odd(offset, data.len()),
            },
            BarContent::MsixTable => {
                self.msix_table[offset as usize..][..data.len()].copy_from_slice(data);
            }
            BarContent::Encap => {
                let Some(encap) = self.parts.edge.encap() else { return };
                match <[u8; 4]>::try_from(data) {
                    Ok(word) if offset.is_multiple_of(4) => encap.write(offset, u32::from_le_bytes(word)),
                    _ => encap.odd(offset, data.len()),
                }
            }
        }
    }

    /// What an access reaches, and where in it, if all of it lies in the BAR.
    fn inside(&self, bar: usize, offset: u64, len: usize) -> Option<(BarContent, u32)> {
        let Bar { size, content, .. } = self.bar(bar)?;
        let offset = u32::try_from(offset).ok()?;
        (len as u64 + u64::from(offset) <= u64::from(size)).then_some((content, offset))
    }

    fn odd(&mut self, offset: u32, len: usize) {
        self.report.odd_accesses += 1;
        self.parts.chip.odd(offset, len);
    }

    fn register(&mut self, offset: u32) -> u32 {
        let aligned = offset & !3;
        if aligned >= self.registers {
            return u32::MAX;
        }
        self.parts.chip.read(aligned)
    }

    fn set_register(&mut self, offset: u32, value: u32) {
        if offset.is_multiple_of(4) && offset < self.registers {
            self.parts.chip.write(offset, value);
        }
    }

    /// Resets the registers, not what the host mapped or wired. The
    /// configuration space stays: VFIO restores it after a reset.
    pub(crate) fn reset(&mut self) {
        self.parts.chip.reset();
        if let Some(encap) = self.parts.edge.encap() {
            encap.reset();
        }
        self.follow_bus_master();
        self.msix_table.fill(0);
        self.window_address = 0;
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
        self.parts.edge.cable.flush();
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
