//! A device by Linux's VFIO: an IOMMU between it and memory, interrupts as
//! eventfds, no root once the group's file is given away. The way in is a
//! container and a group (VFIO_TYPE1v2). Sources: `linux/vfio.h` and
//! `Documentation/driver-api/vfio.rst`, Linux 6.18.
//!
//! Not here: iommufd and the device's own cdev, no-IOMMU groups, interrupts
//! other than MSI-X.

mod container;
mod ioctl;

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use vfio_bindings::bindings::vfio::{
    VFIO_DEVICE_FLAGS_RESET, VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_DATA_EVENTFD,
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSIX_IRQ_INDEX, VFIO_REGION_INFO_FLAG_MMAP,
};

use crate::claim;
use crate::scan::link_name;
use crate::vfio_user::message::{REGION_INFO, Region, decode_region};
use crate::{
    Address, Addressing, Backend, BarKind, BarLayout, BarMapping, DmaRange, Error, Mapping, Result, VfToken,
};
use container::{Container, Group};

/// Room for a region's description; sparse areas are few.
const REGION_ROOM: usize = 4096;
/// Most a description may ask for.
const REGION_MOST: usize = 1 << 16;

/// A device opened by VFIO. One IOMMU address space serves all such devices of
/// the process.
#[derive(Debug)]
pub struct Vfio {
    address: Address,
    directory: PathBuf,
    device: File,
    config: Region,
    bars: Vec<Option<VfioBar>>,
    vectors: u16,
    resettable: bool,
    /// Whether MSI-X has been turned on, with all vectors unwired.
    enabled: Mutex<bool>,
    container: Arc<Container>,
    _group: Arc<Group>, // after the device: a group in use cannot leave
    _taken: Taken,
}

/// A device that this process has open, once. VFIO lets a process open one of its own again, and
/// the second driver would reset it under the first.
#[derive(Debug)]
struct Taken(Address);

static TAKEN: Mutex<Vec<Address>> = Mutex::new(Vec::new());

impl Taken {
    fn take(address: Address) -> Result<Taken> {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.contains(&address) {
            return Err(Error::Setup {
                device: address.to_string(),
                what: "this process has the device open".to_owned(),
                fix: "name it once, with more queues if several threads are to have it".to_owned(),
            });
        }
        taken.push(address);
        Ok(Taken(address))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).retain(|address| *address != self.0);
    }
}

#[derive(Debug)]
struct VfioBar {
    region: Region,
    kind: BarKind,
    mapped: Vec<BarMapping>,
}

impl Vfio {
    /// Whether the device's kernel driver is vfio-pci.
    pub fn is_bound(address: Address) -> bool {
        is_bound(&directory(Path::new("/sys"), address))
    }

    /// Whether VFIO takes a token for the device: it is bound to vfio-pci, and is the virtual function
    /// of one that is, too, or can have virtual ones.
    pub fn takes_token(address: Address) -> bool {
        takes_token(&directory(Path::new("/sys"), address))
    }

    /// Opens the device at `address`, which must be bound to vfio-pci. The `token` of a physical
    /// function becomes that of its virtual ones, which cannot be opened without it.
    pub fn open(address: Address, token: Option<VfToken>) -> Result<Vfio> {
        Vfio::open_in(Path::new("/sys"), Path::new("/dev/vfio"), address, token)
    }

