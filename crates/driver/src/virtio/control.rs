//! The control queue (virtio 1.3, 5.1.6.5): commands that the device answers.
//! One command at a time, each with a limit of time.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use memory::{Dma, Region};
use regs::virtio::control::OK;
use regs::virtio::device::status;

use super::fault::Fault;
use super::packed::Packed;
use super::ring::{Part, Ring};
use super::split::Split;
use super::transport::{Doorbell, Transport};
use super::words::Words;
use crate::Result;

/// How long a device may take to answer.
const LIMIT: Duration = Duration::from_secs(2);
/// Class and command stand at the start, data behind them, the answer in the
/// last word of the command's memory.
const BYTES: usize = 4096;
const DATA: usize = 8;
const ANSWER: usize = BYTES - 4;
/// No device answers this.
const UNANSWERED: u8 = 0xFF;

/// Parts of a command: class and command, data, answer.
pub(super) const PARTS: u16 = 3;

/// The control queue over either kind of ring.
pub(super) struct Control {
    ring: Either,
    doorbell: Doorbell,
    words: Words<AtomicU32>,
    region: Region,
    /// A command was not answered: its memory is still the device's.
    stuck: bool,
}

#[expect(clippy::large_enum_variant, reason = "there is one")]
pub(super) enum Either {
    Split(Split),
    Packed(Packed),
}

macro_rules! either {
    ($ring:expr, $r:ident => $do:expr) => {
        match $ring {
            Either::Split($r) => $do,
            Either::Packed($r) => $do,
        }
    };
}

impl Control {
    pub(super) fn new(dma: &Dma, ring: Either, doorbell: Doorbell) -> Result<Control> {
        let region = dma.alloc(BYTES)?;
        let words = Words::new(&region, 0, (BYTES / size_of::<u32>()) as u32);
        Ok(Control { ring, doorbell, words, region, stuck: false })
    }

    /// Sends a command and waits for its answer.
    pub(super) fn command(
        &mut self,
        transport: &dyn Transport,
        name: &'static str,
        [class, command]: [u8; 2],
        data: &[u8],
    ) -> Result<()> {
        let device = || transport.pci().name();
        let start = Instant::now();
        let unanswered = |start: Instant| {
            let waited_ms = start.elapsed().as_millis() as u64;
            Fault::NoAnswer { device: device(), command: name, waited_ms }
        };
        if self.stuck || data.len() > ANSWER - DATA {
            return Err(unanswered(start).into());
        }
        self.write(u16::from_le_bytes([class, command]).into(), data);
        let part = |offset, len, write| Part { address: self.region.iova(offset), len, write };
        let (head, answer) = (part(0, 2, false), part(ANSWER, 1, true));
        let notify = match data.len() as u32 {
            0 => either!(&mut self.ring, r => put(r, &[head, answer])),
            len => either!(&mut self.ring, r => put(r, &[head, part(DATA, len, false), answer])),
        };
        if notify {
            self.doorbell.ring();
        }
        while !either!(&mut self.ring, r => taken(r)) {
            let lied = either!(&self.ring, r => r.lie());
            if let Some(lie) = lied {
                self.stuck = true;
                return Err(lie.fault(&device(), u16::MAX).into());
            }
            let failed = transport.status() & status::NEEDS_RESET != 0 || transport.health().is_err();
            if failed || start.elapsed() > LIMIT {
                self.stuck = true;
                return Err(unanswered(start).into());
            }
            sleep(Duration::from_micros(20));
        }
        match self.words.at(ANSWER as u32 / 4).load(Acquire) as u8 {
            OK => Ok(()),
            answer => Err(Fault::Refused { device: device(), command: name, answer }.into()),
        }
    }

    /// Writes a command into its memory.
    fn write(&self, head: u32, data: &[u8]) {
        self.words.at(0).store(head, Relaxed);
        for (n, bytes) in (DATA as u32 / 4..).zip(data.chunks(4)) {
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            self.words.at(n).store(u32::from_le_bytes(word), Relaxed);
        }
        self.words.at(ANSWER as u32 / 4).store(UNANSWERED.into(), Relaxed);
    }
}

fn put(ring: &mut impl Ring, parts: &[Part]) -> bool {
    ring.put_parts(parts);
    ring.publish()
}

/// Whether the command came back.
fn taken(ring: &mut impl Ring) -> bool {
    ring.look();
    ring.pop().is_some()
}
