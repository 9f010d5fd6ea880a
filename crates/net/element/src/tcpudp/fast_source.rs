//! `FastUDPSource`: UDP datagrams in Ethernet frames, all alike, as fast as is wanted.

use std::net::Ipv4Addr;

use graph::class::{Handlers, Headers, Row, both, mandatory, positional, read, write};
use graph::clock::SECOND_NS;
use graph::signal::SignalKind;
use graph::value::{Ethernet, Value, parse_alone};
use graph::{Class, Conf, ConfFault, Cx, Element, Notice, Refused, Setup, Signal, TimerId};
use memory::annotation::Header;
use memory::{Batch, DATA_ROOM, Packet};
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::outer::{Outer, PerPacket};
use wire::{MacAddress, ipv4, udp};

use super::words::UdpPort;
use graph::annotation::PacketAnnotations;
use graph::ip_header;
use port::Reason;

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
        positional("INTERVAL", "after how many frames both ports are the next ones; 0 for never"),
        positional("ACTIVE", "whether it sends; true"),
    ],
    handlers: &Handlers::<FastUdpSource<Ipv4Addr>>(&handlers()),
    drops: &[Reason::NoBuffers],
    example: "FastUDPSource(100000, -1, 60, 0:0:0:0:0:1, 1.0.0.1, 1234, 0:0:0:0:0:2, 2.0.0.2, 1234) -> ToDevice(p)",
    see: &["InfiniteSource", "RatedSource", "UDPIPEncap"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: make::<Ipv4Addr>,
    ..Class::BASE
};

/// An address of the version of IP that a source's datagrams are of.
pub(super) trait Address: Value + Copy + Send + 'static {
    /// The keywords of the source's address and of the destination's.
    const KEYS: [&'static str; 2];
    /// The shortest frame.
    const SHORTEST: usize;

    /// The frame that all are alike.
    fn lay_out(length: usize, src: End<Self>, dst: End<Self>, with_checksum: bool) -> Vec<u8>;

    /// Puts a frame that fits into a fresh packet, and says where its headers are.
    fn fill(self, packet: &mut Packet, frame: &[u8]);
}

