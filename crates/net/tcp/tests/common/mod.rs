//! Two hosts and a wire in simulated time. The wire loses, doubles, delays and changes
//! packets as a seed says; applications send streams of which each byte is known.
#![allow(dead_code, reason = "not every test file needs all of it")]

pub mod rig;
pub mod ring;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use memory::{Backing, Batch, Dma, Packet, Pool};
use tcp::{Event, Id, Io, Options, Reason, Refusal, Stack};
use wire::ethernet::{self, EtherType};
use wire::{Flow, MacAddress, ipv4, ipv6};

/// A millisecond and a second in nanoseconds.
pub const MS: i64 = 1_000_000;
pub const SECOND: i64 = 1_000 * MS;
/// The port that the second host listens on.
pub const PORT: u16 = 80;

/// Numbers that a seed decides (splitmix64).
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// True in so many of a thousand cases.
    pub fn in_thousand(&mut self, cases: u64) -> bool {
        self.below(1000) < cases
    }
}

/// What a wire does, in cases of a thousand and nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u64,
    pub duplicate: u64,
    pub reorder: u64,
    pub corrupt: u64,
    /// Congestion is marked where the packet allows it.
    pub mark: u64,
    pub delay_ns: i64,
    pub jitter_ns: i64,
    /// Bytes a second, and how many may wait; zero for no limit.
    pub rate: u64,
    pub queue: u64,
    /// The longest packets that are carried, without a word about others; zero for all.
    pub longest: usize,
}

/// A host: its stack, and its applications by their connections.
pub struct Host {
    pub stack: Stack,
    pub pool: Pool,
    pub address: [IpAddr; 2],
    pub apps: BTreeMap<Id, App>,
    /// Applications of connections that ended before others moved.
    ended: Vec<App>,
    /// Where connections move to, and come back from.
    other: Option<(Stack, Pool)>,
    /// What applications of accepted connections do.
    pub serves: App,
    events: Vec<Event>,
    /// Until when a slow wire is busy.
    busy_until_ns: i64,
}

/// What an application does, and has seen.
#[derive(Clone, Debug, Default)]
pub struct App {
    /// Which stream it sends, and which it must receive.
    pub streams: (u64, u64),
    pub to_send: u64,
    pub to_receive: u64,
    pub chunk: u64,
    /// It consumes what came after so long; at once for zero.
    pub lag_ns: i64,
    /// It ends its side only when the other has.
    pub waits: bool,
    pub sent: u64,
    pub acknowledged: u64,
    pub received: u64,
    pub is_connected: bool,
    pub is_finished: bool,
    pub is_peer_finished: bool,
    pub closed: Option<Reason>,
    pub unconsumed: u64,
    pub consume_at: Option<i64>,
}

/// A byte of a stream.
pub fn byte(stream: u64, offset: u64) -> u8 {
    let mixed = (offset ^ stream << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 56) as u8
}

pub fn dma() -> Dma {
    Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None })
}

/// A packet on the wire: when it arrives, its number, at whom, and its bytes.
type OnWire = (i64, u64, usize, Vec<u8>);

/// Two hosts and what is on the wire between them.
pub struct Net {
    pub now: i64,
    pub hosts: [Host; 2],
    pub faults: Faults,
    pub random: Random,
    wire: BinaryHeap<Reverse<OnWire>>,
    count: u64,
    /// Packets that each host sent, for tests that look at them.
    pub log: Option<Vec<(usize, i64, Vec<u8>)>>,
    /// Packets that a test loses, by sender and their number from it.
    pub lose: Vec<(usize, u64)>,
    /// In so many turns of a thousand all connections of a host move to another stack.
    pub moves: u64,
    /// How many connections moved.
    pub moved: u64,
    pub sent: [u64; 2],
}

impl Net {
    pub fn new(options: [Options; 2], faults: Faults, seed: u64) -> Net {
        Net::with_buffers(options, faults, seed, 1200)
    }

