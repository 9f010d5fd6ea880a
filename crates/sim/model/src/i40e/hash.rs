//! Commands about the hash, which an X722's firmware has: the key of each VSI, the function's table,
//! and a table that a VSI has for itself (datasheet 332464 has none of them).
//!
//! The function's table can be reached by PFQF_HLUT, too, which Intel's headers have for the X722;
//! its keys are the VSIs' own, so that PFQF_HKEY and, of virtual functions, VFQF_HKEY1 and VFQF_HLUT1
//! only keep what is written.

use regs::i40e::admin::{Descriptor, error, hash, opcode};
use regs::i40e::*;

use super::I40e;
use super::firmware::Answer;
use super::switch::{FIRST_VF, Vsi};
use crate::{Dma, Pages};

impl<D: Dma, P: Pages> I40e<D, P> {
    /// Sets a key or a table, or reads it.
    pub(super) fn hash(&mut self, command: &mut Descriptor) -> Answer {
        let named = command.param16(hash::VSI);
        let vsi = Vsi::numbered(named & hash::VSI_MASK).filter(|_| named & hash::VSI_VALID != 0);
        let vsi = vsi.filter(|vsi| *vsi == Vsi::Main || self.switch_of(*vsi).is_some());
        let Some(vsi) = vsi else { return self.invalid(command, named.into(), error::ENOENT) };
        let of_function = command.param16(hash::FLAGS) & hash::TABLE_PF != 0;
        match (command.opcode, of_function) {
            (opcode::GET_RSS_KEY, _) => self.answer(command, &self.key(vsi)),
            (opcode::GET_RSS_LUT, true) => self.answer(command, &self.table()),
            (opcode::GET_RSS_LUT, false) => self.answer(command, &self.own_table(vsi)),
            (set, _) => {
                let (_, bytes) = self.argument(command)?;
                let wanted = match (set, of_function) {
                    (opcode::SET_RSS_KEY, _) => hash::KEY,
                    (_, true) => self.table().len(),
                    (_, false) => hash::VSI_TABLE,
                };
                if bytes.len() != wanted {
                    return self.invalid(command, bytes.len() as u64, error::EINVAL);
                }
                match (set, of_function) {
                    (opcode::SET_RSS_KEY, _) => self.set_key(vsi, &bytes),
                    (_, true) => self.set_table(&bytes),
                    (_, false) => self.set_own_table(vsi, &bytes),
                }
                self.stale = true;
                Ok(())
            }
        }
    }

    /// The key of a VSI.
    fn key(&self, vsi: Vsi) -> Vec<u8> {
        match vsi {
            Vsi::Vf(n) => self.slot(n).map_or(vec![0; hash::KEY], |slot| bytes(&slot.lock().hash.key)),
            _ => bytes(&self.switch.key),
        }
    }

    fn set_key(&mut self, vsi: Vsi, bytes: &[u8]) {
        match vsi {
            Vsi::Vf(n) => self.slot(n).into_iter().for_each(|slot| {
                let mut slot = slot.lock();
                fill(&mut slot.hash.key, bytes);
                slot.stale = true;
            }),
            _ => fill(&mut self.switch.key, bytes),
        }
    }

    /// The function's table.
    fn table(&self) -> Vec<u8> {
        let whole = self.registers.read(PFQF_CTL_0::AT) & PFQF_CTL_0::HASHLUTSIZE_512 != 0;
        let registers = if whole { PFQF_HLUT::COUNT } else { PFQF_HLUT::COUNT / 4 };
        (0..registers).flat_map(|n| self.registers.read(PFQF_HLUT::at(n)).to_le_bytes()).collect()
    }

    fn set_table(&mut self, bytes: &[u8]) {
        for (n, word) in bytes.as_chunks::<4>().0.iter().enumerate() {
            self.registers.write(PFQF_HLUT::at(n), u32::from_le_bytes(*word));
        }
    }

    /// A VSI's own table. The function's VSI has one, too, which leads nothing: its frames go by the
    /// function's table.
    fn own_table(&self, vsi: Vsi) -> Vec<u8> {
        match vsi {
            Vsi::Vf(n) => {
                self.slot(n).map_or(vec![0; hash::VSI_TABLE], |slot| bytes(&slot.lock().hash.table))
            }
            _ => bytes(&self.switch.table),
        }
    }

    fn set_own_table(&mut self, vsi: Vsi, bytes: &[u8]) {
        match vsi {
            Vsi::Vf(n) => self.slot(n).into_iter().for_each(|slot| {
                let mut slot = slot.lock();
                fill(&mut slot.hash.table, bytes);
                slot.stale = true;
            }),
            _ => fill(&mut self.switch.table, bytes),
        }
    }
}

impl Vsi {
    /// The VSI that has a number, if there is one.
    fn numbered(number: u16) -> Option<Vsi> {
        match number.checked_sub(FIRST_VF) {
            Some(n) => Some(Vsi::Vf(n)),
            None => [Vsi::Main].into_iter().find(|vsi| vsi.number() == number),
        }
    }
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn fill(words: &mut [u32], bytes: &[u8]) {
    words.iter_mut().zip(bytes.as_chunks::<4>().0).for_each(|(to, from)| *to = u32::from_le_bytes(*from));
}
