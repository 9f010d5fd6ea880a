//! Captures what a port receives, as pcapng.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use interface::pcap::{Blocks, PacketOptions, Writer};
use port::{Batch, Counter, Feature, Packet, Pool, Reason, RxQueue};
use runtime::confine::Needs;
use runtime::{Instant, Poller, Queue};

use crate::{Failure, cli, open, run, signal};

/// The file, shared by the queues' threads, and what may still be written.
struct Output {
    writer: Writer<Blocks>,
    left: u64,
    error: Option<std::io::Error>,
    /// Packets that came after an error.
    not_tried: u64,
}

/// One receive queue.
struct Capture {
    rx: Box<dyn RxQueue>,
    output: Arc<Mutex<Output>>,
    path: String,
    /// Packets carry the time at which they were received.
    stamped: bool,
}

impl Output {
    /// Writes a batch to the file; how many packets it took.
    fn write_batch(&mut self, batch: &Batch, time_ns: impl Fn(&Packet) -> u64) -> u64 {
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(batch.len());
        let (mut tried, before) = (0, self.writer.output().lost());
        while tried < wanted && self.error.is_none() {
            let packet = &batch[tried];
            self.error = self.write(packet, time_ns(packet)).err();
            tried += 1;
        }
        // Each batch goes to the file at once: what was counted is there.
        if self.error.is_none() {
            self.error = self.writer.flush().err();
        }
        self.not_tried += (wanted - tried) as u64;
        let written = tried as u64 - (self.writer.output().lost() - before);
        self.left -= written;
        written
    }

    /// Packets that were received and are not in the file.
    fn not_written(&self) -> u64 {
        self.not_tried + self.writer.output().lost()
    }

    fn write(&mut self, packet: &Packet, time_ns: u64) -> std::io::Result<()> {
        let joined: Vec<u8>;
        let bytes = match packet.next() {
            None => &packet[..],
            Some(_) => {
                joined = packet.segments().flat_map(|segment| segment.iter().copied()).collect();
                &joined
            }
        };
        self.writer.write(0, time_ns, bytes, PacketOptions::default())
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
        let now = now_ns();
        let stamp = |packet: &Packet| match self.stamped {
            true => u64::try_from(packet.annotations().timestamp_ns).unwrap_or(now),
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
fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64)
}

/// The file of this name, made anew; standard output for `-`.
fn create(path: &Path) -> std::io::Result<File> {
    match path == Path::new("-") {
        true => std::io::stdout().as_fd().try_clone_to_owned().map(File::from),
        false => File::create(path),
    }
}

/// `ixora pcap A FILE`. The file is made when the port is open, so that a wrong
/// name costs no older capture.
pub fn run(arguments: &cli::Pcap) -> Result<(), Failure> {
    let mut options = cli::PortOptions { count: None, ..arguments.port.clone() };
    options.open.timestamps = true;
    let options = &options;
    let path = arguments.file.display().to_string();
    let failed = |error: std::io::Error| Failure::new(format!("cannot write {path}: {error}"));
    let stop = signal::stop_flag()?;
    let mut ports = open::ports(&[&arguments.a], options, &stop)?;
    let stamped = ports.list[0].capabilities().has(Feature::Timestamps);
    let stamps = if stamped { "time stamps by the kernel" } else { "time stamps when a batch was received" };
    let mut writer =
        create(&arguments.file).and_then(|file| Writer::new(Blocks::new(file), &[])).map_err(failed)?;
    writer.add_interface(&arguments.a, stamps).and_then(|_| writer.flush()).map_err(failed)?;
    let left = arguments.port.count.unwrap_or(u64::MAX);
    let output = Arc::new(Mutex::new(Output { writer, left, error: None, not_tried: 0 }));
    let mut pollers: Vec<Box<dyn Poller>> = Vec::new();
    for n in 0..options.open.rx_queues {
        let (rx, output, path) = (ports.rx_whole(0, n)?, output.clone(), path.clone());
        pollers.push(Box::new(Capture { rx, output, path, stamped }));
    }
    let threads = run::threads("pcap", &ports, pollers, options, &stop, &Arc::default())?;
    let confinement = ports.confine_but(options, Needs { captures: true, ..Needs::default() })?;
    let outcome = run::measure("pcap", threads, &mut ports, options, confinement);
    drop(ports);
    end(outcome, &output, options.json, arguments.file == Path::new("-"))
}

/// Ends the file with what the interface counted, and prints that.
fn end(mut outcome: run::Outcome, output: &Mutex<Output>, json: bool, aside: bool) -> Result<(), Failure> {
    let output = &mut *output.lock().unwrap_or_else(PoisonError::into_inner);
    let summary = &mut outcome.summary;
    summary.add_counters(&[Counter::of_loss(Reason::RxNotWritten, output.not_written())]);
    if output.error.is_none() {
        let losses: Vec<(&str, u64)> = summary.losses.iter().map(|(name, count)| (*name, *count)).collect();
        let written = output.writer.write_statistics(0, now_ns(), summary.rx_packets, &losses);
        let written = written.and_then(|()| output.writer.flush());
        let failed =
            written.err().map(|error| Failure::new(format!("cannot write the capture's end: {error}")));
        outcome.failure = outcome.failure.or(failed);
    }
    match aside {
        true => eprint!("{}", summary.text(json)),
        false => print!("{}", summary.text(json)),
    }
    outcome.failure.or_else(|| outcome.summary.missing()).map_or(Ok(()), Err)
}
