//! Ports on minimal devices that take their steps between a router's polls.
//!
//! A device takes a step when its queue was found empty, or full, on the thread that
//! wants something of it; how long that took is known, so that on one thread the router's own cycles
//! are what is left. A [`Gauge`] counts packets where they enter the router, leaves
//! the first out, and ends the router when all threads have had as many as wanted.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use driver::ixgbe::Ixgbe;
use graph::RouterShared;
use memory::{Batch, Dma, Pool};
use port::{Capabilities, Link, Options, Port, PortStats, RxQueue, RxStats, TxQueue, TxStats};
use testbed::inprocess::{self, Handle};

use crate::Result;

/// What a receive queue does beside receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Manner {
    /// Nothing: the buffer that was received is the one that goes on.
    #[default]
    ZeroCopy,
    /// Copies each packet into another buffer.
    Copy,
    /// Receives as many as are asked for, and lets packets go on one at a time.
    OneByOne,
}

/// Packets of one thread between two moments.
#[derive(Debug, Default)]
struct Count {
    seen: AtomicU64,
    spent: AtomicU64,
    began_at: AtomicU64,
    /// What was seen and spent at the beginning.
    began: [AtomicU64; 2],
    ticks: AtomicU64,
}

/// Counts packets of some threads, and ends the router.
pub struct Gauge {
    counts: Vec<Count>,
    warm: u64,
    wanted: u64,
    left: AtomicUsize,
    /// The router that it ends.
    pub router: OnceLock<Arc<RouterShared>>,
    /// The devices, who have to be there when their ports are closed.
    pub devices: OnceLock<Vec<Handle>>,
}

/// What one thread did.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Packets that came in.
    pub packets: u64,
    /// TSC ticks from the first packet that counted to the last.
    pub wall: u64,
    /// Of these, the devices' steps.
    pub spent: u64,
}

impl Gauge {
    /// For so many threads; each is to bring `wanted` packets.
    pub fn new(threads: usize, wanted: u64) -> Gauge {
        let counts = (0..threads).map(|_| Count::default()).collect();
        Gauge {
            counts,
            warm: wanted / 8,
            wanted,
            left: AtomicUsize::new(threads),
            router: OnceLock::new(),
            devices: OnceLock::new(),
        }
    }

    /// What each thread did.
    pub fn measured(&self) -> Vec<Measured> {
        let of = |c: &Count| {
            let spent = c.spent.load(Relaxed) - c.began[1].load(Relaxed);
            Measured { packets: self.wanted, wall: c.ticks.load(Relaxed), spent }
        };
        self.counts.iter().map(of).collect()
    }

    /// All packets that came in, before and after as well.
    pub fn seen(&self) -> u64 {
        self.counts.iter().map(|c| c.seen.load(Relaxed)).sum()
    }

    #[inline]
    fn count(&self, thread: usize, packets: usize) {
        let c = &self.counts[thread];
        // Only this thread writes here: no need to add atomically.
        let seen = c.seen.load(Relaxed) + packets as u64;
        c.seen.store(seen, Relaxed);
        let (began, at) = (c.began_at.load(Relaxed), c.began[0].load(Relaxed));
        if began == 0 && seen >= self.warm {
            c.began[0].store(seen, Relaxed);
            c.began[1].store(c.spent.load(Relaxed), Relaxed);
            c.began_at.store(bus::tsc::now(), Relaxed);
        } else if began != 0 && seen >= at + self.wanted && c.ticks.load(Relaxed) == 0 {
            self.end(c, began);
        }
    }

    #[cold]
    fn end(&self, count: &Count, began: u64) {
        count.ticks.store(bus::tsc::now() - began, Relaxed);
        // What is spent from now on belongs to nobody.
        let spent = count.spent.load(Relaxed) - count.began[1].load(Relaxed);
        count.began[1].store(0, Relaxed);
        count.spent.store(spent, Relaxed);
        if self.left.fetch_sub(1, Relaxed) == 1
            && let Some(router) = self.router.get()
        {
            router.end();
        }
    }

    #[inline(never)]
    fn step(&self, thread: usize, handles: &[Handle]) {
        let start = bus::tsc::now();
        for handle in handles {
            handle.step_now();
        }
        let c = &self.counts[thread];
        if c.ticks.load(Relaxed) == 0 {
            c.spent.store(c.spent.load(Relaxed) + bus::tsc::now() - start, Relaxed);
        }
    }
}

/// A port, its device, and what is done with both.
pub struct Stepped {
    inner: Ixgbe,
    name: String,
    own: Handle,
    /// All that step when a receive queue is empty.
    handles: Vec<Handle>,
    gauge: Arc<Gauge>,
    thread: usize,
    manner: Manner,
    transmit_queues: usize,
}

/// How ports are opened.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// Descriptors in each ring.
    pub ring: usize,
    /// What receive queues do.
    pub manner: Manner,
    /// Transmit queues of each port.
    pub transmit_queues: usize,
    /// Threads that receive.
    pub receiving: usize,
}

