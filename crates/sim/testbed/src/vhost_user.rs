//! Devices served over vhost-user: the back end's half, for QEMU's guests, for
//! DPDK's virtio-user and for our own front end.
//!
//! The rings are polled where the devices are stepped. One front end at a time is
//! served; another that connects meanwhile is turned away, and that is counted. When a
//! front end leaves, or breaks the protocol, its memory is unmapped and the device is
//! as new.
//!
//! Messages are read, checked for their shape and answered by crate `vhost`.
//! That waits for ever where a front end stops in the middle of a message or
//! does not read its answers, so a gate lets whole messages through only. Not
//! here: migration (dirty log), in-flight tracking, postcopy: not offered.

mod gate;
mod memory;
mod session;

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bus::peer::Stream;
use bus::vhost_user::Listener as Socket;
use vhost::vhost_user::{BackendReqHandler, Error};

use crate::models;
use crate::serve::{Bound, Endpoint, Listener, ServedDevice};
use crate::shared::SharedDevice;

use gate::{Event, SessionEnd};
use session::Session;

/// Binds all sockets.
///
/// # Errors
/// What binding says; `EOPNOTSUPP` for a device without [`model::chip::Rings`]. Then none is bound.
pub fn bind(endpoints: Vec<Endpoint>) -> bus::Result<Bound> {
    Bound::bind(endpoints, |socket, device| match device.rings() {
        Some(_) => Ok(FrontEnds(Socket::bind(socket)?)),
        None => Err(bus::Error::Unsupported {
            device: socket.display().to_string(),
            what: "serve this model over vhost-user",
            fix: &FIX,
        }),
    })
}

/// What to do where a model has no rings to hand over.
static FIX: LazyLock<String> =
    LazyLock::new(|| format!("serve {}, or this one over vfio-user", models::vhost_user_names()));

/// A socket to which front ends come.
struct FrontEnds(Socket);

impl Listener for FrontEnds {
    fn protocol(&self) -> &'static str {
        "vhost-user"
    }

    fn serve_one(&mut self, device: &ServedDevice, stop: &AtomicBool) -> Result<(), String> {
        let served = match self.0.accept(None, Some(stop)) {
            Ok(None) => Ok(()),
            Ok(Some(stream)) => self.converse(stream, device, stop),
            Err(error) => Err(error.to_string()),
        };
        served.map_err(|fault| logged(device, format!("front end lost: it {fault}")))
    }
}

impl FrontEnds {
    /// One front end, from its first message to its hang-up.
    fn converse(&self, stream: Stream, device: &ServedDevice, stop: &AtomicBool) -> Result<(), String> {
        let read = stream.try_clone().map_err(|error| format!("cannot be listened to: {error}"))?;
        let session =
            Session::new(device.shared.clone()).map_err(|error| format!("found no rings: {error}"))?;
        let session = Arc::new(Mutex::new(session));
        let mut handler = BackendReqHandler::from_stream(read, session.clone());
        loop {
            if device.shared.is_memory_lost() {
                return Err(SessionEnd::MemoryLost.to_string());
            }
            match gate::wait(&stream, &self.0, stop) {
                Ok(Event::Message) => {}
                Ok(Event::TimedOut) => {
                    session.lock().unwrap_or_else(PoisonError::into_inner).report_broken();
                    continue;
                }
                Ok(Event::Connection) => {
                    self.turn_away(device);
                    continue;
                }
                Ok(Event::Stopped) | Err(SessionEnd::HungUp) => return Ok(()),
                Err(fault) => return Err(fault.to_string()),
            }
            let mut early = session.lock().unwrap_or_else(PoisonError::into_inner);
            if early.enable_early(&stream)? {
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

    fn turn_away(&self, device: &ServedDevice) {
        if let Ok(Some(_closed)) = self.0.accept_waiting() {
            let fault = "a second front end was turned away: one is attached".to_owned();
            device.note_fault(logged(device, fault));
        }
    }
}

/// Warns of what a front end did.
fn logged(device: &ServedDevice, fault: String) -> String {
    tracing::warn!(socket = %device.socket.display(), "{fault}");
    fault
}

/// Lets a back end with `memory` mapped at 0 read `bytes` as all its front end
/// ever says: for fuzzing.
#[doc(hidden)]
pub fn feed(device: crate::Device, memory: std::os::fd::OwnedFd, len: u64, bytes: &[u8]) -> io::Result<()> {
    use std::io::{Read, Write};
    let (ours, mut theirs) = UnixStream::pair()?;
    let shared = SharedDevice::new(device);
    let mut session = Session::new(shared.clone())?;
    session.map(memory.into(), len)?;
    theirs.set_nonblocking(true)?;
    let _ = theirs.write(bytes);
    theirs.shutdown(std::net::Shutdown::Write)?;
    follow(ours.into(), session, &shared, || _ = theirs.read(&mut [0; 8192]))
}

/// Serves the front end at the other end of `stream`, which has said all that it will and
/// reads no answers, the device stepped after each message: for fuzzing.
#[doc(hidden)]
pub fn feed_stream(device: crate::Device, stream: UnixStream) -> io::Result<()> {
    let shared = SharedDevice::new(device);
    let session = Session::new(shared.clone())?;
    follow(stream.into(), session, &shared, || {})?;
    assert_eq!(shared.enter().report().mapped, (0, 0), "the front end is gone, and so is its memory");
    Ok(())
}

/// Takes messages until there are no more.
fn follow(
    stream: Stream,
    session: Session,
    shared: &SharedDevice,
    mut after: impl FnMut(),
) -> io::Result<()> {
    let session = Arc::new(Mutex::new(session));
    let mut handler = BackendReqHandler::from_stream(stream.try_clone()?, session);
    while let Ok(Event::Message) = gate::pass(&stream, &AtomicBool::new(false)) {
        if handler.handle_request().is_err() {
            break;
        }
        after();
        shared.step_now();
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
