//! A device for a driver that shares nothing with us but files: it maps the
//! registers as PCI's `resource0` is mapped, and its memory is named to the
//! device page by page. So other people's drivers, which know neither vfio-user
//! nor this process, run on devices all of whose registers are polled.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::device::Device;
use crate::inprocess::Handle;
use crate::shared::SharedDevice;
use crate::view::Access;

/// Command register, with memory space and bus mastering on (PCI 3.0, 6.2.2).
const COMMAND: u16 = 0x04;
const MASTER: u16 = 1 << 1 | 1 << 2;

/// The driver's side. Dropped, the driver is as good as dead: its memory is
/// forgotten.
#[derive(Debug)]
pub struct ExternalDriver {
    shared: Arc<SharedDevice>,
    registers: OwnedFd,
}

impl ExternalDriver {
    /// Puts the device where a driver can come.
    ///
    /// # Errors
    /// What copying a descriptor says; `EOPNOTSUPP` for a device that shares no
    /// registers.
    pub fn new(mut device: Device) -> io::Result<(ExternalDriver, Handle)> {
        // Nobody writes our configuration space to let the device reach memory.
        device.write_config(COMMAND, &MASTER.to_le_bytes());
        let polled = device.polled().ok_or(rustix::io::Errno::OPNOTSUPP)?;
        let registers = polled.pages.file().try_clone_to_owned()?;
        let shared = SharedDevice::new(device);
        shared.set_attached(true);
        shared.enter().attach();
        let handle = Handle::over(shared.clone());
        Ok((ExternalDriver { shared, registers }, handle))
    }

    /// The file of the registers, BAR 0 from its beginning.
    pub fn registers(&self) -> BorrowedFd<'_> {
        self.registers.as_fd()
    }

    /// Lets the device reach `len` bytes of `file` from `offset` at the address
    /// by which the driver knows them.
    ///
    /// # Errors
    /// `EEXIST` where something is mapped already, and what mmap says.
    pub fn map(&self, iova: u64, len: u64, file: OwnedFd, offset: u64) -> io::Result<()> {
        self.shared.enter().view().map(iova, len, file, offset, Access::BOTH)
    }
}

impl Drop for ExternalDriver {
    fn drop(&mut self) {
        let mut device = self.shared.enter();
        self.shared.set_attached(false);
        device.detach();
    }
}
