//! The table of functions that packetdrill calls (`struct packetdrill_interface` in its
//! `packetdrill.h`), in C's types. All pointers come from packetdrill, which keeps what it
//! promises of a system call: a buffer is as long as it says, or null.

use std::ffi::{c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use std::slice;
use std::sync::OnceLock;

use libc::{iovec, msghdr, pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval};

use crate::blocking::Clocked;
use crate::errors::Answer;
use crate::host::Host;
use crate::raw::{address_at, answer, limit_ns, none_in_time, tell_address, tell_control, vector};
use crate::transfer::{attempt, read_into, read_limit, write_counted, write_limit};

/// The one host of the program.
static HOST: OnceLock<Clocked> = OnceLock::new();

/// Bytes of a packet, whose headers are counted.
const MTU: u16 = 1500;

/// The program's host, once packetdrill has asked for it.
pub fn host() -> Option<&'static Clocked> {
    HOST.get()
}

type User = *mut c_void;

/// The table, in the order of packetdrill's header.
#[repr(C)]
pub struct Interface {
    userdata: User,
    free: extern "C" fn(User),
    socket: extern "C" fn(User, c_int, c_int, c_int) -> c_int,
    bind: unsafe extern "C" fn(User, c_int, *const sockaddr, socklen_t) -> c_int,
    listen: extern "C" fn(User, c_int, c_int) -> c_int,
    accept: unsafe extern "C" fn(User, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    connect: unsafe extern "C" fn(User, c_int, *const sockaddr, socklen_t) -> c_int,
    read: unsafe extern "C" fn(User, c_int, *mut c_void, size_t) -> ssize_t,
    readv: unsafe extern "C" fn(User, c_int, *const iovec, c_int) -> ssize_t,
    recv: unsafe extern "C" fn(User, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    recvfrom: unsafe extern "C" fn(
        User,
        c_int,
        *mut c_void,
        size_t,
        c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> ssize_t,
    recvmsg: unsafe extern "C" fn(User, c_int, *mut msghdr, c_int) -> ssize_t,
    write: unsafe extern "C" fn(User, c_int, *const c_void, size_t) -> ssize_t,
    writev: unsafe extern "C" fn(User, c_int, *const iovec, c_int) -> ssize_t,
    send: unsafe extern "C" fn(User, c_int, *const c_void, size_t, c_int) -> ssize_t,
    sendto: unsafe extern "C" fn(
        User,
        c_int,
        *const c_void,
        size_t,
        c_int,
        *const sockaddr,
        socklen_t,
    ) -> ssize_t,
    sendmsg: unsafe extern "C" fn(User, c_int, *const msghdr, c_int) -> ssize_t,
    fcntl: extern "C" fn(User, c_int, c_int, c_long) -> c_int,
    ioctl: unsafe extern "C" fn(User, c_int, c_ulong, User) -> c_int,
    close: extern "C" fn(User, c_int) -> c_int,
    shutdown: extern "C" fn(User, c_int, c_int) -> c_int,
    getsockopt: unsafe extern "C" fn(User, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    setsockopt: unsafe extern "C" fn(User, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    poll: unsafe extern "C" fn(User, *mut pollfd, c_ulong, c_int) -> c_int,
    netdev_send: unsafe extern "C" fn(User, *const c_void, size_t) -> c_int,
    netdev_receive: unsafe extern "C" fn(User, *mut c_void, *mut size_t, *mut c_longlong) -> c_int,
    usleep: extern "C" fn(User, c_uint) -> c_int,
    gettimeofday: unsafe extern "C" fn(User, *mut timeval, User) -> c_int,
    epoll_create: extern "C" fn(User, c_int) -> c_int,
    epoll_ctl: unsafe extern "C" fn(User, c_int, c_int, c_int, *mut libc::epoll_event) -> c_int,
    epoll_wait: unsafe extern "C" fn(User, c_int, *mut libc::epoll_event, c_int, c_int) -> c_int,
    pipe: unsafe extern "C" fn(User, *mut c_int) -> c_int,
    splice: extern "C" fn(User, c_int, User, c_int, User, size_t, c_uint) -> ssize_t,
}

/// Fills in packetdrill's table. `flags` are those of `--so_flags`, of which there are none.
///
/// # Safety
/// `interface` points to a `struct packetdrill_interface`, or memory as large.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(_flags: *const c_char, interface: *mut Interface) {
    match Host::new(MTU) {
        Ok(host) => drop(HOST.set(Clocked::new(host))),
        Err(error) => {
            eprintln!("ixora: {error}");
            std::process::exit(1);
        }
    }
    let table = Interface {
        userdata: std::ptr::null_mut(),
        free,
        socket,
        bind,
        listen,
        accept,
        connect,
        read,
        readv,
        recv,
        recvfrom,
        recvmsg,
        write,
        writev,
        send,
        sendto,
        sendmsg,
        fcntl,
        ioctl,
        close,
        shutdown,
        getsockopt,
        setsockopt,
        poll,
        netdev_send,
        netdev_receive,
        usleep,
        gettimeofday,
        epoll_create,
        epoll_ctl,
        epoll_wait,
        pipe,
        splice,
    };
    // SAFETY: the caller has such a table there.
    unsafe { interface.write(table) };
}

fn call<T: TryInto<i64>>(what: impl FnOnce(&mut Host) -> Answer<T>) -> i64 {
    answer(match host() {
        Some(host) => host.call(what),
        None => Err(libc::ENOSYS),
    })
}

extern "C" fn free(_: User) {
    if let Some(host) = host() {
        // packetdrill has closed the descriptors that are left.
        host.call(|host| host.descriptors.drain().for_each(|(_, (_, file))| std::mem::forget(file)));
    }
}

extern "C" fn socket(_: User, domain: c_int, kind: c_int, _protocol: c_int) -> c_int {
    call(|host| host.create(domain == libc::AF_INET6, kind)) as c_int
}

unsafe extern "C" fn bind(_: User, fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: packetdrill's address has so many bytes.
    let address = unsafe { address_at(at, len) };
    call(|host| host.bind(fd, address.ok_or(libc::EINVAL)?)) as c_int
}

extern "C" fn listen(_: User, fd: c_int, backlog: c_int) -> c_int {
    call(|host| host.listen(fd, backlog)) as c_int
}

unsafe extern "C" fn accept(_: User, fd: c_int, at: *mut sockaddr, len: *mut socklen_t) -> c_int {
    let accepted = attempt(fd, 0, read_limit, |host| host.accept(fd));
    if let Ok((_, remote)) = accepted {
        // SAFETY: packetdrill has room for as many bytes as it says.
        unsafe { tell_address(remote, at, len) };
    }
    answer(accepted.map(|(descriptor, _)| descriptor)) as c_int
}

unsafe extern "C" fn connect(_: User, fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: packetdrill's address has so many bytes.
    let remote = unsafe { address_at(at, len) };
    let begun = host().ok_or(libc::ENOSYS).and_then(|host| host.call(|host| host.connect_begin(fd, remote)));
    if begun.is_err() || remote.is_none() {
        return answer(begun) as c_int;
    }
    let ended = attempt(fd, 0, write_limit, |host| host.connect_end(fd));
    answer(ended.map_err(|error| if error == libc::EAGAIN { libc::EINPROGRESS } else { error })) as c_int
}

unsafe extern "C" fn read(user: User, fd: c_int, at: *mut c_void, len: size_t) -> ssize_t {
    // SAFETY: as this function's caller promises.
    unsafe { recv(user, fd, at, len, 0) }
}

unsafe extern "C" fn recv(_: User, fd: c_int, at: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: packetdrill's buffer has so many bytes, or is null.
    answer(unsafe { read_into(fd, &[iovec { iov_base: at, iov_len: len }], flags) }) as ssize_t
}

unsafe extern "C" fn readv(_: User, fd: c_int, at: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: packetdrill's vector has so many buffers, each of its length.
    answer(unsafe { read_into(fd, vector(at, count.max(0) as usize), 0) }) as ssize_t
}

unsafe extern "C" fn recvfrom(
    user: User,
    fd: c_int,
    at: *mut c_void,
    len: size_t,
    flags: c_int,
    _from: *mut sockaddr,
    _from_len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: as this function's caller promises. Streams tell no address.
    unsafe { recv(user, fd, at, len, flags) }
}

unsafe extern "C" fn recvmsg(_: User, fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: packetdrill's message is one, whose vector has so many buffers.
    let message = unsafe { &mut *message };
    if flags & libc::MSG_ERRQUEUE != 0 {
        let notice = host().and_then(|host| host.call(|host| host.take_notice(fd)));
        let Some((told, flags)) = notice else { return answer::<i32>(Err(libc::EAGAIN)) as ssize_t };
        // SAFETY: packetdrill's message has as much room for control as it says.
        unsafe { tell_control(message, &told) };
        message.msg_flags = flags;
        return 0;
    }
    // SAFETY: as above.
    let got = unsafe { read_into(fd, vector(message.msg_iov, message.msg_iovlen), flags) };
    message.msg_flags = 0;
    let unread = host().and_then(|host| {
        host.call(|host| {
            let tells = host.socket_mut(fd).is_ok_and(|socket| socket.choices.tells_unread);
            tells.then(|| host.unread(fd) as c_int)
        })
    });
    let unread = unread.filter(|_| got.is_ok()).map(|unread| unread.to_ne_bytes().to_vec());
    let told = unread.map(|unread| (libc::IPPROTO_TCP, crate::options::TCP_INQ, unread));
    // SAFETY: as above.
    unsafe { tell_control(message, told.as_slice()) };
    answer(got) as ssize_t
}

unsafe extern "C" fn write(user: User, fd: c_int, at: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: as this function's caller promises.
    unsafe { send(user, fd, at, len, 0) }
}

unsafe extern "C" fn writev(_: User, fd: c_int, at: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: packetdrill's vector has so many buffers, each of its length.
    answer(unsafe { write_counted(fd, vector(at, count.max(0) as usize), 0, None) }) as ssize_t
}

unsafe extern "C" fn send(_: User, fd: c_int, at: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    let buffer = iovec { iov_base: at.cast_mut(), iov_len: len };
    // SAFETY: packetdrill's buffer has so many bytes, or is null.
    answer(unsafe { write_counted(fd, &[buffer], flags, None) }) as ssize_t
}

unsafe extern "C" fn sendto(
    _: User,
    fd: c_int,
    at: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    let buffer = iovec { iov_base: at.cast_mut(), iov_len: len };
    // SAFETY: packetdrill's buffer and address have so many bytes, or are null.
    answer(unsafe { write_counted(fd, &[buffer], flags, address_at(to, to_len)) }) as ssize_t
}

unsafe extern "C" fn sendmsg(_: User, fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: packetdrill's message is one, whose vector has so many buffers.
    let message = unsafe { &*message };
    // SAFETY: as above.
    let to = unsafe { address_at(message.msg_name.cast(), message.msg_namelen) };
    // SAFETY: as above.
    answer(unsafe { write_counted(fd, vector(message.msg_iov, message.msg_iovlen), flags, to) }) as ssize_t
}

/// The third argument is read where the command has one: on the machines of Linux a variable
/// argument of the size of a register stands where a fixed one would.
extern "C" fn fcntl(_: User, fd: c_int, command: c_int, argument: c_long) -> c_int {
    call(|host| host.control(fd, command, argument)) as c_int
}

unsafe extern "C" fn ioctl(_: User, fd: c_int, request: c_ulong, argument: User) -> c_int {
    let count = call(|host| host.request(fd, request));
    if count >= 0 && !argument.is_null() {
        // SAFETY: each such request has a place for a number behind the pointer.
        unsafe { argument.cast::<c_int>().write_unaligned(count as c_int) };
    }
    count.min(0) as c_int
}

extern "C" fn close(_: User, fd: c_int) -> c_int {
    match host().is_some_and(|host| host.call(|host| host.descriptors.contains_key(&fd))) {
        true => call(|host| host.close(fd)) as c_int,
        // SAFETY: a file that the script opened by itself, which nothing else has, or no file.
        false => unsafe { libc::close(fd) },
    }
}

extern "C" fn shutdown(_: User, fd: c_int, how: c_int) -> c_int {
    call(|host| host.shut_down(fd, how)) as c_int
}

/// `getsockopt` of a socket of the host.
///
/// # Safety
/// `len` can be read and written, and so many bytes be written at `at`.
pub unsafe extern "C" fn getsockopt(
    _: User,
    fd: c_int,
    level: c_int,
    name: c_int,
    at: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if at.is_null() || len.is_null() {
        return answer::<i32>(Err(libc::EFAULT)) as c_int;
    }
    // SAFETY: the length can be read.
    let Ok(room) = usize::try_from(unsafe { len.read() }.cast_signed()) else {
        return answer::<i32>(Err(libc::EINVAL)) as c_int; // a negative one in C
    };
    let value = host().ok_or(libc::ENOSYS).and_then(|host| host.call(|host| host.option(fd, level, name)));
    answer(value.map(|mut value| {
        if (level, name) == (libc::IPPROTO_TCP, libc::TCP_INFO) {
            // packetdrill knows more of it than is told: what is behind is zero.
            value.resize(room.clamp(value.len(), crate::tcp_info::MOST), 0);
        }
        let count = room.min(value.len());
        // SAFETY: the caller has room for as many bytes as it says, and the length's place.
        unsafe {
            slice::from_raw_parts_mut(at.cast::<u8>(), count).copy_from_slice(&value[..count]);
            len.write(count as socklen_t);
        }
        0
    })) as c_int
}

unsafe extern "C" fn setsockopt(
    _: User,
    fd: c_int,
    level: c_int,
    name: c_int,
    at: *const c_void,
    len: socklen_t,
) -> c_int {
    let value = match at.is_null() {
        true => &[],
        // SAFETY: packetdrill's value has so many bytes.
        false => unsafe { slice::from_raw_parts(at.cast::<u8>(), len as usize) },
    };
    call(|host| host.set_option(fd, level, name, value)) as c_int
}

unsafe extern "C" fn poll(_: User, at: *mut pollfd, count: c_ulong, timeout_ms: c_int) -> c_int {
    let wanted = match at.is_null() {
        true => &mut [][..],
        // SAFETY: packetdrill has so many of them there.
        false => unsafe { slice::from_raw_parts_mut(at, count as usize) },
    };
    let Some(host) = host() else { return answer::<i32>(Err(libc::ENOSYS)) as c_int };
    let found = host.attempt(
        |_| timeout_ms != 0,
        limit_ns(timeout_ms),
        |host| {
            for one in wanted.iter_mut() {
                one.revents = host.poll_one(one.fd, one.events);
            }
            match wanted.iter().filter(|one| one.revents != 0).count() {
                0 => Err(libc::EAGAIN),
                count => Ok(count),
            }
        },
    );
    answer(found.or_else(none_in_time)) as c_int
}

unsafe extern "C" fn netdev_send(_: User, at: *const c_void, len: size_t) -> c_int {
    // SAFETY: packetdrill's packet has so many bytes.
    let bytes = unsafe { slice::from_raw_parts(at.cast::<u8>(), len) };
    if let Some(host) = host() {
        host.receive_packet(bytes);
    }
    0
}

unsafe extern "C" fn netdev_receive(
    _: User,
    at: *mut c_void,
    len: *mut size_t,
    time_us: *mut c_longlong,
) -> c_int {
    // Without a packet packetdrill is given one of no bytes, which ends the script as an error.
    let (sent_us, bytes) = host().and_then(Clocked::receive).unwrap_or_default();
    if bytes.is_empty() {
        eprintln!("ixora: nothing was sent, and nothing will be");
    }
    // SAFETY: packetdrill has room for as many bytes as it says, and places for both numbers.
    unsafe {
        let count = bytes.len().min(len.read());
        slice::from_raw_parts_mut(at.cast::<u8>(), count).copy_from_slice(&bytes[..count]);
        len.write(count);
        time_us.write(sent_us);
    }
    0
}

extern "C" fn usleep(_: User, us: c_uint) -> c_int {
    if let Some(host) = host() {
        host.sleep(us.into());
    }
    0
}

unsafe extern "C" fn gettimeofday(_: User, at: *mut timeval, _zone: User) -> c_int {
    let us = host().map_or(0, Clocked::look_us);
    // SAFETY: packetdrill has a place for the time.
    unsafe { at.write(timeval { tv_sec: us / 1_000_000, tv_usec: us % 1_000_000 }) };
    0
}

extern "C" fn epoll_create(_: User, _size: c_int) -> c_int {
    call(Host::create_epoll) as c_int
}

unsafe extern "C" fn epoll_ctl(
    _: User,
    instance: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut libc::epoll_event,
) -> c_int {
    let none = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: packetdrill has an event there, if anything.
    let event = if event.is_null() { none } else { unsafe { event.read_unaligned() } };
    let (events, data) = (event.events, event.u64);
    call(|host| host.epoll_control(instance, operation, fd, events, data)) as c_int
}

unsafe extern "C" fn epoll_wait(
    _: User,
    instance: c_int,
    at: *mut libc::epoll_event,
    most: c_int,
    timeout_ms: c_int,
) -> c_int {
    let Some(host) = host() else { return answer::<i32>(Err(libc::ENOSYS)) as c_int };
    let found = host.attempt(
        |_| timeout_ms != 0,
        limit_ns(timeout_ms),
        |host| match host.epoll_look(instance, most.max(0) as usize)? {
            found if found.is_empty() => Err(libc::EAGAIN),
            found => Ok(found),
        },
    );
    let found = match found {
        Ok(found) => found,
        Err(error) => return answer(none_in_time(error)) as c_int,
    };
    for (n, (events, data)) in found.iter().enumerate() {
        // SAFETY: packetdrill has room for `most` of them, which are no fewer.
        unsafe { at.add(n).write_unaligned(libc::epoll_event { events: *events, u64: *data }) };
    }
    found.len() as c_int
}

unsafe extern "C" fn pipe(_: User, ends: *mut c_int) -> c_int {
    let made = host().ok_or(libc::ENOSYS).and_then(|host| host.call(Host::create_pipe));
    answer(made.map(|(outlet, inlet)| {
        // SAFETY: packetdrill has places for two descriptors.
        unsafe {
            ends.write(outlet);
            ends.add(1).write(inlet);
        }
        0
    })) as c_int
}

extern "C" fn splice(
    _: User,
    from: c_int,
    _from_at: User,
    to: c_int,
    _to_at: User,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    let flags = if flags & libc::SPLICE_F_NONBLOCK != 0 { libc::MSG_DONTWAIT } else { 0 };
    answer(attempt(from, flags, read_limit, |host| host.splice(from, to, len))) as ssize_t
}

#[cfg(test)]
mod tests;
