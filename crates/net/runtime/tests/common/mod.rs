//! A device without hardware, and a poller that does what a test tells it.
#![allow(dead_code, reason = "not every test file needs all of it")]

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use memory::{Backing, Dma};
use port::{Batch, Packet, Pool, RxQueue, RxStats, TxQueue, TxStats};
use runtime::{Error, Finished, Instant, Options, Poller, Progress, Queue, Running, Runtime, Wakeup};

/// How long what a thread does is waited for. Only a fault takes so long.
const LONG: Duration = Duration::from_secs(60);
/// A sleep that a test does not wait for.
pub const HOUR: Duration = Duration::from_secs(3600);
/// Descriptors of each ring.
pub const RING: usize = 64;

/// Waits for what a thread does.
#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !done() {
        assert!(begin.elapsed() < LONG, "waited for {what}");
        std::thread::yield_now();
    }
}

/// The device's end of a receive queue.
pub struct Device {
    arrived: AtomicUsize,
    interrupt: Wakeup,
    has_interrupt: bool,
    arms: AtomicUsize,
    disarms: AtomicUsize,
    buffers: AtomicUsize,
    is_broken: AtomicBool,
}

impl Device {
    pub fn new(has_interrupt: bool) -> Arc<Device> {
        let interrupt = Wakeup::new().expect("a descriptor");
        let (arrived, arms, disarms, buffers, is_broken) = Default::default();
        Arc::new(Device { arrived, interrupt, has_interrupt, arms, disarms, buffers, is_broken })
    }

    /// Who fills its ring panics.
    pub fn break_ring(&self) {
        self.is_broken.store(true, SeqCst);
    }

    /// Buffers in its ring.
    pub fn buffers(&self) -> usize {
        self.buffers.load(SeqCst)
    }

    /// Packets that nobody has taken.
    pub fn waiting(&self) -> usize {
        self.arrived.load(SeqCst)
    }

    /// Packets arrive, and the device says so if it was armed.
    pub fn give(&self, packets: usize) {
        self.arrived.fetch_add(packets, SeqCst);
        self.interrupt.wake();
    }

    /// Whether the thread sleeps, or looks no more before it does: it arms twice, and
    /// looks in between.
    pub fn is_slept_on(&self) -> bool {
        self.arms.load(SeqCst) == 2 * self.disarms.load(SeqCst) + 2
    }
}

/// A receive queue whose ring holds buffers as a device's does.
pub struct Rx {
    pub device: Arc<Device>,
    ring: VecDeque<Packet>,
    stats: RxStats,
}

impl Rx {
    pub fn of(device: &Arc<Device>) -> Rx {
        Rx { device: device.clone(), ring: VecDeque::new(), stats: RxStats::default() }
    }
}

impl RxQueue for Rx {
    fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let count = self.device.arrived.load(SeqCst).min(batch.room()).min(self.ring.len());
        self.device.arrived.fetch_sub(count, SeqCst);
        for packet in self.ring.drain(..count) {
            assert!(batch.push(packet).is_none(), "there is room");
        }
        while self.ring.len() < RING {
            let Some(packet) = pool.alloc() else {
                self.stats.no_buffer += 1;
                break;
            };
            self.ring.push_back(packet);
        }
        self.device.buffers.store(self.ring.len(), SeqCst);
        assert!(!self.device.is_broken.load(SeqCst), "the ring is broken");
        self.stats.packets += count as u64;
        count
    }

    fn stats(&self) -> RxStats {
        self.stats
    }

    fn arm(&mut self) -> Option<BorrowedFd<'_>> {
        self.device.arms.fetch_add(1, SeqCst);
        self.device.has_interrupt.then(|| self.device.interrupt.as_fd())
    }

    fn disarm(&mut self) {
        // What was armed twice and slept on is disarmed once; what was armed once and not
        // slept on counts as if it had been armed twice.
        let (arms, disarms) = (self.device.arms.load(SeqCst), self.device.disarms.load(SeqCst));
        self.device.arms.store(2 * disarms + 2, SeqCst);
        assert!(arms <= 2 * disarms + 2, "armed {arms} times, disarmed {disarms} times");
        self.device.interrupt.clear();
        self.device.disarms.fetch_add(1, SeqCst);
    }
}

/// A transmit queue whose device sends a packet each fourth time it is looked at.
pub struct Tx {
    ring: VecDeque<Packet>,
    looks: usize,
    stats: TxStats,
    /// Packets on the wire.
    pub sent: Arc<AtomicUsize>,
}

impl Tx {
    pub fn new() -> Tx {
        Tx { ring: VecDeque::new(), looks: 0, stats: TxStats::default(), sent: Arc::default() }
    }
}

