//! The admin queues (datasheet chapter 7): commands to the firmware, one at a time, each with
//! a limit of time; and the firmware's events.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use bus::{Bar, order};
use memory::{Dma, Region};
use port::Counter;
use regs::i40e::admin::{self, BUFFER, DESCRIPTOR, Descriptor, ERRORS, SMALL_BUFFER, flag};
use regs::i40e::*;

use super::{Firmware, I40eFault};
use crate::Result;
use crate::wait::{Late, poll};
use crate::words::Words;

/// Descriptors of each queue, a power of two.
const SIZE: u32 = 32;
/// How long the firmware may take to answer.
const LIMIT: Duration = Duration::from_millis(250);
/// How often the answer is looked for.
const PAUSE: Duration = Duration::from_micros(10);
/// How long the firmware's head may take to follow a descriptor that it wrote.
const DOUBT: Duration = Duration::from_millis(5);

/// Where the parts lie in the queues' memory: both rings, a buffer for commands, one for each
/// event.
const SEND_AT: usize = 0;
const RECEIVE_AT: usize = 4096;
const BUFFER_AT: usize = 2 * 4096;
const EVENTS_AT: usize = 3 * 4096;
/// Words of a buffer.
const WORDS: u32 = (BUFFER / 4) as u32;
/// The counter of events that were not as the firmware leaves them.
pub(crate) const FORGED: &str = "admin_forged";
/// Among a queue's registers.
const LENGTH: usize = 2;
const HEAD: usize = 3;
const TAIL: usize = 4;
const BYTES: usize = EVENTS_AT + SIZE as usize * BUFFER;

const _: () = assert!(SIZE as usize * DESCRIPTOR <= 4096);

/// Where the registers of a pair of queues are, each: base low, base high, length, head, tail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registers {
    pub send: [u32; 5],
    pub receive: [u32; 5],
}

/// Those of a physical function.
pub(super) const PF: Registers = Registers {
    send: [PF_ATQBAL::AT, PF_ATQBAH::AT, PF_ATQLEN::AT, PF_ATQH::AT, PF_ATQT::AT],
    receive: [PF_ARQBAL::AT, PF_ARQBAH::AT, PF_ARQLEN::AT, PF_ARQH::AT, PF_ARQT::AT],
};

/// A ring of descriptors, two pairs of words each.
struct AdminRing(Words<[AtomicU64; 2]>);

impl AdminRing {
    fn new(region: &Region, at: usize) -> AdminRing {
        AdminRing(Words::new(region, at, 2 * SIZE))
    }

    fn put(&self, n: u32, descriptor: &Descriptor) {
        let words = descriptor.words();
        for (pair, words) in words.chunks(2).enumerate() {
            let place = self.0.at(2 * n + pair as u32);
            place.iter().zip(words).for_each(|(place, word)| place.store(*word, Relaxed));
        }
    }

    /// The descriptor, if the firmware is done with it.
    fn done(&self, n: u32) -> Option<Descriptor> {
        let (first, second) = (self.0.at(2 * n), self.0.at(2 * n + 1));
        let head = first[0].load(Relaxed);
        if head as u16 & flag::DD == 0 {
            return None;
        }
        order::after_ready(); // all that was written before the flag
        let rest = [first[1].load(Relaxed), second[0].load(Relaxed), second[1].load(Relaxed)];
        Some(Descriptor::from_words([head, rest[0], rest[1], rest[2]]))
    }
}

/// Whether the descriptor of the next event says that it is written, and the firmware's head does not.
#[derive(Clone, Copy)]
enum Doubt {
    None,
    Since(Instant),
    /// It was counted.
    Counted,
}

/// Both queues, enabled.
pub(crate) struct AdminQueue {
    bar: Bar,
    registers: Registers,
    device: String,
    /// What is known of the firmware, which errors name.
    pub firmware: Arc<Firmware>,
    send: AdminRing,
    receive: AdminRing,
    buffer: Words<AtomicU32>,
    events: Words<AtomicU32>,
    region: Region,
    /// The descriptor of the next command, and of the next event.
    next: u32,
    next_event: u32,
    doubted: Doubt,
    /// Descriptors of events that were not as the firmware leaves them.
    forged: u64,
    /// A command was not answered: its memory is still the firmware's.
    stuck: bool,
}

