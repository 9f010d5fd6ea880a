//! Captures as wires: `pcap` sends a file's packets, `record` writes a file.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use interface::pcap::{Blocks, Direction, PacketOptions, Reader, Writer};

use super::rate::Pacer;
use super::{NotRecorded, Rate, SpecError};

/// Bytes and packets that are kept in memory.
const MAX_BYTES: usize = 512 << 20;
const MAX_PACKETS: usize = 1 << 24;

/// How far the beginning of a file with a rate is. A NIC takes a packet when it has room for it, though
/// its filters may drop it then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Nobody has taken a packet.
    Waits,
    /// The first one was taken in this turn.
    Taken,
    /// It was taken in a turn before.
    Passed,
    /// Whoever took it asked again, and the rate is kept.
    Begun,
}

/// Sends the packets of a file, which is read at once.
#[derive(Debug)]
pub(super) struct Capture {
    bytes: Vec<u8>,
    /// Where each packet ends.
    ends: Vec<u32>,
    at: usize,
    repeat: bool,
    done: bool,
    /// It has not been told to start.
    held: bool,
    start: Start,
    pacer: Pacer,
}

impl Capture {
    pub(super) fn open(path: &Path, repeat: bool, rate: Rate, held: bool) -> Result<Capture, SpecError> {
        let failed = |error: &dyn std::fmt::Display, fix| SpecError::Open {
            what: path.display().to_string(),
            error: error.to_string(),
            fix,
        };
        let file = File::open(path).map_err(|error| failed(&error, ""))?;
        let wrong =
            |error: interface::pcap::Error| failed(&error, ": give a pcap or pcapng file of Ethernet");
        let mut reader = Reader::new(BufReader::with_capacity(1 << 16, file)).map_err(wrong)?;
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        while let Some(packet) = reader.next().map_err(wrong)? {
            if packet.data.len() > model::MAX_FRAME {
                return Err(failed(&"a packet is longer than any NIC takes (16380 bytes)", ""));
            }
            bytes.extend_from_slice(packet.data);
            ends.push(bytes.len() as u32);
            if bytes.len() > MAX_BYTES || ends.len() > MAX_PACKETS {
                return Err(failed(&"more than 512 MiB or 16 M packets", ": cut it with `editcap -c`"));
            }
        }
        let done = ends.is_empty();
        let start = if rate == Rate::Max { Start::Begun } else { Start::Waits };
        Ok(Capture { bytes, ends, at: 0, repeat, done, held, start, pacer: Pacer::new(rate) })
    }

    /// Until it has begun, too: a file's first packets are not to be lost before a queue is there.
    pub(super) fn has_backpressure(&self) -> bool {
        !self.done && self.start != Start::Begun || self.pacer.has_backpressure()
    }

    pub(super) fn skipped(&self) -> u64 {
        self.pacer.skipped()
    }

    pub(super) fn advance(&mut self, now_ns: u64) {
        match self.start {
            Start::Taken => self.start = Start::Passed,
            Start::Begun if !self.done && !self.held => self.pacer.advance(now_ns),
            _ => {}
        }
    }

    pub(super) fn start(&mut self) {
        self.held = false;
    }

    pub(super) fn stop(&mut self) {
        self.done = true;
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Gives up to `max` packets to `take`; how many.
    pub(super) fn burst(&mut self, max: usize, mut take: impl FnMut(&[u8])) -> usize {
        if max == 0 || self.done || self.held {
            return 0;
        }
        match self.start {
            Start::Waits => {
                self.start = Start::Taken;
                self.give(&mut take);
                return 1;
            }
            Start::Taken => return 0,
            // Who has backpressure and asks in another turn has room for the next one.
            Start::Passed => self.start = Start::Begun,
            Start::Begun => {}
        }
        let mut given = 0;
        while given < max && !self.done && self.pacer.due() > 0 {
            self.pacer.take(1);
            self.give(&mut take);
            given += 1;
        }
        given
    }

    fn give(&mut self, take: &mut impl FnMut(&[u8])) {
        let start = self.at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        take(&self.bytes[start..self.ends[self.at] as usize]);
        self.at += 1;
        if self.at == self.ends.len() {
            self.at = 0;
            self.done = !self.repeat;
        }
    }
}

/// Which way a frame went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameDirection {
    ToHost,
    FromHost,
}

/// Writes both directions to a pcapng file.
#[derive(Debug)]
pub(super) struct Recorder {
    path: String,
    writer: Writer<Blocks>,
    left: u64,
    /// What to add to the time passed in to get the time of day.
    epoch_ns: Option<u64>,
    /// Why no more is written.
    error: Option<String>,
    over_limit: u64,
}

impl Recorder {
    pub(super) fn create(path: &Path, limit: u64) -> Result<Recorder, SpecError> {
        let failed = |error: std::io::Error| SpecError::Open {
            what: format!("creating {}", path.display()),
            error: error.to_string(),
            fix: "",
        };
        let file = File::create(path).map_err(failed)?;
        let writer = Writer::new(Blocks::new(file), &["ixora wire"]).map_err(failed)?;
        let path = path.display().to_string();
        Ok(Recorder { path, writer, left: limit, epoch_ns: None, error: None, over_limit: 0 })
    }

    pub(super) fn record(&mut self, way: FrameDirection, now_ns: u64, frame: &[u8]) {
        if self.left == 0 {
            self.over_limit += 1;
            return;
        }
        self.left -= 1;
        let epoch = *self.epoch_ns.get_or_insert_with(|| {
            let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(today.as_nanos()).unwrap_or(0).saturating_sub(now_ns)
        });
        let direction = match way {
            FrameDirection::ToHost => Direction::Inbound,
            FrameDirection::FromHost => Direction::Outbound,
        };
        let notes = PacketOptions { direction, ..PacketOptions::default() };
        let written = self.writer.write(0, epoch + now_ns, frame, notes);
        self.check(written);
    }

    fn check(&mut self, written: std::io::Result<()>) {
        if let (Err(error), None) = (written, &self.error) {
            tracing::warn!("recording to {} ends: {error}", self.path);
            self.error = Some(error.to_string());
        }
    }

    pub(super) fn flush(&mut self) {
        if self.error.is_none() {
            let flushed = self.writer.flush();
            self.check(flushed);
        }
    }

    /// What was not recorded so far.
    pub(super) fn missing(&self) -> NotRecorded {
        let error = self.error.as_ref().map(|error| format!("cannot write {}: {error}", self.path));
        NotRecorded { error, failed: self.writer.output().lost(), over_limit: self.over_limit }
    }
}