impl TxQueue for Tx {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        self.clean(pool);
        let mut taken = 0;
        while self.ring.len() < RING {
            let Some(packet) = batch.pop_front() else { break };
            self.ring.push_back(packet);
            taken += 1;
        }
        self.stats.packets += taken;
        self.stats.ring_full += batch.len() as u64;
        taken as usize
    }

    fn clean(&mut self, pool: &mut Pool) -> usize {
        self.looks += 1;
        if self.looks.is_multiple_of(4)
            && let Some(packet) = self.ring.pop_front()
        {
            pool.free(packet);
            self.sent.fetch_add(1, SeqCst);
        }
        self.ring.len()
    }

    fn stats(&self) -> TxStats {
        self.stats
    }
}

/// What a turn of a test's poller does beside receiving and sending.
pub type Then = Box<dyn FnMut(Instant) -> usize + Send>;

/// Sends what it receives at the queue of the same number, and then does what the test
/// says.
pub struct Fake {
    pub rx: Vec<Rx>,
    pub tx: Vec<Tx>,
    pub then: Then,
    /// Takes the first packet of each batch.
    pub keep: Option<Box<dyn FnMut(Packet) + Send>>,
    pub deadline: Option<Instant>,
    pub wakeup: Option<Arc<Wakeup>>,
    pub done: Arc<AtomicBool>,
    pub failure: Arc<AtomicBool>,
    pub turns: Arc<AtomicUsize>,
    pub buffers: usize,
    /// How large the pool is that its turns get.
    pub pool: Arc<AtomicUsize>,
}

impl Fake {
    /// One that receives from these devices.
    pub fn of(devices: &[&Arc<Device>]) -> Fake {
        Fake {
            rx: devices.iter().map(|device| Rx::of(device)).collect(),
            tx: Vec::new(),
            then: Box::new(|_| 0),
            keep: None,
            deadline: None,
            wakeup: None,
            done: Arc::default(),
            failure: Arc::default(),
            turns: Arc::default(),
            buffers: 0,
            pool: Arc::default(),
        }
    }
}

impl Poller for Fake {
    fn turn(&mut self, now: Instant, pool: &mut Pool, batch: &mut Batch) -> usize {
        self.turns.fetch_add(1, SeqCst);
        self.pool.store(pool.capacity(), SeqCst);
        let mut moved = 0;
        for (n, rx) in self.rx.iter_mut().enumerate() {
            moved += rx.recv(pool, batch);
            if let Some(keep) = &mut self.keep {
                batch.pop_front().into_iter().for_each(keep);
            }
            if let Some(tx) = self.tx.get_mut(n) {
                tx.send(pool, batch);
            }
            pool.free_batch(batch);
        }
        moved += (self.then)(now);
        moved
    }

    fn queues<'a>(&'a mut self, visit: &mut dyn FnMut(Queue<'a>)) {
        self.rx.iter_mut().for_each(|rx| visit(Queue::Rx(rx)));
        self.tx.iter_mut().for_each(|tx| visit(Queue::Tx(tx)));
    }

    fn buffers(&self) -> usize {
        self.buffers
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn wakeup(&self) -> Option<Arc<Wakeup>> {
        self.wakeup.clone()
    }

    fn is_done(&self) -> bool {
        self.done.load(SeqCst)
    }

    fn failure(&mut self) -> Option<Box<dyn std::error::Error + Send + Sync>> {
        self.failure.swap(false, SeqCst).then(|| "this poller fails".into())
    }
}

/// Threads that sleep as long as they may.
pub fn options(threads: usize) -> Options {
    Options {
        name: "test",
        threads,
        cores: Vec::new(),
        sleep: Some(HOUR),
        batch: 32,
        rx_ring: RING,
        tx_ring: RING,
        max_frame: 1514,
        count: None,
    }
}

/// The threads of these pollers.
pub fn runtime(options: &Options, pollers: Vec<Fake>) -> Result<Runtime, Error> {
    let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
    let pollers = pollers.into_iter().map(|poller| Box::new(poller) as Box<dyn Poller>);
    Runtime::new(&dma, pollers.collect(), options, &Arc::default(), &Arc::<Progress>::default())
}

/// Starts a thread for each poller.
pub fn start(options: &Options, pollers: Vec<Fake>) -> Running {
    runtime(options, pollers).expect("memory").start(|| Ok(()))
}

/// Ends threads, and fails if one of them does not end.
#[track_caller]
pub fn end(running: Running) -> Finished {
    let (give, take) = mpsc::channel();
    std::thread::spawn(move || give.send(running.end()).is_ok());
    take.recv_timeout(LONG).expect("all threads end")
}
