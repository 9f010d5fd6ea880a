//! `FlowSource`: packets of many flows from memory, as the papers of this field
//! generate them.

use std::net::Ipv4Addr;

use graph::class::{Handlers, action, both, keyword, positional, read};
use graph::value::{Ethernet, Prefix4};
use graph::{Class, ConfFault, Cx, Element, Ran, Signals, TaskId};
use memory::Batch;
use memory::annotation::Header;
use port::Reason;
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::outer::{Outer, PerPacket};
use wire::{MacAddress, ipv4, udp};

/// Bytes of a frame's headers: Ethernet, IPv4, UDP.
const HEADERS: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN;
/// Packets after which the order of flows begins anew.
const ORDER: usize = 1 << 14;
/// Bytes that are copied at once.
const BLOCK: usize = 64;
/// The longest train of packets of one flow.
const LONGEST: u64 = 128;

/// The class `FlowSource`: frames of many flows, made once and sent again and again.
pub static CLASS: Class = Class {
    name: "FlowSource",
    brief: "sends UDP packets of many flows from memory",
    doc: "Makes FLOWS frames once, with addresses in SRC and DST and ports drawn at random, and sends copies \
          of them, BURST at a time: each packet of a random flow, or, with TRAINS, 1 to 128 packets of a flow \
          in a row, small trains likelier, as the generator of *Fast Userspace Packet Processing* does.",
    ports: "0/1",
    processing: "h",
    arguments: &[
        positional("FLOWS", "how many flows; 4096"),
        keyword("LENGTH", "bytes in a frame, without CRC; 60"),
        keyword("LIMIT", "packets in all; -1 for no limit"),
        keyword("BURST", "packets at a time; 32"),
        keyword("SRC", "a prefix of source addresses; 192.168.0.0/16"),
        keyword("DST", "prefixes of destination addresses, separated by spaces; 10.0.0.0/8"),
        keyword("SRCETH", "source Ethernet address"),
        keyword("DSTETH", "destination Ethernet address"),
        keyword("TRAINS", "packets of a flow in a row; false"),
        keyword("SEED", "what the random numbers begin with; 1"),
        keyword("STOP", "stop the router after LIMIT packets; false"),
        keyword("ACTIVE", "whether it sends; true"),
    ],
    handlers: &Handlers::<FlowSource>(&[
        read("count", "packets sent", |source| source.count.to_string()),
        both(
            "active",
            "whether it sends",
            |source| source.active.to_string(),
            |source, cx, value| {
                source.active = value.trim().parse().map_err(|_| "expected boolean")?;
                source.wake(cx);
                Ok(())
            },
        ),
        both(
            "limit",
            "packets in all",
            |source| source.limit.to_string(),
            |source, cx, value| {
                source.limit = value.trim().parse().map_err(|_| "expected integer")?;
                source.wake(cx);
                Ok(())
            },
        ),
        both(
            "burst",
            "packets at a time",
            |source| source.burst.to_string(),
            |source, cx, value| {
                let burst: i64 = value.trim().parse().map_err(|_| "expected integer")?;
                source.burst = burst.clamp(1, Batch::MAX as i64) as usize;
                source.wake(cx);
                Ok(())
            },
        ),
        action("reset", "counts from zero", |source, cx| {
            source.count = 0;
            source.wake(cx);
        }),
    ]),
    drops: &[Reason::NoBuffers],
    example: "FlowSource(4096, LENGTH 60, BURST 32) -> ToDevice(p)",
    see: &["InfiniteSource", "FromDump"],
    make: |_, conf| {
        let flows: usize = conf.positional("FLOWS")?.unwrap_or(4096);
        let length: usize = conf.keyword("LENGTH")?.unwrap_or(60);
        let limit = conf.keyword("LIMIT")?.unwrap_or(-1);
        let burst: usize = conf.keyword("BURST")?.unwrap_or(32);
        let any = |a: [u8; 4], mask: [u8; 4]| Prefix4 { address: a.into(), mask: mask.into() };
        let sources = conf.keyword("SRC")?.unwrap_or(any([192, 168, 0, 0], [255, 255, 0, 0]));
        let said: Option<String> = conf.keyword("DST")?;
        let destinations = match said {
            None => vec![any([10, 0, 0, 0], [255, 0, 0, 0])],
            Some(text) => prefixes(&text, conf.scope())?,
        };
        let from = conf.keyword("SRCETH")?.unwrap_or(Ethernet([2, 0, 0, 0, 0, 1]));
        let to = conf.keyword("DSTETH")?.unwrap_or(Ethernet([2, 0, 0, 0, 0, 2]));
        let trains = conf.keyword("TRAINS")?.unwrap_or(false);
        let seed: u64 = conf.keyword("SEED")?.unwrap_or(1);
        let stop = conf.keyword("STOP")?.unwrap_or(false);
        let active = conf.keyword("ACTIVE")?.unwrap_or(true);
        conf.complete()?;
        if !(1..=1 << 20).contains(&flows) {
            return Err(ConfFault::new("FLOWS: from 1 to 1048576"));
        }
        if !(HEADERS..=memory::DATA_ROOM).contains(&length) {
            return Err(ConfFault::new(format!("LENGTH: from {HEADERS} to {}", memory::DATA_ROOM)));
        }
        let mut random = Random(seed);
        let mut frames = vec![];
        for _ in 0..flows {
            let to_prefix = destinations[random.below(destinations.len() as u64) as usize];
            let (source, destination) = (random.address(sources), random.address(to_prefix));
            let mut bytes = frame(length, (from, to), source, destination, &mut random);
            bytes.resize(length.next_multiple_of(BLOCK), 0);
            frames.extend_from_slice(bytes.as_chunks().0);
        }
        let mut order = order(flows, trains, &mut random);
        order.extend_from_within(..Batch::MAX);
        let burst = burst.clamp(1, Batch::MAX);
        let signals = Signals::default();
        let task = None;
        Ok(Box::new(FlowSource {
            frames,
            length,
            order,
            next: 0,
            limit,
            burst,
            stop,
            active,
            count: 0,
            task,
            signals,
        }))
    },
    ..Class::BASE
};

