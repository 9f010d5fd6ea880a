//! System calls on sockets, each as one attempt: `EAGAIN` says that it would have to wait.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

use tcp::Mark;

use crate::errors::{Answer, of_refusal};
use crate::host::{Descriptor, Host};
use crate::settings::fast_open;
use crate::socket::{Choices, Number, Role, Socket};

/// The address from which connections of this side go out, of each version of IP.
const OWN_V4: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
const OWN_V6: Ipv6Addr = Ipv6Addr::new(0xFD3D, 0x0A0B, 0x17D6, 0, 0, 0, 0, 1);

impl Host {
    /// The socket of a descriptor.
    ///
    /// # Errors
    /// `EBADF`, and `ENOTSOCK` of an epoll instance.
    pub fn number(&self, descriptor: i32) -> Answer<Number> {
        match self.descriptors.get(&descriptor) {
            Some((Descriptor::Socket(number), _)) => Ok(*number),
            Some(_) => Err(libc::ENOTSOCK),
            None => Err(libc::EBADF),
        }
    }

    /// The same, to change it.
    ///
    /// # Errors
    /// Those of [`Host::number`].
    pub fn socket_mut(&mut self, descriptor: i32) -> Answer<&mut Socket> {
        let number = self.number(descriptor)?;
        self.sockets.get_mut(&number).ok_or(libc::EBADF)
    }

    /// A descriptor for something. It has the number of an open file, so that packetdrill can
    /// close it by itself in the end.
    pub fn describe(&mut self, what: Descriptor) -> Answer<i32> {
        let file = File::open("/dev/null").map_err(|error| error.raw_os_error().unwrap_or(libc::EMFILE))?;
        let descriptor = file.as_raw_fd();
        self.descriptors.insert(descriptor, (what, file));
        Ok(descriptor)
    }

    /// `epoll_create`.
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn create_epoll(&mut self) -> Answer<i32> {
        self.describe(Descriptor::Epoll(BTreeMap::new()))
    }

