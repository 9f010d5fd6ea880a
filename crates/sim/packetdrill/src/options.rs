//! Options of sockets, by the numbers that Linux has for them.

use tcp::Id;

use crate::errors::Answer;
use crate::host::Host;
use crate::settings::{fast_open, parse_number};
use crate::socket::{Choices, Role};
use crate::tcp_info::{LISTENING, bytes_of};

/// Options of TCP that the `libc` crate does not name on every system.
const TCP_CC_INFO: i32 = 26;
const TCP_FASTOPEN_CONNECT: i32 = 30;
const TCP_FASTOPEN_KEY: i32 = 33;
const TCP_NOTSENT_LOWAT: i32 = 25;
/// The option of TCP and the message of control that tell how many bytes are left to read.
pub const TCP_INQ: i32 = 36;
const SO_MEMINFO: i32 = 55;
/// Numbers of memory that `SO_MEMINFO` tells.
const MEMORY_NUMBERS: usize = 9;
/// The smallest send buffer, in bytes, as Linux has it (`SOCK_MIN_SNDBUF`).
const LEAST_SEND_BUFFER: usize = 4608;
/// The secret of cookies where none was set, always the same, as the course of a script is. Linux
/// takes one by chance.
const OWN_KEY: [u8; 16] = *b"of a simulation.";

