//! The configuration space of a device model: a header of type 0 with BARs
//! that can be sized, and the capabilities drivers look for. Sources: PCI
//! Local Bus Specification 3.0 (chapter 6), PCI Power Management 1.2 (3.2) and
//! PCI Express Base 3.0 (7.8).
//!
//! An image of bytes, and for each byte which bits can be written. Where BARs
//! are placed moves nothing: models are addressed by BAR and offset. No MSI,
//! no extended capabilities, no bridges.

use crate::Ids;

/// Bytes of a PCI Express function's configuration space.
pub const SIZE: usize = 4096;

const VENDOR: usize = 0x00;
const DEVICE: usize = 0x02;
const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const REVISION: usize = 0x08;
const CACHE_LINE: usize = 0x0C;
const BAR0: usize = 0x10;
const SUBSYSTEM_VENDOR: usize = 0x2C;
const SUBSYSTEM: usize = 0x2E;
const CAPABILITIES: usize = 0x34;
const INTERRUPT_LINE: usize = 0x3C;
const INTERRUPT_PIN: usize = 0x3D;

/// I/O, memory, bus master, parity response, SERR, INTx disable (6.2.2).
const COMMAND_WRITABLE: u16 = 0x0547;
const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_BUS_MASTER: u16 = 1 << 2;
const STATUS_CAPABILITIES: u16 = 1 << 4;
/// Error bits, cleared by writing 1 (6.2.3).
const STATUS_CLEARABLE: u16 = 0xF900;

const ID_POWER: u8 = 0x01;
const ID_PCIE: u8 = 0x10;
const ID_MSIX: u8 = 0x11;
const ID_VENDOR: u8 = 0x09;
const MSIX_ENABLE: u16 = 1 << 15;
const MSIX_MASK: u16 = 1 << 14;
const PCIE_FLR: u16 = 1 << 15;

/// What a BAR of a model is (6.2.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarType {
    /// A range of I/O ports.
    Io,
    /// Memory below 4 GiB.
    Memory32,
    /// Memory anywhere; takes the next BAR's register too.
    Memory64,
}

/// A model's configuration space. Built by the `with_` functions, which panic
/// on what no device could have: they are given constants.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    bytes: Vec<u8>,
    /// As built: what a reset brings back.
    initial: Vec<u8>,
    /// Bits that take what is written.
    writable: Vec<u8>,
    /// Bits that are cleared by writing 1.
    clearable: Vec<u8>,
    last_capability: usize,
    msix: Option<usize>,
    pcie: Option<usize>,
    reset_asked: bool,
}

impl ConfigSpace {
    /// A header of type 0 without BARs and capabilities.
    pub fn new(ids: Ids) -> ConfigSpace {
        let zeros = vec![0; SIZE];
        let mut space = ConfigSpace {
            bytes: zeros.clone(),
            initial: zeros.clone(),
            writable: zeros.clone(),
            clearable: zeros,
            last_capability: CAPABILITIES,
            msix: None,
            pcie: None,
            reset_asked: false,
        };
        space.put16(VENDOR, ids.vendor);
        space.put16(DEVICE, ids.device);
        space.put32(REVISION, ids.class << 8 | u32::from(ids.revision));
        space.put16(SUBSYSTEM_VENDOR, ids.subsystem_vendor);
        space.put16(SUBSYSTEM, ids.subsystem);
        space.allow(COMMAND, &COMMAND_WRITABLE.to_le_bytes());
        space.allow(CACHE_LINE, &[0xFF]);
        space.allow(INTERRUPT_LINE, &[0xFF]);
        space.clearable[STATUS..STATUS + 2].copy_from_slice(&STATUS_CLEARABLE.to_le_bytes());
        space
    }