impl AdminQueue {
    /// Enables both queues, with buffers for events.
    pub fn new(bar: &Bar, registers: Registers, device: &str, dma: &Dma) -> Result<AdminQueue> {
        let region = dma.alloc(BYTES)?;
        let queue = AdminQueue {
            bar: bar.clone(),
            registers,
            device: device.to_owned(),
            firmware: Arc::default(),
            send: AdminRing::new(&region, SEND_AT),
            receive: AdminRing::new(&region, RECEIVE_AT),
            buffer: Words::new(&region, BUFFER_AT, (BUFFER / 4) as u32),
            events: Words::new(&region, EVENTS_AT, SIZE * WORDS),
            region,
            next: 0,
            next_event: 0,
            doubted: Doubt::None,
            forged: 0,
            stuck: false,
        };
        (0..SIZE).for_each(|n| queue.lend(n));
        for (registers, at) in [(registers.send, SEND_AT), (registers.receive, RECEIVE_AT)] {
            let [low, high, len, head, tail] = registers;
            let iova = queue.region.iova(at);
            bar.write32(head, 0);
            bar.write32(tail, 0);
            bar.write32(low, iova as u32);
            bar.write32(high, (iova >> 32) as u32);
            bar.write32(len, SIZE | PF_ATQLEN::ENABLE);
        }
        order::before_doorbell();
        // One descriptor stays the driver's: head and tail at one place mean none.
        bar.write32(registers.receive[TAIL], SIZE - 1);
        Ok(queue)
    }

    /// Gives the firmware a descriptor, with its buffer, for an event.
    fn lend(&self, n: u32) {
        let mut lent =
            Descriptor { flags: flag::BUF | flag::LB, datalen: BUFFER as u16, ..Descriptor::default() };
        lent.set_address(self.region.iova(EVENTS_AT + n as usize * BUFFER));
        self.receive.put(n, &lent);
    }

    /// Carries out a command without a buffer; its answer.
    pub fn command(&mut self, command: Descriptor) -> Result<Descriptor> {
        Ok(self.exchange(command, &[], 0)?.0)
    }

    /// Carries out a command without a buffer; its answer, which may be an error.
    pub fn answer(&mut self, command: Descriptor) -> Result<Descriptor> {
        Ok(self.send(command, &[], 0)?.0)
    }

    /// Carries out a command without a buffer, of which some errors say that there was nothing
    /// to do.
    pub fn command_unless(&mut self, command: Descriptor, nothing_to_do: &[u16]) -> Result<()> {
        let answer = self.answer(command)?;
        match answer.retval {
            0 if answer.flags & flag::ERR == 0 => Ok(()),
            error if nothing_to_do.contains(&error) => Ok(()),
            error => Err(self.refused(command.opcode, error)),
        }
    }

    /// Carries out a command whose buffer the firmware reads.
    pub fn write(&mut self, command: Descriptor, data: &[u8]) -> Result<Descriptor> {
        Ok(self.exchange(command, data, data.len())?.0)
    }

    /// Carries out a command whose buffer is read and then written; what was written.
    pub fn write_and_read(&mut self, command: Descriptor, data: &[u8]) -> Result<(Descriptor, Vec<u8>)> {
        self.exchange(command, data, data.len())
    }

    /// Carries out a command that answers with up to `len` bytes.
    pub fn read(&mut self, command: Descriptor, len: usize) -> Result<(Descriptor, Vec<u8>)> {
        self.exchange(command, &[], len)
    }

    /// Carries out a command whose buffer is read and then written; an error of the firmware's
    /// comes beside what it wrote.
    pub fn exchange_bytes(&mut self, command: Descriptor, data: &[u8]) -> Result<(u16, Vec<u8>)> {
        let (answer, bytes) = self.send(command, data, data.len())?;
        Ok((answer.retval, bytes))
    }

    fn exchange(&mut self, command: Descriptor, data: &[u8], len: usize) -> Result<(Descriptor, Vec<u8>)> {
        let (answer, bytes) = self.send(command, data, len)?;
        if answer.flags & flag::ERR == 0 && answer.retval == 0 {
            return Ok((answer, bytes));
        }
        Err(self.refused(command.opcode, answer.retval))
    }

    /// The error for a command that was refused.
    pub fn refused(&self, opcode: u16, retval: u16) -> crate::Error {
        let known = ERRORS.iter().find(|(value, ..)| *value == retval);
        let (error, meaning) =
            known.map_or(("no error", "and nothing known"), |(_, name, what)| (*name, *what));
        let (device, command, firmware) = (self.device.clone(), admin::name(opcode), self.firmware.clone());
        I40eFault::Refused { device, command, opcode, error, meaning, firmware }.into()
    }

