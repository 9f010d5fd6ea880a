//! `KernelTun`, `KernelTap`: packets to and from the host's own network stack, over an
//! interface made for it.

use std::net::Ipv4Addr;
use std::sync::Arc;

use graph::class::{Handlers, Headers, SystemUse, keyword, mandatory, positional, read};
use graph::value::{Ethernet, Prefix4};
use graph::{
    Class, Conf, ConfFault, Cx, Element, Next, Ran, Setup, Signals, TaskId, Until, WatchId, ip_header,
};
use interface::tun::{Tun, Wanted};
use memory::annotation::Header;
use memory::{Batch, DATA_ROOM, Packet};
use port::Reason;
use rustix::io::Errno;

use crate::control::cause;

/// Bytes of an Ethernet header, and a VLAN tag.
const ETHERNET: usize = wire::ethernet::HEADER_LEN;
const TAG: usize = wire::vlan::HEADER_LEN;

/// The one of IP packets.
pub static TUN: Class = Class {
    name: "KernelTun",
    brief: "gives IP packets to the host, and gets those that it sends to a network",
    doc: "Makes a TUN interface with the host's address ADDR/MASK, which goes away with the router. What the \
          host sends to other addresses of that network comes out; packets that come in are received by the \
          host. Packets that are not IP go to output 1, or are dropped. Needs CAP_NET_ADMIN.",
    ports: "0-1/1-2",
    processing: "a/h",
    flow: "x/y",
    arguments: &[
        mandatory("ADDR", "the host's address, and its network"),
        positional("GATEWAY", "the host sends to it what it knows no better way for"),
        keyword("TAP", "with Ethernet headers; false"),
        keyword("BURST", "packets at a time; 1"),
        keyword("ETHER", "the interface's Ethernet address"),
        keyword("MTU", "bytes of the longest packet; 1500"),
        keyword("DEVNAME", "the interface's name; any"),
        keyword("DEV_NAME", "the old name of DEVNAME"),
        keyword("HEADROOM", "accepted; packets have 192 bytes of it"),
        keyword("IGNORE_QUEUE_OVERFLOWS", "say only once that there was no room; false"),
    ],
    handlers: &Handlers::<KernelTun>(&[
        read("dev_name", "the interface's name", |tun| tun.name().to_string()),
        read("packets", "packets that came from the host", |tun| tun.packets.to_string()),
    ]),
    drops: &[Reason::NotIp, Reason::LongerThanMtu, Reason::NotTakenByHost, Reason::NoBuffers],
    headers: Headers { needs_network: true, finds_network: true, ..Class::BASE.headers },
    example: "tun :: KernelTun(1.0.0.1/8); tun -> ICMPPingResponder -> tun",
    see: &["KernelTap", "FromDevice", "RawSocket"],
    system: &[SystemUse::Privileges],
    make: |setup, conf| make(setup, conf, false),
    ..Class::BASE
};

/// The one of Ethernet frames.
pub static TAP: Class = Class {
    name: "KernelTap",
    brief: "gives frames to the host, and gets those that it sends on an interface",
    doc: "Makes a TAP interface with the host's address ADDR/MASK, which goes away with the router. Frames \
          that the host sends on it come out, those that come in are received by it, if they are sent to \
          ETHER. Needs CAP_NET_ADMIN.",
    headers: Headers { needs_network: false, finds_network: false, ..Class::BASE.headers },
    example: "KernelTap(1.0.0.1/8, ETHER 2:0:0:0:0:1) -> Print -> Discard",
    see: &["KernelTun", "FromDevice"],
    make: |setup, conf| make(setup, conf, true),
    ..TUN
};

fn make(setup: &mut Setup<'_>, conf: &mut Conf<'_>, tap: bool) -> Result<Box<dyn Element>, ConfFault> {
    setup.will_need(SystemUse::Privileges);
    let net: Prefix4 = conf.mandatory("ADDR")?;
    let gateway: Option<Ipv4Addr> = conf.positional("GATEWAY")?;
    let tap = conf.keyword("TAP")?.unwrap_or(tap);
    let burst: usize = conf.keyword("BURST")?.unwrap_or(1);
    let mac: Option<Ethernet> = conf.keyword("ETHER")?;
    let mtu: u32 = conf.keyword("MTU")?.unwrap_or(1500);
    let old: Option<String> = conf.keyword("DEV_NAME")?;
    let name: Option<String> = conf.keyword("DEVNAME")?.or(old);
    let _headroom: Option<usize> = conf.keyword("HEADROOM")?;
    let quiet = conf.keyword("IGNORE_QUEUE_OVERFLOWS")?.unwrap_or(false);
    conf.complete()?;
    let gateway = gateway.filter(|gateway| !gateway.is_unspecified());
    if gateway.is_some_and(|gateway| !net.contains(gateway)) {
        return Err("bad GATEWAY".into());
    }
    if burst < 1 {
        return Err("BURST must be >= 1".into());
    }
    if mtu < 20 {
        return Err("MTU must be greater than 20".into());
    }
    if mtu as usize + ETHERNET + TAG > DATA_ROOM {
        return Err(format!("MTU: at most {}", DATA_ROOM - ETHERNET - TAG).into());
    }
    let prefix = net.length().ok_or("ADDR: expected IP prefix")?;
    let mac = mac.map(|mac| mac.0);
    let wanted = Wanted { name, tap, address: net.address, prefix, gateway, mac, mtu };
    let (upstream, others) = (Signals::default(), setup.outputs > 1);
    let device =
        KernelTun { wanted, burst, quiet, others, tun: None, packets: 0, told: false, task: None, upstream };
    Ok(Box::new(device))
}

