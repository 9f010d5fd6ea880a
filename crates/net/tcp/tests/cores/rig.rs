//! A server of several cores and a client in simulated time, and the port between them, which
//! leads packets by its table. The client checks each byte that comes back.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use memory::{Batch, Pool};
use port::{FlowTable, Rss, RxQueue, TxQueue};
use runtime::{Instant, Poller};
use tcp::{Addresses, Echo, Event, Groups, Host, Id, Io, Neighbors, NotSpread, Options, Service, Stack};
use wire::ip::Protocol;
use wire::{Flow, MacAddress, ethernet, ipv4};

use crate::common::ring::{FrameRing, RING};
use crate::common::{byte, dma, rig};

pub const SERVER: (MacAddress, Ipv4Addr) = (MacAddress([2, 0, 0, 0, 0, 9]), Ipv4Addr::new(10, 0, 0, 9));
pub const CLIENT: (MacAddress, Ipv4Addr) = (MacAddress([2, 0, 0, 0, 0, 7]), Ipv4Addr::new(10, 0, 0, 7));
const PORT: u16 = 7;
/// How long a round takes, in which each host has a turn.
const ROUND: Duration = Duration::from_micros(50);
/// How long a core may take for its part of a move.
pub const LIMIT: Duration = Duration::from_secs(1);
/// Bytes of a connection that are on their way at most.
pub const AHEAD: u64 = 6_000;
/// Rounds that take longer than anything that a test waits for.
pub const ROUNDS: usize = 20_000;

/// What has come back on a connection, by its number.
#[derive(Clone, Default)]
pub struct Seen(pub Arc<Mutex<BTreeMap<u64, Stream>>>);

/// A stream of bytes that the server sends back.
#[derive(Debug, Default)]
pub struct Stream {
    sent: u64,
    received: u64,
    /// Why it is over, once it is.
    pub closed: Option<tcp::Reason>,
}

/// Opens connections, and sends streams on them that come back.
struct Talker {
    count: u64,
    numbers: BTreeMap<Id, u64>,
    seen: Seen,
}

impl Talker {
    fn fill(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        let Some(number) = self.numbers.get(&id) else { return };
        let mut seen = self.seen.0.lock().unwrap();
        let stream = seen.get_mut(number).unwrap();
        while stream.sent - stream.received < AHEAD {
            let bytes: Vec<u8> = (stream.sent..stream.sent + 500).map(|at| byte(*number, at)).collect();
            match stack.write(id, &bytes, io) {
                Ok(0) | Err(_) => return,
                Ok(written) => stream.sent += written as u64,
            }
        }
    }
}

impl Service for Talker {
    fn begin(&mut self, stack: &mut Stack, io: &mut Io) {
        for number in 0..self.count {
            // Ports that are the same each time lead to the same cores.
            let (own, server) = ((CLIENT.1.into(), 5000 + number as u16), (SERVER.1.into(), PORT));
            let id = stack.connect_from(own, server, io).unwrap();
            self.numbers.insert(id, number);
            self.seen.0.lock().unwrap().insert(number, Stream::default());
        }
    }

    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.drain(..) {
            let id = event.connection();
            let Some(number) = self.numbers.get(&id).copied() else { continue };
            match event {
                Event::Received { packet, .. } => {
                    let mut seen = self.seen.0.lock().unwrap();
                    let stream = seen.get_mut(&number).unwrap();
                    let is_right =
                        (stream.received..).zip(&packet[..]).all(|(at, got)| *got == byte(number, at));
                    assert!(is_right, "connection {number}, from {} on", stream.received);
                    stream.received += packet.len() as u64;
                    stack.consume(id, packet.len(), io).unwrap();
                    io.pool.free(packet);
                }
                Event::Closed { reason, .. } => {
                    self.seen.0.lock().unwrap().get_mut(&number).unwrap().closed = Some(reason);
                    self.numbers.remove(&id);
                }
                _ => {}
            }
            self.fill(id, stack, io);
        }
    }
}

/// A frame's IPv4 packet in fragments, the first of which carries so many bytes.
pub fn fragments_of(frame: &[u8], first: u16) -> [Vec<u8>; 2] {
    static NUMBER: AtomicU16 = AtomicU16::new(0);
    let (front, ip) = frame.split_at(ethernet::HEADER_LEN);
    let ip = ipv4::Packet::new_checked(ip).unwrap();
    let payload = ip.payload();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    [(0, &payload[..first.into()]), (first, &payload[first.into()..])].map(|(at, part)| {
        let mut header = [0; ipv4::HEADER_LEN];
        let repr = ipv4::Repr {
            identification: number,
            more_fragments: at == 0,
            fragment_offset: at,
            ..ipv4::Repr::between(ip.src(), ip.dst(), ip.protocol(), part.len())
        };
        repr.emit(&mut ipv4::Packet::new_unchecked(&mut header[..]));
        [front, &header, part].concat()
    })
}

