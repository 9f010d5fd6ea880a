//! The host's end of a guest's cable: a unix datagram socket with one raw frame
//! a datagram, as QEMU's `-netdev dgram` has it, and our models' wire `unix:`.

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The longest frame that is taken whole, in bytes without CRC.
pub const LONGEST: usize = 9216;

/// The host's end of one cable, and the paths of both ends' sockets.
#[derive(Debug)]
pub struct Line {
    socket: UnixDatagram,
    ours: PathBuf,
    theirs: PathBuf,
}

impl Line {
    /// Binds the host's end in a directory, before the guest starts.
    ///
    /// # Errors
    /// [`Error::File`] when the path is taken or too long for a socket.
    pub fn new(directory: &Path, name: &str) -> Result<Line> {
        let ours = directory.join(format!("{name}.host"));
        let theirs = directory.join(format!("{name}.guest"));
        let socket = UnixDatagram::bind(&ours).map_err(Error::at(&ours))?;
        socket.set_nonblocking(true).map_err(Error::at(&ours))?;
        Ok(Line { socket, ours, theirs })
    }

    /// The guest's end, as QEMU's `-netdev` wants it.
    pub fn netdev(&self, id: &str) -> String {
        let (local, remote) = (self.theirs.display(), self.ours.display());
        format!("dgram,id={id},local.type=unix,local.path={local},remote.type=unix,remote.path={remote}")
    }

    /// The guest's end, as `ixora model --wire` wants it.
    pub fn wire(&self) -> String {
        format!("unix:{},remote={}", self.theirs.display(), self.ours.display())
    }

    /// Gives a frame to the guest; `false` when it takes none now.
    pub fn send(&self, frame: &[u8]) -> bool {
        self.socket.send_to(frame, &self.theirs).is_ok()
    }

    /// Takes a frame that has come, and its length; `None` when there is none.
    pub fn receive(&self, buffer: &mut [u8]) -> Option<usize> {
        loop {
            match self.socket.recv(buffer) {
                Ok(length) => return Some(length),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// A guest's end that is a socket of this process.
    #[cfg(test)]
    pub(super) fn far_end(&self) -> std::io::Result<UnixDatagram> {
        let socket = UnixDatagram::bind(&self.theirs)?;
        socket.connect(&self.ours)?;
        Ok(socket)
    }
}
