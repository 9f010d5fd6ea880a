//! The non-volatile memory and the three ways to reach it: EERD (one word a
//! command), EEC (a bit-banged SPI memory) and, on X540, EEWR.
//!
//! 82599 datasheet rev. 3.4, sections 6 (map) and 8.2.3.2 (registers). The contents are made by [`image`]. Flash access (FLA, FLOP)
//! is stored but does nothing: no option ROM is modelled.

pub mod image;

use super::lint::Rule;
pub use image::{Config, WORDS};

const EEC: u32 = 0x1_0010;
const EERD: u32 = 0x1_0014;
const EEWR: u32 = 0x1_0018;
const FLA: u32 = 0x1_001C;
const EEMNGCTL: u32 = 0x1_0110;

const SK: u32 = 1 << 0;
const CS: u32 = 1 << 1;
const DI: u32 = 1 << 2;
const DO: u32 = 1 << 3;
const FWE: u32 = 3 << 4;
const REQ: u32 = 1 << 6;
const GNT: u32 = 1 << 7;
const PRES: u32 = 1 << 8;
const AUTO_RD: u32 = 1 << 9;
const ADDR_SIZE: u32 = 1 << 10;
const SIZE_SHIFT: u32 = 11;
const FLUPD: u32 = 1 << 23;
const FLUDONE: u32 = 1 << 26;

const START: u32 = 1 << 0;
const DONE: u32 = 1 << 1;
/// EEMNGCTL: firmware has finished its part of the configuration, both ports.
const CFG_DONE: u32 = 3 << 18;

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
            eec: CS,
            eerd: DONE,
            eewr: DONE,
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
        self.eec = CS;
        self.eerd = DONE;
        self.eewr = DONE;
        self.deselect();
        self.write_enabled = false;
    }

    /// The rule the last write broke, if any; asking takes it.
    pub fn violation(&mut self) -> Option<Rule> {
        self.violation.take()
    }

    /// Reads a register of this component; `None` when it owns none there.
    pub fn read(&mut self, offset: u32) -> Option<u32> {
        Some(match offset {
            EEC => self.read_eec(),
            EERD => self.eerd,
            EEWR if self.writable => self.eewr,
            FLA => self.fla,
            EEMNGCTL => self.eemngctl,
            _ => return None,
        })
    }

    /// Writes a register; `false` when the component owns none at `offset`.
    pub fn write(&mut self, offset: u32, value: u32) -> bool {
        match offset {
            EEC => self.write_eec(value),
            EERD => self.write_eerd(value),
            EEWR if self.writable => self.write_eewr(value),
            FLA => self.fla = value & 0x3F,
            EEMNGCTL => self.eemngctl = (value & !CFG_DONE) | CFG_DONE,
            _ => return false,
        }
        true
    }

    /// Section 8.2.3.2.2: the address is in words, 14 bits from bit 2.
    fn write_eerd(&mut self, value: u32) {
        let address = value & 0xFFFC;
        if value & START == 0 {
            self.eerd = address | (self.eerd & DONE);
            return;
        }
        let word = self.word((address >> 2) as usize);
        self.eerd = u32::from(word) << 16 | address | DONE;
    }

    fn write_eewr(&mut self, value: u32) {
        self.eewr = (value & !START) | DONE;
        if value & START != 0 {
            self.set_word((value >> 2 & 0x3FFF) as usize, (value >> 16) as u16);
        }
    }

    fn read_eec(&self) -> u32 {
        let mut value = self.eec | PRES | ADDR_SIZE | image::SIZE_FIELD << SIZE_SHIFT;
        if self.auto_read_done {
            value |= AUTO_RD;
        }
        // Firmware never competes for the memory here: a request is a grant.
        if self.eec & REQ != 0 {
            value |= GNT;
        }
        if self.data_out {
            value |= DO;
        }
        value
    }

    fn write_eec(&mut self, value: u32) {
        let old = self.eec;
        self.eec = value & (SK | CS | DI | FWE | REQ) | (old & FLUDONE);
        if value & FLUPD != 0 {
            self.eec |= FLUDONE;
        }
        let moved = (old ^ value) & (SK | DI) != 0 || value & CS == 0 && old & CS != 0;
        if self.eec & REQ == 0 {
            // Without the grant the pins are not ours: nothing reaches the memory.
            if moved {
                self.violation = Some(Rule::EepromWithoutGrant);
            }
            self.deselect();
            return;
        }
        if value & CS != 0 {
            self.deselect();
            return;
        }
        match (old & SK != 0, value & SK != 0) {
            (false, true) => self.clock_in(value & DI != 0),
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
        assert!(device.write(EERD, word << 2 | START));
        let value = device.read(EERD).expect("owned");
        assert_ne!(value & DONE, 0);
        (value >> 16) as u16
    }

    /// The opposite side: what a driver clocks through EEC.
    fn shift_out(device: &mut Eeprom, data: u16, count: u32) {
        let mut eec = device.read(EEC).expect("owned");
        for bit in (0..count).rev() {
            eec = if data >> bit & 1 != 0 { eec | DI } else { eec & !DI };
            device.write(EEC, eec);
            device.write(EEC, eec | SK);
            device.write(EEC, eec);
        }
        device.write(EEC, eec & !DI);
    }

    fn shift_in(device: &mut Eeprom, count: u32) -> u16 {
        let mut data = 0;
        let eec = device.read(EEC).expect("owned") & !(DO | DI);
        for _ in 0..count {
            device.write(EEC, eec | SK);
            let seen = device.read(EEC).expect("owned");
            data = data << 1 | u16::from(seen & DO != 0);
            device.write(EEC, eec & !SK);
        }
        data
    }

    fn select(device: &mut Eeprom) {
        device.write(EEC, REQ | CS);
        assert_ne!(device.read(EEC).expect("owned") & GNT, 0);
        device.write(EEC, REQ);
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
            device.write(EEC, REQ | CS);
            device.write(EEC, REQ);
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
                device.write(EEC, REQ | CS);
                device.write(EEC, REQ);
            }
            shift_out(&mut device, 0x02, 8);
            shift_out(&mut device, 0x90 * 2, 16);
            shift_out(&mut device, 0x3412, 16);
            device.write(EEC, REQ | CS);
            assert_eq!(device.word(0x90), expected);
        }
    }

    #[test]
    fn clocking_without_a_grant_is_reported_and_does_nothing() {
        let mut device = device();
        device.write(EEC, 0);
        device.write(EEC, SK);
        assert_eq!(device.violation(), Some(Rule::EepromWithoutGrant));
        assert_eq!(device.violation(), None);
        assert_eq!(device.read(EEC).expect("owned") & GNT, 0);
    }

    #[test]
    fn eec_reports_present_loaded_and_the_size() {
        let mut device = device();
        let eec = device.read(EEC).expect("owned");
        assert_ne!(eec & PRES, 0);
        assert_ne!(eec & AUTO_RD, 0);
        assert_eq!(1usize << ((eec >> SIZE_SHIFT & 0xF) + 6), WORDS);
        device.set_auto_read_done(false);
        assert_eq!(device.read(EEC).expect("owned") & AUTO_RD, 0);
    }

    #[test]
    fn eewr_exists_on_x540_only() {
        let mut plain = device();
        assert!(!plain.write(EEWR, 0x80 << 2 | START));
        let mut x540 = Eeprom::new(&Config { eewr: true, ..Config::default() });
        assert!(x540.write(EEWR, 0xBEEF_0000 | 0x80 << 2 | START));
        assert_eq!(x540.word(0x80), 0xBEEF);
    }
}
