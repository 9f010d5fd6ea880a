//! `FastUDPFlows`, `FastTCPFlows`: frames of many flows, as fast as is wanted.

use std::net::Ipv4Addr;

use graph::class::{Argument, Handlers, Headers, both, keyword, mandatory, positional, read, write};
use graph::signal::SignalKind;
use graph::value::Ethernet;
use graph::{Class, Conf, ConfFault, Cx, Element, Notice, Ran, Refused, Setup, Signal, TaskId, TimerId};
use memory::{Batch, DATA_ROOM};
use wire::ip::{Ports, Protocol};
use wire::tcp::{self, Flags};
use wire::{ipv4, udp};

use super::fast_source::{ETHER, End, Pace, fill, lay_out, rest};
use graph::{ip_header, random};
use port::Reason;

const ARGUMENTS: &[Argument] = &[
    mandatory("RATE", "frames a second, 0 for no limit"),
    mandatory("LIMIT", "frames in all, -1 for no limit"),
    mandatory("LENGTH", "bytes in a frame; at least 60"),
    mandatory("SRCETH", "the source's Ethernet address"),
    mandatory("SRCIP", "its IP address"),
    mandatory("DSTETH", "the destination's Ethernet address"),
    mandatory("DSTIP", "its IP address"),
    mandatory("FLOWS", "how many flows at a time"),
    mandatory("FLOWSIZE", "frames in a flow, after which it has other ports"),
    positional("CHECKSUM", "whether there is a checksum; true"),
    positional("ACTIVE", "whether it sends; true"),
    keyword("BURST", "frames pushed at a time; 32"),
    keyword("FLOWBURST", "frames of a flow in a row; 1"),
    keyword("SEQUENTIAL", "whether ports count up, and flows take turns; false: both are random"),
    keyword("DUPLICATE", "accepted; every frame is a copy"),
    keyword("STOP", "stop the router after LIMIT frames; false"),
];
const HANDLERS: Handlers<FastFlows> = Handlers(&[
    read("count", "frames sent", |flows| flows.pace.count.to_string()),
    write("active", "whether it sends; if it does, it begins again", |flows: &mut FastFlows, cx, value| {
        flows.pace.set_active(value)?;
        flows.changed(cx)
    })
    .marked("c"),
    both(
        "rate",
        "frames a second, as they were sent, once LIMIT was reached; written, what RATE is",
        |flows| flows.pace.measured_rate(),
        |flows, cx, value| {
            flows.pace.set_rate(value)?;
            flows.changed(cx)
        },
    ),
    write("limit", "frames in all", |flows, cx, value| {
        flows.pace.set_limit(value)?;
        flows.changed(cx)
    }),
    read("length", "bytes in a frame", |flows| {
        flows.flows.frames.first().map_or(0, |frame| frame.bytes.len()).to_string()
    }),
    write("reset", "begins again", |flows: &mut FastFlows, cx, _| {
        flows.pace.reset();
        flows.changed(cx)
    })
    .marked("b"),
]);

