//! The shadow RAM: a small image of the non-volatile memory whose checksum is right, read by
//! a register or by a command (datasheet 332464, chapter 6). Nothing can be written.

use regs::i40e::{GLNVM_GENS, GLNVM_SRCTL, GLNVM_SRDATA, shadow};

/// The smallest size that holds a sector: 4 KiB, as a power of two of KiB.
const SIZE: u32 = 2;

/// The shadow RAM.
#[derive(Debug)]
pub(super) struct Nvm {
    words: Box<[u16]>,
    /// The word that was asked for by the register.
    selected: u16,
}

impl Nvm {
    pub fn new() -> Nvm {
        let mut words = vec![0u16; shadow::SECTOR_WORDS].into_boxed_slice();
        words[shadow::CONTROL] = shadow::VALID;
        words[shadow::STARTER_VERSION] = 0x6001;
        // There are no modules that the checksum leaves out.
        words[shadow::VPD_POINTER] = 0xFFFF;
        words[shadow::PCIE_ALT_POINTER] = 0xFFFF;
        let sum = words.iter().fold(0u16, |sum, word| sum.wrapping_add(*word));
        words[shadow::CHECKSUM] = shadow::CHECKSUM_BASE.wrapping_sub(sum);
        Nvm { words, selected: 0 }
    }

    /// What GLNVM_GENS reads.
    pub fn general(&self) -> u32 {
        GLNVM_GENS::NVM_PRES | SIZE << GLNVM_GENS::SR_SIZE_SHIFT
    }

    /// The driver wrote GLNVM_SRCTL.
    pub fn control(&mut self, value: u32) {
        if value & GLNVM_SRCTL::START != 0 && value & GLNVM_SRCTL::WRITE == 0 {
            self.selected = ((value & GLNVM_SRCTL::ADDR_MASK) >> GLNVM_SRCTL::ADDR_SHIFT) as u16;
        }
    }

    /// What GLNVM_SRDATA reads.
    pub fn data(&self) -> u32 {
        u32::from(self.word(self.selected.into())) << GLNVM_SRDATA::RDDATA_SHIFT
    }

    fn word(&self, at: usize) -> u16 {
        self.words.get(at).copied().unwrap_or(0xFFFF)
    }

    /// `len` bytes from byte `offset`; `None` beyond the end.
    pub fn bytes(&self, offset: usize, len: usize) -> Option<Vec<u8>> {
        let end = offset.checked_add(len).filter(|end| *end <= 2 * self.words.len())?;
        Some((offset..end).map(|at| self.word(at / 2).to_le_bytes()[at % 2]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_words_add_up_and_are_read_either_way() {
        let mut nvm = Nvm::new();
        let bytes = nvm.bytes(0, 2 * shadow::SECTOR_WORDS).expect("a sector");
        let words: Vec<u16> = bytes.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let sum = words.iter().fold(0u16, |sum, word| sum.wrapping_add(*word));
        assert_eq!(sum, shadow::CHECKSUM_BASE);
        nvm.control(GLNVM_SRCTL::START | (shadow::CHECKSUM as u32) << GLNVM_SRCTL::ADDR_SHIFT);
        assert_eq!(nvm.data() >> 16, words[shadow::CHECKSUM].into());
        assert_eq!(nvm.bytes(2 * shadow::SECTOR_WORDS - 1, 2), None);
        assert_eq!(nvm.bytes(usize::MAX, 2), None);
    }
}
