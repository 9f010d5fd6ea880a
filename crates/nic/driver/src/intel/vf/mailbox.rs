//! The mailbox (82599 datasheet 7.10.2.9; the 82576 has the same): messages to the physical function, one
//! at a time, each with a limit of time for its answer; and what it sends unsolicited.

use std::time::Duration;

use bus::Bar;
use regs::ixgbevf::VFMAILBOX;
use regs::ixgbevf::message::{CLEAR_TO_SEND, FAILURE, KIND_MASK, SUCCESS, WORDS, kind};

use super::Registers;
use crate::Result;
use crate::vf_fault::VfFault;
use crate::wait::{Late, poll};

/// How long the physical function may take to answer.
const LIMIT: Duration = Duration::from_secs(2);
/// How long it may keep the buffer once it kept it for longer than that: long enough to be done with
/// what it has in hand, too short to hold up whoever sends many messages.
const SHORT_LIMIT: Duration = Duration::from_millis(1);
/// How often the answer is looked for.
const PAUSE: Duration = Duration::from_micros(50);

/// What a message is in words: a mailbox's worth.
pub type Words = [u32; WORDS];

/// The function's end of the mailbox.
pub(super) struct Mailbox {
    device: String,
    registers: &'static Registers,
    /// The name of a message's kind.
    name: fn(u32) -> &'static str,
    /// Bits that the control register tells once, and that were not looked at yet.
    told: u32,
    /// The physical function has been reset since, or no longer answers this one.
    reset: bool,
    /// A message had no answer: one that comes yet would be taken for another's.
    stuck: bool,
    /// The physical function kept the buffer so long that a message was not sent: later ones wait a
    /// moment for it only.
    kept: bool,
}

impl Mailbox {
    /// A mailbox of a device that was not asked anything yet.
    pub fn new(device: &str, registers: &'static Registers, name: fn(u32) -> &'static str) -> Mailbox {
        let device = device.to_owned();
        Mailbox { device, registers, name, told: 0, reset: false, stuck: false, kept: false }
    }

    /// Begins anew: the virtual function was reset, and what was told before is of no account.
    pub fn begin(&mut self, bar: &Bar) {
        *self = Mailbox::new(&self.device, self.registers, self.name);
        bar.read32(self.registers.mailbox.offset);
    }

    /// The control register, with what it tells once kept.
    fn read_status(&mut self, bar: &Bar) -> u32 {
        let value = bar.read32(self.registers.mailbox.offset);
        // So all registers of a device read that is gone.
        if value == u32::MAX {
            self.reset = true;
            return 0;
        }
        self.told |= value & (VFMAILBOX::PFSTS | VFMAILBOX::PFACK);
        self.reset |= value & (VFMAILBOX::RSTI | VFMAILBOX::RSTD) != 0;
        value
    }

    /// Whether the physical function has been reset since, or has told that this one was.
    pub fn is_reset(&mut self, bar: &Bar) -> bool {
        self.read_status(bar);
        // A buffer that is not given now may be the next time: nobody waits for it here. An answer that
        // came too late is taken, too: until it is, the physical function tells nothing else.
        if self.told & VFMAILBOX::PFSTS != 0 && self.try_to_hold(bar) {
            let words = self.take(bar);
            self.note(&words);
        }
        self.reset
    }

    /// Sends a message; its answer, which was not refused.
    pub fn ask(&mut self, bar: &Bar, words: &[u32]) -> Result<Words> {
        match self.ask_whether(bar, words)? {
            (true, answer) => Ok(answer),
            (false, _) => Err(self.refused(words[0] & KIND_MASK)),
        }
    }

    /// Sends a message; whether it was done, and its answer.
    pub fn ask_whether(&mut self, bar: &Bar, words: &[u32]) -> Result<(bool, Words)> {
        let (kind, _) = (words[0] & KIND_MASK, self.read_status(bar));
        if self.reset {
            return Err(VfFault::Reset { device: self.device.clone() }.into());
        }
        if self.stuck {
            return Err(self.no_answer(kind, 0));
        }
        let answer = self.exchange(bar, words, kind)?;
        let rest = answer[0] & (SUCCESS | FAILURE);
        match rest {
            SUCCESS | FAILURE => Ok((rest == SUCCESS, answer)),
            _ => Err(self.nonsense(kind, "it says neither that it was done nor that it was refused")),
        }
    }

