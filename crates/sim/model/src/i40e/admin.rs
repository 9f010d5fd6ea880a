//! The admin queues: commands of the driver to the firmware, which are carried out as soon as
//! the tail is moved, and events to the driver (datasheet 332464, chapter 7).

use regs::i40e::admin::{BUFFER, DESCRIPTOR, Descriptor, SMALL_BUFFER, flag};
use regs::i40e::*;

use super::host::Counters;
use super::lint::{Location, Rule};
use super::registers::Registers;
use crate::{Dma, Window};

/// Registers of one of the two queues.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    base_low: u32,
    base_high: u32,
    len: u32,
    head: u32,
    tail: u32,
    tail_id: Id,
}

/// The send queue.
pub(super) const SEND: Place = Place {
    base_low: PF_ATQBAL::AT,
    base_high: PF_ATQBAH::AT,
    len: PF_ATQLEN::AT,
    head: PF_ATQH::AT,
    tail: PF_ATQT::AT,
    tail_id: PF_ATQT::ID,
};

/// The receive queue.
pub(super) const RECEIVE: Place = Place {
    base_low: PF_ARQBAL::AT,
    base_high: PF_ARQBAH::AT,
    len: PF_ARQLEN::AT,
    head: PF_ARQH::AT,
    tail: PF_ARQT::AT,
    tail_id: PF_ARQT::ID,
};

/// A base must be aligned to this.
const ALIGNMENT: u32 = 64;

impl Place {
    fn location(self) -> Location {
        Location::Register(self.tail_id, 0)
    }

    /// How many descriptors the queue has, if it is enabled.
    fn size(self, registers: &Registers) -> Option<u32> {
        let len = registers.read(self.len);
        let size = len & PF_ATQLEN::LEN_MASK;
        let runs = len & PF_ATQLEN::ENABLE != 0 && len & PF_ATQLEN::CRIT == 0;
        (runs && size > 0 && self.is_aligned(registers)).then_some(size)
    }

    fn is_aligned(self, registers: &Registers) -> bool {
        registers.read(self.base_low).is_multiple_of(ALIGNMENT)
    }

    /// A descriptor cannot be reached: the queue stops until it is enabled anew.
    fn stop(self, registers: &mut Registers, counters: &mut Counters, place: u64) {
        counters.report(Rule::AdminRingUnmapped, self.location(), place);
        registers.write(self.len, registers.read(self.len) | PF_ATQLEN::CRIT);
    }

    /// The driver wrote the queue's length, and with it may have enabled the queue.
    pub fn check(self, registers: &Registers, counters: &mut Counters) {
        let len = registers.read(self.len);
        let bad = len & PF_ATQLEN::LEN_MASK == 0 || !self.is_aligned(registers);
        if len & PF_ATQLEN::ENABLE != 0 && bad {
            counters.report(Rule::AdminQueueInvalid, self.location(), len.into());
        }
    }

    /// The driver moved the tail: the queue's size, if it may.
    pub fn moved(self, registers: &Registers, counters: &mut Counters) -> Option<u32> {
        let tail = registers.read(self.tail);
        let Some(size) = self.size(registers) else {
            if tail != 0 {
                counters.report(Rule::AdminQueueOff, self.location(), tail.into());
            }
            return None;
        };
        if tail >= size {
            counters.report(Rule::AdminTailOutOfRange, self.location(), tail.into());
            return None;
        }
        Some(size)
    }

    /// Where the descriptor at the head is; `None` when there is none.
    fn next(self, registers: &Registers) -> Option<u64> {
        let (size, head) = (self.size(registers)?, registers.read(self.head));
        if head == registers.read(self.tail) || head >= size {
            return None;
        }
        let base = u64::from(registers.read(self.base_high)) << 32 | u64::from(registers.read(self.base_low));
        base.checked_add(u64::from(head) * DESCRIPTOR as u64)
    }

    /// The descriptor at the head, and where it is.
    pub fn take(
        self,
        registers: &mut Registers,
        dma: &impl Dma,
        counters: &mut Counters,
    ) -> Option<(u64, Descriptor)> {
        let place = self.next(registers)?;
        let mut bytes = [0; DESCRIPTOR];
        if counters.dma_off || !dma.read(place, &mut bytes) {
            self.stop(registers, counters, place);
            return None;
        }
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<{ size_of::<u64>() }>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Some((place, Descriptor::from_words(words)))
    }

    /// Writes the descriptor at the head back and goes on to the next; `false` when it cannot be
    /// written, which stops the queue.
    pub fn put(
        self,
        registers: &mut Registers,
        dma: &impl Dma,
        counters: &mut Counters,
        place: u64,
        descriptor: &Descriptor,
    ) -> bool {
        let [head, rest @ ..] = descriptor.words();
        let rest: Vec<u8> = rest.iter().flat_map(|word| word.to_le_bytes()).collect();
        // The flags stand in the first word: a driver that sees them sees the rest.
        match dma.window(place, 8) {
            Some(window) if dma.write(place + 8, &rest) => window.store_release(0, head),
            _ => {
                self.stop(registers, counters, place);
                return false;
            }
        }
        let next = registers.read(self.head) + 1;
        let size = self.size(registers).unwrap_or(1);
        registers.write(self.head, if next >= size { 0 } else { next });
        true
    }
}

/// A command's buffer, as its descriptor names it.
pub(super) struct Buffer {
    pub address: u64,
    pub len: usize,
}

impl Buffer {
    /// The buffer of a command, which must have one.
    pub fn of(command: &Descriptor, counters: &mut Counters) -> Option<Buffer> {
        let (len, place) = (usize::from(command.datalen), Location::Command(command.opcode));
        let large = len > SMALL_BUFFER;
        if command.flags & flag::BUF == 0 || large != (command.flags & flag::LB != 0) {
            counters.report(Rule::AdminFlagsWrong, place, command.flags.into());
        }
        let fits = command.flags & flag::BUF != 0 && len <= BUFFER;
        fits.then(|| Buffer { address: command.address(), len })
    }

    /// Its bytes, which the firmware reads.
    pub fn read(&self, command: &Descriptor, dma: &impl Dma, counters: &mut Counters) -> Option<Vec<u8>> {
        let place = Location::Command(command.opcode);
        if command.flags & flag::RD == 0 {
            counters.report(Rule::AdminFlagsWrong, place, command.flags.into());
        }
        let mut bytes = vec![0; self.len];
        if dma.read(self.address, &mut bytes) {
            return Some(bytes);
        }
        counters.report(Rule::AdminBufferUnmapped, place, self.address);
        None
    }

    /// Answers with bytes, as far as they fit.
    pub fn write(&self, bytes: &[u8], command: &Descriptor, dma: &impl Dma, counters: &mut Counters) -> bool {
        let written = dma.write(self.address, &bytes[..bytes.len().min(self.len)]);
        if !written {
            counters.report(Rule::AdminBufferUnmapped, Location::Command(command.opcode), self.address);
        }
        written
    }
}