fn prefixes(text: &str, scope: &graph::value::Scope<'_>) -> Result<Vec<Prefix4>, ConfFault> {
    let one = |word: &str| {
        graph::value::Value::parse(word, scope).map_err(|e: String| ConfFault::new(format!("DST: {e}")))
    };
    let all: Vec<Prefix4> = text.split_whitespace().map(one).collect::<Result<_, _>>()?;
    if all.is_empty() { Err(ConfFault::new("DST: expected IP prefixes")) } else { Ok(all) }
}

/// Numbers that are random enough and the same on every machine (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    fn address(&mut self, prefix: Prefix4) -> Ipv4Addr {
        let host = self.next() as u32 & !prefix.mask.to_bits();
        let inner = host | (prefix.address.to_bits() & prefix.mask.to_bits());
        // Neither the net's address nor its broadcast address.
        Ipv4Addr::from_bits(if host == 0 || host == !prefix.mask.to_bits() { inner ^ 2 } else { inner })
    }
}

fn frame(
    length: usize,
    (from, to): (Ethernet, Ethernet),
    source: Ipv4Addr,
    destination: Ipv4Addr,
    random: &mut Random,
) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let (dst, src) = (MacAddress(to.0), MacAddress(from.0));
    let link = ethernet::Repr { dst, src, ethertype: EtherType::IPV4 };
    let ip = ipv4::Repr::between(source, destination, Protocol::UDP, 0);
    let ports = random.next() as u32 | 0x0400_0400;
    let headers = Outer::<HEADERS>::new().ethernet(&link).and_then(|outer| outer.ipv4(&ip));
    let headers = headers.and_then(|outer| outer.udp((ports >> 16) as u16, ports as u16));
    headers.expect("they are so long").write(&mut bytes, length - HEADERS, PerPacket::default());
    bytes // a UDP checksum of zero: none
}

