//! A device by Linux's sysfs files: configuration space, BARs, reset. Needs
//! root and no IOMMU; the device sees physical addresses. Facts from Linux's
//! `Documentation/PCI/sysfs-pci.rst` and `ABI/testing/sysfs-bus-pci`.
//!
//! The kernel's driver is unbound while the device is open and bound again
//! afterwards. Not here: interrupts, which need VFIO.

use std::fs::{self, File, OpenOptions};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::{Address, Addressing, Area, Backend, BarLayout, DmaRange, Error, Kind, Mapping, Result};

/// Flags of a line of the `resource` file (`include/linux/ioport.h`).
const IORESOURCE_IO: u64 = 0x100;
/// Byte of the command register that holds the bus master bit.
const COMMAND: u64 = 0x04;
const COMMAND_BUS_MASTER: u8 = 1 << 2;

/// A device opened by sysfs.
#[derive(Debug)]
pub struct Sysfs {
    address: Address,
    directory: PathBuf,
    config: File,
    bars: Vec<Option<Resource>>,
    _unbound: Option<Unbound>, // last: binds again after all else is closed
}

#[derive(Debug)]
struct Resource {
    file: File,
    size: u64,
    kind: Kind,
    mapping: Option<Mapping>,
}

/// A kernel driver taken off its device, put back when dropped.
#[derive(Debug)]
struct Unbound {
    address: Address,
    driver: PathBuf,
}

impl Drop for Unbound {
    fn drop(&mut self) {
        if let Err(error) = fs::write(self.driver.join("bind"), self.address.to_string()) {
            tracing::warn!("{}: binding {} again: {error}", self.address, self.driver.display());
        }
    }
}

impl Sysfs {
    /// Opens the device at `address`.
    pub fn open(address: Address) -> Result<Sysfs> {
        Sysfs::open_in(Path::new("/sys"), address)
    }

    /// Opens the device in the sysfs tree at `root`.
    pub fn open_in(root: &Path, address: Address) -> Result<Sysfs> {
        let directory = root.join("bus/pci/devices").join(address.to_string());
        if !directory.exists() {
            return Err(Error::NoDevice { address, path: directory.display().to_string() });
        }
        crate::scan::refuse_interface_in_use(&directory, address)?;
        let config = open_file(&directory, "config")?;
        rustix::fs::flock(&config, FlockOperation::NonBlockingLockExclusive).map_err(|_| Error::Setup {
            device: address.to_string(),
            what: "another process drives the device".to_owned(),
            fix: format!("end it first: fuser {}/config names it", directory.display()),
        })?;
        let _unbound = unbind(&directory, address)?;
        let table = fs::read_to_string(directory.join("resource"))
            .map_err(|error| Error::os(format!("reading {}/resource", directory.display()), error))?;
        let bars = table.lines().take(6).enumerate();
        let bars = bars.map(|(index, line)| resource(&directory, index, line)).collect::<Result<_>>()?;
        Ok(Sysfs { address, directory, config, bars, _unbound })
    }

    fn resource(&self, index: usize) -> Result<&Resource> {
        let bar = self.bars.get(index).and_then(Option::as_ref);
        bar.ok_or_else(|| Error::NoBar { device: self.name(), index })
    }

    fn failed(&self, what: &str, error: std::io::Error) -> Error {
        Error::os(format!("{}: accessing {what}", self.address), error)
    }
}

fn open_file(directory: &Path, name: &str) -> Result<File> {
    let path = directory.join(name);
    let opened = OpenOptions::new().read(true).write(true).open(&path);
    opened.map_err(|error| Error::opening(&path, error, || vfio_hint(directory)))
}

fn vfio_hint(directory: &Path) -> String {
    let path = directory.display();
    format!(
        "run as root, or bind the device to vfio-pci: echo vfio-pci > {path}/driver_override; \
         echo ${{dev:={}}} > {path}/driver/unbind; echo $dev > /sys/bus/pci/drivers_probe",
        directory.file_name().unwrap_or_default().display()
    )
}

