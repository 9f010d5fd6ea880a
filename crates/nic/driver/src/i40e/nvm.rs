//! The non-volatile memory (datasheet chapter 6): its shadow is read by commands and its
//! checksum looked at. A wrong one is told, as is one that cannot be read, and the port opened
//! nevertheless: the firmware runs.

use std::thread::sleep;
use std::time::{Duration, Instant};

use regs::i40e::admin::{
    ACCESS_READ, BUFFER, Descriptor, NVM_LAST, RESOURCE_NVM, RESOURCE_TIME, error, opcode,
};
use regs::i40e::*;

use super::I40eFault;
use super::admin::AdminQueue;
use super::device::Chip;
use crate::{Error, Result};

/// Words in a KiB, of which the size is a power of two.
const WORDS_PER_KIB: usize = 512;
/// How often it is looked whether another function has given the memory back, and for how long
/// at most, whatever the firmware says.
const RETRY: Duration = Duration::from_millis(10);
const LONGEST_OWNER: Duration = Duration::from_secs(18);

impl Chip {
    /// Reads the shadow RAM, and tells its version and whether its checksum is right.
    pub(super) fn verify_nvm(&self) -> Result<()> {
        let general = self.bar.read32(GLNVM_GENS::AT);
        let size = WORDS_PER_KIB << ((general & GLNVM_GENS::SR_SIZE_MASK) >> GLNVM_GENS::SR_SIZE_SHIFT);
        let words = self.with_admin(|admin| {
            take(admin)?;
            let words = read(admin, size);
            let mut give = Descriptor::new(opcode::RELEASE_RESOURCE);
            give.set_param(0, &RESOURCE_NVM.to_le_bytes());
            admin.command(give)?;
            words
        });
        let words = match words {
            Ok(words) => words,
            Err(Error::I40e(why @ (I40eFault::Refused { .. } | I40eFault::Nonsense { .. }))) => {
                tracing::warn!(port = self.name, "the NVM was not looked at: {why}");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let nvm = words.get(shadow::STARTER_VERSION).copied();
        self.know_image(nvm)?;
        tracing::debug!(port = self.name, "{}", self.firmware());
        if !sums_up(&words) {
            tracing::warn!(port = self.name, "the checksum of the NVM is wrong: write its image anew");
        }
        Ok(())
    }
}

/// Takes the memory. Another function of the card that has it is waited for as long as it may
/// keep it.
fn take(admin: &mut AdminQueue) -> Result<()> {
    let mut command = Descriptor::new(opcode::REQUEST_RESOURCE);
    command.set_param(0, &RESOURCE_NVM.to_le_bytes());
    command.set_param(2, &ACCESS_READ.to_le_bytes());
    let (start, mut limit) = (Instant::now(), None);
    loop {
        let answer = admin.answer(command)?;
        if answer.retval == 0 {
            return Ok(());
        }
        let time = Duration::from_millis(answer.param32(RESOURCE_TIME).into());
        let limit = *limit.get_or_insert(time.min(LONGEST_OWNER));
        if answer.retval != error::EBUSY || start.elapsed() >= limit {
            return Err(admin.refused(opcode::REQUEST_RESOURCE, answer.retval));
        }
        sleep(RETRY);
    }
}

/// All words of the shadow RAM.
fn read(admin: &mut AdminQueue, size: usize) -> Result<Vec<u16>> {
    let mut words = Vec::new();
    while words.len() < size {
        let bytes = (2 * (size - words.len())).min(BUFFER);
        let at = 2 * words.len();
        let mut command = Descriptor::new(opcode::NVM_READ);
        let last = at + bytes == 2 * size;
        command.set_param(0, &[if last { NVM_LAST } else { 0 }, 0]);
        command.set_param(2, &(bytes as u16).to_le_bytes());
        command.set_param(4, &(at as u32).to_le_bytes());
        let (_, data) = admin.read(command, bytes)?;
        // An answer that is too short is filled up, so that this comes to its end.
        let half = |n: usize| data.get(n).copied().unwrap_or(0);
        words.extend((0..bytes / 2).map(|n| u16::from_le_bytes([half(2 * n), half(2 * n + 1)])));
    }
    Ok(words)
}

/// Whether all words add up, but for those of the two modules that are left out.
fn sums_up(words: &[u16]) -> bool {
    let pointer = |at: usize| words.get(at).map_or(usize::MAX, |word| usize::from(*word));
    let modules = [pointer(shadow::VPD_POINTER), pointer(shadow::PCIE_ALT_POINTER)];
    let counts = |at: &usize| modules.iter().all(|first| at.wrapping_sub(*first) >= shadow::MODULE_WORDS);
    let sum = (0..words.len()).filter(counts).fold(0u16, |sum, at| sum.wrapping_add(words[at]));
    sum == shadow::CHECKSUM_BASE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_leaves_two_modules_out() {
        let mut words = vec![0u16; 2048];
        (words[shadow::VPD_POINTER], words[shadow::PCIE_ALT_POINTER]) = (0x100, 0xFFFF);
        words[0x90] = 7;
        words[shadow::CHECKSUM] =
            shadow::CHECKSUM_BASE.wrapping_sub(0x100).wrapping_sub(0xFFFF).wrapping_sub(7);
        assert!(sums_up(&words));
        words[0x150] = 1;
        assert!(sums_up(&words), "in the first module");
        words[0x300] = 1;
        assert!(!sums_up(&words), "behind it");
    }
}