/// What cores know of each other.
#[derive(Clone, Copy)]
enum Knows {
    /// Who has which connections, which move.
    Moves,
    /// Who has which connections.
    Others,
    Nothing,
}

/// A server of several cores, a client, and the port between them.
pub struct Rig {
    client: (Host, Pool),
    pub cores: Vec<(Host, Pool)>,
    /// Cores that have no turns.
    pub stuck: Vec<usize>,
    pub is_client_stuck: bool,
    pub rings: Vec<FrameRing>,
    /// What the client and the server send, and what the client receives.
    sent: [FrameRing; 2],
    to_client: FrameRing,
    table: FlowTable,
    pub groups: Groups,
    pub seen: Seen,
    pub now: Instant,
    /// Whether the port refuses to change its table, and how often it was asked to.
    pub refuses: bool,
    pub asked: usize,
    /// Blocks of the server's selective acknowledgements: segments came ahead of others.
    pub overtaken: usize,
    /// The core that segments with data come to in fragments, if they do.
    pub cut: Option<usize>,
    /// The last segment for each core.
    pub last: Vec<Vec<u8>>,
    /// The last segment with data from each core's connections.
    pub answers: Vec<Vec<u8>>,
}

impl Rig {
    pub fn new(cores: usize, connections: u64) -> Rig {
        Rig::with(cores, connections, |_| Options::default())
    }

    /// Each core with options of its own.
    pub fn with(cores: usize, connections: u64, options: impl Fn(usize) -> Options) -> Rig {
        Rig::build((cores, Knows::Moves), connections, options)
    }

    /// Cores whose connections stay.
    pub fn fixed(cores: usize, connections: u64) -> Rig {
        Rig::build((cores, Knows::Others), connections, |_| Options::default())
    }

    /// Cores that do not know which of them has which connections.
    pub fn strangers(cores: usize, connections: u64) -> Rig {
        Rig::build((cores, Knows::Nothing), connections, |_| Options::default())
    }

    fn build((cores, knows): (usize, Knows), connections: u64, options: impl Fn(usize) -> Options) -> Rig {
        let rss = Rss { key: Rss::KEY, table: None, ports: true, report: false };
        let table = FlowTable::new(&rss, 128, cores, true);
        let groups = Groups::new(table.clone(), cores, RING).unwrap();
        let (dma, seen) = (dma(), Seen::default());
        let (sent, to_client) = (<[FrameRing; 2]>::default(), FrameRing::default());
        let rings: Vec<FrameRing> = (0..cores).map(|_| FrameRing::default()).collect();
        let host = |rx: &FrameRing, tx: &FrameRing, (mac, v4), neighbors: &Neighbors, options, service| {
            let addresses = Addresses { mac, v4: Some((v4, 24)), v6: None, gateways: (None, None) };
            let queues: (Box<dyn RxQueue>, Box<dyn TxQueue>) = (Box::new(rx.clone()), Box::new(tx.clone()));
            Host::new(queues, addresses, neighbors, options, service, 2000)
        };
        let pool = |host: &Host| Pool::new(&dma, host.buffers() + 2 * RING).unwrap();
        let neighbors = Neighbors::default();
        let hosts = (0..cores).map(|n| {
            let service = Box::new(Echo::default());
            let mut core = host(&rings[n], &sent[1], SERVER, &neighbors, options(n), service);
            core.stack().listen(PORT);
            match knows {
                Knows::Moves => assert!(core.share(groups.core(n)), "echoes can move"),
                Knows::Others => core.tell_others(groups.core(n)),
                Knows::Nothing => core.stand_beside_others(),
            }
            let pool = pool(&core);
            (core, pool)
        });
        let hosts = hosts.collect();
        let talker = Talker { count: connections, numbers: BTreeMap::new(), seen: seen.clone() };
        let neighbors = Neighbors::default();
        let client = host(&to_client, &sent[0], CLIENT, &neighbors, Options::default(), Box::new(talker));
        let client_pool = pool(&client);
        let now = Instant::now();
        let mut rig = Rig {
            client: (client, client_pool),
            cores: hosts,
            stuck: vec![],
            is_client_stuck: false,
            rings,
            sent,
            to_client,
            table,
            groups,
            seen,
            now,
            refuses: false,
            asked: 0,
            overtaken: 0,
            cut: None,
            last: vec![vec![]; cores],
            answers: vec![vec![]; cores],
        };
        rig.until("all connections to be open", |rig| rig.least() > 2 * AHEAD);
        rig
    }

    /// A turn of each host, and all frames to where they go.
    pub fn round(&mut self) {
        self.now = self.now + ROUND;
        let mut batch = Batch::with_limit(32);
        let (host, pool) = &mut self.client;
        if !self.is_client_stuck {
            host.turn(self.now, pool, &mut batch);
        }
        self.deliver();
        for (n, (host, pool)) in self.cores.iter_mut().enumerate() {
            if !self.stuck.contains(&n) {
                host.turn(self.now, pool, &mut batch);
            }
        }
        self.deliver();
    }

