//! Serving devices over vfio-user, protocol 0.1: a thread for each socket, and
//! one that steps all devices.
//!
//! Clients come and go; whatever they do, the devices and the other clients stay.
//! When one leaves, its memory is unmapped and the device is as new.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bus::vfio_user::server::{DmaAccess, RegionInfo, Served, Server, Shared};
use serde::{Deserialize, Serialize};

use crate::device::{Device, DeviceReport};
use crate::station::{Idle, Station, Stepper};
use crate::view::Access;
use crate::wire::Cable;

/// A device and where to serve it.
#[derive(Debug)]
pub struct Endpoint {
    /// The socket's path.
    pub socket: PathBuf,
    /// The device.
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
    /// The device.
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

/// A served device, shared with its socket's thread.
#[derive(Debug)]
struct Line {
    socket: PathBuf,
    station: Arc<Station>,
    faults: AtomicU64,
    last_fault: Mutex<Option<String>>,
}

/// Devices that are being served; dropping it ends that.
#[derive(Debug)]
pub struct Serving {
    lines: Vec<Arc<Line>>,
    threads: Vec<JoinHandle<()>>,
    stepper: Stepper,
    stop: Arc<AtomicBool>,
    begin: Instant,
}

/// Devices whose sockets are bound, but not served yet: in between, a process
/// can give up what it needed to get here, before there are threads that have it.
#[derive(Debug)]
pub struct Bound {
    lines: Vec<Arc<Line>>,
    servers: Vec<Server>,
}

impl Bound {
    /// Binds all sockets.
    ///
    /// # Errors
    /// What binding says; then none is bound.
    pub fn bind(endpoints: Vec<Endpoint>) -> bus::Result<Bound> {
        let (mut lines, mut servers) = (Vec::new(), Vec::new());
        for Endpoint { socket, device } in endpoints {
            servers.push(Server::bind(&socket)?);
            let station = Station::new(device);
            let (faults, last_fault) = (AtomicU64::new(0), Mutex::new(None));
            lines.push(Arc::new(Line { socket, station, faults, last_fault }));
        }
        Ok(Bound { lines, servers })
    }

    /// Begins to serve.
    ///
    /// # Errors
    /// When threads cannot be started; then nothing is served.
    pub fn serve(self, options: Options) -> bus::Result<Serving> {
        let Bound { lines, servers } = self;
        let stop = Arc::new(AtomicBool::new(false));
        let thread_failed = |error: io::Error| bus::Error::Os {
            doing: "starting a thread".to_owned(),
            errno: rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::AGAIN),
        };
        let stations = lines.iter().map(|line| line.station.clone()).collect();
        let stepper = Stepper::start(stations, options.core, options.idle).map_err(thread_failed)?;
        // From here on, dropping `serving` ends what was started.
        let mut serving = Serving { lines, threads: Vec::new(), stepper, stop, begin: Instant::now() };
        for (line, server) in serving.lines.iter().zip(servers) {
            let (line, stop) = (line.clone(), serving.stop.clone());
            let thread = thread::Builder::new().name("vfio-user".to_owned());
            let thread = thread.spawn(move || line.serve(server, &stop)).map_err(thread_failed)?;
            serving.threads.push(thread);
        }
        Ok(serving)
    }
}

impl Serving {
    /// Binds all sockets and begins to serve.
    ///
    /// # Errors
    /// What binding says; then nothing is served.
    pub fn start(endpoints: Vec<Endpoint>, options: Options) -> bus::Result<Serving> {
        Bound::bind(endpoints)?.serve(options)
    }

    /// What was counted so far. Waits no longer than a register access does.
    pub fn report(&self) -> Report {
        let endpoints = self.lines.iter().map(|line| line.report()).collect();
        let elapsed_ms = self.begin.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
        Report { elapsed_ms, endpoints }
    }

    /// The sockets' paths.
    pub fn sockets(&self) -> impl Iterator<Item = &Path> {
        self.lines.iter().map(|line| line.socket.as_path())
    }

    /// Looks at the cable of device `index`, if there is one.
    pub fn with_cable<T>(&self, index: usize, look: impl FnOnce(&mut Cable) -> T) -> Option<T> {
        let line = self.lines.get(index)?;
        Some(look(line.station.enter().cable()))
    }

    /// Generators that were asked to hold their frames begin.
    pub fn start_sources(&self) {
        for line in &self.lines {
            line.station.enter().cable().start_source();
        }
    }

    /// Generators and captures give nothing from now on, so that what is under
    /// way can arrive and the books balance.
    pub fn stop_sources(&self) {
        for line in &self.lines {
            line.station.enter().cable().stop_source();
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
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.stepper.stop();
        for line in &self.lines {
            line.station.enter().cable().flush();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end();
    }
}

impl Line {
    /// Serves one client after the other.
    fn serve(&self, mut server: Server, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let mut client = Client { station: &self.station, attached: false };
            let Err(error) = server.serve_one(&mut client, stop) else { continue };
            client.disconnected();
            tracing::warn!(socket = %self.socket.display(), "client lost: {error}");
            // What happened before how often: who sees the count finds the words.
            *self.last_fault() = Some(error.to_string());
            self.faults.fetch_add(1, Ordering::Release);
            // An error that comes at once, again and again, is not to spin.
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn last_fault(&self) -> MutexGuard<'_, Option<String>> {
        self.last_fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self) -> EndpointReport {
        let mut device = self.station.enter();
        EndpointReport {
            socket: self.socket.display().to_string(),
            attached: self.station.is_attached(),
            client_faults: self.faults.load(Ordering::Acquire),
            last_fault: self.last_fault().clone(),
            left_mapped: device.left_mapped(),
            device: device.report(),
        }
    }
}

/// The device as one client sees it.
struct Client<'a> {
    station: &'a Station,
    attached: bool,
}

impl Client<'_> {
    /// Whoever asks anything is attached from then on, and the device stepped.
    fn enter(&mut self) -> MutexGuard<'_, Device> {
        let mut device = self.station.enter();
        if !self.attached {
            self.attached = true;
            device.attach();
            self.station.set_attached(true);
        }
        device
    }
}

impl Client<'_> {
    fn access(&mut self) -> MutexGuard<'_, Device> {
        drop(self.enter());
        self.station.access()
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
        let device = self.station.enter();
        let describe = |index| {
            let bar = device.bar(index)?;
            let shared = if index == 0 { share(&device) } else { None };
            Some(RegionInfo { bar: index, size: bar.size.into(), kind: bar.kind, shared })
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
        let device = self.enter();
        let access = Access { read: access.read, write: access.write };
        match fd {
            Some(file) => device.view().map(iova, len, file, fd_offset, access),
            None => device.view().map_unreachable(iova, len),
        }
    }

    fn unmap_dma(&mut self, iova: u64, len: u64) -> io::Result<()> {
        // With the lock held no step is under way, and the next one looks anew.
        self.enter().unmap(iova, len)
    }

    fn interrupt_vectors(&self) -> u16 {
        self.station.enter().shape().vectors
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
            let mut device = self.station.enter();
            self.station.set_attached(false);
            device.detach();
        }
    }
}

/// The pages of BAR 0 that clients may map. Without a file to give they are
/// trapped, which is slow but right.
fn share(device: &Device) -> Option<Shared> {
    if device.shape().polled.is_empty() {
        return None;
    }
    let fd = device.pages().file().try_clone_to_owned().ok()?;
    let areas = device.shape().polled.iter().map(|&(offset, len)| (offset.into(), len.into())).collect();
    Some(Shared { fd, fd_offset: 0, areas })
}
