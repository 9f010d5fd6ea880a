//! Connections move between the cores of a host while they are served, in simulated time: a port that
//! leads packets by its table, a client that checks each byte, and cores that take turns as the test
//! says, among them ones that are flooded, slow, or have no room.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use common::ring::{FrameRing, RING};
use common::{byte, dma, rig};
use memory::{Batch, Pool};
use port::{FlowTable, Rss, RxQueue, TxQueue};
use runtime::{Instant, Poller};
use tcp::{Addresses, Echo, Event, Groups, Host, Id, Io, Neighbors, NotSpread, Options, Service, Stack};
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::{Flow, MacAddress};

const SERVER: (MacAddress, Ipv4Addr) = (MacAddress([2, 0, 0, 0, 0, 9]), Ipv4Addr::new(10, 0, 0, 9));
const CLIENT: (MacAddress, Ipv4Addr) = (MacAddress([2, 0, 0, 0, 0, 7]), Ipv4Addr::new(10, 0, 0, 7));
const PORT: u16 = 7;
/// How long a round takes, in which each host has a turn.
const ROUND: Duration = Duration::from_micros(50);
/// How long a core may take for its part of a move.
const LIMIT: Duration = Duration::from_secs(1);
/// Bytes of a connection that are on their way at most.
const AHEAD: u64 = 6_000;
/// Rounds that take longer than anything that a test waits for.
const ROUNDS: usize = 20_000;

/// A frame for nobody.
fn nobodys() -> Vec<u8> {
    let header = ethernet::Header::between(MacAddress([2, 0, 0, 0, 0, 1]), CLIENT.0, EtherType::IPV4);
    [&header.into_inner()[..], &[0; 46]].concat()
}

/// What has come back on a connection, by its number.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<u64, Stream>>>);

#[derive(Debug, Default)]
struct Stream {
    sent: u64,
    received: u64,
    closed: Option<tcp::Reason>,
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

/// A server of several cores, a client, and the port between them.
struct Rig {
    client: (Host, Pool),
    cores: Vec<(Host, Pool)>,
    /// Cores that have no turns.
    stuck: Vec<usize>,
    rings: Vec<FrameRing>,
    /// What the client and the server send, and what the client receives.
    sent: [FrameRing; 2],
    to_client: FrameRing,
    table: FlowTable,
    groups: Groups,
    seen: Seen,
    now: Instant,
    /// Whether the port refuses to change its table, and how often it was asked to.
    refuses: bool,
    asked: usize,
    /// Blocks of the server's selective acknowledgements: segments came ahead of others.
    overtaken: usize,
    /// The last segment for each core.
    last: Vec<Vec<u8>>,
}

impl Rig {
    fn new(cores: usize, connections: u64) -> Rig {
        Rig::with(cores, connections, |_| Options::default())
    }

    /// Each core with options of its own.
    fn with(cores: usize, connections: u64, options: impl Fn(usize) -> Options) -> Rig {
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
            assert!(core.share(groups.core(n)), "echoes can move");
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
            last: vec![vec![]; cores],
        };
        rig.until("all connections to be open", |rig| rig.least() > 2 * AHEAD);
        rig
    }