    /// Each host has a pool of so many buffers.
    pub fn with_buffers(options: [Options; 2], faults: Faults, seed: u64, buffers: usize) -> Net {
        let dma = dma();
        let now = 1_000 * SECOND + (seed as i64 & 0xFFFF);
        let mut n = 0;
        let hosts = options.map(|options| {
            n += 1;
            let v6 = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, n);
            Host {
                stack: Stack::new(Options { key: [seed, n.into()], ..options }, now),
                pool: Pool::new(&dma, buffers).expect("memory"),
                address: [Ipv4Addr::new(10, 0, 0, n as u8).into(), v6.into()],
                apps: BTreeMap::new(),
                ended: vec![],
                other: None,
                serves: App::default(),
                events: Vec::new(),
                busy_until_ns: 0,
            }
        });
        let mut net = Net {
            now,
            hosts,
            faults,
            random: Random(seed),
            wire: BinaryHeap::new(),
            count: 0,
            log: None,
            lose: vec![],
            moves: 0,
            moved: 0,
            sent: [0; 2],
        };
        net.hosts[1].stack.listen(PORT);
        net
    }

    /// Calls the stack of a host; what goes out goes on the wire.
    pub fn with<R>(&mut self, host: usize, call: impl FnOnce(&mut Host, &mut Batch, i64) -> R) -> R {
        let mut out = Batch::with_limit(64);
        let result = call(&mut self.hosts[host], &mut out, self.now);
        self.send(host, out);
        result
    }

    fn send(&mut self, host: usize, mut out: Batch) {
        while let Some(packet) = out.pop_front() {
            let bytes = packet.to_vec();
            self.hosts[host].pool.free(packet);
            let number = self.sent[host];
            self.sent[host] += 1;
            if let Some(log) = &mut self.log {
                log.push((host, self.now, bytes.clone()));
            }
            if !self.lose.contains(&(host, number)) {
                self.put(host, bytes);
            }
        }
    }

    /// A packet goes on the wire, or what the wire makes of it.
    fn put(&mut self, host: usize, mut bytes: Vec<u8>) {
        let faults = self.faults;
        let is_too_long = faults.longest > 0 && bytes.len() > faults.longest;
        if is_too_long || self.random.in_thousand(faults.loss) {
            return;
        }
        let mut start = self.now;
        if faults.rate > 0 {
            let busy = self.hosts[host].busy_until_ns.max(self.now);
            let waits = (busy - self.now) as u64 * faults.rate / SECOND as u64;
            if waits > faults.queue {
                return;
            }
            start = busy + (bytes.len() as u64 * SECOND as u64 / faults.rate) as i64;
            self.hosts[host].busy_until_ns = start;
        }
        if self.random.in_thousand(faults.corrupt) {
            let at = self.random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << self.random.below(8);
        }
        if self.random.in_thousand(faults.mark) {
            mark(&mut bytes);
        }
        let copies = 1 + u64::from(self.random.in_thousand(faults.duplicate));
        for _ in 0..copies {
            let mut at = start + faults.delay_ns + self.random.below(faults.jitter_ns as u64 + 1) as i64;
            if self.random.in_thousand(faults.reorder) {
                at += self.random.below(4 * faults.delay_ns as u64 + 1) as i64;
            }
            self.count += 1;
            self.wire.push(Reverse((at, self.count, 1 - host, bytes.clone())));
        }
    }

    /// The first host opens a connection to the second.
    pub fn connect(&mut self, family: usize, app: App) -> Id {
        let remote = (self.hosts[1].address[family], PORT);
        self.with(0, |host, out, now_ns| {
            let mut io = Io { now_ns, pool: &mut host.pool, out };
            let id = host.stack.connect(host.address[family], remote, &mut io).expect("room");
            host.apps.insert(id, app);
            host.stack.output(&mut io);
            id
        })
    }

    /// The same, with the first of what its application sends in the SYN (RFC 7413).
    pub fn connect_fast(&mut self, family: usize, mut app: App) {
        let remote = (self.hosts[1].address[family], PORT);
        self.with(0, |host, out, now_ns| {
            let mut io = Io { now_ns, pool: &mut host.pool, out };
            let bytes: Vec<u8> = (0..app.to_send.min(3000)).map(|n| byte(app.streams.0, n)).collect();
            let opened = host.stack.connect_fast(host.address[family], remote, &bytes, &mut io);
            let (id, taken) = opened.expect("room");
            app.sent = taken as u64;
            host.apps.insert(id, app);
            host.stack.output(&mut io);
        });
    }

    /// Goes to the next moment at which something happens, and lets it happen; false when
    /// nothing will.
    pub fn step(&mut self) -> bool {
        let arrival = self.wire.peek().map(|Reverse((at, ..))| *at);
        let stacks = self.hosts.iter().filter_map(|host| host.stack.next_deadline_ns()).min();
        let apps = self.hosts.iter().flat_map(|host| host.apps.values());
        let consume = apps.filter_map(|app| app.consume_at).min();
        let ready = self.hosts.iter().any(|host| host.stack.is_ready()).then_some(self.now);
        let Some(next) = [arrival, stacks, consume, ready].into_iter().flatten().min() else { return false };
        self.now = self.now.max(next);
        let mut here = [vec![], vec![]];
        while let Some(Reverse((at, ..))) = self.wire.peek()
            && *at <= self.now
            && here[0].len() + here[1].len() < 64
        {
            let Some(Reverse((_, _, to, bytes))) = self.wire.pop() else { break };
            here[to].push(bytes);
        }
        for (host, frames) in here.into_iter().enumerate() {
            self.turn(host, frames);
        }
        true
    }

    /// One turn of a host, with the packets that came.
    fn turn(&mut self, host: usize, packets: Vec<Vec<u8>>) {
        self.with(host, |host, out, now_ns| {
            for bytes in packets {
                host.receive(&bytes, out, now_ns);
            }
            let mut io = Io { now_ns, pool: &mut host.pool, out };
            host.stack.expire(&mut io);
        });
        self.serve(host);
        self.with(host, |host, out, now_ns| {
            host.stack.output(&mut Io { now_ns, pool: &mut host.pool, out });
            host.check(host.stack.len() < 10);
        });
        if self.moves > 0 && self.random.in_thousand(self.moves) {
            self.change_core(host);
        }
    }

    /// Moves all connections of a host to its other stack, which has a pool of its own.
    fn change_core(&mut self, host: usize) {
        self.moved += self.with(host, |host, out, now_ns| host.change_core(out, now_ns));
    }

    /// Lets the applications of a host see what happened, and do what they do.
    pub fn serve(&mut self, host: usize) {
        self.with(host, |host, out, now_ns| {
            let mut events = std::mem::take(&mut host.events);
            host.stack.swap_events(&mut events);
            for event in events.drain(..) {
                host.see(event, now_ns);
            }
            host.events = events;
            host.act(out, now_ns);
        });
    }

    /// Runs until nothing happens any more, or for so long.
    pub fn run(&mut self, limit_ns: i64) {
        let end = self.now + limit_ns;
        while self.now < end && self.step() {}
    }

    /// What is known of all connections, and what was counted, where a test fails.
    pub fn describe(&self) -> String {
        let mut text = format!("{:?}\n", self.faults);
        for host in &self.hosts {
            for (id, app) in &host.apps {
                text += &format!("{app:?}\n{:#?}\n", host.stack.info(*id));
            }
            let counted = host.stack.counters().all().filter(|counter| counter.value > 0);
            counted.for_each(|counter| text += &format!("{} {}\n", counter.name, counter.value));
        }
        text
    }

    /// Nothing is left of any connection.
    pub fn is_over(&mut self) {
        for host in &mut self.hosts {
            assert_eq!(host.stack.len(), 0, "connections that did not end");
            assert_eq!(host.stack.kept_packets(), 0);
            assert_eq!(host.pool.available(), host.pool.capacity(), "buffers that did not come back");
            let other = host.other.as_mut().map(|(_, pool)| (pool.available(), pool.capacity()));
            assert!(other.is_none_or(|(left, all)| left == all), "buffers of a connection that moved");
        }
    }
}

