//! Two hosts with services and a wire between them, in simulated time.
#![allow(dead_code, reason = "not every test file needs all of it")]
#![allow(clippy::unwrap_used)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr};

use memory::{Backing, Batch, Dma, Packet, Pool};
use tcp::{Event, Io, Options, Service, Stack};
use wire::ethernet::{self, EtherType};
use wire::{Flow, MacAddress};

/// A microsecond, a millisecond and a second in nanoseconds.
pub const US: i64 = 1_000;
pub const MS: i64 = 1_000 * US;
pub const SECOND: i64 = 1_000 * MS;
/// The port that the second host listens on.
pub const PORT: u16 = 80;
/// The hosts' addresses.
pub const ADDRESSES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))];

/// A host with its stack and a service.
pub struct End {
    pub stack: Stack,
    pub pool: Pool,
    service: Box<dyn Service>,
    events: Vec<Event>,
}

/// When a packet arrives, its number, at whom, and its bytes.
type OnWire = (i64, u64, usize, Vec<u8>);

/// Two hosts, and what is on the wire between them.
pub struct Net {
    pub now: i64,
    pub ends: [End; 2],
    /// How long a packet is under way.
    pub delay_ns: i64,
    /// The second host does nothing in this time.
    pub stall: std::ops::Range<i64>,
    /// Packets that each host may send in a turn.
    pub room: [usize; 2],
    wire: BinaryHeap<Reverse<OnWire>>,
    count: u64,
}

impl Net {
    pub fn new(client: impl Service + 'static, server: impl Service + 'static, buffers: usize) -> Net {
        Net::with(client, server, buffers, Options::default())
    }

    /// The same, with options of both stacks.
    pub fn with(
        client: impl Service + 'static,
        server: impl Service + 'static,
        buffers: usize,
        options: Options,
    ) -> Net {
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let now = 1_000 * SECOND;
        let end = |service: Box<dyn Service>, key| End {
            stack: Stack::new(Options { key: [key, 1], time_wait_ns: SECOND, ..options }, now),
            pool: Pool::new(&dma, buffers).unwrap(),
            service,
            events: vec![],
        };
        let ends = [end(Box::new(client), 1), end(Box::new(server), 2)];
        let (delay_ns, stall) = (10 * US, 0..0);
        let room = [256; 2];
        let mut net = Net { now, ends, delay_ns, stall, room, wire: BinaryHeap::new(), count: 0 };
        net.ends[1].stack.listen(PORT);
        for n in [1, 0] {
            net.turn_of(n, |end, out, now_ns| {
                let mut io = Io { now_ns, pool: &mut end.pool, out };
                end.service.begin(&mut end.stack, &mut io);
                end.stack.output(&mut io);
            });
        }
        net
    }

    fn turn_of(&mut self, n: usize, call: impl FnOnce(&mut End, &mut Batch, i64)) {
        let mut out = Batch::with_limit(self.room[n]);
        call(&mut self.ends[n], &mut out, self.now);
        while let Some(packet) = out.pop_front() {
            self.count += 1;
            self.wire.push(Reverse((self.now + self.delay_ns, self.count, 1 - n, packet.to_vec())));
            self.ends[n].pool.free(packet);
        }
    }

    /// Goes to the next moment at which something happens; false when nothing will.
    pub fn step(&mut self) -> bool {
        let arrival = self.wire.peek().map(|Reverse((at, ..))| *at);
        let stacks = self.ends.iter().filter_map(|end| end.stack.next_deadline_ns()).min();
        let services = self.ends.iter().filter_map(|end| end.service.deadline_ns()).min();
        let ready = self.ends.iter().any(|end| end.stack.is_ready()).then_some(self.now);
        let Some(next) = [arrival, stacks, services, ready].into_iter().flatten().min() else { return false };
        self.now = self.now.max(next);
        if self.stall.contains(&self.now) {
            // Only the first host goes on.
            self.turn(0);
            self.now += 10 * US;
            return true;
        }
        (0..2).for_each(|n| self.turn(n));
        true
    }

