//! Devices served over vhost-user: the back end's half, for QEMU's guests, for
//! DPDK's virtio-user and for our own front end.
//!
//! A thread for each socket, one that steps all devices and polls their rings.
//! One front end at a time is served; another that knocks meanwhile is turned
//! away, and that is counted. When a front end leaves, or breaks the protocol,
//! its memory is unmapped and the device is as new.
//!
//! Messages are read, checked for their shape and answered by crate `vhost`.
//! That waits for ever where a front end stops in the middle of a message or
//! does not read its answers, so a gate lets whole messages through only. Not
//! here: migration (dirty log), in-flight tracking, postcopy: not offered.

mod gate;
mod memory;
mod rings;
mod session;

pub use rings::Rings;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bus::vhost_user::Listener;
use vhost::vhost_user::{BackendReqHandler, Error};

use crate::serve::{Endpoint, EndpointReport, Options, Report};
use crate::station::{Station, Stepper};
use crate::wire::Cable;

use gate::{Event, Fault};
use session::Session;

/// A served device, shared with its socket's thread.
#[derive(Debug)]
struct Line {
    socket: PathBuf,
    station: Arc<Station>,
    faults: AtomicU64,
    last_fault: Mutex<Option<String>>,
}

/// Devices whose sockets are bound, but not served yet: in between, a process
/// can give up what it needed to get here.
#[derive(Debug)]
pub struct Bound {
    lines: Vec<Arc<Line>>,
    listeners: Vec<Listener>,
}

impl Bound {
    /// Binds all sockets.
    ///
    /// # Errors
    /// What binding says; `EOPNOTSUPP` for a device without [`Rings`].
    pub fn bind(endpoints: Vec<Endpoint>) -> bus::Result<Bound> {
        let (mut lines, mut listeners) = (Vec::new(), Vec::new());
        for Endpoint { socket, mut device } in endpoints {
            if device.rings().is_none() {
                return Err(bus::Error::Unsupported {
                    device: socket.display().to_string(),
                    what: "serve this model over vhost-user",
                    fix: "serve virtio-net, or this one over vfio-user",
                });
            }
            listeners.push(Listener::bind(&socket)?);
            let (faults, last_fault) = (AtomicU64::new(0), Mutex::new(None));
            lines.push(Arc::new(Line { socket, station: Station::new(device), faults, last_fault }));
        }
        Ok(Bound { lines, listeners })
    }

    /// Begins to serve.
    ///
    /// # Errors
    /// When threads cannot be started; then nothing is served.
    pub fn serve(self, options: Options) -> bus::Result<Serving> {
        let Bound { lines, listeners } = self;
        let stop = Arc::new(AtomicBool::new(false));
        let thread_failed = |error: io::Error| bus::Error::Os {
            doing: "starting a thread".to_owned(),
            errno: rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::AGAIN),
        };
        let stations = lines.iter().map(|line| line.station.clone()).collect();
        let stepper = Stepper::start(stations, options.core, options.idle).map_err(thread_failed)?;
        // From here on, dropping `serving` ends what was started.
        let mut serving = Serving { lines, threads: Vec::new(), stepper, stop, begin: Instant::now() };
        for (line, listener) in serving.lines.iter().zip(listeners) {
            let (line, stop) = (line.clone(), serving.stop.clone());
            let thread = thread::Builder::new().name("vhost-user".to_owned());
            let thread = thread.spawn(move || line.serve(&listener, &stop)).map_err(thread_failed)?;
            serving.threads.push(thread);
        }
        Ok(serving)
    }
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

impl Serving {
    /// Binds all sockets and begins to serve.
    ///
    /// # Errors
    /// What binding says; then nothing is served.
    pub fn start(endpoints: Vec<Endpoint>, options: Options) -> bus::Result<Serving> {
        Bound::bind(endpoints)?.serve(options)
    }

    /// What was counted so far.
    pub fn report(&self) -> Report {
        let endpoints = self.lines.iter().map(|line| line.report()).collect();
        let elapsed_ms = self.begin.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
        Report { elapsed_ms, endpoints }
    }

