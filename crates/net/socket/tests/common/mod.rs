//! Two hosts with streams, each on a thread of its own, and a wire of this process between them
//! that can be cut.
#![allow(dead_code, reason = "not every test file needs all of it")]

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use memory::{Backing, Batch, Dma, Pool};
use port::{Counter, RxQueue, RxStats, TxQueue, TxStats};
use runtime::{Instant, Poller};
use socket::{Engine, Limits, Network};
use tcp::{Addresses, Host, Neighbors, Options};
use wire::MacAddress;

pub const OWN: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
pub const PORT: u16 = 80;
/// A test that waits for so long has failed.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A direction of the wire.
#[derive(Clone, Default)]
struct Frames {
    frames: Arc<Mutex<VecDeque<Vec<u8>>>>,
    is_cut: Arc<AtomicBool>,
}

impl RxQueue for Frames {
    fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let mut frames = self.frames.lock().unwrap();
        let mut count = 0;
        while batch.room() > 0
            && let Some(frame) = frames.pop_front()
        {
            let mut packet = pool.alloc().expect("a buffer");
            packet.copy_from(&frame).expect("room");
            assert!(batch.push(packet).is_none());
            count += 1;
        }
        count
    }

    fn stats(&self) -> RxStats {
        RxStats::default()
    }
}

impl TxQueue for Frames {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let count = batch.len();
        if !self.is_cut.load(Ordering::Relaxed) {
            let mut frames = self.frames.lock().unwrap();
            frames.extend(batch.iter().map(|packet| packet.to_vec()));
        }
        pool.free_batch(batch);
        count
    }

    fn clean(&mut self, _: &mut Pool) -> usize {
        0
    }

    fn stats(&self) -> TxStats {
        TxStats::default()
    }
}

/// A host's thread.
pub struct Side {
    pub network: Network,
    pub address: IpAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Counter>>>,
}

impl Side {
    fn start(n: usize, rx: Frames, tx: Frames, options: Options, limits: Limits) -> Side {
        let address = OWN[n].into();
        let (network, mut engine) = socket::network(&[address], limits).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let ends = stop.clone();
        let thread = thread::spawn(move || {
            let report = tcp::Report::default();
            engine.report_to(&report);
            run(host(n, rx, tx, options, engine), &report, &ends)
        });
        Side { network, address, stop, thread: Some(thread) }
    }

    /// An address of this host.
    pub fn at(&self, port: u16) -> SocketAddr {
        (self.address, port).into()
    }

    /// Ends it; what it counted.
    pub fn end(&mut self) -> Vec<Counter> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or(Vec::new(), |thread| thread.join().expect("the host does not panic"))
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

fn host(n: usize, rx: Frames, tx: Frames, options: Options, engine: Engine) -> Host {
    let mac = MacAddress([2, 0, 0, 0, 0, n as u8 + 1]);
    let addresses = Addresses { mac, v4: Some((OWN[n], 24)), v6: None, gateways: (None, None) };
    let options = Options { key: [n as u64, 7], nagle: false, ..options };
    Host::new((Box::new(rx), Box::new(tx)), addresses, &Neighbors::default(), options, Box::new(engine), 2048)
}

/// Polls a host until it is to end; its buffers must all come back.
fn run(mut host: Host, report: &tcp::Report, ends: &AtomicBool) -> Vec<Counter> {
    let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
    let mut pool = Pool::new(&dma, 4096).expect("memory");
    let mut batch = Batch::with_limit(64);
    while !ends.load(Ordering::Relaxed) {
        if host.turn(Instant::now(), &mut pool, &mut batch) == 0 {
            thread::yield_now();
        }
    }
    let counters = host.counters();
    drop(host);
    assert_eq!(pool.available(), pool.capacity(), "buffers that did not come back");
    let streams = std::mem::take(&mut *report.lock().unwrap());
    counters.into_iter().chain(streams).collect()
}

/// Two hosts and the wire between them.
pub struct Pair {
    pub sides: [Side; 2],
    wires: [Frames; 2],
}

impl Pair {
    pub fn new() -> Pair {
        Pair::with(Options::default(), Limits::default())
    }

    pub fn with(options: Options, limits: Limits) -> Pair {
        let wires = [Frames::default(), Frames::default()];
        let [there, back] = wires.clone();
        let sides = [
            Side::start(0, back.clone(), there.clone(), options, limits),
            Side::start(1, there, back, options, limits),
        ];
        Pair { sides, wires }
    }

    /// Nothing arrives any more.
    pub fn cut(&self) {
        self.wires.iter().for_each(|wire| wire.is_cut.store(true, Ordering::Relaxed));
    }
}

/// What a host counted under a name.
pub fn count(counters: &[Counter], name: &str) -> u64 {
    counters.iter().find(|counter| counter.name == name).expect("a counter of this name").value
}

/// Bytes of which each is known.
pub fn data(len: usize) -> Vec<u8> {
    (0..len as u64).map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

/// Waits for something that another thread does.
pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LIMIT, "{what} within {LIMIT:?}");
        thread::yield_now();
    }
}
