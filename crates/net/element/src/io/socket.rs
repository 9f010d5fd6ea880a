//! `Socket`: packets over TCP, UDP and UNIX sockets, to and from other programs.

mod remote;

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use graph::chain::Bytes;
use graph::class::{NOT_TAKEN_OVER, SystemUse, keyword, mandatory, positional};
use graph::well_known::LOOKUP;
use graph::{Class, Conf, ConfFault, Cx, Element, Next, Ran, Setup, Signals, TaskId, Until, WatchId};
use memory::{Batch, DATA_ROOM, Packet};
use rustix::io::Errno;

use crate::control::{SocketFile, cause};
use graph::annotation::{EXTRA_LENGTH, PacketAnnotations};
use port::Reason;
use remote::{Remote, SocketKind};

/// Packets read before others have a turn.
const BURST: usize = 32;
/// How long a pushed packet waits for room before it is looked whether the router ends.
const TIME_LIMIT_NS: i64 = 50_000_000;

pub static CLASS: Class = Class {
    name: "Socket",
    brief: "sends packets to another program, and makes packets of what it sends",
    doc: "The bytes of packets that come in are sent over a socket; what is received leaves at the output: a \
          packet for each datagram, or for each piece of a stream. Without CLIENT it is a server if it has an \
          output: it takes one connection at a time, or answers whoever sent the last datagram. A UDP client \
          with address 0.0.0.0 sends to the packets' destination annotation. Pushed packets wait for room in \
          the socket; better, pull from a Queue.",
    ports: "0-1/0-1",
    processing: "a/h",
    flow: "x/y",
    arguments: &[
        mandatory("TYPE", "`TCP`, `UDP`, `UNIX` or `UNIX_DGRAM`"),
        mandatory("ADDR", "TCP, UDP: the address to connect to, or to listen at"),
        mandatory("PORT", "TCP, UDP: the port"),
        positional("LOCAL_ADDR", "TCP, UDP: a client's own address"),
        positional("LOCAL_PORT", "TCP, UDP: a client's own port"),
        mandatory("FILENAME", "UNIX: the file to connect to, or to listen at"),
        positional("LOCAL_FILENAME", "UNIX: a client's own file"),
        keyword("CLIENT", "it connects; true without an output"),
        keyword("SNAPLEN", "bytes of a packet at most; 2048"),
        keyword("HEADROOM", "accepted; packets have 192 bytes of it"),
        keyword("TIMESTAMP", "packets carry the time; true"),
        keyword("NODELAY", "TCP: small packets are sent at once; true"),
        keyword("SNDBUF", "bytes of the socket's send buffer"),
        keyword("RCVBUF", "bytes of the socket's receive buffer"),
        keyword("ALLOW", "a routing table: a server's clients that have a route are let in"),
        keyword("DENY", "a routing table: others that have a route are not"),
        keyword("VERBOSE", "says when connections come and go; false"),
        keyword("PROPER", "accepted, of no meaning here"),
    ],
    drops: &[Reason::NotConnected, Reason::NotSent, Reason::NoBuffers, Reason::NotAllowed, NOT_TAKEN_OVER],
    example: "Socket(UDP, 0.0.0.0, 7777) -> Print -> Discard",
    see: &["RawSocket", "KernelTun", "FromDevice"],
    system: &[SystemUse::Clients, SystemUse::Datagrams],
    make: |setup, conf| Ok(Box::new(make(setup, conf)?)),
    ..Class::BASE
};

/// A socket that only receives, as configurations of old have it.
pub static FROM: Class = Class {
    name: "FromSocket",
    brief: "makes packets of what another program sends",
    doc: "A Socket without an input, for configurations of old; its arguments are Socket's.",
    processing: "h/h",
    example: "FromSocket(UDP, 0.0.0.0, 7777) -> Print -> Discard",
    see: &["Socket", "ToSocket"],
    make: |setup, conf| make_old(setup, conf, "FromSocket"),
    ..CLASS
};

/// Likewise one that only sends.
pub static TO: Class = Class {
    name: "ToSocket",
    brief: "sends packets to another program",
    doc: "A Socket without an output, for configurations of old; its arguments are Socket's.",
    processing: "l/l",
    example: "FromDevice(p) -> Queue -> ToSocket(UDP, 10.0.0.1, 7777)",
    see: &["Socket", "FromSocket"],
    make: |setup, conf| make_old(setup, conf, "ToSocket"),
    ..CLASS
};