    /// Looks at the cable of device `index`, if there is one.
    pub fn with_cable<T>(&self, index: usize, look: impl FnOnce(&mut Cable) -> T) -> Option<T> {
        let line = self.lines.get(index)?;
        Some(look(line.station.enter().cable()))
    }

    /// Generators that were asked to hold their frames begin.
    pub fn start_sources(&self) {
        self.lines.iter().for_each(|line| line.station.enter().cable().start_source());
    }

    /// Generators and captures give nothing from now on.
    pub fn stop_sources(&self) {
        self.lines.iter().for_each(|line| line.station.enter().cable().stop_source());
    }

    /// Ends serving: front ends see a hang-up, sockets go away. What was counted.
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
    /// Serves one front end after the other.
    fn serve(&self, listener: &Listener, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let fault = match listener.accept(None, Some(stop)) {
                Ok(None) => continue,
                Ok(Some(stream)) => match self.converse(stream, listener, stop) {
                    Ok(()) => continue,
                    Err(fault) => fault,
                },
                Err(error) => error.to_string(),
            };
            self.note(format!("front end lost: it {fault}"));
            // An error that comes at once, again and again, is not to spin.
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// One front end, from its first message to its hang-up.
    fn converse(&self, stream: UnixStream, listener: &Listener, stop: &AtomicBool) -> Result<(), String> {
        let watched = stream.try_clone().map_err(|error| format!("cannot be listened to: {error}"))?;
        let session =
            Session::new(self.station.clone()).map_err(|error| format!("found no rings: {error}"))?;
        let session = Arc::new(Mutex::new(session));
        let mut handler = BackendReqHandler::from_stream(stream, session.clone());
        loop {
            match gate::wait(&watched, listener, stop) {
                Ok(Event::Message) => {}
                Ok(Event::Quiet) => {
                    session.lock().unwrap_or_else(PoisonError::into_inner).report_broken();
                    continue;
                }
                Ok(Event::Knock) => {
                    self.turn_away(listener);
                    continue;
                }
                Ok(Event::Stopped) | Err(Fault::HungUp) => return Ok(()),
                Err(fault) => return Err(fault.to_string()),
            }
            let mut early = session.lock().unwrap_or_else(PoisonError::into_inner);
            if early.enable_early(&watched)? {
                continue;
            }
            drop(early);
            match handler.handle_request() {
                Ok(()) => {}
                Err(Error::ReqHandlerError(error)) => return Err(format!("was refused: {error}")),
                Err(error) => return Err(format!("broke the protocol: {error}")),
            }
        }
    }

    fn turn_away(&self, listener: &Listener) {
        if let Ok(Some(_closed)) = listener.accept_waiting() {
            self.note("a second front end was turned away: one is attached".to_owned());
        }
    }

    fn note(&self, fault: String) {
        tracing::warn!(socket = %self.socket.display(), "{fault}");
        // What happened before how often: who sees the count finds the words.
        *self.last_fault() = Some(fault);
        self.faults.fetch_add(1, Ordering::Release);
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

/// Lets a back end with `memory` mapped at 0 read `bytes` as all its front end
/// ever says: for fuzzing.
#[doc(hidden)]
pub fn feed(device: crate::Device, memory: std::os::fd::OwnedFd, len: u64, bytes: &[u8]) -> io::Result<()> {
    use std::io::{Read, Write};
    let (ours, mut theirs) = UnixStream::pair()?;
    let station = Station::new(device);
    let mut session = Session::new(station.clone())?;
    session.map(memory.into(), len)?;
    let mut handler = BackendReqHandler::from_stream(ours.try_clone()?, Arc::new(Mutex::new(session)));
    theirs.set_nonblocking(true)?;
    let _ = theirs.write(bytes);
    theirs.shutdown(std::net::Shutdown::Write)?;
    while let Ok(Event::Message) = gate::pass(&ours, &AtomicBool::new(false)) {
        if handler.handle_request().is_err() {
            break;
        }
        let _ = theirs.read(&mut [0; 8192]);
        station.step_now();
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