    /// Opens the device with sysfs at `sys` and VFIO's files in `dev`.
    pub fn open_in(sys: &Path, dev: &Path, address: Address, token: Option<VfToken>) -> Result<Vfio> {
        let directory = claim::directory_of(sys, address)?;
        let number = container::group_number(&directory, address)?;
        let taken = Taken::take(address)?;
        let container = Container::shared(dev)?;
        let group = container.group(dev, &directory, number, address)?;
        let name = token.map_or_else(|| address.to_string(), |token| format!("{address} vf_token={token}"));
        let physical = link_name(&directory, "physfn");
        let device = ioctl::open_device(&group.file, &name)
            .map_err(|errno| not_opened(address, number, physical.as_deref(), token.is_some(), errno))?;
        let failed = |what: &str, errno: Errno| Error::os(format!("{address}: {what}"), errno);
        let info = ioctl::device_info(&device).map_err(|errno| failed("VFIO_DEVICE_GET_INFO", errno))?;
        let irqs = ioctl::irq_info(&device, VFIO_PCI_MSIX_IRQ_INDEX);
        let mut vfio = Vfio {
            address,
            directory,
            config: region(&device, VFIO_PCI_CONFIG_REGION_INDEX)
                .map_err(|errno| failed("config region", errno))?,
            device,
            bars: Vec::new(),
            vectors: irqs.map_or(0, |irqs| irqs.count.min(2048) as u16),
            resettable: info.flags & VFIO_DEVICE_FLAGS_RESET != 0,
            enabled: Mutex::new(false),
            container,
            _group: group,
            _taken: taken,
        };
        for index in 0..6 {
            let bar = vfio.open_bar(index)?;
            vfio.bars.push(bar);
        }
        Ok(vfio)
    }

    fn open_bar(&self, index: u32) -> Result<Option<VfioBar>> {
        let region = match region(&self.device, index) {
            Ok(region) if region.size > 0 => region,
            Ok(_) => return Ok(None),
            Err(errno) => return Err(self.failed("VFIO_DEVICE_GET_REGION_INFO", errno)),
        };
        let mut register = [0; 4];
        self.read_config(0x10 + 4 * index as u16, &mut register)?;
        let kind = if register[0] & 1 != 0 { BarKind::Io } else { BarKind::Memory };
        let mut mapped = Vec::new();
        if region.flags & VFIO_REGION_INFO_FLAG_MMAP != 0 {
            let whole = vec![(0, region.size)];
            for &(offset, len) in region.areas.as_ref().unwrap_or(&whole) {
                let (Ok(from), Ok(bytes)) = (u32::try_from(offset), u32::try_from(len)) else { continue };
                let part = Mapping::new(&self.device, region.offset + offset, bytes as usize)?;
                mapped.push(BarMapping::new(part, from));
            }
        }
        Ok(Some(VfioBar { region, kind, mapped }))
    }

    fn bar(&self, index: usize) -> Result<&VfioBar> {
        let bar = self.bars.get(index).and_then(Option::as_ref);
        bar.ok_or_else(|| Error::NoBar { device: self.name(), index })
    }

    /// Where in the device's file `len` bytes of a region are.
    fn at(&self, region: &Region, offset: u64, len: usize) -> Result<u64> {
        let inside = offset.checked_add(len as u64).is_some_and(|end| end <= region.size);
        let name = || format!("region {} ({:#x} bytes)", region.index, region.size);
        let outside = || Error::OutOfRange { device: self.name(), region: name(), offset, len };
        inside.then(|| region.offset + offset).ok_or_else(outside)
    }

    fn failed(&self, what: &str, error: impl Into<std::io::Error>) -> Error {
        Error::os(format!("{}: {what}", self.address), error)
    }
}

/// Why VFIO does not open a device, which may be a virtual function of a physical one. For want of the
/// token, or for a wrong one, it answers EACCES; for one that it does not ask for EINVAL; and kernels
/// before 5.7, which know of none, ENODEV.
fn not_opened(address: Address, group: u32, physical: Option<&str>, token: bool, errno: Errno) -> Error {
    let whose = physical.map_or_else(
        || "its virtual functions".to_owned(),
        |physical| format!("its physical function {physical}"),
    );
    let (what, fix) = match (errno, token) {
        (Errno::ACCESS, false) => (
            match physical {
                Some(_) => format!("{whose} may be another process's, and asks for a token"),
                None => format!("{whose} are in use, and VFIO asks for the token that they opened with"),
            },
            format!("write {address},vf_token=UUID, with the token that {whose} opened with"),
        ),
        (Errno::ACCESS, true) => (
            format!("the token is not the one of {whose}"),
            "open the physical function first, and then virtual ones with the same vf_token".to_owned(),
        ),
        (Errno::INVAL | Errno::NODEV, true) => (
            format!("VFIO takes no token for it ({errno})"),
            "leave vf_token out: only a physical function that can have virtual ones takes one, and a virtual function whose physical one is bound to vfio-pci, too".to_owned(),
        ),
        _ => return Error::os(format!("{address}: opening the device of VFIO group {group}"), errno),
    };
    Error::Setup { device: address.to_string(), what, fix }
}