    fn exchange(&mut self, bar: &Bar, words: &[u32], kind: u32) -> Result<Words> {
        self.hold(bar, kind)?;
        // What came before is answered by this message at the latest.
        if std::mem::take(&mut self.told) & VFMAILBOX::PFSTS != 0 {
            let before = self.read(bar);
            self.note(&before);
        }
        for (n, word) in words.iter().enumerate() {
            bar.write32(self.registers.memory.at(n), *word);
        }
        bar.write32(self.registers.mailbox.offset, VFMAILBOX::REQ); // and lets go of the buffer
        let answered = poll(LIMIT, PAUSE, || {
            self.read_status(bar);
            if self.reset {
                return Err(VfFault::Reset { device: self.device.clone() }.into());
            }
            if self.told & VFMAILBOX::PFSTS == 0 || !self.try_to_hold(bar) {
                return Ok(None);
            }
            let answer = self.take(bar);
            let is_it = answer[0] & KIND_MASK == kind;
            if !is_it {
                self.note(&answer);
            }
            Ok(is_it.then_some(answer))
        })?;
        answered.map_err(|Late(waited_ms)| {
            self.stuck = true;
            self.no_answer(kind, waited_ms)
        })
    }

    /// Takes the buffer if the physical function does not have it.
    fn try_to_hold(&mut self, bar: &Bar) -> bool {
        bar.write32(self.registers.mailbox.offset, VFMAILBOX::VFU);
        self.read_status(bar) & VFMAILBOX::VFU != 0
    }

    /// Takes the buffer for a message, for which the physical function may have to finish first.
    fn hold(&mut self, bar: &Bar, kind: u32) -> Result<()> {
        let limit = if self.kept { SHORT_LIMIT } else { LIMIT };
        let held = poll(limit, PAUSE, || Ok((self.try_to_hold(bar) || self.reset).then_some(())))?;
        self.kept = held.is_err();
        held.map_err(|Late(waited_ms)| self.no_answer(kind, waited_ms))
    }

    fn read(&self, bar: &Bar) -> Words {
        std::array::from_fn(|n| bar.read32(self.registers.memory.at(n)))
    }

    /// Reads the message in the buffer, which is held, and lets go of it.
    fn take(&mut self, bar: &Bar) -> Words {
        self.told &= !(VFMAILBOX::PFSTS | VFMAILBOX::PFACK);
        let words = self.read(bar);
        bar.write32(self.registers.mailbox.offset, VFMAILBOX::ACK);
        words
    }

    /// Something was told that nobody had asked for: that the link changed, or, without its bit, that
    /// this one has to begin anew.
    fn note(&mut self, words: &Words) {
        let of_it = words[0] & KIND_MASK == kind::PF_CONTROL_MSG;
        tracing::debug!(device = self.device, "the physical function tells {:#x}", words[0]);
        self.reset |= of_it && words[0] & CLEAR_TO_SEND == 0;
    }

    fn refused(&self, kind: u32) -> crate::Error {
        let (device, message) = (self.device.clone(), (self.name)(kind));
        let meaning = "it is not allowed, or there is no room for it";
        VfFault::Refused { device, message, opcode: kind, status: "FAILURE", meaning }.into()
    }

    fn no_answer(&self, kind: u32, waited_ms: u64) -> crate::Error {
        let (device, message) = (self.device.clone(), (self.name)(kind));
        VfFault::NoAnswer { device, message, opcode: kind, waited_ms }.into()
    }

    /// An answer that makes no sense.
    pub fn nonsense(&self, kind: u32, why: &'static str) -> crate::Error {
        VfFault::Nonsense { device: self.device.clone(), message: (self.name)(kind), why }.into()
    }
}
