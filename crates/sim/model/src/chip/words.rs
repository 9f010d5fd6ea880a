//! Accesses of registers that have 32 bits each, as most chips' have.

use super::Chip;
use crate::Wire;

/// Wider accesses are several, narrower ones read the register that they lie in.
pub(super) fn read<W, C>(chip: &mut C, offset: u32, data: &mut [u8]) -> bool
where
    W: Wire,
    C: Chip<W> + ?Sized,
{
    let (mut done, mut fits) = (0, true);
    while done < data.len() {
        let at = offset + done as u32;
        let part = (4 - at as usize % 4).min(data.len() - done);
        if part < 4 {
            chip.odd(at, data.len());
            fits = false;
        }
        let word = chip.read(at & !3);
        copy_word(word, at, &mut data[done..done + part]);
        done += part;
    }
    fits
}

/// Narrower writes are ignored, as the chips do (82599, section 8.1.2).
pub(super) fn write<W, C>(chip: &mut C, offset: u32, data: &[u8]) -> bool
where
    W: Wire,
    C: Chip<W> + ?Sized,
{
    if !offset.is_multiple_of(4) || !data.len().is_multiple_of(4) {
        chip.odd(offset, data.len());
        return false;
    }
    for (at, word) in (offset..).step_by(4).zip(data.as_chunks::<4>().0) {
        chip.write(at, u32::from_le_bytes(*word));
    }
    true
}

/// The bytes of a register that an access at `offset` wants.
pub fn copy_word(word: u32, offset: u32, data: &mut [u8]) {
    let bytes = word.to_le_bytes();
    let skip = offset as usize % 4;
    for (byte, &from) in data.iter_mut().zip(&bytes[skip..]) {
        *byte = from;
    }
}
