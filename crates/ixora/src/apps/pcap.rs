//! Captures what a port receives, as pcapng.

use std::fs::File;
use std::io::BufWriter;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use interface::pcap::{PacketOptions, Writer};
use port::{Batch, Packet, Pool, RxQueue};
use runtime::{Instant, Poller, Queue};

use crate::{Failure, cli, open, run, signal};

/// The file, shared by the queues' threads, and what may still be written.
struct Output {
    writer: Writer<BufWriter<File>>,
    left: u64,
    error: Option<std::io::Error>,
}

/// One receive queue.
struct Capture {
    rx: Box<dyn RxQueue>,
    output: Arc<Mutex<Output>>,
    path: String,
}

impl Output {
    fn write(&mut self, packet: &Packet, now_ns: u64) {
        let joined: Vec<u8>;
        let bytes = match packet.next() {
            None => &packet[..],
            Some(_) => {
                joined = packet.segments().flat_map(|segment| segment.iter().copied()).collect();
                &joined
            }
        };
        match self.writer.write(0, now_ns, bytes, PacketOptions::default()) {
            Ok(()) => self.left -= 1,
            Err(error) => self.error = Some(error),
        }
    }
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
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64);
        let mut output = self.output();
        let before = output.left;
        for packet in batch.iter() {
            if output.left > 0 && output.error.is_none() {
                output.write(packet, now);
            }
        }
        let written = before - output.left;
        drop(output);
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
        let error = self.output().error.take()?;
        Some(format!("cannot write {}: {error}", self.path).into())
    }
}

/// `ixora pcap A FILE`. The file is made when the port is open, so that a wrong
/// name costs no older capture.
pub fn run(arguments: &cli::Pcap) -> Result<(), Failure> {
    let options = &cli::PortOptions { count: None, ..arguments.port.clone() };
    let path = arguments.file.display().to_string();
    let failed = |error: std::io::Error| Failure::new(format!("cannot write {path}: {error}"));
    let stop = signal::stop_flag()?;
    let mut ports = open::ports(&[&arguments.a], options, &stop)?;
    let file = BufWriter::new(File::create(&arguments.file).map_err(failed)?);
    let writer = Writer::new(file, &[arguments.a.as_str()]).map_err(failed)?;
    let left = arguments.port.count.unwrap_or(u64::MAX);
    let output = Arc::new(Mutex::new(Output { writer, left, error: None }));
    let mut pollers: Vec<Box<dyn Poller>> = Vec::new();
    for n in 0..options.open.rx_queues {
        let (rx, output, path) = (ports.rx_whole(0, n)?, output.clone(), path.clone());
        pollers.push(Box::new(Capture { rx, output, path }));
    }
    let ran = run::run("pcap", ports, pollers, options, &stop);
    let flushed = output.lock().unwrap_or_else(PoisonError::into_inner).writer.flush();
    ran.and(flushed.map_err(failed))
}
