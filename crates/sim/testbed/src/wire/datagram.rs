//! Unix datagrams, one raw frame each, as QEMU's `-netdev dgram` speaks:
//! `unix:LOCAL,remote=REMOTE` here is
//! `dgram,local.type=unix,local.path=REMOTE,remote.type=unix,remote.path=LOCAL`
//! there. Without `remote`, frames go to whoever sent the last one.
//!
//! A socket keeps few datagrams (`net.unix.max_dgram_qlen`). What it refuses waits here, in order,
//! and the device sends nothing more until all of it is gone, as on a paused link. A peer that
//! takes nothing for [`STUCK_AFTER_NS`] pauses nobody: frames are lost by name until it takes one.

use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::queue::FrameQueue;
use super::{Cause, SpecError};

/// Frames that wait, as many as a device sends in a step: one may send 4 MiB and a packet, in which
/// there are so many frames unless it is cut into tiny segments.
const WAITING_FRAMES: usize = 16 << 10;
const WAITING_BYTES: u32 = 8 << 20;
/// How long a peer is waited for that takes nothing: much longer than a busy machine keeps a
/// process from its processor.
pub(super) const STUCK_AFTER_NS: u64 = 1_000_000_000;

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
    /// Frames that the socket refused.
    waiting: FrameQueue,
    /// Since when it has taken none of them.
    refused_ns: u64,
    /// It has not for so long that frames are lost.
    is_stuck: bool,
    now_ns: u64,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Gone,
    Waits,
    Lost(Cause),
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
        for path in [Some(local), remote].into_iter().flatten() {
            bus::Error::check_socket_path(path, bus::LONGEST_SOCKET_PATH)?;
        }
        remove_stale(local);
        let socket = UnixDatagram::bind(local).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let file = std::fs::symlink_metadata(local).map_err(failed)?;
        let identity = (file.dev(), file.ino());
        let learn = remote.is_none();
        let waiting = FrameQueue::new(WAITING_FRAMES, WAITING_BYTES);
        let (local, remote) = (local.to_owned(), remote.map(Path::to_owned));
        let (refused_ns, is_stuck, now_ns) = (0, false, 0);
        Ok(Datagram { socket, local, identity, remote, learn, waiting, refused_ns, is_stuck, now_ns })
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

    /// Frames that wait for the socket.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Sends a frame behind those that wait.
    pub(super) fn transmit(&mut self, frame: &[u8]) -> Sent {
        if self.waiting.is_empty() {
            let sent = self.offer(frame);
            self.is_stuck &= sent != Sent::Gone;
            if sent != Sent::Waits {
                return sent;
            }
            self.refused_ns = self.now_ns;
        }
        match !self.is_stuck && self.waiting.push(frame) {
            true => Sent::Waits,
            false => Sent::Lost(Cause::PeerTooSlow),
        }
    }

    /// Time passed: sends what waits, as far as the socket takes it. Each frame that waits no
    /// longer, and what became of it.
    pub(super) fn advance(&mut self, now_ns: u64, mut done: impl FnMut(&[u8], Sent)) {
        self.now_ns = now_ns;
        while let Some(frame) = self.waiting.front() {
            let mut sent = self.offer(frame);
            if sent == Sent::Waits {
                self.is_stuck |= now_ns.saturating_sub(self.refused_ns) >= STUCK_AFTER_NS;
                if !self.is_stuck {
                    return;
                }
                sent = Sent::Lost(Cause::PeerTooSlow);
            } else {
                self.refused_ns = now_ns;
            }
            done(frame, sent);
            self.waiting.drop_front();
        }
    }

    /// Offers a frame to the socket, which may refuse it for now.
    fn offer(&self, frame: &[u8]) -> Sent {
        let Some(remote) = &self.remote else { return Sent::Lost(Cause::NoPeer) };
        let Err(error) = self.socket.send_to(frame, remote) else { return Sent::Gone };
        match error.kind() {
            ErrorKind::WouldBlock => Sent::Waits,
            // The kernel has no memory for it at present.
            _ if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => Sent::Waits,
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Sent::Lost(Cause::NoPeer),
            _ => Sent::Lost(Cause::SocketError),
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
