//! Options of sockets, by the numbers that Linux has for them.

use tcp::Id;

use crate::errors::Answer;
use crate::host::{Host, MICROSECOND_NS};
use crate::remembered;
use crate::settings::{fast_open, parse_number};
use crate::socket::{Choices, Role, Socket};
use crate::tcp_info::{LISTENING, Times, bytes_of};

/// Options of TCP that the `libc` crate does not name on every system.
const TCP_CC_INFO: i32 = 26;
const TCP_FASTOPEN_CONNECT: i32 = 30;
const TCP_FASTOPEN_KEY: i32 = 33;
const TCP_NOTSENT_LOWAT: i32 = 25;
/// The option of TCP and the message of control that tell how many bytes are left to read.
pub const TCP_INQ: i32 = 36;
const SO_MEMINFO: i32 = 55;
const SO_SNDBUFFORCE: i32 = 32;
const SO_RCVBUFFORCE: i32 = 33;
/// Numbers of memory that `SO_MEMINFO` tells.
const MEMORY_NUMBERS: usize = 9;
/// The smallest send buffer, in bytes, as Linux has it (`SOCK_MIN_SNDBUF`).
const LEAST_SEND_BUFFER: usize = 4608;
/// The smallest receive buffer, in bytes (`SOCK_MIN_RCVBUF`).
const LEAST_RECEIVE_BUFFER: i32 = 2304;
/// The longest times of keep-alive in seconds (`MAX_TCP_KEEPIDLE`).
const KEEP_ALIVE_S: i32 = 32_767;
const SECOND_NS: i64 = 1_000_000 * MICROSECOND_NS;
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
        let number = || number_of(level, value);
        let bits = self.settings.fast_open();
        let socket = self.socket_mut(descriptor)?;
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => {
                let flags = number()?.cast_unsigned();
                return self.ask_stamps(descriptor, flags);
            }
            (libc::IPPROTO_TCP, libc::TCP_QUICKACK) => {
                let (is_quick, connection) = (number()? & 1 != 0, socket.connection());
                self.with(|stack, io| connection.map(|id| stack.set_quick(id, is_quick, io)));
                return Ok(0);
            }
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => {
                let pushes = number()? != 0;
                socket.choices.has_no_delay = pushes;
                self.changed(descriptor)?;
                return self.push_if(descriptor, pushes);
            }
            _ if remembered::is_one(level, name) => socket.remembered.set(level, name, number()?),
            (libc::SOL_SOCKET, _) => set_of_socket(socket, name, value)?,
            (libc::IPPROTO_TCP, TCP_FASTOPEN_CONNECT) => connect_fast(socket, bits, number()?)?,
            (libc::IPPROTO_TCP, _) => set_of_tcp(socket, name, value)?,
            _ => return Err(libc::ENOPROTOOPT),
        }
        self.changed(descriptor)
    }

    /// An application wants to know when its bytes went.
    fn ask_stamps(&mut self, descriptor: i32, flags: u32) -> Answer {
        let id = self.socket_mut(descriptor)?.connection();
        let acknowledged = id.and_then(|id| self.stack()?.info(id)).map_or(0, |info| info.bytes_acknowledged);
        self.socket_mut(descriptor)?.stamps.ask(flags, acknowledged);
        Ok(0)
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
        let keep_alive = choices.keeps_alive.then(|| self.settings.keep_alive(choices.keep_alive));
        self.with_silently(|stack, io| {
            let connection = tcp::Choices {
                has_nagle: !choices.has_no_delay,
                is_corked: choices.is_corked,
                user_timeout_ns: i64::from(choices.user_timeout_ms) * 1_000_000,
                syn_retries: choices.syn_retries,
                max_segment: choices.max_segment,
                keep_alive,
                algorithm: choices.algorithm,
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
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                choices.receive_buffer.unwrap_or_else(|| self.settings.receive_buffer())
            }
            (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => choices.least_read as i32,
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => return Ok(time_of(choices.read_limit_us)),
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => return Ok(time_of(choices.write_limit_us)),
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let seconds = choices.linger_s.unwrap_or(0).to_ne_bytes();
                let is_on = i32::from(choices.linger_s.is_some()).to_ne_bytes();
                return Ok([is_on, seconds].concat());
            }
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => choices.keeps_alive.into(),
            (libc::SOL_SOCKET, libc::SO_OOBINLINE) => socket.is_urgent_inline.into(),
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => socket.stamps.flags().cast_signed(),
            (libc::SOL_SOCKET, libc::SO_ZEROCOPY) => socket.zero_copy.is_on.into(),
            (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => libc::IPPROTO_TCP,
            (libc::SOL_SOCKET, libc::SO_DOMAIN) if socket.is_v6 => libc::AF_INET6,
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => libc::AF_INET,
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => matches!(socket.role, Role::Listening { .. }).into(),
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => return Ok(name_of(choices.algorithm)),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE | libc::TCP_KEEPINTVL | libc::TCP_KEEPCNT) => {
                keep_alive_of(&self.settings.keep_alive(choices.keep_alive), name)
            }
            (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT) => choices.defers_accept_s.cast_signed(),
            (libc::IPPROTO_TCP, libc::TCP_SYNCNT) => choices
                .syn_retries
                .map_or(self.settings.number("tcp_syn_retries").unwrap_or(6) as i32, i32::from),
            (libc::IPPROTO_TCP, libc::TCP_FASTOPEN) => choices.fast_open.unwrap_or(0).cast_signed(),
            (libc::IPPROTO_TCP, TCP_FASTOPEN_CONNECT) => choices.connects_fast.into(),
            (libc::IPPROTO_TCP, libc::TCP_QUICKACK) => 1,
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
            _ => socket.remembered.value(level, name).ok_or(libc::ENOPROTOOPT)?,
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
        let times = Times { received_ns: socket.received_ns, now_ns };
        Ok(bytes_of(&detail, state, &socket.usage, times).to_vec())
    }
}

/// The number that a value is; `EINVAL` where it is too short.
fn number_of(level: i32, value: &[u8]) -> Answer<i32> {
    match value {
        // Options of IP may have one byte.
        [byte] if level == libc::IPPROTO_IP => Ok(i32::from(*byte)),
        _ => value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(libc::EINVAL),
    }
}

/// Sets an option of the level `SOL_SOCKET`.
fn set_of_socket(socket: &mut Socket, name: i32, value: &[u8]) -> Answer<()> {
    let number = || number_of(libc::SOL_SOCKET, value);
    let choices = &mut socket.choices;
    match name {
        libc::SO_SNDBUF | SO_SNDBUFFORCE => {
            choices.send_buffer = (2 * number()?.max(0) as usize).max(LEAST_SEND_BUFFER);
            choices.is_buffer_chosen = true;
        }
        libc::SO_RCVBUF | SO_RCVBUFFORCE => {
            let bytes = number()?.clamp(0, i32::MAX / 2).saturating_mul(2);
            choices.receive_buffer = Some(bytes.max(LEAST_RECEIVE_BUFFER));
        }
        libc::SO_RCVLOWAT => {
            choices.least_read = match number()? {
                ..0 => i32::MAX as usize,
                least => least.max(1) as usize,
            };
        }
        libc::SO_RCVTIMEO => choices.read_limit_us = time_us(value)?,
        libc::SO_SNDTIMEO => choices.write_limit_us = time_us(value)?,
        libc::SO_LINGER => {
            let seconds = value.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
            let seconds = seconds.ok_or(libc::EINVAL)?;
            choices.linger_s = (number()? != 0).then_some(seconds);
        }
        libc::SO_KEEPALIVE => choices.keeps_alive = number()? != 0,
        libc::SO_ZEROCOPY => socket.zero_copy.is_on = number()? != 0,
        libc::SO_OOBINLINE => socket.is_urgent_inline = number()? != 0,
        _ => return Err(libc::ENOPROTOOPT),
    }
    Ok(())
}

/// Sets an option of the level `IPPROTO_TCP`.
fn set_of_tcp(socket: &mut Socket, name: i32, value: &[u8]) -> Answer<()> {
    let number = || number_of(libc::IPPROTO_TCP, value);
    let choices = &mut socket.choices;
    match name {
        libc::TCP_KEEPIDLE => choices.keep_alive.0 = Some(within(number()?, KEEP_ALIVE_S)?),
        libc::TCP_KEEPINTVL => choices.keep_alive.1 = Some(within(number()?, KEEP_ALIVE_S)?),
        libc::TCP_KEEPCNT => choices.keep_alive.2 = Some(within(number()?, 127)? as u8),
        libc::TCP_DEFER_ACCEPT => choices.defers_accept_s = number()?.max(0).cast_unsigned(),
        libc::TCP_CONGESTION => choices.algorithm = algorithm_of(value)?,
        libc::TCP_CORK => choices.is_corked = number()? != 0,
        TCP_NOTSENT_LOWAT => choices.not_sent_low = Some(number()? as u32),
        TCP_INQ => choices.tells_unread = number()? != 0,
        libc::TCP_MAXSEG => {
            let size = number()?;
            if !(88..=32_767).contains(&size) {
                return Err(libc::EINVAL);
            }
            choices.max_segment = Some(size as u16);
        }
        libc::TCP_USER_TIMEOUT => choices.user_timeout_ms = number()?.max(0) as u32,
        libc::TCP_SYNCNT => choices.syn_retries = Some(within(number()?, 127)? as u8),
        libc::TCP_FASTOPEN => choices.fast_open = Some(number()?.max(0) as u32),
        TCP_FASTOPEN_KEY => {
            let key = <[u8; 16]>::try_from(value).map_err(|_| libc::EINVAL)?;
            socket.fast_open_key = Some(key);
        }
        _ => return Err(libc::ENOPROTOOPT),
    }
    Ok(())
}

/// Sets `TCP_FASTOPEN_CONNECT`, before the socket is connected: data then go with its SYN, if the
/// host's settings, `bits`, let it be a client of fast open.
fn connect_fast(socket: &mut Socket, bits: u32, is_wanted: i32) -> Answer<()> {
    if !(0..=1).contains(&is_wanted) || !matches!(socket.role, Role::Fresh) {
        return Err(libc::EINVAL);
    }
    if bits & fast_open::CLIENT == 0 {
        return Err(libc::EOPNOTSUPP);
    }
    socket.choices.connects_fast = is_wanted != 0;
    Ok(())
}

/// One of the numbers of keep-alive, times in seconds.
fn keep_alive_of(keep_alive: &tcp::KeepAlive, name: i32) -> i32 {
    match name {
        libc::TCP_KEEPIDLE => (keep_alive.idle_ns / SECOND_NS) as i32,
        libc::TCP_KEEPINTVL => (keep_alive.interval_ns / SECOND_NS) as i32,
        _ => keep_alive.probes.into(),
    }
}

/// A number from one to the largest that is allowed.
fn within(number: i32, most: i32) -> Answer<u32> {
    if (1..=most).contains(&number) { Ok(number.cast_unsigned()) } else { Err(libc::EINVAL) }
}

/// A `struct timeval` in microseconds.
fn time_us(value: &[u8]) -> Answer<i64> {
    let part =
        |at: usize| value.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(i64::from_ne_bytes);
    let (Some(seconds), Some(rest)) = (part(0), part(8)) else { return Err(libc::EINVAL) };
    match rest {
        0..1_000_000 => Ok(seconds.max(0).saturating_mul(1_000_000).saturating_add(rest)),
        _ => Err(libc::EDOM),
    }
}

/// Microseconds as a `struct timeval`.
fn time_of(us: i64) -> Vec<u8> {
    [(us / 1_000_000).to_ne_bytes(), (us % 1_000_000).to_ne_bytes()].concat()
}

/// The algorithm of a name, which may end with a zero.
fn algorithm_of(value: &[u8]) -> Answer<tcp::Algorithm> {
    match value.split(|byte| *byte == 0).next() {
        Some(b"cubic") => Ok(tcp::Algorithm::Cubic),
        Some(b"reno") => Ok(tcp::Algorithm::Reno),
        _ => Err(libc::ENOENT),
    }
}

/// The name of an algorithm, as long as Linux tells it (`TCP_CA_NAME_MAX`).
fn name_of(algorithm: tcp::Algorithm) -> Vec<u8> {
    let name: &[u8] = match algorithm {
        tcp::Algorithm::Cubic => b"cubic",
        tcp::Algorithm::Reno => b"reno",
    };
    let mut bytes = name.to_vec();
    bytes.resize(16, 0);
    bytes
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