    /// Sends a command with a buffer of `len` bytes, which begins with `data`, and waits.
    fn send(&mut self, mut command: Descriptor, data: &[u8], len: usize) -> Result<(Descriptor, Vec<u8>)> {
        let (device, opcode, name) = (self.device.clone(), command.opcode, admin::name(command.opcode));
        if self.stuck {
            return Err(I40eFault::Stuck { device, command: name }.into());
        }
        assert!(data.len() <= len && len <= BUFFER, "the driver's own commands fit");
        command.flags = flag::SI;
        if len > 0 {
            command.flags |= flag::BUF | if len > SMALL_BUFFER { flag::LB } else { 0 };
            command.flags |= if data.is_empty() { 0 } else { flag::RD };
            command.datalen = len as u16;
            command.set_address(self.region.iova(BUFFER_AT));
            self.fill(data, len);
        }
        let n = self.next;
        self.send.put(n, &command);
        self.next = (n + 1) % SIZE;
        order::before_doorbell();
        self.bar.write32(self.registers.send[TAIL], self.next);
        match poll(LIMIT, PAUSE, || Ok(self.send.done(n)))? {
            Ok(answer) if answer.opcode == opcode => {
                tracing::debug!(port = device, "admin command {name} ({opcode:#06x}): {}", answer.retval);
                let got = self.bytes(usize::from(answer.datalen).min(len));
                Ok((answer, got))
            }
            Ok(_) => {
                let (why, firmware) = ("it is another command's", self.firmware.clone());
                Err(I40eFault::Nonsense { device, command: name, why, firmware }.into())
            }
            Err(Late(waited_ms)) => {
                self.stuck = true;
                let firmware = self.firmware.clone();
                Err(I40eFault::NoAnswer { device, command: name, opcode, waited_ms, firmware }.into())
            }
        }
    }

    /// Fills the buffer with `data`, and zeroes up to `len`.
    fn fill(&self, data: &[u8], len: usize) {
        for n in 0..len.div_ceil(4) {
            let mut word = [0; 4];
            let rest = data.get(4 * n..).unwrap_or_default();
            word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            self.buffer.at(n as u32).store(u32::from_le_bytes(word), Relaxed);
        }
    }

    /// The first bytes of the buffer.
    fn bytes(&self, len: usize) -> Vec<u8> {
        let words = (0..len.div_ceil(4) as u32).map(|n| self.buffer.at(n).load(Relaxed).to_le_bytes());
        words.flatten().take(len).collect()
    }

    /// Gives the events that came to `take`, with the bytes of their buffers, and their descriptors
    /// back: as many as there are descriptors at most, however fast they come.
    ///
    /// The firmware's head tells how many there are, not the flags in memory: one that the firmware
    /// did not set would put the driver ahead of it, one that was cleared would keep it behind, and it
    /// would miss each event from then on.
    pub fn events(&mut self, mut take: impl FnMut(&Descriptor, Vec<u8>)) {
        // Whatever was written before the head went on is seen after the head was read.
        let head = self.bar.read32(self.registers.receive[HEAD]);
        // So a device that is gone reads; and one that was reset begins again at zero.
        if head >= SIZE || head != self.next_event && !self.is_enabled() {
            return;
        }
        let mut tail = None;
        while self.next_event != head {
            let n = self.next_event;
            match self.receive.done(n) {
                Some(event) => {
                    let len = usize::from(event.datalen).min(BUFFER);
                    let words = (0..len.div_ceil(4) as u32).map(|word| self.events.at(n * WORDS + word));
                    let bytes = words.flat_map(|word| word.load(Relaxed).to_le_bytes()).take(len).collect();
                    take(&event, bytes);
                }
                // It was written, and what was written is gone.
                None => self.forged += 1,
            }
            self.lend(n);
            tail = Some(n);
            self.next_event = (n + 1) % SIZE;
        }
        if let Some(tail) = tail {
            self.doubted = Doubt::None;
            order::before_doorbell();
            self.bar.write32(self.registers.receive[TAIL], tail);
        }
        self.doubt();
    }

    /// Counts a descriptor that says that it is written while the firmware's head does not, once, if
    /// the head does not follow within a moment.
    fn doubt(&mut self) {
        self.doubted = match (self.receive.done(self.next_event), self.doubted) {
            (None, _) => Doubt::None,
            (Some(_), Doubt::None) => Doubt::Since(Instant::now()),
            (Some(_), Doubt::Since(begin)) if begin.elapsed() >= DOUBT => {
                self.forged += 1;
                Doubt::Counted
            }
            (Some(_), doubt) => doubt,
        };
    }

    /// Descriptors of events that were not as the firmware leaves them.
    pub fn forged_counter(&self) -> Counter {
        let what = "events whose descriptors were changed by another than the firmware";
        Counter { name: FORGED, value: self.forged, loss: None, what }
    }

    /// Whether the device still has the queue for events enabled, which every reset ends.
    pub fn is_enabled(&self) -> bool {
        let len = self.bar.read32(self.registers.receive[LENGTH]);
        len & PF_ARQLEN::ENABLE != 0
    }

    /// Disables both queues.
    pub fn disable(&self) {
        for registers in [self.registers.send, self.registers.receive] {
            self.bar.write32(registers[LENGTH], 0);
        }
    }

    /// Keeps the memory for ever: the firmware may still reach it.
    pub fn leak(&self) {
        std::mem::forget(self.region.clone());
    }
}