/// Opens a port for each set of frames; port n is polled by thread n modulo the
/// gauge's. With one thread all devices step whenever one queue is empty.
///
/// # Errors
/// What the driver says.
pub fn open(
    dma: &Dma,
    frames: Vec<Vec<Vec<u8>>>,
    setup: Setup,
    gauge: &Arc<Gauge>,
) -> Result<Vec<Box<dyn Port>>> {
    let mut ports = vec![];
    for frames in frames {
        let (pci, handle) = crate::device::minimal(frames)?;
        let (rx_ring, tx_ring, tx_queues) = (setup.ring, setup.ring, setup.transmit_queues);
        let options = Options { rx_ring, tx_ring, tx_queues, link_wait_ms: 0, ..Options::default() };
        let open = || Ixgbe::open(pci, dma, options);
        let inner = inprocess::while_stepping(std::slice::from_ref(&handle), open);
        ports.push((inner.map_err(crate::two_cores::no_thread)??, handle));
    }
    let handles: Vec<Handle> = ports.iter().map(|(_, handle)| handle.clone()).collect();
    let _first = gauge.devices.set(handles.clone());
    let threads = gauge.counts.len();
    let stepped = |(n, (inner, handle)): (usize, (Ixgbe, Handle))| {
        let own = handle.clone();
        let handles = if threads == 1 { handles.clone() } else { vec![handle] };
        let port = Stepped {
            inner,
            name: format!("minimal:{n}"),
            own,
            handles,
            gauge: gauge.clone(),
            thread: n % threads,
            manner: setup.manner,
            transmit_queues: setup.transmit_queues,
        };
        Box::new(port) as Box<dyn Port>
    };
    Ok(ports.into_iter().enumerate().map(stepped).collect())
}

impl Port for Stepped {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { tx_queues: self.transmit_queues, ..self.inner.capabilities() }
    }

    fn mac(&self) -> [u8; 6] {
        self.inner.mac()
    }

    fn link(&self) -> Link {
        self.inner.link()
    }

    fn stats(&mut self) -> PortStats {
        self.inner.stats()
    }

    fn rx_queue(&mut self, index: usize) -> Option<Box<dyn RxQueue>> {
        let polled = Polled {
            inner: self.inner.rx_queue(index)?,
            handles: self.handles.clone(),
            gauge: self.gauge.clone(),
            thread: self.thread,
        };
        Some(match self.manner {
            Manner::ZeroCopy => Box::new(polled),
            Manner::Copy => Box::new(Copying { inner: polled, batch: Batch::with_limit(Batch::MAX) }),
            Manner::OneByOne => Box::new(OneByOne { inner: polled, batch: Batch::with_limit(32) }),
        })
    }

    /// A thread has the queue of its number, where there are as many.
    fn tx_queue(&mut self, index: usize) -> Option<Box<dyn TxQueue>> {
        Some(Box::new(Filled {
            inner: self.inner.tx_queue(index)?,
            handle: [self.own.clone()],
            gauge: self.gauge.clone(),
            thread: index % self.gauge.counts.len(),
        }))
    }

    fn set_promiscuous(&mut self, on: bool) -> port::Result<()> {
        self.inner.set_promiscuous(on)
    }

    fn stop(&mut self) -> port::Result<()> {
        self.inner.stop()
    }
}

/// A receive queue whose device steps when it is empty.
struct Polled {
    inner: Box<dyn RxQueue>,
    handles: Vec<Handle>,
    gauge: Arc<Gauge>,
    thread: usize,
}

impl RxQueue for Polled {
    fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let mut received = self.inner.recv(pool, batch);
        if received == 0 {
            self.gauge.step(self.thread, &self.handles);
            received = self.inner.recv(pool, batch);
        }
        self.gauge.count(self.thread, received);
        received
    }

    fn stats(&self) -> RxStats {
        self.inner.stats()
    }
}

/// A transmit queue whose device steps when it is full.
struct Filled {
    inner: Box<dyn TxQueue>,
    handle: [Handle; 1],
    gauge: Arc<Gauge>,
    thread: usize,
}

impl TxQueue for Filled {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let mut sent = self.inner.send(pool, batch);
        if !batch.is_empty() {
            self.gauge.step(self.thread, &self.handle);
            sent += self.inner.send(pool, batch);
        }
        sent
    }

    fn clean(&mut self, pool: &mut Pool) -> usize {
        self.inner.clean(pool)
    }

    fn stats(&self) -> TxStats {
        self.inner.stats()
    }
}

/// Copies what it receives.
struct Copying {
    inner: Polled,
    batch: Batch,
}

impl RxQueue for Copying {
    fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let room = batch.room().min(self.batch.room());
        let mut received = Batch::with_limit(room);
        self.inner.recv(pool, &mut received);
        let before = batch.len();
        pool.alloc_batch(batch, received.len());
        for (copy, packet) in batch[before..].iter_mut().zip(received.iter()) {
            let _fits = copy.copy_from(packet);
        }
        pool.free_batch(&mut received);
        batch.len() - before
    }

    fn stats(&self) -> RxStats {
        self.inner.stats()
    }
}

/// Gives one packet at a time.
struct OneByOne {
    inner: Polled,
    batch: Batch,
}

impl RxQueue for OneByOne {
    fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        if self.batch.is_empty() {
            self.inner.recv(pool, &mut self.batch);
        }
        batch.take_from(&mut self.batch, 1)
    }

    fn stats(&self) -> RxStats {
        self.inner.stats()
    }
}
