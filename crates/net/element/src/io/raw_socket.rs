//! `RawSocket`: IP packets of one protocol, to and from the host's network.

use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use graph::chain::Bytes;
use graph::class::{Headers, NOT_TAKEN_OVER, SystemUse, keyword, mandatory, positional};
use graph::value::NameKind;
use graph::{Class, ConfFault, Cx, Element, Ran, Signals, TaskId, TimerId, Until, WatchId, ip_header};
use memory::{Batch, DATA_ROOM, Packet};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, socket_with, sockopt,
};

use crate::control::cause;
use graph::annotation::{EXTRA_LENGTH, PacketAnnotations};
use port::Reason;

/// Packets moved before others have a turn.
const BURST: usize = 32;
/// How long a full socket is left alone at first, and at most.
const BACKOFF_NS: (i64, i64) = (1_000, 100_000_000);

pub static CLASS: Class = Class {
    name: "RawSocket",
    brief: "sends IP packets through the host, and receives those of a protocol",
    doc: "Packets that are pulled are sent as they are, to their destination address. The host's packets of \
          the protocol TYPE come out, as copies: the host answers them as well. Needs CAP_NET_RAW.",
    ports: "0-1/0-1",
    processing: "l/h",
    flow: "x/y",
    arguments: &[
        mandatory("TYPE", "`TCP`, `UDP`, `GRE`, `ICMP`, or a protocol's number"),
        positional("PORT", "accepted: packets of all ports are received; 0"),
        keyword("SNAPLEN", "bytes of a packet at most; 2048"),
        keyword("HEADROOM", "accepted; packets have 192 bytes of it"),
    ],
    drops: &[Reason::NotIp, Reason::NotSent, Reason::NoBuffers, NOT_TAKEN_OVER],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    example: "RawSocket(ICMP) -> IPPrint -> Discard",
    see: &["Socket", "KernelTun", "FromDevice"],
    system: &[SystemUse::Privileges, SystemUse::Clients],
    make: |setup, conf| {
        setup.will_need(SystemUse::Privileges);
        setup.will_need(SystemUse::Clients);
        let text: String = conf.mandatory("TYPE")?;
        let name = text.trim().to_ascii_lowercase();
        let known = conf.scope().lookup(NameKind::Number("ip proto"), &name).map(str::to_string);
        let protocol = match name.as_str() {
            "icmp" => Some(1),
            "tcp" => Some(6),
            "udp" => Some(17),
            "gre" => Some(47),
            _ => known.unwrap_or(name).parse::<u8>().ok().filter(|protocol| *protocol > 0),
        };
        let protocol = protocol.ok_or_else(|| ConfFault::new("TYPE: bad IP protocol"))?;
        let _port: Option<u16> = conf.positional("PORT")?;
        let snap = conf.keyword::<usize>("SNAPLEN")?.unwrap_or(2048).min(DATA_ROOM);
        let _headroom: Option<usize> = conf.keyword("HEADROOM")?;
        conf.complete()?;
        Ok(Box::new(RawSocket {
            protocol,
            snap,
            receiver: None,
            sender: None,
            waiting: None,
            backoff_ns: 0,
            task: None,
            timer: None,
            upstream: Signals::default(),
        }))
    },
    ..Class::BASE
};

/// A `RawSocket` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct RawSocket {
    protocol: u8,
    snap: usize,
    receiver: Option<Arc<OwnedFd>>,
    /// Of the protocol that sends packets with the headers they have (raw(7)).
    sender: Option<OwnedFd>,
    waiting: Option<Packet>,
    backoff_ns: i64,
    task: Option<TaskId>,
    timer: Option<TimerId>,
    upstream: Signals,
}

fn open(protocol: Protocol) -> Result<OwnedFd, String> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(protocol));
    fd.map_err(|error| format!("socket: {}", cause(&error.into())))
}

impl RawSocket {
    /// Sends a packet, and frees it; the packet if there is no room.
    fn send(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Option<Packet> {
        let Some(to) = wire::ipv4::Header::of(&packet).map(|ip| ip.dst()) else {
            cx.say(&format!("runt IP packet ({} bytes)\n", packet.total_len()));
            cx.drop(0, packet);
            return None;
        };
        let sender = self.sender.as_ref()?;
        let to = std::net::SocketAddrV4::new(to, 0);
        match rustix::net::sendto(sender, &Bytes::of(&packet).front(usize::MAX), SendFlags::DONTWAIT, &to) {
            Ok(_) => cx.free(packet),
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => return Some(packet),
            Err(error) => {
                cx.say(&format!("sendto: {}\n", cause(&error.into())));
                cx.drop(1, packet);
            }
        }
        None
    }
}

impl Element for RawSocket {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.outputs() > 0 {
            let number = NonZeroU32::new(self.protocol.into()).ok_or("no protocol")?;
            let fd = Arc::new(open(Protocol::from_raw(number))?);
            cx.watch(fd.clone(), Until::Readable);
            self.receiver = Some(fd);
        }
        if cx.inputs() > 0 {
            let fd = open(ipproto::RAW)?;
            let broadcast = sockopt::set_socket_broadcast(&fd, true);
            broadcast.map_err(|error| format!("SO_BROADCAST: {}", cause(&error.into())))?;
            self.sender = Some(fd);
            let task = cx.new_task();
            self.upstream = cx.upstream(0, Some(task));
            (self.task, self.timer) = (Some(task), Some(cx.new_timer()));
            cx.schedule(task);
        }
        Ok(())
    }

    fn ready(&mut self, cx: &mut Cx<'_>, _: WatchId) {
        let Some(fd) = self.receiver.clone() else { return };
        for _ in 0..BURST {
            let Some(mut packet) = cx.alloc() else { return cx.count_drops(2, 1) };
            packet.clear_annotations();
            // Never longer than a buffer: that fits.
            let _ = packet.set_len(self.snap);
            let length = match rustix::net::recv(&fd, &mut packet[..], RecvFlags::TRUNC) {
                Ok((_, length)) => length,
                Err(error) => {
                    cx.free(packet);
                    if !matches!(error, Errno::AGAIN | Errno::INTR) {
                        cx.say(&format!("recv: {}\n", cause(&error.into())));
                    }
                    return;
                }
            };
            let _ = packet.set_len(length.min(self.snap));
            packet.set_u32_at(EXTRA_LENGTH, length.saturating_sub(self.snap) as u32);
            packet.annotations_mut().timestamp_ns = cx.now_ns();
            if ip_header::find_at(&mut packet, 0) { cx.emit(0, packet) } else { cx.drop(0, packet) }
        }
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, _: &mut Batch) -> Ran {
        for sent in 0..BURST {
            let Some(packet) = self.waiting.take().or_else(|| cx.pull_one(0)) else {
                if self.upstream.any() {
                    cx.schedule(task);
                }
                return Ran::done(sent > 0);
            };
            self.waiting = self.send(cx, packet);
            if self.waiting.is_some() {
                self.backoff_ns = (self.backoff_ns * 2).clamp(BACKOFF_NS.0, BACKOFF_NS.1);
                self.timer.inspect(|timer| cx.set_timer_after(*timer, self.backoff_ns));
                return Ran::done(sent > 0);
            }
            self.backoff_ns = 0;
        }
        cx.schedule(task);
        Ran::done(true)
    }

    fn fire(&mut self, cx: &mut Cx<'_>, _: TimerId) {
        self.task.inspect(|task| cx.schedule(*task));
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        cx.end_waiting(self.waiting.take());
        (self.receiver, self.sender) = (None, None);
    }
}