    /// Adds BAR `index` of `size` bytes, a power of two.
    #[must_use]
    pub fn with_bar(mut self, index: usize, kind: BarType, size: u64) -> ConfigSpace {
        let least = if kind == BarType::Io { 4 } else { 16 };
        assert!(index < 6 && size.is_power_of_two() && size >= least, "no such BAR");
        let register = BAR0 + 4 * index;
        let mask = !(size - 1);
        let (low, wide) = match kind {
            BarType::Io => (0b01, false),
            BarType::Memory32 => (0b000, false),
            BarType::Memory64 => (0b100, true),
        };
        assert!(if wide { index < 5 } else { size <= 1 << 31 }, "the BAR does not fit its register");
        self.put32(register, low);
        self.allow(register, &(mask as u32).to_le_bytes());
        if wide {
            self.allow(register + 4, &((mask >> 32) as u32).to_le_bytes());
        }
        self
    }

    /// Says that the device has an interrupt pin: 1 is INTA.
    #[must_use]
    pub fn with_interrupt_pin(mut self, pin: u8) -> ConfigSpace {
        self.put(INTERRUPT_PIN, &[pin]);
        self
    }

    /// Adds power management at offset `at`; D0 and D3hot, state is kept.
    #[must_use]
    pub fn with_power_management(mut self, at: usize) -> ConfigSpace {
        self.add_capability(at, ID_POWER, 8);
        self.put16(at + 2, 0x0003); // version 3 of the capability
        self.put16(at + 4, 1 << 3); // No_Soft_Reset
        self.allow(at + 4, &0x0103_u16.to_le_bytes()); // PowerState, PME_En
        self.clearable[at + 5] = 0x80; // PME_Status
        self
    }

    /// Adds MSI-X at offset `at`; `table` and `pending` are BAR and offset.
    #[must_use]
    pub fn with_msix(mut self, at: usize, vectors: u16, table: (u8, u32), pending: (u8, u32)) -> ConfigSpace {
        assert!((1..=2048).contains(&vectors), "an MSI-X table has 1 to 2048 vectors");
        let aligned = (table.1 | pending.1).is_multiple_of(8) && table.0 < 6 && pending.0 < 6;
        assert!(aligned, "MSI-X structures are aligned to 8 bytes within BAR 0 to 5");
        self.add_capability(at, ID_MSIX, 12);
        self.put16(at + 2, vectors - 1);
        self.allow(at + 2, &(MSIX_ENABLE | MSIX_MASK).to_le_bytes());
        self.put32(at + 4, table.1 | u32::from(table.0));
        self.put32(at + 8, pending.1 | u32::from(pending.0));
        self.msix = Some(at);
        self
    }

    /// Adds PCI Express at offset `at`: an endpoint of `lanes` lanes, 5 GT/s,
    /// that can be reset by function.
    #[must_use]
    pub fn with_pcie(mut self, at: usize, lanes: u8) -> ConfigSpace {
        self.add_capability(at, ID_PCIE, 0x3C);
        let link = u32::from(lanes) << 4 | 2;
        self.put16(at + 0x02, 0x0002); // version 2, endpoint
        self.put32(at + 0x04, 1 << 28 | 1 << 15 | 2); // FLR, role-based errors, 512-byte payloads
        self.put16(at + 0x08, 0x2810); // read requests of 512 bytes, relaxed ordering
        self.allow(at + 0x08, &0x7FFF_u16.to_le_bytes());
        self.clearable[at + 0x0A] = 0x0F;
        self.put32(at + 0x0C, link);
        self.allow(at + 0x10, &0x01FB_u16.to_le_bytes());
        self.put16(at + 0x12, link as u16);
        self.put32(at + 0x24, 0x1F); // completion time-outs can be chosen
        self.allow(at + 0x28, &0x001F_u16.to_le_bytes());
        self.put16(at + 0x30, 2); // target speed
        self.pcie = Some(at);
        self
    }

