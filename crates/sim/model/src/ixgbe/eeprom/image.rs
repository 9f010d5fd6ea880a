//! What the EEPROM holds: the words drivers read, the sections they follow
//! pointers to, and a checksum over both.
//!
//! 82599 datasheet rev. 3.4, section 6. Only what software reads is filled
//! in; the analog and core tuning sections are absent (pointer 0xFFFF).

use crate::ixgbe::link::line::AUTOC_SFP;

/// Size of the memory in words.
pub const WORDS: usize = 4096;
/// EEC.SIZE for [`WORDS`]: the size in words is 2 to the power of this + 6.
pub(super) const SIZE_FIELD: u32 = 6;

/// The sum of all covered words.
pub const SUM: u16 = 0xBABA;
const CHECKSUM: usize = 0x3F;
/// Words 0x03 to 0x0E point to sections the checksum covers; 0x0F (firmware)
/// does not.
const COVERED: std::ops::Range<usize> = 0x03..0x0F;

const PCIE_CONFIG0: usize = 0x07;
const CORE0: usize = 0x09;
const MAC0: usize = 0x0B;
const FIRMWARE: usize = 0x0F;
const SERIAL_MAC: usize = 0x11;
const PBA: usize = 0x15;
const SAN_MAC: usize = 0x28;
const PHY_INIT: usize = 0x2B;
const DEVICE_CAPS: usize = 0x2C;
const IMAGE_ID: usize = 0x2D;
const INIT_CONTROL3: usize = 0x38;
const FREE: usize = 0x80;

/// Any SFP+ module may be used; without it Linux and DPDK accept only Intel's.
const CAPS_ALLOW_ANY_SFP: u16 = 1 << 0;
/// The board needs no check of the cage pin before the link is believed.
const CAPS_NO_CROSSTALK: u16 = 1 << 7;

/// What distinguishes one image from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Permanent MAC address of the port.
    pub mac: [u8; 6],
    /// PCI device id that the PCIe section loads.
    pub device_id: u16,
    /// Storage MAC address; without one the pointer reads 0xFFFF.
    pub san_mac: Option<[u8; 6]>,
    /// AUTOC after the automatic load.
    pub autoc: u32,
    /// Upper half of AUTOC2 after the automatic load.
    pub autoc2_upper: u16,
    /// Whether EEWR exists (X540 and later).
    pub eewr: bool,
}

impl Default for Config {
    /// An 82599 with an SFP+ cage and a locally administered address.
    fn default() -> Config {
        Config {
            mac: [0x02, 0x49, 0x58, 0x00, 0x00, 0x01],
            device_id: 0x10FB,
            san_mac: None,
            autoc: AUTOC_SFP,
            autoc2_upper: 0x000A,
            eewr: false,
        }
    }
}

/// Words being laid out: fixed ones by index, sections one after the other.
struct Layout {
    words: Box<[u16; WORDS]>,
    free: usize,
}

impl Layout {
    /// Appends a section (its length first) and points word `at` to it.
    fn section(&mut self, at: usize, body: &[u16]) -> usize {
        let length = u16::try_from(body.len()).expect("sections are short");
        let start = self.block(&[length]);
        self.block(body);
        self.words[at] = u16::try_from(start).expect("the memory has 4096 words");
        start
    }

    /// Appends raw words and returns where they start.
    fn block(&mut self, body: &[u16]) -> usize {
        let start = self.free;
        self.words[start..start + body.len()].copy_from_slice(body);
        self.free += body.len();
        start
    }
}

/// The words of an image.
pub(super) fn build(config: &Config) -> Box<[u16; WORDS]> {
    let mut layout = Layout { words: Box::new([0xFFFF; WORDS]), free: FREE };
    // Control word 1: signature 01b in bits 7:6 says the contents are valid.
    layout.words[0x00] = (SIZE_FIELD as u16) << 8 | 0x0040;
    layout.words[0x01] = 0;
    layout.words[0x02] = 0;
    layout.words[DEVICE_CAPS] = CAPS_ALLOW_ANY_SFP | CAPS_NO_CROSSTALK;
    // The identity of the image: bit 15 of the high word says how to read it.
    layout.words[IMAGE_ID] = 0x0001;
    layout.words[IMAGE_ID + 1] = 0x8000;
    layout.words[INIT_CONTROL3] = 0;
    let mac = mac_words(config.mac);
    layout.words[SERIAL_MAC..SERIAL_MAC + 3].copy_from_slice(&mac);

    layout.section(PCIE_CONFIG0, &[0, config.device_id, 0, 0, 0, 0, 0, 0]);
    layout.section(CORE0, &[mac[0], mac[1], mac[2]]);
    let autoc = [config.autoc as u16, (config.autoc >> 16) as u16];
    layout.section(MAC0, &[autoc[0], 0, 0, autoc[1], config.autoc2_upper, 0, 0]);
    add_firmware(&mut layout);
    add_part_number(&mut layout);
    add_sfp_sequences(&mut layout);
    if let Some(san) = config.san_mac {
        let [a, b, c] = mac_words(san);
        // Both ports' addresses, though there is one port.
        let start = layout.block(&[a, b, c, 0xFFFF, 0xFFFF, 0xFFFF]);
        layout.words[SAN_MAC] = start as u16;
    }
    layout.words[CHECKSUM] = checksum(&layout.words);
    layout.words
}

