//! A chip's registers in memory alone: none is trapped, so that a driver which shares nothing with
//! us but a file of them can use the chip.
//!
//! What a driver wrote is seen when its registers are looked at next, and handed to the chip then;
//! what the chip has to say is written back. So a driver must wait for an effect as it waits for a
//! card's, and of a register that it writes twice without a wait the second value alone counts.

use model::Pages;
use regs::{Access, Register};

use crate::view::BarPages;

/// A register of an array, or one alone.
#[derive(Debug)]
struct Polled {
    at: u32,
    /// What was last seen there, or written back.
    seen: u32,
    is_writable: bool,
}

/// The registers of a chip that are looked at.
#[derive(Debug)]
pub(super) struct PolledRegisters {
    pages: BarPages,
    registers: Vec<Polled>,
    /// Those that make the chip do something by means of the others, with what was just seen there.
    commands: Vec<(Polled, u32)>,
}

/// The places of registers that are polled, by their offsets.
fn places(table: &[Register], is_polled: impl Fn(u32) -> bool) -> impl Iterator<Item = Polled> {
    let all = table.iter().flat_map(|register| (0..register.len()).map(move |n| (register, register.at(n))));
    all.filter(move |(_, at)| is_polled(*at)).map(|(register, at)| {
        let is_writable = !matches!(register.access, Access::RO | Access::RC);
        Polled { at, seen: 0, is_writable }
    })
}

impl Polled {
    /// Hands a value to the chip if it is new; whether it is.
    #[inline]
    fn take(&mut self, value: u32, write: &mut impl FnMut(u32, u32)) -> bool {
        if value == self.seen {
            return false;
        }
        self.seen = value;
        if self.is_writable {
            write(self.at, value);
        }
        true
    }

    /// Shows what the chip says, unless the driver has written something that was not taken yet.
    fn show(&mut self, value: u32, pages: &BarPages) {
        if value != self.seen && pages.replace(self.at, self.seen, value) {
            self.seen = value;
        }
    }
}

impl PolledRegisters {
    /// Those of a table that are polled, by their offsets; `commands` are those of them that make
    /// the chip do something by means of others.
    pub fn new(
        pages: BarPages,
        table: &[Register],
        commands: &[Register],
        is_polled: impl Fn(u32) -> bool + Copy,
    ) -> PolledRegisters {
        let others: Vec<Register> =
            table.iter().filter(|register| !commands.contains(register)).copied().collect();
        let registers = places(&others, is_polled).collect();
        let commands = places(commands, is_polled).map(|register| (register, 0)).collect();
        PolledRegisters { pages, registers, commands }
    }

    /// Hands to the chip what the driver wrote; whether it wrote anything. Commands are looked at
    /// first and carried out last: what the driver wrote before one is there by then.
    #[inline]
    pub fn take(&mut self, mut write: impl FnMut(u32, u32)) -> bool {
        let PolledRegisters { pages, registers, commands } = self;
        commands.iter_mut().for_each(|(command, value)| *value = pages.load(command.at));
        let mut is_any = false;
        for register in registers {
            is_any |= register.take(pages.load(register.at), &mut write);
        }
        for (command, value) in commands {
            is_any |= command.take(*value, &mut write);
        }
        is_any
    }

    /// Shows what the chip's registers say now, commands last: a driver reads there that they are
    /// carried out.
    #[cold]
    pub fn show(&mut self, mut read: impl FnMut(u32) -> u32) {
        let PolledRegisters { pages, registers, commands } = self;
        let commands = commands.iter_mut().map(|(command, _)| command);
        registers.iter_mut().chain(commands).for_each(|register| register.show(read(register.at), pages));
    }
}
