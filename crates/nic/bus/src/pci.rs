//! A PCI device: identity, bus mastering and BARs, over any way in. Sources:
//! PCI Local Bus Specification 3.0, section 6.1 (the header of type 0).

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::{
    Address, Backend, Bar, Error, Result, Trust, VfToken, claim, sysfs::Sysfs, vfio::Vfio, vfio_user,
};

const COMMAND: u16 = 0x04;
const COMMAND_IO: u16 = 1 << 0;
const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_BUS_MASTER: u16 = 1 << 2;

/// A PCI device. Clones share it; all of [`Backend`] is reachable through it.
#[derive(Clone, Debug)]
pub struct Pci(Arc<dyn Backend>);

impl Deref for Pci {
    type Target = dyn Backend;

    fn deref(&self) -> &(dyn Backend + 'static) {
        &*self.0
    }
}

impl Pci {
    /// A device behind any backend.
    pub fn new(backend: Arc<dyn Backend>) -> Pci {
        Pci(backend)
    }

    /// Opens a local device: by VFIO when it is bound to vfio-pci, else by
    /// sysfs, which unbinds the kernel's driver until the device is dropped.
    pub fn open_address(address: Address) -> Result<Pci> {
        Pci::open_with_token(address, None)
    }

    /// Likewise, with the token of a physical function and its virtual ones, if there is one.
    ///
    /// # Errors
    /// As [`open_address`](Pci::open_address); besides, when the token is not the one that the
    /// physical function was opened with, and when the device is not bound to vfio-pci.
    pub fn open_with_token(address: Address, token: Option<VfToken>) -> Result<Pci> {
        if Vfio::is_bound(address) {
            return Ok(Pci(Arc::new(Vfio::open(address, token)?)));
        }
        if token.is_some() {
            return Err(Error::Setup {
                device: address.to_string(),
                what: "a token was given, and it is not bound to vfio-pci".to_owned(),
                fix: "bind it to vfio-pci, or leave vf_token out".to_owned(),
            });
        }
        Ok(Pci(Arc::new(Sysfs::open(address)?)))
    }

    /// Whether a local device can be opened with a token, as far as sysfs tells.
    pub fn takes_token(address: Address) -> bool {
        Vfio::takes_token(address)
    }

    /// Whether a local device is there; it is not touched.
    ///
    /// # Errors
    /// [`Error::NoDevice`](crate::Error::NoDevice) when it is not.
    pub fn look_for(address: Address) -> Result<()> {
        claim::directory_of(Path::new("/sys"), address).map(drop)
    }

    /// Connects to a device served over vfio-user by a process that is not trusted.
    pub fn connect(path: &Path) -> Result<Pci> {
        Pci::connect_until(path, Trust::Hostile, &Arc::default())
    }

    /// As [`connect`](Pci::connect); a server that says nothing is waited for
    /// until `stop` turns true.
    pub fn connect_until(path: &Path, trust: Trust, stop: &Arc<AtomicBool>) -> Result<Pci> {
        Ok(Pci(Arc::new(vfio_user::client::Client::connect(path, trust, stop)?)))
    }

    /// Allows or forbids DMA. Allowing it also turns on the decoding of the
    /// BARs, without which no register answers.
    pub fn set_bus_master(&self, on: bool) -> Result<()> {
        let mut command = [0; 2];
        self.read_config(COMMAND, &mut command)?;
        let old = u16::from_le_bytes(command);
        let new = match on {
            true => old | COMMAND_IO | COMMAND_MEMORY | COMMAND_BUS_MASTER,
            false => old & !COMMAND_BUS_MASTER,
        };
        self.write_config(COMMAND, &new.to_le_bytes())
    }

    /// The window of BAR `index`, 0 to 5.
    pub fn bar(&self, index: usize) -> Result<Bar> {
        let layout = self.bar_layout(index)?;
        Ok(Bar::new(self.0.clone(), index, layout))
    }
}
