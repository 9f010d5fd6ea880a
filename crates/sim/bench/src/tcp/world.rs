//! Two hosts on models with a wire between them, and their turns.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use driver::ixgbe::Ixgbe;
use memory::{Batch, Dma, Pool};
use port::{Options as PortOptions, Port};
use runtime::{Instant, Poller};
use tcp::{Addresses, Echo, Host, Neighbors, Offload, Options, Service};
use testbed::inprocess::{self, Handle};
use wire::MacAddress;

use super::Shape;
use super::client::{CLIENT, Client, PAIRS, PORTS, Progress, SERVER, UNDER_WAY, segments};
use crate::two_cores::no_thread;
use crate::{Error, Result, device};

/// Packets that a host receives in a turn at most, as in IX.
const BATCH: usize = 64;
/// Simulated time between two rounds: so long takes a batch of requests of a fast server, and
/// even 100,000 connections have their turns before an acknowledgement has waited for too long.
const ROUND: Duration = Duration::from_micros(16);
/// Turns that a host may have in a round, for all that came to it: many times as many as what
/// a ring holds takes.
const TURNS: usize = 64;
/// Rounds without an answer or a new connection that are one too many: eight seconds.
const STUCK: u32 = 500_000;
/// The most connections: an acknowledgement waits for 40 ms.
const MOST_CONNECTIONS: u32 = 100_000;
/// Packets that the server keeps, at most: less than 2 GiB, with the copies that a port cuts.
const MOST_PACKETS: u64 = 1 << 19;

/// What was done.
#[derive(Debug, Clone, Copy, Default)]
pub struct Done {
    /// Requests that were answered.
    pub answers: u64,
    /// Connections that were opened.
    pub opened: u64,
    /// TSC cycles of the server's turns.
    pub server_ticks: u64,
    /// TSC cycles of the client's turns.
    pub client_ticks: u64,
    /// Turns of the server.
    pub turns: u64,
    /// Segments that the server received.
    pub received: u64,
    /// Segments that the server sent.
    pub sent: u64,
    /// Segments that either side sent again.
    pub resent: u64,
}

impl Done {
    /// The counts of both, added up.
    pub fn plus(self, other: Done) -> Done {
        self.with(other, |a, b| a + b)
    }

    fn since(self, before: Done) -> Done {
        self.with(before, |a, b| a - b)
    }

    fn with(self, other: Done, join: impl Fn(u64, u64) -> u64) -> Done {
        Done {
            answers: join(self.answers, other.answers),
            opened: join(self.opened, other.opened),
            server_ticks: join(self.server_ticks, other.server_ticks),
            client_ticks: join(self.client_ticks, other.client_ticks),
            turns: join(self.turns, other.turns),
            received: join(self.received, other.received),
            sent: join(self.sent, other.sent),
            resent: join(self.resent, other.resent),
        }
    }
}

/// A host, and what a thread has for it. The queues go before the port.
struct End {
    host: Host,
    pool: Pool,
    batch: Batch,
    ticks: u64,
    turns: u64,
    /// Its turns go through [`counted_turn`].
    is_counted: bool,
    _port: Ixgbe,
}

impl End {
    /// One turn; what it moved.
    fn turn(&mut self, now: Instant) -> usize {
        let start = bus::tsc::now();
        let moved = match self.is_counted {
            false => self.host.turn(now, &mut self.pool, &mut self.batch),
            true => counted_turn(&mut self.host, now, &mut self.pool, &mut self.batch),
        };
        self.ticks += bus::tsc::now() - start;
        self.turns += 1;
        moved
    }
}

/// A turn of a host, in a function of its own: callgrind counts what is executed inside of it.
#[inline(never)]
fn counted_turn(host: &mut Host, now: Instant, pool: &mut Pool, batch: &mut Batch) -> usize {
    host.turn(now, pool, batch)
}

/// The client, the server, and the models.
pub struct World {
    /// The client first.
    ends: [End; 2],
    handles: Vec<Handle>,
    progress: Arc<Progress>,
    connections: u64,
    now: Instant,
}

impl World {
    /// Opens the ports; nothing is sent yet.
    pub fn new(shape: Shape) -> Result<World> {
        let packets = packets(shape)?;
        let dma = Dma::new(memory::Options::default());
        let progress = Arc::new(Progress::default());
        let mut handles = Vec::new();
        let mut ports = Vec::new();
        for (pci, handle) in device::pair()? {
            let open = || Ixgbe::open(pci, &dma, PortOptions::default());
            let opened = inprocess::while_stepping(std::slice::from_ref(&handle), open);
            ports.push(opened.map_err(no_thread)??);
            handles.push(handle);
        }
        let services: [Box<dyn Service>; 2] =
            [Box::new(Client::new(shape, &progress)), Box::new(Echo::default())];
        let mut ends = Vec::new();
        let hosts = services.into_iter().zip([CLIENT, SERVER]).zip(packets);
        for (port, ((service, address), packets)) in ports.into_iter().zip(hosts) {
            let options = Options {
                key: [1, ends.len() as u64],
                // Those that are reset are forgotten a moment later than others come.
                connections: shape.connections + 1024,
                nagle: false,
                offload: Offload::from(&port.capabilities()),
                ..Options::default()
            };
            ends.push(end(port, service, address, options, packets, &dma)?);
        }
        let mut ends: [End; 2] = ends.try_into().map_err(|_| Error::new("a wire has two ends"))?;
        PORTS.iter().for_each(|port| ends[1].host.stack().listen(*port));
        let connections = shape.connections.into();
        Ok(World { ends, handles, progress, connections, now: Instant::now() })
    }

