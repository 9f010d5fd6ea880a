//! The two-wire bus to the SFP+ module, bit-banged through I2CCTL.
//!
//! 82599 datasheet rev. 3.4, section 8.2.3.1 (I2CCTL); the bus follows the
//! I2C rules for start, stop, acknowledge and repeated start; the contents of
//! the module are SFF-8472's, made by [`module`]. No clock stretching, no
//! second master.

pub mod module;

use module::Module;
use regs::ixgbe::{I2CCTL, Id};

/// Which byte the slave is taking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    Address,
    Offset,
    Data,
}

/// Where the slave is in a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waiting for a start condition.
    Idle,
    /// Taking a byte from the master.
    Receive(Expect),
    /// Holding SDA low for the ninth clock; `send` = the master reads next.
    Acknowledge { send: bool },
    /// Giving a byte to the master.
    Send,
    /// The ninth clock of a byte sent: the master says whether it wants more.
    MasterAcknowledge,
}

/// The bus, with at most one module on it.
#[derive(Debug, Clone)]
pub struct I2c {
    module: Option<Module>,
    scl: bool,
    master_sda: bool,
    slave_pulls: bool,
    phase: Phase,
    /// Bits of the current byte clocked so far.
    bits: u8,
    shift: u8,
    page: usize,
    /// Next byte to touch, per page.
    pointer: [u8; 2],
    wants_more: bool,
}

impl I2c {
    /// A bus with a module in the cage, or an empty cage.
    pub fn new(module: Option<Module>) -> I2c {
        I2c {
            module,
            scl: true,
            master_sda: true,
            slave_pulls: false,
            phase: Phase::Idle,
            bits: 0,
            shift: 0,
            page: 0,
            pointer: [0; 2],
            wants_more: false,
        }
    }

    /// Puts a module in or takes it out; a transfer under way ends.
    pub fn set_module(&mut self, module: Option<Module>) {
        self.module = module;
        self.reset();
    }

    /// The module in the cage.
    pub fn module(&self) -> Option<&Module> {
        self.module.as_ref()
    }

    /// The module in the cage, to change what it measures.
    pub fn module_mut(&mut self) -> Option<&mut Module> {
        self.module.as_mut()
    }

    /// Both lines released, as after a device reset. The module keeps power.
    pub fn reset(&mut self) {
        *self = I2c { pointer: self.pointer, ..I2c::new(self.module.take()) };
    }

    /// Reads I2CCTL; `None` for any other register.
    pub fn read(&mut self, id: Id) -> Option<u32> {
        if id != I2CCTL::ID {
            return None;
        }
        let mut value = 0;
        if self.scl {
            // Nobody stretches the clock: in follows out.
            value |= I2CCTL::CLK_IN | I2CCTL::CLK_OUT;
        }
        if self.master_sda {
            value |= I2CCTL::DATA_OUT;
        }
        if self.sda() {
            value |= I2CCTL::DATA_IN;
        }
        Some(value)
    }

    /// Writes I2CCTL; `false` for any other register.
    ///
    /// When both lines change in one write, data moves while the clock is
    /// low, as it must: such a write is never a start or stop condition.
    pub fn write(&mut self, id: Id, value: u32) -> bool {
        if id != I2CCTL::ID {
            return false;
        }
        let scl = value & I2CCTL::CLK_OUT != 0;
        let sda = value & I2CCTL::DATA_OUT != 0;
        if self.scl && !scl {
            self.scl = false;
            self.fall();
        }
        if sda != self.master_sda {
            self.move_data(sda);
        }
        if !self.scl && scl {
            self.scl = true;
            self.rise();
        }
        true
    }

    /// The wire: high only when nobody pulls it low.
    fn sda(&self) -> bool {
        self.master_sda && !self.slave_pulls
    }

    fn move_data(&mut self, sda: bool) {
        let before = self.sda();
        self.master_sda = sda;
        let after = self.sda();
        if !self.scl || before == after {
            return;
        }
        self.bits = 0;
        self.slave_pulls = false;
        self.phase = match (after, &self.module) {
            (false, Some(_)) => Phase::Receive(Expect::Address),
            _ => Phase::Idle,
        };
    }

    fn rise(&mut self) {
        match self.phase {
            Phase::Receive(_) => {
                self.shift = self.shift << 1 | u8::from(self.sda());
                self.bits += 1;
            }
            Phase::MasterAcknowledge => self.wants_more = !self.sda(),
            _ => {}
        }
    }

