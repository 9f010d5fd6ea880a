//! Taking a device from the kernel for as long as it is open by sysfs, and
//! giving it back: nobody else may be using it, its driver is unbound and
//! bound again afterwards, and its DMA ends first; [`give_back`] does so for a
//! process that could not. Sources: Linux's `ABI/testing/sysfs-bus-pci`.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::{Address, Error, Result, scan};

/// Byte of the command register that holds the bus master bit (PCI 3.0, 6.2.2).
const COMMAND: u64 = 0x04;
const COMMAND_BUS_MASTER: u8 = 1 << 2;

/// A device that is ours until dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) address: Address,
    /// The device's directory in sysfs.
    pub(crate) directory: PathBuf,
    /// Its configuration space, locked against other users of this crate.
    pub(crate) config: File,
    /// Where its kernel driver takes it back. Open from the beginning: a process
    /// that gave up its privileges could not open it in the end.
    bind: Option<(PathBuf, File)>,
}

impl Claim {
    pub(crate) fn take(root: &Path, address: Address) -> Result<Claim> {
        let directory = directory_of(root, address)?;
        scan::refuse_interface_in_use(&directory, address)?;
        refuse_translation(&directory, address)?;
        let config = lock(&directory, address)?;
        let mut bind = None;
        if let Ok(driver) = fs::canonicalize(directory.join("driver")) {
            let failed = |path: &Path, error| Error::opening(path, error, || vfio_hint(&directory));
            let (to, from) = (driver.join("bind"), driver.join("unbind"));
            let file = OpenOptions::new().write(true).open(&to).map_err(|error| failed(&to, error))?;
            fs::write(&from, address.to_string()).map_err(|error| failed(&from, error))?;
            bind = Some((to, file));
        }
        Ok(Claim { address, directory, config, bind })
    }

    /// Opens a file of the device's directory for reading and writing.
    pub(crate) fn open(&self, name: &str) -> Result<File> {
        open(&self.directory, name)
    }
}

/// The device's directory in the sysfs tree at `root`.
///
/// # Errors
/// [`Error::NoDevice`] when there is none.
pub(crate) fn directory_of(root: &Path, address: Address) -> Result<PathBuf> {
    let directory = root.join("bus/pci/devices").join(address.to_string());
    match directory.exists() {
        true => Ok(directory),
        false => Err(Error::NoDevice { address, path: directory.display().to_string() }),
    }
}

/// Ends the DMA of a device whose process was killed, and lets the kernel's
/// driver have it. Refused while a process of this crate has it open; leaves a
/// device alone that has a driver.
pub fn give_back(address: Address) -> Result<()> {
    give_back_in(Path::new("/sys"), address)
}

/// As [`give_back`], in the sysfs tree at `root`.
pub fn give_back_in(root: &Path, address: Address) -> Result<()> {
    let directory = root.join("bus/pci/devices").join(address.to_string());
    let config = lock(&directory, address)?;
    if directory.join("driver").exists() {
        return Ok(());
    }
    let failed = |error| Error::os(format!("{address}: ending bus mastering"), error);
    end_dma(&config).map_err(failed)?;
    let path = root.join("bus/pci/drivers_probe");
    fs::write(&path, address.to_string()).map_err(|error| Error::opening(&path, error, String::new))
}

/// Opens the configuration space for this process alone, as far as they use
/// this crate.
fn lock(directory: &Path, address: Address) -> Result<File> {
    let config = open(directory, "config")?;
    flock(&config, FlockOperation::NonBlockingLockExclusive).map_err(|_| Error::Setup {
        device: address.to_string(),
        what: "another process drives the device".to_owned(),
        fix: format!("end it first: fuser {}/config names it", directory.display()),
    })?;
    Ok(config)
}

/// Refuses a device behind an IOMMU that translates: the physical addresses that
/// we would give it lead nowhere (Linux's `ABI/testing/sysfs-kernel-iommu_groups`).
fn refuse_translation(directory: &Path, address: Address) -> Result<()> {
    let kind = fs::read_to_string(directory.join("iommu_group/type")).unwrap_or_default();
    if !kind.starts_with("DMA") {
        return Ok(()); // "identity", or no IOMMU
    }
    let what = format!("the IOMMU keeps it from our memory (its group is {})", kind.trim());
    Err(Error::Setup { device: address.to_string(), what, fix: bind_to_vfio(directory) })
}

fn end_dma(config: &File) -> std::io::Result<()> {
    let mut command = [0];
    config.read_exact_at(&mut command, COMMAND)?;
    command[0] &= !COMMAND_BUS_MASTER;
    config.write_all_at(&command, COMMAND)
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Err(error) = end_dma(&self.config) {
            tracing::warn!("{}: ending bus mastering: {error}", self.address);
        }
        let Some((path, file)) = &self.bind else { return };
        if let Err(error) = file.write_all_at(self.address.to_string().as_bytes(), 0) {
            tracing::warn!("{}: giving it back by {}: {error}", self.address, path.display());
        }
    }
}

fn open(directory: &Path, name: &str) -> Result<File> {
    let path = directory.join(name);
    let opened = OpenOptions::new().read(true).write(true).open(&path);
    opened.map_err(|error| Error::opening(&path, error, || vfio_hint(directory)))
}

/// What to do where permission is missing. VFIO is advised where there is an IOMMU.
fn vfio_hint(directory: &Path) -> String {
    match directory.join("iommu_group").exists() {
        true => format!("run as root, or {}", bind_to_vfio(directory)),
        false => "run as root: without an IOMMU there is no other way to it".to_owned(),
    }
}

/// How a device behind an IOMMU is bound to vfio-pci: commands where that driver is there.
fn bind_to_vfio(directory: &Path) -> String {
    let (path, name) = (directory.display(), directory.file_name().unwrap_or_default().display());
    // By its name: the directory is a link, which ".." would follow.
    let bus = directory.parent().and_then(Path::parent);
    if !bus.is_some_and(|bus| bus.join("drivers/vfio-pci").exists()) {
        return "bind the device to vfio-pci; vfio-pci is not loaded, ixora doctor says if this kernel has it"
            .to_owned();
    }
    format!(
        "bind the device to vfio-pci: echo vfio-pci > {path}/driver_override; \
         echo {name} > {path}/driver/unbind; echo {name} > /sys/bus/pci/drivers_probe"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_advised_that_can_succeed() {
        let root = tempfile::tempdir().expect("a directory");
        let device = root.path().join("bus/pci/devices/0000:03:00.0");
        fs::create_dir_all(&device).expect("a device");
        let alone = vfio_hint(&device);
        assert!(alone.contains("run as root") && !alone.contains("vfio-pci"), "no IOMMU: {alone}");
        fs::create_dir(device.join("iommu_group")).expect("a group");
        let unloaded = vfio_hint(&device);
        assert!(unloaded.contains("not loaded") && !unloaded.contains("echo"), "{unloaded}");
        fs::create_dir_all(root.path().join("bus/pci/drivers/vfio-pci")).expect("a driver");
        let bound = vfio_hint(&device);
        assert!(
            bound.contains("echo vfio-pci > ") && bound.contains("0000:03:00.0/driver/unbind"),
            "{bound}"
        );
    }
}