    /// Adds a vendor-specific capability at offset `at`: `content` follows the
    /// head, whose length byte is part of this (6.7, appendix H). Bits set in
    /// `writable`, which begins where `content` does, take what is written.
    #[must_use]
    pub fn with_vendor_capability(mut self, at: usize, content: &[u8], writable: &[u8]) -> ConfigSpace {
        let len = 3 + content.len();
        assert!(len <= 0xFF && writable.len() <= content.len(), "a capability has 255 bytes at most");
        self.add_capability(at, ID_VENDOR, len.next_multiple_of(4));
        self.put(at + 2, &[len as u8]);
        self.put(at + 3, content);
        self.allow(at + 3, writable);
        self
    }

    /// Reads; what lies beyond the end is all ones.
    pub fn read(&self, offset: u16, data: &mut [u8]) {
        let bytes = self.bytes.get(usize::from(offset)..).unwrap_or_default();
        for (index, byte) in data.iter_mut().enumerate() {
            *byte = bytes.get(index).copied().unwrap_or(0xFF);
        }
    }

    /// Writes; read-only bits keep their value.
    pub fn write(&mut self, offset: u16, data: &[u8]) {
        for (at, &new) in (usize::from(offset)..SIZE).zip(data) {
            let writable = self.writable[at];
            let cleared = new & self.clearable[at];
            self.bytes[at] = (self.bytes[at] & !writable | new & writable) & !cleared;
            let flr = self.pcie.is_some_and(|pcie| at == pcie + 0x09) && new & (PCIE_FLR >> 8) as u8 != 0;
            self.reset_asked |= flr;
        }
    }

    /// Whether a write asked for a function-level reset since last asked.
    pub fn take_reset(&mut self) -> bool {
        std::mem::take(&mut self.reset_asked)
    }

    /// Back to what was built.
    pub fn reset(&mut self) {
        self.bytes.copy_from_slice(&self.initial);
        self.reset_asked = false;
    }

    /// Whether the device may reach memory.
    pub fn bus_master(&self) -> bool {
        self.word(COMMAND) & COMMAND_BUS_MASTER != 0
    }

    /// Whether memory BARs answer.
    pub fn memory_enabled(&self) -> bool {
        self.word(COMMAND) & COMMAND_MEMORY != 0
    }

