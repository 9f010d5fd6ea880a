//! The tester: it sends packets that say when they were due, steps the models, and receives.

use bus::tsc;
use driver::ixgbe::Ixgbe;
use hdrhistogram::Histogram;
use memory::{Batch, Pool};
use port::{RxQueue, TxQueue};
use rustix::time::{ClockId, clock_gettime};
use testbed::inprocess::Handle;
use wire::{ethernet, ipv4, udp};

use super::Seen;
use crate::growth::keys::{self, LENGTH};
use crate::{Error, Result};

/// Packets that it sends or receives at a time.
const BURST: usize = 32;
/// Where a frame says when it was due, in ticks.
const STAMP: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN;
/// Bytes of that.
const STAMP_LEN: usize = size_of::<u64>();
/// The longest delay that is told apart, in nanoseconds; longer ones count as this.
const LONGEST_NS: u64 = 10_000_000_000;
/// Packets under way when as many are sent as there is room for.
const UNDER_WAY: u64 = 1024;
/// Seconds in which the last packets may come: longer than a busy machine takes a core away.
const DRAIN: f64 = 1.0;

/// Two ports, one to send on and one to receive from, and all models.
pub(super) struct Tester {
    pub(super) tx: Box<dyn TxQueue>,
    pub(super) rx: Box<dyn RxQueue>,
    pub(super) pool: Pool,
    pub(super) handles: Vec<Handle>,
    pub(super) _ports: Vec<Ixgbe>,
}

/// One run of the tester.
struct Run {
    /// Ticks between packets; none where as many are sent as there is room for.
    gap: Option<f64>,
    start: u64,
    /// Packets that were due before this are not counted.
    counts_from: u64,
    ticks_per_ns: f64,
    sent: u64,
    received: u64,
    delays: Histogram<u64>,
    frame: keys::Frame,
}

impl Run {
    fn new(gap: Option<f64>, seconds: f64) -> Run {
        let mut frame = [0; LENGTH];
        // From the net of the router's first port to that of its second.
        keys::write((0x0A00_0002, 1024), (0x0A01_0002, 1024), &mut frame);
        let (start, hz) = (tsc::now(), tsc::hz() as f64);
        Run {
            gap,
            start,
            counts_from: start + (seconds * hz / 10.0) as u64,
            ticks_per_ns: hz / 1e9,
            sent: 0,
            received: 0,
            // The bounds are constants that it takes.
            delays: Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("bounds of a histogram"),
            frame,
        }
    }

    /// Packets that are due.
    fn due(&self, now: u64) -> usize {
        let due = match self.gap {
            Some(gap) => ((now - self.start) as f64 / gap) as u64 - self.sent,
            None => (UNDER_WAY + self.received).saturating_sub(self.sent),
        };
        due.min(BURST as u64) as usize
    }

    /// When a packet was due.
    fn due_at(&self, number: u64, now: u64) -> u64 {
        self.gap.map_or(now, |gap| self.start + (number as f64 * gap) as u64)
    }

    fn count(&mut self, packets: &[memory::Packet]) {
        let now = tsc::now();
        for packet in packets {
            let stamp = packet.get(STAMP..STAMP + STAMP_LEN).and_then(|bytes| bytes.first_chunk());
            let Some(due_at) = stamp.map(|bytes| u64::from_be_bytes(*bytes)) else { continue };
            // Packets of an earlier run, which were late.
            if due_at < self.start {
                continue;
            }
            self.received += 1;
            if due_at >= self.counts_from {
                let ns = (now.saturating_sub(due_at) as f64 / self.ticks_per_ns) as u64;
                self.delays.saturating_record(ns.clamp(1, LONGEST_NS));
            }
        }
    }
}

impl Tester {
    /// The most packets in a second that come through.
    ///
    /// # Errors
    /// When none do.
    pub(super) fn flood(&mut self, seconds: f64) -> Result<f64> {
        let seen = self.run(None, seconds);
        if seen.received == 0 {
            return Err(Error::new(format!("none of {} packets came through", seen.sent)));
        }
        Ok(seen.received as f64 / seen.seconds)
    }

    /// Sends so many packets in a second.
    ///
    /// # Errors
    /// When no packet's delay was counted.
    pub(super) fn send(&mut self, per_s: f64, seconds: f64) -> Result<Seen> {
        let seen = self.run(Some(tsc::hz() as f64 / per_s.max(1.0)), seconds);
        if seen.delays.is_empty() {
            return Err(Error::usage(
                format!("no packet came through at {per_s:.0} packets in a second"),
                "write more --seconds",
            ));
        }
        Ok(seen)
    }

    fn run(&mut self, gap: Option<f64>, seconds: f64) -> Seen {
        let mut batch = Batch::with_limit(BURST);
        let processor = processor_of_others();
        let mut run = Run::new(gap, seconds);
        let end = run.start + (seconds * tsc::hz() as f64) as u64;
        let mut now = run.start;
        while now < end {
            self.send_due(&mut run, &mut batch, now);
            self.receive(&mut run, &mut batch);
            now = tsc::now();
        }
        let processor = processor_of_others() - processor;
        let end = now + (DRAIN * tsc::hz() as f64) as u64;
        while run.received < run.sent && tsc::now() < end {
            self.receive(&mut run, &mut batch);
        }
        let seconds = (now - run.start) as f64 / tsc::hz() as f64;
        let Run { sent, received, delays, .. } = run;
        Seen { sent, received, seconds, processor: processor.max(0.0) / seconds, delays }
    }

    fn send_due(&mut self, run: &mut Run, batch: &mut Batch, now: u64) {
        let due = run.due(now);
        if due == 0 {
            return;
        }
        self.pool.alloc_batch(batch, due);
        for (number, packet) in (run.sent..).zip(batch.iter_mut()) {
            let stamp = run.due_at(number, now).to_be_bytes();
            run.frame[STAMP..STAMP + STAMP_LEN].copy_from_slice(&stamp);
            let _fits = packet.copy_from(&run.frame);
        }
        // What finds no room is sent later, and was due as early.
        run.sent += self.tx.send(&mut self.pool, batch) as u64;
        self.pool.free_batch(batch);
    }

    fn receive(&mut self, run: &mut Run, batch: &mut Batch) {
        for handle in &self.handles {
            handle.step_now();
        }
        if self.rx.recv(&mut self.pool, batch) > 0 {
            run.count(batch);
            self.pool.free_batch(batch);
        }
        self.tx.clean(&mut self.pool);
    }
}

/// Seconds of processor time of all threads but this one.
fn processor_of_others() -> f64 {
    let seconds = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    seconds(ClockId::ProcessCPUTime) - seconds(ClockId::ThreadCPUTime)
}