fn make_old(setup: &mut Setup<'_>, conf: &mut Conf<'_>, name: &str) -> Result<Box<dyn Element>, ConfFault> {
    setup.warn(format!("{name} is deprecated, use Socket instead"));
    Ok(Box::new(make(setup, conf)?))
}

fn make(setup: &mut Setup<'_>, conf: &mut Conf<'_>) -> Result<Socket, ConfFault> {
    let word: String = conf.mandatory("TYPE")?;
    let client = conf.keyword("CLIENT")?.unwrap_or(setup.outputs == 0);
    let snap = conf.keyword::<usize>("SNAPLEN")?.unwrap_or(2048);
    let _headroom: Option<usize> = conf.keyword("HEADROOM")?;
    let _proper: Option<bool> = conf.keyword("PROPER")?;
    let options = remote::Options {
        nodelay: conf.keyword("NODELAY")?.unwrap_or(true),
        send_buffer: conf.keyword("SNDBUF")?,
        receive_buffer: conf.keyword("RCVBUF")?,
    };
    let stamp = conf.keyword("TIMESTAMP")?.unwrap_or(true);
    let (allow, deny) = (conf.keyword("ALLOW")?, conf.keyword("DENY")?);
    let verbose = conf.keyword("VERBOSE")?.unwrap_or(false);
    let (kind, remote, local) = ends(conf, &word.to_ascii_uppercase())?;
    conf.complete()?;
    let what = if kind == SocketKind::Datagram { SystemUse::Datagrams } else { SystemUse::Clients };
    let own = if client { local.as_ref() } else { Some(&remote) };
    match own.and_then(Remote::path) {
        Some(path) => setup.will_open(what, path),
        None => setup.will_need(what),
    }
    Ok(Socket {
        kind,
        client,
        file: None,
        remote,
        local,
        options,
        snap: snap.min(DATA_ROOM),
        stamp,
        allow,
        deny,
        verbose,
        listener: None,
        active: None,
        waiting: None,
        task: None,
        upstream: Signals::default(),
    })
}

/// What kind of socket is meant by a type, the address that is mandatory, and the local one.
fn ends(conf: &mut Conf<'_>, word: &str) -> Result<(SocketKind, Remote, Option<Remote>), ConfFault> {
    match word {
        "TCP" | "UDP" => {
            let (kind, ports) =
                if word == "TCP" { (SocketKind::Tcp, "tcp port") } else { (SocketKind::Udp, "udp port") };
            let address: Ipv4Addr = conf.mandatory("ADDR")?;
            let port = port(conf, ports, true)?.unwrap_or(0);
            let own: Option<Ipv4Addr> = conf.positional("LOCAL_ADDR")?;
            let own_port = self::port(conf, ports, false)?.unwrap_or(0);
            let local = (own_port != 0).then(|| Remote::ip(own.unwrap_or(Ipv4Addr::UNSPECIFIED), own_port));
            Ok((kind, Remote::ip(address, port), local))
        }
        "UNIX" | "UNIX_DGRAM" => {
            let kind = if word == "UNIX" { SocketKind::Stream } else { SocketKind::Datagram };
            let file: String = conf.mandatory("FILENAME")?;
            let own: Option<String> = conf.positional("LOCAL_FILENAME")?;
            let remote = Remote::file(&file).ok_or_else(|| format!("remote filename '{file}' too long"))?;
            let local = own.map(|own| Remote::file(&own).ok_or(format!("local filename '{own}' too long")));
            Ok((kind, remote, local.transpose()?))
        }
        _ => Err(format!("unknown socket type `{word}'").into()),
    }
}

/// A port, by number or name.
fn port(conf: &mut Conf<'_>, names: &'static str, first: bool) -> Result<Option<u16>, ConfFault> {
    let key = if first { "PORT" } else { "LOCAL_PORT" };
    let text: Option<String> =
        if first { Some(conf.mandatory("PORT")?) } else { conf.positional("LOCAL_PORT")? };
    let Some(text) = text else { return Ok(None) };
    let known = conf.scope().lookup(graph::value::NameKind::Number(names), text.trim());
    let number = known.unwrap_or(&text).trim().parse();
    number.map(Some).map_err(|_| ConfFault::new(format!("{key}: invalid port")))
}