impl Address for Ipv4Addr {
    const KEYS: [&'static str; 2] = ["SRCIP", "DSTIP"];
    const SHORTEST: usize = 60;

    fn lay_out(length: usize, src: End, dst: End, with_checksum: bool) -> Vec<u8> {
        lay_out(length, src, dst, with_checksum)
    }

    fn fill(self, packet: &mut Packet, frame: &[u8]) {
        fill(packet, frame, self);
    }
}

/// The handlers of a source.
pub(super) const fn handlers<A: Address>() -> [Row<FastUdpSource<A>>; 5] {
    [
        read("count", "frames sent", |source| source.pace.count.to_string()),
        write(
            "active",
            "whether it sends; if it does, it begins again",
            |source: &mut FastUdpSource<A>, cx, value| {
                source.pace.set_active(value)?;
                source.changed(cx)
            },
        )
        .marked("c"),
        both(
            "rate",
            "frames a second, as they were sent, once LIMIT was reached; written, what RATE is",
            |source| source.pace.measured_rate(),
            |source, cx, value| {
                source.pace.set_rate(value)?;
                source.changed(cx)
            },
        ),
        write("limit", "frames in all", |source, cx, value| {
            source.pace.set_limit(value)?;
            source.changed(cx)
        }),
        write("reset", "begins again", |source: &mut FastUdpSource<A>, cx, _| {
            source.pace.reset();
            source.changed(cx)
        })
        .marked("b"),
    ]
}

/// Makes a source of its configuration.
pub(super) fn make<A: Address>(
    setup: &mut Setup<'_>,
    conf: &mut Conf<'_>,
) -> Result<Box<dyn Element>, ConfFault> {
    let rate: u64 = conf.mandatory("RATE")?;
    let limit: i64 = conf.mandatory("LIMIT")?;
    let mut length: usize = conf.mandatory("LENGTH")?;
    let src: (Ethernet, A, UdpPort) =
        (conf.mandatory("SRCETH")?, conf.mandatory(A::KEYS[0])?, conf.mandatory("SPORT")?);
    let dst: (Ethernet, A, UdpPort) =
        (conf.mandatory("DSTETH")?, conf.mandatory(A::KEYS[1])?, conf.mandatory("DPORT")?);
    let with_checksum = conf.positional("CHECKSUM")?.unwrap_or(true);
    let interval: u32 = conf.positional("INTERVAL")?.unwrap_or(0);
    let active = conf.positional("ACTIVE")?.unwrap_or(true);
    conf.complete()?;
    if length < A::SHORTEST {
        setup.warn(format!("packet length < {0}, defaulting to {0}", A::SHORTEST));
        length = A::SHORTEST;
    }
    if length > DATA_ROOM {
        return Err(format!("packet length must be <= {DATA_ROOM}").into());
    }
    let ends = [(src.0, src.1, src.2.0), (dst.0, dst.1, dst.2.0)];
    let frame = A::lay_out(length, ends[0], ends[1], with_checksum);
    let packets = Signal::new(true);
    let (pace, timer) = (Pace::new(rate, limit, active), None);
    Ok(Box::new(FastUdpSource { frame, ends, with_checksum, interval, pace, packets, timer }))
}

pub(super) const ETHER: usize = ethernet::HEADER_LEN;
const HEADERS: usize = ETHER + ip_header::LEN + udp::HEADER_LEN;

pub(super) type End<A = Ipv4Addr> = (Ethernet, A, u16);

/// The frame that all are alike.
pub(super) fn lay_out(length: usize, src: End, dst: End, with_checksum: bool) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let link =
        ethernet::Repr { dst: MacAddress(dst.0.0), src: MacAddress(src.0.0), ethertype: EtherType::IPV4 };
    let ip = ipv4::Repr { ttl: 250, ..ipv4::Repr::between(src.1, dst.1, Protocol::UDP, 0) };
    let headers = Outer::<HEADERS>::new().ethernet(&link).and_then(|outer| outer.ipv4(&ip));
    let headers = headers.and_then(|outer| outer.udp(src.2, dst.2)).expect("they are so long");
    headers.write(&mut bytes, length - HEADERS, PerPacket::default());
    if with_checksum {
        headers.fill_udp_checksum(&mut bytes);
    }
    bytes
}

/// When frames are due, and how many there may be.
#[derive(Debug)]
pub(super) struct Pace {
    /// Frames a second; zero for no limit.
    pub(super) rate: u64,
    pub(super) limit: i64,
    pub(super) active: bool,
    pub(super) count: i64,
    /// When the next frame is due, once there was a first.
    next_ns: Option<i64>,
    /// When the first frame was made, and the last that may be.
    ends_ns: [i64; 2],
}

/// How far behind its rate it may fall and still make up for it.
const CATCH_UP_NS: i64 = SECOND_NS / 100;

impl Pace {
    pub(super) fn new(rate: u64, limit: i64, active: bool) -> Pace {
        Pace { rate, limit, active, count: 0, next_ns: None, ends_ns: [0; 2] }
    }