/// Marks congestion in a packet whose sender takes part (RFC 3168).
fn mark(bytes: &mut [u8]) {
    if ipv4::version(bytes[0]) == 4 {
        if let Some(mut header) = ipv4::Header::of_mut(bytes)
            && header.traffic_class() != 0
        {
            header.update_traffic_class(wire::ecn::CE);
        }
    } else if let Some(mut header) = ipv6::Header::of_mut(bytes)
        && header.traffic_class() != 0
    {
        header.set_version(wire::ecn::CE, 0);
    }
}

impl Host {
    /// Takes a packet as a host does, which drops what is no sound IP packet for it.
    pub fn receive(&mut self, bytes: &[u8], out: &mut Batch, now_ns: i64) {
        let Some(packet) = frame(&mut self.pool, bytes) else { return };
        let Ok(flow) = Flow::of(&packet) else { return self.pool.free(packet) };
        let ip = &packet[flow.l3_offset()..flow.l4_offset()];
        let (is_sound, class) = match ipv4::version(ip[0]) {
            4 => (wire::checksum::verify(ip), ipv4::Header::of(ip).map_or(0, |ip| ip.traffic_class())),
            _ => (true, ipv6::Header::of(ip).map_or(0, |ip| ip.traffic_class())),
        };
        let is_ours = self.address.contains(&flow.addresses.dst());
        if !is_sound || !is_ours || flow.ports.is_none() || flow.protocol != wire::ip::Protocol::TCP {
            return self.pool.free(packet);
        }
        self.stack.receive(packet, &flow, class, &mut Io { now_ns, pool: &mut self.pool, out });
    }