/// Where sysfs describes a device, if it is there.
fn directory(sys: &Path, address: Address) -> PathBuf {
    sys.join("bus/pci/devices").join(address.to_string())
}

fn is_bound(directory: &Path) -> bool {
    link_name(directory, "driver").as_deref() == Some("vfio-pci")
}

fn takes_token(directory: &Path) -> bool {
    let physical = directory.join("physfn");
    is_bound(directory)
        && match physical.exists() {
            true => is_bound(&physical),
            false => directory.join("sriov_totalvfs").exists(),
        }
}

/// Asks for a region's description, again if it needs more room.
fn region(device: &File, index: u32) -> std::result::Result<Region, Errno> {
    let mut room = REGION_ROOM;
    loop {
        let mut body = vec![0; room];
        body[0..4].copy_from_slice(&(room as u32).to_le_bytes());
        body[8..12].copy_from_slice(&index.to_le_bytes());
        ioctl::region_info(device, &mut body)?;
        let needed = u32::from_le_bytes([body[0], body[1], body[2], body[3]]) as usize;
        if needed <= room || needed > REGION_MOST {
            body.truncate(needed.max(REGION_INFO));
            return decode_region(&body).map_err(|malformed| malformed.errno());
        }
        room = needed;
    }
}

impl Backend for Vfio {
    fn name(&self) -> String {
        self.address.to_string()
    }

    fn read_config(&self, offset: u16, data: &mut [u8]) -> Result<()> {
        let at = self.at(&self.config, offset.into(), data.len())?;
        self.device.read_exact_at(data, at).map_err(|error| self.failed("reading config space", error))
    }

    fn write_config(&self, offset: u16, data: &[u8]) -> Result<()> {
        let at = self.at(&self.config, offset.into(), data.len())?;
        self.device.write_all_at(data, at).map_err(|error| self.failed("writing config space", error))
    }

    fn bar_layout(&self, index: usize) -> Result<BarLayout> {
        let VfioBar { region, kind, mapped } = self.bar(index)?;
        Ok(BarLayout { size: region.size, kind: *kind, mapped: mapped.clone() })
    }

    fn read_bar(&self, index: usize, offset: u32, data: &mut [u8]) -> Result<()> {
        let at = self.at(&self.bar(index)?.region, offset.into(), data.len())?;
        self.device.read_exact_at(data, at).map_err(|error| self.failed("reading a BAR", error))
    }

    fn write_bar(&self, index: usize, offset: u32, data: &[u8]) -> Result<()> {
        let at = self.at(&self.bar(index)?.region, offset.into(), data.len())?;
        self.device.write_all_at(data, at).map_err(|error| self.failed("writing a BAR", error))
    }

    fn addressing(&self) -> Addressing {
        Addressing::Virtual
    }

    fn map_dma(&self, range: &DmaRange<'_>) -> Result<()> {
        self.container.map(range, self.address)
    }

    fn unmap_dma(&self, iova: u64, len: usize) -> Result<()> {
        self.container.unmap(iova, len as u64, self.address)
    }

    fn interrupt_vectors(&self) -> u16 {
        self.vectors
    }

