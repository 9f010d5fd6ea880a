//! The non-volatile memory and the three ways to reach it: EERD (one word a
//! command), EEC (a bit-banged SPI memory) and, on X540, EEWR.
//!
//! 82599 datasheet rev. 3.4, sections 6 (map) and 8.2.3.2 (registers). The contents
//! are made by [`image`]. Flash access (FLA, FLOP) is stored but does nothing: no option ROM is modelled.

pub mod image;

pub use image::{Config, WORDS};
use regs::ixgbe::{EEC, EEMNGCTL, EERD, EEWR, FLA, Id};

use super::lint::Rule;

/// The memory's addresses have 16 bits.
const ADDR_SIZE: u32 = 1 << 10;
/// Firmware has finished its part of the configuration, both ports.
const CFG_DONE: u32 = EEMNGCTL::CFG_DONE0 | EEMNGCTL::CFG_DONE1;

/// A page of the SPI memory in bytes: a write wraps inside it.
const PAGE: u16 = 64;

/// What the SPI memory makes of the next byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Opcode,
    Address { write: bool, high: Option<u8> },
    Read { at: u16 },
    Write { at: u16 },
    Status,
    Ignore,
}

/// The EEPROM of one device with the registers that reach it.
#[derive(Debug, Clone)]
pub struct Eeprom {
    words: Box<[u16; WORDS]>,
    writable: bool,
    auto_read_done: bool,
    eec: u32,
    eerd: u32,
    eewr: u32,
    fla: u32,
    eemngctl: u32,
    phase: Phase,
    bits: u8,
    shift: u8,
    out: u8,
    data_out: bool,
    write_enabled: bool,
    violation: Option<Rule>,
}

impl Eeprom {
    /// A memory holding the image `config` describes.
    pub fn new(config: &Config) -> Eeprom {
        Eeprom {
            words: image::build(config),
            writable: config.eewr,
            auto_read_done: true,
            eec: EEC::CS,
            eerd: EERD::DONE,
            eewr: EEWR::DONE,
            fla: 0,
            eemngctl: CFG_DONE,
            phase: Phase::Opcode,
            bits: 0,
            shift: 0,
            out: 0,
            data_out: false,
            write_enabled: false,
            violation: None,
        }
    }

    /// The word at `index`, or 0xFFFF (an erased cell) past the end.
    pub fn word(&self, index: usize) -> u16 {
        self.words.get(index).copied().unwrap_or(0xFFFF)
    }

    /// The permanent MAC address, as the LAN core section holds it.
    pub fn mac(&self) -> [u8; 6] {
        image::mac(&self.words)
    }

    /// Changes one word, as a programming tool on the bench would.
    pub fn set_word(&mut self, index: usize, value: u16) {
        if let Some(word) = self.words.get_mut(index) {
            *word = value;
        }
    }

    /// Says whether EEC reports the automatic load as finished (it does from
    /// the start; a test of a driver's time-out takes it away).
    pub fn set_auto_read_done(&mut self, done: bool) {
        self.auto_read_done = done;
    }

    /// Back to the state after a device reset. The contents stay.
    pub fn reset(&mut self) {
        self.eec = EEC::CS;
        self.eerd = EERD::DONE;
        self.eewr = EEWR::DONE;
        self.deselect();
        self.write_enabled = false;
    }

    /// The rule the last write broke, if any; asking takes it.
    pub fn violation(&mut self) -> Option<Rule> {
        self.violation.take()
    }

    /// Reads a register of this component; `None` when it does not own it.
    pub fn read(&mut self, id: Id) -> Option<u32> {
        Some(match id {
            EEC::ID => self.read_eec(),
            EERD::ID => self.eerd,
            EEWR::ID if self.writable => self.eewr,
            FLA::ID => self.fla,
            EEMNGCTL::ID => self.eemngctl,
            _ => return None,
        })
    }

    /// Writes a register; `false` when the component does not own it.
    pub fn write(&mut self, id: Id, value: u32) -> bool {
        match id {
            EEC::ID => self.write_eec(value),
            EERD::ID => self.write_eerd(value),
            EEWR::ID if self.writable => self.write_eewr(value),
            FLA::ID => self.fla = value & 0x3F,
            EEMNGCTL::ID => self.eemngctl = (value & !CFG_DONE) | CFG_DONE,
            _ => return false,
        }
        true
    }

    /// Section 8.2.3.2.2: the address is in words, 14 bits from bit 2.
    fn write_eerd(&mut self, value: u32) {
        let address = value & 0xFFFC;
        if value & EERD::START == 0 {
            self.eerd = address | (self.eerd & EERD::DONE);
            return;
        }
        let word = self.word((address >> 2) as usize);
        self.eerd = u32::from(word) << 16 | address | EERD::DONE;
    }

    fn write_eewr(&mut self, value: u32) {
        self.eewr = (value & !EEWR::START) | EEWR::DONE;
        if value & EEWR::START != 0 {
            self.set_word((value >> 2 & 0x3FFF) as usize, (value >> 16) as u16);
        }
    }