    /// Moves all connections to the other stack; how many.
    fn change_core(&mut self, out: &mut Batch, now_ns: i64) -> u64 {
        let buffers = self.pool.capacity();
        let (stack, pool) = self.other.take().unwrap_or_else(|| {
            let mut stack = Stack::new(*self.stack.options(), now_ns);
            stack.listen(PORT);
            (stack, Pool::new(&dma(), buffers).expect("memory"))
        });
        let mut old = std::mem::replace(&mut self.stack, stack);
        let old_pool = std::mem::replace(&mut self.pool, pool);
        let mut io = Io { now_ns, pool: &mut self.pool, out };
        let ids: Vec<Id> = old.connections().map(|(id, _)| id).collect();
        let mut apps = BTreeMap::new();
        for id in &ids {
            let moved = old.take(*id).expect("all events were taken");
            assert!(old.take(*id).is_none() && old.info(*id).is_none());
            let to = self.stack.put(moved, &mut io).expect("there is room");
            apps.extend(self.apps.remove(id).map(|app| (to, app)));
        }
        let ended = std::mem::replace(&mut self.apps, apps);
        assert!(ended.values().all(|app| app.closed.is_some()));
        self.ended.extend(ended.into_values());
        assert!(old.is_empty() && old.kept_packets() == 0 && !old.is_ready());
        self.other = Some((old, old_pool));
        self.check(ids.len() < 10);
        ids.len() as u64
    }

    /// What all applications have seen, those of connections that are no more among them.
    pub fn seen(&self) -> impl Iterator<Item = &App> {
        self.apps.values().chain(&self.ended)
    }

    /// Looks at the whole stack, where that does not take long.
    fn check(&self, is_small: bool) {
        #[cfg(debug_assertions)]
        if is_small {
            self.stack.assert_sound();
        }
        let _ = is_small;
    }

    fn see(&mut self, event: Event, now_ns: i64) {
        let connection = event.connection();
        if matches!(event, Event::Connected { is_passive: true, .. }) {
            assert!(self.apps.insert(connection, self.serves.clone()).is_none(), "accepted twice");
        }
        let app = self.apps.get_mut(&connection).expect("an event of a connection that nobody knows");
        assert!(app.closed.is_none(), "{event:?} behind the last event");
        match event {
            Event::Connected { .. } => {
                assert!(!app.is_connected);
                app.is_connected = true;
            }
            Event::Received { packet, .. } => {
                assert!(app.is_connected && !app.is_peer_finished && !packet.is_empty());
                for (n, got) in packet.iter().enumerate() {
                    let expected = byte(app.streams.1, app.received + n as u64);
                    assert_eq!(*got, expected, "byte {} of {app:?}", app.received + n as u64);
                }
                app.received += packet.len() as u64;
                app.unconsumed += packet.len() as u64;
                app.consume_at.get_or_insert(now_ns + app.lag_ns);
                self.pool.free(packet);
            }
            Event::Sent { bytes, .. } => app.acknowledged += u64::from(bytes),
            Event::PeerFinished { .. } => {
                assert!(!app.is_peer_finished);
                app.is_peer_finished = true;
            }
            Event::Closed { reason, .. } => (app.closed, app.consume_at) = (Some(reason), None),
            Event::Timer { .. } => {}
        }
    }

    /// Applications consume, send and finish.
    fn act(&mut self, out: &mut Batch, now_ns: i64) {
        let mut io = Io { now_ns, pool: &mut self.pool, out };
        for (id, app) in self.apps.iter_mut().filter(|(_, app)| app.closed.is_none()) {
            if app.consume_at.is_some_and(|at| at <= now_ns) {
                app.consume_at = None;
                let bytes = std::mem::take(&mut app.unconsumed) as usize;
                self.stack.consume(*id, bytes, &mut io).expect("it is open");
            }
            while app.is_connected && app.sent < app.to_send {
                let len = app.chunk.min(app.to_send - app.sent);
                let bytes: Vec<u8> = (0..len).map(|n| byte(app.streams.0, app.sent + n)).collect();
                let written = self.stack.write(*id, &bytes, &mut io).expect("it is open");
                app.sent += written as u64;
                if (written as u64) < len {
                    break;
                }
            }
            let may_finish = !app.waits || app.is_peer_finished;
            if app.is_connected && app.sent == app.to_send && !app.is_finished && may_finish {
                app.is_finished = true;
                self.stack.finish(*id, &mut io).expect("it is open");
                assert_eq!(self.stack.finish(*id, &mut io), Err(Refusal::Finished));
            }
        }
    }
}

/// The packet in a frame.
pub fn frame(pool: &mut Pool, bytes: &[u8]) -> Option<Packet> {
    let mut packet = pool.alloc()?;
    let ethertype = if ipv4::version(*bytes.first()?) == 4 { EtherType::IPV4 } else { EtherType::IPV6 };
    let mac = MacAddress([2, 0, 0, 0, 0, 1]);
    packet.copy_from(bytes).ok()?;
    let header = ethernet::Header::between(mac, mac, ethertype).into_inner();
    packet.push_front(header.len()).ok()?.copy_from_slice(&header);
    Some(packet)
}