    /// A turn of each host, and all frames to where they go.
    fn round(&mut self) {
        self.now = self.now + ROUND;
        let mut batch = Batch::with_limit(32);
        let (host, pool) = &mut self.client;
        host.turn(self.now, pool, &mut batch);
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
            self.rings[queue].put(frame);
        }
        let frames = self.sent[1].take();
        for frame in frames {
            if let Some(flow) = Flow::of(&frame).ok().filter(|flow| flow.protocol == Protocol::TCP) {
                let segment = rig::parse(&frame[flow.l3_offset()..flow.end]);
                // One below the acknowledgement tells of what came twice (RFC 2883).
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
    fn until(&mut self, what: &str, is_so: impl Fn(&Rig) -> bool) {
        for _ in 0..ROUNDS {
            if is_so(self) {
                return;
            }
            self.round();
        }
        panic!("waited in vain for {what}");
    }

    /// Goes on with a move.
    fn go_on(&mut self) -> Poll<Result<usize, NotSpread>> {
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
    fn spread(&mut self, cores: usize) -> Result<usize, NotSpread> {
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
    fn goes_on(&mut self) {
        self.goes_on_but_for(&|_| false);
    }

    /// Likewise, but for some.
    #[track_caller]
    fn goes_on_but_for(&mut self, is_over: &dyn Fn(&Stream) -> bool) {
        let least = |rig: &Rig| {
            let seen = rig.seen.0.lock().unwrap();
            seen.values().filter(|it| !is_over(it)).map(|it| it.received).min().unwrap_or(0)
        };
        let before = least(self);
        self.until("all connections to go on", |rig| least(rig) > before + 10 * AHEAD);
    }

    fn count(&self, name: &str) -> u64 {
        let all = self.cores.iter().flat_map(|(host, _)| host.counters());
        all.filter(|counter| counter.name == name).map(|counter| counter.value).sum()
    }

    /// Connections of each core.
    fn connections(&mut self) -> Vec<usize> {
        self.cores.iter_mut().map(|(host, _)| host.stack().len()).collect()
    }

    /// Nothing was lost or overtaken, and no connection ended. What takes longer for once is asked for
    /// by a probe (RFC 8985, section 7), which is no loss.
    #[track_caller]
    fn is_untouched(&self) {
        let seen = self.seen.0.lock().unwrap();
        assert!(seen.values().all(|stream| stream.closed.is_none()), "{seen:?}");
        for name in ["tcp_timeouts", "rx_tcp_mailbox", "rx_tcp_no_connection", "tcp_move_refused"] {
            let of_client = self.client.0.counters().into_iter().find(|it| it.name == name);
            assert_eq!((self.count(name), of_client.map_or(0, |it| it.value)), (0, 0), "{name}");
        }
        assert_eq!(self.overtaken, 0, "segments came behind later ones");
    }
}

#[test]
fn connections_move_while_they_are_served() {
    let mut rig = Rig::new(4, 40);
    for cores in [1, 3, 2, 4, 1, 4] {
        assert!(rig.spread(cores).unwrap() > 0);
        rig.goes_on();
        assert_eq!(rig.connections().iter().filter(|count| **count > 0).count(), cores);
    }
    rig.is_untouched();
    assert!(rig.count("tcp_passed_on") > 0, "segments were on their way");
}

/// Cores that give to the same ones: none waits for the ring of one giver only.
#[test]
fn two_cores_give_at_once() {
    let mut rig = Rig::new(4, 40);
    // One of them empties its ring long after the other.
    rig.rings[3].held().pace = 1;
    rig.groups.spread(2, LIMIT, rig.now).unwrap();
    let mut moved = rig.go_on();
    rig.until("a backlog", |rig| rig.rings[3].held().frames.len() > 20);
    for _ in 0..ROUNDS {
        if moved.is_ready() {
            break;
        }
        rig.round();
        moved = rig.go_on();
    }
    assert!(matches!(moved, Poll::Ready(Ok(64))), "{moved:?}");
    rig.goes_on();
    assert_eq!(rig.connections()[2..], [0, 0]);
    rig.is_untouched();
}

/// A ring that is never empty is empty of what was in it when it gave as many frames as it holds.
#[test]
fn a_flooded_core_gives_its_connections() {
    let mut rig = Rig::new(2, 6);
    rig.rings[1].held().flood = Some(nobodys());
    rig.goes_on();
    let begin = rig.now;
    assert_eq!(rig.spread(1).unwrap(), 64);
    assert!(rig.now.since(begin) < LIMIT / 10, "{:?}", rig.now.since(begin));
    rig.goes_on();
    assert_eq!(rig.connections()[1], 0);
    rig.is_untouched();
    // And back, while it is flooded still.
    assert_eq!(rig.spread(2).unwrap(), 64);
    rig.goes_on();
    rig.is_untouched();
}

/// The connections have moved, and the port leads their packets as before, until it is asked again: then
/// what is still in the old core's ring comes before what comes by the new one.
#[test]
fn a_port_that_refused_is_asked_again() {
    let mut rig = Rig::new(2, 20);
    rig.refuses = true;
    assert!(matches!(rig.spread(1), Err(NotSpread::Port(_))));
    assert_eq!((rig.connections()[1], rig.asked), (0, 1));
    let before = rig.count("tcp_passed_on");
    rig.goes_on();
    assert!(rig.count("tcp_passed_on") > before + 100, "they are passed on");
    rig.refuses = false;
    rig.rings[1].held().pace = 1;
    rig.until("a backlog", |rig| rig.rings[1].held().frames.len() > 20);
    assert_eq!((rig.spread(1).unwrap(), rig.asked), (0, 2));
    rig.goes_on();
    let passed_on = rig.count("tcp_passed_on");
    rig.goes_on();
    assert_eq!(rig.count("tcp_passed_on"), passed_on, "none comes to the old core any more");
    assert_eq!((rig.spread(1).unwrap(), rig.asked), (0, 2), "there is nothing to change");
    rig.is_untouched();
}

/// Groups that a port did not lead to their core move on to a third one, or back.
#[test]
fn groups_move_on_after_a_port_refused() {
    for (first, second) in [(2, 1), (2, 3)] {
        let mut rig = Rig::new(3, 30);
        rig.refuses = true;
        assert!(matches!(rig.spread(first), Err(NotSpread::Port(_))));
        rig.goes_on();
        rig.refuses = false;
        rig.rings[2].held().pace = 1;
        rig.until("a backlog", |rig| rig.rings[2].held().frames.len() > 20);
        assert!(rig.spread(second).unwrap() > 0);
        rig.rings[2].held().pace = 0;
        rig.goes_on();
        let passed_on = rig.count("tcp_passed_on");
        rig.goes_on();
        assert_eq!(rig.count("tcp_passed_on"), passed_on, "all come to their own core");
        assert_eq!(rig.connections().iter().filter(|count| **count > 0).count(), second);
        rig.is_untouched();
    }
}

#[test]
fn only_one_move_is_under_way_and_not_over_more_cores_than_there_are() {
    let mut rig = Rig::new(2, 4);
    for cores in [0, 3] {
        assert!(matches!(rig.spread(cores), Err(NotSpread::Cores(2))));
    }
    assert!(matches!(rig.go_on(), Poll::Pending), "nothing is under way");
    rig.groups.spread(1, LIMIT, rig.now).unwrap();
    assert!(matches!(rig.groups.spread(2, LIMIT, rig.now), Err(NotSpread::Busy)));
    assert!(rig.groups.is_moving() && rig.go_on().is_pending());
    rig.round();
    rig.until("the move", |rig| !rig.cores[1].0.counters().is_empty());
    while rig.go_on().is_pending() {
        rig.round();
    }
    assert_eq!(rig.spread(2).unwrap(), 64);
    rig.is_untouched();
}

/// A core that has no turn is waited for no longer than was said; then nobody knows how far it is, and
/// no groups move any more. What it has is served when it has turns again.
#[test]
fn after_a_core_was_late_no_groups_move() {
    for (led, what) in [(0, "hand its connections over"), (1, "empty its ring")] {
        let mut rig = Rig::new(2, 10);
        let begin = rig.now;
        rig.rings[1].held().pace = 1;
        rig.until("a backlog", |rig| rig.rings[1].held().frames.len() > 20);
        rig.groups.spread(1, LIMIT, rig.now).unwrap();
        let mut moved = rig.go_on();
        while rig.asked < led {
            rig.round();
            moved = rig.go_on();
        }
        rig.stuck = vec![1];
        while moved.is_pending() {
            rig.round();
            moved = rig.go_on();
        }
        let Poll::Ready(Err(NotSpread::Late(late))) = moved else { panic!("{moved:?}") };
        assert_eq!(late, what);
        assert!((LIMIT..2 * LIMIT).contains(&rig.now.since(begin)), "{:?}", rig.now.since(begin));
        assert!(rig.go_on().is_pending() && !rig.groups.is_moving());
        (rig.stuck, rig.rings[1].held().pace) = (vec![], 0);
        let Err(NotSpread::Unknown(late)) = rig.spread(2) else { panic!("it is not known how far it is") };
        assert_eq!(late, what);
        rig.goes_on();
        assert!(rig.seen.0.lock().unwrap().values().all(|stream| stream.closed.is_none()));
        assert_eq!(rig.connections(), [10, 0]);
    }
}

/// Segments for a core that takes none are lost by name beyond a mailbox's limit, and sent again.
#[test]
fn a_full_mailbox_loses_segments_by_name() {
    let mut rig = Rig::new(2, 10);
    rig.refuses = true;
    assert!(matches!(rig.spread(1), Err(NotSpread::Port(_))));
    rig.goes_on();
    rig.stuck = vec![0];
    let before = rig.count("tcp_passed_on");
    for _ in 0..40 {
        let again = rig.last[1].clone();
        (0..32).for_each(|_| rig.rings[1].put(again.clone()));
        rig.round();
    }
    // Some may have been there before.
    let passed_on = rig.count("tcp_passed_on") - before;
    assert!((1024 - 64..=1024).contains(&passed_on), "{passed_on}");
    let lost = rig.count("rx_tcp_mailbox");
    assert!(lost >= 40 * 32 - 1024, "{lost}");
    rig.stuck.clear();
    rig.goes_on();
    assert_eq!(rig.count("rx_tcp_mailbox"), lost);
    assert!(rig.seen.0.lock().unwrap().values().all(|stream| stream.closed.is_none()));
}

/// Connections for which the new core has no room are reset, and the others served on.
#[test]
fn a_core_without_room_refuses_connections() {
    let connections = |core| if core == 0 { 25 } else { 100 };
    let mut rig = Rig::with(2, 40, |core| Options { connections: connections(core), ..Options::default() });
    assert!(rig.connections()[0] < 25, "{:?}", rig.connections());
    rig.spread(1).unwrap();
    rig.until("resets", |rig| rig.seen.0.lock().unwrap().values().any(|stream| stream.closed.is_some()));
    rig.goes_on_but_for(&|stream| stream.closed.is_some());
    let refused = rig.count("tcp_move_refused");
    let reset = |stream: &&Stream| stream.closed == Some(tcp::Reason::Reset);
    let closed = rig.seen.0.lock().unwrap().values().filter(reset).count();
    assert_eq!((closed as u64, closed), (refused, 40 - 25));
    assert_eq!(rig.connections(), [25, 0]);
    // Neither core keeps a buffer of what it refused.
    assert_eq!((rig.count("rx_tcp_mailbox"), rig.overtaken), (0, 0));
}

/// A core that has given all away rests, until it is woken because it gets groups again.
#[test]
fn a_core_rests_and_comes_back() {
    let mut rig = Rig::new(2, 10);
    assert!(!rig.cores[1].0.rests());
    rig.spread(1).unwrap();
    rig.goes_on();
    assert!(rig.cores[1].0.rests() && rig.cores[1].0.deadline().is_none_or(|due| due > rig.now));
    rig.stuck = vec![1];
    rig.goes_on();
    rig.groups.spread(2, LIMIT, rig.now).unwrap();
    rig.until("something for it to do", |rig| rig.cores[1].0.deadline().is_some_and(|due| due <= rig.now));
    rig.stuck.clear();
    while rig.go_on().is_pending() {
        rig.round();
    }
    rig.goes_on();
    assert!(!rig.cores[1].0.rests() && rig.connections()[1] > 0);
    rig.is_untouched();
}