    /// `socket`.
    ///
    /// # Errors
    /// `EPROTONOSUPPORT` of anything but TCP, and `EMFILE`.
    pub fn create(&mut self, is_v6: bool, kind: i32) -> Answer<i32> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        if kind & !flags != libc::SOCK_STREAM {
            return Err(libc::EPROTONOSUPPORT);
        }
        let mut choices = Choices::new(self.settings.send_buffer());
        choices.algorithm = self.settings.algorithm();
        choices.is_nonblocking = kind & libc::SOCK_NONBLOCK != 0;
        let number = self.next_number();
        let descriptor = self.describe(Descriptor::Socket(number))?;
        self.sockets.insert(number, Socket::new(is_v6, choices));
        Ok(descriptor)
    }

    /// `bind`.
    ///
    /// # Errors
    /// Those of descriptors; `EINVAL` of a socket that has an address.
    pub fn bind(&mut self, descriptor: i32, address: SocketAddr) -> Answer {
        let socket = self.socket_mut(descriptor)?;
        if socket.local.is_some() {
            return Err(libc::EINVAL);
        }
        socket.local = Some(address);
        Ok(0)
    }

    /// `listen`.
    ///
    /// # Errors
    /// Those of descriptors; `EINVAL` of a socket that is connected or has no address.
    pub fn listen(&mut self, descriptor: i32, backlog: i32) -> Answer {
        let bits = self.settings.fast_open();
        let socket = self.socket_mut(descriptor)?;
        let port = socket.local.ok_or(libc::EINVAL)?.port();
        let backlog = backlog.max(0) as usize;
        match &mut socket.role {
            Role::Listening { backlog: old, .. } => *old = backlog,
            Role::Fresh => socket.role = Role::Listening { backlog, waiting: VecDeque::new() },
            _ => return Err(libc::EINVAL),
        }
        if bits & fast_open::ALL_LISTENERS != 0 && bits & fast_open::SERVER != 0 {
            socket.choices.fast_open.get_or_insert(backlog as u32);
        }
        self.with(|stack, _| stack.listen(port));
        self.tell_listener(descriptor)
    }

    /// `accept`: a descriptor, and the other side's address.
    ///
    /// # Errors
    /// Those of descriptors, `EINVAL` of a socket that does not listen, `EAGAIN`, and `EMFILE`.
    pub fn accept(&mut self, descriptor: i32) -> Answer<(i32, Option<SocketAddr>)> {
        let socket = self.socket_mut(descriptor)?;
        let Role::Listening { waiting, .. } = &mut socket.role else { return Err(libc::EINVAL) };
        let number = *waiting.front().ok_or(libc::EAGAIN)?;
        // Without a descriptor for it the connection goes on waiting, as in Linux.
        let accepted = self.describe(Descriptor::Socket(number))?;
        if let Role::Listening { waiting, .. } = &mut self.socket_mut(descriptor)?.role {
            waiting.pop_front();
        }
        Ok((accepted, self.sockets.get(&number).and_then(|socket| socket.remote)))
    }

    /// The first part of `connect`: the SYN goes out.
    ///
    /// # Errors
    /// Those of descriptors; `EISCONN`, `EALREADY`, and those of the stack.
    pub fn connect_begin(&mut self, descriptor: i32, remote: Option<SocketAddr>) -> Answer {
        let number = self.number(descriptor)?;
        let socket = self.sockets.get_mut(&number).ok_or(libc::EBADF)?;
        let Some(remote) = remote else { return self.disconnect(number) };
        match socket.role {
            Role::Fresh if socket.put_off.is_some() => return Err(libc::EISCONN),
            Role::Fresh => {}
            Role::Open(_) if socket.was_open => return Err(libc::EISCONN),
            Role::Open(_) => return Err(libc::EALREADY),
            Role::Ended => return socket.check().and(Err(libc::ECONNABORTED)),
            Role::Listening { .. } => return Err(libc::EISCONN),
        }
        self.with(|_, _| ());
        let Some(socket) = self.sockets.get(&number) else { return Err(libc::EBADF) };
        if self.puts_off(socket, remote) {
            let socket = self.socket_mut(descriptor)?;
            socket.put_off = Some(remote);
            return Ok(0);
        }
        let is_fast = socket.choices.connects_fast && self.settings.fast_open() & fast_open::CLIENT != 0;
        if is_fast {
            return self.open(number, remote, Some(&[])).map(|_| 0);
        }
        self.open(number, remote, None).map(|_| 0)
    }

    /// Opens a connection, fast where there are bytes for its SYN: how many went with it.
    fn open(&mut self, number: Number, remote: SocketAddr, bytes: Option<&[u8]>) -> Answer {
        let choices = self.sockets.get(&number).ok_or(libc::EBADF)?.choices;
        let own: IpAddr = if remote.is_ipv6() { OWN_V6.into() } else { OWN_V4.into() };
        let pair = (remote.ip(), remote.port());
        let most = choices.max_segment.map_or(usize::MAX, |size| usize::from(size.saturating_sub(40)));
        let opened = self.with_silently(|stack, io| match bytes {
            Some(bytes) => stack.connect_fast(own, pair, &bytes[..bytes.len().min(most)], io),
            None => stack.connect(own, pair, io).map(|id| (id, 0)),
        });
        let (id, taken) = opened.map_err(of_refusal)?;
        self.attach(number, id);
        self.apply(id, &choices);
        let key = self.stack().and_then(|stack| stack.info(id)).map(|info| info.key);
        if let Some(socket) = self.sockets.get_mut(&number) {
            (socket.remote, socket.put_off) = (Some(remote), None);
            socket.zero_copy.count(taken);
            socket.stamps.count(taken);
            socket.local = key.map(|key| (key.local, key.local_port).into());
        }
        self.with(|_, _| ());
        Ok(taken)
    }

    /// `sendto` with `MSG_FASTOPEN`, and the first `write` behind a `connect` that was put off:
    /// how many bytes went with the SYN; `None` where the connection was begun before.
    ///
    /// # Errors
    /// Those of descriptors and of `connect`; `EOPNOTSUPP` where fast open is off.
    pub fn send_fast(
        &mut self,
        descriptor: i32,
        remote: Option<SocketAddr>,
        bytes: &[u8],
    ) -> Answer<Option<usize>> {
        let bits = self.settings.fast_open();
        let number = self.number(descriptor)?;
        let socket = self.sockets.get(&number).ok_or(libc::EBADF)?;
        match socket.role {
            Role::Fresh => {}
            Role::Open(_) if !socket.was_open => return Err(libc::EALREADY),
            _ => return Ok(None),
        }
        if bits & fast_open::CLIENT == 0 {
            return Err(libc::EOPNOTSUPP);
        }
        let remote = remote.or(socket.put_off).ok_or(libc::EOPNOTSUPP)?;
        self.open(number, remote, Some(bytes)).map(Some)
    }

    /// Whether `connect` is put off until there are data for the SYN: the application wants so,
    /// and the SYN may carry data.
    fn puts_off(&self, socket: &Socket, remote: SocketAddr) -> bool {
        let may = self.settings.fast_open() & fast_open::CLIENT != 0;
        let is_known = self.stack().is_some_and(|stack| stack.may_connect_fast(remote.ip(), self.now_ns));
        may && socket.choices.connects_fast && is_known
    }

    /// A socket is as new (`connect` with `AF_UNSPEC`).
    fn disconnect(&mut self, number: Number) -> Answer {
        let id = self.sockets.get(&number).and_then(Socket::connection);
        let Some(old) = self.detach(number) else { return Err(libc::EBADF) };
        if let Some(id) = id {
            self.with(|stack, io| stack.abort(id, io).ok());
        }
        self.sockets.insert(number, Socket::new(old.is_v6, old.choices));
        Ok(0)
    }

    /// The second part of `connect`: whether the connection is open.
    ///
    /// # Errors
    /// `EAGAIN` while it is not, and why it failed.
    pub fn connect_end(&mut self, descriptor: i32) -> Answer {
        let socket = self.socket_mut(descriptor)?;
        match socket.role {
            Role::Fresh if socket.put_off.is_some() => Ok(0),
            Role::Open(_) if socket.was_open => Ok(0),
            Role::Open(_) => Err(libc::EAGAIN),
            _ => socket.check().and(Err(libc::ECONNABORTED)),
        }
    }

    /// `read` and `recv`: up to `most` bytes.
    ///
    /// # Errors
    /// Those of descriptors, `EAGAIN`, `ENOTCONN`, and why the connection failed.
    pub fn read(&mut self, descriptor: i32, most: usize, is_peek: bool) -> Answer<Vec<u8>> {
        if self.pipe_end(descriptor).is_some() {
            return self.read_pipe(descriptor, most);
        }
        let socket = self.socket_mut(descriptor)?;
        if !is_peek && socket.pass_urgent() > 0 {
            let id = socket.connection();
            self.with(|stack, io| id.map(|id| stack.consume(id, 1, io)));
        }
        let socket = self.socket_mut(descriptor)?;
        if socket.received.is_empty() {
            if socket.is_peer_finished {
                return Ok(vec![]);
            }
            if !socket.is_read_shut {
                socket.check()?;
            }
            return match socket.role {
                _ if socket.is_read_shut => Ok(vec![]),
                Role::Fresh if socket.put_off.is_some() => Err(libc::EAGAIN),
                Role::Fresh | Role::Listening { .. } => Err(libc::ENOTCONN),
                Role::Open(_) => Err(libc::EAGAIN),
                Role::Ended => Ok(vec![]),
            };
        }
        let count = most.min(socket.readable());
        if is_peek {
            return Ok(socket.received.iter().take(count).copied().collect());
        }
        let bytes = socket.received.drain(..count).collect();
        socket.count_read(count);
        if let Some(id) = socket.connection() {
            self.with(|stack, io| stack.consume(id, count, io).ok());
        }
        Ok(bytes)
    }

    /// Bytes that reading would give, one more where the other side has ended.
    pub fn unread(&self, descriptor: i32) -> usize {
        let socket = self.number(descriptor).ok().and_then(|number| self.sockets.get(&number));
        socket.map_or(0, |socket| match socket.readable() {
            0 if socket.is_peer_finished => 1,
            len => len,
        })
    }

    /// `write` and `send`: how many bytes there was room for.
    ///
    /// # Errors
    /// Those of descriptors, `EAGAIN`, `EPIPE`, and why the connection failed.
    pub fn write(&mut self, descriptor: i32, bytes: &[u8], mark: Mark) -> Answer {
        if self.pipe_end(descriptor).is_some() {
            return self.write_pipe(descriptor, bytes);
        }
        let number = self.number(descriptor)?;
        let socket = self.sockets.get_mut(&number).ok_or(libc::EBADF)?;
        socket.check()?;
        let id = socket.connection().filter(|_| !socket.is_write_shut).ok_or(libc::EPIPE)?;
        if !socket.was_open {
            return Err(libc::EAGAIN);
        }
        let mut written = 0;
        while written < bytes.len() {
            let Some((room, is_new)) = self.next_part(number, id) else { break };
            let part = &bytes[written..][..room.min(bytes.len() - written)];
            let is_last = written + part.len() == bytes.len();
            self.count_written(number, part.len(), is_new);
            let is_pushed = match is_last {
                true => !mark.is_more_to_come,
                false => !self.has_room_behind(number, id, part.len()),
            };
            let mark = Mark {
                // Packets of Linux do not go on into the next part of its buffer.
                is_record_end: mark.is_record_end && is_last || part.len() == room,
                is_more_to_come: !self.is_pushed(number, is_pushed),
            };
            let taken = self.with(|stack, io| stack.write_marked(id, part, mark, io));
            let taken = taken.map_err(of_refusal)?;
            written += taken;
            if taken < part.len() {
                break;
            }
        }
        if written < bytes.len() {
            self.fill(number);
        }
        match written {
            0 if !bytes.is_empty() => Err(libc::EAGAIN),
            written => Ok(written),
        }
    }

    fn fill(&mut self, number: Number) {
        if let Some(socket) = self.sockets.get_mut(&number) {
            socket.is_full = true;
        }
    }

    /// `shutdown`.
    ///
    /// # Errors
    /// Those of descriptors; `ENOTCONN`, `EINVAL`.
    pub fn shut_down(&mut self, descriptor: i32, how: i32) -> Answer {
        let socket = self.socket_mut(descriptor)?;
        let id = socket.connection().ok_or(libc::ENOTCONN)?;
        let (reads, writes) = match how {
            libc::SHUT_RD => (true, false),
            libc::SHUT_WR => (false, true),
            libc::SHUT_RDWR => (true, true),
            _ => return Err(libc::EINVAL),
        };
        socket.is_read_shut |= reads;
        socket.in_events += u64::from(reads);
        if writes && !std::mem::replace(&mut socket.is_write_shut, true) {
            socket.out_events += 1;
            self.with(|stack, io| stack.finish(id, io).ok());
        }
        Ok(0)
    }

    /// `close`.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn close(&mut self, descriptor: i32) -> Answer {
        let (what, _) = self.descriptors.remove(&descriptor).ok_or(libc::EBADF)?;
        match what {
            Descriptor::Socket(number) => self.let_go(number),
            Descriptor::Pipe(end) => self.drop_pipe(end),
            Descriptor::Epoll(_) => {}
        }
        for (what, _) in self.descriptors.values_mut() {
            if let Descriptor::Epoll(interests) = what {
                interests.remove(&descriptor);
            }
        }
        Ok(0)
    }

    /// Nobody has a socket any more: its connection is closed, or reset where bytes came that
    /// nobody has read (RFC 1122, section 4.2.2.13), or the application chose so (`SO_LINGER`).
    fn let_go(&mut self, number: Number) {
        let Some(socket) = self.detach(number) else { return };
        match socket.role {
            Role::Listening { waiting, .. } => {
                let port = socket.local.map_or(0, |local| local.port());
                self.with(|stack, _| stack.unlisten(port));
                waiting.into_iter().for_each(|number| {
                    let id = self.detach(number).and_then(|socket| socket.connection());
                    self.with(|stack, io| id.map(|id| stack.abort(id, io)));
                });
            }
            Role::Open(id) if socket.received.is_empty() && socket.choices.linger_s != Some(0) => {
                self.with(|stack, io| stack.close(id, io).ok());
            }
            Role::Open(id) => {
                self.with(|stack, io| stack.abort(id, io).ok());
            }
            Role::Fresh | Role::Ended => {}
        }
    }

    /// Whether reading would give `wanted` bytes, or will never.
    ///
    /// # Errors
    /// Those of descriptors.
    pub fn has_enough(&mut self, descriptor: i32, wanted: usize) -> Answer<bool> {
        if self.pipe_end(descriptor).is_some() {
            return Ok(true);
        }
        let socket = self.socket_mut(descriptor)?;
        let is_open = matches!(socket.role, Role::Open(_)) && !socket.is_peer_finished;
        let is_marked = socket.before_mark().is_some_and(|before| before < socket.received.len());
        Ok(!is_open || is_marked || socket.is_read_shut || socket.readable() >= wanted)
    }
}