fn unbind(directory: &Path, address: Address) -> Result<Option<Unbound>> {
    let Ok(driver) = fs::canonicalize(directory.join("driver")) else {
        return Ok(None);
    };
    let path = driver.join("unbind");
    fs::write(&path, address.to_string())
        .map_err(|error| Error::opening(&path, error, || vfio_hint(directory)))?;
    Ok(Some(Unbound { address, driver }))
}

/// Opens and maps what a line `start end flags` of the `resource` file tells.
fn resource(directory: &Path, index: usize, line: &str) -> Result<Option<Resource>> {
    let field = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let fields: Vec<u64> = line.split_whitespace().filter_map(field).collect();
    let &[start, end, flags] = fields.as_slice() else {
        return Ok(None);
    };
    if end == 0 {
        return Ok(None);
    }
    let size = end.saturating_sub(start) + 1;
    let kind = if flags & IORESOURCE_IO != 0 { Kind::Io } else { Kind::Memory };
    let file = open_file(directory, &format!("resource{index}"))?;
    let mapping = match kind {
        Kind::Memory => Some(Mapping::new(&file, 0, size as usize)?),
        Kind::Io => None,
    };
    Ok(Some(Resource { file, size, kind, mapping }))
}

impl Backend for Sysfs {
    fn name(&self) -> String {
        self.address.to_string()
    }

    fn read_config(&self, offset: u16, data: &mut [u8]) -> Result<()> {
        self.config.read_exact_at(data, offset.into()).map_err(|error| self.failed("config", error))
    }

    fn write_config(&self, offset: u16, data: &[u8]) -> Result<()> {
        self.config.write_all_at(data, offset.into()).map_err(|error| self.failed("config", error))
    }

    fn bar_layout(&self, index: usize) -> Result<BarLayout> {
        let &Resource { size, kind, ref mapping, .. } = self.resource(index)?;
        // SAFETY: the mapping lives in `self.bars`, as long as the backend.
        let area = |map: &Mapping| unsafe { Area::new(map.base(), 0, map.len() as u32) };
        Ok(BarLayout { size, kind, mapped: mapping.iter().map(area).collect() })
    }

    fn read_bar(&self, index: usize, offset: u32, data: &mut [u8]) -> Result<()> {
        let file = &self.resource(index)?.file;
        file.read_exact_at(data, offset.into()).map_err(|error| self.failed("a BAR", error))
    }

    fn write_bar(&self, index: usize, offset: u32, data: &[u8]) -> Result<()> {
        let file = &self.resource(index)?.file;
        file.write_all_at(data, offset.into()).map_err(|error| self.failed("a BAR", error))
    }

    fn addressing(&self) -> Addressing {
        Addressing::Physical
    }

    fn map_dma(&self, _range: &DmaRange<'_>) -> Result<()> {
        Ok(())
    }

    fn unmap_dma(&self, _iova: u64, _len: usize) -> Result<()> {
        Ok(())
    }

    fn interrupt_vectors(&self) -> u16 {
        0
    }

    fn set_interrupt(&self, _vector: u16, _event: Option<BorrowedFd<'_>>) -> Result<()> {
        let fix = "bind the device to vfio-pci, or poll";
        Err(Error::Unsupported { device: self.name(), what: "wire interrupts", fix })
    }

    fn reset(&self) -> Result<()> {
        let path = self.directory.join("reset");
        match path.exists() {
            true => fs::write(&path, "1").map_err(|error| self.failed("reset", error)),
            false => Err(Error::Unsupported {
                device: self.name(),
                what: "be reset",
                fix: "use the device's own reset register",
            }),
        }
    }

    fn numa_node(&self) -> Option<u32> {
        fs::read_to_string(self.directory.join("numa_node")).ok()?.trim().parse().ok() // -1: unknown
    }
}

impl Drop for Sysfs {
    /// Ends DMA before the memory it went to is given back.
    fn drop(&mut self) {
        let mut command = [0];
        let read = self.config.read_exact_at(&mut command, COMMAND);
        command[0] &= !COMMAND_BUS_MASTER;
        if let Err(error) = read.and_then(|()| self.config.write_all_at(&command, COMMAND)) {
            tracing::warn!("{}: ending bus mastering: {error}", self.address);
        }
    }
}