    /// Whether MSI-X is on and not masked as a whole.
    pub fn msix_enabled(&self) -> bool {
        let control = self.msix.map_or(0, |msix| self.word(msix + 2));
        control & (MSIX_ENABLE | MSIX_MASK) == MSIX_ENABLE
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    fn put(&mut self, at: usize, data: &[u8]) {
        self.bytes[at..][..data.len()].copy_from_slice(data);
        self.initial[at..][..data.len()].copy_from_slice(data);
    }

    fn put16(&mut self, at: usize, value: u16) {
        self.put(at, &value.to_le_bytes());
    }

    fn put32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    fn allow(&mut self, at: usize, mask: &[u8]) {
        self.writable[at..][..mask.len()].copy_from_slice(mask);
    }

    /// Hangs a capability at the end of the chain (6.7).
    fn add_capability(&mut self, at: usize, id: u8, len: usize) {
        let free = |at: usize| self.bytes[at..at + len].iter().all(|&byte| byte == 0);
        let fits = at >= 0x40 && at.is_multiple_of(4) && at + len <= 0x100 && free(at);
        assert!(fits, "capabilities lie in 0x40..0x100, aligned, without overlap");
        let status = self.word(STATUS) | STATUS_CAPABILITIES;
        self.put16(STATUS, status);
        self.put(self.last_capability, &[at as u8]);
        self.put(at, &[id, 0]);
        self.last_capability = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> ConfigSpace {
        let ids = Ids { vendor: 0x8086, device: 0x10FB, revision: 1, class: 0x020000, ..Ids::default() };
        ConfigSpace::new(ids)
            .with_bar(0, BarType::Memory64, 0x20000)
            .with_bar(2, BarType::Io, 32)
            .with_bar(4, BarType::Memory64, 0x4000)
            .with_power_management(0x40)
            .with_msix(0x70, 64, (4, 0), (4, 0x2000))
            .with_pcie(0xA0, 8)
    }

    fn read32(space: &ConfigSpace, at: u16) -> u32 {
        let mut data = [0; 4];
        space.read(at, &mut data);
        u32::from_le_bytes(data)
    }

    #[test]
    fn bars_are_sized_by_writing_ones() {
        let mut space = space();
        assert_eq!(read32(&space, 0x00), 0x10FB_8086);
        for (bar, sized) in [(0, 0xFFFE_0004), (1, !0), (2, 0xFFFF_FFE1), (3, 0), (4, 0xFFFF_C004), (5, !0)] {
            space.write(0x10 + 4 * bar, &[0xFF; 4]);
            assert_eq!(read32(&space, 0x10 + 4 * bar), sized, "BAR {bar}");
        }
        space.write(0x10, &0xF000_1234_u32.to_le_bytes());
        assert_eq!(read32(&space, 0x10), 0xF000_0004);
    }

    #[test]
    fn the_chain_names_each_capability_once() {
        let space = space();
        assert_ne!(read32(&space, 0x04) & 1 << 20, 0);
        let (mut at, mut found) = (read32(&space, 0x34) as u8, Vec::new());
        while at != 0 {
            let head = read32(&space, at.into());
            found.push((at, head as u8));
            at = (head >> 8) as u8;
        }
        assert_eq!(found, [(0x40, ID_POWER), (0x70, ID_MSIX), (0xA0, ID_PCIE)]);
        assert_eq!(read32(&space, 0x70) >> 16, 63);
        assert_eq!((read32(&space, 0x74), read32(&space, 0x78)), (4, 0x2004));
        assert_eq!(read32(&space, 0xB0) >> 16, 0x82, "x8 at 5 GT/s");
    }

    #[test]
    fn read_only_bits_stay_and_a_reset_undoes_the_rest() {
        let mut space = space();
        let before: Vec<u32> = (0..64).map(|word| read32(&space, word * 4)).collect();
        for at in 0..0x100 {
            space.write(at, &[0xFF]);
        }
        assert_eq!(read32(&space, 0x00), 0x10FB_8086);
        assert_eq!(read32(&space, 0x04), 0x0010_0547);
        assert!(space.bus_master() && space.memory_enabled());
        assert!(space.take_reset() && !space.take_reset(), "FLR is a request, once");
        assert_eq!(read32(&space, 0xA8) & 1 << 15, 0, "and reads as 0");
        space.reset();
        assert!(!space.bus_master() && !space.memory_enabled());
        assert_eq!((0..64).map(|word| read32(&space, word * 4)).collect::<Vec<_>>(), before);
    }

    #[test]
    fn a_vendor_capability_keeps_what_is_not_writable() {
        let ids = Ids { vendor: 0x1AF4, device: 0x1041, ..Ids::default() };
        let mut space = ConfigSpace::new(ids).with_vendor_capability(0x40, &[5, 1, 2, 3, 4], &[0, 0xFF]);
        space.write(0x42, &[0xAA; 6]);
        assert_eq!((read32(&space, 0x40), read32(&space, 0x44)), (0x0508_0009, 0x0403_02AA));
        space.reset();
        assert_eq!(read32(&space, 0x44), 0x0403_0201);
    }

    #[test]
    fn msix_is_on_when_enabled_and_unmasked() {
        let mut space = space();
        for (control, on) in [(0x00, false), (0x80, true), (0xC0, false)] {
            space.write(0x73, &[control]);
            assert_eq!(space.msix_enabled(), on);
        }
    }

    #[test]
    fn beyond_the_end_is_nothing() {
        let mut space = space();
        space.write(4095, &[1, 2, 3]);
        space.write(u16::MAX, &[1]);
        let mut data = [0; 3];
        space.read(4095, &mut data);
        assert_eq!(data, [0, 0xFF, 0xFF]);
    }
}
