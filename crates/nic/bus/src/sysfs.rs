//! A device by Linux's sysfs files: configuration space, BARs, reset. Needs
//! root and no IOMMU; the device sees physical addresses. Sources: Linux's
//! `Documentation/PCI/sysfs-pci.rst` and `ABI/testing/sysfs-bus-pci`.
//!
//! The kernel's driver is off the device while it is open (`claim.rs`). Not
//! here: interrupts, which need VFIO.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::claim::Claim;
use crate::{Address, Addressing, Backend, BarKind, BarLayout, BarMapping, DmaRange, Error, Mapping, Result};

/// Flag of a line of the `resource` file: I/O ports (`include/linux/ioport.h`).
const IORESOURCE_IO: u64 = 0x100;

/// A device opened by sysfs.
#[derive(Debug)]
pub struct Sysfs {
    bars: Vec<Option<Resource>>,
    /// Where it is reset, if it can be, and by this user. Open from the beginning: a process that gave
    /// up its privileges could not open it in the end.
    reset: Option<File>,
    claim: Claim, // last: the device goes back when all else is closed
}

#[derive(Debug)]
struct Resource {
    file: File,
    size: u64,
    mapping: Option<BarMapping>, // none: I/O ports
}

impl Sysfs {
    /// Opens the device at `address`.
    pub fn open(address: Address) -> Result<Sysfs> {
        Sysfs::open_in(Path::new("/sys"), address)
    }

    /// Opens the device in the sysfs tree at `root`.
    pub fn open_in(root: &Path, address: Address) -> Result<Sysfs> {
        let claim = Claim::take(root, address)?;
        let table = fs::read_to_string(claim.directory.join("resource"))
            .map_err(|error| Error::os(format!("{address}: reading `resource`"), error))?;
        let bars = table.lines().take(6).enumerate();
        let bars = bars.map(|(index, line)| open_bar(&claim, index, line)).collect::<Result<_>>()?;
        let reset = OpenOptions::new().write(true).open(claim.directory.join("reset")).ok();
        Ok(Sysfs { bars, reset, claim })
    }

    fn bar(&self, index: usize) -> Result<&Resource> {
        let bar = self.bars.get(index).and_then(Option::as_ref);
        bar.ok_or_else(|| Error::NoBar { device: self.name(), index })
    }

    fn done(&self, what: &str, outcome: io::Result<()>) -> Result<()> {
        outcome.map_err(|error| Error::os(format!("{}: {what}", self.name()), error))
    }
}

/// Opens and maps what a line `start end flags` of the `resource` file tells.
fn open_bar(claim: &Claim, index: usize, line: &str) -> Result<Option<Resource>> {
    let field = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let fields: Vec<u64> = line.split_whitespace().filter_map(field).collect();
    let &[start, end, flags] = fields.as_slice() else { return Ok(None) };
    if end == 0 {
        return Ok(None);
    }
    let size = end.saturating_sub(start) + 1;
    let file = claim.open(&format!("resource{index}"))?;
    let memory = flags & IORESOURCE_IO == 0;
    let mapping = memory.then(|| Mapping::new(&file, 0, size as usize)).transpose()?;
    let mapping = mapping.map(|mapping| BarMapping::new(mapping, 0));
    Ok(Some(Resource { file, size, mapping }))
}

impl Backend for Sysfs {
    fn name(&self) -> String {
        self.claim.address.to_string()
    }

    fn read_config(&self, offset: u16, data: &mut [u8]) -> Result<()> {
        self.done("reading config", self.claim.config.read_exact_at(data, offset.into()))
    }

    fn write_config(&self, offset: u16, data: &[u8]) -> Result<()> {
        self.done("writing config", self.claim.config.write_all_at(data, offset.into()))
    }

    fn bar_layout(&self, index: usize) -> Result<BarLayout> {
        let Resource { size, mapping, .. } = self.bar(index)?;
        let kind = if mapping.is_some() { BarKind::Memory } else { BarKind::Io };
        Ok(BarLayout { size: *size, kind, mapped: mapping.iter().cloned().collect() })
    }

    fn read_bar(&self, index: usize, offset: u32, data: &mut [u8]) -> Result<()> {
        self.done("reading a BAR", self.bar(index)?.file.read_exact_at(data, offset.into()))
    }

    fn write_bar(&self, index: usize, offset: u32, data: &[u8]) -> Result<()> {
        self.done("writing a BAR", self.bar(index)?.file.write_all_at(data, offset.into()))
    }

    fn addressing(&self) -> Addressing {
        Addressing::Physical
    }

    fn map_dma(&self, _range: &DmaRange<'_>) -> Result<()> {
        Ok(()) // the device reaches all memory as it is
    }

    fn unmap_dma(&self, _iova: u64, _len: usize) -> Result<()> {
        Ok(())
    }

    fn reset(&self) -> Result<()> {
        let file = self.reset.as_ref().ok_or_else(|| Error::no_reset(self.name()))?;
        self.done("resetting", file.write_all_at(b"1", 0))
    }

    fn numa_node(&self) -> Option<u32> {
        let text = fs::read_to_string(self.claim.directory.join("numa_node")).ok()?;
        text.trim().parse().ok() // -1: unknown
    }
}