    fn read_eec(&self) -> u32 {
        let mut value = self.eec | EEC::PRES | ADDR_SIZE | image::SIZE_FIELD << EEC::SIZE_SHIFT;
        if self.auto_read_done {
            value |= EEC::AUTO_RD;
        }
        // Firmware never competes for the memory here: a request is a grant.
        if self.eec & EEC::REQ != 0 {
            value |= EEC::GNT;
        }
        if self.data_out {
            value |= EEC::DO;
        }
        value
    }

    fn write_eec(&mut self, value: u32) {
        let old = self.eec;
        self.eec = value & (EEC::SK | EEC::CS | EEC::DI | EEC::FWE_MASK | EEC::REQ) | (old & EEC::FLUDONE);
        if value & EEC::FLUPD != 0 {
            self.eec |= EEC::FLUDONE;
        }
        let moved = (old ^ value) & (EEC::SK | EEC::DI) != 0 || value & EEC::CS == 0 && old & EEC::CS != 0;
        if self.eec & EEC::REQ == 0 {
            // Without the grant the pins are not ours: nothing reaches the memory.
            if moved {
                self.violation = Some(Rule::EepromWithoutGrant);
            }
            self.deselect();
            return;
        }
        if value & EEC::CS != 0 {
            self.deselect();
            return;
        }
        match (old & EEC::SK != 0, value & EEC::SK != 0) {
            (false, true) => self.clock_in(value & EEC::DI != 0),
            (true, false) => self.clock_out(),
            _ => {}
        }
    }

    /// Chip select away: whatever command was under way is over.
    fn deselect(&mut self) {
        if matches!(self.phase, Phase::Write { .. }) {
            self.write_enabled = false;
        }
        self.phase = Phase::Opcode;
        self.bits = 0;
        self.data_out = false;
    }

    /// SPI mode 0: the memory samples on the rising edge ...
    fn clock_in(&mut self, bit: bool) {
        self.shift = self.shift << 1 | u8::from(bit);
        self.bits += 1;
        if self.bits == 8 {
            self.bits = 0;
            self.take_byte(self.shift);
        }
    }

    /// ... and changes its output on the falling one.
    fn clock_out(&mut self) {
        let talking = matches!(self.phase, Phase::Read { .. } | Phase::Status);
        self.data_out = talking && self.out >> (7 - self.bits) & 1 != 0;
    }

    fn take_byte(&mut self, byte: u8) {
        self.phase = match self.phase {
            Phase::Opcode => self.take_opcode(byte),
            Phase::Address { write, high: None } => Phase::Address { write, high: Some(byte) },
            Phase::Address { write, high: Some(high) } => {
                let at = u16::from_be_bytes([high, byte]);
                self.out = self.byte(at);
                match (write, self.write_enabled) {
                    (false, _) => Phase::Read { at },
                    (true, true) => Phase::Write { at },
                    (true, false) => Phase::Ignore,
                }
            }
            Phase::Read { at } => {
                let at = at.wrapping_add(1);
                self.out = self.byte(at);
                Phase::Read { at }
            }
            Phase::Write { at } => {
                self.set_byte(at, byte);
                let next = at & !(PAGE - 1) | at.wrapping_add(1) & (PAGE - 1);
                Phase::Write { at: next }
            }
            same => same,
        };
    }

    fn take_opcode(&mut self, opcode: u8) -> Phase {
        match opcode {
            0x03 => Phase::Address { write: false, high: None },
            0x02 => Phase::Address { write: true, high: None },
            0x05 => {
                // Ready at once (bit 0 clear), write-enable latch in bit 1.
                self.out = u8::from(self.write_enabled) << 1;
                Phase::Status
            }
            0x06 => {
                self.write_enabled = true;
                Phase::Ignore
            }
            0x04 => {
                self.write_enabled = false;
                Phase::Ignore
            }
            _ => Phase::Ignore,
        }
    }

    /// The SPI memory counts in bytes, the low byte of each word first.
    fn byte(&self, at: u16) -> u8 {
        self.word(usize::from(at / 2)).to_le_bytes()[usize::from(at % 2)]
    }

