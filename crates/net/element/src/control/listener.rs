//! Where clients come in: a TCP port or a UNIX socket, tried again for a while when
//! it is taken, and handed from one router to the next.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use graph::class::SystemUse;
use graph::{Cx, Setup, TimerId};
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, getsockname, listen, socket_with, sockopt,
};

use super::clients::Clients;
use super::script::cause;
use super::socket_file::{SocketFile, remove_deserted};

/// What elements that listen ask of the system.
pub(super) const USES: &[SystemUse] = &[SystemUse::Clients, SystemUse::Listening];

const SECOND_NS: i64 = 1_000_000_000;
/// How far beyond a port another one is looked for.
const NEAR: u16 = 10;
/// Connections that wait to be let in.
const BACKLOG: i32 = 16;

/// Where a socket listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListenAddress {
    /// A TCP port.
    Port {
        /// Of this address.
        address: IpAddr,
        /// 0 for any.
        port: u16,
        /// If it is taken, one of the next ten will do.
        near: bool,
    },
    /// A UNIX socket.
    File(String),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Port { address, port, .. } => SocketAddr::new(*address, *port).fmt(f),
            ListenAddress::File(path) => f.write_str(path),
        }
    }
}

/// A socket that listens, or will.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) place: ListenAddress,
    /// Any port would have done.
    any: bool,
    /// So would one of some, from this one on.
    near: Option<u16>,
    retries: i32,
    warns: bool,
    retry: Option<TimerId>,
    /// The file, when it listens at one.
    file: Option<SocketFile>,
}

impl Listener {
    /// One at a place; when that is taken, it is tried again `retries` times, each
    /// second, and with `warns` said so each time.
    pub(super) fn new(place: ListenAddress, retries: i32, warns: bool) -> Listener {
        let any = matches!(place, ListenAddress::Port { port: 0, .. });
        let near = match &place {
            ListenAddress::Port { port, near: true, .. } => Some(*port),
            _ => None,
        };
        Listener { place, any, near, retries, warns, retry: None, file: None }
    }

    /// Says what it will ask of the system: where it may have to be opened later, that is
    /// more than letting clients in.
    pub(super) fn say_needs(&self, setup: &mut Setup<'_>) {
        let uses = if self.retries > 0 { USES } else { &[SystemUse::Clients] };
        for what in uses {
            match &self.place {
                ListenAddress::File(path) => setup.will_open(*what, path),
                ListenAddress::Port { .. } => setup.will_need(*what),
            }
        }
    }

    /// Whether it is a TCP port.
    pub(super) fn is_port(&self) -> bool {
        matches!(self.place, ListenAddress::Port { .. })
    }

    /// Whether only this machine reaches it, by TCP.
    pub(super) fn is_loopback(&self) -> bool {
        matches!(self.place, ListenAddress::Port { address, .. } if address.is_loopback())
    }

    /// The port, or the file.
    pub(super) fn shown(&self) -> String {
        match &self.place {
            ListenAddress::Port { port, .. } => port.to_string(),
            ListenAddress::File(path) => path.clone(),
        }
    }

    /// Opens it, or tries again in a second if it may.
    pub(super) fn open(&mut self, cx: &mut Cx<'_>, clients: &mut Clients) -> Result<(), String> {
        let error = match self.listen() {
            Ok(listener) => {
                clients.open(cx, Arc::new(listener));
                return Ok(());
            }
            Err(error) => error,
        };
        if self.retries <= 0 {
            return Err(format!("bind: {}: {}", cause(&error), self.place));
        }
        if self.warns {
            let tries = if self.retries == 1 { "try" } else { "tries" };
            let error = cause(&error);
            cx.say(&format!("{}: warning: bind: {error} ({} {tries} left)\n", cx.name(), self.retries));
        }
        self.retries -= 1;
        let timer = *self.retry.get_or_insert_with(|| cx.new_timer());
        cx.set_timer_after(timer, SECOND_NS);
        Ok(())
    }

    fn listen(&mut self) -> std::io::Result<OwnedFd> {
        match &mut self.place {
            ListenAddress::File(path) => {
                let listener = listen_unix(path)?;
                self.file = SocketFile::bound(path);
                Ok(listener)
            }
            ListenAddress::Port { address, port, near } => {
                let (listener, real) = listen_tcp(*address, *port, *near)?;
                (*port, *near) = (real, false);
                Ok(listener)
            }
        }
    }

    /// The time has come to try again; when it is of no use any more, the router stops.
    pub(super) fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId, clients: &mut Clients) {
        if self.retry != Some(timer) || clients.is_open() {
            return;
        }
        if let Err(message) = self.open(cx, clients) {
            cx.say(&format!("{}: {message}\n", cx.name()));
            cx.stop();
        }
    }

    /// Takes over the listener of an element that was at the same place.
    pub(super) fn take_over(
        &mut self,
        cx: &mut Cx<'_>,
        clients: &mut Clients,
        (old, their_clients): (&mut Listener, &mut Clients),
    ) {
        let same = self.place == old.place || self.near(&old.place) || (self.any && old.any);
        if (self.any || self.near.is_some()) && same {
            clients.shut(cx); // the port clients know is the better one
        }
        if !clients.is_open() && same && clients.take_over(cx, their_clients) {
            self.place = old.place.clone();
            self.file = old.file.take();
        }
    }

    /// Whether another one's place is one of those that would do.
    fn near(&self, other: &ListenAddress) -> bool {
        let (ListenAddress::Port { address, .. }, ListenAddress::Port { address: theirs, port, .. }) =
            (&self.place, other)
        else {
            return false;
        };
        address == theirs && self.near.is_some_and(|near| (near..=near.saturating_add(NEAR)).contains(port))
    }

    /// The router ends: those who still listen are told what there is to tell.
    pub(super) fn close(&mut self, cx: &Cx<'_>, clients: &mut Clients) {
        if let Some(file) = self.file.take() {
            file.remove();
        }
        clients.close(cx.now_ns());
    }
}

/// Listens at a port of an address; the port it became.
fn listen_tcp(address: IpAddr, port: u16, near: bool) -> std::io::Result<(OwnedFd, u16)> {
    let last = if near { port.saturating_add(NEAR) } else { port };
    let mut result = Err(std::io::Error::from(std::io::ErrorKind::AddrInUse));
    for port in port..=last {
        result = listen_at(SocketAddr::new(address, port));
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Listens at an address; the port it became.
fn listen_at(address: SocketAddr) -> std::io::Result<(OwnedFd, u16)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let listener = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&listener, true)?; // a router that is started again at once
    bind(&listener, &address)?;
    listen(&listener, BACKLOG)?;
    let own: SocketAddr = getsockname(&listener)?.try_into()?;
    Ok((listener, own.port()))
}

/// Listens at a file, which only its owner may use from the first moment on: the mode
/// of a socket becomes that of its file (`unix(7)`, Linux). A file that a router of this
/// user's left which ended without a word is taken away.
fn listen_unix(path: &str) -> std::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&listener, Mode::RUSR | Mode::WUSR)?;
    let address = SocketAddrUnix::new(path)?;
    match bind(&listener, &address) {
        Err(Errno::ADDRINUSE) if remove_deserted(path) => bind(&listener, &address)?,
        result => result?,
    }
    listen(&listener, BACKLOG)?;
    Ok(listener)
}