/// The flow of each packet.
fn order(flows: usize, trains: bool, random: &mut Random) -> Vec<u32> {
    let mut order = Vec::with_capacity(ORDER);
    while order.len() < ORDER {
        let flow = random.below(flows as u64) as u32;
        // A product of two draws: half of all trains have fewer than 20 packets.
        let train = if trains { 1 + random.below(LONGEST) * random.below(LONGEST) / LONGEST } else { 1 };
        order.extend(std::iter::repeat_n(flow, train as usize));
    }
    order.truncate(ORDER);
    order
}

/// `count` frames of `length` bytes (42 to 2,048) as the generator of the paper sends
/// them: trains of 1 to 128 packets of one of `flows` flows, to addresses in
/// `destinations`.
pub fn trains(
    flows: usize,
    count: usize,
    length: usize,
    destinations: &[Prefix4],
    seed: u64,
) -> Vec<Vec<u8>> {
    let mut random = Random(seed);
    let source = Prefix4 { address: [192, 168, 0, 0].into(), mask: [255, 255, 0, 0].into() };
    let ethernet = (Ethernet([2, 0, 0, 0, 0, 1]), Ethernet([2, 0, 0, 0, 0, 2]));
    let length = length.clamp(HEADERS, memory::DATA_ROOM);
    let (flows, nets) = (flows.clamp(1, ORDER), destinations.len() as u64);
    let one = |random: &mut Random| {
        let destination = destinations.get(random.below(nets) as usize).copied().unwrap_or(source);
        frame(length, ethernet, random.address(source), random.address(destination), random)
    };
    let frames: Vec<Vec<u8>> = (0..flows).map(|_| one(&mut random)).collect();
    order(flows, true, &mut random)
        .into_iter()
        .take(count)
        .map(|flow| frames[flow as usize].clone())
        .collect()
}

/// A `FlowSource` element; [`CLASS`] says what it does.
pub struct FlowSource {
    /// All frames, one after the other, each in whole blocks.
    frames: Vec<[u8; BLOCK]>,
    length: usize,
    /// The flow of each packet, and of the first once more, so that those of a batch stand in a
    /// row.
    order: Vec<u32>,
    next: usize,
    limit: i64,
    burst: usize,
    stop: bool,
    active: bool,
    count: i64,
    task: Option<TaskId>,
    signals: Signals,
}

impl FlowSource {
    fn wanted(&self) -> usize {
        let left = if self.limit < 0 { usize::MAX } else { (self.limit - self.count).max(0) as usize };
        if self.active { self.burst.min(left) } else { 0 }
    }

    fn wake(&self, cx: &mut Cx<'_>) {
        if let Some(task) = self.task.filter(|_| self.wanted() > 0) {
            cx.schedule(task);
        }
    }
}

impl Element for FlowSource {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        self.signals = cx.downstream(0, Some(task));
        self.task = Some(task);
        cx.schedule(task);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        let wanted = self.wanted();
        if wanted > 0 && !self.signals.any() {
            return Ran::IDLE;
        }
        let FlowSource { frames, length, order, next, .. } = self;
        let (mut flows, blocks) = (order[*next..].iter(), length.div_ceil(BLOCK));
        let made = cx.alloc_batch(batch, wanted, |packet| {
            let Some(&flow) = flows.next() else { return };
            let at = flow as usize * blocks;
            if let Some(frame) = frames.get(at..at + blocks) {
                let _fits = packet.copy_blocks(frame, *length);
            }
            packet.set_header(Header::Link, 0);
        });
        self.next = (self.next + made) % ORDER;
        self.count += made as i64;
        if self.wanted() > 0 {
            cx.schedule(task);
        } else if self.stop && self.limit >= 0 && self.active {
            self.active = false;
            cx.stop();
        }
        if made > 0 { Ran::push(0) } else { Ran::IDLE }
    }
}
