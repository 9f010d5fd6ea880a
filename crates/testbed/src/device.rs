//! A PCI function around a model: configuration space, BARs, interrupts, its
//! view of memory and the cable in its port.
//!
//! [`Chip`] is what differs between models; [`Device`] is the rest, and the same
//! whether a driver reaches it in this process or over vfio-user.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bus::Kind;
use bus::config_space::ConfigSpace;
use serde::{Deserialize, Serialize};

use crate::view::{BarPages, View};
use crate::wire::{Cable, WireStats};

/// MSI-X messages: an eventfd for each vector. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Vectors(Arc<Mutex<VectorState>>);

#[derive(Debug, Default)]
struct VectorState {
    events: Vec<Option<OwnedFd>>,
    raised: u64,
    unwired: u64,
}

impl Vectors {
    fn state(&self) -> MutexGuard<'_, VectorState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, vector: u16, event: Option<OwnedFd>) {
        let mut state = self.state();
        let at = usize::from(vector);
        if state.events.len() <= at {
            state.events.resize_with(at + 1, || None);
        }
        state.events[at] = event;
    }

    fn clear(&self) {
        self.state().events.clear();
    }
}

impl model::Interrupts for Vectors {
    fn raise(&mut self, vector: u16) {
        let mut state = self.state();
        let Some(Some(event)) = state.events.get(usize::from(vector)) else {
            state.unwired += 1;
            return;
        };
        // An eventfd that is full already wakes whoever waits; other errors are
        // the client's, which gave something else.
        let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
        state.raised += 1;
    }
}

/// One thing that the driver did and should not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule's name.
    pub rule: String,
    /// How bad it is.
    pub severity: String,
    /// Where.
    pub register: String,
    /// The value, address or length at fault, of the first time.
    pub value: u64,
    /// The datasheet's section.
    pub section: String,
    /// What is wrong, in a sentence.
    pub sentence: String,
    /// What real hardware would do.
    pub consequence: String,
    /// How often.
    pub count: u64,
}

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
}

/// A BAR, as [`Device::bar`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarShape {
    /// Bytes.
    pub size: u32,
    /// Memory or I/O ports.
    pub kind: Kind,
}

/// What a device counted; a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// The chip.
    pub chip: String,
    /// Packets the model moved, either way.
    pub packets: u64,
    /// Steps it made.
    pub steps: u64,
    /// Steps in which packets moved.
    pub busy_steps: u64,
    /// Interrupts sent.
    pub interrupts: u64,
    /// Interrupts of vectors that nobody listens to.
    pub interrupts_unwired: u64,
    /// Accesses of trapped registers.
    pub trapped: u64,
    /// Accesses of a width or alignment that no register has.
    pub odd_accesses: u64,
    /// Ranges of host memory that are mapped, and their bytes.
    pub mapped: (usize, u64),
    /// Clients that attached so far.
    pub clients: u64,
    /// The chip's own counters.
    pub counters: BTreeMap<String, u64>,
    /// Packets that the chip lost, by name.
    pub drops: BTreeMap<String, u64>,
    /// Faults of the device that were injected.
    pub faults: BTreeMap<String, u64>,
    /// The cable.
    pub wire: WireStats,
    /// What the driver did wrong.
    pub findings: Vec<Finding>,
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
        parts.view.set_enabled(parts.shape.config.bus_master());
        Device {
            parts,
            table,
            port_address: 0,
            now_ns: 0,
            follows_clock: false,
            ahead_ns: 0,
            report: DeviceReport::default(),
        }
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

    pub(crate) fn read_config(&self, offset: u16, data: &mut [u8]) {
        self.parts.shape.config.read(offset, data);
    }

    pub(crate) fn write_config(&mut self, offset: u16, data: &[u8]) {
        self.parts.shape.config.write(offset, data);
        self.parts.view.set_enabled(self.parts.shape.config.bus_master());
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
            0 => self.read_registers(offset, data),
            2 => {
                let word = match offset {
                    0..4 => self.port_address,
                    4..8 => self.register(self.port_address),
                    _ => 0,
                };
                copy_out(word, offset, data);
            }
            _ => data.copy_from_slice(&self.table[offset as usize..][..data.len()]),
        }
    }

    /// As [`Device::read_bar`]. Out of range is ignored.
    pub(crate) fn write_bar(&mut self, bar: usize, offset: u64, data: &[u8]) {
        self.report.trapped += 1;
        let Some(offset) = self.inside(bar, offset, data.len()) else { return };
        match bar {
            0 => self.write_registers(offset, data),
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

    /// Registers are 32 bits wide; wider accesses are several, narrower ones
    /// read the register that they lie in.
    fn read_registers(&mut self, offset: u32, data: &mut [u8]) {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u32;
            let part = (4 - at as usize % 4).min(data.len() - done);
            if part < 4 {
                self.odd(at);
            }
            let word = self.register(at);
            copy_out(word, at, &mut data[done..done + part]);
            done += part;
        }
    }

    /// Narrower writes are ignored, as the chips do (82599, section 8.1.2).
    fn write_registers(&mut self, offset: u32, data: &[u8]) {
        if !offset.is_multiple_of(4) || !data.len().is_multiple_of(4) {
            return self.odd(offset);
        }
        for (at, word) in (offset..).step_by(4).zip(data.as_chunks::<4>().0) {
            self.set_register(at, u32::from_le_bytes(*word));
        }
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
        self.parts.view.set_enabled(self.parts.shape.config.bus_master());
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

    /// The client is gone: so is its memory, and the device as new.
    pub(crate) fn detach(&mut self) {
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
        unsafe { self.parts.view.map_here(range.iova, range.addr, range.len) }
    }

    pub(crate) fn unmap(&self, iova: u64, len: u64) -> io::Result<()> {
        self.parts.view.unmap(iova, len)
    }
}

/// The bytes of a register that an access at `offset` wants.
fn copy_out(word: u32, offset: u32, data: &mut [u8]) {
    let bytes = word.to_le_bytes();
    let skip = offset as usize % 4;
    for (byte, &from) in data.iter_mut().zip(&bytes[skip..]) {
        *byte = from;
    }
}