    /// How many frames are due now.
    pub(super) fn due(&mut self, now_ns: i64) -> i64 {
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

    /// So many frames were made now.
    pub(super) fn made(&mut self, made: i64, now_ns: i64) {
        if made > 0 && self.count == 0 {
            self.ends_ns[0] = now_ns;
        }
        self.count += made;
        if made > 0 && self.limit >= 0 && self.count >= self.limit {
            self.ends_ns[1] = now_ns;
        }
        if let Some(next_ns) = self.next_ns.as_mut().filter(|_| self.rate > 0) {
            *next_ns += (i128::from(made) * i128::from(SECOND_NS) / i128::from(self.rate)) as i64;
        }
    }

    /// Whether there will be no more frames.
    pub(super) fn has_ended(&self) -> bool {
        !self.active || self.limit >= 0 && self.count >= self.limit
    }

    /// When the next frame is due, if that is later.
    pub(super) fn later(&self, now_ns: i64) -> Option<i64> {
        self.next_ns.filter(|next_ns| self.rate > 0 && *next_ns > now_ns)
    }

    /// Frames a second, as they were made.
    pub(super) fn measured_rate(&self) -> String {
        match self.ends_ns {
            [_, 0] => "0".into(),
            [first, last] => (self.count * 1000 / ((last - first) / 1_000_000).max(1)).to_string(),
        }
    }

    pub(super) fn set_active(&mut self, value: &str) -> Result<(), Refused> {
        self.active = parse_alone(value).map_err(|_| "active parameter must be boolean")?;
        if self.active {
            (self.count, self.ends_ns) = (0, [0; 2]);
        }
        self.next_ns = None;
        Ok(())
    }

    pub(super) fn set_rate(&mut self, value: &str) -> Result<(), Refused> {
        self.rate = parse_alone::<u32>(value).map_err(|_| "rate parameter must be integer >= 0")?.into();
        self.next_ns = None;
        Ok(())
    }

    pub(super) fn set_limit(&mut self, value: &str) -> Result<(), Refused> {
        self.limit = parse_alone::<i32>(value).map_err(|_| "limit parameter must be integer >= 0")?.into();
        self.next_ns = None;
        Ok(())
    }

    pub(super) fn reset(&mut self) {
        (self.count, self.ends_ns, self.next_ns) = (0, [0; 2], None);
    }
}

/// A `FastUDPSource` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct FastUdpSource<A> {
    frame: Vec<u8>,
    ends: [End<A>; 2],
    with_checksum: bool,
    interval: u32,
    pace: Pace,
    /// Raised while there is something to pull; by a timer when the next is due.
    packets: Signal,
    timer: Option<TimerId>,
}

/// Says that there is nothing to pull, until there is.
pub(super) fn rest(cx: &mut Cx<'_>, pace: &Pace, packets: &Signal, timer: Option<TimerId>) {
    match (pace.has_ended(), pace.later(cx.now_ns()), timer) {
        (true, ..) => packets.lower(),
        (false, Some(next_ns), Some(timer)) => {
            packets.lower();
            cx.set_timer(timer, next_ns);
        }
        _ => {}
    }
}

impl<A: Address> FastUdpSource<A> {
    /// The next frame; its ports count up.
    fn next(&mut self, cx: &mut Cx<'_>, made: i64) -> Option<Packet> {
        let [src, dst] = self.ends;
        let count = self.pace.count + made;
        if self.interval > 0 && count % i64::from(self.interval) == 0 {
            let by = (count / i64::from(self.interval)) as u16;
            let end = |(ether, address, port): End<A>| (ether, address, port.wrapping_add(by));
            self.frame = A::lay_out(self.frame.len(), end(src), end(dst), self.with_checksum);
        }
        let mut packet = cx.alloc()?;
        dst.1.fill(&mut packet, &self.frame);
        Some(packet)
    }

    /// A handler was written: there may be something to pull.
    fn changed(&mut self, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.packets.raise(cx);
        Ok(())
    }
}

/// Puts a frame that fits into a fresh packet, and says where its headers are.
#[inline(always)]
pub(super) fn fill(packet: &mut Packet, frame: &[u8], dst: Ipv4Addr) {
    let fits = packet.copy_from(frame);
    debug_assert!(fits.is_ok(), "a frame is as long as a buffer at most");
    packet.set_header(Header::Link, 0);
    packet.set_headers_within(ETHER, ETHER + ip_header::LEN);
    packet.set_dst_ip(dst);
}

impl<A: Address> Element for FastUdpSource<A> {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.timer = Some(cx.new_timer());
        Ok(())
    }

    fn notice(&self, _: SignalKind, _: usize) -> Notice {
        Notice::Signal(self.packets.clone())
    }

    fn fire(&mut self, cx: &mut Cx<'_>, _: TimerId) {
        self.packets.raise(cx);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        let due = self.pace.due(cx.now_ns());
        let mut made = 0;
        batch.fill(|| {
            let packet = (made < due).then(|| self.next(cx, made)).flatten()?;
            made += 1;
            Some(packet)
        });
        self.pace.made(made, cx.now_ns());
        rest(cx, &self.pace, &self.packets, self.timer);
    }
}
