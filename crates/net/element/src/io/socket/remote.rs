//! Sockets as [`Socket`](super::Socket) uses them: TCP, UDP, and UNIX's two kinds.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, Result};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, ipproto,
    sockopt,
};

/// What kind of socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocketKind {
    Tcp,
    Udp,
    Stream,
    Datagram,
}

impl SocketKind {
    pub(super) fn is_stream(self) -> bool {
        matches!(self, SocketKind::Tcp | SocketKind::Stream)
    }
}

/// How it is to be.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) nodelay: bool,
    pub(super) send_buffer: Option<u32>,
    pub(super) receive_buffer: Option<u32>,
}

/// The other end, or this one.
#[derive(Debug, Clone)]
pub(super) enum Remote {
    Ip(SocketAddrV4),
    File(String, SocketAddrUnix),
    /// One without a name.
    Nobody,
}

impl Remote {
    pub(super) fn ip(address: Ipv4Addr, port: u16) -> Remote {
        Remote::Ip(SocketAddrV4::new(address, port))
    }

    /// `None` when the name is too long.
    pub(super) fn file(name: &str) -> Option<Remote> {
        Some(Remote::File(name.to_string(), SocketAddrUnix::new(name).ok()?))
    }

    fn of(address: SocketAddrAny) -> Option<Remote> {
        match SocketAddr::try_from(address.clone()) {
            Ok(SocketAddr::V4(address)) => Some(Remote::Ip(address)),
            _ => {
                let address = SocketAddrUnix::try_from(address).ok()?;
                let path = address.path()?.to_string_lossy().into_owned();
                Some(Remote::File(path, address))
            }
        }
    }

    pub(super) fn address(&self) -> Option<Ipv4Addr> {
        if let Remote::Ip(address) = self { Some(*address.ip()) } else { None }
    }

    pub(super) fn path(&self) -> Option<&str> {
        if let Remote::File(path, _) = self { Some(path) } else { None }
    }

    /// The same port of another host. Whether it was one of none is kept elsewhere.
    pub(super) fn to(&self, host: Ipv4Addr) -> Remote {
        if let Remote::Ip(address) = self { Remote::ip(host, address.port()) } else { self.clone() }
    }

    pub(super) fn bind(&self, fd: &OwnedFd) -> Result<()> {
        match self {
            Remote::Ip(address) => rustix::net::bind(fd, address),
            Remote::File(_, address) => rustix::net::bind(fd, address),
            Remote::Nobody => Ok(()),
        }
    }

    pub(super) fn connect(&self, fd: &OwnedFd) -> Result<()> {
        match self {
            Remote::Ip(address) => rustix::net::connect(fd, address),
            Remote::File(_, address) => rustix::net::connect(fd, address),
            Remote::Nobody => Err(Errno::DESTADDRREQ),
        }
    }

    /// Sends bytes over a connection, or as a datagram to this one.
    pub(super) fn send(&self, fd: &OwnedFd, kind: SocketKind, bytes: &[u8]) -> Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match self {
            _ if kind.is_stream() => rustix::net::send(fd, bytes, flags),
            Remote::Ip(address) => rustix::net::sendto(fd, bytes, flags, address),
            Remote::File(_, address) => rustix::net::sendto(fd, bytes, flags, address),
            Remote::Nobody => Err(Errno::DESTADDRREQ),
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remote::Ip(address) => write!(f, "{}:{}", address.ip(), address.port()),
            Remote::File(name, _) => f.write_str(name),
            Remote::Nobody => Ok(()),
        }
    }
}

/// A socket; what was being done, if it cannot be had.
pub(super) fn socket(
    kind: SocketKind,
    options: &Options,
) -> std::result::Result<OwnedFd, (&'static str, Errno)> {
    let (family, typ, protocol) = match kind {
        SocketKind::Tcp => (AddressFamily::INET, SocketType::STREAM, Some(ipproto::TCP)),
        SocketKind::Udp => (AddressFamily::INET, SocketType::DGRAM, Some(ipproto::UDP)),
        SocketKind::Stream => (AddressFamily::UNIX, SocketType::STREAM, None),
        SocketKind::Datagram => (AddressFamily::UNIX, SocketType::DGRAM, None),
    };
    let fd = rustix::net::socket_with(family, typ, SocketFlags::CLOEXEC, protocol);
    let fd = fd.map_err(|error| ("socket", error))?;
    if kind == SocketKind::Tcp {
        sockopt::set_tcp_nodelay(&fd, options.nodelay).map_err(|e| ("setsockopt(TCP_NODELAY)", e))?;
        // So that a server can be started again at once.
        sockopt::set_socket_reuseaddr(&fd, true).map_err(|e| ("setsockopt(SO_REUSEADDR)", e))?;
    }
    if let Some(bytes) = options.send_buffer {
        let set = sockopt::set_socket_send_buffer_size(&fd, bytes as usize);
        set.map_err(|error| ("setsockopt(SO_SNDBUF)", error))?;
    }
    if let Some(bytes) = options.receive_buffer {
        let set = sockopt::set_socket_recv_buffer_size(&fd, bytes as usize);
        set.map_err(|error| ("setsockopt(SO_RCVBUF)", error))?;
    }
    Ok(fd)
}

/// Nothing waits for it from now on.
pub(super) fn unblock(fd: &OwnedFd) -> Result<()> {
    fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)
}

/// A connection that came in, and from whom.
pub(super) fn accept(listener: &OwnedFd) -> Result<(OwnedFd, Option<Remote>)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (fd, from) = rustix::net::acceptfrom_with(listener, flags)?;
    Ok((fd, from.and_then(Remote::of)))
}

/// Receives into `bytes`: how much there was, and of a datagram from whom.
pub(super) fn receive(fd: &OwnedFd, kind: SocketKind, bytes: &mut [u8]) -> Result<(usize, Option<Remote>)> {
    if kind.is_stream() {
        let (_, length) = rustix::net::recv(fd, bytes, RecvFlags::DONTWAIT)?;
        return Ok((length, None));
    }
    let (_, length, from) = rustix::net::recvfrom(fd, bytes, RecvFlags::TRUNC | RecvFlags::DONTWAIT)?;
    Ok((length, from.and_then(Remote::of)))
}

/// Waits until something can be sent.
pub(super) fn wait_for_room(fd: &OwnedFd, most_ns: i64) {
    let timeout = Timespec { tv_sec: 0, tv_nsec: most_ns };
    let _ = poll(&mut [PollFd::new(fd, PollFlags::OUT)], Some(&timeout)); // it is tried anyway
}
