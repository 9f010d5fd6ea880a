//! Requests of a [`Client`]: one at a time, each with its reply, in between which the server
//! may ask for memory. The first fault of the peer ends the connection, and is kept.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use rustix::io::Errno;

use super::Client;
use crate::vfio_user::dma::Ranges;
use crate::vfio_user::message::{Command, Encoder, Malformed};
use crate::vfio_user::transport::{Received, TransportFault, WaitLimit, receive, send};
use crate::{BarMapping, Error, Result, sigbus};

/// What whoever talks to the peer holds: no other request is under way meanwhile.
#[derive(Debug, Default)]
pub(super) struct Link {
    next_id: u16,
    /// The memory that the peer may reach.
    pub(super) ranges: Ranges,
}

impl Client {
    /// The link, while there was no fault.
    pub(super) fn lock(&self) -> Result<MutexGuard<'_, Link>> {
        let link = self.lock_always();
        self.sound().map(|()| link)
    }

    /// The link, whatever became of the connection.
    pub(super) fn lock_always(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first fault, if there was one.
    pub(super) fn sound(&self) -> Result<()> {
        self.fault.get().map_or(Ok(()), |fault| Err(fault.clone()))
    }

    /// Whether the server took away pages of its own or of ours.
    pub(super) fn is_memory_lost(&self) -> bool {
        let losses = sigbus::losses();
        if self.losses.load(Ordering::Relaxed) == losses {
            return false;
        }
        let mut mapped = self.bars.iter().flatten().flat_map(|bar| &bar.mapped);
        let lost = mapped.any(BarMapping::is_lost) || self.lock_always().ranges.are_lost();
        if !lost {
            self.losses.store(losses, Ordering::Relaxed);
        }
        lost
    }

    /// Keeps the first fault: the connection is of no use any more.
    pub(super) fn fail(&self, error: Error) -> Error {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        self.fault.get_or_init(|| error).clone()
    }

    pub(super) fn broke(&self, what: String) -> Error {
        self.fail(Error::Protocol { peer: self.peer.clone(), what })
    }

    pub(super) fn malformed(&self, malformed: Malformed) -> Error {
        self.fail(Error::Malformed { peer: self.peer.clone(), malformed })
    }

    fn failed(&self, command: Command, fault: TransportFault) -> Error {
        let (peer, command, after) = (self.peer.clone(), command.name(), self.limit);
        self.fail(match fault {
            TransportFault::HungUp => Error::HungUp { peer },
            TransportFault::TimedOut => Error::TimedOut { peer, command, after },
            TransportFault::Stopped => Error::Os { doing: format!("{peer}: {command}"), errno: Errno::INTR },
            TransportFault::Malformed(malformed) => Error::Malformed { peer, malformed },
            TransportFault::MemoryLost => Error::memory_lost(peer),
            TransportFault::Os(errno) => Error::Os { doing: format!("{peer}: {command}"), errno },
        })
    }

    /// Sends a command and waits for its reply.
    pub(super) fn ask(
        &self,
        command: Command,
        fds: &[BorrowedFd<'_>],
        body: impl FnOnce(Encoder) -> Encoder,
    ) -> Result<Received> {
        self.ask_locked(&mut *self.lock()?, command, fds, body)
    }

    /// As [`ask`](Client::ask), for who changes the link too before others may.
    pub(super) fn ask_locked(
        &self,
        link: &mut Link,
        command: Command,
        fds: &[BorrowedFd<'_>],
        body: impl FnOnce(Encoder) -> Encoder,
    ) -> Result<Received> {
        let id = link.next_id;
        link.next_id = id.wrapping_add(1);
        let bytes = body(Encoder::request(id, command, 0)).finish();
        let wait = WaitLimit { stop: self.stop.as_deref(), deadline: None }.until(self.limit);
        send(&self.stream, &bytes, fds, wait).map_err(|fault| self.failed(command, fault))?;
        let reply = self.reply(link, id, command, wait)?;
        match reply.header.error() {
            Some(errno) => Err(Error::Refused { peer: self.peer.clone(), command: command.name(), errno }),
            None => Ok(reply),
        }
    }

    /// Waits for the reply to `id`, answering what the server asks meanwhile.
    fn reply(&self, link: &mut Link, id: u16, command: Command, wait: WaitLimit<'_>) -> Result<Received> {
        loop {
            let message =
                receive(&self.stream, wait, self.limit).map_err(|fault| self.failed(command, fault))?;
            let header = message.header;
            if !header.is_reply() {
                let reply = link.ranges.reply(&header, &message.body);
                if header.wants_reply() {
                    send(&self.stream, &reply, &[], wait).map_err(|fault| self.failed(command, fault))?;
                }
            } else if header.id == id && header.command == command as u16 {
                return Ok(message);
            } else {
                let (got, number) = (header.id, header.command);
                return Err(self.broke(format!("waiting for {id}, it answered {got}, command {number}")));
            }
        }
    }
}