    /// Opens all connections.
    pub fn open(&mut self) -> Result<()> {
        let (progress, wanted) = (self.progress.clone(), self.connections);
        self.rounds_until(&|| progress.opened.load(Relaxed) >= wanted)
    }

    /// Goes on until so many more requests are answered; what was done.
    pub fn run(&mut self, requests: u64) -> Result<Done> {
        let before = self.done();
        let (progress, wanted) = (self.progress.clone(), before.answers + requests);
        self.rounds_until(&|| progress.answers.load(Relaxed) >= wanted)?;
        Ok(self.done().since(before))
    }

    /// Has callgrind count the server's turns from now on.
    pub fn count_server(&mut self) {
        self.ends[1].is_counted = true;
    }

    /// Closes the ports: a driver waits for its device to let go of its rings.
    pub fn close(self) -> Result<()> {
        let handles = self.handles.clone();
        inprocess::while_stepping(&handles, || drop(self)).map_err(no_thread)
    }

    fn rounds_until(&mut self, is_over: &dyn Fn() -> bool) -> Result<()> {
        let (mut idle, mut last) = (0, self.moved());
        while !is_over() {
            self.round();
            let moved = self.moved();
            idle = if moved == last { idle + 1 } else { 0 };
            last = moved;
            let count = |of: &std::sync::atomic::AtomicU64| of.load(Relaxed);
            let (wrong, failed) = (count(&self.progress.wrong), count(&self.progress.failed));
            if wrong + failed > 0 || idle > STUCK {
                let seconds = f64::from(idle) * ROUND.as_secs_f64();
                return Err(Error::new(format!(
                    "{wrong} answers were wrong and {failed} connections failed; the last answer or \
                     connection came {seconds:.1} s of simulated time ago, and {} segments were sent again",
                    self.done().resent
                )));
            }
        }
        Ok(())
    }

    /// Answers and connections so far.
    fn moved(&self) -> u64 {
        self.progress.answers.load(Relaxed) + self.progress.opened.load(Relaxed)
    }

    /// Each host has turns until it has had all that came to it.
    fn round(&mut self) {
        self.now = self.now + ROUND;
        for end in &mut self.ends {
            for _ in 0..TURNS {
                let moved = end.turn(self.now);
                deliver(&self.handles);
                if moved < BATCH {
                    break;
                }
            }
        }
    }

    /// What was done since the world was made.
    fn done(&mut self) -> Done {
        let [client, server] = &mut self.ends;
        let (theirs, ours) = (client.host.stack().counters(), server.host.stack().counters());
        Done {
            answers: self.progress.answers.load(Relaxed),
            opened: self.progress.opened.load(Relaxed),
            resent: theirs.segments_resent + ours.segments_resent,
            received: ours.segments_received,
            sent: ours.segments_sent,
            server_ticks: server.ticks,
            client_ticks: client.ticks,
            turns: server.turns,
        }
    }
}

/// Has all that was sent come to the other side: else every other turn of few connections would
/// find nothing. The rings have room then. An end of the wire holds a burst of frames back until its
/// model's next step, which counts as none, so that all is quiet behind two such steps in a row.
fn deliver(handles: &[Handle]) {
    let mut quiet = 0;
    while quiet < 2 {
        let moved: usize = handles.iter().map(Handle::step_now).sum();
        quiet = if moved == 0 { quiet + 1 } else { 0 };
    }
}

/// Packets that the client and the server must be able to keep; half of them are to be sent and
/// acknowledged. An answer is acknowledged by the next request, so that the server keeps one for
/// each connection.
fn packets(shape: Shape) -> Result<[usize; 2]> {
    let Shape { connections, size, .. } = shape;
    let packets = 2 * u64::from(connections) * u64::from(segments(size)) + 2 * BATCH as u64;
    if connections > MOST_CONNECTIONS.min(PAIRS / 2) || packets > MOST_PACKETS {
        return Err(Error::usage(
            format!("{connections} connections with messages of {size} bytes are too many"),
            format!("choose up to {MOST_CONNECTIONS} connections, and fewer for long messages"),
        ));
    }
    Ok([4 * UNDER_WAY as usize, packets as usize])
}

/// A host on a port.
fn end(
    mut port: Ixgbe,
    service: Box<dyn Service>,
    address: std::net::Ipv4Addr,
    options: Options,
    packets: usize,
    dma: &Dma,
) -> Result<End> {
    let (Some(rx), Some(tx)) = (port.rx_queue(0), port.tx_queue(0)) else {
        return Err(Error::new("a port without queues"));
    };
    let mac = MacAddress(port.mac());
    let addresses = Addresses { mac, v4: Some((address, 24)), v6: None, gateways: (None, None) };
    let host = Host::new((rx, tx), addresses, &Neighbors::default(), options, service, packets);
    // Beside what the host keeps: two rings and two batches.
    let rings = PortOptions::default();
    let pool = Pool::new(dma, host.buffers() + rings.rx_ring + rings.tx_ring + 2 * Batch::MAX)?;
    Ok(End {
        host,
        pool,
        batch: Batch::with_limit(BATCH),
        ticks: 0,
        turns: 0,
        is_counted: false,
        _port: port,
    })
}