/// A socket, and its watch.
type Watched = (Arc<OwnedFd>, WatchId);

/// A `Socket`, `FromSocket` or `ToSocket` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct Socket {
    kind: SocketKind,
    client: bool,
    remote: Remote,
    /// The file that it is bound to.
    file: Option<SocketFile>,
    local: Option<Remote>,
    options: remote::Options,
    snap: usize,
    stamp: bool,
    allow: Option<String>,
    deny: Option<String>,
    verbose: bool,
    /// Where connections come in.
    listener: Option<Watched>,
    /// What packets go over.
    active: Option<Watched>,
    /// A pulled packet that has no room yet.
    waiting: Option<Packet>,
    task: Option<TaskId>,
    upstream: Signals,
}

impl Socket {
    fn say(&self, cx: &Cx<'_>, what: &str) {
        if self.verbose {
            cx.say(&format!("{} :: {}: {what}\n", cx.name(), cx.class()));
        }
    }

    fn open(&mut self, cx: &mut Cx<'_>) -> Result<(), (&'static str, Errno)> {
        let fd = Arc::new(remote::socket(self.kind, &self.options)?);
        let own = if self.client { self.local.as_ref() } else { Some(&self.remote) };
        if let Some(own) = own {
            own.bind(&fd).map_err(|error| ("bind", error))?;
            self.file = own.path().and_then(SocketFile::bound);
        }
        if !self.kind.is_stream() || self.client {
            if self.kind.is_stream() {
                self.remote.connect(&fd).map_err(|error| ("connect", error))?;
                self.say(cx, &format!("opened connection {} to {}", fd.as_raw_fd(), self.remote));
            }
            remote::unblock(&fd).map_err(|error| ("fcntl", error))?;
            self.active = Some((fd.clone(), cx.watch(fd, Until::Readable)));
        } else {
            rustix::net::listen(&*fd, 2).map_err(|error| ("listen", error))?;
            remote::unblock(&fd).map_err(|error| ("fcntl", error))?;
            self.say(cx, &format!("listening for connections on {} ({})", self.remote, fd.as_raw_fd()));
            self.listener = Some((fd.clone(), cx.watch(fd, Until::Readable)));
        }
        Ok(())
    }

    /// Whether a server has to do with somebody.
    fn allows(&self, cx: &mut Cx<'_>, from: Option<Ipv4Addr>) -> bool {
        let Some(from) = from else { return true };
        let mut routed = |table: &Option<String>| {
            let route = table.as_ref().and_then(|table| cx.read_of(table, LOOKUP, &from.to_string()).ok());
            route.is_some_and(|route| !route.starts_with('-'))
        };
        routed(&self.allow) || !routed(&self.deny)
    }

    fn accept(&mut self, cx: &mut Cx<'_>) {
        let Some((listener, _)) = self.listener.as_ref().filter(|_| self.active.is_none()) else { return };
        let (fd, from) = match remote::accept(listener) {
            Ok(accepted) => accepted,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(error) => {
                return cx.say(&format!(
                    "{} :: {}: accept: {}\n",
                    cx.name(),
                    cx.class(),
                    cause(&error.into())
                ));
            }
        };
        let from = from.unwrap_or(Remote::Nobody);
        let allowed = self.allows(cx, from.address());
        let what = if allowed { "opened" } else { "denied" };
        self.say(cx, &format!("{what} connection {} from {from}", fd.as_raw_fd()));
        if allowed {
            let fd = Arc::new(fd);
            self.active = Some((fd.clone(), cx.watch(fd, Until::Readable)));
            self.wake(cx);
        }
    }

    /// The connection is at its end.
    fn close(&mut self, cx: &mut Cx<'_>) {
        if let Some((fd, watch)) = self.active.take() {
            cx.unwatch(watch);
            self.say(cx, &format!("closed connection {}", fd.as_raw_fd()));
        }
    }

