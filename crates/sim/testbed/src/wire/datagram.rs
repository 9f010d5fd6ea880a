//! Unix datagrams, one raw frame each, as QEMU's `-netdev dgram` speaks:
//! `unix:LOCAL,remote=REMOTE` here is
//! `dgram,local.type=unix,local.path=REMOTE,remote.type=unix,remote.path=LOCAL`
//! there. Without `remote`, frames go to whoever sent the last one.

use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use super::SpecError;

/// A socket of datagrams.
#[derive(Debug)]
pub(super) struct Datagram {
    socket: UnixDatagram,
    local: PathBuf,
    /// Device and inode of our file, to remove no other's.
    identity: (u64, u64),
    remote: Option<PathBuf>,
    /// Whether to answer whoever sent last.
    learn: bool,
}

impl Datagram {
    pub(super) fn open(local: &Path, remote: Option<&Path>) -> Result<Datagram, SpecError> {
        let failed = |error: io::Error| SpecError::Open {
            what: format!("binding {}", local.display()),
            error: error.to_string(),
            fix: match error.kind() {
                ErrorKind::AddrInUse => ": another process has it; end it, or choose another path",
                ErrorKind::NotFound => ": create its directory first",
                _ => "",
            },
        };
        remove_stale(local);
        let socket = UnixDatagram::bind(local).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let file = std::fs::symlink_metadata(local).map_err(failed)?;
        let identity = (file.dev(), file.ino());
        let learn = remote.is_none();
        Ok(Datagram { socket, local: local.to_owned(), identity, remote: remote.map(Path::to_owned), learn })
    }

    pub(super) fn receive(&mut self, frame: &mut [u8]) -> Option<usize> {
        if !self.learn {
            return self.socket.recv(frame).ok();
        }
        let (len, from) = self.socket.recv_from(frame).ok()?;
        if let Some(path) = from.as_pathname()
            && self.remote.as_deref() != Some(path)
        {
            self.remote = Some(path.to_owned());
        }
        Some(len)
    }

    /// Sends a frame; `Err` names the loss.
    pub(super) fn transmit(&mut self, frame: &[u8]) -> Result<(), &'static str> {
        let remote = self.remote.as_deref().ok_or("no peer")?;
        match self.socket.send_to(frame, remote) {
            Ok(_) => Ok(()),
            Err(error) => Err(match error.kind() {
                ErrorKind::WouldBlock => "peer too slow",
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => "no peer",
                _ => "socket error",
            }),
        }
    }
}

impl Drop for Datagram {
    fn drop(&mut self) {
        let ours = |file: std::fs::Metadata| (file.dev(), file.ino()) == self.identity;
        if std::fs::symlink_metadata(&self.local).is_ok_and(ours) {
            let _ = std::fs::remove_file(&self.local);
        }
    }
}

/// Removes a socket that nobody reads from any more.
fn remove_stale(path: &Path) {
    let socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = || {
        let probe = UnixDatagram::unbound().and_then(|probe| probe.connect(path));
        probe.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    if socket && refused() {
        let _ = std::fs::remove_file(path);
    }
}
