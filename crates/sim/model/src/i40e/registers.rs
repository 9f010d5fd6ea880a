//! Registers that only keep what is written. Those that do something belong to the
//! components; the queues' tails lie in the polled pages.

use regs::i40e::*;

use super::family::{default_inset, directed_class};

/// Registers that keep what is written, by their offsets.
pub(super) trait RegisterFile {
    /// What is kept; 0 where there is no register.
    fn read(&self, offset: u32) -> u32;
    /// Keeps `value` in the register at `offset`.
    fn write(&mut self, offset: u32, value: u32);
}

impl RegisterFile for Registers {
    fn read(&self, offset: u32) -> u32 {
        Registers::read(self, offset)
    }

    fn write(&mut self, offset: u32, value: u32) {
        Registers::write(self, offset, value);
    }
}

/// Classes from 32 on whose last packet may remove a filter of Flow Director, as Linux's driver expects
/// them of an X722: those of TCP.
const EVICTED: u32 = 0xC03;

/// What registers hold, row by row of the table.
#[derive(Debug)]
pub(super) struct Registers {
    values: Vec<Box<[u32]>>,
}

impl Registers {
    /// As after power-on.
    pub fn new(family: Family) -> Registers {
        let values = TABLE.iter().map(|register| vec![0; register.len()].into()).collect();
        let mut registers = Registers { values };
        for n in 0..GLQF_HASH_INSET::COUNT / 2 {
            let value = default_inset(family, n as u32);
            registers.write(GLQF_HASH_INSET::at(2 * n), value as u32);
            registers.write(GLQF_HASH_INSET::at(2 * n + 1), (value >> 32) as u32);
        }
        for n in 0..PRTQF_FD_INSET::COUNT / 2 {
            let value = default_fields(family, n as u32);
            registers.write(PRTQF_FD_INSET::at(2 * n), value as u32);
            registers.write(PRTQF_FD_INSET::at(2 * n + 1), (value >> 32) as u32);
        }
        // What the non-volatile memory gives Flow Director; drivers mend a key that is none.
        for n in 0..GLQF_HKEY::COUNT {
            registers.write(GLQF_HKEY::at(n), 0x6D5A_56DA_u32.rotate_left(n as u32));
        }
        registers.write(GLGEN_RSTCTL::AT, super::RESET_DELAY);
        if family == Family::X722 {
            for n in 0..GLQF_FD_PCTYPES::COUNT {
                registers.write(GLQF_FD_PCTYPES::at(n), directed_class(n as u32));
            }
            registers.write(GLQF_FDEVICTENA::at(1), EVICTED);
        }
        registers
    }

    /// As a reset of the function leaves them: those of the whole card stay.
    pub fn reset(&mut self) {
        let of_card = [
            GLQF_HASH_INSET::ID,
            GLQF_HKEY::ID,
            GLQF_FD_PCTYPES::ID,
            GLQF_FDEVICTENA::ID,
            GLQF_FD_MSK::ID,
            PRTQF_FD_INSET::ID,
            PRTQF_FD_MSK::ID,
            PRTQF_FD_FLXINSET::ID,
            PRTTSYN_CTL0::ID,
            PRTTSYN_CTL1::ID,
            PRTTSYN_INC_L::ID,
            PRTTSYN_INC_H::ID,
            GLGEN_RSTCTL::ID,
        ]
        .map(Id::index);
        let values = self.values.iter_mut().enumerate().filter(|(n, _)| !of_card.contains(n));
        values.for_each(|(_, values)| values.fill(0));
    }

    /// What is kept at `offset`; 0 where there is no register.
    pub fn read(&self, offset: u32) -> u32 {
        lookup(offset).map_or(0, |(id, n)| self.values[id.index()][n])
    }

    /// Keeps `value` in the register at `offset`.
    pub fn write(&mut self, offset: u32, value: u32) {
        if let Some((id, n)) = lookup(offset) {
            self.values[id.index()][n] = value;
        }
    }
}

/// What Flow Director compares of a packet class unless the driver says otherwise: what is
/// hashed, SCTP's tag, and the EtherType of what has no IP.
fn default_fields(family: Family, packet_class: u32) -> u64 {
    let more = match packet_class {
        class::IPV4_SCTP | class::IPV6_SCTP => inset::SCTP_TAG,
        class::L2 => inset::ETHERTYPE,
        _ => 0,
    };
    default_inset(family, packet_class) | more
}

/// The pages of BAR 0 that both sides see in memory: offset and bytes. They hold the tails
/// of transmit and of receive queues.
pub const POLLED: [(u32, u32); 2] = [(QTX_TAIL::at(0), 0x1000), (QRX_TAIL::at(0), 0x1000)];

/// Whether both sides see `offset` in memory.
#[inline]
pub(super) fn is_polled(offset: u32) -> bool {
    POLLED.iter().any(|&(first, len)| offset.wrapping_sub(first) < len)
}
