//! What a driver can get wrong when it sets interrupts up: causes that lead to
//! no vector, fields out of range, causes that nothing clears.
//!
//! 82599 datasheet rev. 3.4, section 8.2.3.5.

use regs::ixgbe::{EITR, GPIE};

use super::{Interrupts, NONE, OTHER_BITS, VALID};
use crate::ixgbe::lint::Rule;

impl Interrupts {
    /// The rule the last write broke, if any; asking takes it.
    pub fn violation(&mut self) -> Option<Rule> {
        self.violation.take()
    }

    /// What is unmasked should lead somewhere. Many drivers unmask all vectors
    /// at once: it is enough if one of them is mapped.
    pub(super) fn check_unmasked(&mut self, vectors: u32, others: u32) {
        self.check_vectors(vectors.into());
        if self.is_msix() && others != 0 && self.other_vectors(others) == 0 {
            self.violation = Some(Rule::InterruptWithoutVector);
        }
    }

    pub(super) fn check_vectors(&mut self, vectors: u64) {
        if vectors != 0 && vectors & self.mapped == 0 {
            self.violation = Some(Rule::InterruptWithoutVector);
        } else if self.is_msix() && vectors & self.uncleared != 0 {
            self.uncleared &= !vectors;
            self.violation = Some(Rule::CauseNotCleared);
        }
    }

    /// Entries of IVAR: a vector that is named should be valid.
    pub(super) fn check_entries(&mut self, value: u32) {
        if value.to_le_bytes().iter().any(|entry| entry & VALID == 0 && entry & 0x3F != 0) {
            self.violation = Some(Rule::IvarEntryInvalid);
        }
    }

    /// The vectors to which valid entries lead.
    pub(super) fn find_mapped(&mut self) {
        let queues = self.rx_vector.iter().chain(&self.tx_vector).filter(|vector| **vector != NONE);
        let queues = queues.fold(0, |mapped, vector| mapped | 1u64 << (vector & 63));
        self.mapped = queues | if self.is_msix() { self.other_vectors(OTHER_BITS) } else { 0 };
    }

    /// Automatic masking and the pending bits are of MSI-X mode (8.2.3.5.18).
    pub(super) fn check_mode(&mut self, gpie: u32) {
        if gpie & (GPIE::EIAME | GPIE::PBA_SUPPORT) != 0 && gpie & GPIE::MULTIPLE_MSIX == 0 {
            self.violation = Some(Rule::AutoMaskWithoutMsix);
        }
    }

    /// What is not of EITR's fields is no part of an interval (8.2.3.5.12).
    pub(super) fn check_interval(&mut self, eitr: u32) {
        if eitr & EITR::REGISTER.reserved != 0 {
            self.violation = Some(Rule::EitrOutOfRange);
        }
    }
}
