//! An SFP+ module as software sees it: 256 bytes of identity and 256 bytes
//! of diagnostics.
//!
//! SFF-8472 rev. 12.4, tables 4-1 (page A0h) and 9-5 to 9-11 (page A2h). The
//! module is a 10GBASE-SR one whose measurements do not move by themselves.

/// Page A2h byte 110: status and soft control.
const STATUS: usize = 110;
const STATUS_RX_LOS: u8 = 1 << 1;
const STATUS_SOFT_RATE_SELECT: u8 = 1 << 3;
const STATUS_SOFT_TX_DISABLE: u8 = 1 << 6;
const EXTENDED_CONTROL: usize = 118;
const RX_POWER: usize = 104;
/// 0.5 mW in units of 0.1 µW.
const RX_POWER_LIT: u16 = 5000;

/// The memory of a module, pages A0h and A2h.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    pages: [[u8; 256]; 2],
}

impl Default for Module {
    /// A 10GBASE-SR module of vendor IXORA.
    fn default() -> Module {
        Module::short_range("IXORA", "0000000001")
    }
}

impl Module {
    /// A 10GBASE-SR module; names longer than 16 characters are cut.
    pub fn short_range(vendor: &str, serial: &str) -> Module {
        Module { pages: [identity(vendor, serial), diagnostics()] }
    }

    /// One byte; `page` 0 is A0h, any other A2h.
    pub fn read(&self, page: usize, at: u8) -> u8 {
        self.pages[page.min(1)][usize::from(at)]
    }

    /// A write from the bus: only the soft controls of page A2h take it.
    pub fn write(&mut self, page: usize, at: u8, value: u8) {
        let mask = match (page, usize::from(at)) {
            (1, STATUS) => STATUS_SOFT_TX_DISABLE | STATUS_SOFT_RATE_SELECT,
            (1, EXTENDED_CONTROL) => STATUS_SOFT_RATE_SELECT,
            _ => return,
        };
        let byte = &mut self.pages[1][usize::from(at)];
        *byte = *byte & !mask | value & mask;
    }

    /// Light on or off: received power and the loss-of-signal bit follow.
    pub fn set_light(&mut self, lit: bool) {
        let power = if lit { RX_POWER_LIT } else { 0 };
        let page = &mut self.pages[1];
        page[RX_POWER..RX_POWER + 2].copy_from_slice(&power.to_be_bytes());
        page[STATUS] &= !STATUS_RX_LOS;
        if !lit {
            page[STATUS] |= STATUS_RX_LOS;
        }
    }

    /// Temperature in 1/256 degree Celsius.
    pub fn set_temperature(&mut self, value: i16) {
        self.pages[1][96..98].copy_from_slice(&value.to_be_bytes());
    }
}

/// The low byte of the sum, as CC_BASE, CC_EXT and CC_DMI use it.
fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// Writes `text` padded with spaces, as all names in the memory are.
fn put_text(field: &mut [u8], text: &str) {
    field.fill(b' ');
    for (to, from) in field.iter_mut().zip(text.bytes()) {
        *to = from;
    }
}

fn identity(vendor: &str, serial: &str) -> [u8; 256] {
    let mut page = [0; 256];
    page[0] = 0x03; // SFP or SFP+
    page[1] = 0x04; // defined by its two-wire identity
    page[2] = 0x07; // LC connector
    page[3] = 0x10; // 10GBASE-SR
    page[11] = 0x06; // 64B/66B
    page[12] = 103; // 10.3 Gbit/s
    page[16] = 8; // 80 m on OM2
    page[17] = 3; // 30 m on OM1
    page[19] = 30; // 300 m on OM3
    put_text(&mut page[20..36], vendor);
    // A locally administered vendor number: no maker's name is borrowed.
    page[37..40].copy_from_slice(&[0x02, b'I', b'X']);
    put_text(&mut page[40..56], "IXORA-10G-SR");
    put_text(&mut page[56..60], "1");
    page[60..62].copy_from_slice(&850u16.to_be_bytes()); // nm
    page[63] = sum(&page[..63]);
    page[65] = 0x1A; // TX_DISABLE, TX_FAULT and RX_LOS pins exist
    put_text(&mut page[68..84], serial);
    put_text(&mut page[84..92], "260101");
    page[92] = 0x68; // diagnostics, internally calibrated, average power
    page[93] = 0xF0; // alarms, soft TX_DISABLE, TX_FAULT, RX_LOS
    page[94] = 0x05; // SFF-8472 rev. 11.0
    page[95] = sum(&page[64..95]);
    page
}

fn diagnostics() -> [u8; 256] {
    let mut page = [0; 256];
    // High alarm, low alarm, high warning, low warning of each measurement.
    let thresholds: [[u16; 4]; 5] = [
        [75 << 8, (-5i16 << 8) as u16, 70 << 8, 0], // 1/256 degree Celsius
        [36_300, 29_700, 34_600, 31_350],           // 100 µV
        [5_250, 1_000, 5_000, 1_250],               // 2 µA
        [12_589, 1_175, 7_943, 1_862],              // 0.1 µW
        [12_589, 407, 7_943, 1_023],                // 0.1 µW
    ];
    for (at, value) in thresholds.iter().flatten().enumerate() {
        page[2 * at..2 * at + 2].copy_from_slice(&value.to_be_bytes());
    }
    // Calibration constants of an internally calibrated module: 1 and 0.
    page[68] = 0x3F;
    page[69] = 0x80;
    for slope in [76, 80, 84, 88] {
        page[slope] = 1;
    }
    page[95] = sum(&page[..95]);
    // 35.5 degree Celsius, 3.3 V, 6 mA, 0.6 mW sent, 0.5 mW received.
    let measured = [0x2380, 33_000, 3_000, 6_000, RX_POWER_LIT];
    for (at, value) in measured.iter().enumerate() {
        page[96 + 2 * at..98 + 2 * at].copy_from_slice(&value.to_be_bytes());
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_checksums_hold() {
        let module = Module::default();
        let [identity, diagnostics] = &module.pages;
        assert_eq!(identity[63], sum(&identity[..63]));
        assert_eq!(identity[95], sum(&identity[64..95]));
        assert_eq!(diagnostics[95], sum(&diagnostics[..95]));
        assert_eq!(&identity[20..36], b"IXORA           ");
    }

    #[test]
    fn losing_the_light_shows() {
        let mut module = Module::default();
        module.set_light(false);
        assert_eq!(module.read(1, 104), 0);
        assert_eq!(module.read(1, 110) & STATUS_RX_LOS, STATUS_RX_LOS);
        module.set_light(true);
        assert_eq!(module, Module::default());
    }

    #[test]
    fn measurements_lie_inside_their_alarms() {
        let module = Module::default();
        let value = |at: u8| i32::from(i16::from_be_bytes([module.read(1, at), module.read(1, at + 1)]));
        for n in 0..5 {
            assert!(value(96 + 2 * n) as u16 <= value(8 * n) as u16);
            assert!(n == 0 || value(96 + 2 * n) as u16 >= value(8 * n + 2) as u16);
        }
    }
}
