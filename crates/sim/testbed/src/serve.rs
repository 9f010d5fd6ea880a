//! Serving devices behind sockets: a thread for each socket, and those that step the
//! devices. The protocols are in [`vfio_user`](crate::vfio_user) and
//! [`vhost_user`](crate::vhost_user); each binds sockets, and what is bound is served
//! here.
//!
//! Clients come and go; whatever they do, the devices and the other clients stay.
//! When one leaves, its memory is unmapped and the device is as new.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::device::{Device, DeviceReport};
use crate::shared::SharedDevice;
use crate::stepper::{Idle, Stepper, join};
use crate::wire::Cable;

/// How long a device is waited for that its client's memory may hold up.
const LIMIT: Duration = Duration::from_secs(5);

/// A device and where to serve it.
#[derive(Debug)]
pub struct Endpoint {
    /// The socket's path.
    pub socket: PathBuf,
    /// The device that is served there.
    pub device: Device,
}

/// How to serve.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The core of the stepping thread; `None`: wherever the system puts it.
    pub core: Option<usize>,
    /// What the stepping thread does when nothing moves.
    pub idle: Idle,
}

/// What one served device counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointReport {
    /// The socket's path.
    pub socket: String,
    /// Whether a driver is attached.
    pub attached: bool,
    /// Clients that broke the protocol, and what the last one did.
    pub client_faults: u64,
    /// The last of these, in words.
    pub last_fault: Option<String>,
    /// Ranges of host memory that the last client left mapped when it went, and
    /// their bytes.
    pub left_mapped: (usize, u64),
    /// What the device itself tells.
    pub device: DeviceReport,
}

/// What all served devices counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Milliseconds since serving began.
    pub elapsed_ms: u64,
    /// The devices, in the order they were given.
    pub endpoints: Vec<EndpointReport>,
}

/// A bound socket of one of the protocols.
pub(crate) trait Listener: Send {
    /// Which protocol it is; its thread is named so.
    fn protocol(&self) -> &'static str;

    /// Waits for a client and serves it until it leaves or `stop` is set; comes back
    /// without one now and then.
    ///
    /// # Errors
    /// What the client did wrong, in words. It is gone then, and the device as new.
    fn serve_one(&mut self, device: &ServedDevice, stop: &AtomicBool) -> Result<(), String>;
}

/// An error of mapping a client's memory, with what to do about it where that is known.
pub(crate) fn named(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    let fix = "share a memfd made with MFD_ALLOW_SEALING (QEMU: -object memory-backend-memfd,share=on), \
               or serve with --allow-unsealed";
    io::Error::new(error.kind(), format!("the client's memory is refused: {error}: {fix}"))
}

/// A served device, shared with its socket's thread.
#[derive(Debug)]
pub(crate) struct ServedDevice {
    pub socket: PathBuf,
    pub shared: Arc<SharedDevice>,
    faults: AtomicU64,
    last_fault: Mutex<Option<String>>,
    /// The device's part of the last report.
    last_report: Mutex<((usize, u64), DeviceReport)>,
}

/// Devices that are being served; dropping it ends that.
#[derive(Debug)]
pub struct Serving {
    devices: Vec<Arc<ServedDevice>>,
    threads: Vec<JoinHandle<()>>,
    stepper: Stepper,
    stop: Arc<AtomicBool>,
    begin: Instant,
}

/// Devices whose sockets are bound, but not served yet: in between, a process
/// can give up what it needed to get here, before there are threads that have it.
pub struct Bound {
    devices: Vec<Arc<ServedDevice>>,
    listeners: Vec<Box<dyn Listener>>,
}

impl std::fmt::Debug for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.devices).finish()
    }
}

