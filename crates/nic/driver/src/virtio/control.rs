//! The control queue (virtio 1.3, 5.1.6.5): commands that the device answers.
//! One command at a time, each with a limit of time.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use memory::{Dma, Region};
use regs::virtio::control::OK;

use super::fault::VirtioFault;
use super::packed::Packed;
use super::ring::{Part, Virtqueue};
use super::split::Split;
use super::transport::Doorbell;
use crate::Result;
use crate::wait::{Late, poll};
use crate::words::Words;

/// How long a device may take to answer.
const LIMIT: Duration = Duration::from_secs(2);
/// How often the answer is looked for.
const PAUSE: Duration = Duration::from_micros(20);
/// Class and command stand at the start, data behind them, the answer in the
/// last word of the command's memory.
const BYTES: usize = 4096;
const DATA: usize = 2;
const ANSWER: usize = BYTES - 4;
/// No device answers this.
const UNANSWERED: u8 = 0xFF;

/// Parts of a command: class and command with the data, and the answer; or
/// three, where the device wants the command by itself (5.1.6.5, legacy).
pub(super) fn parts(joined: bool) -> u16 {
    if joined { 2 } else { 3 }
}

/// The control queue over either kind of ring.
pub(super) struct Control {
    ring: Either,
    doorbell: Doorbell,
    words: Words<AtomicU32>,
    region: Region,
    /// The control queue's number at the device.
    queue: u16,
    /// Command and data stand in one part.
    joined: bool,
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
    pub(super) fn new(
        dma: &Dma,
        ring: Either,
        doorbell: Doorbell,
        queue: u16,
        joined: bool,
    ) -> Result<Control> {
        let region = dma.alloc(BYTES)?;
        let words = Words::new(&region, 0, (BYTES / size_of::<u32>()) as u32);
        Ok(Control { ring, doorbell, words, region, queue, joined, stuck: false })
    }

    /// Sends a command and waits for its answer, or until `check` says that none
    /// will come.
    pub(super) fn command(
        &mut self,
        device: &str,
        name: &'static str,
        head: [u8; 2],
        data: &[u8],
        check: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let device = || device.to_owned();
        if self.stuck {
            check()?;
            return Err(VirtioFault::Unanswered { device: device(), command: name }.into());
        }
        let (bytes, most) = (data.len(), ANSWER - DATA);
        if bytes > most {
            return Err(VirtioFault::CommandTooLong { device: device(), command: name, bytes, most }.into());
        }
        self.write(&[&head, data].concat());
        let part = |offset, len, write| Part { address: self.region.iova(offset), len, write };
        let (len, answer) = (data.len() as u32, part(ANSWER, 1, true));
        let notify = if self.joined || len == 0 {
            let whole = part(0, DATA as u32 + len, false);
            either!(&mut self.ring, r => put(r, &[whole, answer]))
        } else {
            let parts = [part(0, DATA as u32, false), part(DATA, len, false), answer];
            either!(&mut self.ring, r => put(r, &parts))
        };
        if notify {
            self.doorbell.ring();
        }
        let answered = poll(LIMIT, PAUSE, || {
            if either!(&mut self.ring, r => taken(r)) {
                return Ok(Some(()));
            }
            match either!(&self.ring, r => r.violation()) {
                Some(violation) => Err(violation.fault(&device(), self.queue).into()),
                None => check().map(|()| None),
            }
        });
        self.stuck = !matches!(answered, Ok(Ok(())));
        if let Err(Late(waited_ms)) = answered? {
            return Err(VirtioFault::NoAnswer { device: device(), command: name, waited_ms }.into());
        }
        match self.words.at(ANSWER as u32 / 4).load(Relaxed) as u8 {
            OK => Ok(()),
            answer => Err(VirtioFault::Refused { device: device(), command: name, answer }.into()),
        }
    }

    /// Writes a command into its memory.
    fn write(&self, command: &[u8]) {
        for (n, bytes) in (0..).zip(command.chunks(4)) {
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            self.words.at(n).store(u32::from_le_bytes(word), Relaxed);
        }
        self.words.at(ANSWER as u32 / 4).store(UNANSWERED.into(), Relaxed);
    }
}

fn put(ring: &mut impl Virtqueue, parts: &[Part]) -> bool {
    ring.put_parts(parts);
    ring.publish()
}

/// Whether the command came back.
fn taken(ring: &mut impl Virtqueue) -> bool {
    ring.refresh_used();
    ring.pop().is_some()
}