/// The firmware module: no LESM block (word 2), and a pass-through patch
/// block (word 4) whose version (word 7) is above 5, below which drivers call
/// the firmware too old for SFI.
fn add_firmware(layout: &mut Layout) {
    let mut patch = [0u16; 8];
    patch[0] = 7;
    patch[7] = 6;
    let patch = layout.block(&patch) as u16;
    let start = layout.section(FIRMWARE, &[0, 0xFFFF, 0xFFFF, patch, 0xFFFF]);
    debug_assert_eq!(layout.words[start + 4], patch);
}

/// The printed-board-assembly number in its string form.
fn add_part_number(layout: &mut Layout) {
    const GUARD: u16 = 0xFAFA;
    let text = b"IXORA0-001";
    let mut block = vec![1 + text.len() as u16 / 2];
    block.extend(text.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])));
    let start = layout.block(&block);
    layout.words[PBA] = GUARD;
    layout.words[PBA + 1] = start as u16;
}

/// The list of module kinds, each with the CORECTL writes that suit it. All
/// kinds of the 82599 (3 to 14) share one sequence of a single write.
fn add_sfp_sequences(layout: &mut Layout) {
    let sequence = layout.block(&[1, 0x0000, 0xFFFF]) as u16;
    let mut list = vec![0];
    for kind in 3..=14 {
        list.extend([kind, sequence]);
    }
    list[0] = list.len() as u16;
    list.push(0xFFFF);
    let start = layout.block(&list);
    layout.words[PHY_INIT] = start as u16;
}

/// A MAC address as three words, first byte in the low half.
fn mac_words(mac: [u8; 6]) -> [u16; 3] {
    [0, 2, 4].map(|at| u16::from_le_bytes([mac[at], mac[at + 1]]))
}

/// The address in the LAN core 0 section.
pub(super) fn mac(words: &[u16; WORDS]) -> [u8; 6] {
    let mut mac = [0xFF; 6];
    let start = usize::from(words[CORE0]);
    for (at, bytes) in mac.chunks_mut(2).enumerate() {
        let word = words.get(start + 1 + at).copied().unwrap_or(0xFFFF);
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    mac
}

/// The value word 0x3F must have: words 0x00 to 0x3E, and each covered
/// section without its length word, add up with it to 0xBABA.
pub fn checksum(words: &[u16; WORDS]) -> u16 {
    let word = |at: usize| words.get(at).copied().unwrap_or(0xFFFF);
    let add = |sum: u16, value: u16| sum.wrapping_add(value);
    let fixed = words[..CHECKSUM].iter().copied().fold(0, add);
    let present = |value: u16| value != 0 && value != 0xFFFF;
    let sections = COVERED
        .map(word)
        .filter(|&pointer| present(pointer))
        .map(usize::from)
        .filter(|&start| present(word(start)))
        .flat_map(|start| start + 1..=start + usize::from(word(start)))
        .map(word)
        .fold(0, add);
    SUM.wrapping_sub(fixed).wrapping_sub(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_covers_the_sections() {
        let mut words = build(&Config::default());
        assert_eq!(words[CHECKSUM], checksum(&words));
        let in_section = usize::from(words[CORE0]) + 1;
        words[in_section] ^= 1;
        assert_ne!(words[CHECKSUM], checksum(&words));
        words[in_section] ^= 1;
        words[usize::from(words[FIRMWARE]) + 1] ^= 1;
        assert_eq!(words[CHECKSUM], checksum(&words), "firmware is not covered");
    }

    #[test]
    fn a_driver_finds_what_it_follows_pointers_to() {
        let words = build(&Config { san_mac: Some([2, 3, 4, 5, 6, 7]), ..Config::default() });
        let at = |index: u16| words[usize::from(index)];
        // Firmware version and no link-establishment state machine.
        let firmware = words[FIRMWARE];
        assert!(at(at(firmware + 4) + 7) > 5);
        assert_eq!(at(firmware + 2), 0xFFFF);
        // Part number: ten characters.
        assert_eq!((words[PBA], at(words[PBA + 1])), (0xFAFA, 6));
        // The sequence of an SR module on port 0 (kind 5), ended by 0xFFFF.
        let list = words[PHY_INIT] + 1;
        let entry = (0..).map(|n| list + 2 * n).find(|&e| at(e) == 5 || at(e) == 0xFFFF);
        let data = at(entry.expect("endless") + 1);
        assert_eq!(at(data + 2), 0xFFFF);
        assert_eq!(at(words[SAN_MAC] + 2), 0x0706);
        assert_eq!(mac(&words), Config::default().mac);
        assert_eq!(build(&Config::default())[SAN_MAC], 0xFFFF);
    }

    #[test]
    fn different_addresses_have_different_checksums_that_hold() {
        for last in 0..=255 {
            let mut config = Config::default();
            config.mac[5] = last;
            let words = build(&config);
            assert_eq!(words[CHECKSUM], checksum(&words));
            assert_eq!(mac(&words), config.mac);
        }
    }
}