    /// One turn of a host.
    fn turn(&mut self, n: usize) {
        let mut later = vec![];
        let mut here = vec![];
        while let Some(Reverse(packet)) = self.wire.pop() {
            match packet.0 <= self.now && here.len() < 64 {
                true if packet.2 == n => here.push(packet.3),
                true => later.push(Reverse(packet)),
                false => {
                    later.push(Reverse(packet));
                    break;
                }
            }
        }
        self.wire.extend(later);
        self.turn_of(n, |end, out, now_ns| {
            let mut io = Io { now_ns, pool: &mut end.pool, out };
            for bytes in here {
                let Some(packet) = frame(io.pool, &bytes) else { continue };
                let flow = Flow::of(&packet).unwrap();
                end.stack.receive(packet, &flow, 0, &mut io);
            }
            end.stack.expire(&mut io);
            end.stack.swap_events(&mut end.events);
            let is_due = end.service.deadline_ns().is_some_and(|at_ns| at_ns <= now_ns);
            if !end.events.is_empty() || is_due {
                end.service.serve(&mut end.events, &mut end.stack, &mut io);
            }
            end.stack.output(&mut io);
        });
    }

    /// Runs until nothing happens any more, for so long at most; then nothing is left.
    pub fn run_to_end(&mut self, limit_ns: i64) {
        let end = self.now + limit_ns;
        while self.now < end && self.step() {}
        for end in &mut self.ends {
            assert_eq!(end.stack.len(), 0, "connections that did not end");
            assert_eq!(end.pool.available(), end.pool.capacity(), "buffers that did not come back");
        }
    }
}

/// The packet in a frame.
fn frame(pool: &mut Pool, bytes: &[u8]) -> Option<Packet> {
    let mut packet = pool.alloc()?;
    let mac = MacAddress([2, 0, 0, 0, 0, 1]);
    packet.copy_from(bytes).ok()?;
    let header = ethernet::Header::between(mac, mac, EtherType::IPV4).into_inner();
    packet.push_front(header.len()).ok()?.copy_from_slice(&header);
    Some(packet)
}

/// A client that sends what it is told to, and keeps what comes.
#[derive(Default)]
pub struct Script {
    /// What is sent, and when after the start.
    pub sends: Vec<(i64, Vec<u8>)>,
    /// What comes is not consumed before this time after the start.
    pub reads_at_ns: i64,
    pub came: std::sync::Arc<std::sync::Mutex<Came>>,
    pub start_ns: i64,
    pub unconsumed: usize,
    pub connection: Option<tcp::Id>,
}

/// What came to a client.
#[derive(Default)]
pub struct Came {
    pub bytes: Vec<u8>,
    pub closed: Option<(tcp::Reason, i64)>,
    pub is_peer_finished: bool,
}

impl Service for Script {
    fn begin(&mut self, stack: &mut Stack, io: &mut Io) {
        self.start_ns = io.now_ns;
        self.connection = Some(stack.connect(ADDRESSES[0], (ADDRESSES[1], PORT), io).unwrap());
        self.sends.iter_mut().for_each(|(at, _)| *at += io.now_ns);
    }

    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        let mut came = self.came.lock().unwrap();
        let id = self.connection.unwrap();
        for event in events.drain(..) {
            match event {
                Event::Received { packet, .. } => {
                    came.bytes.extend_from_slice(&packet);
                    self.unconsumed += packet.len();
                    io.pool.free(packet);
                }
                Event::PeerFinished { .. } => {
                    came.is_peer_finished = true;
                    let _ = stack.finish(id, io);
                }
                Event::Closed { reason, .. } => {
                    came.closed = Some((reason, io.now_ns - self.start_ns));
                    self.sends.clear();
                }
                _ => {}
            }
        }
        while let Some((at, bytes)) = self.sends.first_mut()
            && *at <= io.now_ns
        {
            let written = stack.write(id, bytes, io).unwrap_or(0);
            bytes.drain(..written);
            if !bytes.is_empty() {
                *at = io.now_ns + MS;
                break;
            }
            self.sends.remove(0);
        }
        if io.now_ns >= self.start_ns + self.reads_at_ns {
            let _ = stack.consume(id, std::mem::take(&mut self.unconsumed), io);
        }
    }

    fn deadline_ns(&self) -> Option<i64> {
        let reads_ns = (self.unconsumed > 0).then_some(self.start_ns + self.reads_at_ns);
        self.sends.first().map(|(at, _)| *at).into_iter().chain(reads_ns).min()
    }
}
