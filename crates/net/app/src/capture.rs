//! Captures what a queue receives, as pcapng.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use interface::pcap::{Blocks, PacketOptions, Writer, put};
use port::{Batch, Packet, Pool, RxQueue};
use runtime::{Instant, Poller, Queue};

/// The file, shared by the queues' threads, and what may still be written.
pub struct Output {
    writer: Writer<Blocks>,
    left: u64,
    error: Option<std::io::Error>,
    /// Packets that were received and are not in the file.
    not_written: u64,
}

/// One receive queue.
pub struct Capture {
    /// Where packets come from.
    pub rx: Box<dyn RxQueue>,
    /// Where they are written.
    pub output: Arc<Mutex<Output>>,
    /// The name of that file, for messages.
    pub path: String,
    /// Packets carry the time at which they were received; those of which it is not known, zero.
    pub stamped: bool,
}

impl Output {
    /// A file whose interface was described, for so many packets.
    pub fn new(writer: Writer<Blocks>, packets: u64) -> Output {
        Output { writer, left: packets, error: None, not_written: 0 }
    }

    /// What is written to; nothing after an error.
    pub fn intact(&mut self) -> Option<&mut Writer<Blocks>> {
        self.error.is_none().then_some(&mut self.writer)
    }

    /// Writes a batch to the file; how many packets it took.
    fn write_batch(&mut self, batch: &Batch, time_ns: impl Fn(&Packet) -> u64) -> u64 {
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(batch.len());
        let mut written = 0;
        if let Some(writer) = self.intact() {
            let packets = batch.iter().take(wanted);
            let (took, done) = put(writer, packets, |writer, packet| write(writer, packet, time_ns(packet)));
            (written, self.error) = (took, done.err());
        }
        self.not_written += wanted as u64 - written;
        self.left -= written;
        written
    }

    /// Packets that were received and are not in the file.
    pub fn not_written(&self) -> u64 {
        self.not_written
    }
}

fn write(writer: &mut Writer<Blocks>, packet: &Packet, time_ns: u64) -> std::io::Result<()> {
    let joined: Vec<u8>;
    let bytes = match packet.next() {
        None => &packet[..],
        Some(_) => {
            joined = packet.segments().flat_map(|segment| segment.iter().copied()).collect();
            &joined
        }
    };
    writer.write(0, time_ns, bytes, PacketOptions::default())
}

impl Capture {
    fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Poller for Capture {
    /// What comes after the last packet that was asked for is not counted.
    fn turn(&mut self, _now: Instant, pool: &mut Pool, batch: &mut Batch) -> usize {
        if self.rx.recv(pool, batch) == 0 {
            return 0;
        }
        let now = now_ns();
        let told = |packet: &Packet| u64::try_from(packet.annotations().timestamp_ns).ok();
        let stamp = |packet: &Packet| match self.stamped {
            true => told(packet).filter(|stamp| *stamp != 0).unwrap_or(now),
            false => now,
        };
        let written = self.output().write_batch(batch, stamp);
        pool.free_batch(batch);
        written as usize
    }

    fn queues<'a>(&'a mut self, visit: &mut dyn FnMut(Queue<'a>)) {
        visit(Queue::Rx(&mut *self.rx));
    }

    fn is_done(&self) -> bool {
        self.output().left == 0
    }

    fn failure(&mut self) -> Option<Box<dyn std::error::Error + Send + Sync>> {
        let output = self.output();
        let error = output.error.as_ref()?;
        Some(format!("cannot write {}: {error}", self.path).into())
    }
}

/// Nanoseconds since 1970.
pub fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64)
}
