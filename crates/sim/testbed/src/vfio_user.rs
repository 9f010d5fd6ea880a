//! Devices served over vfio-user, protocol 0.1.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicBool;

use bus::vfio_user::server::{DmaAccess, RegionInfo, Served, Server, SharedPages};

use crate::device::{BarContent, Device};
use crate::serve::{self, Bound, Endpoint, Listener, ServedDevice};
use crate::shared::SharedDevice;
use crate::view::Access;

/// Binds all sockets.
///
/// # Errors
/// What binding says; then none is bound.
pub fn bind(endpoints: Vec<Endpoint>) -> bus::Result<Bound> {
    Bound::bind(endpoints, |socket, _| Server::bind(socket))
}

impl Listener for Server {
    fn protocol(&self) -> &'static str {
        "vfio-user"
    }

    fn serve_one(&mut self, device: &ServedDevice, stop: &AtomicBool) -> Result<(), String> {
        let mut client = Client { served: device, shared: &device.shared, attached: false };
        Server::serve_one(self, &mut client, stop).map_err(|error| {
            client.disconnected();
            tracing::warn!(socket = %device.socket.display(), "client lost: {error}");
            error.to_string()
        })
    }
}

/// The device as one client sees it.
struct Client<'a> {
    served: &'a ServedDevice,
    shared: &'a SharedDevice,
    attached: bool,
}

impl Client<'_> {
    /// Whoever asks anything is attached from then on, and the device stepped.
    fn enter(&mut self) -> MutexGuard<'_, Device> {
        let mut device = self.shared.enter();
        if !self.attached {
            self.attached = true;
            device.attach();
            self.shared.set_attached(true);
        }
        device
    }

    fn access(&mut self) -> MutexGuard<'_, Device> {
        drop(self.enter());
        self.shared.access()
    }
}

impl Served for Client<'_> {
    fn read_config(&mut self, offset: u16, data: &mut [u8]) {
        self.enter().read_config(offset, data);
    }

    fn write_config(&mut self, offset: u16, data: &[u8]) {
        self.enter().write_config(offset, data);
    }

    fn regions(&self) -> Vec<RegionInfo> {
        let device = self.shared.enter();
        let describe = |index| {
            let bar = device.bar(index)?;
            let shared = if bar.content == BarContent::Registers { share(&device) } else { None };
            Some(RegionInfo { bar: index, size: bar.size.into(), kind: bar.access(), shared })
        };
        (0..6).filter_map(describe).collect()
    }

    fn read_bar(&mut self, bar: usize, offset: u64, data: &mut [u8]) {
        self.access().read_bar(bar, offset, data);
    }

    fn write_bar(&mut self, bar: usize, offset: u64, data: &[u8]) {
        self.access().write_bar(bar, offset, data);
    }

    fn map_dma(
        &mut self,
        iova: u64,
        len: u64,
        fd: Option<OwnedFd>,
        fd_offset: u64,
        access: DmaAccess,
    ) -> io::Result<()> {
        let access = Access { read: access.read, write: access.write };
        let mapped = match fd {
            Some(file) => self.enter().view().map(iova, len, file, fd_offset, access),
            None => self.enter().view().map_unreachable(iova, len),
        };
        mapped.map_err(|error| {
            let error = serve::named(error);
            if error.kind() == io::ErrorKind::PermissionDenied {
                // The client learns a number only.
                tracing::warn!(socket = %self.served.socket.display(), "{error}");
                self.served.note_fault(error.to_string());
            }
            error
        })
    }

    fn is_memory_lost(&self) -> bool {
        self.shared.is_memory_lost()
    }

    fn unmap_dma(&mut self, iova: u64, len: u64) -> io::Result<()> {
        // With the lock held no step is under way, and the next one looks anew.
        self.enter().unmap(iova, len)
    }

    fn interrupt_vectors(&self) -> u16 {
        self.shared.enter().shape().vectors
    }

    fn set_interrupt(&mut self, vector: u16, event: Option<OwnedFd>) {
        self.enter().set_interrupt(vector, event);
    }

    fn reset(&mut self) {
        self.enter().reset();
    }

    fn disconnected(&mut self) {
        if std::mem::take(&mut self.attached) {
            // Both under the lock: a report sees neither without the other.
            let mut device = self.shared.enter();
            self.shared.set_attached(false);
            device.detach();
        }
    }
}

/// The pages of the registers' BAR that clients may map. Without a file to give they are
/// trapped, which is slow but right.
fn share(device: &Device) -> Option<SharedPages> {
    let polled = device.polled()?;
    let fd = polled.pages.file().try_clone_to_owned().ok()?;
    let areas = polled.areas.iter().map(|&(offset, len)| (offset.into(), len.into())).collect();
    Some(SharedPages { fd, fd_offset: 0, areas })
}

/// Serves the client at the other end of `stream` until it hangs up, the device stepped with
/// each access of a register: for fuzzing.
#[doc(hidden)]
pub fn feed(device: Device, stream: &std::os::unix::net::UnixStream) {
    let served = ServedDevice::new("fed".into(), device);
    let shared = &*served.shared;
    shared.step_now();
    shared.enter().follow_clock(0);
    let mut client = Client { served: &served, shared, attached: false };
    let _ = bus::vfio_user::server::serve_stream(stream, &mut client, &AtomicBool::new(false));
    shared.step_now();
    assert_eq!(shared.enter().report().mapped, (0, 0), "the client is gone, and so is its memory");
}
