//! Taking a device from the kernel for as long as it is open by sysfs, and
//! giving it back: nobody else may be using it, its driver is unbound and
//! bound again afterwards, and its DMA ends first. Facts from Linux's
//! `ABI/testing/sysfs-bus-pci`.

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
    /// The kernel driver to bind again.
    driver: Option<PathBuf>,
}

impl Claim {
    pub(crate) fn take(root: &Path, address: Address) -> Result<Claim> {
        let directory = root.join("bus/pci/devices").join(address.to_string());
        if !directory.exists() {
            return Err(Error::NoDevice { address, path: directory.display().to_string() });
        }
        scan::refuse_interface_in_use(&directory, address)?;
        let config = open(&directory, "config")?;
        flock(&config, FlockOperation::NonBlockingLockExclusive).map_err(|_| Error::Setup {
            device: address.to_string(),
            what: "another process drives the device".to_owned(),
            fix: format!("end it first: fuser {}/config names it", directory.display()),
        })?;
        let driver = fs::canonicalize(directory.join("driver")).ok();
        if let Some(driver) = &driver {
            let path = driver.join("unbind");
            fs::write(&path, address.to_string())
                .map_err(|error| Error::opening(&path, error, || vfio_hint(&directory)))?;
        }
        Ok(Claim { address, directory, config, driver })
    }

    /// Opens a file of the device's directory for reading and writing.
    pub(crate) fn open(&self, name: &str) -> Result<File> {
        open(&self.directory, name)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut command = [0];
        let read = self.config.read_exact_at(&mut command, COMMAND);
        command[0] &= !COMMAND_BUS_MASTER;
        if let Err(error) = read.and_then(|()| self.config.write_all_at(&command, COMMAND)) {
            tracing::warn!("{}: ending bus mastering: {error}", self.address);
        }
        let Some(driver) = &self.driver else { return };
        if let Err(error) = fs::write(driver.join("bind"), self.address.to_string()) {
            tracing::warn!("{}: binding {} again: {error}", self.address, driver.display());
        }
    }
}

fn open(directory: &Path, name: &str) -> Result<File> {
    let path = directory.join(name);
    let opened = OpenOptions::new().read(true).write(true).open(&path);
    opened.map_err(|error| Error::opening(&path, error, || vfio_hint(directory)))
}

fn vfio_hint(directory: &Path) -> String {
    let (path, name) = (directory.display(), directory.file_name().unwrap_or_default().display());
    format!(
        "run as root, or bind the device to vfio-pci: echo vfio-pci > {path}/driver_override; \
         echo {name} > {path}/driver/unbind; echo {name} > /sys/bus/pci/drivers_probe"
    )
}
