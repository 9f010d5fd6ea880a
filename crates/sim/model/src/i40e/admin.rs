//! The admin queues: commands of the driver to the firmware, which are carried out as soon as
//! the tail is moved, and events to the driver (datasheet 332464, chapter 7).

use regs::i40e::admin::{BUFFER, DESCRIPTOR, Descriptor, SMALL_BUFFER, error, flag};
use regs::i40e::*;
use regs::iavf;

use super::host::Counters;
use super::lint::{Location, Rule};
use super::registers::RegisterFile;
use crate::{Dma, Window};

/// Registers of one of the two queues.
#[derive(Debug, Clone, Copy)]
pub(super) struct AdminRegisters {
    base_low: u32,
    base_high: u32,
    len: u32,
    head: u32,
    tail: u32,
    /// What findings about the queue name.
    location: Location,
}

/// The send queue.
pub(super) const SEND: AdminRegisters = AdminRegisters {
    base_low: PF_ATQBAL::AT,
    base_high: PF_ATQBAH::AT,
    len: PF_ATQLEN::AT,
    head: PF_ATQH::AT,
    tail: PF_ATQT::AT,
    location: Location::Register(PF_ATQT::ID, 0),
};

/// The receive queue.
pub(super) const RECEIVE: AdminRegisters = AdminRegisters {
    base_low: PF_ARQBAL::AT,
    base_high: PF_ARQBAH::AT,
    len: PF_ARQLEN::AT,
    head: PF_ARQH::AT,
    tail: PF_ARQT::AT,
    location: Location::Register(PF_ARQT::ID, 0),
};

/// The send queue of a virtual function's mailbox.
pub(super) const VF_SEND: AdminRegisters = AdminRegisters {
    base_low: iavf::VF_ATQBAL1::AT,
    base_high: iavf::VF_ATQBAH1::AT,
    len: iavf::VF_ATQLEN1::AT,
    head: iavf::VF_ATQH1::AT,
    tail: iavf::VF_ATQT1::AT,
    location: Location::VfRegister(iavf::VF_ATQT1::ID, 0),
};

/// Its receive queue.
pub(super) const VF_RECEIVE: AdminRegisters = AdminRegisters {
    base_low: iavf::VF_ARQBAL1::AT,
    base_high: iavf::VF_ARQBAH1::AT,
    len: iavf::VF_ARQLEN1::AT,
    head: iavf::VF_ARQH1::AT,
    tail: iavf::VF_ARQT1::AT,
    location: Location::VfRegister(iavf::VF_ARQT1::ID, 0),
};

/// A base must be aligned to this.
const ALIGNMENT: u32 = 64;

impl AdminRegisters {
    /// How many descriptors the queue has, if it is enabled.
    fn size(self, registers: &impl RegisterFile) -> Option<u32> {
        let len = registers.read(self.len);
        let size = len & PF_ATQLEN::LEN_MASK;
        let runs = len & PF_ATQLEN::ENABLE != 0 && len & PF_ATQLEN::CRIT == 0;
        (runs && size > 0 && self.is_aligned(registers)).then_some(size)
    }

    fn is_aligned(self, registers: &impl RegisterFile) -> bool {
        registers.read(self.base_low).is_multiple_of(ALIGNMENT)
    }

    /// A descriptor cannot be reached: the queue stops until it is enabled anew.
    fn stop(self, registers: &mut impl RegisterFile, counters: &mut Counters, place: u64) {
        let rule = if counters.dma_off { Rule::BusMasterOff } else { Rule::AdminRingUnmapped };
        counters.report(rule, self.location, place);
        registers.write(self.len, registers.read(self.len) | PF_ATQLEN::CRIT);
    }

    /// The driver wrote the queue's length, and with it may have enabled the queue.
    pub fn check(self, registers: &impl RegisterFile, counters: &mut Counters) {
        let len = registers.read(self.len);
        let bad = len & PF_ATQLEN::LEN_MASK == 0 || !self.is_aligned(registers);
        if len & PF_ATQLEN::ENABLE != 0 && bad {
            counters.report(Rule::AdminQueueInvalid, self.location, len.into());
        }
    }

    /// The driver moved the tail: the queue's size, if it may.
    pub fn moved(self, registers: &impl RegisterFile, counters: &mut Counters) -> Option<u32> {
        let tail = registers.read(self.tail);
        let Some(size) = self.size(registers) else {
            if tail != 0 {
                counters.report(Rule::AdminQueueOff, self.location, tail.into());
            }
            return None;
        };
        if tail >= size {
            counters.report(Rule::AdminTailOutOfRange, self.location, tail.into());
            return None;
        }
        Some(size)
    }

    /// Where the descriptor at the head is; `None` when there is none.
    fn next(self, registers: &impl RegisterFile) -> Option<u64> {
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
        registers: &mut impl RegisterFile,
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
        registers: &mut impl RegisterFile,
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

/// A message between a virtual function and its physical one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// The kind and the status, as the descriptor's cookie has them.
    pub cookie: u64,
    pub bytes: Vec<u8>,
}

impl Message {
    /// What a command sends, as far as its buffer can be read.
    pub fn of(command: &Descriptor, dma: &impl Dma, counters: &mut Counters) -> Result<Message, u16> {
        let cookie = command.cookie;
        if command.datalen == 0 {
            return Ok(Message { cookie, bytes: Vec::new() });
        }
        let buffer = Buffer::of(command, counters).ok_or(error::EINVAL)?;
        let bytes = buffer.read(command, dma, counters).ok_or(error::BAD_ADDR)?;
        Ok(Message { cookie, bytes })
    }

    /// Writes it to the buffer of a lent descriptor; the event, or `None` when it does not fit
    /// there or cannot be written.
    pub fn event(
        &self,
        opcode: u16,
        retval: u16,
        lent: &Descriptor,
        dma: &impl Dma,
        counters: &mut Counters,
    ) -> Option<Descriptor> {
        let place = Location::Command(opcode);
        if self.bytes.len() > usize::from(lent.datalen) || !dma.write(lent.address(), &self.bytes) {
            counters.report(Rule::AdminBufferUnmapped, place, lent.address());
            return None;
        }
        let large = if self.bytes.len() > SMALL_BUFFER { flag::LB } else { 0 };
        let flags = flag::DD | flag::CMP | flag::BUF | large;
        let datalen = self.bytes.len() as u16;
        let mut event = Descriptor { flags, datalen, retval, cookie: self.cookie, ..Descriptor::new(opcode) };
        event.set_address(lent.address());
        Some(event)
    }
}