    fn fall(&mut self) {
        match self.phase {
            Phase::Receive(expect) if self.bits == 8 => self.take_byte(expect),
            Phase::Acknowledge { send } => {
                self.slave_pulls = false;
                self.bits = 0;
                if send {
                    self.load();
                }
            }
            Phase::Send => {
                self.bits += 1;
                if self.bits < 8 {
                    self.present();
                } else {
                    self.slave_pulls = false;
                    self.phase = Phase::MasterAcknowledge;
                }
            }
            Phase::MasterAcknowledge if self.wants_more => self.load(),
            Phase::MasterAcknowledge => self.phase = Phase::Idle,
            Phase::Idle | Phase::Receive(_) => {}
        }
        // After an acknowledge of a written byte the next one follows.
        if self.phase == (Phase::Acknowledge { send: false }) && !self.slave_pulls {
            self.phase = Phase::Receive(self.next_expected());
        }
    }

    /// After the address comes the offset, after that data.
    fn next_expected(&self) -> Expect {
        if self.wants_more { Expect::Data } else { Expect::Offset }
    }

    fn take_byte(&mut self, expect: Expect) {
        self.bits = 0;
        let byte = self.shift;
        let send = match expect {
            Expect::Address => {
                self.page = match byte & 0xFE {
                    0xA0 => 0,
                    0xA2 => 1,
                    // Not for us: SDA stays high, the master reads a NACK.
                    _ => {
                        self.phase = Phase::Idle;
                        return;
                    }
                };
                self.wants_more = false;
                byte & 1 != 0
            }
            Expect::Offset => {
                self.pointer[self.page] = byte;
                self.wants_more = true;
                false
            }
            Expect::Data => {
                let at = self.pointer[self.page];
                if let Some(module) = &mut self.module {
                    module.write(self.page, at, byte);
                }
                self.pointer[self.page] = at.wrapping_add(1);
                false
            }
        };
        self.slave_pulls = true;
        self.phase = Phase::Acknowledge { send };
    }

    /// Takes the next byte of the module and shows its first bit.
    fn load(&mut self) {
        let at = self.pointer[self.page];
        self.shift = self.module.as_ref().map_or(0xFF, |module| module.read(self.page, at));
        self.pointer[self.page] = at.wrapping_add(1);
        self.bits = 0;
        self.phase = Phase::Send;
        self.present();
    }

