//! `FastUDPSource`: UDP datagrams in Ethernet frames, all alike, as fast as is wanted.

use std::net::Ipv4Addr;

use graph::class::{both, mandatory, positional, read, write};
use graph::clock::SECOND_NS;
use graph::signal::Kind;
use graph::timer::TimerId;
use graph::value::{Ethernet, unsigned};
use graph::{Class, Cx, Element, Notice, Refused, Signal};
use memory::annotation::Header;
use memory::{Batch, DATA_ROOM};

use super::checksum;
use crate::annotation::Notes;
use crate::ip::header;

/// The class.
pub static CLASS: Class = Class {
    name: "FastUDPSource",
    brief: "makes UDP datagrams in Ethernet frames, all alike",
    doc: "Frames of LENGTH bytes are made as they are pulled, RATE a second at most, LIMIT in all.",
    ports: "0/1",
    processing: "l",
    arguments: &[
        mandatory("RATE", "frames a second, 0 for no limit"),
        mandatory("LIMIT", "frames in all, -1 for no limit"),
        mandatory("LENGTH", "bytes in a frame; at least 60"),
        mandatory("SRCETH", "the source's Ethernet address"),
        mandatory("SRCIP", "its IP address"),
        mandatory("SPORT", "its port"),
        mandatory("DSTETH", "the destination's Ethernet address"),
        mandatory("DSTIP", "its IP address"),
        mandatory("DPORT", "its port"),
        positional("CHECKSUM", "whether there is a UDP checksum; true"),
        positional("INTERVAL", "not used any more"),
        positional("ACTIVE", "whether it sends; true"),
    ],
    handlers: &[
        read("count", "frames sent"),
        both("active", "whether it sends"),
        both("rate", "frames a second"),
        both("limit", "frames in all"),
        write("reset", "begins again"),
    ],
    drops: &["no buffers"],
    example: "FastUDPSource(100000, -1, 60, 0:0:0:0:0:1, 1.0.0.1, 1234, 0:0:0:0:0:2, 2.0.0.2, 1234) -> ToDevice(p)",
    see: &["InfiniteSource", "RatedSource", "UDPIPEncap"],
    make: |setup, conf| {
        let rate: u64 = conf.mandatory("RATE")?;
        let limit: i64 = conf.mandatory("LIMIT")?;
        let mut length: usize = conf.mandatory("LENGTH")?;
        let src: (Ethernet, Ipv4Addr, u16) =
            (conf.mandatory("SRCETH")?, conf.mandatory("SRCIP")?, conf.mandatory("SPORT")?);
        let dst: (Ethernet, Ipv4Addr, u16) =
            (conf.mandatory("DSTETH")?, conf.mandatory("DSTIP")?, conf.mandatory("DPORT")?);
        let with_checksum = conf.positional("CHECKSUM")?.unwrap_or(true);
        let _: Option<u64> = conf.positional("INTERVAL")?;
        let active = conf.positional("ACTIVE")?.unwrap_or(true);
        conf.complete()?;
        if length < 60 {
            setup.warn("packet length < 60, defaulting to 60");
            length = 60;
        }
        if length > DATA_ROOM {
            return Err(format!("packet length must be <= {DATA_ROOM}").into());
        }
        let frame = lay_out(length, src, dst, with_checksum);
        let packets = Signal::new(true);
        let (dst, count, next_ns, timer) = (dst.1, 0, None, None);
        Ok(Box::new(FastUdpSource { frame, dst, rate, limit, active, count, next_ns, packets, timer }))
    },
    ..Class::BASE
};

const ETHER: usize = wire::ethernet::HEADER_LEN;

type End = (Ethernet, Ipv4Addr, u16);