    fn receive(&mut self, cx: &mut Cx<'_>) {
        for _ in 0..BURST {
            let Some((fd, _)) = self.active.clone() else { return };
            let Some(mut packet) = cx.alloc() else { return cx.count_drops(2, 1) };
            packet.clear_annotations();
            // Never longer than a buffer: that fits.
            let _ = packet.set_len(self.snap);
            match remote::receive(&fd, self.kind, &mut packet) {
                Ok((0, _)) if self.kind.is_stream() => {
                    cx.free(packet);
                    return self.close(cx);
                }
                Ok((length, from)) => {
                    let address = from.as_ref().and_then(Remote::address);
                    if !self.client && !self.kind.is_stream() {
                        if !self.allows(cx, address) {
                            let from = from.unwrap_or(Remote::Nobody);
                            self.say(cx, &format!("dropped datagram from {from}"));
                            cx.drop(3, packet);
                            continue;
                        }
                        self.remote = from.unwrap_or_else(|| self.remote.clone());
                    }
                    let _ = packet.set_len(length.min(self.snap));
                    let over = length.saturating_sub(self.snap);
                    packet.set_u32_at(EXTRA_LENGTH, over as u32);
                    packet.annotations_mut().timestamp_ns = if self.stamp { cx.now_ns() } else { 0 };
                    cx.emit(0, packet);
                }
                Err(error) => {
                    cx.free(packet);
                    if !matches!(error, Errno::AGAIN | Errno::INTR) {
                        self.say(cx, &cause(&error.into()));
                        self.close(cx);
                    }
                    return;
                }
            }
        }
    }

    /// Sends a packet, and frees it; what is left of it when there is no room.
    fn send(&mut self, cx: &mut Cx<'_>, mut packet: Packet) -> Option<Packet> {
        // An address of nothing stands for the packet's own.
        let anywhere = self.client
            && self.kind == SocketKind::Udp
            && self.remote.address() == Some(Ipv4Addr::UNSPECIFIED);
        let remote = if anywhere { self.remote.to(packet.dst_ip()) } else { self.remote.clone() };
        while packet.total_len() > 0 {
            let Some((fd, _)) = &self.active else {
                cx.drop(0, packet);
                return None;
            };
            let sent = remote.send(fd, self.kind, &Bytes::of(&packet).front(usize::MAX));
            match sent {
                Ok(sent) => cx.strip(&mut packet, sent),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => return Some(packet),
                Err(error) => {
                    self.say(cx, &cause(&error.into()));
                    self.close(cx);
                    cx.drop(1, packet);
                    return None;
                }
            }
        }
        cx.free(packet);
        None
    }

    fn wake(&self, cx: &mut Cx<'_>) {
        self.task.inspect(|task| cx.schedule(*task));
    }
}

impl Element for Socket {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.is_pull_input(0) {
            let task = cx.new_task();
            self.upstream = cx.upstream(0, Some(task));
            self.task = Some(task);
            cx.schedule(task);
        }
        self.open(cx).map_err(|(doing, error)| format!("{doing}: {}", cause(&error.into())))
    }

    fn ready(&mut self, cx: &mut Cx<'_>, watch: WatchId) {
        if self.listener.as_ref().is_some_and(|(_, listener)| *listener == watch) {
            return self.accept(cx);
        }
        // Without an output what comes is dropped: unread it would be looked at for ever.
        self.receive(cx);
        if let Some((_, watch)) = self.active.as_ref().filter(|_| self.waiting.is_some()) {
            cx.change_watch(*watch, Until::Readable);
            self.wake(cx);
        }
    }

    /// A packet that is pushed waits for room.
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        while let Some(packet) = batch.pop_front() {
            let mut left = self.send(cx, packet);
            while let Some(packet) = left.take() {
                match self.active.as_ref().filter(|_| !cx.has_ended()) {
                    Some((fd, _)) => {
                        remote::wait_for_room(fd, TIME_LIMIT_NS);
                        left = self.send(cx, packet);
                    }
                    None => cx.drop(1, packet),
                }
            }
        }
        Next::Done
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, _: &mut Batch) -> Ran {
        let mut any = false;
        for _ in 0..BURST {
            let Some((_, watch)) = self.active.as_ref() else { return Ran::done(any) };
            let watch = *watch;
            let Some(packet) = self.waiting.take().or_else(|| cx.pull_one(0)) else {
                if self.upstream.any() {
                    cx.schedule(task);
                }
                return Ran::done(any);
            };
            any = true;
            self.waiting = self.send(cx, packet);
            if self.waiting.is_some() {
                cx.change_watch(watch, Until::Either);
                return Ran::done(any);
            }
        }
        cx.schedule(task);
        Ran::done(any)
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        cx.end_waiting(self.waiting.take());
        if let Some(file) = self.file.take() {
            file.remove();
        }
        (self.listener, self.active) = (None, None);
    }
}