    fn present(&mut self) {
        self.slave_pulls = self.shift >> (7 - self.bits) & 1 == 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The opposite side: a master as drivers write it.
    struct Master {
        bus: I2c,
        accesses: usize,
    }

    impl Master {
        fn new(module: Option<Module>) -> Master {
            Master { bus: I2c::new(module), accesses: 0 }
        }
        fn set(&mut self, scl: Option<bool>, sda: Option<bool>) {
            let mut value = self.bus.read(I2CCTL::ID).expect("owned");
            for (level, bit) in [(scl, I2CCTL::CLK_OUT), (sda, I2CCTL::DATA_OUT)] {
                match level {
                    Some(true) => value |= bit,
                    Some(false) => value &= !bit,
                    None => {}
                }
            }
            self.bus.write(I2CCTL::ID, value);
            self.accesses += 2;
        }
        fn data(&mut self) -> bool {
            self.accesses += 1;
            self.bus.read(I2CCTL::ID).expect("owned") & I2CCTL::DATA_IN != 0
        }
        fn start(&mut self) {
            self.set(None, Some(true));
            self.set(Some(true), None);
            self.set(None, Some(false));
            self.set(Some(false), None);
        }
        fn stop(&mut self) {
            self.set(None, Some(false));
            self.set(Some(true), None);
            self.set(None, Some(true));
        }
        fn bit_out(&mut self, bit: bool) {
            self.set(None, Some(bit));
            self.set(Some(true), None);
            self.set(Some(false), None);
        }
        fn bit_in(&mut self) -> bool {
            self.set(Some(true), None);
            let bit = self.data();
            self.set(Some(false), None);
            bit
        }
        /// Sends a byte; true when it was acknowledged.
        fn byte_out(&mut self, byte: u8) -> bool {
            for bit in (0..8).rev() {
                self.bit_out(byte >> bit & 1 != 0);
            }
            self.set(None, Some(true));
            !self.bit_in()
        }
        fn byte_in(&mut self, more: bool) -> u8 {
            self.set(None, Some(true));
            let byte = (0..8).fold(0, |byte, _| byte << 1 | u8::from(self.bit_in()));
            self.bit_out(!more);
            byte
        }
        fn read(&mut self, device: u8, offset: u8, count: usize) -> Option<Vec<u8>> {
            self.start();
            if !self.byte_out(device) || !self.byte_out(offset) {
                self.stop();
                return None;
            }
            self.start();
            if !self.byte_out(device | 1) {
                return None;
            }
            let bytes = (0..count).map(|n| self.byte_in(n + 1 < count)).collect();
            self.stop();
            Some(bytes)
        }
        fn write(&mut self, device: u8, offset: u8, bytes: &[u8]) -> bool {
            self.start();
            let mut good = self.byte_out(device) && self.byte_out(offset);
            for &byte in bytes {
                good = good && self.byte_out(byte);
            }
            self.stop();
            good
        }
    }

    #[test]
    fn a_driver_reads_the_identity_byte_by_byte() {
        let mut master = Master::new(Some(Module::default()));
        for (offset, expected) in [(0, 0x03), (3, 0x10), (6, 0x00), (8, 0x00), (92, 0x68)] {
            assert_eq!(master.read(0xA0, offset, 1), Some(vec![expected]));
        }
        assert_eq!(master.read(0xA0, 20, 5).as_deref(), Some(&b"IXORA"[..]));
    }

    #[test]
    fn every_byte_of_both_pages_by_sequential_read_with_wrap() {
        let mut master = Master::new(Some(Module::default()));
        let module = Module::default();
        for (page, device) in [(0, 0xA0), (1, 0xA2)] {
            let bytes = master.read(device, 0, 258).expect("acknowledged");
            for (at, byte) in bytes.iter().enumerate() {
                assert_eq!(*byte, module.read(page, at as u8), "page {page} byte {at}");
            }
        }
    }

    #[test]
    fn other_addresses_and_an_empty_cage_do_not_answer() {
        let mut master = Master::new(Some(Module::default()));
        for device in [0x00, 0x50, 0xA4, 0xA6, 0xF8, 0xFE] {
            assert_eq!(master.read(device, 0, 1), None);
        }
        assert!(master.read(0xA0, 0, 1).is_some(), "bus is free again");
        let mut empty = Master::new(None);
        assert_eq!(empty.read(0xA0, 0, 1), None);
    }

    #[test]
    fn the_pointer_stays_for_a_current_address_read() {
        let mut master = Master::new(Some(Module::default()));
        assert!(master.write(0xA0, 20, &[]));
        master.start();
        assert!(master.byte_out(0xA1));
        assert_eq!(master.byte_in(true), b'I');
        assert_eq!(master.byte_in(false), b'X');
        master.stop();
    }

    #[test]
    fn soft_rate_select_can_be_written_and_the_identity_cannot() {
        let mut master = Master::new(Some(Module::default()));
        assert!(master.write(0xA2, 110, &[0x08]));
        assert_eq!(master.read(0xA2, 110, 1).expect("read")[0] & 0x08, 0x08);
        assert!(master.write(0xA0, 0, &[0x55]));
        assert_eq!(master.read(0xA0, 0, 1), Some(vec![0x03]));
    }

    #[test]
    fn a_bus_stuck_in_a_read_is_freed_by_nine_clocks() {
        let mut master = Master::new(Some(Module::default()));
        master.start();
        assert!(master.byte_out(0xA1));
        master.bit_in();
        // The driver's way out: start, data high, nine clocks, start, stop.
        master.start();
        master.set(None, Some(true));
        for _ in 0..9 {
            master.bit_in();
        }
        master.start();
        master.stop();
        assert!(master.data(), "the line is free");
        assert_eq!(master.read(0xA0, 0, 1), Some(vec![0x03]));
    }

    #[test]
    fn random_wiggling_never_panics() {
        let mut bus = I2c::new(Some(Module::default()));
        let mut state = 1u32;
        for _ in 0..200_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            bus.write(I2CCTL::ID, state >> 16);
            assert!(bus.read(I2CCTL::ID).is_some());
        }
    }
}