/// The frame that all are alike.
fn lay_out(length: usize, src: End, dst: End, with_checksum: bool) -> Vec<u8> {
    let mut frame = vec![0; length];
    frame[..6].copy_from_slice(&dst.0.0);
    frame[6..12].copy_from_slice(&src.0.0);
    frame[12] = 8; // 0x0800, IPv4
    let (ip, udp) = frame[ETHER..].split_at_mut(header::LEN);
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&((length - ETHER) as u16).to_be_bytes());
    (ip[8], ip[9]) = (250, 17);
    ip[12..16].copy_from_slice(&src.1.octets());
    ip[16..20].copy_from_slice(&dst.1.octets());
    header::fill_checksum(ip);
    udp[..2].copy_from_slice(&src.2.to_be_bytes());
    udp[2..4].copy_from_slice(&dst.2.to_be_bytes());
    let udp_len = udp.len() as u16;
    udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
    if with_checksum {
        let sum = match checksum::of(ip, udp) {
            0 => 0xFFFF, // zero would say that there is none (RFC 768)
            sum => sum,
        };
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

/// See [`CLASS`].
#[derive(Debug)]
pub struct FastUdpSource {
    frame: Vec<u8>,
    dst: Ipv4Addr,
    rate: u64,
    limit: i64,
    active: bool,
    count: i64,
    /// When the next frame is due, once there was a first.
    next_ns: Option<i64>,
    /// Raised while there is something to pull; by a timer when the next is due.
    packets: Signal,
    timer: Option<TimerId>,
}

/// How far behind its rate it may fall and still make up for it.
const CATCH_UP_NS: i64 = SECOND_NS / 100;

impl FastUdpSource {
    /// How many frames are due now.
    fn due(&mut self, now_ns: i64) -> i64 {
        let left = if self.limit < 0 { i64::MAX } else { self.limit - self.count };
        if !self.active || left <= 0 {
            return 0;
        }
        if self.rate == 0 {
            return left;
        }
        let next_ns = self.next_ns.unwrap_or(now_ns).max(now_ns - CATCH_UP_NS);
        self.next_ns = Some(next_ns);
        if now_ns < next_ns {
            return 0;
        }
        let gone = (now_ns - next_ns) as i128 * i128::from(self.rate) / i128::from(SECOND_NS);
        left.min(gone.min(i128::from(i64::MAX - 1)) as i64 + 1)
    }
}

impl FastUdpSource {
    /// Says that there is nothing to pull, until there is.
    fn rest(&mut self, cx: &mut Cx<'_>, now_ns: i64) {
        let ended = !self.active || self.limit >= 0 && self.count >= self.limit;
        let next_ns = self.next_ns.filter(|next_ns| self.rate > 0 && *next_ns > now_ns);
        match (ended, next_ns, self.timer) {
            (true, ..) => self.packets.lower(),
            (false, Some(next_ns), Some(timer)) => {
                self.packets.lower();
                cx.set_timer(timer, next_ns);
            }
            _ => {}
        }
    }
}

impl Element for FastUdpSource {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.timer = Some(cx.new_timer());
        Ok(())
    }

    fn notice(&self, _: Kind, _: usize) -> Notice {
        Notice::Signal(self.packets.clone())
    }

    fn fire(&mut self, cx: &mut Cx<'_>, _: TimerId) {
        self.packets.raise(cx);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        let now_ns = cx.now_ns();
        let due = self.due(now_ns);
        let mut made = 0;
        batch.fill(|| {
            let mut packet = (made < due).then(|| cx.packet(&self.frame)).flatten()?;
            made += 1;
            packet.set_header(Header::Link, 0);
            header::mark(&mut packet, ETHER, header::LEN);
            packet.set_dst_ip(self.dst);
            packet.annotations_mut().timestamp_ns = now_ns;
            Some(packet)
        });
        self.count += made;
        if let Some(next_ns) = &mut self.next_ns
            && self.rate > 0
        {
            *next_ns += (i128::from(made) * i128::from(SECOND_NS) / i128::from(self.rate)) as i64;
        }
        self.rest(cx, now_ns);
    }

    fn read(&mut self, _: &mut Cx<'_>, handler: &str, _: &str) -> Result<String, Refused> {
        Ok(match handler {
            "count" => self.count.to_string(),
            "active" => self.active.to_string(),
            "rate" => self.rate.to_string(),
            _ => self.limit.to_string(),
        })
    }

    fn write(&mut self, cx: &mut Cx<'_>, handler: &str, value: &str) -> Result<(), Refused> {
        match handler {
            "active" => self.active = value.trim().parse().map_err(|_| "expected boolean")?,
            "rate" => self.rate = unsigned(value).ok_or("expected unsigned integer")?,
            "limit" => self.limit = value.trim().parse().map_err(|_| "expected integer")?,
            _ => self.count = 0,
        }
        self.next_ns = None;
        self.packets.raise(cx);
        Ok(())
    }
}
