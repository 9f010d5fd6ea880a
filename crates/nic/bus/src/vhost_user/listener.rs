//! A socket on which one vhost-user peer is awaited: a back end that connects
//! to us ("server mode" of the front end), or a front end for a back end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::peer::{self, Stream};
use crate::vfio_user::server::listen;
use crate::vfio_user::transport::{TransportFault, WaitLimit};
use crate::{Error, Result};

/// A socket; its file goes away when this is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
    /// Device and inode of the file, to remove no other's.
    identity: (u64, u64),
}

impl Listener {
    /// Binds the socket. A file left by a process that is gone is replaced.
    ///
    /// # Errors
    /// [`Error::Setup`] when another process listens there; what binding says.
    pub fn bind(path: &Path) -> Result<Listener> {
        let (socket, identity) = listen(path)?;
        Ok(Listener { socket, path: path.to_owned(), identity })
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What [`poll`](rustix::event::poll) waits for with this: a connection, unless too many
    /// descriptors of peers wait to be closed ([`peer`]).
    pub fn awaited(&self) -> PollFlags {
        peer::awaited()
    }

    /// A peer that is waiting, if there is one that may be taken.
    ///
    /// # Errors
    /// What accepting says.
    pub fn accept_waiting(&self) -> Result<Option<Stream>> {
        if self.awaited().is_empty() {
            return Ok(None);
        }
        match self.socket.accept() {
            Ok((stream, _)) => Ok(Some(stream.into())),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted => Ok(None),
                _ => Err(Error::os(format!("accepting on {}", self.path.display()), error)),
            },
        }
    }

    /// Waits for a peer for as long as `limit`, or till `stop` turns true;
    /// `None` when none came.
    ///
    /// # Errors
    /// What accepting says.
    pub fn accept(&self, limit: Option<Duration>, stop: Option<&AtomicBool>) -> Result<Option<Stream>> {
        let mut wait = WaitLimit { stop, deadline: None };
        if let Some(limit) = limit {
            wait = wait.until(limit);
        }
        loop {
            if let Some(stream) = self.accept_waiting()? {
                return Ok(Some(stream));
            }
            match wait.wait_once(&mut [PollFd::new(&self.socket, self.awaited())]) {
                Ok(_) => {}
                Err(TransportFault::Os(errno)) => {
                    return Err(Error::os(format!("waiting on {}", self.path.display()), errno));
                }
                Err(_) => return Ok(None),
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // To a confined process both are refused (EPERM), and the file stays to whoever may: its janitor.
        let ours =
            std::fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.identity);
        if ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