impl Host {
    /// `setsockopt`.
    ///
    /// # Errors
    /// Those of descriptors; `EINVAL` where the value is too short or out of range, and
    /// `ENOPROTOOPT` of what this host does not have.
    pub fn set_option(&mut self, descriptor: i32, level: i32, name: i32, value: &[u8]) -> Answer {
        let number = || value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(libc::EINVAL);
        let bits = self.settings.fast_open();
        let socket = self.socket_mut(descriptor)?;
        let is_fresh = matches!(socket.role, Role::Fresh);
        let choices = &mut socket.choices;
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => {
                choices.send_buffer = (2 * number()?.max(0) as usize).max(LEAST_SEND_BUFFER);
                choices.is_buffer_chosen = true;
            }
            (libc::SOL_SOCKET, libc::SO_ZEROCOPY) => socket.zero_copy.is_on = number()? != 0,
            // They change nothing that this host has: any address and port may be bound, and
            // packets have no marks.
            (libc::SOL_SOCKET, libc::SO_REUSEADDR | libc::SO_REUSEPORT | libc::SO_MARK)
            | (libc::IPPROTO_IP, libc::IP_FREEBIND) => return Ok(0),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => {
                choices.has_no_delay = number()? != 0;
                let pushes = choices.has_no_delay;
                self.changed(descriptor)?;
                return self.push_if(descriptor, pushes);
            }
            (libc::IPPROTO_TCP, libc::TCP_CORK) => choices.is_corked = number()? != 0,
            (libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT) => choices.not_sent_low = Some(number()? as u32),
            (libc::IPPROTO_TCP, TCP_INQ) => choices.tells_unread = number()? != 0,
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                let size = number()?;
                if !(88..=32_767).contains(&size) {
                    return Err(libc::EINVAL);
                }
                choices.max_segment = Some(size as u16);
            }
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => choices.user_timeout_ms = number()?.max(0) as u32,
            (libc::IPPROTO_TCP, libc::TCP_SYNCNT) => {
                choices.syn_retries = Some(number()?.clamp(1, 127) as u8)
            }
            (libc::IPPROTO_TCP, libc::TCP_FASTOPEN) => choices.fast_open = Some(number()?.max(0) as u32),
            (libc::IPPROTO_TCP, TCP_FASTOPEN_KEY) => {
                let key = <[u8; 16]>::try_from(value).map_err(|_| libc::EINVAL)?;
                socket.fast_open_key = Some(key);
            }
            (libc::IPPROTO_TCP, TCP_FASTOPEN_CONNECT) => {
                let is_wanted = number()?;
                if !(0..=1).contains(&is_wanted) || !is_fresh {
                    return Err(libc::EINVAL);
                }
                if bits & fast_open::CLIENT == 0 {
                    return Err(libc::EOPNOTSUPP);
                }
                choices.connects_fast = is_wanted != 0;
            }
            _ => return Err(libc::ENOPROTOOPT),
        }
        self.changed(descriptor)
    }

    /// Tells the stack what an application has set.
    fn changed(&mut self, descriptor: i32) -> Answer {
        let socket = self.socket_mut(descriptor)?;
        let (choices, connection) = (socket.choices, socket.connection());
        match connection {
            Some(id) => self.apply(id, &choices),
            None => drop(self.tell_listener(descriptor)?),
        }
        self.with(|_, _| ());
        Ok(0)
    }

    /// Sends what waits to become a full segment.
    fn push_if(&mut self, descriptor: i32, pushes: bool) -> Answer {
        if let Some(id) = self.socket_mut(descriptor)?.connection().filter(|_| pushes) {
            self.with(|stack, io| stack.push(id, io).ok());
        }
        Ok(0)
    }

    /// Tells the stack what was set of a listening socket.
    ///
    /// # Errors
    /// Those of descriptors.
    pub fn tell_listener(&mut self, descriptor: i32) -> Answer {
        let bits = self.settings.fast_open();
        let general = self.settings.text("net.ipv4.tcp_fastopen_key").and_then(parse_key);
        let socket = self.socket_mut(descriptor)?;
        let (Role::Listening { .. }, Some(local)) = (&socket.role, socket.local) else { return Ok(0) };
        let most = socket.choices.fast_open.filter(|_| bits & fast_open::SERVER != 0);
        let listener = tcp::Listener {
            max_segment: socket.choices.max_segment,
            fast_open: most.map(|most| tcp::FastOpenListener {
                most,
                key: socket.fast_open_key.or(general).unwrap_or(OWN_KEY),
                is_cookie_needed: bits & fast_open::SERVER_NO_COOKIE == 0,
            }),
        };
        self.with(|stack, _| stack.listen_as(local.port(), listener));
        Ok(0)
    }

    /// Tells the stack what was chosen for a connection.
    pub fn apply(&mut self, id: Id, choices: &Choices) {
        let choices = *choices;
        self.with_silently(|stack, io| {
            let connection = tcp::Choices {
                has_nagle: !choices.has_no_delay,
                is_corked: choices.is_corked,
                user_timeout_ns: i64::from(choices.user_timeout_ms) * 1_000_000,
                syn_retries: choices.syn_retries,
                max_segment: choices.max_segment,
            };
            stack.choose(id, connection, io).ok()
        });
    }

    /// `getsockopt`: the value's bytes, of which a caller takes as many as it has room for.
    ///
    /// # Errors
    /// Those of descriptors; `ENOPROTOOPT`.
    pub fn option(&mut self, descriptor: i32, level: i32, name: i32) -> Answer<Vec<u8>> {
        let number = self.number(descriptor)?;
        let socket = self.sockets.get_mut(&number).ok_or(libc::EBADF)?;
        let choices = socket.choices;
        let value = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => std::mem::take(&mut socket.error),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => choices.send_buffer as i32,
            (libc::SOL_SOCKET, SO_MEMINFO) => return Ok(vec![0; 4 * MEMORY_NUMBERS]),
            (libc::IPPROTO_TCP, TCP_CC_INFO) => return Ok(vec![]),
            (libc::IPPROTO_TCP, libc::TCP_INFO) => return self.tcp_info(descriptor),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => choices.has_no_delay.into(),
            (libc::IPPROTO_TCP, libc::TCP_CORK) => choices.is_corked.into(),
            (libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT) => choices.not_sent_low.unwrap_or(0) as i32,
            (libc::IPPROTO_TCP, TCP_INQ) => choices.tells_unread.into(),
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => choices.user_timeout_ms as i32,
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                let connection = socket.connection();
                let chosen = choices.max_segment.unwrap_or(536);
                let detail = connection.and_then(|id| self.stack()?.detail(id));
                detail.map_or(i32::from(chosen), |detail| detail.info.payload_size as i32)
            }
            _ => return Err(libc::ENOPROTOOPT),
        };
        Ok(value.to_ne_bytes().to_vec())
    }

    fn tcp_info(&mut self, descriptor: i32) -> Answer<Vec<u8>> {
        let number = self.number(descriptor)?;
        let now_ns = self.now_ns;
        let socket = self.sockets.get(&number).ok_or(libc::EBADF)?;
        let detail = socket.connection().and_then(|id| self.stack()?.detail(id));
        let state = match &socket.role {
            Role::Listening { .. } => Some(LISTENING),
            Role::Open(_) => None,
            Role::Fresh | Role::Ended => Some(7),
        };
        let detail = detail.or(socket.last_info).ok_or(libc::EINVAL)?;
        Ok(bytes_of(&detail, state, socket.received_ns, now_ns).to_vec())
    }
}

/// A key of fast open as `sysctl` writes it: four words in hexadecimal, each of which stands in
/// memory with its lowest byte first.
fn parse_key(text: &str) -> Option<[u8; 16]> {
    let mut key = [0; 16];
    for (word, place) in text.split(',').next()?.split('-').zip(key.chunks_exact_mut(4)) {
        place.copy_from_slice(&parse_number(&format!("0x{word}"))?.to_le_bytes());
    }
    Some(key)
}
