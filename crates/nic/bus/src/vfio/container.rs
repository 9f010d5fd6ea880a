//! The IOMMU address space that all VFIO devices of the process share, and the
//! groups in it. Sources: `linux/vfio.h`.
//!
//! Because it is shared, a range that several devices map is mapped once and
//! counted.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::io::Errno;
use vfio_bindings::bindings::vfio::{
    VFIO_API_VERSION, VFIO_DMA_MAP_FLAG_READ, VFIO_DMA_MAP_FLAG_WRITE, VFIO_IOMMU_INFO_CAPS,
    VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE, VFIO_TYPE1v2_IOMMU,
};

use super::ioctl;
use crate::scan::link_name;
use crate::vfio_user::message::{Capabilities, Malformed};
use crate::{Address, DmaRange, Error, Result};

/// Bytes of `struct vfio_iommu_type1_info` without capabilities.
const IOMMU_INFO: usize = 24;
/// Room for it with them.
const IOMMU_ROOM: usize = 1 << 16;

/// An open group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) file: File,
    _container: Arc<Container>,
}

/// The address space.
#[derive(Debug)]
pub(super) struct Container {
    file: File,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    groups: HashMap<u32, Weak<Group>>,
    /// Ranges devices may reach, first and last address; known once there is
    /// a group.
    allowed: Option<Vec<(u64, u64)>>,
    maps: Maps,
}

/// What is mapped, by where devices see it, and for which devices: one whose map was refused
/// takes nothing from the others when it unmaps it all the same.
#[derive(Debug, Default)]
struct Maps(BTreeMap<u64, Mapped>);

#[derive(Debug, PartialEq, Eq)]
struct Mapped {
    addr: u64,
    len: u64,
    users: Vec<Address>,
}

impl Maps {
    /// Joins a device to a mapping that others have; whether there is one.
    ///
    /// # Errors
    /// Other memory is mapped there.
    fn join(&mut self, iova: u64, addr: u64, len: u64, address: Address) -> Result<bool> {
        let Some(mapped) = self.0.get_mut(&iova) else { return Ok(false) };
        if (mapped.addr, mapped.len) != (addr, len) {
            return Err(Error::Setup {
                device: address.to_string(),
                what: format!("other memory is mapped at {iova:#x}"),
                fix: "attach all VFIO devices of a process to one address space".to_owned(),
            });
        }
        mapped.users.push(address);
        Ok(true)
    }

    fn insert(&mut self, iova: u64, addr: u64, len: u64, address: Address) {
        self.0.insert(iova, Mapped { addr, len, users: vec![address] });
    }