    fn deliver(&mut self) {
        let frames = self.sent[0].take();
        for frame in frames {
            let queue = self.queue(&frame);
            self.last[queue].clone_from(&frame);
            match self.cut.filter(|_| frame.len() > 100) {
                Some(core) => fragments_of(&frame, 64).into_iter().for_each(|it| self.rings[core].put(it)),
                None => self.rings[queue].put(frame),
            }
        }
        let frames = self.sent[1].take();
        for frame in frames {
            if let Some(flow) = Flow::of(&frame).ok().filter(|flow| flow.protocol == Protocol::TCP) {
                let segment = rig::parse(&frame[flow.l3_offset()..flow.end]);
                // One below the acknowledgement tells of what came twice (RFC 2883).
                if !segment.payload.is_empty() {
                    let queue = self.table.hash(
                        &CLIENT.1.octets(),
                        &SERVER.1.octets(),
                        flow.ports.map(|(src, dst)| [dst, src].map(u16::to_be_bytes)),
                    );
                    self.answers[self.table.queue(queue)].clone_from(&frame);
                }
                let ahead = |start: u32| start.wrapping_sub(segment.header.acknowledgement).cast_signed() > 0;
                self.overtaken += segment.blocks.iter().filter(|(start, _)| ahead(*start)).count();
            }
            self.to_client.put(frame);
        }
    }

    /// The queue that the port leads a frame to.
    fn queue(&self, frame: &[u8]) -> usize {
        let Some((src, dst)) = Flow::of(frame).ok().and_then(|flow| flow.ports) else { return 0 };
        let ports = Some([src, dst].map(u16::to_be_bytes));
        self.table.queue(self.table.hash(&CLIENT.1.octets(), &SERVER.1.octets(), ports))
    }

    #[track_caller]
    pub fn until(&mut self, what: &str, is_so: impl Fn(&Rig) -> bool) {
        for _ in 0..ROUNDS {
            if is_so(self) {
                return;
            }
            self.round();
        }
        panic!("waited in vain for {what}");
    }

    /// Goes on with a move.
    pub fn go_on(&mut self) -> Poll<Result<usize, NotSpread>> {
        let Rig { groups, table, refuses, asked, rings, .. } = self;
        groups.go_on(self.now, |changes| {
            *asked += 1;
            if *refuses {
                return Err(port::Error::Unsupported { port: "one".to_owned(), operation: "changing" });
            }
            *table = table.changed(changes, rings.len()).unwrap();
            Ok(())
        })
    }

    /// Spreads the groups over so many cores while all is served.
    pub fn spread(&mut self, cores: usize) -> Result<usize, NotSpread> {
        self.groups.spread(cores, LIMIT, self.now)?;
        for _ in 0..ROUNDS + LIMIT.as_micros() as usize / ROUND.as_micros() as usize {
            if let Poll::Ready(moved) = self.go_on() {
                return moved;
            }
            self.round();
        }
        panic!("the move does not end");
    }

    /// Bytes that have come back on the connection with the fewest.
    fn least(&self) -> u64 {
        self.seen.0.lock().unwrap().values().map(|stream| stream.received).min().unwrap_or(0)
    }

    /// All connections are served on.
    #[track_caller]
    pub fn goes_on(&mut self) {
        self.goes_on_but_for(&|_| false);
    }

    /// Likewise, but for some.
    #[track_caller]
    pub fn goes_on_but_for(&mut self, is_over: &dyn Fn(&Stream) -> bool) {
        let least = |rig: &Rig| {
            let seen = rig.seen.0.lock().unwrap();
            seen.values().filter(|it| !is_over(it)).map(|it| it.received).min().unwrap_or(0)
        };
        let before = least(self);
        self.until("all connections to go on", |rig| least(rig) > before + 10 * AHEAD);
    }

    pub fn count(&self, name: &str) -> u64 {
        let all = self.cores.iter().flat_map(|(host, _)| host.counters());
        all.filter(|counter| counter.name == name).map(|counter| counter.value).sum()
    }

    /// Connections of each core.
    pub fn connections(&mut self) -> Vec<usize> {
        self.cores.iter_mut().map(|(host, _)| host.stack().len()).collect()
    }

    /// Nothing was lost or overtaken, and no connection ended. What takes longer for once is asked for
    /// by a probe (RFC 8985, section 7), which is no loss.
    #[track_caller]
    pub fn is_untouched(&self) {
        let seen = self.seen.0.lock().unwrap();
        assert!(seen.values().all(|stream| stream.closed.is_none()), "{seen:?}");
        for name in ["tcp_timeouts", "rx_tcp_mailbox", "rx_tcp_no_connection", "tcp_move_refused"] {
            let of_client = self.client.0.counters().into_iter().find(|it| it.name == name);
            assert_eq!((self.count(name), of_client.map_or(0, |it| it.value)), (0, 0), "{name}");
        }
        assert_eq!(self.overtaken, 0, "segments came behind later ones");
    }
}
