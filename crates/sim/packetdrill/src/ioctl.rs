//! `ioctl` and `fcntl` on sockets: how many bytes wait, and whether calls do.

use crate::errors::Answer;
use crate::host::Host;
use crate::socket::Role;

/// `SIOCATMARK` and `SIOCOUTQNSD` of `linux/sockios.h`; the others have names of terminals too.
const AT_MARK: u64 = 0x8905;
const UNSENT: u64 = 0x894B;

impl Host {
    /// `fcntl`: flags of a descriptor.
    ///
    /// # Errors
    /// Those of descriptors; `EINVAL` of other commands.
    pub fn control(&mut self, descriptor: i32, command: i32, argument: i64) -> Answer<i32> {
        let choices = &mut self.socket_mut(descriptor)?.choices;
        match command {
            libc::F_GETFL => Ok(libc::O_RDWR | if choices.is_nonblocking { libc::O_NONBLOCK } else { 0 }),
            libc::F_SETFL => {
                choices.is_nonblocking = argument as i32 & libc::O_NONBLOCK != 0;
                Ok(0)
            }
            _ => Err(libc::EINVAL),
        }
    }

    /// The number that a request is answered with.
    ///
    /// # Errors
    /// Those of descriptors; `EINVAL` of a listening socket, and `ENOTTY` of other requests.
    pub fn request(&mut self, descriptor: i32, request: u64) -> Answer<i32> {
        let socket = self.socket_mut(descriptor)?;
        if matches!(socket.role, Role::Listening { .. }) {
            return Err(libc::EINVAL);
        }
        let connection = socket.connection();
        let count = match request {
            libc::FIONREAD => socket.readable(),
            libc::TIOCOUTQ => connection.map_or(0, |id| self.queued(id)),
            UNSENT => connection.map_or(0, |id| self.unsent(id)),
            AT_MARK => socket.is_at_mark().into(),
            _ => return Err(libc::ENOTTY),
        };
        Ok(count as i32)
    }
}