/// See [`TUN`], [`TAP`].
#[derive(Debug)]
pub struct KernelTun {
    wanted: Wanted,
    burst: usize,
    quiet: bool,
    /// What is not IP has an output.
    others: bool,
    tun: Option<Arc<Tun>>,
    packets: u64,
    /// It was said that there is no room.
    told: bool,
    task: Option<TaskId>,
    upstream: Signals,
}

impl KernelTun {
    fn name(&self) -> &str {
        self.tun.as_ref().map_or("", |tun| &tun.name)
    }

    fn complain(&self, cx: &Cx<'_>, what: &str) {
        cx.say(&format!("{}({}): {what}\n", cx.class(), self.name()));
    }

    /// Checks a packet, and gives it to the host.
    fn give(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        let longest = self.wanted.mtu as usize + if self.wanted.tap { ETHERNET } else { 0 };
        if self.wanted.tap && packet.total_len() < ETHERNET {
            self.complain(cx, "packet too small");
            return cx.drop(0, packet);
        }
        if !self.wanted.tap {
            let at = packet.header_offset(Header::Network).and_then(|at| usize::try_from(at).ok());
            let header = at.and_then(|at| packet.get(at..)).and_then(wire::ipv4::Header::of);
            let Some(version) = header.map(|ip| ip.version()) else {
                self.complain(cx, "no network header");
                return cx.drop(0, packet);
            };
            if !matches!(version, 4 | 6) {
                self.complain(cx, &format!("unknown IP version {version}"));
                return cx.drop(0, packet);
            }
            // There is so much before the header: it was just looked at.
            let _ = packet.pull_front(at.unwrap_or(0));
        }
        if packet.total_len() > longest {
            self.complain(cx, &format!("packet larger than MTU ({})", self.wanted.mtu));
            return cx.drop(1, packet);
        }
        self.write(cx, packet);
    }

    fn write(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let Some(tun) = &self.tun else { return cx.drop(2, packet) };
        let parts: Vec<std::io::IoSlice<'_>> =
            packet.segments().map(|segment| std::io::IoSlice::new(segment)).collect();
        match rustix::io::writev(&tun.file, &parts) {
            Ok(_) => cx.free(packet),
            Err(error) => {
                let crowded = matches!(error, Errno::NOBUFS | Errno::AGAIN);
                if !(crowded && self.quiet && std::mem::replace(&mut self.told, true)) {
                    self.complain(cx, &format!("write failed: {}", cause(&error.into())));
                }
                cx.drop(2, packet);
            }
        }
    }

    /// A packet from the host; false when there is none now.
    fn take(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(tun) = self.tun.clone() else { return false };
        let Some(mut packet) = cx.alloc() else {
            cx.count_drops(3, 1);
            return false;
        };
        packet.clear_annotations();
        // Checked when it was configured: that fits.
        let _ = packet.set_len(self.wanted.mtu as usize + ETHERNET + TAG);
        let length = match rustix::io::read(&tun.file, &mut packet[..]) {
            Ok(length) if length > 0 => length,
            Err(error) if !matches!(error, Errno::AGAIN | Errno::INTR) => {
                cx.free(packet);
                self.complain(cx, &format!("read: {}", cause(&error.into())));
                return false;
            }
            _ => {
                cx.free(packet);
                return false;
            }
        };
        let _ = packet.set_len(length);
        self.packets += 1;
        packet.annotations_mut().timestamp_ns = cx.now_ns();
        if self.wanted.tap {
            packet.set_header(Header::Link, 0);
            cx.emit(0, packet);
        } else if ip_header::find_at(&mut packet, 0) {
            cx.emit(0, packet);
        } else if self.others {
            cx.emit(1, packet);
        } else {
            cx.drop(0, packet);
        }
        true
    }
}

impl Element for KernelTun {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let tun = Arc::new(
            Tun::open(&self.wanted)
                .map_err(|failed| format!("{}: {}", failed.doing, cause(&failed.source)))?,
        );
        // The watch has a file of its own: the interface goes when both are closed.
        let file = tun.file.try_clone().map_err(|error| format!("dup: {}", cause(&error)))?;
        cx.watch(Arc::new(file), Until::Readable);
        self.tun = Some(tun);
        if cx.is_pull_input(0) {
            let task = cx.new_task();
            self.upstream = cx.upstream(0, Some(task));
            self.task = Some(task);
            cx.schedule(task);
        }
        Ok(())
    }

    fn ready(&mut self, cx: &mut Cx<'_>, _: WatchId) {
        for _ in 0..self.burst {
            if !self.take(cx) {
                return;
            }
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        while let Some(packet) = batch.pop_front() {
            self.give(cx, packet);
        }
        Next::Done
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, _: &mut Batch) -> Ran {
        let packet = cx.pull_one(0);
        let any = packet.is_some();
        if let Some(packet) = packet {
            self.give(cx, packet);
        }
        if any || self.upstream.any() {
            cx.schedule(task);
        }
        Ran::done(any)
    }

    fn cleanup(&mut self, _: &mut Cx<'_>) {
        self.tun = None;
    }
}