    fn set_byte(&mut self, at: u16, byte: u8) {
        let mut bytes = self.word(usize::from(at / 2)).to_le_bytes();
        bytes[usize::from(at % 2)] = byte;
        self.set_word(usize::from(at / 2), u16::from_le_bytes(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> Eeprom {
        Eeprom::new(&Config::default())
    }

    fn eerd(device: &mut Eeprom, word: u32) -> u16 {
        assert!(device.write(EERD::ID, word << 2 | EERD::START));
        let value = device.read(EERD::ID).expect("owned");
        assert_ne!(value & EERD::DONE, 0);
        (value >> 16) as u16
    }

    /// The opposite side: what a driver clocks through EEC.
    fn shift_out(device: &mut Eeprom, data: u16, count: u32) {
        let mut eec = device.read(EEC::ID).expect("owned");
        for bit in (0..count).rev() {
            eec = if data >> bit & 1 != 0 { eec | EEC::DI } else { eec & !EEC::DI };
            device.write(EEC::ID, eec);
            device.write(EEC::ID, eec | EEC::SK);
            device.write(EEC::ID, eec);
        }
        device.write(EEC::ID, eec & !EEC::DI);
    }

    fn shift_in(device: &mut Eeprom, count: u32) -> u16 {
        let mut data = 0;
        let eec = device.read(EEC::ID).expect("owned") & !(EEC::DO | EEC::DI);
        for _ in 0..count {
            device.write(EEC::ID, eec | EEC::SK);
            let seen = device.read(EEC::ID).expect("owned");
            data = data << 1 | u16::from(seen & EEC::DO != 0);
            device.write(EEC::ID, eec & !EEC::SK);
        }
        data
    }

    fn select(device: &mut Eeprom) {
        device.write(EEC::ID, EEC::REQ | EEC::CS);
        assert_ne!(device.read(EEC::ID).expect("owned") & EEC::GNT, 0);
        device.write(EEC::ID, EEC::REQ);
    }

    #[test]
    fn eerd_reads_every_word_of_the_image() {
        let mut device = device();
        for word in 0..WORDS as u32 {
            assert_eq!(eerd(&mut device, word), device.word(word as usize));
        }
        assert_eq!(eerd(&mut device, 0x3FFF), 0xFFFF);
    }

    /// The walk drivers make before they trust the memory, through EERD.
    #[test]
    fn a_driver_summing_through_eerd_reaches_baba() {
        let mut device = device();
        let mut sum = 0u16;
        for word in 0..=0x3F {
            sum = sum.wrapping_add(eerd(&mut device, word));
        }
        for pointer in 0x03..0x0F {
            let start = u32::from(eerd(&mut device, pointer));
            if start == 0 || start == 0xFFFF {
                continue;
            }
            let length = u32::from(eerd(&mut device, start));
            assert!(length != 0 && length != 0xFFFF);
            for word in start + 1..=start + length {
                sum = sum.wrapping_add(eerd(&mut device, word));
            }
        }
        assert_eq!(sum, 0xBABA);
    }

    #[test]
    fn spi_read_agrees_with_eerd_and_runs_on() {
        let mut device = device();
        select(&mut device);
        shift_out(&mut device, 0x05, 8);
        assert_eq!(shift_in(&mut device, 8) & 1, 0, "ready");
        for word in [0u16, 0x0F, 0x2C, 0x3F, 0x80] {
            device.write(EEC::ID, EEC::REQ | EEC::CS);
            device.write(EEC::ID, EEC::REQ);
            shift_out(&mut device, 0x03, 8);
            shift_out(&mut device, word * 2, 16);
            assert_eq!(shift_in(&mut device, 16).swap_bytes(), device.word(word.into()));
            assert_eq!(shift_in(&mut device, 16).swap_bytes(), device.word(word as usize + 1));
        }
    }

    #[test]
    fn spi_write_needs_the_latch() {
        let mut device = device();
        let before = device.word(0x90);
        for (latch, expected) in [(false, before), (true, 0x1234)] {
            select(&mut device);
            if latch {
                shift_out(&mut device, 0x06, 8);
                device.write(EEC::ID, EEC::REQ | EEC::CS);
                device.write(EEC::ID, EEC::REQ);
            }
            shift_out(&mut device, 0x02, 8);
            shift_out(&mut device, 0x90 * 2, 16);
            shift_out(&mut device, 0x3412, 16);
            device.write(EEC::ID, EEC::REQ | EEC::CS);
            assert_eq!(device.word(0x90), expected);
        }
    }

    #[test]
    fn clocking_without_a_grant_is_reported_and_does_nothing() {
        let mut device = device();
        device.write(EEC::ID, 0);
        device.write(EEC::ID, EEC::SK);
        assert_eq!(device.violation(), Some(Rule::EepromWithoutGrant));
        assert_eq!(device.violation(), None);
        assert_eq!(device.read(EEC::ID).expect("owned") & EEC::GNT, 0);
    }

    #[test]
    fn eec_reports_present_loaded_and_the_size() {
        let mut device = device();
        let eec = device.read(EEC::ID).expect("owned");
        assert_ne!(eec & EEC::PRES, 0);
        assert_ne!(eec & EEC::AUTO_RD, 0);
        assert_eq!(1usize << ((eec >> EEC::SIZE_SHIFT & 0xF) + 6), WORDS);
        device.set_auto_read_done(false);
        assert_eq!(device.read(EEC::ID).expect("owned") & EEC::AUTO_RD, 0);
    }

    #[test]
    fn eewr_exists_on_x540_only() {
        let mut plain = device();
        assert!(!plain.write(EEWR::ID, 0x80 << 2 | EEWR::START));
        let mut x540 = Eeprom::new(&Config { eewr: true, ..Config::default() });
        assert!(x540.write(EEWR::ID, 0xBEEF_0000 | 0x80 << 2 | EEWR::START));
        assert_eq!(x540.word(0x80), 0xBEEF);
    }
}