    /// Takes a device from a mapping; whether it was the last one.
    fn leave(&mut self, iova: u64, len: u64, address: Address) -> bool {
        let Some(mapped) = self.0.get_mut(&iova).filter(|mapped| mapped.len == len) else { return false };
        let Some(place) = mapped.users.iter().position(|user| *user == address) else { return false };
        mapped.users.swap_remove(place);
        let is_last = mapped.users.is_empty();
        if is_last {
            self.0.remove(&iova);
        }
        is_last
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of a device's IOMMU group.
pub(super) fn group_number(directory: &Path, address: Address) -> Result<u32> {
    let number = link_name(directory, "iommu_group").and_then(|name| name.parse().ok());
    number.ok_or_else(|| Error::Setup {
        device: address.to_string(),
        what: "it is in no IOMMU group".to_owned(),
        fix: "turn on the IOMMU in the firmware (VT-d, AMD-Vi) and boot with intel_iommu=on, \
              or unbind it from vfio-pci to go by sysfs"
            .to_owned(),
    })
}

fn open(path: &Path, fix: impl FnOnce(io::ErrorKind) -> Option<String>) -> Result<File> {
    OpenOptions::new().read(true).write(true).open(path).map_err(|error| match fix(error.kind()) {
        Some(fix) => Error::Setup { device: path.display().to_string(), what: error.to_string(), fix },
        None => Error::os(format!("opening {}", path.display()), error),
    })
}

impl Container {
    /// The process's container, opened when first asked for.
    pub(super) fn shared(dev: &Path) -> Result<Arc<Container>> {
        static SHARED: Mutex<Weak<Container>> = Mutex::new(Weak::new());
        let mut shared = lock(&SHARED);
        if let Some(container) = shared.upgrade() {
            return Ok(container);
        }
        let path = dev.join("vfio");
        let file = open(&path, |kind| match kind {
            io::ErrorKind::NotFound => Some("load the driver: modprobe vfio-pci".to_owned()),
            io::ErrorKind::PermissionDenied => Some(format!("give it away: chmod 0666 {}", path.display())),
            _ => None,
        })?;
        let version = ioctl::api_version(&file);
        let usable = version == Ok(VFIO_API_VERSION as i32)
            && ioctl::has_extension(&file, VFIO_TYPE1v2_IOMMU) == Ok(true);
        if !usable {
            return Err(Error::Setup {
                device: path.display().to_string(),
                what: "it offers no type 1 (version 2) IOMMU".to_owned(),
                fix: "load its driver: modprobe vfio_iommu_type1".to_owned(),
            });
        }
        let container = Arc::new(Container { file, state: Mutex::default() });
        *shared = Arc::downgrade(&container);
        Ok(container)
    }

    /// The open group of that number, in this container.
    pub(super) fn group(
        self: &Arc<Self>,
        dev: &Path,
        directory: &Path,
        number: u32,
        address: Address,
    ) -> Result<Arc<Group>> {
        let mut state = lock(&self.state);
        if let Some(group) = state.groups.get(&number).and_then(Weak::upgrade) {
            return Ok(group);
        }
        let file = open_group(dev, directory, number, address)?;
        let failed = |what: &str, errno: Errno| Error::os(format!("{address}: {what}"), errno);
        ioctl::set_container(&file, &self.file)
            .map_err(|errno| failed("adding its group to the container", errno))?;
        if state.allowed.is_none() {
            ioctl::set_iommu(&self.file, VFIO_TYPE1v2_IOMMU)
                .map_err(|errno| set_iommu_error(address, errno))?;
            let ranges = iova_ranges(&self.file);
            state.allowed = Some(ranges.map_err(|errno| failed("VFIO_IOMMU_GET_INFO", errno))?);
        }
        let group = Arc::new(Group { file, _container: self.clone() });
        state.groups.insert(number, Arc::downgrade(&group));
        Ok(group)
    }

    pub(super) fn map(&self, range: &DmaRange<'_>, address: Address) -> Result<()> {
        let (addr, len, iova) = (range.addr() as u64, range.len() as u64, range.iova());
        let mut state = lock(&self.state);
        if state.maps.join(iova, addr, len, address)? {
            return Ok(());
        }
        check_range(state.allowed.as_deref().unwrap_or_default(), iova, len, address)?;
        let access = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE;
        ioctl::map_dma(&self.file, access, addr, iova, len)
            .map_err(|errno| map_error(address, len, errno))?;
        state.maps.insert(iova, addr, len, address);
        Ok(())
    }

    pub(super) fn unmap(&self, iova: u64, len: u64, address: Address) -> Result<()> {
        let failed = |errno| Error::os(format!("{address}: unmapping {len:#x} bytes at {iova:#x}"), errno);
        let mut state = lock(&self.state);
        match state.maps.leave(iova, len, address) {
            true => ioctl::unmap_dma(&self.file, iova, len).map_err(failed),
            false => Ok(()),
        }
    }
}

fn open_group(dev: &Path, directory: &Path, number: u32, address: Address) -> Result<File> {
    let path = dev.join(number.to_string());
    let shown = path.display();
    let file = open(&path, |kind| match kind {
        io::ErrorKind::NotFound => Some(format!(
            "bind the device to vfio-pci: echo vfio-pci > {0}/driver_override; echo {address} > {0}/driver/unbind; \
             echo {address} > /sys/bus/pci/drivers_probe",
            directory.display()
        )),
        io::ErrorKind::PermissionDenied => Some(format!("run as root, or give it away: chown $USER {shown}")),
        io::ErrorKind::ResourceBusy => {
            Some(format!("another process drives it, end it first: fuser {shown} names it"))
        }
        _ => None,
    })?;
    match ioctl::is_viable(&file) {
        Ok(true) => Ok(file),
        Ok(false) => Err(Error::Setup {
            device: address.to_string(),
            what: format!("IOMMU group {number} is not viable: kernel drivers hold some of its devices"),
            fix: format!("bind to vfio-pci, or unbind: {}", others(directory).join(", ")),
        }),
        Err(errno) => Err(Error::os(format!("asking {shown} for its status"), errno)),
    }
}

/// The devices of a group that a kernel driver other than vfio-pci holds.
fn others(directory: &Path) -> Vec<String> {
    let devices = directory.join("iommu_group/devices");
    let entries = fs::read_dir(&devices).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let driver = |name: &String| link_name(&devices.join(name), "driver");
    let held =
        names.filter_map(|name| Some((driver(&name)?, name))).filter(|(driver, _)| driver != "vfio-pci");
    let mut held: Vec<String> = held.map(|(driver, name)| format!("{name} ({driver})")).collect();
    held.sort();
    held
}

fn set_iommu_error(address: Address, errno: Errno) -> Error {
    if errno != Errno::PERM {
        return Error::os(format!("{address}: VFIO_SET_IOMMU"), errno);
    }
    Error::Setup {
        device: address.to_string(),
        what: "the platform cannot isolate its interrupts".to_owned(),
        fix: "turn on interrupt remapping in the firmware, or accept the risk: \
              echo 1 > /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts"
            .to_owned(),
    }
}

fn map_error(address: Address, len: u64, errno: Errno) -> Error {
    let fix = match errno {
        Errno::NOMEM => {
            "raise the limit of locked memory: ulimit -l unlimited, or a memlock line in \
                         /etc/security/limits.conf"
        }
        Errno::NOSPC => {
            "raise /sys/module/vfio_iommu_type1/parameters/dma_entry_limit, or use larger regions"
        }
        _ => return Error::os(format!("{address}: mapping {len:#x} bytes for DMA"), errno),
    };
    let what = format!("mapping {len:#x} bytes for DMA: {errno}");
    Error::Setup { device: address.to_string(), what, fix: fix.to_owned() }
}

/// Kernels that tell no ranges allow all.
fn check_range(allowed: &[(u64, u64)], iova: u64, len: u64, address: Address) -> Result<()> {
    let last = len.checked_sub(1).and_then(|len| iova.checked_add(len));
    let inside =
        |last: u64| allowed.is_empty() || allowed.iter().any(|range| range.0 <= iova && last <= range.1);
    if last.is_some_and(inside) {
        return Ok(());
    }
    let ranges: Vec<String> = allowed.iter().map(|(from, to)| format!("{from:#x}-{to:#x}")).collect();
    Err(Error::Setup {
        device: address.to_string(),
        what: format!("{len:#x} bytes at {iova:#x} are not within what the IOMMU can map"),
        fix: format!("choose addresses within {}", ranges.join(", ")),
    })
}

fn iova_ranges(container: &File) -> std::result::Result<Vec<(u64, u64)>, Errno> {
    let mut body = vec![0; IOMMU_ROOM];
    body[..4].copy_from_slice(&(IOMMU_ROOM as u32).to_ne_bytes());
    ioctl::iommu_info(container, &mut body)?;
    decode_iova_ranges(&body).map_err(Malformed::errno)
}

/// The ranges told by a `vfio_iommu_type1_info` and its capabilities.
fn decode_iova_ranges(body: &[u8]) -> std::result::Result<Vec<(u64, u64)>, Malformed> {
    let field =
        |at: usize| body.get(at..).and_then(|rest| rest.first_chunk()).copied().map(u32::from_le_bytes);
    let short = Malformed::Truncated { wanted: IOMMU_INFO, left: body.len() };
    let (argsz, flags, first) = (field(0).ok_or(short)?, field(4).ok_or(short)?, field(16).unwrap_or(0));
    let body = &body[..body.len().min(argsz as usize)];
    if flags & VFIO_IOMMU_INFO_CAPS == 0 {
        return Ok(Vec::new());
    }
    for capability in Capabilities::new(body, first, IOMMU_INFO as u32) {
        let (id, data) = capability?;
        if u32::from(id) != VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE {
            continue;
        }
        let (head, ranges) =
            data.split_first_chunk::<8>().ok_or(Malformed::Truncated { wanted: 8, left: data.len() })?;
        let count = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let words: Vec<u64> = ranges.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let pairs = words.as_chunks::<2>().0;
        let pairs = pairs.get(..count).ok_or(Malformed::Count { count: count as u64, len: ranges.len() })?;
        return Ok(pairs.iter().map(|&[from, to]| (from, to)).collect());
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn info(flags: u32, first: u32, capabilities: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        for word in [(IOMMU_INFO + capabilities.len()) as u32, flags, 4096, 0, first, 0] {
            body.extend(u32::to_le_bytes(word));
        }
        body.extend(capabilities);
        body
    }

    fn ranges_capability(count: u32, ranges: &[(u64, u64)]) -> Vec<u8> {
        let mut data = vec![1, 0, 1, 0, 0, 0, 0, 0];
        data.extend(count.to_le_bytes());
        data.extend([0; 4]);
        data.extend(ranges.iter().flat_map(|(from, to)| [from.to_le_bytes(), to.to_le_bytes()].concat()));
        data
    }

    #[test]
    fn ranges_are_found_behind_other_capabilities() {
        let ranges = [(0, 0xFEDF_FFFF), (0xFEF0_0000, u64::MAX >> 16)];
        let mut chain = vec![3, 0, 1, 0, 40, 0, 0, 0, 9, 9, 9, 9, 0, 0, 0, 0]; // id 3, next at 40
        chain.extend(ranges_capability(2, &ranges));
        assert_eq!(decode_iova_ranges(&info(VFIO_IOMMU_INFO_CAPS, 24, &chain)), Ok(ranges.to_vec()));
        assert_eq!(decode_iova_ranges(&info(0, 24, &chain)), Ok(vec![]));
    }

    #[test]
    fn hostile_chains_end() {
        let circle = [9, 0, 1, 0, 24, 0, 0, 0];
        assert_eq!(decode_iova_ranges(&info(VFIO_IOMMU_INFO_CAPS, 24, &circle)), Err(Malformed::Chain(24)));
        assert_eq!(decode_iova_ranges(&info(VFIO_IOMMU_INFO_CAPS, 4, &circle)), Err(Malformed::Chain(4)));
        let many = ranges_capability(u32::MAX, &[(0, 1)]);
        let outcome = decode_iova_ranges(&info(VFIO_IOMMU_INFO_CAPS, 24, &many));
        assert!(matches!(outcome, Err(Malformed::Count { .. })));
    }

    #[test]
    fn addresses_outside_of_the_ranges_are_refused_by_name() {
        let address = "03:00.0".parse().unwrap();
        let allowed = [(0, 0xFEDF_FFFF), (0xFEF0_0000, 0xFFFF_FFFF)];
        check_range(&allowed, 0, 0xFEE0_0000, address).unwrap();
        check_range(&[], 1 << 50, 4096, address).unwrap();
        for (iova, len) in [(0xFEDF_F000, 0x2000), (0x1_0000_0000, 4096), (u64::MAX, 2), (0, 0)] {
            let refused = check_range(&allowed, iova, len, address).unwrap_err().to_string();
            assert!(
                refused.contains("choose addresses within 0x0-0xfedfffff, 0xfef00000-0xffffffff"),
                "{refused}"
            );
        }
    }

    /// As when a device is attached to a second space, or to one of which it is refused a part:
    /// what it was given and what not is unmapped alike.
    #[test]
    fn a_device_takes_back_only_what_it_was_given() {
        let [first, second] = ["03:00.0", "04:00.0"].map(|name| name.parse::<Address>().unwrap());
        let mut maps = Maps::default();
        for iova in [0x1000, 0x2000] {
            assert!(!maps.join(iova, 7 * iova, 0x1000, first).unwrap());
            maps.insert(iova, 7 * iova, 0x1000, first);
        }
        let other = maps.join(0x1000, 0x9000, 0x1000, second).unwrap_err().to_string();
        assert!(other.contains("other memory is mapped at 0x1000"), "{other}");
        maps.join(0x1000, 7 * 0x1000, 0x2000, second).unwrap_err();
        assert!(!maps.leave(0x1000, 0x1000, second), "it was refused");
        assert!(maps.join(0x1000, 7 * 0x1000, 0x1000, second).unwrap());
        assert!(!maps.leave(0x1000, 0x1000, second) && !maps.leave(0x1000, 0x1000, second));
        assert!(!maps.leave(0x2000, 0x2000, first), "another length");
        for iova in [0x1000, 0x2000] {
            assert!(maps.leave(iova, 0x1000, first), "the last one");
            assert!(!maps.leave(iova, 0x1000, first) && !maps.leave(iova, 0x1000, second));
        }
    }

    #[test]
    fn limits_name_their_fix() {
        let address = "03:00.0".parse().unwrap();
        assert!(map_error(address, 1, Errno::NOMEM).to_string().contains("ulimit -l"));
        assert!(map_error(address, 1, Errno::NOSPC).to_string().contains("dma_entry_limit"));
        assert!(set_iommu_error(address, Errno::PERM).to_string().contains("allow_unsafe_interrupts"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded(mut body: Vec<u8>, caps: bool) {
            if let (true, Some(flags)) = (caps, body.get_mut(4)) {
                *flags |= VFIO_IOMMU_INFO_CAPS as u8;
            }
            let _ = decode_iova_ranges(&body);
        }
    }
}