impl Bound {
    /// Binds all sockets, each with `listen`.
    ///
    /// # Errors
    /// What `listen` and [`bus::eventfd::prepare`] say; then none is bound.
    pub(crate) fn bind<L: Listener + 'static>(
        endpoints: Vec<Endpoint>,
        listen: impl Fn(&Path, &mut Device) -> bus::Result<L>,
    ) -> bus::Result<Bound> {
        bus::eventfd::prepare()?; // no thread of a confined process could do so later
        let mut bound = Bound { devices: Vec::new(), listeners: Vec::new() };
        for Endpoint { socket, mut device } in endpoints {
            bound.listeners.push(Box::new(listen(&socket, &mut device)?));
            bound.devices.push(Arc::new(ServedDevice::new(socket, device)));
        }
        Ok(bound)
    }

    /// Begins to serve.
    ///
    /// # Errors
    /// When threads cannot be started; then nothing is served.
    pub fn serve(self, options: Options) -> bus::Result<Serving> {
        let Bound { devices, listeners } = self;
        let stop = Arc::new(AtomicBool::new(false));
        let thread_failed = |error: io::Error| bus::Error::Os {
            doing: "starting a thread".to_owned(),
            errno: rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::AGAIN),
        };
        let shared = devices.iter().map(|device| device.shared.clone()).collect();
        let stepper = Stepper::for_strangers(shared, options.core, options.idle).map_err(thread_failed)?;
        // From here on, dropping `serving` ends what was started.
        let mut serving = Serving { devices, threads: Vec::new(), stepper, stop, begin: Instant::now() };
        for (device, listener) in serving.devices.iter().zip(listeners) {
            let (device, stop) = (device.clone(), serving.stop.clone());
            let thread = thread::Builder::new().name(listener.protocol().to_owned());
            let thread = thread.spawn(move || device.serve(listener, &stop)).map_err(thread_failed)?;
            serving.threads.push(thread);
        }
        Ok(serving)
    }
}

impl Serving {
    /// What was counted so far. A device that its client's memory holds up is waited for,
    /// for some seconds; then it is what was counted the last time.
    pub fn report(&self) -> Report {
        let endpoints = self.devices.iter().map(|device| device.report()).collect();
        let elapsed_ms = self.begin.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
        Report { elapsed_ms, endpoints }
    }

    /// The sockets' paths.
    pub fn sockets(&self) -> impl Iterator<Item = &Path> {
        self.devices.iter().map(|device| device.socket.as_path())
    }

    /// Looks at the cable of device `index`, if there is one.
    pub fn with_cable<T>(&self, index: usize, look: impl FnOnce(&mut Cable) -> T) -> Option<T> {
        let device = self.devices.get(index)?;
        Some(look(device.shared.enter().cable()))
    }

    /// Generators that were asked to hold their frames begin.
    pub fn start_sources(&self) {
        for device in &self.devices {
            device.shared.enter().cable().start_source();
        }
    }

    /// Generators and captures give nothing from now on, so that what is under
    /// way can arrive and what was counted balances.
    pub fn stop_sources(&self) {
        for device in &self.devices {
            device.shared.enter().cable().stop_source();
        }
    }

    /// Ends serving: clients see a hang-up, sockets go away. What was counted,
    /// as it was before the clients' memory went.
    pub fn stop(mut self) -> Report {
        self.end();
        self.report()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| join(thread, LIMIT));
        self.stepper.stop();
        for device in &self.devices {
            if let Some(mut device) = device.shared.enter_within(LIMIT) {
                device.cable().flush();
            }
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end();
    }
}

impl ServedDevice {
    /// A device that nobody drives yet.
    pub(crate) fn new(socket: PathBuf, device: Device) -> ServedDevice {
        let (faults, last_fault, last_report) = (AtomicU64::new(0), Mutex::default(), Mutex::default());
        ServedDevice { socket, shared: SharedDevice::new(device), faults, last_fault, last_report }
    }

    /// Serves one client after the other.
    fn serve(&self, mut listener: Box<dyn Listener>, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            if let Err(fault) = listener.serve_one(self, stop) {
                self.note_fault(fault);
                // An error that comes at once, again and again, is not to spin.
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Counts what a client did wrong, for the report.
    pub(crate) fn note_fault(&self, fault: String) {
        // What happened before how often: who sees the count finds the words.
        *self.last_fault() = Some(fault);
        self.faults.fetch_add(1, Ordering::Release);
    }

    fn last_fault(&self) -> MutexGuard<'_, Option<String>> {
        self.last_fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self) -> EndpointReport {
        let mut last = self.last_report.lock().unwrap_or_else(PoisonError::into_inner);
        let held = self.shared.enter_within(LIMIT);
        // Read while nobody can attach or detach, so that it fits the device's report.
        let attached = self.shared.is_attached();
        if let Some(mut device) = held {
            *last = (device.left_mapped(), device.report());
        }
        let (left_mapped, device) = last.clone();
        EndpointReport {
            socket: self.socket.display().to_string(),
            attached,
            client_faults: self.faults.load(Ordering::Acquire),
            last_fault: self.last_fault().clone(),
            left_mapped,
            device,
        }
    }
}
