//! Requests: one at a time, its reply or acknowledgement, and what goes
//! wrong with them.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Frontend, Link};
use crate::vfio_user::transport::{Received, TransportFault, WaitLimit, read_all, send};
use crate::vhost_user::memory::Region;
use crate::vhost_user::message::{HEADER, Header, MAX_BODY, Message, Request, protocol};
use crate::{Error, Result};

impl Frontend {
    /// The link, while there was no fault.
    pub(super) fn lock(&self) -> Result<MutexGuard<'_, Link>> {
        let link = self.lock_always();
        self.sound().map(|()| link)
    }

    /// The link, whatever became of the connection.
    pub(super) fn lock_always(&self) -> MutexGuard<'_, Link> {
        // Each change to the link is one statement, made after the peer agreed or when what
        // it tells of goes anyway.
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first fault, if there was one.
    pub(super) fn sound(&self) -> Result<()> {
        self.fault.get().map_or(Ok(()), |fault| Err(fault.clone()))
    }

    /// Sends a request that has no answer of its own, acknowledged where that
    /// is possible.
    pub(super) fn order(
        &self,
        request: Request,
        body: impl FnOnce(Message) -> Message,
        fds: &[BorrowedFd<'_>],
    ) -> Result<()> {
        let _link = self.lock()?;
        self.order_locked(request, body, fds)
    }

    /// As [`order`](Self::order), for whoever holds the link.
    pub(super) fn order_locked(
        &self,
        request: Request,
        body: impl FnOnce(Message) -> Message,
        fds: &[BorrowedFd<'_>],
    ) -> Result<()> {
        let acknowledged = self.has(protocol::REPLY_ACK);
        let wait = WaitLimit::default().until(self.limit);
        self.send(request, &body(Message::new(request)).finish(acknowledged), fds, wait)?;
        if acknowledged && self.read_number(request, wait)? != 0 {
            return Err(self.refused(request, Errno::INVAL));
        }
        Ok(())
    }

    /// Sends a request without an answer, before acknowledgements are agreed on.
    pub(super) fn tell(
        &self,
        request: Request,
        body: impl FnOnce(Message) -> Message,
        fds: &[BorrowedFd<'_>],
    ) -> Result<()> {
        let _link = self.lock()?;
        let wait = WaitLimit::default().until(self.limit);
        self.send(request, &body(Message::new(request)).finish(false), fds, wait)
    }

    /// Asks for a number of 64 bits.
    pub(super) fn number(&self, request: Request) -> Result<u64> {
        let _link = self.lock()?;
        let wait = WaitLimit::default().until(self.limit);
        self.send(request, &Message::new(request).finish(false), &[], wait)?;
        self.read_number(request, wait)
    }

    /// Sends a request and waits for its answer.
    pub(super) fn ask(
        &self,
        request: Request,
        body: impl FnOnce(Message) -> Message,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Vec<u8>> {
        let _link = self.lock()?;
        let wait = WaitLimit::default().until(self.limit);
        self.send(request, &body(Message::new(request)).finish(false), fds, wait)?;
        self.read(request, wait)
    }

    fn send(
        &self,
        request: Request,
        bytes: &[u8],
        fds: &[BorrowedFd<'_>],
        wait: WaitLimit<'_>,
    ) -> Result<()> {
        send(&self.stream, bytes, fds, wait).map_err(|fault| self.failed(request, fault))
    }

    fn read_number(&self, request: Request, wait: WaitLimit<'_>) -> Result<u64> {
        let body = self.read(request, wait)?;
        let bytes = body.as_slice().try_into();
        let bytes = bytes.map_err(|_| {
            self.broke(format!("its answer to {} has {} bytes, not 8", request.name(), body.len()))
        })?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads the answer to `request`; the back end has nothing else to say here.
    fn read(&self, request: Request, wait: WaitLimit<'_>) -> Result<Vec<u8>> {
        // File descriptors that come along are closed with this.
        let mut received = Received::default();
        let mut bytes = [0; HEADER];
        let failed = |fault| self.failed(request, fault);
        read_all(&self.stream, &mut bytes, wait, &mut received).map_err(failed)?;
        let header = Header::decode(&bytes);
        if !header.answers(request) {
            let what = format!(
                "waiting for the answer to {}, it sent message {} with flags {:#x}",
                request.name(),
                header.request,
                header.flags
            );
            return Err(self.broke(what));
        }
        if header.size as usize > MAX_BODY {
            let what = format!("its answer to {} claims {} bytes", request.name(), header.size);
            return Err(self.broke(what));
        }
        let mut body = vec![0; header.size as usize];
        read_all(&self.stream, &mut body, wait, &mut received).map_err(failed)?;
        Ok(body)
    }

    /// Keeps the first fault: the session is of no use any more.
    fn fail(&self, error: Error) -> Error {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        self.fault.get_or_init(|| error).clone()
    }

    pub(super) fn broke(&self, what: String) -> Error {
        self.fail(Error::Protocol { peer: self.peer.clone(), what })
    }

    pub(super) fn refused(&self, request: Request, errno: Errno) -> Error {
        Error::Refused { peer: self.peer.clone(), command: request.name(), errno }
    }

    pub(super) fn setup(&self, what: String, fix: &str) -> Error {
        Error::Setup { device: self.peer.clone(), what, fix: fix.to_owned() }
    }

    fn failed(&self, request: Request, fault: TransportFault) -> Error {
        let (peer, command, after) = (self.peer.clone(), request.name(), self.limit);
        self.fail(match fault {
            TransportFault::HungUp => Error::HungUp { peer },
            TransportFault::TimedOut | TransportFault::Stopped => Error::TimedOut { peer, command, after },
            TransportFault::Malformed(_) => {
                Error::Protocol { peer, what: "more file descriptors than allowed".to_owned() }
            }
            TransportFault::MemoryLost => Error::memory_lost(peer),
            TransportFault::Os(errno) => Error::Os { doing: format!("{peer}: {command}"), errno },
        })
    }

    /// The first fault, a hang-up, or a ring that the back end gave up.
    pub(super) fn check(&self) -> Result<()> {
        self.sound()?;
        let losses = crate::sigbus::losses();
        if self.losses.load(Ordering::Relaxed) != losses {
            if self.lock_always().memory.regions().iter().any(Region::is_lost) {
                return Err(self.fail(Error::memory_lost(self.peer.clone())));
            }
            self.losses.store(losses, Ordering::Relaxed);
        }
        let (stream, error) = (self.stream.as_fd(), self.error.as_fd());
        let mut fds = [
            PollFd::from_borrowed_fd(stream, PollFlags::RDHUP),
            PollFd::from_borrowed_fd(error, PollFlags::IN),
        ];
        if !matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..)) {
            return Ok(());
        }
        if fds[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR) {
            return Err(self.fail(Error::HungUp { peer: self.peer.clone() }));
        }
        if fds[1].revents().contains(PollFlags::IN) {
            let what = "it gave up a ring (the ring's error event)".to_owned();
            return Err(self.broke(what));
        }
        Ok(())
    }
}