    fn set_interrupt(&self, vector: u16, event: Option<BorrowedFd<'_>>) -> Result<()> {
        if vector >= self.vectors {
            let region = format!("the {} MSI-X vectors", self.vectors);
            return Err(Error::OutOfRange { device: self.name(), region, offset: vector.into(), len: 1 });
        }
        let how = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
        let set = |start: u16, fds: &[i32]| {
            let set = ioctl::set_irqs(&self.device, how, VFIO_PCI_MSIX_IRQ_INDEX, start.into(), fds);
            set.map_err(|errno| self.failed("VFIO_DEVICE_SET_IRQS", errno))
        };
        let mut enabled = self.enabled.lock().unwrap_or_else(PoisonError::into_inner);
        // Older kernels fix the number of vectors when the first is wired, so
        // that one call names them all (-1: unwired).
        if !*enabled {
            set(0, &vec![-1; self.vectors.into()])?;
            *enabled = true;
        }
        set(vector, &[event.map_or(-1, |event| event.as_fd().as_raw_fd())])
    }

    fn reset(&self) -> Result<()> {
        if !self.resettable {
            return Err(Error::no_reset(self.name()));
        }
        ioctl::reset(&self.device).map_err(|errno| self.failed("VFIO_DEVICE_RESET", errno))
    }

    fn numa_node(&self) -> Option<u32> {
        std::fs::read_to_string(self.directory.join("numa_node")).ok()?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_opened_once_at_a_time() {
        let [one, other] = ["ffff:01:00.0", "ffff:01:00.1"].map(|address| address.parse().unwrap());
        let (taken, _second) = (Taken::take(one).unwrap(), Taken::take(other).unwrap());
        let again = Taken::take(one).unwrap_err().to_string();
        assert!(again.contains("ffff:01:00.0: this process has the device open"), "{again}");
        drop(taken);
        assert!(Taken::take(one).is_ok());
    }

    #[test]
    fn a_token_is_for_functions_of_one_card_that_vfio_has() {
        use std::os::unix::fs::symlink;
        let sys = tempfile::tempdir().unwrap();
        let make = |name: &str, driver: &str| {
            let directory = sys.path().join(name);
            std::fs::create_dir(&directory).unwrap();
            symlink(sys.path().join("drivers").join(driver), directory.join("driver")).unwrap();
            directory
        };
        let (plain, ours, kernels) = (make("a", "vfio-pci"), make("b", "vfio-pci"), make("c", "ixgbe"));
        let virtuals = [make("b.0", "vfio-pci"), make("c.0", "vfio-pci")];
        for (virtual_function, physical) in virtuals.iter().zip([&ours, &kernels]) {
            std::fs::write(physical.join("sriov_totalvfs"), "7\n").unwrap();
            symlink(physical, virtual_function.join("physfn")).unwrap();
        }
        let found = [&plain, &ours, &kernels, &virtuals[0], &virtuals[1]].map(|one| takes_token(one));
        assert_eq!(found, [false, true, false, true, false]);
    }

    #[test]
    fn a_token_that_is_missing_wrong_or_of_no_use_is_named_with_what_to_do() {
        let address: Address = "0000:03:10.0".parse().unwrap();
        let said = |physical, token, errno| not_opened(address, 7, physical, token, errno).to_string();
        let physical = Some("0000:03:00.0");
        for (error, wanted) in [
            (
                said(physical, false, Errno::ACCESS),
                "0000:03:10.0,vf_token=UUID, with the token that its physical function 0000:03:00.0 opened with",
            ),
            (said(None, false, Errno::ACCESS), "with the token that its virtual functions opened with"),
            (said(physical, true, Errno::ACCESS), "not the one of its physical function 0000:03:00.0"),
            (said(physical, true, Errno::INVAL), "leave vf_token out"),
            (said(physical, true, Errno::NODEV), "leave vf_token out"),
            (said(physical, false, Errno::INVAL), "opening the device of VFIO group 7"),
        ] {
            assert!(error.contains(wanted), "{error}");
        }
    }
}