pub static UDP: Class = Class {
    name: "FastUDPFlows",
    brief: "makes UDP datagrams of many flows in Ethernet frames",
    doc: "Frames of LENGTH bytes between two hosts, of FLOWS flows at a time with ports of their own, RATE a \
          second at most, LIMIT in all; pushed, or made as they are pulled.",
    ports: "0/1",
    processing: "a",
    arguments: ARGUMENTS,
    handlers: &HANDLERS,
    drops: &[Reason::NoBuffers],
    example: "FastUDPFlows(100000, -1, 60, 0:0:0:0:0:1, 1.0.0.1, 0:0:0:0:0:2, 2.0.0.2, 100, 10) -> ToDevice(p)",
    see: &["FastUDPSource", "FastTCPFlows", "FlowSource"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: |setup, conf| make(setup, conf, false),
    ..Class::BASE
};

pub static TCP: Class = Class {
    name: "FastTCPFlows",
    brief: "makes TCP segments of many flows in Ethernet frames",
    doc: "As FastUDPFlows, with TCP segments that carry the SYN flag on a flow's first frame, FIN on its last \
          and ACK on those between. Nobody answers them: they are for measuring.",
    example: "FastTCPFlows(100000, -1, 60, 0:0:0:0:0:1, 1.0.0.1, 0:0:0:0:0:2, 2.0.0.2, 100, 10) -> ToDevice(p)",
    see: &["FastUDPFlows", "FlowSource"],
    make: |setup, conf| make(setup, conf, true),
    ..UDP
};

/// Flows there may be at a time: each keeps a frame.
const MOST_FLOWS: usize = 1 << 20;

fn make(setup: &mut Setup<'_>, conf: &mut Conf<'_>, tcp: bool) -> Result<Box<dyn Element>, ConfFault> {
    let (rate, limit) = (conf.mandatory("RATE")?, conf.mandatory("LIMIT")?);
    let mut length: usize = conf.mandatory("LENGTH")?;
    let src: (Ethernet, Ipv4Addr) = (conf.mandatory("SRCETH")?, conf.mandatory("SRCIP")?);
    let dst: (Ethernet, Ipv4Addr) = (conf.mandatory("DSTETH")?, conf.mandatory("DSTIP")?);
    let count: usize = conf.mandatory("FLOWS")?;
    let size: u64 = conf.mandatory("FLOWSIZE")?;
    let checksum = conf.positional("CHECKSUM")?.unwrap_or(true);
    let active = conf.positional("ACTIVE")?.unwrap_or(true);
    let burst: usize = conf.keyword("BURST")?.unwrap_or(32);
    let row: u64 = conf.keyword("FLOWBURST")?.unwrap_or(1);
    let sequential = conf.keyword("SEQUENTIAL")?.unwrap_or(false);
    let _duplicate: Option<bool> = conf.keyword("DUPLICATE")?;
    let stop = conf.keyword("STOP")?.unwrap_or(false);
    conf.complete()?;
    if length < 60 {
        setup.warn("packet length < 60, defaulting to 60");
        length = 60;
    }
    if length > DATA_ROOM {
        return Err(format!("packet length must be <= {DATA_ROOM}").into());
    }
    if !(1..=MOST_FLOWS).contains(&count) {
        return Err(format!("FLOWS: must be 1 to {MOST_FLOWS}").into());
    }
    let mut flows = Flows {
        frames: vec![],
        size: size.max(1),
        row: row.max(1),
        sequential,
        checksum,
        tcp,
        at: 0,
        in_row: 0,
    };
    let end = |end: (Ethernet, Ipv4Addr), port| -> End { (end.0, end.1, port) };
    for n in 0..count {
        let ports = if sequential { [n as u16; 2] } else { flows.ports() };
        let bytes = lay_out(length, end(src, ports[0]), end(dst, ports[1]), checksum && !tcp);
        flows.frames.push(Frame { bytes, sent: 0 });
        flows.write_headers(n);
    }
    Ok(Box::new(FastFlows {
        flows,
        dst: dst.1,
        burst: burst.clamp(1, Batch::MAX),
        pace: Pace::new(rate, limit, active),
        stop,
        packets: Signal::new(true),
        task: None,
        timer: None,
    }))
}

#[derive(Debug)]
struct Frame {
    bytes: Vec<u8>,
    /// How many of this flow.
    sent: u64,
}

/// Flows, and whose turn it is.
#[derive(Debug)]
struct Flows {
    frames: Vec<Frame>,
    size: u64,
    row: u64,
    sequential: bool,
    checksum: bool,
    tcp: bool,
    at: usize,
    in_row: u64,
}

impl Flows {
    fn ports(&self) -> [u16; 2] {
        let random = random::next();
        [random as u16, (random >> 16) as u16]
    }

    /// The place of the next frame's flow; the frame is as it should be.
    fn next(&mut self) -> usize {
        if self.in_row >= self.row {
            self.in_row = 0;
            self.at = match self.sequential {
                true => (self.at + 1) % self.frames.len(),
                false => random::below(self.frames.len() as u64) as usize,
            };
        }
        self.in_row += 1;
        let at = self.at;
        if self.frames[at].sent >= self.size {
            self.renew(at);
        }
        if self.tcp {
            self.write_headers(at);
        }
        self.frames[at].sent += 1;
        at
    }

    /// A flow has other ports from now on.
    fn renew(&mut self, at: usize) {
        let random = self.ports();
        let frame = &mut self.frames[at];
        frame.sent = 0;
        if let Some(mut ports) = Ports::of_mut(&mut frame.bytes[ETHER + ip_header::LEN..]) {
            let next = [ports.src(), ports.dst()].map(|port| port.wrapping_add(1));
            let [src, dst] = if self.sequential { next } else { random };
            ports.set_src(src);
            ports.set_dst(dst);
        }
        self.write_headers(at);
    }

    /// Makes a TCP header, and the checksum right.
    fn write_headers(&mut self, at: usize) {
        let (size, tcp, with_checksum) = (self.size, self.tcp, self.checksum);
        let frame = &mut self.frames[at];
        let (head, rest) = frame.bytes[ETHER..].split_at_mut(ip_header::LEN);
        let mut ip = ipv4::Packet::new_unchecked(head);
        if tcp {
            ip.set_protocol(Protocol::TCP);
            ip.fill_checksum();
            let flags = match frame.sent {
                0 => Flags::SYN,
                sent if sent + 1 >= size => Flags::FIN | Flags::ACK,
                _ => Flags::ACK,
            };
            let mut segment = tcp::Segment::new_unchecked(rest);
            let mut fixed = segment.header_mut();
            fixed.set_sequence(frame.sent as u32);
            fixed.set_acknowledgement(0);
            fixed.set_header_len(tcp::HEADER_LEN);
            fixed.set_flags(flags);
            fixed.set_window(0);
            fixed.set_checksum(0);
            fixed.set_urgent(0);
            if with_checksum {
                segment.fill_checksum(ip.addresses());
            }
        } else {
            let mut datagram = udp::Datagram::new_unchecked(rest);
            datagram.set_checksum(0);
            if with_checksum {
                datagram.fill_checksum(ip.addresses());
            }
        }
        debug_assert!(ip.verify_checksum());
    }
}

/// A `FastUDPFlows` or `FastTCPFlows` element; [`UDP`] says what it does.
#[derive(Debug)]
pub struct FastFlows {
    flows: Flows,
    dst: Ipv4Addr,
    burst: usize,
    pace: Pace,
    stop: bool,
    /// Raised while there is something to pull; by a timer when the next is due.
    packets: Signal,
    /// When frames are pushed.
    task: Option<TaskId>,
    timer: Option<TimerId>,
}

impl FastFlows {
    fn make(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, most: usize) {
        let due = self.pace.due(cx.now_ns()).clamp(0, most as i64) as usize;
        let FastFlows { flows, dst, .. } = self;
        let made = cx.alloc_batch(batch, due, |packet| {
            let at = flows.next();
            fill(packet, &flows.frames[at].bytes, *dst);
        });
        let made = made as i64;
        self.pace.made(made, cx.now_ns());
        if made > 0 && self.stop && self.pace.active && self.pace.has_ended() {
            cx.stop();
        }
    }

    /// A handler was written: there may be something to send.
    fn changed(&mut self, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.packets.raise(cx);
        if let Some(task) = self.task {
            cx.schedule(task);
        }
        Ok(())
    }
}

impl Element for FastFlows {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.timer = Some(cx.new_timer());
        if cx.is_push_output(0) {
            let task = cx.new_task();
            self.task = Some(task);
            cx.schedule(task);
        }
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        self.make(cx, batch, self.burst);
        match (self.pace.later(cx.now_ns()), self.timer) {
            _ if self.pace.has_ended() => {}
            (Some(next_ns), Some(timer)) => cx.set_timer(timer, next_ns),
            _ => cx.schedule(task),
        }
        if batch.is_empty() { Ran::IDLE } else { Ran::push(0) }
    }

    fn notice(&self, kind: SignalKind, _: usize) -> Notice {
        self.packets.of_packets(kind)
    }

    fn fire(&mut self, cx: &mut Cx<'_>, _: TimerId) {
        match self.task {
            Some(task) => cx.schedule(task),
            None => self.packets.raise(cx),
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        self.make(cx, batch, Batch::MAX);
        rest(cx, &self.pace, &self.packets, self.timer);
    }
}
